"""Sentences for what Spark reports when something fails: which task it concerns, why, what to do now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from acidctl.errors import AcidctlError, MissingDependencyError, UsageError
from acidctl.storage.redact import without_credentials

_PYTHON_HINT = "Name the right one by --spark-conf spark.pyspark.python=PATH, a path on the worker nodes."

_SETTINGS_HINT = "Check the values given by --spark-conf, and those of spark-defaults.conf."


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job ended: `place` is the partition it failed at, None when it concerns all of them."""

    error: AcidctlError
    place: int | None = None


def explain(error: Exception, outputs: Sequence[str]) -> Failure:
    """What a failed job means; `outputs` are the names of the files its partitions were to write."""
    text = _text(error)
    general = _general(text)
    if general is not None:
        return Failure(general)
    found = re.search(r"Task (\d+) in stage [\d.]+ failed (\d+) times?, most recent failure: ?(.*)", text)
    if found is None or int(found[1]) >= len(outputs):
        return Failure(AcidctlError(f"Spark could not run the tasks: {_first_line(text)}", hint=_RERUN))
    reason = re.sub(r"^Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) ", "", found[3])
    place = int(found[1])
    return Failure(
        AcidctlError(
            f"Spark gave up on {outputs[place]} after {found[2]} attempts: {_short(reason)}",
            hint="A worker that was killed mostly lacked memory: raise spark.executor.memoryOverhead, or lower "
            "spark.executor.cores so that fewer tasks share an executor.",
        ),
        place,
    )


_RERUN = "The table is as it was; run it again, with -v for Spark's own messages."


def _general(text: str) -> AcidctlError | None:
    """What concerns every task."""
    found = re.search(r"different (?:minor )?version:? \(?([\d., ]+?)\)? than that in driver:? \(?([\d., ]+\d)", text)
    if "PYTHON_VERSION_MISMATCH" in text or found is not None:
        versions = [part.strip().replace(", ", ".") for part in found.groups()] if found else ["another version", ""]
        return MissingDependencyError(
            f"the executors run Python {versions[0]} and this driver {versions[1]}; the minor versions must be equal",
            hint=_PYTHON_HINT,
        )
    found = re.search(r'Cannot run program "([^"]+)"', text)
    if found is not None:
        return MissingDependencyError(f"the executors have no Python program {found[1]}", hint=_PYTHON_HINT)
    found = re.search(r"No module named '?(pyspark|py4j|acidctl)", text)
    if found is not None:
        return MissingDependencyError(f"the executors' Python cannot import {found[1]}", hint=_PYTHON_HINT)
    if re.search(
        r"SparkContext (?:was|has been) shut ?down|stopped SparkContext|Py4JNetworkError|Answer from Java", text
    ):
        return AcidctlError("the Spark application ended while tasks were running", hint=_RERUN)
    if re.search(r"Job \d+ cancelled", text):
        return AcidctlError("the Spark job was cancelled", hint=_RERUN)
    return None


def explain_start(error: Exception, printed: str, master: str) -> AcidctlError:
    """Why an application did not start; `printed` is what its JVM said."""
    text = f"{_text(error)}\n{printed}"
    if re.search(r"jdk\.incubator\.vector not found", text):
        return MissingDependencyError(
            "this Java lacks the module jdk.incubator.vector, which Spark needs",
            hint="Install a full JDK or JRE of your system, and set JAVA_HOME to it.",
        )
    if re.search(r"Could not parse Master URL|Master must either be|Invalid master URL", text):
        return UsageError(
            f"{master} is not a Spark master",
            hint="Masters are local[N], spark://HOST:PORT, yarn, k8s://https://HOST:PORT.",
        )
    if "Unrecognized VM option" in text or "Could not create the Java Virtual Machine" in text:
        return UsageError(
            f"Java refuses its options: {_telling_line(printed)}",
            hint="Check spark.driver.extraJavaOptions and spark.driver.memory.",
        )
    refused = re.search(r'Exception in thread "main" org\.apache\.spark\.SparkException: (.+)', printed)
    if refused is not None:
        return UsageError(f"Spark refuses a setting: {_short(refused[1])}", hint=_SETTINGS_HINT)
    if isinstance(error, FileNotFoundError):
        return MissingDependencyError(
            f"Spark's programs are not where they should be: {error.filename}",
            hint="Unset SPARK_HOME, or install pyspark anew: `pip install --force-reinstall pyspark`.",
        )
    wrong = re.search(r"(?:NumberFormatException|IllegalArgumentException): (.+(?:\n(?!\s*at ).+)?)", _text(error))
    if wrong is not None:
        return UsageError(
            f"Spark refuses a setting: {_short(wrong[1].splitlines()[-1])} ({_short(wrong[1].splitlines()[0])})",
            hint=_SETTINGS_HINT,
        )
    return MissingDependencyError(
        f"Spark did not start on {master}: {_telling_line(printed) or _first_line(_text(error))}",
        hint="Run with -v for Spark's own messages, or with --engine local.",
    )


def _text(error: Exception) -> str:
    """The exception as a text; one of Java's with its own message, not only py4j's about it."""
    java = getattr(error, "java_exception", None)
    try:
        # A JVM that has died since cannot say any more.
        said = str(java.toString()) if java is not None else ""
    except Exception:
        said = ""
    return f"{said}\n{type(error).__name__}: {error}".strip()


def _telling_line(printed: str) -> str:
    """The line of a JVM's output that names the trouble, else its last."""
    lines = [line.strip() for line in printed.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    lines = [line for line in lines if not re.search(r"Could not create the Java|A fatal exception has occ", line)]
    telling = [
        line for line in lines if re.search(r"Exception|[Ee]rror|Invalid|Unrecog|Conflict|not set|refused", line)
    ]
    return _short((telling or lines or [""])[0 if telling else -1])


def _first_line(text: str) -> str:
    return _short(text.strip().partition("\n")[0])


def _short(text: str, width: int = 300) -> str:
    text = without_credentials(re.sub(r"\s+", " ", text)).strip()
    return text if len(text) <= width else text[: width - 3] + "..."
