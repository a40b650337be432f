"""What commands ask of a storage that is far away, counted: no listing, no opening, no byte more than they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from acidctl.storage.local import LocalStorage
from acidctl.types.schema import parse_schema
from tests import ROOT
from tests.cli.runner import Result
from tests.cli.runner import acidctl as command
from tests.support.distant import DistantStorage, Requests, children_of
from tests.support.extent import amount
from tests.support.memory import MemoryStorage
from tests.support.orc_events import EventBatch, keys, written

HIVE4 = ROOT / "fixtures/tables/hive4"
STEP = HIVE4 / "partitioned/03-one-compacted"
LISTS = ("--validtxns", "default.t:9:9223372036854775807::", "--validtxns", "900000:9223372036854775807::")
DIRECTORIES = (
    "base_0000001_v0000005",
    *(f"delta_{number:07}_{number:07}_0000" for number in (2, 3, 4)),
    "delete_delta_0000004_0000004_0000",
)
Far = Callable[..., tuple[Result, Requests]]


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Far:
    """Runs a command on a table as if it lay on a server; gives what was answered and what was asked."""

    def run(*args: str, storage: DistantStorage | None = None, root: str = f"{STEP}/table") -> tuple[Result, Requests]:
        distant = storage or DistantStorage(LocalStorage())
        monkeypatch.setattr("acidctl.api.resolve_url", lambda url, options=None: (distant, root))
        result = command(*args, root, "-o", "json")
        assert result.code in (0, 3), result
        return result, distant.requests

    return run


def _partitions(number: int) -> DistantStorage:
    files = (f"ds={i:05}/{name}/bucket_00000" for i in range(number) for name in DIRECTORIES)
    return DistantStorage(MemoryStorage(), children_of("t", files))


@pytest.mark.parametrize("number", [20, pytest.param(amount(2_000, swept=10_000), marks=pytest.mark.slow)])
def test_ls_lists_each_directory_once_and_probes_nothing(far: Far, number: int) -> None:
    """Whatever the number of partitions and files."""
    result, requests = far("ls", storage=_partitions(number), root="t")
    assert len(result.json()["entries"]) == 5 * number
    assert set(requests.listings.values()) == {1}
    assert len(requests.listings) == 1 + number * (1 + 5)
    assert (requests.opened, requests.ranges) == ({}, [])
    assert set(requests.probed) <= {"t"}


def test_ls_of_one_partition_lists_no_other(far: Far) -> None:
    """What is not asked for is not walked."""
    _, requests = far("ls", "--partition", "ds=00007", storage=_partitions(20), root="t")
    assert sorted(requests.listings) == ["t", "t/ds=00007", *sorted(f"t/ds=00007/{name}" for name in DIRECTORIES)]


@pytest.mark.parametrize("args", [("ls",), ("snapshot", "--files", *LISTS)], ids=" ".join)
def test_no_data_file_is_opened_for_names(far: Far, args: tuple[str, ...]) -> None:
    """Markers are, which decide something."""
    _, requests = far(*args)
    assert requests.listings
    assert all(path.endswith("_metadata_acid") for path in requests.opened)


def test_rows_of_ls_are_read_from_tails_by_one_request_each(far: Far) -> None:
    """However the files are opened."""
    result, requests = far("ls", "-l", "--rows")
    files = sum(entry["files"] for entry in result.json()["entries"])
    data = [path for path in requests.opened if "bucket_" in path and not path.endswith("_flush_length")]
    assert 0 < len(data) <= files
    assert set(requests.opened.values()) == {1}
    assert len(requests.ranges) == len(requests.opened)
    assert all(length <= 128 << 10 for _, _, length in requests.ranges)


def _large(folder: Path) -> Path:
    """A table with a base of four large stripes, and a delete delta of every tenth of its rows."""
    rows, random = 80_000, np.random.default_rng(3)
    types = parse_schema("a bigint, b binary").columns

    def inserted() -> Iterator[EventBatch]:
        for start in range(0, rows, 20_000):
            texts = pa.array([row.tobytes() for row in random.integers(0, 1 << 60, (20_000, 9))], pa.binary())
            yield EventBatch(keys(20_000, start=start), (pa.array(random.integers(0, 1 << 60, 20_000)), texts))

    base, _ = written(inserted(), types, stripe_size=2 << 20)
    for name, data in (("base_0000001_v0000005", base),):
        (folder / name).mkdir(parents=True)
        (folder / name / "bucket_00000").write_bytes(data)
    return folder


@pytest.mark.slow
def test_counting_reads_tails_and_keys_only(far: Far, tmp_path: Path) -> None:
    """The columns of rows stay where they are: a few requests, a small part of the bytes."""
    root = _large(tmp_path / "t")
    size = (root / "base_0000001_v0000005/bucket_00000").stat().st_size
    result, requests = far("snapshot", "--count", *LISTS, root=str(root))
    assert result.json()["rows"] == 80_000
    assert size > 4 << 20
    assert requests.bytes < size / 4
    assert len(requests.ranges) <= 12
