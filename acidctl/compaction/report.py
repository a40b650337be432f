"""What `compact` did, as values: one report a partition, what they add up to, and the JSON of both.

Values only, like the plan: made by `compaction.run`, shown by `cli`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from acidctl.compaction.plan import Action, PartitionPlan
from acidctl.errors import ExitCode

REPORT_TYPE = "compaction_report"
SCHEMA_VERSION = 1


class Outcome(Enum):
    """How a partition ended."""

    COMPACTED = "compacted"
    NOTHING_TO_DO = "nothing_to_do"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was compared before anything was published.

    The `files` were read back: `rows` rows in `groups` groups (a write id and a bucket property each) were counted and
    their digest compared with that of the merged input. `digest` is the sum over all files, independent of order.
    """

    files: int
    rows: int
    groups: int
    digest: str


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What happened to one location.

    `inputs` and `outputs` are names of directories (all original files count as one entry); `rows_in` counts stored
    events of the inputs, those of aborted writes (`hidden`) included, `rows_out` what was written; files and bytes are
    those of data files. Counts are None where nothing was read. `reason_code` is stable; a failure has its error's.
    """

    partition: str
    outcome: Outcome
    reason_code: str = ""
    reason: str = ""
    hint: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    rows_in: int | None = None
    rows_out: int | None = None
    deletes_applied: int | None = None
    hidden: int | None = None
    files_in: int | None = None
    files_out: int | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    seconds: float = 0.0
    peak_memory: int | None = None
    verified: Verified | None = None
    notes: tuple[str, ...] = ()
    exit_code: ExitCode = ExitCode.DONE


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over partitions; what was read and written counts those that were compacted.

    `directories_in` counts the inputs that the outputs replace, all original files of a location as one.
    """

    partitions: int
    outcomes: Mapping[str, int]
    directories_in: int
    directories_out: int
    files_in: int
    files_out: int
    bytes_in: int
    bytes_out: int
    rows_in: int
    rows_out: int
    deletes_applied: int
    hidden: int


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """A whole run; `partitions` are in the order of the plan."""

    location: str
    kind: str
    target: str
    engine: str
    visibility_txn: int | None
    assumed: tuple[str, ...]
    partitions: tuple[PartitionReport, ...]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> Totals:
        """What all partitions add up to."""
        done = [part for part in self.partitions if part.outcome is Outcome.COMPACTED]
        return Totals(
            partitions=len(self.partitions),
            outcomes=dict(Counter(part.outcome.value for part in self.partitions)),
            directories_in=sum(len(part.inputs) for part in done),
            directories_out=sum(len(part.outputs) for part in done),
            files_in=sum(part.files_in or 0 for part in done),
            files_out=sum(part.files_out or 0 for part in done),
            bytes_in=sum(part.bytes_in or 0 for part in done),
            bytes_out=sum(part.bytes_out or 0 for part in done),
            rows_in=sum(part.rows_in or 0 for part in done),
            rows_out=sum(part.rows_out or 0 for part in done),
            deletes_applied=sum(part.deletes_applied or 0 for part in done),
            hidden=sum(part.hidden or 0 for part in done),
        )

    @property
    def exit_code(self) -> ExitCode:
        """13 where a verification failed; the failures' own code where nothing else was done; 3 for a part undone.

        A refusal is no failure: what is left undone is told by 3. What was left because of a failure has its code.
        """
        failed = {part.exit_code for part in self.partitions if part.outcome is Outcome.FAILED or part.exit_code}
        wrong = any(part.reason_code == "verification_failed" for part in self.partitions)
        undone = any(part.outcome in (Outcome.FAILED, Outcome.REFUSED) for part in self.partitions)
        others = any(
            part.outcome is Outcome.COMPACTED or (part.outcome is Outcome.REFUSED and not part.exit_code)
            for part in self.partitions
        )
        if wrong:
            return ExitCode.DAMAGED
        if len(failed) == 1 and not others:
            return failed.pop()
        return ExitCode.FINDINGS if undone else ExitCode.DONE


def untouched(part: PartitionPlan) -> PartitionReport:
    """The report of a partition that its plan leaves as it is."""
    outcome = Outcome.NOTHING_TO_DO if part.action is Action.NOTHING_TO_DO else Outcome.REFUSED
    names = tuple(entry.name for entry in part.inputs)
    return PartitionReport(
        part.partition,
        outcome,
        part.reason_code,
        part.reason,
        inputs=names if outcome is Outcome.REFUSED else (),
        notes=part.notes,
    )


def to_json(report: CompactionReport) -> dict[str, Any]:
    """The report as JSON values."""
    head = {"type": REPORT_TYPE, "schema_version": SCHEMA_VERSION}
    body = {field.name: _value(getattr(report, field.name)) for field in fields(report) if field.name != "partitions"}
    partitions = [partition_json(part) for part in report.partitions]
    return {**head, **body, "summary": _value(report.summary), "partitions": partitions}


def partition_json(part: PartitionReport) -> dict[str, Any]:
    """One partition as JSON values; the exit code is the run's, not the partition's."""
    return {field.name: _value(getattr(part, field.name)) for field in fields(part) if field.name != "exit_code"}


def _value(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    if isinstance(value, float):
        return round(value, 3)
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _value(getattr(value, field.name)) for field in fields(value)}
    return dict(value) if isinstance(value, Mapping) else value
