"""The data source of Spark on real tables: rows as Hive recorded them, projections, conditions, what goes wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession

import acidctl.spark
from acidctl import open_table
from acidctl.engine.spark import SparkEngine
from acidctl.rows.snapshot import ROW_ID_STRUCT, Snapshot
from acidctl.types.format_rows import json_lines
from acidctl.types.hive_types import Field, TypeKind, kinds
from tests.support.extent import some
from tests.support.steps import STEPS, Step, sorted_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

READ = [step for step in STEPS if step.transactional and not step.facts["hive_fault"]]
DEMO = next(step for step in STEPS if str(step) == "hive4/demo_orders/03-demo")
PARTITIONED = next(step for step in STEPS if str(step) == "hive4/partitioned/02-changed")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session of two cores with the data source registered."""
    with SparkEngine("local[2]", {"spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false"}) as engine:
        session = SparkSession(engine.start())
        acidctl.spark.register(session)
        yield session


def source(spark: SparkSession, step: Step, **options: Any) -> DataFrame:
    """The step's table through the data source."""
    known = {"validtxns": "\n".join(step.lists), "schema": step.facts["ddl"], "row_id": "true", **options}
    if step.list_format:
        known["list_format"] = step.list_format
    return spark.read.format("acidctl").options(**known).load(str(step.table))


def shown(frame: DataFrame, snapshot: Snapshot) -> list[dict[str, Any]]:
    """The rows of a frame as `snapshot -o jsonl` writes values of these Hive types."""
    types = {field.name: field.type for field in (Field("ROW__ID", ROW_ID_STRUCT), *snapshot.fields)}
    rows = []
    for batch in frame.toArrow().to_batches():
        text = bytes(json_lines(batch.columns, batch.schema.names, [types[name] for name in batch.schema.names]))
        rows += [json.loads(line) for line in text.decode().split("\n") if line]
    return rows


@pytest.mark.parametrize("step", some(READ, one_of=30, checked=10), ids=str)
def test_rows_are_those_of_hive(spark: SparkSession, step: Step) -> None:
    """Of recorded steps, row ids included; a union is refused, and so are nanoseconds, which `exact` has."""
    snapshot = open_table(str(step.table)).snapshot(**step.view)
    unions = [field.name for field in snapshot.fields if TypeKind.UNION in kinds(field.type)]
    want, options = step.hive_rows, {"split_bytes": "1"}
    if unions:
        with pytest.raises(PySparkException, match=f"column {unions[0]} holds a .*, which Spark has no type for"):
            source(spark, step)
        options["columns"] = ",".join(f.name for f in snapshot.fields if f.name not in unions)
        want = [{key: value for key, value in row.items() if key not in unions} for row in want]
    problem = ""
    try:
        found = shown(source(spark, step, **options), snapshot)
    except (PySparkException, pa.ArrowInvalid) as error:  # the latter where it is this test that cannot show them
        problem = str(error)
        found = shown(source(spark, step, **options, timestamps="exact"), snapshot)
    assert not problem or "cannot hold exactly" in problem or "out of bounds timestamp" in problem
    assert sorted_rows(found) == sorted_rows(want)


def test_projections_and_conditions_are_those_of_the_rows(spark: SparkSession) -> None:
    """In any order of queries on one DataFrame: none sees what another has filtered."""
    for partitioned in (False, True):
        step = PARTITIONED if partitioned else DEMO
        snapshot = open_table(str(step.table)).snapshot(**step.view)
        names = [field.name for field in snapshot.fields]
        rows = shown(source(spark, step, row_id="false"), snapshot)
        for first, second in ((True, False), (False, True)):
            frame = source(spark, step, row_id="false")
            for filtered in (first, second, first):
                found = shown(frame.where(frame["id"] > 3) if filtered else frame, snapshot)
                assert sorted_rows(found) == sorted_rows(r for r in rows if not filtered or r["id"] > 3)
        chosen = ",".join(names[::-1][:2])
        some = source(spark, step, row_id="false", where="id > 3 and ROW__ID.writeid > 0")
        assert sorted_rows(shown(some, snapshot)) == sorted_rows(row for row in rows if row["id"] > 3)
        frame = source(spark, step, row_id="false", columns=chosen)
        assert frame.columns == names[::-1][:2]
        want = [{name: row[name] for name in frame.columns} for row in rows]
        assert sorted_rows(shown(frame, snapshot)) == sorted_rows(want)
        assert frame.count() == len(rows)


def test_sql_reads_a_view(spark: SparkSession) -> None:
    """With the options in the statement; a plan shows no secret."""
    lists = "\n".join(DEMO.lists)
    spark.sql(
        f"create or replace temporary view orders using acidctl options (path '{DEMO.table}', validtxns '{lists}', "
        "`storage.password` 'xyzzy')"
    )
    (row,) = spark.sql("select count(*) as n, sum(amount) as total from orders where status = 'new'").collect()
    assert (row["n"], str(row["total"])) == (3, "66.96")
    assert "xyzzy" not in spark.sql("explain extended select * from orders").collect()[0][0]


def test_types_are_those_of_spark(spark: SparkSession) -> None:
    """Partition columns typed, moments with and without a zone, a row id as a struct."""
    kinds_of: set[str] = set()
    for name in ("partition_types", "types_local_time_zone", "types_text", "types_time_modern"):
        step = next(step for step in STEPS if step.scenario == f"hive4/{name}")
        kinds_of |= {kind for _, kind in source(spark, step).dtypes}
    row_id = "struct<writeid:bigint,bucketid:int,rowid:bigint>"
    assert {row_id, "timestamp", "timestamp_ntz", "date", "string"} <= kinds_of


def test_other_partitions_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    """Neither by the driver nor by executors: what they hold here is no ORC."""
    table = shutil.copytree(PARTITIONED.table, tmp_path / "t")
    snapshot = open_table(str(table)).snapshot(**PARTITIONED.view)
    kept = snapshot.partitions[0].partition
    for path in table.rglob("*"):
        if path.is_file() and not path.is_relative_to(table / kept):
            path.write_bytes(b"spoilt")
    frame = (
        spark.read.format("acidctl")
        .options(validtxns="\n".join(PARTITIONED.lists), schema=PARTITIONED.facts["ddl"], partitions=kept)
        .load(str(table))
    )
    assert (
        frame.count()
        == open_table(str(PARTITIONED.table)).snapshot(**PARTITIONED.view).to_table(partitions=[kept]).num_rows
        > 0
    )


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_the_way_of_older_releases_gives_the_same(spark: SparkSession) -> None:
    """`read` uses mapInArrow; its plan has no values either."""
    snapshot = open_table(str(DEMO.table)).snapshot(**DEMO.view)
    frame = acidctl.spark.read(
        spark, str(DEMO.table), validtxns=DEMO.lists, row_id=True, storage_options={"password": "xyzzy"}
    )
    assert sorted_rows(shown(frame, snapshot)) == sorted_rows(DEMO.hive_rows)
    assert "xyzzy" not in frame._jdf.queryExecution().toString()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"validtxns": ""}, "which writes are committed is unknown: there is neither the option validtxns nor as_of"),
        ({"validtxn": "x"}, "there is no option 'validtxn'. did you mean validtxns?"),
        ({"columns": "id,amuont"}, "there is no column 'amuont'"),
        ({"where": "idd = 1"}, "there is no column 'idd'; did you mean id?"),
        ({"as_of": "x"}, "option as_of=x: expected a whole number"),
        ({"row_id": "1"}, "option row_id=1: expected true or false"),
        ({"path": "/no/such/table"}, "/no/such/table does not exist"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_options_are_one_sentence(spark: SparkSession, options: dict[str, str], sentence: str) -> None:
    """Raised where the DataFrame is made, with what to do."""
    known = {"validtxns": "\n".join(DEMO.lists), "path": str(DEMO.table), **options}
    with pytest.raises(PySparkException) as caught:
        spark.read.format("acidctl").options(**known).load()
    assert sentence in str(caught.value)


def test_a_schema_of_sparks_is_refused(spark: SparkSession) -> None:
    """The columns of an ACID table are Hive's to tell."""
    frame = spark.read.format("acidctl").schema("id bigint").option("validtxns", "\n".join(DEMO.lists))
    with pytest.raises(PySparkException, match="leave out schema"):
        frame.load(str(DEMO.table)).collect()


def test_an_executor_without_the_package_says_so(tmp_path: Path) -> None:
    """What reads there is sent by value: it runs up to the missing import."""
    by_value: Any = CloudPickleSerializer
    (split, *_) = acidctl.spark.plan({"path": str(DEMO.table), "as_of": "9"}).splits
    (tmp_path / "run.py").write_text(
        "import pickle, sys\nsys.modules['acidctl'] = None\nimport pyarrow as pa\n"
        f"mapped = pickle.loads({by_value().dumps(acidctl.spark.mapped())!r})\n"
        f"list(mapped([pa.record_batch({{'split': [{split!r}]}})]))\n"
    )
    done = subprocess.run([sys.executable, str(tmp_path / "run.py")], capture_output=True, text=True, check=False)
    assert "this executor has no package acidctl" in done.stderr.splitlines()[-1]
