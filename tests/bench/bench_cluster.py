"""Compaction on standalone Spark clusters of one and of two workers with one core each, start-up apart.

Each worker is held to a core of its own: the threads of one task would else use the core that the other worker has.
Cluster and application are up, and have compacted something small, before anything is measured.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from acidctl import open_table
from acidctl.engine.spark import SparkEngine
from tests.bench.bench_compact import linked
from tests.bench.bench_read import options_of, shown
from tests.bench.compact_tables import CASES, make_compact_table
from tests.bench.results import Result
from tests.services.spark import SparkCluster


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, add to the file, print."""
    options = options_of("cluster", arguments, 5_000_000)
    case = CASES["scattered"]
    small, table = (make_compact_table(options.tables, rows) for rows in (100_000, options.rows))
    times: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for workers in (1, 2):
            with (
                tempfile.TemporaryDirectory(dir=options.tables) as folder,
                SparkCluster(Path(folder), workers=workers, pinned=True) as cluster,
                SparkEngine(cluster.url, cluster.conf) as engine,
            ):
                session = engine.start()
                for what in (small, table):
                    copy = linked(what, Path(folder) / "copy")
                    report = open_table(str(copy)).compact(
                        case.kind, spark=session, validtxns=case.lists[1:4:2], table=case.lists[-1]
                    )
                    (part,) = report.partitions
                    assert part.outputs, part
                times.setdefault(f"{workers} worker{'s' * (workers > 1)} of one core", []).append(report.seconds)
    found = [Result("cluster", case.name, options.rows, name, tuple(all_)) for name, all_ in times.items()]
    shown(options, found)
