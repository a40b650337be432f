"""No error, warning or note repeats a password that stands in what was given."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

from acidctl.cli.output import Format, Output, Terminal, without_secrets
from acidctl.errors import AcidctlError
from tests.cli.runner import acidctl

DEMO = Path(__file__).resolve().parents[2] / "fixtures/tables/hive4/demo_orders/03-demo/table"
URL = "https://bob:SECRET@host.example/x"
COMPACT = ("compact", "major", "TABLE", "--assume-committed")

GIVEN = {
    "a second argument": ("ls", "TABLE", URL),
    "a command": (URL,),
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
def test_a_master_is_repeated_without_its_password() -> None:
    """Nor does what Spark says of it; in a process of its own, for the sake of Spark's pipes."""
    args = [str(DEMO) if arg == "TABLE" else arg for arg in COMPACT]
    done = subprocess.run(
        [sys.executable, "-m", "acidctl", *args, "--master", URL], capture_output=True, timeout=280, check=False
    )
    assert done.returncode != 0
    assert b"host.example" in done.stderr
    assert b"SECRET" not in done.stdout + done.stderr


def test_the_part_before_a_value_is_named() -> None:
    """So that the mistake can be found."""
    result = acidctl("compact", "major", str(DEMO), "--assume-committed", "--spark-conf", "spark.hadoop.x.key:SECRET")
    assert result.stderr.startswith("error: --spark-conf 'spark.hadoop.x.key' is no Spark setting")


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
