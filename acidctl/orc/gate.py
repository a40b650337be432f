"""The file that Arrow's C++ reader is given: the checked stripes under a tail of our own.

Arrow sees the stripes of the real file byte for byte, and after them a footer that is built from the checked
`Tail`. So no lie of the original tail reaches C++; top-level columns have the names `c0`, `c1`, ... and can
be asked for whatever they are called (Hive allows dots, duplicates by case, bytes that are no UTF-8); and a
timestamp column that Arrow's nanoseconds cannot hold is declared `bigint`, which makes the reader hand out
its raw seconds (see `exact`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from acidctl.orc.tail import OrcKind, OrcType, Stripe, Tail

_MAX_CHUNK = (1 << 23) - 1


def gated_tail(tail: Tail, wide: Collection[int], *, flatten: bool = False) -> tuple[int, bytes]:
    """Where the stripes of the file end, and the tail to put there; `wide` columns become bigint.

    With `flatten` the fields of the last column, a struct that is never NULL, stand beside it at the top.
    Column ids are given in preorder, so an empty struct in its old place keeps every id as the stripes know
    it.
    """
    content_end = max((stripe.end for stripe in tail.stripes), default=0)
    footer = b"".join(
        (
            _number(1, 3),
            _number(2, content_end),
            *(_block(3, _stripe(stripe)) for stripe in tail.stripes),
            *(_block(4, _type(entry, i in wide)) for i, entry in enumerate(_offered_types(tail, flatten))),
            _number(6, tail.rows),
            # Without a stride the reader ignores row indexes, which a plain scan never needs.
            _number(8, 0),
            _number(9, tail.writer_code if tail.writer_code < 1 << 31 else 0),
            _number(11, tail.calendar),
        )
    )
    post = tail.postscript
    stored = _uncompressed_chunks(footer, post.block_size) if post.compression else footer
    postscript = b"".join(
        (
            _number(1, len(stored)),
            _number(2, post.compression),
            _number(3, post.block_size),
            _block(4, b"".join(map(_varint, (0, 12)))),
            _number(5, 0),
            _number(6, post.writer_version),
            _block(8000, b"ORC"),
        )
    )
    return content_end, stored + postscript + bytes([len(postscript)])


def offered_name(column: int) -> str:
    """The name under which the gate offers the top-level column with this id."""
    return f"c{column}"


def _offered_types(tail: Tail, flatten: bool) -> list[OrcType]:
    types = list(tail.types)
    tops = types[0].subtypes
    if flatten:
        row = types[tops[-1]]
        types[tops[-1]] = replace(row, subtypes=(), names=())
        tops += row.subtypes
    types[0] = replace(types[0], subtypes=tops, names=tuple(offered_name(column) for column in tops))
    return types


def _uncompressed_chunks(data: bytes, block_size: int) -> bytes:
    size = min(block_size, _MAX_CHUNK)
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)


def _stripe(stripe: Stripe) -> bytes:
    return b"".join(
        (
            _number(1, stripe.offset),
            _number(2, stripe.index_length),
            _number(3, stripe.data_length),
            _number(4, stripe.footer_length),
            _number(5, stripe.rows),
        )
    )


def _type(entry: OrcType, wide: bool) -> bytes:
    parts = [_number(1, OrcKind.LONG if wide else entry.kind)]
    parts += [_number(2, child) for child in entry.subtypes]
    parts += [_block(3, name.encode()) for name in entry.names]
    for number, value in ((4, entry.max_length), (5, entry.precision), (6, entry.scale)):
        if value is not None:
            parts.append(_number(number, value))
    return b"".join(parts)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _block(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
