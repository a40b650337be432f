"""Events and rows as ORC files that Hive reads as its own: one pass over batches, an append-only sink.

`write_orc` cuts batches into pieces, gives them to a backend, notes the last key of each stripe as it is written, and
at the end edits the tail: real names and types, ACID metadata, calendar. Values are wall clock labels as Hive shows
them, so the calendar is proleptic and the writer's zone UTC. The Arrow backend is fast and cannot write everything; it
raises NeedsExactWriter where it could not keep every bit, and the file has to be begun anew with Backend.EXACT.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np
import pyarrow as pa

from acidctl.errors import InternalError, MissingDependencyError, UsageError
from acidctl.format.events import EventBatch, EventKeys, Operation, RowId
from acidctl.orc.acidmeta import ACID_STATS, ACID_VERSION, KEY_INDEX
from acidctl.orc.arrow_writer import (
    LARGEST_CHUNK,
    TEXTS,
    ArrowBackend,
    Forms,
    NeedsExactWriter,
    Physical,
    StripeSink,
    has_union,
    igzip,
    text,
)
from acidctl.orc.codec import Compression, shrunk
from acidctl.orc.protobuf import Message, Value, encoded, rewritten
from acidctl.orc.stats import ordered_doubles
from acidctl.orc.stripe import EncodingKind, read_stripe_metadata, recorded
from acidctl.orc.tail import MAGIC, Calendar, OrcKind, OrcType, Tail, read_range, read_tail
from acidctl.orc.tail_edit import (
    CALENDAR,
    METADATA,
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
from acidctl.phases import phase, timed
from acidctl.types.hive_types import StructType
from acidctl.values import dataclass

if TYPE_CHECKING:
    from acidctl.orc.pyorc_files import ExactBackend

__all__ = ["Backend", "NeedsExactWriter", "Settings", "WrittenFile", "write_orc"]

# Pieces of this size keep a backend's copies small; stripes end between pieces only, so that several make a stripe.
_PIECE_BYTES = 4 << 20
_LEAST_PIECE_BYTES, _PIECES_OF_A_STRIPE = 64 << 10, 4
_PIECE_ROWS = 1 << 16
# Fewer rows than these wait for more: each piece costs some tenths of a millisecond.
FEW_ROWS = 1 << 13
_NO_FILTER = frozenset({OrcKind.BOOLEAN, OrcKind.LIST, OrcKind.MAP, OrcKind.STRUCT, OrcKind.UNION})
# ORC's C++ writer takes multiples of this as the size of a compressed block, and ends the process at 8 MiB.
_BLOCK_UNIT = 64 << 10
_LARGEST_BLOCK = (8 << 20) - _BLOCK_UNIT
# In smaller stripes than this, streams have few full blocks of the largest size.
_LARGE_STRIPE = 32 << 20
_COMPRESSIONS = {
    kind.name.lower(): kind
    for kind in (Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
}


class Backend(Enum):
    """Which ORC library writes: Arrow's by columns, or pyorc value by value; COPY says that stripes were copied.

    TEXT is pyorc for columns of text whose values are all UTF-8: only as such they get bounds in the statistics.
    """

    ARROW = "arrow"
    EXACT = "exact"
    TEXT = "text"
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
    held = _HeldSink(sink)
    types = orc_types(event_type(columns) if acid else columns)
    keys = _encode(held, batches, columns, types, settings, acid, backend)
    tail = read_tail(held, name="the file being written")
    values = dict(metadata)
    if acid:
        values |= {ACID_VERSION: b"2", ACID_STATS: keys.stats(), KEY_INDEX: index_of(keys.ends(tail))}
    changes: dict[int, Value] = {
        TYPES: renamed_types(tail, types),
        METADATA: merged_metadata(tail, values),
        STRIDE: settings.row_index_stride,
        CALENDAR: Calendar.PROLEPTIC_GREGORIAN,
    }
    post = tail.postscript
    old = read_range(held, tail.file_length - post.length - 1, post.length, tail.name)
    statistics = encoded({1: _stripe_statistics(held, tail)})
    new = sealed(rewritten(tail.footer, changes), old, post.compression, post.block_size, metadata=statistics)
    size = held.release(post.metadata_length + post.footer_length + post.length + 1, new)
    return WrittenFile(tail.rows, size, len(tail.stripes), keys.first, keys.last, backend)


@dataclass(frozen=True, slots=True)
class WrittenStripes:
    """Stripes of events without head and tail, `length` bytes together.

    Of each stripe `entries` is what a footer says of it, with an offset that counts from the first, `statistics` its
    encoded statistics, `ends` its last key where rows have keys.
    """

    length: int
    entries: tuple[bytes, ...]
    statistics: tuple[bytes, ...]
    ends: tuple[RowId | None, ...]
    rows: tuple[int, ...]


def write_stripes(
    sink: BinaryIO,
    batches: Iterable[EventBatch],
    columns: StructType,
    settings: Settings,
    *,
    acid: bool,
    backend: Backend,
) -> WrittenStripes:
    """Write events, or rows, as stripes for a file that is put together; as `write_orc`, of which this is a part."""
    held = _HeldSink(sink, skip=len(MAGIC))
    types = orc_types(event_type(columns) if acid else columns)
    keys = _encode(held, batches, columns, types, settings, acid, backend)
    tail = read_tail(held, name="the stripes being written")
    renamed_types(tail, types)
    entries = tuple(
        rewritten(entry, {1: stripe.offset - len(MAGIC)})
        for entry, stripe in zip(Message(tail.footer).blobs(STRIPES), tail.stripes, strict=True)
    )
    statistics = _stripe_statistics(held, tail)
    post = tail.postscript
    size = held.release(post.metadata_length + post.footer_length + post.length + 1, b"")
    rows = tuple(stripe.rows for stripe in tail.stripes)
    ends = tuple(keys.ends(tail)) if acid else (None,) * len(rows)
    return WrittenStripes(size, entries, statistics, ends, rows)


def _stripe_statistics(held: _HeldSink, tail: Tail) -> tuple[bytes, ...]:
    """Those that the C++ writer noted, as Hive can use them."""
    doubles = [i for i, entry in enumerate(tail.types) if entry.kind in (OrcKind.FLOAT, OrcKind.DOUBLE)]
    found = read_stripe_metadata(held, tail).blobs(1)
    return tuple(ordered_doubles(one, doubles) for one in found) if doubles else found


def divided(
    batches: Iterable[EventBatch], columns: StructType, stripe_size: int
) -> Iterator[tuple[Backend, Iterator[EventBatch]]]:
    """Events in runs, each with the fastest backend that writes it exactly; one is to be taken before the next.

    So one value that Arrow's writer would change costs the piece of a stripe in which it is, and not a whole file.
    """
    forms: Forms | None = None
    turns = 0

    def judged(piece: EventBatch) -> tuple[Backend, int]:
        nonlocal forms, turns
        for known in (forms, None):
            try:
                turns += known is None
                forms = known or Forms(columns, acid=True)
                forms.table(piece)
                return Backend.ARROW, turns
            except NeedsExactWriter:
                forms = None
        return (Backend.TEXT if _is_text(piece, columns) else Backend.EXACT), 0

    for (backend, _), run in groupby(_pieces(batches, stripe_size), judged):
        yield backend, run


def _is_text(piece: EventBatch, columns: StructType) -> bool:
    """Whether all values of columns of text are valid UTF-8."""
    try:
        for field, column in zip(columns.fields, piece.columns, strict=False):
            if field.type.kind in TEXTS:
                text(column).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _encode(
    held: _HeldSink,
    batches: Iterable[EventBatch],
    columns: StructType,
    types: Sequence[OrcType],
    settings: Settings,
    acid: bool,
    backend: Backend,
) -> _KeyLog:
    """Write a file as the backend makes it, of which the end is held back; what was noted of its keys."""
    pieces = _pieces(batches, settings.stripe_size)
    first = list(islice(pieces, 2))
    stripes, plain = None, physical_of(settings, types, acid=acid)
    # Of a few bytes Arrow's own zlib is done before igzip's chunks are put in their places.
    size = sum(column.nbytes for one in first for column in one.columns)
    if backend is not Backend.ARROW or size > _LEAST_PIECE_BYTES // 2:
        stripes, plain = _stripe_sink(held, columns, types, plain, backend)
    if plain.compression is Compression.NONE:  # of the others they count what is compressed
        plain = replace(plain, stripe_size=plain.stripe_size + _not_filled(types, plain))
    writer = _backend(backend)(stripes or held, columns, plain, acid=acid)
    keys = _KeyLog()
    try:
        for piece in chain(first, pieces):
            ends = []
            for end in timed("encode", writer.write(piece)):
                ends.append(end)
                if stripes is not None:
                    with phase("encode"):
                        stripes.pass_on()
            if acid:
                keys.add(piece.keys, ends)
        held.hold()
        with phase("encode"):
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
    return keys


def _not_filled(types: Sequence[OrcType], plain: Physical) -> int:
    """What the C++ writers count of a stripe beside its bytes: of each stream a whole block, little as is in it."""
    streams = sum(len(recorded(entry.kind, EncodingKind.DIRECT_V2, nulls=True)) for entry in types)
    # In the smallest stripes most streams have not taken a block yet.
    return min(streams * plain.block_size * 3 // 4, 4 * plain.stripe_size)


def physical_of(settings: Settings, types: Sequence[OrcType], *, acid: bool) -> Physical:
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
    exact = backend is not Backend.ARROW
    shrink = igzip() if not exact and physical.compression is Compression.ZLIB else None
    if exact and has_union(columns):
        shrink = partial(shrunk, compression=physical.compression)
    if shrink is None:
        return None, physical
    sink = StripeSink(target, types, physical, shrink, unions=exact)
    # The size of a stripe is that of its plain bytes: a larger one would cost memory, and readers gain nothing.
    # C++ takes memory for each stream by the block.
    chunk = LARGEST_CHUNK if physical.stripe_size >= _LARGE_STRIPE else _BLOCK_UNIT
    block_size = min(physical.block_size, chunk)
    bloom = frozenset(map(sink.written_id, physical.bloom))
    return sink, replace(physical, compression=Compression.NONE, block_size=block_size, bloom=bloom)


def _backend(kind: Backend) -> Callable[..., ArrowBackend | ExactBackend]:
    if kind is Backend.ARROW:
        return ArrowBackend
    assert kind in (Backend.EXACT, Backend.TEXT)
    try:
        # A machine without pyorc writes nearly every table.
        from acidctl.orc.pyorc_files import ExactBackend
    except ImportError as error:
        raise MissingDependencyError(
            "pyorc is not installed, and this table holds values that only it can write exactly",
            hint="Install the Python package pyorc where the tasks run.",
        ) from error
    return partial(ExactBackend, as_text=kind is Backend.TEXT)


# --- The end of a file, held back until it is right.
#
# Storages append and nothing else, and the C++ writers put the tail where it will not be right yet. So what is written
# while a writer closes is held back in memory, and goes on only when the tail has been edited.


class _HeldSink(io.RawIOBase):
    """The file that a C++ writer is given: passes bytes on to `target` until `hold`, and keeps them from there on.

    Closing it does not close the target. The first failure of the target is kept in `failure`: C++ writers turn
    exceptions into texts. What is held can be read; what was passed on reads as zeros, which nobody but a read-ahead
    asks for. Of the beginning, `skip` bytes are counted and never passed on.
    """

    def __init__(self, target: BinaryIO, *, skip: int = 0) -> None:
        super().__init__()
        self._target = target
        self._skip = skip
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
            write_all(self._target, data[self._skip - self._passed :] if self._passed < self._skip else data)
        except BaseException as error:
            self.failure = error
            raise
        self._passed += len(data)
        return len(data)

    def hold(self) -> None:
        """From here on nothing reaches the target."""
        self._holding = True

    def release(self, tail_length: int, tail: bytes) -> int:
        """Pass on what is held but its last `tail_length` bytes, then `tail`; how many bytes the target has got."""
        with memoryview(self._held) as view:
            content = len(view) - tail_length
            write_all(self._target, view[max(0, self._skip - self._passed) : content])
        write_all(self._target, tail)
        return self._passed + content + len(tail) - self._skip

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


def _pieces(batches: Iterable[EventBatch], stripe_size: int) -> Iterator[EventBatch]:
    """Batches cut and joined to the size that backends like, for stripes of this size; all rows, in order."""
    most = min(_PIECE_BYTES, max(stripe_size // _PIECES_OF_A_STRIPE, _LEAST_PIECE_BYTES))
    waiting: list[EventBatch] = []
    for batch in batches:
        if not len(batch):
            continue
        kinds = [[column.type for column in one.columns] for one in (*waiting[:1], batch)]
        if kinds[0] != kinds[-1]:
            yield EventBatch.concat(waiting)
            waiting = []
        width: int = sum(column.nbytes for column in batch.columns) // len(batch)
        size = max(1, min(_PIECE_ROWS, most // (width + 1)))
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

    def ends(self, tail: Tail) -> list[RowId]:
        """The last key of each stripe."""
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
        return keys


def index_of(keys: Iterable[RowId]) -> bytes:
    """`hive.acid.key.index`: the last key of each stripe (Hive: `OrcRecordUpdater.KeyIndexBuilder`)."""
    return "".join(f"{key.write_id},{key.bucket_property},{key.row_id};" for key in keys).encode()
