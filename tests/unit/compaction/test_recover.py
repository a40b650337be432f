"""What a dead run left: completed, undone, removed, or left alone; and that recovery itself may die anywhere."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acidctl import open_table
from acidctl.compaction.recovery import UnprovedJournalError, has_leftovers, recover
from acidctl.engine.local import LocalEngine
from acidctl.errors import ExitCode, StalePlanError
from acidctl.format.write_ids import ValidTxns
from acidctl.maintenance.lock import LOCK_TYPE, Owner, acquire, from_bytes, new_owner, to_bytes
from acidctl.maintenance.work_dir import WORK_TYPE, list_location
from acidctl.state.entries import EntryState
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from tests.cli.runner import acidctl
from tests.support.extent import every
from tests.support.faulty import KILLED, Fault, FaultyStorage, in_child, sweep
from tests.support.publishing import NOW, Case, leftovers, make_case, state_of

pytestmark = pytest.mark.usefixtures("nobody_waits")


@pytest.fixture(autouse=True)
def _unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables of the cases lie."""
    return tmp_path_factory.mktemp("cases")


def _calls(case: Case, root: Path) -> list[str]:
    """What a run without faults asks of the storage."""
    storage = FaultyStorage(case.plant(root))
    case.run(storage, root)
    return storage.names


def _die(case: Case, root: Path, at: int, fault: Fault = Fault.KILLED) -> Storage:
    """A table on which a run died at a call."""
    storage = case.plant(root)
    assert in_child(lambda: case.run(FaultyStorage(storage, at, fault), root)) == KILLED
    return storage


def _at(calls: list[str], verb: str, which: int = 1) -> int:
    """The number of the `which`-th call of a verb."""
    return [number for number, name in enumerate(calls, 1) if name.startswith(verb + " ")][which - 1]


def _halfway(case: Case, root: Path) -> Storage:
    """A table of which one directory is published and the other is not."""
    return _die(case, root, _at(_calls(case, root), "rename_dir", 2))


def _recover(root: Path, txns: ValidTxns | None = None, *, unsafe: bool = False) -> list[str]:
    storage = LocalStorage()
    with acquire(storage, str(root), now=NOW, unsafe_break_lock=unsafe) as lock:
        return recover(storage, str(root), list_location(storage, str(root)), lock=lock, txns=txns)


def _work(root: Path) -> Path:
    (found,) = root.glob("_acidctl_work_*")
    return found


def test_a_half_published_minor_is_completed(folder: Path, tmp_path: Path) -> None:
    """Everything is there: one rename is missing."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    said = _recover(root)
    assert said[0] == f"Completed an interrupted compaction: {' and '.join(case.outputs)} are both published now."
    assert "a run that died had left" in said[1]
    assert all((root / name).is_dir() for name in case.outputs)
    assert leftovers(root) == []
    assert case.rows(root) == case.rows(case.template)
    assert _recover(root) == []


def test_a_major_completes_a_half_published_minor_and_compacts_its_result(folder: Path, tmp_path: Path) -> None:
    """The plan saw the inputs of the minor, which are covered by now; the base is the one that was planned."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    table = open_table(str(root))
    prepared = table.prepare_compaction("major", assume_committed=True)
    (planned,) = prepared.plan.partitions
    (done,) = prepared.start(LocalEngine(parallelism=1)).run().partitions
    assert (done.outcome.value, done.outputs) == ("compacted", tuple(output.name for output in planned.outputs))
    assert set(case.outputs) <= set(done.inputs)
    assert not set(case.outputs) & {entry.name for entry in planned.inputs}
    assert leftovers(root) == []
    assert table.snapshot().count_and_digest() == case.rows(case.template)


def test_a_half_published_minor_is_read_as_before(folder: Path, tmp_path: Path) -> None:
    """`ls` shows it, `snapshot` reads the inputs, both say what to do; profile hive4 answers as Hive would."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    report = open_table(str(root)).ls()
    entry = next(entry for entry in report.entries if entry.name == case.outputs[0])
    assert (entry.state, entry.reason_code) == ("not_visible", "half_published")
    assert entry.because_of == (_work(root).name,)
    assert any("Run `acidctl compact` again" in warning for warning in report.warnings)
    assert any(f"Hive 4 would read {case.outputs[0]}" in one.message for one in report.disagreements)
    snapshot = open_table(str(root)).snapshot()
    assert any("Run `acidctl compact` again" in warning for warning in snapshot.warnings)
    assert snapshot.count_and_digest() == case.rows(case.template)
    assert case.rows(root, "hive4") != case.rows(case.template)


@pytest.mark.parametrize("why", ["input changed", "input grown", "other half lost", "aborted", "twin"])
def test_a_half_published_minor_is_undone(folder: Path, tmp_path: Path, why: str) -> None:
    """Where it cannot or must not be completed, the table is as it was, and the next run plans anew."""
    case = make_case("minor_txn" if why == "aborted" else "minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    path = root / case.plan.inputs[0].files[0].path
    txns = None
    if why == "input changed":
        os.utime(path, (1, 1))
    elif why == "input grown":
        (path.parent / "bucket_00005").write_bytes(path.read_bytes())
    elif why == "other half lost":
        (_work(root) / "out" / case.outputs[1]).rename(tmp_path / "elsewhere")
    elif why == "aborted":
        assert case.whole.visibility_txn is not None
        txn = case.whole.visibility_txn
        txns = ValidTxns.parse(f"{txn}:9223372036854775807::{txn}")
    else:
        (root / f"{case.outputs[1]}_v0000009").mkdir()
    before = state_of(root)
    said = _recover(root, txns)
    assert said[0].startswith("Undid an interrupted compaction")
    assert not any((root / name).exists() for name in case.outputs)
    assert leftovers(root) == []
    if why != "aborted":
        assert state_of(root).deltas == before.deltas


def test_what_a_cleaner_has_taken_for_covered_is_completed(folder: Path, tmp_path: Path) -> None:
    """Hive saw one half and removed what it covers; the deletes are in the other half alone."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    for entry in case.plan.inputs:
        (root / entry.name).rename(tmp_path / entry.name)
    assert any("is gone" in note for note in state_of(root).notes)
    assert "Completed" in _recover(root)[0]
    assert case.rows(root) == case.rows(case.template)
    assert leftovers(root) == []


def test_what_cannot_be_repaired_is_left_as_it_is(folder: Path, tmp_path: Path) -> None:
    """Inputs and the other half are gone: a person has to look, and nothing more may be lost."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    (root / case.plan.inputs[0].name).rename(tmp_path / "input")
    (_work(root) / "out" / case.outputs[1]).rename(tmp_path / "half")
    before = sorted(str(path) for path in root.rglob("*"))
    with pytest.raises(StalePlanError, match="cannot be taken back") as caught:
        _recover(root)
    assert _work(root).name in (caught.value.hint or "")
    after = sorted(str(path) for path in root.rglob("*"))
    assert [path for path in after if "_acidctl_lock" not in path] == [p for p in before if "_acidctl_lock" not in p]


def _plant_work(root: Path, id: str, owner: Owner | None, **files: bytes) -> Path:
    work = root / f"_acidctl_work_{id}"
    (work / "attempts").mkdir(parents=True)
    for name, content in files.items():
        (work / name).write_bytes(content)
    if owner is not None:
        (work / "owner.json").write_bytes(to_bytes(replace(owner, id=id), WORK_TYPE))
    return work


def _dead() -> Owner:
    return replace(new_owner(NOW), pid=2**22 + 1, pid_started="1")


def test_only_what_is_known_to_be_dead_is_removed(folder: Path, tmp_path: Path) -> None:
    """Others' work, evidence, and what nothing tells the owner of stay; so does everything that is not acidctl's."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    case.plant(root)
    living = replace(new_owner(NOW), pid=os.getppid(), pid_started=None)
    gone = [
        _plant_work(root, "0" * 12, _dead()),
        _plant_work(root, "1" * 12, new_owner(NOW)),
    ]
    kept = [
        _plant_work(root, "2" * 12, replace(_dead(), host="elsewhere")),
        _plant_work(root, "3" * 12, living),
        _plant_work(root, "4" * 12, _dead(), failed=b'{"reason": "rows differ"}'),
        _plant_work(root, "5" * 12, None, data=b"x"),
        _plant_work(root, "6" * 12, None),
        _plant_work(root, "not_an_id", _dead()),
        _plant_work(root, "7" * 12, None, **{"owner.json": b"{"}),
    ]
    others = root / "_tmp_3fe2"
    others.mkdir()
    (root / "_acidctl_locksmith").write_bytes(b"x")
    (root / "_acidctl_lock_zz").write_bytes(b"x")
    wrong = _plant_work(root, "8" * 12, None)
    (wrong / "owner.json").write_bytes(to_bytes(replace(_dead(), id="9" * 12), WORK_TYPE))
    said = _recover(root)
    assert [path.exists() for path in gone] == [False, False]
    assert [path.name for path in [*kept, wrong] if not path.exists()] == []
    assert {"_tmp_3fe2", "_acidctl_locksmith", "_acidctl_lock_zz"} <= set(os.listdir(root))
    assert sum("Removed" in sentence for sentence in said) == 2
    assert any("on elsewhere" in sentence and "cannot tell whether" in sentence for sentence in said)
    assert sum("its owner is unknown" in sentence for sentence in said) == 4
    advice = {name: next(text for text in said if name * 12 in text) for name in "5678"}
    assert [name for name, text in advice.items() if "`acidctl clean --leftovers` removes it by age" in text] == [
        "5",
        "6",
    ]
    assert all("by hand" in advice[name] for name in "78")


def test_the_advice_on_work_of_nobody_is_right(folder: Path, tmp_path: Path) -> None:
    """A cleaner lets it go, on request and by age, and not while somebody holds the lock."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    case.plant(root)
    work = _plant_work(root, "5" * 12, None, data=b"x")
    command = ("clean", str(root), "--assume-exclusive", "--as-of", "99", "--delete", "--yes")
    assert acidctl(*command, "--leftovers").code == 0
    assert work.exists(), "it is young"
    for path in (work / "data", work / "attempts", work):
        os.utime(path, (1e9, 1e9))
    assert acidctl(*command).code == 0
    assert work.exists(), "nobody asked"
    with acquire(LocalStorage(), str(root), now=NOW):
        assert acidctl(*command, "--leftovers").code != 0
    assert work.exists(), "somebody is at work"
    said = acidctl(*command, "--leftovers")
    assert (said.code, work.exists()) == (0, False)
    assert case.rows(root) == case.rows(case.template)


@pytest.mark.parametrize("content", [None, b"", b'{"type": "acid'], ids=["no owner file", "empty", "torn"])
def test_a_taken_lock_proves_whose_a_bare_directory_is(folder: Path, tmp_path: Path, content: bytes | None) -> None:
    """The run died between making the directory and writing its name into it."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    case.plant(root)
    dead = _dead()
    (root / "_acidctl_lock").write_bytes(to_bytes(dead, LOCK_TYPE))
    work = root / f"_acidctl_work_{dead.id}"
    work.mkdir()
    if content is not None:
        (work / "owner.json").write_bytes(content)
    assert [sentence for sentence in _recover(root) if "Removed" in sentence] != []
    assert leftovers(root) == []
    work.mkdir()
    (work / "owner.json").write_bytes(b"")
    (work / "something").write_bytes(b"x")
    (root / "_acidctl_lock").write_bytes(to_bytes(dead, LOCK_TYPE))
    _recover(root)
    assert leftovers(root) == [work.name]


def test_a_run_that_lost_its_lock_and_lives_is_not_completed_by_another(folder: Path, tmp_path: Path) -> None:
    """It may be about to do so itself."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    owner = from_bytes((_work(root) / "owner.json").read_bytes(), WORK_TYPE)
    assert owner is not None
    (root / "_acidctl_lock").unlink()
    living = replace(owner, pid=os.getppid(), pid_started=None)
    (_work(root) / "owner.json").write_bytes(to_bytes(living, WORK_TYPE))
    for unsafe in (False, True):
        with pytest.raises(StalePlanError, match="is being published by process"):
            _recover(root, unsafe=unsafe)


UNPROVED = {
    "elsewhere": {"host": "elsewhere"},
    "boot unknown": {"boot_id": None},
    "start unknown": {"pid_started": None, "pid": 2**22 + 1},
}


@pytest.mark.parametrize("unproved", UNPROVED.values(), ids=list(UNPROVED))
def test_an_owner_that_is_not_proved_dead_is_for_a_person_to_judge(
    folder: Path, tmp_path: Path, unproved: dict[str, Any]
) -> None:
    """Nothing is changed until somebody says that it has ended; then it is settled."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    owner = from_bytes((_work(root) / "owner.json").read_bytes(), WORK_TYPE)
    assert owner is not None
    (root / "_acidctl_lock").unlink()
    (_work(root) / "owner.json").write_bytes(to_bytes(replace(owner, **unproved), WORK_TYPE))
    before = _content(root)
    with pytest.raises(UnprovedJournalError, match="not known whether process") as caught:
        _recover(root)
    assert caught.value.exit_code == ExitCode.FINDINGS
    assert "--unsafe-break-lock" in (caught.value.hint or "")
    assert _content(root) == before
    assert case.rows(root) == case.rows(case.template)
    said = _recover(root, unsafe=True)
    assert "Completed" in said[0]
    assert leftovers(root) == []
    assert case.rows(root) == case.rows(case.template)


def _content(root: Path) -> dict[str, bytes | None]:
    found = {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}
    return {path: content for path, content in found.items() if not path.startswith("_acidctl_lock")}


@pytest.mark.parametrize("proof", [True, False], ids=["of this machine", "of another"])
def test_a_lock_that_was_taken_over_proves_only_what_its_owner_proves(
    folder: Path, tmp_path: Path, proof: bool
) -> None:
    """Anyone can leave a file of that name; breaking locks on purpose is what makes it count."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    lock, work = root / "_acidctl_lock", _work(root)
    owner = from_bytes(lock.read_bytes(), LOCK_TYPE)
    assert owner is not None
    lock.unlink()
    (work / "owner.json").unlink()
    left = owner if proof else replace(owner, host="elsewhere")
    (root / f"_acidctl_lock_{owner.id}").write_bytes(to_bytes(left, LOCK_TYPE))
    if not proof:
        with pytest.raises(UnprovedJournalError, match="its owner is unknown"):
            _recover(root)
    assert "Completed" in _recover(root, unsafe=not proof)[0]
    assert case.rows(root) == case.rows(case.template)


def test_evidence_with_a_journal_is_completed_and_stays(folder: Path, tmp_path: Path) -> None:
    """The mark keeps the directory, not the table, as it is."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    (_work(root) / "failed").write_bytes(b"{}")
    assert "Completed" in _recover(root)[0]
    assert leftovers(root) == [_work(root).name]
    assert case.rows(root) == case.rows(case.template)


@pytest.mark.parametrize(
    "change",
    [{"schema_version": 2}, {"outputs": ["../x", "y"]}, {"id": "0" * 12}, {"inputs": None}, {"input_files": [[1]]}],
    ids=str,
)
def test_a_journal_that_is_none_decides_nothing(folder: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    """Neither for readers nor for recovery."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _halfway(case, root)
    path = _work(root) / "journal.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert {e.name: e.state for e in state_of(root).entries}[case.outputs[0]] is EntryState.LIVE


def test_what_there_is_to_recover_shows_in_a_listing(folder: Path, tmp_path: Path) -> None:
    """So that a run with nothing to compact cleans up all the same."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    case.plant(root)
    assert not has_leftovers(list_location(LocalStorage(), str(root)))
    _plant_work(root, "0" * 12, _dead())
    assert has_leftovers(list_location(LocalStorage(), str(root)))


def _died_at(case: Case, root: Path) -> dict[str, tuple[int, Fault]]:
    """The moments at which a run leaves something different to recover."""
    calls = _calls(case, root)
    moments = {
        "before its work directory": (_at(calls, "mkdir", 1), Fault.KILLED),
        "before its owner file": (_at(calls, "create_exclusive", 2), Fault.KILLED),
        "within its owner file": (_at(calls, "create_exclusive", 2), Fault.HALFWAY),
        "at its tasks": (_at(calls, "write", 3), Fault.HALFWAY),
        "before its first rename": (_at(calls, "rename_dir", 1), Fault.KILLED),
        "before it cleaned up": (_at(calls, "remove_tree", 1), Fault.KILLED),
        "while it cleaned up": (_at(calls, "remove_tree", 2), Fault.HALFWAY),
        "before it removed its lock": (len(calls), Fault.KILLED),
    }
    if len(case.outputs) > 1:
        moments["between two renames"] = (_at(calls, "rename_dir", 2), Fault.KILLED)
        moments["within its journal"] = (_at(calls, "create_exclusive", 5), Fault.HALFWAY)
    return moments


def _sweep(case: Case, root: Path, died: tuple[int, Fault], fault: Fault, every: int, first: int) -> int:
    """A run died; the next one meets a fault at each call in turn; the one after that completes."""
    rows = case.rows(case.template)
    _die(case, root, *died)
    left = root.with_name("left")
    shutil.rmtree(left, ignore_errors=True)
    shutil.copytree(root, left)
    again = replace(case, template=left)
    count = 0
    for hit in sweep(
        lambda: again.plant(root), lambda storage: case.run(storage, root), fault, every=every, first=first
    ):
        count += 1
        assert case.rows(root) == rows, hit
        case.run(LocalStorage(), root)
        assert case.rows(root) == rows, hit
        assert all((root / name).is_dir() for name in case.outputs), hit
        assert leftovers(root) == [], hit
    return count


@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("kind", ["minor", "major"])
def test_recovery_may_die_at_any_call(folder: Path, tmp_path: Path, kind: str, fault: Fault) -> None:
    """Every call of it, after every moment; some calls where the fault is a variant of another, but for a sweep."""
    case = make_case(kind, folder)
    root = tmp_path / "t"
    step = every(9, whole=fault is Fault.KILLED)
    for number, (moment, died) in enumerate(_died_at(case, root).items()):
        assert _sweep(case, root, died, fault, every=step, first=1 + number % min(step, 9)), moment


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["minor", "major"])
def test_three_runs_may_die_one_after_another(folder: Path, tmp_path: Path, kind: str) -> None:
    """At any combination of calls, thinned out."""
    case = make_case(kind, folder)
    root = tmp_path / "t"
    rows = case.rows(case.template)
    calls = len(_calls(case, root))
    for first in range(1, calls, every(9)):
        for second in range(1 + first % 7, calls + 10, 7):
            storage = _die(case, root, first)
            in_child(partial(case.run, FaultyStorage(storage, second, Fault.KILLED), root))
            assert case.rows(root) == rows
            in_child(partial(case.run, FaultyStorage(storage, second // 2 + 1, Fault.KILLED), root))
            assert case.rows(root) == rows
            case.run(storage, root)
            assert case.rows(root) == rows
            assert leftovers(root) == []
            assert all((root / name).is_dir() for name in case.outputs)
