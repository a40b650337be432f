"""Calls to a metastore: which of several answers, who is asking, what may be asked twice, and its refusals in words.

`hms.thrift` holds the part of the interface that is used; servers from Hive 3.1 to 4 understand it, a server without
a call says so.
"""

from __future__ import annotations

import base64
import getpass
import http.client
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

from acidctl.errors import AcidctlError, DeniedError, MissingDependencyError, StorageError, UnreachableError
from acidctl.metastore.settings import Address, MetastoreSettings
from acidctl.metastore.wire import EXCEPTION, REPLY, Answer, Bounds, GuardedSocket, TooLargeError, WireError
from acidctl.storage.redact import without_secrets
from acidctl.storage.retry import DEFAULT_RETRY

try:
    import thriftpy2
    from thriftpy2 import thrift
    from thriftpy2.protocol import TBinaryProtocolFactory
    from thriftpy2.transport import TBufferedTransportFactory, TSocket, TTransportException
    from thriftpy2.transport.sasl.cysasl import TCySaslClientTransport
except ImportError:
    thriftpy2 = None
try:
    import gssapi
except ImportError:
    gssapi = None

# Levels of protection that SASL offers (RFC 4752), and the largest message that we take.
_AUTH, _INTEGRITY, _PRIVACY = 1, 2, 4
_LARGEST = 0xFFFFFF
_CONNECT_SECONDS = 10.0
# The kind of message that is a call, and how many there are before their numbers begin anew.
_CALL, _MOST_CALLS = 1, 1 << 30
_GREETING_SECONDS = 20.0
# A connection that was idle for longer is tried with a harmless call before something is changed over it.
_IDLE_SECONDS = 0.5
# What Hive 3 lacks; where another call is missing, the server is older still, or none of Hive's.
_OF_HIVE_4 = (
    *("get_open_txns_req", "get_partitions_by_names_req", "get_latest_committed_compaction_info", "abort_Compactions"),
    *("find_", "update_compactor_state", "mark_"),
)
# What reads, or changes nothing the second time; everything else is sent once.
_READS = ("get", "show_", "find_columns", "heartbeat", "check_lock", "set_ugi")
_CLOSED_HINT = (
    "It may want TLS, SASL or HTTP, or be no metastore: see hive.metastore.use.SSL, .sasl.enabled and "
    ".thrift.transport.mode in hive-site.xml, and the settings of [metastore]."
)


_LARGE_HINT = "If it is a metastore with that much to say, raise largest_answer in [metastore]."


class UnknownCallError(StorageError):
    """This metastore does not have the call: it is older."""

    code = "metastore_too_old"
    advice = "Name the table by its path, and give the lists of its readers with --validtxns."


class RefusedError(StorageError):
    """The metastore was asked and refused; `exception` is what it raised, such as TxnAbortedException."""

    code = "metastore_refused"
    advice = "The metastore's own log says more."
    exception = ""


class Client:
    """Calls by name, over one connection at a time; threads wait for each other.

    `types` holds the structs and enums of the interface.
    """

    def __init__(self, settings: MetastoreSettings) -> None:
        self.settings = settings
        self.types = _interface()
        self._lock = threading.RLock()
        self._connection: Any = None
        self._address: Address | None = None
        self._bounds = Bounds(settings.largest_answer)
        self._used = 0.0
        self.requests = 0

    def __str__(self) -> str:
        """The address that answered, else all of them."""
        return str(self._address) if self._address else ", ".join(map(str, self.settings.addresses))

    @property
    def user(self) -> str:
        """On whose behalf calls are made: HADOOP_USER_NAME, else this process's user."""
        name = self.settings.user if self.settings.auth == "plain" else os.environ.get("HADOOP_USER_NAME")
        with suppress(KeyError, OSError):
            return name or getpass.getuser()
        return "acidctl"

    def call(self, name: str, *arguments: Any) -> Any:
        """Ask; what reads is asked again over a new connection, of each metastore in turn.

        Raises UnreachableError, for a change also where nobody knows whether it was carried out; UnknownCallError;
        RefusedError, whose `exception` names what the metastore raised.
        """
        with self._lock:
            if name.startswith(_READS):
                return DEFAULT_RETRY.run(lambda: self._once(name, arguments))
            if time.monotonic() - self._used > _IDLE_SECONDS:
                DEFAULT_RETRY.run(lambda: self._once("get_config_value", ("hive.txn.timeout", "300s")))
            try:
                return self._once(name, arguments)
            except UnreachableError as error:
                raise _once_only(error, name) from error

    def close(self) -> None:
        """End the connection; the next call opens another."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(Exception):
                    connection.close()

    def _once(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if self._connection is None:
            self._connect()
        self.requests += 1
        self._bounds.begin(self.settings.timeout)
        try:
            with self._sentences(name):
                return self._connection.call(name, *arguments)
        finally:
            self._used = time.monotonic()

    def _connect(self) -> None:
        """To the first that answers; those that just failed come last."""
        addresses = list(self.settings.addresses)
        if self._address in addresses:
            turn = addresses.index(self._address)
            addresses = addresses[turn:] + addresses[:turn]
        failed: list[str] = []
        for address in addresses:
            try:
                with self._sentences("connect", address):
                    # A server greets quickly or is none.
                    self._bounds.begin(min(_GREETING_SECONDS, self.settings.timeout))
                    self._connection = _open(self.settings, address, self.user, self._bounds)
                    self._address = address
                    if self.settings.auth == "none" and self.settings.transport == "binary":
                        # Else all is done as the server's own user; a server that knows who is asking refuses it.
                        with suppress(thrift.TApplicationException):
                            self._connection.call("set_ugi", self.user, [self.user])
                    return
            except UnreachableError as error:
                self.close()
                self._address = None
                failed.append(error.message)
                if len(failed) == len(addresses):
                    raise UnreachableError("; ".join(failed), hint=error.hint) from error
            except BaseException:
                self.close()
                raise

    @contextmanager
    def _sentences(self, name: str, address: Address | None = None) -> Iterator[None]:
        """What a call raises, as an error of ours; a connection that is not in order any more is ended."""
        where = f"the metastore {address or self._address}"
        try:
            yield
        except AcidctlError:
            self.close()
            raise
        except thrift.TApplicationException as error:
            text = _text(error)
            if "Invalid method name" in text:
                release = 4 if name.startswith(_OF_HIVE_4) else 3
                raise UnknownCallError(
                    f"{where} has no call {name}, as a metastore has from Hive {release} on"
                ) from error
            raise _refused(where, name, "TApplicationException", text) from error
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise DeniedError(
                f"the certificate of {where} is not trusted: {error.verify_message}",
                hint="Name the authority that signed it with ca_file in [metastore].",
            ) from error
        except ssl.SSLError as error:
            self.close()
            raise StorageError(
                f"{where} does not speak TLS: {error.reason or error}",
                hint="Set tls = false in [metastore], or see which port has TLS.",
            ) from error
        except TimeoutError as error:
            self.close()
            raise UnreachableError(f"{where} did not answer in time ({name})") from error
        except OSError as error:
            self.close()
            raise UnreachableError(f"{where} cannot be reached: {error.strerror or error}") from error
        except thrift.TException as error:
            kind = type(error).__name__
            if hasattr(error, "thrift_spec") and kind not in ("TTransportException", "TProtocolException"):
                raise _refused(where, name, kind, _text(error)) from error
            self.close()
            if kind == "TTransportException" and name not in ("connect", "set_ugi"):
                raise UnreachableError(f"{where} closed the connection ({name})", hint=_CLOSED_HINT) from error
            ended = getattr(error, "type", None) == TTransportException.END_OF_FILE
            what = "closed the connection" if ended else f"does not answer as a metastore does: {_text(error)}"
            raise StorageError(f"{where} {what}", hint=_CLOSED_HINT) from error
        except WireError as error:
            self.close()
            hint = _LARGE_HINT if isinstance(error, TooLargeError) else _CLOSED_HINT
            raise StorageError(f"{where} does not answer as a metastore does ({name}): {error}", hint=hint) from error
        except EOFError as error:
            self.close()
            if name in ("connect", "set_ugi"):
                raise StorageError(f"{where} closed the connection", hint=_CLOSED_HINT) from error
            raise UnreachableError(f"{where} closed the connection ({name})", hint=_CLOSED_HINT) from error
        except Exception as error:
            # Whatever a decoder makes of bytes that are no Thrift.
            self.close()
            raise StorageError(f"{where} does not answer as a metastore does ({name})", hint=_CLOSED_HINT) from error


def _open(settings: MetastoreSettings, address: Address, user: str, bounds: Bounds) -> _Calls:
    """A connection over which calls can be made."""
    context = ssl.create_default_context(cafile=settings.ca_file) if settings.tls else None
    if settings.transport == "http":
        stream = _Http(settings, address, user, context, bounds)
        return _Calls(TBufferedTransportFactory().get_transport(stream), stream.read, bounds)
    # Our own socket: thriftpy2's takes IPv4 alone, and forgets why a connection failed.
    plain = socket.create_connection((address.host, address.port), _CONNECT_SECONDS)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    try:
        connected = context.wrap_socket(plain, server_hostname=address.host) if context else plain
    except BaseException:
        plain.close()
        raise
    guarded = GuardedSocket(connected, bounds)
    if settings.auth not in ("plain", "kerberos"):
        return _Calls(TBufferedTransportFactory().get_transport(TSocket(sock=guarded)), guarded.recv, bounds)
    try:
        transport = _sasl(TSocket(sock=guarded), settings, address)
    except BaseException:
        guarded.close()
        raise
    return _Calls(transport, transport.read, bounds, exact=True)


class _Calls:
    """Calls over one connection: written by thriftpy2, answers read within bounds."""

    def __init__(self, transport: Any, source: Callable[[int], bytes], bounds: Bounds, *, exact: bool = False) -> None:
        self._transport = transport
        self._protocol = TBinaryProtocolFactory().get_protocol(transport)
        self._service = _interface().Metastore
        self._read = partial(Answer, source, bounds, exact=exact)
        self._number = 0

    def call(self, name: str, *given: Any) -> Any:
        """Send a call and wait for its answer; raises what it names as thrown, WireError, EOFError and OSError."""
        self._number = self._number % _MOST_CALLS + 1
        asked = getattr(self._service, f"{name}_args")()
        for place, value in zip(sorted(asked.thrift_spec), given, strict=True):
            setattr(asked, asked.thrift_spec[place][1], value)
        self._protocol.write_message_begin(name, _CALL, self._number)
        asked.write(self._protocol)
        self._protocol.write_message_end()
        self._transport.flush()
        return self._answer(name)

    def _answer(self, name: str) -> Any:
        answer = self._read()
        known, kind, number = answer.begin()
        if number != self._number or kind not in (REPLY, EXCEPTION) or (kind == REPLY and known != name):
            raise WireError(f"its answer is to another call ({known!a}, number {number})")
        found = answer.record(thrift.TApplicationException if kind == EXCEPTION else self._result(name))
        answer.end()
        if kind == EXCEPTION:
            raise found
        fields = found.thrift_spec
        for place in sorted(fields):
            if place and (thrown := getattr(found, fields[place][1])) is not None:
                raise thrown
        if 0 not in fields:
            return None
        if found.success is None:
            raise WireError("its answer holds no result")
        return found.success

    def _result(self, name: str) -> Any:
        return getattr(self._service, f"{name}_result")

    def close(self) -> None:
        """End the connection."""
        self._transport.close()


class _Http:
    """A transport that sends each call as a request, and has looked at the answer's status and taken all of it."""

    def __init__(
        self,
        settings: MetastoreSettings,
        address: Address,
        user: str,
        context: ssl.SSLContext | None,
        bounds: Bounds,
    ) -> None:
        self._headers = {"Content-Type": "application/x-thrift", "x-actor-username": user, **settings.headers}
        if settings.auth == "jwt":
            self._headers["Authorization"] = f"Bearer {settings.token}"
        elif settings.auth == "plain":
            pair = base64.b64encode(f"{settings.user}:{settings.password}".encode()).decode()
            self._headers["Authorization"] = f"Basic {pair}"
        self._path = f"/{settings.http_path.strip('/')}"
        self._address = address
        self._context = context
        self._bounds = bounds
        self._asked = BytesIO()
        self._answer = BytesIO()

    def is_open(self) -> bool:
        """Each request has a connection of its own."""
        return True

    def write(self, data: bytes) -> None:
        """A part of the call."""
        self._asked.write(data)

    def flush(self) -> None:
        """Send the call."""
        body, self._asked = self._asked.getvalue(), BytesIO()
        seconds = min(_CONNECT_SECONDS, self._bounds.seconds())
        host, port = self._address.host, self._address.port
        connection = (
            http.client.HTTPConnection(host, port, timeout=seconds)
            if self._context is None
            else http.client.HTTPSConnection(host, port, timeout=seconds, context=self._context)
        )
        with closing(connection):
            connection.connect()
            connection.sock = GuardedSocket(connection.sock, self._bounds)
            connection.request("POST", self._path, body, self._headers)
            answer = connection.getresponse()
            if answer.length is not None and answer.length > self._bounds.largest:
                raise self._bounds.too_large()
            with closing(answer):
                self._answer = BytesIO(answer.read())
        _check_status(answer.status, self._address)

    def read(self, size: int) -> bytes:
        """A part of the answer."""
        return self._answer.read(size)

    def close(self) -> None:
        """Nothing is open between requests."""


def _check_status(status: int, address: Address) -> None:
    """A StorageError for what is no answer to a call."""
    if status in (401, 403):
        raise DeniedError(
            f"the metastore {address} refused this user (HTTP {status})",
            hint="See auth, user and headers in [metastore], ACIDCTL_METASTORE_PASSWORD and ACIDCTL_METASTORE_TOKEN.",
        )
    if status != 200:
        raise StorageError(
            f"the metastore {address} does not answer as a metastore does: HTTP {status}", hint=_CLOSED_HINT
        )


@cache
def _interface() -> Any:
    """The structs, enums and calls of `hms.thrift`."""
    if thriftpy2 is None:
        raise MissingDependencyError(
            "a metastore needs a package that is not installed", hint="pip install 'acidctl[metastore]'"
        )
    return thriftpy2.load(str(Path(__file__).with_name("hms.thrift")), module_name="acidctl_hms_thrift")


def _text(error: BaseException) -> str:
    """The first line of what an exception says; Java's traces follow it."""
    text = getattr(error, "message", None) or str(error)
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return without_secrets(text.strip().partition("\n")[0])


def _refused(where: str, name: str, exception: str, text: str) -> RefusedError:
    error = RefusedError(f"{where} refused {name}: {text or exception}")
    error.exception = exception
    return error


def _once_only(error: UnreachableError, name: str) -> UnreachableError:
    """The same for a change: nobody knows whether it was carried out, so nobody may ask again."""
    unknown = UnreachableError(f"{error.message}; whether {name} was carried out is unknown", hint=error.hint)
    unknown.transient = False
    return unknown


# --- SASL before Thrift: PLAIN with a password (RFC 4616), GSSAPI with a Kerberos ticket (RFC 4752)


def _sasl(stream: Any, settings: MetastoreSettings, address: Address) -> Any:
    """An open transport over `stream`. DeniedError where the server refuses, or where there is no ticket."""
    kerberos = settings.auth == "kerberos"
    made = _kerberos if kerberos else _Plain
    transport = TCySaslClientTransport(lambda: made(settings, address), "GSSAPI" if kerberos else "PLAIN", stream)
    try:
        transport.open()
    except TTransportException as error:
        if error.type == TTransportException.END_OF_FILE:
            raise DeniedError(
                f"the metastore {address} closed the connection instead of answering SASL",
                hint='Set auth = "none" in [metastore] where it does not ask for it; its log says why it refused.',
            ) from error
        raise DeniedError(
            f"the metastore {address} refused this user ({'its ticket' if kerberos else 'its password'})",
            hint="See user and password in [metastore]."
            if not kerberos
            else "See `klist`, and principal in [metastore]: it is the server's.",
        ) from error
    return transport


class _Plain:
    """A user and a password, in the form that thriftpy2 asks for."""

    def __init__(self, settings: MetastoreSettings, address: Address) -> None:
        self._first = f"\0{settings.user}\0{settings.password}".encode()

    def start(self, mechanism: str) -> tuple[bool, str, bytes]:
        return True, mechanism, self._first

    def step(self, challenge: bytes) -> tuple[bool, bytes]:
        return True, b""

    def encode(self, data: bytes) -> tuple[bool, bytes]:
        return True, data

    def decode(self, data: bytes) -> tuple[bool, bytes]:
        return True, data


def _kerberos(settings: MetastoreSettings, address: Address) -> Any:
    """A client of GSSAPI; what it raises of its own is in words already."""
    if gssapi is None:
        raise MissingDependencyError(
            "Kerberos needs a package that is not installed", hint="pip install 'acidctl[kerberos]'"
        )
    host = address.host if address.host not in ("127.0.0.1", "::1") else "localhost"
    principal = (settings.principal or "").replace("_HOST", socket.getfqdn(host).lower())
    return _Gssapi(principal, address)


class _Gssapi:
    """A ticket, then how much of what follows is signed or sealed."""

    def __init__(self, principal: str, address: Address) -> None:
        self._principal = principal
        self._address = address
        self._protection = _AUTH
        # `hive/host@REALM` says its realm; the service's name for GSSAPI.
        name = gssapi.Name(principal, gssapi.NameType.kerberos_principal)
        self._context = gssapi.SecurityContext(name=name, usage="initiate")

    def start(self, mechanism: str) -> tuple[bool, str, bytes]:
        return True, mechanism, self._token(None)

    def _token(self, given: bytes | None) -> bytes:
        try:
            return self._context.step(given) or b""
        except gssapi.exceptions.GSSError as error:
            reason = " ".join(str(error.gen_message()).split())
            raise DeniedError(
                f"Kerberos gives no access to the metastore {self._address} as {self._principal}: {reason}",
                hint="See `klist`; get a ticket with kinit, and compare principal in [metastore] with hive-site.xml.",
            ) from error

    def step(self, challenge: bytes) -> tuple[bool, bytes]:
        if not self._context.complete:
            return True, self._token(challenge)
        offered = self._context.unwrap(challenge).message[0]
        self._protection = next(level for level in (_AUTH, _INTEGRITY, _PRIVACY) if offered & level)
        answer = struct.pack(">I", self._protection << 24 | _LARGEST)
        return True, self._context.wrap(answer, False).message

    def encode(self, data: bytes) -> tuple[bool, bytes]:
        if self._protection == _AUTH:
            return True, data
        sealed = self._context.wrap(data, self._protection == _PRIVACY).message
        return True, struct.pack(">I", len(sealed)) + sealed

    def decode(self, data: bytes) -> tuple[bool, bytes]:
        # With its length in front, as the transport hands it over.
        return True, data if self._protection == _AUTH else self._context.unwrap(data[4:]).message
