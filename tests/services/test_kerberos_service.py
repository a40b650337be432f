"""The Kerberos realm and its HDFS: who has a ticket is known, who has none is refused, by both protocols."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services.fixtures import SecureHdfs

pytestmark = pytest.mark.hdfs

NATIVE = """
import sys
from hdfs_native import Client
print(list(status.owner for status in Client(sys.argv[1]).list_status("/home")))
"""
WEB = """
import sys
import requests
from requests_kerberos import OPTIONAL, HTTPKerberosAuth
url = sys.argv[1] + "/webhdfs/v1/home?op=LISTSTATUS"
answer = requests.get(url, auth=HTTPKerberosAuth(mutual_authentication=OPTIONAL), timeout=20)
if answer.status_code == 401:
    sys.exit("Authentication failure")
if answer.status_code != 200:
    sys.exit(answer.json()["RemoteException"]["message"])
print([status["owner"] for status in answer.json()["FileStatuses"]["FileStatus"]])
"""


@pytest.mark.parametrize("program", ["native", "web"])
def test_only_who_has_a_ticket_is_known(secure_hdfs: SecureHdfs, tmp_path: Path, program: str) -> None:
    """A fresh ticket opens what is its owner's; another's, one that is over, and none do not."""
    hdfs, realm = secure_hdfs.hdfs, secure_hdfs.realm
    (tmp_path / "file").write_bytes(b"x")
    hdfs.remove("/home")
    hdfs.put_tree(tmp_path / "file", "/home/file")
    hdfs.run("dfs", "-chown", "-R", "alice", "/home")
    hdfs.run("dfs", "-chmod", "700", "/home")

    def asked(cache: Path | None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **hdfs.environment, **realm.environment(cache, packages=program == "web")}
        code, url = (NATIVE, hdfs.url) if program == "native" else (WEB, hdfs.webhdfs.replace("webhdfs", "http"))
        return subprocess.run(
            [sys.executable, "-c", code, url], env=environment, capture_output=True, text=True, check=False
        )

    assert asked(realm.kinit("alice")).stdout == "['alice']\n"
    assert "Permission denied: user=bob" in asked(realm.kinit("bob")).stderr
    refused = "Unspecified GSS failure" if program == "native" else "Authentication failure"
    assert refused in asked(realm.expired("alice")).stderr
    refused = "No credentials were supplied" if program == "native" else "Authentication failure"
    assert refused in asked(None).stderr
