"""One ORC file of the stripes of several: they are copied byte for byte, and only the tail is made anew.

A stripe knows nothing of its place or its file, so files of one schema, codec and calendar can be joined at the price
of reading and writing their bytes. A `StripeRun` may also be a part of a file: what no delete touches needs no
decoding.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import BinaryIO, cast

import pyarrow as pa

from acidctl.errors import InternalError
from acidctl.format.events import RowId, keys_of
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.acidmeta import ACID_STATS, KEY_INDEX, parse_acid_stats, parse_key_index
from acidctl.orc.codec import expand, pack
from acidctl.orc.protobuf import Message, signed
from acidctl.orc.reader import open_orc
from acidctl.orc.rowindex import MAX_METADATA
from acidctl.orc.tail import ReadableFile, Tail, read_range, read_tail
from acidctl.orc.tail_buffer import write_all
from acidctl.orc.tailedit import (
    CONTENT_LENGTH,
    MAGIC,
    METADATA,
    ROWS,
    STATISTICS,
    STRIPES,
    edited_footer,
    merged_metadata,
    sealed,
)
from acidctl.orc.wirewrite import block, encode_varint, number, raw_fields, rewritten, zigzagged
from acidctl.orc.writer import Backend, WrittenFile

# --- Column statistics of several stripes or files as those of all of them together.
#
# Works on the encoded messages, because bounds of strings are bytes that need not be text. Where one part does not say
# what the whole would need, the whole does not say it either: a reader that knows nothing reads everything, one that is
# told something wrong loses rows.


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


_COPIED = 4 << 20


@dataclass(frozen=True, slots=True)
class StripeRun:
    """Stripes of an open file, in file order; `stripes` None means all.

    `keys` are the last keys of these stripes; None takes them from the file's key index, which then has to be right
    (that of a file that acidctl wrote is).
    """

    file: ReadableFile
    tail: Tail
    stripes: tuple[int, ...] | None = None
    keys: tuple[RowId, ...] | None = None

    @staticmethod
    def whole(file: ReadableFile, *, name: str) -> StripeRun:
        """All stripes of an open file; raises what `read_tail` raises."""
        return StripeRun(file, read_tail(file, name=name))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the stripes."""
        return tuple(range(len(self.tail.stripes))) if self.stripes is None else self.stripes

    @property
    def is_whole(self) -> bool:
        return len(self.numbers) == len(self.tail.stripes)

    @property
    def rows(self) -> int:
        """Rows of these stripes."""
        return sum(self.tail.stripes[i].rows for i in self.numbers)


def mismatch(one: Tail, other: Tail) -> str | None:
    """Why stripes of two files cannot stand in one, as the end of a sentence; None when they can."""
    first, second = one.postscript, other.postscript
    if one.types != other.types:
        return "have different columns"
    if first.compression is not second.compression or first.block_size != second.block_size:
        return "are compressed differently"
    if one.calendar is not other.calendar:
        return "count days by different calendars"
    if (one.writer_code, first.writer_version, first.version) != (
        other.writer_code,
        second.writer_version,
        second.version,
    ):
        return "come from different writers"
    if one.row_index_stride != other.row_index_stride:
        return "have row indexes of different strides"
    return "are encrypted" if one.encrypted or other.encrypted else None


def stitch(sink: BinaryIO, runs: Sequence[StripeRun], *, metadata: Mapping[str, bytes] | None = None) -> WrittenFile:
    """Write one file of all stripes of `runs`, of which there is at least one; the sink stays open.

    The user metadata is that of the first file, with `metadata` set; key index and ACID statistics are joined. Rows
    have to be in order already. Raises InternalError for files that do not fit (`mismatch`), DamagedDataError for
    what cannot be read.
    """
    base = runs[0].tail
    for run in runs[1:]:
        if why := mismatch(base, run.tail):
            raise InternalError(f"{base.name} and {run.tail.name} cannot be joined: they {why}")
    stripes = _copy(sink, runs)
    per_stripe = [_stripe_statistics(run) for run in runs]
    section = b""
    # One stripe without statistics would shift those of all after it.
    if all(len(known) == len(run.numbers) for known, run in zip(per_stripe, runs, strict=True)):
        section = b"".join(block(1, message) for known in per_stripe for message in known)
    keys = _keys(runs) if base.metadata_value(KEY_INDEX) is not None else None
    values = dict(metadata or {})
    if keys is not None:
        values[KEY_INDEX] = "".join(f"{k.write_id},{k.bucket_property},{k.row_id};" for k in keys).encode()
        values[ACID_STATS] = _acid_stats(runs)
    rows = sum(run.rows for run in runs)
    footer = edited_footer(
        base,
        {
            CONTENT_LENGTH: number(CONTENT_LENGTH, stripes.end),
            STRIPES: b"".join(block(STRIPES, message) for message in stripes.messages),
            METADATA: merged_metadata(base, values),
            ROWS: number(ROWS, rows),
            STATISTICS: _file_statistics(runs, per_stripe),
        },
    )
    post = base.postscript
    packed = pack(section, post.compression, post.block_size)
    raw_post = read_range(runs[0].file, base.file_length - post.length - 1, post.length, base.name)
    end = packed + sealed(footer, raw_post, post, metadata_length=len(packed))
    write_all(sink, end)
    return WrittenFile(
        rows=rows,
        bytes=stripes.end + len(end),
        stripes=len(stripes.messages),
        first_key=_first_key(runs) if keys is not None else None,
        last_key=keys[-1] if keys else None,
        backend=Backend.COPY,
    )


@dataclass(frozen=True, slots=True)
class _Stripes:
    """The copied stripes: their entries for the footer, and where the last one ends."""

    messages: tuple[bytes, ...]
    end: int


def _copy(sink: BinaryIO, runs: Sequence[StripeRun]) -> _Stripes:
    messages = []
    write_all(sink, MAGIC)
    at = len(MAGIC)
    for run in runs:
        entries = [field for place, field in raw_fields(run.tail.footer) if place == STRIPES]
        for i in run.numbers:
            stripe = run.tail.stripes[i]
            for start in range(stripe.offset, stripe.end, _COPIED):
                write_all(sink, read_range(run.file, start, min(_COPIED, stripe.end - start), run.tail.name))
            (message,) = Message(entries[i]).blobs(STRIPES)
            messages.append(rewritten(message, {1}, number(1, at)))
            at += stripe.end - stripe.offset
    return _Stripes(tuple(messages), at)


def _stripe_statistics(run: StripeRun) -> list[bytes]:
    """The encoded statistics of each stripe of the run; empty when the writer left none."""
    tail, post = run.tail, run.tail.postscript
    if not post.metadata_length:
        return []
    offset = tail.file_length - post.length - 1 - post.footer_length - post.metadata_length
    raw = read_range(run.file, offset, post.metadata_length, tail.name)
    messages = list(Message(expand(raw, post.compression, post.block_size, MAX_METADATA)).blobs(1))
    if len(messages) != len(tail.stripes):
        return []
    return [messages[i] for i in run.numbers]


def _file_statistics(runs: Sequence[StripeRun], per_stripe: Sequence[Sequence[bytes]]) -> bytes:
    """The encoded statistics of all columns; nothing when a run does not say."""
    parts: list[list[bytes]] = []
    for run, stripes in zip(runs, per_stripe, strict=True):
        whole = list(Message(run.tail.footer).blobs(STATISTICS))
        if run.is_whole and (run.numbers or len(runs) == 1):
            parts.append(whole)
        else:
            parts += [list(Message(stripe).blobs(1)) for stripe in stripes]
            if len(stripes) < len(run.numbers):
                return b""
    columns = len(runs[0].tail.types)
    if not parts or any(len(part) != columns for part in parts):
        return b""
    return b"".join(block(STATISTICS, merged_statistics(column)) for column in zip(*parts, strict=True))


def _keys(runs: Sequence[StripeRun]) -> list[RowId]:
    """The last key of each stripe."""
    keys: list[RowId] = []
    for run in runs:
        given = run.keys
        if given is None:
            index = parse_key_index(run.tail.metadata_value(KEY_INDEX) or b"")
            if len(index) != len(run.tail.stripes):
                raise InternalError(f"the key index of {run.tail.name} is not of its stripes")
            given = tuple(key for i in run.numbers if (key := index[i]) is not None)
        if len(given) != len(run.numbers):
            raise InternalError(
                f"the keys of {len(given)} stripes of {run.tail.name} are known, {len(run.numbers)} used"
            )
        keys += given
    return keys


def _acid_stats(runs: Sequence[StripeRun]) -> bytes:
    totals = [0, 0, 0]
    for run in runs:
        value = run.tail.metadata_value(ACID_STATS)
        if value is None:
            raise InternalError(f"{run.tail.name} does not count its events")
        stats = parse_acid_stats(value)
        counts = (stats.inserts, stats.updates, stats.deletes)
        if not run.is_whole:
            # Of a part the share is known where all events are of one kind, and other parts are not cut.
            if sum(counts) not in counts:
                raise InternalError(f"{run.tail.name} mixes kinds of events and cannot be joined in part")
            counts = tuple(run.rows if count else 0 for count in counts)  # type: ignore[assignment]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    return ",".join(map(str, totals)).encode()


def _first_key(runs: Sequence[StripeRun]) -> RowId | None:
    """The first key of the first stripe, where that begins its file; else None."""
    first = next((run for run in runs if run.numbers), None)
    if first is None or first.numbers[0]:
        return None
    orc = open_orc(first.file, name=first.tail.name, length=first.tail.file_length)
    with closing(cast(Generator[pa.RecordBatch, None, None], orc.scan(KEY_FIELDS, batch_size=1))) as batches:
        return keys_of(next(batches), name=orc.name).at(0)
