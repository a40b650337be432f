"""What may be wrong with a table: one catalogue for all commands.

A finding makes an answer doubtful: rows of it may be missing or come twice. `snapshot` gives such an answer and exits
with 3, `ls` shows the finding, `compact` refuses the partition, `clean` keeps all of it. A doubtful answer that is
compacted, and whose inputs are then cleaned, would be the only one that is left.

Codes are stable: scripts and `--accept-doubts` name them. A code is never used for something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import Annotated, Any, ClassVar

from acidctl.errors import DamagedDataError, ExitCode, UsageError
from acidctl.values import dataclass


class Level(Enum):
    """What has to be looked at to notice a finding, from the cheapest on."""

    NAMES = "names"
    FOOTERS = "footers"
    KEYS = "keys"
    VALUES = "values"


class Severity(Enum):
    """How bad it is. With an ERROR rows may be missing, come twice, or be wrong."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class FindingKind:
    """An entry of the catalogue: `title` says what is wrong, `remedy` what to do about it, both in a sentence.

    `unacceptable` says, as a clause, why --accept-doubts cannot help: `compact` could not carry on all the same.
    """

    code: str
    level: Level
    title: str
    remedy: str
    severity: Severity = Severity.ERROR
    unacceptable: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: its code, the sentence that names what was found, and the path that it concerns ("" for a location).

    Two findings of one code and sentence are the same finding.
    """

    ALSO: ClassVar = ("remedy",)

    code: Annotated[str, "what is wrong, stable; see [What may be wrong](../concepts.md#doubts)"]
    sentence: Annotated[str, "what was found, and where"]
    path: Annotated[str, "the directory or file, relative to the table; empty for a whole location"] = field(
        default="", compare=False
    )

    @property
    def kind(self) -> FindingKind:
        """Its entry in the catalogue."""
        return CATALOGUE[self.code]

    @property
    def remedy(self) -> Annotated[str, "what to do now"]:
        """What to do about it."""
        return self.kind.remedy

    def at(self, partition: str) -> Finding:
        """The finding of a partition as one of its table."""
        if not partition:
            return self
        path = f"{partition}/{self.path}" if self.path else partition
        return replace(self, sentence=f"{partition}: {self.sentence}", path=path)

    def __str__(self) -> str:
        return self.sentence


class AcidctlWarning(UserWarning):
    """Rows that Python was given may be missing or come twice; each finding of a snapshot once."""


class DoubtError(DamagedDataError):
    """What would be changed may not be believed; `code` is that of the finding, and nothing was changed."""

    exit_code = ExitCode.FINDINGS
    code = "doubtful"

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.sentence, path=finding.path or None, hint=f"{finding.remedy} Nothing was changed.")
        self.finding = finding
        self.code = finding.code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.finding,)


def accepted_codes(codes: Sequence[str]) -> frozenset[str]:
    """The codes of --accept-doubts; UsageError for one that there is not, and for what no command could carry on."""
    for code in codes:
        kind = CATALOGUE.get(code)
        if kind is None:
            raise UsageError(
                f"--accept-doubts names {code}, and there is no such finding",
                hint=f"The codes are: {', '.join(_acceptable())}.",
            )
        if kind.unacceptable:
            raise UsageError(
                f"--accept-doubts cannot accept {code}: {kind.unacceptable}",
                hint=kind.remedy,
            )
    return frozenset(codes)


def unaccepted(findings: Iterable[Finding], accepted: frozenset[str]) -> tuple[Finding, ...]:
    """Findings by which an answer may be wrong, each once, less those of accepted codes."""
    wrong = (one for one in findings if one.kind.severity is Severity.ERROR and one.code not in accepted)
    return tuple(dict.fromkeys(wrong))


def codes_of_level(level: Level) -> tuple[str, ...]:
    """The codes of what only this level tells."""
    return tuple(kind.code for kind in CATALOGUE.values() if kind.level is level)


def acceptance(findings: Iterable[Finding]) -> str:
    """How these findings are accepted, as a sentence; "" where one of them cannot be."""
    kinds = dict.fromkeys(one.kind for one in findings)
    if not kinds or any(kind.unacceptable for kind in kinds):
        return ""
    return f"To compact it as it is read now: --accept-doubts {','.join(kind.code for kind in kinds)}."


def _acceptable() -> tuple[str, ...]:
    return tuple(kind.code for kind in CATALOGUE.values() if not kind.unacceptable)


_RESTORE = (
    "Restore the missing half from a backup; or, while all of its inputs are there, move the half that is left out of "
    "the table, so that they are read again."
)
_UNWRITABLE = "no file could answer as those answer that are there now"
_UNSETTLED = "a compaction first completes or undoes what is half published, and goes no further where it cannot"
_COPIED = "Remove the copy, after `acidctl dump --events` has shown that both hold the same rows."

CATALOGUE = {
    kind.code: kind
    for kind in (
        FindingKind(
            "overlapping_ranges",
            Level.NAMES,
            "The write ids of two directories overlap in part, and both are read.",
            _COPIED,
        ),
        FindingKind(
            "same_range",
            Level.NAMES,
            "Several directories hold exactly the same write ids, and all are read.",
            _COPIED,
        ),
        FindingKind(
            "nested_directory",
            Level.NAMES,
            "A base or delta lies inside another directory, where readers disagree whether it counts.",
            "Move the inner directory to where it belongs, or out of the table.",
        ),
        FindingKind(
            "unknown_name",
            Level.NAMES,
            "Data lies under a name that no reader knows, and is not read.",
            "Give it the name that its writer gave it, or move it out of the table.",
        ),
        FindingKind(
            "delete_delta_in_insert_only",
            Level.NAMES,
            "A delete delta lies in a table that is taken for insert-only, which has none.",
            "Give the kind of the table with --table-type, or the text of its SHOW CREATE TABLE with --schema.",
        ),
        FindingKind(
            "beside_partitions",
            Level.NAMES,
            "Data lies beside the partitions' folders, where nobody reads it.",
            "Move it into the folder of its partition, or out of the table.",
        ),
        FindingKind(
            "bucket_twice",
            Level.NAMES,
            "Two files of one directory hold the same bucket; both are read.",
            "Find out which one the write committed (`acidctl dump`), and move the other one away.",
        ),
        FindingKind(
            "half_published",
            Level.NAMES,
            "A compaction was interrupted between two of its results, and an input of it is gone.",
            "Run `acidctl compact`, which completes it, or restore the input from a backup.",
            unacceptable=_UNSETTLED,
        ),
        FindingKind(
            "foreign_journal",
            Level.NAMES,
            "A work directory says that what is read is half of a compaction, and names and sizes say otherwise.",
            "Compare both (`acidctl dump`); remove the work directory if no compaction of acidctl made it.",
            unacceptable=_UNSETTLED,
        ),
        FindingKind(
            "half_of_minor",
            Level.FOOTERS,
            "Of a minor compaction only the inserts or only the deletes are there.",
            _RESTORE,
        ),
        FindingKind(
            "foreign_bucket",
            Level.FOOTERS,
            "A file holds rows of another bucket than its name says.",
            "Give the file its name back, or remove it if it is a copy.",
        ),
        FindingKind(
            "foreign_write_id",
            Level.FOOTERS,
            "A file of a delta holds rows of other write ids than the name of its directory says.",
            "Give the directory its name back, or remove it if it is a copy.",
        ),
        FindingKind(
            "duplicate_row_id",
            Level.KEYS,
            "Two rows have the same ROW__ID.",
            _COPIED,
            unacceptable=_UNWRITABLE,
        ),
        FindingKind(
            "unsorted_rows",
            Level.KEYS,
            "Rows of a file are not in the order of their ROW__IDs, so that deletes may miss them.",
            "Write the file anew with the engine that made it; report that engine's version.",
            unacceptable=_UNWRITABLE,
        ),
    )
}
