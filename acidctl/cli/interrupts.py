"""Signals during a compaction: Ctrl-C and SIGTERM end it, and so does the clock, without leaving anything behind."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acidctl.jobs.compact import Compaction

# The modules whose calls go into libraries that write; and when to try again what came during a call.
_WRITERS = frozenset({"acidctl.orc.arrowwriter", "acidctl.orc.pyorcwriter"})
_AGAIN_SECONDS = 0.02
# Of a timer; 0 would switch it off.
_AT_ONCE = 0.001


def called_by_writer(frame: FrameType | None) -> bool:
    """Whether a library that writes ORC is calling back: an exception there ends its C++ code, and the process."""
    caller = None if frame is None else frame.f_back
    while caller is not None:
        if caller.f_globals.get("__name__") in _WRITERS:
            return True
        caller = caller.f_back
    return False


@contextmanager
def interruptible(run: Compaction) -> Iterator[None]:
    """Let SIGTERM end this run as Ctrl-C does; what comes after the first of them does not disturb the tidying up.

    Where the run's time is bounded, SIGALRM tells it that the grace is over. Signals belong to the main thread; in
    another one nothing changes, and then the run looks at the clock itself whenever a task has ended.
    """
    from acidctl.jobs.timelimit import TimeUpError

    done = late = False
    timers: list[threading.Timer] = []

    def again(number: int) -> None:
        timer = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
        timer.daemon = True
        timers[:] = [one for one in timers if one.is_alive()]
        timers.append(timer)
        timer.start()

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal done
        if done:
            return
        engaged = run.cancel()
        if engaged and called_by_writer(frame):
            again(number)
            return
        done = True
        if engaged:
            raise KeyboardInterrupt

    def expire(number: int, frame: FrameType | None) -> None:
        nonlocal late
        if done or late:
            return
        engaged = run.expire()
        if engaged and called_by_writer(frame):
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
            return
        late = True
        if engaged:
            raise TimeUpError

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left = run.seconds_left
    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: interrupt}
    if left is not None:
        handlers[signal.SIGALRM] = expire
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        if left is not None:
            signal.setitimer(signal.ITIMER_REAL, max(left, _AT_ONCE))
        yield
    finally:
        if left is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        done = True
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
