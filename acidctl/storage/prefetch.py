"""A file on a server, read by ranges: announced ranges are fetched in parallel before they are read.

Bytes are held in *pieces*, each fetched by one request, disjoint and in file order. A piece goes when its bytes have
been read and room is needed, so that memory stays bounded whatever the size of the file.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from acidctl.errors import StorageError
from acidctl.storage.port import RandomAccessFile

ReadAt = Callable[[int, int], bytes]
Span = tuple[int, int]

_THREADS = 8
_EVERYTHING = 256 << 20
# How many pieces are kept that were read without being announced, for the rest of their bytes.
_UNANNOUNCED = 4


class Budget:
    """Bytes that all open files together may hold before they are read, in equal shares.

    What does not fit is read when it is needed.
    """

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._files = 0
        self._lock = threading.Lock()

    def join(self, files: int) -> None:
        with self._lock:
            self._files += files

    @property
    def share(self) -> int:
        """What one file may take."""
        return self._size // max(self._files, 1)

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give(self, size: int) -> None:
        with self._lock:
            self._left += size


@dataclass(frozen=True, slots=True)
class Tuning:
    """Sizes in bytes; what suits depends on what a request costs beside what it carries.

    `memory`: what one file may hold; by default two stripes of the size that Hive makes, 64 MiB, and what lies about
    them, so that one is fetched while the other is decoded. `whole`: a file of at most so many is fetched at once and
    kept. `gap`: ranges that lie no farther apart are fetched as one. `piece`: the largest request; `least`: the
    smallest one where there are too many ranges for `memory`. `first`: what a read fetches when nothing is known;
    `ahead`: the requests of a sequential read, of which `depth` are under way.
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


@dataclass(eq=False, slots=True)
class _Piece:
    """Bytes of the file from `start` to before `end`.

    `unread` of them were announced and have not been read. `ahead`: it belongs to a sequential read, which goes on
    behind it. `charged`: its bytes are taken from the budget.
    """

    start: int
    end: int
    unread: int
    ahead: bool = False
    charged: bool = False
    future: Future[bytes] | None = None
    data: bytes | None = None

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def fetched(self) -> bool:
        """Whether its bytes are there or under way."""
        return self.future is not None or self.data is not None


def _start(piece: _Piece) -> int:
    return piece.start


class RangedFile(RandomAccessFile):
    """A file of known size that reads by `read_at(offset, length)`; used by one thread at a time.

    `read_at` is called in several threads at once, never past the end, and may give fewer bytes than asked for, but
    some. A read gives all bytes asked for, as far as the file has them; one that fails leaves the position where it was
    and can be repeated.
    """

    def __init__(
        self, read_at: ReadAt, size: int, *, name: str, tuning: Tuning = TUNING, budget: Budget = BUDGET
    ) -> None:
        self._read_at = read_at
        self.size = size
        self.name = name
        self._tuning = tuning
        self._budget = budget
        self._position = 0
        self._pieces: list[_Piece] = []
        # Those that are to be fetched, in the order in which they will be needed.
        self._waiting: deque[_Piece] = deque()
        self._unannounced: deque[_Piece] = deque()
        self._held_bytes = 0
        # Where the last piece ended that was read unannounced: reading on from there is sequential.
        self._last_end = -1
        budget.join(1)

    def tell(self) -> int:
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

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Announce (offset, length) ranges that will be read soon, and fetch what fits into the memory at once.

        Near ranges are fetched together, long ones in pieces, all in parallel. What this call does not name again of
        earlier ones is forgotten. Until then bytes can be read several times. Errors show when the bytes are read.
        """
        self._check_open()
        spans = _apart(sorted((max(at, 0), min(at + length, self.size)) for at, length in ranges))
        if spans and self.size <= self._tuning.whole:
            spans = [(0, self.size)]
        for piece in list(self._pieces):
            piece.unread = _overlap(spans, piece.start, piece.end)
            if not piece.unread and piece.size < self.size:
                self._drop(piece)
        self._plan(self._uncovered(spans), self._tuning.piece)

    def close(self) -> None:
        """Forget all that is held; requests under way are not waited for."""
        if self.closed:
            return
        for piece in list(self._pieces):
            self._drop(piece)
        self._budget.join(-1)
        super().close()

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
            # No room for all of it: read just what is asked for, as if it had not been announced.
            for waiting in [waiting for waiting in self._waiting if waiting.start < end and at < waiting.end]:
                self._drop(waiting)
            piece = None
        if piece is None:
            piece = self._unannounced_piece(at, end)
        try:
            data = self._content(piece)
        except BaseException:
            self._drop(piece)
            raise
        if piece.ahead and at == piece.start:
            self._read_ahead(piece.end)
        stop = min(end, piece.end)
        piece.unread -= stop - at
        if piece.ahead and stop == piece.end:
            self._drop(piece)
        if piece.unread <= 0:
            self._launch_waiting()
        return data[at - piece.start : stop - piece.start]

    def _piece_at(self, at: int) -> _Piece | None:
        index = bisect_right(self._pieces, at, key=_start) - 1
        return self._pieces[index] if index >= 0 and at < self._pieces[index].end else None

    def _content(self, piece: _Piece) -> bytes:
        # One that still waits for a thread is fetched here and now.
        if piece.future is not None and not piece.future.cancel():
            try:
                return piece.future.result()
            except StorageError:
                # It is asked for once more; if that fails, the reader has the error.
                pass
        if piece.data is None:
            piece.future = None
            piece.data = _fetch(self._read_at, piece.start, piece.end, self.name)
        return piece.data

    def _unannounced_piece(self, at: int, end: int) -> _Piece:
        """A piece with the byte at `at`, fetched by its reader; what a long read needs beyond it is on its way."""
        tuning = self._tuning
        if self.size <= tuning.whole:
            return self._hold(_Piece(0, self.size, self.size))
        sequential = at == self._last_end
        if sequential:
            for old in [piece for piece in self._pieces if piece.ahead]:
                self._drop(old)
        behind = bisect_left(self._pieces, at, key=_start)
        free = self._pieces[behind].start if behind < len(self._pieces) else self.size
        wanted = min(max(end, at + (tuning.ahead if sequential else tuning.first)), free)
        stop = min(wanted, at + tuning.piece)
        piece = self._hold(_Piece(at, stop, stop - at, ahead=sequential))
        self._last_end = wanted
        self._unannounced.append(piece)
        if len(self._unannounced) > _UNANNOUNCED:
            self._drop(self._unannounced[0])
        self._plan(self._uncovered([(piece.end, wanted)]), tuning.piece)
        return piece

    def _read_ahead(self, at: int) -> None:
        """A sequential read will come to `at`: what follows should be under way by then."""
        tuning = self._tuning
        span = (at, min(at + tuning.depth * tuning.ahead, self.size))
        self._plan(self._uncovered([span]), tuning.ahead, ahead=True)
        self._last_end = span[1]

    def _uncovered(self, spans: Sequence[Span]) -> list[Span]:
        """The parts of spans that no piece covers."""
        free: list[Span] = []
        for start, end in spans:
            at = start
            for piece in self._pieces[max(bisect_right(self._pieces, start, key=_start) - 1, 0) :]:
                if piece.start >= end:
                    break
                if at < piece.start:
                    free.append((at, piece.start))
                at = max(at, piece.end)
            if at < end:
                free.append((at, end))
        return free

    def _plan(self, spans: Sequence[Span], longest: int, *, ahead: bool = False) -> None:
        """Make pieces of spans that none covers, and fetch those for which there is room.

        Of several long spans each has its first piece fetched before any has its second.
        """
        runs = self._runs(spans, None)
        if sum(end - start for start, end in runs) > self._memory:
            # Too much to be held at once. Streams are read side by side, so each has a window.
            windows = len(self._runs(spans, self._tuning.least))
            longest = min(longest, max(self._memory // (2 * windows), self._tuning.least))
            runs = self._runs(spans, longest)
        rows: list[list[_Piece]] = []
        for first, last in runs:
            cuts = [(start, min(start + longest, last)) for start in range(first, last, longest)]
            pieces = [_Piece(start, end, _overlap(spans, start, end), ahead) for start, end in cuts]
            rows.append([piece for piece in pieces if piece.unread])
        for piece in (piece for turn in zip_longest(*rows) for piece in turn if piece is not None):
            insort(self._pieces, piece, key=_start)
            self._waiting.append(piece)
        self._launch_waiting()

    def _runs(self, spans: Sequence[Span], limit: int | None) -> list[Span]:
        """Spans with near ones joined, as long as no piece lies between and none gets longer than `limit` by it."""
        runs: list[Span] = []
        for start, end in spans:
            if runs:
                first, last = runs[-1]
                near = start - last <= self._tuning.gap and (limit is None or end - first <= limit)
                index = bisect_left(self._pieces, last, key=_start)
                if near and not (index < len(self._pieces) and self._pieces[index].start < start):
                    runs[-1] = (first, end)
                    continue
            runs.append((start, end))
        return runs

    def _launch_waiting(self) -> None:
        while self._waiting and self._launch(self._waiting[0]):
            pass

    def _launch(self, piece: _Piece) -> bool:
        """Begin to fetch a piece in the background; False when there is no room for it."""
        while self._held_bytes + piece.size > self._memory:
            read = next((other for other in self._pieces if other.fetched and other.unread <= 0), None)
            if read is None:
                return False
            self._drop(read)
        if not self._budget.take(piece.size):
            return False
        try:
            piece.future = _pool().submit(_fetch, self._read_at, piece.start, piece.end, self.name)
        except RuntimeError:
            # The interpreter is ending and takes no new work for threads.
            self._budget.give(piece.size)
            return False
        piece.charged = True
        self._held_bytes += piece.size
        self._waiting.remove(piece)
        return True

    def _hold(self, piece: _Piece) -> _Piece:
        """Add a piece that is fetched by its reader."""
        insort(self._pieces, piece, key=_start)
        self._held_bytes += piece.size
        return piece

    def _drop(self, piece: _Piece) -> None:
        """Forget a piece; reading there begins anew."""
        if piece not in self._pieces:
            return
        self._pieces.remove(piece)
        if piece in self._waiting:
            self._waiting.remove(piece)
            return
        self._held_bytes -= piece.size
        if piece.charged:
            self._budget.give(piece.size)
        if piece.future is not None:
            piece.future.cancel()
        if piece in self._unannounced:
            self._unannounced.remove(piece)


def _apart(spans: Iterable[Span]) -> list[Span]:
    """Sorted spans, each without what those before it cover, and without empty ones."""
    result: list[Span] = []
    done = 0
    for start, end in spans:
        start = max(start, done)
        if start < end:
            result.append((start, end))
            done = end
    return result


def _overlap(spans: Sequence[Span], start: int, end: int) -> int:
    """How many bytes between `start` and `end` lie in one of sorted, disjoint spans."""
    first = bisect_right(spans, start, key=lambda span: span[1])
    touched = spans[first : bisect_left(spans, end, key=lambda span: span[0])]
    return sum(min(b, end) - max(a, start) for a, b in touched)


def _fetch(read_at: ReadAt, start: int, end: int, name: str) -> bytes:
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
def _pool() -> ThreadPoolExecutor:
    """The threads of all files; a process that was forked makes its own."""
    return ThreadPoolExecutor(_THREADS, "acidctl-read")


os.register_at_fork(after_in_child=_pool.cache_clear)
