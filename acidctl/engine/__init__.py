"""Where tasks run: in processes of this machine, or on Spark; which of the two, and the engine that does it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from acidctl.engine.base import Engine
from acidctl.errors import UsageError

NAMES = ("auto", "local", "spark")
#: A Spark inside the driver's own JVM: its cores, and how often a task may fail.
LOCAL_MASTER = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*(\d+)\s*)?\])?")

# What a core gets through in about an hour, read and written compressed.
_HOUR_OF_A_CORE = 32 << 30


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """What the user asked for: `name` is auto, local or spark; `session` is an existing Spark session.

    `parallelism` are tasks at a time, `memory` bytes for all workers together; both apply to the local engine, and
    `parallelism` to a Spark that is started on this machine.
    """

    name: str = "auto"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    session: Any = None
    parallelism: int | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise UsageError(f"unknown engine {self.name!r}; expected auto, local or spark")
        if self.name == "local" and self._spark_option is not None:
            raise UsageError(f"{self._spark_option} cannot be combined with --engine local")
        master = LOCAL_MASTER.fullmatch((self.master or "").strip())
        # Spark would say only that a number is not positive.
        if master is not None and (master[1] or "1").isdigit() and not int(master[1] or 1):
            raise UsageError(
                f"--master {self.master} gives Spark no core",
                hint="Write local[N] with the number of tasks that run at a time, or local[*] for all cores.",
            )

    @property
    def _spark_option(self) -> str | None:
        """The first option that only Spark has a use for, if one is given."""
        options = (("--master", self.master), ("--spark-conf", self.conf), ("a Spark session", self.session))
        return next((name for name, given in options if given), None)

    def decide(self, bytes_in: int) -> tuple[str, str]:
        """`local` or `spark`, and in a sentence why."""
        if self.name != "auto":
            return self.name, f"Running {'locally' if self.name == 'local' else 'on Spark'} (--engine {self.name})."
        if self._spark_option is not None:
            return "spark", f"Running on Spark, because {self._spark_option} is given."
        if bytes_in <= (os.cpu_count() or 1) * _HOUR_OF_A_CORE:
            return "local", "Running locally."
        if find_spec("pyspark") is None:
            return "local", "Running locally: the input is large for this machine, but PySpark is not installed."
        return "spark", "Running on Spark, because the input is large for this machine."


def make_engine(
    choice: EngineChoice, bytes_in: int, *, notify: Callable[[str], None] = lambda sentence: None, verbose: bool = False
) -> tuple[Engine, str]:
    """The engine for so many bytes of input, and why it is this one; it starts nothing before its first task.

    `notify` gets sentences on settings that Spark does not know and on waiting for executors; `verbose` lets Spark's
    own errors through to stderr. MissingDependencyError where Spark is to run and PySpark is not installed.
    """
    name, why = choice.decide(bytes_in)
    if name == "local":
        from acidctl.engine.local import LocalEngine

        return LocalEngine(parallelism=choice.parallelism, memory=choice.memory), why
    from acidctl.engine.spark import SparkEngine

    master = choice.master
    if master is None and choice.session is None and choice.parallelism is not None:
        master = f"local[{choice.parallelism}]"
    return SparkEngine(master, choice.conf, session=choice.session, notify=notify, verbose=verbose), why
