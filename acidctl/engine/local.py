"""The local engine: tasks in worker processes of this machine, or in this process when the work is small.

Workers are fresh interpreters, or copies of a process of our own that has no thread beside; each has a connection of
its own. A `ProcessPoolExecutor` cannot take their place (see `test_why_not_a_process_pool`): its workers run the
caller's script once more, so that a program without a `__main__` guard breaks; one worker that dies costs the tasks of
all others; and before Python 3.14 running tasks cannot be ended. Here a dead worker costs its own task one attempt, and
a worker ends when the other end of its connection does, so that none outlives its parent, however that was ended.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.context import ForkProcess
from queue import SimpleQueue
from typing import Any

from acidctl.engine import Task, TaskOutcome, Work, default_work, is_our_own, set_up_process
from acidctl.errors import AcidctlError

#: What a task may need at most, whatever its size.
WORKER_BYTES = 500 << 20
#: Attempts of a task whose worker dies.
ATTEMPTS = 2
# An interpreter is ready after about half a second, in which this much can be compacted, and a copy far sooner.
_SMALL_BYTES = 16 << 20
_READY_SHARE = 4
# What opening, checking and verifying costs a task, whatever its size, as bytes that could be compacted in that time.
_TASK_BYTES = 1 << 20
# Small tasks that a worker has at a time: it need not wait for the next one while its parent does something else.
_AHEAD = 4
# From this size on threads make a task faster.
_THREADS_BYTES = 8 << 20
# Until a worker that was asked to end is killed.
_ENDING_SECONDS = 5.0


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# What workers are at, by their connections: tasks in their order, each by its place and its attempt.
_Running = dict[Connection, tuple["_Worker", deque[tuple[int, int]]]]


class LocalEngine:
    """Runs up to `parallelism` tasks at a time (default: one per usable core) within `memory` bytes in all.

    Workers are kept for the next run until `close`. Also a context manager. Work of up to `small_bytes` is done in this
    process; `work` replaces `compaction.task.outcome_of`.
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

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """One outcome per spec, as they finish. Abandoning the iterator ends the workers that are at work."""
        if self._is_small(len(specs), sum(spec.bytes_in for spec in specs), ready=bool(self._workers)):
            work = self._work or default_work()
            for index, spec in enumerate(specs):
                yield _outcome(work, index, spec, usable_cores() > 1 and spec.bytes_in >= _THREADS_BYTES)
            return
        yield from self._distribute(specs)

    def copy_workers(self, tasks: int, bytes_in: int) -> None:
        """Make the workers for so much copies of this process, which have loaded what it has.

        Nothing is done where another thread may be in the middle of something, or the program is not ours.
        """
        ours = sys.platform == "linux" and is_our_own() and threading.active_count() == 1
        if not ours or self._is_small(tasks, bytes_in, ready=True):
            return
        if self._work is None:
            default_work()
        while len(self._workers) < min(self.parallelism, tasks):
            self._workers.append(_Worker(self._workers))

    def _is_small(self, tasks: int, bytes_in: int, *, ready: bool) -> bool:
        """Whether this process does it itself, where workers are ready or are not."""
        most = self._small_bytes // _READY_SHARE if ready else self._small_bytes
        return tasks < 2 or self.parallelism < 2 or bytes_in + tasks * _TASK_BYTES <= most

    def close(self) -> None:
        """End all workers, also those in the middle of a task."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.connection.close()
        for worker in workers:
            worker.join()

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _distribute(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        waiting = deque((index, 1) for index in range(len(specs)))
        running: _Running = {}
        try:
            while waiting or running:
                while waiting and self._hand_out(specs, waiting, running):
                    pass
                for connection in wait(list(running)):
                    assert isinstance(connection, Connection)
                    worker, given = running[connection]
                    index, attempt = given.popleft()
                    try:
                        outcome: TaskOutcome = connection.recv()
                    except (EOFError, OSError):
                        del running[connection]
                        status = self._bury(worker)
                        # The others had not begun.
                        waiting.extendleft(reversed(given))
                        if attempt < ATTEMPTS:
                            waiting.appendleft((index, attempt + 1))
                            continue
                        outcome = TaskOutcome(index, error=_died(specs[index], status))
                    else:
                        if not given:
                            del running[connection]
                    yield outcome
        finally:
            for worker, _ in running.values():
                worker.process.kill()
                self._bury(worker)

    def _hand_out(self, specs: Sequence[Task], waiting: deque[tuple[int, int]], running: _Running) -> bool:
        """Give the next task to a worker; False where none is to have one now."""
        index, attempt = waiting[0]
        if len(running) < self.parallelism:
            worker = self._idle_worker(running)
            given = running.setdefault(worker.connection, (worker, deque()))[1]
        else:
            worker, given = min(running.values(), key=lambda one: len(one[1]))
            # A task that may have ended its worker is alone, so that none is taken for another.
            small = all(tries == 1 and specs[one].bytes_in < _TASK_BYTES for one, tries in (*given, waiting[0]))
            if not small or len(given) >= _AHEAD:
                return False
        waiting.popleft()
        # While every core has a task, threads inside of one only get into each other's way.
        large = specs[index].bytes_in >= _THREADS_BYTES
        threads = large and len(waiting) + len(running) < usable_cores()
        given.append((index, attempt))
        with suppress(BrokenPipeError):  # that the worker is gone shows when its answer is read
            worker.connection.send((self._work, index, specs[index], threads))
        return True

    def _idle_worker(self, running: _Running) -> _Worker:
        for worker in self._workers:
            if worker.connection not in running:
                return worker
        worker = _Worker()
        self._workers.append(worker)
        return worker

    def _bury(self, dead: _Worker) -> int:
        """Forget a worker that has ended; its exit status."""
        self._workers = [worker for worker in self._workers if worker is not dead]
        return dead.join()


def _outcome(work: Work, index: int, spec: Task, threads: bool) -> TaskOutcome:
    if index and spec.bytes_in >= _THREADS_BYTES:
        # Collections are rare here, and what cycles hold of an earlier task would still be there.
        gc.collect()
    return work(index, spec, threads)


def _died(spec: Task, status: int) -> AcidctlError:
    how = f"exit status {status}"
    if status < 0:
        with suppress(ValueError):
            how = signal.Signals(-status).name
    return AcidctlError(
        f"the worker process that writes {spec.output} died {ATTEMPTS} times ({how})",
        hint="This usually means that the machine ran out of memory: run with a smaller --parallelism or --memory.",
    )


# Nothing but a built-in module is imported before the paths are those of the parent, which may lie in a zip.
_START = "import sys; sys.path[:] = sys.argv[2:]; from acidctl.engine.local import serve; serve(int(sys.argv[1]))"


class _Worker:
    """A worker process, seen from its parent: a copy of it where `earlier` ones are given, else an interpreter."""

    def __init__(self, earlier: Sequence[_Worker] | None = None) -> None:
        self.process: subprocess.Popen[bytes] | _Copy
        self.connection, other_end = Pipe()
        with other_end:
            if earlier is not None:
                self.process = _Copy(other_end, self.connection, *(one.connection for one in earlier))
                return
            self.process = subprocess.Popen(
                [sys.executable, "-c", _START, str(other_end.fileno()), *sys.path],
                pass_fds=[other_end.fileno()],
                stdin=subprocess.DEVNULL,
                # What libraries print has no place in the command's answer.
                stdout=sys.__stderr__ if sys.__stderr__ is not None else subprocess.DEVNULL,
                # Ctrl-C on a terminal goes to all processes of a session; only the parent is to act on it.
                start_new_session=True,
            )

    def join(self) -> int:
        """Wait for the end of the process, and close the connection; the exit status, negative for a signal."""
        self.connection.close()
        try:
            return self.process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class _Copy(ForkProcess):
    """A copy of this process, which serves its own connection; the `foreign` ones are its parent's."""

    def __init__(self, own: Connection, *foreign: Connection) -> None:
        super().__init__(daemon=True)
        self._own, self._foreign = own, foreign
        # An interrupt is the parent's, also while it divides.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def run(self) -> None:
        """In the copy: what is given to an interpreter."""
        os.setsid()
        for one in self._foreign:
            one.close()
        os.dup2(os.open(os.devnull, os.O_WRONLY) if sys.__stderr__ is None else sys.__stderr__.fileno(), 1)
        serve(self._own.fileno())

    def wait(self, timeout: float | None = None) -> int:
        """As that of `Popen`."""
        self.join(timeout)
        if self.exitcode is None:
            raise subprocess.TimeoutExpired(self.name, timeout or 0)
        return self.exitcode


def serve(handle: int) -> None:
    """Carry out tasks until the parent closes the connection, or dies: then at once, in the middle of a task."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    set_up_process()
    parent = Connection(handle)
    tasks: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_receive, args=(parent, tasks), daemon=True).start()
    usual = default_work()
    # What was loaded stays: no collection need look at it again.
    gc.freeze()
    while True:
        work, index, spec, threads = tasks.get()
        try:
            parent.send(_outcome(work or usual, index, spec, threads))
        except BrokenPipeError:
            os._exit(1)


def _receive(parent: Connection, tasks: SimpleQueue[Any]) -> None:
    try:
        while True:
            tasks.put(parent.recv())
    finally:
        # Also when a task cannot be unpacked here: the parent sees a worker that died.
        os._exit(1)
