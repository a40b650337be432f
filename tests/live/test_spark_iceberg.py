"""Out of Hive in one statement: the data source into Iceberg by its real Spark runtime, on the PySpark made for it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from acidctl import open_table
from tests import ROOT
from tests.services.iceberg_spark import iceberg_jar, iceberg_python
from tests.support.steps import STEPS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

MOVED = ("hive4/demo_orders/03-demo", "hive4/partitioned/02-changed", "hive2/v1_bucketed/02-changed")
SCRIPT = """
import json, sys
import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
import acidctl, acidctl.spark
from acidctl.types.digest import Digest

asked = json.load(sys.stdin)
conf = {
    "spark.jars": asked["jar"], "spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.warehouse": asked["lake"],
}
spark = SparkSession.builder.master("local[2]").config(map=conf).getOrCreate()
acidctl.spark.register(spark)
found = {}
for name, (table, options, view) in asked["tables"].items():
    spark.read.format("acidctl").options(**options).load(table).writeTo(f"lake.moved.{name}").create()
    kinds = [field.type for field in acidctl.open_table(table).snapshot(**view).fields]
    digest = Digest()
    for batch in spark.table(f"lake.moved.{name}").toArrow().to_batches():
        ids = tuple(pa.array(part.cast(part.type)) for part in batch.column(0).flatten())
        digest.update(ids, batch.columns[1:], kinds)
    found[name] = digest.hexdigest()
print(json.dumps([pyspark.__version__, found]))
"""


def test_one_statement_moves_a_table_to_iceberg(tmp_path: Path) -> None:
    """Rows and row ids read back from Iceberg have the digest of the snapshot."""
    tables, want = {}, {}
    for number, name in enumerate(MOVED):
        step = next(step for step in STEPS if str(step) == name)
        view = {**step.view, "validtxns": list(step.lists)}
        options = {**view, "validtxns": "\n".join(step.lists), "row_id": "true"}
        tables[f"t{number}"] = (str(step.table), options, view)
        want[f"t{number}"] = open_table(str(step.table)).snapshot(**view).digest()
    asked = {"jar": str(iceberg_jar()), "lake": str(tmp_path / "lake"), "tables": tables}
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    python = iceberg_python()
    done = subprocess.run(
        [python, "-c", SCRIPT],
        input=json.dumps(asked),
        env={**environment, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1])[1] == want
