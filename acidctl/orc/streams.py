"""Single streams of a column, read stripe by stripe beside the C++ reader.

Arrow's arrays leave out two things that streams hold: nanoseconds of timestamps beyond its own range, and
which unions are NULL. `ColumnStream` hands out the values of one such stream in file order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from acidctl.format.events import WIDE
from acidctl.orc.calendar import ORC_EPOCH, is_utc, wall_clock, zone_epoch
from acidctl.orc.codec import CodecError
from acidctl.orc.input_file import Source
from acidctl.orc.protobuf import WireError
from acidctl.orc.rle import decode_bits, decode_v1, decode_v2
from acidctl.orc.stats import StatisticsKind
from acidctl.orc.stripe import EncodingKind, StreamKind, StripeFooter
from acidctl.orc.tail import OrcKind, Tail, damaged

_MAX_STREAM = 128 << 20
# What is held, expanded, of the streams that are read beside.
_FREE_BYTES, _BYTES_OF_A_BYTE = 32 << 20, 64


class ColumnStream:
    """The values of the PRESENT or the SECONDARY stream of a column: `start` begins a stripe, `take` goes on in it.

    PRESENT says which values are not NULL, and of a stripe without it none is; SECONDARY are the coded nanoseconds of
    each timestamp that is not NULL.
    """

    def __init__(self, source: Source, column: int, kind: StreamKind) -> None:
        self._source = source
        self._column = column
        self._kind = kind
        self._runs: Iterator[npt.NDArray[Any]] = iter(())
        self._empty: npt.NDArray[Any] = np.empty(0, np.bool_ if kind is StreamKind.PRESENT else np.uint64)
        self._rest = self._empty
        #: Whether the stripe has the stream at all.
        self.exists = False

    def start(self, footer: StripeFooter, most: int) -> int:
        """Begin a stripe; how many bytes are held of the stream, at most `most`."""
        stream = footer.stream(self._kind, self._column)
        self.exists = stream is not None
        data = b""
        if stream is not None and stream.length:
            try:
                data = self._source.expanded(stream, min(most, _MAX_STREAM))
            except CodecError as error:
                raise self._damaged(str(error)) from error
        second = footer.encodings[self._column].kind is EncodingKind.DIRECT_V2
        decode = decode_bits if self._kind is StreamKind.PRESENT else decode_v2 if second else decode_v1
        self._runs = decode(data)
        self._rest = self._empty
        return len(data)

    def take(self, count: int) -> npt.NDArray[Any]:
        """The next `count` values of the stripe; DamagedDataError when there are fewer."""
        parts = [self._rest]
        have = len(self._rest)
        try:
            while have < count:
                run = next(self._runs)
                parts.append(run)
                have += len(run)
        except StopIteration:
            raise self._damaged(f"its {self._kind.name} stream ends too early") from None
        except WireError as error:
            raise self._damaged(str(error)) from error
        values = np.concatenate(parts)
        self._rest = values[count:]
        return values[:count]

    def _damaged(self, why: str) -> Exception:
        return damaged(self._source.tail.name, f"has a damaged column {self._column}: {why}")


# --- Timestamps that Arrow's 64-bit nanoseconds cannot hold, decoded exactly.
#
# Arrow's ORC reader turns every timestamp into nanoseconds and gives up outside the years 1677 to 2262; pyorc goes
# through Python objects and cannot take a string that is not UTF-8 in the same row. So a wide column is read in two
# halves: our footer declares it bigint, which makes the C++ reader deliver the raw seconds at whatever depth of
# structs, lists and maps the column lies; its nanoseconds are decoded here from the SECONDARY stream. Both halves are
# columns, and the result is a struct<seconds: int64, nanos: int32>: seconds since 1970 (floor) of the wall clock, or of
# UTC for instants.


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
    values = statistics.of(StatisticsKind.TIMESTAMP)
    if not tail.row_index_stride or values is None:
        return True
    low = values.minimum if values.minimum_utc is None else values.minimum_utc
    high = values.maximum if values.maximum_utc is None else values.maximum_utc
    if low is None or high is None or not -_NARROW_MS < low <= high < _NARROW_MS:
        return True
    return foreign and (low < _YEAR_1902_MS or (low < _DAY_MS and high > -_DAY_MS))


class WideColumn:
    """The second half of one wide column: its nanoseconds, stripe by stripe, and the making of its values."""

    def __init__(self, source: Source, column: int) -> None:
        self._stream = ColumnStream(source, column, StreamKind.SECONDARY)
        self._name = source.tail.name
        self._instant = source.tail.types[column].kind is OrcKind.TIMESTAMP_INSTANT
        self._zone: str | None = None
        self._epoch = ORC_EPOCH

    def start(self, footer: StripeFooter, most: int) -> int:
        """Begin a stripe in a zone that exists; how many bytes are held of it, at most `most`."""
        self._zone = None if self._instant or is_utc(footer.time_zone) else footer.time_zone
        self._epoch = ORC_EPOCH if self._zone is None else zone_epoch(self._zone)
        return self._stream.start(footer, most)

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
            raise damaged(self._name, "has a timestamp column with impossible fractions")
        return nanos.astype(np.int64)


@dataclass(frozen=True, slots=True)
class ExtraStreams:
    """What is read beside the C++ reader, by column id: wide timestamps, and which unions are NULL."""

    wide: Mapping[int, WideColumn]
    unions: Mapping[int, ColumnStream]

    def start(self, footer: StripeFooter, stored: int) -> None:
        """Begin a stripe of a file of so many bytes; DamagedDataError when it has no room for such streams."""
        left = _FREE_BYTES + _BYTES_OF_A_BYTE * stored
        for timestamps in self.wide.values():
            left -= timestamps.start(footer, left)
        for presence in self.unions.values():
            left -= presence.start(footer, left)
