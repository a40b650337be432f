"""Logical ends of files: what a `_flush_length` side file says, and a file that ends there.

Streaming ingest appends to a bucket file and, at each commit, its length so far to the side file. Bytes
beyond the last committed length may be a torn stripe, so readers must see the shorter file and look for its
tail there.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable

from acidctl.errors import AcidctlError, DamagedDataError
from acidctl.orc.prefetch import AheadFile
from acidctl.orc.tail import ReadableFile, can_fetch, read_range

_MAX_SIDE_FILE = 64 << 20


def parse_logical_length(content: bytes, *, name: str) -> int:
    """The last complete 8-byte big-endian length in a side file's content.

    Hive 3.1 ignores a partial value at the end (a writer died within it), Hive 4 fails on it; this follows
    3.1. Raises DamagedDataError when no complete value is there or the last one is negative.
    """
    complete = len(content) // 8 * 8
    if not complete:
        raise DamagedDataError(
            f"side file {name} holds no length, so the data file beside it has no known end",
            path=name,
            hint="the writer died before its first commit: nothing of the data file was ever visible",
        )
    length = int.from_bytes(content[complete - 8 : complete], "big", signed=True)
    if length < 0:
        raise DamagedDataError(
            f"side file {name} gives the impossible length {length}",
            path=name,
            hint="restore the side file, or remove it if the writer closed the data file properly",
        )
    return length


def read_logical_length(file: ReadableFile, *, name: str) -> int:
    """The logical length that an open side file gives; DamagedDataError as `parse_logical_length`."""
    file.seek(0, 2)
    size = file.tell()
    if size > _MAX_SIDE_FILE:
        raise DamagedDataError(f"side file {name} is absurdly large ({size} bytes)", path=name)
    # The values before the last are history; the remainder decides where the last complete one lies.
    start = max(0, size // 8 * 8 - 8)
    return parse_logical_length(read_range(file, start, size - start, name), name=name)


class SplicedFile:
    """A read-only file of the first `length` bytes of another, followed by bytes of our own.

    It is what the C++ reader sees. `before_read` is called with the range of each read before its bytes are
    handed out, and may refuse them by raising. Reads are serialised by `lock`, which all views of one file
    share, since Arrow reads ahead in a thread of its own. The first error is kept in `failure`: Arrow loses
    its type.
    """

    def __init__(
        self,
        file: ReadableFile,
        length: int,
        suffix: bytes,
        *,
        name: str,
        lock: threading.Lock,
        before_read: Callable[[int, int], None],
        failures: list[AcidctlError],
    ) -> None:
        self._file = file
        self._length = length
        self._suffix = suffix
        self._name = name
        self._lock = lock
        self._before_read = before_read
        self._at = 0
        self._failures = failures
        self.closed = False

    def size(self) -> int:
        return self._length + len(self._suffix)

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, self.size())[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        if self.closed:
            raise ValueError("the scan is over")
        rest = max(0, self.size() - self._at)
        wanted = rest if size is None or size < 0 else min(size, rest)
        inside = max(0, min(wanted, self._length - self._at))
        parts = []
        if inside:
            try:
                self._before_read(self._at, self._at + inside)
                with self._lock:
                    parts.append(read_range(self._file, self._at, inside, self._name))
            except AcidctlError as error:
                self._failures.append(error)
                # Arrow keeps the error with its frames, and this one would keep the file (`reader` waits for its end).
                del self
                raise
        if wanted > inside:
            start = self._at + inside - self._length
            parts.append(self._suffix[start : start + wanted - inside])
        self._at += wanted
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def with_blocks(file: ReadableFile, size: int) -> ReadableFile:
    """The file itself if it is on this machine, else one that announces what it will read, or keeps the last blocks.

    The C++ reader asks for 128 KiB here and there, in turn for every stream; a request to a distant storage
    costs milliseconds, and the read-ahead of fsspec would fetch megabytes for each and throw them away.
    """
    if can_fetch(file):
        return AheadFile(file)
    return file if isinstance(file, (io.FileIO, io.BufferedReader, io.BytesIO)) else _BlockFile(file, size)


class _BlockFile:
    """Reads aligned blocks of a file and keeps the last used; callers see to it that one thread reads at a time."""

    _BLOCK = 512 * 1024
    _KEPT = 64

    def __init__(self, file: ReadableFile, size: int) -> None:
        self._file = file
        self._size = size
        self._at = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = max(0, (0, self._at, self._size)[whence] + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        parts = []
        while self._at < end:
            index, inside = divmod(self._at, self._BLOCK)
            part = self._block(index)[inside : inside + end - self._at]
            if not part:
                break
            parts.append(part)
            self._at += len(part)
        return b"".join(parts)

    def close(self) -> None:
        self._blocks.clear()
        close = getattr(self._file, "close", None)
        if close is not None:
            close()

    def _block(self, index: int) -> bytes:
        if index in self._blocks:
            self._blocks.move_to_end(index)
            return self._blocks[index]
        start = index * self._BLOCK
        self._file.seek(start)
        wanted = min(self._BLOCK, self._size - start)
        parts = []
        while wanted:
            part = self._file.read(wanted)
            if not part:
                break
            parts.append(part)
            wanted -= len(part)
        self._blocks[index] = b"".join(parts)
        if len(self._blocks) > self._KEPT:
            self._blocks.popitem(last=False)
        return self._blocks[index]
