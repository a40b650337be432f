"""HDFS over HTTP, of NameNodes and of HttpFS gateways, as a storage.

One dialect with two kinds of servers. A NameNode answers itself for names and sends those who want bytes on to a
DataNode, by a redirect that holds all that is needed, credentials included. A gateway (HttpFS) carries the bytes
itself and knows fewer parameters. Secrets travel in addresses here, so no text of an HTTP library is ever shown.

Where both do less than they say, in versions up to 3.4.3, and what is done about it: `rename` moves *into* a directory
that exists (rename2 does not; a gateway has only the first); `mkdirs` and `create` make parents and find nothing wrong
with a directory that exists; `delete` takes what it is given.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from functools import partial
from queue import Full, Queue
from typing import Any, BinaryIO, TypeVar, cast
from urllib.parse import quote, urlsplit, urlunsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase

from acidctl.errors import ExistsError, MissingDependencyError, NoSuchTableError, StorageError, UnreachableError
from acidctl.storage.hadoop import (
    PORTS,
    HadoopStorage,
    MissingError,
    Status,
    UnknownRequestError,
    missing,
    no_ticket,
    of_http,
    unknown_name,
    unreachable,
)
from acidctl.storage.hadoop_conf import Place, locate
from acidctl.storage.port import NewFile, Storage, already_exists, join, not_a_directory
from acidctl.storage.prefetch import RangedFile, Tuning
from acidctl.storage.remote import DirectoryEntry, in_thread
from acidctl.values import dataclass

try:
    import requests_kerberos
except ImportError:
    requests_kerberos = None

_PREFIX = "/webhdfs/v1"
# Waiting for a connection is short even where answers may take long.
_CONNECT_SECONDS = 10.0
# Connections kept alive per server, for the walk and for reading ahead together.
_CONNECTIONS = 32
# How many DataNodes are tried: the NameNode goes on naming one that is gone for up to ten minutes. Of several on one
# host it leaves out any, not the one that is gone, because only hosts can be named to it.
_REDIRECTS = 10
# A file up to this size is sent when it is closed, by one request; a larger one in parts of it while it is written.
_PART_BYTES = 4 << 20
_WAITING_PARTS = 2
# How often a writer that waits looks whether sending has failed.
_LOOK_SECONDS = 0.1
# A DataNode opens the block anew for each request, which costs it as much as sending some MiB.
_TUNING = Tuning(piece=32 << 20, ahead=32 << 20)
# Who holds the most of a file; more hosts than that help no scheduler.
_HOSTS = 3

Body = bytes | Iterator[bytes]
Answer = TypeVar("Answer")
_FAULTS = (requests.RequestException, urllib3.exceptions.HTTPError, OSError)


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    """The storage of a URL and the path within it; nothing is asked of the servers yet."""
    place = locate(url, scheme, options, os.environ)
    return WebHdfsStorage(place), place.path


class WebHdfsStorage(HadoopStorage):
    """Any number of threads may use one."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._gateway: bool | None = None
        self._waits = (min(place.timeout, _CONNECT_SECONDS), place.timeout)
        self._session = _authenticated(place)
        # DataNodes get what the redirect holds, and no other credentials.
        self._data = _session()
        self._active = place.addresses[0]

    def open(self, path: str) -> BinaryIO:
        """One request for the size, then one to a DataNode for each range."""
        status = self._file_status(path)
        shown = self.display(path)
        if status is None:
            raise missing(shown)
        if status["type"] != "FILE":
            raise StorageError(f"{shown} is not a regular file", path=shown)
        read_at = partial(self._read, path, max(int(status.get("blockSize") or 0), 1), {})
        return cast(BinaryIO, RangedFile(read_at, int(status["length"]), name=shown, tuning=_TUNING))

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """What exists is seen here; of two who create at the same time, one is refused when it closes."""
        if self.status(path) is not None:
            raise already_exists(self.display(path))
        self._require_directory(_parent(path))
        return cast(BinaryIO, _NewFile(self, path, self._new_mode(like)))

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """The NameNode decides who wins."""
        if self._is_gateway:
            self._require_directory(_parent(path))
        self.send(path, data, self._new_mode(like))
        if like is not None:
            self.inherit(path, like)

    def hosts(self, path: str) -> tuple[str, ...]:
        """By the NameNode's list of blocks; empty where it is too old for that."""
        try:
            answer = self._ask("GET", "GETFILEBLOCKLOCATIONS", path)
        except UnknownRequestError:
            return ()
        held: dict[str, int] = {}
        for block in answer.get("BlockLocations", {}).get("BlockLocation", ()):
            for host in block.get("hosts", ()):
                held[host] = held.get(host, 0) + int(block.get("length", 0))
        return tuple(sorted(held, key=lambda host: (-held[host], host))[:_HOSTS])

    def move(self, source: str, target: str) -> None:
        """Never into nor onto anything: one rename2, or on a gateway what amounts to it."""
        if self._is_gateway:
            self._rename_into(source, target)
            return
        try:
            self._ask("PUT", "RENAME", source, destination=target, renameoptions="NONE")
        except ExistsError:
            raise already_exists(self.display(target)) from None

    def _rename_into(self, source: str, target: str) -> None:
        """HttpFS's rename goes into directories that exist, so it is given the target's parent to go into.

        There the name is free or the rename is refused, in one step. A source of another name gets the target's first,
        inside a directory of its own beside it. HttpFS strips what it takes for the destination; a slash at its end
        keeps a blank.
        """
        if source == target or self.status(target) is not None:
            raise already_exists(self.display(target))
        self._existing(source)
        self._require_directory(_parent(target))
        name = target.rpartition("/")[2]
        if source.rpartition("/")[2] == name:
            self._into(source, target)
            return
        temporary = join(_parent(source), f"_acidctl_rename_{secrets.token_hex(8)}")
        self._true("PUT", "MKDIRS", temporary)
        renamed = join(temporary, name)
        try:
            self._true("PUT", "RENAME", source, destination=renamed + "/")
            try:
                self._into(renamed, target)
            except StorageError:
                if self.status(renamed) is not None:
                    self._true("PUT", "RENAME", renamed, destination=source + "/")
                raise
        finally:
            with suppress(StorageError):
                self._ask("DELETE", "DELETE", temporary, recursive="false")

    def _into(self, source: str, target: str) -> None:
        """Move to the target, which has the source's own name."""
        answer = self._ask("PUT", "RENAME", source, destination=_parent(target) + "/")
        if answer.get("boolean") is not True:
            shown = self.display(target)
            if self.status(target) is not None:
                raise already_exists(shown)
            self._existing(source)
            raise StorageError(f"{self.display(source)} cannot be moved to {shown}: HDFS refuses it", path=shown)

    def status(self, path: str) -> Status | None:
        """Times are in milliseconds there, and modes in octal."""
        status = self._file_status(path)
        if status is None:
            return None
        modified, mode = status["modificationTime"] / 1000, int(str(status["permission"]), 8)
        is_directory, size = _kind_and_size(status)
        return Status(is_directory, size, modified, str(status["owner"]), str(status["group"]), mode)

    def _file_status(self, path: str) -> dict[str, Any] | None:
        """The server's FileStatus; None when nothing stands at the path."""
        try:
            status: dict[str, Any] = self._ask("GET", "GETFILESTATUS", path)["FileStatus"]
        except MissingError:
            return None
        except KeyError:
            raise StorageError(f"{self.display(path)} cannot be read: the answer has no FileStatus") from None
        return status

    @property
    def _is_gateway(self) -> bool:
        """Whether this is HttpFS, which takes no notice of `renameoptions` and `createparent`; asked once.

        Only HttpFS knows INSTRUMENTATION, and has it for its administrators. In doubt it is one: its rules are safe on
        a NameNode too.
        """
        if self._gateway is None:
            try:
                self._ask("GET", "INSTRUMENTATION", "/")
                self._gateway = True
            except UnknownRequestError:
                self._gateway = False
            except StorageError as error:
                if error.transient:
                    raise
                self._gateway = True
        return self._gateway

    def _list(self, path: str) -> Iterable[DirectoryEntry]:
        """The entries of a directory, page by page (`dfs.ls.limit`)."""
        last = ""
        while True:
            after = {"startAfter": last} if last else {}
            try:
                listing = self._ask("GET", "LISTSTATUS_BATCH", path, **after)["DirectoryListing"]
                page = listing["partialListing"]["FileStatuses"]["FileStatus"]
            except MissingError as error:
                raise NoSuchTableError(f"{self.display(path)} does not exist", path=self.display(path)) from error
            except KeyError:
                raise StorageError(f"{self.display(path)} cannot be read: the answer has no listing") from None
            before = last
            for status in page:
                name = str(status["pathSuffix"])
                if not name:
                    raise not_a_directory(self.display(path))
                if name == before:
                    continue  # HttpFS strips `startAfter`, and a name that ends with a blank comes again
                yield DirectoryEntry(name, *_kind_and_size(status), status["modificationTime"] / 1000)
                last = name
            if last == before or not listing.get("remainingEntries"):
                return

    def _set_owner(self, path: str, owner: str | None, group: str) -> None:
        to = {"group": group} if owner is None else {"owner": owner, "group": group}
        self._ask("PUT", "SETOWNER", path, **to)

    def _set_mode(self, path: str, mode: int) -> None:
        self._ask("PUT", "SETPERMISSION", path, permission=f"{mode:o}")

    def _delete(self, path: str, *, recursive: bool) -> None:
        self._true("DELETE", "DELETE", path, recursive=str(recursive).lower())

    def _trash(self, path: str) -> str:
        return join(str(self._ask("GET", "GETTRASHROOT", path)["Path"]), "Current")

    def _mkdirs(self, path: str, mode: int, *, parents: bool) -> None:
        if not parents:
            self._require_directory(_parent(path))
        self._true("PUT", "MKDIRS", path, permission=f"{mode:o}")

    def _has_trash(self) -> bool:
        minutes = self._place.trash_minutes  # counts where the server names none
        with suppress(UnknownRequestError):  # an older server
            defaults = self._ask("GET", "GETSERVERDEFAULTS", "/").get("FsServerDefaults", {})
            minutes = float(defaults.get("trashInterval") or minutes)
        return minutes > 0

    # --- Requests, fail-over between NameNodes, and every answer as a value or one of our errors.

    def _true(self, method: str, operation: str, path: str, **parameters: Any) -> None:
        """For operations that answer with a truth value, without a reason when it is false."""
        if self._ask(method, operation, path, **parameters).get("boolean") is not True:
            shown = self.display(path)
            raise StorageError(f"{shown} cannot be changed: HDFS refuses {operation} and gives no reason", path=shown)

    def _ask(self, method: str, operation: str, path: str, **parameters: Any) -> dict[str, Any]:
        """The JSON object that the active NameNode answers with; empty when it has no body."""

        def read(response: requests.Response) -> dict[str, Any]:
            body = response.content
            if not body and response.status_code < 300:
                return {}
            with suppress(ValueError):
                answer = json.loads(body)
                if isinstance(answer, dict):
                    return answer
            raise _not_webhdfs(self.display(path), _address(response.url))

        return self._call(method, operation, path, parameters, read)

    def _read(self, path: str, block_size: int, known: dict[int, str], offset: int, length: int) -> bytes:
        """Bytes of a file that has them: `offset + length` may not lie past its end.

        `known` has the addresses that gave bytes of a block: such an address is good for all of it, holds credentials,
        and is asked again without asking the NameNode first.
        """

        def take(response: requests.Response) -> bytes:
            """Exactly `length` bytes, whatever else the server sends."""
            data: bytes = response.raw.read(length)
            if len(data) < length:
                why = f"{_address(response.url)} sent {len(data)} of {length} bytes"
                raise unreachable(self.display(path), why)
            response.raw.read(1)
            return data

        def redirected(response: requests.Response) -> bytes | str:
            return _location(response, path) or take(response)

        def attempt(excluded: Mapping[str, str]) -> bytes:
            parameters = {"offset": offset, "length": length, **excluded}
            answer = self._call("GET", "OPEN", path, parameters, redirected)
            if isinstance(answer, bytes):
                return answer
            data = self._fetch("GET", answer, path, take)
            known[block] = answer
            return data

        block = offset // block_size
        here = _SPAN.sub(lambda match: f"{match[1]}={offset if match[1] == 'offset' else length}", known.get(block, ""))
        if len(_SPAN.findall(here)) == 2:
            try:
                return self._fetch("GET", here, path, take)
            except StorageError:
                known.pop(block, None)  # the NameNode knows who has the bytes now
        return self._from_some_datanode(attempt)

    def send(self, path: str, body: Body, mode: int | None = None) -> None:
        """Write a new file; ExistsError when there is one, and on a NameNode MissingError when its parent is not there.

        Another DataNode is taken where one cannot be reached, but not where one fails that has begun to take bytes.
        """
        parameters = {"overwrite": "false", "createparent": "false"}
        if mode is not None:
            parameters["permission"] = f"{mode:o}"

        def attempt(excluded: Mapping[str, str]) -> None:
            asked = {**parameters, **excluded}
            address = self._call("PUT", "CREATE", path, asked, lambda response: _location(response, path))
            if address is None:
                raise _not_webhdfs(self.display(path), self._active)
            if "createparent=" not in address.lower():
                address += "&createparent=false"
            # The connection can be used again when all has been read.
            self._fetch("PUT", address, path, lambda response: response.content, body)

        self._from_some_datanode(attempt)

    def _from_some_datanode(self, attempt: Callable[[Mapping[str, str]], Answer]) -> Answer:
        """Ask the NameNode for another DataNode where one cannot be reached: nothing has been sent to it."""
        excluded: dict[str, None] = {}
        for left in reversed(range(_REDIRECTS)):
            try:
                return attempt({"excludedatanodes": ",".join(excluded)} if excluded else {})
            except _UnreachedDataNodeError as error:
                if not left:
                    raise
                with suppress(OSError):
                    # The NameNode knows DataNodes by their IP addresses.
                    excluded[socket.gethostbyname(error.host)] = None
        raise AssertionError("the last attempt answers or raises")

    def _call(
        self,
        method: str,
        operation: str,
        path: str,
        parameters: Mapping[str, Any],
        read: Callable[[requests.Response], Answer],
    ) -> Answer:
        """One call, answered by the NameNode that is active.

        Any method but GET changes something: when its answer does not come, it is not sent to another NameNode, because
        it may have been carried out.
        """
        query = {"op": operation, **parameters}
        if self._place.proxy_user is not None:
            query["doas"] = self._place.proxy_user
        try:
            location = _PREFIX + quote(path, safe="/")
        except UnicodeEncodeError:
            raise StorageError(f"{self.display(path)!r} is not UTF-8, which all names in HDFS are") from None
        failure: Failure | None = None
        for node in [self._active, *(node for node in self._place.addresses if node != self._active)]:
            answer = self._exchange(self._session, method, node + location, path, read, params=query)
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
        path: str,
        read: Callable[[requests.Response], Answer],
        body: Body | None = None,
    ) -> Answer:
        """One exchange with the server that a redirect names."""
        target, active = urlsplit(address), urlsplit(self._active)
        session, shown = self._data, self.display(path)
        if target.netloc == active.netloc:
            # A gateway sends to itself, wants to be authenticated to again, and cannot know of TLS that ends before it.
            session = self._session
            address = urlunsplit(target._replace(scheme=active.scheme))
        elif active.scheme == "https" and target.scheme != "https":
            # Credentials and data would go in the clear.
            raise StorageError(
                f"{shown} cannot be used: its data would come unencrypted, from {_address(address)}",
                path=shown,
                hint="Use webhdfs:// if that is meant; else dfs.http.policy of the cluster has to include HTTPS.",
            )
        answer = self._exchange(session, method, address, path, read, data=body)
        if not isinstance(answer, Failure):
            return answer
        # Nothing has been taken of a stream either: it is asked for its first part once there is a connection.
        if answer.nothing_sent and isinstance(answer.error, UnreachableError):
            raise _UnreachedDataNodeError(answer.error, target.hostname or "")
        raise answer.error

    def _exchange(
        self,
        session: requests.Session,
        method: str,
        address: str,
        path: str,
        read: Callable[[requests.Response], Answer],
        **request: Any,
    ) -> Answer | Failure:
        """One request, and what `read` makes of its answer; NameNodes, which get `params`, may redirect.

        A failure is returned and not raised, so that no error of ours carries one of the HTTP library as its context.
        """
        changes, shown = method != "GET", self.display(path)
        try:
            response = session.request(
                method,
                address,
                headers={"Content-Type": "application/octet-stream"},
                timeout=self._waits,
                allow_redirects=False,
                stream=True,
                # Given with each request: REQUESTS_CA_BUNDLE would win over what a session holds.
                verify=self._place.ca_file or True,
                **request,
            )
            with closing(response):
                if response.status_code < (400 if "params" in request else 300):
                    return read(response)
                challenge = response.headers.get("WWW-Authenticate", "")
                body = response.raw.read(_ERROR_BYTES, decode_content=True)
                refusal = of_http(response.status_code, challenge, body, shown, changes=changes, place=self._place)
                return Failure(*refusal)
        except _FAULTS as error:
            return _outage(error, shown, _address(address), changes=changes, place=self._place)


class _NewFile(NewFile):
    """What fits into one part is sent when it is closed, more while it is written."""

    def __init__(self, storage: WebHdfsStorage, path: str, mode: int | None) -> None:
        super().__init__(_PART_BYTES)
        self._storage = storage
        self._path = path
        self._mode = mode
        self._parts: Queue[bytes | None] = Queue(_WAITING_PARTS)
        self._sent: Future[None] | None = None

    def _send(self) -> None:
        if self._sent is None:
            # HTTP libraries ask for parts themselves, so they need a thread. It holds the queue and not this file, so
            # that a file that is not held any more can end it.
            parts = iter(self._parts.get, None)
            self._sent = in_thread(partial(self._storage.send, self._path, parts, self._mode))
        self._pass_on(self._sent, bytes(self._buffer))
        self._buffer.clear()

    def _pass_on(self, sent: Future[None], part: bytes | None) -> None:
        """Waits while enough is on its way; None is the end. Raises what sending has raised."""
        while not sent.done():
            with suppress(Full):
                self._parts.put(part, timeout=_LOOK_SECONDS)
                break
        if part is None or sent.done():
            sent.result()

    def _finish(self) -> None:
        if self._sent is None:
            self._storage.send(self._path, bytes(self._buffer), self._mode)
            return
        if self._buffer:
            self._send()
        self._pass_on(self._sent, None)

    def _abandon(self, failure: BaseException | None = None) -> None:
        """Ends the request in good order before the file is removed: cut off, it could come to life afterwards."""
        if failure is None:
            if self._sent is None:
                return
            try:
                self._pass_on(self._sent, None)
            except StorageError as error:
                failure = error
        # What exists already is another writer's.
        if not isinstance(failure, ExistsError):
            with suppress(StorageError):
                self._storage.remove_file(self._path)


def _authenticated(place: Place) -> requests.Session:
    """A session that authenticates each request: by a delegation token, a Kerberos ticket, or the name of a user."""
    session = _session()
    if place.token is not None:
        session.params = {"delegation": place.token}
    elif place.kerberos:
        session.auth = _Kerberos()
    if place.user is not None and not place.kerberos:
        session.params = {**session.params, "user.name": place.user}
    return session


class _Kerberos(AuthBase):
    """Lets at most one request begin per millisecond: servers take two of one moment for a replay."""

    def __init__(self) -> None:
        if requests_kerberos is None:
            raise MissingDependencyError(
                "this cluster wants Kerberos, which needs a package that is not installed",
                hint="pip install requests-kerberos (it is built with the Kerberos headers, libkrb5-dev), or give a "
                "delegation token by HADOOP_TOKEN_FILE_LOCATION.",
            )
        self._negotiate = requests_kerberos.HTTPKerberosAuth(mutual_authentication=requests_kerberos.OPTIONAL)
        self._lock = threading.Lock()
        self._last = 0.0

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        with self._lock:
            time.sleep(max(self._last + 0.001 - time.monotonic(), 0))
            self._last = time.monotonic()
        return cast(requests.PreparedRequest, self._negotiate(request))


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
    if not parts.path.startswith(_PREFIX + "/"):
        return address
    return urlunsplit(parts._replace(path=_PREFIX + quote(path, safe="/")))


def _kind_and_size(status: Mapping[str, Any]) -> tuple[bool, int]:
    is_directory = status["type"] == "DIRECTORY"
    return is_directory, 0 if is_directory else int(status["length"])


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _address(url: str) -> str:
    """Scheme, host and port: what of an address may be shown."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


# --- What goes wrong between this machine and WebHDFS, as our errors.
#
# Texts of HTTP libraries hold whole addresses, and those hold tokens and names of users: none is passed on.


# Where an address of a DataNode names the range.
_SPAN = re.compile(r"(?<=[?&])(offset|length)=\d+")
_ERROR_BYTES = 64 << 10


class _UnreachedDataNodeError(UnreachableError):
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


def _outage(fault: Exception, shown: str, address: str, *, changes: bool, place: Place) -> Failure:
    """What an exception of requests, urllib3 or the system means; `address` is shown, so it holds no secret."""
    chain = list(_chain(fault))

    def has(*kinds: type[BaseException]) -> bool:
        return any(isinstance(link, kinds) for link in chain)

    nothing_sent, why = True, ""
    error: StorageError | None = None
    if {type(link).__name__ for link in chain} & {"KerberosExchangeError", "MutualAuthenticationError"}:
        error = no_ticket(shown)
    elif has(requests.exceptions.SSLError, urllib3.exceptions.SSLError):
        error = StorageError(
            f"{shown} cannot be used: the certificate of {address} is not trusted here, or it speaks no TLS",
            path=shown,
            hint="Name the cluster's certificates by `ca_file` in [storage] of the configuration file, or in "
            "REQUESTS_CA_BUNDLE; plain HTTP is webhdfs://.",
        )
    elif has(socket.gaierror, urllib3.exceptions.NameResolutionError):
        error = unknown_name(shown, address, "dfs.namenode.http-address")
    elif has(ConnectionRefusedError):
        why = f"{address} accepts no connections"
    elif has(urllib3.exceptions.NewConnectionError):
        why = f"there is no route to {address}"
    elif has(requests.exceptions.ConnectTimeout, urllib3.exceptions.ConnectTimeoutError):
        why = f"{address} accepted no connection in time"
    else:
        nothing_sent = False
        if has(requests.exceptions.ProxyError, urllib3.exceptions.ProxyError):
            why = f"the proxy of this machine does not lead to {address}"
        elif has(TimeoutError, requests.exceptions.Timeout, urllib3.exceptions.TimeoutError):
            why = f"{address} did not answer within {place.timeout:g} s"
        else:
            why = f"{address} closed the connection before its answer was complete"
    return Failure(error or unreachable(shown, why), nothing_sent or not changes, False, nothing_sent)


def _not_webhdfs(shown: str, address: str) -> StorageError:
    return StorageError(f"{shown} cannot be used: {address} does not answer as WebHDFS does", path=shown, hint=PORTS)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    pending: list[Any] = [error]
    while pending:
        link = pending.pop()
        if isinstance(link, BaseException) and id(link) not in seen:
            seen.add(id(link))
            yield link
            pending += [*link.args, getattr(link, "reason", None), link.__cause__, link.__context__]
