"""The fast backend: Arrow's ORC writer, given whole columns in the forms in which it keeps every bit.

Arrow's writer takes timestamps of one unit only, and cuts those before 1970 wrongly when they have a fraction; it knows
neither dictionary arrays nor char, and crashes on some unions. `formers` find a form in which it is right, and raise
NeedsExactWriter where there is no such form.
"""

from __future__ import annotations

import io
import zlib
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po

from acidctl.errors import InternalError
from acidctl.format.events import EventBatch, EventKeys, Operation, as_arrow, bitmap, flat
from acidctl.format.names import KEY_FIELDS
from acidctl.orc import codec
from acidctl.orc.codec import Compression, chunk_of, expand, hardly_shrinks, pack
from acidctl.orc.postprocess import rebuild
from acidctl.orc.protobuf import Message, Value, encoded, packed, rewritten
from acidctl.orc.schema_evolution import arrow_type, null_array
from acidctl.orc.stripe import INDEX_KINDS, StreamKind, StripeFooter, found_footer, moved_positions, recorded
from acidctl.orc.tail import MAGIC, OrcKind, OrcType
from acidctl.orc.tail_edit import CONTENT_LENGTH, STATISTICS, STRIPES, TYPES, Appended, end_lengths, sealed
from acidctl.phases import phase
from acidctl.types.format_scalars import seconds_and_nanos
from acidctl.types.hive_types import HiveType, Primitive, StructType, TypeKind, UnionType, children, kinds
from acidctl.values import dataclass

# --- Files of ORC's C++ writers whose stripes are made anew on their way to the sink: deflated here, unions put
# together.
#
# More than half of the time of writing goes into deflate, and the zlib in Arrow is the slowest there is; igzip takes
# a tenth of the time at the levels that ORC writers use. So the writer makes a plain file, and `StripeSink`
# compresses each stream as it comes; the plain bytes are never held.
#
# For a NULL union ORC's C++ writer (2.3.1) counts with a tag and a place that nobody has set, and pyorc chooses tags
# by the Python value and gives unions in arrays and maps no room beyond a batch. So uniontype<A, B> is written as
# struct<tag: tinyint, array<A>, array<B>>: the array of the tag holds the one value, the others none, and a NULL
# union is a NULL struct. ORC stores a union as PRESENT, the tags in DATA (runs of bytes, as of a tinyint), and for
# each alternative a column of its own values one after the other, which the elements of such an array are. So what is
# left to do is to leave streams out and to number columns anew; no value is decoded.
#
# With each stripe all is made anew that speaks of stored bytes and of columns: positions in row indexes, the stripe's
# footer, and in the end the tail. Values, encodings, statistics, filters and row groups are those of the plain file,
# bit for bit. Each stream and each footer begins with a write of its own, because the C++ writer has no buffer behind
# its streams (`BufferedOutputStream::flush`). That is relied on and checked: a file that is put together otherwise is
# refused.


# A footer of more chunks than these would be one of some ten thousand columns.
_FOOTER_CHUNKS = 64
# Larger chunks gain nothing, and a chunk's length has 23 bits. The block size of a file only says what none exceeds.
LARGEST_CHUNK = 256 << 10
# Of igzip's levels 0 to 3 the fastest whose result is no larger than zlib's.
_LEVEL = 1
# A small window leaves out matches far away, which in texts of digits are there by chance and take more than they save.
# It is taken where it saves a hundredth of so much of a stream.
_WINDOWS, _WINDOW_TRIED, _WINDOW_SAVES = (15, 12), 32 << 10, 0.99
# What igzip deflates, igzip inflates when it is read back: so of so many chunks zlib, as Hive has it, inflates one.
_INFLATED_EACH = 16
# After a chunk that hardly shrinks, so much of the next one shows whether the rest is worth a try.
_TRIED = 8 << 10
_DEFLATE = phase("deflate")
_RAW = -15
# Numbers of fields: of a stripe's footer, of a stream in it, of a type, of stripe statistics on both levels, and of a
# stripe in the tail (its offset, and the lengths of index, data and footer).
_STREAMS, _ENCODINGS = 1, 2
_COLUMN, _LENGTH = 2, 3
_KIND, _SUBTYPES, _NAMES = 1, 2, 3
_PARTS = 1
_PLACE = (1, 2, 3, 4)

#: Makes the compressed bytes of a chunk.
Shrink = Callable[[bytes | memoryview], bytes | None]


def igzip() -> Shrink | None:
    """A compressor of one file, or None where isal is not installed: Arrow's own zlib then has to do."""
    library = codec.igzip()
    if library is None:
        return None
    large, small = (partial(library.compress, level=_LEVEL, wbits=-bits) for bits in _WINDOWS)
    way, before = large, 0

    def shrink(plain: bytes | memoryview) -> Any:
        nonlocal way, before
        # A chunk that is longer than the one before mostly begins a stream.
        if len(plain) > max(before, _WINDOW_TRIED):
            first = plain[:_WINDOW_TRIED]
            way = small if len(small(first)) < _WINDOW_SAVES * len(large(first)) else large
        before = len(plain)
        return way(plain)

    return shrink


def _inflates(small: bytes, plain: memoryview) -> bool:
    try:
        return zlib.decompress(small, _RAW) == plain
    except zlib.error:
        return False


class Chunks:
    """Chunks in order, as they are stored; offsets count from the first.

    `plain` and `places` give for each chunk where it begins, in plain and in stored bytes, and at last where all end.
    `sound` says whether zlib inflates to the plain bytes what it was tried on.
    """

    def __init__(self, compression: Compression, block_size: int) -> None:
        self._compression = compression
        self._block_size = block_size
        self.stored: list[bytes] = []
        self.plain = [0]
        self.places = [0]
        self.sound = True
        self._shrinks = True

    def add(self, plain: memoryview, shrink: Shrink) -> None:
        """Append a chunk of plain bytes."""
        with _DEFLATE:
            if self._compression is Compression.NONE:
                chunk = bytes(plain)
            else:
                first = plain[:_TRIED]
                hardly = not self._shrinks and len(first) < len(plain) and hardly_shrinks(first, shrink(first))
                small = None if hardly else shrink(plain)
                if self._compression is Compression.ZLIB and small and len(self.stored) % _INFLATED_EACH == 0:
                    self.sound &= _inflates(small, plain)
                self._shrinks = not hardly_shrinks(plain, small)
                chunk = chunk_of(plain, small)
        self.stored.append(chunk)
        self.plain.append(self.plain[-1] + len(plain))
        self.places.append(self.places[-1] + len(chunk))

    def at(self, offset: int) -> int:
        """The chunk that begins at a plain offset; InternalError when none does."""
        i = bisect_left(self.plain, offset)
        if i == len(self.plain) or self.plain[i] != offset:
            raise InternalError(f"no chunk begins at byte {offset} of a stripe")
        return i

    def place(self, first: int, end: int, offset: int) -> tuple[int, ...]:
        """Where a reader finds the byte at a plain offset of the chunks `first` to `end` (exclusive).

        Gives the stored offset of a chunk and the plain offset in it, both counted from `first`; of a plain file just
        the offset. The border of two chunks is the end of the former, as ORC's writers have it.
        """
        target = self.plain[first] + offset
        if target > self.plain[end]:
            raise InternalError(f"a position of {offset} lies outside its stream")
        if self._compression is Compression.NONE:
            return (offset,)
        i = max(bisect_left(self.plain, target, first, end + 1) - 1, first)
        return self.places[i] - self.places[first], target - self.plain[i]

    def inflated(self, first: int, end: int) -> bytes:
        """The plain bytes of the chunks `first` to `end` (exclusive)."""
        length = self.plain[end] - self.plain[first]
        return expand(b"".join(self.stored[first:end]), self._compression, self._block_size, length)

    def last(self, size: int) -> bytes:
        """The last `size` plain bytes."""
        start = self.plain[-1] - size
        i = bisect_right(self.plain, start) - 1
        return self.inflated(i, len(self.stored))[start - self.plain[i] :]


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


class StripeSink(io.RawIOBase):
    """A plain file for a C++ writer; keeps what is written compressed until `pass_on` or `finish`.

    With `unions` these are substituted. The target gets a file of this physical form.
    """

    def __init__(
        self,
        target: Appended,
        types: Sequence[OrcType],
        physical: Physical,
        shrink: Shrink,
        *,
        unions: bool = False,
    ) -> None:
        super().__init__()
        self._target = target
        self._types = types
        self._compression = physical.compression
        self._block_size = physical.block_size
        self._shrink = shrink
        self._unions = unions
        self._columns = [Written(i, Part.SELF) for i in range(len(types))]
        if unions:
            self._columns = list(written_columns(types))
        self._largest = min(physical.block_size, LARGEST_CHUNK)
        self._chunks = Chunks(physical.compression, physical.block_size)
        # All plain bytes that were passed on; where each stripe lay and lies, and how long its three parts are.
        self._passed = 0
        self._places: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Take bytes. Each call begins a new chunk."""
        view = memoryview(data)
        for start in range(0, len(view), self._largest):
            self._chunks.add(view[start : start + self._largest], self._shrink)
        return len(view)

    def tell(self) -> int:
        """All plain bytes so far."""
        return self._passed + self._chunks.plain[-1]

    def writable(self) -> bool:
        return True

    def written_id(self, column: int) -> int:
        """The id with which a column is written."""
        return self._columns.index(Written(column, Part.SELF))

    def take(self) -> Chunks:
        """All chunks since the last call, which are forgotten here."""
        chunks, self._chunks = self._chunks, Chunks(self._compression, self._block_size)
        return chunks

    def pass_on(self) -> None:
        """Send the stripe that was written since the last call, if one was."""
        chunks = self.take()
        self._pass_on(chunks, len(chunks.stored))

    def finish(self) -> None:
        """Send what is left and the tail, of a file that is complete."""
        chunks = self.take()
        post_length = chunks.last(1)[0]
        post = chunks.last(post_length + 1)[:-1]
        footer_length, metadata_length = end_lengths(post)
        tail = chunks.last(metadata_length + footer_length + post_length + 1)
        self._pass_on(chunks, chunks.at(chunks.plain[-1] - len(tail)))
        self._send_tail(tail[:metadata_length], tail[metadata_length:][:footer_length], post)

    def _pass_on(self, chunks: Chunks, end: int) -> None:
        """Send the stripe that the chunks up to `end` (exclusive) are, the letters before the first one too."""
        first, length = 0, chunks.plain[end]
        # C++ writers would have made a text of an error in the middle of a stream.
        if not chunks.sound:
            raise InternalError("what was deflated is not what zlib inflates; without the package isal zlib deflates")
        if not self._passed and end:
            first = 1
            if chunks.inflated(0, first) != MAGIC:
                raise InternalError("a file of a C++ writer does not begin with the letters ORC")
            self._target.write(MAGIC)
        if first < end:
            parts, old, new = self._stripe(chunks, first, end)
            self._places.append(((self._passed + chunks.plain[first], *old), (self._target.tell(), *new)))
            chunks.stored.clear()
            while parts:
                # What the sink may hold is not held here as well.
                self._target.write(parts.popleft())
        self._passed += length

    def _stripe(self, chunks: Chunks, first: int, end: int) -> tuple[deque[bytes], list[int], list[int]]:
        """A stripe as it is to be stored; the lengths of its index, data and footer as it was written, and as it is."""
        base = chunks.plain[first]
        starts = range(end - 1, max(first, end - _FOOTER_CHUNKS) - 1, -1)
        ends = ((chunks.plain[start] - base, chunks.inflated(start, end)) for start in starts)
        footer, raw = found_footer(ends, len(self._columns))
        runs = {
            (stream.column, stream.kind): (
                chunks.at(base + stream.offset),
                chunks.at(base + stream.offset + stream.length),
            )
            for stream in footer.streams
        }
        parts: deque[bytes] = deque()
        old, new = [0, 0, len(raw)], [0, 0, 0]
        messages = []
        for stream, message in zip(footer.streams, Message(raw).blobs(_STREAMS), strict=True):
            section = int(stream.kind not in INDEX_KINDS)
            old[section] += stream.length
            column, part = self._columns[stream.column]
            if part is Part.ARRAY or (part is Part.TAGS and stream.kind is not StreamKind.DATA):
                continue
            stored = chunks.stored[slice(*runs[stream.column, stream.kind])]
            if stream.kind is StreamKind.ROW_INDEX:
                index = self._index(chunks, runs, footer, stream.column)
                stored = [pack(index, self._compression, self._block_size)]
            parts += stored
            length = sum(map(len, stored))
            new[section] += length
            messages.append(rewritten(message, {_COLUMN: column, _LENGTH: length}))
        changed = rewritten(raw, {_STREAMS: messages, _ENCODINGS: self._kept(_ENCODINGS, Message(raw))})
        parts.append(pack(changed, self._compression, self._block_size))
        new[2] = len(parts[-1])
        return parts, old, new

    def _index(
        self,
        chunks: Chunks,
        runs: dict[tuple[int, StreamKind], tuple[int, int]],
        footer: StripeFooter,
        written: int,
    ) -> bytes:
        """The row index of a written column, with the positions of the streams as they are stored."""
        kind = self._types[self._columns[written].column].kind
        plain = chunks.inflated(*runs[written, StreamKind.ROW_INDEX])
        own = {name: run for (column, name), run in runs.items() if column == written}
        streams = recorded(kind, footer.encodings[written].kind, nulls=StreamKind.PRESENT in own)
        tags = None
        if self._unions and kind is OrcKind.UNION:
            # Positions are those of PRESENT and then of DATA (ORC Java: `UnionTreeWriter.recordPosition`,
            # `UnionTreeReader.seek`), statistics count the values that are not NULL and say nothing else, as a
            # struct's.
            place = runs.get((written + 1, StreamKind.ROW_INDEX))
            if place is None:
                raise InternalError(f"the tags of the union in column {written} have no row index")
            nulls = (written + 1, StreamKind.PRESENT) in runs
            tags = chunks.inflated(*place), recorded(OrcKind.BYTE, footer.encodings[written + 1].kind, nulls=nulls)
            own[StreamKind.DATA] = runs[written + 1, StreamKind.DATA]
        return moved_positions(plain, streams, {name: partial(chunks.place, *run) for name, run in own.items()}, tags)

    def _kept(self, field: int, message: Message) -> list[bytes]:
        """The field that a message has for each written column, of those that are columns of the file."""
        pairs = zip(self._columns, message.blobs(field), strict=True)
        return [entry for (_, part), entry in pairs if part is Part.SELF]

    def _send_tail(self, metadata: bytes, raw: bytes, post: bytes) -> None:
        """Send the tail, whose parts are plain; InternalError for stripes that lie elsewhere than those sent."""
        footer = Message(raw)
        messages = list(footer.blobs(STRIPES))
        found = [Message(message).numbers(*_PLACE) for message in messages]
        if found != [old for old, _ in self._places]:
            raise InternalError("the stripes of a writer do not lie where it wrote them")
        changes: dict[int, Value] = {
            CONTENT_LENGTH: self._target.tell() - len(MAGIC),
            STRIPES: [
                rewritten(message, dict(zip(_PLACE, new, strict=True)))
                for message, (_, new) in zip(messages, self._places, strict=True)
            ],
        }
        if self._unions:
            statistics = (self._kept(_PARTS, stripe) for stripe in Message(metadata).messages(_PARTS))
            metadata = rewritten(metadata, {_PARTS: [encoded({_PARTS: kept}) for kept in statistics]})
            pairs = zip(self._columns, footer.blobs(TYPES), strict=True)
            changes |= {
                TYPES: [self._type(i, entry) for (i, part), entry in pairs if part is Part.SELF],
                STATISTICS: self._kept(STATISTICS, footer),
            }
        end = sealed(rewritten(raw, changes), post, self._compression, self._block_size, metadata=metadata)
        self._target.write(end)

    def _type(self, column: int, message: bytes) -> bytes:
        """The type of a column, from the one with which it was written."""
        subtypes = Message(message).uints(_SUBTYPES)
        changes: dict[int, Value] = {}
        if self._types[column].kind is OrcKind.UNION:
            # After the tags come arrays, and right after each its elements.
            subtypes = tuple(array + 1 for array in subtypes[1:])
            changes = {_KIND: OrcKind.UNION, _NAMES: None}
        new = packed(self._columns[child].column for child in subtypes)
        return rewritten(message, {**changes, _SUBTYPES: new or None})


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
        self._forms = Forms(columns, acid=acid)
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
        self._writer.write(self._forms.table(piece))
        self._started = True
        if self._sink.tell() > before:
            yield len(piece)

    def close(self) -> None:
        """Write what is left and the tail."""
        assert self._writer is not None
        if not self._started:
            empty = np.empty(0, dtype=np.int64)
            self._writer.write(self._forms.table(EventBatch(EventKeys(empty, empty, empty, empty))))
        self._writer.close()
        self._writer = None

    def abort(self) -> None:
        """Drop the writer and what it holds."""
        self._writer = None


class Forms:
    """Pieces of one file as tables that Arrow writes exactly."""

    def __init__(self, columns: StructType, *, acid: bool) -> None:
        self._columns = columns
        self._acid = acid
        self._formers = formers(columns)
        self._fragile = has_union(columns)
        # The tail gets the real names.
        self._names = [f"c{i}" for i in range(len(columns.fields))]

    def table(self, piece: EventBatch) -> pa.Table:
        """The next piece; NeedsExactWriter where none of its forms keeps every bit."""
        columns = piece.columns or tuple(_nulls(self._columns, len(piece)))
        if not self._acid:
            return pa.table(self._formed(columns), names=self._names)
        keys = piece.keys
        deleted = None if keys.operation is None else keys.operation == Operation.DELETE
        validity = None
        if deleted is not None and deleted.any():
            if self._fragile:
                raise NeedsExactWriter("Arrow's writer crashes on a union below a NULL row")
            validity = bitmap(~deleted)
            columns = tuple(children_of(struct_of(columns, validity, len(piece))))
        row = struct_of(self._formed(columns), validity, len(piece))
        operation = _zeros(len(keys)) if keys.operation is None else as_arrow(keys.operation.astype(np.int32))
        bucket = as_arrow(keys.bucket.astype(np.int32))
        arrays = [operation, as_arrow(keys.write_id), bucket, as_arrow(keys.row_id), as_arrow(keys.current), row]
        return pa.table(arrays, names=[*KEY_FIELDS, "row"])

    def _formed(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return [form(column) for form, column in zip(self._formers, columns, strict=True)]


@lru_cache(maxsize=2)
def _zeros(rows: int) -> pa.Array:
    return as_arrow(np.zeros(rows, dtype=np.int32))


@lru_cache(maxsize=2)
def _nulls(columns: StructType, rows: int) -> list[pa.Array]:
    return [null_array(field.type, rows) for field in columns.fields]


# --- Columns in the forms that Arrow writes exactly.


_NANOS = 1_000_000_000
# Seconds that int64 holds in a unit, whatever the fraction.
_SECONDS = {"us": (1 << 63) // 1_000_000 - 1, "ns": (1 << 63) // _NANOS - 1}
TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)
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
        return text if kind.kind in TEXTS else partial(_plain, arrow_type(kind))
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
        thousands = nanos // 1000
        micros = bool((thousands * 1000 == nanos).all())
        if self._unit is None:
            # Microseconds hold every year of Hive's; nanoseconds only those from 1677 to 2262.
            self._unit = "us" if micros else "ns"
        limit = _SECONDS[self._unit]
        if (self._unit == "us" and not micros) or (len(array) and int(np.abs(seconds).max()) > limit):
            raise NeedsExactWriter(f"timestamps of one column do not fit one unit ({self._unit} was taken)")
        numbers = seconds * 1_000_000 + thousands if self._unit == "us" else seconds * _NANOS + nanos
        ticks = as_arrow(numbers, valid)
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
