"""Whatever answers in the place of a metastore: a sentence, within the configured time, in little memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acidctl.errors import AcidctlError, StorageError, UnreachableError, UsageError
from acidctl.metastore.catalog import Catalog, TableName
from acidctl.metastore.client import Client
from acidctl.metastore.settings import make_settings
from tests.cli.runner import acidctl
from tests.services.metastore import IDL
from tests.support.fake_metastore import FakeMetastore, listening, says
from tests.support.hostile_metastore import HOSTILE, head, no_utf8, serving
from tests.support.measured import measured

pytestmark = pytest.mark.usefixtures("nobody_waits")

_SECONDS = 0.7
# What a command may take in memory, with an answer of 16 MiB at most; it takes some 100 MB without any answer.
_MEMORY = 256 << 20


@pytest.fixture
def client() -> Iterator[Callable[..., Client]]:
    """Makes one that waits shortly, for a port."""
    made = []

    def make(port: int, **more: object) -> Client:
        made.append(Client(make_settings({"uris": f"thrift://127.0.0.1:{port}", "timeout": _SECONDS, **more})))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("call", ["get_all_databases", "get_open_txns_req", "get_valid_write_ids", "show_compact"])
def test_an_answer_has_bounds(kind: str, call: str, client: Callable[..., Client]) -> None:
    """Of time and of size; of lists that are of the wrong type nothing is believed."""
    asked = {
        "get_open_txns_req": IDL.GetOpenTxnsRequest(),
        "get_valid_write_ids": IDL.GetValidWriteIdsRequest(fullTableNames=["a.b"]),
        "show_compact": IDL.ShowCompactRequest(),
    }
    with listening(serving(HOSTILE[kind])) as port:
        metastore = client(port, largest_answer=1 << 20)
        began = time.monotonic()
        with pytest.raises(StorageError) as refused:
            metastore.call(call, *([asked[call]] if call in asked else []))
        assert time.monotonic() - began < 4 * (_SECONDS + 2)  # it is asked again where it was too late
    assert isinstance(refused.value, UnreachableError) == (kind == "drip")
    assert refused.value.hint


@pytest.mark.parametrize("command", [("lists", "default.orders"), ("txns",), ("locks",), ("compactions",)])
@pytest.mark.parametrize("kind", ["hollow", "nothing", "other_type", "other_number", "of_nothing"])
def test_commands_end_with_a_sentence(command: tuple[str, ...], kind: str) -> None:
    """Exit code 14, or 0 where the answer may have nothing in it, and never 1."""
    with listening(serving(HOSTILE[kind])) as port:
        result = acidctl(*command, "--metastore", f"thrift://127.0.0.1:{port}")
    may_be_empty = command == ("locks",) and kind == "hollow"
    assert result.code == (0 if may_be_empty else 14), result.stderr
    assert "Traceback" not in result.stderr
    assert may_be_empty or f"the metastore 127.0.0.1:{port}" in result.stderr


def _table(**facts: object) -> IDL.GetTableResult:
    place = IDL.StorageDescriptor(cols=[IDL.FieldSchema(name="a", type="int")], location="/w/orders")
    stated = {"tableName": "orders", "dbName": "default", "sd": place, "parameters": {"transactional": "true"}}
    return IDL.GetTableResult(table=IDL.Table(**{**stated, **facts}))


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ({"get_table_req": lambda _: _table(sd=None)}, "Table has no sd"),
        ({"get_table_req": lambda _: IDL.GetTableResult()}, "GetTableResult has no table"),
        ({"get_table_req": lambda _: _table(sd=IDL.StorageDescriptor())}, "no location of the table default.orders"),
        (
            {"get_table_req": lambda _: _table(), "get_open_txns_req": lambda _: IDL.GetOpenTxnsResponse()},
            "GetOpenTxnsResponse has no txn_high_water_mark",
        ),
        (
            {
                "get_table_req": lambda _: _table(),
                "get_open_txns_req": lambda _: IDL.GetOpenTxnsResponse(txn_high_water_mark=1, open_txns=[]),
                "get_valid_write_ids": lambda _: IDL.GetValidWriteIdsResponse(tblValidWriteIds=[]),
            },
            "0 lists of write ids",
        ),
    ],
)
def test_what_is_missing_is_named(answers: dict[str, object], sentence: str) -> None:
    """A record without what the interface requires, or a list without its only entry."""
    with listening(FakeMetastore(**answers).serve) as port:  # type: ignore[arg-type]
        result = acidctl("lists", "default.orders", "--metastore", f"thrift://127.0.0.1:{port}")
    assert result.code == 14
    assert sentence in result.stderr


def test_a_partition_that_was_not_asked_for(client: Callable[..., Client]) -> None:
    """Nobody knows which of those that were asked for it stands for."""
    place = IDL.StorageDescriptor(location="/w/orders/ds=2")
    other = IDL.GetPartitionsByNamesResult(partitions=[IDL.Partition(values=["2"], sd=place)] * 2)
    fake = FakeMetastore(
        get_table_req=lambda _: _table(),
        get_partition_names=lambda *_: ["ds=1", "ds=3"],
        get_partitions_by_names_req=lambda _: other,
    )
    with listening(fake.serve) as port:
        catalog = Catalog(client(port))
        with pytest.raises(StorageError, match="was not asked for"):
            list(catalog.partitions(catalog.table(TableName("default", "orders"))))


def test_names_that_are_no_text(client: Callable[..., Client]) -> None:
    """They are carried as they are, and nothing of them gets to a terminal as a command."""
    with listening(serving(no_utf8, ("get_all_databases",))) as port:
        assert Catalog(client(port)).databases() == ("\x1b[31m", "default", "\udcff\udcfe")


@pytest.mark.parametrize("kind", ["endless_list", "endless_records", "endless_text", "of_nothing", "deep"])
def test_memory_is_bounded(kind: str, tmp_path: Path) -> None:
    """Of a process of its own, with an answer of 16 MiB at most; by default it is 256 MiB."""
    (tmp_path / "config.toml").write_text("[metastore]\nlargest_answer = 16777216\n")
    with listening(serving(HOSTILE[kind])) as port:
        config = ["--config", str(tmp_path / "config.toml"), "--metastore", f"thrift://127.0.0.1:{port}"]
        done = measured("txns", *config)
    assert done.code == 14, done.stderr
    assert done.memory < _MEMORY


def test_a_large_answer_is_read(client: Callable[..., Client]) -> None:
    """A hundred thousand names, and a text of a megabyte, are no attack."""
    names = [f"table_{number:06}" for number in range(100_000)]
    fake = FakeMetastore(get_all_databases=lambda: names, get_all_tables=lambda _: ["x" * (1 << 20)])
    with listening(fake.serve) as port:
        metastore = client(port, timeout=30.0)
        assert metastore.call("get_all_databases") == names
        assert metastore.call("get_all_tables", "default") == ["x" * (1 << 20)]
        small = client(port, timeout=30.0, largest_answer=1 << 20)
        with pytest.raises(StorageError, match="takes more than 1,048,576 bytes") as refused:
            small.call("get_all_databases")
        assert "largest_answer" in str(refused.value.hint)


def test_http_has_the_same_bounds(client: Callable[..., Client]) -> None:
    """The head of an answer and its body."""

    def slowly(connection: object) -> None:
        connection.recv(65536)  # type: ignore[attr-defined]
        connection.sendall(b"HTTP/1.1 200 OK\r\n")  # type: ignore[attr-defined]
        while True:
            connection.sendall(b"X-A: b\r\n")  # type: ignore[attr-defined]
            time.sleep(0.2)

    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + bytes(1 << 16) + b"\r\n") * 40
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
    for serve, kind in ((slowly, UnreachableError), (says(endless), StorageError), (says(large), StorageError)):
        with listening(serve) as port:
            metastore = client(port, uris=f"http://127.0.0.1:{port}/metastore", largest_answer=1 << 20)
            began = time.monotonic()
            with pytest.raises(kind):
                metastore.call("get_all_databases")
            assert time.monotonic() - began < 4 * (_SECONDS + 2)


def test_http_answers_are_read(client: Callable[..., Client]) -> None:
    """A status that is none of an answer is refused, an answer is one."""

    def serve(connection: object) -> None:
        asked = b""
        while b"get_all_databases" not in asked:
            asked += connection.recv(65536)  # type: ignore[attr-defined]
        assert asked.startswith(b"POST /metastore HTTP/1.1\r\n")
        assert b"x-actor-username: " in asked
        body = head("get_all_databases", 1) + b"\x0f\0\0" + b"\x0b\0\0\0\1" + b"\0\0\0\7default" + b"\0"
        status = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(status + body)  # type: ignore[attr-defined]

    with listening(serve) as port:
        assert client(port, uris=f"http://127.0.0.1:{port}/metastore").call("get_all_databases") == ["default"]
    refused = says(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")
    with listening(refused) as port, pytest.raises(AcidctlError, match="HTTP 401"):
        client(port, uris=f"http://127.0.0.1:{port}/metastore").call("get_all_databases")


def test_a_largest_answer_is_a_number_of_bytes() -> None:
    """As settings are, it is looked at before anything is asked."""
    for value in (0, -1, "16 MiB", 1.5, True):
        with pytest.raises(UsageError):
            make_settings({"uris": "thrift://localhost", "largest_answer": value})
