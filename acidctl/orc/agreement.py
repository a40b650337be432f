"""Whether what a file says of its rows agrees at all levels: row groups, stripes, the file.

Stripes are copied with the statistics that a tail gives for them, and nobody decodes their rows. So a stripe is
believed only where each of its columns says the same as its row groups together do, and a file where its stripes do.
Left out is what writers do not count alike, or what says nothing of rows: sums of floating point numbers (they depend
on the order), bounds beside NaN, sums of decimals of which a part overflowed (Hive goes on from there), and bytes on
disk.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from decimal import Decimal

from acidctl.orc.codec import CodecError, Compression, expand
from acidctl.orc.input_file import PrefetchingFile
from acidctl.orc.protobuf import Budget, Message, WireError, packed, varint, zigzag
from acidctl.orc.stats import StatisticsKind, exact_sum
from acidctl.orc.stripe import StreamKind, StripeFooter, recorded
from acidctl.orc.tail import ReadableFile, Tail, read_range
from acidctl.orc.tail_edit import STATISTICS

_MAX_INDEX = 64 << 20
# So many row indexes are asked for at a time where each request takes long.
_TOGETHER = 32
_COUNT, _HAS_NULL = 1, 10
_ENTRY, _POSITIONS, _OF_GROUP = 1, 1, 2
_MOST_DIGITS = 80
# Of a message the fields, the last one of each number.
_Fields = Mapping[int, int | bytes]
#: Statistics of parts that have values, each with how many parts have the very same.
_Parts = Sequence[tuple[_Fields, int]]


def file_agrees(tail: Tail, stripes: Sequence[bytes]) -> bool:
    """Whether the statistics of a file are those of its stripes together; `stripes` are theirs, encoded."""
    try:
        whole = Message(tail.footer).blobs(STATISTICS)
        parts = [Message(one).blobs(1) for one in stripes]
    except WireError:
        return False
    if any(len(one) != len(tail.types) for one in (whole, *parts)):
        return False
    return all(agrees(*column) for column in zip(whole, zip(*parts, strict=True), strict=True))


def stripe_agrees(
    file: ReadableFile,
    tail: Tail,
    index: int,
    footer: StripeFooter,
    statistics: bytes,
    among: Container[int] | None = None,
) -> bool:
    """Whether the statistics of a stripe are those of its row groups together, column by column or `among` these, and
    its row indexes can be of its streams; True where the file has no row indexes.

    Raises StorageError.
    """
    if not tail.row_index_stride:
        return True
    stripe, post = tail.stripes[index], tail.postscript
    groups = -(-stripe.rows // tail.row_index_stride)
    try:
        columns = Message(statistics).blobs(1)
        stored = memoryview(read_range(file, stripe.offset, stripe.index_length, tail.name))
        for column, stated in enumerate(columns):
            if among is not None and column not in among:
                continue
            stream = footer.stream(StreamKind.ROW_INDEX, column)
            if stream is None or stream.offset + stream.length > stripe.offset + stripe.index_length:
                return False
            start = stream.offset - stripe.offset
            plain = bytes(stored[start : start + stream.length])
            entries = _entries(expand(plain, post.compression, post.block_size, _MAX_INDEX), Budget(stream.length))
            if len(entries) != groups or not agrees(stated, [one for _, one in entries]):
                return False
            if not _begins_and_ends(tail, footer, column, entries[0][0], entries[-1][0]):
                return False
    except (WireError, CodecError):
        return False
    return len(columns) == len(tail.types)


def agreeing(
    file: ReadableFile, tail: Tail, stripes: range, footers: Sequence[StripeFooter], statistics: Sequence[bytes]
) -> list[int]:
    """Those of adjacent stripes of which `stripe_agrees` holds, by the footers of these and the statistics of all."""
    found = []
    for at in range(0, len(stripes), _TOGETHER):
        part = stripes[at : at + _TOGETHER]
        if isinstance(file, PrefetchingFile):
            file.expect([(tail.stripes[index].offset, tail.stripes[index].index_length) for index in part])
        known = zip(part, footers[at:], strict=False)
        found += [index for index, footer in known if stripe_agrees(file, tail, index, footer, statistics[index])]
    return found


def agrees(whole: bytes, parts: Sequence[bytes]) -> bool:
    """Whether the encoded statistics of a column count what those of its parts do, and claim nothing else than these
    say together.
    """
    if len(parts) == 1 and parts[0] == whole:
        return True
    try:
        # Those of key columns are mostly the same in all row groups.
        known = [(_fields(part), times) for part, times in Counter(parts).items()]
        return _agrees(_fields(whole), known)
    except (IndexError, KeyError, StopIteration, TypeError, ValueError, ArithmeticError, struct.error):
        return False  # not of this form


def _agrees(stated: _Fields, parts: _Parts) -> bool:
    if stated[_COUNT] != sum(_number(part[_COUNT]) * times for part, times in parts):
        return False
    if _HAS_NULL in stated and bool(stated[_HAS_NULL]) is not any(part[_HAS_NULL] for part, _ in parts):
        return False
    if stated[_COUNT] == 0:
        return True  # bounds of nothing
    counting = [(part, times) for part, times in parts if part[_COUNT]]
    for kind in StatisticsKind:
        if stated.get(kind):
            inner = [(_fields(_data(part[kind])), times) for part, times in counting]
            if not _CHECKS[kind](_fields(_data(stated[kind])), inner):
                return False
    return True


def _fields(data: bytes) -> _Fields:
    """The fields of a message; laid out for speed, as there is one for each row group of each column."""
    found: dict[int, int | bytes] = {}
    at, end, count = 0, len(data), 0
    while at < end:
        key = data[at]
        count += 1
        kind, number = key & 7, data[at + 1]
        at += 2
        if kind == 1:
            at += 7
            found[key >> 3] = data[at - 8 : at]
            continue
        if number >= 0x80:
            number, shift, more = number & 0x7F, 7, 0x80
            while more >= 0x80:
                more = data[at]
                at += 1
                number |= (more & 0x7F) << shift
                shift += 7
        if kind == 2:
            at += number
            found[key >> 3] = data[at - number : at]
        elif kind == 0 and key < 0x80:
            found[key >> 3] = number
        else:
            raise ValueError("not a field of statistics")
    if at != end or count != len(found):
        raise ValueError("a field runs past the end, or is there twice")
    return found


def _number(value: int | bytes) -> int:
    if isinstance(value, int):
        return value
    raise TypeError("bytes instead of a number")


def _data(value: int | bytes) -> bytes:
    if isinstance(value, bytes):
        return value
    raise TypeError("a number instead of bytes")


# --- Of each kind: whether the least, the greatest and the sum that are stated are those of the parts.
#
# A part that does not say what the whole says raises KeyError.


def _numbers(stated: _Fields, parts: _Parts) -> bool:
    return _same_numbers(stated, parts, zigzag)


def _lengths(stated: _Fields, parts: _Parts) -> bool:
    return _same_numbers(stated, parts, int)


def _same_numbers(stated: _Fields, parts: _Parts, read: Callable[[int], int]) -> bool:
    """Whole numbers: fields 1, 2 and 3 are the least, the greatest and the sum."""
    for field, choose in ((1, min), (2, max)):
        if field in stated and read(_number(stated[field])) != choose(read(_number(one[field])) for one, _ in parts):
            return False
    return 3 not in stated or read(_number(stated[3])) == sum(read(_number(one[3])) * times for one, times in parts)


def _doubles(stated: _Fields, parts: _Parts) -> bool:
    """Bounds only. Where there is NaN each writer has its own: none may be narrower than those of a part."""
    for field, choose in ((1, min), (2, max)):
        if field in stated:
            bound, *others = (_double(one[field]) for one in (stated, *(part for part, _ in parts)))
            if any(value != value for value in (bound, *others)) or any(_is_nan(one) for one, _ in parts):
                if any(choose(bound, value) != bound for value in others if value == value and bound == bound):
                    return False
            elif bound != choose(others):
                return False
    return True


def _is_nan(part: _Fields) -> bool:
    total = _double(part[3]) if 3 in part else 0.0
    return total != total


def _double(value: int | bytes) -> float:
    return float(struct.unpack("<d", _data(value))[0])


def _texts(stated: _Fields, parts: _Parts) -> bool:
    """A bound (fields 4 and 5) stands in for a least or greatest value that is too long to be kept."""
    for exact, bound, choose in ((1, 4, min), (2, 5, max)):
        if exact in stated or bound in stated:
            known = choose(_data(one[exact] if exact in one else one[bound]) for one, _ in parts)
            if stated.get(exact, stated.get(bound)) != known:
                return False
    return 3 not in stated or zigzag(_number(stated[3])) == sum(zigzag(_number(one[3])) * times for one, times in parts)


def _truths(stated: _Fields, parts: _Parts) -> bool:
    return _bucket(stated[1]) == sum(_bucket(one[1]) * times for one, times in parts)


def _bucket(value: int | bytes) -> int:
    """The first of a repeated number, packed or not: how many values are true."""
    return value if isinstance(value, int) else next(_varints(value))


def _decimals(stated: _Fields, parts: _Parts) -> bool:
    for field, choose in ((1, min), (2, max)):
        if field in stated and _decimal(stated[field]) != choose(_decimal(one[field]) for one, _ in parts):
            return False
    if 3 not in stated or any(3 not in one for one, _ in parts):
        return True
    total = exact_sum([_decimal(one[3]) for one, times in parts for _ in range(times)])
    # Hive rounds what has more digits than a decimal.
    return len(total.as_tuple().digits) > _MOST_HIVE_DIGITS or _decimal(stated[3]) == total


_MOST_HIVE_DIGITS = 38


def _decimal(value: int | bytes) -> Decimal:
    text = _data(value).decode("ascii")
    if len(text) > _MOST_DIGITS or not text.strip("-").replace(".", "", 1).isdigit():
        raise ValueError("not a plain number")
    return Decimal(text)


def _totals(stated: _Fields, parts: _Parts) -> bool:
    """Lengths of binary values."""
    return zigzag(_number(stated[1])) == sum(zigzag(_number(one[1])) * times for one, times in parts)


def _moments(stated: _Fields, parts: _Parts) -> bool:
    """Milliseconds, those of UTC with nanoseconds beyond them, which are stored as one more."""
    for field, choose in ((1, min), (2, max)):
        if field in stated and zigzag(_number(stated[field])) != choose(
            zigzag(_number(one[field])) for one, _ in parts
        ):
            return False
    for field, nanos, default, choose in ((3, 5, 1, min), (4, 6, _MOST_NANOS, max)):
        if field in stated:
            moments = [
                (zigzag(_number(one[field])), _number(one.get(nanos, default)))
                for one in (stated, *(part for part, _ in parts))
            ]
            if moments[0] != choose(moments[1:]):
                return False
    return True


_MOST_NANOS = 1_000_000
_CHECKS: Mapping[StatisticsKind, Callable[[_Fields, _Parts], bool]] = {
    StatisticsKind.INTEGER: _numbers,
    StatisticsKind.DOUBLE: _doubles,
    StatisticsKind.STRING: _texts,
    StatisticsKind.BOOLEAN: _truths,
    StatisticsKind.DECIMAL: _decimals,
    StatisticsKind.DATE: _numbers,
    StatisticsKind.BINARY: _totals,
    StatisticsKind.TIMESTAMP: _moments,
    StatisticsKind.COLLECTION: _lengths,
}


# --- Row indexes.


def _entries(index: bytes, budget: Budget) -> list[tuple[bytes, bytes]]:
    """Of each row group the encoded positions and statistics; WireError where one has none."""
    return [_entry(one, budget) for one in Message(index, budget).blobs(_ENTRY)]


def _entry(data: bytes, budget: Budget) -> tuple[bytes, bytes]:
    # Nearly all have both fields, short and in this order.
    first = data[1] + 2 if data[:1] == b"\x0a" and len(data) > 1 and data[1] < 0x80 else 0
    if data[first : first + 1] == b"\x12" and len(data) - first - 2 == data[first + 1] < 0x80:
        return data[2:first], data[first + 2 :]
    message = Message(data, budget)
    statistics = message.data(_OF_GROUP)
    if statistics is None:
        raise WireError("a row group has no statistics")
    return packed(message.uints(_POSITIONS)), statistics


def _begins_and_ends(tail: Tail, footer: StripeFooter, column: int, first: bytes, last: bytes) -> bool:
    """Whether the first row group begins where its streams do, and the last one within them."""
    streams = {kind: footer.stream(kind, column) for kind in (StreamKind.PRESENT, StreamKind.DATA)}
    kinds = recorded(
        tail.types[column].kind, footer.encodings[column].kind, nulls=streams[StreamKind.PRESENT] is not None
    )
    place = 1 if tail.postscript.compression is Compression.NONE else 2
    if any(first) or first.translate(None, b"\0") or len(first) != sum(place + rest for _, rest in kinds):
        return False
    numbers, at = list(_varints(last)), 0
    if len(numbers) != len(first):
        return False
    for kind, rest in kinds:
        stream = footer.stream(kind, column)
        if numbers[at] > (0 if stream is None else stream.length):
            return False
        at += place + rest
    return True


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value
