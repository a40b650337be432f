"""What a reader with a given snapshot sees of a table: the plan, the number of rows, the rows.

A `Snapshot` joins the states of all locations (which directories are read, and why others are not) with the files
behind them. Making one opens no data file; asking for its columns opens one tail per partition; only rows, counts and
digests read data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa

from acidctl.errors import MissingDependencyError, UsageError
from acidctl.fileformats.plain import PlainFiles
from acidctl.findings import AcidctlWarning, Finding
from acidctl.format.names import parse_partition
from acidctl.orc.schema_evolution import fit_array
from acidctl.rows.export import ROW_ID, Timestamps, has_timestamps, public_batch, public_schema, row_id_array
from acidctl.rows.outline import Outline, bytes_of
from acidctl.rows.pipeline import cores, ordered_streams
from acidctl.rows.predicate import Predicate, no_column, parse
from acidctl.rows.projection import Projection
from acidctl.rows.scan import Findings, LocationReader
from acidctl.rows.source import BATCH_ROWS, DataSource, live_sources
from acidctl.rows.splits import (
    SPLIT_BYTES,
    THREAD_BYTES,
    Located,
    Piece,
    Place,
    Selection,
    Split,
    Splitter,
    packs,
    row_ids_of,
)
from acidctl.rows.table_view import PartitionState
from acidctl.storage.locations import no_partition, parse_filter
from acidctl.types.digest import Digest
from acidctl.types.hive_types import (
    Dialect,
    Field,
    HiveType,
    Primitive,
    StructType,
    TypeKind,
    is_nameless,
    kinds,
    plan_fit,
)
from acidctl.values import dataclass

ROW_ID_STRUCT = StructType(
    (
        Field("writeid", Primitive(TypeKind.BIGINT)),
        Field("bucketid", Primitive(TypeKind.INT)),
        Field("rowid", Primitive(TypeKind.BIGINT)),
    )
)
_STRING = Primitive(TypeKind.STRING)
_KEPT_PARTITIONS = 64
_LEAST_ROWS = 256
_NO_PANDAS = "pip install pandas; or take to_table()."
_FALSE = frozenset({"false", "no", "off", "0", ""})


@dataclass(frozen=True, slots=True)
class Rows:
    """Visible rows of one partition as columns; `row_ids` are write id, bucket property, row id, or None."""

    partition: str
    names: tuple[str, ...]
    types: tuple[HiveType, ...]
    columns: tuple[pa.Array, ...]
    count: int
    row_ids: tuple[pa.Array, pa.Array, pa.Array] | None

    @property
    def bytes(self) -> int:
        """What the columns take in memory."""
        return sum(column.nbytes for column in self.columns)

    def head(self, count: int) -> Rows:
        """At most the first `count` rows."""
        return self if count >= self.count else next(self.parts(count))

    def parts(self, most: int) -> Iterator[Rows]:
        """The same rows, at most so many at a time."""
        for start in range(0, self.count, max(most, 1)):
            count = min(most, self.count - start)
            ids = self.row_ids
            cut = (
                None
                if ids is None
                else (ids[0].slice(start, count), ids[1].slice(start, count), ids[2].slice(start, count))
            )
            yield replace(self, columns=tuple(c.slice(start, count) for c in self.columns), count=count, row_ids=cut)

    def with_flat_row_id(self) -> tuple[tuple[HiveType, ...], tuple[pa.Array, ...]]:
        """Types and columns with the three parts of ROW__ID in front, for forms without nested values."""
        ids = self.row_ids or tuple(pa.nulls(self.count, pa.int64()) for _ in ROW_ID_STRUCT.fields)
        return (*(field.type for field in ROW_ID_STRUCT.fields), *self.types), (*ids, *self.columns)

    def with_row_id(self) -> tuple[tuple[str, ...], tuple[HiveType, ...], tuple[pa.Array, ...]]:
        """Names, types and columns with ROW__ID in front."""
        ids = row_id_array(self.row_ids, self.count)
        return (ROW_ID, *self.names), (ROW_ID_STRUCT, *self.types), (ids, *self.columns)


def _limited(stream: Iterator[Rows], limit: int | None) -> Iterator[Rows]:
    """The first `limit` rows of a stream (None: all), which is read no further than that."""
    left = limit
    while left is None or left > 0:
        rows = next(stream, None)
        if rows is None:
            return
        if left is not None:
            rows, left = rows.head(left), left - rows.count
        yield rows


class Snapshot(Outline):
    """A reader's view of a table; made by `Table.snapshot`.

    `partitions` are those that Hive reads, with their states, and `lists` the reader's, already those of ACID v1 where
    the table is one. Columns are those of `--schema`, else of the newest visible file, see `columns`.
    """

    def __init__(self, outline: Outline, place: tuple[str, Mapping[str, Any]], exporter: Callable[..., Any]) -> None:
        """`place` is the URL and the storage options by which other processes open it; `exporter` carries out
        `export`.
        """
        known = outline.findings
        super().__init__(
            outline._storage, outline.location, outline.table, known, outline._reader_of, strict=outline.strict
        )
        #: Whether each finding is warned of when rows have been read; commands show them in their own way.
        self.warns = False
        self._warned: set[Finding] = set()
        self._watch = outline._watch
        self._place = Place(*place)
        self._given = outline.table.schema
        self._plain = PlainFiles(self._given)
        self._noticed = Findings(self._known, strict=outline.strict)
        self._kept: dict[str, tuple[tuple[DataSource, ...], tuple[DataSource, ...]]] = {}
        self._exporter = exporter

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Why rows of this answer may be missing or come twice: what the listing tells (it is among the `warnings`),
        and what was noticed in the rows that have been read or counted so far.
        """
        return tuple(self._noticed)

    def _warn(self) -> None:
        """Warn of what was not warned of yet."""
        for finding in self._noticed if self.warns else ():
            if finding not in self._warned:
                self._warned.add(finding)
                text = f"rows of {self.location} may be missing or come twice: {finding} {finding.remedy}"
                warnings.warn(AcidctlWarning(text), stacklevel=3)

    def add_finding(self, finding: Finding) -> None:
        """Take in what another process has noticed in the rows of a split."""
        self._noticed.add(finding)

    @cached_property
    def columns(self) -> StructType:
        """The data columns, by position.

        Given by `--schema`, else those of the newest visible file of the partition with the widest schema, ties broken
        by the newest write: a column added to a table shows as NULL in partitions that were never written since.
        """
        if self._given is not None:
            # A column list may name the partition columns as well.
            partition = {name.lower() for name in self.partition_names}
            return StructType(tuple(f for f in self._given.columns.fields if f.name.lower() not in partition))
        widest = max(self._newest_files, key=lambda newest: (len(newest[0].fields), newest[1]), default=None)
        return StructType(()) if widest is None else widest[0]

    @cached_property
    def _newest_files(self) -> tuple[tuple[StructType, int, Dialect], ...]:
        """Of each partition that has files the columns, write id and dialect of its newest one."""
        found = (_newest(self._sources(partition)[0]) for partition in self.partitions)
        return tuple(newest for newest in found if newest is not None)

    @cached_property
    def _dialect(self) -> Dialect:
        """Whose rules fit older files: Parquet's, or of the latest Hive that wrote the newest file of a partition."""
        written = {dialect for _, _, dialect in self._newest_files}
        return written.pop() if len(written) == 1 else Dialect.HIVE4

    def _dialect_of(self, partitions: Iterable[PartitionState]) -> Dialect:
        """The same for some partitions; files of others are opened only where it makes a difference."""
        found = set()
        for partition in partitions:
            newest = _newest(self._sources(partition)[0])
            if newest is not None and newest[2] is Dialect.HIVE4:
                return Dialect.HIVE4
            found |= set() if newest is None else {newest[2]}
        files = (source.facts for partition in partitions for source in self._sources(partition)[0])
        same = len(found) == 1 and all(facts.columns == self.columns for facts in files if facts.rows)
        return found.pop() if same else self._dialect if found else Dialect.HIVE4

    @cached_property
    def partition_names(self) -> tuple[str, ...]:
        """Names of the partition columns, as the folders spell them."""
        for partition in self.partitions:
            if partition.partition:
                return tuple(key for key, _ in parse_partition(partition.partition))
        return ()

    @cached_property
    def partition_columns(self) -> tuple[Field, ...]:
        """The partition columns; strings unless `--schema` gives their types."""
        known: dict[str, HiveType] = {}
        if self._given is not None:
            fields = (*self._given.columns.fields, *self._given.partition_columns)
            known = {field.name.lower(): field.type for field in fields}
        return tuple(Field(name, known.get(name.lower(), _STRING)) for name in self.partition_names)

    @property
    def fields(self) -> tuple[Field, ...]:
        """All columns in answer order: data columns, then partition columns."""
        return (*self.columns.fields, *self.partition_columns)

    def count(self, where: str | Predicate | None = None) -> int:
        """How many rows are visible, or match a condition."""
        condition = self.condition(where)
        return sum(self.count_of(partition, condition) for partition in self.partitions)

    def count_of(self, partition: PartitionState, where: str | Predicate | None = None) -> int:
        """How many rows of a partition are visible, or match a condition."""
        if where is None:
            count = self._reader(partition).count()
        else:
            count = sum(rows.count for rows in self._read(self._selection((), where, (partition,)), (partition,)))
        self._finished(partition)
        self._warn()
        return count

    def _finished(self, partition: PartitionState) -> None:
        if self._watch is not None:
            self._watch.finish([one.name for some in self._sources(partition) for one in some], bytes_of(partition))

    def digest(self) -> str:
        """The digest of all visible rows with their row ids: `v1:<hex>`, independent of order and of compaction."""
        return self.count_and_digest()[1]

    def count_and_digest(self, where: str | Predicate | None = None) -> tuple[int, str]:
        """Both in one pass over the rows, all or those that match a condition."""
        count, total = 0, Digest()
        for rows in self.rows(where=where):
            count += rows.count
            total.update(rows.row_ids, rows.columns, rows.types)
        return count, total.hexdigest()

    def rows(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | Predicate | None = None,
        partitions: Sequence[str] = (),
        batch_rows: int = BATCH_ROWS,
        threads: int | None = None,
        limit: int | None = None,
    ) -> Iterator[Rows]:
        """All visible rows: by partition path, bucket, then ROW__ID; `columns` names what to deliver, in that order.

        Only those that match `where`, see `condition`, and of them the first `limit`. `partitions` narrows them as
        `--partition` does: `ds=2026-01-*/hr=7`. `threads` read parts of the answer side by side (None: one for each
        core, and one alone for a limit).
        """
        for name, value, least in (("limit", limit, 0), ("batch_rows", batch_rows, 1), ("threads", threads, 1)):
            if value is not None and value < least:
                raise UsageError(f"{name}={value}: expected a whole number from {least} on")
        chosen = self._chosen(partitions)
        selection = self._selection(columns, where, chosen)
        self._warn()
        for rows in _limited(self._read(selection, chosen, batch_rows, threads, limit), limit):
            self._warn()
            yield rows
        self._warn()
        if self._watch is not None:
            self._watch.end()

    def _read(
        self,
        selection: Selection,
        partitions: Iterable[PartitionState],
        batch_rows: int = BATCH_ROWS,
        threads: int | None = None,
        limit: int | None = None,
    ) -> Iterator[Rows]:
        # A few rows need no other thread to read on, and no more rows at a time than are wanted.
        few = limit is not None and limit < BATCH_ROWS and selection.where is None
        batch_rows = min(batch_rows, max(limit or 0, _LEAST_ROWS)) if few else batch_rows
        workers = threads or (cores() if limit is None else 1)
        names = tuple(field.name for field in selection.fields)
        types = tuple(field.type for field in selection.fields)

        def rows(pack: tuple[Piece, ...]) -> Iterator[Rows]:
            for piece in pack:
                # What could not be divided is decoded ahead.
                large = not few and (workers == 1 or piece.bytes > 2 * THREAD_BYTES)
                for batch in piece.batches(batch_rows, threads=large):
                    delivered = selection.delivered(batch, piece.place.values)
                    yield Rows(piece.place.partition, names, types, delivered, batch.rows, row_ids_of(batch))

        found = packs(self._located(partitions, selection), THREAD_BYTES if workers > 1 else None)
        streams = map(rows, found)
        if workers == 1:
            yield from chain.from_iterable(streams)
        else:
            yield from ordered_streams(streams, workers=workers, size=lambda some: some.bytes)

    def splits(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | Predicate | None = None,
        partitions: Sequence[str] = (),
        row_id: bool = False,
        timestamps: str = "auto",
        split_bytes: int = SPLIT_BYTES,
    ) -> tuple[Split, ...]:
        """The same rows in parts of about `split_bytes` that other processes can read, each from a pickle.

        Their batches one after the other are those of `to_batches`. The end of each file is read once, here; where two
        files may have the same row ids, these are read too, and what comes twice is in `findings`.
        """
        chosen = self._chosen(partitions)
        selection = self._selection(columns, where, chosen)
        form = self._timestamp_form(timestamps, selection.fields)
        write_ids = self.lists.effective_write_ids
        splitter = Splitter(self._storage, self._place, write_ids, selection, form, row_id, self._plain)
        located = (one.checked() for one in self._located(chosen, selection))
        found = tuple(splitter.splits(located, split_bytes))
        self._warn()
        return found

    def _selection(
        self, columns: Sequence[str] | None, where: str | Predicate | None, partitions: Iterable[PartitionState]
    ) -> Selection:
        fields, places = self.fields, self._positions(columns)
        data = tuple(place for place in places if place < len(self.columns.fields))
        chosen = tuple(fields[place] for place in places)
        selection = Selection(chosen, places, Projection(self.columns, data), self.condition(where))
        if where is not None:
            partitions = [one for one in partitions if selection.in_partition(self._partition_values(one)) is not None]
        return replace(selection, projection=replace(selection.projection, dialect=self._dialect_of(partitions)))

    def _located(self, partitions: Iterable[PartitionState], selection: Selection) -> Iterator[Located]:
        """The partitions whose values do not contradict the condition; no file of another is opened."""
        for partition in partitions:
            root, values = partition.location.listing.root, self._partition_values(partition)
            if (projection := selection.in_partition(values)) is not None:
                yield Located(partition.partition, root, partition.state, values, projection, self._reader(partition))

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: str | Predicate | None = None,
        partitions: Sequence[str] = (),
        row_id: bool = False,
        limit: int | None = None,
        batch_rows: int = BATCH_ROWS,
        timestamps: str = "auto",
        threads: int | None = None,
    ) -> pa.RecordBatchReader:
        """All visible rows as Arrow record batches of one schema, as a stream; ROW__ID comes first when asked for.

        `timestamps` is "ns", "us", "exact" (a struct of seconds and nanos), or "auto": nanoseconds where every file
        fits, else microseconds. A value that the form cannot hold raises UsageError when its batch is read.
        """
        condition = self.condition(where)
        fields = [self.fields[position] for position in self._positions(columns)]
        form = self._timestamp_form(timestamps, fields)
        schema = public_schema(fields, form, row_id=row_id)

        def batches() -> Iterator[pa.RecordBatch]:
            for rows in self.rows(
                columns, where=condition, partitions=partitions, batch_rows=batch_rows, threads=threads, limit=limit
            ):
                ids = row_id_array(rows.row_ids, rows.count) if row_id else None
                yield public_batch(rows.columns, fields, ids, schema, form)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def to_table(self, columns: Sequence[str] | None = None, **how: Any) -> pa.Table:
        """All visible rows as one Arrow table; `how` are the arguments of `to_batches`."""
        return self.to_batches(columns, **how).read_all()

    def to_pandas(self, columns: Sequence[str] | None = None, **how: Any) -> Any:
        """All visible rows as a pandas DataFrame of Arrow types, which keep NULLs, decimals and moments as they are.

        `how` are the arguments of `to_batches`. MissingDependencyError without pandas; UsageError for unions, which
        pandas has no place for.
        """
        try:
            import pandas
        except ImportError:
            raise MissingDependencyError("to_pandas needs pandas, which is not installed", hint=_NO_PANDAS) from None
        for position in self._positions(columns):
            field = self.fields[position]
            if TypeKind.UNION in kinds(field.type):
                raise UsageError(f"pandas cannot hold the union in column {field.name}", hint="Leave it out: columns=.")
        return self.to_table(columns, **how).to_pandas(types_mapper=pandas.ArrowDtype)

    def export(self, to: str, columns: Sequence[str] | None = None, **how: Any) -> Mapping[str, Any]:
        """Write all visible rows to a file or a directory, on any storage; see `acidctl.exporting.run.ExportReport`.

        `how` are the fields of `ExportOptions`, and `where`, `row_id`, `limit` and `strict` as for `acidctl snapshot`.
        """
        warns, self.warns = self.warns, self.warns and not how.get("strict")
        try:
            report: Mapping[str, Any] = self._exporter(self, to, columns, **how)
        finally:
            self.warns = warns
        self._warn()
        return report

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All visible rows for whoever speaks Arrow's C stream interface; each call reads them anew."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The schema of that stream."""
        return self.to_batches().schema.__arrow_c_schema__()

    def condition(self, where: str | Predicate | None) -> Predicate | None:
        """A condition as in Hive's WHERE, bound to the columns of this table; UsageError for what it cannot be."""
        if isinstance(where, str):
            return parse(where, self.columns.fields, self.partition_columns)
        return where

    def _chosen(self, partitions: Sequence[str]) -> tuple[PartitionState, ...]:
        filters = [parse_filter(text) for text in ((partitions,) if isinstance(partitions, str) else partitions)]
        chosen = tuple(part for part in self.partitions if any(item.selects_text(part.partition) for item in filters))
        if filters and not chosen:
            raise no_partition(self.location, filters)
        return chosen if filters else self.partitions

    def _timestamp_form(self, asked: str, fields: Sequence[Field]) -> Timestamps:
        if asked != "auto":
            try:
                return Timestamps(asked)
            except ValueError:
                raise UsageError(f"timestamps={asked!r} is none of auto, ns, us, exact") from None
        wide = any(has_timestamps(field.type) for field in fields) and self._is_wide
        return Timestamps.MICROSECONDS if wide else Timestamps.NANOSECONDS

    @cached_property
    def _is_wide(self) -> bool:
        """Whether some file, or some partition's value, has moments that nanoseconds since 1970 may not hold."""
        for partition in self.partitions:
            if any(pa.types.is_struct(value.type) for value in self._partition_values(partition)):
                return True
            if any(source.is_wide() for source in self._sources(partition)[0]):
                return True
        return False

    def column_names(self, columns: Sequence[str] | None = None, *, row_id: bool = False) -> tuple[str, ...]:
        """Names of the columns that `rows(columns)` delivers, ROW__ID in front when asked for."""
        names = tuple(self.fields[position].name for position in self._positions(columns))
        return (ROW_ID, *names) if row_id else names

    def _positions(self, columns: Sequence[str] | None) -> tuple[int, ...]:
        fields = self.fields
        if columns is None:
            return tuple(range(len(fields)))
        numbered = list(enumerate(fields))[::-1]
        # Files of other writers may hold names that differ in case alone.
        places = {field.name.lower(): i for i, field in numbered} | {field.name: i for i, field in numbered}
        columns = (columns,) if isinstance(columns, str) else columns
        found = [places.get(name, places.get(name.lower())) for name in columns]
        for name, place in zip(columns, found, strict=True):
            if place is None:
                known = ", ".join(field.name for field in fields) or "none"
                raise UsageError(no_column(name, (field.name for field in fields)), hint=f"The columns are: {known}.")
        return tuple(place for place in found if place is not None)

    def _partition_values(self, partition: PartitionState) -> tuple[pa.Array, ...]:
        """One array of one value per partition column, typed as Hive types the folder's text."""
        texts = {key.lower(): value for key, value in parse_partition(partition.partition)}
        values = []
        for column in self.partition_columns:
            text = texts.get(column.name.lower())
            if column.type.kind is TypeKind.BOOLEAN:
                # Hive's PrimitiveObjectInspectorUtils.getBoolean, not ORC's conversion, types a folder's text.
                values.append(pa.array([None if text is None else text.lower() not in _FALSE], type=pa.bool_()))
            else:
                plan = plan_fit(_STRING, column.type, where=column.name)
                # Names of folders need not be UTF-8 on local disks, and are treated as strings in files are.
                name = None if text is None else text.encode("utf-8", "surrogateescape")
                values.append(fit_array(pa.array([name], type=pa.binary()).view(pa.string()), plan))
        return tuple(values)

    def _sources(self, partition: PartitionState) -> tuple[tuple[DataSource, ...], tuple[DataSource, ...]]:
        """Insert and delete sources; those of the last partitions are kept, with the tails they have read."""
        known = self._kept.get(partition.partition)
        if known is None:
            known = live_sources(self._storage, partition.location.listing.root, partition.state, self._plain)
            while len(self._kept) >= _KEPT_PARTITIONS:
                self._kept.pop(next(iter(self._kept)))
            self._kept[partition.partition] = known
        return known

    def _reader(self, partition: PartitionState) -> LocationReader:
        inserts, deletes = self._sources(partition)
        if self._watch is not None:
            self._watch.attach((*inserts, *deletes))
        return LocationReader(
            inserts,
            deletes,
            self.lists.effective_write_ids,
            row_ids=not partition.state.insert_only,
            findings=self._noticed.of(partition.partition),
        )


def _newest(sources: Sequence[DataSource]) -> tuple[StructType, int, Dialect] | None:
    """What the newest file with rows tells; an empty file answers when there is no other.

    Where it has placeholder names, an older file of as many columns lends its names.
    """
    newest_first = sorted(sources, key=lambda source: source.max_write_id, reverse=True)
    # A file of Hive 2 that holds nothing but deletes has no columns at all.
    telling = (source for source in newest_first if source.facts.rows and source.facts.columns.fields)
    chosen = next(telling, newest_first[0] if newest_first else None)
    if chosen is None:
        return None
    columns = chosen.facts.columns
    if is_nameless(columns):
        others = (source.facts.columns for source in newest_first)
        named = (o for o in others if len(o.fields) == len(columns.fields) and not is_nameless(o))
        # An UPDATE of Hive 2 counts from `_col1`; the names mean nothing, so they may as well be regular.
        regular = tuple(f"_col{i}" for i in range(len(columns.fields)))
        names = next((other.names for other in named), regular)
        pairs = zip(names, columns.fields, strict=True)
        columns = StructType(tuple(Field(name, field.type) for name, field in pairs))
    return columns, chosen.max_write_id, chosen.facts.dialect
