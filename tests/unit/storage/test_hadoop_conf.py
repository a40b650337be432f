"""From an address, its options and Hadoop's configuration to servers and a user; tokens in Hadoop's files."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from acidctl.errors import StorageError, UsageError
from acidctl.storage.hadoop_conf import Place, Token, choose, locate, parse

HA = {
    "dfs.nameservices": "far,warehouse",
    "dfs.ha.namenodes.warehouse": "nn1, nn2",
    "dfs.namenode.http-address.warehouse.nn1": "a:9870",
    "dfs.namenode.http-address.warehouse.nn2": "b:50070",
    "dfs.namenode.https-address.warehouse.nn1": "a:9871",
    "fs.defaultFS": "hdfs://warehouse",
}
# What a NameNode 3.4.3 gave for GETDELEGATIONTOKEN, and the same token as it stands in a file.
URL_FORM = (
    "HAAEcm9vdARyb290AIoBogD8SnyKAaIlCM58AQIUMlH4h9Vd4P1HqNrpwkZXt54LU9oSV0VCSERGUyBkZWxlZ2F0aW9uDzEyNy4wLjAuMToxNDEwMg"
)
WRITABLE = base64.urlsafe_b64decode(URL_FORM + "==")
TOKEN = Token(WRITABLE[1:29], WRITABLE[30:50], "WEBHDFS delegation", "127.0.0.1:14102")
FILE = b"HDTS\0" + b"\x01" + b"\x0f127.0.0.1:14102" + WRITABLE + b"\x00"


def _located(url: str, options: Mapping[str, Any] | None = None, **environment: str) -> Place:
    return locate(url, url.partition(":")[0], options or {}, environment)


@pytest.mark.parametrize(
    ("url", "config", "nodes", "path"),
    [
        ("webhdfs://host:14000/a%3Ab/c", {}, ("http://host:14000",), "/a%3Ab/c"),
        ("webhdfs://host//t", {}, ("http://host:9870",), "/t"),
        ("swebhdfs://host", {}, ("https://host:9871",), "/"),
        ("webhdfs://warehouse/t", HA, ("http://a:9870", "http://b:50070"), "/t"),
        ("swebhdfs://warehouse/t", HA, ("https://a:9871",), "/t"),
        ("webhdfs:///t", HA, ("http://a:9870", "http://b:50070"), "/t"),
        ("webhdfs:///t", {"fs.defaultFS": "hdfs://host:8020/"}, ("http://host:9870",), "/t"),
        ("webhdfs://[::1]:9870/t", {}, ("http://[::1]:9870",), "/t"),
        ("webhdfs://[::1]/t", {}, ("http://[::1]:9870",), "/t"),
    ],
)
def test_an_address_leads_to_servers(url: str, config: Mapping[str, str], nodes: tuple[str, ...], path: str) -> None:
    """Ports by default, name services by the configuration; the path is taken as it is."""
    found = _located(url, {"config": config, "user": "etl"})
    assert (found.addresses, found.path) == (nodes, path)


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("webhdfs:///t", {}, "without a host"),
        ("webhdfs://far/t", {"config": HA}, "no address for a NameNode of far"),
        ("webhdfs://h/t", {"tokne": "SECRET"}, "unknown storage option 'tokne'"),
        ("webhdfs://h/t", {"timeout": "SECRET"}, "timeout of webhdfs: has a value of the wrong type"),
        ("webhdfs://h/t", {"timeout": 0}, "seconds above 0"),
        ("swebhdfs://h/t", {"ca_file": "/nowhere.pem"}, "/nowhere.pem, which the storage option ca_file"),
        ("webhdfs://h/t", {"token": ["SECRET"]}, "token of webhdfs: has a value of the wrong type"),
        ("webhdfs://h/t?op=OPEN&delegation=SECRET", {}, "webhdfs://h/t was given with parameters"),
    ],
)
def test_what_makes_no_sense_is_refused_without_its_secrets(url: str, options: Mapping[str, Any], said: str) -> None:
    """A mistyped option would silently mean another user."""
    with pytest.raises((UsageError, StorageError)) as caught:
        _located(url, options)
    assert said in caught.value.message
    assert "SECRET" not in f"{caught.value.message} {caught.value.path} {caught.value.hint}"


def test_who_asks_is_named_unless_he_proves_it(tmp_path: Path) -> None:
    """The option wins over HADOOP_USER_NAME; a ticket or a token speaks for itself."""
    kerberos = {"config": {"hadoop.security.authentication": "Kerberos"}}
    assert _located("webhdfs://h/t", HADOOP_USER_NAME="alice").user == "alice"
    assert _located("webhdfs://h/t", {"user": "bob"}, HADOOP_USER_NAME="alice").user == "bob"
    with_ticket = _located("webhdfs://h/t", kerberos, HADOOP_USER_NAME="alice")
    assert (with_ticket.user, with_ticket.kerberos) == (None, True)
    (tmp_path / "tokens").write_bytes(FILE)
    with_token = _located("webhdfs://127.0.0.1/t", kerberos, HADOOP_TOKEN_FILE_LOCATION=f"{tmp_path}/tokens")
    assert (with_token.user, with_token.kerberos, with_token.token) == (None, False, URL_FORM)
    assert URL_FORM not in repr(with_token)


def test_tokens_are_read_from_both_forms_of_hadoops_file() -> None:
    """As `hdfs fetchdt` and YARN write it, and as `hadoop dtutil` does."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    parts = (TOKEN.identifier, TOKEN.password, TOKEN.kind.encode(), TOKEN.service.encode())
    token = b"".join(field(number, part) for number, part in enumerate(parts, 1))
    message = field(1, field(1, b"alias") + field(2, token)) + field(2, field(1, b"a key") + field(2, b"secret"))
    protobuf = b"HDTS\x01" + bytes([len(message) & 0x7F | 0x80, len(message) >> 7]) + message
    assert parse(FILE) == parse(protobuf) == (TOKEN,)
    assert parse(FILE)[0].to_url() == URL_FORM
    long = Token(b"i" * 300, b"p" * 20, "HDFS_DELEGATION_TOKEN", "ha-hdfs:warehouse")
    written = base64.urlsafe_b64decode(long.to_url() + "=" * (-len(long.to_url()) % 4))
    assert parse(b"HDTS\0\x01\x01a" + written + b"\0") == (long,)
    assert "iii" not in repr(long)


def test_a_file_of_tokens_that_is_cut_is_none() -> None:
    """A container that starts while the file is being written must not go on as somebody else."""
    for size in range(len(FILE) - 1):
        with pytest.raises(ValueError, match="credentials"):
            parse(FILE[:size])


def test_a_token_is_chosen_by_whom_it_is_for(tmp_path: Path) -> None:
    """Jobs that use several clusters carry one token for each."""
    near = Token(b"1", b"", "HDFS_DELEGATION_TOKEN", "10.0.0.1:8020")
    service = Token(b"2", b"", "HDFS_DELEGATION_TOKEN", "ha-hdfs:warehouse")
    other = Token(b"3", b"", "YARN_AM_RM_TOKEN", "10.0.0.1:8030")
    assert choose([other, near, service], {"10.0.0.1"}, None) == near
    assert choose([other, near, service], {"a"}, "warehouse") == service
    assert choose([other, near, service], {"a"}, None) is None
    assert choose([other, near], {"a"}, None) == near
    (tmp_path / "tokens").write_text("SECRET")
    for name, said in (("tokens", "holds no Hadoop credentials"), ("none", "No such file")):
        with pytest.raises(StorageError, match=said) as caught:
            _located("webhdfs://h/t", HADOOP_TOKEN_FILE_LOCATION=f"{tmp_path}/{name}")
        assert "SECRET" not in caught.value.message
