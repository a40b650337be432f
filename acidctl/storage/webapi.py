"""The WebHDFS REST API: requests, fail-over between NameNodes, and every answer as a value or one of our errors.

One dialect with two kinds of servers. A NameNode answers itself for names and sends those who want bytes on to a
DataNode, by a redirect that says all that one needs, credentials included. A gateway (HttpFS) carries the bytes
itself and knows fewer parameters. Secrets travel in addresses here, so no text of an HTTP library is ever shown.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

import hdfs
import requests
import urllib3
from requests.adapters import HTTPAdapter

from acidctl.errors import MissingDependencyError, StorageError, UnreachableError
from acidctl.storage import webfault
from acidctl.storage.webaccess import Access

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

    def __init__(self, access: Access) -> None:
        self._access = access
        self._waits = (min(access.timeout, _CONNECT_SECONDS), access.timeout)
        # Said with each request: REQUESTS_CA_BUNDLE would win over what a session says.
        self._verify = access.ca_file or True
        self._client = _client(access, self._waits)
        # DataNodes get what the redirect says, and nothing of this user's besides.
        self._data = _session()
        self._active = access.nodes[0]

    def ask(self, method: str, operation: str, path: str, shown: str, **parameters: Any) -> dict[str, Any]:
        """The JSON object that the active NameNode answers with; empty when it says nothing.

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
                raise webfault.not_webhdfs(shown, _address(response.url))
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
            found = self._ask("GET", "OPEN", path, shown, parameters, redirected)
            if isinstance(found, bytes):
                return found
            data = self._fetch("GET", found, shown, take)
            source.learn(offset, found)
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
                raise webfault.not_webhdfs(shown, self._active)
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
            except webfault.UnreachedDataNodeError as error:
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
        if self._access.proxy_user is not None:
            query["doas"] = self._access.proxy_user
        try:
            place = PREFIX + quote(path, safe="/")
        except UnicodeEncodeError:
            raise StorageError(f"{shown!r} is not UTF-8, which all names in HDFS are") from None
        failure: StorageError | None = None
        for node in self._nodes():
            fault: Exception | None = None
            refusal: webfault.Refusal | None = None
            try:
                response = self._client._request(
                    method,
                    node + place,
                    params=query,
                    allow_redirects=False,
                    stream=True,
                    verify=self._verify,
                )
                with closing(response):
                    if response.status_code < 400:
                        self._active = node
                        return read(response)
                    refusal = webfault.refusal(response, shown, changes=method != "GET", access=self._access)
            except _FAULTS as error:
                fault = error
            if fault is not None:
                outage = webfault.outage(fault, shown, node, self._access)
                if method != "GET" and not outage.nothing_sent:
                    raise outage.error
                if failure is None or not isinstance(outage.error, UnreachableError):
                    failure = outage.error
            elif refusal is not None:
                failure = refusal.error
                if not refusal.elsewhere:
                    raise failure
        assert failure is not None
        raise failure

    def _fetch(
        self,
        method: str,
        address: str,
        shown: str,
        read: Callable[[requests.Response], Answer],
        body: Body | None = None,
    ) -> Answer:
        """One exchange with where a redirect leads."""
        target, active = urlsplit(address), urlsplit(self._active)
        session = self._data
        if target.netloc == active.netloc:
            # A gateway sends to itself, wants to be authenticated to again, and cannot know of TLS that ends before it.
            session = self._client._session
            address = urlunsplit(target._replace(scheme=active.scheme))
        elif active.scheme == "https" and target.scheme != "https":
            raise webfault.unencrypted(shown, _address(address))
        fault: Exception | None = None
        try:
            response = session.request(
                method,
                address,
                data=body,
                headers={"Content-Type": "application/octet-stream"},
                timeout=self._waits,
                allow_redirects=False,
                stream=True,
                verify=self._verify,
            )
            with closing(response):
                if response.status_code < 300:
                    return read(response)
                refusal = webfault.refusal(response, shown, changes=method != "GET", access=self._access)
        except _FAULTS as error:
            fault = error
        if fault is None:
            raise refusal.error
        outage = webfault.outage(fault, shown, _address(address), self._access)
        # Nothing has been taken of a stream either: it is asked for its first part once there is a connection.
        if outage.nothing_sent and isinstance(outage.error, UnreachableError):
            raise webfault.UnreachedDataNodeError(outage.error, target.hostname or "")
        raise outage.error

    def _nodes(self) -> list[str]:
        """All NameNodes, the one that answered last first."""
        active = self._active
        return [active, *(node for node in self._access.nodes if node != active)]


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


def _client(access: Access, waits: tuple[float, float]) -> Any:
    """What the `hdfs` package authenticates by: a delegation token, a Kerberos ticket, or the name of a user."""
    session = _session()
    nodes = ";".join(access.nodes)
    if access.token is not None:
        client = hdfs.TokenClient(nodes, access.token, session=session, timeout=waits)
    elif access.kerberos:
        try:
            from hdfs.ext.kerberos import KerberosClient
        except ImportError:
            raise MissingDependencyError(
                "this cluster wants Kerberos, which needs a package that is not installed",
                hint="pip install 'hdfs[kerberos]' (it is built with the Kerberos headers, libkrb5-dev), or give a "
                "delegation token by HADOOP_TOKEN_FILE_LOCATION.",
            ) from None
        client = KerberosClient(nodes, mutual_auth="OPTIONAL", session=session, timeout=waits)
    else:
        client = hdfs.InsecureClient(nodes, user=access.user, session=session, timeout=waits)
    if access.user is not None and not access.kerberos:
        session.params = {**session.params, "user.name": access.user}
    return client


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
        raise webfault.cut_short(shown, _address(response.url), len(data), length)
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
