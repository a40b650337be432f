"""Statistics of each stripe, which stand in a section of their own before the footer."""

from __future__ import annotations

from collections.abc import Iterator

from acidctl.orc.codec import CodecError, expand
from acidctl.orc.protobuf import Budget, Message, WireError
from acidctl.orc.stats import ColumnStatistics, parse_statistics
from acidctl.orc.tail import ReadableFile, Tail, damaged, read_range

MAX_METADATA = 128 << 20


def read_stripe_statistics(file: ReadableFile, tail: Tail) -> tuple[tuple[ColumnStatistics, ...], ...]:
    """Per stripe the statistics of each column; empty when the writer left none. Raises as `each_stripe`."""
    return tuple(each_stripe(file, tail))


def each_stripe(file: ReadableFile, tail: Tail) -> Iterator[tuple[ColumnStatistics, ...]]:
    """The statistics of each column, stripe by stripe: taken apart, those of a large file take gigabytes.

    Raises DamagedDataError when the section is damaged or its counts contradict the footer.
    """
    post = tail.postscript
    if not post.metadata_length:
        return
    offset = tail.file_length - post.length - 1 - post.footer_length - post.metadata_length
    raw = read_range(file, offset, post.metadata_length, tail.name)
    try:
        message = Message(expand(raw, post.compression, post.block_size, MAX_METADATA), Budget(len(raw)))
        if message.count(1) not in (0, len(tail.stripes)):
            raise WireError(f"they are of {message.count(1)} stripes, there are {len(tail.stripes)}")
        for stripe in message.messages(1):
            yield _of_stripe(stripe, len(tail.types))
    except (WireError, CodecError) as error:
        raise damaged(tail.name, f"has damaged stripe statistics ({error})") from error


def _of_stripe(message: Message, columns: int) -> tuple[ColumnStatistics, ...]:
    if message.count(1) not in (0, columns):
        raise WireError(f"they are of {message.count(1)} columns, there are {columns}")
    return tuple(parse_statistics(column) for column in message.messages(1))
