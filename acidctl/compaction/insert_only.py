"""Files of insert-only tables: their rows have no ids, so compacting means putting files together.

Parquet files of one schema become one, row group by row group; text is
concatenated byte by byte. Whatever was written is read back and compared before it counts.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from acidctl.compaction.cross_check import HINT
from acidctl.compaction.inputs import state_of
from acidctl.compaction.plan import BYTES_DIGEST, Role, TaskResult, TaskSpec
from acidctl.compaction.verify import Attempt
from acidctl.errors import DamagedDataError, InternalError, VerificationError
from acidctl.orc.protobuf import encode_varint
from acidctl.state.resolve import data_files, live_entries
from acidctl.storage.port import Storage, join
from acidctl.types.digest import RowDigest

_CHUNK = 1 << 20
_GZIP = ".gz"
#: What a window size of zlib needs to be added to read gzip.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
# Compressed text that stays whole when it is put together; others have endings of their own.
_STRANGE_ENDINGS = (".bz2", ".deflate", ".snappy", ".lz4", ".lzo", ".zst", ".xz")


def rewrite_plain(spec: TaskSpec, storage: Storage, root: str) -> TaskResult:
    """A task with role BYTES, or ROWS of Parquet files; see `compaction.task.run_task`."""
    if spec.task.role is Role.BYTES:
        return _concatenate(spec, storage, root)
    if spec.table.file_format == "parquet":
        return rewrite_parquet(spec, storage, root, _plain_paths(spec))
    raise InternalError(f"Rows of a table in {spec.table.file_format} cannot be rewritten.")


def _plain_paths(spec: TaskSpec) -> list[str]:
    """The data files of a task that have bytes, below the location, in the order in which they are read."""
    entries = live_entries(state_of(spec))
    files = (file.info for entry in entries for file in data_files(entry, insert_only=True))
    return [info.path for info in files if info.size]


def _concatenate(spec: TaskSpec, storage: Storage, root: str) -> TaskResult:
    """All bytes of text files one after the other; a last line without its end is given one.

    Hive tells compressed text by the name, so files are compressed all or none, as the output's name says.
    """
    paths = _plain_paths(spec)
    packed = spec.task.output.endswith(_GZIP)
    for path in paths:
        if path.endswith(_STRANGE_ENDINGS) or path.endswith(_GZIP) != packed:
            raise DamagedDataError(
                f"{storage.display(join(root, path))} is not compressed as {spec.task.output} is to be",
                path=path,
                hint="Compact the table with Hive, which decodes the text; nothing was published.",
            )
    if not paths:
        return TaskResult.nothing(spec)
    attempt = Attempt(storage, root, spec)
    written = hashlib.sha256()
    lines = size = 0
    with attempt.create() as sink:
        for path in paths:
            name = storage.display(join(root, path))
            text = _Text(name, packed)
            with storage.open(join(root, path)) as source:
                for chunk in chain(_chunks(source), text.ending()):
                    text.add(chunk)
                    sink.write(chunk)
                    written.update(chunk)
                    size += len(chunk)
            lines += text.lines
    _verify_text(attempt, packed, written.hexdigest(), lines)
    return TaskResult(
        output=spec.task.output,
        path=attempt.path,
        rows=lines,
        bytes=size,
        rows_in=lines,
        digest=BYTES_DIGEST + written.hexdigest(),
        writer="bytes",
    )


def _verify_text(attempt: Attempt, packed: bool, expected: str, lines: int) -> None:
    """Read the file back: the very bytes, and every line ended."""
    found = hashlib.sha256()
    text = _Text(attempt.name, packed)
    with attempt.open() as stream:
        for chunk in _chunks(stream):
            found.update(chunk)
            text.add(chunk)
    if found.hexdigest() != expected or text.lines != lines or list(text.ending()):
        raise VerificationError(
            f"{attempt.name} does not hold the bytes that were written",
            path=attempt.name,
            hint="Nothing of it is published; the table is as it was.",
        )


class _Text:
    """Follows the bytes of a text file as they pass: how many lines, whether the last one ended.

    DamagedDataError where compressed bytes cannot be expanded or stop short.
    """

    def __init__(self, name: str, packed: bool) -> None:
        self._name = name
        self._packed = packed
        self._member = zlib.decompressobj(_GZIP_WINDOW) if packed else None
        self._inside = False
        self._last = b""
        self.lines = 0

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the file."""
        if self._member is None:
            self._take(chunk)
            return
        while chunk:
            try:
                self._inside = True
                # Bounded: a chunk may stand for a thousand times as much.
                self._take(self._member.decompress(chunk, _CHUNK))
            except zlib.error as error:
                raise self._damaged(str(error)) from error
            if self._member.eof:
                chunk = self._member.unused_data
                self._member = zlib.decompressobj(_GZIP_WINDOW)
                self._inside = False
            else:
                chunk = self._member.unconsumed_tail

    def ending(self) -> Iterator[bytes]:
        """What the file lacks at its end: nothing, or the end of its last line."""
        if self._inside:
            raise self._damaged("it stops in the middle")
        if self._last and self._last != b"\n":
            yield _gzipped(b"\n") if self._packed else b"\n"

    def _take(self, text: bytes) -> None:
        if text:
            self.lines += text.count(b"\n")
            self._last = text[-1:]

    def _damaged(self, why: str) -> DamagedDataError:
        return DamagedDataError(
            f"{self._name} is not gzip to its end: {why}",
            path=self._name,
            hint="Restore the file from a copy; nothing was published.",
        )


def _gzipped(text: bytes) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(text) + packer.flush()


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


# --- Parquet files of one schema as one file, for insert-only tables.

# --- The footer of a Parquet file with another `created_by`, by which Hive decides how it reads timestamps.
#
# Arrow writes its own name there and offers no way to write another. The footer is a Thrift struct (FileMetaData of
# parquet.thrift) in the compact protocol, where lengths are written as protobuf's are, followed by its own length and a
# magic word.


_MAGIC = b"PAR1"
_END = 4 + len(_MAGIC)


class TailHolder:
    """A sink for Arrow's Parquet writer that passes on what it is given, until `hold` keeps the rest back."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._held: bytearray | None = None
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Take all the bytes."""
        if self._held is None:
            return self._sink.write(data)
        self._held += data
        return len(data)

    def flush(self) -> None:
        """Nothing waits here that may go on."""

    def hold(self) -> None:
        """Only the footer is still to come."""
        self._held = bytearray()

    def release(self, created_by: str) -> None:
        """Pass on what was held, which ends with the footer, as if `created_by` had written it."""
        assert self._held is not None
        self._sink.write(renamed(bytes(self._held), created_by))
        self._held = None

    def close(self) -> None:
        """The sink is closed by whoever opened it."""
        self.closed = True


def renamed(end: bytes, created_by: str) -> bytes:
    """The end of a file, from wherever before its footer, with another writer's name in it."""
    length = struct.unpack("<I", end[-_END : -len(_MAGIC)])[0] if end.endswith(_MAGIC) and len(end) >= _END else None
    if length is None or length + _END > len(end):
        raise InternalError("Arrow has not ended a Parquet file as was expected.")
    start = len(end) - _END - length
    footer = end[start:-_END]
    # A string is its length and its bytes; behind this one only orders of columns follow, which hold no text.
    arrow = f"parquet-cpp-arrow version {pa.cpp_version}".encode()
    stored, name = encode_varint(len(arrow)) + arrow, created_by.encode()
    before, found, after = footer.rpartition(stored)
    if not found:
        raise InternalError("Arrow has not written its name into a Parquet file.")
    footer = before + encode_varint(len(name)) + name + after
    return end[:start] + footer + struct.pack("<I", len(footer)) + _MAGIC


_BATCH_ROWS = 32768
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 64 << 20
# Hive's `ParquetRecordReaderBase` converts timestamps to the writer's zone only where this wrote them.
_PARQUET_MR = "parquet-mr"
# Hive: `DataWritableWriteSupport` writes these, its readers convert by them.
_WRITER_KEYS = (b"writer.time.zone", b"writer.date.proleptic", b"writer.zone.conversion.legacy")
_CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4": "lz4"}


@dataclass(frozen=True, slots=True)
class _Form:
    """What all files of a task must have in common.

    `created_by` is the writer's name where Hive heeds it, whichever version it was; None where it does not.
    """

    schema: pa.Schema
    physical: tuple[str, ...]
    writer: tuple[tuple[bytes, bytes], ...]
    created_by: str | None
    codec: str

    @property
    def fixed(self) -> tuple[object, ...]:
        """What may not differ."""
        return self.schema, self.physical, self.writer, self.created_by is None


def rewrite_parquet(spec: TaskSpec, storage: Storage, root: str, paths: Sequence[str]) -> TaskResult:
    """A task with role ROWS over Parquet files, `paths` below the location; see `compaction.task.run_task`."""
    digest = RowDigest()
    rows = 0
    form: _Form | None = None
    for path in paths:
        found = _form_of(storage, root, path)
        if form is not None and found.fixed != form.fixed:
            raise _refused(storage, root, path, f"differs from {paths[0]} in its columns or in how it stores times")
        form = form or found
    if form is None:
        return TaskResult.nothing(spec)
    old_times = "INT96" in form.physical
    attempt = Attempt(storage, root, spec)
    with attempt.create() as sink:
        holder = TailHolder(sink)
        with pq.ParquetWriter(
            holder,
            form.schema,
            compression=form.codec,
            use_deprecated_int96_timestamps=old_times,
            use_compliant_nested_type=False,
            store_schema=False,
        ) as writer:
            group: list[pa.RecordBatch] = []
            for path in paths:
                for batch in _batches(storage, root, path):
                    digest.update(None, batch.columns)
                    rows += len(batch)
                    group.append(batch)
                    if sum(map(len, group)) >= _GROUP_ROWS or sum(b.nbytes for b in group) >= _GROUP_BYTES:
                        writer.write_table(pa.Table.from_batches(group))
                        group = []
            if group:
                writer.write_table(pa.Table.from_batches(group))
            writer.add_key_value_metadata({key.decode(): value.decode() for key, value in form.writer})
            if form.created_by is not None:
                holder.hold()
        if form.created_by is not None:
            holder.release(form.created_by)
    if not rows:
        return TaskResult.nothing(spec)
    _verify(attempt, form, digest)
    return TaskResult(
        output=spec.task.output,
        path=attempt.path,
        rows=rows,
        bytes=attempt.size(),
        rows_in=rows,
        digest=digest.hexdigest(),
        writer="parquet",
    )


def _form_of(storage: Storage, root: str, path: str) -> _Form:
    with _opened(storage, root, path) as file:
        metadata = file.metadata
        known = metadata.metadata or {}
        codecs = {
            metadata.row_group(group).column(column).compression
            for group in range(metadata.num_row_groups)
            for column in range(metadata.num_columns)
        }
        codec = _CODECS.get(codecs.pop() if len(codecs) == 1 else "SNAPPY")
        if codec is None:
            raise _refused(storage, root, path, "is compressed in a way that is not known here")
        return _Form(
            file.schema_arrow.remove_metadata(),
            tuple(file.schema.column(i).physical_type for i in range(len(file.schema))),
            tuple((key, known[key]) for key in _WRITER_KEYS if key in known),
            metadata.created_by if (metadata.created_by or "").startswith(_PARQUET_MR) else None,
            codec,
        )


def _batches(storage: Storage, root: str, path: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file; refused where nanoseconds do not hold a moment of it."""
    with _opened(storage, root, path) as file, _opened(storage, root, path, "us") as coarse:
        old_times = [i for i, field in enumerate(file.schema_arrow) if field.type != coarse.schema_arrow.field(i).type]
        columns = [file.schema_arrow.field(i).name for i in old_times]
        checks = coarse.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False) if columns else None
        for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
            if checks is not None:
                check = next(checks)
                for place, column in zip(old_times, check.columns, strict=True):
                    fine = batch.column(place)
                    if pa.types.is_timestamp(fine.type):
                        # Down, also before 1970, as the coarse reading does; a cast goes towards zero.
                        fine = pc.floor_temporal(fine, unit="microsecond")
                    if not fine.cast(column.type, safe=False).equals(column):
                        raise _refused(storage, root, path, "holds moments outside of the years 1677 to 2262")
            yield batch


@contextmanager
def _opened(storage: Storage, root: str, path: str, unit: str = "ns") -> Iterator[pq.ParquetFile]:
    name = storage.display(join(root, path))
    with storage.open(join(root, path)) as stream:
        try:
            with pq.ParquetFile(pa.PythonFile(stream, mode="r"), coerce_int96_timestamp_unit=unit) as file:
                yield file
        except (pa.ArrowException, OSError) as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DamagedDataError(
                f"{name} cannot be read as Parquet: {text}",
                path=name,
                hint="Restore the file from a copy; nothing was published.",
            ) from error


def _refused(storage: Storage, root: str, path: str, why: str) -> DamagedDataError:
    name = storage.display(join(root, path))
    return DamagedDataError(
        f"{name} {why}, so it cannot be put together with others exactly",
        path=name,
        hint="Compact this table with Hive; nothing was published.",
    )


def _verify(attempt: Attempt, form: _Form, expected: RowDigest) -> None:
    found = RowDigest()
    try:
        with attempt.open() as stream, pq.ParquetFile(pa.PythonFile(stream, mode="r")) as file:
            same = file.schema_arrow.remove_metadata().equals(form.schema)
            kept = file.metadata.metadata or {}
            same &= all(kept.get(key) == value for key, value in form.writer)
            same &= form.created_by in (None, file.metadata.created_by)
            for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
                found.update(None, batch.columns)
    except (pa.ArrowException, OSError) as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise VerificationError(f"{attempt.name} cannot be read back: {text}", path=attempt.name, hint=HINT) from error
    if not same or found.rows != expected.rows or found.hexdigest() != expected.hexdigest():
        raise VerificationError(
            f"{attempt.name} does not hold the rows or the columns that were written", path=attempt.name, hint=HINT
        )
