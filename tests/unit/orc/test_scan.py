"""Scans: the same rows whatever the batch size and the way they are asked for, and sound errors."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from threading import current_thread
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from acidctl.errors import DamagedDataError, StorageError
from acidctl.format.events import RowId
from acidctl.format.names import EVENT_FIELDS
from acidctl.orc import codec, reader
from acidctl.orc.acidmeta import AcidStats, parse_acid_stats, parse_key_index
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.stripe import StreamKind
from acidctl.types.digest import RowDigest
from acidctl.types.hive_types import Dialect
from tests.support.orc_files import EVENT, by_arrow, by_pyorc, fixture_files


def opened(data: bytes) -> OrcFile:
    """A file in memory."""
    return open_orc(io.BytesIO(data), name="f")


def rows_of(file: OrcFile, **options: Any) -> list[dict[str, Any]]:
    """All rows of a scan as Python values."""
    return [row for batch in file.scan(**options) for row in batch.to_pylist()]


def events(count: int, *, deletes: bool = False) -> bytes:
    """An event file; of a delete delta if asked for."""
    rows = [
        (2 if deletes else 0, 1, 536870912, i, 1, None if deletes else (i, f"name {i}", [i, None], (i * 0.5,)))
        for i in range(count)
    ]
    schema = f"struct<{EVENT},row:struct<id:int,v:string,l:array<int>,s:struct<x:double>>>"
    return by_pyorc(schema, rows, stripe_size=1 << 16, batch_size=100)


@pytest.mark.slow
def test_any_batch_size_gives_the_same_rows() -> None:
    """Batches are at most as large as asked for, and together always the same."""
    file = opened(events(300))
    expected = rows_of(file)
    assert len(expected) == 300
    for size in (1, 7, 100, 299, 1 << 20):
        assert max(len(batch) for batch in file.scan(batch_size=size)) <= size
        assert rows_of(file, batch_size=size) == expected


def test_event_columns_have_canonical_names() -> None:
    """The query-based compactor writes lower case; callers see one spelling."""
    lower = EVENT.lower()
    file = opened(by_pyorc(f"struct<{lower},row:struct<Id:int>>", [(0, 1, 536870912, 0, 1, (5,))]))
    assert file.is_acid
    assert file.schema.names == EVENT_FIELDS
    assert file.columns.names == ("Id",)
    (batch,) = file.scan()
    assert tuple(batch.schema.names) == EVENT_FIELDS


def test_other_columns_are_no_events() -> None:
    """Other names make an original file; an event's names with other types are damage."""
    assert not opened(by_pyorc("struct<id:int,v:string>", [])).is_acid
    wrong = EVENT.replace("rowId:bigint", "rowId:int")
    with pytest.raises(DamagedDataError, match="should hold ACID events"):
        opened(by_pyorc(f"struct<{wrong},row:struct<id:int>>", []))


def test_top_level_columns_are_projected_in_the_order_asked_for() -> None:
    """Keys alone can be read without the row."""
    file = opened(events(10))
    (batch,) = file.scan(["rowId", "operation"])
    assert batch.schema.names == ["rowId", "operation"]
    with pytest.raises(DamagedDataError, match="has no column 'nope'"):
        next(iter(file.scan(["nope"])))


@pytest.mark.parametrize("deletes", [False, True])
def test_single_fields_of_the_row(deletes: bool) -> None:
    """Any choice of fields is the same as reading all and leaving out, NULL rows of deletes included."""
    file = opened(events(500, deletes=deletes))
    whole = [row["row"] for row in rows_of(file)]
    names = file.columns.names
    for fields in ([0], [3, 1], [2], [0, 1, 2, 3], []):
        got = [row["row"] for row in rows_of(file, columns=["rowId", "row"], fields=fields)]
        wanted = [names[i] for i in fields]
        assert got == [None if row is None else {name: row[name] for name in wanted} for row in whole]


def test_fields_of_an_original_are_its_columns() -> None:
    """A file without events has just the columns asked for."""
    file = opened(by_arrow(pa.table({"a": [1, 2], "b": ["x", "y"], "c": [1.5, None]})))
    assert rows_of(file, fields=[2, 0]) == [{"c": 1.5, "a": 1}, {"c": None, "a": 2}]


def test_names_that_arrow_could_not_ask_for() -> None:
    """Dots, blanks, equal names and odd letters are names like any other."""
    table = pa.Table.from_arrays(
        [pa.array([1]), pa.array([2]), pa.array([3]), pa.array([4])], names=["a.b", "A", "a", "é `x"]
    )
    (batch,) = opened(by_arrow(table)).scan()
    assert batch.schema.names == ["a.b", "A", "a", "é `x"]
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    (batch,) = opened(by_arrow(twice)).scan()
    assert [batch.column(i).to_pylist() for i in range(2)] == [[1], [2]]


def test_nothing_to_read() -> None:
    """No rows give no batches; rows without columns still count."""
    assert rows_of(opened(by_pyorc("struct<id:int>", []))) == []
    empty = opened(by_pyorc("struct<>", [(), (), ()]))
    assert [len(batch) for batch in empty.scan(batch_size=2)] == [2, 1]


def test_text_that_is_no_utf8_survives() -> None:
    """Bytes come out as they are stored; nothing validates them."""
    raw = pa.array([b"\xff\xfe", b"ok", None, b"\xc3"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 4, raw.buffers())
    (batch,) = opened(by_arrow(pa.table({"v": text}))).scan()
    assert batch.column(0).type == pa.string()
    assert batch.column(0).cast(pa.binary()).to_pylist() == raw.to_pylist()


def test_char_is_trimmed() -> None:
    """ORC pads char values; nobody wants to see it."""
    assert rows_of(opened(by_pyorc("struct<c:char(5)>", [("ab",), ("",), (None,)]))) == [
        {"c": "ab"},
        {"c": ""},
        {"c": None},
    ]


def test_a_null_union_is_not_a_union_of_null() -> None:
    """Unions end in a null child, whose code marks those that are NULL themselves."""
    data = by_pyorc("struct<u:uniontype<int,string>>", [("x",), (None,), ("y",), (None,)])
    (batch,) = opened(data).scan()
    union = batch.column(0)
    union.validate(full=True)
    assert union.type_codes.to_pylist() == [1, 2, 1, 2]
    assert union.to_pylist() == ["x", None, "y", None]


def test_arrow_reads_the_same() -> None:
    """On all fixture files of modern values a scan equals a plain read by pyarrow."""
    for path in fixture_files("hive4/bucketed/*/table") + fixture_files("hive3/unbucketed/*/table"):
        file = opened(path.read_bytes())
        if not file.rows:
            continue
        plain = ds.dataset(path, format="orc").to_table()
        assert pa.Table.from_batches(file.scan()).to_pylist() == plain.to_pylist(), path


@pytest.mark.slow
def test_every_fixture_file_is_read() -> None:
    """Files of all engines and all shapes deliver as many valid rows as they promise."""
    files = [path for path in fixture_files() if not path.with_name(path.name + "_flush_length").exists()]
    assert len(files) > 300
    for path in files[::5]:
        file = opened(path.read_bytes())
        batches = list(file.scan(batch_size=3))
        for batch in batches:
            batch.validate()
        assert sum(map(len, batches)) == file.rows, path


def stripes() -> bytes:
    """A file of several stripes."""
    table = pa.table({"id": list(range(5000)), "v": [f"{i * 2654435761 % 2**32:032x}" for i in range(5000)]})
    return by_arrow(table, compression="zlib", stripe_size=1 << 14, batch_size=500)


@pytest.fixture
def inflated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Stripes of few rows are inflated in memory too; the numbers of those that were."""
    counts: list[int] = []
    usual = reader.PlainStripes.of

    def of(*args: Any) -> Any:
        found = usual(*args)
        counts.append(0 if found is None else len(found.footers))
        return found

    monkeypatch.setattr(reader, "FEW_ROWS", 0)
    monkeypatch.setattr(reader, "FEW_VALUES", 0)
    monkeypatch.setattr(reader.PlainStripes, "of", of)
    return counts


def test_inflated_stripes_hold_the_same_rows(inflated: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """As those that Arrow inflates: all types of Hive's writers, wide timestamps, NULL unions, rows of deletes."""
    files = [path.read_bytes() for path in fixture_files("hive*/types_*/*/table")]
    files += [stripes(), events(3000), events(3000, deletes=True)]

    def digests(data: bytes) -> list[str]:
        found = [RowDigest(), RowDigest()]
        for digest, size in zip(found, (7, 5000), strict=True):
            for batch in opened(data).scan(batch_size=size):
                digest.update(None, batch.columns)
        return [digest.hexdigest() for digest in found]

    found = [digests(data) for data in files]
    assert sum(inflated) > len(files)
    assert max(inflated) > 1
    monkeypatch.setattr(codec, "igzip", lambda: None)
    inflated.clear()
    assert found == [digests(data) for data in files]
    assert not sum(inflated)


@pytest.mark.parametrize(
    ("limit", "value", "expected"),
    [
        ("ENOUGH", 1, [1, 1]),
        ("MOST_STORED", 1000, [0]),
        ("MOST_PLAIN", 1000, [0]),
        # No room for the tail that Arrow is given.
        ("MOST_PLAIN", 170_000, [2]),
    ],
)
def test_only_stripes_that_fit_are_inflated(
    inflated: list[int], monkeypatch: pytest.MonkeyPatch, limit: str, value: int, expected: list[int]
) -> None:
    """One by one where one is enough; none where it is too large, compressed or not."""
    data = stripes()
    usual = rows_of(opened(data))
    inflated.clear()
    monkeypatch.setattr(reader, limit, value)
    assert rows_of(opened(data)) == usual
    assert inflated == expected


@pytest.mark.parametrize("beside", [True, False])
def test_a_second_thread_inflates_where_one_may(
    inflated: list[int], monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    """The same rows; who has every core at work says so."""
    monkeypatch.setattr(reader, "ENOUGH", 1)
    threads: set[str] = set()
    usual = reader._Image.inflate

    def inflate(*args: Any) -> Any:
        threads.add(current_thread().name)
        return usual(*args)

    monkeypatch.setattr(reader._Image, "inflate", inflate)
    before = reader.INFLATED_BESIDE.set(beside)
    try:
        assert len(rows_of(opened(stripes()))) == 5000
    finally:
        reader.INFLATED_BESIDE.reset(before)
    assert (len(threads) > 1) is beside


def test_inflated_stripes_are_checked(inflated: list[int]) -> None:
    """A chunk that is damaged, ends soon or holds more than a block is refused before Arrow sees anything of it."""
    data = events(3000)
    stream = opened(data).stripe_footers()[0].stream(StreamKind.DATA, 8)
    assert stream is not None
    for content, why in ((b"\xff" * 40, "runs past its section"), (b"\x10\x00\x00" + b"\xff" * 8, "is damaged")):
        wrong = data[: stream.offset] + content + data[stream.offset + len(content) :]
        with pytest.raises(DamagedDataError, match=f"damaged column 8: a compressed chunk {why}"):
            rows_of(opened(wrong))


def test_which_hive_wrote_it() -> None:
    """Hive 4 marks its calendar, Hive 3 and 2 do not."""
    for engine, dialect in (("hive4", Dialect.HIVE4), ("hive3", Dialect.HIVE3)):
        for path in fixture_files(f"{engine}/bucketed/*/table"):
            assert opened(path.read_bytes()).dialect is dialect


def test_keys_and_operations_from_statistics() -> None:
    """Bounds hold for every key; without a row index nothing is claimed."""
    file = opened(events(100))
    assert file.key_range() == (RowId(1, 536870912, 0), RowId(1, 536870912, 99))
    assert file.operations() == frozenset({0})
    assert opened(events(5, deletes=True)).operations() == frozenset({2})
    rows = [(0, 1, 536870912, 0, 1, (5,))]
    blind = opened(by_pyorc(f"struct<{EVENT},row:struct<id:int>>", rows, row_index_stride=0))
    assert (blind.key_range(), blind.operations()) == (None, None)


def test_key_index_and_counts() -> None:
    """User metadata of Hive's writers, and what is none of it."""
    assert parse_key_index(b"1,536870912,9;2,536870913,0;") == (RowId(1, 536870912, 9), RowId(2, 536870913, 0))
    assert parse_key_index(b"") == ()
    assert parse_key_index(b"1,2,3;;4,5,6;")[1] is None
    assert parse_acid_stats(b"5,0,3") == AcidStats(5, 0, 3)
    for bad in (b"1,2", b"a,b,c;", b"1,2,\xff"):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_key_index(bad)
        with pytest.raises(ValueError):  # noqa: PT011
            parse_acid_stats(bad)


def test_damage_in_the_middle_is_one_sentence() -> None:
    """Bytes overwritten in a stripe become DamagedDataError with the file's name."""
    data = bytearray(events(3000))
    data[200:1200] = b"\xff" * 1000
    with pytest.raises(DamagedDataError, match=r"^f ") as caught:
        rows_of(opened(bytes(data)))
    assert "\n" not in caught.value.message


def test_a_storage_that_fails_while_scanning() -> None:
    """What the storage says is not taken for damage, although Arrow stands between."""

    class Failing(io.BytesIO):
        healthy = True

        def read(self, size: int | None = -1, /) -> bytes:
            if not self.healthy:
                raise OSError("connection reset by peer")
            return super().read(size)

    raw = Failing(events(3000))
    file = open_orc(raw, name="f")
    file.stripe_footers()
    raw.healthy = False
    with pytest.raises(StorageError, match="connection reset by peer"):
        rows_of(file)


def test_no_time_zone_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timestamps of writers in UTC are read on machines without one."""
    data = by_pyorc("struct<t:timestamp>", [(1_600_000_000_123_456_789,)])
    expected = rows_of_wide(opened(data))
    monkeypatch.setenv("TZDIR", "/nonexistent")
    assert rows_of_wide(opened(data)) == expected == [(1_600_000_000, 123_456_789)]


def rows_of_wide(file: OrcFile) -> list[tuple[int, int]]:
    """The first column's timestamps as seconds and nanoseconds, whichever form they came in."""
    result = []
    for batch in file.scan():
        array = batch.column(0)
        if pa.types.is_struct(array.type):
            result += [(v["seconds"], v["nanos"]) for v in array.to_pylist()]
        else:
            result += [divmod(v, 10**9) for v in array.cast(pa.int64()).to_pylist()]
    return result


_ABANDON = """
import sys
from acidctl.orc.reader import open_orc
scan = open_orc(open(sys.argv[1], "rb"), name="f").scan(batch_size=10)
next(scan)
raise SystemExit(7)
"""


@pytest.mark.slow
def test_an_unfinished_scan_does_not_abort_the_process(tmp_path: Path) -> None:
    """Arrow's read-ahead thread must not meet an interpreter that is gone."""
    path = tmp_path / "bucket_00000"
    path.write_bytes(events(5000))
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", _ABANDON, str(path)], capture_output=True, check=False)
        assert (run.returncode, run.stderr) == (7, b"")


_MEASURE = """
import resource, sys
from acidctl.orc.reader import open_orc
file = open_orc(open(sys.argv[1], "rb"), name="f")
next(file.scan(batch_size=100))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(len(batch) for batch in file.scan())
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """A file of a hundred megabytes in one stripe is streamed in less than half of that."""
    path = tmp_path / "large.orc"
    table = pa.table({"v": pa.array([f"{i * 2654435761 % 2**64:064x}" for i in range(50_000)])})
    path.write_bytes(by_arrow(pa.concat_tables([table] * 32), compression="uncompressed", stripe_size=1 << 30,
                              dictionary_key_size_threshold=0.0))  # fmt: skip
    assert path.stat().st_size > 100_000_000
    run = subprocess.run([sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True)
    rows, grown_kb = map(int, run.stdout.split())
    assert rows == 1_600_000
    assert grown_kb < 50_000
