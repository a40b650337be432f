"""Everything that fsspec knows: S3 and other object stores for reading and writing, any other file system for reading.

All caches are off: what a table holds is asked of the server each time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import IO, Any, BinaryIO, NoReturn, cast

import fsspec

from acidctl.errors import (
    AcidctlError,
    ExistsError,
    MissingDependencyError,
    NoSuchTableError,
    StorageError,
    UsageError,
)
from acidctl.format.listing import FileInfo
from acidctl.storage.objects import OBJECT_FACTS, Item, ObjectStorage, entry_of
from acidctl.storage.port import Descend, Facts, PathStat, Storage, Walk
from acidctl.storage.redact import without_secret, without_signatures
from acidctl.storage.remote_options import aws_region
from acidctl.storage.treewalk import Found

_READING = Facts(atomic_rename=False, exclusive_create=False, mtimes=True, owner_and_mode=False, trash=False)
_OBJECTS = replace(OBJECT_FACTS, knows_own=False)
_EXTRAS = {"s3": "s3"}
# Options of s3fs that are settings themselves.
_TABLES = ("config_kwargs", "client_kwargs", "s3_additional_kwargs")
_UNCACHED = {"use_listings_cache": False, "skip_instance_cache": True}
# What makes a write conditional, by scheme: `mode` of fsspec, which gcsfs sends as ifGenerationMatch=0; adlfs has a
# name of its own for If-None-Match.
_CREATE: Mapping[str, Mapping[str, Any]] = {
    **{scheme: {"mode": "create"} for scheme in ("memory", "gs", "gcs")},
    **{scheme: {"overwrite": False} for scheme in ("abfs", "abfss", "az")},
}
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


class FsspecStorage:
    """One fsspec file system, for reading; `scheme` is what the user typed before the colon."""

    def __init__(self, filesystem: Any, scheme: str) -> None:
        self._filesystem = filesystem
        self._scheme = scheme

    @property
    def facts(self) -> Facts:
        """Only what every fsspec implementation has."""
        return _READING

    def display(self, path: str) -> str:
        """The URL of a path."""
        return without_secret(str(self._filesystem.unstrip_protocol(path)))

    def stat(self, path: str) -> PathStat | None:
        """Object stores know no empty directory: there, a prefix without objects does not exist."""
        try:
            with _translated(self.display(path)):
                return _stat_of(self._filesystem.info(path))
        except NoSuchTableError:
            return None

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """One `ls` per directory."""
        files: list[FileInfo] = []
        directories: list[str] = []
        pending = [("", root)]
        while pending:
            relative, path = pending.pop()
            with _translated(self.display(path)):
                entries = self._filesystem.ls(path, detail=True)
            for entry in entries:
                full = str(entry["name"]).rstrip("/")
                name = full.rpartition("/")[2]
                if full == path.rstrip("/") or not name:
                    continue  # object stores list a directory's own placeholder inside it
                child = f"{relative}/{name}" if relative else name
                found = _stat_of(entry)
                if not found.is_directory:
                    files.append(FileInfo(child, found.size, found.modified))
                elif descend is None or descend(child):
                    directories.append(child)
                    pending.append((child, full))
        return Walk(tuple(sorted(files, key=lambda info: info.path)), tuple(sorted(directories)))

    def open(self, path: str) -> BinaryIO:
        """Ranged reads; fsspec's read-ahead is the only buffer."""
        with _translated(self.display(path)):
            return cast(BinaryIO, self._filesystem.open(path, "rb"))

    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """Refused."""
        self._refuse_writing(path)

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """Refused."""
        self._refuse_writing(path)

    def mkdir(self, path: str, like: str | None = None) -> None:
        """Refused."""
        self._refuse_writing(path)

    def inherit(self, path: str, like: str) -> None:
        """Refused."""
        self._refuse_writing(path)

    def rename_dir(self, source: str, target: str) -> None:
        """Refused."""
        self._refuse_writing(source)

    def remove_tree(self, path: str) -> None:
        """Refused."""
        self._refuse_writing(path)

    def remove_file(self, path: str) -> None:
        """Refused."""
        self._refuse_writing(path)

    def move(self, source: str, target: str) -> None:
        """Refused."""
        self._refuse_writing(source)

    def copy_file(self, source: str, target: str) -> None:
        """Refused."""
        self._refuse_writing(target)

    def discard(self, path: str) -> None:
        """Refused."""
        self._refuse_writing(path)

    def hosts(self, path: str) -> tuple[str, ...]:
        """Unknown."""
        return ()

    def _refuse_writing(self, path: str) -> NoReturn:
        raise StorageError(f"{self.display(path)}: acidctl reads {self._scheme}: but does not write to it", path=path)


class FsspecObjects:
    """An object store through fsspec's own verbs; `create` are the options that make a write conditional.

    Copies pass through this machine, because fsspec's know no conditions.
    """

    def __init__(self, filesystem: Any, scheme: str, create: Mapping[str, Any]) -> None:
        self._filesystem = filesystem
        self._scheme = scheme
        self._create = create

    def url(self, path: str) -> str:
        """With the scheme that was typed."""
        return f"{self._scheme}://{path.lstrip('/')}"

    def head(self, path: str) -> Item | None:
        """What `info` says."""
        try:
            with _translated(self.url(path)):
                info = self._filesystem.info(path)
        except NoSuchTableError:
            return None
        return None if info["type"] == "directory" else _item(path, info)

    def below(self, path: str) -> Iterator[Item]:
        """What `find` says."""
        with _translated(self.url(path)):
            found = self._filesystem.find(path, detail=True)
        for name, info in sorted(found.items()):
            if self._relative(name, path):
                yield _item(f"{path}/{self._relative(name, path)}", info)

    def entries(self, path: str) -> Iterable[Found]:
        """What `ls` says."""
        with _translated(self.url(path)):
            found = self._filesystem.ls(path, detail=True)
        for info in found:
            name = self._relative(str(info["name"]), path).rstrip("/")
            if info["type"] == "directory" and name:
                yield Found(name, True)
            elif name and (entry := entry_of(path, _item(f"{path}/{name}", info))) is not None:
                yield entry

    def any_below(self, path: str) -> bool:
        """What `info` says of a directory."""
        try:
            with _translated(self.url(path)):
                return bool(self._filesystem.info(path)["type"] == "directory") and bool(self._filesystem.ls(path))
        except NoSuchTableError:
            return False

    def read(self, item: Item, offset: int, length: int) -> bytes:
        """What `cat_file` gives."""
        with _translated(self.url(item.path)):
            return bytes(self._filesystem.cat_file(item.path, start=offset, end=offset + length))

    def put(self, path: str, data: bytes) -> None:
        """Conditional."""
        with _translated(self.url(path)):
            self._filesystem.pipe_file(path, data, **self._create)

    def upload(self, path: str) -> _Spooled:
        """Collected here first: writers of fsspec replace what is there when they are given nothing."""
        return _Spooled(self, path)

    def copy(self, source: Item, target: str) -> None:
        """Through this machine."""
        upload = _Spooled(self, target)
        with upload.file, _translated(self.url(source.path)):
            with self._filesystem.open(source.path, "rb") as stream:
                shutil.copyfileobj(stream, upload.file, 1 << 20)
            upload.finish()

    def delete(self, paths: Sequence[str]) -> None:
        """One by one where fsspec has no better way."""
        with _translated(self.url(paths[0]) if paths else self._scheme):
            for path in paths:
                try:
                    self._filesystem.rm_file(path)
                except FileNotFoundError:
                    continue

    def forget(self, path: str) -> None:
        """Nothing is known of unfinished uploads."""

    def send(self, path: str, file: IO[bytes]) -> None:
        """Write what a local file holds; conditional."""
        with _translated(self.url(path)):
            self._filesystem.put_file(file.name, path, **self._create)

    def _relative(self, name: str, path: str) -> str:
        """A name as the file system spells it, below a path."""
        start = str(self._filesystem._strip_protocol(path)).rstrip("/") + "/"
        return name[len(start) :] if name.startswith(start) else ""


class _Spooled:
    """An object that is collected in a local file that nobody else sees."""

    def __init__(self, objects: FsspecObjects, path: str) -> None:
        self._objects = objects
        self._path = path
        self.file = tempfile.NamedTemporaryFile(prefix="acidctl-")  # noqa: SIM115

    def add(self, data: bytes) -> None:
        """The next bytes."""
        self.file.write(data)

    def finish(self) -> None:
        """Write it."""
        self.file.flush()
        try:
            self._objects.send(self._path, cast(IO[bytes], self.file))
        finally:
            self.file.close()

    def abort(self) -> None:
        """Forget it."""
        self.file.close()


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    """The storage of a URL and the path within it; on object stores that is all behind the slashes, as it is."""
    if scheme == "s3":
        return _connect_s3(url, options)
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **{**_UNCACHED, **options})
    except ImportError as error:
        raise _missing(scheme, str(error)) from error
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
    return FsspecStorage(filesystem, scheme), path


def _connect_s3(url: str, options: Mapping[str, Any]) -> tuple[Storage, str]:
    try:
        from s3fs import S3FileSystem

        from acidctl.storage.s3 import DEFAULT_CONFIG, FACTS, S3Objects
    except ImportError as error:
        raise _missing("s3", str(error)) from error
    for name in _TABLES:
        if not isinstance(options.get(name, {}), Mapping):
            raise UsageError(
                f"the option {name} of [storage] for s3: is no table of settings",
                hint=f'Write it as {name} = {{ "NAME" = "VALUE" }}.',
            )
    config = {**DEFAULT_CONFIG, **options.get("config_kwargs", {})}
    client = {**options.get("client_kwargs", {})}
    region = aws_region(os.environ)
    if region is not None:
        client.setdefault("region_name", region)

    def make() -> Any:
        filesystem = S3FileSystem(**{**_UNCACHED, **options, "config_kwargs": config, "client_kwargs": client})
        filesystem.retries = 1
        return filesystem

    path = url.partition("://")[2]
    try:
        objects = S3Objects(make)
    except (TypeError, ValueError) as error:
        raise UsageError(
            "the options of [storage] for s3: cannot be used",
            hint="They are the arguments of s3fs.S3FileSystem: key, secret, token, profile, endpoint_url and others.",
        ) from error
    if not path.strip("/"):
        raise UsageError(f"{url} names no bucket", hint="Give s3://BUCKET/PATH of the table's directory.")
    return ObjectStorage(objects, FACTS), path


def _missing(scheme: str, reason: str) -> MissingDependencyError:
    extra = _EXTRAS.get(scheme)
    install = f"pip install 'acidctl[{extra}]'" if extra else reason
    return MissingDependencyError(f"reading {scheme}: needs a package that is not installed", hint=install)


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
        raise ExistsError(f"{shown} exists already", path=shown) from error
    except Exception as error:
        reason = without_signatures(" ".join(str(error).split())) or type(error).__name__
        raise StorageError(
            f"{shown} cannot be used: {reason}",
            path=shown,
            hint="Check address, network and credentials (environment, or [storage] in the config file).",
        ) from error


def _item(path: str, info: Mapping[str, Any]) -> Item:
    found = _stat_of(info)
    return Item(path, found.size, found.modified, str(info.get("etag") or info.get("ETag") or ""))


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
