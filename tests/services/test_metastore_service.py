"""The harness around Hive's metastore: what later tests take for granted of it."""

from __future__ import annotations

import pytest

from tests.services.metastore import IDL, Metastore, ask
from tests.services.processes import answers

pytestmark = pytest.mark.metastore

ACID = "stored as orc tblproperties ('transactional'='true')"


def test_what_sql_makes_is_found_over_thrift(metastore4: Metastore) -> None:
    """Tables of every kind, made in a session, are there for a client of the port, with the writes of the session."""
    run = metastore4.hive.run
    for sql in (
        f"create table m1_full (id int) {ACID}",
        f"create table m1_parts (id int) partitioned by (ds string) {ACID}",
        "create table m1_inserts (id int) stored as orc "
        "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')",
        "create external table m1_outside (id int) stored as orc",
        "create view m1_view as select * from m1_full",
        "insert into m1_full values (1)",
        "insert into m1_parts values (1, 'a b')",
    ):
        run(sql)
    with ask(metastore4.url) as thrift:
        kinds = {
            name: thrift.get_table_req(
                IDL.GetTableRequest("default", name, IDL.ClientCapabilities([IDL.ClientCapability.INSERT_ONLY_TABLES]))
            ).table
            for name in ("m1_full", "m1_parts", "m1_inserts", "m1_outside", "m1_view")
        }
        assert kinds["m1_full"].sd.location == (metastore4.hive.warehouse / "m1_full").as_uri().replace("///", "/")
        assert {name: (table.tableType, table.parameters.get("transactional")) for name, table in kinds.items()} == {
            "m1_full": ("MANAGED_TABLE", "true"),
            "m1_parts": ("MANAGED_TABLE", "true"),
            "m1_inserts": ("MANAGED_TABLE", "true"),
            "m1_outside": ("EXTERNAL_TABLE", None),
            "m1_view": ("VIRTUAL_VIEW", None),
        }
        assert thrift.get_partition_names("default", "m1_parts", -1) == ["ds=a b"]
        txns = thrift.get_open_txns_req(IDL.GetOpenTxnsRequest([]))
        seen = f"{txns.txn_high_water_mark}:9223372036854775807::"
        (ids,) = thrift.get_valid_write_ids(
            IDL.GetValidWriteIdsRequest(["default.m1_full"], validTxnList=seen)
        ).tblValidWriteIds
        assert (ids.writeIdHighWaterMark, ids.invalidWriteIds) == (1, [])
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


def test_the_port_goes_and_comes_back(metastore4: Metastore) -> None:
    """Without its server a client is cut off and refused; afterwards clients and sessions go on."""
    port = int(metastore4.url.rsplit(":", 1)[1])
    with ask(metastore4.url) as thrift:
        assert thrift.getVersion() == "4.0.1"
        metastore4.stop_serving()
        try:
            with pytest.raises(Exception, match="read 0 bytes"):
                thrift.getVersion()
            assert not answers(port)
        finally:
            metastore4.serve()
    with ask(metastore4.url) as thrift:
        assert thrift.getVersion() == "4.0.1"
    metastore4.hive.run(f"create table m4 (id int) {ACID}")
    metastore4.hive.run("drop table m4")
