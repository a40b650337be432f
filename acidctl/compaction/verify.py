"""Whether a file holds what was meant to be written: read back from storage, before anything is published.

The whole file is read once by our reader: digest, counts, order, key index, statistics, types. A bounded sample of its
rows is then read by another ORC library, which must find the same values in them. A plan's effect on the location is
judged by `coverage.verify_selection`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import field, replace
from functools import partial
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.compaction.copies import check_copies
from acidctl.compaction.cross_check import HINT, OutputSample, wrong
from acidctl.compaction.stripes import CopiedStripe, CopyProof, adjacent
from acidctl.errors import DamagedDataError, VerificationError
from acidctl.format.bucket_codec import BucketCodecError, decode
from acidctl.format.events import WIDE, EventKeys, Operation, RowId, as_arrow, flat, keys_of
from acidctl.orc.acidmeta import ACID_STATS, ACID_VERSION, KEY_INDEX, parse_key_index
from acidctl.orc.codec import Compression
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.scan_check import extremes
from acidctl.orc.stats import ColumnStatistics, StatisticsKind, stated_decimal
from acidctl.orc.stitch import first_keys, stored_stripes
from acidctl.orc.stripe import IndexEntry, StripeFooter, each_stripe, read_column_index, recorded
from acidctl.orc.tail import Calendar, OrcKind
from acidctl.orc.writer import index_of
from acidctl.phases import timed
from acidctl.rows.opened import in_memory
from acidctl.rows.pipeline import read_ahead
from acidctl.types.digest import RowDigest
from acidctl.values import dataclass

_BATCH_ROWS = 32768
_VERSION = b"2"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a file must hold.

    `digest` is that of the rows as they were handed to the writer (`digest`): keys and columns, of delete events
    the keys alone.
    `counts` are (write id, bucket property, rows), in any order. `columns` is the text of a
    `struct<...>`. `operation` is that of every event; `collapsed` says that each row occurs once, with its own write id
    as the current one (a major compaction); else events of one row descend in their current write id. Without `acid`,
    rows have no keys: then `counts`, `operation`, `collapsed` and `bucket_id` do not matter. `metadata` is user
    metadata that must be there as it is. Stripes that are `copied` are compared byte for byte with their originals, or
    by fingerprints of those, so that their keys are those that were read there: only the first is read, which says that
    it is the stripe that is meant. No digest is of their rows.
    """

    rows: int
    digest: str
    columns: str
    counts: tuple[tuple[int, int, int], ...] = ()
    acid: bool = True
    operation: int = Operation.INSERT
    collapsed: bool = True
    bucket_id: int | None = None
    metadata: Mapping[str, bytes] = field(default_factory=dict)
    copied: tuple[CopyProof, ...] = ()


def verify_file(
    open_file: Callable[[], BinaryIO],
    name: str,
    expected: Expected,
    *,
    threads: bool = False,
    fingerprints: bool = False,
) -> tuple[str, ...]:
    """Read a written ORC file back and compare it with what it must hold; the `fingerprints` of its stripes, if wanted.

    `open_file` is called twice, or for a small file once, and in a thread again for stripes that were copied; `name` is
    shown. `threads` decodes ahead in one.
    VerificationError on the first difference; StorageError when the bytes cannot be read.
    """
    try:
        # The scan reads ahead in its own thread, and row indexes lie elsewhere: another handle.
        with ExitStack() as stack:
            file = stack.enter_context(open_file())
            stream = in_memory(file, name)
            beside = stack.enter_context(open_file()) if stream is file else in_memory(file, name)
            orc = open_orc(stream, name=name)
            _check_tail(orc, expected)
            content = _Content(orc, expected, beside)
            copies: Callable[[], tuple[str, ...]] = tuple
            if expected.copied or fingerprints:
                start = stack.enter_context(ThreadPoolExecutor(1)).submit
                copies = start(check_copies, open_file, orc, expected.copied, fingerprints=fingerprints).result
            with closing(content.batches(threads)) as batches:
                for batch in batches:
                    content.add(batch)
            content.finish()
            content.sample.require_same(beside)
            return copies()
    except DamagedDataError as error:
        if error.path != name:
            raise  # it is a source that is damaged
        raise VerificationError(f"{name} cannot be read back: {error.message}", path=name, hint=HINT) from error


def _check_tail(orc: OrcFile, expected: Expected) -> None:
    """What is checked without reading a row."""
    name, tail = orc.name, orc.tail
    if orc.is_acid is not expected.acid:
        raise wrong(name, "it has no columns of events" if expected.acid else "it has columns of events")
    if str(orc.columns) != expected.columns:
        raise wrong(name, f"its columns are {orc.columns}, not {expected.columns}")
    if orc.rows != expected.rows:
        raise wrong(name, f"it has {orc.rows} rows, not {expected.rows}")
    wanted = dict(expected.metadata)
    if expected.acid:
        deletes = expected.operation == Operation.DELETE
        counted = f"0,0,{expected.rows}" if deletes else f"{expected.rows},0,0"
        wanted |= {ACID_VERSION: _VERSION, ACID_STATS: counted.encode()}
    for key, value in wanted.items():
        found = tail.metadata_value(key)
        if found != value:
            raise wrong(name, f"its {key} is {_shown(found)}, not {_shown(value)}")
    keys = [key for key, _ in tail.user_metadata]
    if len(set(keys)) < len(keys):
        raise wrong(name, "a key of its user metadata occurs twice")
    if tail.calendar is not Calendar.PROLEPTIC_GREGORIAN:
        raise wrong(name, "it counts days by another calendar than the one that was written")
    if any(not stripe.rows for stripe in tail.stripes):
        raise wrong(name, "it has a stripe without rows")


def verify_joined(
    open_file: Callable[[], BinaryIO], name: str, expected: Expected, fingerprints: Sequence[str], ends: Sequence[RowId]
) -> None:
    """Read a file back that was put together of stripes whose rows were verified: their fingerprints and last keys.

    They have to be those, in this order, under a tail that fits them; errors as of `verify_file`. No row is decoded.
    """
    try:
        with open_file() as file, open_file() as other, ThreadPoolExecutor(1) as beside:
            orc = open_orc(file, name=name)
            _check_tail(orc, expected)
            # Hashing takes most of the time, and each half a core.
            stripes, half = stored_stripes(file, orc.tail), len(orc.tail.stripes) // 2
            later = beside.submit(lambda: [replace(one, file=other).fingerprint() for one in stripes[half:]])
            found = [one.fingerprint() for one in stripes[:half]] + later.result()
            if found != list(fingerprints):
                raise wrong(name, "its stripes are not those that it was put together of")
            _check_key_index(orc, ends)
            index = IndexCheck(orc, file, partial(wrong, name), whole=False)
            for _ in found:
                index.skip()
            index.finish()
    except DamagedDataError as error:
        raise VerificationError(f"{name} cannot be read back: {error.message}", path=name, hint=HINT) from error


def _shown(value: bytes | None) -> str:
    return "missing" if value is None else repr(value[:60].decode("ascii", "replace"))


class _Content:
    """Takes the batches of a file in order and finds the first thing that is wrong."""

    def __init__(self, orc: OrcFile, expected: Expected, beside: BinaryIO) -> None:
        self._orc = orc
        self._expected = expected
        self._digest = RowDigest()
        self._counts: dict[tuple[int, int], int] = {}
        self._last: tuple[int, int, int, int] | None = None
        self._ends: list[RowId] = []
        self._stripe = 0
        self._boundaries = np.cumsum([stripe.rows for stripe in orc.tail.stripes]).tolist()
        self._copied = {proof.stripe: proof.original for proof in expected.copied}
        self._heads = (keys for run in adjacent(self._copied) for keys in first_keys(orc.heads(beside), run))
        self._index = IndexCheck(orc, beside, partial(wrong, orc.name), whole=not self._copied)
        roots = orc.tail.types[0].subtypes
        self._key_ids = roots[1:5] if expected.acid else ()
        self._column_ids = orc.tail.types[roots[-1]].subtypes if expected.acid else roots
        self.sample = OutputSample(orc)
        self.rows = 0

    def batches(self, threads: bool) -> Generator[pa.RecordBatch, None, None]:
        """The batches to be taken: all rows but those of stripes that were copied."""
        batches = timed("verify", self._written_anew())
        yield from read_ahead(batches) if threads else batches

    def _written_anew(self) -> Iterator[pa.RecordBatch]:
        rows, count = self._orc.rows_per_batch(_BATCH_ROWS), len(self._orc.tail.stripes)
        for run in adjacent(i for i in range(count) if i not in self._copied):
            yield from self._orc.scan(batch_size=rows, stripes=run)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the next rows that were written anew, which lie in one stripe."""
        self._pass_copied()
        keys, columns = self._parts(batch)
        if keys is not None:
            self._add_keys(keys)
        self._digest.update(keys, columns)
        self.sample.keep(keys, columns, self.rows, len(batch))
        parts = list(zip(self._column_ids, columns, strict=False))
        if keys is not None:
            numbers = (keys.write_id, keys.bucket, keys.row_id, keys.current)
            parts += zip(self._key_ids, map(pa.array, numbers), strict=True)
        self._index.add(parts, len(batch))
        self.rows += len(batch)
        if self.rows == self._boundaries[self._stripe]:
            self._stripe += 1
            self._ends += [] if keys is None else [keys.at(-1)]

    def _pass_copied(self) -> None:
        """Go past the stripes that come next and were copied."""
        while (copied := self._copied.get(self._stripe)) is not None and self._stripe < len(self._boundaries):
            self.rows = self._boundaries[self._stripe]
            if copied.first is not None and copied.last is not None:
                self._add_copied(copied, copied.first, copied.last)
            self._index.skip()
            self._stripe += 1

    def _add_copied(self, copied: CopiedStripe, first: RowId, last: RowId) -> None:
        number = self._stripe
        key = next(self._heads)
        if key.at(0) != first or sum(copied.counts.values()) != self._orc.tail.stripes[number].rows:
            raise self._error(f"its stripe {number} is not the one that was to be copied there")
        self._check_order(key)
        for pair, rows in copied.counts.items():
            self._count(pair, rows)
        self._last = last.write_id, last.bucket_property, last.row_id, last.write_id
        self._ends.append(last)

    def finish(self) -> None:
        """What is checked of the whole file only."""
        self._pass_copied()
        expected = self._expected
        if self.rows != expected.rows:
            raise self._error(f"it holds {self.rows} rows, not {expected.rows}")
        if expected.acid:
            self._check_counts()
            _check_key_index(self._orc, self._ends)
        digest = self._digest.hexdigest()
        if digest != expected.digest:
            raise self._error(f"the digest of its rows is {digest}, not {expected.digest}")
        self._index.finish()

    def _error(self, what: str) -> VerificationError:
        return wrong(self._orc.name, what)

    def _parts(self, batch: pa.RecordBatch) -> tuple[EventKeys | None, tuple[pa.Array, ...]]:
        """Keys and columns of a batch; delete events must have no row, and all others one."""
        if not self._expected.acid:
            return None, tuple(batch.columns)
        keys = keys_of(batch, name=self._orc.name)
        row = batch.column("row")
        if self._expected.operation == Operation.DELETE:
            if row.null_count != len(row):
                raise self._error("a delete event of it has a row")
            return keys, ()
        if row.null_count:
            raise self._error("an event of it has no row")
        return keys, tuple(row.field(i) for i in range(row.type.num_fields))

    def _add_keys(self, keys: EventKeys) -> None:
        codes = keys.operation if keys.operation is not None else np.zeros(1, dtype=np.int64)
        if (codes != self._expected.operation).any():
            code = int(codes[codes != self._expected.operation][0])
            raise self._error(f"it holds an event with operation {code}, not {self._expected.operation}")
        self._check_order(keys)
        for pair, rows in keys.counts().items():
            self._count(pair, rows)

    def _count(self, pair: tuple[int, int], rows: int) -> None:
        """Rows of a write id and bucket property."""
        if pair not in self._counts:
            self._check_bucket(pair[1])
        self._counts[pair] = self._counts.get(pair, 0) + rows

    def _check_order(self, keys: EventKeys) -> None:
        """Keys ascend strictly; of events of one row the current write id descends strictly."""
        if self._last is None:
            write_id, bucket, row_id, current = keys.write_id, keys.bucket, keys.row_id, keys.current
        else:
            parts = zip(self._last, (keys.write_id, keys.bucket, keys.row_id, keys.current), strict=True)
            write_id, bucket, row_id, current = (np.concatenate(([last], values)) for last, values in parts)
        same = write_id[1:] == write_id[:-1]
        ascends = write_id[1:] > write_id[:-1]
        for values, down in ((bucket, False), (row_id, False), (current, True)):
            if down and self._expected.collapsed:
                break
            step = values[1:] < values[:-1] if down else values[1:] > values[:-1]
            ascends |= same & step
            same &= values[1:] == values[:-1]
        if not ascends.all():
            place = int(np.argmin(ascends))
            one, other = (RowId(int(write_id[i]), int(bucket[i]), int(row_id[i])) for i in (place, place + 1))
            how = "twice" if one == other else f"after {_key(one)}"
            raise self._error(f"its rows are not in order: {_key(other)} comes {how}")
        if self._expected.collapsed and (keys.current != keys.write_id).any():
            raise self._error("a row of it has another current write id than its own")
        self._last = int(write_id[-1]), int(bucket[-1]), int(row_id[-1]), int(current[-1])

    def _check_bucket(self, bucket_property: int) -> None:
        wanted = self._expected.bucket_id
        if wanted is None:
            return
        try:
            found = decode(bucket_property).bucket_id
        except BucketCodecError as error:
            raise self._error(f"a row of it has a bucket that says nothing: {error.message}") from error
        if found != wanted:
            raise self._error(f"it holds rows of bucket {found}, not only of {wanted}")

    def _check_counts(self) -> None:
        wanted = {(write_id, bucket): rows for write_id, bucket, rows in self._expected.counts if rows}
        for write_id, bucket in sorted({*wanted, *self._counts}):
            found, meant = (counts.get((write_id, bucket), 0) for counts in (self._counts, wanted))
            if found != meant:
                raise self._error(f"it holds {found} rows of write id {write_id} and bucket {bucket}, not {meant}")


def _check_key_index(orc: OrcFile, ends: Sequence[RowId]) -> None:
    """One entry per stripe: Hive 3 fails on fewer, and a wrong one brings deleted rows back."""
    name, value = orc.name, orc.tail.metadata_value(KEY_INDEX)
    if value is None:
        raise wrong(name, f"it has no {KEY_INDEX}")
    try:
        found = parse_key_index(value)
    except ValueError as error:
        raise wrong(name, f"its {KEY_INDEX} cannot be read: {error}") from error
    if len(found) != len(ends):
        raise wrong(name, f"its {KEY_INDEX} has {len(found)} keys for {len(ends)} stripes")
    for place, (stored, real) in enumerate(zip(found, ends, strict=True)):
        if stored != real:
            raise wrong(name, f"its {KEY_INDEX} has a wrong key for stripe {place}, which ends with {_key(real)}")
    # Old readers split the text themselves, so it is compared as a whole too.
    if value != index_of(ends):
        raise wrong(name, f"its {KEY_INDEX} is not spelled as Hive spells it")


def _key(key: RowId) -> str:
    return f"({key.write_id}, {key.bucket_property}, {key.row_id})"


# --- Whether the statistics and row indexes of a written file fit its rows: readers leave out what these rule out.

# Of so many row groups one is compared with its values.
_SHARE = 8
_NANOS = 10**6
_BLANK = 0x20
Error = Callable[[str], VerificationError]


@dataclass(slots=True)
class _Figures:
    """Values of one column, or what statistics say of them: how many, whether some are NULL, their sum where one is
    kept, and their bounds. None: not known.
    """

    count: int | None = 0
    has_null: bool | None = False
    total: int | None = 0
    low: Any = None
    high: Any = None

    @classmethod
    def stated(cls, statistics: ColumnStatistics, hybrid: bool) -> _Figures:
        """By a writer; in `hybrid` files days are those of another calendar."""
        values = statistics.values
        found = cls(statistics.count, statistics.has_null, None)
        if values is None or (hybrid and statistics.of(StatisticsKind.DATE, StatisticsKind.TIMESTAMP)):
            return found
        low, high = values.minimum, values.maximum
        match values.kind:
            case StatisticsKind.BOOLEAN | StatisticsKind.BINARY:
                found.total = values.sum
                return found
            case StatisticsKind.DOUBLE if any(bound is None or bound != bound for bound in (low, high)):
                return found
            case StatisticsKind.INTEGER | StatisticsKind.DATE | StatisticsKind.DOUBLE:
                pass
            case StatisticsKind.TIMESTAMP:
                low, high = values.minimum_utc, values.maximum_utc
            case StatisticsKind.DECIMAL:
                low, high = stated_decimal(low), stated_decimal(high)
            case StatisticsKind.STRING:
                low = _text(low if low is not None else values.lower_bound)
                high = _text(high if high is not None else values.upper_bound)
            case _:
                return found
        found.low, found.high = low, high
        return found

    @classmethod
    def of(cls, array: pa.Array, kind: OrcKind, *, bounds: bool = True) -> _Figures:
        """Of these values; without `bounds` they are only counted, and summed up where a sum is kept."""
        if kind is OrcKind.UNION:
            # Those of the last child are NULL themselves (`orc.nesting`).
            count = int(np.count_nonzero(np.asarray(flat(array).type_codes) < array.type.num_fields - 1))
            return cls(count, count < len(array), None)
        summed = kind in (OrcKind.BOOLEAN, OrcKind.BINARY)
        found = cls(len(array) - array.null_count, array.null_count > 0, 0 if summed else None)
        if not found.count or not (bounds or summed):
            return found
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if summed:
            found.total = pc.sum(array if kind is OrcKind.BOOLEAN else pc.binary_length(array)).as_py()
        elif (comparable := _comparable(array, kind)) is not None:
            least, greatest = extremes(comparable)
            if least == least and greatest == greatest:
                found.low, found.high = least, greatest
        return found

    def add(self, other: _Figures) -> None:
        """Those of more values."""
        self.count = None if self.count is None or other.count is None else self.count + other.count
        self.has_null = bool(self.has_null or other.has_null)
        if other.count == 0:
            return
        self.total = None if self.total is None or other.total is None else self.total + other.total
        self.low = other.low if self.low is None or (other.low is not None and other.low < self.low) else self.low
        self.high = (
            other.high if self.high is None or (other.high is not None and other.high > self.high) else self.high
        )


def _comparable(array: pa.Array, kind: OrcKind) -> pa.Array | None:
    """The values in the order of the column's statistics; None where they have no bounds, or none that are exact."""
    if kind in (OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT):
        if array.type.equals(WIDE) or not pa.types.is_timestamp(array.type):
            return None
        nanos = np.asarray(array.drop_null().cast(pa.int64()))
        return as_arrow(nanos // _NANOS)
    if kind is OrcKind.DATE:
        return array.cast(pa.int32())
    if kind in (OrcKind.STRING, OrcKind.VARCHAR, OrcKind.CHAR):
        return array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary())
    return array if kind in _PLAIN else None


_INTEGERS = (OrcKind.BYTE, OrcKind.SHORT, OrcKind.INT, OrcKind.LONG, OrcKind.DATE)
_PLAIN = (*_INTEGERS, OrcKind.FLOAT, OrcKind.DOUBLE, OrcKind.DECIMAL)


@dataclass(slots=True)
class _Group:
    """A row group that is compared: its rows within the stripe, and what was seen of its columns by id."""

    start: int
    end: int
    columns: dict[int, _Figures] = field(default_factory=dict)


class IndexCheck:
    """Takes the rows of a file in order, column by column, and judges a stripe when all of its rows have passed.

    `file` is another handle on the file. Of a judged stripe nothing is kept but what the whole is held against; without
    `whole` some stripes are skipped, so that their statistics count and their values do not.
    """

    def __init__(self, orc: OrcFile, file: BinaryIO, error: Error, *, whole: bool = True) -> None:
        self._orc = orc
        self._file = file
        self._seen_whole = whole
        self._error = error
        self._kinds = [entry.kind for entry in orc.tail.types]
        # By its bytes: a path need not be UTF-8.
        self._chance = random.Random(os.fsencode(orc.name))
        self._statistics = each_stripe(file, orc.tail)
        self._whole: list[_Figures] | None = [_Figures() for _ in self._kinds]
        self._stripe = 0
        self._row = 0
        self._groups: dict[int, _Group] = {}
        self._all: dict[int, _Figures] = {}
        # Columns whose statistics for the file are those that were compared for its stripe.
        self._settled: set[int] = set()

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
        only = self._groups[0] if count == self._groups[0].end == self._orc.tail.stripes[self._stripe].rows else None
        # Those of a whole file the scan compares, where there are row groups.
        bounds = only is not None or not self._orc.tail.row_index_stride
        for column, array in columns:
            seen = _Figures.of(array, self._kinds[column], bounds=bounds)
            self._all.setdefault(column, _blank(seen)).add(seen)
            if only is not None:
                only.columns[column] = seen
        for group in self._groups.values():
            start, stop = max(group.start, first), min(group.end, end)
            if start < stop and only is None:
                for column, array in columns:
                    seen = _Figures.of(array.slice(start - first, stop - start), self._kinds[column])
                    group.columns.setdefault(column, _blank(seen)).add(seen)
        self._row = end
        if end == self._orc.tail.stripes[self._stripe].rows:
            self._judge()
            self._stripe, self._row = self._stripe + 1, 0

    def skip(self) -> None:
        """Leave out the next stripe, which was not written anew."""
        known = next(self._statistics, ())
        if not known:
            self._whole = None
        for whole, statistics in zip(self._whole or (), known, strict=False):
            whole.add(self._stated(statistics))
        self._stripe += 1

    def finish(self) -> None:
        """VerificationError for the first statistics of the file that do not fit its values or those of its stripes."""
        for column, statistics in enumerate(self._orc.tail.statistics):
            if column in self._settled:
                continue
            stated = self._stated(statistics)
            if self._seen_whole:
                self._compare(column, stated, self._all.get(column), "the file")
            if self._whole is not None:
                self._compare(column, stated, self._whole[column], "the file", parts=True)

    def _stated(self, statistics: ColumnStatistics) -> _Figures:
        return _Figures.stated(statistics, self._orc.tail.is_hybrid)

    def _judge(self) -> None:
        """The stripe whose rows have all passed."""
        tail, what = self._orc.tail, f"stripe {self._stripe}"
        footer = self._orc.stripe_footers()[self._stripe]
        statistics = next(self._statistics, ())
        if not statistics:
            self._whole = None
        for column in range(len(tail.types)):
            above = self._stated(statistics[column]) if statistics else None
            if above is not None and self._whole is not None:
                self._whole[column].add(above)
            entries = read_column_index(self._file, tail, footer, column).entries if tail.row_index_stride else None
            if entries is None:
                if above is not None and not tail.row_index_stride:
                    self._compare(column, above, self._groups[0].columns.get(column), what)
                continue
            self._check_entries(column, footer, entries)
            if above is not None and entries and entries[0].statistics is statistics[column] and len(entries) == 1:
                # Those of the only row group, and if there is no other stripe, of the file.
                self._compare(column, above, self._groups[0].columns.get(column), f"row group 0 of {what}")
                if len(tail.stripes) == 1 and tail.statistics and tail.statistics[column] is statistics[column]:
                    self._settled.add(column)
                continue
            parts = _Figures()
            for number, entry in enumerate(entries):
                if entry.statistics is None:
                    above = None
                    continue
                stated = self._stated(entry.statistics)
                parts.add(stated)
                if number in self._groups:
                    seen = self._groups[number].columns.get(column)
                    self._compare(column, stated, seen, f"row group {number} of {what}")
            if above is not None:
                self._compare(column, above, parts, what, parts=True)

    def _compare(self, column: int, stated: _Figures, seen: _Figures | None, what: str, *, parts: bool = False) -> None:
        """Statistics against the values that they are of, or against those of all `parts` of the same values.

        What a writer left out claims nothing.
        """
        if seen is None:
            return
        if None not in (stated.count, seen.count) and stated.count != seen.count:
            others = f"those of its parts {seen.count}" if parts else f"there are {seen.count}"
            raise self._wrong(column, what, f"count {stated.count} values, {others}")
        if stated.has_null is False and seen.has_null:
            raise self._wrong(column, what, "deny that it has NULLs")
        if seen.count == 0:
            return
        if None not in (stated.total, seen.total) and stated.total != seen.total:
            other = "another sum than those of its parts" if parts else f"the sum {stated.total}, not {seen.total}"
            raise self._wrong(column, what, f"have {other}")
        low, high = stated.low, stated.high
        if self._kinds[column] is OrcKind.CHAR and not parts and seen.low is not None:
            # A file may hold blanks at the end, which sort after a value that goes on with less than a blank.
            low = None if low is None or min(low, default=_BLANK) < _BLANK else low.rstrip(b" ")
            high = None if high is None or min(seen.high, default=_BLANK) < _BLANK else high.rstrip(b" ")
        below = low is not None and seen.low is not None and seen.low < low
        if below or (high is not None and seen.high is not None and seen.high > high):
            values = f"say {low!r} to {high!r}, there are {seen.low!r} to {seen.high!r}"
            raise self._wrong(column, what, "leave out values that its parts have" if parts else values)

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


def _blank(figures: _Figures) -> _Figures:
    """No values, with a sum where these have one."""
    return _Figures(total=None if figures.total is None else 0)


def _text(text: str | None) -> bytes | None:
    """Bytes that compare as ORC compares them; None where the text is not what the file holds."""
    return None if text is None or "\ufffd" in text else text.encode("utf-8", "surrogatepass")
