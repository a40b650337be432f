"""The live data files of a location, each of which becomes a stream of events.

This is where paths, names and side files become events. Files are opened when their turn comes. Which files are live is
`state`'s decision and never made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import field, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from acidctl.fileformats.plain import PlainFiles, RowFile
from acidctl.format.bucket_codec import BucketCodecError, encode
from acidctl.format.events import EventBatch, EventKeys, KeySpan, Operation, RowId
from acidctl.format.names import MIN_LONG, OriginalFile
from acidctl.orc.reader import OrcFile
from acidctl.rows.opened import Opener
from acidctl.rows.predicate import Node
from acidctl.rows.projection import Fitting, Projection, events_of, names_of
from acidctl.rows.stripes import RawIds, file_may_match, matching_stripes, rows_to_read, stripes_in, stripes_with_rows
from acidctl.state.entries import AcidState, EntryKind, StateEntry
from acidctl.state.inventory import by_bucket, data_files, live_entries
from acidctl.storage.port import Storage, join
from acidctl.types.hive_types import Dialect, StructType
from acidctl.values import dataclass

BATCH_ROWS = 65536
_INT32_MIN = -(2**31)
_NO_COLUMNS = StructType(())


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

    def seen_through(self, through: Through) -> DataSource:
        """The same file with something else between it and whoever reads its events."""
        return replace(self, through=through)

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
        begin: Callable[[], object] = lambda: None,
    ) -> Iterator[EventBatch]:
        """The file as event batches: keys, and the projected columns fitted to the reader's types.

        With a span just the events in it. Stripes that hold none, or no row that matches the projection's condition,
        are not read, as far as their statistics tell. Of an ACID file `stripes` are the only ones that are read, and
        `begin` is called before the first of them is.
        """
        events = self._stored_events(projection, batch_rows, span, stripes, begin)
        return events if self.through is None else self.through(self, events)

    def _stored_events(
        self,
        projection: Projection | None,
        batch_rows: int,
        span: KeySpan | None,
        stripes: range | None,
        begin: Callable[[], object],
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
                begin()
                for batch in orc.scan(names_of(wanted), batch_size=batch_rows, fields=places, **part):
                    events = events_of(batch, wanted, self.name)
                    inside = None if span is None else span.mask(events.keys)
                    yield events if inside is None else events.filter(inside)

    def _parts(
        self, orc: RowFile, wanted: Fitting | None, where: Node | None, stripes: range | None
    ) -> Iterator[dict[str, Any]]:
        """What to scan, as arguments: runs of stripes (None is all), and up to which of their rows."""
        if where is None or wanted is None:
            yield {"stripes": stripes}
            return
        raw = None if self.facts.is_acid else RawIds(self.raw_write_id, self.raw_bucket, self.row_offset)
        for part in matching_stripes(orc, where, wanted.place_of, raw, stripes):
            limit = rows_to_read(orc, where, wanted.place_of, raw, part) if isinstance(orc, OrcFile) else None
            yield {"stripes": part} if limit is None else {"stripes": part, "limit": limit}

    def may_match(self, projection: Projection) -> bool:
        """Whether a row may match the condition, as far as the statistics of the whole file tell."""
        if projection.where is None or not self.facts.is_acid:
            return True
        with self.open() as orc:
            places = Fitting(self.facts.columns, projection).place_of
            return isinstance(orc, OrcFile) and file_may_match(orc, projection.where, places)

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
            at = self.row_offset + sum(orc.stripe_rows[: part["stripes"].start] if part["stripes"] else ())
            for batch in orc.scan(batch_size=batch_rows, fields=wanted.places, **part):
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


def sources_of(
    storage: Storage, root: str, state: AcidState, entries: Iterable[StateEntry], plain: PlainFiles | None = None
) -> tuple[DataSource, ...]:
    """The files of directories of a location, read or not, as `live_sources` gives those that are read."""
    opener = Opener(storage, root, plain if state.insert_only else None)
    return tuple(source for entry in entries for source in _sources(opener, state, entry))


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
