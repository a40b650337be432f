"""What a dead run left in a partition is cleared up, and makes nobody compact what was refused or left out."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acidctl.compaction.plan import Action, InputEntry, OutputDir, PartitionPlan, is_within
from tests import ROOT
from tests.cli.runner import acidctl

TABLES = ROOT / "fixtures" / "tables"
LOADED = TABLES / "hive4/load_data/01-loaded/table/delta_0000002_0000002_0000"
ID = "a" * 12
SCHEMA = ("--schema", "id int, v string")
# Makes an owner file of its own process, and ends.
DIE = """
import sys, time
from acidctl.maintenance.lock import new_owner, to_bytes
from acidctl.maintenance.work_dir import WORK_TYPE
from dataclasses import replace
sys.stdout.buffer.write(to_bytes(replace(new_owner(time.time()), id=sys.argv[1]), WORK_TYPE))
"""


def _leave(location: Path, owner: bytes) -> None:
    work = location / f"_acidctl_work_{ID}"
    (work / "attempts").mkdir(parents=True)
    (work / "owner.json").write_bytes(owner)


@pytest.fixture(params=["nobody's", "of a dead process"])
def owner(request: pytest.FixtureRequest) -> bytes:
    """The content of an owner file: one that says nothing, and that of a process that has really ended."""
    if request.param == "nobody's":
        return b"{}"
    return subprocess.run([sys.executable, "-c", DIE, ID], capture_output=True, check=True).stdout


@pytest.fixture
def loaded(tmp_path: Path) -> Path:
    """LOAD DATA twice: nothing tells whether the table is full ACID or insert-only."""
    for number in (1, 2):
        shutil.copytree(LOADED, tmp_path / f"t/delta_{number:07}_{number:07}_0000")
    return tmp_path / "t"


def _run(table: Path, *more: str) -> tuple[int, list[dict[str, Any]]]:
    said = acidctl("compact", "major", str(table), "--engine", "local", "--assume-committed", "-o", "json", *more)
    return said.code, said.json()["partitions"]


@pytest.mark.parametrize("schema", [(), SCHEMA], ids=["no schema", "schema"])
def test_a_kind_of_table_that_is_not_certain_stays_so(loaded: Path, owner: bytes, schema: tuple[str, ...]) -> None:
    """The rows of the two kinds have other ROW__IDs: a guess would let deletes miss them."""
    code, before = _run(loaded, *schema)
    assert (code, before[0]["outcome"], before[0]["reason_code"]) == (3, "refused", "ambiguous_table_type")
    _leave(loaded, owner)
    code, after = _run(loaded, *schema)
    assert (code, after[0]["outcome"], after[0]["reason_code"]) == (3, "refused", "ambiguous_table_type")
    assert not list(loaded.glob("base_*"))
    assert (loaded / f"_acidctl_work_{ID}").exists() == (owner == b"{}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bound", "done", "code"),
    [
        (("--max-partitions", "1"), ["compacted", *["max_partitions"] * 3], 3),
        (("--max-bytes", "1"), ["max_bytes"] * 4, 3),
        (("--only-if-needed",), ["not_needed"] * 4, 0),
        (("--target", "hive3"), ["compacted"] * 4, 0),
    ],
)
def test_bounds_hold(tmp_path: Path, owner: bytes, bound: tuple[str, ...], done: list[str], code: int) -> None:
    """Four partitions, each with a leftover: no more of them are compacted than without."""
    for part in range(4):
        place = tmp_path / f"t/ds={part}"
        shutil.copytree(TABLES / "hive4/bucketed/02-changed/table", place)
        _leave(place, owner)
    found, parts = _run(tmp_path / "t", *bound)
    assert [part["reason_code"] or part["outcome"] for part in parts] == done
    assert found == code
    assert len(list((tmp_path / "t").glob("ds=*/base_0000005"))) == done.count("compacted")
    # What is left behind goes wherever it is, if somebody can tell that its owner is dead.
    assert len(list((tmp_path / "t").glob(f"ds=*/_acidctl_work_{ID}"))) == (4 if owner == b"{}" else 0)


def _entry(name: str, low: int | None, high: int | None) -> InputEntry:
    return InputEntry(name, "delta", low, high, ())


def test_what_lies_within_a_decision() -> None:
    """The same or less, and what a compaction has made of inputs; no other name, nothing beyond their write ids."""
    decided = PartitionPlan(
        "p=1",
        "p=1",
        Action.COMPACT,
        inputs=(_entry("base_3", None, 3), _entry("delta_4_4", 4, 4), _entry("delta_5_5", 5, 5)),
        outputs=(OutputDir("base_5", "base"),),
    )
    assert is_within(decided, decided)
    assert is_within(replace(decided, inputs=decided.inputs[:2]), decided)
    merged = replace(decided, inputs=(_entry("base_3", None, 3), _entry("delta_4_5", 4, 5)))
    assert is_within(merged, decided)
    for wider in (
        replace(decided, inputs=(*decided.inputs, _entry("delta_6_6", 6, 6))),
        replace(decided, outputs=(OutputDir("base_6", "base"),)),
        replace(decided, outputs=(*decided.outputs, OutputDir("delta_4_5", "delta"))),
        replace(decided, path="p=2"),
    ):
        assert not is_within(wider, decided)
