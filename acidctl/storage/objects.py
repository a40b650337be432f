"""Object stores as a storage: names without directories, copies instead of renames, conditions instead of locks.

A directory is a prefix that some object has; it comes with the first object below it and goes with the last. An object
of no size whose name ends with a slash is what some clients leave to show an empty directory, and counts as one. What
differs between stores is behind `Objects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, Protocol, cast

from acidctl.errors import ExistsError, NoSuchTableError, StorageError
from acidctl.format.listing import FileInfo
from acidctl.storage.newfile import NewFile
from acidctl.storage.pieces import for_each
from acidctl.storage.port import Descend, Facts, PathStat, Walk
from acidctl.storage.ranged import RangedFile
from acidctl.storage.treewalk import Found, walk_tree

# Of any object store; each adds what it has besides.
OBJECT_FACTS = Facts(
    atomic_rename=False, exclusive_create=True, mtimes=True, owner_and_mode=False, trash=False, empty_directories=False
)
# What one writer holds: a part that fills up, and a few under way.
PART_BYTES = 8 << 20
_COPIES = 8
# Empty objects of this ending stand for directories; clients of Hadoop's first S3 file systems left them.
_FOLDER_ENDING = "_$folder$"


@dataclass(frozen=True, slots=True)
class Item:
    """One object: `path` is its whole name, with the bucket; `modified` in seconds since 1970, UTC.

    `version` changes with the content, and is empty where the store tells none.
    """

    path: str
    size: int
    modified: float | None
    version: str = ""


class Upload(Protocol):
    """An object that is being written; nothing of it is seen before `finish`."""

    def add(self, data: bytes) -> None:
        """The next bytes: PART_BYTES of them, fewer only in the end; may return before they are sent."""
        ...

    def finish(self) -> None:
        """Make the object; ExistsError when there is one of that name by now."""
        ...

    def abort(self) -> None:
        """Leave nothing; never raises. Does nothing after `finish`."""
        ...


class Objects(Protocol):
    """One store. Paths are whole names, as `bucket/key`; every error is one of ours."""

    def url(self, path: str) -> str:
        """The path as a user would type it."""
        ...

    def head(self, path: str) -> Item | None:
        """The object of exactly that name."""
        ...

    def below(self, path: str) -> Iterator[Item]:
        """All objects whose name begins with the path and a slash, markers of directories included."""
        ...

    def entries(self, path: str) -> Iterable[Found]:
        """What lies directly below; NoSuchTableError when nothing does."""
        ...

    def any_below(self, path: str) -> bool:
        """Whether an object's name begins with the path and a slash."""
        ...

    def read(self, item: Item, offset: int, length: int) -> bytes:
        """Some bytes of exactly this version of the object."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Write a small object; ExistsError when there is one of that name."""
        ...

    def upload(self, path: str) -> Upload:
        """Write one of any size."""
        ...

    def copy(self, source: Item, target: str) -> None:
        """Copy; ExistsError when the target exists."""
        ...

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects in the order given, as far as the store has orders; those that are gone do not matter."""
        ...

    def forget(self, path: str) -> None:
        """Drop what uploads that were never finished hold below a path, as far as that can be done."""
        ...


class ObjectStorage:
    """The port on an object store."""

    def __init__(self, objects: Objects, facts: Facts, *, part_bytes: int = PART_BYTES) -> None:
        self._objects = objects
        self._facts = facts
        self._part_bytes = part_bytes

    @property
    def facts(self) -> Facts:
        """What the store was found to promise."""
        return self._facts

    def display(self, path: str) -> str:
        """The URL."""
        return self._objects.url(path)

    def stat(self, path: str) -> PathStat | None:
        """One request for a file, two for everything else."""
        path = path.rstrip("/")
        item = self._objects.head(path) if "/" in path else None
        if item is not None:
            return PathStat(False, item.size, item.modified)
        return PathStat(True, 0, None) if self._objects.any_below(path) else None

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """One listing of all names, a request for a thousand; with `descend` one listing per directory."""
        root = root.rstrip("/")
        if descend is not None:
            return walk_tree(self._objects.entries, root, descend)
        start = len(root) + 1
        files: list[FileInfo] = []
        directories: set[str] = set()
        found = False
        for item in self._objects.below(root):
            found = True
            path = item.path[start:]
            directory, _, name = path.rpartition("/")
            if "//" in f"/{path}":
                continue  # no Hadoop client can name it
            while directory and directory not in directories:
                directories.add(directory)
                directory = directory.rpartition("/")[0]
            if name and not is_folder_mark(name, item.size):
                files.append(FileInfo(path, item.size, item.modified))
        if not found:
            raise NoSuchTableError(f"{self.display(root)} does not exist", path=self.display(root))
        files.sort(key=_path_of)
        return Walk(tuple(files), tuple(sorted(directories)))

    def open(self, path: str) -> BinaryIO:
        """Ranges of the version that is there now; that it was replaced meanwhile is an error."""
        item = self._existing(path)

        def read_at(offset: int, length: int) -> bytes:
            return self._objects.read(item, offset, length)

        return cast(BinaryIO, RangedFile(read_at, item.size, name=self.display(path)))

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """The object appears with `close`; of two that were begun at once, the second to end is refused then."""
        self._require_free(path)
        return cast(BinaryIO, _NewObject(self._objects.upload(path), self._part_bytes))

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """The store decides who wins."""
        self._objects.put(path, data)

    def mkdir(self, path: str, like: str | None = None) -> None:
        """Makes nothing: the first object below makes the directory."""
        self._require_free(path)

    def inherit(self, path: str, like: str) -> None:
        """Nothing here has an owner."""

    def rename_dir(self, source: str, target: str) -> None:
        """All is copied, then the source deleted: both can be seen meanwhile, and after a failure."""
        found = list(self._objects.below(source))
        if not found:
            raise self._missing(source, "is not a directory")
        self._require_free(target)
        copied: list[str] = []

        def copy(item: Item) -> None:
            path = target + item.path[len(source) :]
            # Before it is made: the answer may get lost, but not that the name is another's.
            copied.append(path)
            try:
                self._objects.copy(item, path)
            except ExistsError:
                copied.remove(path)
                raise

        try:
            for_each(copy, found, threads=_COPIES, name="acidctl-objects")
        except BaseException:
            if copied:
                with suppress(StorageError):
                    self._objects.delete(copied)
            raise
        self._objects.delete([item.path for item in found])

    def remove_tree(self, path: str) -> None:
        """A thousand objects a request; data before what tells how to read it."""
        found = [item.path for item in self._objects.below(path)]
        if not found:
            raise self._missing(path, "is not a directory")
        self._objects.delete(sorted(found, key=_hidden_last))
        self._objects.forget(path)

    def remove_file(self, path: str) -> None:
        """Looks first, because stores delete what is not there without a word."""
        self._existing(path)
        self._objects.delete([path])

    def move(self, source: str, target: str) -> None:
        """As `rename_dir`, files too."""
        item = self._objects.head(source)
        if item is None:
            self.rename_dir(source, target)
            return
        self._require_free(target)
        self._objects.copy(item, target)
        self._objects.delete([source])

    def copy_file(self, source: str, target: str) -> None:
        """Within the store; it decides whether the target is free."""
        self._objects.copy(self._existing(source), target)

    def discard(self, path: str) -> None:
        """There is no trash."""
        shown = self.display(path)
        raise StorageError(f"{shown} cannot be moved to a trash: object stores have none", path=shown)

    def hosts(self, path: str) -> tuple[str, ...]:
        """All machines are equally far."""
        return ()

    def swap(self, path: str, old: bytes, new: bytes) -> bool:
        """See `port.Swapping`; False as well where the store cannot."""
        swap = getattr(self._objects, "swap", None)
        return swap is not None and bool(swap(path, old, new))

    def _existing(self, path: str) -> Item:
        item = self._objects.head(path)
        if item is None:
            raise self._missing(path, "is not there any more")
        return item

    def _require_free(self, path: str) -> None:
        if self.stat(path) is not None:
            raise ExistsError(f"{self.display(path)} exists already", path=self.display(path))

    def _missing(self, path: str, what: str) -> StorageError:
        shown = self.display(path)
        hint = "If a compaction or a cleaner runs on this table now, run the command again."
        return StorageError(f"{shown} {what}", path=shown, hint=hint)


class _NewObject(NewFile):
    """An object that is sent in parts of one size, the last of which may be smaller."""

    def __init__(self, upload: Upload, part_bytes: int) -> None:
        super().__init__(part_bytes)
        self._upload = upload

    def _send(self) -> None:
        # The last part is kept back: it goes with `finish`, so that one part alone takes one request.
        while len(self._buffer) > self._piece_bytes:
            self._upload.add(bytes(self._buffer[: self._piece_bytes]))
            del self._buffer[: self._piece_bytes]

    def _finish(self) -> None:
        self._upload.add(bytes(self._buffer))
        self._upload.finish()

    def _abandon(self) -> None:
        self._upload.abort()


def is_folder_mark(name: str, size: int) -> bool:
    """Whether an object only stands for the directory of its name."""
    return size == 0 and name.endswith(_FOLDER_ENDING)


def entry_of(path: str, item: Item) -> Found | None:
    """An object directly below a directory as an entry; None for marks of directories."""
    name = item.path[len(path) + 1 :]
    if not name or name.endswith("/") or is_folder_mark(name, item.size):
        return None
    return Found(name, False, item.size, item.modified)


def _hidden_last(path: str) -> tuple[bool, str]:
    return path.rpartition("/")[2].startswith(("_", ".")), path


def _path_of(info: FileInfo) -> str:
    return info.path


__all__ = ["PART_BYTES", "Item", "ObjectStorage", "Objects", "Upload", "entry_of", "is_folder_mark"]
