"""The footer of a Parquet file with another `created_by`, by which Hive decides how it reads timestamps.

Arrow writes its own name there and offers no way to write another. The footer is a Thrift struct (FileMetaData of
parquet.thrift) in the compact protocol, whose numbers are written as protobuf's are, followed by its length and a magic
word.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

from acidctl.errors import InternalError
from acidctl.orc.protobuf import varint, zigzag
from acidctl.orc.wirewrite import encode_varint

_MAGIC = b"PAR1"
_END = 4 + len(_MAGIC)
# FileMetaData.created_by, and the type of its value.
_CREATED_BY = 6
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


class TailHolder:
    """A sink for Arrow's Parquet writer that passes on what it is given, until `hold` keeps the rest back."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._held: bytearray | None = None
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        """Take all the bytes."""
        if self._held is None:
            return self._sink.write(data)
        self._held += data
        return len(data)

    def flush(self) -> None:
        """Nothing waits here that may go on."""

    def hold(self) -> None:
        """Only the footer is still to come."""
        self._held = bytearray()

    def release(self, created_by: str) -> None:
        """Pass on what was held, which ends with the footer, as if `created_by` had written it."""
        assert self._held is not None
        self._sink.write(renamed(bytes(self._held), created_by))
        self._held = None

    def close(self) -> None:
        """The sink is closed by whoever opened it."""
        self.closed = True


def renamed(end: bytes, created_by: str) -> bytes:
    """The end of a file, from wherever before its footer, with another writer's name in it."""
    length = struct.unpack("<I", end[-_END : -len(_MAGIC)])[0] if end.endswith(_MAGIC) and len(end) >= _END else None
    if length is None or length + _END > len(end):
        raise InternalError("Arrow has not ended a Parquet file as was expected.")
    start = len(end) - _END - length
    footer = end[start:-_END]
    begin, stop = _place(footer)
    name = created_by.encode()
    footer = footer[:begin] + encode_varint(len(name)) + name + footer[stop:]
    return end[:start] + footer + struct.pack("<I", len(footer)) + _MAGIC


def _place(footer: bytes) -> tuple[int, int]:
    """Where the value of `created_by` begins and where it ends."""
    at, field = 0, 0
    while (head := footer[at]) != _STOP:
        kind, delta = head & 0x0F, head >> 4
        at += 1
        if delta:
            field += delta
        else:
            number, at = varint(footer, at)
            field = zigzag(number)
        end = _skip(footer, at, kind)
        if field == _CREATED_BY and kind == _BINARY:
            return at, end
        at = end
    raise InternalError("Arrow has not written its name into a Parquet file.")


def _skip(data: bytes, at: int, kind: int, *, inside: bool = False) -> int:
    """Where a value ends; `inside` a list or map a truth value takes a byte."""
    if kind in (_TRUE, _FALSE):
        return at + inside
    if kind == _BYTE:
        return at + 1
    if kind in (_I16, _I32, _I64):
        return varint(data, at)[1]
    if kind == _DOUBLE:
        return at + 8
    if kind == _BINARY:
        length, at = varint(data, at)
        return at + length
    if kind in (_LIST, _SET):
        count, element = data[at] >> 4, data[at] & 0x0F
        at += 1
        if count == 15:
            count, at = varint(data, at)
        for _ in range(count):
            at = _skip(data, at, element, inside=True)
        return at
    if kind == _STRUCT:
        while (head := data[at]) != _STOP:
            at += 1
            if not head >> 4:
                at = varint(data, at)[1]
            at = _skip(data, at, head & 0x0F)
        return at + 1
    raise InternalError(f"A Parquet footer holds a value of Thrift type {kind}.")
