"""The local file system, through `os.scandir`: names are taken as they are, and nothing is ever globbed."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat as stat_bits
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Self

from acidctl.errors import ExistsError, StorageError
from acidctl.storage.beneath import NO_LINK, is_own, parent_of, refuse_link
from acidctl.storage.localfault import STRANGE, refused, writing
from acidctl.storage.localwalk import kind_of, walk_local
from acidctl.storage.port import Descend, Facts, PathStat, Storage, Walk
from acidctl.storage.rename import rename_new

_FACTS = Facts(atomic_rename=True, exclusive_create=True, mtimes=True, owner_and_mode=True, trash=False)
_BUFFER_BYTES = 1 << 20
# O_NONBLOCK: opening what has become a pipe by then would wait for its writer.
_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class LocalStorage:
    """Files of this machine; below `tops`, the places that the user named, nothing is changed through a link."""

    def __init__(self, *tops: str) -> None:
        self._tops = list(tops)

    def add_top(self, path: str) -> None:
        """Another place that the user named."""
        self._tops.append(path)

    @property
    def facts(self) -> Facts:
        """POSIX promises."""
        return _FACTS

    def display(self, path: str) -> str:
        """Local paths are shown as given."""
        return path

    def stat(self, path: str) -> PathStat | None:
        """A link to a table is a table; among acidctl's own names a link is not followed, and is no directory."""
        try:
            if is_own(path):
                with parent_of(path, (), own_only=True) as (parent, name):
                    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            else:
                found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise refused(path, error) from error
        return PathStat(stat_bits.S_ISDIR(found.st_mode), found.st_size, found.st_mtime)

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
                return _NewFile(number, os.dup(parent), name, path)
            except BaseException:
                os.close(number)
                os.unlink(name, dir_fd=parent)
                raise

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """O_EXCL decides who wins; what could not be written whole is removed."""
        with self.create(path, like) as stream:
            stream.write(data)

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

    def rename_dir(self, source: str, target: str) -> None:
        """Directories only; never onto an empty one, which POSIX would replace."""
        if not os.path.isdir(source) and os.path.lexists(source):
            raise StorageError(f"{source} is not a directory", path=source, hint=STRANGE)
        self.move(source, target)

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

    def copy_file(self, source: str, target: str) -> None:
        """Through the page cache; what could not be written whole is removed."""
        with self.open(source) as stream, self.create(target) as copy:
            shutil.copyfileobj(stream, copy, _BUFFER_BYTES)

    def discard(self, path: str) -> None:
        """Local file systems have no trash that all agree on."""
        raise StorageError(
            f"{path} cannot be moved to a trash: local file systems have none", path=path, hint="Add --skip-trash."
        )

    def hosts(self, path: str) -> tuple[str, ...]:
        """Unknown: it may be mounted everywhere."""
        return ()

    def _require_no_link(self, path: str) -> None:
        """Raise StorageError where a directory of acidctl's own is reached by a link."""
        try:
            with parent_of(path, (), own_only=True) as (parent, name):
                refuse_link(parent, name, path)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise refused(path, error) from error


class _NewFile(io.BufferedWriter):
    """A file that is being written: synchronised when closed, removed when its block fails."""

    def __init__(self, number: int, parent: int, name: str, path: str) -> None:
        """`number` and `parent` are its descriptor and that of its directory; both are closed with it."""
        super().__init__(io.FileIO(number, "wb"), _BUFFER_BYTES)
        self._parent: int | None = parent
        self._in_block = False
        self._entry = name
        self._path = path

    def seekable(self) -> bool:
        """New files are written from the beginning to the end."""
        return False

    def write(self, data: Any) -> int:
        """A full disk shows here, or when the buffer is emptied."""
        with writing(self._path):
            return super().write(data)

    def flush(self) -> None:
        """Hand the buffer to the system."""
        with writing(self._path):
            super().flush()

    def close(self) -> None:
        """On disk when this returns, and so is the name."""
        if self.closed:
            return
        try:
            try:
                self.flush()
                with writing(self._path):
                    os.fsync(self.fileno())
            finally:
                with writing(self._path):
                    super().close()
            if self._parent is not None:
                with writing(self._path):
                    _sync(self._parent)
        except BaseException:
            self._remove()
            raise
        finally:
            if not self._in_block:
                self._leave()

    def __enter__(self) -> Self:
        self._in_block = True
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """An exception leaves no file, be it from the block or from closing."""
        try:
            if kind is None:
                self.close()
                return
            self._remove()
            with suppress(StorageError):
                self.close()
        finally:
            self._leave()

    def _remove(self) -> None:
        if self._parent is not None:
            with suppress(OSError):
                os.unlink(self._entry, dir_fd=self._parent)

    def _leave(self) -> None:
        """Let the directory go; a second call does nothing."""
        if self._parent is not None:
            os.close(self._parent)
            self._parent = None


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
    """A file or directory that is no link, open for its owner and mode to be changed."""
    number = os.open(name, _READING | NO_LINK, dir_fd=parent)
    try:
        yield number
    finally:
        os.close(number)


def _become(number: int, model: os.stat_result, *, also: int = 0) -> None:
    """Give an open file or directory owner, group and mode of another, as far as this user may; `also` adds rights."""
    found = os.fstat(number)
    if (model.st_uid, model.st_gid) != (found.st_uid, found.st_gid):
        _give(number, model.st_uid, model.st_gid)
    mode = stat_bits.S_IMODE(model.st_mode)
    if stat_bits.S_ISDIR(model.st_mode) and not stat_bits.S_ISDIR(found.st_mode):
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
    """The path from the root of its storage on: what its folders tell does not depend on where a user stands."""
    try:
        return os.path.abspath(path) if isinstance(storage, LocalStorage) else path
    except OSError:
        return path  # the current directory has been removed
