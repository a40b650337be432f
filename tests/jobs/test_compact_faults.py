"""The real run of `compact`, and of `clean` after it, with every storage call failing or being the last one in turn.

Orchestrator, tasks and commit share one storage on which one call goes wrong. Whatever was done by then, readers get
the rows that they got before, and the next run of the command completes.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import acidctl
from acidctl.cleanreport import CleanReport
from acidctl.compactreport import CompactionReport, Outcome
from acidctl.errors import AcidctlError, ExitCode
from acidctl.jobs import compact as compact_module
from acidctl.jobs import task as task_module
from acidctl.jobs.clean_run import CleanRequest, prepare
from acidctl.jobs.compact import Prepared
from acidctl.jobs.session import TablePlace
from acidctl.jobs.spec import TaskOutcome, TaskSpec
from acidctl.jobs.task import outcome_of
from acidctl.plan import CompactionPlan
from acidctl.state import live_entries
from acidctl.storage.gather import gather
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from tests.cli.runner import Result
from tests.cli.runner import acidctl as command
from tests.jobs.cleaning_cases import LATER, MADE, age, step, tree
from tests.support.faulty import Fault, FaultyStorage, Hit, broken_run

_READING = ("stat ", "walk ", "open ")
_TORN_IN_PART = ("write ", "create_exclusive ", "remove_tree ")
_TXN = 900_000


@dataclass(frozen=True)
class Way:
    """A compaction of a table that Hive wrote, updates and deletes in it; `txn` is that of `--visibility-txn`."""

    step: str
    kind: str
    exclusive: bool = False
    txn: bool = False

    @property
    def views(self) -> list[list[str]]:
        """What readers say; where the compaction is a transaction there are those before and after its commit."""
        write_ids, *txns = step(self.step).lists
        if not self.txn:
            return [[write_ids, *txns]]
        return [[write_ids, f"{_TXN}:{still_open}"] for still_open in (f"{_TXN}:{_TXN}:", f"{2**63 - 1}::")]

    @property
    def options(self) -> list[str]:
        """Of the command line."""
        lists = [option for text in self.views[0] for option in ("--validtxns", text)]
        return [*lists, *["--assume-exclusive"] * self.exclusive, *["--visibility-txn", str(_TXN)] * self.txn]


WAYS = {
    "major": Way("hive4/bucketed/02-changed", "major"),
    "minor": Way("hive4/bucketed/02-changed", "minor", exclusive=True),
    "minor in a transaction": Way("hive4/bucketed/02-changed", "minor", txn=True),
    "minor of partitions": Way("hive4/partitioned/02-changed", "minor", exclusive=True),
    "major of Hive 3": Way("hive3/partitioned/02-changed", "major"),
}


class _AllAtOnce:
    """Runs the tasks of a wave before it gives the first outcome, so that calls come in the same order each time."""

    name = "all at once"

    def run(self, specs: Sequence[TaskSpec]) -> Iterator[TaskOutcome]:
        return iter([outcome_of(index, spec, threads=False) for index, spec in enumerate(specs)])

    def close(self) -> None:
        """Nothing was started."""


@pytest.fixture(autouse=True)
def _one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does any test here cut the power, and waiting for the disk is most of what a run takes."""
    monkeypatch.setattr(compact_module, "_STORAGE_THREADS", 1)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Bench:
    """A table that is planted anew for each run."""

    def __init__(self, way: Way, folder: Path) -> None:
        self.way = way
        self.root = folder / "t"
        self._template = folder / "template"
        self._known: dict[object, tuple[int, str]] = {}
        step(way.step).copy(self._template)
        self.plant()
        self.plan = self.planned()
        self.before = self.rows()

    def plant(self) -> LocalStorage:
        """A fresh copy; times of files are kept, so the plan stays good."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self._template, self.root)
        return LocalStorage()

    def keep(self) -> None:
        """What is there now is what is planted from now on."""
        shutil.rmtree(self._template)
        age(self.root)
        shutil.copytree(self.root, self._template)
        self.plan = self.planned()

    def planned(self) -> CompactionPlan:
        way = self.way
        return acidctl.open_table(str(self.root)).plan_compaction(
            way.kind,
            validtxns=way.views[0],
            assume_exclusive=way.exclusive,
            visibility_txn=_TXN if way.txn else None,
        )

    def compact(self, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> CompactionReport:
        """One run of the plan, tasks and all, on a storage."""
        with monkeypatch.context() as patch:
            patch.setattr(task_module, "resolve", lambda url, options=None: (storage, resolve(url, options)[1]))
            place = TablePlace(storage, str(self.root), str(self.root))
            report = Prepared(place, self.plan).start(_AllAtOnce()).run()
        for part in report.partitions:
            if part.outcome is Outcome.FAILED:
                error = AcidctlError(part.reason)
                error.exit_code = part.exit_code
                raise error
        return report

    def clean(self, storage: Storage) -> CleanReport:
        """One run of `clean --delete` by somebody who knows all readers."""
        request = CleanRequest(validtxns=tuple(self.way.views[-1]), schema=step(self.way.step).facts["ddl"])
        run = prepare(storage, str(self.root), gather(storage, str(self.root)), request, now=LATER)
        return run.delete(run.plan())

    def again(self) -> Result:
        """The next run of the command."""
        for lock in self.root.rglob("_acidctl_lock"):
            # A lock that was torn in the writing is taken over ten minutes later.
            os.utime(lock, (MADE, MADE))
        return command("compact", self.way.kind, str(self.root), "--engine", "local", *self.way.options, "-o", "json")

    def rows(self) -> list[tuple[int, str]]:
        """Rows and digest of every reader; read once for each content of live files."""
        return [self._seen(lists) for lists in self.way.views]

    def _seen(self, lists: list[str]) -> tuple[int, str]:
        snapshot = acidctl.open_table(str(self.root)).snapshot(validtxns=lists)
        content = tuple(
            (part.partition, info.path, zlib.crc32(Path(part.location.listing.root, info.path).read_bytes()))
            for part in snapshot.partitions
            for entry in live_entries(part.state)
            for info in entry.files
        )
        if content not in self._known:
            self._known[content] = snapshot.count_and_digest()
        return self._known[content]

    def leftovers(self) -> list[str]:
        """Names that acidctl left."""
        return [str(path.relative_to(self.root)) for path in self.root.rglob("_acidctl*")]


def _calls(names: Sequence[str], fault: Fault) -> list[int]:
    """Numbers of those calls of a run at which a fault makes a difference.

    A call that changes nothing cannot be done and fail all the same, nor be done in part; and dying before it is dying
    before the next call that changes something, or after all of them.
    """
    numbers = range(1, len(names) + 1)
    if fault is Fault.REFUSED:
        return list(numbers)
    if fault is Fault.HALFWAY:
        return [at for at in numbers if names[at - 1].startswith(_TORN_IN_PART)]
    return [at for at in numbers if not names[at - 1].startswith(_READING) or at == len(names)]


def _hits(bench: Bench, run: Callable[[Storage], object], fault: Fault, every: int) -> Iterator[Hit]:
    """Each run that met its fault, `every`-th ones only; the table is as that run has left it."""
    counter = FaultyStorage(bench.plant())
    run(counter)
    for at in _calls(counter.names, fault)[every // 2 :: every]:
        hit = broken_run(bench.plant(), run, fault, at)
        assert hit is not None, at
        yield Hit(at, counter.names[at - 1], hit.error)


def _break_compaction(bench: Bench, fault: Fault, every: int, monkeypatch: pytest.MonkeyPatch) -> int:
    hits = 0
    inputs = tree(bench.root)
    for hit in _hits(bench, lambda storage: bench.compact(storage, monkeypatch), fault, every):
        hits += 1
        assert inputs.items() <= tree(bench.root).items(), hit
        assert bench.rows() == bench.before, hit
        if fault in (Fault.REFUSED, Fault.LOST) and "_acidctl_lock" not in hit.call:
            # A run that can still speak says what went wrong, and not that something is wrong with the rows.
            assert hit.error is None or hit.error.exit_code == ExitCode.STORAGE, hit
        again = bench.again()
        assert again.code == ExitCode.DONE, (hit, again.stdout, again.stderr)
        outcomes = {part["outcome"] for part in again.json()["partitions"]}
        assert outcomes <= {"compacted", "nothing_to_do"}, (hit, outcomes)
        assert bench.leftovers() == [], hit
        assert bench.rows() == bench.before, hit
        assert inputs.items() <= tree(bench.root).items(), hit
    return hits


def _whole(before: dict[str, int], now: dict[str, int]) -> bool:
    """Whether each directory of the table has all its files, or none."""
    parents: dict[str, set[bool]] = {}
    for path, size in before.items():
        parents.setdefault(path.rpartition("/")[0], set()).add(now.get(path) == size)
    return all(len(there) == 1 for there in parents.values())


def _break_cleaning(bench: Bench, fault: Fault, every: int) -> int:
    assert bench.again().code == ExitCode.DONE
    bench.keep()
    before, rows, hits = tree(bench.root), bench.rows()[-1], 0
    assert rows == bench.before[-1]
    assert bench.clean(bench.plant()).victims
    cleaned = tree(bench.root)
    for hit in _hits(bench, bench.clean, fault, every):
        hits += 1
        assert _whole(before, tree(bench.root)), hit
        assert bench.rows()[-1] == rows, hit
        for lock in bench.root.rglob("_acidctl_lock"):
            os.utime(lock, (MADE, MADE))
        assert bench.clean(LocalStorage()).exit_code == ExitCode.DONE, hit
        assert tree(bench.root) == cleaned, hit
        assert bench.rows()[-1] == rows, hit
    return hits


FAST = [
    ("minor", Fault.REFUSED, 43),
    ("minor", Fault.KILLED, 23),
    ("major", Fault.LOST, 23),
    ("minor of partitions", Fault.HALFWAY, 19),
]
ALL = [(way, fault) for way in WAYS for fault in Fault]
# What a location of several goes through is what one goes through alone, so of those calls every third is enough.
EVERY = {"minor of partitions": 3, "major of Hive 3": 3}


@pytest.mark.parametrize(("way", "fault", "every"), FAST)
@pytest.mark.slow
def test_compaction_may_break_now_and_then(
    way: str, fault: Fault, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample of the calls."""
    assert _break_compaction(Bench(WAYS[way], tmp_path), fault, every, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "fault"), ALL)
def test_compaction_may_break_at_every_call(
    way: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call, in every way it can go wrong."""
    assert _break_compaction(Bench(WAYS[way], tmp_path), fault, EVERY.get(way, 1), monkeypatch) > 4


@pytest.mark.parametrize("fault", [Fault.KILLED])
def test_cleaning_may_break_now_and_then(fault: Fault, tmp_path: Path) -> None:
    """A sample of the calls."""
    assert _break_cleaning(Bench(WAYS["minor"], tmp_path), fault, 13)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "fault"), ALL)
def test_cleaning_may_break_at_every_call(way: str, fault: Fault, tmp_path: Path) -> None:
    """What compaction made obsolete goes, and the rows of its result stay."""
    assert _break_cleaning(Bench(WAYS[way], tmp_path), fault, 1) > 3
