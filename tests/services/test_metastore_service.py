"""The harness around Hive's metastore: what later tests take for granted of it."""

from __future__ import annotations

import pytest

from tests.services.fixtures import SecureMetastore
from tests.services.metastore import IDL, Metastore, ask, end_writes
from tests.services.processes import answers

pytestmark = pytest.mark.metastore

BOTH = pytest.mark.parametrize("service", ["metastore4", pytest.param("metastore3", marks=pytest.mark.hive3)])
ACID = "stored as orc tblproperties ('transactional'='true')"


@BOTH
def test_what_sql_makes_is_found_over_thrift(service: str, request: pytest.FixtureRequest) -> None:
    """Tables of every kind, made in a session, are there for a client of the port, with the writes of the session."""
    metastore: Metastore = request.getfixturevalue(service)
    run = metastore.hive.run
    for sql in (
        f"create table m1_full (id int) {ACID}",
        f"create table m1_parts (id int) partitioned by (ds string) {ACID}",
        "create table m1_inserts (id int) stored as orc "
        "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')",
        "create external table m1_outside (id int) stored as orc",
        "create view m1_view as select * from m1_full",
        "insert into m1_full values (1)",
        "insert into m1_parts partition (ds='a b') values (1)",
    ):
        run(sql)
    with ask(metastore.url) as thrift:
        kinds = {
            name: thrift.get_table_req(
                IDL.GetTableRequest("default", name, IDL.ClientCapabilities([IDL.ClientCapability.INSERT_ONLY_TABLES]))
            ).table
            for name in ("m1_full", "m1_parts", "m1_inserts", "m1_outside", "m1_view")
        }
        assert kinds["m1_full"].sd.location == (metastore.hive.warehouse / "m1_full").as_uri().replace("///", "/")
        assert {name: (table.tableType, table.parameters.get("transactional")) for name, table in kinds.items()} == {
            "m1_full": ("MANAGED_TABLE", "true"),
            "m1_parts": ("MANAGED_TABLE", "true"),
            "m1_inserts": ("MANAGED_TABLE", "true"),
            "m1_outside": ("EXTERNAL_TABLE", None),
            "m1_view": ("VIRTUAL_VIEW", None),
        }
        assert thrift.get_partition_names("default", "m1_parts", -1) == ["ds=a b"]
        aborted, left = end_writes(thrift, "default.m1_full", "ao")
        txns = thrift.get_open_txns()
        assert txns.open_txns == [aborted, left]
        seen = f"{txns.txn_high_water_mark}:{left}:{left}:{aborted}"
        (ids,) = thrift.get_valid_write_ids(
            IDL.GetValidWriteIdsRequest(["default.m1_full"], validTxnList=seen)
        ).tblValidWriteIds
        assert (ids.writeIdHighWaterMark, ids.invalidWriteIds, ids.minOpenWriteId) == (3, [2, 3], 3)
        assert metastore.hive.session().valid_write_ids("default.m1_full") == "default.m1_full:3:3:3:2"
        thrift.abort_txn(IDL.AbortTxnRequest(left))
    run("drop view m1_view")
    for name in ("full", "parts", "inserts", "outside"):
        run(f"drop table m1_{name}")


def test_a_request_goes_through_worker_and_cleaner(metastore4: Metastore) -> None:
    """A worker does what is in its own pool, the cleaner removes what was compacted, and each step is shown."""
    run = metastore4.hive.run
    run(f"create table m2 (id int) {ACID}")
    run("insert into m2 values (1)")
    run("insert into m2 values (2)")
    run("alter table m2 compact 'major' pool 'night'")
    with ask(metastore4.url) as thrift:

        def shown() -> tuple[str, str]:
            (entry,) = thrift.show_compact(IDL.ShowCompactRequest(dbName="default", tbName="m2")).compacts
            return entry.state, entry.poolName

        metastore4.work()
        assert shown() == ("initiated", "night")
        metastore4.work("night")
        assert shown() == ("ready for cleaning", "night")
        metastore4.clean()
        assert shown() == ("succeeded", "night")
    assert [path.name.split("_v")[0] for path in (metastore4.hive.warehouse / "m2").iterdir()] == ["base_0000002"]
    run("drop table m2")


@pytest.mark.hive3
def test_hive_3_compacts_and_times_out(metastore3: Metastore) -> None:
    """Its worker, cleaner and initiator are there as well, without pools."""
    run = metastore3.hive.run
    run(f"create table m5 (id int) {ACID[:-1]}, 'compactorthreshold.hive.compactor.delta.num.threshold'='1')")
    run("insert into m5 values (1)")
    run("insert into m5 values (2)")
    with ask(metastore3.url) as thrift:

        def shown() -> list[str]:
            entries = thrift.show_compact(IDL.ShowCompactRequest()).compacts
            return [entry.state for entry in entries if entry.tablename == "m5"]

        metastore3.initiate()
        assert shown() == ["initiated"]
        run("alter table m5 compact 'major'")
        metastore3.work()
        assert shown() == ["ready for cleaning"]
        metastore3.clean()
        assert shown() == ["succeeded"]
        (txn,) = end_writes(thrift, "default.m5", "o")
        metastore3.time_out()
        assert txn in thrift.get_open_txns().open_txns
        metastore3.time_out(settings={"hive.txn.timeout": "0s"})
        assert {info.id: info.state for info in thrift.get_open_txns_info().open_txns}[txn] == IDL.TxnState.ABORTED
    run("drop table m5")


def test_the_initiator_requests_what_is_due(metastore4: Metastore) -> None:
    """A table over its threshold gets a request of its own."""
    run = metastore4.hive.run
    run(f"create table m3 (id int) {ACID[:-1]}, 'compactorthreshold.hive.compactor.delta.num.threshold'='1')")
    run("insert into m3 values (1)")
    run("insert into m3 values (2)")
    metastore4.initiate()
    with ask(metastore4.url) as thrift:
        (entry,) = thrift.show_compact(IDL.ShowCompactRequest(dbName="default", tbName="m3")).compacts
    assert entry.state == "initiated"
    run("drop table m3")


def test_who_gives_no_sign_of_life_is_aborted_and_forgotten(metastore4: Metastore) -> None:
    """A transaction is aborted when its time is over, and forgotten since it wrote nothing."""
    with ask(metastore4.url) as thrift:
        txn, newer = thrift.open_txns(IDL.OpenTxnRequest(2, "alice", "elsewhere")).txn_ids
        thrift.commit_txn(IDL.CommitTxnRequest(newer))
        metastore4.time_out()
        assert txn in thrift.get_open_txns_req(IDL.GetOpenTxnsRequest([])).open_txns
        metastore4.time_out(settings={"hive.txn.timeout": "0s"})
        found = {info.id: info.state for info in thrift.get_open_txns_info().open_txns}
        assert found[txn] == IDL.TxnState.ABORTED
        metastore4.forget_empty_aborts()
        assert txn not in thrift.get_open_txns_req(IDL.GetOpenTxnsRequest([])).open_txns


@BOTH
def test_the_port_goes_and_comes_back(service: str, request: pytest.FixtureRequest) -> None:
    """Without its server a client is cut off and refused; afterwards clients and sessions go on."""
    metastore: Metastore = request.getfixturevalue(service)
    version = "3.0" if service == "metastore3" else "4.0.1"
    port = int(metastore.url.rsplit(":", 1)[1])
    with ask(metastore.url) as thrift:
        assert thrift.getVersion() == version
        metastore.stop_serving()
        try:
            with pytest.raises(Exception, match="read 0 bytes"):
                thrift.getVersion()
            assert not answers(port)
        finally:
            metastore.serve()
    with ask(metastore.url) as thrift:
        assert thrift.getVersion() == version
    metastore.hive.run(f"create table m4 (id int) {ACID}")
    metastore.hive.run("drop table m4")


def test_sessions_of_a_metastore_that_asks_for_tickets(secure_metastore: SecureMetastore) -> None:
    """Sessions, worker and cleaner go on as without tickets."""
    hive = secure_metastore.metastore.hive
    hive.run(f"create table m6 (id int) {ACID}")
    hive.run("insert into m6 values (1)")
    hive.run("insert into m6 values (2)")
    assert hive.compact("m6", "major") == "ready for cleaning"
    secure_metastore.metastore.clean()
    assert hive.compactions("m6")[-1]["state"] == "succeeded"
    assert hive.rows("select id from m6") == ['{"id": 1}', '{"id": 2}']
    hive.run("drop table m6")
