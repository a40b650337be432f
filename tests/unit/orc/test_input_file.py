"""Logical lengths from side files."""

from __future__ import annotations

import io
import struct

import pytest

from acidctl.errors import DamagedDataError
from acidctl.orc.input_file import read_logical_length, with_blocks


def _length(content: bytes) -> int:
    return read_logical_length(io.BytesIO(content), name="bucket_00000_flush_length")


def _longs(*values: int) -> bytes:
    return struct.pack(f">{len(values)}q", *values)


def test_the_last_complete_value_counts() -> None:
    """Values are appended at each commit; a writer that died within one leaves the one before."""
    assert _length(_longs(0)) == 0
    assert _length(_longs(0, 100, 2**40)) == 2**40
    for cut in range(1, 8):
        assert _length(_longs(0, 100, 200)[:-cut]) == 100


def test_without_a_complete_value_the_end_is_unknown() -> None:
    """An empty or torn first value is damage, as in Hive."""
    for size in range(8):
        with pytest.raises(DamagedDataError, match="holds no length"):
            _length(bytes(size))


def test_a_negative_length_is_damage() -> None:
    """Lengths are signed in the file and never negative."""
    with pytest.raises(DamagedDataError, match="impossible length -1"):
        _length(_longs(0, -1))


class Distant(io.RawIOBase):
    """A file that is not on this machine, counting what is fetched."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)
        self.requests = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def read(self, size: int = -1) -> bytes:
        self.requests += 1
        return self._inner.read(size)


def test_distant_files_are_fetched_in_blocks() -> None:
    """Small interleaved reads cost one request per half megabyte, and give the same bytes."""
    data = bytes(i * 31 % 251 for i in range(3_000_000))
    distant = Distant(data)
    file = with_blocks(distant, len(data), "f")
    for at in range(0, 1_000_000, 10_000):
        for start in (at, at + 1_500_000):
            file.seek(start)
            assert file.read(10_000) == data[start : start + 10_000]
    assert distant.requests <= 6
    file.seek(-5, 2)
    assert file.read() == data[-5:]


def test_local_files_are_read_directly() -> None:
    """A file on this machine needs no second buffer."""
    local = io.BytesIO(b"x")
    assert with_blocks(local, 1, "f") is local
