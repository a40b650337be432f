"""Which engine runs the tasks of a plan: processes of this machine, or Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from acidctl.engine.base import Engine
from acidctl.errors import UsageError

NAMES = ("auto", "local", "spark")

# What a core gets through in about an hour, read and written compressed.
_HOUR_OF_A_CORE = 32 << 30


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """What was asked for: `name` is auto, local or spark; `session` is an existing Spark session.

    `parallelism` are tasks at a time, `memory` bytes for all workers together; both decide for the local engine, and
    `parallelism` for a Spark that is started on this machine.
    """

    name: str = "auto"
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    session: Any = None
    parallelism: int | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise UsageError(f"{self.name!r} is no engine; known are {', '.join(NAMES)}")
        spark_only = next((what for what, given in self._spark_only() if given), None)
        if self.name == "local" and spark_only is not None:
            raise UsageError(f"{spark_only} goes with the spark engine, and --engine local was asked for")
        if self.master is not None:
            from acidctl.engine.spark_setup import require_cores

            require_cores(self.master)

    def _spark_only(self) -> tuple[tuple[str, object], ...]:
        return (("--master", self.master), ("--spark-conf", self.conf), ("a Spark session", self.session))

    def decide(self, bytes_in: int) -> tuple[str, str]:
        """`local` or `spark`, and in a sentence why."""
        if self.name != "auto":
            return self.name, f"the {self.name} engine was asked for"
        for what, given in self._spark_only():
            if given:
                return "spark", f"the work is done by Spark, because {what} is given"
        cores = os.cpu_count() or 1
        if bytes_in <= cores * _HOUR_OF_A_CORE:
            return "local", "the work is done in processes of this machine"
        if find_spec("pyspark") is None:
            return "local", "the input is large for this machine, but PySpark is not installed: done in local processes"
        return "spark", "the work is done by Spark, because the input is large for this machine"


def make_engine(
    choice: EngineChoice, bytes_in: int, *, notify: Callable[[str], None] | None = None, verbose: bool = False
) -> tuple[Engine, str]:
    """The engine for so many bytes of input, and why it is this one; it starts nothing before its first task.

    `notify` gets sentences on settings that Spark does not know and on waiting for executors; `verbose` lets Spark's
    own errors through to stderr.
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


class EarlyEngine:
    """The engine of a run that is still being planned: what takes time to start is started once work is foreseen.

    Arguments are those of `make_engine`. `close` ends all of it, whether there was a run or not.
    """

    def __init__(
        self, choice: EngineChoice, *, notify: Callable[[str], None] | None = None, verbose: bool = False
    ) -> None:
        self._choice = choice
        self._notify = notify
        self._verbose = verbose
        self._made: tuple[Engine, str] | None = None

    def foresee(self, bytes_in: int) -> None:
        """About so many bytes will be compacted."""
        from acidctl.engine.local import LocalEngine

        if self._made is None and self._choice.decide(bytes_in)[0] == LocalEngine.name:
            self._made = self._make(bytes_in)
            assert isinstance(self._made[0], LocalEngine)
            self._made[0].ready(bytes_in)

    def engine(self, bytes_in: int) -> tuple[Engine, str]:
        """The engine for so many bytes, and why it is this one."""
        if self._made is None or self._choice.decide(bytes_in)[0] != self._made[0].name:
            self.close()
            self._made = self._make(bytes_in)
        return self._made

    def close(self) -> None:
        """End the engine."""
        if self._made is not None:
            self._made[0].close()
            self._made = None

    def _make(self, bytes_in: int) -> tuple[Engine, str]:
        return make_engine(self._choice, bytes_in, notify=self._notify, verbose=self._verbose)
