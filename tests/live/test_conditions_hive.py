"""Conditions on rows, asked of real Hive and of acidctl: the same rows match, by their ROW__IDs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from acidctl import open_table
from acidctl.rows.snapshot import Snapshot
from tests.services.hive import Hive, HiveError
from tests.support.condition_rows import SCHEMA, insert, random_condition
from tests.support.extent import amount, some
from tests.unit.rows.test_conditions import hive_answers

pytestmark = pytest.mark.hive

CONDITIONS = amount(100, swept=500, sample=24)
PARTITIONS = "partitioned by (i int, dt date, dc decimal(10,2), s string)"
PARTITIONED = (
    "(1, 'a', 1, date '2020-01-01', 1.5, 'abc')",
    "(2, 'b', 2, date '2020-06-15', 3.33, 'b c')",
    "(3, 'c', null, date '1969-12-31', 5.55, '1')",
    # Without NULL: of a file of nothing else ORC's search arguments lose the rows of NOT (v <=> 'a').
    "(4, 'd', -1, null, 100, '10')",
    "(5, 'e', 10, date '9999-12-31', null, '2020-01-01')",
    "(6, 'f', 1, date '2020-01-01', 1.5, 'true')",
    "(7, 'g', 127, date '2020-01-02', -1, 'z')",
)


def made(hive: Hive, name: str, columns: str, more: str = "") -> Path:
    """A new table."""
    hive.run(f"drop table if exists {name}")
    hive.run(f"create table {name} ({columns}) {more} stored as orc tblproperties ('transactional'='true')")
    return hive.warehouse / name


def snapshot_of(hive: Hive, name: str, table: Path) -> Snapshot:
    """What a reader sees now, with the types of the DDL."""
    session = hive.session()
    txns = session.valid_txns()
    write_ids = session.valid_write_ids(f"default.{name}", txns)
    assert write_ids is not None
    ddl = "\n".join(json.loads(row[0]) for row in session.select(f"show create table {name}").values)
    return open_table(str(table)).snapshot(validtxns=(write_ids, txns), schema=ddl)


def differences(hive: Hive, name: str, snapshot: Snapshot, conditions: Iterator[str], count: int) -> list[str]:
    """Of the first `count` conditions that Hive answers those of which acidctl finds other rows."""
    found = []
    answered = 0
    while answered < count:
        text = next(conditions)
        try:
            hives = sorted(hive.rows(f"select ROW__ID, id from {name} where {text}"))
        except HiveError as error:
            # As unsafe (hive.strict.checks.type.safety), or because its optimizer takes no binary literals.
            if not any(why in str(error) for why in ("Unsafe compares", "binary", "Type mismatch")):
                raise
            continue
        answered += 1
        table = snapshot.to_table(["id"], where=text, row_id=True)
        ours = sorted(
            f'{{"ROW__ID": {json.dumps(row["ROW__ID"], separators=(",", ":"))}, "id": {row["id"]}}}'
            for row in table.to_pylist()
        )
        if hives != ours:
            found.append(f"{text}: Hive {hives}, acidctl {ours}")
    return found


def test_random_conditions_over_every_type(hive4: Hive) -> None:
    """Rows of two writes, some deleted, some updated; what Hive answers with all its optimisations on."""
    table = made(hive4, "conditions", SCHEMA)
    hive4.run(insert("conditions"))
    hive4.run(insert("conditions"))
    hive4.run("delete from conditions where id = 5")
    hive4.run("update conditions set bi = bi where id in (7, 11)")
    random = Random(17)
    conditions = (random_condition(random) for _ in itertools.count())
    assert differences(hive4, "conditions", snapshot_of(hive4, "conditions", table), conditions, CONDITIONS) == []


def test_random_conditions_over_partition_columns(hive4: Hive) -> None:
    """int, date, decimal and string, NULL of each, joined with conditions on data and row ids."""
    table = made(hive4, "condition_parts", "id int, v varchar(5)", PARTITIONS)
    hive4.run(f"insert into condition_parts partition (i, dt, dc, s) values {', '.join(PARTITIONED)}")
    random = Random(4)
    names = ("id", "v", "i", "dt", "dc", "s", "row__id.rowid")
    # Derby, the metastore's database here, takes blanks at the end of a string for padding.
    texts = (random_condition(random, 2, names) for _ in itertools.count())
    conditions = (text for text in texts if "'abc '" not in text)
    snapshot = snapshot_of(hive4, "condition_parts", table)
    assert differences(hive4, "condition_parts", snapshot, conditions, CONDITIONS // 3) == []


def test_recorded_answers_are_those_of_hive(hive4: Hive) -> None:
    """What `tests/unit/rows/hive_conditions.tsv` says, asked again."""
    made(hive4, "condition_rows", SCHEMA)
    hive4.run(insert("condition_rows"))
    for text, answer in some(hive_answers().items(), one_of=60, checked=30):
        for condition, letter in ((text, "T"), (f"not ({text})", "F")):
            ids = {
                int(row[0]) for row in hive4.session().select(f"select id from condition_rows where {condition}").values
            }
            assert ids == {i for i, one in enumerate(answer, 1) if one == letter}, condition
