"""Timestamps that Arrow's 64-bit nanoseconds cannot hold, decoded exactly.

Arrow's ORC reader turns every timestamp into nanoseconds and gives up outside the years 1677 to 2262; pyorc
goes through Python objects and cannot take a string that is no UTF-8 in the same row. So a wide column is
read in two halves: the gate declares it bigint, which makes the C++ reader deliver the raw seconds at
whatever depth of structs, lists and maps the column lies; its nanoseconds are decoded here from the SECONDARY
stream. Both halves are columns, and the result is a struct<seconds: int64, nanos: int32>: seconds since 1970
(floor) of the wall clock, or of UTC for instants.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from acidctl.format.arrays import WIDE
from acidctl.orc.calendar import ORC_EPOCH, is_utc, wall_clock, zone_epoch
from acidctl.orc.stats import TimestampStatistics
from acidctl.orc.streams import SecondaryStream
from acidctl.orc.stripe import StripeFooter
from acidctl.orc.tail import OrcKind, Tail, damaged

_DAY_MS = 86_400_000
# What int64 nanoseconds hold, less two days for time zones and for the statistics' own rounding.
_NARROW_MS = (1 << 63) // 1_000_000 - 2 * _DAY_MS
_YEAR_1902_MS = -2_145_916_800_000


def wide_columns(tail: Tail, footers: tuple[StripeFooter, ...]) -> frozenset[int]:
    """The ids of the timestamp columns that have to take the exact path.

    All whose statistics are absent, untrustworthy or reach beyond what Arrow holds. For a writer outside UTC
    also those that reach where the C++ reader and Java disagree: before 1902, and within a day of 1970-01-01.
    And every one where the C++ reader has no time zone database, which it wants even for UTC.
    """
    blind = not have_zone_files()
    foreign = not all(is_utc(footer.time_zone) for footer in footers)
    return frozenset(
        column
        for column, entry in enumerate(tail.types)
        if entry.kind in (OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT)
        and (blind or _needs_exact(tail, column, foreign and entry.kind is OrcKind.TIMESTAMP))
    )


def have_zone_files() -> bool:
    """Whether the C++ reader finds its time zones; it looks nowhere else."""
    folder = os.environ.get("TZDIR") or "/usr/share/zoneinfo"
    return all(os.path.exists(os.path.join(folder, zone)) for zone in ("GMT", "UTC"))


def _needs_exact(tail: Tail, column: int, foreign: bool) -> bool:
    if not tail.statistics:
        return True
    statistics = tail.statistics[column]
    if statistics.count == 0:
        # Writers without a row index leave every count at zero, whatever the column holds.
        return not tail.row_index_stride
    values = statistics.values
    if not tail.row_index_stride or not isinstance(values, TimestampStatistics):
        return True
    low = values.minimum if values.minimum_utc is None else values.minimum_utc
    high = values.maximum if values.maximum_utc is None else values.maximum_utc
    if low is None or high is None or not -_NARROW_MS < low <= high < _NARROW_MS:
        return True
    return foreign and (low < _YEAR_1902_MS or (low < _DAY_MS and high > -_DAY_MS))


class WideColumn:
    """The second half of one wide column: its nanoseconds, stripe by stripe, and the making of its values."""

    def __init__(self, nanos: SecondaryStream) -> None:
        self._stream = nanos
        self._tail = nanos.tail
        self._instant = nanos.tail.types[nanos.column].kind is OrcKind.TIMESTAMP_INSTANT
        self._zone: str | None = None
        self._epoch = ORC_EPOCH

    def start(self, footer: StripeFooter, most: int) -> int:
        """Begin a stripe; how many bytes are held of it, at most `most`."""
        held = self._stream.start(footer, most)
        self._zone = None if self._instant or is_utc(footer.time_zone) else footer.time_zone
        self._epoch = ORC_EPOCH
        if self._zone is not None:
            try:
                self._epoch = zone_epoch(self._zone)
            except ValueError as error:
                raise damaged(self._tail.name, f"was written in a time zone that is none: {error}") from error
        return held

    def values(self, raw: pa.Array) -> pa.StructArray:
        """The wide values of raw seconds; NULL stays NULL."""
        valid = np.asarray(raw.is_valid())
        nanos = np.zeros(len(raw), dtype=np.int64)
        nanos[valid] = self._nanos(int(valid.sum()))
        with np.errstate(over="ignore"):
            seconds = np.asarray(raw.fill_null(0)) + self._epoch
            # Java's writer cuts towards zero and its reader takes a second off again, except below a
            # millisecond.
            seconds = seconds - ((seconds < 0) & (nanos > 999_999))
        if self._zone is not None:
            seconds = wall_clock(seconds, self._zone)
        return pa.StructArray.from_arrays(
            [pa.array(seconds), pa.array(nanos.astype(np.int32))], fields=list(WIDE), mask=pa.array(~valid)
        )

    def _nanos(self, count: int) -> npt.NDArray[np.int64]:
        coded = self._stream.take(count)
        # The low three bits count the trailing zeros that were cut, less one; 0 means none.
        zeros = (coded & np.uint64(7)).astype(np.int64)
        scale = np.where(zeros == 0, 1, 10 ** (zeros + 1)).astype(np.uint64)
        nanos = (coded >> np.uint64(3)) * scale
        if count and int(nanos.max()) > 999_999_999:
            raise damaged(self._tail.name, "has a timestamp column with impossible fractions")
        return nanos.astype(np.int64)
