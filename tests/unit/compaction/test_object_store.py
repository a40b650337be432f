"""The commit where nothing can be renamed: file by file under a journal, and nobody of ours ever sees a part of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from acidctl.compaction import publish as publish_module
from acidctl.compaction.recovery import UnprovedJournalError, recover
from acidctl.errors import StalePlanError, StorageError, VerificationError
from acidctl.format.write_ids import ValidTxns
from acidctl.maintenance.lock import Lock, acquire
from acidctl.maintenance.work_dir import list_location
from acidctl.state.journal import Journal, OutputFile, parse_journal, standing_of
from acidctl.storage import objects as objects_module
from acidctl.storage import retry
from acidctl.storage.port import Storage
from tests.support.extent import every
from tests.support.faulty import Answer, Fault, FaultyStorage, in_child, sweep
from tests.support.objects import object_store
from tests.support.publishing import NOW, Case, leftovers, make_case, state_of

KINDS = ("minor", "minor_txn", "major")
_CHANGES = ("put ", "copy ", "delete ", "swap ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables of the cases lie."""
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(autouse=True)
def _one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests come in the same order each time, and nobody waits."""
    monkeypatch.setattr(publish_module, "COPIES", 1)
    monkeypatch.setattr(objects_module, "COPIES", 1)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest, folder: Path) -> Case:
    """Each kind of compaction."""
    return make_case(request.param, folder)


def _contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _published(case: Case, root: Path) -> dict[str, bytes]:
    """What is there when all went well."""
    expected = {output: path.read_bytes() for output, path in case.sources.items()}
    for output in case.plan.outputs:
        expected.update({f"{output.name}/{name}": content.encode() for name, content in output.markers})
    return {**_contents(case.template), **expected}


def _requests(case: Case, root: Path) -> list[str]:
    """All requests of a run that meets no fault."""
    case.plant(root)
    counter = FaultyStorage(object_store())
    case.run(object_store(counter), root)
    return counter.names


@pytest.mark.slow
def test_files_are_copied_data_first_and_markers_last(case: Case, tmp_path: Path) -> None:
    """Everything is there in the end, nothing else has changed, and the journal was there before the first copy."""
    root = tmp_path / "t"
    names = [name.replace(str(root) + "/", "") for name in _requests(case, root)]
    assert _contents(root) == _published(case, root)
    copies = [name.partition(" ")[2] for name in names if name.startswith("copy ")]
    assert sorted(copies) == sorted(_published(case, root).keys() - _contents(case.template).keys())
    hidden = [name.rpartition("/")[2].startswith("_") for name in copies]
    assert hidden == sorted(hidden)
    journal = next(n for n, name in enumerate(names) if name.startswith("put ") and name.endswith("/journal.json"))
    assert journal < names.index(f"copy {copies[0]}")
    assert case.run(object_store(), root) == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_window_nothing_is_published(kind: str, folder: Path, tmp_path: Path) -> None:
    """A plan that was made for another storage says nothing of readers here."""
    case = make_case(kind, folder)
    bare = replace(case, whole=replace(case.whole, visibility_txn=None, assume_exclusive=False))
    root = tmp_path / "t"
    case.plant(root)
    with pytest.raises(StalePlanError, match="cannot rename") as caught:
        bare.run(object_store(), root)
    assert "--visibility-txn" in str(caught.value.hint)
    assert _contents(root) == _contents(case.template)


def _stopped_after(case: Case, root: Path, copies: int) -> None:
    """A run that was killed after so many copies."""
    at = [n for n, name in enumerate(_requests(case, root), 1) if name.startswith("copy ")][copies - 1]
    case.plant(root)
    in_child(lambda: case.run(object_store(FaultyStorage(object_store(), at + 1, Fault.KILLED)), root))


@pytest.mark.slow
def test_a_half_copied_output_is_not_read(case: Case, tmp_path: Path) -> None:
    """As long as one file is missing the inputs count, whichever are there; the state says so."""
    root = tmp_path / "t"
    total = len(case.sources) + sum(len(output.markers) for output in case.plan.outputs)
    rows = case.rows(case.template)
    for copies in range(1, total):
        _stopped_after(case, root, copies)
        assert any((root / name).exists() for name in case.outputs)
        assert case.rows(root) == rows
        entries = {entry.name: entry for entry in state_of(root).entries}
        seen = {(entries[name].state.value, entries[name].reason_code) for name in case.outputs if name in entries}
        assert seen == {("not_visible", "half_published")}
        assert "interrupted" in " ".join(state_of(root).notes)
    _stopped_after(case, root, total)
    assert {entry.name: entry.state.value for entry in state_of(root).entries}[case.outputs[0]] != "not_visible" or (
        case.whole.visibility_txn is not None
    )


@pytest.mark.slow
def test_the_next_run_completes(case: Case, tmp_path: Path) -> None:
    """What is in place stays as it is, the rest is copied, and nothing is merged again."""
    root = tmp_path / "t"
    _stopped_after(case, root, 1)
    there = {path: (root / path).stat().st_mtime_ns for path in _contents(root) if not path.startswith("_acidctl")}
    assert case.run(object_store(), root) == ()
    assert _contents(root) == _published(case, root)
    assert {path: (root / path).stat().st_mtime_ns for path in there} == there


@pytest.mark.slow
@pytest.mark.parametrize("why", ["inputs changed", "aborted", "source lost"])
def test_the_next_run_undoes(why: str, folder: Path, tmp_path: Path) -> None:
    """What cannot be completed is taken back."""
    case = make_case("minor_txn" if why == "aborted" else "major", folder)
    root = tmp_path / "t"
    _stopped_after(case, root, 1)
    work = next(root.glob("_acidctl_work_*"))
    txns = None
    if why == "inputs changed":
        os.utime(root / case.plan.inputs[0].files[0].path, (1, 1))
    elif why == "aborted":
        assert case.whole.visibility_txn is not None
        txn = case.whole.visibility_txn
        txns = ValidTxns.parse(f"{txn}:{2**63 - 1}::{txn}")
    else:
        shutil.rmtree(work / "out")
    assert any("Undid" in sentence for sentence in _recover(root, txns))
    assert _contents(root) == _contents(case.template)


def _recover(root: Path, txns: ValidTxns | None = None) -> list[str]:
    with acquire(object_store(), str(root), now=NOW) as lock:
        return recover(object_store(), str(root), list_location(object_store(), str(root)), lock=lock, txns=txns)


@pytest.mark.parametrize("size", ["other", "same"])
def test_what_another_wrote_there_is_not_removed(size: str, folder: Path, tmp_path: Path) -> None:
    """Not a file of it, nor what lies beside it: whose this directory is, is for a person to find out."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    _stopped_after(case, root, 1)
    work = next(root.glob("_acidctl_work_*"))
    journal = parse_journal((work / "journal.json").read_bytes(), work.name)
    assert journal is not None
    last = journal.output_files[-1]
    (root / last.path).write_bytes(b"x" * (last.size + (size == "other")))
    before = _contents(root)
    with pytest.raises(UnprovedJournalError, match=last.path):
        _recover(root)
    after = _contents(root)
    kept = {path for path in {*before, *after} if not path.startswith("_acidctl_lock")}
    assert {path: after.get(path) for path in kept} == {path: before.get(path) for path in kept}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.GONE])
def test_an_error_in_the_middle_is_undone_or_told(fault: Fault, folder: Path, tmp_path: Path) -> None:
    """At once where the storage still answers; where it does not, the work directory stays and the next run goes on."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    at = [n for n, name in enumerate(_requests(case, root), 1) if name.startswith("copy ")][1]
    case.plant(root)
    with pytest.raises(StorageError) as caught:
        case.run(object_store(FaultyStorage(object_store(), at, fault)), root)
    if fault is Fault.REFUSED:
        assert _contents(root) == _contents(case.template)
        return
    assert "published in part" in caught.value.message
    assert "Do not let Hive read it" in str(caught.value.hint)
    assert case.rows(root) == case.rows(case.template)
    case.run(object_store(), root)
    assert _contents(root) == _published(case, root)


@pytest.mark.slow
def test_a_name_that_is_taken_meanwhile_is_never_overwritten(folder: Path, tmp_path: Path) -> None:
    """Somebody else's object stays, and ours are taken back."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    copies = [name.partition(" ")[2] for name in _requests(case, root) if name.startswith("copy ")]
    case.plant(root)
    last = Path(copies[-1])

    class Intruded(FaultyStorage):
        def call(
            self, name: str, path: str, action: Callable[[], Answer], half: Callable[[], None] = lambda: None
        ) -> Answer:
            if name == "copy" and path == str(last):
                last.write_bytes(b"theirs")
            return super().call(name, path, action, half)

    with pytest.raises(StalePlanError, match="exists already"):
        case.run(object_store(Intruded(object_store())), root)
    assert _contents(root) == {**_contents(case.template), str(last.relative_to(root)): b"theirs"}


@pytest.mark.slow
def test_what_was_copied_is_looked_at_once_more(folder: Path, tmp_path: Path) -> None:
    """A store that says it has copied and has not."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    case.plant(root)

    class Lying(FaultyStorage):
        def call(
            self, name: str, path: str, action: Callable[[], Answer], half: Callable[[], None] = lambda: None
        ) -> Answer:
            if name == "copy" and path.endswith("_metadata_acid"):
                return cast(Answer, None)
            return super().call(name, path, action, half)

    with pytest.raises(VerificationError, match="_metadata_acid is not there"):
        case.run(object_store(Lying(object_store())), root)
    assert _contents(root) == _contents(case.template)


def _check(case: Case, root: Path, rows: tuple[int, str], hit: object) -> None:
    assert case.rows(root) == rows, hit
    if case.whole.visibility_txn is not None:
        # Hive does not read what is published under a transaction that is open.
        assert case.rows(root, "hive4") == rows, hit


def _sweep(case: Case, root: Path, fault: Fault, part: int, first: int) -> int:
    """Let each of some requests go wrong once; then run again. Returns how many went wrong."""
    rows, published, count = case.rows(case.template), _published(case, root), 0
    hits = sweep(
        lambda: _planted(case, root),
        lambda faults: case.run(object_store(faults), root),
        fault,
        every=part,
        first=first,
    )
    for hit in hits:
        count += 1
        _check(case, root, rows, hit)
        case.run(object_store(), root)
        assert _contents(root) == published, hit
        _check(case, root, rows, hit)
    return count


def _planted(case: Case, root: Path) -> Storage:
    case.plant(root)
    return object_store()


@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault)
def test_a_fault_at_any_request_leaves_the_table_as_it_was(case: Case, tmp_path: Path, fault: Fault) -> None:
    """In every way that requests can go wrong; and the next run completes."""
    step = every(7, whole=fault in (Fault.KILLED, Fault.LOST))
    assert _sweep(case, tmp_path / "t", fault, step, 1 + list(Fault).index(fault) % step) >= 40 // step


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_lost_answers_do_not_stop_a_run(kind: str, folder: Path, tmp_path: Path) -> None:
    """Every change is looked at again before it counts as refused."""
    case = make_case(kind, folder)
    root = tmp_path / "t"
    hits = 0
    for hit in sweep(
        lambda: _planted(case, root),
        lambda faults: case.run(object_store(faults), root),
        Fault.LOST,
    ):
        # What a task writes is written again by another attempt of it.
        if hit.call.startswith(_CHANGES) and "/attempts/" not in hit.call:
            hits += 1
            assert hit.error is None, hit
            assert leftovers(root) == [], hit
    assert hits >= 10


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.KILLED, Fault.HALFWAY, Fault.REFUSED, Fault.LOST])
@pytest.mark.parametrize("kind", ["minor", "major"])
def test_recovery_may_break_at_any_request(kind: str, fault: Fault, folder: Path, tmp_path: Path) -> None:
    """After a run that died between two copies."""
    case = make_case(kind, folder)
    root, left = tmp_path / "t", tmp_path / "left"
    _stopped_after(case, root, 2)
    shutil.copytree(root, left)
    again = replace(case, template=left)
    rows, published, count = case.rows(case.template), _published(case, root), 0
    step = every(3, whole=fault is Fault.KILLED)
    for hit in sweep(
        lambda: _planted(again, root), lambda faults: case.run(object_store(faults), root), fault, every=step
    ):
        count += 1
        assert case.rows(root) == rows, hit
        case.run(object_store(), root)
        assert _contents(root) == published, hit
    assert count >= 15 // step


def test_journals_name_only_what_lies_in_their_outputs() -> None:
    """Who undoes one removes what it names, so a forged or torn one must not name anything else."""
    work = "_acidctl_work_0123456789ab"
    files = (OutputFile("base_0000005/bucket_00000", 7, "attempts/x"),)
    journal = Journal("0123456789ab", ("base_0000005",), None, ("delta_0000005_0000005",), (), files)
    assert parse_journal(journal.to_bytes(), work) == journal
    for path in ("delta_1_1/f", "base_0000005", "base_0000005/../delta_1_1/f", "base_0000005//f"):
        bad = replace(journal, output_files=(OutputFile(path, 7, "attempts/x"),))
        assert parse_journal(bad.to_bytes(), work) is None, path
    values = json.loads(journal.to_bytes())
    del values["output_files"]
    assert parse_journal(json.dumps(values).encode(), work) == replace(journal, output_files=())


@pytest.mark.slow
def test_a_size_that_is_not_the_journals_is_not_there(folder: Path, tmp_path: Path) -> None:
    """What stands in the place of a file and is another one does not make an output whole."""
    case = make_case("major", folder)
    root = tmp_path / "t"
    case.plant(root)
    case.run(object_store(), root)
    listing = list_location(object_store(), str(root))
    paths = {info.path: info.size for info in listing.files if info.path.startswith("base_0000004/")}
    whole = Journal(
        "0123456789ab", ("base_0000004",), None, (), (), tuple(OutputFile(p, s, p) for p, s in paths.items())
    )
    assert standing_of(whole, listing).missing == ()
    first = whole.output_files[0]
    other = replace(whole, output_files=(first._replace(size=first.size + 1), *whole.output_files[1:]))
    assert standing_of(other, listing).missing == (first.path,)
    assert standing_of(other, listing).half


Race = Callable[[], None]


def test_a_dead_lock_has_one_heir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a taker's look and its replacement another one is done: the second is told who has it."""
    root = tmp_path / "t"
    (root / "delta_1_1").mkdir(parents=True)
    (root / "delta_1_1/f").write_bytes(b"x")
    in_child(lambda: acquire(object_store(), str(root), now=NOW))
    dead = json.loads((root / "_acidctl_lock").read_bytes())["id"]
    heirs: list[Lock] = []

    class Slow(FaultyStorage):
        def call(
            self, name: str, path: str, action: Callable[[], Answer], half: Callable[[], None] = lambda: None
        ) -> Answer:
            if name == "swap" and not heirs:
                heirs.append(acquire(object_store(), str(root), now=NOW))
            return super().call(name, path, action, half)

    with pytest.raises(StalePlanError, match="already locked by this process"):
        acquire(object_store(Slow(object_store())), str(root), now=NOW)
    assert json.loads((root / "_acidctl_lock").read_bytes())["id"] == heirs[0].id
    assert (root / f"_acidctl_lock_{dead}").exists()
    heirs[0].check()
    heirs[0].release()
    acquire(object_store(), str(root), now=NOW).release()


@pytest.mark.slow
@pytest.mark.parametrize("fault", Fault)
def test_taking_a_lock_over_may_break_at_any_request(fault: Fault, tmp_path: Path) -> None:
    """Whatever happened, the next taker gets it, and no work directory loses the proof that its owner is dead."""
    root = tmp_path / "t"

    def prepare() -> Storage:
        shutil.rmtree(root, ignore_errors=True)
        (root / "delta_1_1").mkdir(parents=True)
        (root / "delta_1_1/f").write_bytes(b"x")
        in_child(lambda: acquire(object_store(), str(root), now=NOW))
        return object_store()

    def run(faults: FaultyStorage) -> None:
        acquire(object_store(faults), str(root), now=NOW).release()

    count = 0
    for hit in sweep(prepare, run, fault):
        count += 1
        acquire(object_store(), str(root), now=NOW).release()
        assert not (root / "_acidctl_lock").exists(), hit
        assert list(root.glob("_acidctl_lock_*")), hit
    assert count >= 5


def test_policy_is_bounded() -> None:
    """The tests above wait for nothing; a real run waits so long at most."""
    pauses: list[float] = []
    policy = retry.RetryPolicy(sleep=pauses.append, jitter=lambda: 1.0)
    for tried in range(1, policy.attempts):
        policy.pause(tried)
    assert sum(pauses) < 5
