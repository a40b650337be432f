"""The fast backend: Arrow's ORC writer, given whole columns in the forms in which it keeps every bit.

Arrow's writer takes timestamps of one unit only, and cuts those before 1970 wrongly when they have a fraction; it knows
neither dictionary arrays nor char, and crashes on some unions. `formers` find a form in which it is right, and raise
NeedsExactWriter where there is no such form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po

from acidctl.format.events import EventBatch, EventKeys, Operation, flat
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.codec import Compression
from acidctl.orc.postprocess import rebuild
from acidctl.orc.schema_evolution import arrow_type, null_array
from acidctl.orc.tail_edit import Appended
from acidctl.types.format_scalars import seconds_and_nanos
from acidctl.types.hive_types import HiveType, Primitive, StructType, TypeKind, UnionType, children, kinds

# Arrow refuses 0. With a stride that no stripe reaches there is one entry a stripe, which the edited tail denies.
_NO_STRIDE = (1 << 31) - 1
# No dictionaries: C++ judges a column by its first 10,000 rows once and for all, and counts nothing of a dictionary
# towards the size of a stripe. 6 million different texts after 10,000 equal ones took 950 MB and twice the time, and
# 190 MB without; ten columns of which one repeats itself are 2 % larger in zlib, 12 % without a codec.
DICTIONARY_SHARE = 0.0
# Rows that Arrow hands to ORC at once: never more than a piece has, so that each piece is one.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Physical:
    """The physical form of a file with everything resolved: `bloom` are column ids, sizes in bytes, stride in rows."""

    compression: Compression
    stripe_size: int
    block_size: int
    row_index_stride: int
    bloom: frozenset[int]
    bloom_fpp: float


class ArrowBackend:
    """Writes pieces of at most 65536 rows; raises NeedsExactWriter before a value is lost."""

    def __init__(self, sink: Appended, columns: StructType, physical: Physical, *, acid: bool) -> None:
        self._sink = sink
        self._columns = columns
        self._acid = acid
        self._formers = formers(columns)
        self._fragile = has_union(columns)
        # The tail gets the real names.
        self._names = [f"c{i}" for i in range(len(columns.fields))]
        self._started = False
        self._writer: po.ORCWriter | None = po.ORCWriter(
            sink,
            batch_size=_BATCH_ROWS,
            stripe_size=physical.stripe_size,
            compression=physical.compression.name.lower() if physical.compression else "uncompressed",
            compression_block_size=physical.block_size,
            row_index_stride=physical.row_index_stride or _NO_STRIDE,
            dictionary_key_size_threshold=DICTIONARY_SHARE,
            bloom_filter_columns=sorted(physical.bloom) or None,
            bloom_filter_fpp=physical.bloom_fpp,
        )

    def write(self, piece: EventBatch) -> Iterator[int]:
        """Append; gives the numbers of rows of the piece after which a stripe may have ended, each at once."""
        assert self._writer is not None
        before = self._sink.tell()
        self._writer.write(self._table(piece))
        self._started = True
        if self._sink.tell() > before:
            yield len(piece)

    def close(self) -> None:
        """Write what is left and the tail."""
        assert self._writer is not None
        if not self._started:
            empty = np.empty(0, dtype=np.int64)
            self._writer.write(self._table(EventBatch(EventKeys(empty, empty, empty, empty))))
        self._writer.close()
        self._writer = None

    def abort(self) -> None:
        """Drop the writer and what it holds."""
        self._writer = None

    def _table(self, piece: EventBatch) -> pa.Table:
        columns = piece.columns or tuple(_nulls(self._columns, len(piece)))
        if not self._acid:
            return pa.table(self._formed(columns), names=self._names)
        keys = piece.keys
        deleted = None if keys.operation is None else keys.operation == Operation.DELETE
        validity = None
        if deleted is not None and deleted.any():
            if self._fragile:
                raise NeedsExactWriter("Arrow's writer crashes on a union below a NULL row")
            validity = pa.py_buffer(np.packbits(~deleted, bitorder="little"))
            columns = tuple(children_of(struct_of(columns, validity, len(piece))))
        row = struct_of(self._formed(columns), validity, len(piece))
        operation = _zeros(len(keys)) if keys.operation is None else pa.array(keys.operation.astype(np.int32))
        bucket = pa.array(keys.bucket.astype(np.int32))
        arrays = [operation, pa.array(keys.write_id), bucket, pa.array(keys.row_id), pa.array(keys.current), row]
        return pa.table(arrays, names=[*KEY_FIELDS, "row"])

    def _formed(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return [form(column) for form, column in zip(self._formers, columns, strict=True)]


@lru_cache(maxsize=2)
def _zeros(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, dtype=np.int32))


@lru_cache(maxsize=2)
def _nulls(columns: StructType, rows: int) -> list[pa.Array]:
    return [null_array(field.type, rows) for field in columns.fields]


# --- Columns in the forms that Arrow writes exactly.


_NANOS = 1_000_000_000
# Seconds that int64 holds in a unit, whatever the fraction.
_SECONDS = {"us": (1 << 63) // 1_000_000 - 1, "ns": (1 << 63) // _NANOS - 1}
_TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)
_TIMESTAMPS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL)

Former = Callable[[pa.Array], pa.Array]


class NeedsExactWriter(Exception):
    """A column holds what Arrow's writer cannot write exactly; the file has to be begun anew by the exact writer."""


def formers(columns: StructType) -> list[Former]:
    """Per column what makes its arrays writable; they keep state and serve one file.

    Raises NeedsExactWriter for types that Arrow's writer cannot be trusted with.
    """
    return [_former(field.type) for field in columns.fields]


def _former(kind: HiveType) -> Former:
    if isinstance(kind, Primitive):
        if kind.kind in _TIMESTAMPS:
            return _Timestamps(kind).form
        if kind.kind is TypeKind.CHAR:
            return lambda array: padded(text(array), kind.length or 0)
        return text if kind.kind in _TEXTS else partial(_plain, arrow_type(kind))
    inner = [_former(child) for child in children(kind)]
    if isinstance(kind, StructType):
        return partial(_struct, inner, has_union(kind))
    if isinstance(kind, UnionType):
        return partial(_union, inner)
    finishers = [partial(_finished, former) for former in inner]
    return lambda array: rebuild(array, finishers)


def _finished(former: Former, array: pa.Array, _: object) -> pa.Array:
    return former(array)


def has_union(kind: HiveType) -> bool:
    """Whether the type is a union or holds one."""
    return TypeKind.UNION in kinds(kind)


def text(array: pa.Array) -> pa.Array:
    """Text of any form as an array of strings, the bytes unchanged and unchecked."""
    array = decoded(array)
    if pa.types.is_string(array.type):
        return array
    if pa.types.is_binary(array.type):
        return array.view(pa.string())
    return array.cast(pa.binary()).view(pa.string())


def padded(array: pa.Array, length: int) -> pa.Array:
    """Strings filled with spaces to `length` characters, as Hive stores char; its statistics and filters count on it.

    Every byte that does not continue another begins a character, so text that is not UTF-8 is padded too.
    """
    missing = np.maximum(length - pc.utf8_length(array).fill_null(length).to_numpy(zero_copy_only=False), 0)
    if not missing.any():
        return array
    return pc.binary_join_element_wise(array, pc.binary_repeat(" ", pa.array(missing)), "")


def decoded(array: pa.Array) -> pa.Array:
    """The same values without a dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def children_of(array: pa.StructArray) -> list[pa.Array]:
    """The children of a struct, NULL where it is: a value below a NULL would be written as that of the next row."""
    array = flat(array)
    # `flatten` ends the process where a child is a union.
    return array.flatten() if array.null_count else [array.field(i) for i in range(array.type.num_fields)]


def struct_of(children: Sequence[pa.Array], validity: pa.Buffer | None, rows: int) -> pa.Array:
    """A struct of formed children under names of ours: those of files may be doubled and hold anything."""
    kind = pa.struct([pa.field(f"c{i}", child.type) for i, child in enumerate(children)])
    return pa.Array.from_buffers(kind, rows, [validity], children=list(children))


class _Timestamps:
    """Timestamps of one column, all in the unit that the first of them allow."""

    def __init__(self, kind: Primitive) -> None:
        self._zone = "UTC" if kind.kind is TypeKind.TIMESTAMP_LOCAL else None
        self._unit: str | None = None

    def form(self, array: pa.Array) -> pa.Array:
        valid = np.asarray(array.is_valid()) if array.null_count else None
        seconds, nanos = seconds_and_nanos(array)
        if valid is not None:
            seconds, nanos = np.where(valid, seconds, 0), np.where(valid, nanos, 0)
        if len(array) and int(seconds.min()) < 0 and nanos[seconds < 0].any():
            raise NeedsExactWriter("Arrow's writer cuts moments before 1970 wrongly")
        micros = not (nanos % 1000).any()
        if self._unit is None:
            # Microseconds hold every year of Hive's; nanoseconds only those from 1677 to 2262.
            self._unit = "us" if micros else "ns"
        limit = _SECONDS[self._unit]
        if (self._unit == "us" and not micros) or (len(array) and int(np.abs(seconds).max()) > limit):
            raise NeedsExactWriter(f"timestamps of one column do not fit one unit ({self._unit} was taken)")
        per_second, per_tick = (1_000_000, 1000) if self._unit == "us" else (_NANOS, 1)
        ticks = pa.array(seconds * per_second + nanos // per_tick, mask=None if valid is None else ~valid)
        return ticks.cast(pa.timestamp(self._unit, tz=self._zone))


def _plain(form: pa.DataType, array: pa.Array) -> pa.Array:
    """Values of a type that Arrow and ORC have alike."""
    array = decoded(array)
    return array if array.type.equals(form) else array.cast(form)


def _struct(inner: Sequence[Former], fragile: bool, array: pa.Array) -> pa.Array:
    array = flat(array)
    if fragile and array.null_count:
        raise NeedsExactWriter("Arrow's writer crashes on a union below a NULL struct")
    formed = [former(child) for former, child in zip(inner, children_of(array), strict=True)]
    return struct_of(formed, array.buffers()[0], len(array))


def _union(inner: Sequence[Former], array: pa.Array) -> pa.Array:
    """Unions as dense ones of their own values only; Arrow's have no NULL beside that of an alternative."""
    array = flat(array)
    tags = np.full(len(array), -1, dtype=np.int8)
    offsets = np.zeros(len(array), dtype=np.int32)
    values = []
    for tag, (places, held) in enumerate(alternatives(array, len(inner))):
        values.append(inner[tag](held))
        tags[places] = tag
        offsets[places] = np.arange(len(places), dtype=np.int32)
    if (tags < 0).any():
        raise NeedsExactWriter("Arrow has no NULL union")
    return pa.UnionArray.from_dense(pa.array(tags), pa.array(offsets), values)


def alternatives(array: pa.Array, count: int) -> Iterator[tuple[npt.NDArray[np.int64], pa.Array]]:
    """Of each alternative of unions the places that hold it, and the values there."""
    codes = np.asarray(array.type_codes)
    for tag in range(count):
        places = np.flatnonzero(codes == array.type.type_codes[tag])
        rows = np.asarray(array.offsets)[places] if array.type.mode == "dense" else places
        yield places, array.field(tag).take(pa.array(rows))
