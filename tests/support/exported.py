"""Recorded steps as exported Parquet, and what their readers have to show: the rows that Hive recorded."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from acidctl import open_table
from acidctl.errors import UsageError
from acidctl.format.events import WIDE
from acidctl.types.format_rows import json_lines
from acidctl.types.hive_types import Field, TypeKind, kinds
from tests.support.steps import STEPS, Step, sorted_rows

READ = [step for step in STEPS if step.transactional and not step.facts["hive_fault"]]


@dataclass(frozen=True)
class Exported:
    """A directory of Parquet files; `fields` are its columns, the last `partitions` of them in names of folders."""

    path: Path
    fields: tuple[Field, ...]
    partitions: int
    rows: list[dict[str, Any]]

    def require_same(self, found: list[dict[str, Any]]) -> None:
        """AssertionError unless these are the rows that Hive recorded, in any order."""
        assert sorted_rows(found) == sorted_rows(self.rows)

    def shown(self, table: pa.Table) -> list[dict[str, Any]]:
        """Rows that a reader gives as Arrow, as `snapshot -o jsonl` writes values of these Hive types."""
        types = {field.name: field.type for field in self.fields}
        rows = []
        for batch in _widened(table.select(list(types))).to_batches():
            text = bytes(json_lines(batch.columns, batch.schema.names, [types[name] for name in batch.schema.names]))
            rows += [json.loads(line) for line in text.decode().split("\n") if line]
        return rows


def export_step(step: Step, path: Path) -> Exported:
    """Without unions, and without columns of moments that microseconds cannot hold: both are refused."""
    snapshot = open_table(str(step.table)).snapshot(**step.view)
    fields = [field for field in snapshot.fields if TypeKind.UNION not in kinds(field.type)]
    own = [name.lower() for name in snapshot.partition_names]
    while True:
        names = [field.name for field in fields]
        try:
            snapshot.export(f"{path}/", names, partitioned=bool(own), invalid_utf8="replace")
            break
        except UsageError as error:
            refused = re.match(r"column (\w+) holds .* cannot hold exactly", str(error))
            if refused is None:
                raise
            fields = [field for field in fields if field.name != refused[1]]
    rows = [{field.name: row[field.name] for field in fields} for row in step.hive_rows]
    return Exported(path, tuple(fields), len(own), rows)


def _widened(table: pa.Table) -> pa.Table:
    """Columns of moments as acidctl holds those that nanoseconds since 1970 cannot hold."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            column = table.column(place).combine_chunks().cast(pa.timestamp("us", field.type.tz))
            seconds, rest = np.divmod(column.cast(pa.int64()).fill_null(0).to_numpy(), 10**6)
            parts = [pa.array(seconds), pa.array((rest * 1000).astype(np.int32))]
            wide = pa.StructArray.from_arrays(parts, fields=list(WIDE), mask=column.is_null())
            table = table.set_column(place, field.name, wide)
    return table
