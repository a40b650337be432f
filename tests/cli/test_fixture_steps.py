"""Every table that real Hive has written: its rows, count and digest, what `ls` says of it, and what `clean` leaves."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from acidctl import open_table
from acidctl.errors import ExitCode
from acidctl.types.format_rows import json_lines
from tests.cli.runner import Result, acidctl
from tests.support.cleaning_cases import Step as Cleaned
from tests.support.covering import chosen_steps
from tests.support.steps import STEPS, Step, sorted_rows

GUESSED_INSERT_ONLY = "Taken as an insert-only table"


@pytest.mark.slow
@pytest.mark.parametrize("step", chosen_steps(STEPS), ids=str)
def test_a_step(step: Step, tmp_path: Path) -> None:
    """Rows, row ids and count are Hive's; `ls` shows what is read; the digest outlives compaction and cleaning."""
    text = _snapshot(step, "--schema", step.facts["ddl"], "-o", "jsonl", "--row-id").stdout
    rows = [json.loads(line) for line in text.split("\n") if line]
    if not step.transactional:
        # Such a table has no row ids yet; those shown are the ones it has once it is converted.
        rows = [{key: value for key, value in row.items() if key != "ROW__ID"} for row in rows]
    assert sorted_rows(rows) == sorted_rows(step.hive_rows)
    assert _in_small_batches(step) == text
    _check_rows_from_the_files_alone(step)
    # From tails or keys, not from rows.
    count = _snapshot(step, "--schema", step.facts["ddl"], "--count", "-o", "json").json()["rows"]
    count_and_digest = _count_and_digest(step)
    assert count == count_and_digest[0] == step.facts["rows"]
    # A compaction lies between steps after which Hive returned the very same rows.
    assert count_and_digest == _count_and_digest(_first_with_the_same_rows(step))
    _check_ls(step)
    if step.transactional and not step.facts["hive_fault"]:
        cleaned = Cleaned(step.folder)
        root = cleaned.copy(tmp_path / "t")
        assert cleaned.delete(root).exit_code in (ExitCode.DONE, ExitCode.FINDINGS)
        assert cleaned.rows(root) == count_and_digest


def _snapshot(step: Step, *options: str) -> Result:
    result = acidctl("snapshot", str(step.table), *step.options, *options)
    assert result.code == 0, result.stderr
    return result


def _in_small_batches(step: Step) -> str:
    """All rows with their row ids, read seven at a time."""
    parts = []
    for rows in open_table(str(step.table)).snapshot(**step.view).rows(batch_rows=7):
        names, types, columns = rows.with_row_id()
        parts.append(bytes(json_lines(columns, names, types)))
    return b"".join(parts).decode()


def _check_rows_from_the_files_alone(step: Step) -> None:
    """Without a schema the same rows come out, as far as files tell: columns never written are not known to them."""
    if "TextInputFormat" in step.facts["ddl"]:
        unread = acidctl("snapshot", str(step.table), *step.options, "-o", "jsonl")
        assert (unread.code, unread.stdout) == (ExitCode.NOT_ACID, "")
        assert "--schema" in unread.stderr
        return
    partition = {field.split()[0] for field in step.facts["partition_columns"].split(",") if field}
    result = _snapshot(step, "-o", "jsonl", "--row-id")
    rows, want = result.json_lines(), step.hive_rows
    if not step.transactional or (step.facts["kind"] == "full" and GUESSED_INSERT_ONLY in result.stderr):
        for row in (*rows, *want):
            row.pop("ROW__ID", None)
    names = [field.split()[0] for field in step.facts["columns"].split(", ")]
    for row in rows:
        # Hive 2 stores no names.
        for i, name in enumerate(names):
            if f"_col{i}" in row:
                row[name] = row.pop(f"_col{i}")
    known = set(rows[0]) if rows else set()
    if "rename" in str(step) or step.facts["scenario"] == "evolved" or "widened" in str(step):
        known = {"ROW__ID"}
    for row in (*rows, *want):
        for name in list(row):
            if name not in known or name in partition:
                del row[name]
    assert sorted_rows(rows) == sorted_rows(want)


@cache
def _count_and_digest(step: Step) -> tuple[int, str]:
    return open_table(str(step.table)).snapshot(**step.view).count_and_digest()


def _first_with_the_same_rows(step: Step) -> Step:
    """The first step of the scenario after which Hive returned these rows."""
    if not step.transactional or not step.facts["rows"]:
        return step
    alike: list[Step] = [
        one
        for one in STEPS
        if (one.scenario, one.transactional) == (step.scenario, True)
        and one.facts["columns"] == step.facts["columns"]
        and (one.folder / "rows.jsonl").read_bytes() == (step.folder / "rows.jsonl").read_bytes()
    ]
    return alike[0]


def test_compactions_lie_between_steps() -> None:
    """There are steps whose digest has to be that of another."""
    assert sum(_first_with_the_same_rows(step) != step for step in STEPS) > 50


def _check_ls(step: Step) -> None:
    """Each child of each location once; what `ls` calls live is what `snapshot` reads; the text shows it all."""
    args = [str(step.table), *step.options]
    result = acidctl("ls", *args, "-o", "json")
    assert result.code in (ExitCode.DONE, ExitCode.FINDINGS), result.stderr
    answer = result.json()
    entries: list[dict[str, Any]] = answer["entries"]
    keys = [(entry["partition"], entry["name"]) for entry in entries]
    assert len(keys) == len(set(keys))
    assert all(entry["state"] and entry["reason"] and entry["reason_code"] for entry in entries)
    for entry in entries:
        assert all((entry["partition"], cause) in keys for cause in entry["because_of"]), entry
    assert sum(entry["files"] for entry in entries) == sum(path.is_file() for path in step.table.rglob("*"))
    live = [entry for entry in entries if entry["state"] == "live"]
    assert answer["summary"]["bytes_live"] == sum(entry["bytes"] for entry in live)
    plan = _snapshot(step, "--files", "-o", "json").json()
    read = {
        (part["partition"], name)
        for part in plan["partitions"]
        for name in (*([part["base"]] if part["base"] else []), *part["deltas"], *part["delete_deltas"])
    }
    assert read == {(entry["partition"], entry["name"]) for entry in live if entry["kind"] != "original"}
    shown = acidctl("ls", *args, width=80)
    assert shown.code == result.code
    assert all(name in shown.stdout for _, name in keys)
