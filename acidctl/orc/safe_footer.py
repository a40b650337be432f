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

from acidctl.orc.tail import OrcKind, OrcType, Tail
from acidctl.orc.tailedit import encode_stripe, encode_type
from acidctl.orc.wirewrite import block, encode_varint, number

_MAX_CHUNK = (1 << 23) - 1
# The reader begins with so many bytes at the end, whatever they are: they are none of a stripe.
_FIRST_READ = 16 << 10


def gated_tail(tail: Tail, wide: Collection[int], *, flatten: bool = False) -> tuple[int, bytes]:
    """Where the stripes of the file end, and what to put there, the tail last; `wide` columns become bigint.

    With `flatten` the fields of the last column, a struct that is never NULL, stand beside it at the top.
    Column ids are given in preorder, so an empty struct in its old place keeps every id as the stripes know
    it.
    """
    content_end = max((stripe.end for stripe in tail.stripes), default=0)
    footer = b"".join(
        (
            number(1, 3),
            number(2, content_end),
            *(block(3, encode_stripe(stripe)) for stripe in tail.stripes),
            *(block(4, encode_type(entry)) for entry in _offered_types(tail, wide, flatten)),
            number(6, tail.rows),
            # Without a stride the reader ignores row indexes, which a plain scan never needs.
            number(8, 0),
            number(9, tail.writer_code if tail.writer_code < 1 << 31 else 0),
            number(11, tail.calendar),
        )
    )
    post = tail.postscript
    stored = _uncompressed_chunks(footer, post.block_size) if post.compression else footer
    postscript = b"".join(
        (
            number(1, len(stored)),
            number(2, post.compression),
            number(3, post.block_size),
            block(4, b"".join(map(encode_varint, (0, 12)))),
            number(5, 0),
            number(6, post.writer_version),
            block(8000, b"ORC"),
        )
    )
    return content_end, bytes(_FIRST_READ) + stored + postscript + bytes([len(postscript)])


def offered_name(column: int) -> str:
    """The name under which the gate offers the top-level column with this id."""
    return f"c{column}"


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


def _uncompressed_chunks(data: bytes, block_size: int) -> bytes:
    size = min(block_size, _MAX_CHUNK)
    chunks = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join((len(chunk) << 1 | 1).to_bytes(3, "little") + chunk for chunk in chunks)
