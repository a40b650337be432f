"""From a task's spec to the events that it rewrites: the state of its inputs, and what of their files is its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import partial
from typing import BinaryIO

import numpy as np

from acidctl.compaction.coverage import Committed, state_of_entries
from acidctl.compaction.cross_check import (
    Hashes,
    InputSample,
    KeySum,
    distinct,
    key_hashes,
    require_events,
    require_rows,
)
from acidctl.compaction.plan import FileRead, Role, StripeCounts, TaskResult, TaskSpec
from acidctl.compaction.stripes import CopiedStripe, PlainPlan, Stretch, StripePlan
from acidctl.errors import DamagedDataError, InternalError
from acidctl.findings import DoubtError, Finding, Level
from acidctl.format import bucket_codec
from acidctl.format.events import (
    BoolArray,
    EventBatch,
    EventKeys,
    Int64Array,
    KeySpan,
    Operation,
    RowId,
    coalesce,
    run_heads,
)
from acidctl.format.write_ids import ValidWriteIds
from acidctl.orc.tail_edit import event_type, orc_types
from acidctl.orc.writer import physical_of
from acidctl.phases import phase
from acidctl.rows.merge import DeletedRows, MergeReader, Oddity, first_backwards, merge_events, valid_mask
from acidctl.rows.projection import Projection
from acidctl.rows.scan import Findings, LocationReader, finding_of_row, pack_small, stream_of
from acidctl.rows.source import BATCH_ROWS, DataSource, live_sources
from acidctl.state.entries import AcidState
from acidctl.storage.port import Storage, join
from acidctl.types.hive_types import Dialect, StructType
from acidctl.types.schema import parse_type
from acidctl.values import dataclass

_VERSION_SHIFT = 29
_BUCKET_SHIFT = 16
_BUCKET_BITS = 0xFFF
# Of delete files up to a batch is held in any case; they are keys alone.
_PACK_ROWS = 16 * BATCH_ROWS


def state_of(spec: TaskSpec) -> AcidState:
    """The task's inputs as a state in which everything is live; nothing is judged anew."""
    return state_of_entries(spec.inputs, spec.table)


def _projection(spec: TaskSpec) -> Projection:
    """All columns of the output."""
    columns = parse_type(spec.table.columns)
    if not isinstance(columns, StructType):
        raise InternalError(f"The columns of a task are {columns}, not a struct.")
    return Projection(columns, tuple(range(len(columns.fields))), Dialect(spec.table.dialect))


def _sizes(spec: TaskSpec, storage: Storage, root: str) -> dict[str, int]:
    """The bytes of each input, by the name of its source."""
    return {storage.display(join(root, info.path)): info.size for entry in spec.inputs for info in entry.files}


class PlainRows:
    """The rows of a task of an insert-only ORC table, file after file, as they are to be written.

    `read` is the result of a task that wrote nothing.
    """

    def __init__(self, spec: TaskSpec, storage: Storage, root: str) -> None:
        self.read = TaskResult.nothing(spec)
        self._projection = _projection(spec)
        self._sources, _ = live_sources(storage, root, state_of(spec))
        paths = {storage.display(join(root, path)): path for path in spec.task.files}
        #: Opens an input, by the name of its source.
        self.open: Callable[[str], BinaryIO] = lambda name: storage.open(join(root, paths[name]))
        self.columns = self._projection.columns
        types = orc_types(self.columns)
        sizes = _sizes(spec, storage, root)
        physical = physical_of(spec.table.writer, types, acid=False)
        self.stripes = PlainPlan(types, physical, spec.task.output, sizes, spec.decode_copied)
        self.stripes.choose(self._sources)

    def __iter__(self) -> Iterator[EventBatch | CopiedStripe]:
        sources, rows = self._sources, 0
        sample = InputSample(self.columns, bucket_id=None, span=None, seed=self.read.output, stored=True)
        sample.read([source for source in sources if not self.stripes.of(source)], self.open)
        for source in sources:
            if copied := self.stripes.of(source):
                rows += sum(one.rows for one in copied)
                yield from copied
                continue
            for batch in sample.compared(source.events(self._projection, BATCH_ROWS), source):
                if len(batch):
                    rows += len(batch)
                    yield batch
        self.read = replace(self.read, rows_in=rows, stripes=self.stripes.counts)


@dataclass(slots=True)
class FileTally:
    """Stored events of one file: those of the task, and those of them that an aborted write left.

    `passed` are those that go on; `hashes` of their keys are there where the filter keeps them. `buckets` counts all
    that were read by bucket property, `committed` and `aborted` are write ids of the task's events that were (not) let
    through.
    """

    source: DataSource
    rows_in: int = 0
    hidden: int = 0
    passed: KeySum = field(default_factory=KeySum)
    hashes: list[Hashes] = field(default_factory=list)
    buckets: Counter[int] = field(default_factory=Counter)
    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)


class TaskEvents:
    """The merged events of a task with role SURVIVING, INSERTS or DELETES, as they are to be written.

    Each iteration reads them anew; `read` is the result of a task that wrote nothing, by the last one that was read to
    its end.
    """

    def __init__(self, spec: TaskSpec, storage: Storage, root: str, *, threads: bool) -> None:
        self.read = TaskResult.nothing(spec)
        self._task = spec.task
        self._threads = threads
        # What counts as committed; of the rest nothing goes into an output.
        self._write_ids = ValidWriteIds.parse(spec.table.write_ids).compactor()
        lower, upper = (
            None if cut is None else RowId(cut.write_id, cut.bucket_property, cut.row_id)
            for cut in (spec.lower, spec.upper)
        )
        self._span = None if lower is None and upper is None else KeySpan(lower, upper)
        self._projection = _projection(spec)
        self.columns = self._projection.columns
        self._inserts, self._deletes = live_sources(storage, root, state_of(spec))
        files = (*spec.task.files, *spec.task.delete_files)
        self._paths = paths = {storage.display(join(root, path)): path for path in files}
        #: Opens an input, by the name of its source.
        self.open: Callable[[str], BinaryIO] = lambda name: storage.open(join(root, paths[name]))
        self._committed = Committed.write_ids(spec.table.write_ids)
        self._applied = self._unmatched = 0
        self._settings = spec.table.writer
        self._decode_copied = spec.decode_copied
        # Rows that Hive 1 and 2 updated in place lie in files of any later write.
        self._copies = spec.task.role is not Role.DELETES and not spec.table.acid_v1 and spec.table.file_format == "orc"
        self._sizes = _sizes(spec, storage, root)
        #: What becomes of the stripes of the inputs; `like` is None where all rows are written anew.
        self.stripes: StripePlan | None = None

    def __iter__(self) -> Iterator[EventBatch | CopiedStripe]:
        _require_row_ids(self._inserts)
        role = self._task.role
        event_filter = EventFilter(self._task.bucket_id, self._write_ids, current=role is Role.DELETES)
        delete_filter = EventFilter(self._task.bucket_id, self._write_ids, same_write=role is Role.INSERTS, keep=True)
        sample = self._sample()
        if role is Role.DELETES:
            self._take_sample(sample, self._deletes)
        for source in self._inserts:
            source.through = lambda source, batches: event_filter(source, sample.compared(batches, source))
        deletes = self._sample(stored=True) if self._deletes and role is not Role.DELETES else None
        if deletes is not None:
            self._take_sample(deletes, self._deletes)
        for source in self._deletes:
            source.through = (
                event_filter
                if deletes is None
                else lambda source, batches: delete_filter(source, deletes.compared(batches, source))
            )
        self._applied = 0
        left = KeySum()
        if role is Role.DELETES:
            for batch in sample.compared(self.delete_events()):
                left.add(key_hashes(batch.keys, current=True))
                yield batch
            sample.require_found(self._committed, distinct([]))
            require_events(
                self._task.output, event_filter.passed, left, lambda: self.hashes_again(self._deletes, current=True)
            )
        else:
            with ExitStack() as stack:
                for item in self._surviving(sample, stack):
                    # What is copied is on neither side of the sum; a delete event of it would be missed there.
                    if isinstance(item, EventBatch):
                        left.add(key_hashes(item.keys))
                    yield item
                self._require_rows(event_filter, delete_filter, left, sample)
            if deletes is not None:
                deletes.require_found(self._committed, distinct([]))
        self._report(event_filter, delete_filter)
        # Filters know their files: else each task would stay in memory until cycles are looked for.
        for source in (*self._inserts, *self._deletes):
            source.through = None

    def _surviving(self, sample: InputSample, stack: ExitStack) -> Iterator[EventBatch | CopiedStripe]:
        """Rows, and stripes of rows that are copied; what is copied from stays open as long as the stack."""
        filled, collapse = [source for source in self._inserts if source.facts.rows], self._task.role is Role.SURVIVING
        if not self._copies or any(source.facts.may_update for source in filled):
            self._take_sample(sample, self._inserts)
            yield from sample.compared(self._rows(collapse=collapse))
            return
        types = orc_types(event_type(self.columns))
        reader = LocationReader(self._inserts, self._deletes, self._write_ids)
        self.stripes = plan = StripePlan(
            types,
            physical_of(self._settings, types, acid=True),
            self._task.output,
            self._sizes,
            reader.deleted_rows(filled, updates=False, keys_in=self._span),
            self._span or KeySpan(),
            partial(EventFilter, self._task.bucket_id, self._write_ids, sums=False),
            self._decode_copied,
        )
        plan.choose(filled, stack)
        self._take_sample(sample, self._inserts, None if plan.like is None else plan.anew())
        if plan.like is None:
            plan.finish()
            yield from sample.compared(self._rows(collapse=collapse, deleted=plan.deleted))
            return
        last: RowId | None = None
        for piece in plan.pieces():
            if isinstance(piece, CopiedStripe):
                assert piece.first is not None
                self._require_after(piece.first, last, [piece.source])
                yield piece
                last = piece.last
                continue
            for batch in sample.compared(self._between(piece, plan.deleted)):
                self._require_after(batch.keys.at(0), last, [*piece.stripes, *piece.others])
                last = self._require_distinct(batch.keys, last)
                yield batch

    def _require_after(self, row: RowId, last: RowId | None, sources: Sequence[DataSource]) -> None:
        """Refuse a row of some files that does not come after the last one."""
        if last is not None and row <= last:
            double = row == last
            oddity, among = (Oddity.DOUBLE, self._inserts) if double else (Oddity.DISORDER, sources)
            raise DoubtError(finding_of_row(oddity, row, among))

    def _require_distinct(self, keys: EventKeys, last: RowId | None) -> RowId:
        """Refuse rows of one ROW__ID; the last key otherwise."""
        same = keys.same_as_previous()
        same[0] = last is not None and keys.at(0) == last
        if same.any():
            raise DoubtError(finding_of_row(Oddity.DOUBLE, keys.at(int(np.argmax(same))), self._inserts))
        return keys.at(-1)

    def _between(self, stretch: Stretch, deleted: DeletedRows) -> Iterator[EventBatch]:
        """The rows of a stretch between two copied stripes."""
        parts = [*stretch.stripes.items(), *((source, None) for source in stretch.others)]
        streams = [
            stream_of(
                source, self._projection, BATCH_ROWS, span=stretch.span if part is None else self._span, stripes=part
            )
            for source, part in parts
        ]
        read = [source for source, _ in parts]
        notice = _Refusing().watch(read)
        merge = MergeReader(streams, write_ids=self._write_ids, deleted=deleted, notice=notice)
        for batch in coalesce(iter(merge), BATCH_ROWS, BATCH_ROWS // 4):
            # Those of files without updates: each is of the write that made its row.
            keys = batch.keys
            yield EventBatch(EventKeys(keys.write_id, keys.bucket, keys.row_id, keys.write_id), batch.columns)
        self._applied += merge.deletes_applied

    def _report(self, event_filter: EventFilter, delete_filter: EventFilter) -> None:
        """What was read of each file, for the judgement of all tasks together."""
        buckets: dict[DataSource, Counter[int]] = {source: Counter() for source in (*self._inserts, *self._deletes)}
        filters = () if self.stripes is None else self.stripes.filters
        copied = [tally for through in filters if isinstance(through, EventFilter) for tally in through.tallies]
        tallies = [*event_filter.tallies, *copied, *delete_filter.tallies]
        for tally in tallies:
            buckets[tally.source] += tally.buckets
        self.read = replace(
            self.read,
            rows_in=sum(tally.rows_in for tally in (*event_filter.tallies, *copied)),
            hidden=sum(tally.hidden for tally in event_filter.tallies),
            deletes_applied=self._applied,
            deletes_unmatched=self._unmatched,
            stripes=StripeCounts() if self.stripes is None else self.stripes.counts,
            read=tuple(
                FileRead(self._paths[source.name], source.facts.rows, tuple(sorted(counts.items())))
                for source, counts in buckets.items()
                if source.name in self._paths
            ),
            committed=tuple(sorted(set().union(*(tally.committed for tally in tallies)))),
            hidden_ids=tuple(sorted(set().union(*(tally.aborted for tally in tallies)))),
        )

    def _sample(self, *, stored: bool = False) -> InputSample:
        """What compares some rows of inputs, read beside all of this; `stored` of the deletes applied to them."""
        task = self._task
        events = stored or task.role is Role.DELETES
        seed = f"{task.output} {self._span}"
        return InputSample(
            self.columns, bucket_id=task.bucket_id, span=self._span, seed=seed, events=events, stored=stored
        )

    def _take_sample(
        self, sample: InputSample, sources: Sequence[DataSource], anew: Mapping[DataSource, Sequence[int]] | None = None
    ) -> None:
        with phase("verify"):
            sample.read(sources, self.open, anew)

    def _require_rows(
        self, event_filter: EventFilter, delete_filter: EventFilter, left: KeySum, sample: InputSample
    ) -> None:
        """Check that the merge kept and dropped the right rows; updates in place (ACID version 1) have no such sums."""
        for source in self._deletes:
            if source not in delete_filter.seen:
                # The merge has judged by statistics that this file does not concern the bucket.
                for _ in source.events(None, BATCH_ROWS, self._span):
                    pass
        if any(source.facts.may_update for source in self._inserts):
            return
        deleted = distinct([hashes for tally in delete_filter.tallies for hashes in tally.hashes])
        sample.require_found(self._committed, deleted)
        require_rows(
            self._task.output,
            event_filter.passed,
            left,
            deleted,
            lambda: self.hashes_again(self._inserts, current=False),
        )
        if self._task.role is Role.SURVIVING:
            self._unmatched = max(len(deleted) - self._applied, 0)

    def hashes_again(self, sources: Sequence[DataSource], *, current: bool) -> Iterator[Hashes]:
        """The keys of all events that pass, without their rows."""
        event_filter = EventFilter(self._task.bucket_id, self._write_ids)
        for source in sources:
            source.through = event_filter
            for batch in source.events(None, BATCH_ROWS, self._span):
                yield key_hashes(batch.keys, current=current)

    def _rows(self, *, collapse: bool, deleted: DeletedRows | None = None) -> Iterator[EventBatch]:
        """Rows as inserts. A minor compaction applies just the deletes of a row's own transaction."""
        if not collapse:
            _require_inserts(self._inserts)
        reader = LocationReader(self._inserts, self._deletes, self._write_ids, findings=_Refusing())
        merge = reader.merge(self._projection, span=self._span, threads=self._threads, deleted=deleted)
        last: RowId | None = None
        for batch in coalesce(iter(merge), BATCH_ROWS, BATCH_ROWS // 4):
            keys = batch.keys
            last = self._require_distinct(keys, last)
            # A row of ACID version 1 that was updated becomes one that its first writer inserted.
            current = keys.write_id if collapse else keys.current
            yield EventBatch(EventKeys(keys.write_id, keys.bucket, keys.row_id, current), batch.columns)
        self._applied = merge.deletes_applied

    def delete_events(self) -> Iterator[EventBatch]:
        streams = [(source, stream_of(source, None, BATCH_ROWS, span=self._span)) for source in self._deletes]
        # Thousands of deltas delete everywhere, so that all are read side by side: those of a batch are not kept open.
        for batch in coalesce(merge_events(pack_small(streams, _PACK_ROWS)), BATCH_ROWS):
            operation = batch.keys.operation
            if operation is None or (operation != Operation.DELETE).any():
                raise DamagedDataError(
                    f"A delete delta among the inputs of {self._task.output} holds events other than deletes.",
                    hint="Restore it from a copy; nothing was published.",
                )
            yield EventBatch(batch.keys)


class _Refusing(Findings):
    """Ends the task with what only the rows tell: Hive's readers do not agree on two rows of one id (one returns both,
    one either), so no file could answer as the inputs did.
    """

    def add(self, finding: Finding) -> None:
        if finding.kind.level is Level.KEYS:
            raise DoubtError(finding)


def _require_row_ids(sources: Sequence[DataSource]) -> None:
    for source in sources:
        if source.facts.rows and (source.apart or not source.has_row_ids):
            raise DamagedDataError(
                f"{source.name} has rows without a ROW__ID: its name has no bucket number, so they cannot be merged.",
                path=source.name,
                hint="Load its rows into the table with Hive (INSERT ... SELECT); nothing was published.",
            )


def _require_inserts(sources: Sequence[DataSource]) -> None:
    for source in sources:
        if source.facts.may_update:
            raise DamagedDataError(
                f"{source.name} holds updates or deletes among its rows, as Hive 1 and 2 wrote them.",
                path=source.name,
                hint="Compact with `major`, which applies them; nothing was published.",
            )


class EventFilter:
    """Lets those events of a file through that are of the task's bucket and of committed writes, and counts them.

    It also refuses what a compaction must not carry on: events that the name of their directory rules out, buckets
    that no codec knows, files that are not in ROW__ID order. Files are read by several threads, so each has a tally of
    its own. With `same_write` only events of the write that made their row pass. Keys are summed up by ROW__ID, or with
    `current` by event; with `keep` those of deletes alone, each hash of them kept; without `sums` they are not.
    """

    def __init__(
        self,
        bucket_id: int | None,
        write_ids: ValidWriteIds,
        *,
        same_write: bool = False,
        current: bool = False,
        keep: bool = False,
        sums: bool = True,
    ) -> None:
        self._bucket_id = bucket_id
        self._write_ids = write_ids
        self._same_write = same_write
        self._current = current
        self._keep = keep
        self._sums = sums
        self.tallies: list[FileTally] = []
        self.seen: set[DataSource] = set()

    @property
    def passed(self) -> KeySum:
        """Those that went on."""
        return sum((tally.passed for tally in self.tallies), KeySum())

    def __call__(self, source: DataSource, batches: Iterator[EventBatch]) -> Iterator[EventBatch]:
        tally = FileTally(source)
        self.tallies.append(tally)
        self.seen.add(source)
        # Rows that were there before the table was an ACID table have write id 0, whatever their base is called.
        limit = max(source.max_write_id, 0)
        last: RowId | None = None
        for batch in batches:
            if not len(batch):
                continue
            keys = batch.keys
            backwards = first_backwards(keys, last)
            if backwards is not None:
                raise DoubtError(finding_of_row(Oddity.DISORDER, backwards, [source]))
            last = keys.at(-1)
            _check_limit(keys, limit, source.name)
            own = self._own(keys, source.name)
            _count_runs(tally.buckets, keys.bucket)
            if self._same_write:
                own = keys.current == keys.write_id if own is None else own & (keys.current == keys.write_id)
            visible = valid_mask(keys.current, self._write_ids)
            count = len(keys) if own is None else int(np.count_nonzero(own))
            tally.rows_in += count
            if visible is not None:
                hidden = ~visible if own is None else own & ~visible
                tally.aborted |= _distinct_ids(keys.current[hidden])
                own = visible if own is None else own & visible
                tally.hidden += count - int(np.count_nonzero(own))
            kept = batch if own is None or own.all() else batch.filter(own)
            if len(kept):
                tally.committed |= _distinct_ids(kept.keys.current)
                if self._sums:
                    self._enter(tally, kept.keys)
                yield kept

    def _enter(self, tally: FileTally, keys: EventKeys) -> None:
        if self._keep:
            if keys.operation is None:
                return
            keys = keys.select(keys.operation == Operation.DELETE)
        hashes = key_hashes(keys, current=self._current)
        tally.passed.add(hashes)
        if self._keep:
            tally.hashes.append(hashes)

    def _own(self, keys: EventKeys, name: str) -> BoolArray | None:
        """Which events are of the bucket; None means all of them."""
        if self._bucket_id is None:
            return None
        low, high = int(keys.bucket.min()), int(keys.bucket.max())
        if low == high:
            known = _decoded(low, name) == self._bucket_id
            return None if known else np.zeros(len(keys), dtype=np.bool_)
        for value in (low, high):
            _decoded(value, name)
        buckets = _bucket_ids(keys.bucket)
        own: BoolArray = buckets == self._bucket_id
        return own


def _count_runs(counts: Counter[int], values: Int64Array) -> None:
    heads = run_heads(values)
    if len(heads) == 1:
        counts[int(values[0])] += len(values)
        return
    for value, rows in zip(values[heads].tolist(), np.diff(heads, append=len(values)).tolist(), strict=True):
        counts[value] += rows


def _distinct_ids(values: Int64Array) -> set[int]:
    return set(values[run_heads(values)].tolist()) if len(values) else set()


def _bucket_ids(properties: Int64Array) -> Int64Array:
    """The bucket ids of properties, of which the least and the greatest are known to decode.

    Only versions 0 and 1 exist and they are the smallest numbers, so all between decode as well.
    """
    packed = properties >> _VERSION_SHIFT == 1
    return np.where(packed, properties >> _BUCKET_SHIFT & _BUCKET_BITS, properties)


def _decoded(value: int, name: str) -> int:
    try:
        return bucket_codec.decode(value).bucket_id
    except bucket_codec.BucketCodecError as error:
        raise DamagedDataError(
            f"{name} contains an invalid bucket value: {error.message}",
            path=name,
            hint="Restore the file from a copy; nothing was published.",
        ) from error


def _check_limit(keys: EventKeys, limit: int, name: str) -> None:
    newest = max(int(keys.current.max()), int(keys.write_id.max()))
    if newest > limit:
        raise DamagedDataError(
            f"{name} holds an event of write id {newest}, but its directory ends at {limit}; acidctl cannot tell"
            " whether that write is committed.",
            path=name,
            hint="Find out who renamed or wrote the directory; nothing was published.",
        )
