"""Every step of every fixture table: the rows and row ids that Hive returned, value for value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acidctl.snapshot import PartitionState, Snapshot
from acidctl.state import TableType, guess_table_type, resolve
from acidctl.storage.gather import gather
from acidctl.storage.local import LocalStorage
from acidctl.values import json_lines
from acidctl.writeids import recognise

TABLES = Path(__file__).parent.parent / "fixtures" / "tables"
STEPS = sorted(TABLES.glob("*/*/*/step.json"))


def steps() -> list[Any]:
    return [pytest.param(path, id="/".join(path.parent.parts[-3:])) for path in STEPS]


def _rows(text: str) -> list[str]:
    rows = [json.loads(line) for line in text.split("\n") if line]
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("path", steps())
def test_rows(path: Path) -> None:
    step = json.loads(path.read_text())
    table = path.parent / "table"
    for name in step["empty_directories"]:
        (table / name).mkdir(parents=True, exist_ok=True)
    storage = LocalStorage()
    lists = recognise([t for t in (step["valid_write_ids"], step["valid_txns"]) if t], list_format="hive2" if step["engine"]=="hive2" else None)
    locations = gather(storage, str(table))
    kind = {"full": TableType.FULL, "insert_only": TableType.INSERT_ONLY}.get(step["kind"]) or guess_table_type(l.listing for l in locations).type
    acid_v1 = guess_table_type(l.listing for l in locations).acid_v1
    if acid_v1: lists = lists.for_acid_v1()
    parts = [PartitionState(l, resolve(l.listing, lists.effective_write_ids, lists.effective_txns, table_type=kind)) for l in locations]
    from acidctl.schema import parse_schema
    snap = Snapshot(storage, str(table), parts, lists, schema=parse_schema(step["ddl"]))
    got = b""
    for rows in snap.rows():
        names, types, columns = rows.with_row_id()
        got += bytes(json_lines(columns, names, types))
    want = (path.parent / "rows.jsonl").read_text()
    mine = got.decode()
    if "ROW__ID" not in want:
        mine = "\n".join(json.dumps({k: v for k, v in json.loads(l).items() if k != "ROW__ID"}) for l in mine.split("\n") if l)
    assert _rows(mine) == _rows(want)
    assert snap.count() == step["rows"]
