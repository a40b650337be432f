"""Tables, for Python and for the commands: `open_table(url)` and what can be asked of it.

    table = acidctl.open_table("/warehouse/orders")
    for entry in table.ls(validtxns=["default.orders:20:15:15,17:3,4,5"]).entries:
        print(entry.name, entry.state, entry.reason)
    for batch in table.snapshot(as_of=20).to_batches():
        ...

Listing needs neither pyarrow nor numpy; they are loaded with the first snapshot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from acidctl.errors import DamagedDataError, NoSuchTableError, NotAcidTableError, UsageError
from acidctl.format.write_ids import Reader
from acidctl.options import ReadView
from acidctl.rows.table_view import ORC_MAGIC, PartitionState, TableState, read, require_table
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
from acidctl.state.resolve import (
    EntryState,
    Profile,
    StateEntry,
    TableType,
    data_files,
)
from acidctl.storage.local import LocalStorage, whole_path
from acidctl.storage.locations import Location, gather, require_outside
from acidctl.storage.port import Storage, join
from acidctl.storage.resolve import options_elsewhere
from acidctl.storage.resolve import resolve as resolve_url

if TYPE_CHECKING:
    from acidctl.cleaning.plan import CleanPlan
    from acidctl.cleaning.run import CleanRun
    from acidctl.compaction.decision import Decision
    from acidctl.compaction.partition_run import TablePlace
    from acidctl.compaction.plan import CompactionPlan, CompactionRequest
    from acidctl.compaction.report import CompactionReport
    from acidctl.compaction.run import Prepared, Watch
    from acidctl.maintenance.limits import TimeLimit
    from acidctl.rows.snapshot import Snapshot

__all__ = ["LsReport", "Table", "compact", "open_table"]


def open_table(url: str, *, storage_options: Mapping[str, Any] | None = None) -> Table:
    """A table or partition directory by path or URL; nothing is listed yet."""
    storage, root = resolve_url(url, storage_options)
    return Table(storage, root, url=url, storage_options=storage_options)


def compact(table: Table | str, kind: str, **options: Any) -> CompactionReport:
    """Compact a table, given as such or by path or URL: `acidctl.compact(url, "major", spark=session, ...)`.

    The other arguments are those of `Table.compact`.
    """
    return (open_table(table) if isinstance(table, str) else table).compact(kind, **options)


def _unwatched(done: int, total: int | None) -> None:
    """No progress is shown."""


class Table:
    """A table directory, or one partition directory, on some storage."""

    def __init__(
        self, storage: Storage, root: str, *, url: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> None:
        """`url` and `storage_options` are how other processes open the same table."""
        self._storage = storage
        self._root = root
        self._url = url
        self._options = dict(storage_options or {})

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

        `view` are the fields of `ReadView`. `rows` opens the tail of every data file, and tells `progress` how many
        entries are done of how many; `long` lists the files.
        """
        readings = self._read(partitions, ReadView.of(view))
        details = self._details(readings, rows, progress) if rows or long else None
        return report(self.location, readings, long=long, details=details)

    def snapshot(self, *, partitions: Sequence[str] = (), **view: Any) -> Snapshot:
        """What a reader sees; `view` are the fields of `ReadView`. Raises `NotEnoughHistoryError`, and in profile
        hive4 `HiveFailureError`.
        """
        from acidctl.rows.snapshot import Snapshot

        readings = self._read(partitions, ReadView.of(view))
        for part in readings.parts:
            error = part.state.not_enough_history or part.state.hive_failure
            if error is not None:
                raise error
        return Snapshot(self._storage, self.location, readings, self._missing_halves(readings))

    def _missing_halves(self, readings: TableState) -> Iterator[str]:
        """Why deletes may be missing: what lonely delete deltas hold, read from their files' ends."""
        for part in readings.parts:
            for entry in part.state.entries:
                if entry.name in part.state.lonely:
                    details = self._entry_details(part, entry, True, part.state.insert_only)
                    if any(detail.rows or detail.problem for _, detail in details):
                        yield part.location.prefix + part.state.lonely[entry.name]

    # --- compaction

    def plan_compaction(self, kind: str, **options: Any) -> CompactionPlan:
        """What `compact` would do; changes nothing, but opens the end of every file that it concerns.

        The arguments are those of `prepare_compaction`.
        """
        return self.prepare_compaction(kind, **options).plan

    def compact(
        self, kind: str, *, engine: str = "auto", spark: Any = None, watch: Watch | None = None, **options: Any
    ) -> CompactionReport:
        """Plan, rewrite, verify and publish; `spark` is an existing Spark session. Nothing is ever deleted.

        `options` are those of `prepare_compaction`, `master`, `conf`, `parallelism` and `memory` of
        `engine.EngineChoice`, and `max_runtime` and `grace` in seconds: after the first nothing new is begun,
        and at the end of the second what is not finished is given up, as soon as a task has ended. What became of each
        partition is in the report; raised is only what concerns all.
        """
        from acidctl.engine import EngineChoice, make_engine
        from acidctl.maintenance.limits import GRACE, TimeLimit

        own = {name: options.pop(name) for name in ("master", "conf", "parallelism", "memory") if name in options}
        choice = EngineChoice(engine, session=spark, **own)
        seconds, grace = options.pop("max_runtime", None), options.pop("grace", GRACE)
        if seconds is not None:
            options["limit"] = TimeLimit.of(seconds, grace)
        prepared = self.prepare_compaction(kind, **options)
        with closing(make_engine(choice, prepared.bytes_in)[0]) as chosen:
            return prepared.start(chosen, watch=watch).run()

    def prepare_compaction(
        self,
        kind: str,
        *,
        partitions: Sequence[str] = (),
        progress: Callable[[int, int | None], None] = _unwatched,
        unsafe_break_lock: bool = False,
        limit: TimeLimit | None = None,
        **options: Any,
    ) -> Prepared:
        """A plan and all it takes to carry it out. `kind` is minor or major; `progress` is told of files looked into.

        `options` are the fields of `ReadView`, and those of `request.CompactionRequest` (`target` as hive3, hive4
        or auto). `unsafe_break_lock` takes over locks whose owner may still live. `limit` bounds the time of planning
        (to the half of it) and of the run. Raises UsageError where neither a write-id list is given nor
        `assume_committed`.
        """
        from acidctl.compaction.plan import to_options
        from acidctl.compaction.run import Prepared, leftovers

        request, view = _request(kind, options)
        locations = self.locations(partitions)
        decision = self._decide(locations, request, view, progress=progress, limit=limit)
        plan = replace(decision.plan, options=to_options(request, view, partitions))
        left = leftovers(self._root, locations)
        return Prepared(self._place(), plan, decision.again, left, unsafe_break_lock, limit)

    def saved_compaction(
        self, plan: CompactionPlan, *, unsafe_break_lock: bool = False, limit: TimeLimit | None = None
    ) -> Prepared:
        """A plan that was saved, ready to be carried out; UsageError when it is of another table."""
        from acidctl.compaction.run import Prepared

        self._require_own(plan)
        return Prepared(self._place(), plan, break_locks=unsafe_break_lock, limit=limit)

    def edited_compaction(
        self,
        plan: CompactionPlan,
        *,
        assume_committed: bool = False,
        assume_exclusive: bool = False,
        unsafe_break_lock: bool = False,
        limit: TimeLimit | None = None,
    ) -> Prepared:
        """A plan that was saved and edited: what its editor may decide, in a plan that is made anew; see `edited_plan`.

        What was assumed when the plan was made is assumed again only where it is said again.
        """
        from acidctl.compaction.decision import accept
        from acidctl.compaction.plan import from_options
        from acidctl.compaction.run import Prepared

        self._require_own(plan)
        options = from_options(plan.options)
        request = replace(
            options.request,
            assume_committed=options.request.assume_committed and assume_committed,
            assume_exclusive=options.request.assume_exclusive and assume_exclusive,
        )
        locations = self.locations(options.partitions)
        fresh = self._decide(locations, request, options.view, limit=limit).plan
        return Prepared(self._place(), accept(plan, fresh), break_locks=unsafe_break_lock, limit=limit)

    def _require_own(self, plan: CompactionPlan) -> None:
        if plan.location != self.location:
            raise UsageError(
                f"the plan is for {plan.location}, not for {self.location}",
                path=self.location,
                hint="Name the table as it was named when the plan was made, or make a new plan.",
            )

    def _decide(
        self, locations: Sequence[Location], request: CompactionRequest, view: ReadView, **more: Any
    ) -> Decision:
        """What is to be done, by what the lists and names say; `more` are arguments of `decide`."""
        from acidctl.compaction.decision import decide
        from acidctl.compaction.plan import TableView

        readings = self._judged(locations, view, complete=True)
        known = TableView(readings.lists, readings.kind, readings.schema)
        return decide(self._storage, self._root, locations, known, request, **more)

    # --- cleaning

    def plan_clean(self, **options: Any) -> CleanPlan:
        """What `clean` would remove and why; changes nothing. The arguments are those of `prepare_clean`."""
        return self.prepare_clean(**options).plan()

    def prepare_clean(
        self,
        *,
        partitions: Sequence[str] = (),
        now: float | None = None,
        limit: TimeLimit | None = None,
        **options: Any,
    ) -> CleanRun:
        """A run of `clean`, to be shown, and then carried out with its `delete`, `quarantine` or `undo`.

        `options` are those of `cleaning.run.CleanRequest`; `now` in seconds since 1970 is the time by default.
        `limit` bounds the time: no location is begun after it.
        Raises UsageError where the lists do not say what every live reader sees.
        """
        from acidctl.cleaning.run import CleanRequest, prepare
        from acidctl.maintenance.limits import checked_time, wall_clock

        moment = wall_clock() if now is None else checked_time(now)
        asked = CleanRequest(**options)
        return prepare(self._storage, self._root, self.locations(partitions), asked, now=moment, limit=limit)

    def own_path(self, url: str) -> str:
        """The path of a URL within the table's own storage; UsageError when it is of another storage."""
        storage, path = resolve_url(url, self._options)
        shown, own = storage.display(path), self.location
        local = isinstance(self._storage, LocalStorage)
        here = isinstance(storage, LocalStorage) == local
        if not here or (not local and shown.partition("://")[0] != own.partition("://")[0]):
            raise UsageError(
                f"{shown} is not on the storage of {own}", path=shown, hint="Name a place on the table's own storage."
            )
        if isinstance(self._storage, LocalStorage):
            self._storage.add_top(path)
        return path

    def require_outside(self, path: str, option: str) -> None:
        """UsageError where a file of this machine that an option names would be taken for the table's data."""
        require_outside(self._storage, self._root, path, option)

    def _place(self) -> TablePlace:
        from acidctl.compaction.partition_run import TablePlace

        # Other processes may stand in another directory.
        local = isinstance(self._storage, LocalStorage)
        url = whole_path(self._storage, self._root) if local else self._url or self._storage.display(self._root)
        return TablePlace(self._storage, self._root, url, options_elsewhere(url, self._options, os.environ))

    def _read(self, partitions: Sequence[str], view: ReadView) -> TableState:
        return self._judged(self.locations(partitions), view)

    def _judged(self, locations: Sequence[Location], view: ReadView, *, complete: bool = False) -> TableState:
        readings = read(locations, view, complete=complete)
        return readings.of_table(whole_path(self._storage, self._root), view.table, self.location)

    def _details(self, readings: TableState, rows: bool, progress: Callable[[int, int | None], None]) -> Details:
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
        self, part: PartitionState, entry: StateEntry, rows: bool, insert_only: bool
    ) -> Iterable[tuple[str, FileDetail]]:
        from acidctl.orc.input_file import read_logical_length

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
        from acidctl.format.names import must_hold_events, must_not_hold_events
        from acidctl.orc.acidmeta import check_shape
        from acidctl.orc.tail import read_tail

        events = not insert_only and must_hold_events(path)
        rows = not insert_only and must_not_hold_events(path)
        with self._storage.open(path) as stream:
            # Insert-only tables may hold any file format.
            if insert_only and stream.read(len(ORC_MAGIC)) != ORC_MAGIC:
                return FileDetail(logical_length=length)
            try:
                tail = read_tail(stream, name=self._storage.display(path), length=length)
                return FileDetail(check_shape(tail, events=events, rows=rows).rows, length)
            except DamagedDataError as error:
                return FileDetail(logical_length=length, problem=error.message)


def _request(kind: str, options: Mapping[str, Any]) -> tuple[CompactionRequest, ReadView]:
    """The options of a plan, and those of the view among them."""
    from acidctl.compaction.plan import CompactionKind, CompactionRequest, Target

    names = {field.name for field in fields(CompactionRequest)} - {"kind", "as_of"}
    asked = {name: value for name, value in options.items() if name in names}
    view = ReadView.of({name: value for name, value in options.items() if name not in names})
    target = asked.pop("target", None)
    try:
        chosen = None if target in (None, "auto") else Target(target)
        return CompactionRequest(CompactionKind(kind), target=chosen, as_of=view.as_of, **asked), view
    except ValueError as error:
        raise UsageError(f"{error} of a compaction; known are minor and major, for hive3 and hive4") from error


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
            said = disagreements(
                part.location.listing,
                Reader(readings.lists.effective_write_ids, readings.lists.effective_txns),
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
