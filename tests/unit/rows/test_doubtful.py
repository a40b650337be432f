"""Python is warned of rows that may be missing or come twice, once of each reason; `strict` raises."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acidctl
from acidctl.errors import DamagedDataError
from acidctl.rows.snapshot import Snapshot
from tests.cli.test_doubts import DEMO, copy_of_directory, half_of_minor, renamed_bucket

READ: tuple[Callable[[Snapshot], Any], ...] = (
    Snapshot.count,
    Snapshot.digest,
    Snapshot.to_table,
    Snapshot.to_pandas,
    lambda snapshot: snapshot.to_batches().read_all(),
    lambda snapshot: list(snapshot.rows()),
    lambda snapshot: snapshot.splits(),
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A copy of the demo's table."""
    copy: Path = shutil.copytree(DEMO, tmp_path / "t")
    return copy


@pytest.mark.parametrize("damage", [half_of_minor, renamed_bucket, copy_of_directory])
@pytest.mark.parametrize("read", READ)
def test_every_reading_warns_once(damage: Callable[[Path], None], read: Callable[[Snapshot], Any], table: Path) -> None:
    """As many warnings as findings, each with what to do; what is sound warns of nothing."""
    read(acidctl.open_table(str(table)).snapshot(as_of=9))
    damage(table)
    snapshot = acidctl.open_table(str(table)).snapshot(as_of=9)
    with pytest.warns(acidctl.AcidctlWarning) as warned:
        read(snapshot)
    texts = [str(one.message) for one in warned]
    assert len(texts) == len(snapshot.findings) > 0
    for finding, text in zip(snapshot.findings, texts, strict=True):
        assert finding.sentence in text
        assert finding.remedy in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(snapshot)


@pytest.mark.parametrize("damage", [half_of_minor, renamed_bucket, copy_of_directory])
@pytest.mark.parametrize("read", READ)
def test_strict_raises(damage: Callable[[Path], None], read: Callable[[Snapshot], Any], table: Path) -> None:
    """Before anything is read where the listing tells, else when it is noticed; sound tables are read."""
    read(acidctl.open_table(str(table)).snapshot(as_of=9, strict=True))
    damage(table)
    with pytest.raises(DamagedDataError, match="rows may be missing or come twice"):
        read(acidctl.open_table(str(table)).snapshot(as_of=9, strict=True))
