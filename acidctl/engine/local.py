"""The engine that needs nothing: tasks in worker processes of this machine, or right here when the work is small.

Workers are fresh interpreters (`worker`), neither forks nor copies of the caller's script, so that a program without a
`__main__` guard, a notebook and a process full of threads can all compact. They are given tasks over pipes, which tells
exactly whose task a dying worker leaves behind; and they end when their end of the pipe does, so that none outlives its
parent, however that was ended.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any

from acidctl.engine.base import Task, TaskOutcome, Work, default_work
from acidctl.errors import AcidctlError

# --- A worker process of the local engine: tasks come in on stdin, outcomes go out on stdout, each a pickle.
#
# The end of stdin is the order to stop, at once and in the middle of a task: it comes when the parent is done, and also
# when the parent was killed.


_IN, _OUT, _ERROR = range(3)
_LENGTH = struct.Struct("<Q")


def send(pipe: IO[bytes], message: object) -> None:
    """Write one message."""
    data = pickle.dumps(message)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Read one message; None when the other side has gone, be it in the middle of one."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = pipe.read(length)
    return pickle.loads(data) if len(data) == length else None


def main() -> None:
    """Work until the parent goes away. Work that is None is the usual one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(_OUT), "wb")
    os.dup2(_ERROR, _OUT)
    tasks: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    # Takes half a second, in which the parent may be making the plan.
    usual = default_work()

    while True:
        work, index, spec, threads = tasks.get()
        try:
            send(answers, (work or usual)(index, spec, threads))
        except BrokenPipeError:
            os._exit(1)


def _listen(tasks: SimpleQueue[Any]) -> None:
    orders = os.fdopen(_IN, "rb", closefd=False)
    status = 1
    try:
        while (message := receive(orders)) is not None:
            tasks.put(message)
        status = 0
    finally:
        # Also when a task cannot be unpacked here: the parent sees a worker that died.
        os._exit(status)


#: What a task may need at most, whatever its size.
WORKER_BYTES = 500 << 20
#: Attempts of a task whose worker dies.
ATTEMPTS = 3
# A worker is ready after about half a second, in which this much can be compacted.
_SMALL_BYTES = 16 << 20
# What opening, judging and verifying costs a task, whatever its size, as bytes that could be compacted in that time.
_TASK_BYTES = 1 << 20
# Of so much there is a task for each worker, wherever buckets and stripes end.
_LARGE_BYTES = 64 << 20
# Threads of a task pay from here on.
_THREADS_BYTES = 8 << 20
_PATIENCE_SECONDS = 5.0


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalEngine:
    """Runs up to `parallelism` tasks at a time (default: one per usable core) within `memory` bytes in all.

    Workers are kept for the next run until `close`. Also a context manager.
    """

    name = "local"

    def __init__(
        self,
        parallelism: int | None = None,
        memory: int | None = None,
        *,
        small_bytes: int = _SMALL_BYTES,
        work: Work | None = None,
    ) -> None:
        at_once = max(1, parallelism if parallelism is not None else usable_cores())
        self.parallelism = at_once if memory is None else max(1, min(at_once, memory // WORKER_BYTES))
        self._small_bytes = small_bytes
        self._work = work
        self._workers: list[_Worker] = []

    @property
    def pids(self) -> tuple[int, ...]:
        """The worker processes that there are."""
        return tuple(one.process.pid for one in self._workers)

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """One outcome per spec, as they finish. Abandoning the iterator ends the workers that are at work."""
        total = sum(spec.bytes_in + _TASK_BYTES for spec in specs)
        if len(specs) < 2 or self.parallelism < 2 or total <= self._small_bytes:
            work = self._work or default_work()
            for index, spec in enumerate(specs):
                yield work(index, spec, usable_cores() > 1 and spec.bytes_in >= _THREADS_BYTES)
            return
        yield from self._distribute(specs)

    def ready(self, bytes_in: int) -> None:
        """Start the workers for so many bytes, so that `run` need not wait for them; none when it may do without."""
        count = min(self.parallelism, bytes_in // _LARGE_BYTES)
        if count > 1:
            while len(self._workers) < count:
                self._start()

    def close(self) -> None:
        """End all workers; those in the middle of a task are not waited for."""
        workers, self._workers = self._workers, []
        for one in workers:
            one.dismiss()
        for one in workers:
            one.wait()

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _distribute(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        waiting = deque((index, 1) for index in range(len(specs)))
        running: dict[_Worker, tuple[int, int]] = {}
        with selectors.DefaultSelector() as selector:
            try:
                while waiting or running:
                    while waiting and len(running) < self.parallelism:
                        index, attempt = waiting.popleft()
                        # While every core has a task, threads inside of one only get into each other's way.
                        large = specs[index].bytes_in >= _THREADS_BYTES
                        threads = large and len(waiting) + len(running) + 1 < usable_cores()
                        idle = next((one for one in self._workers if one not in running), None)
                        chosen = idle or self._start()
                        running[chosen] = index, attempt
                        selector.register(chosen.answers, selectors.EVENT_READ, chosen)
                        chosen.give(self._work, index, specs[index], threads)
                    for key, _ in selector.select():
                        done: _Worker = key.data
                        index, attempt = running.pop(done)
                        selector.unregister(done.answers)
                        outcome = done.take()
                        if outcome is None:
                            end = self._bury(done)
                            if attempt < ATTEMPTS:
                                waiting.appendleft((index, attempt + 1))
                                continue
                            outcome = TaskOutcome(index, error=_lost(specs[index], end))
                        yield outcome
            finally:
                for one in running:
                    one.process.kill()
                    self._bury(one)

    def _start(self) -> _Worker:
        started = _Worker()
        self._workers.append(started)
        return started

    def _bury(self, dead: _Worker) -> int:
        self._workers.remove(dead)
        return dead.wait()


class _Worker:
    """A worker process, from the parent's side."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # numpy's algebra, for which nothing here has a use, would start a thread for each core.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            # Ctrl-C on a terminal goes to all processes of a session; here the parent decides what becomes of tasks.
            start_new_session=True,
        )

    @property
    def answers(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def give(self, work: Work | None, index: int, spec: Task, threads: bool) -> None:
        """Hand over a task; that a worker is gone shows when its answer is taken."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            send(self.process.stdin, (work, index, spec, threads))

    def take(self) -> TaskOutcome | None:
        """The answer, None when the worker died instead."""
        assert self.process.stdout is not None
        answer = receive(self.process.stdout)
        assert answer is None or isinstance(answer, TaskOutcome)
        return answer

    def dismiss(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self) -> int:
        """Wait for its end, which was asked for or has come; the exit status, negative for a signal."""
        self.dismiss()
        try:
            status = self.process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


def _lost(spec: Task, status: int) -> AcidctlError:
    how = f"exit status {status}"
    if status < 0:
        with suppress(ValueError):
            how = signal.Signals(-status).name
    return AcidctlError(
        f"the worker process of {spec.output} died {ATTEMPTS} times ({how})",
        hint="Mostly that is the machine running out of memory: run with a smaller --parallelism or --memory.",
    )
