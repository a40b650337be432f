"""Tails that acidctl writes: of an edited file, and the one that Arrow's reader is given in place of a file's own.

Arrow's writer knows neither char and varchar nor user metadata nor calendars. All of these stand in the footer, so the
stripes stay byte for byte and only footer and postscript are made anew. Every field that is not changed is kept as it
stands, statistics and fields unknown to this code included.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import BinaryIO, Protocol

from acidctl.errors import InternalError
from acidctl.format.names import EVENT_FIELDS
from acidctl.orc.codec import Compression, pack
from acidctl.orc.protobuf import Message, Value, encoded, packed, rewritten
from acidctl.orc.tail import MAGIC, PRIMITIVES, OrcKind, OrcType, Tail
from acidctl.types.hive_types import Field, HiveType, Primitive, StructType, TypeKind, children

_KINDS = {hive: orc for orc, hive in PRIMITIVES.items()} | {
    TypeKind.DECIMAL: OrcKind.DECIMAL,
    TypeKind.CHAR: OrcKind.CHAR,
    TypeKind.VARCHAR: OrcKind.VARCHAR,
    TypeKind.ARRAY: OrcKind.LIST,
    TypeKind.MAP: OrcKind.MAP,
    TypeKind.STRUCT: OrcKind.STRUCT,
    TypeKind.UNION: OrcKind.UNION,
}
# The streams of these are the same, so a column written as one may be called the other.
_TEXTS = frozenset({OrcKind.STRING, OrcKind.CHAR, OrcKind.VARCHAR})
_INT = Primitive(TypeKind.INT)
_BIGINT = Primitive(TypeKind.BIGINT)

# Numbers of fields: of the footer, and of the postscript.
CONTENT_LENGTH, STRIPES, TYPES, METADATA, ROWS, STATISTICS, STRIDE, CALENDAR = 2, 3, 4, 5, 6, 7, 8, 11
_FOOTER_LENGTH, _COMPRESSION, _BLOCK_SIZE, _METADATA_LENGTH = 1, 2, 3, 5


class Appended(Protocol):
    """A file that is only appended to, and knows its length."""

    def write(self, data: bytes, /) -> int: ...

    def tell(self) -> int: ...


def event_type(columns: StructType) -> StructType:
    """The type of an ACID file whose rows have these columns (Hive: `OrcRecordUpdater.createEventObjectInspector`)."""
    types: tuple[HiveType, ...] = (_INT, _BIGINT, _INT, _BIGINT, _BIGINT, columns)
    return StructType(tuple(Field(name, kind) for name, kind in zip(EVENT_FIELDS, types, strict=True)))


@lru_cache(maxsize=16)
def orc_types(kind: HiveType) -> tuple[OrcType, ...]:
    """The flattened type tree of a Hive type, ids in preorder from 0."""
    types: list[OrcType] = []
    _add_type(types, kind)
    return tuple(types)


def _add_type(types: list[OrcType], kind: HiveType) -> int:
    place = len(types)
    if isinstance(kind, Primitive):
        types.append(OrcType(_KINDS[kind.kind], (), (), kind.length, kind.precision, kind.scale, ()))
        return place
    names = kind.names if isinstance(kind, StructType) else ()
    types.append(OrcType(_KINDS[kind.kind], (), names, None, None, None, ()))
    types[place] = replace(types[place], subtypes=tuple(_add_type(types, child) for child in children(kind)))
    return place


@lru_cache(maxsize=1024)
def encode_type(entry: OrcType) -> bytes:
    """A type as it stands in a footer."""
    return encoded(
        {
            1: entry.kind,
            2: packed(entry.subtypes) if entry.subtypes else None,
            3: [name.encode("utf-8", "replace") for name in entry.names],
            4: entry.max_length,
            5: entry.precision,
            6: entry.scale,
            7: [encoded({1: key.encode(), 2: value.encode()}) for key, value in entry.attributes],
        }
    )


def renamed_types(tail: Tail, wanted: tuple[OrcType, ...]) -> list[bytes]:
    """The footer's types as `wanted`; InternalError when the columns of the file are not encoded as these would be."""
    if len(tail.types) != len(wanted):
        raise InternalError(f"{tail.name} has {len(tail.types)} columns where {len(wanted)} were meant")
    for column, (found, new) in enumerate(zip(tail.types, wanted, strict=True)):
        same = found.kind is new.kind or (new.kind in _TEXTS and found.kind in _TEXTS | {OrcKind.BINARY})
        decimals = (found.precision, found.scale) == (new.precision, new.scale)
        if not same or found.subtypes != new.subtypes or (new.kind is OrcKind.DECIMAL and not decimals):
            raise InternalError(
                f"{tail.name} has {found.kind.name} in column {column}, where {new.kind.name} was meant"
            )
    return [encode_type(entry) for entry in wanted]


def merged_metadata(tail: Tail, metadata: Mapping[str, bytes]) -> list[bytes]:
    """The footer's user metadata with the given keys set and all others kept."""
    values = {**dict(tail.user_metadata), **metadata}
    return [encoded({1: key.encode(), 2: value}) for key, value in values.items()]


def sealed(
    footer: bytes, postscript: bytes, compression: Compression, block_size: int, *, metadata: bytes | None = None
) -> bytes:
    """Stripe statistics if given, footer, postscript and the last byte, as they end a file of this compression.

    `postscript` is the old one without its length byte; `metadata` are the stripe statistics. None of them is
    compressed yet. Without statistics those before the footer stay as they are.
    """
    stored = pack(footer, compression, block_size)
    changes: dict[int, Value] = {_FOOTER_LENGTH: len(stored)}
    if Message(postscript).uint(_COMPRESSION) != compression:
        changes |= {_COMPRESSION: compression, _BLOCK_SIZE: block_size}
    statistics = b""
    if metadata is not None:
        statistics = pack(metadata, compression, block_size)
        changes[_METADATA_LENGTH] = len(statistics)
    new = rewritten(postscript, changes)
    if len(new) > 255:
        raise InternalError(f"a postscript of {len(new)} bytes has no room in its length byte")
    return statistics + stored + new + bytes([len(new)])


def end_lengths(postscript: bytes) -> tuple[int, int]:
    """The lengths of footer and stripe statistics, from a postscript that a writer has just made."""
    footer, metadata = Message(postscript).numbers(_FOOTER_LENGTH, _METADATA_LENGTH)
    return footer, metadata


# --- A tail for Arrow's C++ reader.
#
# Arrow sees the stripes of the real file byte for byte, and after them a footer that is built from the checked `Tail`.
# So no lie of the original tail reaches C++; top-level columns have the names `c0`, `c1`, ... and can be asked for
# whatever they are called (Hive allows dots, duplicates by case, bytes that are not UTF-8); and a timestamp column that
# Arrow's nanoseconds cannot hold is declared `bigint`, which makes the reader hand out its raw seconds (see `streams`).


# The reader begins with so many bytes at the end, whatever they are; no stripe has any of them.
_FIRST_READ = 16 << 10


def safe_tail(tail: Tail, wide: Collection[int], *, flatten: bool = False) -> tuple[int, bytes]:
    """Where the stripes of the file end, and what to put there, the tail last; `wide` columns become bigint.

    With `flatten` the fields of the last column, a struct that is never NULL, stand beside it at the top.
    Column ids are given in preorder, so an empty struct in its old place keeps every id as the stripes know
    it.
    """
    content_end = max((stripe.end for stripe in tail.stripes), default=0)
    footer = encoded(
        {
            1: 3,
            2: content_end,
            3: [
                encoded({1: s.offset, 2: s.index_length, 3: s.data_length, 4: s.footer_length, 5: s.rows})
                for s in tail.stripes
            ],
            4: _offered(tail, wide, flatten),
            6: tail.rows,
            # Without a stride the reader ignores row indexes, which a plain scan never needs.
            8: 0,
            9: tail.writer_code if tail.writer_code < 1 << 31 else 0,
            11: tail.calendar,
        }
    )
    post = tail.postscript
    stored = pack(footer, post.compression, post.block_size, shrink=False)
    ends: dict[int, Value] = {1: len(stored), 2: post.compression, 3: post.block_size, 4: packed((0, 12)), 5: 0}
    postscript = encoded({**ends, 6: post.writer_version, 8000: MAGIC})
    return content_end, bytes(_FIRST_READ) + stored + postscript + bytes([len(postscript)])


def offered_name(column: int) -> str:
    """The name that the top-level column with this id has for Arrow."""
    return f"c{column}"


def _offered(tail: Tail, wide: Collection[int], flatten: bool) -> list[bytes]:
    """The types that are offered, encoded; the same for all files of a table mostly."""
    key = frozenset(wide), flatten
    known = tail.types.offered
    if key not in known:
        known[key] = [encode_type(entry) for entry in _offered_types(tail, wide, flatten)]
    return known[key]


def _offered_types(tail: Tail, wide: Collection[int], flatten: bool) -> list[OrcType]:
    types = [
        replace(entry, kind=OrcKind.LONG if i in wide else entry.kind, attributes=())
        for i, entry in enumerate(tail.types)
    ]
    tops = types[0].subtypes
    if flatten:
        row = types[tops[-1]]
        types[tops[-1]] = replace(row, subtypes=(), names=())
        tops += row.subtypes
    types[0] = replace(types[0], subtypes=tops, names=tuple(offered_name(column) for column in tops))
    return types


def write_all(target: BinaryIO, data: bytes | memoryview) -> None:
    """Write every byte, also to raw files, which may take fewer."""
    at = 0
    while at < len(data):
        count = target.write(data[at:] if at else data)
        at += len(data) if count is None else count
