"""What goes on in a metastore: open and aborted transactions, locks, compactions. Asks, and changes nothing.

The text behind a field says what scripts find in it. Times are those of the metastore's clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from acidctl.metastore.catalog import TableName
from acidctl.metastore.client import Client, UnknownCallError
from acidctl.state.report import iso_time
from acidctl.values import dataclass

# What a request calls a state, by the word of the answer.
_LETTERS = {
    "working": "w",
    "initiated": "i",
    "ready_for_cleaning": "r",
    "failed": "f",
    "did_not_initiate": "a",
    "refused": "c",
    "aborted": "x",
    "succeeded": "s",
}
COMPACTION_STATES = tuple(_LETTERS)
COMPACTION_KINDS = ("minor", "major", "rebalance", "abort_txn_cleanup")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that is open or was aborted, as far as the metastore still knows it."""

    id: Annotated[int, "transaction id"]
    state: Annotated[str, "open, aborted"]
    kind: Annotated[str | None, "default, read_only, compaction, ...; null where the metastore does not say (Hive 3)"]
    user: Annotated[str, "who opened it"]
    host: Annotated[str, "from where"]
    agent: Annotated[str | None, "what its client calls itself, of a Hive session the query; of one that holds a lock"]
    tables: Annotated[tuple[str, ...], "what it holds locks of: `db.table`, or `db` for a whole database"]
    started: Annotated[str | None, "ISO 8601 in UTC"]
    last_heartbeat: Annotated[str | None, "ISO 8601 in UTC"]
    blocks: Annotated[
        tuple[int, ...], "with `--blocking`: ids of the compactions that it keeps from being cleaned"
    ] = ()


@dataclass(frozen=True, slots=True)
class Lock:
    """One part of a lock: what it is of, and who holds it or waits for it."""

    id: Annotated[int, "lock id"]
    part: Annotated[int | None, "number of this part within the lock"]
    database: Annotated[str, "name of the database"]
    table: Annotated[str | None, "name of the table; null for a lock of the database"]
    partition: Annotated[str | None, "on-disk text; null for a lock of the table"]
    kind: Annotated[str, "shared_read, shared_write, excl_write, exclusive"]
    state: Annotated[str, "acquired, waiting, abort, not_acquired"]
    txn: Annotated[int | None, "transaction that holds it; null outside of one"]
    user: Annotated[str, "who asked for it"]
    host: Annotated[str, "from where"]
    agent: Annotated[str | None, "what its client calls itself, of a Hive session the query"]
    acquired: Annotated[str | None, "ISO 8601 in UTC; null while it waits"]
    last_heartbeat: Annotated[str | None, "ISO 8601 in UTC; null in a transaction, which has its own"]
    blocked_by: Annotated[str | None, "lock that it waits for: id and part, `17.1`"]

    @property
    def name(self) -> str:
        """What it is of: `db`, `db.table`."""
        return self.database if self.table is None else f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class Compaction:
    """An entry of the compaction queue, or of its history."""

    id: Annotated[int | None, "id of the entry; null where the metastore does not say (Hive 3)"]
    table: Annotated[str, "`db.table`"]
    partition: Annotated[str, "on-disk text; empty for the whole table"]
    kind: Annotated[str, ", ".join(COMPACTION_KINDS)]
    state: Annotated[str, ", ".join(COMPACTION_STATES)]
    pool: Annotated[str, "pool whose workers take it; `default` is for all that name none"]
    worker: Annotated[str | None, "who does it, mostly host and thread; null when it was done"]
    worker_version: Annotated[str | None, "version of who did it"]
    job: Annotated[str | None, "the job that did it"]
    requested: Annotated[str | None, "when it came into the queue, ISO 8601 in UTC"]
    started: Annotated[str | None, "when a worker took it"]
    committed: Annotated[str | None, "when its result became visible"]
    ended: Annotated[str | None, "when it was cleaned up after, or given up"]
    duration: Annotated[float | None, "seconds from the start to the commit, or to the end, or until now"]
    txn: Annotated[int | None, "transaction of the compaction"]
    next_txn: Annotated[int | None, "open transactions below it keep the entry from being cleaned"]
    highest_write_id: Annotated[int | None, "highest write id that it took in"]
    run_as: Annotated[str | None, "user that it is done as"]
    initiator: Annotated[str | None, "who requested it"]
    error: Annotated[str | None, "why it was not done"]

    @property
    def since(self) -> str | None:
        """When it came into the state that it is in."""
        times = {"initiated": self.requested, "working": self.started, "ready_for_cleaning": self.committed}
        return times.get(self.state, self.ended) or self.started or self.requested


# --- transactions


def transactions(client: Client) -> tuple[Transaction, ...]:
    """All that are open, then all that were aborted, each the oldest first."""
    types = client.types
    infos = client.call("get_open_txns_info").open_txns
    kinds = _kinds(client)
    held: dict[int, list[Lock]] = {}
    for lock in locks(client):
        held.setdefault(lock.txn or 0, []).append(lock)
    found = []
    for info in sorted(infos, key=lambda info: (info.state != types.TxnState.OPEN, info.id)):
        of_it = held.get(info.id, [])
        agents = [lock.agent for lock in of_it if lock.agent]
        found.append(
            Transaction(
                id=info.id,
                state=word(types.TxnState, info.state),
                kind=kinds.get(info.id),
                user=_text(info.user) or "",
                host=_text(info.hostname) or "",
                agent=next(iter(agents), None) or _agent(info),
                tables=tuple(sorted({lock.name for lock in of_it})),
                started=_time(info.startedTime),
                last_heartbeat=_time(info.lastHeartbeatTime),
            )
        )
    return tuple(found)


def _kinds(client: Client) -> dict[int, str]:
    """The type of each transaction, asked for type by type: no answer names it."""
    types = client.types
    known: dict[str, int] = types.TxnType._NAMES_TO_VALUES
    found: dict[int, str] = {}
    try:
        for name, kind in known.items():
            request = types.GetOpenTxnsRequest(excludeTxnTypes=[other for other in known.values() if other != kind])
            found.update(dict.fromkeys(client.call("get_open_txns_req", request).open_txns or (), name.lower()))
    except UnknownCallError:
        return {}
    return found


def blockers(
    txns: Iterable[Transaction], entries: Iterable[Compaction]
) -> tuple[tuple[Transaction, ...], tuple[Compaction, ...]]:
    """Open transactions that keep what these entries made obsolete from being cleaned, and all entries that wait.

    Hive's Cleaner looks at an entry when every transaction is over that was open at its commit, readers of other
    tables among them.
    """
    waiting = tuple(one for one in entries if one.state == "ready_for_cleaning")
    found = []
    for txn in txns:
        kept = tuple(one.id for one in waiting if one.id is not None and (one.next_txn or 0) > txn.id)
        if txn.state == "open" and kept:
            found.append(replace(txn, blocks=kept))
    return tuple(found), waiting


# --- locks


def locks(client: Client, name: TableName | None = None) -> tuple[Lock, ...]:
    """All parts of all locks, those of one table and of its database alone if it is named; what waits comes first."""
    types = client.types
    request = types.ShowLocksRequest(dbname=name.database) if name else types.ShowLocksRequest()
    found = []
    for one in client.call("show_locks", request).locks or ():
        lock = Lock(
            id=one.lockid,
            part=one.lockIdInternal or None,
            database=(_text(one.dbname) or "").lower(),
            table=(_text(one.tablename) or "").lower() or None,
            partition=_text(one.partname),
            kind=word(types.LockType, one.type),
            state=word(types.LockState, one.state),
            txn=one.txnid or None,
            user=_text(one.user) or "",
            host=_text(one.hostname) or "",
            agent=_agent(one),
            acquired=_time(one.acquiredat),
            last_heartbeat=_time(one.lastheartbeat),
            blocked_by=f"{one.blockedByExtId}.{one.blockedByIntId}" if one.blockedByExtId else None,
        )
        if name is None or (lock.database == name.database and lock.table in (None, name.table)):
            found.append(lock)
    return tuple(sorted(found, key=lambda lock: (lock.state == "acquired", lock.name, lock.id, lock.part or 0)))


# --- compactions


def compactions(
    client: Client, name: TableName | None = None, states: Sequence[str] = (), *, now: float | None = None
) -> tuple[Compaction, ...]:
    """The queue and its history, what is at work first, then what waits, then what has ended, each the newest first.

    Of one table if it is named, in one of these states if there are any.
    """
    request = client.types.ShowCompactRequest()
    if name is not None:
        request.dbName, request.tbName = name.database, name.table
    if len(states) == 1:
        request.state = _LETTERS.get(states[0])
    answer = client.call("show_compact", request).compacts or ()
    found = [_compaction(client.types, one, time.time() if now is None else now) for one in answer]
    # An older metastore has no filters.
    kept = [one for one in found if (name is None or one.table == str(name)) and (not states or one.state in states)]
    ranks = {state: rank for rank, state in enumerate(COMPACTION_STATES[:3])}
    return tuple(sorted(kept, key=lambda one: (ranks.get(one.state, 3), -(one.id or 0))))


def _compaction(types: Any, one: Any, now: float) -> Compaction:
    state = (_text(one.state) or "").replace(" ", "_")
    end = one.commitTime or one.endTime or (now * 1000 if state == "working" else None)
    return Compaction(
        id=one.id or None,
        table=f"{_text(one.dbname)}.{_text(one.tablename)}".lower(),
        partition=_text(one.partitionname) or "",
        kind=word(types.CompactionType, one.type),
        state=state,
        pool=_text(one.poolName) or "default",
        worker=_text(one.workerid),
        worker_version=_text(one.workerVersion),
        job=_text(one.hadoopJobId),
        requested=_time(one.enqueueTime),
        started=_time(one.start),
        committed=_time(one.commitTime),
        ended=_time(one.endTime),
        duration=max(end - one.start, 0) / 1000 if end and one.start else None,
        txn=one.txnId or None,
        next_txn=one.nextTxnId or None,
        highest_write_id=one.hightestTxnId or None,
        run_as=_text(one.runAs),
        initiator=_text(one.initiatorId),
        error=_text(one.errorMessage),
    )


def word(kind: Any, value: int | None) -> str:
    """The name of a value of an enum; of one that is newer than this interface its number."""
    return str(kind._VALUES_TO_NAMES.get(value, value)).lower()


def _text(value: object) -> str | None:
    """A text; what was no UTF-8 comes as bytes, and what is not known as an empty text, `None` or dashes."""
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    return None if text is None or str(text).strip() in ("", "None", "---") else str(text)


def _agent(one: Any) -> str | None:
    """What a client calls itself; Hive's word for one that did not say is no name."""
    name = _text(one.agentInfo)
    return None if name == "Unknown" else name


def _time(milliseconds: int | None) -> str | None:
    return iso_time(milliseconds / 1000) if milliseconds and milliseconds > 0 else None
