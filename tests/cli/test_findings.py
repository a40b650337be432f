"""Rows that may be missing or come twice: the answer stands, a verdict is on stderr, and the exit code is 3."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import acidctl as package
from acidctl.errors import ExitCode
from tests import ROOT
from tests.cli.runner import acidctl
from tests.support.orc_files import EVENT, by_pyorc

FIXTURES = ROOT / "fixtures/tables"
DEMO = FIXTURES / "hive4/demo_orders/03-demo/table"
V1 = FIXTURES / "hive2/v1_bucketed/02-changed/table"
VERDICT = "Rows of this answer may be missing or come twice"


def _nested(table: Path) -> str:
    table.rename(table.parent / "inner")
    table.mkdir()
    (table.parent / "inner").rename(table / "base_old")
    return "inside another directory counts for some readers only"


def _overlap(table: Path) -> str:
    (table / "delta_0000005_0000005_0000").rename(table / "delta_0000004_0000006")
    return "delta_0000001_0000004_v0000009 in part; both are read whole"


def _copy_of_directory(table: Path) -> str:
    shutil.copytree(table / "delta_0000005_0000005_0000", table / "delta_0000009_0000009_0000")
    return "two rows have the ROW__ID 5,"


def _unpadded_copy(table: Path) -> str:
    shutil.copytree(table / "delta_0000005_0000005_0000", table / "delta_5_5_0000")
    return "hold the same range"


def _renamed_bucket(table: Path) -> str:
    place = table / "delta_0000005_0000005_0000"
    (place / "bucket_00001_0").rename(place / "bucket_00005_0")
    return "is called bucket 5, and holds rows of bucket 1"


def _disorder(table: Path) -> str:
    place = table / "delta_0000009_0000009_0000/bucket_00000_0"
    place.parent.mkdir()
    values = "row:struct<id:int,customer:string,amount:decimal(8,2),status:string>"
    rows = [(0, 9, 536870912, row, 9, (row, "x", None, "y")) for row in (2, 1, 3)]
    place.write_bytes(by_pyorc(f"struct<{EVENT},{values}>", rows))
    return "rows are not in the order of their ROW__IDs, first at 9,536870912,1"


BY_LISTING = (_nested, _overlap, _unpadded_copy)
BY_READING = (_copy_of_directory, _renamed_bucket, _disorder)
FORMS = (
    (),
    ("--count",),
    ("--count", "--by-partition"),
    ("--digest", "-o", "json"),
    ("-o", "jsonl"),
    ("-o", "csv"),
    ("-o", "json"),
)


@pytest.mark.slow
@pytest.mark.parametrize("change", [*BY_LISTING, *BY_READING])
def test_every_form_says_so(change: Callable[[Path], str], tmp_path: Path) -> None:
    """Text, numbers, rows, exports; -q silences neither the reason nor the verdict. `ls` says what a listing tells."""
    table = shutil.copytree(DEMO, tmp_path / "orders")
    whole = acidctl("snapshot", str(table), "--as-of", "9", "-q")
    assert (whole.code, whole.stderr) == (ExitCode.DONE, "")
    why = change(table)
    to = tmp_path / "rows"
    exports = [("--to", f"{to}{suffix}") for suffix in (".csv", ".jsonl", ".parquet", ".arrow")]
    every = (*FORMS, *exports)
    for form in (*(every if change is _copy_of_directory else every[:2]), *([("--files",)] * (change in BY_LISTING))):
        # What is in no order is not looked at where the ends of files tell the count.
        if change is _disorder and "--count" in form:
            continue
        answer = acidctl("snapshot", str(table), "--as-of", "9", "-q", *form)
        assert answer.code == ExitCode.FINDINGS, (form, answer)
        assert why in answer.stderr, form
        assert VERDICT in answer.stderr.splitlines()[-1]
        assert bool(answer.stdout) == ("--to" not in form)
    assert len(list(tmp_path.glob("rows.*"))) == 4 * (change is _copy_of_directory)
    listed = acidctl("ls", str(table), "--as-of", "9", "-o", "json")
    assert listed.code == (ExitCode.FINDINGS if change in BY_LISTING else ExitCode.DONE)
    snapshot = package.open_table(str(table)).snapshot(as_of=9)
    assert bool(snapshot.findings) == (change in BY_LISTING)
    with pytest.warns(package.AcidctlWarning, match="may be missing or come twice") as warned:
        snapshot.to_batches().read_all()
    assert len(warned) == len(snapshot.findings)
    snapshot.to_table()  # each is warned of once, and warnings are errors here
    assert any(why in one.sentence for one in snapshot.findings)


def test_what_is_doubled_stays_doubled(tmp_path: Path) -> None:
    """Rows are shown as they are stored; whoever counts them is told."""
    table = shutil.copytree(DEMO, tmp_path / "orders")
    before = acidctl("snapshot", str(table), "--as-of", "9", "--count", "-o", "json").json()["rows"]
    _copy_of_directory(table)
    doubled = acidctl("snapshot", str(table), "--as-of", "9", "--count", "-o", "json")
    assert (doubled.code, doubled.json()["rows"]) == (ExitCode.FINDINGS, before + 1)


def test_acid_v1_with_a_copied_file(tmp_path: Path) -> None:
    """Updates in place hide one of two equal inserts from whoever merges: so it is refused, not compacted."""
    table = shutil.copytree(V1, tmp_path / "t")
    shutil.copy(table / "delta_0000101_0000101_0000/bucket_00000", table / "delta_0000101_0000101_0000/bucket_00005")
    assert acidctl("snapshot", str(table), "--count", "-q").code == ExitCode.FINDINGS
    asked = ("--assume-committed", "--assume-exclusive", "--table-type", "full")
    result = acidctl("compact", "major", str(table), *asked)
    assert result.code == ExitCode.FINDINGS, result
    assert "is called bucket 5, and holds rows of bucket 0" in result.stdout
    result = acidctl("compact", "major", str(table), *asked, "--accept-doubts", "foreign_bucket")
    assert result.code == ExitCode.FINDINGS, result
    assert "give the file back its name" in result.stdout
    assert not list(table.glob("base_*"))


@pytest.mark.slow
def test_healthy_tables_have_no_findings() -> None:
    """No fixture that Hive has written, read whole."""
    found = {}
    for step in sorted(FIXTURES.glob("*/*/*")):
        snapshot = package.open_table(str(step / "table")).snapshot()
        try:
            for _ in snapshot.rows(()):
                pass
        except package.AcidctlError:
            continue
        if snapshot.findings:
            found[str(step.relative_to(FIXTURES))] = snapshot.findings
    assert found == {}


@pytest.mark.parametrize(("deletes", "code"), [(True, ExitCode.FINDINGS), (False, ExitCode.DONE)])
def test_a_delete_delta_without_its_half(deletes: bool, code: ExitCode, tmp_path: Path) -> None:
    """Covered by an insert delta alone: no finding where it deletes nothing, as Hive 3's compactor writes some."""
    lonely = tmp_path / "t" / "delete_delta_0000001_0000003"
    shutil.copytree(FIXTURES / "hive3/open_aborted/02-minor/table" / lonely.name, lonely)
    if not deletes:
        (lonely / "bucket_00000").unlink()
    assert [file.stat().st_size for file in lonely.glob("bucket_*")] != []
    wide = tmp_path / "t" / "delta_0000001_0000004"
    wide.mkdir()
    (wide / "_orc_acid_version").write_bytes(b"2")
    result = acidctl("snapshot", str(tmp_path / "t"), "--count", "-o", "json")
    assert result.code == code, result
    assert "other half of that compaction is missing" in result.stderr
