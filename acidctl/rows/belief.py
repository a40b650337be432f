"""Findings of a location: why names and the ends of its files may not be believed.

Asked by everything that shows a location or changes it, so that all say the same. Names are judged in `state`
(`AcidState.doubts`, `AcidState.lonely`); what only rows tell, `rows.scan.Findings` notices while they are read. Neither
pyarrow nor numpy is needed here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from acidctl.errors import DamagedDataError
from acidctl.findings import Finding
from acidctl.format.bucket_codec import BucketCodecError, decode
from acidctl.format.names import DeltaDir, Operation, WriteIdRange, must_hold_events, must_not_hold_events
from acidctl.options import Progress
from acidctl.rows.table_view import ORC_MAGIC, PartitionState, TableState
from acidctl.state.entries import AcidState, EntryKind, EntryState, StateEntry, span
from acidctl.state.inventory import DataFile, data_files, live_entries
from acidctl.state.report import Details, FileDetail
from acidctl.storage.port import Storage, join

if TYPE_CHECKING:
    from acidctl.orc.tail import Tail

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_PARQUET_MAGIC = b"PAR1"
_MAGIC_BYTES = 4
_INSERTS = frozenset({Operation.INSERT})
# Tails are small and far away on most storages: waiting for several at once costs nothing.
_WORKERS = 8


def findings_of(storage: Storage, root: str, state: AcidState) -> tuple[Finding, ...]:
    """Why rows of the location at `root` may be missing or come twice, by its names and by the ends of all files of
    inserts that are read.

    Damage is none of these: whoever reads the rows says so.
    """
    names = {entry.name for entry in live_entries(state)}
    found = (*state.doubts, *missing_halves(storage, root, state), *findings_of_files(storage, root, state, names))
    return tuple(dict.fromkeys(found))


def findings_of_files(storage: Storage, root: str, state: AcidState, names: Container[str]) -> list[Finding]:
    """What the ends of files of inserts tell, of the directories called so that are read."""
    if state.insert_only:
        return []
    read = (entry for entry in live_entries(state) if entry.name in names)
    inserts = (entry for entry in read if entry.kind is not EntryKind.DELETE_DELTA)
    files = [(entry, file) for entry in inserts for file in data_files(entry) if file.has_rows]

    def look(one: tuple[StateEntry, DataFile]) -> Finding | None:
        try:
            tail = _tail_of(storage, root, one[1])
        except DamagedDataError:
            return None
        return None if tail is None else _finding_of_tail(tail, storage.display(join(root, one[1].info.path)), *one)

    return [finding for finding in _at_once(look, files) if finding is not None]


def missing_halves(storage: Storage, root: str, state: AcidState) -> Iterator[Finding]:
    """Why inserts or deletes may be missing: directories whose half of a compaction is gone, if they hold an event.

    Their files are opened, and those of no other directory.
    """
    lonely = [entry for entry in state.entries if entry.name in state.lonely]

    def holds_events(entry: StateEntry) -> bool:
        for file in data_files(entry, insert_only=state.insert_only):
            try:
                found = _tail_of(storage, root, file) if file.has_rows else None
            except DamagedDataError:
                return True
            if found is not None and found.rows:
                return True
        return False

    for entry, holds in zip(lonely, _at_once(holds_events, lonely), strict=True):
        if holds:
            yield state.lonely[entry.name]


def finding_of_inserts(
    name: str,
    path: str,
    named: int | None,
    buckets: Iterable[int],
    held: WriteIdRange | None = None,
    allowed: WriteIdRange | None = None,
) -> Finding | None:
    """What the tail of a file of inserts tells: ids of other buckets than its name says (`named`), or of other writes.

    `held` are the write ids of its rows, `allowed` those of its delta, None where these are unknown or mean nothing.
    Rows of a file without a bucket in its name are not merged with the updates and deletes that concern them.
    """
    other = next((bucket for bucket in buckets if bucket != named), None)
    if other is not None:
        called = "has no bucket in its name" if named is None else f"is called bucket {named}"
        why = f"{name} {called}, and holds rows of bucket {other}; it may have been renamed or copied."
        return Finding("foreign_bucket", why, path)
    if held is not None and allowed is not None and not allowed.covers(held):
        why = (
            f"{name} holds rows of {span(held)}, and its directory says {allowed}; it may have been renamed or copied."
        )
        return Finding("foreign_write_id", why, path)
    return None


def bucket_ids(properties: Iterable[int]) -> Iterator[int]:
    """The bucket ids of bucket properties, less what is none: whoever reads that refuses it."""
    for value in properties:
        with suppress(BucketCodecError):
            yield decode(value).bucket_id


def _finding_of_tail(tail: Tail, name: str, entry: StateEntry, file: DataFile) -> Finding | None:
    """`finding_of_inserts` of a file with this tail."""
    from acidctl.orc import acidmeta
    from acidctl.orc.tail import is_acid

    if not tail.rows or not is_acid(tail):
        return None
    bounds = acidmeta.key_range(tail, tail.statistics, tail.rows)
    if bounds is None:
        return None
    held = WriteIdRange(bounds[0].write_id, bounds[1].write_id)
    allowed = entry.delta.range if isinstance(entry.parsed, DeltaDir) else None
    # Updates in place (ACID version 1) have the write ids of the rows that they change.
    if allowed is not None and not allowed.covers(held) and acidmeta.operations(tail) != _INSERTS:
        allowed = None
    buckets = bucket_ids(key.bucket_property for key in bounds)
    return finding_of_inserts(name, file.info.path, file.bucket_id, buckets, held, allowed)


def _tail_of(storage: Storage, root: str, file: DataFile) -> Tail | None:
    """The end of a file; None where nothing is committed yet."""
    from acidctl.orc import tail

    path, length = join(root, file.info.path), logical_length(storage, root, file)
    if length == 0:
        return None
    with storage.open(path) as stream:
        return tail.read_tail(stream, name=storage.display(path), length=length)


def _at_once(look: Callable[[Item], Answer], items: Sequence[Item]) -> Iterator[Answer]:
    if len(items) < 2:
        yield from map(look, items)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_WORKERS) as pool:
        yield from pool.map(look, items)


# --- the details of `ls`


def read_details(storage: Storage, table: TableState, rows: bool, progress: Progress) -> Details:
    """What side files tell, and tails: of all files with `rows`, else of those that are read."""
    details: dict[tuple[str, str], FileDetail] = {}
    skipped = (EntryState.HIDDEN, EntryState.UNRECOGNISED)
    work = [(part, entry) for part in table.parts for entry in part.state.entries if entry.state not in skipped]
    for done, (part, entry) in enumerate(work):
        progress(done, len(work))
        for file in data_files(entry, insert_only=part.state.insert_only):
            details[part.partition, file.info.path] = _detail(storage, part, entry, file, rows)
    return details


def logical_length(storage: Storage, root: str, file: DataFile) -> int | None:
    """How much of a data file counts, where the file beside it says so."""
    if file.side_file is None:
        return None
    from acidctl.orc import input_file

    path = join(root, file.side_file.path)
    with storage.open(path) as stream:
        return input_file.read_logical_length(stream, name=storage.display(path))


def _detail(storage: Storage, part: PartitionState, entry: StateEntry, file: DataFile, rows: bool) -> FileDetail:
    """What the file says, or what is wrong with it: one bad file must not hide the others."""
    root, insert_only = part.location.listing.root, part.state.insert_only
    path, length = join(root, file.info.path), None
    live = entry.state is EntryState.LIVE
    try:
        length = logical_length(storage, root, file)
        # Files without a byte are skipped by readers, and so are streaming files before their first commit.
        if not (rows or live) or not (file.info.size if length is None else length):
            return FileDetail(0 if rows else None, length)
        from acidctl.orc import tail

        with storage.open(path) as stream:
            # Insert-only tables may hold any file format.
            head = stream.read(_MAGIC_BYTES) if insert_only else ORC_MAGIC
            if head == _PARQUET_MAGIC:
                from acidctl.fileformats import parquet

                return FileDetail(parquet.row_count(stream, storage.display(path)) if rows else None, length)
            if not head.startswith(ORC_MAGIC):
                return FileDetail(logical_length=length)
            found = tail.read_tail(stream, name=storage.display(path), length=length)
        events = not insert_only and must_hold_events(path)
        plain = not insert_only and must_not_hold_events(path)
        count = tail.check_shape(found, events=events, rows=plain).rows
        inserts = live and not insert_only and entry.kind is not EntryKind.DELETE_DELTA
        finding = _finding_of_tail(found, storage.display(path), entry, file) if inserts else None
        return FileDetail(count if rows else None, length, finding=finding)
    except DamagedDataError as error:
        return FileDetail(logical_length=length, problem=error.message)
