"""Small ORC files that ask for much: a few kilobytes that declare gigabytes or millions of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from acidctl.orc.codec import Compression
from acidctl.orc.wirewrite import block, number
from tests.support.orc_mutations import Parts, StoredStripe, put_together

LONG, STRING, LIST, STRUCT, DECIMAL = 4, 7, 10, 12, 14
_POST = number(2, 1) + number(3, 1 << 18) + block(4, bytes([0, 12])) + number(6, 6)
#: 512 times the number 7, as a run of differences that are zero.
SEVENS = bytes([0xC1, 0xFF, 14, 0])
_MANY = 4 << 20


def file_of(
    kinds: tuple[bytes, ...],
    streams: tuple[tuple[int, int, bytes], ...],
    encodings: bytes,
    rows: int,
    extra: bytes = b"",
) -> Parts:
    """A file of one stripe; the first of `kinds` is the root's type message."""
    footer = b"".join(block(4, kind) for kind in kinds) + number(6, rows) + number(8, 0) + extra
    return Parts((StoredStripe(streams, encodings, rows),), b"", footer, _POST, Compression.ZLIB, 1 << 18)


ROOT = number(1, STRUCT) + number(2, 1) + block(3, b"a")
V2, DICTIONARY = block(2, number(1, 2)), 3


def longs(rows: int, extra: bytes = b"") -> Parts:
    """One bigint column of sevens."""
    return file_of((ROOT, number(1, LONG)), ((1, 1, SEVENS * (rows // 512)),), block(2, b"") + V2, rows, extra)


def texts(lengths: bytes, data: bytes, rows: int, encoding: bytes = V2) -> Parts:
    """One text column with such streams."""
    return file_of((ROOT, number(1, STRING)), ((2, 1, lengths), (1, 1, data)), block(2, b"") + encoding, rows)


def _in_footer(more: bytes) -> Parts:
    return longs(512, more)


def _stripes(part: bytes) -> Parts:
    return replace(longs(512), on_footer=lambda footer: footer + part * _MANY)


def _stripe_footer(more: bytes) -> Parts:
    return replace(longs(512), on_stripe_footer=lambda footer: footer + more)


def _metadata(more: bytes) -> Parts:
    return replace(longs(512), metadata=more)


def _elements(runs: bytes) -> Parts:
    """array<bigint>, whose only row has as many elements as `runs` says."""
    array = number(1, LIST) + number(2, 2)
    streams = ((2, 1, runs), (1, 2, SEVENS * 1000))
    return file_of((ROOT, array, number(1, LONG)), streams, block(2, b"") + V2 + V2, 1)


def _direct(value: int) -> bytes:
    """One number of 32 bits, as a run."""
    return bytes([0x40 | 27 << 1, 0]) + value.to_bytes(4, "big")


BOMBS: dict[str, Callable[[], Parts]] = {
    "empty stripes": lambda: _stripes(block(3, b"")),
    "stripes with a number": lambda: _stripes(block(3, number(1, 0))),
    "types": lambda: _in_footer(block(4, number(1, LONG)) * _MANY),
    "types without a field": lambda: _in_footer(block(4, b"") * _MANY),
    "children of a type": lambda: file_of(
        (number(1, STRUCT) + block(2, b"\x01" * _MANY), number(1, LONG)), (), block(2, b"") + V2, 0
    ),
    "names of a type": lambda: file_of(
        (ROOT + block(3, b"") * _MANY, number(1, LONG)), ((1, 1, SEVENS),), block(2, b"") + V2, 512
    ),
    "attributes of a type": lambda: file_of(
        (ROOT + block(7, b"") * _MANY, number(1, LONG)), ((1, 1, SEVENS),), block(2, b"") + V2, 512
    ),
    "user metadata": lambda: _in_footer(block(5, b"") * _MANY),
    "a long value of user metadata": lambda: _in_footer(block(5, block(1, b"k") + block(2, bytes(40 << 20)))),
    "statistics": lambda: _in_footer(block(7, b"") * _MANY),
    "counts in statistics": lambda: _in_footer(block(7, b"") + block(7, block(5, block(1, b"\x01" * _MANY)))),
    "unknown fields": lambda: _in_footer(number(99, 1) * _MANY),
    "unknown bytes": lambda: _in_footer(block(99, bytes(70 << 20))),
    "streams": lambda: _stripe_footer(block(1, b"") * _MANY),
    "encodings": lambda: _stripe_footer(block(2, b"") * _MANY),
    "unknown fields of a stripe": lambda: _stripe_footer(number(99, 1) * _MANY),
    "a long time zone": lambda: _stripe_footer(block(3, b"U" * (40 << 20))),
    "a short time zone that is too long": lambda: _stripe_footer(block(3, b"U" * 1000)),
    "a dictionary of 2^28": lambda: texts(
        SEVENS, b"\xc1\xff\x00\x00", 512, block(2, number(1, DICTIONARY) + number(2, 1 << 28))
    ),
    "lengths of 500 MB": lambda: texts(bytes([0x00, 0x01]) * (250 << 20), bytes(1 << 20), 1 << 20),
    "lengths of one number each": lambda: texts((bytes([0x40, 0x00, 0x80])) * (50 << 20), bytes(1 << 20), 1 << 20),
    "2^27 elements": lambda: _elements(_direct(1 << 27)),
    "2^30 elements": lambda: _elements(_direct(1 << 30)),
    "2^25 elements": lambda: _elements(_direct(1 << 25)),
}

#: Nothing of these is read by scans of rows: they are sound, but for what they say of themselves.
ASIDE: dict[str, Callable[[], Parts]] = {
    "empty statistics of stripes": lambda: _metadata(block(1, b"") * (100 << 20)),
    "statistics of a stripe": lambda: _metadata(block(1, block(1, b"") * (30 << 20))),
}


def made() -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of each."""
    for name, build in {**BOMBS, **ASIDE}.items():
        yield name, put_together(build())
