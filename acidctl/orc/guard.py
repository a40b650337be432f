"""Streams that the C++ reader believes blindly, checked before it sees them.

Lengths of strings and lists, tags of unions and scales of decimals come from the file as plain numbers. A
flipped bit in them makes ORC's C++ reader allocate terabytes, write past its buffers or multiply by ten
without end, and with it the whole process dies. Looking at the headers of the runs is enough for sound
streams: what they can hold at most is small. Only where that is not so are the values decoded.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable

import numpy as np

from acidctl.orc.codec import CodecError, Compression, expand
from acidctl.orc.rle import bound_v1, bound_v2, constants_v2, decode_bytes, decode_v1, decode_v2
from acidctl.orc.stripe import EncodingKind, Stream, StreamKind, StripeFooter
from acidctl.orc.tail import OrcKind, ReadableFile, Tail, damaged, read_range
from acidctl.orc.wire import WireError

# Streams that are looked through here: a little always, more where the stored bytes are many, and never more than this.
_MAX_STREAM = 128 << 20
_FREE_STREAM, _STREAM_OF_A_BYTE = 8 << 20, 64
# Elements of one list or map, which a reader holds at once.
_MAX_ELEMENTS = 1 << 24
# What one stripe may ask for in all before its lengths are looked at one by one; memory is touched only when
# filled.
_UNSUSPICIOUS = 1 << 31
_MAX_LENGTH = (1 << 31) - 1
# A negative scale is none of Hive's, and C++ takes it for an enormous one.
_MAX_SCALE = 76
# How much a byte can stand for at most; Zstandard knows no bound, this is beyond any real text.
_EXPANSION = {
    Compression.NONE: 1,
    Compression.ZLIB: 1032,
    Compression.SNAPPY: 64,
    Compression.LZ4: 255,
}
_ANY_EXPANSION = 1 << 16
_TEXTS = frozenset({OrcKind.STRING, OrcKind.BINARY, OrcKind.VARCHAR, OrcKind.CHAR})
_DICTIONARY = frozenset({EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2})
_VERSION_2 = frozenset({EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2})


class Guard:
    """Checks the streams of the given columns, each stripe when its bytes are first asked for."""

    def __init__(
        self,
        file: ReadableFile,
        lock: threading.Lock,
        tail: Tail,
        footer_of: Callable[[int], StripeFooter],
        columns: Iterable[int],
    ) -> None:
        self._file = file
        self._lock = lock
        self._tail = tail
        self._footer_of = footer_of
        self._columns = frozenset(columns)
        self._starts = [stripe.offset for stripe in tail.stripes]
        self._checked: set[int] = set()

    def before_read(self, start: int, end: int) -> None:
        """Check the stripes of which bytes in this range are about to be read, each once."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        for index in range(first, bisect_left(self._starts, end)):
            if index not in self._checked:
                self.check(self._footer_of(index))
                self._checked.add(index)

    def check(self, footer: StripeFooter) -> None:
        """DamagedDataError when a stream holds numbers that no writer can have meant."""
        for stream in footer.streams:
            if stream.column not in self._columns or not stream.length:
                continue
            try:
                self._check(stream, footer)
            except (WireError, CodecError) as error:
                raise damaged(self._tail.name, f"has a damaged column {stream.column}: {error}") from error

    def _check(self, stream: Stream, footer: StripeFooter) -> None:
        kind = self._tail.types[stream.column].kind
        encoding = footer.encodings[stream.column].kind
        if stream.kind is StreamKind.LENGTH:
            room = self._room(stream.column, kind, encoding, footer)
            self._check_lengths(stream, encoding, room, _MAX_LENGTH if kind in _TEXTS else _MAX_ELEMENTS)
        elif stream.kind is StreamKind.SECONDARY and kind is OrcKind.DECIMAL:
            self._check_scales(stream, encoding)
        elif stream.kind is StreamKind.DATA and kind is OrcKind.UNION:
            tags = decode_bytes(self._read(stream))
            if any(run.max() >= len(self._tail.types[stream.column].subtypes) for run in tags if len(run)):
                raise WireError("a union has a tag that its type does not know")

    def _room(self, column: int, kind: OrcKind, encoding: EncodingKind, footer: StripeFooter) -> int:
        """What the lengths of a column can add up to at most."""
        if kind not in _TEXTS:
            return _UNSUSPICIOUS
        data = footer.stream(StreamKind.DICTIONARY_DATA if encoding in _DICTIONARY else StreamKind.DATA, column)
        return (data.length if data else 0) * _EXPANSION.get(self._tail.postscript.compression, _ANY_EXPANSION)

    def _check_lengths(self, stream: Stream, encoding: EncodingKind, room: int, most: int) -> None:
        data = self._read(stream)
        if (bound_v2(data) if encoding in _VERSION_2 else bound_v1(data)) <= min(_UNSUSPICIOUS, most):
            return
        total = 0
        for run in decode_v2(data) if encoding in _VERSION_2 else decode_v1(data):
            if int(run.max()) > most:
                raise WireError(f"a length of {int(run.max())} is impossible")
            total += int(run.sum())
        if total > room:
            raise WireError(f"lengths add up to {total}, for which there is no room")

    def _check_scales(self, stream: Stream, encoding: EncodingKind) -> None:
        data = self._read(stream)
        constants = constants_v2(data) if encoding in _VERSION_2 else None
        if constants is not None and all(0 <= scale <= _MAX_SCALE for scale in constants):
            return
        for run in decode_v2(data, signed=True) if encoding in _VERSION_2 else decode_v1(data, signed=True):
            scales = run.view(np.int64)
            if int(scales.max()) > _MAX_SCALE or int(scales.min()) < 0:
                raise WireError("a decimal has an impossible scale")

    def _read(self, stream: Stream) -> bytes:
        if stream.length > _MAX_STREAM:
            raise WireError(f"a stream of {stream.length} bytes is absurdly large")
        with self._lock:
            raw = read_range(self._file, stream.offset, stream.length, self._tail.name)
        post = self._tail.postscript
        most = min(_MAX_STREAM, _FREE_STREAM + _STREAM_OF_A_BYTE * stream.length)
        return expand(raw, post.compression, post.block_size, most)
