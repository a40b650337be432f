"""Tables for the benchmarks: ACID files of any size, made with pyarrow, with the shape of what Hive writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc

BUCKET = 536870912
CHUNK = 100_000
VALID_WRITE_IDS = "default.bench:2:9223372036854775807::"
VALID_TXNS = "20:9223372036854775807::"


def user_columns(start: int, count: int) -> dict[str, pa.Array]:
    """Ten columns of the usual types for rows `start` to `start + count` (exclusive)."""
    rng = np.random.default_rng(start)
    numbers = np.arange(start, start + count)
    moments = rng.integers(0, 2_000_000_000_000_000, count)
    return {
        "id": pa.array(numbers),
        "quantity": pa.array(rng.integers(0, 1000, count).astype("int32")),
        "price": pa.array(np.round(rng.random(count) * 1000, 2)),
        "name": pa.array([f"customer {n % 5000}" for n in numbers]),
        "city": pa.array([f"city-{n * 7919 % 100_000}" for n in numbers]),
        "weight": pa.array(rng.random(count).astype("float32")),
        "active": pa.array(rng.integers(0, 2, count).astype(bool)),
        "day": pa.array(rng.integers(0, 20_000, count).astype("int32")).cast(pa.date32()),
        "moment": pa.array(moments).cast(pa.timestamp("us")).cast(pa.timestamp("ns")),
        "amount": pa.array(rng.integers(0, 10**9, count)).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
    }


def _events(start: int, count: int, *, operation: int, current: int, row: pa.Array) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "operation": pa.array(np.full(count, operation, dtype="int32")),
            "originalTransaction": pa.array(np.full(count, 1, dtype="int64")),
            "bucket": pa.array(np.full(count, BUCKET, dtype="int32")),
            "rowId": pa.array(np.arange(start, start + count)),
            "currentTransaction": pa.array(np.full(count, current, dtype="int64")),
            "row": row,
        }
    )


def _inserts(rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, CHUNK):
        count = min(CHUNK, rows - start)
        columns = user_columns(start, count)
        row = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
        yield _events(start, count, operation=0, current=1, row=row)


def make_table(root: Path, rows: int, *, delete_every: int = 10) -> tuple[Path, Path]:
    """A base of one bucket and a delete delta that removes every n-th row; returns the table and its base file."""
    table = root / f"bench_{rows}"
    base = table / "base_0000001_v0000010" / "bucket_00000"
    deletes = table / "delete_delta_0000002_0000002_0000" / "bucket_00000"
    if base.exists() and deletes.exists():
        return table, base
    for path in (base, deletes):
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "_orc_acid_version").write_bytes(b"2")
    with orc.ORCWriter(base, compression="zlib") as writer:
        for batch in _inserts(rows):
            writer.write(pa.Table.from_batches([batch]))
    gone = np.arange(0, rows, delete_every)
    nothing = pa.nulls(len(gone), type=pa.struct([(n, a.type) for n, a in user_columns(0, 1).items()]))
    events = _events(0, len(gone), operation=2, current=2, row=nothing)
    events = events.set_column(3, "rowId", pa.array(gone))
    with orc.ORCWriter(deletes, compression="zlib") as writer:
        writer.write(pa.Table.from_batches([events]))
    return table, base
