"""The guards `rows` and `doubts`: by names all of these may be cleaned, and rows would be lost with what goes."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pytest

from acidctl import open_table
from acidctl.cleaning import decisions
from acidctl.cleaning import run as run_module
from acidctl.cleaning.plan import CleanPlan, Compared
from acidctl.cleaning.report import CleanReport
from acidctl.cleaning.run import CleanRun, prepare
from acidctl.errors import ExitCode
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.options import CleanOptions
from acidctl.orc.reader import open_orc
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from acidctl.types.schema import parse_schema
from tests.support.cleaning_cases import LATER, MADE, Step, age, step, tops, tree
from tests.support.extent import every
from tests.support.faulty import Fault, sweep
from tests.support.orc_events import written as written_file
from tests.support.specs import write_events

pytestmark = pytest.mark.usefixtures("nobody_waits")

DEMO = "hive4/demo_orders/03-demo"
MINOR = "hive3/bucketed/04-minor"
MAJOR = "hive4/bucketed/06-major"
COMPACTED = '{"thisFileVersion":"0","dataFormat":"compacted"}'


@pytest.fixture(autouse=True)
def _unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def ids(top: int, aborted: Iterable[int] = ()) -> str:
    """A write-id list in which nothing is open."""
    return f"default.t:{top}:9223372036854775807::{','.join(map(str, aborted))}"


def run_of(root: Path, top: int, *, aborted: Iterable[int] = (), txn: int | None = None, **more: Any) -> CleanRun:
    """A run over a table by such a list, and one of transactions up to `txn`."""
    lists = (ids(top, aborted), *(() if txn is None else (f"{txn}:9223372036854775807::",)))
    request = CleanOptions(validtxns=lists, table="default.t", **more)
    return prepare(LocalStorage(), str(root), request, now=LATER)


def compacted(root: Path, name: str) -> None:
    """Marks a base as Hive 3's compactor does."""
    (root / name / "_metadata_acid").write_text(COMPACTED)


def failing(plan: CleanPlan) -> dict[str, str]:
    """Guards that do not hold, and why."""
    return {guard.guard: guard.why for part in plan.locations for guard in part.guards if not guard.holds}


def goes(plan: CleanPlan) -> set[str]:
    """What may go."""
    return {victim.name for part in plan.locations for victim in part.victims}


def judged(case: Step, root: Path) -> CleanPlan:
    """The plan when all that was done is long ago; what fails keeps every file."""
    age(root)
    before = tree(root)
    run = case.run(LocalStorage(), root)
    plan = run.plan()
    if failing(plan):
        assert run.delete(plan).exit_code == ExitCode.FINDINGS
        assert tree(root) == before
    return plan


# --- what is lost although names are in order


def test_half_of_a_minor_that_was_compacted_is_not_made_final(tmp_path: Path) -> None:
    """Four of seven rows are in the inputs only: a base made of the half alone must not be their end."""
    case = step(DEMO)
    root, scratch = case.copy(tmp_path / "t"), case.copy(tmp_path / "half")
    for name in [path.name for path in scratch.glob("delta_000000[1-4]_000000[1-4]_*")]:
        shutil.rmtree(scratch / name)
    shutil.rmtree(scratch / "delete_delta_0000001_0000004_v0000009")
    open_table(str(scratch)).compact("major", **case.view)
    (base,) = scratch.glob("base_*7")
    shutil.rmtree(root / "delta_0000001_0000004_v0000009")
    shutil.copytree(base, root / base.name)
    why = failing(judged(case, root))
    assert set(why) == {"rows"}
    assert "base_0000007 lacks row" in why["rows"]
    # Without the orphaned half of the deletes it is as much in order by names, and as much would be lost.
    shutil.rmtree(root / "delete_delta_0000001_0000004_v0000009")
    assert set(failing(judged(case, root))) == {"rows"}


def test_a_delete_that_a_compaction_had_lost_is_not_made_final(tmp_path: Path) -> None:
    """One file of the deletes of a minor compaction is gone: its row came back, and an input is the last to know."""
    case = step(DEMO)
    root = case.copy(tmp_path / "t")
    (root / "delete_delta_0000001_0000004_v0000009" / "bucket_00001").unlink()
    open_table(str(root)).compact("major", **case.view)
    why = failing(judged(case, root))
    assert set(why) == {"rows"}
    assert "base_0000007 holds row 1,536936448,1, which a delete that would go removes" in why["rows"]


def test_half_of_a_minor_keeps_everything(tmp_path: Path) -> None:
    """G8 as before; `snapshot` says so as well."""
    case = step(DEMO)
    root = case.copy(tmp_path / "t")
    shutil.rmtree(root / "delta_0000001_0000004_v0000009")
    why = failing(judged(case, root))
    assert set(why) == {"G8", "doubts"}
    assert why["doubts"].startswith("half_of_minor: ")


@pytest.mark.parametrize("bucket", ["bucket_00000", "bucket_00001"])
def test_a_base_without_one_of_its_files(bucket: str, tmp_path: Path) -> None:
    """The bucket's rows are in the deltas only."""
    case = step(MAJOR)
    root = case.copy(tmp_path / "t")
    assert failing(judged(case, root)) == {}
    (file,) = root.glob(f"base_*/{bucket}")
    file.unlink()
    assert set(failing(judged(case, root))) == {"rows"}


def test_a_minor_that_lacks_a_file_or_a_delete_event(tmp_path: Path) -> None:
    """Rows that were deleted would come back."""
    case = step(MINOR)
    root = case.copy(tmp_path / "t")
    assert failing(judged(case, root)) == {}
    half = root / "delete_delta_0000001_0000009" / "bucket_00000"
    shutil.copy(root / "delete_delta_0000003_0000003_0000" / "bucket_00000", half)
    why = failing(judged(case, root))
    assert set(why) == {"rows"}
    assert "lacks the event of row" in why["rows"]
    root = case.copy(tmp_path / "t")
    (root / "delta_0000001_0000009" / "bucket_00001").unlink()
    assert "lacks row" in failing(judged(case, root))["rows"]


def test_a_damaged_chunk_of_a_cover(tmp_path: Path) -> None:
    """The tail is whole, and so is what the keys are in; the inputs are the only copy."""
    case = step("hive4/many_rows/01-written")
    root = case.copy(tmp_path / "t")
    compaction = open_table(str(root)).compact("major", **case.view)
    assert compaction.exit_code == ExitCode.DONE
    assert failing(judged(case, root)) == {}
    (file,) = root.glob("base_*/bucket_00000")
    data = bytearray(file.read_bytes())
    noticed = 0
    for place in range(300, len(data) * 3 // 4, max(len(data) // 12, 1)):
        torn = data.copy()
        torn[place : place + 40] = bytes(255 - byte for byte in torn[place : place + 40])
        file.write_bytes(torn)
        why = failing(judged(case, root))
        noticed += "base_" in why.get("rows", "") + why.get("G4", "")
    assert noticed >= 6


def test_rows_that_hive_itself_lost(tmp_path: Path) -> None:
    """Hive 2 leaves the rows of copied files out of its base, and reads the base from then on."""
    case = step("hive2/v1_converted/04-major")
    root = case.copy(tmp_path / "t")
    why = failing(judged(case, root))
    assert set(why) == {"rows"}
    assert "000000_0_copy_1" in why["rows"]


def test_an_update_that_a_base_of_acid_v1_lacks(tmp_path: Path) -> None:
    """All events of a row are asked: an update of a row that was deleted later is not missed."""
    case = step("hive2/v1_bucketed/05-major")
    root = case.copy(tmp_path / "t")
    assert failing(judged(case, root)) == {}
    (file,) = root.glob("base_*/bucket_00001")
    file.unlink()
    assert set(failing(judged(case, root))) == {"rows"}


@pytest.mark.parametrize("bucket", ["bucket_00000", "bucket_00001"])
def test_a_minor_of_acid_v1_that_lacks_events(bucket: str, tmp_path: Path) -> None:
    """A row by its key may be there in an older version, or as it was before it was deleted."""
    case = step("hive2/v1_bucketed/03-minor")
    root = case.copy(tmp_path / "t")
    assert failing(judged(case, root)) == {}
    inserts = root / "delta_0000101_0000101_0000" / bucket
    shutil.copy(inserts, root / "delta_0000101_0000106" / bucket)
    why = failing(judged(case, root))
    assert set(why) == {"rows"}
    assert bucket in why["rows"]
    (root / "delta_0000101_0000106" / bucket).unlink()
    assert set(failing(judged(case, root))) == {"rows"}


def test_a_young_delta_of_acid_v1_still_says_what_a_row_became(tmp_path: Path) -> None:
    """The base lacks what it deletes."""
    case = step("hive2/v1_delete_all/03-major")
    root = case.copy(tmp_path / "t")
    for path in (step("hive2/v1_delete_all/01-deleted").folder / "table").glob("delta_*"):
        shutil.copytree(path, root / path.name)
    age(root)
    young = root / "delta_0000702_0000702_0000"
    for path in (young, *young.iterdir()):
        os.utime(path, (LATER - 60, LATER - 60))
    plan = case.run(LocalStorage(), root).plan()
    assert (failing(plan), goes(plan)) == ({}, {"delta_0000701_0000701_0000"})


# --- what makes `snapshot` exit 3


def test_doubts_keep_everything(tmp_path: Path) -> None:
    """Each as `snapshot` has it; the rest of the location would be cleaned otherwise."""
    case = step(DEMO)

    def nested(root: Path) -> None:
        shutil.copytree(root / "delta_0000001_0000001_0000", root / "sub" / "delta_0000001_0000001_0000")

    def unknown(root: Path) -> None:
        shutil.copytree(root / "delta_0000001_0000001_0000", root / "delta_x")

    def twice(root: Path) -> None:
        live = root / "delta_0000001_0000004_v0000009" / "bucket_00000"
        shutil.copy(live, live.with_name("bucket_00000_1"))

    def renamed(root: Path) -> None:
        live = root / "delta_0000001_0000004_v0000009" / "bucket_00000"
        live.rename(live.with_name("bucket_00005"))

    ways = {
        "nested_directory": nested,
        "unknown_name": unknown,
        "bucket_twice": twice,
        "foreign_bucket": renamed,
    }
    for code, damage in ways.items():
        root = case.copy(tmp_path / code)
        damage(root)
        why = failing(judged(case, root))
        assert "doubts" in why, code
        assert why["doubts"].startswith(f"{code}: "), code
    assert failing(judged(case, case.copy(tmp_path / "sound"))) == {}


def test_doubts_matter_only_where_something_goes(tmp_path: Path) -> None:
    """Files are not opened for nothing."""
    case = step("hive4/bucketed/01-inserted")
    root = case.copy(tmp_path / "t")
    shutil.copytree(next(root.glob("delta_*")), root / "delta_x")
    plan = judged(case, root)
    assert (failing(plan), goes(plan)) == ({}, set())


def test_rows_of_a_cover_out_of_order(tmp_path: Path) -> None:
    """Readers may miss deletes of such a file, and nothing else tells."""
    root = tmp_path / "t"
    write_events(root, "delta_0000001_0000001_0000", [0, 1, 2, 3], write_id=1)
    write_events(root, "base_0000001", [0, 2, 1, 3], write_id=1)
    compacted(root, "base_0000001")
    age(root)
    why = failing(run_of(root, 1).plan())
    assert set(why) == {"rows"}
    assert "not in the order of their ROW__IDs" in why["rows"]


# --- what may go


def written(root: Path, deleted: Iterable[int] = (), held: Iterable[int] | None = None) -> Path:
    """A delta of rows 0 to 9, deletes by write 2, and a compacted base of what is left (or of `held`)."""
    write_events(root, "delta_0000001_0000001_0000", range(10), write_id=1)
    gone = list(deleted)
    if gone:
        write_events(root, "delete_delta_0000002_0000002_0000", gone, write_id=1, current=2, operation=Operation.DELETE)
    left = [row for row in range(10) if row not in gone] if held is None else list(held)
    write_events(root, "base_0000002", left, write_id=1)
    compacted(root, "base_0000002")
    age(root)
    return root


def test_deleted_rows_are_not_missed(tmp_path: Path) -> None:
    """As long as the event that says so is there."""
    root = written(tmp_path / "t", deleted=[3, 9])
    assert goes(run_of(root, 2).plan()) == {"delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000"}
    root = written(tmp_path / "u", deleted=[3, 9], held=[0, 1, 2, 4, 5, 6, 7])
    assert "1,536870912,8" in failing(run_of(root, 2).plan())["rows"]


def test_a_minor_may_leave_out_rows_that_are_deleted_within_its_range(tmp_path: Path) -> None:
    """As long as the delete event is there, which its other half has."""
    for held, lost in (([0, 1, 2], False), ([0, 1, 3], True)):
        root = tmp_path / str(lost)
        write_events(root, "delta_0000001_0000001_0000", range(4), write_id=1)
        for name in ("delete_delta_0000002_0000002_0000", "delete_delta_0000001_0000002"):
            write_events(root, name, [3], write_id=1, current=2, operation=Operation.DELETE)
        write_events(root, "delta_0000001_0000002", held, write_id=1)
        age(root)
        assert set(failing(run_of(root, 2).plan())) == ({"rows"} if lost else set())


def test_the_guard_says_what_was_read(tmp_path: Path) -> None:
    """Rows and deletes that were looked for, and what the covers hold."""
    case = step(DEMO)
    root = case.copy(tmp_path / "t")
    size = sum(path.stat().st_size for path in root.glob("*_0000001_0000004_v*/bucket_*"))
    (rows,) = (guard for guard in judged(case, root).locations[0].guards if guard.guard == "rows")
    assert rows.why == f"6 rows and 4 deletes of what goes are in what covers it (4 files, {size:,} bytes, read whole)"
    root = written(tmp_path / "u")
    (rows,) = (guard for guard in run_of(root, 2).plan().locations[0].guards if guard.guard == "rows")
    assert rows.why.startswith("10 rows of what goes are in what covers it (1 file, ")


def test_deletes_stay_beside_rows_that_the_retention_keeps(tmp_path: Path) -> None:
    """Later nobody could tell that the rows, which the base lacks, had been deleted."""
    root = written(tmp_path / "t", deleted=[3, 9])
    young = root / "delta_0000001_0000001_0000"
    for path in (young, *young.iterdir()):
        os.utime(path, (LATER - 60, LATER - 60))
    plan = run_of(root, 2).plan()
    assert goes(plan) == set()
    codes = {entry.name: entry.reason_code for part in plan.locations for entry in part.kept}
    assert codes["delete_delta_0000002_0000002_0000"] == "deletes_needed"
    assert codes["delta_0000001_0000001_0000"] == "too_young"


def test_deletes_of_older_rows_do_not_stay_beside_later_ones(tmp_path: Path) -> None:
    """A delete event concerns rows of its own write or an earlier one."""
    root = written(tmp_path / "t", deleted=[3])
    write_events(root, "delta_0000003_0000003_0000", [0], write_id=3)
    (root / "base_0000002").rename(root / "base_0000003")
    write_events(root, "base_0000003", [0, 1, 2, 4, 5, 6, 7, 8, 9], write_id=1)
    compacted(root, "base_0000003")
    age(root)
    young = root / "delta_0000003_0000003_0000"
    for path in (young, *young.iterdir()):
        os.utime(path, (LATER - 60, LATER - 60))
    # Row 0 of write 3 is not in the base: it stays anyway.
    assert goes(run_of(root, 3).plan()) == {"delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000"}


def test_rows_of_aborted_writes_are_not_missed(tmp_path: Path) -> None:
    """Without the list they look lost."""
    root = written(tmp_path / "t", held=range(10))
    write_events(root, "delta_0000002_0000002_0000", [0, 1], write_id=2)
    age(root)
    assert "write id 2 was aborted" in failing(run_of(root, 2).plan())["rows"]
    assert failing(run_of(root, 2, aborted=[2]).plan()) == {}


def overwritten(root: Path) -> Path:
    """Two rows of write 1, replaced by write 2, one row of write 3, and a compaction of the last two."""
    write_events(root, "delta_0000001_0000001_0000", [0, 1], write_id=1)
    write_events(root, "base_0000002", [0, 1, 2], write_id=2)
    write_events(root, "delta_0000003_0000003_0000", [0], write_id=2)
    write_events(root, "delta_0000003_0000003_0000", [3], write_id=2)
    write_events(root, "base_0000003", [0, 1, 2, 3], write_id=2)
    compacted(root, "base_0000003")
    age(root)
    return root


def test_what_an_overwrite_replaced_is_not_missed(tmp_path: Path) -> None:
    """Also where the run that removed its base was stopped before the rest was gone."""
    root = overwritten(tmp_path / "t")
    assert len(goes(run_of(root, 3).plan())) == 3
    removed = root / "_acidctl_work_0123456789ab" / "removed"
    removed.mkdir(parents=True)
    (root / "base_0000002").rename(removed / "base_0000002")
    age(root)
    run = run_of(root, 3)
    plan = run.plan()
    assert goes(plan) >= {"delta_0000001_0000001_0000", "delta_0000003_0000003_0000"}
    assert run.delete(plan).exit_code == ExitCode.DONE
    assert tops(root) >= {"base_0000003"}
    # Nothing tells of it any more.
    root = overwritten(tmp_path / "u")
    shutil.rmtree(root / "base_0000002")
    age(root)
    assert set(failing(run_of(root, 3).plan())) == {"rows"}


@pytest.mark.parametrize("removed", [False, True])
def test_what_replaced_nothing_is_no_overwrite(removed: bool, tmp_path: Path) -> None:
    """One that was aborted, and a compaction, in their place or where a stopped cleaner has put them."""
    for name, aborted in (("base_0000002", [2]), ("base_0000002_v0000009", []), ("base_0000002_m", [])):
        root = overwritten(tmp_path / f"t{len(name)}")
        write_events(root, "base_0000002", [2], write_id=2)
        place = root / "_acidctl_work_0123456789ab" / "removed" if removed else root
        place.mkdir(parents=True, exist_ok=True)
        (root / "base_0000002").rename(place / name.removesuffix("_m"))
        if name.endswith("_m"):
            compacted(place, "base_0000002")
        age(root)
        plan = run_of(root, 3, txn=20, aborted=aborted).plan()
        assert set(failing(plan)) == {"rows"}, name
        assert "delta_0000001_0000001_0000" in failing(plan)["rows"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.KILLED, Fault.HALFWAY])
def test_a_run_below_an_overwrite_may_die_at_any_call(fault: Fault, tmp_path: Path) -> None:
    """The next one knows what was replaced, and completes it."""
    template, root = overwritten(tmp_path / "template"), tmp_path / "t"

    def plant() -> LocalStorage:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root)
        age(root)
        return LocalStorage()

    def clean(storage: Storage) -> CleanReport:
        request = CleanOptions(validtxns=(ids(3),))
        run = prepare(storage, str(root), request, now=LATER)
        return run.delete(run.plan())

    hits = 0
    for hit in sweep(plant, clean, fault, every=every(2), first=1):
        hits += 1
        for lock in root.glob("_acidctl_lock*"):
            os.utime(lock, (MADE, MADE))
        again = clean(LocalStorage())
        assert again.exit_code == ExitCode.DONE, (hit, again)
        assert tops(root) == {"base_0000003"}, hit
    assert hits > 20 // every(2)


def test_a_compaction_that_was_not_marked_is_no_overwrite(tmp_path: Path) -> None:
    """A compactor of Hive 3 died before it wrote the mark: readers take the base all the same."""
    for held, lost in ((range(10), False), (range(9), True)):
        root = written(tmp_path / str(lost), held=held)
        (root / "base_0000002" / "_metadata_acid").unlink()
        (root / "base_0000002").rename(root / "base_0000003")
        age(root)
        assert set(failing(run_of(root, 3).plan())) == ({"rows"} if lost else set())


def test_an_overwrite_that_its_compaction_lacks(tmp_path: Path) -> None:
    """The overwrite itself has to be in what was made of it."""
    root = overwritten(tmp_path / "t")
    write_events(root, "base_0000003", [0, 1, 3], write_id=2)
    age(root)
    assert "lacks row 2,536870912,2" in failing(run_of(root, 3).plan())["rows"]


def renumbered(root: Path, name: str, rows: Iterable[tuple[int, int]]) -> None:
    """A base of these write ids and row numbers."""
    keys = np.array(list(rows), dtype=np.int64)
    bucket = np.full(len(keys), encode(0), dtype=np.int64)
    batch = EventBatch(EventKeys(keys[:, 0], bucket, keys[:, 1], keys[:, 0]), (pa.array(keys[:, 1]),))
    (root / name).mkdir(exist_ok=True)
    (root / name / "_orc_acid_version").write_bytes(b"2")
    (root / name / "bucket_00000").write_bytes(written_file([batch], parse_schema("n bigint").columns)[0])


def test_rows_that_a_rebalancing_compaction_numbered_anew(tmp_path: Path) -> None:
    """Their number is what is left to compare; also one compaction later."""
    root = tmp_path / "t"
    write_events(root, "delta_0000001_0000001_0000", [4, 5, 6], write_id=1)
    write_events(root, "delta_0000002_0000002_0000", [0], write_id=2)
    anew = [(1, 0), (1, 1), (1, 2), (2, 3)]
    renumbered(root, "base_0000002_v0000009", anew)
    age(root)
    assert len(goes(run_of(root, 2, txn=20).plan())) == 2
    write_events(root, "delete_delta_0000003_0000003_0000", [1], write_id=1, current=3, operation=Operation.DELETE)
    write_events(root, "delta_0000003_0000003_0000", [0], write_id=3)
    renumbered(root, "base_0000003_v0000012", [(1, 0), (1, 2), (2, 3), (3, 0)])
    age(root)
    assert len(goes(run_of(root, 3, txn=20).plan())) == 5
    for rows in (anew[:3], [*anew[:3], (2, 9)], [(1, row) for row in range(4)], [(2, 0), (2, 1), (3, 0), (3, 1)]):
        renumbered(root, "base_0000002_v0000009", rows)
        age(root)
        assert set(failing(run_of(root, 2, txn=20, highest_write_id=2).plan())) == {"rows"}, rows
        assert set(failing(run_of(root, 3, txn=20).plan())) == {"rows"}, rows


# --- insert-only


@pytest.mark.parametrize("name", ["hive4/insert_only/03-major", "hive4/insert_only_parquet/03-major"])
def test_rows_of_insert_only_tables_are_counted(name: str, tmp_path: Path) -> None:
    """They have no ids."""
    case = step(name)
    root = case.copy(tmp_path / "t")
    plan = judged(case, root)
    assert (failing(plan), bool(goes(plan))) == ({}, True)
    files = sorted(file for base in root.glob("base_*") for file in base.iterdir() if file.name[0] != "_")
    smaller = min(
        (path for path in root.glob("delta_*/*") if path.name[0] != "_"), key=lambda path: path.stat().st_size
    )
    shutil.copy(smaller, files[0])
    for file in files[1:]:
        file.unlink()
    why = failing(judged(case, root))
    assert set(why) == {"rows"}
    assert "some would be lost" in why["rows"]


def plain(root: Path, rows: dict[str, int]) -> Path:
    """An insert-only table: directories by name with so many rows."""
    for name, count in rows.items():
        (root / name).mkdir(parents=True)
        batch = EventBatch(EventKeys(*[np.zeros(count, dtype=np.int64)] * 4), (pa.array(range(count), pa.int64()),))
        data, _ = written_file([batch], parse_schema("n bigint").columns, acid=False)
        (root / name / "000000_0").write_bytes(data)
    age(root)
    return root


INSERT_ONLY = {
    "minor": ({"delta_1_1_0000": 3, "delta_2_2_0000": 2, "delta_1_2_v9": 5, "delta_3_3_0000": 7}, 2),
    "statements": ({"delta_1_1_0000": 3, "delta_1_1_0001": 2, "delta_1_2_v9": 5}, 2),
    "base": ({"delta_1_1_0000": 3, "delta_2_2_0000": 2, "base_2_v9": 5, "delta_3_3_0000": 7}, 2),
    "base of a base": ({"base_1_v5": 3, "delta_1_1_0000": 3, "delta_2_2_0000": 2, "base_2_v9": 5, "base_4": 0}, 3),
    "overwrite and its compaction": ({"delta_1_1_0000": 9, "base_2": 5, "base_2_v9": 5}, 2),
    "minor and base": ({"delta_1_1_0000": 3, "delta_2_2_0000": 2, "delta_1_2_v8": 5, "base_2_v9": 5}, 3),
}


@pytest.mark.parametrize("name", INSERT_ONLY)
def test_rows_of_insert_only_covers_are_those_of_their_inputs(name: str, tmp_path: Path) -> None:
    """Neither more inputs are counted than a reader would read, nor fewer; one row less is one that is lost."""
    rows, going = INSERT_ONLY[name]
    aborted = [4] if "base_4" in rows else []
    given: dict[str, Any] = {"txn": 20, "aborted": aborted, "table_type": "insert-only", "highest_write_id": 3}
    plan = run_of(plain(tmp_path / "t", rows), 4, **given).plan()
    assert (failing(plan), len(goes(plan))) == ({}, going)
    (guard,) = (guard for guard in plan.locations[0].guards if guard.guard == "rows")
    assert "_2_v9 holds 5 rows (" in guard.why
    cover = next(cover for cover in ("base_2_v9", "delta_1_2_v9") if cover in rows)
    plan = run_of(plain(tmp_path / "u", {**rows, cover: 4}), 4, **given).plan()
    assert set(failing(plan)) == {"rows"}


def test_a_damaged_chunk_of_an_insert_only_cover(tmp_path: Path) -> None:
    """Its footer counts as many rows as before."""
    root = plain(tmp_path / "t", {"delta_1_1_0000": 300, "delta_2_2_0000": 200, "base_2_v9": 500})
    file = root / "base_2_v9" / "000000_0"
    data = bytearray(file.read_bytes())
    (stripe,) = open_orc(io.BytesIO(data), name="").tail.stripes
    begin = stripe.offset + stripe.index_length
    data[begin : begin + stripe.data_length] = bytes(255 - byte for byte in data[begin : begin + stripe.data_length])
    file.write_bytes(data)
    age(root)
    why = failing(run_of(root, 2, txn=20, table_type="insert-only").plan())
    assert set(why) == {"rows"}
    assert "base_2_v9/000000_0" in why["rows"]


def test_an_insert_only_overwrite_replaces_what_was_before(tmp_path: Path) -> None:
    """Whatever number of rows that had."""
    root = plain(tmp_path / "t", {"delta_1_1_0000": 9, "base_2": 1})
    assert goes(run_of(root, 2, table_type="insert-only").plan()) == {"delta_1_1_0000"}


def test_text_is_counted_where_the_ddl_says_how(tmp_path: Path) -> None:
    """Without one its rows are not counted, and the guard says so; a cover without a byte is none."""
    case = step("hive4/insert_only_text/04-major")
    root = case.copy(tmp_path / "t")
    plan = judged(case, root)
    assert (failing(plan), bool(goes(plan))) == ({}, True)
    request = CleanOptions(validtxns=case.lists, table_type="insert-only")
    plan = prepare(LocalStorage(), str(root), request, now=LATER).plan()
    (rows,) = (guard for guard in plan.locations[0].guards if guard.guard == "rows")
    assert (rows.holds, "were not counted" in rows.why) == (True, True)
    files = [file for base in root.glob("base_*") for file in base.iterdir() if file.name[0] != "_"]
    for file in files:
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[1:]))
    assert set(failing(judged(case, root))) == {"rows"}
    for file in files:
        file.write_bytes(b"")
    age(root)
    assert set(failing(prepare(LocalStorage(), str(root), request, now=LATER).plan())) == {"G4"}


def test_text_is_compared_with_outputs_that_the_lists_do_not_show(tmp_path: Path) -> None:
    """By the DDL, too: the inputs of that compaction are all there."""
    case = step("hive4/insert_only_text/04-major")
    root = case.copy(tmp_path / "t")
    later = root / "delta_0000005_0000006_v0634999"
    later.mkdir()
    with (later / "000000_0").open("wb") as output:
        for number in (1, 2):
            name = f"delta_000000{number + 4}_000000{number + 4}_0000"
            shutil.copytree(root / f"delta_000000{number}_000000{number}_0000", root / name)
            output.write((root / name / "000000_0").read_bytes())
    age(root)
    lists = tuple(text.replace("default.t:4:", "default.t:6:") for text in case.lists)

    def plan() -> CleanPlan:
        request = CleanOptions(validtxns=lists, table="default.t", table_type="insert-only", schema=case.facts["ddl"])
        return prepare(LocalStorage(), str(root), request, now=LATER).plan()

    assert failing(plan()) == {}
    assert goes(plan()) == {f"delta_000000{number}_000000{number}_0000" for number in (1, 2, 3)}
    shutil.rmtree(root / "delta_0000005_0000005_0000")
    assert set(failing(plan())) == {"current_lists"}


# --- what it costs


class _Counting(LocalStorage):
    """Counts how often each file is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open(self, path: str) -> BinaryIO:
        """Notes it."""
        self.opened.append(path)
        return super().open(path)


def test_rows_are_compared_once(tmp_path: Path) -> None:
    """Not again under the lock, as long as no file has changed."""
    case = step(MAJOR)
    root = case.copy(tmp_path / "t")
    storage = _Counting()
    run = case.run(storage, root)
    plan = run.plan()
    victims = [path for path in storage.opened if "/delta_0000001_0000009" in path]
    assert victims
    before = len(victims)
    report = run.delete(plan)
    assert report.exit_code == ExitCode.DONE
    assert len([path for path in storage.opened if "/delta_0000001_0000009" in path]) == before


def test_without_covers_nothing_is_read(tmp_path: Path) -> None:
    """What was aborted needs no cover."""
    case = step("hive4/bucketed/03-aborted")
    root = case.copy(tmp_path / "t")
    storage = _Counting()
    plan = case.run(storage, root).plan()
    assert goes(plan)
    (rows,) = (guard for guard in plan.locations[0].guards if guard.guard == "rows")
    assert rows.why == "nothing that goes relies on a cover"


# --- original files by foreign names


def test_files_that_hive_would_not_have_called_so_stay(tmp_path: Path) -> None:
    """For Hive they are original files; but no base can hold rows of them."""
    case = step("hive4/converted/05-major")
    root = case.copy(tmp_path / "t")
    (root / "archive" / "2019").mkdir(parents=True)
    shutil.copy(root / "000000_0", root / "archive" / "2019" / "precious.orc")
    (root / "notes.txt").write_text("mind the gap")
    for name in ("old_delta_4", "Delta_0000004_0000004_0000"):
        shutil.copytree(next(root.glob("delta_*")), root / name)
    age(root)
    before = tree(root)
    run = case.run(LocalStorage(), root)
    plan = run.plan()
    codes = {entry.name: entry.reason_code for part in plan.locations for entry in part.kept}
    foreign = {"archive", "notes.txt", "old_delta_4", "Delta_0000004_0000004_0000"}
    assert {name for name, code in codes.items() if code == "foreign_name"} == foreign
    assert "(original files)" in goes(plan)
    assert run.delete(plan).exit_code == ExitCode.DONE
    after = tree(root)
    assert {path: size for path, size in before.items() if path.partition("/")[0] in foreign}.items() <= after.items()
    assert "000000_0" not in after


def test_without_a_base_they_are_original_files_like_others(tmp_path: Path) -> None:
    """Readers read them."""
    case = step("hive4/converted/02-converted")
    root = case.copy(tmp_path / "t")
    shutil.copy(root / "000000_0", root / "precious.orc")
    age(root)
    plan = case.run(LocalStorage(), root).plan()
    assert {entry.name for part in plan.locations for entry in part.kept} == {"(original files)"}


def test_files_of_union_all_are_hives_own(tmp_path: Path) -> None:
    """They lie in folders of a known name."""
    case = step("hive4/converted/05-major")
    root = case.copy(tmp_path / "t")
    (root / "HIVE_UNION_SUBDIR_1").mkdir()
    (root / "000000_0").rename(root / "HIVE_UNION_SUBDIR_1" / "000000_0")
    age(root)
    plan = case.run(LocalStorage(), root).plan()
    assert "HIVE_UNION_SUBDIR_1" not in {entry.name for part in plan.locations for entry in part.kept}


def test_what_an_earlier_version_took_along_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its boxes hold files of any name as original ones."""
    case = step("hive4/converted/05-major")
    root = case.copy(tmp_path / "t")
    (root / "notes.txt").write_text("mind the gap")
    age(root)
    before = tree(root)
    with monkeypatch.context() as patched:
        patched.setattr(decisions, "is_own_original", lambda info: True)
        patched.setattr(run_module, "compare", lambda *given: Compared(None, "nothing"))
        case.quarantine(root)
    assert not (root / "notes.txt").exists()
    assert case.undo(root).exit_code == ExitCode.DONE
    assert tree(root) == before


def test_doubts_and_lost_rows_do_not_keep_anything_in_quarantine(tmp_path: Path) -> None:
    """Nothing is lost by what comes back; it may be the only copy."""
    case = step(MAJOR)
    root = case.copy(tmp_path / "t")
    before = tree(root)
    case.quarantine(root)
    (file,) = root.glob("base_*/bucket_00000")
    content = file.read_bytes()
    file.unlink()
    shutil.copytree(next(root.glob("base_*")), root / "sub" / "delta_0000001_0000001")
    assert case.undo(root).exit_code == ExitCode.DONE
    shutil.rmtree(root / "sub")
    file.write_bytes(content)
    assert tree(root) == before


# --- times that tell nothing


@pytest.mark.parametrize("time", [0.0, -86400.0])
def test_a_time_that_was_reset_is_no_age(time: float, tmp_path: Path) -> None:
    """A restore may have reset it: the directory may be of this minute."""
    case = step(DEMO)
    root = case.copy(tmp_path / "t")
    for path in (root, *root.rglob("*")):
        os.utime(path, (time, time))
    plan = case.run(LocalStorage(), root).plan()
    assert goes(plan) == set()
    assert {e.reason_code for part in plan.locations for e in part.kept} >= {"age_unknown"}
    assert MADE > 0
