"""Tables by name against Hive's own SELECT of the same moment: rows, row ids and partitions, wherever they lie."""

from __future__ import annotations

import copy
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import acidctl as api
from acidctl.metastore.catalog import BATCH
from tests.cli.runner import acidctl
from tests.live.named_histories import NamedHistory, by_name, same_as_hive
from tests.services.metastore import IDL, Metastore, ask, end_writes
from tests.support.extent import EXTENT, amount

pytestmark = [pytest.mark.metastore, pytest.mark.timeout(900)]

ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"


@contextmanager
def _made(metastore: Metastore, *statements: str, tables: tuple[str, ...]) -> Iterator[None]:
    """Runs statements, and drops tables at the end."""
    try:
        for sql in statements:
            metastore.hive.run(sql)
        yield
    finally:
        for name in tables:
            metastore.hive.run(f"drop table if exists {name}")


def test_random_histories(metastore4: Metastore) -> None:
    """Hive writes, aborts, leaves open, alters, moves, compacts and cleans; after each step it is what Hive reads."""
    compared = []
    for seed in range(amount(4, swept=40, sample=1)):
        history = NamedHistory(metastore4, f"n_history_{seed}", seed)
        compared += history.live(amount(12, swept=25, sample=6))
        history.drop()
    print(f"{len(compared)} comparisons, {sum(compared)} rows")
    assert len(compared) >= 6


VALUES = ("a b", "a/b", "100%", "x=y", "MixedCase", "it''s", "ä", "#1", "a:b", 'q"q')


def test_partitions_where_they_are(metastore4: Metastore, tmp_path: Path) -> None:
    """Odd values, null, other places, folders without a partition, partitions without a folder."""
    run, folder = metastore4.hive.run, metastore4.hive.warehouse / "n_parts"
    values = " union all ".join(f"select {number}, '{value}', {number % 2}" for number, value in enumerate(VALUES))
    with _made(
        metastore4,
        f"create table n_parts (id int) partitioned by (ds string, hr int) {ACID}",
        f"insert into n_parts partition (ds, hr) {values} union all select 90, cast(null as string), 7"
        " union all select 91, 'moved', 1 union all select 92, 'dropped', 1 union all select 93, 'lost', 1",
        tables=("n_parts",),
    ):
        assert same_as_hive(metastore4, "n_parts") == len(VALUES) + 4
        result = by_name(metastore4, "n_parts", "--partition", "ds=a/b".replace("/", "%2F"), "-o", "jsonl")
        assert [row["id"] for row in result.json_lines()] == [1]
        # Elsewhere, in a folder whose name says nothing.
        elsewhere = tmp_path / "no_name"
        shutil.move(folder / "ds=moved/hr=1", elsewhere)
        (folder / "ds=moved").rmdir()
        run(f"alter table n_parts partition (ds='moved', hr=1) set location 'file:{elsewhere}'")
        # Dropped, and its folder is there again; copied, and never registered.
        shutil.copytree(folder / "ds=dropped", folder / "ds=kept")
        run("alter table n_parts drop partition (ds='dropped', hr=1)")
        shutil.copytree(folder / "ds=kept", folder / "ds=dropped", dirs_exist_ok=True)
        shutil.rmtree(folder / "ds=lost")
        run("alter table n_parts add partition (ds='empty', hr=3)")
        assert same_as_hive(metastore4, "n_parts") == len(VALUES) + 2
        told = by_name(metastore4, "n_parts", "--count")
        assert told.code == 0
        assert "Hive does not read them: ds=dropped/hr=1, ds=kept/hr=1." in told.stderr
        # A folder that was nobody's is a partition now, of other values.
        run(f"alter table n_parts partition (ds='empty', hr=3) set location 'file:{folder}/ds=kept/hr=1'")
        assert same_as_hive(metastore4, "n_parts") == len(VALUES) + 3
        run("insert into n_parts partition (ds='moved', hr=1) values (911)")
        run("delete from n_parts where id = 3")
        assert same_as_hive(metastore4, "n_parts") == len(VALUES) + 3
        dumped = acidctl("dump", "n_parts", "--partition", "ds=moved", "--metastore", metastore4.url, "-o", "jsonl")
        assert {Path(file["fileName"]).parts[-2] for file in dumped.json_lines()} >= {"delta_0000001_0000001_0000"}
        assert all(file["fileName"].startswith(f"{elsewhere}/") for file in dumped.json_lines()), dumped.stderr
        table = api.open_table(f"{metastore4.url}/n_parts")
        assert table.snapshot().count() == len(VALUES) + 3
        planned = {part.partition: part for part in table.plan_compaction(kind="major").partitions}
        assert planned["ds=moved/hr=1"].path == str(elsewhere)
        assert (planned["ds=moved/hr=1"].action.value, planned["ds=a b/hr=0"].action.value) == (
            "compact",
            "nothing_to_do",
        )
        assert not {"ds=dropped/hr=1", "ds=kept/hr=1"} & planned.keys()
        with api.Metastore(metastore4.url) as ours:
            table = ours.table("N_Parts")
            texts = {place.partition: place.listing.root for place in table.locations()}
            assert texts["ds=moved/hr=1"] == str(elsewhere)
            assert set(texts) == {partition for partition, _ in ours.catalog.partitions(table.info)}


def test_hive_loses_what_it_changes_elsewhere(metastore4: Metastore, tmp_path: Path) -> None:
    """DELETE, UPDATE and INSERT by dynamic partition miss what lies elsewhere; the answer is still Hive's."""
    run, folder = metastore4.hive.run, metastore4.hive.warehouse / "n_lost"
    with _made(
        metastore4,
        f"create table n_lost (id int, v string) partitioned by (ds string) {ACID}",
        "insert into n_lost partition (ds='far') values (1, 'a'), (2, 'b'), (3, 'c')",
        tables=("n_lost",),
    ):
        shutil.move(folder / "ds=far", tmp_path / "far")
        run(f"alter table n_lost partition (ds='far') set location 'file:{tmp_path}/far'")
        # Hive writes them where the partition's name would have it, and reads where its location says.
        run("delete from n_lost where id = 1")
        run("update n_lost set v = 'new' where id = 2")
        run("insert into n_lost partition (ds) values (4, 'd', 'far')")
        assert same_as_hive(metastore4, "n_lost") == 3
        assert len(list((folder / "ds=far").glob("del*ta_*"))) == 4
        told = by_name(metastore4, "n_lost", "--count")
        assert "no partition of the metastore lies there, so that Hive does not read them: ds=far." in told.stderr
        # An INSERT that names the partition goes where it lies.
        run("insert into n_lost partition (ds='far') values (5, 'e')")
        assert same_as_hive(metastore4, "n_lost") == 4


def test_inserts_that_hive_nests(metastore4: Metastore, tmp_path: Path) -> None:
    """Where an insert-only partition was moved Hive writes `delta_3/delta_3`; its own compaction puts that right."""
    run, folder = metastore4.hive.run, metastore4.hive.warehouse / "n_nests"
    with _made(
        metastore4,
        f"create table n_nests (id int) partitioned by (ds string) {INSERT_ONLY}",
        "insert into n_nests partition (ds='far') values (1)",
        tables=("n_nests",),
    ):
        shutil.move(folder / "ds=far", tmp_path / "far")
        run(f"alter table n_nests partition (ds='far') set location 'file:{tmp_path}/far'")
        run("insert into n_nests partition (ds) values (2, 'far')")
        run("insert into n_nests partition (ds='far') values (3)")
        (nested,) = (path.parent.name for path in (tmp_path / "far").glob("delta_*/delta_*"))
        theirs = sorted(metastore4.hive.rows("select id from n_nests"))
        assert len(theirs) == 3
        as_hive = by_name(metastore4, "n_nests", "--profile", "hive4", "--columns", "id", "-o", "jsonl")
        assert sorted(as_hive.json_lines(), key=lambda row: row["id"]) == [json.loads(row) for row in theirs]
        strict = by_name(metastore4, "n_nests", "--count", "-o", "json")
        assert (strict.code, strict.json()["rows"], nested in strict.stderr) == (3, 2, True)
        with api.Metastore(metastore4.url) as ours:
            (part,) = ours.table("n_nests").compact(kind="major").partitions
            assert (part.outcome.value, part.reason_code) == ("refused", "nested_directory")
        assert metastore4.hive.compact("n_nests", "major", "ds='far'") == "ready for cleaning"
        metastore4.clean()
        assert sorted(metastore4.hive.rows("select id from n_nests")) == theirs
        assert same_as_hive(metastore4, "n_nests", row_ids=False) == 3


def test_names_and_databases(metastore4: Metastore, tmp_path: Path) -> None:
    """A database with a place of its own, names in any case and in backticks, tables that get other names."""
    run, warehouse = metastore4.hive.run, metastore4.hive.warehouse
    place = warehouse / "elsewhere of n_db"
    with _made(
        metastore4,
        f"create database N_Db managedlocation '{place.as_uri()}'",
        "create database n_other",
        f"create table n_db.Orders (`a b` int, `c,d` string, `e'f` int, Mixed string, `ü` int) {ACID}",
        "insert into n_db.orders values (1, 'x', 2, 'y', 3)",
        tables=(),
    ):
        for name in ("n_db.orders", "N_DB.ORDERS", "`n_db`.`orders`", "`N_db`.Orders"):
            assert same_as_hive(metastore4, name) == 1
        with api.Metastore(metastore4.url) as ours:
            before = ours.lists("n_db.orders")
            run("alter table n_db.orders rename to n_db.sales")
            assert same_as_hive(metastore4, "n_db.sales") == 1
            run("alter table n_db.sales rename to n_other.sold")
            assert same_as_hive(metastore4, "n_other.sold") == 1
            after = ours.lists("n_other.sold")
            # Each new name took a write id.
            assert after.write_ids.high_watermark == before.write_ids.high_watermark + 2
            run("insert into n_other.sold values (2, 'x', 2, 'y', 3)")
            assert same_as_hive(metastore4, "n_other.sold") == 2
            gone = by_name(metastore4, "n_db.orders")
            assert gone.code == 10
    run("drop database n_db cascade")
    run("drop database n_other cascade")


def test_columns_that_change(metastore4: Metastore) -> None:
    """Columns that are added, widened, renamed, in a table and in one with partitions."""
    run = metastore4.hive.run
    with _made(
        metastore4,
        f"create table n_altered (id int, v int, w string) partitioned by (p string) {ACID}",
        "insert into n_altered partition (p) select 1, 2, 'three', 'a' union all select 4, 5, 'six', 'b'",
        "alter table n_altered add columns (x double, y array<struct<a:int,b:string>>) cascade",
        "alter table n_altered change column v v bigint cascade",
        "insert into n_altered partition (p='a') select 7, 8589934592, 'nine', 1.5, "
        "array(named_struct('a', 1, 'b', 'c'))",
        tables=("n_altered",),
    ):
        assert same_as_hive(metastore4, "n_altered") == 3
        run("alter table n_altered change column w renamed string cascade")
        assert same_as_hive(metastore4, "n_altered") == 3
        run("update n_altered set renamed = 'new' where id = 4")
        assert same_as_hive(metastore4, "n_altered") == 3


def test_kinds_of_tables_and_their_compactions(metastore4: Metastore) -> None:
    """Insert-only and bucketed tables, with aborted and open writes, before and after Hive compacts and cleans."""
    hive = metastore4.hive
    with _made(
        metastore4,
        f"create table n_inserts (id int, v string) {INSERT_ONLY}",
        f"create table n_buckets (id int, v string) clustered by (id) into 3 buckets {ACID}",
        "insert into n_inserts values (1, 'a'), (2, 'b')",
        "insert into n_inserts values (3, 'c')",
        "insert into n_buckets values (1, 'a'), (2, 'b'), (3, 'c')",
        "update n_buckets set v = 'z' where id = 2",
        tables=("n_inserts", "n_buckets"),
    ):
        with ask(metastore4.url) as thrift:
            for name in ("n_inserts", "n_buckets"):
                ids = name == "n_buckets"
                (*_, still_open) = end_writes(thrift, f"default.{name}", "cao")
                assert same_as_hive(metastore4, name, row_ids=ids) == 3
                thrift.abort_txns(IDL.AbortTxnsRequest([still_open]))
                assert hive.compact(name, "major") in ("ready for cleaning", "succeeded")
                assert same_as_hive(metastore4, name, row_ids=ids) == 3
        metastore4.clean()
        for name in ("n_inserts", "n_buckets"):
            assert same_as_hive(metastore4, name, row_ids=name == "n_buckets") == 3


def test_what_is_no_acid_table_is_a_clear_no(metastore4: Metastore) -> None:
    """Views, external and plain tables: one sentence each, exit code 11."""
    run = metastore4.hive.run
    refused = {
        "n_view": "default.n_view is a view",
        "n_external": "default.n_external is an external table without transactions",
        "n_rebuilt": "default.n_rebuilt is a materialized view without transactions",
    }
    run(f"create table n_base (id int) {ACID}")
    run("create view n_view as select id from n_base")
    run("create external table n_external (id int) stored as orc")
    run("create materialized view n_rebuilt as select id from n_base")
    try:
        for name, sentence in refused.items():
            result = by_name(metastore4, name)
            assert (result.code, result.stderr.partition("\n")[0]) == (11, f"error: {sentence}"), name
            assert "hint" in result.stderr
    finally:
        run("drop materialized view n_rebuilt")
        run("drop view n_view")
        run("drop table n_external")
        run("drop table n_base")


def test_ten_thousand_partitions(metastore4: Metastore) -> None:
    """What the metastore knows of them comes in batches, and in seconds."""
    many = 1_050 if EXTENT == "sample" else 10_000
    # The table stays: to drop it takes Hive as long as all the rest.
    metastore4.hive.run("create database n_many")
    metastore4.hive.run(f"create table n_many.t (id int, v string) partitioned by (ds string, hr int) {ACID}")
    with ask(metastore4.url, timeout=300_000) as thrift:
        table = thrift.get_table_req(IDL.GetTableRequest("n_many", "t")).table
        for first in range(0, many, 525):
            thrift.add_partitions([_partition(table, number) for number in range(first, min(first + 525, many))])
    with api.Metastore(metastore4.url) as ours:
        info = ours.catalog.table(ours.table("n_many.t").info.name)
        before, started = ours.client.requests, time.monotonic()
        found = dict(ours.catalog.partitions(info))
        seconds, requests = time.monotonic() - started, ours.client.requests - before
        assert len(found) == many
        assert found["ds=d%3A7/hr=7"].endswith("/n_many.db/t/ds=d%3A7/hr=7")
        assert requests == 1 + many // BATCH + (many % BATCH > 0)
        print(f"{many} partitions: {requests} requests, {seconds:.1f} s")
        one = dict(ours.catalog.partitions(info, ["ds=d%3A7/hr=7", "ds=gone/hr=1"]))
        assert list(one) == ["ds=d%3A7/hr=7"]
    # Beside other tests on the same machine it may take a while.
    assert seconds < 60


def _partition(table: Any, number: int) -> Any:
    place = copy.deepcopy(table.sd)
    place.location = f"{table.sd.location}/ds=d%3A{number}/hr={number % 24}"
    return IDL.Partition([f"d:{number}", str(number % 24)], "n_many", "t", 0, place, {"k": "v"})
