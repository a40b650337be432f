"""No error, warning or note repeats a password that stands in what was given."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path

import fsspec
import pytest

from acidctl.cli.output import Format, Output, Terminal
from acidctl.errors import AcidctlError
from acidctl.storage.redact import secrets_given, without_secrets
from tests import ROOT
from tests.cli.runner import acidctl

DEMO = ROOT / "fixtures/tables/hive4/demo_orders/03-demo/table"
URL = "https://bob:SECRET@host.example/x"
COMPACT = ("compact", "major", "TABLE", "--assume-committed")

GIVEN = {
    "a second argument": ("ls", "TABLE", URL),
    "a command": (URL,),
    "another machine": ("ls", "file://bob:SEC/SECRET@host/x"),
    "a chain": ("snapshot", "simplecache::s3://bob:SECRET@host/x"),
    "an option": ("ls", "TABLE", f"--{URL}"),
    "a choice": ("ls", "TABLE", "--output", URL),
    "--names": ("ls", "TABLE", "--names", URL),
    "--config": ("ls", "TABLE", "--config", URL),
    "--schema": ("ls", "TABLE", "--schema", URL),
    "--validtxns": ("ls", "TABLE", "--validtxns", URL),
    "--partition": ("ls", "TABLE", "--partition", URL),
    "--columns": ("snapshot", "TABLE", "--columns", URL),
    "--to": ("snapshot", "TABLE", "--to", URL),
    "--run-log": (*COMPACT, "--run-log", URL),
    "--plan-out": (*COMPACT, "--plan-out", URL),
    "--plan": (*COMPACT, "--plan", URL),
    "--memory": (*COMPACT, "--memory", URL),
    "--spark-conf with a colon": (*COMPACT, "--spark-conf", "spark.hadoop.fs.s3a.secret.key:SECRET"),
    "--spark-conf without a key": (*COMPACT, "--spark-conf", "=SECRET"),
    "--spark-conf with another key": (*COMPACT, "--spark-conf", "fs.s3a.secret.key=SECRET"),
    "--spark-conf with a blank": (*COMPACT, "--spark-conf", "spark.hadoop.fs.s3a.secret.key SECRET"),
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("case", GIVEN)
def test_what_was_given_is_repeated_without_its_password(case: str, form: str) -> None:
    """Terminals are shared and logs are kept."""
    args = [str(DEMO) if arg == "TABLE" else arg for arg in GIVEN[case]]
    result = acidctl(*args, *(("-o", form) if case != "a choice" else ()))
    assert result.code != 0
    assert "SECRET" not in result.stdout + result.stderr


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_master_is_repeated_without_its_password(tmp_path: Path) -> None:
    """Nor does what Spark says of it; in a process of its own, for the sake of Spark's pipes."""
    table = shutil.copytree(DEMO, tmp_path / "orders")  # which is locked until Spark has given up
    args = [str(table) if arg == "TABLE" else arg for arg in COMPACT]
    done = subprocess.run(
        [sys.executable, "-m", "acidctl", *args, "--master", URL], capture_output=True, timeout=280, check=False
    )
    assert done.returncode != 0
    assert b"host.example" in done.stderr
    assert b"SECRET" not in done.stdout + done.stderr


def test_the_part_before_a_value_is_named() -> None:
    """So that the mistake can be found."""
    result = acidctl("compact", "major", str(DEMO), "--assume-committed", "--spark-conf", "spark.hadoop.x.key:SECRET")
    assert result.stderr.startswith("error: --spark-conf 'spark.hadoop.x.key' is not a Spark setting")


def test_a_traceback_shows_no_password_either(capsys: pytest.CaptureFixture[str]) -> None:
    """--debug is what people paste into reports."""
    result = acidctl("ls", str(DEMO), "--names", URL, "--debug")
    shown = result.stderr + "".join(capsys.readouterr())
    assert "Traceback" in shown
    assert "SECRET" not in shown


@pytest.mark.parametrize("form", [Format.TEXT, Format.JSON])
def test_everything_that_is_said_is_redacted(form: Format) -> None:
    """Message, hint and path of errors, and remarks of every kind; an address without secrets stays whole."""
    stderr = BytesIO()
    out = Output(Terminal(BytesIO(), stderr), form, verbose=True)
    for say in (out.note, out.warn, out.detail):
        say(f"see {URL} and hdfs://nn:8020/w")
    out.error(AcidctlError(f"no {URL}", path=URL, hint=f"try {URL}"))
    text = stderr.getvalue().decode()
    assert "SECRET" not in text
    assert text.count("https://host.example/x") >= 5
    assert text.count("hdfs://nn:8020/w") == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("https:/bob:SE/CRET@host/x is a path now", "https:/host/x is a path now"),
        ("s3://key:SECRET@bucket/x, 's3a://key:SECRET@bucket/y'", "s3://bucket/x, 's3a://bucket/y'"),
        ("/w/a@b/c:d and ds=1:/x", "/w/a@b/c:d and ds=1:/x"),
        ("process 7 on node-3:8020, see ann@example.org", "process 7 on node-3:8020, see ann@example.org"),
    ],
)
def test_only_secrets_are_left_out(text: str, said: str) -> None:
    """Paths, ports and mail addresses are none."""
    assert without_secrets(text) == said


def test_signatures_in_addresses_are_cut() -> None:
    """Whatever library made the sentence: the parameter stays, its value goes."""
    text = "s3://b/t?X-Amz-Signature=SECRET&X-Amz-Date=20261123&X-Amz-Security-Token=SECRET is no table"
    said = "s3://b/t?X-Amz-Signature=...&X-Amz-Date=20261123&X-Amz-Security-Token=... is no table"
    assert without_secrets(text) == said
    assert "SECRET" not in without_secrets("https://a.blob.core/x?sv=1&sig=SECRET' at line 3")


ADDRESSES = (
    "s3://AKIA:SECRET@b/t",
    "s3:/AKIA:SECRET@b/t",
    "s3:AKIA:SECRET@b/t",
    "s3//AKIA:SECRET@b/t",
    "s3a:/AKIA:SECRET@b/t",
    "s3:///AKIA:SECRET@b/t",
    "s3:\\\\AKIA:SECRET@b\\t",
    "s3://AKIA:SECRET",
    "s3://AKIA:SECRET%40b/t",
    "s3://AKIA:a%2FSECRET@b/t",
    "s3://AKIA:some SECRET SECRET@b/t",
    "s3:/AKIA:some SECRET@b/t",
    "s3://AKIA:some/SECRET@b/t",
    "s3://b/t?X-Amz-Signature=SECRET",
    "s3:/b/t?X-Amz-Signature=SECRET",
    "s3://b/t#token=SECRET",
    "s3://b/t;password=SECRET",
    "simplecache::s3://AKIA:SECRET@b/t",
    "abfs://c:SECRET@127.0.0.1/t",
    "ftp://u:some SECRET@127.0.0.1:1/t",
    "https://u:SECRET@127.0.0.1:1/t",
    "http:/u:SECRET@127.0.0.1:1/t",
    "hdfs://u:SECRET@127.0.0.1:1/t",
    "hdfs:/u:SECRET@127.0.0.1:1/t",
    "webhdfs://127.0.0.1:1/t?delegation=SECRET",
    "webhdfs:/127.0.0.1:1/t?delegation=SECRET",
    "file://u:SECRET@h/t",
    "file:/u:SECRET@h/t",
    "/w/t?sig=SECRET",
    "AKIA:SECRET@b/t",
    "AKIA:SECRET@b",
    "AKIA:a/SECRET+=@b/t",
    "AKIA:SECRET@h@b/t",
)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_no_address_however_malformed_is_repeated_with_its_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor do the libraries that get it: --debug shows what they said, and the plain error after it."""
    for name, value in (("ENDPOINT_URL", "http://127.0.0.1:1"), ("ACCESS_KEY_ID", "k"), ("SECRET_ACCESS_KEY", "s")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    for address in ADDRESSES:
        for more in (("--debug",), ("-o", "json")):
            result = acidctl("ls", address, *more)
            said = result.stdout + result.stderr + "".join(capsys.readouterr())
            assert result.code in (2, 10, 14), (address, said)
            assert "SECRET" not in said, address


@pytest.mark.parametrize(
    "command", [("ls",), ("snapshot",), (*COMPACT[:2], COMPACT[3], "-n"), ("clean", "--as-of", "9")]
)
def test_no_location_on_stdout_carries_a_password(command: tuple[str, ...], tmp_path: Path) -> None:
    """A table that is there is not read by an address with one, and a plan keeps none."""
    memory = fsspec.filesystem("memory")
    memory.put(str(DEMO), "/u:SECRET@h/t", recursive=True)
    try:
        result = acidctl(*command, "memory://u:SECRET@h/t", "-o", "json")
    finally:
        memory.rm("/u:SECRET@h", recursive=True)
    assert (result.code, result.stdout, "SECRET" in result.stderr) == (2, "", False)
    assert "memory://h/t was given with a user or a password" in result.error()["message"]


@pytest.mark.parametrize(
    "text",
    [
        *("hdfs://namenode:8020/wh/a@b", "hdfs://namenode:8020", "webhdfs://[::1]:9870/wh/a@b", "s3://bucket/a:b@c"),
        *("abfs://container@account.dfs.core.windows.net/wh/p:q@r", "/wh/user:x@y", "ds=10:30", "/w/a@b/c:d"),
        *("default.t:9:9223372036854775807::", "hdfs://h1:8020,h2:8020/w", "spark.executor.memory=4g", "token=2026"),
        *("hr=10:30@x", "10:30@x", "a b:c@d", "struct<a:int,b:string>", "me@host:8020/w"),
    ],
)
def test_what_holds_no_secret_is_shown_whole(text: str) -> None:
    """Hosts, ports, containers, lists and names of files."""
    assert secrets_given([text]) == set()


def test_secrets_of_the_configuration_file_are_not_repeated(tmp_path: Path) -> None:
    """Whatever library or sentence repeats the value of an option that is called secret."""
    config = tmp_path / "config.toml"
    config.write_text('[storage."file:"]\nsecret = "SECRET/hidden"\ntoken_file = "/w/shown"\n')
    result = acidctl("ls", f"file:{tmp_path}/SECRET/hidden/shown", "--config", str(config))
    assert result.code == 10
    assert "SECRET" not in result.stderr
    assert "/shown does not exist" in result.stderr


def test_secrets_that_others_may_read_are_warned_of(tmp_path: Path) -> None:
    """Once, with what to run; neither for a private file nor for one without secrets."""
    config = tmp_path / "my config.toml"
    told = f"warning: {config} holds secrets, and other users may read it: run `chmod 600 '{config}'`\n"
    secret, plain = (
        '[storage."s3://b/"]\nclient_kwargs = { aws_secret_access_key = "hidden" }\n',
        "[options]\nlimit = 5\n",
    )
    spark = '[spark]\n"spark.hadoop.fs.s3a.secret.key" = "hidden"\n'
    for text, mode, warned in (
        (secret, 0o600, False),
        (secret, 0o640, True),
        (spark, 0o604, True),
        (plain, 0o644, False),
    ):
        config.write_text(text)
        config.chmod(mode)
        result = acidctl("ls", str(DEMO), "--config", str(config))
        assert result.stderr.count(told) == int(warned), (text, mode, result.stderr)
        assert "hidden" not in result.stdout + result.stderr
