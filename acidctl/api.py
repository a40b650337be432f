"""Tables, for Python and for the commands: `open_table(url)` and what can be asked of it.

    table = acidctl.open_table("/warehouse/orders")
    for entry in table.ls(validtxns=["default.orders:20:15:15,17:3,4,5"]).entries:
        print(entry.name, entry.state, entry.reason)
    for batch in table.snapshot(as_of=20).to_batches():
        ...

Listing needs neither pyarrow nor numpy; they are loaded with the first snapshot.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from acidctl.engine import EngineChoice, early_engine, make_engine
from acidctl.errors import DamagedDataError, NotAcidTableError, NotEnoughHistoryError, UsageError
from acidctl.findings import Finding
from acidctl.options import NO_INIT, CleanOptions, CompactOptions, ExportOptions, LsOptions, ReadView, SnapshotOptions
from acidctl.rows.belief import missing_halves, read_details
from acidctl.rows.table_view import PartitionState, TableState, list_table, read, report, require_table
from acidctl.state.entries import TooOld
from acidctl.state.old_lists import unseen_outputs
from acidctl.state.report import LsReport
from acidctl.storage.local import LocalStorage, whole_path
from acidctl.storage.locations import Location, locate, parse_filter, parse_listing, require_outside
from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve as resolve_url
from acidctl.values import dataclass

if TYPE_CHECKING:
    from acidctl.cleaning.plan import CleanPlan
    from acidctl.cleaning.report import CleanReport
    from acidctl.cleaning.run import CleanRun
    from acidctl.compaction.plan import CompactionPlan
    from acidctl.compaction.report import CompactionReport
    from acidctl.compaction.run import Compaction, OnPartition, OnProgress, Prepared
    from acidctl.exporting.run import ExportReport
    from acidctl.maintenance.limits import TimeLimit
    from acidctl.rows.outline import Outline
    from acidctl.rows.snapshot import Snapshot

P = ParamSpec("P")
Asked = TypeVar("Asked")
Owner = TypeVar("Owner")
Answer = TypeVar("Answer")


def asks(
    options: Callable[P, Asked],
) -> Callable[[Callable[[Owner, Asked], Answer]], Callable[Concatenate[Owner, P], Answer]]:
    """The function takes the fields of an options class as keywords; a misspelt one is a TypeError that names them."""
    make: Callable[..., Asked] = options.of  # type: ignore[attr-defined]

    def decorate(function: Callable[[Owner, Asked], Answer]) -> Callable[Concatenate[Owner, P], Answer]:
        @functools.wraps(function)
        def call(owner: Owner, /, *args: P.args, **given: P.kwargs) -> Answer:
            return function(owner, make(*args, **given))

        return call

    return decorate


def ignore(*anything: object) -> None:
    """Nothing is done with it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, **NO_INIT)
class CompactArguments(CompactOptions):
    """What Python may say beside the options of `compact`.

    `spark` is an existing session; `plan` a saved plan to be carried out, of which `accept_edited` takes what its
    editor may decide. Called are `planned` with the plan and why the engine is the one it is, `watch` with the
    progress, `finished` with the report of each partition, and `notify` with sentences for the operator; `during`
    is entered while the run is at work. `before_publishing` is called for each partition, in any thread; what it raises
    keeps the partition as it is.
    """

    spark: Any = None
    plan: CompactionPlan | None = None
    accept_edited: bool = False
    planned: Callable[[CompactionPlan, str], None] = ignore
    watch: OnProgress | None = None
    finished: OnPartition | None = None
    notify: Callable[[str], None] = ignore
    during: Callable[[Compaction], AbstractContextManager[object]] = nullcontext
    before_publishing: Callable[[], None] = ignore
    limit: TimeLimit | None = None
    verbose: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False, **NO_INIT)
class CleanArguments(CleanOptions):
    """What Python may say beside the options of `clean`.

    `action` is show, delete, quarantine or undo; `quarantine` a directory on the table's storage, by default a hidden
    one within each location. `confirm` is called with the plan before anything is changed, and may raise. `now` is in
    seconds since 1970.
    """

    action: str = field(default="show", kw_only=False)
    quarantine: str | None = None
    confirm: Callable[[CleanPlan], None] = ignore
    now: float | None = None


def open_table(url: str, *, storage_options: Mapping[str, Any] | None = None) -> Table:
    """A table or partition directory by path or URL; nothing is listed yet."""
    storage, root = resolve_url(url, storage_options)
    return Table(storage, root, url=url, storage_options=storage_options)


@asks(LsOptions)
def ls_names(listing: tuple[str, str | None], asked: LsOptions) -> LsReport:
    """`ls` of names or of the output of `hdfs dfs -ls -R`, and the root that they are relative to, if there is one.

    Nothing is opened, so there are no rows and no logical lengths.
    """
    if asked.rows:
        raise UsageError("--rows opens files, and with --names there are none")
    text, named = listing
    prepared = parse_listing(text, named)
    locations = locate(prepared.found, prepared.root, [parse_filter(one) for one in asked.partitions])
    root = prepared.root or "."
    require_table(locations, root)
    readings = read(locations, asked).of_table(root, asked.table, root)
    return report(root, readings, long=asked.long, sizes=prepared.sizes)


@asks(CompactArguments)
def compact(table: Table | str, asked: CompactArguments) -> CompactionReport:
    """Compact a table, given as such or by path or URL: `acidctl.compact(url, "major", spark=session, ...)`."""
    return (open_table(table) if isinstance(table, str) else table).compact(**asked.keywords())


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

    @property
    def owner(self) -> str | None:
        """Whose directory it is; None on storages without owners."""
        found = self._storage.stat(self._root)
        return None if found is None else found.owner

    def locations(self, partitions: Sequence[str] = ()) -> tuple[Location, ...]:
        """List the table now: one location, or one per partition, narrowed by `key=value` filters.

        Raises `NoSuchTableError`, and `NotAcidTableError` for what is no table directory.
        """
        return list_table(self._storage, self._root, partitions)

    @asks(LsOptions)
    def ls(self, asked: LsOptions) -> LsReport:
        """Every directory with its state and the reason."""
        readings = self._read(asked)
        details = None
        if asked.rows:
            readings = replace(readings, parts=tuple(self._aged(part, readings) for part in readings.parts))
        if asked.rows or asked.long:
            details = read_details(self._storage, readings, asked.rows, asked.progress)
        found = self._missing_halves(readings)
        return report(self.location, readings, long=asked.long, details=details, found=found)

    @asks(SnapshotOptions)
    def snapshot(self, view: SnapshotOptions) -> Snapshot:
        """What a reader sees. Raises `NotEnoughHistoryError`, and in profile hive4 `HiveFailureError`.

        Where rows may be missing or come twice, `strict` raises `DamagedDataError`, here or when it is noticed while
        rows are read; without it they are given, with an `AcidctlWarning` for each of the `findings`.
        """
        snapshot = self.reader(self.outline(**view.keywords()))
        if view.strict:
            snapshot.require_certain()
        snapshot.warns = True
        return snapshot

    @asks(SnapshotOptions)
    def outline(self, view: SnapshotOptions) -> Outline:
        """The same as far as no row is read; needs neither pyarrow nor numpy."""
        from acidctl.rows.outline import Outline

        readings = self._read(view, whole=True)
        for part in readings.parts:
            error = part.state.not_enough_history or part.state.hive_failure
            if error is not None:
                raise error
        findings = self._missing_halves(readings)
        return Outline(self._storage, self.location, readings, findings, self.reader, strict=view.strict)

    def reader(self, outline: Outline) -> Snapshot:
        """The snapshot of an outline, whose rows can be read."""
        from acidctl.rows.snapshot import Snapshot

        return Snapshot(outline, (self._url or self.location, self._options), self._export)

    def _export(
        self,
        snapshot: Snapshot,
        to: str,
        columns: Sequence[str] | None = None,
        *,
        row_id: bool = False,
        limit: int | None = None,
        strict: bool = False,
        where: Any = None,
        **how: Any,
    ) -> ExportReport:
        """Carry out `Snapshot.export`."""
        from acidctl.exporting.place import require_free_of_tables
        from acidctl.exporting.run import Chosen, export

        asked = ExportOptions(to=to, **how)
        options = asked.storage_options
        same = to.partition(":/")[0] == (self._url or "").partition(":/")[0]
        storage, path = resolve_url(to, self._options if options is None and same else options)
        links = [place for part in snapshot.partitions for place in part.location.listing.links.values()]
        require_free_of_tables(self._storage, self._root, links, storage, path, f"--to {asked.to}")
        return export(
            snapshot, asked, Chosen(columns, row_id, limit, strict, {"where": snapshot.condition(where)}), storage, path
        )

    def _missing_halves(self, readings: TableState) -> Iterator[Finding]:
        """Why inserts or deletes may be missing, by the files of the few directories that names cannot explain."""
        for part in readings.parts:
            for finding in missing_halves(self._storage, part.location.listing.root, part.state):
                yield finding.at(part.partition)

    # --- compaction

    @asks(CompactArguments)
    def plan_compaction(self, asked: CompactArguments) -> CompactionPlan:
        """What `compact` would do; changes nothing, but opens the end of every file that it concerns."""
        return self.prepare_compaction(**asked.keywords()).plan

    @asks(CompactArguments)
    def prepare_compaction(self, asked: CompactArguments) -> Prepared:
        """A plan and all it takes to carry it out. UsageError where neither a write-id list is given nor
        `assume_committed`, and for a saved plan of another table or run.
        """
        from acidctl.compaction.run import prepare

        prepared = prepare(
            self._storage,
            self._root,
            self._url,
            self._options,
            asked,
            saved=asked.plan,
            accept_edited=asked.accept_edited,
            limit=asked.limit,
        )
        return replace(prepared, before_publishing=asked.before_publishing)

    @asks(CompactArguments)
    def compact(self, asked: CompactArguments) -> CompactionReport:
        """Plan, rewrite, verify and publish; nothing is ever deleted.

        After `max_runtime` nothing new is begun; when `grace` is over as well, what is not finished is given up. What
        became of each partition is in the report; raised is only what concerns all.
        """
        choice = EngineChoice(
            asked.engine, asked.master, asked.conf or {}, asked.spark, asked.parallelism, asked.memory
        )
        with early_engine(choice, notify=asked.notify, verbose=asked.verbose) as (early, begin):

            def progress(done: int, total: int | None) -> None:
                if total:
                    begin()  # there is something to do
                asked.progress(done, total)

            prepared = self.prepare_compaction(**replace(asked, progress=progress).keywords())
            if prepared.idle:
                asked.planned(prepared.plan, "")
                return prepared.start(on_partition=asked.finished).run()
            size = prepared.bytes_in
            engine, why = make_engine(choice, size, notify=asked.notify, verbose=asked.verbose, early=early)
            with closing(engine):
                plan = prepared.plan
                plan = replace(plan, notes=(*plan.notes, *choice.advice(prepared.tasks, size)))
                asked.planned(plan, why)
                run = replace(prepared, plan=plan).start(engine, watch=asked.watch, on_partition=asked.finished)
                with asked.during(run):
                    return run.run()

    # --- cleaning

    @asks(CleanArguments)
    def clean(self, asked: CleanArguments) -> CleanReport:
        """Show what no reader can reach any more, or delete it, move it to quarantine, or bring it back from there.

        UsageError where the lists do not say what every live reader sees.
        """
        run = self.prepare_clean(**asked.keywords())
        place = None if asked.quarantine is None else self._own_path(asked.quarantine)
        if asked.action == "undo":
            return run.undo(place)
        plan = run.plan(progress=asked.progress, whole=asked.action == "show")
        if asked.action == "show":
            return run.show(plan)
        if plan.victims:
            asked.confirm(plan)
        if asked.action == "delete":
            return run.delete(plan, progress=asked.progress)
        if asked.action == "quarantine":
            return run.quarantine(plan, place, progress=asked.progress)
        raise UsageError(f"unknown action {asked.action!r}; expected show, delete, quarantine or undo")

    @asks(CleanArguments)
    def plan_clean(self, asked: CleanArguments) -> CleanPlan:
        """What `clean` would remove and why; changes nothing."""
        return self.prepare_clean(**asked.keywords()).plan()

    @asks(CleanArguments)
    def prepare_clean(self, asked: CleanArguments) -> CleanRun:
        """A run of `clean`, to be shown, and then carried out with its `delete`, `quarantine` or `undo`."""
        from acidctl.cleaning.run import prepare

        return prepare(self._storage, self._root, asked, locations=self.locations(asked.partitions), now=asked.now)

    def _own_path(self, url: str) -> str:
        """The path of a URL within the table's own storage; UsageError when it is of another storage."""
        storage, path = resolve_url(url, self._options)
        shown, own = storage.display(path), self.location
        # Another cluster, or a folder of this machine beside a table that is elsewhere.
        if shown != self._storage.display(path):
            raise UsageError(
                f"{shown} is not on the storage of {own}", path=shown, hint="Name a place on the table's own storage."
            )
        if isinstance(self._storage, LocalStorage):
            self._storage.add_top(path)
        return path

    def require_outside(self, path: str, option: str) -> None:
        """UsageError where a file of this machine that an option names would be taken for the table's data."""
        require_outside(self._storage, self._root, path, option)

    def _read(self, view: ReadView, *, whole: bool = False) -> TableState:
        """What lies there, judged; with `whole` NotEnoughHistoryError where inputs of a compaction are gone that the
        lists do not show.
        """
        readings = read(self.locations(view.partitions), view)
        readings = readings.of_table(whole_path(self._storage, self._root), view.table, self.location)
        if whole and (error := self._history_error(readings)) is not None:
            raise error
        return readings

    def _history_error(self, readings: TableState) -> NotEnoughHistoryError | None:
        """Why some location no longer has what the lists show, by names or else by files."""
        for part in readings.parts:
            if part.state.not_enough_history is not None:
                return part.state.not_enough_history
        found = ((part, self._too_old(part, readings)) for part in readings.parts)
        shown = self._storage.display
        return next((old.to_error(shown(part.location.listing.root)) for part, old in found if old is not None), None)

    def _aged(self, part: PartitionState, readings: TableState) -> PartitionState:
        """A location with what files tell of the age of the lists; damage is shown file by file, and nothing can be
        compared in formats that are not read.
        """
        try:
            return part.with_too_old(self._too_old(part, readings))
        except (DamagedDataError, NotAcidTableError):
            return part

    def _too_old(self, part: PartitionState, readings: TableState) -> TooOld | None:
        """See `rows.old_lists`; opens a file only where an output of a compaction is not shown by the lists."""
        ids = readings.lists.effective_write_ids
        if part.state.not_enough_history is not None or not unseen_outputs(part.state, ids):
            return part.state.too_old
        from acidctl.fileformats.plain import PlainFiles
        from acidctl.rows.old_lists import lists_too_old

        plain = PlainFiles(readings.schema)
        return lists_too_old(self._storage, part.location.listing.root, part.state, ids, plain)
