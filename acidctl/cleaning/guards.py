"""The conditions under which anything at a location may go; where one fails, nothing goes.

G1 to G9 are those of Hive's own cleaner and of what it cannot do for us; the last one, `simulation`, reads the location
twice by the rules of both profiles, with and without what would go, and wants the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from acidctl.cleaning.candidates import Survey
from acidctl.cleaning.leftovers import half_published
from acidctl.cleaning.rules import Label
from acidctl.errors import AcidctlError
from acidctl.format.listing import Listing, obstacle
from acidctl.format.names import BaseDir, DeltaDir, first_crossing, same_table
from acidctl.format.write_ids import MAX_ID, Reader, ValidTxns
from acidctl.state.resolve import ORIGINALS_NAME, AcidState, Profile, resolve
from acidctl.state.strict import delta_order

GUARDS = ("G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "own_files", "simulation")

# Hive 4 renames what a non-blocking DROP has given up (HIVE-25688).
_DROPPED = re.compile(r"\.v[0-9]+$")


@dataclass(frozen=True, slots=True)
class GuardResult:
    """Whether a guard holds, and why (not)."""

    guard: str
    holds: bool
    why: str


@dataclass(frozen=True, slots=True)
class CoverFacts:
    """What opening a cover told: `problem` is None when it is complete, `rows` None when nobody counted.

    `rows_below` and `deletes_below` are the rows and deletes of what it covers, counted only where it has none.
    """

    problem: str | None = None
    rows: int | None = None
    rows_below: int | None = None
    deletes_below: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What files told. `empty` says of deltas by name whether readers see any event in them.

    `linked` is a symbolic link elsewhere in the table by which something here is read. `changed` is what differs from
    an earlier plan, when this one is made right before the deletion.
    """

    covers: Mapping[str, CoverFacts] = field(default_factory=dict)
    empty: Mapping[str, bool] = field(default_factory=dict)
    changed: str | None = None
    again: bool = False
    linked: str | None = None


def judge(seen: Survey, evidence: Evidence) -> tuple[GuardResult, ...]:
    """Every guard, in order."""
    found = (
        _g1(seen),
        _g2(seen),
        _g3(seen),
        _g4(seen, evidence),
        _g5(seen),
        _g6(seen),
        _g7(evidence),
        _g8(seen, evidence),
        _g9(seen),
        _own_files(seen, evidence),
        _simulation(seen),
    )
    return tuple(
        GuardResult(guard, problem is None, problem or why) for guard, (problem, why) in zip(GUARDS, found, strict=True)
    )


# What fails, or None; and what to say when nothing does.
_Answer = tuple[str | None, str]


def _g1(seen: Survey) -> _Answer:
    ids, txns = seen.meet.write_ids, seen.meet.txns
    if ids.high_watermark == MAX_ID:
        return "the write-id list has no real high watermark, so that it excludes nothing", ""
    if txns is not None and txns.high_watermark == MAX_ID:
        return "the transaction list has no real high watermark, so that it excludes nothing", ""
    table = seen.rules.table
    if table is not None and ids.table is not None and not same_table(ids.table, table):
        return f"the write-id list is of {ids.table}, and this table is {table}", ""
    of = "" if ids.table is None else f" of {ids.table}"
    return None, f"the write ids{of} end at {ids.high_watermark}"


def _g2(seen: Survey) -> _Answer:
    named = [c.name for c in (*seen.inventory.bases, *seen.inventory.deltas) if c.visibility_txn_id is not None]
    if named and seen.meet.txns is None:
        return f"{named[0]} is judged by transactions, and no transaction list was given", ""
    return None, "transactions are known" if named else "no name carries a transaction"


def _g3(seen: Survey) -> _Answer:
    """Ranges are nested or disjoint, and none straddles the base."""
    settled = sorted(seen.sight.settled, key=delta_order)
    best = seen.sight.best
    if best is not None and isinstance(best.parsed, BaseDir):
        for candidate in settled:
            if candidate.delta.range.crosses(best.parsed.range):
                return f"{candidate.name} begins below {best.name} and ends above it", ""
    crossing = first_crossing((candidate.delta.range, candidate) for candidate in settled)
    if crossing is not None:
        return f"{crossing[0].name} and {crossing[1].name} overlap, and neither holds the other", ""
    for cover in seen.covers:
        if not isinstance(cover.parsed, DeltaDir):
            continue
        for candidate in seen.sight.hazy:
            if cover.parsed.range.crosses(candidate.delta.range):
                return f"{candidate.name}, which is not settled, overlaps {cover.name} in part", ""
    return None, "ranges of write ids are nested or disjoint"


def _own_files(seen: Survey, evidence: Evidence) -> _Answer:
    """What lies behind a link is no cover to rely on and nothing to remove, and what is no file can be neither."""
    found = obstacle(seen.listing)
    if found is None and evidence.linked is not None:
        return (
            f"the symbolic link {evidence.linked} leads in here, and its readers would lose what is removed (put the "
            "file or directory itself in the place of the link, then run the command again)"
        ), ""
    if found is None:
        return None, "all that readers look at are files and directories of the table itself"
    return f"{found.message} ({found.hint[0].lower()}{found.hint[1:].rstrip('.')})", ""


def _g4(seen: Survey, evidence: Evidence) -> _Answer:
    for cover in seen.covers:
        facts = evidence.covers.get(cover.name)
        if facts is None:
            return f"{cover.name} has not been looked into", ""
        if facts.problem is not None:
            return f"{cover.name} is not complete: {facts.problem}", ""
        unmarked = isinstance(cover.parsed, BaseDir) and cover.is_first_compaction and not cover.is_compacted
        if unmarked and not seen.kind.acid_v1:
            return f"{cover.name} carries no mark of a compaction (_metadata_acid)", ""
        below, deletes = facts.rows_below, facts.deletes_below
        if facts.rows == 0 and below is not None and deletes is not None and below > deletes:
            return (
                f"{cover.name} holds no row at all, but what it covers holds {below} and only {deletes} deletes; "
                "Hive 4.0 is known to write such bases by mistake",
                "",
            )
    count = len(seen.covers)
    return None, f"{count} covering {'directory is' if count == 1 else 'directories are'} complete"


def _g5(seen: Survey) -> _Answer:
    if seen.rules.no_cleanup:
        return "the table says no_cleanup", ""
    dropped = [part for part in seen.listing.root.split("/") if _DROPPED.search(part)]
    if dropped:
        return f"{dropped[-1]} is being dropped by Hive", ""
    return None, (
        "nothing says no_cleanup (no DDL was given)"
        if seen.rules.no_cleanup is None
        else "the DDL does not say no_cleanup"
    )


def _g6(seen: Survey) -> _Answer:
    if seen.rules.older_than is None:
        return None, "--unsafe-no-retention: ages are not looked at"
    held = sum(
        mark.label is Label.DELETE and seen.sight.marks[name].label is not Label.DELETE
        for name, mark in seen.bare.marks.items()
    )
    return None, f"{held} younger than the retention, or without an older cover, {'stays' if held == 1 else 'stay'}"


def _g7(evidence: Evidence) -> _Answer:
    if evidence.changed is not None:
        return evidence.changed, ""
    when = "listed once more right before" if evidence.again else "listed after the lists of ids were given"
    return None, when


def _g8(seen: Survey, evidence: Evidence) -> _Answer:
    halves = sorted(half_published(seen.listing))
    if halves:
        return f"a compaction is half published ({halves[0]}); `acidctl compact` completes or undoes it", ""
    for candidate in seen.one_sided:
        if not evidence.empty.get(candidate.name, False):
            what = "inserts" if candidate.kind.value == "delta" else "deletes"
            return f"the compaction that covers {candidate.name} has no half that holds its {what}", ""
    return None, "both halves of every covering minor compaction are there, or legitimately missing"


def _g9(seen: Survey) -> _Answer:
    highest = seen.rules.highest_write_id
    return None, "no highest write id was given" if highest is None else f"write ids are judged up to {highest}"


def _simulation(seen: Survey) -> _Answer:
    """The reader of the meet opens the same with and without the victims, by both profiles."""
    victims = seen.sight.victims
    if not victims:
        return None, "nothing goes"
    rest = without(seen.listing, victims_paths(seen, victims))
    for profile in Profile:
        if _opened(seen, seen.listing, profile) != _opened(seen, rest, profile):
            return f"a reader by profile {profile.value} would read something else; please report this", ""
    return None, "readers open the same directories with and without what goes"


def victims_paths(seen: Survey, victims: Collection[str]) -> frozenset[str]:
    """Top-level names of the victims."""
    tops = {info.path.partition("/")[0] for info in seen.inventory.group_files} if ORIGINALS_NAME in victims else set()
    return frozenset(tops | (set(victims) - {ORIGINALS_NAME}))


def without(listing: Listing, tops: Collection[str]) -> Listing:
    """The listing as if these top-level entries were gone."""

    def stays(path: str) -> bool:
        return path.partition("/")[0] not in tops

    return Listing(
        listing.root,
        tuple(info for info in listing.files if stays(info.path)),
        tuple(path for path in listing.directories if stays(path)),
        {path: content for path, content in listing.markers.items() if stays(path)},
    )


def opened(state: AcidState) -> tuple[object, ...]:
    """What a reader of a state opens, and whether it fails."""
    base = None if state.base is None else state.base.name
    return base, [d.name for d in state.deltas], [f.path for f in state.originals], state.history_gap is not None


def _opened(seen: Survey, listing: Listing, profile: Profile) -> object:
    txns = seen.meet.txns or ValidTxns.everything()
    try:
        state = resolve(
            listing, Reader(seen.meet.write_ids, txns, profile), table_type=seen.kind, raise_on_history=False
        )
    except AcidctlError as error:
        return type(error)
    return opened(state)


def failing(results: tuple[GuardResult, ...]) -> Iterator[str]:
    """Names of the guards that do not hold."""
    return (result.guard for result in results if not result.holds)
