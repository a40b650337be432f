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

from acidctl.errors import DeniedError, StorageError, ThrottledError, UnreachableError
from acidctl.storage.hadoopfault import (
    MAY_READ,
    MAY_WRITE,
    first_line,
    no_datanode,
    no_ticket,
    of_java,
    unknown_name,
    unreachable,
)
from acidctl.storage.webaccess import Access

_ERROR_BYTES = 64 << 10
_NEW_TOKEN = (
    "Get a new token (`hdfs fetchdt --webservice URL FILE`, then HADOOP_TOKEN_FILE_LOCATION=FILE, or `token` in "
    "[storage] of the configuration file), or log in with `kinit` and use none."
)
_NOT_VALID = "is not valid, or not any more"
_IMPERSONATE = (
    "Take `proxy_user` out of [storage] of the configuration file, or have hadoop.proxyuser.USER.hosts and .groups set "
    "for the user who asks."
)
# Answers of a NameNode that has done nothing, and of which another may think otherwise.
_ELSEWHERE = frozenset({"StandbyException", "RetriableException"})


class UnknownRequestError(StorageError):
    """This kind or version of server does not know what was asked."""


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is an error; `elsewhere`: another NameNode may do what this one did not."""

    error: StorageError
    elsewhere: bool = False


def outage(fault: Exception, shown: str, address: str, access: Access) -> Outage:
    """What an exception of requests, urllib3 or the system means; `address` is shown, so it holds no secret."""
    chain = list(_chain(fault))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(link, kinds) for link in chain)

    names = {type(link).__name__ for link in chain}
    if names & {"KerberosExchangeError", "MutualAuthenticationError"}:
        return Outage(no_ticket(shown), True)
    if has(requests.exceptions.SSLError, urllib3.exceptions.SSLError):
        error: StorageError = StorageError(
            f"{shown} cannot be used: the certificate of {address} is not trusted here, or it speaks no TLS",
            path=shown,
            hint="Name the cluster's certificates by `ca_file` in [storage] of the configuration file, or in "
            "REQUESTS_CA_BUNDLE; plain HTTP is webhdfs://.",
        )
        return Outage(error, True)
    if has(socket.gaierror, urllib3.exceptions.NameResolutionError):
        return Outage(unknown_name(shown, address, "dfs.namenode.http-address"), True)
    if has(ConnectionRefusedError):
        return Outage(unreachable(shown, f"{address} accepts no connections"), True)
    if has(urllib3.exceptions.NewConnectionError):
        return Outage(unreachable(shown, f"there is no way to {address}"), True)
    if has(requests.exceptions.ConnectTimeout, urllib3.exceptions.ConnectTimeoutError):
        return Outage(unreachable(shown, f"{address} accepted no connection in time"), True)
    if has(requests.exceptions.ProxyError, urllib3.exceptions.ProxyError):
        return Outage(unreachable(shown, f"the proxy of this machine does not lead to {address}"), False)
    if has(TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError):
        return Outage(unreachable(shown, f"{address} did not answer within {access.timeout:g} s"), False)
    return Outage(unreachable(shown, f"{address} closed the connection before its answer was complete"), False)


def refusal(response: requests.Response, shown: str, *, changes: bool, access: Access) -> Refusal:
    """What an answer with an error status means."""
    status = response.status_code
    java, message = _remote(response.raw.read(_ERROR_BYTES, decode_content=True))
    what = f"{shown} cannot be {'changed' if changes else 'read'}"
    wrong = _wrong_token(status, java, message, access)
    if wrong is not None:
        return Refusal(DeniedError(f"{what}: the delegation token {wrong}", path=shown, hint=_NEW_TOKEN))
    if java and status not in (429, 503):
        return Refusal(_remote_error(java, message, shown, changes), java in _ELSEWHERE)
    return Refusal(_bare(response, shown, what, changes, access))


def _wrong_token(status: int, java: str, message: str, access: Access) -> str | None:
    """What is wrong with the delegation token; None where that is not what the answer is about.

    By the words of Hadoop's AbstractDelegationTokenSecretManager. They name users, and are not passed on.
    """
    if "InvalidToken" in f"{java} {message}":
        if "expired" in message:
            return "has expired"
        if "can't be found in cache" in message:
            return "is not known to the server any more, or is another cluster's"
        return _NOT_VALID
    if access.token is None:
        return None
    if re.match("Failed to obtain user group information: java[.]io[.]", message):
        return "is damaged"  # the server cannot decode it
    return _NOT_VALID if status == 401 else None


def _remote_error(java: str, message: str, shown: str, changes: bool) -> StorageError:
    """What WebHDFS says beyond what all of Hadoop says."""
    reason = first_line(message)
    if java in ("IllegalArgumentException", "UnsupportedOperationException"):
        return UnknownRequestError(f"{shown} cannot be used: {reason}", path=shown)
    if reason == "No active nodes contain this block":
        return no_datanode(shown, "gives a block of it")
    if reason.startswith("Failed to find datanode"):
        return no_datanode(shown, "is there")
    error = of_java(java, message, shown, changes=changes)
    if "impersonate" in reason:
        error.hint = _IMPERSONATE
    if java == "StandbyException":
        error.transient = True  # a fail-over takes seconds
    return error


def _bare(response: requests.Response, shown: str, what: str, changes: bool, access: Access) -> StorageError:
    """An error without a Java exception, or one that stands for its status alone."""
    status = response.status_code
    if status in (429, 503):
        return ThrottledError(
            f"{what}: the server asks for fewer requests (HTTP {status})",
            path=shown,
            hint="Run the command again later, or with less --parallelism.",
        )
    if status == 401:
        return _unauthenticated(response, shown, access)
    if status == 403:
        return DeniedError(f"{what}: the server forbids it", path=shown, hint=MAY_WRITE if changes else MAY_READ)
    if status in (502, 504):
        return unreachable(shown, f"the gateway does not reach HDFS (HTTP {status})")
    if status < 400:
        return StorageError(f"{what}: the server leads from one place to another (HTTP {status})", path=shown)
    return StorageError(
        f"{what}: HTTP {status} from something that is not WebHDFS",
        path=shown,
        hint="Check host and port: those of the NameNode's web pages (9870), or of HttpFS (14000).",
    )


def _unauthenticated(response: requests.Response, shown: str, access: Access) -> StorageError:
    if access.kerberos:
        return no_ticket(shown)
    if "negotiate" in response.headers.get("WWW-Authenticate", "").lower():
        return DeniedError(
            f"{shown} cannot be used: the server wants to know who asks by Kerberos",
            path=shown,
            hint="Name the cluster's configuration by HADOOP_CONF_DIR (hadoop.security.authentication is kerberos "
            "there), and log in with `kinit`; or give a delegation token by HADOOP_TOKEN_FILE_LOCATION.",
        )
    return DeniedError(f"{shown} cannot be used: the server does not accept this user", path=shown, hint=MAY_READ)


def cut_short(shown: str, address: str, got: int, wanted: int) -> UnreachableError:
    """A body that ends too early."""
    return unreachable(shown, f"{address} sent {got} of {wanted} bytes")


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


def _remote(body: bytes) -> tuple[str, str]:
    """Class, without its package, and message of a Java exception; empty for bodies of another kind."""
    try:
        remote: Any = json.loads(body)["RemoteException"]
        return str(remote["exception"]).rpartition(".")[2], str(remote.get("message") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", ""


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
