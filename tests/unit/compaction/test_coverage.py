"""What a compaction reads, leaves out and writes is judged from the listing and the lists, whatever its plan says."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acidctl import open_table
from acidctl.compaction import inputs, joining, task
from acidctl.compaction.coverage import Committed, bucket_of
from acidctl.compaction.plan import CompactionPlan, PartitionPlan, PlannedTask, Role, TaskSpec
from acidctl.compaction.report import Outcome
from acidctl.engine.local import LocalEngine
from acidctl.errors import ExitCode
from tests.support import mutant_tables

Edit = Callable[[CompactionPlan], CompactionPlan]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All types, two buckets, deletes, aborted writes."""
    place = tmp_path_factory.mktemp("tables") / "generated"
    mutant_tables.generated(place, rows=2000)
    return place


def _run(table: Path, kind: str, edit: Edit) -> tuple[Any, set[str]]:
    """The report of a plan that somebody has changed, and what the run left in the table."""
    before = set(os.listdir(table))
    prepared = open_table(str(table)).prepare_compaction(
        kind, validtxns=mutant_tables.LISTS, schema=mutant_tables.DDL, assume_exclusive=True
    )
    with LocalEngine(parallelism=1) as engine:
        report = replace(prepared, plan=edit(prepared.plan)).start(engine).run()
    found = set(os.listdir(table)) - before
    for name in found:
        os.rename(table / name, table.parent / f"{len(os.listdir(table.parent))}-{name}")
    (part,) = report.partitions
    return part, {name for name in found if not name.startswith("_acidctl_work")}


def _part(change: Callable[[PartitionPlan], PartitionPlan]) -> Edit:
    return lambda plan: replace(plan, partitions=tuple(map(change, plan.partitions)))


def _tasks(change: Callable[[PlannedTask], PlannedTask]) -> Edit:
    return _part(lambda part: replace(part, tasks=tuple(map(change, part.tasks))))


def _without(part: PartitionPlan, name: str) -> PartitionPlan:
    """The part without an input."""
    kept = tuple(entry for entry in part.inputs if not entry.name.startswith(name))
    gone = {info.path for entry in part.inputs if entry not in kept for info in entry.files}
    tasks = tuple(
        replace(
            task,
            files=tuple(path for path in task.files if path not in gone),
            delete_files=tuple(path for path in task.delete_files if path not in gone),
        )
        for task in part.tasks
    )
    return replace(part, inputs=kept, tasks=tasks)


def _renamed(old: str, new: str) -> Edit:
    def change(part: PartitionPlan) -> PartitionPlan:
        outputs = tuple(replace(output, name=output.name.replace(old, new)) for output in part.outputs)
        tasks = tuple(replace(task, output=task.output.replace(old, new)) for task in part.tasks)
        return replace(part, outputs=outputs, tasks=tasks)

    return _part(change)


def _only_first(part: PartitionPlan) -> PartitionPlan:
    rows = part.tasks[0].rows_in
    outputs = tuple(replace(output, rows_in=rows) for output in part.outputs)
    return replace(part, tasks=part.tasks[:1], outputs=outputs, rows_in=rows)


def _table(write_ids: str) -> Edit:
    return lambda plan: replace(plan, table=replace(plan.table, write_ids=write_ids))


NONE_ABORTED = "default.t:12:9223372036854775807::"
EDITS: dict[str, tuple[str, Edit]] = {
    "no delete files": ("major", _tasks(lambda task: replace(task, delete_files=()))),
    "one delete file less": ("major", _tasks(lambda task: replace(task, delete_files=task.delete_files[1:]))),
    "one file less": ("major", _tasks(lambda task: replace(task, files=task.files[:-1]))),
    "a task less": ("major", _part(_only_first)),
    "no task": ("major", _part(lambda part: replace(_only_first(part), tasks=()))),
    "deletes as rows": ("minor", _tasks(lambda task: replace(task, role=Role.INSERTS))),
    "nothing deleted": ("major", _tasks(lambda task: replace(task, role=Role.INSERTS))),
    "another bucket": ("major", _tasks(lambda task: replace(task, bucket_id=5))),
    "another file": ("major", _tasks(lambda task: replace(task, output=task.output.replace("bucket", "_bucket")))),
    "without an input": ("major", _part(lambda part: _without(part, "delta_0000012"))),
    "without a delete delta": ("major", _part(lambda part: _without(part, "delete_delta_0000003"))),
    "nothing aborted": ("major", _table(NONE_ABORTED)),
    "one exception": ("major", _table("default.t:12:9223372036854775807::6")),
    "a base too high": ("major", _renamed("base_0000012", "base_0000013")),
    "a base too low": ("major", _renamed("base_0000012", "base_0000011")),
    "a delta too wide": ("minor", _renamed("0000012", "0000013")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EDITS)
def test_a_changed_plan_is_not_published(name: str, table: Path) -> None:
    """Whatever else of it fits together."""
    kind, edit = EDITS[name]
    part, published = _run(table, kind, edit)
    assert part.outcome is Outcome.FAILED, part
    assert part.exit_code in (ExitCode.DAMAGED, ExitCode.STALE_PLAN), part
    assert not published


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["major", "minor"])
def test_a_plan_as_it_was_made_is(kind: str, table: Path) -> None:
    """The same runs without a change."""
    part, published = _run(table, kind, lambda plan: plan)
    assert part.outcome is Outcome.COMPACTED, part
    assert published == set(part.outputs)


@pytest.mark.parametrize("hidden", [None, 6])
def test_a_task_that_judges_write_ids_wrongly_is_noticed(
    hidden: int | None, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too few of the aborted ones, or one that is committed: the lists are read a second time."""

    def mask(current: Any, write_ids: Any) -> Any:
        return None if hidden is None else current < hidden

    monkeypatch.setattr(inputs, "valid_mask", mask)
    part, published = _run(table, "major", lambda plan: plan)
    assert (part.outcome, part.exit_code) == (Outcome.FAILED, ExitCode.DAMAGED)
    assert not published


@pytest.mark.slow
def test_a_part_that_is_left_out_of_the_join_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The joined file is compared with its parts by whoever gave the parts to the join."""
    table = tmp_path / "table"
    mutant_tables.generated(table)
    whole = joining.join_parts
    joined: list[int] = []

    def join(spec: TaskSpec, *args: Any, **more: Any) -> Any:
        joined.append(len(spec.parts))
        return whole(replace(spec, parts=spec.parts[1:]), *args, **more)

    monkeypatch.setattr(task, "join_parts", join)
    report = open_table(str(table)).compact(
        "major",
        engine="local",
        parallelism=1,
        validtxns=mutant_tables.LISTS,
        schema=mutant_tables.DDL,
        assume_exclusive=True,
        split_bytes=500_000,
    )
    (part,) = report.partitions
    assert joined
    assert joined[0] > 1
    assert (part.outcome, part.exit_code) == (Outcome.FAILED, ExitCode.DAMAGED)
    assert "parts" in part.reason
    assert not list(table.glob("base_0000012*"))


def test_committed_ids() -> None:
    """A compactor sees nothing at or above the lowest open id, and none of the exceptions."""
    ids = Committed.write_ids("a.b:20:15:15,17:3,5")
    assert [id_ for id_ in range(25) if id_ in ids] == [0, 1, 2, 4, *range(6, 15)]
    assert not ids.any_of(3, 3)
    assert not ids.any_of(12, 15)
    assert ids.any_of(3, 5)
    assert 10**12 in Committed.write_ids("")
    assert [id_ for id_ in range(25) if id_ in Committed.txns("20:9223372036854775807::3-5")] == [
        0,
        1,
        2,
        *range(6, 21),
    ]
    assert (bucket_of(536936448), bucket_of(536870912 + 7), bucket_of(3)) == (1, 0, 3)
