"""Rows byte for byte as orc-tools prints them, judged by orc-tools itself; its own faults, each with the reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.orc import write_table

from acidctl.orc.orc_tools import SEPARATOR as OURS
from acidctl.orc.orc_tools import row_style
from acidctl.orc.reader import open_orc
from acidctl.types.format_rows import lines
from acidctl.types.schema import parse_type
from tests.cli.runner import acidctl
from tests.support.extent import some
from tests.support.orc_tools import SEPARATOR, by_width, edge_files, fixture_files, orc_tools

pytestmark = pytest.mark.orctools

TIMES = ["1582-10-04 00:00:00", "1582-10-15 00:00:00.5", "0001-01-01 00:00:00"]

# What `orc-tools meta -j` says that `dump -o json` says otherwise, by the kind of fact; see `differences`.
META_FAULTS = {
    "no value": "an extreme number stands for 'the writer noted none'; null here",
    "not a number": "NaN and infinities are bare words, which no JSON parser has to take; strings here",
    "zone": "timestamps with local time zone do not say that they are UTC",
    "fraction": "a timestamp has a fraction even when it has none",
    "calendar": "a date is printed as 'Hybrid AD 1-01-03', and days of unmarked files are taken for Julian ones",
    "blank": "an empty software version leaves a blank at the end",
}


def dumped(*paths: Path) -> bytes:
    """What `acidctl dump --data` writes, as a process."""
    command = [sys.executable, "-m", "acidctl", "dump", "--data", *map(str, paths)]
    return subprocess.run(command, check=True, capture_output=True).stdout


def test_the_separator_is_that_of_orc_tools() -> None:
    """A rule of 120 underscores and an empty line."""
    assert OURS == SEPARATOR


def test_values_of_every_kind(tmp_path: Path) -> None:
    """What can be known without a JVM: Java's numbers, bare NaN, trimmed decimals, a fraction in every timestamp."""
    from decimal import Decimal

    path = tmp_path / "file.orc"
    table = pa.table(
        {
            "f": pa.array([0.1, float("nan")], pa.float32()),
            "d": pa.array([1e7, None]),
            "n": pa.array([Decimal("1.50"), Decimal("0.00")], pa.decimal128(10, 2)),
            "t": pa.array([0, 1_500_000_000], pa.timestamp("ns")),
            "s": pa.array(["<\u2028>", None]),
        }
    )
    write_table(table, path)
    with open(path, "rb") as stream:
        orc = open_orc(stream, name="file.orc")
        style = row_style(orc.tail)
        types = [field.type for field in orc.schema.fields]
        rows = b"".join(bytes(lines(b.columns, orc.schema.names, types, style)) for b in orc.scan())
    assert rows.decode().splitlines() == [
        '{"f":0.10000000149011612,"d":1.0E7,"n":"1.5","t":"1970-01-01 00:00:00.0","s":"<\\u2028>"}',
        '{"f":NaN,"d":null,"n":"0","t":"1970-01-01 00:00:01.5","s":null}',
    ]


def test_unions_show_their_value_only(tmp_path: Path) -> None:
    """Neither the tag nor its name is printed."""
    path = tmp_path / "file.orc"
    write_table(pa.table({"i": pa.array([1])}), path)
    union = pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array([1, None], pa.int32()), pa.array([None, "a"])]
    )
    with open(path, "rb") as stream:
        style = row_style(open_orc(stream, name="file.orc").tail)
    printed = bytes(lines([union], ["u"], [parse_type("uniontype<int,string>")], style))
    assert printed == b'{"u":1}\n{"u":"a"}\n'


def test_rows_of_every_fixture_file() -> None:
    """Data files that real Hive wrote, in one run each, byte for byte."""
    files = some(fixture_files())
    assert files
    ours, theirs = dumped(*files), orc_tools("data", *files)
    if ours != theirs:
        parts = zip(files, ours.split(SEPARATOR), theirs.split(SEPARATOR), strict=False)
        assert [str(file) for file, mine, other in parts if mine != other] == []
    assert ours == theirs


@pytest.mark.parametrize("index", range(6))
def test_rows_of_edge_files(index: int) -> None:
    """Every type with the values that break readers, both calendars, as ORC's own writer leaves them."""
    file = edge_files()[index]
    assert dumped(file).split(b"\n") == orc_tools("data", file).split(b"\n")


def test_lines_mean_the_same() -> None:
    """`-n` counts rows of each file, and 0 shows none."""
    files = edge_files()[:2]
    for count in ("0", "1", "1500"):
        ours = acidctl("dump", "-d", "-n", count, *map(str, files))
        assert ours.stdout.encode() == orc_tools("data", "-n", count, *files)


def test_every_fact_of_meta_is_in_the_report() -> None:
    """Each key and value of `orc-tools meta -j` with all row indexes, on edge files and files of Hive."""
    files = [*edge_files(), *some(fixture_files()[::7])]
    reports = {file: json.loads(acidctl("dump", "-j", "-t", "-r", "*", str(file)).stdout) for file in files}
    widths = {file: len(report["fileStatistics"]) for file, report in reports.items()}
    for group in by_width(files, widths):
        for file, other in told(group, reports).items():
            assert differences(other, reports[file], is_old=_is_old(file)) == []


def told(group: list[Path], reports: dict[Path, Any]) -> dict[Path, Any]:
    """What `orc-tools meta` says of each file; it breaks off where it takes a decimal sum for NULL."""
    try:
        answer = json.loads(orc_tools("meta", "-j", "-t", "-r", "*", *group))
    except subprocess.CalledProcessError:
        if len(group) == 1:
            assert any(_unsummed(column) for column in reports[group[0]]["fileStatistics"])
            return {}
        return {file: other for one in group for file, other in told([one], reports).items()}
    return dict(zip(group, answer if len(group) > 1 else [answer], strict=True))


def _unsummed(statistics: Any) -> bool:
    """A decimal column whose sum is absent, or has more than the 18 digits that a short decimal's sum may have."""
    if statistics.get("type") != "DECIMAL" or "min" not in statistics:
        return False
    total: str = statistics.get("sum", "0" * 19)
    return sum(character.isdigit() for character in total) > 18


def _is_old(file: Path) -> bool:
    """Files whose days orc-tools takes for Julian ones though Hive does not: Hive 3 and what C++ writers leave."""
    return "hive3" in file.parts or "times_hybrid" in file.name


def differences(theirs: Any, ours: Any, path: str = "", *, is_old: bool) -> list[str]:
    """Where the report lacks or contradicts a fact, faults of `META_FAULTS` left out."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        missing = [f"{path}.{key} is missing" for key in theirs if key not in ours]
        common = [key for key in theirs if key in ours]
        return missing + [d for k in common for d in differences(theirs[k], ours[k], f"{path}.{k}", is_old=is_old)]
    if isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            return [f"{path} has {len(theirs)} items, ours {len(ours)}"]
        pairs = enumerate(zip(theirs, ours, strict=True))
        return [d for i, (t, o) in pairs for d in differences(t, o, f"{path}[{i}]", is_old=is_old)]
    if theirs == ours or _fault(theirs, ours, is_old=is_old) in META_FAULTS:
        return []
    return [f"{path}: {theirs!r} is {ours!r} here"]


def _fault(theirs: Any, ours: Any, *, is_old: bool) -> str | None:
    """Which fault of orc-tools explains a difference."""
    if ours is None and theirs in (2**63 - 1, -(2**63), 1.7976931348623157e308, 5e-324):
        return "no value"
    if isinstance(theirs, float):
        same = isinstance(ours, str) and (float(ours) == theirs or (ours == "NaN" and theirs != theirs))
        return "not a number" if same else None
    if not isinstance(theirs, str) or not isinstance(ours, str):
        return None
    if theirs.rstrip() == ours:
        return "blank"
    if theirs.startswith("Hybrid "):
        year, rest = theirs.split()[2].split("-", 1)
        same = f"{int(year):04}-{rest}" == ours.lstrip("+")
        return "calendar" if same or is_old else None
    if theirs.removesuffix(".0") == ours.removesuffix(" UTC").lstrip("+"):
        return "zone" if ours.endswith(" UTC") else "fraction"
    return "calendar" if is_old and theirs[:4] == ours[:4] == "0001" else None
