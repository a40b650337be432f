"""ORC files with one thing wrong and all else right: every length, offset and checksum fits what the file holds.

A flipped byte mostly breaks a length, and a reader never comes to what lies behind it. Here a file is taken apart into
its messages and plain streams, one field is changed, and all is encoded again, so that what is wrong is a meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from acidctl.orc.codec import Compression, expand, pack
from acidctl.orc.protobuf import Message, WireError, block, encode_varint, number, varint

LIMIT = 1 << 28

# Which fields of which message are messages themselves, by number.
Shape = Mapping[int, Any]
STATISTICS: Shape = {2: {}, 3: {}, 4: {}, 5: {}, 6: {}, 7: {}, 8: {}, 9: {}, 12: {}}
FOOTER: Shape = {3: {}, 4: {7: {}}, 5: {}, 7: STATISTICS}
METADATA: Shape = {1: {1: STATISTICS}}
STRIPE_FOOTER: Shape = {1: {}, 2: {}}
ROW_INDEX: Shape = {1: {2: STATISTICS}}
BLOOM_FILTERS: Shape = {1: {}}
_INDEX_SHAPES: Mapping[int, Shape] = {6: ROW_INDEX, 7: BLOOM_FILTERS, 8: BLOOM_FILTERS}
_INDEX_KINDS = (6, 7, 8)


@dataclass
class Field:
    """A field of a message: number, wire type, and an integer, bytes, or the fields of a message."""

    number: int
    wire: int
    value: Any


def parsed(data: bytes, shape: Shape) -> list[Field]:
    """The fields of a message in order."""
    fields = []
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
            fields.append(Field(key >> 3, 0, value))
            continue
        length = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            length, at = varint(data, at)
        raw, at = data[at : at + length], at + length
        inner = shape.get(key >> 3) if kind == 2 else None
        fields.append(Field(key >> 3, kind, raw if inner is None else parsed(raw, inner)))
    return fields


def encoded(fields: list[Field]) -> bytes:
    """The bytes of a message."""
    parts = []
    for field in fields:
        key = encode_varint(field.number << 3 | field.wire)
        if field.wire == 0:
            parts.append(key + encode_varint(field.value))
            continue
        raw = encoded(field.value) if isinstance(field.value, list) else field.value
        parts.append(key + (encode_varint(len(raw)) if field.wire == 2 else b"") + raw)
    return b"".join(parts)


@dataclass(frozen=True)
class StoredStripe:
    """A stripe: its streams as (kind, column, plain bytes), the rest of its footer, and its rows."""

    streams: tuple[tuple[int, int, bytes], ...]
    footer: bytes
    rows: int


@dataclass(frozen=True)
class Parts:
    """A file taken apart; `footer` is without stripes, `postscript` without lengths."""

    stripes: tuple[StoredStripe, ...]
    metadata: bytes
    footer: bytes
    postscript: bytes
    compression: Compression
    block_size: int
    #: Applied to what is encoded at last, when all lengths are known.
    on_footer: Callable[[bytes], bytes] = bytes
    on_stripe_footer: Callable[[bytes], bytes] = bytes


def taken_apart(data: bytes) -> Parts:
    """The parts of a sound file."""
    length = data[-1]
    raw_post = data[-1 - length : -1]
    post = Message(raw_post)
    compression, size = Compression(post.uint(2) or 0), post.uint(3) or 1 << 18
    end = len(data) - 1 - length
    footer_at = end - (post.uint(1) or 0)
    footer = expand(data[footer_at:end], compression, size, LIMIT)
    metadata_at = footer_at - (post.uint(5) or 0)
    stripes = []
    for item in Message(footer).messages(3):
        stripes.append(_stripe(data, item, compression, size))
    return Parts(
        tuple(stripes),
        expand(data[metadata_at:footer_at], compression, size, LIMIT),
        _without(footer, 1, 2, 3),
        _without(raw_post, 1, 5, 7, 8000),
        compression,
        size,
    )


def _stripe(data: bytes, item: Message, compression: Compression, size: int) -> StoredStripe:
    at = item.uint(1) or 0
    footer_at = at + (item.uint(2) or 0) + (item.uint(3) or 0)
    footer = expand(data[footer_at : footer_at + (item.uint(4) or 0)], compression, size, LIMIT)
    streams = []
    for stream in Message(footer).messages(1):
        length = stream.uint(3) or 0
        plain = expand(data[at : at + length], compression, size, LIMIT)
        streams.append((stream.uint(1) or 0, stream.uint(2) or 0, plain))
        at += length
    return StoredStripe(tuple(streams), _without(footer, 1), item.uint(5) or 0)


def _without(data: bytes, *dropped: int) -> bytes:
    return encoded([field for field in parsed(data, {}) if field.number not in dropped])


def put_together(parts: Parts) -> bytes:
    """The file of these parts, with lengths and offsets that fit."""

    def packed(plain: bytes) -> bytes:
        return pack(plain, parts.compression, parts.block_size)

    body = bytearray(b"ORC")
    stripes = []
    for stripe in parts.stripes:
        start, index_length = len(body), 0
        listed = []
        for kind, column, plain in stripe.streams:
            stored = packed(plain)
            listed.append(block(1, number(1, kind) + number(2, column) + number(3, len(stored))))
            body += stored
            index_length += len(stored) if kind in _INDEX_KINDS else 0
        data_length = len(body) - start - index_length
        footer = packed(parts.on_stripe_footer(b"".join(listed) + stripe.footer))
        body += footer
        places = (start, index_length, data_length, len(footer), stripe.rows)
        stripes.append(block(3, b"".join(number(i, value) for i, value in enumerate(places, 1))))
    content = len(body)
    metadata = packed(parts.metadata)
    footer = packed(parts.on_footer(number(1, 3) + number(2, content) + b"".join(stripes) + parts.footer))
    post = number(1, len(footer)) + parts.postscript + number(5, len(metadata)) + block(8000, b"ORC")
    return bytes(body) + metadata + footer + post + bytes([len(post)])


def renamed_column(data: bytes, column: int, name: str) -> bytes:
    """The file with another name for a top-level column."""

    def rename(footer: bytes) -> bytes:
        fields = parsed(footer, FOOTER)
        root = next(field for field in fields if field.number == 4)
        [field for field in root.value if field.number == 3][column].value = name.encode()
        return encoded(fields)

    return put_together(replace(taken_apart(data), on_footer=rename))


# --- mutations --------------------------------------------------------------------------------------------------------

_NUMBERS = (0, 1, 2, 3, 5, 7, 127, 128, 65535, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)


def mutations(data: bytes, rng: Random) -> Iterator[tuple[str, bytes]]:
    """Endlessly, files that differ from a sound one in one thing, with a few words about it."""
    parts = taken_apart(data)
    kinds = [_footer, _footer, _statistics, _types, _stripe_footer, _stripe_footer, _stream, _stream, _metadata]
    kinds += [_postscript, _move_stripes]
    while True:
        try:
            yield rng.choice(kinds)(parts, rng)
        except (_Nothing, WireError):
            continue


class _Nothing(Exception):
    """There was nothing to change in this way."""


def _footer(parts: Parts, rng: Random) -> tuple[str, bytes]:
    said: list[str] = []

    def change(footer: bytes) -> bytes:
        return _changed(footer, FOOTER, rng, said)

    data = put_together(replace(parts, on_footer=change))
    return f"footer: {said[0]}", data


def _statistics(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """A column's statistics become sound ones of another kind, in the footer or in those of a stripe."""
    kind, values = rng.choice(_OTHER_STATISTICS)
    in_stripes = bool(parts.metadata) and rng.random() < 0.3
    said: list[str] = []

    def change(message: bytes) -> bytes:
        fields = parsed(message, METADATA if in_stripes else FOOTER)
        columns = [field for field in fields if field.number == (1 if in_stripes else 7)]
        if in_stripes and columns:
            columns = rng.choice(columns).value
        if not columns:
            raise _Nothing
        column = rng.randrange(len(columns))
        kept = [field for field in columns[column].value if field.number in (1, 10, 11)]
        columns[column].value = [*kept, Field(kind, 2, values)]
        said.append(f"column {column} gets those of kind {kind} ({values.hex()})")
        return encoded(fields)

    if in_stripes:
        data = put_together(replace(parts, metadata=change(parts.metadata)))
    else:
        data = put_together(replace(parts, on_footer=change))
    return f"statistics: {said[0]}", data


_OTHER_STATISTICS = (
    *((kind, number(1, 2) + number(2, 5) + number(3, 7)) for kind in (2, 7, 8, 9, 12)),
    *((kind, number(1, 9) + number(2, 4) + number(3, 1)) for kind in (2, 7, 8, 9)),
    *((kind, number(1, 1 << 63) + number(2, (1 << 64) - 1) + number(3, (1 << 64) - 1)) for kind in (2, 7, 8, 9, 12)),
    *((kind, block(1, b"a") + block(2, b"z") + number(3, 3)) for kind in (4, 6)),
    *(
        (kind, block(1, low) + block(2, b"1E+9999") + block(3, b"NaN"))
        for kind in (4, 6)
        for low in (b"-1", b"9e999999")
    ),
    *(
        (3, b"\x09" + low + b"\x11" + bytes(8) + b"\x19" + low)
        for low in (bytes(6) + b"\xf8\x7f", bytes(6) + b"\xf0\xff")
    ),
    (5, number(1, 1 << 40)),
    (5, block(1, encode_varint(1 << 62) + encode_varint(3))),
    (9, b"".join(number(i, (1 << 63) - i) for i in range(1, 7))),
    (4, block(1, b"\xff\xfe") + block(4, b"") + number(3, (1 << 64) - 1)),
)


def _types(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """A type becomes another one, in a tree that stays whole."""
    said: list[str] = []

    def change(footer: bytes) -> bytes:
        fields = parsed(footer, FOOTER)
        types = [field.value for field in fields if field.number == 4]
        column = rng.randrange(len(types))
        kept = [field for field in types[column] if field.number not in (1, 3)]
        children = sum(_count(field) for field in kept if field.number == 2)
        leaves = (*range(10), 14, 15, 16, 17, 18)
        kinds = {0: (*leaves, 12), 1: (10, 12, 13), 2: (11, 12, 13)}.get(children, (12, 13))
        kind = rng.choice(kinds)
        names = rng.choice(
            [[b"a"] * children, [b"%d" % i for i in range(children)], [b""] * children, [b"\xff.`\n"] * children]
        )
        named = [Field(3, 2, name) for name in names] if kind == 12 else []
        types[column][:] = [Field(1, 0, kind), *kept, *named]
        said.append(f"column {column} becomes one of kind {kind}")
        return encoded(fields)

    data = put_together(replace(parts, on_footer=change))
    return f"types: {said[0]}", data


def _count(field: Field) -> int:
    """How many numbers a repeated field holds, packed or not."""
    return 1 if field.wire == 0 else sum(byte < 128 for byte in field.value)


def _metadata(parts: Parts, rng: Random) -> tuple[str, bytes]:
    if not parts.metadata:
        raise _Nothing
    said: list[str] = []
    metadata = _changed(parts.metadata, METADATA, rng, said)
    return f"metadata: {said[0]}", put_together(replace(parts, metadata=metadata))


def _postscript(parts: Parts, rng: Random) -> tuple[str, bytes]:
    said: list[str] = []
    postscript = _changed(parts.postscript, {}, rng, said)
    return f"postscript: {said[0]}", put_together(replace(parts, postscript=postscript[:150]))


def _stripe_footer(parts: Parts, rng: Random) -> tuple[str, bytes]:
    if not parts.stripes:
        raise _Nothing
    chosen, seen = rng.randrange(len(parts.stripes)), [0]
    said: list[str] = []

    def change(footer: bytes) -> bytes:
        seen[0] += 1
        return _changed(footer, STRIPE_FOOTER, rng, said) if seen[0] == chosen + 1 else footer

    data = put_together(replace(parts, on_stripe_footer=change))
    return f"footer of stripe {chosen}: {said[0]}", data


def _stream(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """A stream's plain bytes, its kind or its column; those of an index by their fields."""
    if not any(stripe.streams for stripe in parts.stripes):
        raise _Nothing
    chosen = rng.choice([i for i, stripe in enumerate(parts.stripes) if stripe.streams])
    stripe = parts.stripes[chosen]
    streams = list(stripe.streams)
    i = rng.randrange(len(streams))
    kind, column, plain = streams[i]
    how = rng.randrange(6)
    said: list[str] = []
    if how == 0:
        streams[i] = kind, rng.choice(streams)[1], plain
    elif how == 1:
        streams[i] = rng.choice((*range(9), rng.choice(streams)[0])), column, plain
    elif how == 2:
        j = rng.randrange(len(streams))
        streams[i], streams[j] = (kind, column, streams[j][2]), (*streams[j][:2], plain)
    elif how == 3:
        streams.insert(i, streams.pop(rng.randrange(len(streams)))) if rng.random() < 0.5 else streams.pop(i)
    elif kind in _INDEX_SHAPES and plain:
        streams[i] = kind, column, _changed(plain, _INDEX_SHAPES[kind], rng, said)
    else:
        streams[i] = kind, column, _changed_bytes(plain, rng)
    stripes = list(parts.stripes)
    stripes[chosen] = replace(stripe, streams=tuple(streams))
    words = ["its column", "its kind", "bytes of two swapped", "its place", "its bytes", "its bytes"][how]
    return (
        f"stream {kind} of column {column}, stripe {chosen}: {words} {' '.join(said)}",
        put_together(replace(parts, stripes=tuple(stripes))),
    )


def _move_stripes(parts: Parts, rng: Random) -> tuple[str, bytes]:
    """Rows of stripes: more, fewer, or moved from one to another."""
    if not parts.stripes:
        raise _Nothing
    stripes = list(parts.stripes)
    i, j = rng.randrange(len(stripes)), rng.randrange(len(stripes))
    by = rng.choice([1, -1, 1000, 1 << 20, stripes[i].rows])
    stripes[i] = replace(stripes[i], rows=max(0, stripes[i].rows + by))
    stripes[j] = replace(stripes[j], rows=max(0, stripes[j].rows - by))
    total = sum(stripe.rows for stripe in stripes)

    def count(footer: bytes) -> bytes:
        return _without(footer, 6) + number(6, total)

    return f"rows of stripes {i} and {j} by {by}", put_together(replace(parts, stripes=tuple(stripes), on_footer=count))


def _changed(data: bytes, shape: Shape, rng: Random, said: list[str]) -> bytes:
    """The message with one field changed, somewhere in it."""
    fields = parsed(data, shape)
    every = list(_places(fields, ""))
    if not every:
        raise _Nothing
    # A level has as many fields as there are columns: choose the kind of place first, so that rare ones come too.
    paths = sorted({path for path, _, _ in every})
    path = rng.choice(paths)
    same = [(level, i) for other, level, i in every if other == path]
    level, i = rng.choice(same)
    other_level, other = rng.choice(same)
    field = level[i]
    what = rng.choice(_CHANGES)
    if what == "drop":
        del level[i]
    elif what == "double":
        level.insert(rng.randrange(len(level) + 1), field)
    elif what == "number":
        field.number = rng.choice([rng.randint(1, 13), rng.choice(level).number])
    elif what == "swap":
        mine, theirs = level[i], other_level[other]
        mine.wire, theirs.wire = theirs.wire, mine.wire
        mine.value, theirs.value = theirs.value, mine.value
    elif what == "wire":
        field.wire, field.value = rng.choice(
            [(0, rng.choice(_NUMBERS)), (1, bytes(8)), (2, b"\x01\x02"), (5, bytes(4))]
        )
    elif what == "order":
        rng.shuffle(level)
    else:
        _change_value(field, rng)
    said.append(f"{what} at {path}")
    return encoded(fields)


_CHANGES = ("drop", "double", "number", "swap", "wire", "order", "value", "value", "value")


def _change_value(field: Field, rng: Random) -> None:
    if isinstance(field.value, int):
        near = [max(0, field.value - 1), field.value + 1, field.value ^ 1 << rng.randrange(64)]
        field.value = rng.choice([*near, rng.choice(_NUMBERS), rng.randrange(20)]) & (1 << 64) - 1
    elif isinstance(field.value, list):
        field.value = rng.choice([[], field.value * 2, [Field(rng.randint(1, 6), 0, rng.choice(_NUMBERS))]])
    else:
        field.value = _changed_bytes(field.value, rng)
        if field.wire in (1, 5):
            field.value = field.value.ljust(8, b"\xff")[: 8 if field.wire == 1 else 4]


def _changed_bytes(data: bytes, rng: Random) -> bytes:
    how = rng.randrange(5)
    if how == 0 or not data:
        return data + rng.randbytes(rng.randint(1, 9))
    place = rng.randrange(len(data))
    if how == 1:
        return data[:place]
    if how == 2:
        return data[:place] + data[place + rng.randint(1, 4) :]
    flipped = data[place] ^ (1 << rng.randrange(8) if how == 3 else rng.randint(1, 255))
    return data[:place] + bytes([flipped]) + data[place + 1 :]


def _places(fields: list[Field], path: str) -> Iterator[tuple[str, list[Field], int]]:
    """All fields at every depth: where in the message, the level they stand in, and their place there."""
    for i, field in enumerate(fields):
        here = f"{path}/{field.number}"
        yield here, fields, i
        if isinstance(field.value, list):
            yield from _places(field.value, here)
