"""Small files that expand: lines of text and pages of Parquet are read within bounds of time and memory, or refused."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from acidctl.errors import DamagedDataError, ExitCode
from acidctl.fileformats.parquet import ParquetFile
from acidctl.fileformats.parquet_pages import Chunk, PageHeader, PageWatch, page_header
from acidctl.fileformats.text import _cut_lines
from tests.cli.runner import acidctl
from tests.support.measured import measured
from tests.unit.fileformats.test_text import INSERT_ONLY

# What a command may take in memory, and the seconds of CPU for one that is refused.
_MEMORY, _SECONDS = 1 << 30, 10.0
_DELTA = "delta_0000001_0000001_0000"
_MIB = 1 << 20


def _table(root: Path, content: bytes, name: str = "000000_0.gz") -> str:
    (root / _DELTA).mkdir()
    (root / _DELTA / name).write_bytes(content)
    return str(root)


def _packed(*pieces: tuple[bytes, int]) -> bytes:
    """Pieces, each so many times."""
    packed = bytearray()
    for piece, times in pieces:
        packed += gzip.compress(piece * times, 1)
    return bytes(packed)


def _ddl(columns: str = "v string", form: str = "stored as textfile") -> str:
    return f"create table t ({columns}) {form} tblproperties ({INSERT_ONLY})"


def test_a_line_is_cut_in_linear_time() -> None:
    """One of 64 MiB takes eight times as long as one of 8 MiB, and not sixty-four times."""

    def seconds(mib: int) -> float:
        began = time.process_time()
        chunks = [b"x" * _MIB] * mib + [b"\r", b"\nlast"]
        assert [len(line) for line in _cut_lines(iter(chunks), "f")] == [mib * _MIB, 4]
        return time.process_time() - began

    seconds(4)
    assert seconds(64) < 32 * max(min(seconds(8) for _ in range(3)), 0.002)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
def test_lines_do_not_depend_on_where_chunks_end(size: int) -> None:
    """Ends of all kinds, at any place; empty chunks, and a mark of the byte order in pieces."""
    text = b"\xef\xbb\xbfa\rb\n\nc\r\n\r\r\n" + b"d" * 50 + b"\r\ne\r"
    chunks = [text[start : start + size] for start in range(0, len(text), size)]

    def with_empty() -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            yield b""

    want = [b"a", b"b", b"", b"c", b"", b"", b"d" * 50, b"e"]
    assert list(_cut_lines(iter(chunks), "f")) == want
    assert list(_cut_lines(with_empty(), "f")) == want


def test_the_longest_line() -> None:
    """64 MiB are a line, and two bytes more are an error, also where its end is in sight."""
    chunks = [b"x" * _MIB] * 64
    assert [len(line) for line in _cut_lines(iter([*chunks, b"\nb"]), "f")] == [64 * _MIB, 1]
    for more in ([b"xx"], [b"xx\nb"], [b"xx\r\nb"], chunks):
        with pytest.raises(DamagedDataError, match="a line of more than 67,108,864 bytes"):
            list(_cut_lines(iter([*chunks, *more]), "f"))


@pytest.mark.parametrize(
    ("ddl", "pieces"),
    [
        (_ddl(), [(b"x" * _MIB, 300)]),
        (_ddl(form="row format delimited fields terminated by ',' escaped by '\\\\' stored as textfile"),
         [(b"\\," * (_MIB // 2), 40)]),
        (_ddl("v array<string>"), [(b"a\x02" * (_MIB // 2), 40)]),
        (_ddl(form="row format serde 'org.apache.hadoop.hive.serde2.OpenCSVSerde' stored as textfile"),
         [(b'"' * _MIB, 40)]),
    ],
    ids=["text", "escapes", "list", "quotes"],
)  # fmt: skip
def test_a_line_that_is_too_long_is_refused(tmp_path: Path, ddl: str, pieces: list[tuple[bytes, int]]) -> None:
    """Exit code 13, with the limit, soon and in little memory; the file has a hundred kilobytes."""
    place = _table(tmp_path, _packed(*pieces))
    code, memory, seconds, said = measured("snapshot", place, "--schema", ddl, "--limit", "5", "-o", "csv")
    assert (code, seconds < _SECONDS) == (ExitCode.DAMAGED, True), said
    assert "a line of more than" in said
    assert memory < _MEMORY


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ddl", "pieces"),
    [
        (_ddl(), [(b"x" * _MIB, 63)]),
        (_ddl("a string, b string"), [(b"x" * _MIB, 31), (b"\x01", 1), (b"y" * _MIB, 31)]),
        (_ddl("v array<string>"), [(b"ab\x02" * (_MIB // 3), 15)]),
        (_ddl(form="row format serde 'org.apache.hadoop.hive.serde2.OpenCSVSerde' stored as textfile"),
         [(b'"a"' * (_MIB // 3), 15)]),
    ],
    ids=["text", "two", "list", "quotes"],
)  # fmt: skip
def test_the_longest_lines_are_read_within_a_gibibyte(
    tmp_path: Path, ddl: str, pieces: list[tuple[bytes, int]]
) -> None:
    """As rows, with what makes text of them."""
    place = _table(tmp_path, _packed(*pieces))
    code, memory, _seconds, said = measured("snapshot", place, "--schema", ddl, "--limit", "5", "-o", "csv")
    assert code == ExitCode.DONE, said
    assert memory < _MEMORY, memory


def test_many_short_lines_are_not_long(tmp_path: Path) -> None:
    """A file of more than the longest line."""
    place = _table(tmp_path, _packed((b"x" * 1023 + b"\n", 70 * 1024)))
    result = acidctl("snapshot", place, "--schema", _ddl(), "--count", "-o", "json")
    assert result.json()["rows"] == 70 * 1024


# --- Parquet


def _parquet(root: Path, table: pa.Table, **how: object) -> str:
    (root / _DELTA).mkdir(parents=True, exist_ok=True)
    pq.write_table(table, root / _DELTA / "000000_0", **how)
    return str(root)


def _repeated(text: str, rows: int) -> pa.Table:
    """One text in all rows, which a file has once."""
    indices = pa.array(np.zeros(rows, np.int32))
    return pa.table({"v": pa.DictionaryArray.from_arrays(indices, pa.array([text]))})


@pytest.mark.parametrize(
    ("codec", "options"),
    [("zstd", ("--limit", "5", "-o", "csv")), ("zstd", ("--digest",)), ("gzip", ("--limit", "5"))],
)
def test_a_page_that_expands_too_far(tmp_path: Path, codec: str, options: tuple[str, ...]) -> None:
    """One text of 130 MiB: exit code 13, with the limit, before anything is decoded."""
    table = pa.table({"id": [1], "v": ["x" * (130 * _MIB)]})
    place = _parquet(tmp_path, table, compression=codec, use_dictionary=False, write_statistics=False)
    code, memory, seconds, said = measured("snapshot", place, "--table-type", "insert-only", *options)
    assert (code, seconds < _SECONDS) == (ExitCode.DAMAGED, True), said
    assert "a page of 136,314,8" in said
    assert memory < 256 * _MIB
    # Columns that are not asked for are not read.
    count = acidctl("snapshot", place, "--table-type", "insert-only", "--columns", "id", "-o", "csv", "--no-header")
    assert count.stdout == "1\n"


def test_a_text_that_is_too_long(tmp_path: Path) -> None:
    """Of more than 64 MiB, in a page that is read."""
    place = _parquet(tmp_path, pa.table({"v": ["x" * (65 * _MIB)]}), compression="zstd", use_dictionary=False)
    code, memory, _seconds, said = measured(
        "snapshot", place, "--table-type", "insert-only", "--limit", "5", "-o", "csv"
    )
    assert code == ExitCode.DAMAGED, said
    assert "a text of 68,157,440 bytes" in said
    assert memory < _MEMORY


@pytest.mark.slow
def test_the_longest_text_is_read_within_a_gibibyte(tmp_path: Path) -> None:
    """With what makes a line of it."""
    place = _parquet(tmp_path, pa.table({"v": ["x" * (63 * _MIB)]}), compression="zstd", use_dictionary=False)
    code, memory, _seconds, said = measured("snapshot", place, "--table-type", "insert-only", "-o", "csv")
    assert code == ExitCode.DONE, said
    assert memory < _MEMORY, memory


@pytest.mark.parametrize("form", ["plain", "list", "two"])
def test_texts_that_a_dictionary_repeats(tmp_path: Path, form: str) -> None:
    """100 KB a row, sixty thousand times, in a file of some hundred KB: rows are taken fewer at a time."""
    table = _repeated("y" * 100_000, 60_000)
    if form == "list":
        offsets = pa.array(np.arange(0, 60_001, 6, dtype=np.int32))
        table = pa.table({"v": pa.ListArray.from_arrays(offsets, table["v"].combine_chunks())})
    if form == "two":
        table = table.append_column("w", _repeated("z" * 50_000, 60_000)["v"])
    place = _parquet(tmp_path, table, compression="zstd", write_statistics=False, store_schema=False)
    code, memory, _seconds, said = measured(
        "snapshot", place, "--table-type", "insert-only", "--limit", "1000", "-o", "csv"
    )
    assert code == ExitCode.DONE, said
    assert memory < _MEMORY, memory
    with open(f"{place}/{_DELTA}/000000_0", "rb") as stream:
        sizes = [batch.nbytes for batch in islice(ParquetFile(stream, "f").scan(batch_size=65536), 5)]
    assert max(sizes) < 80 * _MIB


WRITTEN: dict[str, dict[str, Any]] = {
    "usual": {},
    "second version": {"data_page_version": "2.0", "version": "2.6"},
    "small pages": {"data_page_size": 512, "write_batch_size": 64},
    "small groups": {"row_group_size": 700},
    "plain": {"use_dictionary": False, "compression": "none"},
    "zstd": {"compression": "zstd", "write_page_index": True},
    "checksums": {"write_page_checksum": True, "compression": "gzip"},
    "delta": {"use_dictionary": False, "column_encoding": {"t": "DELTA_BYTE_ARRAY", "n": "DELTA_BINARY_PACKED"}},
}


@pytest.mark.parametrize("how", WRITTEN)
def test_headers_of_all_pages_are_seen(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever wrote the file: all values of all columns are in pages whose headers were looked at."""
    count = 20_000
    table = pa.table(
        {
            "n": range(count),
            "t": [f"text {number % 977}" * (number % 7) for number in range(count)],
            "l": [[number, None] * (number % 4) for number in range(count)],
            "x": [None if number % 3 else "q" * 9000 if number % 5000 == 0 else "r" for number in range(count)],
        }
    )
    place = _parquet(tmp_path, table, **WRITTEN[how])
    seen: list[int] = []
    fit = PageWatch.require_fit

    def counted(self: PageWatch, header: PageHeader, chunk: Chunk) -> None:
        seen.append(header.values if header.kind != 2 else 0)
        fit(self, header, chunk)

    monkeypatch.setattr(PageWatch, "require_fit", counted)
    with open(f"{place}/{_DELTA}/000000_0", "rb") as stream:
        file = ParquetFile(stream, "f")
        found = pa.Table.from_batches(file.scan(batch_size=5000))
        metadata = file._metadata
    assert found.to_pydict() == table.to_pydict()
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    assert sum(seen) == sum(group.column(leaf).num_values for group in groups for leaf in range(4))


def test_a_header_that_hides_its_size_is_seen_through() -> None:
    """Fields twice, of other types, nested, unknown: what counts is what Arrow takes."""

    def varint(value: int) -> bytes:
        out = bytearray()
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    def i32(step: int, value: int) -> bytes:
        return bytes([step << 4 | 5]) + varint(value << 1)

    plain = i32(1, 0) + i32(1, 1 << 28) + i32(1, 100) + b"\x00"
    assert page_header(plain)[:3] == (0, 1 << 28, 100)
    as_long = bytes([0x06]) + varint(2 << 1) + varint(5 << 1)  # field 2 again, of 64 bits
    assert page_header(plain[:-1] + as_long + b"\x00")[:3] == (0, 1 << 28, 100)
    unknown = (
        b"\x19\x25\x02\x04" + b"\x1c\x15\x02\x00" + b"\x1b\x01\x85\x02ab\x02" + b"\x18\x03abc" + b"\x17" + bytes(8)
    )
    found = page_header(plain[:-1] + unknown + b"\x00" + b"a page")
    assert found[:3] == (0, 1 << 28, 100)
    assert found.length == len(plain) + len(unknown)
    for odd in (b"\x1d\x00", b"\x00", i32(1, 0) + b"\x00", b"\x15\x01" + i32(1, 5) + i32(1, 5) + b"\x00"):
        with pytest.raises(ValueError, match=r"type|lacks"):
            page_header(odd)
    with pytest.raises(OverflowError):
        page_header(plain[:-1] + b"\x19\xf5\xff\xff\x03" + bytes(65535) + b"\x00")
    for seed in range(2000):
        with suppress(IndexError, OverflowError, ValueError):
            page_header(random.Random(seed).randbytes(200))
    for length in range(len(plain)):
        with pytest.raises(IndexError):
            page_header(plain[:length])
