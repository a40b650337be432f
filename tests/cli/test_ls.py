"""`acidctl ls`: states, forms, filters, roll-ups, prepared listings."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acidctl.state.entries import EntryState
from tests import ROOT
from tests.cli.runner import Result, acidctl

DEMO = ROOT / "fixtures/tables/hive4/demo_orders/03-demo"
PARTITIONED = ROOT / "fixtures/tables/hive4/partitioned/03-one-compacted"


def _lists(step: Path) -> list[str]:
    facts = json.loads((step / "step.json").read_text())
    return ["--validtxns", facts["valid_write_ids"], "--validtxns", facts["valid_txns"]]


def _plant(root: Path, *paths: str) -> str:
    """Files with a byte of content; a path that ends with `/` is a directory."""
    for path in paths:
        target = root / path
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(b"x")
    return str(root)


def _states(result: Result) -> dict[str, str]:
    return {entry["name"]: entry["state"] for entry in result.json()["entries"]}


def test_every_state_of_a_half_compacted_table_by_hive() -> None:
    """Each directory of Hive's own table: obsolete by the compaction, aborted, open, or live; with its cause."""
    answer = acidctl("ls", f"{DEMO}/table", *_lists(DEMO), "-o", "json").json()
    compacted = ["delete_delta_0000001_0000004_v0000009", "delta_0000001_0000004_v0000009"]
    found = {entry["name"]: entry for entry in answer["entries"]}
    by_state: dict[str, list[str]] = {}
    for name, entry in found.items():
        by_state.setdefault(entry["state"], []).append(name)
        assert entry["reason"]
        assert entry["reason_code"]
        assert (entry["because_of"] == compacted) == (entry["state"] == "obsolete")
    assert by_state["aborted"] == ["delta_0000006_0000006_0000"]
    assert by_state["open"] == ["delta_0000008_0000008_0000"]
    assert len(by_state["obsolete"]) == 5
    assert set(compacted) < set(by_state["live"])
    assert answer["assumed"] == []
    assert answer["summary"]["states"] == {"aborted": 1, "live": 6, "obsolete": 5, "open": 1}


def test_text_tells_the_story_at_any_width() -> None:
    """The header, every name whole, and every reason, at 80 and 200 columns and without a terminal."""
    for width in (None, 80, 120, 200):
        result = acidctl("ls", f"{DEMO}/table", *_lists(DEMO), width=width)
        assert (result.code, result.stderr) == (0, "")
        flat = " ".join(result.stdout.split())
        assert "no base, 3 live deltas, 3 live delete deltas" in flat
        assert "reclaimable: 6 entries" in flat
        assert "write id 6 was aborted" in flat
        assert "write id 8 is still open for this reader" in flat
        assert (
            "covered by delete_delta_0000001_0000004_v0000009 and delta_0000001_0000004_v0000009, which hold write ids"
            in flat
        )
        if width:
            # A path is never broken, wherever the tests run.
            lines = [line for line in result.stdout.splitlines() if line != f"{DEMO}/table"]
            assert max(len(line) for line in lines) <= width


@pytest.mark.parametrize("length", [62, 63, 64, 80, 90])
def test_the_kind_of_table_stands_beside_its_path_where_both_fit(length: int, tmp_path: Path) -> None:
    """Below it where they do not; the path stays whole."""
    with contextlib.chdir(tmp_path):
        name = "t" * length
        Path(name, "delta_0000001_0000001_0000").mkdir(parents=True)
        Path(name, "delta_0000001_0000001_0000", "_orc_acid_version").write_bytes(b"2")
        lines = acidctl("ls", name, width=80).stdout.splitlines()
    kind = "full ACID table"
    assert lines[: 1 if length <= 63 else 2] == ([f"{name}  {kind}"] if length <= 63 else [name, f"  {kind}"])


def test_lines_are_one_a_directory_without_a_terminal() -> None:
    """So that grep works; partitions stand in their own column."""
    lines = acidctl("ls", f"{PARTITIONED}/table").stdout.splitlines()
    rows = [line for line in lines if line.startswith("ds=")]
    assert len(rows) == 10
    assert all("delta_" in line or "base_" in line for line in rows)


def test_partitions_are_headings_on_a_terminal() -> None:
    """Each partition once, its directories below."""
    lines = acidctl("ls", f"{PARTITIONED}/table", width=100).stdout.splitlines()
    assert [line for line in lines if line.startswith("ds=")] == [
        "ds=2026-01-01/hr=1",
        "ds=2026-01-01/hr=2",
        "ds=2026-01-02/hr=1",
    ]


def test_json_jsonl_and_csv_hold_the_same_entries() -> None:
    """One answer in three forms."""
    args = ["ls", f"{DEMO}/table", *_lists(DEMO), "-o"]
    document = acidctl(*args, "json").json()
    assert (document["type"], document["schema_version"]) == ("ls", 1)
    lines = acidctl(*args, "jsonl").json_lines()
    assert [{key: value for key, value in line.items() if key not in ("type", "schema_version")} for line in lines] == (
        document["entries"]
    )
    assert {line["type"] for line in lines} == {"ls_entry"}
    header, *rows = acidctl(*args, "csv").csv()
    assert header == list(document["entries"][0])
    assert [row[header.index("name")] for row in rows] == [entry["name"] for entry in document["entries"]]
    assert acidctl(*args, "csv", "--no-header").csv() == rows


def test_assumed_lists_are_said() -> None:
    """On stderr and in the answer; with -q in the answer only."""
    both = acidctl("ls", f"{DEMO}/table", "-o", "json")
    assert both.json()["assumed"] == ["write_ids", "txns"]
    assert "No --validtxns given: treating every write as committed" in both.stderr
    one = acidctl("ls", f"{DEMO}/table", "-o", "json", "--as-of", "4")
    assert one.json()["assumed"] == ["txns"]
    quiet = acidctl("ls", f"{DEMO}/table", "-o", "json", "-q")
    assert (quiet.json()["assumed"], quiet.stderr) == (["write_ids", "txns"], "")


def test_as_of_and_lists_from_files_and_stdin(tmp_path: Path) -> None:
    """@FILE may hold both lists, a line each; @- is stdin."""
    lists = tmp_path / "lists"
    texts = _lists(DEMO)[1::2]
    lists.write_text("\n".join(texts) + "\n\n")
    direct = acidctl("ls", f"{DEMO}/table", *_lists(DEMO), "-o", "json")
    assert acidctl("ls", f"{DEMO}/table", "--validtxns", f"@{lists}", "-o", "json") == direct
    piped = subprocess.run(
        [sys.executable, "-m", "acidctl", "ls", f"{DEMO}/table", "--validtxns", "@-", "-o", "json"],
        input=lists.read_bytes(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(piped.stdout) == direct.json()


def test_rows_and_long_come_from_the_files() -> None:
    """Footers give rows, names give bucket, attempt and copy."""
    answer = acidctl("ls", f"{DEMO}/table", "--rows", "--long", "-o", "json").json()
    entry = next(entry for entry in answer["entries"] if entry["name"] == "delta_0000001_0000001_0000")
    assert entry["rows"] == sum(file["rows"] or 0 for file in entry["file_list"]) == 4
    assert {file["kind"] for file in entry["file_list"]} == {"bucket", "marker"}
    assert {file["bucket_id"] for file in entry["file_list"]} == {0, 1, None}
    text = acidctl("ls", f"{DEMO}/table", "--rows", "--long").stdout
    assert "bucket_00001_0" in text
    assert "bucket 1, attempt 0" in text


def test_a_side_file_gives_the_logical_length(tmp_path: Path) -> None:
    """What a streaming writer has committed so far; rows are counted to there."""
    table = _plant(tmp_path, "delta_0000001_0000010/bucket_00000", "delta_0000001_0000010/bucket_00000_flush_length")
    (tmp_path / "delta_0000001_0000010/bucket_00000_flush_length").write_bytes((0).to_bytes(8, "big"))
    answer = acidctl("ls", table, "-l", "--rows", "-o", "json").json()
    files = {file["path"].rpartition("/")[2]: file for file in answer["entries"][0]["file_list"]}
    assert files["bucket_00000"]["logical_length"] == 0
    assert files["bucket_00000"]["rows"] == 0
    assert files["bucket_00000_flush_length"]["kind"] == "side_file"
    assert "readable up to byte 0" in acidctl("ls", table, "-l").stdout


@pytest.mark.parametrize(("lists", "code"), [([], 13), (["--as-of", "4"], 3)])
def test_a_damaged_file_does_not_hide_the_others(tmp_path: Path, lists: list[str], code: int) -> None:
    """It is named; the exit code says whether a reader would meet it."""
    table = shutil.copytree(DEMO / "table", tmp_path / "t")
    (table / "delta_0000005_0000005_0000/bucket_00001_0").write_bytes(b"ORC")
    result = acidctl("ls", str(table), "--rows", *lists, "-o", "json")
    assert result.code == code
    assert [item["path"] for item in result.json()["damaged"]] == ["delta_0000005_0000005_0000/bucket_00001_0"]
    rows = {entry["name"]: entry["rows"] for entry in result.json()["entries"]}
    assert rows["delta_0000005_0000005_0000"] is None
    assert rows["delta_0000001_0000001_0000"] == 4
    assert "bucket_00001_0" in result.stderr


def test_filters_sorting_and_limits() -> None:
    """--state, --sort and --limit choose what is shown; the summary stays that of the whole table."""
    args = ["ls", f"{DEMO}/table", *_lists(DEMO)]
    few = acidctl(*args, "--state", "aborted", "--state", "open", "-o", "json").json()
    assert [entry["state"] for entry in few["entries"]] == ["aborted", "open"]
    assert few["summary"]["entries"] == 13
    big = acidctl(*args, "--sort", "bytes", "--limit", "3", "-o", "json").json()["entries"]
    assert len(big) == 3
    assert big[0]["bytes"] >= big[1]["bytes"] >= big[2]["bytes"]
    assert "... and 10 more" in acidctl(*args, "--limit", "3").stdout
    names = [entry["name"] for entry in acidctl(*args, "--sort", "name", "-o", "json").json()["entries"]]
    assert names == sorted(names)
    for order in ("state", "files", "rows", "age"):
        assert len(acidctl(*args, "--sort", order, "-o", "jsonl").json_lines()) == 13


def test_partitions_roll_up_worst_first(tmp_path: Path) -> None:
    """What cannot be read comes first, then what was not understood, then the most deltas."""
    _plant(tmp_path, "p=1/base_5/bucket_00000", "p=2/delta_1_1/bucket_00000", "p=2/delta_2_2/bucket_00000")
    _plant(tmp_path, "p=3/base_x/", "p=3/delta_1_1/bucket_00000", "p=4/base_0000009_v0000020/bucket_00000")
    result = acidctl("ls", str(tmp_path), "--by-partition", "--as-of", "8", "-o", "json")
    assert [part["partition"] for part in result.json()["partitions"]] == ["p=4", "p=3", "p=2", "p=1"]
    assert [part["readable"] for part in result.json()["partitions"]] == [False, True, True, True]
    assert result.code == 3
    lines = acidctl("ls", str(tmp_path), "--by-partition", "--as-of", "8", "-o", "jsonl").json_lines()
    assert [line["type"] for line in lines] == ["ls_partition"] * 4
    header, *rows = acidctl("ls", str(tmp_path), "--by-partition", "-o", "csv").csv()
    assert len(rows) == 4
    assert "states.unrecognised" in header
    for width in (None, 80, 200):
        text = acidctl("ls", str(tmp_path), "--by-partition", "--as-of", "8", "--limit", "2", width=width).stdout
        assert "not readable: not enough history" in text
        assert "... and 2 more" in text


def test_not_enough_history_is_answered_with_3(tmp_path: Path) -> None:
    """`ls` shows the state, says what is missing, and exits with findings; a reader would be refused."""
    table = _plant(tmp_path, "base_0000009_v0000020/bucket_00000")
    result = acidctl("ls", table, "--as-of", "8", "-o", "json")
    assert result.code == 3
    assert result.json()["gaps"][0]["message"].startswith("Not enough history: base_0000009_v0000020")
    assert _states(result) == {"base_0000009_v0000020": "unusable"}
    assert "Not enough history" in result.stderr
    assert acidctl("ls", table, "--as-of", "9").code == 0


def test_unrecognised_entries_are_shown_and_exit_3(tmp_path: Path) -> None:
    """Never guessed, never hidden."""
    table = _plant(tmp_path, "base_x/bucket_00000", "delta_1_1_0000/bucket_00000")
    result = acidctl("ls", table, "-o", "json")
    assert result.code == 3
    assert _states(result) == {"base_x": "unrecognised", "delta_1_1_0000": "live"}
    assert "1 entry was not recognised" in result.stderr


def test_data_beside_partitions_is_unrecognised(tmp_path: Path) -> None:
    """Hive reads registered partitions only, so neither do we; but it is said."""
    table = _plant(tmp_path, "ds=1/delta_1_1/bucket_00000", "delta_2_2/bucket_00000", ".hive-staging_1/")
    result = acidctl("ls", table, "-o", "json")
    assert result.code == 3
    assert _states(result) == {
        "delta_1_1": "live",
        "delta_2_2": "unrecognised",
        ".hive-staging_1": "hidden",
    }
    assert "beside partition folders" in result.stderr


def test_partition_filters_and_partition_directories(tmp_path: Path) -> None:
    """A filter and the partition's own directory give the same entries."""
    table = _plant(tmp_path / "t", "ds=1/hr=1/delta_1_1/b", "ds=1/hr=2/delta_1_1/b", "ds=2/hr=1/delta_1_1/b")
    by_filter = acidctl("ls", table, "--partition", "ds=1/hr=2", "-o", "json").json()["entries"]
    by_path = acidctl("ls", f"{table}/ds=1/hr=2/", "-o", "json").json()["entries"]
    assert by_filter == by_path
    assert [entry["partition"] for entry in by_filter] == ["ds=1/hr=2"]
    assert len(acidctl("ls", table, "--partition", "ds=*/hr=1", "-o", "json").json()["entries"]) == 2
    none = acidctl("ls", table, "--partition", "ds=3", "-o", "json")
    assert (none.code, none.error()["code"]) == (10, "no_such_table")


def test_disagreements_with_hive4_are_said(tmp_path: Path) -> None:
    """Where Hive 4 would read an uncommitted INSERT OVERWRITE, strict does not, and says so."""
    table = _plant(tmp_path, "base_0000005/bucket_00000_0", "delta_0000001_0000001_0000/bucket_00000_0")
    lists = ["--validtxns", "default.t:9:5:5:", "--validtxns", "100:9223372036854775807::"]
    strict = acidctl("ls", table, *lists, "-o", "json")
    assert _states(strict)["base_0000005"] == "open"
    assert "base_0000005" in strict.json()["disagreements"][0]["message"]
    assert "warning: " in strict.stderr
    assert _states(acidctl("ls", table, *lists, "--profile", "hive4", "-o", "json"))["base_0000005"] == "live"


def test_profile_and_type_stand_in_the_answer() -> None:
    """So that an answer can be understood later."""
    answer = acidctl("ls", f"{DEMO}/table", "--profile", "hive4", "--table-type", "full", "-o", "json").json()
    assert (answer["profile"], answer["table_type"]) == ("hive4", "full")


HDFS = """\
Found 2 items
drwxr-xr-x   - hive hadoop          0 2026-01-01 10:00 /w/t/ds=a b/delta_0000001_0000001_0000
-rw-r--r--   3 hive hadoop        720 2026-01-01 10:00 /w/t/ds=a b/delta_0000001_0000001_0000/bucket_00000
drwxrwx---+  - hive hadoop          0 2026-01-02 10:00 /w/t/ds=a b/base_0000002
-rw-r--r--   3 hive hadoop       1024 2026-01-02 10:00 /w/t/ds=a b/base_0000002/bucket_00000
"""


@pytest.mark.parametrize(
    "args", [[], ["/w/t"], ["hdfs://nn:8020/w/t"]], ids=["root found", "root given", "root as URL"]
)
@pytest.mark.parametrize("address", ["", "hdfs://nn:8020"])
def test_the_output_of_hdfs_ls_is_a_listing(tmp_path: Path, args: list[str], address: str) -> None:
    """Sizes and times are taken from it; nothing is opened."""
    listing = tmp_path / "listing"
    listing.write_text(HDFS.replace("/w/t", f"{address}/w/t"))
    answer = acidctl("ls", *args, "--names", str(listing), "-o", "json")
    assert answer.code == 0
    entries = answer.json()["entries"]
    assert [(entry["partition"], entry["name"], entry["state"], entry["bytes"]) for entry in entries] == [
        ("ds=a b", "delta_0000001_0000001_0000", "obsolete", 720),
        ("ds=a b", "base_0000002", "live", 1024),
    ]
    assert entries[0]["modified"].startswith("2026-01-01T")


def test_plain_names_are_a_listing() -> None:
    """A name a line, from stdin; sizes are unknown and stay so."""
    names = b"./delta_1_1_0000/bucket_00000\nbase_2/\n\ndelta_3_3_0000\r\n000000_0\n"
    done = subprocess.run(
        [sys.executable, "-m", "acidctl", "ls", "--names", "-", "-o", "json"],
        input=names,
        capture_output=True,
        check=True,
        timeout=60,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    assert {entry["name"]: entry["state"] for entry in answer["entries"]} == {
        "(original files)": "obsolete",
        "delta_1_1_0000": "obsolete",
        "base_2": "live",
        "delta_3_3_0000": "live",
    }
    assert answer["summary"]["bytes_live"] is None
    assert all(entry["bytes"] is None for entry in answer["entries"])


@pytest.mark.parametrize(
    ("text", "args", "code"),
    [
        ("", [], 2),
        ("\n \n", [], 2),
        ("delta_1_1/\n", ["--rows"], 2),
        ("/w/t/delta_1_1/\n/elsewhere/delta_2_2/\n", ["/w/t"], 2),
        ("/w/t/sub/delta_1_1/\n", ["/w"], 11),
    ],
)
def test_listings_that_cannot_be_used(tmp_path: Path, text: str, args: list[str], code: int) -> None:
    """One sentence and the right exit code."""
    listing = tmp_path / "listing"
    listing.write_text(text)
    result = acidctl("ls", *args, "--names", str(listing))
    assert (result.code, result.stdout) == (code, "")
    assert result.stderr.startswith("error: ")


def test_every_state_has_a_colour() -> None:
    """A state that core adds must not break the table."""
    from acidctl.cli.ls import _PAINTS

    assert set(_PAINTS) == {state.value for state in EntryState}


def test_colours_only_add_escape_sequences() -> None:
    """The text without them is the same."""
    import re

    plain = acidctl("ls", f"{DEMO}/table", *_lists(DEMO), width=100)
    colored = acidctl("ls", f"{DEMO}/table", *_lists(DEMO), width=100, color=True)
    assert re.sub(r"\x1b\[\d+m", "", colored.stdout) == plain.stdout
    assert "\x1b[31maborted\x1b[0m" in colored.stdout
