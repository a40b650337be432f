"""Exports: whole files of one schema on any storage, read back before anybody sees them, or nothing."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import acidctl
from acidctl.errors import (
    AcidctlError,
    ExistsError,
    StorageError,
    UnreachableError,
    UsageError,
    VerificationError,
)
from acidctl.exporting.run import Chosen, export
from acidctl.exporting.target import Target
from acidctl.options import ExportOptions
from acidctl.rows.snapshot import Snapshot
from acidctl.storage.local import LocalStorage
from acidctl.storage.objects import ObjectStorage
from acidctl.storage.resolve import resolve
from tests import ROOT
from tests.support.export_kills import campaign
from tests.support.faulty import Fault, FaultyStorage
from tests.support.slow_reader import Event
from tests.unit.rows.test_slow_reader import write_events

HIVE4 = ROOT / "fixtures/tables/hive4"
PARTITIONED = HIVE4 / "partitioned/03-one-compacted/table"
NAMES = HIVE4 / "partition_names/03-compacted/table"
DEMO = HIVE4 / "demo_orders/03-demo/table"
BUCKET = 536870912
OURS = {"_SUCCESS", "_acidctl_export.json"}
SUFFIXES = ("parquet", "arrow", "csv", "jsonl")


def table(root: Path, rows: list[Any], columns: str) -> Snapshot:
    """One delta."""
    stored = [Event(0, (1, BUCKET, number), 1, row) for number, row in enumerate(rows)]
    write_events(root / "delta_0000001_0000001_0000" / "bucket_00000", columns, stored)
    return acidctl.open_table(str(root)).snapshot()


def names(folder: Path) -> set[str]:
    """Everything below a folder but directories."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def rows_of(path: Path) -> list[dict[str, Any]]:
    """What another reader finds in a file."""
    if path.suffix == ".parquet":
        return pq.ParquetFile(path).read().to_pylist()  # type: ignore[no-any-return]
    if path.suffix == ".arrow":
        return pa.ipc.open_file(path).read_all().to_pylist()  # type: ignore[no-any-return]
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_files_hold_the_rows(tmp_path: Path) -> None:
    """Nested values and moments of all years, as `to_batches` has them; ZSTD, and whose calendar the days are of."""
    columns = "struct<t:timestamp,l:array<timestamp>,s:struct<x:timestamp>,m:map<string,timestamp>>"
    moments = [(86_400, 0), (-62_000_000_000, 1000)]
    seen = table(tmp_path / "t", [[at, [at, None], (at,), {"k": at}] for at in moments], columns)
    want = seen.to_batches(timestamps="us").read_all().to_pylist()
    reports = {}
    for suffix in ("parquet", "arrow"):
        reports[suffix] = seen.export(str(tmp_path / f"rows.{suffix}"))
        assert rows_of(tmp_path / f"rows.{suffix}") == want
    assert reports["parquet"]["digest"] == reports["arrow"]["digest"]
    assert names(tmp_path) >= {"rows.parquet", "rows.arrow"}
    assert not list(tmp_path.glob(".*"))
    file = pq.ParquetFile(tmp_path / "rows.parquet")
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.metadata.metadata[b"writer.date.proleptic"] == b"true"


def test_one_row_group_for_many_small_batches(tmp_path: Path) -> None:
    """Partitions of a few rows make no group of their own."""
    seen = acidctl.open_table(str(NAMES)).snapshot()
    seen.export(str(tmp_path / "x.parquet"))
    assert pq.ParquetFile(tmp_path / "x.parquet").num_row_groups == 1


def test_a_partitioned_export(tmp_path: Path) -> None:
    """Folders as Hive escapes them, without the partition columns in the files; other readers put them back."""
    seen = acidctl.open_table(str(NAMES)).snapshot()
    report = seen.export(str(tmp_path / "out"), partitioned=True)
    folders = {path.name for path in NAMES.iterdir() if "=" in path.name}
    made = {name.partition("/")[0] for name in names(tmp_path / "out")} - OURS
    assert made <= folders
    assert (report["files"], report["rows"]) == (len(made), seen.count())
    assert pq.ParquetFile(next((tmp_path / "out").rglob("*.parquet"))).schema_arrow.names == ["id"]
    found = ds.dataset(
        tmp_path / "out", partitioning=ds.partitioning(flavor="hive", schema=pa.schema({"p": pa.string()}))
    )
    want = seen.to_table().to_pylist()
    assert sorted(map(str, found.to_table().to_pylist())) == sorted(map(str, want))
    assert (tmp_path / "out/_SUCCESS").read_bytes() == b""


@pytest.mark.parametrize("suffix", [*SUFFIXES, "csv.gz", "jsonl.zst"])
def test_any_storage(suffix: str, tmp_path: Path) -> None:
    """The same bytes on an object store as here; `file:` is here."""
    seen = acidctl.open_table(str(PARTITIONED)).snapshot()
    memory = fsspec.filesystem("memory")
    place = f"exports/{os.urandom(4).hex()}"
    seen.export(f"memory://{place}/rows.{suffix}")
    seen.export(f"file://{tmp_path}/rows.{suffix}")
    assert memory.cat_file(f"/{place}/rows.{suffix}") == (tmp_path / f"rows.{suffix}").read_bytes()
    seen.export(f"memory://{place}/parts/", partitioned=True, format=suffix.partition(".")[0])
    found = sorted(memory.find(f"/{place}/parts"))
    assert [name.partition("/parts/")[2].rpartition("/")[0] for name in found] == [
        "",
        "",
        *(f"ds=2026-01-0{day}/hr={hour}" for day, hour in ((1, 1), (1, 2), (2, 1))),
    ]
    with pytest.raises(ExistsError, match="exists already"):
        seen.export(f"memory://{place}/parts/", partitioned=True)
    seen.export(f"memory://{place}/parts/", format="jsonl", overwrite=True)
    assert [name.rpartition("/")[2] for name in sorted(memory.find(f"/{place}/parts"))] == [
        "_SUCCESS",
        "_acidctl_export.json",
        "part-00000.jsonl",
    ]
    assert [name for name in memory.find(f"/{place}") if "/." in name] == []


def test_an_empty_answer_has_a_schema(tmp_path: Path) -> None:
    """A file or a directory without rows says which columns there would be; in folders there is nothing to say."""
    seen = acidctl.open_table(str(PARTITIONED)).snapshot()
    for to in ("x.parquet", "folder/"):
        assert seen.export(f"{tmp_path}/{to}", limit=0)["files"] == 1
    assert pq.ParquetFile(tmp_path / "folder/part-00000.parquet").schema_arrow.names == ["id", "v", "ds", "hr"]
    assert seen.export(f"{tmp_path}/parts", partitioned=True, limit=0)["files"] == 0
    assert names(tmp_path / "parts") == OURS


def test_partition_columns_are_typed(tmp_path: Path) -> None:
    """With a schema, in one file; in folders they are names."""
    seen = acidctl.open_table(str(PARTITIONED)).snapshot(schema="id int, v string, ds date, hr int")
    seen.export(str(tmp_path / "x.parquet"))
    assert pq.read_schema(tmp_path / "x.parquet").field("hr").type == pa.int32()


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_strings_that_are_not_utf8(suffix: str, tmp_path: Path) -> None:
    """Refused with column and count, repaired and counted, or left as bytes."""
    seen = acidctl.open_table(str(HIVE4 / "types_invalid_utf8/01-loaded/table")).snapshot()
    path = tmp_path / f"x.{suffix}"
    with pytest.raises(UsageError, match=r"column \w+ holds \d+ strings? or more that (is|are) not valid UTF-8"):
        seen.export(str(path))
    assert not path.exists()
    replaced = seen.export(str(path), invalid_utf8="replace")["replaced"]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows_of(path)]
    assert 0 < replaced <= sum(line.count("\ufffd") for line in lines)
    seen.export(str(path), invalid_utf8="binary", overwrite=True)
    assert any(isinstance(value, bytes) and b"\xff" in value for row in rows_of(path) for value in row.values())
    with pytest.raises(UsageError, match="or more are not valid UTF-8"):
        seen.export(str(tmp_path / "x.csv"))
    assert seen.export(str(tmp_path / "x.csv"), invalid_utf8="replace")["replaced"] == replaced


def test_moments_that_do_not_fit(tmp_path: Path) -> None:
    """Microseconds unless asked otherwise, exactly or not at all; `exact` holds what neither does."""
    seen = table(tmp_path / "t", [[(5, 7)], [(5, 8)], [(5, 0)]], "struct<t:timestamp>")
    path = str(tmp_path / "x.parquet")
    with pytest.raises(UsageError, match="column t holds 2 timestamps or more that timestamp\\[us\\]") as caught:
        seen.export(path)
    assert "--timestamps ns" in str(caught.value.hint)
    seen.export(path, timestamps="ns")
    assert pq.read_schema(path).field("t").type == pa.timestamp("ns")
    seen.export(path, timestamps="exact", overwrite=True)
    assert rows_of(Path(path))[0] == {"t": {"seconds": 5, "nanos": 7}}


def test_unions_go_to_arrow_and_json(tmp_path: Path) -> None:
    """Parquet has no unions: one sentence that names the column, before anything is read."""
    seen = table(tmp_path / "t", [[1], [None]], "struct<u:uniontype<int,string>>")
    with pytest.raises(UsageError, match="\\.parquet files cannot hold column u"):
        seen.export(str(tmp_path / "x.parquet"))
    seen.export(str(tmp_path / "x.arrow"))
    assert [row["u"] for row in rows_of(tmp_path / "x.arrow")] == [1, None]
    assert names(tmp_path) - {"x.arrow"} == {"t/delta_0000001_0000001_0000/bucket_00000"}


class _Lossy(LocalStorage):
    """Changes one byte of every file that is written."""

    def open(self, path: str) -> Any:
        data = bytearray(Path(path).read_bytes())
        data[len(data) // 3] ^= 1
        Path(path).write_bytes(data)
        return super().open(path)


@pytest.mark.parametrize("to", ["x.parquet", "x.csv", "x.jsonl.gz", "x.arrow", "folder/"])
def test_what_does_not_read_back_is_not_published(to: str, tmp_path: Path) -> None:
    """A flipped bit on the way to the storage is an error, and nothing is left."""
    path = str(tmp_path / to).rstrip("/")
    asked = ExportOptions(to=str(tmp_path) + "/" + to)
    seen = acidctl.open_table(str(DEMO)).snapshot()
    with pytest.raises(VerificationError, match=r"was (read back and is not what was )?written"):
        export(seen, asked, Chosen(), _Lossy(path), path)
    assert list(tmp_path.iterdir()) == []


def test_what_may_be_replaced(tmp_path: Path) -> None:
    """A file by a file, the directory of an export by one; nothing that no export has written."""
    seen = acidctl.open_table(str(DEMO)).snapshot()
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("x")
    for to, how in (("other", {"format": "csv"}), ("other/", {}), ("other/thesis.tex/", {})):
        with pytest.raises(ExistsError):
            seen.export(f"{tmp_path}/{to}", overwrite=True, **how)
    assert names(tmp_path) == {"other/thesis.tex"}
    with pytest.raises(StorageError, match="nowhere does not exist"):
        seen.export(f"{tmp_path}/nowhere/x.csv")
    with pytest.raises(UsageError, match="lies inside the table"):
        seen.export(f"file:{DEMO}/x.parquet")


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    """A rename onto a device would leave a machine without it; a link stays one; a pipe is written into."""
    seen = acidctl.open_table(str(DEMO)).snapshot()
    device, link, pipe = tmp_path / "device.csv", tmp_path / "link.csv", tmp_path / "pipe.jsonl"
    device.symlink_to("/dev/full")
    with pytest.raises(StorageError, match="No space left on device"):
        seen.export(str(device))
    assert device.is_char_device()
    link.symlink_to("real.csv")
    seen.export(str(link), ["id"])
    seen.export(str(link), ["id"], overwrite=True)
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("id\n")
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        seen.export(str(pipe), ["id"], limit=1)
        assert os.read(reading, 100).startswith(b'{"id":')
    finally:
        os.close(reading)
    assert {path.name for path in tmp_path.iterdir()} == {"device.csv", "link.csv", "real.csv", "pipe.jsonl"}


@pytest.mark.parametrize("to", ["x.parquet", "x.csv", "parts/"])
def test_strict_publishes_nothing_doubtful(to: str, tmp_path: Path, doubled: Callable[[], Snapshot]) -> None:
    """What is noticed while rows are read ends the export; without it the rows are there and the findings too."""
    with pytest.raises(AcidctlError, match=r"rows may be missing or come twice: .* two rows have the ROW__ID"):
        doubled().export(f"{tmp_path}/{to}", strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    seen = doubled()
    with pytest.warns(acidctl.AcidctlWarning, match="two rows have the ROW__ID"):
        seen.export(f"{tmp_path}/{to}")
    assert seen.findings


@pytest.fixture
def doubled(tmp_path: Path) -> Callable[[], Snapshot]:
    """A table with one row twice, as a copied directory has it."""
    rows = [Event(0, (1, BUCKET, number), 1, [number]) for number in range(3)]
    for name in ("delta_0000001_0000001_0000", "delta_0000001_0000001_0001"):
        write_events(tmp_path / "t" / name / "bucket_00000", "struct<a:int>", rows)
    return lambda: acidctl.open_table(str(tmp_path / "t")).snapshot()


def test_progress_counts_to_the_end() -> None:
    """Rows and bytes, never more than there are, and all of them at last."""
    seen = acidctl.open_table(str(PARTITIONED)).snapshot()
    for read in (seen.count, seen.digest, lambda: seen.to_batches().read_all()):
        known: list[Any] = []
        seen.watch(known.append)
        read()
        assert known[-1].bytes == known[-1].bytes_in_all > 0
        assert [one.bytes for one in known] == sorted(one.bytes for one in known)
    assert known[-1].rows >= seen.count()


def test_text_is_what_stdout_has(tmp_path: Path) -> None:
    """A packed file unpacks to the same lines."""
    seen = acidctl.open_table(str(DEMO)).snapshot()
    seen.export(str(tmp_path / "x.jsonl"), row_id=True)
    seen.export(str(tmp_path / "x.jsonl.gz"), row_id=True)
    assert gzip.decompress((tmp_path / "x.jsonl.gz").read_bytes()) == (tmp_path / "x.jsonl").read_bytes()


_DIES = """
import os, signal, sys
import acidctl
from acidctl.exporting.run import Chosen, export
from acidctl.options import ExportOptions
from acidctl.storage.local import LocalStorage
from acidctl.storage.resolve import resolve

class Dies(LocalStorage):
    def open(self, path):
        os.kill(os.getpid(), signal.SIGKILL)

to = sys.argv[2]
asked = ExportOptions(to=to, partitioned=to.endswith("/"))
export(acidctl.open_table(sys.argv[1]).snapshot(), asked, Chosen(), Dies(to), to.rstrip("/"))
"""


class _Renaming(FaultyStorage):
    """A storage in which two names change in two steps."""

    def exchange(self, first: str, second: str) -> bool:
        return False


@pytest.mark.parametrize("to", ["rows.parquet", "parts/"])
@pytest.mark.parametrize("scheme", ["exchange", "renames", "memory"])
def test_a_kill_while_something_is_replaced(scheme: str, to: str, tmp_path: Path) -> None:
    """After each change the old export is there, or the new one, or the next run brings back what was moved away."""
    seen = acidctl.open_table(str(PARTITIONED)).snapshot()
    for number in range(1, 99):
        place = f"memory://kill{os.urandom(4).hex()}" if scheme == "memory" else str(tmp_path / str(number))
        storage, path = resolve(f"{place}/{to}".rstrip("/"))
        if scheme != "memory":
            os.mkdir(place)
        seen.export(f"{place}/{to}", ["id"], limit=1)
        # A storage that does nothing from then on is left as by a process that was killed.
        mortal = (FaultyStorage if scheme == "exchange" else _Renaming)(storage, number, Fault.GONE)
        with suppress(UnreachableError):
            export(seen, ExportOptions(to=f"{place}/{to}", overwrite=True), Chosen(), mortal, path)
        found = storage.stat(path)
        old = f"{path.rpartition('/')[0]}/.{to.rstrip('/')}.acidctl-old"
        moved = storage.stat(old)
        assert found or (moved and scheme != "exchange")
        notes = " ".join(seen.export(f"{place}/{to}", ["v"], overwrite=True)["notes"])
        assert found or "is back" in notes
        assert not storage.stat(old)
        names = [name for name in os.listdir(place) if name.endswith(".part")] if scheme != "memory" else []
        assert all(name in notes for name in names)
        if not mortal.hit:
            return
    pytest.fail("never whole")


class _Mortal:
    """An object store that stops at its `at`-th change, and answers nothing from then on."""

    def __init__(self, inner: Any, at: int) -> None:
        self._inner, self._left = inner, at

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self._call(getattr(self._inner, name), name in ("put", "create", "copy"), *args)

    def _call(self, function: Any, changes: bool, *args: Any) -> Any:
        self._left -= changes
        if self._left <= 0:
            raise UnreachableError("gone")
        return function(*args)

    def delete(self, paths: Sequence[str]) -> None:
        """One after the other."""
        for path in paths:
            self._call(self._inner.delete, True, [path])

    @property
    def alive(self) -> bool:
        """Whether it has not stopped."""
        return self._left > 0


@pytest.mark.slow
def test_a_kill_while_a_directory_of_an_object_store_is_replaced() -> None:
    """Whichever object was changed last: the next run finds the old directory, whole, or the new one. Twice over."""
    seen = acidctl.open_table(str(PARTITIONED)).snapshot()

    def contents(storage: ObjectStorage, path: str) -> dict[str, bytes]:
        there = {info.path: storage.open(f"{path}/{info.path}").read() for info in storage.walk(path).files}
        return {name: data for name, data in there.items() if name != "_SUCCESS"}

    def made(columns: list[str]) -> tuple[ObjectStorage, str, str]:
        place = f"memory://kill{os.urandom(4).hex()}/parts/"
        seen.export(place, columns, partitioned=True)
        retrying, path = resolve(place.rstrip("/"))
        return retrying.inner, path, place  # type: ignore[attr-defined]

    old, new = (contents(*made([name])[:2]) for name in ("id", "v"))
    assert old != new
    assert old.keys() == new.keys()
    for number, again in itertools.product(range(1, 99), (0, 2, 5, 8, 11, 14)):
        storage, path, place = made(["id"])
        asked = ExportOptions(to=place, partitioned=True, overwrite=True)
        mortal = _Mortal(storage._objects, number)
        with suppress(UnreachableError):
            export(seen, asked, Chosen(("v",)), ObjectStorage(mortal, storage.facts), path)
        with suppress(UnreachableError):  # the run that is to put it right may be killed too
            Target(ObjectStorage(_Mortal(storage._objects, again), storage.facts), path, folder=True, overwrite=True)
        Target(storage, path, folder=True, overwrite=True)
        assert contents(storage, path) in (old, new)
        assert not [info.path for info in storage.walk(path.rpartition("/")[0]).files if ".acidctl-old" in info.path]
        if mortal.alive:
            return
    pytest.fail("never whole")


@pytest.mark.slow
@pytest.mark.parametrize("to", ["rows.parquet", "parts/"])
def test_a_killed_export_leaves_hidden_names_only(to: str, tmp_path: Path) -> None:
    """The whole file is there, and not read back yet."""
    command = [sys.executable, "-c", _DIES, str(PARTITIONED), f"{tmp_path}/{to}"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    left = sorted(path.name for path in tmp_path.iterdir())
    assert all(name.startswith(f".{to.rstrip('/')}.") for name in left)
    assert [name.rpartition(".")[2] for name in left] == ["owner", "part"]
    seen = acidctl.open_table(str(PARTITIONED)).snapshot()
    report = seen.export(f"{tmp_path}/{to}", partitioned=to.endswith("/"))
    assert [note for note in report["notes"] if "removed" in note and left[1] in note]
    assert [path.name for path in tmp_path.iterdir()] == [to.rstrip("/")]


@pytest.mark.slow
def test_exports_that_are_killed_at_random_moments(tmp_path: Path) -> None:
    """The target is the old or the new, the next run succeeds, and nothing hidden is left after it."""
    found = campaign(tmp_path, 8, seed=20261)
    assert found["kills"] == found["left nothing"] + found["left something"] == 8
