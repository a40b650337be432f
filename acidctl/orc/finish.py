"""From the arrays of the C++ reader to the arrays of the contract: wide timestamps, calendars, char padding.

`finisher` looks at a column's types once and returns None where the reader's array is right as it stands, so
that the common case costs nothing; else a function that rebuilds just the parts that differ, at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.orc.calendar import hybrid_seconds_to_proleptic, hybrid_to_proleptic
from acidctl.orc.exact import WIDE, WideColumn
from acidctl.orc.nesting import Finisher, rebuild
from acidctl.orc.stats import DateStatistics
from acidctl.orc.tail import Calendar, OrcKind, Tail, Writer

_SWITCH_DAY = -141_427
# The first version of the Java writer that Hive 3 carries (ORC 1.5, ORC-135); it writes proleptic dates and
# says nothing.
_ORC_135 = 6


def is_hybrid(tail: Tail) -> bool:
    """Whether days before 1582-10-15 are counted in the Julian calendar.

    Files of Hive 4 say so. Unmarked ones are proleptic, except those of the Java writer of Hive 2 and before.
    """
    if tail.calendar is not Calendar.UNKNOWN:
        return tail.calendar is Calendar.JULIAN_GREGORIAN
    return tail.writer is Writer.ORC_JAVA and tail.postscript.writer_version < _ORC_135


def finisher(tail: Tail, column: int, wide: Mapping[int, WideColumn]) -> Finisher | None:
    """What is to be done with arrays of the column at this id, or None for nothing."""
    entry = tail.types[column]
    if column in wide:
        return _wide(wide[column], is_hybrid(tail) and entry.kind is OrcKind.TIMESTAMP)
    if entry.kind is OrcKind.DATE:
        return _hybrid_dates if is_hybrid(tail) and _may_be_old(tail, column) else None
    if entry.kind is OrcKind.CHAR:
        return _trim
    if entry.kind is OrcKind.DECIMAL and not entry.precision:
        return lambda array: array.cast(pa.decimal128(38, 10), safe=False)
    inner = [finisher(tail, child, wide) for child in entry.subtypes]
    if all(child is None for child in inner):
        return None
    return lambda array: rebuild(array, inner)


def _may_be_old(tail: Tail, column: int) -> bool:
    values = tail.statistics[column].values if tail.statistics else None
    if not tail.row_index_stride or not isinstance(values, DateStatistics) or values.minimum is None:
        return True
    return values.minimum < _SWITCH_DAY


def _wide(column: WideColumn, hybrid: bool) -> Finisher:
    def finish(array: pa.Array) -> pa.Array:
        result = column.values(array)
        if not hybrid:
            return result
        seconds = hybrid_seconds_to_proleptic(np.asarray(result.field(0)))
        return pa.StructArray.from_arrays(
            [pa.array(seconds), result.field(1)], fields=list(WIDE), mask=result.is_null()
        )

    return finish


def _hybrid_dates(array: pa.Array) -> pa.Array:
    days = np.asarray(array.cast(pa.int32()).fill_null(0)).astype(np.int64)
    moved = hybrid_to_proleptic(days)
    if moved is days:
        return array
    return pa.array(moved.astype(np.int32), mask=np.asarray(array.is_null())).cast(pa.date32())


def _trim(array: pa.Array) -> pa.Array:
    return pc.ascii_rtrim(array, characters=" ")
