"""Row indexes and bloom filters of a stripe: what a writer noted about every few thousand rows of a column."""

from __future__ import annotations

from dataclasses import dataclass

from acidctl.orc.codec import CodecError, expand
from acidctl.orc.protobuf import Budget, Message, WireError
from acidctl.orc.stats import ColumnStatistics, parse_statistics
from acidctl.orc.stripe import Stream, StreamKind, StripeFooter
from acidctl.orc.tail import ReadableFile, Tail, damaged, read_range

_MAX_INDEX = 64 << 20


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One row group: its statistics, and where it begins in each stream of the column."""

    statistics: ColumnStatistics | None
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """How full a bloom filter is."""

    hash_functions: int
    bits: bytes

    @property
    def bit_count(self) -> int:
        """All bits of the filter."""
        return len(self.bits) * 8

    @property
    def set_count(self) -> int:
        """The bits that are set."""
        return int.from_bytes(self.bits, "little").bit_count()

    def merged(self, other: BloomFilter) -> BloomFilter:
        """The filter that holds what either of two filters of one size holds."""
        bits = int.from_bytes(self.bits, "little") | int.from_bytes(other.bits, "little")
        return BloomFilter(self.hash_functions, bits.to_bytes(max(len(self.bits), len(other.bits)), "little"))


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """The index of one column in one stripe; None where the writer left none."""

    entries: tuple[IndexEntry, ...] | None
    filters: tuple[BloomFilter, ...] | None


def read_column_index(file: ReadableFile, tail: Tail, footer: StripeFooter, column: int) -> ColumnIndex:
    """Read what indexes a column has; DamagedDataError when they cannot be right."""
    entries = footer.stream(StreamKind.ROW_INDEX, column)
    # A writer that leaves both forms of filter means the one in UTF-8 (ORC-101).
    filters = footer.stream(StreamKind.BLOOM_FILTER_UTF8, column) or footer.stream(StreamKind.BLOOM_FILTER, column)
    try:
        return ColumnIndex(
            None if entries is None else _entries(_section(file, tail, entries)),
            None if filters is None else _filters(_section(file, tail, filters)),
        )
    except (WireError, CodecError) as error:
        raise damaged(tail.name, f"has a row index of column {column} that cannot be right: {error}") from error


def _section(file: ReadableFile, tail: Tail, stream: Stream) -> Message:
    raw = read_range(file, stream.offset, stream.length, tail.name)
    post = tail.postscript
    return Message(expand(raw, post.compression, post.block_size, _MAX_INDEX), Budget(stream.length))


def _entries(message: Message) -> tuple[IndexEntry, ...]:
    result = []
    for item in message.messages(1):
        statistics = item.message(2)
        result.append(IndexEntry(None if statistics is None else parse_statistics(statistics), item.uints(1)))
    return tuple(result)


def _filters(message: Message) -> tuple[BloomFilter, ...]:
    # Old writers repeat 64-bit numbers, later ones leave a single run of bytes; the bits are the same.
    return tuple(
        BloomFilter(item.uint(1) or 0, item.data(3) or b"".join(item.blobs(2))) for item in message.messages(1)
    )
