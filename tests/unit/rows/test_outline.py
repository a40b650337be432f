"""Rows counted from the ends of files, and the same rows as whoever reads them counts them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from acidctl import AcidctlError, open_table
from tests import ROOT
from tests.support.steps import STEPS

INSERTED = ROOT / "fixtures/tables/hive4/unbucketed/01-inserted/table"
FILES = sorted(path.relative_to(INSERTED) for path in INSERTED.glob("*/bucket_*"))


def counted(table: Path, *, quickly: bool, **view: Any) -> tuple[object, bool]:
    """Numbers and findings, or the error; and whether rows had to be read."""
    try:
        outline = open_table(str(table)).outline(**view)
        seen = outline if quickly else open_table(str(table)).reader(outline)
        counts = [seen.count_of(part) for part in seen.partitions]
    except AcidctlError as error:
        return (type(error), str(error)), True
    return (counts, seen.findings), not quickly or outline._whole is not None


def test_every_step_has_as_many_rows_as_when_they_are_read() -> None:
    """Most tables without deletes are answered from the ends of their files."""
    quick = 0
    for step in STEPS:
        found, read = counted(step.table, quickly=True, **step.view)
        assert found == counted(step.table, quickly=False, **step.view)[0], step
        quick += not read
    assert quick > len(STEPS) // 5, quick


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_damaged_ends_count_or_fail_as_when_rows_are_read(seed: int, tmp_path: Path) -> None:
    """Wherever a byte is wrong or missing: same number and same findings, or same error."""
    chance = random.Random(seed)
    table = shutil.copytree(INSERTED, tmp_path / "t")
    for _ in range(150):
        path = table / chance.choice(FILES)
        whole = path.read_bytes()
        data = bytearray(whole)
        if chance.random() < 0.1:
            del data[chance.randrange(len(data)) :]
        else:
            data[-chance.randint(1, min(len(data), 700))] = chance.randrange(256)
        path.write_bytes(data)
        found, _ = counted(table, quickly=True)
        assert found == counted(table, quickly=False)[0]
        path.write_bytes(whole)


def test_a_copied_file_and_one_in_a_wrong_place_are_left_to_who_reads_rows(tmp_path: Path) -> None:
    """What is to be said of them is said."""
    for change in ("copy", "bucket", "open"):
        table = shutil.copytree(INSERTED, tmp_path / change)
        first = table / FILES[0]
        if change == "copy":
            shutil.copytree(first.parent, table / "delta_0000009_0000009_0000")
        elif change == "bucket":
            first.rename(first.parent / "bucket_00007_0")
        view = {"validtxns": ["t:9:9223372036854775807::", "9:9223372036854775807::"]} if change == "open" else {}
        found, read = counted(table, quickly=True, **view)
        assert (found, True) == counted(table, quickly=False, **view)
        assert read == (change != "open"), change
