"""Tables by name that lie on real HDFS and on S3: read, compacted through Hive's queue, cleaned; Hive is the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import acidctl as api
from acidctl.compaction.report import Outcome
from acidctl.metastore.client import Client
from tests.cli.runner import acidctl
from tests.live import queued
from tests.live.named_histories import by_name, same_as_hive
from tests.live.queued import FULL
from tests.services.hdfs import Hdfs
from tests.services.hive import HIVE4
from tests.services.metastore import Metastore
from tests.services.s3 import S3Server

pytestmark = [pytest.mark.metastore, pytest.mark.timeout(600)]


@pytest.mark.hdfs
def test_a_table_on_hdfs(hdfs_cluster: Hdfs, tmp_path: Path) -> None:
    """A partition elsewhere is part of it, also for `clean`; what Hive reads never changes, and its Cleaner follows."""
    hdfs_cluster.mkdir("/warehouse")
    hdfs_cluster.mkdir("/scratch", mode="777")
    hdfs_cluster.mkdir("/else")
    with Metastore(HIVE4.on_hdfs(hdfs_cluster.url), tmp_path / "run") as metastore:
        run, java = metastore.hive.run, metastore.hive.java
        run(f"create table hd (id int) partitioned by (ds string) {FULL}")
        for number in range(2):
            run(f"insert into hd partition (ds) values ({number}, 'a b'), ({number}, 'far')")
        run("delete from hd where id = 1")
        path = java.org.apache.hadoop.fs.Path
        there = path("/warehouse/hd/ds=far").getFileSystem(java.org.apache.hadoop.hive.conf.HiveConf())
        assert there.rename(path("/warehouse/hd/ds=far"), path("/else/far"))
        run(f"alter table hd partition (ds='far') set location '{hdfs_cluster.url}/else/far'")
        assert same_as_hive(metastore, "hd") == 2
        done = by_name(metastore, "hd", "--count", "--partition", "ds=far")
        assert "1 row" in done.stdout, done
        with api.Metastore(metastore.url) as ours:
            report = ours.table("hd").compact(kind="major")
            assert {part.outcome for part in report.partitions} == {Outcome.COMPACTED}, report
            assert same_as_hive(metastore, "hd") == 2
            queued.clean(metastore, "hd")
            assert queued.states(metastore, "hd") == ["succeeded"] * 2
        assert _tops(hdfs_cluster, "/else/far") == {"base_0000003_v"}
        run("insert into hd partition (ds='far') values (7)")
        run("alter table hd partition (ds='far') compact 'major' pool 'acidctl'")
        assert acidctl("worker", "--once", "--metastore", metastore.url).code == 0
        aside = f"{hdfs_cluster.url}/aside"
        held = ("clean", "hd", "--metastore", metastore.url, "--unsafe-no-retention", "--unsafe-beside-hive")
        refused = acidctl(*held, "--quarantine", f"{hdfs_cluster.url}/else/far/q")
        assert (refused.code, "lies inside the table" in refused.stderr) == (2, True), refused
        for words in (("--quarantine", aside), ("--undo", "--quarantine", aside), ("--delete", "--yes")):
            done = acidctl(*held, *words)
            assert done.code == 0, (words, done)
            assert _tops(hdfs_cluster, "/else/far") == (
                {"base_0000003_v", "base_0000005_v", "delta_0000005_0000005_0000"}
                if "--undo" in words
                else {"base_0000005_v"}
            ), words
            assert same_as_hive(metastore, "hd") == 3
    for name in ("/warehouse", "/scratch", "/else", "/aside"):
        hdfs_cluster.remove(name)


def _tops(hdfs: Hdfs, folder: str) -> set[str]:
    """The names there, without the transactions of bases and what is hidden."""
    names = {path[len(folder) + 1 :].partition("/")[0] for path in hdfs.list(folder)}
    return {name[:14] if name.startswith("base") else name for name in names if name[0] not in "._"}


@pytest.mark.s3
def test_a_table_on_s3(metastore4: Metastore, moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive here has no client of S3: its table is copied there, and what is made of it comes back for Hive to read."""
    run, folder = metastore4.hive.run, metastore4.hive.warehouse / "on_s3"
    run(f"create table on_s3 (id int) {FULL}")
    for number in range(3):
        run(f"insert into on_s3 values ({number})")
    run("delete from on_s3 where id = 1")
    before, bucket, call = queued.rows(metastore4, "on_s3"), moto.bucket(), Client.call
    for path in sorted(folder.rglob("[!.]*")):
        if path.is_file():
            moto.client.upload_file(str(path), bucket, f"w/on_s3/{path.relative_to(folder)}")

    def moved(self: Client, name: str, *arguments: Any) -> Any:
        answer = call(self, name, *arguments)
        if name == "get_table_req":
            answer.table.sd.location = f"s3a://{bucket}/w/on_s3"
        return answer

    monkeypatch.setattr(Client, "call", moved)
    with api.Metastore(metastore4.url, storage_options=moto.options) as ours:
        table = ours.table("on_s3")
        assert table.snapshot().count() == len(before)
        (part,) = table.compact(kind="major").partitions
        assert part.outcome is Outcome.COMPACTED, part
        assert queued.states(metastore4, "on_s3") == ["ready for cleaning"]
        with pytest.raises(api.AcidctlError, match="Hive's Cleaner has compactions"):
            table.clean("delete")
        cleaned = table.clean("delete", older_than=None, unsafe_beside_hive=True)
        assert cleaned.exit_code == 0, cleaned
        assert table.snapshot().count() == len(before)
    keys = [key.removeprefix("w/on_s3/") for key in moto.keys(bucket, "w/on_s3/") if "/_acidctl" not in key]
    assert {key.partition("/")[0] for key in keys} == set(part.outputs)
    for old in folder.glob("del*ta_*"):
        old.rename(metastore4.hive.folder / f"gone_{old.name}")
    for key in keys:
        (folder / key).parent.mkdir(exist_ok=True)
        moto.client.download_file(bucket, f"w/on_s3/{key}", str(folder / key))
    assert queued.rows(metastore4, "on_s3") == before
    run("drop table on_s3")
