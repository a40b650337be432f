"""Whether the statistics and row indexes of a written file fit its rows: readers leave out what these rule out.

Statistics of every level have to hold those of the level below: of the file, its stripes, their row groups. Of some row
groups they are compared with the values themselves, as they are read back. Positions have to go forward in the streams
that they speak of; that they lead to the right rows, another ORC library shows (`secondopinion`).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import VerificationError
from acidctl.format.arrays import WIDE, flat
from acidctl.orc.codec import Compression
from acidctl.orc.postprocess import is_hybrid
from acidctl.orc.reader import OrcFile
from acidctl.orc.rowindex import IndexEntry, each_stripe, read_column_index, recorded
from acidctl.orc.stats import (
    BinaryStatistics,
    BucketStatistics,
    ColumnStatistics,
    DateStatistics,
    DecimalStatistics,
    DoubleStatistics,
    IntegerStatistics,
    StringStatistics,
    TimestampStatistics,
    stated_decimal,
)
from acidctl.orc.stripe import StripeFooter
from acidctl.orc.tail import OrcKind

# Of so many row groups one is compared with its values.
_SHARE = 8
_NANOS = 10**6
_BLANK = 0x20
Error = Callable[[str], VerificationError]


@dataclass(slots=True)
class _Values:
    """What was seen of one column in one row group: how many values, their bounds, their sum where one is kept."""

    rows: int = 0
    count: int = 0
    low: Any = None
    high: Any = None
    total: int = 0

    def add(self, array: pa.Array, kind: OrcKind) -> None:
        """Take the next values."""
        self.rows += len(array)
        if kind is OrcKind.UNION:
            # Those of the last child are NULL themselves (`orc.nesting`).
            self.count += int(np.count_nonzero(np.asarray(flat(array).type_codes) < array.type.num_fields - 1))
            return
        self.count += len(array) - array.null_count
        if array.null_count == len(array):
            return
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if kind is OrcKind.BOOLEAN:
            self.total += pc.sum(array).as_py()
        elif kind is OrcKind.BINARY:
            self.total += pc.sum(pc.binary_length(array)).as_py()
        elif (comparable := _comparable(array, kind)) is not None:
            bounds = pc.min_max(comparable).as_py()
            self._widen(bounds["min"], bounds["max"])

    def _widen(self, low: Any, high: Any) -> None:
        if low is None or low != low or high != high:
            return
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)


def _comparable(array: pa.Array, kind: OrcKind) -> pa.Array | None:
    """The values in the order of the column's statistics; None where they have no bounds, or none that are exact."""
    if kind in (OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT):
        if array.type.equals(WIDE) or not pa.types.is_timestamp(array.type):
            return None
        nanos = np.asarray(array.drop_null().cast(pa.int64()))
        return pa.array(nanos // _NANOS)
    if kind is OrcKind.DATE:
        return array.cast(pa.int32())
    if kind in (OrcKind.STRING, OrcKind.VARCHAR, OrcKind.CHAR):
        return array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
    if kind in _PLAIN:
        return array
    return None


_PLAIN = (
    OrcKind.BYTE,
    OrcKind.SHORT,
    OrcKind.INT,
    OrcKind.LONG,
    OrcKind.FLOAT,
    OrcKind.DOUBLE,
    OrcKind.DECIMAL,
)


@dataclass(slots=True)
class _Group:
    """A row group that is compared: its rows within the stripe, and what was seen of its columns by id."""

    start: int
    end: int
    columns: dict[int, _Values] = field(default_factory=dict)


@dataclass(slots=True)
class _Parts:
    """What statistics of the parts of a whole say together of one column; `count` and `total` None if one is silent."""

    count: int | None = 0
    has_null: bool = False
    total: int | None = 0
    low: Any = None
    high: Any = None

    def add(self, said: ColumnStatistics, bounds: tuple[Any, Any]) -> None:
        self.count = None if self.count is None or said.count is None else self.count + said.count
        self.has_null = self.has_null or bool(said.has_null)
        if not said.count:
            return
        total = _total(said)
        self.total = None if self.total is None or total is None else self.total + total
        low, high = bounds
        self.low = low if self.low is None or (low is not None and low < self.low) else self.low
        self.high = high if self.high is None or (high is not None and high > self.high) else self.high


class IndexCheck:
    """Takes the rows of a file in order, column by column, and judges a stripe when all of its rows have passed.

    `file` is another handle on the file. Of a judged stripe nothing is kept but what the whole is held against.
    """

    def __init__(self, orc: OrcFile, file: BinaryIO, error: Error) -> None:
        self._orc = orc
        self._file = file
        self._error = error
        self._kinds = [entry.kind for entry in orc.tail.types]
        # By its bytes: a path need not be UTF-8.
        self._chance = random.Random(os.fsencode(orc.name))
        self._statistics = each_stripe(file, orc.tail)
        self._whole: list[_Parts] | None = [_Parts() for _ in self._kinds]
        self._stripe = 0
        self._row = 0
        self._groups: dict[int, _Group] = {}

    def _chosen(self) -> dict[int, _Group]:
        """Of the next stripe the first row group, another one, and some more, by number."""
        rows = self._orc.tail.stripes[self._stripe].rows
        size = self._orc.tail.row_index_stride or rows
        count = -(-rows // size)
        chance = self._chance
        some = {0, *chance.sample(range(count), -(-count // _SHARE)), chance.randrange(min(1, count - 1), count)}
        return {number: _Group(number * size, min((number + 1) * size, rows)) for number in sorted(some)}

    def add(self, columns: Sequence[tuple[int, pa.Array]], count: int) -> None:
        """Take the next `count` rows, which lie in one stripe: (column id, values).

        VerificationError for the first statistics or positions of that stripe that do not fit.
        """
        if not self._row:
            self._groups = self._chosen()
        first, end = self._row, self._row + count
        for group in self._groups.values():
            start, stop = max(group.start, first), min(group.end, end)
            if start < stop:
                for column, array in columns:
                    values = group.columns.setdefault(column, _Values())
                    values.add(array.slice(start - first, stop - start), self._kinds[column])
        self._row = end
        if end == self._orc.tail.stripes[self._stripe].rows:
            self._judge()
            self._stripe, self._row = self._stripe + 1, 0

    def finish(self) -> None:
        """VerificationError for the first statistics of the file that do not fit those of its stripes."""
        for column, (above, parts) in enumerate(zip(self._orc.tail.statistics, self._whole or (), strict=False)):
            self._check_level(column, above, parts, "the file")

    def _judge(self) -> None:
        """The stripe whose rows have all passed."""
        tail, what = self._orc.tail, f"stripe {self._stripe}"
        footer = self._orc.stripe_footers()[self._stripe]
        statistics = next(self._statistics, ())
        if not statistics:
            self._whole = None
        for column in range(len(tail.types)):
            above = statistics[column] if statistics else None
            if above is not None and self._whole is not None:
                self._whole[column].add(above, self._bounds(column, above))
            entries = read_column_index(self._file, tail, footer, column).entries if tail.row_index_stride else None
            if entries is None:
                if above is not None and not tail.row_index_stride:
                    self._compare(column, above, self._groups[0], what)
                continue
            self._check_entries(column, footer, entries)
            parts = _Parts()
            for number, entry in enumerate(entries):
                said = entry.statistics
                if said is None:
                    continue
                parts.add(said, self._bounds(column, said))
                if number in self._groups:
                    self._compare(column, said, self._groups[number], f"row group {number} of {what}")
            if above is not None and all(entry.statistics is not None for entry in entries):
                self._check_level(column, above, parts, what)

    def _check_level(self, column: int, above: ColumnStatistics, parts: _Parts, what: str) -> None:
        """Statistics of the whole must hold what those of its parts say."""
        if above.count is not None and parts.count is not None and above.count != parts.count:
            raise self._wrong(column, what, f"count {above.count} values, those of its parts {parts.count}")
        if above.has_null is False and parts.has_null:
            raise self._wrong(column, what, "deny that it has NULLs")
        total = _total(above)
        if total is not None and parts.total is not None and total != parts.total:
            raise self._wrong(column, what, "have another sum than those of its parts")
        low, high = self._bounds(column, above)
        if (low is not None and parts.low is not None and parts.low < low) or (
            high is not None and parts.high is not None and parts.high > high
        ):
            raise self._wrong(column, what, "leave out values that its parts have")

    def _compare(self, column: int, said: ColumnStatistics, group: _Group, what: str) -> None:
        """Statistics of a row group against its values; what a writer left out claims nothing."""
        seen = group.columns.get(column)
        if seen is None:
            return
        if said.count is not None and said.count != seen.count:
            raise self._wrong(column, what, f"count {said.count} values, there are {seen.count}")
        if said.has_null is False and seen.count < seen.rows:
            raise self._wrong(column, what, "deny that it has NULLs")
        if not seen.count:
            return
        total = _total(said)
        if total is not None and self._kinds[column] in (OrcKind.BOOLEAN, OrcKind.BINARY) and total != seen.total:
            raise self._wrong(column, what, f"have the sum {total}, not {seen.total}")
        low, high = self._bounds(column, said)
        if seen.low is None:
            return
        if self._kinds[column] is OrcKind.CHAR:
            # A file may hold blanks at the end, which sort after a value that goes on with less than a blank.
            low = None if low is None or min(low, default=_BLANK) < _BLANK else low.rstrip(b" ")
            high = None if high is None or min(seen.high, default=_BLANK) < _BLANK else high.rstrip(b" ")
        if (low is not None and seen.low < low) or (high is not None and seen.high > high):
            raise self._wrong(column, what, f"say {low!r} to {high!r}, there are {seen.low!r} to {seen.high!r}")

    def _bounds(self, column: int, said: ColumnStatistics) -> tuple[Any, Any]:
        values = said.values
        if isinstance(values, DateStatistics | TimestampStatistics) and is_hybrid(self._orc.tail):
            return None, None  # in days of another calendar
        if isinstance(values, IntegerStatistics | DateStatistics):
            return values.minimum, values.maximum
        if isinstance(values, DoubleStatistics):
            bounds = values.minimum, values.maximum
            return (None, None) if any(b is None or b != b for b in bounds) else bounds
        if isinstance(values, TimestampStatistics):
            return values.minimum_utc, values.maximum_utc
        if isinstance(values, DecimalStatistics):
            return stated_decimal(values.minimum), stated_decimal(values.maximum)
        if isinstance(values, StringStatistics):
            low = values.minimum if values.minimum is not None else values.lower_bound
            high = values.maximum if values.maximum is not None else values.upper_bound
            return _text(low), _text(high)
        return None, None

    def _check_entries(self, column: int, footer: StripeFooter, entries: Sequence[IndexEntry]) -> None:
        """One entry for each row group, whose positions go forward from the beginning of the streams."""
        tail, stride, what = self._orc.tail, self._orc.tail.row_index_stride, f"stripe {self._stripe}"
        if len(entries) != -(-tail.stripes[self._stripe].rows // stride):
            raise self._wrong(column, what, f"are of {len(entries)} row groups")
        streams = {stream.kind: stream for stream in footer.streams if stream.column == column}
        kinds = recorded(self._kinds[column], footer.encodings[column].kind, nulls=0 in streams)
        place = 1 if tail.postscript.compression is Compression.NONE else 2
        sizes = [place + rest for _, rest in kinds]
        steps: list[list[tuple[int, ...]]] = [[] for _ in kinds]
        for entry in entries:
            if len(entry.positions) != sum(sizes):
                raise self._wrong(column, what, "come with positions of other streams")
            at = 0
            for step, size in zip(steps, sizes, strict=True):
                step.append(entry.positions[at : at + size])
                at += size
        for (kind, _), step in zip(kinds, steps, strict=True):
            length = streams[kind].length if kind in streams else 0
            backwards = any(one > other for one, other in pairwise(step))
            if any(step[0]) or backwards or step[-1][0] > length:
                raise self._wrong(column, what, f"come with positions that are not those of {kind.name}")

    def _wrong(self, column: int, what: str, how: str) -> VerificationError:
        return self._error(f"the statistics of column {column} for {what} {how}")


def _total(said: ColumnStatistics) -> int | None:
    """The sum that statistics keep of what adds up exactly."""
    if isinstance(said.values, BucketStatistics):
        return said.values.counts[0] if said.values.counts else None
    return said.values.sum if isinstance(said.values, BinaryStatistics) else None


def _text(text: str | None) -> bytes | None:
    """Bytes that compare as ORC compares them; None where the text is not what the file holds."""
    return None if text is None or "\ufffd" in text else text.encode("utf-8", "surrogatepass")
