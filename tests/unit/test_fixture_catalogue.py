"""The recorded fixture tables are complete, catalogued and small."""

from __future__ import annotations

import json

import catalogue

from tests import ROOT
from tests.services.scenario import scenarios

FIXTURES = ROOT / "fixtures"
TABLES = FIXTURES / "tables"
STEPS = sorted(TABLES.glob("*/*/*/step.json"))
MEBIBYTE = 1 << 20

KEYS = {
    *(
        "scenario",
        "step",
        "engine",
        "table",
        "kind",
        "columns",
        "partition_columns",
        "ddl",
        "valid_write_ids",
    ),
    *("valid_txns", "sql", "empty_directories", "hive_fault", "rows", "note"),
}


def test_there_are_fixtures() -> None:
    """An empty list of steps below must not pass for a complete one."""
    assert len(STEPS) > 20


def test_steps_are_complete() -> None:
    """Each step says where it belongs, has its table, and as many rows as it claims."""
    for path in STEPS:
        step = json.loads(path.read_text())
        assert set(step) == KEYS, path
        assert (step["engine"], step["scenario"], step["step"]) == path.parts[-4:-1], path
        assert step["kind"] in ("full", "insert_only", "non_acid"), path
        assert (path.parent / "table").is_dir() or "." in step["empty_directories"], path
        rows = [json.loads(line) for line in (path.parent / "rows.jsonl").read_text().split("\n") if line]
        assert len(rows) == step["rows"], path
        assert step["hive_fault"] is None or step["hive_fault"], path
        if step["kind"] != "non_acid":
            # In ACID v1 transaction ids are the write ids.
            assert step["engine"] == "hive2" or step["valid_write_ids"].startswith(step["table"] + ":"), path
            assert all("ROW__ID" in row for row in rows), path


def test_steps_tell_nothing_of_the_machine() -> None:
    """The recorded texts hold no scratch path of the run that made them."""
    assert [path for path in STEPS if "/tmp/" in path.read_text()] == []


def test_each_recorded_scenario_has_its_sql_and_each_sql_its_record() -> None:
    """No table without the statements that made it, no statement without its table."""
    for engine in sorted(folder.name for folder in TABLES.iterdir()):
        told = {
            f"{scenario.name}/{folder}"
            for scenario in scenarios(FIXTURES / "sql" / engine)
            for folder, _ in scenario.steps()
        }
        recorded = {str(path.parent.relative_to(TABLES / engine)) for path in STEPS if path.parts[-4] == engine}
        assert recorded == told


def test_catalogue_is_up_to_date() -> None:
    """The README lists every scenario with its steps, as `generate.py --catalogue` writes it."""
    assert catalogue.catalogue(FIXTURES) in (FIXTURES / "README.md").read_text()


def test_fixtures_stay_small() -> None:
    """All that is committed below `fixtures/` comes to 10 MB at most."""
    assert sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()) < 10 * MEBIBYTE
