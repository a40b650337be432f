"""Where the time of a run goes: seconds of each phase, in all threads of a process.

A thread is in one phase at a time: one that begins inside of another stops its clock, so that the phases add up to what
the threads were at work. What belongs together whatever it is made of (`WHOLE`) keeps what begins inside of it. A turn
costs a microsecond, and there is one a batch or a chunk.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from time import perf_counter
from types import TracebackType
from typing import TypeVar

#: In the order in which they are shown.
PHASES = ("list", "footers", "read", "merge", "encode", "deflate", "verify", "publish")
WHOLE = frozenset({"list", "verify", "publish"})

Item = TypeVar("Item")
_lock = threading.Lock()
_seconds = dict.fromkeys(PHASES, 0.0)


class _Clock(threading.local):
    """The phases that a thread is in, the innermost last, and since when that one runs."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.since = 0.0

    def turn(self) -> None:
        """Count what has run since the last turn."""
        now = perf_counter()
        if self.phases:
            with _lock:
                _seconds[self.phases[-1]] += now - self.since
        self.since = now


_clock = _Clock()


class phase:
    """A block of a phase; may stand inside of others and be used again."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        _clock.turn()
        outer = _clock.phases[-1] if _clock.phases else ""
        _clock.phases.append(outer if outer in WHOLE else self._name)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _clock.turn()
        _clock.phases.pop()


def timed(name: str, items: Iterable[Item]) -> Iterator[Item]:
    """The same items; what it takes to make each is of this phase. Closing it closes `items`."""
    block, iterator = phase(name), iter(items)
    try:
        while True:
            with block:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def so_far() -> dict[str, float]:
    """Seconds of this process since it began."""
    with _lock:
        return dict(_seconds)


def since(earlier: Mapping[str, float]) -> dict[str, float]:
    """Seconds of this process since `so_far` gave these."""
    return {name: seconds - earlier[name] for name, seconds in so_far().items()}


def added(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sums of some seconds by phase."""
    total = dict.fromkeys(PHASES, 0.0)
    for part in parts:
        for name, seconds in part.items():
            total[name] += seconds
    return total
