"""Cleaning where nothing can be taken out of sight first: in parts, in an order that says the same at any moment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from acidctl.cleaning.report import CleanReport, Outcome
from acidctl.cleaning.run import CleanRun, prepare
from acidctl.errors import StorageError
from acidctl.format.names import QUARANTINE_NAME
from acidctl.options import CleanOptions
from acidctl.storage import objects as objects_module
from acidctl.storage.port import Storage
from tests.support.breaking import WAYS, Bench, in_turn
from tests.support.cleaning_cases import LATER, step, tree
from tests.support.extent import every
from tests.support.faulty import Fault, FaultyStorage, sweep
from tests.support.objects import object_store

pytestmark = pytest.mark.slow

# Faults begin at different requests, so that each request meets one of them.
# Of the requests of a run three at least.
EVERY = min(every(5), 20)


@pytest.fixture(autouse=True)
def _one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn(monkeypatch)
    monkeypatch.setattr(objects_module, "COPIES", 1)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.fixture(scope="module", params=["minor", "major"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A table after a compaction, with its inputs still there; two days later."""
    made = Bench(WAYS[request.param], tmp_path_factory.mktemp(request.param))
    assert made.again().code == 0
    made.keep()
    return made


def _run(bench: Bench, storage: Storage) -> CleanRun:
    request = CleanOptions(validtxns=tuple(bench.way.views[-1]), schema=step(bench.way.step).facts["ddl"])
    return prepare(storage, str(bench.root), request, now=LATER)


def _delete(bench: Bench, storage: Storage) -> CleanReport:
    run = _run(bench, storage)
    return run.delete(run.plan())


def _quarantine(bench: Bench, storage: Storage) -> CleanReport:
    run = _run(bench, storage)
    return run.quarantine(run.plan(), None)


def _undo(bench: Bench, storage: Storage) -> CleanReport:
    return _run(bench, storage).undo(None)


def _everything(bench: Bench) -> dict[str, int]:
    """Files with their sizes, wherever they are: in their places and in boxes; no lock, no manifest."""
    found = {}
    for path, size in tree(bench.root).items():
        parts = path.split("/")
        if parts[0] == QUARANTINE_NAME:
            parts = parts[3:] if parts[2] == "data" else []
        if parts and not parts[0].startswith("_acidctl"):
            found["/".join(parts)] = size
    return found


def test_victims_go_and_nothing_else(bench: Bench) -> None:
    """As on any storage; a batch for each directory, data before markers."""
    bench.plant()
    before = tree(bench.root)
    counter = FaultyStorage(object_store())
    report = _delete(bench, object_store(counter))
    assert [part.outcome for part in report.partitions] == [Outcome.DELETED]
    gone = {victim.name for victim in report.partitions[0].victims}
    assert len(gone) >= 3
    assert tree(bench.root) == {path: size for path, size in before.items() if path.partition("/")[0] not in gone}
    assert bench.rows()[-1] == bench.before[-1]
    assert sum(name.startswith("delete ") for name in counter.names) == len(gone) + 1


@pytest.mark.parametrize("fault", Fault)
def test_cleaning_may_break_at_any_request(bench: Bench, fault: Fault) -> None:
    """Readers get their rows at any moment, and the next run ends it."""
    bench.plant()
    _delete(bench, object_store())
    cleaned, count = tree(bench.root), 0
    run = lambda faults: _must_work(_delete(bench, object_store(faults)))  # noqa: E731
    for hit in sweep(lambda: _planted(bench), run, fault, every=EVERY, first=1 + list(Fault).index(fault) % EVERY):
        count += 1
        assert bench.rows()[-1] == bench.before[-1], hit
        assert _delete(bench, object_store()).exit_code == 0, hit
        assert tree(bench.root) == cleaned, hit
    assert count >= 3


@pytest.mark.parametrize("fault", [Fault.KILLED, Fault.HALFWAY, Fault.LOST])
def test_quarantine_may_break_at_any_request(bench: Bench, fault: Fault) -> None:
    """No file is lost or doubled: after the next run and its undo all is as it was."""
    bench.plant()
    before, count = tree(bench.root), 0
    run = lambda faults: _must_work(_quarantine(bench, object_store(faults)))  # noqa: E731
    for hit in sweep(lambda: _planted(bench), run, fault, every=EVERY, first=1 + list(Fault).index(fault) % EVERY):
        count += 1
        assert bench.rows()[-1] == bench.before[-1], hit
        assert _everything(bench) == before, hit
        assert _quarantine(bench, object_store()).exit_code == 0, hit
        assert bench.rows()[-1] == bench.before[-1], hit
        assert _undo(bench, object_store()).exit_code == 0, hit
        assert tree(bench.root) == before, hit
    assert count >= 4


@pytest.mark.parametrize("fault", [Fault.KILLED, Fault.HALFWAY, Fault.LOST])
def test_undo_may_break_at_any_request(bench: Bench, fault: Fault, tmp_path: Path) -> None:
    """Likewise."""
    bench.plant()
    before, count = tree(bench.root), 0
    _quarantine(bench, object_store())
    boxed = tmp_path / "boxed"
    shutil.copytree(bench.root, boxed)

    def prepare_again() -> Storage:
        shutil.rmtree(bench.root)
        shutil.copytree(boxed, bench.root)
        return object_store()

    run = lambda faults: _must_work(_undo(bench, object_store(faults)))  # noqa: E731
    for hit in sweep(prepare_again, run, fault, every=EVERY, first=1 + list(Fault).index(fault) % EVERY):
        count += 1
        assert bench.rows()[-1] == bench.before[-1], hit
        assert _everything(bench) == before, hit
        assert _undo(bench, object_store()).exit_code == 0, hit
        assert tree(bench.root) == before, hit
    assert count >= 4


def _planted(bench: Bench) -> Storage:
    bench.plant()
    return object_store()


def _must_work(report: CleanReport) -> None:
    """A report of failures as the error that it tells of, for the sweep."""
    for part in report.failed:
        assert part.problem is not None
        error = StorageError(part.problem.message)
        raise error
