"""What is wrong with a metastore, its address or a name: a sentence, a hint, an exit code, and no secret."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import acidctl as api
from acidctl.errors import UnreachableError
from tests import ROOT
from tests.cli.runner import Result, acidctl
from tests.services.metastore import IDL
from tests.services.processes import free_port
from tests.support.fake_metastore import FakeMetastore, listening, never_answers, says

pytestmark = pytest.mark.usefixtures("nobody_waits", "no_settings")

SECRET = "hunter2hunter2"
NAMES = {"default": ["orders"], "sales": ["orders_2024", "order", "Customers"], "sale": [], "staging": ["visits"]}


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither files nor variables of this machine."""
    for name in [name for name in os.environ if name.startswith(("ACIDCTL_METASTORE", "HIVE_", "HADOOP_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], str]:
    """A configuration file whose [metastore] holds these lines."""

    def write(lines: str) -> str:
        path = tmp_path / "config.toml"
        path.write_text(f"[metastore]\n{lines}\n")
        path.chmod(0o600)
        return str(path)

    return write


def assert_fails(result: Result, code: int, sentence: str, hint: str = "") -> None:
    """One sentence, and a hint that has these words."""
    first, second, *_ = [*result.stderr.splitlines(), ""]
    assert (result.code, first) == (code, f"error: {sentence}")
    assert second.startswith("  hint: ")
    assert hint in second
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def read(port: int, name: str = "sales.orders", *options: str) -> Result:
    return acidctl("snapshot", name, "--metastore", f"thrift://127.0.0.1:{port}", *options)


def _gone(request: Any) -> None:
    raise IDL.NoSuchObjectException(f"hive.{request.dbName}.{request.tblName} table not found")


def _table(request: Any) -> Any:
    columns = [IDL.FieldSchema("id", "int", "")]
    return IDL.GetTableResult(
        IDL.Table(
            tableName=request.tblName,
            dbName=request.dbName,
            tableType="MANAGED_TABLE",
            parameters={"transactional": "true"},
            sd=IDL.StorageDescriptor(cols=columns, location="file:/nowhere/orders"),
            partitionKeys=[],
        )
    )


def _with_tables() -> FakeMetastore:
    return FakeMetastore(get_table_req=_gone, get_all_databases=lambda: list(NAMES), get_all_tables=NAMES.__getitem__)


def _write_ids(request: Any) -> Any:
    return IDL.GetValidWriteIdsResponse([IDL.TableValidWriteIds(request.fullTableNames[0], 3, [], None, b"")])


_LISTS: dict[str, Callable[..., Any]] = {
    "get_open_txns": lambda: IDL.GetOpenTxnsResponse(5, [], None, b""),
    "get_valid_write_ids": _write_ids,
}


def _of_hive_3() -> FakeMetastore:
    return FakeMetastore(get_table_req=_table, **_LISTS)


# --- Who answers there.

NO_METASTORE = {
    "HTTP": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "HDFS": b"\0\0\0\x7c{\x08\xff\xff\xff\xff\x0f\x10\x02\x18\t",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x46",
    "SSH": b"SSH-2.0-OpenSSH_9.2\r\n",
    "zeros": bytes(64),
    "noise": bytes(range(200, 256)) * 5,
    "a length that cannot be": b"\x80\x01\x00\x03\x7f\xff\xff\xff" + b"x" * 9,
    "nothing": b"",
}


@pytest.mark.parametrize("kind", NO_METASTORE)
def test_another_service(kind: str) -> None:
    """A port of something else."""
    with listening(says(NO_METASTORE[kind])) as port:
        result = read(port)
    assert result.code == 14
    what = "does not answer as a metastore does" if kind != "nothing" else "closed the connection"
    assert result.stderr.startswith(f"error: the metastore 127.0.0.1:{port} {what}")
    assert "hint: It may want TLS, SASL or HTTP, or be no metastore" in result.stderr


def test_no_answer(config: Callable[[str], str]) -> None:
    """A port that takes what comes."""
    with listening(never_answers) as port:
        result = read(port, "a.b", "--config", config("timeout = 0.1"))
    assert_fails(result, 14, f"the metastore 127.0.0.1:{port} did not answer in time (connect)", "Check the address")


def test_nobody_there() -> None:
    """A closed port, and a host without an address."""
    port = free_port()
    assert_fails(read(port), 14, f"the metastore 127.0.0.1:{port} cannot be reached: Connection refused")
    result = acidctl("snapshot", "a.b", "--metastore", "thrift://no-such-host.invalid")
    assert result.code == 14
    assert result.stderr.startswith("error: the metastore no-such-host.invalid:9083 cannot be reached: ")


def test_other_releases() -> None:
    """Impala's catalog has none of the calls, Hive 2 has no write ids: its open transactions are no list."""
    hive2 = FakeMetastore(get_table_req=_table, get_open_txns=lambda: IDL.GetOpenTxnsResponse(5))
    none, no_txns = FakeMetastore(), FakeMetastore(get_table_req=_table)
    calls = {none: "get_table_req", no_txns: "get_open_txns", hive2: "get_valid_write_ids"}
    for fake, call in calls.items():
        with listening(fake.serve) as port:
            result = read(port)
        sentence = f"the metastore 127.0.0.1:{port} has no call {call}, as a metastore has from Hive 3 on"
        assert_fails(result, 14, sentence, "Name the table by its path")


def test_a_table_whose_place_is_not_there() -> None:
    """The metastore knows it, this machine does not."""
    with listening(_of_hive_3().serve) as port:
        result = read(port)
    assert_fails(
        result, 10, "sales.orders has the location /nowhere/orders, which does not exist", "reaches that storage"
    )


@pytest.mark.parametrize("schema", [(), ("--schema", "id int, v string")])
def test_a_table_by_name_vouches_for_its_directory(schema: tuple[str, ...], tmp_path: Path) -> None:
    """Its metastore says where it lies, whatever that is called; a list of another table is refused all the same."""
    place = shutil.copytree(
        ROOT / "fixtures/tables/hive3/unbucketed/01-inserted/table", tmp_path / "external" / "place"
    )

    def table(request: Any) -> Any:
        found = _table(request)
        found.table.sd.location = str(place)
        return found

    none = IDL.ShowCompactResponse([])
    fake = FakeMetastore(get_table_req=table, show_compact=lambda _: none, **_LISTS)
    with listening(fake.serve) as port:
        where = ("--metastore", f"thrift://127.0.0.1:{port}", *schema, "--validtxns")
        own, other = (f"sales.{name}:1:9223372036854775807::" for name in ("orders", "customers"))
        for command in (("compact", "major", "sales.orders", "-n"), ("clean", "sales.orders")):
            named = acidctl(*command, *where, own)
            assert named.code in (0, 3), named.stderr
            assert "is called" not in named.stderr
            refused = acidctl(*command, *where, other)
            assert (refused.code, refused.stdout) == (2, "")
            assert "sales.customers" in refused.stderr


def test_a_partition_on_another_cluster() -> None:
    """Its path is not looked for on the table's own; other partitions and the table's name in the hint."""
    place = "hdfs://one:8020/w/orders"

    def table(request: Any) -> Any:
        found = _table(request)
        found.table.sd.location, found.table.partitionKeys = place, [IDL.FieldSchema("ds", "string", "")]
        return found

    there = IDL.StorageDescriptor(location="hdfs://two:8020/w/orders/ds=1")
    fake = FakeMetastore(
        get_table_req=table,
        get_partition_names=lambda *_: ["ds=1", "ds=2"],
        get_partitions_by_names=lambda database, name, _: [IDL.Partition(["1"], database, name, sd=there)],
        **_LISTS,
    )
    with listening(fake.serve) as port:
        result = read(port)
    where = f"hdfs://two:8020/w/orders/ds=1 is not on the storage of {place}"
    sentence = f"partition ds=1 of sales.orders lies on another storage than the table: {where}"
    assert_fails(result, 2, sentence, "--partition")


# --- Names.


@pytest.mark.parametrize(
    ("name", "sentence", "hint"),
    [
        ("Sales.ORDRES", "there is no table sales.ordres", "Did you mean sales.order?"),
        ("sales.custmers", "there is no table sales.custmers", "Did you mean sales.customers?"),
        ("sales.visits", "there is no table sales.visits", "Did you mean staging.visits?"),
        ("sales.nothing_like_it", "there is no table sales.nothing_like_it", "acidctl ls 'sales.*' --by-table"),
        ("slaes.orders", "there is no database slaes", "Did you mean sales or sale?"),
        ("qqq.orders", "there is no database qqq", "The databases are default, sale, sales, staging."),
        ("ordrs", "there is no table default.ordrs", "Did you mean default.orders?"),
        ("`sa``les`.`or ders`", "there is no database sa`les", "Did you mean sales"),
        ("sales.`or.ders`", "there is no table sales.or.ders", "Did you mean sales.order"),
    ],
)
def test_unknown_names(name: str, sentence: str, hint: str) -> None:
    """With names that are near."""
    with listening(_with_tables().serve) as port:
        assert_fails(read(port, name), 10, f"{sentence} in the metastore 127.0.0.1:{port}", hint)


@pytest.mark.parametrize(
    "name",
    ["sales.orders.x", "sales.or'ders", "a b", "sales..x", "sales.*", 'sales."orders"', "a.`b", "x\ny.z", "``.b"],
)
def test_texts_that_are_no_names(name: str) -> None:
    """Nobody is asked."""
    fake = _with_tables()
    with listening(fake.serve) as port:
        assert_fails(read(port, name), 2, f"{name!r} is not the name of a table", "Write it as database.table")
    assert fake.calls == []


def test_no_metastore_is_named() -> None:
    """A name is then a path, and the hint says what is missing."""
    assert_fails(
        acidctl("snapshot", "sales.orders"), 10, "sales.orders does not exist", "--metastore thrift://host:9083"
    )


def test_what_exists_here_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever variable names a metastore; with --metastore the name comes first."""
    (tmp_path / "a.b").mkdir()
    monkeypatch.chdir(tmp_path)
    fake = _with_tables()
    with listening(fake.serve) as port:
        monkeypatch.setenv("ACIDCTL_METASTORE", f"thrift://127.0.0.1:{port}")
        assert acidctl("ls", "a.b").code == 0
        assert fake.calls == []
        assert_fails(read(port, "a.b"), 10, f"there is no database a in the metastore 127.0.0.1:{port}")


# --- Settings.


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        *[(text, text) for text in ("thrift://", "thrift://a:b", "thrift://a:99999", "thrift://h:0", "ftp://h", "::1")],
        *[(text, text) for text in ("http//x", "a b", "jdbc:hive2://h:10000", "thrift://h/x", "thrift://[::1")],
        (f"thrift://bob:{SECRET}@h:1", "thrift://h:1"),
        (f"thrift://h1,thrift://bob:{SECRET}@h2", "thrift://h2"),
    ],
)
def test_addresses_that_are_none(given: str, shown: str) -> None:
    """Nobody is asked, and no password repeated."""
    result = acidctl("snapshot", "a.b", "--metastore", given)
    assert_fails(result, 2, f"{shown!r} is not the address of a metastore", "thrift://host:9083")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("uris = 5", "the setting uris of the metastore has a value of the wrong type"),
        ("uris = [5]", "the setting uris of the metastore has a value of the wrong type"),
        ('uris = ""', "the address of the metastore is empty"),
        ('uris = " , "', "the address of the metastore is empty"),
        ('timeout = "x"', "the setting timeout of the metastore has a value of the wrong type"),
        ("timeout = true", "the setting timeout of the metastore has a value of the wrong type"),
        ("timeout = 0", "the timeout of the metastore must be above 0 seconds"),
        ("timeout = -1", "the timeout of the metastore must be above 0 seconds"),
        ("timeout = nan", "the timeout of the metastore must be above 0 seconds"),
        ('tls = "yes"', "the setting tls of the metastore has a value of the wrong type"),
        ("headers = { a = 5 }", "the setting headers of the metastore has a value of the wrong type"),
        ('auth = "ldap"', "unknown auth 'ldap' of the metastore"),
        ('transport = "carrier"', "unknown transport 'carrier' of the metastore"),
        ('auth = "plain"\nuser = "bob"', "auth plain of the metastore needs a user and a password"),
        ('auth = "kerberos"', "auth kerberos of the metastore needs the server's principal"),
        (f'auth = "jwt"\ntoken = "{SECRET}"', "auth jwt of the metastore needs transport http and a token"),
        ('ca_file = "/nowhere"', "'/nowhere', which ca_file of the metastore names, is no file"),
        ('uris = "thrift://a,https://b"', "the addresses of the metastore mix https and thrift"),
    ],
)
def test_settings_that_cannot_be_meant(config: Callable[[str], str], lines: str, sentence: str) -> None:
    """Each is refused before anybody is asked."""
    uris = "" if lines.startswith("uri") else 'uris = "thrift://127.0.0.1:1"\n'
    result = acidctl("snapshot", "a.b", "--config", config(uris + lines))
    assert_fails(result, 2, sentence)
    assert SECRET not in result.stderr


def test_thriftpy2_is_not_installed(tmp_path: Path) -> None:
    """What to install; a path needs nothing."""
    (tmp_path / "thriftpy2").mkdir()
    (tmp_path / "thriftpy2/__init__.py").write_text("raise ImportError('none')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}

    def run(*words: str) -> Any:
        line = [sys.executable, "-m", "acidctl", *words]
        return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)

    done = run("snapshot", "a.b", "--metastore", "thrift://h")
    assert (done.returncode, done.stderr.splitlines()) == (
        14,
        [
            "error: a metastore needs a package that is not installed",
            "  hint: pip install 'acidctl[metastore]'",
        ],
    )
    path = ROOT / "fixtures/tables/hive4/demo_orders/03-demo/table"
    assert run("ls", str(path), "--metastore", "thrift://h").returncode == 0


# --- Hive's own files.


@contextmanager
def _site(folder: Path, values: dict[str, str]) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    entries = "".join(f"<property><name>{key}</name><value>{text}</value></property>" for key, text in values.items())
    (folder / "hive-site.xml").write_text(f"<configuration>{entries}</configuration>")
    yield


@pytest.mark.parametrize("variable", ["HIVE_CONF_DIR", "HADOOP_CONF_DIR"])
def test_hive_site(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address counts where no other is given; what it asks for and we lack is a sentence."""
    port = free_port()
    own = {"hive.metastore.uris": f"thrift://127.0.0.1:{port}"}
    monkeypatch.setenv(variable, str(tmp_path / "conf"))
    for more, code, sentence in (
        ({}, 14, f"the metastore 127.0.0.1:{port} cannot be reached: Connection refused"),
        ({"hive.metastore.client.socket.timeout": "600s"}, 14, f"the metastore 127.0.0.1:{port} cannot be reached: "),
        ({"hive.metastore.client.auth.mode": "PLAIN"}, 2, "auth plain of the metastore needs a user and a password"),
        ({"hive.metastore.sasl.enabled": "true"}, 2, "auth kerberos of the metastore needs the server's principal"),
        ({"hive.metastore.client.thrift.transport.mode": "http"}, 14, f"the metastore 127.0.0.1:{port} cannot be"),
    ):
        with _site(tmp_path / "conf", own | more):
            result = acidctl("snapshot", "a.b")
        assert result.code == code, result.stderr
        assert result.stderr.startswith(f"error: {sentence}")
    # An empty address is an embedded metastore.
    with _site(tmp_path / "conf", {"hive.metastore.uris": ""}):
        assert_fails(acidctl("snapshot", "a.b"), 10, "a.b does not exist")


# --- Secrets.


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_is_repeated(
    form: str,
    config: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever repeats them: the server's answer, a traceback, a usage error."""
    answer = f"HTTP/1.1 401 {SECRET}\r\nContent-Length: 14\r\n\r\n{SECRET}".encode()

    def refuse(request: Any) -> None:
        raise IDL.MetaException(f"user bob may not with {SECRET}")

    for lines in (
        f'transport = "http"\nauth = "plain"\nuser = "bob"\npassword = "{SECRET}"',
        f'transport = "http"\nauth = "jwt"\ntoken = "{SECRET}"',
        f'transport = "http"\nheaders = {{ Authorization = "{SECRET}" }}',
        f'auth = "plain"\nuser = "bob"\npassword = "{SECRET}"',
        f'password = "{SECRET}"',
    ):
        serve = FakeMetastore(get_table_req=refuse).serve if "auth" not in lines.lower() else says(answer)
        with listening(serve) as port:
            result = read(port, "a.b", "--config", config(lines), "-v", "--debug", "-o", form)
        assert result.code in (1, 14)
        shown = result.stdout + result.stderr + "".join(capsys.readouterr())
        assert "Traceback" in shown
        assert SECRET not in shown, lines
    monkeypatch.setenv("ACIDCTL_METASTORE_PASSWORD", SECRET)
    with listening(FakeMetastore(get_table_req=refuse).serve) as port:
        result = read(port, "a.b", "--debug", "-o", form)
    assert SECRET not in result.stdout + result.stderr + "".join(capsys.readouterr())


# --- Several metastores, and changes.


def test_the_first_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead one is passed over; when all are dead, each is named."""
    dead, other = free_port(), free_port()
    with listening(_with_tables().serve) as port, api.Metastore([f"127.0.0.1:{dead}", f"127.0.0.1:{port}"]) as found:
        assert found.catalog.databases() == ("default", "sale", "sales", "staging")
        assert str(found.client) == f"127.0.0.1:{port}"
    result = acidctl("snapshot", "a.b", "--metastore", f"thrift://127.0.0.1:{dead},thrift://127.0.0.1:{other}")
    each = (f"the metastore 127.0.0.1:{port} cannot be reached: Connection refused" for port in (dead, other))
    assert_fails(result, 14, "; ".join(each))


def test_a_read_is_asked_again_and_a_change_is_not() -> None:
    """Connections that end in the middle of a call."""
    calls: list[str] = []

    def hang_up(connection: socket.socket) -> None:
        fake = FakeMetastore(get_config_value=lambda name, default: default)

        def known(name: str) -> bool:
            calls.append(name)
            if name in ("abort_txns", "get_all_databases"):
                connection.shutdown(socket.SHUT_RDWR)
                raise OSError
            return FakeMetastore.known(fake, name)

        fake.known = known  # type: ignore[method-assign]
        fake.serve(connection)

    with listening(hang_up) as port, api.Metastore(f"127.0.0.1:{port}") as found:
        with pytest.raises(UnreachableError, match="closed the connection"):
            found.catalog.databases()
        assert calls.count("get_all_databases") == 4
        request = found.client.types.AbortTxnsRequest(txn_ids=[1])
        with pytest.raises(UnreachableError, match="whether abort_txns was carried out is unknown"):
            found.client.call("abort_txns", request)
        assert calls.count("abort_txns") == 1
