"""Text of floating-point numbers as Java 8 to 18 prints them, not shortest before JDK 19 (JDK-4511638).

`double_text` and `float_text` repeat the digit generation of one value exactly; `doubles` does a whole column, through
Python's and Arrow's shortest form wherever both provably give one text.
"""

# Why they mostly do: Java stops at the first digit position where a decimal lies within half an ulp of the value and
# takes the nearer candidate, ties to even; so does the shortest form. They part only where
# - the value is a power of two: Java narrows the interval to a quarter ulp on both sides (this matters below 1e-3 only:
#   from there up to 2**53 the value itself has few digits);
# - a decimal of at most 17 digits is exactly the midpoint of two doubles: Java ignores the parity of the significand.
#   A midpoint is an odd 54-bit number times 2**e. For e < 0 its digits end in a 5 that cannot be cut and are more than
#   17, unless e = -1, where the value is an integer; so only values from 2**53 up matter;
# - the value is an integer of 2**54 or more but below 2**63: Java rounds its digits by a rule of its own;
# - precision is so low (subnormals) that the second digit, which the exponent form demands, decides.

from __future__ import annotations

import math
import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.events import as_arrow
from acidctl.types.format_scalars import either, joined

_DOUBLE_BITS = 53
_FLOAT_BITS = 24
# Below this the precision of a double starts to fall; far above the smallest normal number, and rare.
_LOW_PRECISION = 1e-300
_EXACT_INTEGERS = float(2**53)
_PLAIN_LOW, _PLAIN_HIGH = 1e-3, 1e7  # Java prints a plain decimal from 1e-3 up to, not including, 1e7
_NO_MIDPOINTS = float(2**134)  # 54-bit N: N * 2**e = D * 10**j with D < 10**17 needs j <= 23 and e - j <= 56


def double_text(value: float) -> str:
    """`Double.toString(value)` of Java 17."""
    return _text(value, _DOUBLE_BITS, lowest=-1022)


def float_text(value: float) -> str:
    """`Float.toString((float) value)` of Java 17."""
    return _text(struct.unpack(">f", struct.pack(">f", value))[0], _FLOAT_BITS, lowest=-126)


def doubles(array: pa.Array) -> pa.Array:
    """`Double.toString` of every value of a float64 array, as a string array; NULL stays NULL."""
    text = pc.cast(array, pa.string())
    values = array.to_numpy(zero_copy_only=False)  # NULL becomes NaN; the validity of `text` masks it again
    size = np.abs(values)
    plain = ((size >= _PLAIN_LOW) & (size < _PLAIN_HIGH)) | (size == 0)
    with np.errstate(invalid="ignore"):
        whole = plain & (values == np.trunc(values))
    if whole.any():
        text = either(as_arrow(whole), joined(text, ".0"), text)
    other = np.flatnonzero(~plain & ~np.asarray(array.is_null()))
    if other.size:
        place = np.arange(len(array))
        place[other] = len(array) + np.arange(other.size)
        repaired = pa.array([_unplain(value) for value in values[other].tolist()], pa.string())
        text = pa.concat_arrays([text, repaired]).take(as_arrow(place))
    return text


def _unplain(value: float) -> str:
    """`double_text` of a value that is not printed as a plain decimal, by its shortest form where the two are one."""
    size = abs(value)
    power_of_two = math.frexp(size)[0] == 0.5
    if not _LOW_PRECISION <= size < math.inf or (_EXACT_INTEGERS <= size < _NO_MIDPOINTS) or power_of_two:
        return double_text(value)
    mantissa, _, exponent = repr(size).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + len(digits) - len(fraction)
    return ("-" if value < 0 else "") + _layout(digits.rstrip("0"), point)


def _text(value: float, precision: int, *, lowest: int) -> str:
    """The text of a number of so many bits; `lowest` is the exponent of the smallest normal one."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return sign + "Infinity"
    if value == 0:
        return sign + "0.0"
    mantissa, power = math.frexp(abs(value))
    exponent = power - 1
    # In subnormals fewer bits count, and Java's stopping test knows it.
    bits = precision - max(0, lowest - exponent)
    return sign + _layout(*_digits(int(mantissa * (1 << _DOUBLE_BITS)), exponent, bits))


def _layout(digits: str, point: int) -> str:
    if 0 < point < 8:
        return digits[:point].ljust(point, "0") + "." + (digits[point:] or "0")
    if -3 < point <= 0:
        return "0." + "0" * -point + digits
    return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(significand: int, exponent: int, precision: int) -> tuple[str, int]:
    """The digits of significand * 2**(exponent - 52), and where the point stands: 0.DIGITS * 10**point."""
    tail = (significand & -significand).bit_length() - 1
    used = _DOUBLE_BITS - tail
    tiny = max(0, used - exponent - 1)
    if tiny == 0 and exponent <= 62:
        return _integer_digits(significand, exponent, precision)
    power = _estimate_power(significand, exponent)
    five_b, five_s = max(0, -power), max(0, power)
    two_b, two_s = five_b + tiny + exponent, five_s + tiny
    two_m = two_b - precision
    two_b -= used - 1
    common = min(two_b, two_s)
    two_b, two_s, two_m = two_b - common, two_s - common, two_m - common
    if used == 1:
        two_m -= 1
    if two_m < 0:
        two_b, two_s, two_m = two_b - two_m, two_s - two_m, 0
    widest = max(used + two_b + _five_bits(five_b), two_s + 1 + _five_bits(five_s + 1))
    remainder = ((significand >> tail) * 5**five_b) << two_b
    margin = (5**five_b) << two_m
    unit = (5**five_s) << two_s
    width = 32 if widest < 32 else 64 if widest < 64 else None
    return _generate(remainder, unit, margin, power, width)


def _generate(remainder: int, unit: int, margin: int, power: int, width: int | None) -> tuple[str, int]:
    """Digits until one lies within the margin; `width` is that of Java's integers, None for big ones."""
    tens = unit * 10

    def step(remainder: int, margin: int, *, first: bool) -> tuple[int, int, int, bool, bool]:
        digit, remainder = divmod(remainder, unit)
        remainder *= 10
        if width is None:  # Java compares "or equal" here and strictly in the machine integers
            margin *= 10
            return digit, remainder, margin, remainder < margin, remainder + margin >= tens
        margin = _wrap(margin * 10, width)
        if margin <= 0 and not first:  # the margin overflowed: it is larger than anything
            return digit, remainder, margin, True, True
        return digit, remainder, margin, remainder < margin, _wrap(remainder + margin, width) > tens

    digit, remainder, margin, low, high = step(remainder, margin, first=True)
    digits: list[int] = []
    if digit == 0 and not high:
        power -= 1
    else:
        digits.append(digit)
    if power < -3 or power >= 8:
        low = high = False
    while not (low or high):
        digit, remainder, margin, low, high = step(remainder, margin, first=False)
        digits.append(digit)
    excess = 2 * remainder - tens
    up = high and (not low or excess > 0 or (excess == 0 and digits[-1] % 2 == 1))
    number = str(int("".join(map(str, digits))) + up).rjust(len(digits), "0")
    return number[: len(digits)], power + 1 + len(number) - len(digits)


def _wrap(number: int, width: int) -> int:
    half = 1 << (width - 1)
    return (number + half) % (2 * half) - half


def _integer_digits(significand: int, exponent: int, precision: int) -> tuple[str, int]:
    shift = exponent - (_DOUBLE_BITS - 1)
    number = significand << shift if shift >= 0 else significand >> -shift
    dropped = 0
    if exponent > precision:
        dropped = len(str(1 << (exponent - precision - 1))) - 1
        unit = 10**dropped
        number = (number + unit // 2) // unit
    text = str(number)
    return text.rstrip("0"), len(text) + dropped


def _estimate_power(significand: int, exponent: int) -> int:
    """Java's linear estimate of floor(log10); one too high at times, which the digit loop repairs."""
    one_to_two = significand / (1 << (_DOUBLE_BITS - 1))
    return math.floor((one_to_two - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _five_bits(power: int) -> int:
    if power == 0:
        return 0
    return (5**power).bit_length() if power < 27 else power * 3
