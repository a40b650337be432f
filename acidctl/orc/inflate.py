"""ZLIB stripes that Arrow's reader is given plain: igzip inflates in half the time that the zlib in Arrow takes.

`PlainStripes` is a file in an address space of its own. Each stripe in it has the streams that a scan decodes, plain,
and a footer that says so. Chunks are inflated when they are asked for, so that the memory holds a chunk or two of each
stream, and of distant files the stored bytes of one stripe. Row indexes are left out: their positions are those of
stored streams, and a scan of whole stripes needs none.

A chunk carries no checksum. So every length must fit, of each stripe one chunk is compared with what zlib says, and
whatever is not as expected is a DamagedDataError, after which the caller reads the stripe as it is stored: what counts
as damage, and the words for it, stay those of Arrow's own way.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from acidctl.orc.codec import CodecError, Compression, expand_chunk
from acidctl.orc.deflate import Inflate, igzip_inflate
from acidctl.orc.sidefile import is_near
from acidctl.orc.stripe import INDEX_KINDS, Stream, StripeFooter
from acidctl.orc.tail import ReadableFile, Stripe, Tail, damaged, read_range
from acidctl.orc.wirewrite import block, encode_varint, number

_MAGIC = b"ORC"
# Deflate never makes more of a byte than 1032; a header of three bytes makes up for the beginnings of small chunks.
_MOST_OF_A_BYTE = 1032
# Where a stripe's footer lies, and how long it is, must be known before its lengths are: these take as many bytes.
_LENGTH_BYTES = 7
_MAX_LENGTH = (1 << 7 * _LENGTH_BYTES) - 1
# Stored bytes of distant files that all scans of a process may hold at a time.
_HELD_BYTES = 128 << 20
_STREAMS, _ENCODINGS, _TIME_ZONE = 1, 2, 3
_KIND, _COLUMN, _LENGTH, _DICTIONARY_SIZE = 1, 2, 3, 2


class _Budget:
    """Bytes that may be held by all together."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


_BUDGET = _Budget(_HELD_BYTES)

#: The stored bytes from an offset in the file to another.
Fetch = Callable[[int, int], bytes | memoryview]


def plain_stripes(
    file: ReadableFile, lock: threading.Lock, tail: Tail, footers: Sequence[StripeFooter], columns: Collection[int]
) -> PlainStripes | None:
    """The stripes of `tail` with the streams of these columns; None for files that are not ZLIB, or without isal."""
    if tail.postscript.compression is not Compression.ZLIB:
        return None
    inflate = igzip_inflate()
    return None if inflate is None else PlainStripes(file, lock, tail, footers, columns, inflate)


class PlainStripes:
    """A file of plain stripes, of which `tail` says where they lie. One at a time is held, the last one read.

    `lock` is for whoever seeks and reads; that of the file below is taken here. Reading raises DamagedDataError for
    what is not as expected (see the module), and StorageError.
    """

    def __init__(
        self,
        file: ReadableFile,
        file_lock: threading.Lock,
        tail: Tail,
        footers: Sequence[StripeFooter],
        columns: Collection[int],
        inflate: Inflate,
    ) -> None:
        self.lock = threading.Lock()
        self._file = file
        self._file_lock = file_lock
        self._stored = tail
        self._footers = footers
        # The root may have NULLs too, and is a part of every column's path.
        self._columns = frozenset(columns) | {0}
        self._inflate = inflate
        self._at = 0
        self._loading = threading.Lock()
        self._index = -1
        self._stripe: _PlainStripe | None = None
        stripes = []
        at = len(_MAGIC)
        for stripe, footer in zip(tail.stripes, footers, strict=True):
            room = sum(self._room(stream) for stream in footer.streams)
            stripes.append(Stripe(at, 0, room, _footer_length(footer), stripe.rows))
            at = stripes[-1].end
        self.tail = replace(
            tail, stripes=tuple(stripes), postscript=replace(tail.postscript, compression=Compression.NONE)
        )

    def footer(self, index: int) -> StripeFooter:
        """The footer of a stripe, with the lengths of its plain streams; of others those of the stored ones."""
        return self._load(index).footer

    def seek(self, offset: int, whence: int = 0) -> int:
        end = self.tail.stripes[-1].end if self.tail.stripes else len(_MAGIC)
        self._at = max(0, (0, self._at, end)[whence] + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Bytes of the letters at the beginning, or of one stripe: at most `size`, and no more than one part holds."""
        start = self._at
        if start < len(_MAGIC):
            part = _MAGIC[start:] if size < 0 else _MAGIC[start : start + size]
        else:
            part = self._read_stripe(start, size)
        self._at += len(part)
        return part

    def close(self) -> None:
        """Let go of what is held."""
        with self._loading:
            self._drop()

    def _read_stripe(self, start: int, size: int) -> bytes:
        for index, stripe in enumerate(self.tail.stripes):
            if stripe.offset <= start < stripe.end:
                try:
                    return self._load(index).read(start, size)
                except CodecError as error:
                    raise damaged(self._stored.name, f"has a damaged stripe {index}: {error}") from error
        return b""

    def _load(self, index: int) -> _PlainStripe:
        with self._loading:
            if self._stripe is None or self._index != index:
                self._drop()
                self._stripe = self._opened(index)
                self._index = index
            return self._stripe

    def _drop(self) -> None:
        if self._stripe is not None:
            _BUDGET.give_back(self._stripe.held)
            self._stripe = None

    def _opened(self, index: int) -> _PlainStripe:
        footer = self._footers[index]
        chosen = [stream for stream in footer.streams if self._chosen(stream)]
        # What is read from a distance is read once; the system keeps what is near.
        held = 0 if is_near(self._file) else sum(stream.length for stream in chosen)
        if not _BUDGET.take(held):
            raise damaged(self._stored.name, f"has a stripe {index} that is too large to be held")
        try:
            fetch = _slices(self._runs(chosen)) if held else self._fetch
            block_size = self._stored.postscript.block_size
            streams = {stream: _PlainStream(stream, fetch, self._inflate, block_size) for stream in chosen}
            _compare_one(streams)
            return _PlainStripe(self.tail.stripes[index], footer, streams, held)
        except CodecError as error:
            _BUDGET.give_back(held)
            raise damaged(self._stored.name, f"has a damaged stripe {index}: {error}") from error
        except BaseException:
            _BUDGET.give_back(held)
            raise

    def _fetch(self, start: int, end: int) -> bytes:
        with self._file_lock:
            return read_range(self._file, start, end - start, self._stored.name)

    def _runs(self, streams: Sequence[Stream]) -> dict[int, memoryview]:
        """The stored bytes of streams by where they begin, those that lie side by side in one piece."""
        spans: list[tuple[int, int]] = []
        for stream in streams:
            start = stream.offset
            if spans and spans[-1][1] == start:
                start = spans.pop()[0]
            spans.append((start, stream.offset + stream.length))
        return {start: memoryview(self._fetch(start, end)) for start, end in spans}

    def _chosen(self, stream: Stream) -> bool:
        return stream.column in self._columns and stream.kind not in INDEX_KINDS

    def _room(self, stream: Stream) -> int:
        """The bytes that a stream can have, at most, in the address space."""
        return stream.length * _MOST_OF_A_BYTE if self._chosen(stream) else stream.length


class _PlainStripe:
    """One stripe: streams that are inflated as they are read, and the footer."""

    def __init__(self, place: Stripe, footer: StripeFooter, streams: dict[Stream, _PlainStream], held: int) -> None:
        self.held = held
        self._footer_place = place.offset + place.data_length
        self._parts: list[tuple[int, int, _PlainStream]] = []
        listed = []
        at = place.offset
        for stream in footer.streams:
            if stream.kind in INDEX_KINDS:
                continue
            plain = streams.get(stream)
            length = stream.length if plain is None else plain.length
            if plain is not None:
                self._parts.append((at, at + length, plain))
            listed.append(replace(stream, offset=at, length=length))
            at += length
        if at > self._footer_place:
            raise CodecError("its streams are larger than deflate could have made them")
        self.footer = replace(footer, streams=tuple(listed))
        self._raw = _encoded(self.footer)

    def read(self, start: int, size: int) -> bytes:
        """Bytes of one stream or of the footer; CodecError for those of a stream that was not chosen."""
        if start >= self._footer_place:
            at = start - self._footer_place
            return self._raw[at:] if size < 0 else self._raw[at : at + size]
        for low, high, stream in self._parts:
            if low <= start < high:
                return stream.read(start - low, high - start if size < 0 else min(size, high - start))
        raise CodecError("a column is read that was not asked for")


class _PlainStream:
    """The plain bytes of a stream, read from its beginning to its end; chunks but the last are of one plain size."""

    def __init__(self, stream: Stream, fetch: Fetch, inflate: Inflate, block_size: int) -> None:
        self._fetch = fetch
        self._inflate = inflate
        self._block_size = block_size
        # For each chunk where it is stored, and whether it is as it was.
        self._chunks: list[tuple[int, int, bool]] = []
        at, end = stream.offset, stream.offset + stream.length
        while at < end:
            start = min(at + 3, end)
            header = int.from_bytes(fetch(at, start), "little")
            at = start + (header >> 1)
            self._chunks.append((start, at, bool(header & 1)))
        if at != end:
            raise CodecError("a compressed chunk runs past its section")
        self._current = 0, self._inflated(0) if self._chunks else b""
        self._step = len(self._current[1])
        self._last = self._current[1] if len(self._chunks) < 2 else self._inflated(len(self._chunks) - 1)
        if self._chunks and not (self._step and self._last):
            raise CodecError("a compressed chunk is empty")
        #: Plain bytes, if all chunks are of the size of the first.
        self.length = max(len(self._chunks) - 1, 0) * self._step + len(self._last)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes from an offset on: some, at most `size`."""
        index, inside = divmod(offset, self._step)
        if index >= len(self._chunks) - 1:
            # The last one may be longer than the others.
            inside = offset - (len(self._chunks) - 1) * self._step
            return self._last[inside : inside + size]
        if self._current[0] != index:
            self._current = index, self._inflated(index)
            if len(self._current[1]) != self._step:
                raise CodecError("its compressed chunks are of different sizes")
        return self._current[1][inside : inside + size]

    def sample(self) -> tuple[bytes, bytes] | None:
        """A chunk as it is stored and inflated, None when all are stored as they were."""
        for index, (start, end, original) in enumerate(self._chunks):
            if not original:
                return bytes(self._fetch(start, end)), self._current[1] if not index else self._inflated(index)
        return None

    def _inflated(self, index: int) -> bytes:
        start, end, original = self._chunks[index]
        stored = self._fetch(start, end)
        return bytes(stored) if original else self._inflate(stored, self._block_size)


def _slices(runs: Mapping[int, memoryview]) -> Fetch:
    """Bytes out of pieces that are held, by the offsets at which they begin."""
    starts = sorted(runs)

    def fetch(start: int, end: int) -> memoryview:
        first = starts[bisect_right(starts, start) - 1]
        return runs[first][start - first : end - first]

    return fetch


def _compare_one(streams: dict[Stream, _PlainStream]) -> None:
    """Hold a chunk of the largest stream against zlib; CodecError when they differ."""
    for stream in sorted(streams, key=lambda one: -one.length):
        sample = streams[stream].sample()
        if sample is not None:
            stored, plain = sample
            if expand_chunk(stored, Compression.ZLIB, len(plain)) != plain:
                raise CodecError("igzip and zlib do not agree about a chunk")
            return


def _footer_length(footer: StripeFooter) -> int:
    return len(_encoded(footer))


def _encoded(footer: StripeFooter) -> bytes:
    """A footer of the streams that are no indexes, as long whatever their lengths are."""
    parts = [
        block(_STREAMS, number(_KIND, stream.kind) + number(_COLUMN, stream.column) + _length_field(stream.length))
        for stream in footer.streams
        if stream.kind not in INDEX_KINDS
    ]
    parts += [
        block(_ENCODINGS, number(_KIND, encoding.kind) + number(_DICTIONARY_SIZE, encoding.dictionary_size))
        for encoding in footer.encodings
    ]
    if footer.time_zone is not None:
        parts.append(block(_TIME_ZONE, footer.time_zone.encode()))
    return b"".join(parts)


def _length_field(length: int) -> bytes:
    if length > _MAX_LENGTH:
        raise CodecError("a stream is absurdly large")
    groups = [length >> 7 * place & 0x7F for place in range(_LENGTH_BYTES)]
    return encode_varint(_LENGTH << 3) + bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])
