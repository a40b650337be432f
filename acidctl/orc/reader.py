"""ORC files as streams of Arrow record batches, with the values that Hive shows.

`open_orc` reads and checks the tail; `OrcFile.scan` streams batches through Arrow's C++ reader, which sees the stripes
of the file under a footer of ours (`tail_edit`). Timestamps that Arrow's own types cannot hold are decoded in
`postprocess`, decided from the tail alone; dates and timestamps of the hybrid calendar are moved to the days whose
labels Hive prints (`calendar`).
"""

from __future__ import annotations

import atexit
import io
import time
import weakref
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as po

from acidctl.errors import AcidctlError
from acidctl.format.events import RowId
from acidctl.orc import acidmeta, codec
from acidctl.orc.agreement import agreeing
from acidctl.orc.calendar import is_utc, zone_epoch
from acidctl.orc.codec import CodecError, Compression, expand
from acidctl.orc.input_file import PrefetchingFile, Source, SplicedFile
from acidctl.orc.postprocess import (
    ColumnStream,
    ExtraStreams,
    Projection,
    WideColumn,
    finisher,
    project,
    wide_columns,
)
from acidctl.orc.protobuf import Budget
from acidctl.orc.rle import Guard, WideRows
from acidctl.orc.scan_check import RunCheck, StatisticsCheck, StripesCheck, check_each
from acidctl.orc.stats import ColumnStatistics, StatisticsKind
from acidctl.orc.stripe import (
    INDEX_KINDS,
    Stream,
    StreamKind,
    StripeFooter,
    each_stripe,
    encoded_footer,
    encoded_statistics,
    read_column_index,
    read_stripe_footer,
)
from acidctl.orc.tail import (
    MAGIC,
    Calendar,
    OrcKind,
    ReadableFile,
    Stripe,
    Tail,
    Writer,
    check_shape,
    damaged,
    is_acid,
    readable_tail,
)
from acidctl.orc.tail_edit import offered_name, safe_tail
from acidctl.phases import phase, timed
from acidctl.types.hive_types import Dialect, StructType

DEFAULT_BATCH_SIZE = 65536
_LET_GO_SECONDS = 5.0
# What small files may take, decoded, that are read together.
_TOGETHER_BYTES = 16 << 20
_BATCH_BYTES = 6 << 20
_TEXTUAL = ("STRING", "CHAR", "VARCHAR", "BINARY")
# Files of so few rows are read stripe by stripe, without Arrow's scanner.
FEW_ROWS = 1 << 16
# So few values (rows times columns) are left to Arrow to inflate.
FEW_VALUES = 1 << 17
# Stripes with more batches than these are read in turns, the first of which has so many, and each following as many
# times more.
_VAST_BATCHES, _FIRST_BATCHES = 256, 16
# Stripes of no more bytes are inflated here and not by Arrow, stored and plain; small ones together, up to the first.
ENOUGH, MOST_STORED, MOST_PLAIN = 4 << 20, 32 << 20, 64 << 20
#: Whether a thread has a second one inflate for it: not where every core is at work.
INFLATED_BESIDE = ContextVar("INFLATED_BESIDE", default=True)
# Scans that are under way. Arrow reads ahead in a thread of its own, and a thread that comes back to Python
# after the interpreter is gone takes the process down with it: whatever was not read to its end is closed
# first.
_SCANS: weakref.WeakSet[Generator[pa.RecordBatch, None, None]] = weakref.WeakSet()
#: What Arrow reads: the file under a tail of ours, or stripes in memory.
_View = SplicedFile | npt.NDArray[np.uint8]


def open_orc(file: ReadableFile, *, name: str, length: int | None = None, events: bool = False) -> OrcFile:
    """Read and check the tail of an open ORC file that logically ends at `length` (default: where it ends).

    Raises DamagedDataError, or StorageError when the bytes cannot be read. `events` says that the file must hold ACID
    events. The file stays the caller's to close.
    """
    orc = open_as_it_is(file, name=name, length=length)
    check_shape(orc.tail, events=events)
    return orc


def open_as_it_is(file: ReadableFile, *, name: str, length: int | None = None) -> OrcFile:
    """As `open_orc`, with the columns that the file declares even if it must be one of ACID events: for looking at."""
    return OrcFile(file, readable_tail(file, name=name, length=length))


class OrcFile:
    """An open ORC file whose tail has been checked; several scans may run one after another or interleaved."""

    def __init__(self, file: ReadableFile, tail: Tail) -> None:
        self._source = Source(file, tail)
        self._close: Callable[[], None] = getattr(file, "close", lambda: None)
        self._footers: dict[int, StripeFooter] = {}
        # What stripes take whose streams were checked.
        self._sound: dict[int, float] = {}
        self.check: StripesCheck | None = None  # takes the values where the file is read in several scans
        self.tail = tail
        self.name = tail.name
        self.is_acid = is_acid(tail)
        schema = tail.types.events or tail.hive_type()
        assert isinstance(schema, StructType)
        self.schema = schema

    @property
    def whole(self) -> bytes | None:
        """All bytes of the file where it is in memory."""
        file = self._source.file
        return file.getvalue() if isinstance(file, io.BytesIO) else None

    @property
    def rows(self) -> int:
        """Rows of the file; of an ACID file its events, deletes included."""
        return self.tail.rows

    @property
    def columns(self) -> StructType:
        """The user's columns: the fields of `row` in an ACID file, else all."""
        if not self.is_acid:
            return self.schema
        row = self.schema.fields[-1].type
        assert isinstance(row, StructType)
        return row

    @property
    def dialect(self) -> Dialect:
        """The Hive that wrote the file, as far as its reading of older files differs.

        A file that acidctl wrote counts as written by the Hive that it was written for. A table is read by
        one Hive: it is HIVE4 as soon as one live file is.
        """
        tail = self.tail
        target = tail.metadata_value(acidmeta.TARGET)
        if target in acidmeta.TARGETS:
            return acidmeta.TARGETS[target]
        if tail.writer is not Writer.ORC_JAVA or tail.calendar is not Calendar.UNKNOWN:
            return Dialect.HIVE4
        return Dialect.HIVE3

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The rows of each stripe."""
        return tuple(stripe.rows for stripe in self.tail.stripes)

    def rows_per_batch(self, most: int) -> int:
        """How many rows to take at a time: `most`, fewer where rows are wide, so that memory is bounded."""
        tail = self.tail
        if not tail.rows:
            return most
        total = 0
        for column, entry in zip(tail.statistics, tail.types, strict=False):
            if entry.kind.name in _TEXTUAL:
                values = column.of(StatisticsKind.STRING, StatisticsKind.BINARY)
                total += 8 * (column.count or 0)
                if values is not None:
                    total += max(values.sum or 0, 0)
        # Compressed bytes say little, but a lot of them in few rows says that rows are wide.
        width = max(total, tail.file_length) / tail.rows + 8 * len(tail.types)
        return min(most, max(1, int(_BATCH_BYTES / width)))

    def is_wide(self) -> bool:
        """Whether a timestamp column has values that nanoseconds since 1970 may not hold."""
        return bool(wide_columns(self.tail, self.stripe_footers))

    def close(self) -> None:
        """Close the file below, if it can be closed."""
        self._close()

    def key_range(self) -> tuple[RowId, RowId] | None:
        """Inclusive bounds of an ACID file's keys, from statistics; None when unknown (see `acidmeta.key_range`)."""
        return acidmeta.key_range(self.tail, self.tail.statistics, self.rows) if self.is_acid else None

    def stripe_key_ranges(self) -> tuple[tuple[RowId, RowId] | None, ...]:
        """Per stripe the inclusive bounds of its keys, as `key_range` gives them for the file; None where unknown."""
        stripes = self.tail.stripes
        if len(stripes) == 1:
            return (self.key_range(),)
        statistics = self.stripe_statistics() if self.is_acid else ()
        if len(statistics) != len(stripes):
            return (None,) * len(stripes)
        pairs = zip(stripes, statistics, strict=True)
        return tuple(acidmeta.key_range(self.tail, columns, stripe.rows) for stripe, columns in pairs)

    def operations(self) -> frozenset[int] | None:
        """The operation codes that can occur in an ACID file; None when its statistics do not tell."""
        return acidmeta.operations(self.tail) if self.is_acid else None

    def stripe_statistics(self) -> tuple[Sequence[ColumnStatistics], ...]:
        """Per stripe the statistics of each column; empty when the writer left none."""
        with self._source.lock:
            return tuple(each_stripe(self._source.file, self.tail))

    def stripe_messages(self) -> tuple[bytes, ...]:
        """The same as they are encoded."""
        with self._source.lock:
            return encoded_statistics(self._source.file, self.tail)

    def agreeing(self, stripes: range, statistics: Sequence[bytes]) -> list[int]:
        """Those of adjacent stripes whose statistics are those of their row groups; see `agreement.agreeing`."""
        footers = self.stripe_footers(stripes)
        with self._source.lock:
            return agreeing(self._source.file, self.tail, stripes, footers, statistics)

    def group_statistics(self, index: int, column: int) -> tuple[ColumnStatistics | None, ...]:
        """Of each row group of a stripe the statistics of a column; empty where the writer left none."""
        (footer,) = self.stripe_footers(range(index, index + 1))
        with self._source.lock:
            entries = read_column_index(self._source.file, self.tail, footer, column).entries
        return tuple(entry.statistics for entry in entries or ())

    def heads(self, file: ReadableFile) -> OrcFile:
        """The first row of each stripe, by a handle that no other scan uses; no footer is read again."""
        stripes = tuple(replace(stripe, rows=min(stripe.rows, 1)) for stripe in self.tail.stripes)
        rows = sum(stripe.rows for stripe in stripes)
        other = OrcFile(file, replace(self.tail, stripes=stripes, rows=rows, statistics=()))
        self.stripe_footers()
        other._footers = self._footers
        return other

    def stripe_footers(self, among: range | None = None) -> tuple[StripeFooter, ...]:
        """The footers of all stripes, or of adjacent ones, checked; read once."""
        wanted = range(len(self.tail.stripes)) if among is None else among
        if not all(i in self._footers for i in wanted):
            with phase("footers"), self._source.lock:
                file, part = self._source.file, _part_of(self.tail, wanted)
                if isinstance(file, PrefetchingFile):
                    file.expect_footers(part, keys=self.is_acid)
                budget = Budget(sum(stripe.footer_length for stripe in part.stripes))
                self._footers |= {i: read_stripe_footer(file, self.tail, i, budget) for i in wanted}
        return tuple(self._footers[i] for i in wanted)

    def check_streams(self, index: int) -> None:
        """Raise DamagedDataError where a stripe's streams hold numbers that a C++ reader must not see."""
        footers = self.stripe_footers()
        guard = Guard(self._source, self.tail, footers, range(len(self.tail.types)))
        self._sound[index] = guard.check(footers[index], self.tail.stripes[index].rows)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int = DEFAULT_BATCH_SIZE,
        fields: Sequence[int] | None = None,
        stripes: range | None = None,
        limit: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream record batches of at most `batch_size` rows; `columns` are top-level names, in the order wanted.

        `fields` are positions in `OrcFile.columns`: of an ACID file the struct `row` then has just these, in
        this order; of another file the batches have just these columns. `stripes` are the indexes of adjacent
        stripes to which the scan keeps; the bytes of others are not read. After `limit` rows it ends. No batch spans
        stripes. A timestamp column is timestamp[ns], or WIDE for the whole file where the tail says that the values
        may not fit. Raises DamagedDataError, StorageError, or MissingDependencyError (no time zone database).
        """
        batches = self._batches(columns, batch_size, fields, stripes, limit)
        _SCANS.add(batches)
        return timed("read", batches)

    def _batches(
        self,
        columns: Sequence[str] | None,
        batch_size: int,
        fields: Sequence[int] | None,
        stripes: range | None,
        limit: int | None,
    ) -> Generator[pa.RecordBatch, None, None]:
        indexes = self._indexes(columns)
        if fields is not None and not self.is_acid:
            indexes = tuple(fields)
        tail = self.tail if stripes is None else _part_of(self.tail, stripes)
        stored = tail.rows
        if limit is not None and limit < tail.rows:
            tail = _beginning_of(tail, limit)
        if not tail.rows:
            return
        if not indexes:
            for start in range(0, tail.rows, batch_size):
                rows = pa.Array.from_buffers(pa.struct([]), min(batch_size, tail.rows - start), [None])
                yield pa.RecordBatch.from_struct_array(rows)
            return
        # Of a part no other footer is read, but the types of the delivered columns are those of the whole file.
        footers = self.stripe_footers(stripes)
        row = self.columns if self.is_acid else None
        projection = project(self.tail, self.schema.names, indexes, footers, row=row, fields=fields if row else None)
        extra = self._extra_streams(projection.below(self.tail), footers)
        footers = footers[: len(tail.stripes)]
        if isinstance(self._source.file, PrefetchingFile):
            with self._source.lock:
                self._source.file.expect_scan(tail, footers, projection.below(tail))
        check: StatisticsCheck | RunCheck | None = StatisticsCheck(tail) if tail.rows == self.tail.rows else None
        if self.check is not None and limit is None:
            check = self.check.of(stripes, projection.read)
        below = {0, *projection.below(tail)}
        # Arrow inflates no more than it decodes.
        inflate = tail.rows > stored // 2 and tail.postscript.compression is Compression.ZLIB
        given = 0

        while given < tail.rows:
            part = _part_from(tail, footers, given, batch_size)
            if inflate:
                part = part.inflated(self._source, below)
                inflate = part.plain is not None
            try:
                for batch in self._decoded(part, projection, extra, batch_size, check):
                    given += len(batch)
                    yield batch
            except WideRows as wide:
                batch_size = wide.rows
        if check is not None:
            check.check()

    def _decoded(
        self,
        part: _Part,
        projection: Projection,
        extra: ExtraStreams,
        batch_size: int,
        check: StatisticsCheck | RunCheck | None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """The batches of a part; `check` sees them as read. WideRows asks for less."""
        tail, footers, skipped, plain = part
        names = [offered_name(column) for column in projection.read]
        finishers = {column: finisher(tail, column, extra) for column in projection.read}
        few, whole = tail.rows <= min(batch_size, FEW_ROWS), self.whole
        source, seen, seen_footers = (plain, plain.tail, plain.footers) if plain else (self._source, tail, footers)
        end, suffix = safe_tail(seen, extra.wide, flatten=projection.flat)
        guard = Guard(source, seen, seen_footers, projection.below(tail), batch_size)
        failures: list[AcidctlError] = []
        open_view = partial(SplicedFile, self._source, end, suffix, before_read=guard.before_read, failures=failures)
        stripes = ((s.rows, footer) for s, footer in zip(tail.stripes, footers, strict=True) if s.rows)
        left = read = 0
        try:
            if plain is not None:
                guard.before_read(0, end)
                if few:
                    batches = _whole_stripes(pa.BufferReader(pa.py_buffer(plain.open(suffix))), names)
                else:
                    batches = _arrow_batches(partial(plain.open, suffix), names, batch_size)
            elif few and whole is not None:
                guard.before_read(0, end)
                batches = _whole_stripes(pa.BufferReader(whole[:end] + suffix), names)
            elif few:
                batches = _whole_stripes(pa.PythonFile(open_view(), mode="r"), names)
            else:
                batches = _arrow_batches(open_view, names, batch_size)
            for batch in batches:
                batch.validate()  # a child shorter than its struct ends the process where it is taken out
                if not left and (stripe := next(stripes, None)):
                    left = stripe[0]
                    extra.start(stripe[1], tail.file_length)
                left, read = left - len(batch), read + len(batch)
                if left < 0:
                    raise damaged(self.name, "delivers more rows than its stripes hold")
                rows = projection.assemble(batch, finishers)
                if skipped:
                    start = min(skipped, len(batch))
                    batch, rows, skipped = batch.slice(start), rows.slice(start), skipped - start
                if not len(rows):
                    continue
                if check is not None:
                    check.add(list(zip(finishers, batch.columns, strict=True)))
                yield rows
        except AcidctlError:
            raise
        except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
            if failures:
                raise failures[0] from error
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise damaged(self.name, f"cannot be decoded: {text}") from error
        if read != tail.rows:
            raise damaged(self.name, f"delivered {read} rows, its footer gives {tail.rows}")

    def _indexes(self, columns: Sequence[str] | None) -> tuple[int, ...]:
        names = list(self.schema.names)
        for name in columns or ():
            if name not in names:
                raise damaged(self.name, f"has no column '{name}'")
        return tuple(range(len(names)) if columns is None else map(names.index, columns))

    def _extra_streams(self, columns: Collection[int], footers: tuple[StripeFooter, ...]) -> ExtraStreams:
        """What has to be read beside the C++ reader of these columns, in zones that exist."""
        types, source = self.tail.types, self._source
        kinds = {types[i].kind for i in columns}
        if OrcKind.TIMESTAMP in kinds:
            for zone in {footer.time_zone for footer in footers if not is_utc(footer.time_zone)}:
                # C++ would look for a file of that name.
                try:
                    zone_epoch(zone or "")
                except ValueError as error:
                    raise damaged(self.name, f"was written in a time zone that does not exist: {error}") from error
        times = not kinds.isdisjoint((OrcKind.TIMESTAMP, OrcKind.TIMESTAMP_INSTANT))
        wide = wide_columns(self.tail, self.stripe_footers) if times else ()
        return ExtraStreams(
            wide={i: WideColumn(source, i) for i in columns if i in wide},
            unions={i: ColumnStream(source, i, StreamKind.PRESENT) for i in columns if types[i].kind is OrcKind.UNION},
        )


def scan_together(files: Sequence[OrcFile], columns: Sequence[str], fields: Sequence[int]) -> pa.RecordBatch | None:
    """The rows of many small files of ACID events, one file behind the other, by one call of the C++ reader.

    It sees one file that has the stripes of all. Each file has to be in memory, with one stripe, and to be stored as
    the others are; None where that is not so, or where something is wrong with one: then each is to be read alone.
    """
    first = files[0]
    if first.tail.is_hybrid or any(orc.whole is None or not orc.is_acid for orc in files):
        return None
    if not all(_alike(orc.tail, first.tail) for orc in files):
        return None
    try:
        footers = [orc.stripe_footers()[0] for orc in files]
        indexes = first._indexes(columns)
        row = first.columns
        projection = project(first.tail, first.schema.names, indexes, footers, row=row, fields=fields)
        below, size = projection.below(first.tail), 0.0
        for orc, footer in zip(files, footers, strict=True):
            extra = orc._extra_streams(below, (footer,))
            if extra.wide or extra.unions:
                return None
            known = orc._sound.get(0)
            guard = Guard(orc._source, orc.tail, (footer,), below, orc.rows)
            size += guard.check(footer, orc.rows) if known is None else known
            if size > _TOGETHER_BYTES:
                return None
        batch = _joined_stripes(files, [offered_name(column) for column in projection.read], projection.flat)
        finishers = {column: finisher(first.tail, column, extra) for column in projection.read}
        rows = projection.assemble(batch, finishers)
        check_each([orc.tail for orc in files], list(zip(finishers, batch.columns, strict=True)))
    except (AcidctlError, WideRows, pa.ArrowException, OSError, ValueError, OverflowError):
        return None
    return rows


def _alike(tail: Tail, first: Tail) -> bool:
    """Whether the stripe of a file may stand among those of another."""
    one, other = tail.postscript, first.postscript
    forms = (one.compression, one.block_size, one.version, one.writer_version, tail.writer_code, tail.calendar)
    return (
        len(tail.stripes) == 1
        and tail.rows > 0
        and (tail.types is first.types or tail.types == first.types)
        and forms
        == (other.compression, other.block_size, other.version, other.writer_version, first.writer_code, first.calendar)
    )


def _joined_stripes(files: Sequence[OrcFile], names: list[str], flatten: bool) -> pa.RecordBatch:
    """The columns of the one stripe of each file, decoded as if they were stripes of one file."""
    parts: list[bytes] = [MAGIC]
    stripes, at = [], len(MAGIC)
    for orc in files:
        (stripe,) = orc.tail.stripes
        parts.append((orc.whole or b"")[stripe.offset : stripe.end])
        stripes.append(replace(stripe, offset=at))
        at += len(parts[-1])
    rows = sum(stripe.rows for stripe in stripes)
    _, suffix = safe_tail(replace(files[0].tail, stripes=tuple(stripes), rows=rows), (), flatten=flatten)
    table = po.ORCFile(pa.BufferReader(b"".join([*parts, suffix]))).read(columns=names)
    (batch,) = table.combine_chunks().to_batches()
    batch.validate()
    if len(batch) != rows:
        raise ValueError("another number of rows")
    return batch.select(names)


class _TooLarge(Exception):
    """Stripes take more memory, inflated, than is given to them."""


class _Image:
    """Plain bytes one after the other."""

    def __init__(self) -> None:
        # The system gives memory only where something is written.
        self.memory = np.empty(MOST_PLAIN, np.uint8)
        self.end = 0

    def add(self, data: bytes | memoryview) -> None:
        start, self.end = self.end, self.end + len(data)
        if self.end > MOST_PLAIN:
            raise _TooLarge
        self.memory[start : self.end].data[:] = data

    def inflate(self, source: Source, streams: Sequence[Stream]) -> list[Stream]:
        """Add what streams hold; where it lies."""
        post, found = source.tail.postscript, []
        for stream in streams:
            start, stored = self.end, memoryview(source.read(stream.offset, stream.length))
            try:
                for part in codec.expanded(stored, post.compression, post.block_size, library=codec.igzip()):
                    self.add(part)
            except CodecError as error:
                raise damaged(source.tail.name, f"has a damaged column {stream.column}: {error}") from error
            found.append(stream._replace(offset=start, length=self.end - start))
        return found

    def inflate_halves(self, source: Source, streams: Sequence[Stream]) -> list[Stream]:
        """The same of many bytes, by two threads: igzip lets go of the interpreter lock."""
        ends, other = list(accumulate(stream.length for stream in streams)), _Image()
        half = bisect_left(ends, ends[-1] // 2)
        with ThreadPoolExecutor(1) as beside:
            later = beside.submit(other.inflate, source, streams[half:])
            found = self.inflate(source, streams[:half])
            rest = [stream._replace(offset=self.end + stream.offset) for stream in later.result()]
        self.add(other.memory[: other.end].data)
        return found + rest


class PlainStripes:
    """The first stripes in memory, inflated by igzip in two thirds of the time that Arrow's zlib takes.

    `tail` and `footers` are those of a file without compression that has the streams of some columns only.
    """

    def __init__(self, source: Source, tail: Tail, footers: Sequence[StripeFooter], columns: Collection[int]) -> None:
        image, stored = _Image(), 0
        image.add(MAGIC)
        stripes: list[Stripe] = []
        kept: list[StripeFooter] = []
        for stripe, footer in zip(tail.stripes, footers, strict=True):
            streams = [one for one in footer.streams if one.column in columns and one.kind not in INDEX_KINDS]
            stored += sum(stream.length for stream in streams)
            if stripes and stored > ENOUGH:
                break
            if stored > MOST_STORED:
                raise _TooLarge
            start = image.end
            halves = stored > ENOUGH and INFLATED_BESIDE.get()
            inflated = (image.inflate_halves if halves else image.inflate)(source, streams)
            kept.append(replace(footer, places={(one.kind, one.column): one for one in inflated}))
            directory = encoded_footer(kept[-1])
            stripes.append(Stripe(start, 0, image.end - start, len(directory), stripe.rows))
            image.add(directory)
        self._image, self._end = image.memory, image.end
        self.footers = tuple(kept)
        plain = replace(tail.postscript, compression=Compression.NONE)
        self.tail = replace(tail, postscript=plain, stripes=tuple(stripes), rows=sum(one.rows for one in stripes))

    @classmethod
    def of(
        cls, source: Source, tail: Tail, footers: Sequence[StripeFooter], columns: Collection[int]
    ) -> PlainStripes | None:
        """None where there are few values or many bytes, or no igzip."""
        if tail.rows * len(columns) <= FEW_VALUES or codec.igzip() is None:
            return None
        try:
            return cls(source, tail, footers, columns)
        except (_TooLarge, MemoryError):
            return None

    def expanded(self, stream: Stream, limit: int) -> bytes:
        """As `Source.expanded`."""
        plain = self._image[stream.offset : stream.offset + stream.length].tobytes()
        return expand(plain, Compression.NONE, 0, limit)

    def open(self, suffix: bytes) -> _View:
        """The file with this end, which is given away."""
        image = self._image[: self._end + len(suffix)]
        if len(image) < self._end + len(suffix):
            image = np.concatenate((self._image[: self._end], np.empty(len(suffix), np.uint8)))
        image[self._end :].data[:] = suffix
        del self._image
        return image


@atexit.register
def _close_scans() -> None:
    for scan in list(_SCANS):
        # ValueError: another thread is just inside the generator.
        with suppress(ValueError):
            scan.close()


class _Part(NamedTuple):
    """Stripes that are decoded at a time, but for their first `skipped` rows; in memory where they are `plain`."""

    tail: Tail
    footers: Sequence[StripeFooter]
    skipped: int
    plain: PlainStripes | None = None

    def inflated(self, source: Source, columns: Collection[int]) -> _Part:
        """As many of its stripes as are inflated at a time, or the same where Arrow is to do it."""
        plain = PlainStripes.of(source, self.tail, self.footers, columns)
        if plain is None:
            return self
        count = len(plain.footers)
        return _Part(_part_of(self.tail, range(count)), self.footers[:count], self.skipped, plain)


def _part_from(tail: Tail, footers: Sequence[StripeFooter], given: int, batch_size: int) -> _Part:
    """From row `given` on, in whole stripes.

    Of a stripe that has very many batches just the beginning, and more of it each time: when a scan is given up, what
    Arrow has read is decoded to its end.
    """
    first, skipped = 0, given
    while first < len(tail.stripes) - 1 and skipped >= tail.stripes[first].rows:
        skipped -= tail.stripes[first].rows
        first += 1
    stripes = tail.stripes[first:]
    vast = [s.rows > _VAST_BATCHES * batch_size for s in stripes]
    part = _part_of(tail, range(first, first + (vast.index(True) or 1 if any(vast) else len(stripes))))
    rows = _FIRST_BATCHES * batch_size
    while rows <= skipped:
        rows *= _FIRST_BATCHES
    if vast[0] and rows * _FIRST_BATCHES <= part.rows:
        part = _beginning_of(part, rows)
    return _Part(part, footers[first:][: len(part.stripes)], skipped)


def _whole_stripes(source: pa.NativeFile, names: list[str]) -> Iterator[pa.RecordBatch]:
    """A batch for each stripe, read here and now: a scanner, its threads and its buffers cost more than few rows do."""
    file = po.ORCFile(source).reader  # that itself asks for the schema with each stripe
    for index in range(file.nstripes()):
        batch = file.read_stripe(index, columns=names)
        if len(batch):
            yield batch.select(names)


def _arrow_batches(open_view: Callable[[], _View], names: list[str], batch_size: int) -> Iterator[pa.RecordBatch]:
    view = open_view()
    held = weakref.ref(view)
    file = pa.PythonFile(view, mode="r") if isinstance(view, SplicedFile) else pa.BufferReader(pa.py_buffer(view))
    fragment = ds.OrcFileFormat().make_fragment(file)
    del view, file
    scanner = fragment.scanner(
        columns=names,
        batch_size=batch_size,
        use_threads=False,
        batch_readahead=0,
        fragment_readahead=0,
    )
    batches = scanner.to_batches()
    try:
        for batch in batches:
            if len(batch):
                yield batch
    finally:
        del batches, scanner, fragment
        _let_go(held)


def _let_go(held: weakref.ref[_View]) -> None:
    """Wait until Arrow's threads have dropped the file: they need the interpreter for that, which may be ending."""
    deadline = time.monotonic() + _LET_GO_SECONDS
    while (view := held()) is not None and time.monotonic() < deadline:
        if isinstance(view, SplicedFile):
            view.closed = True
        del view
        time.sleep(0.0002)


def _part_of(tail: Tail, stripes: range) -> Tail:
    """The tail as if the file had just these stripes; its statistics stay those of the whole file."""
    kept = tail.stripes[stripes.start : stripes.stop]
    return replace(tail, stripes=kept, rows=sum(stripe.rows for stripe in kept))


def _beginning_of(tail: Tail, rows: int) -> Tail:
    """The tail as if the file ended after so many rows: a reader that is stopped in a stripe decodes it to its end."""
    kept, left = [], rows
    for stripe in tail.stripes:
        if left <= 0:
            break
        kept.append(replace(stripe, rows=min(stripe.rows, left)))
        left -= stripe.rows
    return replace(tail, stripes=tuple(kept), rows=rows)
