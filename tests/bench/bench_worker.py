"""A queue of requests over small partitions: `acidctl worker` beside Hive 4's own Worker, in one run on one machine.

Each serves a queue of its own over a table of its own: partitions of three deltas with two rows each, all of them a
request for a major compaction. Both ask the same metastore, which runs in Hive's JVM; Hive's Workers are threads of
that JVM, which is warm, acidctl is measured as whole processes. acidctl is measured before and after Hive, as other
programs may take processors meanwhile. Processor time includes the metastore's.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.services import jvm
from tests.services.hive import HIVE4
from tests.services.metastore import IDL, Metastore, ask, end_writes

FULL = "stored as orc tblproperties ('transactional'='true', 'no_auto_compaction'='true')"
HIVE = "Hive, 2 threads"
# Partitions of a table whose rows Hive reads afterwards.
_READ = 20
QUERY_BASED = {"hive.compactor.crud.query.based": "true"}


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """How long a queue took: wall seconds, processor seconds of the JVM and of acidctl, the load at the beginning."""

    requests: int
    seconds: float
    java: float
    own: float
    load: float


class Queues:
    """A metastore, and tables in its warehouse each of whose partitions is a request of a pool called as the table."""

    def __init__(self, metastore: Metastore) -> None:
        self._metastore = metastore
        self._hive = metastore.hive
        self._hive.run(f"create table partition_template (id int, v string) {FULL}")
        for write in range(3):
            rows = f"({2 * write}, 'value {2 * write}'), ({2 * write + 1}, 'value {2 * write + 1}')"
            self._hive.run(f"insert into partition_template values {rows}")

    def make(self, name: str, requests: int) -> None:
        """A table whose partitions are copies of what Hive wrote, with its requests."""
        run, partitions = self._hive.run, [f"p={number}" for number in range(requests)]
        run(f"create table {name} (id int, v string) partitioned by (p int) {FULL}")
        run(f"alter table {name} add {' '.join(f'partition ({text})' for text in partitions)}")
        for text in partitions:
            template = self._hive.warehouse / "partition_template"
            shutil.copytree(template, self._hive.warehouse / name / text, dirs_exist_ok=True)
        with ask(self._metastore.url) as thrift:
            end_writes(thrift, f"default.{name}", "ccc")
            for text in partitions:
                major = IDL.CompactionType.MAJOR
                thrift.compact2(IDL.CompactionRequest("default", name, text, type=major, poolName=name))

    def measure(self, name: str, requests: int, serve: Callable[[str], float]) -> Served:
        """Make a table and let its requests be carried out; all of them must be, and a sample keep its rows."""
        self.make(name, requests)
        load, java, started = os.getloadavg()[0], self._processor(), time.perf_counter()
        own = serve(name)
        served = Served(requests, time.perf_counter() - started, self._processor() - java, own, load)
        with ask(self._metastore.url) as thrift:
            states = [
                one.state for one in thrift.show_compact(IDL.ShowCompactRequest(dbName="default", tbName=name)).compacts
            ]
        assert states == ["ready for cleaning"] * requests, states
        few = min(requests, _READ)  # a lock for each of all would be too many for Derby
        (answer,) = self._hive.session().select(f"select count(v), sum(id) from {name} where p < {few}").values
        assert [json.loads(value) for value in answer] == [6 * few, 15 * few], answer
        print(f"{name}: {served}", file=sys.stderr)
        return served

    def by_hive(self, pool: str, settings: dict[str, str]) -> float:
        """Two threads of Hive's own Worker."""
        serve = self._hive.java.acidctl.Services.workers
        self._hive.call(serve, pool, 2, settings, what=f"workers of {pool}")
        return 0.0

    def by_acidctl(self, pool: str, processes: int, slots: int) -> float:
        """So many processes of `acidctl worker` at a time; their processor seconds."""
        command = [sys.executable, "-m", "acidctl", "worker", "--once", "-o", "jsonl", "-q"]
        command += ["--pool", pool, "--slots", str(slots), "--metastore", self._metastore.url]
        own = 0.0
        for worker in [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(processes)]:
            _, status, usage = os.wait4(worker.pid, 0)
            worker.returncode = os.waitstatus_to_exitcode(status)
            assert worker.returncode == 0, worker.returncode
            own += usage.ru_utime + usage.ru_stime
        return own

    def _processor(self) -> float:
        """Processor seconds of the JVM and of what it has started."""
        fields = Path(f"/proc/{self._hive.process_id}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def measure(queues: Queues, requests: int) -> dict[str, Served]:
    """Everything in turn."""
    found: dict[str, Served] = {}

    def one(label: str, count: int, serve: Callable[[str], float]) -> None:
        found[label] = queues.measure(f"queue_{len(found)}", count, serve)

    def hive(settings: dict[str, str]) -> Callable[[str], float]:
        return lambda pool: queues.by_hive(pool, settings)

    def acidctl(processes: int, slots: int) -> Callable[[str], float]:
        return lambda pool: queues.by_acidctl(pool, processes, slots)

    few = max(1, requests // 25)
    one("warm", few, hive({}))
    one("warm too", few, acidctl(1, 2))
    one("acidctl, 2 slots", requests, acidctl(1, 2))
    one(HIVE, requests, hive({}))
    one("acidctl, 2 slots, after", requests, acidctl(1, 2))
    one("acidctl, 2 workers", requests, acidctl(2, 1))
    one("Hive, query-based", few, hive(QUERY_BASED))
    return {label: served for label, served in found.items() if not label.startswith("warm")}


def show(found: dict[str, Served]) -> None:
    """The table of times of a request, and how many times quicker than Hive's own Worker it is."""
    print(
        f"{'':24} {'requests':>8} {'ms each':>8} {'x':>6}   {'ms of processors':>16} {'x':>6} {'own':>6}  {'load':>5}"
    )
    hive = found[HIVE]
    for name, one in found.items():
        wall, processors = one.seconds / one.requests, (one.java + one.own) / one.requests
        quicker = hive.seconds / hive.requests / wall
        cheaper = hive.java / hive.requests / processors
        line = (
            f"{name:24} {one.requests:8} {1000 * wall:8.0f} {quicker:6.1f}   {1000 * processors:16.0f} {cheaper:6.1f}"
        )
        print(f"{line} {1000 * one.own / one.requests:6.0f}  {one.load:5.1f}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="bench worker", description=__doc__)
    parser.add_argument("--requests", type=int, default=500)
    options = parser.parse_args(arguments)
    # With a full compiler: this one does run long.
    version = dataclasses.replace(HIVE4, java_options=(*jvm.ADD_OPENS, "-Xmx4g"))
    with tempfile.TemporaryDirectory() as folder, Metastore(version, Path(folder) / "run") as metastore:
        print(f"compaction queue: {options.requests} partitions of three deltas, two rows each, major")
        show(measure(Queues(metastore), options.requests))


if __name__ == "__main__":
    main()
