"""A file on a server, read by ranges: read-ahead, and announced ranges fetched in parallel before they are read.

Bytes are held in *pieces*, each fetched by one request, disjoint and in file order. A piece goes when all of it has
been read and room is needed, so that memory stays bounded whatever the size of the file.
"""

from __future__ import annotations

import io
import os
import threading
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import Any

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


# Blocks that were read without being announced and are kept for the rest of them.
_STRAYS = 4


class RangedFile(io.RawIOBase):
    """A file of known size that reads by `read_at(offset, length)`; used by one thread at a time.

    `read_at` is called in several threads at once, never past the end, and may give fewer bytes than asked for, but
    some. A read gives all bytes asked for, as far as the file has them; one that fails leaves the position where it was
    and can be repeated. `on_close` is called when nothing is under way any more.
    """

    def __init__(
        self,
        read_at: ReadAt,
        size: int,
        *,
        name: str,
        on_close: Callable[[], None] | None = None,
        tuning: Tuning = TUNING,
        budget: Budget = BUDGET,
    ) -> None:
        self._read_at = read_at
        self.size = size
        self.name = name
        self._on_close = on_close
        self._tuning = tuning
        self._budget = budget
        self._position = 0
        self._pieces: list[Piece] = []
        self._held: dict[Piece, None] = {}
        self._held_bytes = 0
        self._waiting: deque[Piece] = deque()
        self._strays: deque[Piece] = deque()
        self._generation = 0
        # Where the last block ended that nobody had announced: reading on from there is sequential.
        self._last_end = -1
        budget.join(1)

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Bytes from the beginning."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Past the end is allowed, and there is nothing to read there."""
        self._check_open()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError(f"cannot seek to {base + offset}")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Exactly `size` bytes, fewer only at the end of the file; all that is left when `size` is negative or None."""
        self._check_open()
        at = self._position
        end = self.size if size is None or size < 0 else min(at + size, self.size)
        parts = []
        while at < end:
            part = self._some(at, end)
            parts.append(part)
            at += len(part)
        if parts:
            self._position = at
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readall(self) -> bytes:
        """All that is left."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """As `read`."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Announce (offset, length) ranges that will be read soon, and fetch what fits into the memory at once.

        Near ranges are fetched together, long ones in pieces, all in parallel. What this call does not name again of
        earlier ones is let go of: at once when it has been read or is not under way yet, else when room is needed.
        Until then bytes can be read several times. Errors show when the bytes are read.
        """
        self._check_open()
        self._generation += 1
        spans = sorted((max(at, 0), min(at + length, self.size)) for at, length in ranges)
        if spans and self.size <= self._tuning.whole:
            spans = [(0, self.size)]
        self._plan([free for span in apart(spans) for free in self._claimed(span)], self._tuning.piece)
        for piece in [piece for piece in self._pieces if piece.generation < self._generation]:
            if not piece.fetched or (not piece.left and piece.size < self.size):
                self._drop(piece)
        self._launch_waiting()

    def close(self) -> None:
        """Forget all that is held; waits for requests under way where there is something to close behind them."""
        if self.closed:
            return
        under_way = [piece.future for piece in self._held if piece.future is not None]
        self._waiting.clear()
        for piece in list(self._held):
            self._drop(piece)
        self._pieces.clear()
        self._budget.join(-1)
        super().close()
        if self._on_close is not None:
            wait([future for future in under_way if not future.cancelled()])
            self._on_close()

    @property
    def _memory(self) -> int:
        return min(self._tuning.memory, self._budget.share)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"{self.name} is closed")

    def _some(self, at: int, end: int) -> bytes:
        """The bytes from `at` to `end` or to the end of the piece that holds `at`."""
        piece = self._piece_at(at)
        if piece is not None and not piece.fetched and not self._launch(piece):
            # No room for all of it: read just what is asked for, as if nobody had announced it.
            self._drop(piece)
            piece = None
        if piece is None:
            piece = self._stray(at, end)
        try:
            data = self._content(piece)
        except BaseException:
            self._drop(piece)
            raise
        if not piece.touched:
            piece.touched = True
            self._go_on_behind(piece)
        stop = min(end, piece.end)
        part = data[at - piece.start : stop - piece.start]
        piece.left = without(piece.left, (at, stop))
        if not piece.left:
            if piece.ahead or piece in self._strays:
                self._drop(piece)
            self._launch_waiting()
        return part

    def _piece_at(self, at: int) -> Piece | None:
        index = bisect_right(self._pieces, at, key=start_of) - 1
        return self._pieces[index] if index >= 0 and at < self._pieces[index].end else None

    def _content(self, piece: Piece) -> bytes:
        # One that still waits for a thread is fetched here and now.
        if piece.future is not None and not piece.future.cancel():
            try:
                return piece.future.result()
            except StorageError:
                # Whoever reads it is told, if it fails again.
                pass
        if piece.data is None:
            piece.future = None
            piece.data = fetch(self._read_at, piece.start, piece.end, self.name)
        return piece.data

    def _stray(self, at: int, end: int) -> Piece:
        """A piece with the byte at `at`, where none was announced; what a long read needs beyond it is on its way."""
        tuning = self._tuning
        if self.size <= tuning.whole:
            return self._made(0, self.size)
        sequential = at == self._last_end
        if sequential:
            for old in [piece for piece in self._held if piece.ahead]:
                self._drop(old)
        stop = self._cleared(at, min(max(end, at + (tuning.ahead if sequential else tuning.first)), self.size))
        self._last_end = stop
        piece = self._made(at, min(stop, at + tuning.piece), ahead=sequential)
        self._strays.append(piece)
        if len(self._strays) > _STRAYS:
            self._drop(self._strays[0])
        if piece.end < stop:
            self._plan([(piece.end, stop)], tuning.piece)
        self._launch_waiting()
        return piece

    def _made(self, start: int, end: int, *, ahead: bool = False) -> Piece:
        """A piece that is fetched by whoever reads it."""
        piece = Piece(start, end, self._generation, ahead)
        piece.left = [(start, end)]
        insort(self._pieces, piece, key=start_of)
        self._hold(piece)
        return piece

    def _cleared(self, at: int, stop: int) -> int:
        """Where a piece from `at` has to end: at `stop`, or before one that is there; those that wait yield to it."""
        first = bisect_left(self._pieces, at, key=start_of)
        behind = self._pieces[first : bisect_left(self._pieces, stop, key=start_of)]
        stop = min([stop, *(piece.start for piece in behind if piece.fetched)])
        for piece in behind:
            if piece.end <= stop:
                self._drop(piece)
            elif piece.start < stop:
                piece.start = stop
                piece.left = without(piece.left, (at, stop))
        return stop

    def _go_on_behind(self, piece: Piece) -> None:
        """Reading has come to a piece: what follows it should be under way."""
        if piece.ahead:
            tuning = self._tuning
            span = (piece.end, min(piece.end + tuning.depth * tuning.ahead, self.size))
            self._plan(self._claimed(span), tuning.ahead, ahead=True)
            self._last_end = span[1]
            self._launch_waiting()
        elif piece.following is not None and piece.following in self._waiting:
            self._launch(piece.following)

    def _claimed(self, span: Span) -> list[Span]:
        """The parts of a span that no piece covers; pieces that cover others of it are kept for them."""
        at, end = span
        free: list[Span] = []
        index = max(bisect_right(self._pieces, at, key=start_of) - 1, 0)
        for piece in self._pieces[index:]:
            if piece.start >= end:
                break
            if piece.end <= at:
                continue
            if at < piece.start:
                free.append((at, piece.start))
            piece.generation = self._generation
            piece.left = apart(sorted([*piece.left, (max(at, piece.start), min(end, piece.end))]))
            at = piece.end
        if at < end:
            free.append((at, end))
        return free

    def _plan(self, spans: Sequence[Span], longest: int, *, ahead: bool = False) -> None:
        """Make pieces of spans that none covers and let them wait for their launch; those that follow each other in a
        long span are launched one after the other, and so that each span has its first.
        """
        runs = self._runs(spans, None)
        if sum(end - start for start, end in runs) > self._memory:
            # Too much to be held at once. Streams are read side by side, so each has a window.
            windows = len(self._runs(spans, self._tuning.least))
            longest = min(longest, max(self._memory // (2 * windows), self._tuning.least))
            runs = self._runs(spans, longest)
        lanes: list[list[Piece]] = []
        for start, end in runs:
            lane: list[Piece] = []
            for at in range(start, end, longest):
                piece = Piece(at, min(at + longest, end), self._generation, ahead)
                piece.left = [(max(a, piece.start), min(b, piece.end)) for a, b in within(spans, piece)]
                if piece.left:
                    lane.append(piece)
                    insort(self._pieces, piece, key=start_of)
            for one, following in pairwise(lane):
                one.following = following
            lanes.append(lane)
        self._waiting.extend(piece for turn in zip_longest(*lanes) for piece in turn if piece is not None)

    def _runs(self, spans: Sequence[Span], limit: int | None) -> list[Span]:
        """Spans with near ones joined, as long as no piece lies between and none gets longer than `limit` by it."""
        runs: list[Span] = []
        for start, end in spans:
            if runs:
                first, last = runs[-1]
                index = bisect_left(self._pieces, last, key=start_of)
                barred = index < len(self._pieces) and self._pieces[index].start < start
                if start - last <= self._tuning.gap and not barred and (limit is None or end - first <= limit):
                    runs[-1] = (first, end)
                    continue
            runs.append((start, end))
        return runs

    def _launch_waiting(self) -> None:
        while self._waiting and self._launch(self._waiting[0]):
            pass

    def _launch(self, piece: Piece) -> bool:
        """Begin to fetch a piece in the background; False when there is no room for it."""
        while self._held_bytes + piece.size > self._memory:
            old = next((held for held in self._held if not held.left), None)
            old = old or next((held for held in self._held if held.generation < self._generation), None)
            if old is None:
                return False
            self._drop(old)
        if not self._budget.take(piece.size):
            return False
        piece.charged = True
        try:
            piece.future = pool().submit(fetch, self._read_at, piece.start, piece.end, self.name)
        except RuntimeError:
            # The interpreter is ending and takes no new work for threads.
            piece.charged = False
            self._budget.give(piece.size)
            return False
        self._hold(piece)
        if piece in self._waiting:
            self._waiting.remove(piece)
        return True

    def _hold(self, piece: Piece) -> None:
        self._held[piece] = None
        self._held_bytes += piece.size

    def _release(self, piece: Piece) -> None:
        """Let go of the bytes of a piece."""
        if piece in self._held:
            del self._held[piece]
            self._held_bytes -= piece.size
        if piece.charged:
            piece.charged = False
            self._budget.give(piece.size)
        if piece.future is not None:
            piece.future.cancel()
        piece.future = piece.data = None

    def _drop(self, piece: Piece) -> None:
        """Forget a piece; reading there begins anew."""
        self._release(piece)
        if piece in self._waiting:
            self._waiting.remove(piece)
        if piece in self._strays:
            self._strays.remove(piece)
        index = bisect_left(self._pieces, piece.start, key=start_of)
        if index < len(self._pieces) and self._pieces[index] is piece:
            del self._pieces[index]
