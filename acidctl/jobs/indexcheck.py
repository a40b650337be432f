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

from acidctl.arrays import WIDE
from acidctl.errors import VerificationError
from acidctl.orc.codec import Compression
from acidctl.orc.finish import is_hybrid
from acidctl.orc.positions import recorded
from acidctl.orc.reader import OrcFile
from acidctl.orc.rowindex import IndexEntry, read_column_index
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
    doubtful: int = 0
    low: Any = None
    high: Any = None
    total: int = 0

    def add(self, array: pa.Array, kind: OrcKind) -> None:
        """Take the next values."""
        self.rows += len(array)
        self.count += len(array) - array.null_count
        if kind is OrcKind.UNION:
            # Arrow holds a NULL union as a union of NULL: one or the other was written.
            self.doubtful += pc.sum(pc.is_null(array)).as_py() or 0
            return
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
    """A row group that is compared: its rows in the file, and what was seen of its columns by id."""

    stripe: int
    number: int
    start: int
    end: int
    columns: dict[int, _Values] = field(default_factory=dict)


class IndexCheck:
    """Takes the rows of a file in order, column by column; `finish` judges."""

    def __init__(self, orc: OrcFile, error: Error) -> None:
        self._orc = orc
        self._error = error
        self._kinds = [entry.kind for entry in orc.tail.types]
        self._groups = self._chosen()
        self._next = 0

    def _chosen(self) -> list[_Group]:
        """In each stripe the first row group, another one, and some more."""
        # By its bytes: a path need not be UTF-8.
        chance = random.Random(os.fsencode(self._orc.name))
        stride, start = self._orc.tail.row_index_stride, 0
        found = []
        for index, stripe in enumerate(self._orc.tail.stripes):
            size = stride or stripe.rows
            count = -(-stripe.rows // size) if size else 0
            some = {0, *chance.sample(range(count), -(-count // _SHARE)), chance.randrange(min(1, count - 1), count)}
            for number in sorted(some):
                end = min((number + 1) * size, stripe.rows)
                found.append(_Group(index, number, start + number * size, start + end))
            start += stripe.rows
        return found

    def add(self, first: int, columns: Sequence[tuple[int, pa.Array]], count: int) -> None:
        """Take `count` rows from row `first` of the file on: (column id, values)."""
        while self._next < len(self._groups) and self._groups[self._next].end <= first:
            self._next += 1
        for group in self._groups[self._next :]:
            if group.start >= first + count:
                break
            start, stop = max(group.start, first) - first, min(group.end, first + count) - first
            for column, array in columns:
                values = group.columns.setdefault(column, _Values())
                values.add(array.slice(start, stop - start), self._kinds[column])

    def finish(self, stream: BinaryIO) -> None:
        """VerificationError for the first statistics or positions that do not fit."""
        orc, tail = self._orc, self._orc.tail
        per_stripe = orc.stripe_statistics()
        groups = {(group.stripe, group.number): group for group in self._groups}
        for column in range(len(tail.types)):
            stripes: list[ColumnStatistics] = []
            for index, footer in enumerate(orc.stripe_footers()):
                if per_stripe and per_stripe[index]:
                    stripes.append(per_stripe[index][column])
                above = stripes[-1] if stripes else None
                entries = read_column_index(stream, tail, footer, column).entries if tail.row_index_stride else None
                if entries is None:
                    whole = groups.get((index, 0))
                    if whole is not None and above is not None and not tail.row_index_stride:
                        self._compare(column, above, whole, f"stripe {index}")
                    continue
                self._check_entries(column, index, footer, entries)
                known = [entry.statistics for entry in entries if entry.statistics is not None]
                if above is not None and len(known) == len(entries):
                    self._check_level(column, above, known, f"stripe {index}")
                for number, entry in enumerate(entries):
                    group = groups.get((index, number))
                    if group is not None and entry.statistics is not None:
                        self._compare(column, entry.statistics, group, f"row group {number} of stripe {index}")
            if tail.statistics and len(stripes) == len(tail.stripes):
                self._check_level(column, tail.statistics[column], stripes, "the file")

    def _check_level(self, column: int, above: ColumnStatistics, parts: Sequence[ColumnStatistics], what: str) -> None:
        """Statistics of the whole must hold what those of its parts say."""
        counts = [part.count for part in parts]
        if above.count is not None and None not in counts and above.count != sum(c or 0 for c in counts):
            raise self._wrong(
                column, what, f"count {above.count} values, those of its parts {sum(c or 0 for c in counts)}"
            )
        if above.has_null is False and any(part.has_null for part in parts):
            raise self._wrong(column, what, "deny that it has NULLs")
        totals = [_total(part) for part in parts if part.count]
        if _total(above) is not None and None not in totals and _total(above) != sum(t or 0 for t in totals):
            raise self._wrong(column, what, "have another sum than those of its parts")
        low, high = self._bounds(column, above)
        for part in parts:
            least, most = self._bounds(column, part)
            if part.count and ((low, least) != (None, None) or (high, most) != (None, None)):
                outside = (low is not None and least is not None and least < low) or (
                    high is not None and most is not None and most > high
                )
                if outside:
                    raise self._wrong(column, what, "leave out values that its parts have")

    def _compare(self, column: int, said: ColumnStatistics, group: _Group, what: str) -> None:
        """Statistics of a row group against its values; what a writer left out claims nothing."""
        seen = group.columns.get(column)
        if seen is None:
            return
        if said.count is not None and not seen.count - seen.doubtful <= said.count <= seen.count:
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

    def _check_entries(self, column: int, stripe: int, footer: StripeFooter, entries: Sequence[IndexEntry]) -> None:
        """One entry for each row group, whose positions go forward from the beginning of the streams."""
        tail, stride = self._orc.tail, self._orc.tail.row_index_stride
        if len(entries) != -(-tail.stripes[stripe].rows // stride):
            raise self._wrong(column, f"stripe {stripe}", f"are of {len(entries)} row groups")
        streams = {stream.kind: stream for stream in footer.streams if stream.column == column}
        kinds = recorded(self._kinds[column], footer.encodings[column].kind, nulls=0 in streams)
        place = 1 if tail.postscript.compression is Compression.NONE else 2
        sizes = [place + rest for _, rest in kinds]
        steps: list[list[tuple[int, ...]]] = [[] for _ in kinds]
        for entry in entries:
            if len(entry.positions) != sum(sizes):
                raise self._wrong(column, f"stripe {stripe}", "come with positions of other streams")
            at = 0
            for step, size in zip(steps, sizes, strict=True):
                step.append(entry.positions[at : at + size])
                at += size
        for (kind, _), step in zip(kinds, steps, strict=True):
            length = streams[kind].length if kind in streams else 0
            backwards = any(one > other for one, other in pairwise(step))
            if any(step[0]) or backwards or step[-1][0] > length:
                raise self._wrong(column, f"stripe {stripe}", f"come with positions that are not those of {kind.name}")

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
