"""A base whose inputs end with an aborted write: what it may be called, and that its rows are published anyway."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from acidctl.compaction.plan import Target
from tests.cli.runner import acidctl
from tests.support.cleaning_cases import step
from tests.support.written_table import Fate, Work, WrittenTable

# A batch of six write ids in one directory, the last of them aborted as a streaming writer leaves them.
ABORTED = "3,5,6,7"
NONE_OPEN = "9223372036854775807"


@pytest.mark.parametrize(
    ("watermark", "options", "outcome", "name"),
    [
        (7, (), "refused", "ends_aborted"),
        (7, ("--target", "hive3"), "compacted", "base_0000007"),
        (7, ("--validtxns", "30:30:30:", "--visibility-txn", "30"), "compacted", "base_0000007_v0000030"),
        (9, (), "compacted", "base_0000008"),
    ],
)
def test_inputs_that_end_with_an_aborted_write(
    watermark: int, options: tuple[str, ...], outcome: str, name: str, tmp_path: Path
) -> None:
    """Hive 4's Cleaner removes a base without a suffix that ends so; acidctl makes none, and the rows stay the same."""
    table = step("hive4/streaming/02-aborted").copy(tmp_path / "t")
    ids = ("--validtxns", f"default.t:{watermark}:{NONE_OPEN}::{ABORTED}")
    before = acidctl("snapshot", str(table), *ids, "--digest", "-o", "csv", "--no-header", "-q").stdout
    result = acidctl("compact", "major", str(table), *ids, *options, "--table-type", "full", "-o", "json")
    (part,) = result.json()["partitions"]
    assert part["outcome"] == outcome, result.stdout
    if outcome == "refused":
        assert result.code == 3
        assert part["reason_code"] == name
        assert "base_0000007 would end with write id 7" in part["reason"]
        return
    assert part["outputs"] == [name]
    after = acidctl("snapshot", str(table), *ids, "--digest", "-o", "csv", "--no-header", "-q").stdout
    assert after == before


@pytest.mark.parametrize(("target", "name"), [(Target.HIVE3, "base_0000003"), (Target.HIVE4, "base_0000003_v0000050")])
def test_a_base_named_after_an_aborted_write_is_compacted_again(target: Target, name: str, tmp_path: Path) -> None:
    """It does not hold that write, so the lists allow it; the next compaction reads it like any other base."""
    table = WrittenTable(tmp_path / "t", target, bucketed=False)
    table.root.mkdir()
    options = ["--table-type", "full", "--target", target.value, "--engine", "local", "-o", "json"]
    visible = ["--visibility-txn", "50", "--validtxns", "50:50:50:"] if target is Target.HIVE4 else []
    for made, fate in ((name, Fate.ABORTED), (f"base_0000004{'' if target is Target.HIVE3 else '_v0000060'}", None)):
        txn = table.begin(Work.WRITE)
        table.insert(txn, 2, 1)
        txn.fate = Fate.COMMITTED
        if fate is not None:
            table.insert(second := table.begin(Work.WRITE), 2, 1)
            table.insert(third := table.begin(Work.WRITE), 2, 1)
            second.fate, third.fate = Fate.COMMITTED, fate
        result = acidctl(
            "compact", "major", str(table.root), "--validtxns", table.reader().lists()[0], *visible, *options
        )
        assert (result.code, result.json()["partitions"][0]["outputs"]) == (0, [made]), result.stdout
        visible = ["--visibility-txn", "60", "--validtxns", "60:60:60:"] if target is Target.HIVE4 else []
    assert len(table.visible(table.reader())) == 6
    count = acidctl("snapshot", str(table.root), "--validtxns", table.reader().lists()[0], "--count", "-o", "json")
    assert count.json()["rows"] == 6


def test_a_cleaner_takes_the_aborted_write_that_a_minor_was_to_cover(tmp_path: Path) -> None:
    """Between planning and locking: the plan is stale, and nothing is wrong with anything."""
    table = WrittenTable(tmp_path / "t", Target.HIVE4, bucketed=False)
    table.root.mkdir()
    for fate in (Fate.ABORTED, Fate.COMMITTED, Fate.COMMITTED):
        txn = table.begin(Work.WRITE)
        table.insert(txn, 2, 1)
        txn.fate = fate
    plan = str(tmp_path / "plan.json")
    ids = ("--validtxns", table.reader().lists()[0])
    minor = ("compact", "minor", str(table.root))
    more = ("--assume-exclusive", "--table-type", "full", "-o", "json")
    planned = acidctl(*minor, *ids, *more, "--plan-out", plan)
    assert '"delta_0000001_0000003"' in planned.stdout, planned
    (aborted,) = table.root.glob("delta_0000001_*")
    shutil.rmtree(aborted)
    result = acidctl(*minor, "--plan", plan, "--assume-exclusive", "-o", "json")
    assert result.code == 15, result
    assert "begins with write id 1 any more" in result.stdout
