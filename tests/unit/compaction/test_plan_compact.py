"""What a compaction reads and writes, and when it does not: decided from names alone."""

from __future__ import annotations

from typing import Any

import pytest

from acidctl.compaction.plan import Action, CompactionKind, Target
from acidctl.errors import NotEnoughHistoryError, UsageError
from acidctl.format.write_ids import ValidWriteIds
from acidctl.state.entries import ORIGINALS_NAME, TableType
from acidctl.state.resolve import TableGuess
from acidctl.types.schema import parse_schema
from tests.support.plans import (
    FULL,
    INSERT_ONLY,
    MAJOR,
    MINOR,
    NONE_OPEN,
    drafted,
    ground_of,
    ids,
    inputs,
    listed,
    outputs,
    planned,
    txns,
)

MIN_BASE = "base_-9223372036854775808"
SINGLE = ["delta_{0:07d}_{0:07d}_0000", "delete_delta_{0:07d}_{0:07d}_0000"]


def delta(*numbers: int) -> list[str]:
    """Insert deltas of single writes."""
    return [SINGLE[0].format(number) for number in numbers]


def delete(*numbers: int) -> list[str]:
    """Delete deltas of single writes."""
    return [SINGLE[1].format(number) for number in numbers]


OPEN_9 = txns(9, "9")


@pytest.mark.parametrize(
    ("names", "kind", "write_ids", "txn", "expected"),
    [
        # Deltas and delete deltas share one range.
        (
            [*delta(1, 2, 4), *delete(3, 5)],
            MINOR,
            ids(5),
            9,
            ["delta_0000001_0000005_v0000009", "delete_delta_0000001_0000005_v0000009"],
        ),
        (delta(1, 2, 3), MINOR, ids(3), 5, ["delta_0000001_0000003_v0000005"]),
        (["base_0000001", *delete(2, 3)], MINOR, ids(3), 5, ["delete_delta_0000002_0000003_v0000005"]),
        (
            ["base_20", "delta_21_22", "delta_23_25", "delta_26_27"],
            MAJOR,
            ids(27, "23"),
            28,
            ["base_0000022_v0000028"],
        ),
        (
            ["base_20", "delta_21_22", "delta_23_25", "delta_26_27"],
            MINOR,
            ids(27, "", "24,25"),
            28,
            ["delta_0000021_0000027_v0000028"],
        ),
        (
            ["base_20", "delta_21_22", "delta_23_25", "delta_26_27"],
            MAJOR,
            ids(27, "", "24,25"),
            28,
            ["base_0000027_v0000028"],
        ),
        # The range ends with what was consumed, not with the watermark.
        (["delta_1_2", "delta_3_4", "delta_5_6"], MINOR, ids(6, "6"), 9, ["delta_0000001_0000004_v0000009"]),
        (["delta_1_2", "delta_3_4", "delta_5_6"], MAJOR, ids(6, "6"), 9, ["base_0000004_v0000009"]),
        # An aborted write at the upper edge is covered, so that nobody reads it once Hive has forgotten it.
        (delta(21, 23, 24), MINOR, ids(24, "", "24"), 30, ["delta_0000021_0000024_v0000030"]),
        (
            ["base_0000005", *delta(6, 8), *delete(7, 9)],
            MAJOR,
            ids(9, "9", "8"),
            30,
            ["base_0000008_v0000030"],
        ),
    ],
)
def test_names_as_the_rule_book_has_them(
    names: list[str], kind: CompactionKind, write_ids: str, txn: int, expected: list[str]
) -> None:
    """Worked examples of minor and major compactions, published under a transaction."""
    plan = planned(names, kind, write_ids, txns(txn, str(txn)), visibility_txn=txn)
    assert (plan.action, outputs(plan)) == (Action.COMPACT, expected)


def test_the_worked_selection() -> None:
    """Nothing at or above the lowest open write id is read, and aborted directories are not either."""
    names = [
        "base_20",
        "delta_21_21_0000",
        "delete_delta_21_21_0000",
        "delta_22_22_0000",
        "delta_22_22_0001",
        "delta_23_25",
        "delta_26_26_0000",
    ]
    plan = planned(names, MAJOR, ids(26, "24", "22"), None)
    assert inputs(plan) == {"base_20", "delta_21_21_0000", "delete_delta_21_21_0000"}
    # 23 would cover the aborted 22, and lies across delta_23_25.
    assert outputs(plan) == ["base_0000021"]
    assert [entry.kind for entry in plan.inputs] == ["base", "delete_delta", "delta"]


@pytest.mark.parametrize(
    ("names", "kind", "write_ids", "expected", "suffixed"),
    [
        # On disk or not: what a write that was aborted has begun may come late.
        (delta(1, 2, 3), MAJOR, ids(3, "", "3"), "base_0000002", "base_0000003"),
        (delta(1, 2, 3), MAJOR, ids(4, "", "3"), "base_0000004", "base_0000003"),
        (delta(1, 2), MAJOR, ids(9, "", "3,5,6"), "base_0000007", "base_0000006"),
        (delta(1, 2), MAJOR, ids(6, "", "3,5,6"), "base_0000004", "base_0000006"),
        (delta(1, 2, 3), MINOR, ids(3, "", "3"), "delta_0000001_0000003", "delta_0000001_0000003"),
        # Ids of other partitions, and a watermark that is too high, do not show in the name.
        (delta(1, 2), MAJOR, ids(9), "base_0000002", "base_0000002"),
        (delta(1, 2), MAJOR, "t:9223372036854775807:9223372036854775807::", "base_0000002", "base_0000002"),
        # Nothing at or above the lowest open id, and nothing across a directory that is partly open.
        (delta(1, 2), MAJOR, ids(9, "5", "3,7"), "base_0000004", "base_0000003"),
        ([*delta(1, 2), "delta_4_6"], MAJOR, ids(6, "6", "3,4"), "base_0000002", "base_0000003"),
        ([*delta(1, 2), "delta_4_6"], MAJOR, ids(6, "6", "4,5"), "base_0000002", "base_0000002"),
        # An input of which the last write was aborted.
        (["base_2", "delta_3_5"], MAJOR, ids(6, "", "5"), "base_0000006", "base_0000005"),
        # Below a minor only what is on disk; a base covers everything below it anyway.
        (delta(1, 2, 3), MINOR, ids(3, "", "1"), "delta_0000001_0000003", "delta_0000001_0000003"),
        (delta(2, 3), MINOR, ids(3, "", "1"), "delta_0000002_0000003", "delta_0000002_0000003"),
        (["base_4", *delta(3, 5, 6, 7)], MINOR, ids(7, "", "3,5"), "delta_0000005_0000007", "delta_0000005_0000007"),
        # Hive prefers the compacted one of two bases that end alike (HIVE-25777).
        ([*delta(1, 2), "base_3"], MAJOR, ids(9, "", "3"), "base_0000004", "base_0000003"),
        # Originals alone.
        (["000000_0", "000001_0", "delta_3_3"], MAJOR, ids(3, "", "3"), "base_0000002", "base_0000003"),
    ],
)
def test_aborted_writes_beside_the_inputs_are_covered(
    names: list[str], kind: CompactionKind, write_ids: str, expected: str, suffixed: str
) -> None:
    """Hive forgets that they were aborted; inside an output nobody reads them even then.

    Without a suffix no base ends with an aborted id: the Cleaner of Hive 4 would remove it.
    """
    assert outputs(planned(names, kind, write_ids)) == [expected]
    under_txn = planned(names, kind, write_ids, txns(9, "9"), visibility_txn=9)
    assert outputs(under_txn) == [f"{suffixed}_v0000009"]


def test_what_cannot_be_covered_is_said() -> None:
    """A directory of an aborted write above the output has to be removed while Hive knows of it."""
    (note,) = [n for n in planned(delta(1, 2, 3), MAJOR, ids(3, "", "3")).notes if "aborted" in n]
    assert "delta_0000003_0000003_0000, which an aborted write left, lies above base_0000002" in note
    assert not any("aborted" in n for n in planned(delta(1, 2, 3), MAJOR, ids(4, "", "3")).notes)


def test_hive_3_alone_gets_the_name_that_hive_3_gives() -> None:
    """Its Cleaner keeps a base that ends with an aborted id; that of an aborted overwrite is taken."""
    plan = planned(delta(1, 2, 3), MAJOR, ids(3, "", "3"), target=Target.HIVE3)
    assert outputs(plan) == ["base_0000003"]
    plan = planned([*delta(1, 2), "base_3"], MAJOR, ids(3, "", "3"), target=Target.HIVE3)
    assert outputs(plan) == ["base_0000002"]


def test_transactions_of_acid_v1_do_not_name_the_base() -> None:
    """They are those of all tables, and the table's write ids need not reach them for long; what is on disk counts."""
    guess = TableGuess(TableType.FULL, False, "it was said", True)
    names = ["delta_1_1", "delta_2_2", "delta_3_3"]
    plan = planned(names, MAJOR, "null:9:9223372036854775807::3,4,8", guess=guess)
    assert outputs(plan) == ["base_0000005"]


def test_many_aborted_ids_take_no_time() -> None:
    """A run of them costs one step each."""
    aborted = ",".join(map(str, range(3, 60_000)))
    assert outputs(planned(delta(1, 2), MAJOR, ids(60_000, "", aborted))) == ["base_0060000"]


def test_minor_leaves_base_and_originals_alone() -> None:
    """A minor merges deltas and nothing else."""
    plan = planned(["000000_0", *delta(1, 2)], MINOR, ids(2))
    assert inputs(plan) == set(delta(1, 2))
    plan = planned(["base_1", *delta(2, 3)], MINOR, ids(3))
    assert inputs(plan) == set(delta(2, 3))


@pytest.mark.parametrize(
    ("names", "kind", "code"),
    [
        ([], MAJOR, "empty"),
        ([], MINOR, "empty"),
        (["base_5"], MAJOR, "not_enough"),
        (["base_5"], MINOR, "not_enough"),
        (delta(1), MINOR, "not_enough"),
        (delta(1), MAJOR, "not_enough"),
        (["000000_0"], MINOR, "not_enough"),
        ([*delta(1), *delete(2)], MINOR, "not_enough"),
        (["delta_1_5_v9", "delete_delta_1_5_v9"], MINOR, "not_enough"),
        (["base_1", "delta_2_3", "delta_6_7"], MINOR, "not_enough"),
    ],
)
def test_too_little_to_do(names: list[str], kind: CompactionKind, code: str) -> None:
    """What Hive's worker refuses as not worth it is nothing to do, with a sentence."""
    plan = planned(names, kind, ids(5), txns(9))
    assert (plan.action, plan.reason_code) == (Action.NOTHING_TO_DO, code)
    assert plan.reason
    assert (plan.inputs, plan.outputs, plan.fingerprint) == ((), (), "")


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["000000_0"], MAJOR),
        (["base_1", *delta(2)], MAJOR),
        ([*delta(1), *delete(2)], MAJOR),
        (delta(1, 2), MINOR),
        (delete(1, 2), MINOR),
        (["delta_1_1_0000", "delta_1_1_0001"], MINOR),
        ([*delta(1, 2), *delete(2)], MINOR),
    ],
)
def test_enough_to_do(names: list[str], kind: CompactionKind) -> None:
    """The other side of the same rule."""
    assert planned(names, kind, ids(5)).action is Action.COMPACT


def test_nothing_to_do_says_what_clean_could() -> None:
    """Obsolete directories are not a reason to compact."""
    plan = planned(["+base_3", *delta(1, 2, 3)], MAJOR, ids(3))
    assert plan.reason_code == "not_enough"
    assert "3 obsolete or aborted entries" in plan.reason


@pytest.mark.parametrize("kind", [MINOR, MAJOR])
@pytest.mark.parametrize("txn", [None, 9])
def test_a_second_run_has_nothing_to_do(kind: CompactionKind, txn: int | None) -> None:
    """Whether the transaction of the first has been committed or not."""
    names = ["base_1", *delta(2, 4), *delete(3, 5)]
    options = {} if txn is None else {"visibility_txn": txn}
    before = txns(9, "9") if txn else None
    first = planned(names, kind, ids(5), before, **options)
    assert first.action is Action.COMPACT
    marked = [("+" if output.markers[1:] else "") + output.name for output in first.outputs]
    again = planned([*names, *marked], kind, ids(5), before, **options)
    assert again.action is Action.NOTHING_TO_DO
    if txn:
        assert again.reason_code == "already_there"
        assert planned([*names, *marked], kind, ids(5), txns(12)).action is Action.NOTHING_TO_DO


def test_markers() -> None:
    """The version in every full ACID output; a base without suffix says that it is compacted, to both Hives."""
    compacted = ("_metadata_acid", '{"thisFileVersion":"0","dataFormat":"compacted"}')
    version = ("_orc_acid_version", "2")
    names = [*delta(1, 2), *delete(3)]
    for target in (None, Target.HIVE3, Target.HIVE4):
        assert planned(names, MAJOR, ids(3), target=target).outputs[0].markers == (version, compacted)
    assert planned(names, MAJOR, ids(3), OPEN_9, visibility_txn=9).outputs[0].markers == (version,)
    assert [o.markers for o in planned(names, MINOR, ids(3)).outputs] == [(version,), (version,)]
    plain = ["delta_1_1_0000/000000_0", "delta_2_2_0000/000000_0"]
    assert planned(plain, MAJOR, ids(2), guess=INSERT_ONLY).outputs[0].markers == (compacted,)
    assert planned(plain, MAJOR, ids(2), OPEN_9, guess=INSERT_ONLY, visibility_txn=9).outputs[0].markers == ()
    assert planned(plain, MINOR, ids(2), guess=INSERT_ONLY).outputs[0].markers == ()


@pytest.mark.parametrize(
    ("names", "write_ids", "options", "expected"),
    [
        (["000000_0"], ids(7), {}, "base_0000007"),
        (["000000_0"], ids(0), {}, MIN_BASE),
        (["000000_0"], f"t:{NONE_OPEN}:{NONE_OPEN}::", {}, MIN_BASE),
        (["000000_0"], None, {"assume_committed": True}, MIN_BASE),
        (["000000_0"], ids(7, "5"), {}, "base_0000004"),
        # A streaming delta across the watermark: a base named after it would hide a part of the delta.
        (["000000_0", "delta_5_9"], ids(9, "8"), {}, MIN_BASE),
        (["000000_0", *delta(3)], ids(7), {}, "base_0000003"),
    ],
)
def test_the_base_of_original_files(
    names: list[str], write_ids: str | None, options: dict[str, Any], expected: str
) -> None:
    """Named after the watermark where that is a real write id and nothing crosses it, else after no write."""
    plan = planned(names, MAJOR, write_ids, None, **options)
    assert outputs(plan) == [expected]
    assert plan.inputs[0].name == ORIGINALS_NAME
    assert (plan.inputs[0].min_write_id, plan.inputs[0].max_write_id) == (None, None)


def test_an_overwrite_is_an_input() -> None:
    """A base that no compaction made is read like any other."""
    plan = planned(["base_3", "base_5", *delta(6)], MAJOR, ids(6))
    assert inputs(plan) == {"base_5", "delta_0000006_0000006_0000"}


@pytest.mark.parametrize(
    ("names", "kind", "write_ids", "txn_list", "code"),
    [
        (["delta_1_5", "delta_4_9"], MAJOR, ids(9), None, "overlapping_ranges"),
        (["base_5", "delta_4_9"], MAJOR, ids(9), None, "overlapping_ranges"),
        (["base_5", "delta_4_9", *delta(10)], MINOR, ids(10), None, "overlapping_ranges"),
        # A write that is not finished, or a compaction that is not committed, across the edge.
        ([*delta(1, 2), "delta_2_4"], MAJOR, ids(4, "3"), None, "straddled"),
        ([*delta(1, 2), "delta_2_4"], MINOR, ids(4, "3"), None, "straddled"),
        ([*delta(3, 4, 5), "delta_1_4_v7"], MINOR, ids(5), txns(9, "7"), "straddled"),
        ([*delta(3, 4, 5), "base_4_v7"], MINOR, ids(5), txns(9, "7"), "straddled"),
        # Another compaction of the very same range.
        ([*delta(1, 2), "delta_1_2_v7"], MINOR, ids(2), txns(9, "7"), "same_range"),
        ([*delta(1, 2), *delete(2), "delete_delta_1_2_v7"], MINOR, ids(2), txns(9, "7"), "same_range"),
        (["delta_1_1", "delta_01_01", *delta(2)], MAJOR, ids(2), None, "same_range"),
        (
            ["delta_1_1_0000/bucket_00000_0", "delta_1_1_0000/bucket_00000_1", *delta(2)],
            MAJOR,
            ids(2),
            None,
            "bucket_twice",
        ),
    ],
)
def test_refusals(names: list[str], kind: CompactionKind, write_ids: str, txn_list: str | None, code: str) -> None:
    """What a reader would read twice or in part is not compacted, and the sentence names the directory."""
    plan = planned(names, kind, write_ids, txn_list)
    assert (plan.action, plan.reason_code) == (Action.REFUSED, code)
    assert any(name.partition("/")[0] in plan.reason for name in names)
    assert (plan.inputs, plan.outputs) == ((), ())


def test_other_compactions_that_nest_do_no_harm() -> None:
    """A compaction that is not committed, or was aborted, is no obstacle where ranges nest or nobody will read it."""
    for other, seen in (
        ("delta_1_2_v7", txns(9, "7")),
        ("delta_1_9_v7", txns(9, "7")),
        ("base_2_v7", txns(9, "7")),
        ("base_9_v7", txns(9, "7")),
        ("delta_1_3_v7", txns(9, "", "7")),
        ("delta_2_9_v7", txns(9, "", "7")),
    ):
        kind = MAJOR if other.startswith("base_2") else MINOR
        plan = planned([*delta(1, 2, 3), other], kind, ids(3), seen)
        assert plan.action is Action.COMPACT, other
        assert inputs(plan) == set(delta(1, 2, 3))


def test_what_an_overwrite_has_replaced_is_not_compacted() -> None:
    """A base above an open write id is not the compactor's to read, and still hides what lies below."""
    plan = planned([*delta(1, 2, 3), "base_4"], MINOR, ids(4, "3"))
    assert (plan.action, plan.reason_code) == (Action.NOTHING_TO_DO, "replaced")
    assert "base_4" in plan.reason


def test_several_statements_of_one_write() -> None:
    """The output has no statement, so it comes before them and covers them."""
    names = ["delta_1_1_0000", "delta_1_1_0001", "delete_delta_1_1_0001"]
    plan = planned(names, MINOR, ids(1))
    assert outputs(plan) == ["delta_0000001_0000001", "delete_delta_0000001_0000001"]


def test_hive_1_and_2() -> None:
    """No minor, because Hive 3 cannot read such deltas; a single delta is worth a base."""
    v1 = TableGuess(TableType.FULL, False, "it was said", acid_v1=True)
    lists = "101:9223372036854775807::"
    plan = planned(["delta_100_101"], MINOR, f"null:{lists}", guess=v1)
    assert (plan.action, plan.reason_code) == (Action.REFUSED, "acid_v1_minor")
    assert outputs(planned(["delta_100_101"], MAJOR, f"null:{lists}", guess=v1)) == ["base_0000101"]
    assert outputs(planned(["000000_0"], MAJOR, f"null:{lists}", guess=v1)) == [MIN_BASE]
    assert planned(["base_101"], MINOR, f"null:{lists}", guess=v1).action is Action.NOTHING_TO_DO


def test_an_uncertain_kind_of_table_is_refused() -> None:
    """Full ACID and insert-only outputs differ in everything."""
    guess = TableGuess(TableType.INSERT_ONLY, True, "they look the same")
    plan = planned(["delta_1_1/000000_0", "delta_2_2/000000_0"], MAJOR, ids(2), guess=guess)
    assert (plan.action, plan.reason_code) == (Action.REFUSED, "ambiguous_table_type")
    assert "--table-type" in plan.reason
    empty = TableGuess(TableType.EMPTY, True, "there are no data files")
    assert planned([], MAJOR, ids(2), guess=empty).action is Action.NOTHING_TO_DO


def test_sorted_tables_are_refused() -> None:
    """Hive's worker refuses them too; with nothing to do there is nothing to refuse."""
    ddl = "create table t (id int) clustered by (id) sorted by (id) into 2 buckets"
    plan = planned(delta(1, 2), MAJOR, ids(2), schema=parse_schema(ddl))
    assert (plan.action, plan.reason_code) == (Action.REFUSED, "sorted_table")
    assert planned(delta(1), MAJOR, ids(2), schema=parse_schema(ddl)).action is Action.NOTHING_TO_DO


def test_missing_history_is_an_error() -> None:
    """A base that the compactor may not use, and no older one."""
    with pytest.raises(NotEnoughHistoryError):
        planned(["base_9_v3", *delta(10)], MAJOR, ids(10, "5"), txns(9))


def test_without_lists_nothing_is_touched() -> None:
    """Each missing list with the remedy."""
    with pytest.raises(UsageError, match="needs a write-id list") as failure:
        planned(delta(1, 2), MAJOR, None)
    assert "--assume-committed" in (failure.value.hint or "")
    with pytest.raises(UsageError, match="base_2_v7 was written by a compaction") as failure:
        planned(["base_2_v7", *delta(3)], MAJOR, ids(3))
    assert "--validtxns" in (failure.value.hint or "")
    with pytest.raises(UsageError, match="--as-of"):
        planned(delta(1, 2), MAJOR, ids(2), as_of=2)
    assert planned(["base_2_v7", *delta(3)], MAJOR, ids(3), txns(7)).action is Action.COMPACT
    assert planned(["base_2_v7", *delta(3)], MAJOR, None, assume_committed=True).action is Action.COMPACT
    assert planned(delta(1, 2), MAJOR, ids(2)).action is Action.COMPACT


def test_assumed_watermark_is_the_largest_write_id_on_disk() -> None:
    """So that the list of the plan is a real one, and what `--as-of` names need not exist."""
    listing = listed([*delta(1, 2), "delta_3_8", "base_1"])
    assert ground_of(listing, MAJOR, None, assume_committed=True).write_ids.high_watermark == 8
    capped = ground_of(listing, MAJOR, ids(100), as_of=100, assume_committed=True)
    assert capped.write_ids.high_watermark == 8
    assert outputs(planned(["base_1", *delta(2, 3)], MAJOR, ids(2), as_of=2, assume_committed=True)) == ["base_0000002"]


def test_the_list_of_the_plan_makes_the_compactors() -> None:
    """Its text is all that tasks know of what is committed."""
    listing = listed(delta(1, 2, 3))
    for text in (ids(9), ids(9, "5,7", "3"), ids(9, "", "1,2"), "t:9:4::"):
        context = ground_of(listing, MAJOR, text)
        assert ValidWriteIds.parse(context.write_ids.format()).compactor() == context.compactor_ids
        assert not context.compactor_ids.open


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"visibility_txn": 9, "target": Target.HIVE3}, "exclude each other"),
        ({"visibility_txn": 0}, "begin at 1"),
        ({"visibility_txn": 4}, "is aborted"),
        ({"visibility_txn": 5}, "is committed already"),
        ({"split_bytes": 0}, "must be positive"),
        ({"max_bytes": 0}, "must be positive"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], said: str) -> None:
    """Refused before anything is read."""
    with pytest.raises(UsageError, match=said):
        planned(delta(1, 2), MAJOR, ids(2), txns(9, "", "4"), **options)


def test_the_own_transaction_is_no_reader() -> None:
    """What was published under it before is no input, whether its list shows it open, last, or not at all."""
    names = [*delta(1, 2, 3), "delta_1_2_v9"]
    for seen in (txns(9, "9"), txns(9), txns(8), None):
        more = {"assume_committed": True} if seen is None else {}
        plan = planned(names, MAJOR, ids(3), seen, visibility_txn=9, **more)
        assert inputs(plan) == set(delta(1, 2, 3))


def test_half_of_an_output_is_reported_only_when_the_other_half_is_due() -> None:
    """A journal accounts for one half; without one the draft remembers it."""
    names = [*delta(1, 2), *delete(3), "delta_0000001_0000003_v0000009"]
    draft = drafted(names, MINOR, ids(3), OPEN_9, visibility_txn=9)
    assert draft.compacts
    assert draft.present == {"delta_0000001_0000003_v0000009"}
    journaled = drafted([*names, "_acidctl_work_0123456789ab/journal.json"], MINOR, ids(3), OPEN_9, visibility_txn=9)
    assert journaled.compacts
    assert not journaled.present


def test_inputs_name_all_their_files() -> None:
    """Data and side files, the empty ones too; hidden files and files of no known name are not of it."""
    names = [
        "delta_1_5/bucket_00000",
        "delta_1_5/bucket_00000_flush_length",
        "delta_1_5/bucket_00001",
        "delta_1_5/_orc_acid_version",
        "delta_1_5/.hidden",
        "delta_1_5/readme",
        "delta_6_6_0000/HIVE_UNION_SUBDIR_1/000000_0",
    ]
    draft = drafted(names, MAJOR, ids(6), guess=FULL, accept_doubts=["unknown_name"])
    files = {info.path for entry in draft.plan.inputs for info in entry.files}
    assert files == {*names[:3], names[-1]}
    assert draft.plan.bytes_in == 4
    notes = " ".join(draft.plan.notes)
    assert "readme is read by nobody" in notes
    assert "HIVE_UNION_SUBDIR_1/000000_0, go into the output without" in notes


def test_notes_for_the_operator() -> None:
    """Entries nobody understands, where Hive 4 differs, and a property that does not bind a person."""
    plan = planned(["delta_x_1", *delta(1, 2)], MAJOR, ids(2), accept_doubts=["unknown_name"])
    assert any("delta_x_1 is not recognised" in note for note in plan.notes)
    assert any("Hive 4" in note for note in plan.notes)
    ddl = "create table t (id int) tblproperties ('transactional'='true', 'no_auto_compaction'='true')"
    context = ground_of(listed(delta(1, 2)), MAJOR, ids(2), schema=parse_schema(ddl))
    assert any("no_auto_compaction" in note for note in context.notes)


def test_hive3_and_names_that_it_cannot_read() -> None:
    """The result alone does not make the table readable to it."""
    names = listed(["base_2_v7", *delta(3)])
    for target, said in ((Target.HIVE3, True), (Target.HIVE4, False), (None, False)):
        notes = ground_of(names, MAJOR, ids(3), txns(9), target=target).notes
        assert any("base_2_v7" in note for note in notes) is said


def test_a_fingerprint_covers_the_inputs_alone() -> None:
    """What else appears in the location does not make a plan stale."""
    names = delta(1, 2)
    known = planned(names, MAJOR, ids(2)).fingerprint
    assert planned([*names, *delta(3), "_tmp/x"], MAJOR, ids(2)).fingerprint == known
    assert planned([*names, "delta_0000001_0000001_0000/bucket_00001"], MAJOR, ids(2)).fingerprint != known
