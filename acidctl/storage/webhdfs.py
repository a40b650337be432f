"""HDFS over HTTP, of NameNodes and of HttpFS gateways, as a storage.

Where WebHDFS and HttpFS do less than they say, in versions up to 3.4.3, and what is done about it: `rename` moves
*into* a directory that exists (rename2 does not; a gateway has only the first); `mkdirs` and `create` make parents
and find nothing wrong with a directory that exists; `delete` takes what it is given.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Full, Queue
from typing import Any, BinaryIO, cast

from acidctl.errors import ExistsError, NoSuchTableError, StorageError
from acidctl.storage.hadoop import HadoopStorage, MissingError, Status, missing
from acidctl.storage.hadoop_conf import locate
from acidctl.storage.port import NewFile, Storage, already_exists, join, not_a_directory
from acidctl.storage.prefetch import RangedFile, Tuning
from acidctl.storage.remote import DirectoryEntry, in_thread
from acidctl.storage.webhdfs_rest import Body, Source, UnknownRequestError, WebApi

# A file up to this size is sent when it is closed, by one request; a larger one in parts of it while it is written.
_PART_BYTES = 4 << 20
_WAITING_PARTS = 2
# How often a writer that waits looks whether sending has failed.
_LOOK_SECONDS = 0.1
# A DataNode opens the block anew for each request, which costs it as much as sending some MiB.
_TUNING = Tuning(piece=32 << 20, ahead=32 << 20)
# Who holds the most of a file; more hosts than that help no scheduler.
_HOSTS = 3


class WebHdfsStorage(HadoopStorage):
    def __init__(self, api: WebApi) -> None:
        super().__init__(api.place)
        self._api = api
        self._gateway: bool | None = None

    def open(self, path: str) -> BinaryIO:
        """One request for the size, then one to a DataNode for each range."""
        status = self._file_status(path)
        shown = self.display(path)
        if status is None:
            raise missing(shown)
        if status["type"] != "FILE":
            raise StorageError(f"{shown} is not a regular file", path=shown)
        source = Source(int(status.get("blockSize") or 0))
        return cast(
            BinaryIO,
            RangedFile(
                lambda offset, length: self._api.read(path, shown, offset, length, source),
                int(status["length"]),
                name=shown,
                tuning=_TUNING,
            ),
        )

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """What exists is seen here; of two who create at the same time, one is refused when it closes."""
        if self._status(path) is not None:
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

    def send(self, path: str, body: Body, mode: int | None = None) -> None:
        """Write a new file whose parent exists."""
        self._api.create(path, self.display(path), body, mode)

    def _ask(self, method: str, operation: str, path: str, **parameters: Any) -> dict[str, Any]:
        return self._api.ask(method, operation, path, self.display(path), **parameters)

    def _true(self, method: str, operation: str, path: str, **parameters: Any) -> None:
        """For operations that answer with a truth value, without a reason when it is false."""
        if self._ask(method, operation, path, **parameters).get("boolean") is not True:
            shown = self.display(path)
            raise StorageError(f"{shown} cannot be changed: HDFS refuses {operation} and gives no reason", path=shown)

    def _status(self, path: str) -> Status | None:
        status = self._file_status(path)
        return None if status is None else _status_of(status)

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
                yield DirectoryEntry(
                    name, status["type"] == "DIRECTORY", _size(status), status["modificationTime"] / 1000
                )
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
        shown = self.display(target)
        if source == target or self._status(target) is not None:
            raise already_exists(shown)
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
                if self._status(renamed) is not None:
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
            if self._status(target) is not None:
                raise already_exists(shown)
            self._existing(source)
            raise StorageError(f"{self.display(source)} cannot be moved to {shown}: HDFS refuses it", path=shown)

    def _has_trash(self) -> bool:
        minutes = self._api.place.trash_minutes  # counts where the server names none
        try:
            defaults = self._ask("GET", "GETSERVERDEFAULTS", "/").get("FsServerDefaults", {})
            minutes = float(defaults.get("trashInterval") or minutes)
        except UnknownRequestError:
            pass  # an older server
        return minutes > 0


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
                return
        sent.result()

    def _finish(self) -> None:
        if self._sent is None:
            self._storage.send(self._path, bytes(self._buffer), self._mode)
            return
        if self._buffer:
            self._send()
        self._pass_on(self._sent, None)
        self._sent.result()

    def _undo(self, failure: BaseException) -> None:
        """What exists already is another writer's."""
        if not isinstance(failure, ExistsError):
            with suppress(StorageError):
                self._storage.remove_file(self._path)

    def _abandon(self) -> None:
        """Ends the request in good order before the file is removed: cut off, it could come to life afterwards."""
        if self._sent is None:
            return
        failure: BaseException = StorageError("it was abandoned")
        try:
            self._pass_on(self._sent, None)
            self._sent.result()
        except StorageError as error:
            failure = error
        self._undo(failure)


def _status_of(status: Mapping[str, Any]) -> Status:
    """Times are in milliseconds there, and modes in octal."""
    return Status(
        is_directory=status["type"] == "DIRECTORY",
        size=_size(status),
        modified=status["modificationTime"] / 1000,
        owner=str(status["owner"]),
        group=str(status["group"]),
        mode=int(str(status["permission"]), 8),
    )


def _size(status: Mapping[str, Any]) -> int:
    return 0 if status["type"] == "DIRECTORY" else int(status["length"])


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    """The storage of a URL and the path within it; nothing is asked of the servers yet."""
    place = locate(url, scheme, options, os.environ)
    return WebHdfsStorage(WebApi(place)), place.path
