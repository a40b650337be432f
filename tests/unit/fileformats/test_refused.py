"""Insert-only tables that are not read, or not to their end: one sentence each, and no healthy file is damaged."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from acidctl.errors import ExitCode
from tests.cli.runner import Result, acidctl

AS_INSERT_ONLY = ("--table-type", "insert-only", "-o", "json")


def _delta(root: Path, number: int) -> Path:
    folder = root / f"delta_{number:07}_{number:07}_0000"
    folder.mkdir(parents=True)
    return folder / "000000_0"


def _rows(root: Path) -> Result:
    return acidctl("snapshot", str(root), *AS_INSERT_ONLY)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"Obj\x01avro", "Avro"),
        (b"SEQ\x06", "sequence file"),
        (b"RCF\x01", "RCFile"),
        (b"{}\n", "neither ORC nor Parquet"),
    ],
)
def test_another_format_is_named(tmp_path: Path, content: bytes, named: str) -> None:
    """A healthy file of a format that is not read is exit 11 and not 13."""
    _delta(tmp_path, 1).write_bytes(content)
    result = _rows(tmp_path)
    assert result.code == ExitCode.NOT_ACID
    assert named in result.stderr
    assert "damaged" not in result.stderr


def test_formats_that_differ_are_refused(tmp_path: Path) -> None:
    """One table has one format; both files are named."""
    pq.write_table(pa.table({"id": [1]}), _delta(tmp_path, 1))
    _delta(tmp_path, 2).write_bytes(b"SEQ\x06")
    result = _rows(tmp_path)
    assert result.code == ExitCode.NOT_ACID
    assert result.stderr.count("delta_0000002") >= 1


def test_a_parquet_file_that_ends_too_early_is_damaged(tmp_path: Path) -> None:
    """Its rows and its count are exit 13, and `ls --rows` shows what is wrong with it."""
    path = _delta(tmp_path, 1)
    pq.write_table(pa.table({"id": [1, 2, 3]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert _rows(tmp_path).code == ExitCode.DAMAGED
    assert acidctl("snapshot", str(tmp_path), *AS_INSERT_ONLY, "--count").code == ExitCode.DAMAGED
    listed = acidctl("ls", str(tmp_path), *AS_INSERT_ONLY, "--rows")
    assert "cannot be read as Parquet" in listed.stdout + listed.stderr


def test_a_type_without_a_hive_type_is_named(tmp_path: Path) -> None:
    """What only other programs write is refused by column."""
    pq.write_table(pa.table({"huge": pa.array([1], pa.decimal256(60, 2))}), _delta(tmp_path, 1))
    result = _rows(tmp_path)
    assert result.code == ExitCode.NOT_ACID
    assert "column huge" in result.stderr


def test_old_moments_are_read_and_not_compacted(tmp_path: Path) -> None:
    """INT96 beyond nanoseconds is shown; a compaction refuses it without calling it damaged."""
    for number in (1, 2):
        moments = pa.table({"at": pa.array([datetime(1500 + number, 3, 1, 1, 2, 3)], pa.timestamp("us"))})
        pq.write_table(moments, _delta(tmp_path, number), use_deprecated_int96_timestamps=True, store_schema=False)
    rows = acidctl("snapshot", str(tmp_path), "--table-type", "insert-only", "-o", "csv", "--no-header").stdout
    # By the hybrid calendar, as Hive reads Julian days.
    assert rows.splitlines() == ["1501-02-19 01:02:03", "1502-02-19 01:02:03"]
    done = acidctl("compact", "major", str(tmp_path), "--assume-committed", *AS_INSERT_ONLY)
    assert "outside of the years 1677 to 2262" in done.stdout
    assert "damaged" not in done.stdout
    assert not list(tmp_path.glob("base_*"))
