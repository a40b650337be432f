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
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import acidctl
from acidctl.engine.base import Task, TaskOutcome, Work, default_work
from acidctl.errors import AcidctlError, InternalError, StorageError
from acidctl.storage.redact import without_credentials

Package = tuple[str, tuple[int, ...]]

# What a task imports, and the oldest versions that it works with.
REQUIRED: tuple[Package, ...] = (("numpy", (1, 26)), ("pyarrow", (17, 0)), ("pyorc", (0, 12)))

# What was not foreseen is tried once more: it may be this machine's own trouble.
ATTEMPTS = 2
_PAUSE = 2.0  # seconds after the first failure of a storage; three times as long after each further one


@dataclass(frozen=True, slots=True)
class Unfit:
    """This executor cannot run any task; `reason` completes the sentence "an executor ..."."""

    reason: str
    hint: str


class TaskCrashedError(Exception):
    """A task ended in an unforeseen exception; Spark begins it again elsewhere."""


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
    is there at the end of the job whatever became of the first. `version` is that of the driver's acidctl, `failures`
    how often Spark lets a task fail, `packages` what the table's storage needs beside what every task needs, `work`
    stands in for the usual work; `threads` is handed to it.
    """

    sink: Sink
    version: str
    failures: int = 1
    threads: bool = False
    work: Work | None = None
    packages: tuple[Package, ...] = ()

    def __call__(self, payloads: Iterable[bytes]) -> Iterator[bytes]:
        """Runs every payload of this partition; yields one parcel each."""
        for payload in payloads:
            parcel = self.attempt(payload, _attempts_before() + 1)
            self.sink.add((parcel,))
            yield parcel

    def attempt(self, payload: bytes, number: int) -> bytes:
        """Runs one packed spec and packs what became of it; `number` counts how often it was begun, from 1.

        Raises what another attempt may heal, as long as Spark begins one.
        """
        unfit = shortcoming(self.version, self.packages)
        if unfit is not None:
            return pickle.dumps(unfit, pickle.HIGHEST_PROTOCOL)
        index, packed = pickle.loads(payload)
        outcome = (self.work or default_work())(index, pickle.loads(packed), self.threads)
        if number < self.failures and outcome.error is not None and _may_heal(outcome.error, number):
            # Not chained: values of the table have no place in a cluster's logs.
            raise TaskCrashedError(without_credentials(outcome.error.message))
        return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)


def _may_heal(error: AcidctlError, number: int) -> bool:
    """Whether a task is worth another attempt after it failed for that many times; waits before it says so.

    A server that is gone is known to be gone after a while, and then others are taken; readers have waited already.
    """
    if isinstance(error, InternalError):
        return number < ATTEMPTS
    if not isinstance(error, StorageError) or not error.transient or error.attempts > 1:
        return False
    time.sleep(_PAUSE * 3 ** (number - 1))
    return True


def pack(index: int, spec: Task) -> bytes:
    """A spec and its place in the sequence, as a payload; the spec is opened only where it can be used."""
    return pickle.dumps((index, pickle.dumps(spec, pickle.HIGHEST_PROTOCOL)), pickle.HIGHEST_PROTOCOL)


def unpack(parcel: bytes) -> TaskOutcome | Unfit:
    """What an attempt sent."""
    found = pickle.loads(parcel)
    assert isinstance(found, TaskOutcome | Unfit)
    return found


def shortcoming(version: str, packages: tuple[Package, ...] = ()) -> Unfit | None:
    """Why this process cannot run tasks of an acidctl of that version; None when it can.

    `packages` are import names and oldest versions of what the storage of these tasks needs.
    """
    if acidctl.__version__ != version:
        return Unfit(
            f"imports acidctl {acidctl.__version__} from {os.path.dirname(acidctl.__file__)}, the driver is {version}",
            "Remove that copy from the executors, or from the session's files.",
        )
    required = (*REQUIRED, *packages)
    for name, oldest in required:
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            why = "" if isinstance(error, ModuleNotFoundError) and error.name == name else f" ({error})"
            return Unfit(f"has no usable {name}{why}; its Python is {sys.executable}", _install_hint(required))
        found = str(getattr(module, "__version__", ""))
        numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
        if numbers and numbers < oldest:
            needed = ".".join(map(str, oldest))
            return Unfit(
                f"has {name} {found}, and {needed} or newer is needed; its Python is {sys.executable}",
                _install_hint(required),
            )
    return None


def _install_hint(required: tuple[Package, ...]) -> str:
    names = " ".join(name.replace("_", "-") for name, _ in required)
    return (
        f"Install {names} into that Python on every worker node, or name another by "
        "--spark-conf spark.pyspark.python=PATH, or send an environment along by --spark-conf spark.archives=FILE."
    )


def _attempts_before() -> int:
    """How often Spark has begun this task before, 0 outside Spark."""
    pyspark = sys.modules.get("pyspark")
    current = pyspark.TaskContext.get() if pyspark is not None else None
    return int(current.attemptNumber()) if current is not None else 0
