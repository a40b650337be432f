"""Days and clocks: the hybrid calendar's labels in the proleptic one, and wall clocks of a writer's time zone.

Java before 8, and Hive 2 with it, count days before 1582-10-15 in the Julian calendar; later Hives print the
label that such a day has there. Arrow and everything else here know the proleptic Gregorian calendar only, so
a day of a hybrid file is moved to the proleptic day of the same label, as Hive's `CalendarUtils` does. All
functions take whole arrays.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import MissingDependencyError

Int64Array = npt.NDArray[np.int64]

SECONDS_PER_DAY = 86_400
#: 1582-10-15, the first day of the Gregorian calendar, in days since 1970-01-01.
SWITCH_DAY = -141_427
# 0000-03-01 of the Julian and of the proleptic Gregorian calendar, in days since 1970-01-01.
_JULIAN_EPOCH = -719_470
_GREGORIAN_EPOCH = -719_468
# Seconds from 1970-01-01 to 2015-01-01 on one clock: ORC's timestamps count from the latter.
ORC_EPOCH = 1_420_070_400
_YEAR_1900 = -2_208_988_800
_YEAR_2037 = 2_114_380_800
_YEAR_9999 = 253_370_764_800
_UTC_NAMES = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Z", "UCT", "Etc/UCT", "Zulu", "Etc/Zulu"})


def hybrid_to_proleptic(days: Int64Array) -> Int64Array:
    """Days of the hybrid calendar as the proleptic days with the same label.

    29 February of a year that is a leap year in the Julian calendar only (1500, say) becomes 1 March, as in
    Hive.
    """
    old = days < SWITCH_DAY
    if not old.any():
        return days
    # Julian years of 365.25 days that begin in March, so that the leap day is the last of its year.
    since = days[old] - _JULIAN_EPOCH
    year = np.floor_divide(4 * since + 3, 1461)
    day_of_year = since - np.floor_divide(1461 * year, 4)
    leap_days = np.floor_divide(year, 4) - np.floor_divide(year, 100) + np.floor_divide(year, 400)
    result = days.copy()
    result[old] = 365 * year + leap_days + day_of_year + _GREGORIAN_EPOCH
    return result


def hybrid_seconds_to_proleptic(seconds: Int64Array) -> Int64Array:
    """Seconds of a wall clock in the hybrid calendar as the proleptic seconds with the same label."""
    days = np.floor_divide(seconds, SECONDS_PER_DAY)
    moved = hybrid_to_proleptic(days)
    return seconds if moved is days else seconds + (moved - days) * SECONDS_PER_DAY


def is_utc(zone: str | None) -> bool:
    """Whether a stripe's writer time zone is UTC; a stripe that names none counts as UTC."""
    return zone is None or zone in _UTC_NAMES


def wall_clock(instants: Int64Array, zone: str, *, local_mean_time: bool = False) -> Int64Array:
    """Seconds since 1970 UTC as seconds of the zone's wall clock; with `local_mean_time` as `java.time` has it, which
    knows the sun's time before there were zones, else as `java.util` has it.

    Raises ValueError for an unknown zone, MissingDependencyError when there is no time zone database at all.
    """
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        if not _have_time_zones():
            raise MissingDependencyError(
                "the time zone database is missing, so timestamps of a writer outside UTC cannot be read",
                hint="Install the system package tzdata, or the Python package tzdata.",
            ) from error
        raise ValueError(f"time zone {zone!r} is unknown") from error
    local = pc.local_timestamp(pa.array(instants).cast(pa.timestamp("s", tz=zone)))
    result: Int64Array = np.array(local.cast(pa.int64()))
    ancient = instants < _YEAR_1900
    if ancient.any() and not local_mean_time:
        # Java's zones know no local mean time: before 1900 they take today's standard offset.
        result[ancient] = instants[ancient] + _standard_offset(zone)
    late = instants >= _YEAR_2037
    if late.any():
        # Arrow takes the transitions of the zone's file, which end in 2037, and not the rule that goes on.
        moments, places = np.unique(instants[late], return_inverse=True)
        offsets = np.array([_offset(moment, zone) for moment in moments.tolist()], dtype=np.int64)
        result[late] = instants[late] + offsets[places]
    return result


def _offset(moment: int, zone: str) -> int:
    offset = datetime.fromtimestamp(min(moment, _YEAR_9999), ZoneInfo(zone)).utcoffset()
    return int((offset or timedelta()).total_seconds())


def _standard_offset(zone: str) -> int:
    moment = datetime.fromtimestamp(ORC_EPOCH, ZoneInfo(zone))
    return int(((moment.utcoffset() or timedelta()) - (moment.dst() or timedelta())).total_seconds())


def zone_epoch(zone: str) -> int:
    """Seconds since 1970 UTC at which the zone's clock showed 2015-01-01 00:00:00."""
    guess = ORC_EPOCH
    for _ in range(2):
        shown = int(wall_clock(np.array([guess], dtype=np.int64), zone)[0])
        guess += ORC_EPOCH - shown
    return guess


def _have_time_zones() -> bool:
    try:
        ZoneInfo("Europe/Berlin")
    except (ZoneInfoNotFoundError, OSError):
        return False
    return True
