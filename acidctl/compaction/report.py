"""What `compact` did, as values: one report a partition, and what they add up to.

Values only, like the plan: made by `compaction.run`, shown by `cli`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Annotated, ClassVar

from acidctl.compaction.plan import Action, PartitionPlan
from acidctl.errors import ExitCode
from acidctl.state.report import ASSUMED, NOT_IN_JSON
from acidctl.values import dataclass

REPORT_TYPE = "compaction_report"


class Outcome(Enum):
    """How a partition ended."""

    COMPACTED = "compacted"
    NOTHING_TO_DO = "nothing_to_do"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Verified:
    """What was compared before anything was published."""

    files: Annotated[int, "files that were read back"]
    rows: Annotated[int, "rows in them"]
    groups: Annotated[int, "pairs of write id and bucket whose rows were counted"]
    digest: Annotated[
        str,
        "of all rows and row ids that were written anew, as stored: the same for the merged input and for what was "
        "written",
    ]
    rows_by_copy: Annotated[
        int, "rows of stripes that were copied: byte for byte those of their sources, and their keys read"
    ] = 0
    rows_not_decoded: Annotated[
        int, "of `rows_by_copy` those whose values were not decoded (`--decode-copied` decodes all)"
    ] = 0
    rows_by_value: Annotated[int, "rows that were written anew and read back value by value"] = 0


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What happened to one location; the figures are None where nothing was read."""

    partition: Annotated[str, "on-disk text; empty for a table without partitions"]
    outcome: Annotated[Outcome, "compacted, nothing_to_do, refused, failed"]
    reason_code: Annotated[
        str,
        "why it was not compacted, stable; of a failure the code of its error; `not_needed` below the thresholds of "
        "`--only-if-needed`; the code of a [finding](../concepts.md#doubts) because of which it was refused; "
        "`max_bytes`, `max_partitions`, `max_runtime`, `storage_unreachable` where it was left for "
        "a later run",
    ] = ""
    reason: Annotated[str, "the same in a sentence"] = ""
    hint: Annotated[str | None, "of a failure, or of findings: what to do now"] = None
    inputs: Annotated[tuple[str, ...], "names of the directories that were, or would have been, replaced"] = ()
    outputs: Annotated[tuple[str, ...], "names of the directories that were published"] = ()
    rows_in: Annotated[int | None, "stored rows that were read"] = None
    rows_out: Annotated[int | None, "rows or events that were written"] = None
    deletes_applied: Annotated[int | None, "rows that delete events removed"] = None
    deletes_unmatched: Annotated[
        int | None,
        "rows that delete events name and no input holds, in buckets with rows, with `major`; not of ACID v1",
    ] = None
    hidden: Annotated[int | None, "rows of aborted writes, left out"] = None
    files_in: Annotated[int | None, "data files that were read"] = None
    files_out: Annotated[int | None, "data files that were written"] = None
    bytes_in: Annotated[int | None, "size of the files that were read"] = None
    bytes_out: Annotated[int | None, "size of the files that were written"] = None
    bytes_copied: Annotated[int | None, "of that, stripes that went over as they were"] = None
    bytes_encoded: Annotated[int | None, "of that, what was written anew"] = None
    stripes_copied: Annotated[int | None, "stripes that went over as they were"] = None
    stripes_encoded: Annotated[
        Mapping[str, int] | None,
        "why stripes of the inputs were written anew, and how many for which reason (see [Compacting]"
        "(../compacting.md#stripes-that-are-copied))",
    ] = None
    seconds: Annotated[float, "from lock to release; partitions are worked on at the same time"] = 0.0
    peak_memory: Annotated[int | None, "bytes of the largest process that worked on it"] = None
    verified: Annotated[Verified | None, "what was compared before publishing"] = None
    notes: Annotated[tuple[str, ...], "sentences for the operator"] = ()
    exit_code: ExitCode = field(default=ExitCode.DONE, metadata=NOT_IN_JSON)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the partitions that were compacted."""

    partitions: Annotated[int, "all partitions of the run"]
    outcomes: Annotated[Mapping[str, int], "how many partitions ended with which outcome"]
    directories_in: Annotated[int, "directories that were replaced; all original files of a partition count as one"]
    directories_out: Annotated[int, "directories that were published"]
    files_in: Annotated[int, "data files that were read"]
    files_out: Annotated[int, "data files that were written"]
    bytes_in: Annotated[int, "size of the files that were read"]
    bytes_out: Annotated[int, "size of the files that were written"]
    bytes_copied: Annotated[int, "of that, stripes that went over as they were"]
    bytes_encoded: Annotated[int, "of that, what was written anew"]
    rows_in: Annotated[int, "stored rows that were read, deleted ones and those of aborted writes included"]
    rows_out: Annotated[int, "rows or events that were written"]
    deletes_applied: Annotated[int, "rows that delete events removed"]
    hidden: Annotated[int, "rows of aborted writes, left out"]


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """A whole run of `compact`."""

    ALSO: ClassVar = ("summary",)

    location: Annotated[str, "the table as it was named, without secrets"]
    kind: Annotated[str, "minor or major"]
    target: Annotated[str, "which Hive has to read the result: `hive3` or `hive4`"]
    engine: Annotated[str, "`local` or `spark`; `none` when nothing was to be done"]
    visibility_txn: Annotated[int | None, "the transaction with which the result becomes visible"]
    assumed: Annotated[tuple[str, ...], ASSUMED]
    partitions: Annotated[tuple[PartitionReport, ...], "in the order of the plan, which is that of their paths"]
    seconds: Annotated[float, "of the whole run, planning not counted"]
    notes: Annotated[tuple[str, ...], "notes about the plan, as on stderr"] = ()
    phases: Annotated[
        Mapping[str, float],
        "seconds by phase, planning included, of all threads and processes together: `list` directories, `footers` of "
        "files, `read` (fetch, inflate and decode), `merge`, `encode`, `deflate`, `verify` and `publish`",
    ] = field(default_factory=dict)

    @property
    def summary(self) -> Annotated[Totals, "what all partitions add up to"]:
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
            bytes_copied=sum(part.bytes_copied or 0 for part in done),
            bytes_encoded=sum(part.bytes_encoded or 0 for part in done),
            rows_in=sum(part.rows_in or 0 for part in done),
            rows_out=sum(part.rows_out or 0 for part in done),
            deletes_applied=sum(part.deletes_applied or 0 for part in done),
            hidden=sum(part.hidden or 0 for part in done),
        )

    @property
    def exit_code(self) -> ExitCode:
        """13 where a verification failed; the failures' own code where nothing else was done; 3 for a part undone.

        A refusal is no failure: 3 says that something is left undone. What was left because of a failure has its code.
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
        hint=part.hint,
        inputs=names if outcome is Outcome.REFUSED else (),
        notes=part.notes,
    )
