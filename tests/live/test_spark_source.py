"""The data source of Spark on real tables: rows as Hive recorded them, projections, conditions, what goes wrong."""

from __future__ import annotations

import json
import operator
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession

import acidctl.spark
from acidctl import open_table
from acidctl.errors import MissingDependencyError
from acidctl.rows.snapshot import ROW_ID_STRUCT, Snapshot
from acidctl.types.format_rows import json_lines
from acidctl.types.hive_types import Field, TypeKind, kinds
from tests.support.extent import amount, some
from tests.support.steps import STEPS, Step, sorted_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

READ = [step for step in STEPS if step.transactional and not step.facts["hive_fault"]]
DEMO = next(step for step in STEPS if str(step) == "hive4/demo_orders/03-demo")
SAMPLED = some(READ, one_of=30, checked=10)
# All of Parquet and text: few steps have them.
PLAIN = [step for step in READ if re.search("hive4/insert_only_(csv|parquet|text)", str(step))]
PARTITIONED = next(step for step in STEPS if str(step) == "hive4/partitioned/02-changed")


@pytest.fixture(scope="module")
def spark(spark_session: SparkSession) -> SparkSession:
    """The session with the data source registered."""
    acidctl.spark.register(spark_session)
    return spark_session


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


@pytest.mark.parametrize("step", dict.fromkeys([*SAMPLED, *PLAIN]), ids=str)
def test_rows_are_those_of_hive(spark: SparkSession, step: Step) -> None:
    """Of recorded steps, row ids included; a union is refused, and so are nanoseconds, which `exact` has."""
    snapshot = open_table(str(step.table)).snapshot(**step.view)
    unions = [field.name for field in snapshot.fields if TypeKind.UNION in kinds(field.type)]
    want, options = step.hive_rows, {"split_bytes": "1"}
    if step not in SAMPLED:
        options["timestamps"] = "exact"  # a job that fails takes its Python processes along, and many seconds
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
        found = shown(source(spark, step, **{**options, "timestamps": "exact"}), snapshot)
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


Condition = tuple[str, Callable[[Mapping[str, Any]], bool | None]]
COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def random_condition(random: Random, literals: Mapping[str, Mapping[str, Any]], depth: int = 2) -> Condition:
    """As SQL, and what a row of typed values answers, None for unknown; `literals` are values of a column by texts."""
    if depth and random.random() < 0.6:
        word = random.choice(("and", "or", "not"))
        text, first = random_condition(random, literals, depth - 1)
        if word == "not":
            return f"not ({text})", lambda row: None if (one := first(row)) is None else not one
        other, second = random_condition(random, literals, depth - 1)

        def joined(row: Mapping[str, Any]) -> bool | None:
            answers, decisive = (first(row), second(row)), word == "or"
            return decisive if decisive in answers else None if None in answers else not decisive

        return f"({text}) {word} ({other})", joined
    name = random.choice(list(literals))
    chosen = random.choices(list(literals[name]), k=3)
    values = [literals[name][text] for text in chosen]
    word = random.choice((*COMPARED, "in", "is null"))
    if word == "is null":
        return f"{name} is null", lambda row: row[name] is None
    if word == "in":
        return f"{name} in ({', '.join(chosen)})", lambda row: None if row[name] is None else row[name] in values
    return f"{name} {word} {chosen[0]}", lambda row: None if row[name] is None else COMPARED[word](row[name], values[0])


def literal(value: Any, kind: TypeKind) -> str:
    """A value of Hive's rows in SQL, both Spark's and that of the option `where`."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if kind is TypeKind.STRING else f"date '{value}'" if kind is TypeKind.DATE else str(value)


@pytest.mark.parametrize("name", ["many_rows/01-written", "types_numbers/01-written", "partition_types/01-int-date"])
def test_random_conditions_and_columns(spark: SparkSession, name: str) -> None:
    """Those of Spark, and those of options: as if Hive's rows were filtered afterwards."""
    step = next(step for step in STEPS if str(step) == f"hive4/{name}")
    snapshot, rows = open_table(str(step.table)).snapshot(**step.view), step.hive_rows
    types = {field.name: field.type.kind for field in snapshot.fields}
    # NaN is no literal, and Spark compares a float with the double that stands in the text.
    types = {column: kind for column, kind in types.items() if kind not in (TypeKind.FLOAT, TypeKind.DOUBLE)}
    typed = [
        {
            "ROW__ID.rowid": row["ROW__ID"]["rowid"],
            **{
                column: Decimal(row[column]) if kind is TypeKind.DECIMAL and row[column] is not None else row[column]
                for column, kind in types.items()
            },
        }
        for row in rows
    ]
    literals = {
        column: {literal(row[column], kind): row[column] for row in typed if row[column] is not None}
        for column, kind in {"ROW__ID.rowid": TypeKind.BIGINT, **types}.items()
    }
    frame = source(spark, step, split_bytes="1")
    for seed in range(amount(24, swept=150, sample=12)):
        random = Random(seed)
        text, holds = random_condition(random, literals)
        columns = random.sample(frame.columns, random.randint(1, len(frame.columns)))
        found = frame.where(text).select(columns)
        if seed % 4 == 0:
            columns = [column for column in columns if column != "ROW__ID"] or ["id"]
            found = source(spark, step, row_id="false", where=text, columns=",".join(columns))
        want = ({column: row[column] for column in columns} for row, one in zip(rows, typed, strict=True) if holds(one))
        assert sorted_rows(shown(found, snapshot)) == sorted_rows(want), (seed, text, columns)


def test_sql_reads_a_view(spark: SparkSession) -> None:
    """With the options in the statement; a plan shows no secret."""
    lists = "\n".join(DEMO.lists)
    spark.sql(
        f"create or replace temporary view orders using acidctl options (path '{DEMO.table}', validtxns '{lists}', "
        "`storage.password` 'xyzzy', `storage.sas` 'xyzzy')"
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
    [({"columns": "id,amuont"}, "there is no column 'amuont'; did you mean amount?"), ({"strict": "true"}, "copied")],
)
def test_bad_options_are_one_sentence(
    spark: SparkSession, options: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    """Raised where the DataFrame is made, with what to do; so are doubled rows where they are not wanted."""
    table = shutil.copytree(DEMO.table, tmp_path / "orders")
    shutil.copytree(table / "delta_0000005_0000005_0000", table / "delta_0000009_0000009_0000")
    known = {"as_of": "9", "path": str(table), **options}
    with pytest.raises(PySparkException, match=r"acidctl\.errors") as caught:
        spark.read.format("acidctl").options(**known).load()
    assert sentence in str(caught.value)


def test_a_schema_of_sparks_is_refused(spark: SparkSession) -> None:
    """The columns of an ACID table are Hive's to tell."""
    frame = spark.read.format("acidctl").schema("id bigint").option("validtxns", "\n".join(DEMO.lists))
    with pytest.raises(PySparkException, match="leave out schema"):
        frame.load(str(DEMO.table)).collect()


def test_an_executor_without_pyarrow_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before there is a DataFrame, by a small job: Spark itself needs that package to run any of our code."""
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError('none', name='pyarrow')")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH="{tmp_path}:$PYTHONPATH"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    for way in (acidctl.spark.register, lambda spark: acidctl.spark.read(spark, str(DEMO.table), as_of=9)):
        with pytest.raises(MissingDependencyError, match=r"has no pyarrow\. Install it there on every node"):
            way(spark)


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
