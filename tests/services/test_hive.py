"""The harness around real Hive: what later tests take for granted of it."""

from __future__ import annotations

import json

import pytest

from tests.services.hive import Hive

pytestmark = pytest.mark.hive


def test_a_select_answers_with_row_ids_and_its_snapshot(hive4: Hive) -> None:
    """Rows come as JSON with ROW__ID first, and both lists name what the query could see."""
    hive4.run("create table h1 (id int, v string) stored as orc tblproperties ('transactional'='true')")
    hive4.run("insert into h1 values (1, 'a')")
    answer = hive4.session().select("select ROW__ID, * from h1")
    assert [json.loads(line) for line in answer.lines()] == [
        {"ROW__ID": {"writeid": 1, "bucketid": 536870912, "rowid": 0}, "id": 1, "v": "a"}
    ]
    seen = hive4.session().valid_write_ids("default.h1", answer.valid_txns)
    assert seen is not None
    assert seen.startswith("default.h1:1:")
    hive4.run("drop table h1")


def test_an_open_transaction_of_another_session_is_not_seen(hive4: Hive) -> None:
    """Each session has a transaction of its own, which ROLLBACK turns into an aborted write id."""
    hive4.run("create table h2 (id int) stored as orc tblproperties ('transactional'='true')")
    other = hive4.session("other")
    other.run("start transaction")
    other.run("insert into h2 values (1)")
    assert hive4.rows("select id from h2") == []
    other.run("rollback")
    seen = hive4.session().valid_write_ids("default.h2")
    assert seen is not None
    assert seen.endswith(":1")
    hive4.run("drop table h2")
