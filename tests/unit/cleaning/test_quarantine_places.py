"""Where a quarantine may be: never in another table, and hidden from readers of whatever it lies in."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from acidctl.errors import ExitCode, StorageError, UsageError
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import require_no_table
from acidctl.storage.port import Walk
from tests.support.cleaning_cases import step
from tests.support.memory import MemoryStorage

Make = Callable[[Path], Path]
CASE = step("hive4/demo_orders/03-demo")


@pytest.fixture(autouse=True)
def _unsynchronised(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table with much to clean."""
    return CASE.copy(tmp_path / "t")


def _with(*names: str) -> Make:
    """A directory that holds these."""

    def make(tmp: Path) -> Path:
        for name in names:
            path = tmp / "other" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if name.endswith("/") else path.write_bytes(b"x")
        return tmp / "other"

    return make


def _below(make: Make, below: str) -> Make:
    return lambda tmp: make(tmp) / below


TABLES: dict[str, Make] = {
    "a base": _with("base_0000003/bucket_00000"),
    "an empty delta": _with("delta_0000003_0000003_0000/"),
    "a delete delta": _with("delete_delta_3_3/bucket_0"),
    "the marker of ACID v1": _with("_orc_acid_version"),
    "the marker of a truncation": _with("_metadata_acid"),
    "original files": _with("000000_0"),
    "plain files": _with("part-0.snappy.parquet"),
    "below a base": _below(_with("base_0000003/bucket_00000"), "base_0000003"),
    "below a table": _below(_with("base_0000003/bucket_00000"), "boxes"),
    "far below a table": _below(_with("delta_3_3/bucket_00000", "a/b/"), "a/b/c"),
    "a hidden directory of a table": _below(_with("base_0000003/bucket_00000"), "_boxes"),
    "below original files": _below(_with("000000_0", "q/"), "q"),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=list(TABLES))
def test_no_quarantine_lies_in_another_table(root: Path, tmp_path: Path, make: Make) -> None:
    """Before anything is moved, and before a directory is made."""
    place = make(tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="lies inside a table") as caught:
        CASE.quarantine(root, base=str(place))
    assert caught.value.exit_code == ExitCode.USAGE
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_a_link_to_another_table_is_no_way_around(root: Path, tmp_path: Path) -> None:
    """It is judged by where it really is."""
    (tmp_path / "boxes").symlink_to(_with("base_0000003/bucket_00000")(tmp_path))
    with pytest.raises(UsageError, match="lies inside a table"):
        CASE.quarantine(root, base=str(tmp_path / "boxes"))


@pytest.mark.parametrize(
    "make",
    [_with("db/", ".profile"), _below(_with("notes.txt", "base_camp/x", "delta_x/"), "q"), _below(_with("_x"), "q")],
    ids=["hidden files", "other things above", "a hidden file above"],
)
def test_what_is_no_table_will_do(root: Path, tmp_path: Path, make: Make) -> None:
    """A home directory, for one."""
    place = make(tmp_path)
    assert CASE.quarantine(root, base=str(place)).exit_code == ExitCode.DONE
    (box,) = (path for path in place.iterdir() if path.name.startswith("_acidctl_"))
    assert (box / "manifest.json").is_file()


def test_other_storages_are_asked_too() -> None:
    """Paths on them may begin with the name of a bucket."""
    storage = MemoryStorage({"w/db/other/base_0000003/bucket_00000": b"x", "w/db/t/delta_1_1/bucket_00000": b"x"})
    with pytest.raises(UsageError, match=r"w/db/other holds base_0000003"):
        require_no_table(storage, "w/db/other/q", ["w/db/t"])
    with pytest.raises(UsageError, match=r"w/db/t holds delta_1_1"):
        require_no_table(storage, "w/db/t/_q", [])
    require_no_table(storage, "w/db/t/_q", ["w/db/t"])
    require_no_table(storage, "w/db/q", ["w/db/t"])


def test_a_directory_that_may_not_be_listed_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a place that this user may write in there are such that it may only enter."""
    place = _with("base_0000003/bucket_00000", "a/b/")(tmp_path)
    walk = LocalStorage.walk

    def refuse(self: LocalStorage, root: str, descend: Callable[[str], bool] | None = None) -> Walk:
        if root == str(tmp_path):
            raise StorageError("it may not be listed")
        return walk(self, root, descend)

    monkeypatch.setattr(LocalStorage, "walk", refuse)
    require_no_table(LocalStorage(), str(tmp_path / "q"), [])
    with pytest.raises(UsageError, match="lies inside a table"):
        require_no_table(LocalStorage(), str(place / "a" / "b"), [])


@pytest.mark.parametrize("older", [False, True], ids=["now", "of an earlier version"])
def test_boxes_of_both_names_are_brought_back(root: Path, tmp_path: Path, older: bool) -> None:
    """Earlier versions gave a box outside of the table a name that readers see."""
    place = tmp_path / "boxes"
    names = {path.name for path in root.iterdir()}
    CASE.quarantine(root, base=str(place))
    (box,) = place.iterdir()
    assert box.name.startswith("_acidctl_quarantine_")
    if older:
        box.rename(place / box.name.removeprefix("_acidctl_quarantine_"))
    moved = names - {path.name for path in root.iterdir()}
    assert moved
    CASE.undo(root, base=str(place))
    assert moved & {path.name for path in root.iterdir()}
