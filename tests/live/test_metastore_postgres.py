"""What a metastore on PostgreSQL answers is what it answers on Derby: names, lists, the queue, and what goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import acidctl as api
from acidctl.compaction.report import Outcome
from tests.cli.runner import acidctl
from tests.live import queued
from tests.services.hive import HIVE4
from tests.services.metastore import Metastore, ask, end_writes
from tests.services.postgres import Postgres, with_database

pytestmark = [pytest.mark.metastore, pytest.mark.timeout(900)]

ACID = "stored as orc tblproperties ('transactional'='true')"


def test_a_metastore_on_postgresql(tmp_path: Path) -> None:
    """Reads by name, compacts through the queue and by the worker; Hive's cleaner follows."""
    with Postgres() as database, Metastore(with_database(HIVE4, database), tmp_path / "run") as metastore:
        hive = metastore.hive
        hive.run(f"create table p_parts (id int, v string) partitioned by (ds string) {ACID}")
        hive.run(f"create table p_plain (id int, v string) {ACID}")
        for number in range(3):
            hive.run(f"insert into p_parts partition (ds) values ({number}, 'x', 'a b'), ({number}, 'y', 'c')")
            hive.run(f"insert into p_plain values ({number}, 'x')")
        hive.run("delete from p_plain where id = 1")
        with ask(metastore.url) as thrift:
            end_writes(thrift, "default.p_plain", "cac")
        before = {name: sorted(hive.rows(f"select row__id, * from {name}")) for name in ("p_parts", "p_plain")}

        def same() -> None:
            for name, theirs in before.items():
                assert sorted(hive.rows(f"select row__id, * from {name}")) == theirs
                ours = acidctl("snapshot", name, "--metastore", metastore.url, "-o", "jsonl", "--row-id")
                lines = sorted(json.dumps(line, sort_keys=True) for line in ours.json_lines())
                assert lines == sorted(json.dumps(json.loads(line), sort_keys=True) for line in theirs), name

        same()
        with api.Metastore(metastore.url) as connected:
            assert connected.tables("default.p_*") == ("default.p_parts", "default.p_plain")
            assert connected.lists("p_plain").write_ids.format() == hive.session().valid_write_ids("default.p_plain")
            assert any(txn.state == "aborted" for txn in connected.transactions())
            report = connected.table("p_parts").compact(kind="major")
            assert [part.outcome for part in report.partitions] == [Outcome.COMPACTED] * 2
            hive.run("alter table p_plain compact 'minor' pool 'acidctl'")
            done = acidctl("worker", "--once", "--metastore", metastore.url)
            assert done.code == 0, done
            same()
            for name in before:
                queued.clean(metastore, name)
            assert {one.state for one in connected.compactions()} == {"succeeded"}
            same()
            left = {path.name.split("_")[0] for path in (hive.warehouse / "p_parts").glob("*/*")}
            assert left == {"base"}
            for words in (["txns"], ["locks"], ["compactions"], ["ls", "default.*", "--by-table"]):
                assert acidctl(*words, "--metastore", metastore.url).code in (0, 3), words
