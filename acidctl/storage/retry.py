"""Retries with growing pauses, for what is transient and only reads.

Changes are not made again here: where an answer got lost, the change may have been made. Callers that can
look for it do both, see `maintenance.work_dir.until_done`.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from acidctl.errors import StorageError
from acidctl.storage.port import Facts, RandomAccessFile, Storage

Answer = TypeVar("Answer")


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


class RetryPolicy(NamedTuple):
    """How often something is tried, and how long the pauses are.

    The pause after try number n is at most `first` x `factor`^(n-1) seconds, and by chance down to half of it, so that
    many who wait for one server do not all come back at once.
    """

    attempts: int = 4
    first: float = 0.2
    factor: float = 3.0
    sleep: Callable[[float], None] = _sleep
    jitter: Callable[[], float] = random.random

    def pause(self, tried: int) -> None:
        """Wait after so many tries."""
        self.sleep(self.first * self.factor ** (tried - 1) * (0.5 + self.jitter() / 2))

    def run(self, action: Callable[[], Answer], *, before_again: Callable[[], None] = lambda: None) -> Answer:
        """What `action` answers; after a transient StorageError it is run again, `before_again` first.

        The error of the last try is raised, with the number of tries in its `attempts`; whoever gets such an error does
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


DEFAULT_RETRY = RetryPolicy()
# What can be done twice: it reads, or changes nothing the second time. Everything else goes straight to the storage.
_REPEATED = ("stat", "walk", "inherit", "hosts")


def retrying(storage: Storage, policy: RetryPolicy = DEFAULT_RETRY) -> Storage:
    """A storage whose reading verbs are tried again: facts, stat, walk, open, inherit, hosts, and reads of open files.

    Once that has failed, everything is tried a single time until something works: a table has thousands of places to
    ask for in turn, and a server that is gone is gone for all of them.
    """
    return cast(Storage, Retrying(storage, policy))


class Retrying:
    """See `retrying`. A walk that the storage has repeated itself, directory by directory, is not begun anew."""

    def __init__(self, inner: Storage, policy: RetryPolicy) -> None:
        self.inner = inner
        self._policy = policy
        self._given_up = False

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.inner, name)
        return (lambda *given: self._run(lambda: verb(*given))) if name in _REPEATED else verb

    @property
    def facts(self) -> Facts:
        return self._run(lambda: self.inner.facts)

    def open(self, path: str) -> BinaryIO:
        """A read that fails goes on where it was, in a file that is opened anew."""
        return cast(BinaryIO, _RetryingFile(lambda: self.inner.open(path), self._run))

    def _run(self, action: Callable[[], Answer], before_again: Callable[[], None] = lambda: None) -> Answer:
        policy = self._policy._replace(attempts=1) if self._given_up else self._policy
        try:
            answer = policy.run(action, before_again=before_again)
        except StorageError as error:
            if error.transient:
                self._given_up = True
                error.attempts = max(error.attempts, self._policy.attempts)
            raise
        self._given_up = False
        return answer


class _RetryingFile(RandomAccessFile):
    """An open file whose reads are tried again at their position, each time in the file opened anew."""

    def __init__(self, open_it: Callable[[], BinaryIO], run: Callable[..., Any]) -> None:
        self._open = open_it
        self._run = run
        self._file: Any = run(open_it)
        self._at = 0
        if hasattr(self._file, "prefetch"):
            self.prefetch = lambda ranges: self._file.prefetch(ranges)

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset, whence = offset + self._at, os.SEEK_SET
        self._at = self._again(lambda: self._file.seek(offset, whence))
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        data: bytes = self._again(lambda: self._file.read(-1 if size is None else size))
        self._at += len(data)
        return data

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close()

    def _again(self, action: Callable[[], Answer]) -> Answer:
        if self.closed:
            raise ValueError("the file is closed")
        return cast(Answer, self._run(action, self._reopen))

    def _reopen(self) -> None:
        with suppress(StorageError):
            self._file.close()
        self._file = self._open()
        self._file.seek(self._at)
