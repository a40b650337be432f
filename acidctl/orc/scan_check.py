"""What a whole scan delivered, held against the statistics in the file's own footer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import DamagedDataError
from acidctl.orc.postprocess import columns_below
from acidctl.orc.stats import ColumnStatistics, StatisticsKind, stated_decimal
from acidctl.orc.tail import OrcKind, Tail, damaged
from acidctl.values import dataclass

#
# A wrong encoding, a lost stripe, a stream that belongs to another column, a changed key: the C++ reader decodes all of
# these into other rows and notices nothing. The writer has counted its values, added them up and kept the least and the
# greatest, so whoever reads all of them can tell. Only what every writer counts alike is compared: no sums of floating
# point numbers, no moments (they depend on time zones), nothing below maps and unions, nothing that is not stated.


_WHOLE_NUMBERS = frozenset({OrcKind.BYTE, OrcKind.SHORT, OrcKind.INT, OrcKind.LONG})
_TEXTS = frozenset({OrcKind.STRING, OrcKind.VARCHAR, OrcKind.CHAR})
_FLOATS = frozenset({OrcKind.FLOAT, OrcKind.DOUBLE})
_STATED = {
    **dict.fromkeys(_WHOLE_NUMBERS, StatisticsKind.INTEGER),
    **dict.fromkeys(_TEXTS, StatisticsKind.STRING),
    **dict.fromkeys(_FLOATS, StatisticsKind.DOUBLE),
    OrcKind.BOOLEAN: StatisticsKind.BOOLEAN,
    OrcKind.BINARY: StatisticsKind.BINARY,
    OrcKind.DATE: StatisticsKind.DATE,
    OrcKind.DECIMAL: StatisticsKind.DECIMAL,
}
_COUNTED = frozenset(OrcKind) - {OrcKind.UNION}
_SIMPLE = _COUNTED - {OrcKind.STRUCT, OrcKind.LIST, OrcKind.MAP}
_HINT = (
    "Restore the file from its source; `acidctl dump` shows what it says about itself. Hive reads such a file without"
    " noticing."
)


@dataclass(slots=True)
class Seen:
    """What went by of one column; `total` is a sum of numbers, of lengths, or the number of true values."""

    count: int = 0
    total: Any = 0
    least: Any = None
    greatest: Any = None
    unordered: bool = False


class StatisticsCheck:
    """Takes the arrays of a scan as the C++ reader delivers them, by column id, and compares at the end."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail
        self._seen: dict[int, Seen] = {}
        self._left_out: set[int] = set()
        # Hive's own writers leave row indexes out where they compact and stream, and then count nothing at all.
        self._stated = bool(tail.statistics and tail.row_index_stride)

    def add(self, columns: Sequence[tuple[int, pa.Array]]) -> None:
        """The next rows."""
        if self._stated:
            for column, array in columns:
                self._add(column, array)

    def add_seen(self, column: int, seen: Seen) -> None:
        """All values of a column, counted elsewhere."""
        self._seen[column] = seen

    def check(self) -> None:
        """Raise DamagedDataError where the footer says something else than what went by."""
        self.check_against(self._tail.statistics)

    def check_against(self, statistics: Sequence[ColumnStatistics]) -> None:
        """The same for statistics of just these rows."""
        if not self._stated:
            return
        for column, seen in self._seen.items():
            if column < len(statistics) and column not in self._left_out:
                self._compare(column, seen, statistics[column])

    def values(self) -> dict[int, Seen]:
        """What went by of each column that is compared."""
        return {column: seen for column, seen in self._seen.items() if column not in self._left_out}

    def _add(self, column: int, array: pa.Array) -> None:
        entry = self._tail.types[column]
        if entry.kind not in _COUNTED:
            return
        seen = self._seen.setdefault(column, Seen())
        valid = len(array) - array.null_count
        seen.count += valid
        if entry.kind is OrcKind.STRUCT:
            present = None if not array.null_count else array.is_valid()
            for place, field in enumerate(entry.subtypes):
                if present is None:
                    self._add(field, array.field(place))
                elif self._tail.types[field].kind in _SIMPLE:
                    # What Arrow holds beneath a NULL struct is nobody's value.
                    self._add(field, pc.if_else(present, array.field(place), None))
                else:
                    self._left_out.update(columns_below(self._tail, field))
        elif entry.kind is OrcKind.LIST and self._tail.types[entry.subtypes[0]].kind in _COUNTED:
            self._add(entry.subtypes[0], array.flatten())
        elif valid:
            _take_in(seen, entry.kind, array)

    def _compare(self, column: int, seen: Seen, stated: ColumnStatistics) -> None:
        if stated.count is not None and stated.count != seen.count:
            raise self._differs(column, f"it has {seen.count} values, the statistics count {stated.count}")
        known = _of_statistics(self._tail.types[column].kind, stated)
        if not seen.count or known is None:
            return
        if seen.unordered:
            known.least = known.greatest = None
        for what, expected, found in (
            ("total", known.total, seen.total),
            ("smallest value", known.least, seen.least),
            ("greatest value", known.greatest, seen.greatest),
        ):
            if expected is not None and found is not None and expected != found:
                raise self._differs(column, f"the {what} is {found}, the statistics give {expected}")

    def _differs(self, column: int, how: str) -> DamagedDataError:
        what = f"contradicts itself: column {column} does not match its statistics: {how}"
        return damaged(self._tail.name, what, _HINT)


def _of_statistics(kind: OrcKind, statistics: ColumnStatistics) -> Seen | None:
    """What statistics say of the values of a column; None where they are of another kind, or not compared."""
    values = statistics.of(_STATED[kind]) if kind in _STATED else None
    if values is None:
        return None
    least, greatest = values.minimum, values.maximum
    if kind is OrcKind.DECIMAL:
        least, greatest = stated_decimal(least), stated_decimal(greatest)
    return Seen(statistics.count or 0, values.sum, least, greatest)


def _take_in(seen: Seen, kind: OrcKind, array: pa.Array) -> None:
    """Values of a column without children, one of them at least not NULL."""
    if kind in _WHOLE_NUMBERS:
        # A sum beyond 64 bits wraps here and is absent there.
        seen.total = _wrapped(seen.total + pc.sum(array).as_py())
    elif kind in _TEXTS or kind is OrcKind.BINARY:
        seen.total += _length(array)
        return
    elif kind is OrcKind.BOOLEAN:
        seen.total += array.true_count
        return
    elif kind is OrcKind.DATE:
        array = array.cast(pa.int32())
    elif kind in _FLOATS:
        # Writers disagree about the order of NaN; the sum is NaN too then.
        seen.unordered = seen.unordered or isnan(pc.sum(array).as_py())
    elif kind is not OrcKind.DECIMAL:
        return
    if kind not in _WHOLE_NUMBERS:
        seen.total = None
    least, greatest = extremes(array)
    seen.least = least if seen.least is None else min(seen.least, least)
    seen.greatest = greatest if seen.greatest is None else max(seen.greatest, greatest)


def extremes(array: pa.Array) -> tuple[Any, Any]:
    """The least and the greatest of values that are not all NULL, without NaN: by numpy where that is far quicker."""
    if pa.types.is_floating(array.type):
        values = array.drop_null().to_numpy()
        least, greatest = values.min(), values.max()
        if least == least:
            return least.item(), greatest.item()
    elif pa.types.is_decimal128(array.type):
        array = array.drop_null()
        words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset :][: len(array)]
        low, high = words[:, 0], words[:, 1]
        if (low >> 63 == high).all():
            return array[int(low.argmin())].as_py(), array[int(low.argmax())].as_py()
    bounds = pc.min_max(array).as_py()
    return bounds["min"], bounds["max"]


def _length(array: pa.Array) -> int:
    """Of all texts together."""
    if array.null_count:
        return int(pc.sum(pc.binary_length(array)).as_py())
    width = np.int64 if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type) else np.int32
    offsets = np.frombuffer(array.buffers()[1], width)
    return int(offsets[array.offset + len(array)]) - int(offsets[array.offset])


# --- The same for a file of which some stripes are decoded, in several scans, and others are believed.


class StripesCheck:
    """The values of stripes that were decoded beside what is stated of the others: together they are those of the file.

    `stated` gives the statistics of each stripe; it is called where some stripes were not decoded. `few` are columns,
    the keys of events, that are also read alone, which nobody takes note of.
    """

    def __init__(
        self, tail: Tail, stated: Callable[[], Sequence[Sequence[ColumnStatistics]]], few: Sequence[int] = ()
    ) -> None:
        self._tail = tail
        self._stated = stated
        self._few = frozenset((0, *few))
        self._decoded: set[int] = set()
        # Of all decoded stripes together, by column; and of how many of them.
        self._seen: dict[int, tuple[Seen, int]] = {}
        self._last: tuple[int, StatisticsCheck] | None = None

    def of(self, stripes: range | None, columns: Collection[int]) -> RunCheck | None:
        """What takes the rows of a scan of these stripes (None: all) and columns; None where it is of `few` alone."""
        if self._few.issuperset(columns):
            return None
        return RunCheck(self._tail, range(len(self._tail.stripes)) if stripes is None else stripes, self._take)

    def last(self, index: int) -> StatisticsCheck | None:
        """What was seen of a stripe, if it is the last one that was read to its end."""
        return self._last[1] if self._last is not None and self._last[0] == index else None

    def _take(self, index: int, check: StatisticsCheck) -> None:
        values, self._last = check.values(), (index, check)
        if index in self._decoded:
            return
        self._decoded.add(index)
        for column, seen in values.items():
            before, count = self._seen.get(column, (Seen(), 0))
            self._seen[column] = _together(self._tail.types[column].kind, [before, seen]), count + 1

    def finish(self) -> None:
        """Raise DamagedDataError where the footer says something else than values and statistics of stripes do."""
        tail = self._tail
        others = [i for i, stripe in enumerate(tail.stripes) if stripe.rows and i not in self._decoded]
        if not self._decoded or not tail.statistics or not tail.row_index_stride:
            return
        stated = self._stated() if others else ()
        if others and len(stated) != len(tail.stripes):
            return
        whole = StatisticsCheck(tail)
        for column, (seen, count) in sorted(self._seen.items()):
            claimed = [_claimed(tail, column, stated[i][column]) for i in others]
            # Below structs that are NULL a column is not counted, and some stripes do not state all.
            if count == len(self._decoded) and None not in claimed:
                parts = [seen, *(part for part in claimed if part is not None)]
                whole.add_seen(column, _together(tail.types[column].kind, parts))
        whole.check()


class RunCheck:
    """Takes the rows of adjacent stripes as a `StatisticsCheck` does, and gives that of each stripe to `done`."""

    def __init__(self, tail: Tail, stripes: range, done: Callable[[int, StatisticsCheck], None]) -> None:
        self._tail = tail
        self._left = [(index, tail.stripes[index].rows) for index in reversed(stripes) if tail.stripes[index].rows]
        self._done = done
        self._current = StatisticsCheck(tail)
        self._rows = 0

    def add(self, columns: Sequence[tuple[int, pa.Array]]) -> None:
        """The next rows, which lie in one stripe."""
        index, rows = self._left[-1]
        self._current.add(columns)
        self._rows += len(columns[0][1])
        if self._rows == rows:
            self._done(index, self._current)
            self._left.pop()
            self._current, self._rows = StatisticsCheck(self._tail), 0

    def check(self) -> None:
        """Whoever holds the stripes together compares."""


def _claimed(tail: Tail, column: int, statistics: ColumnStatistics) -> Seen | None:
    """What a stripe says of itself, in place of its values; None where that is not enough."""
    if statistics.count is None:
        return None
    found = _of_statistics(tail.types[column].kind, statistics) or Seen(statistics.count, None)
    # None is also what was never seen: here it is not known.
    found.unordered = found.unordered or any(value != value for value in (found.least, found.greatest))
    return found


def _together(kind: OrcKind, parts: Sequence[Seen]) -> Seen:
    """Of all rows together; None where one part does not say it."""
    found = Seen(sum(part.count for part in parts), unordered=any(part.unordered for part in parts))
    counting = [part for part in parts if part.count]
    totals = [part.total for part in counting]
    found.total = None if None in totals else sum(totals)
    if kind in _WHOLE_NUMBERS and found.total is not None:
        found.total = _wrapped(found.total)
    least, greatest = [part.least for part in counting], [part.greatest for part in counting]
    if counting and not found.unordered:
        found.least = None if None in least else min(least)
        found.greatest = None if None in greatest else max(greatest)
    return found


def _wrapped(total: int) -> int:
    """As a number of 64 bits."""
    return (total + (1 << 63)) % (1 << 64) - (1 << 63)


# --- The same for many small files whose rows lie one behind the other: a few calls for all, not a few for each.


def check_each(tails: Sequence[Tail], columns: Sequence[tuple[int, pa.Array]]) -> None:
    """As a StatisticsCheck of each file, whose rows follow one another in these arrays; the files have the same types.

    No file is without rows.
    """
    checks = [StatisticsCheck(tail) for tail in tails]
    ends = np.cumsum([tail.rows for tail in tails])
    starts = ends - [tail.rows for tail in tails]
    for column, array in columns:
        _add_each(checks, tails, column, array, starts, ends)
    for check in checks:
        check.check()


def _add_each(
    checks: Sequence[StatisticsCheck],
    tails: Sequence[Tail],
    column: int,
    array: pa.Array,
    starts: np.ndarray[Any, Any],
    ends: np.ndarray[Any, Any],
) -> None:
    entry = tails[0].types[column]
    if entry.kind is OrcKind.STRUCT and not array.null_count:
        for check, tail in zip(checks, tails, strict=True):
            check.add_seen(column, Seen(tail.rows))
        for place, field in enumerate(entry.subtypes):
            _add_each(checks, tails, field, array.field(place), starts, ends)
        return
    known = _seen_of_each(entry.kind, array, starts, ends)
    for place, check in enumerate(checks):
        if known is None:
            check.add([(column, array.slice(starts[place], ends[place] - starts[place]))])
        else:
            check.add_seen(column, known[place])


def _seen_of_each(
    kind: OrcKind, array: pa.Array, starts: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]
) -> list[Seen] | None:
    """What went by of each stretch, if numpy can tell as `_take_in` does; None where it has to be looked at apart."""
    if array.null_count:
        return None
    counts = (ends - starts).tolist()
    if kind in _TEXTS or kind is OrcKind.BINARY:
        large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        if not large and not pa.types.is_string(array.type) and not pa.types.is_binary(array.type):
            return None
        offsets = np.frombuffer(array.buffers()[1], np.int64 if large else np.int32)
        lengths = (offsets[array.offset + ends] - offsets[array.offset + starts]).tolist()
        return [Seen(count, length) for count, length in zip(counts, lengths, strict=True)]
    if kind is OrcKind.BOOLEAN:
        values = array.to_numpy(zero_copy_only=False)
        return [
            Seen(*pair) for pair in zip(counts, np.add.reduceat(values, starts, dtype=np.int64).tolist(), strict=True)
        ]
    if kind is OrcKind.DATE:
        array = array.cast(pa.int32())
    elif kind not in _WHOLE_NUMBERS and kind not in _FLOATS:
        return None
    values = array.to_numpy()
    if kind in _FLOATS and np.isnan(values).any():
        return None
    # A sum beyond 64 bits wraps here and is absent in the file.
    total = np.add.reduceat(values, starts, dtype=np.int64).tolist() if kind in _WHOLE_NUMBERS else [None] * len(counts)
    least, greatest = np.minimum.reduceat(values, starts).tolist(), np.maximum.reduceat(values, starts).tolist()
    return [Seen(*found) for found in zip(counts, total, least, greatest, strict=True)]
