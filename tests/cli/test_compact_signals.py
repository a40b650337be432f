"""`compact` as a process of its own that is interrupted, killed or short of space at any moment."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest

from acidctl.cli.process import called_by_writer, interruptible, interrupts_reach_us
from acidctl.compaction.run import Compaction
from acidctl.errors import ExitCode, TimeUpError
from tests import ROOT
from tests.cli.runner import acidctl, heed_interrupts
from tests.support.cleaning_cases import step
from tests.support.extent import amount, some

STEP = step("hive4/many_rows/01-written")
PARTITIONS = ("ds=a", "ds=b", "ds=c")
LISTS = [option for text in STEP.lists for option in ("--validtxns", text)]
TIMES = amount(3, swept=10)
MOMENTS = (
    *((signal.SIGINT, "pool"), (signal.SIGINT, "threads"), (signal.SIGTERM, "threads")),
    *((signal.SIGTERM, "pool"), (signal.SIGKILL, "pool"), (signal.SIGKILL, "threads")),
)
# Even work as small as this goes to worker processes with "pool".
PROGRAM = """
import sys
from acidctl.engine.local import LocalEngine
LocalEngine.__init__.__kwdefaults__["small_bytes"] = 0 if sys.argv.pop(1) == "pool" else 1 << 40
from acidctl.cli.main import main
main()
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three partitions."""
    return _plant(tmp_path / "t")


def _plant(root: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    for name in PARTITIONS:
        shutil.copytree(STEP.folder / "table", root / name)
    return root


def _start(table: Path, how: str, *, limit: int | None = None) -> subprocess.Popen[bytes]:
    def prepare() -> None:
        heed_interrupts()
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-c", PROGRAM, how, "compact", "major", str(table), *LISTS]
    command += ["--engine", "local", "--parallelism", "2", "-o", "json"]
    here = ROOT
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=prepare,
        cwd=here,
        start_new_session=True,
    )


def _begun(table: Path, process: subprocess.Popen[bytes]) -> float:
    """When the first lock was taken."""
    ends = time.monotonic() + 60
    while not list(table.glob("*/_acidctl_lock")) and process.poll() is None:
        assert time.monotonic() < ends
        time.sleep(0.002)
    return time.monotonic()


def _names(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.rglob("*")}


def _digest(table: Path) -> str:
    return acidctl("snapshot", str(table), *LISTS, "--digest", "-o", "csv", "--no-header", "-q").stdout


def _completes(table: Path, digest: str) -> None:
    """The next run has no leftovers to show."""
    result = acidctl("compact", "major", str(table), *LISTS, "--engine", "local", "-o", "json")
    assert result.code == ExitCode.DONE, (result.stdout, result.stderr)
    assert {part["outcome"] for part in result.json()["partitions"]} <= {"compacted", "nothing_to_do"}
    assert not list(table.rglob("_acidctl*"))
    assert len(list(table.glob("*/base_*"))) == len(PARTITIONS)
    assert _digest(table) == digest


@pytest.mark.slow
@pytest.mark.parametrize(("number", "how"), some(MOMENTS, one_of=2))
def test_a_signal_at_any_moment(number: signal.Signals, how: str, table: Path) -> None:
    """Interrupted: exit 130 within seconds and nothing left. Killed, workers or not: the next run tidies up."""
    names, digest = _names(table), _digest(table)
    process = _start(table, how)
    begun = _begun(table, process)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    takes = time.monotonic() - begun
    chance = random.Random(number * 2 + (how == "pool"))
    interrupted = 0
    turns = 0
    # A signal may come when all is done, and on a busy machine several do.
    while turns < TIMES or (not interrupted and turns < 10 * TIMES):
        turns += 1
        _plant(table)
        process = _start(table, how)
        _begun(table, process)
        time.sleep(chance.random() * takes * 0.7)
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert b"Traceback" not in err, err
        if number != signal.SIGKILL:
            assert not list(table.rglob("_acidctl*")), err
            # One that comes when all is done may end the process as any other.
            assert process.returncode in (0, 130, -number), err
            if process.returncode != 130:
                assert len(list(table.glob("*/base_*"))) == len(PARTITIONS)
        assert {name for name in _names(table) if "base_" not in name and "_acidctl" not in name} == names
        assert _digest(table) == digest
        interrupted += process.returncode not in (0, None)
        _completes(table, digest)
    assert interrupted


@pytest.mark.parametrize("how", ["threads", pytest.param("pool", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_no_space_in_the_middle(how: str, table: Path) -> None:
    """The system takes no more bytes of a file: exit 14 with the reason, the table as it was, nothing left."""
    for name in PARTITIONS[1:]:
        shutil.rmtree(table / name)
    names = _names(table)
    process = _start(table, how, limit=5_000)
    out, err = process.communicate(timeout=60)
    assert process.returncode == ExitCode.STORAGE, (out, err)
    (part,) = json.loads(out)["partitions"]
    assert (part["outcome"], part["reason_code"]) == ("failed", "storage"), part
    assert "cannot be written: File too large" in part["reason"]
    assert b"Traceback" not in err
    assert _names(table) == names


def test_no_interrupt_within_a_writer() -> None:
    """What a library calls back must not raise; what the writer's own module does may."""
    names: dict[str, Any] = {"__name__": "acidctl.orc.arrow_writer", "told": lambda: called_by_writer(sys._getframe())}
    exec("def write(): return told()", names)
    assert names["write"]()
    assert not called_by_writer(sys._getframe())
    assert not called_by_writer(None)


class _Run:
    """A run whose engine is at work."""

    seconds_left = 1000.0

    def cancel(self) -> bool:
        return True

    def expire(self) -> bool:
        return True


class _Dropped:
    """Meets a signal where Python drops what a handler raises."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


class _Broken:
    def __del__(self) -> None:
        raise ValueError


def _meet(number: signal.Signals) -> None:
    """And a second one must not come."""
    _Broken()
    _Dropped(number)
    try:
        time.sleep(60)
    finally:
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, KeyboardInterrupt), (signal.SIGALRM, TimeUpError)],
)
def test_what_python_drops_is_raised_again(
    number: signal.Signals, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within seconds, without a trace, and once; whatever else is dropped is shown as ever."""
    shown: list[sys.UnraisableHookArgs] = []
    monkeypatch.setattr(sys, "unraisablehook", shown.append)
    with pytest.raises(error), interruptible(cast(Compaction, _Run())):
        _meet(number)
    assert [type(lost.exc_value) for lost in shown] == [ValueError]
    assert sys.unraisablehook == shown.append


def test_an_interrupt_of_any_command_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have nothing to tidy up end too."""
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: None)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_reach_us():
            _meet(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
