"""Tables to be compacted, as Hive 4 lays them out: a base and what was changed since then, one way for each case.

Written with acidctl's own writer, because Hive would need an hour; Hive reads them, which the benchmark checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from acidctl.compaction.plan import WriterSettings
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.orc.writer import write_orc
from acidctl.types.schema import parse_schema
from tests.bench.tables import CHUNK, user_columns

ROUNDS = 10
# Each of update, delete and insert concerns so many rows of a hundred in each round.
SHARE = 1
COLUMNS = (
    "id bigint, quantity int, price double, name string, city string, weight float, active boolean, `day` date, "
    "moment timestamp, amount decimal(21,2)"
)

_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Case:
    """How a table is changed after its base was written, and what its lists say then; `kind` is how it is compacted.

    `change` is called with the table, the number of a bucket and the rows of its base.
    """

    name: str
    change: Callable[[Path, int, int], None]
    last_write_id: int
    buckets: int = 4
    kind: str = "major"

    @property
    def lists(self) -> tuple[str, ...]:
        """The options that state the lists."""
        write_ids = f"default.bench:{self.last_write_id}:9223372036854775807::"
        # Copies have names of their own.
        return "--validtxns", write_ids, "--validtxns", "100:9223372036854775807::", "--table", "default.bench"


def _columns(start: int, count: int) -> tuple[pa.Array, ...]:
    """The usual columns, some of them with more in them: about 60 bytes a row in zlib."""
    columns = user_columns(start, count)
    rng = np.random.default_rng(start + 1)
    columns["name"] = pa.array([f"customer {number:015x}" for number in rng.integers(0, 1 << 60, count)])
    columns["price"] = pa.array(rng.random(count) * 1000)
    columns["amount"] = pa.array(rng.integers(0, 10**16, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    return tuple(columns.values())


def _inserts(write_id: int, statement: int, bucket: int, count: int, first: int) -> Iterator[EventBatch]:
    """`count` new rows of a write, numbered from 0; `first` makes their values differ from those of other writes."""
    prop = encode(bucket, statement)
    for start in range(0, count, CHUNK):
        rows = np.arange(start, min(start + CHUNK, count), dtype=np.int64)
        same = np.full(len(rows), write_id, dtype=np.int64)
        keys = EventKeys(same, np.full(len(rows), prop, dtype=np.int64), rows, same)
        yield EventBatch(keys, _columns(first + start, len(rows)))


def _write(path: Path, batches: Iterator[EventBatch], stripe_size: int = WriterSettings().stripe_size) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "_orc_acid_version").write_bytes(b"2")
    settings = WriterSettings(stripe_size=stripe_size)
    with path.open("wb") as sink:
        write_orc(sink, batches, parse_schema(COLUMNS).columns, settings, acid=True, metadata={})


def _insert(table: Path, write_id: int, statement: int, bucket: int, count: int, first: int) -> None:
    path = table / f"delta_{write_id:07}_{write_id:07}_{statement:04}" / f"bucket_{bucket:05}_0"
    _write(path, _inserts(write_id, statement, bucket, count, first))


def _delete(table: Path, write_id: int, bucket: int, rows: _Rows) -> None:
    """Delete events for these rows of the base."""
    ones = np.ones(len(rows), dtype=np.int64)
    keys = EventKeys(ones, ones * encode(bucket, 0), rows, ones * write_id, ones * Operation.DELETE)
    path = table / f"delete_delta_{write_id:07}_{write_id:07}_0000" / f"bucket_{bucket:05}_0"
    _write(path, iter([EventBatch(keys, ())]))


def _scattered(table: Path, bucket: int, rows: int) -> None:
    """Ten rounds of update, delete and insert, of rows everywhere."""
    some = rows * SHARE // 100
    for turn in range(ROUNDS):
        update, delete, insert = (2 + 3 * turn + i for i in range(3))
        first = rows * 4 * (turn + 1)
        # Rows of the base that no other round touches.
        updated = np.arange(turn, rows, 100 // SHARE, dtype=np.int64)
        deleted = np.arange(50 + turn, rows, 100 // SHARE, dtype=np.int64)
        _delete(table, update, bucket, updated)
        _insert(table, update, 1, bucket, len(updated), first)
        _delete(table, delete, bucket, deleted)
        _insert(table, insert, 0, bucket, some, first + rows)


def _one_range(table: Path, bucket: int, rows: int) -> None:
    """Of a twentieth of the keys, which lie together, one row in four is deleted and one updated."""
    begin = rows // 2
    end = begin + rows // 20
    updated = np.arange(begin, end, 4, dtype=np.int64)
    _delete(table, 2, bucket, updated)
    _insert(table, 2, 1, bucket, len(updated), rows * 4)
    _delete(table, 3, bucket, np.arange(begin + 1, end, 4, dtype=np.int64))


def _new_rows(table: Path, bucket: int, rows: int) -> None:
    """A hundredth of new rows."""
    _insert(table, 2, 0, bucket, rows // 100, rows * 4)


def _many_deltas(table: Path, bucket: int, rows: int) -> None:
    """Beside the base a hundred inserts, which together have as many rows."""
    for turn in range(100):
        _insert(table, 2 + turn, 0, bucket, rows // 100, rows * (turn + 1))


CASES = {
    "scattered": Case("scattered changes", _scattered, 1 + 3 * ROUNDS),
    "bucket": Case("scattered changes, one bucket", _scattered, 1 + 3 * ROUNDS, buckets=1),
    "range": Case("changes in 5 % of the keys", _one_range, 3),
    "new": Case("1 % of new rows", _new_rows, 2),
    "minor": Case("minor of 100 deltas", _many_deltas, 101, buckets=1, kind="minor"),
}


def _make_bucket(table: Path, name: str, bucket: int, rows: int, stripe_size: int) -> None:
    _write(table / "base_0000001" / f"bucket_{bucket:05}", _inserts(1, 0, bucket, rows, bucket * rows), stripe_size)
    CASES[name].change(table, bucket, rows)


def make_compact_table(root: Path, rows: int, name: str = "scattered", stripe_size: int = 16 << 20) -> Path:
    """A table whose base has `rows` rows; made once."""
    mib = "" if stripe_size == 16 << 20 else f"_{stripe_size >> 20}"
    table = root / (f"compact_{rows}{mib}" if name == "scattered" else f"compact_{name}_{rows}{mib}")
    done = table / "_done"
    buckets = CASES[name].buckets
    if not done.exists():
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            jobs = [pool.submit(_make_bucket, table, name, i, rows // buckets, stripe_size) for i in range(buckets)]
            for job in jobs:
                job.result()
        done.write_bytes(b"")
    return table


def data_files(table: Path) -> dict[int, list[Path]]:
    """Every data file by its bucket."""
    found: dict[int, list[Path]] = {}
    for path in sorted(table.glob("*/bucket_*")):
        found.setdefault(int(path.name.split("_")[1]), []).append(path)
    return found


def decode_and_encode(files: list[Path], target: Path) -> None:
    """A plain pass: every file decoded by pyarrow and encoded again with the same codec."""
    import pyarrow.orc as orc

    for path in files:
        source = orc.ORCFile(path)
        out = target / f"{path.parent.name}-{path.name}"
        with orc.ORCWriter(out, compression="zlib", compression_block_size=256 << 10) as writer:
            for stripe in range(source.nstripes):
                writer.write(pa.Table.from_batches([source.read_stripe(stripe)]))
