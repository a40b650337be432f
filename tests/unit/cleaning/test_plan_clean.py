"""What may be removed from one location, and every guard that holds it back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from acidctl.cleaning.plan import GUARDS, CleanPlan, Evidence, plan_location
from acidctl.format.listing import FileInfo
from acidctl.state.entries import TableType
from acidctl.state.resolve import TableGuess
from tests.support.cleaning import HOUR, NOW, gone, ids, judged, listing, planned, sound

D1_5 = [f"delta_{i}_{i}" for i in range(1, 6)]
MIN_BASE = "base_-9223372036854775808_v10"

# Number, listing, write ids, transactions, what goes, and the guard that fails; the numbers are the specification's.
EXAMPLES: list[tuple[int, list[str], str, str, set[str], str | None]] = [
    (1, ["base_5_v50", *D1_5, "delta_6_6"], ids(6), "100:9223372036854775807::", set(D1_5), None),
    (2, ["base_5_v50", *D1_5, "delta_6_6"], ids(6, open=[4]), "100:9223372036854775807::", set(), None),
    (3, ["base_5_v120", *D1_5], ids(5), "100:9223372036854775807::", set(), None),
    (4, ["base_5_v90", *D1_5], ids(5), "100:90::90", {"base_5_v90"}, None),
    (5, ["base_5_v90", *D1_5], ids(5), "100:90:90:", set(), None),
    (
        6,
        ["delta_1_5_v50", "delete_delta_1_5_v50", "delta_1_1_0000", "delete_delta_3_3_0000", "delta_5_5_0000"],
        ids(5),
        "100:9223372036854775807::",
        {"delta_1_1_0000", "delete_delta_3_3_0000", "delta_5_5_0000"},
        None,
    ),
    (7, ["delta_7_7"], ids(8, aborted=[7]), "100:9223372036854775807::", {"delta_7_7"}, None),
    (8, ["delta_7_7"], ids(8, open=[7]), "100:9223372036854775807::", set(), None),
    (9, ["delta_7_9"], ids(9, aborted=[8]), "100:9223372036854775807::", set(), None),
    (10, ["delta_7_9", "base_9_v60"], ids(9, aborted=[8]), "100:9223372036854775807::", {"delta_7_9"}, None),
    (11, ["delta_7_9", "base_8_v60"], ids(9), "100:9223372036854775807::", set(), "G3"),
    (12, ["base_5", "base_5_v50"], ids(5), "100:9223372036854775807::", set(), None),
    (13, ["base_6", "base_5_v50", *D1_5], ids(6), "100:9223372036854775807::", {"base_5_v50", *D1_5}, None),
    (14, ["base_6", "base_5_v50", *D1_5], ids(6, open=[6]), "100:9223372036854775807::", set(D1_5), None),
    (15, ["000000_0", MIN_BASE, "delta_1_1"], ids(1), "100:9223372036854775807::", {"(original files)"}, None),
    (16, ["base_3", "delta_2_2"], ids(3, open=[2]), "100:9223372036854775807::", set(), None),
]


@pytest.mark.parametrize(
    ("number", "names", "write_ids", "txns", "expected", "guard"), EXAMPLES, ids=[f"example {e[0]}" for e in EXAMPLES]
)
def test_examples_of_the_specification(
    number: int, names: list[str], write_ids: str, txns: str, expected: set[str], guard: str | None
) -> None:
    """Exactly what the specification says goes, and every entry stands once."""
    place = listing(names, compacted=["base_5"] if number == 12 else [])
    plan = planned(place, write_ids, txns)
    assert set(gone(plan)) == expected
    assert [g.guard for g in plan.guards if not g.holds] == ([] if guard is None else [guard])
    shown = sorted(e.name for e in (*plan.victims, *plan.kept))
    assert shown == sorted("(original files)" if name == "000000_0" else name for name in names)
    assert all(entry.reason and entry.reason_code for entry in (*plan.victims, *plan.kept))


def failing(plan: Any) -> list[str]:
    """Names of the guards that fail."""
    return [guard.guard for guard in plan.guards if not guard.holds]


COVERED = ["base_5_v50", *D1_5, "delta_6_6"]


def test_all_guards_are_reported_and_hold_in_a_sound_place() -> None:
    """Every guard, each with a sentence."""
    plan = planned(listing(COVERED), ids(6))
    assert tuple(guard.guard for guard in plan.guards) == tuple(GUARDS)
    assert plan.holds
    assert all(guard.why for guard in plan.guards)


@pytest.mark.parametrize(
    ("write_ids", "txns"),
    [("default.t:9223372036854775807:9223372036854775807::", "100:9::"), (ids(6), "9223372036854775807:9::")],
)
def test_g1_wants_real_watermarks(write_ids: str, txns: str) -> None:
    """A list that excludes nothing is nobody's snapshot."""
    plan = planned(listing(COVERED), write_ids, txns)
    assert failing(plan) == ["G1"]
    assert gone(plan) == []


@pytest.mark.parametrize(("table", "fails"), [("default.t", []), ("t", []), ("other.t", ["G1"]), ("default.u", ["G1"])])
def test_g1_wants_the_list_of_this_table(table: str, fails: list[str]) -> None:
    """Write ids of another table mean nothing here."""
    assert failing(planned(listing(COVERED), ids(6), table=table)) == fails


def test_g2_wants_transactions_where_names_carry_them() -> None:
    """Without them every such directory is left alone, and so is everything else."""
    plan = planned(listing([*COVERED, "delta_7_7"]), ids(7, aborted=[7]), None)
    assert failing(plan) == ["G2"]
    assert gone(plan) == []
    assert {e.name: e.reason_code for e in plan.kept}["base_5_v50"] == "no_txn_list"
    assert failing(planned(listing(["delta_7_7"]), ids(7, aborted=[7]), None)) == []


@pytest.mark.parametrize(
    ("names", "write_ids"),
    [
        (["delta_1_3", "delta_2_5", "delta_1_1_0000"], ids(5)),
        (["base_4_v9", "delta_3_6"], ids(6)),
        # 6 is open: what a later reader makes of the overlap is not known yet.
        (["delta_1_5_v9", "delta_1_1_0000", "delta_2_2_0000", "delta_5_6"], ids(6, open=[6])),
    ],
)
def test_g3_wants_nested_or_disjoint_ranges(names: list[str], write_ids: str) -> None:
    """Where ranges cross, covered and readable cannot be told apart."""
    plan = planned(listing(names), write_ids)
    assert failing(plan) == ["G3"]
    assert gone(plan) == []


def test_g4_wants_complete_covers() -> None:
    """A torn, unread or unmarked cover is no cover."""
    seen = judged(listing(COVERED), ids(6))
    for problems in ({}, {"base_5_v50": "base_5_v50/bucket_00000 is torn"}):
        plan = plan_location(seen, Evidence(problems))
        assert failing(plan) == ["G4"]
        assert gone(plan) == []
        assert {e.reason_code for e in plan.kept if e.name in D1_5} == {"guard_failed"}
    unmarked = judged(listing(["000000_0", "base_-9223372036854775808"]), ids(5))
    assert failing(plan_location(unmarked, sound(unmarked))) == ["G4"]


def test_g5_leaves_tables_alone_that_say_so_or_are_being_dropped() -> None:
    """no_cleanup, and the suffix of a non-blocking DROP."""
    assert failing(planned(listing(COVERED), ids(6), no_cleanup=True)) == ["G5"]
    assert failing(planned(listing(COVERED), ids(6), no_cleanup=False)) == []
    place = listing(COVERED)
    dropped = type(place)("/w/t.v17/p=1", place.files, place.directories, place.markers)
    assert failing(planned(dropped, ids(6))) == ["G5"]


def codes(plan: Any) -> dict[str, str]:
    """Reason code by name."""
    return {entry.name: entry.reason_code for entry in (*plan.victims, *plan.kept)}


def test_g6_is_per_entry() -> None:
    """A young entry stays, an old one beside it goes."""
    plan = planned(listing(COVERED, ages={"delta_2_2": 23.9, "delta_3_3": 24.0}), ids(6))
    assert set(gone(plan)) == set(D1_5) - {"delta_2_2"}
    assert codes(plan)["delta_2_2"] == "too_young"


def test_g6_a_young_cover_covers_nothing_but_an_older_one_still_does() -> None:
    """Readers that began before a compaction was published may still read what it covers."""
    names = ["base_2_v20", "base_5_v50", *D1_5]
    plan = planned(listing(names, ages={"base_5_v50": 1}), ids(6))
    assert gone(plan) == ["delta_1_1", "delta_2_2"]
    assert codes(plan)["delta_4_4"] == codes(plan)["base_2_v20"] == "cover_too_young"
    assert set(gone(planned(listing(names, ages={"base_5_v50": 1}), ids(6), older_than=HALF_HOUR))) == {
        "base_2_v20",
        *D1_5,
    }


HALF_HOUR = 1800.0


def test_g6_counts_the_time_of_the_directory_itself() -> None:
    """Files keep their times when their directory is renamed into place."""
    place = listing(COVERED)
    assert gone(planned(place, ids(6), times={"base_5_v50": NOW - 60})) == []
    assert set(gone(planned(place, ids(6), times={"base_5_v50": NOW - 90_000}))) == set(D1_5)


def test_g6_an_unknown_age_is_no_age() -> None:
    """Storages without times need --unsafe-no-retention."""
    place = listing(COVERED)
    timeless = type(place)(
        place.root,
        tuple(type(info)(info.path, info.size) for info in place.files),
        place.directories,
        place.markers,
    )
    plan = planned(timeless, ids(6))
    assert gone(plan) == []
    assert codes(plan)["delta_1_1"] == "age_unknown"
    assert set(gone(planned(timeless, ids(6), older_than=None))) == set(D1_5)


def test_g6_a_time_in_the_future_is_young() -> None:
    """Clocks differ."""
    assert gone(planned(listing(COVERED, ages=dict.fromkeys(D1_5, -5.0)), ids(6))) == []


def test_g7_wants_the_same_listing_again() -> None:
    """What changed between the plan and the deletion stops it."""
    seen = judged(listing(COVERED), ids(6))
    evidence = sound(seen)
    changed = Evidence(evidence.covers, evidence.empty, "delta_1_1 changed", again=True)
    assert failing(plan_location(seen, changed)) == ["G7"]


HIVE3_MINOR = ["delta_1_5", "delta_1_1_0000", "delete_delta_3_3_0000", "delta_5_5_0000"]


def test_g8_wants_both_halves_of_a_minor_compaction() -> None:
    """With one half missing its inputs are all that is left, unless they hold nothing."""
    seen = judged(listing(HIVE3_MINOR), ids(5))
    assert [c.name for c in seen.one_sided] == ["delete_delta_3_3_0000"]
    covers = {"delta_1_5": None}
    assert failing(plan_location(seen, Evidence(covers))) == ["G8"]
    assert failing(plan_location(seen, Evidence(covers, {"delete_delta_3_3_0000": False}))) == ["G8"]
    empty = Evidence(covers, {"delete_delta_3_3_0000": True}, rows=sound(seen).rows)
    assert set(gone(plan_location(seen, empty))) == set(HIVE3_MINOR[1:])
    both = judged(listing([*HIVE3_MINOR, "delete_delta_1_5"]), ids(5))
    assert both.one_sided == ()
    assert failing(plan_location(both, sound(both))) == []


def test_g8_a_young_input_counts_as_well() -> None:
    """The half that is missing would have to hold it."""
    seen = judged(listing(HIVE3_MINOR, ages={"delete_delta_3_3_0000": 1}), ids(5))
    assert [c.name for c in seen.one_sided] == ["delete_delta_3_3_0000"]


def test_g8_needs_no_half_that_nothing_would_be_in() -> None:
    """A minor compaction of inserts alone has no delete half."""
    seen = judged(listing(["delta_1_5_v50", "delta_1_1_0000", "delta_5_5_0000"]), ids(5))
    assert seen.one_sided == ()
    assert len(gone(plan_location(seen, sound(seen)))) == 2


def test_g8_a_journal_makes_a_location_untouchable() -> None:
    """One half may be in place and the other not."""
    plan = planned(listing([*COVERED, "_acidctl_work_0123456789ab/journal.json"]), ids(6))
    assert failing(plan) == ["G8"]
    assert codes(plan)["_acidctl_work_0123456789ab"] == "half_published"


def test_g9_bounds_the_snapshot() -> None:
    """Only what that compaction has made obsolete."""
    names = ["base_5_v50", "base_9_v60", *D1_5, "delta_8_8"]
    plan = planned(listing(names), ids(9), highest_write_id=5)
    assert set(gone(plan)) == set(D1_5)
    assert set(gone(planned(listing(names), ids(9), highest_write_id=50))) == {"base_5_v50", *D1_5, "delta_8_8"}


def test_what_is_open_or_above_the_watermark_stays() -> None:
    """However old it is, and whatever covers it."""
    names = ["base_9", "delta_3_3", "delta_12_12", "delta_1_4"]
    plan = planned(listing(names), ids(10, open=[3]))
    assert gone(plan) == []
    assert codes(plan) == {
        "base_9": "base",
        "delta_3_3": "write_open",
        "delta_12_12": "above_watermark",
        "delta_1_4": "write_open",
    }


def test_an_unlisted_lowest_open_id_counts_as_open() -> None:
    """Where a list contradicts itself the careful reading is taken."""
    assert gone(planned(listing(["delta_1_5_v50", "delta_2_2", "delta_4_4"]), "default.t:6:4::")) == []


def test_an_id_that_is_aborted_and_was_the_lowest_open_one_is_aborted() -> None:
    """The meet of an old list that has it open and a new one that has it aborted."""
    assert gone(planned(listing(["delta_4_4", "delta_5_5"]), "default.t:6:4::4")) == ["delta_4_4"]


def test_what_straddles_the_base_is_not_covered_by_it() -> None:
    """G3 stops it anyway; where that is off, the delta that holds all of it covers it."""
    chosen = judged(listing(["base_4_v9", "delta_3_8_v20", "delta_4_6", "delta_3_4"]), ids(8)).chosen.decisions
    assert {name: decision.reason_code for name, decision in chosen.items()} == {
        "base_4_v9": "base",
        "delta_3_8_v20": "visible",
        "delta_4_6": "covered_by_delta",
        "delta_3_4": "covered_by_base",
    }
    assert chosen["delta_4_6"].because_of == ("delta_3_8_v20",)


def test_only_what_has_the_form_of_compactor_output_covers() -> None:
    """A statement of one wide write (streaming ingest) holds the range, and not what others wrote there."""
    plan = planned(listing(["delta_1_5_0000", "delta_2_2_0000", "delta_3_3"]), ids(5))
    assert gone(plan) == []
    assert codes(plan)["delta_2_2_0000"] == codes(plan)["delta_3_3"] == "no_cover"
    assert gone(planned(listing(["delta_1_5", "delta_2_2_0000"]), ids(5))) == ["delta_2_2_0000"]


def test_what_reaches_above_the_watermark_is_undecided() -> None:
    """Also where it begins below: it neither goes nor covers."""
    plan = planned(listing(["delta_1_12_v9", "delta_2_2", "delta_5_5"]), ids(10))
    assert gone(plan) == []
    assert codes(plan)["delta_1_12_v9"] == "above_watermark"
    assert gone(planned(listing(["delta_1_10_v9", "delta_2_2"]), ids(10))) == ["delta_2_2"]


def test_a_bound_keeps_what_is_open_and_aborted_below_it() -> None:
    """--highest-write-id forgets ids above it and no other."""
    names = ["base_5_v50", "delta_3_3", "delta_4_4", "delta_5_5", "delta_6_6"]
    plan = planned(listing(names), ids(9, open=[3, 8], aborted=[4, 6]), highest_write_id=5)
    assert gone(plan) == ["delta_4_4"]
    assert codes(plan) == {
        "base_5_v50": "base_holds_open_ids",
        "delta_3_3": "write_open",
        "delta_4_4": "write_aborted",
        "delta_5_5": "visible",
        "delta_6_6": "above_watermark",
    }


def test_siblings_and_twins_stay() -> None:
    """Statements of one write, halves of one compaction, and equal ranges of two compactions."""
    names = ["delta_5_5_0000", "delta_5_5_0001", "delete_delta_5_5_0000", "delta_6_8_v20", "delta_6_8_v30"]
    assert gone(planned(listing(names), ids(8))) == []


def test_the_compaction_of_a_single_delta_covers_it() -> None:
    """Hive 3 rewrites delta_5_5_0000 to delta_5_5."""
    assert gone(planned(listing(["delta_5_5", "delete_delta_5_5", "delta_5_5_0000"]), ids(5))) == ["delta_5_5_0000"]


def test_an_overwrite_goes_when_its_compaction_is_there() -> None:
    """Readers prefer the compaction of equal id (HIVE-25777)."""
    assert gone(planned(listing(["base_5", "base_5_v50"]), ids(5))) == ["base_5"]


def test_an_aborted_overwrite_stays_where_it_keeps_readers_from_failing() -> None:
    """Hive 4 misses history when the oldest base is a compacted one that the reader cannot use."""
    names = ["base_2", "base_5_v50", *D1_5]
    plan = planned(listing(names), ids(6, open=[4], aborted=[2]))
    assert codes(plan)["base_2"] == "masks_history"
    assert gone(plan) == ["delta_2_2"]
    assert "base_2" in gone(planned(listing(names), ids(6, aborted=[2])))


def test_a_base_with_a_broken_marker_neither_goes_nor_covers() -> None:
    """What made it cannot be told."""
    place = listing(["base_5", *D1_5], compacted=["base_5"])
    broken = type(place)(place.root, place.files, place.directories, {"base_5/_metadata_acid": b"{"})
    plan = planned(broken, ids(6))
    assert gone(plan) == []
    assert codes(plan)["base_5"] == "bad_marker"


def test_insert_only_tables_keep_plain_files() -> None:
    """Hive may read them under a setting (hive.mm.allow.originals)."""
    kind = TableGuess(TableType.INSERT_ONLY, False, "stated")
    plan = planned(listing(["000000_0", "base_5_v50", "delta_1_1", "delete_delta_2_2"]), ids(5), kind=kind)
    assert gone(plan) == ["delta_1_1"]


def test_originals_with_tables_inside_stay() -> None:
    """Moving their folder would take a delta along."""
    names = ["sub/000000_0", "sub/delta_9_9/bucket_00000", "base_5_v50"]
    assert codes(planned(listing(names), ids(5)))["(original files)"] == "nested"


def test_original_files_by_other_names_stay() -> None:
    """Top by top: what holds one file that Hive would not have called so stays as a whole."""
    own = ["000000_0", "000001_0_copy_2", "HIVE_UNION_SUBDIR_2/000000_0", "HIVE_UNION_SUBDIR_2/_x"]
    foreign = ["1.txt", "sub/000000_0", "HIVE_UNION_SUBDIR_7/000000_0", "HIVE_UNION_SUBDIR_7/notes"]
    plan = planned(listing([*own, *foreign, "base_5"]), ids(5))
    assert gone(plan) == ["(original files)"]
    assert plan.victims[0].paths == ("000000_0", "000001_0_copy_2", "HIVE_UNION_SUBDIR_2")
    tops = {name.partition("/")[0] for name in foreign}
    assert {name for name, code in codes(plan).items() if code == "foreign_name"} == tops
    assert {entry.files for entry in plan.kept if entry.name == "HIVE_UNION_SUBDIR_7"} == {2}
    alone = planned(listing(["sub/000000_0", "base_5"]), ids(5))
    assert (gone(alone), codes(alone)["sub"]) == ([], "foreign_name")
    assert "(original files)" not in codes(alone)
    assert codes(planned(listing(["sub/000000_0", "delta_5_5"]), ids(5)))["(original files)"] == "originals"
    young = planned(listing(["000000_0", "1.txt", "base_5"], ages={"000000_0": 1}), ids(5))
    assert (codes(young)["(original files)"], codes(young)["1.txt"]) == ("too_young", "foreign_name")


@pytest.mark.parametrize(
    ("young", "goes"),
    [
        ("000000_0", {"base_2_v20", "delta_3_3", "delta_4_4"}),
        ("base_2_v20", {"(original files)", "delta_3_3", "delta_4_4", "delete_delta_2_2"}),
        ("delta_3_3", {"(original files)", "base_2_v20", "delta_4_4", "delete_delta_2_2"}),
        ("delta_4_4", {"(original files)", "base_2_v20", "delta_3_3", "delete_delta_2_2", "delete_delta_3_3"}),
        ("delete_delta_3_3", {"(original files)", "base_2_v20", "delta_3_3", "delta_4_4"}),
    ],
)
def test_deletes_stay_as_long_as_rows_that_they_may_concern(young: str, goes: set[str]) -> None:
    """Those of the same write or a later one; a base has had its own applied."""
    deletes = ["delete_delta_2_2", "delete_delta_3_3", "delete_delta_5_5"]
    names = ["000000_0", "base_2_v20", "delta_3_3", "delta_4_4", *deletes, "base_5_v50"]
    plan = planned(listing(names, ages={young: 1}), ids(5))
    if young == "delete_delta_3_3":
        goes = goes | {"delete_delta_2_2", "delete_delta_5_5"}
    assert set(gone(plan)) == goes
    needed = set(deletes) - goes - {young}
    assert {name for name, code in codes(plan).items() if code == "deletes_needed"} == needed


def test_deletes_of_a_minor_go_beside_young_rows() -> None:
    """Its other half still has them."""
    names = ["delta_1_3_v9", "delete_delta_1_3_v9", "delta_1_1", "delete_delta_2_2", "delta_3_3"]
    assert set(gone(planned(listing(names, ages={"delta_1_1": 1}), ids(3)))) == {"delete_delta_2_2", "delta_3_3"}


def test_in_acid_v1_any_delta_may_delete() -> None:
    """There updates and deletes are events of the same files."""
    kind = TableGuess(TableType.FULL, False, "stated", acid_v1=True)
    place = listing(["base_5", "delta_3_3_0000", "delta_4_4_0000", "delta_2_2_0000"], ages={"delta_3_3_0000": 1})
    assert gone(planned(place, "null:6:9::", kind=kind)) == ["delta_2_2_0000"]


def test_in_acid_v1_every_base_is_a_compaction() -> None:
    """And one named after an aborted id covers nothing, because a later Hive would have meant an overwrite."""
    kind = TableGuess(TableType.FULL, False, "stated", acid_v1=True)
    names = ["base_5", "delta_3_3_0000", "base_2"]
    assert gone(planned(listing(names), "null:6:9::", kind=kind)) == ["base_2", "delta_3_3_0000"]
    assert gone(planned(listing(names), "null:6:4:4:", kind=kind)) == []
    assert gone(planned(listing(names), "null:6:9::5", kind=kind)) == []


def test_bases_go_before_what_they_hold() -> None:
    """A reader outside the meet then fails loudly at any point of the deletion."""
    names = ["000000_0", "base_2_v9", "base_5_v50", "delta_1_1", "delta_3_3", "delta_7_7", "base_9_v60", "base_8"]
    plan = planned(listing(names), ids(9, aborted=[7, 8]))
    assert gone(plan) == [
        "delta_7_7",
        "base_8",
        "base_2_v9",
        "base_5_v50",
        "(original files)",
        "delta_1_1",
        "delta_3_3",
    ]


WORK = "_acidctl_work_0123456789ab"


def test_leftovers_go_by_age_and_only_when_nobody_can_need_them() -> None:
    """Failed work directories; Hive's own only on request; those of living runs never."""
    names = [f"{WORK}/failed", f"{WORK}/out/x", "_tmp_1/000000_0", ".hive-staging_hive_1/a", "delta_1_1", "_other/x"]
    assert gone(planned(listing(names), ids(1))) == [WORK]
    assert gone(planned(listing(names), ids(1), leftovers=True)) == [".hive-staging_hive_1", WORK, "_tmp_1"]
    young = listing(names, ages={name.partition("/")[0]: 1 for name in names})
    assert gone(planned(young, ids(1), leftovers=True)) == []
    # Hive's timeout bounds the age from below, whatever the retention.
    assert gone(planned(young, ids(1), leftovers=True, older_than=60.0)) == [WORK]
    working = listing([f"{WORK}/owner.json", "delta_1_1"])
    assert codes(planned(working, ids(1)))[WORK] == "work"


def test_work_of_nobody_goes_by_age_on_request() -> None:
    """Without an owner file or with an empty one; after Hive's timeout, and never with a journal."""
    bare = listing([f"{WORK}/out/x", "delta_1_1"])
    assert codes(planned(bare, ids(1)))[WORK] == "work_unowned"
    assert gone(planned(bare, ids(1))) == []
    assert gone(planned(bare, ids(1), leftovers=True)) == [WORK]
    young = listing([f"{WORK}/out/x", "delta_1_1"], ages={WORK: 23})
    assert gone(planned(young, ids(1), leftovers=True, older_than=60.0)) == []
    touched = gone(planned(bare, ids(1), leftovers=True, times={WORK: NOW - HOUR}))
    assert touched == []
    for name in ("owner.json", "journal.json"):
        held = listing([f"{WORK}/{name}", f"{WORK}/out/x", "delta_1_1"])
        assert gone(planned(held, ids(1), leftovers=True)) == []
        assert gone(planned(held, ids(1), leftovers=True, older_than=None)) == []
    empty = replace(
        held, files=(FileInfo(f"{WORK}/owner.json", 0, 1.0), FileInfo(f"{WORK}/out/x", 10, 1.0)), markers={}
    )
    assert gone(planned(empty, ids(1), leftovers=True)) == [WORK]
    # Nobody has looked into it, or nobody could make sense of it: readers may need what lies beside it.
    torn = replace(held, markers={f"{WORK}/journal.json": b"{"})
    assert gone(planned(torn, ids(1), leftovers=True)) == []


def test_a_plan_adds_up() -> None:
    """Entries and bytes of all locations."""
    plan = CleanPlan("/w/t", "full", ids(6), "", 60.0, (planned(listing(COVERED), ids(6)),), ("a",), ("b",))
    assert (plan.victims, plan.bytes, plan.holds) == (5, 100, True)


def test_the_fingerprint_covers_victims_and_covers_only() -> None:
    """A later write changes nothing; a changed victim or cover does."""
    plan = planned(listing(COVERED), ids(6))
    later = planned(listing([*COVERED, "delta_7_7"]), ids(6))
    assert plan.fingerprint == later.fingerprint
    for name in ("delta_1_1", "base_5_v50"):
        assert planned(listing(COVERED, ages={name: 50}), ids(6)).fingerprint != plan.fingerprint
