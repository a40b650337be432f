"""Compressed chunks as they pass: what does not fill its stream or does not inflate is found, in pieces of any size."""

from __future__ import annotations

import random

import pytest

from acidctl.orc.chunks import ChunkCheck
from acidctl.orc.codec import CodecError, Compression, chunk_of, pack
from acidctl.orc.stripe import Stream, StreamKind
from acidctl.orc.tail import PostScript

BLOCK = 1000


def post(compression: Compression = Compression.ZLIB) -> PostScript:
    """The form of a file."""
    return PostScript(20, 0, 0, 0, compression, BLOCK, (0, 12), 9)


def streams_of(*stored: bytes) -> list[Stream]:
    """Streams of these bytes, one behind the other, each of its own column."""
    return [Stream(StreamKind.DATA, column, 0, len(data)) for column, data in enumerate(stored)]


def look(stored: list[bytes], size: int, *, inflate: bool = True, form: PostScript | None = None) -> int:
    """Pass them in pieces; how many chunks were asked about."""
    asked = 0

    def wanted() -> bool:
        nonlocal asked
        asked += 1
        return inflate

    check, data = ChunkCheck(streams_of(*stored), form or post(), wanted), b"".join(stored) + b"a footer"
    for at in range(0, len(data), size):
        check.take(data[at : at + size])
    return asked


PLAIN = random.Random(5).randbytes(300) * 9
SOUND = [pack(PLAIN, Compression.ZLIB, BLOCK), b"", pack(b"x" * 10, Compression.ZLIB, BLOCK), chunk_of(b"y" * 7, None)]


@pytest.mark.parametrize("size", [1, 2, 3, 64, 1 << 20])
def test_sound_ones_pass(size: int) -> None:
    """Those that are stored as they are are not inflated; what lies behind the streams is none."""
    assert look(SOUND, size) == 4


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ([SOUND[0][:-1], b""], "runs past its stream"),
        ([SOUND[0] + b"\x00\x00"], "no complete header"),
        ([b"\x00"], "runs past its stream"),
        ([chunk_of(b"z" * (BLOCK + 1), None)], "larger than the block size"),
        ([pack(PLAIN, Compression.ZLIB, 4 * BLOCK)], "larger than the block size"),
        ([chunk_of(PLAIN, b"\x00" * 20)], "damaged|cut short"),
        ([SOUND[0], chunk_of(b"q" * 90, pack(b"q" * 90, Compression.ZLIB, BLOCK)[3:-2])], "cut short"),
    ],
)
def test_others_do_not(stored: list[bytes], why: str, size: int) -> None:
    """The stream is named."""
    with pytest.raises(CodecError, match=f"({why}).*DATA of column"):
        look(stored, size)


def test_only_some_are_inflated() -> None:
    """The others only have to fill their streams; without compression there are none."""
    look([chunk_of(PLAIN, b"\x00" * 20)], 64, inflate=False)
    assert look([b"\xff" * 100], 64, form=post(Compression.NONE)) == 0
