"""What a cleaner does with files: it looks into them, and moves them into the boxes of a quarantine and back.

Only opened files tell whether covers are complete, and whether a delta without a cover is empty. A location without
victims costs nothing here; one with victims costs the tails of its covers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any, BinaryIO

from acidctl.cleaning.decisions import Rules, Survey, contains, survey
from acidctl.cleaning.plan import Compared, Entry, Evidence
from acidctl.compaction.plan import decode, encode
from acidctl.errors import AcidctlError, DamagedDataError, NoSuchTableError, StorageError
from acidctl.fileformats.plain import PlainFiles
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    LOCK_NAME,
    METADATA_MARKER,
    OWNER_NAME,
    QUARANTINE_NAME,
    VERSION_MARKER,
    WORK_PREFIX,
    BaseDir,
    DeltaDir,
    must_hold_events,
    must_not_hold_events,
)
from acidctl.format.write_ids import Reader
from acidctl.maintenance.lock import Life, from_bytes, is_id, life_of
from acidctl.maintenance.work_dir import WORK_TYPE, make_directory, remove_directory, remove_file, write_file
from acidctl.orc.input_file import read_logical_length
from acidctl.orc.reader import open_orc
from acidctl.orc.tail import MAGIC, check_shape, read_tail
from acidctl.rows.belief import findings_of
from acidctl.rows.old_lists import lists_too_old
from acidctl.state.entries import Directory, EntryKind, MarkerContent, StateEntry, TableType
from acidctl.state.inventory import DataFile, data_files, live_entries
from acidctl.state.resolve import TableGuess, resolve
from acidctl.storage.locations import canonical, real_name
from acidctl.storage.port import Storage, join
from acidctl.types.schema import TableSchema
from acidctl.values import dataclass

_PARQUET = b"PAR1"
_LIMIT = 1 << 16


def look_around(storage: Storage, listing: Listing, common: Reader, kind: TableGuess, rules: Rules) -> Survey:
    """Judge a listing with everything that storage tells beside it: times of directories, owners of work."""

    def time_of(name: str) -> float | None:
        # Prefixes of names have no time of their own.
        found = storage.stat(join(listing.root, name)) if storage.facts.empty_directories else None
        return None if found is None else found.modified

    return survey(listing, common, kind, rules, time_of=time_of, dead=tuple(_dead(storage, listing)))


def look_into(storage: Storage, seen: Survey, schema: TableSchema | None = None) -> Evidence:
    """Open the ends of what the guards have to know of; doubts are asked for only where something goes.

    `schema` is what the DDL says of text files.
    """
    evidence = _Reader(storage, seen, {}, schema).evidence()
    if not seen.goes:
        return evidence
    try:
        state = resolve(seen.listing, seen.common, table_type=seen.kind, raise_on_history=False)
        return replace(evidence, doubts=findings_of(storage, seen.listing.root, state))
    except AcidctlError as error:
        return replace(evidence, unread=f"what readers see here cannot be read: {error.message}")


def look_into_restored(storage: Storage, seen: Survey, elsewhere: Mapping[str, str]) -> Evidence:
    """What the guards have to know of a location before something comes back: nothing is lost by that.

    `elsewhere` maps top-level names that are judged as if they were in the location to the directories that hold them.
    """
    nothing = Compared(None, "nothing is removed")
    return replace(_Reader(storage, seen, elsewhere).evidence(), rows=nothing)


def _dead(storage: Storage, listing: Listing) -> Iterator[str]:
    """Work directories whose owner is known to have ended."""
    locked = any(info.path == LOCK_NAME for info in listing.files)
    for info in listing.files:
        work, _, name = info.path.partition("/")
        if name == OWNER_NAME and work.startswith(WORK_PREFIX):
            try:
                with storage.open(join(listing.root, info.path)) as stream:
                    owner = from_bytes(stream.read(_LIMIT), WORK_TYPE)
            except AcidctlError:
                continue  # it has just been removed, or may not be read: then nothing is known
            if owner is None or work != WORK_PREFIX + owner.id:
                continue
            life = life_of(owner)
            # An earlier run of this very process is over when it has no lock.
            if life is Life.DEAD or (life is Life.OURSELVES and not locked):
                yield work


@dataclass(frozen=True, slots=True)
class _Reader:
    """Looks into directories of one location, some of which may be `elsewhere`."""

    storage: Storage
    seen: Survey
    elsewhere: Mapping[str, str]
    schema: TableSchema | None = None

    @property
    def insert_only(self) -> bool:
        """Whether the files hold plain rows."""
        return self.seen.kind.type is TableType.INSERT_ONLY

    def evidence(self) -> Evidence:
        """What the guards have to know; a file that cannot be read makes its cover incomplete."""
        covers: dict[str, str | None] = {}
        for cover in self.seen.covers:
            try:
                covers[cover.name] = self._problem(cover)
            except AcidctlError as error:
                covers[cover.name] = f"{cover.name} is not complete: {error.message}"
        empty = {delta.name: self._is_empty(delta) for delta in self.seen.one_sided}
        return Evidence(covers, empty, too_old=self._too_old())

    def _too_old(self) -> str | None:
        """Why the lists are older than a compaction whose inputs are gone, where something is to go by them."""
        seen = self.seen
        if self.elsewhere or not seen.chosen.victims:
            return None
        state = resolve(seen.listing, seen.common, table_type=seen.kind, raise_on_history=False)
        ids, plain = seen.common.effective_write_ids, PlainFiles(self.schema)
        try:
            found = lists_too_old(self.storage, seen.listing.root, state, ids, plain)
        except AcidctlError as error:
            return f"whether the lists are older than a compaction is not known: {error.message}"
        return None if found is None else found.reason

    def _problem(self, cover: Directory) -> str | None:
        """Why a directory is no cover; an empty compaction has to stand for nothing."""
        files = data_files(cover, insert_only=self.insert_only)
        marked = any(info.path == f"{cover.name}/{VERSION_MARKER}" for info in cover.files)
        # All that TRUNCATE writes in Hive 4 is the mark that says so.
        truncated = cover.marker is MarkerContent.OVERWRITE
        if not (marked or truncated) and not any(file.info.size for file in files):
            return f"{cover.name} is not complete: holds neither {VERSION_MARKER} nor a data file"
        if self._count(files) != 0 or self.seen.kind.acid_v1:
            return None
        if isinstance(cover.parsed, DeltaDir):
            for delta in self.seen.chosen.decided:
                if delta.kind is cover.kind and contains(cover.delta, delta.delta) and not self._is_empty(delta):
                    why = f"it holds no event at all, and {delta.name}, which it covers, holds some"
                    return f"{cover.name} is not complete: {why}"
        return self._below(cover) if cover.is_compacted and isinstance(cover.parsed, BaseDir) else None

    def _below(self, base: Directory) -> str | None:
        """What is wrong with a base without rows: a reader would find more rows than deletes if there were no such."""
        top, seen = base.base.write_id, self.seen
        later = {other.name for other in seen.inventory.bases if other.base.write_id >= top}
        state = resolve(seen.listing.without(later), seen.common, table_type=seen.kind, raise_on_history=False)
        counts = {True: 0, False: 0}
        for entry in live_entries(state):
            if entry.max_write_id is not None and entry.max_write_id > top:
                continue
            why = f"{base.name} is not complete: it holds no rows, and what it covers"
            try:
                count = self._count_visible(entry)
            except AcidctlError as error:
                return f"{why} cannot be counted: {error.message}"
            if count is None:
                return f"{why} is not ORC and cannot be counted"
            counts[entry.kind is EntryKind.DELETE_DELTA] += count
        if counts[False] <= counts[True]:
            return None
        return (
            f"{base.name} holds no rows, but what it covers holds {counts[False]} and only {counts[True]} deletes; "
            "Hive 4.0 is known to write such bases by mistake"
        )

    def _is_empty(self, delta: Directory) -> bool:
        """Whether readers see no event of a delta: it has no rows, or only those of aborted writes."""
        try:
            return not any(self._visible(file, enough=1) for file in data_files(delta, insert_only=self.insert_only))
        except AcidctlError:
            return False

    def _count(self, files: Iterable[DataFile]) -> int | None:
        """Rows by the footers, None where a file is not ORC; DamagedDataError for what cannot be whole."""
        rows = [self._rows(file) for file in files]
        return None if None in rows else sum(filter(None, rows))

    def _count_visible(self, entry: StateEntry) -> int | None:
        """The same of an entry without the events of aborted writes, which are in its files and count for nobody."""
        files = data_files(entry, insert_only=self.insert_only)
        low, high = entry.min_write_id, entry.max_write_id
        aborted = low is not None and high is not None and self.seen.common.effective_write_ids.aborted_in(low, high)
        if self.insert_only or not aborted:
            return self._count(files)
        return sum(self._visible(file) for file in files)

    def _rows(self, file: DataFile) -> int | None:
        with self._opened(file) as (stream, shown, length):
            if not length:
                return 0
            head = stream.read(len(_PARQUET)) if self.insert_only else MAGIC
            if head == _PARQUET:
                stream.seek(length - len(_PARQUET))
                if stream.read(len(_PARQUET)) != _PARQUET:
                    raise DamagedDataError(f"{shown} does not end as a Parquet file does", path=shown)
                return None
            if not head.startswith(MAGIC):
                return None
            tail = read_tail(stream, name=shown, length=length)
            rows = not self.insert_only and must_not_hold_events(file.info.path)
            return check_shape(tail, events=self._holds_events(file), rows=rows).rows

    def _visible(self, file: DataFile, *, enough: int | None = None) -> int:
        """The events of a file that are not of aborted writes; after `enough` of them nobody counts on."""
        with self._opened(file) as (stream, shown, length):
            if not length:
                return 0
            orc = open_orc(stream, name=shown, length=length, events=self._holds_events(file))
            if not orc.rows or not orc.is_acid:
                return orc.rows
            ids = self.seen.common.effective_write_ids
            found = 0
            for batch in orc.scan(["currentTransaction"]):
                counts = batch.column(0).value_counts().to_pylist()
                found += sum(each["counts"] for each in counts if not ids.is_aborted(each["values"]))
                if enough is not None and found >= enough:
                    break
            return found

    def _holds_events(self, file: DataFile) -> bool:
        return not self.insert_only and must_hold_events(file.info.path)

    @contextmanager
    def _opened(self, file: DataFile) -> Iterator[tuple[BinaryIO, str, int]]:
        """The bytes of a file, what it is called, and its logical end; nothing is opened of an empty one."""

        def path(info: FileInfo) -> str:
            return join(self.elsewhere.get(info.path.partition("/")[0], self.seen.listing.root), info.path)

        length = file.info.size
        if file.side_file is not None:
            side = path(file.side_file)
            with self.storage.open(side) as stream:
                length = read_logical_length(stream, name=self.storage.display(side))
        own = path(file.info)
        with self.storage.open(own) if length else BytesIO() as stream:
            yield stream, self.storage.display(own), length


# --- Boxes for what `clean` takes out of a location without deleting it, and the way back.
#
#     <location>/_acidctl_quarantine/<id>/manifest.json   what was taken, why, and what covered it; written first
#     <location>/_acidctl_quarantine/<id>/data/<name>     the directories and files themselves, moved
#     DIR/_acidctl_quarantine_<id>/...                    the same in a directory of the user's choice
#
# A box within a location belongs to the directory that holds it, whatever that is called by now. It may also lie in a
# directory of the user's choice on the same storage; there the manifest tells whose it is, and its name hides it from
# readers of whatever that directory is (earlier versions called it `<id>` there too). One box holds what one run
# took out of one location. Whatever dies between, an entry is either in its place or in the box; on object stores,
# where moving is copying and then removing, it may be in both, until `end_moves` has ended what was begun.


_BOX_PREFIX = QUARANTINE_NAME + "_"
MANIFEST_NAME = "manifest.json"
DATA = "data"
MANIFEST_TYPE = "acidctl_quarantine"
SCHEMA_VERSION = 1
_LARGEST_MANIFEST = 1 << 28
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
    hidden = base.rpartition("/")[2] == QUARANTINE_NAME
    box = Box(join(base, manifest.id if hidden else _BOX_PREFIX + manifest.id), manifest)
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
        path, id_ = join(base, name), name.removeprefix(_BOX_PREFIX)
        # A box that is a link, or holds one in the place of what is ours, is another program's.
        if not is_id(id_) or name in linked or storage.stat(join(path, MANIFEST_NAME)) is None:
            continue
        try:
            manifest = _read(storage, join(path, MANIFEST_NAME))
        except DamagedDataError:
            if storage.stat(join(path, DATA)) is None:
                continue
            raise
        if manifest.id == id_:
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
            values: Any = json.loads(stream.read(_LARGEST_MANIFEST).decode("ascii"))
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
