"""Covers without events: trusted only where nobody sees an event in what they cover."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from acidctl.cleaning.run import CleanRun, prepare
from acidctl.options import CleanOptions
from acidctl.storage.local import LocalStorage
from tests.support.cleaning_cases import LATER, age, step, tops, tree

pytestmark = pytest.mark.usefixtures("nobody_waits")

BASE = ("base_0000008_v0700000",)
MINOR = ("delta_0000001_0000008_v0700000", "delete_delta_0000001_0000008_v0700000")


@pytest.fixture(autouse=True)
def _unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def _covered(root: Path, names: tuple[str, ...]) -> Path:
    """Closed batches of streaming ingest, below directories that say that a compaction wrote nothing."""
    step("hive4/streaming/04-closed").copy(root)
    for name in names:
        (root / name).mkdir()
        (root / name / "_orc_acid_version").write_bytes(b"2")
    age(root)
    return root


def _run(root: Path, aborted: str) -> CleanRun:
    lists = (f"default.t:8:9223372036854775807::{aborted}", "800000:9223372036854775807::")
    schema = step("hive4/streaming/04-closed").facts["ddl"]
    request = CleanOptions(validtxns=lists, schema=schema)
    return prepare(LocalStorage(), str(root), request, now=LATER)


def _failing(run: CleanRun) -> list[str]:
    return [guard.guard for part in run.plan().locations for guard in part.guards if not guard.holds]


@pytest.mark.parametrize("aborted", ["", "3,5,7"], ids=["all committed", "some aborted"])
@pytest.mark.parametrize("covers", [BASE, MINOR], ids=["base", "minor"])
def test_rows_below_hold_back(covers: tuple[str, ...], aborted: str, tmp_path: Path) -> None:
    """Also where writes are aborted in part of a delta, as in batches of streaming ingest."""
    root = _covered(tmp_path / "t", covers)
    before = tree(root)
    run = _run(root, aborted)
    assert _failing(run) == ["G4"]
    assert run.delete(run.plan()).victims == ()
    assert tree(root) == before


def test_below_a_base_what_cannot_be_counted_holds_back(tmp_path: Path) -> None:
    """A torn file may have held rows."""
    root = _covered(tmp_path / "t", BASE)
    torn = root / "delta_0000002_0000007" / "bucket_00000"
    torn.write_bytes(torn.read_bytes()[:-7])
    age(root)
    assert _failing(_run(root, "3,5,7")) == ["G4"]


@pytest.mark.parametrize("covers", [BASE, MINOR], ids=["base", "minor"])
def test_rows_of_aborted_writes_do_not(covers: tuple[str, ...], tmp_path: Path) -> None:
    """They are in the files, and no reader sees them."""
    root = _covered(tmp_path / "t", covers)
    for name in ("delta_0000001_0000001_0000", "delete_delta_0000008_0000008_0000"):
        shutil.rmtree(root / name)
    # Write 1 is committed and without events, so the delta is not aborted as a whole.
    (root / "delta_0000002_0000007").rename(root / "delta_0000001_0000007")
    age(root)
    run = _run(root, "2,3,4,5,6,7")
    assert _failing(run) == []
    assert run.delete(run.plan()).victims
    assert tops(root) == set(covers)
