"""A storage that stops answering ends a run at once; a path that is refused, or a machine that is down, does not."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

import acidctl
from acidctl.api import Table
from acidctl.compaction.report import CompactionReport
from acidctl.compaction.run import Prepared
from acidctl.compaction.task import outcome_of
from acidctl.engine import Task, TaskOutcome
from acidctl.errors import AcidctlError, DeniedError, StorageError, UnreachableError
from acidctl.maintenance.limits import IN_A_ROW
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import PathStat, Storage
from tests import ROOT
from tests.support.breaking import in_turn
from tests.support.faulty import Fault, FaultyStorage
from tests.support.specs import task_specs

SOURCE = ROOT / "fixtures/tables/hive4/bucketed/02-changed/table"
LEFT = "storage_unreachable"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    in_turn(monkeypatch)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def _table(folder: Path, count: int) -> Path:
    for number in range(count):
        shutil.copytree(SOURCE, folder / f"t{count}/ds={number:02}")
    return folder / f"t{count}"


class Engine:
    """Does tasks here, one after another; `before` is told of each."""

    name = "here"

    def __init__(self, before: Callable[[int], None] = lambda index: None) -> None:
        self.before = before

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """One outcome a spec."""
        for index, spec in enumerate(task_specs(specs)):
            try:
                self.before(index)
            except AcidctlError as error:
                yield TaskOutcome(index, error=error)
                continue
            yield outcome_of(index, spec)

    def close(self) -> None:
        """Nothing was started."""


def _prepared(table: Path) -> Prepared:
    return acidctl.open_table(str(table)).prepare_compaction("major", assume_committed=True)


def _run(prepared: Prepared, storage: Storage, engine: Engine | None = None) -> CompactionReport:
    return replace(prepared, place=replace(prepared.place, storage=storage)).start(engine or Engine()).run()


def _counts(report: CompactionReport) -> Counter[str]:
    return Counter(part.reason_code or part.outcome.value for part in report.partitions)


def test_nothing_is_asked_of_a_storage_that_is_gone(tmp_path: Path) -> None:
    """One failure, the rest not begun, exit 14; and as many calls for 6 partitions as for 24."""
    asked = []
    for count in (6, 24):
        table = _table(tmp_path, count)
        gone = FaultyStorage(LocalStorage(), 1, Fault.GONE)
        report = _run(_prepared(table), gone)
        assert _counts(report) == {UnreachableError.code: 1, LEFT: count - 1}
        assert report.exit_code == 14
        (failed,) = [part for part in report.partitions if part.reason_code != LEFT]
        assert failed.outcome.value == "failed"
        rest = [part for part in report.partitions if part is not failed]
        assert {part.outcome.value for part in rest} == {"refused"}
        assert {part.reason for part in rest} == {
            "not started, because the storage no longer answers; a later run compacts it"
        }
        asked.append(gone.calls)
    assert asked[0] == asked[1] < 10


@pytest.mark.slow
def test_a_storage_that_goes_in_the_middle(tmp_path: Path) -> None:
    """Whenever that is: rows stay as they are, what was published is reported, the next run finishes."""
    counter = FaultyStorage(LocalStorage())
    table = _table(tmp_path, 3)
    before = acidctl.open_table(str(table)).snapshot().count_and_digest()
    _run(_prepared(table), counter)
    seen: set[int] = set()
    for at in range(2, counter.calls, counter.calls // 5):
        shutil.rmtree(table)
        _table(tmp_path, 3)
        gone = FaultyStorage(LocalStorage(), at, Fault.GONE)
        report = _run(_prepared(table), gone)
        found = _counts(report)
        done = found["compacted"]
        seen.add(done)
        assert gone.calls - at < 40, at
        assert report.exit_code == (3 if done else 14) or done == 3, (at, found)
        assert done + found[UnreachableError.code] + found[LEFT] + found["storage"] == 3, (at, found)
        assert acidctl.open_table(str(table)).snapshot().count_and_digest() == before, at
        again = _run(_prepared(table), LocalStorage())
        assert again.exit_code == 0, (at, [(p.reason, p.notes) for p in again.partitions])
        assert acidctl.open_table(str(table)).snapshot().count_and_digest() == before, at
        assert len(list(table.glob("ds=*/base_0000005"))) == 3
    assert len(seen) > 1


def test_a_storage_that_goes_while_tasks_run(tmp_path: Path) -> None:
    """The engine is ended; what had begun is left behind and reported without being asked about."""
    table = _table(tmp_path, 4)
    prepared = _prepared(table)
    storage = FaultyStorage(LocalStorage(), 10**9, Fault.GONE)

    def before(index: int) -> None:
        if index >= 1:
            storage._at = 1  # gone from now on
            raise UnreachableError("nobody answers")

    report = _run(prepared, storage, Engine(before))
    assert report.exit_code == 14
    assert _counts(report)[LEFT] >= 3
    assert any("left behind" in note for part in report.partitions for note in part.notes)
    assert not list(table.glob("ds=*/base_0000005"))
    assert _run(_prepared(table), LocalStorage()).exit_code == 0


class OnePath(LocalStorage):
    """Does not serve one partition; asked for the table it answers."""

    def __init__(self, error: type[StorageError]) -> None:
        super().__init__()
        self.error = error

    def stat(self, path: str) -> PathStat | None:
        """Not there."""
        if "/ds=01" in path:
            raise self.error(f"{path} cannot be looked at", path=path)
        return super().stat(path)


@pytest.mark.slow
@pytest.mark.parametrize("error", [UnreachableError, DeniedError, StorageError])
def test_one_path_that_is_refused_or_silent_stops_nobody_else(error: type[StorageError], tmp_path: Path) -> None:
    """The others are compacted, exit 3."""
    report = _run(_prepared(_table(tmp_path, 3)), OnePath(error))
    assert [part.outcome.value for part in report.partitions] == ["compacted", "failed", "compacted"]
    assert report.partitions[1].reason_code == error.code
    assert report.exit_code == 3


def test_planning_ends_where_the_storage_is_gone(tmp_path: Path) -> None:
    """Nothing is changed yet, so there is one error and no report; a path alone is refused, and the others planned."""
    root = str(_table(tmp_path, 12))
    counter = FaultyStorage(LocalStorage())
    Table(counter, root, url=root).prepare_compaction("major", assume_committed=True)
    opened = next(at for at, name in enumerate(counter.names, 1) if name.startswith("open "))
    gone = FaultyStorage(LocalStorage(), opened, Fault.GONE)
    with pytest.raises(UnreachableError):
        Table(gone, root, url=root).prepare_compaction("major", assume_committed=True)
    assert gone.calls - opened < 40


class NoData(LocalStorage):
    """Knows all names, and gives and takes the bytes of some partitions only, as HDFS does without its DataNodes."""

    def __init__(self, given: Callable[[str], bool] = lambda path: False) -> None:
        super().__init__()
        self.given = given
        self.asked = 0

    def _require(self, path: str) -> None:
        if "/ds=" in path and not self.given(path):
            self.asked += 1
            raise UnreachableError(f"{path} cannot be reached: no DataNode gives a block of it", path=path)

    def open(self, path: str) -> BinaryIO:
        """Bytes are what is missing."""
        self._require(path)
        return super().open(path)

    def create_exclusive(self, path: str, data: bytes, like: str | None = None) -> None:
        """A lock has bytes too."""
        self._require(path)
        super().create_exclusive(path, data, like)


@pytest.mark.slow
def test_a_storage_without_data_ends_a_run_after_a_few_partitions(tmp_path: Path) -> None:
    """As many are tried of 12 as of 24, the rest is not begun, exit 14; the next run takes them all."""
    for count in (12, 24):
        table = _table(tmp_path, count)
        storage = NoData()
        report = _run(_prepared(table), storage)
        found = _counts(report)
        assert set(found) == {UnreachableError.code, LEFT}
        assert IN_A_ROW <= found[UnreachableError.code] <= IN_A_ROW + 4
        assert report.exit_code == 14
    assert set(_counts(_run(_prepared(table), LocalStorage()))) == {"compacted"}


def test_tasks_that_find_no_data_end_a_run_and_leave_nothing_behind(tmp_path: Path) -> None:
    """Names can still be changed: locks and work directories go."""
    table = _table(tmp_path, 12)

    def before(index: int) -> None:
        raise UnreachableError("no DataNode gives a block of it")

    report = _run(_prepared(table), LocalStorage(), Engine(before))
    assert _counts(report) == {UnreachableError.code: IN_A_ROW, LEFT: 12 - IN_A_ROW}
    assert report.exit_code == 14
    assert not list(table.glob("ds=*/_acidctl*"))


@pytest.mark.slow
@pytest.mark.parametrize("some", ["first", "every second"])
def test_planning_on_a_storage_that_gives_some_data(some: str, tmp_path: Path) -> None:
    """What was found first is compacted and the silent rest left; silence here and there stops nobody else."""
    table = _table(tmp_path, 30)
    storage = NoData(lambda path: "/ds=00" in path if some == "first" else int(path.partition("/ds=")[2][:2]) % 2 == 0)
    prepared = Table(storage, str(table), url=str(table)).prepare_compaction("major", assume_committed=True)
    found = Counter(part.reason_code or part.action.value for part in prepared.plan.partitions)
    if some == "first":
        assert found["compact"] == 1
        assert IN_A_ROW <= found[UnreachableError.code] < 15 <= found[LEFT]
    else:
        assert found == {"compact": 15, UnreachableError.code: 15}
    assert _run(prepared, storage).exit_code == 3


@pytest.mark.slow
def test_planning_on_a_storage_without_data(tmp_path: Path) -> None:
    """One error, and as few files are tried of 40 partitions as of 20."""
    asked = []
    for count in (20, 40):
        root, storage = str(_table(tmp_path, count)), NoData()
        with pytest.raises(UnreachableError, match="no DataNode"):
            Table(storage, root, url=root).prepare_compaction("major", assume_committed=True)
        asked.append(storage.asked)
    assert max(asked) < 60
