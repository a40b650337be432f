"""Which stripes of a bucket's files go over into its new file as they are, and which rows are written anew.

A stripe can stay when every row of it does: none is deleted, hidden or of another bucket, no other file has rows
between its first and its last, and its file has the form of the new one (`orc.stitch`). Statistics say for which
stripes that may be so, and of those the key columns are read, so that what is copied is certain: bounds and key indexes
only choose. Whatever is in doubt is written anew. Between two stripes that are copied lies a stretch of keys that is
merged as in any other compaction.
"""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import field
from itertools import groupby
from random import Random
from typing import BinaryIO

import pyarrow as pa

from acidctl.compaction.plan import StripeCounts, WriterSettings
from acidctl.errors import DamagedDataError
from acidctl.fileformats.plain import RowFile
from acidctl.format.events import EventBatch, Int64Array, KeySpan, RowId, keys_of
from acidctl.format.names import BASE_PREFIX, DELTA_PREFIX, KEY_FIELDS
from acidctl.orc.acidmeta import KEY_INDEX, parse_key_index
from acidctl.orc.agreement import file_agrees
from acidctl.orc.arrow_writer import Physical
from acidctl.orc.protobuf import Budget, Message
from acidctl.orc.reader import OrcFile
from acidctl.orc.scan_check import StripesCheck
from acidctl.orc.stats import ColumnStatistics, StatisticsKind
from acidctl.orc.stitch import Obstacle, StoredStripe, claims, obstacle_of_file, obstacle_of_stripe
from acidctl.orc.tail import OrcType, Statistics, Tail
from acidctl.rows.merge import DeletedRows
from acidctl.rows.source import BATCH_ROWS, DataSource, Through
from acidctl.values import dataclass

# A stripe is small with fewer stored bytes and fewer rows than these. A base is read for long, so that each of its
# stripes has to be worth a read; those of a delta, about a row group, are put together by the next major compaction.
_SMALL_IN_BASE = 1 << 20, 1 << 16
_SMALL_IN_DELTA = 256 << 10, 10_000
#: Fewer bytes than this share of the stripes that are wanted are few in any case.
SMALL_SHARE = 16
#: So many values of a bucket are decoded before they are copied: all of a small table's, or a sample.
MOST_DECODED = 1 << 18
#: Files whose stripes are looked at, the largest ones: each stays open.
MOST_FILES = 256
_USUAL_STRIPE = WriterSettings().stripe_size
_MOST = 2**63 - 1
_LEAST, _GREATEST = RowId(-_MOST, 0, 0), RowId(_MOST, 0, 0)

# Why stripes are written anew, beside the obstacles of `orc.stitch`; the names are stable.
DELETED, HIDDEN, OVERLAP, EVENTS, SMALL = "deleted", "hidden", "overlap", "events", "small"


@dataclass(frozen=True, slots=True)
class CopiedStripe:
    """A stripe that stays as it is: where it lies, and what its key columns held when they were read.

    `counts` are its rows by write id and bucket property. Without keys (rows of an insert-only table) `first` and
    `last` are None.
    """

    source: DataSource
    tail: Tail
    index: int
    statistics: bytes
    first: RowId | None
    last: RowId | None
    counts: Mapping[tuple[int, int], int]

    @property
    def rows(self) -> int:
        """Its rows."""
        return self.tail.stripes[self.index].rows

    def stored(self, file: BinaryIO) -> StoredStripe:
        """Where it lies, by a handle on its file."""
        return StoredStripe(file, self.tail, self.index, self.statistics)


@dataclass(frozen=True, slots=True)
class CopyProof:
    """A stripe of a written file that was copied, by its number there, and its fingerprint as it passed, if it did
    (`orc.stitch`): else it is compared with its original, which `open` opens.
    """

    stripe: int
    fingerprint: str | None
    original: CopiedStripe
    open: Callable[[str], BinaryIO]


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is written anew between two copied stripes: stripes of some files, and of `others` the keys in `span`."""

    span: KeySpan
    stripes: Mapping[DataSource, range]
    others: Sequence[DataSource]


@dataclass(slots=True, eq=False)
class _File:
    """A file of which stripes may be copied, and of each why not (None: it may be); `taken` are dealt with."""

    source: DataSource
    orc: OrcFile
    statistics: tuple[bytes, ...]
    bounds: tuple[tuple[RowId, RowId], ...]
    reasons: list[str | None]
    #: The stripes with rows of the task.
    mine: range = range(0)
    taken: int = 0
    #: What was read of it in all scans together.
    check: StripesCheck = field(init=False)

    def __post_init__(self) -> None:
        self.check = StripesCheck(self.orc.tail, self._stated, self.orc.tail.types[0].subtypes[:-1])

    def _stated(self) -> Sequence[Statistics]:
        """The statistics of each stripe."""
        return [self.stated(index) for index in range(len(self.statistics))]

    def stated(self, index: int) -> Statistics:
        """The statistics of a stripe."""
        message = Message(self.statistics[index])
        return Statistics(self.orc.name, message.blobs(1), Budget(len(self.statistics[index])))

    def holds(self, index: int) -> bool:
        """Whether the stripe that was read last is this one, and is what its statistics say."""
        found = self.check.last(index)
        try:
            if found is not None:
                found.check_against(self.stated(index))
        except DamagedDataError:
            return False
        return found is not None

    @property
    def span(self) -> Bounds:
        """Bounds of all of its keys."""
        return min(low for low, _ in self.bounds), max(high for _, high in self.bounds)

    def size(self, index: int) -> int:
        """Stored bytes of a stripe."""
        stripe = self.orc.tail.stripes[index]
        return stripe.end - stripe.offset


@dataclass(slots=True)
class StripePlan:
    """The stripes of a task's files in the order of their keys; see `choose` and `pieces`.

    `output` is the path of the new file, `sizes` are the bytes of each file by its name, `span` the task's keys.
    `make_filter` gives what stands between a file and whoever reads its events; those of stripes that are copied are
    kept in `filters`.
    """

    types: Sequence[OrcType]
    physical: Physical
    output: str
    sizes: Mapping[str, int]
    deleted: DeletedRows
    span: KeySpan
    make_filter: Callable[[], Through]
    #: Whether all rows that are copied are decoded before.
    decode: bool = False
    filters: list[Through] = field(default_factory=list)
    counts: StripeCounts = field(default_factory=StripeCounts)
    #: The tail whose claims hold for the new file; None where nothing can be copied.
    like: Tail | None = None
    _files: list[_File] = field(default_factory=list)
    # Where those lie, ascending, which of them is dealt with, and the other files with where their keys may lie.
    _spans: list[Bounds] = field(default_factory=list)
    _place: int = 0
    _rest: list[DataSource] = field(default_factory=list)
    _others: Sequence[Bounds] = ()
    # Stripes whose rows are decoded before they are copied, by their file and number.
    _decoded: set[tuple[int, int]] = field(default_factory=set)
    _watched: list[StripesCheck | _Watched] = field(default_factory=list)
    _reasons: Counter[str] = field(default_factory=Counter)

    def choose(self, sources: Sequence[DataSource], stack: ExitStack) -> None:
        """Judge all stripes by what tails say; files that are needed further stay open as long as the stack."""
        for source in sorted(sources, key=lambda one: -self.sizes.get(one.name, 0)):
            if why := self._accept(source, stack):
                self._reasons[why] += source.facts.stripes
                self._rest.append(source)
        self._files.sort(key=lambda file: file.span)
        self._others = united(map(_bounds, self._rest))
        for file in self._files:
            self._judge(file)
        self._coalesce()
        if any(reason is None for file in self._files for reason in file.reasons):
            self.like = max(self._files, key=lambda file: file.orc.tail.file_length).orc.tail
            self._choose_decoded()
            self._watch(stack)

    def _accept(self, source: DataSource, stack: ExitStack) -> str | None:
        """Take a file in; else why none of its stripes is copied."""
        size, rows = self.sizes.get(source.name, 0), source.facts.rows
        if is_small(size, rows, self.output, self.physical.stripe_size) or len(self._files) >= MOST_FILES:
            return SMALL
        if not source.facts.is_acid or source.apart:
            return Obstacle.SCHEMA.value
        orc = stack.enter_context(source.open())
        if not isinstance(orc, OrcFile):
            return SMALL if orc is None else Obstacle.SCHEMA.value
        tail = orc.tail
        obstacle = obstacle_of_file(tail, self.types, self.physical)
        if obstacle is None and self._files and claims(tail) != claims(self._files[0].orc.tail):
            obstacle = Obstacle.WRITER
        statistics, bounds = orc.stripe_messages(), _stripe_bounds(orc)
        if obstacle is None and (len(statistics) != len(tail.stripes) or bounds is None):
            obstacle = Obstacle.STATISTICS
        if obstacle is not None:
            return obstacle.value
        assert bounds is not None
        file = _File(source, orc, statistics, bounds, [None] * len(bounds))
        if any_between(self._spans, *file.span):
            return OVERLAP
        if not file_agrees(tail, statistics):
            return Obstacle.STATISTICS.value
        insort(self._spans, file.span)
        met = [i for i, known in enumerate(bounds) if self.span.may_hold(*known)]
        file.mine = range(met[0], met[-1] + 1) if met else range(0)
        file.taken = file.mine.start
        self._files.append(file)
        opener, source.open = source.open, lambda: nullcontext(orc)
        stack.callback(setattr, source, "open", opener)
        return None

    def _judge(self, file: _File) -> None:
        footers = file.orc.stripe_footers()
        for index, known in enumerate(file.bounds):
            obstacle = obstacle_of_stripe(file.orc.tail, index, footers[index], file.statistics[index], self.physical)
            if index not in file.mine or not self._is_within(known):
                file.reasons[index] = OVERLAP
            elif obstacle is not None:
                file.reasons[index] = obstacle.value
            elif any_between(self._others, *known):
                file.reasons[index] = OVERLAP
            elif self.deleted.between(*known):
                file.reasons[index] = DELETED

    def _choose_decoded(self) -> None:
        """All, or some that are not many values, wherever they are."""
        chosen = [(i, j) for i, file in enumerate(self._files) for j in file.mine if file.reasons[j] is None]
        left = MOST_DECODED
        for place, index in Random(os.fsencode(self.output)).sample(chosen, len(chosen)):
            tail = self._files[place].orc.tail
            left -= tail.stripes[index].rows * len(tail.types)
            if left < 0 and not self.decode:
                break
            self._decoded.add((place, index))

    def _watch(self, stack: ExitStack) -> None:
        """Files are read in several scans: what these find is held against what each file says of all of its rows."""
        for file in self._files:
            file.orc.check = file.check
            self._watched.append(file.check)
        for source in self._rest:
            if source.facts.stripes > 1:
                opener, opened = source.open, _Watched(source.open)
                source.open = opened.open
                self._watched.append(opened)
                stack.callback(setattr, source, "open", opener)

    def _is_within(self, bounds: Bounds) -> bool:
        lower, upper = self.span.lower, self.span.upper
        return (lower is None or bounds[0] >= lower) and (upper is None or bounds[1] < upper)

    def _coalesce(self) -> None:
        """Small stripes stay only where what is beside them stays, and is not small itself."""
        others, stripes = self._others, [(file, index) for file in self._files for index in file.mine]
        sizes = [(file.size(index), file.orc.tail.stripes[index].rows) for file, index in stripes]
        small = [is_small(*size, self.output, self.physical.stripe_size) for size in sizes]
        # Whether rows of other files come before a stripe; after the last there may be some too.
        gaps = [True] * (len(stripes) + 1) if others else [False] * (len(stripes) + 1)
        for place in range(1, len(stripes)):
            (one, i), (two, j) = stripes[place - 1], stripes[place]
            gaps[place] = any_between(others, one.bounds[i][1], two.bounds[j][0])
        if stripes and others:
            (one, i), (two, j) = stripes[0], stripes[-1]
            gaps[0] = others[0][0] < one.bounds[i][0]
            gaps[-1] = others[-1][1] > two.bounds[j][1]
        goes = [file.reasons[index] is not None for file, index in stripes]
        for order in (range(len(stripes)), range(len(stripes) - 1, -1, -1)):
            for place in order:
                left = gaps[place] or (place > 0 and (goes[place - 1] or small[place - 1]))
                right = gaps[place + 1] or (place + 1 < len(goes) and (goes[place + 1] or small[place + 1]))
                goes[place] |= small[place] and (left or right)
        for (file, index), gone in zip(stripes, goes, strict=True):
            if gone and file.reasons[index] is None:
                file.reasons[index] = SMALL

    def anew(self) -> dict[DataSource, range | Sequence[int]]:
        """Of each file the stripes that are written anew, as far as known before keys are read."""
        found: dict[DataSource, range | Sequence[int]] = {source: range(source.facts.stripes) for source in self._rest}
        for file in self._files:
            found[file.source] = [index for index in file.mine if file.reasons[index] is not None]
        return {source: stripes for source, stripes in found.items() if stripes}

    def pieces(self) -> Iterator[CopiedStripe | Stretch]:
        """The new file from its first row to its last."""
        lower = self.span.lower
        for place, file in enumerate(self._files):
            wanted = (index for index in file.mine if file.reasons[index] is None)
            for run in adjacent(wanted):
                for copied in self._certain(file, run):
                    yield from self._stretch(KeySpan(lower, copied.first), place, copied.index)
                    file.taken = copied.index + 1
                    yield copied
                    assert copied.last is not None
                    lower = RowId(copied.last.write_id, copied.last.bucket_property, copied.last.row_id + 1)
        yield from self._stretch(KeySpan(lower, self.span.upper), len(self._files), 0)
        self.finish()

    def _stretch(self, span: KeySpan, place: int, index: int) -> Iterator[Stretch]:
        """What lies before a stripe of the file at `place`, or before the end, if anything; `span` ends there."""
        ranges = {}
        # Files of which stripes are copied do not overlap: they follow one another.
        for number in range(self._place, min(place + 1, len(self._files))):
            one = self._files[number]
            stop = index if number == place else one.mine.stop
            if one.taken < stop:
                ranges[one.source] = range(one.taken, stop)
                one.taken = stop
        self._place = place
        some = any_between(self._others, span.lower or _LEAST, span.upper or _GREATEST)
        others = [source for source in self._rest if some and span.may_hold(*source.bounds(updates=False))]
        if ranges or others:
            yield Stretch(span, ranges, others)

    def _certain(self, file: _File, run: range) -> Iterator[CopiedStripe]:
        """Those of some adjacent stripes whose keys show that they can be copied."""
        place = self._files.index(file)
        for index in set(run).difference(file.orc.agreeing(run, file.statistics)):
            file.reasons[index] = Obstacle.STATISTICS.value
        believed = (index for index in run if file.reasons[index] is None)
        for whole, group in groupby(believed, lambda index: (place, index) in self._decoded):
            for part in adjacent(group):
                rows = file.orc.rows_per_batch(BATCH_ROWS) if whole else BATCH_ROWS
                batches = iter(file.orc.scan(None if whole else KEY_FIELDS, batch_size=rows, stripes=part))
                for index in part:
                    events = _first_rows(batches, file.orc.tail.stripes[index].rows, file.orc.name)
                    found = self._checked(file, index, events)
                    if isinstance(found, str):
                        file.reasons[index] = found
                        continue
                    yield found

    def _checked(self, file: _File, index: int, events: Iterator[EventBatch]) -> CopiedStripe | str:
        """The stripe, of whose keys all are taken; else why it is not to be copied."""
        through, counts = self.make_filter(), Counter[tuple[int, int]]()
        first: RowId | None = None
        last: RowId | None = None
        plain, numbers = True, _RowNumbers()
        for batch in through(file.source, events):
            keys = batch.keys
            numbers.add(keys.row_id)
            plain &= keys.operation is None and bool((keys.current == keys.write_id).all())
            # Whether they ascend, the filter looks at; each id has to be there once.
            plain &= not keys.same_as_previous().any() and keys.at(0) != last
            first, last = first or keys.at(0), keys.at(-1)
            counts.update(keys.counts())
        tail = file.orc.tail
        if first is None or last is None or counts.total() != tail.stripes[index].rows:
            return HIDDEN
        if not plain:
            return EVENTS
        low, high = file.bounds[index]
        if first < low or high < last or not self._is_within((first, last)):
            # What was judged by these bounds was not judged rightly.
            return OVERLAP
        if self.deleted.between(first, last):
            return DELETED
        decoded = (self._files.index(file), index) in self._decoded
        if not _hold(file.stated(index), tail, counts, numbers) or (decoded and not file.holds(index)):
            return Obstacle.STATISTICS.value
        self.filters.append(through)
        return CopiedStripe(file.source, tail, index, file.statistics[index], first, last, counts)

    def finish(self) -> None:
        """Count what became of the stripes, when all have been dealt with.

        Raises DamagedDataError where what was read of a file contradicts what it says of all of its rows.
        """
        for one in self._watched:
            one.finish()
        reasons = self._reasons.copy()
        copied = copied_bytes = rows = decoded = 0
        for place, file in enumerate(self._files):
            for index in file.mine:
                reason = file.reasons[index]
                if reason is not None:
                    reasons[reason] += 1
                    continue
                copied, copied_bytes = copied + 1, copied_bytes + file.size(index)
                rows += file.orc.tail.stripes[index].rows
                decoded += file.orc.tail.stripes[index].rows if (place, index) in self._decoded else 0
        why = tuple(sorted(reasons.items()))
        self.counts = StripeCounts(copied, copied_bytes, rows, reasons.total(), why, decoded)


@dataclass(slots=True)
class _RowNumbers:
    """Those of some rows: the least, the greatest, and their sum."""

    low: int = _MOST
    high: int = -_MOST
    total: int = 0

    def add(self, row_ids: Int64Array) -> None:
        """Some more, which are not none."""
        self.low, self.high = min(self.low, int(row_ids.min())), max(self.high, int(row_ids.max()))
        self.total += int(row_ids.sum())


def _hold(
    stated: Sequence[ColumnStatistics], tail: Tail, counts: Mapping[tuple[int, int], int], numbers: _RowNumbers
) -> bool:
    """Whether the statistics of the key columns are those of inserts, so many of each write and bucket."""
    writes = [(write_id, rows) for (write_id, _), rows in counts.items()]
    buckets = [(bucket, rows) for (_, bucket), rows in counts.items()]
    write_id, bucket = (
        (min(values)[0], max(values)[0], sum(value * rows for value, rows in values)) for values in (writes, buckets)
    )
    read = (0, 0, 0), write_id, bucket, (numbers.low, numbers.high, numbers.total), write_id
    for column, figures in zip(tail.types[0].subtypes, read, strict=False):
        values = stated[column].of(StatisticsKind.INTEGER)
        if stated[column].count not in (None, sum(counts.values())):
            return False
        known = () if values is None else (values.minimum, values.maximum, values.sum)
        if any(one is not None and one != other for one, other in zip(known, figures, strict=False)):
            return False
    return True


class _Watched:
    """A file that is opened for each scan, all of which together are held against what it says."""

    def __init__(self, opener: Callable[[], AbstractContextManager[RowFile | None]]) -> None:
        self._opener = opener
        self._check: StripesCheck | None = None

    @contextmanager
    def open(self) -> Iterator[RowFile | None]:
        """As the opener does."""
        with self._opener() as orc:
            if isinstance(orc, OrcFile):
                if self._check is None:
                    keys = orc.tail.types[0].subtypes[:-1] if orc.is_acid else ()
                    self._check = StripesCheck(orc.tail, self._stated, keys)
                orc.check = self._check
            yield orc

    def _stated(self) -> Sequence[Sequence[ColumnStatistics]]:
        with self._opener() as orc:
            # Where stripes do not add up to the file, what they say tells nothing.
            if isinstance(orc, OrcFile) and file_agrees(orc.tail, orc.stripe_messages()):
                return orc.stripe_statistics()
        return ()

    def finish(self) -> None:
        """As `StripesCheck.finish`."""
        if self._check is not None:
            self._check.finish()


@dataclass(slots=True)
class PlainPlan:
    """The stripes of files without keys, which are put one behind the other: those of a file are copied all or none.

    `output` and `sizes` are those of a `StripePlan`; files of few bytes are not looked into.
    """

    types: Sequence[OrcType]
    physical: Physical
    output: str
    sizes: Mapping[str, int]
    #: Whether all rows that are copied are decoded before.
    decode: bool = False
    #: The tail whose claims hold for the new file; None where nothing can be copied.
    like: Tail | None = None
    counts: StripeCounts = field(default_factory=StripeCounts)
    _copied: dict[str, tuple[CopiedStripe, ...]] = field(default_factory=dict)
    # How many values may be decoded still.
    _left: int = MOST_DECODED

    def choose(self, sources: Sequence[DataSource]) -> None:
        """Judge the files by their tails and the footers of their stripes."""
        for source in sources:
            if is_small(self.sizes.get(source.name, 0), 0, self.output, self.physical.stripe_size):
                self.counts += StripeCounts(anew=1, reasons=((SMALL, 1),))
                continue
            with source.open() as orc:
                if not isinstance(orc, OrcFile) or not orc.rows:
                    continue
                why, stripes = self._obstacle(orc), orc.tail.stripes
                size = sum(stripe.end - stripe.offset for stripe in stripes)
                if why is not None:
                    found = StripeCounts(anew=len(stripes), reasons=((why, len(stripes)),))
                else:
                    self.like, messages = self.like or orc.tail, orc.stripe_messages()
                    self._copied[source.name] = tuple(
                        CopiedStripe(source, orc.tail, index, messages[index], None, None, {})
                        for index in range(len(stripes))
                    )
                    found = StripeCounts(len(stripes), size, orc.rows, decoded_rows=self._decoded(orc))
                self.counts += found

    def _decoded(self, orc: OrcFile) -> int:
        """Decode a file, if all are to be or it is small enough; its rows, if so. DamagedDataError where it lies."""
        values = orc.rows * len(orc.tail.types)
        if not self.decode and values > self._left:
            return 0
        self._left -= values
        return sum(map(len, orc.scan(batch_size=orc.rows_per_batch(BATCH_ROWS))))

    def _obstacle(self, orc: OrcFile) -> str | None:
        tail, count = orc.tail, len(orc.tail.stripes)
        if is_small(tail.file_length / count, orc.rows / count, self.output, self.physical.stripe_size):
            return SMALL
        messages = orc.stripe_messages()
        found = obstacle_of_file(tail, self.types, self.physical)
        if found is None and self.like is not None and claims(tail) != claims(self.like):
            found = Obstacle.WRITER
        if found is None and len(messages) != count:
            found = Obstacle.STATISTICS
        if found is None:
            parts = zip(orc.stripe_footers(), messages, strict=True)
            each = (
                obstacle_of_stripe(tail, index, footer, message, self.physical)
                for index, (footer, message) in enumerate(parts)
            )
            found = next((one for one in each if one is not None), None)
        if found is None and not file_agrees(tail, messages):
            found = Obstacle.STATISTICS
        if found is None and len(orc.agreeing(range(count), messages)) < count:
            found = Obstacle.STATISTICS
        return None if found is None else found.value

    def of(self, source: DataSource) -> tuple[CopiedStripe, ...]:
        """The stripes of a file that are copied: all, or none."""
        return self._copied.get(source.name, ())


Bounds = tuple[RowId, RowId]


def _bounds(source: DataSource) -> Bounds:
    """Between which keys those of a file lie, as far as known."""
    low, high = source.bounds(updates=False)
    if high is None and source.facts.is_acid and source.min_write_id is not None:
        # Rows of a delta are of its writes.
        high = RowId(source.max_write_id, _MOST, _MOST)
    return low or _LEAST, high or _GREATEST


def _stripe_bounds(orc: OrcFile) -> tuple[Bounds, ...] | None:
    """Bounds of the keys of each stripe: those of the statistics, narrowed by the key index where that fits them."""
    known = orc.stripe_key_ranges()
    found = tuple(bounds for bounds in known if bounds is not None)
    if not known or len(found) != len(known):
        return None
    try:
        ends = parse_key_index(orc.tail.metadata_value(KEY_INDEX) or b"")
    except (ValueError, UnicodeDecodeError):
        return found
    before: RowId | None = None
    narrowed = []
    for (low, high), end in zip(found, ends if len(ends) == len(found) else (None,) * len(found), strict=True):
        if end is None or not low <= end <= high or (before is not None and end <= before):
            return found
        begin = low if before is None else max(low, RowId(before.write_id, before.bucket_property, before.row_id + 1))
        narrowed.append((begin, end))
        before = end
    return tuple(narrowed)


def is_small(size: float, rows: float, output: str = DELTA_PREFIX, stripe_size: int = _USUAL_STRIPE) -> bool:
    """Whether a stripe, or a file, of so many stored bytes and rows is small in an output that is to have plain stripes
    of `stripe_size`.
    """
    least, few = _SMALL_IN_BASE if output.startswith(BASE_PREFIX) else _SMALL_IN_DELTA
    return size < min(least, stripe_size // SMALL_SHARE) and rows < few


def united(bounds: Iterable[Bounds]) -> list[Bounds]:
    """The same keys as stretches that do not overlap, ascending."""
    result: list[Bounds] = []
    for low, high in sorted(bounds):
        if result and low <= result[-1][1]:
            result[-1] = result[-1][0], max(result[-1][1], high)
        else:
            result.append((low, high))
    return result


def any_between(stretches: Sequence[Bounds], low: RowId, high: RowId) -> bool:
    """Whether one of the ascending stretches has a key between these, both inclusive."""
    place = bisect_left(stretches, low, key=lambda one: one[1])
    return place < len(stretches) and stretches[place][0] <= high


def adjacent(numbers: Iterable[int]) -> Iterator[range]:
    """Ascending numbers as ranges of adjacent ones."""
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in group]
        yield range(members[0], members[-1] + 1)


def _first_rows(batches: Iterator[pa.RecordBatch], rows: int, name: str) -> Iterator[EventBatch]:
    """So many rows of a scan, which has no batch across stripes."""
    while rows > 0 and (batch := next(batches, None)) is not None:
        rows -= len(batch)
        yield EventBatch(keys_of(batch, name=name))
