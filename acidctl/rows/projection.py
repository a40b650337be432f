"""What is read of a file for a reader's columns: which of the file's columns and stripes, and which rows are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from acidctl.fileformats.plain import RowFile
from acidctl.format.events import EventBatch, KeySpan, keys_of
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.schema_evolution import fit_array, null_array
from acidctl.rows.conditions import mask
from acidctl.rows.predicate import Node, data_places
from acidctl.types.hive_types import Dialect, StructType, plan_fit


@dataclass(frozen=True, slots=True)
class Projection:
    """The reader's columns, which of them to deliver (positions, in output order), and whose rules fit files.

    Only rows that match `where` are delivered, a condition on data columns and ROW__ID (`conditions.in_partition`).
    """

    columns: StructType
    wanted: tuple[int, ...]
    dialect: Dialect = Dialect.HIVE4
    where: Node | None = None

    def wider(self) -> Projection:
        """With the columns that only the condition reads behind those that are wanted."""
        if self.where is None:
            return self
        read = data_places(self.where, len(self.columns.fields))
        return replace(self, wanted=(*self.wanted, *(place for place in read if place not in self.wanted)))

    def matching(self, batches: Iterable[EventBatch], *, row_ids: bool) -> Iterator[EventBatch]:
        """The rows that match the condition, as wanted; `batches` have the columns of `wider`."""
        if self.where is None:
            yield from batches
            return
        places = self.wider().wanted
        for batch in batches:
            columns = dict(zip(places, batch.columns, strict=True))
            keep = mask(self.where, columns, batch.keys if row_ids else None, len(batch))
            kept = EventBatch(batch.keys, batch.columns[: len(self.wanted)])
            if keep is not None:
                kept = kept.filter(keep)
            if len(kept):
                yield kept


class Fitting:
    """How the columns of a file become those that a reader wants; `places` is where the read ones stand in the file."""

    def __init__(self, columns: StructType, projection: Projection) -> None:
        fields, wanted = projection.columns.fields, projection.wanted
        if projection.dialect is Dialect.PARQUET:
            # By name each column is found alone, so that one that cannot be read leaves the others readable.
            fields, wanted = tuple(fields[position] for position in wanted), tuple(range(len(wanted)))
        every = plan_fit(columns, StructType(fields), dialect=projection.dialect).children
        self._fits = [(fields[position].type, every[position]) for position in wanted]
        self.places = tuple(sorted({fit[0] for _, fit in self._fits if fit}))

    def fitted(self, arrays: Sequence[pa.Array], rows: int) -> tuple[pa.Array, ...]:
        """The wanted columns, given those at `places`."""
        read = dict(zip(self.places, arrays, strict=True))
        return tuple(
            null_array(kind, rows) if fit is None else fit_array(read[fit[0]], fit[1]) for kind, fit in self._fits
        )


def names_of(wanted: Fitting | None) -> tuple[str, ...]:
    """The top-level columns of a file of events that are read: keys (all that is read without a `Fitting`), and rows
    where some column of them is wanted.
    """
    return (*KEY_FIELDS, "row") if wanted is not None and wanted.places else KEY_FIELDS


def events_of(batch: pa.RecordBatch, wanted: Fitting | None, name: str) -> EventBatch:
    """A batch of such columns as events with the columns wanted; `name` is the file's, for errors."""
    # The fields of a NULL struct are NULL as read (Arrow cannot flatten a union).
    row = batch.column("row") if wanted is not None and wanted.places else None
    arrays = [] if row is None else [row.field(i) for i in range(row.type.num_fields)]
    return EventBatch(keys_of(batch, name=name), () if wanted is None else wanted.fitted(arrays, len(batch)))


def stripes_in(orc: RowFile, span: KeySpan) -> range:
    """The stripes that may hold keys of the span, by statistics alone: a key index can be wrong unnoticed."""
    bounds = orc.stripe_key_ranges()
    met = [i for i, known in enumerate(bounds) if span.may_hold(*(known or (None, None)))]
    return range(met[0], met[-1] + 1) if met else range(0)


def stripes_with_rows(orc: RowFile, first: int, last: int) -> tuple[range, int]:
    """The stripes that hold rows `first` to `last` (exclusive) of the file, and the rows before them."""
    begin = end = skipped = at = 0
    for index, rows in enumerate(orc.stripe_rows):
        if at + rows <= first:
            begin, skipped = index + 1, at + rows
        if at < last:
            end = index + 1
        at += rows
    return range(begin, max(begin, end)), skipped
