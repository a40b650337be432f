"""A storage on which one call goes wrong, and the harness that lets each call go wrong in turn."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from io import IOBase
from typing import Any, BinaryIO, TypeVar, cast

from acidctl.errors import AcidctlError, StorageError
from acidctl.storage.port import Descend, Facts, PathStat, Storage, Walk, join

Answer = TypeVar("Answer")

KILLED = 137
_REFUSED = 1
_BROKEN = 99


class Fault(Enum):
    """What happens at the chosen call.

    REFUSED: it fails and nothing is done. LOST: it is done, and fails all the same. KILLED: the process ends before it.
    HALFWAY: a write or a removal is done in part, then the process ends; any other call is as with KILLED.
    """

    REFUSED = "refused"
    LOST = "lost"
    KILLED = "killed"
    HALFWAY = "halfway"


class FaultyStorage:
    """Another storage, with a fault at its `at`-th call (from 1); `calls` counts, `hit` tells whether it came to that.

    Asking for facts or a name to print is no call. Writing to a file that `create` made and closing it are calls.
    """

    def __init__(self, inner: Storage, at: int = 0, fault: Fault = Fault.REFUSED) -> None:
        self._inner = inner
        self._at = at
        self._fault = fault
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
        return self.call("open", path, lambda: self._inner.open(path))

    def create(self, path: str) -> BinaryIO:
        stream = self.call("create", path, lambda: self._inner.create(path))
        return cast(BinaryIO, _FaultyFile(self, path, stream))

    def create_exclusive(self, path: str, data: bytes) -> None:
        def half() -> None:
            self._inner.create_exclusive(path, data[: len(data) // 2])

        self.call("create_exclusive", path, lambda: self._inner.create_exclusive(path, data), half)

    def mkdir(self, path: str) -> None:
        self.call("mkdir", path, lambda: self._inner.mkdir(path))

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

    def move(self, source: str, target: str) -> None:
        self.call("move", source, lambda: self._inner.move(source, target))

    def copy_file(self, source: str, target: str) -> None:
        self.call("copy_file", source, lambda: self._inner.copy_file(source, target))

    def discard(self, path: str) -> None:
        self.call("discard", path, lambda: self._inner.discard(path))

    def hosts(self, path: str) -> tuple[str, ...]:
        return self._inner.hosts(path)

    def call(
        self, name: str, path: str, action: Callable[[], Answer], half: Callable[[], None] = lambda: None
    ) -> Answer:
        """Count a call and do it, unless it is the one."""
        self.calls += 1
        self.names.append(f"{name} {path}")
        if self.calls != self._at:
            return action()
        if self._fault is Fault.HALFWAY:
            with suppress(StorageError):
                half()
        if self._fault in (Fault.KILLED, Fault.HALFWAY):
            os._exit(KILLED)
        if self._fault is Fault.LOST:
            done = action()
            if isinstance(done, IOBase):
                done.close()
        raise StorageError(f"{path} cannot be used: the fault of call {self.calls}, {name}", path=path)


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
    run: Callable[[Storage], object],
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


def broken_run(inner: Storage, run: Callable[[Storage], object], fault: Fault, at: int) -> Hit | None:
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
