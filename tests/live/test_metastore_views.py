"""`lists`, `txns`, `locks`, `compactions` and `ls --by-table` beside what real Hive says in a session."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from acidctl.errors import ExitCode
from tests.cli.runner import Result, acidctl
from tests.live import queued
from tests.services.metastore import IDL, Metastore, ask
from tests.unit.test_docs import STORIES, needs_a_metastore

pytestmark = pytest.mark.metastore

ACID = "stored as orc tblproperties ('transactional'='true')"
READ_ONLY = IDL.TxnType.READ_ONLY


@pytest.fixture
def hive(metastore4: Metastore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metastore]:
    """A metastore with a database of its own, `sales`, which command lines find by the environment."""
    monkeypatch.setenv("ACIDCTL_METASTORE", metastore4.url)
    run = metastore4.hive.run
    run("create database sales")
    run(f"create table sales.orders (id int) {ACID}")
    run(f"create table sales.items (id int) partitioned by (ds string) {ACID}")
    try:
        yield metastore4
    finally:
        for name in ("writer", "failed"):
            metastore4.hive.end_session(name)
        run("drop database sales cascade")


def shown(hive: Metastore, sql: str) -> list[list[str]]:
    """What a session shows, without the heading."""
    rows = hive.hive.session("shows").select(sql).values
    found = [row[0].strip('"').split("\\t") if len(row) == 1 else [json.loads(text) for text in row] for row in rows]
    return [[text.strip() for text in row] for row in found[1:]]


def lines(*args: str) -> list[Any]:
    """The JSON lines of a command."""
    result = acidctl(*args, "-o", "jsonl")
    assert (result.code, result.stderr) == (0, ""), result
    return result.json_lines()


def open_txn(hive: Metastore, user: str, kind: Any = None) -> int:
    """A transaction of another client."""
    with ask(hive.url) as thrift:
        request = IDL.OpenTxnRequest(1, user, "elsewhere", agentInfo="a notebook", txn_type=kind)
        return int(thrift.open_txns(request).txn_ids[0])


def end(hive: Metastore, *txns: int) -> None:
    """Commits them."""
    with ask(hive.url) as thrift:
        for txn in txns:
            thrift.commit_txn(IDL.CommitTxnRequest(txn))


def test_transactions_and_locks_are_those_that_hive_shows(hive: Metastore) -> None:
    """An open writer, one that failed, a reader, a waiting lock: ids, states, users, times; the lists go with them."""
    run = hive.hive.run
    run("insert into sales.orders values (1)")
    for name, sql in (
        ("writer", "insert into sales.orders values (2)"),
        ("failed", "insert into sales.orders values (3)"),
    ):
        session = hive.hive.session(name)
        session.run("start transaction")
        session.run(sql)
    hive.hive.session("failed").run("rollback")
    reader, waiter = open_txn(hive, "alice", READ_ONLY), open_txn(hive, "bob")
    part = IDL.LockComponent(IDL.LockType.EXCLUSIVE, IDL.LockLevel.TABLE, "sales", "orders", isTransactional=True)
    part.operationType = IDL.DataOperationType.NO_TXN
    with ask(hive.url) as thrift:
        asked = IDL.LockRequest([part], waiter, "bob", "elsewhere", "a notebook")
        assert thrift.lock(asked).state == IDL.LockState.WAITING
    try:
        txns = {one["id"]: one for one in lines("txns")}
        expected = [row for row in shown(hive, "show transactions") if int(row[0]) in txns]
        assert len(expected) == len(txns) >= 4
        for id_, state, started, _, user, host in expected:
            one = txns[int(id_)]
            assert [one["state"], one["user"], one["host"]] == [state.lower(), user, host]
            assert one["started"] == _iso(int(started))
        assert [txns[reader]["kind"], txns[reader]["tables"]] == ["read_only", []]
        (writer,) = (one for one in txns.values() if one["tables"] == ["sales.orders"] and one["id"] != waiter)
        assert (writer["state"], writer["kind"]) == ("open", "default")
        assert writer["agent"].startswith(f"{writer['user']}_")
        assert [one["state"] for one in txns.values()] == sorted((one["state"] for one in txns.values()), reverse=True)

        locks = lines("locks", "sales.orders")
        rows = [row for row in shown(hive, "show locks") if row[1] == "sales"]
        assert sorted([f"{one['id']}.{one['part']}", one["state"].upper(), one["kind"].upper()] for one in locks) == (
            sorted([row[0], row[4], row[6]] for row in rows)
        )
        assert (locks[0]["state"], locks[0]["txn"], locks[0]["user"]) == ("waiting", waiter, "bob")
        assert locks[0]["blocked_by"] == f"{locks[1]['id']}.{locks[1]['part']}"
        assert locks[1]["agent"] == writer["agent"]
        assert lines("locks", "sales.items") == []

        session = hive.hive.session("shows")
        valid = session.valid_txns()
        assert acidctl("lists", "sales.orders").stdout.splitlines() == [
            session.valid_write_ids("sales.orders", valid),
            valid,
        ]
        assert lines("lists", "Sales.Orders", "--compacting")[0]["write_ids"] == "sales.orders:1:9223372036854775807::"
        assert lines("lists", "sales.orders", "--txn", str(writer["id"]))[0]["txns"].startswith(f"{writer['id']}:")
    finally:
        end(hive, reader)
        with ask(hive.url) as thrift:
            thrift.abort_txn(IDL.AbortTxnRequest(waiter))


def _iso(milliseconds: int) -> str:
    import datetime

    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).isoformat()[:19] + "Z"


def test_what_blocks_the_cleaner_is_what_keeps_it_from_cleaning(hive: Metastore) -> None:
    """A reader of nothing that was open at the commit; when it and all later ones are over, Hive's Cleaner goes on."""
    run = hive.hive.run
    run("insert into sales.orders values (1)")
    run("insert into sales.orders values (2)")
    assert "No compaction of sales.orders waits" in acidctl("txns", "--blocking", "sales.orders").stdout
    early = open_txn(hive, "alice", READ_ONLY)
    run("alter table sales.orders compact 'major'")
    hive.work()
    late = open_txn(hive, "bob", READ_ONLY)

    def blocking() -> tuple[list[int], list[str]]:
        answer = acidctl("txns", "--blocking", "sales.orders", "-o", "json").json()
        return [one["id"] for one in answer["transactions"]], [one["state"] for one in answer["waiting"]]

    try:
        assert blocking() == ([early], ["ready_for_cleaning"])
        hive.clean()
        assert blocking() == ([early], ["ready_for_cleaning"])
        assert len(list((hive.hive.warehouse / "sales.db/orders").iterdir())) == 3
    finally:
        end(hive, early)
    assert blocking() == ([], ["ready_for_cleaning"])
    assert "No open transaction keeps them" in acidctl("txns", "--blocking", "sales.orders").stdout
    end(hive, late)
    queued.clean(hive, "sales.orders")
    assert blocking() == ([], [])
    assert len(list((hive.hive.warehouse / "sales.db/orders").iterdir())) == 1


def test_compactions_in_every_state_are_those_that_hive_shows(hive: Metastore) -> None:
    """Each state by Hive's own worker and Cleaner, or by the calls that a worker makes."""
    run = hive.hive.run
    states = ("succeeded", "ready", "failed", "refused", "working", "initiated")
    for ds in states:
        run(f"insert into sales.items values (1, '{ds}')")
        run(f"insert into sales.items values (2, '{ds}')")

    def request(ds: str, kind: str = "major") -> None:
        run(f"alter table sales.items partition (ds='{ds}') compact '{kind}' pool '{ds}'")

    request("succeeded")
    hive.work("succeeded")
    queued.clean(hive, "sales.items")
    request("ready", "minor")
    hive.work("ready")
    for ds in ("failed", "refused", "working", "initiated"):
        request(ds)
    with ask(hive.url) as thrift:
        taken = {}
        for ds in ("failed", "refused", "working"):
            taken[ds] = thrift.find_next_compact2(IDL.FindNextCompactRequest("w-17", "4.0.1", ds)).ci
            taken[ds].state = None
        taken["failed"].errorMessage = "no room left"
        thrift.mark_failed(taken["failed"])
        taken["refused"].errorMessage = "sorted"
        thrift.mark_refused(taken["refused"])

    found = {one["partition"].removeprefix("ds="): one for one in lines("compactions", "sales.items")}
    words = {ds: ds for ds in states} | {"ready": "ready_for_cleaning"}
    assert {ds: one["state"] for ds, one in found.items()} == words
    columns = ("id", "table", "partition", "kind", "state", "pool")
    expected = [
        [int(row[0]), f"{row[1]}.{row[2]}", row[3], row[4].lower(), row[5].replace(" ", "_"), row[15]]
        for row in shown(hive, "show compactions")
        if row[1] == "sales"
    ]
    assert sorted([one[name] for name in columns] for one in found.values()) == sorted(expected)
    for row in shown(hive, "show compactions"):
        if row[1] == "sales":
            one = next(one for one in found.values() if one["id"] == int(row[0]))
            assert one["requested"] == _iso(int(row[8]))
            assert one["started"] == (_iso(int(row[9])) if row[9].isdigit() else None)
            assert [one["txn"] or 0, one["next_txn"] or 0] == [int(row[16]), int(row[17])]
    assert [found["failed"]["error"], found["refused"]["error"]] == ["no room left", "sorted"]
    assert found["working"]["worker"] == "w-17"
    assert found["succeeded"]["duration"] is not None

    for ds, state in words.items():
        assert [
            one["partition"] for one in lines("compactions", "sales.items", "--state", state.replace("_", " "))
        ] == [f"ds={ds}"]
        assert [one["partition"] for one in lines("compactions", "--pool", ds)] == [f"ds={ds}"]
    assert {one["partition"] for one in lines("compactions", "--kind", "minor", "--partition", "ds=r*")} == {"ds=ready"}
    text = acidctl("compactions", "sales.items", width=80).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "no room left" in text
    with ask(hive.url) as thrift:
        thrift.mark_failed(taken["working"])


def test_tables_stand_in_the_order_of_their_need(hive: Metastore) -> None:
    """What cannot be listed, then the most deltas; views and plain tables are none; names that match nothing."""
    run = hive.hive.run
    run(f"create table sales.returns (id int) {ACID}")
    run("create view sales.seen as select * from sales.orders")
    run("create external table sales.outside (id int) stored as orc")
    for value in range(3):
        run(f"insert into sales.orders values ({value})")
        run(f"insert into sales.items values ({value}, '{value % 2}')")
    tables = lines("ls", "sales.*", "--by-table")
    assert [one["table"] for one in tables] == ["sales.orders", "sales.items", "sales.returns"]
    assert [one["most_deltas"] for one in tables] == [3, 2, 0]
    assert [one["summary"]["deltas"] for one in tables] == [3, 3, 0]
    assert [one["table"] for one in lines("ls", "sa*.*s", "--by-table", "--limit", "1")] == ["sales.orders"]
    shutil.rmtree(hive.hive.warehouse / "sales.db/returns")
    result = acidctl("ls", "sales.*", "--by-table", width=80)
    assert result.code == ExitCode.FINDINGS
    assert result.stdout.splitlines()[1] == "sales.returns"
    assert "" not in result.stdout.splitlines()
    assert "does not exist" in " ".join(result.stdout.split())
    assert acidctl("ls", "sales.nothing*", "--by-table").code == ExitCode.NO_SUCH_TABLE
    (hive.hive.warehouse / "sales.db/returns").mkdir()


def _stories() -> dict[str, list[list[str]]]:
    own = {name: [words for words in calls if needs_a_metastore(words)] for name, calls in STORIES.items()}
    return {name: calls for name, calls in own.items() if calls and "operations" not in name}


@pytest.fixture
def busy(hive: Metastore) -> Metastore:
    """What the examples of the documents name."""
    hive.hive.run(f"create table sales.returns (id int) {ACID}")
    hive.hive.run("insert into sales.orders values (1)")
    hive.hive.run("insert into sales.items values (1, '2026-11-23')")
    hive.hive.run("alter table sales.orders compact 'major'")
    hive.work()
    return hive


def test_the_command_lines_of_the_documents_run(busy: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each that needs a metastore, as it stands there; what watches is interrupted."""

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("acidctl.cli.activity.time", SimpleNamespace(time=lambda: 0, sleep=interrupt))
    results: list[tuple[list[str], Result]] = []
    is_address: Callable[[str], bool] = lambda word: word.startswith("thrift://metastore")  # noqa: E731
    for calls in _stories().values():
        for words in calls:
            if words[0] == "worker":
                continue  # it serves until it is ended: test_metastore_worker.py
            args = [busy.url if is_address(word) else word for word in words]
            results.append((args, acidctl(*args)))
    assert len(results) > 15
    for args, result in results:
        assert result.code in (ExitCode.DONE, ExitCode.FINDINGS), (args, result)
