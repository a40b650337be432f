"""The local file system, through `os.scandir`: names are taken as they are, and nothing is ever globbed."""

from __future__ import annotations

import os
import shutil
import stat as stat_bits
from typing import BinaryIO

from acidctl.errors import AcidctlError, NoSuchTableError, StorageError
from acidctl.listing import FileInfo
from acidctl.storage.port import Descend, Facts, PathStat, Walk

_FACTS = Facts(atomic_rename=True, exclusive_create=True, mtimes=True, owner_and_mode=True, trash=False)


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
                # What hides behind a hidden name is never data; other users' staging folders are often
                # closed.
                if not os.path.basename(relative).startswith(("_", ".")):
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

    def create_exclusive(self, path: str, data: bytes) -> None:
        """O_EXCL decides who wins; the data is on disk when this returns."""
        try:
            with open(path, "xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise _refused(path, error) from error

    def mkdir(self, path: str) -> None:
        """Parents are not made: a missing one means that the plan is wrong."""
        try:
            os.mkdir(path)
        except OSError as error:
            raise _refused(path, error) from error

    def rename_dir(self, source: str, target: str) -> None:
        """The test closes the one case that POSIX rename would let pass: an empty directory in the way."""
        self.move(source, target)

    def remove_tree(self, path: str) -> None:
        """`rmtree` refuses a link at the top and does not follow those below."""
        try:
            shutil.rmtree(path)
        except OSError as error:
            raise _refused(path, error) from error

    def move(self, source: str, target: str) -> None:
        """Within one file system only: a copy could be seen half done."""
        if os.path.lexists(target):
            raise StorageError(f"{target} exists already", path=target)
        try:
            os.rename(source, target)
        except OSError as error:
            raise _refused(source, error) from error


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


def _refused(path: str, error: OSError | ValueError) -> AcidctlError:
    """The system's answer as one of our errors."""
    if isinstance(error, FileNotFoundError):
        return StorageError(
            f"{path} is not there any more",
            path=path,
            hint="If a compaction or a cleaner runs on this table now, run the command again.",
        )
    hint = None
    if isinstance(error, PermissionError):
        hint = "Run as a user that may read the table, for example the owner of the warehouse."
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StorageError(f"{path} cannot be used: {reason}", path=path, hint=hint)
