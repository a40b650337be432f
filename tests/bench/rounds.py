"""A table as it looks before a compaction: a base of several buckets and rounds of insert, delete and update."""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as orc

from acidctl.bucketcodec import encode
from bench.tables import CHUNK, user_columns

Rows = npt.NDArray[np.int64]

_WRITES_PER_ROUND = 3
_TEXT = 48


def highest_write_id(rounds: int) -> int:
    """The last write id of a table with so many rounds."""
    return 1 + _WRITES_PER_ROUND * rounds


def make_rounds(root: Path, rows: int, *, buckets: int = 4, rounds: int = 10, share: float = 0.004) -> Path:
    """A table of `rows` rows in a base and, per round, an insert, a delete and an update of `share` of them.

    An update is a delete delta and a delta, so that there are four directories a round. Made once per root.
    """
    table = root / f"rounds_{rows}_{buckets}_{rounds}"
    if (table / "_done").exists():
        return table
    size = rows // buckets
    for bucket in range(buckets):
        _write(table / "base_0000001_v0000010", bucket, _chunks(bucket, size, np.arange(size), write_id=1))
    changed = max(1, int(size * share))
    for number in range(rounds):
        insert, delete, update = (2 + _WRITES_PER_ROUND * number + i for i in range(_WRITES_PER_ROUND))
        for bucket in range(buckets):
            rng = np.random.default_rng(number * buckets + bucket)
            gone = np.sort(rng.choice(size // 2, changed, replace=False))
            updated = np.sort(rng.choice(size // 2, changed, replace=False)) + size // 2
            new = np.arange(changed)
            _write(table / _delta(insert), bucket, _chunks(bucket, size, new, write_id=insert))
            _write(table / ("delete_" + _delta(delete)), bucket, [_deletes(bucket, gone, delete)])
            _write(table / ("delete_" + _delta(update)), bucket, [_deletes(bucket, updated, update)])
            _write(table / _delta(update), bucket, _chunks(bucket, size, new, write_id=update))
    (table / "_done").touch()
    return table


def _delta(write_id: int) -> str:
    return f"delta_{write_id:07}_{write_id:07}_0000"


def _chunks(bucket: int, size: int, row_ids: Rows, *, write_id: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(row_ids), CHUNK):
        ids = row_ids[start : start + CHUNK]
        first = bucket * size + start + 31 * write_id
        columns = user_columns(first, len(ids)) | {"name": _texts(first, len(ids))}
        row = pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
        yield _events(bucket, ids, operation=0, write_id=write_id, current=write_id, row=row)


def _texts(seed: int, count: int) -> pa.Array:
    """Random texts of 48 characters: what does not compress well makes a table large."""
    digits = hexlify(np.random.default_rng(seed).bytes(_TEXT * count // 2))
    offsets = np.arange(0, _TEXT * (count + 1), _TEXT, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(digits))


def _deletes(bucket: int, row_ids: Rows, current: int) -> pa.RecordBatch:
    row = pa.nulls(len(row_ids), pa.struct([(name, array.type) for name, array in user_columns(0, 1).items()]))
    return _events(bucket, row_ids, operation=2, write_id=1, current=current, row=row)


def _events(
    bucket: int, row_ids: Rows, *, operation: int, write_id: int, current: int, row: pa.Array
) -> pa.RecordBatch:
    def constant(value: int, kind: str) -> pa.Array:
        return pa.array(np.full(len(row_ids), value, dtype=kind))

    return pa.record_batch(
        {
            "operation": constant(operation, "int32"),
            "originalTransaction": constant(write_id, "int64"),
            "bucket": constant(encode(bucket), "int32"),
            "rowId": pa.array(row_ids),
            "currentTransaction": constant(current, "int64"),
            "row": row,
        }
    )


def _write(directory: Path, bucket: int, batches: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "_orc_acid_version").write_bytes(b"2")
    with orc.ORCWriter(directory / f"bucket_{bucket:05}", compression="zlib") as writer:
        for batch in batches:
            writer.write(pa.Table.from_batches([batch]))
