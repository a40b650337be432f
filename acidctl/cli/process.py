"""What the process has to itself: signals, and a stderr of its own.

During a compaction Ctrl-C and SIGTERM end it, and so does the clock, without leaving anything behind.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from acidctl.errors import TimeUpError
from acidctl.storage import panics

if TYPE_CHECKING:
    from acidctl.compaction.run import Compaction

# The modules whose calls go into libraries that write; and when to try again what came during a call.
_WRITERS = frozenset({"acidctl.orc.arrow_writer", "acidctl.orc.pyorc_files"})
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


def _interrupt_soon() -> threading.Timer:
    """Send this process a Ctrl-C when a little time has passed."""
    timer = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    return timer


@contextmanager
def _raised_again(kind: type[BaseException], again: Callable[[], object]) -> Iterator[None]:
    """Call `again` in place of showing a traceback where Python drops an exception that a signal handler raised.

    A handler runs wherever Python is, be it a weak reference's callback or a `__del__`, out of which nothing gets.
    """
    before = sys.unraisablehook

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, kind):
            again()
        else:
            before(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def interrupts_reach_us() -> AbstractContextManager[None]:
    """Ctrl-C is not lost where Python would drop it."""
    return _raised_again(KeyboardInterrupt, _interrupt_soon)


def nothing_is_left() -> bool:
    """Whether the interpreter's own ending would only give memory back, which takes a tenth of a short command."""
    watched = sys.getprofile() or sys.gettrace() or "pyspark" in sys.modules
    return not watched and threading.active_count() == 1


class _Handler:
    """Ends a run when a signal comes: `end` says whether the run is to be thrown out of what it does, by `error`.

    What comes after the first signal does not disturb the tidying up. Where an exception would get to nobody, or do
    harm, the signal is sent again by `soon`. `before` is a handler after whose signal this one does nothing any more.
    """

    def __init__(
        self,
        end: Callable[[], bool],
        error: type[BaseException],
        soon: Callable[[], object],
        before: _Handler | None = None,
    ) -> None:
        self._end = end
        self._error = error
        self._soon = soon
        self._before = before
        self.done = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The signal has come."""
        if self.done or (self._before is not None and self._before.done):
            return
        engaged = self._end()
        if engaged and called_by_writer(frame):
            self.again()
            return
        self.done = True
        if engaged:
            raise self._error

    def again(self) -> None:
        """Come back soon."""
        self.done = False
        self._soon()


@contextmanager
def interruptible(run: Compaction) -> Iterator[None]:
    """Let SIGTERM end this run as Ctrl-C does, and the clock where its time is bounded (SIGALRM: the grace is over).

    Signals belong to the main thread; in another one nothing changes, and then the run looks at the clock itself
    whenever a task has ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left = run.seconds_left
    timers: list[threading.Timer] = []
    interrupt = _Handler(run.cancel, KeyboardInterrupt, lambda: timers.append(_interrupt_soon()))
    expire = _Handler(
        run.expire, TimeUpError, lambda: signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS), before=interrupt
    )
    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: interrupt}
    if left is not None:
        handlers[signal.SIGALRM] = expire
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        if left is not None:
            signal.setitimer(signal.ITIMER_REAL, max(left, _AT_ONCE))
        with _raised_again(KeyboardInterrupt, interrupt.again), _raised_again(TimeUpError, expire.again):
            yield
    finally:
        if left is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        # Nothing more is to come of what is on its way.
        interrupt.done = True
        for timer in timers:
            timer.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)


# --- This program's own stderr, apart from what libraries write to descriptor 2 behind Python's back.


@contextmanager
def own_stderr(*, with_panics: bool) -> Iterator[None]:
    """Inside, `sys.stderr` writes to a copy of the descriptor; at the end, what libraries wrote follows, but panics."""
    before, known = sys.stderr, sys.__stderr__
    if not _is_descriptor(before):
        yield
        return
    copy = os.dup(panics.STDERR)
    panics.own(copy)
    # Never closed: threads that an interrupt has left at work may still write to it.
    stream = os.fdopen(copy, "w", buffering=1, encoding=before.encoding, errors=before.errors, closefd=False)
    # The second one is what libraries ask for the width of the terminal.
    sys.stderr = sys.__stderr__ = stream  # type: ignore[misc]
    try:
        yield
    finally:
        with suppress(OSError, ValueError):  # nobody listens
            stream.flush()
        sys.stderr, sys.__stderr__ = before, known  # type: ignore[misc]
        with suppress(OSError), os.fdopen(copy, "wb", closefd=False) as out:
            out.write(panics.give_back(with_panics=with_panics))


def _is_descriptor(stream: object) -> bool:
    try:
        return stream.fileno() == panics.STDERR and os.fstat(panics.STDERR) is not None  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
