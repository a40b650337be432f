"""Where an export goes, and how it gets there: written under a hidden name, then shown as a whole or not at all.

The hidden name stands beside the target, on the same storage, begins with a dot and ends in `.part`: neither Hive nor
Spark nor a pattern of names takes it for data. Beside it lies a file that names its owner, by which a later run knows
that the owner is dead. Publishing is a rename that replaces nothing. What `overwrite` agrees to replace changes its
name with the new in one step and is removed then; where that is not offered, it is renamed to a hidden name first and
removed last, and a run that finds it there, and nothing or a part under its name, gives it that name back. Where
nothing can be renamed, on object stores, one file still appears at once; a directory appears file by file, its list
first, and `_SUCCESS` in it comes last, and goes first from one that is replaced.

Nothing is replaced or removed that is not known as an export of ours: see `acidctl.exporting.manifest`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from acidctl.errors import AcidctlError, ExistsError, StorageError, UsageError
from acidctl.exporting import manifest
from acidctl.exporting.manifest import AGREE, MANIFEST, SUCCESS, Contents, is_link
from acidctl.exporting.place import names_in
from acidctl.maintenance.lock import Life, Owner, from_bytes, life_of, new_owner, to_bytes
from acidctl.storage.local import LocalStorage
from acidctl.storage.named_files import is_special, whole_file
from acidctl.storage.port import PathStat, Storage, join
from acidctl.storage.remote import for_each

_OWNER_TYPE = "acidctl_export_owner"
_OWNER_BYTES = 1 << 16
_COPIES = 8
# Exports of this process: what is left of one that is not among them was left by a failure.
_running: set[str] = set()
_LIVES = "left by an export that was killed, or of one that still runs; if none runs, remove it"


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
    """A file or a directory that is to be made at a path: `begin`, use `work`, then `publish` or `abandon`."""

    def __init__(self, storage: Storage, path: str, *, folder: bool, overwrite: bool, unlisted: bool = False) -> None:
        """Makes nothing yet; ExistsError and UsageError for what may not be replaced.

        `unlisted` agrees to replace the directory of an export that has no list of its files.
        """
        # A rename would put a file in the place of a device or a pipe.
        special = isinstance(storage, LocalStorage) and is_special(path)
        if isinstance(storage, LocalStorage) and os.path.islink(path) and not special:
            path = os.path.realpath(path)  # a link stays a link
        name = path.rpartition("/")[2]
        if name in ("", ".", ".."):
            shown = storage.display(path)
            raise UsageError(f"--to {shown} names no file or directory of its own", path=shown)
        self._beside = path[: len(path) - len(name)]
        if isinstance(storage, LocalStorage) and self._beside:
            storage.add_top(self._beside)  # nothing below is changed through a link
        self._hidden = f".{name}."
        self._run = new_owner(time.time())
        start = f"{self._beside}{self._hidden}"
        super().__init__(storage, path if special else f"{start}{self._run.id}.part", special=special)
        self._owner = f"{start}{self._run.id}.owner"
        self.path = path
        self.folder = folder
        self._agreed = unlisted
        self._previous = f"{start}acidctl-old"
        # What was moved there, so that it is known whatever becomes of it.
        self._moved = f"{self._previous}.json"
        # Says that all of a directory was moved there, where that takes a while.
        self._whole = f"{self._previous}.whole"
        self._made: set[str] = set()
        #: What earlier runs have left, and what became of it: sentences.
        self.notes: list[str] = []
        self._replaces = False if special else self._may_replace(overwrite)
        if not special and (overwrite or storage.facts.empty_directories):
            self._clear_parts()

    @property
    def shown(self) -> str:
        """The target as a user would type it."""
        return self.storage.display(self.path)

    def begin(self) -> None:
        """Leave word of who writes here."""
        if not self.is_special:
            _running.add(self._run.id)
            self.storage.create_exclusive(self._owner, to_bytes(self._run, _OWNER_TYPE))

    # --- What may be replaced, and what earlier runs have left.

    def _may_replace(self, overwrite: bool) -> bool:
        """Whether there is something, which may be replaced."""
        found = self.storage.stat(self.path)
        if overwrite and (found is None or found.is_directory == self.folder):
            found = self._recovered(found)
        if found is None:
            self._require_parent()
            return False
        self._require_kind(found)
        if not overwrite:
            raise ExistsError(
                f"{self.shown} exists already",
                path=self.shown,
                hint="Add --overwrite to replace it, or choose another name.",
            )
        if self.folder:
            found_files = self._contents(self.path).files
            if MANIFEST not in found_files:
                self.notes.append(
                    f"{self.shown} had no list of its files; replaced by agreement: {manifest.described(found_files)}"
                )
        return True

    def _require_kind(self, found: PathStat) -> None:
        if found.is_directory != self.folder or (isinstance(self.storage, LocalStorage) and is_special(self.path)):
            kind = "directory" if found.is_directory else "file" if self.folder else "device"
            raise ExistsError(
                f"{self.shown} cannot be written: it is a {kind}",
                path=self.shown,
                hint="Choose another name; a directory of files is made of a name that ends in /.",
            )

    def _contents(self, path: str, moved: manifest.Sizes | None = None, *, begun: bool = False) -> Contents:
        """What is at a path, if all of it is ours; ExistsError otherwise.

        `moved` is the list of what was moved away, `begun` agrees to a directory that is not whole.
        """
        if self.folder:
            return manifest.contents(self.storage, path, [moved], agreed=self._agreed, begun=begun)
        found = None if is_link(self.storage, path) else self.storage.stat(path)
        shown = self.storage.display(path)
        if found is None or found.is_directory or (found.size != (moved or {}).get("") and not self._agreed):
            raise ExistsError(
                f"{shown} is not what an export has moved there, so it stays",
                path=shown,
                hint=f"Rename or remove it by hand; if an earlier version has left it, add {AGREE}.",
            )
        return Contents({"": found.size}, ())

    def _recovered(self, found: PathStat | None) -> PathStat | None:
        """What stands at the path after a run that was killed while it replaced that."""
        storage = self.storage
        moved = manifest.read(storage, self._moved)
        if storage.stat(self._previous) is None:
            self._forget_moved(moved)
            return found
        half = found is not None and self._is_half()
        try:
            previous = self._contents(self._previous, moved, begun=self._agreed)
        except ExistsError as error:
            why = error.message.partition(", so it ")[0]
            raise ExistsError(
                f"{self.shown} is not replaced, because {why}", path=error.path, hint=error.hint
            ) from error
        if half:
            self._remove(self.path, self._contents(self.path, moved, begun=self._agreed))
            found = None
        self._forget_whole()
        if found is None:
            storage.move(self._previous, self.path)
            if self.folder and SUCCESS in (moved or {}) and storage.stat(join(self.path, SUCCESS)) is None:
                storage.create_exclusive(join(self.path, SUCCESS), b"")
            self.notes.append(
                f"an earlier run was killed while it replaced {self.shown}; what it had moved away is back"
            )
            found = storage.stat(self.path)
        else:
            self._remove(self._previous, previous)
            self.notes.append(f"removed {storage.display(self._previous)}, which a run that was killed had replaced")
        self._forget_moved(moved)
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

    def _forget_moved(self, moved: manifest.Sizes | None) -> None:
        """When nothing of what was moved away is left; a file of that name which is not ours stays."""
        if moved is not None:
            self.storage.remove_file(self._moved)
        elif self.storage.stat(self._moved) is not None:
            shown = self.storage.display(self._moved)
            raise ExistsError(
                f"{shown} was not written by acidctl, which needs that name while it replaces {self.shown}",
                path=shown,
                hint="Rename or remove it by hand.",
            )

    def _clear_parts(self) -> None:
        """Remove what runs have left that are known to be dead; name what may be of one that still runs."""
        names = set(names_in(self.storage, self._beside or os.curdir))
        left: list[str] = []
        for name in sorted(names):
            run = name.removeprefix(self._hidden)
            run, _, ending = run.rpartition(".")
            if not name.startswith(self._hidden) or ending not in ("part", "owner") or "." in run:
                continue
            part = f"{self._hidden}{run}.part"
            if name != part and part in names:
                continue  # it goes with its part
            owner = f"{self._hidden}{run}.owner" if f"{self._hidden}{run}.owner" in names else ""
            if not (owner and self._clear_part(part if part in names else "", owner)) and name == part:
                left.append(name)
        for name in left[:1]:
            more = f" and {len(left) - 1:,} more like it" if len(left) > 1 else ""
            self.notes.append(f"{self.storage.display(f'{self._beside}{name}')}{more}: {_LIVES}")

    def _clear_part(self, part: str, owner: str) -> bool:
        """Remove the work of a dead owner; False where it may live, or not all of it is an export's."""
        storage = self.storage
        with suppress(AcidctlError):
            with storage.open(f"{self._beside}{owner}") as stream:
                run = from_bytes(stream.read(_OWNER_BYTES), _OWNER_TYPE)
            if run is None or owner != f"{self._hidden}{run.id}.owner" or not _has_ended(run):
                return False
            path = f"{self._beside}{part}"
            if part and (found := storage.stat(path)) is not None:
                if found.is_directory:
                    manifest.remove(storage, path, manifest.contents(storage, path, begun=True))
                elif is_link(storage, path) or (isinstance(storage, LocalStorage) and is_special(path)):
                    return False
                else:
                    storage.remove_file(path)
                self.notes.append(f"removed {storage.display(path)}, which {run.described} had left")
            storage.remove_file(f"{self._beside}{owner}")
            return True
        return False

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

    # --- Writing and publishing.

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
        listed = self._listed() if self.folder else {}
        if self.folder and at_once:
            self.make_folders(SUCCESS)
            storage.create_exclusive(join(self.work, MANIFEST), manifest.to_bytes(listed))
            storage.create_exclusive(join(self.work, SUCCESS), b"")
        replaced = self._found_again() if self._replaces else None
        if replaced is not None and at_once and storage.exchange(self.work, self.path):
            self._remove_exchanged()
        else:
            with self._moved_away(replaced):
                if self.folder and not at_once:
                    self._copy(listed)
                else:
                    storage.move(self.work, self.path)
        self._end()

    def _listed(self) -> dict[str, int]:
        """The files of the export with the sizes that the storage shows."""
        # Without directories there is nothing of an export without files.
        if self.storage.stat(self.work) is None:
            return {}
        return manifest.data_files(self.storage.walk(self.work))

    def _found_again(self) -> Contents | None:
        """What is replaced, as it is now: rows were read and written since it was looked at."""
        found = self.storage.stat(self.path)
        if found is None:
            return None
        self._require_kind(found)
        return self._contents(self.path) if self.folder else Contents({"": found.size}, ())

    def _remove_exchanged(self) -> None:
        """The old has the name of the work now; where something came to it at the last moment, both change back."""
        try:
            found = self._contents(self.work) if self.folder else Contents({"": 0}, ())
        except ExistsError:
            if self.storage.exchange(self.work, self.path):
                raise
            return
        except AcidctlError:
            return  # the new is there, and the next run removes what is left of the old
        with suppress(AcidctlError):
            self._remove(self.work, found)

    def _copy(self, listed: manifest.Sizes) -> None:
        """Where nothing can be renamed: the list first, so that any part is known, and `_SUCCESS` last."""
        storage = self.storage
        made: list[str] = []

        @contextmanager
        def making(name: str) -> Iterator[str]:
            # Before it is made: the answer may get lost, but not that the name is another's.
            made.append(name)
            try:
                yield join(self.path, name)
            except ExistsError:
                made.remove(name)
                raise

        def copy(name: str) -> None:
            with making(name) as place:
                storage.copy_file(join(self.work, name), place)

        if storage.stat(self.path) is not None:
            raise ExistsError(f"{self.shown} exists already", path=self.shown)
        try:
            with making(MANIFEST) as place:
                storage.create_exclusive(place, manifest.to_bytes(listed))
            for_each(copy, sorted(listed), threads=_COPIES, name="acidctl-export")
            with making(SUCCESS) as place:
                storage.create_exclusive(place, b"")
        except BaseException:
            with suppress(AcidctlError):
                storage.remove_files([join(self.path, name) for name in reversed(made)])
            raise
        self._abandon_work()

    @contextmanager
    def _moved_away(self, replaced: Contents | None) -> Iterator[None]:
        """What is replaced has a hidden name meanwhile; it comes back where the block fails, and goes otherwise."""
        storage, marker = self.storage, join(self.path, SUCCESS)
        apart = self.folder and not storage.facts.atomic_rename
        moved = marked = False
        try:
            if replaced is not None:
                storage.create_exclusive(self._moved, manifest.to_bytes(replaced.files))
                marked = apart and SUCCESS in replaced.files
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
                if replaced is not None and storage.stat(self._previous) is None:
                    self._forget_moved(manifest.read(storage, self._moved))
            raise
        if moved and replaced is not None:
            with suppress(AcidctlError):
                self._forget_whole()
                self._remove(self._previous, self._contents(self._previous, replaced.files))
                storage.remove_file(self._moved)

    def abandon(self) -> None:
        """Remove what was written so far, as far as that can be done."""
        if not self.is_special:
            self._abandon_work()
            self._end()

    def _abandon_work(self) -> None:
        """Remove the files of the export under their hidden names."""
        with suppress(AcidctlError):
            if self.folder:
                self._remove(self.work, manifest.contents(self.storage, self.work, begun=True))
            else:
                self.storage.remove_file(self.work)

    def _end(self) -> None:
        """Nothing of this run is left."""
        _running.discard(self._run.id)
        with suppress(AcidctlError):
            if self.storage.stat(self.work) is None:
                self.storage.remove_file(self._owner)

    def _remove(self, path: str, found: Contents) -> None:
        if self.folder:
            manifest.remove(self.storage, path, found)
        else:
            self.storage.remove_file(path)


def _has_ended(run: Owner) -> bool:
    life = life_of(run)
    return life is Life.DEAD or (life is Life.OURSELVES and run.id not in _running)
