"""`acidctl snapshot --where`: every form shows the rows that match, and a condition that cannot be is one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.runner import Result, acidctl
from tests.support.steps import STEPS

DEMO = next(step for step in STEPS if str(step) == "hive4/demo_orders/03-demo")
TYPED = next(step for step in STEPS if str(step) == "hive4/partition_types/01-int-date")
WHERE = "status = 'new' and amount > 1 or ROW__ID.rowid = 1 and customer like 'G%'"


def _run(*options: str) -> Result:
    result = acidctl("snapshot", str(DEMO.table), *DEMO.options, *options)
    assert result.code == 0, result.stderr
    return result


def _wanted() -> list[int]:
    rows = DEMO.hive_rows
    new = [row for row in rows if row["status"] == "new" and float(row["amount"]) > 1]
    named = [row for row in rows if row["ROW__ID"]["rowid"] == 1 and row["customer"].startswith("G")]
    ids = sorted({row["id"] for row in (*new, *named)})
    assert 0 < len(ids) < len(rows)
    return ids


def test_every_form_keeps_the_rows_that_match(tmp_path: Path) -> None:
    """Rows, limit, count, digest, files and text agree on which rows there are."""
    wanted = _wanted()
    rows = _run("--where", WHERE, "-o", "jsonl").json_lines()
    assert sorted(row["id"] for row in rows) == wanted
    assert len(_run("--where", WHERE, "-o", "jsonl", "--limit", "1").json_lines()) == 1
    # The columns of the condition alone are not delivered.
    named = _run("--where", WHERE, "-o", "jsonl", "--columns", "id").json_lines()
    assert sorted(named, key=lambda row: row["id"]) == [{"id": one} for one in wanted]
    numbers = _run("--where", WHERE, "--count", "--digest", "-o", "json").json()
    assert numbers["rows"] == len(wanted)
    assert numbers["digest"] != _run("--digest", "-o", "json").json()["digest"]
    assert _run("--where", WHERE, "--count").stdout == f"{len(wanted)} rows\n"
    assert f"\n{len(wanted)} rows match\n" in _run("--where", WHERE).stdout
    for name in ("rows.parquet", "rows.jsonl"):
        _run("--where", WHERE, "--to", str(tmp_path / name))
    assert sorted(pq.read_table(tmp_path / "rows.parquet")["id"].to_pylist()) == wanted
    exported = (tmp_path / "rows.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["id"] for line in exported) == wanted


def test_a_file_holds_the_condition(tmp_path: Path) -> None:
    """`@FILE`, over several lines, with a comment."""
    path = tmp_path / "condition.sql"
    path.write_text("status = 'new' -- not paid\nand amount > 1\n")
    assert _run("--where", f"@{path}", "--count", "-o", "json").json()["rows"] > 0


def test_partition_columns_have_their_types(tmp_path: Path) -> None:
    """By the table's DDL numbers and days are compared, without it texts; NULL is Hive's default partition."""
    ddl = tmp_path / "ddl.sql"
    ddl.write_text(TYPED.facts["ddl"])

    def ids(where: str, *options: str) -> list[int]:
        result = acidctl("snapshot", str(TYPED.table), *TYPED.options, "-o", "jsonl", "--where", where, *options)
        assert result.code == 0, result.stderr
        return sorted(row["id"] for row in result.json_lines())

    typed = ("--schema", f"@{ddl}")
    assert ids("i > -10 and d = '2026-11-21'", *typed) == [1]
    assert ids("i < 1 or d is null", *typed) == [2, 4, 5]
    assert ids("d < DATE '1582-10-15' and id >= 2", *typed) == [2]
    assert ids("i = '7'") == [1, 4]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--where", "idd = 1"], "there is no column 'idd'; did you mean id?"),
        (["--where", "(id = 1"], "character 8: expected ')', found the end"),
        (["--where", " "], "--where is empty"),
        (["--where", "id = DATE '2026-01-01'"], "id is int and cannot be compared with a date"),
        (["--where", "upper(status) = 'NEW'"], "UPPER is not supported"),
        (["--where", "status = 'new"], "a quote is not closed"),
        (["--where", "id = 1", "--files"], "--files opens no data file"),
    ],
)
def test_bad_conditions_are_one_sentence(options: list[str], sentence: str) -> None:
    """Exit code 2, nothing on stdout."""
    result = acidctl("snapshot", str(DEMO.table), *DEMO.options, *options)
    assert (result.code, result.stdout) == (2, "")
    assert sentence in result.stderr
