"""The process that serves Hive's queue: what happens when its log or its figures cannot be written any more."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acidctl.compaction.report import Outcome, PartitionReport
from acidctl.errors import StorageError
from acidctl.metastore.catalog import TableName
from acidctl.worker.queue import Request
from acidctl.worker.service import Service, Worker, WorkerEvent, WorkerOptions


class Bench:
    """A service whose queue holds requests, and which carries out each at once; `done` are their numbers."""

    def __init__(self, requests: int, folder: Path, log: Callable[[WorkerEvent], None]) -> None:
        self._left = [Request(n, TableName("d", "t"), "", "major", "acidctl", None) for n in range(1, requests + 1)]
        self.done: list[int] = []
        asked = WorkerOptions(once=True, slots=1, metrics_file=str(folder / "acidctl.prom"))
        self.service = Service(asked, lambda: cast(Worker, self), log)
        self.client = SimpleNamespace(close=lambda: None)
        self.queue = SimpleNamespace(recover=list, take=lambda pool: self._left.pop(0) if self._left else None)

    def carry_out(self, request: Request) -> PartitionReport:
        self.done.append(request.id)
        return PartitionReport("", Outcome.COMPACTED)


def test_figures_that_cannot_be_written(tmp_path: Path) -> None:
    """At the start that is an error; later a line of the log, once, and the requests are done."""
    folder, events = tmp_path / "there", list[WorkerEvent]()

    def log(event: WorkerEvent) -> None:
        events.append(event)
        if event.event == "started":
            shutil.rmtree(folder)

    with pytest.raises(StorageError, match="cannot be written"):
        Bench(2, folder, log).service.run()
    folder.mkdir()
    bench = Bench(2, folder, log)
    bench.service.run()
    assert bench.done == [1, 2]
    words = [event.event for event in events]
    assert words == ["started", "unwritable", "taken", "ended", "taken", "ended", "stopped"]
    assert "acidctl.prom cannot be written" in events[1].message


def test_a_log_that_nobody_reads(tmp_path: Path) -> None:
    """What was taken is finished, nothing more is taken, and the error comes at the end."""

    def log(event: WorkerEvent) -> Any:
        if event.event == "taken":
            raise BrokenPipeError

    bench = Bench(3, tmp_path, log)
    with pytest.raises(BrokenPipeError):
        bench.service.run()
    assert bench.done == [1]
