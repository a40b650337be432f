"""What earlier versions left is understood: locks, journals, work directories, quarantines, plans, run logs.

Each archive holds copies of `hive4/demo_orders/03-demo` on which an earlier acidctl ran (0.1.0 as it was first handed
out, and commit 18f87b8): compactions that were killed between two renames, between two copies of an object store or
before they published, a clean that was killed after some renames, a quarantine within the table and one (`boxes`)
beside it, a saved plan and a run log. The names of the machine in locks were replaced.
"""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from acidctl.errors import ExitCode
from acidctl.maintenance.lock import new_owner
from tests import ROOT
from tests.cli.runner import Result, acidctl

STEP = ROOT / "fixtures/tables/hive4/demo_orders/03-demo"
LISTS = ("--validtxns", "default.orders:9:8:8:6", "--validtxns", "21:17:17:15", "--table", "default.orders")


VERSIONS = ("0.1.0", "18f87b8")


def _unpack(version: str, place: Path) -> Path:
    """The archive of a version, unpacked with the times of its files."""
    with tarfile.open(ROOT / f"tests/support/leftovers_{version}.tar.xz") as archive:
        archive.extractall(place, filter="data")
    return place


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What each version left."""
    return _unpack(request.param, tmp_path)


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """What 18f87b8 left."""
    return _unpack("18f87b8", tmp_path)


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


def test_a_saved_plan_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """It has no hash, so nobody can tell whether it was edited."""
    old = _unpack("0.1.0", tmp_path)
    refused = acidctl("compact", "major", str(old / "planned"), "--plan", str(old / "plan.json"))
    assert refused.code == ExitCode.STALE_PLAN
    assert "the plan has no hash: it was made by an older acidctl" in refused.stderr


def test_a_saved_plan_is_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all checks of today; the table is named as it was then."""
    later = _unpack("18f87b8", tmp_path / "left")
    monkeypatch.chdir(tmp_path)
    table, rows = Path("left/planned"), _rows(STEP / "table")
    done = acidctl(
        "compact",
        "major",
        str(table),
        "--plan",
        str(later / "plan.json"),
        "--assume-exclusive",
        "--table",
        "default.orders",
    )
    assert (done.code, "result: base_0000007" in done.stdout) == (ExitCode.DONE, True), done
    assert _rows(table) == rows


def test_a_box_beside_the_table_is_brought_back(later: Path) -> None:
    """Its name has no prefix, and its manifest names the place that the table had."""
    (manifest,) = (later / "boxes").glob("*/manifest.json")
    manifest.write_text(manifest.read_text().replace("/warehouse/boxed", str((later / "boxed").resolve())))
    undone = acidctl("clean", str(later / "boxed"), *LISTS, "--undo", "--quarantine", str(later / "boxes"))
    assert undone.code == ExitCode.DONE, undone
    assert (later / "boxed/delta_0000002_0000002_0000").is_dir()
    assert _rows(later / "boxed") == _rows(STEP / "table")


# --- how 18f87b8 was killed


KILLED = ("killed-minor", "killed-copy", "killed-major-copy", "killed-task")


def _now_of_this_machine(table: Path) -> Path:
    """Let the dead run be one of this machine, which can prove that it is; its work directory."""
    (work,) = table.glob("_acidctl_work_*")
    facts = asdict(replace(new_owner(0.0), pid=2**22 + 1, pid_started="1"))
    for path in (table / "_acidctl_lock", work / "owner.json"):
        values = json.loads(path.read_text())
        path.write_text(json.dumps({**values, **facts, "id": values["id"]}))
    return work


def _nothing_is_left(table: Path) -> None:
    assert [path.name for path in table.iterdir() if path.name.startswith("_acidctl")] == []


@pytest.mark.parametrize("name", KILLED)
def test_a_dead_run_of_this_machine_is_settled(later: Path, name: str) -> None:
    """What it had published in part is completed, and nobody sees a row more or less at any time."""
    table, rows = later / name, _rows(STEP / "table")
    assert _rows(table) == rows
    _now_of_this_machine(table)
    done = _compact(table)
    assert done.code == ExitCode.DONE, done
    assert ("Completed an interrupted compaction" in done.stdout) == (name != "killed-task")
    assert _rows(table) == rows
    _nothing_is_left(table)


@pytest.mark.parametrize("name", ["killed-minor", "killed-copy", "killed-major-copy"])
def test_a_half_published_one_whose_inputs_changed_is_taken_back(later: Path, name: str) -> None:
    """It is undone, and what it had written is kept, because the journal cannot prove what it is."""
    table, rows = later / name, _rows(STEP / "table")
    work = _now_of_this_machine(table)
    os.utime(next(iter(sorted((table / "delta_0000005_0000005_0000").glob("bucket*")))), (1, 1))
    done = _compact(table)
    assert done.code == ExitCode.DONE, done
    assert "Undid an interrupted compaction" in done.stdout
    assert f"is kept in {work.name}, which `acidctl clean` removes" in " ".join(done.stdout.split())
    kept = {path.name for path in (work / "attempts").iterdir()}
    if name == "killed-minor":
        kept = {path.name for path in (work / "out").glob("*/bucket*")} | kept
    assert len(kept) == (4 if name == "killed-copy" else 2)
    assert _rows(table) == rows


@pytest.mark.parametrize("name", ["killed-minor", "killed-copy", "killed-major-copy"])
@pytest.mark.parametrize("missing", ["boot_id", "pid_started", "owner.json", "lock"])
def test_one_whose_owner_is_not_proved_dead_is_refused(later: Path, name: str, missing: str) -> None:
    """With a sentence that says what to do, and nothing is changed; readers go on as before."""
    table, rows = later / name, _rows(STEP / "table")
    work = _now_of_this_machine(table)
    lock, owner = table / "_acidctl_lock", work / "owner.json"
    lock.unlink()
    if missing == "owner.json":
        owner.unlink()
    elif missing == "lock":
        owner.write_text(json.dumps({**json.loads(owner.read_text()), "host": "worker-7"}))
    else:
        owner.write_text(json.dumps({**json.loads(owner.read_text()), missing: None}))
    before = sorted(str(path) for path in table.rglob("*"))
    refused = _compact(table)
    assert refused.code == ExitCode.FINDINGS, refused
    assert "is half of an interrupted compaction, which is not proved" in refused.stdout
    remedy = "Nothing was changed. Compare" if missing == "owner.json" else "--unsafe-break-lock"
    assert remedy in " ".join(refused.stdout.split())
    assert sorted(str(path) for path in table.rglob("*")) == before
    assert _rows(table) == rows
    if missing != "owner.json":
        assert _compact(table, "--unsafe-break-lock").code == ExitCode.DONE
        assert _rows(table) == rows
        _nothing_is_left(table)


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
