"""The second judgement of a plan, by the listing and the lists alone: no task runs here."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from acidctl import open_table
from acidctl.compaction import coverage
from acidctl.compaction.coverage import require_selected, state_of_entries
from acidctl.compaction.plan import CompactionPlan, PartitionPlan, PlannedTask
from acidctl.errors import StalePlanError, VerificationError
from acidctl.format.listing import Listing
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import gather
from tests.support.cleaning_cases import Step, step
from tests.support.specs import write_events

Edit = Callable[[CompactionPlan], CompactionPlan]

CHANGED = "hive4/bucketed/02-changed"
# An aborted write between others, and a base that a compaction of Hive 4 has made.
HALF = "hive4/half_compacted/03-committed"


def planned(case: Step, kind: str = "major") -> tuple[CompactionPlan, Listing]:
    """The plan of a step, and what lies there."""
    root = str(case.folder / "table")
    options = {"validtxns": case.lists, "schema": case.facts["ddl"], "assume_exclusive": True}
    plan = open_table(root).prepare_compaction(kind, **options).plan
    (location,) = gather(LocalStorage(), root)
    return plan, location.listing


def judge(name: str, edit: Edit = lambda plan: plan, kind: str = "major") -> None:
    """The plan of a step, changed."""
    plan, listing = planned(step(name), kind)
    plan = edit(plan)
    assert plan.partitions
    for part in plan.partitions:
        require_selected(listing, part, plan)


def parts(change: Callable[[PartitionPlan], PartitionPlan]) -> Edit:
    """An edit of each partition."""
    return lambda plan: replace(plan, partitions=tuple(map(change, plan.partitions)))


def tasks(change: Callable[[PlannedTask], PlannedTask]) -> Edit:
    """An edit of each task."""
    return parts(lambda part: replace(part, tasks=tuple(map(change, part.tasks))))


def renamed(old: str, new: str) -> Edit:
    """Outputs by another name."""
    return parts(
        lambda part: replace(part, outputs=tuple(replace(one, name=one.name.replace(old, new)) for one in part.outputs))
    )


def by_list(text: str) -> Edit:
    """The tasks judge by another list."""
    return lambda plan: replace(plan, table=replace(plan.table, write_ids=text))


@pytest.mark.parametrize("kind", ["major", "minor"])
@pytest.mark.parametrize("name", [CHANGED, HALF, "hive3/bucketed/03-aborted", "hive4/load_data/02-changed"])
def test_a_plan_as_it_was_made_passes(name: str, kind: str) -> None:
    """Without lists that exclude anything, and with them."""
    judge(name, kind=kind)


def test_what_is_left_out_or_too_much_is_named() -> None:
    """The first by name."""
    plan, _ = planned(step(CHANGED))
    names = sorted(entry.name for entry in plan.partitions[0].inputs)
    without = parts(lambda part: replace(part, inputs=tuple(one for one in part.inputs if one.name not in names[:2])))
    with pytest.raises(StalePlanError, match=f"{names[0]} would be left out"):
        judge(CHANGED, without)
    more = parts(
        lambda part: replace(part, inputs=(*part.inputs, replace(part.inputs[0], name="delta_0000099_0000099")))
    )
    with pytest.raises(StalePlanError, match="delta_0000099_0000099 would be read"):
        judge(CHANGED, more)


def test_tasks_hold_the_bucket_that_their_file_is_called() -> None:
    """By the number in the name, as readers find it."""
    for edit in (
        tasks(lambda task: replace(task, bucket_id=7)),
        tasks(lambda task: replace(task, output=task.output.replace("bucket_", "bucket_x"))),
        tasks(lambda task: replace(task, output=task.output + "1")),
    ):
        with pytest.raises(VerificationError, match="would hold the rows of bucket"):
            judge(CHANGED, edit)


def test_the_lists_of_the_tasks_are_those_of_the_plan() -> None:
    """Neither a higher watermark nor other exceptions."""
    aborted = "hive3/bucketed/03-aborted"
    plan, _ = planned(step(aborted))
    head, top, lowest, opened, excepted = plan.table.write_ids.split(":")
    assert excepted
    for text in (
        ":".join((head, str(int(top) + 1), lowest, opened, excepted)),
        ":".join((head, top, lowest, opened, "")),
        ":".join((head, top, lowest, opened, f"1,{excepted}")),
    ):
        assert text != plan.table.write_ids
        with pytest.raises(VerificationError, match="its tasks would"):
            judge(aborted, by_list(text))


def test_a_compaction_may_be_called_after_an_aborted_write(tmp_path: Path) -> None:
    """It does not hold that write (Hive: isValidBase); an overwrite of that id is nothing else."""
    write_events(tmp_path, "base_0000002", [0, 1], write_id=1)
    write_events(tmp_path, "delta_0000003_0000003_0000", [0], write_id=3)
    (tmp_path / "base_0000002" / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
    lists = ["default.t:3:9223372036854775807::2"]
    plan = open_table(str(tmp_path)).prepare_compaction(
        "major", validtxns=lists, table="default.t", table_type="full", assume_exclusive=True
    )
    (location,) = gather(LocalStorage(), str(tmp_path))
    (part,) = plan.plan.partitions
    assert {entry.name for entry in part.inputs} == {"base_0000002", "delta_0000003_0000003_0000"}
    require_selected(location.listing, part, plan.plan)
    unmarked = replace(location.listing, markers={})
    with pytest.raises((StalePlanError, VerificationError), match="base_0000002"):
        require_selected(without_marker(unmarked), part, plan.plan)


def without_marker(listing: Listing) -> Listing:
    """The listing as if nothing said what made a base."""
    return replace(listing, files=tuple(info for info in listing.files if info.name != "_metadata_acid"))


def test_outputs_are_called_after_their_inputs() -> None:
    """Not higher than what was committed, not lower than what is read, and of the kind that the plan says."""
    plan, _ = planned(step(CHANGED))
    (output,) = plan.partitions[0].outputs
    number = output.name.removeprefix("base_").partition("_")[0]
    for other in (f"{int(number) + 1:07}", f"{int(number) - 1:07}"):
        with pytest.raises(VerificationError, match="does not match the write ids of its inputs"):
            judge(CHANGED, renamed(number, other))
    with pytest.raises(VerificationError, match="is not a valid name for what it would publish"):
        judge(CHANGED, renamed(output.name, f"{output.name}_v0000077"))


def test_what_came_after_the_plan_makes_it_stale(tmp_path: Path) -> None:
    """A newer base, a delta that no input covers; not one inside what is read, nor an older base."""
    root = tmp_path / "t"
    write_events(root, "base_0000002", [0, 1], write_id=2)
    for name, write_id in (("delta_0000003_0000003_0000", 3), ("delta_0000003_0000003_0001", 3)):
        write_events(root, name, [0] if name.endswith("0") else [7], write_id=write_id)
    lists = ["default.t:6:9223372036854775807::"]
    plan = open_table(str(root)).prepare_compaction(
        "major", validtxns=lists, table="default.t", table_type="full", assume_exclusive=True
    )
    (part,) = plan.plan.partitions
    for name, stale in (
        ("base_0000005", True),
        ("base_0000003", True),
        ("base_0000001", False),
        ("delta_0000004_0000004_0000", True),
        ("delta_0000007_0000007_0000", False),
        ("delta_0000002_0000002_0000", False),
        ("delta_0000003_0000003", True),
    ):
        later = tmp_path / name.replace("_", "-")
        shutil.copytree(root, later)
        write_events(later, name, [0], write_id=1)
        (location,) = gather(LocalStorage(), str(later))
        if stale:
            with pytest.raises(StalePlanError, match="the plan is stale"):
                require_selected(location.listing, part, plan.plan)
        else:
            require_selected(location.listing, part, plan.plan)


def agreeing(monkeypatch: pytest.MonkeyPatch, part: PartitionPlan, plan: CompactionPlan) -> None:
    """Selection makes the very mistake that the plan makes: then names, lists and ranges have to tell."""
    state = state_of_entries(part.inputs, plan.table)
    monkeypatch.setattr(coverage, "resolve", lambda *given, **more: state)


MISTAKES = {
    "delta_0000003_0000003_0000": ("out", "is not read, although it is committed and no input covers it"),
    "base_0000002_v0000009": ("out", "is not read, although it is committed and the newest base"),
    "delta_0000004_0000004_0000": ("in", "would be read, but it is not committed"),
    "delta_0000009_0000009_0000": ("in", "would be read, but it is not committed"),
    "delta_0000001_0000003_v0000030": ("in", "would be read, but it is not committed"),
    "base_0000009_v0000010": ("in", "would be read, but it is not committed"),
    "base_0000004": ("in", "would be read, but it is not committed"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_selection_is_noticed_beside_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An input left out, one that the lists exclude: by code of its own."""
    lists = ["default.t:6:9223372036854775807::4", "20:9223372036854775807::"]
    kept = {"base_0000002_v0000009", "delta_0000003_0000003_0000", "delta_0000005_0000005_0000"}
    for at in kept:
        write_events(tmp_path, at, [0], write_id=1 if at.startswith("base") else int(at[6:13]))
    table = open_table(str(tmp_path))
    plan = table.prepare_compaction(
        "major", validtxns=lists, table="default.t", table_type="full", assume_exclusive=True
    ).plan
    (part,) = plan.partitions
    assert {entry.name for entry in part.inputs} == kept
    way, message = MISTAKES[name]
    if way == "out":
        part = replace(part, inputs=tuple(entry for entry in part.inputs if entry.name != name))
    else:
        write_events(tmp_path, name, [0], write_id=1)
        like = next(entry for entry in part.inputs if entry.name.startswith(name.partition("_")[0]))
        others = (entry for entry in part.inputs if entry is not like or not name.startswith("base"))
        part = replace(part, inputs=(*others, replace(like, name=name)))
    (location,) = gather(LocalStorage(), str(tmp_path))
    agreeing(monkeypatch, part, plan)
    with pytest.raises((StalePlanError, VerificationError), match=f"{name} {message}"):
        require_selected(location.listing, part, plan)
