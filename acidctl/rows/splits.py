"""An answer in parts: its rows divided at stripes, to be read by several threads, or by other processes.

The parts concatenated in their order are the whole, row by row. A bucket is cut between row ids, so that each part is a
merge of its own: it opens only the files that may hold its row ids, and holds only the deletes among them. A file whose
rows have no ids is cut between its stripes. Small buckets and partitions are put together.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from acidctl.fileformats.plain import PlainFiles
from acidctl.format.events import KeySpan, RowId, as_arrow
from acidctl.format.names import SIDE_FILE_SUFFIX
from acidctl.format.write_ids import ValidWriteIds
from acidctl.rows.conditions import in_partition
from acidctl.rows.export import Timestamps, public_batch, public_schema, row_id_array
from acidctl.rows.merge import LaterDeletes
from acidctl.rows.predicate import Constant, Predicate
from acidctl.rows.projection import Projection
from acidctl.rows.scan import Findings, Group, LocationReader, RowBatch
from acidctl.rows.source import BATCH_ROWS, DataSource, FileFacts, live_sources
from acidctl.state.entries import AcidState, StateEntry
from acidctl.storage.local import LocalStorage, whole_path
from acidctl.storage.port import Storage
from acidctl.storage.resolve import options_elsewhere, resolve
from acidctl.types.hive_types import Field
from acidctl.values import dataclass

#: Bytes of files in a part that another process reads.
SPLIT_BYTES = 64 << 20
#: The same of a thread's: what waits in memory while an earlier part is delivered is some times as much.
THREAD_BYTES = 8 << 20
# What opening a file costs, in bytes read meanwhile: many small files make a part too.
_OPEN_BYTES = 1 << 18
# Delete events of a location that are collected once, and not again for each part.
_SHARED_DELETES = 1 << 21


class Place(NamedTuple):
    """How this process, and with `options` another one, opens a table; they may hold secrets."""

    url: str
    options: Mapping[str, Any]


class Located(NamedTuple):
    """A location of the answer, and how it is read here; `values` has an array of one for each partition column."""

    partition: str
    root: str
    state: AcidState
    values: tuple[pa.Array, ...]
    projection: Projection  # with what the values leave of the condition
    reader: LocationReader

    def checked(self) -> Located:
        """Have doubled rows noticed where the tails of files say that there may be some: then their keys are read."""
        found, write_ids = self.reader.findings, self.reader.write_ids
        for group in self.reader.groups() if found is not None else ():
            if group.merged and not group.updates and found is not None and found.overlap(group.sources):
                for _ in LocationReader(group.sources, (), write_ids, findings=found).merge(None):
                    pass
        return self


class Piece(NamedTuple):
    """A group of files of a location, or a span of one; `bytes` are those of its files."""

    place: Located
    group: Group
    bytes: int

    def batches(self, batch_rows: int, *, threads: bool = False) -> Iterator[RowBatch]:
        """Its rows, in order."""
        # A reader of its own: each remembers the deletes that it has read last.
        return replace(self.place.reader).read(self.group, self.place.projection, batch_rows, threads=threads)


@dataclass(frozen=True, slots=True)
class Selection:
    """What is delivered of the rows that match `where`: columns by their places, data columns first, then `partition`
    columns.
    """

    fields: tuple[Field, ...]
    places: tuple[int, ...]
    projection: Projection
    where: Predicate | None = None

    def in_partition(self, values: Sequence[pa.Array]) -> Projection | None:
        """What is read of a partition of these values; None where they alone contradict the condition."""
        if self.where is None:
            return self.projection
        left = in_partition(self.where.root, dict(enumerate(values, len(self.projection.columns.fields))))
        if isinstance(left, Constant):
            return self.projection if left.value else None
        return replace(self.projection, where=left)

    def delivered(self, batch: RowBatch, values: Sequence[pa.Array]) -> tuple[pa.Array, ...]:
        """The columns of a batch; `values` has those of its partition, an array of one value each."""
        own = len(self.projection.columns.fields)
        arrays = dict(zip(self.projection.wanted, batch.columns, strict=True))
        return tuple(
            arrays[place] if place < own else pa.repeat(values[place - own][0], batch.rows) for place in self.places
        )


def row_ids_of(batch: RowBatch) -> tuple[pa.Array, pa.Array, pa.Array] | None:
    """Write id, bucket property and row number of each row; None where rows have no ids."""
    keys = batch.keys
    if keys is None:
        return None
    return as_arrow(keys.write_id), as_arrow(keys.bucket.astype(np.int32)), as_arrow(keys.row_id)


def packs(locations: Iterable[Located], split_bytes: int | None) -> Iterator[tuple[Piece, ...]]:
    """The whole answer in parts of about `split_bytes`, the pieces of each one after the other.

    None makes a part of each group. What comes before an error is delivered before it is raised.
    """
    pack: list[Piece] = []
    size = 0
    failure: Exception | None = None
    pieces = _all_pieces(locations, split_bytes)
    while True:
        try:
            piece = next(pieces, None)
        except Exception as error:
            piece, failure = None, error
        if pack and (piece is None or split_bytes is None or size + piece.bytes > split_bytes):
            yield tuple(pack)
            pack, size = [], 0
        if failure is not None:
            raise failure
        if piece is None:
            return
        pack.append(piece)
        size += piece.bytes


def _all_pieces(locations: Iterable[Located], split_bytes: int | None) -> Iterator[Piece]:
    for location in locations:
        for group in location.reader.groups():
            matching = location.reader.matching(group, location.projection)
            if matching.sources:
                yield from _pieces(location, matching, split_bytes)


def _pieces(place: Located, group: Group, split_bytes: int | None) -> Iterator[Piece]:
    """The group in spans of about `split_bytes` each, in order."""
    size = sum(source.bytes + _OPEN_BYTES for source in group.sources)
    cuts = _cuts(group, split_bytes) if split_bytes is not None and size > split_bytes else ()
    if not cuts:
        yield Piece(place, group, size)
        return
    deletes = place.reader.deletes if group.merged else ()
    shared = None
    if sum(source.facts.rows for source in deletes) <= _SHARED_DELETES:
        collect = partial(replace(place.reader).deleted_rows, group.sources, updates=group.updates)
        shared = LaterDeletes(collect, at_once=True)
    for lower, upper in zip((None, *cuts), (*cuts, None), strict=True):
        span = KeySpan(lower, upper)
        inside = tuple(s for s in group.sources if not group.merged or span.may_hold(*s.bounds(updates=group.updates)))
        if inside:
            part = replace(group, sources=inside, span=span, deleted=shared)
            yield Piece(place, part, size // (len(cuts) + 1))


def _cuts(group: Group, split_bytes: int) -> tuple[RowId, ...]:
    """Row ids at which a part ends and the next begins: where stripes begin, as far as statistics tell.

    None where the stripes of a file are not in the order of row ids: whoever merges all of it will notice.
    """
    if not group.merged and group.sources[0].facts.is_acid:
        return ()
    starts: list[tuple[RowId, int]] = []
    for source in group.sources:
        if source.bytes <= min(_OPEN_BYTES, split_bytes):
            continue
        stripes = source.stripes()
        known = [stripe for stripe in stripes if stripe is not None]
        ordered = all(one[0] <= other[1] for one, other in pairwise(known))
        if len(known) < len(stripes) or not ordered:
            return ()
        starts += [(low, size) for low, _, size in known]
    cuts: list[RowId] = []
    size = 0
    for low, width in sorted(starts):
        if size + width > split_bytes and size and (not cuts or cuts[-1] < low):
            cuts.append(low)
            size = 0
        size += width
    # Nothing lies before the first row id of all.
    return tuple(cut for cut in cuts if cut > min(starts)[0])


class _File(NamedTuple):
    """What the driver knows of a file by its path below the location."""

    facts: FileFacts
    offset: int


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece as it travels: `state` has the directories and files that it needs, and no others."""

    root: str
    state: AcidState
    values: tuple[pa.Array, ...]
    projection: Projection
    files: Mapping[str, _File]
    deletes: Mapping[str, _File]
    group: Group

    def batches(self, split: Split, batch_rows: int, findings: Findings | None) -> Iterator[RowBatch]:
        """Its rows, read where this process is."""
        storage, root = resolve(self.root if split.local else split.place.url, split.place.options)
        inserts, deletes = live_sources(storage, root if split.local else self.root, self.state, split.plain)
        sources = tuple(one.known(*self.files[one.path]) for one in inserts if one.path in self.files)
        events = [one.known(*self.deletes[one.path]) for one in deletes if one.path in self.deletes]
        reader = LocationReader(sources, events, split.write_ids, not self.state.insert_only, findings)
        return reader.read(replace(self.group, sources=sources), self.projection, batch_rows, threads=False)


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a snapshot's answer that any process can read, from a pickle too.

    `rows` is how many are stored in its files before deletes, whole files counted; `bytes` is how much of them is its
    own, roughly. It holds what opens the storage, secrets too, and shows none of that.
    """

    rows: int
    bytes: int
    schema: pa.Schema
    selection: Selection = field(repr=False)
    write_ids: ValidWriteIds = field(repr=False)
    form: Timestamps = field(repr=False)
    row_id: bool = field(repr=False)
    plain: PlainFiles = field(repr=False)
    place: Place = field(repr=False)
    local: bool = field(repr=False)
    parts: tuple[_Part, ...] = field(repr=False)

    def to_batches(self, *, batch_rows: int = BATCH_ROWS, findings: Findings | None = None) -> pa.RecordBatchReader:
        """Its rows as Arrow record batches, as `Snapshot.to_batches` gives them for the whole.

        Why they may come twice is added to `findings`, as far as it shows on the way.
        """
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(batch_rows, findings))

    def _batches(self, batch_rows: int, findings: Findings | None) -> Iterator[pa.RecordBatch]:
        for part in self.parts:
            for batch in part.batches(self, batch_rows, findings):
                ids = row_id_array(row_ids_of(batch), batch.rows) if self.row_id else None
                columns = self.selection.delivered(batch, part.values)
                yield public_batch(columns, self.selection.fields, ids, self.schema, self.form)


class Splitter(NamedTuple):
    """What all splits of an answer have in common."""

    storage: Storage
    place: Place
    write_ids: ValidWriteIds
    selection: Selection
    form: Timestamps
    row_id: bool
    plain: PlainFiles

    def splits(self, locations: Iterable[Located], split_bytes: int) -> Iterator[Split]:
        """The splits in the order of the answer."""
        local = isinstance(self.storage, LocalStorage)
        # Other processes may stand in another directory.
        url = whole_path(self.storage, self.place.url) if local else self.place.url
        place = Place(url, options_elsewhere(url, self.place.options, os.environ))
        schema = public_schema(self.selection.fields, self.form, row_id=self.row_id)
        for pack in packs(locations, split_bytes):
            yield Split(
                sum(source.facts.rows for piece in pack for source in piece.group.sources),
                sum(piece.bytes for piece in pack),
                schema,
                self.selection,
                self.write_ids,
                self.form,
                self.row_id,
                self.plain,
                place,
                local,
                tuple(self._part(piece) for piece in pack),
            )

    def _part(self, piece: Piece) -> _Part:
        place, group = piece.place, piece.group
        deletes: Sequence[DataSource] = ()
        if group.merged:
            deletes = place.reader.deletes_for(group.sources, group.updates, group.span)
        files = {one.path: _File(one.facts, 0 if one.facts.is_acid else one.row_offset) for one in group.sources}
        events = {one.path: _File(one.facts, 0) for one in deletes}
        root, state = whole_path(self.storage, place.root), _narrowed(place.state, {*files, *events})
        group = replace(group, sources=(), deleted=None)
        return _Part(root, state, place.values, place.projection, files, events, group)


def _narrowed(state: AcidState, paths: set[str]) -> AcidState:
    """The state with these files alone, their side files among them."""

    def narrowed(entry: StateEntry) -> StateEntry:
        kept = tuple(
            info for info in entry.files if info.path in paths or info.path.removesuffix(SIDE_FILE_SUFFIX) in paths
        )
        return replace(entry, files=kept, because_of=())

    entries = {entry.name: narrowed(entry) for entry in state.entries}
    kept = {name: entry for name, entry in entries.items() if entry.files}
    return replace(
        state,
        base=None if state.base is None else kept.get(state.base.name),
        deltas=tuple(kept[entry.name] for entry in state.deltas if entry.name in kept),
        originals=tuple(info for info in state.originals if info.path in paths),
        entries=tuple(kept.values()),
        notes=(),
        doubts=(),
        lonely={},
    )
