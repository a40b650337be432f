"""One run of acidctl at a time per location: a file that only one can create.

The lock names its owner. That of a process which is known to be dead is taken over: it is renamed to
`_acidctl_lock_<id of the dead>`, which only one of several takers can do, and stays under that name as the proof that
the work directory of the same id has no living owner, until `recover` has dealt with both. Where nothing can be renamed
in one step, the proof is written first, and then the lock is replaced on the condition that it is still the dead one's.
The lock is there with its content or not at all: where things can be renamed it is written under another name first.
Hive knows nothing of this lock and needs not: it protects acidctl from itself, and what Hive does is found out by
listing again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import cast

from acidctl.errors import AcidctlError, ExistsError, NoSuchTableError, StalePlanError, StorageError
from acidctl.format.names import LOCK_NAME
from acidctl.maintenance.owner import Life, Owner, from_bytes, life_of, new_owner, to_bytes
from acidctl.storage.port import Storage, Swapping, join
from acidctl.storage.retry import DEFAULT_RETRY

LOCK_TYPE = "acidctl_lock"
TAKEN_PREFIX = LOCK_NAME + "_"
# What a run that died while it wrote its lock leaves, with the id of the run behind it.
NEW_PREFIX = LOCK_NAME + "_new_"
# A lock without readable content: its writer died while writing some hundred bytes, or is at it right now.
TORN_LOCK_SECONDS = 600
_LIMIT = 1 << 16
_TRIES = 5

# Locks that this process holds: a lock of ours that is not among them was left behind by a failure.
_held: set[str] = set()


@dataclass(frozen=True, slots=True)
class _StoredLock:
    """The lock file of a location; `owner` is None when its content cannot be read."""

    content: bytes
    owner: Owner | None


class Lock:
    """A held lock; a context manager that releases it. Made by `acquire`."""

    def __init__(self, storage: Storage, root: str, owner: Owner, now: float) -> None:
        """`now` is when it was taken, in seconds since 1970."""
        self.now = now
        self._storage = storage
        self._root = root
        self._path = join(root, LOCK_NAME)
        self.owner = owner

    @property
    def id(self) -> str:
        """The id that the work directory bears too."""
        return self.owner.id

    def check(self) -> None:
        """Raise StalePlanError when another run has broken this lock: then nothing may be published any more."""
        stored = _read(self._storage, self._path)
        if stored is None or stored.owner is None or stored.owner.id != self.owner.id:
            by = f" by {stored.owner.described}" if stored is not None and stored.owner is not None else ""
            raise StalePlanError(
                f"the lock of {self._storage.display(self._root)} was broken{by}",
                path=self._storage.display(self._root),
                hint="Nothing was published here. See what runs on this table, then run the command again.",
            )

    def leave(self) -> None:
        """Give the lock up without asking the storage: it stays, and whoever comes next takes it over."""
        _held.discard(self.owner.id)

    def release(self) -> None:
        """Remove the lock, unless it is another run's by now; a second call does nothing.

        Should it fail, the lock counts as left behind, and the next run takes it over.
        """
        if self.owner.id not in _held:
            return
        _held.discard(self.owner.id)
        stored = _read(self._storage, self._path)
        if stored is not None and stored.owner is not None and stored.owner.id == self.owner.id:
            DEFAULT_RETRY.run(self._remove)

    def _remove(self) -> None:
        try:
            self._storage.remove_file(self._path)
        except StorageError:
            if self._storage.stat(self._path) is not None:
                raise

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What could not be removed is no reason to call a finished run failed."""
        try:
            self.release()
        except AcidctlError:
            return


def acquire(storage: Storage, root: str, *, now: float, unsafe_break_lock: bool = False) -> Lock:
    """Lock a location; `now` is in seconds since 1970.

    Takes over the lock of a process of this machine that is dead. StalePlanError names the owner of any other;
    `unsafe_break_lock` takes over those too, except one that this very process holds. StorageError when the location
    cannot be written.
    """
    owner = new_owner(now)
    path = join(root, LOCK_NAME)
    _held.add(owner.id)
    try:
        refused: StorageError | None = None
        for _ in range(_TRIES):
            refused = _create(storage, root, owner)
            if refused is None:
                return Lock(storage, root, owner, now)
            stored = _read(storage, path)
            if stored is not None:
                _require_dead(storage, root, stored, now, unsafe_break_lock)
                if storage.facts.conditional_replace:
                    _replace(storage, root, stored, owner)
                elif not storage.facts.atomic_rename and not unsafe_break_lock:
                    raise _left_behind(storage, root, stored)
                else:
                    _take_over(storage, root, stored, owner)
        if refused is not None and storage.stat(path) is None:
            raise refused
        raise StalePlanError(
            f"{storage.display(root)} could not be locked: other runs keep taking the lock",
            path=storage.display(root),
            hint="Let one run of acidctl work on this table at a time.",
        )
    except BaseException:
        _held.discard(owner.id)
        raise


def _create(storage: Storage, root: str, owner: Owner) -> StorageError | None:
    """Try to create the lock; None when it is ours, also when the storage failed only to say so."""
    path, content = join(root, LOCK_NAME), to_bytes(owner, LOCK_TYPE)
    try:
        if not storage.facts.atomic_rename:
            storage.create_exclusive(path, content, root)
        else:
            _write_and_rename(storage, join(root, NEW_PREFIX + owner.id), path, content, root)
    except StorageError as error:
        stored = _read(storage, path)
        ours = stored is not None and stored.owner is not None and stored.owner.id == owner.id
        return None if ours else error
    return None


def _write_and_rename(storage: Storage, new: str, path: str, content: bytes, root: str) -> None:
    """Write a file under another name, then give it its own, which has to be free."""
    if storage.stat(path) is not None:
        raise ExistsError(f"{storage.display(path)} exists already", path=storage.display(path))
    try:
        storage.create_exclusive(new, content, root)
        storage.move(new, path)
    except BaseException:
        with suppress(AcidctlError):
            if storage.stat(new) is not None:
                storage.remove_file(new)
        raise


def _read(storage: Storage, path: str) -> _StoredLock | None:
    """The lock that lies there; None without one.

    One that was taken away while it was to be opened may have a successor by the time of the look for it; that one is
    read instead.
    """
    failure: StorageError | NoSuchTableError | None = None
    for _ in range(_TRIES):
        try:
            with storage.open(path) as stream:
                content = stream.read(_LIMIT)
            return _StoredLock(content, from_bytes(content, LOCK_TYPE))
        except (StorageError, NoSuchTableError) as error:
            failure = error
        if storage.stat(path) is None:
            return None
        if isinstance(failure, StorageError) and failure.transient:
            break
    assert failure is not None
    raise failure


def _require_dead(storage: Storage, root: str, stored: _StoredLock, now: float, unsafe: bool) -> None:
    """Raise StalePlanError unless this lock may be taken over."""
    shown = storage.display(root)
    if stored.owner is None:
        at = storage.stat(join(root, LOCK_NAME))
        if unsafe or at is None or (at.modified is not None and now - at.modified > TORN_LOCK_SECONDS):
            return
        raise StalePlanError(
            f"{shown} holds a lock that names no owner",
            path=shown,
            hint="Another run is taking the lock, or crashed while doing so; it is taken over "
            f"{TORN_LOCK_SECONDS // 60} minutes after it was written, or at once with --unsafe-break-lock.",
        )
    life = life_of(stored.owner)
    if life is Life.DEAD or (life is Life.OURSELVES and stored.owner.id not in _held):
        return
    if life is Life.OURSELVES:
        raise StalePlanError(
            f"{shown} is already locked by this process", path=shown, hint="Wait until its other run has ended."
        )
    if unsafe:
        return
    if life is Life.ALIVE:
        hint = "Wait until it has ended, or end it; then run the command again."
    else:
        hint = (
            f"Look on {stored.owner.host} whether it still runs; if it does not, run the command again with "
            "--unsafe-break-lock."
        )
    raise StalePlanError(f"{shown} is locked by {stored.owner.described}", path=shown, hint=hint)


def _left_behind(storage: Storage, root: str, stored: _StoredLock) -> StalePlanError:
    shown = storage.display(root)
    by = "" if stored.owner is None else f" by {stored.owner.described}"
    return StalePlanError(
        f"{shown} was left locked{by}, and on this storage two runs could take the lock over at once",
        path=shown,
        hint="Make sure that no acidctl runs on this table, then run the command again with --unsafe-break-lock.",
    )


def _replace(storage: Storage, root: str, stored: _StoredLock, owner: Owner) -> None:
    """Put ours in the place of a dead lock. Whether it worked, the next attempt to create one tells."""
    kept = join(root, TAKEN_PREFIX + (owner if stored.owner is None else stored.owner).id)
    try:
        storage.create_exclusive(kept, stored.content)
    except StorageError:
        # Another run wrote the same, or the storage refuses: then `acquire` gives up in the end.
        if storage.stat(kept) is None:
            return
    with suppress(StorageError):
        cast(Swapping, storage).swap(join(root, LOCK_NAME), stored.content, to_bytes(owner, LOCK_TYPE))


def _take_over(storage: Storage, root: str, stored: _StoredLock, owner: Owner) -> None:
    """Move a dead lock out of the way. Whether it worked, the next attempt to create one tells."""
    path = join(root, LOCK_NAME)
    kept = join(root, TAKEN_PREFIX + (owner if stored.owner is None else stored.owner).id)
    try:
        storage.move(path, kept)
    except StorageError:
        # Another run was first, or the storage refuses: then the next reading finds the same lock, and `acquire` gives
        # up in the end.
        return
    moved = _read(storage, kept)
    if moved is None or moved.content == stored.content:
        return
    # Between reading and moving another run was done with it, and this is its successor's: give it back.
    try:
        storage.move(kept, path)
    except StorageError:
        return
