"""SASL before Thrift: PLAIN with a password (RFC 4616), GSSAPI with a Kerberos ticket (RFC 4752)."""

from __future__ import annotations

import socket
import struct
from typing import Any

from acidctl.errors import DeniedError, MissingDependencyError
from acidctl.metastore.settings import Address, MetastoreSettings

try:
    import gssapi
except ImportError:
    gssapi = None
try:
    from thriftpy2.transport import TTransportException
    from thriftpy2.transport.sasl.cysasl import TCySaslClientTransport
except ImportError:
    TTransportException = None

_AUTH, _INTEGRITY, _PRIVACY = 1, 2, 4
_LARGEST = 0xFFFFFF


def sasl_transport(stream: Any, settings: MetastoreSettings, address: Address) -> Any:
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
