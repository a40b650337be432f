"""The local file system, through `os.scandir`: names are taken as they are, and nothing is ever globbed.

What acidctl changes lies below a place that a user named, a table or a box. The way to that place may lead through
links; from there on a link might lead to another user's files, and might be put there at any moment. So the directory
in which something is changed is opened first, part by part, without following any, and everything is done in what was
opened. The same holds for reading what bears one of acidctl's own names.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import shutil
import stat as stat_bits
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from typing import BinaryIO, cast

from acidctl.errors import (
    AcidctlError,
    DeniedError,
    ExistsError,
    NoSuchTableError,
    QuotaError,
    SafeModeError,
    StorageError,
)
from acidctl.format.listing import FileInfo, is_foreign
from acidctl.format.names import OWN_PREFIX
from acidctl.storage.named_files import kind_of
from acidctl.storage.port import Descend, Facts, NewFile, PathStat, Storage, Walk, gone, join, may_be_closed

_BUFFER_BYTES, _BEGIN_BYTES = 1 << 20, 8 << 20
# SYNC_FILE_RANGE_WRITE of Linux: begin, and wait for nothing.
_BEGIN_WRITING = 2
# O_NONBLOCK: opening what has become a pipe by then would wait for its writer.
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
# Enough to go on from, also where a directory may be entered and not be listed.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)


class LocalStorage(Storage):
    """Files of this machine; below `tops`, the places that the user named, nothing is changed through a link."""

    def __init__(self, *tops: str) -> None:
        self._tops = list(tops)

    def add_top(self, path: str) -> None:
        self._tops.append(path)

    @property
    def facts(self) -> Facts:
        return Facts(atomic_rename=True, exclusive_create=True, trash=False)

    def display(self, path: str) -> str:
        return path

    def stat(self, path: str) -> PathStat | None:
        """A link to a table is a table; among acidctl's own names a link is not followed, nor is it a directory."""
        with _refusals(path), suppress(FileNotFoundError, NotADirectoryError), _reached(path) as (parent, name):
            status = os.stat(name, dir_fd=parent, follow_symlinks=parent is None)
            is_directory = stat_bits.S_ISDIR(status.st_mode)
            return PathStat(is_directory, status.st_size, status.st_mtime, _user(status.st_uid))
        return None

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """One `scandir` per directory.

        Hadoop's local file system follows links, so those to what readers look at are followed. Readers do not look
        behind a hidden name: links there are not followed, be it to a loop or to nothing, and none of them is ever
        acidctl's own.
        """
        with _refusals(root), suppress(FileNotFoundError), _reached(root) as (parent, name):
            if parent is not None:
                _refuse_link(parent, name, root)
        files: list[FileInfo] = []
        directories: list[str] = []
        links: dict[str, str] = {}
        special: dict[str, str] = {}
        pending = [("", root)]
        while pending:
            relative, path = pending.pop()
            prefix = relative + "/" if relative else ""
            try:
                with os.scandir(path) as entries:
                    for entry in entries:
                        name = prefix + entry.name
                        is_link = entry.is_symlink()
                        if is_link:
                            links[name] = os.path.realpath(entry.path)
                            if is_foreign(name):
                                continue
                        if not entry.is_dir():
                            status = _status_of(entry, is_link)
                            if status is not None:
                                files.append(FileInfo(name, status.st_size, status.st_mtime))
                                if not stat_bits.S_ISREG(status.st_mode):
                                    special[name] = kind_of(status)
                        elif descend is None or descend(name):
                            if is_link:
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
        return Walk.of(files, directories, links=links, special=special)

    def open(self, path: str) -> BinaryIO:
        """Only regular files are opened: reading a pipe or a device would hang."""
        with _refusals(path), _reached(path) as (parent, name):
            if parent is not None:
                _refuse_link(parent, name, path)
            status = os.stat(name, dir_fd=parent, follow_symlinks=parent is None)
            if not stat_bits.S_ISREG(status.st_mode):
                raise StorageError(
                    f"{path} is not a regular file but {kind_of(status)}",
                    path=path,
                    hint="Remove it, or restore the file that it replaced; then run the command again.",
                )
            return open(os.open(name, _READING | (0 if parent is None else _NO_LINK), dir_fd=parent), "rb")

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """O_EXCL decides who wins."""
        with self._changing(path) as (parent, name):
            model = None if like is None else os.stat(like)
            # Whoever opens it before it has its owner and group is this user.
            number = os.open(name, _NEW | _NO_LINK, 0o666 if model is None else 0o600, dir_fd=parent)
            try:
                if model is not None:
                    _become(number, model)
                return cast(BinaryIO, _NewFile(number, os.dup(parent), name, path))
            except BaseException:
                os.close(number)
                os.unlink(name, dir_fd=parent)
                raise

    def mkdir(self, path: str, like: str | None = None) -> None:
        """Parents are not made: a missing one means that the plan is wrong."""
        with self._changing(path) as (parent, name):
            model = None if like is None else os.stat(like)
            os.mkdir(name, 0o777 if model is None else 0o700, dir_fd=parent)
            if model is not None:
                with _entry(parent, name) as number:
                    _become(number, model, also=stat_bits.S_IRWXU)
            _sync(parent)

    def inherit(self, path: str, like: str) -> None:
        """Only the superuser gives files away, and groups go to their members: what is refused stays as it is."""
        with self._changing(path) as (parent, name):
            _refuse_link(parent, name, path)
            model = os.stat(like)
            with suppress(PermissionError), _entry(parent, name) as number:
                _become(number, model)

    def remove_tree(self, path: str) -> None:
        """`rmtree` does not follow links; one in the place of the tree itself stays."""
        with self._changing(path) as (parent, name):
            _refuse_link(parent, name, path)
            shutil.rmtree(name, dir_fd=parent)
            _sync(parent)

    def remove_file(self, path: str) -> None:
        """A link is removed, not what it points to; one with a name of acidctl's own is not its own."""
        with self._changing(path) as (parent, name):
            if _own_from(path) is not None:
                _refuse_link(parent, name, path)
            os.unlink(name, dir_fd=parent)
            _sync(parent)

    def rmdir(self, path: str) -> None:
        """The system refuses one that is not empty, and a link to one."""
        with self._changing(path) as (parent, name):
            os.rmdir(name, dir_fd=parent)
            _sync(parent)

    def move(self, source: str, target: str) -> None:
        """Within one file system only: a copy could be seen half done."""
        with self._changing(source) as (old_parent, old), _parent_of(target, self._tops) as (new_parent, new):
            try:
                rename_new(old, new, old_parent, new_parent)
            except FileExistsError as error:
                raise ExistsError(f"{target} exists already", path=target, hint=_STRANGE) from error
            _sync(new_parent)
            _sync(old_parent)

    def rename_dir(self, source: str, target: str) -> None:
        """Its own names are durable before it has the new one, also within `together`."""
        with self._changing(join(source, "*")) as (directory, _):
            _flush(directory)
        self.move(source, target)

    def exchange(self, first: str, second: str) -> bool:
        """By Linux's `renameat2`, on file systems that have it."""
        with self._changing(first) as (parent, name), _parent_of(second, self._tops) as (other_parent, other):
            call = renameat2()
            if call is None or call(os.fsencode(name), os.fsencode(other), parent, other_parent, _RENAME_EXCHANGE):
                return False
            _sync(other_parent)
            _sync(parent)
            return True

    @contextmanager
    def _changing(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory in which something is changed, see `_parent_of`, and our errors for those who write."""
        with _refusals(path, writing=True), _parent_of(path, self._tops) as place:
            yield place


#: Below this the call costs more than it saves.
TAKEN_BYTES = 64 << 10
# Other file systems, ones that do not know how, an old kernel, one that forbids the call.
_NO_COPYING = (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EBADF)


def _descriptor(source: object) -> int | None:
    """That of an open local file."""
    try:
        number: int = source.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return None
    return number


class _NewFile(NewFile):
    """A file that is being written: synchronised when closed, as its name is."""

    def __init__(self, number: int, parent: int, name: str, path: str) -> None:
        """`number` and `parent` are its descriptor and that of its directory; both are closed with it."""
        super().__init__(_BUFFER_BYTES)
        self._number = number
        self._parent = parent
        self._entry = name
        self._path = path
        self._begun = 0

    def flush(self) -> None:
        self._send()

    def _send(self) -> None:
        with _refusals(self._path, writing=True):
            while self._buffer:
                del self._buffer[: os.write(self._number, self._buffer)]
        if (length := self._written - self._begun) >= _BEGIN_BYTES and (begin := sync_file_range()):
            # The disk writes while the next rows are made, and little is left to wait for at the end.
            begin(self._number, self._begun, length, _BEGIN_WRITING)
            self._begun += length

    def take(self, source: object, start: int, length: int) -> bool:
        """By the kernel, where both files are of this machine and their file systems agree to it."""
        number = _descriptor(source)
        if number is None or length < TAKEN_BYTES or not hasattr(os, "copy_file_range"):
            return False
        self._send()
        done = 0
        with _refusals(self._path, writing=True):
            while done < length:
                try:
                    count = os.copy_file_range(number, self._number, length - done, start + done)
                except OSError as error:
                    if done or error.errno not in _NO_COPYING:
                        raise
                    return False
                if not count and not done:
                    return False
                if not count:
                    raise OSError(errno.EIO, "the file that is copied from ends too early")
                done += count
        self._written += length
        return True

    def _finish(self) -> None:
        with _refusals(self._path, writing=True):
            os.fsync(self._number)
            # File systems of other machines may refuse here what they took before.
            number, self._number = self._number, -1
            os.close(number)
            _sync(self._parent)
        self._release()

    def _abandon(self, failure: BaseException | None = None) -> None:
        with suppress(OSError):
            os.unlink(self._entry, dir_fd=self._parent)
        self._release()

    def _release(self) -> None:
        for number in (self._number, self._parent):
            with suppress(OSError):
                os.close(number)


def whole_path(storage: Storage, path: str) -> str:
    """The path from the root of its storage on, independent of the current directory."""
    try:
        return os.path.abspath(path) if isinstance(storage, LocalStorage) else path
    except OSError:
        return path  # the current directory has been removed


def _status_of(entry: os.DirEntry[str], is_link: bool) -> os.stat_result | None:
    """None for a file that was removed since its directory was read."""
    try:
        return entry.stat()
    except FileNotFoundError as error:
        if is_link and os.path.lexists(entry.path):
            raise StorageError(
                f"{entry.path} is a symbolic link whose target does not exist",
                path=entry.path,
                hint="Restore the target or remove the link; a table with missing files would be misread.",
            ) from error
        return None


def _refuse_loop(root: str, relative: str, path: str) -> None:
    """A link to one of its own parents, also through other links, would be walked for ever."""
    target = os.path.realpath(path)
    parent = root
    for part in ("", *relative.split("/")):
        parent = f"{parent}/{part}" if part else parent
        if os.path.realpath(parent) == target or os.path.realpath(parent).startswith(target.rstrip("/") + "/"):
            raise StorageError(
                f"{path} is a symbolic link to one of its own parent directories",
                path=path,
                hint="Remove the link: whoever follows it, as Hive does, reads the same files again and again.",
            )


@contextmanager
def _entry(parent: int, name: str) -> Iterator[int]:
    """A file or directory, not a link, open for its owner and mode to be changed."""
    number = os.open(name, _READING | _NO_LINK, dir_fd=parent)
    try:
        yield number
    finally:
        os.close(number)


def _become(number: int, model: os.stat_result, *, also: int = 0) -> None:
    """Give an open file or directory owner, group and mode of another, as far as this user may; `also` adds rights."""
    status = os.fstat(number)
    if (model.st_uid, model.st_gid) != (status.st_uid, status.st_gid):
        # Owner and group together, else the group alone.
        for owner in (model.st_uid, -1):
            with suppress(PermissionError):
                os.fchown(number, owner, model.st_gid)
                break
    mode = stat_bits.S_IMODE(model.st_mode)
    if stat_bits.S_ISDIR(model.st_mode) and not stat_bits.S_ISDIR(status.st_mode):
        mode &= 0o666
    with suppress(PermissionError):
        os.fchmod(number, mode | also)


class _Unsynced(threading.local):
    """The directories in which a thread has changed names within `together`, open, by device and number."""

    directories: dict[tuple[int, int], int] | None = None


_unsynced = _Unsynced()


@contextmanager
def together(path: str, *, lasting: bool = True) -> Iterator[None]:
    """All names below `path` that the block makes, moves and removes on this machine become durable at its end, each
    directory once, in any order; where they need not last, when something else makes them so.
    """
    if _unsynced.directories is not None:
        yield
        return
    _unsynced.directories = known = dict[tuple[int, int], int]()
    try:
        yield
    finally:
        _unsynced.directories = None
        with ExitStack() as stack, _refusals(path, writing=True):
            for number in known.values():
                stack.callback(os.close, number)
            for number in known.values():
                # One that was removed has no names.
                if lasting and os.fstat(number).st_nlink:
                    _flush(number)


def _sync(directory: int) -> None:
    """Make the names in an open directory durable, within `together` at its end."""
    known = _unsynced.directories
    if known is None:
        _flush(directory)
        return
    status = os.fstat(directory)
    if (status.st_dev, status.st_ino) not in known:
        known[status.st_dev, status.st_ino] = os.dup(directory)


def _flush(directory: int) -> None:
    """At once; systems that cannot keep names in order by themselves."""
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


# --- Renaming without ever replacing anything.
#
# POSIX `rename` replaces a file or an empty directory at its target, and to look for one first leaves a moment in which
# another process may put it there. Linux has a call that refuses in the same step.


_AT_FDCWD = -100
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
# A kernel without the call, a file system that does not know the flag (NFS, some of FUSE), a sandbox that forbids it.
_NOT_OFFERED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})


def rename_new(source: str, target: str, source_in: int | None = None, target_in: int | None = None) -> None:
    """Rename a file or directory to a path where nothing is; relative paths count from the open directories.

    FileExistsError when something is there, also a dangling link; OSError as of `os.rename` otherwise. Where the system
    does not offer both in one step, a file has both names for a moment, and of a directory the target is looked for
    first.
    """
    call = renameat2()
    if call is not None and "\0" not in source + target:
        places = [_AT_FDCWD if number is None else number for number in (source_in, target_in)]
        number = call(os.fsencode(source), os.fsencode(target), places[0], places[1], _RENAME_NOREPLACE)
        if number == 0:
            return
        if number not in _NOT_OFFERED:
            raise OSError(number, os.strerror(number), source, None, target)
    # What decides who has a lock must not replace another's: a second name is refused where it is taken.
    mode = 0
    with suppress(OSError):
        mode = os.stat(source, dir_fd=source_in, follow_symlinks=False).st_mode
    if stat_bits.S_ISREG(mode):
        try:
            os.link(source, target, src_dir_fd=source_in, dst_dir_fd=target_in, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:
            pass  # the file system has no second names
        else:
            os.unlink(source, dir_fd=source_in)
            return
    try:
        os.stat(target, dir_fd=target_in, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=source_in, dst_dir_fd=target_in)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)


@cache
def sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Linux's call; None on other systems."""
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


@cache
def renameat2() -> Callable[[bytes, bytes, int, int, int], int] | None:
    """Linux's call, whose last argument is its flags, and which gives an error number or 0; None on other systems."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int

    def call(source: bytes, target: bytes, source_in: int, target_in: int, flags: int) -> int:
        failed = function(source_in, source, target_in, target, flags)
        return ctypes.get_errno() if failed else 0

    return call


# --- What the system refuses, as our errors.


_STRANGE = "See what has put it there; if another command is at work on this table, wait until it has ended."
# By error number: the kind of error, and what to do for who reads and who writes.
_DENIED = (
    DeniedError,
    "Run as a user that may read the table, for example the owner of the warehouse.",
    "Run as a user that may write to the table, for example the owner of the warehouse.",
)
_FULL = "Free space on this file system and run the command again; the table is as it was."
_OVER_QUOTA = "Raise the quota or free space, and run the command again; the table is as it was."
_READ_ONLY = "The file system is mounted read-only; mount it for writing, or work on a copy of the table."
_ELSEWHERE = "Source and target have to lie on one file system, because a copy could be seen half done."
_MEANINGS: dict[int, tuple[type[StorageError], str | None, str]] = {
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: (SafeModeError, None, _READ_ONLY),
    errno.ENOSPC: (QuotaError, None, _FULL),
    errno.EDQUOT: (QuotaError, None, _OVER_QUOTA),
    errno.EXDEV: (StorageError, None, _ELSEWHERE),
}


@contextmanager
def _refusals(path: str, *, writing: bool = False) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise _refused(path, error, writing=writing) from error


def _named(error: OSError | ValueError) -> str | None:
    """The path that the system complains of: an entry of a directory rather than the directory."""
    name = error.filename if isinstance(error, OSError) else None
    return name if isinstance(name, str) else None


def _refused(path: str, error: OSError | ValueError, *, writing: bool = False) -> AcidctlError:
    if isinstance(error, FileNotFoundError):
        name = _named(error)
        # A bare name is relative to an open directory, and tells a user nothing.
        return gone(name if name is not None and "/" in name else path)
    if isinstance(error, FileExistsError) and writing:
        return ExistsError(f"{path} exists already", path=path, hint=_STRANGE)
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    kind, reading_hint, writing_hint = _MEANINGS.get(number, (StorageError, None, None))
    message = f"{path} cannot be {'written' if writing else 'used'}: {reason}"
    return kind(message, path=path, hint=writing_hint if writing else reading_hint)


# --- Directories, opened part by part where no part of a path may be a symbolic link.


def _reached(path: str) -> AbstractContextManager[tuple[int | None, str]]:
    """The path itself; among acidctl's own names the open directory in which it lies, and the name there."""
    return nullcontext((None, path)) if _own_from(path) is None else _parent_of(path, ())


@contextmanager
def _parent_of(path: str, tops: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The directory in which a path lies, open, and the last part of the path.

    Below one of `tops`, and from a name of acidctl's own on, no part but the last is a link. StorageError names the
    link; OSError with the path of what cannot be opened.
    """
    start, parts = _cut(path, tops)
    here = start or os.curdir
    number = _opened(here, None, here, last=len(parts) == 1)
    try:
        for index, part in enumerate(parts[:-1]):
            here = f"{here.rstrip('/')}/{part}" if start else "/".join(parts[: index + 1])
            below = _opened(part, number, here, last=index == len(parts) - 2)
            os.close(number)
            number = below
        yield number, parts[-1]
    finally:
        os.close(number)


def _refuse_link(number: int, name: str, path: str) -> None:
    """StorageError where an entry of an open directory is a symbolic link."""
    try:
        status = os.stat(name, dir_fd=number, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat_bits.S_ISLNK(status.st_mode):
        raise StorageError(
            f"{path} is a symbolic link, and acidctl follows none among its own files and changes nothing through one",
            path=path,
            hint="See who has put it there, and remove the link by hand; then run the command again.",
        )


def _cut(path: str, tops: Sequence[str]) -> tuple[str, list[str]]:
    """A path as a part that may hold links, and the names after it, one at least."""
    starts = [len(top.rstrip("/")) for top in tops if path.startswith(top.rstrip("/") + "/")]
    own = _own_from(path)
    if own is not None:
        starts.append(own)
    # A table may lie in a table's quarantine: the way to it is not of the user's choice any more than what is below.
    start = min(starts, default=max(path.rfind("/"), 0))
    names = [part for part in path[start:].split("/") if part]
    return path[:start] or ("/" if path.startswith("/") else ""), names


def _own_from(path: str) -> int | None:
    """Where the part before the first name of acidctl's own ends; None without such a name."""
    index = 0 if path.startswith(OWN_PREFIX) else path.find("/" + OWN_PREFIX)
    return None if index < 0 else index


def _opened(name: str, parent: int | None, path: str, *, last: bool) -> int:
    flags = (_DIRECTORY if last else _STEP) | (_NO_LINK if parent is not None else 0)
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if parent is not None and error.errno in (errno.ENOTDIR, errno.ELOOP):
            _refuse_link(parent, name, path)
        error.filename = path
        raise


@cache
def _user(number: int) -> str:
    """The name of a user; the number where there is no such user on this machine."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
