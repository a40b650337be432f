"""HDFS as a storage, through hdfs-native's client, with time limits, the user that was asked for, and our errors.

hdfs-native (0.14.7) waits without end for a connection or an answer, holds the calling thread meanwhile, and takes the
user from the process's environment whenever it connects. Its `rename` is rename2: atomic, and never into a directory.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from itertools import islice
from typing import Any, BinaryIO, TypeVar, cast
from weakref import WeakSet

import hdfs_native

from acidctl.errors import AcidctlError, ExistsError, NoSuchTableError, StorageError, UnreachableError
from acidctl.storage import panics
from acidctl.storage.hadoop import (
    HadoopStorage,
    MissingError,
    Status,
    first_line,
    missing,
    no_datanode,
    no_ticket,
    of_java,
    unknown_name,
    unreachable,
)
from acidctl.storage.hadoop_conf import Place, locate
from acidctl.storage.port import Descend, NewFile, Storage, Walk, already_exists, not_a_directory, replaced
from acidctl.storage.prefetch import RangedFile
from acidctl.storage.remote import DirectoryEntry, in_thread, walk_tree

Answer = TypeVar("Answer")

_BUFFER_BYTES = 1 << 20
# As many entries as NameNodes send at once (dfs.ls.limit): each page has the time of one request.
_PAGE = 1000
# What several listings in one call may take together, so that they are far from the time of one request.
_SOME_SECONDS = 1.0
_TRASH = ".Trash/Current"
# What Hadoop's own clients give, by their usual umask.
_FILE_MODE = 0o644
# A path that does not exist.
_NOWHERE = "/.acidctl-is-there-a-trash"
# How soon a file that is being closed is looked at, and how the pauses grow, in seconds.
_FIRST_LOOK = 0.004
_SLOWER = 1.5
_USER = "HADOOP_USER_NAME"
# How long a machine on a network may take to accept a connection, repeated attempts included.
_CONNECT_SECONDS = 5.0
# How long other NameNodes are waited for when one has accepted.
_OTHERS_SECONDS = 0.3
# What the first answer of a NameNode may take; after it, `Place.timeout` counts.
_FIRST_SECONDS = 20.0
# An error with so many attempts is not tried again.
_NO_RETRY = 3
_BROKEN = (
    "Check that this is the port of the NameNode's own protocol (8020), not of its web pages. Where the cluster uses "
    "Kerberos, name its configuration by HADOOP_CONF_DIR, and log in with `kinit`."
)
_AFTER_PANIC = "Run the command again; with --debug it shows what hdfs-native prints."
# What a change may take after an interrupt, so that it is known whether it was made.
GRACE = 3.0


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    """The storage of a URL and the path within it; nothing is asked of the servers yet."""
    place = locate(url, scheme, options, os.environ)
    return HdfsStorage(place), place.path


class HdfsStorage(HadoopStorage):
    """One HDFS; connects when it is first asked, and anew after it could not be reached."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._lock = threading.Lock()
        self._client: hdfs_native.Client | None = None
        self._writer: hdfs_native.AsyncClient | None = None
        self._process = 0
        self._answered = False
        # Whether any client ever had an answer, so that this is an HDFS.
        self._ever_answered = False

    def open(self, path: str) -> BinaryIO:
        """One request for the places of all blocks, then one to a DataNode for each range."""
        shown = self.display(path)
        first = self._reader(path)
        size, reader = len(first), cast(hdfs_native.FileReader | None, first)

        def read_at(offset: int, length: int) -> bytes:
            nonlocal reader
            here = reader
            if here is None:
                # Looked up anew after a failure, because blocks move.
                here = self._reader(path)
                if len(here) != size:
                    raise replaced(shown)
                reader = here
            try:
                # Asked for more than there is, hdfs-native panics.
                return self._ask(path, lambda _: here.read_range(offset, min(length, size - offset)))
            except UnreachableError as error:
                reader = None
                raise self.of_datanodes(path, error, "gives") from error

        return cast(BinaryIO, RangedFile(read_at, size, name=shown))

    def _reader(self, path: str) -> hdfs_native.FileReader:
        try:
            return self._ask(path, lambda client: client.read(path))
        except MissingError as error:
            if "Path is not a file" in str(error.__cause__):
                shown = self.display(path)
                raise StorageError(f"{shown} is not a regular file", path=shown) from error
            raise

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """One listing per directory, in pages, many at once; several in one call where many wait."""
        return walk_tree(self._list, root, descend, list_some=self._list_some)

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """The NameNode decides who wins."""
        return cast(BinaryIO, _NewFile(self, path, self._new_mode(like)))

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """The NameNode decides who wins; what could not be written whole is removed."""
        super().create_exclusive(path, data, like)
        if like is not None:
            self.inherit(path, like)

    def move(self, source: str, target: str) -> None:
        """By rename2, which the NameNode does in one step."""
        try:
            self._change(source, lambda client: client.rename(source, target, False))
        except StorageError as error:
            # A file where a directory is needed is refused with its own message.
            words = ("must both be directories", "must both be files")
            if isinstance(error, ExistsError) or any(word in error.message for word in words):
                raise already_exists(self.display(target)) from None
            raise

    def status(self, path: str) -> Status | None:
        try:
            info = self._ask(path, lambda client: client.get_file_info(path))
        except MissingError:
            return None
        modified = info.modification_time / 1000
        return Status(info.isdir, info.length, modified, info.owner, info.group, info.permission)

    def _list(self, path: str) -> Iterable[DirectoryEntry]:
        entries: Any = None

        def page(client: hdfs_native.Client) -> list[DirectoryEntry]:
            nonlocal entries
            entries = client.list_status(path) if entries is None else entries
            return _page(entries, path)

        shown = self.display(path)
        entries_so_far: list[DirectoryEntry] = []
        while True:
            try:
                page_entries = self._ask(path, page)
            except MissingError as error:
                raise NoSuchTableError(f"{shown} does not exist", path=shown) from error
            if page_entries == [_ITSELF]:
                raise not_a_directory(shown)
            entries_so_far += page_entries
            if len(page_entries) < _PAGE:
                return entries_so_far

    def _list_some(self, paths: Sequence[str]) -> list[list[DirectoryEntry] | None]:
        """The entries of small directories, many in one call; None where one needs a request of its own."""
        listings: list[list[DirectoryEntry] | None] = [None] * len(paths)

        def pages(client: hdfs_native.Client) -> None:
            until = time.monotonic() + _SOME_SECONDS
            for index, path in enumerate(paths):
                with suppress(Exception):
                    page = _page(client.list_status(path), path) if time.monotonic() < until else [_ITSELF]
                    listings[index] = page if len(page) < _PAGE and page != [_ITSELF] else None

        with suppress(StorageError):
            self._ask(paths[0], pages)
        return listings

    def _set_owner(self, path: str, owner: str | None, group: str) -> None:
        self._change(path, lambda client: client.set_owner(path, owner, group))

    def _set_mode(self, path: str, mode: int) -> None:
        self._change(path, lambda client: client.set_permission(path, mode))

    def _delete(self, path: str, *, recursive: bool) -> None:
        if not self._change(path, lambda client: client.delete(path, recursive)):
            raise missing(self.display(path))

    def _trash(self, path: str) -> str:
        """Below the user's home, where paths lead that begin with no slash."""
        return _TRASH

    def _mkdirs(self, path: str, mode: int, *, parents: bool) -> None:
        self._change(path, lambda client: client.mkdirs(path, mode, parents))

    def _has_trash(self) -> bool:
        """hdfs-native looks at the server's interval first of all when it is to move something to the trash."""
        try:
            self._ask(_NOWHERE, lambda client: client.trash(_NOWHERE))
        except MissingError:
            return True
        except StorageError as error:
            if not isinstance(error.__cause__, hdfs_native.TrashNotEnabledError):
                raise
        return self._place.trash_minutes > 0

    # --- hdfs-native's client, with time limits, the user that was asked for, and our errors.

    def _ask(self, path: str, action: Callable[[hdfs_native.Client], Answer], *, changes: bool = False) -> Answer:
        """What the action answers; `changes`: after an interrupt it is waited for.

        After an UnreachableError it is unknown whether a change was made. hdfs-native asks again by itself when a
        connection breaks, so that a change which was made can also be refused: as existing, or as missing.
        """
        shown = self.display(path)
        client = self._connected(shown)
        limit = self._limit

        def act() -> Answer:
            try:
                return action(client)
            finally:
                # Not when the waiting ends: a call that goes on may connect even then.
                _TURNS.leave()

        self._begin_turn(shown)
        with self._failures(client, shown, limit, changes):
            return bounded(in_thread(act), limit, changes=changes)

    def _change(self, path: str, action: Callable[[hdfs_native.Client], Answer]) -> Answer:
        return self._ask(path, action, changes=True)

    def begin(self, path: str, action: Callable[[hdfs_native.AsyncClient], Awaitable[Answer]]) -> Future[Answer]:
        """Start what the action gives for a client whose calls can be cancelled; `finish` waits for it."""
        client = self._connected_writer(self.display(path))
        self._begin_turn(self.display(path))

        async def run() -> Answer:
            return await action(client)

        future = asyncio.run_coroutine_threadsafe(run(), _loop())
        future.add_done_callback(lambda _: _TURNS.leave())
        return future

    def finish(self, path: str, future: Future[Answer]) -> Answer:
        """The answer of what was begun; when there is none in time it is cancelled."""
        limit = self._limit
        with self._failures(None, self.display(path), limit, True):
            return bounded(future, limit, changes=True)

    def of_datanodes(self, path: str, error: UnreachableError, verb: str) -> StorageError:
        """The error for data that no DataNode gave or took; raises that of the NameNode or of the data where it is one.

        hdfs-native does not name the server whose connection failed. Without the file, its DataNodes have nothing to
        give.
        """
        self._ask(path, lambda client: client.get_file_info(path))
        if "ChecksumError" in str(error.__cause__):
            raise error
        return no_datanode(self.display(path), f"{verb} a block of it")

    def has_whole(self, path: str, size: int) -> bool:
        """Whether the NameNode knows all blocks of a file that is being written."""
        try:
            return len(self._ask(path, lambda client: client.read(path))) == size
        except StorageError:
            return False

    def unmake(self, path: str) -> None:
        """Remove a file that is being written, as far as that can be done."""
        with suppress(StorageError):
            self._change(path, lambda client: client.delete(path, False))

    @contextmanager
    def _failures(self, client: hdfs_native.Client | None, shown: str, limit: float, changes: bool) -> Iterator[None]:
        """What a call raises, as one of our errors; after those of the connection, `client` is not used again."""
        try:
            yield
        except AcidctlError:
            raise
        except TimeoutError as error:
            silent = unreachable(shown, f"HDFS did not answer within {limit:g} s")
            if not self._ever_answered:
                # Asking again does not help: this may be no NameNode at all.
                silent.attempts = _NO_RETRY
            self._forget(client)
            raise silent from error
        except Exception as error:
            failure = _of_hdfs_native(error, shown, self._place.authority, changes=changes)
            if isinstance(failure, UnreachableError):
                if not self._ever_answered and "broke" in failure.message:
                    # hdfs-native keeps the reason to itself, and has asked as often as `hadoop_conf` lets it.
                    failure.attempts = _NO_RETRY
                    failure.hint = _BROKEN
                self._forget(client)
            raise failure from error
        except BaseException as error:
            if not _is_panic(error):
                raise
            self._forget(client)
            hint = _AFTER_PANIC if self._ever_answered else _BROKEN
            message = f"{shown} cannot be used: hdfs-native failed ({error})"
            raise StorageError(message, path=shown, hint=hint) from error
        self._answered = self._ever_answered = True

    def _forget(self, client: hdfs_native.Client | None) -> None:
        """Connect anew for the next question; None forgets whatever is there."""
        with self._lock:
            if client is None or self._client is client:
                self._client = self._writer = None
                self._answered = False

    def _begin_turn(self, shown: str) -> None:
        try:
            _TURNS.enter(self._place.user, self._place.timeout)
        except TimeoutError as error:
            raise unreachable(shown, "requests of another user do not end") from error

    @property
    def _limit(self) -> float:
        return self._place.timeout if self._answered else min(self._place.timeout, _FIRST_SECONDS)

    def _connected(self, shown: str) -> hdfs_native.Client:
        with self._lock:
            if self._process != os.getpid():
                # Connections do not pass into processes that are forked.
                self._client = self._writer = None
                self._process, self._answered = os.getpid(), False
            if self._client is not None:
                return self._client
        config = self._config(shown)
        with self._lock:
            if self._client is None:
                panics.divert(tempfile.TemporaryFile)
                # The user's home directory is looked up now.
                self._begin_turn(shown)
                try:
                    self._client = hdfs_native.Client(self._place.url, config)
                except Exception as error:
                    raise _of_hdfs_native(error, shown, self._place.authority, changes=False) from error
                finally:
                    _TURNS.leave()
                _made.add(self._client)
            return self._client

    def _connected_writer(self, shown: str) -> hdfs_native.AsyncClient:
        self._connected(shown)
        with self._lock:
            if self._writer is not None:
                return self._writer
        # Each NameNode once: before more, hdfs-native would sleep, and where its callers are asyncio's that is a panic.
        others = len(self._place.addresses) - 1 if self._place.addresses else 1
        config = {**self._config(shown), "dfs.client.failover.max.attempts": str(others)}
        writer = hdfs_native.AsyncClient(self._place.url, config)
        # Never freed: its end waits, with the interpreter held, for its own threads, and those for the interpreter.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer))
        with self._lock:
            self._writer = self._writer or writer
            return self._writer

    def _config(self, shown: str) -> dict[str, str]:
        """With the NameNodes in the order in which to try them, by whether they accept connections."""
        addresses = self._place.addresses
        seconds = min(_CONNECT_SECONDS, self._place.timeout)
        faults = try_connections(addresses, seconds)
        open_ones = [address for address in addresses if address in faults and faults[address] is None]
        if addresses and not open_ones:
            raise _closed(shown, addresses, faults, seconds)
        return self._place.ordered(sorted(addresses, key=lambda address: address not in open_ones))


# How HDFS lists a file: as the only entry of itself.
_ITSELF = DirectoryEntry("", False)


def _page(entries: Any, path: str) -> list[DirectoryEntry]:
    """As many entries of a listing as a NameNode sends at once."""
    return [
        DirectoryEntry(entry.path.rpartition("/")[2], entry.isdir, entry.length, entry.modification_time / 1000)
        if entry.path != path
        else _ITSELF
        for entry in islice(entries, _PAGE)
    ]


class _NewFile(NewFile):
    """A file whose blocks are written as they fill up.

    hdfs-native would publish what there is when it closes; without closing, the file can still be removed.
    """

    def __init__(self, storage: HdfsStorage, path: str, mode: int | None) -> None:
        super().__init__(_BUFFER_BYTES)
        self._storage = storage
        self._path = path
        config = storage._place.config
        # Plain numbers of the configuration; those with a unit are left to the server.
        replication, block_size = (
            int(value) if (value := config.get(key, "")).isdecimal() else None
            for key in ("dfs.replication", "dfs.blocksize")
        )
        options = hdfs_native.WriteOptions(
            replication=replication,
            block_size=block_size,
            create_parent=False,
            permission=_FILE_MODE if mode is None else mode,
        )
        begun = storage.begin(path, lambda writing: writing.create(path, options))
        try:
            self._writer = storage.finish(path, begun)
        except BaseException:
            self._shut()
            # Interrupted when the file was made already. Any other file there is another writer's.
            if begun.done() and not begun.cancelled() and begun.exception() is None:
                self._abandon()
            raise

    def __del__(self) -> None:
        # At the end of the interpreter there are no threads any more that could remove it.
        if not sys.is_finalizing():
            super().__del__()

    def _send(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        self._wait(self._storage.begin(self._path, lambda _: self._writer.write(data)))

    def _abandon(self, failure: BaseException | None = None) -> None:
        self._storage.unmake(self._path)

    def _wait(self, begun: Future[Any]) -> None:
        try:
            self._storage.finish(self._path, begun)
        except UnreachableError as error:
            raise self._storage.of_datanodes(self._path, error, "takes") from error

    def _finish(self) -> None:
        """Close the file, without the half second that hdfs-native sleeps.

        A file can be completed when the DataNodes have reported its last block, a few ms after they took it;
        hdfs-native asks the NameNode for that at once and then every 500 ms. The NameNode counts the length of the last
        block when it is reported *and* hdfs-native has asked for the first time. From then on nothing is lost by asking
        again, so the sleep is cancelled and the file closed once more.
        """
        if self._buffer:
            self._send()
        closing = self._close()
        until = time.monotonic() + self._storage._place.timeout
        pause = _FIRST_LOOK
        while self._written and time.monotonic() < until:
            wait([closing], pause)
            if closing.done():
                break
            if self._is_complete():
                closing.cancel()
                try:
                    self._wait(self._close())
                except StorageError as error:
                    # The first request was carried out after all, and its answer was on the way.
                    if "is not open for writing" not in error.message or not self._is_complete():
                        raise
                return
            pause *= _SLOWER
        self._wait(closing)

    def _close(self) -> Future[Any]:
        return self._storage.begin(self._path, lambda _: self._writer.close())

    def _is_complete(self) -> bool:
        return self._storage.has_whole(self._path, self._written)


def try_connections(addresses: Sequence[str], seconds: float) -> dict[str, Exception | None]:
    """Why addresses accept no connections, None where they do; those without an answer in time are left out.

    All are asked at once; when one has accepted, the others have little time left.
    """
    calls = {in_thread(partial(_try_connection, address, seconds)): address for address in addresses}
    faults: dict[str, Exception | None] = {}
    until = time.monotonic() + seconds + 1
    pending = set(calls)
    while pending:
        done, pending = wait(pending, max(until - time.monotonic(), 0), FIRST_COMPLETED)
        if not done:
            break
        faults.update((calls[call], call.result()) for call in done)
        if None in faults.values():
            until = min(until, time.monotonic() + _OTHERS_SECONDS)
    return faults


def _try_connection(address: str, seconds: float) -> Exception | None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()
    except (OSError, ValueError) as error:
        return error
    return None


def _closed(
    shown: str, addresses: Sequence[str], results: Mapping[str, Exception | None], seconds: float
) -> StorageError:
    """The error when no NameNode accepts a connection: for several, what they have in common."""
    faults = [results.get(address) for address in addresses]
    where = " and ".join(addresses)
    if all(isinstance(fault, socket.gaierror | UnicodeError) for fault in faults):
        return unknown_name(shown, where, "dfs.namenode.rpc-address")
    if all(isinstance(fault, ConnectionRefusedError) for fault in faults):
        return unreachable(shown, f"{where} accepts no connections")
    error = unreachable(shown, f"there is no answer from {where} within {seconds:g} s")
    # The system asked several times in these seconds.
    error.attempts = _NO_RETRY
    return error


_RPC_ERROR = re.compile(r'^(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)$', re.DOTALL)


def _of_hdfs_native(error: Exception, shown: str, authority: str, *, changes: bool) -> StorageError:
    """What an exception of hdfs-native means; it has few classes, so its text decides."""
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return missing(shown, first_line(text) if changes else "")
    if isinstance(error, FileExistsError):
        return of_java("FileAlreadyExistsException", text, shown, changes=changes)
    if isinstance(error, UnicodeError):
        return StorageError(f"{shown!r} cannot be used: HDFS has only names in UTF-8", path=repr(shown))
    java = _RPC_ERROR.match(text)
    if java is not None:
        return of_java(java[1], _unescaped(java[2]), shown, changes=changes)
    lowered = text.lower()
    if "sasl" in lowered or "gss" in lowered or "kerberos" in lowered or "credential" in lowered:
        return no_ticket(shown)
    if "lookup address" in lowered:
        return unknown_name(shown, authority, "dfs.namenode.rpc-address")
    # For writers it does not name the server of the connection.
    where = f"{authority}, or a DataNode," if changes else authority
    if "refused" in lowered:
        return unreachable(shown, f"{where} accepts no connections")
    if isinstance(error, OSError):
        return unreachable(shown, f"the connection to {where} broke")
    if "DataTransferError" in text:
        verb = "takes" if changes else "gives"
        return unreachable(shown, f"no DataNode {verb} a block of it")
    if "ChecksumError" in text:
        return unreachable(shown, "the checksums of its blocks do not match")
    reason = first_line(re.sub(r"^\w+\(\"?|\"?\)$", "", text))
    return StorageError(f"{shown} cannot be {'changed' if changes else 'read'}: {reason}", path=shown)


def _unescaped(text: str) -> str:
    """A string from Rust's debugging format."""
    plain = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
    text = re.sub(r"\\u\{([0-9a-f]+)\}", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\(.)", lambda match: plain.get(match[1], match[1]), text)


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"


class _Turns:
    """Users take turns at HADOOP_USER_NAME: calls of one user run together, those of another wait for their end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._original: str | None = None
        self._current: str | None = None

    def enter(self, user: str | None, seconds: float) -> None:
        """Begin a call; None is the user of the environment as it was found. TimeoutError when others take so long."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._inside or self._current == self._wanted(user), seconds):
                raise TimeoutError
            if not self._inside:
                self._original = os.environ.get(_USER)
                self._current = self._wanted(user)
                _set_user(self._current)
            self._inside += 1

    def leave(self) -> None:
        """A call has ended; after the last one the environment is as it was."""
        with self._changed:
            self._inside -= 1
            if not self._inside:
                _set_user(self._original)
                self._changed.notify_all()

    def _wanted(self, user: str | None) -> str | None:
        return user or (self._original if self._inside else os.environ.get(_USER))


def _set_user(name: str | None) -> None:
    if name is None:
        os.environ.pop(_USER, None)
    elif name != os.environ.get(_USER):
        os.environ[_USER] = name


_TURNS = _Turns()


@lru_cache(maxsize=1)
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of all writers, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="acidctl-hdfs", daemon=True).start()
    return loop


# A client that is freed waits for its threads, which a forked child does not have: there the inherited ones are kept.
_made: WeakSet[hdfs_native.Client] = WeakSet()
_inherited: list[hdfs_native.Client] = []

os.register_at_fork(after_in_child=_loop.cache_clear)
os.register_at_fork(after_in_child=lambda: _inherited.extend(_made))


def bounded(call: Future[Answer], seconds: float, *, changes: bool = False) -> Answer:
    """What a call answers or raises; TimeoutError when that takes more than so many seconds.

    An interrupt ends the waiting at once, or with `changes` when the call has ended, for a few seconds at most. What
    cannot be cancelled goes on in its thread, which ends the process as little as any other daemon.
    """
    try:
        return call.result(seconds)
    except BaseException as error:
        if changes and not isinstance(error, Exception):
            wait([call], min(seconds, GRACE))
        call.cancel()
        raise
