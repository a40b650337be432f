"""Exported Parquet as other systems read it: DuckDB, Spark, parquet-cli and Hive show what Hive showed of the table."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from acidctl.format.names import parse_partition
from acidctl.orc.schema_evolution import arrow_type
from acidctl.types.hive_types import HiveType, ListType, MapType, TypeKind, children
from tests.services.hive import Hive
from tests.support.exported import READ, Exported, by_parquet_cli, export_step
from tests.support.extent import some
from tests.support.steps import Step, sorted_rows


@pytest.mark.slow
@pytest.mark.parametrize("step", some(READ, one_of=4, checked=2), ids=str)
def test_duckdb_shows_the_rows_of_hive(step: Step, tmp_path: Path) -> None:
    """Partition columns from the folders, as the texts that they are."""
    made = export_step(step, tmp_path / "out")
    if not made.rows:
        return
    names = ", ".join(f'"{field.name}"' for field in made.fields)
    found = duckdb.connect().sql(
        f"select {names} from read_parquet('{made.path}/**/*.parquet', hive_partitioning = {bool(made.partitions)}, "
        f"hive_types_autocast = false)"
    )
    made.require_same(made.shown(_typed(made, found.to_arrow_table())))


@pytest.mark.orctools
def test_parquet_cli_shows_the_rows_of_hive(tmp_path: Path) -> None:
    """Java's own reader, all files by one process."""
    made = []
    for number, step in enumerate(some(READ, one_of=12, first=5, checked=3)):
        made.append(export_step(step, tmp_path / str(number), without=_not_in_avro))
    files = [sorted(one.path.rglob("*.parquet")) if one.rows else [] for one in made]
    tables = by_parquet_cli([file for some_of in files for file in some_of], tmp_path / "linked")
    for one, own in zip(made, files, strict=True):
        if own:
            found = [_placed(one, next(tables), file) for file in own]
            one.require_same(one.shown(_typed(one, pa.concat_tables(found))))


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_shows_the_rows_of_hive(spark_session: SparkSession, tmp_path: Path) -> None:
    """Its own Parquet source, days before 1582 included."""
    spark_session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    for number, step in enumerate(some(READ, one_of=12, first=2, checked=9)):
        made = export_step(step, tmp_path / str(number))
        if made.rows:
            found = spark_session.read.parquet(str(made.path)).toArrow()
            made.require_same(made.shown(_typed(made, found)))


@pytest.mark.hive
@pytest.mark.timeout(900)
@pytest.mark.parametrize("vectorized", [True, False])
def test_hive_shows_the_rows_of_hive(hive4: Hive, vectorized: bool, tmp_path: Path) -> None:
    """An external table over the files, partitions found by MSCK."""
    # Without the second MSCK refuses the names that Hive itself has made of a slash or a colon.
    settings = {
        "hive.vectorized.execution.enabled": str(vectorized).lower(),
        "hive.msck.path.validation": "ignore",
    }
    session = hive4.session(f"exported {vectorized}", settings)
    for number, step in enumerate(some(READ, one_of=12, first=4 * vectorized, checked=10)):
        made = export_step(step, tmp_path / str(number))
        session.run("drop table if exists exported")
        session.run(_external(made))
        if made.partitions:
            session.run("msck repair table exported")
        own = len(made.fields) - made.partitions
        shown = [f.name for place, f in enumerate(made.fields) if place < own or f.type.kind is TypeKind.STRING]
        names = ", ".join(f"`{name}`" for name in shown)
        found = [json.loads(line) for line in session.rows(f"select {names} from exported")]
        session.run("drop table exported")
        want = [{name: row[name] for name in shown} for row in made.rows]
        assert sorted_rows(found) == sorted_rows(want), step


def _external(made: Exported) -> str:
    """The statement that makes a table of an export; MSCK fails on Hive's default partition of any type but string."""
    own = len(made.fields) - made.partitions
    columns = [f"`{field.name}` {field.type if place < own else 'string'}" for place, field in enumerate(made.fields)]
    partitioned = f" partitioned by ({', '.join(columns[own:])})" if made.partitions else ""
    where = f"stored as parquet location 'file://{made.path}'"
    return f"create external table exported ({', '.join(columns[:own])}){partitioned} {where}"


def _not_in_avro(kind: HiveType) -> bool:
    """Its maps have string keys in no order, and among lists and deeper values that reader loses its way."""
    return isinstance(kind, ListType | MapType) or any(children(child) for child in children(kind))


def _placed(made: Exported, table: pa.Table, file: Path) -> pa.Table:
    """With the partition columns that the folders of its file tell."""
    for name, value in parse_partition(str(file.parent.relative_to(made.path))) if made.partitions else ():
        table = table.append_column(name, pa.array([value] * len(table), pa.string()))
    return table


def _typed(made: Exported, table: pa.Table) -> pa.Table:
    """Partition columns as their types; a reader has them from the folders as texts."""
    for field in made.fields[len(made.fields) - made.partitions :]:
        place = table.schema.get_field_index(field.name)
        table = table.set_column(place, field.name, table.column(place).cast(arrow_type(field.type)))
    return table
