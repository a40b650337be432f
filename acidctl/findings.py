"""What may be wrong with a table: one catalogue for all commands.

A finding makes an answer doubtful: rows of it may be missing or come twice. `snapshot` gives such an answer and exits
with 3, `ls` shows the finding, `compact` refuses the partition, `clean` keeps all of it. A doubtful answer that is
compacted, and whose inputs are then cleaned, would be the only one that is left.

Codes are stable: scripts and `--accept-doubts` name them. A code is never used for something else.
"""

from __future__ import annotations

from enum import Enum

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
    """An entry of the catalogue: `title` says what is wrong, `remedy` what to do about it, both in a sentence."""

    code: str
    level: Level
    title: str
    remedy: str
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: its code, the sentence that names what was found, and the path that it concerns ("" for a location).

    Two findings of one code and sentence are the same finding.
    """

    code: str
    sentence: str
    path: str = ""

    @property
    def kind(self) -> FindingKind:
        """Its entry in the catalogue."""
        return CATALOGUE[self.code]

    def __str__(self) -> str:
        return self.sentence


_RESTORE = "Restore what is missing from a backup, or let Hive compact the table again."
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
        ),
        FindingKind(
            "foreign_journal",
            Level.NAMES,
            "A work directory says that what is read is half of a compaction, and names and sizes say otherwise.",
            "Compare both (`acidctl dump`); remove the work directory if no compaction of acidctl made it.",
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
            "duplicate_row_id",
            Level.KEYS,
            "Two rows have the same ROW__ID.",
            _COPIED,
        ),
        FindingKind(
            "unsorted_rows",
            Level.KEYS,
            "Rows of a file are not in the order of their ROW__IDs, so that deletes may miss them.",
            "Write the file anew with the engine that made it; report that engine's version.",
        ),
    )
}
