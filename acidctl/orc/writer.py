"""Events and rows as ORC files that Hive reads as its own: one pass over batches, an append-only sink.

`write_orc` cuts batches into pieces, gives them to a backend, notes the last key of each stripe as it is written, and
at the end edits the tail: real names and types, ACID metadata, calendar. Values are wall clock labels as Hive shows
them, so the calendar is proleptic and the writer's zone UTC. The Arrow backend is fast and cannot write everything; it
raises NeedsExactWriter where it could not keep every bit, and the file has to be begun anew with Backend.EXACT.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

import numpy as np
import pyarrow as pa

from acidctl.errors import InternalError, MissingDependencyError, UsageError
from acidctl.format.events import EventBatch, EventKeys, Operation, RowId, keys_of
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.acidmeta import ACID_STATS, ACID_VERSION, KEY_INDEX, parse_acid_stats, parse_key_index
from acidctl.orc.arrow_writer import (
    LARGEST_CHUNK,
    ArrowBackend,
    NeedsExactWriter,
    Physical,
    StripeSink,
    has_union,
    igzip,
)
from acidctl.orc.codec import Compression, shrunk
from acidctl.orc.protobuf import Message, Value, encoded, rewritten
from acidctl.orc.reader import open_orc
from acidctl.orc.stats import merged_statistics
from acidctl.orc.stripe import read_stripe_metadata
from acidctl.orc.tail import MAGIC, Calendar, OrcKind, OrcType, ReadableFile, Tail, read_range, read_tail
from acidctl.orc.tail_edit import (
    CALENDAR,
    CONTENT_LENGTH,
    METADATA,
    ROWS,
    STATISTICS,
    STRIDE,
    STRIPES,
    TYPES,
    event_type,
    merged_metadata,
    orc_types,
    renamed_types,
    sealed,
    write_all,
)
from acidctl.types.hive_types import StructType

if TYPE_CHECKING:
    from acidctl.orc.pyorc_files import ExactBackend

__all__ = ["Backend", "NeedsExactWriter", "Settings", "WrittenFile", "write_orc"]

# Pieces of this size keep a backend's copies small; stripes end between pieces only.
_PIECE_BYTES = 4 << 20
_PIECE_ROWS = 1 << 16
# Fewer rows than these wait for more: each piece costs some tenths of a millisecond.
FEW_ROWS = 1 << 13
_NO_FILTER = frozenset({OrcKind.BOOLEAN, OrcKind.LIST, OrcKind.MAP, OrcKind.STRUCT, OrcKind.UNION})
# ORC's C++ writer takes multiples of this as the size of a compressed block, and ends the process at 8 MiB.
_BLOCK_UNIT = 64 << 10
_LARGEST_BLOCK = (8 << 20) - _BLOCK_UNIT
_COMPRESSIONS = {
    kind.name.lower(): kind
    for kind in (Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
}


class Backend(Enum):
    """Which ORC library writes: Arrow's by columns, or pyorc value by value; COPY says that stripes were copied."""

    ARROW = "arrow"
    EXACT = "exact"
    COPY = "copy"


class Settings(Protocol):
    """The physical form of a file, as `plan.WriterSettings`; sizes in bytes.

    A stride of 0 leaves no row index; block sizes are rounded up to multiples of 64 KiB, in which C++ counts.
    """

    @property
    def compression(self) -> str: ...
    @property
    def stripe_size(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def row_index_stride(self) -> int: ...
    @property
    def bloom_columns(self) -> tuple[str, ...]: ...
    @property
    def bloom_fpp(self) -> float: ...


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished file; the keys are those of its first and last event, None without events or row ids."""

    rows: int
    bytes: int
    stripes: int
    first_key: RowId | None
    last_key: RowId | None
    backend: Backend


def write_orc(
    sink: BinaryIO,
    batches: Iterable[EventBatch],
    columns: StructType,
    settings: Settings,
    *,
    acid: bool,
    metadata: Mapping[str, bytes],
    backend: Backend = Backend.ARROW,
) -> WrittenFile:
    """Write all batches as one file; the sink stays open, and holds no ORC file when this fails.

    With `acid` the file has the event schema, the key index, the ACID statistics and version; the `row` of a DELETE is
    NULL, and the batches of a file of deletes may come without columns. Without, the keys of batches are not looked at.
    Events must come in the order in which they are to be read; that is not checked here. `metadata` goes into the
    file as it is.

    Raises NeedsExactWriter (Backend.ARROW only), UsageError for an unknown codec, and what batches and sink raise.
    """
    types = orc_types(event_type(columns) if acid else columns)
    physical = _physical(settings, types, acid=acid)
    held = _HeldSink(sink)
    stripes, plain = _stripe_sink(held, columns, types, physical, backend)
    writer = _backend(backend)(stripes or held, columns, plain, acid=acid)
    keys = _KeyLog()
    try:
        for piece in _pieces(batches):
            ends = []
            for end in writer.write(piece):
                ends.append(end)
                if stripes is not None:
                    stripes.pass_on()
            if acid:
                keys.add(piece.keys, ends)
        held.hold()
        writer.close()
        if stripes is not None:
            stripes.finish()
    except BaseException as error:
        held.hold()
        writer.abort()
        if isinstance(error, (pa.ArrowException, RuntimeError, OSError)) and held.failure not in (None, error):
            # The C++ writers turn what the sink raised into a text.
            raise held.failure from error
        raise
    tail = read_tail(held, name="the file being written")
    values = dict(metadata)
    if acid:
        values |= {ACID_VERSION: b"2", ACID_STATS: keys.stats(), KEY_INDEX: keys.index(tail)}
    changes: dict[int, Value] = {
        TYPES: renamed_types(tail, types),
        METADATA: merged_metadata(tail, values),
        STRIDE: settings.row_index_stride,
        CALENDAR: Calendar.PROLEPTIC_GREGORIAN,
    }
    post = tail.postscript
    old = read_range(held, tail.file_length - post.length - 1, post.length, tail.name)
    new = sealed(rewritten(tail.footer, changes), old, post.compression, post.block_size)
    size = held.release(post.footer_length + post.length + 1, new)
    return WrittenFile(tail.rows, size, len(tail.stripes), keys.first, keys.last, backend)


def _physical(settings: Settings, types: Sequence[OrcType], *, acid: bool) -> Physical:
    """The physical form; filters for the columns of the settings, without regard to case, of kinds that readers use."""
    if settings.compression not in _COMPRESSIONS:
        raise UsageError(
            f"the compression '{settings.compression}' is unknown", hint=f"Use one of {', '.join(_COMPRESSIONS)}."
        )
    row = types[types[0].subtypes[-1]] if acid else types[0]
    # Filters are of row groups; one for a stride without end would not fit in memory.
    wanted = {name.lower() for name in settings.bloom_columns} if settings.row_index_stride else set()
    places = zip(row.names, row.subtypes, strict=True)
    return Physical(
        compression=_COMPRESSIONS[settings.compression],
        stripe_size=settings.stripe_size,
        block_size=min(-(-settings.block_size // _BLOCK_UNIT) * _BLOCK_UNIT, _LARGEST_BLOCK),
        row_index_stride=settings.row_index_stride,
        bloom=frozenset(i for name, i in places if name.lower() in wanted and types[i].kind not in _NO_FILTER),
        bloom_fpp=settings.bloom_fpp,
    )


def _stripe_sink(
    target: _HeldSink, columns: StructType, types: Sequence[OrcType], physical: Physical, backend: Backend
) -> tuple[StripeSink | None, Physical]:
    """What makes the stripes of the C++ writer anew, None where they will do; the form in which that has to write."""
    shrink = igzip() if backend is Backend.ARROW and physical.compression is Compression.ZLIB else None
    if backend is Backend.EXACT and has_union(columns):
        shrink = partial(shrunk, compression=physical.compression)
    if shrink is None:
        return None, physical
    sink = StripeSink(target, types, physical, shrink, unions=backend is Backend.EXACT)
    # The size of a stripe is that of its plain bytes: a larger one would cost memory, and readers gain nothing.
    # C++ takes memory for each stream by the block.
    block_size = min(physical.block_size, LARGEST_CHUNK)
    bloom = frozenset(map(sink.written_id, physical.bloom))
    return sink, replace(physical, compression=Compression.NONE, block_size=block_size, bloom=bloom)


def _backend(kind: Backend) -> type[ArrowBackend] | type[ExactBackend]:
    if kind is Backend.ARROW:
        return ArrowBackend
    assert kind is Backend.EXACT
    try:
        # A machine without pyorc writes nearly every table.
        from acidctl.orc.pyorc_files import ExactBackend
    except ImportError as error:
        raise MissingDependencyError(
            "pyorc is not installed, and this table holds values that only it can write exactly",
            hint="Install the Python package pyorc where the tasks run.",
        ) from error
    return ExactBackend


# --- The end of a file, held back until it is right.
#
# Storages append and nothing else, and the C++ writers put the tail where it will not be right yet. So what is written
# while a writer closes is held back in memory, and goes on only when the tail has been edited.


class _HeldSink(io.RawIOBase):
    """The file that a C++ writer is given: passes bytes on to `target` until `hold`, and keeps them from there on.

    Closing it does not close the target. The first failure of the target is kept in `failure`: C++ writers turn
    exceptions into texts. What is held can be read; what was passed on reads as zeros, which nobody but a read-ahead
    asks for.
    """

    def __init__(self, target: BinaryIO) -> None:
        super().__init__()
        self._target = target
        self._holding = False
        self._passed = 0
        self._held = bytearray()
        self._at: int | None = None
        self.failure: BaseException | None = None

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Take bytes; all of them, as files of the standard library do."""
        if self._holding:
            self._held += data
            return len(data)
        if self.failure is not None:
            raise OSError("an earlier write failed")
        try:
            write_all(self._target, data)
        except BaseException as error:
            self.failure = error
            raise
        self._passed += len(data)
        return len(data)

    def hold(self) -> None:
        """From here on nothing reaches the target."""
        self._holding = True

    def release(self, tail_length: int, tail: bytes) -> int:
        """Pass on what is held but its last `tail_length` bytes, then `tail`; the length of the file."""
        with memoryview(self._held) as view:
            content = len(view) - tail_length
            write_all(self._target, view[:content])
        write_all(self._target, tail)
        return self._passed + content + len(tail)

    def tell(self) -> int:
        return self._passed + len(self._held) if self._at is None else self._at

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self._at = offset + (self._passed + len(self._held) if whence == 2 else 0)
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        start = self.tell() - self._passed
        end = len(self._held) if size < 0 else min(len(self._held), start + size)
        self._at = self._passed + end
        return bytes(max(0, min(end, 0) - start)) + self._held[max(0, start) : max(0, end)]

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """The target stays open: the writer closes before the file is complete."""


def _pieces(batches: Iterable[EventBatch]) -> Iterator[EventBatch]:
    """Batches cut and joined to the size that backends like; all rows, in order."""
    waiting: list[EventBatch] = []
    for batch in batches:
        if not len(batch):
            continue
        kinds = [[column.type for column in one.columns] for one in (*waiting[:1], batch)]
        if kinds[0] != kinds[-1]:
            yield EventBatch.concat(waiting)
            waiting = []
        width: int = sum(column.nbytes for column in batch.columns) // len(batch)
        size = max(1, min(_PIECE_ROWS, _PIECE_BYTES // (width + 1)))
        waiting.append(batch)
        if sum(map(len, waiting)) < min(FEW_ROWS, size):
            continue
        joined = EventBatch.concat(waiting) if len(waiting) > 1 else batch
        waiting = []
        for start in range(0, len(joined), size):
            yield joined.slice(start, min(start + size, len(joined))) if len(joined) > size else joined
    if waiting:
        yield EventBatch.concat(waiting)


class _KeyLog:
    """First and last key, counts by operation, and the keys at which stripes may have ended, by rows so far."""

    def __init__(self) -> None:
        self.first: RowId | None = None
        self.last: RowId | None = None
        self._rows = 0
        self._at: dict[int, RowId] = {}
        self._operations = [0, 0, 0]

    def add(self, keys: EventKeys, ends: Sequence[int]) -> None:
        """Note the keys of a piece, of which the rows before each of `ends` may be the last of a stripe."""
        if self.first is None:
            self.first = keys.at(0)
        self.last = keys.at(-1)
        for end in ends:
            self._at[self._rows + end] = keys.at(end - 1)
        self._rows += len(keys)
        if keys.operation is None:
            self._operations[Operation.INSERT] += len(keys)
            return
        counts = np.bincount(keys.operation, minlength=3)
        for code in Operation:
            self._operations[code] += int(counts[code])

    def stats(self) -> bytes:
        """`hive.acid.stats`: inserts, updates, deletes."""
        return ",".join(map(str, self._operations)).encode()

    def index(self, tail: Tail) -> bytes:
        """`hive.acid.key.index`: the last key of each stripe (Hive: `OrcRecordUpdater.KeyIndexBuilder`)."""
        if tail.rows != self._rows:
            raise InternalError(f"{self._rows} events were written, the file has {tail.rows}")
        if self.last is not None:
            self._at[self._rows] = self.last
        keys = []
        rows = 0
        for stripe in tail.stripes:
            rows += stripe.rows
            key = self._at.get(rows)
            if key is None:
                raise InternalError(f"a stripe ends after {rows} rows, where none was seen to end")
            keys.append(key)
        return _index_of(keys)


def _index_of(keys: Iterable[RowId]) -> bytes:
    return "".join(f"{key.write_id},{key.bucket_property},{key.row_id};" for key in keys).encode()


# --- One file of the stripes of several: they are copied byte for byte, and only the tail is made anew.
#
# A stripe knows nothing of its place or its file, so files of one schema, codec and calendar can be joined at the price
# of reading and writing their bytes. A `StripeRun` may also be a part of a file: what no delete touches needs no
# decoding.


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
    # The encoded statistics of each stripe of each run; none where the writer left none.
    per_stripe: list[list[bytes]] = []
    for run in runs:
        messages = list(read_stripe_metadata(run.file, run.tail).blobs(1))
        per_stripe.append([messages[i] for i in run.numbers] if len(messages) == len(run.tail.stripes) else [])
    section = b""
    # One stripe without statistics would shift those of all after it.
    if all(len(known) == len(run.numbers) for known, run in zip(per_stripe, runs, strict=True)):
        section = encoded({1: [message for known in per_stripe for message in known]})
    keys = _keys(runs) if base.metadata_value(KEY_INDEX) is not None else None
    values = dict(metadata or {})
    if keys is not None:
        values[KEY_INDEX] = _index_of(keys)
        values[ACID_STATS] = _acid_stats(runs)
    rows = sum(run.rows for run in runs)
    footer = rewritten(
        base.footer,
        {
            CONTENT_LENGTH: content_end,
            STRIPES: stripes,
            METADATA: merged_metadata(base, values),
            ROWS: rows,
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
            messages.append(rewritten(entries[i], {1: at}))
            at += stripe.end - stripe.offset
    return messages, at


def _file_statistics(runs: Sequence[StripeRun], per_stripe: Sequence[Sequence[bytes]]) -> list[bytes]:
    """The encoded statistics of all columns; nothing when a run does not say."""
    parts: list[list[bytes]] = []
    for run, stripes in zip(runs, per_stripe, strict=True):
        whole = list(Message(run.tail.footer).blobs(STATISTICS))
        if run.is_whole and (run.numbers or len(runs) == 1):
            parts.append(whole)
        else:
            parts += [list(Message(stripe).blobs(1)) for stripe in stripes]
            if len(stripes) < len(run.numbers):
                return []
    columns = len(runs[0].tail.types)
    if not parts or any(len(part) != columns for part in parts):
        return []
    return [merged_statistics(column) for column in zip(*parts, strict=True)]


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
    totals = np.zeros(3, dtype=np.int64)
    for run in runs:
        value = run.tail.metadata_value(ACID_STATS)
        if value is None:
            raise InternalError(f"{run.tail.name} does not count its events")
        stats = parse_acid_stats(value)
        counts = [stats.inserts, stats.updates, stats.deletes]
        if not run.is_whole:
            # Of a part the share is known where all events are of one kind, and other parts are not cut.
            if sum(counts) not in counts:
                raise InternalError(f"{run.tail.name} mixes kinds of events and cannot be joined in part")
            counts = [run.rows if count else 0 for count in counts]
        totals += counts
    return ",".join(map(str, totals)).encode()


def _first_key(runs: Sequence[StripeRun]) -> RowId | None:
    """The first key of the first stripe, where that begins its file; else None."""
    first = next((run for run in runs if run.numbers), None)
    if first is None or first.numbers[0]:
        return None
    orc = open_orc(first.file, name=first.tail.name, length=first.tail.file_length)
    with closing(cast(Generator[pa.RecordBatch, None, None], orc.scan(KEY_FIELDS, batch_size=1))) as batches:
        return keys_of(next(batches), name=orc.name).at(0)
