"""Rules of profile strict that a single line decides, each on the smallest listing that shows it."""

from __future__ import annotations

from typing import Any

from acidctl.format.listing import Listing
from acidctl.format.write_ids import Reader, ValidTxns, ValidWriteIds
from acidctl.state.entries import AcidState, TableType
from acidctl.state.resolve import TableGuess, resolve
from tests.support.cleaning import ALL_TXNS, ids, listing

FULL = TableGuess(TableType.FULL, False, "stated")


def read(place: Listing, write_ids: str, txns: str = ALL_TXNS, **more: Any) -> AcidState:
    """What a reader with these lists makes of a listing."""
    reader = Reader(ValidWriteIds.parse(write_ids), ValidTxns.parse(txns))
    return resolve(place, reader, **{"table_type": FULL, "raise_on_history": False, **more})


def names(state: AcidState) -> list[str]:
    """What is read."""
    return [*([state.base.name] if state.base else []), *(delta.name for delta in state.deltas)]


def codes(state: AcidState) -> dict[str, str]:
    """Reason code by name."""
    return {entry.name: entry.reason_code for entry in state.entries}


def test_a_base_whose_compaction_is_not_visible_is_not_read() -> None:
    """Open, above the watermark or aborted: whatever its write ids allow."""
    place = listing(["base_5_v50", "delta_1_5"])
    for txns, code in (
        ("60:50:50:", "compaction_open"),
        ("49:9223372036854775807::", "compaction_above_watermark"),
        ("60:9223372036854775807::50", "compaction_aborted"),
    ):
        state = read(place, ids(5), txns)
        assert (names(state), codes(state)["base_5_v50"]) == (["delta_1_5"], code)
        assert state.history_gap is None
    assert names(read(place, ids(5))) == ["base_5_v50"]


def test_delete_deltas_of_insert_only_tables() -> None:
    """Below a base they are what it covers, for the kind may be guessed wrong; above it, unknown."""
    kind = TableGuess(TableType.INSERT_ONLY, False, "stated")
    place = listing(["base_5", "delete_delta_4_4", "delete_delta_6_6", "delete_delta_3_2", "delta_7_7"])
    state = read(place, ids(7), table_type=kind)
    assert names(state) == ["base_5", "delta_7_7"]
    assert codes(state)["delete_delta_4_4"] == "covered_by_base"
    assert codes(state)["delete_delta_6_6"] == "delete_delta_in_insert_only"
    assert codes(state)["delete_delta_3_2"] == "bad_range"


def test_the_later_of_two_compactions_is_read() -> None:
    """Whatever stands first."""
    state = read(listing(["delta_1_5_v20", "delta_1_5_v30", "delta_1_5_v25"]), ids(5))
    assert names(state) == ["delta_1_5_v30"]
    assert codes(state)["delta_1_5_v20"] == codes(state)["delta_1_5_v25"] == "same_range"
    both = read(listing(["delta_1_5", "delta_01_05"]), ids(5))
    assert [doubt.code for doubt in both.doubts] == ["same_range"]


def test_what_is_said_of_a_base_of_acid_v1() -> None:
    """Only where a later Hive would have judged it otherwise."""
    kind = TableGuess(TableType.FULL, False, "stated", acid_v1=True)
    for text, noted in (("null:5:9::", False), ("null:6:9::5", True), ("null:6:3:3:", True), ("null:4:9::", False)):
        state = read(listing(["base_5", "delta_6_6_0000"]), text, table_type=kind)
        assert any("Hive 1 or 2" in note for note in state.notes) is noted, text


def test_what_is_said_of_a_marker_that_was_not_read() -> None:
    """Of a base with a transaction in its name, which tells what made it, nothing."""
    for name, noted in (("base_5", True), ("base_5_v50", False)):
        place = listing([name], compacted=[name])
        unread = Listing(place.root, place.files, place.directories, {})
        assert any("is not known" in note for note in read(unread, ids(5)).notes) is noted
    assert not read(listing(["base_5"]), ids(5)).notes
