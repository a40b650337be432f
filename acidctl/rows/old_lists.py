"""Whether lists are older than a compaction whose inputs are gone, as far as files tell; see `state.old_lists`.

Asked once for a location by whatever reads or changes it. Where nothing is there that the lists do not show, which is
the rule, no file is opened. Else the ends of files are looked at, and their key columns where these do not decide: as
streams side by side in the order of ROW__IDs, which end at the first proof. Held are the deletes, as for a snapshot.

Asked is for a proof that all is there: every row and delete of the output that this reader may see has to be in the
directories that it reads, and each row that it would read has to be in the output, or deleted by a write that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import combinations

import numpy as np

from acidctl.errors import DamagedDataError
from acidctl.fileformats.plain import PlainFiles
from acidctl.format.events import BoolArray, EventBatch, EventKeys, KeySpan, RowId
from acidctl.format.names import MIN_LONG, WriteIdRange, is_marker
from acidctl.format.write_ids import ValidWriteIds
from acidctl.orc.reader import OrcFile
from acidctl.orc.stats import ColumnStatistics, StatisticsKind
from acidctl.rows.merge import DeletedRows, valid_mask
from acidctl.rows.scan import LocationReader
from acidctl.rows.source import DataSource, live_sources, sources_of
from acidctl.state.entries import AcidState, EntryKind, EntryState, StateEntry, TooOld, span
from acidctl.state.inventory import data_files
from acidctl.state.old_lists import UnseenOutput, is_unseen, too_old, unseen_outputs
from acidctl.storage.port import Storage
from acidctl.values import dataclass

_INT32_MIN = -(2**31)
_EVERYTHING = ValidWriteIds.everything()
# Of so many writes that may or may not count every choice is tried.
_FEW_WRITES = 10
# Places of write id, bucket property and row number in the type tree of an ACID file.
_KEYS = slice(2, 5)
_LATER = frozenset({EntryState.OPEN, EntryState.ABOVE_WATERMARK})


def lists_too_old(
    storage: Storage, root: str, state: AcidState, write_ids: ValidWriteIds, plain: PlainFiles | None = None
) -> TooOld | None:
    """The proof that a location has lost what these lists show, or may have; None where all of it is there.

    `state` is the location judged by the lists, `plain` opens files of an insert-only table that may not be ORC. Raises
    what reading the files raises; an output that cannot be read is one that is still being written.
    """
    found = too_old(state, write_ids)
    if found is not None or (state.base is None and state.history_gap is not None):
        return found
    for output in unseen_outputs(state, write_ids):
        question = _Question(storage, root, state, write_ids, output, plain)
        found = question.of_insert_only() if state.insert_only else question.of_rows()
        if found is not None:
            return found
    return None


@dataclass(slots=True)
class _Question:
    """One output, and whether what it was made of is there."""

    storage: Storage
    root: str
    state: AcidState
    write_ids: ValidWriteIds
    output: UnseenOutput
    plain: PlainFiles | None
    _live: tuple[tuple[DataSource, ...], tuple[DataSource, ...]] | None = field(default=None, init=False)

    # --- full tables

    def of_rows(self) -> TooOld | None:
        """Compare by ROW__IDs."""
        inserts = [entry for entry in self.output.entries if entry.kind is not EntryKind.DELETE_DELTA]
        deletes = [entry for entry in self.output.entries if entry.kind is EntryKind.DELETE_DELTA]
        made = self._readable(inserts)
        return (
            self._rows_by_names(made)
            or self._deletes_of_minor(self._readable(deletes))
            or self._rows_by_keys(inserts, made)
            or self._rows_of_later_deletes()
        )

    def _rows_by_names(self, made: Sequence[DataSource]) -> TooOld | None:
        """A write whose rows the tails of the output show, and of which nothing that is read has the number."""
        live = [_numbers(entry) for entry in (self.state.base, *self.state.insert_deltas) if entry is not None]
        for source in made:
            low, high = source.bounds(updates=False)
            for row in (low, high):
                if row is None or not source.facts.is_acid or not self._wants(row.write_id):
                    continue
                if not any(row.write_id in one for one in live) and not (row.write_id == 0 and self.state.originals):
                    return self._lacks(row.write_id)
        return None

    def _rows_by_keys(self, entries: Sequence[StateEntry], made: Sequence[DataSource]) -> TooOld | None:
        """Rows that the output holds and nothing that is read, and with a base the other way round too."""
        base = self.output.is_base
        finished = base and self._is_finished(entries, made)
        wanted = [source for source in made if self._may_hold_wanted(source)]
        if not wanted and not finished:
            return None
        if finished and self._adds_up(made):
            return None
        limits = KeySpan(_before(self.output.ids.min if not base else MIN_LONG), _before(self.output.ids.max + 1))
        held = [source for source in self._sources[0] if _least(source) <= self.output.ids.max]
        nameless = next((source for source in (*held, *wanted) if source.facts.rows and not source.has_row_ids), None)
        if nameless is not None:
            return self._proof(f"rows of {nameless.name} have no ROW__ID, so that they cannot be compared with it")
        if base and not self.output.resolved:
            held += [one for one in self._of_later_writes() if _least(one) <= self.output.ids.max and one.has_row_ids]
        left = LocationReader(held, (), self._output_ids).merge(None, span=limits)
        output = LocationReader(made, (), _EVERYTHING).merge(None, span=limits)
        return self._compared(iter(output), iter(left), self._deleted() if finished else None)

    def _compared(
        self, output: Iterator[EventBatch], left: Iterator[EventBatch], deleted: DeletedRows | None
    ) -> TooOld | None:
        """The first proof in the rows of the output and those that are left, both in the order of ROW__IDs."""
        later, overwrite = None, min((entry.base.write_id for entry in self.output.overwrites), default=None)
        for every, there in _aligned(output, left):
            found = self._row_missing(every, there)
            own = every.select(_visible(every.write_id, self.write_ids))
            there = there.select(_visible(there.write_id, self.write_ids))
            found = found or self._update_missing(own, there)
            if overwrite is not None and (own.write_id < overwrite).any():
                overwrite = None  # it was not committed: rows from before are in the output
            if deleted is not None:
                later = later or self._delete_missing(own, there, deleted)
            if found is not None or (later is not None and overwrite is None):
                return found or later
        return None

    def _adds_up(self, made: Sequence[DataSource]) -> bool:
        """Whether a base is its inputs less the deletes by the sums that tails hold of the key columns.

        Only where a directory of each write id is there. What is missing could only be parts of writes then, and to be
        overlooked as many rows as deletes, whose ids have the same sums.
        """
        output, state = self.output, self.state
        if not output.resolved or output.unaccounted is not None or output.overwrites or state.acid_v1:
            return False
        inserts, deletes = self._sources
        if any(source.max_write_id > output.ids.max for source in (*inserts, *deletes)):
            return False
        own, added, taken = ([_key_sums(one) for one in some if one.facts.rows] for some in (made, inserts, deletes))
        if None in own or None in added or None in taken:
            return False
        return _total_of([*own, *taken]) == _total_of(added)

    def _row_missing(self, own: EventKeys, there: EventKeys) -> TooOld | None:
        absent = ~_among(own, there)
        if not absent.any():
            return None
        visible = absent & _visible(own.write_id, self.write_ids)
        if visible.any():
            return self._lacks(int(own.write_id[np.argmax(visible)]))
        if not self.output.is_base:
            return None
        # Rows of this reader may have gone together with later deletes of them.
        number = int(own.write_id[np.argmax(absent)])
        return self._proof(f"its inputs are being removed: nothing else here holds its rows of write id {number}")

    def _update_missing(self, own: EventKeys, there: EventKeys) -> TooOld | None:
        """ACID version 1: an update of a row that is there. Only Hive 2 leaves in a base which write was the last."""
        if not self.state.acid_v1:
            return None
        theirs, ours = there.select(_among(there, own)), own
        if len(theirs) != len(ours):
            return None
        other = ours.current != theirs.current
        if not other.any():
            return None
        kept = other & _visible(ours.current, self.write_ids) & (ours.current != ours.write_id)
        if kept.any():
            return self._lacks(int(ours.current[np.argmax(kept)]))
        number = self.output.unaccounted
        return None if number is None else self._proof(f"whether write id {number} changed rows is not known")

    def _delete_missing(self, own: EventKeys, there: EventKeys, gone: DeletedRows) -> TooOld | None:
        """A row that would be read, and neither is in the output nor was deleted by anything that is there."""
        lacking = ~_among(there, own)
        deleted = gone.mask(there)
        if deleted is not None:
            lacking &= ~deleted
        for entry in self.state.deltas:
            one = entry.delta.range
            if one.max > self.output.ids.max:
                # The query-based compactor may name its output after ids of a batch that it leaves as it is.
                lacking &= (there.write_id < one.min) | (there.write_id > one.max)
        if not lacking.any():
            return None
        row = there.at(int(np.argmax(lacking)))
        shown = f"{row.write_id},{row.bucket_property},{row.row_id}"
        return self._proof(f"it does not hold the row {shown}, and the delete of that row is gone")

    def _rows_of_later_deletes(self) -> TooOld | None:
        """A row that a later write deletes, and that nothing that is read holds."""
        entries = [*self._later(EntryKind.DELETE_DELTA), *self._other_minors(EntryKind.DELETE_DELTA)]
        sources = self._intact(entries) if self.output.is_base else ()
        kept = []
        for source in sources:
            if not source.facts.rows:
                continue
            for keys in source.delete_keys():
                named = _visible(keys.write_id, self.write_ids) & (keys.write_id <= self.output.ids.max)
                named &= ~_visible(keys.current, self.write_ids) & (keys.write_id >= max(self.output.ids.min, 0))
                kept.append(keys.select(named))
        wanted = DeletedRows(EventKeys.concat(kept)) if kept else None
        if wanted is None or not len(wanted):
            return None
        inserts = [
            source for source in self._sources[0] if _least(source) <= self.output.ids.max and source.has_row_ids
        ]
        found = 0
        for batch in LocationReader(inserts, (), self.write_ids).merge(None):
            mask = wanted.mask(batch.keys)
            found += 0 if mask is None else int(np.count_nonzero(mask))
        if found >= len(wanted):
            return None
        return self._proof("a later delete is of a row that nothing else here holds")

    def _deletes_of_minor(self, made: Sequence[DataSource]) -> TooOld | None:
        """A delete that the output holds, and nothing that is read."""
        if not any(source.facts.rows for source in made):
            return None
        known = DeletedRows.collect(
            (keys for source in self._sources[1] if source.facts.rows for keys in source.delete_keys()), self.write_ids
        )
        for source in made:
            for keys in source.delete_keys() if source.facts.rows else ():
                wanted = keys.select(_visible(keys.current, self.write_ids) & (keys.current >= self.output.ids.min))
                mask = known.mask(wanted)
                absent = np.ones(len(wanted), dtype=np.bool_) if mask is None else ~mask
                if absent.any():
                    number = int(wanted.current[np.argmax(absent)])
                    return self._proof(f"it holds a delete of write id {number} that nothing else here holds")
        return None

    def _deleted(self) -> DeletedRows:
        """All rows that anything on disk deletes with an id that the output was made of."""
        entries = [
            *self.state.delete_deltas,
            *self._later(EntryKind.DELETE_DELTA),
            *self._other_minors(EntryKind.DELETE_DELTA),
        ]
        if self.state.acid_v1:
            entries += [*self.state.insert_deltas, *self._later(EntryKind.DELTA)]
        sources = self._intact(entries)
        keys = (part for one in sources if one.facts.rows for part in one.delete_keys())
        return DeletedRows.collect(keys, self._output_ids)

    @property
    def _output_ids(self) -> ValidWriteIds:
        """The ids that the output was made of, as far as these lists tell."""
        aborted = self.write_ids.aborted_in(MIN_LONG, self.output.ids.max)
        return replace(ValidWriteIds.as_of(self.output.ids.max), aborted=aborted)

    def _of_later_writes(self) -> tuple[DataSource, ...]:
        """Files with rows of writes that these lists do not show, as written or as compacted without loss."""
        entries = [*self.output.overwrites, *self._later(EntryKind.DELTA), *self._other_minors(EntryKind.DELTA)]
        return self._intact(entries)

    # --- insert-only tables

    def of_insert_only(self) -> TooOld | None:
        """Compare by numbers of rows, and by the statistics of columns where writes are there that may not count."""
        made = self._readable(self.output.entries)
        if not made:
            return None
        inside = WriteIdRange(self.output.ids.min if not self.output.is_base else MIN_LONG, self.output.ids.max)
        live = [entry for entry in (self.state.base, *self.state.deltas) if entry is not None]
        read = [entry for entry in live if inside.min <= _numbers(entry).max <= inside.max]
        # The inputs of a wider compaction that is read may be of this one too.
        wider = [_numbers(entry) for entry in self.state.deltas if _numbers(entry).crosses(inside)]
        for entry in self.state.entries:
            if entry.kind is EntryKind.DELTA and entry.state is EntryState.OBSOLETE:
                own = entry.delta.range
                read += [entry] if inside.covers(own) and any(one.covers(own) for one in wider) else []
        later = [entry for entry in self._later(EntryKind.DELTA) if inside.covers(entry.delta.range)]
        sure = sources_of(self.storage, self.root, self.state, read, self.plain)
        count, least = (sum(source.facts.rows for source in some) for some in (made, sure))
        # A write that these lists leave open is in the output, or was aborted since.
        found = count == least
        if not self.output.resolved:
            found = any(self._are_inputs(made, (*sure, *some)) for some in self._fates(later))
        for entry in () if found else self.output.overwrites:
            after = [one for one in later if one.delta.min_write_id > entry.base.write_id]
            newest = self._intact([entry])
            found = found or any(self._are_inputs(made, (*newest, *some)) for some in self._fates(after))
        if found:
            return None
        return self._proof(f"it holds {count:,} rows, and the directories that are left here other ones ({least:,})")

    def _fates(self, later: Sequence[StateEntry]) -> Iterator[tuple[DataSource, ...]]:
        """The files of those later writes that may have been committed: all, none, or some if they are few."""
        writes: dict[WriteIdRange, list[StateEntry]] = {}
        for entry in later:
            writes.setdefault(entry.delta.range, []).append(entry)
        sources = [self._intact(entries) for entries in writes.values()]
        sizes = [len(sources), 0, *(range(len(sources) - 1, 0, -1) if len(sources) <= _FEW_WRITES else ())]
        for size in dict.fromkeys(sizes):
            for chosen in combinations(sources, size):
                yield tuple(source for some in chosen for source in some)

    def _are_inputs(self, made: Sequence[DataSource], inputs: Sequence[DataSource]) -> bool:
        """Whether the output was made of these files: as many rows, and columns that add up to the same."""
        count, others = (sum(source.facts.rows for source in some) for some in (made, inputs))
        if count != others or not count:
            return count == others
        same = _same_totals(made, inputs)
        return self.output.unaccounted is None if same is None else same

    # --- both

    @property
    def _sources(self) -> tuple[tuple[DataSource, ...], tuple[DataSource, ...]]:
        """The files that this reader opens."""
        if self._live is None:
            self._live = live_sources(self.storage, self.root, self.state)
        return self._live

    def _later(self, kind: EntryKind) -> list[StateEntry]:
        """Deltas that later readers see."""
        return [entry for entry in self.state.entries if entry.kind is kind and entry.state in _LATER]

    def _other_minors(self, kind: EntryKind) -> list[StateEntry]:
        """Halves of other compactions that these lists do not show; they hold all events of their inputs."""
        return [
            one for one in self.state.entries if one.kind is kind and is_unseen(one) and one not in self.output.entries
        ]

    def _intact(self, entries: Iterable[StateEntry]) -> tuple[DataSource, ...]:
        """The files of directories that are not read; one without an end is still being written."""
        found = sources_of(self.storage, self.root, self.state, entries, self.plain)
        return tuple(source for source in found if _is_intact(source))

    def _readable(self, entries: Sequence[StateEntry]) -> tuple[DataSource, ...]:
        """The files of the output; none where one is damaged, as it is until its writer has ended."""
        found = sources_of(self.storage, self.root, self.state, entries, self.plain)
        return found if all(map(_is_intact, found)) else ()

    def _is_finished(self, entries: Sequence[StateEntry], made: Sequence[DataSource]) -> bool:
        """Whether a base is complete: the query-based compactor makes its directory long before the first file."""
        if made or self.output.is_committed:
            return True
        marked = any(is_marker(info.name) for entry in entries for info in entry.files)
        return marked and not any(file.has_rows for entry in entries for file in data_files(entry))

    def _wants(self, write_id: int) -> bool:
        return write_id in self.output.ids and self.write_ids.is_valid(write_id)

    def _may_hold_wanted(self, source: DataSource) -> bool:
        """Whether rows of the output may be some that this reader has to find elsewhere, as far as its tail tells."""
        low, high = source.bounds(updates=False)
        ids = self.output.ids
        lowest = ids.min if low is None else max(low.write_id, ids.min)
        highest = ids.max if high is None else min(high.write_id, ids.max)
        return bool(source.facts.rows) and lowest <= min(highest, self.write_ids.high_watermark)

    def _lacks(self, write_id: int) -> TooOld:
        what = "original files" if write_id == 0 else span(WriteIdRange(write_id, write_id))
        return self._proof(f"it holds rows of {what} that nothing else here holds")

    def _proof(self, why: str) -> TooOld:
        return TooOld(self.output.name, why)


def _numbers(entry: StateEntry) -> WriteIdRange:
    """The ids in a name; a base begins at the beginning."""
    assert entry.range is not None
    return entry.range


def _is_intact(source: DataSource) -> bool:
    try:
        return source.facts.rows >= 0
    except DamagedDataError:
        return False


def _least(source: DataSource) -> int:
    return MIN_LONG if source.min_write_id is None else source.min_write_id


def _before(write_id: int) -> RowId:
    """A key before all rows of a write."""
    return RowId(write_id, _INT32_MIN, MIN_LONG)


def _visible(numbers: np.ndarray, write_ids: ValidWriteIds) -> BoolArray:
    mask = valid_mask(numbers, write_ids)
    return np.ones(len(numbers), dtype=np.bool_) if mask is None else mask


def _among(keys: EventKeys, others: EventKeys) -> BoolArray:
    """Which of the keys are among others."""
    mask = DeletedRows(others).mask(keys) if len(others) else None
    return np.zeros(len(keys), dtype=np.bool_) if mask is None else mask


class _Cursor:
    """A stream of keys in order, of which leading ones are taken."""

    def __init__(self, batches: Iterator[EventBatch]) -> None:
        self._batches = batches
        self.keys = _NO_KEYS
        self.advance()

    def advance(self) -> None:
        """Go on to a batch that is not empty; at the end there are no keys."""
        while not len(self.keys):
            batch = next(self._batches, None)
            if batch is None:
                return
            self.keys = batch.keys

    def take(self, limit: RowId) -> EventKeys:
        """The leading keys at or before the limit."""
        if not len(self.keys):
            return _NO_KEYS
        count = self.keys.not_after(limit)
        taken, self.keys = self.keys.select(slice(0, count)), self.keys.select(slice(count, None))
        self.advance()
        return taken


_NONE = np.zeros(0, dtype=np.int64)
_NO_KEYS = EventKeys(_NONE, _NONE, _NONE, _NONE)


def _aligned(one: Iterator[EventBatch], other: Iterator[EventBatch]) -> Iterator[tuple[EventKeys, EventKeys]]:
    """The keys of two sorted streams, in pairs of parts that hold the same stretch of keys."""
    cursors = _Cursor(one), _Cursor(other)
    while lasts := [cursor.keys.at(-1) for cursor in cursors if len(cursor.keys)]:
        limit = min(lasts)
        yield cursors[0].take(limit), cursors[1].take(limit)


def _same_totals(made: Sequence[DataSource], inputs: Sequence[DataSource]) -> bool | None:
    """Whether whole numbers, or else texts, add up to the same by ORC statistics; None if these are silent."""
    one, other = _totals(made), _totals(inputs)
    if one is None or other is None or len(one) != len(other):
        return None
    for kind in (StatisticsKind.INTEGER, StatisticsKind.STRING):
        pairs = [(left[kind], right[kind]) for left, right in zip(one, other, strict=True)]
        known = [(left, right) for left, right in pairs if left is not None and right is not None]
        if known:
            return all(left == right for left, right in known)
    return None


def _totals(sources: Sequence[DataSource]) -> list[dict[StatisticsKind, tuple[int, int] | None]] | None:
    """Of each column how many values and their sum, by what they are; None where a file does not say."""
    files = [_statistics(source) for source in sources if source.facts.rows]
    if None in files or len({len(one or ()) for one in files}) > 1:
        return None
    kinds = (StatisticsKind.INTEGER, StatisticsKind.STRING)
    return [
        {kind: _total(column, kind) for kind in kinds} for column in zip(*(one or () for one in files), strict=True)
    ]


def _total(column: Sequence[ColumnStatistics], kind: StatisticsKind) -> tuple[int, int] | None:
    found = [one.of(kind) for one in column]
    sums = [None if one is None else one.sum for one in found]
    if any(one.count is None for one in column) or any(one is None for one in sums):
        return None
    return sum(one.count or 0 for one in column), sum(one or 0 for one in sums)


#: Rows, and the sums of their write ids, bucket properties and row numbers.
_Sums = tuple[int, int, int, int]


def _key_sums(source: DataSource) -> _Sums | None:
    """The sums of a file; None where its tail does not hold them."""
    rows = source.facts.rows
    if not source.facts.is_acid:
        bucket = source.raw_bucket or 0
        return rows, rows * source.raw_write_id, rows * bucket, (2 * source.row_offset + rows - 1) * rows // 2
    columns = _statistics(source)
    if columns is None:
        return None
    found = [column.of(StatisticsKind.INTEGER) for column in columns[_KEYS]]
    sums = [None if one is None else one.sum for one in found]
    if any(one is None for one in sums) or any(column.count != rows for column in columns[_KEYS]):
        return None
    write_ids, buckets, numbers = (one or 0 for one in sums)
    return rows, write_ids, buckets, numbers


def _total_of(sums: Sequence[_Sums | None]) -> _Sums:
    rows, write_ids, buckets, numbers = (sum(column) for column in zip((0, 0, 0, 0), *filter(None, sums), strict=True))
    return rows, write_ids, buckets, numbers


def _statistics(source: DataSource) -> Sequence[ColumnStatistics] | None:
    with source.open() as file:
        known = isinstance(file, OrcFile) and file.tail.row_index_stride
        return file.tail.statistics if isinstance(file, OrcFile) and known else None
