"""A storage on which one call goes wrong, and the harness that lets each call go wrong in turn."""

from __future__ import annotations

import gc
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from io import IOBase, RawIOBase
from typing import Any, BinaryIO, TypeVar, cast

from acidctl.errors import AcidctlError, StorageError, ThrottledError, UnreachableError
from acidctl.storage.port import Descend, Facts, PathStat, Storage, Walk, join

Answer = TypeVar("Answer")

KILLED = 137
_REFUSED = 1
_BROKEN = 99


class Fault(Enum):
    """What happens at the chosen call.

    REFUSED: it fails and nothing is done. LOST: it is done, and fails all the same. KILLED: the process ends before it.
    HALFWAY: a write or a removal is done in part, then the process ends; any other call is as with KILLED.

    The others are of a network, and say that asking again may help. SILENT: no answer, and nothing is done; of a read
    half has come. UNHEARD: it is done, and the answer gets lost. BUSY: this call and the next are put off. GONE: from
    this call on there is no answer.
    """

    REFUSED = "refused"
    LOST = "lost"
    KILLED = "killed"
    HALFWAY = "halfway"
    SILENT = "silent"
    UNHEARD = "unheard"
    BUSY = "busy"
    GONE = "gone"

    def strikes(self, at: int, number: int) -> bool:
        """Whether call `number` is one of those that go wrong, the first of which is `at`."""
        if self is Fault.GONE:
            return 0 < at <= number
        return number == at or (self is Fault.BUSY and number == at + 1 > 1)


class FaultyStorage:
    """Another storage, with a fault at its `at`-th call (from 1); `calls` counts, `hit` tells whether it came to that.

    Asking for facts or a name to print is no call. Writing to a file that `create` made and closing it are calls; with
    `reads` so is reading from one that `open` opened.
    """

    def __init__(self, inner: Storage, at: int = 0, fault: Fault = Fault.REFUSED, *, reads: bool = False) -> None:
        self._inner = inner
        self._at = at
        self._fault = fault
        self._reads = reads
        self._counting = threading.Lock()
        self.calls = 0
        self.names: list[str] = []

    @property
    def hit(self) -> bool:
        """Whether the fault has happened."""
        return 0 < self._at <= self.calls

    @property
    def facts(self) -> Facts:
        return self._inner.facts

    def display(self, path: str) -> str:
        return self._inner.display(path)

    def stat(self, path: str) -> PathStat | None:
        return self.call("stat", path, lambda: self._inner.stat(path))

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        return self.call("walk", root, lambda: self._inner.walk(root, descend))

    def open(self, path: str) -> BinaryIO:
        stream = self.call("open", path, lambda: self._inner.open(path))
        return cast(BinaryIO, _FaultyReader(self, path, stream)) if self._reads else stream

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        stream = self.call("create", path, lambda: self._inner.create(path, like))
        return cast(BinaryIO, _FaultyFile(self, path, stream))

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        def half() -> None:
            self._inner.create_exclusive(path, data[: len(data) // 2], like)

        self.call("create_exclusive", path, lambda: self._inner.create_exclusive(path, data, like), half)

    def mkdir(self, path: str, like: str | None = None) -> None:
        self.call("mkdir", path, lambda: self._inner.mkdir(path, like))

    def inherit(self, path: str, like: str) -> None:
        self.call("inherit", path, lambda: self._inner.inherit(path, like))

    def rename_dir(self, source: str, target: str) -> None:
        self.call("rename_dir", source, lambda: self._inner.rename_dir(source, target))

    def remove_tree(self, path: str) -> None:
        def half() -> None:
            files = self._inner.walk(path).files
            for info in files[: (len(files) + 1) // 2]:
                self._inner.remove_file(join(path, info.path))

        self.call("remove_tree", path, lambda: self._inner.remove_tree(path), half)

    def remove_file(self, path: str) -> None:
        self.call("remove_file", path, lambda: self._inner.remove_file(path))

    def remove_files(self, paths: Sequence[str]) -> None:
        def half() -> None:
            self._inner.remove_files(paths[: (len(paths) + 1) // 2])

        self.call("remove_files", paths[0] if paths else "", lambda: self._inner.remove_files(paths), half)

    def rmdir(self, path: str) -> None:
        self.call("rmdir", path, lambda: self._inner.rmdir(path))

    def move(self, source: str, target: str) -> None:
        self.call("move", source, lambda: self._inner.move(source, target))

    def exchange(self, first: str, second: str) -> bool:
        return self.call("exchange", first, lambda: self._inner.exchange(first, second))

    def copy_file(self, source: str, target: str) -> None:
        self.call("copy_file", source, lambda: self._inner.copy_file(source, target))

    def swap(self, path: str, old: bytes, new: bytes) -> bool:
        return self.call("swap", path, lambda: self._inner.swap(path, old, new))

    def discard(self, path: str) -> None:
        self.call("discard", path, lambda: self._inner.discard(path))

    def hosts(self, path: str) -> tuple[str, ...]:
        return self._inner.hosts(path)

    def call(
        self, name: str, path: str, action: Callable[[], Answer], half: Callable[[], None] = lambda: None
    ) -> Answer:
        """Count a call and do it, unless it is the one."""
        with self._counting:
            self.calls += 1
            number = self.calls
            self.names.append(f"{name} {path}")
        fault = self._fault
        if not fault.strikes(self._at, number):
            return action()
        if fault is Fault.HALFWAY or (fault is Fault.SILENT and name == "read"):
            with suppress(StorageError):
                half()
        if fault in (Fault.KILLED, Fault.HALFWAY):
            os._exit(KILLED)
        if fault in (Fault.LOST, Fault.UNHEARD):
            done = action()
            if isinstance(done, IOBase):
                done.close()
        kind = {Fault.REFUSED: StorageError, Fault.LOST: StorageError, Fault.BUSY: ThrottledError}
        raise kind.get(fault, UnreachableError)(f"{path} cannot be used: the fault of call {number}, {name}", path=path)


class _FaultyReader(RawIOBase):
    """An open file in which every read is a call."""

    def __init__(self, storage: FaultyStorage, path: str, stream: BinaryIO) -> None:
        self._storage = storage
        self._path = path
        self._stream = stream
        if hasattr(stream, "prefetch"):
            self.prefetch = stream.prefetch

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._stream.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        wanted = -1 if size is None else size

        def half() -> None:
            self._stream.read(wanted // 2 if wanted > 0 else 1)

        return self._storage.call("read", self._path, lambda: self._stream.read(wanted), half)

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
            self._stream.close()


class _FaultyFile:
    """A new file whose writes and whose end are calls."""

    def __init__(self, storage: FaultyStorage, path: str, stream: BinaryIO) -> None:
        self._storage = storage
        self._path = path
        self._stream = stream

    def write(self, data: bytes) -> int:
        def half() -> None:
            self._stream.write(data[: len(data) // 2])
            self._stream.flush()

        return self._storage.call("write", self._path, lambda: self._stream.write(data), half)

    def close(self) -> None:
        if not self._stream.closed:
            self._storage.call("close", self._path, self._stream.close)

    def __enter__(self) -> _FaultyFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is None:
            try:
                self.close()
            except BaseException as error:
                self._stream.__exit__(type(error), error, error.__traceback__)
                raise
        else:
            self._stream.__exit__(kind, *rest)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@dataclass(frozen=True, slots=True)
class Hit:
    """One run: the call that went wrong, what kind of call it was, and the error that came of it, if any."""

    at: int
    call: str
    error: AcidctlError | None


def sweep(
    prepare: Callable[[], Storage],
    run: Callable[[FaultyStorage], object],
    fault: Fault,
    *,
    every: int = 1,
    first: int = 1,
) -> Iterator[Hit]:
    """Let each call of a run go wrong in turn: prepare, run, yield; ends with the first run that meets no fault.

    `run` is given a FaultyStorage around what `prepare` made. Faults that end the process run in a child. `every` and
    `first` thin the calls out. What `run` raises besides an AcidctlError is raised here.
    """
    at = first
    while (hit := broken_run(prepare(), run, fault, at)) is not None:
        yield hit
        at += every


def broken_run(inner: Storage, run: Callable[[FaultyStorage], object], fault: Fault, at: int) -> Hit | None:
    """One run on a storage whose `at`-th call goes wrong; None when it ended before, and then it must have worked."""
    storage = FaultyStorage(inner, at, fault)
    if fault in (Fault.KILLED, Fault.HALFWAY):
        return Hit(at, "", None) if in_child(lambda: run(storage)) == KILLED else None
    error: AcidctlError | None = None
    try:
        run(storage)
    except AcidctlError as raised:
        error = raised
    if storage.hit:
        return Hit(at, storage.names[at - 1], error)
    assert error is None, error
    return None


def in_child(action: Callable[[], object]) -> int:
    """Run something in a child process and give its exit code: 0, 1 after an AcidctlError, or what it exited with.

    The child is forked, so it begins with everything that this process has loaded; it must not start threads of Arrow.
    """
    with warnings.catch_warnings():
        # Python 3.12 warns of forks beside threads; the child holds no lock of theirs and ends by `_exit`.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = _BROKEN
        # What other tests have left is not freed here: some clients wait for threads then, which the child lacks.
        gc.freeze()
        try:
            action()
            code = 0
        except AcidctlError:
            code = _REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code != _BROKEN, "the child broke; its traceback is on stderr"
    return code
