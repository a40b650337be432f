"""A table that a model compacts and cleans behind its readers' backs, so that lists and listing are of other moments.

Compactions write what the model of `written_table` says, not what acidctl would; cleaners remove what an output covers,
in an order of their own, and stop anywhere.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

import numpy as np

from acidctl.compaction.plan import Target
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.format.names import BaseDir, DeltaDir, DeltaKind, format_base, format_delta, parse_directory
from tests.support.written_table import Batch, Fate, Insert, Key, Reader, Rows, Txn, Values, Work, WrittenTable

METADATA = b'{"thisFileVersion":"0","dataFormat":"compacted"}'


class Order(Enum):
    """In which order a cleaner removes: bases and files first, then as Hive, as acidctl, or anyhow."""

    HIVE = "hive"
    ACIDCTL = "acidctl"
    ANY = "any"


@dataclass
class AgedTable(WrittenTable):
    """The table, and what is obsolete by compactions that are committed. `insert_only` has no ROW__IDs."""

    insert_only: bool = False
    covers: list[Path] = field(default_factory=list)
    cleaned: int = 0

    # --- writes

    def gap(self) -> None:
        """A write to another partition, or one that leaves nothing."""
        self.begin(Work.WRITE).fate = Fate.COMMITTED

    def add(self, txn: Txn, count: int, spread: int) -> None:
        """INSERT by the rules of this kind of table."""
        if not self.insert_only:
            self.insert(txn, count, spread)
            return
        place = self._plain_place(txn)
        rows = [values for _, values in self._fresh(count, spread)]
        self._write_plain(place / "000000_0", rows)
        prop = int(place.name.rpartition("_")[2]) if txn.work is Work.WRITE else 0
        self.inserts += [Insert((txn.write_id, prop, i), one) for i, one in enumerate(rows)]

    def _plain_place(self, txn: Txn) -> Path:
        if txn.work is Work.OVERWRITE:
            self.overwrites.append(txn.write_id)
            return self.root / format_base(txn.write_id)
        txn.statements += 1
        return self.root / format_delta(DeltaKind.INSERT, txn.write_id, txn.write_id, txn.statements - 1)

    # --- compactions

    def directories(self) -> list[tuple[Path, BaseDir | DeltaDir]]:
        """Bases and deltas on disk."""
        found = ((path, parse_directory(path.name)) for path in sorted(self.root.iterdir()) if path.is_dir())
        return [(path, parsed) for path, parsed in found if isinstance(parsed, BaseDir | DeltaDir)]

    def compact(self, random: Random, *, major: bool, fate: Fate) -> Path | None:
        """An output of what is committed now; None where there is nothing to compact."""
        txn = self.begin(Work.COMPACTION)
        txn.fate = Fate.ABORTED
        newest = self.reader()
        high = min(newest.write_ids.open, default=newest.write_ids.top + 1) - 1
        usable = [(path, one) for path, one in self.directories() if self._counts(one, newest)]
        floor = max((one.write_id for _, one in usable if isinstance(one, BaseDir) and one.write_id <= high), default=0)
        deltas = [one for _, one in usable if isinstance(one, DeltaDir) and floor < one.min_write_id]
        inputs = [one for one in deltas if one.max_write_id <= high]
        top = max((one.max_write_id for one in inputs), default=0)
        if not inputs or any(one.min_write_id <= top < one.max_write_id for one in deltas):
            return None
        if major and random.random() < 0.4 and not any(one.min_write_id <= high < one.max_write_id for one in deltas):
            top = high  # as the query-based compactor calls it
        txn.fate = fate
        visibility = txn.id if self.target is Target.HIVE4 else None
        if major:
            return self._major(top, newest, visibility)
        return self._minor(min(one.min_write_id for one in inputs), top, newest, visibility)

    def _counts(self, one: BaseDir | DeltaDir, newest: Reader) -> bool:
        if one.visibility_txn_id is not None:
            return newest.txns.sees(one.visibility_txn_id)
        if isinstance(one, DeltaDir):
            return any(newest.write_ids.sees(i) for i in range(one.min_write_id, one.max_write_id + 1))
        return newest.write_ids.sees(one.write_id) or (self.root / one.name / "_metadata_acid").exists()

    def _held(self, low: int, top: int, newest: Reader, *, all_events: bool) -> list[Insert]:
        def sees(number: int) -> bool:
            return number <= top and newest.write_ids.sees(number)

        floor = max([low, *filter(sees, self.overwrites)])
        return [
            row
            for row in self.inserts
            if floor <= row.key[0]
            and sees(row.key[0])
            and (all_events or not any(map(sees, self.deletes.get(row.key, ()))))
        ]

    def _major(self, top: int, newest: Reader, visibility: int | None) -> Path:
        place = self.root / format_base(top, visibility)
        self._write(place, self._held(0, top, newest, all_events=False))
        if visibility is None:
            (place / "_metadata_acid").write_bytes(METADATA)
        self.covers.append(place)
        return place

    def _minor(self, low: int, top: int, newest: Reader, visibility: int | None) -> Path:
        place = self.root / format_delta(DeltaKind.INSERT, low, top, None, visibility)
        rows = self._held(low, top, newest, all_events=True)
        events = [
            (key, number)
            for key, numbers in self.deletes.items()
            for number in numbers
            if low <= number <= top and newest.write_ids.sees(number)
        ]
        if rows or self.target is Target.HIVE3 or not events:
            self._write(place, rows)
            self.covers.append(place)
        if (events or self.target is Target.HIVE3) and not self.insert_only:
            place = self.root / format_delta(DeltaKind.DELETE, low, top, None, visibility)
            self._mark(place)
            self._write_deletes(place, events)
            self.covers.append(place)
        return place

    def _write(self, place: Path, rows: Sequence[Insert]) -> None:
        if self.insert_only:
            self._write_plain(place / "000000_0", [row.values for row in rows])
            return
        self._mark(place)
        buckets: dict[int, list[Insert]] = {}
        for row in rows:
            buckets.setdefault(row.key[1] >> 16 & 0xFFF, []).append(row)
        for bucket, some in buckets.items():
            self._write_inserted(place / f"bucket_{bucket:05}", some)

    def _write_deletes(self, place: Path, events: Sequence[tuple[Key, int]]) -> None:
        buckets: dict[int, list[tuple[Key, int]]] = {}
        for key, number in sorted(events, key=lambda event: (event[0], -event[1])):
            buckets.setdefault(key[1] >> 16 & 0xFFF, []).append((key, number))
        for bucket, some in buckets.items():
            ids, properties, rows = (np.array([key[i] for key, _ in some], dtype=np.int64) for i in range(3))
            current = np.array([number for _, number in some], dtype=np.int64)
            operation = np.full(len(some), Operation.DELETE, dtype=np.int64)
            self._write_events(
                place / f"bucket_{bucket:05}", EventBatch(EventKeys(ids, properties, rows, current, operation))
            )

    # --- cleaners

    def clean(self, random: Random, order: Order, stop: int | None) -> None:
        """Remove what committed compactions cover, at most so many entries."""
        newest = self.reader()
        covers = [(p, parse_directory(p.name)) for p in self.covers if p.exists()]
        usable = [one for _, one in covers if isinstance(one, BaseDir | DeltaDir) and self._counts(one, newest)]
        victims: list[Path] = []
        for path, one in self.directories():
            if any(cover.name != one.name and _covers(cover, one, usable) for cover in usable):
                victims.append(path)
        if any(isinstance(cover, BaseDir) for cover in usable):
            victims += [path for path in self.root.iterdir() if path.is_file() and not path.name.startswith("_")]
        victims.sort(key=_ORDERS[order])
        if order is Order.ANY:
            random.shuffle(victims)
        for path in victims[:stop]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            self.cleaned += 1


def _covers(cover: BaseDir | DeltaDir, one: BaseDir | DeltaDir, usable: Sequence[BaseDir | DeltaDir]) -> bool:
    if isinstance(cover, BaseDir):
        if isinstance(one, BaseDir):
            return one.write_id < cover.write_id
        return one.max_write_id <= cover.write_id
    if isinstance(one, BaseDir):
        return False
    same = (one.range, one.kind) == (cover.range, cover.kind)
    if one.range == cover.range and one in usable:
        # Two compactions of one range: the later one counts.
        return same and (one.visibility_txn_id or 0) < (cover.visibility_txn_id or 0)
    return cover.range.covers(one.range) and not (one.range == cover.range and one.visibility_txn_id is not None)


def _place(path: Path) -> tuple[int, int, int, int, str]:
    one = parse_directory(path.name)
    if isinstance(one, DeltaDir):
        statement = -1 if one.statement_id is None else one.statement_id
        return 1, one.min_write_id, -one.max_write_id, statement, path.name
    return 0, one.write_id if isinstance(one, BaseDir) else 0, 0, 0, path.name


def _kind(path: Path) -> int:
    one = parse_directory(path.name)
    return 1 if isinstance(one, DeltaDir) and one.kind is DeltaKind.DELETE else 0


_ORDERS: dict[Order, Callable[[Path], tuple[int | str, ...]]] = {
    Order.HIVE: _place,
    Order.ACIDCTL: lambda path: (_place(path)[0], _kind(path), *_place(path)),
    Order.ANY: _place,
}

__all__ = ["AgedTable", "Batch", "Fate", "Key", "Order", "Reader", "Rows", "Txn", "Values", "Work"]
