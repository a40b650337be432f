"""Tables, for Python and for the commands: `open_table(url)` and what can be asked of it.

    table = acidctl.open_table("/warehouse/orders")
    for entry in table.ls(validtxns=["default.orders:20:15:15,17:3,4,5"]).entries:
        print(entry.name, entry.state, entry.reason)
    for batch in table.snapshot(as_of=20).to_batches():
        ...

Listing needs neither pyarrow nor numpy; they are loaded with the first snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acidctl.errors import DamagedDataError, NoSuchTableError, NotAcidTableError
from acidctl.lsreport import (
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
from acidctl.readings import ORC_MAGIC, Reading, Readings, read, require_own_list, require_table
from acidctl.state import (
    EntryState,
    Profile,
    StateEntry,
    TableType,
    data_files,
    disagreements,
)
from acidctl.storage.gather import Location, gather
from acidctl.storage.port import Storage, join
from acidctl.storage.resolve import resolve as resolve_url

if TYPE_CHECKING:
    from acidctl.snapshot import Snapshot

__all__ = ["LsReport", "Table", "open_table"]


def open_table(url: str, *, storage_options: Mapping[str, Any] | None = None) -> Table:
    """A table or partition directory by path or URL; nothing is listed yet."""
    storage, root = resolve_url(url, storage_options)
    return Table(storage, root)


def _unwatched(done: int, total: int | None) -> None:
    """No progress is shown."""


class Table:
    """A table directory, or one partition directory, on some storage."""

    def __init__(self, storage: Storage, root: str) -> None:
        self._storage = storage
        self._root = root

    @property
    def location(self) -> str:
        """Path or URL, without secrets."""
        return self._storage.display(self._root)

    def locations(self, partitions: Sequence[str] = ()) -> tuple[Location, ...]:
        """List the table now: one location, or one per partition, narrowed by `key=value` filters.

        Raises `NoSuchTableError`, and `NotAcidTableError` for what is no table directory.
        """
        found = self._storage.stat(self._root)
        if found is None:
            raise NoSuchTableError(
                f"{self.location} does not exist",
                path=self.location,
                hint="Check the path; relative ones start at the current directory.",
            )
        if not found.is_directory:
            raise NotAcidTableError(
                f"{self.location} is a file, and a table is a directory",
                path=self.location,
                hint="Use `acidctl dump` to look into a file.",
            )
        locations = gather(self._storage, self._root, partitions)
        require_table(locations, self.location, self._storage)
        return locations

    def ls(
        self,
        *,
        partitions: Sequence[str] = (),
        long: bool = False,
        rows: bool = False,
        progress: Callable[[int, int | None], None] = _unwatched,
        **view: Any,
    ) -> LsReport:
        """Every directory with its state and the reason.

        `view` are the arguments of `read`. `rows` opens the tail of every data file, and tells `progress` how many
        entries are done of how many; `long` lists the files.
        """
        readings = self._read(partitions, view)
        details = self._details(readings, rows, progress) if rows or long else None
        return report(self.location, readings, long=long, details=details)

    def snapshot(self, *, partitions: Sequence[str] = (), **view: Any) -> Snapshot:
        """What a reader sees; `view` are the arguments of `read`. Raises `NotEnoughHistoryError`."""
        from acidctl.snapshot import PartitionState, Snapshot

        readings = self._read(partitions, view)
        for part in readings.parts:
            error = part.state.not_enough_history
            if error is not None:
                raise error
        return Snapshot(
            self._storage,
            self.location,
            [PartitionState(part.location, part.state) for part in readings.parts if not part.location.stray],
            readings.lists,
            readings.schema,
            readings.notes,
            readings.warnings,
        )

    def _read(self, partitions: Sequence[str], view: Mapping[str, Any]) -> Readings:
        readings = read(self.locations(partitions), **view)
        if view.get("table") is None:
            require_own_list(readings, self._root, self.location)
        return readings

    def _details(self, readings: Readings, rows: bool, progress: Callable[[int, int | None], None]) -> Details:
        """What the tails and side files of all data files tell."""
        details: dict[tuple[str, str], FileDetail] = {}
        insert_only = readings.table_type is TableType.INSERT_ONLY
        skipped = (EntryState.HIDDEN, EntryState.UNRECOGNISED)
        work = [(part, entry) for part in readings.parts for entry in part.state.entries if entry.state not in skipped]
        for done, (part, entry) in enumerate(work):
            progress(done, len(work))
            for path, detail in self._entry_details(part, entry, rows, insert_only):
                details[part.location.partition, path] = detail
        return details

    def _entry_details(
        self, part: Reading, entry: StateEntry, rows: bool, insert_only: bool
    ) -> Iterable[tuple[str, FileDetail]]:
        from acidctl.orc.sidefile import read_logical_length

        root = part.location.listing.root
        for file in data_files(entry, insert_only=insert_only):
            length: int | None = None
            if file.side_file is not None:
                side = join(root, file.side_file.path)
                try:
                    with self._storage.open(side) as stream:
                        length = read_logical_length(stream, name=self._storage.display(side))
                except DamagedDataError as error:
                    yield file.info.path, FileDetail(problem=error.message)
                    continue
            detail = FileDetail(logical_length=length)
            if rows:
                # Files without a byte are skipped by readers, and so are streaming files before their first commit.
                empty = (file.info.size if length is None else length) == 0
                detail = (
                    FileDetail(0, length) if empty else self._counted(join(root, file.info.path), length, insert_only)
                )
            yield file.info.path, detail

    def _counted(self, path: str, length: int | None, insert_only: bool) -> FileDetail:
        """The rows that a footer states, or what is wrong with the file: one bad file must not hide the others."""
        from acidctl.orc.tail import read_tail

        with self._storage.open(path) as stream:
            # Insert-only tables may hold any file format.
            if insert_only and stream.read(len(ORC_MAGIC)) != ORC_MAGIC:
                return FileDetail(logical_length=length)
            try:
                return FileDetail(read_tail(stream, name=self._storage.display(path), length=length).rows, length)
            except DamagedDataError as error:
                return FileDetail(logical_length=length, problem=error.message)


def report(
    location: str, readings: Readings, *, long: bool = False, details: Details | None = None, sizes: bool = True
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
        parts.append(LsPartition(name, add_up(own, [part.state], sizes=sizes), error is None))
        if not part.location.stray:
            said = disagreements(
                part.location.listing,
                readings.lists.effective_write_ids,
                readings.lists.effective_txns,
                table_type=readings.kind,
                ours=part.state if readings.profile is Profile.STRICT else None,
            )
            found.extend(Disagreement(name, text) for text in said)
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
        summary=add_up(entries, [part.state for part in readings.parts], sizes=sizes),
        entries=tuple(entries),
        partitions=tuple(parts),
        disagreements=tuple(found),
        gaps=tuple(gaps),
        damaged=tuple(problems),
        notes=readings.notes,
        warnings=readings.warnings,
    )
