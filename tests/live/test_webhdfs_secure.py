"""An HDFS that asks for Kerberos, by WebHDFS: with a ticket, a token, for somebody else, and with none of these."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests import ROOT
from tests.services.fixtures import SecureHdfs

pytestmark = [pytest.mark.hdfs, pytest.mark.timeout(600)]

TABLE = ROOT / "fixtures/tables/hive4/bucketed/02-changed/table"
# What a client asks a NameNode: METHOD OPERATION, and the token where one is meant.
ASK = """
import json, sys
from acidctl.storage.webhdfs import connect
storage, path = connect(sys.argv[1], "webhdfs", {})
parameters = {"token": sys.argv[4]} if len(sys.argv) > 4 else {}
print(json.dumps(storage._ask(sys.argv[2], sys.argv[3], "/", **parameters)))
"""
CONFIG = """
[storage."{}/"]
proxy_user = "alice"
"""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def url(secure_hdfs: SecureHdfs) -> str:
    """A table of alice's, which nobody else may read."""
    hdfs = secure_hdfs.hdfs
    hdfs.remove("/warehouse")
    hdfs.put_tree(TABLE, "/warehouse/t")
    hdfs.run("dfs", "-chown", "-R", "alice:analysts", "/warehouse/t")
    hdfs.run("dfs", "-chmod", "-R", "700", "/warehouse/t")
    return f"{hdfs.webhdfs}/warehouse/t"


@pytest.fixture
def run(secure_hdfs: SecureHdfs) -> Run:
    """Runs Python with the tickets of a cache, or with none."""

    def run(cache: Path | None, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HADOOP_", "ACIDCTL_"))}
        known: Mapping[str, str] = secure_hdfs.realm.environment(cache, packages=True)
        return subprocess.run(
            [sys.executable, *arguments],
            env={**kept, **secure_hdfs.hdfs.environment, **known, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def _digest(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["digest"])


def test_a_table_is_read_compacted_and_cleaned_with_a_ticket(secure_hdfs: SecureHdfs, url: str, run: Run) -> None:
    """By its owner, whose the results are; another's ticket is refused for what it is."""
    hdfs, realm = secure_hdfs.hdfs, secure_hdfs.realm
    alice = realm.kinit("alice")
    look = ("-m", "acidctl", "snapshot", "--digest", "-o", "json")
    before = _digest(run(alice, *look, url))
    assert before == _digest(run(None, *look, str(TABLE)))
    done = run(alice, "-m", "acidctl", "compact", "major", url, "--assume-committed", "--engine", "local")
    assert done.returncode == 0, done.stderr
    agreed = ("--as-of", "99", "--assume-exclusive", "--unsafe-no-retention", "--delete", "--yes")
    done = run(alice, "-m", "acidctl", "clean", url, *agreed)
    assert done.returncode == 0, done.stderr
    (base,) = {path.split("/")[3] for path in hdfs.list("/warehouse/t") if not path.split("/")[3].startswith("_")}
    assert base.startswith("base_")
    assert hdfs.run("dfs", "-stat", "%u:%g %a", f"/warehouse/t/{base}").strip() == "alice:analysts 700"
    assert _digest(run(alice, *look, url)) == before
    refused = run(realm.kinit("bob"), *look, url)
    assert refused.returncode == 14
    assert "Permission denied: user=bob" in refused.stderr


def test_without_a_ticket_it_is_said_how_to_get_one(secure_hdfs: SecureHdfs, url: str, run: Run) -> None:
    """None, one that is over, and a client that does not know that this is Kerberos."""
    for cache in (None, secure_hdfs.realm.expired("alice")):
        refused = run(cache, "-m", "acidctl", "ls", url)
        assert (refused.returncode, refused.stdout) == (14, "")
        assert "there is no Kerberos ticket that the server accepts, or it has expired" in refused.stderr
        assert "kinit" in refused.stderr
        assert "Traceback" not in refused.stderr
    refused = run(None, "-m", "acidctl", "ls", url, HADOOP_CONF_DIR="/", HADOOP_USER_NAME="alice")
    assert refused.returncode == 14
    assert "Kerberos" in refused.stderr
    assert "HADOOP_CONF_DIR" in refused.stderr


def test_a_token_stands_for_a_ticket_until_it_is_cancelled(
    secure_hdfs: SecureHdfs, url: str, run: Run, tmp_path: Path
) -> None:
    """As containers of YARN have it, in a file that the environment names; it is shown nowhere."""
    alice = secure_hdfs.realm.kinit("alice")
    given = run(alice, "-c", ASK, url, "GET", "GETDELEGATIONTOKEN")
    token = json.loads(given.stdout)["Token"]["urlString"]
    data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    (tmp_path / "tokens").write_bytes(b"HDTS\0\x01\x05alias" + data + b"\0")
    look = ("-m", "acidctl", "snapshot", url, "--digest", "-o", "json", "--debug")
    with_token = run(None, *look, HADOOP_TOKEN_FILE_LOCATION=str(tmp_path / "tokens"))
    assert _digest(with_token) == _digest(run(None, *look[:3], str(TABLE), *look[4:]))
    assert run(alice, "-c", ASK, url, "PUT", "CANCELDELEGATIONTOKEN", token).returncode == 0
    refused = run(None, *look, HADOOP_TOKEN_FILE_LOCATION=str(tmp_path / "tokens"))
    assert refused.returncode == 14
    assert "the delegation token is not known to the server any more, or is another cluster's" in refused.stderr
    assert "hdfs fetchdt" in refused.stderr
    assert token not in with_token.stderr + refused.stderr + refused.stdout


def test_a_service_acts_for_a_user_as_far_as_it_may(
    secure_hdfs: SecureHdfs, url: str, run: Run, tmp_path: Path
) -> None:
    """With the ticket of `gateway`, whom the cluster lets act for anybody; bob's does not do."""
    (tmp_path / "config.toml").write_text(CONFIG.format(secure_hdfs.hdfs.webhdfs))
    look = ("-m", "acidctl", "snapshot", url, "--count", "-o", "json", "--config", str(tmp_path / "config.toml"))
    acting = run(secure_hdfs.realm.kinit("gateway"), *look)
    assert acting.returncode == 0, acting.stderr
    assert json.loads(acting.stdout)["rows"] == 7
    refused = run(secure_hdfs.realm.kinit("bob"), *look)
    assert refused.returncode == 14
    assert "is not allowed to impersonate alice" in refused.stderr
