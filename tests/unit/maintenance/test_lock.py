"""One run at a time: whose lock is respected, whose is taken over, and that one of several takers wins."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from acidctl.compaction.recovery import recover
from acidctl.errors import ExitCode, StalePlanError, StorageError
from acidctl.maintenance.lock import (
    LOCK_TYPE,
    TORN_LOCK_SECONDS,
    Life,
    Lock,
    Machine,
    Owner,
    acquire,
    from_bytes,
    life_of,
    new_owner,
    to_bytes,
)
from acidctl.maintenance.work_dir import list_location
from acidctl.storage.local import LocalStorage
from tests.support.faulty import Fault, FaultyStorage, broken_run, in_child, sweep
from tests.support.memory import MemoryStorage

NOW = 1_800_000_000.0
pytestmark = pytest.mark.usefixtures("nobody_waits")


@pytest.fixture(autouse=True)
def _unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def _names(root: Path) -> list[str]:
    return sorted(os.listdir(root))


def _leave(root: Path, owner: Owner) -> None:
    (root / "_acidctl_lock").write_bytes(to_bytes(owner, LOCK_TYPE))


def _dead() -> Owner:
    """A process that has ended."""
    read, write = os.pipe()

    def tell() -> None:
        os.write(write, to_bytes(new_owner(NOW), LOCK_TYPE))

    in_child(tell)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        owner = from_bytes(stream.read(), LOCK_TYPE)
    assert owner is not None
    return owner


@contextmanager
def _holder(root: Path) -> Iterator[int]:
    """Another process that holds the lock."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            acquire(LocalStorage(), str(root), now=NOW)
            os.write(tell, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    try:
        assert os.read(ready, 1) == b"x"
        yield pid
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_lock_is_held_and_released(tmp_path: Path) -> None:
    """The file says who, on which machine, since when; releasing twice does nothing."""
    storage = LocalStorage()
    with acquire(storage, str(tmp_path), now=NOW) as lock:
        values = json.loads((tmp_path / "_acidctl_lock").read_text())
        assert (values["type"], values["schema_version"], values["id"]) == ("acidctl_lock", 1, lock.id)
        assert (values["pid"], values["created"]) == (os.getpid(), "2027-01-15T08:00:00Z")
        lock.check()
    lock.release()
    assert _names(tmp_path) == []
    with pytest.raises(StalePlanError, match="was broken"):
        lock.check()


def test_this_process_locks_a_location_once(tmp_path: Path) -> None:
    """Another thread of it is as much another run as another process is; even force does not help."""
    with acquire(LocalStorage(), str(tmp_path), now=NOW) as lock:
        for unsafe in (False, True):
            with pytest.raises(StalePlanError, match="already locked by this process") as caught:
                acquire(LocalStorage(), str(tmp_path), now=NOW, unsafe_break_lock=unsafe)
            assert caught.value.exit_code == ExitCode.STALE_PLAN
        lock.check()


def test_a_living_process_is_respected_and_a_dead_one_is_not(tmp_path: Path) -> None:
    """The message names machine, process and time; after `kill -9` the next one takes over."""
    with _holder(tmp_path) as pid:
        with pytest.raises(
            StalePlanError, match=rf"locked by process {pid} on \S+, since 2027-01-15T08:00:00Z"
        ) as caught:
            acquire(LocalStorage(), str(tmp_path), now=NOW)
        assert "Wait until it has ended" in (caught.value.hint or "")
    with acquire(LocalStorage(), str(tmp_path), now=NOW) as lock:
        lock.check()
        aside = [name for name in _names(tmp_path) if name != "_acidctl_lock"]
        assert len(aside) == 1
        assert aside[0].startswith("_acidctl_lock_")


def test_force_breaks_the_lock_of_a_living_process(tmp_path: Path) -> None:
    """The one that lost it finds out when it looks."""
    with _holder(tmp_path):
        first = from_bytes((tmp_path / "_acidctl_lock").read_bytes(), LOCK_TYPE)
        with acquire(LocalStorage(), str(tmp_path), now=NOW, unsafe_break_lock=True) as lock:
            lock.check()
            assert first is not None
            loser = Lock(LocalStorage(), str(tmp_path), first, NOW)
            with pytest.raises(StalePlanError, match=rf"was broken by process {os.getpid()} on") as caught:
                loser.check()
            assert caught.value.exit_code == ExitCode.STALE_PLAN
            loser.release()
            lock.check()


BOOTED = NOW + 60
HERE = "pid:[4026531836]"


@pytest.mark.parametrize(
    ("change", "life"),
    [
        (lambda owner: owner, Life.OURSELVES),
        (lambda owner: replace(owner, pid_started="1"), Life.DEAD),
        (lambda owner: replace(owner, pid_started=None), Life.ALIVE),
        (lambda owner: replace(owner, boot_id=None), Life.ALIVE),
        (lambda owner: replace(owner, pid=2**22 + 1, pid_started=None), Life.UNKNOWN),
        (lambda owner: replace(owner, pid=2**22 + 1, boot_id=None), Life.UNKNOWN),
        (lambda owner: replace(owner, host="elsewhere"), Life.UNKNOWN),
        (lambda owner: replace(owner, machine_id="other"), Life.UNKNOWN),
        (lambda owner: replace(owner, pid_namespace="pid:[1]"), Life.UNKNOWN),
        (lambda owner: replace(owner, pid=1, pid_started=None), Life.ALIVE),
        (lambda owner: replace(owner, pid=2**22 + 1), Life.DEAD),
        (lambda owner: replace(owner, pid=2**80, pid_started=None), Life.ALIVE),
    ],
    ids=[
        "as it is",
        "process id used again",
        "start unknown",
        "boot unknown",
        "no such process, start unknown",
        "no such process, boot unknown",
        "other host",
        "other machine of that name",
        "other container",
        "another process",
        "no such process",
        "no process id at all",
    ],
)
def test_what_is_known_of_an_owner(change: Callable[[Owner], Owner], life: Life) -> None:
    """Dead is only what is known to be: machine, boot, container, process id and start time decide."""
    machine = Machine("boot", "machine", HERE)
    assert life_of(change(new_owner(NOW, machine)), machine) is life


@pytest.mark.parametrize(
    ("more", "machine", "booted", "life"),
    [
        ({}, ("now", "machine", HERE), BOOTED, Life.DEAD),
        ({}, ("now", "machine", HERE), NOW, Life.UNKNOWN),
        ({}, ("now", "machine", HERE), NOW - 86400, Life.UNKNOWN),
        ({}, ("now", "machine", HERE), None, Life.UNKNOWN),
        ({}, ("now", "machine", "pid:[4026539999]"), BOOTED, Life.UNKNOWN),
        ({}, ("now", "machine", None), BOOTED, Life.UNKNOWN),
        ({}, ("now", None, HERE), BOOTED, Life.UNKNOWN),
        ({}, ("now", "other", HERE), BOOTED, Life.UNKNOWN),
        ({"machine_id": None}, ("now", "machine", HERE), BOOTED, Life.UNKNOWN),
        ({"pid_namespace": "pid:[4026539999]"}, ("now", "machine", HERE), BOOTED, Life.UNKNOWN),
        ({"pid_namespace": None}, ("now", "machine", HERE), BOOTED, Life.UNKNOWN),
        ({"created": "yesterday"}, ("now", "machine", HERE), BOOTED, Life.UNKNOWN),
        ({"created": "0001-01-01T00:00:00"}, ("now", "machine", HERE), BOOTED, Life.UNKNOWN),
        ({"host": "elsewhere"}, ("now", "machine", HERE), BOOTED, Life.UNKNOWN),
    ],
    ids=[
        "before a restart",
        "at the moment of the restart",
        "since the restart, on another machine",
        "restarted nobody knows when",
        "in a container",
        "nobody knows whether in a container",
        "machine unknown",
        "another machine",
        "owner of an unknown machine",
        "owner in a container",
        "owner perhaps in a container",
        "no time",
        "no time that a clock counts",
        "another host",
    ],
)
def test_a_restart_is_the_end_only_on_this_machine(
    more: dict[str, Any],
    machine: tuple[str | None, str | None, str | None],
    booted: int | None,
    life: Life,
) -> None:
    """Containers of one image have one host name and one machine id, on nodes that both live."""
    owner = replace(new_owner(NOW), **{"boot_id": "before", "machine_id": "machine", "pid_namespace": HERE, **more})
    assert life_of(owner, Machine(*machine, booted)) is life


def test_the_system_says_when_it_was_started() -> None:
    """In seconds since 1970, and before now."""
    booted = Machine.this().booted
    assert booted is not None
    assert 1_000_000_000 < booted < time.time() + 1


def test_the_living_lock_of_a_container_elsewhere_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until somebody says that its run has ended."""
    monkeypatch.setattr(Machine, "this", lambda: Machine("here", "of the image", "pid:[4026532001]"))
    _leave(tmp_path, replace(new_owner(NOW), boot_id="there", pid_namespace="pid:[4026539999]"))
    with pytest.raises(StalePlanError, match="is locked by process") as caught:
        acquire(LocalStorage(), str(tmp_path), now=NOW)
    assert "--unsafe-break-lock" in (caught.value.hint or "")
    with acquire(LocalStorage(), str(tmp_path), now=NOW, unsafe_break_lock=True) as lock:
        lock.check()


def test_a_zombie_is_dead() -> None:
    """It has an entry in the table of processes, and does nothing any more."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, to_bytes(new_owner(NOW), LOCK_TYPE))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        owner = from_bytes(stream.read(), LOCK_TYPE)
    try:
        assert owner is not None
        assert owner.pid == pid
        assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT) is not None
        assert life_of(owner) is Life.DEAD
    finally:
        os.waitpid(pid, 0)


def test_on_a_system_without_proc_nothing_is_known_to_be_dead() -> None:
    """Process ids alone are used again, and an owner file may be anyone's."""
    owner = replace(new_owner(NOW, Machine()), pid_started=None)
    assert (owner.boot_id, owner.machine_id, owner.pid_namespace) == (None, None, None)
    assert life_of(owner, Machine()) is Life.ALIVE
    assert life_of(replace(owner, pid=2**22 + 1), Machine()) is Life.UNKNOWN


def test_another_host_is_only_broken_by_force(tmp_path: Path) -> None:
    """Nobody here can see whether it lives."""
    _leave(tmp_path, replace(_dead(), host="node-7"))
    with pytest.raises(StalePlanError, match="on node-7, since") as caught:
        acquire(LocalStorage(), str(tmp_path), now=NOW)
    assert "--unsafe-break-lock" in (caught.value.hint or "")
    with acquire(LocalStorage(), str(tmp_path), now=NOW, unsafe_break_lock=True) as lock:
        lock.check()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"type": "acidctl_lock"}', b"\xff"])
def test_a_lock_that_says_nothing_is_taken_over_when_it_is_old(tmp_path: Path, content: bytes) -> None:
    """Its writer died while writing, or is writing now."""
    path = tmp_path / "_acidctl_lock"
    path.write_bytes(content)
    os.utime(path, (NOW, NOW))
    with pytest.raises(StalePlanError, match="names no owner") as caught:
        acquire(LocalStorage(), str(tmp_path), now=NOW + TORN_LOCK_SECONDS)
    assert "10 minutes" in (caught.value.hint or "")
    with acquire(LocalStorage(), str(tmp_path), now=NOW + TORN_LOCK_SECONDS + 1) as lock:
        lock.check()
    path.write_bytes(content)
    with acquire(LocalStorage(), str(tmp_path), now=NOW, unsafe_break_lock=True) as lock:
        lock.check()


@pytest.mark.parametrize(
    "change",
    [
        {"id": "../../etc"},
        {"id": "0" * 11},
        {"pid": "1"},
        {"pid": -1},
        {"host": 7},
        {"boot_id": 7},
        {"schema_version": 2},
    ],
    ids=str,
)
def test_owners_are_read_with_care(change: dict[str, Any]) -> None:
    """What lies on storage was perhaps written by somebody else."""
    owner = new_owner(NOW)
    assert from_bytes(to_bytes(owner, LOCK_TYPE), LOCK_TYPE) == owner
    assert from_bytes(to_bytes(owner, LOCK_TYPE), "acidctl_work") is None
    assert from_bytes(json.dumps({**json.loads(to_bytes(owner, LOCK_TYPE)), **change}).encode(), LOCK_TYPE) is None


def test_a_lock_that_could_not_be_removed_is_taken_over(tmp_path: Path) -> None:
    """By the same process at once: it knows that it holds it no more."""
    calls = FaultyStorage(LocalStorage())
    acquire(calls, str(tmp_path), now=NOW).release()
    storage = FaultyStorage(LocalStorage(), calls.calls)
    lock = acquire(storage, str(tmp_path), now=NOW)
    with pytest.raises(StorageError):
        lock.release()
    assert _names(tmp_path) == ["_acidctl_lock"]
    with acquire(LocalStorage(), str(tmp_path), now=NOW) as second:
        second.check()


def test_a_location_that_cannot_be_written_says_why(tmp_path: Path) -> None:
    """Not that somebody else had locked it."""

    class ReadOnly(FaultyStorage):
        def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
            raise StorageError(f"{path} cannot be written: Read-only file system", path=path)

    with pytest.raises(StorageError, match="Read-only file system"):
        acquire(ReadOnly(LocalStorage()), str(tmp_path), now=NOW)


@pytest.mark.parametrize("left", [True, False], ids=["proof still there", "proof gone"])
def test_of_two_takers_one_wins(tmp_path: Path, left: bool) -> None:
    """The slower one read the dead lock, and finds the quicker one's in its place when it moves it."""
    dead = _dead()
    _leave(tmp_path, dead)
    quicker: list[Lock] = []

    class Slow(FaultyStorage):
        def move(self, source: str, target: str) -> None:
            if not quicker:
                quicker.append(acquire(LocalStorage(), str(tmp_path), now=NOW))
                if not left:
                    (tmp_path / f"_acidctl_lock_{dead.id}").unlink()
            super().move(source, target)

    with pytest.raises(StalePlanError, match="already locked by this process"):
        acquire(Slow(LocalStorage()), str(tmp_path), now=NOW)
    quicker[0].check()
    quicker[0].release()
    assert _names(tmp_path) == ([f"_acidctl_lock_{dead.id}"] if left else [])


def test_a_lock_that_changes_hands_while_it_is_read(tmp_path: Path) -> None:
    """Gone when it is opened, and another's when it is looked for: that one is read, and its owner respected."""
    _leave(tmp_path, _dead())
    quicker: list[Lock] = []

    class Changing(FaultyStorage):
        def open(self, path: str) -> BinaryIO:
            if quicker:
                return super().open(path)
            os.unlink(path)
            try:
                return super().open(path)
            finally:
                quicker.append(acquire(LocalStorage(), str(tmp_path), now=NOW))

    with pytest.raises(StalePlanError, match="already locked by this process"):
        acquire(Changing(LocalStorage()), str(tmp_path), now=NOW)
    quicker[0].release()


def test_a_lock_that_cannot_be_read_is_no_reason_to_go_on_asking(tmp_path: Path) -> None:
    """Nor does it count as nobody's."""
    _leave(tmp_path, _dead())
    asked: list[str] = []

    class Unreadable(FaultyStorage):
        def open(self, path: str) -> BinaryIO:
            asked.append(path)
            raise StorageError(f"{path} cannot be read", path=path)

    with pytest.raises(StorageError, match="cannot be read"):
        acquire(Unreadable(LocalStorage()), str(tmp_path), now=NOW)
    assert 0 < len(asked) <= 10
    assert _names(tmp_path) == ["_acidctl_lock"]


def test_of_many_takers_one_wins(tmp_path: Path) -> None:
    """Real processes, at the same moment; the winner holds its lock until all have tried."""
    for attempt in range(3):
        root = tmp_path / str(attempt)
        root.mkdir()
        _leave(root, _dead())
        start, go = os.pipe()
        tried, tell = os.pipe()
        over, end = os.pipe()
        pids = []
        for _ in range(6):
            pid = os.fork()
            if pid == 0:
                code = 3
                try:
                    os.close(go)
                    os.close(end)
                    os.read(start, 1)
                    lock = None
                    try:
                        lock = acquire(LocalStorage(), str(root), now=time.time())
                        code = 0
                    except StalePlanError:
                        code = 1
                    finally:
                        # Whatever happened: all others wait for it.
                        os.write(tell, b"x")
                    os.read(over, 1)
                    if lock is not None:
                        lock.check()
                except BaseException:
                    traceback.print_exc()
                    code = 4
                finally:
                    os._exit(code)
            pids.append(pid)
        os.close(go)
        for _ in pids:
            assert os.read(tried, 1) == b"x"
        os.close(end)
        codes = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)
        for descriptor in (start, tried, tell, over):
            os.close(descriptor)
        assert codes == [0, 1, 1, 1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("stale", [False, True], ids=["free", "left by a dead process"])
def test_a_fault_at_any_call_locks_nobody_out(tmp_path: Path, fault: Fault, stale: bool) -> None:
    """Acquire and release, every call once: the next run gets the lock, at once or when a torn one is old."""

    def prepare() -> LocalStorage:
        for name in _names(tmp_path):
            (tmp_path / name).unlink()
        if stale:
            _leave(tmp_path, dead)
        return LocalStorage()

    dead = _dead()
    count = 0
    for _ in sweep(prepare, lambda storage: acquire(storage, str(tmp_path), now=NOW).release(), fault):
        count += 1
        later = os.stat(tmp_path).st_mtime + TORN_LOCK_SECONDS + 60
        with acquire(LocalStorage(), str(tmp_path), now=later) as lock:
            lock.check()
        assert "_acidctl_lock" not in _names(tmp_path)
    assert count >= 3


def test_storages_in_memory_have_locks_too() -> None:
    """Nothing of it is special to local files."""
    storage = MemoryStorage({"t/f": b"1"})
    with acquire(storage, "t", now=NOW), pytest.raises(StalePlanError):
        acquire(storage, "t", now=NOW)
    assert [info.path for info in storage.walk("t").files] == ["f"]


@pytest.mark.parametrize("fault", [Fault.KILLED, Fault.HALFWAY])
def test_a_run_that_dies_while_it_writes_its_lock_holds_nobody_up(fault: Fault, tmp_path: Path) -> None:
    """The next run has the lock at once, and takes away what is left as soon as that is surely a dead one's."""
    storage, root, at = LocalStorage(), str(tmp_path), 0
    torn = 0
    while broken_run(storage, lambda broken: acquire(broken, root, now=NOW), fault, at + 1) is not None:
        at += 1
        torn += any(from_bytes((tmp_path / name).read_bytes(), LOCK_TYPE) is None for name in _names(tmp_path))
        with acquire(storage, root, now=NOW) as lock:
            made = os.stat(tmp_path).st_mtime
            for moment in (made, made + TORN_LOCK_SECONDS + 60):
                lock.now = moment
                recover(storage, root, list_location(storage, root), lock=lock)
        assert _names(tmp_path) == [], at
    assert at >= 2
    assert fault is Fault.KILLED or torn
