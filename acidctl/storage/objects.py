"""Object stores as a storage, and other file systems that fsspec knows, for reading.

Object stores have names without directories, copies instead of renames, conditions instead of locks. A directory is a
prefix that some object has; it comes with the first object below it and goes with the last. An object of no size whose
name ends with a slash is what some clients leave to show an empty directory, and counts as one. What differs between
stores is behind `Objects`. All caches are off: what a table holds is asked of the server each time.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Any, BinaryIO, Protocol, cast

import fsspec

from acidctl.errors import AcidctlError, ExistsError, MissingDependencyError, NoSuchTableError, StorageError, UsageError
from acidctl.format.listing import FileInfo
from acidctl.storage.port import Descend, Facts, NewFile, PathStat, Storage, Walk, already_exists, gone, not_a_directory
from acidctl.storage.prefetch import RangedFile
from acidctl.storage.redact import without_secret, without_signatures
from acidctl.storage.remote import DirectoryEntry, for_each, walk_tree
from acidctl.values import dataclass

# Of any object store; each adds what it has besides.
OBJECT_FACTS = Facts(atomic_rename=False, exclusive_create=True, trash=False, empty_directories=False)
COPIES = 8
_COPY_BYTES = 1 << 20
# Empty objects of this ending stand for directories; clients of Hadoop's first S3 file systems left them.
_FOLDER_ENDING = "_$folder$"


@dataclass(frozen=True, slots=True)
class Item:
    """One object: `path` is its whole name, with the bucket; `modified` in seconds since 1970, UTC.

    `version` changes with the content, and is empty where the store has none; `mark` is what its writer left on it.
    """

    path: str
    size: int
    modified: float | None
    version: str = ""
    mark: str = ""


class Objects(Protocol):
    """One store. Paths are whole names, as `bucket/key`; every error is one of ours."""

    def url(self, path: str) -> str:
        """The path as a user would type it."""

    def head(self, path: str) -> Item | None:
        """The object of exactly that name."""

    def below(self, path: str) -> Iterator[Item]:
        """All objects whose name begins with the path and a slash, markers of directories included."""

    def entries(self, path: str) -> Iterable[DirectoryEntry]:
        """What lies directly below; NoSuchTableError when nothing does."""

    def any_below(self, path: str) -> bool:
        """Whether an object's name begins with the path and a slash."""

    def read(self, item: Item, offset: int, length: int) -> bytes:
        """Some bytes of exactly this version of the object."""

    def put(self, path: str, data: bytes) -> None:
        """Write a small object; ExistsError when there is one of that name."""

    def create(self, path: str) -> NewFile:
        """Write one of any size, of which nothing is seen before it is closed; ExistsError then when there is one."""

    def copy(self, source: Item, target: str) -> None:
        """Copy; ExistsError when the target exists."""

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects in the order given, as far as the store has orders; those that are gone do not matter."""

    def forget(self, path: str) -> None:
        """Drop what uploads that were never finished hold below a path, as far as that can be done."""


class ObjectStorage(Storage):
    """The port on an object store."""

    def __init__(self, objects: Objects, facts: Facts) -> None:
        self._objects = objects
        self._facts = facts

    @property
    def facts(self) -> Facts:
        return self._facts

    def display(self, path: str) -> str:
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
        files: list[FileInfo] = []
        directories: set[str] = set()
        item = None
        for item in self._objects.below(root):
            path = item.path[len(root) + 1 :]
            directory, _, name = path.rpartition("/")
            if "//" in f"/{path}":
                continue  # no Hadoop client can name it
            while directory and directory not in directories:
                directories.add(directory)
                directory = directory.rpartition("/")[0]
            if name and not _is_folder_mark(name, item.size):
                files.append(FileInfo(path, item.size, item.modified))
        if item is None:
            raise NoSuchTableError(f"{self.display(root)} does not exist", path=self.display(root))
        return Walk.of(files, directories)

    def open(self, path: str) -> BinaryIO:
        """Ranges of the version that is there now; that it was replaced meanwhile is an error."""
        item = self._existing(path)
        return cast(BinaryIO, RangedFile(partial(self._objects.read, item), item.size, name=self.display(path)))

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """The object appears with `close`; of two that were begun at once, the second to end is refused then."""
        self._require_free(path)
        return cast(BinaryIO, self._objects.create(path))

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        self._objects.put(path, data)

    def mkdir(self, path: str, like: str | None = None) -> None:
        """Makes nothing: the first object below makes the directory."""
        self._require_free(path)

    def inherit(self, path: str, like: str) -> None:
        """Nothing here has an owner."""

    def rename_dir(self, source: str, target: str) -> None:
        """All is copied, then the source deleted: both can be seen meanwhile, and after a failure."""
        sources = list(self._objects.below(source))
        if not sources:
            raise not_a_directory(self.display(source))
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
            for_each(copy, sources, threads=COPIES, name="acidctl-objects")
        except BaseException:
            if copied:
                with suppress(StorageError):
                    self._objects.delete(copied)
            raise
        self._objects.delete([item.path for item in sources])

    def remove_tree(self, path: str) -> None:
        """A thousand objects a request; data before the files that say how to read it."""
        paths = [item.path for item in self._objects.below(path)]
        if not paths:
            raise not_a_directory(self.display(path))
        # Those that say how to read it are hidden.
        self._objects.delete(sorted(paths, key=lambda path: (path.rpartition("/")[2].startswith(("_", ".")), path)))
        self._objects.forget(path)

    def remove_file(self, path: str) -> None:
        """Looks first, because stores delete what is not there without a word."""
        self._existing(path)
        self._objects.delete([path])

    def remove_files(self, paths: Sequence[str]) -> None:
        """A thousand objects a request; those that are gone do not matter."""
        self._objects.delete(paths)

    def rmdir(self, path: str) -> None:
        """The last object took the directory with it; marks of it may be left, and uploads that were not finished."""
        marks = list(self._objects.below(path))
        for item in marks:
            name = item.path.rpartition("/")[2]
            if name and not _is_folder_mark(name, item.size):
                raise StorageError(f"{self.display(path)} is not empty", path=self.display(path))
        self._objects.delete([item.path for item in marks])
        self._objects.forget(path)

    def move(self, source: str, target: str) -> None:
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

    def swap(self, path: str, old: bytes, new: bytes) -> bool:
        """False as well where the store cannot."""
        swap = getattr(self._objects, "swap", None)
        return swap is not None and bool(swap(path, old, new))

    def _existing(self, path: str) -> Item:
        item = self._objects.head(path)
        if item is None:
            raise gone(self.display(path))
        return item

    def _require_free(self, path: str) -> None:
        if self.stat(path) is not None:
            raise already_exists(self.display(path))


def _is_folder_mark(name: str, size: int) -> bool:
    return size == 0 and name.endswith(_FOLDER_ENDING)


def entry_of(path: str, item: Item) -> DirectoryEntry | None:
    """An object directly below a directory as an entry; None for marks of directories."""
    name = item.path[len(path) + 1 :]
    if not name or name.endswith("/") or _is_folder_mark(name, item.size):
        return None
    return DirectoryEntry(name, False, item.size, item.modified)


# --- Through fsspec: object stores for reading and writing, all other file systems for reading.


_READING = Facts(atomic_rename=False, exclusive_create=False, trash=False)
_OBJECTS = OBJECT_FACTS._replace(knows_own=False)
UNCACHED = {"use_listings_cache": False, "skip_instance_cache": True}
# What makes a write conditional, by scheme: `mode` of fsspec, which gcsfs sends as ifGenerationMatch=0; adlfs has a
# name of its own for If-None-Match.
_CREATE: Mapping[str, Mapping[str, Any]] = {
    **{scheme: {"mode": "create"} for scheme in ("memory", "gs", "gcs")},
    **{scheme: {"overwrite": False} for scheme in ("abfs", "abfss", "az")},
}
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


class FsspecStorage(Storage):
    """One fsspec file system, for reading."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    @property
    def facts(self) -> Facts:
        return _READING

    def display(self, path: str) -> str:
        return without_secret(str(self._filesystem.unstrip_protocol(path)))

    def stat(self, path: str) -> PathStat | None:
        """Object stores know no empty directory: there, a prefix without objects does not exist."""
        try:
            with _translated(self.display(path)):
                return _stat_of(self._filesystem.info(path))
        except NoSuchTableError:
            return None

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """One listing at a time: not every file system may be used by several threads."""
        return walk_tree(self._list, root, descend, workers=1)

    def _list(self, path: str) -> Iterator[DirectoryEntry]:
        with _translated(self.display(path)):
            entries = self._filesystem.ls(path, detail=True)
        for entry in entries:
            full = str(entry["name"]).rstrip("/")
            name = full.rpartition("/")[2]
            if full != path.rstrip("/") and name:  # object stores list a directory's own placeholder inside it
                info = _stat_of(entry)
                yield DirectoryEntry(name, info.is_directory, info.size, info.modified)

    def open(self, path: str) -> BinaryIO:
        """Ranged reads; fsspec's read-ahead is the only buffer."""
        with _translated(self.display(path)):
            return cast(BinaryIO, self._filesystem.open(path, "rb"))


class FsspecObjects:
    """An object store through fsspec's own verbs; `create` are the options that make a write conditional.

    Copies pass through this machine, because fsspec's know no conditions.
    """

    def __init__(self, filesystem: Any, scheme: str, create: Mapping[str, Any]) -> None:
        self._filesystem = filesystem
        self._scheme = scheme
        self._create = create

    def url(self, path: str) -> str:
        return f"{self._scheme}://{path.lstrip('/')}"

    def head(self, path: str) -> Item | None:
        try:
            with _translated(self.url(path)):
                info = self._filesystem.info(path)
        except NoSuchTableError:
            return None
        return None if info["type"] == "directory" else _item(path, info)

    def below(self, path: str) -> Iterator[Item]:
        with _translated(self.url(path)):
            infos = self._filesystem.find(path, detail=True)
        for name, info in sorted(infos.items()):
            if relative := self._relative(name, path):
                yield _item(f"{path}/{relative}", info)

    def entries(self, path: str) -> Iterable[DirectoryEntry]:
        with _translated(self.url(path)):
            infos = self._filesystem.ls(path, detail=True)
        for info in infos:
            name = self._relative(str(info["name"]), path).rstrip("/")
            if info["type"] == "directory" and name:
                yield DirectoryEntry(name, True)
            elif name and (entry := entry_of(path, _item(f"{path}/{name}", info))) is not None:
                yield entry

    def any_below(self, path: str) -> bool:
        try:
            with _translated(self.url(path)):
                # Some keep empty directories of which all objects are gone.
                return any(files for _, _, files in self._filesystem.walk(path))
        except NoSuchTableError:
            return False

    def read(self, item: Item, offset: int, length: int) -> bytes:
        with _translated(self.url(item.path)):
            return bytes(self._filesystem.cat_file(item.path, start=offset, end=offset + length))

    def put(self, path: str, data: bytes) -> None:
        with _translated(self.url(path)):
            self._filesystem.pipe_file(path, data, **self._create)

    def create(self, path: str) -> NewFile:
        """Collected here first: writers of fsspec replace what is there when they are given nothing."""

        def send(local: str) -> None:
            with _translated(self.url(path)):
                self._filesystem.put_file(local, path, **self._create)

        return _Spooled(send)

    def copy(self, source: Item, target: str) -> None:
        reading = _translated(self.url(source.path))
        with self.create(target) as copy, reading, self._filesystem.open(source.path, "rb") as stream:
            shutil.copyfileobj(stream, copy, _COPY_BYTES)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            with _translated(self.url(path)), suppress(FileNotFoundError):
                self._filesystem.rm_file(path)

    def forget(self, path: str) -> None:
        """Nothing is known of unfinished uploads."""

    def _relative(self, name: str, path: str) -> str:
        """A name as the file system spells it, below a path."""
        start = str(self._filesystem._strip_protocol(path)).rstrip("/") + "/"
        return name[len(start) :] if name.startswith(start) else ""


class _Spooled(NewFile):
    def __init__(self, send: Callable[[str], None]) -> None:
        super().__init__(_COPY_BYTES)
        self._send_file = send
        self._file = tempfile.NamedTemporaryFile(prefix="acidctl-")  # noqa: SIM115

    def _send(self) -> None:
        self._file.write(self._buffer)
        self._buffer.clear()

    def _finish(self) -> None:
        self._send()
        self._file.flush()
        self._send_file(self._file.name)
        self._file.close()

    def _abandon(self, failure: BaseException | None = None) -> None:
        self._file.close()


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    """The storage of a URL and the path within it; on object stores that is all behind the slashes, as it is."""
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **{**UNCACHED, **options})
    except ImportError as error:
        message = f"reading {scheme}: needs a package that is not installed"
        raise MissingDependencyError(message, hint=str(error)) from error
    except ValueError as error:
        raise UsageError(
            f"{scheme}: is not a storage that acidctl or fsspec knows",
            hint="Use a local path, file:, hdfs:, webhdfs:, s3: or another scheme known to fsspec.",
        ) from error
    except Exception as error:
        reason = without_signatures(" ".join(str(error).split()))
        raise StorageError(f"{scheme}: cannot be opened: {reason}") from error
    if scheme in _CREATE:
        objects = FsspecObjects(filesystem, scheme, _CREATE[scheme])
        return ObjectStorage(objects, _OBJECTS), str(path)
    return FsspecStorage(filesystem), path


@contextmanager
def _translated(shown: str) -> Iterator[None]:
    """Implementations raise what they like; a user gets one sentence."""
    try:
        yield
    except AcidctlError:
        raise
    except FileNotFoundError as error:
        raise NoSuchTableError(f"{shown} does not exist", path=shown) from error
    except FileExistsError as error:
        raise already_exists(shown) from error
    except Exception as error:
        reason = without_signatures(" ".join(str(error).split())) or type(error).__name__
        raise StorageError(
            f"{shown} cannot be used: {reason}",
            path=shown,
            hint="Check address, network and credentials (environment, or [storage] in the config file).",
        ) from error


def _item(path: str, info: Mapping[str, Any]) -> Item:
    stat = _stat_of(info)
    return Item(path, stat.size, stat.modified, str(info.get("etag") or info.get("ETag") or ""))


def _stat_of(info: Mapping[str, Any]) -> PathStat:
    """fsspec fixes `type` and `size`; the time has a name and a type of each implementation's own."""
    modified = next((info[key] for key in _TIMES if info.get(key)), None)
    if isinstance(modified, datetime):
        modified = modified.timestamp()
    return PathStat(
        info["type"] == "directory",
        int(info.get("size") or 0),
        modified if isinstance(modified, int | float) else None,
    )
