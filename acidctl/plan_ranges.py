"""Ranges of write ids: whether directories nest or are apart, as selecting deltas takes for granted.

delta_1_5      delta_3_4        nested: the wider one covers the other
delta_1_5      delta_6_9        apart
delta_1_5      delta_4_9        crossing: readers read both whole, or hide a part of one
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acidctl.names import MIN_LONG, BaseDir, DeltaDir
from acidctl.state import EntryState, StateEntry

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
