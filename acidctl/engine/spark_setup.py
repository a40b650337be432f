"""What Spark needs of this machine and of the user's settings, checked before a JVM is started.

Each check ends in a sentence that says what to install or to change; none of them imports pyspark.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from acidctl.errors import MissingDependencyError, UsageError

# The JVMs only pass messages: compiling well takes longer than it saves, and the cores are needed by the tasks.
LEAN_COMPILER, LEAN_COLLECTOR = "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"

# Spark's own default of spark.redaction.regex, and what the keys of object stores are called.
SECRETS = r"(?i)secret|password|token|access[.]?key|account[.]key|private[.]key|encryption[.]key|[.]sas[.]"
# Settings of storages and environments hold secrets under any name, and no JVM needs them to start.
_HIDDEN_PREFIXES = ("spark.hadoop.", "spark.executorEnv.", "spark.driverEnv.", "spark.yarn.appMasterEnv.")

# Documented settings that Spark's core does not register: they belong to other modules, or end in a name of the user's.
_OPEN_PREFIXES = (
    *("spark.app.", "spark.hadoop.", "spark.executorEnv.", "spark.driverEnv.", "spark.yarn.", "spark.kubernetes."),
    *("spark.sql.", "spark.hive.", "spark.ssl.", "spark.metrics.", "spark.shuffle.io.", "spark.rpc.", "spark.connect."),
    *(
        "spark.network.",
        "spark.files.io.",
        "spark.driver.resource.",
        "spark.executor.resource.",
        "spark.task.resource.",
    ),
    *("spark.security.", "spark.mesos.", "spark.deploy.", "spark.worker.", "spark.history.", "spark.port."),
    *("spark.home", "spark.submit.", "spark.jars.", "spark.plugins.", "spark.databricks.", "spark.emr."),
)

_LOCAL = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*(\d+)\s*)?\])?")


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that Spark will start: its program, its feature version (8, 17, 21), and the full text of it."""

    program: str
    version: int
    text: str


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
    """Whether a key counts as known although Spark's core has no entry of that name."""
    return key.startswith(_OPEN_PREFIXES)


def lean_java(options: str = "") -> str:
    """Options for a JVM that starts fast and leaves the cores alone; the user's own come last, and win."""
    collector = "" if "GC" in options else LEAN_COLLECTOR
    return " ".join(filter(None, (LEAN_COMPILER, collector, options)))


def is_public(key: str) -> bool:
    """Whether a setting may be shown to everybody, as command lines are."""
    return not key.startswith(_HIDDEN_PREFIXES) and re.search(SECRETS, key) is None


def is_local(master: str) -> bool:
    """Whether Spark works inside the driver's own JVM."""
    return _LOCAL.fullmatch(master.strip()) is not None


def require_cores(master: str) -> None:
    """UsageError for a local master without a core, of which Spark says only that a number is not positive."""
    found = _LOCAL.fullmatch(master.strip())
    if found is not None and found[1] is not None and found[1] != "*" and not int(found[1]):
        raise UsageError(
            f"--master {master} asks for a Spark without a single core",
            hint="Write local[N] with the number of tasks that run at a time, or local[*] for all cores.",
        )


def with_retries(master: str, failures: int = 4) -> str:
    """A local master that tries a lost task again, as every cluster does; others unchanged."""
    found = _LOCAL.fullmatch(master.strip())
    if found is None or found[2]:
        return master.strip()
    return f"local[{found[1] or 1},{failures}]"


def max_failures(master: str, setting: str | None) -> int:
    """How often Spark lets one task fail; `setting` is the value of spark.task.maxFailures."""
    found = _LOCAL.fullmatch(master.strip())
    if found is not None:
        return int(found[2] or 1)
    return int(setting) if setting and setting.isdigit() else 4


def has_idle_cores(master: str, task_cpus: str | None, tasks: int) -> bool:
    """Whether a task may use several threads: it has more than one core to itself, or its machine has some left."""
    if task_cpus and task_cpus.isdigit() and int(task_cpus) > 1:
        return True
    found = _LOCAL.fullmatch(master.strip())
    if found is None:
        return False
    cores = os.cpu_count() or 1
    at_once = cores if found[1] == "*" else int(found[1] or 1)
    return min(at_once, tasks) < cores


def needed_java(spark_version: str) -> int:
    """The oldest Java for a release of Spark: 17 since 4.0, before that 8."""
    return 17 if int(spark_version.partition(".")[0]) >= 4 else 8


def find_java(environment: Mapping[str, str], spark_version: str) -> Java:
    """The Java that Spark's scripts will take; MissingDependencyError when there is none, or one too old."""
    needed = needed_java(spark_version)
    home = environment.get("JAVA_HOME")
    if home:
        program = os.path.join(home, "bin", "java")
        if not os.access(program, os.X_OK) or os.path.isdir(program):
            raise MissingDependencyError(
                f"JAVA_HOME is {home}, but there is no program bin/java in it",
                hint=f"Set JAVA_HOME to a Java {needed} or newer, or unset it to take the one on PATH.",
            )
    else:
        found = shutil.which("java", path=environment.get("PATH"))
        if found is None:
            raise MissingDependencyError(
                "Spark needs Java, and there is none on this machine's PATH",
                hint=f"Install a Java {needed} or newer (Debian: openjdk-{needed}-jre-headless) or set JAVA_HOME, "
                "or run with --engine local.",
            )
        program = found
    text = _java_version(program)
    version = _feature_version(text)
    if version < needed:
        raise MissingDependencyError(
            f"Spark {spark_version} needs Java {needed} or newer, and {program} is Java {text}",
            hint="Set JAVA_HOME to a newer one, or run with --engine local.",
        )
    return Java(program, version, text)


def _java_version(program: str) -> str:
    """As a JDK's `release` file has it; what comes without one is asked."""
    release = Path(os.path.realpath(program)).parent.parent / "release"
    try:
        found = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        found = None
    if found is None:
        try:
            done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MissingDependencyError(
                f"Java cannot be started: {program}: {error}", hint="Set JAVA_HOME to one that can."
            ) from error
        found = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
        if done.returncode or found is None:
            said = (done.stderr or done.stdout).strip().partition("\n")[0]
            raise MissingDependencyError(
                f"{program} -version does not answer as a Java does: {said or f'exit code {done.returncode}'}",
                hint="Set JAVA_HOME to a working Java.",
            )
    return found[1]


def _feature_version(text: str) -> int:
    """8 of `1.8.0_452`, 17 of `17.0.15`, 21 of `21-ea`."""
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def check_master(master: str, environment: Mapping[str, str], timeout: float = 5.0) -> None:
    """Knocks at the masters of a standalone cluster, `timeout` seconds each: Spark itself would try for a minute.

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
    found = re.fullmatch(r"(\[[^\]]+\]|[^:/?#]+):(\d{1,5})", text.strip())
    if found is None or int(found[2]) > 65535:
        raise UsageError(f"the Spark master {master} is not spark://HOST:PORT", hint="The port is 7077 by default.")
    return found[1].strip("[]"), int(found[2])


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
