"""Reading a file's values as the table's type: `hive_types.plan_fit` decides, this carries it out in Arrow.

The rules and texts are those of ORC's ConvertTreeReaderFactory (1.8, as in Hive 4), which Hive reads through, unless a
dialect has others: what does not fit or cannot be parsed becomes NULL, never an error. Numbers go through numpy;
conversions that parse or print text work on the distinct values of a batch, since Java's rules for text have no
counterpart in Arrow.
"""

from __future__ import annotations

import re
import struct
from calendar import monthrange
from collections.abc import Callable, Collection
from datetime import date
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.events import WIDE, bitmap, flat
from acidctl.orc.calendar import SECONDS_PER_DAY
from acidctl.orc.postprocess import NULL_UNION, Finisher, rebuild, union
from acidctl.types.format_scalars import (
    Int64Array,
    dates,
    seconds_and_nanos,
    short_decimals,
    timestamps,
    timestamps_with_fraction,
)
from acidctl.types.hive_types import (
    Dialect,
    Fit,
    FitAction,
    HiveType,
    ListType,
    MapType,
    Primitive,
    StructType,
    TypeKind,
    UnionType,
)
from acidctl.types.java_numbers import double_text, doubles, float_text

# --- One primitive type read as another.


BoolArray = npt.NDArray[np.bool_]

_INTEGERS: dict[TypeKind, type[np.signedinteger[Any]]] = {
    TypeKind.TINYINT: np.int8,
    TypeKind.SMALLINT: np.int16,
    TypeKind.INT: np.int32,
    TypeKind.BIGINT: np.int64,
}
_FLOATS = (TypeKind.FLOAT, TypeKind.DOUBLE)
_TEXTS = (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR)
_TIMESTAMPS = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL)
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


def _convert(array: pa.Array, source: Primitive, target: Primitive, dialect: Dialect = Dialect.HIVE4) -> pa.Array:
    """Values of type `source` as `target`; the pair must be one that `plan_fit` allows."""
    for sources, targets, convert in _OF_DIALECT.get(dialect, ()):
        if source.kind in sources and target.kind in targets:
            return convert(array, target)
    return _TO[target.kind](array, source, target)


def by_value(array: pa.Array, function: Callable[[Any], Any], result: pa.DataType) -> pa.Array:
    """`function` on each distinct value of the array; text arrives as bytes."""
    if pa.types.is_string(array.type):
        array = array.cast(pa.binary())
    encoded = array.dictionary_encode()
    answers = pa.array([function(value) for value in encoded.dictionary.to_pylist()], type=result)
    return answers.take(encoded.indices)


def _by_clock(array: pa.Array, function: Callable[[int, int], Any], result: pa.DataType) -> pa.Array:
    """`function` on the seconds and nanoseconds of each distinct timestamp."""
    pairs = np.stack(seconds_and_nanos(array), axis=1)
    packed = pa.Array.from_buffers(pa.binary(16), len(array), [bitmap(_validity(array)), pa.py_buffer(pairs)])
    return by_value(packed, lambda pair: function(*struct.unpack("=qq", pair)), result)


def _validity(array: pa.Array) -> BoolArray:
    return np.asarray(array.is_valid())


def _int64(array: pa.Array) -> Int64Array:
    return np.asarray(array.cast(pa.int64()).fill_null(0))


def _float64(array: pa.Array) -> npt.NDArray[np.float64]:
    return np.asarray(array.cast(pa.float64()).fill_null(0.0))


# --- to integers and boolean


def _to_integer(array: pa.Array, source: Primitive, target: Primitive) -> pa.Array:
    valid = _validity(array)
    if source.kind is TypeKind.DECIMAL:
        if target.kind is TypeKind.BOOLEAN:
            return by_value(array, lambda value: value != 0, pa.bool_())
        longs = by_value(array, lambda value: _long(int(value)), pa.int64())
        return _narrow(_int64(longs), _validity(longs), target)
    if source.kind in _TEXTS:
        longs = by_value(array, _parse_long, pa.int64())
        return _narrow(_int64(longs), _validity(longs), target)
    if source.kind in _FLOATS:
        values = _float64(array)
        with np.errstate(invalid="ignore"):
            fits = (-_TWO_63 - values < 1.0) & (values < _TWO_63)
            return _narrow(np.where(fits, values, 0).astype(np.int64), valid & fits, target)
    if source.kind in _TIMESTAMPS:
        return _narrow(seconds_and_nanos(array)[0], valid, target)
    return _narrow(_int64(array), valid, target)


def _narrow(values: Int64Array, valid: BoolArray, target: Primitive) -> pa.Array:
    if target.kind is TypeKind.BOOLEAN:
        return pa.array(values != 0, mask=~valid)
    kind = _INTEGERS[target.kind]
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


def _to_float(array: pa.Array, source: Primitive, target: Primitive) -> pa.Array:
    valid = _validity(array)
    if source.kind is TypeKind.DECIMAL:
        wide = by_value(array, float, pa.float64())
    elif source.kind in _TEXTS:
        wide = by_value(array, parse_double, pa.float64())
    elif source.kind in _TIMESTAMPS:
        seconds, nanos = seconds_and_nanos(array)
        wide = pa.array(seconds.astype(np.float64) + nanos / 1e9, mask=~valid)
    elif source.kind in _FLOATS:
        wide = array
    else:
        wide = pa.array(_int64(array).astype(np.float64), mask=~valid)
    return wide.cast(pa.float32() if target.kind is TypeKind.FLOAT else pa.float64(), safe=False)


def parse_double(text: bytes) -> float | None:
    """What Java's `Double.parseDouble` makes of it; None where that throws."""
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
    if source.kind in _TEXTS:
        return by_value(array, lambda text: fitted(parse_decimal(text)), result)
    if source.kind in _FLOATS:
        text = doubles(array.cast(pa.float64()))
        return by_value(text, lambda text: fitted(parse_decimal(text)), result)
    if source.kind in _TIMESTAMPS:
        return _by_clock(array, lambda s, n: fitted(_clock_decimal(s, n)), result)
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


def parse_decimal(text: bytes) -> Decimal | None:
    """What HiveDecimal makes of it, before precision and scale; None where it is no number."""
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


def _to_text(array: pa.Array, source: Primitive, target: Primitive) -> pa.Array:
    if source.kind is TypeKind.BOOLEAN:
        array = pc.if_else(array, "TRUE", "FALSE")
    elif source.kind in _INTEGERS:
        array = array.cast(pa.string())
    elif source.kind in _FLOATS:
        wide = array.cast(pa.float64())
        array = doubles(pc.if_else(pc.is_nan(wide), None, wide))
    elif source.kind is TypeKind.DECIMAL:
        array = short_decimals(array)
    elif source.kind is TypeKind.DATE:
        array = dates(array)
    elif source.kind is TypeKind.BINARY:
        array = by_value(array, lambda value: value.hex(" "), pa.string())
    elif source.kind in _TIMESTAMPS:
        array = timestamps(array, source.kind is TypeKind.TIMESTAMP_LOCAL)
    return _limit(array, target)


def _limit(array: pa.Array, target: Primitive) -> pa.Array:
    """Cut to the length of char or varchar, counted in characters, and trim the padding of char."""
    if target.length is None:
        return array
    longest = pc.max(pc.binary_length(array)).as_py() or 0
    if longest > target.length:
        array = by_value(array, lambda text: truncate(text, target.length or 0), pa.binary())
        array = pa.Array.from_buffers(pa.string(), len(array), array.buffers(), array.null_count, array.offset)
    return pc.ascii_rtrim(array, characters=" ") if target.kind is TypeKind.CHAR else array


def truncate(text: bytes, length: int) -> bytes:
    """The first `length` characters, where every byte that does not continue another begins one."""
    count = 0
    for at, byte in enumerate(text):
        if byte & 0xC0 != 0x80:
            if count == length:
                return text[:at]
            count += 1
    return text


def _to_binary(array: pa.Array, source: Primitive, _: Primitive) -> pa.Array:
    if source.kind is not TypeKind.CHAR:
        return array.cast(pa.binary())
    length = source.length or 0
    return by_value(array, lambda text: text + b" " * (length - sum(byte & 0xC0 != 0x80 for byte in text)), pa.binary())


# --- to timestamps and dates


def _from_clock(seconds: Int64Array, nanos: Int64Array, valid: BoolArray) -> pa.StructArray:
    parts = [pa.array(seconds.astype(np.int64)), pa.array(nanos.astype(np.int32))]
    return pa.StructArray.from_arrays(parts, fields=list(WIDE), mask=pa.array(~valid))


def _to_timestamp(array: pa.Array, source: Primitive, target: Primitive) -> pa.Array:
    valid = _validity(array)
    if source.kind in _TIMESTAMPS:
        if pa.types.is_struct(array.type):
            return array
        zone = "UTC" if target.kind is TypeKind.TIMESTAMP_LOCAL else None
        return array.cast(pa.int64()).cast(pa.timestamp("ns", tz=zone))
    if source.kind is TypeKind.DATE:
        days = _int64(array.cast(pa.int32()))
        return _from_clock(days * SECONDS_PER_DAY, np.zeros_like(days), valid)
    if source.kind in _TEXTS:
        zoned = target.kind is TypeKind.TIMESTAMP_LOCAL
        return by_value(array, lambda text: _parse_clock(text, zoned), WIDE)
    if source.kind is TypeKind.DECIMAL:
        return by_value(array, _decimal_clock, WIDE)
    if source.kind in _FLOATS:
        return _float_clock(_float64(array), valid)
    with np.errstate(over="ignore"):
        millis = _int64(array) * 1000
    return _from_clock(np.floor_divide(millis, 1000), np.zeros_like(millis), valid)


def _moment(seconds: int, nanos: int) -> dict[str, int]:
    return {"seconds": seconds + nanos // _NANOS, "nanos": nanos % _NANOS}


def _float_clock(values: npt.NDArray[np.float64], valid: BoolArray) -> pa.StructArray:
    millis = values * 1000
    with np.errstate(invalid="ignore"):
        fits = ~(np.abs(millis) >= _TWO_63)
    # Math.round: half up, NaN to zero.
    whole = np.floor(np.where(fits & ~np.isnan(millis), millis, 0) + 0.5).astype(np.int64)
    with np.errstate(invalid="ignore"):
        fits &= (whole >= 0) == (millis >= 0)
    return _from_clock(np.floor_divide(whole, 1000), np.mod(whole, 1000) * 1_000_000, valid & fits)


def _decimal_clock(value: Decimal) -> dict[str, int] | None:
    seconds = int(value)
    if not _INSTANT_SECONDS[0] <= seconds <= _INSTANT_SECONDS[1]:
        return None
    nanos = int(((value - seconds) * _NANOS).to_integral_value(ROUND_DOWN))
    return _moment(seconds, nanos)


def _to_date(array: pa.Array, source: Primitive, _: Primitive) -> pa.Array:
    if source.kind in _TEXTS:
        return by_value(array, _parse_day, pa.int32()).cast(pa.date32())
    seconds, nanos = seconds_and_nanos(array)
    # ORC cuts the milliseconds towards zero here, so the last instant before a midnight of old belongs to the
    # next day.
    cut = seconds + ((seconds < 0) & (nanos >= 1_000_000))
    return pa.array(np.floor_divide(cut, SECONDS_PER_DAY).astype(np.int32), mask=~_validity(array)).cast(pa.date32())


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
    return _moment(day * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second, nanos)


_TO: dict[TypeKind, Callable[[pa.Array, Primitive, Primitive], pa.Array]] = {
    **dict.fromkeys((TypeKind.BOOLEAN, *_INTEGERS), _to_integer),
    **dict.fromkeys(_FLOATS, _to_float),
    TypeKind.DECIMAL: _to_decimal,
    **dict.fromkeys(_TEXTS, _to_text),
    **dict.fromkeys(_TIMESTAMPS, _to_timestamp),
    TypeKind.DATE: _to_date,
    TypeKind.BINARY: _to_binary,
}


# --- Conversions in which Hive 3 and 2 differ from Hive 4: those of ORC 1.5 and of java.sql.
#
# Everything else is as above. ORC 1.5 keeps the digits of a float when it becomes a double, takes integers
# for milliseconds when they become timestamps, and reads and prints dates and timestamps as `java.sql` does.


_HIVE3_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})\Z")
_HIVE3_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?\Z")


def _float_digits(array: pa.Array) -> pa.Array:
    """Floats as the doubles of the same decimal text (`Double.parseDouble(Float.toString(f))`)."""
    values = np.asarray(array.fill_null(0))
    size = np.abs(values)
    digits = np.asarray(array.cast(pa.string()).cast(pa.float64()).fill_null(0)).copy()
    # Where Java's text may not be the shortest one: large, subnormal, and small powers of two.
    with np.errstate(invalid="ignore"):
        special = (size >= 2.0**24) | ((size > 0) & (size < 1e-30))
        special |= (size < 1e-3) & (values.view(np.uint32) & 0x7FFFFF == 0) & (size > 0)
    special &= np.isfinite(values)
    if special.any():
        digits[special] = [float(float_text(float(value))) for value in values[special]]
    return pa.array(digits, mask=np.asarray(array.is_null()))


def _float_text(array: pa.Array, target: Primitive) -> pa.Array:
    known = pc.if_else(pc.is_nan(array), pa.scalar(None, pa.float32()), array)
    return _limit(by_value(known, float_text, pa.string()), target)


def _clock_of_millis(array: pa.Array, _: Primitive) -> pa.Array:
    millis = _int64(array)
    return _from_clock(np.floor_divide(millis, 1000), np.mod(millis, 1000) * 1_000_000, _validity(array))


def _day_of_clock(array: pa.Array, _: Primitive) -> pa.Array:
    days = np.floor_divide(seconds_and_nanos(array)[0], SECONDS_PER_DAY).astype(np.int32)
    return pa.array(days, mask=~_validity(array)).cast(pa.date32())


def _hive3_float_clock(value: float) -> dict[str, int] | None:
    if value != value or abs(value) >= 2.0**63:
        return None
    seconds = int(value)
    return _moment(seconds, int((Decimal(double_text(value)) - seconds) * _NANOS))


def _hive3_day(value: bytes) -> int | None:
    match = _HIVE3_DATE.match(value.decode("utf-8", "replace"))
    if match is None:
        return None
    year, month, day = (int(part) for part in match.groups())
    if not (1 <= month <= 12 and 1 <= day <= 31 and year >= 1):
        return None
    # java.sql.Date takes 31 days for every month and lets the rest run over.
    return date(year, month, day=1).toordinal() - 719_163 + day - 1


def _hive3_clock(value: bytes) -> dict[str, Any] | None:
    head, _, tail = value.decode("utf-8", "replace").strip().partition(" ")
    day = _hive3_day(head.encode())
    match = _HIVE3_CLOCK.match(tail)
    if day is None or match is None:
        return None
    hour, minute, second = (int(part) for part in match.groups()[:3])
    nanos = int((match[4] or "0").ljust(9, "0"))
    return _moment(day * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second, nanos)


_DOUBLE_TYPE = Primitive(TypeKind.DOUBLE)
_FLOAT, _STAMP = (TypeKind.FLOAT,), (TypeKind.TIMESTAMP,)
# From these types to those, in the order in which they are looked for.
_Special = tuple[tuple[Collection[TypeKind], Collection[TypeKind], Callable[[pa.Array, Primitive], pa.Array]], ...]
_HIVE3: _Special = (
    (_FLOAT, (TypeKind.DOUBLE,), lambda array, _: _float_digits(array)),
    # The digits of the float, which are those of the double that has them.
    (_FLOAT, (TypeKind.DECIMAL,), lambda array, target: _to_decimal(_float_digits(array), _DOUBLE_TYPE, target)),
    (_FLOAT, _TEXTS, _float_text),
    (_FLOATS, _STAMP, lambda array, _: by_value(array.cast(pa.float64()), _hive3_float_clock, WIDE)),
    (_TEXTS, _STAMP, lambda array, _: by_value(array, _hive3_clock, WIDE)),
    ((TypeKind.BOOLEAN, *_INTEGERS), _STAMP, _clock_of_millis),
    (_STAMP, _TEXTS, lambda array, target: _limit(timestamps_with_fraction(array), target)),
    (
        _STAMP,
        (TypeKind.DECIMAL,),
        lambda array, target: _to_decimal(
            _to_float(array, Primitive(TypeKind.TIMESTAMP), _DOUBLE_TYPE), _DOUBLE_TYPE, target
        ),
    ),
    (_STAMP, (TypeKind.DATE,), _day_of_clock),
    (_TEXTS, (TypeKind.DATE,), lambda array, _: by_value(array, _hive3_day, pa.int32()).cast(pa.date32())),
)


# --- Conversions in which Parquet's `ETypeConverter` of Hive 4 differs: a fraction is no integer, text is Java's own.


def _whole(array: pa.Array, target: Primitive) -> pa.Array:
    """Integers of numbers without a fraction, else NULL."""
    if pa.types.is_decimal(array.type):
        kept = by_value(array, lambda value: value if value == value.to_integral_value() else None, array.type)
        return _to_integer(kept, Primitive(TypeKind.DECIMAL), target)
    values = array.cast(pa.float64())
    kept = pc.if_else(pc.equal(values, pc.trunc(values)), values, pa.scalar(None, pa.float64()))
    return _to_integer(kept, _DOUBLE_TYPE, target)


def _normal_float(array: pa.Array, _: Primitive) -> pa.Array:
    """Hive takes only what is a normal float, so that zero becomes NULL too."""
    size = pc.abs(array)
    normal = pc.and_(pc.greater_equal(size, 2.0**-126), pc.less_equal(size, float(np.finfo(np.float32).max)))
    return pc.if_else(normal, array, pa.scalar(None, pa.float64())).cast(pa.float32(), safe=False)


def _java_text(array: pa.Array, target: Primitive) -> pa.Array:
    """`toString` of the values, as far as it fits the target."""
    if pa.types.is_boolean(array.type):
        text = array.cast(pa.string())
    else:
        text = by_value(array, float_text, pa.string()) if pa.types.is_float32(array.type) else doubles(array)
    return _limit(text, target)


_PARQUET: _Special = (
    (_FLOATS, tuple(_INTEGERS), _whole),
    ((TypeKind.DECIMAL,), tuple(_INTEGERS), _whole),
    ((TypeKind.DOUBLE,), _FLOAT, _normal_float),
    ((TypeKind.BOOLEAN, *_FLOATS), _TEXTS, _java_text),
    ((TypeKind.BINARY,), (TypeKind.STRING,), lambda array, _: array.view(pa.string())),
)
_OF_DIALECT = {Dialect.HIVE3: _HIVE3, Dialect.PARQUET: _PARQUET}


# --- Values fitted to the table's type.


_ARROW = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.TINYINT: pa.int8(),
    TypeKind.SMALLINT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.BIGINT: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.VARCHAR: pa.string(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIMESTAMP: pa.timestamp("ns"),
    TypeKind.TIMESTAMP_LOCAL: pa.timestamp("ns", tz="UTC"),
}


def arrow_type(kind: HiveType) -> pa.DataType:
    """The Arrow type in which values of a Hive type travel, timestamps in their narrow form."""
    if isinstance(kind, Primitive):
        if kind.kind is TypeKind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
        return _ARROW[kind.kind]
    if isinstance(kind, ListType):
        return pa.list_(arrow_type(kind.element))
    if isinstance(kind, MapType):
        return pa.map_(arrow_type(kind.key), arrow_type(kind.value))
    if isinstance(kind, StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in kind.fields])
    assert isinstance(kind, UnionType)
    fields = [pa.field(str(i), arrow_type(t)) for i, t in enumerate(kind.alternatives)]
    return pa.sparse_union([*fields, pa.field(NULL_UNION, pa.null())])


def null_array(kind: HiveType, rows: int) -> pa.Array:
    """A column of NULLs, for a field that a file does not have."""
    if isinstance(kind, UnionType):
        children = [null_array(alternative, rows) for alternative in kind.alternatives]
        return union(np.full(rows, len(children), dtype=np.int8), children, None)
    return pa.nulls(rows, arrow_type(kind))


def fit_array(array: pa.Array, plan: Fit) -> pa.Array:
    """Carry out a decided fit."""
    if plan.action is FitAction.KEEP:
        return array
    if plan.action is FitAction.CONVERT:
        assert isinstance(plan.source, Primitive)
        assert isinstance(plan.target, Primitive)
        return _convert(array, plan.source, plan.target, plan.dialect)
    if isinstance(plan.target, StructType):
        array = flat(array)
        children = [
            null_array(field.type, len(array)) if child is None else fit_array(array.field(child[0]), child[1])
            for field, child in zip(plan.target.fields, plan.children, strict=True)
        ]
        names = plan.target.names
        kind = pa.struct([pa.field(name, child.type) for name, child in zip(names, children, strict=True)])
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], array.null_count, children=children)
    if isinstance(plan.target, UnionType):
        array = flat(array)
        children = [fit_array(array.field(child[0]), child[1]) for child in plan.children if child]
        return union(np.asarray(array.type_codes), children, None)
    return rebuild(array, [_step(child[1]) for child in plan.children if child])


def _step(plan: Fit) -> Finisher:
    return lambda array, held: fit_array(array, plan)
