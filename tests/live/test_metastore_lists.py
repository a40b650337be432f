"""The lists of a named table against those that Hive makes, in random states of a real metastore."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

import acidctl
from acidctl.metastore.catalog import TableName
from tests.services.metastore import IDL, Metastore, ask
from tests.support.extent import amount

pytestmark = [pytest.mark.metastore, pytest.mark.timeout(900)]

ACID = "stored as orc tblproperties ('transactional'='true')"
BOTH = pytest.mark.parametrize("service", ["metastore4", pytest.param("metastore3", marks=pytest.mark.hive3)])
TABLES = ("l_first", "l_second")
KINDS = ("DEFAULT", "DEFAULT", "DEFAULT", "READ_ONLY", "COMPACTION")


class Traffic:
    """Transactions of many clients: some write, some only read, some compact; they end, or do not."""

    def __init__(self, thrift: Any, random: Random) -> None:
        self._thrift = thrift
        self._random = random
        self._open: dict[int, str] = {}
        self._written: set[tuple[str, int]] = set()

    def step(self) -> None:
        """One to three things that happen."""
        for _ in range(self._random.randint(1, 3)):
            actions = [self._begin, self._begin, self._write, self._write, self._commit, self._abort]
            self._random.choice(actions)()

    def own(self) -> list[int]:
        """A writer, a compactor or both, that are at work."""
        named = [txn for txn, kind in self._open.items() if kind != "READ_ONLY"]
        return self._random.sample(named, min(2, len(named)))

    def end(self) -> None:
        """Nothing is left open."""
        self._finish(list(self._open), aborted=True)

    def _begin(self) -> None:
        kind = self._random.choice(KINDS)
        # Now and then so many in a row that they make a run.
        many = self._random.choice((1, 1, 2, 7))
        request = IDL.OpenTxnRequest(many, "alice", "elsewhere", txn_type=getattr(IDL.TxnType, kind))
        self._open.update(dict.fromkeys(self._thrift.open_txns(request).txn_ids, kind))

    def _some(self) -> list[int]:
        among = sorted(self._open)
        at = self._random.randrange(len(among) + 1)
        return among[at : at + self._random.choice((1, 1, 3, 6, 12))]

    def _write(self) -> None:
        table = self._random.choice(TABLES)
        writers = [txn for txn in self._some() if self._open[txn] == "DEFAULT" and (table, txn) not in self._written]
        if writers:
            request = IDL.AllocateTableWriteIdsRequest("default", table, txnIds=writers)
            self._thrift.allocate_table_write_ids(request)
            self._written.update((table, txn) for txn in writers)

    def _commit(self) -> None:
        self._finish(self._some(), aborted=False)

    def _abort(self) -> None:
        self._finish(self._some(), aborted=True)

    def _finish(self, txns: list[int], *, aborted: bool) -> None:
        if aborted and txns:
            self._thrift.abort_txns(IDL.AbortTxnsRequest(txns))
        for txn in txns:
            kind = getattr(IDL.TxnType, self._open.pop(txn))
            if not aborted:
                self._thrift.commit_txn(IDL.CommitTxnRequest(txn, txn_type=kind))


SHAPES = (
    "runs",
    "more than a byte of bits",
    "aborted tail",
    "more than a byte of bits of write ids",
    "open and aborted writes",
)


@contextmanager
def _tables(metastore: Metastore) -> Iterator[None]:
    for name in TABLES:
        metastore.hive.run(f"create table {name} (id int) {ACID}")
    try:
        yield
    finally:
        for name in TABLES:
            metastore.hive.run(f"drop table {name}")


def _shapes(txns: str, reader: str) -> Iterator[str]:
    """What a state has that is hard."""
    if re.search(r"\d-\d", txns):
        yield "runs"
    _, _, opened, aborted = txns.split(":")
    if len(re.findall(r"\d+", opened + " " + aborted)) > 8:
        yield "more than a byte of bits"
    _, watermark, _, opened, aborted = reader.split(":")
    if aborted.split(",")[-1] == watermark:
        yield "aborted tail"
    if len((opened + aborted).split(",")) > 8:
        yield "more than a byte of bits of write ids"
    if opened and aborted:
        yield "open and aborted writes"


@BOTH
def test_lists_are_hives_in_random_states(service: str, request: pytest.FixtureRequest) -> None:
    """Texts for a reader, for a transaction's own queries, and for a compaction, as Hive's code makes them."""
    metastore: Metastore = request.getfixturevalue(service)
    states = amount(300, swept=2000, sample=60)
    random = Random(16)
    shapes: Counter[str] = Counter()
    compared = 0
    java = metastore.hive.java.acidctl.ValidLists()
    with _tables(metastore), ask(metastore.url) as thrift, acidctl.Metastore(metastore.url) as ours:
        traffic = Traffic(thrift, random)
        try:
            for number in range(states):
                traffic.step()
                for own in (0, *traffic.own()):
                    name = TableName("default", random.choice(TABLES))
                    txns, reader, compactor = java.of(str(name), own)
                    lists = ours.catalog.lists(name, own)
                    assert lists.texts == (reader, txns), (number, own)
                    compacting = ours.catalog.lists(name, own, compacting=True)
                    assert compacting.texts == (compactor, txns), (number, own)
                    shapes.update(_shapes(txns, reader))
                    compared += 1
                if number == states // 3:
                    metastore.forget_empty_aborts()
        finally:
            traffic.end()
            java.close()
            metastore.forget_empty_aborts()
    print(f"{states} states, {compared} pairs of lists, {dict(shapes)}")
    # Hive 3 writes no runs.
    wanted = [shape for shape in SHAPES if shape != "runs" or service == "metastore4"]
    assert min(shapes[shape] for shape in wanted) >= states // 20, shapes


def test_lists_are_those_a_query_runs_with(metastore4: Metastore) -> None:
    """What Hive puts into a query's configuration: in a transaction of the query alone, and in one of its session."""
    rounds = amount(12, swept=40)
    random = Random(4)
    hive = metastore4.hive
    with _tables(metastore4), ask(metastore4.url) as thrift, acidctl.Metastore(metastore4.url) as ours:
        traffic = Traffic(thrift, random)
        try:
            hive.run(f"insert into {TABLES[0]} values (0)")
            for number in range(rounds):
                mine = hive.session("lists-own")
                for _ in range(4):
                    traffic.step()
                # From here on its transaction sees the same.
                mine.run("start transaction")
                for session, is_own in ((hive.session(), False), (mine, True)):
                    answer = session.select(f"select * from {TABLES[0]}")
                    own, write_ids = session.read_write_ids()
                    lists = ours.lists(f"default.{TABLES[0]}", txn=own if is_own else 0)
                    assert lists.texts == (write_ids, answer.valid_txns), (number, is_own)
                if number == 1:
                    mine.run(f"insert into {TABLES[0]} values ({number})")
                mine.run(random.choice(("commit", "rollback")))
        finally:
            hive.end_session("lists-own")
            traffic.end()
            metastore4.forget_empty_aborts()
