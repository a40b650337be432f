"""The file below a reader: where it logically ends, what is fetched of it ahead, and the tail that Arrow sees.

Streaming ingest appends to a bucket file and, at each commit, its length so far to the side file `_flush_length`.
Bytes beyond the last committed length may be a torn stripe, so readers must see the shorter file and look for its
tail there.
"""

from __future__ import annotations

import io
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from acidctl.errors import AcidctlError, DamagedDataError
from acidctl.orc.codec import expand
from acidctl.orc.stripe import INDEX_KINDS, Stream, StripeFooter
from acidctl.orc.tail import FetchingFile, ReadableFile, Stripe, Tail, can_fetch, read_range

_MAX_SIDE_FILE = 64 << 20


def read_logical_length(file: ReadableFile, *, name: str) -> int:
    """The last complete 8-byte big-endian length in an open side file.

    Hive 3.1 ignores a partial value at the end (a writer died within it), Hive 4 fails on it; this follows
    3.1. Raises DamagedDataError when no complete value is there or the last one is negative.
    """
    file.seek(0, 2)
    size = file.tell()
    if size > _MAX_SIDE_FILE:
        raise DamagedDataError(f"side file {name} is too large ({size} bytes)", path=name)
    if size < 8:
        raise DamagedDataError(
            f"side file {name} holds no length, so the data file beside it has no known end",
            path=name,
            hint="The writer crashed before its first commit: nothing of the data file was ever visible.",
        )
    # The values before the last are history; the remainder decides where the last complete one lies.
    length = int.from_bytes(read_range(file, size // 8 * 8 - 8, 8, name), "big", signed=True)
    if length < 0:
        raise DamagedDataError(
            f"side file {name} gives the impossible length {length}",
            path=name,
            hint="Restore the side file, or remove it if the writer closed the data file properly.",
        )
    return length


class Source:
    """An open file and its tail, shared by readers of which one reads at a time: Arrow reads ahead in its threads."""

    def __init__(self, file: ReadableFile, tail: Tail) -> None:
        self.file = with_blocks(file, tail.file_length, tail.name)
        self.tail = tail
        self.lock = threading.Lock()

    def read(self, offset: int, size: int) -> bytes:
        """As `read_range`."""
        with self.lock:
            return read_range(self.file, offset, size, self.tail.name)

    def expanded(self, stream: Stream, limit: int) -> bytes:
        """The plain bytes of a stream; CodecError when it is damaged or larger than `limit`."""
        post = self.tail.postscript
        return expand(self.read(stream.offset, stream.length), post.compression, post.block_size, limit)


class _Positioned(ABC):
    """A read-only file of `size` bytes, which `_bytes` gives."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._at = 0

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = max(0, (0, self._at, self._size)[whence] + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        rest = max(0, self._size - self._at)
        try:
            data = self._bytes(self._at, rest if size is None or size < 0 else min(size, rest))
        except AcidctlError:
            # Arrow keeps the error with its frames, and these would keep the file (`reader` waits for its end).
            del self
            raise
        self._at += len(data)
        return data

    @abstractmethod
    def _bytes(self, start: int, size: int) -> bytes: ...


class SplicedFile(_Positioned):
    """A read-only file of the first `length` bytes of another, followed by bytes of our own.

    It is what the C++ reader sees. `before_read` is called with the range of each read before its bytes are
    handed out, and may refuse them by raising. Errors are kept in `failures`: Arrow loses their type.
    """

    def __init__(
        self,
        source: Source,
        length: int,
        suffix: bytes,
        *,
        before_read: Callable[[int, int], None],
        failures: list[AcidctlError],
    ) -> None:
        super().__init__(length + len(suffix))
        self._source = source
        self._length = length
        self._suffix = suffix
        self._before_read = before_read
        self._failures = failures
        self.closed = False

    def _bytes(self, start: int, size: int) -> bytes:
        if self.closed:
            raise ValueError("the scan is over")
        inside = max(0, min(size, self._length - start))
        after = max(0, start - self._length)
        suffix = self._suffix[after : after + size - inside] if size > inside else b""
        if not inside:
            return suffix
        try:
            self._before_read(start, start + inside)
            data = self._source.read(start, inside)
        except AcidctlError as error:
            self._failures.append(error)
            del self
            raise
        return data + suffix if suffix else data

    def close(self) -> None:
        self.closed = True


def with_blocks(file: ReadableFile, size: int, name: str) -> ReadableFile:
    """The file itself if it is on this machine, else one that announces what it will read, or keeps the last blocks.

    The C++ reader asks for 128 KiB here and there, in turn for every stream; a request to a distant storage
    costs milliseconds, and the read-ahead of fsspec would fetch megabytes for each and throw them away.
    """
    if can_fetch(file):
        return PrefetchingFile(file, size)
    return file if isinstance(file, (io.FileIO, io.BufferedReader, io.BytesIO)) else _BlockFile(file, size, name)


class _BlockFile(_Positioned):
    """Reads aligned blocks of a file and keeps the last used; callers see to it that one thread reads at a time."""

    _BLOCK = 512 * 1024
    _KEPT = 64

    def __init__(self, file: ReadableFile, size: int, name: str) -> None:
        super().__init__(size)
        self._file = file
        self._name = name
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    def _bytes(self, start: int, size: int) -> bytes:
        parts = []
        while size > 0:
            index, inside = divmod(start, self._BLOCK)
            parts.append(self._block(index)[inside : inside + size])
            start += len(parts[-1])
            size -= len(parts[-1])
        return b"".join(parts)

    def _block(self, index: int) -> bytes:
        if index in self._blocks:
            self._blocks.move_to_end(index)
            return self._blocks[index]
        start = index * self._BLOCK
        self._blocks[index] = read_range(self._file, start, min(self._BLOCK, self._size - start), self._name)
        if len(self._blocks) > self._KEPT:
            self._blocks.popitem(last=False)
        return self._blocks[index]


# --- Telling a file on a server what will be read of it, so that it is fetched in few requests and before it is
# needed. Nothing here changes what is read, only when it is fetched.


# What is announced beyond the stripe that is being read: the next stripe at least, and more of small ones.
_BEYOND = 16 << 20
# Footers of stripes are read twice, by us and by the C++ reader; more than this is fetched twice.
_KEPT = 4 << 20
# How much is fetched of the first columns of a stripe, which are the keys of its events, before it is known where they
# end; and for all stripes of a file together.
_KEYS = 64 << 10
_ALL_KEYS = 8 << 20


class PrefetchingFile(_Positioned):
    """A file that announces the next stripes of a scan whenever a read comes to a new one.

    Callers see to it that one thread reads at a time.
    """

    def __init__(self, file: FetchingFile, size: int) -> None:
        super().__init__(size)
        self._file = file
        # The stripes of the scan, and what of each is read as (offset, length).
        self._stripes: tuple[Stripe, ...] = ()
        self._ranges: list[list[tuple[int, int]]] = []
        self._current = -1
        # The first stripe that is not announced yet.
        self._next = 0
        self._footers: dict[int, int] = {}
        self._kept: dict[int, bytes] = {}

    def expect_footers(self, tail: Tail, *, keys: bool) -> None:
        """The footers of all stripes are about to be read, now and once more; with `keys` the first columns as well.

        These begin behind the index that follows the footer of the stripe before, so that one request brings both.
        """
        stripes = tail.stripes
        footers = [(stripe.end - stripe.footer_length, stripe.footer_length) for stripe in stripes]
        ranges = footers
        if keys and stripes:
            most = min(_KEYS, _ALL_KEYS // len(stripes))
            begins = [(s.offset + s.index_length, min(most, s.data_length)) for s in stripes if s.index_length <= most]
            ranges = footers + begins
        self._file.prefetch(ranges)
        if sum(length for _, length in footers) <= _KEPT:
            self._footers = dict(footers)

    def expect_scan(self, tail: Tail, footers: Sequence[StripeFooter], columns: Collection[int]) -> None:
        """The stripes of `tail` are about to be read, in order, and of them the streams of these columns."""
        # The root may have NULLs too, and is a part of every column's path.
        wanted = {0, *columns}
        self._stripes = tail.stripes
        self._ranges = [
            [
                (stream.offset, stream.length)
                for stream in footer.streams
                if stream.length and stream.column in wanted and stream.kind not in INDEX_KINDS
            ]
            for footer in footers
        ]
        self._current = -1
        self._next = 0

    def expect(self, ranges: Sequence[tuple[int, int]]) -> None:
        """These (offset, length) are about to be read."""
        self._file.prefetch(ranges)

    def _bytes(self, start: int, size: int) -> bytes:
        kept = self._kept.get(start, b"")
        if 0 < size <= len(kept):
            return kept[:size]
        index = bisect_right(self._stripes, start, key=lambda stripe: stripe.offset) - 1
        if index not in (-1, self._current) and start < self._stripes[index].end:
            self._come_to(index)
        self._file.seek(start)
        data = self._file.read(size)
        if self._footers.get(start) == len(data):
            self._kept[start] = data
        return data

    def _come_to(self, index: int) -> None:
        """Announce this stripe and those behind it, unless enough of them are announced."""
        if not self._current < index <= self._next:
            self._next = index
        self._current = index
        ahead = sum(self._wanted(i) for i in range(index + 1, self._next))
        if index < self._next and (self._next == len(self._ranges) or 2 * ahead >= _BEYOND):
            return
        while self._next < len(self._ranges) and (self._next <= index + 1 or ahead < _BEYOND):
            ahead += self._wanted(self._next) if self._next > index else 0
            self._next += 1
        self._file.prefetch([part for i in range(index, self._next) for part in self._ranges[i]])

    def _wanted(self, index: int) -> int:
        return sum(length for _, length in self._ranges[index])
