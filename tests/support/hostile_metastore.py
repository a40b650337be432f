"""Servers on loopback that answer a call with bytes of their own making, each within what Thrift can carry."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator

from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TType
from thriftpy2.transport import TBufferedTransportFactory, TSocket

# name of the call, its number -> the bytes of the answer, piece by piece
Hostile = Callable[[str, int], Iterable[bytes]]


def serving(hostile: Hostile, calls: tuple[str, ...] = ()) -> Callable[[socket.socket], None]:
    """For `fake_metastore.listening`; other calls than `calls` get an answer that nobody minds."""

    def serve(connection: socket.socket) -> None:
        stream = TBufferedTransportFactory().get_transport(TSocket(sock=connection))
        protocol = TBinaryProtocolFactory().get_protocol(stream)
        while True:
            name, _, number = protocol.read_message_begin()
            protocol.skip(TType.STRUCT)
            protocol.read_message_end()
            answer = harmless if name == "set_ugi" or (calls and name not in calls) else hostile
            for piece in answer(name, number):
                connection.sendall(piece)

    return serve


def head(name: str, number: int, kind: int = 2) -> bytes:
    """The beginning of a message, a reply if nothing else is asked for."""
    return struct.pack(">Ii", 0x80010000 | kind, len(name)) + name.encode() + struct.pack(">i", number)


def result(kind: int) -> bytes:
    """The beginning of a result of this type."""
    return struct.pack(">bh", kind, 0)


def texts(count: int) -> bytes:
    """The beginning of a list of texts."""
    return struct.pack(">bi", 11, count)


def text(content: bytes) -> bytes:
    """A text."""
    return struct.pack(">i", len(content)) + content


def harmless(name: str, number: int) -> Iterator[bytes]:
    """An empty list."""
    yield head(name, number) + result(15) + texts(0) + b"\0"


def endless_list(name: str, number: int) -> Iterator[bytes]:
    """A list of texts that has no end."""
    yield head(name, number) + result(15) + texts(2**31 - 1)
    piece = text(b"default") * 4096
    while True:
        yield piece


def endless_records(name: str, number: int) -> Iterator[bytes]:
    """Records of one byte, of which each takes hundreds in memory."""
    yield head(name, number) + result(12) + struct.pack(">bhbi", 15, 1, 12, 2**31 - 1)
    while True:
        yield bytes(1 << 20)


def drip(name: str, number: int) -> Iterator[bytes]:
    """A text each half second, for ever."""
    yield head(name, number) + result(15) + texts(1000)
    while True:
        yield text(b"default")
        time.sleep(0.5)


def endless_text(name: str, number: int) -> Iterator[bytes]:
    """A text of 2 GiB, and it comes."""
    yield head(name, number) + result(15) + texts(1) + struct.pack(">i", 2**31 - 1)
    while True:
        yield bytes(1 << 20)


def other_number(name: str, number: int) -> Iterator[bytes]:
    """The answer to another call, by its number."""
    yield head(name, number + 7) + result(15) + texts(1) + text(b"default") + b"\0"


def other_name(name: str, number: int) -> Iterator[bytes]:
    """The answer to another call, by its name."""
    yield head("get_all_tables", number) + result(15) + texts(1) + text(b"default") + b"\0"


def nothing(name: str, number: int) -> Iterator[bytes]:
    """Neither a result nor an exception."""
    yield head(name, number) + b"\0"


def hollow(name: str, number: int) -> Iterator[bytes]:
    """A result of which all fields are missing."""
    yield head(name, number) + result(12) + b"\0\0"


def other_type(name: str, number: int) -> Iterator[bytes]:
    """A number where something else is expected."""
    yield head(name, number) + result(8) + struct.pack(">i", 7) + b"\0"


def negative(name: str, number: int) -> Iterator[bytes]:
    """A list of less than no texts."""
    yield head(name, number) + result(15) + texts(-1) + b"\0"


def negative_text(name: str, number: int) -> Iterator[bytes]:
    """A text of less than no bytes."""
    yield head(name, number) + result(15) + texts(1) + struct.pack(">i", -5) + b"\0"


def deep(name: str, number: int) -> Iterator[bytes]:
    """An unknown field in which lists are in lists are in lists."""
    yield head(name, number) + struct.pack(">bh", 15, 77) + struct.pack(">bi", 15, 1) * 100_000 + b"\0"


def of_nothing(name: str, number: int) -> Iterator[bytes]:
    """An unknown field: two thousand million values of a type that has no bytes."""
    yield head(name, number) + (struct.pack(">bh", 15, 77) + struct.pack(">bi", 1, 2**31 - 1)) * 100 + b"\0"


def more_than_the_answer(name: str, number: int) -> Iterator[bytes]:
    """An answer with another one behind it."""
    yield head(name, number) + result(15) + texts(0) + b"\0" + head(name, number) + b"\0"


def no_utf8(name: str, number: int) -> Iterator[bytes]:
    """Names of databases, one of which is no text, and escape sequences."""
    yield head(name, number) + result(15) + texts(3) + text(b"default") + text(b"\xff\xfe") + text(b"\x1b[31m") + b"\0"


HOSTILE = {
    one.__name__: one
    for one in (
        *(endless_list, endless_records, drip, endless_text, other_number, other_name, nothing, hollow, other_type),
        *(negative, negative_text, deep, of_nothing, more_than_the_answer),
    )
}
