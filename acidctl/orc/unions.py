"""Unions that the C++ writer never sees: written as structs, and made unions again in each finished stripe.

For a NULL union ORC's C++ writer (2.3.1) counts with a tag and a place that nobody has set, and pyorc chooses tags by
the Python value and gives unions in arrays and maps no room beyond a batch. So uniontype<A, B> is written as
struct<tag: tinyint, array<A>, array<B>>: the array of the tag holds the one value, the others none, and a NULL union
is a NULL struct. ORC stores a union as PRESENT, the tags in DATA (runs of bytes, as of a tinyint), and for each
alternative a column of its own values one after the other, which the elements of such an array are. So what is left
to do is to leave streams out and to number columns anew; no value is decoded.

Positions in the union's row index are those of PRESENT and then of DATA (ORC Java: `UnionTreeWriter.recordPosition`,
`UnionTreeReader.seek`), its statistics count the values that are not NULL and say nothing else, as a struct's.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from acidctl.errors import InternalError
from acidctl.orc.arrow_writer import Appended, Physical
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
from acidctl.orc.tail import OrcKind, OrcType
from acidctl.orc.tail_edit import MAGIC, STATISTICS, TYPES, Place, end_lengths, moved_stripes, resealed

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

    Each stream and each footer has to begin with a write of its own (`recompress` relies on the same).
    """

    def __init__(self, target: Appended, types: Sequence[OrcType], physical: Physical) -> None:
        super().__init__()
        self._target = target
        self._types = types
        self._physical = physical
        self._columns = tuple(written_columns(types))
        self._held = bytearray()
        self._starts: list[int] = []
        self._places: list[tuple[Place, Place]] = []
        self._passed = 0

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
        self._target.write(self._tail(metadata, footer, post))

    def _plain(self, start: int, end: int) -> bytes:
        """A section of what is held, decompressed."""
        return expand(self._bytes(start, end), self._physical.compression, self._physical.block_size, limit=sys.maxsize)

    def _bytes(self, start: int, end: int) -> bytes:
        with memoryview(self._held) as view:
            return bytes(view[start:end])

    def _pass_on(self, end: int) -> None:
        first = 0
        if not self._passed and end:
            if self._held[: len(MAGIC)] != MAGIC:
                raise InternalError("a file of pyorc's writer does not begin with the letters ORC")
            self._target.write(MAGIC)
            first = self._passed = len(MAGIC)
        if first < end:
            place = self._stripe(first, end)
            self._places.append(((self._passed, *place[0]), (self._target.tell() - sum(place[1]), *place[1])))
            self._passed += end - first
        self._held.clear()
        self._starts.clear()

    def _stripe(self, first: int, end: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
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
            changes = number(_COLUMN, self._columns[stream.column].column) + number(_LENGTH, len(stored))
            messages.append(block(_STREAMS, rewritten(message, {_COLUMN, _LENGTH}, changes)))
        encodings = (block(_ENCODINGS, message) for message in self._kept(Message(raw).blobs(_ENCODINGS)))
        changed = rewritten(raw, {_STREAMS, _ENCODINGS}, b"".join((*messages, *encodings)))
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

    def _tail(self, metadata: bytes, footer: bytes, post: bytes) -> bytes:
        stripes = (
            rewritten(stripe, {_PARTS}, self._repeated(_PARTS, Message(stripe).blobs(_PARTS)))
            for stripe in Message(metadata).blobs(_PARTS)
        )
        metadata = rewritten(metadata, {_PARTS}, b"".join(block(_PARTS, stripe) for stripe in stripes))
        types = (
            block(TYPES, self._type(column, message))
            for column, message in enumerate(self._kept(Message(footer).blobs(TYPES)))
        )
        changes = moved_stripes(footer, self._places, self._target.tell())
        changes[TYPES] = b"".join(types)
        changes[STATISTICS] = self._repeated(STATISTICS, Message(footer).blobs(STATISTICS))
        footer = rewritten(footer, changes.keys(), b"".join(changes.values()))
        return resealed(metadata, footer, post, self._physical.compression, self._physical.block_size)

    def _repeated(self, field: int, messages: Iterator[bytes]) -> bytes:
        return b"".join(block(field, message) for message in self._kept(messages))

    def _type(self, column: int, message: bytes) -> bytes:
        """The type of a column, from the one with which it was written."""
        subtypes = Message(message).uints(_SUBTYPES)
        changes, dropped = b"", {_SUBTYPES}
        if self._types[column].kind is OrcKind.UNION:
            # After the tags come arrays, and right after each its elements.
            subtypes = tuple(array + 1 for array in subtypes[1:])
            changes, dropped = number(_KIND, OrcKind.UNION), {_KIND, _SUBTYPES, _NAMES}
        if subtypes:
            changes += block(_SUBTYPES, b"".join(encode_varint(self._columns[child].column) for child in subtypes))
        return rewritten(message, dropped, changes)
