"""What acidctl 0.1.0 left is understood: locks, journals, work directories, quarantines, run logs; plans are refused.

The archive holds copies of `hive4/demo_orders/03-demo` on which 0.1.0 ran: a minor compaction that was killed
between its two renames, a clean that was killed after three, a quarantine, a saved plan and a run log. The names of the
machine in locks were replaced.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from acidctl.errors import ExitCode
from tests import ROOT
from tests.cli.runner import Result, acidctl

STEP = ROOT / "fixtures/tables/hive4/demo_orders/03-demo"
LISTS = ("--validtxns", "default.orders:9:8:8:6", "--validtxns", "21:17:17:15", "--table", "default.orders")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The archive, unpacked with the times of its files."""
    with tarfile.open(ROOT / "tests/support/leftovers_0.1.0.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def _rows(table: Path) -> list[str]:
    """What acidctl reads there; `rows.jsonl` of the fixture is what Hive answered."""
    return sorted(acidctl("snapshot", str(table), *LISTS, "-o", "jsonl").stdout.splitlines())


def _compact(table: Path, *options: str) -> Result:
    return acidctl("compact", "minor", str(table), *LISTS, "--assume-exclusive", "--table-type", "full", *options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "outcome"),
    [("killed-minor", "Completed an interrupted compaction"), ("killed-clean", "result: delta_0000001_0000007")],
)
def test_a_killed_run_is_recognised_and_completed(old: Path, name: str, outcome: str) -> None:
    """Its rows are read, its lock is respected and names its owner; breaking it on purpose gives the same rows."""
    table, rows = old / name, _rows(STEP / "table")
    assert _rows(table) == rows
    refused = _compact(table)
    assert refused.code == ExitCode.STALE_PLAN
    assert "on worker-7, since 2026-" in refused.stderr
    done = _compact(table, "--unsafe-break-lock")
    assert (done.code, outcome in done.stdout) == (ExitCode.DONE, True), done
    assert _rows(table) == rows
    assert not [path for path in table.iterdir() if path.name.startswith("_acidctl")]


def test_a_quarantine_is_brought_back(old: Path) -> None:
    """All but the aborted write."""
    table = old / "quarantined"
    undone = acidctl("clean", str(table), *LISTS, "--undo")
    assert undone.code == ExitCode.DONE, undone
    assert (table / "delta_0000002_0000002_0000").is_dir()
    assert not (table / "delta_0000006_0000006_0000").exists()
    assert _rows(table) == _rows(STEP / "table")


def test_a_saved_plan_is_refused_with_a_sentence(old: Path) -> None:
    """It has no hash, so nobody can tell whether it was edited."""
    refused = acidctl("compact", "major", str(old / "planned"), "--plan", str(old / "plan.json"))
    assert refused.code == ExitCode.STALE_PLAN
    assert "the plan has no hash: it was made by an older acidctl" in refused.stderr


def test_a_run_log_goes_on(old: Path) -> None:
    """New lines come after the old ones, of the same form."""
    log = old / "run.jsonl"
    before = log.read_text().splitlines()
    done = acidctl(
        "compact", "major", str(old / "planned"), *LISTS, "--table-type", "full", "--run-log", str(log), "-q"
    )
    assert done.code == ExitCode.DONE
    lines = log.read_text().splitlines()
    assert lines[: len(before)] == before
    old_keys, new_keys = ({tuple(json.loads(line)) for line in part} for part in (before, lines[len(before) :]))
    assert {key for line in old_keys for key in line} <= {key for line in new_keys for key in line}
