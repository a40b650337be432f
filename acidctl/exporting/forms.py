"""Files of an export: which form they have, how rows become their bytes, and how they are read back.

Rows are rendered in any thread (`Renderer.render`) and added to a file by one. A file is described by what was added to
it; whoever reads it back has to find the same rows: as Arrow arrays of the same digest, in text as the same bytes.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from acidctl.errors import UsageError, VerificationError
from acidctl.fileformats import parquet
from acidctl.options import ExportOptions, either
from acidctl.rows.export import (
    InvalidText,
    Timestamps,
    public_batch,
    public_schema,
    row_id_array,
    text_batch,
    text_schema,
)
from acidctl.rows.snapshot import ROW_ID_STRUCT, Rows
from acidctl.storage.named_files import is_special
from acidctl.types.digest import RowDigest
from acidctl.types.format_rows import csv_header, csv_lines, json_lines
from acidctl.types.format_scalars import Damage
from acidctl.types.hive_types import Field, TypeKind, kinds
from acidctl.values import dataclass

KINDS = ("parquet", "arrow", "csv", "jsonl")
_TEXT = ("csv", "jsonl")
_ENDINGS = {"gzip": ".gz", "zstd": ".zst"}
_ARROW_CODECS = ("none", "zstd")
# A group of rows is what a reader of Parquet skips or takes: large enough to compress, small enough to be held.
_GROUP_ROWS = 1 << 20
_GROUP_BYTES = 32 << 20
_BATCH_ROWS = 1 << 16
_READ_BYTES = 4 << 20
# Of each column that is read back; else a whole row group is held as it is stored.
_BUFFER_BYTES = 1 << 16
# Of which calendar and clock the values are, as others look for it. Without it Hive (`DataWritableReadSupport`) takes
# old days for those of the calendar before 1582, and Spark 3 (`DataSourceUtils.datetimeRebaseSpec`) refuses them: it
# looks for the version of a Spark that writes the proleptic calendar.
_CALENDAR = {
    "writer.date.proleptic": "true",
    "writer.time.zone": "UTC",
    "writer.zone.conversion.legacy": "false",
    "org.apache.spark.version": "3.5.0",
}


@dataclass(frozen=True, slots=True)
class FileForm:
    """The form of all files of an export; `kind` is one of KINDS, `compression` none, gzip, snappy or zstd."""

    kind: str
    compression: str
    timestamps: Timestamps = Timestamps.MICROSECONDS
    invalid_text: InvalidText = InvalidText.REFUSE
    row_id: bool = False

    @property
    def is_text(self) -> bool:
        """Whether rows are lines."""
        return self.kind in _TEXT

    @property
    def suffix(self) -> str:
        """What names of such files end with."""
        return f".{self.kind}" + (_ENDINGS[self.compression] if self.is_text and self.compression != "none" else "")


def form_of(asked: ExportOptions, *, row_id: bool = False) -> tuple[FileForm, bool]:
    """The form that was asked for, by name or by options, and whether it is for a directory of files.

    UsageError for what contradicts itself or does not exist.
    """
    name = asked.to.rstrip("/").rpartition("/")[2]
    stem, kind, packed = _by_name(name)
    folder = asked.to.endswith("/") or (not kind and (asked.format is not None or asked.partitioned))
    if folder and asked.format is not None and not asked.partitioned and is_special(asked.to):
        folder, kind = False, asked.format  # /dev/stdout, whose name cannot tell
    elif folder:
        kind = asked.format or "parquet"
    elif not kind or not stem:
        names = ", ".join(f".{one}" for one in KINDS)
        raise UsageError(
            f"--to {asked.to}: the name of a file has to end in one of {names} (text also in .gz or .zst)",
            path=asked.to,
            hint="For a directory of files end it in /, or give --format.",
        )
    elif asked.partitioned:
        raise UsageError(
            f"--partitioned writes a directory, and --to {asked.to} names a file",
            path=asked.to,
            hint="End the name in / if a directory of that name is meant.",
        )
    elif asked.format not in (None, kind):
        raise UsageError(f"--format {asked.format} contradicts --to {asked.to}, which is a .{kind} file", path=asked.to)
    compression = _codec(asked, kind, "" if folder else packed)
    if kind in _TEXT:
        if asked.timestamps is not None:
            raise UsageError(f"--timestamps is about Parquet and Arrow; .{kind} has all timestamps exactly as text")
        if asked.invalid_utf8 == "binary":
            raise UsageError(f"--invalid-utf8 binary needs Parquet or Arrow; .{kind} is text")
    form = FileForm(kind, compression, Timestamps(asked.timestamps or "us"), InvalidText(asked.invalid_utf8), row_id)
    return form, folder


def _by_name(name: str) -> tuple[str, str, str]:
    """Stem, kind and compression that a file's name tells; a kind of "" is none that is known."""
    packed = next((codec for codec, ending in _ENDINGS.items() if name.endswith(ending)), "")
    stem, _, kind = name.removesuffix(_ENDINGS.get(packed, "")).rpartition(".")
    known = kind in (_TEXT if packed else KINDS)
    return (stem, kind, packed) if known else (name, "", "")


def _codec(asked: ExportOptions, kind: str, by_name: str) -> str:
    known = {"parquet": ("none", "gzip", "snappy", "zstd"), "arrow": _ARROW_CODECS}.get(kind, ("none", *_ENDINGS))
    if asked.compression is not None and asked.compression not in known:
        raise UsageError(f"--compression {asked.compression} is not for .{kind} files, which take {either(known)}")
    if kind not in _TEXT:
        return asked.compression or ("zstd" if kind == "parquet" else "none")
    if asked.to.endswith("/") or not _by_name(asked.to)[1]:
        return asked.compression or "none"
    if asked.compression not in (None, by_name or "none"):
        ending = _ENDINGS.get(asked.compression, "")
        raise UsageError(
            f"--compression {asked.compression} contradicts --to {asked.to}",
            path=asked.to,
            hint=f"Such a file ends in .{kind}{ending}.",
        )
    return by_name or "none"


@dataclass(frozen=True, slots=True)
class Rendered:
    """Some rows in the form of a file: a batch, or lines; `bytes` is what it takes in memory."""

    rows: int
    data: Any
    bytes: int


class Renderer:
    """Makes of rows what files of a form hold; all files of an export have its `schema`. For any thread."""

    def __init__(self, form: FileForm, fields: Sequence[Field]) -> None:
        """`fields` are the columns of the files; UsageError for those that the form cannot hold."""
        if form.kind == "parquet":
            for field in fields:
                if TypeKind.UNION in kinds(field.type):
                    raise UsageError(
                        f".parquet files cannot hold column {field.name}, which is a union",
                        hint="Leave it out with --columns, or export to .arrow or .jsonl.",
                    )
        if not fields and not form.row_id and not form.is_text:
            raise UsageError(
                f"a .{form.kind} file needs a column", hint="Name one with --columns, or all with --schema."
            )
        self.form = form
        self.damage = Damage()
        self._fields = tuple(fields)
        self._public = public_schema(fields, form.timestamps, row_id=form.row_id)
        schema = text_schema(self._public, form.invalid_text)
        self.schema = schema.with_metadata(_CALENDAR) if form.kind == "parquet" else schema

    @property
    def header(self) -> bytes:
        """The first line of a CSV file."""
        ids = [f"ROW__ID.{part}" for part in ROW_ID_STRUCT.names] if self.form.row_id else []
        names = [*ids, *(field.name for field in self._fields)]
        return csv_header(names) if names else b""

    def render(self, rows: Rows) -> Rendered:
        """UsageError for values that the form cannot hold."""
        if self.form.is_text:
            data = self.lines(rows)
            if self.damage.count and self.form.invalid_text is InvalidText.REFUSE:
                raise UsageError(
                    f"{self.damage.count:,} string{'s' * (self.damage.count != 1)} or more are not valid UTF-8",
                    hint="Choose --invalid-utf8 replace for replacement characters, or export to Parquet with binary.",
                )
            return Rendered(rows.count, data, len(data))
        ids = row_id_array(rows.row_ids, rows.count) if self.form.row_id else None
        batch = public_batch(rows.columns, self._fields, ids, self._public, self.form.timestamps)
        batch = text_batch(batch, self.form.invalid_text, self.damage)
        return Rendered(rows.count, batch, batch.nbytes)

    def lines(self, rows: Rows) -> bytes | pa.Buffer:
        """Rows as lines of CSV or JSON; strings that are not UTF-8 have replacement characters and are counted."""
        form = self.form
        if not rows.columns and not form.row_id:
            return (b"\n" if form.kind == "csv" else b"{}\n") * rows.count
        if form.kind == "csv":
            types, columns = rows.with_flat_row_id() if form.row_id else (rows.types, rows.columns)
            return csv_lines(columns, types, damage=self.damage)
        names, types, columns = rows.with_row_id() if form.row_id else (rows.names, rows.types, rows.columns)
        return json_lines(columns, names, types, damage=self.damage)


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a file: its rows (None where nobody counts them), its bytes, and a digest of one or the other."""

    rows: int | None
    bytes: int
    digest: str


class _Sink(io.RawIOBase):
    """Hands bytes on to a file, and counts and hashes them; closing it leaves the file open."""

    def __init__(self, stream: BinaryIO, *, hashed: bool) -> None:
        super().__init__()
        self._stream = stream
        self._hash = hashlib.sha256() if hashed else None
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._stream.write(view)
        self.count += len(view)
        if self._hash is not None:
            self._hash.update(view)
        return len(view)

    def tell(self) -> int:
        return self.count

    @property
    def digest(self) -> str:
        return "" if self._hash is None else f"sha256:{self._hash.hexdigest()}"


class FileWriter:
    """Writes one file to a stream, which it leaves open; `finish` tells what is in it."""

    def __init__(self, stream: BinaryIO, renderer: Renderer, *, small: bool = False) -> None:
        """A `small` file is made in memory and written at once."""
        self._form = renderer.form
        self._schema = renderer.schema
        self._sink = _Sink(stream, hashed=self._form.is_text)
        self._digest = RowDigest()
        self._rows = 0
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = self._pending_bytes = 0
        self._memory = pa.BufferOutputStream() if small else None
        #: All rows of a small file.
        self.table: pa.Table | None = None
        self._writer = self._open(renderer, self._memory or pa.PythonFile(self._sink, mode="w"))

    def _open(self, renderer: Renderer, sink: Any) -> Any:
        if self._form.kind == "parquet":
            return parquet.library().ParquetWriter(sink, self._schema, compression=self._form.compression)
        if self._form.kind == "arrow":
            codec = None if self._form.compression == "none" else self._form.compression
            return pa.ipc.new_file(sink, self._schema, options=pa.ipc.IpcWriteOptions(compression=codec))
        writer = sink
        if self._form.compression != "none":
            writer = pa.CompressedOutputStream(sink, self._form.compression)
        if self._form.kind == "csv":
            writer.write(renderer.header)
        return writer

    @property
    def bytes(self) -> int:
        """How much has been handed to the stream so far."""
        return self._sink.count

    def add(self, rendered: Rendered) -> None:
        """Add rows; they go to the stream in groups."""
        self._rows += rendered.rows
        if self._form.is_text:
            self._writer.write(rendered.data)
            return
        self._digest.update(None, rendered.data.columns)
        self._pending.append(rendered.data)
        self._pending_rows += rendered.rows
        self._pending_bytes += rendered.bytes
        most = _GROUP_ROWS if self._form.kind == "parquet" else _BATCH_ROWS
        if self._pending_rows >= most or self._pending_bytes >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending).replace_schema_metadata(self._schema.metadata)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        self.table = table if self._memory is not None else None
        if self._form.kind == "parquet":
            self._writer.write_table(table, row_group_size=_GROUP_ROWS)
            if self._memory is None:
                del table
                _give_back()
        else:
            self._writer.write_table(table.combine_chunks(), max_chunksize=_BATCH_ROWS)

    def finish(self) -> Content:
        """End the file."""
        self._flush()
        self._writer.close()
        if self._memory is not None:
            self._sink.write(self._memory.getvalue())
        digest = self._sink.digest if self._form.is_text else self._digest.hexdigest()
        return Content(self._rows, self._sink.count, digest)


def _give_back() -> None:
    """Return to the system what decoders and encoders have freed; it adds up to more than they hold at a time."""
    pa.default_memory_pool().release_unused()
    pa.system_memory_pool().release_unused()  # of malloc, which the C++ reader of ORC takes from


def require_same(stream: BinaryIO, written: Content, form: FileForm, shown: str, table: pa.Table | None = None) -> None:
    """Read a file from its beginning to its end; VerificationError where it is not what was written.

    `table` are all its rows, where they are at hand: to compare is quicker than to hash.
    """
    found = _text_content(stream) if form.is_text else _batches_content(stream, form, shown, table, written)
    same = found.bytes == written.bytes and found.digest == written.digest
    if not same or found.rows not in (None, written.rows):
        raise VerificationError(
            f"{shown} was read back and is not what was written: {found} instead of {written}",
            path=shown,
            hint="Nothing was published. Run the command again; if it happens again, check disk, memory and network.",
        )


def _text_content(stream: BinaryIO) -> Content:
    count, known = 0, hashlib.sha256()
    while chunk := stream.read(_READ_BYTES):
        known.update(chunk)
        count += len(chunk)
    return Content(None, count, f"sha256:{known.hexdigest()}")


def _batches_content(stream: BinaryIO, form: FileForm, shown: str, table: pa.Table | None, written: Content) -> Content:
    digest = RowDigest()
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    # A small file costs more by its many reads than by its bytes, and many are read side by side.
    small = size <= _READ_BYTES
    source = pa.BufferReader(stream.read()) if small else pa.PythonFile(stream, mode="r")
    try:
        if form.kind == "parquet":
            file = parquet.library().ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False)
            if table is not None and small:
                found = file.read(use_threads=False)
                if found.equals(table):  # not where there is a NaN, which equals nothing
                    return Content(len(found), size, written.digest)
            batches = file.iter_batches(batch_size=_BATCH_ROWS, use_threads=not small)
        else:
            reader = pa.ipc.open_file(source)
            batches = (reader.get_batch(place) for place in range(reader.num_record_batches))
        for batch in batches:
            digest.update(None, batch.columns)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise VerificationError(f"{shown} was written and cannot be read: {error}", path=shown) from error
    return Content(digest.rows, size, digest.hexdigest())
