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
_WRITERS = frozenset({"acidctl.orc.arrow_writer", "acidctl.orc.pyorc_writer"})
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


class _Handlers:
    """What happens to a run when a signal comes."""

    def __init__(self, run: Compaction) -> None:
        self._run = run
        self._timer: threading.Timer | None = None
        self.done = False
        self.late = False

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """End the run; what comes after the first signal does not disturb the tidying up."""
        if self.done:
            return
        engaged = self._run.cancel()
        if engaged and called_by_writer(frame):
            self.interrupt_again()
            return
        self.done = True
        if engaged:
            raise KeyboardInterrupt

    def expire(self, number: int, frame: FrameType | None) -> None:
        """Give up what is not finished."""
        if self.done or self.late:
            return
        engaged = self._run.expire()
        if engaged and called_by_writer(frame):
            self.expire_again()
            return
        self.late = True
        if engaged:
            raise TimeUpError

    def interrupt_again(self) -> None:
        """Come back soon: where `interrupt` was called, an exception gets to nobody, or does harm."""
        self.done = False
        self._timer = _interrupt_soon()

    def expire_again(self) -> None:
        """The same of `expire`."""
        self.late = False
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)

    def close(self) -> None:
        """Nothing more is to come of what is on its way."""
        self.done = True
        if self._timer is not None:
            self._timer.cancel()


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
    own = _Handlers(run)
    handlers = {signal.SIGINT: own.interrupt, signal.SIGTERM: own.interrupt}
    if left is not None:
        handlers[signal.SIGALRM] = own.expire
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        if left is not None:
            signal.setitimer(signal.ITIMER_REAL, max(left, _AT_ONCE))
        with (
            _raised_again(KeyboardInterrupt, own.interrupt_again),
            _raised_again(TimeUpError, own.expire_again),
        ):
            yield
    finally:
        if left is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
        own.close()
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
