"""Rows as other programs take them: one schema for all batches, exact or refused moments."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from acidctl import open_table
from acidctl.errors import UsageError
from acidctl.rows.export import ROW_ID_TYPE, InvalidText, text_batch, text_schema
from acidctl.rows.snapshot import Snapshot
from acidctl.types.format_scalars import Damage
from tests.support.slow_reader import Event
from tests.unit.rows.test_slow_reader import write_events, write_orc

BUCKET = 536870912
NESTED = (
    "struct<t:timestamp,l:array<timestamp>,s:struct<x:timestamp>,m:map<string,timestamp>,u:uniontype<int,timestamp>>"
)
DAY = (86_400, 0)
ANCIENT = (-62_000_000_000, 1000)  # in the year 5; with nanoseconds it fits no Arrow timestamp
DATES = {DAY: dt.datetime(1970, 1, 2), ANCIENT: dt.datetime(5, 4, 19, 9, 46, 40, 1)}


def table(root: Path, *writes: list[Any], columns: str = NESTED) -> Snapshot:
    """One delta a write."""
    for write_id, rows in enumerate(writes, 1):
        stored = [Event(0, (write_id, BUCKET, number), write_id, row) for number, row in enumerate(rows)]
        write_events(root / f"delta_{write_id:07}_{write_id:07}_0000" / "bucket_00000", columns, stored)
    return open_table(str(root)).snapshot()


def nested(moment: tuple[int, int]) -> list[Any]:
    """A row with the same moment everywhere."""
    return [moment, [moment, None], (moment,), {"k": moment}, moment]


def moments(seen: Snapshot, **options: Any) -> list[list[Any]]:
    """The rows of `to_batches`, of which every batch has the announced schema."""
    stream = seen.to_batches(**options)
    batches = list(stream)
    for batch in batches:
        assert batch.schema == stream.schema
        batch.validate(full=True)
    return [list(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("batch_rows", [1, 2, 65536])
def test_a_stream_has_one_schema_whatever_the_files_hold(tmp_path: Path, batch_rows: int) -> None:
    """Where one file needs microseconds all batches have them, at any depth; values are those of the files."""
    seen = table(tmp_path, [nested(DAY), [None] * 5, nested(DAY)], [nested(ANCIENT), nested(DAY)])
    a, b = ([date, [date, None], {"x": date}, [("k", date)], date] for date in (DATES[DAY], DATES[ANCIENT]))
    assert moments(seen, batch_rows=batch_rows) == [a, [None] * 5, a, b, a]
    assert seen.to_batches().schema.field("t").type == pa.timestamp("us")


def test_moments_are_nanoseconds_where_all_fit(tmp_path: Path) -> None:
    """Nothing is cut where nothing has to be."""
    seen = table(tmp_path, [[(5, 7)]], columns="struct<t:timestamp>")
    stream = seen.to_batches()
    assert stream.schema.field("t").type == pa.timestamp("ns")
    assert stream.read_all().column("t").cast(pa.int64()).to_pylist() == [5_000_000_007]
    with pytest.raises(UsageError, match="column t holds 1 timestamp or more"):
        seen.to_batches(timestamps="us").read_all()


def test_a_moment_that_does_not_fit_is_refused_or_exact(tmp_path: Path) -> None:
    """Neither nanoseconds nor years are lost in silence; `exact` holds both."""
    seen = table(tmp_path, [[(-62_000_000_000, 7)]], columns="struct<t:timestamp>")
    for form in ("auto", "ns", "us"):
        with pytest.raises(UsageError, match="cannot hold exactly"):
            seen.to_batches(timestamps=form).read_all()
    assert moments(seen, timestamps="exact") == [[{"seconds": -62_000_000_000, "nanos": 7}]]
    with pytest.raises(UsageError, match="none of auto, ns, us, exact"):
        seen.to_batches(timestamps="s")


def test_a_partition_of_any_year_is_exported(tmp_path: Path) -> None:
    """The folder's moment counts for the schema as those in files do."""
    path = tmp_path / "p=0001-01-01 00%3A00%3A00" / "000000_0"
    write_orc(path, "struct<a:int>", [(1,)])
    seen = open_table(str(tmp_path)).snapshot(schema="struct<a:int,p:timestamp>")
    assert moments(seen) == [[1, dt.datetime(1, 1, 1)]]


def test_row_ids_come_first(tmp_path: Path) -> None:
    """As one struct, NULL where rows have no ids."""
    seen = table(tmp_path, [[1], [2]], columns="struct<a:int>")
    stream = seen.to_batches(["a"], row_id=True)
    assert stream.schema == pa.schema([("ROW__ID", ROW_ID_TYPE), ("a", pa.int32())])
    ids = [{"writeid": 1, "bucketid": BUCKET, "rowid": number} for number in (0, 1)]
    assert stream.read_all().to_pylist() == [{"ROW__ID": ids[0], "a": 1}, {"ROW__ID": ids[1], "a": 2}]
    write_orc(tmp_path / "mm" / "delta_0000001_0000001_0000" / "000000_0", "struct<a:int>", [(1,)])
    plain = open_table(str(tmp_path / "mm")).snapshot(table_type="insert-only")
    assert plain.to_batches(row_id=True).read_all().to_pylist() == [{"ROW__ID": None, "a": 1}]


def test_strings_that_are_not_utf8_at_any_depth() -> None:
    """Those of a union, map or list are found, counted, repaired or left as bytes like others."""
    bad = pa.array([b"ok", None, b"a\xfe"]).view(pa.string())
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3]), bad)
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2]), pa.array(["k", "l"]), lists)
    batch = pa.record_batch({"m": maps, "n": pa.array([1, 2])})
    damage = Damage()
    repaired = text_batch(batch, InvalidText.REPLACE, damage)
    assert damage.count == 1
    assert repaired.column(0).to_pylist() == [[("k", ["ok", None])], [("l", ["a\ufffd"])]]
    plain = text_batch(batch, InvalidText.BINARY, damage)
    assert plain.column(0).to_pylist() == [[(b"k", [b"ok", None])], [(b"l", [b"a\xfe"])]]
    assert plain.schema == text_schema(batch.schema, InvalidText.BINARY)
    with pytest.raises(UsageError, match="column m holds 1 string or more that is not valid UTF-8"):
        text_batch(batch, InvalidText.REFUSE, damage)
