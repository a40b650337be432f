"""HDFS as a storage, whatever protocol it is asked by: owners, kinds of entries, the trash."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from acidctl.errors import DeniedError, ExistsError, StorageError
from acidctl.storage.hadoopfault import MissingError
from acidctl.storage.port import Descend, Facts, PathStat, Walk, join
from acidctl.storage.treewalk import Found, walk_tree

_COPY_BYTES = 4 << 20
_MODE = 0o1777
_DIRECTORY_MODE = 0o755


@dataclass(frozen=True, slots=True)
class Status:
    """What stands at a path: size in bytes, `modified` in seconds since 1970 UTC, `mode` with the sticky bit."""

    is_directory: bool
    size: int
    modified: float
    owner: str
    group: str
    mode: int


class HadoopStorage(ABC):
    """One HDFS; `authority` is what stands after the scheme in its addresses."""

    def __init__(self, scheme: str, authority: str) -> None:
        self._base = f"{scheme}://{authority}"
        self._facts: Facts | None = None

    @abstractmethod
    def _status(self, path: str) -> Status | None:
        """None when nothing stands at the path, also below a file."""

    @abstractmethod
    def _list(self, path: str) -> Iterable[Found]:
        """The entries of a directory; NoSuchTableError when there is none."""

    @abstractmethod
    def _set_owner(self, path: str, owner: str | None, group: str) -> None:
        """Owner and group, or the group alone."""

    @abstractmethod
    def _set_mode(self, path: str, mode: int) -> None:
        """Permission bits."""

    @abstractmethod
    def _delete(self, path: str, *, recursive: bool) -> None:
        """Remove what is there: a file, or a directory and all below it."""

    @abstractmethod
    def _has_trash(self) -> bool:
        """Whether the server's interval, else this client's, keeps what is discarded, as Hadoop decides."""

    @abstractmethod
    def _trash(self, path: str) -> str:
        """The directory into which a path is discarded."""

    @abstractmethod
    def _make_private(self, path: str) -> None:
        """Make a directory with all its parents, for this user alone."""

    @abstractmethod
    def create(self, path: str, like: str | None = None) -> BinaryIO:
        """See `port.Storage.create`."""

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """See `port.Storage.open`."""

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """See `port.Storage.move`."""

    @property
    def facts(self) -> Facts:
        """HDFS's promises; whether there is a trash is asked once."""
        if self._facts is None:
            self._facts = Facts(
                atomic_rename=True,
                exclusive_create=True,
                mtimes=True,
                owner_and_mode=True,
                trash=self._has_trash(),
            )
        return self._facts

    def display(self, path: str) -> str:
        """The URL, its path as it is."""
        return self._base + path

    def stat(self, path: str) -> PathStat | None:
        """One request."""
        status = self._status(path)
        return None if status is None else PathStat(status.is_directory, status.size, status.modified)

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        """One listing per directory, in pages, many at once."""
        return walk_tree(self._list, root, descend)

    def inherit(self, path: str, like: str) -> None:
        """Only HDFS's superuser gives files away, and groups go to their members: what is refused stays as it is.

        Access lists need nothing: what is made below a directory inherits its default list.
        """
        model, found = self._existing(like), self._existing(path)
        self._give_as(path, model, found)
        mode = model.mode & _MODE
        if model.is_directory and not found.is_directory:
            mode &= 0o666
        if mode != found.mode & _MODE:
            with suppress(DeniedError):
                self._set_mode(path, mode)

    def rename_dir(self, source: str, target: str) -> None:
        """As `move`, directories only."""
        self._require_directory(source)
        self.move(source, target)

    def remove_tree(self, path: str) -> None:
        """One request takes the whole tree."""
        self._require_directory(path)
        self._delete(path, recursive=True)

    def remove_file(self, path: str) -> None:
        """HDFS would take an empty directory too."""
        if self._existing(path).is_directory:
            raise StorageError(f"{self.display(path)} is a directory", path=self.display(path))
        self._delete(path, recursive=False)

    def copy_file(self, source: str, target: str) -> None:
        """Through this machine: HDFS copies nothing by itself."""
        with self.open(source) as stream, self.create(target) as copy:
            shutil.copyfileobj(stream, copy, _COPY_BYTES)

    def discard(self, path: str) -> None:
        """Below `Current` of the trash, at its own path; the time is added to a name that is taken, as Hadoop does."""
        shown = self.display(path)
        if not self.facts.trash:
            raise StorageError(f"{shown} cannot be moved to a trash: this HDFS has none", path=shown)
        self._existing(path)
        current = self._trash(path)
        parent, _, name = path.rpartition("/")
        moment = f"{time.time_ns() // 1_000_000}"
        place = current + parent
        try:
            self._make_private(place)
        except (ExistsError, MissingError):
            # Something was discarded under the name of one of this path's parents, and is a file.
            taken = place
            while taken != current and self._status(taken) is None:
                taken = taken.rpartition("/")[0]
            place = taken + moment + place.removeprefix(taken)
            self._make_private(place)
        try:
            self.move(path, join(place, name))
        except ExistsError:
            self.move(path, join(place, name + moment))

    def _new_mode(self, like: str | None) -> int | None:
        """The mode that a new file is made with; None leaves it to the server."""
        if like is None:
            return None
        model = self._existing(like)
        return model.mode & (0o666 if model.is_directory else _MODE)

    def _make_directory(self, path: str, like: str | None, make: Callable[[int], None]) -> None:
        """Make a directory by a call that is given its mode, with the owner of another where that may be."""
        if like is None:
            make(_DIRECTORY_MODE)
            return
        model = self._existing(like)
        make(model.mode & _MODE | 0o700)
        self._give_as(path, model, self._existing(path))

    def _give_as(self, path: str, model: Status, found: Status) -> None:
        """Owner and group of another, as far as this user may."""
        if model.owner != found.owner:
            self._give(path, model.owner, model.group)
        elif model.group != found.group:
            self._give(path, None, model.group)

    def _existing(self, path: str) -> Status:
        status = self._status(path)
        if status is None:
            raise MissingError(f"{self.display(path)} does not exist", path=self.display(path))
        return status

    def _require_directory(self, path: str) -> None:
        if not self._existing(path).is_directory:
            raise StorageError(f"{self.display(path)} is not a directory", path=self.display(path))

    def _give(self, path: str, owner: str | None, group: str) -> None:
        """Owner and group together, else the group alone."""
        try:
            self._set_owner(path, owner, group)
        except DeniedError:
            if owner is not None:
                self._give(path, None, group)
