"""Compactions that may not take all: so many partitions, so much time; and runs that are killed and begun again."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import acidctl
from acidctl.compaction import run as module
from acidctl.compaction.report import PartitionReport
from acidctl.compaction.run import Prepared
from acidctl.engine import Task, TaskOutcome
from acidctl.engine.local import LocalEngine
from acidctl.errors import ExitCode
from acidctl.maintenance.limits import TimeLimit
from tests import ROOT
from tests.support.cleaning_cases import step
from tests.support.extent import amount

STEP = step("hive4/demo_orders/03-demo")
LISTS = list(STEP.lists)
OPTIONS = [option for text in LISTS for option in ("--validtxns", text)]
MANY = amount(30, swept=60)
HERE = ROOT
# Tasks that take for ever, in this process or in workers.
SLOW = """
import sys
from acidctl.engine import local
from tests.support.fake_tasks import linger
init = local.LocalEngine.__init__
small = {"pool": 0, "here": 1 << 40}[sys.argv.pop(1)]
local.LocalEngine.__init__ = lambda self, **given: init(self, **{**given, "small_bytes": small, "work": linger})
from acidctl.cli.main import main
main()
"""


class Clock:
    """Stands still unless a test moves it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Engine:
    """The local one; each task takes ten seconds of the test's clock."""

    name = "fake"
    parallelism = 1

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """One after the other."""
        with LocalEngine(parallelism=1) as engine:
            for outcome in engine.run(specs):
                self.clock.now += 10
                yield outcome

    def close(self) -> None:
        """Nothing."""


def _table(root: Path, partitions: int) -> Path:
    for number in range(partitions):
        shutil.copytree(STEP.folder / "table", root / f"ds={number:02}")
    return root


def _names(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.rglob("*")}


def _digest(table: Path) -> tuple[int, str]:
    return acidctl.open_table(str(table)).snapshot(validtxns=LISTS).count_and_digest()


def _prepared(table: Path, limit: TimeLimit, **options: Any) -> Prepared:
    return acidctl.open_table(str(table)).prepare_compaction("major", validtxns=LISTS, limit=limit, **options)


@pytest.fixture
def small_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition a wave: the demo table's are so small that a wave holds all of them."""
    monkeypatch.setattr(module, "WAVE_PARTITIONS", 1)


def test_nothing_is_begun_after_the_time(tmp_path: Path, small_waves: None) -> None:
    """What has begun is finished within the grace; the rest is told of, and untouched."""
    table, clock = _table(tmp_path / "orders", 3), Clock()
    before = _digest(table)
    told: list[PartitionReport] = []
    # Two tasks a partition: the second one begins at 20 s and ends at 40 s.
    prepared = _prepared(table, TimeLimit(30, 60, clock=clock))
    report = prepared.start(Engine(clock), on_partition=told.append).run()
    assert [(part.outcome.value, part.reason_code) for part in report.partitions] == [
        ("compacted", ""),
        ("compacted", ""),
        ("refused", "max_runtime"),
    ]
    assert report.exit_code == ExitCode.FINDINGS
    assert {part.partition for part in told} == {"ds=00", "ds=01", "ds=02"}
    assert not [name for name in _names(table) if "_acidctl" in name or name.startswith("ds=02/base")]
    assert _digest(table) == before


def test_what_has_begun_is_given_up_after_the_grace(tmp_path: Path, small_waves: None) -> None:
    """As if it had never been begun."""
    table, clock = _table(tmp_path / "orders", 2), Clock()
    names = _names(table)
    report = _prepared(table, TimeLimit(5, 2, clock=clock)).start(Engine(clock)).run()
    assert [part.reason_code for part in report.partitions] == ["max_runtime"] * 2
    assert report.exit_code == ExitCode.FINDINGS
    assert "stopped at the end of --max-runtime" in report.partitions[0].reason
    assert "not started" in report.partitions[1].reason
    assert _names(table) == names


@pytest.mark.slow
@pytest.mark.parametrize(("fewest", "planned"), [(1, 1), (2, 2)])
def test_planning_leaves_half_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fewest: int, planned: int
) -> None:
    """Some small partitions are planned, however slow that is; those in most need come first."""
    monkeypatch.setattr("acidctl.compaction.decision.FEWEST", fewest)
    # One file after the other: where threads are slow, all would be begun before the clock moves.
    monkeypatch.setattr("acidctl.compaction.decision.ordered_map", lambda function, items, **_: map(function, items))
    table, clock = _table(tmp_path / "orders", 3), Clock()
    shutil.rmtree(next((table / "ds=00").glob("delta_0000007*")))

    def look(done: int, total: int | None) -> None:
        clock.now += 10

    prepared = _prepared(table, TimeLimit(60, clock=clock), progress=look)
    codes = [part.reason_code for part in prepared.plan.partitions]
    assert codes == ["max_runtime", *[""] * planned, *["max_runtime"] * (2 - planned)]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["pool", "here"])
def test_the_clock_ends_a_run(how: str, tmp_path: Path) -> None:
    """Tasks that hang do not keep the command from ending, in order, with exit code 3."""
    table = _table(tmp_path / "orders", 2)
    names = _names(table)
    command = [sys.executable, "-c", SLOW, how, "compact", "major", str(table), *OPTIONS, "--parallelism", "2"]
    command += ["--engine", "local", "--max-runtime", "3s", "--grace", "1s", "-o", "json"]
    started = time.monotonic()
    run = subprocess.run(command, capture_output=True, timeout=50, cwd=HERE, check=False)
    assert run.returncode == ExitCode.FINDINGS, run.stderr
    assert time.monotonic() - started < 40
    assert b"Traceback" not in run.stderr
    parts = json.loads(run.stdout)["partitions"]
    assert [(part["outcome"], part["reason_code"]) for part in parts] == [("refused", "max_runtime")] * 2
    assert _names(table) == names


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """Killed at random, again and again: what was finished is not done again, and in the end all is."""
    # Enough that several runs are killed before all is done.
    many = 3 * MANY
    table, log = _table(tmp_path / "orders", many), tmp_path / "log"
    before = _digest(table)
    command = [sys.executable, "-m", "acidctl", "compact", "major", str(table), *OPTIONS]
    command += ["--engine", "local", "--run-log", str(log), "-q", "-o", "json"]
    chance = random.Random(6)
    made: dict[str, int] = {}
    killed = 0
    for turn in range(40):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=HERE, start_new_session=True
        ) as process:
            if turn < 8:
                enough = len(made) + chance.randint(1, 4)
                # Counted, not timed: a quick machine does all partitions within a pause that a slow one needs.
                while process.poll() is None and len(list(table.glob("*/base_0000007"))) < enough:
                    time.sleep(0.002)
                time.sleep(chance.random() * 0.02)
                # Who has ended, and was waited for, has no group any more.
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate(timeout=300)
        done = {path.parent.name: path.stat().st_ino for path in table.glob("*/base_0000007")}
        assert {name: done.get(name) for name in made} == made
        assert process.returncode == -signal.SIGKILL or process.returncode == 0, err
        killed += process.returncode != 0
        made = done
        if process.returncode == 0:
            outcomes = [part["outcome"] for part in json.loads(out)["partitions"]]
            assert set(outcomes) <= {"compacted", "nothing_to_do"}
            break
    assert killed >= 3
    assert len(made) == many
    assert not list(table.rglob("_acidctl*"))
    assert _digest(table) == before
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    finished = [line["partition"] for line in lines if line["type"] == "compaction_log"]
    # A kill between the rename and the line costs the line.
    assert len(finished) == len(set(finished)) >= many - killed * 8
    assert {line["outcome"] for line in lines if line["type"] == "compaction_log"} == {"compacted"}


@pytest.mark.slow
def test_so_many_partitions_and_bytes(tmp_path: Path) -> None:
    """Run after run takes the next ones, those with the most directories first."""
    table = acidctl.open_table(str(_table(tmp_path / "orders", 3)))
    shutil.rmtree(next((tmp_path / "orders" / "ds=00").glob("delta_0000007*")))
    seen = []
    for _ in range(4):
        report = table.compact("major", engine="local", validtxns=LISTS, max_partitions=1)
        seen.append({part.partition: part.reason_code or part.outcome.value for part in report.partitions})
    assert seen[0] == {"ds=00": "max_partitions", "ds=01": "compacted", "ds=02": "max_partitions"}
    assert seen[1] == {"ds=00": "max_partitions", "ds=01": "not_enough", "ds=02": "compacted"}
    assert seen[2] == {"ds=00": "compacted", "ds=01": "not_enough", "ds=02": "not_enough"}
    assert set(seen[3].values()) == {"not_enough"}
