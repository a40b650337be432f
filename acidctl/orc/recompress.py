"""ZLIB files whose stripes Arrow's writer leaves plain and acidctl deflates on their way to the sink.

More than half of the time of writing goes into deflate, and the zlib in Arrow is the slowest there is.
`DeflatingBackend` has the writer make a plain file, deflates each stream with igzip as it comes, and with each stripe
makes anew what speaks of stored bytes: positions in row indexes, lengths in the stripe's footer, and in the end the
tail. Values, encodings, statistics, filters and row groups are those of the plain file, bit for bit.

Each stream and each footer begins with a write of its own, because the C++ writer has no buffer behind its streams
(`BufferedOutputStream::flush`). That is relied on and checked: a file that is put together otherwise is refused.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from acidctl.errors import InternalError
from acidctl.format.events import EventBatch
from acidctl.orc.arrow_writer import ArrowBackend, Physical
from acidctl.orc.codec import Compression, pack
from acidctl.orc.deflate import LARGEST_CHUNK, Chunks, ChunkSink, Deflate
from acidctl.orc.protobuf import Message, block, number, rewritten
from acidctl.orc.stripe import INDEX_KINDS, StreamKind, StripeFooter, found_footer, moved_positions, recorded
from acidctl.orc.tail import OrcKind
from acidctl.orc.tail_edit import MAGIC, HeldSink, Place, end_lengths, event_type, moved_stripes, orc_types, resealed
from acidctl.types.hive_types import StructType

# A footer of more chunks than these would be one of some ten thousand columns.
_FOOTER_CHUNKS = 64
# Numbers of fields: of a stripe's footer and of a stream in it.
_STREAMS, _LENGTH = 1, 3

Lengths = tuple[int, int, int]


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
        self._places: list[tuple[Place, Place]] = []
        self._plain_end = 0
        # The size of a stripe is that of its plain bytes: a larger one would cost memory, and readers gain nothing.
        # C++ takes memory for each stream by the block, and ends the process over blocks of 8 MiB.
        block_size = min(physical.block_size, LARGEST_CHUNK)
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
        self._sink.write(self._tail(metadata, footer, post))

    def abort(self) -> None:
        """Drop the writer and what it holds."""
        self._writer.abort()
        self._chunks.take()

    def _pass_on(self, chunks: Chunks, end: int) -> None:
        """Send the stripe that the chunks up to `end` (exclusive) are, the letters before the first one too."""
        first = 0
        if not self._plain_end and end:
            if chunks.inflated(0, 1) != MAGIC:
                raise InternalError("a file of Arrow's writer does not begin with the letters ORC")
            self._sink.write(MAGIC)
            first, self._plain_end = 1, len(MAGIC)
        if first == end:
            return
        stripe = _deflated(chunks, first, end, self._kinds, self._block_size)
        places = (self._plain_end, *stripe.plain), (self._sink.tell(), *stripe.stored)
        chunks.forget()
        while stripe.parts:
            # What the sink may hold is not held here as well.
            self._sink.write(stripe.parts.popleft())
        self._places.append(places)
        self._plain_end += sum(stripe.plain)

    def _tail(self, metadata: bytes, footer: bytes, post: bytes) -> bytes:
        changes = moved_stripes(footer, self._places, self._sink.tell())
        footer = rewritten(footer, changes.keys(), b"".join(changes.values()))
        return resealed(metadata, footer, post, Compression.ZLIB, self._block_size)


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
    changed = (rewritten(message, {_LENGTH}, number(_LENGTH, length)) for message, length in streams)
    return rewritten(footer, {_STREAMS}, b"".join(block(_STREAMS, message) for message in changed))
