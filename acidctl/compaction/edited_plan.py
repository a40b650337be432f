"""A plan file that somebody has edited: what of it counts, and what it is compared with.

Nothing in such a file is believed. The plan is made anew, by the options that the file records and by what lies on
storage now, and of the edited one only choices are taken over that change no row: which partitions are left out, the
physical form of the files (`TableFacts.writer`), and where large buckets are cut. Everything else has to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from acidctl.compaction.plan import Action, CompactionPlan, KeyCut, PartitionPlan, PlannedTask, Role, encode
from acidctl.compaction.request import problem_of_settings
from acidctl.compaction.tasks import MAX_PARTS
from acidctl.errors import StalePlanError
from acidctl.format.names import MIN_LONG
from acidctl.format.write_ids import MAX_ID
from acidctl.types.hive_types import StructType
from acidctl.types.schema import parse_type

_SHOWN = 60


class EditedPlanError(StalePlanError):
    """What was edited in a plan is not for its editor to decide, or the table has changed since."""

    code = "edited_plan"


def accept(edited: CompactionPlan, fresh: CompactionPlan) -> CompactionPlan:
    """`fresh` with the choices of `edited`; EditedPlanError where the two differ in anything else."""
    planned = {(part.partition, part.path): part for part in fresh.partitions}
    parts: list[PartitionPlan] = []
    for place, part in enumerate(edited.partitions):
        new = planned.pop((part.partition, part.path), None)
        if new is None:
            raise _refused(
                f"plan.partitions[{place}] is no partition that acidctl plans for now, or stands there twice"
            )
        parts.append(_accepted(part, new, f"plan.partitions[{place}]"))
    problem = problem_of_settings(edited.table.writer, _columns(fresh), fresh.target)
    if problem is not None:
        raise _refused(f"plan.table.writer.{problem}")
    result = replace(fresh, partitions=tuple(parts), table=replace(fresh.table, writer=edited.table.writer))
    _require_same(_comparable(edited, parts, fresh), encode(result), "plan")
    return result


def _accepted(part: PartitionPlan, new: PartitionPlan, where: str) -> PartitionPlan:
    if part.action is not Action.COMPACT:
        if new.action is not Action.COMPACT:
            return new
        reason = part.reason or "the plan was edited to leave it out"
        return PartitionPlan(part.partition, part.path, part.action, part.reason_code or "left_out", reason)
    if new.action is not Action.COMPACT:
        raise _refused(f"{where} is to be compacted, and acidctl plans otherwise now: {new.reason}")
    if len(part.tasks) != len(new.tasks):
        raise _refused(f"{where}.tasks are {len(part.tasks)}, and acidctl plans {len(new.tasks)} now")
    pairs = enumerate(zip(part.tasks, new.tasks, strict=True))
    tasks = tuple(_with_cuts(new_task, task.cuts, f"{where}.tasks[{i}].cuts") for i, (task, new_task) in pairs)
    return replace(new, tasks=tasks)


def _with_cuts(task: PlannedTask, cuts: Sequence[KeyCut], where: str) -> PlannedTask:
    """The task cut otherwise: any ascending keys make parts that together are the bucket."""
    if cuts and task.role in (Role.ROWS, Role.BYTES, Role.JOIN):
        raise _refused(f"{where} divide rows that have no ROW__ID")
    keys = [(cut.write_id, cut.bucket_property, cut.row_id) for cut in cuts]
    if not all(MIN_LONG <= number <= MAX_ID for key in keys for number in key):
        raise _refused(f"{where} hold a number of more than 64 bits")
    if keys != sorted(set(keys)) or len(keys) >= MAX_PARTS:
        raise _refused(f"{where} do not ascend, or are {MAX_PARTS} or more")
    return replace(task, cuts=tuple(cuts))


def _columns(plan: CompactionPlan) -> StructType:
    columns = parse_type(plan.table.columns)
    assert isinstance(columns, StructType)
    return columns


def _comparable(edited: CompactionPlan, parts: Sequence[PartitionPlan], fresh: CompactionPlan) -> Any:
    """The edited plan as JSON values, less what may differ or says nothing that is carried out."""
    same = [
        part if part.action is not Action.COMPACT else replace(old, **{name: getattr(part, name) for name in _WORDS})
        for old, part in zip(edited.partitions, parts, strict=True)
    ]
    return encode(replace(edited, partitions=tuple(same), notes=fresh.notes, options=fresh.options))


_WORDS = ("reason", "reason_code", "notes", "failed")


def _require_same(edited: Any, fresh: Any, where: str) -> None:
    if isinstance(edited, dict) and isinstance(fresh, dict):
        for name in fresh:
            _require_same(edited[name], fresh[name], f"{where}.{name}")
    elif isinstance(edited, list) and isinstance(fresh, list) and len(edited) == len(fresh):
        for place, (one, other) in enumerate(zip(edited, fresh, strict=True)):
            _require_same(one, other, f"{where}[{place}]")
    elif edited != fresh:
        raise _refused(f"{where} is {_shown(edited)}, and acidctl plans {_shown(fresh)} now")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _refused(what: str) -> EditedPlanError:
    return EditedPlanError(
        f"the edited plan is not carried out: {what}",
        hint="Make a new plan with --plan-out. Of a plan only partitions can be left out, and `table.writer` and the "
        "`cuts` of tasks be changed.",
    )
