"""The exact backend: ORC's C++ writer through pyorc, value by value.

Slower than Arrow's by more than an order of magnitude, and able to write what that cannot: moments before 1970 with
fractions, timestamps of one column that no unit holds. Text goes through it as binary, since Hive's
strings may be other than UTF-8, and gets its type back in the tail; unions go as structs, which `UnionSink` makes
unions again.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import islice, pairwise
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyorc
from pyorc.converters import ORCConverter

from acidctl.errors import DamagedDataError, InternalError
from acidctl.format.events import EventBatch, Operation, flat
from acidctl.orc.arrow_writer import Physical, decoded, has_union, padded, text
from acidctl.orc.codec import CodecError, expand, pack
from acidctl.orc.protobuf import Message, block, encode_varint, number, rewritten
from acidctl.orc.stripe import (
    INDEX_KINDS,
    EncodingKind,
    Stream,
    StreamKind,
    StripeFooter,
    found_footer,
    recorded,
    union_positions,
)
from acidctl.orc.tail import MAGIC, OrcKind, OrcType
from acidctl.orc.tail_edit import (
    STATISTICS,
    TYPES,
    Appended,
    HeldSink,
    Lengths,
    MovedStripes,
    end_lengths,
    event_type,
    orc_types,
)
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


class _Converter(ORCConverter):
    """Values come in the form that the C++ writer takes."""

    @staticmethod
    def from_orc(*args: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def to_orc(*args: Any) -> Any:
        raise NotImplementedError


class _Clock(_Converter):
    """Timestamps come as (seconds, nanoseconds)."""

    @staticmethod
    def to_orc(value: tuple[int, int], zone: object) -> tuple[int, int]:
        return value


class _Day(_Converter):
    """Dates come as days."""

    @staticmethod
    def to_orc(value: int) -> int:
        return value


class _Unscaled(_Converter):
    """Decimals come as whole numbers of their last digit."""

    @staticmethod
    def to_orc(precision: int, scale: int, value: int) -> int:
        return value


_CONVERTERS: dict[pyorc.TypeKind, type[ORCConverter]] = {
    pyorc.TypeKind.TIMESTAMP: _Clock,
    pyorc.TypeKind.TIMESTAMP_INSTANT: _Clock,
    pyorc.TypeKind.DATE: _Day,
    pyorc.TypeKind.DECIMAL: _Unscaled,
}


class ExactBackend:
    """Writes pieces of any size; see `ArrowBackend` for the methods."""

    def __init__(self, sink: HeldSink, columns: StructType, physical: Physical, *, acid: bool) -> None:
        self._sink = sink
        self._columns = columns
        self._physical = physical
        self._acid = acid
        self._types = orc_types(event_type(columns) if acid else columns)
        self._rows = 0
        self._unions = UnionSink(sink, self._types, physical) if has_union(columns) else None
        self._batch_rows = _BATCH_ROWS
        self._writer: pyorc.Writer | None = None

    def write(self, piece: EventBatch) -> tuple[int, ...]:
        """Append; gives the numbers of rows of the piece after which a stripe may have ended."""
        if self._writer is None:
            width = sum(column.nbytes for column in piece.columns) // len(piece)
            self._batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES // (width + 1)))
            self._writer = self._opened()
        before, self._rows = self._rows, self._rows + len(piece)
        ends = tuple(range(self._batch_rows - before % self._batch_rows, len(piece) + 1, self._batch_rows))
        rows = self._values(piece)
        if self._unions is None:
            self._writer.writerows(rows)
            return ends
        for start, end in pairwise((0, *ends, len(piece))):
            self._writer.writerows(islice(rows, end - start))
            self._unions.pass_on()
        return ends

    def close(self) -> None:
        """Write what is left and the tail."""
        if self._writer is None:
            self._writer = self._opened()
        self._writer.close()
        self._writer = None
        if self._unions is not None:
            self._unions.finish()

    def abort(self) -> None:
        """Drop the writer and what it holds."""
        self._writer = None

    def _opened(self) -> pyorc.Writer:
        physical, unions = self._physical, self._unions
        bloom = physical.bloom if unions is None else map(unions.written_id, physical.bloom)
        return pyorc.Writer(
            cast(BinaryIO, self._sink if unions is None else unions),
            _type_text(self._types, 0),
            batch_size=self._batch_rows,
            stripe_size=physical.stripe_size,
            row_index_stride=physical.row_index_stride,
            compression=pyorc.CompressionKind(int(physical.compression)),
            compression_block_size=physical.block_size,
            bloom_filter_columns=sorted(bloom) or None,
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
    """The type as pyorc's own text, with names that cannot offend, text as binary, and unions as `unions` has them."""
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
    pairs = list(zip(keys, items, strict=True))
    try:
        result = dict(pairs)
    except TypeError:
        result = {}
    return result if len(result) == len(pairs) else {_distinct(key): item for key, item in pairs}


def _distinct(key: Any) -> Any:
    kind = _DISTINCT.get(type(key))
    return key if kind is None else kind(key)


def _by_identity(kind: type) -> type:
    """A subclass whose values equal themselves only."""
    return type(kind.__name__, (kind,), {"__hash__": object.__hash__, "__eq__": object.__eq__})


_DISTINCT = {kind: _by_identity(kind) for kind in (int, float, bytes, tuple, list, dict)}
# bool cannot have a subclass, and pyorc takes a number as well.
_DISTINCT[bool] = _DISTINCT[int]


def _primitives(kind: Primitive, array: pa.Array) -> list[Any]:
    if kind.kind in _TIMESTAMPS:
        return _moments(array)
    if kind.kind is TypeKind.DECIMAL:
        return _unscaled(array.cast(pa.decimal128(kind.precision, kind.scale)))
    if kind.kind is TypeKind.DATE:
        return _values(array.cast(pa.int32()))
    if kind.kind in _TEXTS:
        strings = text(array)
        strings = padded(strings, kind.length or 0) if kind.kind is TypeKind.CHAR else strings
        return _values(strings.view(pa.binary()))
    return _values(array)


def _values(array: pa.Array) -> list[Any]:
    result: list[Any] = array.to_pylist()
    return result


def _moments(array: pa.Array) -> list[tuple[int, int] | None]:
    seconds, nanos = seconds_and_nanos(array)
    valid = np.asarray(array.is_valid())
    if (valid & (seconds == -1) & (nanos > 999_999)).any():
        raise DamagedDataError(
            "a timestamp lies within the last second before 1970, which ORC files cannot hold",
            hint="Correct the value with Hive first; every Hive would read it back a second later.",
        )
    rows = zip(seconds.tolist(), nanos.tolist(), valid.tolist(), strict=True)
    return [(second, nano) if held else None for second, nano, held in rows]


def _unscaled(array: pa.Array) -> list[int | None]:
    array = flat(array)
    words = np.frombuffer(array.buffers()[1], dtype=np.uint64)[: 2 * len(array)] if len(array) else np.empty(0)
    low, high = words[0::2].tolist(), words[1::2].astype(np.uint64).view(np.int64).tolist()
    valid = np.asarray(array.is_valid()).tolist()
    return [(h << 64) + lo if held else None for lo, h, held in zip(low, high, valid, strict=True)]


def _unions(kind: UnionType, array: pa.Array) -> list[tuple[Any, ...] | None]:
    """Each as its tag and for each alternative a list, which has the value or none."""
    codes = np.asarray(array.type_codes)
    tags = np.full(len(array), -1)
    columns: list[list[Any]] = []
    for tag, alternative in enumerate(kind.alternatives):
        places = np.flatnonzero(codes == array.type.type_codes[tag])
        rows = np.asarray(array.offsets)[places] if array.type.mode == "dense" else places
        tags[places] = tag
        column: list[Any] = [_NOTHING] * len(array)
        values = _list(alternative, array.field(tag).take(pa.array(rows)))
        for place, value in zip(places.tolist(), values, strict=True):
            column[place] = (value,)
        columns.append(column)
    return [row if row[0] >= 0 else None for row in zip(tags.tolist(), *columns, strict=True)]


# --- Unions that the C++ writer never sees: written as structs, and made unions again in each finished stripe.
#
# For a NULL union ORC's C++ writer (2.3.1) counts with a tag and a place that nobody has set, and pyorc chooses tags by
# the Python value and gives unions in arrays and maps no room beyond a batch. So uniontype<A, B> is written as
# struct<tag: tinyint, array<A>, array<B>>: the array of the tag holds the one value, the others none, and a NULL union
# is a NULL struct. ORC stores a union as PRESENT, the tags in DATA (runs of bytes, as of a tinyint), and for each
# alternative a column of its own values one after the other, which the elements of such an array are. So what is left
# to do is to leave streams out and to number columns anew; no value is decoded.
#
# Positions in the union's row index are those of PRESENT and then of DATA (ORC Java: `UnionTreeWriter.recordPosition`,
# `UnionTreeReader.seek`), its statistics count the values that are not NULL and say nothing else, as a struct's.


# Numbers of fields: of a stripe's footer, of a stream in it, of a type, and of stripe statistics on both levels.
_STREAMS, _ENCODINGS = 1, 2
_COLUMN, _LENGTH = 2, 3
_KIND, _SUBTYPES, _NAMES = 1, 2, 3
_PARTS = 1
# A footer of more writes than these would be one of some ten thousand columns.
_FOOTER_WRITES = 64


class Part(Enum):
    """What a written column is of the one it belongs to: itself, the tags of a union, or the array around a value."""

    SELF = "self"
    TAGS = "tags"
    ARRAY = "array"


class Written(NamedTuple):
    """A column as it is written, of the column with this id."""

    column: int
    part: Part


def written_columns(types: Sequence[OrcType], column: int = 0) -> Iterator[Written]:
    """The columns that stand for `column` and those below it, in the order of their ids."""
    entry = types[column]
    union = entry.kind is OrcKind.UNION
    yield Written(column, Part.SELF)
    if union:
        yield Written(column, Part.TAGS)
    for child in entry.subtypes:
        if union:
            yield Written(column, Part.ARRAY)
        yield from written_columns(types, child)


class UnionSink(io.RawIOBase):
    """A file for a writer of substituted unions; keeps what is written until `pass_on` or `finish`.

    Each stream and each footer has to begin with a write of its own (`igzip_writer` relies on the same).
    """

    def __init__(self, target: Appended, types: Sequence[OrcType], physical: Physical) -> None:
        super().__init__()
        self._target = target
        self._types = types
        self._physical = physical
        self._columns = tuple(written_columns(types))
        self._held = bytearray()
        self._starts: list[int] = []
        self._stripes = MovedStripes(target, physical.compression, physical.block_size)

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Take bytes."""
        self._starts.append(len(self._held))
        self._held += data
        return len(data)

    def writable(self) -> bool:
        return True

    def written_id(self, column: int) -> int:
        """The id with which a column is written."""
        return self._columns.index(Written(column, Part.SELF))

    def pass_on(self) -> None:
        """Send the stripe that was written since the last call, if one was."""
        self._pass_on(len(self._held))

    def finish(self) -> None:
        """Send what is left, of a file that is complete."""
        post_length = self._held[-1]
        post = self._bytes(len(self._held) - 1 - post_length, len(self._held) - 1)
        footer_length, metadata_length = end_lengths(post)
        start = len(self._held) - 1 - post_length - footer_length
        metadata, footer = self._plain(start - metadata_length, start), self._plain(start, start + footer_length)
        self._pass_on(start - metadata_length)
        self._send_tail(metadata, footer, post)

    def _plain(self, start: int, end: int) -> bytes:
        """A section of what is held, decompressed."""
        return expand(self._bytes(start, end), self._physical.compression, self._physical.block_size, limit=sys.maxsize)

    def _bytes(self, start: int, end: int) -> bytes:
        with memoryview(self._held) as view:
            return bytes(view[start:end])

    def _pass_on(self, end: int) -> None:
        first = 0
        if not self._stripes.has_begun and end:
            first = len(MAGIC)
            self._stripes.begin(self._bytes(0, first))
        if first < end:
            self._stripes.add(*self._stripe(first, end))
        self._held.clear()
        self._starts.clear()

    def _stripe(self, first: int, end: int) -> tuple[Lengths, Lengths]:
        """Send a stripe; the lengths of its index, data and footer, as it was written and as it was sent."""
        footer, raw = found_footer(self._footers(first, end), len(self._columns))
        old, new = [0, 0, 0], [0, 0, 0]
        messages = []
        for stream, message in zip(footer.streams, Message(raw).blobs(_STREAMS), strict=True):
            index = stream.kind in INDEX_KINDS
            old[not index] += stream.length
            stored = self._stored(stream, footer, first)
            if stored is None:
                continue
            self._target.write(stored)
            new[not index] += len(stored)
            column = self._columns[stream.column].column
            changes = {_COLUMN: number(_COLUMN, column), _LENGTH: number(_LENGTH, len(stored))}
            messages.append(block(_STREAMS, rewritten(message, changes)))
        encodings = self._repeated(_ENCODINGS, Message(raw).blobs(_ENCODINGS))
        changed = rewritten(raw, {_STREAMS: b"".join(messages), _ENCODINGS: encodings})
        stored = pack(changed, self._physical.compression, self._physical.block_size)
        self._target.write(stored)
        old[2], new[2] = end - first - old[0] - old[1], len(stored)
        return (old[0], old[1], old[2]), (new[0], new[1], new[2])

    def _footers(self, first: int, end: int) -> Iterator[tuple[int, bytes]]:
        """What may be the footer of a stripe: how many bytes of it lie before, and the plain footer."""
        starts = [start for start in self._starts if first <= start < end]
        for start in reversed(starts[-_FOOTER_WRITES:]):
            try:
                yield start - first, self._plain(start, end)
            except CodecError:
                continue

    def _stored(self, stream: Stream, footer: StripeFooter, first: int) -> bytes | None:
        """A stream as it is to be stored, None for one that no union has."""
        column, part = self._columns[stream.column]
        if part is Part.ARRAY or (part is Part.TAGS and stream.kind is not StreamKind.DATA):
            return None
        start = first + stream.offset
        if stream.kind is not StreamKind.ROW_INDEX or self._types[column].kind is not OrcKind.UNION:
            return self._bytes(start, start + stream.length)
        tags = footer.stream(StreamKind.ROW_INDEX, stream.column + 1)
        if tags is None:
            raise InternalError(f"the tags of the union in column {column} have no row index")
        nulls, tag_nulls = (
            footer.stream(StreamKind.PRESENT, written) is not None for written in (stream.column, stream.column + 1)
        )
        physical = self._physical
        index = union_positions(
            self._plain(start, start + stream.length),
            recorded(OrcKind.STRUCT, EncodingKind.DIRECT, nulls=nulls),
            self._plain(first + tags.offset, first + tags.offset + tags.length),
            recorded(OrcKind.BYTE, EncodingKind.DIRECT, nulls=tag_nulls),
            physical.compression,
        )
        return pack(index, physical.compression, physical.block_size)

    def _kept(self, messages: Iterator[bytes]) -> Iterator[bytes]:
        """Of messages for each written column those for the columns themselves."""
        for (_, part), message in zip(self._columns, messages, strict=True):
            if part is Part.SELF:
                yield message

    def _send_tail(self, metadata: bytes, footer: bytes, post: bytes) -> None:
        stripes = (
            rewritten(stripe, {_PARTS: self._repeated(_PARTS, Message(stripe).blobs(_PARTS))})
            for stripe in Message(metadata).blobs(_PARTS)
        )
        types = (self._type(column, type_) for column, type_ in enumerate(self._kept(Message(footer).blobs(TYPES))))
        self._stripes.finish(
            rewritten(metadata, {_PARTS: b"".join(block(_PARTS, stripe) for stripe in stripes)}),
            footer,
            post,
            {
                TYPES: b"".join(block(TYPES, type_) for type_ in types),
                STATISTICS: self._repeated(STATISTICS, Message(footer).blobs(STATISTICS)),
            },
        )

    def _repeated(self, field: int, messages: Iterator[bytes]) -> bytes:
        return b"".join(block(field, message) for message in self._kept(messages))

    def _type(self, column: int, message: bytes) -> bytes:
        """The type of a column, from the one with which it was written."""
        subtypes = Message(message).uints(_SUBTYPES)
        changes = {_SUBTYPES: b""}
        if self._types[column].kind is OrcKind.UNION:
            # After the tags come arrays, and right after each its elements.
            subtypes = tuple(array + 1 for array in subtypes[1:])
            changes |= {_KIND: number(_KIND, OrcKind.UNION), _NAMES: b""}
        if subtypes:
            new = b"".join(encode_varint(self._columns[child].column) for child in subtypes)
            changes[_SUBTYPES] = block(_SUBTYPES, new)
        return rewritten(message, changes)
