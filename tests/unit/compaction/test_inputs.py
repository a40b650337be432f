"""What a task takes of its inputs: stretches of keys, buckets, and what it refuses."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from acidctl.compaction.inputs import EventFilter
from acidctl.errors import DamagedDataError
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys, KeySpan, RowId
from acidctl.format.write_ids import ValidWriteIds
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.rows.merge import EventStream, merge_events
from acidctl.rows.projection import Projection
from acidctl.rows.source import DataSource
from acidctl.types.hive_types import StructType
from acidctl.types.schema import parse_type
from tests.support.orc_files import by_arrow
from tests.support.specs import small_table

BUCKET = encode(0)


def source_of(data: bytes, raw_write_id: int = 0, raw_bucket: int | None = None) -> DataSource:
    """A data file in memory."""

    @contextmanager
    def opened() -> Iterator[OrcFile]:
        yield open_orc(io.BytesIO(data), name="file")

    return DataSource("file", opened, 0, raw_write_id=raw_write_id, raw_bucket=raw_bucket)


def spans(rows: int, write_ids: tuple[int, ...]) -> Iterator[KeySpan]:
    """Stretches of all kinds: open, empty, single keys, across writes and buckets."""
    random = Random(7)
    edges = [RowId(w, b, r) for w in (*write_ids, 0, 99) for b in (BUCKET - 1, BUCKET, BUCKET + 1) for r in (0, rows)]
    edges += [RowId(random.choice(write_ids), BUCKET, random.randrange(rows)) for _ in range(20)]
    for _ in range(60):
        low, high = random.choice([None, *edges]), random.choice([None, *edges])
        yield KeySpan(low, high)


def keys_in(batches: Iterator[EventBatch]) -> list[RowId]:
    return [batch.keys.at(i) for batch in batches for i in range(len(batch))]


def inside(key: RowId, span: KeySpan) -> bool:
    return (span.lower is None or span.lower <= key) and (span.upper is None or key < span.upper)


def test_spans_of_events(tmp_path: Path) -> None:
    """The events of a stretch are those whose keys lie in it, with their rows; other stripes are not read."""
    table, _, columns = small_table(tmp_path)
    data = (table / "base_0000001_v0000010/bucket_00000").read_bytes()
    orc = open_orc(io.BytesIO(data), name="base")
    assert len(orc.tail.stripes) == 4
    every = keys_in(source_of(data).events(None, 65536))
    kind = parse_type(columns)
    assert isinstance(kind, StructType)
    projection = Projection(kind, (0,))
    for span in spans(200, (1,)):
        batches = list(source_of(data).events(projection, 30, span))
        keys = keys_in(iter(batches))
        assert keys == [key for key in every if inside(key, span)]
        assert [v for b in batches for v in b.columns[0].to_pylist()] == [key.row_id * 1000 + 1 for key in keys]
    damaged = bytearray(data)
    for stripe in (orc.tail.stripes[i] for i in (0, 2, 3)):
        start = stripe.offset + stripe.index_length
        damaged[start : start + stripe.data_length] = bytes(stripe.data_length)
    source = source_of(bytes(damaged))
    assert len(keys_in(source.events(projection, 65536, KeySpan(RowId(1, BUCKET, 60), RowId(1, BUCKET, 90))))) == 30
    with pytest.raises(DamagedDataError):
        list(source.events(projection, 65536, KeySpan(RowId(1, BUCKET, 49), RowId(1, BUCKET, 90))))


@pytest.mark.slow
def test_spans_of_rows_without_columns() -> None:
    """Rows of a file without ACID columns are numbered from those of the file before it, and cut by number."""
    numbers = pa.table({"a": pa.array(range(40_000))})
    data = by_arrow(numbers, stripe_size=1024, compression="uncompressed", batch_size=10_000)
    assert len(open_orc(io.BytesIO(data), name="raw").tail.stripes) > 2
    before = source_of(data, raw_write_id=5, raw_bucket=BUCKET)
    source = source_of(data, raw_write_id=5, raw_bucket=BUCKET)
    source.before = before
    kind = parse_type("struct<a:bigint>")
    assert isinstance(kind, StructType)
    for projection in (Projection(kind, (0,)), None):
        for span in [KeySpan(), *spans(80_000, (5,))]:
            first, last = 40_000, 80_000
            want = [n for n in (first, last - 1) if inside(RowId(5, BUCKET, n), span)]
            batches = list(source.events(projection, 7000, span))
            rows = np.concatenate([b.keys.row_id for b in batches]) if batches else np.zeros(0)
            expected = np.arange(first, last)
            keys = EventKeys(np.full(40_000, 5), np.full(40_000, BUCKET), expected, expected)
            mask = span.mask(keys)
            assert rows.tolist() == (expected if mask is None else expected[mask]).tolist()
            assert set(want) <= set(rows.tolist())
            if projection is not None:
                assert [v + 40_000 for b in batches for v in b.columns[0].to_pylist()] == rows.tolist()


def batch_of(*events: tuple[int, int, int, int], operation: int = 0) -> EventBatch:
    """Events as (write id, bucket, row id, current)."""
    writes, buckets, rows, current = (np.asarray(part, dtype=np.int64) for part in zip(*events, strict=True))
    return EventBatch(EventKeys(writes, buckets, rows, current, np.full(len(events), operation) if operation else None))


def test_sieve_takes_its_bucket_and_counts() -> None:
    """Events of other buckets are no concern of the task; those of aborted writes are counted and left out."""
    ids = ValidWriteIds.parse("t:9:9223372036854775807::4")
    sieve = EventFilter(3, ids)
    source = DataSource("file", nullcontext, 3, max_write_id=9)
    mixed = batch_of((2, 3, 0, 2), (2, encode(3), 0, 2), (2, encode(3, 7), 0, 2), (2, encode(4), 0, 2))
    aborted = batch_of((4, encode(3), 0, 4), (5, encode(3), 0, 5), (5, encode(3), 1, 5))
    foreign = batch_of((6, encode(2), 0, 6))
    kept = [keys_in(iter([batch])) for batch in sieve(source, iter([mixed, aborted, foreign]))]
    assert [[(k.write_id, k.bucket_property) for k in part] for part in kept] == [
        [(2, 3), (2, encode(3)), (2, encode(3, 7))],
        [(5, encode(3)), (5, encode(3))],
    ]
    assert (sum(tally.rows_in for tally in sieve.tallies), sum(tally.hidden for tally in sieve.tallies)) == (6, 1)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([(2, encode(0), 1, 2), (2, encode(0), 0, 2)], "not in the order of their ROW__IDs, first at 2,536870912,0"),
        ([(2, encode(0), 0, 10)], "event of write id 10, but its directory ends at 9"),
        ([(10, encode(0), 0, 3)], "event of write id 10, but its directory ends at 9"),
        ([(2, 1 << 30, 0, 2)], "codec version 2"),
        ([(2, -5, 0, 2)], "codec version 7"),
        ([(2, encode(0), 0, 2), (2, 1 << 30, 0, 2)], "codec version 2"),
    ],
)
def test_sieve_refuses(events: list[tuple[int, int, int, int]], said: str) -> None:
    """What a compaction must not carry on is damage of the inputs, in one batch or across two."""
    source = DataSource("file", nullcontext, 0, max_write_id=9)
    cuts = [[batch_of(*events)], [batch_of(event) for event in events]]
    for batches in cuts:
        with pytest.raises(DamagedDataError, match=said):
            list(EventFilter(0, ValidWriteIds.everything())(source, iter(batches)))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_merged_events_are_distinct(size: int) -> None:
    """Of events that agree in row and write one stays, wherever batches end; other events of a row all stay."""
    one = [(1, 0, 0, 5), (1, 0, 1, 7), (1, 0, 1, 5), (1, 0, 2, 5), (1, 0, 2, 5), (1, 0, 2, 5)]
    two = [(1, 0, 0, 5), (1, 0, 1, 6), (1, 0, 1, 5), (1, 0, 2, 5), (1, 0, 3, 5)]

    def stream(name: str, events: list[tuple[int, int, int, int]]) -> EventStream:
        return EventStream(
            name,
            lambda: (batch_of(*events[at : at + size], operation=2) for at in range(0, len(events), size)),
        )

    merged = list(merge_events([stream("one", one), stream("two", two)]))
    found = [
        (*map(int, (b.keys.write_id[i], b.keys.bucket[i], b.keys.row_id[i], b.keys.current[i])),)
        for b in merged
        for i in range(len(b))
    ]
    assert sorted(found) == sorted({*one, *two})
    assert [event[2] for event in found] == sorted(event[2] for event in found)
    if size == 100:
        assert found == sorted({*one, *two}, key=lambda event: (event[:3], -event[3]))
