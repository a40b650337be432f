"""What `clean` found and did, as values: the answer of the command, and the contract of its JSON form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from acidctl.cleaning.guards import GUARDS, GuardResult
from acidctl.cleaning.plan import Entry, LocationPlan
from acidctl.errors import AcidctlError, ExitCode

REPORT_TYPE = "clean_report"
SCHEMA_VERSION = 1


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
class Problem:
    """An error that concerned one location only."""

    code: str
    message: str
    hint: str | None
    exit_code: ExitCode

    @classmethod
    def of(cls, error: AcidctlError) -> Problem:
        """The values of an error."""
        return cls(error.code, error.message, error.hint, error.exit_code)


@dataclass(frozen=True, slots=True)
class CleanedLocation:
    """One location. `victims` are what went, came back, or would go; `kept` is everything else.

    `place` is the quarantine box, None without one.
    """

    partition: str
    outcome: Outcome
    guards: tuple[GuardResult, ...]
    victims: tuple[Entry, ...]
    kept: tuple[Entry, ...]
    place: str | None = None
    notes: tuple[str, ...] = ()
    problem: Problem | None = None

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
        why = "there was no time left for it (--max-runtime)"
        spared = tuple(replace(v, reason_code="left", reason=f"{v.reason}, but {why}") for v in part.victims)
        return cls(part.partition, Outcome.LEFT, part.guards, (), (*part.kept, *spared))


@dataclass(frozen=True, slots=True)
class CleanReport:
    """The whole answer; `write_ids` and `txns` are the meet of the lists as texts, `txns` empty where none was given.

    `retention_seconds` is None where ages were not looked at.
    """

    location: str
    table_type: str
    action: Action
    write_ids: str
    txns: str
    retention_seconds: float | None
    locations: tuple[CleanedLocation, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def dry_run(self) -> bool:
        """Whether nothing was changed because nobody asked for it."""
        return self.action is Action.SHOW

    @property
    def victims(self) -> Sequence[tuple[CleanedLocation, Entry]]:
        """Every victim with its location."""
        return [(part, victim) for part in self.locations for victim in part.victims]

    def count(self, outcome: Outcome) -> int:
        """Entries with that outcome; a location that failed half way has done what it lists."""
        wanted = {Outcome.DELETED: Action.DELETE, Outcome.QUARANTINED: Action.QUARANTINE, Outcome.RESTORED: Action.UNDO}
        if self.action is not wanted[outcome]:
            return 0
        return sum(len(part.victims) for part in self.locations)

    @property
    def bytes_freed(self) -> int:
        """Bytes of what was deleted, or would be by --delete."""
        if self.action not in (Action.SHOW, Action.DELETE):
            return 0
        return sum(victim.bytes for _, victim in self.victims)

    @property
    def guarded(self) -> tuple[CleanedLocation, ...]:
        """Locations at which a guard does not hold."""
        return tuple(part for part in self.locations if part.outcome is Outcome.GUARDED)

    @property
    def failed(self) -> tuple[CleanedLocation, ...]:
        """Locations at which something went wrong."""
        return tuple(part for part in self.locations if part.problem is not None)

    @property
    def exit_code(self) -> ExitCode:
        """The one code of all failures where everything failed alike; else 3 where anything was left undone."""
        codes = {part.problem.exit_code for part in self.failed if part.problem is not None}
        if len(codes) == 1 and len(self.failed) == len(self.locations):
            return codes.pop()
        left = any(part.outcome is Outcome.LEFT for part in self.locations)
        return ExitCode.FINDINGS if codes or self.guarded or left else ExitCode.DONE


def to_json(report: CleanReport) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "type": REPORT_TYPE,
        "schema_version": SCHEMA_VERSION,
        "location": report.location,
        "table_type": report.table_type,
        "action": report.action.value,
        "dry_run": report.dry_run,
        "write_ids": report.write_ids,
        "txns": report.txns or None,
        "retention_seconds": report.retention_seconds,
        "guards": list(guards_of(report.locations)),
        "partitions": [
            {
                "partition": part.partition,
                "outcome": part.outcome.value,
                "quarantine": part.place,
                "problem": _problem(part.problem),
                "notes": list(part.notes),
            }
            for part in report.locations
        ],
        "victims": [entry_json(part.partition, entry) for part, entry in report.victims],
        "kept": [entry_json(part.partition, entry) for part in report.locations for entry in part.kept],
        "bytes_freed": report.bytes_freed,
        "deleted": report.count(Outcome.DELETED),
        "quarantined": report.count(Outcome.QUARANTINED),
        "restored": report.count(Outcome.RESTORED),
        "notes": list(report.notes),
        "warnings": list(report.warnings),
    }


def entry_json(partition: str, entry: Entry) -> dict[str, Any]:
    """One entry; ages in whole seconds."""
    return {
        "partition": partition,
        "name": entry.name,
        "kind": entry.kind,
        "reason": entry.reason,
        "reason_code": entry.reason_code,
        "because_of": list(entry.because_of),
        "bytes": entry.bytes,
        "files": entry.files,
        "age_seconds": None if entry.age_seconds is None else int(entry.age_seconds),
    }


def guards_of(locations: Sequence[CleanedLocation]) -> Iterator[dict[str, Any]]:
    """Each guard once where it holds everywhere (partition null), else once for each location where it fails."""
    for guard in GUARDS:
        found = [(part, result) for part in locations for result in part.guards if result.guard == guard]
        failing = [(part, result) for part, result in found if not result.holds]
        if failing:
            yield from (_guard(part.partition, result) for part, result in failing)
        elif found:
            yield _guard(None, GuardResult(guard, True, _together([result.why for _, result in found])))


def _guard(partition: str | None, result: GuardResult) -> dict[str, Any]:
    return {"partition": partition, "guard": result.guard, "holds": result.holds, "why": result.why}


def _together(reasons: Iterable[str]) -> str:
    different = list(dict.fromkeys(reasons))
    return different[0] if len(different) == 1 else f"{different[0]}; and {len(different) - 1} other reasons elsewhere"


def _problem(problem: Problem | None) -> dict[str, Any] | None:
    if problem is None:
        return None
    return {"code": problem.code, "message": problem.message, "hint": problem.hint}
