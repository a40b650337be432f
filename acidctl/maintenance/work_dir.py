"""The hidden directory in which a compaction of one location is put together.

    _acidctl_work_<id>/owner.json            whose it is; the id is that of the lock
    _acidctl_work_<id>/attempts/             what tasks write, a name of its own for each attempt
    _acidctl_work_<id>/out/<directory>/      what will be published, as it will be published
    _acidctl_work_<id>/journal.json          only while two directories are being published
    _acidctl_work_<id>/failed                why it is kept as evidence
    _acidctl_work_<id>/removed/              what a cleaner has taken out of the location, on its way to nothing

It lies on the table's own storage, so that publishing is a rename.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress

from acidctl.errors import AcidctlError, DamagedDataError, StalePlanError, StorageError
from acidctl.format.listing import Listing, obstacle
from acidctl.format.names import FAILED_NAME, JOURNAL_NAME, OWNER_NAME, REMOVED_NAME, WORK_PREFIX
from acidctl.maintenance.lock import SCHEMA_VERSION, Lock, to_bytes, until_done
from acidctl.phases import phase
from acidctl.storage.local import together
from acidctl.storage.locations import gather
from acidctl.storage.port import Storage, join
from acidctl.storage.redact import without_credentials

WORK_TYPE = "acidctl_work"
ATTEMPTS = "attempts"
OUT = "out"
REMOVED = REMOVED_NAME


class WorkDir:
    """The work directory of one run in one location; made by `create`."""

    def __init__(self, storage: Storage, root: str, id: str) -> None:
        self._storage = storage
        self._root = root
        self.id = id
        # Set when one of two directories is published and could not be taken back: then the other must not be lost.
        self.half_published = False

    @classmethod
    def create(cls, storage: Storage, root: str, kind: str, outputs: Sequence[str], lock: Lock) -> WorkDir:
        """Make it, owner file first. Leaves nothing when the storage refuses.

        `kind` is major or minor, `outputs` are the names of the directories to be published.
        """
        work = cls(storage, root, lock.id)
        more = {"kind": kind, "outputs": list(outputs)}
        try:
            with together(root):
                make_directory(storage, work.path, root)
                write_file(storage, join(work.path, OWNER_NAME), to_bytes(lock.owner, WORK_TYPE, more), root)
                make_directory(storage, join(work.path, ATTEMPTS), root)
        except BaseException:
            with suppress(AcidctlError):
                if storage.stat(work.path) is not None:
                    storage.remove_tree(work.path)
            raise
        return work

    @property
    def name(self) -> str:
        """Its name below the location."""
        return WORK_PREFIX + self.id

    @property
    def path(self) -> str:
        """Its path in the storage."""
        return join(self._root, self.name)

    def out_dir(self, output: str) -> str:
        """Path of a directory that is being put together."""
        return join(self.path, f"{OUT}/{output}")

    def fail(self, reason: str) -> None:
        """Mark it to be kept as evidence; nobody but `clean` removes it then."""
        if not self.half_published:
            reason = without_credentials(reason)
            values = {"type": "acidctl_failed", "schema_version": SCHEMA_VERSION, "reason": reason}
            write_file(self._storage, join(self.path, FAILED_NAME), json.dumps(values).encode("ascii"), self._root)

    def remove(self) -> None:
        """Remove it and all in it, unless it holds what must be published yet; a second call does nothing."""
        if not self.half_published:
            remove_work(self._storage, self.path)


def remove_work(storage: Storage, path: str) -> None:
    """Remove a work directory in an order that leaves it recognisable until the end.

    `attempts` goes before the journal (a listing that shows `attempts` shows the journal as well, see
    `locations`), and the owner file with the directory itself. Does nothing where there is none.
    """
    if storage.stat(path) is None:
        return
    for name in (ATTEMPTS, OUT, REMOVED):
        remove_directory(storage, join(path, name))
    remove_file(storage, join(path, JOURNAL_NAME))
    remove_directory(storage, path)


def list_location(storage: Storage, root: str) -> Listing:
    """What lies in a location whose lock is held, hidden names too.

    StalePlanError when it holds partitions by now; DamagedDataError or StorageError for what may not be changed (see
    `listing.obstacle`).
    """
    with phase("list"):
        places = gather(storage, root, locked=True)
    for place in places:
        if place.listing.root == root and not place.stray:
            problem = obstacle(place.listing)
            if problem is not None:
                kind = DamagedDataError if problem.damaged else StorageError
                raise kind(problem.message, path=storage.display(root), hint=problem.hint)
            return place.listing
    shown = storage.display(root)
    raise StalePlanError(
        f"{shown} holds partition folders now, and did not when the plan was made",
        path=shown,
        hint="Run the command again; it plans anew.",
    )


def make_directory(storage: Storage, path: str, like: str) -> None:
    """Make a directory whose name nobody else would use, with owner and mode of another."""

    def made() -> bool:
        info = storage.stat(path)
        return info is not None and info.is_directory

    until_done(lambda: storage.mkdir(path, like), made)


def write_file(storage: Storage, path: str, data: bytes, like: str) -> None:
    """Write a new file whose name nobody else would use, with owner and mode of another."""

    def written() -> bool:
        if storage.stat(path) is None:
            return False
        with storage.open(path) as stream:
            return stream.read(len(data) + 1) == data

    def clear() -> None:
        # What a writer left that was cut off in the middle.
        if storage.stat(path) is not None:
            storage.remove_file(path)

    until_done(lambda: storage.create_exclusive(path, data, like), written, before_again=clear)


def move(storage: Storage, source: str, target: str) -> None:
    """Move a file or directory to a name that is free."""
    until_done(lambda: storage.move(source, target), lambda: moved(storage, source, target))


def moved(storage: Storage, source: str, target: str) -> bool:
    """Whether what was at one path is at another now."""
    return storage.stat(source) is None and storage.stat(target) is not None


def remove_directory(storage: Storage, path: str) -> None:
    """Remove a directory if it is there."""
    if storage.stat(path) is not None:
        until_done(lambda: storage.remove_tree(path), lambda: storage.stat(path) is None)


def remove_file(storage: Storage, path: str) -> None:
    """Remove a file if it is there."""
    if storage.stat(path) is not None:
        until_done(lambda: storage.remove_file(path), lambda: storage.stat(path) is None)
