"""Spark applications that the engine starts itself, and sessions that were there before: start, refusals, end."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from acidctl.engine.spark import SparkEngine, end_gateway
from acidctl.errors import AcidctlError, MissingDependencyError, UsageError
from tests.services.spark import LEAN_JVM, children
from tests.support.spark_tasks import specs, standing_in, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def test_an_application_of_its_own_is_quiet_and_leaves_nothing(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Nothing on stdout or stderr, no process, no path; and another can be started after it."""
    before, path = children(os.getpid()), list(sys.path)
    conf = {
        "spark.exectuor.memory": "1g",
        "spark.executor.memory": "600m",
        "spark.hadoop.fs.x": "y",
        "spark.hadoop.fs.s3a.secret.key": "hush",
        "spark.sql.shuffle.partitions": "1",
        "spark.executorEnv.A": "b",
        "spark.task.maxFailures": "4",
    }
    for _ in range(2):
        warnings: list[str] = []
        with SparkEngine("local[1]", conf, notify=warnings.append, work=standing_in()) as engine:
            assert len(list(engine.run(specs(2, tmp_path)))) == 2
            active = SparkContext._active_spark_context
            assert active is not None
            assert warnings == [
                f"Spark {active.version} does not know the setting spark.exectuor.memory; check its spelling"
            ]
            context = engine.start()
            assert context.master == "local[1,4]"
            settings = dict(context.getConf().getAll())
            assert settings["spark.executor.memory"] == "600m"
            assert settings["spark.hadoop.fs.s3a.secret.key"] == "hush"
            assert settings["spark.driver.host"] == "127.0.0.1"
            assert context.uiWebUrl is None
            below = [pid for pid in children(os.getpid()) if pid not in before]
            assert below
            assert not any(b"hush" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below)
        assert children(os.getpid()) == before
        assert sys.path == path
        assert SparkContext._gateway is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("master", "conf", "kind", "message"),
    [
        ("foo", {}, UsageError, "foo is not a Spark master"),
        ("local[1]", {"spark.executor.memory": "many"}, UsageError, "Spark refuses a setting: "),
        ("local[1]", {"spark.executor.memory": "0"}, UsageError, "Spark refuses a setting: Executor memory must be"),
        ("local[1]", {"spark.driver.memory": "many"}, UsageError, "Java refuses its options: Invalid .*many"),
    ],
)
# pyspark forgets the process of a JVM that did not start.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_spark_refuses_is_one_sentence(
    master: str, conf: dict[str, str], kind: type[AcidctlError], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Said by Spark itself, which knows best; and its JVM is gone."""
    before = children(os.getpid())
    with SparkEngine(master, conf) as engine, pytest.raises(kind, match=message) as caught:
        engine.start()
    assert caught.value.hint
    assert "\n" not in caught.value.message
    del caught
    gc.collect()
    wait_for(lambda: children(os.getpid()) == before, 20)
    assert capfd.readouterr() == ("", "")


def test_a_master_that_never_answers_is_not_waited_for_for_ever() -> None:
    """Something listens there, but it is no Spark master."""
    before = children(os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        master = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        conf = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        started = time.monotonic()
        late = pytest.raises(MissingDependencyError, match="did not start within 15 seconds on spark://127")
        with SparkEngine(master, conf, start_seconds=15) as engine, late:
            engine.start()
        assert time.monotonic() - started < 40
    wait_for(lambda: children(os.getpid()) == before, 20)


def test_a_start_that_was_given_up_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its JVM answers when nobody waits for it any more."""
    before = children(os.getpid())
    launch: Callable[..., Any] = java_gateway.launch_gateway
    given_up = threading.Event()

    def late(*args: Any) -> Any:
        gateway = launch(*args)
        given_up.wait(60)
        return gateway

    monkeypatch.setattr(java_gateway, "launch_gateway", late)
    refused = pytest.raises(MissingDependencyError, match="did not start within 2 seconds")
    with SparkEngine("local[1]", start_seconds=2) as engine, refused:
        engine.start()
    given_up.set()
    wait_for(lambda: children(os.getpid()) == before, 20)


def test_a_session_of_the_caller_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain SparkSession, as in a notebook: used as it is, not stopped."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[1]").appName("theirs")
    builder = builder.config("spark.driver.extraJavaOptions", LEAN_JVM).config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    gateway = SparkContext._gateway
    try:
        with SparkEngine(session=spark, work=standing_in(refuses=(1,))) as engine:
            outcomes = list(engine.run(specs(3, tmp_path)))
        assert len(outcomes) == 3
        assert sum(outcome.result is not None for outcome in outcomes) == 2
        assert spark.sparkContext.parallelize([1, 2, 3]).sum() == 6
        assert spark.sparkContext.appName == "theirs"
        spark.stop()
        with pytest.raises(UsageError, match="has been stopped"):
            SparkEngine(session=spark.sparkContext).start()
    finally:
        spark.stop()
        end_gateway(gateway)
