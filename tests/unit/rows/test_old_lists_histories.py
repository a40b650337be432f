"""Random lives of a table in which lists and listing are of different moments: whoever reads gets the rows as of his
lists, or an error, and never fewer or more. While no cleaner has been at work he gets the rows.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

import pytest

from acidctl import open_table
from acidctl.compaction.plan import Target
from acidctl.errors import NotEnoughHistoryError
from acidctl.format.names import DeltaDir, DeltaKind
from tests.support.aged_table import AgedTable, Fate, Order, Reader, Work
from tests.support.extent import amount
from tests.support.written_table import COLUMNS

DELETE = DeltaKind.DELETE
STEPS = 8
READERS = 4
FULL_STEPS = [
    *["insert", "change"] * 5,
    *["read", "compact"] * 4,
    *["load", "delete_all", "gap", "gap", "overwrite", "later", "end", "batch", "stream"],
    *["clean"] * 4,
]
INSERT_ONLY_STEPS = [
    *["insert"] * 6,
    *["read", "compact"] * 4,
    "gap",
    "gap",
    "overwrite",
    "later",
    "end",
    *["clean"] * 4,
]


class Life:
    """One table and those who have taken lists of it; `seen` counts the answers."""

    def __init__(self, root: Path, random: Random, *, insert_only: bool, order: Order) -> None:
        self.random, self.order, self.seen = random, order, Counter[str]()
        target = random.choice(list(Target)) if not insert_only else Target.HIVE4
        self.table = AgedTable(root, target, bucketed=random.random() < 0.5, insert_only=insert_only)
        root.mkdir()
        if not insert_only and random.random() < 0.2:
            self.table.originals(random.randint(1, 4))
        self.readers: list[Reader] = []

    def play(self) -> Counter[str]:
        """All steps, with a look by everybody after some of them."""
        steps = INSERT_ONLY_STEPS if self.table.insert_only else FULL_STEPS
        for _ in range(self.random.randint(2, STEPS)):
            self._step(self.random.choice(steps))
        # And what this is about, again and again: lists, writes, an output, and a cleaner that stops.
        for _ in range(2):
            self.read()
            for _ in range(self.random.randint(0, 4)):
                self._step(self.random.choice(steps))
            for _ in range(3):
                self.end()
            self.compact()
            self._step(self.random.choice(steps))
            self.check()
            for _ in range(self.random.randint(0, 2)):
                self.clean()
                self.check()
        return self.seen

    def _step(self, step: str) -> None:
        getattr(self, step)()
        if step in ("compact", "clean") and self.random.random() < 0.3:
            self.check()

    # --- steps

    def insert(self) -> None:
        self._write(Work.WRITE, lambda txn: self.table.add(txn, self.random.randint(1, 3), self.random.randint(1, 2)))

    def load(self) -> None:
        self._write(Work.WRITE, lambda txn: self.table.load(txn, self.random.randint(1, 3), 1))

    def change(self) -> None:
        picks = [self.random.randrange(100) for _ in range(self.random.randint(1, 3))]
        update = self.random.random() < 0.6
        self._write(Work.WRITE, lambda txn: self.table.change(txn, picks, update=update))

    def delete_all(self) -> None:
        self._write(Work.WRITE, lambda txn: self.table.change(txn, range(100), update=False))

    def gap(self) -> None:
        self.table.gap()

    def overwrite(self) -> None:
        if self.random.random() > 0.3 or self.table.going(Work.WRITE, Work.STREAM, Work.OVERWRITE):
            return
        count = self.random.randint(1, 3)
        if self.table.insert_only:
            self._write(Work.OVERWRITE, lambda txn: self.table.add(txn, count, 1))
        else:
            self._write(Work.OVERWRITE, lambda txn: self.table.overwrite(txn, count, 1))

    def later(self) -> None:
        """A write that stays open for a while."""
        if len(self.table.going(Work.WRITE)) < 2 and not self.table.going(Work.OVERWRITE):
            self.table.add(self.table.begin(Work.WRITE), self.random.randint(1, 2), 1)

    def end(self) -> None:
        for batch in [] if self.random.random() < 0.7 else list(self.table.batches):
            self.table.close_batch(batch)
        for txn in self.table.going(Work.WRITE)[:1]:
            txn.fate = self.random.choice([Fate.COMMITTED, Fate.COMMITTED, Fate.ABORTED])

    def batch(self) -> None:
        if not self.table.batches:
            self.table.open_batch(self.random.randint(2, 3))
        elif self.random.random() < 0.5:
            self.table.close_batch(self.table.batches[0])

    def stream(self) -> None:
        for batch in self.table.batches:
            if any(txn.fate is Fate.OPEN for txn in batch.txns):
                self.table.stream(batch, self.random.randint(1, 2), self.random.choice(list(Fate)[1:]), 1)

    def read(self) -> None:
        self.readers = [*self.readers[1 - READERS :], self.table.reader()]

    def compact(self) -> None:
        fate = self.random.choice([Fate.COMMITTED] * 6 + [Fate.OPEN, Fate.ABORTED])
        if self.table.target is Target.HIVE3:
            fate = Fate.COMMITTED
        self.table.compact(self.random, major=self.random.random() < 0.6, fate=fate)

    def clean(self) -> None:
        stop = self.random.choice([None, *range(1, 7)])
        self.table.clean(self.random, self.order, stop)

    def _write(self, work: Work, statement: Callable[..., object]) -> None:
        txn = self.table.begin(work)
        statement(txn)
        if work is Work.WRITE and self.random.random() < 0.25:
            self.table.add(txn, 1, 1)
        txn.fate = self.random.choice([Fate.COMMITTED] * 8 + [Fate.ABORTED])

    # --- what has to hold

    def check(self) -> None:
        for reader in self.readers:
            self._check(reader)
        self._check(self.table.reader(), newest=True)

    def _check(self, reader: Reader, *, newest: bool = False) -> None:
        wanted = sorted(self.table.visible(reader).values())
        story = f"{reader.lists()} in {sorted(path.name for path in self.table.root.iterdir())}"
        found = self._rows(reader)
        if isinstance(found, NotEnoughHistoryError):
            self.seen["refused"] += 1
            excused = "already holds all writes" in found.message or "is not known" in found.message
            assert not newest, f"{found.message}: {story}"
            assert self.table.cleaned or excused, f"{found.message}: {story}"
            return
        if found != wanted and self.order is Order.ANY and self._left_no_trace(reader, found):
            self.seen["no trace"] += 1
            return
        assert found == wanted, f"{story}: {found} instead of {wanted}"
        self.seen["rows"] += 1

    def _left_no_trace(self, reader: Reader, found: Sequence[object]) -> bool:
        """Whether all that is missing was deleted by later writes, and these deletes are gone as well; or replaced by a
        later overwrite, of which there is a note.

        Neither of the cleaners that there are leaves it so: they remove the bases first, and then the deltas in the
        order of their writes, or inserts before deletes.
        """
        if any(not reader.write_ids.sees(number) for number in self.table.overwrites):
            return True
        visible = self.table.visible(reader)
        missing = [key for key, values in visible.items() if values not in found]
        there = [one.range for _, one in self.table.directories() if isinstance(one, DeltaDir) and one.kind is DELETE]
        later = [[i for i in self.table.deletes.get(key, ()) if not reader.write_ids.sees(i)] for key in missing]
        gone = [any(not any(number in one for one in there) for number in numbers) for numbers in later]
        return bool(missing) and len(found) + len(missing) == len(visible) and all(gone)

    def _rows(self, reader: Reader) -> list[tuple[object, ...]] | NotEnoughHistoryError:
        kind = "insert-only" if self.table.insert_only else "full"
        table = open_table(str(self.table.root))
        try:
            snapshot = table.snapshot(validtxns=reader.lists(), table_type=kind, schema=COLUMNS)
        except NotEnoughHistoryError as error:
            return error
        rows = snapshot.to_table(["n", "s"]).to_pylist()
        assert snapshot.count() == len(rows)
        return sorted((row["n"], row["s"]) for row in rows)


def lives(seeds: Iterable[int], *, insert_only: bool, order: Order) -> Counter[str]:
    """What came of all these lives."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="aged") as folder:
            try:
                seen += Life(Path(folder) / "t", Random(seed), insert_only=insert_only, order=order).play()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
    return seen


@pytest.mark.parametrize("order", Order)
def test_rows_as_of_the_lists_or_an_error(order: Order) -> None:
    """Full tables, by the names of Hive 3 and 4, whoever cleaned up and wherever he stopped."""
    count = amount(60, swept=1500, sample=14)
    seen = lives(range(count), insert_only=False, order=order)
    assert seen["rows"] > count, seen
    assert seen["refused"] > count // 8, seen
    assert seen["no trace"] <= 1 + count // 20, seen


@pytest.mark.parametrize("order", Order)
def test_the_same_in_insert_only_tables(order: Order) -> None:
    """There rows carry no write ids."""
    count = amount(40, swept=700, sample=10)
    seen = lives(range(count), insert_only=True, order=order)
    assert seen["rows"] > count, seen
    assert seen["refused"] > count // 8, seen
