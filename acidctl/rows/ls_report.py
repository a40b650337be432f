"""What `ls` answers, made of judged locations, and of what the ends of files tell where that was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from acidctl.errors import DamagedDataError
from acidctl.format.names import must_hold_events, must_not_hold_events
from acidctl.format.write_ids import Reader
from acidctl.options import Progress
from acidctl.rows.table_view import ORC_MAGIC, PartitionState, TableState
from acidctl.state.equivalence import disagreements
from acidctl.state.report import (
    Damage,
    Details,
    Disagreement,
    FileDetail,
    Gap,
    LsEntry,
    LsPartition,
    LsReport,
    add_up,
    make_entries,
)
from acidctl.state.resolve import EntryState, Profile, StateEntry, TableType, data_files
from acidctl.storage.port import Storage, join


def report(
    location: str, readings: TableState, *, long: bool = False, details: Details | None = None, sizes: bool = True
) -> LsReport:
    """The answer of `ls` over judged locations."""
    entries: list[LsEntry] = []
    parts: list[LsPartition] = []
    found: list[Disagreement] = []
    gaps: list[Gap] = []
    for part in readings.parts:
        name = part.location.partition
        own = make_entries(name, part.state, sizes=sizes, long=long, details=details)
        entries.extend(own)
        error = part.state.not_enough_history
        if error is not None:
            gaps.append(Gap(name, error.message, error.hint))
        stray = part.location.stray
        if not stray or part.state.unrecognised:
            summary = add_up(own, [part.state], sizes=sizes, stray=int(stray))
            parts.append(LsPartition(name, summary, error is None))
        if not stray:
            differences = disagreements(
                part.location.listing,
                Reader(readings.lists.effective_write_ids, readings.lists.effective_txns),
                table_type=readings.kind,
                ours=part.state if readings.profile is Profile.STRICT else None,
            )
            found.extend(Disagreement(name, text) for text in differences)
    problems = [
        Damage(partition, path, detail.problem)
        for (partition, path), detail in (details or {}).items()
        if detail.problem is not None
    ]
    return LsReport(
        location=location,
        profile=readings.profile.value,
        table_type=readings.table_type.value,
        assumed=readings.lists.assumed,
        summary=add_up(
            entries,
            [part.state for part in readings.parts],
            sizes=sizes,
            stray=sum(part.location.stray for part in readings.parts),
        ),
        entries=tuple(entries),
        partitions=tuple(parts),
        disagreements=tuple(found),
        gaps=tuple(gaps),
        damaged=tuple(problems),
        notes=readings.notes,
        warnings=readings.warnings,
        doubts=readings.doubts,
    )


def read_details(storage: Storage, readings: TableState, rows: bool, progress: Progress) -> Details:
    """What the side files of all data files tell, and with `rows` their tails."""
    details: dict[tuple[str, str], FileDetail] = {}
    insert_only = readings.table_type is TableType.INSERT_ONLY
    skipped = (EntryState.HIDDEN, EntryState.UNRECOGNISED)
    work = [(part, entry) for part in readings.parts for entry in part.state.entries if entry.state not in skipped]
    for done, (part, entry) in enumerate(work):
        progress(done, len(work))
        for path, detail in entry_details(storage, part, entry, rows, insert_only):
            details[part.location.partition, path] = detail
    return details


def entry_details(
    storage: Storage, part: PartitionState, entry: StateEntry, rows: bool, insert_only: bool
) -> Iterator[tuple[str, FileDetail]]:
    """The same of one directory, by the paths of its files."""
    from acidctl.orc.input_file import read_logical_length

    root = part.location.listing.root
    for file in data_files(entry, insert_only=insert_only):
        length: int | None = None
        if file.side_file is not None:
            side = join(root, file.side_file.path)
            try:
                with storage.open(side) as stream:
                    length = read_logical_length(stream, name=storage.display(side))
            except DamagedDataError as error:
                yield file.info.path, FileDetail(problem=error.message)
                continue
        detail = FileDetail(logical_length=length)
        if rows:
            # Files without a byte are skipped by readers, and so are streaming files before their first commit.
            empty = (file.info.size if length is None else length) == 0
            detail = (
                FileDetail(0, length) if empty else _counted(storage, join(root, file.info.path), length, insert_only)
            )
        yield file.info.path, detail


def _counted(storage: Storage, path: str, length: int | None, insert_only: bool) -> FileDetail:
    """The rows that a footer states, or what is wrong with the file: one bad file must not hide the others."""
    from acidctl.orc.acidmeta import check_shape
    from acidctl.orc.tail import read_tail

    events = not insert_only and must_hold_events(path)
    rows = not insert_only and must_not_hold_events(path)
    with storage.open(path) as stream:
        # Insert-only tables may hold any file format.
        if insert_only and stream.read(len(ORC_MAGIC)) != ORC_MAGIC:
            return FileDetail(logical_length=length)
        try:
            tail = read_tail(stream, name=storage.display(path), length=length)
            return FileDetail(check_shape(tail, events=events, rows=rows).rows, length)
        except DamagedDataError as error:
            return FileDetail(logical_length=length, problem=error.message)
