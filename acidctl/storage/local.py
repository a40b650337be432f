"""The local file system, through `os.scandir`: names are taken as they are, and nothing is ever globbed."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat as stat_bits
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from acidctl.errors import (
    AcidctlError,
    DeniedError,
    ExistsError,
    NoSuchTableError,
    QuotaError,
    SafeModeError,
    StorageError,
)
from acidctl.listing import FileInfo
from acidctl.storage.port import Descend, Facts, PathStat, Storage, Walk, may_be_closed
from acidctl.storage.rename import rename_new

_FACTS = Facts(atomic_rename=True, exclusive_create=True, mtimes=True, owner_and_mode=True, trash=False)
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What the system refuses by an error number: the kind of error, and what to do for who reads and who writes."""

    kind: type[StorageError] = StorageError
    reading: str | None = None
    writing: str | None = None


_DENIED = _Meaning(
    DeniedError,
    "Run as a user that may read the table, for example the owner of the warehouse.",
    "Run as a user that may write to the table, for example the owner of the warehouse.",
)
_FULL = "Free space on this file system and run the command again; the table is as it was."
_OVER_QUOTA = "Raise the quota or free space, and run the command again; the table is as it was."
_READ_ONLY = "The file system is mounted read-only; mount it for writing, or work on a copy of the table."
_ELSEWHERE = "Source and target have to lie on one file system, because a copy could be seen half done."
_MEANINGS = {
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: _Meaning(SafeModeError, writing=_READ_ONLY),
    errno.ENOSPC: _Meaning(QuotaError, writing=_FULL),
    errno.EDQUOT: _Meaning(QuotaError, writing=_OVER_QUOTA),
    errno.EXDEV: _Meaning(writing=_ELSEWHERE),
}


class LocalStorage:
    """Files of this machine."""

    @property
    def facts(self) -> Facts:
        """POSIX promises."""
        return _FACTS

    def display(self, path: str) -> str:
        """Local paths are shown as given."""
        return path

    def stat(self, path: str) -> PathStat | None:
        """Links are followed: a link to a table is a table."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise _refused(path, error) from error
        return PathStat(stat_bits.S_ISDIR(found.st_mode), found.st_size, found.st_mtime)

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """One `scandir` per directory; links are followed as Hadoop's local file system follows them."""
        files: list[FileInfo] = []
        directories: list[str] = []
        pending = [("", root)]
        while pending:
            relative, path = pending.pop()
            prefix = relative + "/" if relative else ""
            try:
                with os.scandir(path) as entries:
                    for entry in entries:
                        name = prefix + entry.name
                        if not entry.is_dir():
                            info = _file_info(name, entry)
                            if info is not None:
                                files.append(info)
                        elif descend is None or descend(name):
                            if entry.is_symlink():
                                _refuse_loop(root, relative, entry.path)
                            directories.append(name)
                            pending.append((name, entry.path))
            except FileNotFoundError as error:
                if not relative:
                    raise NoSuchTableError(f"{path} does not exist", path=path) from error
                directories.remove(relative)
            except (OSError, ValueError) as error:
                if not may_be_closed(relative):
                    raise _refused(_named(error) or path, error) from error
        files.sort(key=_path_of)
        directories.sort()
        return Walk(tuple(files), tuple(directories))

    def open(self, path: str) -> BinaryIO:
        """Only regular files are opened: reading a pipe or a device would hang."""
        try:
            if not stat_bits.S_ISREG(os.stat(path).st_mode):
                raise StorageError(f"{path} is not a regular file", path=path)
            return open(path, "rb")
        except (OSError, ValueError) as error:
            raise _refused(path, error) from error

    def create(self, path: str) -> BinaryIO:
        """O_EXCL decides who wins."""
        with _writing(path):
            return _NewFile(path)

    def create_exclusive(self, path: str, data: bytes) -> None:
        """O_EXCL decides who wins; what could not be written whole is removed."""
        with self.create(path) as stream:
            stream.write(data)

    def mkdir(self, path: str) -> None:
        """Parents are not made: a missing one means that the plan is wrong."""
        with _writing(path):
            os.mkdir(path)
            _sync_parents(path)

    def inherit(self, path: str, like: str) -> None:
        """Only the superuser gives files away, and groups go to their members: what is refused stays as it is."""
        with _writing(path):
            model, found = os.stat(like), os.stat(path)
            if (model.st_uid, model.st_gid) != (found.st_uid, found.st_gid):
                _give(path, model.st_uid, model.st_gid)
            mode = stat_bits.S_IMODE(model.st_mode)
            if stat_bits.S_ISDIR(model.st_mode) and not stat_bits.S_ISDIR(found.st_mode):
                mode &= 0o666
            with suppress(PermissionError):
                os.chmod(path, mode)

    def rename_dir(self, source: str, target: str) -> None:
        """Directories only; never onto an empty one, which POSIX would replace."""
        if not os.path.isdir(source) and os.path.lexists(source):
            raise StorageError(f"{source} is not a directory", path=source)
        self.move(source, target)

    def remove_tree(self, path: str) -> None:
        """`rmtree` refuses a link at the top and does not follow those below."""
        with _writing(path):
            shutil.rmtree(path)
            _sync_parents(path)

    def remove_file(self, path: str) -> None:
        """A link is removed, not what it points to."""
        with _writing(path):
            os.unlink(path)
            _sync_parents(path)

    def move(self, source: str, target: str) -> None:
        """Within one file system only: a copy could be seen half done."""
        with _writing(source):
            try:
                rename_new(source, target)
            except FileExistsError as error:
                raise ExistsError(f"{target} exists already", path=target) from error
            _sync_parents(target, source)

    def copy_file(self, source: str, target: str) -> None:
        """Through the page cache; what could not be written whole is removed."""
        with self.open(source) as stream, self.create(target) as copy:
            shutil.copyfileobj(stream, copy, _BUFFER_BYTES)

    def discard(self, path: str) -> None:
        """Local file systems have no trash that all agree on."""
        raise StorageError(f"{path} cannot be moved to a trash: local file systems have none", path=path)

    def hosts(self, path: str) -> tuple[str, ...]:
        """Unknown: it may be mounted everywhere."""
        return ()


class _NewFile(io.BufferedWriter):
    """A file that is being written: synchronised when closed, removed when its block fails."""

    def __init__(self, path: str) -> None:
        super().__init__(io.FileIO(path, "xb"), _BUFFER_BYTES)
        self._path = path

    def seekable(self) -> bool:
        """New files are written from the beginning to the end."""
        return False

    def write(self, data: Any) -> int:
        """A full disk shows here, or when the buffer is emptied."""
        with _writing(self._path):
            return super().write(data)

    def flush(self) -> None:
        """Hand the buffer to the system."""
        with _writing(self._path):
            super().flush()

    def close(self) -> None:
        """On disk when this returns, and so is the name."""
        if self.closed:
            return
        try:
            self.flush()
            with _writing(self._path):
                os.fsync(self.fileno())
        finally:
            with _writing(self._path):
                super().close()
        with _writing(self._path):
            _sync_parents(self._path)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """An exception leaves no file, be it from the block or from closing."""
        try:
            self.close()
        except BaseException:
            self._remove()
            if kind is None:
                raise
        else:
            if kind is not None:
                self._remove()

    def _remove(self) -> None:
        with suppress(OSError):
            os.unlink(self._path)


def _path_of(info: FileInfo) -> str:
    return info.path


def _file_info(name: str, entry: os.DirEntry[str]) -> FileInfo | None:
    """None for a file that was removed since its directory was read."""
    try:
        found = entry.stat()
    except FileNotFoundError as error:
        if entry.is_symlink() and os.path.lexists(entry.path):
            raise StorageError(
                f"{entry.path} is a symbolic link whose target does not exist",
                path=entry.path,
                hint="Restore the target or remove the link; a table with missing files would be misread.",
            ) from error
        return None
    return FileInfo(name, found.st_size, found.st_mtime)


def _refuse_loop(root: str, relative: str, path: str) -> None:
    """A link to one of its own parents, also through other links, would be walked for ever."""
    target = os.path.realpath(path)
    parents = [root]
    for part in relative.split("/") if relative else ():
        parents.append(f"{parents[-1]}/{part}")
    for parent in parents:
        here = os.path.realpath(parent)
        if here == target or here.startswith(target.rstrip("/") + "/"):
            raise StorageError(f"{path} is a symbolic link to one of its own parent directories", path=path)


def _named(error: OSError | ValueError) -> str | None:
    """The path that the system complains of: an entry of a directory rather than the directory."""
    name = error.filename if isinstance(error, OSError) else None
    return name if isinstance(name, str) else None


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """What the system refuses, as one of our errors with the advice for those who write."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise _refused(path, error, writing=True) from error


def _sync_parents(*paths: str) -> None:
    """Make names durable; file systems that cannot synchronise directories keep them in order by themselves."""
    for parent in dict.fromkeys(os.path.dirname(path) or os.curdir for path in paths):
        descriptor = os.open(parent, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(descriptor)


def _give(path: str, owner: int, group: int) -> None:
    """Owner and group together, else the group alone."""
    try:
        os.chown(path, owner, group)
    except PermissionError:
        with suppress(PermissionError):
            os.chown(path, -1, group)


def _refused(path: str, error: OSError | ValueError, *, writing: bool = False) -> AcidctlError:
    """The system's answer as one of our errors."""
    if isinstance(error, FileNotFoundError):
        path = _named(error) or path
        return StorageError(
            f"{path} is not there any more",
            path=path,
            hint="If a compaction or a cleaner runs on this table now, run the command again.",
        )
    if isinstance(error, FileExistsError) and writing:
        return ExistsError(f"{path} exists already", path=path)
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    meaning = _MEANINGS.get(number, _Meaning())
    return meaning.kind(
        f"{path} cannot be {'written' if writing else 'used'}: {reason}",
        path=path,
        hint=meaning.writing if writing else meaning.reading,
    )


def whole_path(storage: Storage, path: str) -> str:
    """The path from the root of its storage on: what its folders tell does not depend on where a user stands."""
    try:
        return os.path.abspath(path) if isinstance(storage, LocalStorage) else path
    except OSError:
        return path  # the current directory has been removed
