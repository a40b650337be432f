"""What goes through pyorc, which is ORC's C++ library under Python values: the exact writer, and a second reader.

`ExactBackend` is slower than Arrow's writer by more than an order of magnitude, and able to write what that cannot:
moments before 1970 with fractions, timestamps of one column that no unit holds. Text goes through it as binary where it
is other than UTF-8, as Hive's strings may be, and gets its type back in the tail; unions go as structs, which
`StripeSink` makes unions again.

`Rows` is a second opinion on chosen rows of a file, as Arrow arrays of ours. It shares neither code nor decoder with
`reader`: pyorc carries a copy of the library of its own and knows nothing of our footers. What it cannot hold is not
compared, with a reason: the tag of a union, bytes that are not UTF-8.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyorc
from pyorc.converters import ORCConverter

from acidctl.errors import AcidctlError, DamagedDataError
from acidctl.format.events import WIDE, EventBatch, Operation, flat
from acidctl.format.names import EVENT_FIELDS
from acidctl.orc.arrow_writer import TEXTS, Physical, alternatives, decoded, padded, text
from acidctl.orc.reader import OrcFile
from acidctl.orc.tail import OrcKind, OrcType
from acidctl.orc.tail_edit import event_type, orc_types
from acidctl.types.format_scalars import seconds_and_nanos
from acidctl.types.hive_types import HiveType, ListType, MapType, Primitive, StructType, TypeKind, UnionType, kinds

# Values that pyorc holds before the C++ writer sees them; stripes end between such batches only.
_BATCH_ROWS = 1024
_BATCH_BYTES = 4 << 20
_TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR, TypeKind.BINARY)
_TIMESTAMPS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL)
_NANOS = 10**9
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
    """Timestamps as (seconds, nanoseconds): Python's datetime knows neither year 0 nor nanoseconds."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: object) -> tuple[int, int]:
        return seconds, nanoseconds

    @staticmethod
    def to_orc(value: Any, zone: object = None) -> Any:
        return value


class _Day(ORCConverter):
    """Dates as days since 1970."""

    @staticmethod
    def from_orc(value: Any) -> Any:
        return value

    @staticmethod
    def to_orc(value: Any) -> Any:
        return value


class _Decimal(_Day):
    """Read as text, written as whole numbers of the last digit."""

    @staticmethod
    def to_orc(precision: int, scale: int, value: int) -> int:  # type: ignore[override]
        return value


_CONVERTERS: dict[pyorc.TypeKind, type[ORCConverter]] = {
    pyorc.TypeKind.TIMESTAMP: _Moment,
    pyorc.TypeKind.TIMESTAMP_INSTANT: _Moment,
    pyorc.TypeKind.DATE: _Day,
    pyorc.TypeKind.DECIMAL: _Decimal,
}


class ExactBackend:
    """Writes pieces of any size; see `ArrowBackend` for the methods."""

    def __init__(
        self, sink: io.RawIOBase, columns: StructType, physical: Physical, *, acid: bool, as_text: bool = False
    ) -> None:
        self._sink = sink
        self._as_text = as_text
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
            self._type_text(),
            batch_size=self._batch_rows,
            stripe_size=physical.stripe_size,
            row_index_stride=physical.row_index_stride,
            compression=pyorc.CompressionKind(int(physical.compression)),
            compression_block_size=physical.block_size,
            bloom_filter_columns=sorted(physical.bloom) or None,
            bloom_filter_fpp=physical.bloom_fpp,
            converters=_CONVERTERS,
        )

    def _type_text(self) -> str:
        types = orc_types(event_type(self._columns) if self._acid else self._columns)
        row = types[types[0].subtypes[-1]] if self._acid else types[0]
        texts = zip(row.subtypes, self._columns.fields, strict=True) if self._as_text else ()
        return _type_text(types, 0, frozenset(column for column, field in texts if field.type.kind in TEXTS))

    def _column(self, kind: HiveType, array: pa.Array) -> list[Any]:
        """The values of a column of the table."""
        if self._as_text and isinstance(kind, Primitive) and kind.kind in TEXTS:
            values: list[Any] = _stored_text(kind, decoded(array)).to_pylist()
            return values
        return _list(kind, array)

    def _values(self, piece: EventBatch) -> Iterator[tuple[Any, ...]]:
        fields = self._columns.fields
        given = zip(fields, piece.columns, strict=True) if piece.columns else ()
        columns = [self._column(field.type, column) for field, column in given]
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


def _type_text(types: tuple[OrcType, ...], column: int, texts: frozenset[int] = frozenset()) -> str:
    """The type as pyorc's own text, with names that cannot offend, text but the columns in `texts` as binary, unions as
    in `StripeSink`.
    """
    entry = types[column]
    if column in texts:
        return "string"
    inner = [_type_text(types, child, texts) for child in entry.subtypes]
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
        array = _stored_text(kind, array).view(pa.binary())
    values: list[Any] = array.to_pylist()
    return values


def _stored_text(kind: Primitive, array: pa.Array) -> pa.Array:
    """Strings with the blanks of a char."""
    strings = text(array)
    return padded(strings, kind.length or 0) if kind.kind is TypeKind.CHAR else strings


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


class CannotRead(Exception):
    """pyorc cannot read the file for a reason that says nothing about the file; the text is a sentence's end."""


class _Nameless:
    """A file without its name: pyorc asks for it, and fails where its bytes are not UTF-8."""

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.seek, self.tell, self.seekable = file.read, file.seek, file.tell, file.seekable


class Rows:
    """Open with pyorc; `columns` are positions in `OrcFile.columns` and the only ones read."""

    def __init__(self, file: BinaryIO, orc: OrcFile, columns: Sequence[int]) -> None:
        self._acid = orc.is_acid
        names = [orc.columns.names[i] for i in columns]
        chosen: list[str] = []
        if len(columns) < len(orc.columns.fields):
            # Names are all that pyorc takes: dots divide what is nested, and of two equal ones it takes one.
            if any("." in name or names.count(name) > 1 for name in names):
                raise CannotRead("its column names do not say which column is meant")
            keys = [orc.tail.types[0].names[i] for i in range(len(EVENT_FIELDS) - 1)] if self._acid else []
            row = orc.tail.types[0].names[-1]
            chosen = [*keys, *(f"{row}.{name}" if self._acid else name for name in names)]
        try:
            self._reader = pyorc.Reader(
                cast(BinaryIO, _Nameless(file)),
                batch_size=256,
                column_names=chosen,
                converters=_CONVERTERS,
            )
        except AcidctlError:
            raise
        except Exception as error:
            raise _judged(error) from error

    def __len__(self) -> int:
        return len(self._reader)

    def read(self, start: int, count: int) -> tuple[list[tuple[int, ...]], list[tuple[Any, ...] | None]]:
        """Keys (as stored; empty tuples in a file without) and values of `count` rows from `start` (of the file).

        A row is None where an event has none, and empty where no column was asked for. CannotRead, or ValueError when
        pyorc finds the file at fault. It goes by the row index, and wrong positions there end the process.
        """

        def rows() -> list[Any]:
            self._reader.seek(start)
            return self._reader.read(count)

        return self._split(rows)

    def read_stripe(self, index: int, count: int) -> tuple[list[tuple[int, ...]], list[tuple[Any, ...] | None]]:
        """The same of the first rows of a stripe, without its row index."""
        return self._split(lambda: self._reader.read_stripe(index).read(count))

    def _split(self, read: Callable[[], list[Any]]) -> tuple[list[tuple[int, ...]], list[tuple[Any, ...] | None]]:
        try:
            rows = read()
        except AcidctlError:
            raise
        except Exception as error:
            raise _judged(error) from error
        if not self._acid:
            return [()] * len(rows), rows
        keys = [row[:5] for row in rows]
        return keys, [row[5] if len(row) > 5 else () for row in rows]


def _judged(error: Exception) -> Exception:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, UnicodeDecodeError):
        return CannotRead("a string is not valid UTF-8")
    if "zoneinfo" in text or "timezone" in text.lower():
        return CannotRead(f"there is no time zone database for it ({text})")
    return ValueError(text)


def incomparable(kind: HiveType, orc: OrcFile) -> str | None:
    """Why columns of a type cannot be compared at all, None if they can."""
    below = kinds(kind)
    if TypeKind.UNION in below:
        return "pyorc does not tell which alternative of a union it read"
    if orc.tail.is_hybrid and below & {TypeKind.DATE, TypeKind.TIMESTAMP}:
        return "pyorc knows no hybrid calendar"
    return None


def unreadable(kind: HiveType, values: pa.Array) -> str | None:
    """Why pyorc cannot deliver these very values, None if it can."""
    if kinds(kind) & {TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR}:
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            return "pyorc reads no string that is not valid UTF-8"
    return None


def undecided(kind: HiveType, values: pa.Array) -> str | None:
    """Why a difference in these values proves nothing, None if it does."""
    below = kinds(kind)
    if TypeKind.FLOAT in below and _any(values.to_pylist(), lambda value: isinstance(value, float) and value != value):
        return "pyorc may change the bits of a NaN"
    if TypeKind.MAP in below and _any(values.to_pylist(), _repeats):
        return "pyorc keeps one of the equal keys of a map"
    return None


def as_arrow(values: Sequence[Any], kind: HiveType, form: pa.DataType) -> pa.Array:
    """Values from `Rows.read` as an array of our reader's type for the column; ValueError where they do not fit."""
    convert = _converter(kind, form)
    try:
        return pa.array(values if convert is None else [None if v is None else convert(v) for v in values], form)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error


def _converter(kind: HiveType, form: pa.DataType) -> Callable[[Any], Any] | None:
    """From pyorc's value to what `pa.array` takes; None where they are the same."""
    if kind.kind is TypeKind.CHAR:
        return lambda value: value.rstrip(" ")
    if kind.kind is TypeKind.DECIMAL:
        return Decimal
    if kind.kind in _TIMESTAMPS:
        if form.equals(WIDE):
            return None
        return lambda value: value[0] * _NANOS + value[1]
    if isinstance(kind, ListType):
        element = _nullable(_converter(kind.element, form.value_type))
        return lambda value: [element(item) for item in value]
    if isinstance(kind, MapType):
        key, item = _nullable(_converter(kind.key, form.key_type)), _nullable(_converter(kind.value, form.item_type))
        return lambda value: [(key(k), item(v)) for k, v in value.items()]
    if isinstance(kind, StructType):
        inner = [_nullable(_converter(field.type, form.field(i).type)) for i, field in enumerate(kind.fields)]
        return lambda value: tuple(convert(item) for convert, item in zip(inner, value, strict=True))
    return None


def _nullable(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _any(value: Any, matches: Callable[[Any], bool]) -> bool:
    """Whether anything in nested Python values matches."""
    if matches(value):
        return True
    if isinstance(value, Mapping):
        return any(_any(item, matches) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_any(item, matches) for item in value)
    return False


def _repeats(value: Any) -> bool:
    """Whether a value is the list of pairs of a map in which two keys are equal."""
    if not isinstance(value, list) or not value or not all(isinstance(p, tuple) and len(p) == 2 for p in value):
        return False
    keys = [pair[0] for pair in value]
    with suppress(TypeError):
        return len(set(keys)) < len(keys)
    return any(key in keys[:i] for i, key in enumerate(keys))
