"""acidctl against a second, slow reader: fixture tables by Hive, and random tables with everything that Hive writes."""

from __future__ import annotations

import json
import shutil
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyorc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acidctl import open_table
from acidctl.errors import NotEnoughHistoryError
from acidctl.format.write_ids import ValidWriteIds
from acidctl.rows.snapshot import Snapshot
from acidctl.types.format_rows import json_lines
from tests import ROOT
from tests.support.slow_reader import CONVERTERS, DELETE, Event, NotEnoughHistory, Row, as_json, moment, read, struct_of

# Both readers are given rows of one id as well.
pytestmark = pytest.mark.filterwarnings("ignore::acidctl.AcidctlWarning")

TABLES = ROOT / "fixtures" / "tables"
# Hive's own rows are compared elsewhere; here are tables whose columns the slow reader knows.
SAMPLE = (
    "hive4/bucketed",
    "hive4/converted",
    "hive4/converted_union",
    "hive4/half_compacted",
    "hive4/load_data",
    "hive4/multi_statement",
    "hive4/overwrite_aborted",
    "hive4/streaming",
    "hive4/insert_only",
    "hive3/converted_unbucketed",
    "hive3/streaming",
    "hive3/delete_all",
    "hive2/v1_multi_statement",
    "hive2/v1_open_aborted",
)
STEPS = [step for name in SAMPLE for step in sorted((TABLES / name).glob("*/step.json"))]

# A table of today and the same before a column was added, one widened and a field added within a struct.
NEW = "struct<a:bigint,t:timestamp,n:struct<x:int,y:timestamp>,l:array<timestamp>,m:map<string,bigint>,u:{u},z:string>"
OLD = "struct<a:int,t:timestamp,n:struct<x:int>,l:array<timestamp>,m:map<string,int>,u:{u}>"
UNIONS = ("uniontype<int,string>", "uniontype<int,timestamp>")
NARROW = [(0, 0), (-1, 500_000_000), (1_790_000_000, 1), (-9_000_000_000, 0)]
WIDE = [(-62_000_000_000, 0), (250_000_000_000, 999_999_999), (5, 7)]
BUCKETS = (536870912, 536870913, 536936448, 0, 1)
ROW_NUMBERS = (0, 1, 2, 3, 4, 7, -3, 2**40, 2**62, -(2**62))
# Single rows, batches beside which some files are small, and all at once.
SIZES = (1, 32, 65536)
EXAMPLES = 20


def write_orc(path: Path, schema: str, rows: list[Any], *, indexed: bool = True) -> None:
    """Write one ORC file of small stripes; without row index there are no statistics to trust."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        # Small stripes need small batches, of which pyorc loses unions.
        options: dict[str, Any] = {"stripe_size": 1024, "batch_size": 1024 if "union" in schema else 2}
        options["row_index_stride"] = 1000 if indexed else 0
        with pyorc.Writer(stream, schema, converters=CONVERTERS, **options) as writer:
            writer.writerows(rows)


def write_events(path: Path, columns: str, stored: list[Event], *, indexed: bool = True, lower: bool = False) -> None:
    """Write events as Hive does: in key order, of one key the newest first."""
    names = "operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row"
    schema = f"struct<{names.lower() if lower else names}:{columns}>"
    stored = sorted(stored, key=lambda e: (e.key, -e.current, -e.operation))
    rows = [(e.operation, *e.key, e.current, e.values if e.values is None else tuple(e.values)) for e in stored]
    write_orc(path, schema, rows, indexed=indexed)


class Maker:
    """Draws one table into a directory."""

    def __init__(self, draw: st.DrawFn, root: Path) -> None:
        self.draw = draw
        self.root = root
        self.union = draw(st.sampled_from(["string", *UNIONS]))
        self.columns = NEW.format(u=self.union)
        self.old = OLD.format(u=self.union)

    def flip(self, chances: int = 2) -> bool:
        """True once in so many times."""
        return self.draw(st.integers(0, chances - 1)) == chances - 1

    def rows(self, count: int, *, old: bool) -> list[list[Any]]:
        """So many rows of values, of the old columns or of today's; moments are all ordinary, or some are not."""
        draw, pool = self.draw, WIDE if self.flip(3) else NARROW
        moments = st.none() | st.sampled_from(pool)
        made: list[list[Any]] = []
        for _ in range(count):
            number = draw(st.none() | st.integers(-5, 5))
            if not draw(st.booleans()):
                made.append([number, draw(moments), *[None] * (4 if old else 5)])
                continue
            member = (number,) if old else (number, draw(moments))
            seconds = draw(moments)
            plain: dict[str, list[int | str | None]] = {"string": ["x", None], UNIONS[0]: [1, "é", None]}
            union: Any = draw(st.sampled_from(plain.get(self.union, [1])))
            if self.union == UNIONS[1] and seconds:
                union = seconds
            values = [number, draw(moments), member, draw(st.lists(moments, max_size=2)), {"k": number}, union]
            made.append(values if old else [*values, draw(st.sampled_from(["z", "", None]))])
        return made

    def events(self, path: Path, keys: list[tuple[int, int, int, int, int]]) -> None:
        """A file of events (operation, write id, bucket, row number, current); sometimes empty, bare or old."""
        old = self.flip(3)
        rows = self.rows(len(keys), old=old)
        stored = [
            Event(op, (w, b, r), current, None if op == DELETE else values)
            for (op, w, b, r, current), values in zip(keys, rows, strict=True)
        ]
        columns = self.old if old else self.columns
        write_events(path, columns, stored, indexed=not self.flip(3), lower=self.flip(4))

    def plain(self, path: Path) -> None:
        """A file without ACID columns: of no bytes, no rows or some."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if self.flip(6):
            path.touch()
            return
        old = self.flip(3)
        rows = self.rows(self.draw(st.integers(0, 3)), old=old)
        schema = self.old if old else self.columns
        write_orc(path, schema, [tuple(r) for r in rows], indexed=not self.flip(3))

    def inserts(self, low: int, high: int, most: int = 5) -> list[tuple[int, int, int, int, int]]:
        """Keys of inserts by writes `low` to `high`."""
        buckets, numbers = st.sampled_from(BUCKETS), st.sampled_from(ROW_NUMBERS)
        keys = self.draw(st.lists(st.tuples(st.integers(low, high), buckets, numbers), max_size=most))
        return [(0, w, b, r, w) for w, b, r in keys]

    def deletes(self, low: int, high: int) -> list[tuple[int, int, int, int, int]]:
        """Delete events by writes `low` to `high` of rows that may exist: of originals, of any bucket, of any write."""
        buckets, numbers = st.sampled_from(BUCKETS), st.sampled_from(ROW_NUMBERS)
        drawn = st.tuples(st.integers(0, high), buckets, numbers, st.integers(low, high))
        return [(2, w, b, r, max(w, c)) for w, b, r, c in self.draw(st.lists(drawn, min_size=1, max_size=8))]

    def originals(self, *, copies: bool = True) -> None:
        """Files from before the conversion."""
        names = ["000000_0", "000001_0"]
        if copies:
            names += ["000001_3"]
            names += ["000000_0_copy_1", "000000_0_copy_10", "000000_0_copy_2"]
            names += ["HIVE_UNION_SUBDIR_1/000000_0", "HIVE_UNION_SUBDIR_2/000001_0"]
        for name in self.draw(st.lists(st.sampled_from(names), unique=True, max_size=5)):
            self.plain(self.root / name)

    def base(self, write_id: int) -> None:
        """A base: of a compaction by Hive 3 or 4, an overwrite, or files as they were loaded."""
        kind = self.draw(st.sampled_from(["marker", "visible", "overwrite", "raw"]))
        directory = self.root / f"base_{write_id:07}{'_v0000012' if kind == 'visible' else ''}"
        directory.mkdir()
        if kind == "marker":
            (directory / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
        for bucket in self.draw(st.lists(st.integers(0, 2), unique=True, max_size=2)):
            if kind == "raw":
                self.plain(directory / f"{bucket:06}_0")
            else:
                low = write_id if kind == "overwrite" else 0
                self.events(directory / f"bucket_{bucket:05}", self.inserts(low, write_id, 8))

    def delta(self, low: int, high: int) -> None:
        """Directories of writes `low` to `high`: statements, loaded files, streaming ingest or a minor compaction."""
        if low < high:
            suffix = "_v0000013" if self.flip() else ""
            if self.flip(3):
                name = f"delete_delta_{low:07}_{high:07}{suffix}"
                self.events(self.root / name / f"bucket_{self.draw(st.integers(0, 2)):05}", self.deletes(low, high))
            path = self.root / f"delta_{low:07}_{high:07}{suffix}" / "bucket_00000"
            self.events(path, self.inserts(low, high, 8))
            if not suffix and self.flip():
                self.tear(path)
            return
        for statement in range(self.draw(st.integers(0, 2))):
            bucket = self.draw(st.integers(0, 2))
            if self.flip():
                name = f"delete_delta_{low:07}_{low:07}_{statement:04}"
                self.events(self.root / name / f"bucket_{bucket:05}", self.deletes(low, low))
            directory = self.root / f"delta_{low:07}_{low:07}_{statement:04}"
            if self.flip(4):
                self.plain(directory / f"{bucket:06}_0")
            else:
                attempt = "_1" if self.flip() else ""
                self.events(directory / f"bucket_{bucket:05}{attempt}", self.inserts(low, low))

    def tear(self, path: Path) -> None:
        """What a writer of streaming ingest leaves when it dies: bytes after the last commit, perhaps no commit."""
        data = path.read_bytes()
        lengths = self.draw(st.sampled_from([[0], [0, len(data)], [3, len(data)]]))
        path.write_bytes(data + data[:40])
        side = b"".join(struct.pack(">q", n) for n in lengths) + self.draw(st.sampled_from([b"", b"\0\0\7"]))
        path.with_name(f"{path.name}_flush_length").write_bytes(side)

    def lists(self) -> ValidWriteIds:
        """A reader's list: some writes open, some aborted, some still to come."""
        states = self.draw(st.lists(st.sampled_from("ccccao"), min_size=8, max_size=8))
        high = self.draw(st.integers(4, 8))
        open_ = [i + 1 for i, s in enumerate(states) if s == "o" and i < high]
        aborted = [i + 1 for i, s in enumerate(states) if s == "a" and i < high]
        texts = (",".join(map(str, ids)) for ids in (open_, aborted))
        return ValidWriteIds.parse(f"db.t:{high}:{min(open_, default=2**63 - 1)}:{':'.join(texts)}")


def rows_of(seen: Snapshot, size: int) -> list[tuple[Any, list[Any]]]:
    """(row id, values) of all rows, in acidctl's order."""
    found: list[tuple[Any, list[Any]]] = []
    for rows in seen.rows(batch_rows=size):
        assert 0 < rows.count <= size
        names, types, columns = rows.with_row_id()
        lines = bytes(json_lines(columns, names, types)).decode().split("\n")[:-1]
        for line in lines:
            row = json.loads(line)
            row_id = row.pop("ROW__ID")
            found.append((tuple(row_id.values()) if row_id else None, list(row.values())))
    return found


def in_order(rows: list[tuple[Any, list[Any]]]) -> list[str]:
    """Rows as texts in an order of their own."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def check(root: Path, ids: ValidWriteIds, columns: str, sizes: tuple[int, ...] = SIZES, **kind: bool) -> list[Row]:
    """Hold acidctl against the slow reader: rows, their order, row ids, the count; returns the rows."""
    table_type = "insert-only" if kind.get("insert_only") else "full"
    view: dict[str, Any] = {"validtxns": [ids.format()], "schema": columns, "table_type": table_type}
    if kind.get("acid_v1"):
        view["list_format"] = "hive2"
        view["validtxns"] = [v1_text(ids)]
    try:
        want = read(root, ids, columns, **kind)
    except NotEnoughHistory:
        with pytest.raises(NotEnoughHistoryError):
            open_table(str(root)).snapshot(**view)
        return []
    kinds = struct_of(pyorc.TypeDescription.from_string(columns))
    types = [kinds[name] for name in kinds.fields]
    expected = [(row.key, [as_json(v, t) for v, t in zip(row.values, types, strict=True)]) for row in want]
    for size in sizes:
        seen = open_table(str(root)).snapshot(**view)
        got = rows_of(seen, size)
        assert [key for key, _ in got] == [key for key, _ in expected]
        assert in_order(got) == in_order(expected)
    assert open_table(str(root)).snapshot(**view).count() == len(want)
    for at, name in ((6, "z"), (2, "n")) if "z" in kinds.fields else ():
        there = [value for rows in seen.rows([name]) for value in rows.columns[0].is_valid().to_pylist()]
        assert sum(there) == sum(values[at] is not None for _, values in expected)
    return want


def v1_text(ids: ValidWriteIds) -> str:
    """The list as Hive 2 writes it for its transactions."""
    exceptions = "".join(f":{i}" for i in ids.exceptions)
    return f"{ids.high_watermark}:{min(ids.open, default=2**63 - 1)}{exceptions or ':'}"


def from_v1(text: str) -> ValidWriteIds:
    """The transactions of Hive 2 as write ids; what is excepted below the lowest open one is aborted."""
    high, lowest, *exceptions = text.split(":")
    open_ = [e for e in exceptions if e and int(e) >= int(lowest)]
    aborted = [e for e in exceptions if e and e not in open_]
    return ValidWriteIds.parse(f"db.t:{high}:{lowest}:{','.join(open_)}:{','.join(aborted)}")


def digest(root: Path, columns: str, **view: Any) -> str:
    """The digest of all that a reader sees."""
    return open_table(str(root)).snapshot(schema=columns, **view).digest()


@st.composite
def full_tables(draw: st.DrawFn) -> tuple[Maker, ValidWriteIds]:
    """A full ACID table of format version 2."""
    maker = Maker(draw, Path(tempfile.mkdtemp(prefix="slow")))
    if maker.flip():
        maker.originals()
    write_id = 1
    if maker.flip():
        write_id = draw(st.integers(1, 5))
        maker.base(write_id)
        write_id += 1
    while write_id <= 8:
        high = min(8, write_id + (draw(st.integers(1, 3)) if maker.flip(3) else 0))
        maker.delta(write_id, high)
        write_id = high + 1
    (maker.root / "_orc_acid_version").write_bytes(b"2")
    return maker, maker.lists()


@st.composite
def old_tables(draw: st.DrawFn) -> tuple[Maker, ValidWriteIds]:
    """A table of ACID version 1: inserts, updates and deletes of one row lie in whatever statement made them."""
    maker = Maker(draw, Path(tempfile.mkdtemp(prefix="slow")))
    if maker.flip():
        maker.originals(copies=False)
    files: dict[tuple[int, int, int], list[tuple[int, int, int, int, int]]] = {}
    drawn = st.tuples(st.integers(0, 6), st.integers(0, 1), st.integers(0, 4))
    for write_id, bucket, number in draw(st.lists(drawn, unique=True, max_size=12)):
        # Each event is of a later statement than the one before: of the same transaction, or of a later one.
        current, statement = write_id, 0
        for operation in draw(st.sampled_from([(0,), (0, 1), (0, 2), (0, 1, 1), (0, 1, 2), (0, 1, 1, 2)])):
            if operation:
                step = draw(st.integers(0, 2))
                statement = 0 if step else statement + 1
                current += step
            if current:
                # Rows of write 0 are those of the original files.
                place = files.setdefault((current, statement, bucket), [])
                place.append((operation, write_id, bucket, number, current))
    for (current, statement, bucket), keys in files.items():
        name = f"delta_{current:07}_{current:07}_{statement:04}"
        maker.events(maker.root / name / f"bucket_{bucket:05}", keys)
    (maker.root / "_orc_acid_version").write_bytes(b"\0\0\0\0")
    return maker, maker.lists()


@st.composite
def insert_only_tables(draw: st.DrawFn) -> tuple[Maker, ValidWriteIds]:
    """A table whose files have no ACID columns and whose rows have no ids."""
    maker = Maker(draw, Path(tempfile.mkdtemp(prefix="slow")))
    for write_id in range(1, 6):
        kind = draw(st.sampled_from(["base", "delta", "delta", "union", "none"]))
        name = f"base_{write_id:07}" if kind == "base" else f"delta_{write_id:07}_{write_id:07}_0000"
        for number in range(draw(st.integers(1, 2)) if kind != "none" else 0):
            inner = f"HIVE_UNION_SUBDIR_{number}/000000_0" if kind == "union" else f"{number:06}_0"
            maker.plain(maker.root / name / inner)
    return maker, maker.lists()


bounded = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@pytest.mark.slow
@bounded
@given(full_tables())
def test_a_full_table_is_read_as_the_slow_reader_does(made: tuple[Maker, ValidWriteIds]) -> None:
    """Any mix of directories and files gives the same rows for any batch size; a rewrite has the same digest."""
    maker, ids = made
    with removed(maker.root):
        want = check(maker.root, ids, maker.columns)
        if want:
            seen = digest(maker.root, maker.columns, validtxns=[ids.format()], table_type="full")
            assert digest(rewritten(maker, want), maker.columns) == seen


@pytest.mark.slow
@bounded
@given(old_tables())
def test_a_table_of_acid_version_1_is_read_as_the_slow_reader_does(made: tuple[Maker, ValidWriteIds]) -> None:
    """The newest visible event of a row wins, of one transaction that of the last statement."""
    maker, ids = made
    with removed(maker.root):
        check(maker.root, ids, maker.columns, acid_v1=True)


@pytest.mark.slow
@bounded
@given(insert_only_tables())
def test_an_insert_only_table_is_read_as_the_slow_reader_does(made: tuple[Maker, ValidWriteIds]) -> None:
    """Directories are seen whole, rows have no ids."""
    maker, ids = made
    with removed(maker.root):
        check(maker.root, ids, maker.columns, insert_only=True)


@pytest.mark.slow
@pytest.mark.parametrize("path", STEPS, ids=lambda path: str(path.parent.relative_to(TABLES)))
def test_a_fixture_is_read_as_the_slow_reader_does(path: Path, tmp_path: Path) -> None:
    """Tables that Hive made give the same rows to both readers."""
    step = json.loads(path.read_text())
    root = tmp_path / "table"
    shutil.copytree(path.parent / "table", root)
    for name in step["empty_directories"]:
        (root / name).mkdir(parents=True, exist_ok=True)
    columns = f"struct<{','.join(field.replace(' ', ':', 1) for field in step['columns'].split(', '))}>"
    acid_v1 = step["engine"] == "hive2"
    ids = from_v1(step["valid_txns"]) if acid_v1 else ValidWriteIds.parse(step["valid_write_ids"])
    check(root, ids, columns, (3,), insert_only=step["kind"] == "insert_only", acid_v1=acid_v1)


@pytest.mark.slow
def test_a_null_union_with_a_moment_of_any_year_takes_none_of_its_nanoseconds(tmp_path: Path) -> None:
    """Arrow's arrays have something in the slots of NULL unions; the file has not."""
    values = [None, 1, WIDE[1], None, WIDE[0], None]
    write_orc(tmp_path / "000000_0", f"struct<u:{UNIONS[1]}>", [(value,) for value in values])
    seen = [row[0] for _, row in rows_of(open_table(str(tmp_path)).snapshot(), 10)]
    assert [value and value["value"] for value in seen] == [None, 1, moment(*WIDE[1]), None, moment(*WIDE[0]), None]


@pytest.mark.slow
def test_no_row_of_acid_version_1_hides_one_of_another_file(tmp_path: Path) -> None:
    """Two original files of one bucket number their rows alike; all are returned, and events hit the first file."""
    write_orc(tmp_path / "000000_0", "struct<a:int>", [(1,), (2,)])
    write_orc(tmp_path / "000000_1", "struct<a:int>", [(3,), (4,)])
    delta = tmp_path / "delta_0000005_0000005_0000" / "bucket_00000"
    write_events(delta, "struct<a:int>", [Event(DELETE, (0, 0, 0), 5, None)])
    seen = open_table(str(tmp_path)).snapshot(validtxns="5:9223372036854775807::", list_format="hive2")
    assert rows_of(seen, 10) == [((0, 0, 1), [2]), ((0, 0, 0), [3]), ((0, 0, 1), [4])]
    assert seen.count() == 3


def rewritten(maker: Maker, rows: list[Row]) -> Path:
    """The same rows as one base, in a table of its own."""
    root = maker.root / "_rewritten"
    stored = [Event(0, row.key, row.key[0], row.values) for row in rows if row.key]
    write_events(root / "base_0000009" / "bucket_00000", maker.columns, stored)
    return root


@contextmanager
def removed(root: Path) -> Iterator[None]:
    """Remove the directory after the block."""
    try:
        yield
    finally:
        shutil.rmtree(root)
