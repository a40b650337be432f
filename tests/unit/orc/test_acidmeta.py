"""Files of ACID events whose columns say something else: damaged, and never read as plain rows."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.orc
import pytest

from acidctl.errors import DamagedDataError
from acidctl.format.names import must_hold_events, must_not_hold_events
from acidctl.format.write_ids import MAX_ID
from acidctl.orc.reader import open_orc
from acidctl.orc.tail import is_acid, read_tail, shape_damage
from tests import ROOT
from tests.cli.runner import acidctl
from tests.support.orc_mutations import FOOTER, Field, encoded, parsed, put_together, renamed_column, taken_apart

TABLES = ROOT / "fixtures/tables"
MANY = [
    ("hive2/v1_bucketed/06-changed-base", "base_"),
    ("hive3/bucketed/02-changed", "delta_"),
    ("hive4/demo_orders/01-updated", "delta_"),
    ("hive4/demo_orders/01-updated", "delete_delta_"),
]


@pytest.mark.slow
def test_no_file_of_hive_is_called_damaged() -> None:
    """All bases, deltas, originals and LOAD DATA files of the fixtures; those in ACID places hold events."""
    files = events = 0
    for path in TABLES.glob("*/*/*/table/**/*"):
        if not path.is_file() or path.name.startswith(("_", ".")) or Path(f"{path}_flush_length").exists():
            continue
        with path.open("rb") as stream:
            if stream.read(3) != b"ORC":
                continue
            tail = read_tail(stream, name=str(path))
        must = must_hold_events(str(path))
        assert shape_damage(tail, events=must, rows=must_not_hold_events(str(path))) is None, path
        assert is_acid(tail) is must, path
        files, events = files + 1, events + must
    assert files > 1500 > files - events > 200


def _first(state: str, prefix: str) -> tuple[Path, str]:
    """A table, and the path in it of the first bucket file of such a directory."""
    table = TABLES / state / "table"
    path = next(path for path in sorted(table.glob(f"{prefix}*/bucket_*")) if path.stat().st_size)
    return table, str(path.relative_to(table))


@pytest.mark.slow
@pytest.mark.parametrize(("table", "prefix"), MANY)
def test_a_column_whose_name_is_wrong(table: str, prefix: str, tmp_path: Path) -> None:
    """Every command that reads rows refuses the file; `dump` shows it and says so."""
    source, path = _first(table, prefix)
    place = Path(shutil.copytree(source, tmp_path / "t"))
    before = sorted(place.rglob("*"))
    data = (place / path).read_bytes()
    said = f"{path} should hold ACID events"
    for column, name in enumerate(("operatiom", "originalTransactioN_", "bucket\0", "", "currentTransactiom", "rou")):
        (place / path).write_bytes(renamed_column(data, column, name))
        for command in (["snapshot", "-o", "jsonl"], ["snapshot", "--count"], ["compact", "major"]):
            options = ["--assume-committed"] if command[0] == "compact" else []
            result = acidctl(*command, *options, str(place))
            assert result.code == 13, result
            assert said in result.stderr
        assert sorted(place.rglob("*")) == before
        listed = acidctl("ls", "--rows", str(place))
        assert listed.code == 13, listed
        assert said in listed.stderr
        shown = acidctl("dump", str(place / path))
        assert (shown.code, said in shown.stdout, said in shown.stderr) == (13, True, True)
        assert "Columns" in shown.stdout
        assert acidctl("dump", str(place / path), "-o", "json").json()["acid"]["is_acid"] is False
        rows = acidctl("dump", "-d", str(place / path))
        assert (rows.code, rows.stdout.count('{"') > 0, said in rows.stderr) == (13, True, True)
        assert acidctl("dump", "--events", str(place / path)).code == 13


def _without_metadata(footer: bytes) -> list[Field]:
    return [field for field in parsed(footer, FOOTER) if field.number != 5]


def test_each_sign_is_enough() -> None:
    """Metadata, names, types with one name left, or the place alone; a wrong type is as bad as a wrong name."""
    source, path = _first("hive4/demo_orders/01-updated", "delta_")
    data = (source / path).read_bytes()
    parts = taken_apart(data)

    def damage(data: bytes, *, events: bool = False) -> str | None:
        error = shape_damage(read_tail(io.BytesIO(data), name="f"), events=events)
        return None if error is None else error.message

    bare = put_together(replace(parts, on_footer=lambda footer: encoded(_without_metadata(footer))))
    assert damage(bare) is None
    assert "hive.acid." in (damage(renamed_column(data, 0, "x")) or "")
    assert "(a\\nb, " in (damage(renamed_column(data, 0, "a\nb")) or "")
    renamed = renamed_column(bare, 0, "x")
    assert "types" in (damage(renamed) or "")
    for column in range(1, 6):
        renamed = renamed_column(renamed, column, f"x{column}")
    assert damage(renamed) is None
    assert "its name says so" in (damage(renamed, events=True) or "")

    def other_kind(footer: bytes) -> bytes:
        fields = _without_metadata(footer)
        types = [field for field in fields if field.number == 4]
        next(field for field in types[1].value if field.number == 1).value = 4
        return encoded(fields)

    changed = put_together(replace(parts, on_footer=other_kind))
    assert "columns have the names" in (damage(changed) or "")
    with pytest.raises(DamagedDataError):
        open_orc(io.BytesIO(changed), name="f")


@pytest.mark.parametrize("name", ["000000_0", "000001_0", "000001_0_copy_1", "bucket_00000_v", "bucket_2147483648"])
@pytest.mark.parametrize(
    ("state", "path"),
    [
        ("hive2/v1_evolved/05-renamed-changed", "delta_0000607_0000607_0000/bucket_00000"),
        ("hive2/v1_evolved/05-renamed-changed", "delta_0000601_0000604/bucket_00001"),
        ("hive3/bucketed/02-changed", None),
    ],
)
def test_events_under_a_name_of_plain_rows(state: str, path: str | None, name: str, tmp_path: Path) -> None:
    """Hive passes over them in a delta, and so its answer would be another one: refused, and nothing is written."""
    place = Path(shutil.copytree(TABLES / state / "table", tmp_path / "t"))
    file = place / (path or _first(state, "delta_")[1])
    renamed = file.rename(file.with_name(name))
    said = f"{renamed} holds ACID events, but Hive does not read files of this name in a delta"
    before = sorted(place.rglob("*"))
    for command in (["snapshot", "-o", "jsonl"], ["compact", "major", "--assume-committed"], ["ls", "--rows"]):
        result = acidctl(*command, str(place))
        assert (result.code, said in result.stderr.replace("table: ", "")) == (13, True), result
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("name", ["000000_0", "000001_0", "000000_0_copy_1"])
def test_an_empty_file_beside_events_changes_nothing(name: str, tmp_path: Path) -> None:
    """Its events delete what they deleted before, for snapshot and compact alike."""
    source = TABLES / "hive2/v1_evolved/05-renamed-changed/table"
    place = Path(shutil.copytree(source, tmp_path / "t"))
    empty = place / "delta_0000605_0000605_0000/bucket_00001"
    empty.rename(empty.with_name(name))
    lists = ("--validtxns", f"607:{MAX_ID}:", "--list-format", "hive2")
    rows = acidctl("snapshot", "-o", "jsonl", str(source), *lists).stdout
    assert len(rows.splitlines()) == 4
    assert acidctl("snapshot", "-o", "jsonl", str(place), *lists).stdout == rows
    assert acidctl("compact", "major", str(place), *lists).code == 0
    assert acidctl("snapshot", "-o", "jsonl", str(place), *lists).stdout == rows


def test_tables_of_users_that_look_alike(tmp_path: Path) -> None:
    """The types of an event under other names, and a file without columns and rows: plain files, in any place."""
    row = pa.array([{"a": 1}], pa.struct([("a", pa.int64())]))
    ints, longs = pa.array([1], pa.int32()), pa.array([1], pa.int64())
    table = pa.table({"a": ints, "b": longs, "c": ints, "d": longs, "e": longs, "f": row})
    place = tmp_path / "t" / "delta_0000001_0000001_0000"
    place.mkdir(parents=True)
    pyarrow.orc.write_table(table, str(place / "000000_0"))
    result = acidctl("snapshot", "--count", "-o", "json", str(tmp_path / "t"))
    assert (result.code, result.json()["rows"]) == (0, 1)
    assert acidctl("dump", str(place / "000000_0")).code == 0
    (place / "000000_0").rename(place / "bucket_00000")
    assert acidctl("snapshot", "--count", str(tmp_path / "t")).code == 13
    for layout, must in {
        "t/delta_1_1/bucket_00000": True,
        "t/base_5_v0000007/bucket_00000_0": True,
        "t/delta_1_1/HIVE_UNION_SUBDIR_1/bucket_00000": True,
        "t/delete_delta_1_1/000000_0": True,
        "t/delta_1_1/000000_0": False,
        "t/base_5/000000_0_copy_1": False,
        "t/bucket_00000": False,
        "base_5/t/bucket_00000": False,
    }.items():
        assert must_hold_events(layout) is must, layout
        odd = layout in ("t/delete_delta_1_1/000000_0", "t/delta_1_1/000000_0")
        assert must_not_hold_events(layout) is odd, layout
