"""What `clean` found and did, as values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import Enum
from typing import Annotated, ClassVar

from acidctl.cleaning.plan import GUARDS, Entry, GuardResult, LocationPlan, spared
from acidctl.errors import ExitCode
from acidctl.state.report import NOT_IN_JSON, Problem
from acidctl.values import dataclass

REPORT_TYPE = "clean_report"


class Action(Enum):
    """What was asked for."""

    SHOW = "show"
    DELETE = "delete"
    QUARANTINE = "quarantine"
    UNDO = "undo"


class Outcome(Enum):
    """What became of one location.

    GUARDED: a guard does not hold, so that nothing was touched. LEFT: there was no time for it.
    """

    PLANNED = "planned"
    NOTHING_TO_DO = "nothing_to_do"
    GUARDED = "guarded"
    DELETED = "deleted"
    QUARANTINED = "quarantined"
    RESTORED = "restored"
    FAILED = "failed"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class GuardReport:
    """What a guard says: once where it holds everywhere, else once for each partition where it fails."""

    partition: Annotated[str | None, "where it fails; null when it holds everywhere"]
    guard: Annotated[str, "G1 to G9, `own_files`, `current_lists`, `simulation`, `doubts`, `rows`"]
    holds: Annotated[bool, "where false, nothing there was touched"]
    why: Annotated[str, "in a sentence"]


@dataclass(frozen=True, slots=True)
class CleanedEntry:
    """One entry that went, came back, would go, or was kept."""

    partition: Annotated[str, "on-disk text"]
    name: Annotated[str, "directory name; `(original files)` for all original files of a location"]
    kind: Annotated[str, "base, delta, delete_delta, original, marker, unrecognised"]
    reason: Annotated[str, "why it goes, or stays, in a sentence"]
    reason_code: Annotated[str, "the same, stable"]
    because_of: Annotated[tuple[str, ...], "names of the entries that cover it"]
    bytes: Annotated[int, "size of all its files"]
    files: Annotated[int, "files below it, markers included"]
    age_seconds: Annotated[int | None, "since anything in it last changed; null when the storage does not say"]

    @classmethod
    def of(cls, partition: str, entry: Entry) -> CleanedEntry:
        """An entry of a plan; ages in whole seconds."""
        age = None if entry.age_seconds is None else int(entry.age_seconds)
        words = (entry.name, entry.kind.value, entry.reason, entry.reason_code, entry.because_of)
        return cls(partition, *words, entry.bytes, entry.files, age)


@dataclass(frozen=True, slots=True)
class CleanedLocation:
    """What became of one location. `victims` are what went, came back, or would go; `kept` is everything else."""

    partition: Annotated[str, "on-disk text; empty for a table without partitions"]
    outcome: Annotated[
        Outcome, "planned, nothing_to_do, guarded, deleted, quarantined, restored, failed, left (there was no time)"
    ]
    guards: tuple[GuardResult, ...] = field(metadata=NOT_IN_JSON)
    victims: tuple[Entry, ...] = field(metadata=NOT_IN_JSON)
    kept: tuple[Entry, ...] = field(metadata=NOT_IN_JSON)
    quarantine: Annotated[str | None, "the folder of what was moved away, or could not be brought back"] = None
    notes: Annotated[tuple[str, ...], "what else was done, such as removing what an interrupted run had left"] = ()
    problem: Annotated[Problem | None, "of a failure: `code`, `message`, `hint`"] = None

    @classmethod
    def planned(cls, part: LocationPlan) -> CleanedLocation:
        """What a dry run tells."""
        if part.postponed:
            return cls.left(part)
        outcome = Outcome.PLANNED if part.victims else Outcome.NOTHING_TO_DO
        if not part.holds:
            outcome = Outcome.GUARDED
        return cls(part.partition, outcome, part.guards, part.victims, part.kept)

    @classmethod
    def left(cls, part: LocationPlan) -> CleanedLocation:
        """One for which there was no time; a later run takes it."""
        left = (spared(v, "left", ", but there was no time left for it (--max-runtime)") for v in part.victims)
        return cls(part.partition, Outcome.LEFT, part.guards, (), (*part.kept, *left))


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The whole answer of `clean`."""

    ALSO: ClassVar = ("dry_run", "guards", "victims", "kept", "bytes_freed", "deleted", "quarantined", "restored")

    location: Annotated[str, "the table as it was named, without secrets"]
    table_type: Annotated[str, "full, insert_only, originals, empty"]
    action: Annotated[Action, "`show` (a dry run), `delete`, `quarantine`, `undo`"]
    write_ids: Annotated[str, "what every reader sees: the lists combined"]
    txns: Annotated[str | None, "the same for transactions; null when no list was given"]
    retention_seconds: Annotated[float | None, "what is younger stays; null when ages were not looked at"]
    partitions: Annotated[tuple[CleanedLocation, ...], "what became of each location"]
    notes: Annotated[tuple[str, ...], "the notes, as on stderr"] = ()
    warnings: Annotated[tuple[str, ...], "the warnings, as on stderr"] = ()

    @property
    def dry_run(self) -> Annotated[bool, "true where nothing was to be changed, only shown"]:
        """Whether nothing was changed because nobody asked for it."""
        return self.action is Action.SHOW

    @property
    def guards(self) -> Annotated[tuple[GuardReport, ...], "which guards hold"]:
        """Each guard once where it holds everywhere, else once for each partition where it fails."""
        return tuple(_guards_of(self.partitions))

    @property
    def victims(self) -> Annotated[tuple[CleanedEntry, ...], "what went, or came back; in a dry run what would go"]:
        """What went, came back, or would go."""
        return tuple(CleanedEntry.of(part.partition, entry) for part in self.partitions for entry in part.victims)

    @property
    def kept(self) -> Annotated[tuple[CleanedEntry, ...], "everything else"]:
        """Everything else."""
        return tuple(CleanedEntry.of(part.partition, entry) for part in self.partitions for entry in part.kept)

    def _count(self, action: Action) -> int:
        """Entries of the action that was asked for; a location that failed half way has done what it lists."""
        return sum(len(part.victims) for part in self.partitions) if self.action is action else 0

    @property
    def bytes_freed(self) -> Annotated[int, "bytes of what was deleted; in a dry run of what would be"]:
        """Bytes of what was deleted, or would be by --delete."""
        if self.action not in (Action.SHOW, Action.DELETE):
            return 0
        return sum(entry.bytes for part in self.partitions for entry in part.victims)

    @property
    def deleted(self) -> Annotated[int, "entries that were deleted"]:
        """How many entries were deleted."""
        return self._count(Action.DELETE)

    @property
    def quarantined(self) -> Annotated[int, "entries that were moved away"]:
        """How many entries were moved to quarantine."""
        return self._count(Action.QUARANTINE)

    @property
    def restored(self) -> Annotated[int, "entries that were brought back"]:
        """How many entries were brought back."""
        return self._count(Action.UNDO)

    @property
    def guarded(self) -> tuple[CleanedLocation, ...]:
        """Locations at which a guard does not hold."""
        return tuple(part for part in self.partitions if part.outcome is Outcome.GUARDED)

    @property
    def failed(self) -> tuple[CleanedLocation, ...]:
        """Locations at which something went wrong."""
        return tuple(part for part in self.partitions if part.problem is not None)

    @property
    def exit_code(self) -> ExitCode:
        """The one code of all failures where everything failed alike; else 3 where anything was left undone."""
        codes = {part.problem.exit_code for part in self.failed if part.problem is not None}
        if len(codes) == 1 and len(self.failed) == len(self.partitions):
            return codes.pop()
        left = any(part.outcome is Outcome.LEFT for part in self.partitions)
        return ExitCode.FINDINGS if codes or self.guarded or left else ExitCode.DONE


def _guards_of(locations: Sequence[CleanedLocation]) -> Iterator[GuardReport]:
    for guard in GUARDS:
        found = [(part, result) for part in locations for result in part.guards if result.guard == guard]
        failing = [(part, result) for part, result in found if not result.holds]
        if failing:
            yield from (GuardReport(part.partition, guard, False, result.why) for part, result in failing)
        elif found:
            why, *more = dict.fromkeys(result.why for _, result in found)
            yield GuardReport(None, guard, True, f"{why}; and {len(more)} other reasons elsewhere" if more else why)
