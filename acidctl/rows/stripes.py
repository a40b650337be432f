"""Which stripes of a file have to be read: by row ids, and by what statistics say of a condition.

A condition may come out true, false or NULL in the rows of a stripe; a stripe without a true outcome is left out. What
statistics leave in doubt may come out in every way, so that a stripe is left out only where nothing else is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

from acidctl.errors import DamagedDataError
from acidctl.fileformats.parquet import ParquetFile
from acidctl.fileformats.plain import RowFile
from acidctl.format.events import KeySpan, RowId
from acidctl.orc.acidmeta import key_range
from acidctl.orc.calendar import SECONDS_PER_DAY, SWITCH_DAY
from acidctl.orc.reader import FEW_ROWS, OrcFile
from acidctl.orc.stats import ColumnStatistics, StatisticsKind, stated_decimal
from acidctl.orc.tail import Tail
from acidctl.rows.literals import FLOATS, INTEGERS, NUMBERS, As, Value, is_nan
from acidctl.rows.predicate import (
    WRITE_ID,
    Among,
    Column,
    Comparison,
    Constant,
    Every,
    IsNull,
    Leaf,
    Like,
    Node,
    Not,
    Op,
    leaves,
)
from acidctl.types.hive_types import Primitive, TypeKind
from acidctl.values import dataclass

# Since HIVE-8732 writers note bounds that hold, and since ORC-135 those of timestamps on the wall clock.
_SOUND_BOUNDS, _WALL_CLOCK = 1, 6
# What a moment may differ from its bounds by: the writer's time zone, and ORC's own second before 1970.
_CLOCK_DOUBT = 26 * 3600


def stripes_in(bounds: Sequence[tuple[RowId, RowId] | None], span: KeySpan) -> range:
    """The stripes that may hold keys of the span, by statistics alone: a key index can be wrong unnoticed."""
    met = [i for i, known in enumerate(bounds) if span.may_hold(*(known or (None, None)))]
    return range(met[0], met[-1] + 1) if met else range(0)


def stripes_with_rows(orc: RowFile, first: int, last: int) -> range:
    """The stripes that hold rows `first` to `last` (exclusive) of the file."""
    begin = end = at = 0
    for index, rows in enumerate(orc.stripe_rows):
        if at + rows <= first:
            begin = index + 1
        if at < last:
            end = index + 1
        at += rows
    return range(begin, max(begin, end))


@dataclass(frozen=True, slots=True)
class RawIds:
    """The row ids of a file that stores none: its rows are numbered from `offset` on; None is a file without any."""

    write_id: int
    bucket: int | None
    offset: int


def matching_stripes(
    orc: RowFile, where: Node, places: Callable[[Column], int | None], raw: RawIds | None, among: range | None
) -> Iterator[range]:
    """The stripes, of all or of `among`, that may hold a row that matches the condition, in runs of adjacent ones.

    `places` gives where a column stands in the file as it is, -1 where it has none, None where values are converted.
    `raw` are the row ids of a file that stores none.
    """
    among = range(len(orc.stripe_rows)) if among is None else among
    if isinstance(orc, ParquetFile):
        for index in among:
            if True in outcomes(where, _facts_in(orc, index, places)):
                yield range(index, index + 1)
        return
    if not isinstance(orc, OrcFile):
        yield among
        return
    judge = _Judge(orc, where, places, raw)
    if not judge.may_match(orc.tail.statistics, orc.tail.rows, 0):
        return
    # Those of a file with one stripe are the stripe's.
    statistics = orc.stripe_statistics() if len(orc.stripe_rows) > 1 else ()
    start = None
    row = sum(orc.stripe_rows[: among.start])
    for index in among:
        rows = orc.stripe_rows[index]
        known = statistics[index] if len(statistics) == len(orc.stripe_rows) else ()
        if judge.may_match(known, rows, row):
            start = index if start is None else start
        elif start is not None:
            yield range(start, index)
            start = None
        row += rows
    if start is not None:
        yield range(start, among.stop)


def file_may_match(orc: OrcFile, where: Node, places: Callable[[Column], int | None]) -> bool:
    """The same of a file of events as a whole, by its tail alone."""
    return _Judge(orc, where, places, None).may_match(orc.tail.statistics, orc.tail.rows, 0)


def rows_to_read(
    orc: OrcFile, where: Node, places: Callable[[Column], int | None], raw: RawIds | None, part: range
) -> int | None:
    """How many rows of adjacent stripes there are up to the last row group that may match; None is all of them."""
    before, rows = sum(orc.stripe_rows[: part[-1]]), orc.stripe_rows[part[-1]]
    if rows <= FEW_ROWS or not orc.tail.row_index_stride:
        return None
    with suppress(DamagedDataError):  # who reads all of the stripe does not need its index
        last = _Judge(orc, where, places, raw).last_match(orc, part[-1], before)
        return before - sum(orc.stripe_rows[: part.start]) + last
    return None


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a column: whether it may have NULLs and values, and bounds of these, as they are compared."""

    nulls: bool = True
    values: bool = True
    low: Any = None
    high: Any = None


_UNKNOWN = _Facts()
_NOT_READ = ColumnStatistics(None, None, None, None)
Outcomes = frozenset[bool | None]
_ANY: Outcomes = frozenset({True, False, None})


def _facts_in(file: ParquetFile, group: int, places: Callable[[Column], int | None]) -> Callable[[Column], _Facts]:
    """What a row group says of columns; of NULLs, and whether all are, it says nothing that every writer counts."""

    def facts(column: Column) -> _Facts:
        place = None if column.place < 0 else places(column)
        if place == -1:
            return _Facts(values=False)
        bounds = None if place is None else file.bounds(place, group)
        return _UNKNOWN if bounds is None else _Facts(low=bounds[0], high=bounds[1])

    return facts


class _Judge:
    """A condition, asked of the stripes of one file."""

    def __init__(self, orc: OrcFile, where: Node, places: Callable[[Column], int | None], raw: RawIds | None) -> None:
        self._tail = orc.tail
        self._where = where
        self._places = places
        self._raw = raw
        roots = orc.tail.types[0].subtypes
        self._ids = orc.tail.types[roots[-1]].subtypes if orc.is_acid else roots
        post = orc.tail.postscript
        self._version = post.writer_version
        self._sound = bool(orc.tail.row_index_stride) and self._version >= _SOUND_BOUNDS

    def may_match(self, statistics: Sequence[ColumnStatistics], rows: int, first: int) -> bool:
        """Whether one of so many rows may match; `first` is the place of the first in the file."""
        # Some writers leave row indexes out, and then count nothing.
        sound = self._sound and len(statistics) == len(self._tail.types) and statistics[0].count == rows

        def facts(column: Column) -> _Facts:
            if column.place < 0:
                return self._row_ids(column, statistics if sound else (), rows, first)
            place = self._places(column)
            if place == -1:
                return _Facts(values=False)
            if place is None or not sound or not isinstance(column.type, Primitive):
                return _UNKNOWN
            return _facts_of(statistics[self._ids[place]], rows, column.type.kind, self._tail, self._version)

        return True in outcomes(self._where, facts)

    def last_match(self, orc: OrcFile, index: int, before: int) -> int:
        """Where the last row group of a stripe that may match ends; `before` are the rows of the file before it."""
        rows, stride = orc.stripe_rows[index], self._tail.row_index_stride
        places = [self._places(leaf.column) for leaf in leaves(self._where) if leaf.column.place >= 0]
        read = {0, *(self._ids[place] for place in places if place is not None and place >= 0)}
        groups = {column: orc.group_statistics(index, column) for column in read}
        if any(len(found) != len(range(0, rows, stride)) for found in groups.values()):
            return rows
        for first in reversed(range(0, rows, stride)):
            known = [_NOT_READ] * len(self._tail.types)
            for column, found in groups.items():
                known[column] = found[first // stride] or _NOT_READ
            if self.may_match(known, min(stride, rows - first), before + first):
                return min(first + stride, rows)
        return 0

    def _row_ids(self, column: Column, statistics: Sequence[ColumnStatistics], rows: int, first: int) -> _Facts:
        part = column.place - WRITE_ID.place
        if self._raw is None:
            known = key_range(self._tail, statistics, rows)
        elif self._raw.bucket is None:
            return _Facts(values=False)
        else:
            ids = (self._raw.write_id, self._raw.bucket)
            low = self._raw.offset + first
            known = RowId(*ids, low), RowId(*ids, low + rows - 1)
        if known is None:
            return _Facts(nulls=False)
        low_part, high_part = ((key.write_id, key.bucket_property, key.row_id)[part] for key in known)
        return _Facts(nulls=False, low=low_part, high=high_part)


def _facts_of(stated: ColumnStatistics, rows: int, kind: TypeKind, tail: Tail, version: int) -> _Facts:
    if stated.count is None or stated.count > rows:
        return _UNKNOWN
    low, high = _bounds(stated, kind, tail, version) or (None, None)
    return _Facts(stated.count < rows, stated.count > 0, low, high)


def _bounds(stated: ColumnStatistics, kind: TypeKind, tail: Tail, version: int) -> tuple[Any, Any] | None:
    """The least and the greatest value that there may be, where that is beyond doubt.

    Of char it is not: whether bounds have the padding decides how control characters sort.
    """
    if kind in INTEGERS:
        return stated.span()
    values = stated.values
    if values is None:
        return None
    low, high = values.minimum, values.maximum
    if kind in FLOATS:
        # Rows that begin with NaN have no bounds, and are lost where bounds are merged; only the sum shows it.
        found: tuple[Any, Any] | None = None if values.sum is None or is_nan(values.sum) else (low, high)
    elif kind is TypeKind.DECIMAL:
        found = stated_decimal(low), stated_decimal(high)
    elif kind is TypeKind.DATE:
        found = None if low is None or (tail.is_hybrid and low < SWITCH_DAY) else (low, high)
    elif kind is TypeKind.TIMESTAMP and version >= _WALL_CLOCK:
        found = _clock_bounds(values.minimum_utc, values.maximum_utc, tail)
    elif kind in (TypeKind.STRING, TypeKind.VARCHAR) and values.kind is StatisticsKind.STRING:
        found = _bytes(values.lower_bound if low is None else low), _bytes(values.upper_bound if high is None else high)
    else:
        return None
    return None if found is None or None in found or not found[0] <= found[1] else found


def _bytes(bound: str | None) -> bytes | None:
    """A bound as it is stored; None where it is not valid UTF-8, which was replaced."""
    return None if bound is None or "\ufffd" in bound else bound.encode("utf-8", "surrogatepass")


def _clock_bounds(low: int | None, high: int | None, tail: Tail) -> tuple[Any, Any] | None:
    if low is None or high is None or (tail.is_hybrid and low // 1000 < SWITCH_DAY * SECONDS_PER_DAY + _CLOCK_DOUBT):
        return None
    return (low // 1000 - _CLOCK_DOUBT, 0), (high // 1000 + _CLOCK_DOUBT, 0)


# --- How a condition may come out.


def outcomes(node: Node, facts: Callable[[Column], _Facts]) -> Outcomes:
    """All ways in which a condition may come out, or more."""
    if isinstance(node, Constant):
        return frozenset({node.value})
    if isinstance(node, Not):
        return frozenset(None if one is None else not one for one in outcomes(node.part, facts))
    if isinstance(node, Comparison | Among | IsNull | Like):
        return _of_leaf(node, facts(node.column))
    decisive = not isinstance(node, Every)
    result = outcomes(node.parts[0], facts)
    for part in node.parts[1:]:
        pairs = product(result, outcomes(part, facts))
        result = frozenset(decisive if decisive in pair else None if None in pair else not decisive for pair in pairs)
    return result


def _of_leaf(leaf: Leaf, facts: _Facts) -> Outcomes:
    found: set[bool | None] = set()
    if isinstance(leaf, IsNull):
        return frozenset({*([True] if facts.nulls else []), *([False] if facts.values else [])})
    same = isinstance(leaf, Comparison) and leaf.op is Op.SAME
    if facts.nulls:
        found.add(False if same else None)
    if facts.values:
        found.update(_of_values(leaf, facts))
    return frozenset(found)


def _of_values(leaf: Comparison | Among | Like, facts: _Facts) -> Collection[bool | None]:
    if isinstance(leaf, Like):
        prefix = leaf.prefix.encode("utf-8", "surrogateescape")
        known = isinstance(facts.low, bytes)
        apart = known and (facts.low[: len(prefix)] > prefix or facts.high < prefix)
        return (False,) if apart else (True, False)
    signs = [_signs(leaf, value, facts) for value in (leaf.values if isinstance(leaf, Among) else (leaf.value,))]
    if None in signs:
        return _ANY
    if isinstance(leaf, Among):
        return (True, False) if any(0 in some for some in signs if some) else (False,)
    return {_TRUE_WHERE[leaf.op](sign) for sign in signs[0] or ()}


_TRUE_WHERE: dict[Op, Callable[[int], bool]] = {
    Op.EQUAL: lambda sign: sign == 0,
    Op.SAME: lambda sign: sign == 0,
    Op.NOT_EQUAL: lambda sign: sign != 0,
    Op.LESS: lambda sign: sign < 0,
    Op.AT_MOST: lambda sign: sign <= 0,
    Op.GREATER: lambda sign: sign > 0,
    Op.AT_LEAST: lambda sign: sign >= 0,
}


def _signs(leaf: Comparison | Among, value: Value, facts: _Facts) -> Collection[int] | None:
    """How values may lie to a literal: below (-1), at (0), above it (1); None where a value may become NULL."""
    assert isinstance(leaf.column.type, Primitive)
    kind = leaf.column.type.kind
    if leaf.as_ not in _OWN.get(kind, (As.BYTES,)):
        return None
    bounds: list[Any] = [facts.low, facts.high]
    if None in bounds:
        return (-1, 0, 1)
    if leaf.as_ is As.DOUBLE:
        bounds = [float(bound) for bound in bounds]
    elif leaf.as_ is As.MOMENT and kind is TypeKind.DATE:
        bounds = [(bound * SECONDS_PER_DAY, 0) for bound in bounds]
    if is_nan(value):
        return (-1,)  # where there are bounds there is no NaN
    low, high = (int(bound > value) - int(bound < value) for bound in bounds)
    return range(low, high + 1)


# What values of a type can be compared as without one of them becoming NULL.
_OWN = {
    **dict.fromkeys(NUMBERS, (As.NUMBER, As.DOUBLE)),
    TypeKind.BOOLEAN: (As.BOOLEAN, As.DOUBLE),
    TypeKind.DATE: (As.DAY, As.MOMENT),
    TypeKind.TIMESTAMP: (As.MOMENT,),
    TypeKind.TIMESTAMP_LOCAL: (As.MOMENT,),
}
