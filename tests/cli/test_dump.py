"""`acidctl dump`: reports, rows and events in every form, several files, side files, and what goes wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyorc
import pytest

from acidctl.rows import file_report
from acidctl.rows.file_report import AcidFacts, AcidReport, FileReport
from tests import ROOT
from tests.cli.runner import acidctl
from tests.support.reference import described

DEMO = ROOT / "fixtures/tables/hive4/demo_orders/03-demo/table"
STREAMING = ROOT / "fixtures/tables/hive3/streaming/02-aborted-and-open/table/delta_0000002_0000006"
INSERT_ONLY = ROOT / "fixtures/tables/hive4/insert_only"
ACID = (
    "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,"
    "row:struct<v:string>>"
)
BUCKET = 536870912
RULE = "_" * 120

Event = tuple[int, int, int, int, int, tuple[str | None] | None]


def write_acid(
    path: Path, events: Sequence[Event], metadata: dict[str, bytes] | None = None, stripe_size: int = 1 << 26
) -> Path:
    """An ACID file with these events and user metadata."""
    with open(path, "wb") as stream:
        writer = pyorc.Writer(stream, ACID, stripe_size=stripe_size, compression_block_size=1 << 16)
        for event in events:
            writer.write(event)
        if metadata:
            writer.set_user_metadata(**metadata)
        writer.close()
    return path


def inserts(*row_ids: int, write_id: int = 1, bucket: int = BUCKET) -> list[Event]:
    """Inserted rows with these row ids."""
    return [(0, write_id, bucket, row_id, write_id, (f"v{row_id}",)) for row_id in row_ids]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two inserts, an update of version 1 and a delete."""
    events = [*inserts(0, 1), (1, 1, BUCKET, 2, 3, ("new",)), (2, 1, BUCKET, 3, 3, None)]
    return write_acid(tmp_path / "bucket_00000", events, {"hive.acid.key.index": b"1,536870912,3;"})


def json_of(*args: str) -> Any:
    """The JSON answer, which must come with exit code 0."""
    result = acidctl("dump", *args, "-o", "json")
    assert result.code == 0, result.stderr
    return result.json()


class TestRows:
    """`-d` and `--events`."""

    def test_data_is_what_orc_tools_prints(self, file: Path) -> None:
        """Rows as in the file, then a rule and an empty line."""
        lines = acidctl("dump", "-d", str(file)).stdout.split("\n")
        assert lines[0] == (
            '{"operation":0,"originalTransaction":1,"bucket":536870912,"rowId":0,"currentTransaction":1,"row":{"v":"v0"}}'
        )
        assert lines[3].endswith('"row":null}')
        assert lines[4:] == [RULE, "", ""]

    def test_lines_limit_each_file(self, file: Path) -> None:
        """`-n` is per file; 0 shows none."""
        for count in (0, 1, 3, 9):
            lines = acidctl("dump", "-d", "-n", str(count), str(file), str(file)).stdout.split("\n")
            assert len(lines) == 2 * (min(count, 4) + 2) + 1

    def test_events_name_the_operation_and_decode_the_bucket(self, file: Path) -> None:
        """Words of today, one object a line."""
        events = acidctl("dump", "--events", str(file)).json_lines()
        assert [event["operation"] for event in events] == ["insert", "insert", "update", "delete"]
        assert events[3] == {
            "operation": "delete",
            "write_id": 1,
            "bucket_property": BUCKET,
            "bucket_id": 0,
            "statement_id": 0,
            "row_id": 3,
            "current_write_id": 3,
            "row": None,
        }

    def test_buckets_of_every_codec(self, tmp_path: Path) -> None:
        """Version 1, a bare number of version 0, and a value that no version knows."""
        values = (536936449, 3, -1)
        events = [event for bucket in values for event in inserts(0, bucket=bucket)]
        path = write_acid(tmp_path / "bucket_00001", events)
        found = acidctl("dump", "--events", str(path)).json_lines()
        assert [(e["bucket_id"], e["statement_id"]) for e in found] == [(1, 1), (3, None), (None, None)]

    def test_unknown_operations_are_shown_as_numbers(self, tmp_path: Path) -> None:
        """Nothing is guessed."""
        path = write_acid(tmp_path / "bucket_00000", [(7, 1, BUCKET, 0, 1, ("x",))])
        assert acidctl("dump", "--events", str(path)).json_lines()[0]["operation"] == "7"

    @pytest.mark.parametrize("what", ["-d", "--events"])
    def test_machine_forms_of_rows(self, file: Path, what: str) -> None:
        """One array, one object a line, and a CSV table tell the same rows in our own encoding."""
        array = acidctl("dump", what, str(file), "-o", "json").json()
        assert array == acidctl("dump", what, str(file), "-o", "jsonl").json_lines()
        table = acidctl("dump", what, str(file), "-o", "csv").csv()
        assert table[0] == list(array[0])
        assert len(table) == len(array) + 1
        assert acidctl("dump", what, str(file), "-o", "csv", "--no-header").csv() == table[1:]

    def test_csv_of_files_with_one_schema_has_one_header(self, file: Path) -> None:
        """The second file continues the table."""
        table = acidctl("dump", "-d", str(file), str(file), "-o", "csv").csv()
        assert len(table) == 9

    def test_no_rows_is_an_empty_array(self, tmp_path: Path) -> None:
        """JSON stays JSON."""
        path = write_acid(tmp_path / "bucket_00000", [])
        assert acidctl("dump", "-d", str(path), "-o", "json").stdout == "[]\n"
        assert acidctl("dump", "-d", str(path)).stdout == RULE + "\n\n"

    def test_events_of_a_file_without_events(self) -> None:
        """Exit 11, with the way to its rows."""
        path = next(INSERT_ONLY.glob("*/table/delta_*/0*"))
        result = acidctl("dump", "--events", str(path))
        assert (result.code, result.stdout) == (11, "")
        assert "no ACID events" in result.stderr
        assert "-d prints its rows" in result.stderr

    def test_strings_that_are_not_utf8_are_counted(self) -> None:
        """Shown with replacement characters, and said so once."""
        path = next((ROOT / "fixtures/tables/hive4/types_invalid_utf8").glob("*/table/delta_*/0*"))
        result = acidctl("dump", "-d", str(path))
        assert result.code == 0
        assert "\ufffd" in result.stdout
        assert "not valid UTF-8" in result.stderr


class TestDirectories:
    """A path may be a directory."""

    def test_all_data_files_in_order(self) -> None:
        """Sorted by path; markers and hidden files are no data."""
        reports = json_of(str(DEMO))
        names = [report["fileName"] for report in reports]
        files = [p for p in DEMO.rglob("*") if p.is_file() and not p.name.startswith(("_", "."))]
        assert names == sorted(str(path) for path in files)

    def test_hidden_directories_are_left_out(self, tmp_path: Path, file: Path) -> None:
        """As Hive's readers leave them out."""
        for name in ("_tmp.x", ".staging"):
            shutil.copytree(file.parent, tmp_path.parent / "t" / name, dirs_exist_ok=True)
        result = acidctl("dump", str(tmp_path.parent / "t"))
        assert (result.code, result.stdout) == (0, "")
        assert "no data files" in result.stderr

    def test_one_bad_file_does_not_stop_the_others(self, tmp_path: Path, file: Path) -> None:
        """Each failure is one sentence; the answers of the rest stand; the exit code tells."""
        (tmp_path / "bucket_00001").write_bytes(b"")
        (tmp_path / "bucket_00002").write_bytes(b"junk" * 100)
        result = acidctl("dump", "-d", str(tmp_path))
        assert result.code == 13
        assert result.stdout.count(RULE) == 1
        assert result.stderr.count("error: ") == 2
        reports = acidctl("dump", str(tmp_path), "-o", "json")
        assert reports.code == 13
        assert [report["status"] for report in reports.json()] == ["OK", "FAILED", "FAILED"]
        assert reports.json()[1]["error"]["code"] == "damaged"
        text = acidctl("dump", str(tmp_path))
        assert text.code == 13
        assert "FAILED" in text.stdout


class TestSideFiles:
    """Files that streaming ingest has not closed."""

    def test_only_the_committed_part_is_read(self) -> None:
        """The length that the side file gives is where the tail is."""
        report = json_of(str(STREAMING / "bucket_00000"))
        side = report["acid"]["side_file"]
        assert side["logical_length"] + side["bytes_beyond"] == report["fileLength"]
        assert side["name"].endswith("bucket_00000_flush_length")
        assert report["numberOfRows"] == len(acidctl("dump", "--events", str(STREAMING / "bucket_00000")).json_lines())

    def test_nothing_committed_is_nothing_to_read(self, file: Path) -> None:
        """A length of 0 is no damage."""
        file.with_name("bucket_00000_flush_length").write_bytes(bytes(8))
        result = acidctl("dump", "-d", str(file))
        assert (result.code, result.stdout) == (0, "")
        assert "nothing of it was ever committed" in result.stderr

    @pytest.mark.parametrize(("content", "said"), [(b"", "holds no length"), (b"\xff" * 8, "impossible length")])
    def test_corrupt_side_files(self, file: Path, content: bytes, said: str) -> None:
        """Exit 13 and a sentence."""
        file.with_name("bucket_00000_flush_length").write_bytes(content)
        for options in ([], ["-d"]):
            result = acidctl("dump", *options, str(file))
            assert (result.code, result.stdout) == (13, "")
            assert said in result.stderr

    def test_a_side_file_that_promises_more_than_there_is(self, file: Path) -> None:
        """The data file was cut."""
        file.with_name("bucket_00000_flush_length").write_bytes((10**6).to_bytes(8, "big"))
        result = acidctl("dump", str(file))
        assert result.code == 13
        assert "its side file gives a length of 1000000" in result.stderr


class TestReport:
    """The report without options."""

    def test_the_acid_layer(self, file: Path) -> None:
        """Counts by operation, write ids, the bucket decoded, key ranges, the index compared."""
        acid = json_of(str(file))["acid"]
        assert acid["is_acid"] is True
        assert acid["file_name"] == {"kind": "bucket", "bucket_id": 0, "attempt_id": None}
        assert acid["events"] == {"insert": 2, "update": 1, "delete": 1}
        assert acid["write_ids"] == {"min": 1, "max": 1}
        assert acid["current_write_ids"] == {"min": 1, "max": 3}
        assert acid["buckets"] == [
            {"bucket_property": BUCKET, "version": 1, "bucket_id": 0, "statement_id": 0, "events": 4}
        ]
        assert acid["ordered"] is True
        assert acid["key_index"]["state"] == "matches"
        key = {"write_id": 1, "bucket_property": BUCKET, "row_id": 3}
        assert acid["stripes"] == [
            {"stripe": 1, "events": 4, "first_key": {**key, "row_id": 0}, "last_key": key, "index_key": key}
        ]
        assert acid["side_file"] is None

    @pytest.mark.parametrize(
        ("index", "state", "code"),
        [
            (None, "missing", 0),
            (b"1,536870912,1;", "matches", 0),
            (b"1,536870912,0;", "differs", 3),
            (b"1,536870912,0;1,536870912,1;", "differs", 3),
            (b";", "differs", 3),
            (b"1,x,0;", "unreadable", 3),
            (b"\xff", "unreadable", 3),
        ],
    )
    def test_the_key_index_is_checked(self, tmp_path: Path, index: bytes | None, state: str, code: int) -> None:
        """An index that would make Hive skip rows is a finding (exit 3) with a warning; a missing one is not."""
        path = write_acid(
            tmp_path / "bucket_00000", inserts(0, 1), None if index is None else {"hive.acid.key.index": index}
        )
        result = acidctl("dump", str(path), "-o", "json")
        assert (result.code, result.json()["acid"]["key_index"]["state"]) == (code, state)
        assert ("warning: " in result.stderr) == (code == 3)

    def test_events_out_of_order_are_a_finding(self, tmp_path: Path) -> None:
        """Hive merges sorted files only."""
        path = write_acid(tmp_path / "bucket_00000", inserts(1, 0))
        result = acidctl("dump", str(path), "-o", "json")
        assert (result.code, result.json()["acid"]["ordered"]) == (3, False)
        assert "not in key order" in result.stderr

    def test_every_stripe_has_its_keys(self, tmp_path: Path) -> None:
        """First and last key of each stripe, in a file of many batches and several stripes."""
        rows = 200_000
        path = write_acid(tmp_path / "bucket_00000", inserts(*range(rows)), stripe_size=1 << 16)
        stripes = json_of(str(path))["acid"]["stripes"]
        assert len(stripes) > 1
        at = 0
        for stripe in stripes:
            assert stripe["first_key"]["row_id"] == at
            at += stripe["events"]
            assert stripe["last_key"]["row_id"] == at - 1
        assert at == rows

    def test_damaged_rows_are_told_beside_what_the_tail_says(self, tmp_path: Path) -> None:
        """The report stands, exit 3: the tail is sound, a stripe is not."""
        path = write_acid(tmp_path / "bucket_00000", inserts(*range(5000)))
        content = bytearray(path.read_bytes())
        stripe = json_of(str(path))["stripes"][0]
        start = next(s["startOffset"] for s in stripe["streams"] if (s["columnId"], s["section"]) == (4, "DATA"))
        content[start : start + 8] = b"\xff" * 8
        path.write_bytes(content)
        result = acidctl("dump", str(path), "-o", "json")
        report = result.json()
        assert result.code == 3
        assert report["numberOfRows"] == 5000
        assert "cannot be decoded" in report["acid"]["damage"]
        assert report["acid"]["key_index"]["state"] in ("missing", "not_checked")

    def test_plain_rows(self) -> None:
        """An insert-only file has no ACID layer, and says so."""
        path = next(INSERT_ONLY.glob("*/table/delta_*/0*"))
        assert json_of(str(path))["acid"]["is_acid"] is False
        assert "plain rows" in acidctl("dump", str(path)).stdout

    def test_one_file_is_an_object_and_several_are_an_array(self, file: Path) -> None:
        """As orc-tools has it; JSON lines are one object a file either way."""
        assert json_of(str(file))["type"] == "dump"
        assert [report["schema_version"] for report in json_of(str(file), str(file))] == [1, 1]
        assert len(acidctl("dump", str(file), str(file), "-o", "jsonl").json_lines()) == 2

    def test_options_of_orcfiledump(self, file: Path) -> None:
        """`-j` means JSON, `-p` indents it, `-t` shows time zones."""
        assert acidctl("dump", "-j", str(file)).json() == json_of(str(file))
        assert acidctl("dump", "-j", "-p", str(file)).stdout.startswith('{\n  "type": "dump"')
        assert "writerTimezone" not in json_of(str(file))["stripes"][0]
        assert json_of("-t", str(file))["stripes"][0]["writerTimezone"]
        assert "time zone" in acidctl("dump", "-t", str(file)).stdout

    def test_row_indexes_by_id_and_by_name(self, file: Path) -> None:
        """Only the columns asked for, in that order; `*` means all."""
        by_id = json_of("-r", "4,0", str(file))["stripes"][0]["indexes"]
        assert [index["columnId"] for index in by_id] == [4, 0]
        assert by_id == json_of("-r", "rowId, 0", str(file))["stripes"][0]["indexes"]
        assert by_id[0]["rowGroupIndexes"][0]["max"] == 3
        assert len(json_of("-r", "*", str(file))["stripes"][0]["indexes"]) == 8
        assert "row index of column 4 (rowId)" in acidctl("dump", "-r", "4", str(file)).stdout

    def test_csv_has_a_row_for_each_file(self, file: Path) -> None:
        """The facts that fit into a table."""
        table = acidctl("dump", str(file), "-o", "csv").csv()
        facts = dict(zip(table[0], table[1], strict=True))
        assert facts["numberOfRows"] == "4"
        assert json.loads(facts["acid.events"]) == {"insert": 2, "update": 1, "delete": 1}
        assert facts["acid.key_index.state"] == "matches"


class TestFields:
    """The page about JSON fields names what is there."""

    def test_the_acid_layer_is_described(self, file: Path) -> None:
        """Every key, and none more."""
        assert list(json_of(str(file))["acid"]) == [*described(AcidReport), *described(AcidFacts)]

    def test_events_are_described(self, file: Path) -> None:
        """In the order of the answer."""
        events = acidctl("dump", "--events", str(file)).json_lines()
        assert list(events[0]) == list(described(file_report.Event))

    def test_reports_are_described(self, file: Path) -> None:
        """What orc-tools does not have."""
        (file.parent / "bucket_00001").write_bytes(b"")
        reports = acidctl("dump", str(file.parent), "-o", "json").json()
        assert described(FileReport).keys() <= {*reports[0], *reports[1]}


class TestText:
    """The report for eyes."""

    @pytest.mark.parametrize("width", [80, 200])
    def test_no_line_is_wider_than_the_terminal(self, file: Path, width: int) -> None:
        """At 80 and at 200 columns, in the parts that are not names."""
        result = acidctl("dump", "-r", "*", "-t", str(file), width=width)
        too_wide = [line for line in result.stdout.splitlines() if len(line) > width and str(file) not in line]
        assert too_wide == []

    def test_a_pipe_gets_everything_on_one_line(self, file: Path) -> None:
        """Nothing is cut or wrapped where a program may read."""
        text = acidctl("dump", str(file)).stdout
        assert ACID in text
        assert "key index    matches" in text
        assert "bucket       536870912 = bucket 0, statement 0 (codec version 1; 4 events)" in text
        assert "events       2 inserts, 1 update, 1 delete" in text

    def test_every_fact_of_the_report_is_in_the_text(self, file: Path) -> None:
        """Each number and word of the JSON form is found in the text form."""
        report = json_of("-t", "-r", "*", str(file))
        text = acidctl("dump", "-t", "-r", "*", str(file)).stdout.replace(",", "")
        words = set(text.replace("+", " ").replace("[", " ").replace("]", " ").replace('"', " ").split())
        skipped = ("type", "schema_version", "status", "hasNull", "is_acid", "ordered", "kind", "paddingRatio", "error")
        missing = [
            (path, value)
            for path, value in leaves(report)
            if path.rpartition(".")[2] not in skipped
            and str(value).replace(",", "").lower() not in text.lower()
            and str(value) not in words
        ]
        assert missing == []

    def test_control_characters_are_escaped(self, tmp_path: Path) -> None:
        """A value cannot disturb the terminal."""
        path = write_acid(tmp_path / "bucket_00000", [(0, 1, BUCKET, 0, 1, ("\x1b[31m",))])
        text = acidctl("dump", str(path)).stdout
        assert "\x1b" not in text
        assert "\\x1b[31m" in text


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """All numbers and texts of a JSON value with where they stand."""
    if isinstance(value, dict):
        return [item for key, child in value.items() for item in leaves(child, f"{path}.{key}")]
    if isinstance(value, list):
        return [item for child in value for item in leaves(child, path)]
    return [] if value is None or isinstance(value, bool) else [(path, value)]


class TestUsage:
    """What the command line cannot mean."""

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["-d", "--events"], "two forms of the same rows"),
            (["-n", "3"], "--lines is about rows"),
            (["-d", "-r", "1"], "belong to the report"),
            (["--events", "-t"], "belong to the report"),
            (["-r", "99"], "has no column '99'"),
            (["-r", ""], "has no column ''"),
            (["-r", "nonsense"], "has no column 'nonsense'"),
            (["-d", "-n", "-1"], "-1"),
        ],
    )
    def test_wrong_options(self, file: Path, options: list[str], said: str) -> None:
        """Exit 2 and nothing on stdout."""
        result = acidctl("dump", *options, str(file))
        assert (result.code, result.stdout) == (2, "")
        assert said in result.stderr

    def test_a_path_is_needed(self) -> None:
        """Exit 2."""
        assert acidctl("dump").code == 2


class TestDamage:
    """Files that are no ORC files, or not any more."""

    @pytest.mark.parametrize("options", [[], ["-d"], ["--events"], ["-o", "json"], ["-d", "-o", "json"]])
    @pytest.mark.parametrize(
        ("cut", "said"),
        [
            (lambda b: b"", "is empty"),
            (lambda b: b[: len(b) // 2], "truncated"),
            (lambda b: b"x" * 999, "not an ORC"),
        ],
    )
    def test_one_sentence_and_no_traceback(self, file: Path, options: list[str], cut: Any, said: str) -> None:
        """Exit 13, stdout empty."""
        file.write_bytes(cut(file.read_bytes()))
        result = acidctl("dump", *options, str(file))
        assert (result.code, result.stdout) == (13, "")
        assert said in result.stderr
        assert "Traceback" not in result.stderr

    @pytest.mark.slow
    def test_rows_before_the_damage_stay_whole_lines(self, tmp_path: Path) -> None:
        """A stream ends at a whole line, and the exit code tells."""
        path = write_acid(tmp_path / "bucket_00000", inserts(*range(200_000)), stripe_size=1 << 16)
        stripe = json_of(str(path))["stripes"][-1]
        content = bytearray(path.read_bytes())
        start = next(s["startOffset"] for s in stripe["streams"] if (s["columnId"], s["section"]) == (4, "DATA"))
        content[start : start + 8] = b"\xff" * 8
        path.write_bytes(content)
        result = acidctl("dump", "-d", str(path))
        assert result.code == 13
        lines = result.stdout.split("\n")
        assert lines[-1] == ""
        assert [json.loads(line)["rowId"] for line in lines[:-1]] == list(range(len(lines) - 1))
        rows = json.loads(acidctl("dump", "-d", str(path), "-o", "json").stdout or "[]")
        assert [row["rowId"] for row in rows] == list(range(len(rows)))

    @pytest.mark.slow
    def test_a_closed_pipe_ends_quietly(self, file: Path) -> None:
        """`| head -1` leaves no message."""
        big = write_acid(file.with_name("bucket_00009"), inserts(*range(100_000)))
        command = f"'{sys.executable}' -m acidctl dump -d '{big}' | head -1"
        done = subprocess.run(command, shell=True, capture_output=True, env=os.environ, timeout=60)
        assert (done.stdout.count(b"\n"), done.stderr) == (1, b"")
