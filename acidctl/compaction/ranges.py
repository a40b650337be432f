"""Ranges of write ids: whether directories nest or are apart, as selecting deltas takes for granted.

delta_1_5      delta_3_4        nested: the wider one covers the other
delta_1_5      delta_6_9        apart
delta_1_5      delta_4_9        crossing: readers read both whole, or hide a part of one
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from acidctl.format.names import MIN_LONG, BaseDir, DeltaDir
from acidctl.format.write_ids import ValidWriteIds
from acidctl.state.resolve import EntryState, StateEntry

_NO_DATA = (EntryState.HIDDEN, EntryState.UNRECOGNISED)
# What nobody will ever read crosses nothing.
_NEVER_READ = (*_NO_DATA, EntryState.ABORTED)


def range_of(entry: StateEntry) -> tuple[int, int] | None:
    """Lowest and highest write id of a directory, inclusive; a base begins at the beginning."""
    if isinstance(entry.parsed, DeltaDir):
        return entry.parsed.min_write_id, entry.parsed.max_write_id
    if isinstance(entry.parsed, BaseDir):
        return MIN_LONG, entry.parsed.write_id
    return None


def span(entries: Iterable[StateEntry]) -> tuple[int, int]:
    """The range that covers all of these directories; there is at least one with a range."""
    found = [pair for entry in entries if (pair := range_of(entry)) is not None]
    return min(low for low, _ in found), max(high for _, high in found)


def overlap(entries: Sequence[StateEntry]) -> tuple[StateEntry, StateEntry] | None:
    """The first two directories that cross, None where all nest or are apart."""
    placed = [(pair, entry) for entry in entries if (pair := range_of(entry)) is not None]
    placed.sort(key=lambda item: (item[0][0], -item[0][1]))
    stack: list[tuple[int, StateEntry]] = []
    for (low, high), entry in placed:
        while stack and stack[-1][0] < low:
            stack.pop()
        if stack and stack[-1][0] < high:
            return stack[-1][1], entry
        stack.append((high, entry))
    return None


def twins(entries: Sequence[StateEntry]) -> tuple[StateEntry, StateEntry] | None:
    """Two directories of one kind, range and statement, which a reader takes both."""
    seen: dict[tuple[object, ...], StateEntry] = {}
    for entry in entries:
        pair = range_of(entry)
        if pair is None:
            continue
        key = (entry.kind, pair, entry.statement_id)
        if key in seen:
            return seen[key], entry
        seen[key] = entry
    return None


def straddling(entries: Iterable[StateEntry], consumed: Sequence[StateEntry], low: int, high: int) -> StateEntry | None:
    """A directory outside `consumed` that crosses the range `low..high` and may be read some day."""
    taken = {entry.name for entry in consumed}
    for entry in entries:
        pair = range_of(entry)
        if pair is None or entry.name in taken or entry.state in _NEVER_READ:
            continue
        apart = pair[1] < low or high < pair[0]
        nested = (low <= pair[0] and pair[1] <= high) or (pair[0] <= low and high <= pair[1])
        if not (apart or nested):
            return entry
    return None


@dataclass(frozen=True, slots=True)
class Naming:
    """What the names of outputs may be: for `base` or deltas; `suffixed` by a transaction or not; `hive3` where only
    Hive 3 is to read them; whether `ids` are those of the table, or transactions of all tables (`acid_v1`).
    """

    ids: ValidWriteIds
    base: bool
    suffixed: bool
    hive3: bool
    acid_v1: bool


def reaching(
    entries: Iterable[StateEntry], consumed: Sequence[StateEntry], low: int, high: int, naming: Naming
) -> tuple[int, int]:
    """The range `low..high` of the inputs, widened over aborted writes beside it as far as it crosses nothing.

    Once Hive has cleaned up after a compaction it forgets which writes were aborted. A directory of such a write that
    was not removed, or comes late, is then read unless it lies inside an output. Above the inputs every id that the
    list calls aborted is covered, below them what is on disk (a base covers all that is below).
    """
    entries = tuple(entries)
    on_disk = [entry.parsed for entry in entries if entry.state is EntryState.ABORTED]
    deltas = [parsed for parsed in on_disk if isinstance(parsed, DeltaDir) and parsed.visibility_txn_id is None]
    ends = {parsed.max_write_id for parsed in deltas} | {high} if naming.acid_v1 else set(naming.ids.exceptions)
    if naming.base and not naming.suffixed:
        overwrites = {parsed.write_id for parsed in on_disk if isinstance(parsed, BaseDir)}
        ends = _names_of_bases(ends, naming) - overwrites
    above = sorted(id_ for id_ in ends if id_ > high)
    while above and (crossing := straddling(entries, consumed, low, above[-1])) is not None:
        first, last = range_of(crossing) or (low, high)
        above = [id_ for id_ in above[:-1] if (id_ < first if low <= first else id_ <= last)]
    high = above[-1] if above else high
    below = sorted({parsed.min_write_id for parsed in deltas if parsed.min_write_id < low})
    while below and (crossing := straddling(entries, consumed, below[0], high)) is not None:
        first, last = range_of(crossing) or (low, high)
        below = [id_ for id_ in below[1:] if (id_ > last if last <= high else id_ >= first)]
    return (below[0] if below else low), high


def _names_of_bases(ends: set[int], naming: Naming) -> set[int]:
    """Ids with which a base without a suffix covers `ends`: for each the next that is not aborted, if there is one.

    The Cleaner of Hive 4 does not look into a base for the marker that tells it from an overwrite: it removes one that
    ends with an aborted id, whoever compacted it. That of Hive 3 does not.
    """
    following: dict[int, int] = {}
    for end in sorted(ends, reverse=True):
        id_ = end
        while naming.ids.is_aborted(id_) and id_ not in following:
            id_ += 1
        following[end] = following.get(id_, id_)
    found = {id_ for id_ in following.values() if id_ <= naming.ids.high_watermark}
    return found | ends if naming.hive3 else found


def uncovered(entries: Iterable[StateEntry], output: str, high: int) -> tuple[str, ...]:
    """A sentence where directories of aborted writes lie above an output that ends with `high`."""
    ranges = ((entry.name, range_of(entry)) for entry in entries if entry.state is EntryState.ABORTED)
    above = [name for name, pair in ranges if pair is not None and pair[1] > high]
    if not above:
        return ()
    more = f" and {len(above) - 1} more" if len(above) > 1 else ""
    return (
        f"{above[0]}{more}, which an aborted write left, lies above {output}: remove it with `acidctl clean` while "
        "Hive knows that it was aborted, or publish under a transaction (--visibility-txn), which can cover it.",
    )


def last_kept(ids: ValidWriteIds) -> int | None:
    """The largest id with which a base without a suffix may end, None where all are aborted."""
    return next((id_ for id_ in range(ids.high_watermark, 0, -1) if not ids.is_aborted(id_)), None)
