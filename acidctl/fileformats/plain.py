"""The file of an insert-only table, in whatever format: which one it is, and rows by one surface.

Hive goes by what its metastore says of the table. Without that the first bytes tell ORC and Parquet; text has no such
bytes, so it needs the DDL. What acidctl does not read is named: such a file is healthy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cached_property, partial
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
    """An open data file, of which `rows.source` makes a source; the stream below is its opener's to close.

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
# Parts of the words after STORED AS, and of the names of input formats and SerDes.
_WORDS = (
    ("orc", FileFormat.ORC),
    ("parquet", FileFormat.PARQUET),
    ("text", FileFormat.TEXT),
    ("json", FileFormat.TEXT),
    ("avro", FileFormat.AVRO),
    ("sequence", FileFormat.SEQUENCE),
    ("rcfile", FileFormat.RC),
)
_READ = (FileFormat.ORC, FileFormat.PARQUET, FileFormat.TEXT)
_READ_IT_ELSEWHERE = "Read this table with Hive, or copy it there into a table stored as ORC or Parquet."


class PlainFiles:
    """Opens the files of one insert-only table, which all have one format.

    `table` is what the DDL says, None without one.
    """

    def __init__(self, table: TableSchema | None = None) -> None:
        self._table = table if table is not None and table.from_ddl else None
        self._seen: tuple[FileFormat, str] | None = None

    def open(self, stream: BinaryIO, name: str) -> RowFile | None:
        """The rows of an open file; None for ORC, which has its own reader.

        Raises NotAcidTableError for a format that is not read, and where files of one table differ in format.
        """
        stream.seek(0)
        head = stream.read(_MAGIC_BYTES)
        stream.seek(0)
        found = self._format(head, name)
        if self._seen is None:
            self._seen = found, name
        elif self._seen[0] is not found:
            first, other = self._seen
            raise NotAcidTableError(
                f"{name} is {found.value} and {other} is {first.value}; acidctl reads tables of one format",
                path=name,
                hint="Read the partitions of each format by themselves with --partition, or rewrite them with Hive.",
            )
        if found is FileFormat.TEXT:
            return self._text_file(stream, name)
        return ParquetFile(stream, name, self._by_position()) if found is FileFormat.PARQUET else None

    def _format(self, head: bytes, name: str) -> FileFormat:
        """What the DDL says, else what the file looks like; NotAcidTableError for what is not read."""
        looks = next((kind for magic, kind in _MAGICS if head.startswith(magic)), None)
        stated = self._stated
        if stated is FileFormat.TEXT:
            # Text may begin with anything.
            return stated
        found = looks or stated
        if found is None:
            raise NotAcidTableError(
                f"{name} is neither ORC nor Parquet; a text table can only be read with its DDL",
                path=name,
                hint="Give the text of SHOW CREATE TABLE with --schema @FILE.",
            )
        if found not in _READ:
            raise NotAcidTableError(
                f"{name} is in the format {found.value}, which acidctl does not read",
                path=name,
                hint=_READ_IT_ELSEWHERE,
            )
        if stated is not None and stated is not looks:
            kind = "no file of that format" if looks is None else looks.value
            raise NotAcidTableError(
                f"the DDL says that the table is {stated.value}, and {name} is {kind}",
                path=name,
                hint="Leave the partition of that file out with --partition, or give the DDL that fits it.",
            )
        return found

    @cached_property
    def _stated(self) -> FileFormat | None:
        """The format that the DDL states; a DDL that states none may be of any that tells itself, else of text."""
        if self._table is None:
            return None
        for text in (self._table.stored_as, self._table.serde):
            word = (text or "").rpartition(".")[2].lower()
            found = next((kind for part, kind in _WORDS if part in word), None)
            if found is not None:
                return found
        return FileFormat.TEXT if self._table.serde is not None or self._table.serde_properties else None

    @cached_property
    def _text_file(self) -> Callable[[BinaryIO, str], RowFile]:
        from acidctl.fileformats.text import TextFile, TextLayout

        assert self._table is not None
        return partial(TextFile, layout=TextLayout.of(self._table))

    def _by_position(self) -> StructType | None:
        """The table's columns where Hive takes those of a Parquet file by position."""
        stated = None if self._table is None else self._table.serde_property(_INDEX_ACCESS)
        return self._table.columns if self._table is not None and (stated or "").lower() == "true" else None
