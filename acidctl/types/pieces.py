"""Rows as pieces of text, and one gather that puts them together.

A piece is the same for all rows, or an array of texts, or places in a table of texts: numbers of few digits, days,
minutes, fractions. What stands in a table is copied once, into the row; to gather takes half of the time of joining.
Functions that give pieces return None where values need another way: beyond what the tables hold, or in exponent form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.events import as_arrow, bitmap
from acidctl.types.format_scalars import DAY, either, joined, literal
from acidctl.values import dataclass

Numbers: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Coded:
    """A text of `table` for each row, none of them NULL; `codes` are its places."""

    table: pa.Array
    codes: Numbers


#: Constant text, or one text per row.
Piece: TypeAlias = bytes | pa.Array | Coded

# Digits that are looked up at a time.
_DIGITS, _GROUP = 4, 10_000
_NO_DIGIT = 2 * _GROUP
_TWO_GROUPS = _GROUP * _GROUP
# 1900-01-01 to 2099-12-31.
_FIRST_DAY, _LAST_DAY = -25_567, 47_481
_BILLION, _THOUSAND, _MINUTE = 1_000_000_000, 1_000, 60
# Up to here, times the group, every float and double of so many digits has one shortest text, and Java's is the same.
_MOST_SCALED = {"float32": 1e6, "float64": 1e11}
_LEAST_SCALED = 10
# More would not fit 64 bits.
_MOST_DIGITS = 18
_DAYS_OF_A_ROW = 8


def text_of(pieces: Sequence[Piece], count: int, *, nulls: str | None) -> pa.Array:
    """The pieces of each row joined; a NULL piece makes the row NULL, or stands as `nulls` if given."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        elif not isinstance(piece, bytes) or piece:
            merged.append(piece)
    if len(merged) == 1 and isinstance(merged[0], pa.Array):
        return _filled(merged[0], nulls)
    if not merged or not count:
        return pa.repeat(literal(""), count)
    places = np.empty((count, len(merged)), dtype=np.int32)
    pool: dict[int, pa.Array] = {}
    starts: dict[int, int] = {}
    size = 0
    for column, piece in enumerate(merged):
        table: pa.Array
        codes: Any
        if isinstance(piece, bytes):
            table, codes = _constant(piece), 0
        elif isinstance(piece, Coded):
            table, codes = piece.table, piece.codes
        else:
            table, codes = piece, np.arange(count, dtype=np.int32)
        if id(table) not in starts:
            starts[id(table)], pool[id(table)] = size, _filled(table, nulls)
            size += len(table)
        np.add(codes, starts[id(table)], out=places[:, column], dtype=np.int32, casting="unsafe")
    texts = pc.take(pa.concat_arrays(pool.values()), as_arrow(places.reshape(-1)), boundscheck=False)
    _, ends, data = texts.buffers()
    ends = pa.py_buffer(np.frombuffer(ends, dtype=np.int32)[: len(texts) + 1 : len(merged)].copy())
    some = [piece for piece in merged if nulls is None and isinstance(piece, pa.Array) and piece.null_count]
    valid = np.all([np.asarray(piece.is_valid()) for piece in some], axis=0) if some else None
    return pa.Array.from_buffers(pa.string(), count, [bitmap(valid), ends, data])


def _filled(array: pa.Array, nulls: str | None) -> pa.Array:
    return array if nulls is None or not array.null_count else pc.fill_null(array, literal(nulls))


@lru_cache(maxsize=4096)
def _constant(text: bytes) -> pa.Array:
    """A string, whatever the bytes: a column's name need not be valid UTF-8 either."""
    return pa.array([text], pa.binary()).view(pa.string())


def _pieces(array: pa.Array, numbers: Numbers, make: Callable[[Numbers], list[Piece] | None]) -> list[Piece] | None:
    """What `make` gives for numbers, whatever stands where the array is NULL; if it has NULLs it is one array."""
    if not len(array):
        return None
    valid = np.asarray(array.is_valid()) if array.null_count else None
    pieces = make(numbers if valid is None else np.where(valid, numbers, 0).astype(numbers.dtype))
    if pieces is None or valid is None:
        return pieces
    text = text_of(pieces, len(array), nulls=None)
    return [pa.Array.from_buffers(pa.string(), len(array), [bitmap(valid), *text.buffers()[1:]])]


def _stored(array: pa.Array, kind: str, width: int = 1) -> Numbers:
    """The values as they lie in memory; of NULLs something."""
    size = width * np.dtype(kind).itemsize
    if not len(array):
        return np.zeros(0, kind)
    held = np.frombuffer(array.buffers()[1], np.uint8)[size * array.offset : size * (array.offset + len(array))]
    return held.view(kind)


def booleans(array: pa.Array) -> list[Piece] | None:
    """`true` and `false`."""
    return _pieces(array, np.asarray(pc.fill_null(array, False).cast(pa.int8())), lambda n: [Coded(_BOOLEANS, n)])


def integers(array: pa.Array) -> list[Piece] | None:
    """Numbers that are not negative and have few digits."""
    numbers = _stored(array, f"i{array.type.bit_width // 8}")
    return _pieces(array, numbers, lambda n: _digits(n) if n.min() >= 0 and n.max() < _TWO_GROUPS else None)


def floats(array: pa.Array) -> list[Piece] | None:
    """Floats and doubles of up to four decimals, and seven digits before them, as JSON and Java have them."""
    kind = "float32" if pa.types.is_float32(array.type) else "float64"

    def make(values: Numbers) -> list[Piece] | None:
        size = np.abs(values.astype(np.float64))
        with np.errstate(all="ignore"):
            scaled = np.rint(size * _GROUP)
            exact = (scaled / _GROUP).astype(kind) == np.abs(values)
        if not (exact & (scaled < _MOST_SCALED[kind]) & ((scaled >= _LEAST_SCALED) | (scaled == 0))).all():
            return None
        number = scaled.astype(np.int64)
        whole = number // _GROUP
        return [*_sign(np.signbit(values)), *_digits(whole), *_fraction(number - whole * _GROUP, _DIGITS, 1)]

    return _pieces(array, _stored(array, kind), make)


def decimals(array: pa.Array, *, cut: bool) -> list[Piece] | None:
    """Decimals of 64 bits, all digits of the fraction, or with `cut` none that is a trailing zero."""
    if not pa.types.is_decimal128(array.type) or array.type.scale < 0:
        return None
    words, scale = _stored(array, "i8", 2).reshape(-1, 2), array.type.scale

    def make(numbers: Numbers) -> list[Piece] | None:
        size = np.abs(numbers)
        if scale > _MOST_DIGITS or size.min() < 0:
            return None
        whole = size // 10**scale
        fraction = _fraction(size - whole * 10**scale, scale, 0 if cut else scale) if scale else []
        return [*_sign(numbers < 0), *_digits(whole), *fraction]

    fits = words[:, 0] >> 63 == words[:, 1]
    return _pieces(array, words[:, 0], make) if fits.all() else None


def dates(array: pa.Array) -> list[Piece] | None:
    """Days of two centuries."""
    return _pieces(array, _stored(array, "i4"), _day)


def timestamps(array: pa.Array, local: bool, least: int) -> list[Piece] | None:
    """Moments of two centuries, of whose fraction trailing zeros are cut down to `least` digits."""
    if not pa.types.is_timestamp(array.type):
        return None

    def make(ticks: Numbers) -> list[Piece] | None:
        seconds = ticks // _BILLION
        nanos = ticks - seconds * _BILLION
        days = seconds // DAY
        clock = (seconds - days * DAY).astype(np.int32)
        minutes, day = clock // _MINUTE, _day(days)
        if day is None:
            return None
        micros = nanos // _THOUSAND
        fraction: list[Piece] = [b".0"[: 2 * least]]
        if nanos.any():
            coarse = bool((micros * _THOUSAND == nanos).all())
            fraction = _fraction(micros, 6, least) if coarse else _fraction(nanos, 9, least)
        seconds_of_minute = Coded(_SECONDS, clock - minutes * _MINUTE)
        return [*day, Coded(_minutes(), minutes), seconds_of_minute, *fraction, b" UTC" if local else b""]

    return _pieces(array, _stored(array.cast(pa.timestamp("ns", array.type.tz)), "i8"), make)


def _sign(negative: npt.NDArray[np.bool_]) -> list[Piece]:
    return [Coded(_SIGNS, negative)] if negative.any() else []


def _digits(numbers: Numbers) -> list[Piece]:
    """Numbers that are not negative."""
    most = int(numbers.max())
    if most < _GROUP:
        return [Coded(_numbers(), numbers)]
    if most >= _TWO_GROUPS:
        return [pc.cast(as_arrow(numbers), pa.string())]
    numbers = numbers.astype(np.int32)
    high = numbers // _GROUP
    low, above = numbers - high * _GROUP, high > 0
    return [Coded(_numbers(), np.where(above, high, _NO_DIGIT)), Coded(_numbers(), low + above * _GROUP)]


def _fraction(numbers: Numbers, digits: int, least: int) -> list[Piece]:
    """A point and so many digits; trailing zeros are cut down to `least` (0 or 1, or all: none is cut)."""
    pieces: list[Piece] = []
    cut: Any = None if least == digits > 1 else True
    least = min(least, 1)
    while digits:
        count = min(digits, _DIGITS)
        rest = numbers // 10**count if digits > count else np.zeros(1, numbers.dtype)
        codes = (numbers - rest * 10**count).astype(np.int32)
        table = _fractions(count, digits == count, least)
        pieces.append(Coded(table, codes if cut is None else codes + cut * 10**count))
        if cut is not None:
            cut = cut & (codes == 0)
        numbers, digits = rest, digits - count
    return pieces[::-1]


def _day(days: Numbers) -> list[Piece] | None:
    first, last = int(days.min()), int(days.max())
    # Of the table so much is copied as is between the two.
    if first < _FIRST_DAY or last > _LAST_DAY or last - first > _DAYS_OF_A_ROW * len(days):
        return None
    return [Coded(_days().slice(first - _FIRST_DAY, last - first + 1), days - first)]


# --- The tables.


_BOOLEANS, _SIGNS = pa.array(["false", "true"]), pa.array(["", "-"])
_SECONDS = pa.array([f":{second:02}" for second in range(60)])


@cache
def _padded(digits: int) -> pa.Array:
    return pc.utf8_slice_codeunits(pc.cast(as_arrow(np.arange(10**digits, 2 * 10**digits)), pa.string()), 1)


@cache
def _numbers() -> pa.Array:
    """As they are, then with zeros in front, then nothing."""
    return pa.concat_arrays([pc.cast(as_arrow(np.arange(_GROUP)), pa.string()), _padded(_DIGITS), pa.array([""])])


@cache
def _fractions(digits: int, first: bool, least: int) -> pa.Array:
    """All digits, then without trailing zeros; the first ones behind a point."""
    whole = joined("." if first else "", _padded(digits))
    short = pc.ascii_rtrim(whole, "0")
    if first:
        short = either(pc.equal(short, "."), ".0"[: 2 * least], short)
    return pa.concat_arrays([whole, short])


@cache
def _days() -> pa.Array:
    return pc.cast(as_arrow(np.arange(_FIRST_DAY, _LAST_DAY + 1, dtype=np.int32)).view(pa.date32()), pa.string())


@cache
def _minutes() -> pa.Array:
    """Behind a blank."""
    return pa.array([f" {hour:02}:{minute:02}" for hour in range(24) for minute in range(60)])
