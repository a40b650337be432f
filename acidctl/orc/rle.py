"""ORC's run-length encodings (integers in versions 1 and 2, bytes, booleans), decoded into numpy arrays.

What is read beside the C++ reader needs them, and the guard before it. Loops are per run, not per value,
except over literals of version 1, which Hive stopped writing with 0.12.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import numpy.typing as npt

from acidctl.orc.wire import WireError, varint, zigzag

UInt64Array = npt.NDArray[np.uint64]

# Widths that the five-bit codes of version 2 stand for.
_WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_U64 = (1 << 64) - 1
_SHORT_REPEAT, _DIRECT, _PATCHED, _DELTA = range(4)


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


def bound_v2(data: bytes) -> int:
    """A number that the values of an unsigned RLEv2 stream cannot add up to more than, from its headers alone.

    A run that may fall below zero counts as enormous. WireError when the stream is cut short.
    """
    total = at = 0
    end = len(data)
    direct = _direct_runs()
    # Text lengths come as many short delta runs, and few different ones: four bytes tell all of most of them.
    deltas: dict[bytes, tuple[int, int]] = {}
    try:
        while at < end:
            header = data[at]
            kind = header >> 6
            if kind == _DIRECT:
                size, most = direct[(header & 63) << 8 | data[at + 1]]
                total += most
                at += size
            elif kind == _SHORT_REPEAT:
                width = (header >> 3 & 7) + 1
                total += ((header & 7) + 3) << (8 * width)
                at += 1 + width
            elif kind == _DELTA:
                head = data[at : at + 4]
                known = deltas.get(head)
                if known is None:
                    most, after = _delta_bound(data, at)
                    known = (most, after - at)
                    if head[2] < 128 and head[3] < 128:
                        deltas[head] = known
                total += known[0]
                at += known[1]
            else:
                values, at = _patched_base(data, at)
                total += int(values.max()) * len(values)
    except IndexError:
        raise WireError("a run is cut short") from None
    _need(data, at)
    return total


@cache
def _direct_runs() -> tuple[tuple[int, int], ...]:
    """Size in bytes and greatest sum of a direct run by the 14 bits of its header after the kind."""
    runs = []
    for header in range(1 << 14):
        width, count = _WIDTHS[header >> 9], (header & 511) + 1
        runs.append((2 + (width * count + 7) // 8, count << width))
    return tuple(runs)


def _delta_bound(data: bytes, at: int) -> tuple[int, int]:
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
        return _U64, at
    return (base + max(reach, 0)) * count, at


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


def bound_v1(data: bytes) -> int:
    """As `bound_v2` for an RLEv1 stream."""
    return sum(int(run.max()) * len(run) for run in decode_v1(data))


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


def decode_bytes(data: bytes) -> Iterator[npt.NDArray[np.uint8]]:
    """The runs of a byte stream; WireError when it is damaged."""
    at = 0
    while at < len(data):
        header = data[at]
        if header < 128:
            _need(data, at + 2)
            yield np.full(header + 3, data[at + 1], dtype=np.uint8)
            at += 2
        else:
            _need(data, at + 1 + 256 - header)
            yield np.frombuffer(data, np.uint8, 256 - header, at + 1)
            at += 1 + 256 - header


def decode_bits(data: bytes) -> Iterator[npt.NDArray[np.bool_]]:
    """The runs of a boolean stream, eight values to a byte; WireError when it is damaged."""
    for run in decode_bytes(data):
        yield np.unpackbits(run).astype(np.bool_)
