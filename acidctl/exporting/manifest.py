"""The list of an export's files, by which acidctl knows an export of its own before it replaces or removes anything.

It lies in the directory of the export as `_acidctl_export.json`, which readers pass over as they do over `_SUCCESS`.
A directory is an export of ours as long as everything in it is in the list with its size. Exports of versions before
that had a list are known by the names of their files alone, and only where the user agrees to that.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from acidctl.errors import AcidctlError, ExistsError
from acidctl.format.listing import FileInfo
from acidctl.format.names import BaseDir, DeltaDir, is_marker, parse_directory
from acidctl.storage.local import LocalStorage, together
from acidctl.storage.port import Storage, Walk, join
from acidctl.values import dataclass

SUCCESS = "_SUCCESS"
MANIFEST = "_acidctl_export.json"
AGREE = "--unsafe-overwrite-unlisted"
_TYPE, _SCHEMA_VERSION = "acidctl_export", 1
_MOST_BYTES = 256 << 20
_SHOWN = 10
# Files of an export: `part-00000.parquet`, `ds=1/hr=2/part-00003-0a1b2c3d.csv.gz`.
_DATA = re.compile(
    r"(?:[^/]+=[^/]*/)*part-[0-9]{5,}(?:-[0-9a-f]{8})?(\.(?:parquet|arrow|csv|jsonl)(?:\.gz|\.zst)?)", re.DOTALL
)
_OTHERWISE = "Choose another name, or remove that directory by hand."

#: Paths below a directory, with their sizes in bytes.
Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a directory that may go: its files with their sizes, and its directories."""

    files: Sizes
    directories: tuple[str, ...]


def to_bytes(files: Sizes) -> bytes:
    """The content of a list."""
    entries = [{"path": path, "bytes": files[path]} for path in sorted(files)]
    return json.dumps({"type": _TYPE, "schema_version": _SCHEMA_VERSION, "files": entries}, indent=1).encode() + b"\n"


def is_link(storage: Storage, path: str) -> bool:
    """Whether a path of this machine is a symbolic link itself."""
    return isinstance(storage, LocalStorage) and os.path.islink(path)


def read(storage: Storage, path: str) -> Sizes | None:
    """The list at a path; None where there is none, or what is there was not written by acidctl, or not whole."""
    found = storage.stat(path)
    if found is None or found.is_directory or found.size > _MOST_BYTES:
        return None
    with storage.open(path) as stream:
        content = stream.read(_MOST_BYTES)
    try:
        values = json.loads(content)
        if values["type"] != _TYPE or values["schema_version"] != _SCHEMA_VERSION:
            return None
        files = {entry["path"]: entry["bytes"] for entry in values["files"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not all(isinstance(name, str) and isinstance(size, int) for name, size in files.items()):
        return None
    return files if all(map(_may_be_listed, files)) else None


def _may_be_listed(name: str) -> bool:
    """Whatever a list says, what is removed because of it has the name of an export's file; "" is a single file."""
    return name in ("", SUCCESS, MANIFEST) or _DATA.fullmatch(name) is not None


def data_files(walk: Walk) -> dict[str, int]:
    """The files with rows of an export, from a listing of its directory."""
    return {info.path: info.size for info in walk.files if _DATA.fullmatch(info.path)}


def contents(
    storage: Storage, path: str, lists: Sequence[Sizes | None] = (), *, agreed: bool = False, begun: bool = False
) -> Contents:
    """What is in a directory, if it is an export of ours by its own list or by `lists`; ExistsError names what is not.

    `agreed`: the names of an export's files are enough, and `_SUCCESS`; with `begun` also without that.
    """
    known = [one for one in (*lists, read(storage, join(path, MANIFEST))) if one is not None]
    shown = storage.display(path)
    if is_link(storage, path):
        raise ExistsError(f"{shown} is a symbolic link, so it is not replaced", path=shown, hint=_OTHERWISE)
    if not known and not (agreed or begun):
        raise ExistsError(
            f"{shown} has no {MANIFEST}, the list by which acidctl knows an export of its own, so it is not replaced",
            path=shown,
            hint=_unlisted_hint(storage, path),
        )
    refused: list[str] = []
    walk = _listed(storage, path, refused)
    foreign = _foreign(walk, refused, known, by_name=not known, begun=begun)
    if not known and not foreign and not begun and SUCCESS not in {info.path for info in walk.files}:
        foreign = f"has neither {MANIFEST} nor {SUCCESS}, as an export has"
    if foreign:
        raise ExistsError(f"{shown} {foreign}, so it is not replaced", path=shown, hint=_OTHERWISE)
    return Contents({info.path: info.size for info in walk.files}, walk.directories)


def _listed(storage: Storage, path: str, refused: list[str]) -> Walk:
    """What is below a directory; folders that no export has are added to `refused`, and not entered."""

    def descend(relative: str) -> bool:
        known = "=" in relative.rpartition("/")[2]
        if not known:
            refused.append(relative)
        return known

    # Where directories are prefixes of names, one listing has it all.
    return storage.walk(path, descend if storage.facts.empty_directories else None)


def _foreign(walk: Walk, refused: Sequence[str], known: Sequence[Sizes], *, by_name: bool, begun: bool) -> str:
    """What is not an export's, as the rest of a sentence; "" where all is.

    `by_name` goes by names alone, `begun` knows folders of partitions in which there is nothing yet.
    """
    directories = [*refused, *walk.directories]
    for entry in (*directories, *(info.path for info in walk.files)):
        if any(map(is_of_a_table, entry.split("/"))):
            return f"holds {entry}: it is a table, or a table lies in it"
    for entry in (*walk.links, *walk.special):
        return f"holds {entry}, which is {walk.special.get(entry, 'a symbolic link')}"
    for info in walk.files:
        if why := _foreign_file(info, known, by_name=by_name):
            return why
    endings = {match[1] for info in walk.files if (match := _DATA.fullmatch(info.path))}
    if by_name and len(endings) > 1:
        return f"holds files of {len(endings)} formats ({', '.join(sorted(endings))}), as no export does"
    made = {parent for files in (*known, data_files(walk)) for name in files for parent in _parents(name)}
    for entry in refused if begun else directories:
        if entry not in made:
            return f"holds the directory {entry}, which no export has made"
    return ""


def _foreign_file(info: FileInfo, known: Sequence[Sizes], *, by_name: bool) -> str:
    name = info.path
    if any(one.get(name) == info.size for one in known) or (name == SUCCESS and not info.size):
        return ""
    if (name == MANIFEST and known) or (by_name and _DATA.fullmatch(name)):
        return ""
    if any(name in one for one in known):
        return f"holds {name}, which has {info.size:,} bytes and another size in {MANIFEST}"
    return f"holds {name}, which no export has written"


def _parents(name: str) -> Iterator[str]:
    while name := name.rpartition("/")[0]:
        yield name


def is_of_a_table(name: str) -> bool:
    """Whether only a table's directories hold a file or directory of this name."""
    return is_marker(name) or isinstance(parse_directory(name), BaseDir | DeltaDir)


def _unlisted_hint(storage: Storage, path: str) -> str:
    """What to do about a directory without a list: agree, where it looks like an export, and what would go then."""
    try:
        found = contents(storage, path, agreed=True)
    except AcidctlError:
        return _OTHERWISE
    return f"If it is an export of an earlier version, add {AGREE}; that removes {described(found.files)}."


def described(files: Sizes) -> str:
    """Names of files for a sentence."""
    names = sorted(files)
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more} ({sum(files.values()):,} bytes)"


def remove(storage: Storage, path: str, found: Contents) -> None:
    """Remove these files and then directories, each of which is empty then; StorageError where one is not.

    The list goes last of the files, so that a part that is left is still known.
    """
    by_folder: dict[str, list[str]] = {name: [] for name in ("", *found.directories)}
    for name in found.files:
        by_folder.setdefault(name.rpartition("/")[0], []).append(name)
    last = [name for name in (SUCCESS, MANIFEST) if name in found.files]
    for name in last:
        by_folder[""].remove(name)
    if storage.facts.empty_directories:
        for folder in sorted(by_folder, key=lambda name: (name.count("/") if name else -1, name), reverse=True):
            place = join(path, folder)
            with together(place, lasting=False):
                storage.remove_files([join(path, name) for name in (*by_folder[folder], *(() if folder else last))])
                storage.rmdir(place)
        return
    for names in ([name for some in by_folder.values() for name in some], last):
        if names:
            storage.remove_files([join(path, name) for name in sorted(names)])
    storage.rmdir(path)
