"""Where tasks run: in processes of this machine, or on Spark; what an engine is, and which of the two it is."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from acidctl.errors import AcidctlError, UsageError
from acidctl.values import dataclass

NAMES = ("auto", "local", "spark")
#: A Spark inside the driver's own JVM: its cores, and how often a task may fail.
LOCAL_MASTER = re.compile(r"local(?:\[\s*(\*|\d+)\s*(?:,\s*(\d+)\s*)?\])?")

# What a core gets through in about an hour, read and written compressed; and while Spark starts.
_HOUR_OF_A_CORE = 32 << 30
_START_OF_SPARK = 64 << 20
# Of glibc's `mallopt`.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: The module of the function that carries out a task, and its name; loaded where tasks run, which takes half a second.
WORK = ("acidctl.compaction.task", "outcome_of")


class Task(Protocol):
    """What an engine knows of a task; all of it travels to where the task runs, by pickle.

    `url` is the location it works on, `output` the file it makes (for messages), `bytes_in` what it reads; `hosts` are
    the machines that hold the most of that, the best first, where it is known.
    """

    @property
    def url(self) -> str: ...

    @property
    def output(self) -> str: ...

    @property
    def bytes_in(self) -> int: ...

    @property
    def hosts(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The `result` of one task, or the `error` why there is none; `index` is its place in the sequence of tasks."""

    index: int
    result: Any = None
    error: AcidctlError | None = None


#: Carries out a task, given its place in the sequence, the task, and whether it should use several threads.
Work = Callable[[int, Any, bool], TaskOutcome]


class Engine(Protocol):
    """Runs tasks somewhere, each at least once; the first finished attempt counts.

    An engine that makes use of the hosts of tasks, so that asking the storage for them is worth it, has a true
    `uses_hosts`.
    """

    name: str

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """One outcome per task, as they finish; a task that fails for good gives its error, the others go on.

        Tasks are taken in the order given. Raises what concerns all of them (no Java, executors that cannot work).
        """
        ...

    def close(self) -> None:
        """End what the engine started."""
        ...


class _NoPandas:
    """Finds no pandas, wherever it is installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("this process makes no use of pandas", name=name)


def set_up_process() -> None:
    """What a process of our own decides for all that runs in it, before libraries are loaded.

    It keeps pyarrow from importing pandas with its first array, which takes half a second.
    """
    # A pool of Arrow's own would keep a fifth of the memory that nobody uses, and more the longer rows are read.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    _keep_freed_memory()
    # numpy's algebra, for which nothing here has a use, would start a thread for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if _NoPandas not in sys.meta_path:
        sys.meta_path.insert(0, _NoPandas)
    # Thousands of files are thousands of objects that stay: looking for cycles among them so often costs a tenth.
    gc.set_threshold(100_000)


def _keep_freed_memory() -> None:
    """Let glibc keep what a batch or a file needs for the next one, and give larger blocks back to the system at once.

    By itself it raises its thresholds with what is freed: then a row of 24 MB leaves holes as large in the heap. ORC's
    C++ writer takes 6 MiB for a column; with new pages each time this is most of the time of a small file.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 16 << 20)
        mallopt(_TRIM_THRESHOLD, 256 << 20)


def is_our_own() -> bool:
    """Whether this process has been set up by `set_up_process`."""
    return _NoPandas in sys.meta_path


def default_work() -> Work:
    """The function that `WORK` names; raises ImportError where something that it needs is missing."""
    _keep_freed_memory()
    work: Work = getattr(import_module(WORK[0]), WORK[1])
    return work


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

    def advice(self, tasks: int, bytes_in: int) -> tuple[str, ...]:
        """A sentence for who asked for a Spark of its own where this machine would be done before that has started."""
        if not tasks or self.session is not None or bytes_in > (os.cpu_count() or 1) * _START_OF_SPARK:
            return ()
        if self.decide(bytes_in)[0] != "spark":
            return ()
        what = "1 task that reads" if tasks == 1 else f"{tasks:,} tasks that read"
        return (f"For {what} {max(bytes_in >> 20, 1):,} MiB in all --engine local is quicker than Spark's start.",)


@contextmanager
def early_engine(
    choice: EngineChoice,
    *,
    notify: Callable[[str], None] = lambda sentence: None,
    verbose: bool = False,
    work: Work | None = None,
) -> Iterator[tuple[Engine | None, Callable[[], None]]]:
    """An engine that takes seconds to start, and what begins to start it, before it is known how much there is to do.

    None where the engine is another, or is running. It is closed at the end; for the arguments see `make_engine`.
    """
    if choice.session is not None or choice.decide(0)[0] == "local":
        yield None, lambda: None
        return
    engine, _ = make_engine(choice, 0, notify=notify, verbose=verbose, work=work)
    with closing(engine):
        yield engine, getattr(engine, "begin", lambda: None)


def make_engine(
    choice: EngineChoice,
    bytes_in: int,
    *,
    notify: Callable[[str], None] = lambda sentence: None,
    verbose: bool = False,
    work: Work | None = None,
    early: Engine | None = None,
) -> tuple[Engine, str]:
    """The engine for so many bytes of input, and why it is this one; it starts nothing before its first task.

    `notify` gets sentences on settings that Spark does not know and on waiting for executors; `verbose` lets Spark's
    own errors through to stderr; `work` carries out the tasks, where they are not those of a compaction; `early` is
    that of `early_engine`. MissingDependencyError where Spark is to run and PySpark is not installed.
    """
    name, why = choice.decide(bytes_in)
    if early is not None:
        return early, why
    if name == "local":
        from acidctl.engine.local import LocalEngine

        return LocalEngine(parallelism=choice.parallelism, memory=choice.memory, work=work), why
    from acidctl.engine.spark import SparkEngine

    master = choice.master
    if master is None and choice.session is None and choice.parallelism is not None:
        master = f"local[{choice.parallelism}]"
    return SparkEngine(master, choice.conf, session=choice.session, notify=notify, verbose=verbose, work=work), why
