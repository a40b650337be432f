"""The data files of an entry, and the synthetic row ids of those that have no ACID columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from acidctl.format.listing import FileInfo
from acidctl.format.names import (
    BUCKET_PREFIX,
    SIDE_FILE_SUFFIX,
    BaseDir,
    BucketFile,
    DeltaDir,
    OriginalFile,
    Unrecognised,
    parse_file,
    path_order_key,
)
from acidctl.state.entries import ORIGINALS_NAME, AcidState, EntryKind, EntryState, StateEntry
from acidctl.state.inventory import has_hidden_part


@dataclass(frozen=True, slots=True)
class DataFile:
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

    @property
    def named_original(self) -> bool:
        """Whether the name is that of an original file; what the file holds, its columns decide."""
        return isinstance(self.parsed, OriginalFile)


@dataclass(frozen=True, slots=True)
class SyntheticGroup:
    """Original files that number their rows together: one owner, one bucket, files in path order.

    A row's id is (`write_id`, bucket property of `bucket_id` and `statement_id`, rows of the files before it
    plus its position). `bucket_id` is None for files whose name does not tell it; they have no row ids.
    """

    owner: str
    write_id: int
    statement_id: int
    bucket_id: int | None
    files: tuple[FileInfo, ...]


def data_files(entry: StateEntry, *, insert_only: bool = False) -> tuple[DataFile, ...]:
    """The files of an entry that hold rows, in path order (AcidUtils' filters).

    A base and the originals take every visible file; a delta takes `bucket_*` and names of original files; in
    an insert-only table every visible file counts. Files in subdirectories count (UNION ALL makes some).
    """
    prefix = f"{entry.name}/" if entry.parsed is not None else ""
    visible = [f for f in entry.files if not has_hidden_part(f.path[len(prefix) :])]
    by_path = {f.path: f for f in visible}
    may_stream = isinstance(entry.parsed, DeltaDir) and entry.parsed.visibility_txn_id is None
    found = []
    for info in visible:
        name = info.name
        if name.endswith(SIDE_FILE_SUFFIX) and not insert_only:
            continue
        parsed = parse_file(name)
        if not isinstance(parsed, BucketFile | OriginalFile):
            if isinstance(entry.parsed, DeltaDir) and not insert_only and not name.startswith(BUCKET_PREFIX):
                continue
            problem = parsed.reason if isinstance(parsed, Unrecognised) else "not a name of a data file"
            parsed = Unrecognised(name, problem)
        side = by_path.get(info.path + SIDE_FILE_SUFFIX) if may_stream and not insert_only else None
        found.append(DataFile(info, parsed, side))
    return tuple(sorted(found, key=lambda f: path_order_key(f.info.path)))


def ignored_files(entry: StateEntry, *, insert_only: bool = False) -> tuple[FileInfo, ...]:
    """Visible files of a delta that no reader opens, because their names are neither bucket nor original."""
    taken = {f.info.path for f in data_files(entry, insert_only=insert_only)}
    prefix = f"{entry.name}/" if entry.parsed is not None else ""
    return tuple(
        f
        for f in entry.files
        if f.path not in taken and not has_hidden_part(f.path[len(prefix) :]) and not f.name.endswith(SIDE_FILE_SUFFIX)
    )


def live_entries(state: AcidState) -> tuple[StateEntry, ...]:
    """What is read: base or originals, then deltas in selection order."""
    originals = [e for e in state.entries if e.name == ORIGINALS_NAME and e.state is EntryState.LIVE]
    return (*originals, *([state.base] if state.base else []), *state.deltas)


def empty_file_notes(state: AcidState) -> list[str]:
    """A sentence about live data files of no bytes; writers of insert-only tables leave them as a matter of course."""
    if state.insert_only or all(file.size for entry in live_entries(state) for file in entry.files):
        return []
    empty = [f.info.path for entry in live_entries(state) for f in data_files(entry) if not f.has_rows]
    if not empty:
        return []
    more = f" and {len(empty) - 1} more files have" if len(empty) > 1 else " has"
    return [f"{empty[0]}{more} 0 bytes and no rows: passed over, as Hive does"]


def synthetic_layout(entry: StateEntry | None, files: Iterable[FileInfo]) -> tuple[SyntheticGroup, ...]:
    """Group original files for their row ids; `entry` is the base or delta they lie in, None for the
    location.

    The order is Hive's and frozen: stored delete keys name rows by it
    (OrcRawRecordMerger.OriginalReaderPair).
    """
    parsed = None if entry is None else entry.parsed
    write_id = statement_id = 0
    if isinstance(parsed, BaseDir):
        write_id = parsed.write_id
    elif isinstance(parsed, DeltaDir):
        write_id, statement_id = parsed.min_write_id, parsed.statement_id or 0
    owner = entry.name if entry is not None and parsed is not None else ""
    groups: dict[int | None, list[FileInfo]] = defaultdict(list)
    for file in sorted(files, key=lambda f: path_order_key(f.path)):
        name = parse_file(file.name)
        # Only names of original files tell a bucket here; a stray bucket_* among originals has one as well.
        bucket_id = name.bucket_id if isinstance(name, OriginalFile | BucketFile) else None
        groups[bucket_id].append(file)
    order = sorted(groups, key=lambda bucket: (bucket is None, bucket or 0))
    return tuple(SyntheticGroup(owner, write_id, statement_id, bucket, tuple(groups[bucket])) for bucket in order)


def attempt_notes(entries: Iterable[StateEntry], *, insert_only: bool) -> list[str]:
    """Sentences about buckets that stand twice in one directory: an unfinished or crashed write left both."""
    notes: list[str] = []
    if insert_only:
        return notes
    for entry in entries:
        if entry.state is not EntryState.LIVE or entry.kind is EntryKind.ORIGINAL or len(entry.files) < 2:
            continue
        seen: dict[tuple[str, int], list[str]] = defaultdict(list)
        for file in data_files(entry):
            if isinstance(file.parsed, BucketFile):
                seen[file.info.directory, file.parsed.bucket_id].append(file.info.name)
        for (directory, bucket_id), names in seen.items():
            if len(names) > 1:
                notes.append(
                    f"{directory} holds bucket {bucket_id} {len(names)} times ({', '.join(names)}): an "
                    "unfinished or crashed write left more than one attempt, and a reader returns them all."
                )
    return notes
