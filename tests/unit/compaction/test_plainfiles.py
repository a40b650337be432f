"""Files of insert-only tables, put together: the same lines and rows, and what is refused."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from acidctl import open_table
from acidctl.compaction import stripes
from acidctl.compaction import task as plainfiles
from acidctl.compaction.attempts import Attempt
from acidctl.compaction.plan import InputEntry, PlannedTask, Role, TableFacts, TaskResult, TaskSpec, WriterSettings
from acidctl.compaction.task import renamed, run_task
from acidctl.errors import DamagedDataError, NotAcidTableError, VerificationError
from acidctl.format.listing import FileInfo
from acidctl.orc.reader import open_orc
from acidctl.orc.stitch import Stitcher, StoredStripe
from acidctl.types.schema import parse_schema
from tests.support.orc_events import EventBatch, keys, read_all
from tests.support.orc_events import written as orc_written
from tests.support.specs import WORK


def spec_of(root: Path, contents: list[bytes], form: str, ending: str = "") -> TaskSpec:
    """A task over one file per delta, written here."""
    role = Role.BYTES if form == "text" else Role.ROWS
    entries = []
    for number, data in enumerate(contents, 1):
        name = f"delta_{number:07}_{number:07}_0000"
        path = f"{name}/000000_0{ending}"
        (root / name).mkdir(parents=True)
        (root / path).write_bytes(data)
        entries.append(InputEntry(name, "delta", number, number, (FileInfo(path, len(data)),)))
    (root / WORK / "attempts").mkdir(parents=True)
    files = tuple(info.path for entry in entries for info in entry.files)
    task = PlannedTask(role, f"base_0000009/000000_0{ending}", 0, files)
    table = TableFacts("insert_only", False, "", "struct<a:int>", "hive4", form)
    return TaskSpec(str(root), WORK, table, task, tuple(entries))


def written(root: Path, result: TaskResult) -> bytes:
    assert result.path is not None
    return (root / WORK / result.path).read_bytes()


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
def test_text(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines stay lines: a file that does not end its last one is not run into the next; no bytes are no line."""
    monkeypatch.setattr(plainfiles, "CHUNK", chunk)
    spec = spec_of(tmp_path, [b"1\x01a\n2\x01b", b"", b"\n", b"3\xff\r\n"], "text")
    result = run_task(spec)
    assert written(tmp_path, result) == b"1\x01a\n2\x01b\n\n3\xff\r\n"
    assert (result.rows, result.bytes) == (4, 13)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_gzip(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of all files follow one another, and what they expand to is lines."""
    monkeypatch.setattr(plainfiles, "CHUNK", chunk)
    contents = [gzip.compress(b"1\n2"), gzip.compress(b"3\n") + gzip.compress(b"4"), gzip.compress(b"")]
    result = run_task(spec_of(tmp_path, contents, "text", ".gz"))
    assert gzip.decompress(written(tmp_path, result)) == b"1\n2\n3\n4\n"
    assert result.rows == 4


@pytest.mark.parametrize(
    ("contents", "ending", "said"),
    [
        ([gzip.compress(b"1\n" * 99)[:-9]], ".gz", "not gzip to its end: it stops in the middle"),
        ([b"1\n"], ".gz", "not gzip to its end"),
        ([b"BZh9"], ".bz2", "is not compressed as"),
    ],
)
def test_text_that_is_refused(contents: list[bytes], ending: str, said: str, tmp_path: Path) -> None:
    """What cannot be concatenated is an error, and leaves nothing."""
    with pytest.raises(DamagedDataError, match=said):
        run_task(spec_of(tmp_path, contents, "text", ending))
    assert not list((tmp_path / WORK / "attempts").iterdir())


def test_text_that_arrives_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte that changed on its way to the storage does not pass."""
    monkeypatch.setattr(Attempt, "open", lambda self: io.BytesIO(b"1\n3\n"))
    with pytest.raises(VerificationError, match="does not hold the bytes"):
        run_task(spec_of(tmp_path, [b"1\n", b"2\n"], "text"))


def parquet(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, store_schema=False, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()})
    return sink.getvalue()


def parquet_rows(count: int, zone: str = "UTC") -> pa.Table:
    """Types that Hive has, with what its writer says of times."""
    columns = {
        "a": pa.array([n or None for n in range(count)], pa.int32()),
        "t": pa.array([f"text {n}" for n in range(count)], pa.string()),
        "d": pa.array([Decimal(n) / 100 for n in range(count)], pa.decimal128(38, 2)),
        "m": pa.array([n * 10**9 + 1 for n in range(count)], pa.timestamp("ns")),
        "l": pa.array([[n, None] for n in range(count)], pa.list_(pa.field("array_element", pa.int64()))),
        "p": pa.array([[("k", n)] for n in range(count)], pa.map_(pa.string(), pa.int32())),
        "s": pa.array(
            [{"x": n % 100, "y": None} for n in range(count)], pa.struct([("x", pa.int8()), ("y", pa.date32())])
        ),
    }
    return pa.table(columns).replace_schema_metadata({"writer.time.zone": zone, "other": "x"})


def test_parquet(tmp_path: Path) -> None:
    """Rows of all files in their order, one schema, old timestamps, the codec and what Hive reads times by kept."""
    tables = [parquet_rows(3), parquet_rows(10_000), parquet_rows(0)]
    options = {"use_deprecated_int96_timestamps": True, "compression": "gzip", "use_compliant_nested_type": False}
    result = run_task(spec_of(tmp_path, [parquet(table, **options) for table in tables], "parquet"))
    file = pq.ParquetFile(io.BytesIO(written(tmp_path, result)))
    wanted = pa.concat_tables(tables)
    assert file.read().cast(wanted.schema).equals(wanted)
    assert file.schema_arrow.field("l").type == wanted.schema.field("l").type
    assert result.rows == 10_003
    assert file.metadata.metadata[b"writer.time.zone"] == b"UTC"
    assert file.schema.column(3).physical_type == "INT96"
    assert file.metadata.row_group(0).column(0).compression == "GZIP"
    assert file.metadata.num_row_groups == 1


MR = "parquet-mr version 1.13.1 (build db4183109d5b734ec5930d870cdae161e408ddba)"


def test_parquet_of_hives_own_writer(tmp_path: Path) -> None:
    """Its name stays, since Hive reads timestamps by it; versions may differ, other writers' files stay apart."""
    options = {"use_deprecated_int96_timestamps": True}
    mine = parquet(parquet_rows(20_000), **options)
    theirs = [renamed(mine, MR), renamed(parquet(parquet_rows(3), **options), "parquet-mr version 1.10")]
    result = run_task(spec_of(tmp_path / "same", theirs, "parquet"))
    data = written(tmp_path / "same", result)
    assert pq.read_metadata(io.BytesIO(data)).created_by == MR
    wanted = pa.concat_tables([parquet_rows(20_000), parquet_rows(3)])
    assert pq.read_table(io.BytesIO(data)).cast(wanted.schema).equals(wanted)
    with pytest.raises(NotAcidTableError, match="in how it stores times"):
        run_task(spec_of(tmp_path / "mixed", [theirs[0], mine], "parquet"))


@pytest.mark.parametrize("name", ["", "a", "x" * 300])
@pytest.mark.parametrize("rows", [0, 5000])
@pytest.mark.parametrize("columns", [1, 40])
def test_another_name_in_a_footer(columns: int, rows: int, name: str) -> None:
    """Whatever the footer holds besides, and however long the name is."""
    arrow = f"parquet-cpp-arrow version {pa.cpp_version}"
    table = pa.table({f"c{n}": [True] * rows for n in range(columns)}).replace_schema_metadata({"k": arrow})
    data = parquet(table)
    changed = renamed(data, name)
    file = pq.ParquetFile(io.BytesIO(changed))
    assert (file.metadata.created_by, file.metadata.metadata) == (name, {b"k": arrow.encode()})
    assert file.read().equals(table.replace_schema_metadata())


def test_moments_before_1970_are_exact(tmp_path: Path) -> None:
    """A part of a microsecond, counted from below."""
    moments = pa.table({"m": pa.array([-1, -1001, 10**9 - 1, -(10**18) - 1], pa.timestamp("ns"))})
    data = parquet(moments, use_deprecated_int96_timestamps=True)
    result = run_task(spec_of(tmp_path, [data, data], "parquet"))
    assert pq.read_table(io.BytesIO(written(tmp_path, result))).equals(pa.concat_tables([moments, moments]))


def test_parquet_that_is_refused(tmp_path: Path) -> None:
    """Other zones, other columns, moments that Arrow would wrap, and no Parquet at all."""
    good = parquet(parquet_rows(2))
    cases = [
        ([good, parquet(parquet_rows(2, "Asia/Tokyo"))], "in how it stores times"),
        ([good, parquet(parquet_rows(2).drop_columns(["a"]))], "in its columns"),
        ([good, good[:-20]], "cannot be read as Parquet"),
        ([int96()], "outside of the years 1677 to 2262"),
    ]
    for number, (contents, said) in enumerate(cases):
        root = tmp_path / str(number)
        # Only the file that is cut short is damaged.
        with pytest.raises(DamagedDataError if "cannot be read" in said else NotAcidTableError, match=said):
            run_task(spec_of(root, contents, "parquet"))
        assert not list((root / WORK / "attempts").iterdir())


def int96() -> bytes:
    """The file as Hive stores a moment of any year; Arrow writes none such, so its day is put in by hand."""
    marked = pa.table({"m": pa.array([0], pa.timestamp("ns"))})
    data = parquet(marked, use_deprecated_int96_timestamps=True, compression="none", use_dictionary=False)
    epoch, far = (2440588).to_bytes(4, "little"), (2268923).to_bytes(4, "little")
    assert data.count(epoch) == 1
    return data.replace(epoch, far)


@pytest.mark.parametrize("buckets", [1, 2])
def test_the_report_of_text(buckets: int, tmp_path: Path) -> None:
    """Bytes have a digest of bytes, whatever the number of files."""
    for number in (1, 2):
        delta = tmp_path / f"delta_{number:07}_{number:07}_0000"
        delta.mkdir()
        for bucket in range(buckets):
            (delta / f"{bucket:06}_0").write_bytes(b"%d\n" % number)
    report = open_table(str(tmp_path)).compact(
        "major", assume_committed=True, table_type="insert-only", schema="a int", engine="local"
    )
    (part,) = report.partitions
    assert (part.outcome.value, part.rows_out, part.files_out) == ("compacted", 2 * buckets, buckets)
    assert part.verified is not None
    assert part.verified.digest.startswith("sha256:")


# --- ORC: stripes of files of one form go over as they are.


def orc_file(numbers: range, **options: Any) -> bytes:
    """A file of rows without keys, in stripes of about a thousand rows."""
    batches = [
        EventBatch(keys(1000), (pa.array(range(start, min(start + 1000, numbers.stop)), pa.int32()),))
        for start in range(numbers.start, numbers.stop, 1000)
    ]
    columns = parse_schema("a int").columns
    return orc_written(batches, columns, acid=False, **{"stripe_size": 1 << 10, "compression": "none", **options})[0]


def test_orc_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the table's form go over byte for byte, one of another codec is written anew between them."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 1 << 40)
    contents = [orc_file(range(5000)), orc_file(range(5000, 7000), compression="snappy"), orc_file(range(7000, 9000))]
    spec = spec_of(tmp_path, contents, "orc")
    spec = replace(spec, table=replace(spec.table, writer=WriterSettings(compression="none")))
    result = run_task(spec)
    data = written(tmp_path, result)
    assert [row["a"] for row in read_all(data)] == list(range(9000))
    assert po.ORCFile(io.BytesIO(data)).read().column("a").to_pylist() == list(range(9000))
    first = open_orc(io.BytesIO(contents[0]), name="f").tail.stripes
    assert data[: first[-1].end] == contents[0][: first[-1].end]
    counts = result.stripes
    assert (counts.copied_rows, dict(counts.reasons)) == (7000, {"compression": 1})
    assert result.rows == result.rows_in == 9000


@pytest.mark.parametrize("lost", [False, True])
def test_wrong_copies_of_orc_files_are_refused(lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second stripe is not what was read of its source, or is left out."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 1 << 40)
    spec = spec_of(tmp_path, [orc_file(range(5000)), orc_file(range(5000, 9000))], "orc")
    spec = replace(spec, table=replace(spec.table, writer=WriterSettings(compression="none")))
    copy, calls = Stitcher.copy, list[int]()

    def wrong(self: Stitcher, one: StoredStripe, end: Any) -> str | None:
        calls.append(one.index)
        if len(calls) != 2:
            return copy(self, one, end)
        return None if lost else str(copy(self, one, end))[::-1]

    monkeypatch.setattr(Stitcher, "copy", wrong)
    with pytest.raises(VerificationError):
        run_task(spec)
