"""What `clean` may remove, as data: entries to remove with reason and cover, all that is kept, and the guards.

Made of a survey and of what opened files show (`Evidence`); carried out by `cleaning.run`, which makes it again
right before it removes anything. Where one guard fails, nothing goes. G1 to G9 are those of Hive's own cleaner and of
what it cannot do for us; the last one, `simulation`, asks whether any reader would open something else. Values only: no
clock, no storage.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from acidctl.cleaning.decisions import Decision, Label, Survey, half_published, originals_of
from acidctl.compaction.plan import InputEntry, fingerprint_of
from acidctl.findings import Finding
from acidctl.format.listing import Listing, obstacle
from acidctl.format.names import BaseDir, DeltaDir, DeltaKind, first_crossing, same_table
from acidctl.format.write_ids import MAX_ID, Reader
from acidctl.state.entries import ORIGINALS_NAME, Directory, EntryKind
from acidctl.state.equivalence import boundary_readers, equivalent
from acidctl.state.inventory import take_inventory
from acidctl.values import dataclass

# Hive 4 renames what a non-blocking DROP has given up (HIVE-25688).
_DROPPED = re.compile(r"\.v[0-9]+$")


@dataclass(frozen=True, slots=True)
class GuardResult:
    """Whether a guard holds, and why (not)."""

    guard: str
    holds: bool
    why: str


@dataclass(frozen=True, slots=True)
class Compared:
    """`lost`: why rows may be lost with what goes, None where none are; `read` says what was looked at."""

    lost: str | None
    read: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What opened files show: of each cover in a sentence why it is not one, None for a complete one.

    `empty` says of deltas by name whether readers see no event in them. `linked` is a symbolic link elsewhere in the
    table by which something here is read. `too_old` says why the lists are older than a compaction here, and `changed`
    what differs from an earlier plan, when this one is made `again` right before the deletion. `doubts` are what makes
    an answer of `snapshot` doubtful, `unread` why these are not known. `rows` is None until what goes has been compared
    with its covers.
    """

    covers: Mapping[str, str | None] = field(default_factory=dict)
    empty: Mapping[str, bool] = field(default_factory=dict)
    changed: str | None = None
    again: bool = False
    linked: str | None = None
    too_old: str | None = None
    doubts: tuple[Finding, ...] = ()
    unread: str | None = None
    rows: Compared | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry with what becomes of it; `age_seconds` None where no time is known.

    `paths` are what has to be moved away to remove it, relative to the location, and `fingerprint` covers its files:
    both of victims only.
    """

    name: str
    kind: EntryKind
    label: Label
    reason_code: str
    reason: str
    because_of: tuple[str, ...]
    files: int
    bytes: int
    age_seconds: float | None
    paths: tuple[str, ...] = ()
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class LocationPlan:
    """What happens at one location; `path` is that of its directory.

    `victims` are in the order in which they go, and empty when a guard fails: then they stand among `kept`.
    `covers` are names and fingerprints of the directories because of which they go.
    """

    partition: str
    path: str
    guards: tuple[GuardResult, ...]
    victims: tuple[Entry, ...]
    kept: tuple[Entry, ...]
    covers: tuple[tuple[str, str], ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every guard holds."""
        return all(guard.holds for guard in self.guards)

    @property
    def postponed(self) -> bool:
        """Whether there was no time to judge it."""
        return any(entry.reason_code == "max_runtime" for entry in self.kept)

    @property
    def fingerprint(self) -> str:
        """A hash over all victims and their covers; whatever else appears at the location does not matter."""
        named = (*((v.name, v.fingerprint) for v in self.victims), *self.covers)
        return fingerprint_of(InputEntry(name, text, None, None, ()) for name, text in named)


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """A whole run; the lists are texts, `txns` empty where none was given, `retention_seconds` None for none."""

    location: str
    table_type: str
    write_ids: str
    txns: str
    retention_seconds: float | None
    locations: tuple[LocationPlan, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def victims(self) -> int:
        """How many entries may go."""
        return sum(len(part.victims) for part in self.locations)

    @property
    def bytes(self) -> int:
        """How much that frees."""
        return sum(victim.bytes for part in self.locations for victim in part.victims)

    @property
    def holds(self) -> bool:
        """Whether every guard holds everywhere."""
        return all(part.holds for part in self.locations)


def plan_location(
    seen: Survey,
    evidence: Evidence,
    *,
    partition: str = "",
    path: str = "",
    compare: Callable[[], Compared] | None = None,
) -> LocationPlan:
    """The plan of one location: victims only when every guard holds there.

    `compare` looks for the rows of what goes in its covers; it is asked where nothing else speaks against that.
    """
    now = seen.rules.now
    entries = [_entry(d, decision, None if time is None else now - time) for d, decision, time in seen.entries]
    victims = [entry for entry in entries if entry.label is Label.DELETE]
    kept = [entry for entry in entries if entry.label is not Label.DELETE]
    results = _results(seen, evidence, compare)
    failed = [result.guard for result in results if not result.holds]
    if failed:
        why = f", but {' and '.join(failed)} {'does' if len(failed) == 1 else 'do'} not hold here"
        kept += [spared(entry, "guard_failed", why) for entry in victims]
        return LocationPlan(partition, path, tuple(results), (), tuple(kept))
    covers = tuple((cover.name, fingerprint(cover)) for cover in seen.covers)
    ranks = _ranks(seen)
    victims.sort(key=lambda entry: ranks.get(entry.name, (5, 0, entry.name)))
    return LocationPlan(partition, path, tuple(results), tuple(victims), tuple(kept), covers)


def _results(seen: Survey, evidence: Evidence, compare: Callable[[], Compared] | None) -> list[GuardResult]:
    """What the guards say; `rows`, which costs as much as reading the covers, only where all before it hold."""
    results: list[GuardResult] = []
    for guard, ask in GUARDS.items():
        if guard == "rows":
            if not all(result.holds for result in results):
                break
            if evidence.rows is None and compare is not None and seen.covers:
                evidence = replace(evidence, rows=compare())
        try:
            results.append(GuardResult(guard, True, ask(seen, evidence)))
        except _FailsError as error:
            results.append(GuardResult(guard, False, str(error)))
    return results


def untouched(listing: Listing, code: str, why: str, *, partition: str = "", path: str = "") -> LocationPlan:
    """The plan of a place where nothing is judged, and everything stays."""
    inventory = take_inventory(listing)
    decision = Decision(Label.IGNORE, code, why)
    found = [*inventory.bases, *inventory.deltas, *inventory.decided]
    if inventory.group_files:
        found.append(originals_of(inventory))
    return LocationPlan(partition, path, (), (), tuple(_entry(directory, decision, None) for directory in found))


def _entry(directory: Directory, decision: Decision, age: float | None) -> Entry:
    going = decision.label is Label.DELETE
    return Entry(
        name=directory.name,
        kind=directory.kind,
        label=decision.label,
        reason_code=decision.reason_code,
        reason=decision.reason,
        because_of=decision.because_of,
        files=len(directory.files),
        bytes=directory.bytes,
        age_seconds=age,
        paths=tuple(sorted(_tops(directory))) if going else (),
        fingerprint=fingerprint(directory) if going else "",
    )


def spared(entry: Entry, code: str, why: str) -> Entry:
    """A victim that stays; `why` follows the reason for which it would have gone."""
    return replace(entry, label=Label.IGNORE, reason_code=code, reason=entry.reason + why, paths=(), fingerprint="")


def _tops(directory: Directory) -> set[str]:
    """Top-level names that have to be moved away to remove an entry."""
    if directory.name != ORIGINALS_NAME:
        return {directory.name}
    return {info.path.partition("/")[0] for info in directory.files}


def fingerprint(directory: Directory) -> str:
    """A hash over its files: names, sizes and times."""
    return fingerprint_of([InputEntry(directory.name, "", None, None, directory.files)])


def _ranks(seen: Survey) -> dict[str, tuple[int, int, str]]:
    """What is aborted goes first, then bases from the oldest on, then originals, then deltas, then leftovers.

    A reader older than the common snapshot, which needs them all, then fails for want of a base ("not enough
    history") at every point between; deltas first would let it read an old base and miss their rows in silence. Deletes
    go after inserts, so that what an interrupted run leaves never has rows without their deletes.
    """
    ranks = {ORIGINALS_NAME: (2, 0, ORIGINALS_NAME)}
    for directory in (*seen.inventory.bases, *seen.inventory.deltas):
        name, parsed = directory.name, directory.parsed
        covered = bool(seen.chosen.decisions[name].because_of)
        if isinstance(parsed, BaseDir):
            ranks[name] = (1 if covered else 0, parsed.write_id, name)
        elif isinstance(parsed, DeltaDir):
            inserts = parsed.kind is DeltaKind.INSERT
            ranks[name] = ((3 if inserts else 4) if covered else 0, parsed.min_write_id, name)
    return ranks


# --- guards: each says why it holds, or raises why it does not


class _FailsError(Exception):
    """Why a guard does not hold."""


def _real_watermarks(seen: Survey, evidence: Evidence) -> str:
    ids, txns, table = seen.common.effective_write_ids, seen.common.txns, seen.rules.table
    for what, given in (("write-id", ids), ("transaction", txns)):
        if given is not None and given.high_watermark == MAX_ID:
            raise _FailsError(f"the {what} list has no real high watermark, so that it excludes nothing")
    if table is not None and ids.table is not None and not same_table(ids.table, table):
        raise _FailsError(f"the write-id list is of {ids.table}, and this table is {table}")
    of = "" if ids.table is None else f" of {ids.table}"
    return f"the write ids{of} end at {ids.high_watermark}"


def _known_transactions(seen: Survey, evidence: Evidence) -> str:
    named = [c.name for c in (*seen.inventory.bases, *seen.inventory.deltas) if c.visibility_txn_id is not None]
    if named and seen.common.txns is None:
        raise _FailsError(f"{named[0]} is judged by transactions, and no transaction list was given")
    return "transactions are known" if named else "no name carries a transaction"


def _nested_ranges(seen: Survey, evidence: Evidence) -> str:
    """Ranges are nested or disjoint, and none straddles the base."""
    decided, best = seen.chosen.decided, seen.chosen.best
    for directory in decided if best is not None else ():
        if best is not None and directory.delta.range.crosses(best.base.range):
            raise _FailsError(f"{directory.name} begins below {best.name} and ends above it")
    crossing = first_crossing((directory.delta.range, directory) for directory in decided)
    if crossing is not None:
        raise _FailsError(f"{crossing[0].name} and {crossing[1].name} overlap, and neither holds the other")
    for cover in seen.covers:
        for directory in seen.chosen.undecided if isinstance(cover.parsed, DeltaDir) else ():
            if cover.delta.range.crosses(directory.delta.range):
                why = f"{directory.name}, whose write ids are not all decided, overlaps {cover.name} in part"
                raise _FailsError(why)
    return "ranges of write ids are nested or disjoint"


def _complete_covers(seen: Survey, evidence: Evidence) -> str:
    for cover in seen.covers:
        problem = evidence.covers.get(cover.name, f"{cover.name} has not been looked into")
        if problem is not None:
            raise _FailsError(problem)
        unmarked = isinstance(cover.parsed, BaseDir) and cover.is_first_compaction and not cover.is_compacted
        if unmarked and not seen.kind.acid_v1:
            raise _FailsError(f"{cover.name} carries no mark of a compaction (_metadata_acid)")
    count = len(seen.covers)
    return f"{count} covering {'directory is' if count == 1 else 'directories are'} complete"


def _cleanup_allowed(seen: Survey, evidence: Evidence) -> str:
    if seen.rules.no_cleanup:
        raise _FailsError("the table says no_cleanup")
    dropped = [part for part in seen.listing.root.split("/") if _DROPPED.search(part)]
    if dropped:
        raise _FailsError(f"{dropped[-1]} is being dropped by Hive")
    unknown = seen.rules.no_cleanup is None
    return "nothing says no_cleanup (no DDL was given)" if unknown else "the DDL does not say no_cleanup"


def _retention(seen: Survey, evidence: Evidence) -> str:
    """Never fails: the retention keeps entry by entry."""
    if seen.rules.older_than is None:
        return "--unsafe-no-retention: ages are not looked at"
    return f"{seen.held} younger than the retention, or without an older cover, {'stays' if seen.held == 1 else 'stay'}"


def _listed_again(seen: Survey, evidence: Evidence) -> str:
    if evidence.changed is not None:
        raise _FailsError(evidence.changed)
    return "listed once more right before" if evidence.again else "listed after the lists of ids were given"


def _both_halves(seen: Survey, evidence: Evidence) -> str:
    halves = sorted(half_published(seen.listing))
    if halves:
        raise _FailsError(f"a compaction is half published ({halves[0]}); `acidctl compact` completes or undoes it")
    for directory in seen.one_sided:
        if not evidence.empty.get(directory.name, False):
            what = "inserts" if directory.kind is EntryKind.DELTA else "deletes"
            raise _FailsError(f"the compaction that covers {directory.name} has no half that holds its {what}")
    return "both halves of every covering minor compaction are there, or legitimately missing"


def _highest_write_id(seen: Survey, evidence: Evidence) -> str:
    """Never fails: the bound is a part of the lists by which everything is judged."""
    highest = seen.rules.highest_write_id
    return "no highest write id was given" if highest is None else f"write ids are judged up to {highest}"


def _own_files(seen: Survey, evidence: Evidence) -> str:
    """What lies behind a link is no cover to rely on and nothing to remove, and what is no file can be neither."""
    found = obstacle(seen.listing)
    if found is not None:
        raise _FailsError(f"{found.message} ({found.hint[0].lower()}{found.hint[1:].rstrip('.')})")
    if evidence.linked is not None:
        raise _FailsError(
            f"the symbolic link {evidence.linked} leads in here, and its readers would lose what is removed (put the "
            "file or directory itself in the place of the link, then run the command again)"
        )
    return "all that readers look at are files and directories of the table itself"


def _current_lists(seen: Survey, evidence: Evidence) -> str:
    """Lists that do not show a compaction whose inputs are gone say nothing about what is left."""
    if evidence.too_old is not None:
        raise _FailsError(f"{evidence.too_old} (give newer lists)")
    return "nothing here shows that the lists are too old"


def _simulation(seen: Survey, evidence: Evidence) -> str:
    """Nobody who sees at least what the common snapshot shows opens anything else when the victims are gone."""
    victims = seen.chosen.victims
    if not victims:
        return "nothing goes"
    gone = {top for directory, _, _ in seen.entries if directory.name in victims for top in _tops(directory)}
    # Without a list, what carries a transaction is left alone (G2); here it counts as committed.
    common = Reader(seen.common.write_ids, seen.common.effective_txns)
    # The rules have decided for each id by itself, and a test compares them with all boundary readers: here it is
    # enough to give all undecided ids one fate. Each reader costs as much as judging the location.
    readers = boundary_readers(seen.listing, common, alone=0)
    missing = equivalent(seen.listing, seen.listing.without(gone), readers, seen.kind)
    if missing is not None:
        raise _FailsError(f"a reader by profile {missing.profile.value} would read something else; please report this")
    return "readers open the same directories with and without what goes"


def _no_doubts(seen: Survey, evidence: Evidence) -> str:
    if evidence.unread is not None:
        raise _FailsError(evidence.unread)
    if evidence.doubts:
        finding = evidence.doubts[0]
        more = f" (and {len(evidence.doubts) - 1} more)" if len(evidence.doubts) > 1 else ""
        raise _FailsError(f"{finding.code}: {finding.sentence.rstrip('.')}{more}. {finding.remedy}")
    return "nothing makes what readers see here doubtful"


def _rows_in_covers(seen: Survey, evidence: Evidence) -> str:
    if not seen.covers:
        return "nothing that goes relies on a cover"
    if evidence.rows is None:
        raise _FailsError("what goes has not been compared with what covers it")
    if evidence.rows.lost is not None:
        raise _FailsError(evidence.rows.lost)
    return evidence.rows.read


# All of them, in order.
GUARDS: dict[str, Callable[[Survey, Evidence], str]] = {
    "G1": _real_watermarks,
    "G2": _known_transactions,
    "G3": _nested_ranges,
    "G4": _complete_covers,
    "G5": _cleanup_allowed,
    "G6": _retention,
    "G7": _listed_again,
    "G8": _both_halves,
    "G9": _highest_write_id,
    "own_files": _own_files,
    "current_lists": _current_lists,
    "simulation": _simulation,
    "doubts": _no_doubts,
    "rows": _rows_in_covers,
}
