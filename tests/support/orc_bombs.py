"""Small ORC files that ask for much: a few kilobytes that declare gigabytes or millions of objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from acidctl.orc.codec import Compression
from acidctl.orc.protobuf import block, number
from tests.support.orc_mutations import Parts, StoredStripe

LONG, STRING, TIMESTAMP, LIST, MAP, STRUCT, UNION, DECIMAL = 4, 7, 9, 10, 11, 12, 13, 14
PRESENT, DATA, LENGTH, DICTIONARY_DATA, SECONDARY, ROW_INDEX, BLOOM = 0, 1, 2, 3, 5, 6, 8
_POST = number(3, 1 << 18) + block(4, bytes([0, 12])) + number(6, 6)
#: 512 times the number 7, as a run of differences that are zero.
SEVENS = bytes([0xC1, 0xFF, 14, 0])
_MANY = 1 << 20


def file_of(
    kinds: tuple[bytes, ...],
    streams: tuple[tuple[int, int, bytes], ...],
    encodings: bytes,
    rows: int,
    extra: bytes = b"",
    compression: Compression = Compression.ZLIB,
) -> Parts:
    """A file of one stripe; the first of `kinds` is the root's type message."""
    footer = b"".join(block(4, kind) for kind in kinds) + number(6, rows) + number(8, 0) + extra
    post = number(2, compression) + _POST
    return Parts((StoredStripe(streams, encodings, rows),), b"", footer, post, compression, 1 << 18)


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


def _structure(*names: bytes) -> bytes:
    """The type message of a struct whose children follow it at once, none of which has children."""
    return number(1, STRUCT) + b"".join(number(2, i + 1) + block(3, name) for i, name in enumerate(names))


def column(kinds: tuple[bytes, ...], streams: tuple[tuple[int, int, bytes], ...], rows: int, **more: Any) -> Parts:
    """One column `a`, whose types begin with column 1."""
    return file_of((ROOT, *kinds), streams, block(2, b"") + V2 * len(kinds), rows, **more)


def columns(kind: int, streams: tuple[tuple[int, bytes], ...], count: int, rows: int, encoding: bytes = V2) -> Parts:
    """So many columns of one type and with streams alike."""
    root = _structure(*(b"c%d" % i for i in range(count)))
    listed = tuple((what, i + 1, data) for i in range(count) for what, data in streams)
    return file_of((root, *[number(1, kind)] * count), listed, block(2, b"") + encoding * count, rows)


def events(
    kinds: tuple[bytes, ...],
    streams: tuple[tuple[int, int, bytes], ...],
    encodings: bytes,
    write: int = 1,
    **more: Any,
) -> Parts:
    """One INSERT, whose only column `a` is number 7; `kinds` are its types."""
    names = (b"operation", b"originalTransaction", b"bucket", b"rowId", b"currentTransaction", b"row")
    keys = (number(1, 3), number(1, LONG), number(1, 3), number(1, LONG), number(1, LONG))
    row = number(1, STRUCT) + number(2, 7) + block(3, b"a")
    known = tuple((DATA, i + 1, _direct(2 * value)) for i, value in enumerate((0, write, 536870912, 0, write)))
    front = block(2, b"") + V2 * 5 + block(2, b"")
    return file_of((_structure(*names), *keys, row, *kinds), known + streams, front + encodings, 1, **more)


def _with_metadata(key: bytes, value: bytes, write: int) -> Parts:
    """A sound event and an entry of user metadata."""
    extra = block(5, block(1, key) + block(2, value))
    return events((number(1, LONG),), ((DATA, 7, _direct(14)),), V2, write, extra=extra)


def _index(kind: int, message: bytes) -> Parts:
    """Sound rows with a row index or bloom filters."""
    return file_of((ROOT, number(1, LONG)), ((kind, 1, message), (DATA, 1, SEVENS)), block(2, b"") + V2, 512)


LS, REPORT, DATA_ROWS, INDEXES, SNAPSHOT, COMPACT = "ls", "dump", "dump -d", "dump -r", "snapshot", "compact"
#: Which commands meet what lies in the tail, in the footer of a stripe, in its streams.
ALL = frozenset({LS, REPORT, DATA_ROWS, INDEXES, SNAPSHOT, COMPACT})
FOOTERS = ALL - {LS}
ROWS = frozenset({DATA_ROWS, SNAPSHOT, COMPACT})
_LOOKED = frozenset({REPORT, INDEXES})
# What a limit of rows ends before.
WHOLE = frozenset({SNAPSHOT, COMPACT})
NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Bomb:
    """A file and the commands that end with 13 because of it, or with 3.

    Where `acid` it holds an event, of the write that `build` is told.
    """

    build: Callable[..., Parts]
    met_by: frozenset[str]
    acid: bool = False
    noted_by: frozenset[str] = frozenset()


_ZSTD: dict[str, Any] = {"compression": Compression.ZSTD}
_200_MB = 200 << 20
_TEXT = number(1, STRING)
_ARRAY = number(1, LIST) + number(2, 2)
_REPEATS = bytes([0x00, 0x01])

BOMBS: dict[str, Bomb] = {
    "empty stripes": Bomb(lambda: _stripes(block(3, b"")), ALL),
    "stripes with a number": Bomb(lambda: _stripes(block(3, number(1, 0))), ALL),
    "types": Bomb(lambda: _in_footer(block(4, number(1, LONG)) * _MANY), ALL),
    "types without a field": Bomb(lambda: _in_footer(block(4, b"") * _MANY), ALL),
    "children of a type": Bomb(
        lambda: file_of((number(1, STRUCT) + block(2, b"\x01" * _MANY), number(1, LONG)), (), block(2, b"") + V2, 0),
        ALL,
    ),
    "names of a type": Bomb(
        lambda: file_of((ROOT + block(3, b"") * _MANY, number(1, LONG)), ((1, 1, SEVENS),), block(2, b"") + V2, 512),
        ALL,
    ),
    "attributes of a type": Bomb(
        lambda: file_of((ROOT + block(7, b"") * _MANY, number(1, LONG)), ((1, 1, SEVENS),), block(2, b"") + V2, 512),
        ALL,
    ),
    "user metadata": Bomb(lambda: _in_footer(block(5, b"") * _MANY), ALL),
    "a long value of user metadata": Bomb(
        lambda: _in_footer(block(5, block(1, b"k") + block(2, bytes(20 << 20)))), ALL
    ),
    "statistics": Bomb(lambda: _in_footer(block(7, b"") * _MANY), ALL),
    "counts in statistics": Bomb(
        lambda: _in_footer(block(7, b"") + block(7, block(5, block(1, b"\x01" * _MANY)))), FOOTERS
    ),
    "unknown fields": Bomb(lambda: _in_footer(number(99, 1) * _MANY), ALL),
    "unknown bytes": Bomb(lambda: _in_footer(block(99, bytes(70 << 20))), ALL),
    "streams": Bomb(lambda: _stripe_footer(block(1, b"") * _MANY), FOOTERS),
    "encodings": Bomb(lambda: _stripe_footer(block(2, b"") * _MANY), FOOTERS),
    "unknown fields of a stripe": Bomb(lambda: _stripe_footer(number(99, 1) * _MANY), FOOTERS),
    "a long time zone": Bomb(lambda: _stripe_footer(block(3, b"U" * (10 << 20))), FOOTERS),
    "a short time zone that is too long": Bomb(lambda: _stripe_footer(block(3, b"U" * 1000)), FOOTERS),
    "a dictionary of 2^28": Bomb(
        lambda: texts(SEVENS, b"\xc1\xff\x00\x00", 512, block(2, number(1, DICTIONARY) + number(2, 1 << 28))), FOOTERS
    ),
    "lengths of 500 MB": Bomb(lambda: texts(bytes([0x00, 0x01]) * (250 << 20), bytes(1 << 20), 1 << 20), ROWS),
    "lengths of one number each": Bomb(
        lambda: texts((bytes([0x40, 0x00, 0x80])) * (50 << 20), bytes(1 << 20), 1 << 20), ROWS
    ),
    "2^27 elements": Bomb(lambda: _elements(_direct(1 << 27)), ROWS),
    "2^30 elements": Bomb(lambda: _elements(_direct(1 << 30)), ROWS),
    "2^25 elements": Bomb(lambda: _elements(_direct(1 << 25)), ROWS),
    "empty statistics of stripes": Bomb(lambda: _metadata(block(1, b"") * (100 << 20)), _LOOKED),
    "statistics of a stripe": Bomb(lambda: _metadata(block(1, block(1, b"") * (30 << 20))), _LOOKED),
}

#: These came later, most of them in streams of their own.
MORE: dict[str, Bomb] = {
    "eight texts of 64 MB": Bomb(
        lambda: column((_TEXT,), ((LENGTH, 1, _direct(64 << 20) * 8), (DATA, 1, bytes(512 << 20))), 8, **_ZSTD), ROWS
    ),
    "a text of 200 MB in a list": Bomb(
        lambda: column(
            (_ARRAY, _TEXT),
            ((LENGTH, 1, _direct(1)), (LENGTH, 2, _direct(_200_MB)), (DATA, 2, bytes(_200_MB))),
            1,
            **_ZSTD,
        ),
        ROWS,
    ),
    "an entry of a dictionary of 200 MB": Bomb(
        lambda: file_of(
            (ROOT, _TEXT),
            ((DATA, 1, b"\xc1\xff\x00\x00"), (LENGTH, 1, _direct(_200_MB)), (DICTIONARY_DATA, 1, bytes(_200_MB))),
            block(2, b"") + block(2, number(1, DICTIONARY) + number(2, 1)),
            512,
            **_ZSTD,
        ),
        ROWS,
    ),
    "a dictionary of 2^24 without lengths": Bomb(
        lambda: texts(SEVENS, b"\xc1\xff\x00\x00", 512, block(2, number(1, DICTIONARY) + number(2, 1 << 24))), ROWS
    ),
    "eight dictionaries of 2^24 empty entries": Bomb(
        lambda: columns(
            STRING,
            ((DATA, b"\xc1\xff\x00\x00"), (LENGTH, b"\xc1\xff\x00\x00" * (1 << 15))),
            8,
            512,
            block(2, number(1, DICTIONARY) + number(2, 1 << 24)),
        ),
        ROWS,
    ),
    "a map of 2^24 entries": Bomb(
        lambda: column(
            (number(1, MAP) + number(2, 2) + number(2, 3), number(1, LONG), number(1, LONG)),
            ((LENGTH, 1, _direct(1 << 24)), (DATA, 2, SEVENS * (1 << 15)), (DATA, 3, SEVENS * (1 << 15))),
            1,
        ),
        ROWS,
    ),
    "lists in lists in lists": Bomb(
        lambda: column(
            (_ARRAY, number(1, LIST) + number(2, 3), number(1, LIST) + number(2, 4), number(1, LONG)),
            ((LENGTH, 1, _direct(500)), (LENGTH, 2, SEVENS), (LENGTH, 3, _direct(1 << 16) * 3500), (DATA, 4, SEVENS)),
            1,
        ),
        ROWS,
    ),
    "a list of structs of 1,000 fields": Bomb(
        lambda: column(
            (
                _ARRAY,
                number(1, STRUCT) + b"".join(number(2, i + 3) + block(3, b"f%d" % i) for i in range(1000)),
                *[number(1, LONG)] * 1000,
            ),
            ((LENGTH, 1, _direct(1 << 20)),),
            1,
        ),
        ROWS,
    ),
    "lengths of the first encoding": Bomb(
        lambda: texts(b"\x00\x00\x01" * (20 << 20), bytes(1 << 20), 1 << 20, block(2, b"")), ROWS
    ),
    "lengths of 1,000 columns": Bomb(
        lambda: columns(STRING, ((LENGTH, _REPEATS * (64 << 10)), (DATA, b"")), 1000, 196_608), ROWS
    ),
    "lengths that each might be large": Bomb(
        lambda: column(
            (_TEXT,), ((LENGTH, 1, b"\x5e\x01\x00\x01\xff\xff" * (1 << 20)), (DATA, 1, b"")), 1 << 21, **_ZSTD
        ),
        ROWS,
    ),
    "a scale of 2^30": Bomb(
        lambda: column(
            (number(1, DECIMAL) + number(5, 38),), ((DATA, 1, b"\x02"), (SECONDARY, 1, _direct(1 << 31))), 1
        ),
        ROWS,
    ),
    "scales of 60 MB": Bomb(
        lambda: column(
            (number(1, DECIMAL) + number(5, 38),),
            ((DATA, 1, b"\x02" * (1 << 20)), (SECONDARY, 1, bytes([0x00, 0x04]) * (30 << 20))),
            1 << 20,
        ),
        ROWS,
    ),
    "a decimal without an end": Bomb(
        lambda: column(
            (number(1, DECIMAL) + number(5, 38),), ((DATA, 1, b"\xff" * (30 << 20)), (SECONDARY, 1, _direct(0))), 1
        ),
        ROWS,
    ),
    "nanoseconds of 60 MB": Bomb(
        lambda: column((number(1, TIMESTAMP),), ((DATA, 1, SEVENS), (SECONDARY, 1, _REPEATS * (30 << 20))), 512), ROWS
    ),
    "nanoseconds of 400 columns": Bomb(
        lambda: columns(TIMESTAMP, ((DATA, SEVENS), (SECONDARY, _REPEATS * (160 << 10))), 400, 512), ROWS
    ),
    "tags of 60 MB": Bomb(
        lambda: column(
            (number(1, UNION) + number(2, 2), number(1, LONG)),
            ((DATA, 1, _REPEATS * (30 << 20)), (DATA, 2, SEVENS)),
            512,
        ),
        ROWS,
    ),
    "a tag of no type": Bomb(
        lambda: column(
            (number(1, UNION) + number(2, 2), number(1, LONG)), ((DATA, 1, b"\x7f\x7f"), (DATA, 2, SEVENS)), 130
        ),
        ROWS,
    ),
    "NULLs of unions in 60 MB": Bomb(
        lambda: column(
            (number(1, UNION) + number(2, 2), number(1, LONG)),
            ((PRESENT, 1, b"\x00\xff" * (30 << 20)), (DATA, 1, b"\x7f\x00" * 4), (DATA, 2, SEVENS)),
            512,
        ),
        ROWS,
    ),
    "bits that are too few": Bomb(
        lambda: column((number(1, LONG),), ((PRESENT, 1, b"\x7f\xff" * 100), (DATA, 1, SEVENS * 1000)), 512_000),
        WHOLE,
    ),
    "entries of a row index": Bomb(lambda: _index(ROW_INDEX, block(1, b"") * (20 << 20)), frozenset({INDEXES})),
    "positions in a row index": Bomb(
        lambda: _index(ROW_INDEX, block(1, block(1, b"\x01" * (40 << 20)))), frozenset({INDEXES})
    ),
    "a row index of 100 MB": Bomb(lambda: _index(ROW_INDEX, block(99, bytes(100 << 20))), frozenset({INDEXES})),
    "bloom filters": Bomb(lambda: _index(BLOOM, block(1, b"") * (20 << 20)), frozenset({INDEXES})),
    "words of a bloom filter": Bomb(
        lambda: _index(BLOOM, block(1, (number(2, 1)[:0] + b"\x11" + bytes(8)) * (4 << 20))), frozenset({INDEXES})
    ),
    "blocks of 8 MB in 200 columns": Bomb(
        lambda: replace(
            columns(STRING, ((LENGTH, SEVENS), (DATA, b"x" * 14 * 512)), 200, 512),
            postscript=number(2, 1) + number(3, 1 << 23) + block(4, bytes([0, 12])) + number(6, 6),
            block_size=1 << 23,
        ),
        NONE,
    ),
    "types in types": Bomb(
        lambda: file_of(
            (*(number(1, STRUCT) + number(2, i + 1) + block(3, b"a") for i in range(1000)), number(1, LONG)),
            (),
            block(2, b"") * 1001,
            0,
        ),
        ALL,
    ),
    "a text of 200 MB in an event": Bomb(
        lambda write: events((_TEXT,), ((LENGTH, 7, _direct(_200_MB)), (DATA, 7, bytes(_200_MB))), V2, write, **_ZSTD),
        ROWS,
        True,
    ),
    "2^24 elements in an event": Bomb(
        lambda write: events(
            (number(1, LIST) + number(2, 8), number(1, LONG)),
            ((LENGTH, 7, _direct(1 << 24)), (DATA, 8, SEVENS * (1 << 15))),
            V2 + V2,
            write,
        ),
        ROWS,
        True,
    ),
    "a dictionary of 2^24 in an event": Bomb(
        lambda write: events(
            (_TEXT,),
            ((DATA, 7, _direct(0)), (LENGTH, 7, SEVENS), (DICTIONARY_DATA, 7, b"")),
            block(2, number(1, DICTIONARY) + number(2, 1 << 24)),
            write,
        ),
        ROWS,
        True,
    ),
    # Nothing is made of these: the index of keys counts as unreadable, and of the statistics the beginning is read.
    "a key index of 5 million keys": Bomb(
        lambda write: _with_metadata(b"hive.acid.key.index", b";" * (5 << 20), write), NONE, True, _LOOKED
    ),
    "a key of 10 million digits": Bomb(
        lambda write: _with_metadata(b"hive.acid.key.index", b"1,2," + b"9" * (10 << 20) + b";", write),
        NONE,
        True,
        _LOOKED,
    ),
    "events in 10 million digits": Bomb(
        lambda write: _with_metadata(b"hive.acid.stats", b"9" * (10 << 20), write), NONE, True
    ),
}
