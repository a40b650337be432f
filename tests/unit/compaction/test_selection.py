"""What readers will select once a plan's outputs are there: simulated on names alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acidctl.compaction.coverage import committed, verify_selection
from acidctl.compaction.plan import (
    Action,
    CompactionKind,
    CompactionPlan,
    InputEntry,
    OutputDir,
    PartitionPlan,
    PlannedTask,
    Role,
    TableFacts,
    Target,
)
from acidctl.errors import StalePlanError, VerificationError
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import BaseDir, DeltaDir, parse_directory
from acidctl.format.write_ids import ValidTxns
from acidctl.state.entries import ORIGINALS_NAME

VERSION = ("_orc_acid_version", "2")
COMPACTED = ("_metadata_acid", '{"thisFileVersion":"0","dataFormat":"compacted"}')
MAJOR = ("base_0000002", "delta_0000003_0000003_0000", "delete_delta_0000004_0000004_0000")
MINOR = ("delta_0000003_0000003_0000", "delta_0000004_0000004_0000")


def location(*names: str) -> Listing:
    """Directories with a bucket file each, and original files; `name!` is an empty directory."""
    directories, files = [], []
    for name in names:
        if name[0].isdigit():
            files.append(FileInfo(name, 10))
            continue
        directories.append(name.rstrip("!"))
        if not name.endswith("!"):
            files.append(FileInfo(f"{name}/bucket_00000", 10))
            files.append(FileInfo(f"{name}/_orc_acid_version", 1))
    return Listing("/t", tuple(files), tuple(directories))


def check(
    listing: Listing,
    inputs: tuple[str, ...],
    *outputs: str,
    write_ids: str = "",
    txns: str = "",
    txn: int | None = None,
    markers: tuple[tuple[str, str], ...] = (VERSION, COMPACTED),
    published: tuple[str, ...] | None = None,
    table_type: str = "full",
) -> None:
    """Verify a plan that reads `inputs` and publishes `outputs`."""
    made = []
    for name in outputs:
        kind = "base" if name.startswith("base") else name.rpartition("delta")[0] + "delta"
        made.append(OutputDir(name, kind, markers if kind == "base" else (VERSION,)))
    plan = PartitionPlan(
        "",
        "",
        Action.COMPACT,
        inputs=tuple(InputEntry(name, "delta", None, None, ()) for name in inputs),
        outputs=tuple(made),
        tasks=tuple(PlannedTask(Role.SURVIVING, f"{name}/bucket_00000", 0, ()) for name in outputs),
    )
    whole = CompactionPlan(
        "/t",
        CompactionKind.MAJOR,
        Target.HIVE4,
        txn,
        TableFacts(table_type, False, write_ids, "struct<a:int>", "hive4"),
        (plan,),
        write_ids=write_ids,
        txns=txns,
    )
    chosen = tuple(output for output in made if published is None or output.name in published)
    verify_selection(listing, replace(plan, outputs=chosen), whole)


RIGHT: dict[str, tuple[Listing, tuple[str, ...], tuple[str, ...]]] = {
    "major": (location(*MAJOR), MAJOR, ("base_0000004",)),
    "minor": (location("base_0000002", *MINOR), MINOR, ("delta_0000003_0000004",)),
    "minor of deletes": (
        location("base_0000002", "delete_delta_0000003_0000003_0000", "delete_delta_0000004_0000004_0000"),
        ("delete_delta_0000003_0000003_0000", "delete_delta_0000004_0000004_0000"),
        ("delete_delta_0000003_0000004",),
    ),
    "minor of both": (
        location(*MINOR, "delete_delta_0000004_0000004_0000"),
        (*MINOR, "delete_delta_0000004_0000004_0000"),
        ("delta_0000003_0000004", "delete_delta_0000003_0000004"),
    ),
    "originals": (location("000000_0", "000001_0"), (ORIGINALS_NAME,), ("base_-9223372036854775808",)),
    "originals and deltas": (
        location("000000_0", "delta_0000001_0000001_0000"),
        (ORIGINALS_NAME, "delta_0000001_0000001_0000"),
        ("base_0000001",),
    ),
    "leftovers": (
        location(*MAJOR, "delta_0000001_0000001_0000", "_acidctl_work_0123456789ab", ".hive-staging", "base_0000001"),
        MAJOR,
        ("base_0000004",),
    ),
    "later writes": (
        location(*MAJOR, "delta_0000005_0000005_0000", "delete_delta_0000006_0000006_0000"),
        MAJOR,
        ("base_0000004",),
    ),
    "wider compaction of others": (
        location("base_0000002", *MINOR, "delta_0000005_0000005_0000"),
        MINOR,
        ("delta_0000003_0000004",),
    ),
    "no rows left": (location("base_0000002!", "delta_0000003_0000003_0000"), MAJOR[:2], ("base_0000003",)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_plan_passes(name: str) -> None:
    """Also under a transaction that has not committed yet."""
    listing, inputs, outputs = RIGHT[name]
    check(listing, inputs, *outputs)
    named = [f"{output}_v0000030" for output in outputs]
    check(listing, inputs, *named, txns="40:30:30:", txn=30)
    check(listing, inputs, *named, txns="20:9223372036854775807::", txn=30, markers=(VERSION,))


def test_what_readers_leave_out_stays_left_out() -> None:
    """Open, aborted and later writes; the reader's list is not the compactor's."""
    others = ("delta_0000005_0000005_0000", "delta_0000006_0000006_0000", "delta_0000009_0000009_0000")
    check(location(*MAJOR, *others), MAJOR, "base_0000004", write_ids="db.t:8:6:6:5")
    # Aborted writes inside the range do not matter, nor directories that nobody will ever see.
    aborted = ("delta_0000003_0000003_0000", "delta_0000003_0000004")
    check(location("base_0000002", *MINOR, "delta_0000001_0000005_v0000012"), MINOR, "delta_0000003_0000004",
          txns="40:9223372036854775807::12")  # fmt: skip
    check(location(*aborted, "delta_0000005_0000005_0000"), aborted[1:], "base_0000004", write_ids="db.t:9:5:5:")


STALE: dict[str, tuple[Listing, tuple[str, ...], tuple[str, ...], str]] = {
    "exists": (location(*MAJOR, "base_0000004"), MAJOR, ("base_0000004",), "exists already"),
    "exists, empty": (location(*MAJOR, "base_0000004!"), MAJOR, ("base_0000004",), "exists already"),
    "input gone": (location(*MAJOR[1:]), MAJOR, ("base_0000004",), "base_0000002, which was read, is gone"),
    "compacted by others": (location(*MAJOR, "base_0000007_v0000012"), MAJOR, ("base_0000004",), "no longer live"),
    "overwritten": (location("base_0000002", *MINOR, "base_0000009"), MINOR, ("delta_0000003_0000004",), "no longer"),
    "minor of others": (
        location("base_0000002", *MINOR, "delta_0000003_0000004_v0000012"),
        MINOR,
        ("delta_0000003_0000004",),
        "no longer live",
    ),
    "straddled": (
        location("base_0000002", "delta_0000003_0000003_0000", "delta_0000003_0000006_0001"),
        ("delta_0000003_0000003_0000",),
        ("delta_0000003_0000004",),
        "no longer live",
    ),
}


@pytest.mark.parametrize("name", STALE)
def test_what_others_did_makes_the_plan_stale(name: str) -> None:
    """What is in the way is named."""
    listing, inputs, outputs, message = STALE[name]
    with pytest.raises(StalePlanError, match=message) as caught:
        check(listing, inputs, *outputs)
    assert (caught.value.path, caught.value.exit_code) == ("/t", 15)


UNSEEN: dict[str, tuple[str, tuple[str, ...], str, str]] = {
    "twin": ("delta_0000003_0000004_v0000012", MINOR, "delta_0000003_0000004", "same range"),
    "overlaps above": ("delta_0000004_0000006_v0000012", MINOR, "delta_0000003_0000004", "overlaps it in part"),
    "overlaps below": ("delete_delta_0000002_0000003_v0000012", MINOR, "delta_0000003_0000004", "overlaps it in part"),
    "base inside": ("base_0000003_v0000012", MINOR, "delta_0000003_0000004", "ends inside it"),
    "beyond a base": ("delta_0000003_0000006_v0000012", ("base_0000002", *MINOR), "base_0000004", "reaches beyond it"),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_nobody_sees_yet_is_in_the_way(name: str) -> None:
    """Another compaction, not committed: once it is, some rows would be read twice. If it is aborted, nothing is."""
    other, inputs, output, message = UNSEEN[name]
    listing = location("base_0000002", *MINOR, other)
    with pytest.raises(StalePlanError, match=message):
        check(listing, inputs, output, txns="40:12:12:")
    with pytest.raises(StalePlanError, match=message):
        check(listing, inputs, f"{output}_v0000030", txns="40:12:12,30:", txn=30)
    check(listing, inputs, output, txns="40:9223372036854775807::12")


@pytest.mark.parametrize("other", ["delta_0000001_0000009_v0000012", "base_0000004_v0000012", "base_0000009_v0000012"])
def test_a_wider_compaction_that_is_not_committed_is_harmless(other: str) -> None:
    """It holds what ours holds, whichever comes first."""
    check(location("base_0000002", *MINOR, other), MINOR, "delta_0000003_0000004", txns="40:12:12:")


def test_a_twin_among_the_inputs_is_refused() -> None:
    """Hive does not look at visibility when it compares ranges, and would read both."""
    listing = location("base_0000002", "delta_0000003_0000004")
    with pytest.raises(StalePlanError, match="Hive would read both"):
        check(listing, ("delta_0000003_0000004",), "delta_0000003_0000004_v0000030", txn=30, txns="40:30:30:")


def test_a_plan_that_is_wrong_is_refused() -> None:
    """Nothing is stale there: the plan itself would change what is read."""
    deletes = "delete_delta_0000004_0000004_0000"
    listing = location("base_0000002", *MINOR, deletes)
    # A live delete delta inside the range that was not read.
    with pytest.raises(VerificationError, match=f"{deletes}, which is not among the inputs"):
        check(listing, MINOR, "delta_0000003_0000004")
    # Inputs beyond the output's name.
    with pytest.raises(VerificationError, match="would be live"):
        check(listing, ("base_0000002", *MINOR, deletes), "base_0000003")
    # Without its marker a base is taken for an overwrite, which an aborted id undoes.
    wide = ("delta_0000001_0000003",)
    aborted = "db.t:9:9223372036854775807::3"
    check(location(*wide), wide, "base_0000003", write_ids=aborted)
    with pytest.raises(StalePlanError, match="base_0000003 would not be read"):
        check(location(*wide), wide, "base_0000003", write_ids=aborted, markers=(VERSION,))
    # One side of two, with the same numbers as what it replaces.
    twins = ("delta_0000003_0000004", "delete_delta_0000003_0000004")
    with pytest.raises(StalePlanError, match="Hive would read both"):
        check(location(*twins), twins, "delta_0000003_0000004_v0000030", txn=30)
    with pytest.raises(VerificationError, match="transaction 30 is aborted"):
        check(location(*MAJOR), MAJOR, "base_0000004_v0000030", txn=30, txns="40:9223372036854775807::30")


def test_a_side_without_rows_may_be_missing() -> None:
    """Deletes of which all were aborted: the inserts' side covers them."""
    deletes = "delete_delta_0000004_0000004_0000"
    sides = ("delta_0000003_0000004", "delete_delta_0000003_0000004")
    check(location(*MINOR, deletes), (*MINOR, deletes), *sides, published=sides[:1])


def test_insert_only_tables() -> None:
    """No deletes, no versions; the kind of table decides what counts."""
    names = ("delta_0000001_0000001_0000", "delta_0000002_0000002_0000")
    listing = replace(location(), files=tuple(FileInfo(f"{name}/000000_0", 5) for name in names), directories=names)
    check(listing, names, "base_0000002", markers=(COMPACTED,), table_type="insert_only")
    check(listing, names, "delta_0000001_0000002", table_type="insert_only")


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("40:30:30,31:", (40, (31,))),
        ("20:9223372036854775807::", (30, (25,))),
        ("40:9223372036854775807::", (40, ())),
        ("20:15:15:", (30, (15, 25))),
    ],
)
def test_a_transaction_is_committed_alone(text: str, result: tuple[int, tuple[int, ...]]) -> None:
    """What others publish later stays out of sight."""
    names = ["base_0000001_v0000025", "base_0000001_v0000035", "x", "delta_0000001_0000001_0000"]
    found = committed(ValidTxns.parse(text), 30, names)
    assert (found.high_watermark, found.open) == result
    assert found.is_valid(30)


def test_names_in_these_tests_are_understood() -> None:
    """A mistyped name would prove nothing."""
    for listing, _, outputs in (*RIGHT.values(), *(case[:3] for case in STALE.values())):
        names = [name for name in (*listing.directories, *outputs) if name[0] not in "_."]
        assert all(isinstance(parse_directory(name), BaseDir | DeltaDir) for name in names)
