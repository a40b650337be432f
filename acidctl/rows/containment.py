"""Are the rows of one set of files in another? Asked before files are given up, with memory that does not grow.

Both sides are streams in ROW__ID order, compared side by side, batch against batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace

from acidctl.errors import DamagedDataError
from acidctl.format.events import EventBatch, EventKeys, RowId
from acidctl.format.write_ids import ValidWriteIds
from acidctl.rows.merge import DeletedRows, Notice, Oddity
from acidctl.rows.pipeline import cores, ordered_map
from acidctl.rows.scan import LocationReader, finding_of_row, holders
from acidctl.rows.source import BATCH_ROWS, DataSource
from acidctl.values import dataclass


@dataclass(frozen=True, slots=True)
class Contained:
    """How many rows were looked for, and the first that is not there, with the file that holds it."""

    rows: int
    missing: RowId | None = None
    file: str = ""


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one side; `rows` less what the DELETE events in `deletes` remove."""

    rows: Sequence[DataSource]
    deletes: Sequence[DataSource] = field(default=())

    def of_bucket(self, bucket: int | None) -> Files:
        """Those that hold rows of a bucket by their names; a file's own name tells nothing of where deletes are."""
        return replace(self, rows=[source for source in self.rows if source.bucket_id == bucket])


def contained(wanted: Files, held: Files, write_ids: ValidWriteIds) -> Contained:
    """Look for each visible row of `wanted` among the visible rows of `held`, by ROW__ID, bucket by bucket.

    Each row may stand in several files of `wanted`. Where rows are updated in place (ACID version 1) `held` has to have
    its newest version or a later one. DamagedDataError where rows of one file are not in the order of
    their ids, where `held` has an id twice, and where a file of either side gives its rows no ids.
    """
    nameless = next((s.name for s in (*wanted.rows, *held.rows) if s.facts.rows and not s.has_row_ids), None)
    if nameless is not None:
        raise DamagedDataError(
            f"{nameless} tells no bucket by its name, so that its rows have no ROW__ID and cannot be compared",
            path=nameless,
        )
    buckets = {source.bucket_id for source in (*wanted.rows, *held.rows)}
    if None in buckets:
        return _contained(wanted, held, write_ids)
    total = 0
    for bucket in sorted(bucket for bucket in buckets if bucket is not None):
        found = _contained(wanted.of_bucket(bucket), held.of_bucket(bucket), write_ids)
        total += found.rows
        if found.missing is not None:
            return replace(found, rows=total)
    return Contained(total)


def not_removed(held: Files, write_ids: ValidWriteIds) -> RowId | None:
    """The first visible row among `held.rows` that a visible DELETE event in `held.deletes` names, bucket by bucket."""
    buckets = {source.bucket_id for source in held.rows}
    parts = [held] if None in buckets else [held.of_bucket(bucket) for bucket in buckets]
    for part in parts:
        deleted = LocationReader(part.rows, part.deletes, write_ids).deleted_rows(part.rows, updates=False)
        for batch in _merged(Files(part.rows), write_ids, once=False):
            named = deleted.mask(batch.keys)
            if named is not None and named.any():
                return batch.keys.select(named).at(0)
    return None


def events_contained(wanted: Sequence[DataSource], held: Sequence[DataSource], write_ids: ValidWriteIds) -> Contained:
    """Look for the newest visible event of each row of `wanted`, of whatever operation, among those of `held`."""
    return _contained(Files(_as_rows(wanted)), Files(_as_rows(held)), write_ids, once=False)


def _as_rows(sources: Sequence[DataSource]) -> list[DataSource]:
    """The same files, each event of which counts as a row."""

    def inserts(source: DataSource, events: Iterator[EventBatch]) -> Iterator[EventBatch]:
        for batch in events:
            yield EventBatch(replace(batch.keys, operation=None))

    return [source.seen_through(inserts) for source in sources]


def _contained(wanted: Files, held: Files, write_ids: ValidWriteIds, *, once: bool = True) -> Contained:
    looked_for = _merged(wanted, write_ids, once=False)
    versions = any(source.facts.may_update for source in wanted.rows)
    rows, missing = missing_key(looked_for, _merged(held, write_ids, once=once), versions=versions)
    return Contained(rows, missing, "" if missing is None else holders(wanted.rows, missing)[0].name)


def _merged(files: Files, write_ids: ValidWriteIds, *, once: bool) -> Iterator[EventBatch]:
    reader = LocationReader(files.rows, files.deletes, write_ids)
    merged = reader.merge(None, threads=False)
    merged.notice = _strict(files.rows, once=once)
    return iter(merged)


def _strict(sources: Sequence[DataSource], *, once: bool) -> Notice:
    def notice(oddity: Oddity, row: RowId) -> None:
        if once or oddity is Oddity.DISORDER:
            raise DamagedDataError(finding_of_row(oddity, row, sources).sentence)

    return notice


def is_renumbered(wanted: Files, held: Sequence[DataSource], write_ids: ValidWriteIds) -> bool:
    """Whether `held` has the form of a rebalancing compaction, and at least as many rows as are visible in `wanted`.

    Such a compaction numbers all rows from 0 on, over all write ids and buckets in their order. Writers begin anew with
    each of them, so that rows of one write and bucket alone prove nothing.
    """
    buckets = sorted({source.bucket_id for source in held if source.bucket_id is not None})
    if any(source.bucket_id is None for source in held):
        return False
    rows, writes = 0, set[tuple[int, int]]()
    for bucket in buckets:
        for batch in _merged(Files(held).of_bucket(bucket), write_ids, once=True):
            keys = batch.keys
            if (keys.at(0).row_id, keys.at(-1).row_id) != (rows, rows + len(keys) - 1):
                return False
            rows += len(keys)
            writes.update(keys.counts())
    if len(writes) < 2:
        return False
    asked = {source.bucket_id for source in wanted.rows}
    parts = [wanted] if None in asked else [wanted.of_bucket(bucket) for bucket in asked]
    return rows >= sum(_distinct(_merged(part, write_ids, once=False)) for part in parts)


def _distinct(batches: Iterable[EventBatch]) -> int:
    """How many different keys there are in batches in their order."""
    count, last = 0, None
    for batch in batches:
        keys = batch.keys
        count += len(keys) - int(keys.same_as_previous().sum()) - (last == keys.at(0))
        last = keys.at(-1)
    return count


def missing_key(
    wanted: Iterable[EventBatch], held: Iterator[EventBatch], *, versions: bool = False
) -> tuple[int, RowId | None]:
    """How many keys were looked for up to the first that `held` lacks, and that one; both are in ROW__ID order.

    Of each side one batch is in memory. A batch of `held` is kept until what is wanted lies behind its end, so that a
    key may be wanted more than once, but for `versions`: then `held` lacks a key of which it has an older version.
    """
    looked_for = 0
    batch: _Batch | None = None
    for events in wanted:
        keys = events.keys
        looked_for += len(keys)
        while len(keys):
            batch = batch or next((_Batch(found.keys) for found in held if len(found)), None)
            if batch is None:
                return looked_for, keys.at(0)
            here = keys.not_after(batch.last)
            absent = batch.first_absent(keys.select(slice(0, here)), versions=versions)
            if absent is not None:
                return looked_for, absent
            keys = keys.select(slice(here, None))
            if len(keys):
                batch = None
    return looked_for, None


class _Batch:
    """Keys of one batch, for looking others up in it."""

    def __init__(self, keys: EventKeys) -> None:
        self.last = keys.at(-1)
        self._keys = keys
        self._known: DeletedRows | None = None

    def first_absent(self, keys: EventKeys, *, versions: bool) -> RowId | None:
        """The first of these that is not here; with `versions`, or of which an older one is."""
        if not len(keys):
            return None
        # A set of keys that answers which of others are in it: what deletes need, too.
        if self._known is None:
            self._known = DeletedRows(self._keys)
        found = self._known.mask(keys)
        if found is None:
            return keys.at(0)
        if not found.all():
            return keys.select(~found).at(0)
        if not versions:
            return None
        here = DeletedRows(keys).mask(self._keys)
        assert here is not None
        same = self._keys.select(here)
        if len(same) != len(keys):
            return keys.at(0)  # a cover that holds a key twice cannot be trusted with it
        # Each side has each key once, so that these are the same keys in the same order.
        older = same.current < keys.current
        return keys.select(older).at(0) if older.any() else None


def read_whole(sources: Sequence[DataSource]) -> tuple[int, int]:
    """Decode every column of every row; the rows and bytes of the files. DamagedDataError for what cannot be decoded.

    Several files are read at a time, and of each one batch is held.
    """
    filled = [source for source in sources if source.facts.rows]
    rows = sum(ordered_map(_decoded, filled, workers=min(cores(), max(len(filled), 1))))
    return rows, sum(source.bytes for source in sources)


def _decoded(source: DataSource) -> int:
    with source.open() as file:
        if file is None:
            return 0
        return sum(len(batch) for batch in file.scan(batch_size=file.rows_per_batch(BATCH_ROWS)))
