"""The commit: what is published, what is refused, and that a table reads the same whatever goes wrong when."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from acidctl.compaction.plan import PartitionPlan, TaskResult
from acidctl.compaction.publish import NoRowsError, NothingToDoError, publish, require_inputs
from acidctl.errors import StalePlanError, StorageError, VerificationError
from acidctl.format.names import FAILED_NAME
from acidctl.maintenance.lock import Lock, acquire
from acidctl.maintenance.work_dir import WorkDir, list_location
from acidctl.state.entries import EntryState
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from tests.support.extent import every
from tests.support.faulty import Fault, FaultyStorage, sweep
from tests.support.publishing import NOW, Case, leftovers, make_case, state_of

pytestmark = pytest.mark.usefixtures("nobody_waits")

KINDS = ("minor", "minor_txn", "major")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables of the cases lie."""
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(autouse=True)
def _unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here cuts the power, and waiting for the disk is most of what a run takes."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest, folder: Path) -> Case:
    """Each kind of compaction."""
    return make_case(request.param, folder)


Change = Callable[[list[TaskResult]], list[TaskResult]]


def _publish(
    case: Case,
    root: Path,
    *,
    storage: Storage | None = None,
    results: Change = list,
    before: Callable[[WorkDir, Lock], object] = lambda work, lock: None,
    plan: PartitionPlan | None = None,
) -> tuple[str, ...]:
    """Publish a case on a fresh copy of its table, with the tasks' answers changed."""
    planted = case.plant(root)
    storage = planted if storage is None else storage
    with acquire(storage, str(root), now=NOW) as lock:
        work = WorkDir.create(storage, str(root), "major", case.outputs, lock)
        answers = results(case.work(storage, work))
        before(work, lock)
        try:
            return publish(storage, str(root), work, plan or case.plan, case.whole, answers, lock)
        finally:
            work.remove()


def _contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_outputs_appear_whole_and_nothing_else_changes(case: Case, tmp_path: Path) -> None:
    """Files of the winners, markers, and all that was there before; a second run has nothing to do."""
    root = tmp_path / "t"
    storage = case.plant(root)
    before, rows = _contents(root), case.rows(root)
    assert case.run(storage, root) == tuple(case.outputs)
    expected = {output: path.read_bytes() for output, path in case.sources.items()}
    for output in case.plan.outputs:
        expected.update({f"{output.name}/{name}": content.encode() for name, content in output.markers})
    assert _contents(root) == {**before, **expected}
    assert case.rows(root) == rows
    assert case.run(storage, root) == ()
    assert _contents(root) == {**before, **expected}


def test_a_delta_without_events_is_left_out(folder: Path, tmp_path: Path) -> None:
    """One output is one rename, and no journal is written."""
    case = make_case("minor", folder)
    inserts = case.outputs[0]

    def only_inserts(results: list[TaskResult]) -> list[TaskResult]:
        return [r if r.output.startswith(inserts) else replace(r, path=None) for r in results]

    plan = replace(case.plan, inputs=tuple(e for e in case.plan.inputs if e.kind == "delta"))
    storage = FaultyStorage(LocalStorage())
    for entry in case.plan.inputs:
        assert entry.kind in ("delta", "delete_delta")
    with pytest.raises(VerificationError):
        # The delete deltas stay live inputs of nobody: publishing the one side would make them obsolete.
        _publish(case, tmp_path / "t", results=only_inserts, plan=plan)
    assert _publish(case, tmp_path / "t", storage=storage, results=only_inserts) == (inserts,)
    assert not any("journal" in name and name.startswith("create") for name in storage.names)
    assert leftovers(tmp_path / "t") == []


def test_no_event_at_all_publishes_no_delta(folder: Path, tmp_path: Path) -> None:
    """It says so, and that it is not a failure."""
    case = make_case("minor", folder)
    with pytest.raises(NoRowsError, match="no event is left") as caught:
        _publish(case, tmp_path / "t", results=lambda results: [replace(r, path=None) for r in results])
    assert (caught.value.code, caught.value.exit_code) == ("no_rows", 0)


def test_no_row_at_all_publishes_an_empty_base(folder: Path, tmp_path: Path) -> None:
    """Without it the old rows would come back; it holds its markers."""
    case = make_case("major", folder)
    assert _publish(case, tmp_path / "t", results=lambda results: []) == ("base_0000004",)
    assert sorted(os.listdir(tmp_path / "t/base_0000004")) == ["_metadata_acid", "_orc_acid_version"]
    state = state_of(tmp_path / "t")
    assert state.base is not None
    assert (state.base.name, state.deltas) == ("base_0000004", ())


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda results: [replace(results[0], bytes=results[0].bytes + 1), *results[1:]], "bytes, not"),
        (lambda results: [replace(results[0], path=None), *results[1:]], None),
    ],
    ids=["wrong size", "lost file"],
)
def test_incomplete_outputs_are_not_published(folder: Path, tmp_path: Path, spoil: Change, what: str | None) -> None:
    """A size that is not the task's is refused; a task that says there was nothing is believed."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    if what is None:
        assert _publish(case, root, results=spoil) == ("base_0000004",)
        return
    with pytest.raises(VerificationError, match=what):
        _publish(case, root, results=spoil)
    assert not (root / "base_0000004").exists()


def test_what_nobody_planned_is_not_published(folder: Path, tmp_path: Path) -> None:
    """A file that found its way into the directory, and a directory that exists already."""
    case = make_case("major", folder)
    root = tmp_path / "t"

    def intrude(work: WorkDir, lock: Lock) -> None:
        target = Path(work.out_dir("base_0000004"))
        target.mkdir(parents=True)
        (target / "bucket_00009").write_bytes(b"x")

    with pytest.raises(VerificationError, match="bucket_00009 was not planned"):
        _publish(case, root, before=intrude)
    with pytest.raises(NothingToDoError, match="base_0000004 exists already"):
        _publish(case, root, before=lambda work, lock: (root / "base_0000004").mkdir())
    minor = make_case("minor", folder)
    with pytest.raises(StalePlanError, match="without the directory"):
        _publish(minor, root, before=lambda work, lock: (root / minor.outputs[1]).mkdir())


@pytest.mark.parametrize("change", ["touch", "grow", "remove", "add", "side file", "remove all"])
def test_changed_inputs_make_a_plan_stale(folder: Path, tmp_path: Path, change: str) -> None:
    """Size, time, number of files: what was read is not what lies there."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    entry = case.plan.inputs[0]
    path = root / entry.files[0].path

    def spoil(work: WorkDir, lock: Lock) -> None:
        if change == "touch":
            os.utime(path, (1, 1))
        elif change == "grow":
            path.write_bytes(path.read_bytes() + b"x")
        elif change == "remove":
            path.unlink()
        elif change == "add":
            (path.parent / "bucket_00007").write_bytes(b"x")
        elif change == "side file":
            path.with_name(path.name + "_flush_length").write_bytes(b"12345678")
        else:
            path.parent.rename(root.parent / "elsewhere")

    with pytest.raises(StalePlanError, match="since the compaction was planned"):
        _publish(case, root, before=spoil)
    assert not (root / "base_0000004").exists()
    assert leftovers(root) == []


def test_what_appears_beside_the_inputs_does_not_matter(folder: Path, tmp_path: Path) -> None:
    """Hive goes on writing; hidden files and new deltas are no part of the plan."""
    case = make_case("major", folder)
    root = tmp_path / "t"

    def write(work: WorkDir, lock: Lock) -> None:
        (root / "delta_0000005_0000005_0000").mkdir()
        (root / "delta_0000005_0000005_0000/bucket_00000").write_bytes(b"x")
        (root / case.plan.inputs[0].name / "_hidden").write_bytes(b"x")

    assert _publish(case, root, before=write) == ("base_0000004",)


def test_a_newer_base_in_the_way_is_found_before_the_rename(folder: Path, tmp_path: Path) -> None:
    """Hive has compacted meanwhile: our inputs are obsolete, and so would be what we publish."""
    case = make_case("major", folder)
    root = tmp_path / "t"

    def compact(work: WorkDir, lock: Lock) -> None:
        (root / "base_0000004_v0000099").mkdir()
        (root / "base_0000004_v0000099/bucket_00000").write_bytes(b"x")

    with pytest.raises(StalePlanError):
        _publish(case, root, before=compact)
    assert not (root / "base_0000004").exists()


def test_a_broken_lock_publishes_nothing(case: Case, tmp_path: Path) -> None:
    """Whoever broke it may be at work on the same directories."""
    root = tmp_path / "t"
    with pytest.raises(StalePlanError, match="was broken"):
        _publish(case, root, before=lambda work, lock: (root / "_acidctl_lock").unlink())
    assert not any((root / name).exists() for name in case.outputs)


def test_owner_and_mode_follow_the_inputs(case: Case, tmp_path: Path) -> None:
    """What Hive reads and cleans must belong to whom the table belongs; also against a strict umask."""
    root = tmp_path / "t"
    storage = case.plant(root)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o2770 if path.is_dir() else 0o640)
    case = replace(case, plan=replace(case.plan, inputs=case.plan.inputs))
    umask = os.umask(0o077)
    try:
        case.run(storage, root)
    finally:
        os.umask(umask)
    for name in case.outputs:
        assert oct((root / name).stat().st_mode)[-4:] == "2770"
        modes = {oct(path.stat().st_mode)[-4:] for path in (root / name).iterdir()}
        assert modes == {"0640"}


def test_a_failed_directory_is_marked(folder: Path, tmp_path: Path) -> None:
    """The mark says why it is kept."""
    case = make_case("major", folder)
    storage = case.plant(tmp_path / "t")
    with acquire(storage, str(tmp_path / "t"), now=NOW) as lock:
        work = WorkDir.create(storage, str(tmp_path / "t"), "major", case.outputs, lock)
        work.fail("rows differ")
    assert "rows differ" in (Path(work.path) / FAILED_NAME).read_text()


def test_inputs_are_compared_before_any_work(folder: Path, tmp_path: Path) -> None:
    """A plan from a file may be days old."""
    case = make_case("major", folder)
    storage = case.plant(tmp_path / "t")
    require_inputs(list_location(storage, str(tmp_path / "t")), case.plan)
    os.utime(tmp_path / "t" / case.plan.inputs[-1].files[0].path, (1, 1))
    with pytest.raises(StalePlanError, match="was changed since"):
        require_inputs(list_location(storage, str(tmp_path / "t")), case.plan)


def _check_between(case: Case, root: Path, rows: tuple[int, str]) -> None:
    """What must be so at any moment: readers get the same rows; Hive too, unless it has promised not to read."""
    assert case.rows(root) == rows
    if case.whole.visibility_txn is not None or len(case.outputs) == 1:
        assert case.rows(root, "hive4") == rows


def _sweep(case: Case, root: Path, fault: Fault, every: int, first: int = 1) -> int:
    """Let every call go wrong once; then run again. Returns how many calls went wrong."""
    count = 0
    rows = None
    for hit in sweep(
        lambda: case.plant(root), lambda storage: case.run(storage, root), fault, every=every, first=first
    ):
        count += 1
        rows = rows or case.rows(case.template)
        _check_between(case, root, rows)
        case.run(LocalStorage(), root)
        _check_between(case, root, rows)
        assert all((root / name).is_dir() for name in case.outputs), hit
        assert leftovers(root) == [], hit
    return count


@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault)
def test_a_fault_at_any_call_leaves_the_table_as_it_was(case: Case, tmp_path: Path, fault: Fault) -> None:
    """The last that the process made, refused, or unacknowledged; others at some calls, but for a sweep."""
    step = every(9, whole=fault in (Fault.KILLED, Fault.REFUSED, Fault.LOST))
    assert _sweep(case, tmp_path / "t", fault, every=step, first=1 + list(Fault).index(fault) % step) >= 40 // step


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["minor", "major"])
def test_lost_answers_do_not_stop_a_run(folder: Path, tmp_path: Path, kind: str) -> None:
    """Every change is looked at again before it counts as refused; only reading may fail."""
    case = make_case(kind, folder)
    changes = ("mkdir", "create_exclusive", "rename_dir", "move", "remove_tree", "remove_file")
    root = tmp_path / "t"
    for hit in sweep(lambda: case.plant(root), lambda storage: case.run(storage, root), Fault.LOST):
        if hit.call.startswith(changes):
            assert hit.error is None, hit
            assert leftovers(root) == [], hit


def test_an_error_between_two_renames_is_undone_at_once(folder: Path, tmp_path: Path) -> None:
    """Nobody has to run anything again, and Hive reads the table as before as well."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    found = FaultyStorage(case.plant(root))
    case.run(found, root)
    second = [n for n, name in enumerate(found.names, 1) if name.startswith("rename_dir")][1]
    storage = FaultyStorage(case.plant(root), second)
    with pytest.raises(StorageError, match="the fault of call"):
        case.run(storage, root)
    assert leftovers(root) == []
    assert not any((root / name).exists() for name in case.outputs)


def test_what_cannot_be_undone_is_kept_and_completed_later(folder: Path, tmp_path: Path) -> None:
    """The storage is gone after the first rename: the message says what to do, and the work directory stays."""
    case = make_case("minor", folder)
    root = tmp_path / "t"

    class Gone(FaultyStorage):
        renames = 0

        def rename_dir(self, source: str, target: str) -> None:
            self.renames += 1
            if self.renames > 1:
                raise StorageError(f"{source} cannot be written: Stale file handle", path=source)
            super().rename_dir(source, target)

    rows = case.rows(case.template)
    with pytest.raises(StorageError, match=r"could not be removed again: .*Stale file handle") as caught:
        case.run(Gone(case.plant(root)), root)
    assert "acidctl compact" in (caught.value.hint or "")
    assert case.rows(root) == rows
    entries = {entry.name: entry for entry in state_of(root).entries}
    half = entries[case.outputs[0]]
    assert (half.state, half.reason_code) == (EntryState.NOT_VISIBLE, "half_published")
    assert case.outputs[1] in half.reason
    assert "acidctl compact" in half.reason
    assert case.run(LocalStorage(), root) == ()
    assert case.rows(root) == rows
    assert leftovers(root) == []
