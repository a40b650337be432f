"""Tables to be compacted: a base of four buckets and ten rounds of update, delete and insert, as Hive 4 lays them out.

Written with acidctl's own writer, because Hive would need an hour; Hive reads them, which the benchmark checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa

from acidctl.compaction.plan import WriterSettings
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.orc.writer import write_orc
from acidctl.types.schema import parse_schema
from tests.bench.tables import CHUNK, user_columns

BUCKETS = 4
ROUNDS = 10
# Each of update, delete and insert concerns so many rows of a hundred in each round.
SHARE = 1
LAST_WRITE_ID = 1 + 3 * ROUNDS
COLUMNS = (
    "id bigint, quantity int, price double, name string, city string, weight float, active boolean, `day` date, "
    "moment timestamp, amount decimal(21,2)"
)
VALID_WRITE_IDS = f"default.bench:{LAST_WRITE_ID}:9223372036854775807::"
VALID_TXNS = "100:9223372036854775807::"


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


def _deletes(write_id: int, bucket: int, rows: np.ndarray) -> Iterator[EventBatch]:
    """Delete events for these rows of the base."""
    ones = np.ones(len(rows), dtype=np.int64)
    prop = encode(bucket, 0)
    yield EventBatch(EventKeys(ones, ones * prop, rows, ones * write_id, ones * Operation.DELETE), ())


def _write(path: Path, batches: Iterator[EventBatch]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "_orc_acid_version").write_bytes(b"2")
    with path.open("wb") as sink:
        write_orc(sink, batches, parse_schema(COLUMNS).columns, WriterSettings(), acid=True, metadata={})


def _make_bucket(table: Path, bucket: int, rows: int) -> None:
    name = f"bucket_{bucket:05}"
    _write(table / "base_0000001" / name, _inserts(1, 0, bucket, rows, bucket * rows))
    some = rows * SHARE // 100
    for turn in range(ROUNDS):
        update, delete, insert = (2 + 3 * turn + i for i in range(3))
        first = rows * BUCKETS * (turn + 1)
        # Rows of the base that no other round touches.
        updated = np.arange(turn, rows, 100 // SHARE, dtype=np.int64)
        deleted = np.arange(50 + turn, rows, 100 // SHARE, dtype=np.int64)
        _write(table / f"delete_delta_{update:07}_{update:07}_0000" / f"{name}_0", _deletes(update, bucket, updated))
        new = _inserts(update, 1, bucket, len(updated), first)
        _write(table / f"delta_{update:07}_{update:07}_0001" / f"{name}_0", new)
        _write(table / f"delete_delta_{delete:07}_{delete:07}_0000" / f"{name}_0", _deletes(delete, bucket, deleted))
        added = _inserts(insert, 0, bucket, some, first + rows)
        _write(table / f"delta_{insert:07}_{insert:07}_0000" / f"{name}_0", added)


def make_compact_table(root: Path, rows: int) -> Path:
    """A table whose base has `rows` rows; made once."""
    table = root / f"compact_{rows}"
    done = table / "_done"
    if not done.exists():
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            for job in [pool.submit(_make_bucket, table, bucket, rows // BUCKETS) for bucket in range(BUCKETS)]:
                job.result()
        done.write_bytes(b"")
    return table


def data_files(table: Path) -> dict[int, list[Path]]:
    """Every data file by its bucket."""
    found: dict[int, list[Path]] = {bucket: [] for bucket in range(BUCKETS)}
    for path in sorted(table.glob("*/bucket_*")):
        found[int(path.name.split("_")[1])].append(path)
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
