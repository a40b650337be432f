"""An HTTP server before another one, or before none: it writes down what it is asked, and answers some of it itself."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: the decoded path, the parameters by their names, and how many bytes came with it."""

    method: str
    path: str
    query: Mapping[str, str]
    size: int

    @property
    def operation(self) -> str:
        """The WebHDFS operation."""
        return self.query.get("op", "")


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered; `length` claims another length than that of the body, and then the connection ends."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None


class Lost(Exception):
    """To be raised by a script: the connection ends without an answer; `carried_out` sends the request on first."""

    def __init__(self, *, carried_out: bool) -> None:
        super().__init__()
        self.carried_out = carried_out


Script = Callable[[Request], Reply | None]


def java(status: int, name: str, message: str) -> Reply:
    """A Java exception as Hadoop sends it."""
    remote = {"exception": name, "javaClassName": f"org.apache.hadoop.{name}", "message": message}
    return Reply(status, json.dumps({"RemoteException": remote}).encode())


class Relay:
    """Listens at a free loopback port; `script` answers, or says None for what the server at port `target` shall."""

    def __init__(
        self, script: Script = lambda request: None, *, target: int | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.connections = 0
        self._target = target
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def count(self, operation: str) -> int:
        """How often an operation was asked for."""
        return sum(request.operation == operation for request in self.requests)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                relay.connections += 1
                super().setup()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

            def do_GET(self) -> None:
                body = self._body()
                parts = urlsplit(self.path)
                request = Request(self.command, unquote(parts.path), dict(parse_qsl(parts.query)), len(body))
                relay.requests.append(request)
                try:
                    self._reply(relay.script(request) or relay._pass_on(self, body))
                except Lost as lost:
                    if lost.carried_out:
                        relay._pass_on(self, body)
                    self.close_connection = True

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            do_PUT = do_DELETE = do_POST = do_GET

            def _reply(self, reply: Reply) -> None:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
                self.end_headers()
                self.wfile.write(reply.body)
                self.close_connection = self.close_connection or reply.length is not None

        return Handler

    def _pass_on(self, handler: BaseHTTPRequestHandler, body: bytes) -> Reply:
        assert self._target is not None, "the script has no answer, and nobody else is there to give one"
        connection = http.client.HTTPConnection("127.0.0.1", self._target, timeout=60)
        try:
            connection.request(handler.command, handler.path, body, dict(handler.headers))
            answer = connection.getresponse()
            kept = {
                name: value
                for name, value in answer.getheaders()
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server")
            }
            return Reply(answer.status, answer.read(), kept)
        finally:
            connection.close()
