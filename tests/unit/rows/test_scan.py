"""A location's reader: how many files are open at once, that early ends leave none open, and that errors come out."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pytest

from acidctl import open_table
from acidctl.compaction.plan import WriterSettings
from acidctl.errors import DamagedDataError
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.writer import write_orc as write_orc_file
from acidctl.rows.snapshot import Snapshot
from acidctl.storage.local import LocalStorage
from acidctl.types.schema import parse_schema
from tests.support.slow_reader import Event
from tests.unit.rows.test_slow_reader import write_events, write_orc

COLUMNS = "struct<a:int>"
HIVE2: dict[str, Any] = {"validtxns": "999:9223372036854775807::", "list_format": "hive2"}


class Watch:
    """Counts the data files that are open, now and at most, and how often each was opened."""

    def __init__(self) -> None:
        self.now = self.most = self.bytes = 0
        self.opened: Counter[str] = Counter()

    def open(self, path: str) -> io.BufferedReader:
        """A stream that tells when it is closed."""
        self.now += 1
        self.opened[path] += 1
        self.most = max(self.most, self.now)
        return _Watched(path, self)


class _Watched(io.BufferedReader):
    def __init__(self, path: str, watch: Watch) -> None:
        super().__init__(io.FileIO(path))
        self._watch = watch

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._watch.bytes += len(data)
        return data

    def close(self) -> None:
        self._watch.now -= not self.closed
        super().close()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Every file of local storage is counted."""
    watch = Watch()
    monkeypatch.setattr(LocalStorage, "open", lambda storage, path: watch.open(path))
    return watch


def updated(root: Path, files: int, rows: int) -> Snapshot:
    """A table of ACID version 1: a base, and deltas that each update rows all over it."""
    inserts = [Event(0, (1, 0, number), 1, [number]) for number in range(rows)]
    write_events(root / "base_0000001" / "bucket_00000", COLUMNS, inserts)
    for current in range(2, files + 2):
        changed = [Event(1, (1, 0, number), current, [-current]) for number in (0, current, rows - 1)]
        write_events(root / f"delta_{current:07}_{current:07}_0000" / "bucket_00000", COLUMNS, changed)
    return open_table(str(root)).snapshot(**HIVE2)


def values(seen: Snapshot, **view: Any) -> list[int]:
    """The only column."""
    return [value for rows in seen.rows(**view) for value in rows.columns[0].to_pylist()]


@pytest.mark.slow
def test_small_files_that_overlap_are_not_open_all_at_once(tmp_path: Path, watch: Watch) -> None:
    """A bucket with more updates than a process may have files open is read all the same."""
    seen = updated(tmp_path, 60, 200)
    want = [-61, 1, *(-number for number in range(2, 62)), *range(62, 199), -61]
    assert values(seen) == want
    assert seen.count() == 200
    assert watch.most < 5
    assert watch.now == 0


@pytest.mark.parametrize("batch_rows", [1, 32])
def test_rows_that_nobody_takes_leave_no_file_open(tmp_path: Path, watch: Watch, batch_rows: int) -> None:
    """A reader that stops after the first rows closes what it opened, without waiting for the end of the program."""
    seen = updated(tmp_path, 5, 200)
    stream = seen.rows(batch_rows=batch_rows)
    next(stream)
    assert isinstance(stream, Generator)
    stream.close()
    assert watch.now == 0
    batches = seen.to_batches(batch_rows=batch_rows, limit=1)
    assert sum(len(batch) for batch in batches) == 1
    del batches
    assert watch.now == 0


@pytest.mark.parametrize(("small", "opened"), [(0, 3), (1 << 16, 1)])
def test_delete_files_are_not_read_for_every_bucket(
    tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch, small: int, opened: int
) -> None:
    """Without statistics a delete file is read once to learn which buckets it is of, and again by those alone.

    One that is small is opened for all of this once.
    """
    monkeypatch.setattr("acidctl.rows.opened.SMALL_BYTES", small)
    monkeypatch.setattr("acidctl.rows.scan.SMALL_BYTES", small)
    buckets = [536870912 + (number << 16) for number in range(6)]
    for number, bucket in enumerate(buckets):
        rows = [Event(0, (1, bucket, row), 1, [row]) for row in range(3)]
        write_events(tmp_path / "delta_0000001_0000001_0000" / f"bucket_{number:05}", COLUMNS, rows)
        gone = [Event(2, (1, bucket, 1), 2, None)]
        name = f"delete_delta_0000002_0000002_0000/bucket_{number:05}"
        write_events(tmp_path / name, COLUMNS, gone, indexed=False)
    seen = open_table(str(tmp_path)).snapshot()
    assert values(seen) == [0, 2] * 6
    assert max(times for path, times in watch.opened.items() if "delete_delta" in path) == opened


def test_a_damaged_file_ends_the_rows_and_leaves_no_file_open(tmp_path: Path, watch: Watch) -> None:
    """The error names the file, whichever way the rows are taken."""
    seen = updated(tmp_path, 3, 200)
    path = tmp_path / "delta_0000003_0000003_0000" / "bucket_00000"
    with path.open("rb") as stream:
        stripe = open_orc(stream, name="").tail.stripes[0]
    data = bytearray(path.read_bytes())
    start = stripe.offset + stripe.index_length
    data[start : start + stripe.data_length] = b"\xff" * stripe.data_length
    path.write_bytes(data)
    with pytest.raises(DamagedDataError, match="delta_0000003"):
        values(seen)
    with pytest.raises(DamagedDataError, match="delta_0000003"):
        seen.to_batches().read_all()
    with pytest.raises(DamagedDataError, match="delta_0000003"):
        seen.count()
    assert watch.now == 0


def test_a_limit_reads_no_further(tmp_path: Path, watch: Watch) -> None:
    """Once the limit is reached no other file is opened."""
    for write_id in (1, 2):
        path = tmp_path / f"delta_{write_id:07}_{write_id:07}_0000" / "bucket_00000"
        write_events(path, COLUMNS, [Event(0, (write_id, 536870912, 0), write_id, [write_id])])
    seen = open_table(str(tmp_path)).snapshot()
    assert seen.count() == 2
    path.write_bytes(b"")
    assert seen.to_batches(limit=1, batch_rows=1).read_all().column("a").to_pylist() == [1]


def test_a_limit_decodes_no_more_than_it_needs(tmp_path: Path, watch: Watch) -> None:
    """Of a large stripe its beginning is read."""
    rows = np.arange(200_000, dtype=np.int64)
    numbers = np.random.default_rng(1).integers(0, 1 << 60, len(rows))
    path = tmp_path / "base_0000001" / "bucket_00000"
    path.parent.mkdir()
    with path.open("wb") as sink:
        events = iter(
            [EventBatch(EventKeys(rows * 0 + 1, rows * 0 + encode(0, 0), rows, rows * 0 + 1), (pa.array(numbers),))]
        )
        columns, settings = parse_schema("a bigint").columns, WriterSettings(stripe_size=64 << 20)
        write_orc_file(sink, events, columns, settings, acid=True, metadata={})
    assert values(open_table(str(tmp_path)).snapshot(), limit=3) == numbers[:3].tolist()
    assert watch.bytes < path.stat().st_size // 4


@pytest.mark.parametrize("acid", [False, True])
def test_columns_that_are_not_wanted_are_not_read(tmp_path: Path, acid: bool) -> None:
    """The reader is asked for the wanted columns alone."""
    columns, rows = "struct<a:int,s:string,b:int>", [(number, f"{number:0200}", -number) for number in range(100)]
    if acid:
        path = tmp_path / "delta_0000001_0000001_0000" / "bucket_00000"
        write_events(path, columns, [Event(0, (1, 536870912, row[0]), 1, list(row)) for row in rows])
    else:
        path = tmp_path / "000000_0"
        write_orc(path, columns, rows)
    reads: list[Any] = []
    real = OrcFile.scan

    def scan(orc: OrcFile, *args: Any, **options: Any) -> Any:
        reads.append(options["fields"])
        return real(orc, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OrcFile, "scan", scan)
        seen = open_table(str(tmp_path)).snapshot()
        assert [list(zip(*(c.to_pylist() for c in r.columns), strict=True)) for r in seen.rows(["b", "a"])] == [
            [(-number, number) for number in range(100)]
        ]
    assert reads == [(0, 2)]


@pytest.mark.slow
def test_wide_rows_come_in_smaller_batches(tmp_path: Path) -> None:
    """A batch is bounded in bytes too: rows of 100 kB do not come by the ten thousand."""
    place = tmp_path / "delta_0000001_0000001_0000"
    place.mkdir()
    text = pa.array(["x" * 100_000 for _ in range(600)])
    pyarrow.orc.write_table(pa.table({"v": text}), str(place / "000000_0"))
    seen = open_table(str(tmp_path)).snapshot(table_type="insert-only")
    counts = [rows.count for rows in seen.rows()]
    assert sum(counts) == 600
    assert max(counts) <= 200


def test_counting_opens_small_files_once_and_reads_keys_where_a_delete_falls(
    tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the files that no delete concerns the tails tell the number; no file is opened a second time."""
    for number in range(1, 7):
        rows = [Event(0, (number, 536870912, row), number, [row]) for row in range(5)]
        write_events(tmp_path / f"delta_000000{number}_000000{number}_0000" / "bucket_00000", COLUMNS, rows)
    gone = [Event(2, (3, 536870912, row), 7, None) for row in (0, 4)]
    write_events(tmp_path / "delete_delta_0000007_0000007_0000" / "bucket_00000", COLUMNS, gone)
    scanned: list[str] = []
    scan = OrcFile.scan

    def noted(orc: OrcFile, *arguments: Any, **options: Any) -> Any:
        scanned.append(orc.name.split("/")[-2])
        return scan(orc, *arguments, **options)

    monkeypatch.setattr(OrcFile, "scan", noted)
    assert open_table(str(tmp_path)).snapshot().count() == 28
    assert set(watch.opened.values()) == {1}
    assert len(watch.opened) == 7
    assert sorted(scanned) == ["delete_delta_0000007_0000007_0000", "delta_0000003_0000003_0000"]
