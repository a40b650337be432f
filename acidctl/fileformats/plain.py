"""The file of an insert-only table, in whatever format: which one it is, and rows by one surface.

Hive goes by what its metastore says of the table. Without that the first bytes tell ORC and Parquet; text has no such
bytes, so it needs the DDL. What acidctl does not read is named: such a file is healthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import BinaryIO, Protocol

import pyarrow as pa

from acidctl.errors import NotAcidTableError
from acidctl.fileformats.parquet import ParquetFile
from acidctl.format.events import RowId
from acidctl.types.hive_types import Dialect, StructType
from acidctl.types.schema import TableSchema

_MAGIC_BYTES = 4
_INDEX_ACCESS = "parquet.column.index.access"


class RowFile(Protocol):
    """An open data file, of which `rows.scan` makes a source; the stream below is its opener's to close.

    `OrcFile` is one, and only there `is_acid` may be true. Stripes are what a scan may be narrowed to: stripes of ORC,
    row groups of Parquet; of text the whole file.
    """

    name: str
    is_acid: bool

    @property
    def rows(self) -> int:
        """Rows of the file; of an ACID file its events."""

    @property
    def columns(self) -> StructType:
        """The user's columns."""

    @property
    def dialect(self) -> Dialect:
        """By whose rules its columns become those of the table."""

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """The rows of each stripe."""

    def rows_per_batch(self, most: int) -> int:
        """How many rows to take at a time: `most`, fewer where rows are wide, so that memory is bounded."""

    def is_wide(self) -> bool:
        """Whether a timestamp column has values that nanoseconds since 1970 may not hold."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int = ...,
        fields: Sequence[int] | None = None,
        stripes: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream record batches; `fields` are positions in `columns`, otherwise as `OrcFile.scan`."""

    def key_range(self) -> tuple[RowId, RowId] | None:
        """Inclusive bounds of an ACID file's keys; None when unknown."""

    def operations(self) -> frozenset[int] | None:
        """The operation codes that can occur in an ACID file; None when unknown."""

    def stripe_key_ranges(self) -> tuple[tuple[RowId, RowId] | None, ...]:
        """The same as `key_range` for each stripe."""


class FileFormat(Enum):
    """What insert-only tables hold; the value is how messages call it."""

    ORC = "ORC"
    PARQUET = "Parquet"
    TEXT = "text"
    AVRO = "Avro"
    SEQUENCE = "sequence file"
    RC = "RCFile"


_MAGICS = (
    (b"ORC", FileFormat.ORC),
    (b"PAR1", FileFormat.PARQUET),
    (b"Obj\x01", FileFormat.AVRO),
    (b"SEQ", FileFormat.SEQUENCE),
    (b"RCF", FileFormat.RC),
)
_READ = (FileFormat.ORC, FileFormat.PARQUET)


class PlainFiles:
    """Opens the files of one insert-only table, which all have one format.

    `table` is what the DDL says, None without one.
    """

    def __init__(self, table: TableSchema | None = None) -> None:
        self._table = table
        self._seen: tuple[FileFormat, str] | None = None

    def open(self, stream: BinaryIO, name: str) -> ParquetFile | None:
        """The rows of an open file; None for ORC, which has its own reader.

        Raises NotAcidTableError for a format that is not read, and where files of one table differ in format.
        """
        stream.seek(0)
        head = stream.read(_MAGIC_BYTES)
        stream.seek(0)
        found = next((kind for magic, kind in _MAGICS if head.startswith(magic)), FileFormat.TEXT)
        if found not in _READ:
            raise _not_read(found, name)
        if self._seen is None:
            self._seen = found, name
        elif self._seen[0] is not found:
            first, other = self._seen
            raise NotAcidTableError(
                f"{name} is {found.value} and {other} is {first.value}; acidctl reads tables of one format",
                path=name,
                hint="Read the partitions of each format by themselves with --partition, or rewrite them with Hive.",
            )
        return ParquetFile(stream, name, self._by_position()) if found is FileFormat.PARQUET else None

    def _by_position(self) -> StructType | None:
        """The table's columns where Hive takes those of a Parquet file by position."""
        stated = None if self._table is None else self._table.table_property(_INDEX_ACCESS)
        return self._table.columns if self._table is not None and (stated or "").lower() == "true" else None


def _not_read(found: FileFormat, name: str) -> NotAcidTableError:
    known = "ORC and Parquet"
    if found is FileFormat.TEXT:
        return NotAcidTableError(f"{name} is neither ORC nor Parquet, and acidctl reads {known}", path=name)
    return NotAcidTableError(
        f"{name} is in the format {found.value}, and acidctl reads {known}",
        path=name,
        hint="Read this table with Hive, or copy it there into a table stored as ORC or Parquet.",
    )
