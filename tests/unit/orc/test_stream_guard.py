"""Flipped bits in stripes: the C++ reader would take the process down with it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from acidctl.errors import DamagedDataError
from acidctl.orc.reader import open_orc
from acidctl.orc.stripe import StreamKind
from tests.support.orc_files import by_arrow, by_pyorc


def corrupted(data: bytes, kind: StreamKind, column: int, content: bytes) -> bytes:
    """The file with the stream of an uncompressed column overwritten from its start."""
    file = open_orc(io.BytesIO(data), name="f")
    stream = file.stripe_footers()[0].stream(kind, column)
    assert stream is not None
    assert stream.length >= len(content)
    return data[: stream.offset] + content + data[stream.offset + len(content) :]


def scan(data: bytes) -> int:
    """Read everything; the number of rows."""
    return sum(len(batch) for batch in open_orc(io.BytesIO(data), name="f").scan())


TABLE = pa.table(
    {
        "v": [f"name {i * 7919 % 1000}" for i in range(600)],
        "l": [list(range(i % 4)) for i in range(600)],
        "d": pa.array(list(range(600))).cast(pa.decimal128(20, 0)),
        "b": [bytes(i % 5) for i in range(600)],
    }
)
HUGE_REPEAT = b"\x3f" + b"\xff" * 8
FALLING = b"\xc1\xff\x05\x13"


@pytest.mark.parametrize("content", [HUGE_REPEAT, FALLING, b"\x7f\xff" + b"\xff" * 8])
@pytest.mark.parametrize("column", [1, 2, 5])
def test_impossible_lengths(column: int, content: bytes) -> None:
    """Lengths of strings, lists and binaries that no writer can have meant."""
    data = by_arrow(TABLE, compression="uncompressed", dictionary_key_size_threshold=0.0)
    with pytest.raises(DamagedDataError, match="damaged column"):
        scan(corrupted(data, StreamKind.LENGTH, column, content))


@pytest.mark.parametrize("content", [b"\xc1\xff\x1d\x00", HUGE_REPEAT[:4]])
def test_impossible_scales(content: bytes) -> None:
    """A negative or enormous scale would keep C++ multiplying for hours."""
    data = by_arrow(TABLE, compression="uncompressed")
    with pytest.raises(DamagedDataError, match=r"scale|cut short"):
        scan(corrupted(data, StreamKind.SECONDARY, 4, content))


def test_impossible_tags() -> None:
    """A union's tag beyond its alternatives points at nothing."""
    data = by_pyorc("struct<u:uniontype<int,string>>", [(1,), ("x",)] * 50, compression=0)
    with pytest.raises(DamagedDataError, match="tag"):
        scan(corrupted(data, StreamKind.DATA, 1, b"\x10\x07"))


def test_sound_files_pass() -> None:
    """What writers write is not suspected, long texts included."""
    table = pa.table({"v": ["x" * 70_000] * 300, "w": [f"{i}" * (i % 3000) for i in range(300)]})
    for compression in ("uncompressed", "zlib", "snappy"):
        assert scan(by_arrow(table, compression=compression)) == 300, compression


def test_zones_that_do_not_exist() -> None:
    """The name of a zone is checked before C++ opens a file of that name."""
    data = by_pyorc("struct<t:timestamp>", [(1,)], compression=0)
    spoilt = data.replace(b"UTC", b"../").replace(b"GMT", b"../")
    with pytest.raises(DamagedDataError, match="time zone"):
        scan(spoilt)


_FLIP = """
import io, random, sys
from acidctl.errors import AcidctlError
from acidctl.orc.reader import open_orc
files = [open(path, "rb").read() for path in sys.argv[2:]]
rng = random.Random(int(sys.argv[1]))
for _ in range(500):
    data = bytearray(rng.choice(files))
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] = rng.choice((0, 127, 128, 255, rng.randrange(256)))
    try:
        for batch in open_orc(io.BytesIO(bytes(data)), name="f").scan():
            pass
    except AcidctlError:
        pass
print("alive")
"""


@pytest.mark.slow
def test_flipped_bytes_anywhere(tmp_path: Path) -> None:
    """Random damage in stripes and tails never ends the process, whatever the compression."""
    paths = []
    for version in ("0.11", "0.12"):
        for compression in ("uncompressed", "snappy", "lz4", "zlib"):
            path = tmp_path / f"{version}{compression}"
            path.write_bytes(by_arrow(TABLE, compression=compression, file_version=version))
            paths.append(str(path))
    run = subprocess.run([sys.executable, "-c", _FLIP, "5", *paths], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "alive\n"), run.stderr
