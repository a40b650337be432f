"""`acidctl compact` over tables that real Hive has written: what it answers, what it leaves, what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from acidctl.compaction.plan import from_json
from acidctl.errors import UnreachableError
from acidctl.storage.local import LocalStorage
from tests.cli.runner import Result, acidctl, heed_interrupts
from tests.support.covering import Way, chosen_ways
from tests.support.evolved import dropped_columns
from tests.support.extent import EXTENT, SWEEP
from tests.support.steps import TABLES, Step

DEMO = TABLES / "hive4/demo_orders/03-demo"
PARTITIONED = TABLES / "hive4/partitioned/02-changed"
# A few that differ in kind are compacted at once; a covering array among the slow tests.
CHOSEN = {
    ("hive4/demo_orders/03-demo", "minor", "hive3"),
    ("hive4/partitioned/02-changed", "major", "hive4"),
    ("hive4/insert_only/02-aborted", "major", "hive4"),
    ("hive3/open_aborted/01-open", "major", "hive3"),
    ("hive2/v1_bucketed/02-changed", "major", "hive3"),
    # NULL unions, which no library writes by itself.
    ("hive3/types_nested/01-inserted", "minor", "hive3"),
    ("hive4/foreign_file/02-deleted", "major", "hive4"),
}
# Open writes and copied files leave less to compact there than names tell.
IDLE = {
    "hive2/v1_converted/02-changed",
    "hive3/streaming/05-minor",
    "hive4/streaming/01-first",
    "hive4/streaming/03-deleted",
    "hive4/streaming_partitioned/02-minor",
}
OUTCOMES = {
    "ds=2026-01-01/hr=1": "compacted",
    "ds=2026-01-01/hr=2": "nothing_to_do",
    "ds=2026-01-02/hr=1": "compacted",
}
# Hive 3 and 4 convert or match columns of older files differently: another target means that Hive's rows.
EVOLVED = ("evolved", "evolution", "evolution_converted", "renamed_column", "renamed_swapped", "v1_evolved")
ACTIONS = [{"compacted": "compact"}.get(outcome, outcome) for outcome in OUTCOMES.values()]
FORMS = ("text", "json", "jsonl", "csv")


def _lists(step: Path) -> list[str]:
    return Step(step).options


def _copy(step: Path, folder: Path) -> Path:
    """A table of its own, files as old as the recorded ones."""
    assert Step(step).facts  # which makes empty directories again
    table = folder / "table"
    shutil.copytree(step / "table", table)
    return table


def _compact(kind: str, table: Path, *args: str, width: int | None = None) -> Result:
    return acidctl("compact", kind, str(table), "--engine", "local", *args, width=width)


def _names(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.rglob("*")}


def _digest(table: Path, *args: str) -> str:
    result = acidctl("snapshot", str(table), *args, "--digest", "-o", "csv", "--no-header", "-q")
    assert result.code == 0, result.stderr
    return result.stdout


def _row_ids(table: Path, *args: str) -> str:
    """Which rows there are, whatever is in them."""
    rows = acidctl("snapshot", str(table), *args, "--row-id", "-o", "jsonl", "-q").json_lines()
    return str(sorted(tuple(row["ROW__ID"].values()) for row in rows))


def _id(step: Path) -> str:
    return "/".join(step.parts[-3:])


def _ways() -> list[Any]:
    """A covering array, and those that differ most among the fast tests; in a sweep all steps in all ways."""
    first = [Way(Step(TABLES / name), kind, target, None) for name, kind, target in sorted(CHOSEN)]
    others = [way for way in chosen_ways(each_scenario=EXTENT == "check") if way not in first]
    return [
        *(pytest.param(way, id=str(way)) for way in first),
        *(pytest.param(way, id=str(way), marks=pytest.mark.slow) for way in others),
    ]


@pytest.mark.parametrize("way", _ways())
def test_a_compaction_changes_no_row(way: Way, tmp_path: Path) -> None:
    """Rows and row ids stay, nothing is removed, nothing of ours is left, and a second run has nothing to do."""
    step = way.step
    table, lists = _copy(step.folder, tmp_path), [*step.options, "--schema", step.facts["ddl"]]
    hive_changes = (step.engine == "hive4") != (way.target == "hive4")
    view = _row_ids if step.folder.parent.name in EVOLVED and hive_changes else _digest
    before, names = view(table, *lists), _names(table)
    args = [*lists, "--target", way.target, "--assume-exclusive", "-q", "-o", "json"]
    args += dropped_columns(step.folder, way.target)
    args += ["--compression", way.codec] if way.codec else []
    result = _compact(way.kind, table, *args)
    assert result.code in (0, 3), result.stderr
    report = result.json()
    assert view(table, *lists) == before
    after = _names(table)
    assert names <= after
    assert not [name for name in after if "_acidctl" in name]
    outcomes = {part["partition"]: part["outcome"] for part in report["partitions"]}
    assert "failed" not in outcomes.values(), report
    assert SWEEP or "compacted" in outcomes.values() or str(step) in IDLE
    made = {os.path.join(part["partition"], name) for part in report["partitions"] for name in part["outputs"]}
    assert {name for name in after - names if not Path(name).suffix and (table / name).is_dir()} == made
    for part in report["partitions"]:
        assert (part["outcome"] == "compacted") == bool(part["outputs"]) == bool(part["verified"])
        assert part["outcome"] == "compacted" or part["reason_code"]
    again = _compact(way.kind, table, *args)
    assert again.code == (3 if "refused" in outcomes.values() else 0), again.stderr
    expected = {p: "nothing_to_do" if o == "compacted" else o for p, o in outcomes.items()}
    assert {part["partition"]: part["outcome"] for part in again.json()["partitions"]} == expected
    assert _names(table) == after


# --- answers


@pytest.mark.parametrize("form", FORMS)
def test_the_report_in_every_form(form: str, tmp_path: Path) -> None:
    """What was read, written and proved."""
    table = _copy(PARTITIONED, tmp_path)
    result = _compact("major", table, *_lists(PARTITIONED), "-o", form)
    assert result.code == 0, result.stderr
    if form == "text":
        assert "major compaction for Hive 4: 2 compacted, 1 nothing to do" in result.stdout
        assert "BEFORE" in result.stdout
        return
    if form == "csv":
        parts: list[Any] = _rows(result)
    else:
        parts = result.json()["partitions"] if form == "json" else result.json_lines()
    found = {part["partition"]: part for part in parts}
    assert {name: part["outcome"] for name, part in found.items()} == OUTCOMES
    assert sum(int(part["rows_out"] or 0) for part in found.values()) == 3
    if form == "json":
        answer = result.json()
        assert (answer["type"], answer["schema_version"], answer["kind"]) == ("compaction_report", 1, "major")
        assert answer["summary"]["directories_out"] == 2
        assert answer["engine"] == "local"
        part = found["ds=2026-01-01/hr=1"]
        assert part["verified"]["rows"] == part["rows_out"]
        assert part["bytes_in"] == sum(
            file.stat().st_size
            for name in part["inputs"]
            for file in (table / part["partition"] / name).iterdir()
            if not file.name.startswith("_")
        )


def _rows(result: Result) -> list[dict[str, str]]:
    header, *rows = result.csv()
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("step", [DEMO, PARTITIONED], ids=_id)
def test_text_fits_the_terminal(step: Path, width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan and report, of one location and of several; nothing but a long name runs over."""
    _copy(step, tmp_path)
    monkeypatch.chdir(tmp_path)
    for args in (("-n",), (), ()):
        result = _compact("major", Path("table"), *_lists(step), *args, width=width)
        assert result.code == 0, result.stderr
        assert max(map(len, result.stdout.splitlines())) <= width, result.stdout
    assert "nothing to do" in result.stdout


def test_a_ticket_has_it_all(tmp_path: Path) -> None:
    """Before and after: directories, files, bytes, rows, deletes applied, time; what was verified; what comes next."""
    table = _copy(DEMO, tmp_path)
    result = _compact("major", table, *_lists(DEMO))
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["directories", "5", "1"] in lines
    assert "result: base_0000007" in result.stdout
    for word in (
        "files",
        "bytes",
        "rows",
        "deletes applied",
        "verified:",
        "digest",
        "acidctl clean",
        " s by the local",
    ):
        assert word in result.stdout


# --- plans


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    """Text for eyes, and as JSON the very plan that `--plan` takes."""
    table = _copy(PARTITIONED, tmp_path)
    names = _names(table)
    text = _compact("major", table, *_lists(PARTITIONED), "-n")
    assert (text.code, _names(table)) == (0, names)
    assert "nothing has been changed" in text.stdout
    assert "base_0000004" in text.stdout
    answer = _compact("major", table, *_lists(PARTITIONED), "-n", "-o", "json")
    assert _names(table) == names
    plan = from_json(answer.json())
    assert [part.action.value for part in plan.partitions] == ACTIONS
    saved = tmp_path / "plan.json"
    saved.write_text(answer.stdout)
    done = _compact("major", table, "--plan", str(saved), "-o", "json")
    assert done.code == 0, done.stderr
    assert [part["outcome"] for part in done.json()["partitions"]] == list(OUTCOMES.values())


@pytest.mark.parametrize(
    ("kind", "step", "more", "code"),
    [
        ("minor", DEMO, (), 3),  # needs_two_renames
        ("minor", DEMO, ("--assume-exclusive",), 0),
        ("major", PARTITIONED, (), 0),
        ("major", PARTITIONED, ("--max-partitions", "1"), 3),
        ("major", PARTITIONED, ("--max-bytes", "1"), 3),
        ("major", PARTITIONED, ("--only-if-needed",), 0),
    ],
)
def test_a_dry_run_ends_as_the_run_would(
    kind: str, step: Path, more: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    """3 where something is refused or left, 0 with work to do or without, in every form: a script can rely on it."""
    table = _copy(step, tmp_path)
    given = ("--assume-committed", *more)
    dry = [_compact(kind, table, *given, "-n", *form) for form in ((), ("-o", "json"), ("-o", "csv"))]
    dry.append(_compact(kind, table, *given, "--plan-out", str(tmp_path / "plan.json")))
    assert [result.code for result in dry] == [code] * 4
    assert _compact(kind, table, "--assume-exclusive", "--plan", str(tmp_path / "plan.json")).code == code
    assert all(part["action"] != "refused" for part in dry[1].json()["partitions"]) == (code == 0)


@pytest.mark.slow
def test_a_dry_run_ends_as_the_run_would_where_a_partition_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of several: exit 3, and the others are planned; it alone: exit 14."""
    lost, opened = "ds=2026-01-02/hr=1", LocalStorage.open

    def unreachable(storage: LocalStorage, path: str) -> BinaryIO:
        if f"{lost}/delta_" in path:
            raise UnreachableError(f"{path} cannot be reached", path=path)
        return opened(storage, path)

    monkeypatch.setattr(LocalStorage, "open", unreachable)
    table = _copy(PARTITIONED, tmp_path)
    args = ("-o", "json", *_lists(PARTITIONED))
    for more in (("-n",), ("--plan-out", str(tmp_path / "plan")), ()):
        result = _compact("major", table, *args, *more)
        assert result.code == 3, (more, result)
        bad = next(part for part in result.json()["partitions"] if part["partition"] == lost)
        assert bad["reason_code"] == "unreachable"
        alone = _compact("major", table, *args, *more, "--partition", lost)
        assert (alone.code, alone.error()["code"]) == (14, "unreachable")


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_plan_as_lines(form: str, tmp_path: Path) -> None:
    """A line a partition."""
    table = _copy(PARTITIONED, tmp_path)
    result = _compact("major", table, *_lists(PARTITIONED), "-n", "-o", form)
    parts = result.json_lines() if form == "jsonl" else _rows(result)
    assert [part["action"] for part in parts] == ACTIONS


def test_a_saved_plan_is_carried_out_once(tmp_path: Path) -> None:
    """`--plan-out` changes nothing; `--plan` carries it out; once more there is nothing to do."""
    table, plan = _copy(DEMO, tmp_path), tmp_path / "plan.json"
    names = _names(table)
    saved = _compact("major", table, *_lists(DEMO), "--plan-out", str(plan))
    assert (saved.code, _names(table)) == (0, names)
    assert _compact("major", table, "--plan", str(plan)).code == 0
    after = _names(table)
    again = _compact("major", table, "--plan", str(plan), "-o", "json")
    assert again.code == 0, (again.stdout, again.stderr)
    assert again.json()["partitions"][0]["outcome"] == "nothing_to_do"
    assert _names(table) == after


@pytest.mark.slow
def test_a_plan_whose_input_has_changed_is_stale(tmp_path: Path) -> None:
    """Another file in the place of an input: exit 15, with what to do."""
    table, plan = _copy(DEMO, tmp_path), tmp_path / "plan.json"
    assert _compact("major", table, *_lists(DEMO), "--plan-out", str(plan)).code == 0
    read = json.loads(plan.read_text())["partitions"][0]["inputs"][0]
    os.utime(table / read["files"][0]["path"], (1, 1))
    names = _names(table)
    result = _compact("major", table, "--plan", str(plan), "-o", "json")
    assert result.code == 15
    assert result.json()["partitions"][0]["reason_code"] == "stale_plan"
    assert result.json()["partitions"][0]["hint"]
    assert _names(table) == names


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda plan: "{", "is not JSON"),
        (lambda plan: "[]", "not a compaction_plan"),
        (lambda plan: json.dumps({**plan, "type": "compaction_report"}), "is a compaction_report"),
        (lambda plan: json.dumps({**plan, "schema_version": 9}), "schema version 9"),
        (lambda plan: json.dumps({**plan, "partitions": [{"partition": 5}]}), "damaged at plan.partitions[0]"),
        (lambda plan: json.dumps({**plan, "location": "/elsewhere"}), "the plan is for /elsewhere"),
        (lambda plan: json.dumps({**plan, "kind": "minor"}), "is for a minor compaction"),
        (lambda plan: json.dumps({**plan, "assume_exclusive": True}), "nobody else uses"),
    ],
)
def test_what_is_no_plan_for_this_is_refused(
    change: Callable[[dict[str, Any]], str], said: str, tmp_path: Path
) -> None:
    """Exit 2 and one sentence; where it was a plan, that it was edited comes first."""
    table, saved = _copy(DEMO, tmp_path), tmp_path / "plan.json"
    plan = _compact("major", table, *_lists(DEMO), "-n", "-o", "json").json()
    text = change(plan)
    saved.write_text(text)
    names = _names(table)
    result = _compact("major", table, "--plan", str(saved), "--accept-edited")
    assert (result.code, result.stdout) == (2, "")
    assert said in result.stderr
    result = _compact("major", table, "--plan", str(saved), "-o", "json")
    assert (result.code, result.stdout) == (15 if '"hash"' in text else 2, "")
    assert _names(table) == names


# --- bad input


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "--assume-committed"),
        (("--as-of", "9"), "--assume-committed"),
        (("--validtxns", "default.orders:9:8:8:6", "--table", "default.orders"), "--assume-committed"),
        (("--assume-committed", "--target", "hive3", "--visibility-txn", "30"), "hive3"),
        (("--assume-committed", "--spark-conf", "executor.memory=4g"), "is not a Spark setting"),
        (("--assume-committed", "--spark-conf", "spark.executor.memory"), "is not a Spark setting"),
        (("--assume-committed", "--engine", "local", "--master", "yarn"), "cannot be combined with --engine local"),
        (("--assume-committed", "--memory", "plenty"), "is not a size"),
        (("--assume-committed", "--master", "local[0]"), "gives Spark no core"),
        (("--assume-committed", "--max-runtime", "soon"), "is not a duration"),
        (("--assume-committed", "--max-runtime", "0s"), "is not a duration"),
        (("--assume-committed", "--max-partitions", "0"), "not in the range"),
        (("--assume-committed", "--delta-pct-threshold", "ten"), "is not a fraction"),
        (("--assume-committed", "--run-log", "/no/such/folder/log"), "cannot be written"),
        (("--plan", "x", "--max-partitions", "3"), "--plan cannot be combined"),
        (("--assume-committed", "--max-bytes", "0"), "is not a size"),
        (("--assume-committed", "--parallelism", "0"), "not in the range"),
        (("--assume-committed", "--visibility-txn", "9223372036854775807"), "is not a transaction id"),
        (("--assume-committed", "--visibility-txn", "99999999999999999999"), "is not a transaction id"),
        (("--validtxns", "9:8:8:6"), "db.table:20:"),
        (("--assume-committed", "--accept-edited"), "--accept-edited is about the plan"),
        (("--plan", "x", "-n"), "--plan cannot be combined with --dry-run or --plan-out"),
        (("--plan", "x", "--target", "hive3"), "--plan cannot be combined"),
        (("--plan", "x", "--as-of", "5"), "--plan cannot be combined"),
        (("--plan", "/no/such/plan"), "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused(args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """Usage errors are exit 2, one sentence and a remedy; the table is as it was."""
    table = _copy(DEMO, tmp_path)
    names = _names(table)
    for form in ("text", "json"):
        result = acidctl("compact", "major", str(table), *args, "-o", form)
        assert (result.code, result.stdout) == (2, "")
        assert said in result.stderr
    assert _names(table) == names


def test_safety_comes_from_the_command_line_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the environment nor a configuration file can agree to a risk."""
    table = _copy(DEMO, tmp_path)
    for name in ("ACIDCTL_ASSUME_COMMITTED", "ACIDCTL_COMPACT_ASSUME_COMMITTED"):
        monkeypatch.setenv(name, "1")
    assert acidctl("compact", "major", str(table), "-n").code == 2
    config = tmp_path / "config.toml"
    config.write_text("[options.compact]\nassume-committed = true\n")
    result = acidctl("compact", "major", str(table), "-n", "--config", str(config))
    assert result.code == 2
    assert "command line only" in result.stderr


def test_a_damaged_input_publishes_nothing(tmp_path: Path) -> None:
    """A truncated file is exit 13, and the table is as it was."""
    table = _copy(DEMO, tmp_path)
    live = _compact("major", table, *_lists(DEMO), "-n", "-o", "json").json()
    victim = table / live["partitions"][0]["inputs"][0]["files"][0]["path"]
    victim = next(f for f in sorted(victim.parent.iterdir()) if not f.name.startswith("_"))
    victim.write_bytes(victim.read_bytes()[:-7])
    names = _names(table)
    result = _compact("major", table, *_lists(DEMO))
    assert result.code == 13, (result.stdout, result.stderr)
    assert str(victim) in result.stdout + result.stderr
    assert _names(table) == names


@pytest.mark.slow
def test_corrupt_data_publishes_nothing(tmp_path: Path) -> None:
    """Whole tail, broken stripe: found while the rows are read."""
    table = _copy(DEMO, tmp_path)
    live = _compact("major", table, *_lists(DEMO), "-n", "-o", "json").json()
    victim = table / next(
        file["path"] for entry in live["partitions"][0]["inputs"] for file in entry["files"] if "bucket" in file["path"]
    )
    data = bytearray(victim.read_bytes())
    data[3 : len(data) // 3] = bytes(len(data) // 3 - 3)
    victim.write_bytes(bytes(data))
    names = _names(table)
    result = _compact("major", table, *_lists(DEMO), "-o", "json")
    assert result.code == 13, (result.stdout, result.stderr)
    assert _names(table) == names


def test_one_damaged_partition_does_not_stop_the_others(tmp_path: Path) -> None:
    """The others are compacted, that one is reported: exit 3."""
    table = _copy(PARTITIONED, tmp_path)
    victim = sorted((table / "ds=2026-01-02/hr=1").glob("delta_*/bucket_*"))[0]
    victim.write_bytes(victim.read_bytes()[:-7])
    result = _compact("major", table, *_lists(PARTITIONED), "-o", "json")
    assert result.code == 3, result.stderr
    outcomes = {part["partition"]: part["outcome"] for part in result.json()["partitions"]}
    assert outcomes.pop("ds=2026-01-02/hr=1") in ("failed", "refused")
    assert list(outcomes.values()) == ["compacted", "nothing_to_do"]


def test_overlapping_ranges_are_refused(tmp_path: Path) -> None:
    """Two deltas that overlap without one holding the other: exit 3, with the names."""
    table = _copy(DEMO, tmp_path)
    source = next(table.glob("delta_0000007_*"))
    for name in ("delta_0000005_0000007", "delta_0000006_0000009"):
        shutil.copytree(source, table / name)
    names = _names(table)
    lists = ("--validtxns", "default.orders:9:9223372036854775807::", "--table", "default.orders")
    result = _compact("major", table, *lists, "--assume-committed")
    assert result.code == 3, result.stderr
    assert "delta_0000005_0000007" in result.stdout
    assert _names(table) == names


def test_an_id_above_the_watermark_of_its_delta(tmp_path: Path) -> None:
    """A delta whose rows claim a later write than its name is doubtful; accepted, it is damage."""
    table = _copy(DEMO, tmp_path)
    (table / "delta_0000007_0000007_0001").rename(table / "delta_0000005_0000005_0009")
    names = _names(table)
    result = _compact("major", table, *_lists(DEMO), "-o", "json")
    assert result.code == 3, (result.stdout, result.stderr)
    assert result.json()["partitions"][0]["reason_code"] == "foreign_write_id"
    result = _compact("major", table, *_lists(DEMO), "-o", "json", "--accept-doubts", "foreign_write_id")
    assert result.code == 13, (result.stdout, result.stderr)
    assert _names(table) == names


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, as pytest's are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_table_that_may_not_be_written(open_folder: Path) -> None:
    """Permissions: exit 14, one sentence that says who may."""
    table = _copy(DEMO, open_folder)
    me, names = os.geteuid(), _names(table)
    table.chmod(0o555)
    if me == 0:  # root may do everything
        os.seteuid(65534)
    try:
        result = _compact("major", table, *_lists(DEMO))
    finally:
        os.seteuid(me)
        table.chmod(0o755)
    assert result.code == 14, (result.stdout, result.stderr)
    assert "Permission denied" in result.stdout
    assert "hint: Run as a user that may" in result.stdout
    assert _names(table) == names


def test_a_read_only_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the storage refuses is the reason of the failure: exit 14, nothing left."""
    from acidctl.errors import StorageError
    from acidctl.storage.local import LocalStorage

    def refuse(self: LocalStorage, path: str, data: bytes, like: str | None = None) -> None:
        raise StorageError(f"{path} cannot be used: Read-only file system", path=path)

    table = _copy(DEMO, tmp_path)
    names = _names(table)
    monkeypatch.setattr(LocalStorage, "create_exclusive", refuse)
    result = _compact("major", table, *_lists(DEMO), "-o", "json")
    assert result.code == 14
    assert "Read-only file system" in result.json()["partitions"][0]["reason"]
    assert _names(table) == names


def test_a_minor_of_two_results_needs_nobody_else(tmp_path: Path) -> None:
    """Without a visibility transaction and without --assume-exclusive: refused, with the remedy."""
    table = _copy(TABLES / "hive4/bucketed/02-changed", tmp_path)
    lists = _lists(TABLES / "hive4/bucketed/02-changed")
    names = _names(table)
    refused = _compact("minor", table, *lists, "-o", "json")
    assert refused.code == 3, refused.stderr
    assert refused.json()["partitions"][0]["reason_code"] == "needs_two_renames"
    assert "--assume-exclusive" in json.dumps(refused.json())
    assert _names(table) == names
    done = _compact("minor", table, *lists, "-o", "json", "--assume-exclusive")
    assert done.code == 0, done.stderr
    assert len(done.json()["partitions"][0]["outputs"]) == 2


@pytest.mark.slow
def test_max_bytes_leaves_the_rest_for_later(tmp_path: Path) -> None:
    """Runs with a bound come to an end: each takes what fits, and says what it left."""
    table = _copy(PARTITIONED, tmp_path)
    plan = from_json(_compact("major", table, *_lists(PARTITIONED), "-n", "-o", "json").json())
    most = max(part.bytes_in for part in plan.partitions)
    args = (*_lists(PARTITIONED), "--max-bytes", str(most), "-o", "json")
    left = 2
    for _ in range(2):
        result = _compact("major", table, *args)
        report = result.json()
        outcomes = [part["outcome"] for part in report["partitions"]]
        assert outcomes.count("compacted") >= 1
        assert report["summary"]["bytes_in"] <= most
        left -= outcomes.count("compacted")
        assert result.code == (3 if left else 0)
        if not left:
            break
    assert left == 0


# --- interrupts


@contextmanager
def _running(table: Path, *args: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process of its own, once its work directory is there."""
    code = (
        "import sys, time\n"
        "from acidctl.engine import local\n"
        "work = local.LocalEngine.run\n"
        "def slow(self, specs):\n"
        "    for outcome in work(self, specs):\n"
        "        yield outcome\n"
        "        time.sleep(30)\n"
        "local.LocalEngine.run = slow\n"
        "from acidctl.cli.main import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "compact", "major", str(table), "--engine", "local", *args]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heed_interrupts, cwd=TABLES.parent.parent
    )
    try:
        ends = time.monotonic() + 30
        while not list(table.glob("_acidctl_work_*/attempts/*")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < ends
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_the_table_as_it_was(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM: exit 130, work directory and lock are gone, the next run completes."""
    table = _copy(DEMO, tmp_path)
    names = _names(table)
    with _running(table, *_lists(DEMO)) as process:
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert _names(table) == names
    assert _compact("major", table, *_lists(DEMO)).code == 0


@pytest.mark.slow
def test_a_killed_run_is_cleaned_up_by_the_next(tmp_path: Path) -> None:
    """kill -9: lock and work directory stay behind, the rows too; the next run takes them away and says so."""
    table = _copy(DEMO, tmp_path)
    names, digest = _names(table), _digest(table, *_lists(DEMO))
    with _running(table, *_lists(DEMO)) as process:
        process.kill()
        process.communicate()
    assert _names(table) > names
    assert _digest(table, *_lists(DEMO)) == digest
    result = _compact("major", table, *_lists(DEMO), "-o", "json")
    assert result.code == 0, result.stderr
    assert result.json()["partitions"][0]["outcome"] == "compacted"
    assert not list(table.glob("_acidctl*"))
    assert _digest(table, *_lists(DEMO)) == digest


@pytest.mark.slow
def test_a_second_run_on_the_same_table_loses(tmp_path: Path) -> None:
    """While one is at work another one is told so: exit 15; the first goes on."""
    table = _copy(DEMO, tmp_path)
    with _running(table, *_lists(DEMO)) as process:
        result = _compact("major", table, *_lists(DEMO), "-o", "json")
        assert result.code == 15, (result.stdout, result.stderr)
        assert str(process.pid) in result.json()["partitions"][0]["reason"]
        assert process.poll() is None


def test_plans_are_values() -> None:
    """A report of one kind is no plan of another."""
    from acidctl.compaction.report import CompactionReport, Outcome, PartitionReport
    from acidctl.errors import ExitCode
    from acidctl.state.report import to_json

    compacted = PartitionReport("a", Outcome.COMPACTED)
    refused = PartitionReport("b", Outcome.REFUSED, "x")
    failed = PartitionReport("c", Outcome.FAILED, "storage", exit_code=ExitCode.STORAGE)
    wrong = PartitionReport("d", Outcome.FAILED, "verification_failed", exit_code=ExitCode.DAMAGED)
    report = CompactionReport("/t", "major", "hive4", "local", None, (), (), 1.0)
    for parts, code in (
        ((compacted,), 0),
        ((compacted, refused), 3),
        ((failed,), 14),
        ((failed, failed), 14),
        ((failed, compacted), 3),
        ((failed, refused), 3),
        ((wrong, compacted), 13),
        ((PartitionReport("e", Outcome.NOTHING_TO_DO, "y"),), 0),
        ((), 0),
    ):
        assert replace(report, partitions=parts).exit_code == code
    values = to_json(replace(report, partitions=(compacted, refused)))
    assert values["summary"]["outcomes"] == {"compacted": 1, "refused": 1}
    assert json.loads(json.dumps(values)) == values


ORDERS = "id int, customer string, amount decimal(8,2), status string"
DDL = "CREATE TABLE orders ({}) STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.mark.parametrize(
    ("columns", "lost"),
    [
        ("id int, customer string", ("amount", "status")),
        ("id int, customer int, amount decimal(8,2), status string", ("customer",)),
        ("id int, customer varchar(3), amount decimal(7,2), status string", ("customer", "amount")),
    ],
)
@pytest.mark.parametrize("form", ["{}", pytest.param(DDL, marks=pytest.mark.slow)])
def test_columns_that_cost_values_are_refused_unless_named(
    columns: str, lost: tuple[str, ...], form: str, tmp_path: Path
) -> None:
    """A DDL of an earlier day loses columns as a slip of the hand does; nothing is written."""
    table = shutil.copytree(DEMO / "table", tmp_path / "orders")
    before = _digest(table, *_lists(DEMO))
    args = ("compact", "major", str(table), *_lists(DEMO), "--schema", form.format(columns), "-o", "json")
    for some in (lost[1:], ()):
        named = ("--drop-columns", ",".join(some)) if some else ()
        result = acidctl(*args, *named)
        part = result.json()["partitions"][0]
        assert (result.code, part["outcome"], part["reason_code"]) == (3, "refused", "schema_loses")
        assert f"--drop-columns '{','.join(name for name in lost if name not in some)}'" in part["reason"]
    assert _digest(table, *_lists(DEMO)) == before
    assert not list(table.glob("base_*"))
    result = acidctl(*args, "--drop-columns", ",".join(lost).upper(), "-n")
    assert result.json()["partitions"][0]["action"] == "compact"
    assert any("dropped for good" in note and lost[0] in note for note in result.json()["notes"])
    done = acidctl(*args, "--drop-columns", ",".join(lost))
    assert done.json()["partitions"][0]["outcome"] == "compacted"
    # A second run has nothing to do, whatever is named.
    assert acidctl(*args, "--drop-columns", ",".join(lost)).code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--schema", ORDERS, "--drop-columns", "amount"), "it keeps all that the files hold"),
        (("--schema", "id int", "--drop-columns", "customer,amount,status,id"), "names id"),
        (("--schema", "id int", "--drop-columns", "customer,amount,status,stauts"), "names stauts"),
        (("--drop-columns", "amount"), "--drop-columns needs --schema"),
        (("--schema", ORDERS, "--drop-columns", "amount,,id"), "leaves a name empty"),
        (("--schema", ORDERS, "--drop-columns", ""), "leaves a name empty"),
    ],
)
def test_a_name_that_stands_for_no_loss(args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    """A slip in --drop-columns is a usage error."""
    table = shutil.copytree(DEMO / "table", tmp_path / "orders")
    result = acidctl("compact", "major", str(table), *_lists(DEMO), *args, "-n")
    assert result.code == 2
    assert said in result.stderr


def test_a_full_table_called_insert_only_is_refused(tmp_path: Path) -> None:
    """Before any work: its files hold events, and deletes would be taken for nothing."""
    table = shutil.copytree(DEMO / "table", tmp_path / "orders")
    result = acidctl("compact", "major", str(table), *_lists(DEMO), "--table-type", "insert-only", "-o", "json")
    part = result.json()["partitions"][0]
    assert (result.code, part["outcome"], part["reason_code"]) == (3, "refused", "delete_delta_in_insert_only")
    more = ("--accept-doubts", "delete_delta_in_insert_only")
    result = acidctl("compact", "major", str(table), *_lists(DEMO), "--table-type", "insert-only", "-o", "json", *more)
    part = result.json()["partitions"][0]
    assert (result.code, part["outcome"], part["reason_code"]) == (3, "refused", "ambiguous_table_type")
    assert not [name for name in os.listdir(table) if name.startswith("_acidctl")]


# --- many partitions


@pytest.mark.slow
def test_many_partitions_have_a_line_each(tmp_path: Path) -> None:
    """Plan and report name as many as --limit says, count the rest by what became of them, and fit the terminal."""
    assert Step(DEMO).facts
    table = tmp_path / "table"
    for number in range(12):
        shutil.copytree(DEMO / "table", table / f"ds={number:02}")
    args = (*_lists(DEMO), "--max-partitions", "7", "--limit", "5")
    plan = _compact("major", table, *args, "-n")
    assert "ds=04" in plan.stdout
    assert "ds=05" not in plan.stdout
    assert "... and 7 more (--limit 0 names all)" in plan.stdout
    assert "5 partitions: left for a later run (--max-partitions)." in plan.stdout
    assert "ds=11" in _compact("major", table, *args[:-1], "0", "-n").stdout
    done = _compact("major", table, *args)
    assert done.code == 3
    assert "7 compacted, 5 left for later" in done.stdout
    assert "... and 2 more (--limit 0 names all)" in done.stdout
    again = _compact("major", table, *_lists(DEMO), "--only-if-needed", "-o", "json")
    assert again.code == 0
    assert [part["reason_code"] for part in again.json()["partitions"]] == ["not_enough"] * 7 + ["not_needed"] * 5


def test_nothing_to_do_names_no_hive(tmp_path: Path) -> None:
    """Which Hive it would have been for, nobody has looked."""
    step = TABLES / "hive3/open_aborted/01-open"
    table = _copy(step, tmp_path)
    args = (*_lists(step), "--only-if-needed")
    assert "for Hive" not in _compact("major", table, *args).stdout
    assert "for Hive" not in _compact("major", table, *args, "-n").stdout


def test_verbose_says_where_the_time_went(tmp_path: Path) -> None:
    """Seconds by phase stand in the text of -v and in the JSON report, and nowhere else."""
    seen = []
    for number, more in enumerate((["-v"], [], ["-o", "json"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        seen.append(_compact("major", _copy(DEMO, folder), *_lists(DEMO), *more).stdout)
    assert "time of all threads: list 0." in seen[0]
    assert "time of all threads" not in seen[1]
    phases = json.loads(seen[2])["phases"]
    assert list(phases) == ["list", "footers", "read", "merge", "encode", "deflate", "verify", "publish"]
    assert all(seconds > 0 for name, seconds in phases.items() if name != "deflate")
