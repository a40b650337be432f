"""A file on a server, read by ranges: announced ranges are fetched in parallel before they are read.

Bytes are held in *pieces*, each fetched by one request, disjoint and in file order. A piece goes when its bytes have
been read and room is needed, so that memory stays bounded whatever the size of the file.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from itertools import zip_longest

from acidctl.errors import StorageError
from acidctl.storage.port import RandomAccessFile
from acidctl.values import dataclass

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

    `unread` of them are expected to be read. `ahead`: it belongs to a sequential read, which goes on behind it. `held`:
    there is room for it, and its bytes are there, under way, or about to be fetched by the reader. `charged`: of that
    room, as much is taken from the budget.
    """

    start: int
    end: int
    unread: int
    ahead: bool = False
    held: bool = False
    charged: bool = False
    future: Future[bytes] | None = None
    data: bytes | None = None

    @property
    def size(self) -> int:
        return self.end - self.start


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
        # In the order in which they will be needed, and disjoint.
        self._pieces: list[_Piece] = []
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
        spans: list[Span] = []
        for start, end in sorted((max(at, 0), min(at + length, self.size)) for at, length in ranges):
            start = max(start, spans[-1][1]) if spans else start
            if start < end:
                spans.append((start, end))
        if spans and self.size <= self._tuning.whole:
            spans = [(0, self.size)]
        for piece in list(self._pieces):
            piece.unread = _overlap(spans, piece.start, piece.end)
            if not piece.unread and piece.size < self.size:
                self._drop(piece)
        self._plan(spans, self._tuning.piece)

    def close(self) -> None:
        """Forget all that is held; requests under way are not waited for."""
        if self.closed:
            return
        for piece in list(self._pieces):
            self._drop(piece)
        self._budget.join(-1)
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"{self.name} is closed")

    def _some(self, at: int, end: int) -> bytes:
        """The bytes from `at` to `end` or to the end of the piece that holds `at`."""
        piece = next((piece for piece in self._pieces if piece.start <= at < piece.end), None)
        if piece is not None and not piece.held and not self._launch(piece):
            # No room for all of it: read just what is asked for, as if it had not been announced.
            for other in [other for other in self._pieces if other.start < end and at < other.end and not other.held]:
                self._drop(other)
            piece = None
        if piece is None:
            piece = self._unannounced(at, end)
        try:
            data = self._content(piece)
        except BaseException:
            self._drop(piece)
            raise
        if piece.ahead and at == piece.start:
            # The reader will come to its end: what follows should be under way by then.
            self._last_end = min(piece.end + self._tuning.depth * self._tuning.ahead, self.size)
            self._plan([(piece.end, self._last_end)], self._tuning.ahead, ahead=True)
        stop = min(end, piece.end)
        piece.unread -= stop - at
        if piece.ahead and stop == piece.end:
            self._drop(piece)
        if piece.unread <= 0:
            self._launch_waiting()
        return data[at - piece.start : stop - piece.start]

    def _content(self, piece: _Piece) -> bytes:
        if piece.data is None and piece.future is not None:
            # What failed is asked for once more, and what still waits for a thread is fetched here and now.
            with suppress(StorageError, CancelledError):
                piece.future.cancel()
                piece.data = piece.future.result()
        if piece.data is None:
            piece.data = _fetch(self._read_at, piece.start, piece.end, self.name)
        return piece.data

    def _unannounced(self, at: int, end: int) -> _Piece:
        """A piece with the byte at `at`, to be fetched by its reader; what a long read needs beyond is on its way."""
        tuning = self._tuning
        sequential = at == self._last_end
        for old in [piece for piece in self._pieces if piece.ahead and sequential]:
            self._drop(old)
        if self.size <= tuning.whole:
            piece = _Piece(0, self.size, self.size)
            wanted = self.size
        else:
            free = min((piece.start for piece in self._pieces if piece.start > at), default=self.size)
            wanted = min(max(end, at + (tuning.ahead if sequential else tuning.first)), free)
            stop = min(wanted, at + tuning.piece)
            piece = _Piece(at, stop, stop - at, ahead=sequential)
            self._last_end = wanted
            # Of earlier ones, a few are kept for the rest of their bytes.
            for old in [piece for piece in self._pieces if piece.held and not piece.charged][: 1 - _UNANNOUNCED]:
                self._drop(old)
        piece.held = True
        self._held_bytes += piece.size
        self._pieces.append(piece)
        self._plan([(piece.end, wanted)], tuning.piece)
        return piece

    def _plan(self, spans: Sequence[Span], longest: int, *, ahead: bool = False) -> None:
        """Make pieces of what no piece covers of sorted, disjoint spans, and fetch those for which there is room.

        Of several long spans each has its first piece fetched before any has its second.
        """
        covered = sorted((piece.start, piece.end) for piece in self._pieces)
        memory = self._memory
        runs = self._runs(spans, covered, None)
        if sum(end - start for start, end in runs) > memory:
            # Too much to be held at once. Streams are read side by side, so each has a window.
            windows = len(self._runs(spans, covered, self._tuning.least))
            longest = min(longest, max(memory // (2 * windows), self._tuning.least))
            runs = self._runs(spans, covered, longest)
        rows: list[list[_Piece]] = []
        for first, last in runs:
            cuts = [(start, min(start + longest, last)) for start in range(first, last, longest)]
            rows.append([_Piece(*cut, unread, ahead) for cut in cuts if (unread := _overlap(spans, *cut))])
        self._pieces += (piece for turn in zip_longest(*rows) for piece in turn if piece is not None)
        self._launch_waiting()

    def _runs(self, spans: Sequence[Span], covered: Sequence[Span], limit: int | None) -> list[Span]:
        """What is not covered of spans, near ones joined where none gets longer than `limit` by it."""
        runs: list[Span] = []
        last_covered, index = -1, 0
        for start, end in spans:
            while start < end:
                while index < len(covered) and covered[index][1] <= start:
                    last_covered = covered[index][1]
                    index += 1
                before, after = covered[index] if index < len(covered) else (self.size, self.size)
                stop = min(before, end)
                if start < stop:
                    first, last = runs[-1] if runs else (0, -1)
                    near = last > last_covered and start - last <= self._tuning.gap
                    if near and (limit is None or stop - first <= limit):
                        runs[-1] = (first, stop)
                    else:
                        runs.append((start, stop))
                start = after if stop < end else end
        return runs

    @property
    def _memory(self) -> int:
        return min(self._tuning.memory, self._budget.share)

    def _launch_waiting(self) -> None:
        for piece in [piece for piece in self._pieces if not piece.held]:
            if not self._launch(piece):
                return

    def _launch(self, piece: _Piece) -> bool:
        """Begin to fetch a piece in the background; False when there is no room for it."""
        while self._held_bytes + piece.size > self._memory:
            read = next((other for other in self._pieces if other.held and other.unread <= 0), None)
            if read is None:
                return False
            self._drop(read)
        if not self._budget.take(piece.size):
            return False
        piece.held = piece.charged = True
        self._held_bytes += piece.size
        # The interpreter that is ending takes no new work for threads: then the reader fetches it.
        with suppress(RuntimeError):
            piece.future = _pool().submit(_fetch, self._read_at, piece.start, piece.end, self.name)
        return True

    def _drop(self, piece: _Piece) -> None:
        if piece in self._pieces:
            self._pieces.remove(piece)
            self._held_bytes -= piece.size if piece.held else 0
            self._budget.give(piece.size if piece.charged else 0)
            if piece.future is not None:
                piece.future.cancel()


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
