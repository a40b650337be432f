"""A secure HDFS through hdfs-native: who has a ticket works as anywhere, who has none is told what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from restore import restore

from tests import ROOT
from tests.services.fixtures import SecureHdfs

pytestmark = pytest.mark.hdfs

STEP = ROOT / "fixtures/tables/hive4/demo_orders/03-demo"
TABLE = "/secure/orders"


def _acidctl(secure: SecureHdfs, cache: Path | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: tickets and their libraries come by the environment."""
    environment = {**os.environ, **secure.hdfs.environment, **secure.realm.environment(cache)}
    environment["PYTHONPATH"] = str(STEP.parents[4])
    return subprocess.run(
        [sys.executable, "-m", "acidctl", *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_a_table_is_read_compacted_and_cleaned_with_a_ticket(secure_hdfs: SecureHdfs) -> None:
    """By its owner; the rows stay as they were, and what is published belongs to him."""
    restore(STEP / "step.json")
    facts = json.loads((STEP / "step.json").read_text())
    lists = [word for key in ("valid_write_ids", "valid_txns") if facts[key] for word in ("--validtxns", facts[key])]
    lists += ["--table", facts["table"]]
    hdfs = secure_hdfs.hdfs
    hdfs.put_tree(STEP / "table", TABLE)
    hdfs.run("dfs", "-chown", "-R", "alice:analysts", "/secure")
    hdfs.run("dfs", "-chmod", "750", TABLE)
    url, ticket = hdfs.url + TABLE, secure_hdfs.realm.kinit("alice")

    def digest() -> str:
        shown = _acidctl(secure_hdfs, ticket, "snapshot", url, *lists, "--digest", "-o", "csv", "--no-header", "-q")
        assert shown.returncode == 0, shown.stderr
        return shown.stdout

    before = digest()
    done = _acidctl(secure_hdfs, ticket, "compact", "major", url, "--engine", "local", *lists, "-o", "json")
    assert done.returncode == 0, done.stderr
    (part,) = json.loads(done.stdout)["partitions"]
    assert (part["outcome"], digest()) == ("compacted", before)
    assert " alice analysts " in " ".join(hdfs.run("dfs", "-ls", "-d", f"{TABLE}/{part['outputs'][0]}").split())
    by_force = ("--delete", "--yes", "--unsafe-no-retention")
    cleaned = _acidctl(secure_hdfs, ticket, "clean", url, *lists, *by_force, "-o", "json")
    assert cleaned.returncode == 0, cleaned.stderr
    assert (digest(), json.loads(cleaned.stdout)["partitions"][0]["outcome"]) == (before, "deleted")
    assert not {path.split("/")[3] for path in hdfs.list(TABLE)} & {entry.split("/")[-1] for entry in part["inputs"]}

    other = _acidctl(secure_hdfs, secure_hdfs.realm.kinit("carol"), "ls", f"{url}/none")
    assert (other.returncode, "Permission denied: user=carol" in other.stderr) == (14, True)


def test_without_a_ticket(secure_hdfs: SecureHdfs) -> None:
    """By those who read and those who write: exit 14, and one sentence with a remedy; also for one that has expired."""
    url, expired = secure_hdfs.hdfs.url + TABLE, secure_hdfs.realm.expired("alice")
    attempts: tuple[tuple[Path | None, list[str]], ...] = (
        (None, ["ls", url]),
        (expired, ["ls", url]),
        (None, ["snapshot", url, "--digest", "--as-of", "9"]),
        (None, ["compact", "major", url, "--engine", "local", "--assume-committed"]),
        (expired, ["clean", url, "--as-of", "9", "--delete", "--yes"]),
    )
    for cache, command in attempts:
        result = _acidctl(secure_hdfs, cache, *command)
        assert (result.returncode, result.stdout) == (14, ""), result.stderr
        assert "there is no Kerberos ticket that the server accepts, or it has expired" in result.stderr
        assert "kinit" in result.stderr
        assert "Traceback" not in result.stderr


def test_without_the_configuration(secure_hdfs: SecureHdfs) -> None:
    """A client that knows nothing of Kerberos hears nothing; the sentence names that among the reasons."""
    environment = {key: value for key, value in os.environ.items() if key not in ("HADOOP_CONF_DIR", "HADOOP_HOME")}
    result = subprocess.run(
        [sys.executable, "-m", "acidctl", "ls", secure_hdfs.hdfs.url + TABLE],
        env={**environment, "PYTHONPATH": str(STEP.parents[4])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 14
    assert "HADOOP_CONF_DIR" in result.stderr
