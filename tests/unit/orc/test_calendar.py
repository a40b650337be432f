"""The hybrid calendar, against a slow model of it."""

from __future__ import annotations

import io
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidctl.orc.calendar import (
    SWITCH_DAY,
    hybrid_seconds_to_proleptic,
    hybrid_to_proleptic,
    is_utc,
    wall_clock,
    zone_epoch,
)
from acidctl.orc.reader import open_orc
from acidctl.types.format_scalars import dates, timestamps
from tests.support.orc_files import by_pyorc, fixture_files

EPOCH_JULIAN_DAY = 2_440_588


def day_text(day: int) -> str:
    """A day as Hive prints it."""
    return str(dates(pa.array([day], pa.int32()))[0])


def julian_day(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of the Julian calendar, counted year by year from 4713 BC."""
    days = 0
    for y in range(-4712, year):
        days += 366 if y % 4 == 0 else 365
    lengths = [31, 29 if year % 4 == 0 else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    return days + sum(lengths[: month - 1]) + day - 1 - EPOCH_JULIAN_DAY


@given(st.dates(date(1, 1, 1), date(1582, 10, 4)))
def test_labels_are_kept(label: date) -> None:
    """A day of the Julian calendar becomes the proleptic day of the same label."""
    days = np.array([julian_day(label.year, label.month, label.day)])
    assert hybrid_to_proleptic(days).tolist() == [label.toordinal() - 719_163]


def test_days_that_the_proleptic_calendar_does_not_have() -> None:
    """29 February of 1500 becomes 1 March, as in Hive."""
    moved = hybrid_to_proleptic(np.array([julian_day(1500, 2, 29)]))
    assert day_text(int(moved[0])) == "1500-03-01"


@given(st.lists(st.integers(SWITCH_DAY, 3_000_000), max_size=20))
def test_the_gregorian_days_stay(days: list[int]) -> None:
    """From 1582-10-15 on nothing moves."""
    array = np.array(days, dtype=np.int64)
    assert hybrid_to_proleptic(array) is array


@given(st.integers(-62_135_769_600, 253_402_300_799), st.integers(0, 86_399))
def test_clocks_move_with_their_day(day_seconds: int, time: int) -> None:
    """The time of day is untouched."""
    seconds = np.array([day_seconds // 86_400 * 86_400 + time])
    moved = hybrid_seconds_to_proleptic(seconds)
    assert moved[0] % 86_400 == time
    assert moved[0] // 86_400 == hybrid_to_proleptic(seconds // 86_400)[0]


@given(st.integers(-719_162, 2_932_896))
def test_day_texts(day: int) -> None:
    """Dates print as Python's own."""
    assert day_text(day) == date.fromordinal(day + 719_163).isoformat()


def test_texts_beyond_four_digits() -> None:
    """Years above 9999 carry a plus, years before 1 are counted through zero."""
    assert (day_text(2_932_897), day_text(-719_529)) == ("+10000-01-01", "-0001-12-31")
    assert day_text(-719_528) == "0000-01-01"
    assert timestamps(pa.array([-500], pa.timestamp("ms")), False).to_pylist()[0] == "1969-12-31 23:59:59.5"


def test_zones() -> None:
    """A wall clock follows the zone's rules, and before 1900 its standard offset."""
    assert is_utc(None)
    assert is_utc("Etc/UTC")
    assert not is_utc("Europe/Berlin")
    summer, winter, ancient = 1_600_000_000, 1_610_000_000, -3_000_000_000
    shown = wall_clock(np.array([summer, winter, ancient]), "Europe/Berlin")
    assert (shown - [summer, winter, ancient]).tolist() == [7200, 3600, 3600]
    assert zone_epoch("America/Los_Angeles") == 1_420_070_400 + 8 * 3600
    with pytest.raises(ValueError, match="is unknown"):
        wall_clock(np.array([0]), "Nowhere/Town")


def test_the_three_kinds_of_files() -> None:
    """Marked hybrid, marked proleptic, and Hive 3's unmarked proleptic files show Hive's own dates."""
    seen = set()
    for path in fixture_files("hive*/types_*/*/table"):
        file = open_orc(io.BytesIO(path.read_bytes()), name=path.name)
        if not file.is_acid or "d" not in file.columns.names or "ts" not in file.columns.names:
            continue
        for batch in file.scan():
            row = batch.column("row")
            for label in row.field("d").cast(pa.int32()).to_pylist():
                if label is not None and label < SWITCH_DAY:
                    seen.add((file.tail.calendar.name, day_text(label)))
    assert ("JULIAN_GREGORIAN", "1500-02-28") in seen
    assert ("PROLEPTIC_GREGORIAN", "1582-10-10") in seen


def test_unmarked_files_of_other_writers_are_proleptic() -> None:
    """The C++ writer has never known another calendar."""
    data = by_pyorc("struct<d:date>", [(date(1500, 2, 28),), (None,)])
    (batch,) = open_orc(io.BytesIO(data), name="f").scan()
    assert batch.column(0).to_pylist() == [date(1500, 2, 28), None]
