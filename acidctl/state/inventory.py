"""Sort a listing into bases, deltas, originals and the rest, under our own rules.

Decides nothing about visibility. Every file and every top-level directory of the listing ends in exactly one
place.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from weakref import ref

from acidctl.format.listing import FileInfo, Listing, is_foreign
from acidctl.format.names import (
    METADATA_MARKER,
    VERSION_MARKER,
    BaseDir,
    DeltaDir,
    HiddenName,
    Marker,
    OtherDir,
    Unrecognised,
    is_hidden,
    parse_directory,
    parse_file,
    path_order_key,
)
from acidctl.state.entries import (
    Candidate,
    EntryKind,
    EntryState,
    MarkerContent,
    StateEntry,
    Stock,
)

_MARKER_REASONS = {
    VERSION_MARKER: "states the ACID version of the directory; no reader decides by it",
    METADATA_MARKER: "states what made a directory, and says nothing at the location itself",
}
_DATA_FORMATS = {
    "COMPACTED": MarkerContent.COMPACTED,
    "TRUNCATED": MarkerContent.OVERWRITE,
    "DROPPED": MarkerContent.OVERWRITE,
}


# A location is judged several times, by several readers' rules, and all locations once before: each is sorted once, and
# forgotten with its listing.
_taken: dict[int, tuple[ref[Listing], Stock]] = {}


def take_stock(listing: Listing) -> Stock:
    """Sort a listing; base and delta directories count at the top level only."""
    key = id(listing)
    known = _taken.get(key)
    if known is not None and known[0]() is listing:
        return known[1]
    stock = _sort(listing)
    _taken[key] = (ref(listing, lambda _: _taken.pop(key, None)), stock)
    return stock


def _sort(listing: Listing) -> Stock:
    top_files, below, nested_notes = _group(listing)
    bases: list[Candidate] = []
    deltas: list[Candidate] = []
    group: list[FileInfo] = []
    other: list[str] = []
    settled: list[StateEntry] = []
    for file in top_files:
        parsed = parse_file(file.path)
        if isinstance(parsed, Marker):
            settled.append(_marker_entry(file))
        elif isinstance(parsed, HiddenName):
            settled.append(_hidden_entry(file.path, parsed.reason, (file,)))
        else:
            group.append(file)
    for name, files in below.items():
        directory = parse_directory(name.rpartition("/")[2])
        if "/" in name:
            settled.append(_nested_entry(name, files))
        elif isinstance(directory, BaseDir | DeltaDir):
            candidate = _candidate(name, directory, files, listing.markers)
            (bases if isinstance(directory, BaseDir) else deltas).append(candidate)
        elif isinstance(directory, HiddenName):
            settled.append(_hidden_entry(name, directory.reason, files))
        elif isinstance(directory, Unrecognised):
            settled.append(_unrecognised_entry(name, directory.reason, files))
        elif isinstance(directory, OtherDir):
            if any(_is_visible(file.path) for file in files):
                other.append(name)
                group.extend(files)
            else:
                settled.append(_bare_entry(name, files))
    settled.extend(_link_entry(path) for path in sorted(listing.links) if path and "/" not in path and is_foreign(path))
    visible = sorted((f for f in group if _is_visible(f.path)), key=lambda f: path_order_key(f.path))
    return Stock(
        bases=tuple(sorted(bases, key=lambda c: path_order_key(c.name))),
        deltas=tuple(sorted(deltas, key=lambda c: path_order_key(c.name))),
        original_files=tuple(visible),
        original_directories=tuple(sorted(other, key=path_order_key)),
        group_files=tuple(sorted(group, key=lambda f: path_order_key(f.path))),
        settled=tuple(settled),
        notes=nested_notes,
    )


def read_marker(content: bytes) -> tuple[MarkerContent, str | None]:
    """What the content of a `_metadata_acid` says, and what is wrong with it (MetaDataFile.isCompacted)."""
    try:
        facts = json.loads(content.decode("utf-8"))
        version, data_format = str(facts["thisFileVersion"]), str(facts["dataFormat"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return MarkerContent.BAD, "is no JSON object with thisFileVersion and dataFormat"
    if version != "0":
        return MarkerContent.BAD, f"has version {version[:20]!r}, known is '0'"
    known = _DATA_FORMATS.get(data_format.upper())
    if known is None:
        return (
            MarkerContent.BAD,
            f"has data format {data_format[:20]!r}, known are compacted, truncated, dropped",
        )
    return known, None


def has_hidden_part(path: str) -> bool:
    """Whether any part of a relative path is hidden."""
    return any(is_hidden(part) for part in path.split("/"))


def _is_visible(path: str) -> bool:
    return not has_hidden_part(path)


def _group(
    listing: Listing,
) -> tuple[list[FileInfo], dict[str, tuple[FileInfo, ...]], tuple[str, ...]]:
    """Files of the location itself, and files by top-level directory or nested base or delta directory."""
    owners: dict[str, str] = {}
    below: dict[str, list[FileInfo]] = {}
    top: list[FileInfo] = []
    for directory in listing.directories:
        below.setdefault(_owner(directory, owners), [])
    for file in listing.files:
        directory = file.directory
        if directory:
            below.setdefault(_owner(directory, owners), []).append(file)
        else:
            top.append(file)
    nested = [name for name in below if "/" in name]
    notes = [f"{len(nested)} base or delta directories lie inside other directories and are not read."]
    return (
        sorted(top, key=lambda f: path_order_key(f.path)),
        {name: tuple(sorted(below[name], key=lambda f: path_order_key(f.path))) for name in sorted(below)},
        tuple(notes if nested else ()),
    )


def _owner(directory: str, known: dict[str, str]) -> str:
    """The entry a directory belongs to: its first part, or the first base or delta inside that."""
    owner = known.get(directory)
    if owner is None:
        first, *rest = directory.split("/")
        owner = first
        if rest and not is_hidden(first):
            for index, part in enumerate(rest):
                if is_hidden(part):
                    break
                if isinstance(parse_directory(part), BaseDir | DeltaDir):
                    owner = "/".join([first, *rest[: index + 1]])
                    break
        known[directory] = owner
    return owner


def _candidate(
    name: str, parsed: BaseDir | DeltaDir, files: tuple[FileInfo, ...], markers: Mapping[str, bytes]
) -> Candidate:
    path = f"{name}/{METADATA_MARKER}"
    if isinstance(parsed, DeltaDir) or not any(file.path == path for file in files):
        return Candidate(name, parsed, files)
    content = markers.get(path)
    if content is None:
        return Candidate(name, parsed, files, MarkerContent.UNREAD)
    marker, problem = read_marker(content)
    return Candidate(name, parsed, files, marker, problem)


def _marker_entry(file: FileInfo) -> StateEntry:
    return StateEntry(
        file.path,
        EntryKind.MARKER,
        None,
        EntryState.HIDDEN,
        "marker",
        _MARKER_REASONS[file.path],
        (),
        (file,),
    )


def _hidden_entry(name: str, reason: str, files: Iterable[FileInfo]) -> StateEntry:
    return StateEntry(name, EntryKind.UNRECOGNISED, None, EntryState.HIDDEN, "hidden_name", reason, (), tuple(files))


def _link_entry(name: str) -> StateEntry:
    reason = "a symbolic link by a hidden name, which acidctl neither follows nor removes"
    return StateEntry(name, EntryKind.UNRECOGNISED, None, EntryState.HIDDEN, "foreign_link", reason, (), ())


def _unrecognised_entry(name: str, reason: str, files: Iterable[FileInfo]) -> StateEntry:
    return StateEntry(name, EntryKind.UNRECOGNISED, None, EntryState.UNRECOGNISED, "bad_name", reason, (), tuple(files))


def _nested_entry(name: str, files: Iterable[FileInfo]) -> StateEntry:
    parent = name.rpartition("/")[0]
    return StateEntry(
        name,
        EntryKind.UNRECOGNISED,
        None,
        EntryState.UNRECOGNISED,
        "nested",
        f"a base or delta directory inside {parent}; they belong directly below the table or partition",
        (parent,),
        tuple(files),
    )


def _bare_entry(name: str, files: Iterable[FileInfo]) -> StateEntry:
    return StateEntry(
        name,
        EntryKind.ORIGINAL,
        None,
        EntryState.HIDDEN,
        "no_data_files",
        "holds no data file",
        (),
        tuple(files),
    )
