"""WebHDFS's answers and outages as our errors, and fail-over: over servers that say what a test tells them.

Every address in these tests carries a secret; no error may hold it, wherever it is looked for.
"""

from __future__ import annotations

import json
import subprocess
import traceback
from pathlib import Path
from typing import Any, cast

import pytest

from acidctl.errors import (
    AcidctlError,
    DeniedError,
    ExistsError,
    MissingDependencyError,
    QuotaError,
    SafeModeError,
    StorageError,
    ThrottledError,
    UnreachableError,
)
from acidctl.storage.hadoop_conf import Place
from acidctl.storage.prefetch import RangedFile
from acidctl.storage.webhdfs import WebHdfsStorage, connect
from tests.support.relay import Lost, Relay, Reply, Request, java

SECRET = "SECRET-of-this-user"
STATUS = {
    "accessTime": 0,
    "blockSize": 100,
    "fileId": 1,
    "group": "g",
    "length": 1000,
    "modificationTime": 1500,
    "owner": "o",
    "pathSuffix": "",
    "permission": "644",
    "type": "FILE",
}


def _place(addresses: tuple[str, ...], **access: Any) -> Place:
    return Place("webhdfs", "nn", "/", addresses, **access)


def _storage(*relays: Relay | int, timeout: float = 5.0, **access: Any) -> WebHdfsStorage:
    nodes = tuple(f"http://127.0.0.1:{relay if isinstance(relay, int) else relay.port}" for relay in relays)
    return WebHdfsStorage(_place(nodes, token=SECRET, timeout=timeout, **access))


def _all_text(error: AcidctlError) -> str:
    """Everything that a log could show of it."""
    return "".join(traceback.format_exception(error)) + f"{error.message} {error.path} {error.hint} {error.args}"


def _status(**changes: object) -> Reply:
    return Reply(200, json.dumps({"FileStatus": {**STATUS, **changes}}).encode())


@pytest.fixture
def closed_port() -> int:
    """A port at which nobody listens."""
    with Relay() as relay:
        return relay.port


NO_NODES = "f could only be written to 0 of the 1 minReplication nodes. There are {} datanode(s) running"
TAKEN = "Failed to CREATE_FILE /t for a on 10.0.0.1 because this file lease is currently owned by b on 10.0.0.2"


@pytest.mark.parametrize(
    ("reply", "kind", "said"),
    [
        (java(403, "AccessControlException", "Permission denied: user=bob"), DeniedError, "denied: user=bob"),
        (java(403, "AccessControlException", f"x delegation={SECRET}&op=y"), DeniedError, "delegation=...&op=y"),
        (java(401, "SecurityException", f"...$InvalidToken: {SECRET} expired"), DeniedError, "token has expired"),
        (java(403, "InvalidToken", f"token {SECRET} can't be found in cache"), DeniedError, "token is not known"),
        (java(403, "InvalidToken", f"token {SECRET} has no master key"), DeniedError, "token is not valid"),
        (Reply(401, SECRET.encode()), DeniedError, "token is not valid"),
        (Reply(403, b"<html>forbidden</html>"), DeniedError, "the server forbids it"),
        (java(403, "SafeModeException", "Name node is in safe mode.\nIt says"), SafeModeError, "is in safe mode"),
        (java(403, "RetriableException", "x: Name node is in safe mode."), SafeModeError, "is in safe mode"),
        (java(403, "RetriableException", "NameNode still not started"), UnreachableError, "is not ready"),
        (java(403, "StandbyException", "Operation category READ"), SafeModeError, "no NameNode is active"),
        (java(403, "NSQuotaExceededException", "quota of /q is exceeded"), QuotaError, "quota of /q"),
        (java(403, "IOException", NO_NODES.format(0)), UnreachableError, "no DataNode is there"),
        (java(403, "IOException", NO_NODES.format(3)), QuotaError, "no DataNode takes its data"),
        (java(403, "IOException", "Failed to find datanode, suggest ..."), UnreachableError, "no DataNode is there"),
        (java(403, "BlockMissingException", "blk_1"), UnreachableError, "no DataNode gives a block of it"),
        (java(403, "FileAlreadyExistsException", "/t exists"), ExistsError, "/t exists already"),
        (java(500, "RemoteException", TAKEN), ExistsError, "/t exists already"),
        (java(404, "FileNotFoundException", "File does not exist: /t"), StorageError, "/t is not there any more"),
        (java(500, "Odd", "org.apache.OddException: odd\n\tat org.Stack"), StorageError, ": OddException: odd"),
        (Reply(503, b"busy"), ThrottledError, "fewer requests (HTTP 503)"),
        (Reply(429), ThrottledError, "fewer requests (HTTP 429)"),
        (Reply(502, b"<html>"), UnreachableError, "does not reach HDFS (HTTP 502)"),
        (Reply(404, b"<html>" + b"x" * 1_000_000), StorageError, "something that is not WebHDFS"),
        (Reply(302, headers={"Location": f"http://h/?{SECRET}"}), StorageError, "does not answer as WebHDFS does"),
        (Reply(200, b"<html>hello</html>"), StorageError, "does not answer as WebHDFS does"),
        (Reply(200, b"[1]"), StorageError, "does not answer as WebHDFS does"),
        (Reply(200, b"{}"), StorageError, "the answer has no FileStatus"),
        (Reply(200, b'{"File', length=1000), UnreachableError, "before its answer was complete"),
        (Lost(carried_out=False), UnreachableError, "before its answer was complete"),
    ],
)
def test_answers_become_our_errors(reply: Reply | Lost, kind: type[StorageError], said: str) -> None:
    """One sentence each, of the right kind, without Java's stack and without the token."""

    def script(request: Request) -> Reply:
        if isinstance(reply, Lost):
            raise reply
        return reply

    with Relay(script) as relay, pytest.raises(StorageError) as caught:
        _storage(relay).open("/t")
    assert isinstance(caught.value, kind)
    assert said in caught.value.message
    assert caught.value.message.startswith("webhdfs://nn/t ")
    assert "\n" not in caught.value.message
    assert caught.value.transient == (kind.transient or "no NameNode is active" in said)
    assert relay.requests[0].query["delegation"] == SECRET
    assert SECRET not in _all_text(caught.value)


def test_who_is_not_known_is_told_what_to_do() -> None:
    """A server that wants Kerberos, and one that wants anything else."""
    replies = [Reply(401, headers={"WWW-Authenticate": "Negotiate"}), Reply(401)]
    with Relay(lambda request: replies.pop(0)) as relay:
        storage = WebHdfsStorage(_place((f"http://127.0.0.1:{relay.port}",), user="alice"))
        with pytest.raises(DeniedError, match="requires Kerberos") as caught:
            storage.stat("/t")
        assert "kinit" in str(caught.value.hint)
        with pytest.raises(DeniedError, match="does not accept this user"):
            storage.stat("/t")
        assert relay.requests[0].query["user.name"] == "alice"


def test_outages_are_told_apart(closed_port: int) -> None:
    """Whether to wait, or to look at the address."""
    with pytest.raises(UnreachableError, match="accepts no connections") as caught:
        _storage(closed_port).stat("/t")
    assert caught.value.transient
    assert SECRET not in _all_text(caught.value)
    unknown = WebHdfsStorage(_place(("http://nn.invalid:1",), token=SECRET))
    with pytest.raises(UnreachableError, match=r"the host name in http://nn.invalid:1 is unknown") as caught:
        unknown.stat("/t")
    assert not caught.value.transient
    assert SECRET not in _all_text(caught.value)
    with Relay(lambda request: Reply()) as relay:
        tls = WebHdfsStorage(_place((f"https://127.0.0.1:{relay.port}",), token=SECRET))
        with pytest.raises(StorageError, match=r"certificate of https://\S+ is not trusted") as trouble:
            tls.stat("/t")
        assert SECRET not in _all_text(trouble.value)


def test_the_active_namenode_is_found_and_stayed_with(closed_port: int) -> None:
    """A standby and a machine that is down are passed by, once; what changes is sent only where it is carried out."""
    standby = java(403, "StandbyException", "Operation category READ is not supported in state standby")
    with Relay(lambda request: standby) as first, Relay(lambda request: Reply(200, b'{"boolean": true}')) as second:
        storage = _storage(closed_port, first, second)
        storage._true("PUT", "MKDIRS", "/t/new")
        storage._true("PUT", "MKDIRS", "/t/other")
        assert (len(first.requests), len(second.requests)) == (1, 2)
    with Relay(lambda request: standby) as first, Relay(lambda request: standby) as second:
        with pytest.raises(SafeModeError, match="no NameNode is active"):
            _storage(first, second).stat("/t")
        assert (len(first.requests), len(second.requests)) == (1, 1)


def test_a_change_whose_answer_is_lost_is_not_sent_to_another_namenode() -> None:
    """It may have been carried out; reading goes on elsewhere."""

    def lost(request: Request) -> Reply:
        raise Lost(carried_out=False)

    with Relay(lost) as first, Relay(lambda request: _status()) as second:
        with pytest.raises(UnreachableError, match="closed the connection"):
            _storage(first, second)._true("DELETE", "DELETE", "/t")
        assert (first.count("DELETE"), len(second.requests)) == (1, 0)
        assert _storage(first, second).stat("/t") is not None


def test_an_entry_that_comes_twice_counts_once() -> None:
    """HttpFS strips the name to go on after, so that a name with a blank at its end opens the next page too."""
    pages = {None: (["a", "b "], 1), "b ": (["b ", "c"], 1), "c": (["c"], 1)}

    def script(request: Request) -> Reply:
        names, left = pages[request.query.get("startAfter")]
        statuses = [{**STATUS, "pathSuffix": name} for name in names]
        listing = {"partialListing": {"FileStatuses": {"FileStatus": statuses}}, "remainingEntries": left}
        return Reply(200, json.dumps({"DirectoryListing": listing}).encode())

    with Relay(script) as relay:
        found = _storage(relay).walk("/t")
        assert [(info.path, info.size, info.modified) for info in found.files] == [
            ("a", 1000, 1.5),
            ("b ", 1000, 1.5),
            ("c", 1000, 1.5),
        ]
        assert len(relay.requests) == 3


def test_the_package_for_kerberos_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else needs it."""
    monkeypatch.setattr("acidctl.storage.webhdfs.requests_kerberos", None)
    with pytest.raises(MissingDependencyError) as caught:
        connect("webhdfs://nn/t", "webhdfs", {"config": {"hadoop.security.authentication": "kerberos"}})
    assert "pip install requests-kerberos" in str(caught.value.hint)


def test_ranges_are_asked_of_the_datanode_that_gave_the_block() -> None:
    """One question to the NameNode for each block; a DataNode that fails is asked for no more."""
    data = bytes(range(250)) * 4
    broken: list[int] = []

    def datanode(request: Request) -> Reply:
        if request.query["delegation"] != "of-the-datanode":
            return Reply(401)
        offset, length = int(request.query["offset"]), int(request.query["length"])
        if broken:
            return Reply(200, data[offset : offset + length // 2], length=length)
        return Reply(200, data[offset : offset + length] + b"more than was asked for")

    def namenode(request: Request) -> Reply:
        if request.operation == "GETFILESTATUS":
            return _status()
        offset, length = request.query["offset"], request.query["length"]
        where = f"http://127.0.0.1:{nodes.port}/webhdfs/v1/t?op=OPEN&delegation=of-the-datanode"
        return Reply(307, headers={"Location": f"{where}&offset={offset}&length={length}"})

    with Relay(datanode) as nodes, Relay(namenode) as names:
        storage = _storage(names)
        with storage.open("/t") as stream:
            read_at = cast(RangedFile, stream)._read_at
            for offset, length in ((5, 10), (60, 30), (999, 1), (0, 100), (950, 50)):
                assert read_at(offset, length) == data[offset : offset + length]
            assert (names.count("OPEN"), nodes.count("OPEN"), names.connections) == (2, 5, 1)
            broken.append(1)
            with pytest.raises(UnreachableError, match="sent 5 of 10 bytes"):
                read_at(5, 10)
            assert (names.count("OPEN"), nodes.count("OPEN")) == (3, 7)
            broken.clear()
            assert read_at(5, 10) == data[5:15]
            assert (names.count("OPEN"), nodes.count("OPEN")) == (4, 8)


def test_another_datanode_is_asked_for_when_one_is_gone(closed_port: int) -> None:
    """The NameNode goes on naming it for minutes; nothing was sent to it, so files are written elsewhere."""
    ports = [closed_port, closed_port]

    def namenode(request: Request) -> Reply:
        if request.operation == "GETFILESTATUS":
            return _status(type="DIRECTORY") if request.path.endswith("/d") else java(404, "FileNotFoundException", "?")
        if request.operation != "CREATE":
            return java(400, "IllegalArgumentException", "what?")
        port = ports.pop() if ports else nodes.port
        return Reply(307, headers={"Location": f"http://127.0.0.1:{port}/webhdfs/v1/t?op=CREATE&token={SECRET}"})

    with Relay(lambda request: Reply(201)) as nodes, Relay(namenode) as names:
        storage = _storage(names)
        storage.create_exclusive("/t", b"data")
        assert [request.query.get("excludedatanodes") for request in names.requests[1:]] == [None] + ["127.0.0.1"] * 2
        assert [request.query["createparent"] for request in nodes.requests] == ["false"]
        ports.extend([closed_port] * 2)
        with storage.create("/d/large") as stream:
            stream.write(b"x" * (9 << 20))
        assert [request.size for request in nodes.requests] == [4, 9 << 20]
        ports.extend([closed_port] * 15)
        with pytest.raises(UnreachableError, match=f"http://127.0.0.1:{closed_port} accepts no connections") as caught:
            storage.create_exclusive("/t", b"data")
        assert len(ports) == 5
        assert "HttpFS gateway" in str(caught.value.hint)
        assert SECRET not in _all_text(caught.value)


def test_data_is_not_sent_in_the_clear_where_tls_was_asked_for(tmp_path: Path) -> None:
    """A redirect from https to http is refused; a certificate is believed that was named."""
    from ssl import PROTOCOL_TLS_SERVER, SSLContext

    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"),
            *("-keyout", "key.pem", "-out", "ca.pem"),
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    tls = SSLContext(PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")

    def namenode(request: Request) -> Reply:
        if request.operation == "GETFILESTATUS":
            return _status()
        return Reply(307, headers={"Location": "http://127.0.0.1:1/webhdfs/v1/t?op=OPEN&delegation=" + SECRET})

    with Relay(namenode, tls=tls) as relay:
        access = _place((f"https://127.0.0.1:{relay.port}",), token=SECRET, ca_file=str(tmp_path / "ca.pem"))
        storage = WebHdfsStorage(access)
        with storage.open("/t") as stream, pytest.raises(StorageError, match="data would come unencrypted") as caught:
            stream.read(1)
        assert SECRET not in _all_text(caught.value)
