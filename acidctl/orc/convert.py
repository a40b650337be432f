"""One primitive type read as another, with the results of ORC's ConvertTreeReaderFactory (1.8, as in Hive 4).

What does not fit or cannot be parsed becomes NULL. Numbers go through numpy; conversions that parse or print
text work on the distinct values of a batch, since Java's rules for text have no counterpart in Arrow.
"""

from __future__ import annotations

import re
import struct
from calendar import monthrange
from collections.abc import Callable
from datetime import date
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.arrays import WIDE
from acidctl.orc.calendar import SECONDS_PER_DAY
from acidctl.types.hive_types import Primitive, TypeKind
from acidctl.types.java_numbers import doubles

BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]

INTEGERS: dict[TypeKind, type[np.signedinteger[Any]]] = {
    TypeKind.TINYINT: np.int8,
    TypeKind.SMALLINT: np.int16,
    TypeKind.INT: np.int32,
    TypeKind.BIGINT: np.int64,
}
_FLOATS = (TypeKind.FLOAT, TypeKind.DOUBLE)
TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)
TIMESTAMPS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL)
_EXACT = Context(prec=200)
_NANOS = 1_000_000_000
_TWO_63 = 2.0**63
# Instant.MIN and Instant.MAX of Java, in seconds.
_INSTANT_SECONDS = (-31_557_014_167_219_200, 31_556_889_864_403_199)

_LONG = re.compile(r"[+-]?\d+\Z")
_DOUBLE = re.compile(rb"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)\Z")
_HEX_DOUBLE = re.compile(rb"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?\Z")
_DECIMAL = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?\Z")
_DATE = re.compile(rb"([+-]?[0-9]{4,10})-([0-9]{2})-([0-9]{2})\Z")
_CLOCK = re.compile(rb"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{0,9}))?)?\Z")
_JAVA_BLANKS = bytes(range(33))


def convert(array: pa.Array, source: Primitive, target: Primitive) -> pa.Array:
    """Values of type `source` as `target`; the pair must be one that `plan_fit` allows."""
    if target.kind is TypeKind.BOOLEAN or target.kind in INTEGERS:
        return _to_integer(array, source, target.kind)
    if target.kind in _FLOATS:
        return _to_float(array, source, target.kind)
    if target.kind is TypeKind.DECIMAL:
        return _to_decimal(array, source, target)
    if target.kind in TEXTS:
        return limit(_to_text(array, source), target)
    if target.kind in TIMESTAMPS:
        return _to_timestamp(array, source, target.kind)
    if target.kind is TypeKind.DATE:
        return _to_date(array, source)
    assert target.kind is TypeKind.BINARY
    if source.kind is TypeKind.CHAR:
        return by_value(array, lambda text: _padded(text, source.length or 0), pa.binary())
    return array.cast(pa.binary())


def by_value(array: pa.Array, function: Callable[[Any], Any], result: pa.DataType) -> pa.Array:
    """`function` on each distinct value of the array; text arrives as bytes."""
    if pa.types.is_string(array.type):
        array = array.cast(pa.binary())
    encoded = array.dictionary_encode()
    answers = pa.array([function(value) for value in encoded.dictionary.to_pylist()], type=result)
    return answers.take(encoded.indices)


def by_clock(array: pa.Array, function: Callable[[int, int], Any], result: pa.DataType) -> pa.Array:
    """`function` on the seconds and nanoseconds of each distinct timestamp."""
    pairs = np.stack(clock(array), axis=1)
    packed = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(16), len(array), [pa.py_buffer(_bitmap(array)), pa.py_buffer(pairs.tobytes())]
    )
    return by_value(packed, lambda pair: function(*struct.unpack("=qq", pair)), result)


def _bitmap(array: pa.Array) -> bytes:
    return np.packbits(validity(array), bitorder="little").tobytes()


def validity(array: pa.Array) -> BoolArray:
    return np.asarray(array.is_valid())


def int64(array: pa.Array) -> Int64Array:
    return np.asarray(array.cast(pa.int64()).fill_null(0))


def _float64(array: pa.Array) -> npt.NDArray[np.float64]:
    return np.asarray(array.cast(pa.float64()).fill_null(0.0))


# --- to integers and boolean


def _to_integer(array: pa.Array, source: Primitive, target: TypeKind) -> pa.Array:
    valid = validity(array)
    if source.kind is TypeKind.DECIMAL:
        if target is TypeKind.BOOLEAN:
            return by_value(array, lambda value: value != 0, pa.bool_())
        longs = by_value(array, lambda value: _long(int(value)), pa.int64())
        return _narrow(int64(longs), validity(longs), target)
    if source.kind in TEXTS:
        longs = by_value(array, _parse_long, pa.int64())
        return _narrow(int64(longs), validity(longs), target)
    if source.kind in _FLOATS:
        values = _float64(array)
        with np.errstate(invalid="ignore"):
            fits = (-_TWO_63 - values < 1.0) & (values < _TWO_63)
            return _narrow(np.where(fits, values, 0).astype(np.int64), valid & fits, target)
    if source.kind in TIMESTAMPS:
        return _narrow(clock(array)[0], valid, target)
    return _narrow(int64(array), valid, target)


def _narrow(values: Int64Array, valid: BoolArray, target: TypeKind) -> pa.Array:
    if target is TypeKind.BOOLEAN:
        return pa.array(values != 0, mask=~valid)
    kind = INTEGERS[target]
    bounds = np.iinfo(kind)
    fits = valid & (values >= bounds.min) & (values <= bounds.max)
    return pa.array(values.astype(kind), mask=~fits)


def _long(value: int) -> int | None:
    return value if -(1 << 63) <= value < 1 << 63 else None


def _parse_long(text: bytes) -> int | None:
    # Java takes the digits of every script.
    digits = text.decode("utf-8", "replace")
    return _long(int(digits)) if len(digits) < 1000 and _LONG.match(digits) else None


# --- to float and double


def _to_float(array: pa.Array, source: Primitive, target: TypeKind) -> pa.Array:
    valid = validity(array)
    if source.kind is TypeKind.DECIMAL:
        wide = by_value(array, float, pa.float64())
    elif source.kind in TEXTS:
        wide = by_value(array, _parse_double, pa.float64())
    elif source.kind in TIMESTAMPS:
        seconds, nanos = clock(array)
        wide = pa.array(seconds.astype(np.float64) + nanos / 1e9, mask=~valid)
    elif source.kind in _FLOATS:
        wide = array
    else:
        wide = pa.array(int64(array).astype(np.float64), mask=~valid)
    return wide.cast(pa.float32() if target is TypeKind.FLOAT else pa.float64(), safe=False)


def _parse_double(text: bytes) -> float | None:
    text = text.strip(_JAVA_BLANKS)
    if _DOUBLE.match(text):
        return float(text if text.endswith(b"Infinity") else text.rstrip(b"fFdD"))
    if _HEX_DOUBLE.match(text):
        try:
            return float.fromhex(text.rstrip(b"fFdD").decode())
        except OverflowError:
            return float("-inf" if text.startswith(b"-") else "inf")
    return None


# --- to decimal


def _to_decimal(array: pa.Array, source: Primitive, target: Primitive) -> pa.Array:
    precision, scale = target.precision or 0, target.scale or 0
    result = pa.decimal128(precision, scale)

    def fitted(value: Decimal | None) -> Decimal | None:
        return None if value is None else fit_decimal(value, precision, scale)

    if source.kind is TypeKind.DECIMAL:
        added = precision - scale - ((source.precision or 0) - (source.scale or 0))
        if added >= 0 and scale >= (source.scale or 0):
            return array.cast(result)
        return by_value(array, fitted, result)
    if source.kind in TEXTS:
        return by_value(array, lambda text: fitted(_parse_decimal(text)), result)
    if source.kind in _FLOATS:
        text = doubles(array.cast(pa.float64()))
        return by_value(text, lambda text: fitted(_parse_decimal(text)), result)
    if source.kind in TIMESTAMPS:
        return by_clock(array, lambda s, n: fitted(_clock_decimal(s, n)), result)
    return by_value(array, lambda value: fitted(Decimal(int(value))), result)


def fit_decimal(value: Decimal, precision: int, scale: int) -> Decimal | None:
    """The value rounded half up to `scale` digits, or None when it needs more than `precision` (HiveDecimal)."""
    whole = max(value.adjusted() + 1, 0)
    if whole > 38:
        return None
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if -exponent > 38 - whole:
        value = value.quantize(Decimal(1).scaleb(whole - 38), ROUND_HALF_UP, _EXACT)
    value = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)
    return value if value == 0 or value.adjusted() < precision - scale else None


def _parse_decimal(text: bytes) -> Decimal | None:
    match = _DECIMAL.match(text.strip(b" "))
    # HiveDecimal takes exponents of two digits.
    if match is None or len(text) > 1000 or abs(int(match[2] or 0)) > 99:
        return None
    return Decimal(match[0].decode())


def _clock_decimal(seconds: int, nanos: int) -> Decimal:
    if seconds < 0 and nanos:
        # ORC's own arithmetic: within the second before 1970 the sign is lost.
        whole, rest = seconds + 1, _NANOS - nanos
        value = whole * _NANOS + rest if whole >= 0 else whole * _NANOS - rest
    else:
        value = seconds * _NANOS + nanos
    return Decimal(value).scaleb(-9, _EXACT)


# --- to text


def _to_text(array: pa.Array, source: Primitive) -> pa.Array:
    if source.kind in TEXTS:
        return array
    if source.kind is TypeKind.BOOLEAN:
        return pc.if_else(array, "TRUE", "FALSE")
    if source.kind in INTEGERS:
        return array.cast(pa.string())
    if source.kind in _FLOATS:
        wide = array.cast(pa.float64())
        return doubles(pc.if_else(pc.is_nan(wide), None, wide))
    if source.kind is TypeKind.DECIMAL:
        return by_value(array, _decimal_text, pa.string())
    if source.kind is TypeKind.DATE:
        return by_value(array.cast(pa.int32()), day_text, pa.string())
    if source.kind is TypeKind.BINARY:
        return by_value(array, lambda value: value.hex(" "), pa.string())
    suffix = " UTC" if source.kind is TypeKind.TIMESTAMP_LOCAL else ""
    return by_clock(array, lambda s, n: clock_text(s, n) + suffix, pa.string())


def _decimal_text(value: Decimal) -> str:
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def day_text(day: int) -> str:
    """`uuuu-MM-dd` of a proleptic day since 1970; years of more than four digits carry a sign."""
    year, month, of_month = _civil(day)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{of_month:02d}"


def clock_text(seconds: int, nanos: int) -> str:
    """`uuuu-MM-dd HH:mm:ss` and the fraction without trailing zeros."""
    day, rest = divmod(seconds, SECONDS_PER_DAY)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{day_text(day)} {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}{fraction}"


def _civil(day: int) -> tuple[int, int, int]:
    # Years that begin in March; 146097 days are 400 years.
    era, of_era = divmod(day + 719_468, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    of_month = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, of_month


def limit(array: pa.Array, target: Primitive) -> pa.Array:
    """Cut to the length of char or varchar, counted in characters, and trim the padding of char."""
    if target.length is None:
        return array
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    if longest > target.length:
        array = by_value(array, lambda text: truncate(text, target.length or 0), pa.binary())
        array = pa.Array.from_buffers(pa.string(), len(array), array.buffers(), array.null_count, array.offset)
    return pc.ascii_rtrim(array, characters=" ") if target.kind is TypeKind.CHAR else array


def _padded(text: bytes, length: int) -> bytes:
    return text + b" " * (length - sum(byte & 0xC0 != 0x80 for byte in text))


def truncate(text: bytes, length: int) -> bytes:
    """The first `length` characters, where every byte that does not continue another begins one."""
    count = 0
    for at, byte in enumerate(text):
        if byte & 0xC0 != 0x80:
            if count == length:
                return text[:at]
            count += 1
    return text


# --- to timestamps and dates


def clock(array: pa.Array) -> tuple[Int64Array, Int64Array]:
    """Seconds (floor) and nanoseconds of timestamps in either form."""
    if pa.types.is_struct(array.type):
        return int64(array.field(0)), int64(array.field(1))
    nanos = int64(array.cast(pa.timestamp("ns")) if array.type.tz is None else array)
    return np.floor_divide(nanos, _NANOS), np.mod(nanos, _NANOS)


def from_clock(seconds: Int64Array, nanos: Int64Array, valid: BoolArray) -> pa.StructArray:
    parts = [pa.array(seconds.astype(np.int64)), pa.array(nanos.astype(np.int32))]
    return pa.StructArray.from_arrays(parts, fields=list(WIDE), mask=pa.array(~valid))


def _to_timestamp(array: pa.Array, source: Primitive, target: TypeKind) -> pa.Array:
    valid = validity(array)
    if source.kind in TIMESTAMPS:
        if pa.types.is_struct(array.type):
            return array
        zone = "UTC" if target is TypeKind.TIMESTAMP_LOCAL else None
        return array.cast(pa.int64()).cast(pa.timestamp("ns", tz=zone))
    if source.kind is TypeKind.DATE:
        days = int64(array.cast(pa.int32()))
        return from_clock(days * SECONDS_PER_DAY, np.zeros_like(days), valid)
    if source.kind in TEXTS:
        zoned = target is TypeKind.TIMESTAMP_LOCAL
        return by_value(array, lambda text: _parse_clock(text, zoned), WIDE)
    if source.kind is TypeKind.DECIMAL:
        return by_value(array, _decimal_clock, WIDE)
    if source.kind in _FLOATS:
        return _float_clock(_float64(array), valid)
    with np.errstate(over="ignore"):
        millis = int64(array) * 1000
    return from_clock(np.floor_divide(millis, 1000), np.zeros_like(millis), valid)


def _float_clock(values: npt.NDArray[np.float64], valid: BoolArray) -> pa.StructArray:
    millis = values * 1000
    with np.errstate(invalid="ignore"):
        fits = ~(np.abs(millis) >= _TWO_63)
    # Math.round: half up, NaN to zero.
    whole = np.floor(np.where(fits & ~np.isnan(millis), millis, 0) + 0.5).astype(np.int64)
    with np.errstate(invalid="ignore"):
        fits &= (whole >= 0) == (millis >= 0)
    return from_clock(np.floor_divide(whole, 1000), np.mod(whole, 1000) * 1_000_000, valid & fits)


def _decimal_clock(value: Decimal) -> dict[str, int] | None:
    seconds = int(value)
    if not _INSTANT_SECONDS[0] <= seconds <= _INSTANT_SECONDS[1]:
        return None
    nanos = int(((value - seconds) * _NANOS).to_integral_value(ROUND_DOWN))
    return {"seconds": seconds + nanos // _NANOS, "nanos": nanos % _NANOS}


def _to_date(array: pa.Array, source: Primitive) -> pa.Array:
    if source.kind in TEXTS:
        return by_value(array, _parse_day, pa.int32()).cast(pa.date32())
    seconds, nanos = clock(array)
    # ORC cuts the milliseconds towards zero here, so the last instant before a midnight of old belongs to the
    # next day.
    cut = seconds + ((seconds < 0) & (nanos >= 1_000_000))
    return pa.array(np.floor_divide(cut, SECONDS_PER_DAY).astype(np.int32), mask=~validity(array)).cast(pa.date32())


def _parse_day(text: bytes, *, strict: bool = True) -> int | None:
    match = _DATE.match(text)
    if match is None:
        return None
    digits = match[1].lstrip(b"+-")
    # A sign stands exactly before years of more than four digits; a minus anywhere but before zero.
    if match[1].startswith(b"+") != (len(digits) > 4 and not match[1].startswith(b"-")):
        return None
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not (1 <= month <= 12 and 1 <= day <= 31) or abs(year) > 999_999_999 or match[1] == b"-0000":
        return None
    cycle = 2000 + year % 400
    if not strict:
        # In a timestamp a day that the month does not have becomes its last (ResolverStyle.SMART).
        day = min(day, monthrange(cycle, month)[1])
    if day > monthrange(cycle, month)[1]:
        return None
    result = date(cycle, month, day).toordinal() - 719_163 + (year - cycle) // 400 * 146_097
    # Java casts to int.
    return (result + (1 << 31)) % (1 << 32) - (1 << 31) if strict else result


def _parse_clock(text: bytes, zoned: bool) -> dict[str, int] | None:
    if zoned:
        text, _, zone = text.rpartition(b" ")
        if zone not in (b"UTC", b"Z", b"GMT"):
            return None
    head, _, tail = text.partition(b" ")
    day = _parse_day(head, strict=False)
    match = _CLOCK.match(tail)
    if day is None or match is None:
        return None
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    nanos = int((match[4] or b"0").ljust(9, b"0"))
    if hour == 24 and not (minute or second or nanos):
        hour, day = 0, day + 1
    if hour > 23 or minute > 59 or second > 59:
        return None
    return {"seconds": day * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second, "nanos": nanos}
