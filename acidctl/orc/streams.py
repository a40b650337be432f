"""Single streams of a column, read stripe by stripe beside the C++ reader.

Arrow's arrays leave out two things that streams hold: nanoseconds of timestamps beyond its own range, and
which unions are NULL. `ColumnStream` hands out the values of one such stream in file order.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from acidctl.orc.codec import CodecError, expand
from acidctl.orc.protobuf import WireError
from acidctl.orc.rle import decode_bits, decode_v1, decode_v2
from acidctl.orc.stripe import EncodingKind, StreamKind, StripeFooter
from acidctl.orc.tail import ReadableFile, Tail, damaged, read_range

_MAX_STREAM = 128 << 20
Item = TypeVar("Item", bound=np.generic)


class ColumnStream(ABC, Generic[Item]):
    """The values of one stream of one column: `start` begins a stripe, `take` goes on in it."""

    kind: StreamKind
    empty: npt.NDArray[Item]

    def __init__(self, file: ReadableFile, lock: threading.Lock, tail: Tail, column: int) -> None:
        self._file = file
        self._lock = lock
        self.tail = tail
        self.column = column
        self._runs: Iterator[npt.NDArray[Item]] = iter(())
        self._rest = self.empty
        #: Whether the stripe has the stream at all.
        self.exists = False

    def start(self, footer: StripeFooter, most: int) -> int:
        """Begin a stripe; how many bytes are held of the stream, at most `most`."""
        stream = footer.stream(self.kind, self.column)
        self.exists = stream is not None
        data = b""
        if stream is not None and stream.length:
            with self._lock:
                raw = read_range(self._file, stream.offset, stream.length, self.tail.name)
            post = self.tail.postscript
            try:
                data = expand(raw, post.compression, post.block_size, min(most, _MAX_STREAM))
            except CodecError as error:
                raise self._damaged(str(error)) from error
        self._runs = self._decode(data, footer.encodings[self.column].kind)
        self._rest = self.empty
        return len(data)

    def take(self, count: int) -> npt.NDArray[Item]:
        """The next `count` values of the stripe; DamagedDataError when there are fewer."""
        parts = [self._rest]
        have = len(self._rest)
        try:
            while have < count:
                run = next(self._runs)
                parts.append(run)
                have += len(run)
        except StopIteration:
            raise self._damaged(f"its {self.kind.name} stream ends too early") from None
        except WireError as error:
            raise self._damaged(str(error)) from error
        values = np.concatenate(parts)
        self._rest = values[count:]
        return values[:count]

    @abstractmethod
    def _decode(self, data: bytes, encoding: EncodingKind) -> Iterator[npt.NDArray[Item]]: ...

    def _damaged(self, why: str) -> Exception:
        return damaged(self.tail.name, f"has a damaged column {self.column}: {why}")


class SecondaryStream(ColumnStream[np.uint64]):
    """Coded nanoseconds of a timestamp column, one for each value that is not NULL."""

    kind = StreamKind.SECONDARY
    empty = np.empty(0, dtype=np.uint64)

    def _decode(self, data: bytes, encoding: EncodingKind) -> Iterator[npt.NDArray[np.uint64]]:
        return decode_v2(data) if encoding is EncodingKind.DIRECT_V2 else decode_v1(data)


class PresentStream(ColumnStream[np.bool_]):
    """Which values of a column are not NULL; a stripe without the stream has no NULL."""

    kind = StreamKind.PRESENT
    empty = np.empty(0, dtype=np.bool_)

    def _decode(self, data: bytes, encoding: EncodingKind) -> Iterator[npt.NDArray[np.bool_]]:
        return decode_bits(data)
