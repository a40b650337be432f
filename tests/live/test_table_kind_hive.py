"""What kind a table is, as real Hive has it: full ACID stays so, and LOAD DATA OVERWRITE leaves rows with ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acidctl.errors import ExitCode
from tests.cli.runner import acidctl
from tests.services.hive import Hive, HiveError
from tests.support.steps import sorted_rows

FULL = "('transactional'='true')"


def _full_stays_full(hive: Hive) -> None:
    """So what was once written by a full ACID table proves for ever that it is one."""
    hive.run(f"create table kind_full (id int) stored as orc tblproperties {FULL}")
    hive.run("insert into kind_full values (1)")
    with pytest.raises(HiveError, match="transactional_properties"):
        hive.run("alter table kind_full set tblproperties ('transactional_properties'='insert_only')")
    hive.run("drop table kind_full")


def _upper(row: dict[str, Any]) -> dict[str, Any]:
    """The name of the row id as acidctl has it."""
    return {"ROW__ID" if name.lower() == "row__id" else name: value for name, value in row.items()}


def _overwritten_by_load_data(hive: Hive, folder: Path) -> None:
    """A table with deletes whose base is loaded files: acidctl and Hive give the same ROW__IDs."""
    hive.run("create table kind_source (id int, v string) stored as orc tblproperties ('transactional'='false')")
    hive.run("insert into kind_source values (1, 'a'), (2, 'b'), (3, 'c')")
    hive.run(f"create table kind_loaded (id int, v string) stored as orc tblproperties {FULL}")
    hive.run("insert into kind_loaded values (8, 'x'), (9, 'y')")
    hive.run("delete from kind_loaded where id = 8")
    loaded = folder / "loaded"
    loaded.mkdir()
    for path in (hive.warehouse / "kind_source").iterdir():
        if not path.name.startswith((".", "_")):
            (loaded / path.name).write_bytes(path.read_bytes())
    hive.run(f"load data local inpath '{loaded}' overwrite into table kind_loaded")
    session = hive.session()
    txns = session.valid_txns()
    lists = [str(session.valid_write_ids("default.kind_loaded", txns)), txns]
    given = [part for text in lists for part in ("--validtxns", text)]
    place = str(hive.warehouse / "kind_loaded")
    ours = acidctl("snapshot", place, *given, "--row-id", "-o", "jsonl")
    assert (ours.code, ours.stderr) == (ExitCode.DONE, "")
    theirs = [json.loads(row) for row in hive.rows("select ROW__ID, id, v from kind_loaded")]
    assert sorted_rows(_upper(row) for row in theirs) == sorted_rows(ours.json_lines())
    refused = acidctl("clean", place, *given, "--unsafe-no-retention", "--delete", "--yes")
    assert refused.code == ExitCode.USAGE
    assert "--table-type full" in refused.stderr
    hive.run("drop table kind_loaded")
    hive.run("drop table kind_source")


@pytest.mark.hive
def test_kinds_of_hive_4(hive4: Hive, tmp_path: Path) -> None:
    """Hive 4."""
    _full_stays_full(hive4)
    _overwritten_by_load_data(hive4, tmp_path)


@pytest.mark.hive3
def test_kinds_of_hive_3(hive3: Hive, tmp_path: Path) -> None:
    """Hive 3."""
    _full_stays_full(hive3)
    _overwritten_by_load_data(hive3, tmp_path)
