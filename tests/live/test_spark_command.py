"""`acidctl compact --engine spark` in a process without a session: what it says, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests import ROOT
from tests.cli.runner import acidctl as run_acidctl
from tests.services.spark import children

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

DEMO = ROOT / "fixtures/tables/hive4/demo_orders/03-demo"


def _copy(step: Path, folder: Path) -> Path:
    return Path(shutil.copytree(step / "table", folder / "table"))


def _arguments(step: Path) -> list[str]:
    facts = json.loads((step / "step.json").read_text())
    lists = [o for key in ("valid_write_ids", "valid_txns") for o in ("--validtxns", facts[key])]
    return [*lists, "--table", facts["table"]]


def _contents(table: Path) -> dict[str, bytes]:
    return {str(path.relative_to(table)): path.read_bytes() for path in table.rglob("*") if path.is_file()}


def test_the_command_says_what_is_odd_and_leaves_no_process(tmp_path: Path) -> None:
    """A setting that Spark does not know is a warning; afterwards everything that was started has ended."""
    table = _copy(DEMO, tmp_path)
    before = children(os.getpid())
    odd = ("--spark-conf", "spark.exectuor.memory=1g")
    args = ("--engine", "spark", "--master", "local[1]", *odd, *_arguments(DEMO))
    result = run_acidctl("compact", "major", str(table), *args)
    assert result.code == 0, result.stderr
    assert "warning: Spark 4" in result.stderr
    assert "does not know the setting spark.exectuor.memory; check its spelling" in result.stderr
    assert children(os.getpid()) == before


@pytest.mark.parametrize(
    ("environment", "master", "words"),
    [
        ({"JAVA_HOME": "/opt/nowhere"}, "local[1]", "JAVA_HOME is /opt/nowhere"),
        ({}, "spark://127.0.0.1:1", "does not answer"),
    ],
)
def test_what_is_missing_is_exit_14(
    environment: dict[str, str], master: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Java, no master: one sentence, and the table as it was."""
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    table = _copy(DEMO, tmp_path)
    before = _contents(table)
    args = ("--engine", "spark", "--master", master, "-o", "json", *_arguments(DEMO))
    result = run_acidctl("compact", "major", str(table), *args)
    assert result.code == 14
    assert result.error()["code"] == "missing_dependency"
    assert words in result.error()["message"]
    assert _contents(table) == before
