"""Files of insert-only tables: their rows have no ids, so compacting means putting files together.

ORC rows are fitted to the table's columns; Parquet files of one schema become one, row group by row group; text is
concatenated byte by byte. Whatever was written is read back and compared before it counts.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import BinaryIO

from acidctl.compaction.input_sample import InputSample, open_by_name
from acidctl.compaction.inputs import state_of
from acidctl.compaction.plan import Role
from acidctl.compaction.spec import BYTES_DIGEST, Attempt, TaskResult, TaskSpec
from acidctl.compaction.verify import Expected, verify_file
from acidctl.errors import DamagedDataError, InternalError, VerificationError
from acidctl.format.events import EventBatch
from acidctl.orc.acidmeta import TARGET
from acidctl.orc.writer import Backend, NeedsExactWriter, write_orc
from acidctl.rows.pipeline import read_ahead
from acidctl.rows.scan import BATCH_ROWS, Projection
from acidctl.rows.sources import live_sources
from acidctl.state.resolve import data_files, live_entries
from acidctl.storage.port import Storage, join
from acidctl.types.hive_types import Dialect, StructType
from acidctl.types.schema import parse_type
from acidctl.types.stored_digest import RowDigest

_CHUNK = 1 << 20
_GZIP = ".gz"
#: What a window size of zlib needs to be added to read gzip.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
# Compressed text that stays whole when it is put together; others are told by their endings.
_STRANGE_ENDINGS = (".bz2", ".deflate", ".snappy", ".lz4", ".lzo", ".zst", ".xz")


def rewrite_plain(spec: TaskSpec, storage: Storage, root: str, *, threads: bool = True) -> TaskResult:
    """A task with role ROWS or BYTES; see `compaction.task.run_task`."""
    if spec.task.role is Role.BYTES:
        return _concatenate(spec, storage, root)
    if spec.table.file_format == "orc":
        return _rewrite_orc(spec, storage, root, threads)
    if spec.table.file_format == "parquet":
        from acidctl.compaction.parquet import rewrite_parquet

        return rewrite_parquet(spec, storage, root, _plain_paths(spec))
    raise InternalError(f"Rows of a table in {spec.table.file_format} cannot be rewritten.")


def _plain_paths(spec: TaskSpec) -> list[str]:
    """The data files of a task that have bytes, below the location, in the order in which they are read."""
    entries = live_entries(state_of(spec))
    files = (file.info for entry in entries for file in data_files(entry, insert_only=True))
    return [info.path for info in files if info.size]


def _rewrite_orc(spec: TaskSpec, storage: Storage, root: str, threads: bool) -> TaskResult:
    try:
        return _write_orc(spec, storage, root, threads, Backend.ARROW)
    except NeedsExactWriter:
        return _write_orc(spec, storage, root, threads, Backend.EXACT)


def _write_orc(spec: TaskSpec, storage: Storage, root: str, threads: bool, backend: Backend) -> TaskResult:
    columns = parse_type(spec.table.columns)
    assert isinstance(columns, StructType)
    projection = Projection(columns, tuple(range(len(columns.fields))), Dialect(spec.table.dialect))
    sources, _ = live_sources(storage, root, state_of(spec))
    digest = RowDigest()
    sample = InputSample(columns, bucket_id=None, span=None, seed=spec.task.output, stored=True)
    paths = {storage.display(join(root, path)): path for path in spec.task.files}
    sample.read(sources, open_by_name(lambda path: storage.open(join(root, path)), paths))

    def rows() -> Iterator[EventBatch]:
        for source in sources:
            for batch in sample.stored(source, source.events(projection, BATCH_ROWS)):
                if len(batch):
                    digest.update(None, batch.columns)
                    yield batch

    stream = read_ahead(rows()) if threads else rows()
    metadata = {TARGET: spec.table.dialect.encode()}
    with closing(stream):  # type: ignore[type-var]
        first = next(stream, None)
        if first is None:
            return TaskResult.nothing(spec)
        attempt = Attempt(storage, root, spec)
        with attempt.create() as sink:
            batches = chain([first], stream)
            written = write_orc(
                sink, batches, columns, spec.table.writer, acid=False, metadata=metadata, backend=backend
            )
    expected = Expected(digest.rows, digest.hexdigest(), str(columns), acid=False, metadata=metadata)
    return TaskResult(
        output=spec.task.output,
        path=attempt.path,
        rows=written.rows,
        bytes=written.bytes,
        rows_in=digest.rows,
        digest=verify_file(attempt.open, attempt.name, expected, threads=threads),
        writer=written.backend.value,
    )


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
