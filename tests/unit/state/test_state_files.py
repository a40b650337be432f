"""Data files of an entry, and the layout that numbers rows of original files."""

from __future__ import annotations

from dataclasses import replace

from acidctl.format.names import BucketFile, OriginalFile, Unrecognised
from acidctl.format.write_ids import Reader, ValidWriteIds
from acidctl.rows.source import live_sources
from acidctl.state.entries import AcidState, StateEntry, TableType
from acidctl.state.inventory import by_bucket, data_files, ignored_files
from acidctl.state.resolve import resolve
from acidctl.storage.local import LocalStorage
from tests.support.vectors import listing_of


def state_of(paths: list[str], table_type: TableType | None = None) -> AcidState:
    """The strict state with everything committed."""
    return resolve(listing_of(paths), Reader(ValidWriteIds.everything()), table_type=table_type)


def only(state: AcidState) -> StateEntry:
    """The one delta or base that is read."""
    (entry,) = [e for e in (state.base, *state.deltas) if e is not None]
    return entry


def names(entry: StateEntry, **options: bool) -> list[str]:
    """Paths of the data files below the entry."""
    return [f.info.path.removeprefix(entry.name + "/") for f in data_files(entry, **options)]


def test_a_delta_has_buckets_and_originals() -> None:
    """In a delta only `bucket_*` and names of originals are data; what is ignored can be asked for."""
    entry = only(
        state_of(
            [
                "delta_1_5/bucket_00001",
                "delta_1_5/bucket_00000",
                "delta_1_5/bucket_00000_flush_length",
                "delta_1_5/bucket_x",
                "delta_1_5/_orc_acid_version",
                "delta_1_5/.bucket_00000.crc",
                "delta_1_5/000000_0",
                "delta_1_5/README",
                "delta_1_5/_tmp/bucket_00009",
            ]
        )
    )
    assert names(entry) == ["000000_0", "bucket_00000", "bucket_00001", "bucket_x"]
    assert [f.path for f in ignored_files(entry)] == ["delta_1_5/README"]
    by_name = {f.info.name: f for f in data_files(entry)}
    assert by_name["bucket_00000"].side_file is not None
    assert by_name["bucket_00000"].side_file.path == "delta_1_5/bucket_00000_flush_length"
    assert by_name["bucket_00001"].side_file is None
    assert isinstance(by_name["000000_0"].parsed, OriginalFile)
    assert isinstance(by_name["bucket_x"].parsed, Unrecognised)
    assert by_name["bucket_x"].bucket_id is None
    assert by_name["bucket_00001"].bucket_id == 1


def test_a_base_takes_every_visible_file() -> None:
    """In a base any visible name is data, except side files; a side file of compactor output is not looked at."""
    entry = only(state_of(["base_5_v7/bucket_00000", "base_5_v7/part-0", "base_5_v7/bucket_00000_flush_length"]))
    assert names(entry) == ["bucket_00000", "part-0"]
    assert all(f.side_file is None for f in data_files(entry))


def test_insert_only_takes_every_visible_file() -> None:
    """In an insert-only table any file format and any depth counts."""
    entry = only(
        state_of(
            [
                "delta_1_1_0000/HIVE_UNION_SUBDIR_2/000000_0",
                "delta_1_1_0000/HIVE_UNION_SUBDIR_1/000000_0",
                "delta_1_1_0000/x.parquet",
                "delta_1_1_0000/_manifest",
            ],
            TableType.INSERT_ONLY,
        )
    )
    assert names(entry, insert_only=True) == [
        "HIVE_UNION_SUBDIR_1/000000_0",
        "HIVE_UNION_SUBDIR_2/000000_0",
        "x.parquet",
    ]


def test_a_warehouse_below_a_hidden_folder() -> None:
    """Only the part of a path below the location can hide a file (Hive 4 looks at the whole path and sees nothing)."""
    listing = replace(listing_of(["delta_1_1_0000/bucket_00000"]), root="/data/.wh/_t")
    entry = only(resolve(listing, Reader(ValidWriteIds.everything())))
    assert names(entry) == ["bucket_00000"]


def test_bucket_twice_is_noted() -> None:
    """Two attempts of one bucket in one directory come from a crashed write; both are read, with a note."""
    state = state_of(["delta_1_1_0000/bucket_00000_0", "delta_1_1_0000/bucket_00000_1"])
    assert any("holds bucket 0 2 times (bucket_00000_0, bucket_00000_1)" in note for note in state.notes)
    assert len(data_files(only(state))) == 2


def test_originals_number_their_rows_bucket_by_bucket() -> None:
    """Worked example of Hive's TestTxnNoBuckets: copies and subdirectories continue the numbering of their bucket."""
    state = state_of(
        [
            "000002_0",
            "HIVE_UNION_SUBDIR_16/000001_0",
            "HIVE_UNION_SUBDIR_16/000000_0",
            "HIVE_UNION_SUBDIR_15/000000_0",
            "000001_0",
            "000000_0_copy_1",
            "000000_0",
            "random",
        ]
    )
    groups = by_bucket(state.originals)
    assert list(groups) == [0, 1, 2, None]
    sources, _ = live_sources(LocalStorage(), "/t", state)
    assert {(source.raw_write_id, source.statement_id) for source in sources} == {(0, 0)}
    assert [f.path for f in groups[0]] == [
        "000000_0",
        "000000_0_copy_1",
        "HIVE_UNION_SUBDIR_15/000000_0",
        "HIVE_UNION_SUBDIR_16/000000_0",
    ]
    assert [f.path for f in groups[1]] == ["000001_0", "HIVE_UNION_SUBDIR_16/000001_0"]
    assert [f.path for f in groups[None]] == ["random"]


def test_loaded_files_are_numbered_by_their_directory() -> None:
    """Rows of LOAD DATA have the write id and statement of the delta, or the write id of the base."""
    state = state_of(["delta_10000001_10000001_0001/000002_0", "delta_10000001_10000001_0001/000002_3"])
    (first, second), _ = live_sources(LocalStorage(), "/t", state)
    assert (first.raw_write_id, first.statement_id, first.bucket_id) == (10000001, 1, 2)
    assert second.before is first
    ((source,), _) = live_sources(LocalStorage(), "/t", state_of(["base_5/000000_0"]))
    assert (source.raw_write_id, source.statement_id, source.bucket_id) == (5, 0, 0)


def test_parsed_names_are_kept() -> None:
    """A data file says what its name says."""
    entry = only(state_of(["delta_1_1/bucket_00003_2", "delta_1_1/000001_0_copy_4"]))
    assert [f.parsed for f in data_files(entry)] == [
        OriginalFile("000001_0_copy_4", 1, 0, 4),
        BucketFile("bucket_00003_2", 3, 2),
    ]
