"""Telling a file on a server what will be read of it, so that it is fetched in few requests and before it is needed.

Nothing here changes what is read, only when it is fetched.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence

from acidctl.orc.stripe import StreamKind, StripeFooter
from acidctl.orc.tail import FetchingFile, ReadableFile, Tail

# What is announced beyond the stripe that is being read: the next stripe at least, and more of small ones.
_BEYOND = 16 << 20
# Footers of stripes are read twice, by us and by the C++ reader; more than this is fetched twice.
_KEPT = 4 << 20
# How much is fetched of the first columns of a stripe, which are the keys of its events, before it is known where they
# end; and for all stripes of a file together.
_KEYS = 64 << 10
_ALL_KEYS = 8 << 20
# No scan reads these.
_INDEXES = (StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8)


class AheadFile:
    """A file that announces the next stripes of a scan whenever a read comes to a new one.

    Callers see to it that one thread reads at a time.
    """

    def __init__(self, file: FetchingFile) -> None:
        self._file = file
        self._at = 0
        # Per stripe of the scan: where it begins, where it ends, and what of it is read as (offset, length).
        self._starts: list[int] = []
        self._ends: list[int] = []
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
        self._starts = [stripe.offset for stripe in tail.stripes]
        self._ends = [stripe.end for stripe in tail.stripes]
        self._ranges = [
            [
                (stream.offset, stream.length)
                for stream in footer.streams
                if stream.length and stream.column in wanted and stream.kind not in _INDEXES
            ]
            for footer in footers
        ]
        self._current = -1
        self._next = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = self._file.seek(offset if whence != 1 else offset + self._at, whence if whence != 1 else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        kept = self._kept.get(self._at)
        if kept is not None and 0 <= size <= len(kept):
            data = kept[:size]
        else:
            index = bisect_right(self._starts, self._at) - 1
            if index not in (-1, self._current) and self._at < self._ends[index]:
                self._come_to(index)
            self._file.seek(self._at)
            data = self._file.read(size)
            if self._footers.get(self._at) == len(data):
                self._kept[self._at] = data
        self._at += len(data)
        return data

    def close(self) -> None:
        self._kept.clear()
        close = getattr(self._file, "close", None)
        if close is not None:
            close()

    def _come_to(self, index: int) -> None:
        """Announce this stripe and those behind it, unless enough of them are announced."""
        if not self._current < index <= self._next:
            self._next = index
        self._current = index
        ahead = sum(self._size(i) for i in range(index + 1, self._next))
        if index < self._next and (self._next == len(self._ranges) or 2 * ahead >= _BEYOND):
            return
        while self._next < len(self._ranges) and (self._next <= index + 1 or ahead < _BEYOND):
            ahead += self._size(self._next) if self._next > index else 0
            self._next += 1
        self._file.prefetch([part for i in range(index, self._next) for part in self._ranges[i]])

    def _size(self, index: int) -> int:
        return sum(length for _, length in self._ranges[index])


def announce_footers(file: ReadableFile, tail: Tail, *, keys: bool) -> None:
    """See `AheadFile.expect_footers`; does nothing to files that cannot be told."""
    if isinstance(file, AheadFile):
        file.expect_footers(tail, keys=keys)


def announce_scan(file: ReadableFile, tail: Tail, footers: Sequence[StripeFooter], columns: Collection[int]) -> None:
    """See `AheadFile.expect_scan`; does nothing to files that cannot be told."""
    if isinstance(file, AheadFile):
        file.expect_scan(tail, footers, columns)
