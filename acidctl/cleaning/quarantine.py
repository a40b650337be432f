"""Boxes for what `clean` takes out of a location without deleting it, and the way back.

    <location>/_acidctl_quarantine/<id>/manifest.json   what was taken, why, and what covered it; written first
    <location>/_acidctl_quarantine/<id>/data/<name>     the directories and files themselves, moved

A box within a location belongs to the directory that holds it, whatever that is called by now. It may also lie in a
directory of the user's choice on the same storage; there the manifest tells whose it is. One box holds what one run
took out of one location. Whatever dies between, an entry is either in its place or in the box; on object stores, where
moving is copying and then removing, it may be in both, until `end_moves` has ended what was begun.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acidctl.cleaning.plan import Entry
from acidctl.compaction.plan import decode, encode
from acidctl.errors import DamagedDataError, NoSuchTableError, StorageError
from acidctl.format.listing import Listing
from acidctl.format.names import METADATA_MARKER, QUARANTINE_NAME
from acidctl.maintenance.lock import is_id
from acidctl.maintenance.work_dir import make_directory, remove_directory, remove_file, write_file
from acidctl.storage.locations import canonical, real_name
from acidctl.storage.port import Storage, join

MANIFEST_NAME = "manifest.json"
DATA = "data"
MANIFEST_TYPE = "acidctl_quarantine"
SCHEMA_VERSION = 1
_LIMIT = 1 << 28
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a box holds or was meant to hold; `location` is the canonical name that the place had.

    `created` is ISO 8601 in UTC; `write_ids` and `txns` are the lists by which it was judged. `within` tells whether
    the box was made in that very place; None where an earlier version did not say so.
    """

    id: str
    created: str
    location: str
    partition: str
    write_ids: str
    txns: str
    entries: tuple[Entry, ...]
    within: bool | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """A box that was found."""

    path: str
    manifest: Manifest

    def content(self, name: str) -> str:
        """The place of what a location had at its top level."""
        return join(self.path, f"{DATA}/{name}")

    def owner(self, storage: Storage) -> str:
        """The canonical name of the place to which it belongs."""
        # Links are followed first: a folder that several places link to is within none of them.
        around, _, name = canonical(storage, self.path.rpartition("/")[0]).rpartition("/")
        if name == QUARANTINE_NAME and self.manifest.within is not False:
            return around
        return real_name(storage, self.manifest.location)


def make_box(storage: Storage, base: str, manifest: Manifest, *, like: str) -> Box:
    """Make a box below `base`, which is made where only it is missing; the manifest is there before anything moves.

    All of it has owner and mode of `like`, the location: who may clean that has to be able to bring back.
    """
    if storage.stat(base) is None:
        parent = base.rpartition("/")[0]
        if parent and storage.facts.empty_directories and storage.stat(parent) is None:
            shown = storage.display(parent)
            raise StorageError(
                f"the quarantine {storage.display(base)} cannot be made: {shown} does not exist",
                path=storage.display(base),
                hint=f"Make the directory {shown} first, or name a directory that exists.",
            )
        make_directory(storage, base, like)
    box = Box(join(base, manifest.id), manifest)
    make_directory(storage, box.path, like)
    values = {"type": MANIFEST_TYPE, "schema_version": SCHEMA_VERSION, **encode(manifest)}
    write_file(storage, join(box.path, MANIFEST_NAME), json.dumps(values, indent=1).encode("ascii"), like)
    make_directory(storage, join(box.path, DATA), like)
    return box


def end_moves(storage: Storage, root: str, box: Box) -> list[str]:
    """End moves that stopped in the middle; sentences of what was done. There are none where renames are atomic.

    What is whole on one side is removed from the other; where neither side holds all of the other, both stay.
    """
    if storage.facts.atomic_rename:
        return []
    sentences = []
    for entry in box.manifest.entries:
        for name in entry.paths:
            place, boxed = join(root, name), box.content(name)
            here, there = _sizes(storage, place), _sizes(storage, boxed)
            if not here or not there:
                continue
            if here.items() <= there.items():
                gone, kept = place, "the quarantine"
            elif there.items() <= here.items():
                gone, kept = boxed, "its place"
            else:
                continue
            (remove_file if "" in here else remove_directory)(storage, gone)
            sentences.append(f"Ended an interrupted move of {name}: all of it is in {kept}.")
    return sentences


def _sizes(storage: Storage, path: str) -> dict[str, int]:
    """Files below a path with their sizes; a file itself by an empty name."""
    found = storage.stat(path)
    if found is None:
        return {}
    return {info.path: info.size for info in storage.walk(path).files} if found.is_directory else {"": found.size}


def find_boxes(storage: Storage, base: str) -> tuple[Box, ...]:
    """All boxes below `base`, the oldest first; DamagedDataError for a manifest that cannot be read.

    Box folders without a manifest, or with a torn one and nothing else, are those of a run that died before it had
    moved anything.
    """
    if storage.stat(base) is None:
        return ()
    found = []
    listed = storage.walk(base, lambda path: "/" not in path)
    linked = {path.partition("/")[0] for path in listed.links}
    for name in listed.directories:
        path = join(base, name)
        # A box that is a link, or holds one in the place of what is ours, is another program's.
        if not is_id(name) or name in linked or storage.stat(join(path, MANIFEST_NAME)) is None:
            continue
        try:
            manifest = _read(storage, join(path, MANIFEST_NAME))
        except DamagedDataError:
            if storage.stat(join(path, DATA)) is None:
                continue
            raise
        if manifest.id == name:
            found.append(Box(path, manifest))
    return tuple(sorted(found, key=lambda box: (box.manifest.created, box.manifest.id)))


def boxes_of(storage: Storage, root: str, found: Iterable[Box]) -> tuple[Box, ...]:
    """Those of the boxes that belong to a location."""
    place = canonical(storage, root)
    return tuple(box for box in found if box.owner(storage) == place)


def boxes_of_others(storage: Storage, table: str, found: Iterable[Box]) -> list[Box]:
    """Those that belong to no place of the table that is still there, neither by their folder nor by a link."""
    top = canonical(storage, table)
    others = []
    for box in found:
        owner = box.owner(storage)
        inside = owner[len(top) + 1 :] if owner.startswith(top + "/") else ""
        paths = (join(table, inside), join(table, box.manifest.partition))
        if not any(canonical(storage, path) == owner and storage.stat(path) is not None for path in paths):
            others.append(box)
    return others


def describe_others(storage: Storage, others: Sequence[Box]) -> str:
    """What the boxes of others were taken from; a directory that serves many tables is not listed in full."""
    base = others[0].path.rpartition("/")[0]
    places = list(dict.fromkeys(box.owner(storage) for box in others))
    more = f" and {len(places) - _MOST_NAMED:,} other places" if len(places) > _MOST_NAMED else ""
    return f"{storage.display(base)} holds what was taken from {', '.join(places[:_MOST_NAMED])}{more}, left as it is"


def held(storage: Storage, box: Box) -> Listing:
    """What the box still holds, as a listing of the location would show it; markers of bases are read."""
    data = join(box.path, DATA)
    try:
        found = storage.walk(data)
    except NoSuchTableError:
        return Listing(data)
    markers = {}
    for info in found.files:
        if info.name == METADATA_MARKER:
            with storage.open(join(data, info.path)) as stream:
                markers[info.path] = stream.read(4096)
    return Listing(data, found.files, found.directories, markers, found.links, found.special)


def close_box(storage: Storage, box: Box) -> None:
    """Remove a box that holds nothing any more, and our own folder around it when it was the last one.

    Does nothing while anything is in it. The manifest goes last, so that an interrupted removal is found again.
    """
    content = held(storage, box)
    if content.files or content.directories:
        return
    remove_directory(storage, join(box.path, DATA))
    remove_file(storage, join(box.path, MANIFEST_NAME))
    remove_directory(storage, box.path)
    base = box.path.rpartition("/")[0]
    if base.rpartition("/")[2] == QUARANTINE_NAME and storage.stat(base) is not None:
        rest = storage.walk(base, lambda path: "/" not in path)
        if not rest.files and not rest.directories:
            remove_directory(storage, base)


def default_base(root: str) -> str:
    """Where the boxes of a location are, unless the user says otherwise."""
    return join(root, QUARANTINE_NAME)


def _read(storage: Storage, path: str) -> Manifest:
    shown = storage.display(path)
    try:
        with storage.open(path) as stream:
            values: Any = json.loads(stream.read(_LIMIT).decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise _damaged(shown) from error
    if not isinstance(values, Mapping) or values.get("type") != MANIFEST_TYPE:
        raise _damaged(shown)
    if values.get("schema_version") != SCHEMA_VERSION:
        raise StorageError(f"{shown} was written by another version of acidctl", path=shown)
    return decode(Manifest, values, "manifest")


def _damaged(shown: str) -> DamagedDataError:
    return DamagedDataError(
        f"{shown} is not the manifest of a quarantine",
        path=shown,
        hint="What lies beside it can be looked at and moved by hand; acidctl restores only what a manifest names.",
    )
