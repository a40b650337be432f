"""The harness around Hive 3.1.3 and 2.3.10: what later tests take for granted of it."""

from __future__ import annotations

import json

import pytest

from tests.services.hive import Hive

pytestmark = pytest.mark.hive3

TRANSACTIONAL = "clustered by (id) into 2 buckets stored as orc tblproperties ('transactional'='true')"


@pytest.mark.parametrize(("engine", "bucket"), [("hive3", 536870912), ("hive2", 0)])
def test_an_update_and_a_compaction(engine: str, bucket: int, request: pytest.FixtureRequest) -> None:
    """Update and major compaction work; the row says which bucket codec its Hive uses."""
    hive: Hive = request.getfixturevalue(engine)
    hive.run(f"create table c1 (id int, v string) {TRANSACTIONAL}")
    hive.run("insert into c1 values (1, 'a'), (2, 'b')")
    hive.run("update c1 set v = 'x' where id = 2")
    assert hive.compact("c1", "major") == "ready for cleaning"
    (row,) = (json.loads(line) for line in hive.rows("select ROW__ID, id, v from c1 where id = 2"))
    assert row["ROW__ID"]["bucketid"] == bucket
    assert row["v"] == "x"
    hive.run("drop table c1")


def test_write_ids_are_a_matter_of_hive_3(hive3: Hive) -> None:
    """Hive 3 hands out a write-id list of the table."""
    hive3.run(f"create table c2 (id int) {TRANSACTIONAL}")
    hive3.run("insert into c2 values (1)")
    assert hive3.session().valid_write_ids("default.c2") == "default.c2:1:9223372036854775807::"
    hive3.run("drop table c2")


def test_hive_2_has_transactions_only(hive2: Hive) -> None:
    """Hive 2 knows no write-id list, and an aborted transaction stands in its transaction list."""
    hive2.run(f"create table c3 (id int) {TRANSACTIONAL}")
    other = hive2.session("other")
    for sql in ("set autocommit false", "start transaction", "insert into c3 values (1)", "rollback"):
        other.run(sql)
    answer = hive2.session().select("select * from c3")
    assert answer.values == ()
    assert answer.valid_txns is not None
    high, lowest_open, aborted = answer.valid_txns.split(":")
    assert (high, lowest_open) == (aborted, "9223372036854775807")
    assert hive2.session().valid_write_ids("default.c3") is None
    hive2.run("drop table c3")
