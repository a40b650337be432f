"""Column statistics as ORC files carry them: for the file, for each stripe, for each row group."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import TypeVar

from acidctl.orc.protobuf import Message, WireError, block, encode_varint, number, signed, zigzagged


@dataclass(frozen=True, slots=True)
class IntegerStatistics:
    """Of integer columns; `sum` is None when it overflowed."""

    minimum: int | None
    maximum: int | None
    sum: int | None


@dataclass(frozen=True, slots=True)
class DoubleStatistics:
    minimum: float | None
    maximum: float | None
    sum: float | None


@dataclass(frozen=True, slots=True)
class StringStatistics:
    """Of string, char and varchar; `sum` is the total length, bounds stand in for values above 1024 bytes."""

    minimum: str | None
    maximum: str | None
    sum: int | None
    lower_bound: str | None
    upper_bound: str | None


@dataclass(frozen=True, slots=True)
class BucketStatistics:
    """Of boolean columns: `counts[0]` is the number of true values."""

    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DecimalStatistics:
    """Decimal numbers as the text that the file holds."""

    minimum: str | None
    maximum: str | None
    sum: str | None


@dataclass(frozen=True, slots=True)
class DateStatistics:
    """Days since 1970-01-01 in the file's own calendar."""

    minimum: int | None
    maximum: int | None


@dataclass(frozen=True, slots=True)
class TimestampStatistics:
    """Milliseconds since 1970; the `_utc` pair is the wall clock read as UTC (ORC-135), `_nanos` the rest + 1."""

    minimum: int | None
    maximum: int | None
    minimum_utc: int | None
    maximum_utc: int | None
    minimum_nanos: int | None
    maximum_nanos: int | None


@dataclass(frozen=True, slots=True)
class BinaryStatistics:
    """`sum` is the total length in bytes."""

    sum: int | None


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """Of lists and maps: numbers of elements."""

    min_children: int | None
    max_children: int | None
    total_children: int | None


ValueStatistics = (
    IntegerStatistics
    | DoubleStatistics
    | StringStatistics
    | BucketStatistics
    | DecimalStatistics
    | DateStatistics
    | TimestampStatistics
    | BinaryStatistics
    | CollectionStatistics
)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """One column's statistics; `count` is of non-null values, None means that the writer did not say."""

    count: int | None
    has_null: bool | None
    bytes_on_disk: int | None
    values: ValueStatistics | None


def stated_decimal(text: str | None) -> Decimal | None:
    """A bound of decimals; None where none is stated, or the text is not a number."""
    try:
        return Decimal(text) if text else None
    except InvalidOperation:
        return None


def file_statistics(messages: Iterable[Message], columns: int, rows: int | None) -> tuple[ColumnStatistics, ...]:
    """Those in the footer of a file of so many columns and rows (None where the writer counted none), perhaps none.

    WireError when they are not those of such a file.
    """
    statistics = tuple(parse_statistics(message) for message in messages)
    if statistics and len(statistics) != columns:
        raise WireError(f"it has statistics of {len(statistics)} columns and types of {columns}")
    if statistics and rows is not None and statistics[0].count not in (None, rows):
        raise WireError(f"its statistics count {statistics[0].count} rows, and it promises {rows}")
    return statistics


def parse_statistics(message: Message) -> ColumnStatistics:
    """One ColumnStatistics message; WireError when it is malformed."""
    has_null = message.uint(10)
    return ColumnStatistics(
        count=message.uint(1),
        has_null=None if has_null is None else bool(has_null),
        bytes_on_disk=message.uint(11),
        values=_values(message),
    )


def _values(message: Message) -> ValueStatistics | None:
    inner: Message | None
    if inner := message.message(2):
        return IntegerStatistics(inner.sint(1), inner.sint(2), inner.sint(3))
    if inner := message.message(3):
        return DoubleStatistics(_double(inner, 1), _double(inner, 2), _double(inner, 3))
    if inner := message.message(4):
        return StringStatistics(inner.text(1), inner.text(2), inner.sint(3), inner.text(4), inner.text(5))
    if inner := message.message(5):
        return BucketStatistics(inner.uints(1))
    if inner := message.message(6):
        return DecimalStatistics(inner.text(1), inner.text(2), inner.text(3))
    if inner := message.message(7):
        return DateStatistics(inner.sint(1), inner.sint(2))
    if inner := message.message(8):
        return BinaryStatistics(inner.sint(1))
    if inner := message.message(9):
        return TimestampStatistics(
            inner.sint(1), inner.sint(2), inner.sint(3), inner.sint(4), _int32(inner, 5), _int32(inner, 6)
        )
    if inner := message.message(12):
        return CollectionStatistics(inner.uint(1), inner.uint(2), inner.uint(3))
    return None


def _int32(message: Message, number: int) -> int | None:
    value = message.uint(number)
    return None if value is None else signed(value)


def _double(message: Message, number: int) -> float | None:
    data = message.data(number)
    if data is None:
        return None
    if len(data) != 8:
        raise WireError(f"field {number} is not a double")
    return float(struct.unpack("<d", data)[0])


# --- Statistics of several stripes or files as those of all of them together.
#
# Works on the encoded messages, because bounds of strings are bytes that need not be text. Where one part does not say
# what the whole would need, the whole does not say it either: a reader that knows nothing reads everything, one that
# has wrong bounds loses rows.

_COUNT, _HAS_NULL, _BYTES = 1, 10, 11
_INTEGER, _DOUBLE, _STRING, _BUCKET, _DECIMAL, _DATE, _BINARY, _TIMESTAMP, _COLLECTION = 2, 3, 4, 5, 6, 7, 8, 9, 12
_EXACT = Context(prec=100)
_MOST_DIGITS = 38
_MOST_NANOS = 999_999

T = TypeVar("T")


def merged_statistics(parts: Sequence[bytes]) -> bytes:
    """One ColumnStatistics message for those of the same column in all parts; WireError when one is malformed."""
    messages = [Message(part) for part in parts]
    result = b""
    counts = _complete(message.uint(_COUNT) for message in messages)
    if counts is not None:
        result += number(_COUNT, sum(counts))
    counting = [message for message in messages if message.uint(_COUNT) != 0]
    result += _typed(counting) if counting else _empty(messages[0])
    nulls = _complete(message.uint(_HAS_NULL) for message in messages)
    if nulls is not None:
        result += number(_HAS_NULL, any(nulls))
    sizes = _complete(message.uint(_BYTES) for message in messages)
    return result if sizes is None else result + number(_BYTES, sum(sizes))


def _complete(values: Iterable[T | None]) -> list[T] | None:
    """All the values; None when one is missing."""
    result = []
    for value in values:
        if value is None:
            return None
        result.append(value)
    return result


def _typed(messages: Sequence[Message]) -> bytes:
    """The part of the column's type, of messages that count values; nothing when they disagree or do not say."""
    kinds = {kind for message in messages for kind in _MERGES if message.has(kind)}
    if len(kinds) != 1:
        return b""
    (kind,) = kinds
    parts = _complete(message.message(kind) for message in messages)
    merged = None if parts is None else _MERGES[kind](parts)
    return b"" if merged is None else block(kind, merged)


def _empty(message: Message) -> bytes:
    """The part of the column's type, of a message that counts no value."""
    return b"".join(block(kind, data) for kind in _MERGES if (data := message.data(kind)) is not None)


def _merged_dates(parts: Sequence[Message]) -> bytes | None:
    """Fields 1 and 2 as the least and greatest of zigzag numbers; None when a part lacks one."""
    low, high = (_complete(part.sint(field) for part in parts) for field in (1, 2))
    if low is None or high is None:
        return None
    return number(1, zigzagged(min(low))) + number(2, zigzagged(max(high)))


def _merged_integers(parts: Sequence[Message]) -> bytes | None:
    bounds = _merged_dates(parts)
    return None if bounds is None else bounds + _sum(parts, 3)


def _sum(parts: Sequence[Message], field: int) -> bytes:
    """A sum of zigzag numbers, left out when unknown or beyond 64 bits."""
    values = _complete(part.sint(field) for part in parts)
    if values is None or not -(1 << 63) <= sum(values) < 1 << 63:
        return b""
    return number(field, zigzagged(sum(values)))


def _merged_doubles(parts: Sequence[Message]) -> bytes | None:
    low, high, sums = (_complete(_eight_bytes(part, field) for part in parts) for field in (1, 2, 3))
    if low is None or high is None or any(math.isnan(value) for value in (*low, *high)):
        return None
    result = _fixed(1, min(low)) + _fixed(2, max(high))
    return result if sums is None else result + _fixed(3, sum(sums))


def _eight_bytes(part: Message, field: int) -> float | None:
    data = part.data(field)
    return None if data is None or len(data) != 8 else float(struct.unpack("<d", data)[0])


def _fixed(field: int, value: float) -> bytes:
    return encode_varint(field << 3 | 1) + struct.pack("<d", value)


def _merged_strings(parts: Sequence[Message]) -> bytes | None:
    # A bound (fields 4 and 5) stands in for a least or greatest value that is too long to be kept.
    low = _complete(_first_of(part, 1, 4) for part in parts)
    high = _complete(_first_of(part, 2, 5) for part in parts)
    if low is None or high is None:
        return None
    first, lowest = min(low, key=lambda bound: bound[0])
    last, highest = max(high, key=lambda bound: bound[0])
    return block(lowest, first) + block(highest, last) + _sum(parts, 3)


def _first_of(part: Message, *fields: int) -> tuple[bytes, int] | None:
    """The first of the fields that is there, and its number."""
    return next(((data, field) for field in fields if (data := part.data(field)) is not None), None)


def _merged_buckets(parts: Sequence[Message]) -> bytes | None:
    counts = [part.uints(1) for part in parts]
    if len({len(count) for count in counts}) != 1:
        return None
    return block(1, b"".join(encode_varint(sum(column)) for column in zip(*counts, strict=True)))


def _merged_decimals(parts: Sequence[Message]) -> bytes | None:
    low, high, sums = (_complete(part.data(field) for part in parts) for field in (1, 2, 3))
    if low is None or high is None:
        return None
    try:
        result = block(1, min(low, key=_decimal)) + block(2, max(high, key=_decimal))
        total = Decimal(0)
        for value in sums or ():
            total = _EXACT.add(total, _decimal(value))
    except InvalidOperation:
        return None
    if sums is not None and len(total.as_tuple().digits) <= _MOST_DIGITS:
        result += block(3, format(total, "f").encode())
    return result


def _decimal(value: bytes) -> Decimal:
    return Decimal(value.decode("ascii", "replace"))


def _merged_binaries(parts: Sequence[Message]) -> bytes | None:
    return _sum(parts, 1)


def _merged_timestamps(parts: Sequence[Message]) -> bytes | None:
    result = b""
    for low, high, has_nanos in ((1, 2, False), (3, 4, True)):
        least = _complete(_moment(part, low, 5, 0) for part in parts)
        greatest = _complete(_moment(part, high, 6, _MOST_NANOS) for part in parts)
        if least is None or greatest is None:
            continue
        (first, first_nanos), (last, last_nanos) = min(least), max(greatest)
        result += number(low, zigzagged(first)) + number(high, zigzagged(last))
        if has_nanos:
            # They are stored as one more than they are, and not at all where they are what a reader assumes.
            result += number(5, first_nanos + 1) if first_nanos else b""
            result += number(6, last_nanos + 1) if last_nanos != _MOST_NANOS else b""
    return result or None


def _moment(part: Message, field: int, nanos_field: int, default: int) -> tuple[int, int] | None:
    """Milliseconds and the nanoseconds beyond them."""
    millis, nanos = part.sint(field), _int32(part, nanos_field)
    return None if millis is None else (millis, default if nanos is None else nanos - 1)


def _merged_collections(parts: Sequence[Message]) -> bytes | None:
    result = b""
    for field, combine in ((1, min), (2, max), (3, sum)):
        values = _complete(part.uint(field) for part in parts)
        if values is not None:
            result += number(field, combine(values))
    return result


_MERGES: dict[int, Callable[[Sequence[Message]], bytes | None]] = {
    _INTEGER: _merged_integers,
    _DOUBLE: _merged_doubles,
    _STRING: _merged_strings,
    _BUCKET: _merged_buckets,
    _DECIMAL: _merged_decimals,
    _DATE: _merged_dates,
    _BINARY: _merged_binaries,
    _TIMESTAMP: _merged_timestamps,
    _COLLECTION: _merged_collections,
}
