"""`lists`, `txns`, `locks` and `compactions` over recorded answers: filters, orders, forms, widths, empty answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from acidctl.errors import UnreachableError
from acidctl.metastore import activity
from acidctl.metastore.client import Client, RefusedError, UnknownCallError
from acidctl.metastore.settings import make_settings
from tests.cli.runner import Result, acidctl

NOW = 1_795_473_100
TYPES = Client(make_settings({"uris": "h"})).types
LONG = "sales_analytics_warehouse", "customer_orders_with_all_of_their_history"
WIDE_PARTITION = "order_date=2026-11-23/region=south-america"


def _txn(id_: int, state: str = "OPEN", user: str = "alice") -> Any:
    return TYPES.TxnInfo(
        id=id_,
        state=TYPES.TxnState._NAMES_TO_VALUES[state],
        user=user,
        hostname="worker-17.example.com",
        agentInfo="Unknown",
        startedTime=(NOW - 7200) * 1000,
        lastHeartbeatTime=(NOW - 30) * 1000,
    )


def _lock(id_: int, name: tuple[str, str | None], state: str = "ACQUIRED", **more: Any) -> Any:
    return TYPES.ShowLocksResponseElement(
        lockid=id_,
        lockIdInternal=1,
        dbname=name[0],
        tablename=name[1],
        state=TYPES.LockState._NAMES_TO_VALUES[state],
        lastheartbeat=0,
        user="alice",
        hostname="worker-17.example.com",
        **{"type": TYPES.LockType.SHARED_READ, **more},
    )


def _entry(id_: int, name: tuple[str, str], state: str, **more: Any) -> Any:
    return TYPES.ShowCompactResponseElement(
        id=id_,
        dbname=name[0],
        tablename=name[1],
        state=state,
        enqueueTime=(NOW - 600) * 1000,
        hightestTxnId=0,
        nextTxnId=more.pop("nextTxnId", 0),
        **{"type": TYPES.CompactionType.MAJOR, "poolName": "default", **more},
    )


class Recorded:
    """A client whose metastore answers what a test puts here; calls in `older` it does not have."""

    def __init__(self) -> None:
        self.types = TYPES
        self.txns: list[Any] = []
        self.kinds: dict[int, str] = {}
        self.locks: list[Any] = []
        self.entries: list[Any] = []
        self.older: set[str] = set()
        self.asked: list[Any] = []

    def __str__(self) -> str:
        return "metastore:9083"

    def close(self) -> None:
        """Nothing is open."""

    def call(self, name: str, *arguments: Any) -> Any:
        """The answer; filters are ignored, as by Hive 3."""
        if name in self.older:
            raise UnknownCallError(f"no call {name}")
        self.asked.append((name, *arguments))
        return getattr(self, name)(*arguments)

    def get_open_txns_info(self) -> Any:
        return SimpleNamespace(open_txns=self.txns)

    def get_open_txns_req(self, request: Any) -> Any:
        left = {name for name, value in TYPES.TxnType._NAMES_TO_VALUES.items()} - {
            TYPES.TxnType._VALUES_TO_NAMES[value] for value in request.excludeTxnTypes
        }
        return SimpleNamespace(open_txns=[id_ for id_, kind in self.kinds.items() if kind in left])

    def show_locks(self, request: Any) -> Any:
        return SimpleNamespace(locks=self.locks)

    def show_compact(self, request: Any) -> Any:
        return SimpleNamespace(compacts=self.entries)

    def get_table_req(self, request: Any) -> Any:
        if (request.dbName, request.tblName) == ("sales", "orders"):
            place = SimpleNamespace(location="/w", cols=(), sortCols=(), numBuckets=0, inputFormat="", serdeInfo=None)
            found = {"transactional": "true"}
            return SimpleNamespace(
                table=SimpleNamespace(
                    parameters=found, tableType="MANAGED_TABLE", sd=place, partitionKeys=(), owner="hive"
                )
            )
        error = RefusedError("no such object")
        error.exception = "NoSuchObjectException"
        raise error

    def get_all_databases(self) -> list[str]:
        return ["default", "sales"]

    def get_all_tables(self, database: str) -> list[str]:
        return ["orders", "returns"] if database == "sales" else []


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """The metastore of every command line of a test, at a clock that stands still."""
    made = Recorded()
    monkeypatch.setattr("acidctl.by_name.Client", lambda settings: made)
    monkeypatch.setattr("acidctl.cli.activity.time", SimpleNamespace(time=lambda: NOW, sleep=lambda seconds: None))
    monkeypatch.setenv("ACIDCTL_METASTORE", "thrift://metastore:9083")
    return made


def _busy(recorded: Recorded) -> None:
    """A reader, a writer, one that failed; a queue with an entry in every state."""
    recorded.txns = [_txn(4, "ABORTED"), _txn(9, user="bob"), _txn(7)]
    recorded.kinds = {4: "DEFAULT", 7: "READ_ONLY", 9: "DEFAULT"}
    recorded.locks = [
        _lock(3, ("sales", "orders"), txnid=9, agentInfo="bob_2026_q1", acquiredat=(NOW - 60) * 1000),
        _lock(3, ("sales", None), txnid=9, agentInfo="bob_2026_q1", acquiredat=(NOW - 60) * 1000),
        _lock(5, ("Sales", "Orders"), "WAITING", type=TYPES.LockType.EXCLUSIVE, blockedByExtId=3, blockedByIntId=1),
        _lock(6, ("other", "orders"), agentInfo="Unknown"),
    ]
    done = {"start": (NOW - 500) * 1000, "commitTime": (NOW - 440) * 1000, "txnId": 8}
    recorded.entries = [
        _entry(1, ("sales", "orders"), "succeeded", endTime=(NOW - 300) * 1000, **done),
        _entry(2, ("sales", "orders"), "ready for cleaning", nextTxnId=8, partitionname="ds=1", **done),
        _entry(3, ("sales", "orders"), "ready for cleaning", nextTxnId=10, partitionname="ds=2", **done),
        _entry(4, ("sales", "returns"), "working", start=(NOW - 90) * 1000, workerid="worker-17-32", poolName="night"),
        _entry(5, ("sales", "returns"), "initiated", type=TYPES.CompactionType.MINOR, poolName=None),
        _entry(
            6,
            ("sales", "orders"),
            "failed",
            start=(NOW - 95) * 1000,
            endTime=(NOW - 90) * 1000,
            errorMessage="Error: java.io.IOException: the disk of the worker is full, and so is that of its neighbour",
        ),
        _entry(7, ("sales", "orders"), "did not initiate", errorMessage=" --- "),
    ]


def _ids(result: Result) -> list[Any]:
    assert result.code == 0, result.stderr
    return [line["id"] for line in result.json_lines()]


def test_transactions_have_kinds_tables_and_agents(recorded: Recorded) -> None:
    """Open ones first; what only locks tell stands with its transaction."""
    _busy(recorded)
    reader, writer, aborted = acidctl("txns", "-o", "jsonl").json_lines()
    assert [reader["id"], reader["kind"], reader["tables"], reader["agent"]] == [7, "read_only", [], None]
    assert [writer["id"], writer["kind"], writer["agent"]] == [9, "default", "bob_2026_q1"]
    assert writer["tables"] == ["sales", "sales.orders"]
    assert [aborted["id"], aborted["state"], aborted["blocks"]] == [4, "aborted", []]
    assert reader["started"] == "2026-11-23T20:31:40Z"
    assert _ids(acidctl("txns", "--state", "aborted", "-o", "jsonl")) == [4]


def test_an_older_metastore_tells_no_kinds(recorded: Recorded) -> None:
    """Hive 3 has no call for it: the field is null, and the column is not there."""
    _busy(recorded)
    recorded.older = {"get_open_txns_req"}
    assert {line["kind"] for line in acidctl("txns", "-o", "jsonl").json_lines()} == {None}
    assert "KIND" not in acidctl("txns").stdout
    assert " 7  open" in acidctl("txns").stdout


def test_blockers_are_open_and_older_than_the_commit(recorded: Recorded) -> None:
    """Each with the compactions that it keeps; aborted transactions keep nothing."""
    _busy(recorded)
    answer = acidctl("txns", "--blocking", "sales.orders", "-o", "json").json()
    assert [(one["id"], one["blocks"]) for one in answer["transactions"]] == [(7, [3, 2]), (9, [3])]
    assert [one["id"] for one in answer["waiting"]] == [3, 2]
    assert answer["blocking"] == "sales.orders"
    text = acidctl("txns", "--blocking", "Sales.Orders").stdout
    assert text.startswith("2 compactions of sales.orders wait to be cleaned up after:\n")
    assert "2 of 2" in text
    assert "1 of 2" in text


def test_nothing_blocks_or_nothing_waits(recorded: Recorded) -> None:
    """Either is said."""
    recorded.entries = [_entry(2, ("sales", "orders"), "ready for cleaning", nextTxnId=8)]
    text = acidctl("txns", "--blocking", "sales.orders").stdout
    assert "1 compaction of sales.orders waits" in text
    assert "No open transaction keeps them" in text
    recorded.entries = [_entry(2, ("sales", "orders"), "working")]
    assert acidctl("txns", "--blocking", "sales.orders").stdout == (
        "No compaction of sales.orders waits to be cleaned up after.\n"
    )
    recorded.entries = [_entry(2, ("sales", "orders"), "ready for cleaning")]
    assert "does not say which transactions" in acidctl("txns", "--blocking", "sales.orders").stderr


def test_locks_of_a_table_and_its_database(recorded: Recorded) -> None:
    """Names are compared in lower case; what waits comes first, with what it waits for."""
    _busy(recorded)
    waiting, of_database, of_table = acidctl("locks", "sales.orders", "-o", "jsonl").json_lines()
    assert [waiting["state"], waiting["kind"], waiting["blocked_by"]] == ["waiting", "exclusive", "3.1"]
    assert [of_database["table"], of_table["table"]] == [None, "orders"]
    assert of_table["acquired"] == "2026-11-23T22:30:40Z"
    assert len(_ids(acidctl("locks", "-o", "jsonl"))) == 4
    assert _ids(acidctl("locks", "--state", "waiting", "-o", "jsonl")) == [5]


@pytest.mark.parametrize(
    ("args", "ids"),
    [
        ((), [4, 5, 3, 2, 7, 6, 1]),
        (("sales.returns",), [4, 5]),
        (("--state", "failed"), [6]),
        (("--state", "failed", "--state", "did_not_initiate"), [7, 6]),
        (("--pool", "night"), [4]),
        (("--pool", "default", "--kind", "minor"), [5]),
        (("--partition", "ds=*"), [3, 2]),
        (("--partition", "ds=1", "--kind", "major"), [2]),
        (("--sort", "id", "--limit", "3"), [1, 2, 3]),
        (("--sort", "duration", "--limit", "2"), [4, 3]),
        (("--sort", "table", "--limit", "1"), [1]),
    ],
)
def test_compactions_are_filtered_sorted_and_cut(recorded: Recorded, args: tuple[str, ...], ids: list[int]) -> None:
    """Here, whatever the metastore did with the filters."""
    _busy(recorded)
    if "duration" in args:
        recorded.entries[3].commitTime = NOW * 1000  # what is at work lasts until the real now
    assert _ids(acidctl("compactions", *args, "-o", "jsonl")) == ids


def test_what_a_compaction_says_of_itself(recorded: Recorded) -> None:
    """Words of the answer, times and numbers; zeros and dashes of Hive are nothing."""
    _busy(recorded)
    entries = {one["id"]: one for one in acidctl("compactions", "-o", "json").json()["compactions"]}
    assert entries[3]["state"] == "ready_for_cleaning"
    assert (entries[3]["duration"], entries[3]["txn"], entries[3]["next_txn"]) == (60, 8, 10)
    assert (entries[5]["pool"], entries[5]["kind"], entries[5]["txn"]) == ("default", "minor", None)
    assert entries[4]["worker"] == "worker-17-32"
    assert entries[7]["error"] is None
    working = activity.compactions(recorded, states=("working",), now=NOW)  # type: ignore[arg-type]
    assert [one.duration for one in working] == [90]
    assert recorded.asked[-1][1].state == "w"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("txns",), "No open or aborted transactions.\n"),
        (("txns", "--state", "open"), "No open transactions.\n"),
        (("locks",), "No locks.\n"),
        (("locks", "sales.orders", "--state", "waiting"), "No waiting locks of sales.orders.\n"),
        (("compactions",), "No compactions.\n"),
        (("compactions", "sales.orders"), "No compactions of sales.orders.\n"),
        (("compactions", "--pool", "night"), "No such compactions.\n"),
    ],
)
def test_an_empty_answer_is_a_sentence(recorded: Recorded, args: tuple[str, ...], text: str) -> None:
    """For eyes; a program gets an empty list."""
    assert acidctl(*args).stdout == text
    assert acidctl(*args, "-o", "jsonl").stdout == ""
    assert acidctl(*args, "-o", "csv").stdout.count("\n") == 1


@pytest.mark.parametrize("command", ["txns --blocking", "locks", "compactions", "lists"])
def test_an_unknown_table_has_near_names(recorded: Recorded, command: str) -> None:
    """Exit 10, and no empty answer that could be taken for a good one."""
    result = acidctl(*command.split(), "sales.order", "-o", "json")
    assert result.code == 10
    assert result.error()["hint"] == "Did you mean sales.orders?"


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_text_fits_the_terminal(recorded: Recorded, width: int) -> None:
    """Names that are longer than half of it stand in lines of their own; nothing that decides is lost."""
    _busy(recorded)
    recorded.entries.append(_entry(8, LONG, "working", partitionname=WIDE_PARTITION, start=(NOW - 3) * 1000))
    recorded.locks.append(_lock(12, LONG, partname=WIDE_PARTITION, txnid=7))
    for command in ("txns", "locks", "compactions", "txns --blocking sales.orders"):
        result = acidctl(*command.split(), width=width)
        names = ".".join(LONG), WIDE_PARTITION
        lines = [line for line in result.stdout.splitlines() if not any(name in line for name in names)]
        assert max(map(len, lines)) <= width, result.stdout
        if width < 200:
            assert max(map(len, result.stdout.splitlines())) <= max(width, len(" ".join(names)) + 6), result.stdout
    assert "the disk of the worker" in " ".join(acidctl("compactions", width=width).stdout.split())


def test_watching_begins_anew_and_outlives_a_pause_of_the_metastore(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until Ctrl-C, which is its ordinary end."""
    turns: list[float] = []

    def sleep(seconds: float) -> None:
        turns.append(seconds)
        if len(turns) == 1:
            monkeypatch.setattr(recorded, "show_compact", _gone)
        elif len(turns) == 2:
            monkeypatch.setattr(recorded, "show_compact", lambda request: SimpleNamespace(compacts=recorded.entries))
            recorded.entries = [_entry(1, ("sales", "orders"), "initiated")]
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("acidctl.cli.activity.time", SimpleNamespace(time=lambda: NOW, sleep=sleep))
    result = acidctl("compactions", "--watch", "2", width=80)
    assert (result.code, turns) == (0, [2, 2, 2])
    first, second, third = result.stdout.split("\x1b[H\x1b[2J")[1:]
    assert "No compactions." in first
    assert "the metastore is away; trying again" in second
    assert "sales.orders" in third
    turns.clear()
    assert "\x1b" not in acidctl("compactions", "--watch").stdout
    assert turns == [5, 5, 5]


def _gone(request: Any) -> Any:
    raise UnreachableError("the metastore is away")


def test_watching_is_for_eyes(recorded: Recorded) -> None:
    """No stream of documents."""
    assert acidctl("locks", "--watch", "-o", "json").code == 2
    assert acidctl("locks", "--watch", "0").code == 2


@pytest.mark.parametrize("command", ["lists sales.orders", "txns", "locks", "compactions", "ls sales.* --by-table"])
def test_without_a_metastore_it_is_wrong_usage(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence that says how to name one."""
    for name in ("ACIDCTL_METASTORE", "HIVE_CONF_DIR", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    result = acidctl(*command.split(), "-o", "json")
    assert (result.code, result.error()["message"]) == (2, "no metastore is named")
    assert "--metastore thrift://" in result.error()["hint"]


@pytest.mark.parametrize("option", ["--as-of=3", "--rows", "--by-partition", "--sort=name", "--schema=a int"])
def test_what_is_of_one_table_does_not_go_with_many(recorded: Recorded, option: str) -> None:
    """Lists, schemas, and what shows entries."""
    result = acidctl("ls", "sales.*", "--by-table", option, "-o", "json")
    assert (result.code, result.error()["message"]) == (
        2,
        f"{option.partition('=')[0]} is for one table, not for --by-table",
    )


def test_a_pattern_alone_is_wrong_usage(recorded: Recorded) -> None:
    """It says which option there is."""
    result = acidctl("ls", "sales.*", "-o", "json")
    assert (result.code, "--by-table" in result.error()["hint"]) == (2, True)


def test_ages_are_those_of_now(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose clock is ahead makes nobody younger than nothing."""
    _busy(recorded)
    assert " 2h " in acidctl("txns").stdout
    monkeypatch.setattr("acidctl.cli.activity.time", SimpleNamespace(time=lambda: NOW - 9000))
    assert " 0s " in acidctl("txns").stdout
