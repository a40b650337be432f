"""Stripes that a condition leaves out: never one with a row that matches, and as many others as statistics allow."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from acidctl import open_table
from acidctl.fileformats.parquet import ParquetFile
from acidctl.format.events import EventKeys
from acidctl.orc.calendar import hybrid_to_proleptic
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.stitch import StripeRun, stitch
from acidctl.orc.tail import Calendar
from acidctl.orc.writer import Backend
from acidctl.rows.conditions import in_partition, mask
from acidctl.rows.predicate import Column, leaves, parse
from acidctl.rows.snapshot import Snapshot
from acidctl.rows.stripes import RawIds, matching_stripes, rows_to_read
from acidctl.storage.local import LocalStorage
from acidctl.types.hive_types import Field, Primitive
from acidctl.types.schema import parse_schema
from tests.support.condition_rows import FIELDS, SCHEMA, arrays, random_condition
from tests.support.extent import amount, some
from tests.support.fuzz.orcbytes import OrcBytes
from tests.support.orc_events import EventBatch, keys, written
from tests.support.specs import delta, write_events
from tests.support.steps import STEPS, TABLES, Step

STRIPES, ROWS = 6, 3
FULL = [step for step in STEPS if step.transactional]


def stitched(parts: list[EventBatch], schema: str, *, acid: bool) -> bytes:
    """A file with a stripe of each part."""
    sink = io.BytesIO()
    columns = parse_schema(schema).columns
    files = [written([part], columns, acid=acid, backend=Backend.EXACT)[0] for part in parts]
    stitch(sink, [StripeRun.whole(io.BytesIO(data), name="part") for data in files])
    return sink.getvalue()


def kept(orc: OrcFile, text: str, fields: tuple[Field, ...], raw: RawIds | None = None) -> set[int]:
    """The stripes that are read for a condition."""

    def place(column: Column) -> int:
        return column.place

    found = matching_stripes(orc, parse(text, fields).root, place, raw, None)
    return {index for part in found for index in part}


@pytest.mark.parametrize("acid", [True, False])
def test_no_stripe_with_a_match_is_left_out(acid: bool) -> None:
    """Random conditions over files of random rows of every type; about half of what has no match is not read."""
    random = Random(17)
    left_out = without = 0
    for _ in range(amount(20, swept=200, sample=3)):
        places = [random.sample(range(12), ROWS) for _ in range(STRIPES)]
        parts = [
            EventBatch(keys(ROWS, start=ROWS * i), tuple(one.take(pa.array(some)) for one in arrays()))
            for i, some in enumerate(places)
        ]
        orc = open_orc(io.BytesIO(stitched(parts, SCHEMA, acid=acid)), name="f")
        raw = None if acid else RawIds(1, 536870912, 0)
        for _ in range(40):
            text = random_condition(random, 1)
            root = parse(text, FIELDS).root
            matches = set()
            for index, part in enumerate(parts):
                found = mask(root, dict(enumerate(part.columns)), part.keys, ROWS)
                matches |= {index} if found is None or found.any() else set()
            read = kept(orc, text, FIELDS, raw)
            assert matches <= read, text
            left_out += STRIPES - len(read)
            without += STRIPES - len(matches)
    assert left_out > without / 2


@pytest.mark.parametrize("acid", [True, False])
def test_a_stripe_is_read_up_to_its_last_match(acid: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of row groups: none after which one matches ends the reading, and a third of the rest is not read."""
    monkeypatch.setattr("acidctl.rows.stripes.FEW_ROWS", 0)
    random = Random(29)
    left_out = without = 0
    for _ in range(amount(20, swept=200, sample=3)):
        chosen = [place for _ in range(STRIPES) for place in random.sample(range(12), ROWS)]
        columns = tuple(one.take(pa.array(chosen)) for one in arrays())
        events = EventBatch(keys(len(chosen), start=5), columns)
        data, _ = written(
            [events], parse_schema(SCHEMA).columns, acid=acid, backend=Backend.EXACT, row_index_stride=ROWS
        )
        orc = open_orc(io.BytesIO(data), name="f")
        raw = None if acid else RawIds(1, 536870912, 5)
        for _ in range(40):
            root = parse(random_condition(random, 1), FIELDS).root
            found = mask(root, dict(enumerate(columns)), events.keys, len(events))
            last = len(events) if found is None else int(np.flatnonzero(found)[-1]) + 1 if found.any() else 0
            read = rows_to_read(orc, root, lambda column: column.place, raw, range(1))
            assert read is not None
            assert last <= read
            left_out += len(events) - read
            without += len(events) - last
    assert left_out > without / 3


def test_nan_that_statistics_hide_is_found() -> None:
    """A writer that meets NaN first notes no bounds, or those of other rows alone."""
    columns = pa.array([float("nan"), 100.0]), pa.array([1.0, 2.0])
    parts = [EventBatch(keys(2, start=2 * i), (column,)) for i, column in enumerate(columns)]
    orc = open_orc(io.BytesIO(stitched(parts, "d double", acid=True)), name="f")
    fields = (Field("d", Primitive(FIELDS[7].type.kind)),)
    assert kept(orc, "d > 50", fields) == {0}
    assert kept(orc, "d = 'NaN' or d < 0", fields) == {0}
    assert kept(orc, "d < 3", fields) == {0, 1}


def test_the_same_or_null_is_false_where_only_nulls_are() -> None:
    """`<=>` takes NULL for a value, so its opposite is true of stripes of NULLs alone, and NULL of none."""
    columns = pa.array([None, None], pa.int32()), pa.array([5, 5], pa.int32()), pa.array([7, None], pa.int32())
    parts = [EventBatch(keys(2, start=2 * i), (column,)) for i, column in enumerate(columns)]
    fields = (Field("i", Primitive(FIELDS[4].type.kind)),)
    for acid in (True, False):
        orc = open_orc(io.BytesIO(stitched(parts, "i int", acid=acid)), name="f")
        assert kept(orc, "NOT (i <=> 5)", fields) == {0, 2}
        assert kept(orc, "i <=> 5", fields) == {1}
        assert kept(orc, "NOT (i = 5)", fields) == {2}
        assert kept(orc, "NOT (i <=> 5) AND i IS NULL", fields) == {0, 2}
        assert kept(orc, "i <=> NULL", fields) == {0, 2}


def test_days_of_the_old_calendar_are_no_bounds() -> None:
    """Files that count them as Hive 2 did show another day: up to ten days before, or after, what is stored."""
    modern = 20_000
    for stored in (-171_500, -719_000, -150_000):
        shown = int(hybrid_to_proleptic(np.array([stored]))[0])
        assert shown != stored
        days = pa.array([stored], pa.int32()), pa.array([modern], pa.int32())
        parts = [EventBatch(keys(1, start=i), (day.cast(pa.date32()),)) for i, day in enumerate(days)]
        marked = OrcBytes(stitched(parts, "d date", acid=True))
        for node in marked.footer:
            if node[0] == 11:
                node[2] = Calendar.JULIAN_GREGORIAN.value
        orc = open_orc(io.BytesIO(marked.build()), name="f")
        assert orc.tail.is_hybrid
        fields = (Field("d", FIELDS[14].type),)
        old, new = (str(np.datetime64(day, "D")) for day in (shown, modern))
        assert kept(orc, f"d = DATE '{old}'", fields) == {0}
        assert kept(orc, f"d BETWEEN DATE '{old}' AND DATE '{old}'", fields) == {0}
        assert kept(orc, f"d = DATE '{new}'", fields) == {0, 1}


@pytest.mark.parametrize("name", ["01-loaded", "02-compacted"])
def test_bounds_that_are_no_utf8_are_no_bounds(name: str) -> None:
    """They were replaced when they were noted; the rows are there, whatever a condition asks for."""
    step = Step(TABLES / "hive4/types_invalid_utf8" / name)
    snapshot = open_table(str(step.table)).snapshot(**step.view)
    texts = {
        value.decode("utf-8", "surrogateescape")
        for batch in snapshot.to_batches(columns=["s"])
        for value in batch.column(0).cast(pa.binary()).to_pylist()
        if value is not None
    }
    assert sum(not text.isprintable() for text in texts) >= 3
    for text in texts:
        assert snapshot.count(where=f"s = '{text}'") == 1, ascii(text)


# --- tables


def test_no_row_group_with_a_match_is_left_out() -> None:
    """The same of Parquet, where fewer types have bounds; decimals as Hive stores them, and as whole numbers."""
    random = Random(7)
    left_out = without = 0
    for turn in range(amount(40, swept=400, sample=6)):
        chosen = [place for group in range(STRIPES) for place in random.sample(range(12), ROWS)]
        stored = [field.name for field in FIELDS if field.name != "ts"]
        arrow = dict(zip((field.name for field in FIELDS), arrays(), strict=True))
        table = pa.table({name: arrow[name].take(pa.array(chosen)) for name in stored})
        stream = io.BytesIO()
        meta = {"writer.date.proleptic": "true"} if turn % 2 else {}
        pq.write_table(
            table.replace_schema_metadata(meta), stream, row_group_size=ROWS, store_decimal_as_integer=turn % 4 > 1
        )
        file = ParquetFile(stream, "f")
        rows = [next(iter(file.scan(stripes=range(group, group + 1)))) for group in range(STRIPES)]
        for _ in range(40):
            text = random_condition(random, 1, [*stored, "row__id.rowid"])
            root = parse(text, file.columns.fields).root
            found = [mask(root, dict(enumerate(one.columns)), None, ROWS) for one in rows]
            matches = {group for group, one in enumerate(found) if one is None or one.any()}
            read = {
                group
                for part in matching_stripes(file, root, lambda column: column.place, None, None)
                for group in part
            }
            assert matches <= read, text
            left_out += STRIPES - len(read)
            without += STRIPES - len(matches)
    assert left_out > without / 5


@pytest.fixture
def read_stripes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many stripes each scan was asked for."""
    seen: list[int] = []
    scan = OrcFile.scan

    def counting(self: OrcFile, *columns: Any, stripes: range | None = None, **how: Any) -> Iterator[pa.RecordBatch]:
        seen.append(len(self.stripe_rows if stripes is None else stripes))
        return scan(self, *columns, stripes=stripes, **how)

    monkeypatch.setattr(OrcFile, "scan", counting)
    return seen


def test_a_table_is_read_where_rows_may_match(tmp_path: Path, read_stripes: list[int]) -> None:
    """Of twenty stripes those with the values, or row ids; a file out of range not at all; deletes still apply."""
    write_events(tmp_path, delta(1), range(1000), write_id=1)
    write_events(tmp_path, delta(2), range(100), write_id=2)
    write_events(tmp_path, "delete_" + delta(3), [120], write_id=1, current=3, operation=2)  # type: ignore[arg-type]
    snapshot = open_table(str(tmp_path)).snapshot(as_of=3, schema="a bigint, b string")

    def ids(where: str) -> list[tuple[int, int]]:
        read_stripes.clear()
        table = snapshot.to_table([], where=where, row_id=True, threads=1)
        return [(row["ROW__ID"]["writeid"], row["ROW__ID"]["rowid"]) for row in table.to_pylist()]

    assert ids("a between 119001 and 122001") == [(1, 119), (1, 121), (1, 122)]
    assert sorted(read_stripes) == [1, 1]  # of the deletes, and of the rows
    assert ids("ROW__ID.rowid in (7, 999) and ROW__ID.writeid = 1") == [(1, 7), (1, 999)]
    assert sorted(read_stripes) == [1, 1, 1]
    assert ids("b = 'row 77 of 2'") == [(2, 77)]
    assert ids("a < 0 or b is null") == []
    assert read_stripes == []  # nor are deletes
    read_stripes.clear()
    parts = snapshot.splits(["a"], where="a between 119001 and 122001", split_bytes=1)
    assert len(parts) > 10
    assert [row["a"] for part in parts for row in part.to_batches().read_all().to_pylist()] == [119001, 121001, 122001]
    assert len(read_stripes) < 10  # parts of one stripe ask its statistics too


def test_partitions_that_cannot_match_open_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the values of their folders alone."""
    step = next(step for step in STEPS if str(step) == "hive4/partition_types/01-int-date")
    opened: list[str] = []

    opening = LocalStorage.open

    def counted(self: LocalStorage, path: str) -> Any:
        opened.append(path)
        return opening(self, path)

    monkeypatch.setattr(LocalStorage, "open", counted)
    snapshot = open_table(str(step.table)).snapshot(**step.view)
    assert snapshot.to_table(where="i = 7 and d = '2026-11-21'")["id"].to_pylist() == [1]
    assert {"i=7/d=2026-11-21" in path for path in opened if "=" in path} == {True}
    opened.clear()
    assert snapshot.count("i > 100 or d > '2100-01-01'") == 0
    assert [path for path in opened if "=" in path] == []


def conditions_for(step: Step, snapshot: Snapshot, random: Random, count: int) -> Iterator[str]:
    """Conditions with values that occur in the rows of a step."""
    fields = [field for field in snapshot.fields if isinstance(field.type, Primitive)]
    rows = step.hive_rows
    for _ in range(count if fields and rows else 0):
        field = random.choice(fields)
        value = random.choice(rows).get(field.name)
        name = "`" + field.name.replace("`", "``") + "`"
        form = random.choice(("{} = {}", "{} <> {}", "{} < {}", "{} >= {}", "not {} in ({})", "{} <=> {}"))
        if value is None or isinstance(value, list | float) or "\ufffd" in str(value):
            yield random.choice((f"{name} is null", f"not ({name} is null)", f"{name} is null or ROW__ID.rowid < 2"))
        else:
            escaped = str(value).replace("\\", "\\\\").replace("'", "\\'")
            literal = f"'{escaped}'" if isinstance(value, str) else str(value).lower()
            yield form.format(name, literal)


@pytest.mark.parametrize("step", some(FULL, one_of=8), ids=str)
def test_fixtures_answer_the_same_without_skipping(step: Step) -> None:
    """What is left out by statistics and by partitions matches nothing, in files of every Hive."""
    snapshot = open_table(str(step.table)).snapshot(**step.view)
    own = len(snapshot.columns.fields)
    whole = list(snapshot.rows())
    for text in conditions_for(step, snapshot, Random(str(step)), 6):
        predicate = parse(text, snapshot.columns.fields, snapshot.partition_columns)
        expected = 0
        for rows in whole:
            values = {place: rows.columns[place].slice(0, 1) for place in range(own, len(rows.columns))}
            left = in_partition(predicate.root, values)
            ids = rows.row_ids
            known = None
            if ids is not None:
                write, bucket, row = (np.asarray(part).astype(np.int64) for part in ids)
                known = EventKeys(write, bucket, row, write)
            columns = {
                leaf.column.place: rows.columns[leaf.column.place] for leaf in leaves(left) if leaf.column.place >= 0
            }
            found = mask(left, columns, known, rows.count)
            expected += rows.count if found is None else int(found.sum())
        assert snapshot.count(text) == expected, text
        assert sum(rows.count for rows in snapshot.rows([], where=text)) == expected, text
