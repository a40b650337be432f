"""A sink that can still change its mind about the end of a file.

Storages append and nothing else, and the C++ writers put the tail where it will not be right yet. So what is written
while a writer closes is held back in memory, and goes on only when the tail has been edited.
"""

from __future__ import annotations

from typing import BinaryIO

from acidctl.orc.tail import read_range


class HeldSink:
    """The file that a C++ writer is given: passes bytes on to `target` until `hold`, and keeps them from there on.

    Closing it does not close the target. The first failure of the target is kept in `failure`: C++ writers turn
    exceptions into texts.
    """

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._holding = False
        self.closed = False
        self.passed = 0
        self.held = bytearray()
        self.failure: BaseException | None = None

    def write(self, data: bytes) -> int:
        """Take bytes; all of them, as files of the standard library do."""
        if self._holding:
            self.held += data
            return len(data)
        if self.failure is not None:
            raise OSError("an earlier write failed")
        try:
            write_all(self._target, data)
        except BaseException as error:
            self.failure = error
            raise
        self.passed += len(data)
        return len(data)

    def hold(self) -> None:
        """From here on nothing reaches the target."""
        self._holding = True

    def release(self, tail_length: int, tail: bytes) -> int:
        """Pass on what is held but its last `tail_length` bytes, then `tail`; the length of the file."""
        with memoryview(self.held) as view:
            content = len(view) - tail_length
            write_all(self._target, view[:content])
        write_all(self._target, tail)
        return self.passed + content + len(tail)

    def tell(self) -> int:
        return self.passed + len(self.held)

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """The target stays open: the writer closes before the file is complete."""


class HeldEnd:
    """The end of a file as an open file; what was passed on reads as zeros, which only reading ahead meets."""

    def __init__(self, sink: HeldSink) -> None:
        self._start = sink.passed
        self._held = sink.held
        self._at = 0

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + (self._start + len(self._held) if whence == 2 else 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        end = self._start + len(self._held)
        if size >= 0:
            end = min(end, self._at + size)
        zeros = bytes(max(0, min(end, self._start) - self._at))
        data = zeros + bytes(self._held[max(0, self._at - self._start) : max(0, end - self._start)])
        self._at += len(data)
        return data

    def last(self, size: int) -> bytes:
        """The last `size` bytes of the file."""
        return read_range(self, self._start + len(self._held) - size, size, "the file being written")


def write_all(target: BinaryIO, data: bytes | memoryview) -> None:
    """Write every byte, also to raw files, which may take fewer."""
    at = 0
    while at < len(data):
        count = target.write(data[at:] if at else data)
        at += len(data) if count is None else count
