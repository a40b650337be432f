"""Text tables, sizes, and what a terminal may be shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from acidctl.cli.output import (
    Cell,
    Column,
    Format,
    JsonArray,
    Output,
    Paint,
    Terminal,
    csv_cell,
    display_width,
    dump_json,
    encode,
    human_age,
    human_size,
    plural,
    shown,
    wrap,
)
from acidctl.errors import AcidctlError
from tests.cli.runner import acidctl
from tests.cli.test_dump import write_acid

COLUMNS = (
    Column("NAME"),
    Column("SIZE", right=True),
    Column("STMT", right=True, drop=1, spare=True),
    Column("WHY", below=True),
)
ROWS: list[list[object]] = [
    ["delta_0000001_0000001_0000", "720 B", 0, "covered by the base that stands below"],
    ["base_5", "1.2 KiB", None, ""],
]


def _table(columns: Sequence[Column], rows: Sequence[Sequence[object]], **terminal: Any) -> list[str]:
    stdout = BytesIO()
    Output(Terminal(stdout, BytesIO(), **terminal)).table(columns, rows)
    return stdout.getvalue().decode().splitlines()


def test_without_a_terminal_lines_are_as_long_as_they_are() -> None:
    """One line a row, so that grep and awk work."""
    assert _table(COLUMNS, ROWS) == [
        "NAME                           SIZE  STMT  WHY",
        "delta_0000001_0000001_0000    720 B     0  covered by the base that stands below",
        "base_5                      1.2 KiB",
    ]


def test_a_narrow_terminal_moves_the_sentence_below() -> None:
    """Wrapped at blanks; names and numbers stay whole."""
    assert _table(COLUMNS, ROWS, width=50) == [
        "NAME                           SIZE  STMT",
        "delta_0000001_0000001_0000    720 B     0",
        "    covered by the base that stands below",
        "base_5                      1.2 KiB",
    ]


def test_a_very_narrow_terminal_drops_columns() -> None:
    """The least important first, the name never; the answer names those that were left out."""
    lines = _table(COLUMNS, ROWS, width=38)
    assert lines[0] == "NAME                           SIZE"
    assert lines[2:4] == ["    covered by the base that stands", "    below"]
    assert "delta_0000001_0000001_0000" in _table(COLUMNS, ROWS, width=10)[1]
    assert Output(Terminal(BytesIO(), BytesIO(), width=38)).table(COLUMNS, ROWS) == ["STMT"]


def test_colour_does_not_disturb_the_layout() -> None:
    """Padding is counted without escape sequences, and what stands in a cell is escaped."""
    rows: list[list[object]] = [[Cell("a", Paint.GOOD), "b"], ["ccc\x1b", "d"]]
    lines = _table((Column("X"), Column("Y")), rows, color=True)
    assert lines[1:] == ["\x1b[32ma\x1b[0m        b", "ccc\\x1b  d"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10_188, "9.9 KiB"),
        (10_230, "10 KiB"),
        (1 << 20, "1.0 MiB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    """Powers of 1024, three digits at most."""
    assert human_size(size) == text


def test_large_sizes_stay_short() -> None:
    """No size is wider than eight characters below exbibytes."""
    assert all(len(human_size(10**power - 1)) <= 8 for power in range(18))


def test_ages_and_plurals() -> None:
    """Whole units, and words that agree with their numbers."""
    assert [human_age(seconds) for seconds in (-5, 59, 60, 7300, 100_000)] == ["0s", "59s", "1m", "2h", "1d"]
    assert [plural(1, "file"), plural(2, "file"), plural(1234, "entry", "entries")] == [
        "1 file",
        "2 files",
        "1,234 entries",
    ]


def test_names_cannot_disturb_a_terminal() -> None:
    """Control, direction and undecodable characters are shown escaped; letters of any script stay."""
    assert shown("a\nb\x1b[2J\u202egpj\udcff\x7f") == "a\\nb\\x1b[2J\\u202egpj\\xff\\x7f"
    assert shown("p=üñ水") == "p=üñ水"
    assert display_width("水a") == 3


RISKY = "\x1b[2J\x07\x7f\x9b31m\u202egpj\u2028\U000e0041\udcff"


@pytest.mark.parametrize("form", [Format.JSON, Format.JSONL, Format.CSV])
def test_machine_forms_cannot_disturb_a_terminal(form: Format) -> None:
    """Escaped on a terminal, where JSON stays JSON of the same values; to a program they are as they were."""

    def answer(width: int | None) -> str:
        stdout = BytesIO()
        out = Output(Terminal(stdout, BytesIO(), width=width), form)
        item = {"name": f"{RISKY}水\n", "more": "b"}
        assert out.machine(lambda: {"items": [item]}, [item], ["name", "more"])
        if form is not Format.CSV:
            (JsonArray(out).data if form is Format.JSON else out.machine_data)(encode(dump_json(item) + "\n"))
        return stdout.getvalue().decode()

    piped, seen = answer(None), answer(80)
    assert [letter for letter in seen if shown(letter) != letter and letter != "\n"] == []
    assert "水" in seen
    assert "\x9b31m\u202egpj" in piped
    if form is Format.CSV:
        assert seen == 'name,more\n"\\x1b[2J\\x07\\x7f\\x9b31m\\u202egpj\\u2028\\ue0041\\udcff水\n",b\n'
    elif form is Format.JSONL:
        assert [json.loads(line) for line in seen.splitlines()] == [json.loads(line) for line in piped.split("\n")[:-1]]
        assert r"\u001b[2J\u0007\u007f\u009b31m\u202egpj\u2028\udb40\udc41\udcff" in seen


def test_errors_cannot_disturb_a_terminal_in_json() -> None:
    """They stand on stderr, which may be a terminal of its own."""
    for width in (None, 80):
        stderr = BytesIO()
        out = Output(Terminal(BytesIO(), stderr, error_width=width), Format.JSON)
        out.error(AcidctlError("no such \x9b\u202e"))
        text = stderr.getvalue().decode()
        assert ("\x9b" in text) == (width is None)
        assert json.loads(text)["error"]["message"] == "no such \x9b\u202e"


def test_commands_escape_machine_forms_on_a_terminal(tmp_path: Path) -> None:
    """Names of `ls` and values of rows alike; in a pipe all is as it is stored."""
    table = tmp_path / "t"
    (table / "delta_0000001_0000001_0000").mkdir(parents=True)
    event = (0, 1, 536870912, 0, 1, ("\x1b[2J\x9b\u202eabc",))
    write_acid(table / "delta_0000001_0000001_0000/bucket_00000_0", [event])
    (table / "_odd\x1b[31m\x9b\u202e").mkdir()
    (table / "_odd\x1b[31m\x9b\u202e" / "x").write_text("x")
    lists = ("--validtxns", "default.t:1:9223372036854775807::", "--validtxns", "9:9223372036854775807::")
    file = str(table / "delta_0000001_0000001_0000/bucket_00000_0")
    answers = 0
    for command in (
        ("ls", str(table)),
        ("ls", str(table), "-l", "--rows"),
        ("snapshot", str(table), "--row-id"),
        ("snapshot", str(table), "--files"),
        ("compact", "major", str(table), *lists, "-n"),
        ("clean", str(table), *lists),
        ("dump", file),
        ("dump", "--data", file),
        ("dump", "--events", file),
        ("decode-bucket", "a\x9b\u202e"),
    ):
        for form in ("text", "json", "jsonl", "csv"):
            seen = acidctl(*command, "-o", form, width=80).stdout
            assert [letter for letter in seen if shown(letter) != letter and letter != "\n"] == [], (command, form)
            piped = acidctl(*command, "-o", form).stdout
            documents = [seen] if form == "json" else seen.split("\n")[:-1] if form == "jsonl" else []
            assert all(isinstance(json.loads(document), dict | list) for document in documents), (command, form)
            answers += "\u202e" in piped
    assert answers > 15


def test_csv_tells_null_from_empty() -> None:
    """NULL is bare, an empty string is quoted, lists are JSON."""
    cells = [None, "", "a,b", 'q"q', ["x"], 5, True, "line\nbreak", "plain", " blank"]
    assert [csv_cell(cell) for cell in cells] == [
        "",
        '""',
        '"a,b"',
        '"q""q"',
        '"[""x""]"',
        "5",
        "true",
        '"line\nbreak"',
        "plain",
        '" blank"',
    ]


def test_long_words_are_never_cut() -> None:
    """A name wider than the terminal is longer than the line, not in pieces."""
    name = "delete_delta_0000001_0000001_0000"
    assert wrap(f"because of {name} here", 20, indent="  ") == ["  because of", f"  {name}", "  here"]


def test_notes_fit_the_terminal() -> None:
    """Broken at blanks on a terminal, one line elsewhere."""
    for width, lines in ((31, ["note: an interrupted run has", "  left _acidctl_lock behind"]), (None, None)):
        stderr = BytesIO()
        Output(Terminal(BytesIO(), stderr, error_width=width)).note("an interrupted run has left _acidctl_lock behind")
        assert stderr.getvalue().decode().splitlines() == (
            lines or ["note: an interrupted run has left _acidctl_lock behind"]
        )
