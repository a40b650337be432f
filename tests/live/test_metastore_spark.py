"""`acidctl worker --engine spark` before a real Hive 4 metastore: one application does all requests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.live import queued
from tests.services.metastore import Metastore

pytestmark = [pytest.mark.metastore, pytest.mark.timeout(600)]


def test_requests_are_done_by_one_application(metastore4: Metastore) -> None:
    """Two at a time; Hive reads the same rows and row ids, and its cleaner follows."""
    hive, names = metastore4.hive, ("s_first", "s_second")
    for name in names:
        hive.run(f"create table {name} (id int) stored as orc tblproperties ('transactional'='true')")
        for number in range(3):
            hive.run(f"insert into {name} values ({number})")
        hive.run(f"delete from {name} where id = 1")
        hive.run(f"alter table {name} compact 'major' pool 'acidctl'")
    before = [sorted(hive.rows(f"select row__id, * from {name}")) for name in names]
    words = ("worker", "--once", "--engine", "spark", "--master", "local[2]", "--metastore", metastore4.url)
    done = subprocess.run(
        [sys.executable, "-m", "acidctl", *words], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert [sorted(hive.rows(f"select row__id, * from {name}")) for name in names] == before
    for name in names:
        queued.clean(metastore4, name)
    assert [one["state"] for name in names for one in hive.compactions(name)] == ["succeeded"] * 2
    assert [sorted(hive.rows(f"select row__id, * from {name}")) for name in names] == before
    for name in names:
        assert [path.name.split("_")[0] for path in (hive.warehouse / name).glob("[!._]*")] == ["base"]
        hive.run(f"drop table {name}")
