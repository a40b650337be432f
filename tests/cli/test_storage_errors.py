"""What goes wrong on the way to a storage, over commands and storages: one sentence, a hint, no secret, no stack."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.runner import Result, acidctl
from tests.support.relay import Relay, java

if TYPE_CHECKING:
    from tests.services.hdfs import Hdfs
    from tests.services.s3 import S3Server

COMMANDS = {
    "ls": ["ls"],
    "snapshot": ["snapshot", "--count"],
    "compact": ["compact", "major", "--assume-committed"],
    "clean": ["clean", "--as-of", "9", "--assume-exclusive"],
    "dump": ["dump"],
}
_INVALID = "org.apache.hadoop.security.token.SecretManager$InvalidToken"
SCHEMES = ("hdfs", "webhdfs", "swebhdfs", "s3")
_STACK = re.compile(r"Traceback|\.java:|org\.apache|Exception\b|botocore|urllib3|0x[0-9a-f]{6}")


@pytest.fixture(autouse=True)
def _alike_everywhere(monkeypatch: pytest.MonkeyPatch, nobody_waits: None) -> None:
    """No settings of this machine count."""
    for name in ("HADOOP_CONF_DIR", "HADOOP_USER_NAME", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def _failed(command: str, url: str, code: int, name: str, *options: str) -> Result:
    """The result of a run that has to fail so; JSON and text say the same."""
    result = acidctl(*COMMANDS[command], url, "-o", "json", *options)
    assert (result.code, result.stdout) == (code, ""), result
    lines = [json.loads(line)["error"] for line in result.stderr.splitlines()]
    assert [line["code"] for line in lines] == [name], result.stderr
    assert not _STACK.search(result.stderr), result.stderr
    assert "very-secret" not in result.stderr
    assert "\\n" not in lines[0]["message"]
    assert lines[0]["hint"], result.stderr
    return result


def _closed_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@pytest.mark.parametrize("scheme", [*SCHEMES, "s3a", "gs", "viewfs", "https"])
def test_credentials_in_an_address_are_refused_and_not_echoed(scheme: str) -> None:
    """They would end up in logs, of ours and of others."""
    for secret in ("alice:very-secret@", "alice:very/secret@", "very-secret@", "very-secret%40x:@"):
        result = _failed("ls", f"{scheme}://{secret}host/w/t", 2, "usage")
        assert "given with a user or a password in its address" in result.error()["message"]
        assert "secret" not in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_echoes_them(command: str) -> None:
    """In text neither."""
    for form in ("text", "json"):
        result = acidctl(*COMMANDS[command], "webhdfs://alice:very-secret@host:9870/w/t", "-o", form)
        assert (result.code, result.stdout) == (2, "")
        assert "very-secret" not in result.stderr
        assert "webhdfs://host:9870/w/t" in result.stderr


@pytest.mark.parametrize(
    ("scheme", "packages", "extra"),
    [
        ("hdfs", ["hdfs_native"], "acidctl[hdfs]"),
        ("viewfs", ["hdfs_native"], "acidctl[hdfs]"),
        ("webhdfs", ["requests"], "acidctl[hdfs]"),
        ("swebhdfs", ["requests"], "acidctl[hdfs]"),
        ("s3", ["s3fs"], "acidctl[s3]"),
    ],
)
def test_a_package_that_is_missing_is_named_by_its_extra(
    scheme: str, packages: list[str], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install is a line to be copied."""
    for adapter in ("hdfs_native", "webhdfs", "s3"):
        monkeypatch.delitem(sys.modules, f"acidctl.storage.{adapter}", raising=False)
        monkeypatch.delattr(f"acidctl.storage.{adapter}", raising=False)
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)
    for command in ("ls", "compact"):
        result = _failed(command, f"{scheme}://host/w/t", 14, "missing_dependency")
        assert f"{scheme}: needs a package that is not installed" in result.error()["message"]
        assert extra in result.error()["hint"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_closed_port(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there: where, and what to look at."""
    port = _closed_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    for command in ("ls", "snapshot"):
        result = _failed(
            command, f"{scheme}://{'bucket' if scheme == 's3' else f'127.0.0.1:{port}'}/w/t", 14, "unreachable"
        )
        assert str(port) in result.error()["message"]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_host_that_nobody_knows(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error, or a name service whose configuration is not here."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://no-such-host.invalid:9000")
    for command in ("ls", "compact"):
        url = f"{scheme}://{'bucket' if scheme == 's3' else 'no-such-host.invalid'}/w/t"
        result = _failed(command, url, 14, "unreachable")
        assert "no-such-host.invalid" in result.error()["message"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (f"{_INVALID}: Token  has expired, current time: 2026-11-22 05:26:07,561+0000", "has expired"),
        (f"{_INVALID}: token (HDFS_DELEGATION_TOKEN token 7 for alice) is expired", "has expired"),
        (f"{_INVALID}: Token for real user: , can't be found in cache", "is not known to the server any more"),
        (f"{_INVALID}: token (token for alice: HDFS_DELEGATION_TOKEN) can't be found in cache", "another cluster's"),
        ("java.io.EOFException", "is damaged"),
    ],
)
def test_a_token_that_does_not_serve(answer: str, said: str, tmp_path: Path) -> None:
    """As Hadoop 2 to 3.4 answer then: what is wrong with it, and where to get another."""
    reply = java(403, "SecurityException", f"Failed to obtain user group information: {answer}")
    with Relay(lambda request: reply) as relay:
        url = f"webhdfs://127.0.0.1:{relay.port}/w/t"
        config = tmp_path / "acidctl.toml"
        config.write_text(f'[storage."{url}"]\ntoken = "very-secret"\n')
        config.chmod(0o600)
        error = _failed("ls", url, 14, "denied", "--config", str(config)).error()
    assert error["message"].startswith(f"{url} cannot be read: the delegation token ")
    assert said in error["message"]
    assert "alice" not in error["message"]
    assert "hdfs fetchdt" in error["hint"]
    assert {request.query["delegation"] for request in relay.requests} == {"very-secret"}


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.hdfs
class TestHdfs:
    """A real one."""

    def url(self, cluster: Hdfs, scheme: str) -> str:
        """Its root by either protocol."""
        return str(cluster.url if scheme == "hdfs" else cluster.webhdfs)

    def test_a_path_that_does_not_exist(self, command: str, scheme: str, hdfs_cluster: Hdfs) -> None:
        """Exit 10, by the whole address."""
        url = f"{self.url(hdfs_cluster, scheme)}/no/such/table"
        result = acidctl(*COMMANDS[command], url, "-o", "json")
        assert (result.code, result.error()["code"]) == (10, "no_such_table")
        assert f"{url} does not exist" in result.error()["message"]

    def test_a_path_outside_of_the_permission(
        self, command: str, scheme: str, hdfs_cluster: Hdfs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The user is named, and the directory."""
        monkeypatch.setenv("HADOOP_USER_NAME", "bob")
        path = f"/closed-{command}-{scheme}"
        hdfs_cluster.mkdir(path, owner="alice", mode="700")
        for below in ("", "/t/deep"):
            result = _failed(command, f"{self.url(hdfs_cluster, scheme)}{path}{below}", 14, "denied")
            assert "bob" in result.error()["message"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.s3
class TestS3:
    """A server on loopback."""

    def test_a_bucket_that_does_not_exist(self, command: str, moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """Exit 10: what was asked for is not there."""
        for name, value in moto.environment.items():
            monkeypatch.setenv(name, value)
        result = acidctl(*COMMANDS[command], "s3://no-such-bucket/w/t", "-o", "json")
        assert (result.code, result.stdout) == (10, ""), result
        assert "s3://no-such-bucket" in result.error()["message"]
        assert not _STACK.search(result.stderr)

    def test_a_bucket_that_cannot_exist(
        self, command: str, versitygw: S3Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Exit 10 as well, also where the server only says that it was asked for nonsense."""
        for name, value in versitygw.environment.items():
            monkeypatch.setenv(name, value)
        for url in ("s3://No_Such_Bucket/w/t", "s3://no-such-bucket/w/t"):
            assert url in _failed(command, url, 10, "no_such_table").error()["message"]

    def test_a_wrong_key(self, command: str, versitygw: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
        """Exit 14; the key is not shown."""
        bucket = versitygw.bucket()
        for name, value in versitygw.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret-and-wrong")
        error = _failed(command, f"s3://{bucket}/w/t", 14, "denied").error()
        assert f"s3://{bucket}" in error["message"]
