"""Pieces of a file that is read by ranges: their sizes, the memory for them, the threads that fetch them."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from acidctl.errors import StorageError

ReadAt = Callable[[int, int], bytes]
Span = tuple[int, int]

_THREADS = 8
_EVERYTHING = 256 << 20


class Budget:
    """Bytes that all open files together may hold ahead of their readers, in equal shares.

    What does not fit is read when it is needed.
    """

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._files = 0
        self._lock = threading.Lock()

    def join(self, files: int) -> None:
        """So many files more, or fewer."""
        with self._lock:
            self._files += files

    @property
    def share(self) -> int:
        """What one file may take."""
        return self._size // max(self._files, 1)

    def take(self, size: int) -> bool:
        """Take so many bytes, or none."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give(self, size: int) -> None:
        """Give bytes back."""
        with self._lock:
            self._left += size


@dataclass(frozen=True, slots=True)
class Tuning:
    """Sizes in bytes; what suits depends on what a request costs beside what it carries.

    `memory`: what one file may hold ahead; by default two stripes of the size that Hive makes, 64 MiB, and what lies
    about them, so that one is fetched while the other is decoded. `whole`: a file of at most so many is fetched at once
    and kept. `gap`: ranges that lie no farther apart are fetched as one. `piece`: the largest request; `least`: the
    smallest made ahead where there are too many ranges for `memory`. `first`: what a read fetches when nothing is
    known; `ahead`: the requests of a sequential read, of which `depth` are under way.
    """

    memory: int = 160 << 20
    whole: int = 128 << 10
    gap: int = 256 << 10
    piece: int = 16 << 20
    least: int = 256 << 10
    first: int = 64 << 10
    ahead: int = 16 << 20
    depth: int = 2


TUNING = Tuning()
BUDGET = Budget(_EVERYTHING)


class Piece:
    """Bytes of the file from `start` to before `end`; `left` are the spans in it that have not been read yet."""

    __slots__ = (*("start", "end", "generation", "ahead", "left", "following", "touched", "charged", "future", "data"),)

    def __init__(self, start: int, end: int, generation: int, ahead: bool) -> None:
        self.start = start
        self.end = end
        self.generation = generation
        # Whether reading on is expected behind it.
        self.ahead = ahead
        self.left: list[Span] = []
        self.following: Piece | None = None
        self.touched = False
        self.charged = False
        self.future: Future[bytes] | None = None
        self.data: bytes | None = None

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def fetched(self) -> bool:
        """Whether its bytes are there or under way."""
        return self.future is not None or self.data is not None


def start_of(piece: Piece) -> int:
    return piece.start


def apart(spans: Iterable[Span]) -> list[Span]:
    """Sorted spans, each without what those before it cover, and without empty ones."""
    result: list[Span] = []
    done = 0
    for start, end in spans:
        start = max(start, done)
        if start < end:
            result.append((start, end))
            done = end
    return result


def without(spans: list[Span], cut: Span) -> list[Span]:
    parts = [part for a, b in spans for part in ((a, min(b, cut[0])), (max(a, cut[1]), b))]
    return [(a, b) for a, b in parts if a < b]


def within(spans: Sequence[Span], piece: Piece) -> Sequence[Span]:
    """Those of sorted, disjoint spans that a piece touches."""
    first = bisect_right(spans, piece.start, key=lambda span: span[1])
    return spans[first : bisect_left(spans, piece.end, key=lambda span: span[0])]


def fetch(read_at: ReadAt, start: int, end: int, name: str) -> bytes:
    parts: list[bytes] = []
    at = start
    while at < end:
        part = read_at(at, end - at)
        if not part:
            raise StorageError(
                f"{name} ends at byte {at}, and was longer when it was opened",
                path=name,
                hint="If something writes to this table now, run the command again.",
            )
        parts.append(part)
        at += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


@lru_cache(maxsize=1)
def pool() -> ThreadPoolExecutor:
    """The threads of all files; a process that was forked makes its own."""
    return ThreadPoolExecutor(_THREADS, "acidctl-read")


os.register_at_fork(after_in_child=pool.cache_clear)


# --- The same done with many things, several at once, and undone by the caller when one fails.


Item = TypeVar("Item")


def for_each(action: Callable[[Item], object], items: Sequence[Item], *, threads: int, name: str) -> None:
    """Do something with each, in up to so many threads of that name.

    The first error is raised when none is under way any more, so that all can be undone; what has not begun by then
    is not begun.
    """
    if len(items) < 2:
        for item in items:
            action(item)
        return
    with ThreadPoolExecutor(min(threads, len(items)), name) as pool:
        futures = [pool.submit(action, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
