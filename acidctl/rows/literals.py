"""Literals of a condition, and the value that Hive takes for one beside a column of some type.

Hive turns a constant into the column's own type where it can (`ExprNodeDescExprFactory.interpretConstantAsPrimitive`),
else both sides into a common one (`FunctionRegistry.getCommonClassForComparison`); IN has a rule of its own. The texts
of numbers, days and moments are read here too, for literals and for string columns alike.
"""

from __future__ import annotations

import math
import re
from calendar import monthrange
from datetime import date
from decimal import Decimal, InvalidOperation
from enum import Enum

import numpy as np

from acidctl.types.hive_types import HiveType, Primitive, TypeKind
from acidctl.values import dataclass

#: What values are compared as: an exact number, a double, text and bytes by their bytes, a day since 1970, and a moment
#: as seconds since 1970 and nanoseconds.
Value = int | Decimal | float | bytes | bool | tuple[int, int]

INTEGERS = frozenset({TypeKind.TINYINT, TypeKind.SMALLINT, TypeKind.INT, TypeKind.BIGINT})
FLOATS = frozenset({TypeKind.FLOAT, TypeKind.DOUBLE})
TEXTS = frozenset({TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR})
MOMENTS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL})
NUMBERS = INTEGERS | FLOATS | {TypeKind.DECIMAL}

_DAY = re.compile(r"\s*(-?\d{1,4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_CLOCK = re.compile(r"[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9})\d*)?(?!\.)", re.ASCII)
_ZONE = re.compile(r"(.*?) ?(?:UTC|GMT|Z)\s*\Z", re.DOTALL)
_DOUBLE = re.compile(r"([+-]?(?:NaN|Infinity|(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?))[fFdD]?\Z", re.ASCII)
_PLAIN = re.compile(r"-?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?\Z", re.ASCII)
_BLANKS = "".join(map(chr, range(33)))


class As(Enum):
    """What a column and a literal are both taken as before they are compared."""

    NUMBER = "number"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    BYTES = "bytes"
    DAY = "day"
    MOMENT = "moment"


class LiteralKind(Enum):
    """Kinds of literals, named as messages name them."""

    INTEGER = "a whole number"
    LONG = "a bigint"
    DECIMAL = "a decimal"
    DOUBLE = "a double"
    STRING = "a string"
    BOOLEAN = "TRUE or FALSE"
    DATE = "a date"
    TIMESTAMP = "a timestamp"
    INSTANT = "a timestamp with local time zone"
    NULL = "NULL"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal: `text` as Hive would cast it, `at` where it stands."""

    kind: LiteralKind
    text: str
    at: int

    @property
    def is_number(self) -> bool:
        """Whether it is a number of any kind."""
        return self.kind in _NUMERIC


_NUMERIC = (LiteralKind.INTEGER, LiteralKind.LONG, LiteralKind.DECIMAL, LiteralKind.DOUBLE)


class Place(Enum):
    """Where a literal stands: Hive makes those of comparisons and IN the column's type, and limits of BETWEEN not."""

    COMPARISON = "comparison"
    IN = "IN"
    BETWEEN = "BETWEEN"


class NotComparableError(Exception):
    """Hive refuses to compare them, or compares something that nobody means."""


#: Of an IN list: no value of the column's type, so that Hive takes it for FALSE, even beside NULL.
NEVER = "never"


def taken_as(kind: HiveType, literal: Literal, place: Place) -> tuple[As, Value] | str | None:
    """How a column of a type and a literal other than NULL are compared.

    None is a text that reads as nothing, so that the comparison is NULL; NEVER stands in IN lists alone.
    NotComparableError where there is no answer.
    """
    if not isinstance(kind, Primitive):
        raise NotComparableError
    if kind.kind in NUMBERS:
        return _beside_number(kind, literal, place)
    if kind.kind is TypeKind.BOOLEAN:
        return _beside_boolean(literal, place)
    if kind.kind in TEXTS:
        return _beside_text(kind, literal, place)
    if kind.kind is TypeKind.BINARY:
        if literal.kind is not LiteralKind.STRING:
            raise NotComparableError
        if place is Place.BETWEEN:
            return None  # Hive compares bytes and a string as doubles there, and bytes are none
        return As.BYTES, literal.text.encode("utf-8", "surrogateescape")
    return _beside_time(kind.kind, literal)


def _beside_number(kind: Primitive, literal: Literal, place: Place) -> tuple[As, Value] | str | None:
    if not literal.is_number and literal.kind is not LiteralKind.STRING:
        raise NotComparableError
    exact = number_of(literal.text.strip(" ") if kind.kind is TypeKind.DECIMAL else literal.text)
    if exact is None:
        # Not what Java calls a number: IN gives up, a comparison parses more generously.
        value = double_of(literal.text)
        return NEVER if place is Place.IN else None if value is None else (As.DOUBLE, value)
    as_double = place is Place.BETWEEN and literal.kind is LiteralKind.DOUBLE
    if kind.kind in FLOATS or as_double:
        narrow = kind.kind is TypeKind.FLOAT and not as_double
        value = float(Decimal(exact))  # which is infinite where a whole number would be too large
        return As.DOUBLE, narrowed(value) if narrow else value
    if kind.kind in INTEGERS and place is Place.IN and not _is_of(kind.kind, exact):
        return NEVER
    return As.NUMBER, exact


def _beside_boolean(literal: Literal, place: Place) -> tuple[As, Value] | None:
    if literal.kind is LiteralKind.BOOLEAN:
        return As.BOOLEAN, literal.text == "true"
    if place is Place.IN or not (literal.is_number or literal.kind is LiteralKind.STRING):
        raise NotComparableError
    value = double_of(literal.text)
    return None if value is None else (As.DOUBLE, value)


def _beside_text(kind: Primitive, literal: Literal, place: Place) -> tuple[As, Value] | str | None:
    if literal.kind is LiteralKind.STRING:
        text = literal.text.rstrip(" ") if kind.kind is TypeKind.CHAR and place is not Place.BETWEEN else literal.text
        if place is Place.IN and kind.length is not None and len(text) > kind.length:
            return NEVER
        return As.BYTES, text.encode("utf-8", "surrogateescape")
    if literal.is_number:
        # Hive refuses these two as unsafe (hive.strict.checks.type.safety), in comparisons alone.
        if place is Place.COMPARISON and literal.kind in (LiteralKind.LONG, LiteralKind.DECIMAL):
            raise NotComparableError
        value = double_of(literal.text)
        return None if value is None else (As.DOUBLE, value)
    if literal.kind is LiteralKind.BOOLEAN:
        raise NotComparableError
    return _beside_time(TypeKind.DATE if literal.kind is LiteralKind.DATE else TypeKind.TIMESTAMP, literal)


def _beside_time(kind: TypeKind, literal: Literal) -> tuple[As, Value] | None:
    """Days with days, all else as moments; texts become what the column is."""
    if literal.is_number or literal.kind is LiteralKind.BOOLEAN:
        raise NotComparableError
    if kind is TypeKind.DATE and literal.kind in (LiteralKind.STRING, LiteralKind.DATE):
        day = day_of(literal.text)
        return None if day is None else (As.DAY, day)
    moment = moment_of(literal.text, zoned=kind is TypeKind.TIMESTAMP_LOCAL or literal.kind is LiteralKind.INSTANT)
    return None if moment is None else (As.MOMENT, moment)


_BITS = {TypeKind.TINYINT: 8, TypeKind.SMALLINT: 16, TypeKind.INT: 32, TypeKind.BIGINT: 64}


def _is_of(kind: TypeKind, value: int | Decimal) -> bool:
    half = 1 << (_BITS[kind] - 1)
    return value == int(value) and -half <= value < half


# --- Texts as values.


def number_of(text: str) -> int | Decimal | None:
    """A decimal number exactly, without blanks around it; None for anything else."""
    body = text[:-1] if text[-1:] in ("d", "D", "f", "F", "l", "L") else text
    if not _PLAIN.match(body) or len(body) > 1000:
        return None
    try:
        value = Decimal(body)
    except InvalidOperation:
        return None
    # What no column can hold is held by as short a number.
    if value.adjusted() > 400:
        return 10**400 if value > 0 else -(10**400)
    return Decimal(0) if value.adjusted() < -400 else value


def double_of(text: str) -> float | None:
    """Java's Double.parseDouble, but for hexadecimal; None where it fails."""
    match = _DOUBLE.match(text.strip(_BLANKS))
    return None if match is None else float(match[1])


def narrowed(value: float) -> float:
    """The float (of 32 bits) nearest to a double."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def floor_of(value: int | Decimal, scale: int) -> tuple[int, bool]:
    """The greatest whole multiple of 10**-scale that is not above a number, and whether the two are equal."""
    sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits))) * (-1 if sign else 1)
    shift = scale + exponent
    if shift >= 0:
        return whole * 10**shift, True
    floor, rest = divmod(whole, 10**-shift)
    return floor, not rest


def day_of(text: str) -> int | None:
    """The day since 1970 with which a text begins, whatever follows (Hive's DateParser); None if there is none."""
    match = _DAY.match(text)
    return None if match is None else _day(match)


def moment_of(text: str, *, zoned: bool = False) -> tuple[int, int] | None:
    """Seconds since 1970 and nanoseconds; midnight where no clock follows the day. `zoned` takes UTC at the end."""
    if zoned and (match := _ZONE.match(text)):
        text = match[1]
    found = _DAY.match(text)
    day = None if found is None else _day(found)
    if found is None or day is None:
        return None
    clock = _CLOCK.match(text, found.end())
    if clock is None:
        return day * 86_400, 0
    hour, minute, second = int(clock[1]), int(clock[2]), int(clock[3])
    if hour > 23 or minute > 59 or second > 59:
        return day * 86_400, 0
    return day * 86_400 + hour * 3600 + minute * 60 + second, int((clock[4] or "0").ljust(9, "0"))


def _day(match: re.Match[str]) -> int | None:
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    cycle = 2000 + year % 400
    if not 1 <= month <= 12 or not 1 <= day <= monthrange(cycle, month)[1]:
        return None
    return date(cycle, month, day).toordinal() - 719_163 + (year - cycle) // 400 * 146_097


def is_nan(value: object) -> bool:
    """Whether it is the double NaN."""
    return isinstance(value, float) and math.isnan(value)
