"""Lists from before a compaction of real Hive: rows until its Cleaner comes, and then an error."""

from __future__ import annotations

from typing import Any

import pytest

import acidctl as api
from acidctl.errors import ExitCode
from tests.cli.runner import acidctl
from tests.services.metastore import Metastore

pytestmark = [pytest.mark.metastore, pytest.mark.timeout(900)]

KINDS = {
    "full": "stored as orc tblproperties ('transactional'='true')",
    "insert-only": "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')",
}


def counted(place: str, lists: tuple[str, ...], kind: str) -> Any:
    """Rows by these lists, or the exit code."""
    words = [word for text in lists for word in ("--validtxns", text)]
    result = acidctl("snapshot", place, *words, "--table-type", kind, "--count", "-o", "json")
    return result.json()["rows"] if result.code == 0 else result.code


@pytest.mark.parametrize("compaction", ["minor", "major"])
@pytest.mark.parametrize("kind", KINDS)
def test_lists_then_a_compaction_and_the_cleaner(metastore4: Metastore, kind: str, compaction: str) -> None:
    """By path 12, and rows until then; by name rows."""
    hive, name = metastore4.hive, f"old_lists_{kind.replace('-', '_')}_{compaction}"
    hive.run(f"create table {name} (id int, v string) partitioned by (p int) {KINDS[kind]}")
    try:
        for number in range(6):
            hive.run(f"insert into {name} partition (p={number % 2}) values ({number}, 'a'), ({number + 10}, 'b')")
        if kind == "full":
            hive.run(f"delete from {name} where id = 2")
            hive.run(f"update {name} set v = 'c' where id in (4, 12)")
        rows = len(hive.rows(f"select * from {name}"))
        with api.Metastore(metastore4.url) as ours:
            old = ours.lists(name).texts
        place = str(hive.warehouse / name)
        hive.run(f"insert into {name} partition (p=0) values (100, 'later')")
        hive.compact(name, compaction, "p='0'")
        assert counted(place, old, kind) == rows
        metastore4.clean()
        assert counted(place, old, kind) == ExitCode.NOT_ENOUGH_HISTORY
        assert counted(f"{place}/p=1", old, kind) == 6
        words = [word for text in old for word in ("--validtxns", text)]
        refused = acidctl("compact", "major", place, *words, "--table-type", kind, "-o", "json", "--assume-exclusive")
        assert refused.code == ExitCode.FINDINGS
        assert refused.json()["partitions"][0]["reason_code"] == "lists_too_old"
        by_name = acidctl("snapshot", name, "--metastore", metastore4.url, "--count", "-o", "json")
        assert by_name.json()["rows"] == rows + 1
    finally:
        hive.run(f"drop table if exists {name}")
