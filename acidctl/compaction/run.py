"""Carry out a compaction plan: partition after partition, tasks of many at once, each published when it is complete.

    lock -> recover what a dead run left -> inputs still as planned? -> work directory -> tasks -> verify, publish

A failure concerns its partition alone. An interrupt ends the engine, takes away work directories and locks, and leaves
every table as it was; partitions that were published before stay so. The end of the time that a run may take does the
same to what is not finished by then, and is no failure; a storage that has stopped answering ends a run as well, and
keeps what there is. Nothing that a table consists of is ever removed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from acidctl.compaction.coverage import require_selected
from acidctl.compaction.partition_run import Piece, Session, TablePlace, failed, ours
from acidctl.compaction.plan import Action, CompactionPlan, PartitionPlan, TaskSpec
from acidctl.compaction.publish import publish, require_absent, require_inputs
from acidctl.compaction.recover import has_leftovers, recover
from acidctl.compaction.report import CompactionReport, Outcome, PartitionReport, untouched
from acidctl.engine.base import Engine, TaskOutcome
from acidctl.errors import AcidctlError, ExitCode, StalePlanError, VerificationError
from acidctl.format.listing import Listing
from acidctl.format.write_ids import ValidTxns
from acidctl.maintenance.limits import MAX_RUNTIME, UNREACHABLE, Reach, TimeLimit, TimeUpError, wall_clock
from acidctl.maintenance.lock import Lock, acquire
from acidctl.maintenance.work_dir import WorkDir, list_location
from acidctl.storage.locations import Location
from acidctl.storage.port import join

# A wave is prepared, then handed to the engine whole: enough to keep cores busy, few enough to hold in memory.
_WAVE_TASKS = 512
_WAVE_PARTITIONS = 64
# With a time limit waves are smaller, so that little has begun when it comes: some tasks for each slot of the engine,
# but not less than what is done in seconds.
_LIMITED_TASKS = 4
_LIMITED_BYTES = 64 << 20
_SLOTS = 16
# Preparing and publishing wait for the storage, not for a core.
_STORAGE_THREADS = 4


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


Watch = Callable[[Progress], None]
# Told of each partition as soon as it is finished; from any thread, one at a time.
Told = Callable[[PartitionReport], None]
# The plan of one partition that is to be compacted, made anew from what lies there now: the same or less.
Replan = Callable[[PartitionPlan, Listing], PartitionPlan]


class _StoppedError(Exception):
    """The storage does not answer any more."""


def _unwatched(progress: Progress) -> None:
    """Nobody looks."""


def _untold(report: PartitionReport) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan and all it takes to carry it out; see `Compaction` for `replan` and `leftovers`.

    `break_locks` takes over locks whose owner cannot be told to be dead. `limit` bounds the time of the whole run.
    """

    place: TablePlace
    plan: CompactionPlan
    replan: Replan | None = None
    leftovers: frozenset[str] = frozenset()
    break_locks: bool = False
    limit: TimeLimit | None = None

    @property
    def bytes_in(self) -> int:
        """What the tasks will read."""
        return sum(part.bytes_in for part in self.plan.partitions if part.action is Action.COMPACT)

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done on any storage."""
        return not self.leftovers and all(part.action is not Action.COMPACT for part in self.plan.partitions)

    def start(self, engine: Engine, *, watch: Watch | None = None, told: Told | None = None) -> Compaction:
        """The run; it begins with its `run`."""
        return Compaction(self, engine, watch=watch or _unwatched, told=told or _untold)


class Compaction:
    """One run of a plan."""

    def __init__(
        self,
        prepared: Prepared,
        engine: Engine,
        *,
        now: Callable[[], float] = wall_clock,
        watch: Watch = _unwatched,
        told: Told = _untold,
    ) -> None:
        """`leftovers` are paths of partitions in which names of earlier runs were seen; they are recovered too.

        Without `replan`, a partition in which a dead run had to be completed first is stale.
        """
        plan = prepared.plan
        self._place = prepared.place
        self._plan = plan
        self._engine = engine
        self._replan = prepared.replan
        self._leftovers = prepared.leftovers
        self._break_locks = prepared.break_locks
        self._limit = prepared.limit
        self._txns = ValidTxns.parse(plan.txns) if plan.txns else None
        self._now = now
        self._watch = watch
        self._told = told
        self._cancelled = False
        self._expired = False
        self._engaged = False
        self._reach = Reach(self._place.storage, self._place.root)
        self._telling = threading.Lock()
        self._open: dict[str, Session] = {}
        self._reports: dict[str, PartitionReport] = {}
        todo = [part for part in plan.partitions if part.action is Action.COMPACT]
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
        started = self._now()
        for part in self._plan.partitions:
            if part.action is not Action.COMPACT and part.path not in self._leftovers:
                self._settle(part, untouched(part))
        work = [part for part in self._plan.partitions if part.path not in self._reports]
        queue = deque(sorted(work, key=self._turn))
        try:
            # Whatever changes the storage is done by these threads: an interrupt comes to the main thread alone.
            with ThreadPoolExecutor(_STORAGE_THREADS, thread_name_prefix="acidctl-storage") as workers:
                try:
                    self._waves(queue, workers)
                except BaseException:
                    workers.shutdown(wait=True, cancel_futures=True)
                    raise
        except AcidctlError as error:
            self._abandon()
            if not self.compacted:
                raise
            for part in work:
                if part.path not in self._reports:
                    self._settle(part, failed(part, error, 0.0, part.notes))
        except BaseException:
            self._abandon()
            raise
        return CompactionReport(
            location=self._plan.location,
            kind=self._plan.kind.value,
            target=self._plan.target.value,
            engine=self._engine.name,
            visibility_txn=self._plan.visibility_txn,
            assumed=self._plan.assumed,
            partitions=tuple(self._reports[part.path] for part in self._plan.partitions),
            seconds=self._now() - started,
            notes=self._plan.notes,
        )

    def _abandon(self) -> None:
        """End the engine first: a task that still runs would write into what is being removed."""
        with suppress(Exception):
            self._engine.close()
        for session in list(self._open.values()):
            with suppress(Exception):
                session.work.remove()
            with suppress(Exception):
                session.lock.release()
        self._open.clear()

    def _settle(self, part: PartitionPlan, report: PartitionReport) -> None:
        """Note how a partition ended, and pass it on at once."""
        with self._telling:
            self._reports[part.path] = report
            self._told(report)

    # --- waves

    def _turn(self, part: PartitionPlan) -> tuple[int, int]:
        """Longest first keeps all cores busy; where not all may have their turn, those in most need come first."""
        return (0 if self._limit is None else -len(part.inputs)), -part.bytes_in

    def _waves(self, queue: deque[PartitionPlan], workers: ThreadPoolExecutor) -> None:
        """Feed the engine until nothing is left, or the time is over."""
        finishing: list[Future[None]] = []
        try:
            self._work_off(queue, workers, finishing)
        except (TimeUpError, _StoppedError):
            with suppress(Exception):
                self._engine.close()
            self._leave(queue)
            late = [session for session in list(self._open.values()) if session.left]
            finishing += [workers.submit(self._give_up, session) for session in late]
        for future in finishing:
            future.result()
            # What waits for its turn yet is not begun any more.
            if self._cancelled and not all(other.done() for other in finishing):
                raise KeyboardInterrupt

    def _work_off(
        self, queue: deque[PartitionPlan], workers: ThreadPoolExecutor, finishing: list[Future[None]]
    ) -> None:
        """Wave after wave; parts that are complete are joined along with the next wave."""
        joins: list[Piece] = []
        while queue or joins:
            if self._limit is not None and self._limit.over:
                self._leave(queue)
            pieces, joins = joins, []
            for session in workers.map(self._begin, self._wave(queue)):
                if session is None:
                    continue
                pieces += session.pieces()
                if not session.left:
                    finishing.append(workers.submit(self._finish, session))
            if self._reach.stopped:
                raise _StoppedError
            pieces.sort(key=lambda piece: -piece.bytes)
            specs = self._specs(pieces, workers)
            with _ended(self._engine.run(specs) if specs else iter(())) as outcomes:
                while (outcome := self._next(outcomes)) is not None:
                    piece = pieces[outcome.index]
                    if outcome.error is None:
                        self._reach.answered()
                    else:
                        self._reach.heed(piece.session.plan.path, outcome.error)
                    joins += piece.take(outcome)
                    self._tell(piece.session.plan.partition, rows=piece.rows, bytes=piece.bytes)
                    if not piece.session.left:
                        finishing.append(workers.submit(self._finish, piece.session))
                    if self._reach.stopped:
                        raise _StoppedError

    def _wave(self, queue: deque[PartitionPlan]) -> list[PartitionPlan]:
        """The next partitions: one at least, and not more than a wave should hold."""
        chosen: list[PartitionPlan] = []
        tasks = size = 0
        slots = getattr(self._engine, "parallelism", _SLOTS)
        while queue and tasks < _WAVE_TASKS and len(chosen) < _WAVE_PARTITIONS:
            if self._limit is not None and tasks >= _LIMITED_TASKS * slots and size >= _LIMITED_BYTES:
                break
            chosen.append(queue.popleft())
            tasks += sum(len(task.cuts) + 1 for task in chosen[-1].tasks)
            size += chosen[-1].bytes_in
        return chosen

    def _leave(self, queue: deque[PartitionPlan]) -> None:
        """What has not begun when the time is over, or the storage gone."""
        for part in queue:
            if part.action is Action.COMPACT:
                self._settle(part, self._left(part))
            else:
                self._settle(part, untouched(part))
        queue.clear()

    def _left(
        self, part: PartitionPlan, seconds: float | None = None, notes: Sequence[str] | None = None
    ) -> PartitionReport:
        """The report of a partition for which there was no time, or no storage; `seconds` where it had begun."""
        what = "it was not begun" if seconds is None else "it was begun, and given up"
        if self._reach.stopped:
            why = f"{what}, because the storage has stopped answering"
        else:
            why = f"{what} " + (
                "within --max-runtime" if seconds is None else "when the grace of --max-runtime was over"
            )
        return PartitionReport(
            part.partition,
            Outcome.REFUSED,
            UNREACHABLE if self._reach.stopped else MAX_RUNTIME,
            f"{why}; a later run takes it",
            inputs=tuple(entry.name for entry in part.inputs),
            seconds=seconds or 0.0,
            notes=part.notes if notes is None else tuple(notes),
            exit_code=ExitCode.STORAGE if self._reach.stopped else ExitCode.DONE,
        )

    def _specs(self, pieces: Sequence[Piece], workers: ThreadPoolExecutor) -> list[TaskSpec]:
        """What the engine is given, with the machines that hold the inputs where that helps it."""
        place, table = self._place, self._plan.table
        if not getattr(self._engine, "uses_hosts", False):
            return [piece.spec(place, table) for piece in pieces]
        hosts = workers.map(lambda piece: piece.hosts(place.storage), pieces)
        return [piece.spec(place, table, found) for piece, found in zip(pieces, hosts, strict=True)]

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

    def _begin(self, part: PartitionPlan) -> Session | None:
        """A session with its work directory, or None and a report."""
        if self._reach.stopped:
            self._leave(deque([part]))
            return None
        started = self._now()
        root = join(self._place.root, part.path)
        storage = self._place.storage
        lock: Lock | None = None
        try:
            lock = acquire(storage, root, now=self._now(), unsafe_break_lock=self._break_locks)
            listing = list_location(storage, root)
            notes = tuple(recover(storage, root, listing, lock=lock, txns=self._txns))
            if notes:
                listing = list_location(storage, root)
                if part.action is Action.COMPACT and self._replan is not None:
                    part = self._replan(part, listing)
            if part.action is Action.COMPACT:
                require_absent(storage, root, listing, part)
                require_inputs(listing, part)
                require_selected(listing, part, self._plan)
                work = WorkDir.create(
                    storage,
                    root,
                    self._plan.kind.value,
                    [output.name for output in part.outputs],
                    now=self._now(),
                    lock=lock,
                )
                session = Session(part, root, lock, work, started, (*part.notes, *notes))
                self._open[part.path] = session
                return session
            self._settle(part, replace(untouched(part), notes=(*part.notes, *notes)))
        except Exception as error:
            if part.action is not Action.COMPACT and isinstance(error, StalePlanError):
                # Somebody else works there, and there was nothing for us to do.
                self._settle(part, replace(untouched(part), notes=(*part.notes, error.message)))
            else:
                self._settle(part, failed(part, ours(error), self._now() - started, part.notes))
            self._reach.heed(part.path, ours(error))
        if lock is not None and self._reach.gone:
            lock.leave()
        elif lock is not None:
            with suppress(AcidctlError):
                lock.release()
        self._tell(part.partition, partitions=1, rows=_rows(part), bytes=_bytes(part))
        return None

    # --- the end of a partition

    def _finish(self, session: Session) -> None:
        """Publish, or keep or remove what was made."""
        error = session.error
        outputs: tuple[str, ...] = ()
        if error is None and self._reach.gone:
            self._give_up(session)
            return
        try:
            if error is None:
                session.require_complete(self._place.storage, self._plan.table)
                outputs = publish(
                    self._place.storage,
                    session.root,
                    session.work,
                    session.plan,
                    self._plan,
                    session.results,
                    session.lock,
                )
        except Exception as problem:
            error = ours(problem)
            self._reach.heed(session.plan.path, error)
        notes = [*session.notes, *self._take_away(session, error)]
        seconds = self._now() - session.started
        if error is not None:
            report = failed(session.plan, error, seconds, notes)
        else:
            report = session.report(outputs, seconds, notes)
        del self._open[session.plan.path]
        self._settle(session.plan, report)
        self._tell(session.plan.partition, partitions=1)

    def _take_away(self, session: Session, error: AcidctlError | None = None) -> list[str]:
        """Remove what a partition has on storage beside its result, but evidence; sentences on what stays there."""
        if self._reach.gone:
            session.lock.leave()
            return [f"{session.work.name} and the lock are left behind; the next run removes them."]
        notes = []
        try:
            if isinstance(error, VerificationError):
                session.work.fail(error.message)
                notes.append(
                    f"What was written is kept as evidence in {session.work.name}; `acidctl clean` removes it."
                )
            else:
                session.work.remove()
        except AcidctlError as problem:
            notes.append(f"The work directory could not be removed: {problem.message}")
        try:
            session.lock.release()
        except AcidctlError as problem:
            notes.append(f"The lock could not be removed: {problem.message}")
        return notes

    def _give_up(self, session: Session) -> None:
        """End a partition that is not finished when the grace is over, or the storage gone."""
        notes = [*session.notes, *self._take_away(session)]
        seconds = self._now() - session.started
        if session.error is not None and self._reach.stopped:
            # Why the run stops is told by those that found it out.
            report = failed(session.plan, session.error, seconds, notes)
        else:
            report = self._left(session.plan, seconds, notes)
        del self._open[session.plan.path]
        self._settle(session.plan, report)

    def _tell(self, partition: str, *, partitions: int = 0, rows: int = 0, bytes: int = 0) -> None:
        with self._telling:
            known = self._progress
            self._progress = Progress(
                partition,
                min(known.partitions_done + partitions, known.partitions),
                known.partitions,
                min(known.rows_done + rows, known.rows),
                known.rows,
                min(known.bytes_done + bytes, known.bytes),
                known.bytes,
            )
            self._watch(self._progress)


def leftovers(root: str, locations: Sequence[Location]) -> frozenset[str]:
    """Paths below the table at which an earlier run, or one that is going on, has left its names."""
    listings = (place.listing for place in locations if not place.stray)
    return frozenset(item.root[len(root) :].lstrip("/") for item in listings if has_leftovers(item))


def _rows(part: PartitionPlan) -> int:
    return sum(task.rows_in for task in part.tasks)


def _bytes(part: PartitionPlan) -> int:
    return sum(task.bytes_in for task in part.tasks)


@contextmanager
def _ended(outcomes: Iterator[TaskOutcome]) -> Iterator[Iterator[TaskOutcome]]:
    """Tell the engine when its outcomes are not wanted any more, where it gives them by a generator."""
    try:
        yield outcomes
    finally:
        close = getattr(outcomes, "close", None)
        if close is not None:
            close()
