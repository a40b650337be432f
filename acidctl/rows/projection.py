"""What is read of a file for a reader: which of its columns, as which types, and which rows are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from acidctl.format.events import EventBatch, keys_of
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.schema_evolution import fit_array, null_array
from acidctl.rows.conditions import mask
from acidctl.rows.predicate import Column, Node, data_places
from acidctl.types.hive_types import Dialect, FitAction, StructType, plan_fit
from acidctl.values import dataclass


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
        own = projection.wanted if projection.dialect is Dialect.PARQUET else range(len(every))
        self._every = dict(zip(own, every, strict=True))

    def fitted(self, arrays: Sequence[pa.Array], rows: int) -> tuple[pa.Array, ...]:
        """The wanted columns, given those at `places`."""
        read = dict(zip(self.places, arrays, strict=True))
        return tuple(
            null_array(kind, rows) if fit is None else fit_array(read[fit[0]], fit[1]) for kind, fit in self._fits
        )

    def place_of(self, column: Column) -> int | None:
        """Where a reader's column stands in the file; -1 where it has none, None where its values are converted."""
        fit = self._every[column.place]
        return -1 if fit is None else fit[0] if fit[1].action is FitAction.KEEP else None


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
