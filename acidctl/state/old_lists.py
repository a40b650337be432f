"""Lists that are older than a compaction: its output cannot be read by them, and its inputs may be gone.

A reader takes its lists, a compaction ends, a cleaner removes its inputs, and then the location is listed. The output
is made by a transaction that the lists do not show, or is a base beyond their watermark, so that it is not read:

    delta_1_1  delta_2_2  delta_3_3  base_3_v9      lists from before 9: the deltas are read, which is right
                          delta_3_3  base_3_v9      the same lists, while a cleaner is at work: rows are missing
                                     base_3_v9      the same lists: nothing is left to read

The inputs of a compaction that is not committed are always there. So an unseen output proves lists too old where it
holds a write, or a delete, that the directories left for this reader lack. Names tell that here; `rows.old_lists` asks
the tails and keys of files where they do not. Values only: no storage.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from acidctl.format.names import BaseDir, DeltaDir, DeltaKind, WriteIdRange
from acidctl.format.write_ids import ValidWriteIds
from acidctl.state.entries import AcidState, EntryKind, EntryState, StateEntry, TooOld, join_names, span
from acidctl.values import dataclass

# Why an output of a compaction is not read: its transaction, or the write ids that it holds.
_UNSEEN_TXN = frozenset({"compaction_above_watermark", "compaction_open"})
_UNSEEN_IDS = frozenset({"base_above_watermark", "base_holds_open_ids"})
_UNSEEN = _UNSEEN_TXN | _UNSEEN_IDS
# What may hold inputs of such an output: what is read, and what is for later readers.
_HOLDING = frozenset({EntryState.LIVE, EntryState.OPEN, EntryState.ABOVE_WATERMARK, EntryState.OBSOLETE})


@dataclass(frozen=True, slots=True)
class UnseenOutput:
    """One compaction's output that the lists do not show: a base, or one or both halves of a minor.

    `ids` are the write ids whose rows and deletes this reader has to find in other directories; 0 stands for original
    files. `resolved` says that the lists have decided all of them. `alone` says that no other directory holds any of
    them. `overwrites` are bases that this reader does not see either: what such a one replaced is in no later base, if
    it was committed.
    `unaccounted` is the first valid id of which no other directory has the number, and `erasable` one whose rows a
    later write may have deleted, so that neither is left.
    """

    entries: tuple[StateEntry, ...]
    ids: WriteIdRange
    resolved: bool
    alone: bool
    overwrites: tuple[StateEntry, ...] = ()
    unaccounted: int | None = None
    erasable: int | None = None

    @property
    def name(self) -> str:
        """Its directories, for a sentence."""
        return join_names([entry.name for entry in self.entries])

    @property
    def is_base(self) -> bool:
        """Whether it is the output of a major compaction."""
        return isinstance(self.entries[0].parsed, BaseDir)

    @property
    def is_committed(self) -> bool:
        """Whether the lists say that its transaction has ended well, or it has none."""
        return self.entries[0].reason_code in _UNSEEN_IDS


def unseen_outputs(state: AcidState, ids: ValidWriteIds) -> tuple[UnseenOutput, ...]:
    """The outputs that this reader passes over although they hold ids that it may see; none nearly always."""
    unseen = [entry for entry in state.entries if is_unseen(entry)]
    if not unseen:
        return ()
    hidden = {entry.name for entry in unseen}
    others = [entry for entry in state.entries if entry.parsed and entry.state in _HOLDING and entry.name not in hidden]
    floor = -1 if state.base is None else max(state.base.base.write_id, 0)
    groups: dict[object, list[StateEntry]] = {}
    for entry in unseen:
        groups.setdefault(entry.name if entry.parsed is None else _compaction(entry), []).append(entry)
    minors = [entry.delta.range for entry in unseen if isinstance(entry.parsed, DeltaDir)]
    found = []
    for entries in groups.values():
        held = _to_be_found(entries[0], floor)
        if held.is_empty or _first_valid(ids, [held]) is None:
            continue
        if all(_is_read_elsewhere(state, entry, held) for entry in entries):
            continue
        found.append(_output(state, tuple(entries), held, ids, others, minors))
    return tuple(found)


def is_unseen(entry: StateEntry) -> bool:
    """Whether it is an output of a compaction that the lists do not show, or that holds what they do not show."""
    return entry.reason_code in _UNSEEN


def _compaction(entry: StateEntry) -> object:
    """The same for both halves of a minor compaction."""
    return entry.name if isinstance(entry.parsed, BaseDir) else (entry.range, entry.visibility_txn_id)


def _to_be_found(entry: StateEntry, floor: int) -> WriteIdRange:
    """The ids of an output that are not in the base which the reader has."""
    if isinstance(entry.parsed, BaseDir):
        return WriteIdRange(floor + 1, max(entry.base.write_id, 0))
    own = entry.delta.range
    return WriteIdRange(max(own.min, floor + 1), own.max)


def _is_read_elsewhere(state: AcidState, entry: StateEntry, held: WriteIdRange) -> bool:
    """Whether the output of another compaction, which this reader sees, covers a half of a minor of its own kind."""
    if isinstance(entry.parsed, BaseDir) and not state.insert_only:
        return False
    held = WriteIdRange(max(held.min, 1), held.max)
    read = state.delete_deltas if entry.kind is EntryKind.DELETE_DELTA else state.insert_deltas
    return any(live.visibility_txn_id is not None and live.delta.range.covers(held) for live in read)


def _output(
    state: AcidState,
    entries: tuple[StateEntry, ...],
    held: WriteIdRange,
    ids: ValidWriteIds,
    others: Sequence[StateEntry],
    minors: Sequence[WriteIdRange],
) -> UnseenOutput:
    is_base = isinstance(entries[0].parsed, BaseDir)
    inside = [entry for entry in others if entry.range is not None and _own(entry).overlaps(held)]
    aborted = any(
        entry.state is EntryState.ABORTED and entry.range is not None and _own(entry).overlaps(held)
        for entry in state.entries
    )
    resolved = held.max <= ids.high_watermark and not ids.open_in(held.min, held.max)
    anchored = is_base and (state.base is not None or bool(state.originals))
    gaps = list(_gaps(held, [*map(_own, inside), *(minors if is_base else ())]))
    unaccounted = _first_valid(ids, gaps)
    if is_base and not anchored and ids.high_watermark < 1:
        unaccounted = 0  # such a reader sees original files alone
    erasable = None
    # No minor compaction goes beyond an overwrite.
    overwrites = [e for e in inside if is_base and isinstance(e.parsed, BaseDir) and e.state is not EntryState.LIVE]
    if is_base and not resolved and not anchored and not overwrites and not state.insert_only:
        first_unseen = min((*ids.open_in(held.min, held.max)[:1], max(held.min, ids.high_watermark + 1)))
        if not any(_shows_that_deletes_are_left(entry, held, first_unseen) for entry in inside):
            erasable = unaccounted
    only_originals = held.max == 0
    return UnseenOutput(
        entries,
        held,
        resolved=resolved,
        alone=not inside and not anchored and not aborted and (only_originals or unaccounted is not None),
        overwrites=tuple(overwrites),
        unaccounted=unaccounted,
        erasable=erasable,
    )


def _own(entry: StateEntry) -> WriteIdRange:
    """The ids that a directory itself has written; a base that overwrote others has one."""
    assert entry.range is not None
    return WriteIdRange(entry.range.max, entry.range.max) if isinstance(entry.parsed, BaseDir) else entry.range


def _shows_that_deletes_are_left(entry: StateEntry, held: WriteIdRange, first_unseen: int) -> bool:
    """Whether no cleaner can have removed deletes of unseen writes while this directory is there.

    Cleaners remove bases, then either all deltas by ascending write ids (Hive) or inserts before deletes (acidctl). In
    Hive 4 both halves of an update have statements of their own, the deletes first.
    """
    parsed = entry.parsed
    if not isinstance(parsed, DeltaDir) or parsed.kind is DeltaKind.DELETE or parsed.max_write_id > held.max:
        return False
    return parsed.min_write_id < first_unseen or (parsed.min_write_id == first_unseen and not parsed.statement_id)


def _gaps(among: WriteIdRange, taken: Iterable[WriteIdRange]) -> Iterator[WriteIdRange]:
    """The ids of a range, from 1 on, that are in none of others."""
    at = max(among.min, 1)
    for one in sorted(taken):
        if one.min > at:
            yield WriteIdRange(at, min(one.min - 1, among.max))
        at = max(at, one.max + 1)
        if at > among.max:
            return
    if at <= among.max:
        yield WriteIdRange(at, among.max)


def _first_valid(ids: ValidWriteIds, ranges: Iterable[WriteIdRange]) -> int | None:
    """The lowest id of ascending ranges that this reader sees."""
    for one in ranges:
        at, exceptions = one.min, ids.exceptions
        place = bisect_left(exceptions, at)
        while place < len(exceptions) and exceptions[place] == at:
            at, place = at + 1, place + 1
        if at <= min(one.max, ids.high_watermark):
            return at
    return None


def too_old(state: AcidState, ids: ValidWriteIds) -> TooOld | None:
    """What names alone say against the lists: an output without any input left, or one that cannot be taken apart."""
    for output in unseen_outputs(state, ids):
        if output.alone:
            return TooOld(output.name, f"nothing else here holds any of {_in_words(output.ids)}")
        if output.erasable is not None:
            what = _in_words(WriteIdRange(output.erasable, output.erasable))
            why = (
                f"nothing of {what} is left, and whether there was any is not known, because later writes may have "
                "deleted those rows"
            )
            return TooOld(output.name, why)
    if state.insert_only:
        for entry in state.deltas:
            mixed = _mixed(entry.delta.range, ids)
            if mixed is not None:
                why = f"it also holds write id {mixed}, which they do not show, and does not say which rows are whose"
                return TooOld(entry.name, why)
    return None


def _mixed(own: WriteIdRange, ids: ValidWriteIds) -> int | None:
    """An id of a delta that is read whole which is open, or above the watermark."""
    if own.min == own.max:
        return None
    open_ids = ids.open_in(own.min, own.max)
    return next(iter(open_ids), own.max if own.max > ids.high_watermark else None)


def _in_words(ids: WriteIdRange) -> str:
    if ids.max == 0:
        return "the original files"
    return span(WriteIdRange(max(ids.min, 1), ids.max))
