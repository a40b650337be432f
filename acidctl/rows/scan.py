"""One location, read: its live files become event streams, and those the rows that a reader sees.

This is where paths, names and side files become streams of events, and where those are merged. A location is read
bucket by bucket; per bucket the inserts of base, deltas and originals are merged in ROW__ID order, and the deletes that
can concern them are held as sorted arrays. Files are opened when their turn comes. Which files are live is `state`'s
decision and never made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import field, replace
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from acidctl.errors import DamagedDataError
from acidctl.fileformats.plain import PlainFiles, RowFile
from acidctl.format.bucket_codec import BucketCodecError, decode, encode
from acidctl.format.events import EventBatch, EventKeys, KeySpan, Operation, RowId, coalesce
from acidctl.format.names import MIN_LONG, OriginalFile
from acidctl.format.write_ids import ValidWriteIds
from acidctl.orc.reader import OrcFile, scan_together
from acidctl.rows.merge import DeletedRows, EventStream, LaterDeletes, MergeReader, Notice, Oddity, packed
from acidctl.rows.opened import SMALL_BYTES, Opener
from acidctl.rows.pipeline import read_ahead
from acidctl.rows.predicate import Node
from acidctl.rows.projection import Fitting, Projection, events_of, names_of
from acidctl.rows.stripes import RawIds, matching_stripes, stripes_in, stripes_with_rows
from acidctl.state.entries import AcidState, EntryKind, StateEntry
from acidctl.state.inventory import by_bucket, data_files, live_entries
from acidctl.storage.port import Storage, join
from acidctl.types.hive_types import Dialect, StructType
from acidctl.values import dataclass

BATCH_ROWS = 65536
_READ_AHEAD_BATCHES = 4
_READ_AHEAD_FILES = 2
_LEAST_ROWS = 1024
_SMALL_PART = 16
_INT32_MIN = -(2**31)
# Small files that are read at once: the first few, then more at a time, up to so many.
_TOGETHER = (16, 64, 256)
_NO_COLUMNS = StructType(())


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Visible rows: `keys` is None where rows have no ROW__ID (insert-only tables)."""

    columns: tuple[pa.Array, ...]
    rows: int
    keys: EventKeys | None = None


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What the tail of a file says that planning needs; the file itself is closed again.

    The defaults are those of a file of which nothing was committed yet.
    """

    rows: int = 0
    is_acid: bool = True
    columns: StructType = _NO_COLUMNS
    lowest: RowId | None = None
    highest: RowId | None = None
    may_update: bool = False
    dialect: Dialect = Dialect.HIVE4
    stripes: int = 1

    @staticmethod
    def of(orc: RowFile) -> FileFacts:
        """Gather the facts; where the tail does not tell which operations occur, the operation column is read."""
        if not orc.is_acid:
            return FileFacts(orc.rows, False, orc.columns, dialect=orc.dialect, stripes=len(orc.stripe_rows))
        operations = orc.operations()
        if operations is None:
            operations = frozenset(
                code for batch in orc.scan(["operation"]) for code in batch.column(0).unique().to_pylist()
            )
        may_update = bool(operations - {Operation.INSERT})
        lowest, highest = orc.key_range() or (None, None)
        return FileFacts(orc.rows, True, orc.columns, lowest, highest, may_update, orc.dialect, len(orc.stripe_rows))


#: The events of a file in, those that go on out.
Through = Callable[["DataSource", Iterator[EventBatch]], Iterator[EventBatch]]


@dataclass(slots=True, eq=False)
class DataSource:
    """A live data file; its tail is read on first use and kept, its handle is not.

    Rows of a file without ACID columns get their identity from `raw_write_id`, `raw_bucket` and the rows of `before`,
    the file that precedes it in Hive's numbering; `raw_bucket` is None where the file name tells no bucket.
    `apart` says that no event of another file concerns its rows, although their ids may look alike. `through` stands
    between the file and whoever reads its events: it may look at them and leave some out. `path` is below the location.
    """

    name: str
    open: Callable[[], AbstractContextManager[RowFile | None]]
    bucket_id: int | None
    path: str = ""
    bytes: int = 0
    statement_id: int = 0
    min_write_id: int | None = None
    max_write_id: int = 0
    raw_write_id: int = 0
    raw_bucket: int | None = None
    apart: bool = False
    before: DataSource | None = None
    through: Through | None = None
    ready: tuple[Projection | None, EventBatch] | None = field(default=None, repr=False)
    _facts: FileFacts | None = field(default=None, repr=False)
    _offset: int | None = field(default=None, repr=False)
    _buckets: tuple[int, int] | None = field(default=None, repr=False)
    _ranges: tuple[tuple[RowId, RowId] | None, ...] | None = field(default=None, repr=False)

    @property
    def facts(self) -> FileFacts:
        """What the tail says."""
        if self._facts is None:
            with self.open() as orc:
                self._facts = FileFacts() if orc is None else FileFacts.of(orc)
        return self._facts

    @property
    def row_offset(self) -> int:
        """Row number of the first row, for a file without ACID columns."""
        later = []
        source = self
        while source._offset is None and source.before is not None:
            later.append(source)
            source = source.before
        offset = source._offset or 0
        while later:
            offset += source.facts.rows
            source = later.pop()
            source._offset = offset
        return offset

    @property
    def has_row_ids(self) -> bool:
        """Whether its rows have a ROW__ID."""
        return self.facts.is_acid or self.raw_bucket is not None

    def known(self, facts: FileFacts, offset: int) -> DataSource:
        """The same file of which another process has found this; it is not asked again."""
        self._facts, self._offset = facts, offset
        return self

    def stripes(self) -> tuple[tuple[RowId, RowId, int] | None, ...]:
        """Least and greatest row id, and bytes (roughly), of each stripe; None where statistics do not tell."""
        with self.open() as file:
            if file is None:
                return ()
            rows = file.stripe_rows
            sizes = [self.bytes * count // max(self.facts.rows, 1) for count in rows]
            if self.facts.is_acid:
                bounds = self._key_ranges(file)
                return tuple(bound and (*bound, size) for bound, size in zip(bounds, sizes, strict=True))
            ids = [RowId(self.raw_write_id, self.raw_bucket or 0, n) for n in accumulate(rows, initial=self.row_offset)]
            return tuple((*pair, size) for pair, size in zip(pairwise(ids), sizes, strict=True))

    def _key_ranges(self, file: RowFile) -> tuple[tuple[RowId, RowId] | None, ...]:
        if self._ranges is None:
            self._ranges = file.stripe_key_ranges()
        return self._ranges

    def is_wide(self) -> bool:
        """Whether a timestamp column has values that nanoseconds since 1970 may not hold."""
        with self.open() as orc:
            return orc is not None and orc.is_wide()

    def bounds(self, *, updates: bool) -> tuple[RowId | None, RowId | None]:
        """First and last row id as far as known without reading rows."""
        facts = self.facts
        if not facts.is_acid and self.raw_bucket is not None:
            first = RowId(self.raw_write_id, self.raw_bucket, self.row_offset)
            return first, RowId(self.raw_write_id, self.raw_bucket, self.row_offset + max(facts.rows, 1) - 1)
        if facts.lowest is None and self.min_write_id is not None and not updates:
            # Inserts carry a write id of their delta (ACID v2); in v1 an update carries the row's old one.
            return RowId(self.min_write_id, _INT32_MIN, 0), None
        return facts.lowest, facts.highest

    def events(
        self,
        projection: Projection | None,
        batch_rows: int,
        span: KeySpan | None = None,
        stripes: range | None = None,
    ) -> Iterator[EventBatch]:
        """The file as event batches: keys, and the projected columns fitted to the reader's types.

        With a span just the events in it. Stripes that hold none, or no row that matches the projection's condition,
        are not read, as far as their statistics tell. Of an ACID file `stripes` are the only ones that are read.
        """
        events = self._stored_events(projection, batch_rows, span, stripes)
        return events if self.through is None else self.through(self, events)

    def _stored_events(
        self, projection: Projection | None, batch_rows: int, span: KeySpan | None, stripes: range | None
    ) -> Iterator[EventBatch]:
        ready, self.ready = self.ready, None
        if ready is not None and ready[0] is projection and span is None and stripes is None:
            yield ready[1]
            return
        with self.open() as orc:
            if orc is None:
                return
            wanted = None if projection is None else Fitting(self.facts.columns, projection)
            places = () if wanted is None else wanted.places
            if places:
                batch_rows = orc.rows_per_batch(batch_rows)
            where = None if projection is None else projection.where
            if not self.facts.is_acid:
                yield from self._raw_events(orc, wanted, batch_rows, span, where)
                return
            if stripes is None and span is not None:
                stripes = stripes_in(self._key_ranges(orc), span)
            for part in self._parts(orc, wanted, where, stripes):
                for batch in orc.scan(names_of(wanted), batch_size=batch_rows, fields=places, stripes=part):
                    events = events_of(batch, wanted, self.name)
                    inside = None if span is None else span.mask(events.keys)
                    yield events if inside is None else events.filter(inside)

    def _parts(
        self, orc: RowFile, wanted: Fitting | None, where: Node | None, stripes: range | None
    ) -> Iterator[range | None]:
        """The stripes to read, in runs; None is all."""
        if where is None or wanted is None:
            yield stripes
            return
        raw = None if self.facts.is_acid else RawIds(self.raw_write_id, self.raw_bucket, self.row_offset)
        yield from matching_stripes(orc, where, wanted.place_of, raw, stripes)

    def _raw_events(
        self, orc: RowFile, wanted: Fitting | None, batch_rows: int, span: KeySpan | None, where: Node | None
    ) -> Iterator[EventBatch]:
        first, last = self._rows_in(span)
        if wanted is None:
            for start in range(first, last, batch_rows):
                yield EventBatch(self._keys_from(start, min(batch_rows, last - start)))
            return
        stripes = None
        if span is not None:
            stripes = stripes_with_rows(orc, first - self.row_offset, last - self.row_offset)
        for part in self._parts(orc, wanted, where, stripes):
            at = self.row_offset + sum(orc.stripe_rows[: part.start] if part else ())
            for batch in orc.scan(batch_size=batch_rows, fields=wanted.places, stripes=part):
                events = EventBatch(self._keys_from(at, len(batch)), wanted.fitted(batch.columns, len(batch)))
                start, stop = max(first - at, 0), min(last - at, len(batch))
                at += len(batch)
                if start < stop:
                    yield events if (start, stop) == (0, len(batch)) else events.slice(start, stop)

    def _rows_in(self, span: KeySpan | None) -> tuple[int, int]:
        """Row numbers of the rows of a file without ACID columns that lie in the span, the second exclusive."""
        begin, end = self.row_offset, self.row_offset + self.facts.rows

        def place(bound: RowId | None, unbound: int) -> int:
            """The first row at or after a bound."""
            if bound is None:
                return unbound
            own, other = (self.raw_write_id, self.raw_bucket or 0), (bound.write_id, bound.bucket_property)
            return min(max(begin, bound.row_id), end) if own == other else end if own < other else begin

        return (begin, end) if span is None else (place(span.lower, begin), place(span.upper, end))

    @property
    def buckets(self) -> tuple[int, int] | None:
        """Lowest and highest bucket property of an ACID file, as far as known."""
        low, high = self.facts.lowest, self.facts.highest
        return self._buckets if low is None or high is None else (low.bucket_property, high.bucket_property)

    def delete_keys(self, span: KeySpan | None = None) -> Iterator[EventKeys]:
        """The keys, all or those in a span.

        Which buckets all of them are of is remembered, so that other buckets need not read them again.
        """
        spans = []
        for batch in self.events(None, BATCH_ROWS, span):
            if len(batch):
                spans.append((int(batch.keys.bucket.min()), int(batch.keys.bucket.max())))
                yield batch.keys
        if spans and span is None:
            self._buckets = min(low for low, _ in spans), max(high for _, high in spans)

    def _keys_from(self, first: int, count: int) -> EventKeys:
        write_id = np.full(count, self.raw_write_id, dtype=np.int64)
        bucket = np.full(count, self.raw_bucket or 0, dtype=np.int64)
        return EventKeys(write_id, bucket, np.arange(first, first + count, dtype=np.int64), write_id)


def live_sources(
    storage: Storage, root: str, state: AcidState, plain: PlainFiles | None = None
) -> tuple[tuple[DataSource, ...], tuple[DataSource, ...]]:
    """The files with rows and those with deletes that a reader opens; empty ones without a side file hold neither.

    `plain` opens files of an insert-only table that may not be ORC; without it they must be.
    """
    inserts: list[DataSource] = []
    deletes: list[DataSource] = []
    opener = Opener(storage, root, plain if state.insert_only else None)
    for entry in live_entries(state):
        target = deletes if entry.kind is EntryKind.DELETE_DELTA else inserts
        target += _sources(opener, state, entry)
    return tuple(inserts), tuple(deletes)


def _sources(opener: Opener, state: AcidState, entry: StateEntry) -> Iterator[DataSource]:
    """The sources of one directory; files that number their rows together know those before them."""
    files = {file.info.path: file for file in data_files(entry, insert_only=state.insert_only) if file.has_rows}
    write_id = entry.max_write_id if entry.min_write_id is None else entry.min_write_id
    statement_id = entry.statement_id or 0
    for bucket_id, group in by_bucket(file.info for file in files.values()).items():
        bucket = None
        if bucket_id is not None and not state.insert_only:
            # Plain in Hive 2; None where the name tells none that fits.
            with suppress(BucketCodecError):
                bucket = encode(bucket_id, statement_id, version=0 if state.acid_v1 else 1)
        before: DataSource | None = None
        numbered = False
        for info in group:
            parsed = files[info.path].parsed
            named_original = isinstance(parsed, OriginalFile)
            # Hive 2 knows no bucket of a copy, so that no event can name its rows (HIVE-16177 came later).
            strange = state.acid_v1 and isinstance(parsed, OriginalFile) and parsed.copy_number is not None
            source = DataSource(
                name=opener.storage.display(join(opener.root, info.path)),
                open=partial(opener.open, files[info.path], state.insert_only),
                bucket_id=bucket_id,
                path=info.path,
                bytes=info.size,
                min_write_id=entry.min_write_id,
                max_write_id=MIN_LONG if entry.max_write_id is None else entry.max_write_id,
                statement_id=statement_id,
                raw_write_id=write_id or 0,
                raw_bucket=-1 if strange else bucket,
                # Hive 2 numbers the rows of a bucket's second file as those of the first: no row may hide another.
                apart=strange or (state.acid_v1 and numbered and named_original),
                before=before,
            )
            numbered |= named_original and not strange
            # Hive 2 counts the rows of each file from 0.
            before = None if state.acid_v1 else source
            yield source


@dataclass(frozen=True, slots=True)
class Group:
    """Files of a location that are read together, or with a `span` those of their rows that lie in it.

    `merged` is False for a file whose rows have no ids; a span then counts them by `row_offset`. `updates` says that
    the newest event of a row counts, as in ACID version 1. `deleted` is known where spans of a group share it.
    """

    sources: tuple[DataSource, ...]
    merged: bool = True
    updates: bool = False
    span: KeySpan | None = None
    deleted: LaterDeletes | None = None


@dataclass(slots=True)
class LocationReader:
    """Reads one location: `inserts` and `deletes` are its live data files, `row_ids` False for insert-only tables."""

    inserts: Sequence[DataSource]
    deletes: Sequence[DataSource]
    write_ids: ValidWriteIds
    row_ids: bool = True
    findings: Findings | None = None
    _held: tuple[tuple[object, ...], DeletedRows] | None = field(default=None, init=False)

    def groups(self) -> Iterator[Group]:
        """The files with rows in the order of the answer, by how they have to be read."""
        for bucket in self._buckets():
            merged, plain = self._parted(bucket)
            for sources in merged:
                yield Group(tuple(sources), updates=any(source.facts.may_update for source in sources))
            yield from (Group((source,), merged=False) for source in plain)

    def count(self) -> int:
        """How many rows are visible; of files that no delete, update or hidden write concerns, from tails alone."""
        total = 0
        for group in self.groups():
            deleted = None
            whole = set(group.sources)
            if group.merged:
                deleted = self.deleted_rows(group.sources, updates=group.updates)
                whole = set() if group.updates else self._whole(group.sources, deleted)
            total += sum(source.facts.rows for source in whole)
            others = [source for source in group.sources if source not in whole]
            if others:
                total += sum(len(batch) for batch in self._merge(others, None, BATCH_ROWS, deleted=deleted))
        return total

    def _buckets(self) -> Iterator[list[DataSource]]:
        """Sources by the bucket id of their file names, in ascending order, none last; tails are read in their turn."""
        groups: dict[int | None, list[DataSource]] = {}
        for source in self.inserts:
            groups.setdefault(source.bucket_id, []).append(source)
        for bucket_id in sorted(groups, key=lambda b: (b is None, b or 0)):
            if filled := [source for source in groups[bucket_id] if source.facts.rows]:
                yield filled

    def _parted(self, group: Sequence[DataSource]) -> tuple[list[list[DataSource]], list[DataSource]]:
        """What has to be merged, in groups, and the files whose rows have no ids."""
        with_ids = [source for source in group if self.row_ids and source.has_row_ids]
        together = [source for source in with_ids if not source.apart]
        apart = [[source] for source in with_ids if source.apart]
        plain = [source for source in group if not (self.row_ids and source.has_row_ids)]
        return [*([together] if together else []), *apart], plain

    def read(
        self, group: Group, projection: Projection, batch_rows: int = BATCH_ROWS, *, threads: bool = True
    ) -> Iterator[RowBatch]:
        """The visible rows of a group, or of the part of one; without `threads` nothing is decoded ahead."""
        wider = projection.wider()
        if not group.merged:
            for source in group.sources:
                for batch in projection.matching(source.events(wider, batch_rows, group.span), row_ids=False):
                    yield RowBatch(batch.columns, len(batch))
            return
        merged = self._merge(group.sources, wider, batch_rows, group.span, threads, group.updates, group.deleted)
        merged.matching = partial(projection.matching, row_ids=True)
        for batch in coalesce(iter(merged), batch_rows, batch_rows // 4):
            yield RowBatch(batch.columns, len(batch), batch.keys)

    def merge(
        self,
        projection: Projection | None,
        *,
        span: KeySpan | None = None,
        batch_rows: int = BATCH_ROWS,
        threads: bool = True,
        deleted: DeletedRows | None = None,
    ) -> MergeReader:
        """The rows of all files together, whatever buckets their names tell; every row needs an id.

        `span` narrows the keys. Without `threads` nothing is decoded ahead. `deleted` is given where it is known.
        """
        sources = [source for source in self.inserts if source.facts.rows]
        return self._merge(sources, projection, batch_rows, span, threads, deleted=deleted)

    def _merge(
        self,
        sources: Sequence[DataSource],
        projection: Projection | None,
        batch_rows: int,
        span: KeySpan | None = None,
        threads: bool = True,
        updates: bool = False,
        deleted: DeletedRows | LaterDeletes | None = None,
    ) -> MergeReader:
        updates = updates or any(source.facts.may_update for source in sources)
        if updates and projection is not None:
            # An event that does not match may be the newest of its row.
            projection = replace(projection, where=None)
        large = [source for source in sources if source.facts.rows > _READ_AHEAD_BATCHES * batch_rows]
        # Decoding a large file and applying deletes to it take a core each; more threads than cores only hold memory.
        ahead = large if threads and len(large) <= _READ_AHEAD_FILES else []
        # Updates lie in files of any later write, so that all files of a bucket are read side by side.
        rows = max(_LEAST_ROWS, batch_rows // len(sources)) if updates and batch_rows > _LEAST_ROWS else batch_rows
        streams = [stream_of(s, projection, rows, span=span, updates=updates, ahead=s in ahead) for s in sources]
        pairs = list(zip(sources, streams, strict=True))
        if updates:
            streams = pack_small(pairs, batch_rows, projection)
        elif span is None:
            streams = _in_groups(pairs, batch_rows, projection)
        if deleted is None:
            collect = partial(self.deleted_rows, sources, updates=updates, keys_in=span)
            # With a condition it may be that nobody asks.
            deleted = LaterDeletes(collect, at_once=bool(ahead and projection and projection.where is None))
        notice = None if self.findings is None else self.findings.watch(sources)
        return MergeReader(streams, write_ids=self.write_ids, deleted=deleted, updates=updates, notice=notice)

    def _whole(self, sources: Sequence[DataSource], deleted: DeletedRows) -> set[DataSource]:
        """Those of these files, which hold inserts alone, of which each stored row is visible, as far as tails tell.

        Deletes are looked up by their keys: what the statistics of a delete file leave out would come back.
        """
        if self.findings is not None and self.findings.overlap(sources):
            return set()
        whole: set[DataSource] = set()
        for source in sources:
            low, high = source.bounds(updates=False)
            if low and high and self.write_ids.covers(low.write_id, high.write_id) and not deleted.between(low, high):
                whole.add(source)
        return whole

    def deletes_for(self, sources: Sequence[DataSource], updates: bool, keys_in: KeySpan | None) -> list[DataSource]:
        """The delete files that may hold a key of these sources in `keys_in`, judged by key ranges, never by names.

        A file's own bucket number proves nothing: Hive 3.1 writes deletes of an unbucketed table into other buckets.
        """
        span = _bucket_span(sources, updates)
        chosen = []
        for delete in self.deletes:
            buckets = delete.buckets
            apart = span and buckets and (buckets[1] < span[0] or buckets[0] > span[1])
            beyond = keys_in and not keys_in.may_hold(delete.facts.lowest, delete.facts.highest)
            if delete.facts.rows and not apart and not beyond:
                chosen.append(delete)
        return chosen

    def deleted_rows(
        self, sources: Sequence[DataSource], *, updates: bool, keys_in: KeySpan | None = None
    ) -> DeletedRows:
        """The deletes that concern a bucket; kept for the next one, which often needs the very same."""
        chosen = self.deletes_for(sources, updates, keys_in)
        span = _bucket_span(sources, updates)
        wanted = (span, keys_in, *(delete.name for delete in chosen))
        if self._held is None or self._held[0] != wanted:
            self._held = None
            ahead = _decoded_ahead(chosen) if keys_in is None else chosen
            keys = (part for delete in ahead for part in delete.delete_keys(keys_in))
            if span is not None:
                low, high = span
                keys = (part.select((part.bucket >= low) & (part.bucket <= high)) for part in keys)
            self._held = (wanted, DeletedRows.collect(keys, self.write_ids))
        return self._held[1]


def _bucket_span(sources: Sequence[DataSource], updates: bool) -> tuple[int, int] | None:
    """Lowest and highest bucket property in these files, None when a tail does not tell."""
    bounds = [source.bounds(updates=updates) for source in sources]
    known = [(low.bucket_property, high.bucket_property) for low, high in bounds if low and high]
    if len(known) < len(bounds) or not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


_Pairs = Sequence[tuple[DataSource, EventStream]]


def pack_small(streams: _Pairs, batch_rows: int, projection: Projection | None = None) -> list[EventStream]:
    """The streams, small ones (a sixteenth of a batch at most) of one statement put together to as much as a batch."""
    sources = {id(stream): source for source, stream in streams}
    small = [pair for pair in streams if pair[0].facts.rows <= batch_rows // _SMALL_PART]
    packs: list[list[EventStream]] = []
    room: dict[int, int] = {}
    open_packs: dict[int, list[EventStream]] = {}
    for source, stream in sorted(small, key=lambda pair: (pair[1].lower is not None, pair[1].lower or RowId(0, 0, 0))):
        statement = stream.statement_id
        if room.get(statement, 0) < source.facts.rows:
            open_packs[statement], room[statement] = [], batch_rows
            packs.append(open_packs[statement])
        open_packs[statement].append(stream)
        room[statement] -= source.facts.rows
    large = [stream for source, stream in streams if source.facts.rows > batch_rows // _SMALL_PART]
    return large + [packed(pack, _ahead([sources[id(one)] for one in pack], projection)) for pack in packs]


def _in_groups(streams: _Pairs, batch_rows: int, projection: Projection | None) -> list[EventStream]:
    """The streams, neighbours of few bytes put together as they are; files are small until then, or alone."""
    small = [pair for pair in streams if _is_small(pair[0]) and pair[0].facts.rows <= batch_rows // _SMALL_PART]
    small.sort(key=lambda pair: (pair[1].lower is not None, pair[1].lower or RowId(0, 0, 0)))
    chosen = {id(stream) for _, stream in small}
    found = [stream for _, stream in streams if id(stream) not in chosen]
    at, sizes = 0, iter(_TOGETHER)
    most = next(sizes)
    while at < len(small):
        rows, end = 0, at
        while end < len(small) and end - at < most and rows + small[end][0].facts.rows <= batch_rows:
            rows, end = rows + small[end][0].facts.rows, end + 1
        group = small[at:end]
        ahead = _ahead([source for source, _ in group], projection)
        found.append(group[0][1] if len(group) == 1 else packed([stream for _, stream in group], ahead, in_order=True))
        at, most = end, next(sizes, most)
    return found


def _is_small(source: DataSource) -> bool:
    return source.bytes <= SMALL_BYTES and source.facts.is_acid


def _ahead(sources: Sequence[DataSource], projection: Projection | None) -> Callable[[], object]:
    """Decodes the files of a pack, when its turn comes."""
    return lambda: list(_decoded_ahead(sources, projection))


def _decoded_ahead(sources: Sequence[DataSource], projection: Projection | None = None) -> Iterator[DataSource]:
    """The same files; small ones have been decoded, many by one call, where that is possible."""
    for start in range(0, len(sources), _TOGETHER[-1]):
        some = sources[start : start + _TOGETHER[-1]]
        small = [source for source in some if _is_small(source) and 0 < source.facts.rows <= BATCH_ROWS // _SMALL_PART]
        if len(small) > 1:
            _decode_together(small, projection)
        yield from some


def _decode_together(sources: Sequence[DataSource], projection: Projection | None) -> None:
    """Put the events of small files where `events` finds them; what cannot be decoded so is left to it."""
    with ExitStack() as stack:
        opened = [stack.enter_context(source.open()) for source in sources]
        files = [file for file in opened if isinstance(file, OrcFile) and file.whole is not None]
        if len(files) < len(sources):
            return
        wanted = None if projection is None else Fitting(sources[0].facts.columns, projection)
        batch = scan_together(files, names_of(wanted), () if wanted is None else wanted.places)
        if batch is None:
            return
        with suppress(DamagedDataError):  # whose it is shows when they are read one by one
            events, at = events_of(batch, wanted, sources[0].name), 0
            for source in sources:
                source.ready = projection, events.slice(at, at + source.facts.rows)
                at += source.facts.rows


def stream_of(
    source: DataSource,
    projection: Projection | None,
    batch_rows: int,
    *,
    span: KeySpan | None = None,
    stripes: range | None = None,
    updates: bool = False,
    ahead: bool = False,
) -> EventStream:
    """A file as a stream for the merge; see `LocationReader.merge`. `ahead` decodes it in a thread of its own."""

    def events() -> Iterator[EventBatch]:
        batches = source.events(projection, batch_rows, span, stripes)
        return read_ahead(batches) if ahead else batches

    return EventStream(source.name, events, source.bounds(updates=updates)[0], source.statement_id)


class Findings:
    """Why rows of an answer may be missing or come twice: sentences, each once, in the order in which they were found.

    The rows stay as they are, and whoever asked decides; `compact` refuses most of this. Noticed is what costs nothing:
    what tails say (a bucket other than in the file's name) and what the merge finds (two rows of one ROW__ID,
    disorder).
    """

    def __init__(self, known: Sequence[str] = (), *, strict: bool = False) -> None:
        """`strict` raises DamagedDataError with what is added."""
        self._texts = dict.fromkeys(known)
        self._strict = strict

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._texts))

    def add(self, text: str) -> None:
        """Take in one sentence."""
        if self._strict:
            raise DamagedDataError(f"rows may be missing or come twice: {text}")
        self._texts[text] = None

    def watch(self, sources: Sequence[DataSource]) -> Notice:
        """What to tell of the merge of these sources; their tails are looked at now."""
        self._check_buckets(sources)

        def notice(oddity: Oddity, row: RowId) -> None:
            where = " and ".join(_holders(sources, row)[:2])
            shown = f"{row.write_id},{row.bucket_property},{row.row_id}"
            if oddity is Oddity.DOUBLE:
                self.add(f"{where}: two rows have the ROW__ID {shown}; a directory or a file may have been copied.")
            else:
                self.add(f"{where}: rows are not in the order of their ROW__IDs, first at {shown}.")

        return notice

    def overlap(self, sources: Sequence[DataSource]) -> bool:
        """Whether the row ids of two files may be the same, as far as their tails tell."""
        self._check_buckets(sources)
        bounds = [source.bounds(updates=False) for source in sources]
        known = sorted((low, high) for low, high in bounds if low is not None and high is not None)
        return any(low <= before for (_, before), (low, _) in pairwise(known))

    def _check_buckets(self, sources: Sequence[DataSource]) -> None:
        for source in sources:
            if source.bucket_id is None or source.buckets is None or not source.facts.is_acid:
                continue
            with suppress(BucketCodecError):
                bucket_id = decode(source.buckets[0]).bucket_id
                if bucket_id != source.bucket_id:
                    self.add(
                        f"{source.name} is called bucket {source.bucket_id}, and holds rows of bucket {bucket_id}; "
                        "it may have been renamed or copied."
                    )


def _holders(sources: Sequence[DataSource], row: RowId) -> list[str]:
    """The files that may hold a row, as far as their tails tell."""
    spans = ((source.name, *source.bounds(updates=False)) for source in sources)
    found = [name for name, low, high in spans if (low is None or low <= row) and (high is None or row <= high)]
    return found or [sources[0].name]
