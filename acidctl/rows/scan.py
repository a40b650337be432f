"""One location, read: its live files become event streams, and those the rows that a reader sees.

A location is read bucket by bucket; per bucket the inserts of base, deltas and originals are merged in ROW__ID order,
and the deletes that can concern them are held as sorted arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import field, replace
from functools import partial
from itertools import pairwise

import pyarrow as pa

from acidctl.errors import DamagedDataError
from acidctl.findings import Finding
from acidctl.format.events import EventBatch, EventKeys, KeySpan, RowId, coalesce
from acidctl.format.names import WriteIdRange
from acidctl.format.write_ids import ValidWriteIds
from acidctl.orc.reader import OrcFile, scan_together
from acidctl.rows.belief import bucket_ids, finding_of_inserts
from acidctl.rows.merge import DeletedRows, EventStream, LaterDeletes, MergeReader, Notice, Oddity, packed
from acidctl.rows.opened import SMALL_BYTES
from acidctl.rows.pipeline import read_ahead
from acidctl.rows.projection import Fitting, Projection, events_of, names_of
from acidctl.rows.source import BATCH_ROWS, DataSource
from acidctl.values import dataclass

_READ_AHEAD_BATCHES = 4
_READ_AHEAD_FILES = 2
_LEAST_ROWS = 1024
_SMALL_PART = 16
# Small files that are read at once: the first few, then more at a time, up to so many.
_TOGETHER = (16, 64, 256)


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Visible rows: `keys` is None where rows have no ROW__ID (insert-only tables)."""

    columns: tuple[pa.Array, ...]
    rows: int
    keys: EventKeys | None = None


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

    def matching(self, group: Group, projection: Projection) -> Group:
        """The group without files of which no row can match the condition."""
        # An event that does not match may be the newest of its row.
        if projection.where is None or group.updates or not group.merged:
            return group
        if self.findings is not None:
            self.findings.check_buckets(group.sources)
        wider = projection.wider()
        return replace(group, sources=tuple(source for source in group.sources if source.may_match(wider)))

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
        if deleted is None:
            collect = partial(self.deleted_rows, sources, updates=updates, keys_in=span)
            # With a condition it may be that nobody asks.
            deleted = LaterDeletes(collect, at_once=bool(ahead and projection and projection.where is None))
        begin = deleted.begin if isinstance(deleted, LaterDeletes) else lambda: None
        stream = partial(stream_of, projection=projection, batch_rows=rows, span=span, updates=updates, begin=begin)
        pairs = [(source, stream(source, ahead=source in ahead)) for source in sources]
        if self.findings is not None:
            pairs = [(source, self.findings.looked_at(source, one)) for source, one in pairs]
        streams = [one for _, one in pairs]
        if updates:
            streams = pack_small(pairs, batch_rows, projection)
        elif span is None:
            streams = _in_groups(pairs, batch_rows, projection)
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
    begin: Callable[[], object] = lambda: None,
) -> EventStream:
    """A file as a stream for the merge; see `DataSource.events`. `ahead` decodes it in a thread of its own."""

    def events() -> Iterator[EventBatch]:
        batches = source.events(projection, batch_rows, span, stripes, begin)
        return read_ahead(batches) if ahead else batches

    return EventStream(source.name, events, source.bounds(updates=updates)[0], source.statement_id)


class Findings:
    """Why rows of an answer may be missing or come twice: each finding once, in the order in which they were found.

    The rows stay as they are, and whoever asked decides; `compact` refuses most of this. Noticed is what costs nothing:
    what tails say (a bucket other than in the file's name) and what the merge finds (two rows of one ROW__ID,
    disorder).
    """

    def __init__(self, known: Sequence[Finding] = (), *, strict: bool = False) -> None:
        """`strict` raises DamagedDataError with what is added."""
        self._found = dict.fromkeys(known)
        self._strict = strict
        self._partition = ""

    def __iter__(self) -> Iterator[Finding]:
        return iter(tuple(self._found))

    def of(self, partition: str) -> Findings:
        """The same, for who reads one partition and names files by their paths below it."""
        own = copy(self)
        own._partition = partition
        return own

    def add(self, finding: Finding) -> None:
        """Take in one more."""
        if self._partition and finding.path:
            finding = replace(finding, path=f"{self._partition}/{finding.path}")
        if self._strict:
            raise DamagedDataError(f"rows may be missing or come twice: {finding}", hint=finding.remedy)
        self._found[finding] = None

    def watch(self, sources: Sequence[DataSource]) -> Notice:
        """What to tell of the merge of these sources; their tails are looked at now."""
        self.check_buckets(sources)

        def notice(oddity: Oddity, row: RowId) -> None:
            self.add(finding_of_row(oddity, row, sources))

        return notice

    def looked_at(self, source: DataSource, stream: EventStream) -> EventStream:
        """The same stream; of a file without statistics the rows say of which buckets they are."""
        if source.buckets is not None or not source.facts.is_acid:
            return stream

        def events() -> Iterator[EventBatch]:
            for batch in stream.open():
                if len(batch):
                    self._add_foreign(source, (int(batch.keys.bucket.min()), int(batch.keys.bucket.max())))
                yield batch

        return replace(stream, open=events)

    def _add_foreign(self, source: DataSource, properties: Iterable[int]) -> None:
        low, high = source.facts.lowest, source.facts.highest
        known = source.min_write_id is not None and not source.facts.may_update
        finding = finding_of_inserts(
            source.name,
            source.path,
            source.bucket_id,
            bucket_ids(properties),
            None if low is None or high is None else WriteIdRange(low.write_id, high.write_id),
            WriteIdRange(source.min_write_id or 0, source.max_write_id) if known else None,
        )
        if finding is not None:
            self.add(finding)

    def overlap(self, sources: Sequence[DataSource]) -> bool:
        """Whether the row ids of two files may be the same, as far as their tails tell."""
        self.check_buckets(sources)
        bounds = [source.bounds(updates=False) for source in sources]
        known = sorted((low, high) for low, high in bounds if low is not None and high is not None)
        return any(low <= before for (_, before), (low, _) in pairwise(known))

    def check_buckets(self, sources: Sequence[DataSource]) -> None:
        """Take in which of them hold rows of another bucket, or of other writes, than their names say."""
        for source in sources:
            if source.facts.is_acid and source.facts.rows:
                self._add_foreign(source, source.buckets or ())


def finding_of_row(oddity: Oddity, row: RowId, sources: Sequence[DataSource]) -> Finding:
    """What the merge of these files noticed at a row."""
    shown = f"{row.write_id},{row.bucket_property},{row.row_id}"
    found = holders(sources, row)
    where = " and ".join(source.name for source in found[:2])
    if oddity is Oddity.DOUBLE:
        code, why = "duplicate_row_id", f"two rows have the ROW__ID {shown}; a directory or a file may have been copied"
    else:
        code, why = "unsorted_rows", f"rows are not in the order of their ROW__IDs, first at {shown}"
    return Finding(code, f"{where}: {why}.", found[0].path)


def holders(sources: Sequence[DataSource], row: RowId) -> list[DataSource]:
    """The files that may hold a row, as far as their tails tell."""
    spans = ((source, *source.bounds(updates=False)) for source in sources)
    found = [source for source, low, high in spans if (low is None or low <= row) and (high is None or row <= high)]
    return found or [sources[0]]
