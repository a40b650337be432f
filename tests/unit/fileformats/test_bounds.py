"""Small files that expand: lines of text and pages of Parquet are read within bounds of time and memory, or refused."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acidctl.errors import DamagedDataError, ExitCode
from acidctl.fileformats.text import _cut_lines
from tests.cli.runner import acidctl
from tests.unit.fileformats.test_text import INSERT_ONLY

# What a command may take in memory, and the seconds for one that is refused on a machine that does much else.
_MEMORY, _SECONDS = 1 << 30, 30.0
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


def _measured(*arguments: str) -> tuple[int, int, str]:
    """Exit code, bytes of memory at most, and what was on stderr, of a command in a process of its own."""
    command = [sys.executable, "-m", "acidctl", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        said = child.stderr.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, used.ru_maxrss * 1024, said


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
    began = time.monotonic()
    code, memory, said = _measured("snapshot", place, "--schema", ddl, "--limit", "5", "-o", "csv")
    assert (code, time.monotonic() - began < _SECONDS) == (ExitCode.DAMAGED, True), said
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
    code, memory, said = _measured("snapshot", place, "--schema", ddl, "--limit", "5", "-o", "csv")
    assert code == ExitCode.DONE, said
    assert memory < _MEMORY, memory


def test_many_short_lines_are_not_long(tmp_path: Path) -> None:
    """A file of more than the longest line."""
    place = _table(tmp_path, _packed((b"x" * 1023 + b"\n", 70 * 1024)))
    result = acidctl("snapshot", place, "--schema", _ddl(), "--count", "-o", "json")
    assert result.json()["rows"] == 70 * 1024
