"""The run log: whole lines whoever writes, and no harm when it cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from acidctl.cli.compact import RunLog
from acidctl.compaction.report import Outcome, PartitionReport
from acidctl.errors import StorageError, UsageError

APPENDER = """
import sys
from acidctl.compaction.report import Outcome, PartitionReport
from acidctl.cli.compact import RunLog
log = RunLog(sys.argv[1], "/t", "major", now=lambda: 0.0, notify=print)
for i in range(300):
    log.partition(PartitionReport(f"ds={i}", Outcome.COMPACTED, reason="x" * 3000, outputs=("base_1",), seconds=1.0))
"""


def _log(path: Path, said: list[str]) -> RunLog:
    return RunLog(str(path), "/t", "major", now=lambda: 1_000_000_000.5, notify=said.append)


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_for_each_partition_and_one_for_the_run(tmp_path: Path) -> None:
    """Times, figures and errors; what was not touched has no line."""
    log = _log(tmp_path / "log", [])
    log.partition(PartitionReport("ds=1", Outcome.COMPACTED, outputs=("base_7",), rows_in=3, rows_out=2, seconds=2.5))
    log.partition(PartitionReport("ds=2", Outcome.FAILED, "storage", "the disk is full", hint="Make room."))
    log.partition(PartitionReport("ds=3", Outcome.NOTHING_TO_DO, "not_enough", "x"))
    log.partition(PartitionReport("ds=4", Outcome.REFUSED, "max_runtime", "not begun"))
    log.partition(PartitionReport("ds=5", Outcome.REFUSED, "max_runtime", "given up", seconds=9.0))
    log.failed(StorageError("the NameNode is gone", hint="Look."))
    done, failed, given_up, run = _lines(tmp_path / "log")
    assert (done["type"], done["schema_version"], done["location"]) == ("compaction_log", 1, "/t")
    assert (done["started"], done["ended"]) == ("2001-09-09T01:46:38.000Z", "2001-09-09T01:46:40.500Z")
    assert (done["outcome"], done["rows_in"], done["rows_out"], done["error"]) == ("compacted", 3, 2, None)
    assert failed["error"] == {"code": "storage", "message": "the disk is full", "hint": "Make room."}
    assert (given_up["partition"], given_up["reason_code"], given_up["error"]) == ("ds=5", "max_runtime", None)
    assert (run["type"], run["exit_code"]) == ("compaction_run_log", 14)
    assert len({line["run"] for line in (done, failed, given_up, run)}) == 1


@pytest.mark.slow
def test_runs_that_share_a_log_do_not_mix_their_lines(tmp_path: Path) -> None:
    """Four processes at once, lines of several kilobytes."""
    path = tmp_path / "log"
    runs = [subprocess.Popen([sys.executable, "-c", APPENDER, str(path)]) for _ in range(4)]
    assert [run.wait(60) for run in runs] == [0] * 4
    lines = _lines(path)
    assert len(lines) == 4 * 300
    assert len({(line["run"], line["partition"]) for line in lines}) == 4 * 300


def test_a_log_holds_no_credentials(tmp_path: Path) -> None:
    """It lasts, and is read by many."""
    log = _log(tmp_path / "log", [])
    log.partition(
        PartitionReport("ds=1", Outcome.FAILED, "storage", "no spark://u:hush@h:1", hint="See s3://k:hush@b.")
    )
    log.failed(StorageError("spark://u:hush@h:1:2 is not a Spark master"))
    assert "hush" not in (tmp_path / "log").read_text()
    assert "spark://h:1" in (tmp_path / "log").read_text()


def test_a_log_that_breaks_is_told_of_once(tmp_path: Path) -> None:
    """The run goes on; a log that was rotated away is begun anew."""
    folder, said = tmp_path / "logs", list[str]()
    folder.mkdir()
    log = _log(folder / "log", said)
    (folder / "log").unlink()
    log.partition(PartitionReport("ds=1", Outcome.COMPACTED))
    assert len(_lines(folder / "log")) == 1
    (folder / "log").unlink()
    folder.rmdir()
    for _ in range(3):
        log.partition(PartitionReport("ds=2", Outcome.COMPACTED))
    assert said == [f"the run log {folder / 'log'} cannot be written: No such file or directory; the run goes on"]


@pytest.mark.parametrize("what", ["directory", "pipe", "nowhere"])
def test_what_is_no_log_is_refused_at_once(what: str, tmp_path: Path) -> None:
    """Before anything is changed, and without waiting for a reader."""
    path = tmp_path / "log"
    if what == "directory":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        path = tmp_path / "no" / "log"
    with pytest.raises(UsageError, match="cannot be written"):
        _log(path, [])
