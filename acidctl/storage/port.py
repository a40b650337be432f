"""The storage port: the few verbs that acidctl needs of a file system or an object store.

Paths are plain strings in the storage's own form, joined with `/`; bytes that are not UTF-8 travel as
surrogate escapes. No verb interprets a name: brackets, blanks, `#`, `%` and line breaks are ordinary
characters. Nothing is cached. Every failure leaves an adapter as an `AcidctlError`.
"""

from __future__ import annotations

import io
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from typing import Any, BinaryIO, NamedTuple, Protocol

from acidctl.errors import ExistsError, StorageError
from acidctl.format.listing import FileInfo
from acidctl.format.names import WORK_PREFIX
from acidctl.values import dataclass

Descend = Callable[[str], bool]
_COPY_BYTES = 4 << 20
RUN_AGAIN = "If a compaction or a cleaner runs on this table now, run the command again."


class Facts(NamedTuple):
    """What a storage can promise; those who change tables decide by these and never by the scheme.

    `atomic_rename`: `rename_dir` and `move` show the source or the target, whole, and never both or a part.
    `exclusive_create`: of two that create one name, one is refused. `empty_directories`: a directory stays when
    nothing is in it; where False, directories are prefixes of names, and `mkdir` makes nothing that lasts.
    `trash`: there is one to `discard` into.
    `conditional_replace`: it can `swap`. `knows_own`: no name is refused as taken because of the very
    write that was repeated after its answer was lost.
    """

    atomic_rename: bool
    exclusive_create: bool
    trash: bool
    empty_directories: bool = True
    conditional_replace: bool = False
    knows_own: bool = True


class PathStat(NamedTuple):
    """What stands at a path; `modified` is in seconds since 1970, UTC, `owner` None where there are none."""

    is_directory: bool
    size: int
    modified: float | None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Walk:
    """Everything below a root: paths relative to it, each tuple in ascending order; `links` and `special` as in
    `listing.Listing`.
    """

    files: tuple[FileInfo, ...]
    directories: tuple[str, ...]
    links: Mapping[str, str] = field(default_factory=dict)
    special: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[FileInfo], directories: Iterable[str], **facts: Mapping[str, str]) -> Walk:
        """What was found in any order."""
        return cls(tuple(sorted(files, key=attrgetter("path"))), tuple(sorted(directories)), **facts)


class Storage(Protocol):
    """What an adapter provides; the verbs that change something refuse unless it has its own.

    Where a storage has symbolic links, no verb but `stat`, `walk` and `open` of a table's data leads through one below
    the table: everything else is a `StorageError` then.
    """

    @property
    def facts(self) -> Facts:
        """What this storage can promise."""

    def display(self, path: str) -> str:
        """The path as a user would type it, without secrets."""

    def stat(self, path: str) -> PathStat | None:
        """What stands at the path; None when nothing does."""

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """List everything below a directory, in one pass.

        `descend` is asked with each directory's relative path; what it refuses is neither listed nor entered.
        A directory that vanishes during the walk counts as never seen; one that cannot be read is a
        `StorageError`, because a listing with holes would make a wrong answer look right. A root that does
        not exist is a `NoSuchTableError`.
        """

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading; the result can seek, and reads only the ranges asked for."""

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """Open a new file for writing from its beginning to its end; `StorageError` when the path exists.

        With `like` it has owner and mode of that file or directory from its first byte on, see `inherit`.

        The parent has to exist. The result cannot seek. The file is complete and durable when `close` has returned
        or its `with` block has ended; a block that ends by an exception leaves no file.
        """
        raise _read_only(self, path)

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """Write a new file, durable on return; `StorageError` when the path exists, and then nothing is changed."""
        with self.create(path, like) as stream:
            stream.write(data)

    def mkdir(self, path: str, like: str | None = None) -> None:
        """Make a directory whose parent exists; `StorageError` when the path exists.

        `like` as for `create`; its owner may write in it in any case.
        """
        raise _read_only(self, path)

    def inherit(self, path: str, like: str) -> None:
        """Give a file or directory the owner, group and mode of another, as far as this user may.

        A file takes no execution bits from a directory. Does nothing where files have neither.
        """
        raise _read_only(self, path)

    def rename_dir(self, source: str, target: str) -> None:
        """Rename a directory, never into nor onto anything that exists; durable on return."""
        stat = self.stat(source)
        if stat is not None and not stat.is_directory:
            raise not_a_directory(self.display(source))
        self.move(source, target)

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all below it; symbolic links are removed, not followed."""
        raise _read_only(self, path)

    def remove_file(self, path: str) -> None:
        """Remove one file (or symbolic link); `StorageError` for directories and for what does not exist."""
        raise _read_only(self, path)

    def remove_files(self, paths: Sequence[str]) -> None:
        """Remove files, see `remove_file`; in an order of the storage's choice, at once where it can."""
        for path in paths:
            self.remove_file(path)

    def rmdir(self, path: str) -> None:
        """Remove a directory in which there is nothing; `StorageError` where there is something.

        Where directories are prefixes of names, what marks an empty one goes.
        """
        raise _read_only(self, path)

    def move(self, source: str, target: str) -> None:
        """Move a file or directory to a path that does not exist (quarantine and back); durable on return."""
        raise _read_only(self, source)

    def exchange(self, first: str, second: str) -> bool:
        """Give each of two files or directories the other's name in one step; False, and nothing is changed, where that
        is not offered.
        """
        return False

    def copy_file(self, source: str, target: str) -> None:
        """Copy a file to a path that does not exist, by the server where it can; StorageError when it exists."""
        with self.open(source) as stream, self.create(target) as copy:
            shutil.copyfileobj(stream, copy, _COPY_BYTES)

    def discard(self, path: str) -> None:
        """Move a file or directory into the trash of this user.

        StorageError where `facts.trash` is False, and for what does not exist.
        """
        shown = self.display(path)
        hint = "Add --skip-trash."
        raise StorageError(f"{shown} cannot be moved to a trash: this storage has none", path=shown, hint=hint)

    def swap(self, path: str, old: bytes, new: bytes) -> bool:
        """Replace the content of a small file in one step if it is still the old one; False when it is not.

        Only where `facts.conditional_replace`.
        """
        raise _read_only(self, path)

    def hosts(self, path: str) -> tuple[str, ...]:
        """The machines that hold the most of a file, the best first; empty where that is unknown."""
        return ()


def _read_only(storage: Storage, path: str) -> StorageError:
    shown = storage.display(path)
    return StorageError(f"{shown} cannot be changed: acidctl only reads from this kind of storage", path=shown)


def already_exists(shown: str) -> ExistsError:
    """The error for a path where something is to be made."""
    return ExistsError(f"{shown} exists already", path=shown)


def gone(shown: str) -> StorageError:
    """The error for a path that was listed, or named, and does not exist."""
    return StorageError(f"{shown} is not there any more", path=shown, hint=RUN_AGAIN)


def not_a_directory(shown: str) -> StorageError:
    """The error for a file in the place of a directory."""
    return StorageError(f"{shown} is not a directory", path=shown)


def replaced(shown: str) -> StorageError:
    """The error for a file whose size or version changed since it was opened."""
    hint = "If something writes to this table now, run the command again."
    return StorageError(f"{shown} was replaced while it was read", path=shown, hint=hint)


def join(root: str, relative: str) -> str:
    """The path of something below `root`; an empty `relative` is the root itself."""
    if not relative:
        return root
    return f"{root}{relative}" if root.endswith("/") else f"{root}/{relative}"


def may_be_closed(relative: str) -> bool:
    """Whether a directory need not be readable: other users' staging folders often are not, and hold no data.

    A work directory of acidctl is none of them: its journal decides what counts.
    """
    parts = relative.split("/")
    return any(part.startswith(("_", ".")) for part in parts) and not any(
        part.startswith(WORK_PREFIX) for part in parts
    )


class RandomAccessFile(io.RawIOBase):
    """A file that can be read at any position, all by its `read`, which gives all bytes asked for."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readall(self) -> bytes:
        return self.read() or b""

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view)) or b""
        view[: len(data)] = data
        return len(data)


class NewFile(io.RawIOBase, ABC):
    """A file that is being written from its beginning to its end, collected in memory and written in parts.

    It is whole and durable when `close` has returned or its `with` block has ended; where closing fails, the block ends
    by an exception or it is never closed, there is none. Of the hooks, `_send` and `_finish` raise StorageError.
    """

    def __init__(self, part_bytes: int) -> None:
        super().__init__()
        self._part_bytes = part_bytes
        self._buffer = bytearray()
        self._written = 0

    @abstractmethod
    def _send(self) -> None:
        """Take what can be sent out of the buffer, which holds `part_bytes` or more."""

    @abstractmethod
    def _finish(self) -> None:
        """Send the rest and make the file."""

    @abstractmethod
    def _abandon(self, failure: BaseException | None = None) -> None:
        """Leave nothing of a file that was not finished, because `_finish` has failed or was not called."""

    def _shut(self) -> None:
        """Take no more data, and do nothing else."""
        super().close()

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        """New files are written from the beginning to the end."""
        return False

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        """Takes all of it; a refusal of the storage may show some parts later, or on closing."""
        if self.closed:
            raise ValueError("write to a closed file")
        view = memoryview(data).cast("B")
        self._buffer += view
        self._written += len(view)
        if len(self._buffer) >= self._part_bytes:
            self._send()
        return len(view)

    def take(self, source: object, start: int, length: int) -> bool:
        """Append a range of an open file without its bytes passing through this process; False where that cannot be."""
        return False

    def close(self) -> None:
        """The file is whole and durable when this returns; where it fails there is none."""
        if self.closed:
            return
        try:
            self._shut()
            self._finish()
        except BaseException as failure:
            self._abandon(failure)
            raise

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self._leave()

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if not self.closed:
            self._buffer.clear()
            self._shut()
            self._abandon()
