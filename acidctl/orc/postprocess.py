"""From the arrays of the C++ reader to the batches of a scan: which columns it reads, and what is done with each.

Arrow can leave out top-level columns only, and the columns of an ACID file all lie in one, the struct `row`.
Where no stripe has a NULL `row` our footer offers its fields as top-level columns, so that a scan reads just
the fields asked for; the struct is put together again here, without copying. Delete events have NULL rows:
there `row` is read whole.

`finisher` looks at a column's types once and returns None where the reader's array is right as it stands, so
that the common case costs nothing; else a function that rebuilds just the parts that differ, at any depth: wide
timestamps, NULL unions, calendars, char padding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.events import WIDE, as_arrow, flat
from acidctl.orc.calendar import (
    ORC_EPOCH,
    SWITCH_DAY,
    hybrid_seconds_to_proleptic,
    hybrid_to_proleptic,
    is_utc,
    wall_clock,
    zone_epoch,
)
from acidctl.orc.codec import CodecError
from acidctl.orc.input_file import Source
from acidctl.orc.protobuf import WireError
from acidctl.orc.rle import decode_bits, decode_v1, decode_v2
from acidctl.orc.stats import StatisticsKind
from acidctl.orc.stripe import EncodingKind, StreamKind, StripeFooter
from acidctl.orc.tail import OrcKind, Tail, damaged
from acidctl.types.hive_types import StructType
from acidctl.values import dataclass

# --- Single streams of a column, read stripe by stripe beside the C++ reader.
#
# Arrow's arrays leave out two things that streams hold: nanoseconds of timestamps beyond its own range, and which
# unions are NULL.


_MAX_STREAM = 128 << 20
# What is held, expanded, of the streams that are read beside.
_FREE_BYTES, _BYTES_OF_A_BYTE = 32 << 20, 64


class ColumnStream:
    """The values of the PRESENT or the SECONDARY stream of a column: `start` begins a stripe, `take` goes on in it.

    PRESENT says which values are not NULL, and of a stripe without it none is; SECONDARY are the coded nanoseconds of
    each timestamp that is not NULL.
    """

    def __init__(self, source: Source, column: int, kind: StreamKind) -> None:
        self._source = source
        self._column = column
        self._kind = kind
        self._runs: Iterator[npt.NDArray[Any]] = iter(())
        self._empty: npt.NDArray[Any] = np.empty(0, np.bool_ if kind is StreamKind.PRESENT else np.uint64)
        self._rest = self._empty
        #: Whether the stripe has the stream at all.
        self.exists = False

    def start(self, footer: StripeFooter, most: int) -> int:
        """Begin a stripe; how many bytes are held of the stream, at most `most`."""
        stream = footer.stream(self._kind, self._column)
        self.exists = stream is not None
        data = b""
        if stream is not None and stream.length:
            try:
                data = self._source.expanded(stream, min(most, _MAX_STREAM))
            except CodecError as error:
                raise self._damaged(str(error)) from error
        second = footer.encodings[self._column].kind is EncodingKind.DIRECT_V2
        decode = decode_bits if self._kind is StreamKind.PRESENT else decode_v2 if second else decode_v1
        self._runs = decode(data)
        self._rest = self._empty
        return len(data)

    def take(self, count: int) -> npt.NDArray[Any]:
        """The next `count` values of the stripe; DamagedDataError when there are fewer."""
        parts = [self._rest]
        have = len(self._rest)
        try:
            while have < count:
                run = next(self._runs)
                parts.append(run)
                have += len(run)
        except StopIteration:
            raise self._damaged(f"its {self._kind.name} stream ends too early") from None
        except WireError as error:
            raise self._damaged(str(error)) from error
        values = np.concatenate(parts)
        self._rest = values[count:]
        return values[:count]

    def _damaged(self, why: str) -> Exception:
        return damaged(self._source.tail.name, f"has a damaged column {self._column}: {why}")


# --- Timestamps that Arrow's 64-bit nanoseconds cannot hold, decoded exactly.
#
# Arrow's ORC reader turns every timestamp into nanoseconds and gives up outside the years 1677 to 2262; pyorc goes
# through Python objects and cannot take a string that is not UTF-8 in the same row. So a wide column is read in two
# halves: our footer declares it bigint, which makes the C++ reader deliver the raw seconds at whatever depth of
# structs, lists and maps the column lies; its nanoseconds are decoded here from the SECONDARY stream. Both halves are
# columns, and the result is a struct<seconds: int64, nanos: int32>: seconds since 1970 (floor) of the wall clock, or of
# UTC for instants.


_DAY_MS = 86_400_000
# What int64 nanoseconds hold, less two days for time zones and for the statistics' own rounding.
_NARROW_MS = (1 << 63) // 1_000_000 - 2 * _DAY_MS
_YEAR_1902_MS = -2_145_916_800_000


def wide_columns(tail: Tail, footers: Callable[[], Sequence[StripeFooter]]) -> frozenset[int]:
    """The ids of the timestamp columns that have to take the exact path.

    All whose statistics are absent, untrustworthy or reach beyond what Arrow holds. For a writer outside UTC
    also those that reach where the C++ reader and Java disagree: before 1902, and within a day of 1970-01-01.
    And every one where the C++ reader has no time zone database, which it wants even for UTC. The footers of stripes,
    which name the zone, are asked for only where it makes a difference.
    """
    blind = not _has_zones(os.environ.get("TZDIR") or "/usr/share/zoneinfo")

    def foreign(column: int) -> bool:
        return _needs_exact(tail, column, True) and not all(is_utc(footer.time_zone) for footer in footers())

    return frozenset(
        column
        for column, entry in enumerate(tail.types)
        if entry.kind in (OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT)
        and (blind or _needs_exact(tail, column, False) or (entry.kind is OrcKind.TIMESTAMP and foreign(column)))
    )


@lru_cache(maxsize=4)
def _has_zones(folder: str) -> bool:
    return all(os.path.exists(os.path.join(folder, zone)) for zone in ("GMT", "UTC"))


def _needs_exact(tail: Tail, column: int, foreign: bool) -> bool:
    if not tail.statistics:
        return True
    statistics = tail.statistics[column]
    if statistics.count == 0:
        # Writers without a row index leave every count at zero, whatever the column holds.
        return not tail.row_index_stride
    values = statistics.of(StatisticsKind.TIMESTAMP)
    if not tail.row_index_stride or values is None:
        return True
    low = values.minimum if values.minimum_utc is None else values.minimum_utc
    high = values.maximum if values.maximum_utc is None else values.maximum_utc
    if low is None or high is None or not -_NARROW_MS < low <= high < _NARROW_MS:
        return True
    return foreign and (low < _YEAR_1902_MS or (low < _DAY_MS and high > -_DAY_MS))


class WideColumn:
    """The second half of one wide column: its nanoseconds, stripe by stripe, and the making of its values."""

    def __init__(self, source: Source, column: int) -> None:
        self._stream = ColumnStream(source, column, StreamKind.SECONDARY)
        self._name = source.tail.name
        self._instant = source.tail.types[column].kind is OrcKind.TIMESTAMP_INSTANT
        self._zone: str | None = None
        self._epoch = ORC_EPOCH

    def start(self, footer: StripeFooter, most: int) -> int:
        """Begin a stripe in a zone that exists; how many bytes are held of it, at most `most`."""
        self._zone = None if self._instant or is_utc(footer.time_zone) else footer.time_zone
        self._epoch = ORC_EPOCH if self._zone is None else zone_epoch(self._zone)
        return self._stream.start(footer, most)

    def values(self, raw: pa.Array) -> pa.StructArray:
        """The wide values of raw seconds; NULL stays NULL."""
        valid = np.asarray(raw.is_valid())
        nanos = np.zeros(len(raw), dtype=np.int64)
        nanos[valid] = self._nanos(int(valid.sum()))
        with np.errstate(over="ignore"):
            seconds = np.asarray(raw.fill_null(0)) + self._epoch
            # Java's writer cuts towards zero and its reader takes a second off again, except below a
            # millisecond.
            seconds = seconds - ((seconds < 0) & (nanos > 999_999))
        if self._zone is not None:
            seconds = wall_clock(seconds, self._zone)
        return pa.StructArray.from_arrays(
            [as_arrow(seconds), as_arrow(nanos.astype(np.int32))], fields=list(WIDE), mask=as_arrow(~valid)
        )

    def _nanos(self, count: int) -> npt.NDArray[np.int64]:
        coded = self._stream.take(count)
        # The low three bits count the trailing zeros that were cut, less one; 0 means none.
        zeros = (coded & np.uint64(7)).astype(np.int64)
        scale = np.where(zeros == 0, 1, 10 ** (zeros + 1)).astype(np.uint64)
        nanos = (coded >> np.uint64(3)) * scale
        if count and int(nanos.max()) > 999_999_999:
            raise damaged(self._name, "has a timestamp column with impossible fractions")
        return nanos.astype(np.int64)


@dataclass(frozen=True, slots=True)
class ExtraStreams:
    """What is read beside the C++ reader, by column id: wide timestamps, and which unions are NULL."""

    wide: Mapping[int, WideColumn]
    unions: Mapping[int, ColumnStream]

    def start(self, footer: StripeFooter, stored: int) -> None:
        """Begin a stripe of a file of so many bytes; DamagedDataError when it has no room for such streams."""
        left = _FREE_BYTES + _BYTES_OF_A_BYTE * stored
        for timestamps in self.wide.values():
            left -= timestamps.start(footer, left)
        for presence in self.unions.values():
            left -= presence.start(footer, left)


# --- Nested Arrow arrays taken apart and put together with other children.
#
# Unions travel as Arrow unions with one child more than Hive's type has alternatives: a child of type null,
# whose code marks a union that is NULL itself. Arrow unions have no validity of their own, and a NULL union is
# not a union of NULL.


BoolArray = npt.NDArray[np.bool_]
#: Takes an array and the slots for which the file holds a value or a NULL (None: all); returns as many values.
Finisher = Callable[[pa.Array, BoolArray | None], pa.Array]

NULL_UNION = "null"


def rebuild(array: pa.Array, inner: Sequence[Finisher | None], held: BoolArray | None = None) -> pa.Array:
    """The same nesting with the children finished; validity and offsets stay as they are."""
    array = flat(array)
    kind = array.type
    if pa.types.is_struct(kind):
        # As an alternative of a union it has other slots too, for which the file holds nothing.
        if array.null_count:
            valid = np.asarray(array.is_valid())
            held = valid if held is None else valid & held
        children = [_apply(inner[i], array.field(i), held) for i in range(kind.num_fields)]
        new = pa.struct([kind.field(i).with_type(child.type) for i, child in enumerate(children)])
        return _with_children(array, new, 1, children)
    if pa.types.is_list(kind):
        child = _apply(inner[0], array.values, None)
        return _with_children(array, pa.list_(kind.value_field.with_type(child.type)), 2, [child])
    if pa.types.is_map(kind):
        keys, items = _apply(inner[0], array.keys, None), _apply(inner[1], array.items, None)
        new = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        entries = pa.StructArray.from_arrays([keys, items], fields=[new.key_field, new.item_field])
        return _with_children(array, new, 2, [entries])
    assert pa.types.is_union(kind)
    codes = np.asarray(array.type_codes)
    children = []
    for i, finish in enumerate(inner):
        mine = codes == array.type.type_codes[i]
        children.append(_apply(finish, array.field(i), mine if held is None else mine & held))
    return union(codes, children, held)


def union(codes: npt.NDArray[np.int8], children: Sequence[pa.Array], present: BoolArray | None) -> pa.Array:
    """A sparse union of full-length children; where `present` is False the union itself is NULL."""
    last = len(children)
    names = [*map(str, range(last)), NULL_UNION]
    marked = codes if present is None else np.where(present, codes, last).astype(np.int8)
    return pa.UnionArray.from_sparse(pa.array(marked), [*children, pa.nulls(len(codes))], names)


def _with_children(array: pa.Array, kind: pa.DataType, buffers: int, children: list[pa.Array]) -> pa.Array:
    kept = array.buffers()[:buffers]
    return pa.Array.from_buffers(kind, len(array), kept, array.null_count, children=children)


def _apply(finish: Finisher | None, array: pa.Array, held: BoolArray | None) -> pa.Array:
    return array if finish is None else finish(array, held)


def finisher(tail: Tail, column: int, extra: ExtraStreams) -> Finisher | None:
    """What is to be done with arrays of the column at this id, or None for nothing."""
    entry = tail.types[column]
    if column in extra.wide:
        return _wide(extra.wide[column], tail.is_hybrid and entry.kind is OrcKind.TIMESTAMP)
    if entry.kind is OrcKind.DATE:
        known = tail.statistics[column].of(StatisticsKind.DATE) if tail.statistics and tail.row_index_stride else None
        may_be_old = known is None or known.minimum is None or known.minimum < SWITCH_DAY
        return _hybrid_dates if tail.is_hybrid and may_be_old else None
    if entry.kind is OrcKind.CHAR:
        return lambda array, held: pc.ascii_rtrim(array, characters=" ")
    if entry.kind is OrcKind.DECIMAL and not entry.precision:
        return lambda array, held: array.cast(pa.decimal128(38, 10), safe=False)
    inner = [finisher(tail, child, extra) for child in entry.subtypes]
    if entry.kind is OrcKind.UNION:
        return _union(extra.unions[column], inner)
    if all(child is None for child in inner):
        return None
    return lambda array, held: rebuild(array, inner, held)


def _union(presence: ColumnStream, inner: list[Finisher | None]) -> Finisher:
    def finish(array: pa.Array, held: BoolArray | None) -> pa.Array:
        present = np.ones(len(array), dtype=np.bool_) if held is None else held.copy()
        if presence.exists:
            present[present] = presence.take(int(present.sum()))
        return rebuild(array, inner, present)

    return finish


def _wide(column: WideColumn, hybrid: bool) -> Finisher:
    def finish(array: pa.Array, held: BoolArray | None) -> pa.Array:
        # In a union's other slots Arrow's child holds something too, of which the file has no nanoseconds.
        result = column.values(array if held is None else pc.if_else(as_arrow(held), array, None))
        if not hybrid:
            return result
        seconds = hybrid_seconds_to_proleptic(np.asarray(result.field(0)))
        return pa.StructArray.from_arrays(
            [as_arrow(seconds), result.field(1)], fields=list(WIDE), mask=result.is_null()
        )

    return finish


def _hybrid_dates(array: pa.Array, held: BoolArray | None) -> pa.Array:
    days = np.asarray(array.cast(pa.int32()).fill_null(0)).astype(np.int64)
    moved = hybrid_to_proleptic(days)
    if moved is days:
        return array
    return as_arrow(moved.astype(np.int32), np.asarray(array.is_valid())).cast(pa.date32())


# --- Which columns are read.


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the delivered batches, of the columns of the file with these ids.

    It is the one column, or some of its fields (`keep`), or a struct of all of them with the names `struct_of`.
    """

    name: str
    columns: tuple[int, ...]
    struct_of: tuple[str, ...] | None = None
    keep: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Projection:
    """What one scan reads and delivers; `flat` says that our footer offers the fields of `row` at the top."""

    outputs: tuple[Output, ...]
    flat: bool

    @property
    def read(self) -> tuple[int, ...]:
        """The ids of the columns that Arrow reads, each once."""
        return tuple(dict.fromkeys(column for output in self.outputs for column in output.columns))

    def below(self, tail: Tail) -> frozenset[int]:
        """The ids of all columns that are decoded."""
        return frozenset(below for column in self.read for below in columns_below(tail, column))

    def assemble(self, batch: pa.RecordBatch, finishers: Mapping[int, Finisher | None]) -> pa.RecordBatch:
        """The delivered form of one batch."""
        parts = zip(finishers.items(), batch.columns, strict=True)
        arrays = {column: _apply(finish, array, None) for (column, finish), array in parts}
        outputs = [
            _output(output, [arrays[column] for column in output.columns], len(batch)) for output in self.outputs
        ]
        return pa.RecordBatch.from_arrays(outputs, names=[output.name for output in self.outputs])


def columns_below(tail: Tail, column: int) -> Iterator[int]:
    """The ids of a column and of all below it."""
    yield column
    for child in tail.types[column].subtypes:
        yield from columns_below(tail, child)


def project(
    tail: Tail,
    names: Sequence[str],
    indexes: Sequence[int],
    footers: Sequence[StripeFooter],
    *,
    row: StructType | None,
    fields: Sequence[int] | None,
) -> Projection:
    """Project the top-level columns at `indexes`; `fields` are the wanted fields of `row`, the last column."""
    roots = tail.types[0].subtypes
    outputs = [Output(names[index], (roots[index],)) for index in indexes]
    if row is None or fields is None:
        return Projection(tuple(outputs), False)
    # The struct is never NULL where no stripe has a PRESENT stream for it; a scan of no column at all would have no
    # rows.
    flatten = all(footer.stream(StreamKind.PRESENT, roots[-1]) is None for footer in footers)
    flatten = flatten and (bool(fields) or len(indexes) > 1)
    children = tail.types[roots[-1]].subtypes
    struct = Output(names[-1], (roots[-1],), keep=tuple(fields))
    if flatten:
        struct = Output(names[-1], tuple(children[i] for i in fields), tuple(row.fields[i].name for i in fields))
    return Projection(
        tuple(struct if index == len(roots) - 1 else output for index, output in zip(indexes, outputs, strict=True)),
        flatten,
    )


def _output(output: Output, arrays: list[pa.Array], rows: int) -> pa.Array:
    if output.struct_of is not None:
        kind = pa.struct([(name, array.type) for name, array in zip(output.struct_of, arrays, strict=True)])
        return pa.Array.from_buffers(kind, rows, [None], children=arrays)
    if output.keep is None:
        return arrays[0]
    array = flat(arrays[0])
    kind = pa.struct([array.type.field(i) for i in output.keep])
    children = [array.field(i) for i in output.keep]
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], array.null_count, children=children)
