"""Files of the writer, read by real Hive: row reader and vectorised, with deletes and search arguments.

Of deflated files Hive skips row groups, and finds in the others the rows that it finds without skipping.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from acidctl.format.events import EventKeys
from acidctl.orc.writer import Backend
from acidctl.types.schema import parse_type
from tests.cli.runner import acidctl
from tests.services.hive import Hive
from tests.support.extent import SAMPLE
from tests.support.orc_events import EventBatch, keys, written
from tests.unit.orc.test_stripe_sink import CHUNKS, STRIPES
from tests.unit.orc.test_stripe_sink import TYPES as DEFLATED
from tests.unit.orc.test_stripe_sink import made as deflated
from tests.unit.orc.test_stripe_sink import values as deflated_values
from tests.unit.orc.test_writer import DAY_1, YEAR_1, YEAR_1500, YEAR_9999, columns_of, union, wide
from tests.unit.orc.test_writer import made as made_array

TYPES = {
    "id": "int",
    "s": "string",
    "c": "char(4)",
    "v": "varchar(5)",
    "b": "binary",
    "d": "decimal(38,10)",
    "t": "timestamp",
    "dt": "date",
    "f": "double",
    "l": "array<string>",
    "m": "map<string,int>",
    "st": "struct<x:int,y:string>",
    "bo": "boolean",
    "ti": "tinyint",
    "u": "uniontype<int,string>",
}
TEXTS = ["a", "", None, "é水😀", "x ", "y"]


def batch(backend: Backend) -> EventBatch:
    """Six rows of everything; the exact backend also gets what only it can write."""
    exact = backend is not Backend.ARROW
    odd = (YEAR_1500 + 5, 123_456_789) if exact else (YEAR_1500, 0)
    unions: list[Any] = [(0, 1), (1, "x"), (1, ""), (0, 2), (1, "y"), (0, 3)]
    if exact:
        unions[2:4] = [None, (1, None)]
    columns = (
        pa.array([1, 2, 3, 4, 5, 6], pa.int32()),
        pa.array(TEXTS),
        pa.array(TEXTS),
        pa.array(TEXTS),
        pa.array([b"a", b"", None, b"\xff", b"\0", b"z"]),
        pa.array(
            [Decimal("1.5"), None, Decimal("-" + "9" * 28 + ".0123456789"), None, None, Decimal(0)],
            pa.decimal128(38, 10),
        ),
        wide((YEAR_1, 0), odd, (YEAR_9999, 999_999_000), None, (1_700_000_000, 1000), (-1, 0)),
        pa.array([DAY_1, -171_668, 0, 2_932_896, None, 5], pa.int32()).cast(pa.date32()),
        pa.array([1.5, -0.0, float("nan"), None, 1e300, 2]),
        pa.array([["a", None], [], None, ["", "c"], ["b"], []]),
        pa.array([[("a", 1)], [], None, [("b", None)], [], []], pa.map_(pa.string(), pa.int32())),
        pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}, {"x": 2, "y": ""}, None, None]),
        pa.array([True, False, None] * 2),
        pa.array([1, -128, None] * 2, pa.int8()),
        union("uniontype<int,string>", unions),
    )
    return EventBatch(keys(6), columns)


def put(directory: Path, data: bytes) -> None:
    """One bucket file of a directory that a compaction of write ids up to 5 would have made."""
    directory.mkdir()
    (directory / "bucket_00000").write_bytes(data)
    (directory / "_orc_acid_version").write_text("2")
    if directory.name.startswith("base"):
        (directory / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')


def made(hive: Hive, name: str, columns: dict[str, str]) -> Path:
    """An empty table whose write ids up to 5 are committed, and one more."""
    hive.run(f"drop table if exists {name}")
    ddl = ", ".join(f"{column} {kind}" for column, kind in columns.items())
    hive.run(f"create table {name} ({ddl}) stored as orc tblproperties ('transactional'='true')")
    java = hive.java.acidctl
    hive.call(java.Services.seedWriteIds, "default", name, 5, what="seed")
    hive.call(java.Adoption.writeIds, "default", name, "c", what="write ids")
    return hive.warehouse / name


# The row reader, and jobs without and with vectorisation.
READERS = (("more", "false"), ("none", "false"), ("none", "true"))
_TURNS = itertools.count()


def answers(hive: Hive, name: str, where: str = "") -> list[list[str]]:
    """What each reader answers; in a sample they take turns at what is searched for."""
    session = hive.session()
    found = []
    for conversion, vectorised in [READERS[next(_TURNS) % 3]] if where and SAMPLE else READERS:
        session.set("hive.fetch.task.conversion", conversion)
        session.set("hive.vectorized.execution.enabled", vectorised)
        found.append(sorted(hive.rows(f"select ROW__ID, * from {name} {where}")))
    session.set("hive.fetch.task.conversion", "more")
    session.set("hive.vectorized.execution.enabled", "true")
    return found


def check(hive: Hive) -> None:
    """All types with a delete, then many stripes with deletes and search arguments."""
    for backend in (Backend.ARROW, Backend.EXACT, Backend.TEXT):
        columns = columns_of("struct<" + ",".join(f"{name}:{kind}" for name, kind in TYPES.items()) + ">")
        folder = made(hive, "edges", TYPES)
        put(
            folder / "base_0000005",
            written([batch(backend)], columns, backend=backend, bloom_columns=("s", "c", "id"))[0],
        )
        put(folder / "delete_delta_0000006_0000006", written([delete(5, 6)], columns, backend=Backend.EXACT)[0])
        schema = "struct<" + ",".join(f"{name}:{kind}" for name, kind in TYPES.items()) + ">"
        mine = acidctl("snapshot", str(folder), "--as-of", "6", "-o", "jsonl", "--row-id", "--schema", schema)
        expected = sorted(json.dumps(json.loads(line)) for line in mine.stdout.splitlines())
        assert len(expected) == 5
        for found in answers(hive, "edges"):
            assert sorted(json.dumps(json.loads(line)) for line in found) == expected
        for where, ids in (
            ("where s = 'é水😀'", [4]),
            ("where c = 'a'", [1]),
            ("where v = ''", [2]),
            ("where id > 3", [4, 5]),
        ):
            for found in answers(hive, "edges", where):
                assert sorted(json.loads(line)["id"] for line in found) == ids, (backend, where)
        hive.run("drop table edges")


def delete(row: int, write_id: int) -> EventBatch:
    """The delete event of one row of write 1."""
    one = keys(1, start=row, operation=2)
    current = np.full(1, write_id, dtype=np.int64)
    return EventBatch(EventKeys(one.write_id, one.bucket, one.row_id, current, one.operation))


def check_stripes(hive: Hive) -> None:
    """Small splits start in mid-file by the key index; deletes are found in whichever stripe they hit."""
    columns = columns_of("struct<id:int,s:string>")
    rows = 60_000
    texts = pa.array([f"{i * 2_654_435_761 % (1 << 64):x}" for i in range(rows)])
    whole = EventBatch(keys(rows), (pa.array(range(rows), pa.int32()), texts))
    pieces = [whole.slice(i, i + 10_000) for i in range(0, rows, 10_000)]
    for backend in (Backend.ARROW, Backend.TEXT):
        folder = made(hive, "stripes", {"id": "int", "s": "string"})
        data, done = written(
            pieces, columns, backend=backend, stripe_size=1 << 16, row_index_stride=1000, compression="none"
        )
        assert done.stripes > 3
        put(folder / "base_0000005", data)
        gone = [9_999, 10_000, 29_999, 30_000, 59_999]
        put(folder / "delete_delta_0000006_0000006", written([delete(i, 6) for i in gone], columns, backend=backend)[0])
        session = hive.session()
        session.set("mapreduce.input.fileinputformat.split.maxsize", str(len(data) // 5))
        for where, ids in (
            ("", [i for i in range(rows) if i not in gone]),
            ("where id between 29990 and 30005", [i for i in range(29_990, 30_006) if i not in gone]),
        ):
            for found in answers(hive, "stripes", where):
                assert sorted(json.loads(line)["id"] for line in found) == ids, (backend, where)
        hive.run("drop table stripes")


UNION = "uniontype<int,string,array<int>>"
UNIONS = {
    "id": "int",
    "u": UNION,
    "s": f"struct<u:{UNION},x:int>",
    "l": f"array<{UNION}>",
    "m": f"map<string,{UNION}>",
    "n": f"uniontype<{UNION},struct<u:{UNION},x:int>,string,string>",
    "z": "int",
    "p": "string",
}
ROWS = 12_000
STRIDE = 1000


def many_unions() -> list[pa.Array]:
    """Rows of unions at every depth, of which many are NULL, and no two rows in a row alike.

    No list of nothing but a NULL or an empty text: a job hands these over as if there were none.
    """

    def value(i: int) -> tuple[int, Any] | None:
        return [(0, i), (1, f"text {i}"), None, (2, [i, None, i + 1]), (0, None), (1, None), (2, None)][i * i % 7]

    def nested(i: int) -> tuple[int, Any] | None:
        return [(0, value(i)), (1, (value(i + 1), i)), None, (2, f"{i}"), (3, f"{i}"), (1, (None, i)), (1, None)][i % 7]

    columns: dict[str, list[Any]] = {
        "id": list(range(ROWS)),
        "u": [value(i) for i in range(ROWS)],
        "s": [None if i % 5 == 0 else (value(i), i) for i in range(ROWS)],
        "l": [None if i % 7 == 0 else [(0, i), *map(value, range(i, i + i % 6))] for i in range(ROWS)],
        "m": [None if i % 9 == 0 else [(f"k{k}", value(i + k)) for k in range(i % 4)] for i in range(ROWS)],
        "n": [nested(i) for i in range(ROWS)],
        "z": [i // STRIDE for i in range(ROWS)],
        "p": [f"{i * 2_654_435_761:060}" for i in range(ROWS)],
    }
    return [made_array(parse_type(UNIONS[name]), values) for name, values in columns.items()]


def check_unions(hive: Hive) -> None:
    """By all of Hive's readers from the start, from the middle by splits, and by seeks to row groups in stripes."""
    schema = "struct<" + ",".join(f"{name}:{kind}" for name, kind in UNIONS.items()) + ">"
    whole = EventBatch(keys(ROWS), tuple(many_unions()))
    for codec, stripe, stripes in (("zlib", 1 << 24, 1), ("none", 1 << 17, 4)):
        folder = made(hive, "unions", UNIONS)
        data, done = written(
            [whole],
            columns_of(schema),
            backend=Backend.EXACT,
            compression=codec,
            stripe_size=stripe,
            block_size=1 << 16,
            row_index_stride=STRIDE,
            bloom_columns=("z",),
        )
        assert done.stripes >= stripes
        put(folder / "base_0000005", data)
        put(
            folder / "delete_delta_0000006_0000006",
            written([delete(7, 6)], columns_of(schema), backend=Backend.EXACT)[0],
        )
        mine = acidctl("snapshot", str(folder), "--as-of", "6", "-o", "jsonl", "--row-id", "--schema", schema)
        rows = [json.loads(line) for line in mine.stdout.splitlines()]
        assert len(rows) == ROWS - 1
        session = hive.session()
        session.set("hive.optimize.index.filter", "true")
        session.set("mapreduce.input.fileinputformat.split.maxsize", str(len(data) // 3))
        for where, wanted in (
            ("", range(ROWS)),
            ("where id between 5998 and 6001", range(5998, 6002)),
            ("where z = 9", range(9 * STRIDE, 10 * STRIDE)),
        ):
            expected = sorted(json.dumps(row) for row in rows if row["id"] in wanted)
            for found in answers(hive, "unions", where):
                assert sorted(json.dumps(json.loads(line)) for line in found) == expected, (stripe, where)
        hive.run("drop table unions")


# Columns whose readers start in mid-stream when groups before are skipped; each predicate hits groups far apart.
PREDICATES: dict[str, Callable[[Any], bool]] = {
    "id between 1234 and 1240": lambda row: 1234 <= row["id"] <= 1240,
    "id in (3, 1999, 2000, 3999)": lambda row: row["id"] in (3, 1999, 2000, 3999),
    "id > 3490 and s like '%a%'": lambda row: row["id"] > 3490 and "a" in (row["s"] or ""),
}


def check_skipping(hive: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiny chunks and usual ones, in many stripes and one; rows by row reader and vectorised."""
    # Hive makes no splits of files with instants.
    types = {name: kind for name, kind in DEFLATED.items() if name != "tl"}
    columns = columns_of("struct<" + ",".join(f"{name}:{kind}" for name, kind in types.items()) + ">")
    whole_batch = deflated_values(True)
    kept = tuple(array for name, array in zip(DEFLATED, whole_batch.columns, strict=True) if name in types)
    events = EventBatch(whole_batch.keys, kept)
    for chunk, stripe in ((CHUNKS["tiny"], STRIPES["many"]), (CHUNKS["usual"], STRIPES["one"])):
        folder = made(hive, "deflated", types)
        data, _ = deflated(events, monkeypatch, columns=columns, chunk=chunk, stripe_size=stripe)
        put(folder / "base_0000005", data)
        session = hive.session()
        session.set("hive.optimize.index.filter", "false")
        session.set("hive.optimize.ppd.storage", "false")
        whole: dict[int, str] = {}
        for line in hive.rows("select ROW__ID, * from deflated"):
            whole[json.loads(line)["id"]] = line
        assert len(whole) == len(events)
        rows: list[Any] = [json.loads(line) for line in whole.values()]
        text = next(row["s"] for row in rows if row["id"] > 2700 and row["s"])
        predicates = PREDICATES | {f"s = '{text}'": lambda row, text=text: row["s"] == text}
        session.set("hive.optimize.index.filter", "true")
        session.set("hive.optimize.ppd.storage", "true")
        for where, holds in predicates.items():
            expected = sorted(whole[row["id"]] for row in rows if holds(row))
            assert 0 < len(expected) < len(whole)
            for found in answers(hive, "deflated", f"where {where}"):
                assert found == expected, where
        hive.run("drop table deflated")


@pytest.mark.hive
def test_hive4_skips_row_groups(hive4: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    check_skipping(hive4, monkeypatch)


@pytest.mark.hive3
def test_hive3_skips_row_groups(hive3: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    check_skipping(hive3, monkeypatch)


@pytest.mark.hive
def test_hive4_reads_them(hive4: Hive) -> None:
    check(hive4)
    check_stripes(hive4)
    check_unions(hive4)


@pytest.mark.hive3
def test_hive3_reads_them(hive3: Hive) -> None:
    check(hive3)
    check_stripes(hive3)
    check_unions(hive3)
