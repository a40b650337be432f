"""One ORC file of the stripes of several: they are copied byte for byte, and only the tail is made anew.

A stripe knows nothing of its place or its file, so files of one schema, codec and calendar can be joined at the price
of reading and writing their bytes. A `StripeRun` may also be a part of a file: what no delete touches needs no
decoding.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

from acidctl.errors import InternalError
from acidctl.format.events import RowId, keys_of
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.acidmeta import ACID_STATS, KEY_INDEX, parse_acid_stats, parse_key_index
from acidctl.orc.protobuf import Message, block, number, rewritten
from acidctl.orc.reader import open_orc
from acidctl.orc.stats import merged_statistics
from acidctl.orc.stripe import read_stripe_metadata
from acidctl.orc.tail import MAGIC, ReadableFile, Tail, read_range, read_tail
from acidctl.orc.tail_edit import (
    CONTENT_LENGTH,
    METADATA,
    ROWS,
    STATISTICS,
    STRIPES,
    merged_metadata,
    sealed,
    write_all,
)
from acidctl.orc.writer import Backend, WrittenFile

_COPIED = 4 << 20


@dataclass(frozen=True, slots=True)
class StripeRun:
    """Stripes of an open file, in file order; `stripes` None means all.

    `keys` are the last keys of these stripes; None takes them from the file's key index, which then has to be right
    (that of a file that acidctl wrote is).
    """

    file: ReadableFile
    tail: Tail
    stripes: tuple[int, ...] | None = None
    keys: tuple[RowId, ...] | None = None

    @staticmethod
    def whole(file: ReadableFile, *, name: str) -> StripeRun:
        """All stripes of an open file; raises what `read_tail` raises."""
        return StripeRun(file, read_tail(file, name=name))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the stripes."""
        return tuple(range(len(self.tail.stripes))) if self.stripes is None else self.stripes

    @property
    def is_whole(self) -> bool:
        return len(self.numbers) == len(self.tail.stripes)

    @property
    def rows(self) -> int:
        """Rows of these stripes."""
        return sum(self.tail.stripes[i].rows for i in self.numbers)


def mismatch(one: Tail, other: Tail) -> str | None:
    """Why stripes of two files cannot stand in one, as the end of a sentence; None when they can."""
    first, second = one.postscript, other.postscript
    if one.types != other.types:
        return "have different columns"
    if first.compression is not second.compression or first.block_size != second.block_size:
        return "are compressed differently"
    if one.calendar is not other.calendar:
        return "count days by different calendars"
    writers = [(t.writer_code, t.postscript.writer_version, t.postscript.version) for t in (one, other)]
    if writers[0] != writers[1]:
        return "come from different writers"
    if one.row_index_stride != other.row_index_stride:
        return "have row indexes of different strides"
    return "are encrypted" if one.encrypted or other.encrypted else None


def stitch(sink: BinaryIO, runs: Sequence[StripeRun], *, metadata: Mapping[str, bytes] | None = None) -> WrittenFile:
    """Write one file of all stripes of `runs`, of which there is at least one; the sink stays open.

    The user metadata is that of the first file, with `metadata` set; key index and ACID statistics are joined. Rows
    have to be in order already. Raises InternalError for files that do not fit (`mismatch`), DamagedDataError for
    what cannot be read.
    """
    base = runs[0].tail
    for run in runs[1:]:
        if why := mismatch(base, run.tail):
            raise InternalError(f"{base.name} and {run.tail.name} cannot be joined: they {why}")
    stripes, content_end = _copy(sink, runs)
    per_stripe = [_stripe_statistics(run) for run in runs]
    section = b""
    # One stripe without statistics would shift those of all after it.
    if all(len(known) == len(run.numbers) for known, run in zip(per_stripe, runs, strict=True)):
        section = b"".join(block(1, message) for known in per_stripe for message in known)
    keys = _keys(runs) if base.metadata_value(KEY_INDEX) is not None else None
    values = dict(metadata or {})
    if keys is not None:
        values[KEY_INDEX] = "".join(f"{k.write_id},{k.bucket_property},{k.row_id};" for k in keys).encode()
        values[ACID_STATS] = _acid_stats(runs)
    rows = sum(run.rows for run in runs)
    footer = rewritten(
        base.footer,
        {
            CONTENT_LENGTH: number(CONTENT_LENGTH, content_end),
            STRIPES: b"".join(block(STRIPES, message) for message in stripes),
            METADATA: merged_metadata(base, values),
            ROWS: number(ROWS, rows),
            STATISTICS: _file_statistics(runs, per_stripe),
        },
    )
    post = base.postscript
    raw_post = read_range(runs[0].file, base.file_length - post.length - 1, post.length, base.name)
    end = sealed(footer, raw_post, post.compression, post.block_size, metadata=section)
    write_all(sink, end)
    return WrittenFile(
        rows=rows,
        bytes=content_end + len(end),
        stripes=len(stripes),
        first_key=_first_key(runs) if keys is not None else None,
        last_key=keys[-1] if keys else None,
        backend=Backend.COPY,
    )


def _copy(sink: BinaryIO, runs: Sequence[StripeRun]) -> tuple[list[bytes], int]:
    """Copy the stripes; their entries for the footer, and where the last one ends."""
    messages = []
    write_all(sink, MAGIC)
    at = len(MAGIC)
    for run in runs:
        entries = list(Message(run.tail.footer).blobs(STRIPES))
        for i in run.numbers:
            stripe = run.tail.stripes[i]
            for start in range(stripe.offset, stripe.end, _COPIED):
                write_all(sink, read_range(run.file, start, min(_COPIED, stripe.end - start), run.tail.name))
            messages.append(rewritten(entries[i], {1: number(1, at)}))
            at += stripe.end - stripe.offset
    return messages, at


def _stripe_statistics(run: StripeRun) -> list[bytes]:
    """The encoded statistics of each stripe of the run; empty when the writer left none."""
    messages = list(read_stripe_metadata(run.file, run.tail).blobs(1))
    return [messages[i] for i in run.numbers] if len(messages) == len(run.tail.stripes) else []


def _file_statistics(runs: Sequence[StripeRun], per_stripe: Sequence[Sequence[bytes]]) -> bytes:
    """The encoded statistics of all columns; nothing when a run does not say."""
    parts: list[list[bytes]] = []
    for run, stripes in zip(runs, per_stripe, strict=True):
        whole = list(Message(run.tail.footer).blobs(STATISTICS))
        if run.is_whole and (run.numbers or len(runs) == 1):
            parts.append(whole)
        else:
            parts += [list(Message(stripe).blobs(1)) for stripe in stripes]
            if len(stripes) < len(run.numbers):
                return b""
    columns = len(runs[0].tail.types)
    if not parts or any(len(part) != columns for part in parts):
        return b""
    return b"".join(block(STATISTICS, merged_statistics(column)) for column in zip(*parts, strict=True))


def _keys(runs: Sequence[StripeRun]) -> list[RowId]:
    """The last key of each stripe."""
    keys: list[RowId] = []
    for run in runs:
        given = run.keys
        if given is None:
            index = parse_key_index(run.tail.metadata_value(KEY_INDEX) or b"")
            if len(index) != len(run.tail.stripes):
                raise InternalError(f"the key index of {run.tail.name} is not of its stripes")
            given = tuple(key for i in run.numbers if (key := index[i]) is not None)
        if len(given) != len(run.numbers):
            raise InternalError(
                f"the keys of {len(given)} stripes of {run.tail.name} are known, {len(run.numbers)} used"
            )
        keys += given
    return keys


def _acid_stats(runs: Sequence[StripeRun]) -> bytes:
    totals = [0, 0, 0]
    for run in runs:
        value = run.tail.metadata_value(ACID_STATS)
        if value is None:
            raise InternalError(f"{run.tail.name} does not count its events")
        stats = parse_acid_stats(value)
        counts = (stats.inserts, stats.updates, stats.deletes)
        if not run.is_whole:
            # Of a part the share is known where all events are of one kind, and other parts are not cut.
            if sum(counts) not in counts:
                raise InternalError(f"{run.tail.name} mixes kinds of events and cannot be joined in part")
            counts = tuple(run.rows if count else 0 for count in counts)  # type: ignore[assignment]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
    return ",".join(map(str, totals)).encode()


def _first_key(runs: Sequence[StripeRun]) -> RowId | None:
    """The first key of the first stripe, where that begins its file; else None."""
    first = next((run for run in runs if run.numbers), None)
    if first is None or first.numbers[0]:
        return None
    orc = open_orc(first.file, name=first.tail.name, length=first.tail.file_length)
    with closing(cast(Generator[pa.RecordBatch, None, None], orc.scan(KEY_FIELDS, batch_size=1))) as batches:
        return keys_of(next(batches), name=orc.name).at(0)
