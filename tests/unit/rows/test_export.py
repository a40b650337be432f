"""Rows as other programs take them: one schema for all batches, exact or refused moments, whole files."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from acidctl import open_table
from acidctl.errors import DamagedDataError, StorageError, UsageError
from acidctl.rows.export import ROW_ID_TYPE, write_arrow, write_bytes
from acidctl.rows.snapshot import Snapshot
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
    with pytest.raises(UsageError, match="column t holds a timestamp that timestamp\\[us\\] cannot hold exactly"):
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


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_files_hold_the_rows_and_nothing_is_left_beside(tmp_path: Path, suffix: str) -> None:
    """What other readers find is what was written; the number of rows comes back."""
    seen = table(tmp_path / "t", [nested(DAY)[:4]], [nested(ANCIENT)[:4]], columns=NESTED.partition(",u:")[0] + ">")
    path = tmp_path / f"rows.{suffix}"
    stream = seen.to_batches()
    assert write_arrow(path, stream.schema, stream) == 2
    found = pq.read_table(path) if suffix == "parquet" else pa.ipc.open_file(path).read_all()
    assert found.to_pylist() == seen.to_batches().read_all().to_pylist()
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, "t"]


def test_unions_go_to_arrow_alone(tmp_path: Path) -> None:
    """Parquet has no unions: one sentence, and the file of before stays."""
    seen = table(tmp_path / "t", [[1], [None]], columns="struct<u:uniontype<int,string>>")
    path = tmp_path / "rows.parquet"
    path.write_text("old")
    stream = seen.to_batches()
    with pytest.raises(UsageError, match="\\.parquet files cannot hold these columns"):
        write_arrow(path, stream.schema, stream)
    assert path.read_text() == "old"
    stream = seen.to_batches()
    assert write_arrow(tmp_path / "rows.arrow", stream.schema, stream) == 2
    assert pa.ipc.open_file(tmp_path / "rows.arrow").read_all().column("u").to_pylist() == [1, None]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows.arrow", "rows.parquet", "t"]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_a_stream_that_fails_leaves_the_old_file(tmp_path: Path, suffix: str) -> None:
    """Whatever happens midway, the file is the old one or the whole new one."""
    path = tmp_path / f"rows.{suffix}"
    path.write_text("old")
    schema = pa.schema([("a", pa.int32())])

    def batches() -> Any:
        yield pa.record_batch([pa.array([1], pa.int32())], schema=schema) if suffix != "csv" else b"1\n"
        raise DamagedDataError("it broke")

    with pytest.raises(DamagedDataError, match="it broke"):
        write_bytes(path, batches()) if suffix == "csv" else write_arrow(path, schema, batches())
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    """A rename onto `/dev/full` would leave a machine without it; a link stays a link to the new content."""
    device = tmp_path / "device"
    device.symlink_to("/dev/full")
    with pytest.raises(StorageError, match="No space left on device"):
        write_bytes(device, [b"1\n"])
    assert Path("/dev/full").is_char_device()
    assert device.is_char_device()
    (tmp_path / "real.csv").write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to("real.csv")
    write_bytes(link, [b"1\n"])
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_text() == "1\n"
    assert {p.name for p in tmp_path.iterdir()} == {"device", "real.csv", "link.csv"}


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    """As `/dev/stdout` often is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_bytes(pipe, [b"1\n"])
        assert os.read(reading, 10) == b"1\n"
    finally:
        os.close(reading)
    assert pipe.is_fifo()


@pytest.mark.parametrize("suffix", ["arrow", "csv"])
def test_a_folder_in_the_way_is_an_error(tmp_path: Path, suffix: str) -> None:
    """The last step, taking the name, may fail as well: nothing is left then either."""
    path = tmp_path / f"rows.{suffix}"
    path.mkdir()
    with pytest.raises(StorageError, match="cannot be written"):
        write_bytes(path, [b"1\n"]) if suffix == "csv" else write_arrow(path, pa.schema([("a", pa.int32())]), [])
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
