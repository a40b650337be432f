"""What surrounds a Spark job, without pyspark: settings, masters and Java before it; a task on an executor; failures.

The first part runs in the driver before a JVM is started, and each check ends in a sentence that says what to install
or to change. The second runs inside executors and needs only what the work needs. The third makes sentences of what
Spark reports.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import acidctl
from acidctl.engine import LOCAL_MASTER, TaskOutcome, Work, default_work
from acidctl.errors import AcidctlError, InternalError, MissingDependencyError, StorageError, UsageError
from acidctl.storage.redact import without_credentials
from acidctl.values import dataclass

if TYPE_CHECKING:
    from pyspark import Accumulator

# --- settings

# Spark's own default of spark.redaction.regex, and what the keys of object stores are called.
SECRETS = r"(?i)secret|password|token|access[.]?key|account[.]key|private[.]key|encryption[.]key|[.]sas[.]"
# Settings of storages and environments hold secrets under any name, and no JVM needs them to start.
_HIDDEN_PREFIXES = ("spark.hadoop.", "spark.executorEnv.", "spark.driverEnv.", "spark.yarn.appMasterEnv.")

# Documented settings that Spark's core does not register: they belong to other modules, or end in a name of the user's.
_UNREGISTERED = (
    "app. hadoop. executorEnv. driverEnv. yarn. kubernetes. sql. hive. ssl. metrics. shuffle.io. rpc. connect. "
    "network. files.io. driver.resource. executor.resource. task.resource. security. mesos. deploy. worker. history. "
    "port. home submit. jars. plugins. databricks. emr."
)


def check_settings(settings: Mapping[str, str]) -> None:
    """UsageError for keys that cannot be Spark's, or that have an option of their own."""
    for key in settings:
        if not key.startswith("spark.") or key == "spark." or re.search(r"\s", key):
            raise UsageError(
                f"the Spark setting {key!r} does not begin with `spark.`",
                hint="Spark ignores such keys; Hadoop's own are written spark.hadoop.KEY.",
            )
        if key == "spark.master":
            raise UsageError("spark.master is set as a Spark setting", hint="Use --master instead.")


def may_be_unregistered(key: str) -> bool:
    """Whether a setting may be right although Spark's core has no entry of that name."""
    return key.removeprefix("spark.").startswith(tuple(_UNREGISTERED.split()))


def is_public(key: str) -> bool:
    """Whether a setting may be shown to everybody, as command lines are."""
    return not key.startswith(_HIDDEN_PREFIXES) and re.search(SECRETS, key) is None


def lean_java(options: str = "") -> str:
    """Options for a JVM that starts fast and leaves the cores alone; the user's own come last, and win.

    The JVMs only pass messages: compiling well takes longer than it saves, and the cores are needed by the tasks.
    """
    collector = "" if "GC" in options else "-XX:+UseSerialGC"
    return " ".join(filter(None, ("-XX:TieredStopAtLevel=1", collector, options)))


def is_local(master: str) -> bool:
    """Whether Spark works inside the driver's own JVM."""
    return LOCAL_MASTER.fullmatch(master.strip()) is not None


def with_retries(master: str, failures: int = 4) -> str:
    """A local master that tries a lost task again, as every cluster does; others unchanged."""
    local = LOCAL_MASTER.fullmatch(master.strip())
    if local is None or local[2]:
        return master.strip()
    return f"local[{local[1] or 1},{failures}]"


def max_failures(master: str, setting: str | None) -> int:
    """How often Spark lets one task fail; `setting` is the value of spark.task.maxFailures."""
    local = LOCAL_MASTER.fullmatch(master.strip())
    if local is not None:
        return int(local[2] or 1)
    return int(setting) if setting and setting.isdigit() else 4


def has_idle_cores(master: str, task_cpus: str | None, tasks: int) -> bool:
    """Whether a task may use several threads: it has more than one core to itself, or its machine has some left."""
    if task_cpus and task_cpus.isdigit() and int(task_cpus) > 1:
        return True
    local = LOCAL_MASTER.fullmatch(master.strip())
    if local is None:
        return False
    cores = os.cpu_count() or 1
    at_once = cores if local[1] == "*" else int(local[1] or 1)
    return min(at_once, tasks) < cores


# --- Java and the master


def check_java(environment: Mapping[str, str], spark_version: str) -> str:
    """The version of the Java that Spark's scripts take; MissingDependencyError without one that is new enough."""
    needed = 17 if int(spark_version.partition(".")[0]) >= 4 else 8
    home = environment.get("JAVA_HOME")
    if home:
        program: str | None = os.path.join(home, "bin", "java")
        if not os.access(program or "", os.X_OK) or os.path.isdir(program or ""):
            raise MissingDependencyError(
                f"JAVA_HOME is {home}, but there is no program bin/java in it",
                hint=f"Set JAVA_HOME to a Java {needed} or newer, or unset it to take the one on PATH.",
            )
    else:
        program = shutil.which("java", path=environment.get("PATH"))
    if program is None:
        raise MissingDependencyError(
            "Spark needs Java, and there is none on this machine's PATH",
            hint=f"Install a Java {needed} or newer (Debian: openjdk-{needed}-jre-headless) or set JAVA_HOME, "
            "or run with --engine local.",
        )
    text = _java_version(program)
    numbers = [int(number) for number in re.findall(r"\d+", text)] or [0]
    # 8 of `1.8.0_452`, 17 of `17.0.15`, 21 of `21-ea`.
    version = numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
    if version < needed:
        raise MissingDependencyError(
            f"Spark {spark_version} needs Java {needed} or newer, and {program} is Java {text}",
            hint="Set JAVA_HOME to a newer one, or run with --engine local.",
        )
    return text


def _java_version(program: str) -> str:
    """As a JDK's `release` file has it; one without such a file is asked."""
    release = Path(os.path.realpath(program)).parent.parent / "release"
    try:
        version = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        version = None
    if version is None:
        try:
            done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MissingDependencyError(
                f"Java cannot be started: {program}: {error}", hint="Set JAVA_HOME to one that can."
            ) from error
        version = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
        if done.returncode or version is None:
            answer = (done.stderr or done.stdout).strip().partition("\n")[0]
            raise MissingDependencyError(
                f"{program} -version does not answer as a Java does: {answer or f'exit code {done.returncode}'}",
                hint="Set JAVA_HOME to a working Java.",
            )
    return version[1]


def check_master(master: str, environment: Mapping[str, str], timeout: float = 5.0) -> None:
    """Connects to the masters of a standalone cluster, `timeout` seconds each: Spark itself would try for a minute.

    Other kinds of cluster are found by their own means, and get only the checks that cost nothing.
    """
    text = master.strip()
    if text.startswith("spark://"):
        addresses = [_address(part, text) for part in text.removeprefix("spark://").split(",")]
        problems = []
        for host, port in addresses:
            try:
                socket.create_connection((host, port), timeout).close()
                return
            except OSError as error:
                problems.append(f"{host}:{port}: {error.strerror or error}")
        raise MissingDependencyError(
            f"the Spark master {text} does not answer ({'; '.join(problems)})",
            hint="Check the address and that the master runs; its log and web page name the spark:// URL.",
        )
    if text.startswith("yarn") and not (environment.get("HADOOP_CONF_DIR") or environment.get("YARN_CONF_DIR")):
        raise MissingDependencyError(
            "for --master yarn neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set",
            hint="Set one to the folder with the cluster's yarn-site.xml.",
        )


def _address(text: str, master: str) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[^\]]+\]|[^:/?#]+):(\d{1,5})", text.strip())
    if match is None or int(match[2]) > 65535:
        raise UsageError(f"the Spark master {master} is not spark://HOST:PORT", hint="The port is 7077 by default.")
    return match[1].strip("[]"), int(match[2])


def zip_package(package: Path, version: str, folder: Path) -> Path:
    """Packs the Python files of an installed package into a zip in `folder` whose name tells its content."""
    files = sorted(path for path in package.rglob("*.py") if "__pycache__" not in path.parts)
    contents = [(path.relative_to(package.parent).as_posix(), path.read_bytes()) for path in files]
    digest = hashlib.sha256()
    for name, content in contents:
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    target = folder / f"{package.name}_{version}_{digest.hexdigest()[:12]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents:
            # A fixed date: equal code makes equal bytes.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return target


# --- One attempt at one task, inside an executor. Its result, its own error (bad data stays bad, so Spark must not try
# again) and why this executor cannot work at all travel back as bytes. Only what another try might heal is raised.

Package = tuple[str, tuple[int, ...]]
Answers = tuple[bytes, ...]

# What a task imports, and the oldest versions that it works with.
REQUIRED: tuple[Package, ...] = (("numpy", (1, 26)), ("pyarrow", (17, 0)), ("pyorc", (0, 12)))

# An unexpected exception is tried once more: it may be this machine's own trouble.
ATTEMPTS = 2
_PAUSE_SECONDS = 2.0  # after the first failure of a storage; three times as long after each further one


@dataclass(frozen=True, slots=True)
class Unfit:
    """This executor cannot run any task; `reason` completes the sentence "an executor ..."."""

    reason: str
    hint: str


class TaskCrashedError(Exception):
    """A task ended in an unexpected exception; Spark begins it again elsewhere."""


class AddedAnswers:
    """How Spark adds up what attempts send (the protocol of `pyspark.AccumulatorParam`): one after the other."""

    def zero(self, value: Answers) -> Answers:
        """Nothing sent yet."""
        return ()

    def addInPlace(self, one: Answers, other: Answers) -> Answers:
        """Both, in order."""
        return one + other


@dataclass(frozen=True, slots=True)
class Body:
    """The function that Spark calls once per partition, with the pickled tasks in it (one).

    Each answer goes back twice: through `sink` as soon as the attempt counts, and as the partition's content, which
    is there at the end of the job whatever became of the first. `version` is that of the driver's acidctl, `failures`
    how often Spark lets a task fail, `packages` what the table's storage needs beside what every task needs, `work`
    replaces the usual work; `threads` is handed to it.
    """

    sink: Accumulator[Answers]
    version: str
    failures: int = 1
    threads: bool = False
    work: Work | None = None
    packages: tuple[Package, ...] = ()

    def __call__(self, payloads: Iterable[bytes]) -> Iterator[bytes]:
        """Runs every payload of this partition; yields one answer each."""
        for payload in payloads:
            answer = pickle.dumps(self.attempt(payload, _attempts_before() + 1), pickle.HIGHEST_PROTOCOL)
            self.sink.add((answer,))
            yield answer

    def attempt(self, payload: bytes, number: int) -> TaskOutcome | Unfit:
        """Runs one pickled task; `number` counts how often it was begun, from 1.

        Raises what another attempt may heal, as long as Spark begins one.
        """
        unfit = why_unfit(self.version, self.packages)
        if unfit is not None:
            return unfit
        index, spec = pickle.loads(payload)
        outcome = (self.work or default_work())(index, spec, self.threads)
        if number < self.failures and outcome.error is not None and _may_heal(outcome.error, number):
            # Not chained: values of the table have no place in a cluster's logs.
            raise TaskCrashedError(without_credentials(outcome.error.message))
        return outcome


def _may_heal(error: AcidctlError, number: int) -> bool:
    """Whether a task is worth another attempt after it failed for that many times; waits before it says so.

    A server that is gone is known to be gone after a while, and then others are taken; readers have waited already.
    """
    if isinstance(error, InternalError):
        return number < ATTEMPTS
    if not isinstance(error, StorageError) or not error.transient or error.attempts > 1:
        return False
    time.sleep(_PAUSE_SECONDS * 3 ** (number - 1))
    return True


def why_unfit(version: str, packages: tuple[Package, ...] = ()) -> Unfit | None:
    """Why this process cannot run tasks of an acidctl of that version; None when it can.

    `packages` are import names and oldest versions of what the storage of these tasks needs.
    """
    if acidctl.__version__ != version:
        return Unfit(
            f"imports acidctl {acidctl.__version__} from {os.path.dirname(acidctl.__file__)}, the driver is {version}",
            "Remove that copy from the executors, or from the session's files.",
        )
    required = (*REQUIRED, *packages)
    names = " ".join(name.replace("_", "-") for name, _ in required)
    hint = (
        f"Install {names} into that Python on every worker node, or name another by "
        "--spark-conf spark.pyspark.python=PATH, or send an environment along by --spark-conf spark.archives=FILE."
    )
    for name, oldest in required:
        try:
            installed = str(getattr(importlib.import_module(name), "__version__", ""))
        except ImportError as error:
            why = "" if isinstance(error, ModuleNotFoundError) and error.name == name else f" ({error})"
            return Unfit(f"has no usable {name}{why}; its Python is {sys.executable}", hint)
        numbers = tuple(int(number) for number in re.findall(r"\d+", installed)[:2])
        if numbers and numbers < oldest:
            needed = ".".join(map(str, oldest))
            return Unfit(
                f"has {name} {installed}, and {needed} or newer is needed; its Python is {sys.executable}", hint
            )
    return None


def _attempts_before() -> int:
    """How often Spark has begun this task before, 0 outside Spark."""
    pyspark = sys.modules.get("pyspark")
    current = pyspark.TaskContext.get() if pyspark is not None else None
    return int(current.attemptNumber()) if current is not None else 0


# --- What Spark reports when something fails, as a sentence: which task it concerns, why, what to do now.

_PYTHON_HINT = "Name the right one by --spark-conf spark.pyspark.python=PATH, a path on the worker nodes."
_SETTINGS_HINT = "Check the values given by --spark-conf, and those of spark-defaults.conf."
_REFUSED_BY_SPARK = r'Exception in thread "main" org\.apache\.spark\.SparkException: (.+)'
_REFUSED_BY_JAVA = r"(?:NumberFormatException|IllegalArgumentException): (.+(?:\n(?!\s*at ).+)?)"
_RERUN = "The table is as it was; run it again, with -v for Spark's own messages."

# By the kind of error: a pattern, the message with the pattern's groups, and the hint.
_Sentences = Mapping[type[AcidctlError], Sequence[tuple[str, str, str]]]

_OF_ALL_TASKS: _Sentences = {
    MissingDependencyError: (
        (
            r"different (?:minor )?version:? \(?(\d+)[., ]+(\d+)\S* than that in driver:? \(?(\d+)[., ]+(\d+)",
            "the executors run Python {0}.{1} and this driver {2}.{3}; the minor versions must be equal",
            _PYTHON_HINT,
        ),
        (
            "PYTHON_VERSION_MISMATCH",
            "the executors run another Python than this driver; the minor versions must be equal",
            _PYTHON_HINT,
        ),
        (r'Cannot run program "([^"]+)"', "the executors have no Python program {0}", _PYTHON_HINT),
        (r"No module named '?(pyspark|py4j|acidctl)", "the executors' Python cannot import {0}", _PYTHON_HINT),
    ),
    AcidctlError: (
        (
            r"SparkContext (?:was|has been) shut ?down|stopped SparkContext|Py4JNetworkError|Answer from Java",
            "the Spark application ended while tasks were running",
            _RERUN,
        ),
        (r"Job \d+ cancelled", "the Spark job was cancelled", _RERUN),
    ),
}
_OF_A_START: _Sentences = {
    MissingDependencyError: (
        (
            r"jdk\.incubator\.vector not found",
            "this Java lacks the module jdk.incubator.vector, which Spark needs",
            "Install a full JDK or JRE of your system, and set JAVA_HOME to it.",
        ),
        (
            r"^FileNotFoundError: .*?'(.+)'",
            "Spark's programs are not where they should be: {0}",
            "Unset SPARK_HOME, or install pyspark anew: `pip install --force-reinstall pyspark`.",
        ),
    ),
    UsageError: (
        (
            r"Could not parse Master URL|Master must either be|Invalid master URL",
            "{master} is not a Spark master",
            "Masters are local[N], spark://HOST:PORT, yarn, k8s://https://HOST:PORT.",
        ),
        (
            r"Unrecognized VM option|Could not create the Java Virtual Machine",
            "Java refuses its options: {problem}",
            "Check spark.driver.extraJavaOptions and spark.driver.memory.",
        ),
        (_REFUSED_BY_SPARK, "Spark refuses a setting: {0}", _SETTINGS_HINT),
    ),
}
_OF_A_SETTING: _Sentences = {UsageError: ((_REFUSED_BY_JAVA, "Spark refuses a setting: {0}", _SETTINGS_HINT),)}


def explain(error: Exception, outputs: Sequence[str]) -> tuple[AcidctlError, int | None]:
    """Why a job ended, and the partition at which it did, None when the reason concerns all of them.

    `outputs` are the names of the files that the partitions were to write.
    """
    text = _text(error)
    general = _sentence(_OF_ALL_TASKS, text)
    if general is not None:
        return general, None
    failed = re.search(r"Task (\d+) in stage [\d.]+ failed (\d+) times?, most recent failure: ?(.*)", text)
    if failed is None or int(failed[1]) >= len(outputs):
        return AcidctlError(f"Spark could not run the tasks: {_first_line(text)}", hint=_RERUN), None
    reason = re.sub(r"^Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) ", "", failed[3])
    place = int(failed[1])
    return AcidctlError(
        f"Spark gave up on {outputs[place]} after {failed[2]} attempts: {_short(reason)}",
        hint="A worker that was killed mostly lacked memory: raise spark.executor.memoryOverhead, or lower "
        "spark.executor.cores so that fewer tasks share an executor.",
    ), place


def explain_start(error: Exception, printed: str, master: str) -> AcidctlError:
    """Why an application did not start; `printed` is the output of its JVM."""
    text, problem = _text(error), _problem_line(printed)
    return (
        _sentence(_OF_A_START, f"{text}\n{printed}", master=master, problem=problem)
        or _sentence(_OF_A_SETTING, text)
        or MissingDependencyError(
            f"Spark did not start on {master}: {problem or _first_line(text)}",
            hint="Run with -v for Spark's own messages, or with --engine local.",
        )
    )


def _sentence(sentences: _Sentences, text: str, **named: str) -> AcidctlError | None:
    """The error of the first pattern that is in the text."""
    for kind, entries in sentences.items():
        for pattern, message, hint in entries:
            match = re.search(pattern, text)
            if match is not None:
                return kind(message.format(*map(_short, match.groups()), **named), hint=hint)
    return None


def _text(error: Exception) -> str:
    """The exception as a text; one of Java's with its own message, not only py4j's about it."""
    java = getattr(error, "java_exception", None)
    try:
        # A JVM that has died since does not answer any more.
        java_text = str(java.toString()) if java is not None else ""
    except Exception:
        java_text = ""
    return f"{java_text}\n{type(error).__name__}: {error}".strip()


def _problem_line(printed: str) -> str:
    """The line of a JVM's output that names the trouble, else its last."""
    lines = [line.strip() for line in printed.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    lines = [line for line in lines if not re.search(r"Could not create the Java|A fatal exception has occ", line)]
    named = [line for line in lines if re.search(r"Exception|[Ee]rror|Invalid|Unrecog|Conflict|not set|refused", line)]
    return _short((named or lines or [""])[0 if named else -1])


def _first_line(text: str) -> str:
    return _short(text.strip().partition("\n")[0])


def _short(text: str, width: int = 300) -> str:
    text = without_credentials(re.sub(r"\s+", " ", text)).strip()
    return text if len(text) <= width else text[: width - 3] + "..."
