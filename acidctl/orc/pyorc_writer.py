"""The exact backend: ORC's C++ writer through pyorc, value by value.

Slower than Arrow's by more than an order of magnitude, and able to write what that cannot: moments before 1970 with
fractions, timestamps of one column that no unit holds. Text goes through it as binary, since Hive's
strings may be other than UTF-8, and gets its type back in the tail; unions go as structs, which `stripe_sink` makes
unions again.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyorc
from pyorc.converters import ORCConverter

from acidctl.errors import DamagedDataError
from acidctl.format.events import EventBatch, Operation, flat
from acidctl.orc.arrow_writer import Physical, alternatives, decoded, padded, text
from acidctl.orc.tail import OrcKind, OrcType
from acidctl.orc.tail_edit import event_type, orc_types
from acidctl.types.format_scalars import seconds_and_nanos
from acidctl.types.hive_types import HiveType, ListType, MapType, Primitive, StructType, TypeKind, UnionType

# Values that pyorc holds before the C++ writer sees them; stripes end between such batches only.
_BATCH_ROWS = 1024
_BATCH_BYTES = 4 << 20
_TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR, TypeKind.BINARY)
_TIMESTAMPS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL)
_WORDS = {
    OrcKind.BYTE: "tinyint",
    OrcKind.SHORT: "smallint",
    OrcKind.LONG: "bigint",
    OrcKind.STRING: "binary",
    OrcKind.CHAR: "binary",
    OrcKind.VARCHAR: "binary",
    OrcKind.TIMESTAMP_INSTANT: "timestamp with local time zone",
}


# The list of an alternative that a union does not hold.
_NOTHING = ()


class _Moment(ORCConverter):
    """Timestamps come as (seconds, nanoseconds), dates as days: in the form that the C++ writer takes."""

    @staticmethod
    def from_orc(*args: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def to_orc(value: Any, zone: object = None) -> Any:
        return value


class _Unscaled(_Moment):
    """Decimals come as whole numbers of their last digit."""

    @staticmethod
    def to_orc(precision: int, scale: int, value: int) -> int:  # type: ignore[override]
        return value


_CONVERTERS: dict[pyorc.TypeKind, type[ORCConverter]] = {
    pyorc.TypeKind.TIMESTAMP: _Moment,
    pyorc.TypeKind.TIMESTAMP_INSTANT: _Moment,
    pyorc.TypeKind.DATE: _Moment,
    pyorc.TypeKind.DECIMAL: _Unscaled,
}


class ExactBackend:
    """Writes pieces of any size; see `ArrowBackend` for the methods."""

    def __init__(self, sink: io.RawIOBase, columns: StructType, physical: Physical, *, acid: bool) -> None:
        self._sink = sink
        self._columns = columns
        self._physical = physical
        self._acid = acid
        self._rows = 0
        self._batch_rows = _BATCH_ROWS
        self._writer: pyorc.Writer | None = None

    def write(self, piece: EventBatch) -> Iterator[int]:
        """Append; gives the numbers of rows of the piece after which a stripe may have ended, each at once."""
        if self._writer is None:
            width = sum(column.nbytes for column in piece.columns) // len(piece)
            self._batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // (width + 1)))
            self._writer = self._opened()
        rows = self._values(piece)
        done = 0
        while done < len(piece):
            count = min(self._batch_rows - self._rows % self._batch_rows, len(piece) - done)
            self._writer.writerows(islice(rows, count))
            self._rows += count
            done += count
            if not self._rows % self._batch_rows:
                yield done

    def close(self) -> None:
        """Write what is left and the tail."""
        if self._writer is None:
            self._writer = self._opened()
        self._writer.close()
        self._writer = None

    def abort(self) -> None:
        """Drop the writer and what it holds."""
        self._writer = None

    def _opened(self) -> pyorc.Writer:
        physical = self._physical
        return pyorc.Writer(
            cast(BinaryIO, self._sink),
            _type_text(orc_types(event_type(self._columns) if self._acid else self._columns), 0),
            batch_size=self._batch_rows,
            stripe_size=physical.stripe_size,
            row_index_stride=physical.row_index_stride,
            compression=pyorc.CompressionKind(int(physical.compression)),
            compression_block_size=physical.block_size,
            bloom_filter_columns=sorted(physical.bloom) or None,
            bloom_filter_fpp=physical.bloom_fpp,
            converters=_CONVERTERS,
        )

    def _values(self, piece: EventBatch) -> Iterator[tuple[Any, ...]]:
        fields = self._columns.fields
        given = zip(fields, piece.columns, strict=True) if piece.columns else ()
        columns = [_list(field.type, column) for field, column in given]
        rows: Iterator[tuple[Any, ...] | None] = zip(*columns, strict=True)
        if not self._acid:
            return rows  # type: ignore[return-value]
        keys = piece.keys
        if not columns:
            rows = iter([() if not fields else None] * len(piece))
        operation = np.zeros(len(keys), dtype=np.int64) if keys.operation is None else keys.operation
        if keys.operation is not None:
            rows = (None if op == Operation.DELETE else row for op, row in zip(operation.tolist(), rows, strict=True))
        parts = (operation, keys.write_id, keys.bucket, keys.row_id, keys.current)
        return zip(*(part.tolist() for part in parts), rows, strict=True)


def _type_text(types: tuple[OrcType, ...], column: int) -> str:
    """The type as pyorc's own text, with names that cannot offend, text as binary, unions as in `stripe_sink`."""
    entry = types[column]
    inner = [_type_text(types, child) for child in entry.subtypes]
    if entry.kind is OrcKind.STRUCT:
        return f"struct<{','.join(f'f{i}:{text}' for i, text in enumerate(inner))}>"
    if entry.kind is OrcKind.UNION:
        return f"struct<tag:tinyint,{','.join(f'a{i}:array<{text}>' for i, text in enumerate(inner))}>"
    if entry.kind is OrcKind.LIST:
        return f"array<{inner[0]}>"
    if entry.kind is OrcKind.MAP:
        return f"map<{inner[0]},{inner[1]}>"
    if entry.kind is OrcKind.DECIMAL:
        return f"decimal({entry.precision},{entry.scale})"
    return _WORDS.get(entry.kind, entry.kind.name.lower())


def _list(kind: HiveType, array: pa.Array) -> list[Any]:
    """The values of an array as pyorc takes them, None for NULL."""
    if isinstance(kind, Primitive):
        return _primitives(kind, decoded(array))
    array = flat(array)
    if isinstance(kind, UnionType):
        return _unions(kind, array)
    valid = np.asarray(array.is_valid()).tolist()
    if isinstance(kind, StructType):
        children = [_list(field.type, array.field(i)) for i, field in enumerate(kind.fields)]
        rows = zip(*children, strict=True) if children else ((),) * len(array)
        return [row if held else None for row, held in zip(rows, valid, strict=True)]
    ends = np.asarray(array.offsets).tolist()
    bounds = zip(ends[:-1], ends[1:], valid, strict=True)
    if isinstance(kind, ListType):
        values = _list(kind.element, array.values)
        return [values[start:end] if held else None for start, end, held in bounds]
    assert isinstance(kind, MapType)
    keys, items = _list(kind.key, array.keys), _list(kind.value, array.items)
    return [_map(keys[start:end], items[start:end]) if held else None for start, end, held in bounds]


def _map(keys: list[Any], items: list[Any]) -> dict[Any, Any]:
    """A dictionary with every pair, equal keys and keys without a hash included."""
    with suppress(TypeError):
        result = dict(zip(keys, items, strict=True))
        if len(result) == len(keys):
            return result
    return {_DISTINCT.get(type(key), lambda key: key)(key): item for key, item in zip(keys, items, strict=True)}


def _by_identity(kind: type) -> type:
    """A subclass whose values equal themselves only."""
    return type(kind.__name__, (kind,), {"__hash__": object.__hash__, "__eq__": object.__eq__})


_DISTINCT = {kind: _by_identity(kind) for kind in (int, float, bytes, tuple, list, dict)}
# bool cannot have a subclass, and pyorc takes a number as well.
_DISTINCT[bool] = _DISTINCT[int]


def _primitives(kind: Primitive, array: pa.Array) -> list[Any]:
    if kind.kind in _TIMESTAMPS:
        seconds, nanos = seconds_and_nanos(array)
        valid = np.asarray(array.is_valid())
        if (valid & (seconds == -1) & (nanos > 999_999)).any():
            raise DamagedDataError(
                "a timestamp lies within the last second before 1970, which ORC files cannot hold",
                hint="Correct the value with Hive first; every Hive would read it back a second later.",
            )
        moments = zip(seconds.tolist(), nanos.tolist(), valid.tolist(), strict=True)
        return [(second, nano) if held else None for second, nano, held in moments]
    if kind.kind is TypeKind.DECIMAL:
        array = flat(array.cast(pa.decimal128(kind.precision, kind.scale)))
        words = np.frombuffer(array.buffers()[1], dtype=np.uint64)[: 2 * len(array)] if len(array) else np.empty(0)
        low, high = words[0::2].tolist(), words[1::2].astype(np.uint64).view(np.int64).tolist()
        pairs = zip(low, high, np.asarray(array.is_valid()).tolist(), strict=True)
        return [(h << 64) + lo if held else None for lo, h, held in pairs]
    if kind.kind is TypeKind.DATE:
        array = array.cast(pa.int32())
    elif kind.kind in _TEXTS:
        strings = text(array)
        strings = padded(strings, kind.length or 0) if kind.kind is TypeKind.CHAR else strings
        array = strings.view(pa.binary())
    values: list[Any] = array.to_pylist()
    return values


def _unions(kind: UnionType, array: pa.Array) -> list[tuple[Any, ...] | None]:
    """Each as its tag and for each alternative a list, which has the value or none."""
    tags = np.full(len(array), -1)
    columns: list[list[Any]] = []
    for tag, (places, held) in enumerate(alternatives(array, len(kind.alternatives))):
        tags[places] = tag
        column: list[Any] = [_NOTHING] * len(array)
        for place, value in zip(places.tolist(), _list(kind.alternatives[tag], held), strict=True):
            column[place] = (value,)
        columns.append(column)
    return [row if row[0] >= 0 else None for row in zip(tags.tolist(), *columns, strict=True)]
