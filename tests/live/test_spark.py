"""The Spark engine in a running local session: how answers come, what is tried again, what is not, how it ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

import acidctl
from acidctl.engine.spark import SparkEngine, distributed
from acidctl.errors import AcidctlError, DamagedDataError, InternalError, MissingDependencyError, UsageError
from tests.support.spark_tasks import SECRET, specs, standing_in, traces, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def context() -> Iterator[pyspark.SparkContext]:
    """A session of two cores that all tests of this module are given."""
    with SparkEngine("local[2]") as engine:
        yield engine.start()


def test_answers_come_as_tasks_finish(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """The first is there while the last still waits, and each comes once."""
    engine = SparkEngine(session=context, work=standing_in(waits_for={0: "go"}))
    outcomes = engine.run(specs(4, tmp_path))
    early = [next(outcomes).index for _ in range(3)]
    assert sorted(early) == [1, 2, 3]
    (tmp_path / "go").touch()
    assert [outcome.index for outcome in outcomes] == [0]
    assert [name[0] for name in traces(tmp_path) if name != "go"] == ["0", "1", "2", "3"]


def test_tasks_begin_in_the_order_given(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """Which is the longest first."""
    list(SparkEngine(session=context, work=standing_in()).run(specs(12, tmp_path)))
    begun = sorted(traces(tmp_path), key=lambda name: int(name.rpartition(".")[2]))
    places = [int(name.partition(".")[0]) for name in begun]
    assert all(abs(place - index) <= 2 for index, place in enumerate(places))


def test_bad_data_is_not_tried_again_and_stops_nobody(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """A task's own error comes back with all it says."""
    outcomes = list(SparkEngine(session=context, work=standing_in(refuses=(1,))).run(specs(3, tmp_path)))
    error = next(outcome.error for outcome in outcomes if outcome.index == 1)
    assert isinstance(error, DamagedDataError)
    assert (error.message, error.path, error.hint) == ("the file is cut", "/t/f", "Look at it.")
    assert sum(outcome.result is not None for outcome in outcomes) == 2
    assert len(traces(tmp_path, "1.")) == 1


def test_a_crash_is_tried_once_more(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """It may have been that machine's; a second one is the answer, and the others have theirs."""
    outcomes = list(SparkEngine(session=context, work=standing_in(crashes={0: 1, 2: 9})).run(specs(3, tmp_path)))
    by_index = {outcome.index: outcome for outcome in outcomes}
    assert len(outcomes) == 3
    assert by_index[0].result is not None
    assert isinstance(by_index[2].error, InternalError)
    assert [len(traces(tmp_path, f"{bucket}.")) for bucket in range(3)] == [2, 1, 2]


def test_a_killed_worker_process_is_replaced(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """kill -9 of the Python process at work: the task is done by another."""
    outcomes = list(SparkEngine(session=context, work=standing_in(dies={1: 1})).run(specs(3, tmp_path)))
    assert sorted(outcome.index for outcome in outcomes) == [0, 1, 2]
    assert all(outcome.result is not None for outcome in outcomes)
    assert len(traces(tmp_path, "1.")) == 2


def test_a_task_that_always_kills_its_worker_is_given_up_alone(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """Spark ends the job then; the others are begun again in a new one."""
    work = standing_in(dies={1: 99}, waits_for={0: "go"})
    threading.Timer(8, (tmp_path / "go").touch).start()
    outcomes = {outcome.index: outcome for outcome in SparkEngine(session=context, work=work).run(specs(4, tmp_path))}
    error = outcomes.pop(1).error
    assert error is not None
    assert "bucket_00001 after 4 attempts" in error.message
    assert sorted(outcomes) == [0, 2, 3]
    assert all(outcome.result is not None for outcome in outcomes.values())
    assert len(traces(tmp_path, "1.")) == 4


def _running(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def test_leaving_early_cancels_what_runs(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """As Ctrl-C does: nothing is begun any more, and who is at work ends soon. The session goes on."""
    first = SparkEngine(session=context, work=standing_in(waits_for={1: "never", 2: "never"})).run(specs(5, tmp_path))
    assert next(first).index == 0
    wait_for(lambda: traces(tmp_path, "2."))
    pids = {int(name.split(".")[2]) for name in traces(tmp_path) if name[0] in "12"}
    started = time.monotonic()
    assert isinstance(first, Generator)
    first.close()
    assert time.monotonic() - started < 8
    wait_for(lambda: not _running(pids), 5)
    assert not traces(tmp_path, "3.")
    assert len(list(SparkEngine(session=context, work=standing_in()).run(specs(2)))) == 2


def test_two_engines_share_a_session(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """The package is sent once; closing an engine leaves the session alone."""
    for _ in range(2):
        with SparkEngine(session=context, work=standing_in()) as engine:
            assert len(list(engine.run(specs(2, tmp_path)))) == 2
    assert context.parallelize([1, 2]).sum() == 3
    includes = [name for name in context._python_includes or [] if "acidctl" in name]
    assert includes
    assert len(includes) == len(set(includes))


def test_another_python_version_is_one_sentence(context: pyspark.SparkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's own check, told as what to do; the versions are the real ones of both sides."""
    monkeypatch.setattr(context, "pythonVer", "3.8")
    with pytest.raises(
        MissingDependencyError, match=r"the executors run Python 3\.\d+ and this driver 3\.8;"
    ) as caught:
        list(SparkEngine(session=context, work=standing_in()).run(specs(2)))
    assert "spark.pyspark.python" in (caught.value.hint or "")


def test_a_missing_python_is_one_sentence(context: pyspark.SparkContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual cause is a path that exists on the driver only."""
    monkeypatch.setattr(context, "pythonExec", "/opt/nowhere/python3")
    with pytest.raises(MissingDependencyError, match="no Python program /opt/nowhere/python3"):
        list(SparkEngine(session=context, work=standing_in()).run(specs(2)))


@pytest.mark.parametrize("name", ["pyarrow", "numpy", "pyorc"])
def test_an_executor_without_a_package_is_one_sentence(
    context: pyspark.SparkContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Told by the first executor that lacks it; nothing is tried again."""
    (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module', name={name!r})\n")
    monkeypatch.setitem(context.environment, "PYTHONPATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=f"an executor has no usable {name}; its Python is /") as caught:
        list(SparkEngine(session=context, work=standing_in()).run(specs(2)))
    assert caught.value.exit_code == 14
    assert "on every worker node" in (caught.value.hint or "")


@pytest.mark.parametrize(("url", "name"), [("hdfs://lake/t", "hdfs_native"), ("webhdfs://lake/t", "requests")])
def test_an_executor_without_the_package_of_the_storage_is_one_sentence(
    context: pyspark.SparkContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str, name: str
) -> None:
    """Before any task begins; tables elsewhere do not need it."""
    (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('No module', name={name!r})\n")
    monkeypatch.setitem(context.environment, "PYTHONPATH", str(tmp_path))
    there = [replace(spec, url=url) for spec in specs(2)]
    with pytest.raises(MissingDependencyError, match=f"an executor has no usable {name}; its Python is /") as caught:
        list(SparkEngine(session=context, work=standing_in()).run(there))
    assert f"Install numpy pyarrow pyorc {name.replace('_', '-')} into that Python" in (caught.value.hint or "")
    assert len(list(SparkEngine(session=context, work=standing_in()).run(specs(2, tmp_path)))) == 2


def test_tasks_prefer_the_machines_that_were_named(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """Spark's own scheduler knows them; machines that are none of the cluster's keep nothing waiting."""
    hosts = [("one", "two"), (), ("three",)]
    found = distributed(context, [b"\x00a", b"", b"c" * 70_000], hosts).mapPartitions(lambda parts: parts)
    jvm_rdd = found._jrdd.rdd()
    scheduler = context._jsc.sc().dagScheduler()
    names = [scheduler.getPreferredLocs(jvm_rdd, place).mkString(",") for place in range(3)]
    assert names == ["one,two", "", "three"]
    assert found.collect() == [b"\x00a", b"", b"c" * 70_000]
    placed = [replace(spec, hosts=("nowhere.example",)) for spec in specs(3, tmp_path)]
    started = time.monotonic()
    assert len(list(SparkEngine(session=context, work=standing_in()).run(placed))) == 3
    assert time.monotonic() - started < 20


def test_only_clusters_are_told_where_the_data_is(context: pyspark.SparkContext) -> None:
    """On one machine it is a question for nothing."""
    assert not SparkEngine(session=context).uses_hosts
    assert not SparkEngine("local[2]").uses_hosts
    assert SparkEngine("spark://one:7077").uses_hosts


def test_an_executor_with_another_acidctl_is_one_sentence(
    context: pyspark.SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two versions must not work on one table."""
    engine = SparkEngine(session=context, work=standing_in())
    engine.start()
    monkeypatch.setattr(acidctl, "__version__", "99.0")
    with pytest.raises(MissingDependencyError, match=r"an executor imports acidctl .* the driver is 99\.0"):
        list(engine.run(specs(1)))


def test_a_job_without_executors_is_not_waited_for_for_ever(
    context: pyspark.SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it waits, and gives up after a while; running tasks may take as long as they like."""
    monkeypatch.setattr("acidctl.engine.spark.POLL_SECONDS", 0.1)
    engine = SparkEngine(session=context, idle_seconds=1.0, work=standing_in(waits_for={0: "go"}))
    threading.Timer(4, (tmp_path / "go").touch).start()
    assert len(list(engine.run(specs(1, tmp_path)))) == 1
    monkeypatch.setattr("acidctl.engine.spark.Job.running_tasks", lambda job: 0)
    monkeypatch.setattr("acidctl.engine.spark.NOTIFY_SECONDS", 0.2)
    told: list[str] = []
    engine = SparkEngine(
        session=context, idle_seconds=1.0, notify=told.append, work=standing_in(waits_for={1: "never"})
    )
    with pytest.raises(MissingDependencyError, match="no Spark executor has taken a task"):
        list(engine.run(specs(2, tmp_path)))
    assert told == ["Spark has no free executor for the tasks yet; waiting"]


def test_a_second_application_in_the_process_is_refused(context: pyspark.SparkContext) -> None:
    """Spark allows one; the way is to hand it over."""
    with SparkEngine("local[1]") as engine, pytest.raises(UsageError, match="already running") as caught:
        engine.start()
    assert "spark=session" in (caught.value.hint or "")
    assert context.parallelize([1]).count() == 1


def test_what_is_no_session_is_refused() -> None:
    """A Spark Connect session has no executors that run our tasks."""

    class Remote:
        @property
        def sparkContext(self) -> None:
            raise AttributeError("[JVM_ATTRIBUTE_NOT_SUPPORTED]")

    with pytest.raises(UsageError, match="cannot run Python tasks"):
        SparkEngine(session=Remote()).start()


def test_secrets_travel_in_the_task_only(context: pyspark.SparkContext, tmp_path: Path) -> None:
    """Not in settings, environment or names of the job; the file that carries the payloads is gone afterwards."""

    list(SparkEngine(session=context, work=standing_in()).run(specs(2, tmp_path)))
    shown = repr(context.getConf().getAll()) + repr(context.environment)
    assert SECRET not in shown
    left = [Path(folder) / name for folder, _, names in os.walk(context._temp_dir) for name in names]
    assert not any(SECRET.encode() in path.read_bytes() for path in left)


def test_an_application_that_was_stopped_meanwhile_is_one_sentence(tmp_path: Path) -> None:
    """Somebody ends the application, or the cluster does. (The last test: it ends this module's session.)"""
    context = pyspark.SparkContext._active_spark_context
    assert context is not None
    engine = SparkEngine(session=context, work=standing_in(waits_for={0: "never"}))
    engine.start()
    threading.Timer(2, lambda: context._jsc.sc().stop()).start()
    with pytest.raises(AcidctlError, match="the Spark application ended"):
        list(engine.run(specs(1, tmp_path)))
