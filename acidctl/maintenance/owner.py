"""Whose lock or work directory this is, and whether that process still lives.

A process is known by machine, boot, process-id namespace, process id and start time: ids are used again, containers
count theirs from one, and machines of a cluster may share a name. A process of which anything is unknown does not count
as dead.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from typing import Any

SCHEMA_VERSION = 1
# That of the system itself, by a number fixed in the kernel's sources (PROC_PID_INIT_INO); containers have others.
_FIRST_NAMESPACE = "pid:[4026531836]"
# By how much a clock may have been set since.
_CLOCK_SECONDS = 10


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
    def this(cls) -> Machine:
        """That of this process."""
        try:
            namespace = os.readlink("/proc/self/ns/pid")
        except OSError:
            namespace = None
        try:
            with open("/proc/stat", "rb") as stream:
                booted = next((int(line.split()[1]) for line in stream if line.startswith(b"btime ")), None)
        except (OSError, ValueError, IndexError):
            booted = None
        return cls(_line("/proc/sys/kernel/random/boot_id"), _line("/etc/machine-id"), namespace, booted)


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
    return len(text) == 12 and all(letter in "0123456789abcdef" for letter in text)


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
    if ended or not _exists(owner.pid) or _differ(owner.pid_started, started):
        return Life.DEAD
    return Life.OURSELVES if owner.pid == os.getpid() else Life.ALIVE


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


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _started(pid: int) -> tuple[str | None, bool]:
    """Start time of a process in ticks since boot, None where it cannot be had; and whether it has ended (a zombie)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            # The program's name stands in brackets and may hold anything; state is the third field, start the 22nd.
            rest = stream.read().rpartition(b")")[2].split()
    except OSError:
        return None, False
    return (rest[19].decode("ascii"), rest[0] in (b"Z", b"X")) if len(rest) > 19 else (None, False)


def _line(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.read(200).strip() or None
    except OSError:
        return None
