"""Journals that no compaction wrote: they hide nothing from readers, and nothing is deleted by them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acidctl import open_table
from acidctl.compaction.recovery import UnprovedJournalError, recover
from acidctl.errors import ExitCode
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.write_ids import ValidWriteIds
from acidctl.maintenance.lock import Owner, acquire, new_owner, to_bytes
from acidctl.maintenance.work_dir import WORK_TYPE, list_location
from acidctl.state.entries import ORIGINALS_NAME, EntryState
from acidctl.state.journal import Journal, disbelief, parse_journal
from acidctl.storage.local import LocalStorage
from tests import ROOT
from tests.cli.runner import acidctl
from tests.support.faulty import KILLED, Fault, FaultyStorage, in_child
from tests.support.publishing import NOW, Case, leftovers, make_case, state_of

pytestmark = pytest.mark.usefixtures("nobody_waits")
WORK = "_acidctl_work_0123456789ab"
ID = "0123456789ab"
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(autouse=True)
def _unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables of the cases lie."""
    return tmp_path_factory.mktemp("cases")


def _dead() -> Owner:
    """A process that is proved to have ended."""
    return replace(new_owner(NOW), id=ID, pid=2**22 + 1, pid_started="1")


def _content(root: Path) -> dict[str, bytes | None]:
    found = {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}
    return {path: content for path, content in found.items() if not path.startswith("_acidctl_lock")}


# --- a journal that was put into a table


STEP = ROOT / "fixtures/tables/hive4/demo_orders/03-demo"
LISTS = ("--validtxns", "default.orders:9:8:8:6", "--validtxns", "21:17:17:15")


def _plant(root: Path, values: dict[str, Any]) -> None:
    work = root / WORK
    (work / "out").mkdir(parents=True)
    (work / "owner.json").write_bytes(to_bytes(_dead(), WORK_TYPE))
    journal = {"type": "acidctl_journal", "schema_version": 1, "id": ID, "visibility_txn": None, "input_files": []}
    (work / "journal.json").write_text(json.dumps({**journal, **values}))


def _planted(table: Path, live: str) -> dict[str, dict[str, Any]]:
    """What somebody may write who wants `live` to be taken for half of a compaction."""
    other = next(path.name for path in sorted(table.glob("delta_*")) if path.name != live)
    files = [[f"{live}/{path.name}", path.stat().st_size] for path in sorted((table / live).iterdir())]
    lost = [f"{live}/bucket_00077", 1]
    copied = {"output_files": [[*file, "attempts/x"] for file in [*files, lost]]}
    return {
        "a live delta, renamed": {"outputs": [live, "delete_delta_0000001_0000009"], "inputs": [other]},
        "a live delta, copied": {"outputs": [live], "inputs": [other], **copied},
        "no inputs": {"outputs": [live, "delete_delta_0000001_0000009"], "inputs": []},
        "itself": {"outputs": [live], "inputs": [live], **copied},
    }


@pytest.mark.parametrize("command", ["minor", "major"])
@pytest.mark.parametrize("kind", ["a live delta, renamed", "a live delta, copied", "no inputs", "itself"])
def test_a_planted_journal_hides_and_deletes_nothing(tmp_path: Path, kind: str, command: str) -> None:
    """Readers get every row and a doubt; `compact` and `clean` leave the location as it is and say why."""
    root = tmp_path / "orders"
    shutil.copytree(STEP / "table", root)
    rows = acidctl("snapshot", str(root), *LISTS, "-o", "jsonl").stdout
    live = "delta_0000005_0000005_0000"
    _plant(root, _planted(root, live)[kind])
    before = _content(root)
    read = acidctl("snapshot", str(root), *LISTS, "-o", "jsonl")
    assert (read.code, read.stdout) == (ExitCode.FINDINGS, rows)
    assert f"{WORK} says that {live} is half of an interrupted compaction; it is read all the same" in read.stderr
    done = acidctl("compact", command, str(root), *LISTS, "--assume-exclusive", "--table-type", "full")
    assert done.code == ExitCode.FINDINGS, done
    assert "refused: " in done.stdout
    assert "failed" not in done.stdout
    cleaned = acidctl("clean", str(root), *LISTS, "--unsafe-no-retention", "--delete", "--yes")
    assert cleaned.code in (ExitCode.DONE, ExitCode.FINDINGS), cleaned
    assert _content(root) == before


# --- a journal that a compaction wrote, and somebody changed


def _halfway(case: Case, root: Path) -> Path:
    """A table of which one directory is published and the other is not; its work directory."""
    storage = case.plant(root)
    counter = FaultyStorage(storage)
    case.run(counter, root)
    at = [number for number, name in enumerate(counter.names, 1) if name.startswith("rename_dir ")][1]
    storage = case.plant(root)
    assert in_child(lambda: case.run(FaultyStorage(storage, at, Fault.KILLED), root)) == KILLED
    (work,) = root.glob("_acidctl_work_*")
    return work


def _recover(root: Path) -> list[str]:
    storage = LocalStorage()
    with acquire(storage, str(root), now=NOW) as lock:
        return recover(storage, str(root), list_location(storage, str(root)), lock=lock)


def _rewrite(work: Path, change: Change) -> None:
    values = json.loads((work / "journal.json").read_text())
    change(values)
    (work / "journal.json").write_text(json.dumps(values))


def _resized(values: dict[str, Any]) -> None:
    values["proofs"] = [[path, size + 1, digest] for path, size, digest in values["proofs"]]


def _foreign(values: dict[str, Any]) -> None:
    values["proofs"] = [[path, size, "0" * 64] for path, size, _ in values["proofs"]]


CHANGED: dict[str, tuple[str, Change]] = {
    "an input is left out": ("stands for other write ids", lambda v: v.update(inputs=v["inputs"][:1], input_files=[])),
    "another transaction": ("does not bear the transaction", lambda v: v.update(visibility_txn=7)),
    "other sizes": ("bytes, and it says", _resized),
    "a file that it does not list": (
        "is not listed in it",
        lambda v: v["proofs"].remove(next(p for p in v["proofs"] if p[0].startswith(v["outputs"][0]))),
    ),
    "a file that is not there": (
        "is missing",
        lambda v: v["proofs"].append([f"{v['outputs'][0]}/bucket_00077", 1, ""]),
    ),
    "inputs of another size": (
        "bytes, and it says",
        lambda v: v.update(input_files=[[path, size + 1, time] for path, size, time in v["input_files"]]),
    ),
    "files of no input": ("belongs to none", lambda v: v["input_files"].append(["delta_0000001_0000001_0077/x", 1, 1])),
    "inputs that are none": ("cannot be made of", lambda v: v["inputs"].append("archive")),
}


@pytest.mark.parametrize(("why", "change"), CHANGED.values(), ids=list(CHANGED))
def test_a_journal_that_does_not_fit_is_not_believed(folder: Path, tmp_path: Path, why: str, change: Change) -> None:
    """By names and sizes: what it calls half published is read, with a doubt, and stays where it is."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _rewrite(_halfway(case, root), change)
    before = _content(root)
    state = state_of(root)
    assert {entry.name: entry.state for entry in state.entries}[case.outputs[0]] is EntryState.LIVE
    doubts = [doubt.sentence for doubt in state.doubts if doubt.code == "foreign_journal"]
    assert any("is read all the same" in doubt and why in doubt for doubt in doubts), state.doubts
    with pytest.raises(UnprovedJournalError, match=why) as caught:
        _recover(root)
    assert caught.value.exit_code == ExitCode.FINDINGS
    assert "Nothing was changed" in (caught.value.hint or "")
    assert _content(root) == before


def test_what_is_not_the_file_of_the_journal_is_not_taken_back(folder: Path, tmp_path: Path) -> None:
    """Its size is right and its end differs: another writer's file of this name."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    work = _halfway(case, root)
    path = root / next(output for output in sorted(case.sources) if output.startswith(f"{case.outputs[0]}/"))
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(root / case.plan.inputs[0].files[0].path, (1, 1))  # else it would be completed
    before = _content(root)
    with pytest.raises(UnprovedJournalError, match="is not the file that the journal describes"):
        _recover(root)
    assert _content(root) == before
    path.write_bytes(data)
    assert "Undid" in _recover(root)[0]
    assert not work.exists()


@pytest.mark.parametrize("what", ["changed", "more"])
def test_what_is_not_the_other_half_is_not_published(folder: Path, tmp_path: Path, what: str) -> None:
    """The half that lies in the work directory has to be the one that was verified; else all is undone."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    half = _halfway(case, root) / "out" / case.outputs[1]
    path = next(iter(sorted(half.glob("bucket_*"))))
    if what == "changed":
        path.write_bytes(b"x" * path.stat().st_size)
    else:
        (half / "bucket_00077").write_bytes(path.read_bytes())
    assert "Undid" in _recover(root)[0]
    assert leftovers(root) == []
    assert case.rows(root) == case.rows(case.template)


def test_the_journal_of_a_later_version_is_kept(folder: Path, tmp_path: Path) -> None:
    """What it promises is not known here; so nothing that it may need is removed."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    work = _halfway(case, root)
    _rewrite(work, lambda values: values.update(schema_version=2))
    before = _content(root)
    assert _recover(root) == [
        f"Left {work.name} as it is: its journal has a form that this version of acidctl does not know."
    ]
    assert _content(root) == before


def test_a_file_is_named_once(folder: Path, tmp_path: Path) -> None:
    """Of two sizes neither could be trusted, and one may be no number of bytes."""
    case = make_case("minor", folder)
    work = _halfway(case, tmp_path / "t")
    _rewrite(work, lambda values: values["proofs"].insert(0, [values["proofs"][0][0], 10**40, ""]))
    assert parse_journal((work / "journal.json").read_bytes(), work.name) is None


# --- journals of earlier versions, which hold no digests


def _older(values: dict[str, Any]) -> None:
    del values["proofs"]


def test_an_older_journal_is_completed(folder: Path, tmp_path: Path) -> None:
    """Nothing is deleted by that."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    _rewrite(_halfway(case, root), _older)
    assert case.rows(root) == case.rows(case.template)
    assert "Completed" in _recover(root)[0]
    assert leftovers(root) == []
    assert case.rows(root) == case.rows(case.template)


def test_what_an_older_journal_undoes_is_kept(folder: Path, tmp_path: Path) -> None:
    """It cannot prove what its files are: they are taken out of sight, and stay until a cleaner is asked."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    work = _halfway(case, root)
    _rewrite(work, _older)
    os.utime(root / case.plan.inputs[0].files[0].path, (1, 1))
    published = _content(root / case.outputs[0])
    said = _recover(root)
    assert said[0].startswith("Undid an interrupted compaction")
    assert f"is kept in {work.name}, which `acidctl clean` removes" in said[0]
    assert _content(work / "out" / case.outputs[0]) == published
    assert case.rows(root) == case.rows(case.template)
    assert _recover(root) == []
    assert leftovers(root) == [work.name]
    for path in (*work.rglob("*"), work):
        os.utime(path, (1e9, 1e9))
    cleaned = acidctl("clean", str(root), "--assume-exclusive", "--as-of", "99", "--delete", "--yes")
    assert (cleaned.code, leftovers(root)) == (ExitCode.DONE, [])


# --- what names alone decide


def _listing(*paths: str) -> Listing:
    tops = tuple(sorted({path.partition("/")[0] for path in paths if "/" in path}))
    return Listing("/t", tuple(FileInfo(path, 1, 1.0) for path in paths), tops)


def _journal(outputs: list[str], inputs: list[str], files: tuple[str, ...] = (), txn: int | None = None) -> Journal:
    return Journal(ID, tuple(outputs), txn, tuple(inputs), tuple(FileInfo(path, 1, 1.0) for path in files))


DELTAS = ("delta_0000002_0000002_0000/bucket_00000", "delete_delta_0000004_0000004_0000/bucket_00000")
NAMES = [path.partition("/")[0] for path in DELTAS]
MINOR = ["delta_0000002_0000004", "delete_delta_0000002_0000004"]


@pytest.mark.parametrize(
    ("outputs", "inputs", "believed"),
    [
        (MINOR, NAMES, True),
        (MINOR[:1], NAMES, True),
        (["base_0000004"], NAMES, True),
        (["base_0000003"], NAMES, False),
        (["base_0000005"], NAMES, False),
        (["delta_0000002_0000005", "delete_delta_0000002_0000005"], NAMES, False),
        (["delta_0000001_0000004", "delete_delta_0000001_0000004"], NAMES, False),
        (["delta_0000003_0000004"], NAMES, False),
        (["delta_0000004_0000002"], NAMES, False),
        (["delta_0000002_0000004_0000"], NAMES, False),
        (["delta_0000002_0000004", "delta_0000002_0000004_v0000007"], NAMES, False),
        (["delta_0000002_0000004", "delete_delta_0000002_0000003"], NAMES, False),
        (["base_0000004", "delta_0000002_0000004"], NAMES, False),
        (["base_0000004", "base_0000003"], NAMES, False),
        (MINOR, [*NAMES, "base_0000001"], False),
        (MINOR, [ORIGINALS_NAME, *NAMES], False),
        (["base_0000009"], [ORIGINALS_NAME], False),
    ],
    ids=str,
)
def test_outputs_are_those_of_a_compactor(outputs: list[str], inputs: list[str], believed: bool) -> None:
    """Form and range; nothing is asked of storage."""
    assert (disbelief(_journal(outputs, inputs), _listing(*DELTAS)) is None) is believed


def test_a_base_of_original_files_may_have_any_number() -> None:
    """It bears the watermark of whoever compacted."""
    listing = _listing("000000_0", "part/000001_0")
    assert disbelief(_journal(["base_0000009"], [ORIGINALS_NAME], ("000000_0", "part/000001_0")), listing) is None


def test_only_aborted_writes_widen_an_output() -> None:
    """A compactor covers those beside its inputs; whoever does not know them as aborted does not believe it."""
    wider = _journal(["delta_0000001_0000006", "delete_delta_0000001_0000006"], NAMES)
    base = _journal(["base_0000007"], NAMES)
    listing = _listing(*DELTAS, "delta_0000001_0000001_0000/bucket_00000")
    ids = ValidWriteIds.parse("default.t:9:9223372036854775807::1,6")
    assert disbelief(wider, listing, ids) is None
    assert disbelief(base, listing, ids) is None
    for other in (None, ValidWriteIds.everything(), ValidWriteIds.parse("default.t:9:9223372036854775807::6")):
        assert disbelief(wider, listing, other) is not None
    assert disbelief(base, listing, ValidWriteIds.everything()) is not None


def test_a_journal_is_read_back_as_it_was_written(folder: Path, tmp_path: Path) -> None:
    """With a digest of every file, the markers too; and older versions still find all that they know."""
    case = make_case("minor", folder)
    root = tmp_path / "t"
    work = _halfway(case, root)
    content = (work / "journal.json").read_bytes()
    journal = parse_journal(content, work.name)
    assert journal is not None
    assert journal.to_bytes() == content
    files = {*case.sources, *(f"{output.name}/{name}" for output in case.plan.outputs for name, _ in output.markers)}
    assert {proof.path for proof in journal.proofs} == files
    assert all(len(proof.digest) == 64 for proof in journal.proofs)
    assert journal.output_files == ()
    assert open_table(str(root)).snapshot().count_and_digest() == case.rows(case.template)
