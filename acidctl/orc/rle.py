"""ORC's run-length encodings (integers in versions 1 and 2, bytes, booleans), decoded into numpy arrays.

What is read beside the C++ reader needs them, and the guard before it. Loops are per run, not per value,
except over literals of version 1, which Hive stopped writing with 0.12.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from acidctl.errors import AcidctlError
from acidctl.orc.codec import CodecError, Compression
from acidctl.orc.protobuf import WireError, varint, zigzag
from acidctl.orc.stripe import EncodingKind, Stream, StreamKind, StripeFooter
from acidctl.orc.tail import OrcKind, Tail, damaged
from acidctl.values import dataclass

UInt64Array = npt.NDArray[np.uint64]

# Widths that the five-bit codes of version 2 stand for.
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_U64 = (1 << 64) - 1
_SHORT_REPEAT, _DIRECT, _PATCHED, _DELTA = range(4)
# Runs are bounded together until they have so many values, and all of a stream in no more parts than these.
_PART, _MOST_PARTS = 512, 1 << 16
# So many bytes of a stream are looked up at a time, and so many different ones kept.
_WINDOW, _MOST_WINDOWS = 64, 1 << 12
# The sum of a run of such values does not overflow.
_SUMMED = 1 << 54


def decode_v2(data: bytes, *, signed: bool = False) -> Iterator[UInt64Array]:
    """The runs of an RLEv2 stream, in order (two's complement if signed); WireError when it is damaged."""
    at = 0
    while at < len(data):
        kind = data[at] >> 6
        if kind == _DELTA:
            values, at = _delta(data, at, signed)
        elif kind == _PATCHED:
            values, at = _patched_base(data, at)
        else:
            values, at = (_short_repeat, _direct)[kind](data, at)
            values = _unzigzag(values) if signed else values
        yield values


def decode_v1(data: bytes, *, signed: bool = False) -> Iterator[UInt64Array]:
    """The runs of an RLEv1 stream, in order (two's complement if signed); WireError when it is damaged."""
    at = 0
    while at < len(data):
        header = data[at]
        if header < 128:
            if at + 1 >= len(data):
                raise WireError("a run is cut short")
            step = data[at + 1] - 256 if data[at + 1] > 127 else data[at + 1]
            base, at = varint(data, at + 2)
            base = zigzag(base) if signed else base
            yield _modular(np.arange(header + 3, dtype=np.int64) * step, base)
        else:
            literals = []
            at += 1
            for _ in range(256 - header):
                value, at = varint(data, at)
                literals.append(value)
            values = np.array(literals, dtype=np.uint64)
            yield _unzigzag(values) if signed else values


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the first values of an unsigned stream can be at most.

    Neighbouring runs are taken together: `counts` says how many values, `sums` what these add up to at most. No value
    is greater than `top`.
    """

    counts: Sequence[int]
    sums: Sequence[int]
    top: int

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self.counts)

    @property
    def total(self) -> int:
        """What all values add up to at most."""
        return sum(self.sums)

    def of(self, values: float) -> float:
        """What so many values in a row add up to at most, wherever they stand."""
        ends = np.cumsum(np.array(self.counts, np.float64))
        sums = np.cumsum(np.array((0, *self.sums), np.float64))
        # From the first value of one part on, and as far as a window reaches that begins with its last.
        last = np.minimum(np.searchsorted(ends, ends + values - 1), len(ends) - 1)
        return min(values * self.top, float((sums[last + 1] - sums[:-1]).max(initial=0.0)))


def bounds_v2(data: bytes, values: int) -> Bounds:
    """The bounds of an RLEv2 stream as far as its first `values` reach, by the headers of its runs alone.

    A run that may fall below zero counts as enormous. WireError when the stream is cut short.
    """
    part = _part_of(values)

    def runs() -> Iterator[tuple[int, int, int]]:
        # Text lengths come as many short runs, and the same few again and again: a look-up tells several of them.
        windows: dict[bytes, tuple[int, tuple[int, int, int]]] = {}
        at, end = 0, len(data)
        while at < end:
            window = data[at : at + _WINDOW]
            known = windows.get(window)
            if known is None:
                known = _window_bound(data, at, part)
                if known[0] <= len(window) and len(windows) < _MOST_WINDOWS:
                    windows[window] = known
            at += known[0]
            if at > end:
                raise IndexError
            yield known[1]

    try:
        return _gathered(runs(), values)
    except IndexError:
        raise WireError("a run is cut short") from None


def _window_bound(data: bytes, start: int, part: int) -> tuple[int, tuple[int, int, int]]:
    """Of a run, and those after it within the window, up to `part` values: bytes; values, most of sum and of each."""
    count = total = top = 0
    at, last = start, min(start + _WINDOW, len(data))
    while at < last and count < part:
        header = data[at]
        kind = header >> 6
        if kind == _DIRECT:
            size, number, most = _direct_run((header & 63) << 8 | data[at + 1])
            after = at + size
        elif kind == _SHORT_REPEAT:
            after = at + 2 + (header >> 3 & 7)
            number, most = (header & 7) + 3, int.from_bytes(data[at + 1 : after], "big")
        elif kind == _DELTA:
            number, most, after = _delta_bound(data, at)
            if most == _U64 and after <= len(data):
                most = _falling_top(data, at)
        else:
            run, after = _patched_base(data, at)
            number, most = len(run), int(run.max())
        if after > last and count:
            break
        at, count, total, top = after, count + number, total + most * number, max(top, most)
    return at - start, (count, total, top)


def _falling_top(data: bytes, at: int) -> int:
    """The greatest value of a falling delta run, which is its first unless it passes zero."""
    code = data[at] >> 1 & 31
    count = ((data[at] & 1) << 8 | data[at + 1]) + 1
    base, at = varint(data, at + 2)
    step, at = varint(data, at)
    if not code or count < 3:
        return base if base + zigzag(step) * (count - 1) >= 0 else _U64
    width = _WIDTHS[code]
    size = ((count - 2) * width + 7) // 8
    _need(data, at + size)
    packed = int.from_bytes(data[at : at + size], "big") >> (size * 8 - (count - 2) * width)
    least, mask = base + zigzag(step), (1 << width) - 1
    while packed:
        least -= packed & mask
        packed >>= width
    return base if least >= 0 else _U64


def exact_bounds(runs: Iterable[UInt64Array], values: int) -> Bounds:
    """The true sums and the greatest of the first values of a decoded stream."""

    def measured() -> Iterator[tuple[int, int, int]]:
        for run in runs:
            most = int(run.max(initial=0))
            yield len(run), int(run.sum()) if most < _SUMMED else most * len(run), most

    return _gathered(measured(), values)


def _gathered(runs: Iterable[tuple[int, int, int]], values: int) -> Bounds:
    """The bounds of runs of so many values, with their sum at most and the greatest of them."""
    counts, sums = [], []
    part, count, added, top = _part_of(values), 0, 0, 0
    enough = min(part, values)
    for number, total, most in runs:
        count += number
        added += total
        if most > top:
            top = most
        if count >= enough:
            counts.append(count)
            sums.append(added)
            values, count, added = values - count, 0, 0
            if values <= 0:
                break
            enough = min(part, values)
    return Bounds([*counts, count], [*sums, added], top)


def _part_of(values: int) -> int:
    """How many values are taken together at least: no more parts than memory has room for, whatever a file claims."""
    return max(_PART, values // _MOST_PARTS)


@cache
def _direct_run(header: int) -> tuple[int, int, int]:
    """Size in bytes, values and greatest value of a direct run by the 14 bits of its header after the kind."""
    width, count = _WIDTHS[header >> 9], (header & 511) + 1
    return 2 + (width * count + 7) // 8, count, (1 << width) - 1


def _delta_bound(data: bytes, at: int) -> tuple[int, int, int]:
    """Values and greatest value of a delta run, and the offset after it."""
    code = data[at] >> 1 & 31
    count = ((data[at] & 1) << 8 | data[at + 1]) + 1
    base, at = (data[at + 2], at + 3) if data[at + 2] < 128 else varint(data, at + 2)
    coded, at = (data[at], at + 1) if data[at] < 128 else varint(data, at)
    if not code:
        reach = zigzag(coded) * (count - 1)
    else:
        packed = (count - 2) * _WIDTHS[code] if count > 2 else 0
        at += (packed + 7) // 8
        reach = abs(zigzag(coded)) + (count << _WIDTHS[code])
        reach = -reach if coded & 1 else reach
    if base + reach < 0:
        return count, _U64, at
    return count, base + max(reach, 0), at


def constants_v2(data: bytes) -> set[int] | None:
    """The values of a signed RLEv2 stream all of whose runs repeat one value; None for any other."""
    result = set()
    at = 0
    while at < len(data):
        kind = data[at] >> 6
        if kind == _SHORT_REPEAT:
            end = at + 2 + (data[at] >> 3 & 7)
            _need(data, end)
            result.add(zigzag(int.from_bytes(data[at + 1 : end], "big")))
            at = end
            continue
        if kind != _DELTA or data[at] >> 1 & 31:
            return None
        base, at = varint(data, at + 2)
        step, at = varint(data, at)
        if step:
            return None
        result.add(zigzag(base))
    return result


def bounds_v1(data: bytes, values: int) -> Bounds:
    """As `bounds_v2` for an RLEv1 stream."""

    def runs() -> Iterator[tuple[int, int, int]]:
        at = 0
        while at < len(data):
            header = data[at]
            if header < 128:
                _need(data, at + 2)
                number = header + 3
                step = data[at + 1] - 256 if data[at + 1] > 127 else data[at + 1]
                base, at = varint(data, at + 2)
                last = base + step * (number - 1)
                most = _U64 if last < 0 else max(base, last)
            else:
                number, at, most = 256 - header, at + 1, 0
                for _ in range(number):
                    value, at = varint(data, at)
                    most = max(most, value)
            yield number, number * most, most

    return _gathered(runs(), values)


def has_byte_above(data: bytes, most: int, values: int) -> bool:
    """Whether one of the first `values` of a byte stream is greater than `most`; WireError when it is damaged."""
    for count, run in _byte_runs(data):
        if values <= 0:
            return False
        if max(run) > most:
            return True
        values -= count
    return False


def _byte_runs(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The runs of a byte stream: how many values, and these, or the one that all of them are."""
    at = 0
    while at < len(data):
        header = data[at]
        count, end = (header + 3, at + 2) if header < 128 else (256 - header, at + 1 + 256 - header)
        _need(data, end)
        yield count, data[at + 1 : end]
        at = end


def _short_repeat(data: bytes, at: int) -> tuple[UInt64Array, int]:
    width = (data[at] >> 3 & 7) + 1
    end = at + 1 + width
    _need(data, end)
    value = int.from_bytes(data[at + 1 : end], "big")
    return np.full((data[at] & 7) + 3, value, dtype=np.uint64), end


def _direct(data: bytes, at: int) -> tuple[UInt64Array, int]:
    _need(data, at + 2)
    width = _WIDTHS[data[at] >> 1 & 31]
    count = ((data[at] & 1) << 8 | data[at + 1]) + 1
    return _unpack(data, at + 2, width, count)


def _patched_base(data: bytes, at: int) -> tuple[UInt64Array, int]:
    _need(data, at + 4)
    width = _WIDTHS[data[at] >> 1 & 31]
    count = ((data[at] & 1) << 8 | data[at + 1]) + 1
    base_bytes = (data[at + 2] >> 5) + 1
    patch_width = _WIDTHS[data[at + 2] & 31]
    gap_width = (data[at + 3] >> 5) + 1
    patches = data[at + 3] & 31
    at += 4
    _need(data, at + base_bytes)
    base = int.from_bytes(data[at : at + base_bytes], "big")
    sign = 1 << (base_bytes * 8 - 1)
    base = -(base ^ sign) if base & sign else base
    values, at = _unpack(data, at + base_bytes, width, count)
    entry_width = next((w for w in _WIDTHS if w >= patch_width + gap_width), 64)
    entries, at = _unpack(data, at, entry_width, patches)
    place = 0
    for entry in entries.tolist():
        place += entry >> patch_width
        patch = entry & ((1 << patch_width) - 1)
        if patch:
            if place >= count or width >= 64:
                raise WireError("a patch lies outside its run")
            values[place] |= np.uint64(patch << width & _U64)
    return _modular(values.view(np.int64), base), at


def _unzigzag(values: UInt64Array) -> UInt64Array:
    half = (values >> np.uint64(1)).view(np.int64)
    return (half ^ -(values & np.uint64(1)).view(np.int64)).view(np.uint64)


def _delta(data: bytes, at: int, signed: bool) -> tuple[UInt64Array, int]:
    _need(data, at + 2)
    code = data[at] >> 1 & 31
    width = _WIDTHS[code] if code else 0
    count = ((data[at] & 1) << 8 | data[at + 1]) + 1
    base, at = varint(data, at + 2)
    base = zigzag(base) & _U64 if signed else base
    first, at = varint(data, at)
    step = zigzag(first)
    steps = np.full(max(count - 1, 0), abs(step), dtype=np.uint64)
    if width and count > 2:
        steps[1:], at = _unpack(data, at, width, count - 2)
    # Two's complement sums are right whatever the sign, as long as all arithmetic is modulo 2**64.
    total = np.concatenate((np.zeros(1, np.uint64), np.cumsum(steps, dtype=np.uint64)))
    start = np.uint64(base)
    with np.errstate(over="ignore"):
        return (start - total if step < 0 else start + total), at


def _modular(offsets: npt.NDArray[np.int64], base: int) -> UInt64Array:
    with np.errstate(over="ignore"):
        return offsets.view(np.uint64) + np.uint64(base & _U64)


def _unpack(data: bytes, at: int, width: int, count: int) -> tuple[UInt64Array, int]:
    """`count` big-endian numbers of `width` bits each, padded to whole bytes at the end."""
    end = at + (width * count + 7) // 8
    _need(data, end)
    packed = np.frombuffer(data, np.uint8, end - at, at)
    if width % 8 == 0:
        wide = np.zeros((count, 8), dtype=np.uint8)
        wide[:, 8 - width // 8 :] = packed.reshape(count, width // 8)
    else:
        bits = np.unpackbits(packed, count=width * count).reshape(count, width)
        padded = np.zeros((count, 64), dtype=np.uint8)
        padded[:, 64 - width :] = bits
        wide = np.packbits(padded, axis=1)
    return wide.view(">u8").reshape(count).astype(np.uint64), end


def _need(data: bytes, end: int) -> None:
    if end > len(data):
        raise WireError("a run is cut short")


def decode_bits(data: bytes) -> Iterator[npt.NDArray[np.bool_]]:
    """The runs of a boolean stream, eight values to a byte; WireError when it is damaged."""
    for count, run in _byte_runs(data):
        values = np.frombuffer(run * (count // len(run)), np.uint8)
        yield np.unpackbits(values).astype(np.bool_)


# --- Streams that the C++ reader believes blindly, checked before it sees them.
#
# Lengths of strings and lists, tags of unions and scales of decimals come from the file as plain numbers. A
# flipped bit in them makes ORC's C++ reader allocate terabytes, write past its buffers or multiply by ten
# without end, and with it the whole process dies. Looking at the headers of the runs is enough for sound
# streams: what they can hold at most is small. Only where that is not so are the values decoded.
#
# The same lengths tell how much memory a batch of rows takes, before it is decoded: `WideRows` asks for fewer rows.


# What is looked through of a file, expanded, and the runs of it that are decoded; no stream is ever larger than this.
_MAX_STREAM = 128 << 20
_FREE_BYTES, _BYTES_OF_A_BYTE = 4 << 20, 16
_FREE_RUNS, _BYTES_OF_A_RUN = 1 << 16, 4
# Elements of one list or map, which a reader holds at once.
_MAX_ELEMENTS = 1 << 24
# What one stripe may ask for in all before its lengths are looked at one by one; memory is touched only when
# filled.
_UNSUSPICIOUS = 1 << 31
_MAX_LENGTH = (1 << 31) - 1
# Hive has no negative scale, and C++ reads one as enormous.
_MAX_SCALE = 76
# How much a byte can stand for at most; Zstandard knows no bound, this is beyond any real text.
_EXPANSION = {
    Compression.NONE: 1,
    Compression.ZLIB: 1032,
    Compression.SNAPPY: 64,
    Compression.LZ4: 255,
}
_ANY_EXPANSION = 1 << 16
# What has to be held at once, which are the dictionaries of a stripe and a row: so much always, and of larger files as
# much as deflate could have made of them.
_FREE_HELD, _HELD_OF_A_BYTE = 32 << 20, 1032
# A batch of more rows than one; Arrow holds up to eight of them.
_BATCH_BYTES = 16 << 20
_VALUE_BYTES = 9
_TEXTS = frozenset({OrcKind.STRING, OrcKind.BINARY, OrcKind.VARCHAR, OrcKind.CHAR})
_DICTIONARY = frozenset({EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2})
_VERSION_2 = frozenset({EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2})


class Expands(Protocol):
    """What holds streams: a file, or stripes of one in memory."""

    def expanded(self, stream: Stream, limit: int) -> bytes: ...


class WideRows(AcidctlError):
    """No failure: a batch of the rows of a stripe would be too large, one of `rows` would not."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"rows are to be read {rows} at a time")
        self.rows = rows


class Guard:
    """Checks the streams of the given columns, each stripe when its bytes are first asked for.

    With `batch_rows`, as many rows as are decoded at a time, a stripe of wide rows raises WideRows.
    """

    def __init__(
        self,
        source: Expands,
        tail: Tail,
        footers: Sequence[StripeFooter],
        columns: Iterable[int],
        batch_rows: int = 1,
    ) -> None:
        self._source = source
        self._tail = tail
        self._footers = footers
        self._columns = sorted(columns)
        self._batch_rows = batch_rows
        self._starts = [stripe.offset for stripe in tail.stripes]
        self._checked: set[int] = set()
        self._bytes_left = _FREE_BYTES + _BYTES_OF_A_BYTE * tail.file_length
        self._runs_left = _FREE_RUNS + tail.file_length // _BYTES_OF_A_RUN
        self._most_held = max(_FREE_HELD, _HELD_OF_A_BYTE * tail.file_length)

    def before_read(self, start: int, end: int) -> None:
        """Check the stripes of which bytes in this range are about to be read, each once."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        for index in range(first, bisect_left(self._starts, end)):
            if index not in self._checked:
                self.check(self._footers[index], self._tail.stripes[index].rows)
                self._checked.add(index)

    def check(self, footer: StripeFooter, rows: int) -> float:
        """Look at what the first `rows` of a stripe need of its streams; how many bytes they may take.

        DamagedDataError when one holds numbers that no writer can have meant, or when a row or a dictionary asks for
        more memory than such a file can have a use for.
        """
        stripe = _Widths(self._tail, rows)
        for column in self._columns:
            try:
                self._check(column, footer, stripe)
            except (WireError, CodecError) as error:
                raise damaged(self._tail.name, f"has a damaged column {column}: {error}") from error
        batch = min(self._batch_rows, rows)
        if stripe.whole <= _BATCH_BYTES:
            return stripe.whole
        held = stripe.dictionaries + stripe.of(self._columns, 1)
        if held > self._most_held:
            raise damaged(self._tail.name, f"has a row that takes {int(held)} bytes, more than the file can hold")
        wanted = batch
        while wanted > 1 and stripe.of(self._columns, wanted) > _BATCH_BYTES:
            wanted //= 2
        if wanted < batch:
            raise WideRows(wanted)
        return stripe.whole

    def _check(self, column: int, footer: StripeFooter, stripe: _Widths) -> None:
        entry, encoding = self._tail.types[column], footer.encodings[column]
        values = stripe.values(column)
        second = encoding.kind in _VERSION_2
        if entry.kind in _TEXTS or entry.kind in (OrcKind.LIST, OrcKind.MAP):
            lengths = footer.stream(StreamKind.LENGTH, column)
            dictionary = encoding.dictionary_size if encoding.kind in _DICTIONARY else None
            count = values if dictionary is None else dictionary
            data = self._read(lengths) if lengths is not None else b""
            backing = footer.stream(StreamKind.DATA if dictionary is None else StreamKind.DICTIONARY_DATA, column)
            room = _UNSUSPICIOUS
            if entry.kind in _TEXTS:
                expansion = _EXPANSION.get(self._tail.postscript.compression, _ANY_EXPANSION)
                room = (backing.length if backing else 0) * expansion
            bounds = self._bounds(data, count, room, _MAX_LENGTH if entry.kind in _TEXTS else _MAX_ELEMENTS, second)
            if dictionary is not None and bounds.count < dictionary:
                raise WireError(f"a dictionary claims {dictionary} entries, there are {bounds.count}")
            stripe.add_lengths(column, bounds, dictionary)
            return
        stripe.add(column)
        stream = footer.stream(StreamKind.DATA, column)
        if entry.kind is OrcKind.UNION and stream is not None:
            if has_byte_above(self._read(stream), len(entry.subtypes) - 1, values):
                raise WireError("a union has a tag that its type does not know")
        elif entry.kind is OrcKind.DECIMAL:
            scales = footer.stream(StreamKind.SECONDARY, column)
            if scales is not None:
                self._check_scales(self._read(scales), values, second=second)

    def _bounds(self, data: bytes, values: int, room: int, most: int, second: bool) -> Bounds:
        bounds = bounds_v2(data, values) if second else bounds_v1(data, values)
        if bounds.total <= min(_UNSUSPICIOUS, most) and _VALUE_BYTES * bounds.top <= self._most_held:
            return bounds
        exact = exact_bounds(self._decoded(decode_v2(data) if second else decode_v1(data)), values)
        if exact.top > most:
            raise WireError(f"a length of {int(exact.top)} is impossible")
        if exact.total > room:
            raise WireError(f"lengths add up to {int(exact.total)}, more than the file can hold")
        return exact

    def _check_scales(self, data: bytes, values: int, *, second: bool) -> None:
        constants = constants_v2(data) if second else None
        if constants is not None and all(0 <= scale <= _MAX_SCALE for scale in constants):
            return
        seen = 0
        for run in self._decoded(decode_v2(data, signed=True) if second else decode_v1(data, signed=True)):
            scales = run.view(np.int64)
            if int(scales.max()) > _MAX_SCALE or int(scales.min()) < 0:
                raise WireError("a decimal has an impossible scale")
            seen += len(run)
            if seen >= values:
                return

    def _decoded(self, runs: Iterator[UInt64Array]) -> Iterator[UInt64Array]:
        """The runs, as many as the file is worth."""
        for run in runs:
            self._runs_left -= 1
            if self._runs_left < 0:
                raise WireError("it has more runs of lengths or scales than the file has room for")
            yield run

    def _read(self, stream: Stream) -> bytes:
        most = min(_MAX_STREAM, self._bytes_left)
        if stream.length > most:
            raise WireError(f"a stream of {stream.length} bytes is too large")
        data = self._source.expanded(stream, most)
        self._bytes_left -= len(data)
        return data


class _Widths:
    """How much memory rows of a stripe take at most, by the lengths of its texts, lists and maps.

    Columns are added in ascending order, parents first. `whole` is for all rows.
    """

    def __init__(self, tail: Tail, rows: int) -> None:
        self._types = tail.types
        self._rows = rows
        self._values: dict[int, int] = {}
        self._lengths: dict[int, Bounds] = {}
        self._entries: dict[int, float] = {}
        self.whole = 0.0
        self.dictionaries = 0.0

    def values(self, column: int) -> int:
        """How many values the column has at most."""
        return self._values.get(column, self._rows)

    def add(self, column: int) -> None:
        """A column without lengths."""
        values = self.values(column)
        self.whole += _VALUE_BYTES * values
        if values != self._rows:
            self._values.update(dict.fromkeys(self._types[column].subtypes, values))

    def add_lengths(self, column: int, lengths: Bounds, dictionary: int | None) -> None:
        """A column whose values have these lengths, or the entries of its dictionary."""
        values = self.values(column)
        self.whole += _VALUE_BYTES * values
        if dictionary is not None:
            self.dictionaries += 8 * dictionary + lengths.total
            self._entries[column] = lengths.top
            self.whole += 8 * dictionary + lengths.total + values * lengths.top
            return
        self._lengths[column] = lengths
        if not self._types[column].subtypes:
            self.whole += lengths.total
        self._values.update(dict.fromkeys(self._types[column].subtypes, int(lengths.total)))

    def of(self, columns: Iterable[int], rows: int) -> float:
        """What so many rows take at most, wherever in the stripe they stand."""
        total = 0.0
        wanted: dict[int, float] = {}
        for column in columns:
            count = wanted.get(column, rows)
            lengths = self._lengths.get(column)
            inside = count if lengths is None else lengths.of(count)
            children = self._types[column].subtypes
            total += _VALUE_BYTES * count + count * self._entries.get(column, 0.0)
            if children:
                wanted.update(dict.fromkeys(children, inside))
            elif lengths is not None:
                total += inside
        return total
