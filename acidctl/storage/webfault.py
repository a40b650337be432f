"""What goes wrong between this machine and WebHDFS, as our errors.

Texts of HTTP libraries hold whole addresses, and those hold tokens and names of users: none is passed on. Of the
server's own words, the first line of a Java exception's message is.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import requests
import urllib3

from acidctl.errors import (
    DeniedError,
    ExistsError,
    QuotaError,
    SafeModeError,
    StorageError,
    ThrottledError,
    UnreachableError,
)
from acidctl.storage.webaccess import Access

_ERROR_BYTES = 64 << 10
_REASON_LENGTH = 300
_MAY_READ = "Run as a user that may read the table, for example the owner of the warehouse."
_MAY_WRITE = "Run as a user that may write to the table, for example the owner of the warehouse."
_NEW_TICKET = "Log in with `kinit`, or as a service with its keytab (`kinit -kt FILE PRINCIPAL`), and run it again."
_NEW_TOKEN = (
    "Get a new token (`hdfs fetchdt --webservice URL FILE`, then HADOOP_TOKEN_FILE_LOCATION=FILE, or `token` in "
    "[storage] of the configuration file), or log in with `kinit` and use none."
)
_IMPERSONATE = (
    "Take `proxy_user` out of [storage] of the configuration file, or have hadoop.proxyuser.USER.hosts and .groups set "
    "for the user who asks."
)
_WAIT = "Wait for it, or see what holds it up (`hdfs dfsadmin -safemode get`), and run the command again."


class MissingError(StorageError):
    """Nothing stands at the path."""


class UnknownRequestError(StorageError):
    """This kind or version of server does not know what was asked."""


class StandbyError(SafeModeError):
    """This NameNode is not the active one."""


class StartingError(UnreachableError):
    """This NameNode is not ready yet, and has done nothing."""


class UnreachedDataNodeError(UnreachableError):
    """A DataNode that a redirect named cannot be reached; nothing was sent to it."""

    def __init__(self, cause: StorageError, host: str) -> None:
        super().__init__(
            cause.message,
            path=cause.path,
            hint="The NameNode sends readers and writers on to its DataNodes, by the names they have there: this "
            "machine has to reach them. From outside of the cluster use its HttpFS gateway.",
        )
        self.host = host


@dataclass(frozen=True, slots=True)
class Outage:
    """An exchange without an answer; `nothing_sent`: the server cannot have carried out anything."""

    error: StorageError
    nothing_sent: bool


def elsewhere(failure: StorageError) -> bool:
    """Whether another NameNode may answer what this one did not."""
    return isinstance(failure, StandbyError | StartingError)


def outage(fault: Exception, shown: str, address: str, access: Access) -> Outage:
    """What an exception of requests, urllib3 or the system means; `address` is shown, so it holds no secret."""
    chain = list(_chain(fault))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(link, kinds) for link in chain)

    names = {type(link).__name__ for link in chain}
    if names & {"KerberosExchangeError", "MutualAuthenticationError"}:
        return Outage(_no_ticket(shown), True)
    if has(requests.exceptions.SSLError, urllib3.exceptions.SSLError):
        error: StorageError = StorageError(
            f"{shown} cannot be used: the certificate of {address} is not trusted here, or it speaks no TLS",
            path=shown,
            hint="Name the cluster's certificates by `ca_file` in [storage] of the configuration file, or in "
            "REQUESTS_CA_BUNDLE; plain HTTP is webhdfs://.",
        )
        return Outage(error, True)
    if has(socket.gaierror, urllib3.exceptions.NameResolutionError):
        error = UnreachableError(
            f"{shown} cannot be reached: no machine is known by the name in {address}",
            path=shown,
            hint="Check the name. A name service (HA) has to stand in hdfs-site.xml of HADOOP_CONF_DIR, with "
            "dfs.ha.namenodes and dfs.namenode.http-address.",
        )
        error.transient = False
        return Outage(error, True)
    if has(ConnectionRefusedError):
        return Outage(_unreachable(shown, f"{address} accepts no connections"), True)
    if has(urllib3.exceptions.NewConnectionError):
        return Outage(_unreachable(shown, f"there is no way to {address}"), True)
    if has(requests.exceptions.ConnectTimeout, urllib3.exceptions.ConnectTimeoutError):
        return Outage(_unreachable(shown, f"{address} accepted no connection in time"), True)
    if has(requests.exceptions.ProxyError, urllib3.exceptions.ProxyError):
        return Outage(_unreachable(shown, f"the proxy of this machine does not lead to {address}"), False)
    if has(TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError):
        return Outage(_unreachable(shown, f"{address} did not answer within {access.timeout:g} s"), False)
    return Outage(_unreachable(shown, f"{address} closed the connection before its answer was complete"), False)


def refusal(response: requests.Response, shown: str, *, changes: bool, access: Access) -> StorageError:
    """What an answer with an error status means."""
    status = response.status_code
    java, message = _remote(response.raw.read(_ERROR_BYTES, decode_content=True))
    reason = _reason(message)
    what = f"{shown} cannot be {'changed' if changes else 'read'}"
    known = _of_java(java, reason, shown, what, changes) if java else None
    if "InvalidToken" in f"{java} {message}" or (access.token is not None and status == 401):
        return DeniedError(f"{what}: the delegation token is not valid, or not any more", path=shown, hint=_NEW_TOKEN)
    if known is not None:
        return known
    if status in (429, 503):
        return ThrottledError(
            f"{what}: the server asks for fewer requests (HTTP {status})",
            path=shown,
            hint="Run the command again later, or with less --parallelism.",
        )
    if status == 401:
        return _unauthenticated(response, shown, access)
    if status == 403 and not java:
        return DeniedError(f"{what}: {reason or 'the server forbids it'}", path=shown, hint=_advice(changes))
    if status in (502, 504):
        return _unreachable(shown, f"the gateway does not reach HDFS (HTTP {status})")
    if status < 400:
        return StorageError(f"{what}: the server leads from one place to another (HTTP {status})", path=shown)
    if not java:
        return StorageError(
            f"{what}: HTTP {status} from something that is not WebHDFS",
            path=shown,
            hint="Check host and port: those of the NameNode's web pages (9870), or of HttpFS (14000).",
        )
    return StorageError(f"{what}: {reason or java}", path=shown)


def _of_java(java: str, reason: str, shown: str, what: str, changes: bool) -> StorageError | None:
    """The errors that Hadoop names by a class; None for all others."""
    said = f"{what}: {reason}"
    if java == "StandbyException":
        return StandbyError(f"{what}: no NameNode is active", path=shown, hint=_WAIT)
    if java == "SafeModeException" or "in safe mode" in reason:
        return SafeModeError(f"{what}: the NameNode is in safe mode", path=shown, hint=_WAIT)
    if java in ("RetriableException", "ServerTooBusyException"):
        return StartingError(f"{what}: the NameNode is not ready ({reason})", path=shown, hint=_WAIT)
    if java in ("FileNotFoundException", "ParentNotDirectoryException"):
        return MissingError(
            said if changes or java != "FileNotFoundException" else f"{shown} is not there any more",
            path=shown,
            hint="If a compaction or a cleaner runs on this table now, run the command again.",
        )
    if java in ("FileAlreadyExistsException", "AlreadyBeingCreatedException"):
        return ExistsError(f"{shown} exists already", path=shown)
    if java in ("AccessControlException", "SecurityException", "AuthorizationException"):
        if "is not a directory" in reason:
            return MissingError(said, path=shown)
        hint = _IMPERSONATE if "impersonate" in reason else _advice(changes)
        return DeniedError(said, path=shown, hint=hint)
    if "QuotaExceeded" in java or "QuotaByStorageType" in java:
        return QuotaError(said, path=shown, hint="Free space, or have the quota of this directory raised.")
    if "could only be written to 0 of" in reason:
        if "There are 0 datanode(s) running" in reason:
            return _unreachable(shown, "no DataNode is there")
        return QuotaError(
            f"{what}: no DataNode takes its data", path=shown, hint="See `hdfs dfsadmin -report`: they may be full."
        )
    if java in ("IllegalArgumentException", "UnsupportedOperationException"):
        return UnknownRequestError(said, path=shown)
    if java == "BlockMissingException" or "Could not obtain block" in reason:
        return _unreachable(shown, "no DataNode gives a block of it")
    return None


def _unauthenticated(response: requests.Response, shown: str, access: Access) -> StorageError:
    if access.kerberos:
        return _no_ticket(shown)
    if "negotiate" in response.headers.get("WWW-Authenticate", "").lower():
        return DeniedError(
            f"{shown} cannot be used: the server wants to know who asks by Kerberos",
            path=shown,
            hint="Name the cluster's configuration by HADOOP_CONF_DIR (hadoop.security.authentication is kerberos "
            "there), and log in with `kinit`; or give a delegation token by HADOOP_TOKEN_FILE_LOCATION.",
        )
    return DeniedError(f"{shown} cannot be used: the server does not accept this user", path=shown, hint=_MAY_READ)


def _no_ticket(shown: str) -> DeniedError:
    return DeniedError(
        f"{shown} cannot be used: there is no Kerberos ticket that the server accepts, or it has expired",
        path=shown,
        hint=_NEW_TICKET,
    )


def _unreachable(shown: str, why: str) -> UnreachableError:
    return UnreachableError(
        f"{shown} cannot be reached: {why}",
        path=shown,
        hint="Check the address and that HDFS is running, and run the command again.",
    )


def cut_short(shown: str, address: str, got: int, wanted: int) -> UnreachableError:
    """A body that ends too early."""
    return _unreachable(shown, f"{address} sent {got} of {wanted} bytes")


def not_webhdfs(shown: str, address: str) -> StorageError:
    """An answer that no Hadoop gives."""
    return StorageError(
        f"{shown} cannot be used: {address} does not answer as WebHDFS does",
        path=shown,
        hint="Check host and port: those of the NameNode's web pages (9870), or of HttpFS (14000).",
    )


def unencrypted(shown: str, address: str) -> StorageError:
    """A redirect that would send credentials and data in the clear."""
    return StorageError(
        f"{shown} cannot be used: its data would come unencrypted, from {address}",
        path=shown,
        hint="Use webhdfs:// if that is meant; else dfs.http.policy of the cluster has to include HTTPS.",
    )


def _advice(changes: bool) -> str:
    return _MAY_WRITE if changes else _MAY_READ


def _remote(body: bytes) -> tuple[str, str]:
    """Class, without its package, and message of a Java exception; empty for bodies of another kind."""
    try:
        remote: Any = json.loads(body)["RemoteException"]
        return str(remote["exception"]).rpartition(".")[2], str(remote.get("message") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", ""


def _reason(message: str) -> str:
    """The first line, without package names of Java and without anything that looks like a credential."""
    first = message.strip().partition("\n")[0].strip()
    first = re.sub(r"\b(?:[a-z_]\w*\.){2,}(?=[A-Z]\w*(?:Exception|Error)\b)", "", first)
    first = re.sub(r"(?i)\b(delegation|token|user\.name|doas)=[^&\s\"']+", r"\1=...", first)
    return first if len(first) <= _REASON_LENGTH else first[: _REASON_LENGTH - 3] + "..."


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and all those it was made of."""
    seen: set[int] = set()
    pending: list[Any] = [error]
    while pending:
        link = pending.pop()
        if isinstance(link, BaseException) and id(link) not in seen:
            seen.add(id(link))
            yield link
            pending += [*link.args, getattr(link, "reason", None), link.__cause__, link.__context__]
