"""`compact` on Spark, end to end: what the local engine makes, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pyspark
import pytest

import acidctl
from acidctl.compaction.report import Outcome
from acidctl.engine.spark import SparkEngine
from acidctl.orc.reader import open_orc
from acidctl.types.digest import RowDigest
from tests.cli.runner import acidctl as run_acidctl
from tests.services.spark import SparkCluster, descendants, spark_cluster
from tests.support.covering import Way, chosen_ways
from tests.support.extent import SWEEP, some
from tests.support.spark_runs import SlowRun, clean_environment
from tests.support.spark_tasks import traces, wait_for
from tests.support.steps import TABLES, Step

__all__ = ["spark_cluster"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DEMO = TABLES / "hive4/demo_orders/03-demo"
PARTITIONED = TABLES / "hive4/partitioned/02-changed"
WAITING = "warning: Spark has no free executor for the tasks yet; waiting\n"


def _copy(step: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copytree(step / "table", folder / "table"))


def _reader(step: Path) -> dict[str, Any]:
    return {**Step(step).view, "assume_exclusive": True}


def _arguments(step: Path) -> list[str]:
    return Step(step).options


def _contents(table: Path) -> dict[str, bytes | None]:
    """Every path with what is in it; None for directories."""
    return {
        str(path.relative_to(table)): path.read_bytes() if path.is_file() else None for path in sorted(table.rglob("*"))
    }


def _meaning(table: Path) -> dict[str, Any]:
    """Every path with what it says: schema, metadata (the key index among it) and rows of ORC files, else bytes.

    Not the bytes of ORC files: what C++ leaves in unused places of a file may differ from process to process.
    """
    said: dict[str, Any] = {}
    for path, data in _contents(table).items():
        said[path] = data
        if data is not None and data.startswith(b"ORC"):
            file = open_orc(BytesIO(data), name=path)
            rows = RowDigest()
            for batch in file.scan():
                rows.update(None, batch.columns)
            said[path] = (str(file.schema), file.tail.user_metadata, rows.rows, rows.hexdigest())
    return said


def _expected(
    step: Path, kind: str, target: str, folder: Path, codec: str | None = None
) -> tuple[list[Any], dict[str, Any]]:
    table = _copy(step, folder / "local")
    report = acidctl.compact(str(table), kind, engine="local", target=target, compression=codec, **_reader(step))
    return [(part.partition, part.outcome, part.outputs) for part in report.partitions], _meaning(table)


# --- in a session of the caller's


@pytest.fixture(scope="module")
def session() -> Iterator[pyspark.SparkContext]:
    """A local session of two cores."""
    with SparkEngine("local[2]") as engine:
        engine.start()
        assert engine._context is not None
        yield engine._context


CHOSEN_WAYS: list[Way] = some(chosen_ways(each_scenario=SWEEP), one_of=2)


@pytest.mark.parametrize("way", CHOSEN_WAYS, ids=str)
def test_a_session_makes_the_same_directories(way: Way, session: pyspark.SparkContext, tmp_path: Path) -> None:
    """Names, schemas, rows and key indexes, for it is the same bytes."""
    step = way.step.folder
    outcomes, contents = _expected(step, way.kind, way.target, tmp_path, way.codec)
    table = _copy(step, tmp_path / "spark")
    given = {"target": way.target, "compression": way.codec, **_reader(step)}
    report = acidctl.compact(str(table), way.kind, spark=session, **given)
    assert [(part.partition, part.outcome, part.outputs) for part in report.partitions] == outcomes
    assert all(outcome is not Outcome.FAILED for _, outcome, _ in outcomes)
    assert _meaning(table) == contents
    compacted = any(outcome is Outcome.COMPACTED for _, outcome, _ in outcomes)
    assert report.engine == ("spark" if compacted else "none")


# --- from the command line, in applications of its own (the last test above ended the session of this process)


def _command(*args: str) -> list[str]:
    return [sys.executable, "-m", "acidctl", "compact", "major", *args]


@pytest.mark.parametrize("step", some([DEMO, PARTITIONED], one_of=2, first=1), ids=lambda step: step.parts[-2])
def test_local_and_cluster_make_the_same_directories(step: Path, spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """In process, on `local[2]`, and on a standalone cluster to whose executors nobody has installed acidctl."""
    outcomes, contents = _expected(step, "major", "hive4", tmp_path)
    assert any(outputs for _, _, outputs in outcomes)
    conf = [o for key, value in spark_cluster.conf.items() for o in ("--spark-conf", f"{key}={value}")]
    for name, options in (("local2", ["--master", "local[2]"]), ("cluster", ["--master", spark_cluster.url, *conf])):
        table = _copy(step, tmp_path / name)
        schema = ["--schema", Step(step).facts["ddl"]]
        done = subprocess.run(
            _command(str(table), "--engine", "spark", *options, *schema, *_arguments(step), "-o", "json", "-q"),
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        # On a busy machine executors take their time.
        assert done.stderr.replace(WAITING, "") == ""
        assert json.loads(done.stdout)["engine"] == "spark"
        assert _meaning(table) == contents


# --- and while processes are killed


class _Run(SlowRun):
    """A compaction of the demo table whose tasks wait until they may go on."""

    def __init__(self, tmp_path: Path, master: str, conf: dict[str, str]) -> None:
        self.table = _copy(DEMO, tmp_path)
        self.before = _contents(self.table)
        super().__init__(str(self.table), list(Step(DEMO).lists), master, conf, tmp_path / "traces")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str, dict[str, str]], _Run]]:
    """Starts a slow compaction; one per test."""
    runs: list[_Run] = []

    def begin(master: str, conf: dict[str, str]) -> _Run:
        runs.append(_Run(tmp_path, master, conf))
        return runs[-1]

    yield begin
    for run in runs:
        run.kill()


Start = Callable[[str, dict[str, str]], _Run]


def _compacted_here(tmp_path: Path) -> dict[str, Any]:
    """What the demo table says after a run of the local engine."""
    table = _copy(DEMO, tmp_path / "expected")
    acidctl.compact(str(table), "major", engine="local", validtxns=Step(DEMO).lists, table="default.orders")
    return _meaning(table)


def test_killed_executors_are_replaced(start: Start, spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """kill -9 of a Python process at work, then of an executor JVM: the result is the same."""
    run = start(spark_cluster.url, spark_cluster.conf)
    first = run.at_work(2)
    os.kill(first[0], signal.SIGKILL)
    again = run.at_work(3)
    executor = next(pid for pids in spark_cluster.executors().values() for pid in pids if again[-1] in descendants(pid))
    os.kill(executor, signal.SIGKILL)
    run.at_work(4)
    run.go()
    code, out, err = run.end()
    assert (code, out.strip()) == (0, "['compacted']"), err
    assert _meaning(run.table) == _compacted_here(tmp_path)


def test_a_killed_worker_machine_is_replaced(start: Start, spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """kill -9 of a worker process, which takes its executor along: another takes over."""
    run = start(spark_cluster.url, spark_cluster.conf)
    busy = run.at_work(2)[0]
    worker = next(pid for pid, pids in spark_cluster.executors().items() if any(busy in descendants(p) for p in pids))
    try:
        spark_cluster.kill_worker(worker)
        run.go()
        code, out, err = run.end()
        assert (code, out.strip()) == (0, "['compacted']"), err
        assert _meaning(run.table) == _compacted_here(tmp_path)
        assert len(traces(run.folder)) > 3  # two attempts, the flag, and another attempt
    finally:
        spark_cluster.restore()


def test_superfluous_attempts_change_nothing(start: Start, spark_cluster: SparkCluster, tmp_path: Path) -> None:
    """With speculation, Spark begins tasks again while they run; one of each counts, nothing of the other is left."""
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0",
        "spark.speculation.task.duration.threshold": "1s",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.executor.cores": "1",
    }
    run = start(spark_cluster.url, {**spark_cluster.conf, **speculation})
    run.at_work(2)
    run.go()
    code, out, err = run.end()
    assert (code, out.strip()) == (0, "['compacted']"), err
    assert _meaning(run.table) == _compacted_here(tmp_path)


def test_a_killed_driver_leaves_the_table_as_it_was(start: Start, tmp_path: Path) -> None:
    """kill -9 of the driver: its JVM and workers follow, the table reads as before, and the next run tidies up."""
    run = start("local[2]", {})
    run.at_work(2)
    below = descendants(run.process.pid)
    assert len(below) >= 4, "a JVM, a daemon and two workers"
    digest = _digest(run.table)
    run.process.kill()
    run.process.wait()
    wait_for(lambda: not [pid for pid in below if Path(f"/proc/{pid}").exists()], 30)
    left = set(_contents(run.table)) - set(run.before)
    assert left
    assert all(name.startswith("_acidctl_") for name in left)
    assert {name: content for name, content in _contents(run.table).items() if name in run.before} == run.before
    assert _digest(run.table) == digest
    done = run_acidctl("compact", "major", str(run.table), "--engine", "local", "-q", *_arguments(DEMO))
    assert done.code == 0, done.stderr
    assert _digest(run.table) == digest
    assert not [name for name in _contents(run.table) if name.startswith("_acidctl_")]
    assert (run.table / "base_0000007").is_dir()


def _digest(table: Path) -> str:
    result = run_acidctl("snapshot", str(table), "--digest", "-o", "csv", "--no-header", "-q", *_arguments(DEMO))
    assert result.code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("master", some(["local", "cluster"], one_of=2, first=1))
def test_an_interrupt_cancels_the_job(start: Start, master: str, request: pytest.FixtureRequest) -> None:
    """Ctrl-C: tasks end, nothing is published and nothing of ours stays."""
    cluster = request.getfixturevalue("spark_cluster") if master == "cluster" else None
    run = start(cluster.url, cluster.conf) if cluster else start("local[2]", {})
    busy = run.at_work(2)
    below = descendants(run.process.pid)
    run.process.send_signal(signal.SIGINT)
    code, _, err = run.end()
    assert code == -signal.SIGINT or "KeyboardInterrupt" in err
    wait_for(lambda: not [pid for pid in (*below, *busy) if Path(f"/proc/{pid}").exists()], 20)
    assert _contents(run.table) == run.before
