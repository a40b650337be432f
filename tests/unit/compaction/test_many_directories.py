"""A compaction of many directories takes as many times longer as there are more of them, not the square of it."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acidctl
from acidctl.compaction.coverage import require_selected
from acidctl.compaction.plan import (
    Action,
    CompactionKind,
    CompactionPlan,
    InputEntry,
    PartitionPlan,
    TableFacts,
    Target,
)
from acidctl.compaction.publish import require_inputs
from acidctl.engine.local import LocalEngine
from acidctl.format.listing import Listing
from acidctl.format.write_ids import MAX_ID


def _steps(folder: Path, count: int) -> int:
    """Calls of functions, also of those written in C, that a compaction of so many deltas makes, in all its threads."""
    for number in range(1, count + 1):
        delta = folder / f"t{count}/delta_{number:07}_{number:07}_0000"
        delta.mkdir(parents=True)
        (delta / "bucket_00000").touch()
    steps = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal steps
        steps += event in ("call", "c_call")

    before, before_threads = sys.getprofile(), threading.getprofile()
    table = acidctl.open_table(str(folder / f"t{count}"))
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        prepared = table.prepare_compaction("major", assume_committed=True, table_type="full")
        report = prepared.start(LocalEngine(parallelism=1)).run()
    finally:
        sys.setprofile(before)
        threading.setprofile(before_threads)
    assert (report.exit_code, len(report.partitions[0].inputs)) == (0, count)
    return steps


@pytest.mark.slow
def test_four_times_the_directories_take_four_times_the_steps(tmp_path: Path) -> None:
    """From the listing to the published base; steps are counted, so that a busy machine does not matter."""
    _steps(tmp_path, 10)  # what is loaded once
    assert _steps(tmp_path, 400) <= 5 * _steps(tmp_path, 100)


def _seconds(work: Callable[[], object]) -> float:
    found = []
    for _ in range(5):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def _look_up(count: int) -> float:
    names = tuple(f"delta_{number:07}_{number:07}" for number in range(count))
    listing = Listing("/t", (), names)
    inputs = tuple(InputEntry(name, "delta", 1, 1, ()) for name in names)
    plan = PartitionPlan("", "", Action.COMPACT, inputs=inputs)
    return _seconds(lambda: require_inputs(listing, plan))


def _select(count: int) -> float:
    """With so many write ids that were aborted."""
    name = "delta_0000001_0000001"
    listing = Listing("/t", (), (name,))
    part = PartitionPlan("", "", Action.COMPACT, inputs=(InputEntry(name, "delta", 1, 1, ()),))
    ids = f"d.t:{2 * count}:{MAX_ID}::" + ",".join(str(2 * number) for number in range(1, count + 1))
    table = TableFacts("full", acid_v1=False, write_ids=ids, columns="struct<a:int>", dialect="hive4")
    plan = CompactionPlan("/t", CompactionKind.MINOR, Target.HIVE4, None, table, (part,), write_ids=ids)
    return _seconds(lambda: require_selected(listing, part, plan))


@pytest.mark.parametrize("seconds", [_look_up, _select])
def test_names_and_ids_are_looked_up_and_not_searched_for(seconds: Callable[[int], float]) -> None:
    """What is compared in C makes no step that is seen: measured."""
    assert seconds(8000) <= 8 * seconds(2000)
