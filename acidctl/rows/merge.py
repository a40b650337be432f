"""The merge engine: streams of events in, the rows that a reader sees out.

It takes event batches and the reader's write ids and knows nothing else: no files, no directories. Memory is bounded by
the deletes that apply and by one batch per overlapping stream, never by the data. The result does not depend on how the
input is cut into batches. Sources of the rules: Hive's `OrcRawRecordMerger.ReaderKey` (order, newest event wins) and
`VectorizedOrcAcidRowBatchReader` (row-level validity, delete events as a set of keys).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import partial
from threading import Lock, Thread

import numpy as np

from acidctl.errors import DamagedDataError
from acidctl.format.events import BoolArray, EventBatch, EventKeys, Int64Array, Operation, RowId
from acidctl.format.write_ids import ValidWriteIds
from acidctl.values import dataclass

_INT64_MAX = 2**63 - 1


def valid_mask(current: Int64Array, write_ids: ValidWriteIds) -> BoolArray | None:
    """Which events the reader may see, judged by their current write id; None means all of them."""
    if not len(current):
        return None
    low, high = int(current.min()), int(current.max())
    exceptions = write_ids.exceptions
    first = bisect_left(exceptions, low)
    excepted = first < len(exceptions) and exceptions[first] <= high
    if high <= write_ids.high_watermark and not excepted:
        return None
    mask: BoolArray = current <= write_ids.high_watermark
    if excepted:
        mask &= ~np.isin(current, np.asarray(exceptions[first:], dtype=np.int64))
    return mask


class DeletedRows:
    """The row ids that delete events removed, as sorted arrays: eight bytes a row in the usual case.

    Each (write id, bucket property) pair that has deletes gets a rank; a row id becomes `rank * span + row number`.
    Where that would overflow 64 bits, pairs are searched one by one instead.
    """

    def __init__(self, keys: EventKeys) -> None:
        self._write_ids: Int64Array = _distinct(keys.write_id)
        self._buckets: Int64Array = _distinct(keys.bucket)
        self._low = int(keys.row_id.min()) if len(keys) else 0
        self._span = int(keys.row_id.max()) - self._low + 1 if len(keys) else 1
        pairs = self._pair_numbers(keys)
        self._pairs: Int64Array = _distinct(pairs)
        rank = np.searchsorted(self._pairs, pairs).astype(np.int64)
        self._packed = len(self._pairs) * self._span <= _INT64_MAX
        if self._packed:
            self._codes: Int64Array = _distinct(rank * self._span + (keys.row_id - self._low))
        else:
            order = np.lexsort((keys.row_id, rank))
            self._codes = keys.row_id[order]
            self._starts = np.searchsorted(rank[order], np.arange(len(self._pairs) + 1))

    @classmethod
    def collect(cls, batches: Iterable[EventKeys], write_ids: ValidWriteIds) -> DeletedRows:
        """The rows removed by the DELETE events that this reader may see."""
        kept = []
        for keys in batches:
            if keys.operation is None:
                continue
            deletes: BoolArray = keys.operation == Operation.DELETE
            mask = valid_mask(keys.current, write_ids)
            if mask is not None:
                deletes &= mask
            # Which write deleted a row does not matter any more.
            kept.append(EventKeys(keys.write_id[deletes], keys.bucket[deletes], keys.row_id[deletes], _NONE))
        whole = EventKeys.concat(kept) if kept else EventKeys(_NONE, _NONE, _NONE, _NONE)
        kept.clear()
        return cls(whole)

    def __len__(self) -> int:
        return len(self._codes)

    def _pair_numbers(self, keys: EventKeys) -> Int64Array:
        """A number for each key's pair, -1 where its write id or bucket property has no deletes."""
        if not len(self._write_ids):
            return np.full(len(keys), -1, dtype=np.int64)
        writes = np.minimum(np.searchsorted(self._write_ids, keys.write_id), len(self._write_ids) - 1)
        buckets = np.minimum(np.searchsorted(self._buckets, keys.bucket), len(self._buckets) - 1)
        known = (self._write_ids[writes] == keys.write_id) & (self._buckets[buckets] == keys.bucket)
        return np.where(known, writes.astype(np.int64) * len(self._buckets) + buckets, -1)

    def between(self, first: RowId, last: RowId) -> int:
        """How many keys lie between two, both inclusive, whether there are such rows or not."""
        before = RowId(first.write_id, first.bucket_property, first.row_id - 1)
        return self._not_after(last) - self._not_after(before)

    def _not_after(self, key: RowId) -> int:
        """How many keys sort at or before this one."""
        if not len(self):
            return 0
        width = len(self._buckets)
        write = int(np.searchsorted(self._write_ids, key.write_id))
        bucket = int(np.searchsorted(self._buckets, key.bucket_property))
        same = write < len(self._write_ids) and self._write_ids[write] == key.write_id
        number = write * width + (bucket if same else 0)
        rank = int(np.searchsorted(self._pairs, number))
        known = same and bucket < width and self._buckets[bucket] == key.bucket_property
        if not (known and rank < len(self._pairs) and self._pairs[rank] == number):
            return int(np.searchsorted(self._codes, rank * self._span)) if self._packed else int(self._starts[rank])
        if self._packed:
            row = min(max(key.row_id - self._low, -1), self._span - 1)
            return int(np.searchsorted(self._codes, rank * self._span + row, side="right"))
        start, end = int(self._starts[rank]), int(self._starts[rank + 1])
        return start + int(np.searchsorted(self._codes[start:end], key.row_id, side="right"))

    def mask(self, keys: EventKeys) -> BoolArray | None:
        """Which of these rows are deleted; None means none of them."""
        if not len(self) or not len(keys):
            return None
        heads = keys.run_heads()
        numbers = self._pair_numbers(keys.select(heads))
        ranks = np.minimum(np.searchsorted(self._pairs, numbers), len(self._pairs) - 1).astype(np.int64)
        ranks[self._pairs[ranks] != numbers] = -1
        if (ranks < 0).all():
            return None
        lengths = np.diff(heads, append=len(keys))
        deleted = np.zeros(len(keys), dtype=np.bool_)
        if not self._packed:
            for head, length, rank in zip(heads, lengths, ranks, strict=True):
                if rank >= 0:
                    rows = self._codes[self._starts[rank] : self._starts[rank + 1]]
                    deleted[head : head + length] = np.isin(keys.row_id[head : head + length], rows)
            return deleted
        of_row = np.repeat(ranks, lengths)
        offset = keys.row_id - self._low
        candidates = np.flatnonzero((of_row >= 0) & (offset >= 0) & (offset < self._span))
        if not len(candidates):
            return None
        codes = of_row[candidates] * self._span + offset[candidates]
        hits = candidates[_members(codes, self._codes)]
        if not len(hits):
            return None
        deleted[hits] = True
        return deleted


def _distinct(values: Int64Array) -> Int64Array:
    """The distinct values in ascending order; sorted input, as delete files are, is not sorted again."""
    if len(values) < 2:
        return values
    if not (values[1:] >= values[:-1]).all():
        values = np.sort(values)
    first = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]


def _members(codes: Int64Array, known: Int64Array) -> Int64Array:
    """Positions in `codes` whose value is in the sorted `known`."""
    ascending = len(codes) < 2 or bool((codes[1:] > codes[:-1]).all())
    if not ascending:
        positions = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.flatnonzero(known[positions] == codes)
    # A sorted batch is searched for the deletes, not the deletes for the batch: there are fewer of them.
    nearby = known[np.searchsorted(known, codes[0]) : np.searchsorted(known, codes[-1], side="right")]
    positions = np.searchsorted(codes, nearby)
    found: Int64Array = positions[codes[positions] == nearby]
    return found


_NONE = np.zeros(0, dtype=np.int64)


class LaterDeletes:
    """Deletes that are collected when the first row is asked about, once for all threads that ask."""

    def __init__(self, collect: Callable[[], DeletedRows], *, at_once: bool = False) -> None:
        """With `at_once` a thread of its own collects them while the first rows are decoded."""
        self._collect = collect
        self._rows: DeletedRows | None = None
        self._lock, self._begun = Lock(), Lock()
        self._thread = Thread(target=self._ahead, name="acidctl-deletes", daemon=True) if at_once else None

    def begin(self) -> None:
        """Rows are about to be decoded."""
        if self._thread is not None and self._begun.acquire(blocking=False):
            self._thread.start()

    def _ahead(self) -> None:
        with suppress(Exception):  # who asks gets it
            self._collected()

    def end(self) -> None:
        """Leave no thread behind."""
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()

    def mask(self, keys: EventKeys) -> BoolArray | None:
        """Which of these rows are deleted; None means none of them."""
        return self._collected().mask(keys) if len(keys) else None

    def _collected(self) -> DeletedRows:
        with self._lock:
            if self._rows is None:
                self._rows = self._collect()
        return self._rows


@dataclass(frozen=True, slots=True)
class EventStream:
    """One sorted source of events.

    `lower` is a row id before which nothing in the stream sorts, or None when that is not known; a stream is not opened
    before the merge has come that far. `statement_id` breaks ties between events of one write (ACID version 1).
    """

    name: str
    open: Callable[[], Iterator[EventBatch]]
    lower: RowId | None = None
    statement_id: int = 0


def packed(
    streams: Sequence[EventStream], prepare: Callable[[], object] = lambda: None, *, in_order: bool = False
) -> EventStream:
    """Small streams as one that holds all their events at once, sorted; they have one statement id.

    With `in_order` they are merged as they would be without this, and may be of several. `prepare` is called before the
    first is opened.

    Thousands of small files that overlap would cost as many open files and, at each step of the merge, a look at each.
    """

    def events() -> Iterator[EventBatch]:
        prepare()
        parts = [list(stream.open()) for stream in streams]
        batches = [batch for part in parts for batch in part]
        if not batches:
            return
        if not in_order:
            yield _sorted(batches, None)
            return
        whole = EventBatch.concat(batches)
        if whole.keys.select(slice(1, None)).at_or_after(whole.keys.select(slice(None, -1))).all():
            yield whole
        else:
            again = zip(streams, parts, strict=True)
            yield from merge_sorted([replace(stream, open=partial(iter, part)) for stream, part in again])

    lowest = None if any(stream.lower is None for stream in streams) else min(s.lower for s in streams if s.lower)
    return EventStream(streams[0].name, events, lowest, streams[0].statement_id)


class Oddity(Enum):
    """What a merge may notice: two inserts of one row, or a row that comes after a later one."""

    DOUBLE = "double"
    DISORDER = "disorder"


#: What is done about an oddity at a row.
Notice = Callable[[Oddity, RowId], None]


@dataclass(slots=True)
class MergeReader:
    """The visible rows of one bucket, in ROW__ID order.

    `updates` says that the streams may hold UPDATE and DELETE events among the inserts (ACID version 1): then the
    newest visible event of a row wins. Without it every event is a row of its own, as in Hive's vectorised reader.
    After the reading `deletes_applied` says how many rows were removed by a DELETE event. `notice` is called with the
    first oddity of each batch. Which rows are wanted at all, `matching` says before deletes are looked up.
    """

    streams: Sequence[EventStream]
    write_ids: ValidWriteIds
    deleted: DeletedRows | LaterDeletes
    updates: bool = False
    notice: Notice | None = None
    matching: Callable[[Iterator[EventBatch]], Iterator[EventBatch]] = iter
    deletes_applied: int = 0

    def __iter__(self) -> Iterator[EventBatch]:
        merged = merge_sorted([replace(stream, open=partial(self._visible, stream)) for stream in self.streams])
        if self.updates:
            merged = self._newest_events(merged)
        elif self.notice is not None:
            merged = _watched(merged, self.notice)
        try:
            for batch in self.matching(merged):
                deleted = self.deleted.mask(batch.keys)
                if deleted is None:
                    yield batch
                    continue
                self.deletes_applied += int(np.count_nonzero(deleted))
                if not deleted.all():
                    yield batch.filter(~deleted)
        finally:
            if isinstance(self.deleted, LaterDeletes):
                self.deleted.end()

    def _newest_events(self, batches: Iterator[EventBatch]) -> Iterator[EventBatch]:
        """The first event of each key, unless it is a DELETE; keys may straddle batches."""
        for batch, first in _first_of_each(batches, EventKeys.same_as_previous):
            keep = first
            operation = batch.keys.operation
            if self.notice is not None and not first.all():
                _notice_double_inserts(batch.keys, first, self.notice)
            if operation is not None:
                keep = first & (operation != Operation.DELETE)
                self.deletes_applied += int(np.count_nonzero(first)) - int(np.count_nonzero(keep))
            if keep.all():
                yield batch
            elif keep.any():
                yield batch.filter(keep)

    def _visible(self, stream: EventStream) -> Iterator[EventBatch]:
        last: RowId | None = None
        for batch in stream.open():
            mask = valid_mask(batch.keys.current, self.write_ids)
            if self.updates and len(batch):
                check_order(batch.keys, last, stream.name)
                last = batch.keys.at(-1)
            elif batch.keys.operation is not None:
                rows = batch.keys.operation != Operation.DELETE
                mask = rows if mask is None else mask & rows
            kept = batch if mask is None else batch.filter(mask)
            if len(kept):
                yield kept


def _watched(batches: Iterator[EventBatch], notice: Notice) -> Iterator[EventBatch]:
    """The same batches; each row has to have a greater id than the one before it."""
    last: RowId | None = None
    for batch in batches:
        keys = batch.keys
        if len(keys):
            first = keys.at(0)
            if last is not None and first <= last:
                notice(Oddity.DOUBLE if first == last else Oddity.DISORDER, first)
            _notice_oddity(keys, notice)
            last = keys.at(-1)
        yield batch


def _notice_oddity(keys: EventKeys, notice: Notice) -> None:
    # Within a stretch of one write and bucket, which is nearly all of a batch, only row numbers are compared.
    odd = keys.row_id[1:] <= keys.row_id[:-1]
    # Whole batches mostly are of one, and comparing with one number costs half of comparing neighbours.
    if not ((keys.write_id == keys.write_id[0]).all() and (keys.bucket == keys.bucket[0]).all()):
        turns = keys.run_heads()[1:]
        odd[turns - 1] = ~keys.select(turns).at_or_after(keys.select(turns - 1))
    if odd.any():
        place = int(np.argmax(odd))
        double = keys.at(place) == keys.at(place + 1)
        notice(Oddity.DOUBLE if double else Oddity.DISORDER, keys.at(place + 1))


def _notice_double_inserts(keys: EventKeys, first: BoolArray, notice: Notice) -> None:
    """Of the events of one row all but one have to be updates or deletes (ACID version 1)."""
    double = ~first[1:]
    if keys.operation is not None:
        double &= (keys.operation[1:] == Operation.INSERT) & (keys.operation[:-1] == Operation.INSERT)
    if double.any():
        notice(Oddity.DOUBLE, keys.at(int(np.argmax(double)) + 1))


def check_order(keys: EventKeys, before: RowId | None, name: str) -> None:
    """Raise DamagedDataError when the keys go backwards; `before` is the last key of the batch before."""
    row = first_backwards(keys, before)
    if row is not None:
        raise DamagedDataError(
            f"{name} is not in ROW__ID order at {row.write_id},{row.bucket_property},{row.row_id},"
            " so its events cannot be merged.",
            path=name,
            hint="The file was not written by Hive's ACID writer; rewrite it in ROW__ID order.",
        )


def first_backwards(keys: EventKeys, before: RowId | None) -> RowId | None:
    """The first key that is less than the one before it, which is `before` for the first of the batch."""
    if before is not None and keys.at(0) < before:
        return keys.at(0)
    backwards = ~keys.select(slice(1, None)).at_or_after(keys.select(slice(None, -1)))
    return keys.at(int(np.argmax(backwards)) + 1) if backwards.any() else None


class _Cursor:
    """A stream being read; `batch` is what has been read of it and not been taken."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self.batch: EventBatch | None = None
        self._batches: Iterator[EventBatch] | None = None

    def advance(self) -> bool:
        """Load the next batch; False at the end."""
        if self._batches is None:
            self._batches = self.stream.open()
        self.batch = next(self._batches, None)
        return self.batch is not None

    def last(self) -> RowId:
        """The last key of the batch."""
        assert self.batch is not None
        return self.batch.keys.at(-1)

    def take(self, limit: RowId, *, whole: bool) -> EventBatch | None:
        """Remove and return the leading events at or before `limit` (all of them if `whole`)."""
        assert self.batch is not None
        count = len(self.batch) if whole else self.batch.keys.not_after(limit)
        taken = self.batch.slice(0, count) if count else None
        self.batch = self.batch.slice(count, len(self.batch)) if count < len(self.batch) else None
        return taken


def merge_sorted(streams: Sequence[EventStream]) -> Iterator[EventBatch]:
    """Events of all streams in key order, newest first within a key.

    Each round takes from every open stream what sorts at or before the smallest last key of their batches, so a round
    uses up one batch at least and no comparison runs per row. A lone stream passes its batches through untouched.
    """
    ordered = sorted(streams, key=lambda s: (s.lower is not None, s.lower or RowId(0, 0, 0)), reverse=True)
    waiting = [_Cursor(stream) for stream in ordered]
    active: list[_Cursor] = []
    while waiting or active:
        limit = min((cursor.last() for cursor in active), default=waiting[-1].stream.lower if waiting else None)
        # What may hold a key at or before the limit is opened first: its last key may be lower still.
        opened = False
        while waiting and _begins_by(waiting[-1].stream, limit):
            opened = True
            cursor = waiting.pop()
            if cursor.advance():
                active.append(cursor)
        if opened or limit is None:
            continue
        first = True
        parts: list[tuple[_Cursor, EventBatch]] = []
        for cursor in active:
            whole = first and cursor.last() == limit
            first = first and not whole
            taken = cursor.take(limit, whole=whole)
            if taken is not None:
                parts.append((cursor, taken))
        active = [c for c in active if c.batch is not None or c.advance()]
        if len(parts) == 1:
            yield parts[0][1]
        else:
            statements = np.asarray([cursor.stream.statement_id for cursor, _ in parts], dtype=np.int64)
            yield _sorted([part for _, part in parts], np.repeat(statements, [len(part) for _, part in parts]))


def _begins_by(stream: EventStream, limit: RowId | None) -> bool:
    return stream.lower is None or (limit is not None and stream.lower <= limit)


def _sorted(batches: Sequence[EventBatch], statements: Int64Array | None) -> EventBatch:
    """All events in key order; `statements` is None when all are of one statement."""
    batch = EventBatch.concat(batches)
    keys = batch.keys
    operation = np.zeros(len(keys), dtype=np.int64) if keys.operation is None else keys.operation
    # Within a key: newest write first, a DELETE before the event it answers, the later statement first.
    within = (-operation, -keys.current) if statements is None else (-statements, -operation, -keys.current)
    order = np.lexsort((*within, keys.row_id, keys.bucket, keys.write_id))
    if bool((order[1:] > order[:-1]).all()):
        return batch
    return batch.take(order.astype(np.int64))


def merge_events(streams: Sequence[EventStream]) -> Iterator[EventBatch]:
    """All events in key order, newest first; of events that agree in key and current write id only the first.

    This is what Hive's minor compaction keeps (`OrcRawRecordMerger` with `collapseEvents` off). Which events are
    visible, the streams have decided.
    """
    for batch, first in _first_of_each(merge_sorted(streams), repeats):
        if first.all():
            yield batch
        elif first.any():
            yield batch.filter(first)


def repeats(keys: EventKeys) -> BoolArray:
    same = keys.same_as_previous()
    same[1:] &= keys.current[1:] == keys.current[:-1]
    return same


def _first_of_each(
    batches: Iterator[EventBatch], repeats: Callable[[EventKeys], BoolArray]
) -> Iterator[tuple[EventBatch, BoolArray]]:
    """Each batch, and which of its events do not repeat the one before them, be it in an earlier batch."""
    last: EventKeys | None = None
    for batch in batches:
        if not len(batch):
            continue
        first = ~repeats(batch.keys)
        if last is not None:
            # Only the head of a batch can go on with the event that ended the one before.
            run = int(np.argmax(first[1:])) + 1 if first[1:].any() else len(batch)
            if repeats(EventKeys.concat([last, batch.keys.select(slice(0, 1))]))[1]:
                first[:run] = False
        last = batch.keys.select(slice(-1, None))
        yield batch, first
