"""The process that serves Hive's queue: what happens when its log or its figures cannot be written any more."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acidctl.api import CompactArguments
from acidctl.compaction.report import Outcome, PartitionReport
from acidctl.errors import StorageError
from acidctl.format.write_ids import ValidTxns, ValidWriteIds
from acidctl.metastore.catalog import Lists, TableInfo, TableName
from acidctl.worker.queue import Request
from acidctl.worker.service import Service, Worker, WorkerEvent, WorkerOptions
from tests.cli.test_doubts import DEMO, half_of_minor


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


def test_no_option_of_a_worker_accepts_doubts() -> None:
    """What one request may be compacted in spite of is said with a table's name, for that run."""
    assert "accept_doubts" not in {one.name for one in fields(WorkerOptions)}


@pytest.mark.parametrize("accepted", [(), ("half_of_minor",)])
def test_a_doubtful_partition_is_a_failed_request(accepted: tuple[str, ...], tmp_path: Path) -> None:
    """With the sentence of the doubt, and nothing is published, unless `compact db.table` has accepted it."""
    table = shutil.copytree(DEMO, tmp_path / "orders")
    half_of_minor(table)
    name = TableName("default", "orders")
    columns = (("id", "int"), ("customer", "string"), ("amount", "decimal(8,2)"), ("status", "string"))
    info = TableInfo(name, str(table), False, columns, (), {"transactional": "true"}, 2, (), "hive")
    ids, txns = "default.orders:9:9223372036854775807::", "50:50:50:"
    lists = Lists(ValidTxns.parse(txns), ValidWriteIds.parse(ids), txns)
    marks: list[tuple[str, str]] = []
    ended: list[str] = []
    txn = SimpleNamespace(
        id=50,
        abort=lambda: ended.append("aborted"),
        commit=lambda: ended.append("committed"),
        require_alive=lambda: None,
        patiently=lambda work: work(),
    )
    client = SimpleNamespace(call=lambda *asked: "", user="hive", close=lambda: None)
    queue = SimpleNamespace(
        client=client,
        begin=lambda request, user: txn,
        give_up=lambda request, verdict, why: marks.append((verdict, why)),
        mark=lambda request, verdict, why: marks.append((verdict, why)),
        require_own=lambda request, txn: None,
    )
    asked = CompactArguments(kind="major", accept_doubts=accepted)
    worker = Worker(cast(Any, queue), lambda location: {}, asked)
    worker._catalog = cast(Any, SimpleNamespace(table=lambda name: info, lists=lambda *_, **__: lists))
    struct = SimpleNamespace(runas=None, highestWriteId=None, properties="")
    report = worker.carry_out(Request(1, name, "", "major", "acidctl", struct))
    if accepted:
        assert (report.outcome, marks, ended) == (Outcome.COMPACTED, [("compacted", "")], ["committed"]), report
        assert [path.name for path in table.glob("base_*")] == ["base_0000009_v0000050"]
        return
    assert (report.outcome, report.reason_code) == (Outcome.REFUSED, "half_of_minor"), report
    assert marks == [("failed", report.reason)]
    assert "the other half of that compaction is missing" in report.reason
    assert ended == ["aborted"]
    assert not list(table.glob("base_*"))
