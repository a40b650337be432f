"""Which entries of one location no reader can reach: a reader's selection turned round, and made stricter.

A reader takes the newest base and the deltas beyond it; what it never takes, whatever it may see *in addition* to
the meet of all readers, may go. So an entry counts against another only when every reader sees it (bases whose ids
are settled, deltas none of whose ids is open), a cover has to contain what it covers, and whatever is not understood
is left where it is. Takes values and returns values: no clock, no storage; the guards are in `guards`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from acidctl.format.names import BaseDir, DeltaDir, DeltaKind
from acidctl.format.write_ids import ValidTxns, ValidWriteIds
from acidctl.state.entries import (
    Directory,
    Inventory,
    MarkerContent,
    aborted_delta,
    covered_by_base,
    covered_by_deltas,
    degenerate_delta,
    delete_delta_in_insert_only,
    judge_compacted,
    judge_originals,
    judge_overwrite,
    judge_visibility,
    same_ids_as_base,
    span,
)
from acidctl.state.resolve import ORIGINALS_NAME, EntryState, TableGuess, TableType
from acidctl.state.strict import delta_order


class Label(Enum):
    """KEEP: some reader needs it. DELETE: none can reach it. IGNORE: left alone, and shadows nothing."""

    KEEP = "keep"
    DELETE = "delete"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class Mark:
    """What becomes of an entry: a stable code, one sentence, and the entries that cause it."""

    label: Label
    reason_code: str
    reason: str
    because_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Meet:
    """What every live reader sees; `txns` None where nothing is known of transactions."""

    write_ids: ValidWriteIds
    txns: ValidTxns | None = None


@dataclass(frozen=True, slots=True)
class Classification:
    """Marks by entry name. `best` is the base that covers; `settled` are deltas that every reader judges alike.

    `hazy` are deltas that readers see differently (open ids, ids above the watermark); they cover nothing and stay.
    """

    marks: Mapping[str, Mark]
    best: Directory | None
    settled: tuple[Directory, ...]
    hazy: tuple[Directory, ...]

    @property
    def victims(self) -> tuple[str, ...]:
        """Names of the entries that may go."""
        return tuple(name for name, mark in self.marks.items() if mark.label is Label.DELETE)


def classify(inventory: Inventory, meet: Meet, kind: TableGuess, withheld: Collection[str] = ()) -> Classification:
    """Mark every base, every delta and the original files; `withheld` names those that neither go nor cover."""
    marks: dict[str, Mark] = {}
    bases = [base for base in inventory.bases if _admit_base(base, meet, kind, withheld, marks)]
    best = max(bases, key=lambda b: (base_write_id(b), _compacted(b, kind), b.visibility_txn_id or 0), default=None)
    for base in bases:
        marks[base.name] = _mark_base(base, best, kind)
    _keep_masks(inventory.bases, best, kind, marks)
    if inventory.group_files:
        marks[ORIGINALS_NAME] = _mark_originals(inventory, best, kind, withheld)
    settled: list[Directory] = []
    hazy: list[Directory] = []
    for delta in inventory.deltas:
        mark = _judge_delta(delta.delta, meet, kind)
        if mark is not None:
            marks[delta.name] = mark
            if mark.label is Label.DELETE and delta.name in withheld:
                marks[delta.name] = WITHHELD
            if mark.reason_code in ("write_open", "above_watermark"):
                hazy.append(delta)
            continue
        settled.append(delta)
    _mark_deltas([d for d in settled if d.name not in withheld], best, marks)
    for delta in settled:
        marks.setdefault(delta.name, WITHHELD)
    return Classification(marks, best, tuple(settled), tuple(hazy))


WITHHELD = Mark(Label.IGNORE, "withheld", "is neither removed nor counted as a cover")


def _admit_base(
    base: Directory, meet: Meet, kind: TableGuess, withheld: Collection[str], marks: dict[str, Mark]
) -> bool:
    """Whether every reader can use this base; a mark is set where not."""
    parsed = base.parsed
    assert isinstance(parsed, BaseDir)
    mark = _judge_visibility(parsed, meet) or _judge_base(base, parsed, meet.write_ids, kind)
    if base.name in withheld and (mark is None or mark.label is Label.DELETE):
        mark = WITHHELD
    if mark is not None:
        marks[base.name] = mark
    return mark is None


def _judge_visibility(parsed: BaseDir | DeltaDir, meet: Meet) -> Mark | None:
    txn = parsed.visibility_txn_id
    if txn is None:
        return None
    if meet.txns is None:
        return Mark(
            Label.IGNORE,
            "no_txn_list",
            f"made by compaction transaction {txn}, of which nothing is known without a transaction list",
        )
    unseen = judge_visibility(parsed, meet.txns)
    if unseen is None:
        return None
    # Only a list may call a compaction aborted: one that is merely not visible may still be running.
    label = Label.DELETE if unseen.state is EntryState.ABORTED else Label.IGNORE
    return Mark(label, unseen.reason_code, unseen.reason)


def _judge_base(base: Directory, parsed: BaseDir, ids: ValidWriteIds, kind: TableGuess) -> Mark | None:
    if base.is_first_compaction:
        return None
    if base.marker in (MarkerContent.BAD, MarkerContent.UNREAD) and parsed.visibility_txn_id is None:
        problem = base.marker_problem or "could not be read"
        return Mark(Label.IGNORE, "bad_marker", f"its _metadata_acid {problem}, so what made it cannot be told")
    if parsed.write_id < 0:
        return Mark(Label.IGNORE, "bad_name", "no write has a negative id")
    if _compacted(base, kind):
        verdict = judge_compacted(parsed, ids)
        if verdict is None and kind.acid_v1 and not base.is_compacted and ids.is_aborted(parsed.write_id):
            # Hive 1 and 2 mark nothing. Should a later Hive have written this, then its overwrite was aborted.
            return Mark(Label.IGNORE, "write_aborted", f"write id {parsed.write_id} was aborted")
        return None if verdict is None else Mark(Label.IGNORE, verdict.reason_code, verdict.reason)
    verdict = judge_overwrite(parsed, ids)
    if verdict is None:
        return None
    if verdict.state is not EntryState.ABORTED:
        return Mark(Label.IGNORE, verdict.reason_code, verdict.reason)
    if ids.lowest_open is not None and ids.lowest_open <= parsed.write_id:
        # HIVE-22754: Hive 4 reads an overwrite that is the lowest open id of its snapshot, committed or not.
        why = f"{verdict.reason}, but Hive 4 reads it for a reader whose lowest open id it is"
        return Mark(Label.IGNORE, "lowest_open", why)
    return Mark(Label.DELETE, verdict.reason_code, verdict.reason)


def _mark_base(base: Directory, best: Directory | None, kind: TableGuess) -> Mark:
    assert best is not None
    if base is best:
        return Mark(Label.KEEP, "base", "the newest base that every reader can use")
    if base_write_id(base) == base_write_id(best):
        if _compacted(base, kind) and _compacted(best, kind):
            return Mark(Label.KEEP, "tie", f"{best.name} is a compaction of the same writes, and readers take either")
        verdict = same_ids_as_base(best)
    else:
        verdict = covered_by_base("", best)
    return Mark(Label.DELETE, verdict.reason_code, verdict.reason, verdict.because_of)


def _keep_masks(bases: Iterable[Directory], best: Directory | None, kind: TableGuess, marks: dict[str, Mark]) -> None:
    """Keep aborted overwrites below a compacted base that some readers cannot use, where no base serves all of them.

    Hive 4 reports missing history when the *oldest* base is a compacted one; an aborted overwrite below it keeps
    readers that still find every delta from failing.
    """
    if best is not None or not any(_compacted(base, kind) for base in bases):
        return
    for base in bases:
        mark = marks[base.name]
        if mark.label is Label.DELETE and mark.reason_code == "write_aborted":
            why = f"{mark.reason}, but without it Hive 4 may refuse to read here (not enough history)"
            marks[base.name] = Mark(Label.KEEP, "masks_history", why)


def _mark_originals(inventory: Inventory, best: Directory | None, kind: TableGuess, withheld: Collection[str]) -> Mark:
    if kind.type is TableType.INSERT_ONLY:
        verdict = judge_originals(None, True)
        return Mark(Label.IGNORE, verdict.reason_code, verdict.reason)
    if best is None:
        verdict = judge_originals(None, False)
        return Mark(Label.KEEP, verdict.reason_code, verdict.reason)
    if any("/" in entry.name for entry in inventory.decided):
        return Mark(Label.IGNORE, "nested", "base or delta directories lie among them")
    if ORIGINALS_NAME in withheld:
        return WITHHELD
    verdict = judge_originals(best, False)
    return Mark(Label.DELETE, verdict.reason_code, verdict.reason, verdict.because_of)


def _judge_delta(delta: DeltaDir, meet: Meet, kind: TableGuess) -> Mark | None:
    """The mark of a delta that readers do not all see alike; None where every id is settled and one is committed."""
    low, high, ids = delta.min_write_id, delta.max_write_id, meet.write_ids
    if low > high:
        return Mark(Label.IGNORE, "bad_range", degenerate_delta(delta).reason)
    if kind.type is TableType.INSERT_ONLY and delta.kind is DeltaKind.DELETE:
        verdict = delete_delta_in_insert_only()
        return Mark(Label.IGNORE, verdict.reason_code, verdict.reason)
    unseen = _judge_visibility(delta, meet)
    if unseen is not None:
        return unseen
    aborted = len(ids.aborted_in(low, high))
    if high <= ids.high_watermark and aborted == high - low + 1:
        verdict = aborted_delta(delta)
        return Mark(Label.DELETE, verdict.reason_code, verdict.reason)
    if high > ids.high_watermark:
        rest = f"{high} is" if low == high else f"it reaches to {high},"
        return Mark(
            Label.IGNORE, "above_watermark", f"{rest} above {ids.high_watermark}, the last write id of this snapshot"
        )
    open_ids = ids.open_in(low, high)
    if open_ids or _may_be_open(ids, low, high):
        first = open_ids[0] if open_ids else ids.min_open
        return Mark(Label.IGNORE, "write_open", f"write id {first} is still open for some reader")
    return None


def _may_be_open(ids: ValidWriteIds, low: int, high: int) -> bool:
    """Whether the list names a lowest open id here that it does not enumerate."""
    lowest = ids.min_open
    return lowest is not None and low <= lowest <= high and not ids.is_aborted(lowest)


def _mark_deltas(deltas: Iterable[Directory], best: Directory | None, marks: dict[str, Mark]) -> None:
    """Hive's walk over deltas (findBestWorkingDeltas) with a stricter notion of what is covered.

    The order decides, as in `deltas`: the widest first, so that a cover comes before what it covers.
    """
    floor = base_write_id(best) if best is not None else 0
    current = max(floor, 0)
    cover: list[Directory] = []
    for candidate in sorted(deltas, key=delta_order):
        delta = candidate.delta
        if delta.max_write_id > current or _is_twin(delta, cover):
            marks[candidate.name] = Mark(Label.KEEP, "visible", f"readers need {span(delta.range)}")
            cover.append(candidate)
            current = max(current, delta.max_write_id)
            continue
        marks[candidate.name] = _mark_covered(delta, best, floor, cover)


def _mark_covered(delta: DeltaDir, best: Directory | None, floor: int, cover: list[Directory]) -> Mark:
    if best is not None and delta.max_write_id <= floor:
        verdict = covered_by_base("", best)
        return Mark(Label.DELETE, verdict.reason_code, verdict.reason, verdict.because_of)
    # Chosen deltas reach ever farther, so those that reach far enough are the last ones.
    far = takewhile(lambda c: c.delta.max_write_id >= delta.max_write_id, reversed(cover))
    wider = [c for c in far if contains(c.delta, delta)]
    if not wider:
        return Mark(Label.KEEP, "no_cover", f"readers pass over {span(delta.range)}, but no entry holds all of it")
    verdict = covered_by_deltas(sorted(c.name for c in wider), wider[-1].delta)
    return Mark(Label.DELETE, verdict.reason_code, verdict.reason, verdict.because_of)


def contains(cover: DeltaDir, delta: DeltaDir) -> bool:
    """Whether `cover` has the form of compactor output, and holds the range of `delta` without being its sibling."""
    return (
        cover.statement_id is None
        and cover.range.covers(delta.range)
        and (cover.range, cover.statement_id) != (delta.range, delta.statement_id)
    )


def _is_twin(delta: DeltaDir, cover: list[Directory]) -> bool:
    """Whether a chosen delta has the same range: the other kind, or another statement of the same write."""
    # Equal ranges stand together in the order, so only the last ones can match.
    for candidate in reversed(cover):
        other = candidate.delta
        if other.range != delta.range:
            return False
        if other.statement_id == delta.statement_id or (
            other.statement_id is not None and delta.statement_id is not None
        ):
            return True
    return False


def _compacted(base: Directory, kind: TableGuess) -> bool:
    """Whether a compaction made the base; in ACID v1 nothing else makes any."""
    return base.is_compacted or base.is_first_compaction or kind.acid_v1


def base_write_id(base: Directory) -> int:
    """The write id in a base's name."""
    assert isinstance(base.parsed, BaseDir)
    return base.parsed.write_id
