"""Hadoop's configuration and exceptions, and addresses of HDFS: no server needed."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from acidctl.errors import (
    DeniedError,
    ExistsError,
    MissingDependencyError,
    QuotaError,
    SafeModeError,
    StorageError,
    ThrottledError,
    UnreachableError,
    UsageError,
)
from acidctl.storage.hadoop import MissingError, of_java
from acidctl.storage.hadoop_conf import load_hadoop_conf, locate
from acidctl.storage.hdfs_native import bounded, try_connections
from acidctl.storage.remote import in_thread
from acidctl.storage.resolve import resolve

LAKE = {
    "dfs.nameservices": "lake,other",
    "dfs.ha.namenodes.lake": "nn1, nn2",
    "dfs.namenode.rpc-address.lake.nn1": "one:8020",
    "dfs.namenode.rpc-address.lake.nn2": "two:8020",
}


def _site(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f'<?xml version="1.0"?>\n<configuration>{body}</configuration>')


def _property(key: str, value: str, more: str = "") -> str:
    return f"<property><name> {key} </name><value>{value}</value>{more}</property>"


class TestConfiguration:
    """`core-site.xml` and `hdfs-site.xml`."""

    def test_later_values_win_unless_earlier_ones_are_final(self, tmp_path: Path) -> None:
        """Within a file, and of hdfs-site.xml over core-site.xml."""
        final = "<final>true</final>"
        _site(tmp_path, "core-site.xml", _property("a", "1") + _property("a", "2") + _property("f", "core", final))
        _site(tmp_path, "hdfs-site.xml", _property("b", "3") + _property("f", "hdfs") + "<!-- c --><property/>")
        assert load_hadoop_conf({"HADOOP_CONF_DIR": str(tmp_path)}) == {"a": "2", "b": "3", "f": "core"}

    def test_variables_are_replaced(self, tmp_path: Path) -> None:
        """Other keys, the environment with defaults; what is unknown stays, and circles end."""
        values = {"h": "one", "a": "${h}:${p}", "e": "${env.X}-${env.Y:-d}-${env.Z-e}-${nobody}", "c": "${c}", "p": "1"}
        _site(tmp_path, "core-site.xml", "".join(_property(*pair) for pair in values.items()))
        found = load_hadoop_conf({"HADOOP_CONF_DIR": str(tmp_path), "X": "x", "Z": ""})
        assert (found["a"], found["e"], found["c"]) == ("one:1", "x-d--${nobody}", "${c}")

    def test_included_files(self, tmp_path: Path) -> None:
        """Where they stand in order; a missing one only with a fallback."""
        space = 'xmlns:xi="http://www.w3.org/2001/XInclude"'
        _site(tmp_path, "more.xml", _property("a", "included") + _property("b", "included"))
        include = f'<xi:include {space} href="more.xml"/>'
        optional = f'<xi:include {space} href="none.xml"><xi:fallback/></xi:include>'
        _site(tmp_path, "core-site.xml", _property("a", "1") + include + optional + _property("b", "2"))
        assert load_hadoop_conf({"HADOOP_CONF_DIR": str(tmp_path)}) == {"a": "included", "b": "2"}
        _site(tmp_path, "core-site.xml", f'<xi:include {space} href="none.xml"/>')
        with pytest.raises(UsageError, match="which does not exist"):
            load_hadoop_conf({"HADOOP_CONF_DIR": str(tmp_path)})
        _site(tmp_path, "core-site.xml", f'<xi:include {space} href="core-site.xml"/>')
        with pytest.raises(UsageError, match="without end"):
            load_hadoop_conf({"HADOOP_CONF_DIR": str(tmp_path)})

    def test_where_it_is_looked_for(self, tmp_path: Path) -> None:
        """HADOOP_CONF_DIR, which has to be there, else HADOOP_HOME, which need not."""
        assert load_hadoop_conf({}) == {}
        assert load_hadoop_conf({"HADOOP_HOME": str(tmp_path)}) == {}
        (tmp_path / "etc/hadoop").mkdir(parents=True)
        _site(tmp_path / "etc/hadoop", "core-site.xml", _property("a", "1"))
        assert load_hadoop_conf({"HADOOP_HOME": str(tmp_path), "HADOOP_CONF_DIR": ""}) == {"a": "1"}
        with pytest.raises(UsageError, match="which HADOOP_CONF_DIR names, is not a directory"):
            load_hadoop_conf({"HADOOP_CONF_DIR": str(tmp_path / "none")})

    @pytest.mark.parametrize(
        "text", ["<configuration>\n<property>", "<html/>", "", '<!DOCTYPE x [<!ENTITY a "b">]>&a;']
    )
    def test_what_is_no_configuration(self, tmp_path: Path, text: str) -> None:
        """A sentence with the file, and nothing of what stands in it."""
        (tmp_path / "hdfs-site.xml").write_text(text)
        with pytest.raises(UsageError, match=r"hdfs-site\.xml is not"):
            load_hadoop_conf({"HADOOP_CONF_DIR": str(tmp_path)})


class TestAddresses:
    """Where URLs lead."""

    @pytest.mark.parametrize(
        ("url", "authority", "path", "addresses"),
        [
            ("hdfs://nn:9000/w/t", "nn:9000", "/w/t", ("nn:9000",)),
            ("hdfs://nn/w//t%3A#x?y", "nn:8020", "/w/t%3A#x?y", ("nn:8020",)),
            ("hdfs://nn:/", "nn:8020", "/", ("nn:8020",)),
            ("hdfs://[::1]:9000", "[::1]:9000", "/", ("[::1]:9000",)),
            ("hdfs://lake/t", "lake", "/t", ("one:8020", "two:8020")),
            ("hdfs:///t", "lake", "/t", ("one:8020", "two:8020")),
        ],
    )
    def test_machines_and_name_services(self, url: str, authority: str, path: str, addresses: tuple[str, ...]) -> None:
        """A machine has a port, a name service has addresses in the configuration; paths are left as they are."""
        place = locate(url, "hdfs", {"config": {**LAKE, "fs.defaultFS": "hdfs://lake"}}, {})
        assert (place.authority, place.path, place.addresses) == (authority, path, addresses)

    def test_the_order_of_namenodes(self) -> None:
        """As it is wanted, whatever the configuration calls them; nothing else is touched."""
        place = locate("hdfs://lake/t", "hdfs", {"config": LAKE}, {})
        config = place.ordered(("two:8020", "one:8020"))
        members = config["dfs.ha.namenodes.lake"].split(",")
        assert [config[f"dfs.namenode.rpc-address.lake.{member}"] for member in members] == ["two:8020", "one:8020"]
        assert config["dfs.nameservices"] == "lake,other"
        alone = locate("hdfs://nn/t", "hdfs", {"config": LAKE}, {})
        assert alone.ordered(("nn:8020",)) == dict(alone.config)

    def test_what_says_nothing(self) -> None:
        """No host, a name service without addresses, a default that is no HDFS."""
        for config in ({}, {"fs.defaultFS": "s3a://b"}, {"fs.defaultFS": "file:///"}):
            with pytest.raises(UsageError, match="hdfs: was given without a host"):
                locate("hdfs:///t", "hdfs", {"config": config}, {})
        with pytest.raises(StorageError, match="has no address for a NameNode of other"):
            locate("hdfs://other/t", "hdfs", {"config": LAKE}, {})

    @pytest.mark.parametrize("options", [{"usr": "x"}, {"user": 5}, {"user": ""}, {"timeout": 0}, {"config": "x"}])
    def test_options_that_are_not_understood(self, options: Mapping[str, Any]) -> None:
        """A wrong name or kind is a UsageError."""
        with pytest.raises(UsageError, match="storage option"):
            locate("hdfs://nn/t", "hdfs", options, {})

    def test_settings_are_texts_and_are_not_shown(self) -> None:
        """TOML's numbers and truth values; the configuration may hold secrets."""
        config = {"fs.trash.interval": 60, "a": True, "fs.s3a.secret.key": "SECRET"}
        place = locate("hdfs://nn/t", "hdfs", {"config": config, "timeout": 5}, {})
        assert (place.trash_minutes, place.config["a"], place.timeout) == (60, "true", 5)
        assert "SECRET" not in repr(place)

    def test_a_missing_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sentence with the extra to install."""
        monkeypatch.setitem(sys.modules, "hdfs_native", None)
        monkeypatch.delitem(sys.modules, "acidctl.storage.hdfs_native", raising=False)
        monkeypatch.delattr("acidctl.storage.hdfs_native", raising=False)
        with pytest.raises(MissingDependencyError) as caught:
            resolve("hdfs://nn/t")
        assert caught.value.hint == "pip install 'acidctl[hdfs]'"


@pytest.mark.parametrize(
    ("java", "message", "kind", "text"),
    [
        ("org.apache.hadoop.ipc.StandbyException", "Operation category READ", SafeModeError, "no NameNode is active"),
        ("SafeModeException", "Cannot create. Name node is in safe mode.", SafeModeError, "is in safe mode"),
        ("org.apache.hadoop.ipc.RetriableException", "is starting", UnreachableError, "not ready"),
        (
            "EOFException",
            'End of File Exception between local host is: "a/10.0.0.1"; destination host is: "nn":8020; : EOFException',
            UnreachableError,
            "End of File Exception between",
        ),
        ("EOFException", "Premature EOF", StorageError, "Premature EOF"),
        (
            "ConnectException",
            "Call From a/10.0.0.1 to nn:8020 failed on connection exception: java.net.ConnectException: refused",
            UnreachableError,
            "failed on connection exception: ConnectException",
        ),
        ("AccessControlException", "Permission denied: user=a", DeniedError, "Permission denied: user=a"),
        ("AccessControlException", "/a (is not a directory)", MissingError, "is not a directory"),
        ("AccessControlException", "SIMPLE authentication is not enabled.", DeniedError, "requires Kerberos"),
        ("ParentNotDirectoryException", "/a (is not a directory)", MissingError, "is not a directory"),
        ("FileAlreadyExistsException", "/a", ExistsError, "exists already"),
        ("AlreadyBeingCreatedException", "/a", ExistsError, "exists already"),
        (
            "IOException",
            "Failed to CREATE_FILE /a because this file lease is currently owned by DFSClient_1 on 127.0.0.1",
            ExistsError,
            "exists already",
        ),
        ("NSQuotaExceededException", "The quota is exceeded", QuotaError, "The quota is exceeded"),
        (
            "java.io.IOException",
            "could only be written to 0 of the 1; There are 1 datanode(s)",
            QuotaError,
            "takes its",
        ),
        (
            "IOException",
            "could only be written to 0 of 1; There are 0 datanode(s) running",
            UnreachableError,
            "no Data",
        ),
        (
            "IOException",
            "x org.apache.hadoop.fs.PathIOException: y\n\tat org.apache.X",
            StorageError,
            "x PathIOException",
        ),
        ("NotReplicatedYetException", "Not replicated yet: /a", ThrottledError, "behind with"),
        ("IOException", "url?delegation=SECRET&x", StorageError, "delegation=..."),
    ],
)
def test_exceptions_of_hadoop(java: str, message: str, kind: type[StorageError], text: str) -> None:
    """Each is one of our errors, by its class or its text, in one line without stack or secret."""
    error = of_java(java, message, "hdfs://nn/t", changes=True)
    assert type(error) is kind
    assert text in error.message
    assert not any(unwanted in error.message for unwanted in ("\n", "org.apache", "SECRET"))


class TestBoundedCalls:
    """Waiting for what cannot be interrupted."""

    def test_answers_errors_and_time(self) -> None:
        """An answer and an error come as they are; what takes too long is left alone."""
        release = threading.Event()
        assert bounded(in_thread(lambda: 5), 10) == 5
        with pytest.raises(KeyError):
            bounded(in_thread(lambda: dict[int, int]()[1]), 10)
        begin = time.monotonic()
        with pytest.raises(TimeoutError):
            bounded(in_thread(release.wait), 0.05)
        assert time.monotonic() - begin < 5
        release.set()


def test_namenodes_are_asked_for_connections_at_once() -> None:
    """After the first that accepts, the others have little time left: those that are silent are left out."""
    with socket.create_server(("127.0.0.1", 0)) as accepting, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        ports = [accepting.getsockname()[1], full.getsockname()[1]]
        with ExitStack() as waiting, socket.create_server(("127.0.0.1", 0)) as closed:
            addresses = [f"127.0.0.1:{port}" for port in (*ports, closed.getsockname()[1])]
            for _ in range(2):
                client = waiting.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", ports[1]))
            closed.close()
            begin = time.monotonic()
            faults = try_connections([*addresses, "127.0.0.1:none"], 20)
            assert time.monotonic() - begin < 5
    assert faults[addresses[0]] is None
    assert addresses[1] not in faults
    assert isinstance(faults[addresses[2]], ConnectionRefusedError)
    assert isinstance(faults["127.0.0.1:none"], ValueError)
