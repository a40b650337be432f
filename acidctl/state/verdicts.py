"""Verdicts in words: for every decision about an entry its state, a stable code and one sentence.

The sentences are read by an operator at night: they name the ids that decided and the directory that is to
blame.
"""

from __future__ import annotations

from collections.abc import Sequence

from acidctl.format.names import BaseDir, DeltaDir, WriteIdRange
from acidctl.format.write_ids import ValidTxns, ValidWriteIds, describe_ids
from acidctl.state.entries import Candidate, EntryState, Verdict


def span(delta: DeltaDir) -> str:
    """`write id 5` or `write ids 5..9`."""
    return f"{'write id' if delta.min_write_id == delta.max_write_id else 'write ids'} {delta.range}"


def judge_visibility(parsed: BaseDir | DeltaDir, txns: ValidTxns) -> Verdict | None:
    """The verdict on compactor output whose transaction this reader does not see, else None."""
    txn = parsed.visibility_txn_id
    if txn is None or txns.is_valid(txn):
        return None
    made = f"made by compaction transaction {txn}, which"
    if txns.is_aborted(txn):
        return Verdict(EntryState.ABORTED, "compaction_aborted", f"{made} was aborted")
    if txn > txns.high_watermark:
        limit = txns.high_watermark
        return Verdict(
            EntryState.NOT_VISIBLE,
            "compaction_above_watermark",
            f"{made} is above the last transaction this reader sees, {limit}",
        )
    return Verdict(EntryState.NOT_VISIBLE, "compaction_open", f"{made} is not committed for this reader (still open)")


def judge_overwrite(base: BaseDir, ids: ValidWriteIds) -> Verdict | None:
    """The verdict on a base written by INSERT OVERWRITE, LOAD or TRUNCATE: only its own write id matters."""
    if ids.is_valid(base.write_id):
        return None
    if ids.is_aborted(base.write_id):
        return Verdict(EntryState.ABORTED, "write_aborted", f"write id {base.write_id} was aborted")
    if base.write_id > ids.high_watermark:
        return Verdict(
            EntryState.ABOVE_WATERMARK,
            "above_watermark",
            f"write id {base.write_id} is above this reader's high watermark {ids.high_watermark}",
        )
    return Verdict(EntryState.OPEN, "write_open", f"write id {base.write_id} is still open for this reader")


def judge_compacted(base: BaseDir, ids: ValidWriteIds) -> Verdict | None:
    """The verdict on a compacted base: nothing it holds may be open or unseen; aborted ids do not matter.

    Uses the lowest id that may be open by either account of the list, field or enumeration.
    """
    if base.write_id > ids.high_watermark:
        return Verdict(
            EntryState.UNUSABLE,
            "base_above_watermark",
            f"it holds write ids up to {base.write_id}, and this reader sees them only up to {ids.high_watermark}",
        )
    lowest = ids.lowest_open
    if lowest is not None and base.write_id >= lowest:
        return Verdict(
            EntryState.UNUSABLE,
            "base_holds_open_ids",
            f"it holds write ids up to {base.write_id}, and write id {lowest} is still open for this reader",
        )
    return None


def aborted_base(base: BaseDir) -> Verdict:
    """The verdict on an overwrite whose id the list calls aborted although it is valid otherwise."""
    return Verdict(EntryState.ABORTED, "write_aborted", f"write id {base.write_id} was aborted")


def unusable_base(base: BaseDir) -> Verdict:
    """The verdict on a base that only Hive's reading of the list rules out."""
    return Verdict(
        EntryState.UNUSABLE,
        "base_unusable",
        f"Hive 4 does not use a base up to {base.write_id} with this list",
    )


def unseen_delta(delta: DeltaDir, ids: ValidWriteIds) -> Verdict:
    """The verdict on a delta none of whose write ids is valid."""
    return _unseen(delta.min_write_id, delta.max_write_id, ids, "")


def unseen_tail(delta: DeltaDir, covered_to: int, by: Sequence[str], ids: ValidWriteIds) -> Verdict:
    """The verdict on a delta of which only a covered beginning is valid, and nothing beyond `covered_to`."""
    cover = f"its write ids up to {covered_to} are covered by {join_names(by)}, and of the rest " if by else ""
    verdict = _unseen(max(covered_to + 1, delta.min_write_id), delta.max_write_id, ids, cover)
    return Verdict(verdict.state, "rest_" + verdict.reason_code, verdict.reason, tuple(by))


def aborted_delta(delta: DeltaDir) -> Verdict:
    """The verdict on a delta that holds nothing but aborted writes."""
    was = "was" if delta.min_write_id == delta.max_write_id else "were all"
    return Verdict(EntryState.ABORTED, "write_aborted", f"{span(delta)} {was} aborted")


def degenerate_delta(delta: DeltaDir) -> Verdict:
    """The verdict on a name whose range ends before it begins."""
    return Verdict(
        EntryState.UNRECOGNISED,
        "bad_range",
        f"its first write id {delta.min_write_id} is above its last {delta.max_write_id}",
    )


def bad_marker(base: Candidate) -> Verdict:
    """The verdict on a base whose marker leaves open whether it may be read."""
    return Verdict(
        EntryState.UNRECOGNISED,
        "bad_marker",
        f"its _metadata_acid {base.marker_problem}, so whether this reader may use it cannot be told",
    )


def covered_by_base(what: str, base: Candidate) -> Verdict:
    """The verdict on whatever a base holds already."""
    assert isinstance(base.parsed, BaseDir)
    if base.is_first_compaction:
        does = "holds all original files"
    elif base.is_compacted:
        does = f"holds all writes up to {base.parsed.write_id}"
    else:
        does = f"holds or replaced all writes up to {base.parsed.write_id}"
    return Verdict(EntryState.OBSOLETE, f"{what}covered_by_base", f"covered by {base.name}, which {does}", (base.name,))


def same_ids_as_base(base: Candidate) -> Verdict:
    """The verdict on a base beside a preferred one of the same write id."""
    return Verdict(
        EntryState.OBSOLETE,
        "same_ids_as_base",
        f"{base.name} holds the same writes and is preferred",
        (base.name,),
    )


def covered_by_deltas(delta: DeltaDir, names: Sequence[str], cover: DeltaDir) -> Verdict:
    """The verdict on a delta inside the range of wider ones."""
    holds = "hold" if len(names) > 1 else "holds"
    return Verdict(
        EntryState.OBSOLETE,
        "covered_by_delta",
        f"covered by {join_names(names)}, which {holds} {span(cover)}",
        tuple(names),
    )


def same_range(delta: DeltaDir, kept: str) -> Verdict:
    """The verdict on an earlier compaction of exactly the same range and kind."""
    return Verdict(EntryState.OBSOLETE, "same_range", f"{kept} holds the same {span(delta)}, compacted later", (kept,))


def nothing_to_cover(delta: DeltaDir) -> Verdict:
    """The verdict on a delta below the first write id."""
    return Verdict(EntryState.OBSOLETE, "below_first_write_id", f"{span(delta)} is never read: writes begin at 1")


def live_base(base: Candidate, compacted: bool) -> Verdict:
    """Why this base is read."""
    assert isinstance(base.parsed, BaseDir)
    if base.is_first_compaction:
        text = "holds the original files as compacted before the first write"
    elif compacted:
        text = f"the newest base this reader can use: it holds all writes up to {base.parsed.write_id}"
    elif not any(file.size and file.path.rpartition("/")[2][:1] not in ("_", ".") for file in base.files):
        text = f"write id {base.parsed.write_id} emptied the table or overwrote it with nothing"
    else:
        text = f"write id {base.parsed.write_id} overwrote everything before it"
    return Verdict(EntryState.LIVE, "base", text)


def live_delta(delta: DeltaDir, ids: ValidWriteIds, insert_only: bool) -> Verdict:
    """Why this delta is read, and which of its ids are left out row by row.

    Rows of an insert-only table carry no write id, so there a directory is read whole or not at all.
    """
    low, high = delta.min_write_id, delta.max_write_id
    if low > high or ids.covers(low, high):
        verb = "is" if low == high else "are"
        return Verdict(EntryState.LIVE, "visible", f"{span(delta)} {verb} visible")
    return Verdict(
        EntryState.LIVE,
        "partly_visible",
        f"{span(delta)} are visible except {_invalid(low, high, ids)}, "
        + ("but the directory is read whole" if insert_only else "whose rows are left out"),
    )


def live_originals() -> Verdict:
    """Why original files are read."""
    return Verdict(EntryState.LIVE, "originals", "files from before the table was ACID; no base holds their rows")


def originals_of_insert_only() -> Verdict:
    """The verdict on plain files in an insert-only table."""
    return Verdict(
        EntryState.UNUSABLE,
        "originals_in_insert_only",
        "Hive does not read plain files of an insert-only table (hive.mm.allow.originals is off)",
    )


def delete_delta_in_insert_only() -> Verdict:
    """The verdict on a delete delta in an insert-only table."""
    return Verdict(EntryState.UNRECOGNISED, "delete_delta_in_insert_only", "an insert-only table has no delete deltas")


def unread_marker_note(base: Candidate, compacted: bool) -> str:
    """The note on a marker whose content nobody has read."""
    taken = "a compaction" if compacted else "a truncation"
    return f"The content of {base.name}/_metadata_acid is not known; it is taken for the mark of {taken}."


def join_names(names: Sequence[str]) -> str:
    """Names for a sentence."""
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def _unseen(low: int, high: int, ids: ValidWriteIds, before: str) -> Verdict:
    limit = ids.high_watermark
    # A name may end before it begins (`delta_40_4`), and Hive takes it so.
    ids_text = f"{'write id' if low == high else 'write ids'} {WriteIdRange(low, high)}"
    verb = "is" if low == high else "are"
    if low > limit:
        return Verdict(
            EntryState.ABOVE_WATERMARK,
            "above_watermark",
            f"{before}{ids_text} {verb} above this reader's high watermark {limit}",
        )
    open_ids = ids.open_in(low, min(high, limit))
    if open_ids and len(open_ids) == high - low + 1:
        return Verdict(EntryState.OPEN, "write_open", f"{before}{ids_text} {verb} still open for this reader")
    state, code = (EntryState.OPEN, "write_open") if open_ids else (EntryState.ABOVE_WATERMARK, "above_watermark")
    if not open_ids and high <= limit:
        state, code = EntryState.ABORTED, "write_aborted"
    return Verdict(state, code, f"{before}no id is visible: {_invalid(low, high, ids)}")


def _invalid(low: int, high: int, ids: ValidWriteIds) -> str:
    """`4 (aborted), 6..7 (open), 11..12 (above the high watermark)`."""
    parts = []
    limit = ids.high_watermark
    aborted = ids.aborted_in(low, min(high, limit))
    open_ids = ids.open_in(low, min(high, limit))
    if aborted:
        parts.append(f"{describe_ids(aborted)} (aborted)")
    if open_ids:
        parts.append(f"{describe_ids(open_ids)} (open)")
    if high > limit:
        parts.append(f"{WriteIdRange(max(low, limit + 1), high)} (above the high watermark)")
    return ", ".join(parts)
