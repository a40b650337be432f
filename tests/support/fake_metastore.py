"""Servers on loopback that a metastore is mistaken for, or that know as many calls as an older one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TApplicationException, TProcessor, TType
from thriftpy2.transport import TBufferedTransportFactory, TSocket

from tests.services.metastore import IDL

Answer = Callable[..., Any]


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port at which `serve` has each connection, in a thread of its own."""
    server = socket.create_server(("127.0.0.1", 0))
    connections: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                connections.append(connection)
                threading.Thread(target=_quietly, args=(serve, connection), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield int(server.getsockname()[1])
    finally:
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(5)
        for connection in connections:
            connection.close()


def _quietly(serve: Callable[[socket.socket], None], connection: socket.socket) -> None:
    # The client may have gone meanwhile.
    with suppress(Exception):
        serve(connection)


def says(answer: bytes) -> Callable[[socket.socket], None]:
    """Answers whatever comes with these bytes, and hangs up."""

    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_RDWR)

    return serve


def never_answers(connection: socket.socket) -> None:
    """Takes what comes."""
    while connection.recv(65536):
        pass


class FakeMetastore:
    """Knows the calls of `answers` alone, like a server of another release; `calls` are those that came."""

    def __init__(self, **answers: Answer) -> None:
        self.calls: list[str] = []
        self._answers = {"set_ugi": lambda user, groups: [user], **answers}

    def serve(self, connection: socket.socket) -> None:
        """For `listening`."""
        stream = TBufferedTransportFactory().get_transport(TSocket(sock=connection))
        protocol = TBinaryProtocolFactory().get_protocol(stream)
        processor = _Processor(self)
        while True:
            processor.process(protocol, protocol)

    def known(self, name: str) -> bool:
        """Whether this call is one of its own."""
        self.calls.append(name)
        return name in self._answers

    def __getattr__(self, name: str) -> Answer:
        return self._answers[name]


class _Processor(TProcessor):  # type: ignore[misc]
    """Refuses unknown calls in the words of Java's Thrift."""

    def __init__(self, fake: FakeMetastore) -> None:
        super().__init__(IDL.Metastore, fake)
        self._fake = fake

    def process_in(self, protocol: Any) -> Any:
        peeked = _Peeked(protocol)
        name = peeked.name
        if not self._fake.known(name):
            protocol.skip(TType.STRUCT)
            protocol.read_message_end()
            text = f"Invalid method name: '{name}'"
            return name, peeked.number, TApplicationException(TApplicationException.UNKNOWN_METHOD, text), None
        return super().process_in(peeked)


class _Peeked:
    """A protocol whose next message's beginning was read already."""

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._begin = protocol.read_message_begin()
        self.name, _, self.number = self._begin

    def read_message_begin(self) -> Any:
        return self._begin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._protocol, name)
