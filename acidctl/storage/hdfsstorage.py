"""HDFS as a storage, through hdfs-native's `Client`; its `rename` is rename2: atomic, and never into a directory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from itertools import islice
from typing import Any, BinaryIO, TypeVar, cast

import hdfs_native

from acidctl.errors import ExistsError, NoSuchTableError, StorageError, UnreachableError
from acidctl.storage import hadoopfault
from acidctl.storage.hadoopfault import MissingError
from acidctl.storage.hadoopstorage import HadoopStorage, Status
from acidctl.storage.hdfsclient import HdfsClient
from acidctl.storage.newfile import NewFile
from acidctl.storage.port import Descend, Walk
from acidctl.storage.ranged import RangedFile
from acidctl.storage.treewalk import Found, walk_tree

Answer = TypeVar("Answer")

_BUFFER_BYTES = 1 << 20
# As many entries as NameNodes send at once (dfs.ls.limit): each page has the time of one request.
_PAGE = 1000
# What several listings in one call may take together, so that they are far from the time of one request.
_SOME_SECONDS = 1.0
_TRASH = ".Trash/Current"
# What Hadoop's own clients give, by their usual umask.
_FILE_MODE = 0o644
# A name that nobody has.
_NOWHERE = "/.acidctl-is-there-a-trash"
# How soon a file that is being closed is looked at, and how the pauses grow, in seconds.
_FIRST_LOOK = 0.004
_SLOWER = 1.5


class HdfsStorage(HadoopStorage):
    """One HDFS."""

    def __init__(self, client: HdfsClient) -> None:
        super().__init__(client.place.scheme, client.place.authority)
        self._client = client

    def open(self, path: str) -> BinaryIO:
        """One request for the places of all blocks, then one to a DataNode for each range."""
        shown = self.display(path)
        reader = _Reader(self._client, path, shown)
        return cast(BinaryIO, RangedFile(reader.read_at, reader.size, name=shown))

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """One listing per directory, in pages, many at once; several in one call where many wait."""
        return walk_tree(self._list, root, descend, list_some=self._list_some)

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """The NameNode decides who wins."""
        return cast(BinaryIO, _NewFile(self._client, path, self.display(path), self._new_mode(like)))

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """The NameNode decides who wins; what could not be written whole is removed."""
        with self.create(path, like) as stream:
            stream.write(data)
        if like is not None:
            self.inherit(path, like)

    def mkdir(self, path: str, like: str | None = None) -> None:
        """Two who make one directory at the same time may both succeed: names of directories have to be one's own."""
        if self._status(path) is not None:
            raise ExistsError(f"{self.display(path)} exists already", path=self.display(path))
        self._make_directory(
            path, like, lambda mode: self._change(path, lambda client: client.mkdirs(path, mode, False))
        )

    def move(self, source: str, target: str) -> None:
        """By rename2, which the NameNode does in one step."""
        try:
            self._change(source, lambda client: client.rename(source, target, False))
        except ExistsError:
            raise ExistsError(f"{self.display(target)} exists already", path=self.display(target)) from None
        except StorageError as error:
            # What stands in the way of a directory and is a file is refused in words of its own.
            if "must both be directories" in error.message or "must both be files" in error.message:
                raise ExistsError(f"{self.display(target)} exists already", path=self.display(target)) from None
            raise

    def hosts(self, path: str) -> tuple[str, ...]:
        """hdfs-native does not tell."""
        return ()

    def _ask(self, path: str, action: Any) -> Any:
        return self._client.ask(action, self.display(path))

    def _change(self, path: str, action: Any) -> Any:
        return self._client.ask(action, self.display(path), changes=True)

    def _status(self, path: str) -> Status | None:
        try:
            found = self._ask(path, lambda client: client.get_file_info(path))
        except MissingError:
            return None
        return Status(
            is_directory=found.isdir,
            size=found.length,
            modified=found.modification_time / 1000,
            owner=found.owner,
            group=found.group,
            mode=found.permission,
        )

    def _list(self, path: str) -> Iterable[Found]:
        """The entries of a directory, page by page."""
        shown = self.display(path)
        entries: Any = None

        def page(client: hdfs_native.Client) -> list[Found]:
            nonlocal entries
            if entries is None:
                entries = client.list_status(path)
            return _page(entries, path)

        found: list[Found] = []
        while True:
            try:
                some = self._client.ask(page, shown)
            except MissingError as error:
                raise NoSuchTableError(f"{shown} does not exist", path=shown) from error
            if some == [_ITSELF]:
                raise StorageError(f"{shown} is not a directory", path=shown)
            found += some
            if len(some) < _PAGE:
                return found

    def _list_some(self, paths: Sequence[str]) -> list[list[Found] | None]:
        """The entries of small directories, many in one call; None where it takes more to tell."""

        def pages(client: hdfs_native.Client) -> list[list[Found] | None]:
            until = time.monotonic() + _SOME_SECONDS
            found: list[list[Found] | None] = []
            for path in paths:
                page = None
                if time.monotonic() < until:
                    with suppress(Exception):
                        page = _page(client.list_status(path), path)
                whole = page is not None and len(page) < _PAGE and page != [_ITSELF]
                found.append(page if whole else None)
            return found

        try:
            return self._client.ask(pages, self.display(paths[0]))
        except StorageError:
            return [None] * len(paths)

    def _set_owner(self, path: str, owner: str | None, group: str) -> None:
        self._change(path, lambda client: client.set_owner(path, owner, group))

    def _set_mode(self, path: str, mode: int) -> None:
        self._change(path, lambda client: client.set_permission(path, mode))

    def _delete(self, path: str, *, recursive: bool) -> None:
        if not self._change(path, lambda client: client.delete(path, recursive)):
            raise hadoopfault.missing(self.display(path))

    def _trash(self, path: str) -> str:
        """Below the user's home, where paths lead that begin with no slash."""
        return _TRASH

    def _make_private(self, path: str) -> None:
        self._change(path, lambda client: client.mkdirs(path, 0o700, True))

    def _has_trash(self) -> bool:
        """hdfs-native looks at the server's interval first of all when it is to move something to the trash."""
        try:
            self._ask(_NOWHERE, lambda client: client.trash(_NOWHERE))
        except MissingError:
            return True
        except StorageError as error:
            if not isinstance(error.__cause__, hdfs_native.TrashNotEnabledError):
                raise
        return self._client.place.trash_minutes > 0


# How HDFS lists a file: as the only entry of itself.
_ITSELF = Found("", False)


class _Reader:
    """An open file; looked up anew after a failure, because blocks move."""

    def __init__(self, client: HdfsClient, path: str, shown: str) -> None:
        self._client = client
        self._path = path
        self._shown = shown
        self._reader: hdfs_native.FileReader | None = None
        self.size = -1
        self.size = len(self._opened())

    def read_at(self, offset: int, length: int) -> bytes:
        """Bytes of a range that ends before the file does; called in several threads at once."""
        reader = self._opened()
        try:
            # Asked for more than there is, hdfs-native panics.
            length = min(length, self.size - offset)
            return self._client.ask(lambda _: reader.read_range(offset, length), self._shown)
        except UnreachableError as error:
            self._reader = None
            raise _of_datanodes(self._client, self._path, self._shown, error, "gives") from error

    def _opened(self) -> hdfs_native.FileReader:
        reader = self._reader
        if reader is None:
            try:
                reader = self._client.ask(lambda client: client.read(self._path), self._shown)
            except MissingError as error:
                if "Path is not a file" in str(error.__cause__):
                    raise StorageError(f"{self._shown} is not a regular file", path=self._shown) from error
                raise
            if self.size not in (-1, len(reader)):
                raise StorageError(
                    f"{self._shown} was replaced while it was read",
                    path=self._shown,
                    hint="If something writes to this table now, run the command again.",
                )
            self._reader = reader
        return reader


class _NewFile(NewFile):
    """A file whose blocks are written as they fill up.

    hdfs-native would publish what there is when it closes; without closing, the file can still be removed.
    """

    def __init__(self, client: HdfsClient, path: str, shown: str, mode: int | None = None) -> None:
        super().__init__(_BUFFER_BYTES)
        self._client = client
        self._path = path
        self._shown = shown
        config = client.place.config
        options = hdfs_native.WriteOptions(
            replication=_number(config.get("dfs.replication")),
            block_size=_number(config.get("dfs.blocksize")),
            create_parent=False,
            permission=_FILE_MODE if mode is None else mode,
        )
        begun = client.begin(lambda writing: writing.create(path, options), shown)
        try:
            self._writer = client.finish(begun, shown)
        except BaseException:
            self._shut()
            # Interrupted when the file was made already. Any other that stands there is somebody else's.
            if begun.done() and not begun.cancelled() and begun.exception() is None:
                self._abandon()
            raise

    def __del__(self) -> None:
        # At the end of the interpreter there are no threads any more that could remove it.
        if not sys.is_finalizing():
            super().__del__()

    def _send(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        self._wait(self._client.begin(lambda _: self._writer.write(data), self._shown))

    def _finish(self) -> None:
        if self._buffer:
            self._send()
        self._complete()

    def _abandon(self) -> None:
        with suppress(StorageError):
            self._client.ask(lambda client: client.delete(self._path, False), self._shown, changes=True)

    def _wait(self, begun: Future[Any]) -> None:
        try:
            self._client.finish(begun, self._shown)
        except UnreachableError as error:
            raise _of_datanodes(self._client, self._path, self._shown, error, "takes") from error

    def _complete(self) -> None:
        """Close the file, without the half second that hdfs-native sleeps.

        A file can be completed when the DataNodes have reported its last block, a few ms after they took it;
        hdfs-native asks the NameNode for that at once and then every 500 ms. The NameNode counts the length of the last
        block when it is reported *and* hdfs-native has asked for the first time. From then on nothing is lost by asking
        again, so the sleep is cancelled and the file closed once more.
        """
        closing = self._client.begin(lambda _: self._writer.close(), self._shown)
        until = time.monotonic() + self._client.place.timeout
        pause = _FIRST_LOOK
        while self._written and time.monotonic() < until:
            wait([closing], pause)
            if closing.done():
                break
            if self._is_complete():
                closing.cancel()
                self._close_again()
                return
            pause *= _SLOWER
        self._wait(closing)

    def _close_again(self) -> None:
        try:
            self._wait(self._client.begin(lambda _: self._writer.close(), self._shown))
        except StorageError as error:
            # The first request was carried out after all, and its answer was on the way.
            if "is not open for writing" not in error.message or not self._is_complete():
                raise

    def _is_complete(self) -> bool:
        """Whether the NameNode knows all blocks of this file, which is still open."""
        try:
            return len(self._client.ask(lambda client: client.read(self._path), self._shown)) == self._written
        except StorageError:
            return False


def _of_datanodes(client: HdfsClient, path: str, shown: str, error: UnreachableError, verb: str) -> StorageError:
    """What it means that data could not be read or written; raised is what there is to say of the NameNode or the data.

    hdfs-native does not tell whose connection failed. Without the file, its DataNodes have nothing to give.
    """
    client.ask(lambda asked: asked.get_file_info(path), shown)
    if "ChecksumError" in str(error.__cause__):
        raise error
    return hadoopfault.no_datanode(shown, f"{verb} a block of it")


def _page(entries: Any, path: str) -> list[Found]:
    """As many entries of a listing as a NameNode sends at once."""
    return [
        Found(entry.path.rpartition("/")[2], entry.isdir, entry.length, entry.modification_time / 1000)
        if entry.path != path
        else _ITSELF
        for entry in islice(entries, _PAGE)
    ]


def _number(value: str | None) -> int | None:
    """A plain number of the configuration; those with a unit are left to the server."""
    return int(value) if value is not None and value.isdecimal() else None
