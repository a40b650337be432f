"""A table rewritten by Spark's DataFrames, as a whole process: `spark_rewrite.py TABLE TARGET`.

What a job without acidctl would do: read the events, leave out those that a delete event names (an anti-join by row
id), sort by row id within each bucket, write ORC.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

KEYS = ["originalTransaction", "bucket", "rowId"]


def main(table: str, target: str) -> None:
    """Rewrite one table."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.orc.filterPushdown", "false")
        .config("spark.sql.optimizer.nestedSchemaPruning.enabled", "false")
        .getOrCreate()
    )
    inserts = [str(path) for path in Path(table).glob("*/bucket_*") if not path.parent.name.startswith("delete")]
    deletes = [str(path) for path in Path(table).glob("delete_delta_*/bucket_*")]
    rows = session.read.orc(inserts)
    if deletes:
        # ORC's reader fails on some of the columns of an event alone, so that all of them have to be asked for.
        events = session.read.orc(deletes).filter("operation >= 0 and currentTransaction >= 0 and row is null")
        rows = rows.join(events.select(*KEYS), KEYS, "left_anti")
    rows.repartition(4, "bucket").sortWithinPartitions(*KEYS).write.option("compression", "zlib").orc(target)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
