"""Requests of Hive's compaction queue, carried out as Hive's own worker does, and a process that serves them."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from acidctl.api import CompactArguments, Table, open_table
from acidctl.compaction.partition_run import as_acidctl_error
from acidctl.compaction.plan import PartitionPlan
from acidctl.compaction.report import CompactionReport, Outcome, PartitionReport
from acidctl.compaction.run import Compaction, Progress
from acidctl.errors import AcidctlError, ExitCode, NoSuchTableError, NotAcidTableError, StorageError
from acidctl.maintenance.limits import MAX_RUNTIME, TimeLimit
from acidctl.maintenance.work_dir import remove_directory
from acidctl.metastore.catalog import Catalog, Lists, TableInfo
from acidctl.options import CompactOptions, option, same_option
from acidctl.storage.named_files import write_bytes
from acidctl.storage.port import join
from acidctl.storage.resolve import resolve
from acidctl.values import dataclass
from acidctl.worker.queue import Queue, Request, Transaction, TransactionLostError, new_pool, runs_as, table_properties

# Hive's own words (Worker.java, CompactorUtil), for who knows them from SHOW COMPACTIONS.
_NOT_NEEDED = "None of the compaction thresholds met, compaction request is refused!"
_SORTED = "Attempt to compact sorted table {}, which is not yet supported!"
_LEFT = {
    "rebalance": "REBALANCE is done by Hive's own worker: acidctl keeps rows in their buckets",
    "abort_txn_cleanup": "only Hive's own cleaner does this",
}


class _RefusedRequestError(AcidctlError):
    """A request that is not to be carried out, and why."""

    code = "request_refused"


class Worker:
    """Carries out requests, several threads at a time; `asked` is how (engine, memory, compression, ...)."""

    def __init__(
        self,
        queue: Queue,
        storage_options: Callable[[str], Mapping[str, Any]],
        asked: CompactArguments,
    ) -> None:
        self.queue = queue
        self.client = queue.client
        self._catalog = Catalog(queue.client)
        self._storage_options = storage_options
        self._asked = asked
        self.engine = "none"
        self._runs: set[Compaction] = set()
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """Give up what is at work: its transactions are aborted, its requests marked as failed."""
        with self._lock:
            for run in self._runs:
                run.cancel()

    def carry_out(self, request: Request) -> PartitionReport:
        """Do one request, mark it, and say what became of it; raises only what ends the whole process.

        While the metastore cannot be reached the request stays as it is, for this worker's next or another run.
        """
        started = time.time()
        try:
            return self._carry_out(request)
        except Exception as problem:
            error = as_acidctl_error(problem)
            refused = isinstance(error, _RefusedRequestError | NoSuchTableError | NotAcidTableError)
            reason = error.message
            self.queue.give_up(request, "refused" if refused else "failed", reason)
            outcome, seconds = Outcome.REFUSED if refused else Outcome.FAILED, time.time() - started
            report = PartitionReport(request.partition, outcome, error.code, reason, error.hint, seconds=seconds)
            return replace(report, exit_code=error.exit_code)
        except BaseException:
            with suppress(Exception):
                self.queue.give_up(request, "failed", "acidctl was interrupted")
            raise

    def _carry_out(self, request: Request) -> PartitionReport:
        info, location = self._place(request)
        table = open_table(location, storage_options=self._storage_options(location))
        request.struct.runas = runs_as(info, table.owner, self.client)
        txn = self.queue.begin(request, request.struct.runas)

        def require_ours() -> None:
            txn.require_alive()
            if self._place(request)[1] != location:
                raise StorageError(
                    f"{request} was taken for {location}, and that is not its place any more",
                    hint="Ask for another compaction, which finds the new place.",
                )
            self.queue.require_own(request, txn.id)

        try:
            lists = self._catalog.lists(info.name, txn.id, compacting=True)
            request.struct.highestWriteId = lists.write_ids.high_watermark
            # From here on the metastore remembers the transaction, also an aborted one.
            self.client.call("update_compactor_state", request.struct, txn.id)
            self.client.call("set_hadoop_jobid", f"acidctl_{request.id}_{txn.id}"[:32], request.id)
            if info.partition_keys and not request.partition:
                # Hive's request for the cleaner alone, after aborted writes to dynamic partitions.
                report = PartitionReport("", Outcome.NOTHING_TO_DO, "cleaning_only", "a request for Hive's cleaner")
                useful = True
            else:
                report = self._compact(table, request, info, lists, txn, lambda: txn.patiently(require_ours))
                useful = report.outcome is Outcome.COMPACTED or (
                    report.outcome is Outcome.NOTHING_TO_DO and _has_obsolete(table, info, lists)
                )
            if report.outcome in (Outcome.COMPACTED, Outcome.NOTHING_TO_DO):
                try:
                    txn.patiently(require_ours)
                except AcidctlError:
                    if request.kind == "minor":
                        self._take_back(location, report.outputs)
                    raise
                self._finish(request, txn, useful)
            else:
                txn.abort()
                self.queue.give_up(request, "failed", report.reason)
        except BaseException:
            txn.abort()
            raise
        about = f"Hive's compaction request {request.id}, transaction {txn.id}."
        return replace(report, partition=request.partition, notes=(*report.notes, about))

    def _finish(self, request: Request, txn: Transaction, useful: bool) -> None:
        """Commit, then mark: in Hive's own order a commit that fails leaves a request that its Cleaner calls
        succeeded although nothing was compacted.
        """
        try:
            txn.commit()
        except AcidctlError:
            # The answer may have got lost, and what is committed is soon forgotten.
            if not txn.patiently(lambda: self.queue.is_committed(request)):
                raise
        verdict, reason = ("compacted", "") if useful else ("refused", _NOT_NEEDED)
        try:
            self.queue.mark(request, verdict, reason)
        except AcidctlError:
            # It is done all the same, and is marked when the metastore is back.
            self.queue.give_up(request, verdict, reason)

    def _take_back(self, location: str, deltas: Sequence[str]) -> None:
        """Remove deltas that were published too late: once their transaction is forgotten, Hive would read them beside
        those that another worker made of the same writes.
        """
        storage, root = resolve(location, self._storage_options(location))
        for name in deltas:
            with suppress(AcidctlError):
                remove_directory(storage, join(root, name))

    def _place(self, request: Request) -> tuple[TableInfo, str]:
        """The table and the place of a request; raises what refuses it."""
        if request.kind in _LEFT or request.kind not in ("minor", "major"):
            raise _RefusedRequestError(
                _LEFT.get(request.kind, f"acidctl does not know compactions of kind {request.kind}")
            )
        info = self._catalog.table(request.table)
        if info.sorted_by:
            raise _RefusedRequestError(_SORTED.format(info.name))
        if not request.partition:
            return info, info.location
        for _, location in self._catalog.partitions(info, [request.partition]):
            return info, location
        raise _RefusedRequestError(f"there is no partition {request.partition} in {info.name} any more")

    def _compact(
        self,
        table: Table,
        request: Request,
        info: TableInfo,
        lists: Lists,
        txn: Transaction,
        require_ours: Callable[[], None],
    ) -> PartitionReport:
        overwritten = table_properties(request.struct.properties or "")
        asked = replace(
            self._asked,
            kind=request.kind,
            partitions=(),
            # Its own transaction is the last of the list, and open.
            validtxns=(lists.write_ids.format(), replace(lists.txns, open=(*lists.txns.open, txn.id)).format()),
            as_of=None,
            table=None,
            schema=replace(info, properties={**info.properties, **overwritten}).ddl,
            target="hive4",
            visibility_txn=txn.id,
            assume_committed=False,
            only_if_needed=False,
            before_publishing=require_ours,
            during=self._noted,
            limit=None,
            max_runtime=None,
        )
        report: CompactionReport = table.compact(**asked.keywords())
        self.engine = report.engine if report.engine != "none" else self.engine
        (part,) = report.partitions
        if part.reason_code == TransactionLostError.code:
            raise TransactionLostError(part.reason, hint=part.hint)
        return part

    @contextmanager
    def _noted(self, run: Compaction) -> Iterator[None]:
        """Know what is at work, for `cancel`; what was asked to surround it does so still."""
        with self._lock:
            self._runs.add(run)
        try:
            with self._asked.during(run):
                yield
        finally:
            with self._lock:
                self._runs.discard(run)


class Requests:
    """Partitions of one table compacted through the queue, each by a request of its own in a pool that is ours alone.

    For `Table.compact`'s callers it is like one run: it can be cancelled, and its time be over.
    """

    def __init__(self, worker: Worker, info: TableInfo, asked: CompactArguments) -> None:
        self._worker = worker
        self._info = info
        self._asked = asked
        self._pool = new_pool()
        self._limit = asked.limit or (None if asked.max_runtime is None else TimeLimit(asked.max_runtime, asked.grace))
        self._cancelled = False
        self._reports: list[PartitionReport] = []
        self._reporting = threading.Lock()
        # Of several that are done side by side, for whoever watches.
        self._planned: dict[str, PartitionPlan] = {}
        self._progress = Progress("", 0, 0, 0, 0, 0, 0)

    @property
    def seconds_left(self) -> float | None:
        """What is at work is finished in any case; nothing has to be given up."""
        return None

    @property
    def compacted(self) -> int:
        """Partitions that are done."""
        return sum(report.outcome is Outcome.COMPACTED for report in self._reports)

    def cancel(self) -> bool:
        """Give up what is at work; the caller's wait is to end."""
        self._cancelled = True
        self._worker.cancel()
        return True

    def expire(self) -> bool:
        """Never called: see `seconds_left`."""
        return False

    def run(self, parts: Sequence[PartitionPlan], at_once: int) -> list[PartitionReport]:
        """Request, take and do each; the reports in the order of their ends."""
        if at_once < 2:
            for part in parts:
                self._one(part.partition)
            return self._reports
        self._planned = {part.partition: part for part in parts}
        rows, size = sum(part.rows_in for part in parts), sum(part.bytes_in for part in parts)
        self._progress = replace(self._progress, partitions=len(parts), rows=rows, bytes=size)
        with ThreadPoolExecutor(at_once, "acidctl-request") as threads:
            try:
                for future in [threads.submit(self._one, part.partition) for part in parts]:
                    future.result()
            except BaseException:
                self.cancel()
                threads.shutdown(wait=True, cancel_futures=True)
                raise
        return self._reports

    def _one(self, partition: str) -> None:
        if self._cancelled:
            return None
        if self._limit is not None and self._limit.over:
            why = "not started within --max-runtime; a later run compacts it"
            return self._note(PartitionReport(partition, Outcome.REFUSED, MAX_RUNTIME, why))
        queue = self._worker.queue
        try:
            queue.request(self._info.name, partition, self._asked.kind, self._pool)
            request = queue.take(self._pool)
        except AcidctlError as error:
            outcome = Outcome.REFUSED if error.code == "request_exists" else Outcome.FAILED
            code = ExitCode.DONE if outcome is Outcome.REFUSED else error.exit_code
            return self._note(
                PartitionReport(partition, outcome, error.code, error.message, hint=error.hint, exit_code=code)
            )
        if request is None:
            why = "Hive's queue gave the request to another worker, which does it"
            return self._note(PartitionReport(partition, Outcome.REFUSED, "request_taken", why))
        return self._note(self._worker.carry_out(request))

    def _note(self, report: PartitionReport) -> None:
        with self._reporting:
            self._reports.append(report)
            if self._asked.finished is not None:
                self._asked.finished(report)
            if self._asked.watch is not None and self._planned:
                part, seen = self._planned[report.partition], self._progress
                self._progress = replace(
                    seen,
                    partition=report.partition,
                    partitions_done=seen.partitions_done + 1,
                    rows_done=seen.rows_done + part.rows_in,
                    bytes_done=seen.bytes_done + part.bytes_in,
                )
                self._asked.watch(self._progress)


def _has_obsolete(table: Table, info: TableInfo, lists: Lists) -> bool:
    """Whether there is something for Hive's Cleaner."""
    found = table.ls(validtxns=lists.texts, schema=info.ddl)
    return any(entry.state in ("obsolete", "aborted") for entry in found.entries)


# --- a process that serves the queue


LOG_TYPE = "worker_log"
_POOL = "acidctl"
# Requests of dead runs are looked for at the start and then so often.
_RECOVER_SECONDS = 600.0
# While the metastore does not answer, pauses grow up to this.
_LONGEST_PAUSE = 60.0
_ALIVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a worker serves, and how it does it; times in seconds."""

    pool: Sequence[str] = option(
        (), "Serve requests of this pool; repeatable.  [default: acidctl]", metavar="NAME", repeat=True
    )
    default_pool: bool = option(False, "Also requests of no pool, which Hive's own workers serve too.")
    slots: int = option(2, "Requests at a time.", metavar="N", minimum=1, maximum=64)
    once: bool = option(False, "End when the queue is empty; for cron.")
    idle_exit: float | None = option(
        None, "End when there was nothing to do for DURATION.", metavar="DURATION", form="duration"
    )
    poll: float = option(
        5.0, "Look for requests every DURATION while there are none.", metavar="DURATION", form="duration", shown="5s"
    )
    metrics_file: str | None = option(None, "Keep figures in the text form of Prometheus in this file.", metavar="FILE")
    compression: str | None = same_option(CompactOptions, "compression")
    engine: str = same_option(CompactOptions, "engine")
    master: str | None = same_option(CompactOptions, "master")
    conf: Mapping[str, str] | None = same_option(CompactOptions, "conf")
    parallelism: int | None = same_option(CompactOptions, "parallelism")
    memory: int | None = same_option(CompactOptions, "memory")


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """A line of a worker's log."""

    time: Annotated[str, "ISO 8601 in UTC"]
    event: Annotated[
        str,
        "`started`, `taken`, `ended`, `recovered`, `unreachable`, `alive` (once a minute), `unwritable` (the figures), "
        "`draining`, `stopped`",
    ]
    message: Annotated[str, "the event in a sentence"]
    request: Annotated[int | None, "of Hive's queue"] = None
    table: Annotated[str | None, "`database.table`"] = None
    partition: Annotated[str | None, "on-disk text; empty for a table without partitions"] = None
    kind: Annotated[str | None, "minor or major"] = None
    pool: Annotated[str | None, "of the request"] = None
    outcome: Annotated[str | None, "as in the report of `compact`"] = None
    reason_code: Annotated[str | None, "likewise"] = None
    outputs: Annotated[tuple[str, ...], "names of the directories that were published"] = ()
    rows_in: Annotated[int | None, "stored rows that were read"] = None
    rows_out: Annotated[int | None, "rows or events that were written"] = None
    bytes_in: Annotated[int | None, "bytes that were read"] = None
    bytes_out: Annotated[int | None, "bytes that were written"] = None
    seconds: Annotated[float | None, "of the request"] = None


class Service:
    """Slots, each a thread with a connection of its own, that take and carry out requests until they are to end."""

    def __init__(
        self, asked: WorkerOptions, make_worker: Callable[[], Worker], log: Callable[[WorkerEvent], None]
    ) -> None:
        self._asked = asked
        self._make_worker = make_worker
        self._log = log
        self._pools: list[str | None] = [*(asked.pool or (_POOL,)), *([None] if asked.default_pool else [])]
        self._draining = threading.Event()
        self._state = threading.Lock()
        self._workers: list[Worker] = []
        self._busy = 0
        self._last_work = time.monotonic()
        self._ended: Counter[str] = Counter()
        self._sums: defaultdict[str, float] = defaultdict(float)
        self._last_success: float | None = None
        self._unreachable: AcidctlError | None = None
        self._unwritable = ""
        self._log_failure: BaseException | None = None

    def run(self) -> None:
        """Serve until the queue is empty (`once`), nothing came for long (`idle_exit`), or `drain`.

        Raises UnreachableError where the metastore does not answer at the start, or at all with `once`; StorageError
        where the figures cannot be written at the start. What the log raises ends it like `drain`, and is raised then.
        """
        if self._asked.metrics_file is not None:
            write_bytes(Path(self._asked.metrics_file), [self._metrics().encode()])
        first = self._make_worker()
        self._recover(first)
        pools = ", ".join("requests of no pool" if pool is None else f"pool {pool}" for pool in self._pools)
        self._say("started", f"serving {pools} of the metastore {first.client} with {self._asked.slots} slots")
        self._workers = [first, *(self._make_worker() for _ in range(self._asked.slots - 1))]
        threads = [threading.Thread(target=self._serve, args=[one], name="acidctl-slot") for one in self._workers]
        for thread in threads:
            thread.start()
        next_look = time.monotonic() + _RECOVER_SECONDS
        next_sign = time.monotonic() + _ALIVE_SECONDS
        drains = False
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(0.2 / len(threads))  # signals are handled between two waits
            if self._draining.is_set() and not drains:
                drains = True
                self._say("draining", f"taking nothing more, {self._busy} of {self._asked.slots} slots busy")
            if time.monotonic() > next_sign:
                next_sign += _ALIVE_SECONDS
                self._say("alive", f"{self._busy} of {self._asked.slots} slots busy, {self._figures()}")
            if time.monotonic() > next_look and self._unreachable is None:
                next_look += _RECOVER_SECONDS
                with suppress(AcidctlError):  # the slots will tell that it is away
                    self._recover(first)
        for worker in self._workers:
            worker.client.close()
        self._say("stopped", self._figures())
        if self._log_failure is not None:
            raise self._log_failure
        if self._asked.once and self._unreachable is not None:
            raise self._unreachable

    def drain(self) -> None:
        """Take nothing more; what is at work is finished. For signal handlers."""
        self._draining.set()

    def cancel(self) -> None:
        """Give up what is at work as well."""
        self._draining.set()
        for worker in self._workers:
            worker.cancel()

    @property
    def failed(self) -> bool:
        """Whether a request has failed."""
        return self._ended[Outcome.FAILED.value] > 0

    def _serve(self, worker: Worker) -> None:
        pause = self._asked.poll
        while not self._draining.is_set():
            try:
                request = next((found for pool in self._pools if (found := worker.queue.take(pool))), None)
                self._unreachable, pause = None, self._asked.poll
            except AcidctlError as error:
                if self._unreachable is None:
                    self._say("unreachable", error.message)
                self._unreachable = error
                if self._asked.once:
                    return
                pause = min(pause * 2, _LONGEST_PAUSE)
                self._draining.wait(pause)
                continue
            if request is not None:
                try:
                    self._carry_out(worker, request)
                except KeyboardInterrupt:
                    self._say("ended", f"{request} was given up", request)
                continue
            idle = time.monotonic() - self._last_work
            if self._asked.once and not self._busy:
                return
            if self._asked.idle_exit is not None and not self._busy and idle > self._asked.idle_exit:
                return
            self._draining.wait(min(pause, 0.2) if self._asked.once else pause)

    def _carry_out(self, worker: Worker, request: Request) -> None:
        with self._state:
            self._busy += 1
        self._say("taken", f"took {request}", request)
        try:
            report = worker.carry_out(request)
        finally:
            with self._state:
                self._busy -= 1
                self._last_work = time.monotonic()
        with self._state:
            self._ended[report.outcome.value] += 1
            for name in ("rows_in", "rows_out", "bytes_in", "bytes_out"):
                self._sums[name] += getattr(report, name) or 0
            self._sums["seconds"] += report.seconds
            if report.outcome is not Outcome.FAILED:
                self._last_success = time.time()
        words = report.outcome.value.replace("_", " ") + (f": {report.reason}" if report.reason else "")
        self._say("ended", f"{request} {words}", request, report)

    def _recover(self, worker: Worker) -> None:
        for sentence in worker.queue.recover():
            self._say("recovered", sentence)

    def _figures(self) -> str:
        counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(self._ended.items()))
        return counts or "no request yet"

    def _say(
        self, event: str, message: str, request: Request | None = None, report: PartitionReport | None = None
    ) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        values: dict[str, Any] = {}
        if request is not None:
            values = {"request": request.id, "table": str(request.table), "partition": request.partition}
            values |= {"kind": request.kind, "pool": request.pool}
        if report is not None:
            values |= {"outcome": report.outcome.value, "reason_code": report.reason_code, "outputs": report.outputs}
            figures = ("rows_in", "rows_out", "bytes_in", "bytes_out", "seconds")
            values |= {name: getattr(report, name) for name in figures}
        with self._state:
            self._write(WorkerEvent(now, event, message, **values))
            if self._asked.metrics_file is None:
                return
            try:
                write_bytes(Path(self._asked.metrics_file), [self._metrics().encode()])
                self._unwritable = ""
            except AcidctlError as error:
                # No reason to leave a request that was taken.
                if error.message != self._unwritable:
                    self._unwritable = error.message
                    self._write(WorkerEvent(now, "unwritable", error.message))

    def _write(self, event: WorkerEvent) -> None:
        """To the log; without one nothing more is taken, and what is at work is finished."""
        try:
            self._log(event)
        except Exception as error:
            self._log_failure = self._log_failure or error
            self.drain()

    def _metrics(self) -> str:
        lines: list[str] = []

        def add(name: str, kind: str, help: str, values: Sequence[tuple[str, float]]) -> None:
            lines.extend((f"# HELP acidctl_worker_{name} {help}", f"# TYPE acidctl_worker_{name} {kind}"))
            lines.extend(f"acidctl_worker_{name}{labels} {value:.15g}" for labels, value in values)

        ended = [(f'{{outcome="{one.value}"}}', self._ended[one.value]) for one in Outcome]
        add("requests_total", "counter", "Requests that have ended.", ended)
        for name in ("rows_in", "rows_out", "bytes_in", "bytes_out", "seconds"):
            add(f"{name}_total", "counter", f"Sum of {name} over all requests.", [("", self._sums[name])])
        add("slots", "gauge", "Requests that may be worked on at a time.", [("", self._asked.slots)])
        add("busy_slots", "gauge", "Requests that are worked on.", [("", self._busy)])
        add("metastore_up", "gauge", "Whether the metastore answered last.", [("", self._unreachable is None)])
        add("written_timestamp_seconds", "gauge", "When this file was written.", [("", time.time())])
        if self._last_success is not None:
            add(
                "last_success_timestamp_seconds",
                "gauge",
                "The last request that did not fail.",
                [("", self._last_success)],
            )
        return "\n".join(lines) + "\n"
