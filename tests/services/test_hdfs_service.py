"""The HDFS around which storages are tested: that it does what its verbs say, faults included."""

from __future__ import annotations

import os
import ssl
import urllib.error
import urllib.request
from http.client import IncompleteRead
from pathlib import Path

import pytest

from tests.services.hdfs import Hdfs
from tests.services.hdfs_pair import HdfsPair
from tests.services.processes import ServiceError, answers, wait_until

pytestmark = pytest.mark.hdfs


def fetch(hdfs: Hdfs, path: str, query: str) -> bytes:
    """What WebHDFS answers, as the superuser."""
    url = hdfs.webhdfs.replace("webhdfs:", "http:", 1)
    with urllib.request.urlopen(f"{url}/webhdfs/v1{path}?user.name={hdfs.superuser}&{query}", timeout=10) as answer:
        content: bytes = answer.read()
        return content


def knows_blocks(hdfs: Hdfs, path: str) -> bool:
    """Whether a NameNode that has come back has heard of a DataNode where the file's blocks lie: 403 until then."""
    try:
        fetch(hdfs, path, "op=OPEN")
    except urllib.error.HTTPError as error:
        if error.code != 403:
            raise
        return False
    return True


def test_a_tree_goes_in_and_out_with_its_names_as_they_are(hdfs_cluster: Hdfs, tmp_path: Path) -> None:
    """Signs that a shell or a URL would take for its own are ordinary characters."""
    names = {"a %20b#c?d[1]{x}*": b"1", "new\nline": b"2", "deep/er/e": b""}
    for name, data in names.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(data)
    hdfs_cluster.put_tree(tmp_path / "in", "/made/odd %41[x]")
    assert set(hdfs_cluster.list("/made/odd %41[x]")) == {
        f"/made/odd %41[x]/{name}" for name in ("deep", "deep/er", *names)
    }
    hdfs_cluster.get_tree("/made/odd %41[x]", tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in names} == names
    with pytest.raises(ServiceError, match="exists"):
        hdfs_cluster.put_tree(tmp_path / "in", "/made/odd %41[x]")
    hdfs_cluster.remove("/made")
    assert [name for name in hdfs_cluster.list("/") if name.startswith("/made")] == []


def test_other_users_safe_mode_and_quotas_are_refused(hdfs_cluster: Hdfs, tmp_path: Path) -> None:
    """The refusals of real life can be had, and taken away again."""
    (tmp_path / "file").write_bytes(b"x" * 100)
    hdfs_cluster.mkdir("/refuse", owner="alice:analysts", mode="750")
    with pytest.raises(ServiceError, match="Permission denied: user=carol"):
        hdfs_cluster.put_tree(tmp_path / "file", "/refuse/file", user="carol")
    hdfs_cluster.safemode(True)
    with pytest.raises(ServiceError, match="safe mode"):
        hdfs_cluster.put_tree(tmp_path / "file", "/refuse/file", user="alice")
    hdfs_cluster.safemode(False)
    hdfs_cluster.set_quota("/refuse", space=1000)
    with pytest.raises(ServiceError, match="quota"):
        hdfs_cluster.put_tree(tmp_path / "file", "/refuse/file", user="alice")
    hdfs_cluster.set_quota("/refuse")
    hdfs_cluster.remove("/refuse")
    hdfs_cluster.mkdir("/refuse", owner="alice:analysts", mode="750")
    hdfs_cluster.put_tree(tmp_path / "file", "/refuse/file", user="alice")
    assert b'"owner":"alice"' in fetch(hdfs_cluster, "/refuse/file", "op=GETFILESTATUS")
    hdfs_cluster.remove("/refuse")


def test_bytes_survive_restarts_and_not_a_broken_disk(hdfs_cluster: Hdfs, tmp_path: Path) -> None:
    """Killed processes come back at their ports with their files; overwritten blocks are not served."""
    data = os.urandom(100_000)
    (tmp_path / "file").write_bytes(data)
    hdfs_cluster.put_tree(tmp_path / "file", "/lasting")
    hdfs_cluster.kill_namenode()
    assert not answers(hdfs_cluster.http)
    hdfs_cluster.start_namenode()
    wait_until("the report of the blocks", lambda: knows_blocks(hdfs_cluster, "/lasting"))
    assert fetch(hdfs_cluster, "/lasting", "op=OPEN") == data
    hdfs_cluster.restart_datanode()
    assert fetch(hdfs_cluster, "/lasting", "op=OPEN") == data
    hdfs_cluster.pause()
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(hdfs_cluster.webhdfs.replace("webhdfs", "http"), timeout=0.3)
    hdfs_cluster.resume()
    hdfs_cluster.corrupt("/lasting", offset=50_000)
    with pytest.raises(IncompleteRead):
        fetch(hdfs_cluster, "/lasting", "op=OPEN&offset=40000")
    hdfs_cluster.remove("/lasting")


def test_tls_is_for_who_trusts_the_certificate(hdfs_cluster: Hdfs, tmp_path: Path) -> None:
    """Both the NameNode and the DataNode that it leads to prove themselves by the one certificate."""
    (tmp_path / "file").write_bytes(b"secret")
    hdfs_cluster.put_tree(tmp_path / "file", "/tls")
    url = (
        hdfs_cluster.swebhdfs.replace("swebhdfs", "https")
        + f"/webhdfs/v1/tls?op=OPEN&user.name={hdfs_cluster.superuser}"
    )
    trusting = ssl.create_default_context(cafile=hdfs_cluster.ca_file)
    with urllib.request.urlopen(url, context=trusting, timeout=10) as answer:
        assert answer.read() == b"secret"
        assert answer.url.startswith("https:")
        assert f":{hdfs_cluster.https}/" not in answer.url
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(url, timeout=10)
    hdfs_cluster.remove("/tls")


def test_a_pair_goes_on_when_its_active_namenode_is_killed(hdfs_pair: HdfsPair, tmp_path: Path) -> None:
    """The other one takes over with all files, and the first comes back as standby."""
    (tmp_path / "file").write_bytes(b"x")
    hdfs_pair.put_tree(tmp_path / "file", "/lasting")
    first = hdfs_pair.name
    hdfs_pair.kill_namenode()
    hdfs_pair.failover()
    assert hdfs_pair.name != first
    # Others have files there too.
    assert "/lasting" in hdfs_pair.list("/")
    hdfs_pair.start_namenode()
    assert hdfs_pair.state(first) == "standby"
    hdfs_pair.failover()
    assert hdfs_pair.name == first
    hdfs_pair.remove("/lasting")
    assert "/lasting" not in hdfs_pair.list("/")
