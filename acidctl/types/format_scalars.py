"""The text of single values, a column at a time: floats, decimals, dates, timestamps, and strings made valid.

Each function takes an Arrow array and returns a string array of the same length, NULL for NULL. What stands
around the text (quotes, braces) is the business of `format_rows`; each function says whose conventions it follows.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.events import as_arrow, floor_and_rest

DAY = 86_400
_BILLION = 1_000_000_000
_FIRST_DAY, _LAST_DAY = -719_528, 2_932_896  # 0000-01-01 and 9999-12-31, where a year has four digits
Int64Array = npt.NDArray[np.int64]
YearText = Callable[[Int64Array], pa.Array]


# Java replaces an encoded surrogate as one character, Python as two or three.
_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


@lru_cache(maxsize=4096)
def literal(text: str | None) -> pa.Scalar:
    """A string scalar, NULL for None; kept, because pyarrow looks for pandas each time that it makes one."""
    return pa.scalar(text, pa.string())


def joined(*parts: pa.Array | str) -> pa.Array:
    """The texts of each row one after the other; NULL where one of them is."""
    scalars = [literal(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, literal(""))


def either(mask: pa.Array, yes: pa.Array | str | None, no: pa.Array | str | None) -> pa.Array:
    """The one text where the mask is true, the other where it is false, NULL where it is NULL."""
    chosen = [literal(text) if text is None or isinstance(text, str) else text for text in (yes, no)]
    return pc.if_else(mask, *chosen)


class Damage:
    """Counts the strings that were not valid UTF-8 and were shown with replacement characters."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Safe from any thread."""
        with self._lock:
            self.count += count


def bytes_of(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of a string or binary array, without a copy; those of NULLs may be among them."""
    _, offsets, data = array.buffers()
    if data is None or len(array) == 0:
        return np.zeros(0, dtype=np.uint8)
    ends = np.frombuffer(offsets, dtype=np.int32)
    return np.frombuffer(data, dtype=np.uint8)[ends[array.offset] : ends[array.offset + len(array)]]


def valid_utf8(text: pa.Array, damage: Damage) -> pa.Array:
    """The same strings, those that are not UTF-8 with replacement characters, as many as Java makes, and counted."""
    try:
        text.validate(full=True)
        return text
    except pa.ArrowInvalid:
        pass
    data = text.view(pa.binary()).to_pylist()
    rows, repaired = [], []
    for row, value in enumerate(data):
        if value is None or value.isascii():
            continue
        try:
            value.decode("utf-8")
        except UnicodeDecodeError:
            rows.append(row)
            repaired.append(_ENCODED_SURROGATE.sub(b"\xff", value).decode("utf-8", "replace"))
    damage.add(len(rows))
    place = np.arange(len(text))
    place[rows] = len(text) + np.arange(len(rows))
    return pa.concat_arrays([text, pa.array(repaired, pa.string())]).take(as_arrow(place))


def shortest_floats(array: pa.Array) -> pa.Array:
    """Shortest text that reads back as the same float or double, always with a point or an exponent."""
    text = pc.cast(array, pa.string())
    values = array.to_numpy(zero_copy_only=False)
    finite = np.isfinite(values)
    if not finite.all():
        infinite = either(pc.greater(array, 0), '"Infinity"', '"-Infinity"')
        words = either(pc.is_nan(array), '"NaN"', infinite)
        text = either(pc.is_finite(array), text, words)
    with np.errstate(invalid="ignore"):
        whole = finite & (values == np.trunc(values)) & (np.abs(values) < 1e16)
    if whole.any():
        bare = pc.and_(as_arrow(whole), pc.invert(pc.match_substring(text, "e")))
        text = either(bare, joined(text, ".0"), text)
    return text


def decimals(array: pa.Array) -> pa.Array:
    """Decimals at their declared scale, never in exponent form."""
    scale = array.type.scale
    if scale <= 6:  # Arrow writes an exponent where the value is below 1e-6, also for 0 with more digits
        return pc.cast(array, pa.string())
    unscaled = pa.Array.from_buffers(pa.decimal128(38, 0), len(array), array.buffers(), array.null_count, array.offset)
    digits = pc.cast(unscaled, pa.string())
    negative = pc.starts_with(digits, "-")
    digits = pc.ascii_lpad(pc.ascii_ltrim(digits, "-"), scale + 1, "0")
    whole = pc.utf8_slice_codeunits(digits, 0, -scale)
    return joined(either(negative, "-", ""), whole, ".", pc.utf8_slice_codeunits(digits, -scale))


def short_decimals(array: pa.Array) -> pa.Array:
    """Decimals without trailing zeros."""
    text = decimals(array)
    return pc.ascii_rtrim(pc.ascii_rtrim(text, "0"), ".") if array.type.scale else text


def dates(array: pa.Array) -> pa.Array:
    """Days since 1970 as Hive prints them: `uuuu-MM-dd`, a sign where the year has more than four digits."""
    return day_text(array.cast(pa.int32()), hive_year)


def day_text(days: pa.Array, year_text: YearText, *, first: int = _FIRST_DAY) -> pa.Array:
    """int32 or int64 days since 1970-01-01 in the proleptic calendar as text.

    `year_text` is asked only if a day lies before `first` or after 9999-12-31; in between years have four
    digits.
    """
    if len(days) == days.null_count:
        return pa.nulls(len(days), pa.string())
    ends = pc.min_max(days)
    if ends["min"].as_py() >= first and ends["max"].as_py() <= _LAST_DAY:
        return pc.cast(pc.cast(days, pa.int32()).view(pa.date32()), pa.string())
    filled = pc.fill_null(days, 0) if days.null_count else days
    year, month, day = civil(filled.to_numpy(zero_copy_only=False).astype(np.int64))
    text = joined(year_text(year), "-", _two(month), "-", _two(day))
    return either(pc.is_valid(days), text, None)


def civil(days: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Year, month and day of days since 1970-01-01, proleptic Gregorian, any year."""
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    number = months.astype(np.int64)
    return number // 12 + 1970, number % 12 + 1, (dates - months.astype("datetime64[D]")).astype(np.int64) + 1


def hive_year(year: Int64Array) -> pa.Array:
    """At least four digits; `+` when there are more, `-` before year 0 (Java's SignStyle.EXCEEDS_PAD)."""
    sign = either(as_arrow(year < 0), "-", either(as_arrow(year > 9999), "+", ""))
    digits = pc.ascii_lpad(pc.cast(as_arrow(np.abs(year)), pa.string()), 4, "0")
    return joined(sign, digits)


def _two(number: Int64Array) -> pa.Array:
    return pc.utf8_slice_codeunits(pc.cast(as_arrow(number + 100), pa.string()), 1)


def timestamps(array: pa.Array, local: bool) -> pa.Array:
    """`uuuu-MM-dd HH:mm:ss[.fraction]`, no trailing zeros; the instant and ` UTC` with local time zone."""
    text = pc.ascii_rtrim(pc.ascii_rtrim(full_timestamps(array), "0"), ".")
    return joined(text, " UTC") if local else text


def timestamps_with_fraction(array: pa.Array) -> pa.Array:
    """`uuuu-MM-dd HH:mm:ss.fraction` without trailing zeros, but with one digit at least, as `java.sql.Timestamp`."""
    return one_digit_of_fraction(full_timestamps(array))


def one_digit_of_fraction(text: pa.Array) -> pa.Array:
    """Timestamps with all nine digits of the fraction, trailing zeros cut down to one digit."""
    text = pc.ascii_rtrim(text, "0")
    whole = pc.ends_with(text, ".")
    return either(whole, joined(text, "0"), text) if pc.any(whole).as_py() else text


def full_timestamps(array: pa.Array) -> pa.Array:
    """Timestamps of either form with all nine digits of the fraction, those with a time zone in UTC."""
    if not pa.types.is_struct(array.type):
        return pc.cast(array.cast(pa.timestamp("ns", array.type.tz)).view(pa.timestamp("ns")), pa.string())
    return clock_text(*seconds_and_nanos(array), pc.is_valid(array), hive_year)


def seconds_and_nanos(array: pa.Array) -> tuple[Int64Array, Int64Array]:
    """Timestamps of either form as seconds since 1970 (floor) and nanoseconds; 0 for NULL."""
    if pa.types.is_struct(array.type):
        children = [pc.fill_null(child, 0) for child in array.flatten()]
        seconds, nanos = (child.to_numpy(zero_copy_only=False).astype(np.int64) for child in children)
        return seconds, nanos
    whole = array.cast(pa.timestamp("ns", array.type.tz)).view(pa.int64())
    return floor_and_rest(pc.fill_null(whole, 0).to_numpy(zero_copy_only=False), _BILLION)


def clock_text(
    seconds: Int64Array, nanos: Int64Array, valid: pa.Array, year_text: YearText, *, first: int = _FIRST_DAY
) -> pa.Array:
    """Seconds and nanoseconds with all nine digits of the fraction; years as in `day_text`."""
    clock = pc.cast(as_arrow((seconds % DAY).astype(np.int32)).view(pa.time32("s")), pa.string())
    fraction = pc.utf8_slice_codeunits(pc.cast(as_arrow(nanos + _BILLION), pa.string()), 1)
    days = day_text(as_arrow(seconds // DAY), year_text, first=first)
    text = joined(days, " ", clock, ".", fraction)
    return either(valid, text, None)
