"""Column statistics of several stripes or files as those of all of them together.

Works on the encoded messages, because bounds of strings are bytes that need not be text. Where one part does not say
what the whole would need, the whole does not say it either: a reader that knows nothing reads everything, one that is
told something wrong loses rows.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, InvalidOperation

from acidctl.orc.protobuf import Message, signed
from acidctl.orc.wirewrite import block, encode_varint, number, zigzagged

_COUNT, _HAS_NULL, _BYTES = 1, 10, 11
_INTEGER, _DOUBLE, _STRING, _BUCKET, _DECIMAL, _DATE, _BINARY, _TIMESTAMP, _COLLECTION = 2, 3, 4, 5, 6, 7, 8, 9, 12
_KINDS = (_INTEGER, _DOUBLE, _STRING, _BUCKET, _DECIMAL, _DATE, _BINARY, _TIMESTAMP, _COLLECTION)
_EXACT = Context(prec=100)
_MOST_DIGITS = 38
_MOST_NANOS = 999_999


def merged_statistics(parts: Sequence[bytes]) -> bytes:
    """One ColumnStatistics message for those of the same column in all parts; WireError when one is malformed."""
    messages = [Message(part) for part in parts]
    result = b""
    counts = [message.uint(_COUNT) for message in messages]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        result += number(_COUNT, sum(known))
    counting = [message for message, count in zip(messages, counts, strict=True) if count != 0]
    result += _typed(counting) if counting else _empty(messages[0])
    nulls = [message.uint(_HAS_NULL) for message in messages]
    if None not in nulls:
        result += number(_HAS_NULL, any(nulls))
    sizes = [size for message in messages if (size := message.uint(_BYTES)) is not None]
    if len(sizes) == len(messages):
        result += number(_BYTES, sum(sizes))
    return result


def _typed(messages: Sequence[Message]) -> bytes:
    """The part of the column's type, of messages that count values; nothing when they disagree or do not say."""
    kinds = {kind for message in messages for kind in _KINDS if message.has(kind)}
    if len(kinds) != 1:
        return b""
    (kind,) = kinds
    inner = [message.message(kind) for message in messages]
    present = [message for message in inner if message is not None]
    if len(present) < len(inner):
        return b""
    merged = _MERGES[kind](present)
    return b"" if merged is None else block(kind, merged)


def _empty(message: Message) -> bytes:
    """The part of the column's type, of a message that counts no value."""
    return b"".join(block(kind, data) for kind in _KINDS if (data := message.data(kind)) is not None)


def _bounds(parts: Sequence[Message], encode: Callable[[int, int], bytes]) -> bytes | None:
    """Fields 1 and 2 as the least and greatest of zigzag numbers; None when a part lacks one."""
    low, high = [part.sint(1) for part in parts], [part.sint(2) for part in parts]
    least = [value for value in low if value is not None]
    greatest = [value for value in high if value is not None]
    if len(least) < len(low) or len(greatest) < len(high):
        return None
    return encode(min(least), max(greatest))


def _zigzag_pair(low: int, high: int) -> bytes:
    return number(1, zigzagged(low)) + number(2, zigzagged(high))


def _sum(parts: Sequence[Message], field: int) -> bytes:
    """A sum of zigzag numbers, left out when unknown or beyond 64 bits."""
    sums = [value for part in parts if (value := part.sint(field)) is not None]
    total = sum(sums)
    if len(sums) < len(parts) or not -(1 << 63) <= total < 1 << 63:
        return b""
    return number(field, zigzagged(total))


def _integer(parts: Sequence[Message]) -> bytes | None:
    bounds = _bounds(parts, _zigzag_pair)
    return None if bounds is None else bounds + _sum(parts, 3)


def _date(parts: Sequence[Message]) -> bytes | None:
    return _bounds(parts, _zigzag_pair)


def _binary(parts: Sequence[Message]) -> bytes | None:
    return _sum(parts, 1)


def _double(parts: Sequence[Message]) -> bytes | None:
    fields = [[_real(part, place) for part in parts] for place in (1, 2, 3)]
    low, high, sums = ([value for value in field if value is not None] for field in fields)
    if len(low) < len(parts) or len(high) < len(parts):
        return None
    if any(math.isnan(value) for value in (*low, *high)):
        return None
    result = _fixed(1, min(low)) + _fixed(2, max(high))
    return result + (_fixed(3, sum(sums)) if len(sums) == len(parts) else b"")


def _real(part: Message, place: int) -> float | None:
    data = part.data(place)
    return None if data is None or len(data) != 8 else float(struct.unpack("<d", data)[0])


def _fixed(place: int, value: float) -> bytes:
    return encode_varint(place << 3 | 1) + struct.pack("<d", value)


def _string(parts: Sequence[Message]) -> bytes | None:
    # A bound (fields 4 and 5) stands in for a least or greatest value that is too long to be kept.
    low = [(value, 1) if (value := part.data(1)) is not None else (part.data(4), 4) for part in parts]
    high = [(value, 2) if (value := part.data(2)) is not None else (part.data(5), 5) for part in parts]
    least = [(value, place) for value, place in low if value is not None]
    greatest = [(value, place) for value, place in high if value is not None]
    if len(least) < len(parts) or len(greatest) < len(parts):
        return None
    first, lowest = min(least, key=lambda bound: bound[0])
    last, highest = max(greatest, key=lambda bound: bound[0])
    return block(lowest, first) + block(highest, last) + _sum(parts, 3)


def _bucket(parts: Sequence[Message]) -> bytes | None:
    counts = [part.uints(1) for part in parts]
    if len({len(count) for count in counts}) != 1:
        return None
    return block(1, b"".join(encode_varint(sum(column)) for column in zip(*counts, strict=True)))


def _decimal(parts: Sequence[Message]) -> bytes | None:
    low, high, sums = ([part.data(place) for part in parts] for place in (1, 2, 3))
    least = [value for value in low if value is not None]
    greatest = [value for value in high if value is not None]
    if len(least) < len(parts) or len(greatest) < len(parts):
        return None
    try:
        result = block(1, min(least, key=_number)) + block(2, max(greatest, key=_number))
        known = [_number(value) for value in sums if value is not None]
    except InvalidOperation:
        return None
    total = Decimal(0)
    for value in known:
        total = _EXACT.add(total, value)
    if len(known) == len(parts) and len(total.as_tuple().digits) <= _MOST_DIGITS:
        result += block(3, format(total, "f").encode())
    return result


def _number(value: bytes) -> Decimal:
    return Decimal(value.decode("ascii", "replace"))


def _timestamp(parts: Sequence[Message]) -> bytes | None:
    result = b""
    for low, high, nanos in ((1, 2, False), (3, 4, True)):
        least = [(value, _rest(part, 5, 0)) for part in parts if (value := part.sint(low)) is not None]
        greatest = [(value, _rest(part, 6, _MOST_NANOS)) for part in parts if (value := part.sint(high)) is not None]
        if len(least) < len(parts) or len(greatest) < len(parts):
            continue
        result += number(low, zigzagged(min(least)[0])) + number(high, zigzagged(max(greatest)[0]))
        if nanos:
            # They are stored as one more than they are, and not at all where they are what a reader assumes.
            first, last = min(least)[1], max(greatest)[1]
            result += number(5, first + 1) if first else b""
            result += number(6, last + 1) if last != _MOST_NANOS else b""
    return result or None


def _rest(part: Message, place: int, default: int) -> int:
    value = part.uint(place)
    return default if value is None else signed(value) - 1


def _collection(parts: Sequence[Message]) -> bytes | None:
    result = b""
    for place, combine in ((1, min), (2, max), (3, sum)):
        values = [value for part in parts if (value := part.uint(place)) is not None]
        if len(values) == len(parts):
            result += number(place, combine(values))
    return result


_MERGES: dict[int, Callable[[Sequence[Message]], bytes | None]] = {
    _INTEGER: _integer,
    _DOUBLE: _double,
    _STRING: _string,
    _BUCKET: _bucket,
    _DECIMAL: _decimal,
    _DATE: _date,
    _BINARY: _binary,
    _TIMESTAMP: _timestamp,
    _COLLECTION: _collection,
}
