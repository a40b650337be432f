"""Column statistics as ORC files carry them: for the file, for each stripe, for each row group."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from acidctl.orc.protobuf import Message, WireError, signed


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
    """A bound of decimals; None where none is stated, or the text is no number."""
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
