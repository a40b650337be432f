"""An object store over a local folder, so that it outlives a process that is killed in the middle.

It shows what such stores show: objects one by one, directories only while something is below, copies that can stop
between any two objects. Faults strike each request, not each verb of the port.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from acidctl.errors import ExistsError, NoSuchTableError, StorageError
from acidctl.storage.objects import Item, ObjectStorage
from acidctl.storage.port import NewFile, Storage
from acidctl.storage.remote import DirectoryEntry
from acidctl.storage.s3 import FACTS
from tests.support.faulty import Answer, FaultyStorage
from tests.support.memory import MemoryStorage


class FolderObjects:
    """Objects are files, their names are absolute paths; `faults` counts and breaks requests."""

    def __init__(self, faults: FaultyStorage | None = None) -> None:
        self._faults = faults or FaultyStorage(MemoryStorage())

    def url(self, path: str) -> str:
        return path

    def head(self, path: str) -> Item | None:
        return self._ask("head", path, lambda: _item(path) if os.path.isfile(path) else None)

    def below(self, path: str) -> Iterator[Item]:
        return iter(self._ask("list", path, lambda: [_item(name) for name in _names(path)]))

    def entries(self, path: str) -> Iterable[DirectoryEntry]:
        def entries() -> list[DirectoryEntry]:
            tops: dict[str, DirectoryEntry] = {}
            for name in _names(path):
                top, slash, _ = name[len(path) + 1 :].partition("/")
                item = _item(name)
                tops[top] = DirectoryEntry(top, True) if slash else DirectoryEntry(top, False, item.size, item.modified)
            if not tops:
                raise NoSuchTableError(f"{path} does not exist", path=path)
            return list(tops.values())

        return self._ask("list", path, entries)

    def any_below(self, path: str) -> bool:
        return self._ask("any", path, lambda: bool(_names(path)))

    def read(self, item: Item, offset: int, length: int) -> bytes:
        def read() -> bytes:
            with open(item.path, "rb") as stream:
                stream.seek(offset)
                return stream.read(length)

        return self._ask("get", item.path, read)

    def put(self, path: str, data: bytes) -> None:
        self._ask("put", path, lambda: _put(path, data))

    def create(self, path: str) -> NewFile:
        return _NewObject(self, path)

    def copy(self, source: Item, target: str) -> None:
        def copy() -> None:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(source.path, target)
            except FileExistsError as error:
                raise ExistsError(f"{target} exists already", path=target) from error
            except FileNotFoundError as error:
                raise StorageError(f"{source.path} is not there any more", path=source.path) from error

        self._ask("copy", target, copy)

    def delete(self, paths: Sequence[str]) -> None:
        self._ask("delete", paths[0], lambda: _delete(paths), lambda: _delete(paths[: (len(paths) + 1) // 2]))

    def forget(self, path: str) -> None:
        """No upload is left behind here."""

    def swap(self, path: str, old: bytes, new: bytes) -> bool:
        def swap() -> bool:
            try:
                if Path(path).read_bytes() != old:
                    return False
            except FileNotFoundError:
                return False
            os.replace(_aside(new), path)
            return True

        return self._ask("swap", path, swap)

    def _ask(
        self, name: str, path: str, action: Callable[[], Answer], half: Callable[[], None] = lambda: None
    ) -> Answer:
        return self._faults.call(name, path, action, half)


class _NewObject(NewFile):
    def __init__(self, objects: FolderObjects, path: str) -> None:
        super().__init__(1 << 40)
        self._objects = objects
        self._path = path

    def _send(self) -> None:
        """All goes at once in the end."""

    def _finish(self) -> None:
        self._objects.put(self._path, bytes(self._buffer))

    def _abandon(self, failure: BaseException | None = None) -> None:
        """Nothing was sent."""


def object_store(faults: FaultyStorage | None = None) -> Storage:
    """The store, with its own rules and with faults at requests."""
    return ObjectStorage(FolderObjects(faults), FACTS)


def _put(path: str, data: bytes) -> None:
    """Whole or not at all, as a request is."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    aside = _aside(data)
    try:
        os.link(aside, path)
    except FileExistsError as error:
        raise ExistsError(f"{path} exists already", path=path) from error
    finally:
        os.unlink(aside)


def _aside(data: bytes) -> str:
    descriptor, name = tempfile.mkstemp(prefix="acidctl-object-")
    with open(descriptor, "wb") as stream:
        stream.write(data)
    return name


def _delete(paths: Sequence[str]) -> None:
    for path in paths:
        with suppress(FileNotFoundError):
            os.unlink(path)
        with suppress(OSError):
            # What is left without objects is no directory any more.
            os.removedirs(os.path.dirname(path))


def _names(path: str) -> list[str]:
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(path.rstrip("/")) for name in names)


def _item(path: str) -> Item:
    found = os.stat(path)
    return Item(path, found.st_size, found.st_mtime, f"{found.st_ino}-{found.st_mtime_ns}")
