"""Plans as data: what is written is read back the same, and nothing else is taken for a plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acidctl.compaction import plan
from acidctl.errors import StalePlanError, UsageError
from acidctl.format.listing import FileInfo

FILE = FileInfo("delta_0000001_0000001_0000/bucket_00000", 700, 1763762451.25)
ENTRY = plan.InputEntry("delta_0000001_0000001_0000", "delta", 1, 1, (FILE,))
ORIGINALS = plan.InputEntry("(originals)", "original", None, None, (FileInfo("000000_0", 300, None),))
TASK = plan.PlannedTask(
    plan.Role.SURVIVING,
    "base_0000002/bucket_00000",
    0,
    (FILE.path,),
    ("delete_delta_0000002_0000002_0000/bucket_00000",),
    10,
    700,
    (plan.KeyCut(1, 536870912, 5),),
)
PART = plan.PartitionPlan(
    "ds=a%2Fb",
    "ds=a%2Fb",
    plan.Action.COMPACT,
    inputs=(ENTRY, ORIGINALS),
    outputs=(plan.OutputDir("base_0000002", "base", (("_orc_acid_version", "2"),)),),
    tasks=(TASK,),
    rows_in=10,
    bytes_in=1000,
    fingerprint="f" * 64,
    notes=("a note",),
)
PLAN = plan.CompactionPlan(
    "/w/t",
    plan.CompactionKind.MAJOR,
    plan.Target.HIVE4,
    77,
    plan.TableFacts("full", False, "default.t:2:9223372036854775807::", "struct<id:int>", "hive4"),
    (PART, plan.PartitionPlan("ds=2", "ds=2", plan.Action.REFUSED, "straddled", "because")),
    write_ids="default.t:2:9223372036854775807::",
    assumed=("txns",),
)


def over_json(value: plan.CompactionPlan) -> plan.CompactionPlan:
    """The plan as a file would give it back."""
    return plan.parse(json.dumps(plan.to_json(value)))


def test_a_plan_survives_its_json() -> None:
    """Every kind of value that a plan holds comes back as it was."""
    assert over_json(PLAN) == PLAN


def test_json_begins_with_its_type() -> None:
    """A plan and a report are told apart by their first names."""
    values = plan.to_json(PLAN)
    assert list(values)[:2] == ["type", "schema_version"]
    assert (values["type"], values["schema_version"]) == ("compaction_plan", 1)


def test_unknown_names_are_passed_over() -> None:
    """A later acidctl may add fields; the plan still means what it says."""
    values = plan.to_json(PLAN)
    values["later"] = {"a": 1}
    values["partitions"][0]["later"] = []
    assert plan.from_json(values, accept_edited=True) == PLAN


def test_missing_names_have_their_defaults() -> None:
    """What has a default may be left out, what has none may not."""
    values = plan.to_json(PLAN)
    del values["assume_exclusive"]
    assert plan.from_json(values, accept_edited=True) == PLAN
    del values["kind"]
    with pytest.raises(UsageError, match="damaged at plan"):
        plan.from_json(values, accept_edited=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "something else"),
        ('"compaction_plan"', "something else"),
        ("{}", "something else"),
        ('{"type": 3}', "something else"),
        ('{"type": "compaction_report", "schema_version": 1}', "is a compaction_report"),
        ('{"type": "compaction_plan", "schema_version": 2}', "schema version 2"),
        ('{"type": "compaction_plan"}', "schema version None"),
    ],
)
def test_what_is_no_plan_is_refused(text: str, said: str) -> None:
    """Each with a sentence that says what it is instead, and where a plan comes from."""
    for accept_edited in (False, True):
        with pytest.raises(UsageError, match=said) as failure:
            plan.parse(text, accept_edited=accept_edited)
        assert failure.value.hint


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda v: v.update(kind="medium"), "plan.kind"),
        (lambda v: v.update(visibility_txn="7"), "plan.visibility_txn"),
        (lambda v: v.update(visibility_txn=True), "plan.visibility_txn"),
        (lambda v: v.update(assume_exclusive=1), "plan.assume_exclusive"),
        (lambda v: v.update(partitions={}), "plan.partitions"),
        (lambda v: v.update(table=None), "plan.table"),
        (lambda v: v["partitions"].append(None), r"plan.partitions\[2\]"),
        (lambda v: v["partitions"][0]["tasks"][0].update(role="all"), r"plan.partitions\[0\].tasks\[0\].role"),
        (lambda v: v["partitions"][0]["tasks"][0]["cuts"][0].update(row_id=1.5), "cuts"),
        (lambda v: v["partitions"][0]["inputs"][0]["files"][0].update(size="1"), "files"),
        (lambda v: v["partitions"][0]["outputs"][0].update(markers=[["a"]]), "markers"),
        (lambda v: v["table"]["writer"].update(bloom_fpp="x"), "bloom_fpp"),
    ],
)
def test_a_damaged_plan_names_the_place(change: Callable[[Any], None], where: str) -> None:
    """Nothing of the wrong kind gets past the door."""
    values = json.loads(json.dumps(plan.to_json(PLAN)))
    change(values)
    with pytest.raises(UsageError, match=where):
        plan.from_json(values, accept_edited=True)


@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.update(path="../other"),
        lambda part: part.update(path="/etc"),
        lambda part: part["tasks"][0].update(output="../base_0000001/bucket_00000"),
        lambda part: part["tasks"][0].update(files=["a/../../b"]),
        lambda part: part["inputs"][0]["files"][0].update(path="/etc/passwd"),
        lambda part: part["outputs"][0].update(name=".."),
        lambda part: part["outputs"][0].update(markers=[["../../marker", ""]]),
    ],
)
def test_a_plan_stays_inside_its_table(change: Callable[[Any], None]) -> None:
    """Whoever edits a plan, or hands one on, cannot make it read or write elsewhere."""
    values = json.loads(json.dumps(plan.to_json(PLAN)))
    change(values["partitions"][0])
    with pytest.raises(UsageError, match="does not lie inside the table"):
        plan.from_json(values, accept_edited=True)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything inside a JSON value."""
    found = [at]
    if isinstance(value, dict):
        found += [place for key, inner in value.items() for place in places(inner, (*at, key))]
    elif isinstance(value, list):
        found += [place for i, inner in enumerate(value) for place in places(inner, (*at, i))]
    return found


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    """A copy with something else at one place."""
    if not at:
        return new
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[at[0]] = replaced(copy[at[0]], at[1:], new)
    return copy


PLACES = places(json.loads(json.dumps(plan.to_json(PLAN))))


@settings(max_examples=60, deadline=None)
@given(at=st.sampled_from(PLACES), new=json_values)
def test_anything_in_any_place_is_a_plan_or_a_usage_error(at: tuple[Any, ...], new: Any) -> None:
    """A plan that was edited by hand never ends in a traceback, and what is accepted is written back the same."""
    values = replaced(json.loads(json.dumps(plan.to_json(PLAN))), at, new)
    try:
        made = plan.from_json(values, accept_edited=True)
    except UsageError:
        return
    assert over_json(made) == made


@settings(max_examples=20, deadline=None)
@given(values=json_values)
def test_no_json_value_at_all_is_more_than_a_usage_error(values: Any) -> None:
    """Whatever file is given as a plan."""
    with pytest.raises(UsageError):
        plan.from_json(values)


@pytest.mark.parametrize("at", PLACES[1:], ids=lambda at: ".".join(map(str, at)))
def test_the_hash_covers_everything(at: tuple[Any, ...]) -> None:
    """Whatever is changed, left out or added, in fields that are not known as well: the plan is stale."""
    values = json.loads(json.dumps(plan.to_json(PLAN)))
    assert plan.from_json(values) == PLAN
    old = values
    for step in at:
        old = old[step]
    others: list[Any] = [None, -1, "x", [], {}, not old, [old], {"later": old}]
    for new in others:
        if new == old and type(new) is type(old):
            continue
        with pytest.raises((StalePlanError, UsageError)) as failure:
            plan.from_json(replaced(values, at, new))
        assert isinstance(failure.value, StalePlanError) or at == ()


def test_a_plan_without_a_hash_is_of_an_older_acidctl() -> None:
    """It is refused with a sentence; so is one whose hash was taken out."""
    values = plan.to_json(PLAN)
    del values["hash"]
    with pytest.raises(StalePlanError, match="has no hash") as failure:
        plan.from_json(values)
    assert "--accept-edited" in (failure.value.hint or "")
    assert plan.from_json(values, accept_edited=True) == PLAN


def test_the_order_of_names_and_unknown_ones_are_hashed_alike() -> None:
    """A tool may write the file anew; a later acidctl may add fields, of which the hash takes note."""
    values = plan.to_json(PLAN)
    assert plan.from_json(dict(reversed(values.items()))) == PLAN
    values["later"] = {"a": 1}
    with pytest.raises(StalePlanError, match="was changed"):
        plan.from_json(values)
    assert plan.from_json({**values, "hash": plan.hash_of(values)}) == PLAN


def test_the_fingerprint_is_of_the_inputs_alone() -> None:
    """The order in which they were listed does not matter; a name, a size or a time does."""
    entries = [ENTRY, ORIGINALS]
    known = plan.fingerprint_of(entries)
    assert plan.fingerprint_of(reversed(entries)) == known
    for changed in (
        replace(ENTRY, name="delta_0000001_0000002"),
        replace(ENTRY, files=(replace(FILE, size=701),)),
        replace(ENTRY, files=(replace(FILE, modified=FILE.modified and FILE.modified + 1),)),
        replace(ENTRY, files=(replace(FILE, path="delta_0000001_0000001_0000/bucket_00001"),)),
        replace(ENTRY, files=()),
    ):
        assert plan.fingerprint_of([changed, ORIGINALS]) != known


def test_names_that_are_no_utf8_have_a_fingerprint() -> None:
    """A file system may hold any bytes, and the plan is still data."""
    odd = replace(ENTRY, files=(replace(FILE, path="delta_1_1/\udcff"),))
    assert plan.fingerprint_of([odd]) != plan.fingerprint_of([ENTRY])
    assert over_json(replace(PLAN, partitions=(replace(PART, inputs=(odd,)),))).partitions[0].inputs == (odd,)
