"""The data source on a standalone cluster over HDFS, whose executors have neither acidctl nor a configuration."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import acidctl.spark
from acidctl import open_table
from acidctl.engine.spark import SparkEngine
from acidctl.storage.resolve import resolve
from tests.live.test_spark_source import PARTITIONED, READ, shown
from tests.services.hdfs import Hdfs
from tests.services.spark import SparkCluster, descendants, spark_cluster
from tests.support.extent import some
from tests.support.spark_tasks import wait_for
from tests.support.steps import STEPS, Step, sorted_rows

__all__ = ["spark_cluster"]

pytestmark = [pytest.mark.spark, pytest.mark.hdfs, pytest.mark.timeout(600)]

CHANGED = next(step for step in STEPS if str(step) == "hive4/bucketed/02-changed")
Read = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def spark(spark_cluster: SparkCluster) -> Iterator[SparkSession]:
    """A session on the cluster, to which acidctl has been sent."""
    conf = {**spark_cluster.conf, "spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false"}
    with SparkEngine(spark_cluster.url, conf) as engine:
        session = SparkSession(engine.start())
        acidctl.spark.register(session)
        yield session


@pytest.fixture(scope="module")
def read(spark: SparkSession, hdfs_cluster: Hdfs) -> Iterator[Read]:
    """Reads a step's table, which is on HDFS then."""
    hdfs_cluster.mkdir("/source")
    there: set[str] = set()

    def of(step: Step, below: str = "", **options: Any) -> DataFrame:
        path = f"/source/{str(step).replace('/', '-')}"
        if path not in there:
            hdfs_cluster.put_tree(step.table, path)
            there.add(path)
        known = {"validtxns": "\n".join(step.lists), "schema": step.facts["ddl"], "row_id": "true", **options}
        if step.list_format:
            known["list_format"] = step.list_format
        return spark.read.format("acidctl").options(**known).load(hdfs_cluster.url + path + below)

    yield of
    hdfs_cluster.remove("/source")


# Unions, and moments that no timestamp of Spark holds, are in the test on one machine.
PLACED = [step for step in READ if "types" not in str(step) and "insert_only_parquet" not in str(step)]


@pytest.mark.parametrize("step", some(PLACED, one_of=120, checked=40), ids=str)
def test_rows_are_those_of_hive(read: Read, step: Step) -> None:
    """In the smallest splits, by executors that got the package and the storage's settings from the driver."""
    snapshot = open_table(str(step.table)).snapshot(**step.view)
    nanos = "evolved" in str(step) or "insert_only_text" in str(step)
    rows = read(step, split_bytes="1", timestamps="exact" if nanos else "us")
    assert sorted_rows(shown(rows, snapshot)) == sorted_rows(step.hive_rows)


def test_other_partitions_cost_no_request(read: Read, hdfs_cluster: Hdfs) -> None:
    """A partition of the table takes as many requests for files as its directory alone, and fewer than all."""
    snapshot = open_table(str(PARTITIONED.table)).snapshot(**PARTITIONED.view)
    part = snapshot.partitions[0].partition

    def requests() -> int:
        time.sleep(11)  # the NameNode shows its figures ten seconds late
        return int(str(hdfs_cluster.jmx("Hadoop:service=NameNode,name=NameNodeActivity")["GetBlockLocations"]))

    read(PARTITIONED)  # so that it is there
    counts = [requests()]
    for below, options in (("", {"partitions": part}), (f"/{part}", {}), ("", {})):
        read(PARTITIONED, below, **options).count()
        counts.append(requests())
    one, alone, every = (after - before for before, after in pairwise(counts))
    assert 0 < one == alone < every


def waiting(folder: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Passes rows on when `go` is there, and leaves a trace of the process that waits; travels by value."""

    def wait(rows: Iterable[Any]) -> Iterator[Any]:
        found = list(rows)
        Path(folder, f"{os.getpid()}.{time.time_ns()}").touch()
        while not Path(folder, "go").exists():
            time.sleep(0.05)
        return iter(found)

    return wait


def test_executors_of_a_killed_worker_are_replaced(read: Read, spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """kill -9 of a Spark worker while its executor reads: the rows are Hive's all the same."""
    frame = read(CHANGED, split_bytes="1")
    rows = frame.rdd.mapPartitions(waiting(str(tmp_path)))
    answer: list[Any] = []
    thread = threading.Thread(target=lambda: answer.extend(rows.collect()), daemon=True)
    thread.start()
    try:
        wait_for(lambda: len(list(tmp_path.iterdir())) >= 2, 120)
        busy = int(next(tmp_path.iterdir()).name.partition(".")[0])
        owners = spark_cluster.executors().items()
        worker = next(pid for pid, pids in owners if any(busy in descendants(executor) for executor in pids))
        spark_cluster.kill_worker(worker)
        (tmp_path / "go").touch()
        thread.join(300)
    finally:
        (tmp_path / "go").touch()
        spark_cluster.restore()
    found = [{"ROW__ID": row["ROW__ID"].asDict(), **{name: row[name] for name in frame.columns[1:]}} for row in answer]
    assert sorted_rows(found) == sorted_rows(CHANGED.hive_rows)


def test_an_export_survives_a_killed_worker(
    read: Read, spark: SparkSession, spark_cluster: SparkCluster, hdfs_cluster: Hdfs
) -> None:
    """kill -9 of a Spark worker while its executor writes to HDFS: all rows are there once, and nothing else is."""
    read(PARTITIONED)  # so that it is there
    table = f"{hdfs_cluster.url}/source/{str(PARTITIONED).replace('/', '-')}"
    snapshot = open_table(table).snapshot(**PARTITIONED.view)
    target = f"{hdfs_cluster.url}/source/out"
    how: dict[str, Any] = {"engine": "spark", "spark": spark, "partitioned": True, "row_id": True}
    answer: list[Any] = []
    thread = threading.Thread(target=lambda: answer.append(snapshot.export(f"{target}/", **how)))
    tracker = spark.sparkContext.statusTracker()
    thread.start()
    try:
        wait_for(lambda: bool(tracker.getActiveStageIds()), 120)
        spark_cluster.kill_worker(next(iter(spark_cluster.executors())))
        thread.join(300)
    finally:
        spark_cluster.restore()
    (report,) = answer
    rows = [row["ROW__ID"] for row in PARTITIONED.hive_rows]
    assert report["rows"] == len(rows)
    found = spark.read.parquet(target).select("ROW__ID").collect()
    assert sorted_rows(row["ROW__ID"].asDict() for row in found) == sorted_rows(rows)
    storage, folder = resolve(f"{hdfs_cluster.url}/source", {})
    there = {info.path for info in storage.walk(folder).files if "out" in info.path.partition("/")[0]}
    assert len(there) == report["files"] + 2
    marks = {"out/_SUCCESS", "out/_acidctl_export.json"}
    assert all(path in marks or path.startswith("out/ds=") for path in there)
