"""Pages of Parquet files: how large they say that they are, before Arrow's reader makes anything of them.

A few kilobytes can hold a page that expands to gigabytes, or a dictionary whose only text a million rows repeat. Arrow
takes what a page's header says. So its headers are looked at as the bytes pass by, which reads nothing twice; and how
many rows may be taken at a time follows from the longest text of a dictionary, which is read before.
Source: parquet.thrift (PageHeader), in Thrift's compact protocol.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from acidctl.errors import DamagedDataError

#: Of one page, expanded, and of one text.
MOST_PAGE, MOST_TEXT = 128 << 20, 64 << 20
# Of what a batch of rows takes that repeat texts of dictionaries.
_MOST_REPEATED = 64 << 20
# Arrow gives up at a header of this length.
_MOST_HEADER, _USUAL_HEADER = 16 << 20, 1 << 12
_MOST_HEADER_VALUES = 1 << 12
_MOST_DICTIONARY = 8 << 20
_MOST_PAGE_VALUES = 1 << 24
_DICTIONARY = 2
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli", "LZ4_RAW": "lz4_raw"}
_HINT = "Restore the file from a copy; if it is as it was written, read it with Hive."
_STOP, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 8, 9, 10, 11, 12
_I32, _VARINTS, _TRUTHS, _FIXED = 5, (4, 6), frozenset((1, 2)), {1: 0, 2: 0, 3: 1, 7: 8}
_DEEPEST = 64


class PageHeader(NamedTuple):
    """What is known of a page: its kind, its bytes expanded and stored, its values, and how long the header is."""

    kind: int
    plain: int
    stored: int
    values: int
    length: int


class Chunk(NamedTuple):
    """Where a column of a row group lies, and whether values of it are repeated within rows."""

    start: int
    length: int
    repeated: bool


class _Compact:
    """Thrift's compact protocol, as far as a header of a page needs it; IndexError where bytes are missing,
    ValueError for what is no header, OverflowError for one of more values than any has.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._values = _MOST_HEADER_VALUES
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number has too many bytes")

    def integer(self) -> int:
        """Of 32 bits, as those are that count here."""
        value = self.varint() & 0xFFFFFFFF
        return (value >> 1) ^ -(value & 1)

    def fields(self, depth: int = 0) -> dict[int, Any]:
        """Numbers of 32 bits and structs of a struct by their ids; everything else is passed over, as Arrow does."""
        found: dict[int, Any] = {}
        number = 0
        while (head := self.byte()) & 0x0F != _STOP:
            number = number + (head >> 4) if head >> 4 else self.integer()
            value = self._value(head & 0x0F, depth + 1)
            if value is not None:
                found[number] = value
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("it is nested too deep")
        self._values -= 1
        if self._values < 0:
            raise OverflowError
        if kind == _STRUCT:
            return self.fields(depth)
        if kind == _I32:
            return self.integer()
        if kind in _VARINTS:
            self.varint()
        elif kind in _FIXED:
            self._skip(_FIXED[kind])
        elif kind == _BINARY:
            self._skip(self.varint())
        elif kind in (_LIST, _SET):
            head = self.byte()
            count = self.varint() if head >> 4 == 15 else head >> 4
            self._skip_all([head & 0x0F], count, depth)
        elif kind == _MAP:
            if count := self.varint():
                head = self.byte()
                self._skip_all([head >> 4, head & 0x0F], count, depth)
        else:
            raise ValueError(f"it has a value of type {kind}")
        return None

    def _skip_all(self, kinds: list[int], count: int, depth: int) -> None:
        if _TRUTHS.issuperset(kinds):  # bytes where they are no fields
            self._skip(count * len(kinds))
            return
        for _ in range(count):
            for kind in kinds:
                self._value(3 if kind in _TRUTHS else kind, depth + 1)

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self._data):
            raise IndexError


def page_header(data: bytes) -> PageHeader:
    """The header at the beginning of some bytes. IndexError where it is longer, ValueError for what is none."""
    compact = _Compact(data)
    found = compact.fields()
    values = 0
    for form in (5, 7, 8):
        if isinstance(found.get(form), dict):
            values = found[form].get(1, 0)
    kind, plain, stored = (found.get(number) for number in (1, 2, 3))
    if not all(isinstance(size, int) and size >= 0 for size in (kind, plain, stored, values)):
        raise ValueError("it lacks a size, or has one below zero")
    return PageHeader(kind, plain, stored, values, compact.at)  # type: ignore[arg-type]


def _header_in(data: bytes) -> PageHeader:
    """As `page_header`, without a copy of pages behind it."""
    try:
        return page_header(data[:_USUAL_HEADER])
    except IndexError:
        if len(data) <= _USUAL_HEADER:
            raise
        return page_header(data)


def chunk_of(metadata: Any, group: int, leaf: int, repeated: bool = False) -> Chunk:
    """Where Arrow looks for a column of a row group."""
    stated = metadata.row_group(group).column(leaf)
    start, dictionary = stated.data_page_offset, stated.dictionary_page_offset
    if stated.has_dictionary_page and dictionary is not None and 0 < dictionary < start:
        start = dictionary
    return Chunk(start, stated.total_compressed_size, repeated)


class PageWatch:
    """A stream that looks at the headers of pages which Arrow reads from it; DamagedDataError for one too large."""

    closed = False

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._name = name
        self._at = 0
        self._starts: list[int] = []
        self._chunks: list[Chunk] = []
        # Of each chunk: where the next header begins, and what has come of it.
        self._next: list[int] = []
        self._begun: list[bytes] = []

    def expect(self, chunks: Iterable[Chunk]) -> None:
        """From now on these are columns of row groups."""
        self._chunks = sorted(chunks)
        self._starts = [chunk.start for chunk in self._chunks]
        self._next = list(self._starts)
        self._begun = [b""] * len(self._chunks)

    def read(self, size: int = -1) -> bytes:
        """For Arrow."""
        data = self._stream.read(size)
        if self._starts:
            self._look(self._at, data)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """For Arrow."""
        self._at = self._stream.seek(offset, whence)
        return self._at

    def tell(self) -> int:
        """For Arrow."""
        return self._at

    def close(self) -> None:
        """Whoever has opened the stream closes it."""

    def _look(self, at: int, data: bytes) -> None:
        place = bisect_right(self._starts, at) - 1
        if place < 0:
            return
        chunk = self._chunks[place]
        stop = chunk.start + chunk.length
        end = min(at + len(data), stop)
        while (start := self._next[place]) < end:
            begun = self._begun[place]
            if start + len(begun) < at:
                return  # read out of turn
            # What has come of a header stands before these bytes.
            part = begun + data[max(start + len(begun) - at, 0) : end - at]
            try:
                header = _header_in(part)
            except IndexError:
                self._begun[place] = part
                if len(part) > _MOST_HEADER:
                    raise self._damaged(f"has a page header of more than {_MOST_HEADER:,} bytes") from None
                return
            except OverflowError as error:
                raise self._damaged("has a page header of too many values") from error
            except ValueError:
                self._next[place] = stop  # Arrow finds no page there either
                return
            self._begun[place] = b""
            self.require_fit(header, chunk)
            self._next[place] = start + header.length + header.stored

    def require_fit(self, header: PageHeader, chunk: Chunk) -> None:
        """DamagedDataError for a page that is too large."""
        if header.plain > MOST_PAGE:
            raise self._damaged(f"has a page of {header.plain:,} bytes, and {MOST_PAGE:,} are the most that is read")
        if chunk.repeated and header.values > _MOST_PAGE_VALUES:
            raise self._damaged(
                f"has {header.values:,} values of lists in a page, and {_MOST_PAGE_VALUES:,} are the most that is read"
            )

    def _damaged(self, what: str) -> DamagedDataError:
        return DamagedDataError(f"{self._name} {what}", path=self._name, hint=_HINT)


def rows_that_fit(stream: BinaryIO, metadata: Any, group: int, leaves: Sequence[int], most: int) -> int:
    """How many rows of a row group to take at a time, at least 1, so that texts of dictionaries which they repeat take
    little enough; `leaves` are columns of texts.
    """
    rows = metadata.row_group(group).num_rows
    wanted = []
    for leaf in leaves:
        stated = metadata.row_group(group).column(leaf)
        if stated.has_dictionary_page:
            start = chunk_of(metadata, group, leaf).start
            length = min(max(stated.data_page_offset - start, 1), _MOST_DICTIONARY)
            wanted.append((start, length, stated.compression, max(1.0, stated.num_values / max(rows, 1))))
    if wanted and hasattr(stream, "prefetch"):
        stream.prefetch([(start, length) for start, length, *_ in wanted])
    widest = 0.0
    for start, length, codec, values in wanted:
        stream.seek(start)
        widest += values * _longest_text(stream.read(length), codec, _MOST_REPEATED / min(most, max(rows, 1)) / values)
    return max(1, min(most, int(_MOST_REPEATED / widest))) if widest else most


def _longest_text(page: bytes, codec: str, harmless: float) -> int:
    """The length of the longest text of a dictionary; all of it together where that is unknown or harmless."""
    try:
        header = page_header(page)
    except (IndexError, OverflowError, ValueError):
        return 0  # it is looked at again when it is read
    stored = page[header.length : header.length + header.stored]
    if header.kind != _DICTIONARY or header.plain <= harmless or header.plain > MOST_PAGE:
        return header.plain if header.kind == _DICTIONARY else 0
    if codec in _CODECS:
        try:
            stored = pa.decompress(stored, header.plain, _CODECS[codec], asbytes=True)
        except (pa.ArrowException, OSError, ValueError):
            return header.plain
    elif codec != "UNCOMPRESSED":
        return header.plain
    longest = at = 0
    length = struct.Struct("<i").unpack_from
    last = len(stored) - 4
    while at <= last:
        (size,) = length(stored, at)
        if size < 0:
            return header.plain
        if size > longest:
            longest = size
        at += 4 + size
    return longest
