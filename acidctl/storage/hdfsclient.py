"""A client of one HDFS: hdfs-native's, with time limits, the user that was asked for, and our errors.

hdfs-native (0.14.7) waits without end for a connection or an answer, holds the calling thread meanwhile, and takes the
user from the process's environment whenever it connects.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from functools import lru_cache
from typing import TypeVar
from weakref import WeakSet

import hdfs_native

from acidctl.errors import AcidctlError, StorageError, UnreachableError
from acidctl.storage import hadoopfault, panics
from acidctl.storage.hdfsplace import Place, with_order
from acidctl.storage.timeouts import GRACE, bounded, side_by_side

Answer = TypeVar("Answer")

_USER = "HADOOP_USER_NAME"
# What a machine on a network takes to accept a connection, the repeated requests for one included.
_CONNECT_SECONDS = 5.0
# What other NameNodes have left when one has accepted.
_OTHERS_SECONDS = 0.3
# What the first answer of a NameNode may take; after it, `Place.timeout` counts.
_FIRST_SECONDS = 20.0
# Counted as so many attempts, an error is not met by asking again.
_ENOUGH = 3
_BROKEN = (
    "Check that this is the port of the NameNode's own protocol (8020), not of its web pages. Where the cluster uses "
    "Kerberos, name its configuration by HADOOP_CONF_DIR, and log in with `kinit`."
)
_AFTER_PANIC = "Run the command again; with --debug it shows what hdfs-native prints."
_RPC_ERROR = re.compile(r'^(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)$', re.DOTALL)


class HdfsClient:
    """One HDFS; connects when it is first asked, and anew after it could not be reached."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._client: hdfs_native.Client | None = None
        self._writer: hdfs_native.AsyncClient | None = None
        self._process = 0
        self._answered = False
        # Whether any client ever had an answer, so that this is an HDFS.
        self._met = False

    def ask(self, action: Callable[[hdfs_native.Client], Answer], shown: str, *, changes: bool = False) -> Answer:
        """What the action answers; `shown` is what errors name, `changes` says that it is not to be given up lightly.

        After an UnreachableError it is unknown whether a change was made. hdfs-native asks again by itself when a
        connection breaks, so that a change which was made can also be refused: as existing, or as missing.
        """
        client = self._connected(shown)
        limit = self._limit

        def act() -> Answer:
            try:
                return action(client)
            finally:
                # Not when the waiting ends: a call that goes on may connect even then.
                _TURNS.leave()

        self._begin_turn(shown)
        try:
            answer = bounded(act, limit, changes=changes)
        except TimeoutError as error:
            silent = _silent(shown, limit)
            if not self._met:
                # It is nothing that passes: this may be no NameNode at all.
                silent.attempts = _ENOUGH
            self.forget(client)
            raise silent from error
        except AcidctlError:
            raise
        except Exception as error:
            raise self._refused(client, error, shown, changes) from error
        except BaseException as error:
            if not _is_panic(error):
                raise
            raise self._panicked(client, error, shown) from error
        self._answered = self._met = True
        return answer

    def begin(self, action: Callable[[hdfs_native.AsyncClient], Awaitable[Answer]], shown: str) -> Future[Answer]:
        """Start what the action gives for a client whose calls can be cancelled; `finish` waits for it."""
        client = self._connected_writer(shown)
        self._begin_turn(shown)

        async def run() -> Answer:
            return await action(client)

        future = asyncio.run_coroutine_threadsafe(run(), _loop())
        future.add_done_callback(lambda _: _TURNS.leave())
        return future

    def finish(self, future: Future[Answer], shown: str) -> Answer:
        """The answer of what was begun; when there is none in time it is cancelled.

        After an interrupt it has a few seconds more, so that it is known how it ended.
        """
        limit = self._limit
        try:
            answer = future.result(limit)
        except TimeoutError as error:
            future.cancel()
            self.forget(None)
            raise _silent(shown, limit) from error
        except Exception as error:
            raise self._refused(None, error, shown, True) from error
        except BaseException as error:
            if not _is_panic(error):
                wait([future], GRACE)
                future.cancel()
                raise
            raise self._panicked(None, error, shown) from error
        self._answered = self._met = True
        return answer

    def forget(self, client: hdfs_native.Client | None) -> None:
        """Connect anew for the next question; None forgets whatever is there."""
        with self._lock:
            if client is None or self._client is client:
                self._client = self._writer = None
                self._answered = False

    def _begin_turn(self, shown: str) -> None:
        try:
            _TURNS.enter(self.place.user, self.place.timeout)
        except TimeoutError as error:
            raise hadoopfault.unreachable(shown, "requests of another user do not end") from error

    @property
    def _limit(self) -> float:
        return self.place.timeout if self._answered else min(self.place.timeout, _FIRST_SECONDS)

    @property
    def _url(self) -> str:
        return f"{self.place.scheme}://{self.place.authority}"

    def _connected(self, shown: str) -> hdfs_native.Client:
        with self._lock:
            client = self._client
            if client is not None and self._process == os.getpid():
                return client
        config = self._config(shown)
        with self._lock:
            if self._client is None or self._process != os.getpid():
                panics.divert()
                # What the user's home is, is settled now.
                self._begin_turn(shown)
                try:
                    self._client = hdfs_native.Client(self._url, config)
                except Exception as error:
                    raise _translated(error, shown, False, self.place) from error
                finally:
                    _TURNS.leave()
                _made.add(self._client)
                # Connections do not pass into processes that are forked.
                self._process = os.getpid()
                self._writer = None
                self._answered = False
            return self._client

    def _connected_writer(self, shown: str) -> hdfs_native.AsyncClient:
        self._connected(shown)
        with self._lock:
            if self._writer is not None:
                return self._writer
        # Each NameNode once: before more, hdfs-native would sleep, and where its callers are asyncio's that is a panic.
        others = len(self.place.addresses) - 1 if self.place.addresses else 1
        config = {**self._config(shown), "dfs.client.failover.max.attempts": str(others)}
        writer = hdfs_native.AsyncClient(self._url, config)
        # Never freed: its end waits, with the interpreter held, for its own threads, and those for the interpreter.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer))
        with self._lock:
            self._writer = self._writer or writer
            return self._writer

    def _config(self, shown: str) -> dict[str, str]:
        return with_order(self.place, self._reachable(shown))

    def _reachable(self, shown: str) -> tuple[str, ...]:
        """The NameNodes in the order in which to try them, by whether they accept connections."""
        addresses = self.place.addresses
        if not addresses:
            return ()
        seconds = min(_CONNECT_SECONDS, self.place.timeout)
        knocks = [lambda address=address: _knock(address, seconds) for address in addresses]
        found = side_by_side(knocks, seconds + 1, enough=lambda fault: fault is None, patience=_OTHERS_SECONDS)
        open_ones = [address for index, address in enumerate(addresses) if index in found and found[index] is None]
        if not open_ones:
            raise _closed(shown, addresses, found, seconds)
        return tuple(sorted(addresses, key=lambda address: address not in open_ones))

    def _refused(self, client: hdfs_native.Client | None, error: Exception, shown: str, changes: bool) -> StorageError:
        found = _translated(error, shown, changes, self.place)
        if isinstance(found, UnreachableError):
            if not self._met and "broke" in found.message:
                # hdfs-native keeps the reason to itself, and has asked as often as `hdfsplace` lets it.
                found.attempts = _ENOUGH
                found.hint = _BROKEN
            self.forget(client)
        return found

    def _panicked(self, client: hdfs_native.Client | None, error: BaseException, shown: str) -> StorageError:
        self.forget(client)
        hint = _AFTER_PANIC if self._met else _BROKEN
        return StorageError(f"{shown} cannot be used: hdfs-native failed ({error})", path=shown, hint=hint)


def _knock(address: str, seconds: float) -> OSError | None:
    """Why an address accepts no connections; None when it does."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), seconds).close()
    except ValueError:
        return OSError("no port")
    except OSError as error:
        return error
    return None


def _closed(shown: str, addresses: tuple[str, ...], found: dict[int, OSError | None], seconds: float) -> StorageError:
    """What to say when no NameNode accepts a connection: of one its fault, of several what they have in common."""
    faults = [found.get(index) for index in range(len(addresses))]
    where = " and ".join(addresses)
    if all(isinstance(fault, socket.gaierror | UnicodeError) for fault in faults):
        return hadoopfault.unknown_name(shown, where, "dfs.namenode.rpc-address")
    if all(isinstance(fault, ConnectionRefusedError) for fault in faults):
        return hadoopfault.unreachable(shown, f"{where} accepts no connections")
    error = hadoopfault.unreachable(shown, f"there is no answer from {where} within {seconds:g} s")
    # The system asked several times in these seconds.
    error.attempts = _ENOUGH
    return error


def _silent(shown: str, seconds: float) -> UnreachableError:
    return hadoopfault.unreachable(shown, f"HDFS did not answer within {seconds:g} s")


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"


def _translated(error: Exception, shown: str, changes: bool, place: Place) -> StorageError:
    """What an exception of hdfs-native means; it has few classes, and the rest stands in its text."""
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return hadoopfault.missing(shown, hadoopfault.first_line(text) if changes else "")
    if isinstance(error, FileExistsError):
        return hadoopfault.of_java("FileAlreadyExistsException", text, shown, changes=changes)
    if isinstance(error, UnicodeError):
        return StorageError(f"{shown!r} cannot be used: HDFS has only names in UTF-8", path=repr(shown))
    java = _RPC_ERROR.match(text)
    if java is not None:
        return hadoopfault.of_java(java[1], _unescaped(java[2]), shown, changes=changes)
    lowered = text.lower()
    if "sasl" in lowered or "gss" in lowered or "kerberos" in lowered or "credential" in lowered:
        return hadoopfault.no_ticket(shown)
    if "lookup address" in lowered:
        return hadoopfault.unknown_name(shown, place.authority, "dfs.namenode.rpc-address")
    # Of writers it does not tell whose connection it was.
    where = f"{place.authority}, or a DataNode," if changes else place.authority
    if "refused" in lowered:
        return hadoopfault.unreachable(shown, f"{where} accepts no connections")
    if isinstance(error, OSError):
        return hadoopfault.unreachable(shown, f"the connection to {where} broke")
    if "DataTransferError" in text:
        verb = "takes" if changes else "gives"
        return hadoopfault.unreachable(shown, f"no DataNode {verb} a block of it")
    if "ChecksumError" in text:
        return hadoopfault.unreachable(shown, "the checksums of its blocks do not match")
    reason = hadoopfault.first_line(re.sub(r"^\w+\(\"?|\"?\)$", "", text))
    return StorageError(f"{shown} cannot be {'changed' if changes else 'read'}: {reason}", path=shown)


def _unescaped(text: str) -> str:
    """A string as Rust shows it for debugging."""
    plain = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
    text = re.sub(r"\\u\{([0-9a-f]+)\}", lambda match: chr(int(match[1], 16)), text)
    return re.sub(r"\\(.)", lambda match: plain.get(match[1], match[1]), text)


class _Turns:
    """Users take turns at the environment: calls of one user run side by side, those of another wait for their end."""

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
    if name == os.environ.get(_USER):
        return
    if name is None:
        del os.environ[_USER]
    else:
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
