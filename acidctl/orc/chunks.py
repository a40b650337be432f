"""The compressed chunks of a stripe, looked at as its bytes pass: they fill their streams, and some inflate."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any

from acidctl.orc.codec import CodecError, Compression, expand_chunk, igzip
from acidctl.orc.stripe import Stream
from acidctl.orc.tail import PostScript

_HEADER = 3


class ChunkCheck:
    """Takes the bytes of streams that lie one behind the other; CodecError at the first that cannot be read.

    Each chunk has to end where its stream does or before; `wanted` says for which of them, in order, to see whether
    they inflate. Without compression there is nothing to see.
    """

    def __init__(self, streams: Iterable[Stream], post: PostScript, wanted: Callable[[], bool]) -> None:
        self._streams = iter([one for one in streams if one.length])
        self._compression = post.compression
        self._block_size = post.block_size
        self._wanted = wanted
        self._library: Any = igzip() or zlib
        # Of the stream at hand: which one, and how much of it is left; of the chunk: what is left, and what is kept.
        self._stream: Stream | None = None
        self._left = self._chunk = 0
        self._kept: bytearray | None = None
        self._header = b""
        self._done = post.compression is Compression.NONE

    def take(self, data: bytes) -> None:
        """The next bytes."""
        at, end = 0, len(data)
        while at < end and not self._done:
            if self._chunk:
                size = min(self._chunk, end - at)
                if self._kept is not None:
                    self._kept += data[at : at + size]
                self._chunk -= size
                at += size
                if not self._chunk:
                    self._inflate()
                continue
            if not self._left and not self._next_stream():
                return
            part = data[at : at + _HEADER - len(self._header)]
            self._header += part
            at += len(part)
            if len(self._header) == _HEADER:
                self._begin(int.from_bytes(self._header, "little"))

    def _next_stream(self) -> bool:
        self._stream = next(self._streams, None)
        self._left = 0 if self._stream is None else self._stream.length
        self._done = self._stream is None
        return not self._done

    def _begin(self, header: int) -> None:
        self._header, length, original = b"", header >> 1, bool(header & 1)
        if length + _HEADER > self._left:
            raise self._damaged("a compressed chunk runs past its stream")
        if original and length > self._block_size:
            raise self._damaged("a chunk is larger than the block size")
        self._left -= length + _HEADER
        if 0 < self._left < _HEADER:
            raise self._damaged("a compressed chunk has no complete header")
        self._chunk = length
        self._kept = bytearray() if not original and length and self._wanted() else None

    def _inflate(self) -> None:
        if self._kept is None:
            return
        try:
            expand_chunk(bytes(self._kept), self._compression, self._block_size, library=self._library)
        except CodecError as error:
            raise self._damaged(str(error)) from error
        self._kept = None

    def _damaged(self, why: str) -> CodecError:
        stream = self._stream
        return CodecError(why if stream is None else f"{why} ({stream.kind.name} of column {stream.column})")
