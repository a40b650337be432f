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
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from acidctl.errors import DamagedDataError, NoSuchTableError, NotAcidTableError, UsageError
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
from acidctl.storage.elsewhere import options_elsewhere
from acidctl.storage.gather import Location, gather
from acidctl.storage.local import LocalStorage, whole_path
from acidctl.storage.port import Storage, join
from acidctl.storage.resolve import resolve as resolve_url
from acidctl.writeids import ValidWriteIds

if TYPE_CHECKING:
    from acidctl.compactreport import CompactionReport
    from acidctl.jobs.clean_run import CleanRun
    from acidctl.jobs.compact import Prepared, Watch
    from acidctl.jobs.session import TablePlace
    from acidctl.jobs.timelimit import TimeLimit
    from acidctl.plan import CompactionPlan, PartitionPlan
    from acidctl.plan_clean import CleanPlan
    from acidctl.plan_request import CompactionRequest
    from acidctl.snapshot import Snapshot

__all__ = ["LsReport", "Table", "compact", "open_table"]

_TYPE_NAMES = {TableType.FULL: "full", TableType.INSERT_ONLY: "insert-only"}


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


def _unforeseen(bytes_in: int) -> None:
    """Nobody waits for it."""


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

        `view` are the arguments of `read`. `rows` opens the tail of every data file, and tells `progress` how many
        entries are done of how many; `long` lists the files.
        """
        readings = self._read(partitions, view)
        details = self._details(readings, rows, progress) if rows or long else None
        return report(self.location, readings, long=long, details=details)

    def snapshot(self, *, partitions: Sequence[str] = (), **view: Any) -> Snapshot:
        """What a reader sees; `view` are the arguments of `read`. Raises `NotEnoughHistoryError`, and in profile
        hive4 `HiveFailureError`.
        """
        from acidctl.snapshot import PartitionState, Snapshot

        readings = self._read(partitions, view)
        for part in readings.parts:
            error = part.state.not_enough_history or part.state.hive_failure
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
        `jobs.engines.EngineChoice`, and `max_runtime` and `grace` in seconds: after the first nothing new is begun, and
        at the end of the second what is not finished is given up, as soon as a task has ended. What became of each
        partition is in the report; raised is only what concerns all.
        """
        from acidctl.jobs.engines import EarlyEngine, EngineChoice
        from acidctl.jobs.timelimit import GRACE, TimeLimit

        own = {name: options.pop(name) for name in ("master", "conf", "parallelism", "memory") if name in options}
        choice = EngineChoice(engine, session=spark, **own)
        seconds, grace = options.pop("max_runtime", None), options.pop("grace", GRACE)
        if seconds is not None:
            options["limit"] = TimeLimit.of(seconds, grace)
        with closing(EarlyEngine(choice)) as early:
            prepared = self.prepare_compaction(kind, foreseen=early.foresee, **options)
            chosen, _ = early.engine(prepared.bytes_in)
            return prepared.start(chosen, watch=watch).run()

    def prepare_compaction(
        self,
        kind: str,
        *,
        partitions: Sequence[str] = (),
        progress: Callable[[int, int | None], None] = _unwatched,
        foreseen: Callable[[int], None] = _unforeseen,
        unsafe_break_lock: bool = False,
        limit: TimeLimit | None = None,
        **options: Any,
    ) -> Prepared:
        """A plan and all it takes to carry it out. `kind` is minor or major; `progress` is told of files looked into,
        and `foreseen`, before that, how many bytes will be compacted.

        `options` are the arguments of `read`, and those of `plan_request.CompactionRequest` (`target` as hive3, hive4
        or auto). `unsafe_break_lock` takes over locks whose owner may still live. `limit` bounds the time of planning
        (to the half of it) and of the run. Raises UsageError where neither a write-id list is given nor
        `assume_committed`.
        """
        request, view = _request(kind, options)
        locations = self.locations(partitions)
        plan, known = self._planned(locations, request, view, progress=progress, foreseen=foreseen, limit=limit)
        # What the whole table has decided holds for a partition that is planned again.
        fixed = {**view, "table_type": _TYPE_NAMES.get(known.table_type, "auto")}
        settled = replace(request, target=plan.target, max_bytes=None, max_partitions=None, only_if_needed=False)
        if "write_ids" in plan.assumed or request.as_of is not None:
            # Tasks take nothing above this watermark, so a write that came later must not become an input.
            watermark = ValidWriteIds.parse(plan.table.write_ids).high_watermark
            fixed, settled = {**fixed, "as_of": watermark}, replace(settled, as_of=watermark)

        def replan(part: PartitionPlan) -> PartitionPlan:
            place = gather(self._storage, join(self._root, part.path))
            again, _ = self._planned(place, settled, fixed)
            return replace(again.partitions[0], partition=part.partition, path=part.path)

        from acidctl.jobs.compact import Prepared, leftovers

        return Prepared(self._place(), plan, replan, leftovers(self._root, locations), unsafe_break_lock, limit)

    def saved_compaction(
        self, plan: CompactionPlan, *, unsafe_break_lock: bool = False, limit: TimeLimit | None = None
    ) -> Prepared:
        """A plan that was saved, ready to be carried out; UsageError when it is of another table."""
        from acidctl.jobs.compact import Prepared

        if plan.location != self.location:
            raise UsageError(
                f"the plan is for {plan.location}, not for {self.location}",
                path=self.location,
                hint="Name the table as it was named when the plan was made, or make a new plan.",
            )
        return Prepared(self._place(), plan, break_locks=unsafe_break_lock, limit=limit)

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

        `options` are those of `jobs.clean_run.CleanRequest`; `now` in seconds since 1970 is the time by default.
        `limit` bounds the time: no location is begun after it.
        Raises UsageError where the lists do not say what every live reader sees.
        """
        from acidctl.jobs.clean_run import CleanRequest, prepare

        moment = time.time() if now is None else now
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
        return path

    def _planned(
        self,
        locations: Sequence[Location],
        request: CompactionRequest,
        view: Mapping[str, Any],
        **told: Any,
    ) -> tuple[CompactionPlan, Readings]:
        """A plan by what the lists and names say; `told` are arguments of `make_plan`."""
        from acidctl.jobs.survey import make_plan
        from acidctl.plan_request import TableView

        readings = self._judged(locations, view)
        known = TableView(readings.lists, readings.kind, readings.schema)
        plan = make_plan(self._storage, self._root, locations, known, request, **told)
        return plan, readings

    def _place(self) -> TablePlace:
        from acidctl.jobs.session import TablePlace

        # Other processes may stand in another directory.
        local = isinstance(self._storage, LocalStorage)
        url = whole_path(self._storage, self._root) if local else self._url or self._storage.display(self._root)
        return TablePlace(self._storage, self._root, url, options_elsewhere(url, self._options, os.environ))

    def _read(self, partitions: Sequence[str], view: Mapping[str, Any]) -> Readings:
        return self._judged(self.locations(partitions), view)

    def _judged(self, locations: Sequence[Location], view: Mapping[str, Any]) -> Readings:
        readings = read(locations, **view)
        if view.get("table") is None:
            require_own_list(readings, whole_path(self._storage, self._root), self.location)
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


def _request(kind: str, options: Mapping[str, Any]) -> tuple[CompactionRequest, dict[str, Any]]:
    """The options of a plan, and the arguments of `read` among them."""
    from acidctl.plan import CompactionKind, Target
    from acidctl.plan_request import CompactionRequest

    names = {field.name for field in fields(CompactionRequest)} - {"kind", "as_of"}
    asked = {name: value for name, value in options.items() if name in names}
    view = {name: value for name, value in options.items() if name not in names}
    target = asked.pop("target", None)
    try:
        chosen = None if target in (None, "auto") else Target(target)
        return CompactionRequest(CompactionKind(kind), target=chosen, as_of=view.get("as_of"), **asked), view
    except ValueError as error:
        raise UsageError(f"{error} of a compaction; known are minor and major, for hive3 and hive4") from error


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
        stray = part.location.stray
        if not stray or part.state.unrecognised:
            summary = add_up(own, [part.state], sizes=sizes, stray=int(stray))
            parts.append(LsPartition(name, summary, error is None))
        if not stray:
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
    )
