"""What the Spark engine decides without a JVM: settings, Java, masters, the package, failures, one attempt."""

from __future__ import annotations

import pickle
import re
import socket
import sys
import time
import tomllib
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

import acidctl
from acidctl.compaction.plan import TaskResult, TaskSpec
from acidctl.engine import EngineChoice, TaskOutcome, cluster, make_engine
from acidctl.engine.cluster import AddedAnswers, Body, TaskCrashedError, Unfit
from acidctl.engine.spark import SparkEngine
from acidctl.errors import (
    AcidctlError,
    DamagedDataError,
    ExitCode,
    InternalError,
    MissingDependencyError,
    QuotaError,
    UnreachableError,
    UsageError,
)
from tests import ROOT
from tests.support.spark_tasks import SECRET, specs

# --- settings


@pytest.mark.parametrize("key", ["", "executor.memory", "spark.", "spark.a b", "spark.master", "SPARK.a"])
def test_settings_that_spark_would_ignore_are_refused(key: str) -> None:
    """A typing error must not run with other settings than the user meant."""
    cluster.check_settings({"spark.a": "", "spark.executor.extraJavaOptions": "-Da=b -Dc=d"})
    with pytest.raises(UsageError) as caught:
        cluster.check_settings({"spark.a": "1", key: "1"})
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.hint


def test_the_engine_checks_settings_before_it_starts_anything() -> None:
    """And refuses settings for a session that runs already."""
    with pytest.raises(UsageError, match="does not begin with"):
        SparkEngine("local[1]", {"executor.memory": "1g"})
    with pytest.raises(UsageError, match="running session"):
        SparkEngine(conf={"spark.executor.memory": "1g"}, session=object())


@pytest.mark.parametrize(
    ("key", "secret", "public"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True, False),
        ("spark.hadoop.fs.s3a.access.key", True, False),
        ("spark.hadoop.fs.azure.account.key.acct.dfs.core.windows.net", True, False),
        ("spark.hadoop.fs.azure.sas.fixed.token.acct", True, False),
        ("spark.hadoop.fs.azure.sas.cont.acct", True, False),
        ("spark.hadoop.fs.gs.auth.service.account.private.key", True, False),
        ("spark.hadoop.fs.s3a.encryption.key", True, False),
        ("spark.hadoop.fs.s3a.server-side-encryption.key", True, False),
        ("spark.executorEnv.ANYTHING", False, False),
        ("spark.yarn.appMasterEnv.ANYTHING", False, False),
        ("spark.hadoop.fs.defaultFS", False, False),
        ("spark.ssl.keyPassword", True, False),
        ("spark.kubernetes.authenticate.oauthToken", True, False),
        ("spark.executor.memory", False, True),
        ("spark.driver.memory", False, True),
        ("spark.jars.packages", False, True),
    ],
)
def test_secrets_are_told_by_their_names(key: str, secret: bool, public: bool) -> None:
    """Spark shows no value of the first kind; on a command line stands nothing that storages or tasks are told."""
    assert bool(re.search(cluster.SECRETS, key)) is secret
    assert cluster.is_public(key) is public


@pytest.mark.parametrize(
    ("master", "local", "with_retries", "failures"),
    [
        ("local", True, "local[1,4]", 4),
        ("local[*]", True, "local[*,4]", 4),
        (" local[2] ", True, "local[2,4]", 4),
        ("local[2,1]", True, "local[2,1]", 1),
        ("local-cluster[2,1,512]", False, "local-cluster[2,1,512]", 7),
        ("spark://h:7077", False, "spark://h:7077", 7),
        ("yarn", False, "yarn", 7),
    ],
)
def test_local_masters_retry_like_clusters(master: str, local: bool, with_retries: str, failures: int) -> None:
    """A worker process that dies is no reason to give up, on one machine neither."""
    assert cluster.is_local(master) is local
    assert cluster.with_retries(master) == with_retries
    assert cluster.max_failures(with_retries, "7") == failures


def test_the_users_java_options_come_last() -> None:
    """The same flag given twice: Java takes the later one; two collectors it refuses."""
    assert cluster.lean_java() == "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    assert cluster.lean_java("-Da=b") == "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Da=b"
    assert cluster.lean_java("-XX:+UseG1GC") == "-XX:TieredStopAtLevel=1 -XX:+UseG1GC"


def test_threads_only_where_cores_are_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster a task has the cores that spark.task.cpus gives it."""
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert cluster.has_idle_cores("local[*,4]", None, 3)
    assert not cluster.has_idle_cores("local[*,4]", None, 4)
    assert cluster.has_idle_cores("local[2,4]", None, 9)
    assert not cluster.has_idle_cores("spark://h:1", None, 1)
    assert cluster.has_idle_cores("spark://h:1", "2", 9)


# --- Java


def _java(home: Path, *, says: str = "", release: str = "", code: int = 0) -> dict[str, str]:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'X'\n{says}\nX\nexit {code}\n")
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{release}"\n')
    return {"JAVA_HOME": str(home), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("release", "says", "version"),
    [
        ("17.0.15", "", "17.0.15"),
        ("", 'openjdk version "21-ea" 2023-09-19', "21-ea"),
        ("", 'java version "1.8.0_452"', "1.8.0_452"),
        ("25.0.1", "", "25.0.1"),
    ],
)
def test_the_real_version_of_java_is_read(tmp_path: Path, release: str, says: str, version: str) -> None:
    """From its release file, or from what it says itself."""
    assert cluster.check_java(_java(tmp_path / "jdk", says=says, release=release), "3.5.9") == version


def test_java_is_found_on_the_path(tmp_path: Path) -> None:
    """Where JAVA_HOME is not set; links are followed to the release file."""
    home = Path(_java(tmp_path / "jdk", release="17.0.1")["JAVA_HOME"])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert cluster.check_java({"PATH": str(tmp_path / "bin")}, "4.3.0") == "17.0.1"


@pytest.mark.parametrize("release", ["1.8.0_452", "11.0.2"])
def test_java_too_old_for_spark_4_is_named(tmp_path: Path, release: str) -> None:
    """Exit 14, with the version it found, the one it needs and what to set; Spark 3.5 can use it."""
    environment = _java(tmp_path / "jdk", release=release)
    with pytest.raises(MissingDependencyError) as caught:
        cluster.check_java(environment, "4.3.0")
    assert release in caught.value.message
    assert "Java 17" in caught.value.message
    assert "JAVA_HOME" in (caught.value.hint or "")
    assert caught.value.exit_code == ExitCode.STORAGE
    assert cluster.check_java(environment, "3.5.9") == release


def test_no_java_says_what_to_install(tmp_path: Path) -> None:
    """Neither on PATH, nor where JAVA_HOME says, nor one that answers."""
    with pytest.raises(MissingDependencyError, match="none on this machine's PATH") as caught:
        cluster.check_java({"PATH": str(tmp_path)}, "4.3.0")
    assert "openjdk-17" in (caught.value.hint or "")
    with pytest.raises(MissingDependencyError, match=re.escape(f"JAVA_HOME is {tmp_path}/gone")):
        cluster.check_java({"PATH": "/usr/bin", "JAVA_HOME": f"{tmp_path}/gone"}, "4.3.0")
    with pytest.raises(MissingDependencyError, match="does not answer as a Java does: broken"):
        cluster.check_java(_java(tmp_path / "jdk", says="broken", code=3), "4.3.0")


def test_the_engine_names_missing_java_before_it_starts_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The check comes first, so that no bash script speaks instead."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with SparkEngine("local[1]") as engine, pytest.raises(MissingDependencyError, match="JAVA_HOME"):
        engine.start()


def test_the_engine_names_missing_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that brings it."""
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delitem(sys.modules, "acidctl.engine.spark")
    with pytest.raises(MissingDependencyError, match="cannot be imported") as caught:
        make_engine(EngineChoice("spark"), 1)
    assert "acidctl[spark]" in (caught.value.hint or "")


def test_no_tasks_start_no_spark() -> None:
    """An empty run costs nothing."""
    with SparkEngine("spark://127.0.0.1:1") as engine:
        assert list(engine.run([])) == []


# --- masters


def test_a_master_that_does_not_answer_is_told_at_once() -> None:
    """Spark itself would try for a minute."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: refused, and nobody else's meanwhile
        port = taken.getsockname()[1]
        started = time.monotonic()
        with pytest.raises(MissingDependencyError, match=f"127.0.0.1:{port}: Connection refused") as caught:
            cluster.check_master(f"spark://127.0.0.1:{port}", {}, 1.0)
        assert time.monotonic() - started < 5
        assert caught.value.exit_code == ExitCode.STORAGE


def test_one_of_several_masters_is_enough() -> None:
    """A standby does not count against the active one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster.check_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}", {}, 1.0)


@pytest.mark.parametrize("master", ["spark://", "spark://host", "spark://host:99999", "spark://h:7077,", "spark://h:x"])
def test_malformed_masters_are_usage_errors(master: str) -> None:
    """Not a matter of the network."""
    with pytest.raises(UsageError, match="spark://HOST:PORT"):
        cluster.check_master(master, {})


def test_yarn_needs_its_configuration() -> None:
    """Spark's own words for it come only after a JVM."""
    with pytest.raises(MissingDependencyError, match="YARN_CONF_DIR"):
        cluster.check_master("yarn", {})
    cluster.check_master("yarn", {"HADOOP_CONF_DIR": "/etc/hadoop"})
    cluster.check_master("k8s://https://nowhere:1", {})
    cluster.check_master("local[*]", {})


# --- the package


def test_the_package_is_packed_whole_and_the_same_each_time(tmp_path: Path) -> None:
    """All our Python files and nothing else; the name tells the content."""
    package = Path(acidctl.__file__).parent
    archive = cluster.zip_package(package, "1.2", tmp_path)
    (tmp_path / "again").mkdir()
    again = cluster.zip_package(package, "1.2", tmp_path / "again")
    assert archive.name == again.name
    assert archive.read_bytes() == again.read_bytes()
    names = set(zipfile.ZipFile(archive).namelist())
    assert names == {path.relative_to(package.parent).as_posix() for path in package.rglob("*.py")}
    assert "acidctl/compaction/task.py" in names


def test_other_code_makes_another_name(tmp_path: Path) -> None:
    """Two versions in one session must not be taken for each other."""
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").write_text("a = 1\n")
    first = cluster.zip_package(tmp_path / "p", "1", tmp_path).name
    (tmp_path / "p" / "__init__.py").write_text("a = 2\n")
    assert cluster.zip_package(tmp_path / "p", "1", tmp_path).name != first


def test_required_versions_are_those_of_the_package() -> None:
    """One truth: what pip demands of an installation, executors need as well."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name, oldest in cluster.REQUIRED:
        assert f"{name}>={'.'.join(map(str, oldest))}" in project["dependencies"]


# --- one attempt


class _Sink:
    def __init__(self) -> None:
        self.value: tuple[bytes, ...] = ()

    def add(self, term: tuple[bytes, ...]) -> None:
        """Adds up as Spark would."""
        self.value = AddedAnswers().addInPlace(self.value, term)


def _answers(index: int, spec: TaskSpec, threads: bool) -> TaskOutcome:
    if spec.task.bucket_id == 1:
        return TaskOutcome(index, error=DamagedDataError("cut", path="/t/f", hint="Look."))
    if spec.task.bucket_id == 2:
        return TaskOutcome(index, error=InternalError("unexpected OSError: s3://user:secret@host/x"))
    return TaskOutcome(index, TaskResult(spec.task.output, None, 7, 0))


def _body(**changes: Any) -> Body:
    return Body(**{"sink": _Sink(), "version": acidctl.__version__, "work": _answers, **changes})


def test_answers_go_back_twice() -> None:
    """At once by the accumulator, and again as the content of the partition."""
    body = _body()
    payloads = [pickle.dumps((5, specs(1)[0]))]
    parcels = list(pickle.loads(pickle.dumps(body))(payloads))
    parcels = list(body(payloads))
    assert isinstance(body.sink, _Sink)
    assert body.sink.value == tuple(parcels)
    outcome = pickle.loads(parcels[0])
    assert isinstance(outcome, TaskOutcome)
    assert outcome.index == 5
    assert outcome.result is not None
    assert outcome.result.rows == 7


def test_bad_data_is_an_answer_and_a_crash_is_tried_again() -> None:
    """Bad data stays bad; what was not foreseen may be the machine's, until the last attempt."""
    bad = _body(failures=4).attempt(pickle.dumps((0, specs(2)[1])), 1)
    assert isinstance(bad, TaskOutcome)
    assert isinstance(bad.error, DamagedDataError)
    assert (bad.error.path, bad.error.hint) == ("/t/f", "Look.")
    crash = pickle.dumps((0, specs(3)[2]))
    with pytest.raises(TaskCrashedError) as caught:
        _body(failures=4).attempt(crash, 1)
    assert str(caught.value) == "unexpected OSError: s3://host/x"
    for failures, number in ((4, 2), (1, 1)):
        final = _body(failures=failures).attempt(crash, number)
        assert isinstance(final, TaskOutcome)
        assert isinstance(final.error, InternalError)


def test_a_server_that_is_gone_is_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as Spark begins a task; not what was asked often enough already, nor what will not change."""
    slept: list[float] = []
    monkeypatch.setattr("acidctl.engine.cluster.time.sleep", slept.append)
    gone, asked, full = UnreachableError("hdfs://h:1/t is gone"), UnreachableError("gone"), QuotaError("no room")
    asked.attempts = 4

    def attempt(error: AcidctlError, number: int) -> AcidctlError | None:
        body = _body(failures=4, work=lambda index, spec, threads: TaskOutcome(index, error=error))
        found = body.attempt(pickle.dumps((0, specs(1)[0])), number)
        assert isinstance(found, TaskOutcome)
        return found.error

    for number in (1, 2, 3):
        with pytest.raises(TaskCrashedError, match="hdfs://h:1/t is gone"):
            attempt(gone, number)
    assert slept == [2.0, 6.0, 18.0]
    assert isinstance(attempt(gone, 4), UnreachableError)
    assert isinstance(attempt(asked, 1), UnreachableError)
    assert isinstance(attempt(full, 1), QuotaError)
    assert len(slept) == 3


def _unfit(body: Body) -> Unfit:
    found = body.attempt(b"not even looked at", 1)
    assert isinstance(found, Unfit)
    return found


def test_an_executor_without_a_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an answer, for Spark must not try it four times; with the Python that lacks it."""
    for name, _ in cluster.REQUIRED:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, name, None)
            found = _unfit(_body())
        assert f"has no usable {name}" in found.reason
        assert sys.executable in found.reason
        assert "pyarrow" in found.hint


def test_an_executor_with_an_old_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual case on a cluster that somebody else looks after."""
    old = types.ModuleType("pyarrow")
    monkeypatch.setattr(old, "__version__", "4.0.1", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", old)
    assert "has pyarrow 4.0.1, and 17.0 or newer is needed" in _unfit(_body()).reason


def test_an_executor_with_another_acidctl_says_so() -> None:
    """A copy in its site-packages may come before the one that was sent."""
    assert f"imports acidctl {acidctl.__version__}" in _unfit(_body(version="99")).reason


def test_what_logs_may_show_of_a_payload_holds_no_secret() -> None:
    """Values that Spark may print are names and numbers; options are inside the bytes only."""
    assert SECRET not in repr(_body())


# --- failures


def _failed(text: str) -> tuple[AcidctlError, int | None]:
    return cluster.explain(RuntimeError(text), ["d/bucket_00000", "d/bucket_00001"])


LOST = (
    "Job aborted due to stage failure: Task 1 in stage 3.0 failed 4 times, most recent failure: Lost task 1.3 in stage "
    "3.0 (TID 15) (10.0.0.1 executor 2): ExecutorLostFailure (executor 2 exited caused by one of the running tasks) "
    "Reason: Command exited with code 137\n\tat java.base/x"
)


def test_a_task_that_kills_its_executors_is_named() -> None:
    """The one that Spark gave up on, by its output, with the reason and what helps against it."""
    error, place = _failed(LOST)
    assert place == 1
    assert "d/bucket_00001 after 4 attempts" in error.message
    assert "code 137" in error.message
    assert "TID" not in error.message
    assert "memoryOverhead" in (error.hint or "")


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, "
            "PySpark cannot run with different minor versions.",
            MissingDependencyError,
            "run Python 3.9 and this driver 3.11;",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version (3, 9) than that in driver 3.11, PySpark",
            MissingDependencyError,
            "run Python 3.9 and this driver 3.11;",
        ),
        (
            LOST + ' java.io.IOException: Cannot run program "python3.11": error=2, No such file',
            MissingDependencyError,
            "no Python program python3.11",
        ),
        ("Error from python worker: No module named pyspark", MissingDependencyError, "cannot import pyspark"),
        ("ModuleNotFoundError: No module named 'acidctl'", MissingDependencyError, "cannot import acidctl"),
        ("Job 0 cancelled because SparkContext was shut down", AcidctlError, "application ended"),
        ("Job 2 cancelled part of cancelled job group x", AcidctlError, "was cancelled"),
        (
            "something else s3://a:b@c/d\nat x",
            AcidctlError,
            "could not run the tasks: RuntimeError: something else s3://c/d",
        ),
    ],
)
def test_failures_of_all_tasks_are_sentences(text: str, kind: type[AcidctlError], message: str) -> None:
    """They concern no task in particular."""
    error, place = _failed(text)
    assert place is None
    assert type(error) is kind
    assert message in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("error", "printed", "kind", "message"),
    [
        ("x", "Error occurred: java.lang.module.FindException: Module jdk.incubator.vector not found",
         MissingDependencyError, "lacks the module"),
        ("SparkException: Could not parse Master URL: 'foo'", "", UsageError, "foo is not a Spark master"),
        ("java.lang.NumberFormatException: Size must be specified as bytes (b).\nFailed to parse byte string: abc\n"
         "\tat x", "", UsageError, "Failed to parse byte string: abc"),
        ("JAVA_GATEWAY_EXITED", "WARN x\nException in thread main: no such class\n\tat y", MissingDependencyError,
         "Exception in thread main: no such class"),
        ("JAVA_GATEWAY_EXITED", "Unrecognized VM option 'Foo'\nError: Could not create the Java Virtual Machine.",
         UsageError, "Java refuses its options: Unrecognized VM option 'Foo'"),
        ("JAVA_GATEWAY_EXITED", 'W\nException in thread "main" org.apache.spark.SparkException: Executor memory is',
         UsageError, "Spark refuses a setting: Executor memory is"),
    ],
)  # fmt: skip
def test_a_start_that_fails_is_a_sentence(error: str, printed: str, kind: type[AcidctlError], message: str) -> None:
    """Made of what Java threw, or of what its JVM printed before it ended."""
    explained = cluster.explain_start(RuntimeError(error), printed, "foo")
    assert type(explained) is kind
    assert message in explained.message
    assert explained.hint


def test_a_spark_home_without_spark_is_a_sentence() -> None:
    """The program that is missing is named."""
    missing = FileNotFoundError(2, "No such file or directory", "/opt/spark/bin/spark-submit")
    explained = cluster.explain_start(missing, "", "local[1]")
    assert isinstance(explained, MissingDependencyError)
    assert explained.message == "Spark's programs are not where they should be: /opt/spark/bin/spark-submit"
    assert "SPARK_HOME" in (explained.hint or "")
