"""Every step of every fixture table: the rows and row ids that Hive returned, value for value."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from restore import restore

from acidctl import open_table
from acidctl.cleaning.guards import without
from acidctl.options import ReadView
from acidctl.rows.table_view import Reading, read
from acidctl.types.format_rows import json_lines
from tests import ROOT
from tests.cli.runner import Result, acidctl

TABLES = ROOT / "fixtures" / "tables"
STEPS = sorted(TABLES.glob("*/*/*/step.json"))
GUESSED_INSERT_ONLY = "Taken as an insert-only table"


def name_of(path: Path) -> str:
    """The step's folder below `tables/`, for the test's name."""
    return str(path.parent.relative_to(TABLES))


each_step = pytest.mark.parametrize("path", STEPS, ids=name_of)


@cache
def step_of(path: Path) -> dict[str, Any]:
    """The step's facts; directories that git cannot keep are made again."""
    restore(path)
    step: dict[str, Any] = json.loads(path.read_text())
    return step


def lists_of(step: dict[str, Any]) -> list[str]:
    """The lists that Hive gave its reader, as options."""
    options = [o for key in ("valid_write_ids", "valid_txns") if step[key] for o in ("--validtxns", step[key])]
    return [*options, "--list-format", "hive2"] if step["engine"] == "hive2" else options


def snapshot(path: Path, *options: str) -> Result:
    """Run `acidctl snapshot` on a step's table with Hive's lists; it must succeed."""
    result = acidctl("snapshot", str(path.parent / "table"), *lists_of(step_of(path)), *options)
    assert result.code == 0, result.stderr
    return result


def hive_rows(path: Path) -> list[dict[str, Any]]:
    """What Hive returned."""
    return [json.loads(line) for line in (path.parent / "rows.jsonl").read_text().split("\n") if line]


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as texts in an order of their own, so that two lists can be compared."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@cache
def whole_table(path: Path) -> str:
    """All rows with row ids as JSON lines, read with the table as Hive describes it."""
    return snapshot(path, "--schema", step_of(path)["ddl"], "-o", "jsonl", "--row-id").stdout


@each_step
@pytest.mark.slow
def test_rows_are_those_of_hive(path: Path) -> None:
    """With the table as Hive describes it, every value and every row id is Hive's."""
    want = hive_rows(path)
    rows = [json.loads(line) for line in whole_table(path).split("\n") if line]
    if step_of(path)["kind"] == "non_acid":
        # Such a table has no row ids yet; those shown are the ones it has once it is converted.
        rows = [{key: value for key, value in row.items() if key != "ROW__ID"} for row in rows]
    assert in_order(rows) == in_order(want)


@pytest.mark.slow
@each_step
def test_rows_from_the_files_alone(path: Path) -> None:
    """Without a schema the same rows come out, as far as files tell: columns never written are not known to them."""
    step = step_of(path)
    partition = {field.split()[0] for field in step["partition_columns"].split(",") if field}
    result = snapshot(path, "-o", "jsonl", "--row-id")
    rows, want = result.json_lines(), hive_rows(path)
    if step["kind"] == "non_acid" or (step["kind"] == "full" and GUESSED_INSERT_ONLY in result.stderr):
        for row in (*rows, *want):
            row.pop("ROW__ID", None)
    names = [field.split()[0] for field in step["columns"].split(", ")]
    for row in rows:
        # Hive 2 stores no names.
        for i, name in enumerate(names):
            if f"_col{i}" in row:
                row[name] = row.pop(f"_col{i}")
    known = set(rows[0]) if rows else set()
    renamed = "rename" in name_of(path) or step["scenario"] == "evolved" or "widened" in path.parts[-2]
    if renamed:
        known = {"ROW__ID"}
    for row in (*rows, *want):
        for name in list(row):
            if name not in known or name in partition:
                del row[name]
    assert in_order(rows) == in_order(want)


@pytest.mark.slow
@each_step
def test_count_is_the_number_of_rows(path: Path) -> None:
    """`--count` agrees with Hive, whether it reads tails or keys."""
    result = snapshot(path, "--count", "-o", "json", "--schema", step_of(path)["ddl"])
    assert result.json()["rows"] == step_of(path)["rows"]


@pytest.mark.slow
@each_step
def test_batch_size_changes_nothing(path: Path) -> None:
    """The stream of rows is the same text for batches of seven rows as for large ones."""
    step = step_of(path)
    texts = [step[key] for key in ("valid_write_ids", "valid_txns") if step[key]]
    form = "hive2" if step["engine"] == "hive2" else None
    seen = open_table(str(path.parent / "table")).snapshot(validtxns=texts, list_format=form, schema=step["ddl"])
    parts = []
    for rows in seen.rows(batch_rows=7):
        names, types, columns = rows.with_row_id()
        parts.append(bytes(json_lines(columns, names, types)))
    assert b"".join(parts).decode() == whole_table(path)


def _same_rows() -> list[Any]:
    """Steps of one scenario after which Hive returned the very same rows: a compaction lies between them."""
    groups: dict[tuple[str, str, str], list[Path]] = defaultdict(list)
    for path in STEPS:
        step = json.loads(path.read_text())
        if step["kind"] != "non_acid" and step["rows"]:
            rows = (path.parent / "rows.jsonl").read_text()
            groups[str(path.parent.parent), step["columns"], rows].append(path)
    return [pytest.param(paths, id=name_of(paths[0])) for paths in groups.values() if len(paths) > 1]


@pytest.mark.slow
@pytest.mark.parametrize("paths", _same_rows())
def test_digest_survives_compaction(paths: list[Path]) -> None:
    """Equal rows have equal digests, whatever directories hold them."""
    digests = {
        snapshot(path, "--digest", "-o", "json", "--schema", step_of(path)["ddl"]).json()["digest"] for path in paths
    }
    assert len(digests) == 1


def test_the_kind_of_table_does_not_depend_on_what_a_cleaner_may_remove() -> None:
    """Without the obsolete and aborted directories of any step the guess is the same, and so is what is read."""
    removed = 0
    for path in STEPS:
        step = step_of(path)
        texts = [step[key] for key in ("valid_write_ids", "valid_txns") if step[key]]
        view = ReadView(validtxns=tuple(texts), list_format="hive2" if step["engine"] == "hive2" else None)
        locations = open_table(str(path.parent / "table")).locations()
        before = read(locations, view)
        cleaned = []
        for part in before.parts:
            names = [e.name for e in part.state.entries if e.parsed and e.state.value in ("obsolete", "aborted")]
            removed += len(names)
            cleaned.append(replace(part.location, listing=without(part.location.listing, names)))
        after = read(cleaned, view)
        assert after.kind == before.kind, path
        assert [live_names(part) for part in after.parts] == [live_names(part) for part in before.parts], path
    assert removed > 100


def live_names(part: Reading) -> tuple[object, ...]:
    """What is read of a location."""
    base = part.state.base.name if part.state.base else None
    return base, [delta.name for delta in part.state.deltas], [file.path for file in part.state.originals]
