"""One run of acidctl at a time per location: a file that only one can create, and whose it is.

The lock names its owner. That of a process which is known to be dead is taken over: it is renamed to
`_acidctl_lock_<id of the dead>`, which only one of several takers can do, and stays under that name as the proof that
the work directory of the same id has no living owner, until `recover` has dealt with both. Where nothing can be renamed
in one step, the proof is written first, and then the lock is replaced on the condition that it is still the dead one's.
The lock is there with its content or not at all: where things can be renamed it is written under another name first.
Hive knows nothing of this lock and needs not: it protects acidctl from itself, and what Hive does is found out by
listing again.

A process is known by machine, boot, process-id namespace, process id and start time: ids are used again, containers
count theirs from one, and machines of a cluster may share a name. A process of which boot or start time is unknown does
not count as dead.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any

from acidctl.errors import AcidctlError, ExistsError, NoSuchTableError, StalePlanError, StorageError
from acidctl.format.names import LOCK_NAME
from acidctl.storage.local import together
from acidctl.storage.port import Storage, join
from acidctl.storage.retry import DEFAULT_RETRY
from acidctl.values import dataclass

SCHEMA_VERSION = 1
LOCK_TYPE = "acidctl_lock"
TAKEN_PREFIX = LOCK_NAME + "_"
# What a run that died while it wrote its lock leaves, with the id of the run behind it.
NEW_PREFIX = LOCK_NAME + "_new_"
# A lock without readable content: its writer died while writing some hundred bytes, or is at it right now.
TORN_LOCK_SECONDS = 600
_LIMIT = 1 << 16
_TRIES = 5
# That of the system itself, by a number fixed in the kernel's sources (PROC_PID_INIT_INO); containers have others.
_FIRST_NAMESPACE = "pid:[4026531836]"
# By how much a clock may have been set since.
_CLOCK_SECONDS = 10

# Locks that this process holds: a lock of ours that is not among them was left behind by a failure.
_held: set[str] = set()


class Life(Enum):
    """What is known of an owner. UNKNOWN: it belongs to another machine or container."""

    OURSELVES = "ourselves"
    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Owner:
    """A run of acidctl; `id` is 12 hex digits, `created` ISO 8601 in UTC.

    `pid_started` is the start time of the process as its system counts it; None where a fact cannot be had.
    """

    id: str
    host: str
    pid: int
    created: str
    pid_started: str | None = None
    boot_id: str | None = None
    machine_id: str | None = None
    pid_namespace: str | None = None

    @property
    def described(self) -> str:
        """For a sentence: `process 71 on node-3, since 2026-11-21T10:00:00Z`."""
        return f"process {self.pid} on {self.host}, since {self.created}"


@dataclass(frozen=True, slots=True)
class Machine:
    """What tells a machine, its boot and a container on it from others; None where a fact cannot be had.

    `booted` is when the machine was started, in seconds since 1970.
    """

    boot_id: str | None = None
    machine_id: str | None = None
    pid_namespace: str | None = None
    booted: int | None = None

    @classmethod
    @cache
    def this(cls) -> Machine:
        """That of this process."""
        namespace = booted = None
        with suppress(OSError):
            namespace = os.readlink("/proc/self/ns/pid")
        with suppress(ValueError, IndexError):
            lines = (_content("/proc/stat") or "").splitlines()
            booted = next((int(line.split()[1]) for line in lines if line.startswith("btime ")), None)
        return cls(_content("/proc/sys/kernel/random/boot_id"), _content("/etc/machine-id"), namespace, booted)


def _content(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read().strip() or None
    except OSError:
        return None


def new_owner(now: float, machine: Machine | None = None) -> Owner:
    """This process, with a new id; `now` is in seconds since 1970, `machine` this one if not given."""
    pid, here = os.getpid(), machine or Machine.this()
    moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    facts = _started(pid)[0], here.boot_id, here.machine_id, here.pid_namespace
    return Owner(secrets.token_hex(6), socket.gethostname(), pid, moment, *facts)


def to_bytes(owner: Owner, kind: str, more: Mapping[str, Any] | None = None) -> bytes:
    """The content of a lock or an owner file; `kind` becomes its `type`."""
    return json.dumps({"type": kind, "schema_version": SCHEMA_VERSION, **asdict(owner), **(more or {})}).encode("ascii")


def from_bytes(content: bytes, kind: str) -> Owner | None:
    """The owner that a lock or an owner file names; None for what acidctl did not write, or not whole."""
    try:
        values = json.loads(content.decode("utf-8"))
        if values["type"] != kind or values["schema_version"] != SCHEMA_VERSION:
            return None
        owner = Owner(**{field.name: values[field.name] for field in fields(Owner)})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    texts = (owner.id, owner.host, owner.created)
    facts = (owner.pid_started, owner.boot_id, owner.machine_id, owner.pid_namespace)
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(fact, str | None) for fact in facts):
        return None
    return owner if isinstance(owner.pid, int) and owner.pid > 0 and is_id(owner.id) else None


def is_id(text: str) -> bool:
    """Whether this is an id that `new_owner` makes."""
    return len(text) == 12 and not text.strip("0123456789abcdef")


def life_of(owner: Owner, machine: Machine | None = None) -> Life:
    """Whether the process of an owner still lives; `machine` is this one if not given."""
    here = machine or Machine.this()
    if owner.host != socket.gethostname() or _differ(owner.machine_id, here.machine_id):
        return Life.UNKNOWN
    if _differ(owner.boot_id, here.boot_id):
        return Life.DEAD if _ended_by_restart(owner, here) else Life.UNKNOWN
    if _differ(owner.pid_namespace, here.pid_namespace):
        return Life.UNKNOWN
    started, ended = _started(owner.pid)
    # What it may not be asked, and a number that no process has here, does not make it dead.
    with suppress(PermissionError, OverflowError):
        try:
            os.kill(owner.pid, 0)
        except ProcessLookupError:
            ended = True
    known = owner.pid_started is not None and owner.boot_id is not None and here.boot_id is not None
    if ended or _differ(owner.pid_started, started):
        return Life.DEAD if known else Life.UNKNOWN
    return Life.OURSELVES if known and owner.pid == os.getpid() else Life.ALIVE


def has_ended(owner: Owner) -> bool:
    """Whether the run of an owner is proved to be over: its process is dead, or is this one and has given it up."""
    life = life_of(owner)
    return life is Life.DEAD or (life is Life.OURSELVES and owner.id not in _held)


def _ended_by_restart(owner: Owner, here: Machine) -> bool:
    """Whether an owner under another boot id ran before this machine was started, and not on a machine like it.

    Containers of one image may share host name and machine id on nodes that both run, so it has to be no container, and
    older than this boot.
    """
    if owner.machine_id is None or owner.machine_id != here.machine_id:
        return False
    if here.pid_namespace != _FIRST_NAMESPACE or owner.pid_namespace != _FIRST_NAMESPACE:
        return False
    try:
        created = datetime.fromisoformat(owner.created).timestamp()
    except (ValueError, OverflowError):
        return False
    return here.booted is not None and created < here.booted - _CLOCK_SECONDS


def _differ(first: str | None, second: str | None) -> bool:
    """Whether two facts are known and not the same."""
    return first is not None and second is not None and first != second


def _started(pid: int) -> tuple[str | None, bool]:
    """Start time of a process in ticks since boot, None where it cannot be had; and whether it has ended (a zombie)."""
    # The program's name stands in brackets and may hold anything; state is the third field, start the 22nd.
    rest = (_content(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()
    return (rest[19], rest[0] in ("Z", "X")) if len(rest) > 19 else (None, False)


def until_done(
    change: Callable[[], None], done: Callable[[], bool], *, before_again: Callable[[], None] = lambda: None
) -> None:
    """Change something on storage, again if need be; an error does not count when `done` sees the change.

    The answer to a request that was carried out can get lost on its way. Where `done` sees no change, and the error
    says that trying again may help, it is tried again. So the names must be such that nobody else makes this change.
    """

    def once() -> None:
        try:
            change()
        except StorageError:
            if not done():
                raise

    DEFAULT_RETRY.run(once, before_again=before_again)


@dataclass(frozen=True, slots=True)
class _StoredLock:
    """The lock file of a location; `owner` is None when its content cannot be read."""

    content: bytes
    owner: Owner | None

    @property
    def by(self) -> str:
        """Whose it is, as a part of a sentence."""
        return "" if self.owner is None else f" by {self.owner.described}"


class Lock:
    """A held lock; a context manager that releases it. Made by `acquire`."""

    def __init__(self, storage: Storage, root: str, owner: Owner, now: float, *, unsafe: bool = False) -> None:
        """`now` is when it was taken, in seconds since 1970; `unsafe`: whoever took it answers for all other owners."""
        self.now = now
        self.unsafe = unsafe
        self._storage = storage
        self._root = root
        self.owner = owner

    @property
    def id(self) -> str:
        """The id that the work directory bears too."""
        return self.owner.id

    def check(self) -> None:
        """Raise StalePlanError when another run has broken this lock: then nothing may be published any more."""
        stored = _read(self._storage, join(self._root, LOCK_NAME))
        if not _is_of(stored, self.owner):
            shown = self._storage.display(self._root)
            raise StalePlanError(
                f"the lock of {shown} was broken{'' if stored is None else stored.by}",
                path=shown,
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
        self.leave()
        path = join(self._root, LOCK_NAME)
        if _is_of(_read(self._storage, path), self.owner):
            until_done(lambda: self._storage.remove_file(path), lambda: self._storage.stat(path) is None)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *error: object) -> None:
        """What could not be removed is no reason to call a finished run failed."""
        with suppress(AcidctlError):
            self.release()


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
                return Lock(storage, root, owner, now, unsafe=unsafe_break_lock)
            stored = _read(storage, path)
            if stored is not None:
                _require_dead(storage, root, stored, now, unsafe_break_lock)
                if not (storage.facts.conditional_replace or storage.facts.atomic_rename or unsafe_break_lock):
                    raise _stale(
                        storage,
                        root,
                        f"was left locked{stored.by}, and on this storage two runs could take the lock over at once",
                        "Make sure that no acidctl runs on this table, then run the command again with "
                        "--unsafe-break-lock.",
                    )
                _take_over(storage, root, stored, owner)
        if refused is not None and storage.stat(path) is None:
            raise refused
        advice = "Let one run of acidctl work on this table at a time."
        raise _stale(storage, root, "could not be locked: other runs keep taking the lock", advice)
    except BaseException:
        _held.discard(owner.id)
        raise


def _stale(storage: Storage, root: str, what: str, hint: str) -> StalePlanError:
    shown = storage.display(root)
    return StalePlanError(f"{shown} {what}", path=shown, hint=hint)


def _create(storage: Storage, root: str, owner: Owner) -> StorageError | None:
    """Try to create the lock; None when it is ours, also when the storage failed only to say so."""
    path, content = join(root, LOCK_NAME), to_bytes(owner, LOCK_TYPE)
    try:
        if not storage.facts.atomic_rename:
            storage.create_exclusive(path, content, root)
        else:
            _write_and_rename(storage, join(root, NEW_PREFIX + owner.id), path, content, root)
    except StorageError as error:
        return None if _is_of(_read(storage, path), owner) else error
    return None


def _write_and_rename(storage: Storage, new: str, path: str, content: bytes, root: str) -> None:
    """Write a file under another name, then give it its own, which has to be free."""
    if storage.stat(path) is not None:
        raise ExistsError(f"{storage.display(path)} exists already", path=storage.display(path))
    try:
        with together(root, lasting=False):  # a lock need not outlast the system: its owner is dead then
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
    for left in reversed(range(_TRIES)):
        try:
            with storage.open(path) as stream:
                content = stream.read(_LIMIT)
            return _StoredLock(content, from_bytes(content, LOCK_TYPE))
        except (StorageError, NoSuchTableError) as error:
            if storage.stat(path) is None:
                return None
            if not left or (isinstance(error, StorageError) and error.transient):
                raise
    raise AssertionError("the last try answers or raises")


def _is_of(stored: _StoredLock | None, owner: Owner) -> bool:
    return stored is not None and stored.owner is not None and stored.owner.id == owner.id


def _require_dead(storage: Storage, root: str, stored: _StoredLock, now: float, unsafe: bool) -> None:
    """Raise StalePlanError unless this lock may be taken over."""
    if stored.owner is None:
        at = storage.stat(join(root, LOCK_NAME))
        if unsafe or at is None or (at.modified is not None and now - at.modified > TORN_LOCK_SECONDS):
            return
        advice = (
            "Another run is taking the lock, or crashed while doing so; it is taken over "
            f"{TORN_LOCK_SECONDS // 60} minutes after it was written, or at once with --unsafe-break-lock."
        )
        raise _stale(storage, root, "holds a lock that names no owner", advice)
    if has_ended(stored.owner):
        return
    if stored.owner.id in _held:
        advice = "Wait until its other run has ended."
        raise _stale(storage, root, "is already locked by this process", advice)
    if unsafe:
        return
    advice = "Wait until it has ended, or end it; then run the command again."
    if life_of(stored.owner) is not Life.ALIVE:
        advice = (
            f"Look on {stored.owner.host} whether it still runs; if it does not, run the command again with "
            "--unsafe-break-lock."
        )
    raise _stale(storage, root, f"is locked{stored.by}", advice)


def _take_over(storage: Storage, root: str, stored: _StoredLock, owner: Owner) -> None:
    """Move a dead lock out of the way, or put ours in its place. The next attempt to create one tells if it worked."""
    path = join(root, LOCK_NAME)
    kept = join(root, TAKEN_PREFIX + (owner if stored.owner is None else stored.owner).id)
    if storage.facts.conditional_replace:
        try:
            storage.create_exclusive(kept, stored.content)
        except StorageError:
            # Another run wrote the same, or the storage refuses: then `acquire` gives up in the end.
            if storage.stat(kept) is None:
                return
        with suppress(StorageError):
            storage.swap(path, stored.content, to_bytes(owner, LOCK_TYPE))
        return
    # Where another run was first, or the storage refuses, the next reading finds the same lock, and `acquire` gives up
    # in the end.
    with suppress(StorageError):
        storage.move(path, kept)
        moved = _read(storage, kept)
        if moved is not None and moved.content != stored.content:
            # Between reading and moving another run was done with it, and this is its successor's: give it back.
            storage.move(kept, path)
