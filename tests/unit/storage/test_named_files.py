"""Files that commands write beside the table: plans, figures, logs. Nothing that others have put there is touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acidctl.errors import ExitCode, StorageError
from acidctl.storage.named_files import whole_file, write_bytes
from tests import ROOT
from tests.cli.runner import acidctl

TABLE = ROOT / "fixtures/tables/hive4/demo_orders/03-demo/table"
LISTS = ("--validtxns", "default.orders:9:8:8:6", "--validtxns", "21:17:17:15", "--table", "default.orders")
COMPACT = ("compact", "major", str(TABLE), *LISTS, "--table-type", "full")


def _hostile(folder: Path, name: str) -> Path:
    """Links and files under every name that was ever, or might be, taken for the unfinished file; the victim."""
    victim = folder.parent / "victim"
    victim.write_bytes(b"precious")
    for link in (f".{name}.part", f"{name}.part", f".{name}.tmp", f"{name}.tmp"):
        (folder / link).symlink_to(victim)
    return victim


def test_a_link_under_a_predictable_name_is_no_way_in(tmp_path: Path) -> None:
    """Neither written through nor removed nor made to what is asked for."""
    folder = tmp_path / "shared"
    folder.mkdir()
    victim = _hostile(folder, "plan.json")
    before = sorted(os.listdir(folder))
    result = acidctl(*COMPACT, "--plan-out", str(folder / "plan.json"))
    assert result.code == ExitCode.DONE, result
    assert victim.read_bytes() == b"precious"
    assert sorted(os.listdir(folder)) == sorted([*before, "plan.json"])
    assert not (folder / "plan.json").is_symlink()


def test_a_file_of_the_users_own_stays(tmp_path: Path) -> None:
    """Whatever it is called, and whether the run succeeds or not."""
    mine = tmp_path / ".plan.json.part"
    mine.write_bytes(b"mine")
    write_bytes(tmp_path / "plan.json", [b"new"])

    def fail() -> None:
        with whole_file(str(tmp_path / "plan.json")) as stream:
            stream.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert mine.read_bytes() == b"mine"
    assert (tmp_path / "plan.json").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == [".plan.json.part", "plan.json"]


def test_the_unfinished_name_cannot_be_known(tmp_path: Path) -> None:
    """It is hidden, new each time, and was not there before."""
    seen = set()
    for _ in range(3):
        with whole_file(str(tmp_path / "x")) as stream:
            stream.write(b"x")
            seen |= set(os.listdir(tmp_path)) - {"x"}
    assert len(seen) == 3
    assert all(name.startswith(".acidctl-") and len(name) >= 24 for name in seen)
    assert os.listdir(tmp_path) == ["x"]


def test_what_is_there_already_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a name be taken all the same, it is an error."""
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    link = tmp_path / f".acidctl-{'0' * 16}.part"
    link.symlink_to(victim)
    with pytest.raises(StorageError, match="cannot be written: File exists"):
        write_bytes(tmp_path / "plan.json", [b"new"])
    assert (victim.read_bytes(), link.is_symlink()) == (b"precious", True)


def test_a_link_of_the_users_own_stays_a_link(tmp_path: Path) -> None:
    """Its file is replaced, in the directory where that lies."""
    (tmp_path / "real").mkdir()
    (tmp_path / "plan.json").symlink_to("real/plan.json")
    write_bytes(tmp_path / "plan.json", [b"one"])
    write_bytes(tmp_path / "plan.json", [b"two"])
    assert (tmp_path / "plan.json").is_symlink()
    assert (tmp_path / "real/plan.json").read_bytes() == b"two"
    assert os.listdir(tmp_path / "real") == ["plan.json"]


@pytest.mark.parametrize("where", ["pipe", "file"])
def test_a_plan_may_go_to_standard_output(tmp_path: Path, where: str) -> None:
    """Into a pipe, and into the file to which it is directed, whose name it keeps."""
    command = [sys.executable, "-m", "acidctl", *COMPACT, "--plan-out", "/dev/stdout", "-q"]
    out = tmp_path / "out"
    if where == "pipe":
        text = subprocess.run(command, capture_output=True, check=True, timeout=120).stdout.decode()
    else:
        with out.open("wb") as stream:
            number = os.fstat(stream.fileno()).st_ino
            subprocess.run(command, stdout=stream, check=True, timeout=120)
        text = out.read_text()
        assert out.stat().st_ino == number
        assert os.listdir(tmp_path) == ["out"]
    assert '"type": "compaction_plan"' in text


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "device"])
def test_a_run_log_is_a_regular_file_and_no_link(tmp_path: Path, kind: str) -> None:
    """Refused before anything begins; what a link leads to is not written to, nor made."""
    log, victim = tmp_path / "log", tmp_path / "victim"
    if kind == "link":
        victim.write_bytes(b"precious")
    if kind == "pipe":
        os.mkfifo(log)
    else:
        log.symlink_to("/dev/null" if kind == "device" else victim)
    table = tmp_path / "orders"
    shutil.copytree(TABLE, table)
    result = acidctl("compact", "major", str(table), *LISTS, "--table-type", "full", "--run-log", str(log))
    assert result.code == ExitCode.USAGE
    why = "No such device" if kind == "pipe" else "it is a symbolic link; name the file itself"
    assert f"--run-log {log} cannot be written: {why}" in result.stderr
    assert victim.exists() == (kind == "link")
    assert kind != "link" or victim.read_bytes() == b"precious"


def test_a_run_log_may_be_standard_output_where_that_is_a_file(tmp_path: Path) -> None:
    """A link of the system to what this process has open anyway."""
    table = tmp_path / "orders"
    shutil.copytree(TABLE, table)
    command = ["compact", "major", str(table), *LISTS, "--table-type", "full", "-q", "--run-log", "/dev/stdout"]
    out = tmp_path / "out"
    with out.open("wb") as stream:
        subprocess.run([sys.executable, "-m", "acidctl", *command], stdout=stream, check=True, timeout=120)
    assert '"type":"compaction_log"' in out.read_text()
