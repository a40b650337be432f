"""A partition that is being compacted: its tasks as parts for an engine, their answers, and the report at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from acidctl.compaction.coverage import require_read
from acidctl.compaction.plan import (
    InputEntry,
    KeyCut,
    PartitionPlan,
    PlannedTask,
    Role,
    TableFacts,
    TaskResult,
    TaskSpec,
)
from acidctl.compaction.publish import NothingToDoError
from acidctl.compaction.report import Outcome, PartitionReport, Verified
from acidctl.engine.base import TaskOutcome
from acidctl.errors import AcidctlError, ExitCode, InternalError, VerificationError
from acidctl.format.listing import FileInfo
from acidctl.format.names import SIDE_FILE_SUFFIX
from acidctl.maintenance.lock import Lock
from acidctl.maintenance.work_dir import WorkDir
from acidctl.storage.port import Storage, join
from acidctl.types.digest import combined

# Smaller inputs are read over the network sooner than a free core on the right machine is found.
_WORTH_A_WAY = 4 << 20
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

    `left` counts the parts of tasks whose answer is awaited; `parts` are the answers for tasks that are cut, in key
    order.
    """

    plan: PartitionPlan
    root: str
    lock: Lock
    work: WorkDir
    started: float
    notes: tuple[str, ...]
    parts: dict[int, list[TaskResult | None]] = field(default_factory=dict)
    done: dict[int, TaskResult] = field(default_factory=dict)
    error: AcidctlError | None = None
    left: int = 0
    _entries: dict[str, int] = field(default_factory=dict)
    _files: dict[str, FileInfo] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, entry in enumerate(self.plan.inputs):
            for info in entry.files:
                self._entries[info.path] = place
                self._files[info.path] = info

    @property
    def results(self) -> list[TaskResult]:
        """The answers of whole and of joined tasks, in the order of the plan."""
        return [self.done[index] for index in sorted(self.done)]

    def task_parts(self) -> list[TaskPart]:
        """All work but the joins, which become possible when their parts are done."""
        found = []
        for index, task in enumerate(self.plan.tasks):
            count = len(task.cuts) + 1
            if count > 1:
                self.parts[index] = [None] * count
            for part in range(count):
                rows, size = _share(task.rows_in, part, count), _share(task.bytes_in, part, count)
                found.append(TaskPart(self, index, part if count > 1 else None, size, rows))
        self.left = len(found)
        return found

    def inputs(self, task: PlannedTask) -> tuple[InputEntry, ...]:
        """The entries that hold the task's files, with no other files but their side files."""
        chosen: dict[int, list[FileInfo]] = defaultdict(list)
        for path in dict.fromkeys((*task.files, *task.delete_files)):
            for one in (path, path + SIDE_FILE_SUFFIX):
                if one in self._files:
                    chosen[self._entries[one]].append(self._files[one])
        return tuple(replace(self.plan.inputs[place], files=tuple(chosen[place])) for place in sorted(chosen))

    def require_complete(self, storage: Storage, table: TableFacts) -> None:
        """Raise VerificationError unless the tasks together have read every stored event of the inputs just once.

        Statistics tell which files and stripes concern a bucket; a wrong one would lose rows in silence. How many
        rows a text file has is not known beforehand.
        """
        require_read(storage, self.root, self.plan, table, self._answers())
        self._require_joined()
        if any(task.role is Role.BYTES for task in self.plan.tasks):
            return
        for output in self.plan.outputs:
            read = sum(result.rows_in for result in self._readers() if result.output.startswith(f"{output.name}/"))
            if read != output.rows_in:
                raise VerificationError(
                    f"{output.name} was made of {read} stored rows, but its inputs hold {output.rows_in}",
                    path=self.root,
                    hint="Nothing is published. The statistics of an input file may be wrong: see `acidctl dump`.",
                )

    def _require_joined(self) -> None:
        """Raise VerificationError unless each file that was joined holds what its parts hold."""
        for index, answers in self.parts.items():
            parts = [part for part in answers if part is not None and part.rows]
            whole = self.done[index]
            same = not parts or whole.digest == combined([part.digest for part in parts])
            if not same or whole.rows != sum(part.rows for part in parts):
                raise VerificationError(
                    f"{whole.output} was joined of {len(parts)} parts, and does not hold the rows of all of them",
                    path=self.root,
                    hint="Nothing is published. Run compact again; report it if it happens again.",
                )

    def _answers(self) -> dict[int, list[TaskResult]]:
        """All answers by task: its own and those of its parts."""
        answers: dict[int, list[TaskResult]] = {index: [result] for index, result in self.done.items()}
        for index, parts in self.parts.items():
            answers.setdefault(index, []).extend(one for one in parts if one is not None)
        return answers

    def _readers(self) -> list[TaskResult]:
        """The answers of those tasks and parts that have read inputs."""
        partial = [one for parts in self.parts.values() for one in parts if one is not None]
        return [*(result for index, result in self.done.items() if index not in self.parts), *partial]

    def report(self, outputs: tuple[str, ...], seconds: float, notes: Sequence[str]) -> PartitionReport:
        """What was read and written, once it is published as `outputs`."""
        part = self.plan
        files = [info for entry in part.inputs for info in entry.files]
        written = [result for result in self.results if result.path is not None]
        groups = {(write_id, bucket) for result in written for write_id, bucket, _ in result.counts}
        digest = combined([result.digest for result in written if result.digest])
        sources = self._readers()
        return PartitionReport(
            part.partition,
            Outcome.COMPACTED,
            part.reason_code,
            part.reason,
            inputs=tuple(entry.name for entry in part.inputs),
            outputs=outputs,
            rows_in=sum(result.rows_in for result in sources),
            rows_out=sum(result.rows for result in written),
            deletes_applied=sum(result.deletes_applied for result in sources),
            hidden=sum(result.hidden for result in sources),
            files_in=sum(not info.path.endswith(SIDE_FILE_SUFFIX) for info in files),
            files_out=len(written),
            bytes_in=sum(info.size for info in files),
            bytes_out=sum(result.bytes for result in written),
            seconds=seconds,
            peak_memory=max((result.peak_memory for result in (*self.results, *sources)), default=0) or None,
            verified=Verified(len(written), sum(result.rows for result in written), len(groups), digest),
            notes=tuple(notes),
        )


@dataclass(frozen=True, slots=True, eq=False)
class TaskPart:
    """A task of a partition: whole, one part of it, or (`part` is None and the task is cut) the join of its parts."""

    running: PartitionRun
    task: int
    part: int | None
    bytes: int
    rows: int

    def hosts(self, storage: Storage) -> tuple[str, ...]:
        """The machines that hold the most of the largest input, the best first; empty where it does not matter."""
        files = [info for entry in self.running.inputs(self.running.plan.tasks[self.task]) for info in entry.files]
        largest = max(files, key=lambda info: info.size, default=None)
        if largest is None or largest.size < _WORTH_A_WAY:
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
            task=task,
            inputs=running.inputs(task),
            hosts=hosts,
            storage_options=place.options,
        )
        if part is not None:
            edges: tuple[KeyCut | None, ...] = (None, *task.cuts, None)
            return replace(spec, part=part, lower=edges[part], upper=edges[part + 1])
        if task.cuts:
            parts = tuple(result for result in running.parts[self.task] if result is not None)
            return replace(spec, task=replace(task, role=Role.JOIN), parts=parts)
        return spec

    def take(self, outcome: TaskOutcome) -> list[TaskPart]:
        """Note an answer; gives the join that has become possible by it."""
        running = self.running
        running.left -= 1
        if outcome.error is not None or outcome.result is None:
            running.error = running.error or outcome.error or InternalError("a task gave neither result nor error")
            return []
        if self.part is None:
            running.done[self.task] = outcome.result
            return []
        parts = running.parts[self.task]
        parts[self.part] = outcome.result
        if None in parts or running.error is not None:
            return []
        running.left += 1
        return [TaskPart(running, self.task, None, 0, 0)]


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
    """The report of a partition in which nothing was published."""
    return PartitionReport(
        part.partition,
        Outcome.NOTHING_TO_DO if isinstance(error, NothingToDoError) else Outcome.FAILED,
        error.code,
        error.message,
        hint=error.hint,
        inputs=tuple(entry.name for entry in part.inputs),
        seconds=seconds,
        notes=tuple(notes),
        exit_code=ExitCode(error.exit_code),
    )


def _share(amount: int, part: int, count: int) -> int:
    """What falls to one of `count` equal parts, so that all together are the whole."""
    return amount * (part + 1) // count - amount * part // count
