"""Work for engines that is no compaction; importable by worker processes."""

from __future__ import annotations

import os
import signal
import time
import weakref
from pathlib import Path

from acidctl.compaction.plan import TaskResult, TaskSpec
from acidctl.engine import TaskOutcome
from acidctl.errors import DamagedDataError, InternalError


class _Ring:
    """Something that only a collection frees."""

    def __init__(self) -> None:
        self.itself = self


_rings: list[weakref.ref[_Ring]] = []


def act(index: int, spec: TaskSpec, threads: bool) -> TaskOutcome:
    """Do what the output's name says (ok, bad, die, ...); leaves its process id in the location."""
    Path(spec.url, f"pid-{os.getpid()}").touch()
    word = spec.task.output.partition("/")[0]
    mark = Path(spec.url, f"died-{index}")
    if word == "bad":
        return TaskOutcome(index, error=DamagedDataError(f"task {index} is damaged", path="x", hint="look"))
    if word == "die" or (word == "die-once" and not mark.exists()):
        with mark.open("a") as stream:
            stream.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    if word == "sleep":
        time.sleep(60)
    if word == "late":
        time.sleep(1)
    if word == "noisy":
        print("a library says something")
    if word == "ring":
        if any(left() is not None for left in _rings):
            return TaskOutcome(index, error=InternalError("what an earlier task made is still there"))
        _rings.append(weakref.ref(_Ring()))
    if word not in ("ok", "late", "die-once", "noisy", "ring"):
        return TaskOutcome(index, error=InternalError("no such word"))
    return TaskOutcome(index, TaskResult(spec.task.output, None, os.getpid(), 0))


def linger(index: int, spec: TaskSpec, threads: bool) -> TaskOutcome:
    """A task that does not end by itself."""
    time.sleep(60)
    return TaskOutcome(index, error=InternalError("nobody ended it"))
