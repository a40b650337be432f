"""Carry out a compaction plan: partition after partition, tasks of many at once, each published when it is complete.

    lock -> recover what a dead run left -> inputs still as planned? -> work directory -> tasks -> verify, publish

A failure concerns its partition alone. An interrupt ends the engine, removes work directories and locks, and leaves
every table as it was; partitions that were published before stay so. The end of the time that a run may take does the
same to what is not finished by then, and is no failure; a storage that has stopped answering ends a run as well, and
keeps what there is. Nothing that a table consists of is ever removed.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, suppress
from dataclasses import field, replace
from functools import partial
from typing import Any

from acidctl.compaction.coverage import require_read, require_selected, seen_by_readers
from acidctl.compaction.decision import Decision, accept, decide, require_current
from acidctl.compaction.partition_run import PartitionRun, TablePlace, TaskPart, as_acidctl_error, failed_report
from acidctl.compaction.plan import (
    THROUGH_QUEUE,
    Action,
    CompactionPlan,
    NotPlannedError,
    PartitionPlan,
    TableView,
    from_options,
    to_options,
)
from acidctl.compaction.planner import require_believed
from acidctl.compaction.publish import publish, require_free, require_inputs
from acidctl.compaction.recovery import has_leftovers, recover
from acidctl.compaction.report import CompactionReport, Outcome, PartitionReport, untouched
from acidctl.engine import Engine, Task, TaskOutcome
from acidctl.errors import AcidctlError, ExitCode, StalePlanError, TimeUpError, UsageError, VerificationError
from acidctl.findings import accepted_codes
from acidctl.format.list_texts import recognise
from acidctl.format.listing import Listing
from acidctl.format.write_ids import ValidTxns, ValidWriteIds
from acidctl.maintenance.limits import MAX_RUNTIME, UNREACHABLE, Reach, TimeLimit, wall_clock
from acidctl.maintenance.lock import Lock, acquire
from acidctl.maintenance.work_dir import WorkDir, list_location
from acidctl.options import CompactOptions, unwatched
from acidctl.phases import added, phase, since, so_far
from acidctl.rows.belief import findings_of
from acidctl.rows.table_view import list_table, own_table_warnings, read, schema_of
from acidctl.state.entries import AcidState
from acidctl.storage.local import LocalStorage, together, whole_path
from acidctl.storage.locations import Location
from acidctl.storage.port import Storage, join
from acidctl.storage.resolve import options_elsewhere
from acidctl.values import dataclass

# A wave is prepared, then handed to the engine whole: enough to keep cores busy, few enough to hold in memory.
_WAVE_TASKS = 512
WAVE_PARTITIONS = 64
# With a time limit waves are smaller, so that little has begun when it comes: some tasks for each slot of the engine,
# but not less than what is done in seconds.
_LIMITED_TASKS = 4
_LIMITED_BYTES = 64 << 20
_SLOTS = 16
# Preparing and publishing wait for the storage, not for a core; so few at a time, until one of them has waited for so
# many times as long as it was at work.
STORAGE_THREADS = 8
_FIRST_TURNS, _LONG = 3, 8


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: partitions, and rows and bytes of their inputs; `partition` is the one last heard of."""

    partition: str
    partitions_done: int
    partitions: int
    rows_done: int
    rows: int
    bytes_done: int
    bytes: int


OnProgress = Callable[[Progress], None]
# Called for each partition as soon as it is finished; from any thread, one at a time.
OnPartition = Callable[[PartitionReport], None]
# The plan of one partition that is to be compacted, made anew from what lies there now: the same or less.
Replan = Callable[[PartitionPlan, Listing], PartitionPlan]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and all it takes to carry it out.

    `leftovers` are paths of partitions in which names of earlier runs were seen; they are recovered too. Without
    `replan`, a partition in which a dead run had to be completed first is stale. `break_locks` takes over locks
    although their owner may be alive. `limit` bounds the time of the whole run, `began` are the seconds by phase that
    this process had spent before it. `decode_copied` decodes rows of stripes that are copied. What `before_publishing`
    raises keeps a partition as it is. Findings of `accepted` codes refuse nothing.
    """

    place: TablePlace
    plan: CompactionPlan
    replan: Replan | None = None
    leftovers: frozenset[str] = frozenset()
    break_locks: bool = False
    limit: TimeLimit | None = None
    decode_copied: bool = False
    before_publishing: Callable[[], None] = lambda: None
    accepted: frozenset[str] = frozenset()
    began: Mapping[str, float] = field(default_factory=so_far)

    @property
    def bytes_in(self) -> int:
        """What the tasks will read."""
        return sum(part.bytes_in for part in self.plan.partitions if part.action is Action.COMPACT)

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done on any storage."""
        return not self.leftovers and all(part.action is not Action.COMPACT for part in self.plan.partitions)

    @property
    def tasks(self) -> int:
        """How many there are, joins apart."""
        todo = (part for part in self.plan.partitions if part.action is Action.COMPACT)
        return sum(len(task.cuts) + 1 for part in todo for task in part.tasks)

    def start(
        self,
        engine: Engine | None = None,
        *,
        watch: OnProgress | None = None,
        on_partition: OnPartition | None = None,
    ) -> Compaction:
        """The run, which begins with its `run`; without an engine it has nothing to do."""
        # What connects to another storage has threads that a copy of this process would not have.
        copy_workers = getattr(engine, "copy_workers", None)
        if copy_workers is not None and isinstance(self.place.storage, LocalStorage):
            copy_workers(self.tasks, self.bytes_in)
        return Compaction(self, engine or _Idle(), watch or (lambda _: None), on_partition or (lambda _: None))


class Compaction:
    """One run of a plan."""

    def __init__(self, prepared: Prepared, engine: Engine, watch: OnProgress, on_partition: OnPartition) -> None:
        self._prepared = prepared
        self._place = prepared.place
        self._plan = prepared.plan
        self._limit = prepared.limit
        self._engine = engine
        self._on_progress = watch
        self._on_partition = on_partition
        self._cancelled = False
        self._expired = False
        self._engaged = False
        self._reach = Reach(self._place.storage, self._place.root)
        self._reporting = threading.Lock()
        self._turns, self._more_turns = threading.Semaphore(_FIRST_TURNS), iter(range(_FIRST_TURNS, STORAGE_THREADS))
        self._open: dict[str, PartitionRun] = {}
        self._elsewhere: list[Mapping[str, float]] = []
        self._reports: dict[str, PartitionReport] = {}
        todo = [part for part in self._plan.partitions if part.action is Action.COMPACT]
        self._progress = Progress("", 0, len(todo), 0, sum(map(_rows, todo)), 0, sum(map(_bytes, todo)))

    def cancel(self) -> bool:
        """Make `run` end with KeyboardInterrupt before it takes another outcome; for signal handlers.

        Whether the handler should raise one too: only while the engine is at work, which may take long. Elsewhere it
        could leave a lock held of those by which threads wait for each other; and even there, an interrupt that is
        raised in the middle of a foreign library can get lost.
        """
        self._cancelled = True
        return self._engaged

    def expire(self) -> bool:
        """Give up what is not finished, because the grace is over; whether to raise TimeUpError, as for `cancel`."""
        self._expired = True
        return self._engaged and not self._cancelled

    @property
    def seconds_left(self) -> float | None:
        """Until `expire` is to be called; None where nothing bounds the time."""
        return None if self._limit is None else self._limit.left

    @property
    def compacted(self) -> int:
        """Partitions published so far."""
        return sum(report.outcome is Outcome.COMPACTED for report in self._reports.values())

    def run(self) -> CompactionReport:
        """Do it all. Raises only what concerns the whole run and left no partition changed."""
        plan, started = self._plan, wall_clock()
        for part in plan.partitions:
            if part.action is not Action.COMPACT and part.path not in self._prepared.leftovers:
                self._record(part, untouched(part))
        work = [part for part in plan.partitions if part.path not in self._reports]
        # Longest first keeps all cores busy; where not all may have their turn, those in most need come first.
        by_need = self._limit is not None
        queue = deque(sorted(work, key=lambda part: (-len(part.inputs) if by_need else 0, -part.bytes_in)))
        try:
            # Whatever changes the storage is done by these threads: an interrupt comes to the main thread alone.
            with ThreadPoolExecutor(STORAGE_THREADS, thread_name_prefix="acidctl-storage") as workers:
                try:
                    self._run_waves(queue, workers)
                except BaseException:
                    workers.shutdown(wait=True, cancel_futures=True)
                    raise
        except AcidctlError as error:
            self._abort()
            if not self.compacted:
                raise
            for part in work:
                if part.path not in self._reports:
                    self._record(part, failed_report(part, error, 0.0, part.notes))
        except BaseException:
            self._abort()
            raise
        return CompactionReport(
            location=plan.location,
            kind=plan.kind.value,
            target=plan.target.value,
            engine=self._engine.name,
            visibility_txn=plan.visibility_txn,
            assumed=plan.assumed,
            partitions=tuple(self._reports[part.path] for part in plan.partitions),
            seconds=wall_clock() - started,
            notes=plan.notes,
            phases=added([since(self._prepared.began), *self._elsewhere]),
        )

    def _abort(self) -> None:
        """End the engine first: a task that still runs would write into what is being removed."""
        with suppress(Exception):
            self._engine.close()
        for running in list(self._open.values()):
            with suppress(Exception):
                running.work.remove()
            with suppress(Exception):
                running.lock.release()
        self._open.clear()

    # --- waves

    def _run_waves(self, queue: deque[PartitionPlan], workers: ThreadPoolExecutor) -> None:
        """Feed the engine until nothing is left, the time is over, or the storage gone."""
        ending: list[Future[None]] = []
        joins: list[TaskPart] = []
        coming: list[Future[PartitionRun | None]] = []
        begun = False
        try:
            while queue or joins or coming:
                # One wave at least, so that run after run gets somewhere even where planning has taken all the time.
                if begun and self._limit is not None and self._limit.over:
                    self._leave_for_later(queue)
                # Parts that are complete are joined along with the next wave.
                task_parts, joins, begun = joins, [], True
                for made in coming or self._beginning(queue, workers):
                    running = made.result()
                    if running is not None:
                        task_parts += running.task_parts()
                        if not running.left:
                            ending.append(workers.submit(self._in_turn, self._end, running))
                # The next ones are made ready while the engine is at work, unless the time may end before their turn.
                coming = [] if self._limit is not None else self._beginning(queue, workers)
                with closing(self._outcomes(task_parts, workers)) as outcomes:
                    for task_part, outcome in outcomes:
                        running = task_part.running
                        if outcome.result is not None and outcome.result.process != os.getpid():
                            self._elsewhere.append(outcome.result.phases)
                        joins += task_part.take(outcome)
                        self._report_progress(running.plan.partition, rows=task_part.rows, bytes=task_part.bytes)
                        if not running.left:
                            ending.append(workers.submit(self._in_turn, self._end, running))
        except TimeUpError:
            with suppress(Exception):
                self._engine.close()
            self._leave_for_later(queue)
            late = [running for running in list(self._open.values()) if running.left]
            late += [running for made in coming if (running := made.result()) is not None]
            ending += [workers.submit(self._in_turn, self._end, running, stopped=True) for running in late]
        except AcidctlError:
            # The engine has broken down: what it had finished is published all the same, and nothing begun.
            for made in coming:
                made.cancel()
            wait(ending)
            raise
        for future in ending:
            future.result()
            # What still waits for its turn is not begun any more.
            if self._cancelled and not all(other.done() for other in ending):
                raise KeyboardInterrupt

    def _beginning(self, queue: deque[PartitionPlan], workers: ThreadPoolExecutor) -> list[Future[PartitionRun | None]]:
        return [workers.submit(self._in_turn, self._begin, part) for part in self._wave(queue)]

    def _in_turn(self, work: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """Threads that do not wait for the storage only take the interpreter from each other, at each of its calls."""
        with self._turns:
            began, busy = time.monotonic(), time.thread_time()
            done = work(*given, **more)
            waited = time.monotonic() - began > _LONG * (time.thread_time() - busy)
        if waited and next(self._more_turns, None) is not None:
            self._turns.release()
        return done

    def _wave(self, queue: deque[PartitionPlan]) -> list[PartitionPlan]:
        """The next partitions: one at least, and not more than a wave should hold."""
        chosen: list[PartitionPlan] = []
        tasks = size = 0
        slots = getattr(self._engine, "parallelism", _SLOTS)
        while queue and tasks < _WAVE_TASKS and len(chosen) < WAVE_PARTITIONS:
            if self._limit is not None and tasks >= _LIMITED_TASKS * slots and size >= _LIMITED_BYTES:
                break
            chosen.append(queue.popleft())
            tasks += sum(len(task.cuts) + 1 for task in chosen[-1].tasks)
            size += chosen[-1].bytes_in
        return chosen

    def _outcomes(
        self, task_parts: list[TaskPart], workers: ThreadPoolExecutor
    ) -> Generator[tuple[TaskPart, TaskOutcome], None, None]:
        """What the engine answers; TimeUpError when nothing more is to be waited for."""
        place, table = self._place, self._plan.table
        if self._reach.stopped:
            raise TimeUpError
        task_parts.sort(key=lambda task_part: -task_part.bytes)
        hosts: Iterator[tuple[str, ...]] = iter([()] * len(task_parts))
        if getattr(self._engine, "uses_hosts", False):
            hosts = workers.map(lambda task_part: task_part.hosts(place.storage), task_parts)
        specs = [
            replace(part.spec(place, table, found), decode_copied=self._prepared.decode_copied)
            for part, found in zip(task_parts, hosts, strict=True)
        ]
        outcomes = self._engine.run(specs) if specs else iter(())
        with ExitStack() as stack:
            stack.callback(getattr(outcomes, "close", lambda: None))  # an engine's generator ends what it began
            while (outcome := self._next(outcomes)) is not None:
                task_part = task_parts[outcome.index]
                if outcome.error is None:
                    self._reach.answered()
                else:
                    self._reach.heed(task_part.running.plan.path, outcome.error)
                yield task_part, outcome
                if self._reach.stopped:
                    raise TimeUpError

    def _next(self, outcomes: Iterator[TaskOutcome]) -> TaskOutcome | None:
        """What the engine answers next, None at its end."""
        if self._expired or (self._limit is not None and not self._limit.left):
            raise TimeUpError
        self._engaged = True
        try:
            outcome = next(outcomes, None)
            if self._cancelled:
                raise KeyboardInterrupt
            if self._expired and outcome is not None and outcome.error is not None:
                # Some library made an error of it.
                raise TimeUpError
        finally:
            self._engaged = False
        return outcome

    def _leave_for_later(self, queue: deque[PartitionPlan]) -> None:
        """What has not begun when the time is over, or the storage gone."""
        for part in queue:
            compacts = part.action is Action.COMPACT
            self._record(part, self._left_report(part, None, part.notes) if compacts else untouched(part))
        queue.clear()

    # --- the beginning and the end of a partition, in threads of their own

    def _begin(self, part: PartitionPlan) -> PartitionRun | None:
        """A partition with its work directory, or None and a report."""
        if self._reach.stopped:
            self._leave_for_later(deque([part]))
            return None
        started = wall_clock()
        storage, root = self._place.storage, join(self._place.root, part.path)
        compacts = part.action is Action.COMPACT
        lock: Lock | None = None
        try:
            lock = acquire(storage, root, now=started, unsafe_break_lock=self._prepared.break_locks)
            listing = list_location(storage, root)
            txns = ValidTxns.parse(self._plan.txns) if self._plan.txns else None
            ids = ValidWriteIds.parse(self._plan.write_ids) if self._plan.write_ids else None
            notes = tuple(recover(storage, root, listing, lock=lock, txns=txns, ids=ids))
            if notes:
                listing = list_location(storage, root)
                if compacts and self._prepared.replan is not None:
                    part = self._prepared.replan(part, listing)
            if part.action is Action.COMPACT:
                require_free(storage, root, listing, part)
                require_inputs(listing, part)
                state = require_selected(listing, part, self._plan)
                part = self._believed(part, root, state, seen_by_readers(listing, self._plan, state))
            if part.action is Action.COMPACT:
                names = [output.name for output in part.outputs]
                work = WorkDir.create(storage, root, self._plan.kind.value, names, lock)
                running = PartitionRun(part, root, lock, work, started, (*part.notes, *notes))
                self._open[part.path] = running
                return running
            self._record(part, replace(untouched(part), notes=(*part.notes, *notes)))
        except Exception as problem:
            error = as_acidctl_error(problem)
            if part.action is not Action.COMPACT and isinstance(error, StalePlanError):
                # Another run works there, and there was nothing for us to do.
                self._record(part, replace(untouched(part), notes=(*part.notes, error.message)))
            else:
                self._record(part, failed_report(part, error, wall_clock() - started, part.notes))
            self._reach.heed(part.path, error)
        if lock is not None and self._reach.gone:
            lock.leave()
        elif lock is not None:
            with suppress(AcidctlError):
                lock.release()
        self._report_progress(part.partition, partitions=1, rows=_rows(part), bytes=_bytes(part))
        return None

    def _believed(self, part: PartitionPlan, root: str, state: AcidState, readers: AcidState) -> PartitionPlan:
        """The plan, or a refusal where names have become doubtful, in what the compactor or what readers see.

        Of a saved one all is asked again, its lists too: other doubts may have been accepted when it was made, and
        earlier versions asked less.
        """
        storage, table = self._place.storage, self._plan.table
        seen = (state,) if readers is state else (state, readers)
        found = [one for each in seen for one in each.doubts]
        try:
            if self._prepared.replan is None:
                ids = ValidWriteIds.parse(table.write_ids) if table.write_ids else ValidWriteIds.everything()
                schema = from_options(self._plan.options).schema if self._plan.options else None
                require_current(storage, root, state, ids.compactor(), schema_of(schema))
                found = [one for each in seen for one in findings_of(storage, root, each)]
            require_believed(found, self._prepared.accepted)
        except NotPlannedError as why:
            return part.left(why)
        return part

    def _end(self, running: PartitionRun, *, stopped: bool = False) -> None:
        """Publish, or keep or remove what was made; `stopped` where not all tasks have answered."""
        part, storage, table = running.plan, self._place.storage, self._plan.table
        error = running.error
        outputs: tuple[str, ...] = ()
        stopped = stopped or (error is None and self._reach.gone)
        if error is None and not stopped:
            try:
                with phase("verify"):
                    require_read(storage, running.root, part, table, running.complete(), running.joined)
                results = running.results()
                self._prepared.before_publishing()
                with phase("publish"):
                    outputs = publish(storage, running.root, running.work, part, self._plan, results, running.lock)
            except Exception as problem:
                error = as_acidctl_error(problem)
                self._reach.heed(part.path, error)
        notes = [*running.notes, *self._remove_work(running, None if stopped else error)]
        seconds = wall_clock() - running.started
        # The partitions that met the failure report why the run stops.
        if error is not None and (not stopped or self._reach.stopped):
            report = failed_report(part, error, seconds, notes)
        elif stopped:
            report = self._left_report(part, seconds, notes)
        else:
            report = running.report(outputs, seconds, notes)
        del self._open[part.path]
        self._record(part, report)
        if not stopped:
            self._report_progress(part.partition, partitions=1)

    def _remove_work(self, running: PartitionRun, error: AcidctlError | None) -> list[str]:
        """Remove what a partition has on storage beside its result, but evidence; sentences on what stays there."""
        if self._reach.gone:
            running.lock.leave()
            return [f"{running.work.name} and the lock are left behind; the next run removes them."]
        notes = []
        try:
            with together(running.root):
                try:
                    if isinstance(error, VerificationError):
                        running.work.fail(error.message)
                        what = f"What was written is kept as evidence in {running.work.name}"
                        notes.append(f"{what}; `acidctl clean` removes it.")
                    else:
                        running.work.remove()
                except AcidctlError as problem:
                    notes.append(f"The work directory could not be removed: {problem.message}")
                running.lock.release()
        except AcidctlError as problem:
            notes.append(f"The lock could not be removed: {problem.message}")
        return notes

    # --- reports

    def _left_report(self, part: PartitionPlan, seconds: float | None, notes: Sequence[str]) -> PartitionReport:
        """The report of a partition that the time or the storage did not allow; `seconds` where it had begun."""
        begun, silent = seconds is not None, self._reach.stopped
        if silent:
            why = f"{'stopped' if begun else 'not started'}, because the storage no longer answers"
        else:
            why = "stopped at the end of --max-runtime and --grace" if begun else "not started within --max-runtime"
        return PartitionReport(
            part.partition,
            Outcome.REFUSED,
            UNREACHABLE if silent else MAX_RUNTIME,
            f"{why}; a later run compacts it",
            inputs=tuple(entry.name for entry in part.inputs),
            seconds=seconds or 0.0,
            notes=tuple(notes),
            exit_code=ExitCode.STORAGE if silent else ExitCode.DONE,
        )

    def _record(self, part: PartitionPlan, report: PartitionReport) -> None:
        """Note how a partition ended, and pass it on at once."""
        with self._reporting:
            self._reports[part.path] = report
            self._on_partition(report)

    def _report_progress(self, partition: str, *, partitions: int = 0, rows: int = 0, bytes: int = 0) -> None:
        with self._reporting:
            known = self._progress
            self._progress = replace(
                known,
                partition=partition,
                partitions_done=min(known.partitions_done + partitions, known.partitions),
                rows_done=min(known.rows_done + rows, known.rows),
                bytes_done=min(known.bytes_done + bytes, known.bytes),
            )
            self._on_progress(self._progress)


class _Idle:
    """The engine of a run without work."""

    name = "none"

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """Nothing."""
        return iter(())

    def close(self) -> None:
        """Nothing was started."""


def prepare(
    storage: Storage,
    root: str,
    url: str | None,
    secrets: Mapping[str, Any],
    asked: CompactOptions,
    *,
    saved: CompactionPlan | None = None,
    accept_edited: bool = False,
    limit: TimeLimit | None = None,
) -> Prepared:
    """A new plan of the table at `root`, or a saved one, and all it takes to carry it out.

    `url` and the storage options in `secrets` are how other processes open the same table. UsageError where neither a
    write-id list is given nor `assume_committed`, and for a saved plan of another table or run; of an edited one that
    is accepted only what its editor may decide is taken.
    """
    shown, began = storage.display(root), so_far()
    # Other processes may stand in another directory.
    url = whole_path(storage, root) if isinstance(storage, LocalStorage) else url or shown
    place = TablePlace(storage, root, url, options_elsewhere(url, secrets, os.environ))
    if limit is None and asked.max_runtime is not None:
        limit = TimeLimit(asked.max_runtime, asked.grace)
    progress = asked.progress if saved is None else unwatched

    def decided(options: CompactOptions) -> tuple[tuple[Location, ...], Decision]:
        locations = list_table(storage, root, options.partitions)
        state = read(locations, options, complete=True)
        state = state.of_table(whole_path(storage, root), options.table, shown, changes=True)
        view = TableView(state.lists, state.kind, state.schema)
        return locations, decide(storage, root, locations, view, options, progress=progress, limit=limit)

    prepared = partial(
        Prepared,
        place,
        break_locks=asked.unsafe_break_lock,
        limit=limit,
        decode_copied=asked.decode_copied,
        accepted=accepted_codes(asked.accept_doubts),
    )
    if saved is None:
        locations, decision = decided(asked)
        plan = replace(decision.plan, options=to_options(asked))
        listings = (location.listing for location in locations if not location.stray)
        # What an earlier run, or one that is going on, has left there is recovered too.
        leftovers = frozenset(item.root[len(root) :].lstrip("/") for item in listings if has_leftovers(item))
        return prepared(plan=plan, replan=decision.again, leftovers=leftovers, began=began)
    _require_own(saved, asked, shown)
    _require_own_lists(from_options(saved.options), asked.table, whole_path(storage, root), shown)
    if accept_edited:
        # What was assumed when the plan was made is assumed again only where it is given again.
        options = from_options(saved.options)
        again = replace(
            options,
            assume_committed=options.assume_committed and asked.assume_committed,
            assume_exclusive=options.assume_exclusive and asked.assume_exclusive,
            accept_doubts=asked.accept_doubts,
        )
        saved = accept(saved, decided(again)[1].plan)
    return prepared(plan=saved)


def _require_own(plan: CompactionPlan, asked: CompactOptions, location: str) -> None:
    if plan.location != location:
        raise UsageError(
            f"the plan is for {plan.location}, not for {location}",
            path=location,
            hint="Name the table as it was named when the plan was made, or make a new plan.",
        )
    if THROUGH_QUEUE in plan.notes:
        raise UsageError(
            "the plan is of a compaction through Hive's queue, whose transactions were not opened yet",
            path=location,
            hint="Leave out --plan: the run plans anew. A plan made with --validtxns can be saved.",
        )
    if plan.kind.value != asked.kind:
        raise UsageError(f"the plan is for a {plan.kind.value} compaction, not for a {asked.kind} one")
    if plan.assume_exclusive and not asked.assume_exclusive:
        raise UsageError(
            "the plan is for a table that nobody else uses while it runs",
            path=location,
            hint="Add --assume-exclusive if that is so now.",
        )


def _require_own_lists(options: CompactOptions, stated: str | None, root: str, shown: str) -> None:
    """UsageError where the lists of a plan are of another table: an older version made plans of such with a warning."""
    stated = stated or options.table
    lists = recognise(options.validtxns, table=stated, list_format=options.list_format, as_of=options.as_of)
    listed = lists.effective_write_ids.table
    own_table_warnings(root, schema_of(options.schema), listed=listed, stated=stated, shown=shown, changes=True)


def _rows(part: PartitionPlan) -> int:
    return sum(task.rows_in for task in part.tasks)


def _bytes(part: PartitionPlan) -> int:
    return sum(task.bytes_in for task in part.tasks)
