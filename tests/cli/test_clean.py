"""`acidctl clean`: the dry run, what changes a table, every form of the answer, and bad input."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from acidctl.cleaning.report import CleanedEntry, CleanedLocation, CleanReport, GuardReport
from acidctl.cli import clean as clean_command
from acidctl.errors import ExitCode
from tests import ROOT
from tests.cli.runner import Result, acidctl
from tests.support.reference import described

if TYPE_CHECKING:
    from tests.services.hdfs import Hdfs

STEP = ROOT / "fixtures/tables/hive4/demo_orders/03-demo"
PARTS = STEP.parent.parent / "insert_only_partitioned/02-minor"
WRITE_IDS, TXNS = "default.orders:9:8:8:6", "21:17:17:15"
LISTS = ("--validtxns", WRITE_IDS, "--validtxns", TXNS)
GONE = {
    "delta_0000006_0000006_0000",
    "delta_0000001_0000001_0000",
    "delta_0000002_0000002_0000",
    "delta_0000003_0000003_0001",
    "delete_delta_0000003_0000003_0000",
    "delete_delta_0000004_0000004_0000",
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A copy whose files are three days old."""
    return _aged(STEP, tmp_path / "orders")


def _aged(step: Path, target: Path, days: float = 3.0) -> Path:
    shutil.copytree(step / "table", target, ignore=shutil.ignore_patterns("_acidctl_lock"))
    _touch(target, days)
    return target


def _touch(target: Path, days: float) -> None:
    moment = time.time() - days * 86400
    for path in (target, *target.rglob("*")):
        os.utime(path, (moment, moment))


def clean(table: Path, *args: str, width: int | None = None) -> Result:
    """Run it with the lists of the step."""
    return acidctl("clean", str(table), *LISTS, *args, width=width)


def names(table: Path) -> set[str]:
    """What lies in the table."""
    return {path.name for path in table.iterdir()}


@pytest.mark.parametrize("width", [80, 200])
def test_the_dry_run_says_in_capitals_that_nothing_was_deleted(table: Path, width: int) -> None:
    """And it fits the terminal, but for names and the line to paste."""
    before = names(table)
    result = clean(table, width=width)
    assert result.code == 0
    assert "DRY RUN: NOTHING WAS DELETED." in result.stdout
    assert "This would delete 6 entries, 15 files, 8.2 KiB:" in result.stdout
    lines = result.stdout.splitlines()
    assert all(len(line) <= width for line in lines if "acidctl clean" not in line and not line.startswith("/"))
    assert names(table) == before
    # Each reason stands once, above what shares it.
    assert len([line for line in lines if line.startswith("covered by")]) == 1
    assert "write id 6 was aborted" in lines
    assert result.stderr == ""


def test_the_line_to_paste_does_it(table: Path) -> None:
    """Every option that decides is in it, quoted."""
    odd = table.rename(table.parent / "orders, a table's")
    result = clean(odd, "--table", "default.orders", "--older-than", "90m", "--leftovers", width=80)
    line = result.stdout.rstrip().splitlines()[-1]
    words = shlex.split(line)
    assert words[:2] == ["acidctl", "clean"]
    assert words[-1] == "--delete"
    done = acidctl(*words[1:], "--yes")
    assert (done.code, done.stderr) == (0, "")
    assert not GONE & names(odd)
    assert "6 entries, 15 files, 8.2 KiB deleted." in done.stdout


@pytest.mark.parametrize(
    ("age", "said"), [("14d", "1209600s"), ("1.5h", "5400s"), ("0.5s", "0.5s"), ("99w", "59875200s")]
)
def test_the_line_to_paste_keeps_the_age_and_the_configuration(
    table: Path, age: str, said: str, tmp_path: Path
) -> None:
    """In plain digits, because what it prints has to be what it takes."""
    config = tmp_path / "it's mine.toml"
    config.write_text("")
    _touch(table, 1000)
    text = clean(table, "--older-than", age, "--config", str(config)).stdout
    line = next(line for line in text.splitlines() if line.startswith("  acidctl clean "))
    words = shlex.split(line)
    assert words[words.index("--older-than") + 1] == said
    assert words[words.index("--config") + 1] == str(config)
    assert acidctl(*words[1:], "--yes").code == 0
    assert not GONE & names(table)


def test_a_failure_is_an_error_of_its_form(table: Path) -> None:
    """One sentence and a hint, as JSON for a machine."""
    place = str(table.parent / "file")
    Path(place).write_text("x")
    result = clean(table, "--quarantine", place)
    assert result.code == ExitCode.STORAGE
    assert result.stderr.startswith("error: ")
    answer = clean(table, "--quarantine", place, "-o", "json")
    assert answer.error()["code"] == "storage"
    assert names(table) >= GONE


def test_a_quarantine_below_a_directory_that_does_not_exist(table: Path) -> None:
    """One sentence and what to do, as text and as JSON; neither the directory nor anything of it is made."""
    missing = table.parent / "nosuch"
    before = names(table)
    result = clean(table, "--quarantine", str(missing / "dir"))
    assert result.code == ExitCode.STORAGE
    said = f"the quarantine {missing}/dir cannot be made: {missing} does not exist"
    todo = f"Make the directory {missing} first, or name a directory that exists."
    assert result.stderr.splitlines() == [f"error: {said}", f"  hint: {todo}"]
    answer = clean(table, "--quarantine", str(missing / "dir"), "-o", "json")
    assert (answer.code, answer.error()["message"], answer.error()["hint"]) == (ExitCode.STORAGE, said, todo)
    assert (names(table), missing.exists()) == (before, False)


def test_nothing_to_bring_back_says_where_it_was_looked_for(table: Path) -> None:
    """A mistyped place looks like an empty one."""
    assert "No quarantine of this table was found within the table" in clean(table, "--undo").stderr
    place = str(table.parent / "elsewhere")
    assert f"was found in {place};" in clean(table, "--undo", "--quarantine", place).stderr


def test_without_a_terminal_a_line_says_everything(table: Path) -> None:
    """For grep: no headings."""
    rows = [line for line in clean(table).stdout.splitlines() if line.startswith(("delta_", "delete_delta_"))]
    assert len(rows) == 6
    assert all("covered by" in row or "aborted" in row for row in rows)


def test_what_is_young_is_said_to_wait(tmp_path: Path) -> None:
    """The retention is named, and the option that sets it."""
    table = _aged(STEP, tmp_path / "orders", 0.1)
    result = clean(table, width=80)
    assert result.code == 0
    assert "There is nothing to remove yet: 6 entries are held back by the retention (--older-than)." in " ".join(
        result.stdout.split()
    )
    loose = clean(table, "--unsafe-no-retention")
    assert "would delete 6 entries" in loose.stdout
    assert "Retention is off" in loose.stderr


@pytest.mark.parametrize(("age", "count"), [("1d", 6), ("71h", 6), ("73h", 0), ("1w", 0), ("90m", 6), ("100s", 6)])
def test_ages_have_units(table: Path, age: str, count: int) -> None:
    """Seconds to weeks."""
    assert len(clean(table, "--older-than", age, "-o", "json").json()["victims"]) == count


def test_json_has_the_fields_that_scripts_rely_on(table: Path) -> None:
    """Those of the contract, and more."""
    answer = clean(table, "-o", "json").json()
    assert (answer["type"], answer["schema_version"], answer["dry_run"]) == ("clean_report", 1, True)
    assert answer["location"] == str(table)
    assert {victim["name"] for victim in answer["victims"]} == GONE
    assert set(answer["victims"][0]) >= {"partition", "name", "reason", "because_of", "bytes", "files", "age_seconds"}
    assert [guard["guard"] for guard in answer["guards"]] == [f"G{i}" for i in range(1, 10)] + [
        "own_files",
        "current_lists",
        "simulation",
        "doubts",
        "rows",
    ]
    assert all(guard["holds"] and guard["why"] for guard in answer["guards"])
    assert answer["bytes_freed"] == sum(victim["bytes"] for victim in answer["victims"])
    assert answer["deleted"] == 0
    assert len(answer["kept"]) == 7
    age = answer["victims"][0]["age_seconds"]
    assert 3 * 86400 <= age < 3 * 86400 + 600


def test_the_page_of_fields_is_complete(table: Path) -> None:
    """Nothing is answered that is not described, nor described and not answered."""
    answer = clean(table, "-o", "json").json()
    assert set(answer) == {"type", "schema_version", *described(CleanReport)}
    assert set(answer["guards"][0]) == described(GuardReport).keys()
    assert set(answer["partitions"][0]) == described(CleanedLocation).keys()
    assert set(answer["victims"][0]) == set(answer["kept"][0]) == described(CleanedEntry).keys()
    line = clean(table, "-o", "jsonl").json_lines()[0]
    assert set(line) == described(CleanedEntry).keys() | {"type", "schema_version", "outcome"}


def test_jsonl_and_csv_have_an_entry_a_line(table: Path) -> None:
    """Victims first."""
    lines = clean(table, "-o", "jsonl").json_lines()
    assert [line["outcome"] for line in lines] == ["would_go"] * 6 + ["kept"] * 7
    assert {line["type"] for line in lines} == {"clean_entry"}
    header, *rows = clean(table, "-o", "csv").csv()
    assert header[:2] == ["partition", "name"]
    assert len(rows) == 13
    assert len(clean(table, "-o", "csv", "--no-header").csv()) == 13


def test_delete_in_json_tells_what_went(table: Path) -> None:
    """The same object, after the fact."""
    answer = clean(table, "--delete", "--yes", "-o", "json").json()
    assert (answer["dry_run"], answer["deleted"], answer["action"]) == (False, 6, "delete")
    assert not GONE & names(table)
    again = clean(table, "--delete", "--yes", width=80)
    assert again.code == 0
    assert "NOTHING WAS DELETED." in again.stdout


class _Typed(io.StringIO):
    """Somebody at a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.mark.parametrize(("typed", "code"), [("orders\n", 0), ("delete\n", 0), ("y\n", 2), ("\n", 2), ("", 2)])
def test_delete_asks_for_a_word(table: Path, typed: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's name or `delete`, and nothing shorter."""
    monkeypatch.setattr(sys, "stdin", _Typed(typed))
    result = clean(table, "--delete")
    assert result.code == code
    listed, _, question = result.stderr.partition("Delete 6 entries")
    assert question.startswith(f" (8.2 KiB) of {table} for good? Type orders or delete: ")
    assert {line.split()[0] for line in listed.splitlines() if line.startswith("  ")} == GONE
    assert bool(GONE & names(table)) == (code != 0)


def test_the_question_lists_the_largest_of_many(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says how many more there are."""
    monkeypatch.setattr(sys, "stdin", _Typed("no\n"))
    monkeypatch.setattr(clean_command, "SHOWN_VICTIMS", 2)
    listed = [line for line in clean(table, "--delete").stderr.splitlines() if line.startswith("  ")]
    assert len(listed) == 3
    assert "... and 4 smaller ones" in listed[-1]


@pytest.mark.slow
def test_no_location_is_begun_after_the_time(table: Path, tmp_path: Path) -> None:
    """One is looked into at least; the others are left, exit code 3, and a later run takes them."""
    root = tmp_path / "parts" / "orders"
    for name in ("ds=1", "ds=2", "ds=3"):
        shutil.copytree(table, root / name)
    before = names(root)
    result = clean(root, "--delete", "--yes", "--max-runtime", "0.000001s", "-o", "json")
    assert result.code == ExitCode.FINDINGS
    answer = result.json()
    assert {part["outcome"] for part in answer["partitions"]} == {"left"}
    assert (answer["deleted"], names(root)) == (0, before)
    text = clean(root, "--max-runtime", "0.000001s")
    assert "2 partitions left for a later run (--max-runtime)." in text.stdout
    done = clean(root, "--delete", "--yes", "--max-runtime", "1h", "-o", "json")
    assert (done.code, done.json()["deleted"]) == (0, 18)


@pytest.mark.parametrize(
    ("args", "said"),
    [(("--undo", "--max-runtime", "1h"), "brings back"), (("--quarantine", "--skip-trash"), "requires --delete")],
)
def test_what_goes_with_nothing_is_refused(table: Path, args: tuple[str, ...], said: str) -> None:
    """Exit 2 and one sentence."""
    result = clean(table, *args)
    assert (result.code, result.stdout) == (ExitCode.USAGE, "")
    assert said in result.stderr


def test_delete_without_anybody_to_ask_needs_yes(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In scripts nothing is deleted by mistake."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("delete\n"))
    result = clean(table, "--delete", "-o", "json")
    assert result.code == ExitCode.USAGE
    assert result.stdout == ""
    assert "--yes" in result.error()["hint"]
    assert names(table) >= GONE


def test_nothing_that_agrees_comes_from_the_environment(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what changes a table nor what waives a guard."""
    for name in ("DELETE", "YES", "SKIP_TRASH", "QUARANTINE", "UNDO", "UNSAFE_NO_RETENTION", "ASSUME_EXCLUSIVE"):
        monkeypatch.setenv(f"ACIDCTL_{name}", "1")
        monkeypatch.setenv(f"ACIDCTL_CLEAN_{name}", "1")
    answer = clean(table, "-o", "json").json()
    assert (answer["dry_run"], answer["retention_seconds"]) == (True, 86400.0)


@pytest.mark.parametrize("where", [None, "aside"])
def test_quarantine_and_undo(table: Path, where: str | None) -> None:
    """There and back, all but the aborted one."""
    place = () if where is None else (str(table.parent / where),)
    before = names(table)
    moved = clean(table, "--quarantine", *place, width=80)
    assert moved.code == 0
    assert "6 entries, 15 files, 8.2 KiB moved to quarantine." in moved.stdout
    assert not GONE & names(table)
    back = clean(table, "--undo", *(("--quarantine", *place) if place else ()), "-o", "json")
    assert back.code == 0
    answer = back.json()
    assert (answer["restored"], answer["action"]) == (5, "undo")
    assert [entry["reason_code"] for entry in answer["kept"]] == ["not_restored"]
    assert names(table) - {"_acidctl_quarantine"} == before - {"delta_0000006_0000006_0000"}


def test_the_line_that_undoes_a_quarantine_can_be_pasted(table: Path) -> None:
    """Within the table and in a place whose name a shell would split: it brings back all but the aborted one."""
    before = names(table)
    for place in ([], [str(table.parent / "it's aside")]):
        moved = clean(table, "--quarantine", *place).stdout
        assert not GONE & names(table)
        (line,) = (line for line in moved.splitlines() if line.startswith("  acidctl clean ") and "--undo" in line)
        words = shlex.split(line)
        assert words[words.index("--undo") :] == ["--undo", *(["--quarantine", *place] if place else [])]
        assert acidctl(*words[1:], "-o", "json").json()["restored"] == 5
        assert before - names(table) == {"delta_0000006_0000006_0000"}


def test_undo_of_a_renamed_table_says_what_lies_there(table: Path) -> None:
    """Exit 3 and the place that was cleaned, as text and as JSON; nothing is brought back."""
    place = str(table.parent / "aside")
    assert clean(table, "--quarantine", place).code == 0
    renamed = table.rename(table.parent / "renamed")
    agreed = ("--table", "default.orders", "--undo", "--quarantine", place)
    result = clean(renamed, *agreed)
    assert result.code == ExitCode.FINDINGS
    assert f"{place} holds what was taken from {table}, left as it is" in result.stderr
    assert "No quarantine" not in result.stderr
    answer = clean(renamed, *agreed, "-o", "json")
    assert (answer.code, answer.error()["code"]) == (ExitCode.FINDINGS, "others_only")
    assert not GONE & names(renamed)


def test_what_is_common_to_all_partitions_is_said_once(table: Path) -> None:
    """Their number stands before it."""
    place = str(table.parent / "aside")
    assert clean(table, "--quarantine", place).code == 0
    lists = ("--validtxns", "default.x:9:9:9:", "--validtxns", "99:99:99:")
    parts = _aged(PARTS, table.parent / "parts")
    result = acidctl("clean", str(parts), *lists, "--table", "default.x", "--undo", "--quarantine", place)
    assert result.code == ExitCode.FINDINGS
    (line,) = (line for line in result.stderr.splitlines() if "holds what was taken" in line)
    assert f" partitions: {place}" in line


def test_a_failing_guard_is_shouted_and_exits_3(table: Path) -> None:
    """Which one, why, and that nothing goes."""
    bucket = table / "delta_0000001_0000004_v0000009" / "bucket_00000"
    bucket.write_bytes(bucket.read_bytes()[:-3])
    _touch(table, 3)
    result = clean(table, width=80)
    assert result.code == ExitCode.FINDINGS
    assert "G4 DOES NOT HOLD:" in result.stdout
    assert "A safety check failed; nothing is removed there (see above)." in result.stdout
    answer = clean(table, "--delete", "--yes", "-o", "json").json()
    assert [g["guard"] for g in answer["guards"] if not g["holds"]] == ["G4"]
    assert answer["victims"] == []
    assert names(table) >= GONE


def test_partitions_are_told_apart(tmp_path: Path) -> None:
    """In text by headings, in JSON by a field; --partition narrows."""
    table = _aged(PARTS, tmp_path / "t")
    facts = json.loads((PARTS / "step.json").read_text())
    lists = ["--validtxns", facts["valid_write_ids"], "--validtxns", facts["valid_txns"]]
    answer = acidctl("clean", str(table), *lists, "-o", "json").json()
    places = {victim["partition"] for victim in answer["victims"]}
    assert places
    assert all("=" in place for place in places)
    text = acidctl("clean", str(table), *lists, width=80).stdout
    assert all(f"{place}: " in text for place in places)
    one = sorted(places)[0]
    narrowed = acidctl("clean", str(table), *lists, "--partition", one, "-o", "json").json()
    assert {victim["partition"] for victim in narrowed["victims"]} == {one}
    flat = acidctl("clean", str(table), *lists).stdout
    assert any(line.startswith("PARTITION") for line in flat.splitlines())


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "clean needs a write-id list"),
        (("--as-of", "9"), "--as-of does not cover other readers"),
        (("--validtxns", WRITE_IDS), "a transaction list is needed"),
        (("--as-of", "9", "--assume-exclusive"), "a transaction list is needed"),
        (("--validtxns", WRITE_IDS, "--validtxns", "a.b:1:1:1:"), "of different tables"),
        (("--validtxns", ""), "--validtxns is empty"),
        (("--validtxns", "default.orders:x:1::"), "high watermark"),
        ((*LISTS, "--older-than", "soon"), "is not an age"),
        ((*LISTS, "--older-than", "0h"), "--unsafe-no-retention"),
        ((*LISTS, "--older-than", "-1h"), "is not an age"),
        ((*LISTS, "--delete", "--quarantine", "/x"), "exclude each other"),
        ((*LISTS, "--undo", "--delete"), "exclude each other"),
        ((*LISTS, "--yes"), "--yes answers the question of --delete"),
        ((*LISTS, "--quarantine", "INSIDE"), "inside the table"),
        ((*LISTS, "--quarantine", ""), "the directory of --quarantine is empty"),
        (("--validtxns", "9:8:8:6"), "What was given are transaction lists"),
        ((*LISTS, "--quarantine", "memory://x/y"), "is not on the storage"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(table: Path, args: tuple[str, ...], message: str) -> None:
    """Exit 2, one sentence, nothing on stdout, nothing changed."""
    before = names(table)
    words = [str(table / "visible") if word == "INSIDE" else word for word in args]
    result = acidctl("clean", str(table), *words)
    assert result.code == ExitCode.USAGE, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert names(table) == before


@pytest.mark.parametrize(("name", "code"), [("missing", ExitCode.NO_SUCH_TABLE), ("file", ExitCode.NOT_ACID)])
def test_what_is_no_table_is_refused(tmp_path: Path, name: str, code: ExitCode) -> None:
    """As by every other command."""
    (tmp_path / "file").write_text("x")
    assert clean(tmp_path / name).code == code


def test_an_empty_directory_is_an_empty_table(tmp_path: Path) -> None:
    """Nothing to remove, and no error."""
    result = clean(tmp_path, "--table", "default.orders")
    assert result.code == 0
    assert "There is nothing to remove." in result.stdout


def test_long_shows_guards_and_all_that_is_kept(table: Path) -> None:
    """For those who want to know."""
    text = clean(table, "--long", width=100).stdout
    assert all(f"G{number} holds:" in text for number in range(1, 10))
    assert "delta_0000008_0000008_0000" in text
    assert "write id 8 is still open for some reader" in text


def test_a_read_only_table_is_a_sentence(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may write anywhere, so the refusal is made here."""
    from acidctl.errors import StorageError
    from acidctl.storage.local import LocalStorage

    def refuse(self: LocalStorage, path: str, data: bytes, like: str | None = None) -> None:
        raise StorageError(f"{path} cannot be used: Permission denied", path=path)

    monkeypatch.setattr(LocalStorage, "create_exclusive", refuse)
    result = clean(table, "--delete", "--yes")
    assert result.code == ExitCode.STORAGE
    assert "Permission denied" in result.stderr
    assert names(table) >= GONE


@pytest.mark.hdfs
@pytest.mark.parametrize("skip", [False, True], ids=["trash", "skip-trash"])
@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_the_trash_of_a_real_hdfs(
    scheme: str, skip: bool, hdfs_cluster: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is deleted lies there whole, at its own path; with --skip-trash it is gone."""
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    host = hdfs_cluster.url if scheme == "hdfs" else hdfs_cluster.webhdfs
    config = tmp_path / "config.toml"
    config.write_text(f'[storage."{host}/"]\nconfig = {{ "fs.trash.interval" = 60 }}\n')
    home = f"/user/{hdfs_cluster.superuser}"
    root = f"/clean-{scheme}-{skip}"
    hdfs_cluster.put_tree(STEP / "table", root)
    hdfs_cluster.mkdir(home)
    before = hdfs_cluster.list(root)
    agreed = ("--unsafe-no-retention", "--delete", "--yes", "--config", str(config))
    try:
        result = acidctl(
            "clean",
            host + root,
            *LISTS,
            "--table",
            "default.orders",
            *agreed,
            *(("--skip-trash",) if skip else ()),
            "-o",
            "json",
        )
        assert result.code == 0, result.stderr
        assert {victim["name"] for victim in result.json()["victims"]} == GONE
        after = hdfs_cluster.list(root)
        gone = [path for path in before if path.removeprefix(root).split("/")[1] in GONE]
        assert len(gone) > len(GONE)
        assert sorted({*gone, *after}) == before
        assert not set(gone) & set(after)
        trash = f"{home}/.Trash/Current"
        kept = [path.removeprefix(trash) for path in hdfs_cluster.list(home)]
        assert [path for path in kept if path.startswith(f"{root}/")] == ([] if skip else gone)
    finally:
        hdfs_cluster.remove(root)
        hdfs_cluster.remove(home)
