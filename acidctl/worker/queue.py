"""One request of Hive 4's compaction queue, and the transaction under which it is carried out.

The calls and their order are those of Hive's Worker and AcidCompactionService; what they leave behind when they end in
the middle is what `Queue.recover` and Hive's own threads clear up.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from acidctl import __version__
from acidctl.errors import AcidctlError, StorageError, UnreachableError, UsageError
from acidctl.maintenance.lock import Life, Owner, life_of, new_owner
from acidctl.metastore.activity import word
from acidctl.metastore.catalog import TableInfo, TableName
from acidctl.metastore.client import Client, RefusedError
from acidctl.metastore.settings import seconds_of
from acidctl.values import dataclass

# Hive's Initiator takes entries back whose worker id begins with its host name; ours begins otherwise.
_PREFIX = "acidctl-"
_AGENT = f"acidctl {__version__}"
# TxnErrorMsg.ABORT_COMPACTION_TXN, Hive's reason for an aborted compaction.
_ABORTED_COMPACTION = 50006
# Seconds between two questions to a metastore that is away.
_PAUSE = 1.0
Answer = TypeVar("Answer")
_GONE = ("TxnAbortedException", "NoSuchTxnException", "NoSuchLockException")


class TransactionLostError(AcidctlError):
    """The metastore has aborted the transaction of a compaction, or given its request to another worker."""

    code = "transaction_lost"


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was taken; `kind` is minor, major, rebalance or abort_txn_cleanup, `partition` on-disk text.

    `struct` is what the metastore gave, and what it wants back.
    """

    id: int
    table: TableName
    partition: str
    kind: str
    pool: str
    struct: Any

    def __str__(self) -> str:
        return f"request {self.id} ({self.kind}, {self.table}{f', {self.partition}' if self.partition else ''})"


class Queue:
    """The queue as this process sees it. Threads share it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.owner = new_owner(time.time())
        self.worker_id = _worker_id(self.owner)
        self._unsettled: list[tuple[Request, str, str]] = []

    # --- requests

    def request(self, table: TableName, partition: str, kind: str, pool: str) -> int:
        """Ask for a compaction; StorageError where the metastore has one for this place already."""
        types = self.client.types
        asked = types.CompactionRequest(
            dbname=table.database,
            tablename=table.table,
            partitionname=partition or None,
            type=getattr(types.CompactionType, kind.upper()),
            poolName=pool,
            initiatorId=self.worker_id,
            initiatorVersion=_AGENT,
        )
        answer = self.client.call("compact2", asked)
        if not answer.accepted:
            error = StorageError(
                f"Hive's queue refuses it: {answer.errormessage or answer.state}",
                path=str(table),
                hint=f"`acidctl compactions {table}` shows what is there; run the command again when that has ended.",
            )
            error.code = "request_exists"
            raise error
        return int(answer.id)

    def take(self, pool: str | None) -> Request | None:
        """The oldest request of a pool, or of no pool; None where there is none."""
        unsettled, self._unsettled = self._unsettled, []
        for left in unsettled:
            self.give_up(*left)
        types = self.client.types
        wanted = types.FindNextCompactRequest(workerId=self.worker_id, workerVersion=_AGENT, poolName=pool)
        found = self.client.call("find_next_compact2", wanted).ci
        if found is None:
            return None
        found.state = None  # a byte that the metastore itself would not take back
        return self._request(found)

    def _request(self, struct: Any) -> Request:
        table = TableName(struct.dbname, struct.tablename).lower()
        kind = word(self.client.types.CompactionType, struct.type)
        return Request(struct.id, table, struct.partitionname or "", kind, struct.poolname or "", struct)

    def shown(self, request_id: int) -> Any | None:
        """What SHOW COMPACTIONS has of a request."""
        answer = self.client.call("show_compact", self.client.types.ShowCompactRequest(id=request_id))
        return next((one for one in answer.compacts if one.id == request_id), None)

    def mark(self, request: Request, verdict: str, reason: str = "") -> None:
        """End a request: `compacted` hands what became obsolete to Hive's Cleaner; `failed`, `refused`."""
        if reason:
            request.struct.errorMessage = reason[:2000]
        self.client.call(f"mark_{verdict}", request.struct)

    def require_own(self, request: Request, txn: int) -> None:
        """TransactionLostError where the metastore has given the request to another worker, or ended it."""
        found = self.shown(request.id)
        # Our transaction stays with a request that Hive takes back, until its next worker has one.
        if found is None or found.state != "working" or found.workerid != self.worker_id or (found.txnId or 0) != txn:
            state = "is gone" if found is None else f"is {found.state!r} ({found.workerid}, {found.txnId})"
            raise TransactionLostError(
                f"request {request.id} {state} in the metastore, and no longer this worker's",
                hint="Nothing was published; another worker does it, or a new request.",
            )

    def give_up(self, request: Request, verdict: str, reason: str) -> None:
        """End a request of ours that is not carried out; while the metastore is away that waits for the next `take`."""
        try:
            self._settle(request, self.worker_id, verdict, reason)
        except RefusedError:
            return  # its entry has gone this very moment
        except AcidctlError:
            self._unsettled.append((request, verdict, reason))

    def is_committed(self, request: Request) -> bool:
        """Whether it has been carried out: the metastore notes the time of the commit with it."""
        found = self.shown(request.id)
        return found is not None and bool(found.commitTime)

    def _settle(self, request: Request, by: str, verdict: str, reason: str) -> str:
        """End a request that `by` has left in the middle, and say how; empty where it is not theirs any more.

        One whose transaction is committed has been carried out; that of any other is aborted.
        """
        found = self.shown(request.id)
        if found is None or _by(found) != by:
            return ""
        if found.commitTime:
            verdict, reason = "compacted", ""
        elif found.txnId:
            with suppress(RefusedError):
                self._abort(found.txnId)
        self.mark(request, verdict, reason)
        return verdict

    # --- earlier runs

    def recover(self, table: TableName | None = None) -> Iterator[str]:
        """End requests that runs of acidctl left in the middle, as sentences; of one table, or of all.

        One whose transaction is committed has been carried out; any other is marked as failed, its transaction
        aborted. A run counts as dead where its transaction is not open any more, or its process on this machine is
        gone.
        """
        states: dict[int, int] | None = None
        for state in "wi":
            wanted = self.client.types.ShowCompactRequest(state=state)
            if table is not None:
                wanted.dbName, wanted.tbName = table.database, table.table
            for one in self.client.call("show_compact", wanted).compacts:
                by = _by(one)
                ours = by.startswith(_PREFIX)  # of this process too: a run before this one may have had to leave it
                # A request that nobody has taken yet is ours alone where no other worker serves its pool.
                if ours and (one.state == "working" or (one.poolName or "").startswith(_PREFIX)):
                    if states is None:
                        listed = self.client.call("get_open_txns_info")
                        states = {txn.id: txn.state for txn in listed.open_txns}
                    yield from self._recover_one(one, by, states)

    def _recover_one(self, one: Any, by: str, states: Mapping[int, int]) -> Iterator[str]:
        types = self.client.types
        opened = states.get(one.txnId) == types.TxnState.OPEN
        if (opened or not one.txnId) and not _is_dead(by):
            return
        struct = types.CompactionInfoStruct(
            id=one.id, dbname=one.dbname, tablename=one.tablename, partitionname=one.partitionname, type=one.type
        )
        request = self._request(struct)
        verdict = self._settle(request, by, "failed", f"the acidctl that worked on it has ended ({by})")
        if verdict == "compacted":
            yield f"{request} of an earlier run had been carried out; it is marked so now."
        elif verdict:
            yield f"{request} of an earlier run, which has ended, is marked as failed."

    # --- transactions

    def begin(self, request: Request, user: str) -> Transaction:
        """Open the transaction, take the lock, and begin to send signs of life.

        StorageError where another session holds an exclusive lock: Hive's worker does not wait either.
        """
        types = self.client.types
        host = self.owner.host
        opened = types.OpenTxnRequest(
            num_txns=1, user=user, hostname=host, agentInfo=_AGENT, txn_type=types.TxnType.COMPACTION
        )
        txn = self.client.call("open_txns", opened).txn_ids[0]
        try:
            part = types.LockComponent(
                type=types.LockType.SHARED_READ,
                level=types.LockLevel.PARTITION if request.partition else types.LockLevel.TABLE,
                dbname=request.table.database,
                tablename=request.table.table,
                partitionname=request.partition or None,
                operationType=types.DataOperationType.SELECT,
                isTransactional=True,
            )
            wanted = types.LockRequest(component=[part], txnid=txn, user=user, hostname=host, agentInfo=_AGENT)
            answer = self.client.call("lock", wanted)
            if answer.state != types.LockState.ACQUIRED:
                raise StorageError(
                    f"another session holds an exclusive lock on {request.table}",
                    path=str(request.table),
                    hint=f"acidctl locks {request.table} says who; run the command again when it is released.",
                )
        except BaseException:
            with suppress(Exception):
                self._abort(txn)
            raise
        return Transaction(self, txn, answer.lockid)

    @contextmanager
    def locked(self, table: TableName, user: str) -> Iterator[int]:
        """A transaction that holds a shared lock on a table without any request, for a metastore before Hive 4."""
        txn = self.begin(Request(0, table, "", "", "", None), user)
        try:
            yield txn.id
        except BaseException:
            txn.abort()
            raise
        txn.commit()

    def _abort(self, txn: int) -> None:
        self.client.call("abort_txn", self.client.types.AbortTxnRequest(txnid=txn, errorCode=_ABORTED_COMPACTION))


class Transaction:
    """A transaction that is open, its lock held; a thread of its own with a connection of its own keeps it alive."""

    def __init__(self, queue: Queue, id: int, lock_id: int) -> None:
        self.id = id
        self._queue = queue
        self._lock_id = lock_id
        self._over = threading.Event()
        self._lost: TransactionLostError | None = None
        self._client = Client(queue.client.settings)
        self._timeout = _timeout(queue.client)
        self._alive = time.monotonic()
        self._thread = threading.Thread(target=self._beat, name=f"acidctl-heartbeat-{id}", daemon=True)
        self._thread.start()

    def require_alive(self) -> None:
        """Show a sign of life now. TransactionLostError where the metastore has given it up."""
        if self._lost is None:
            self._show_life(self._queue.client)
        if self._lost is not None:
            raise self._lost

    def patiently(self, ask: Callable[[], Answer]) -> Answer:
        """What `ask` answers; it is asked again while the metastore is away and the transaction may still live."""
        until = self._alive + self._timeout
        while True:
            try:
                return ask()
            except UnreachableError:
                if time.monotonic() > until:
                    raise
            time.sleep(_PAUSE)

    def commit(self) -> None:
        """Make what it wrote visible. TransactionLostError where it was aborted meanwhile."""
        self._end()
        wanted = self._queue.client.types.CommitTxnRequest(txnid=self.id)
        try:
            # One that is committed already may be committed again.
            self.patiently(lambda: self._queue.client.call("commit_txn", wanted))
        except RefusedError as error:
            if error.exception in _GONE:
                raise self._loss(error) from error
            raise

    def abort(self) -> None:
        """Give up; what it wrote is never visible. Does not raise."""
        self._end()
        with suppress(AcidctlError):
            self._queue._abort(self.id)

    def _end(self) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _beat(self) -> None:
        """Four signs within the time after which it would be aborted."""
        while not self._over.wait(self._timeout / 4) and self._lost is None:
            with suppress(StorageError):  # it may be back before the time is over
                self._show_life(self._client)

    def _show_life(self, client: Client) -> None:
        try:
            client.call("heartbeat", client.types.HeartbeatRequest(lockid=self._lock_id, txnid=self.id))
            self._alive = time.monotonic()
        except RefusedError as error:
            if error.exception not in _GONE:
                raise
            self._lost = self._loss(error)

    def _loss(self, error: RefusedError) -> TransactionLostError:
        return TransactionLostError(
            f"the metastore has aborted transaction {self.id} of this compaction ({error.exception})",
            hint="It was without a sign of life for hive.txn.timeout, or a user aborted it. Run the command again.",
        )


def _by(one: Any) -> str:
    """Who has a request of SHOW COMPACTIONS in hand: its worker, or who asked for it; nobody once it has ended."""
    return {"working": one.workerid, "initiated": one.initiatorId}.get(one.state) or ""


def new_pool() -> str:
    """The name of a pool that nobody else serves."""
    return _PREFIX + secrets.token_hex(6)


def runs_as(info: TableInfo, owner: str | None, client: Client) -> str:
    """Who the compaction is for, and Hive's Cleaner after it: the owner of the directory.

    Without a name the Cleaner removes nothing, for ever, and says nothing.
    """
    configured = client.call("get_config_value", "metastore.compactor.run.as.user", "")
    name = configured or owner or info.owner or client.user
    if not name:
        raise UsageError(f"{info.name} has no owner, so it is not known as which user to compact it")
    return str(name)


def _timeout(client: Client) -> float:
    """Seconds without a sign of life after which a transaction is aborted."""
    return seconds_of(client.call("get_config_value", "hive.txn.timeout", "300s")) or 300.0


def _worker_id(owner: Owner) -> str:
    """At most 128 characters, by which another run on this machine can tell whether this one is alive."""
    # Hive shows what is before the last dash as a host.
    boot, namespace = (owner.boot_id or "").replace("-", ""), re.sub(r"\D", "", owner.pid_namespace or "")
    return f"{_PREFIX}{owner.host[:40]}/{owner.pid}/{owner.pid_started or ''}/{boot}/{namespace}"


def table_properties(text: str) -> dict[str, str]:
    """What WITH OVERWRITE TBLPROPERTIES ('tblprops.KEY'='VALUE') asks for, of Hive's StringableMap text.

    Settings of Hive's own jobs (`compactor.`) are left out.
    """
    data, found = text.encode(), {}
    try:
        count, _, data = data.partition(b":")
        for _ in range(int(count or 0)):
            pair = []
            for _ in range(2):
                size, _, data = data.partition(b":")
                pair.append(data[: int(size)].decode())
                data = data[int(size) :]
            if pair[0].startswith("tblprops."):
                found[pair[0].removeprefix("tblprops.")] = pair[1]
    except ValueError as error:
        raise StorageError(f"the properties of the request are not as Hive writes them: {text[:100]!r}") from error
    return found


def _is_dead(worker_id: str) -> bool:
    """Whether it is a process of this machine that has ended; False for what cannot be known."""
    here = new_owner(time.time())
    host, *facts = worker_id.removeprefix(_PREFIX).rsplit("/", 4)
    if len(facts) != 4 or host != here.host[:40] or not facts[0].isdigit():
        return False
    pid, started, boot, namespace = facts
    if boot == (here.boot_id or "").replace("-", ""):
        boot = here.boot_id or ""
    owner = Owner("", here.host, int(pid), here.created, started or None, boot or None, None, f"pid:[{namespace}]")
    return life_of(owner) is Life.DEAD
