"""One task: the live files of one bucket in, one verified file out. The same function on every engine.

A task knows its spec and nothing else. It writes under a name that no other attempt has, reads back what it wrote, and
leaves nothing behind when it fails, so that engines may run it as often as they like.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import resource
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from acidctl.compaction.attempts import Attempt
from acidctl.compaction.cross_check import HINT
from acidctl.compaction.inputs import PlainRows, TaskEvents, state_of
from acidctl.compaction.joining import Measure, join_parts, put_together, rows_only, write_exactly
from acidctl.compaction.plan import BYTES_DIGEST, Role, TaskResult, TaskSpec
from acidctl.compaction.stripes import CopyProof
from acidctl.compaction.verify import Expected
from acidctl.engine import TaskOutcome
from acidctl.errors import AcidctlError, DamagedDataError, InternalError, NotAcidTableError, VerificationError
from acidctl.fileformats import parquet
from acidctl.format.events import Operation
from acidctl.orc.acidmeta import TARGET
from acidctl.orc.protobuf import encode_varint
from acidctl.orc.reader import INFLATED_BESIDE
from acidctl.orc.writer import Backend, NeedsExactWriter, write_orc
from acidctl.phases import since, so_far, timed
from acidctl.rows.pipeline import read_ahead
from acidctl.state.inventory import data_files, live_entries
from acidctl.storage.port import Storage, join
from acidctl.storage.resolve import resolve
from acidctl.types.digest import RowDigest
from acidctl.values import dataclass

# More inputs than that do not overlap, or are put together before they are opened.
_OPEN_FILES = 1 << 16


def run_task(spec: TaskSpec, *, threads: bool = True) -> TaskResult:
    """Do a task and verify what it wrote; the result names the file, or none when there was nothing to write.

    `threads` lets decoding, hashing and encoding run side by side, for when the machine has cores to spare.
    Raises DamagedDataError for inputs that cannot be read or merged, VerificationError when the file does not
    hold what was merged, StorageError.
    """
    started, before = time.monotonic(), so_far()
    _allow_open_files()
    storage, root = resolve(spec.url, spec.storage_options)
    role = spec.task.role
    if role is Role.JOIN:
        result = join_parts(spec, storage, root, threads=threads)
    elif role is Role.BYTES:
        result = _concatenate(spec, storage, root)
    elif role is Role.ROWS and spec.table.file_format == "parquet":
        result = _rewrite_parquet(spec, storage, root)
    elif role is Role.ROWS and spec.table.file_format != "orc":
        raise InternalError(f"Rows of a table in {spec.table.file_format} cannot be rewritten.")
    else:
        plain = role is Role.ROWS
        events = PlainRows(spec, storage, root) if plain else TaskEvents(spec, storage, root, threads=threads)
        try:
            result = _write(spec, storage, root, events, Backend.ARROW, threads)
        except NeedsExactWriter:
            # Which values there are shows while they pass; then all is written once more, where need be value by value.
            result = _write(spec, storage, root, events, Backend.EXACT, threads)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Of this process so far, in bytes.
    return replace(
        result,
        seconds=time.monotonic() - started,
        peak_memory=peak if sys.platform == "darwin" else peak * 1024,
        process=os.getpid(),
        phases=since(before),
    )


def _allow_open_files() -> None:
    """As many as the system lets this process have: inputs that overlap are open side by side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def outcome_of(index: int, spec: TaskSpec, threads: bool = True) -> TaskOutcome:
    """`run_task` for engines: what went wrong is in the outcome, in a form that can be pickled."""
    before = INFLATED_BESIDE.set(threads)
    try:
        return TaskOutcome(index, run_task(spec, threads=threads))
    except AcidctlError as problem:
        error = _portable(problem)
    except MemoryError:
        error = AcidctlError(
            f"there was not enough memory to write {spec.task.output}",
            hint="Run fewer tasks at a time: a smaller --parallelism or --memory.",
        )
    except Exception as problem:
        text = " ".join(str(problem).split())
        what = f"unexpected {type(problem).__name__}" + (f": {text}" if text else "")
        error = InternalError(f"{what} (while writing {spec.task.output})")
    finally:
        INFLATED_BESIDE.reset(before)
    return TaskOutcome(index, error=error)


def _write(
    spec: TaskSpec,
    storage: Storage,
    root: str,
    events: TaskEvents | PlainRows,
    backend: Backend,
    threads: bool,
) -> TaskResult:
    role, metadata = spec.task.role, {TARGET: spec.table.dialect.encode()}
    operation = Operation.DELETE if role is Role.DELETES else Operation.INSERT
    measure = Measure(acid=role is not Role.ROWS)
    stream = timed("merge", measure.passed(events))
    if threads:
        stream = read_ahead(stream)
    with closing(stream):  # type: ignore[type-var]
        first = next(stream, None)
        if first is None:
            return events.read
        attempt = Attempt(storage, root, spec)
        items, columns, settings = chain([first], stream), events.columns, spec.table.writer
        copied: tuple[CopyProof, ...] = ()
        with attempt.create() as sink:
            if events.stripes is not None and events.stripes.like is not None:
                written, copied = put_together(sink, items, events, settings, metadata, backend)
            elif measure.acid and backend is Backend.EXACT:
                written = write_exactly(sink, rows_only(items), columns, settings, metadata, operation)
            else:
                rows = rows_only(items)
                written = write_orc(
                    sink, rows, columns, settings, acid=measure.acid, metadata=metadata, backend=backend
                )
    expected = Expected(
        rows=measure.rows,
        digest=measure.digest.hexdigest(),
        columns=str(columns),
        counts=measure.sorted_counts(),
        acid=measure.acid,
        operation=operation,
        collapsed=role is Role.SURVIVING,
        bucket_id=spec.task.bucket_id,
        metadata=metadata,
        copied=copied,
    )
    return attempt.verified(written, expected, events.read, threads=threads)


def _portable(error: AcidctlError) -> AcidctlError:
    """The error as it is where it can be pickled, else one that reads the same."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception:
        pass
    plain = AcidctlError(error.message, path=error.path, hint=error.hint)
    plain.exit_code, plain.code = error.exit_code, error.code
    return plain


# --- Files of insert-only tables: their rows have no ids, so compacting means putting files together.
#
# Parquet files of one schema become one, row group by row group; text is concatenated byte by byte. Whatever was
# written is read back and compared before it counts.

CHUNK = 1 << 20
_GZIP = ".gz"
#: What a window size of zlib needs to be added to read gzip.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
# Compressed text that stays whole when it is put together; others have endings of their own.
_STRANGE_ENDINGS = (".bz2", ".deflate", ".snappy", ".lz4", ".lzo", ".zst", ".xz")


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
                self._take(self._member.decompress(chunk, CHUNK))
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
    while chunk := stream.read(CHUNK):
        yield chunk


# --- The footer of a Parquet file with another `created_by`, by which Hive decides how it reads timestamps.
#
# Arrow writes its own name there and offers no way to write another. The footer is a Thrift struct (FileMetaData of
# parquet.thrift) in the compact protocol, where lengths are written as protobuf's are, followed by its own length and a
# magic word.


_PARQUET_MAGIC = b"PAR1"
_FOOTER_END = 4 + len(_PARQUET_MAGIC)


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
    length = (
        struct.unpack("<I", end[-_FOOTER_END : -len(_PARQUET_MAGIC)])[0]
        if end.endswith(_PARQUET_MAGIC) and len(end) >= _FOOTER_END
        else None
    )
    if length is None or length + _FOOTER_END > len(end):
        raise InternalError("Arrow has not ended a Parquet file as was expected.")
    start = len(end) - _FOOTER_END - length
    footer = end[start:-_FOOTER_END]
    # A string is its length and its bytes; behind this one only orders of columns follow, which hold no text.
    arrow = f"parquet-cpp-arrow version {pa.cpp_version}".encode()
    stored, name = encode_varint(len(arrow)) + arrow, created_by.encode()
    before, found, after = footer.rpartition(stored)
    if not found:
        raise InternalError("Arrow has not written its name into a Parquet file.")
    footer = before + encode_varint(len(name)) + name + after
    return end[:start] + footer + struct.pack("<I", len(footer)) + _PARQUET_MAGIC


_BATCH_ROWS = 32768
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 64 << 20
# Hive's readers convert by these.
_WRITER_KEYS = (parquet.WRITER_ZONE, parquet.DATE_PROLEPTIC, parquet.ZONE_LEGACY)
_PARQUET_CODECS = {
    "UNCOMPRESSED": "none",
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "BROTLI": "brotli",
    "ZSTD": "zstd",
    "LZ4": "lz4",
}


@dataclass(frozen=True, slots=True)
class _ParquetForm:
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


def _rewrite_parquet(spec: TaskSpec, storage: Storage, root: str) -> TaskResult:
    paths = _plain_paths(spec)
    digest = RowDigest()
    rows = 0
    form: _ParquetForm | None = None
    for path in paths:
        found = _parquet_form(storage, root, path)
        if form is not None and found.fixed != form.fixed:
            raise _refused(storage, root, path, f"differs from {paths[0]} in its columns or in how it stores times")
        form = form or found
    if form is None:
        return TaskResult.nothing(spec)
    old_times = "INT96" in form.physical
    attempt = Attempt(storage, root, spec)
    with attempt.create() as sink:
        holder = TailHolder(sink)
        with parquet.library().ParquetWriter(
            holder,
            form.schema,
            compression=form.codec,
            use_deprecated_int96_timestamps=old_times,
            use_compliant_nested_type=False,
            store_schema=False,
        ) as writer:
            group: list[pa.RecordBatch] = []
            for path in paths:
                for batch in _parquet_batches(storage, root, path):
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
    _verify_parquet(attempt, form, digest)
    return TaskResult(
        output=spec.task.output,
        path=attempt.path,
        rows=rows,
        bytes=attempt.size(),
        rows_in=rows,
        digest=digest.hexdigest(),
        writer="parquet",
    )


def _parquet_form(storage: Storage, root: str, path: str) -> _ParquetForm:
    with _opened_parquet(storage, root, path) as file:
        metadata = file.metadata
        known = metadata.metadata or {}
        codecs = {
            metadata.row_group(group).column(column).compression
            for group in range(metadata.num_row_groups)
            for column in range(metadata.num_columns)
        }
        codec = _PARQUET_CODECS.get(codecs.pop() if len(codecs) == 1 else "SNAPPY")
        if codec is None:
            raise _refused(storage, root, path, "is compressed in a way that is not known here")
        return _ParquetForm(
            file.schema_arrow.remove_metadata(),
            tuple(file.schema.column(i).physical_type for i in range(len(file.schema))),
            tuple((key, known[key]) for key in _WRITER_KEYS if key in known),
            metadata.created_by if (metadata.created_by or "").startswith(parquet.PARQUET_MR) else None,
            codec,
        )


def _parquet_batches(storage: Storage, root: str, path: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file; refused where nanoseconds do not hold a moment of it."""
    with _opened_parquet(storage, root, path) as file, _opened_parquet(storage, root, path, "us") as coarse:
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
def _opened_parquet(storage: Storage, root: str, path: str, unit: str = "ns") -> Iterator[Any]:
    name = storage.display(join(root, path))
    with storage.open(join(root, path)) as stream, parquet.readable(name):
        yield parquet.opened(stream, name, unit)


def _refused(storage: Storage, root: str, path: str, why: str) -> NotAcidTableError:
    """The files are healthy, and no table of a kind that this task can write."""
    name = storage.display(join(root, path))
    return NotAcidTableError(
        f"{name} {why}, so it cannot be put together with others exactly",
        path=name,
        hint="Compact this table with Hive; nothing was published.",
    )


def _verify_parquet(attempt: Attempt, form: _ParquetForm, expected: RowDigest) -> None:
    found = RowDigest()
    try:
        with attempt.open() as stream, parquet.library().ParquetFile(pa.PythonFile(stream, mode="r")) as file:
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
