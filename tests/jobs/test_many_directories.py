"""A compaction of many directories takes as many times longer as there are more of them, not the square of it."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import acidctl
from acidctl.jobs.local import LocalEngine
from acidctl.jobs.publish import require_inputs
from acidctl.listing import Listing
from acidctl.plan import Action, InputEntry, PartitionPlan


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


def test_four_times_the_directories_take_four_times_the_steps(tmp_path: Path) -> None:
    """From the listing to the published base; steps are counted, so that a busy machine does not matter."""
    _steps(tmp_path, 10)  # what is loaded once
    assert _steps(tmp_path, 400) <= 5 * _steps(tmp_path, 100)


def _seconds(count: int) -> float:
    names = tuple(f"delta_{number:07}_{number:07}" for number in range(count))
    listing = Listing("/t", (), names)
    inputs = tuple(InputEntry(name, "delta", 1, 1, ()) for name in names)
    plan = PartitionPlan("", "", Action.COMPACT, inputs=inputs)
    found = []
    for _ in range(5):
        started = time.process_time()
        require_inputs(listing, plan)
        found.append(time.process_time() - started)
    return min(found)


def test_inputs_are_looked_up_and_not_searched_for() -> None:
    """Names of directories without files are compared in C, where no step is seen: measured."""
    assert _seconds(8000) <= 8 * _seconds(2000)
