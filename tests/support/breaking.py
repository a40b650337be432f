"""Real runs of `compact` and `clean` on a storage on which calls go wrong, and what readers get afterwards."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import acidctl
from acidctl.cleaning.report import CleanReport
from acidctl.cleaning.run import prepare
from acidctl.compaction import run as compact_module
from acidctl.compaction import task as task_module
from acidctl.compaction.partition_run import TablePlace
from acidctl.compaction.plan import CompactionPlan
from acidctl.compaction.report import CompactionReport, Outcome
from acidctl.compaction.run import Prepared
from acidctl.compaction.task import outcome_of
from acidctl.engine import Task, TaskOutcome
from acidctl.errors import AcidctlError
from acidctl.options import CleanOptions
from acidctl.state.inventory import live_entries
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from tests.cli.runner import Result
from tests.cli.runner import acidctl as command
from tests.support.cleaning_cases import LATER, MADE, age, step
from tests.support.specs import task_specs

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


class AllAtOnce:
    """Runs the tasks of a wave before it gives the first outcome, so that calls come in the same order each time."""

    name = "all at once"

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        return iter([outcome_of(index, spec, threads=False) for index, spec in enumerate(task_specs(specs))])

    def close(self) -> None:
        """Nothing was started."""


def in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls come one after the other, and nothing waits for the disk, which is most of what a run takes."""
    monkeypatch.setattr(compact_module, "STORAGE_THREADS", 1)
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
            report = Prepared(place, self.plan).start(AllAtOnce()).run()
        for part in report.partitions:
            if part.outcome is Outcome.FAILED:
                error = AcidctlError(part.reason)
                error.exit_code = part.exit_code
                raise error
        return report

    def clean(self, storage: Storage) -> CleanReport:
        """One run of `clean --delete` by somebody who knows all readers."""
        request = CleanOptions(validtxns=tuple(self.way.views[-1]), schema=step(self.way.step).facts["ddl"])
        run = prepare(storage, str(self.root), request, now=LATER)
        return run.delete(run.plan())

    def again(self) -> Result:
        """The next run of the command."""
        for lock in self.root.rglob("_acidctl_lock*"):
            # A lock that was torn in the writing is taken over ten minutes later.
            os.utime(lock, (MADE, MADE))
        return command("compact", self.way.kind, str(self.root), "--engine", "local", *self.way.options, "-o", "json")

    def rows(self) -> list[tuple[int, str]]:
        """Rows and digest of every reader; read once for each content of live files."""
        return [self._seen(lists) for lists in self.way.views]

    def newest(self) -> tuple[int, str]:
        """Rows and digest of the reader that sees the compaction; others may come too late once a cleaner began."""
        return self._seen(self.way.views[-1])

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
