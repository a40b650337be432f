"""The kind of a table where only what is obsolete still shows it: after LOAD DATA OVERWRITE."""

from __future__ import annotations

from pathlib import Path

import pytest

from acidctl.errors import ExitCode
from tests.cli.runner import acidctl
from tests.support.cleaning_cases import age, step, tree
from tests.support.steps import sorted_rows

OVERWRITTEN = ["hive3/load_data/03-overwritten", "hive4/load_data/04-overwritten"]


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_rows_of_a_loaded_base_have_their_ids(name: str) -> None:
    """Obsolete deletes and bucket files prove that the table is full ACID, so no option has to say it."""
    one = step(name)
    result = acidctl("snapshot", str(one.table), *one.options, "--table", "default.t", "--row-id", "-o", "jsonl")
    assert (result.code, result.stderr) == (ExitCode.DONE, "")
    assert sorted_rows(result.json_lines()) == sorted_rows(one.hive_rows)
    assert result.json_lines()[0]["ROW__ID"] is not None
    plan = acidctl("compact", "major", str(one.table), *one.options, "--table", "default.t", "-n", "-o", "json")
    assert [part["reason_code"] for part in plan.json()["partitions"]] == ["not_enough"], plan.stdout


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_clean_does_not_take_away_what_shows_the_kind(name: str, tmp_path: Path) -> None:
    """Afterwards the rows would have no ids; who states the kind may clean."""
    one = step(name)
    table = one.copy(tmp_path / "t")
    age(table)
    before = tree(table)
    for action in ([], ["--delete", "--yes"], ["--quarantine", str(tmp_path / "box")]):
        refused = acidctl("clean", str(table), *one.options, *action)
        assert (refused.code, refused.stdout) == (ExitCode.USAGE, ""), action
        assert "--table-type full" in refused.stderr
        assert tree(table) == before
    young = acidctl("clean", str(table), *one.options, "--older-than", "5200w")
    assert young.code == ExitCode.DONE, young.stderr
    done = acidctl("clean", str(table), *one.options, "--delete", "--yes", "--table-type", "full")
    assert done.code == ExitCode.DONE, done.stderr
    assert sorted(path.name for path in table.iterdir() if not path.name.startswith("_")) == ["base_0000005"]
    assert "looks the same. --table-type" in acidctl("snapshot", str(table), *one.options, "--count").stderr
    rows = acidctl("snapshot", str(table), *one.options, "--table-type", "full", "--row-id", "-o", "jsonl")
    assert sorted_rows(rows.json_lines()) == sorted_rows(one.hive_rows)


def test_originals_show_the_kind_too(tmp_path: Path) -> None:
    """A table that was converted, and then overwritten by LOAD DATA."""
    table = step(OVERWRITTEN[1]).copy(tmp_path / "t")
    for name in ("delete_delta_0000001_0000004_v0197113", "delta_0000001_0000004_v0197113"):
        assert (table / name).is_dir()
    for path in sorted(table.rglob("*"), reverse=True):
        if path.relative_to(table).parts[0] != "base_0000005":
            path.unlink() if path.is_file() else path.rmdir()
    (table / "000000_0").write_bytes(next((table / "base_0000005").iterdir()).read_bytes())
    age(table)
    lists = ("--validtxns", "default.t:5:9223372036854775807::", "--validtxns", "200000:9223372036854775807::")
    refused = acidctl("clean", str(table), *lists)
    assert refused.code == ExitCode.USAGE, refused.stdout
    assert "looks like an insert-only one" in refused.stderr
