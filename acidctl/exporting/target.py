"""Where an export goes, and how it gets there: written under a hidden name, then shown as a whole or not at all.

The hidden name stands beside the target, on the same storage, begins with a dot and ends in `.part`: neither Hive nor
Spark nor a pattern of names takes it for data. Publishing is a rename that replaces nothing. What `overwrite` agrees to
replace changes its name with the new in one step and is removed then; where that is not offered, it is renamed to a
hidden name first and removed last, and a run that finds it there, and nothing or a part under its name, gives it that
name back. Where nothing can be renamed, on object stores, one file still appears at once; a directory appears file by
file, and `_SUCCESS` in it comes last, and goes first from one that is replaced.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from acidctl.errors import AcidctlError, ExistsError, StorageError, UsageError
from acidctl.storage.local import LocalStorage, is_special, whole_file
from acidctl.storage.port import PathStat, Storage, join

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
            with whole_file(self.work) as special:
                yield special
            return
        with self.storage.create(self.place(relative)) as stream:
            yield stream


class Target(WorkPlace):
    """A file or a directory that is to be made at a path; use `work` until `publish` or `abandon`."""

    def __init__(self, storage: Storage, path: str, *, folder: bool, overwrite: bool) -> None:
        """Makes nothing yet; ExistsError and UsageError for what may not be replaced."""
        # A rename would put a file in the place of a device or a pipe.
        special = isinstance(storage, LocalStorage) and is_special(path)
        if isinstance(storage, LocalStorage) and os.path.islink(path) and not special:
            path = os.path.realpath(path)  # a link stays a link
        name = path.rpartition("/")[2]
        if name in ("", ".", ".."):
            shown = storage.display(path)
            raise UsageError(f"--to {shown} names no file or directory of its own", path=shown)
        beside = path[: len(path) - len(name)]
        token = secrets.token_hex(4)
        super().__init__(storage, path if special else f"{beside}.{name}.{token}.part", special=special)
        self.path = path
        self.folder = folder
        self._previous = f"{beside}.{name}.acidctl-old"
        # Says that all of a directory was moved there, where that takes a while.
        self._whole = f"{self._previous}.whole"
        self._made: set[str] = set()
        #: What earlier runs have left, and what became of it: sentences.
        self.notes: list[str] = []
        self._replaces = False if self.is_special else self._may_replace(overwrite)
        if not self.is_special and (overwrite or storage.facts.empty_directories):
            self._note_parts(beside, f".{name}.")

    @property
    def shown(self) -> str:
        """The target as a user would type it."""
        return self.storage.display(self.path)

    def _may_replace(self, overwrite: bool) -> bool:
        """Whether there is something, which may be replaced."""
        found = self.storage.stat(self.path)
        if overwrite and (found is None or found.is_directory == self.folder):
            found = self._recovered(found)
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

    def _recovered(self, found: PathStat | None) -> PathStat | None:
        """What stands at the path after a run that was killed while it replaced that."""
        storage = self.storage
        if storage.stat(self._previous) is None:
            return found
        if found is not None and self._is_half():
            storage.remove_tree(self.path)
            found = None
        self._forget_whole()
        if found is None:
            storage.move(self._previous, self.path)
            self.notes.append(
                f"an earlier run was killed while it replaced {self.shown}; what it had moved away is back"
            )
            return storage.stat(self.path)
        self._remove(self._previous)
        self.notes.append(f"removed {storage.display(self._previous)}, which a run that was killed had replaced")
        return found

    def _is_half(self) -> bool:
        """Whether a part of a directory stands at the path, while all of the old one was moved away.

        Where nothing can be renamed all is copied before anything is deleted, there and back.
        """
        if not self.folder or self.storage.facts.atomic_rename or self.storage.stat(join(self.path, SUCCESS)):
            return False
        there, moved = ({info.path for info in self.storage.walk(at).files} for at in (self.path, self._previous))
        return self.storage.stat(self._whole) is not None or not moved <= there

    def _forget_whole(self) -> None:
        """Before anything of what was moved away is deleted."""
        if not self.storage.facts.atomic_rename and self.storage.stat(self._whole) is not None:
            self.storage.remove_file(self._whole)

    def _note_parts(self, beside: str, start: str) -> None:
        """Of those that write there now nobody can tell whether they live, so that nothing is removed."""
        names: list[str] = []

        def note(relative: str) -> bool:
            names.append(relative)
            return False

        with suppress(AcidctlError):
            names += [info.path for info in self.storage.walk(beside or os.curdir, note).files]
        left = [name for name in names if name.startswith(start) and name.endswith(".part")]
        for name in left[:1]:
            more = f" and {len(left) - 1:,} more like it" if len(left) > 1 else ""
            shown = self.storage.display(f"{beside}{name}")
            self.notes.append(
                f"{shown}{more}: left by an export that was killed, or of one that still runs; if none runs, remove it"
            )

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
        at_once = storage.facts.atomic_rename
        if self.folder and at_once:
            self.make_folders(SUCCESS)
            storage.create_exclusive(join(self.work, SUCCESS), b"")
        if self._replaces and at_once and storage.exchange(self.work, self.path):
            self._remove(self.work)
            return
        with self._moved_away():
            # Without directories there is nothing to move of an export without files.
            if at_once or storage.stat(self.work) is not None:
                storage.move(self.work, self.path)
            if self.folder and not at_once:
                storage.create_exclusive(join(self.path, SUCCESS), b"")

    @contextmanager
    def _moved_away(self) -> Iterator[None]:
        """What is replaced has a hidden name meanwhile; it comes back where the block fails, and goes otherwise."""
        storage, marker = self.storage, join(self.path, SUCCESS)
        apart = self.folder and not storage.facts.atomic_rename
        moved = marked = False
        try:
            if self._replaces:
                marked = apart and storage.stat(marker) is not None
                if marked:
                    storage.remove_file(marker)
                moved = True
                storage.move(self.path, self._previous)
                if apart:
                    storage.create_exclusive(self._whole, b"")
            yield
        except BaseException:
            with suppress(AcidctlError):
                if moved and storage.stat(self.path) is None:
                    self._forget_whole()
                    storage.move(self._previous, self.path)
                if marked and storage.stat(self._previous) is None:
                    storage.create_exclusive(marker, b"")
            raise
        if moved:
            with suppress(AcidctlError):
                self._forget_whole()
                self._remove(self._previous)

    def abandon(self) -> None:
        """Remove what was written so far, as far as that can be done."""
        if not self.is_special:
            self._remove(self.work)

    def _remove(self, path: str) -> None:
        with suppress(AcidctlError):
            (self.storage.remove_tree if self.folder else self.storage.remove_file)(path)
