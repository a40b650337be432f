"""Tables by name in a real Hive 3.1.3 metastore: read, compacted under a lock, cleaned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import acidctl as api
from acidctl.compaction.report import Outcome
from tests.cli.runner import acidctl
from tests.services.metastore import Metastore

pytestmark = [pytest.mark.metastore, pytest.mark.hive3, pytest.mark.timeout(600)]

ACID = "stored as orc tblproperties ('transactional'='true')"


def test_a_table_of_hive_3(metastore3: Metastore, tmp_path: Path) -> None:
    """What Hive reads is what it read before, in partitions elsewhere too; folders without a partition are let be."""
    hive, folder = metastore3.hive, metastore3.hive.warehouse / "h_parts"
    hive.run(f"create table h_parts (id int) partitioned by (ds string) {ACID}")
    for number in range(3):
        hive.run(f"insert into h_parts partition (ds) select {number}, 'a b' union all select {number}, 'far'")
    hive.run("delete from h_parts where id = 1")
    shutil.copytree(folder / "ds=a b", folder / "ds=nobody")
    (folder / "ds=far").rename(tmp_path / "far")
    hive.run(f"alter table h_parts partition (ds='far') set location 'file:{tmp_path}/far'")

    def rows() -> list[str]:
        theirs = sorted(hive.rows("select row__id, * from h_parts"))
        ours = acidctl("snapshot", "h_parts", "--metastore", metastore3.url, "-o", "jsonl", "--row-id")
        lines = sorted(json.dumps(line, sort_keys=True) for line in ours.json_lines())
        assert lines == sorted(json.dumps(json.loads(line), sort_keys=True) for line in theirs)
        return theirs

    before, untouched = rows(), sorted(path.name for path in (folder / "ds=nobody").iterdir())
    assert len(before) == 4
    with api.Metastore(metastore3.url) as connected:
        table = connected.table("h_parts")
        plan = {part.partition: part.action.value for part in table.plan_compaction(kind="major").partitions}
        assert plan == {"ds=a b": "compact", "ds=far": "compact"}
        done = {part.partition: part.outcome for part in table.compact(kind="major").partitions}
        assert done == {"ds=a b": Outcome.COMPACTED, "ds=far": Outcome.COMPACTED}
        assert rows() == before
        assert sorted(path.name for path in (folder / "ds=nobody").iterdir()) == untouched
        assert (tmp_path / "far/base_0000004").is_dir()
        assert not connected.locks("h_parts")
        report = table.clean("delete", older_than=None)
        assert report.exit_code == 0, report
        assert [path.name for path in (folder / "ds=a b").glob("[!._]*")] == ["base_0000004"]
        assert rows() == before
    refused = acidctl("worker", "--once", "--metastore", metastore3.url)
    assert (refused.code, "is older than Hive 4" in refused.stderr) == (2, True)
    hive.run("alter table h_parts partition (ds='far') compact 'major'")
    answers = {
        words: acidctl(*words, "--metastore", metastore3.url, "-o", "json")
        for words in (("txns",), ("locks",), ("compactions", "h_parts"))
    }
    assert {words[0]: result.code for words, result in answers.items()} == {"txns": 0, "locks": 0, "compactions": 0}
    (entry,) = answers["compactions", "h_parts"].json()["compactions"]
    assert (entry["partition"], entry["kind"], entry["state"]) == ("ds=far", "major", "initiated")
    hive.run("drop table h_parts")
