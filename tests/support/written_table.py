"""A table directory as Hive would write it, beside a model that knows what every reader has to see.

The model keeps rows and deletes by ROW__ID with the write ids that made them; names, files and acidctl's own reading
play no part in it. Readers are snapshots of the moment at which they began.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np
import pyarrow as pa

from acidctl.compaction.plan import Target, WriterSettings
from acidctl.format.events import EventBatch, EventKeys, Int64Array, Operation
from acidctl.orc.acidmeta import TARGET
from acidctl.orc.writer import write_orc
from acidctl.types.schema import parse_schema

COLUMNS = "n bigint, s string"
SLOW_COLUMNS = "struct<n:bigint,s:string>"
BUCKETS = 2
MAX_ID = 9223372036854775807
_TYPES = parse_schema(COLUMNS).columns

Key = tuple[int, int, int]
Values = tuple[int, str]
Rows = dict[Key, Values]


class Fate(Enum):
    """What has become of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Work(Enum):
    """What a transaction is for; compactions have no write id."""

    WRITE = "write"
    STREAM = "stream"
    OVERWRITE = "overwrite"
    COMPACTION = "compaction"


@dataclass(frozen=True)
class Ids:
    """Ids up to a watermark, but for those open and those aborted."""

    top: int
    open: frozenset[int]
    aborted: frozenset[int]

    def sees(self, number: int) -> bool:
        """Whether the work of this id is visible."""
        return number <= self.top and number not in self.open and number not in self.aborted

    def text(self) -> str:
        """As Hive writes it, less the table's name."""
        opened, aborted = (",".join(map(str, sorted(ids))) for ids in (self.open, self.aborted))
        return f"{self.top}:{min(self.open, default=MAX_ID)}:{opened}:{aborted}"


@dataclass(frozen=True)
class Reader:
    """A snapshot; `name` tells readers apart in a story."""

    name: str
    write_ids: Ids
    txns: Ids

    def lists(self) -> list[str]:
        """What Hive would hand it."""
        return [f"default.t:{self.write_ids.text()}", self.txns.text()]


@dataclass
class Txn:
    """A transaction; `began` is what its own statements see beside their own work."""

    id: int
    work: Work
    write_id: int
    began: Reader
    fate: Fate = Fate.OPEN
    statements: int = 0


@dataclass(frozen=True)
class Insert:
    """A stored row."""

    key: Key
    values: Values


@dataclass
class Batch:
    """Streaming ingest into one directory: a transaction for each write id, one file for each bucket."""

    name: str
    txns: list[Txn]
    stored: dict[int, list[Insert]] = field(default_factory=dict)


@dataclass
class WrittenTable:
    """The directory `root`, everything that was ever done to it, and its open transactions.

    `wide` is how many characters every text has beside its number; they cannot be compressed by much. `stripe_size` is
    in bytes.
    """

    root: Path
    target: Target
    bucketed: bool
    wide: int = 0
    stripe_size: int = WriterSettings().stripe_size
    inserts: list[Insert] = field(default_factory=list)
    deletes: dict[Key, list[int]] = field(default_factory=dict)
    overwrites: list[int] = field(default_factory=list)
    txns: list[Txn] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    write_id: int = 0
    _rows: int = 0
    _texts: int = 0
    _readers: int = 0

    # --- what readers see

    def reader(self) -> Reader:
        """Who begins now."""
        self._readers += 1
        written = [txn for txn in self.txns if txn.work is not Work.COMPACTION]
        return Reader(
            f"reader {self._readers}",
            _ids(self.write_id, [(txn.write_id, txn.fate) for txn in written]),
            _ids(len(self.txns), [(txn.id, txn.fate) for txn in self.txns]),
        )

    def visible(self, reader: Reader, own: int | None = None) -> Rows:
        """The rows of a reader; one with an `own` write id sees its own work too."""

        def sees(write_id: int) -> bool:
            return write_id == own or reader.write_ids.sees(write_id)

        floor = max(filter(sees, self.overwrites), default=0)
        return {
            row.key: row.values
            for row in self.inserts
            if row.key[0] >= floor and sees(row.key[0]) and not any(map(sees, self.deletes.get(row.key, ())))
        }

    def going(self, *works: Work) -> list[Txn]:
        """Open transactions of these kinds."""
        return [txn for txn in self.txns if txn.fate is Fate.OPEN and txn.work in works]

    # --- transactions

    def begin(self, work: Work) -> Txn:
        """A transaction, with the next write id unless it compacts."""
        began = self.reader()
        if work is not Work.COMPACTION:
            self.write_id += 1
        txn = Txn(len(self.txns) + 1, work, 0 if work is Work.COMPACTION else self.write_id, began)
        self.txns.append(txn)
        return txn

    # --- statements

    def insert(self, txn: Txn, count: int, spread: int) -> None:
        """INSERT of new rows."""
        statement = _next_statement(txn)
        self._write_inserts(self._delta(txn, statement), txn.write_id, statement, self._fresh(count, spread))

    def load(self, txn: Txn, count: int, spread: int) -> None:
        """LOAD DATA: a file without row ids for each bucket, in an own directory or in that of an overwrite."""
        overwrite = txn.work is Work.OVERWRITE
        statement = _next_statement(txn)
        place = self._base(txn) if overwrite else self._delta(txn, statement)
        for bucket, rows in _by_bucket(self._fresh(count, spread)).items():
            self._write_plain(place / f"{bucket:06}_0", rows)
            prop = _property(bucket, 0 if overwrite else statement)
            self.inserts += [Insert((txn.write_id, prop, i), values) for i, values in enumerate(rows)]

    def overwrite(self, txn: Txn, count: int, spread: int) -> None:
        """INSERT OVERWRITE, with no row at all too."""
        place = self._base(txn)
        self._mark(place)
        self._write_inserts(place, txn.write_id, 0, self._fresh(count, spread))

    def change(self, txn: Txn, picks: Sequence[int], *, update: bool) -> bool:
        """UPDATE or DELETE of some visible rows that nobody else has changed since; False where there are none."""
        free = [
            (key, values)
            for key, values in sorted(self.visible(txn.began, txn.write_id).items())
            if all(self._fate(other) is Fate.ABORTED for other in self.deletes.get(key, ()))
        ]
        chosen = dict(free[pick % len(free)] for pick in picks) if free else {}
        if not chosen:
            return False
        statement = _next_statement(txn)
        place = self.root / f"delete_delta_{txn.write_id:07}_{txn.write_id:07}_{statement:04}"
        self._mark(place)
        by_bucket: dict[int, list[Key]] = {}
        for key in sorted(chosen):
            by_bucket.setdefault(key[1] >> 16 & 0xFFF, []).append(key)
            self.deletes.setdefault(key, []).append(txn.write_id)
        for bucket, keys in by_bucket.items():
            self._write_events(place / self._file(bucket), _deletes(keys, txn.write_id))
        if update:
            # Hive 3 gives both halves of an update one statement id, Hive 4 two.
            statement = _next_statement(txn) if self.target is Target.HIVE4 else statement
            rows = [(key[1] >> 16 & 0xFFF, (values[0], self._text())) for key, values in sorted(chosen.items())]
            self._write_inserts(self._delta(txn, statement), txn.write_id, statement, rows)
        return True

    def originals(self, count: int) -> None:
        """Files from before the table was transactional."""
        rows = _by_bucket(self._fresh(count, 2))
        for bucket, values in rows.items():
            half = len(values) // 2
            for name, part in ((f"{bucket:06}_0", values[:half]), (f"{bucket:06}_0_copy_1", values[half:])):
                if part:
                    self._write_plain(self.root / name, part)
            self.inserts += [Insert((0, _property(bucket, 0), i), one) for i, one in enumerate(values)]

    # --- streaming

    def open_batch(self, width: int) -> Batch:
        """Begin a batch of transactions; its files are empty at first."""
        txns = [self.begin(Work.STREAM) for _ in range(width)]
        batch = Batch(f"delta_{txns[0].write_id:07}_{txns[-1].write_id:07}", txns)
        self._mark(self.root / batch.name)
        self.batches.append(batch)
        self._flush(batch, 0, b"")
        return batch

    def stream(self, batch: Batch, count: int, fate: Fate, spread: int) -> None:
        """The next transaction of a batch writes and ends; the file's readers are told of its new length."""
        txn = next(txn for txn in batch.txns if txn.fate is Fate.OPEN)
        for bucket, rows in _by_bucket(self._fresh(count, spread)).items():
            stored = batch.stored.setdefault(bucket, [])
            new = [Insert((txn.write_id, _property(bucket, 0), i), values) for i, values in enumerate(rows)]
            stored += new
            self.inserts += new
            self._write_inserted(self.root / batch.name / f"bucket_{bucket:05}", stored)
            data = (self.root / batch.name / f"bucket_{bucket:05}").read_bytes()
            self._flush(batch, bucket, data)
        txn.fate = fate

    def close_batch(self, batch: Batch) -> None:
        """End a batch: what was not used is rolled back, side files go."""
        for txn in batch.txns:
            if txn.fate is Fate.OPEN:
                txn.fate = Fate.ABORTED
        place = self.root / batch.name
        for side in place.glob("*_flush_length"):
            data = place / side.name.removesuffix("_flush_length")
            os.truncate(data, struct.unpack(">q", side.read_bytes()[-8:])[0])
            side.unlink()
        self.batches.remove(batch)

    def _flush(self, batch: Batch, bucket: int, data: bytes) -> None:
        """Behind the flushed bytes lies what the writer has not finished yet."""
        path = self.root / batch.name / f"bucket_{bucket:05}"
        side = path.with_name(f"{path.name}_flush_length")
        before = side.read_bytes() if side.exists() else struct.pack(">q", 0)
        path.write_bytes(data + b"ORCunfinished" if data else b"")
        side.write_bytes(before + (struct.pack(">q", len(data)) if data else b""))

    # --- files

    def _delta(self, txn: Txn, statement: int) -> Path:
        return self.root / f"delta_{txn.write_id:07}_{txn.write_id:07}_{statement:04}"

    def _base(self, txn: Txn) -> Path:
        self.overwrites.append(txn.write_id)
        return self.root / f"base_{txn.write_id:07}"

    def _file(self, bucket: int) -> str:
        return f"bucket_{bucket:05}" + ("_0" if self.target is Target.HIVE4 else "")

    def _mark(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        (place / "_orc_acid_version").write_bytes(b"2")

    def _write_inserts(self, place: Path, write_id: int, statement: int, rows: Iterable[tuple[int, Values]]) -> None:
        self._mark(place)
        for bucket, values in _by_bucket(rows).items():
            prop = _property(bucket, statement)
            new = [Insert((write_id, prop, i), one) for i, one in enumerate(values)]
            self.inserts += new
            self._write_inserted(place / self._file(bucket), new)

    def _write_inserted(self, path: Path, stored: Sequence[Insert]) -> None:
        ordered = sorted(stored, key=lambda row: row.key)
        write_ids = _numbers(row.key[0] for row in ordered)
        keys = EventKeys(
            write_ids, _numbers(row.key[1] for row in ordered), _numbers(row.key[2] for row in ordered), write_ids
        )
        self._write_events(path, EventBatch(keys, _columns([row.values for row in ordered])))

    def _write_plain(self, path: Path, rows: Sequence[Values]) -> None:
        count = len(rows)
        zero = np.zeros(count, dtype=np.int64)
        self._write_events(path, EventBatch(EventKeys(zero, zero, zero, zero), _columns(rows)), acid=False)

    def _write_events(self, path: Path, batch: EventBatch, *, acid: bool = True) -> None:
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as sink:
            metadata = {TARGET: self.target.value.encode()}
            settings = WriterSettings(stripe_size=self.stripe_size)
            write_orc(sink, [batch], _TYPES, settings, acid=acid, metadata=metadata)

    # --- values

    def _fresh(self, count: int, spread: int) -> list[tuple[int, Values]]:
        """New rows with their buckets: by hash in a bucketed table, else by the writer that has them."""
        rows = []
        for i in range(count):
            self._rows += 1
            writer = self._rows % BUCKETS if self.bucketed else i % spread
            rows.append((writer, (self._rows, self._text())))
        return rows

    def _text(self) -> str:
        self._texts += 1
        filler = hashlib.shake_128(str(self._texts).encode()).hexdigest(self.wide // 2) if self.wide else ""
        return f"value {self._texts}{filler}"

    def _fate(self, write_id: int) -> Fate:
        return next(txn.fate for txn in self.txns if txn.write_id == write_id and txn.work is not Work.COMPACTION)


def _ids(top: int, fates: Iterable[tuple[int, Fate]]) -> Ids:
    known = list(fates)
    return Ids(
        top,
        frozenset(number for number, fate in known if fate is Fate.OPEN),
        frozenset(number for number, fate in known if fate is Fate.ABORTED),
    )


def _next_statement(txn: Txn) -> int:
    txn.statements += 1
    return txn.statements - 1


def _property(bucket: int, statement: int) -> int:
    return 1 << 29 | bucket << 16 | statement


def _by_bucket(rows: Iterable[tuple[int, Values]]) -> Mapping[int, list[Values]]:
    buckets: dict[int, list[Values]] = {}
    for bucket, values in rows:
        buckets.setdefault(bucket, []).append(values)
    return buckets


def _deletes(keys: Sequence[Key], write_id: int) -> EventBatch:
    ones = np.ones(len(keys), dtype=np.int64)
    write_ids, properties, rows = (_numbers(key[i] for key in keys) for i in range(3))
    return EventBatch(EventKeys(write_ids, properties, rows, ones * write_id, ones * Operation.DELETE))


def _numbers(values: Iterable[int]) -> Int64Array:
    return np.array(list(values), dtype=np.int64)


def _columns(rows: Sequence[Values]) -> tuple[pa.Array, ...]:
    return pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.string())
