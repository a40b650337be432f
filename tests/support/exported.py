"""Recorded steps as exported Parquet, and what their readers have to show: the rows that Hive recorded."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from acidctl import open_table
from acidctl.errors import UsageError
from acidctl.format.events import WIDE
from acidctl.types.format_rows import json_lines
from acidctl.types.hive_types import Field, HiveType, TypeKind, kinds
from tests.services.jvm import HERE, jars, resolve
from tests.support.steps import STEPS, Step, sorted_rows

_EXACT = Context(prec=38)
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


def export_step(step: Step, path: Path, without: Callable[[HiveType], bool] = lambda kind: False) -> Exported:
    """Without unions, and without columns of moments that microseconds cannot hold: both are refused; and `without`
    types that a reader does not have.
    """
    snapshot = open_table(str(step.table)).snapshot(**step.view)
    fields = [field for field in snapshot.fields if TypeKind.UNION not in kinds(field.type) and not without(field.type)]
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


def by_parquet_cli(files: Sequence[Path], work: Path) -> Iterator[pa.Table]:
    """What `parquet cat` shows of each file, Java's reader through Avro, as the types that the file states."""
    work.mkdir()
    # Hadoop takes names of folders such as `..` or `a:b` for something else.
    links = [work / f"{number}.parquet" for number in range(len(files))]
    for link, file in zip(links, files, strict=True):
        link.symlink_to(file)
    classpath = os.pathsep.join(map(str, jars(resolve(HERE / "parquet" / "pom.xml"))))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "org.apache.parquet.cli.Main", "cat"]
    done = subprocess.run([*command, *map(str, links)], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()[-2000:]
    rows = map(json.loads, filter(None, done.stdout.decode().split("\n")))
    for file in files:
        known = pq.ParquetFile(file)
        stated = known.schema_arrow
        own = [next(rows) for _ in range(known.metadata.num_rows)]
        columns = [pa.array([_from_avro(row[one.name], one.type) for row in own], one.type) for one in stated]
        yield pa.Table.from_arrays(columns, schema=stated.remove_metadata())
    assert not list(rows)


def _from_avro(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(int.from_bytes(bytes(one % 256 for one in value), signed=True)).scaleb(-kind.scale, _EXACT)
    if pa.types.is_binary(kind):
        return value.encode("latin-1")
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_map(kind):
        return [(key, _from_avro(one, kind.item_type)) for key, one in value.items()]
    if pa.types.is_list(kind):
        return [_from_avro(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        return {name: _from_avro(one, kind.field(name).type) for name, one in value.items()}
    return value


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
