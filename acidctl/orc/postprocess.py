"""From the arrays of the C++ reader to the arrays of the contract: wide timestamps, NULL unions,
calendars, char padding.

`finisher` looks at a column's types once and returns None where the reader's array is right as it stands, so
that the common case costs nothing; else a function that rebuilds just the parts that differ, at any depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.arrays import WIDE
from acidctl.orc.calendar import hybrid_seconds_to_proleptic, hybrid_to_proleptic
from acidctl.orc.nesting import BoolArray, Finisher, rebuild
from acidctl.orc.stats import DateStatistics
from acidctl.orc.streams import PresentStream
from acidctl.orc.stripe import StripeFooter
from acidctl.orc.tail import Calendar, OrcKind, Tail
from acidctl.orc.wide_timestamps import WideColumn

_SWITCH_DAY = -141_427
# What is held, expanded, of the streams that are read beside.
_FREE_BYTES, _BYTES_OF_A_BYTE = 32 << 20, 64


def is_hybrid(tail: Tail) -> bool:
    """Whether days before 1582-10-15 are counted in the Julian calendar.

    Files of Hive 4 say so. Unmarked ones are proleptic, except those of the Java writer of Hive 2 and before.
    """
    if tail.calendar is not Calendar.UNKNOWN:
        return tail.calendar is Calendar.JULIAN_GREGORIAN
    return tail.by_hive2


@dataclass(frozen=True, slots=True)
class Beside:
    """What is read beside the C++ reader, by column id: wide timestamps, and which unions are NULL."""

    wide: Mapping[int, WideColumn]
    unions: Mapping[int, PresentStream]

    def start(self, footer: StripeFooter, stored: int) -> None:
        """Begin a stripe of a file of so many bytes; DamagedDataError when it has no room for such streams."""
        left = _FREE_BYTES + _BYTES_OF_A_BYTE * stored
        for timestamps in self.wide.values():
            left -= timestamps.start(footer, left)
        for presence in self.unions.values():
            left -= presence.start(footer, left)


def finisher(tail: Tail, column: int, beside: Beside) -> Finisher | None:
    """What is to be done with arrays of the column at this id, or None for nothing."""
    entry = tail.types[column]
    if column in beside.wide:
        return _wide(beside.wide[column], is_hybrid(tail) and entry.kind is OrcKind.TIMESTAMP)
    if entry.kind is OrcKind.DATE:
        return _hybrid_dates if is_hybrid(tail) and _may_be_old(tail, column) else None
    if entry.kind is OrcKind.CHAR:
        return _trim
    if entry.kind is OrcKind.DECIMAL and not entry.precision:
        return lambda array, held: array.cast(pa.decimal128(38, 10), safe=False)
    inner = [finisher(tail, child, beside) for child in entry.subtypes]
    if entry.kind is OrcKind.UNION:
        return _union(beside.unions[column], inner)
    if all(child is None for child in inner):
        return None
    return lambda array, held: rebuild(array, inner, held)


def _union(presence: PresentStream, inner: list[Finisher | None]) -> Finisher:
    def finish(array: pa.Array, held: BoolArray | None) -> pa.Array:
        present = np.ones(len(array), dtype=np.bool_) if held is None else held.copy()
        if presence.exists:
            present[present] = presence.take(int(present.sum()))
        return rebuild(array, inner, present)

    return finish


def _may_be_old(tail: Tail, column: int) -> bool:
    values = tail.statistics[column].values if tail.statistics else None
    if not tail.row_index_stride or not isinstance(values, DateStatistics) or values.minimum is None:
        return True
    return values.minimum < _SWITCH_DAY


def _wide(column: WideColumn, hybrid: bool) -> Finisher:
    def finish(array: pa.Array, held: BoolArray | None) -> pa.Array:
        # In a union's other slots Arrow's child holds something too, of which the file has no nanoseconds.
        result = column.values(array if held is None else pc.if_else(pa.array(held), array, None))
        if not hybrid:
            return result
        seconds = hybrid_seconds_to_proleptic(np.asarray(result.field(0)))
        return pa.StructArray.from_arrays(
            [pa.array(seconds), result.field(1)], fields=list(WIDE), mask=result.is_null()
        )

    return finish


def _hybrid_dates(array: pa.Array, held: BoolArray | None) -> pa.Array:
    days = np.asarray(array.cast(pa.int32()).fill_null(0)).astype(np.int64)
    moved = hybrid_to_proleptic(days)
    if moved is days:
        return array
    return pa.array(moved.astype(np.int32), mask=np.asarray(array.is_null())).cast(pa.date32())


def _trim(array: pa.Array, held: BoolArray | None) -> pa.Array:
    return pc.ascii_rtrim(array, characters=" ")
