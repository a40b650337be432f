"""Parquet files as streams of Arrow record batches, with the values that Hive shows.

Arrow's reader decodes the pages. What a file says of its writer decides about days and moments, as in Hive's
`ParquetRecordReaderBase` and `ETypeConverter`: INT96 counts from a Julian day and is in UTC, which Hive turns into the
wall clock of the zone in `writer.time.zone` when parquet-mr wrote it; days before 1582-10-15 are of the hybrid calendar
unless `writer.date.proleptic` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import AcidctlError, DamagedDataError, NotAcidTableError
from acidctl.fileformats.parquet_pages import MOST_TEXT, PageWatch, chunk_of, rows_that_fit
from acidctl.format.events import WIDE, floor_and_rest, rebuilt
from acidctl.orc.calendar import SWITCH_DAY, hybrid_seconds_to_proleptic, hybrid_to_proleptic, is_utc, wall_clock
from acidctl.types.hive_types import Dialect, Field, HiveType, ListType, MapType, Primitive, StructType, TypeKind

#: Hive's `ParquetRecordReaderBase` converts timestamps to the writer's zone only where this wrote them.
PARQUET_MR = "parquet-mr"
#: What Hive's `DataWritableWriteSupport` says of the writer, by which its readers convert.
WRITER_ZONE, DATE_PROLEPTIC, ZONE_LEGACY = (
    b"writer.time.zone",
    b"writer.date.proleptic",
    b"writer.zone.conversion.legacy",
)
BATCH_ROWS = 65536
_BATCH_BYTES = 6 << 20
_BUFFER_BYTES = 1 << 20
_HINT = "Restore the file from a copy."
_NANOS = 10**9
_MICROS = 10**6
# What a moment in nanoseconds since 1970 may be, in whole seconds.
_NARROW = (-(2**63) // _NANOS + 1, (2**63 - 1) // _NANOS - 1)

_KINDS = (
    (pa.types.is_boolean, TypeKind.BOOLEAN),
    (pa.types.is_int8, TypeKind.TINYINT),
    (pa.types.is_int16, TypeKind.SMALLINT),
    (pa.types.is_int32, TypeKind.INT),
    (pa.types.is_int64, TypeKind.BIGINT),
    (pa.types.is_float32, TypeKind.FLOAT),
    (pa.types.is_float64, TypeKind.DOUBLE),
    (pa.types.is_string, TypeKind.STRING),
    (pa.types.is_binary, TypeKind.BINARY),
    (pa.types.is_date32, TypeKind.DATE),
    (pa.types.is_timestamp, TypeKind.TIMESTAMP),
)
# Arrow's types for what Hive reads as something else; the largest unsigned ones overflow to NULL in Hive.
_READ_AS: tuple[tuple[Callable[[pa.DataType], bool], pa.DataType], ...] = (
    (pa.types.is_null, pa.int32()),
    (pa.types.is_uint8, pa.int32()),
    (pa.types.is_uint16, pa.int32()),
    (pa.types.is_uint32, pa.int32()),
    (pa.types.is_uint64, pa.int64()),
    (pa.types.is_time32, pa.int32()),
    (pa.types.is_time64, pa.int64()),
    (pa.types.is_duration, pa.int64()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_large_string, pa.string()),
    (pa.types.is_large_binary, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
)


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Turns what Arrow says of a file that it cannot read into DamagedDataError."""
    try:
        yield
    except AcidctlError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DamagedDataError(f"{name} cannot be read as Parquet: {text}", path=name, hint=_HINT) from error


def library() -> Any:
    """Arrow's module of that format, which takes a while to load."""
    import pyarrow.parquet

    return pyarrow.parquet


def opened(stream: BinaryIO, name: str, unit: str = "ns") -> Any:
    """Arrow's reader of an open file, INT96 as moments in that unit; DamagedDataError where there is no footer."""
    watch = PageWatch(stream, name)
    with readable(name):
        file = library().ParquetFile(
            pa.PythonFile(watch, mode="r"),
            coerce_int96_timestamp_unit=unit,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            arrow_extensions_enabled=False,
        )
        metadata, schema = file.metadata, file.schema
        repeated = [schema.column(leaf).max_repetition_level > 0 for leaf in range(metadata.num_columns)]
        watch.expect(
            chunk_of(metadata, group, leaf, repeated[leaf])
            for group in range(metadata.num_row_groups)
            for leaf in range(metadata.num_columns)
        )
    return file


class ParquetFile:
    """An open Parquet file of an insert-only table; see `plain.RowFile`.

    `by_position` are the table's columns where Hive takes those of the file by position and not by name.
    """

    is_acid = False
    dialect = Dialect.PARQUET

    def __init__(self, stream: BinaryIO, name: str, by_position: StructType | None = None) -> None:
        self.name = name
        self._stream = stream
        self._file = opened(stream, name)
        self._metadata = self._file.metadata
        with readable(name):
            self._schema = self._file.schema_arrow
        known = self._metadata.metadata or {}
        self._proleptic = known.get(DATE_PROLEPTIC, b"").lower() == b"true"
        # A file without a zone is of the reader's own zone, which is UTC here.
        zone = known.get(WRITER_ZONE, b"UTC").decode("utf-8", "replace")
        self._zone = zone if (self._metadata.created_by or "").startswith(PARQUET_MR) else "UTC"
        fields = [Field(field.name, _hive_type(field.type, f"{name}: column {field.name}")) for field in self._schema]
        if by_position is not None:
            names = [*by_position.names, *(f"_beyond_{i}" for i in range(len(fields)))]
            fields = [Field(name, field.type) for name, field in zip(names, fields, strict=False)]
        self.columns = StructType(tuple(fields))

    @property
    def rows(self) -> int:
        """Rows of the file, from its footer."""
        return int(self._metadata.num_rows)

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The rows of each row group."""
        return tuple(self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups))

    def rows_per_batch(self, most: int) -> int:
        """How many rows to take at a time; what pages hold when they are decompressed tells how wide rows are."""
        groups = [self._metadata.row_group(i) for i in range(self._metadata.num_row_groups)]
        widest = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=0)
        return min(most, max(1, int(_BATCH_BYTES / (widest + 8 * len(self._schema)))))

    def bounds(self, place: int, group: int) -> tuple[Any, Any] | None:
        """Values that no value of a column in a row group is less or greater than: whole numbers, days since 1970, text
        as bytes, decimals; None where that is in doubt.

        Floating point is, because some writers leave out NaN and minus zero, and so are moments. Arrow knows which
        writers compared wrongly.
        """
        kind, leaf = self._schema.field(place).type, sum(_leaves(self._schema.field(i).type) for i in range(place))
        column = self._file.schema.column(leaf)
        if pa.types.is_nested(kind) or column.path != self._schema.field(place).name:
            return None
        found = self._metadata.row_group(group).column(leaf).statistics
        if found is None or not found.has_min_max:
            return None
        low, high = found.min_raw, found.max_raw
        if pa.types.is_string(kind) and isinstance(low, bytes):
            return low, high
        if not isinstance(low, int) or isinstance(low, bool):
            return None
        if pa.types.is_decimal(kind):
            return Decimal(low).scaleb(-kind.scale), Decimal(high).scaleb(-kind.scale)
        if pa.types.is_date32(kind):
            return (low, high) if self._proleptic or low >= SWITCH_DAY else None
        return (low, high) if pa.types.is_signed_integer(kind) else None

    def is_wide(self) -> bool:
        """Whether a moment of the file is beyond what nanoseconds since 1970 hold; it reads the timestamp columns."""
        moments = [i for i, field in enumerate(self._schema) if _holds(field.type, pa.types.is_timestamp)]
        if not moments:
            return False
        batches = self.scan(fields=moments)
        return any(_holds(column.type, WIDE.equals) for batch in batches for column in batch.columns)

    def key_range(self) -> None:
        """No keys."""

    def operations(self) -> None:
        """No operations."""

    def stripe_key_ranges(self) -> tuple[None, ...]:
        """No keys."""
        return (None,) * len(self.stripe_rows)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int = BATCH_ROWS,
        fields: Sequence[int] | None = None,
        stripes: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream record batches of at most `batch_size` rows; `fields` are positions, `columns` names of columns.

        A timestamp column is timestamp[ns], or WIDE in batches that hold a moment beyond that. Raises DamagedDataError
        and StorageError.
        """
        places = list(range(len(self._schema))) if fields is None else list(fields)
        if columns is not None:
            places = [self.columns.names.index(name) for name in columns]
        groups = list(range(self._metadata.num_row_groups) if stripes is None else stripes)
        if not places:
            rows = sum(self._metadata.row_group(group).num_rows for group in groups)
            for start in range(0, rows, batch_size):
                none = pa.Array.from_buffers(pa.struct([]), min(batch_size, rows - start), [None])
                yield pa.RecordBatch.from_struct_array(none)
            return
        names = [self._schema.field(place).name for place in places]
        old = [name for name, place in zip(names, places, strict=True) if place in self._int96]
        with readable(self.name):
            coarse = opened(self._stream, self.name, "us") if old else None
            for some, rows in self._runs(groups, places, batch_size):
                finer = _batches(coarse, some, rows, old) if coarse is not None else None
                for batch in _batches(self._file, some, rows, names):
                    _require_texts(batch, self.name)
                    second = None if finer is None else next(finer)
                    arrays = [
                        self._finished(batch.column(name), None if name not in old or second is None else second[name])
                        for name in names
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, names=[self.columns.names[place] for place in places])

    def _runs(self, groups: Sequence[int], places: Sequence[int], most: int) -> Iterator[tuple[list[int], int]]:
        """Row groups that are read together, and rows at a time: `most`, fewer where they repeat long texts."""
        texts, leaf = [], 0
        for place, field in enumerate(self._schema):
            count = _leaves(field.type)
            if place in places:
                texts += [at for at in range(leaf, leaf + count) if self._is_text(at)]
            leaf += count
        some: list[int] = []
        rows, fit = 0, most
        for group in groups:
            some.append(group)
            rows += self._metadata.row_group(group).num_rows
            if texts:
                fit = min(fit, rows_that_fit(self._stream, self._metadata, group, texts, most))
            if rows >= most:
                yield some, fit
                some, rows, fit = [], 0, most
        if some:
            yield some, fit

    def _is_text(self, leaf: int) -> bool:
        return str(self._file.schema.column(leaf).physical_type) == "BYTE_ARRAY"

    @cached_property
    def _int96(self) -> frozenset[int]:
        """The places of the columns in which INT96 occurs, at any depth."""
        leaves = (self._file.schema.column(i) for i in range(len(self._file.schema)))
        old = {leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
        # A name may hold dots, so that the beginning of a path is not always a name.
        return frozenset(
            i
            for i, field in enumerate(self._schema)
            if field.name.partition(".")[0] in old and _holds(field.type, pa.types.is_timestamp)
        )

    def _finished(self, array: pa.Array, coarse: pa.Array | None) -> pa.Array:
        """The array with Hive's values; `coarse` has the same INT96 moments in microseconds, where there are any."""
        kind = array.type
        if pa.types.is_dictionary(kind):
            return self._finished(array.dictionary_decode(), coarse)
        if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return self._finished(array.cast(pa.list_(kind.value_type)), coarse)
        if pa.types.is_nested(kind):
            inner = None if coarse is None else _children(coarse)
            names = [field.name for field in kind] if pa.types.is_struct(kind) else ()
            return rebuilt(array, lambda i, child: self._finished(child, None if inner is None else inner[i]), names)
        if pa.types.is_timestamp(kind):
            if coarse is not None and coarse.type.unit == "us" and kind.unit == "ns":
                return self._old_moments(array, coarse)
            return _moments(array)
        if pa.types.is_date32(kind) and not self._proleptic:
            days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            moved = hybrid_to_proleptic(days)
            return array if moved is days else pa.array(moved.astype(np.int32), mask=_nulls(array)).cast(pa.date32())
        for is_kind, target in _READ_AS:
            if is_kind(kind):
                if pa.types.is_unsigned_integer(kind):
                    most = pa.scalar(2**31 - 1 if target.equals(pa.int32()) else 2**63 - 1, pa.uint64())
                    wide = array.cast(pa.uint64())
                    array = pc.if_else(pc.greater(wide, most), pa.scalar(None, pa.uint64()), wide)
                return array.cast(target)
        return array

    def _old_moments(self, array: pa.Array, coarse: pa.Array) -> pa.Array:
        """INT96 as Hive's `NanoTimeUtils` reads it; nanoseconds that overflow still tell what microseconds lack."""
        micros = coarse.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        nanos = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        with np.errstate(over="ignore"):
            rest = (nanos.view(np.uint64) - micros.view(np.uint64) * np.uint64(1000)).astype(np.int64)
        seconds, within = floor_and_rest(micros, _MICROS)
        # Days are labelled by the hybrid calendar, and the zone comes after that.
        seconds = hybrid_seconds_to_proleptic(seconds)
        if not is_utc(self._zone):
            seconds = wall_clock(seconds, self._zone, local_mean_time=True)
        return _clock(seconds, within * 1000 + rest, array)


def _batches(file: Any, groups: list[int], rows: int, names: list[str]) -> Iterator[Any]:
    return iter(file.iter_batches(rows, row_groups=groups, columns=names, use_threads=False))


def _require_texts(batch: pa.RecordBatch, name: str) -> None:
    """DamagedDataError for a text that is too long to be shown; only a large batch can hold one."""
    if batch.nbytes <= MOST_TEXT:
        return
    for column in batch.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            longest = pc.max(pc.binary_length(column)).as_py() or 0
            if longest > MOST_TEXT:
                raise DamagedDataError(
                    f"{name} has a text of {longest:,} bytes, and {MOST_TEXT:,} are the most that is read",
                    path=name,
                    hint="Read the table with Hive, or leave the column out with --columns.",
                )


def _children(array: pa.Array) -> list[pa.Array]:
    """What `rebuilt` hands to its function, in the same order."""
    if pa.types.is_struct(array.type):
        return [array.field(i) for i in range(array.type.num_fields)]
    return [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]


def _nulls(array: pa.Array) -> Any:
    return np.asarray(array.is_null())


def _moments(array: pa.Array) -> pa.Array:
    """A moment of INT64, which is the wall clock, or UTC where it says so."""
    plain = array.cast(pa.timestamp(array.type.unit))
    if array.type.unit == "ns":
        return plain
    ticks = {"s": 1, "ms": 1000, "us": _MICROS}[array.type.unit]
    seconds, rest = floor_and_rest(plain.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), ticks)
    return _clock(seconds, rest * (_NANOS // ticks), array)


def _clock(seconds: Any, nanos: Any, array: pa.Array) -> pa.Array:
    """timestamp[ns], or WIDE where that does not hold all; NULL where `array` is."""
    nulls = _nulls(array)
    known = seconds[~nulls]
    if not known.size or (known.min() >= _NARROW[0] and known.max() <= _NARROW[1]):
        ticks = np.where(nulls, 0, seconds) * _NANOS + nanos
        return pa.array(ticks, mask=nulls).cast(pa.timestamp("ns"))
    children = [pa.array(seconds), pa.array(nanos.astype(np.int32))]
    return pa.StructArray.from_arrays(children, fields=list(WIDE), mask=pa.array(nulls))


def _holds(kind: pa.DataType, wanted: Callable[[pa.DataType], bool]) -> bool:
    if wanted(kind):
        return True
    if pa.types.is_map(kind):
        return _holds(kind.key_type, wanted) or _holds(kind.item_type, wanted)
    return pa.types.is_nested(kind) and any(_holds(kind.field(i).type, wanted) for i in range(kind.num_fields))


def _leaves(kind: pa.DataType) -> int:
    """How many columns of Parquet there are of a type."""
    if pa.types.is_map(kind):
        return _leaves(kind.key_type) + _leaves(kind.item_type)
    return sum(_leaves(kind.field(i).type) for i in range(kind.num_fields)) if pa.types.is_nested(kind) else 1


def _hive_type(kind: pa.DataType, where: str) -> HiveType:
    """The Hive type of a column, as far as the file tells it; NotAcidTableError for what Hive has no type for."""
    if pa.types.is_dictionary(kind):
        return _hive_type(kind.value_type, where)
    kind = next((target for is_kind, target in _READ_AS if is_kind(kind)), kind)
    if pa.types.is_decimal(kind) and kind.precision <= 38:
        return Primitive(TypeKind.DECIMAL, precision=kind.precision, scale=kind.scale)
    if pa.types.is_map(kind):
        return MapType(_hive_type(kind.key_type, where), _hive_type(kind.item_type, where))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return ListType(_hive_type(kind.value_type, where))
    if pa.types.is_struct(kind):
        return StructType(tuple(Field(field.name, _hive_type(field.type, where)) for field in kind))
    for is_kind, hive in _KINDS:
        if is_kind(kind):
            return Primitive(hive)
    raise NotAcidTableError(f"{where} is {kind} in Parquet, for which Hive has no type", hint="Read it with Arrow.")


def row_count(stream: BinaryIO, name: str) -> int:
    """How many rows a file has, from its footer; DamagedDataError where there is none."""
    return int(opened(stream, name).metadata.num_rows)
