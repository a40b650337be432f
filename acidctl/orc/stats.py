"""Column statistics as ORC files carry them: for the file, for each stripe, for each row group."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from enum import IntEnum
from math import inf, nan
from operator import itemgetter
from typing import Any, TypeVar

from acidctl.orc.protobuf import Message, Value, WireError, encoded, packed, rewritten, signed, zigzagged
from acidctl.values import dataclass

T = TypeVar("T")


class StatisticsKind(IntEnum):
    """What is noted of values of a type; each is the field of ORC's ColumnStatistics that holds it."""

    INTEGER = 2
    DOUBLE = 3
    STRING = 4
    BOOLEAN = 5
    DECIMAL = 6
    DATE = 7
    BINARY = 8
    TIMESTAMP = 9
    COLLECTION = 12


@dataclass(frozen=True, slots=True)
class ValueStatistics:
    """What a writer noted of the values of a column, as the file holds it; None what it did not or its kind has not.

    Decimals are text, dates days in the file's own calendar, timestamps milliseconds since 1970. `sum` is None when it
    overflowed; it is the total length of texts and binaries, the number of true values, and the number of elements of
    lists and maps, whose bounds are numbers of elements too. The bounds stand in for texts above 1024 bytes. `_utc` is
    the wall clock read as UTC (ORC-135), `_nanos` what is beyond milliseconds, plus one.
    """

    kind: StatisticsKind
    minimum: Any = None
    maximum: Any = None
    sum: Any = None
    lower_bound: str | None = None
    upper_bound: str | None = None
    minimum_utc: int | None = None
    maximum_utc: int | None = None
    minimum_nanos: int | None = None
    maximum_nanos: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """One column's statistics; `count` is of non-null values, None means that the writer did not say."""

    count: int | None
    has_null: bool | None
    bytes_on_disk: int | None
    values: ValueStatistics | None

    def of(self, *kinds: StatisticsKind) -> ValueStatistics | None:
        """What was noted of the values, if it is of one of these kinds."""
        return self.values if self.values is not None and self.values.kind in kinds else None

    def span(self) -> tuple[int, int] | None:
        """The bounds of whole numbers, if both are stated and can be those of any."""
        values = self.of(StatisticsKind.INTEGER)
        if values is None or values.minimum is None or values.maximum is None or values.minimum > values.maximum:
            return None
        return values.minimum, values.maximum


def _double(message: Message, field: int) -> float | None:
    data = message.data(field)
    if data is None:
        return None
    if len(data) != 8:
        raise WireError(f"field {field} is not a double")
    return float(struct.unpack("<d", data)[0])


def _int32(message: Message, field: int) -> int | None:
    value = message.uint(field)
    return None if value is None else signed(value)


def _first(message: Message, field: int) -> int | None:
    return next(iter(message.uints(field)), None)


_Read = Callable[[Message, int], Any]
_BOUNDS = ("minimum", "maximum")
# Of each kind what its fields hold, which are numbered from 1, and how each is read.
_FIELDS: Mapping[StatisticsKind, Mapping[str, _Read]] = {
    StatisticsKind.INTEGER: dict.fromkeys((*_BOUNDS, "sum"), Message.sint),
    StatisticsKind.DOUBLE: dict.fromkeys((*_BOUNDS, "sum"), _double),
    StatisticsKind.STRING: {
        **dict.fromkeys(_BOUNDS, Message.text),
        "sum": Message.sint,
        **dict.fromkeys(("lower_bound", "upper_bound"), Message.text),
    },
    # The file counts true values and might count false ones.
    StatisticsKind.BOOLEAN: {"sum": _first},
    StatisticsKind.DECIMAL: dict.fromkeys((*_BOUNDS, "sum"), Message.text),
    StatisticsKind.DATE: dict.fromkeys(_BOUNDS, Message.sint),
    StatisticsKind.BINARY: {"sum": Message.sint},
    StatisticsKind.TIMESTAMP: {
        **dict.fromkeys(("minimum", "maximum", "minimum_utc", "maximum_utc"), Message.sint),
        **dict.fromkeys(("minimum_nanos", "maximum_nanos"), _int32),
    },
    StatisticsKind.COLLECTION: dict.fromkeys((*_BOUNDS, "sum"), Message.uint),
}
# The same by the field of the whole message, laid out for speed: each column of each stripe is read by it.
_READS = {kind.value: (kind, dict(enumerate(fields.items(), 1))) for kind, fields in _FIELDS.items()}
_COUNT, _HAS_NULL, _BYTES = 1, 10, 11


def stated_decimal(text: str | None) -> Decimal | None:
    """A bound of decimals; None where none is stated, or the text is not a number."""
    try:
        return Decimal(text) if text else None
    except InvalidOperation:
        return None


def parse_statistics(message: Message) -> ColumnStatistics:
    """One ColumnStatistics message; WireError when it is malformed."""
    has_null = message.uint(_HAS_NULL)
    values = None
    for field in message:
        plan = _READS.get(field)
        if plan is not None and (inner := message.message(field)):
            kind, reads = plan
            if kind is StatisticsKind.INTEGER:
                values = ValueStatistics(kind, inner.sint(1), inner.sint(2), inner.sint(3))
                break
            stated = ((reads[number], number) for number in inner if number in reads)
            values = ValueStatistics(kind, **{name: read(inner, number) for (name, read), number in stated})
            break
    return ColumnStatistics(
        message.uint(_COUNT), None if has_null is None else bool(has_null), message.uint(_BYTES), values
    )


# --- Statistics of several stripes or files as those of all of them together.
#
# Works on the encoded messages, because bounds of strings are bytes that need not be text. Where one part does not say
# what the whole would need, the whole does not say it either: a reader that knows nothing reads everything, one that
# has wrong bounds loses rows.

_EXACT = Context(prec=100)
_MOST_DIGITS = 38
_MOST_NANOS = 999_999


def merged_statistics(parts: Sequence[bytes]) -> bytes:
    """One ColumnStatistics message for those of the same column in all parts; WireError when one is malformed."""
    messages = [Message(part) for part in parts]
    counts, nulls, sizes = (
        _complete(message.uint(field) for message in messages) for field in (_COUNT, _HAS_NULL, _BYTES)
    )
    typed: dict[int, Value] = {}
    counting = [message for message in messages if message.uint(_COUNT) != 0]
    if counting:
        kinds = {kind for message in counting for kind in _FIELDS if kind in message}
        inner = _complete(message.message(max(kinds)) for message in counting) if len(kinds) == 1 else None
        typed = {} if inner is None else {max(kinds): encoded(_merged(max(kinds), inner))}
    else:
        typed = {kind: messages[0].data(kind) for kind in _FIELDS}
    return encoded(
        {
            _COUNT: None if counts is None else sum(counts),
            **typed,
            _HAS_NULL: None if nulls is None else any(nulls),
            _BYTES: None if sizes is None else sum(sizes),
        }
    )


def ordered_doubles(stripe: bytes, columns: Iterable[int]) -> bytes:
    """A stripe's statistics; those of these columns of doubles, where there is NaN, say so as Java orders them: last.

    Hive leaves stripes out by that order, and a writer that begins with NaN notes nothing else as bounds.
    """
    parts: list[bytes] = list(Message(stripe).blobs(1))
    for column in columns:
        inner = Message(parts[column]).data(StatisticsKind.DOUBLE) or b""
        low, total = (_double(Message(inner), field) for field in (1, 3))
        if low is not None and total != total:
            bounds: dict[int, Value] = {1: low if low == low else -inf, 2: nan}
            parts[column] = rewritten(parts[column], {StatisticsKind.DOUBLE: rewritten(inner, bounds)})
    return encoded({1: parts})


def _complete(values: Iterable[T | None]) -> list[T] | None:
    """All the values; None when one is missing."""
    result = []
    for value in values:
        if value is None:
            return None
        result.append(value)
    return result


def _merged(kind: StatisticsKind, parts: Sequence[Message]) -> dict[int, Value]:
    """The part of the column's type, of messages that count values; without what one of them lacks."""
    if kind is StatisticsKind.BOOLEAN:
        counts = [part.uints(1) for part in parts]
        same = len({len(count) for count in counts}) == 1
        return {1: packed(sum(column) for column in zip(*counts, strict=True)) if same else None}
    if kind is StatisticsKind.STRING:
        return _merged_texts(parts)
    if kind is StatisticsKind.TIMESTAMP:
        return _merged_timestamps(parts)
    read, write, add, order = _MERGES.get(kind, (Message.sint, zigzagged, _sum, None))
    result: dict[int, Value] = {}
    for field, name in enumerate(_FIELDS[kind], 1):
        values = _complete(read(part, field) for part in parts)
        if values is None:
            continue
        try:
            merged = add(values) if name == "sum" else (min if name == "minimum" else max)(values, key=order)
        except InvalidOperation:
            return {}
        if name != "sum" and any(value != value for value in values):
            return {}  # NaN has no place in an order
        result[field] = None if merged is None else write(merged)
    return result


def _sum(values: Sequence[int]) -> int | None:
    """The sum; None beyond 64 bits."""
    return total if -(1 << 63) <= (total := sum(values)) < 1 << 63 else None


def _decimal(value: bytes) -> Decimal:
    return Decimal(value.decode("ascii", "replace"))


def exact_sum(values: Iterable[Decimal]) -> Decimal:
    """The sum, of more digits than Hive's decimals have."""
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, value)
    return total


def _decimal_sum(values: Sequence[bytes]) -> bytes | None:
    total = exact_sum(map(_decimal, values))
    return format(total, "f").encode() if len(total.as_tuple().digits) <= _MOST_DIGITS else None


# How values are read and written, added up, and compared, where they are not numbers with a sign.
_MERGES: Mapping[int, tuple[_Read, Callable[[Any], Value], Callable[[Any], Any], Callable[[Any], Any] | None]] = {
    StatisticsKind.DOUBLE: (_double, float, sum, None),
    StatisticsKind.DECIMAL: (Message.data, bytes, _decimal_sum, _decimal),
    StatisticsKind.COLLECTION: (Message.uint, int, sum, None),
}


def _merged_texts(parts: Sequence[Message]) -> dict[int, Value]:
    result: dict[int, Value] = {}
    # A bound (fields 4 and 5) stands in for a least or greatest value that is too long to be kept.
    for fields, choose in (((1, 4), min), ((2, 5), max)):
        bounds = _complete(
            next(((data, field) for field in fields if (data := part.data(field)) is not None), None) for part in parts
        )
        if bounds is None:
            return {}
        value, field = choose(bounds, key=itemgetter(0))
        result[field] = value
    lengths = _complete(part.sint(3) for part in parts)
    total = None if lengths is None else _sum(lengths)
    return result if total is None else {**result, 3: zigzagged(total)}


def _merged_timestamps(parts: Sequence[Message]) -> dict[int, Value]:
    result: dict[int, Value] = {}
    for low, high in ((1, 2), (3, 4)):
        least = _complete(_moment(part, low, 5, 0) for part in parts)
        greatest = _complete(_moment(part, high, 6, _MOST_NANOS) for part in parts)
        if least is None or greatest is None:
            continue
        (first, first_nanos), (last, last_nanos) = min(least), max(greatest)
        result |= {low: zigzagged(first), high: zigzagged(last)}
        if low == 3:
            # They are stored as one more than they are, and not at all where they are what a reader assumes.
            result[5] = first_nanos + 1 if first_nanos else None
            result[6] = last_nanos + 1 if last_nanos != _MOST_NANOS else None
    return result


def _moment(part: Message, field: int, nanos_field: int, default: int) -> tuple[int, int] | None:
    """Milliseconds and the nanoseconds beyond them."""
    millis, nanos = part.sint(field), _int32(part, nanos_field)
    return None if millis is None else (millis, default if nanos is None else nanos - 1)
