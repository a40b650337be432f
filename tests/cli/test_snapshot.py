"""`acidctl snapshot`: plan, numbers and rows in every form, exports, and what it refuses."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from acidctl.errors import ExitCode
from tests import ROOT
from tests.cli.runner import Result, acidctl

HIVE4 = ROOT / "fixtures/tables/hive4"
DEMO = HIVE4 / "demo_orders/03-demo"
PARTITIONED = HIVE4 / "partitioned/03-one-compacted"
INSERT_ONLY = HIVE4 / "insert_only/02-aborted"
MANY = HIVE4 / "many_rows"
FORMS = ("text", "json", "jsonl", "csv")
MACHINE = FORMS[1:]
ROWS = [
    {"id": 2, "v": "b", "ds": "2026-01-01", "hr": "1"},
    {"id": 1, "v": "x", "ds": "2026-01-01", "hr": "1"},
    {"id": 3, "v": "c", "ds": "2026-01-01", "hr": "2"},
    {"id": 4, "v": "x", "ds": "2026-01-02", "hr": "1"},
]
IDS = [(1, 536870912, 0), (3, 536936449, 0), (2, 536870912, 0), (3, 536936449, 0)]


def _run(step: Path, *options: str, width: int | None = None, color: bool = False) -> Result:
    facts = json.loads((step / "step.json").read_text())
    # Without the table's name, which is not that of a fixture's directory and would be warned about.
    _, _, write_ids = facts["valid_write_ids"].partition(":")
    lists = ("--validtxns", f"null:{write_ids}", "--validtxns", facts["valid_txns"])
    return acidctl("snapshot", f"{step}/table", *lists, *options, width=width, color=color)


def _answer(step: Path, *options: str, width: int | None = None) -> Result:
    """A run that succeeds and has nothing to say."""
    result = _run(step, *options, width=width)
    assert (result.code, result.stderr) == (0, "")
    return result


def _copy(step: Path, target: Path) -> Path:
    shutil.copytree(step / "table", target)
    return target


# --- text


@pytest.mark.parametrize("width", [80, 200])
def test_text_shows_plan_count_and_rows(width: int) -> None:
    """What is read and what is not, why, how many rows, the rows; no line but a long path is too wide."""
    lines = _answer(DEMO, "--row-id", width=width).stdout.split("\n")
    assert max(len(line) for line in lines if line != f"{DEMO}/table") <= width
    read = [line.split()[1] for line in lines if line.startswith("  read")]
    assert read[0] == "delete_delta_0000001_0000004_v0000009"
    assert len(read) == 6
    text = " ".join(" ".join(lines).split())
    assert "delta_0000006_0000006_0000 write id 6 was aborted" in text
    assert "delta_0000008_0000008_0000 write id 8 is still open for this reader" in text
    start = lines.index("7 rows")
    assert lines[start + 1].split() == ["ROW__ID", "id", "customer", "amount", "status"]
    assert lines[start + 2].split() == ["2,536870912,1", "7", "Alan", "13.37", "new"]
    assert len(lines[start + 2 : -1]) == 7


def test_wide_text_has_the_reason_in_the_line() -> None:
    """With room the reason stands beside the directory, below it otherwise."""
    line = "  aborted   delta_0000006_0000006_0000             write id 6 was aborted"
    assert line in _answer(DEMO, width=200).stdout.split("\n")
    assert "    write id 6 was aborted" in _answer(DEMO, width=80).stdout.split("\n")


def test_text_of_partitions() -> None:
    """Each partition has its plan; the rows have the partition columns."""
    text = _answer(PARTITIONED, width=80).stdout
    assert [line for line in text.split("\n") if line.startswith("ds=")] == [
        "ds=2026-01-01/hr=1",
        "ds=2026-01-01/hr=2",
        "ds=2026-01-02/hr=1",
    ]
    assert text.split("4 rows\n")[1].split("\n")[:2] == ["id  v  ds          hr", " 2  b  2026-01-01   1"]


def test_text_shows_the_first_rows_only() -> None:
    """Twenty rows of many, or as many as asked for; the count is always of all."""
    step = sorted(MANY.iterdir())[0]
    total = json.loads((step / "step.json").read_text())["rows"]
    assert f"{total:,} rows, the first 20:" in _answer(step).stdout
    assert len(_answer(step).stdout.split("first 20:\n")[1].split("\n")) == 22
    assert len(_answer(step, "--limit", "3").stdout.split("first 3:\n")[1].split("\n")) == 5
    assert _answer(step, "--limit", "0").stdout.endswith(f"\n{total:,} rows\n")


def test_columns_leave_where_the_terminal_is_narrow() -> None:
    """Rows stay in their lines; the first column always stays."""
    rows = _answer(DEMO, "--row-id", width=30).stdout.split("7 rows\n")[1].split("\n")
    assert all(len(row) <= 30 for row in rows)
    assert rows[0].startswith("ROW__ID")


def test_columns_for_which_there_is_no_room_are_named(tmp_path: Path) -> None:
    """Long values show their beginning; what was asked for by name stays, whatever the width."""
    rows = {"id": [1, 2], "comment": ["x" * 90, "ok"], "status": ["new", "paid"], "later": ["y" * 39, ""]}
    orc.write_table(pa.table(rows), tmp_path / "000000_0")
    narrow = acidctl("snapshot", str(tmp_path), width=80).stdout.splitlines()
    head = next(line for line in narrow if line.startswith("id"))
    assert head.split() == ["id", "comment", "status"]
    assert f"{'x' * 39}…  new" in "\n".join(narrow)
    assert narrow[-1] == "... and 1 more column, chosen by --columns: later"
    assert all(len(line) <= 80 for line in narrow[1:])
    chosen = acidctl("snapshot", str(tmp_path), "--columns", "later,comment,status", width=60).stdout.splitlines()
    assert next(line for line in chosen if line.startswith("later")).split() == ["later", "comment", "status"]
    assert "more column" not in chosen[-1]
    piped = acidctl("snapshot", str(tmp_path)).stdout
    assert "x" * 90 in piped
    assert "more column" not in piped


def test_what_was_not_understood_is_told(tmp_path: Path) -> None:
    """In every form, -q or not; as Hive 4 it fails as Hive 4 does."""
    table = _copy(DEMO, tmp_path / "t")
    (table / "delta_0000008_0000008_0000").rename(table / "delta_0000008_0000008_0000_x")
    for options in (("--count", "-o", "json"), ("-o", "jsonl"), ("--to", str(tmp_path / "o.csv")), ("--files",)):
        result = acidctl("snapshot", str(table), "-q", *options)
        assert result.code == ExitCode.FINDINGS
        assert "warning: 1 entry was not recognised; no reader uses them: delta_0000008_0000008_0000_x\n" in (
            result.stderr
        )
    failed = acidctl("snapshot", str(table), "--count", "--profile", "hive4", "-o", "json")
    assert (failed.code, failed.stdout) == (ExitCode.DAMAGED, "")
    assert failed.error()["code"] == "hive_failure"
    assert "NumberFormatException" in failed.error()["message"]


@pytest.mark.parametrize("args", [("snapshot", "--count"), ("ls", "--rows"), ("compact", "major")], ids=" ".join)
def test_promised_rows_are_not_passed_over(args: tuple[str, ...], tmp_path: Path) -> None:
    """A file of no bytes whose side file promises some, as HDFS lists one that is still written."""
    table = _copy(HIVE4 / "streaming/01-first", tmp_path / "t")
    for path in table.glob("delta_0000002_0000007/bucket_*0"):
        path.write_bytes(b"")
    more = ("--assume-committed",) if args[0] == "compact" else ()
    result = acidctl(*args, str(table), *more)
    assert result.code == ExitCode.DAMAGED
    assert "has 0 bytes, but its side file gives a length of" in result.stderr + result.stdout
    assert not list(table.glob("base_*"))


def test_colour_is_of_the_terminal() -> None:
    """Escape sequences are written where the terminal wants them, and nowhere else."""
    assert "\x1b[" in _run(DEMO, width=80, color=True).stdout
    assert "\x1b[" not in _run(DEMO, width=80).stdout


# --- the plan


def test_files_as_json() -> None:
    """The whole plan in one object, every directory with its reason and its cause."""
    answer = _answer(PARTITIONED, "--files", "-o", "json").json()
    assert list(answer) == ["type", "schema_version", "location", "assumed", "partitions", "findings"]
    assert (answer["type"], answer["schema_version"], answer["assumed"]) == ("snapshot", 1, [])
    first, second, third = answer["partitions"]
    assert first["base"] == "base_0000004_v0618710"
    assert {entry["name"]: entry["because_of"] for entry in first["excluded"]} == {
        name: ["base_0000004_v0618710"]
        for name in (
            "delta_0000001_0000001_0000",
            "delta_0000002_0000002_0000",
            "delete_delta_0000003_0000003_0000",
            "delta_0000003_0000003_0001",
            "delete_delta_0000004_0000004_0000",
        )
    }
    assert {entry["state"] for entry in first["excluded"]} == {"obsolete"}
    assert second["base"] is None
    assert third["deltas"] == ["delta_0000002_0000002_0000", "delta_0000003_0000003_0001"]
    assert third["delete_deltas"] == ["delete_delta_0000003_0000003_0000"]
    assert third["originals"] == []


def test_files_in_the_other_forms() -> None:
    """A line per partition as JSON lines, a line per directory as CSV, the plan alone as text."""
    whole = _answer(PARTITIONED, "--files", "-o", "json").json()["partitions"]
    lines = _answer(PARTITIONED, "--files", "-o", "jsonl").json_lines()
    assert [{k: v for k, v in line.items() if k not in ("type", "schema_version")} for line in lines] == whole
    table = _answer(PARTITIONED, "--files", "-o", "csv").csv()
    assert table[0] == ["partition", "name", "kind", "state", "reason_code", "reason", "because_of"]
    assert table[1][:5] == ["ds=2026-01-01/hr=1", "base_0000004_v0618710", "base", "live", "base"]
    assert json.loads(table[2][6]) == ["base_0000004_v0618710"]
    assert len(table) == 1 + 6 + 1 + 3
    assert _answer(PARTITIONED, "--files", "-o", "csv", "--no-header").csv() == table[1:]
    text = _answer(PARTITIONED, "--files", width=80).stdout
    assert text.endswith("  read   delta_0000003_0000003_0001         write id 3 is visible\n")


def test_files_opens_no_data_file(tmp_path: Path) -> None:
    """The plan comes from the listing: files that are no ORC files do not matter."""
    table = tmp_path / "t"
    shutil.copytree(DEMO / "table", table)
    for path in table.rglob("bucket_*"):
        path.write_bytes(b"x")
    result = acidctl("snapshot", str(table), "--files", "-o", "json", "-q")
    assert result.code == 0
    assert len(result.json()["partitions"][0]["deltas"]) == 5


# --- numbers


def test_count_and_digest() -> None:
    """The same numbers in every form; the digest only when asked for."""
    text = _answer(PARTITIONED, "--count", "--digest").stdout
    rows, digest, end = text.split("\n")
    assert (rows, end) == ("4 rows", "")
    assert digest.startswith("v1:")
    assert len(digest) == 3 + 32
    for form in ("json", "jsonl"):
        answer = _answer(PARTITIONED, "--count", "--digest", "-o", form).json()
        assert list(answer) == ["type", "schema_version", "location", "assumed", "rows", "digest", "findings"]
        assert (answer["rows"], answer["digest"]) == (4, digest)
        assert "digest" not in _answer(PARTITIONED, "--count", "-o", form).json()
        assert _answer(PARTITIONED, "--digest", "-o", form).json() == answer
    assert _answer(PARTITIONED, "--count", "--digest", "-o", "csv").csv() == [["rows", "digest"], ["4", digest]]
    assert _answer(PARTITIONED, "--count", "-o", "csv").stdout == "rows\n4\n"
    assert _answer(PARTITIONED, "--count", "-o", "csv", "--no-header").stdout == "4\n"
    assert _answer(PARTITIONED, "--count").stdout == "4 rows\n"


def test_count_by_partition() -> None:
    """A number per partition beside the sum, or a line each."""
    want = [("ds=2026-01-01/hr=1", 2), ("ds=2026-01-01/hr=2", 1), ("ds=2026-01-02/hr=1", 1)]
    answer = _answer(PARTITIONED, "--count", "--by-partition", "-o", "json").json()
    assert answer["rows"] == 4
    assert [(p["partition"], p["rows"]) for p in answer["partitions"]] == want
    lines = _answer(PARTITIONED, "--count", "--by-partition", "-o", "jsonl").json_lines()
    assert [(p["partition"], p["rows"]) for p in lines] == want
    table = _answer(PARTITIONED, "--count", "--by-partition", "-o", "csv").csv()
    assert table == [["partition", "rows"], *([partition, str(rows)] for partition, rows in want)]
    text = _answer(PARTITIONED, "--count", "--by-partition").stdout
    assert [line.split() for line in text.split("\n")[:3]] == [[str(rows), partition] for partition, rows in want]
    assert text.endswith("\n4 rows\n")


def test_a_partition_is_chosen_by_its_folder() -> None:
    """`--partition` takes prefixes and patterns, several times."""
    for options, rows in (
        (("--partition", "ds=2026-01-01"), 3),
        (("--partition", "ds=2026-01-01/hr=2"), 1),
        (("--partition", "ds=*/hr=1"), 3),
        (("--partition", "ds=2026-01-02", "--partition", "ds=2026-01-01/hr=2"), 2),
    ):
        assert _answer(PARTITIONED, *options, "--count", "-o", "csv", "--no-header").stdout == f"{rows}\n"


# --- rows


def test_rows_in_every_machine_form() -> None:
    """JSON is one array, JSON lines and CSV a row a line; partition columns come last."""
    assert _answer(PARTITIONED, "-o", "jsonl").json_lines() == ROWS
    assert _answer(PARTITIONED, "-o", "json").json() == ROWS
    table = _answer(PARTITIONED, "-o", "csv").csv()
    assert table[0] == ["id", "v", "ds", "hr"]
    assert table[1:] == [[str(value) for value in row.values()] for row in ROWS]
    assert _answer(PARTITIONED, "-o", "csv", "--no-header").csv() == table[1:]


def test_row_ids() -> None:
    """ROW__ID comes first: an object in JSON, its parts apart in CSV."""
    for rows in (
        _answer(PARTITIONED, "-o", "jsonl", "--row-id").json_lines(),
        _answer(PARTITIONED, "-o", "json", "--row-id").json(),
    ):
        assert [next(iter(row)) for row in rows] == ["ROW__ID"] * 4
        assert [tuple(row.pop("ROW__ID").values()) for row in rows] == IDS
        assert rows == ROWS
    table = _answer(PARTITIONED, "-o", "csv", "--row-id").csv()
    assert table[0] == ["ROW__ID.writeid", "ROW__ID.bucketid", "ROW__ID.rowid", "id", "v", "ds", "hr"]
    assert [tuple(map(int, row[:3])) for row in table[1:]] == IDS


def test_rows_of_insert_only_tables_have_no_ids() -> None:
    """`ROW__ID` is null, three empty cells in CSV."""
    rows = _run(INSERT_ONLY, "-o", "jsonl", "--row-id", "--table-type", "insert-only").json_lines()
    assert rows
    assert all(row["ROW__ID"] is None for row in rows)
    table = _run(INSERT_ONLY, "-o", "csv", "--row-id", "--no-header", "--table-type", "insert-only").csv()
    assert all(row[:3] == ["", "", ""] for row in table)


@pytest.mark.parametrize("form", FORMS)
def test_columns_are_chosen_and_ordered(form: str) -> None:
    """Data and partition columns in the order asked for, whatever the case; partition columns alone are fine."""
    result = _answer(PARTITIONED, "-o", form, "--columns", "hr, V", width=80)
    alone = _answer(PARTITIONED, "-o", form, "--columns", "ds", "--limit", "1")
    if form == "text":
        assert result.stdout.split("4 rows\n")[1] == "hr  v\n 1  b\n 1  x\n 2  c\n 1  x\n"
        assert alone.stdout.endswith("4 rows, the first 1:\nds\n2026-01-01\n")
    elif form == "csv":
        assert result.stdout == "hr,v\n1,b\n1,x\n2,c\n1,x\n"
        assert alone.stdout == "ds\n2026-01-01\n"
    else:
        rows = result.json() if form == "json" else result.json_lines()
        assert [list(row.items()) for row in rows] == [[("hr", row["hr"]), ("v", row["v"])] for row in ROWS]
        assert json.loads(alone.stdout) in ({"ds": "2026-01-01"}, [{"ds": "2026-01-01"}])


def test_a_limit_cuts_across_partitions() -> None:
    """So many rows and no more; none are fine too."""
    assert _answer(PARTITIONED, "-o", "jsonl", "--limit", "3").json_lines() == ROWS[:3]
    assert _answer(PARTITIONED, "-o", "json", "--limit", "100").json() == ROWS
    assert _answer(PARTITIONED, "-o", "json", "--limit", "0").stdout == "[]\n"
    assert _answer(PARTITIONED, "-o", "jsonl", "--limit", "0").stdout == ""
    assert _answer(PARTITIONED, "-o", "csv", "--limit", "0").stdout == "id,v,ds,hr\n"


def test_a_schema_names_and_types_columns() -> None:
    """`--schema` adds columns that were never written and types the partition columns."""
    schema = "id bigint, v string, added int, ds date, hr int"
    rows = _answer(PARTITIONED, "-o", "jsonl", "--limit", "1", "--schema", schema).json_lines()
    assert rows == [{"id": 2, "v": "b", "added": None, "ds": "2026-01-01", "hr": 1}]


def test_assumptions_are_told() -> None:
    """Without lists all is taken as committed, which stderr and `assumed` say; -q silences stderr."""
    result = acidctl("snapshot", f"{DEMO}/table", "--count", "-o", "json")
    assert result.json()["assumed"] == ["write_ids", "txns"]
    assert result.stderr.startswith("note: No --validtxns given: treating every write as committed")
    assert acidctl("snapshot", f"{DEMO}/table", "--count", "-q").stderr == ""
    assert acidctl("snapshot", f"{DEMO}/table", "--as-of", "2", "--count", "-q").stdout == "7 rows\n"


# --- exports


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "jsonl"])
def test_exports_hold_the_rows(suffix: str, tmp_path: Path) -> None:
    """`--to` writes what a reader sees in the form that the name says; stdout is empty, stderr has a summary."""
    path = tmp_path / f"rows.{suffix}"
    result = _run(PARTITIONED, "--to", str(path), "--row-id", "--limit", "3", "--columns", "v,ds")
    assert (result.code, result.stdout) == (0, "")
    digest = r"(r2:[0-9a-f]{32}|sha256:[0-9a-f]{64})"
    wrote = rf"note: wrote {path}: 3 rows, 1 file, [\d.]+ (Ki)?B, \d+\.\d s, read back as {digest}\n"
    assert re.fullmatch(wrote, result.stderr)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    if suffix in ("parquet", "arrow"):
        table = pq.read_table(path) if suffix == "parquet" else pa.ipc.open_file(path).read_all()
        rows = table.to_pylist()
        assert [tuple(row.pop("ROW__ID").values()) for row in rows] == IDS[:3]
        assert rows == [{"v": row["v"], "ds": row["ds"]} for row in ROWS[:3]]
    else:
        options = ("-o", suffix, "--row-id", "--limit", "3", "--columns", "v,ds")
        assert path.read_text() == _answer(PARTITIONED, *options).stdout


def test_an_export_reports_to_programs(tmp_path: Path) -> None:
    """In machine forms the answer is what was written, in fields; `--to` and `-o` are two things."""
    path = tmp_path / "rows.csv.gz"
    answer = _run(PARTITIONED, "--to", str(path), "-o", "json", "-q").json()
    assert answer["type"] == "export_report"
    known = ("to", "format", "compression", "rows", "files", "bytes", "replaced")
    assert [answer[name] for name in known] == [str(path), "csv", "gzip", 4, 1, path.stat().st_size, 0]
    assert gzip.decompress(path.read_bytes()).decode() == _answer(PARTITIONED, "-o", "csv").stdout


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_existing_files_are_replaced_when_asked_and_whole(suffix: str, tmp_path: Path) -> None:
    """Without --overwrite exit 14; when a damaged file ends an export, the file of before stays, nothing beside it."""
    table, path = tmp_path / "t", tmp_path / f"rows.{suffix}"
    shutil.copytree(DEMO / "table", table)
    path.write_text("old")
    export = ("snapshot", str(table), "--to", str(path), "-q", "--columns", "id")
    refused = acidctl(*export)
    assert (refused.code, refused.stdout, path.read_text()) == (14, "", "old")
    assert f"error: {path} exists already\n  hint: Add --overwrite" in refused.stderr
    damaged = table / "delta_0000007_0000007_0001" / "bucket_00000_0"
    data = damaged.read_bytes()
    damaged.write_bytes(data[:-20])
    result = acidctl(*export, "--overwrite")
    assert (result.code, result.stdout) == (13, "")
    assert str(damaged) in result.stderr
    assert path.read_text() == "old"
    damaged.write_bytes(data)
    assert acidctl(*export, "--overwrite").code == 0
    assert path.read_bytes()[:3] != b"old"
    assert {found.name for found in tmp_path.iterdir()} == {"t", path.name}


@pytest.mark.parametrize("name", ["no_folder/rows.csv", "no_folder/rows.parquet", "folder.csv", "folder.arrow"])
def test_a_file_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    """A missing folder and a folder in the way are one sentence and exit 14; nothing is left behind."""
    for folder in ("folder.csv", "folder.arrow"):
        (tmp_path / folder).mkdir()
    result = _run(PARTITIONED, "--to", str(tmp_path / name))
    assert (result.code, result.stdout) == (14, "")
    assert result.stderr.startswith(f"error: {tmp_path / name} cannot be written: ")
    assert {found.name for found in tmp_path.iterdir()} == {"folder.csv", "folder.arrow"}


# --- errors


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--columns", ","), "--columns names no column"),
        (("--columns", "id,nope"), "there is no column 'nope'"),
        (("--columns", "id,ID"), "--columns names a column twice"),
        (("--files", "--count"), "--files opens no data file"),
        (("--files", "--to", "x.csv"), "--files opens no data file"),
        (("--files", "--row-id"), "--files opens no data file"),
        (("--count", "--limit", "3"), "--count and --digest are about all rows"),
        (("--digest", "--columns", "id"), "--count and --digest are about all rows"),
        (("--count", "--to", "x.csv"), "--count and --digest are about all rows"),
        (("--by-partition",), "--by-partition requires --count"),
        (("--to", "rows.txt"), "the name of a file has to end in one of .parquet, .arrow"),
        (("--to", ""), "'--to': it is empty"),
        (("--partitioned",), "--partitioned is about an export, and there is no --to"),
        (("--to", "x.parquet", "--partitioned"), "--partitioned writes a directory"),
        (("--to", "x.csv", "--timestamps", "ns"), "--timestamps is about Parquet and Arrow"),
        (("--to", "x.csv", "--invalid-utf8", "binary"), "binary needs Parquet or Arrow"),
        (("--to", "x.csv", "--compression", "gzip"), "contradicts --to x.csv"),
        (("--to", "x.arrow", "--compression", "snappy"), "not for .arrow files, which take none or zstd"),
        (("--to", "x.csv", "--format", "jsonl"), "--format jsonl contradicts --to x.csv"),
        (("--to", ".csv"), "the name of a file has to end in one of .parquet, .arrow"),
        (("--limit", "-1"), "-1 is not in the range"),
    ],
)
def test_what_makes_no_sense_is_refused(options: tuple[str, ...], said: str) -> None:
    """Usage errors are exit 2 and one sentence; stdout stays empty, in machine forms the error is JSON."""
    text = _run(PARTITIONED, *options)
    assert (text.code, text.stdout) == (2, "")
    assert said in text.stderr
    answer = _run(PARTITIONED, *options, "-o", "json")
    assert (answer.code, answer.stdout) == (2, "")
    assert answer.error()["code"] == "usage"


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_list_of_partitions_has_no_digest(form: str) -> None:
    """A digest that was asked for is never dropped in silence."""
    result = _run(PARTITIONED, "--count", "--by-partition", "--digest", "-o", form)
    assert (result.code, result.stdout) == (2, "")
    assert "digest" in _answer(PARTITIONED, "--count", "--by-partition", "--digest", "-o", "json").json()


@pytest.mark.parametrize("form", MACHINE)
def test_rows_before_an_error_are_whole(form: str, tmp_path: Path) -> None:
    """Rows that came before a damaged file are delivered, to the end of a line; exit code and stderr decide."""
    table = tmp_path / "t"
    shutil.copytree(PARTITIONED / "table", table)
    damaged = next((table / "ds=2026-01-02").rglob("delta_0000002_*/bucket_*"))
    damaged.write_bytes(b"ORC, but for the rest")
    result = acidctl("snapshot", str(table), "-o", form, "-q")
    assert result.code == 13
    assert result.error()["path"] == str(damaged)
    if form == "jsonl":
        assert result.json_lines() == ROWS[:3]
    elif form == "csv":
        assert len(result.csv()) == 1 + 3
        assert result.stdout.endswith("\n")


def test_a_table_of_no_columns_has_rows(tmp_path: Path) -> None:
    """Rows without a value are still rows."""
    import pyorc

    path = tmp_path / "delta_0000001_0000001_0000" / "000000_0"
    path.parent.mkdir()
    with path.open("wb") as stream, pyorc.Writer(stream, "struct<>") as writer:
        writer.writerows([(), ()])
    table = ("snapshot", str(tmp_path), "--table-type", "full", "-q")
    assert acidctl(*table, "-o", "jsonl").stdout == "{}\n{}\n"
    assert acidctl(*table, "-o", "json").json() == [{}, {}]
    assert acidctl(*table, "-o", "csv").stdout == "\n\n"
    assert acidctl(*table).stdout.endswith("2 rows\n")
    assert acidctl(*table, "--count", "-o", "csv", "--no-header").stdout == "2\n"


def test_an_empty_directory_is_an_empty_table(tmp_path: Path) -> None:
    """No rows in any form, with a note and exit 0."""
    for form, want in (("json", "[]\n"), ("jsonl", ""), ("csv", "")):
        result = acidctl("snapshot", str(tmp_path), "-o", form)
        assert (result.code, result.stdout) == (0, want)
        assert "note: Nothing here holds rows: an empty table." in result.stderr
    text = acidctl("snapshot", str(tmp_path), "-q").stdout
    assert text == f"{tmp_path}\n  nothing here: an empty directory is an empty table\n\n0 rows: the table is empty\n"


def test_columns_that_differ_in_case_are_told_apart(tmp_path: Path) -> None:
    """Other writers make such files; the exact name wins, else the first that Hive would take for it."""
    import pyorc

    path = tmp_path / "000000_0"
    with path.open("wb") as stream, pyorc.Writer(stream, "struct<a:int,A:int,bc:int>") as writer:
        writer.writerows([(1, 2, 3)])
    for name, want in (("a", {"a": 1}), ("A", {"A": 2}), ("BC", {"bc": 3})):
        assert acidctl("snapshot", str(tmp_path), "-o", "jsonl", "--columns", name, "-q").json_lines() == [want]
