"""`compact major` with both engines, beside Hive 4's own compactor and a plain decode-encode pass of the same bytes.

One run, one machine, the same files (linked, never copied), the same codec. acidctl is measured as whole processes,
interpreter and Spark's start-up included; Hive's compactor by the wall time of its Worker, in a JVM that is warm; the
plain pass as one process per core, by bucket. Peak memory is that of the largest worker process.
"""

from __future__ import annotations

import argparse
import compileall
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import acidctl as acidctl_package
from tests.bench.compact_tables import (
    COLUMNS,
    LAST_WRITE_ID,
    VALID_TXNS,
    VALID_WRITE_IDS,
    data_files,
    decode_and_encode,
    make_compact_table,
)

LISTS = ("--validtxns", VALID_WRITE_IDS, "--validtxns", VALID_TXNS)
ENGINES = {
    "local": ("--engine", "local"),
    "spark local[2]": ("--engine", "spark", "--master", "local[2]"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """Wall seconds, and MiB of the largest worker where that is known."""

    seconds: float
    memory: float | None = None


def linked(table: Path, target: Path) -> Path:
    """The same files under another name."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(table, target, copy_function=os.link, ignore=shutil.ignore_patterns("_done"))
    return target


def acidctl(*args: str) -> Any:
    """Run a command of acidctl in a process of its own; its JSON answer."""
    command = [sys.executable, "-m", "acidctl", *args, "-o", "json", "-q"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def digest(table: Path, *lists: str) -> tuple[int, str]:
    """Rows and digest of what a reader sees."""
    answer = acidctl("snapshot", str(table), *(lists or LISTS), "--digest")
    return answer["rows"], answer["digest"]


def compacted(table: Path, target: Path, options: Sequence[str]) -> Measured:
    """One compaction by acidctl."""
    copy = linked(table, target)
    started = time.perf_counter()
    report = acidctl("compact", "major", str(copy), *LISTS, *options)
    seconds = time.perf_counter() - started
    (part,) = report["partitions"]
    assert part["outcome"] == "compacted", part
    return Measured(seconds, part["peak_memory"] / 2**20)


def plain_pass(table: Path, target: Path) -> Measured:
    """Decode and encode everything once, buckets side by side."""
    target.mkdir()
    started = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for job in [pool.submit(decode_and_encode, files, target) for files in data_files(table).values()]:
            job.result()
    seconds = time.perf_counter() - started
    shutil.rmtree(target)
    return Measured(seconds)


class HiveCompactor:
    """Hive 4 in a JVM with a full compiler, and tables linked into its warehouse."""

    def __init__(self, folder: Path) -> None:
        from tests.services import jvm
        from tests.services.hive import HIVE4, Hive

        self.hive = Hive(dataclasses.replace(HIVE4, java_options=(*jvm.ADD_OPENS, "-Xmx4g")), folder)

    def compact(self, table: Path, name: str, tasks: int) -> tuple[Measured, Path]:
        """Wall time of one Worker that compacts a copy of the table with so many tasks at a time."""
        hive = self.hive
        copy = self._adopted(table, name)
        hive.run(f"alter table {name} compact 'major'")
        settings = {"mapreduce.local.map.tasks.maximum": str(tasks)}
        started = time.perf_counter()
        hive.call(hive.java.acidctl.Services.work, settings, what="compact")
        seconds = time.perf_counter() - started
        assert hive.compactions(name)[-1]["state"] in ("ready for cleaning", "succeeded"), hive.compactions(name)
        return Measured(seconds), copy

    def rows(self, table: Path, name: str) -> int:
        """What Hive counts in a copy of the table: it can read it."""
        self._adopted(table, name)
        return int(json.loads(self.hive.session().select(f"select count(id) from {name}").values[0][0]))

    def _adopted(self, table: Path, name: str) -> Path:
        """The files of a copy of the table, all of whose writes are committed for Hive."""
        hive, java = self.hive, self.hive.java.acidctl
        hive.run(
            f"create table {name} ({COLUMNS}) clustered by (id) into 4 buckets stored as orc "
            "tblproperties ('transactional'='true', 'no_auto_compaction'='true')"
        )
        hive.call(java.Services.seedWriteIds, "default", name, LAST_WRITE_ID - 1, what="seed")
        hive.call(java.Adoption.writeIds, "default", name, "c", what="write ids")
        return linked(table, hive.warehouse / name)


def best(action: Callable[[], Measured], rounds: int) -> Measured:
    """The quickest of several rounds, with the largest memory of all."""
    found = [action() for _ in range(rounds)]
    memory = [one.memory for one in found if one.memory is not None]
    return Measured(min(one.seconds for one in found), max(memory, default=None))


def measure(table: Path, root: Path, rounds: int, *, hive: bool, spark: bool) -> dict[str, Measured]:
    """Everything on one table; what each compaction made holds the same rows."""
    want = digest(table)
    found = {"plain pass": best(lambda: plain_pass(table, root / "pass"), rounds)}
    for name, options in ENGINES.items():
        if name == "local" or spark:
            target = root / name.replace(" ", "_")
            found[name] = best(partial(compacted, table, target, options), rounds)
            assert digest(target) == want, f"{name}: other rows"
    if hive:
        compactor = HiveCompactor(root / "hive")
        try:
            small = make_compact_table(root.parent, 100_000)
            assert compactor.rows(small, "readable") == digest(small)[0]
            compactor.compact(small, "warm", 1)
            for tasks in (1, 2):
                times = []
                for turn in range(rounds):
                    once, copy = compactor.compact(table, f"bench_{tasks}_{turn}", tasks)
                    times.append(once)
                assert digest(copy, "--as-of", str(LAST_WRITE_ID)) == want, "Hive made other rows"
                found[f"Hive, {tasks} task{'s' * (tasks > 1)}"] = min(times, key=lambda one: one.seconds)
        finally:
            compactor.hive.close()
    return found


def show(found: dict[str, Measured]) -> None:
    """The table of times and ratios."""
    others = [name for name in ("Hive, 1 task", "Hive, 2 tasks", "plain pass") if name in found]
    print(f"{'':18} {'seconds':>8}  " + "  ".join(f"{'x of ' + name:>18}" for name in others) + f"  {'MiB':>6}")
    for name, figure in found.items():
        ratios = "  ".join(f"{figure.seconds / found[other].seconds:18.2f}" for other in others)
        memory = f"{figure.memory:6.0f}" if figure.memory is not None else ""
        print(f"{name:18} {figure.seconds:8.1f}  {ratios}  {memory}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="bench compact", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--linear", type=int, nargs="*", default=[1_000_000, 2_000_000, 5_000_000, 10_000_000])
    parser.add_argument("--no-hive", action="store_true")
    parser.add_argument("--no-spark", action="store_true")
    options = parser.parse_args(arguments)
    tables = Path(tempfile.gettempdir()) / "acidctl-bench"
    tables.mkdir(exist_ok=True)
    # As after an installation: else each worker would compile all of it where nothing may write into the sources.
    compileall.compile_dir(Path(acidctl_package.__file__).parent, quiet=1)
    table = make_compact_table(tables, options.rows)
    size = sum(path.stat().st_size for files in data_files(table).values() for path in files) / 2**20
    with tempfile.TemporaryDirectory(dir=tables) as folder:
        print(f"compact major: {options.rows:,} rows of 10 columns and 10 rounds of changes, {size:.0f} MiB zlib")
        show(measure(table, Path(folder), options.rounds, hive=not options.no_hive, spark=not options.no_spark))
        print("\nlocal engine, by rows of the base")
        for rows in options.linear:
            figure = compacted(make_compact_table(tables, rows), Path(folder) / "linear", ENGINES["local"])
            each = f"{1e6 * figure.seconds / rows:8.2f} s per million"
            print(f"{rows:12,} {figure.seconds:8.1f} s {each} {figure.memory:6.0f} MiB")


if __name__ == "__main__":
    main()
