"""The way back from quarantine when a place is not called what it was: renamed, reached by a link, or another's."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from acidctl.cleaning.report import CleanReport, Outcome
from acidctl.cleaning.run import prepare
from acidctl.errors import ExitCode
from acidctl.options import CleanOptions
from tests.support.cleaning_cases import Step, step, tops, tree
from tests.support.memory import MemoryStorage

DEMO = step("hive4/demo_orders/03-demo")
PARTS = step("hive4/partitioned/03-one-compacted")
EMPTY = step("hive4/deleted_all/03-major")
pytestmark = pytest.mark.usefixtures("nobody_waits")


def _went(report: CleanReport) -> set[str]:
    """Names of victims that may come back."""
    assert report.exit_code == ExitCode.DONE
    return {victim.name for victim in report.victims if victim.reason_code != "write_aborted"}


def _aside(case: Step, root: Path, base: Path | None = None) -> set[str]:
    """Clean into quarantine; what may come back."""
    went = _went(case.quarantine(root, base=None if base is None else str(base)))
    assert went
    return went


def _problems(report: CleanReport) -> list[str]:
    return [part.problem.message for part in report.partitions if part.problem is not None]


@pytest.mark.parametrize("case", [DEMO, PARTS], ids=["table", "partitions"])
def test_a_renamed_table_gets_back_what_lies_within_it(case: Step, tmp_path: Path) -> None:
    """ALTER TABLE RENAME moves the directory; the box in it moves along, and so does its content."""
    root = case.copy(tmp_path / "orders")
    rows, before = case.rows(root), tree(root)
    went = _aside(case, root)
    renamed = root.rename(tmp_path / "orders_old")
    case.copy(root)
    back = case.undo(renamed)
    assert (_went(back), back.exit_code) == (went, ExitCode.DONE)
    assert case.rows(renamed) == rows
    assert {p for p in tree(renamed) if "_acidctl" not in p} <= set(before)
    assert tree(root) == before
    assert case.undo(renamed).victims == ()


def test_a_renamed_partition_gets_back_what_lies_within_it(tmp_path: Path) -> None:
    """The folder of one partition, by another value of its key."""
    root = PARTS.copy(tmp_path / "t")
    went = _aside(PARTS, root)
    box = next(root.rglob("_acidctl_quarantine"))
    box.parent.rename(box.parent.with_name(box.parent.name + "9"))
    assert _went(PARTS.undo(root)) == went


@pytest.mark.parametrize("elsewhere", [False, True], ids=["within", "elsewhere"])
@pytest.mark.parametrize("first", ["by the link", "by the name"])
def test_a_link_to_a_table_is_the_table(elsewhere: bool, first: str, tmp_path: Path) -> None:
    """Whichever of the two was cleaned, and whichever is asked to bring back."""
    (tmp_path / "real").mkdir()
    root = DEMO.copy(tmp_path / "real" / "orders")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    places = [root, tmp_path / "link" / "orders"]
    if first == "by the link":
        places.reverse()
    base = tmp_path / "aside" if elsewhere else None
    went = _aside(DEMO, places[0], base)
    assert _went(DEMO.undo(places[1], base=None if base is None else str(base))) == went


def test_a_link_that_led_to_the_table_when_it_was_cleaned_leads_to_it(tmp_path: Path) -> None:
    """What is recorded is the place itself, which a link that is changed later does not change."""
    root, base = DEMO.copy(tmp_path / "orders"), tmp_path / "aside"
    link = tmp_path / "link"
    link.symlink_to(root)
    went = _aside(DEMO, link, base)
    link.unlink()
    other = DEMO.copy(tmp_path / "other")
    link.symlink_to(other)
    assert DEMO.undo(link, base=str(base)).exit_code == ExitCode.FINDINGS
    assert _went(DEMO.undo(root, base=str(base))) == went


@pytest.mark.parametrize("case", [DEMO, PARTS], ids=["table", "partitions"])
def test_what_was_taken_from_another_place_is_told_and_left(case: Step, tmp_path: Path) -> None:
    """Outside of the table only the recorded place tells whose it is: exit 3, by name, and nothing moves."""
    root, base = case.copy(tmp_path / "orders"), tmp_path / "aside"
    _aside(case, root, base)
    renamed = root.rename(tmp_path / "renamed")
    before = tree(tmp_path)
    report = case.undo(renamed, base=str(base))
    assert (report.exit_code, report.victims) == (ExitCode.FINDINGS, ())
    assert tree(tmp_path) == before
    boxed = [json.loads(path.read_text())["location"] for path in base.glob("*/manifest.json")]
    told = _problems(report)
    assert boxed
    assert all(any(f"{place}," in line for line in told) for place in boxed)
    assert not any("No quarantine" in note for note in report.notes)
    renamed.rename(root)
    assert case.undo(root, base=str(base)).victims


def test_a_partition_that_was_renamed_is_told_of(tmp_path: Path) -> None:
    """What a place of this table has lost by its new name is as far away as another table's."""
    root, base = PARTS.copy(tmp_path / "t"), tmp_path / "aside"
    _aside(PARTS, root, base)
    (manifest,) = (json.loads(path.read_text()) for path in base.glob("*/manifest.json"))
    Path(manifest["location"]).rename(manifest["location"] + "9")
    report = PARTS.undo(root, base=str(base))
    assert (report.exit_code, report.victims) == (ExitCode.FINDINGS, ())
    assert any(manifest["location"] in line for line in _problems(report))


def test_beside_ones_own_those_of_others_are_a_remark(tmp_path: Path) -> None:
    """A directory of the user's choice may serve many tables."""
    root, base = DEMO.copy(tmp_path / "orders"), tmp_path / "aside"
    went = _aside(DEMO, root, base)
    other = DEMO.copy(tmp_path / "other")
    _aside(DEMO, other, base)
    back = DEMO.undo(root, base=str(base))
    assert (_went(back), back.exit_code) == (went, ExitCode.DONE)
    assert [str(other) in note for part in back.partitions for note in part.notes] == [True]
    assert _went(DEMO.undo(other, base=str(base))) == went


def test_partitions_are_no_strangers_to_each_other(tmp_path: Path) -> None:
    """One has a box, the other none; neither is told of the other's."""
    root, base = PARTS.copy(tmp_path / "t"), tmp_path / "aside"
    went = _aside(PARTS, root, base)
    (manifest,) = (json.loads(path.read_text()) for path in base.glob("*/manifest.json"))
    linked = Path(manifest["location"])
    linked.rename(tmp_path / linked.name)
    linked.symlink_to(tmp_path / linked.name)
    report = PARTS.undo(root, base=str(base))
    assert _went(report) == went
    assert len(report.partitions) > 1
    assert {part.outcome for part in report.partitions} == {Outcome.RESTORED, Outcome.NOTHING_TO_DO}
    assert [part.notes for part in report.partitions] == [()] * len(report.partitions)


def test_a_folder_within_one_table_may_hold_what_is_anothers(tmp_path: Path) -> None:
    """Earlier versions let a user do so; it is not brought back into the table that holds it, nor by another name."""
    root, other = DEMO.copy(tmp_path / "orders"), DEMO.copy(tmp_path / "other")
    base = other / "_acidctl_quarantine"
    went = _aside(DEMO, root, tmp_path / "boxes")
    (box,) = (tmp_path / "boxes").iterdir()
    base.mkdir()
    box.rename(base / box.name.removeprefix("_acidctl_quarantine_"))
    for victim in went:
        shutil.rmtree(other / victim)
    report = DEMO.undo(other)
    assert (report.exit_code, report.victims) == (ExitCode.FINDINGS, ())
    assert str(root) in _problems(report)[0]
    assert not went & tops(other)
    assert _went(DEMO.undo(root, base=str(base))) == went


def test_the_folder_of_the_table_may_be_named(tmp_path: Path) -> None:
    """`--quarantine DIR` with what stands there by default is the default, before and after a renaming."""
    root = DEMO.copy(tmp_path / "orders")
    went = _aside(DEMO, root, root / "_acidctl_quarantine")
    renamed = root.rename(tmp_path / "renamed")
    assert _went(DEMO.undo(renamed, base=str(renamed / "_acidctl_quarantine"))) == went


def test_the_box_of_a_renamed_table_is_not_its_successors(tmp_path: Path) -> None:
    """A new table bears the name that the box records; the old one holds the box."""
    root = DEMO.copy(tmp_path / "orders")
    went = _aside(DEMO, root)
    renamed = root.rename(tmp_path / "renamed")
    DEMO.copy(root)
    for victim in went:
        shutil.rmtree(root / victim)
    report = DEMO.undo(root, base=str(renamed / "_acidctl_quarantine"))
    assert (report.exit_code, report.victims) == (ExitCode.FINDINGS, ())
    assert str(renamed) in _problems(report)[0]
    assert not went & tops(root)


def test_boxes_made_before_it_was_recorded_where_they_are(tmp_path: Path) -> None:
    """Their folder's name tells whether they lie within; elsewhere the recorded place counts."""
    root, base = DEMO.copy(tmp_path / "orders"), tmp_path / "aside"
    for place in (None, base):
        went = _aside(DEMO, root, place)
        (path,) = (root / "_acidctl_quarantine" if place is None else place).glob("*/manifest.json")
        values = json.loads(path.read_text())
        del values["within"]
        path.write_text(json.dumps(values))
        assert _went(DEMO.undo(root, base=None if place is None else str(place))) == went
        root = DEMO.copy(root)


def test_nothing_comes_back_over_what_a_renamed_table_holds(tmp_path: Path) -> None:
    """The checks are those of a place that has kept its name."""
    root = DEMO.copy(tmp_path / "orders")
    went = _aside(DEMO, root)
    renamed = root.rename(tmp_path / "renamed")
    taken = min(went)
    (renamed / taken).mkdir()
    back = DEMO.undo(renamed)
    assert _went(back) == went - {taken}
    assert list((renamed / taken).iterdir()) == []


@pytest.mark.parametrize("base", [None, "aside"])
def test_on_storage_without_links_names_are_compared_as_they_are(base: str | None) -> None:
    """Within, the folder counts there too; elsewhere the recorded place, by its whole name."""
    files = {f"w/t/delta_{i:07d}_{i:07d}_0000/bucket_00000": b"" for i in (1, 2)}
    files |= {"w/t/base_0000002_v0000009/_orc_acid_version": b"2"}
    request = CleanOptions(validtxns=("d.t:2:9223372036854775807::", "9:9223372036854775807::"), table="d.t")
    storage = MemoryStorage(files, modified=1.0)
    run = prepare(storage, "w/t", request, now=1e6)
    assert run.quarantine(run.plan(), base).exit_code == ExitCode.DONE
    for name in ("w/tt", "w/t"):
        storage.move("w/t" if name == "w/tt" else "w/tt", name)
        report = prepare(storage, name, request, now=1e6).undo(base)
        if name == "w/tt" and base is not None:
            assert (report.exit_code, report.victims) == (ExitCode.FINDINGS, ())
            continue
        assert report.exit_code == ExitCode.DONE
        assert len(report.victims) == (2 if base is not None or name == "w/tt" else 0)


def test_a_quarantine_that_is_a_link_is_nobodys(tmp_path: Path) -> None:
    """Two tables that link to one folder: it is within neither, and named by itself it serves both."""
    places, base = [DEMO.copy(tmp_path / name) for name in ("orders", "other")], tmp_path / "_acidctl_quarantine"
    base.mkdir()
    for root in places:
        (root / "_acidctl_quarantine").symlink_to(base)
    before = tree(tmp_path)
    report = DEMO.quarantine(places[0])
    assert (report.exit_code, tree(tmp_path)) == (ExitCode.STORAGE, before)
    assert any("is a symbolic link" in line for line in _problems(report))
    went = _aside(DEMO, places[0], base)
    for victim in went:
        shutil.rmtree(places[1] / victim)
    assert DEMO.undo(places[1], base=str(base)).exit_code == ExitCode.FINDINGS
    assert not went & tops(places[1])
    assert _went(DEMO.undo(places[0], base=str(base))) == went


@pytest.mark.parametrize("elsewhere", [False, True], ids=["within", "elsewhere"])
def test_a_live_base_without_a_row_covers_what_is_brought_back(elsewhere: bool, tmp_path: Path) -> None:
    """Its guard counts what it covers, and that lies in the quarantine yet: all comes back to where it was."""
    root = EMPTY.copy(tmp_path / "t")
    before, base = tree(root), tmp_path / "aside" if elsewhere else None
    went = _aside(EMPTY, root, base)
    back = EMPTY.undo(root, base=None if base is None else str(base))
    assert (_went(back), back.exit_code) == (went, ExitCode.DONE)
    assert tree(root) == before


def test_the_owner_of_a_table_owns_its_quarantine(tmp_path: Path) -> None:
    """Whoever cleans: root is often the one, and who owns the table has to be able to bring back."""
    if os.geteuid():
        pytest.skip("only root gives files away")
    for base in (None, tmp_path / "aside"):
        root = DEMO.copy(tmp_path / f"t{base is None}")
        for path in (root, *root.rglob("*")):
            os.chown(path, 12345, 23456)
        root.chmod(0o770)
        _aside(DEMO, root, base)
        place = base or root / "_acidctl_quarantine"
        for path in (place, *place.glob("*"), *place.glob("*/*")):
            found = path.stat()
            mode = 0o770 if path.is_dir() else 0o660
            assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 23456, mode), path
