"""The local file system, through `os.scandir`: names are taken as they are, and nothing is ever globbed."""

from __future__ import annotations

import errno
import os
import shutil
import stat as stat_bits
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
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
from acidctl.storage.port import Descend, Facts, NewFile, PathStat, Storage, Walk, gone, may_be_closed

_FACTS = Facts(atomic_rename=True, exclusive_create=True, trash=False)
_BUFFER_BYTES = 1 << 20
# O_NONBLOCK: opening what has become a pipe by then would wait for its writer.
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class LocalStorage(Storage):
    """Files of this machine; below `tops`, the places that the user named, nothing is changed through a link."""

    def __init__(self, *tops: str) -> None:
        self._tops = list(tops)

    def add_top(self, path: str) -> None:
        self._tops.append(path)

    @property
    def facts(self) -> Facts:
        return _FACTS

    def display(self, path: str) -> str:
        return path

    def stat(self, path: str) -> PathStat | None:
        """A link to a table is a table; among acidctl's own names a link is not followed, nor is it a directory."""
        try:
            if is_own(path):
                with parent_of(path, (), own_only=True) as (parent, name):
                    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            else:
                status = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise refused(path, error) from error
        return PathStat(stat_bits.S_ISDIR(status.st_mode), status.st_size, status.st_mtime)

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """Links are followed as Hadoop's local file system follows them, but not behind hidden names."""
        if is_own(root):
            self._require_no_link(root)
        return walk_local(root, descend)

    def open(self, path: str) -> BinaryIO:
        """Only regular files are opened: reading a pipe or a device would hang."""
        try:
            if is_own(path):
                with parent_of(path, (), own_only=True) as (parent, name):
                    refuse_link(parent, name, path)
                    _require_regular(path, os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
                    number = os.open(name, _READING | NO_LINK, dir_fd=parent)
            else:
                _require_regular(path, os.stat(path).st_mode)
                number = os.open(path, _READING)
            return open(number, "rb")
        except (OSError, ValueError) as error:
            raise refused(path, error) from error

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """O_EXCL decides who wins."""
        with writing(path), parent_of(path, self._tops) as (parent, name):
            model = None if like is None else os.stat(like)
            # Whoever opens it before it has its owner and group is this user.
            number = os.open(name, _NEW | NO_LINK, 0o666 if model is None else 0o600, dir_fd=parent)
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
        with writing(path), parent_of(path, self._tops) as (parent, name):
            model = None if like is None else os.stat(like)
            os.mkdir(name, 0o777 if model is None else 0o700, dir_fd=parent)
            if model is not None:
                with _entry(parent, name) as number:
                    _become(number, model, also=stat_bits.S_IRWXU)
            _sync(parent)

    def inherit(self, path: str, like: str) -> None:
        """Only the superuser gives files away, and groups go to their members: what is refused stays as it is."""
        with writing(path), parent_of(path, self._tops) as (parent, name):
            refuse_link(parent, name, path)
            model = os.stat(like)
            try:
                with _entry(parent, name) as number:
                    _become(number, model)
            except PermissionError:
                return

    def remove_tree(self, path: str) -> None:
        """`rmtree` does not follow links; one in the place of the tree itself stays."""
        with writing(path), parent_of(path, self._tops) as (parent, name):
            refuse_link(parent, name, path)
            shutil.rmtree(name, dir_fd=parent)
            _sync(parent)

    def remove_file(self, path: str) -> None:
        """A link is removed, not what it points to; one with a name of acidctl's own is not its own."""
        with writing(path), parent_of(path, self._tops) as (parent, name):
            if is_own(path):
                refuse_link(parent, name, path)
            os.unlink(name, dir_fd=parent)
            _sync(parent)

    def move(self, source: str, target: str) -> None:
        """Within one file system only: a copy could be seen half done."""
        with (
            writing(source),
            parent_of(source, self._tops) as (old_parent, old),
            parent_of(target, self._tops) as (new_parent, new),
        ):
            try:
                rename_new(old, new, old_parent, new_parent)
            except FileExistsError as error:
                raise ExistsError(f"{target} exists already", path=target, hint=STRANGE) from error
            _sync(new_parent)
            _sync(old_parent)

    def _require_no_link(self, path: str) -> None:
        """Raise StorageError where a directory of acidctl's own is reached by a link."""
        try:
            with parent_of(path, (), own_only=True) as (parent, name):
                refuse_link(parent, name, path)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise refused(path, error) from error


class _NewFile(NewFile):
    """A file that is being written: synchronised when closed, as its name is."""

    def __init__(self, number: int, parent: int, name: str, path: str) -> None:
        """`number` and `parent` are its descriptor and that of its directory; both are closed with it."""
        super().__init__(_BUFFER_BYTES)
        self._number = number
        self._parent = parent
        self._entry = name
        self._path = path

    def flush(self) -> None:
        self._send()

    def _send(self) -> None:
        with writing(self._path):
            while self._buffer:
                del self._buffer[: os.write(self._number, self._buffer)]

    def _finish(self) -> None:
        with writing(self._path):
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


def _require_regular(path: str, mode: int) -> None:
    if not stat_bits.S_ISREG(mode):
        what = "a directory" if stat_bits.S_ISDIR(mode) else kind_of(mode)
        raise StorageError(
            f"{path} is not a regular file but {what}",
            path=path,
            hint="Remove it, or put the file in its place that belongs there; then run the command again.",
        )


@contextmanager
def _entry(parent: int, name: str) -> Iterator[int]:
    """A file or directory, not a link, open for its owner and mode to be changed."""
    number = os.open(name, _READING | NO_LINK, dir_fd=parent)
    try:
        yield number
    finally:
        os.close(number)


def _become(number: int, model: os.stat_result, *, also: int = 0) -> None:
    """Give an open file or directory owner, group and mode of another, as far as this user may; `also` adds rights."""
    status = os.fstat(number)
    if (model.st_uid, model.st_gid) != (status.st_uid, status.st_gid):
        _give(number, model.st_uid, model.st_gid)
    mode = stat_bits.S_IMODE(model.st_mode)
    if stat_bits.S_ISDIR(model.st_mode) and not stat_bits.S_ISDIR(status.st_mode):
        mode &= 0o666
    with suppress(PermissionError):
        os.fchmod(number, mode | also)


def _give(number: int, owner: int, group: int) -> None:
    """Owner and group together, else the group alone."""
    try:
        os.fchown(number, owner, group)
    except PermissionError:
        with suppress(PermissionError):
            os.fchown(number, -1, group)


def _sync(directory: int) -> None:
    """Make the names in an open directory durable; systems that cannot keep them in order by themselves."""
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def whole_path(storage: Storage, path: str) -> str:
    """The path from the root of its storage on, independent of the current directory."""
    try:
        return os.path.abspath(path) if isinstance(storage, LocalStorage) else path
    except OSError:
        return path  # the current directory has been removed


# --- The walk over a local directory: names are taken as they are, nothing is globbed, and links are reported.
#
# Hadoop's local file system follows links, so those to what readers look at are followed. Readers do not look behind a
# hidden name: links there are not followed, be it to a loop or to nothing, and none of them is ever acidctl's own.


_KINDS = {
    stat_bits.S_IFIFO: "a named pipe",
    stat_bits.S_IFSOCK: "a socket",
    stat_bits.S_IFCHR: "a device",
    stat_bits.S_IFBLK: "a device",
}


@dataclass(slots=True)
class _Found:
    """What the walk has found so far."""

    files: list[FileInfo] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    special: dict[str, str] = field(default_factory=dict)

    def add_file(self, name: str, entry: os.DirEntry[str]) -> None:
        """Nothing for a file that was removed since its directory was read."""
        try:
            status = entry.stat()
        except FileNotFoundError as error:
            if name in self.links and os.path.lexists(entry.path):
                raise StorageError(
                    f"{entry.path} is a symbolic link whose target does not exist",
                    path=entry.path,
                    hint="Restore the target or remove the link; a table with missing files would be misread.",
                ) from error
            return
        if not stat_bits.S_ISREG(status.st_mode):
            self.special[name] = kind_of(status.st_mode)
        self.files.append(FileInfo(name, status.st_size, status.st_mtime))


def kind_of(mode: int) -> str:
    """What stands in the place of a regular file, for a sentence."""
    return _KINDS.get(stat_bits.S_IFMT(mode), "something else")


def walk_local(root: str, descend: Descend | None) -> Walk:
    """See `port.Storage.walk`: one `scandir` per directory."""
    contents = _Found()
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
                        contents.links[name] = os.path.realpath(entry.path)
                        if is_foreign(name):
                            continue
                    if not entry.is_dir():
                        contents.add_file(name, entry)
                    elif descend is None or descend(name):
                        if is_link:
                            _refuse_loop(root, relative, entry.path)
                        contents.directories.append(name)
                        pending.append((name, entry.path))
        except FileNotFoundError as error:
            if not relative:
                raise NoSuchTableError(f"{path} does not exist", path=path) from error
            contents.directories.remove(relative)
        except (OSError, ValueError) as error:
            if not may_be_closed(relative):
                raise refused(named(error) or path, error) from error
    contents.files.sort(key=_path_of)
    contents.directories.sort()
    return Walk(tuple(contents.files), tuple(contents.directories), contents.links, contents.special)


def _path_of(info: FileInfo) -> str:
    return info.path


def _refuse_loop(root: str, relative: str, path: str) -> None:
    """A link to one of its own parents, also through other links, would be walked for ever."""
    target = os.path.realpath(path)
    parents = [root]
    for part in relative.split("/") if relative else ():
        parents.append(f"{parents[-1]}/{part}")
    for parent in parents:
        here = os.path.realpath(parent)
        if here == target or here.startswith(target.rstrip("/") + "/"):
            raise StorageError(
                f"{path} is a symbolic link to one of its own parent directories",
                path=path,
                hint="Remove the link: whoever follows it, as Hive does, reads the same files again and again.",
            )


# --- Renaming on a local file system without ever replacing anything.
#
# POSIX `rename` replaces a file or an empty directory at its target, and to look for one first leaves a moment in which
# another process may put it there. Linux has a call that refuses in the same step.


_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
# A kernel without the call, a file system that does not know the flag (NFS, some of FUSE), a sandbox that forbids it.
_NOT_OFFERED = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})


def rename_new(source: str, target: str, source_in: int | None = None, target_in: int | None = None) -> None:
    """Rename a file or directory to a path where nothing is; relative paths count from the open directories.

    FileExistsError when something is there, also a dangling link; OSError as of `os.rename` otherwise. Where the system
    does not offer both in one step, a file has both names for a moment, and of a directory the target is looked for
    first.
    """
    call = _renameat2()
    if call is not None and "\0" not in source + target:
        number = call(os.fsencode(source), os.fsencode(target), _at(source_in), _at(target_in))
        if number == 0:
            return
        if number not in _NOT_OFFERED:
            raise OSError(number, os.strerror(number), source, None, target)
    # What decides who has a lock must not replace another's.
    if _is_file(source, source_in) and _linked(source, target, source_in, target_in):
        os.unlink(source, dir_fd=source_in)
        return
    try:
        os.stat(target, dir_fd=target_in, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(source, target, src_dir_fd=source_in, dst_dir_fd=target_in)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target)


def _is_file(path: str, parent: int | None) -> bool:
    with suppress(OSError):
        return stat_bits.S_ISREG(os.stat(path, dir_fd=parent, follow_symlinks=False).st_mode)
    return False


def _linked(source: str, target: str, source_in: int | None, target_in: int | None) -> bool:
    """Whether a file could be given a second name, which is refused where the name is taken."""
    try:
        os.link(source, target, src_dir_fd=source_in, dst_dir_fd=target_in, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


def _at(number: int | None) -> int:
    return _AT_FDCWD if number is None else number


@cache
def _renameat2() -> Callable[[bytes, bytes, int, int], int] | None:
    """Linux's call, which gives an error number or 0; None on other systems."""
    # Only what renames needs it; reading commands start without.
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int

    def call(source: bytes, target: bytes, source_in: int, target_in: int) -> int:
        failed = function(source_in, source, target_in, target, _RENAME_NOREPLACE)
        return ctypes.get_errno() if failed else 0

    return call


# --- What the system refuses on a local disk, as our errors.


STRANGE = "See what has put it there; if another command is at work on this table, wait until it has ended."


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


@contextmanager
def writing(path: str) -> Iterator[None]:
    """What the system refuses, as one of our errors with the advice for those who write."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise refused(path, error, writing=True) from error


def named(error: OSError | ValueError) -> str | None:
    """The path that the system complains of: an entry of a directory rather than the directory."""
    name = error.filename if isinstance(error, OSError) else None
    return name if isinstance(name, str) else None


def refused(path: str, error: OSError | ValueError, *, writing: bool = False) -> AcidctlError:
    """An error of the system as one of ours."""
    if isinstance(error, FileNotFoundError):
        name = named(error)
        # A bare name is relative to an open directory, and tells a user nothing.
        path = name if name is not None and "/" in name else path
        return gone(path)
    if isinstance(error, FileExistsError) and writing:
        return ExistsError(f"{path} exists already", path=path, hint=STRANGE)
    number = error.errno if isinstance(error, OSError) and error.errno else 0
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    meaning = _MEANINGS.get(number, _Meaning())
    return meaning.kind(
        f"{path} cannot be {'written' if writing else 'used'}: {reason}",
        path=path,
        hint=meaning.writing if writing else meaning.reading,
    )


# --- Directories of a local disk, opened part by part where no part of a path may be a symbolic link.
#
# What acidctl changes lies below a place that a user named, a table or a box. The way to that place may lead through
# links; from there on a link might lead to another user's files, and might be put there at any moment. So the
# directory in which something is changed is opened first, without following any, and everything is done in what was
# opened. The same holds for reading what bears one of acidctl's own names.


_DIRECTORY = os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
# Enough to go on from, also where a directory may be entered and not be listed.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | getattr(os, "O_DIRECTORY", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_ADVICE = "See who has put it there, and remove the link by hand; then run the command again."


def is_own(path: str) -> bool:
    """Whether a path leads through a name of acidctl's own."""
    return _own_from(path) is not None


@contextmanager
def parent_of(path: str, tops: Sequence[str], *, own_only: bool = False) -> Iterator[tuple[int, str]]:
    """The directory in which a path lies, open, and the last part of the path.

    Below one of `tops`, and from a name of acidctl's own on, no part but the last is a link; with `own_only` only the
    latter. StorageError names the link; OSError with the path of what cannot be opened.
    """
    start, parts = _cut(path, () if own_only else tops)
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


def refuse_link(number: int, name: str, path: str) -> None:
    """StorageError where an entry of an open directory is a symbolic link."""
    try:
        status = os.stat(name, dir_fd=number, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat_bits.S_ISLNK(status.st_mode):
        raise link_error(path)


def link_error(path: str) -> StorageError:
    """The error for a link that is in the way."""
    return StorageError(
        f"{path} is a symbolic link, and acidctl follows none among its own files and changes nothing through one",
        path=path,
        hint=_ADVICE,
    )


def _cut(path: str, tops: Sequence[str]) -> tuple[str, list[str]]:
    """A path as a part that may hold links, and the names after it, one at least."""
    starts = [len(top.rstrip("/")) for top in tops if path.startswith(top.rstrip("/") + "/")]
    own = _own_from(path)
    if own is not None:
        starts.append(own)
    if not starts:
        parent, _, name = path.rpartition("/")
        return parent or ("/" if path.startswith("/") else ""), [name]
    # A table may lie in a table's quarantine: the way to it is not of the user's choice any more than what is below.
    start = min(starts)
    names = [part for part in path[start:].split("/") if part]
    return path[:start] or ("/" if path.startswith("/") else ""), names


def _own_from(path: str) -> int | None:
    """Where the part before the first name of acidctl's own ends."""
    if path.startswith(OWN_PREFIX):
        return 0
    index = path.find("/" + OWN_PREFIX)
    return None if index < 0 else index


def _opened(name: str, parent: int | None, path: str, *, last: bool) -> int:
    flags = (_DIRECTORY if last else _STEP) | (NO_LINK if parent is not None else 0)
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if parent is not None and error.errno in (errno.ENOTDIR, errno.ELOOP):
            refuse_link(parent, name, path)
        error.filename = path
        raise
