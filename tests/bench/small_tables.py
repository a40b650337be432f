"""Tables of many small things: thousands of partitions of a few rows, thousands of deltas of a few rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from acidctl.compaction.plan import WriterSettings
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.orc.writer import write_orc
from acidctl.types.schema import parse_schema
from tests.bench.tables import user_columns

COLUMNS = (
    "id bigint, quantity int, price double, name string, city string, weight float, active boolean, `day` date, "
    "moment timestamp, amount decimal(21,2)"
)
_TYPES = parse_schema(COLUMNS).columns


def _batch(write_id: int, count: int, columns: tuple[pa.Array, ...], deleted_of: int | None = None) -> EventBatch:
    ones = np.ones(count, dtype=np.int64)
    original = write_id if deleted_of is None else deleted_of
    operation = None if deleted_of is None else ones * Operation.DELETE
    rows = np.arange(count, dtype=np.int64)
    return EventBatch(EventKeys(ones * original, ones * encode(0, 0), rows, ones * write_id, operation), columns)


def _write(path: Path, batches: Iterator[EventBatch]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "_orc_acid_version").write_bytes(b"2")
    with path.open("wb") as sink:
        write_orc(sink, batches, _TYPES, WriterSettings(), acid=True, metadata={})


def _insert(location: Path, write_id: int, rows: int, *, base: bool = False) -> None:
    name = f"base_{write_id:07}" if base else f"delta_{write_id:07}_{write_id:07}_0000"
    columns = tuple(user_columns(write_id * rows, rows).values())
    _write(location / name / ("bucket_00000" if base else "bucket_00000_0"), iter([_batch(write_id, rows, columns)]))


def _delete(location: Path, write_id: int, of: int, rows: int) -> None:
    path = location / f"delete_delta_{write_id:07}_{write_id:07}_0000" / "bucket_00000_0"
    _write(path, iter([_batch(write_id, rows, (), deleted_of=of)]))


def make_partitions(root: Path, count: int, rows: int = 10) -> tuple[Path, tuple[str, ...]]:
    """`count` partitions, each a base and three deltas of `rows` rows, and a delete delta; the table and its lists."""
    table = root / f"partitions_{count}"
    first = table / "p=0"
    if not (table / "_done").exists():
        _insert(first, 1, rows, base=True)
        for write_id in (2, 3, 4):
            _insert(first, write_id, rows)
        _delete(first, 5, 1, rows // 2)
        for number in range(1, count):
            for path in first.glob("*/*"):
                copy = table / f"p={number}" / path.relative_to(first)
                copy.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, copy)
        (table / "_done").touch()
    return table, ("default.small:5:9223372036854775807::", "100:9223372036854775807::")


def make_deltas(root: Path, count: int, rows: int = 10) -> tuple[Path, tuple[str, ...]]:
    """A base and `count` deltas of `rows` rows each; the table and its lists."""
    table = root / f"deltas_{count}_{rows}"
    if not (table / "_done").exists():
        _insert(table, 1, rows, base=True)
        for write_id in range(2, count + 2):
            _insert(table, write_id, rows)
        (table / "_done").touch()
    return table, (f"default.small:{count + 1}:9223372036854775807::", "100:9223372036854775807::")
