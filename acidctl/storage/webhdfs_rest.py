"""The WebHDFS REST API: requests, fail-over between NameNodes, and every answer as a value or one of our errors.

One dialect with two kinds of servers. A NameNode answers itself for names and sends those who want bytes on to a
DataNode, by a redirect that holds all that is needed, credentials included. A gateway (HttpFS) carries the bytes
itself and knows fewer parameters. Secrets travel in addresses here, so no text of an HTTP library is ever shown.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase

from acidctl.errors import DeniedError, MissingDependencyError, StorageError, ThrottledError, UnreachableError
from acidctl.storage.hadoop import (
    MAY_READ,
    MAY_WRITE,
    first_line,
    no_datanode,
    no_ticket,
    of_java,
    unknown_name,
    unreachable,
)
from acidctl.storage.hadoop_conf import Place

try:
    import requests_kerberos
except ImportError:
    requests_kerberos = None

PREFIX = "/webhdfs/v1"
# Waiting for a connection is short even where answers may take long.
_CONNECT_SECONDS = 10.0
# Connections kept alive per server, for the walk and for reading ahead together.
_CONNECTIONS = 32
# How many DataNodes are tried: the NameNode goes on naming one that is gone for up to ten minutes. Of several on one
# host it leaves out any, not the one that is gone, because only hosts can be named to it.
_REDIRECTS = 10

Body = bytes | Iterator[bytes]
Answer = TypeVar("Answer")
_FAULTS = (requests.RequestException, urllib3.exceptions.HTTPError, OSError)


class WebApi:
    """Calls by operation name; any number of threads may use one."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._waits = (min(place.timeout, _CONNECT_SECONDS), place.timeout)
        # Given with each request: REQUESTS_CA_BUNDLE would win over what a session holds.
        self._verify = place.ca_file or True
        self._session = _authenticated(place)
        # DataNodes get what the redirect holds, and no other credentials.
        self._data = _session()
        self._active = place.addresses[0]

    def ask(self, method: str, operation: str, path: str, shown: str, **parameters: Any) -> dict[str, Any]:
        """The JSON object that the active NameNode answers with; empty when it has no body.

        Any method but GET changes something: when its answer does not come, it is not sent to another NameNode, because
        it may have been carried out.
        """

        def read(response: requests.Response) -> dict[str, Any]:
            body = response.content
            if not body and response.status_code < 300:
                return {}
            try:
                answer = json.loads(body)
            except ValueError:
                answer = None
            if not isinstance(answer, dict):
                raise not_webhdfs(shown, _address(response.url))
            return answer

        return self._ask(method, operation, path, shown, parameters, read)

    def read(self, path: str, shown: str, offset: int, length: int, source: Source) -> bytes:
        """Bytes of a file that has them: `offset + length` may not lie past its end."""

        def take(response: requests.Response) -> bytes:
            return _body(response, length, shown)

        known = source.address(offset, length)
        if known is not None:
            try:
                return self._fetch("GET", known, shown, take)
            except StorageError:
                source.forget(offset)  # the NameNode knows who has the bytes now

        def redirected(response: requests.Response) -> bytes | str:
            return _location(response, path) or take(response)

        def attempt(excluded: str) -> bytes:
            parameters = {"offset": offset, "length": length, **_without(excluded)}
            answer = self._ask("GET", "OPEN", path, shown, parameters, redirected)
            if isinstance(answer, bytes):
                return answer
            data = self._fetch("GET", answer, shown, take)
            source.learn(offset, answer)
            return data

        return self._from_some_datanode(attempt)

    def create(self, path: str, shown: str, body: Body, mode: int | None = None) -> None:
        """Write a new file; ExistsError when there is one, and on a NameNode MissingError when its parent is not there.

        Another DataNode is taken where one cannot be reached, but not where one fails that has begun to take bytes.
        """
        parameters = {"overwrite": "false", "createparent": "false"}
        if mode is not None:
            parameters["permission"] = f"{mode:o}"

        def done(response: requests.Response) -> None:
            response.content  # noqa: B018  the connection can be used again when all has been read

        def attempt(excluded: str) -> None:
            asked = {**parameters, **_without(excluded)}
            address = self._ask("PUT", "CREATE", path, shown, asked, lambda response: _location(response, path))
            if address is None:
                raise not_webhdfs(shown, self._active)
            if "createparent=" not in address.lower():
                address += "&createparent=false"
            self._fetch("PUT", address, shown, done, body)

        self._from_some_datanode(attempt)

    def _from_some_datanode(self, attempt: Callable[[str], Answer]) -> Answer:
        """Ask the NameNode for another DataNode where one cannot be reached: nothing has been sent to it."""
        excluded: list[str] = []
        for last in (False,) * (_REDIRECTS - 1) + (True,):
            try:
                return attempt(",".join(excluded))
            except UnreachedDataNodeError as error:
                if last:
                    raise
                excluded += [name for name in _ips(error.host) if name not in excluded]
        raise AssertionError("the last attempt answers or raises")

    def _ask(
        self,
        method: str,
        operation: str,
        path: str,
        shown: str,
        parameters: Mapping[str, Any],
        read: Callable[[requests.Response], Answer],
    ) -> Answer:
        """One call, answered by the NameNode that is active."""
        query = {"op": operation, **parameters}
        if self.place.proxy_user is not None:
            query["doas"] = self.place.proxy_user
        try:
            location = PREFIX + quote(path, safe="/")
        except UnicodeEncodeError:
            raise StorageError(f"{shown!r} is not UTF-8, which all names in HDFS are") from None
        failure: Failure | None = None
        for node in [self._active, *(node for node in self.place.addresses if node != self._active)]:
            answer = self._exchange(self._session, method, node + location, shown, read, below=400, params=query)
            if not isinstance(answer, Failure):
                self._active = node
                return answer
            if failure is None or answer.answered or not isinstance(answer.error, UnreachableError):
                failure = answer
            if not answer.elsewhere:
                raise answer.error
        assert failure is not None
        raise failure.error

    def _fetch(
        self,
        method: str,
        address: str,
        shown: str,
        read: Callable[[requests.Response], Answer],
        body: Body | None = None,
    ) -> Answer:
        """One exchange with the server that a redirect names."""
        target, active = urlsplit(address), urlsplit(self._active)
        session = self._data
        if target.netloc == active.netloc:
            # A gateway sends to itself, wants to be authenticated to again, and cannot know of TLS that ends before it.
            session = self._session
            address = urlunsplit(target._replace(scheme=active.scheme))
        elif active.scheme == "https" and target.scheme != "https":
            raise unencrypted(shown, _address(address))
        answer = self._exchange(session, method, address, shown, read, below=300, data=body)
        if not isinstance(answer, Failure):
            return answer
        # Nothing has been taken of a stream either: it is asked for its first part once there is a connection.
        if answer.nothing_sent and isinstance(answer.error, UnreachableError):
            raise UnreachedDataNodeError(answer.error, target.hostname or "")
        raise answer.error

    def _exchange(
        self,
        session: requests.Session,
        method: str,
        address: str,
        shown: str,
        read: Callable[[requests.Response], Answer],
        *,
        below: int,
        **request: Any,
    ) -> Answer | Failure:
        """One request, and what `read` makes of an answer whose status is `below` a number.

        A failure is returned and not raised, so that no error of ours carries one of the HTTP library as its context.
        """
        changes = method != "GET"
        try:
            response = session.request(
                method,
                address,
                headers={"Content-Type": "application/octet-stream"},
                timeout=self._waits,
                allow_redirects=False,
                stream=True,
                verify=self._verify,
                **request,
            )
            with closing(response):
                if response.status_code < below:
                    return read(response)
                return refusal(response, shown, changes=changes, place=self.place)
        except _FAULTS as error:
            return outage(error, shown, _address(address), changes=changes, place=self.place)


class Source:
    """Which DataNodes gave bytes of one file: they are asked again without asking the NameNode first.

    An address is good for all of a block, and holds credentials.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = max(block_size, 1)
        self._addresses: dict[int, str] = {}

    def address(self, offset: int, length: int) -> str | None:
        """Where these bytes are to be had, as far as known."""
        known = self._addresses.get(offset // self._block_size)
        if known is None:
            return None
        return re.sub(r"(?<=[?&]offset=)\d+", str(offset), re.sub(r"(?<=[?&]length=)\d+", str(length), known))

    def learn(self, offset: int, address: str) -> None:
        """An address has given the bytes at an offset."""
        if re.search(r"[?&]offset=\d", address) and re.search(r"[?&]length=\d", address):
            self._addresses[offset // self._block_size] = address

    def forget(self, offset: int) -> None:
        """It did not, this time."""
        self._addresses.pop(offset // self._block_size, None)


def _authenticated(place: Place) -> requests.Session:
    """A session that authenticates each request: by a delegation token, a Kerberos ticket, or the name of a user."""
    session = _session()
    if place.token is not None:
        session.params = {"delegation": place.token}
    elif place.kerberos:
        session.auth = _kerberos()
    if place.user is not None and not place.kerberos:
        session.params = {**session.params, "user.name": place.user}
    return session


def _kerberos() -> AuthBase:
    if requests_kerberos is None:
        raise MissingDependencyError(
            "this cluster wants Kerberos, which needs a package that is not installed",
            hint="pip install requests-kerberos (it is built with the Kerberos headers, libkrb5-dev), or give a "
            "delegation token by HADOOP_TOKEN_FILE_LOCATION.",
        )
    negotiation: AuthBase = requests_kerberos.HTTPKerberosAuth(mutual_authentication=requests_kerberos.OPTIONAL)
    return _Paced(negotiation)


class _Paced(AuthBase):
    """Lets at most one request begin per millisecond: servers take two of one moment for a replay."""

    def __init__(self, inner: AuthBase) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._last = 0.0

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        with self._lock:
            time.sleep(max(self._last + 0.001 - time.monotonic(), 0))
            self._last = time.monotonic()
        return self._inner(request)


def _session() -> requests.Session:
    session = requests.Session()
    for prefix in ("http://", "https://"):
        session.mount(prefix, HTTPAdapter(pool_connections=_CONNECTIONS, pool_maxsize=_CONNECTIONS))
    # Bytes come as they are; the other header is what clusters with a guard against forged requests look for.
    session.headers.update({"Accept-Encoding": "identity", "X-XSRF-HEADER": '""'})
    return session


def _location(response: requests.Response, path: str) -> str | None:
    """Where a redirect leads; with our own path, because Java composes letters and accents that stood apart."""
    if response.status_code not in (301, 302, 303, 307, 308):
        return None
    response.content  # noqa: B018  the connection can be used again when all has been read
    address = response.headers.get("Location")
    parts = urlsplit(address or "")
    if not parts.path.startswith(PREFIX + "/"):
        return address
    return urlunsplit(parts._replace(path=PREFIX + quote(path, safe="/")))


def _body(response: requests.Response, length: int, shown: str) -> bytes:
    """Exactly `length` bytes, whatever else the server sends."""
    data: bytes = response.raw.read(length)
    if len(data) < length:
        raise cut_short(shown, _address(response.url), len(data), length)
    response.raw.read(1)
    return data


def _without(excluded: str) -> dict[str, str]:
    return {"excludedatanodes": excluded} if excluded else {}


def _ips(host: str) -> list[str]:
    """The NameNode knows DataNodes by their IP addresses."""
    try:
        return [socket.gethostbyname(host)]
    except OSError:
        return []


def _address(url: str) -> str:
    """Scheme, host and port: what of an address may be shown."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


# --- What goes wrong between this machine and WebHDFS, as our errors.
#
# Texts of HTTP libraries hold whole addresses, and those hold tokens and names of users: none is passed on. Of the
# server's own words, the first line of a Java exception's message is.


_ERROR_BYTES = 64 << 10
_NEW_TOKEN = (
    "Get a new token (`hdfs fetchdt --webservice URL FILE`, then HADOOP_TOKEN_FILE_LOCATION=FILE, or `token` in "
    "[storage] of the configuration file), or log in with `kinit` and use none."
)
_NOT_VALID = "is not valid, or has been cancelled"
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
class Failure:
    """An exchange without a useful answer.

    `answered`: the server refused. `nothing_sent`: it cannot have carried out anything. `elsewhere`: another NameNode
    may do what this one did not.
    """

    error: StorageError
    elsewhere: bool
    answered: bool = True
    nothing_sent: bool = False


def outage(fault: Exception, shown: str, address: str, *, changes: bool, place: Place) -> Failure:
    """What an exception of requests, urllib3 or the system means; `address` is shown, so it holds no secret."""
    error, nothing_sent = _fault(fault, shown, address, place)
    return Failure(error, elsewhere=nothing_sent or not changes, answered=False, nothing_sent=nothing_sent)


def _fault(fault: Exception, shown: str, address: str, place: Place) -> tuple[StorageError, bool]:
    """The error, and whether nothing was sent."""
    chain = list(_chain(fault))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(link, kinds) for link in chain)

    names = {type(link).__name__ for link in chain}
    if names & {"KerberosExchangeError", "MutualAuthenticationError"}:
        return no_ticket(shown), True
    if has(requests.exceptions.SSLError, urllib3.exceptions.SSLError):
        error: StorageError = StorageError(
            f"{shown} cannot be used: the certificate of {address} is not trusted here, or it speaks no TLS",
            path=shown,
            hint="Name the cluster's certificates by `ca_file` in [storage] of the configuration file, or in "
            "REQUESTS_CA_BUNDLE; plain HTTP is webhdfs://.",
        )
        return error, True
    if has(socket.gaierror, urllib3.exceptions.NameResolutionError):
        return unknown_name(shown, address, "dfs.namenode.http-address"), True
    if has(ConnectionRefusedError):
        return unreachable(shown, f"{address} accepts no connections"), True
    if has(urllib3.exceptions.NewConnectionError):
        return unreachable(shown, f"there is no route to {address}"), True
    if has(requests.exceptions.ConnectTimeout, urllib3.exceptions.ConnectTimeoutError):
        return unreachable(shown, f"{address} accepted no connection in time"), True
    if has(requests.exceptions.ProxyError, urllib3.exceptions.ProxyError):
        return unreachable(shown, f"the proxy of this machine does not lead to {address}"), False
    if has(TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError):
        return unreachable(shown, f"{address} did not answer within {place.timeout:g} s"), False
    return unreachable(shown, f"{address} closed the connection before its answer was complete"), False


def refusal(response: requests.Response, shown: str, *, changes: bool, place: Place) -> Failure:
    """What an answer with an error status means."""
    status = response.status_code
    java, message = _remote(response.raw.read(_ERROR_BYTES, decode_content=True))
    what = f"{shown} cannot be {'changed' if changes else 'read'}"
    wrong = _wrong_token(status, java, message, place)
    if wrong is not None:
        error = DeniedError(f"{what}: the delegation token {wrong}", path=shown, hint=_NEW_TOKEN)
        return Failure(error, elsewhere=False)
    if java and status not in (429, 503):
        return Failure(_remote_error(java, message, shown, changes), elsewhere=java in _ELSEWHERE)
    return Failure(_bare(response, shown, what, changes, place), elsewhere=False)


def _wrong_token(status: int, java: str, message: str, place: Place) -> str | None:
    """What is wrong with the delegation token; None where that is not what the answer is about.

    By the words of Hadoop's AbstractDelegationTokenSecretManager. They name users, and are not passed on.
    """
    if "InvalidToken" in f"{java} {message}":
        if "expired" in message:
            return "has expired"
        if "can't be found in cache" in message:
            return "is not known to the server any more, or is another cluster's"
        return _NOT_VALID
    if place.token is None:
        return None
    if re.match("Failed to obtain user group information: java[.]io[.]", message):
        return "is damaged"  # the server cannot decode it
    return _NOT_VALID if status == 401 else None


def _remote_error(java: str, message: str, shown: str, changes: bool) -> StorageError:
    """What WebHDFS refuses besides what all of Hadoop does."""
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


def _bare(response: requests.Response, shown: str, what: str, changes: bool, place: Place) -> StorageError:
    """An error without a Java exception, or one that stands for its status alone."""
    status = response.status_code
    if status in (429, 503):
        return ThrottledError(
            f"{what}: the server asks for fewer requests (HTTP {status})",
            path=shown,
            hint="Run the command again later, or with less --parallelism.",
        )
    if status == 401:
        return _unauthenticated(response, shown, place)
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


def _unauthenticated(response: requests.Response, shown: str, place: Place) -> StorageError:
    if place.kerberos:
        return no_ticket(shown)
    if "negotiate" in response.headers.get("WWW-Authenticate", "").lower():
        return DeniedError(
            f"{shown} cannot be used: the server requires Kerberos",
            path=shown,
            hint="Name the cluster's configuration by HADOOP_CONF_DIR (hadoop.security.authentication is kerberos "
            "there), and log in with `kinit`; or give a delegation token by HADOOP_TOKEN_FILE_LOCATION.",
        )
    return DeniedError(f"{shown} cannot be used: the server does not accept this user", path=shown, hint=MAY_READ)


def cut_short(shown: str, address: str, got: int, wanted: int) -> UnreachableError:
    """The error for a body that ends too early."""
    return unreachable(shown, f"{address} sent {got} of {wanted} bytes")


def not_webhdfs(shown: str, address: str) -> StorageError:
    """The error for an answer that is not Hadoop's."""
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
