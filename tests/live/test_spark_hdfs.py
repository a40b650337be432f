"""A standalone Spark cluster compacts Hive's tables on real HDFS while machines go away: finished, or as before.

Tables are judged by our own reader after each fault, and by Hive, whose warehouse is on that HDFS. Executors have
neither a Hadoop configuration nor acidctl: both come from the driver.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.adopted import FIRST_TXN, FIXTURES
from tests.live.hdfs_tables import SCHEMES, AdoptedOnHdfs
from tests.services.hdfs import Hdfs, write_sites
from tests.services.hive import HIVE4, Hive
from tests.services.spark import SparkCluster, descendants, spark_cluster
from tests.support.extent import in_turn, some
from tests.support.spark_runs import SlowRun, clean_environment
from tests.support.spark_tasks import SECRET, wait_for

__all__ = ["spark_cluster"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

STEP = FIXTURES / "hive4/demo_orders/03-demo"
BASE = re.compile(r"base_\d+")


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """Two DataNodes that hold every block both; one that is gone is known to be gone after 11 seconds."""
    settings = {"dfs.namenode.heartbeat.recheck-interval": "500"}
    with Hdfs(tmp_path_factory.mktemp("hdfs"), datanodes=2, replication=2, settings=settings) as running:
        running.mkdir("/warehouse")
        running.mkdir("/scratch", mode="777")
        yield running


@pytest.fixture(scope="module")
def hive(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """A running Hive on that HDFS, whose transactions begin above those of the fixtures."""
    with Hive(HIVE4.on_hdfs(hdfs.url), tmp_path_factory.mktemp("hive4")) as running:
        running.call(running.java.acidctl.Services.seedTransactions, FIRST_TXN, what="seed transactions")
        yield running


@pytest.fixture(scope="module")
def conf_dir(hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """HADOOP_CONF_DIR of the driver: the only place that knows where the name service `lake` is."""
    folder = tmp_path_factory.mktemp("conf")
    settings = {
        "fs.defaultFS": "hdfs://lake",
        "dfs.nameservices": "lake",
        "dfs.ha.namenodes.lake": "nn1",
        "dfs.namenode.rpc-address.lake.nn1": f"{hdfs.host}:{hdfs.rpc}",
        "dfs.namenode.http-address.lake.nn1": f"{hdfs.host}:{hdfs.http}",
        "dfs.client.failover.proxy.provider.lake": "org.apache.hadoop.hdfs.server.namenode.ha."
        "ConfiguredFailoverProxyProvider",
        "dfs.replication": "2",
        "ssl.client.keystore.password": SECRET,
    }
    write_sites(folder, settings)
    return folder


@dataclass(slots=True)
class Judged:
    """A table of Hive's, with what Hive and our reader said of it before."""

    table: AdoptedOnHdfs
    url: str
    environment: dict[str, str]
    rows: list[str]
    digest: str
    before: set[str]

    def seen(self) -> str:
        """Rows and digest by our own reader."""
        done = self.command("snapshot", self.url, "--digest", "-o", "csv", "--no-header", "-q", *self.table.lists())
        assert done.returncode == 0, done.stderr
        return done.stdout

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs `acidctl` in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "acidctl", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def new(self) -> list[str]:
        """Visible directories that were not there before; all that were are still there."""
        now = set(self.table.directories())
        assert now >= self.before
        return sorted(now - self.before)

    def require_right(self, finished: bool) -> None:
        """Finished or as before, the same rows for our reader and for each of Hive's."""
        new = self.new()
        assert len(new) == finished, new
        assert all(BASE.fullmatch(name) for name in new)
        assert self.seen() == self.digest
        assert self.table.rows() == self.rows
        if finished:
            assert self.table.rows(job=True) == self.rows

    def require_next_run_finishes(self) -> None:
        """A run without Spark takes away what was left and does it."""
        done = self.command("compact", "major", self.url, "--engine", "local", "-q", *self.table.lists())
        assert done.returncode == 0, done.stderr
        self.require_right(finished=True)
        assert not [name for name in self.table.listed() if "_acidctl_" in name]


Make = Callable[[str], Judged]


@pytest.fixture
def make(hdfs: Hdfs, hive: Hive, conf_dir: Path) -> Iterator[Make]:
    """Puts the demo table into Hive, to be reached by a scheme; taken away afterwards."""
    made: list[AdoptedOnHdfs] = []

    def begin(scheme: str) -> Judged:
        table = AdoptedOnHdfs(hive, STEP, f"demo_{time.time_ns()}", hdfs=hdfs, scheme=scheme)
        made.append(table)
        environment = clean_environment(HADOOP_CONF_DIR=str(conf_dir))
        url = f"{scheme}://lake{table.path}"
        found = Judged(table, url, environment, table.rows(), "", set(table.directories()))
        found.digest = found.seen()
        return found

    yield begin
    hdfs.safemode(False)
    for table in made:
        table.drop()


Slow = Callable[[Judged], SlowRun]


@pytest.fixture
def slow(spark_cluster: SparkCluster, tmp_path: Path) -> Iterator[Slow]:
    """Starts a compaction on the cluster whose tasks wait until they may go on."""
    runs: list[SlowRun] = []

    def begin(judged: Judged) -> SlowRun:
        lists = judged.table.lists()[1::2]
        folder = tmp_path / f"traces{len(runs)}"
        runs.append(SlowRun(judged.url, lists, spark_cluster.url, spark_cluster.conf, folder, judged.environment))
        return runs[-1]

    yield begin
    for run in runs:
        run.kill()


@pytest.mark.parametrize("scheme", some(SCHEMES, one_of=2, first=1))
def test_a_cluster_compacts_hives_table(make: Make, spark_cluster: SparkCluster, tmp_path: Path, scheme: str) -> None:
    """With what the driver's configuration says, and nothing secret of it in plan, events or logs."""
    judged = make(scheme)
    events = tmp_path / "events"
    events.mkdir()
    logged = {"enabled": "true", "compress": "false", "dir": events.as_uri()}
    settings = {**spark_cluster.conf, **{f"spark.eventLog.{key}": value for key, value in logged.items()}}
    # Executors are asked for when there are tasks, and given back.
    settings |= {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.minExecutors": "0"}
    conf = [word for key, value in settings.items() for word in ("--spark-conf", f"{key}={value}")]
    config = tmp_path / "config.toml"
    config.write_text(f'[storage."{scheme}://lake/"]\nconfig = {{"fs.s3a.secret.key" = "{SECRET}"}}\n')
    known = set(spark_cluster.folder.rglob("std*"))
    words = ("compact", "major", judged.url, "--config", str(config), *judged.table.lists())
    planned = judged.command(*words, "-n", "-o", "json")
    assert planned.returncode == 0, planned.stderr
    done = judged.command(*words, "-v", "--engine", "spark", "--master", spark_cluster.url, *conf, "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["engine"] == "spark"
    judged.require_right(finished=True)
    logs = [path for path in spark_cluster.folder.rglob("std*") if path not in known]
    assert logs
    told = [path.read_text() for path in (*logs, *events.rglob("*")) if path.is_file()]
    assert any("SparkListenerTaskEnd" in text for text in told)
    assert sum(text.count('"SparkListenerExecutorAdded"') for text in told) in (1, 2)
    for text in (planned.stdout, done.stdout, done.stderr, *told):
        assert SECRET not in text


def _kill_a_worker_machine(judged: Judged, run: SlowRun, spark_cluster: SparkCluster) -> bool:
    """kill -9 of a Spark worker, which takes its executor along: another takes over."""
    busy = run.at_work(2)[0]
    worker = next(pid for pid, pids in spark_cluster.executors().items() if any(busy in descendants(p) for p in pids))
    try:
        spark_cluster.kill_worker(worker)
        run.go()
        code, out, err = run.end()
        assert (code, out.strip()) == (0, "['compacted']"), (out, err)
    finally:
        spark_cluster.restore()
    return True


def _kill_the_driver(judged: Judged, run: SlowRun, spark_cluster: SparkCluster) -> bool:
    """kill -9 of the driver: executors follow, and what it wrote is left."""
    busy = run.at_work(2)
    run.kill()
    run.go()
    wait_for(lambda: not [pid for pid in busy if Path(f"/proc/{pid}").exists()], 30)
    assert [name for name in judged.table.listed() if name.startswith("_acidctl_")]
    return False


# The driver on this machine's files is killed in test_spark_compact.
KILLED = {"worker machine": ("hdfs", _kill_a_worker_machine), "driver": ("webhdfs", _kill_the_driver)}


@pytest.mark.parametrize("who", some(KILLED, one_of=2))
def test_whoever_is_killed_no_row_is_lost(who: str, make: Make, slow: Slow, spark_cluster: SparkCluster) -> None:
    """A worker is replaced; without its driver a run ends, the table reads as before, and the next run does it."""
    scheme, kill = KILLED[who]
    judged = make(scheme)
    finished = kill(judged, slow(judged), spark_cluster)
    judged.require_right(finished=finished)
    if not finished:
        judged.require_next_run_finishes()


@pytest.mark.parametrize("scheme", in_turn(0, SCHEMES))
def test_a_killed_datanode_costs_nothing(make: Make, slow: Slow, hdfs: Hdfs, scheme: str) -> None:
    """kill -9 of one of two, which the NameNode goes on to believe in for a while: the other does it all."""
    judged = make(scheme)
    run = slow(judged)
    run.at_work(2)
    hdfs.kill_datanode(1)
    try:
        run.go()
        code, out, err = run.end()
        assert (code, out.strip()) == (0, "['compacted']"), (out, err)
        judged.require_right(finished=True)
    finally:
        hdfs.start_datanode(1)


@pytest.mark.parametrize("scheme", in_turn(1, SCHEMES))
def test_a_restarted_namenode_changes_nothing(make: Make, slow: Slow, hdfs: Hdfs, scheme: str) -> None:
    """It is gone while tasks begin to read, and comes back: the run waits for it or ends, and is never between."""
    judged = make(scheme)
    run = slow(judged)
    run.at_work(2)
    hdfs.kill_namenode()
    run.go()
    time.sleep(1)
    hdfs.start_namenode()
    code, out, err = run.end()
    finished = out.strip() == "['compacted']"
    assert finished or (code == 0 and re.search(r"failed|refused:", out)), (out, err)
    judged.require_right(finished=finished)
    judged.require_next_run_finishes()


@pytest.mark.parametrize("scheme", in_turn(2, SCHEMES))
def test_safe_mode_leaves_the_table_as_it_was(make: Make, slow: Slow, hdfs: Hdfs, scheme: str) -> None:
    """Nothing can be written from the middle of a run on: it says so, and the next run does it all."""
    judged = make(scheme)
    run = slow(judged)
    run.at_work(2)
    hdfs.safemode(True)
    run.go()
    code, out, err = run.end()
    assert code == 0, err
    assert "safe mode" in out, (out, err)
    judged.require_right(finished=False)
    hdfs.safemode(False)
    judged.require_next_run_finishes()
