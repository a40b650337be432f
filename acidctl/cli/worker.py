"""`acidctl worker`: serve the compaction queue of a Hive 4 metastore."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any, cast

from acidctl.api import CompactArguments
from acidctl.cli.options import command as make_command
from acidctl.cli.options import metastore_option, require_metastore, with_engine
from acidctl.cli.output import Format, Output, dump_json
from acidctl.config import Config
from acidctl.engine import EngineChoice, make_engine
from acidctl.errors import ExitCode, UsageError
from acidctl.metastore.client import Client
from acidctl.state.report import document
from acidctl.worker.queue import Queue
from acidctl.worker.service import LOG_TYPE, Service, Worker, WorkerEvent, WorkerOptions


@make_command(
    "worker",
    WorkerOptions,
    examples=(
        "acidctl worker --metastore thrift://metastore:9083 --pool nightly",
        "acidctl worker --once --default-pool --metrics-file /var/lib/node_exporter/acidctl.prom",
        "acidctl worker --engine spark --master yarn --slots 4 -o jsonl",
    ),
    exits=(ExitCode.DONE, ExitCode.FAILED, ExitCode.USAGE, ExitCode.FINDINGS, ExitCode.STORAGE, ExitCode.INTERRUPTED),
    arguments=[metastore_option()],
)
def command(out: Output, config: Config, asked: WorkerOptions) -> ExitCode:
    """Carry out the requests of Hive 4's compaction queue, as Hive's own worker does.

    Requests come from ALTER TABLE ... COMPACT ... POOL, from the table parameter hive.compactor.worker.pool, and from
    Hive's Initiator. Each runs in a transaction with a lock; Hive's Cleaner removes what became obsolete. On SIGTERM
    what is at work is finished; a second one gives it up. After kill -9 the next run takes care of what was left.
    """
    if out.form is Format.CSV:
        raise UsageError("a worker's log is text or JSON lines, not CSV", hint="Use -o jsonl.")
    metastore = require_metastore(config)
    if not metastore.catalog.has_queue:
        raise UsageError(
            f"the metastore {metastore.client} is older than Hive 4, where only Hive serves the compaction queue",
            hint="Compact its tables by name, which Hive 3 allows: acidctl compact major db.table.",
        )
    options = CompactArguments("major", **{name: getattr(asked, name) for name in _HOW}, notify=out.warn)
    options = CompactArguments(**with_engine(config, options).keywords())
    choice = EngineChoice(options.engine, options.master, options.conf or {}, None, options.parallelism, options.memory)
    shared: Any = None
    if choice.decide(0)[0] == "spark":
        # One application for all requests.
        shared = cast(Any, make_engine(choice, 0, notify=out.warn, verbose=out.verbose)[0])
        options = replace(options, spark=shared.start(), engine="spark", master=None, conf=None)

    def make_worker() -> Worker:
        return Worker(Queue(Client(metastore.client.settings)), metastore.options_of, options)

    def log(event: WorkerEvent) -> None:
        if out.form is Format.TEXT:
            out.line(f"{event.time}  {event.event:<11} {event.message}")
        else:
            out.line(dump_json(document(LOG_TYPE, event)))
        out.flush()

    service = Service(asked, make_worker, log)
    try:
        with _draining(service):
            service.run()
    finally:
        if shared is not None:
            shared.close()
    return ExitCode.FINDINGS if service.failed else ExitCode.DONE


_HOW = ("compression", "engine", "master", "conf", "parallelism", "memory")


@contextmanager
def _draining(service: Service) -> Iterator[None]:
    """SIGTERM and Ctrl-C finish what is at work; the second one gives it up."""
    signals = 0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        (service.drain if signals == 1 else service.cancel)()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
