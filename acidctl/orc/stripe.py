"""What a writer noted about a stripe: its footer, the row indexes and bloom filters of its columns, its statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from acidctl.errors import InternalError
from acidctl.orc.codec import CodecError
from acidctl.orc.protobuf import Budget, Message, WireError, block, encoded, packed, raw_fields, rewritten
from acidctl.orc.stats import ColumnStatistics
from acidctl.orc.tail import OrcKind, ReadableFile, Statistics, Stripe, Tail, column_statistics, damaged, read_section
from acidctl.values import dataclass

# What a stripe's footer may take for itself and for each column, which has a few streams and an encoding.
_FOOTER_BYTES, _COLUMN_BYTES = 64 << 10, 1 << 10
_MOST_STREAMS = 16
# More dictionary entries than any writer makes; the C++ reader would allocate whatever number stands there.
_MAX_DICTIONARY = 1 << 24
_MAX_ZONE = 255


class StreamKind(IntEnum):
    """ORC's Stream.Kind."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    DICTIONARY_COUNT = 4
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8
    ENCRYPTED_INDEX = 9
    ENCRYPTED_DATA = 10
    STRIPE_STATISTICS = 100
    FILE_STATISTICS = 101

    # That of Enum is a call of Python's, and each stream of each stripe is looked up by it.
    __hash__ = int.__hash__


_STREAM_KINDS = {kind.value: kind for kind in StreamKind}
INDEX_KINDS = frozenset({StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8})


class EncodingKind(IntEnum):
    """ORC's ColumnEncoding.Kind."""

    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3

    __hash__ = int.__hash__


_SECOND = frozenset({EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2})
# Types that are stored in runs of integers, of one version or the other.
_WITH_RUNS = frozenset(OrcKind) - {
    *(OrcKind.BOOLEAN, OrcKind.BYTE, OrcKind.FLOAT, OrcKind.DOUBLE, OrcKind.STRUCT, OrcKind.UNION),
}


class Stream(NamedTuple):
    """One stream: `offset` is where it begins in the file."""

    kind: StreamKind
    column: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one column of a stripe is encoded; `dictionary_size` is 0 unless it has a dictionary."""

    kind: EncodingKind
    dictionary_size: int


@dataclass(frozen=True, slots=True)
class StripeFooter:
    """The directory of one stripe; `time_zone` is None when the writer named none."""

    places: Mapping[tuple[StreamKind, int], Stream]
    encodings: tuple[Encoding, ...]
    time_zone: str | None

    @property
    def streams(self) -> tuple[Stream, ...]:
        """All streams, in the order in which they lie."""
        return tuple(self.places.values())

    def stream(self, kind: StreamKind, column: int) -> Stream | None:
        """The stream of that kind and column, or None."""
        return self.places.get((kind, column))


def read_stripe_footer(file: ReadableFile, tail: Tail, index: int, budget: Budget | None = None) -> StripeFooter:
    """Read and check the footer of one stripe; DamagedDataError when it is damaged.

    `budget` is for all stripes that are read.
    """
    stripe = tail.stripes[index]
    offset = stripe.offset + stripe.index_length + stripe.data_length
    most = _FOOTER_BYTES + _COLUMN_BYTES * len(tail.types)
    try:
        plain = read_section(file, tail, offset, stripe.footer_length, most)
        footer = parse_stripe_footer(plain, stripe, len(tail.types), budget)
        # Every writer takes one version of runs for all columns, and those read as of the other give other numbers.
        versions: dict[bool, int] = {}
        for stream in footer.streams:
            if stream.kind not in INDEX_KINDS and tail.types[stream.column].kind in _WITH_RUNS:
                versions.setdefault(footer.encodings[stream.column].kind in _SECOND, stream.column)
        if len(versions) > 1:
            first, second = versions[False], versions[True]
            raise WireError(f"column {first} has runs of version 1, and column {second} of version 2")
        return footer
    except (WireError, CodecError) as error:
        raise damaged(tail.name, f"has a stripe {index} with a damaged footer: {error}") from error


def parse_stripe_footer(plain: bytes, stripe: Stripe, columns: int, budget: Budget | None = None) -> StripeFooter:
    """The footer of a stripe of so many columns; WireError when it is damaged."""
    message = Message(plain, budget)
    if message.count(2) != columns:
        raise WireError(f"it has encodings of {message.count(2)} columns, there are {columns}")
    if message.count(1) > _MOST_STREAMS * (columns + 1):
        raise WireError(f"it lists {message.count(1)} streams of {columns} columns")
    if len(message.data(3) or b"") > _MAX_ZONE:
        raise WireError("the name of its time zone is too long")
    encodings = []
    for code, size in message.numbers_of(2, 2):
        if code > EncodingKind.DICTIONARY_V2:
            raise WireError(f"encoding {code} is unknown")
        if size > _MAX_DICTIONARY:
            raise WireError(f"a dictionary claims {size} entries")
        encodings.append(_encoding(code, size))
    return StripeFooter(_streams(message, stripe, columns), tuple(encodings), message.text(3) or None)


@lru_cache(maxsize=64)
def _encoding(code: int, size: int) -> Encoding:
    return Encoding(EncodingKind(code), size)


def encoded_footer(footer: StripeFooter) -> bytes:
    """A footer as it is stored without compression."""
    streams = [encoded({1: stream.kind, 2: stream.column, 3: stream.length}) for stream in footer.streams]
    encodings = [encoded({1: encoding.kind, 2: encoding.dictionary_size}) for encoding in footer.encodings]
    return encoded({1: streams, 2: encodings, 3: None if footer.time_zone is None else footer.time_zone.encode()})


def found_footer(ends: Iterable[tuple[int, bytes]], columns: int) -> tuple[StripeFooter, bytes]:
    """The footer of a stripe that a writer has just made, parsed and plain.

    `ends` are what may be it: how many bytes of the stripe lie before, and the plain bytes. It is found where what it
    says of its streams agrees; their offsets count from the stripe's beginning. InternalError when it is nowhere.
    """
    for length, plain in ends:
        try:
            footer = parse_stripe_footer(plain, Stripe(0, 0, length, len(plain), 0), columns)
        except WireError:
            continue
        if sum(stream.length for stream in footer.streams) == length:
            return footer, plain
    raise InternalError("a stripe that was just written has no footer that fits it")


def _streams(message: Message, stripe: Stripe, columns: int) -> dict[tuple[StreamKind, int], Stream]:
    at = stripe.offset
    end = stripe.offset + stripe.index_length + stripe.data_length
    # Of two that are called the same each library takes another.
    result: dict[tuple[StreamKind, int], Stream] = {}
    for code, column, length in message.numbers_of(1, 3):
        kind = _STREAM_KINDS.get(code)
        if kind is None:
            raise WireError(f"stream kind {code} is unknown")
        if column >= columns:
            raise WireError(f"a stream belongs to column {column}, there are {columns}")
        stream = Stream(kind, column, at, length)
        at += length
        if at > end:
            raise WireError("its streams are longer than the stripe")
        if result.setdefault((kind, column), stream) is not stream:
            raise WireError(f"column {column} has two {kind.name} streams")
    return result


# --- Row indexes and bloom filters: what is known of every few thousand rows of a column.


_MAX_INDEX = 64 << 20


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One row group: its statistics, and where it begins in each stream of the column."""

    statistics: ColumnStatistics | None
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """How full a bloom filter is."""

    hash_functions: int
    bits: bytes

    @property
    def bit_count(self) -> int:
        """All bits of the filter."""
        return len(self.bits) * 8

    @property
    def set_count(self) -> int:
        """The bits that are set."""
        return int.from_bytes(self.bits, "little").bit_count()

    def merged(self, other: BloomFilter) -> BloomFilter:
        """The filter that holds what either of two filters of one size holds."""
        bits = int.from_bytes(self.bits, "little") | int.from_bytes(other.bits, "little")
        return BloomFilter(self.hash_functions, bits.to_bytes(max(len(self.bits), len(other.bits)), "little"))


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """The index of one column in one stripe; None where the writer left none."""

    entries: tuple[IndexEntry, ...] | None
    filters: tuple[BloomFilter, ...] | None


def read_column_index(file: ReadableFile, tail: Tail, footer: StripeFooter, column: int) -> ColumnIndex:
    """Read what indexes a column has; DamagedDataError when they are damaged."""
    entries = footer.stream(StreamKind.ROW_INDEX, column)
    # A writer that leaves both forms of filter means the one in UTF-8 (ORC-101).
    filters = footer.stream(StreamKind.BLOOM_FILTER_UTF8, column) or footer.stream(StreamKind.BLOOM_FILTER, column)
    budget = Budget(0)

    def items(stream: Stream) -> Iterator[Message]:
        nonlocal budget
        plain, budget = read_section(file, tail, stream.offset, stream.length, _MAX_INDEX), Budget(stream.length)
        return Message(plain, budget).messages(1)

    def entry(item: Message) -> IndexEntry:
        statistics = item.data(2)
        return IndexEntry(None if statistics is None else column_statistics(statistics, budget), item.uints(1))

    def bloom(item: Message) -> BloomFilter:
        # Old writers repeat 64-bit numbers, later ones leave a single run of bytes; the bits are the same.
        return BloomFilter(item.uint(1) or 0, item.data(3) or b"".join(item.blobs(2)))

    try:
        return ColumnIndex(
            None if entries is None else tuple(map(entry, items(entries))),
            None if filters is None else tuple(map(bloom, items(filters))),
        )
    except (WireError, CodecError) as error:
        raise damaged(tail.name, f"has a damaged row index of column {column}: {error}") from error


# --- Statistics of each stripe, which stand in a section of their own before the footer.


MAX_METADATA = 128 << 20


def each_stripe(file: ReadableFile, tail: Tail) -> Iterator[Sequence[ColumnStatistics]]:
    """The statistics of each column, stripe by stripe: taken apart, those of a large file take gigabytes.

    Raises DamagedDataError when the section is damaged or its counts contradict the footer.
    """
    try:
        message, budget = read_stripe_metadata(file, tail), Budget(tail.postscript.metadata_length)
        if message.count(1) not in (0, len(tail.stripes)):
            raise WireError(f"they are of {message.count(1)} stripes, there are {len(tail.stripes)}")
        for stripe in message.messages(1):
            if stripe.count(1) not in (0, len(tail.types)):
                raise WireError(f"they are of {stripe.count(1)} columns, there are {len(tail.types)}")
            yield Statistics(tail.name, stripe.blobs(1), budget)
    except (WireError, CodecError) as error:
        raise damaged(tail.name, f"has damaged stripe statistics ({error})") from error


def encoded_statistics(file: ReadableFile, tail: Tail) -> tuple[bytes, ...]:
    """The encoded statistics of each stripe; empty where the writer left none. DamagedDataError when malformed."""
    try:
        messages = read_stripe_metadata(file, tail).blobs(1)
    except (WireError, CodecError) as error:
        raise damaged(tail.name, f"has damaged stripe statistics ({error})") from error
    return messages if len(messages) == len(tail.stripes) else ()


def read_stripe_metadata(file: ReadableFile, tail: Tail) -> Message:
    """The section of stripe statistics, not yet taken apart; WireError or CodecError when it is damaged."""
    post = tail.postscript
    offset = tail.file_length - post.length - 1 - post.footer_length - post.metadata_length
    plain = read_section(file, tail, offset, post.metadata_length, MAX_METADATA)
    return Message(plain, Budget(post.metadata_length))


# --- Positions in a row index: where each row group begins in the streams of its column.
#
# A position is a list of numbers without names. Which streams they speak of, in which order and with how many numbers
# each, follows from the column's type and encoding (ORC C++: `recordPosition` in ColumnWriter.cc, RLE.cc, ByteRLE.cc;
# ORC Java: `TreeWriterBase.getPosition` and its overrides). In a plain stream the place is one number, the byte; in a
# compressed one it is two, the chunk and the byte in it; what follows, values in a run and bits in a byte, is the same.


_ENTRY, _POSITIONS = 1, 1

# Streams in the order in which they are noted, with the count of numbers after the place: 0 for bare bytes, 1 for a
# run-length encoding (values in the run), 2 for bits (bits in the byte too).
_BITS, _RUNS, _BYTES = 2, 1, 0
Recorded = tuple[tuple[StreamKind, int], ...]

_PRESENT: Recorded = ((StreamKind.PRESENT, _BITS),)
_NUMBERS: Recorded = ((StreamKind.DATA, _RUNS),)
_TEXT: Recorded = ((StreamKind.DATA, _BYTES), (StreamKind.LENGTH, _RUNS))
_TIME: Recorded = ((StreamKind.DATA, _RUNS), (StreamKind.SECONDARY, _RUNS))
_RECORDED: dict[OrcKind, Recorded] = {
    **dict.fromkeys((OrcKind.BYTE, OrcKind.SHORT, OrcKind.INT, OrcKind.LONG, OrcKind.DATE, OrcKind.UNION), _NUMBERS),
    **dict.fromkeys((OrcKind.STRING, OrcKind.CHAR, OrcKind.VARCHAR, OrcKind.BINARY), _TEXT),
    **dict.fromkeys((OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT), _TIME),
    **dict.fromkeys((OrcKind.FLOAT, OrcKind.DOUBLE), ((StreamKind.DATA, _BYTES),)),
    **dict.fromkeys((OrcKind.LIST, OrcKind.MAP), ((StreamKind.LENGTH, _RUNS),)),
    OrcKind.BOOLEAN: ((StreamKind.DATA, _BITS),),
    OrcKind.DECIMAL: ((StreamKind.DATA, _BYTES), (StreamKind.SECONDARY, _RUNS)),
    OrcKind.STRUCT: (),
}
_DICTIONARIES = frozenset({EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2})

#: For each stream of a column: from a plain offset to what a reader finds it by.
Places = Mapping[StreamKind, Callable[[int], tuple[int, ...]]]


def recorded(kind: OrcKind, encoding: EncodingKind, *, nulls: bool) -> Recorded:
    """The streams of which a column's positions speak, and the count of numbers after each place.

    `nulls` says whether the column has a PRESENT stream in the stripe: of one left out there are no positions.
    """
    streams = _NUMBERS if encoding in _DICTIONARIES else _RECORDED[kind]
    return _PRESENT + streams if nulls else streams


def moved_positions(
    index: bytes, streams: Recorded, places: Places, tags: tuple[bytes, Recorded] | None = None
) -> bytes:
    """A row index of plain streams as that of streams stored otherwise; InternalError when it is not of these streams.

    Of a union that was written as a struct (see `arrow_writer`) `tags` are the row index and the streams of its tags.
    """
    entries = []
    of_tags = iter(() if tags is None else Message(tags[0]).blobs(_ENTRY))
    for number, field in raw_fields(index):
        if number != _ENTRY:
            entries.append(field)
            continue
        (entry,) = Message(field).blobs(_ENTRY)
        positions = Message(entry).uints(_POSITIONS)
        if tags is not None:
            more, size = Message(next(of_tags, b"")).uints(_POSITIONS), sum(1 + rest for _, rest in tags[1])
            if len(more) != size:
                raise InternalError(f"the row index of a union has tags of {len(more)} positions")
            # What the tags' own PRESENT says is what the struct's says.
            positions += more[-1 - _RUNS :]
        moved = _moved(positions, streams, places)
        # Without a stream there are no positions, and no field.
        entries.append(block(_ENTRY, rewritten(entry, {_POSITIONS: packed(moved) or None})))
    return b"".join(entries)


def _moved(positions: Sequence[int], streams: Recorded, places: Places) -> list[int]:
    if len(positions) != sum(1 + rest for _, rest in streams) or any(kind not in places for kind, _ in streams):
        names = ", ".join(kind.name for kind, _ in streams) or "no stream"
        raise InternalError(f"a row index has {len(positions)} positions, which cannot be of {names}")
    result: list[int] = []
    at = 0
    for kind, rest in streams:
        result += places[kind](positions[at])
        result += positions[at + 1 : at + 1 + rest]
        at += 1 + rest
    return result
