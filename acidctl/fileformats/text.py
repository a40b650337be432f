"""Text files of insert-only tables: expanded, cut into lines, and read by the SerDe that the DDL names.

Lines end where Hadoop's `LineReader` ends them: at LF, CR, or both. The ending of a file's name says how it is
compressed, as Hadoop's `CompressionCodecFactory` takes it. `LazySimpleSerDe` and `OpenCSVSerde` are known.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import DamagedDataError, NotAcidTableError
from acidctl.fileformats.lazy_values import LazyRules, column
from acidctl.format.events import WIDE
from acidctl.orc.codec import CodecError, Compression, expand_chunk
from acidctl.types.hive_types import Dialect, Primitive, StructType, TypeKind, kinds
from acidctl.types.schema import OPEN_CSV, TableSchema
from acidctl.values import dataclass

LAZY_SIMPLE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
_CHUNK = 1 << 20
_BATCH_BYTES = 6 << 20
_BATCH_ROWS = 65536
# A block of Hadoop's block codecs, the most that one chunk of it may expand to.
_MOST_BLOCK = 64 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_STREAMED = {".bz2": "bz2", ".zst": "zstd"}
_ZLIB = {".gz": 16 + zlib.MAX_WBITS, ".deflate": zlib.MAX_WBITS}
_BLOCKS = {".snappy": Compression.SNAPPY, ".lz4": Compression.LZ4}
_UNREAD = (".lzo", ".lzo_deflate", ".bz", ".br")
_TIMESTAMPS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL})
# Of one line; less where it is looked at byte by byte, or falls into values of which each takes memory of its own.
_MOST_LINE, _MOST_MARKED_LINE = 64 << 20, 16 << 20
_HINT = "Restore the file from a copy."


@dataclass(frozen=True, slots=True)
class TextLayout:
    """How the lines of a table's text files become rows; `read` makes columns of lines, given their places.

    A line with one of `marks` is looked at byte by byte.
    """

    columns: StructType
    header: int
    footer: int
    read: Callable[[Sequence[bytes], Sequence[int]], list[pa.Array]]
    marks: tuple[bytes, ...] = ()

    @staticmethod
    def of(table: TableSchema) -> TextLayout:
        """The layout that a DDL states; NotAcidTableError for a SerDe or a setting that is not read."""
        serde = table.serde or LAZY_SIMPLE
        if serde not in (LAZY_SIMPLE, OPEN_CSV):
            raise NotAcidTableError(
                f"the table's SerDe {serde.rpartition('.')[2]} is not read by acidctl",
                hint="Read the table with Hive, or copy it there into a table stored as ORC or Parquet.",
            )
        for key in ("serialization.encoding", "timestamp.formats"):
            value = table.serde_property(key)
            if value is not None and value.upper() not in ("UTF-8", "UTF8"):
                raise NotAcidTableError(
                    f"the table has {key} '{value}', which acidctl does not read", hint="Read the table with Hive."
                )
        header, footer = (_lines(table, f"skip.{end}.line.count") for end in ("header", "footer"))
        # Splits of an answer travel to other processes with this.
        if serde == OPEN_CSV:
            signs = _csv_signs(table)
            marks = tuple(sign.encode() for sign in signs[1:])
            return TextLayout(table.columns, header, footer, partial(_read_csv, signs), marks)
        rules = _rules(table)
        marks = () if rules.escape is None else (bytes([rules.escape]),)
        if any(not isinstance(field.type, Primitive) for field in table.columns.fields):
            marks = (b"",)
        return TextLayout(table.columns, header, footer, partial(_read_lazy, rules, table.columns), marks)


def _lines(table: TableSchema, key: str) -> int:
    text = (table.table_property(key) or "0").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _byte(text: str | None, default: int) -> int:
    """LazyUtils.getByte: a number, else the first character."""
    if not text:
        return default
    try:
        number = int(text)
    except ValueError:
        return ord(text[0]) & 0xFF
    return number & 0xFF if -128 <= number < 128 else ord(text[0]) & 0xFF


def _rules(table: TableSchema) -> LazyRules:
    stated = table.serde_property
    own = (
        _byte(stated("field.delim") or stated("serialization.format"), 1),
        _byte(stated("collection.delim") or stated("colelction.delim"), 2),
        _byte(stated("mapkey.delim"), 3),
    )
    # What LazySerDeParameters adds for deeper levels: bytes that are unlikely in texts.
    deeper = (*range(4, 9), 11, *range(14, 27), *range(28, 32), *range(128, 256))
    levels = 8
    if (stated("hive.serialization.extend.additional.nesting.levels") or "").lower() == "true":
        levels = len(own) + len(deeper)
    elif (stated("hive.serialization.extend.nesting.levels") or "").lower() == "true":
        levels = 24
    escape = stated("escape.delim")
    null = stated("serialization.null.format")
    return LazyRules(
        bytes((*own, *deeper)[:levels]),
        None if escape is None else _byte(escape, ord("\\")),
        b"\\N" if null is None else null.encode(),
        (stated("serialization.last.column.takes.rest") or "").lower() == "true",
    )


def _read_lazy(rules: LazyRules, columns: StructType, lines: Sequence[bytes], places: Sequence[int]) -> list[pa.Array]:
    rows = [rules.fields(line, 0, len(columns.fields)) for line in lines]
    fields = list(zip_longest(*rows)) if rows else []
    missing = [None] * len(lines)
    return [
        column(fields[place] if place < len(fields) else missing, columns.fields[place].type, rules) for place in places
    ]


def _csv_signs(table: TableSchema) -> tuple[str, str, str]:
    """Separator, quote and escape character of OpenCSVSerde."""
    separator, quote, escape = (
        (table.serde_property(key) or default)[0]
        for key, default in (("separatorChar", ","), ("quoteChar", '"'), ("escapeChar", '"'))
    )
    # The default of the SerDe's writer, which its reader understands as its own default.
    return separator, quote, "\\" if escape == '"' else escape


def _read_csv(signs: tuple[str, str, str], lines: Sequence[bytes], places: Sequence[int]) -> list[pa.Array]:
    """OpenCSVSerde takes a line at a time: a quote that stays open swallows the rest of it and its own field."""
    rows = [_csv_fields(line.decode("utf-8", "replace"), *signs) for line in lines]
    return [pa.array([row[place] if place < len(row) else None for row in rows], pa.string()) for place in places]


def _csv_fields(line: str, separator: str, quote: str, escape: str) -> list[str]:
    """CSVParser.parseLine of opencsv 2.3, by which a quote within a field is kept and closes it all the same."""
    if not line:
        return []
    if quote not in line and escape not in line:
        return line.split(separator)
    fields: list[str] = []
    field: list[str] = []
    quoted = within = False
    at, end = 0, len(line)
    while at < end:
        char = line[at]
        follower = line[at + 1] if at + 1 < end else ""
        if char == escape:
            if (quoted or within) and follower and follower in (quote, escape):
                field.append(follower)
                at += 1
        elif char == quote:
            if (quoted or within) and follower == quote:
                field.append(follower)
                at += 1
            else:
                if at > 2 and line[at - 1] != separator and follower not in ("", separator):
                    if field and "".join(field).isspace():
                        field.clear()
                    else:
                        field.append(char)
                quoted = not quoted
            within = not within
        elif char == separator and not quoted:
            fields.append("".join(field))
            field, within = [], False
        else:
            field.append(char)
            within = True
        at += 1
    return fields if quoted else [*fields, "".join(field)]


class TextFile:
    """An open text file of an insert-only table; see `plain.RowFile`. Its name tells how it is compressed."""

    is_acid = False
    dialect = Dialect.HIVE4

    def __init__(self, stream: BinaryIO, name: str, layout: TextLayout) -> None:
        self.name = name
        self.columns = layout.columns
        self._stream = stream
        self._layout = layout

    @cached_property
    def rows(self) -> int:
        """Rows of the file, which is read to its end for them."""
        return sum(1 for _ in self._lines())

    @property
    def stripe_rows(self) -> tuple[int, ...]:
        """All rows: a text file has no parts."""
        return (self.rows,)

    def rows_per_batch(self, most: int) -> int:
        """`most`; batches end earlier where their lines are long."""
        return most

    def is_wide(self) -> bool:
        """Whether a moment is beyond what nanoseconds since 1970 hold; it reads the timestamps."""
        moments = [i for i, field in enumerate(self.columns.fields) if not kinds(field.type).isdisjoint(_TIMESTAMPS)]
        return bool(moments) and any(self._beyond(batch) for batch in self.scan(fields=moments))

    @staticmethod
    def _beyond(batch: pa.RecordBatch) -> bool:
        return any(not pa.types.is_timestamp(column.type) for column in batch.columns)

    def key_range(self) -> None:
        """No keys."""

    def operations(self) -> None:
        """No operations."""

    def stripe_key_ranges(self) -> tuple[None, ...]:
        """No keys."""
        return (None,)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int = _BATCH_ROWS,
        fields: Sequence[int] | None = None,
        stripes: range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream record batches of at most `batch_size` rows; see `plain.RowFile`. Raises DamagedDataError."""
        places = list(range(len(self.columns.fields))) if fields is None else list(fields)
        if columns is not None:
            places = [self.columns.names.index(name) for name in columns]
        if stripes is not None and not len(stripes):
            return
        names = [self.columns.names[place] for place in places]
        lines: list[bytes] = []
        size = 0
        for line in self._lines():
            if len(line) > _MOST_MARKED_LINE and any(mark in line for mark in self._layout.marks):
                _require_length(len(line), _MOST_MARKED_LINE, self.name)
            lines.append(line)
            size += len(line) + 64
            if len(lines) >= batch_size or size >= _BATCH_BYTES:
                yield self._batch(lines, places, names)
                lines, size = [], 0
        if lines:
            yield self._batch(lines, places, names)

    def _batch(self, lines: list[bytes], places: list[int], names: list[str]) -> pa.RecordBatch:
        if not places:
            return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), len(lines), [None]))
        return pa.RecordBatch.from_arrays([_narrowed(array) for array in self._layout.read(lines, places)], names=names)

    def _lines(self) -> Iterator[bytes]:
        """The lines of the rows, header and footer left out."""
        self._stream.seek(0)
        lines = _cut_lines(_expanded(self._stream, self.name), self.name)
        for _ in range(self._layout.header):
            next(lines, None)
        return _without_last(lines, self._layout.footer) if self._layout.footer else lines


def _without_last(lines: Iterator[bytes], count: int) -> Iterator[bytes]:
    held: deque[bytes] = deque()
    for line in lines:
        held.append(line)
        if len(held) > count:
            yield held.popleft()


def _narrowed(array: pa.Array) -> pa.Array:
    """WIDE moments as timestamp[ns] where that holds them all."""
    if not array.type.equals(WIDE):
        return array
    seconds, nanos = (part.cast(pa.int64()) for part in array.flatten())
    try:
        ticks = pc.add_checked(pc.multiply_checked(seconds, 10**9), nanos)
    except pa.ArrowInvalid:
        return array
    return ticks.cast(pa.timestamp("ns"))


def _cut_lines(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The lines of a text without their ends; a mark of the byte order at its beginning belongs to none.

    DamagedDataError for a line that is too long to be held. What a line takes in time grows with its length alone.
    """
    left = bytearray()
    first = True
    for chunk in chunks:
        ends = b"\n" in chunk or b"\r" in chunk or left.endswith(b"\r")
        left += chunk
        if first:
            if len(left) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(left):
                continue
            left, first = left.removeprefix(_BYTE_ORDER_MARK), False
        if ends:
            # A CR at the end of a chunk may be one half of a line's end.
            held = b"\r" if left.endswith(b"\r") else b""
            lines = bytes(left[:-1] if held else left).splitlines(keepends=True)
            left = bytearray(held)
            if lines and (held or not lines[-1].endswith((b"\n", b"\r"))):
                left = bytearray(lines.pop()) + held
            for line in lines[:1]:  # others are shorter than a chunk
                _require_length(len(line) - 2, _MOST_LINE, name)
            yield from (line.rstrip(b"\r\n") for line in lines)
        _require_length(len(left) - 1, _MOST_LINE, name)
    yield from bytes(left).splitlines()


def _require_length(size: int, most: int, name: str) -> None:
    if size > most:
        raise DamagedDataError(
            f"{name} has a line of more than {most:,} bytes, which is too long to be held",
            path=name,
            hint="See whether the file is text, and how its lines end; a table of such rows is better stored as ORC.",
        )


def _expanded(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """The plain bytes of a file, a chunk at a time; DamagedDataError where they end too early."""
    ending = next((end for end in (*_ZLIB, *_STREAMED, *_BLOCKS, *_UNREAD) if name.endswith(end)), "")
    if ending in _UNREAD:
        raise NotAcidTableError(
            f"{name} is text compressed as {ending[1:]}, which acidctl does not read",
            path=name,
            hint="Read it with Hive.",
        )
    try:
        if ending in _ZLIB:
            yield from _inflated(stream, _ZLIB[ending])
        elif ending in _STREAMED:
            with pa.CompressedInputStream(pa.PythonFile(_LeftOpen(stream), mode="r"), _STREAMED[ending]) as plain:
                while chunk := plain.read(_CHUNK):
                    yield chunk
        elif ending in _BLOCKS:
            yield from _blocks(stream, _BLOCKS[ending])
        else:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except (zlib.error, CodecError, pa.ArrowException, OSError, EOFError) as error:
        raise DamagedDataError(f"{name} cannot be decompressed: {error}", path=name, hint=_HINT) from error


class _LeftOpen:
    """A stream that whoever reads it does not close: it is read again."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self.read = stream.read

    def close(self) -> None:
        """It stays open."""


def _inflated(stream: BinaryIO, window: int) -> Iterator[bytes]:
    member: Any = None
    while chunk := stream.read(_CHUNK):
        while chunk:
            member = member or zlib.decompressobj(window)
            yield member.decompress(chunk, _CHUNK)
            if member.eof:
                chunk, member = member.unused_data, None
            else:
                chunk = member.unconsumed_tail
    while member is not None:
        rest = member.decompress(member.unconsumed_tail, _CHUNK)
        if member.eof:
            break
        if not rest:
            raise EOFError("it ends too early")
        yield rest


def _blocks(stream: BinaryIO, codec: Compression) -> Iterator[bytes]:
    """Hadoop's BlockDecompressorStream: the length of a block, then chunks that make it up."""

    def number() -> int | None:
        found = stream.read(4)
        if not found:
            return None
        if len(found) < 4:
            raise EOFError("it ends too early")
        return int.from_bytes(found, "big")

    while (length := number()) is not None:
        if length > _MOST_BLOCK:
            raise CodecError(f"a block claims {length} bytes")
        while length:
            size = number()
            chunk = b"" if size is None or size > _MOST_BLOCK else stream.read(size)
            if size is None or len(chunk) < size:
                raise EOFError("it ends too early")
            plain = expand_chunk(chunk, codec, length)
            if not plain:
                raise CodecError("a chunk is empty")
            length -= len(plain)
            yield plain
