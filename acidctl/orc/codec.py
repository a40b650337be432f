"""ORC's chunked sections, decompressed and compressed.

A section is a row of chunks, each behind three bytes of length and flag. On reading, no chunk may grow beyond the
file's block size and no section beyond the caller's limit, so that a small hostile file cannot ask for gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

from acidctl.orc.protobuf import WireError, varint

MAX_BLOCK_SIZE = 1 << 23
_MAX_CHUNK = (1 << 23) - 1
# A chunk of which more would be left stays as it is: inflating it takes readers longer than reading the rest.
_WORTH_INFLATING = 15 / 16


class Compression(IntEnum):
    """ORC's CompressionKind."""

    NONE = 0
    ZLIB = 1
    SNAPPY = 2
    LZO = 3
    LZ4 = 4
    ZSTD = 5
    BROTLI = 6


class CodecError(ValueError):
    """The bytes cannot be decompressed; the text says why."""


def igzip() -> Any:
    """A zlib that deflates in a tenth of the time and inflates in two thirds; None where isal is not installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    return isal_zlib


def expand(data: bytes, compression: Compression, block_size: int, limit: int) -> bytes:
    """The plain bytes of one section; CodecError when it is damaged or larger than `limit`."""
    if compression is Compression.NONE:
        if len(data) > limit:
            raise CodecError("a section is too large")
        return data
    parts: list[bytes] = []
    total = 0
    for part in expanded(data, compression, block_size):
        total += len(part)
        if total > limit:
            raise CodecError("a section is too large")
        parts.append(part)
    return b"".join(parts)


def expanded(
    data: bytes | memoryview, compression: Compression, block_size: int, *, library: Any = zlib
) -> Iterator[bytes]:
    """The plain bytes of one compressed section chunk by chunk; `library` inflates, and is `zlib` or like it."""
    at = 0
    while at < len(data):
        if len(data) - at < 3:
            raise CodecError("a compressed chunk has no complete header")
        header = int.from_bytes(data[at : at + 3], "little")
        at += 3
        length = header >> 1
        if length > len(data) - at:
            raise CodecError("a compressed chunk runs past its section")
        chunk = data[at : at + length]
        at += length
        yield bytes(chunk) if header & 1 else expand_chunk(chunk, compression, block_size, library=library)


def pack(data: bytes, compression: Compression, block_size: int, *, shrink: bool = True) -> bytes:
    """A section that `expand` gives back as `data`; a chunk that would hardly shrink, or need not, stays as it is."""
    if compression is Compression.NONE:
        return data
    size = min(block_size, _MAX_CHUNK)
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(chunk_of(plain, shrunk(plain, compression) if shrink else None) for plain in pieces)


def hardly_shrinks(plain: bytes | memoryview, small: bytes | None) -> bool:
    """Whether the compressed bytes of a chunk are not worth it; None for none."""
    return small is None or len(small) > _WORTH_INFLATING * len(plain)


def chunk_of(plain: bytes | memoryview, small: bytes | None) -> bytes:
    """A chunk as it is stored, of its plain bytes where these hardly shrink."""
    original = hardly_shrinks(plain, small)
    chunk = plain if original or small is None else small
    return b"".join((((len(chunk) << 1) | original).to_bytes(3, "little"), chunk))


def shrunk(plain: bytes | memoryview, compression: Compression) -> bytes | None:
    """The compressed bytes of one chunk; None where no codec makes them."""
    if compression is Compression.ZLIB:
        deflater = zlib.compressobj(wbits=-15)
        return deflater.compress(plain) + deflater.flush()
    name = _SIZED[compression][0] if compression in _SIZED else _STREAMED.get(compression)
    if name is None:
        return None
    small: bytes = _pyarrow().Codec(name).compress(plain, asbytes=True)
    return small


def _pyarrow() -> Any:
    # Only some codecs need it: reading the tail of a ZLIB file stays free of it.
    import pyarrow

    return pyarrow


def expand_chunk(chunk: bytes | memoryview, compression: Compression, block_size: int, *, library: Any = zlib) -> bytes:
    """The plain bytes of one compressed chunk, at most `block_size` of them."""
    if compression is Compression.ZLIB:
        try:
            inflater = library.decompressobj(-15)
            plain: bytes = inflater.decompress(chunk, block_size + 1)
        except library.error as error:
            raise CodecError("a compressed chunk is damaged") from error
        if len(plain) > block_size:
            raise CodecError("a compressed chunk is larger than the block size")
        if not inflater.eof:
            raise CodecError("a compressed chunk is cut short")
        return plain
    return _expand_by_arrow(bytes(chunk), compression, block_size)


def _expand_by_arrow(chunk: bytes, compression: Compression, block_size: int) -> bytes:
    pa = _pyarrow()
    try:
        if compression in _STREAMED:
            with pa.CompressedInputStream(pa.BufferReader(chunk), _STREAMED[compression]) as stream:
                plain = stream.read(block_size + 1)
        elif compression in _SIZED:
            name, measure = _SIZED[compression]
            size = measure(chunk)
            if size > block_size:
                raise CodecError("a compressed chunk is larger than the block size")
            plain = pa.Codec(name).decompress(chunk, decompressed_size=size, asbytes=True)
        else:
            raise CodecError(f"compression {compression.name} is not supported")
    except (pa.ArrowException, OSError, IndexError, WireError) as error:
        raise CodecError("a compressed chunk is damaged") from error
    assert isinstance(plain, bytes)
    if len(plain) > block_size:
        raise CodecError("a compressed chunk is larger than the block size")
    return plain


def _lz4_size(chunk: bytes) -> int:
    """The plain size of an LZ4 block, which carries none: the sum of its sequences' lengths."""
    total = at = 0
    while True:
        token = chunk[at]
        at += 1
        literals, at = _lz4_length(chunk, at, token >> 4)
        at += literals
        total += literals
        if at >= len(chunk):
            return total
        at += 2
        match, at = _lz4_length(chunk, at, token & 15)
        total += match + 4


def _lz4_length(chunk: bytes, at: int, first: int) -> tuple[int, int]:
    length, byte = first, 255 if first == 15 else 0
    while byte == 255:
        byte = chunk[at]
        at += 1
        length += byte
    return length, at


_STREAMED = {Compression.ZSTD: "zstd", Compression.BROTLI: "brotli"}
# The name of a codec, and how the plain size of a chunk is found.
_SIZED: dict[Compression, tuple[str, Callable[[bytes], int]]] = {
    Compression.SNAPPY: ("snappy", lambda chunk: varint(chunk[:5], 0)[0]),
    Compression.LZ4: ("lz4_raw", _lz4_size),
}
