"""Profile strict: what is read by careful rules, where Hive's own depend on order or on luck.

Differs from Hive 4 on purpose: no `N <= minOpen` shortcut for bases (HIVE-22754 lets an uncommitted overwrite
through), missing history is an error whenever a compacted base had to be passed over, and of two compactions
of the same range the later one counts. Nothing raises for odd names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from acidctl.format.names import METADATA_MARKER, VERSION_MARKER, BaseDir, DeltaDir, DeltaKind
from acidctl.format.write_ids import RangeAnswer, ValidTxns, ValidWriteIds
from acidctl.state import verdicts
from acidctl.state.deltas import Choice, choose_deltas, delta_of, lonely_deltas, overlap_notes
from acidctl.state.entries import Candidate, EntryState, HistoryGap, MarkerContent, Selection, Stock, Verdict

MARKERS = (METADATA_MARKER, VERSION_MARKER)


@dataclass(slots=True)
class _Draft:
    """The selection while it is made."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)
    uncompacted_aborts: bool = False
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def select_strict(stock: Stock, ids: ValidWriteIds, txns: ValidTxns, *, insert_only: bool, acid_v1: bool) -> Selection:
    """Decide about every base and delta of a stock."""
    draft = _Draft()
    bases = _as_hive2(stock.bases, ids, draft) if acid_v1 else stock.bases
    base, gap = _choose_base(bases, ids, txns, draft)
    draft.notes += _replaced_notes(stock.bases, draft)
    admitted = _admit(stock.deltas, ids, txns, insert_only, draft)
    admitted = _drop_earlier_compactions(admitted, draft)
    floor = base.parsed.write_id if base is not None and isinstance(base.parsed, BaseDir) else 0
    choices = choose_deltas(admitted, floor, ids)
    for choice in choices:
        draft.verdicts[choice.candidate.name] = verdict_of(choice, base, ids, insert_only=insert_only)
    if insert_only and base is not None:
        # The kind may be guessed wrong; what lies below the base holds no rows that anybody misses either way.
        for candidate in stock.deltas:
            delta = delta_of(candidate)
            if delta.kind is DeltaKind.DELETE and delta.min_write_id <= delta.max_write_id <= floor:
                draft.verdicts[candidate.name] = verdicts.covered_by_base("", base)
    draft.doubts += overlap_notes(choices, base)
    lonely = lonely_deltas(choices)
    if insert_only:
        draft.notes += _whole_notes(choices, ids)
    return Selection(
        base=None if base is None else base.name,
        deltas=tuple(choice.candidate.name for choice in choices if choice.taken),
        verdicts=draft.verdicts,
        aborted_write_ids=tuple(sorted(draft.aborted)),
        uncompacted_aborts=draft.uncompacted_aborts,
        notes=(*draft.notes, *draft.doubts, *lonely.values()),
        doubts=tuple(draft.doubts),
        lonely=lonely,
        history_gap=gap,
    )


def verdict_of(choice: Choice, base: Candidate | None, ids: ValidWriteIds, *, insert_only: bool = False) -> Verdict:
    """The verdict that follows from a choice among admitted deltas."""
    delta = delta_of(choice.candidate)
    if choice.taken:
        return verdicts.live_delta(delta, ids, insert_only)
    cover = [candidate.name for candidate in choice.cover]
    if not choice.covered:
        by = cover or ([base.name] if base is not None else [])
        return verdicts.unseen_tail(delta, choice.covered_to, by, ids)
    if choice.cover:
        return verdicts.covered_by_deltas(delta, cover, delta_of(choice.cover[0]))
    return verdicts.nothing_to_cover(delta) if base is None else verdicts.covered_by_base("", base)


def _as_hive2(bases: Sequence[Candidate], ids: ValidWriteIds, draft: _Draft) -> list[Candidate]:
    """Bases of Hive 1 or 2 as what they are: compactions, although nothing marks them so."""
    found = []
    for base in bases:
        if base.is_compacted or not isinstance(base.parsed, BaseDir):
            found.append(base)
            continue
        found.append(replace(base, marker=MarkerContent.COMPACTED))
        if (verdicts.judge_compacted(base.parsed, ids) is None) != ids.is_valid(base.parsed.write_id):
            draft.notes.append(
                f"{base.name} is taken for a compaction by Hive 1 or 2, which know no overwrites; nothing here "
                "was marked by a later Hive."
            )
    return found


def _choose_base(
    bases: Sequence[Candidate], ids: ValidWriteIds, txns: ValidTxns, draft: _Draft
) -> tuple[Candidate | None, HistoryGap | None]:
    usable: list[tuple[Candidate, bool]] = []
    passed_over: list[Candidate] = []
    for base in bases:
        unseen = verdicts.judge_visibility(base.parsed, txns)
        if unseen is not None:
            draft.verdicts[base.name] = unseen
            continue
        verdict, compacted = _judge_base(base, ids, draft)
        if verdict is None:
            usable.append((base, compacted))
            continue
        draft.verdicts[base.name] = verdict
        if verdict.state is EntryState.ABORTED:
            draft.aborted.add(_id(base))
        if compacted:
            passed_over.append(base)
    if not usable:
        oldest = min(passed_over, key=_id, default=None)
        return None, None if oldest is None else history_gap(oldest, ids)
    # Among equals a compaction is preferred to the overwrite it compacted (HIVE-25777), the later one first.
    best, compacted = max(usable, key=lambda u: (_id(u[0]), u[1], u[0].parsed.visibility_txn_id or 0))
    for base, _ in usable:
        equal = _id(base) == _id(best)
        draft.verdicts[base.name] = verdicts.same_ids_as_base(best) if equal else verdicts.covered_by_base("", best)
    draft.verdicts[best.name] = verdicts.live_base(best, compacted)
    newer = [base.name for base in passed_over if _id(base) > _id(best)]
    if newer:
        draft.notes.append(
            f"{best.name} is read because this reader cannot use {verdicts.join_names(newer)}; deltas between "
            "them may have been cleaned already, which no listing can tell."
        )
    if not any(file.name in MARKERS or file.name[:1] not in ("_", ".") for file in best.files):
        draft.notes.append(f"{best.name} holds no file that readers see; it is read as an empty base.")
    return best, None


def _replaced_notes(bases: Sequence[Candidate], draft: _Draft) -> list[str]:
    """What a later overwrite replaced is a cleaner's to remove; a snapshot from before may miss rows."""
    later = [base.name for base in bases if draft.verdicts[base.name].state is EntryState.ABOVE_WATERMARK]
    if not later:
        return []
    return [
        f"{verdicts.join_names(later)} overwrote later what this snapshot reads; parts of it may have been cleaned "
        "already, which no listing can tell."
    ]


def _judge_base(base: Candidate, ids: ValidWriteIds, draft: _Draft) -> tuple[Verdict | None, bool]:
    """The verdict on a visible base (None if usable), and whether it counts as compacted."""
    parsed = base.parsed
    assert isinstance(parsed, BaseDir)
    if base.is_first_compaction:
        return None, True
    if base.marker is MarkerContent.BAD and parsed.visibility_txn_id is None:
        compacted = verdicts.judge_compacted(parsed, ids)
        overwrite = verdicts.judge_overwrite(parsed, ids)
        draft.notes.append(f"{base.name}/_metadata_acid {base.marker_problem}.")
        # Where both readings allow it, what the marker should have said does not matter.
        return (None if compacted is None and overwrite is None else verdicts.bad_marker(base)), True
    if base.marker is MarkerContent.UNREAD and parsed.visibility_txn_id is None:
        draft.notes.append(verdicts.unread_marker_note(base, base.guessed_compacted))
    if base.is_compacted:
        return verdicts.judge_compacted(parsed, ids), True
    return verdicts.judge_overwrite(parsed, ids), False


def history_gap(oldest: Candidate, ids: ValidWriteIds) -> HistoryGap:
    """The gap that shows where `oldest` is the oldest compacted base and none can be used."""
    return HistoryGap(
        base=oldest.name,
        write_id=_id(oldest),
        high_watermark=ids.high_watermark,
        first_exception=ids.exceptions[0] if ids.exceptions else None,
        lowest_open=ids.lowest_open,
    )


def _admit(
    deltas: Sequence[Candidate], ids: ValidWriteIds, txns: ValidTxns, insert_only: bool, draft: _Draft
) -> list[Candidate]:
    """Deltas with anything visible in them; the others get their verdict here."""
    admitted = []
    for candidate in deltas:
        delta = delta_of(candidate)
        verdict = _judge_delta(delta, ids, txns, insert_only)
        if verdict is None:
            admitted.append(candidate)
        else:
            draft.verdicts[candidate.name] = verdict
            if verdict.state in (EntryState.UNRECOGNISED, EntryState.NOT_VISIBLE):
                continue
        aborted = ids.is_range_aborted(delta.min_write_id, delta.max_write_id)
        if aborted is RangeAnswer.SOME:
            draft.uncompacted_aborts = True
        elif aborted is RangeAnswer.ALL and delta.visibility_txn_id is None:
            draft.aborted.update(ids.aborted_in(delta.min_write_id, delta.max_write_id))
    return admitted


def _judge_delta(delta: DeltaDir, ids: ValidWriteIds, txns: ValidTxns, insert_only: bool) -> Verdict | None:
    low, high = delta.min_write_id, delta.max_write_id
    if low > high:
        return verdicts.degenerate_delta(delta)
    if insert_only and delta.kind is DeltaKind.DELETE:
        return verdicts.delete_delta_in_insert_only()
    unseen = verdicts.judge_visibility(delta, txns)
    if unseen is not None:
        return unseen
    if ids.is_range_aborted(low, high) is RangeAnswer.ALL:
        return verdicts.aborted_delta(delta)
    if ids.is_range_valid(low, high) is RangeAnswer.NONE:
        return verdicts.unseen_delta(delta, ids)
    return None


def _drop_earlier_compactions(admitted: Sequence[Candidate], draft: _Draft) -> list[Candidate]:
    """Of several directories of one kind and exactly one range keep the latest compaction.

    Hive 4 reads them all and returns their rows more than once. Equal visibility (none, say) is no order, and
    then all are kept: a row too many is seen, a row too few is not.
    """
    groups: dict[tuple[DeltaKind, int, int, int | None], list[Candidate]] = defaultdict(list)
    for candidate in admitted:
        delta = delta_of(candidate)
        groups[delta.kind, delta.min_write_id, delta.max_write_id, delta.statement_id].append(candidate)
    dropped: set[str] = set()
    for group in groups.values():
        if len(group) < 2:
            continue
        best = max(group, key=lambda c: c.parsed.visibility_txn_id or 0)
        rest = [c for c in group if (c.parsed.visibility_txn_id or 0) < (best.parsed.visibility_txn_id or 0)]
        for candidate in rest:
            draft.verdicts[candidate.name] = verdicts.same_range(delta_of(candidate), best.name)
            dropped.add(candidate.name)
            draft.notes.append(
                f"{candidate.name} and {best.name} hold the same range; the later compaction is read, while "
                "Hive 4 reads both and returns their rows twice."
            )
        if len(group) - len(rest) > 1:
            names = [c.name for c in group if c.name not in dropped]
            draft.doubts.append(f"{verdicts.join_names(names)} hold the same range; all are read, as Hive does.")
    return [candidate for candidate in admitted if candidate.name not in dropped]


def _whole_notes(choices: Sequence[Choice], ids: ValidWriteIds) -> list[str]:
    """Insert-only files carry no write ids per row: a directory is read as a whole or not at all."""
    notes = []
    for choice in choices:
        delta = delta_of(choice.candidate)
        if choice.taken and ids.open_in(delta.min_write_id, delta.max_write_id):
            notes.append(
                f"{choice.candidate.name} is read whole although some of its write ids are open for this "
                "reader: rows of an insert-only table do not say which write made them."
            )
    return notes


def _id(base: Candidate) -> int:
    assert isinstance(base.parsed, BaseDir)
    return base.parsed.write_id
