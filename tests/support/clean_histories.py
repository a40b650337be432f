"""Random lives of a table as its directories show them: writers, streams, overwrites, compactions, readers."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from acidctl.format.listing import Listing
from acidctl.format.names import DeltaDir, DeltaKind, format_base, format_delta
from acidctl.format.write_ids import Reader, ValidTxns, ValidWriteIds
from acidctl.state.entries import AcidState, TableType
from acidctl.state.resolve import TableGuess, resolve
from tests.support.cleaning import listing

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
FULL = TableGuess(TableType.FULL, False, "stated")


@dataclass(frozen=True)
class Snapshot:
    """What somebody may still read with."""

    write_ids: ValidWriteIds
    txns: ValidTxns


@dataclass
class Txn:
    """A transaction; `write_id` is None for compactions."""

    id: int
    write_id: int | None
    state: str = OPEN


@dataclass
class History:
    """One table. `here` are the directories with our cleanings applied, `full` as if there had been none.

    `hive` is 3 or 4: with 4 compactions carry a transaction; `traps` lets them name ids that they did not read, as
    the query-based compactor does, and lets inserts run beside an overwrite.
    """

    random: Random
    hive: int
    traps: bool
    txns: list[Txn] = field(default_factory=list)
    here: dict[str, float] = field(default_factory=dict)
    full: dict[str, float] = field(default_factory=dict)
    compacted: set[str] = field(default_factory=set)
    readers: list[Snapshot] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    write_id: int = 0

    def step(self) -> None:
        """One random event."""
        actions = [self.write] * 4 + [self.end] * 5 + [self.stream, self.overwrite, self.read, self.leave]
        actions += [self.minor, self.major] * 2
        self.random.choice(actions)()

    def snapshot(self) -> Snapshot:
        """What a reader who begins now would be handed."""
        high = len(self.txns)
        txns = ValidTxns(
            high_watermark=high,
            min_open=min((t.id for t in self.txns if t.state == OPEN), default=None),
            open=tuple(t.id for t in self.txns if t.state == OPEN),
            aborted=tuple(t.id for t in self.txns if t.state == ABORTED),
        )
        written = [t for t in self.txns if t.write_id is not None]
        open_ids = tuple(t.write_id for t in written if t.state == OPEN and t.write_id is not None)
        write_ids = ValidWriteIds(
            high_watermark=self.write_id,
            min_open=min(open_ids, default=None),
            open=open_ids,
            aborted=tuple(t.write_id for t in written if t.state == ABORTED and t.write_id is not None),
            table="default.t",
        )
        return Snapshot(write_ids, txns)

    def listing(self, names: dict[str, float]) -> Listing:
        """A location of these directories, ages in hours."""
        return listing(names, ages=names, compacted=self.compacted)

    # --- events

    def write(self) -> None:
        """A transaction of one to three statements."""
        if self._overwriting() and not self.traps:
            return
        txn = self._begin()
        assert txn.write_id is not None
        for statement in range(self.random.choice([1, 1, 2, 3])):
            kinds = self.random.choice([[DeltaKind.INSERT], [DeltaKind.DELETE], list(DeltaKind)])
            for kind in kinds:
                self._add(format_delta(kind, txn.write_id, txn.write_id, statement))

    def stream(self) -> None:
        """A batch: one directory, a transaction for each of its ids."""
        if self._overwriting() and not self.traps:
            return
        txns = [self._begin() for _ in range(self.random.randint(2, 4))]
        first, last = txns[0].write_id, txns[-1].write_id
        assert first is not None
        assert last is not None
        self._add(format_delta(DeltaKind.INSERT, first, last))

    def overwrite(self) -> None:
        """INSERT OVERWRITE waits for other writers, unless it is told not to."""
        if any(t.state == OPEN and t.write_id is not None for t in self.txns) and not self.traps:
            return
        txn = self._begin()
        assert txn.write_id is not None
        self._add(format_base(txn.write_id))
        self._overwrites.add(txn.id)

    def end(self) -> None:
        """Some open transaction commits, or is rolled back."""
        going = [t for t in self.txns if t.state == OPEN]
        if going:
            txn = self.random.choice(going)
            txn.state = self.random.choice([COMMITTED, COMMITTED, ABORTED])
            self.log.append(f"txn {txn.id} (write id {txn.write_id}) {txn.state}")

    def read(self) -> None:
        """Somebody begins to read."""
        self.readers.append(self.snapshot())
        self.log.append(f"reader {self.readers[-1].write_ids.format()} {self.readers[-1].txns.format()}")

    def leave(self) -> None:
        """Somebody has read enough."""
        if self.readers:
            self.readers.pop(self.random.randrange(len(self.readers)))

    def minor(self) -> None:
        """Wider deltas of what a compactor sees."""
        state, high = self._seen()
        deltas = [entry.parsed for entry in state.deltas if isinstance(entry.parsed, DeltaDir)]
        if len(deltas) < 2:
            return
        low = min(d.min_write_id for d in deltas)
        top = high if self.traps and self.random.random() < 0.5 else max(d.max_write_id for d in deltas)
        kinds = {d.kind for d in deltas} if self.hive == 4 else set(DeltaKind)
        self._publish([(kind, low, top) for kind in sorted(kinds, key=lambda k: k.value)])

    def major(self) -> None:
        """A base of what a compactor sees."""
        state, high = self._seen()
        deltas = [entry.max_write_id or 0 for entry in state.deltas]
        if not deltas:
            return
        base = state.base.max_write_id if state.base is not None else 0
        top = high if self.traps and self.random.random() < 0.5 else max([base or 0, *deltas])
        self._publish([(None, 0, top)])

    # --- what events are made of

    _overwrites: set[int] = field(default_factory=set)

    def _overwriting(self) -> bool:
        return any(t.state == OPEN and t.id in self._overwrites for t in self.txns)

    def _begin(self) -> Txn:
        self.write_id += 1
        txn = Txn(len(self.txns) + 1, self.write_id)
        self.txns.append(txn)
        return txn

    def _seen(self) -> tuple[AcidState, int]:
        """What a compactor would read, and its high watermark."""
        now = self.snapshot()
        ids = now.write_ids.compactor()
        place = self.listing(self.full)
        state = resolve(place, Reader(ids, now.txns), table_type=FULL, raise_on_history=False)
        busy = self.hive == 4 and any(t.write_id is None and t.state == OPEN for t in self.txns)
        if busy or state.history_gap is not None:
            return resolve(Listing("/w/t"), Reader(ids, now.txns), table_type=FULL), ids.high_watermark
        return state, ids.high_watermark

    def _publish(self, outputs: list[tuple[DeltaKind | None, int, int]]) -> None:
        """With Hive 4 the outputs are there before their transaction ends, and whatever becomes of it."""
        txn = None
        if self.hive == 4:
            txn = Txn(len(self.txns) + 1, None)
            self.txns.append(txn)
        visible = None if txn is None else txn.id
        for kind, low, top in outputs:
            name = format_base(top, visible) if kind is None else format_delta(kind, low, top, None, visible)
            if name in self.full:
                continue
            self._add(name)
            if kind is None and txn is None:
                self.compacted.add(name)
        if txn is not None:
            txn.state = self.random.choice([COMMITTED, COMMITTED, COMMITTED, ABORTED, OPEN])
            self.log.append(f"compaction {txn.id} {txn.state}")

    def _add(self, name: str) -> None:
        age = self.random.choice([100.0, 100.0, 100.0, 1.0])
        self.here[name] = self.full[name] = age
        self.log.append(f"+ {name}")

    def open_ids(self) -> set[int]:
        """Write ids whose writers are at work."""
        return {t.write_id for t in self.txns if t.state == OPEN and t.write_id is not None}
