"""What others read of a file of which some stripes were copied: orc-tools, Arrow, pyorc and Spark."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow.orc as po
import pyorc
import pytest
from pyspark.sql import SparkSession

import acidctl
from acidctl.compaction import stripes
from acidctl.format.events import Operation
from acidctl.orc.stitch import StripeRun, stitch
from tests.cli.runner import acidctl as command
from tests.live.test_orctools import differences, dumped, told
from tests.support.orc_events import written
from tests.support.orc_tools import orc_tools
from tests.support.specs import delta, write_events
from tests.unit.orc.test_stitch import COLUMNS, events

STRIPES, ROWS = 8, 500


@pytest.fixture
def stitched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of all kinds of statistics: seven stripes copied, and one of which a row is gone."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 1 << 40)
    base = tmp_path / "t" / "base_0000001"
    base.mkdir(parents=True)
    parts = [written([events(number * ROWS, ROWS)], COLUMNS)[0] for number in range(STRIPES)]
    with (base / "bucket_00000").open("wb") as sink:
        stitch(sink, [StripeRun.whole(io.BytesIO(data), name="part") for data in parts])
    write_events(
        tmp_path / "t", "delete_" + delta(2), [3 * ROWS + 7], write_id=1, current=2, operation=Operation.DELETE
    )
    table = acidctl.open_table(str(tmp_path / "t"))
    (part,) = table.compact("major", assume_committed=True, assume_exclusive=True).partitions
    assert (part.stripes_copied, part.stripes_encoded) == (STRIPES - 1, {"deleted": 1})
    (file,) = tmp_path.glob("t/base_0000002*/bucket_00000")
    return file.rename(tmp_path / "stitched.orc")


@pytest.mark.orctools
def test_orc_tools_read_what_was_stitched(stitched: Path) -> None:
    """Every fact of `meta` with all row indexes, every row of `data` byte for byte, and `scan` counts them."""
    report = json.loads(command("dump", "-j", "-t", "-r", "*", str(stitched)).stdout)
    assert len(report["stripes"]) == STRIPES
    assert differences(told([stitched], {stitched: report})[stitched], report, is_old=False) == []
    assert dumped(stitched).split(b"\n") == orc_tools("data", stitched).split(b"\n")
    assert str(STRIPES * ROWS - 1).encode() in orc_tools("scan", stitched)


def test_python_reads_what_was_stitched(stitched: Path) -> None:
    """Arrow and pyorc have the same rows, and the statistics of the whole file are those of its values."""
    table = po.ORCFile(stitched).read()
    ids = table.column("row").combine_chunks().field("id").to_pylist()
    assert [number for number in range(STRIPES * ROWS) if number != 3 * ROWS + 7 and number % 5] == [
        number for number in ids if number is not None
    ]
    with stitched.open("rb") as stream:
        reader = pyorc.Reader(stream)
        statistics = reader[7].statistics
        assert [row[-1][0] for row in reader] == ids
    assert (statistics["minimum"], statistics["maximum"]) == (1, STRIPES * ROWS - 1)


@pytest.mark.spark
def test_spark_reads_what_was_stitched(spark_session: SparkSession, stitched: Path, tmp_path: Path) -> None:
    """All events, and rows of an insert-only table by conditions that skip stripes and row groups.

    Of events it takes all columns or none: ORC's library looks for those of ACID files among what is asked for.
    """
    for number in range(STRIPES):
        place = tmp_path / "rows" / f"delta_{number + 1:07}_{number + 1:07}_0000"
        place.mkdir(parents=True)
        (place / "000000_0").write_bytes(written([events(number * ROWS, ROWS)], COLUMNS, acid=False)[0])
    table = acidctl.open_table(str(tmp_path / "rows"))
    (part,) = table.compact("major", assume_committed=True, assume_exclusive=True, table_type="insert-only").partitions
    assert part.stripes_copied == STRIPES
    found = spark_session.read.orc(str(stitched)).collect()
    assert [row["rowId"] for row in found] == [i for i in range(STRIPES * ROWS) if i != 3 * ROWS + 7]
    frame = spark_session.read.orc(str(next(tmp_path.glob("rows/base_*/000000_0"))))
    assert frame.count() == STRIPES * ROWS
    for condition, rows in (
        (f"id between {ROWS - 2} and {ROWS + 2}", 4),
        ("day = '1970-01-02'", 1),
        ("v = 'v0'", STRIPES * ROWS // 1000),
        ("x > 399.8", 1),
        ("d < 100.5", 2),
        ("id is null", STRIPES * ROWS // 5),
    ):
        assert frame.where(condition).count() == rows, condition
