"""Sort a listing into bases, deltas, originals and the rest, under our own rules, and find their data files.

Decides nothing about visibility. Every file and every top-level directory of the listing ends in exactly one
place.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple
from weakref import ref

from acidctl.findings import Finding
from acidctl.format.listing import FileInfo, Listing, is_foreign
from acidctl.format.names import (
    BUCKET_PREFIX,
    METADATA_MARKER,
    SIDE_FILE_SUFFIX,
    VERSION_MARKER,
    BaseDir,
    BucketFile,
    DeltaDir,
    HiddenName,
    Marker,
    OriginalFile,
    Unrecognised,
    has_hidden_part,
    is_hidden,
    parse_directory,
    parse_file,
    path_order_key,
)
from acidctl.state.entries import (
    ORIGINALS_NAME,
    AcidState,
    Directory,
    EntryKind,
    EntryState,
    Inventory,
    MarkerContent,
    StateEntry,
    Verdict,
)

_MARKER_REASONS = {
    VERSION_MARKER: "states the ACID version of the directory; no reader decides by it",
    METADATA_MARKER: "states what made a directory, and says nothing at the location itself",
}
# Findings of what is not recognised by the reasons of verdicts, and what is wrong.
_CODES = {
    "nested": "nested_directory",
    "beside_partitions": "beside_partitions",
    "delete_delta_in_insert_only": "delete_delta_in_insert_only",
}
_NOT_READ = {
    "nested_directory": "a base or delta inside another directory counts for some readers only",
    "beside_partitions": "Hive reads nothing beside the folders of partitions",
    "delete_delta_in_insert_only": "insert-only tables have no delete deltas",
    "unknown_name": "no reader knows such a name",
}
# Bucket files, markers, and what is hidden.
_USUAL_IN_DELTAS = (BUCKET_PREFIX, "_", ".")
# What an entry is where it is neither a base nor a delta, by the reason of its verdict; else not recognised.
_OTHER_KINDS = {"marker": EntryKind.MARKER, "no_data_files": EntryKind.ORIGINAL}
_DATA_FORMATS = {
    "COMPACTED": MarkerContent.COMPACTED,
    "TRUNCATED": MarkerContent.OVERWRITE,
    "DROPPED": MarkerContent.OVERWRITE,
}


# A location is judged several times, by several readers' rules, and all locations once before: each is sorted once, and
# forgotten with its listing.
_sorted: dict[int, tuple[ref[Listing], Inventory]] = {}


def take_inventory(listing: Listing) -> Inventory:
    """Sort a listing; base and delta directories count at the top level only."""
    key = id(listing)
    known = _sorted.get(key)
    if known is not None and known[0]() is listing:
        return known[1]
    inventory = _sort(listing)
    _sorted[key] = (ref(listing, lambda _: _sorted.pop(key, None)), inventory)
    return inventory


def _sort(listing: Listing) -> Inventory:
    top_files, below = _group(listing)
    bases: list[Directory] = []
    deltas: list[Directory] = []
    group: list[FileInfo] = []
    decided: list[StateEntry] = []

    def decide(
        name: str, files: Iterable[FileInfo], state: EntryState, code: str, why: str, *, parent: str = ""
    ) -> None:
        kind = _OTHER_KINDS.get(code, EntryKind.UNRECOGNISED)
        directory = Directory(name, None, tuple(files), other_kind=kind)
        decided.append(StateEntry.of(directory, Verdict(state, code, why, (parent,) if parent else ())))

    for file in top_files:
        parsed_file = parse_file(file.path)
        if isinstance(parsed_file, Marker):
            decide(file.path, (file,), EntryState.HIDDEN, "marker", _MARKER_REASONS[file.path])
        elif isinstance(parsed_file, HiddenName):
            decide(file.path, (file,), EntryState.HIDDEN, "hidden_name", parsed_file.reason)
        else:
            group.append(file)
    for name, files in below.items():
        parent, _, last = name.rpartition("/")
        parsed = parse_directory(last)
        if parent:
            why = f"a base or delta directory inside {parent}; they belong directly below the table or partition"
            decide(name, files, EntryState.UNRECOGNISED, "nested", why, parent=parent)
        elif isinstance(parsed, BaseDir):
            marker = f"{name}/{METADATA_MARKER}"
            says: tuple[MarkerContent, str | None] = (MarkerContent.ABSENT, None)
            if any(file.path == marker for file in files):
                says = read_marker(listing.markers.get(marker))
            bases.append(Directory(name, parsed, files, *says))
        elif isinstance(parsed, DeltaDir):
            deltas.append(Directory(name, parsed, files))
        elif isinstance(parsed, HiddenName):
            decide(name, files, EntryState.HIDDEN, "hidden_name", parsed.reason)
        elif isinstance(parsed, Unrecognised):
            decide(name, files, EntryState.UNRECOGNISED, "bad_name", parsed.reason)
        elif any(not has_hidden_part(file.path) for file in files):
            group.extend(files)
        else:
            decide(name, files, EntryState.HIDDEN, "no_data_files", "holds no data file")
    for path in sorted(listing.links):
        if path and "/" not in path and is_foreign(path):
            why = "a symbolic link by a hidden name, which acidctl neither follows nor removes"
            decide(path, (), EntryState.HIDDEN, "foreign_link", why)
    group.sort(key=_by_path)
    nested = sum("/" in name for name in below)
    return Inventory(
        bases=tuple(sorted(bases, key=lambda directory: path_order_key(directory.name))),
        deltas=tuple(sorted(deltas, key=lambda directory: path_order_key(directory.name))),
        original_files=tuple(f for f in group if not has_hidden_part(f.path)),
        group_files=tuple(group),
        decided=tuple(decided),
        notes=(f"{nested} base or delta directories lie inside other directories and are not read.",) if nested else (),
    )


def _by_path(file: FileInfo) -> bytes:
    return path_order_key(file.path)


def read_marker(content: bytes | None) -> tuple[MarkerContent, str | None]:
    """What the content of a `_metadata_acid` says, and what is wrong with it (MetaDataFile.isCompacted)."""
    if content is None:
        return MarkerContent.UNREAD, None
    try:
        facts = json.loads(content.decode("utf-8"))
        version, data_format = str(facts["thisFileVersion"]), str(facts["dataFormat"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return MarkerContent.BAD, "is not a JSON object with thisFileVersion and dataFormat"
    if version != "0":
        return MarkerContent.BAD, f"has version {version[:20]!r}; expected '0'"
    known = _DATA_FORMATS.get(data_format.upper())
    if known is None:
        return MarkerContent.BAD, f"has data format {data_format[:20]!r}; expected compacted, truncated or dropped"
    return known, None


def _group(listing: Listing) -> tuple[list[FileInfo], dict[str, tuple[FileInfo, ...]]]:
    """Files of the location itself, and files by top-level directory or nested base or delta directory."""
    owners: dict[str, str] = {}
    below: dict[str, list[FileInfo]] = {}
    for directory in listing.directories:
        below.setdefault(_owner(directory, owners), [])
    for file in listing.files:
        if file.directory:
            below.setdefault(_owner(file.directory, owners), []).append(file)
    top = sorted((file for file in listing.files if "/" not in file.path), key=_by_path)
    return top, {name: tuple(sorted(below[name], key=_by_path)) for name in sorted(below)}


def _owner(directory: str, known: dict[str, str]) -> str:
    """The entry a directory belongs to: its first part, or the first base or delta inside that."""
    if directory not in known:
        first, *rest = directory.split("/")
        known[directory] = first
        for index, part in enumerate(rest if not is_hidden(first) else ()):
            if is_hidden(part):
                break
            if isinstance(parse_directory(part), BaseDir | DeltaDir):
                known[directory] = "/".join([first, *rest[: index + 1]])
                break
    return known[directory]


# --- data files ----------------------------------------------------------------------------------------------------


class DataFile(NamedTuple):
    """A file that holds rows; `parsed` is Unrecognised where the name does not tell the bucket.

    `side_file` is the `_flush_length` beside it; it gives the logical length of a file that streaming ingest
    has not closed.
    """

    info: FileInfo
    parsed: BucketFile | OriginalFile | Unrecognised
    side_file: FileInfo | None = None

    @property
    def has_rows(self) -> bool:
        """Whether it has to be opened: a side file tells of rows even where the listing does not.

        HDFS lists a file that is being written without its last block; Hive 4 passes it over then, without a word, and
        a compaction would lose its rows.
        """
        return self.info.size > 0 or self.side_file is not None

    @property
    def bucket_id(self) -> int | None:
        """Bucket id in the name."""
        return None if isinstance(self.parsed, Unrecognised) else self.parsed.bucket_id


def _visible_files(entry: Directory) -> list[FileInfo]:
    prefix = f"{entry.name}/" if entry.parsed is not None else ""
    return [f for f in entry.files if not has_hidden_part(f.path[len(prefix) :])]


def data_files(entry: Directory, *, insert_only: bool = False) -> tuple[DataFile, ...]:
    """The files of an entry that hold rows, in path order (AcidUtils' filters).

    A base and the originals take every visible file; a delta takes `bucket_*` and names of original files; in
    an insert-only table every visible file counts. Files in subdirectories count (UNION ALL makes some).
    """
    visible = {file.path: file for file in _visible_files(entry)}
    in_delta = isinstance(entry.parsed, DeltaDir) and not insert_only
    may_stream = in_delta and entry.visibility_txn_id is None
    files = []
    for info in visible.values():
        name = info.name
        if name.endswith(SIDE_FILE_SUFFIX) and not insert_only:
            continue
        parsed = parse_file(name)
        if not isinstance(parsed, BucketFile | OriginalFile):
            if in_delta and not name.startswith(BUCKET_PREFIX):
                continue
            problem = parsed.reason if isinstance(parsed, Unrecognised) else "not a name of a data file"
            parsed = Unrecognised(name, problem)
        files.append(DataFile(info, parsed, visible.get(info.path + SIDE_FILE_SUFFIX) if may_stream else None))
    return tuple(sorted(files, key=lambda file: path_order_key(file.info.path)))


def ignored_files(entry: Directory, *, insert_only: bool = False) -> tuple[FileInfo, ...]:
    """Visible files of a delta that no reader opens, because their names are neither bucket nor original."""
    taken = {f.info.path for f in data_files(entry, insert_only=insert_only)}
    return tuple(f for f in _visible_files(entry) if f.path not in taken and not f.name.endswith(SIDE_FILE_SUFFIX))


def unknown_files(deltas: Iterable[Directory]) -> list[Finding]:
    """Files with data in live deltas of a full ACID table that no reader opens, because of their names."""
    odd = [
        info
        for delta in deltas
        if any(not info.name.startswith(_USUAL_IN_DELTAS) for info in delta.files)
        for info in ignored_files(delta)
        if info.size
    ]
    if not odd:
        return []
    more = f" and {len(odd) - 1:,} more" if len(odd) > 1 else ""
    why = f"Data in {odd[0].path}{more} is not read: no reader knows such a name in a delta; rows may be missing."
    return [Finding("unknown_name", why, odd[0].path)]


def live_entries(state: AcidState) -> tuple[StateEntry, ...]:
    """What is read: base or originals, then deltas in selection order."""
    originals = [e for e in state.entries if e.name == ORIGINALS_NAME and e.state is EntryState.LIVE]
    return (*originals, *([state.base] if state.base else []), *state.deltas)


def empty_file_notes(state: AcidState) -> list[str]:
    """A sentence about live data files of no bytes; writers of insert-only tables leave them as a matter of course."""
    if state.insert_only or all(file.size for entry in live_entries(state) for file in entry.files):
        return []
    empty = [f.info.path for entry in live_entries(state) for f in data_files(entry) if not f.has_rows]
    more = f" and {len(empty) - 1} more files are" if len(empty) > 1 else " is"
    return [f"{empty[0]}{more} empty and ignored, as Hive does"] if empty else []


def by_bucket(files: Iterable[FileInfo]) -> dict[int | None, list[FileInfo]]:
    """Original files of one directory that number their rows together, by the bucket that their names tell.

    Buckets ascend, files without one come last; the order within a bucket is Hive's and frozen: stored delete keys name
    rows by it (OrcRawRecordMerger.OriginalReaderPair).
    """
    groups: dict[int | None, list[FileInfo]] = defaultdict(list)
    for file in sorted(files, key=_by_path):
        name = parse_file(file.name)
        # Only names of original files tell a bucket here; a stray bucket_* among originals has one as well.
        groups[name.bucket_id if isinstance(name, OriginalFile | BucketFile) else None].append(file)
    return {bucket: groups[bucket] for bucket in sorted(groups, key=lambda bucket: (bucket is None, bucket or 0))}


def attempts_twice(entries: Iterable[Directory], *, insert_only: bool) -> list[Finding]:
    """Buckets that stand twice in one live directory: an unfinished or crashed write left both."""
    found: list[Finding] = []
    for entry in () if insert_only else entries:
        if sum(file.name.startswith(BUCKET_PREFIX) for file in entry.files) < 2:
            continue
        seen: dict[tuple[str, int], list[str]] = defaultdict(list)
        for file in data_files(entry):
            if isinstance(file.parsed, BucketFile):
                seen[file.info.directory, file.parsed.bucket_id].append(file.info.name)
        for (directory, bucket_id), names in seen.items():
            if len(names) > 1:
                why = (
                    f"{directory} holds bucket {bucket_id} {len(names)} times ({', '.join(names)}): an "
                    "unfinished or crashed write left more than one attempt, and a reader returns them all."
                )
                found.append(Finding("bucket_twice", why, f"{directory}/{names[-1]}"))
    return found


def unread_data(entries: Iterable[StateEntry]) -> list[Finding]:
    """Entries with data that this reader does not read: inside of others, or by no name that it knows."""
    groups: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        if entry.state is EntryState.UNRECOGNISED and entry.bytes:
            groups[_CODES.get(entry.reason_code, "unknown_name")].append(entry.name)
    found = []
    for code, names in groups.items():
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        why = f"Data in {names[0]}{more} is not read: {_NOT_READ[code]}; rows may be missing."
        found.append(Finding(code, why, names[0]))
    return found
