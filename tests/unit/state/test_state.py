"""Profile strict: what is read, what is left out, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from acidctl.errors import NotEnoughHistoryError
from acidctl.format.listing import Listing
from acidctl.format.write_ids import Profile, Reader, ValidTxns, ValidWriteIds
from acidctl.state.entries import (
    ORIGINALS_NAME,
    AcidState,
    EntryKind,
    EntryState,
    HiveFailureError,
    StateEntry,
    TableType,
)
from acidctl.state.equivalence import disagreements
from acidctl.state.resolve import TableGuess, guess_table_type, resolve
from tests.support.vectors import listing_of

ALL = ValidWriteIds.everything()
COMPACTED = b'{"thisFileVersion":"0","dataFormat":"compacted"}'
TRUNCATED = b'{"thisFileVersion":"0","dataFormat":"truncated"}'


def hive_files(*names: str) -> list[str]:
    """Paths of directories as Hive 4 SQL fills them."""
    return [f"{name}/{file}" for name in names for file in ("bucket_00000_0", "_orc_acid_version")]


def strict(
    paths: list[str] | Listing,
    write_ids: str | ValidWriteIds = ALL,
    txns: str | None = None,
    *,
    table_type: TableType | TableGuess | None = None,
    markers: Mapping[str, bytes] | None = None,
) -> AcidState:
    """The strict state of a listing, history missing or not."""
    return resolve(
        paths if isinstance(paths, Listing) else listing_of(paths, markers=markers),
        Reader(
            ValidWriteIds.parse(write_ids) if isinstance(write_ids, str) else write_ids,
            None if txns is None else ValidTxns.parse(txns),
        ),
        table_type=table_type,
        raise_on_history=False,
    )


def entry(state: AcidState, name: str) -> StateEntry:
    """The entry of that name."""
    return next(found for found in state.entries if found.name == name)


def live(state: AcidState) -> list[str]:
    """Base and deltas that are read, in order."""
    return [found.name for found in (state.base, *state.deltas) if found is not None]


HALF_COMPACTED = [
    *hive_files("delta_0000001_0000001_0000", "delete_delta_0000002_0000002_0000", "delta_0000003_0000003_0000"),
    "base_0000002_v0000020/bucket_00000",
    "delta_0000003_0000004_v0000023/bucket_00000",
    *hive_files("delta_0000007_0000007_0000", "delta_0000008_0000009_0000", "delta_0000011_0000011_0000"),
]


def test_every_directory_has_a_state_a_reason_and_a_cause() -> None:
    """A half compacted table with an aborted, an open and an unseen write, told directory by directory."""
    state = strict(HALF_COMPACTED, "db.t:10:8:8,9:7", "30:23:23:")
    told = {e.name: (e.state.value, e.reason_code, e.reason, e.because_of) for e in state.entries}
    base = "base_0000002_v0000020"
    covered = ("obsolete", "covered_by_base", f"covered by {base}, which holds all writes up to 2", (base,))
    assert told == {
        base: ("live", "base", "the newest base this reader can use: it holds all writes up to 2", ()),
        "delta_0000001_0000001_0000": covered,
        "delete_delta_0000002_0000002_0000": covered,
        "delta_0000003_0000004_v0000023": (
            "not_visible",
            "compaction_open",
            "made by compaction transaction 23, which is not committed for this reader (still open)",
            (),
        ),
        "delta_0000003_0000003_0000": ("live", "visible", "write id 3 is visible", ()),
        "delta_0000007_0000007_0000": ("aborted", "write_aborted", "write id 7 was aborted", ()),
        "delta_0000008_0000009_0000": (
            "open",
            "write_open",
            "write ids 8..9 are still open for this reader",
            (),
        ),
        "delta_0000011_0000011_0000": (
            "above_watermark",
            "above_watermark",
            "write id 11 is above this reader's high watermark 10",
            (),
        ),
    }
    assert live(state) == [base, "delta_0000003_0000003_0000"]


def test_compactions_by_aborted_and_unseen_transactions() -> None:
    """Compactor output is left out by the fate of its transaction, and the sentence names it."""
    paths = ["delta_1_5_v10/bucket_0", "delta_1_5_v12/bucket_0", *hive_files("delta_1_1_0000")]
    state = strict(paths, ALL, "11:9223372036854775807::10")
    assert entry(state, "delta_1_5_v10").reason == "made by compaction transaction 10, which was aborted"
    assert entry(state, "delta_1_5_v10").state is EntryState.ABORTED
    assert "is above the last transaction this reader sees, 11" in entry(state, "delta_1_5_v12").reason
    assert live(state) == ["delta_1_1_0000"]


def test_without_txns_compactions_count_as_committed() -> None:
    """No transaction list means that every `_v` directory is taken as committed."""
    state = strict(["delta_1_5_v10/bucket_0", *hive_files("delta_1_1_0000")])
    assert live(state) == ["delta_1_5_v10"]
    assert entry(state, "delta_1_1_0000").because_of == ("delta_1_5_v10",)


def test_covered_by_both_halves_of_a_compaction() -> None:
    """The cause of a covered delta is the pair that a minor compaction made."""
    state = strict(["delta_1_5_v10/bucket_0", "delete_delta_1_5_v10/bucket_0", *hive_files("delta_3_3_0000")])
    found = entry(state, "delta_3_3_0000")
    assert found.because_of == ("delete_delta_1_5_v10", "delta_1_5_v10")
    assert found.reason == "covered by delete_delta_1_5_v10 and delta_1_5_v10, which hold write ids 1..5"


def test_half_a_compaction_is_noted() -> None:
    """An insert delta covered by a delete delta alone has lost its rows, and the notes say so."""
    state = strict(["delete_delta_1_5_v10/bucket_0", *hive_files("delta_3_3_0000")])
    assert any("other half of that compaction is missing" in note for note in state.notes)


def test_partly_visible_delta() -> None:
    """A streaming delta is read, and the sentence says which of its writes are not."""
    state = strict(["delta_1_10/bucket_0", *hive_files("delta_11_11_0000")], "db.t:9:6:6,7:4")
    assert entry(state, "delta_1_10").reason == (
        "write ids 1..10 are visible except 4 (aborted), 6..7 (open), 10 (above the high watermark), "
        "whose rows are left out"
    )


def test_the_rest_of_a_delta_beyond_the_cover_is_judged() -> None:
    """A delta whose visible beginning is covered and whose rest is unseen is named as what its rest is."""
    state = strict(["delta_1_5_v10/bucket_0", "delta_4_8/bucket_0", *hive_files("delta_1_1_0000")], "t:8:6:6,7,8:")
    found = entry(state, "delta_4_8")
    assert (found.state, found.reason_code) == (EntryState.OPEN, "rest_write_open")
    assert found.because_of == ("delta_1_5_v10",)
    assert "up to 5 are covered by delta_1_5_v10" in found.reason
    assert "6..8 are still open" in found.reason


# Where strict and Hive 4 part (each with the sentence that says so)


def test_an_uncommitted_overwrite_is_not_read() -> None:
    """Hive 4 reads a base whose open write id is the lowest open one (HIVE-22754); strict does not."""
    listing = listing_of(hive_files("base_0000010", "delta_0000007_0000007_0000"))
    ids = ValidWriteIds.parse("db.t:10:10:10:")
    state = strict(listing, ids)
    assert live(state) == ["delta_0000007_0000007_0000"]
    assert entry(state, "base_0000010").reason == "write id 10 is still open for this reader"
    said = disagreements(listing, Reader(ids))
    assert said == (
        "Hive 4 would read base_0000010, which profile strict leaves out: write id 10 is still open for this reader; "
        "it would pass over 1 entry that this base covers.",
    )


def test_missing_history_masked_by_an_aborted_overwrite_is_an_error() -> None:
    """Hive 4 silently lacks rows here; strict raises with the numbers that matter."""
    paths = [*hive_files("base_0000005"), "base_0000010_v0000020/bucket_00000"]
    ids = ValidWriteIds.parse("db.t:12:7:7:5")
    with pytest.raises(NotEnoughHistoryError, match="write id 7 is still open"):
        resolve(listing_of(paths), Reader(ids))
    state = strict(paths, ids)
    assert state.not_enough_history is not None
    assert entry(state, "base_0000010_v0000020").state is EntryState.UNUSABLE
    assert any("reports no missing history" in line for line in disagreements(listing_of(paths), Reader(ids)))


def test_a_snapshot_before_the_base_is_missing_history() -> None:
    """Reading as of a write id that the only base has passed is refused, and the base is named."""
    with pytest.raises(NotEnoughHistoryError, match=r"base_10_v20.*up to 10.*up to 8 only") as caught:
        resolve(listing_of(["base_10_v20/bucket_0"]), Reader(ValidWriteIds.as_of(8)))
    assert caught.value.path == "/t"


def test_a_snapshot_before_an_overwrite_may_miss_rows() -> None:
    """As of a write id before an overwrite, what it replaced may have been cleaned, and that is said."""
    state = strict(hive_files("base_0000005", "delta_0000002_0000002_0000"), ValidWriteIds.as_of(3))
    assert live(state) == ["delta_0000002_0000002_0000"]
    assert any("base_0000005 overwrote later" in note for note in state.notes)


def test_an_unusable_newer_compaction_is_noted() -> None:
    """Where a lower base has to do, deltas in between may be gone, and that is said."""
    state = strict(["base_5_v15/bucket_0", "base_10_v20/bucket_0", *hive_files("delta_6_6_0000")], "t:12:7:7:")
    assert live(state) == ["base_5_v15", "delta_6_6_0000"]
    assert any("cannot use base_10_v20" in note for note in state.notes)


def test_minimum_open_is_the_lower_of_field_and_list() -> None:
    """A list whose lowest-open field contradicts its open ids is read the careful way."""
    state = strict(["base_60_v9/bucket_0", "base_40_v8/bucket_0"], "t:100:70:50:")
    assert live(state) == ["base_40_v8"]


def test_the_later_of_two_compactions_counts() -> None:
    """Equal ranges of one kind and equal bases: the highest visibility id is read, the rest is obsolete."""
    deltas = ["delta_1_5_v10/bucket_0", "delta_1_5_v20/bucket_0", "delta_1_5/bucket_0"]
    state = strict(deltas)
    assert live(state) == ["delta_1_5_v20"]
    assert entry(state, "delta_1_5").because_of == ("delta_1_5_v20",)
    assert any("rows twice" in note for note in state.notes)
    assert len(disagreements(listing_of(deltas), Reader(ALL))) == 2
    bases = strict(["base_10_v30/bucket_0", "base_10_v15/bucket_0", "base_10/bucket_0"])
    assert live(bases) == ["base_10_v30"]
    assert {entry(bases, n).reason_code for n in ("base_10", "base_10_v15")} == {"same_ids_as_base"}


def test_two_spellings_of_one_delta_are_both_read() -> None:
    """Without visibility ids nothing says which of two equal deltas counts, so both are read, with a note."""
    state = strict(hive_files("delta_5_5_0000", "delta_0000005_0000005_0000"))
    assert len(state.deltas) == 2
    assert any("all are read" in note for note in state.notes)


def test_overlaps_are_noted() -> None:
    """Ranges that overlap in part or begin inside the base are read whole and remarked upon."""
    state = strict(["base_7_v20/bucket_0", "delta_5_9_v21/bucket_0", "delta_8_12_v22/bucket_0"])
    assert live(state) == ["base_7_v20", "delta_5_9_v21", "delta_8_12_v22"]
    assert any("delta_5_9_v21 begins inside base_7_v20" in note for note in state.notes)
    assert any("delta_8_12_v22 overlaps delta_5_9_v21" in note for note in state.notes)


def test_odd_names_are_unrecognised_and_never_raised() -> None:
    """Names that make Hive 4 fail are kept with a reason, and the rest is read."""
    paths = ["delta_5/bucket_0", "base_x/bucket_0", "delta_10_5/bucket_0", *hive_files("delta_1_1_0000")]
    state = strict(paths)
    assert live(state) == ["delta_1_1_0000"]
    assert {found.name for found in state.unrecognised} == {"delta_5", "base_x", "delta_10_5"}
    assert "above its last 5" in entry(state, "delta_10_5").reason
    assert disagreements(listing_of(paths), Reader(ALL)) == (
        "Hive 4 fails here with NumberFormatException on the name base_x.",
    )
    shorter = listing_of(["delta_5/bucket_0"])
    assert "StringIndexOutOfBoundsException" in disagreements(shorter, Reader(ALL))[0]
    with pytest.raises(HiveFailureError, match="base_x"):
        resolve(listing_of(paths), Reader(ALL, ValidTxns.everything(), Profile.HIVE4))
    tolerant = resolve(listing_of(paths), Reader(ALL, ValidTxns.everything(), Profile.HIVE4), raise_on_history=False)
    assert len(tolerant.notes) == 2
    assert {found.name for found in tolerant.unrecognised} == {"delta_5", "base_x"}


def test_nested_directories_are_unrecognised() -> None:
    """A delta inside another directory is shown by its path and not read; Hive 4 would read it."""
    paths = [*hive_files("delta_1_1_0000"), *hive_files("sub/delta_2_2_0000")]
    state = strict(paths)
    assert live(state) == ["delta_1_1_0000"]
    assert entry(state, "sub/delta_2_2_0000").reason_code == "nested"
    assert entry(state, "sub").reason_code == "no_data_files"
    assert state.originals == ()
    assert any("would read sub/delta_2_2_0000" in line for line in disagreements(listing_of(paths), Reader(ALL)))


def test_temporary_directories_are_hidden() -> None:
    """`-tmp.`, `-ext-`, `.` and `_` names are hidden with a reason; Hive 4 takes `-tmp.` for originals."""
    paths = [
        "-tmp.delta_2_2_0000/000000_0.manifest",
        ".hive-staging_1/-ext-10000/000000_0",
        "_acidctl_work_7/owner",
        "_acidctl_lock",
        "_orc_acid_version",
        *hive_files("delta_1_1_0000"),
    ]
    state = strict(paths)
    hidden = {found.name: found.reason for found in state.entries if found.state is EntryState.HIDDEN}
    assert set(hidden) == {
        "-tmp.delta_2_2_0000",
        ".hive-staging_1",
        "_acidctl_work_7",
        "_acidctl_lock",
        "_orc_acid_version",
    }
    assert "running or failed Hive 4 write" in hidden["-tmp.delta_2_2_0000"]
    assert entry(state, "_orc_acid_version").kind is EntryKind.MARKER
    assert state.originals == ()
    assert any("as original data" in line for line in disagreements(listing_of(paths), Reader(ALL)))


def test_empty_base_directories_are_honoured() -> None:
    """An empty base is a truncation if its id is valid, and a note says that it is empty."""
    for path in ("base_3/", "base_3/_empty"):
        state = strict([path, *hive_files("delta_1_1_0000")])
        assert live(state) == ["base_3"]
        assert any("empty base" in note for note in state.notes)
    assert live(strict(["base_3/", *hive_files("delta_1_1_0000")], "t:5:3:3:")) == ["delta_1_1_0000"]


# Bases


def test_overwrites_need_only_their_own_id() -> None:
    """An open id below an overwrite does not matter, an aborted overwrite is as if it had not been."""
    paths = hive_files("base_10", "delta_8_8_0000", "delta_9_9_0000", "delta_11_11_0000")
    state = strict(paths, "t:12:8:8:")
    assert live(state) == ["base_10", "delta_11_11_0000"]
    assert entry(state, "delta_8_8_0000").state is EntryState.OPEN
    assert entry(state, "delta_9_9_0000").reason == "covered by base_10, which holds or replaced all writes up to 10"
    aborted = strict(paths, "t:12:9223372036854775807::10")
    assert live(aborted) == ["delta_8_8_0000", "delta_9_9_0000", "delta_11_11_0000"]
    assert aborted.not_enough_history is None


def test_markers_tell_compaction_from_truncation() -> None:
    """`_metadata_acid` of Hive 3 makes a base a compacted one; a truncation's leaves it an overwrite."""
    paths = ["base_10/bucket_0", "base_10/_metadata_acid"]
    marker = "base_10/_metadata_acid"
    assert strict(paths, "t:12:7:7:", markers={marker: COMPACTED}).not_enough_history is not None
    assert live(strict(paths, "t:12:7:7:", markers={marker: TRUNCATED})) == ["base_10"]
    unread = strict(paths, "t:12:7:7:")
    assert unread.not_enough_history is not None
    assert any("content of base_10/_metadata_acid is not known" in note for note in unread.notes)
    assert live(strict(["base_10/_metadata_acid"], "t:12:7:7:")) == ["base_10"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"thisFileVersion":"1","dataFormat":"compacted"}', b"\xff"])
def test_a_damaged_marker_decides_nothing(content: bytes) -> None:
    """Where both readings of a base agree it is read with a note; else it is unrecognised and history is missing."""
    paths = ["base_10/bucket_0", "base_10/_metadata_acid"]
    markers = {"base_10/_metadata_acid": content}
    assert live(strict(paths, "t:12:9223372036854775807::", markers=markers)) == ["base_10"]
    state = strict(paths, "t:12:7:7:", markers=markers)
    assert entry(state, "base_10").state is EntryState.UNRECOGNISED
    assert state.not_enough_history is not None
    assert state.notes
    aborted = strict(paths, "t:12:9223372036854775807::10", markers=markers).not_enough_history
    assert aborted is not None
    assert "damaged _metadata_acid" in aborted.message


def test_the_first_compaction_of_a_converted_table() -> None:
    """The base named after the smallest long is always usable, and holds the original files."""
    name = "base_-9223372036854775808_v0000023"
    state = strict([f"{name}/bucket_0", "000000_0", *hive_files("delta_10000001_10000001_0000")], "t:10000002:5:5:")
    assert live(state) == [name, "delta_10000001_10000001_0000"]
    group = entry(state, ORIGINALS_NAME)
    assert (group.state, group.because_of) == (EntryState.OBSOLETE, (name,))
    assert "holds all original files" in group.reason


# Originals


def test_originals_are_one_entry_in_path_order() -> None:
    """All originals of a location are one entry, in the order that makes their row ids; empty ones are dropped."""
    paths = ["000001_0", "000000_0", "000000_0_copy_2", "000000_0_copy_10", "HIVE_UNION_SUBDIR_1/000000_0", "e_0"]
    listing = listing_of([*paths, "HIVE_UNION_SUBDIR_1/.x.crc"], {"e_0": 0})
    state = strict(listing)
    assert [f.path for f in state.originals] == [
        "000000_0",
        "000000_0_copy_10",
        "000000_0_copy_2",
        "000001_0",
        "HIVE_UNION_SUBDIR_1/000000_0",
    ]
    assert [e.name for e in state.entries] == [ORIGINALS_NAME]
    assert len(state.entries[0].files) == 7


def test_an_empty_location_is_an_empty_state() -> None:
    """No entries, nothing to read, no error."""
    state = strict([])
    assert (state.entries, live(state), state.originals) == ((), [], ())
    assert state.table_type is TableType.EMPTY


def test_plain_files_named_like_directories_are_originals() -> None:
    """Only a directory can be a base or a delta."""
    state = strict(["base_5", "delta_1_1"])
    assert [f.path for f in state.originals] == ["base_5", "delta_1_1"]


# Insert-only and ACID v1


def test_insert_only_tables() -> None:
    """Directories are selected the same way; plain files beside them are not read, delete deltas unknown."""
    paths = ["delta_1_1_0000/000000_0", "delta_2_2_0000/HIVE_UNION_SUBDIR_1/000000_0", "000000_0"]
    state = strict([*paths, "delete_delta_3_3_0000/x"], "t:9:9223372036854775807::2", table_type=TableType.INSERT_ONLY)
    assert state.insert_only
    assert live(state) == ["delta_1_1_0000"]
    assert state.originals == ()
    assert entry(state, ORIGINALS_NAME).state is EntryState.UNUSABLE
    assert entry(state, "delete_delta_3_3_0000").state is EntryState.UNRECOGNISED


def test_insert_only_directories_are_read_whole() -> None:
    """A compacted range with an open write cannot be split in an insert-only table, and the notes say so."""
    state = strict(["delta_1_5/000000_0"], "t:9:4:4:2", table_type=TableType.INSERT_ONLY)
    assert "read whole" in entry(state, "delta_1_5").reason
    assert any("read whole" in note for note in state.notes)


@pytest.mark.parametrize(
    ("paths", "expected", "ambiguous"),
    [
        (["delta_1_1_0000/bucket_00000_0"], TableType.FULL, False),
        (["delta_1_1_0000/000000_0", "delta_2_2_0000/_orc_acid_version"], TableType.FULL, False),
        (["delta_1_1_0000/000000_0", "delete_delta_2_2_0000/"], TableType.FULL, False),
        (["delta_1_1_0000/000000_0"], TableType.INSERT_ONLY, True),
        (["delta_1_1_0000/part-0.parquet"], TableType.INSERT_ONLY, True),
        (["delta_1_1_0000/HIVE_UNION_SUBDIR_1/000000_0"], TableType.INSERT_ONLY, False),
        (["000000_0", "delta_10000001_10000001_0000/000000_0"], TableType.FULL, True),
        (["base_3/_metadata_acid"], TableType.FULL, True),
        (["000000_0", "sub/000000_0"], TableType.ORIGINALS, True),
        (["_SUCCESS"], TableType.EMPTY, True),
    ],
)
def test_kind_of_table(paths: list[str], expected: TableType, ambiguous: bool) -> None:
    """Names tell the kind of a table where they can, and it is said where they cannot."""
    guess = guess_table_type([listing_of(paths)])
    assert (guess.type, guess.ambiguous) == (expected, ambiguous)
    assert guess.why


def test_one_partition_tells_for_all() -> None:
    """A sign of full ACID in any location decides for the table."""
    guess = guess_table_type([listing_of(["delta_1_1_0000/000000_0"]), listing_of(["delta_1_1_0000/bucket_0_0"])])
    assert guess.type is TableType.FULL


def test_signs_of_full_acid_count_whatever_became_of_their_directory() -> None:
    """LOAD DATA OVERWRITE leaves a base as of an insert-only table; what it covers still says what the table is."""
    alone = strict(["base_3/000000_0"], "t:9:9223372036854775807::")
    assert alone.table_type is TableType.INSERT_ONLY
    for sign, aborted in (
        ("delete_delta_2_2_0000/bucket_00000", ""),
        ("delete_delta_4_4_0000/bucket_00000", "4"),
        ("delta_2_2_0000/bucket_00000_0", ""),
        ("delta_4_4_0000/bucket_00000_0", "4"),
        ("base_2/bucket_00000", ""),
        ("delta_2_2_0000/_orc_acid_version", ""),
    ):
        listing = listing_of(["base_3/000000_0", sign])
        reader = Reader(ValidWriteIds.parse(f"t:9:9223372036854775807::{aborted}"), None)
        guess = guess_table_type([listing], reader)
        assert (guess.type, guess.ambiguous, guess.until_cleaned) == (TableType.FULL, False, True), sign
        assert sign.partition("/")[0] in guess.why
        # Where something that stays says so too, a cleaner may take the sign.
        stays = guess_table_type([listing, listing_of(["delta_5_5_0000/bucket_00000_0"])], reader)
        assert (stays.type, stays.ambiguous, stays.until_cleaned) == (TableType.FULL, False, False), sign
    # An obsolete delta of loaded files is of either kind.
    loaded = guess_table_type([listing_of(["base_3/000000_0", "delta_2_2_0000/000000_0"])])
    assert (loaded.type, loaded.ambiguous, loaded.until_cleaned) == (TableType.INSERT_ONLY, True, False)


def test_what_is_obsolete_or_aborted_tells_nothing_of_the_kind_where_what_is_left_does() -> None:
    """The kind, and so the rows, are the same before and after a cleaner."""
    union = ["000000_0", "delta_3_3_0000/HIVE_UNION_SUBDIR_1/000000_0"]
    for left, more, aborted in (
        (union, "delta_2_2_0000/bucket_00000_0", "2"),
        (union, "delete_delta_2_2_0000/bucket_00000_0", "2"),
        (["base_3/_metadata_acid"], "delta_2_2_0000/bucket_00000_0", ""),
    ):
        lists = f"t:9:9223372036854775807::{aborted}"
        before, after = strict([*left, more], lists), strict(left, lists)
        assert (before.table_type, live(before)) == (after.table_type, live(after))
        assert before.originals == after.originals
    # What is open or above this reader's watermark stays, and counts.
    later = strict(["delta_1_1_0000/000000_0", "delta_2_2_0000/bucket_00000_0"], "t:1:9223372036854775807::")
    assert later.table_type is TableType.FULL


def test_acid_v1_bases_are_compactions() -> None:
    """In a table of Hive 2 every base is a compaction: an aborted id does not matter, an open one does."""
    paths = ["base_0000005/bucket_00000", "delta_0000006_0000006_0000/bucket_00000"]
    assert strict(paths).acid_v1
    assert live(strict(paths, "null:9:9223372036854775807::5")) == ["base_0000005", "delta_0000006_0000006_0000"]
    assert strict(paths, "null:9:4:4:").not_enough_history is not None
    # A list that names its table is from Hive 3 or later, and then the base is an overwrite.
    assert live(strict(paths, "t:9:4:4:")) == ["base_0000005", "delta_0000006_0000006_0000"]
    # What one partition alone cannot tell, the guess over all of them does.
    alone = listing_of(["000000_0"])
    assert not strict(alone).acid_v1
    assert strict(alone, table_type=guess_table_type([alone, listing_of(paths)])).acid_v1
    marked = listing_of([*hive_files("base_5"), "_orc_acid_version"], markers={"_orc_acid_version": b"\0\0\0\0"})
    assert not strict(marked).acid_v1
    streamed = listing_of(["delta_1_9/bucket_00000", "_orc_acid_version"], markers={"_orc_acid_version": b"\0\0\0\0"})
    assert strict(streamed).acid_v1
