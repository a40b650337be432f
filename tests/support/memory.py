"""A storage in memory: the reference for the port's promises, and what tests stand on."""

from __future__ import annotations

from io import BytesIO
from typing import BinaryIO

from acidctl.errors import ExistsError, NoSuchTableError, StorageError
from acidctl.format.listing import FileInfo
from acidctl.storage.port import Descend, Facts, PathStat, Storage, Walk

_FACTS = Facts(atomic_rename=True, exclusive_create=True, trash=False)


class MemoryStorage(Storage):
    """Files in a dictionary; every parent of a file exists as a directory. `modified` is the same for all."""

    def __init__(self, files: dict[str, bytes] | None = None, *, modified: float = 0.0) -> None:
        self._files: dict[str, bytes] = {}
        self._directories: set[str] = {""}
        self._modified = modified
        for path, data in (files or {}).items():
            self._add_parents(path.rstrip("/") + "/x" if path.endswith("/") else path)
            if not path.endswith("/"):
                self._files[path] = data

    @property
    def facts(self) -> Facts:
        """All but owners and a trash."""
        return _FACTS

    def display(self, path: str) -> str:
        """Paths are shown as they are."""
        return path

    def stat(self, path: str) -> PathStat | None:
        """A trailing slash does not matter."""
        path = path.rstrip("/")
        if path in self._files:
            return PathStat(False, len(self._files[path]), self._modified)
        return PathStat(True, 0, self._modified) if path in self._directories else None

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """A refused directory takes all below it along."""
        root = root.rstrip("/")
        if root not in self._directories:
            raise NoSuchTableError(f"{root} does not exist", path=root)
        start = len(root) + 1 if root else 0
        below = sorted(path[start:] for path in self._directories if path and path.startswith(root + "/" * bool(root)))
        refused: list[str] = []
        kept: list[str] = []
        for path in below:
            if path and not _inside(path, refused):
                (kept if descend is None or descend(path) else refused).append(path)
        files = sorted(path[start:] for path in self._files if path.startswith(root + "/" * bool(root)))
        return Walk(
            tuple(
                FileInfo(path, len(self._files[_below(root, path)]), self._modified)
                for path in files
                if not _inside(path, refused)
            ),
            tuple(kept),
        )

    def open(self, path: str) -> BinaryIO:
        """A copy: later changes of the storage are not seen."""
        if path not in self._files:
            raise StorageError(f"{path} is not there any more", path=path)
        return BytesIO(self._files[path])

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """The name is taken at once, and the content appears with `close`."""
        self._require_free(path)
        self._files[path] = b""
        return _NewFile(self._files, path)

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """The parent has to exist."""
        self._require_free(path)
        self._files[path] = data

    def mkdir(self, path: str, like: str | None = None) -> None:
        """The parent has to exist."""
        self._require_free(path)
        self._directories.add(path)

    def inherit(self, path: str, like: str) -> None:
        """Nothing has an owner here."""
        for name in (path, like):
            if self.stat(name) is None:
                raise StorageError(f"{name} is not there any more", path=name)

    def rename_dir(self, source: str, target: str) -> None:
        """Refused for files."""
        if source not in self._directories:
            raise StorageError(f"{source} is not a directory", path=source)
        self.move(source, target)

    def remove_tree(self, path: str) -> None:
        """Refused for files and for what does not exist."""
        if path not in self._directories:
            raise StorageError(f"{path} is not a directory", path=path)
        self._files = {name: data for name, data in self._files.items() if not _inside(name, [path])}
        self._directories = {name for name in self._directories if name != path and not _inside(name, [path])}

    def remove_file(self, path: str) -> None:
        """Refused for directories and for what does not exist."""
        if path not in self._files:
            raise StorageError(f"{path} is not a file", path=path)
        del self._files[path]

    def rmdir(self, path: str) -> None:
        """Refused where something is in it."""
        if path not in self._directories or any(_inside(name, [path]) for name in (*self._files, *self._directories)):
            raise StorageError(f"{path} is not an empty directory", path=path)
        self._directories.discard(path)

    def move(self, source: str, target: str) -> None:
        """All below the source moves with it."""
        if self.stat(source) is None:
            raise StorageError(f"{source} is not there any more", path=source)
        self._require_free(target)

        def moved(name: str) -> str:
            return target + name[len(source) :] if name == source or _inside(name, [source]) else name

        self._files = {moved(name): data for name, data in self._files.items()}
        self._directories = {moved(name) for name in self._directories}

    def copy_file(self, source: str, target: str) -> None:
        """The parent of the target has to exist."""
        with self.open(source) as stream:
            self.create_exclusive(target, stream.read())

    def _require_free(self, path: str) -> None:
        if self.stat(path) is not None:
            raise ExistsError(f"{path} exists already", path=path)
        if path.rpartition("/")[0] not in self._directories:
            raise StorageError(f"the parent directory of {path} does not exist", path=path)

    def _add_parents(self, path: str) -> None:
        while "/" in path:
            path = path.rpartition("/")[0]
            self._directories.add(path)


class _NewFile(BytesIO):
    """A file that is being written."""

    def __init__(self, files: dict[str, bytes], path: str) -> None:
        super().__init__()
        self._files = files
        self._path = path

    def seekable(self) -> bool:
        """New files are written from the beginning to the end."""
        return False

    def close(self) -> None:
        """Make the content visible."""
        if not self.closed:
            self._files[self._path] = self.getvalue()
        super().close()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """An exception leaves no file."""
        self.close()
        if kind is not None:
            self._files.pop(self._path, None)


def _below(root: str, path: str) -> str:
    return f"{root}/{path}" if root else path


def _inside(path: str, parents: list[str]) -> bool:
    return any(path.startswith(parent + "/") for parent in parents)
