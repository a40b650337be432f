"""What travels with a task so that another machine opens the same storage, and what stays behind."""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from pathlib import Path

import pytest

import acidctl
from acidctl.engine.cluster import zip_package
from acidctl.errors import UsageError
from acidctl.storage.hadoop_conf import locate
from acidctl.storage.resolve import options_elsewhere, packages_elsewhere

SITE = {
    "fs.defaultFS": "hdfs://lake",
    "dfs.nameservices": "lake",
    "dfs.ha.namenodes.lake": "a,b",
    "dfs.namenode.rpc-address.lake.a": "one:8020",
    "dfs.namenode.rpc-address.lake.b": "two:8020",
    "dfs.namenode.http-address.lake.a": "one:9870",
    "dfs.namenode.http-address.lake.b": "two:9870",
    "dfs.client.keyprovider.password": "correct-horse",
    "fs.s3a.secret.key": "correct-horse",
    "hadoop.security.group.mapping.ldap.bind.password": "correct-horse",
    "yarn.resourcemanager.address": "one:8032",
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a driver with a configuration folder."""
    entries = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in SITE.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{entries}</configuration>")
    return {"HADOOP_CONF_DIR": str(tmp_path), "HADOOP_USER_NAME": "ada"}


def test_a_name_service_is_found_without_the_folder(environment: dict[str, str]) -> None:
    """By both ways, the servers are those of the driver's configuration."""
    there = options_elsewhere("hdfs://lake/t", {}, environment)
    assert locate("hdfs://lake/t", "hdfs", there, {}).addresses == ("one:8020", "two:8020")
    there = options_elsewhere("webhdfs://lake/t", {}, environment)
    assert locate("webhdfs://lake/t", "webhdfs", there, {}).addresses == ("http://one:9870", "http://two:9870")


@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_the_driver_s_user_writes(environment: dict[str, str], scheme: str) -> None:
    """Named by the environment, by an option, or whoever runs the driver; with Kerberos nobody is named."""
    url = f"{scheme}://lake/t"
    kerberos = {"config": {"hadoop.security.authentication": "kerberos"}}
    assert options_elsewhere(url, {}, environment)["user"] == "ada"
    assert options_elsewhere(url, {"user": "grace"}, environment)["user"] == "grace"
    del environment["HADOOP_USER_NAME"]
    assert options_elsewhere(url, {}, environment)["user"] == getpass.getuser()
    assert "user" not in options_elsewhere(url, kerberos, environment)


def test_secrets_of_other_systems_stay(environment: dict[str, str]) -> None:
    """Nothing of what a client of HDFS does not go by; an option that was given goes along, and wins."""
    given = {"config": {"dfs.ha.namenodes.lake": "a", "dfs.client.socket-timeout": "5"}}
    found = options_elsewhere("hdfs://lake/t", given, environment)
    assert "correct-horse" not in str(found)
    assert "yarn.resourcemanager.address" not in found["config"]
    assert found["config"]["dfs.ha.namenodes.lake"] == "a"
    assert found["config"]["dfs.client.socket-timeout"] == "5"


def test_a_token_goes_along_without_a_user(environment: dict[str, str]) -> None:
    """It says who one is."""
    found = options_elsewhere("webhdfs://lake/t", {"token": "abc"}, environment)
    assert found["token"] == "abc"
    assert "user" not in found


def test_keys_endpoint_and_region_of_the_environment_go_along() -> None:
    """In the words of s3fs; what was given as an option wins, and keys are never mixed."""
    variables = {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_SESSION_TOKEN": "token",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_DEFAULT_REGION": "eu-north-1",
    }
    assert options_elsewhere("s3://b/t", {}, variables) == {
        "key": "id",
        "secret": "secret",
        "token": "token",
        "endpoint_url": "http://127.0.0.1:1",
        "client_kwargs": {"region_name": "eu-north-1"},
    }
    given = {"key": "own", "secret": "own", "client_kwargs": {"endpoint_url": "http://h", "region_name": "r"}}
    assert options_elsewhere("s3a://b/t", given, variables) == given
    assert options_elsewhere("s3://b/t", {"profile": "p"}, {"AWS_ACCESS_KEY_ID": "id"}) == {"profile": "p"}
    assert options_elsewhere("s3://b/t", {}, {}) == {}


def test_other_storages_take_what_was_given(environment: dict[str, str]) -> None:
    """And a path of this machine nothing."""
    assert options_elsewhere("/warehouse/t", {}, environment) == {}
    assert options_elsewhere("gs://bucket/t", {"token": "cloud"}, environment) == {"token": "cloud"}


def test_a_folder_that_is_not_there_is_said_before_any_work(environment: dict[str, str]) -> None:
    """Not by each executor."""
    environment["HADOOP_CONF_DIR"] += "/none"
    with pytest.raises(UsageError, match="HADOOP_CONF_DIR"):
        options_elsewhere("hdfs://lake/t", {}, environment)


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("/t", ()),
        ("file:///t", ()),
        ("hdfs://h/t", ("hdfs_native",)),
        ("webhdfs://h/t", ("requests",)),
        ("S3A://b/t", ("s3fs",)),
        ("gs://b/t", ("fsspec",)),
    ],
)
def test_packages_by_scheme(url: str, names: tuple[str, ...]) -> None:
    """What an executor has to have beside what every task needs."""
    assert tuple(name for name, _ in packages_elsewhere(url)) == names


@pytest.mark.slow
@pytest.mark.parametrize("url", ["hdfs://127.0.0.1:1/t", "webhdfs://127.0.0.1:1/t", "s3://bucket/t"])
def test_storages_are_opened_out_of_an_archive(url: str, tmp_path: Path) -> None:
    """As executors have acidctl: no module of it is a file there."""
    archive = zip_package(Path(acidctl.__file__).parent, "1", tmp_path)
    code = (
        "import sys, acidctl; from acidctl.storage.resolve import resolve; assert '.zip' in acidctl.__file__; "
        "print(resolve(sys.argv[1], eval(sys.argv[2]))[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, url, repr(options_elsewhere(url, {}, {}))],
        env={**os.environ, "PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.strip() in ("/t", "bucket/t")


def test_users_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under any number; over HTTP somebody has to be named."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert "user" not in options_elsewhere("hdfs://nn:1/t", {}, {})
    assert options_elsewhere("hdfs://nn:1/t", {}, {"HADOOP_USER_NAME": "ada"})["user"] == "ada"
    with pytest.raises(UsageError, match="has no name on this machine") as caught:
        options_elsewhere("webhdfs://nn:1/t", {}, {})
    assert "HADOOP_USER_NAME" in str(caught.value.hint)
    assert options_elsewhere("webhdfs://nn:1/t", {"user": "ada"}, {})["user"] == "ada"


def test_the_region_is_that_of_the_command_line() -> None:
    """By either variable; what was given wins."""
    both = {"AWS_REGION": "eu-central-1", "AWS_DEFAULT_REGION": "us-east-1"}
    assert options_elsewhere("s3://b/t", {}, both)["client_kwargs"] == {"region_name": "eu-central-1"}
    assert options_elsewhere("s3://b/t", {}, {"AWS_DEFAULT_REGION": "x"})["client_kwargs"] == {"region_name": "x"}
    given = {"client_kwargs": {"region_name": "mine"}}
    assert options_elsewhere("s3://b/t", given, both) == given
