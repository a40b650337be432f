"""Calls into libraries that can neither be interrupted nor given a time limit: each in a thread of its own.

Who waits for such a call can stop waiting: after a time, and at once when it is interrupted. The call itself goes on
in its thread, which ends the process as little as any other daemon.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

Answer = TypeVar("Answer")

# What a change may take after an interrupt, so that it is known whether it was made.
GRACE = 3.0


class _Call:
    """One call: `done` is held until it has an answer or an error."""

    __slots__ = ("action", "answer", "done", "error")

    def __init__(self, action: Callable[[], Any]) -> None:
        self.action = action
        self.answer: Any = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        try:
            self.answer = self.action()
        except BaseException as error:  # libraries panic with BaseException
            self.error = error
        self.done.release()


class _Threads:
    """Threads that wait for calls; there are as many as were ever busy at once."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def start(self, call: _Call) -> None:
        with self._lock:
            waiting = self._idle > 0
            if waiting:
                self._idle -= 1
        self._calls.put(call)
        if not waiting:
            threading.Thread(target=self._work, name="acidctl-call", daemon=True).start()

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            call.run()
            # The answer belongs to the caller alone.
            del call
            with self._lock:
                self._idle += 1


def bounded(action: Callable[[], Answer], seconds: float, *, changes: bool = False) -> Answer:
    """What `action` answers or raises; TimeoutError when that takes more than so many seconds.

    An interrupt ends the waiting at once, or with `changes` when the call has ended, for a few seconds at most.
    """
    call = _Call(action)
    _threads().start(call)
    try:
        in_time = call.done.acquire(timeout=seconds)
    except BaseException:
        if changes:
            call.done.acquire(timeout=min(seconds, GRACE))
        raise
    if not in_time:
        raise TimeoutError
    if call.error is not None:
        raise call.error
    answer: Answer = call.answer
    return answer


def side_by_side(
    actions: Sequence[Callable[[], Answer]], seconds: float, *, enough: Callable[[Answer], bool], patience: float
) -> dict[int, Answer]:
    """What actions answer that are all begun at once, by their index; those that take longer or raise are left out.

    After an answer that is `enough`, the others have `patience` seconds left.
    """
    answers: SimpleQueue[tuple[int, Answer]] = SimpleQueue()
    for index, action in enumerate(actions):
        _threads().start(_Call(lambda index=index, action=action: answers.put((index, action()))))  # type: ignore[misc]
    found: dict[int, Answer] = {}
    until = time.monotonic() + seconds
    while len(found) < len(actions):
        try:
            index, answer = answers.get(timeout=max(until - time.monotonic(), 0))
        except Empty:
            break
        found[index] = answer
        if enough(answer):
            until = min(until, time.monotonic() + patience)
    return found


@lru_cache(maxsize=1)
def _threads() -> _Threads:
    return _Threads()


os.register_at_fork(after_in_child=_threads.cache_clear)
