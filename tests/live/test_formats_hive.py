"""Insert-only tables as text and Parquet, beside what real Hive 4 reads of them: odd fields, changed types."""

from __future__ import annotations

import bz2
import gzip
import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from acidctl import open_table
from acidctl.errors import DamagedDataError
from acidctl.types.format_rows import json_lines
from tests.services.hive import Hive, HiveError
from tests.services.recorder import describe
from tests.support.extent import amount
from tests.support.steps import sorted_rows

pytestmark = pytest.mark.hive

INSERT_ONLY = "'transactional'='true', 'transactional_properties'='insert_only'"
NUMBERS: tuple[str, ...] = (
    "0",
    "1",
    "-1",
    "+7",
    "12",
    "127",
    "128",
    "-129",
    "32768",
    "2147483647",
    "2147483648",
    "9223372036854775807",
)
NUMBERS += (
    "9223372036854775808",
    "1.5",
    "-.5",
    ".",
    "-",
    "+",
    "",
    " 1",
    "1 ",
    "1e3",
    "1e400",
    "1e-400",
    "NaN",
    "nan",
    "N",
)
NUMBERS += (
    "Infinity",
    "-Infinity",
    "0x1p3",
    "1.5f",
    "2d",
    "1L",
    "12345678.12345678",
    "16777217",
    "0.1",
    "-0.0",
    "٣",
    "null",
)
NUMBERS += (
    "99999999999999999999999999999999999999",
    "0.00000000000000000000000000000000000001",
    "1e99",
    "1e-99",
    "0.005",
)
DAYS: tuple[str, ...] = (
    "2024-02-29",
    "2023-02-29",
    "2024-2-9",
    "1582-10-10",
    "0001-01-01",
    "9999-12-31",
    "-0001-01-01",
    "0000-01-01",
)
DAYS += (
    "12024-01-01",
    "2024-01-01x",
    "2024-01-010",
    " 2024-01-01 ",
    "2024-01",
    "20240101",
    "+2024-01-01",
    "2024-13-01",
)
CLOCKS: tuple[str, ...] = (
    "",
    " 00:00:00",
    " 1:2:3",
    " 23:59:59.999999999",
    " 24:00:00",
    "T10:20",
    "T10:20:30.5",
    " 10:20",
    " 10:20:60",
    "Z",
)
CLOCKS += (
    " 01:02:03.1234567890",
    " 01:02:03.",
    "T01:02:03Z",
    " 01:02:03 UTC",
    " 01:02:03 Europe/Berlin",
    " 01:02:03+02:00",
)
TEXTS = (
    "",
    "a",
    "ab ",
    " ab",
    "abcdefgh",
    "äöüßéx",
    "\\N",
    "a\\",
    "\\\\n",
    "tab\tin",
    "QUI=",
    "QUI",
    "QQ==",
    "Q",
    "😀😀😀",
    "é",
)
TYPES = {
    **dict.fromkeys(
        ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(38,10)", "decimal(5,2)"), NUMBERS
    ),
    "boolean": ("true", "FALSE", "True", "t", "1", "0", "", " true", "yes", "\\N"),
    **dict.fromkeys(("string", "char(4)", "varchar(5)", "binary"), TEXTS),
    "date": DAYS,
    "timestamp": tuple(day + clock for day in DAYS for clock in CLOCKS),
    "array<int>": ("", "1", "1\x022", "\x02", "x\x02\\N\x02.5"),
    "map<string,int>": ("", "a", "a\x031", "a\x031\x02a\x032", "\\N\x031\x02b\x03\\N", "\x03\x03", "a\x03b\x02"),
    "struct<a:int,b:array<string>>": ("", "1", "1\x02x\x03y", "x\x02\x03\x02z", "\\N\x02\\N", "\x02"),
    "map<int,struct<x:double,y:date>>": ("", "1\x03.5\x042024-01-01", "x\x031", "2\x03\x04\x022\x031", "3"),
}
LINES = amount(400, swept=4000, sample=150)


@pytest.fixture
def tables(hive4: Hive) -> Iterator[list[str]]:
    """Names of tables that are dropped at the end."""
    names: list[str] = []
    yield names
    for name in names:
        hive4.run(f"drop table if exists {name}")


def _ddl(hive: Hive, table: str) -> str:
    return describe(hive.session("formats"), table, hive.warehouse).ddl


def _ours(hive: Hive, table: str, *columns: str, ddl: str | None = None) -> list[str]:
    snapshot = open_table(str(hive.warehouse / table)).snapshot(schema=ddl or _ddl(hive, table))
    lines = (bytes(json_lines(r.columns, r.names, r.types)) for r in snapshot.rows(columns or None))
    return sorted_rows(
        json.loads(line) for block in lines for line in block.decode("utf-8", "replace").split("\n") if line
    )


def _theirs(hive: Hive, table: str, columns: str = "*") -> list[str]:
    return sorted_rows(json.loads(line) for line in hive.rows(f"select {columns} from {table}"))


def _differences(ours: list[str], theirs: list[str]) -> list[tuple[str, Any, Any]]:
    """Column, our value and Hive's, wherever two answers differ; rows are told apart by `id`."""
    answers = [{row["id"]: row for row in map(json.loads, lines)} for lines in (ours, theirs)]
    assert len(ours) == len(theirs)
    assert answers[0].keys() == answers[1].keys()
    rows = [(row, answers[1][key]) for key, row in answers[0].items()]
    return [(name, row[name], other[name]) for row, other in rows for name in row if row[name] != other[name]]


def _delta(hive: Hive, table: str) -> Path:
    return next((hive.warehouse / table).glob("delta_*"))


def _made(hive: Hive, tables: list[str], name: str, columns: str, rest: str) -> Path:
    """A new table with one row of NULLs, and the folder of that row's file."""
    tables.append(name)
    hive.run(f"drop table if exists {name}")
    hive.run(f"create table {name} ({columns}) {rest}")
    hive.run(f"insert into {name} (id) values (0)")
    return _delta(hive, name)


@pytest.mark.parametrize("escaped", [False, True])
def test_odd_fields_of_text(hive4: Hive, tables: list[str], escaped: bool) -> None:
    """Random fields of every type, also cut and mixed: NULL exactly where Hive has NULL; then the same as Parquet."""
    chance = random.Random(f"formats {escaped}")
    columns = ", ".join(["id int", *(f"c{i} {kind}" for i, kind in enumerate(TYPES))])
    form = (
        "row format delimited fields terminated by '\\001' escaped by '\\\\' stored as textfile"
        if escaped
        else "stored as textfile"
    )
    folder = _made(hive4, tables, "odd_text", columns, f"{form} tblproperties ({INSERT_ONLY})")
    lines = []
    for number in range(1, LINES):
        fields = [_field(chance, pool) for pool in TYPES.values()]
        lines.append("\x01".join([str(number), *fields][: chance.choice((99, 99, 99, 5, 1))]))
    (folder / "000001_0").write_bytes("\n".join(lines).encode() + b"\n\xff\x01bytes\x01\xfe\xff")
    assert _differences(_ours(hive4, "odd_text"), _theirs(hive4, "odd_text")) == []
    # Hive's writer of Parquet fails at maps of text whose keys are none.
    kept = [i for i, kind in enumerate(TYPES) if "map<" not in kind]
    declared = ", ".join(["id int", *(f"c{i} {list(TYPES)[i]}" for i in kept)])
    tables.append("odd_parquet")
    hive4.run(f"create table odd_parquet ({declared}) stored as parquet tblproperties ({INSERT_ONLY})")
    hive4.run(f"insert into odd_parquet select {', '.join(['id', *(f'c{i}' for i in kept)])} from odd_text")
    assert _differences(_ours(hive4, "odd_parquet"), _theirs(hive4, "odd_parquet")) == []


def _field(chance: random.Random, pool: tuple[str, ...]) -> str:
    text = chance.choice(pool)
    if chance.random() < 0.15:
        at = chance.randrange(len(text) + 1)
        text = text[:at] + chance.choice(("-", ".", " ", "0", "9", "\\", "x", "\r")) + text[at:]
    return text


def test_odd_lines_of_csv(hive4: Hive, tables: list[str]) -> None:
    """Quotes, escapes and separators at random places, as opencsv takes them apart."""
    chance = random.Random("csv")
    form = "row format serde 'org.apache.hadoop.hive.serde2.OpenCSVSerde' stored as textfile"
    folder = _made(
        hive4, tables, "odd_csv", "id string, a string, b string, c string", f"{form} tblproperties ({INSERT_ONLY})"
    )
    lines = ["".join(chance.choices("ab ,,\"'\\\t", k=chance.randrange(14))) for _ in range(LINES * 3)]
    (folder / "000001_0").write_text("\n".join(lines))
    assert _ours(hive4, "odd_csv") == _theirs(hive4, "odd_csv")


@pytest.mark.parametrize(("header", "footer"), [(1, 0), (0, 1), (2, 2)])
def test_headers_and_footers(hive4: Hive, tables: list[str], header: int, footer: int) -> None:
    """Of each file, compressed or not, with any ends of lines, also where there are too few."""
    skip = f"'skip.header.line.count'='{header}', 'skip.footer.line.count'='{footer}'"
    folder = _made(
        hive4, tables, "skipped", "id string, v int", f"stored as textfile tblproperties ({INSERT_ONLY}, {skip})"
    )
    for number, count in enumerate((1, 3, 4, 9)):
        text = b"\n".join(b"line %d\x01%d" % (i, number) for i in range(count)) + b"\n"
        (folder / f"00001{number}_0").write_bytes(text)
        (folder / f"00002{number}_0").write_bytes(text.replace(b"\n", b"\r\n")[:-2])
        (folder / f"00003{number}_0.gz").write_bytes(gzip.compress(text))
        (folder / f"00004{number}_0.bz2").write_bytes(bz2.compress(text))
    assert _ours(hive4, "skipped") == _theirs(hive4, "skipped")


KINDS: tuple[str, ...] = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(12,2)",
    "decimal(38,0)",
    "boolean",
    "string",
)
KINDS += ("varchar(3)", "binary", "date", "timestamp")
VALUES = (
    "1",
    "0",
    "-1.5",
    "127.99",
    "300",
    "99999.5",
    "3000000000",
    "1e30",
    "NaN",
    "true",
    "2024-01-01",
    "2024-01-01 01:02:03.5",
)


def test_changed_types_of_parquet(hive4: Hive, tables: list[str]) -> None:
    """A file of one type read as another: the values that Hive has, and a refusal where Hive refuses."""
    # Of INT96 as a bigint Hive shows the nanoseconds since midnight without the day, which acidctl refuses.
    left_out = (("timestamp", "bigint"),)
    every = [pair for pair in product(KINDS, KINDS) if pair[0] != pair[1] and pair not in left_out]
    pairs = random.Random("types").sample(every, amount(60, swept=len(every), sample=24))
    names = [f"p{i}" for i in range(len(pairs))]
    _made(
        hive4,
        tables,
        "changed_from",
        ", ".join(["id int", *(f"{n} {p[0]}" for n, p in zip(names, pairs, strict=True))]),
        f"stored as parquet tblproperties ({INSERT_ONLY})",
    )
    casts = ", ".join(f"cast(col2 as {have})" for have, _ in pairs)
    values = ", ".join(f"({i}, '{value}')" for i, value in enumerate(VALUES, 1))
    hive4.run(f"insert into changed_from select col1, {casts} from (values {values}) as x")
    folder = _made(
        hive4,
        tables,
        "changed_to",
        ", ".join(["id int", *(f"{n} {p[1]}" for n, p in zip(names, pairs, strict=True))]),
        f"stored as parquet tblproperties ({INSERT_ONLY})",
    )
    for number, path in enumerate(sorted((hive4.warehouse / "changed_from").glob("delta_*/0*")), 1):
        (folder / f"0000{number:02}_0").write_bytes(path.read_bytes())
    ddl = _ddl(hive4, "changed_to")
    wrong: list[Any] = []
    for name, pair in zip(names, pairs, strict=True):
        theirs: list[str] | str
        ours: list[str] | str
        try:
            theirs = _theirs(hive4, "changed_to", f"id, {name}")
        except HiveError:
            theirs = "refused"
        try:
            ours = _ours(hive4, "changed_to", "id", name, ddl=ddl)
        except DamagedDataError:
            ours = "refused"
        if ours != theirs:
            wrong.append((*pair, ours, theirs))
    assert wrong == [], [pair[:2] for pair in wrong]
