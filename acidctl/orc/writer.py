"""Events and rows as ORC files that Hive reads as its own: one pass over batches, an append-only sink.

`OrcWriter` cuts batches into pieces, gives them to a backend, notes the last key of each stripe as it is written, and
at the end edits the tail: real names and types, ACID metadata, calendar. Values are wall clock labels as Hive shows
them, so the calendar is proleptic and the writer's zone UTC. The Arrow backend is fast and cannot write everything; it
raises NeedsExactWriter where it could not keep every bit, and the file has to be begun anew with Backend.EXACT.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Protocol

import numpy as np
import pyarrow as pa

from acidctl.errors import InternalError, MissingDependencyError, UsageError
from acidctl.format.events import EventBatch, EventKeys, Operation, RowId
from acidctl.orc.acidmeta import ACID_STATS, ACID_VERSION, KEY_INDEX
from acidctl.orc.arrow_writer import ArrowBackend, NeedsExactWriter, Physical, has_union
from acidctl.orc.codec import Compression, shrunk
from acidctl.orc.protobuf import number, rewritten
from acidctl.orc.stripe_sink import LARGEST_CHUNK, StripeSink, igzip
from acidctl.orc.tail import Calendar, OrcKind, OrcType, Tail, read_range, read_tail
from acidctl.orc.tail_edit import (
    CALENDAR,
    METADATA,
    STRIDE,
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
    from acidctl.orc.pyorc_writer import ExactBackend

__all__ = ["Backend", "NeedsExactWriter", "OrcWriter", "Settings", "WrittenFile", "write_orc"]

# Pieces of this size keep a backend's copies small; stripes end between pieces only.
_PIECE_BYTES = 4 << 20
_PIECE_ROWS = 1 << 16
# Fewer rows than these wait for more: each piece costs some tenths of a millisecond.
_FEW_ROWS = 1 << 13
_NO_FILTER = frozenset({OrcKind.BOOLEAN, OrcKind.LIST, OrcKind.MAP, OrcKind.STRUCT, OrcKind.UNION})
# ORC's C++ writer takes multiples of this as the size of a compressed block, and ends the process at 8 MiB.
_BLOCK_UNIT = 64 << 10
_LARGEST_BLOCK = (8 << 20) - _BLOCK_UNIT
_COMPRESSIONS = {
    "none": Compression.NONE,
    "zlib": Compression.ZLIB,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
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
    """Write all batches as one file; the sink stays open. See `OrcWriter` for what may be raised."""
    writer = OrcWriter(sink, columns, settings, acid=acid, metadata=metadata, backend=backend)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.abort()
        raise


class OrcWriter:
    """One ORC file in the making.

    With `acid` the file has the event schema, the key index, the ACID statistics and version; the `row` of a DELETE is
    NULL, and the batches of a file of deletes may come without columns. Without, the keys of batches are not looked at.
    Events must come in the order in which they are to be read; that is not checked here. `metadata` goes into the
    file as it is.

    Raises NeedsExactWriter (Backend.ARROW only), UsageError for settings that no ORC file can have, and what the sink
    raises.
    """

    def __init__(
        self,
        sink: BinaryIO,
        columns: StructType,
        settings: Settings,
        *,
        acid: bool,
        metadata: Mapping[str, bytes],
        backend: Backend = Backend.ARROW,
    ) -> None:
        self._sink = _HeldSink(sink)
        self._types = orc_types(event_type(columns) if acid else columns)
        self._acid = acid
        self._metadata = dict(metadata)
        self._settings = settings
        self._kind = backend
        self._pieces = _Pieces()
        self._keys = _KeyLog() if acid else None
        physical = Physical(
            compression=compression_of(settings),
            stripe_size=settings.stripe_size,
            block_size=min(-(-settings.block_size // _BLOCK_UNIT) * _BLOCK_UNIT, _LARGEST_BLOCK),
            row_index_stride=settings.row_index_stride,
            # Filters are of row groups; one for a stride without end would not fit in memory.
            bloom=bloom_ids(self._types, settings.bloom_columns, acid=acid)
            if settings.row_index_stride
            else frozenset(),
            bloom_fpp=settings.bloom_fpp,
        )
        shrink = igzip() if backend is Backend.ARROW and physical.compression is Compression.ZLIB else None
        if backend is Backend.EXACT and has_union(columns):
            shrink = partial(shrunk, compression=physical.compression)
        self._stripes: StripeSink | None = None
        if shrink is not None:
            self._stripes = StripeSink(self._sink, self._types, physical, shrink, unions=backend is Backend.EXACT)
            # The size of a stripe is that of its plain bytes: a larger one would cost memory, and readers gain nothing.
            # C++ takes memory for each stream by the block.
            physical = replace(
                physical,
                compression=Compression.NONE,
                block_size=min(physical.block_size, LARGEST_CHUNK),
                bloom=frozenset(map(self._stripes.written_id, physical.bloom)),
            )
        self._backend = _backend(backend)(self._stripes or self._sink, columns, physical, acid=acid)

    def write(self, batch: EventBatch) -> None:
        """Append the events of a batch."""
        for piece in self._pieces.add(batch):
            self._write(piece)

    def close(self) -> WrittenFile:
        """Complete the file; the sink then holds all of it and stays open."""
        for piece in self._pieces.rest():
            self._write(piece)
        self._sink.hold()
        with self._guarded():
            self._backend.close()
            if self._stripes is not None:
                self._stripes.finish()
        tail = read_tail(self._sink, name="the file being written")
        new = self._edited(tail)
        size = self._sink.release(tail.postscript.footer_length + tail.postscript.length + 1, new)
        keys = self._keys
        return WrittenFile(
            rows=tail.rows,
            bytes=size,
            stripes=len(tail.stripes),
            first_key=keys.first if keys else None,
            last_key=keys.last if keys else None,
            backend=self._kind,
        )

    def abort(self) -> None:
        """Forget the file; what the sink got so far is not an ORC file."""
        self._sink.hold()
        self._backend.abort()

    def _write(self, piece: EventBatch) -> None:
        ends = []
        with self._guarded():
            for end in self._backend.write(piece):
                ends.append(end)
                if self._stripes is not None:
                    self._stripes.pass_on()
        if self._keys is not None:
            self._keys.add(piece.keys, ends)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, RuntimeError, OSError) as error:
            # The C++ writers turn what the sink raised into a text.
            if self._sink.failure is not None:
                raise self._sink.failure from error
            raise

    def _edited(self, tail: Tail) -> bytes:
        metadata = dict(self._metadata)
        if self._keys is not None:
            metadata |= {
                ACID_VERSION: b"2",
                ACID_STATS: self._keys.stats(),
                KEY_INDEX: self._keys.index(tail),
            }
        changes = {
            TYPES: renamed_types(tail, self._types),
            METADATA: merged_metadata(tail, metadata),
            STRIDE: number(STRIDE, self._settings.row_index_stride),
            CALENDAR: number(CALENDAR, Calendar.PROLEPTIC_GREGORIAN),
        }
        post = tail.postscript
        old = read_range(self._sink, tail.file_length - post.length - 1, post.length, tail.name)
        return sealed(rewritten(tail.footer, changes), old, post.compression, post.block_size)


def _backend(kind: Backend) -> type[ArrowBackend] | type[ExactBackend]:
    if kind is Backend.ARROW:
        return ArrowBackend
    assert kind is Backend.EXACT
    try:
        # A machine without pyorc writes nearly every table.
        from acidctl.orc.pyorc_writer import ExactBackend
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


class _Pieces:
    """Batches cut and joined to the size that backends like; all rows, in order."""

    def __init__(self) -> None:
        self._waiting: list[EventBatch] = []
        self._rows = 0

    def add(self, batch: EventBatch) -> Iterator[EventBatch]:
        """The pieces that are ready."""
        if not len(batch):
            return
        if self._waiting and not _joinable(self._waiting[0], batch):
            yield from self.rest()
        size = _piece_rows(batch)
        if self._rows + len(batch) < min(_FEW_ROWS, size):
            self._waiting.append(batch)
            self._rows += len(batch)
            return
        if self._waiting:
            batch = EventBatch.concat([*self._waiting, batch])
            self._waiting, self._rows = [], 0
        for start in range(0, len(batch), size):
            yield batch.slice(start, min(start + size, len(batch))) if len(batch) > size else batch

    def rest(self) -> Iterator[EventBatch]:
        """What waits for more."""
        if self._waiting:
            batch = EventBatch.concat(self._waiting)
            self._waiting, self._rows = [], 0
            yield batch


def _piece_rows(batch: EventBatch) -> int:
    width: int = sum(column.nbytes for column in batch.columns) // len(batch)
    return max(1, min(_PIECE_ROWS, _PIECE_BYTES // (width + 1)))


def _joinable(one: EventBatch, other: EventBatch) -> bool:
    return [column.type for column in one.columns] == [column.type for column in other.columns]


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
        entries = []
        rows = 0
        for stripe in tail.stripes:
            rows += stripe.rows
            key = self._at.get(rows)
            if key is None:
                raise InternalError(f"a stripe ends after {rows} rows, where none was seen to end")
            entries.append(f"{key.write_id},{key.bucket_property},{key.row_id};")
        return "".join(entries).encode()


def bloom_ids(types: Sequence[OrcType], names: Iterable[str], *, acid: bool) -> frozenset[int]:
    """The ids of the table columns of these names, without regard to case.

    Other names are left out, and columns of kinds whose filters no reader uses.
    """
    row = types[types[0].subtypes[-1]] if acid else types[0]
    wanted = {name.lower() for name in names}
    places = zip(row.names, row.subtypes, strict=True)
    return frozenset(child for name, child in places if name.lower() in wanted and types[child].kind not in _NO_FILTER)


def compression_of(settings: Settings) -> Compression:
    """The codec by its name; UsageError for one that acidctl does not write."""
    try:
        return _COMPRESSIONS[settings.compression]
    except KeyError:
        raise UsageError(
            f"the compression '{settings.compression}' is unknown",
            hint=f"Use one of {', '.join(_COMPRESSIONS)}.",
        ) from None
