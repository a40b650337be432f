"""Specs and stand-ins for tasks, for tests of what Spark does around them.

Stand-ins are made by functions, so that they travel to workers by value: those cannot import the tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from acidctl.compaction.plan import PlannedTask, Role, TableFacts, TaskSpec
from acidctl.engine import TaskOutcome

Work = Callable[[int, TaskSpec, bool], TaskOutcome]

SECRET = "correct-horse-battery"


def specs(count: int, folder: Path | str = "/nowhere") -> list[TaskSpec]:
    """Specs that only a stand-in can run; `folder` is where it leaves its traces."""
    table = TableFacts("full", False, "", "struct<a:int>", "hive4")
    return [
        TaskSpec(
            url=str(folder),
            work="work",
            table=table,
            task=PlannedTask(Role.SURVIVING, f"base_0000005/bucket_{bucket:05}", bucket, ()),
            inputs=(),
            storage_options={"password": SECRET},
        )
        for bucket in range(count)
    ]


def traces(folder: Path, prefix: str = "") -> list[str]:
    """Names of the files that attempts have left, as they begin (`3.attempt.<pid>.<time>`)."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(prefix))


def wait_for(ready: Callable[[], object], seconds: float = 60.0) -> None:
    """Waits until `ready()` is true; fails the test when it does not come."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def standing_in(
    *,
    waits_for: dict[int, str] | None = None,
    refuses: tuple[int, ...] = (),
    crashes: dict[int, int] | None = None,
    dies: dict[int, int] | None = None,
) -> Work:
    """A stand-in that leaves a trace per attempt and answers with its process id as the number of rows.

    Bucket by bucket: it waits until a file of that name appears, refuses its data, raises in the first so many
    attempts, or kills its own process in them.
    """
    waiting, crashing, dying = waits_for or {}, crashes or {}, dies or {}

    def work(index: int, spec: TaskSpec, threads: bool) -> TaskOutcome:
        import os
        import signal
        import time
        from pathlib import Path

        from acidctl.compaction.plan import TaskResult
        from acidctl.engine import TaskOutcome
        from acidctl.errors import DamagedDataError, InternalError

        bucket = spec.task.bucket_id
        assert bucket is not None
        folder = Path(spec.url)
        if folder.is_dir():
            (folder / f"{bucket}.attempt.{os.getpid()}.{time.time_ns()}").touch()
        before = len(list(folder.glob(f"{bucket}.attempt.*"))) if folder.is_dir() else 1
        if before <= dying.get(bucket, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        if before <= crashing.get(bucket, 0):
            return TaskOutcome(index, error=InternalError("unexpected OSError: s3://user:secret@host/x is full"))
        if bucket in refuses:
            return TaskOutcome(index, error=DamagedDataError("the file is cut", path="/t/f", hint="Look at it."))
        while bucket in waiting and not (folder / waiting[bucket]).exists():
            time.sleep(0.02)
        return TaskOutcome(index, TaskResult(spec.task.output, "attempts/x", os.getpid(), 0))

    return work
