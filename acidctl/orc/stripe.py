"""Stripe footers: which streams a stripe holds, how each column is encoded, in which zone its clock ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from acidctl.errors import InternalError
from acidctl.orc.codec import CodecError, expand
from acidctl.orc.protobuf import Budget, Message, WireError
from acidctl.orc.tail import OrcKind, OrcType, ReadableFile, Stripe, Tail, damaged, read_range

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


INDEX_KINDS = frozenset({StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8})


class EncodingKind(IntEnum):
    """ORC's ColumnEncoding.Kind."""

    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3


_SECOND = frozenset({EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2})
# Types that are stored in runs of integers, of one version or the other.
_WITH_RUNS = frozenset(OrcKind) - {
    *(OrcKind.BOOLEAN, OrcKind.BYTE, OrcKind.FLOAT, OrcKind.DOUBLE, OrcKind.STRUCT, OrcKind.UNION),
}


@dataclass(frozen=True, slots=True)
class Stream:
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

    streams: tuple[Stream, ...]
    encodings: tuple[Encoding, ...]
    time_zone: str | None

    def stream(self, kind: StreamKind, column: int) -> Stream | None:
        """The stream of that kind and column, or None."""
        for stream in self.streams:
            if stream.column == column and stream.kind is kind:
                return stream
        return None


def read_stripe_footer(file: ReadableFile, tail: Tail, index: int, budget: Budget | None = None) -> StripeFooter:
    """Read and check the footer of one stripe; DamagedDataError when it cannot be right.

    `budget` is for all stripes that are read.
    """
    stripe = tail.stripes[index]
    offset = stripe.offset + stripe.index_length + stripe.data_length
    raw = read_range(file, offset, stripe.footer_length, tail.name)
    post = tail.postscript
    try:
        most = _FOOTER_BYTES + _COLUMN_BYTES * len(tail.types)
        plain = expand(raw, post.compression, post.block_size, most)
        footer = parse_stripe_footer(plain, stripe, len(tail.types), budget)
        _require_one_version(footer, tail.types)
        return footer
    except (WireError, CodecError) as error:
        raise damaged(tail.name, f"has a stripe {index} whose footer cannot be right: {error}") from error


def parse_stripe_footer(plain: bytes, stripe: Stripe, columns: int, budget: Budget | None = None) -> StripeFooter:
    """The footer of a stripe of so many columns; WireError when it cannot be right."""
    message = Message(plain, budget)
    if message.count(2) != columns:
        raise WireError(f"it has encodings of {message.count(2)} columns, there are {columns}")
    if message.count(1) > _MOST_STREAMS * (columns + 1):
        raise WireError(f"it lists {message.count(1)} streams of {columns} columns")
    if len(message.data(3) or b"") > _MAX_ZONE:
        raise WireError("the name of its time zone is absurdly long")
    return StripeFooter(
        streams=_streams(message, stripe, columns),
        encodings=_encodings(message),
        time_zone=message.text(3) or None,
    )


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


def _streams(message: Message, stripe: Stripe, columns: int) -> tuple[Stream, ...]:
    at = stripe.offset
    end = stripe.offset + stripe.index_length + stripe.data_length
    # Of two that are called the same each library takes another.
    result: dict[tuple[StreamKind, int], Stream] = {}
    for item in message.messages(1):
        code = item.uint(1) or 0
        if code not in StreamKind._value2member_map_:
            raise WireError(f"stream kind {code} is unknown")
        stream = Stream(StreamKind(code), item.uint(2) or 0, at, item.uint(3) or 0)
        if stream.column >= columns:
            raise WireError(f"a stream belongs to column {stream.column}, there are {columns}")
        at += stream.length
        if at > end:
            raise WireError("its streams are longer than the stripe")
        if result.setdefault((stream.kind, stream.column), stream) is not stream:
            raise WireError(f"column {stream.column} has two {stream.kind.name} streams")
    return tuple(result.values())


def _require_one_version(footer: StripeFooter, types: Sequence[OrcType]) -> None:
    """Raise WireError where runs of both versions stand beside each other.

    Every writer takes one of them for all columns, and runs that are read as those of the other give other numbers.
    """
    columns: dict[bool, int] = {}
    for stream in footer.streams:
        if stream.kind not in INDEX_KINDS and types[stream.column].kind in _WITH_RUNS:
            columns.setdefault(footer.encodings[stream.column].kind in _SECOND, stream.column)
    if len(columns) > 1:
        raise WireError(f"column {columns[False]} has runs of version 1, and column {columns[True]} of version 2")


def _encodings(message: Message) -> tuple[Encoding, ...]:
    result = []
    for item in message.messages(2):
        code = item.uint(1) or 0
        size = item.uint(2) or 0
        if code > EncodingKind.DICTIONARY_V2:
            raise WireError(f"encoding {code} is unknown")
        if size > _MAX_DICTIONARY:
            raise WireError(f"a dictionary claims {size} entries")
        result.append(Encoding(EncodingKind(code), size))
    return tuple(result)
