"""New files of storages that take them over a network: collected in memory, sent in pieces, whole or not there."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from typing import Any


class NewFile(io.RawIOBase, ABC):
    """A file that is being written from its beginning to its end.

    It is whole and durable when `close` has returned or its `with` block has ended; where closing fails, the block ends
    by an exception or nobody closes it, there is none. Of the hooks, `_send` and `_finish` raise StorageError.
    """

    def __init__(self, piece_bytes: int) -> None:
        super().__init__()
        self._piece_bytes = piece_bytes
        self._buffer = bytearray()
        self._written = 0

    @abstractmethod
    def _send(self) -> None:
        """Take what can be sent out of the buffer, which holds `piece_bytes` or more."""

    @abstractmethod
    def _finish(self) -> None:
        """Send the rest and make the file."""

    @abstractmethod
    def _abandon(self) -> None:
        """Leave nothing of a file that was not finished."""

    def _undo(self, failure: BaseException) -> None:
        """Leave nothing after `_finish` has failed so."""
        self._abandon()

    def _shut(self) -> None:
        """Take no more data, and do nothing else."""
        super().close()

    def writable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """New files are written from the beginning to the end."""
        return False

    def tell(self) -> int:
        """Bytes written so far."""
        return self._written

    def write(self, data: Any) -> int:
        """Takes all of it; a refusal of the storage may show some pieces later, or on closing."""
        if self.closed:
            raise ValueError("write to a closed file")
        view = memoryview(data).cast("B")
        self._buffer += view
        self._written += len(view)
        if len(self._buffer) >= self._piece_bytes:
            self._send()
        return len(view)

    def close(self) -> None:
        """The file is whole and durable when this returns; where it fails there is none."""
        if self.closed:
            return
        self._shut()
        try:
            self._finish()
        except BaseException as failure:
            self._undo(failure)
            raise

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self._leave()

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if not self.closed:
            self._shut()
            self._abandon()
