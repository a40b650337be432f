"""The report of `ls` as values."""

from __future__ import annotations

import pytest

from acidctl.format.listing import FileInfo
from acidctl.options import ReadView
from acidctl.rows.table_view import read, report
from acidctl.state.report import iso_time, seconds_of, to_json
from acidctl.storage.locations import locate
from acidctl.storage.port import Walk


def _report(*paths: str, **view: object) -> list[tuple[str, str]]:
    found = Walk(
        tuple(FileInfo(path, 1, 0.0) for path in sorted(paths)),
        tuple(sorted({path.rpartition("/")[0] for path in paths if "/" in path})),
    )
    answer = report("t", read(locate(found, "t"), ReadView.of(**view)))
    return [(entry.name, entry.state) for entry in answer.entries]


def test_entries_read_as_history() -> None:
    """What a compaction made follows what it was made of; what is no data comes last."""
    assert [name for name, _ in _report(
        "delta_0000001_0000001_0000/bucket_00000_0",
        "delete_delta_0000002_0000002_0000/bucket_00000_0",
        "delta_0000002_0000002_0001/bucket_00000_0",
        "delta_0000001_0000002_v0000009/bucket_00000",
        "base_0000002_v0000010/bucket_00000",
        "delta_0000003_0000003_0000/bucket_00000_0",
        "000000_0",
        ".hive-staging_1/x",
    )] == [
        "(original files)",
        "delta_0000001_0000001_0000",
        "delete_delta_0000002_0000002_0000",
        "delta_0000002_0000002_0001",
        "delta_0000001_0000002_v0000009",
        "base_0000002_v0000010",
        "delta_0000003_0000003_0000",
        ".hive-staging_1",
    ]  # fmt: skip


def test_times_go_there_and_back() -> None:
    """To the second; a time that no calendar writes is absent."""
    assert iso_time(0.9) == "1970-01-01T00:00:00Z"
    assert seconds_of(iso_time(86400.0)) == 86400.0
    assert iso_time(1e18) is None
    assert iso_time(None) is None


def test_json_leaves_out_what_was_not_asked_for() -> None:
    """`file_list` is there with --long only; absent is null, never -1."""
    answer = report("t", read(locate(Walk((), ("base_5",)), "t")))
    (entry,) = to_json(answer)["entries"]
    assert "file_list" not in entry
    assert entry["statement_id"] is None
    assert entry["rows"] is None
    (long,) = to_json(report("t", read(locate(Walk((), ("base_5",)), "t")), long=True))["entries"]
    assert long["file_list"] == []


@pytest.mark.parametrize("stray", [True, False])
def test_data_beside_partitions_is_never_read(stray: bool) -> None:
    """Whatever its name says."""
    paths = ["ds=1/delta_1_1_0000/bucket_00000_0", *(["delta_2_2_0000/bucket_00000_0"] if stray else [])]
    states = dict(_report(*paths))
    assert states["delta_1_1_0000"] == "live"
    assert states.get("delta_2_2_0000") == ("unrecognised" if stray else None)
