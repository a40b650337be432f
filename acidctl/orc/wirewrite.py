"""The protobuf wire format, written: the counterpart of `wire`.

`rewritten` changes some fields of a message and keeps all others byte for byte, those unknown to this code included:
what a newer writer put there is not ours to drop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from acidctl.orc.protobuf import WireError, varint

_LENGTHS = {1: 8, 5: 4}


def number(field: int, value: int) -> bytes:
    """An unsigned number as a field; signed ones are the caller's to convert (`unsigned`, `zigzagged`)."""
    return encode_varint(field << 3) + encode_varint(int(value))


def block(field: int, data: bytes) -> bytes:
    """Bytes, text or a message as a field."""
    return encode_varint(field << 3 | 2) + encode_varint(len(data)) + data


def encode_varint(value: int) -> bytes:
    """An unsigned number in groups of seven bits, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzagged(value: int) -> int:
    """A `sint64` in its unsigned form."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def raw_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message in order: number, and the whole field with its key; WireError when there is none."""
    at = 0
    while at < len(data):
        start = at
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            _, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            at += length
        elif kind in _LENGTHS:
            at += _LENGTHS[kind]
        else:
            raise WireError(f"wire type {kind} is unknown")
        if at > len(data):
            raise WireError("a field runs past the end")
        yield key >> 3, data[start:at]


def rewritten(data: bytes, dropped: Collection[int], added: bytes) -> bytes:
    """The message without the fields of `dropped` numbers, and with `added` encoded fields before the rest.

    What was last stays last: readers look for the letters at the end of a postscript without parsing it.
    """
    return added + b"".join(field for number, field in raw_fields(data) if number not in dropped)
