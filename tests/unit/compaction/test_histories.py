"""Random lives of a table on disk: whatever compactions and cleanings come between, every reader goes on reading the
rows that it has to see, which a model knows without reading anything.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from acidctl import open_table
from acidctl.cleaning import decisions as clean_decisions
from acidctl.cleaning import run as clean_run
from acidctl.cleaning.plan import GUARDS
from acidctl.cleaning.report import Outcome as CleanOutcome
from acidctl.compaction import inputs
from acidctl.compaction.inputs import TaskEvents
from acidctl.compaction.plan import Target
from acidctl.compaction.report import Outcome
from acidctl.errors import NotEnoughHistoryError
from acidctl.format.write_ids import ValidWriteIds
from acidctl.rows.merge import DeletedRows
from tests.support.extent import amount, some
from tests.support.slow_reader import read as read_slowly
from tests.support.written_table import COLUMNS, SLOW_COLUMNS, Fate, Ids, Reader, Rows, Txn, Work, WrittenTable

READERS = 3
STEPS = 25
FAST = 2
WRITERS = 2
DAY = 24 * 3600.0
MAX_ID = 9223372036854775807
BASE = re.compile(r"base_(-?\d+)(?:_v(\d+))?")
VISIBILITY = re.compile(r"_v(\d+)$")
# Why a compaction leaves a location alone where another is published and its transaction still open.
BESIDE_ANOTHER = {"same_range", "straddled"}
COMMITTED, ABORTED, OPEN = Fate.COMMITTED, Fate.ABORTED, Fate.OPEN
ACTIONS = [
    *["insert", "change"] * 6,
    *["compact"] * 7,
    *["end"] * 5,
    *["clean", "stream"] * 3,
    *["read", "open_batch", "close_batch"] * 2,
    *["leave", "load", "delete_all", "overwrite", "statement", "end_compaction"],
]


Step = tuple[str, int]
Change = Callable[[pytest.MonkeyPatch], None]


class Life:
    """One table with its writers, readers, compactions and cleanings; `seen` counts what happened.

    A step is an action and the seed of its choices. One that is not possible at its moment does nothing, so that any
    part of a history is a history.
    """

    def __init__(self, folder: Path, target: Target, *, bucketed: bool, originals: int) -> None:
        self.folder = folder
        self.table = WrittenTable(folder / "t", target, bucketed=bucketed)
        self.table.root.mkdir()
        self.table.originals(originals)
        self.readers: list[Reader] = []
        self.compaction: Txn | None = None
        self.random = Random()
        self.seen: Counter[str] = Counter()
        self._checked: set[tuple[Ids, Ids]] = set()
        self._checked_in: set[tuple[Path, int, int]] = set()

    def step(self, action: str, seed: int) -> None:
        """Do something, and let everybody read."""
        self.random = Random(seed)
        getattr(self, action)()
        self.check()

    # --- writers

    def insert(self) -> None:
        self._write(lambda txn: self.table.insert(txn, *self._some()))

    def load(self) -> None:
        self._write(lambda txn: self.table.load(txn, *self._some()))

    def change(self) -> None:
        self._write(self._change)

    def delete_all(self) -> None:
        self._write(lambda txn: self.table.change(txn, range(100), update=False))

    def statement(self) -> None:
        """One more of a transaction that is still open."""
        going = self.table.going(Work.WRITE)
        if not going:
            return
        txn = self.random.choice(going)
        if self.random.random() < 0.3 or not self._change(txn):
            self.table.insert(txn, *self._some())

    def overwrite(self) -> None:
        """It waits for all writers, and they for it."""
        if self.table.going(Work.WRITE, Work.STREAM, Work.OVERWRITE):
            return
        txn = self.table.begin(Work.OVERWRITE)
        count, spread = self._some()
        if self.random.random() < 0.3:
            self.table.load(txn, count, spread)
        else:
            self.table.overwrite(txn, self.random.choice([0, count]), spread)
        txn.fate = self._fate()

    def end(self) -> None:
        """Some open transaction ends."""
        going = self.table.going(Work.WRITE, Work.OVERWRITE)
        if going:
            self.random.choice(going).fate = self._end()

    def open_batch(self) -> None:
        if self._free() and not self.table.batches:
            self.table.open_batch(self.random.randint(2, 4))

    def stream(self) -> None:
        going = [b for b in self.table.batches if any(txn.fate is OPEN for txn in b.txns)]
        if going:
            self.table.stream(self.random.choice(going), self._some()[0], self._end(), self._some()[1])

    def close_batch(self) -> None:
        if self.table.batches:
            self.table.close_batch(self.table.batches[0])

    def _free(self) -> bool:
        return not self.table.going(Work.OVERWRITE) and len(self.table.going(Work.WRITE)) < WRITERS

    def _write(self, statement: Callable[[Txn], object]) -> None:
        if self._free():
            txn = self.table.begin(Work.WRITE)
            statement(txn)
            txn.fate = self._fate()

    def _change(self, txn: Txn) -> bool:
        picks = [self.random.randrange(100) for _ in range(self.random.randint(1, 3))]
        return self.table.change(txn, picks, update=self.random.random() < 0.6)

    def _some(self) -> tuple[int, int]:
        """How many rows, and how many writers in a table without buckets."""
        return self.random.randint(1, 4), self.random.randint(1, 2)

    def _fate(self) -> Fate:
        return self.random.choice([COMMITTED] * 8 + [ABORTED, OPEN])

    def _end(self) -> Fate:
        return self.random.choice([COMMITTED, COMMITTED, ABORTED])

    # --- readers

    def read(self) -> None:
        """Somebody begins to read, and will do so until he leaves."""
        self.readers = [*self.readers[-READERS + 1 :], self.table.reader()]

    def leave(self) -> None:
        if self.readers:
            del self.readers[self.random.randrange(len(self.readers))]

    # --- maintenance

    def compact(self) -> None:
        """Ours: where Hive 4 is to read it, mostly under a transaction, which may end later."""
        kind = self.random.choice(["minor", "minor", "major"])
        txn = None
        if self.table.target is Target.HIVE4 and self.random.random() < 0.7:
            if self.compaction is not None:
                return
            txn = self.table.begin(Work.COMPACTION)
        report = open_table(str(self.table.root)).compact(
            kind,
            parallelism=1,
            validtxns=self.table.reader().lists(),
            table_type="full",
            target=self.table.target.value,
            visibility_txn=None if txn is None else txn.id,
            assume_exclusive=txn is None and self.random.random() < 0.8,
        )
        (part,) = report.partitions
        if txn is not None and part.outcome is Outcome.COMPACTED:
            txn.fate = self.random.choice([COMMITTED, COMMITTED, ABORTED, OPEN])
            self.compaction = txn if txn.fate is OPEN else None
        elif txn is not None:
            txn.fate = ABORTED
        self.seen[f"{kind} {part.outcome.value} {part.reason_code}".strip()] += 1
        assert part.outcome is not Outcome.FAILED, part
        if part.outcome is Outcome.REFUSED:
            assert part.reason_code == "needs_two_renames" or (
                part.reason_code in BESIDE_ANOTHER and self.compaction is not None
            ), part

    def end_compaction(self) -> None:
        if self.compaction is not None:
            self.compaction.fate = self._end()
            self.compaction = None

    def clean(self) -> None:
        """With the lists of all who read or may come to read."""
        lists = [text for reader in [*self.readers, self.table.reader()] for text in reader.lists()]
        retention = self.random.choice([None, DAY])
        run = open_table(str(self.table.root)).prepare_clean(
            validtxns=lists, older_than=retention, now=time.time() + 2 * DAY, table_type="full"
        )
        (place,) = run.delete(run.plan()).partitions
        self.seen[f"clean {place.outcome.value}"] += 1
        self.seen["cleaned"] += len(place.victims)
        assert place.outcome in (CleanOutcome.DELETED, CleanOutcome.NOTHING_TO_DO), place

    # --- what has to hold

    def check(self) -> None:
        """Every reader that is there, and one that begins now; not again where neither list nor directory changed."""
        newest = self.table.reader()
        assert not self._passed_over(newest)
        now = {(path, (s := path.stat()).st_size, s.st_mtime_ns) for path in self.table.root.rglob("*")}
        if now != self._checked_in:
            self._checked_in, self._checked = now, set()
        for reader in [*self.readers, newest]:
            if (reader.write_ids, reader.txns) not in self._checked:
                self._check(reader)
                self._checked.add((reader.write_ids, reader.txns))
        assert not list(self.table.root.glob("_acidctl*"))

    def _check(self, reader: Reader) -> None:
        wanted = self.table.visible(reader)
        root = self.table.root
        passed_over = self._passed_over(reader)
        if passed_over:
            # Hive would fail loudly (error 10327); what it would have read is there all the same.
            with pytest.raises(NotEnoughHistoryError):
                rows_of(root, reader)
            self.seen["history"] += 1
            root = self.folder / "copy"
            shutil.copytree(self.table.root, root, copy_function=os.link, ignore=shutil.ignore_patterns(*passed_over))
        try:
            assert rows_of(root, reader) == wanted, reader
            if self.random.random() < 0.2 and self._plain(reader):
                self.seen["slowly"] += 1
                ids = ValidWriteIds.parse(reader.lists()[0])
                slow = read_slowly(root, ids, SLOW_COLUMNS)
                assert {row.key: tuple(row.values) for row in slow} == wanted, reader
                assert len(slow) == len(wanted), reader
        finally:
            if passed_over:
                shutil.rmtree(root)

    def _passed_over(self, reader: Reader) -> list[str]:
        """Compacted bases of a table in which this reader can use none, by the names on disk."""
        passed_over = []
        for path in self.table.root.glob("base_*"):
            match = BASE.fullmatch(path.name)
            assert match is not None, path
            write_id, txn = int(match[1]), match[2]
            if txn is not None and not reader.txns.sees(int(txn)):
                continue
            compacted = txn is not None or (path / "_metadata_acid").exists()
            if compacted and reader.write_ids.top >= write_id and write_id < min(reader.write_ids.open, default=MAX_ID):
                return []
            if write_id < 0 or (not compacted and reader.write_ids.sees(write_id)):
                return []
            if compacted:
                passed_over.append(path.name)
        return passed_over

    def _plain(self, reader: Reader) -> bool:
        """Whether the slow reader, which knows no transactions, sees what this one sees."""
        numbers = (VISIBILITY.search(path.name) for path in self.table.root.iterdir())
        return all(reader.txns.sees(int(match[1])) for match in numbers if match)


def rows_of(root: Path, reader: Reader) -> Rows:
    """What acidctl reads."""
    snapshot = open_table(str(root)).snapshot(validtxns=reader.lists(), table_type="full", schema=COLUMNS)
    found: Rows = {}
    for rows in snapshot.rows():
        assert rows.row_ids is not None
        keys = zip(*(column.to_pylist() for column in rows.row_ids), strict=True)
        values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        for key, value in zip(keys, values, strict=True):
            assert key not in found, (reader, key)
            found[key] = value
    return found


@dataclass(frozen=True)
class Story:
    """A whole history, from nothing."""

    target: Target
    bucketed: bool
    originals: int
    steps: tuple[Step, ...]

    @classmethod
    def of(cls, target: Target, seed: int) -> Story:
        """The history of a seed."""
        random = Random(seed)
        steps = tuple((random.choice(ACTIONS), random.randrange(1 << 32)) for _ in range(STEPS))
        return cls(target, random.random() < 0.5, random.choice([0, 0, 1, 5]), steps)

    def play(self) -> Counter[str]:
        """Live it; what happened, or what went wrong."""
        with tempfile.TemporaryDirectory(prefix="life") as folder:
            life = Life(Path(folder), self.target, bucketed=self.bucketed, originals=self.originals)
            for action, seed in self.steps:
                life.step(action, seed)
            return life.seen

    def problem(self) -> Exception | None:
        """What goes wrong in it."""
        try:
            self.play()
        except Exception as error:
            return error
        return None

    def shortened(self) -> Story:
        """A part that fails as well, from which no step can be left out."""
        story, at = self, len(self.steps)
        while at:
            at -= 1
            shorter = replace(story, steps=(*story.steps[:at], *story.steps[at + 1 :]))
            if shorter.problem() is not None:
                story, at = shorter, min(len(shorter.steps), at + 1)
        return story


def live(target: Target, seeds: Iterable[int]) -> Counter[str]:
    """All these lives; what happened in them."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        story = Story.of(target, seed)
        try:
            seen += story.play()
        except Exception:
            shortest = story.shortened()
            error = shortest.problem()
            if error is None:
                raise
            raise AssertionError(f"seed {seed}, shortened: {shortest}") from error
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("target", Target)
def test_readers_read_the_same_in_many_histories(target: Target) -> None:
    """In them happens what is to be proved."""
    count = amount(30, swept=100)
    seen = live(target, range(1000, 1000 + count))
    assert seen["major compacted"] >= count // 3, seen
    assert seen["minor compacted"] > count // 3, seen
    assert seen["cleaned"] > count // 2, seen
    assert seen["history"] or count < 100, seen


def _blind(module: object, name: str, answer: object) -> Change:
    def change(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(module, name, lambda *args: answer)
        # It would notice.
        patch.setitem(GUARDS, "simulation", lambda seen, evidence: "")

    return change


def _newest_only(name: str) -> Change:
    return lambda patch: patch.setattr(clean_run, name, lambda lists: lists[-1])


# Each takes away what some reader needs; the number is a seed shortly before the first that shows it for Hive 4.
MUTATIONS: dict[str, tuple[Change, int]] = {
    "deletes are applied by readers": (_blind(DeletedRows, "mask", None), 0),
    "deletes are written": (lambda patch: patch.setattr(TaskEvents, "delete_events", lambda self: iter(())), 0),
    "aborted events are dropped": (_blind(inputs, "valid_mask", None), 30),
    "the compactor stops at open writes": (
        lambda patch: patch.setattr(ValidWriteIds, "compactor", lambda self: replace(self, open=(), min_open=None)),
        5,
    ),
    "clean asks all write-id lists": (_newest_only("common_write_ids"), 30),
    "clean asks all transaction lists": (_newest_only("common_txns"), 40),
    "clean knows visibility": (_blind(clean_decisions, "_judge_visibility", None), 15),
    "clean knows usable bases": (_blind(clean_decisions, "_judge_base", None), 30),
    "clean knows settled deltas": (_blind(clean_decisions, "_judge_delta", None), 30),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutation", some(MUTATIONS))
def test_without_a_condition_somebody_reads_something_else(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The histories would show it, or a compaction that fails its own verification."""
    change, first = MUTATIONS[mutation]
    change(monkeypatch)
    assert any(Story.of(Target.HIVE4, seed).problem() for seed in range(first, first + 100))
