"""How one walk becomes the listings of a table's locations."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from acidctl.errors import NoSuchTableError, StorageError, UsageError
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import Location, gather, own_partition
from acidctl.storage.port import Descend, PathStat, Walk
from tests.support.memory import MemoryStorage


def _gather(files: dict[str, bytes], *filters: str, root: str = "t") -> tuple[Location, ...]:
    return gather(MemoryStorage({f"{root}/{name}": data for name, data in files.items()}), root, filters)


def _shape(locations: tuple[Location, ...]) -> dict[str, list[str]]:
    return {location.partition: [info.path for info in location.listing.files] for location in locations}


def test_a_table_without_partitions_is_one_location() -> None:
    """Everything below the table directory belongs to it."""
    (location,) = _gather({"base_5/bucket_00000": b"1", "delta_6_6/": b"", "000000_0": b"2"})
    assert location.partition == ""
    assert location.listing.root == "t"
    assert [info.path for info in location.listing.files] == ["000000_0", "base_5/bucket_00000"]
    assert location.listing.directories == ("base_5", "delta_6_6")


def test_partitions_are_found_at_any_depth_and_in_path_order() -> None:
    """Folders that only hold partitions are no locations; empty leaves are."""
    files = {"ds=2/hr=1/delta_1_1/b": b"1", "ds=1/hr=10/f": b"2", "ds=1/hr=9/": b"", "ds=3/": b""}
    locations = _gather(files)
    assert _shape(locations) == {
        "ds=1/hr=10": ["f"],
        "ds=1/hr=9": [],
        "ds=2/hr=1": ["delta_1_1/b"],
        "ds=3": [],
    }
    assert [location.listing.root for location in locations] == [
        "t/ds=1/hr=10",
        "t/ds=1/hr=9",
        "t/ds=2/hr=1",
        "t/ds=3",
    ]
    assert not any(location.stray for location in locations)


def test_key_value_folders_inside_a_delta_are_no_partitions() -> None:
    """List bucketing puts such folders into the deltas of insert-only tables."""
    assert _shape(_gather({"delta_1_1_0000/k=v/000000_0": b"1"})) == {"": ["delta_1_1_0000/k=v/000000_0"]}


def test_hidden_and_temporary_names_are_no_partitions() -> None:
    """A staging folder may hold `=` in its name or its children."""
    files = {".hive-staging_1/ds=1/f": b"1", "_tmp.ds=1/f": b"2", "-tmp.ds=2/f": b"3", "base_1/b": b"4"}
    assert list(_shape(_gather(files))) == [""]


def test_data_beside_partitions_is_a_stray_location() -> None:
    """Hive reads registered partitions only; what lies beside them is kept apart and marked."""
    locations = _gather({"ds=1/delta_1_1/b": b"1", "delta_9_9/b": b"2", "ds=2/hr=1/f": b"3", "ds=2/f": b"4"})
    assert {location.partition: location.stray for location in locations} == {
        "": True,
        "ds=1": False,
        "ds=2": True,
        "ds=2/hr=1": False,
    }


def test_a_partition_directory_knows_its_partition() -> None:
    """`ls t/ds=1` and `ls t --partition ds=1` answer the same."""
    files = {"hr=1/f": b"1", "hr=2/f": b"2"}
    assert list(_shape(_gather(files, root="w/t/ds=1"))) == ["ds=1/hr=1", "ds=1/hr=2"]
    assert list(_shape(_gather(files, "ds=1/hr=2", root="w/t/ds=1"))) == ["ds=1/hr=2"]
    assert own_partition("/w/x=1/t/ds=1/hr=2/") == "ds=1/hr=2"


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["ds=2026-01-01"], ["ds=2026-01-01/hr=1", "ds=2026-01-01/hr=2"]),
        (["ds=2026-*/hr=2"], ["ds=2026-01-01/hr=2", "ds=2026-01-02/hr=2"]),
        (["hr=?"], ["ds=2026-01-01/hr=1", "ds=2026-01-01/hr=2", "ds=2026-01-02/hr=2", "ds=a:[b]/hr=3"]),
        (["ds=2026-01-02", "hr=1"], ["ds=2026-01-01/hr=1", "ds=2026-01-02/hr=2"]),
        (["ds=a:[b]"], ["ds=a:[b]/hr=3"]),
        (["DS=a%3A%5Bb]"], ["ds=a:[b]/hr=3"]),
        (["ds=__HIVE_DEFAULT_PARTITION__"], ["ds=__HIVE_DEFAULT_PARTITION__/hr=44"]),
    ],
)
def test_filters_narrow_the_walk(filters: list[str], expected: list[str]) -> None:
    """Values match as users or as Hive write them; only `*` and `?` are special; several filters add up."""
    files = {
        "ds=2026-01-01/hr=1/f": b"",
        "ds=2026-01-01/hr=2/f": b"",
        "ds=2026-01-02/hr=2/f": b"",
        "ds=a%3A%5Bb]/hr=3/f": b"",
        "ds=__HIVE_DEFAULT_PARTITION__/hr=44/f": b"",
        "stray": b"",
    }
    found = [location.partition.replace("%3A", ":").replace("%5B", "[") for location in _gather(files, *filters)]
    assert sorted(found) == sorted(expected)


def test_filters_keep_excluded_partitions_unlisted(monkeypatch: pytest.MonkeyPatch) -> None:
    """On storage where a listing costs, what is not asked for is not walked."""
    storage = MemoryStorage({"t/ds=1/d/f": b"", "t/ds=2/d/f": b""})
    entered: list[str] = []
    walk = storage.walk

    def counted(root: str, descend: Descend | None = None) -> Walk:
        found = walk(root, descend)
        entered.extend(found.directories)
        return found

    monkeypatch.setattr(storage, "walk", counted)
    gather(storage, "t", ["ds=2"])
    assert entered == ["ds=2", "ds=2/d"]


def test_filters_that_match_nothing_or_are_malformed() -> None:
    """Neither is an empty answer."""
    with pytest.raises(NoSuchTableError, match="no partition that matches 'ds=9'"):
        _gather({"ds=1/f": b""}, "ds=9")
    with pytest.raises(UsageError, match="key=value"):
        _gather({"ds=1/f": b""}, "1")


def test_contents_of_markers_are_read() -> None:
    """`_metadata_acid` everywhere, `_orc_acid_version` only where it tells ACID v1."""
    files = {
        "base_5/_metadata_acid": b'{"dataFormat":"compacted"}',
        "base_5/_orc_acid_version": b"2",
        "_orc_acid_version": b"\0\0\0\0",
    }
    (location,) = _gather(files)
    assert location.listing.markers == {
        "base_5/_metadata_acid": b'{"dataFormat":"compacted"}',
        "_orc_acid_version": b"\0\0\0\0",
    }


def test_markers_are_read_side_by_side_where_each_costs_a_request() -> None:
    """Four are under way at once: none is answered before."""
    together = threading.Barrier(4, timeout=10)

    class Slow(MemoryStorage):
        def open(self, path: str) -> BinaryIO:
            together.wait()
            return super().open(path)

    storage = Slow({f"t/ds={number}/base_5/_metadata_acid": b"%d" % number for number in range(4)})
    locations = gather(storage, "t")
    assert [dict(place.listing.markers) for place in locations] == [
        {"base_5/_metadata_acid": b"%d" % number} for number in range(4)
    ]


_WORK = "_acidctl_work_0123456789ab"


def test_journals_are_read() -> None:
    """Of work directories in the location itself, whole; nothing else that is called so."""
    journal = b"{" + b" " * 10_000 + b"}"
    files = {
        f"{_WORK}/journal.json": journal,
        f"{_WORK}/attempts/journal.json": b"1",
        "delta_1_1/journal.json": b"2",
        "ds/journal.json": b"3",
    }
    (location,) = _gather(files)
    assert location.listing.markers == {f"{_WORK}/journal.json": journal}


class _Moving(MemoryStorage):
    """A storage on which a compaction ends after the first walk; `end` makes the changes."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.walks = 0

    def end(self) -> None:
        self.rename_dir(f"t/{_WORK}/out/delete_delta_1_2", "t/delete_delta_1_2")
        self.remove_tree(f"t/{_WORK}")

    def walk(self, root: str, descend: Callable[[str], bool] | None = None) -> Walk:
        found = super().walk(root, descend)
        self.walks += 1
        if self.walks == 1:
            self.end()
        return found


def test_a_compaction_that_ends_during_the_listing_is_listed_again() -> None:
    """Its journal was listed and is gone when it is read: the first listing showed half of it."""
    storage = _Moving(
        {
            "t/_acidctl_lock": b"{}",
            "t/delta_1_2/b": b"1",
            f"t/{_WORK}/journal.json": b"{}",
            f"t/{_WORK}/attempts/": b"",
            f"t/{_WORK}/out/delete_delta_1_2/b": b"1",
        }
    )
    storage.remove_file("t/_acidctl_lock")
    (location,) = gather(storage, "t")
    assert location.listing.directories == ("delete_delta_1_2", "delta_1_2")
    assert storage.walks == 2


@pytest.mark.parametrize("locked", [False, True])
def test_a_lock_without_its_work_directory_makes_a_listing_doubtful(locked: bool) -> None:
    """The work directory vanished between two looks, and the journal with it; who holds the lock need not doubt."""

    class Ending(_Moving):
        def end(self) -> None:
            self.mkdir("t/delete_delta_1_2")
            self.remove_file("t/_acidctl_lock")

    storage = Ending({"t/_acidctl_lock": b"{}", "t/delta_1_2/b": b"1"})
    (location,) = gather(storage, "t", locked=locked)
    assert (storage.walks, len(location.listing.directories)) == ((1, 1) if locked else (2, 2))


def test_a_lock_that_stays_alone_delays_a_listing_only() -> None:
    """Left by a run that was killed before it made its work directory."""
    storage = MemoryStorage({"t/_acidctl_lock": b"{}", "t/delta_1_2/b": b"1"})
    (location,) = gather(storage, "t")
    assert location.listing.directories == ("delta_1_2",)


def test_a_journal_that_cannot_be_read_is_an_error() -> None:
    """Without it nobody can tell whether what is published counts."""

    class Closed(MemoryStorage):
        def open(self, path: str) -> BinaryIO:
            raise StorageError(f"{path} cannot be used: Permission denied", path=path)

    with pytest.raises(StorageError, match="Permission denied"):
        gather(Closed({f"t/{_WORK}/journal.json": b"{}"}), "t")


_MARKER = "base_5/_metadata_acid"


class _Cleaned(MemoryStorage):
    """A storage on which a cleaner removes the first base that is left, right after each walk."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(files)
        self.walks = 0

    def walk(self, root: str, descend: Callable[[str], bool] | None = None) -> Walk:
        found = super().walk(root, descend)
        self.walks += 1
        bases = [name for name in found.directories if "base_" in name.rpartition("/")[2]]
        if bases:
            self.remove_tree(f"{root}/{bases[0]}")
        return found


@pytest.mark.parametrize("where", ["", "ds=1/"])
def test_a_base_that_a_cleaner_removes_meanwhile_is_listed_no_more(where: str) -> None:
    """Its marker was listed and is gone when it is read."""
    storage = _Cleaned({f"t/{where}{_MARKER}": b"{}", f"t/{where}delta_6_6/b": b"1"})
    (location,) = gather(storage, "t")
    assert location.listing.directories == ("delta_6_6",)
    assert storage.walks == 2


def test_a_version_marker_that_vanishes_is_listed_no_more() -> None:
    """As those of bases."""

    class Removed(_Moving):
        def end(self) -> None:
            self.remove_file("t/_orc_acid_version")

    storage = Removed({"t/_orc_acid_version": b"1", "t/delta_1_2/b": b"1"})
    (location,) = gather(storage, "t")
    assert [info.path for info in location.listing.files] == ["delta_1_2/b"]
    assert storage.walks == 2


def test_a_table_that_loses_bases_without_end_is_an_error() -> None:
    """After the last listing the storage's own sentence is told."""
    storage = _Cleaned({f"t/base_{number}/_metadata_acid": b"{}" for number in range(9)})
    with pytest.raises((StorageError, NoSuchTableError), match="base_2"):
        gather(storage, "t")
    assert storage.walks == 3


@pytest.mark.parametrize("path", [_MARKER, "_orc_acid_version", f"{_WORK}/journal.json"])
def test_a_marker_that_is_there_and_cannot_be_read_is_an_error_at_once(path: str) -> None:
    """Only what is gone is worth another listing; where that cannot be told, the first error counts."""

    class Closed(_Moving):
        def end(self) -> None:
            pass

        def open(self, path: str) -> BinaryIO:
            raise StorageError(f"{path} cannot be used: Permission denied", path=path)

    class Silent(Closed):
        def stat(self, path: str) -> PathStat | None:
            if path == "t":
                return super().stat(path)
            raise StorageError(f"{path} cannot be used: no answer", path=path)

    for storage in (Closed({f"t/{path}": b"{}"}), Silent({f"t/{path}": b"{}"})):
        with pytest.raises(StorageError, match="Permission denied"):
            gather(storage, "t")
        assert storage.walks == 1


def test_markers_below_hidden_names_are_not_read() -> None:
    """They decide nothing, and what a cleaner takes away vanishes at any time."""
    files = {
        f"{_WORK}/removed/{_MARKER}": b"1",
        f".x/{_MARKER}": b"2",
        "_x/_metadata_acid": b"3",
        _MARKER: b"4",
    }
    for prefix in ("", "ds=1/"):
        (location,) = _gather({f"{prefix}{name}": data for name, data in files.items()})
        assert location.listing.markers == {_MARKER: b"4"}


@pytest.mark.slow
def test_many_directories_are_walked_quickly(tmp_path: Path) -> None:
    """Ten thousand directories take well below a second per thousand even on a busy machine."""
    for number in range(10_000):
        os.makedirs(tmp_path / f"ds={number // 100}" / f"delta_{number}_{number}")
    started = time.perf_counter()
    locations = gather(LocalStorage(), str(tmp_path))
    assert time.perf_counter() - started < 5
    assert len(locations) == 100
