"""What an engine is: it runs tasks somewhere, of which it knows little, and gives the outcome of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from acidctl.errors import AcidctlError

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


class Work(Protocol):
    """Carries out a task: its place in the sequence, the task, and whether it should use several threads."""

    def __call__(self, index: int, spec: Any, threads: bool, /) -> TaskOutcome: ...


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


def default_work() -> Work:
    """The function that `WORK` names; raises ImportError where something that it needs is missing."""
    work: Work = getattr(import_module(WORK[0]), WORK[1])
    return work
