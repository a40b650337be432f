"""Bad input, over all commands that read a table: one sentence, the right exit code, never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acidctl.cli.main import COMMANDS
from tests import ROOT
from tests.cli.runner import acidctl

DEMO = ROOT / "fixtures/tables/hive4/demo_orders/03-demo"
BUCKET = "delta_0000005_0000005_0000/bucket_00001_0"
COMPACT = ["compact", "major", "--assume-committed"]
TABLE_COMMANDS = [["ls"], ["snapshot"], ["snapshot", "--count"], ["snapshot", "--files"], COMPACT]
# `clean` takes several lists of a kind and lists that no reader would have.
READERS = [*TABLE_COMMANDS, ["dump"], ["clean", "--as-of", "9", "--assume-exclusive"]]
FORMS = ["text", "json", "jsonl", "csv"]


def _check_failure(args: list[str], code: int, name: str, said: str, form: str) -> None:
    """Run and compare exit code, error code, message and the emptiness of stdout."""
    result = acidctl(*args, "-o", form)
    assert (result.code, result.stdout) == (code, ""), result
    assert "Traceback" not in result.stderr
    if form == "text":
        errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        assert len(errors) == 1
        assert said in errors[0]
    else:
        assert result.error()["code"] == name
        assert said in result.error()["message"]


@pytest.fixture
def table() -> Path:
    """Hive's demo table, only to be read."""
    return DEMO / "table"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of it, to be moved about."""
    return Path(shutil.copytree(DEMO / "table", tmp_path / "table"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", READERS, ids=" ".join)
class TestPaths:
    """The path is the problem."""

    def test_a_missing_path(self, command: list[str], form: str, tmp_path: Path) -> None:
        """Exit 10."""
        _check_failure([*command, f"{tmp_path}/none"], 10, "no_such_table", "does not exist", form)

    def test_a_missing_path_below_a_file(self, command: list[str], form: str, table: Path) -> None:
        """A component of the path is a file."""
        _check_failure([*command, f"{table}/{BUCKET}/x"], 10, "no_such_table", "does not exist", form)

    def test_an_empty_path(self, command: list[str], form: str) -> None:
        """Exit 2: an unset shell variable."""
        result = acidctl(*command, "", "-o", form)
        assert (result.code, result.stdout) == (2, "")

    def test_hdfs_without_a_host(self, command: list[str], form: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Exit 2: nothing says which HDFS is meant."""
        monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
        monkeypatch.delenv("HADOOP_HOME", raising=False)
        _check_failure([*command, "hdfs:///w/t"], 2, "usage", "without a host", form)

    def test_an_unknown_scheme(self, command: list[str], form: str) -> None:
        """Exit 2."""
        _check_failure([*command, "gopher://x/y"], 2, "usage", "gopher: is not a storage", form)


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("command", TABLE_COMMANDS, ids=" ".join)
class TestTables:
    """The directory, or what is said about it, is the problem."""

    def test_a_file_where_a_directory_is_meant(self, command: list[str], form: str, table: Path) -> None:
        """Exit 11."""
        _check_failure([*command, f"{table}/{BUCKET}"], 11, "not_acid", "is a file", form)

    def test_a_directory_that_is_no_table(self, command: list[str], form: str, tmp_path: Path) -> None:
        """Text files, and a folder of other folders."""
        (tmp_path / "notes.txt").write_text("hello")
        (tmp_path / "sub").mkdir()
        _check_failure([*command, str(tmp_path)], 11, "not_acid", "is not an ACID table", form)

    def test_a_directory_of_tables(self, command: list[str], form: str, table: Path) -> None:
        """One level too high; the hint names a table."""
        _check_failure([*command, str(table.parent)], 11, "not_acid", "look like tables", form)

    def test_an_empty_list(self, command: list[str], form: str, table: Path, tmp_path: Path) -> None:
        """Never "everything valid"."""
        empty = tmp_path / "empty"
        empty.write_text(" \n")
        for text in ("", " ", f"@{empty}"):
            _check_failure([*command, str(table), "--validtxns", text], 2, "usage", "empty", form)

    def test_a_list_file_that_cannot_be_read(self, command: list[str], form: str, table: Path) -> None:
        """Exit 2, the file is named."""
        args = [*command, str(table), "--validtxns", "@/no/such/file"]
        _check_failure(args, 2, "usage", "@/no/such/file cannot be read", form)

    def test_two_lists_of_a_kind(self, command: list[str], form: str, table: Path) -> None:
        """A reader has one of each."""
        lists = ["--validtxns", "t:9:9223372036854775807::", "--as-of", "3"]
        _check_failure([*command, str(table), *lists], 2, "usage", "a reader has one", form)

    def test_a_partition_filter_without_match(self, command: list[str], form: str, table: Path) -> None:
        """Exit 10: what was asked for is not there."""
        _check_failure([*command, str(table), "--partition", "ds=1"], 10, "no_such_table", "no partition", form)

    def test_a_malformed_partition_filter(self, command: list[str], form: str, table: Path) -> None:
        """Exit 2."""
        _check_failure([*command, str(table), "--partition", "ds"], 2, "usage", "key=value", form)

    def test_a_malformed_schema(self, command: list[str], form: str, table: Path) -> None:
        """Exit 2."""
        result = acidctl(*command, str(table), "--schema", "id int,, (", "-o", form)
        assert (result.code, result.stdout) == (2, "")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", TABLE_COMMANDS[1:], ids=" ".join)
def test_a_snapshot_without_history(command: list[str], form: str, tmp_path: Path) -> None:
    """Exit 12; `ls` of the same answers and exits 3."""
    (tmp_path / "base_0000009_v0000020").mkdir()
    shutil.copy(DEMO / "table" / BUCKET, tmp_path / "base_0000009_v0000020" / "bucket_00001")
    args = [*command, str(tmp_path), "--as-of", "8"]
    _check_failure(args, 12, "not_enough_history", "Not enough history", form)
    assert acidctl("ls", *args[len(command) :]).code == 3


@pytest.mark.parametrize(
    "name", ["[brackets]", "with blank", "line\nbreak", "*", "?", "ümläut", "%41", "#x", "-x", "a:b"]
)
@pytest.mark.parametrize("command", [["ls"], ["snapshot"], ["snapshot", "--count"], ["dump", "-d"]], ids=" ".join)
@pytest.mark.slow
def test_any_name_is_a_path(command: list[str], name: str, copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never globbed, never decoded; also as a relative path."""
    place = copy.rename(copy.parent / name)
    for path in (str(place), f"./{name}"):
        monkeypatch.chdir(copy.parent)
        result = acidctl(*command, path, "-o", "json")
        assert result.code == 0, result.stderr
        assert json.loads(result.stdout)


@pytest.mark.parametrize("name", ["[p]=[v]", "p=line\nbreak", "p=a b", "p=%3A%2F", "p=*"])
def test_any_name_is_a_partition(name: str, copy: Path, tmp_path: Path) -> None:
    """The on-disk text stands in the answer."""
    (tmp_path / "t").mkdir()
    copy.rename(tmp_path / "t" / name)
    entries = acidctl("ls", f"{tmp_path}/t", "-o", "json").json()["entries"]
    assert {entry["partition"] for entry in entries} == {name}
    assert acidctl("snapshot", f"{tmp_path}/t", "--count", "-o", "json").code == 0
    text = acidctl("ls", f"{tmp_path}/t", width=100).stdout
    assert "\\nbreak" in text or "\n" not in name


def test_a_name_that_is_not_utf8(copy: Path) -> None:
    """Shown escaped, read all the same."""
    place = os.fsencode(copy.parent) + b"/caf\xe9"
    os.rename(copy, place)
    done = subprocess.run(
        [os.fsencode(sys.executable), b"-m", b"acidctl", b"ls", place, b"-o", b"json"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout)["location"].endswith("caf\udce9")


def test_the_matrix_knows_every_command() -> None:
    """A new command that reads tables has to be put into this file."""
    of_a_metastore = {"lists", "txns", "locks", "compactions", "worker"}
    assert set(COMMANDS) == {command[0] for command in READERS} | {"decode-bucket"} | of_a_metastore
