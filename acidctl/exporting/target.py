"""Where an export goes, and how it gets there: written under a hidden name, then shown as a whole or not at all.

The hidden name stands beside the target, on the same storage, begins with a dot and ends in `.part`: neither Hive nor
Spark nor a pattern of names takes it for data. Publishing is a rename that replaces nothing; what `overwrite` agrees to
replace is renamed to a hidden name first and removed last. Where nothing can be renamed, on object stores, one file
still appears at once; a directory appears file by file, and `_SUCCESS` in it comes last.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from acidctl.errors import AcidctlError, ExistsError, StorageError, UsageError
from acidctl.storage.local import LocalStorage, is_special, whole_file
from acidctl.storage.port import Storage, join

SUCCESS = "_SUCCESS"
_OURS = (".parquet", ".arrow", ".csv", ".jsonl", ".gz", ".zst")


class WorkPlace:
    """Where the files of an export are written: below `work`, or `work` itself; for any number of threads."""

    def __init__(self, storage: Storage, work: str, *, special: bool = False) -> None:
        """`special` is what is neither a file nor a directory: it is written to as it is."""
        self.storage = storage
        self.work = work
        self.is_special = special

    def place(self, relative: str) -> str:
        """The path of a file of the export, given its path below the target (empty for a single file)."""
        return join(self.work, relative)

    @contextmanager
    def create(self, relative: str) -> Iterator[BinaryIO]:
        """A new file of the export; where the block ends by an exception there is none."""
        if self.is_special:
            with whole_file(self.work) as path, open(path, "wb") as special:
                yield special
            return
        with self.storage.create(self.place(relative)) as stream:
            yield stream


class Target(WorkPlace):
    """A file or a directory that is to be made at a path; use `work` until `publish` or `abandon`."""

    def __init__(self, storage: Storage, path: str, *, folder: bool, overwrite: bool) -> None:
        """Makes nothing yet; ExistsError and UsageError for what may not be replaced."""
        if isinstance(storage, LocalStorage) and os.path.islink(path):
            path = os.path.realpath(path)  # a link stays a link
        name = path.rpartition("/")[2]
        if name in ("", ".", ".."):
            shown = storage.display(path)
            raise UsageError(f"--to {shown} names no file or directory of its own", path=shown)
        beside = path[: len(path) - len(name)]
        token = secrets.token_hex(4)
        # A rename would put a file in the place of a device or a pipe.
        special = isinstance(storage, LocalStorage) and is_special(path)
        super().__init__(storage, path if special else f"{beside}.{name}.{token}.part", special=special)
        self.path = path
        self.folder = folder
        self._previous = f"{beside}.{name}.{token}.old"
        self._made: set[str] = set()
        self._replaces = False if self.is_special else self._may_replace(overwrite)

    @property
    def shown(self) -> str:
        """The target as a user would type it."""
        return self.storage.display(self.path)

    def _may_replace(self, overwrite: bool) -> bool:
        """Whether there is something, which may be replaced."""
        found = self.storage.stat(self.path)
        if found is None:
            self._require_parent()
            return False
        if found.is_directory != self.folder:
            kind = "directory" if found.is_directory else "file"
            raise ExistsError(
                f"{self.shown} cannot be written: it is a {kind}",
                path=self.shown,
                hint="Choose another name; a directory of files is made of a name that ends in /.",
            )
        if not overwrite:
            raise ExistsError(
                f"{self.shown} exists already",
                path=self.shown,
                hint="Add --overwrite to replace it, or choose another name.",
            )
        if self.folder:
            for info in self.storage.walk(self.path).files:
                name = info.path.rpartition("/")[2]
                if not name.startswith(("_", ".")) and not name.endswith(_OURS):
                    raise ExistsError(
                        f"{self.shown} holds {info.path}, which no export has written, so it is not replaced",
                        path=self.shown,
                        hint="Choose another name, or remove that directory by hand.",
                    )
        return True

    def _require_parent(self) -> None:
        parent = self.path.rpartition("/")[0] or ("/" if self.path.startswith("/") else os.curdir)
        if self.storage.facts.empty_directories:
            found = self.storage.stat(parent)
            if found is None or not found.is_directory:
                why = "does not exist" if found is None else "is not a directory"
                shown = self.storage.display(parent)
                raise StorageError(
                    f"{self.shown} cannot be written: {shown} {why}", path=self.shown, hint="Make that directory first."
                )

    def make_folders(self, relative: str) -> None:
        """Make the directories above a file of the export; for one thread."""
        if not self.folder:
            return
        parts = relative.split("/")[:-1]
        for depth in range(len(parts) + 1):
            path = join(self.work, "/".join(parts[:depth]))
            if path not in self._made:
                self._made.add(path)
                if self.storage.facts.empty_directories:
                    self.storage.mkdir(path)

    def publish(self) -> None:
        """Show the export under its name; StorageError, and nothing is changed, where something stands there by now."""
        if self.is_special:
            return
        storage = self.storage
        if self.folder and storage.facts.atomic_rename:
            self.make_folders(SUCCESS)
            storage.create_exclusive(join(self.work, SUCCESS), b"")
        if self._replaces:
            storage.move(self.path, self._previous)
        try:
            # Without directories there is nothing to move of an export without files.
            if storage.facts.atomic_rename or storage.stat(self.work) is not None:
                storage.move(self.work, self.path)
            if self.folder and not storage.facts.atomic_rename:
                storage.create_exclusive(join(self.path, SUCCESS), b"")
        except BaseException:
            if self._replaces:
                with suppress(AcidctlError):
                    storage.move(self._previous, self.path)
            raise
        if self._replaces:
            self._remove(self._previous)

    def abandon(self) -> None:
        """Remove what was written so far, as far as that can be done."""
        if not self.is_special:
            self._remove(self.work)

    def _remove(self, path: str) -> None:
        with suppress(AcidctlError):
            (self.storage.remove_tree if self.folder else self.storage.remove_file)(path)
