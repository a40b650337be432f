"""ZLIB files whose stripes Arrow's writer leaves plain and acidctl deflates by igzip on their way to the sink.

More than half of the time of writing goes into deflate, and the zlib in Arrow is the slowest there is; igzip takes a
tenth of the time at the levels that ORC writers use. `DeflatingBackend` has the writer make a plain file, deflates each
stream as it comes, and with each stripe makes anew what speaks of stored bytes: positions in row indexes, lengths in
the stripe's footer, and in the end the tail. Values, encodings, statistics, filters and row groups are those of the
plain file, bit for bit. The plain bytes are never held.

Each stream and each footer begins with a write of its own, because the C++ writer has no buffer behind its streams
(`BufferedOutputStream::flush`). That is relied on and checked: a file that is put together otherwise is refused.
"""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from acidctl.errors import InternalError
from acidctl.format.events import EventBatch
from acidctl.orc.arrow_writer import ArrowBackend, Physical
from acidctl.orc.codec import Compression, chunk_of, expand, pack
from acidctl.orc.protobuf import Message, block, number, rewritten
from acidctl.orc.stripe import INDEX_KINDS, StreamKind, StripeFooter, found_footer, moved_positions, recorded
from acidctl.orc.tail import OrcKind
from acidctl.orc.tail_edit import HeldSink, Lengths, MovedStripes, end_lengths, event_type, orc_types
from acidctl.types.hive_types import StructType

# A footer of more chunks than these would be one of some ten thousand columns.
_FOOTER_CHUNKS = 64
# Numbers of fields: of a stripe's footer and of a stream in it.
_STREAMS, _LENGTH = 1, 3


class DeflatingBackend:
    """Writes as ArrowBackend does, to the same end in less time; see there for the methods.

    At any time the memory holds the plain stripe in the C++ writer and the deflated one.
    """

    def __init__(
        self, sink: HeldSink, columns: StructType, physical: Physical, *, acid: bool, deflate: Deflate
    ) -> None:
        self._sink = sink
        self._block_size = physical.block_size
        self._kinds = [entry.kind for entry in orc_types(event_type(columns) if acid else columns)]
        self._chunks = ChunkSink(deflate, physical.block_size)
        self._stripes = MovedStripes(sink, Compression.ZLIB, physical.block_size)
        # The size of a stripe is that of its plain bytes: a larger one would cost memory, and readers gain nothing.
        block_size = min(physical.block_size, _PLAIN_BLOCK)
        plain = replace(physical, compression=Compression.NONE, block_size=block_size)
        self._writer = ArrowBackend(self._chunks, columns, plain, acid=acid)

    def write(self, piece: EventBatch) -> tuple[int, ...]:
        """Append; gives the numbers of rows of the piece after which a stripe may have ended."""
        ends = self._writer.write(piece)
        if ends:
            chunks = self._chunks.take()
            self._pass_on(chunks, len(chunks.stored))
        return ends

    def close(self) -> None:
        """Write what is left and the tail."""
        self._writer.close()
        chunks = self._chunks.take()
        post_length = chunks.last(1)[0]
        post = chunks.last(post_length + 1)[:-1]
        footer_length, metadata_length = end_lengths(post)
        tail = chunks.last(metadata_length + footer_length + post_length + 1)
        self._pass_on(chunks, chunks.at(chunks.plain[-1] - len(tail)))
        metadata, footer = tail[:metadata_length], tail[metadata_length:][:footer_length]
        self._stripes.finish(metadata, footer, post)

    def abort(self) -> None:
        """Drop the writer and what it holds."""
        self._writer.abort()
        self._chunks.take()

    def _pass_on(self, chunks: Chunks, end: int) -> None:
        """Send the stripe that the chunks up to `end` (exclusive) are, the letters before the first one too."""
        first = 0
        if not self._stripes.has_begun and end:
            self._stripes.begin(chunks.inflated(0, 1))
            first = 1
        if first == end:
            return
        stripe = _deflated(chunks, first, end, self._kinds, self._block_size)
        chunks.forget()
        while stripe.parts:
            # What the sink may hold is not held here as well.
            self._sink.write(stripe.parts.popleft())
        self._stripes.add(stripe.plain, stripe.stored)


@dataclass(frozen=True, slots=True)
class _Stripe:
    """A stripe as it is to be stored, and the lengths of its index, data and footer: plain ones, stored ones."""

    parts: deque[bytes]
    plain: Lengths
    stored: Lengths


def _deflated(chunks: Chunks, first: int, end: int, kinds: Sequence[OrcKind], block_size: int) -> _Stripe:
    """The stripe that the chunks `first` to `end` (exclusive) are."""
    footer, raw = _footer(chunks, first, end, len(kinds))
    base = chunks.plain[first]
    runs = {
        (stream.column, stream.kind): (chunks.at(base + stream.offset), chunks.at(base + stream.offset + stream.length))
        for stream in footer.streams
    }
    parts: deque[bytes] = deque()
    lengths = []
    for stream in footer.streams:
        run = runs[stream.column, stream.kind]
        new = chunks.stored[slice(*run)]
        if stream.kind is StreamKind.ROW_INDEX:
            places = {
                kind: partial(chunks.place, *run) for (column, kind), run in runs.items() if column == stream.column
            }
            streams = recorded(
                kinds[stream.column], footer.encodings[stream.column].kind, nulls=StreamKind.PRESENT in places
            )
            index = moved_positions(chunks.inflated(*run), streams, places)
            new = [pack(index, Compression.ZLIB, block_size)]
        parts += new
        lengths.append(sum(map(len, new)))
    parts.append(pack(_with_lengths(raw, lengths), Compression.ZLIB, block_size))
    plain = [stream.length for stream in footer.streams]
    # The indexes are the first streams.
    indexes = sum(stream.kind in INDEX_KINDS for stream in footer.streams)
    return _Stripe(
        parts,
        (sum(plain[:indexes]), sum(plain[indexes:]), len(raw)),
        (sum(lengths[:indexes]), sum(lengths[indexes:]), len(parts[-1])),
    )


def _footer(chunks: Chunks, first: int, end: int, columns: int) -> tuple[StripeFooter, bytes]:
    """The footer with which a stripe ends, parsed and plain."""
    starts = range(end - 1, max(first, end - _FOOTER_CHUNKS) - 1, -1)
    ends = ((chunks.plain[start] - chunks.plain[first], chunks.inflated(start, end)) for start in starts)
    return found_footer(ends, columns)


def _with_lengths(footer: bytes, lengths: Sequence[int]) -> bytes:
    streams = zip(Message(footer).blobs(_STREAMS), lengths, strict=True)
    changed = (rewritten(message, {_LENGTH: number(_LENGTH, length)}) for message, length in streams)
    return rewritten(footer, {_STREAMS: b"".join(block(_STREAMS, message) for message in changed)})


# --- Bytes deflated as they are written.


# Of igzip's levels 0 to 3 the fastest whose result is no larger than zlib's.
_LEVEL = 1
_RAW = -15
# Larger chunks gain nothing, and a chunk's length has 23 bits. The block size of a file only says what none exceeds.
LARGEST_CHUNK = 256 << 10
# C++ takes memory for each stream by the block, and ends the process over blocks of 8 MiB.
_PLAIN_BLOCK = LARGEST_CHUNK

Deflate = Callable[[bytes | memoryview], bytes]


def igzip() -> Deflate | None:
    """The compressor, or None where isal is not installed: Arrow's own zlib then has to do."""
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    return partial(isal_zlib.compress, level=_LEVEL, wbits=_RAW)


class Chunks:
    """Chunks in order, as they are stored; offsets count from the first.

    `plain` and `places` give for each chunk where it begins, in plain and in stored bytes, and at last where all end.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self.stored: list[bytes] = []
        self.plain = [0]
        self.places = [0]

    def add(self, chunk: bytes, length: int) -> None:
        """Append a stored chunk of `length` plain bytes."""
        self.stored.append(chunk)
        self.plain.append(self.plain[-1] + length)
        self.places.append(self.places[-1] + len(chunk))

    def at(self, offset: int) -> int:
        """The chunk that begins at a plain offset; InternalError when none does."""
        i = bisect_left(self.plain, offset)
        if i == len(self.plain) or self.plain[i] != offset:
            raise InternalError(f"no chunk begins at byte {offset} of a stripe")
        return i

    def place(self, first: int, end: int, offset: int) -> tuple[int, int]:
        """Where a reader finds the byte at a plain offset of the chunks `first` to `end` (exclusive).

        Gives the stored offset of a chunk and the plain offset in it, both counted from `first`. The border of two
        chunks is the end of the former, as ORC's writers have it.
        """
        target = self.plain[first] + offset
        if target > self.plain[end]:
            raise InternalError(f"a position of {offset} lies outside its stream")
        i = max(bisect_left(self.plain, target, first, end + 1) - 1, first)
        return self.places[i] - self.places[first], target - self.plain[i]

    def inflated(self, first: int, end: int) -> bytes:
        """The plain bytes of the chunks `first` to `end` (exclusive)."""
        length = self.plain[end] - self.plain[first]
        return expand(b"".join(self.stored[first:end]), Compression.ZLIB, self._block_size, length)

    def forget(self) -> None:
        """Let go of the stored bytes; what was asked for is with who asked."""
        self.stored.clear()

    def last(self, size: int) -> bytes:
        """The last `size` plain bytes."""
        start = self.plain[-1] - size
        i = bisect_right(self.plain, start) - 1
        return self.inflated(i, len(self.stored))[start - self.plain[i] :]


class ChunkSink(io.RawIOBase):
    """A file that deflates what is written to it, and keeps it in memory until `take`."""

    def __init__(self, deflate: Deflate, block_size: int) -> None:
        super().__init__()
        self._deflate = deflate
        self._block_size = block_size
        self._largest = min(block_size, LARGEST_CHUNK)
        self._taken = 0
        self._chunks = Chunks(block_size)

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Take bytes. Each call begins a new chunk."""
        view = memoryview(data)
        for start in range(0, len(view), self._largest):
            plain = view[start : start + self._largest]
            self._chunks.add(chunk_of(plain, self._deflate(plain)), len(plain))
        return len(view)

    def take(self) -> Chunks:
        """All chunks since the last call, which are forgotten here."""
        chunks, self._chunks = self._chunks, Chunks(self._block_size)
        self._taken += chunks.plain[-1]
        return chunks

    def tell(self) -> int:
        """All plain bytes so far."""
        return self._taken + self._chunks.plain[-1]

    def writable(self) -> bool:
        return True
