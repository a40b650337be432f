"""Cleaning real tables: what goes, what stays, and that a run may die at any call."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from acidctl.cleaning.run import prepare
from acidctl.errors import ExitCode, StorageError, UsageError
from acidctl.maintenance.lock import acquire
from acidctl.options import CleanOptions
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import gather
from acidctl.storage.port import Facts
from tests.support.cleaning_cases import FIXTURES, LATER, MADE, Step, age, step, tops, tree, visible_whole
from tests.support.extent import every
from tests.support.faulty import Fault, FaultyStorage, sweep
from tests.support.memory import MemoryStorage

pytestmark = pytest.mark.usefixtures("nobody_waits")

DEMO = "hive4/demo_orders/03-demo"
MAJOR = "hive4/converted/05-major"
PARTS = "hive4/partitioned/03-one-compacted"
HIVE3 = "hive3/bucketed/04-minor"
CASE = step(DEMO)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the demo table, old enough to be cleaned."""
    return CASE.copy(tmp_path / "t")


@pytest.fixture(autouse=True)
def _unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.parametrize("name", [DEMO, MAJOR, PARTS, HIVE3, "hive2/v1_bucketed/05-major"])
def test_rows_are_the_same_without_the_victims(name: str, tmp_path: Path) -> None:
    """Deleted, nothing left behind, and a second run has nothing to do."""
    case = step(name)
    root = case.copy(tmp_path / "t")
    before, rows = tree(root), case.rows(root)
    report = case.delete(root)
    assert report.exit_code == ExitCode.DONE
    assert report.victims
    assert report.bytes_freed == sum(before.values()) - sum(tree(root).values())
    assert case.rows(root) == rows
    assert not list(root.rglob("_acidctl*"))
    again = case.delete(root)
    assert (again.victims, again.exit_code) == ((), ExitCode.DONE)


def test_young_entries_stay(root: Path) -> None:
    """The retention is measured from the moment of the run."""
    storage = LocalStorage()
    run = prepare(storage, str(root), CASE.request(), now=MADE + 3600)
    plan = run.plan()
    assert plan.victims == 0
    assert {e.reason_code for part in plan.locations for e in part.kept} >= {"too_young"}


def test_a_cover_renamed_into_place_just_now_covers_nothing(root: Path) -> None:
    """Its files are old, its directory is not."""
    for cover in root.glob("*_v*"):
        os.utime(cover, (LATER - 60, LATER - 60))
    run = prepare(LocalStorage(), str(root), CASE.request(), now=LATER)
    assert [v.name for part in run.plan().locations for v in part.victims] == ["delta_0000006_0000006_0000"]


def _only(case: Step, root: Path) -> list[str]:
    """Guards that fail at the one location, when all that was done to it is long ago."""
    age(root)
    plan = case.run(LocalStorage(), root).plan()
    return [guard.guard for part in plan.locations for guard in part.guards if not guard.holds]


def test_g4_finds_torn_covers(root: Path) -> None:
    """Cut off, emptied of everything, or no ORC at all."""
    cover = root / "delta_0000001_0000004_v0000009"
    data = (cover / "bucket_00000").read_bytes()
    (cover / "bucket_00000").write_bytes(data[:-7])
    assert _only(CASE, root) == ["G4"]
    (cover / "bucket_00000").write_bytes(b"text\n" * 20)
    assert _only(CASE, root) == ["G4"]
    for path in cover.iterdir():
        path.unlink()
    assert _only(CASE, root) == ["G4"]


def test_g4_finds_the_empty_base_that_hive_wrote_by_mistake(tmp_path: Path) -> None:
    """Hive 4.0.1 compacts a partition with a name outside ASCII to nothing."""
    case = step("hive4/converted/05-major")
    root = case.copy(tmp_path / "t")
    (base,) = root.glob("base_*")
    for path in base.glob("bucket_*"):
        path.unlink()
    assert _only(case, root) == ["G4"]


def test_g4_accepts_an_empty_base_of_a_table_emptied_by_deletes(tmp_path: Path) -> None:
    """Then the deletes account for every row."""
    case = step("hive4/deleted_all/03-major")
    root = case.copy(tmp_path / "t")
    report = case.delete(root)
    assert (report.exit_code, len(report.victims)) == (ExitCode.DONE, 5)


def test_g4_accepts_what_truncate_writes(tmp_path: Path) -> None:
    """A base with nothing but the mark that says so."""
    case = step("hive4/overwrite/03-truncated")
    root = case.copy(tmp_path / "t")
    report = case.delete(root)
    assert report.exit_code == ExitCode.DONE
    assert report.victims


def test_g8_reads_the_inputs_of_a_missing_half(tmp_path: Path) -> None:
    """Deletes under a lone insert half hold the location back; without events they do not."""
    case = step(HIVE3)
    root = case.copy(tmp_path / "t")
    (half,) = (p for p in root.glob("delete_delta_*") if len(p.name) == len("delete_delta_0000001_0000007"))
    shutil.rmtree(half)
    assert _only(case, root) == ["G8", "doubts"]
    for path in root.glob("delete_delta_*/bucket_*"):
        path.write_bytes(b"")
    assert _only(case, root) == []


def test_g8_does_not_miss_rows_of_aborted_writes(tmp_path: Path) -> None:
    """A compaction has left them out, so its missing half is legitimately missing."""
    case = step("hive3/bucketed/04-minor")
    root = case.copy(tmp_path / "t")
    (half,) = (p for p in root.glob("delete_delta_*") if len(p.name) == len("delete_delta_0000001_0000007"))
    shutil.rmtree(half)
    age(root)
    storage = LocalStorage()
    listed = gather(storage, str(root))
    names = [name for name in listed[0].listing.directories if name.startswith("delete_delta")]
    # Writes 6 and 7 were aborted when it ran.
    ids = sorted({6, 7, *(int(name.split("_")[2]) for name in names)})
    high = case.lists[0].split(":")[1]
    text = f"default.{case.facts['table'].split('.')[1]}:{high}:9223372036854775807::{','.join(map(str, ids))}"
    request = CleanOptions(validtxns=(text,), table=case.facts["table"])
    run = prepare(storage, str(root), request, now=LATER)
    assert run.plan().victims
    assert all(guard.holds for part in run.plan().locations for guard in part.guards)


def test_g7_stops_when_a_victim_or_its_cover_changes(root: Path) -> None:
    """Between the plan and the deletion somebody wrote."""
    run = CASE.run(LocalStorage(), root)
    plan = run.plan()
    (root / "delta_0000001_0000001_0000" / "bucket_00007").write_bytes(b"more")
    report = run.delete(plan)
    assert [g.guard for part in report.guarded for g in part.guards if not g.holds] == ["G7"]
    assert report.exit_code == ExitCode.FINDINGS
    assert "delta_0000001_0000001_0000" in tops(root)


def test_what_somebody_else_removed_does_not_stop_the_rest(root: Path) -> None:
    """Hive's own cleaner may be at it; new writes do not matter either."""
    run = CASE.run(LocalStorage(), root)
    plan = run.plan()
    shutil.rmtree(root / "delta_0000002_0000002_0000")
    (root / "delta_0000010_0000010_0000").mkdir()
    report = run.delete(plan)
    assert report.exit_code == ExitCode.DONE
    assert len(report.victims) == plan.victims - 1
    assert "delta_0000010_0000010_0000" in tops(root)


def test_a_cover_that_vanishes_stops_everything(root: Path) -> None:
    """Then its inputs are all there is."""
    run = CASE.run(LocalStorage(), root)
    plan = run.plan()
    shutil.rmtree(root / "delta_0000001_0000004_v0000009")
    shutil.rmtree(root / "delete_delta_0000001_0000004_v0000009")
    report = run.delete(plan)
    assert report.victims == ()
    assert "delta_0000001_0000001_0000" in tops(root)


def test_a_locked_location_is_left_alone_and_the_others_are_cleaned(tmp_path: Path) -> None:
    """One failure neither stops nor hides the others."""
    case = step("hive4/insert_only_partitioned/02-minor")
    root = case.copy(tmp_path / "t")
    run = case.run(LocalStorage(), root)
    plan = run.plan()
    busy = next(part for part in plan.locations if part.victims)
    with acquire(LocalStorage(), str(root / busy.path), now=1.0):
        report = run.delete(plan)
    assert report.exit_code in (ExitCode.FINDINGS, ExitCode.STALE_PLAN)
    failed = [part.partition for part in report.failed]
    assert failed == [busy.partition]
    assert report.failed[0].problem is not None
    assert report.failed[0].problem.exit_code == ExitCode.STALE_PLAN


def test_data_beside_partition_folders_is_not_touched(tmp_path: Path) -> None:
    """Nobody reads it, and nobody knows whose it is."""
    case = step(PARTS)
    root = case.copy(tmp_path / "t")
    delta = next(root.rglob("delta_*"))
    shutil.copytree(delta, root / delta.name)
    stray = [part for part in case.run(LocalStorage(), root).plan().locations if part.partition == ""]
    assert len(stray) == 1
    assert stray[0].victims == ()
    assert {entry.reason_code for entry in stray[0].kept} == {"beside_partitions"}


def test_where_nothing_can_be_renamed_victims_are_removed_in_their_place(tmp_path: Path) -> None:
    """No work directory is made and nothing moved, which there would be copying; the result is the same."""
    case = step(DEMO)
    expected = case.copy(tmp_path / "expected")
    case.delete(expected)

    class NoRename(FaultyStorage):
        """Says so."""

        @property
        def facts(self) -> Facts:
            """As an object store."""
            return super().facts._replace(atomic_rename=False)

    root = case.copy(tmp_path / "t")
    storage = NoRename(LocalStorage())
    report = case.delete(root, storage)
    assert report.exit_code == ExitCode.DONE
    assert len(report.victims) >= 3
    assert tree(root) == tree(expected)
    assert not [name for name in storage.names if name.startswith(("mkdir", "move", "rename_dir", "create "))]


def test_failed_work_goes_by_age_and_a_dead_runs_at_once(root: Path) -> None:
    """Evidence is kept for a while; what nobody can need is not."""
    failed = root / "_acidctl_work_00000000000f"
    failed.mkdir()
    (failed / "failed").write_text("{}")
    os.utime(failed / "failed", (LATER - 60, LATER - 60))
    assert failed.name not in {v.name for v in CASE.delete(root).victims}
    os.utime(failed / "failed", (1.0, 1.0))
    os.utime(failed, (1.0, 1.0))
    assert failed.name in {v.name for v in CASE.delete(root).victims}
    assert not failed.exists()


# --- quarantine


@pytest.mark.parametrize("name", [DEMO, MAJOR, PARTS])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_was_moved_away_comes_back(name: str, elsewhere: bool, tmp_path: Path) -> None:
    """Byte for byte, but for what was aborted."""
    case = step(name)
    root = case.copy(tmp_path / "t")
    before, rows = tree(root), case.rows(root)
    base = str(tmp_path / "aside") if elsewhere else None
    report = case.quarantine(root, base=base)
    assert report.exit_code == ExitCode.DONE
    went = {victim.name for victim in report.victims}
    assert went
    assert case.rows(root) == rows
    assert tree(root) != before
    assert (tmp_path / "aside").exists() == elsewhere
    aborted = {v.name for v in report.victims if v.reason_code == "write_aborted"}
    back = case.undo(root, base=base)
    assert {victim.name for victim in back.victims} == went - aborted
    expected = {path: size for path, size in before.items() if path.split("/")[0] not in aborted}
    assert {p: s for p, s in tree(root).items() if not p.startswith("_acidctl")} == expected
    assert case.rows(root) == rows
    assert {entry.name for part in back.partitions for entry in part.kept} == aborted
    again = case.undo(root, base=base)
    assert again.victims == ()


def test_undo_restores_nothing_that_would_be_read(root: Path) -> None:
    """Without its cover an entry would come to life, perhaps beside what replaced it."""
    CASE.quarantine(root)
    for cover in root.glob("*_v*"):
        shutil.rmtree(cover)
    back = CASE.undo(root)
    assert back.victims == ()
    assert {e.reason_code for part in back.partitions for e in part.kept} == {"not_restored"}


def test_undo_never_lands_on_something(root: Path) -> None:
    """What is there stays as it is."""
    CASE.quarantine(root)
    (root / "delta_0000001_0000001_0000").mkdir()
    back = CASE.undo(root)
    assert "delta_0000001_0000001_0000" not in {v.name for v in back.victims}
    assert list((root / "delta_0000001_0000001_0000").iterdir()) == []


def test_a_quarantine_inside_the_table_has_to_be_hidden(root: Path) -> None:
    """A visible folder would be read as data."""
    with pytest.raises(UsageError, match="inside the table"):
        CASE.quarantine(root, base=str(root / "aside"))
    assert CASE.quarantine(root, base=str(root / "_aside")).exit_code == ExitCode.DONE


def test_a_damaged_manifest_stops_the_way_back(root: Path) -> None:
    """What it named is not known any more; nothing is touched."""
    CASE.quarantine(root)
    (manifest,) = root.glob("_acidctl_quarantine/*/manifest.json")
    facts = json.loads(manifest.read_text())
    assert facts["type"] == "acidctl_quarantine"
    assert {entry["name"] for entry in facts["entries"]} >= {"delta_0000001_0000001_0000"}
    manifest.write_text("{")
    back = CASE.undo(root)
    assert back.exit_code == ExitCode.DAMAGED
    assert back.victims == ()


# --- requests


def test_a_list_that_hive_2_means_otherwise_needs_its_form() -> None:
    """Of two ids behind the lowest open one Hive 4 says that the second is aborted, Hive 2 that both are open."""
    storage = LocalStorage()
    root = str(FIXTURES / "hive2/v1_open_aborted/01-open/table")
    for form, aborted in ((None, None), ("hive2", ()), ("hive4", (207,))):
        request = CleanOptions(validtxns="207:205:205:207", list_format=form)
        if aborted is None:
            with pytest.raises(UsageError, match="means one thing in Hive 2 and another"):
                prepare(storage, root, request, now=0.0)
        else:
            met = prepare(storage, root, request, now=0.0).common
            assert met.effective_write_ids.aborted == aborted


def test_several_lists_become_one_snapshot() -> None:
    """An old reader keeps what only it needs."""
    case = step(DEMO)
    storage = LocalStorage()
    root = str(FIXTURES / DEMO / "table")
    old = "default.orders:9:3:3:6"
    request = CleanOptions(validtxns=(*case.lists, old), table="default.orders", older_than=None)
    run = prepare(storage, root, request, now=0.0)
    assert run.common.effective_write_ids.format() == "default.orders:9:3:3,8:6"
    assert [v.name for part in run.plan().locations for v in part.victims] == ["delta_0000006_0000006_0000"]


def test_as_of_serves_where_no_transactions_are_named(tmp_path: Path) -> None:
    """Hive 3's names carry none. Rows of an aborted write look lost, for a number does not say what was aborted."""
    for name, goes in (("hive3/converted/05-major", True), (HIVE3, False)):
        case = step(name)
        root = case.copy(tmp_path / "t")
        high = int(case.lists[0].split(":")[1])
        request = CleanOptions(as_of=high, assume_exclusive=True, older_than=None)
        plan = prepare(LocalStorage(), str(root), request, now=0.0).plan()
        assert bool(plan.victims) is goes
        failing = [(guard.guard, guard.why) for guard in plan.locations[0].guards if not guard.holds]
        assert [guard for guard, _ in failing] == ([] if goes else ["rows"])
        assert all("if write id 6 was aborted" in why for _, why in failing)


def test_memory_storage_is_as_good_as_any() -> None:
    """Nothing here knows a scheme."""
    files = {f"t/delta_{i:07d}_{i:07d}_0000/bucket_00000": b"" for i in (1, 2)}
    files |= {f"t/base_0000002_v0000009/{name}": b"2" for name in ("_orc_acid_version",)}
    storage = MemoryStorage(files, modified=1.0)
    request = CleanOptions(validtxns=("d.t:2:9223372036854775807::", "9:9223372036854775807::"))
    run = prepare(storage, "t", request, now=1e6)
    report = run.delete(run.plan())
    assert (report.exit_code, len(report.victims)) == (ExitCode.DONE, 2)
    assert storage.walk("t").directories == ("base_0000002_v0000009",)


# --- death at any call


def _sweep(case: Step, tmp_path: Path, fault: Fault, action: str, *, every: int, first: int) -> int:
    """Let a run die or fail call by call; whatever is then there reads as before, and the next run completes."""
    template, root = tmp_path / "template", case.copy(tmp_path / "t")
    if action == "undo":
        # A box knows the place that its content is from.
        case.quarantine(root)
    shutil.copytree(root, template)
    before, expected = tree(root), case.reads(root)
    assert getattr(case, action)(root).victims
    finished = {path: size for path, size in tree(root).items() if "_acidctl" not in path}

    def plant() -> LocalStorage:
        shutil.rmtree(root)
        shutil.copytree(template, root)
        return LocalStorage()

    hits = 0
    for hit in sweep(plant, lambda s: getattr(case, action)(root, s), fault, every=every, first=first):
        hits += 1
        seen = {path: size for path, size in before.items() if not path.startswith("_acidctl")}
        if action != "undo":
            visible_whole(root, seen)
        assert case.reads(root) == expected, hit
        for lock in root.glob("_acidctl_lock*"):
            # A lock that was torn in the writing is taken over ten minutes later.
            os.utime(lock, (MADE, MADE))
        again = getattr(case, action)(root)
        assert again.exit_code == ExitCode.DONE, (hit, again)
        assert case.reads(root) == expected, hit
        assert {p: s for p, s in tree(root).items() if "_acidctl" not in p} == finished, hit
        assert not list(root.glob("_acidctl_work*")), hit
        assert not list(root.glob("_acidctl_lock*")), hit
        if action == "quarantine":
            boxed = sorted(p.split("/data/")[1] for p in tree(root) if "/data/" in p)
            assert boxed == sorted(set(before) - set(finished)), hit
    return hits


FAULTS = [(fault, action) for fault in Fault for action in ("delete", "quarantine", "undo")]


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "action"), FAULTS)
@pytest.mark.parametrize("name", [DEMO, MAJOR])
def test_a_run_may_die_at_any_call(name: str, fault: Fault, action: str, tmp_path: Path) -> None:
    """Minor and major, with original files; by other faults than death at some calls, but for a sweep."""
    part = every(7, whole=fault is Fault.KILLED)
    assert _sweep(step(name), tmp_path, fault, action, every=part, first=1) > 10 // part


class _WithTrash(LocalStorage):
    """A file system with a trash beside it, as HDFS has one."""

    def __init__(self, trash: Path) -> None:
        super().__init__()
        self._trash = trash
        self.broken = False

    @property
    def facts(self) -> Facts:
        """Those of a local one, and a trash."""
        return super().facts._replace(trash=True)

    def discard(self, path: str) -> None:
        """One rename."""
        if self.broken:
            raise StorageError(f"{path} cannot go into the trash: its quota is used up", path=path)
        self.move(path, str(self._trash / Path(path).name))


@pytest.mark.parametrize("skip", [False, True])
def test_what_is_deleted_goes_into_the_trash(skip: bool, tmp_path: Path) -> None:
    """Whole, by its name, unless it is to be skipped; and the answer says so."""
    root, trash = step(DEMO).copy(tmp_path / "orders"), tmp_path / "trash"
    trash.mkdir()
    report = step(DEMO).delete(root, _WithTrash(trash), skip_trash=skip)
    went = {entry.name for entry in report.victims}
    assert len(went) > 3
    assert not went & set(tops(root))
    assert {path.name for path in trash.iterdir()} == (set() if skip else went)
    assert any("trash" in note for note in report.notes) == (not skip)
    assert not [name for name in tops(root) if "_acidctl" in name]


def test_a_trash_that_refuses_says_how_to_go_on(tmp_path: Path) -> None:
    """Nothing is deleted another way than was said."""
    root = step(DEMO).copy(tmp_path / "orders")
    before = tops(root)
    storage = _WithTrash(tmp_path)
    storage.broken = True
    (part,) = step(DEMO).delete(root, storage).partitions
    assert part.problem is not None
    assert part.problem.hint == "With --skip-trash it is deleted for good."
    assert tops(root) == before
