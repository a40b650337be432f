"""Asking a storage again: bounded, with growing pauses, and only for what is transient and reads.

Changes are not made again here: where an answer got lost, nobody can tell by it whether the change was made. Those who
know how to look do both, see `maintenance.work_dir.surely`.
"""

from __future__ import annotations

import io
import os
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, BinaryIO, TypeVar, cast

from acidctl.errors import StorageError
from acidctl.storage.port import Descend, Facts, PathStat, Storage, Swapping, Walk

Answer = TypeVar("Answer")


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often something is tried, and how long in between.

    The pause after try number n is at most `first` x `factor`^(n-1) seconds, and by chance down to half of it, so that
    many who wait for one server do not all come back at once.
    """

    attempts: int = 4
    first: float = 0.2
    factor: float = 3.0
    sleep: Callable[[float], None] = _sleep
    chance: Callable[[], float] = random.random

    def pause(self, tried: int) -> None:
        """Wait after so many tries."""
        self.sleep(self.first * self.factor ** (tried - 1) * (0.5 + self.chance() / 2))

    def ask(self, action: Callable[[], Answer], *, before_again: Callable[[], None] = lambda: None) -> Answer:
        """What `action` answers; after a transient StorageError it is asked again, `before_again` first.

        The error of the last try is raised, with `attempts` telling how often it was tried; who gets such an error does
        not try again.
        """
        for tried in range(1, self.attempts + 1):
            try:
                if tried > 1:
                    before_again()
                return action()
            except StorageError as error:
                if not error.transient or error.attempts > 1:
                    raise
                if tried == self.attempts:
                    error.attempts = tried
                    raise
            self.pause(tried)
        raise AssertionError("the last try answers or raises")


PATIENT = Patience()


class Retrying:
    """Another storage, whose reading verbs are tried again: facts, stat, walk, open, hosts, and reads of open files.

    Once that was in vain, everything is tried a single time until something works: a table has thousands of places to
    ask for in turn, and a server that is gone is gone for all of them.
    """

    def __init__(self, inner: Storage, patience: Patience = PATIENT) -> None:
        self.inner = inner
        self._patience = patience
        self._hopeless = False

    def ask(self, action: Callable[[], Answer], before_again: Callable[[], None] = lambda: None) -> Answer:
        """See `Patience.ask`."""
        patience = replace(self._patience, attempts=1) if self._hopeless else self._patience
        try:
            answer = patience.ask(action, before_again=before_again)
        except StorageError as error:
            if error.transient:
                self._hopeless = True
                error.attempts = max(error.attempts, self._patience.attempts)
            raise
        self._hopeless = False
        return answer

    @property
    def facts(self) -> Facts:
        """Those of the storage."""
        return self.ask(lambda: self.inner.facts)

    def display(self, path: str) -> str:
        """As the storage shows it."""
        return self.inner.display(path)

    def stat(self, path: str) -> PathStat | None:
        """Tried again."""
        return self.ask(lambda: self.inner.stat(path))

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """Begun anew, unless the storage has asked again itself, directory by directory (see `treewalk`)."""
        return self.ask(lambda: self.inner.walk(root, descend))

    def open(self, path: str) -> BinaryIO:
        """Tried again; a read that fails goes on where it was, in a file that is opened anew."""
        open_it = partial(self.inner.open, path)
        file = self.ask(open_it)
        kind = _PatientFetchingFile if hasattr(file, "prefetch") else _PatientFile
        return cast(BinaryIO, kind(file, open_it, self.ask))

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """Once."""
        return self.inner.create(path, like)

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """Once."""
        self.inner.create_exclusive(path, data, like)

    def mkdir(self, path: str, like: str | None = None) -> None:
        """Once."""
        self.inner.mkdir(path, like)

    def inherit(self, path: str, like: str) -> None:
        """Tried again: doing it twice changes nothing."""
        self.ask(lambda: self.inner.inherit(path, like))

    def rename_dir(self, source: str, target: str) -> None:
        """Once."""
        self.inner.rename_dir(source, target)

    def remove_tree(self, path: str) -> None:
        """Once."""
        self.inner.remove_tree(path)

    def remove_file(self, path: str) -> None:
        """Once."""
        self.inner.remove_file(path)

    def move(self, source: str, target: str) -> None:
        """Once."""
        self.inner.move(source, target)

    def copy_file(self, source: str, target: str) -> None:
        """Once."""
        self.inner.copy_file(source, target)

    def discard(self, path: str) -> None:
        """Once."""
        self.inner.discard(path)

    def swap(self, path: str, old: bytes, new: bytes) -> bool:
        """Once."""
        return cast(Swapping, self.inner).swap(path, old, new)

    def hosts(self, path: str) -> tuple[str, ...]:
        """Tried again."""
        return self.ask(lambda: self.inner.hosts(path))


class _PatientFile(io.RawIOBase):
    """An open file whose reads are tried again at their position, each time in the file opened anew."""

    def __init__(self, file: BinaryIO, open_it: Callable[[], BinaryIO], ask: Callable[..., Any]) -> None:
        self._file = file
        self._open = open_it
        self._ask = ask
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset, whence = offset + self._at, os.SEEK_SET
        self._at = self._again(lambda: self._file.seek(offset, whence))
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        data = self._again(lambda: self._file.read(-1 if size is None else size))
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()

    def _again(self, action: Callable[[], Answer]) -> Answer:
        if self.closed:
            raise ValueError("the file is closed")
        return cast(Answer, self._ask(action, self._reopen))

    def _reopen(self) -> None:
        with suppress(StorageError):
            self._file.close()
        self._file = self._open()
        self._file.seek(self._at)


class _PatientFetchingFile(_PatientFile):
    """The same of a file that fetches what is announced."""

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        cast(Any, self._file).prefetch(ranges)
