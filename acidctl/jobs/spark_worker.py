"""What runs inside Spark executors: one attempt at one task, and nothing of Spark itself.

Plain functions and values, so that an executor needs only what the work needs. Whatever a task has to say travels
back as bytes: its result, its own error (bad data stays bad, so Spark must not try again), or why this executor cannot
work at all. Only what another try might heal is raised.
"""

from __future__ import annotations

import importlib
import os
import pickle
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import acidctl
from acidctl.errors import AcidctlError
from acidctl.jobs.spec import TaskOutcome, TaskResult, TaskSpec
from acidctl.storage.redact import without_credentials

RunTask = Callable[[TaskSpec], TaskResult]

# What a task imports, and the oldest versions that it works with.
REQUIRED = (("numpy", (1, 26)), ("pyarrow", (17, 0)), ("pyorc", (0, 10)))

# An unexpected exception is tried again once: a full disk or a lack of memory may be this machine's own.
ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Unfit:
    """This executor cannot run any task; `reason` completes the sentence "an executor ..."."""

    reason: str
    hint: str


class TaskCrashedError(Exception):
    """A task ended in an unexpected exception; Spark tries it again elsewhere."""


class Sink(Protocol):
    """The part of a Spark accumulator that is used here."""

    def add(self, term: tuple[bytes, ...]) -> None:
        """Sends something to the driver, once the attempt has been accepted."""
        ...


class Parcels:
    """How Spark adds up what attempts send (the protocol of `pyspark.AccumulatorParam`): one after the other."""

    def zero(self, value: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Nothing sent yet."""
        return ()

    def addInPlace(self, one: tuple[bytes, ...], other: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Both, in order."""
        return one + other


@dataclass(frozen=True, slots=True)
class Body:
    """The function that Spark calls once per partition, with the packed specs in it (one).

    Each answer goes back twice: through `sink` as soon as the attempt counts, and as the partition's content, which
    is there at the end of the job whatever became of the first.
    """

    sink: Sink
    version: str
    attempts: int = 1
    run: RunTask | None = None

    def __call__(self, payloads: Iterable[bytes]) -> Iterator[bytes]:
        """Runs every payload of this partition; yields one parcel each."""
        for payload in payloads:
            parcel = attempt(payload, self.version, self.run, last=_attempt_number() + 1 >= self.attempts)
            self.sink.add((parcel,))
            yield parcel


def pack(index: int, spec: TaskSpec) -> bytes:
    """A spec and its place in the sequence, as a payload."""
    return pickle.dumps((index, pickle.dumps(spec, pickle.HIGHEST_PROTOCOL)), pickle.HIGHEST_PROTOCOL)


def unpack(parcel: bytes) -> TaskOutcome | Unfit:
    """What an attempt sent."""
    found = pickle.loads(parcel)
    assert isinstance(found, TaskOutcome | Unfit)
    return found


def attempt(payload: bytes, version: str, run: RunTask | None = None, *, last: bool = True) -> bytes:
    """Runs one packed spec and packs what became of it; raises TaskCrashedError unless this is the `last` attempt.

    `version` is that of the driver's acidctl. `run` stands in for `jobs.task.run_task`.
    """
    unfit = shortcoming(version)
    if unfit is not None:
        return pickle.dumps(unfit, pickle.HIGHEST_PROTOCOL)
    index, packed = pickle.loads(payload)
    try:
        result = (run or _run_task())(pickle.loads(packed))
        return pickle.dumps(TaskOutcome(index, result=result), pickle.HIGHEST_PROTOCOL)
    except AcidctlError as error:
        return pickle.dumps(TaskOutcome(index, error=_portable(error)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        text = _describe(error)
        if not last:
            # Without the chain: values of the task have no place in a cluster's logs.
            raise TaskCrashedError(text) from None
        crash = AcidctlError(f"a task failed unexpectedly: {text}", hint="Run with --debug, and report it.")
        return pickle.dumps(TaskOutcome(index, error=crash), pickle.HIGHEST_PROTOCOL)


def shortcoming(version: str) -> Unfit | None:
    """Why this process cannot run tasks of an acidctl of that version; None when it can."""
    if acidctl.__version__ != version:
        return Unfit(
            f"imports acidctl {acidctl.__version__} from {os.path.dirname(acidctl.__file__)}, the driver is {version}",
            "Remove that copy from the executors, or from the session's files.",
        )
    for name, oldest in REQUIRED:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            said = f" ({error})" if not isinstance(error, ModuleNotFoundError) else ""
            return Unfit(f"has no {name}{said}; its Python is {sys.executable}", _install_hint())
        found = str(getattr(module, "__version__", ""))
        numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
        if numbers and numbers < oldest:
            needed = ".".join(map(str, oldest))
            return Unfit(
                f"has {name} {found}, and {needed} or newer is needed; its Python is {sys.executable}", _install_hint()
            )
    return None


def _install_hint() -> str:
    names = " ".join(name for name, _ in REQUIRED)
    return (
        f"Install {names} into that Python on every worker node, or name another by "
        "--spark-conf spark.pyspark.python=PATH, or send an environment along by --spark-conf spark.archives=FILE."
    )


def _run_task() -> RunTask:
    # Not at the top: without pyarrow the import fails, and that has to be said in a sentence.
    module = importlib.import_module("acidctl.jobs.task")
    run: RunTask = module.run_task
    return run


def _attempt_number() -> int:
    """How often Spark has begun this task before, 0 outside Spark."""
    context = sys.modules.get("pyspark")
    current = context.TaskContext.get() if context is not None else None
    return int(current.attemptNumber()) if current is not None else 0


def _portable(error: AcidctlError) -> AcidctlError:
    """The error itself where it survives the journey, else one of the base class that says the same."""
    try:
        copy = pickle.loads(pickle.dumps(error))
        assert isinstance(copy, AcidctlError)
    except Exception:
        copy = AcidctlError(error.message, path=error.path, hint=error.hint)
    return copy


def _describe(error: Exception) -> str:
    """The exception's type, its text without credentials, and where in the code it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    return f"{type(error).__name__}: {without_credentials(str(error))}{where}"
