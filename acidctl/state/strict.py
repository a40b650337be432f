"""Profile strict: what is read by careful rules, where Hive's own depend on order or on luck.

Differs from Hive 4 on purpose: no `N <= minOpen` shortcut for bases (HIVE-22754 lets an uncommitted overwrite
through), missing history is an error whenever a compacted base had to be passed over, and of two compactions
of the same range the later one counts. No name raises an error.

Both profiles choose deltas by the same walk (findBestWorkingDeltas). The order of its sort decides everything: lowest
first id, then the WIDEST, then the statement, so that a compacted delta comes before what it covers:

    delta_1_5_v10  delta_1_1_0000  delta_5_5_0000  delta_6_6_0000
    taken          covered         covered         taken

Changing it makes a reader skip data or read it twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from acidctl.format.names import (
    MIN_LONG,
    DeltaDir,
    DeltaKind,
    WriteIdRange,
    is_marker,
    path_order_key,
)
from acidctl.format.write_ids import RangeAnswer, ValidTxns, ValidWriteIds
from acidctl.state.entries import (
    Directory,
    EntryState,
    HistoryGap,
    Inventory,
    MarkerContent,
    Verdict,
    aborted_delta,
    bad_marker,
    covered_by_base,
    covered_by_deltas,
    degenerate_delta,
    delete_delta_in_insert_only,
    join_names,
    judge_compacted,
    judge_overwrite,
    judge_visibility,
    live_base,
    live_delta,
    nothing_to_cover,
    same_ids_as_base,
    same_range,
    unseen_delta,
    unseen_tail,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """What became of one admitted delta.

    `covered` is True for one that lies inside what is read already; neither taken nor covered is one whose rest is not
    visible. `cover` are the deltas it was measured against, empty for the base; `covered_to` is how far those reach.
    """

    directory: Directory
    taken: bool
    covered: bool
    cover: tuple[Directory, ...]
    covered_to: int

    def verdict(self, base: Directory | None, ids: ValidWriteIds, *, insert_only: bool = False) -> Verdict:
        """The verdict that follows."""
        delta = self.directory.delta
        if self.taken:
            return live_delta(delta, ids, insert_only)
        cover = [directory.name for directory in self.cover]
        if not self.covered:
            by = cover or ([base.name] if base is not None else [])
            return unseen_tail(delta, self.covered_to, by, ids)
        if self.cover:
            return covered_by_deltas(cover, self.cover[0].delta)
        return nothing_to_cover(delta) if base is None else covered_by_base("", base)


def delta_order(directory: Directory) -> tuple[int, int, int, bytes]:
    """Sort key of the selection order: first id up, last id down, statement up (none first), then the path."""
    delta = directory.delta
    statement = -1 if delta.statement_id is None else delta.statement_id
    return delta.min_write_id, -delta.max_write_id, statement, path_order_key(directory.name)


def choose_deltas(admitted: Iterable[Directory], base: Directory | None, ids: ValidWriteIds) -> list[Choice]:
    """Walk the admitted deltas in selection order; they count from the base's write id on, without a base from 1."""
    choices: list[Choice] = []
    current = 0 if base is None else base.base.write_id
    group: list[Directory] = []
    previous: DeltaDir | None = None
    last_statement: int | None = None
    for directory in sorted(admitted, key=delta_order):
        delta = directory.delta
        cover = tuple(group)
        if delta.max_write_id > current:
            taken = ids.is_range_valid(current + 1, delta.max_write_id) is not RangeAnswer.NONE
            choices.append(Choice(directory, taken, False, cover, current))
            if taken:
                current, last_statement, previous = delta.max_write_id, delta.statement_id, delta
                group = [directory]
            continue
        # Other statements of the same transaction, and the other kind of the same statement; Hive does not
        # compare where they begin.
        sibling = delta.max_write_id == current and last_statement is not None
        # The other kind of one compaction: equal numbers, and no statement to tell them apart.
        twin = previous is not None and (delta.range, delta.statement_id) == (previous.range, previous.statement_id)
        choices.append(Choice(directory, sibling or twin, not (sibling or twin), cover, current))
        if sibling or twin:
            previous = delta
            group.append(directory)
    return choices


@dataclass(slots=True)
class Selection:
    """What was decided about an inventory: what is read, verdicts on every base and delta, and side results."""

    base: Directory | None = None
    deltas: list[Directory] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    lonely: dict[str, str] = field(default_factory=dict)
    history_gap: HistoryGap | None = None


def select_strict(
    inventory: Inventory, ids: ValidWriteIds, txns: ValidTxns, *, insert_only: bool, acid_v1: bool
) -> Selection:
    """Decide about every base and delta of an inventory."""
    selection = Selection()
    bases = _as_hive2(inventory.bases, ids, selection) if acid_v1 else inventory.bases
    base = _choose_base(bases, ids, txns, selection)
    _note_later_overwrites(inventory.bases, selection)
    admitted = _admit(inventory.deltas, ids, txns, insert_only, selection)
    admitted = _drop_earlier_compactions(admitted, selection)
    choices = choose_deltas(admitted, base, ids)
    for choice in choices:
        selection.verdicts[choice.directory.name] = choice.verdict(base, ids, insert_only=insert_only)
    if insert_only and base is not None:
        # The kind may be guessed wrong; what lies below the base holds no rows that anybody misses either way.
        for directory in inventory.deltas:
            delta = directory.delta
            if delta.kind is DeltaKind.DELETE and not delta.range.is_empty and base.base.range.covers(delta.range):
                selection.verdicts[directory.name] = covered_by_base("", base)
    selection.base = base
    selection.deltas = [choice.directory for choice in choices if choice.taken]
    selection.doubts += _overlap_doubts(choices, base)
    selection.lonely = _lonely_deltas(choices)
    if insert_only:
        selection.notes += _whole_notes(choices, ids)
    selection.notes += [*selection.doubts, *selection.lonely.values()]
    return selection


def _as_hive2(bases: Sequence[Directory], ids: ValidWriteIds, selection: Selection) -> list[Directory]:
    """Bases of Hive 1 or 2 as what they are: compactions, although nothing marks them so."""
    marked = []
    for base in bases:
        if base.is_compacted:
            marked.append(base)
            continue
        marked.append(replace(base, marker=MarkerContent.COMPACTED))
        if (judge_compacted(base.base, ids) is None) != ids.is_valid(base.base.write_id):
            selection.notes.append(
                f"{base.name} is treated as a compaction by Hive 1 or 2, which write no overwrites as bases; nothing "
                "here was marked by a later Hive."
            )
    return marked


def _choose_base(
    bases: Sequence[Directory], ids: ValidWriteIds, txns: ValidTxns, selection: Selection
) -> Directory | None:
    usable: list[tuple[Directory, bool]] = []
    passed_over: list[Directory] = []
    for base in bases:
        unseen = judge_visibility(base.base, txns)
        if unseen is not None:
            selection.verdicts[base.name] = unseen
            continue
        verdict, compacted = _judge_base(base, ids, selection)
        if verdict is None:
            usable.append((base, compacted))
            continue
        selection.verdicts[base.name] = verdict
        if compacted:
            passed_over.append(base)
    if not usable:
        oldest = min(passed_over, key=_id, default=None)
        selection.history_gap = None if oldest is None else HistoryGap.of(oldest, ids)
        return None
    # Among equals a compaction is preferred to the overwrite it compacted (HIVE-25777), the later one first.
    best, compacted = max(usable, key=lambda u: (_id(u[0]), u[1], u[0].visibility_txn_id or 0))
    for base, _ in usable:
        equal = _id(base) == _id(best)
        selection.verdicts[base.name] = same_ids_as_base(best) if equal else covered_by_base("", best)
    selection.verdicts[best.name] = live_base(best, compacted)
    newer = [base.name for base in passed_over if _id(base) > _id(best)]
    if newer:
        selection.notes.append(
            f"{best.name} is read because this reader cannot use {join_names(newer)}; deltas between "
            "them may have been cleaned already, which no listing can tell."
        )
    if not any(is_marker(file.name) or file.name[:1] not in ("_", ".") for file in best.files):
        selection.notes.append(f"{best.name} holds no file that readers see; it is read as an empty base.")
    return best


def _note_later_overwrites(bases: Sequence[Directory], selection: Selection) -> None:
    """What a later overwrite replaced is a cleaner's to remove; a snapshot from before may miss rows."""
    later = [base.name for base in bases if selection.verdicts[base.name].state is EntryState.ABOVE_WATERMARK]
    if later:
        selection.notes.append(
            f"{join_names(later)} overwrote later what this snapshot reads; parts of it may have been cleaned "
            "already, which no listing can tell."
        )


def _judge_base(base: Directory, ids: ValidWriteIds, selection: Selection) -> tuple[Verdict | None, bool]:
    """The verdict on a visible base (None if usable), and whether it counts as compacted."""
    parsed = base.base
    if base.is_first_compaction:
        return None, True
    if base.marker is MarkerContent.BAD and parsed.visibility_txn_id is None:
        selection.notes.append(f"{base.name}/_metadata_acid {base.marker_problem}.")
        usable = judge_compacted(parsed, ids) is None and judge_overwrite(parsed, ids) is None
        # Where both meanings allow it, it does not matter which one the marker had.
        return (None if usable else bad_marker(base)), True
    if base.marker is MarkerContent.UNREAD and parsed.visibility_txn_id is None:
        kind = "a compaction" if base.guessed_compacted else "a truncation"
        selection.notes.append(f"The content of {base.name}/_metadata_acid is not known; it is treated as {kind}.")
    if base.is_compacted:
        return judge_compacted(parsed, ids), True
    return judge_overwrite(parsed, ids), False


def _admit(
    deltas: Sequence[Directory], ids: ValidWriteIds, txns: ValidTxns, insert_only: bool, selection: Selection
) -> list[Directory]:
    """Deltas with anything visible in them; the others get their verdict here."""
    admitted = []
    for directory in deltas:
        verdict = _judge_delta(directory.delta, ids, txns, insert_only)
        if verdict is None:
            admitted.append(directory)
        else:
            selection.verdicts[directory.name] = verdict
    return admitted


def _judge_delta(delta: DeltaDir, ids: ValidWriteIds, txns: ValidTxns, insert_only: bool) -> Verdict | None:
    low, high = delta.min_write_id, delta.max_write_id
    if delta.range.is_empty:
        return degenerate_delta(delta)
    if insert_only and delta.kind is DeltaKind.DELETE:
        return delete_delta_in_insert_only()
    unseen = judge_visibility(delta, txns)
    if unseen is not None:
        return unseen
    if ids.is_range_aborted(low, high) is RangeAnswer.ALL:
        return aborted_delta(delta)
    if ids.is_range_valid(low, high) is RangeAnswer.NONE:
        return unseen_delta(delta, ids)
    return None


def _drop_earlier_compactions(admitted: Sequence[Directory], selection: Selection) -> list[Directory]:
    """Of several directories of one kind and exactly one range keep the latest compaction.

    Hive 4 reads them all and returns their rows more than once. Equal visibility (none, say) is no order, and
    then all are kept: a row too many is seen, a row too few is not.
    """
    groups: dict[tuple[DeltaKind, WriteIdRange, int | None], list[Directory]] = defaultdict(list)
    for directory in admitted:
        delta = directory.delta
        groups[delta.kind, delta.range, delta.statement_id].append(directory)
    dropped: set[str] = set()
    for group in groups.values():
        if len(group) < 2:
            continue
        best = max(group, key=lambda c: c.visibility_txn_id or 0)
        rest = [c for c in group if (c.visibility_txn_id or 0) < (best.visibility_txn_id or 0)]
        for directory in rest:
            selection.verdicts[directory.name] = same_range(directory.delta, best.name)
            dropped.add(directory.name)
            selection.notes.append(
                f"{directory.name} and {best.name} hold the same range; the later compaction is read, while "
                "Hive 4 reads both and returns their rows twice."
            )
        if len(group) - len(rest) > 1:
            names = [c.name for c in group if c.name not in dropped]
            selection.doubts.append(f"{join_names(names)} hold the same range; all are read, as Hive does.")
    return [directory for directory in admitted if directory.name not in dropped]


def _overlap_doubts(choices: Sequence[Choice], base: Directory | None) -> list[str]:
    """Sentences about deltas that are read although they reach into what is read already.

    Compactors produce nested or disjoint ranges only, and reading such a pair is right only if they did.
    """
    doubts = []
    for choice in choices:
        if not choice.taken or not choice.directory.delta.range.crosses(WriteIdRange(MIN_LONG, choice.covered_to)):
            continue
        if choice.cover:
            doubts.append(
                f"{choice.directory.name} overlaps {choice.cover[0].name} in part; both are read whole, "
                "and rows that both hold come twice."
            )
        elif base is not None and not base.is_first_compaction:
            doubts.append(
                f"{choice.directory.name} begins inside {base.name}; it is read whole, "
                "and rows that the base holds as well come twice."
            )
    return doubts


def _lonely_deltas(choices: Sequence[Choice]) -> dict[str, str]:
    """Deltas covered only by deltas of the other kind, each with a sentence: half of a compaction is missing.

    Unless they hold nothing: Hive 3 writes files without events for the side of a minor compaction that has none.
    """
    notes = {}
    for choice in choices:
        if not choice.covered or not choice.cover or not choice.directory.bytes:
            continue
        kind = choice.directory.delta.kind
        if all(cover.delta.kind is not kind for cover in choice.cover):
            missing = "inserted" if kind is DeltaKind.INSERT else "deleted"
            notes[choice.directory.name] = (
                f"{choice.directory.name} is covered by {choice.cover[0].name} alone, which cannot hold what "
                f"it {missing}; the other half of that compaction is missing."
            )
    return notes


def _whole_notes(choices: Sequence[Choice], ids: ValidWriteIds) -> list[str]:
    """Insert-only files carry no write ids per row: a directory is read as a whole or not at all."""
    notes = []
    for choice in choices:
        delta = choice.directory.delta
        if choice.taken and ids.open_in(delta.min_write_id, delta.max_write_id):
            notes.append(
                f"{choice.directory.name} is read whole although some of its write ids are open for this "
                "reader: rows of an insert-only table do not say which write made them."
            )
    return notes


def _id(base: Directory) -> int:
    return base.base.write_id
