"""A partition that is being compacted: its tasks as parts for an engine, their answers, and the report at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from acidctl.compaction.plan import (
    InputEntry,
    KeyCut,
    PartitionPlan,
    PlannedTask,
    Role,
    StripeCounts,
    TableFacts,
    TaskResult,
    TaskSpec,
)
from acidctl.compaction.publish import NothingToDoError
from acidctl.compaction.recovery import UnprovedJournalError
from acidctl.compaction.report import Outcome, PartitionReport, Verified
from acidctl.engine import TaskOutcome
from acidctl.errors import AcidctlError, ExitCode, InternalError
from acidctl.findings import DoubtError
from acidctl.format.listing import FileInfo
from acidctl.format.names import SIDE_FILE_SUFFIX
from acidctl.maintenance.lock import Lock
from acidctl.maintenance.work_dir import WorkDir
from acidctl.storage.port import Storage, join
from acidctl.types.digest import combined
from acidctl.values import dataclass

# Smaller inputs are read over the network sooner than a free core on the right machine is found.
WORTH_A_WAY = 4 << 20
# As many as a file has replicas, mostly.
_HOSTS = 3


@dataclass(frozen=True, slots=True)
class TablePlace:
    """Where the table is: for this process (`storage`, `root`) and for workers anywhere (`url`, `options`).

    The options may hold secrets, and are no part of any text made of this.
    """

    storage: Storage
    root: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(slots=True, eq=False)
class PartitionRun:
    """What a partition holds on storage while it is worked on, and what its tasks have answered.

    `answers` are those of the parts of each task, in key order (most tasks have one part), `joined` those of the joins
    of several. `left` counts the answers that are awaited. `files` are the inputs by path, each with the place of its
    entry in the plan.
    """

    plan: PartitionPlan
    root: str
    lock: Lock
    work: WorkDir
    started: float
    notes: tuple[str, ...]
    answers: dict[int, list[TaskResult | None]] = field(default_factory=dict)
    joined: dict[int, TaskResult] = field(default_factory=dict)
    error: AcidctlError | None = None
    left: int = 0
    files: dict[str, tuple[int, FileInfo]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, entry in enumerate(self.plan.inputs):
            self.files |= {info.path: (place, info) for info in entry.files}

    def task_parts(self) -> list[TaskPart]:
        """All work but the joins, which become possible when their parts are done."""
        found = []
        for index, task in enumerate(self.plan.tasks):
            count = len(task.cuts) + 1
            self.answers[index] = [None] * count
            for part in range(count):
                rows, size = _share(task.rows_in, part, count), _share(task.bytes_in, part, count)
                found.append(TaskPart(self, index, part, size, rows))
        self.left = len(found)
        return found

    def inputs(self, task: PlannedTask) -> tuple[InputEntry, ...]:
        """The entries that hold the task's files, with no other files but their side files."""
        chosen: dict[int, list[FileInfo]] = defaultdict(list)
        for path in dict.fromkeys((*task.files, *task.delete_files)):
            for one in (path, path + SIDE_FILE_SUFFIX):
                if one in self.files:
                    place, info = self.files[one]
                    chosen[place].append(info)
        return tuple(replace(self.plan.inputs[place], files=tuple(chosen[place])) for place in sorted(chosen))

    def complete(self) -> dict[int, list[TaskResult]]:
        """The answers of all parts, by the place of their task, when there are all."""
        return {index: [part for part in parts if part is not None] for index, parts in sorted(self.answers.items())}

    def results(self) -> list[TaskResult]:
        """The answers of whole and of joined tasks, in the order of the plan."""
        return [self.joined.get(index, parts[0]) for index, parts in self.complete().items()]

    def report(self, outputs: tuple[str, ...], seconds: float, notes: Sequence[str]) -> PartitionReport:
        """What was read and written, once it is published as `outputs`."""
        part, results = self.plan, self.results()
        readers = [one for parts in self.complete().values() for one in parts]
        files = [info for entry in part.inputs for info in entry.files]
        written = [result for result in results if result.path is not None]
        groups = {(write_id, bucket) for result in written for write_id, bucket, _ in result.counts}
        digest = combined([result.digest for result in written if result.digest])
        rows_out, size = sum(result.rows for result in written), sum(result.bytes for result in written)
        stripes = sum((result.stripes for result in readers), StripeCounts())
        rows_copied = stripes.copied_rows
        unmatched = sum(result.deletes_unmatched for result in readers)
        if unmatched:
            events = "1 delete event names a row" if unmatched == 1 else f"{unmatched:,} delete events name rows"
            notes = (*notes, f"{events} that no input holds: a file of inserts may be gone.")
        return PartitionReport(
            part.partition,
            Outcome.COMPACTED,
            part.reason_code,
            part.reason,
            inputs=tuple(entry.name for entry in part.inputs),
            outputs=outputs,
            rows_in=sum(result.rows_in for result in readers),
            rows_out=rows_out,
            deletes_applied=sum(result.deletes_applied for result in readers),
            deletes_unmatched=unmatched,
            hidden=sum(result.hidden for result in readers),
            files_in=sum(not info.path.endswith(SIDE_FILE_SUFFIX) for info in files),
            files_out=len(written),
            bytes_in=sum(info.size for info in files),
            bytes_out=size,
            bytes_copied=stripes.copied_bytes,
            bytes_encoded=size - stripes.copied_bytes,
            stripes_copied=stripes.copied,
            stripes_encoded=dict(stripes.reasons),
            seconds=seconds,
            peak_memory=max((result.peak_memory for result in (*results, *readers)), default=0) or None,
            verified=Verified(
                len(written),
                rows_out,
                len(groups),
                digest,
                rows_by_copy=rows_copied,
                rows_not_decoded=rows_copied - stripes.decoded_rows,
                rows_by_value=rows_out - rows_copied,
            ),
            notes=tuple(notes),
        )


@dataclass(frozen=True, slots=True, eq=False)
class TaskPart:
    """A part of a task of a partition, or (`part` is None) the join of its parts."""

    running: PartitionRun
    task: int
    part: int | None
    bytes: int = 0
    rows: int = 0

    def hosts(self, storage: Storage) -> tuple[str, ...]:
        """The machines that hold the most of the largest input, the best first; empty where it does not matter."""
        files = [info for entry in self.running.inputs(self.running.plan.tasks[self.task]) for info in entry.files]
        largest = max(files, key=lambda info: info.size, default=None)
        if largest is None or largest.size < WORTH_A_WAY:
            return ()
        try:
            return storage.hosts(join(self.running.root, largest.path))[:_HOSTS]
        except AcidctlError:
            # A hint only: who reads the file will say what is wrong with it.
            return ()

    def spec(self, place: TablePlace, table: TableFacts, hosts: tuple[str, ...] = ()) -> TaskSpec:
        """What an engine is given."""
        running, part = self.running, self.part
        task = running.plan.tasks[self.task]
        spec = TaskSpec(
            url=join(place.url, running.plan.path),
            work=running.work.name,
            table=table,
            task=replace(task, stripes=()),
            inputs=running.inputs(task),
            hosts=hosts,
            storage_options=place.options,
        )
        if part is None:
            parts = tuple(result for result in running.answers[self.task] if result is not None)
            return replace(spec, task=replace(task, role=Role.JOIN), parts=parts)
        if not task.cuts:
            return spec
        edges: tuple[KeyCut | None, ...] = (None, *task.cuts, None)
        return replace(spec, part=part, lower=edges[part], upper=edges[part + 1])

    def take(self, outcome: TaskOutcome) -> list[TaskPart]:
        """Note an answer; gives the join that has become possible by it."""
        running = self.running
        running.left -= 1
        if outcome.error is not None or outcome.result is None:
            running.error = running.error or outcome.error or InternalError("a task gave neither result nor error")
            return []
        if self.part is None:
            running.joined[self.task] = outcome.result
            return []
        parts = running.answers[self.task]
        parts[self.part] = outcome.result
        if len(parts) == 1 or None in parts or running.error is not None:
            return []
        running.left += 1
        return [TaskPart(running, self.task, None)]


def as_acidctl_error(error: Exception) -> AcidctlError:
    """Any failure as one of acidctl's own errors: a fault in one partition must not stop the others."""
    if isinstance(error, AcidctlError):
        return error
    text = " ".join(str(error).split())
    return InternalError(
        f"unexpected {type(error).__name__}" + (f": {text}" if text else ""),
        hint="This is a fault of acidctl: please report it, with what the same command prints with --debug.",
    )


def failed_report(part: PartitionPlan, error: AcidctlError, seconds: float, notes: Sequence[str]) -> PartitionReport:
    """The report of a partition in which nothing was published; what only the run could doubt is no failure."""
    doubtful = isinstance(error, DoubtError | UnprovedJournalError)
    idle = isinstance(error, NothingToDoError)
    return PartitionReport(
        part.partition,
        Outcome.REFUSED if doubtful else Outcome.NOTHING_TO_DO if idle else Outcome.FAILED,
        error.code,
        error.message,
        hint=error.hint,
        inputs=tuple(entry.name for entry in part.inputs),
        seconds=seconds,
        notes=tuple(notes),
        exit_code=ExitCode.DONE if doubtful else ExitCode(error.exit_code),
    )


def _share(amount: int, part: int, count: int) -> int:
    """What falls to one of `count` equal parts, so that all together are the whole."""
    return amount * (part + 1) // count - amount * part // count
