"""Any file system that fsspec knows, through `ls`, `info` and `open` alone, with all its caches off.

It reads; the verbs that change data are refused, because fsspec promises neither an atomic rename nor an
exclusive create.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, BinaryIO, NoReturn, cast

import fsspec

from acidctl.errors import AcidctlError, MissingDependencyError, NoSuchTableError, StorageError, UsageError
from acidctl.listing import FileInfo
from acidctl.storage.port import Descend, Facts, PathStat, Walk
from acidctl.storage.redact import without_credentials, without_secret

_FACTS = Facts(atomic_rename=False, exclusive_create=False, mtimes=True, owner_and_mode=False, trash=False)
_EXTRAS = {"s3": "s3"}


class FsspecStorage:
    """One fsspec file system; `scheme` is what the user typed before the colon."""

    def __init__(self, filesystem: Any, scheme: str) -> None:
        self._filesystem = filesystem
        self._scheme = scheme

    @property
    def facts(self) -> Facts:
        """Only what every fsspec implementation has."""
        return _FACTS

    def display(self, path: str) -> str:
        """The URL of a path."""
        return without_secret(str(self._filesystem.unstrip_protocol(path)))

    def stat(self, path: str) -> PathStat | None:
        """Object stores know no empty directory: there, a prefix without objects does not exist."""
        try:
            with self._translated(path):
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
            with self._translated(path):
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
        with self._translated(path):
            return cast(BinaryIO, self._filesystem.open(path, "rb"))

    def create(self, path: str) -> BinaryIO:
        """Refused."""
        self._refuse_writing(path)

    def create_exclusive(self, path: str, data: bytes) -> None:
        """Refused."""
        self._refuse_writing(path)

    def mkdir(self, path: str) -> None:
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

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        """Implementations raise what they like; a user gets one sentence."""
        try:
            yield
        except AcidctlError:
            raise
        except FileNotFoundError as error:
            raise NoSuchTableError(f"{self.display(path)} does not exist", path=self.display(path)) from error
        except Exception as error:
            reason = without_credentials(" ".join(str(error).split())) or type(error).__name__
            raise StorageError(
                f"{self.display(path)} cannot be used: {reason}",
                path=self.display(path),
                hint="Check address, network and credentials (environment, or [storage] in the config file).",
            ) from error


def connect(url: str, scheme: str, options: Mapping[str, Any]) -> tuple[FsspecStorage, str]:
    """The file system of a URL and the path within it."""
    uncached = {"use_listings_cache": False, "skip_instance_cache": True, **options}
    try:
        filesystem, path = fsspec.core.url_to_fs(url, **uncached)
    except ImportError as error:
        extra = _EXTRAS.get(scheme)
        install = f"pip install 'acidctl[{extra}]'" if extra else str(error)
        raise MissingDependencyError(
            f"reading {scheme}: needs a package that is not installed", hint=install
        ) from error
    except ValueError as error:
        raise UsageError(
            f"{scheme}: is not a storage that acidctl or fsspec knows",
            hint="Use a local path, file:, s3: or another scheme known to fsspec.",
        ) from error
    except Exception as error:
        reason = without_credentials(" ".join(str(error).split()))
        raise StorageError(f"{scheme}: cannot be opened: {reason}") from error
    return FsspecStorage(filesystem, scheme), path


def _stat_of(info: Mapping[str, Any]) -> PathStat:
    """fsspec fixes `type` and `size`; the time has a name and a type of each implementation's own."""
    modified = next((info[key] for key in ("mtime", "LastModified", "last_modified", "created") if info.get(key)), None)
    if isinstance(modified, datetime):
        modified = modified.timestamp()
    return PathStat(
        info["type"] == "directory",
        int(info.get("size") or 0),
        modified if isinstance(modified, int | float) else None,
    )
