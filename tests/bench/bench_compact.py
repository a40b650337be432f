"""Compaction by both engines, beside Hive 4's own compactor, a rewrite by Spark, a plain pass over the bytes, `cp`.

One run, one machine, the same files (linked, never copied), the same codec, all contenders in turn, round after
round. acidctl and Spark are measured as whole processes, start-up included; Hive's compactor by the wall time of its
Worker, in a JVM that is warm; the plain pass as one process per core, by bucket. Memory is that of the largest worker.
What a compaction made holds the same rows as before: that is checked after the first round.
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import acidctl as acidctl_package
from tests import ROOT
from tests.bench import results
from tests.bench.compact_tables import CASES, COLUMNS, Case, data_files, decode_and_encode, make_compact_table
from tests.bench.results import Result

OWN = {
    "acidctl, 2 processes": ("--engine", "local"),
    "acidctl, 1 process": ("--engine", "local", "--parallelism", "1"),
    "acidctl, Spark local[2]": ("--engine", "spark", "--master", "local[2]"),
}
CONTENDERS = (*OWN, "Hive, 1 task", "Hive, 2 tasks", "Spark DataFrames", "plain pass", "cp")
# Hive's minor compaction is one task whatever is allowed; the others make no minor compaction.
OF_MINOR = ("acidctl, 2 processes", "Hive, 1 task")


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
    answer = acidctl("snapshot", str(table), *lists, "--digest")
    return answer["rows"], answer["digest"]


class Bench:
    """One table, its case, and a folder for copies of it."""

    def __init__(self, table: Path, case: Case, root: Path) -> None:
        self.table, self.case, self.root = table, case, root
        #: The compacted copy of each contender that is to hold the rows of the table.
        self.made: dict[str, tuple[Path, tuple[str, ...]]] = {}

    def own(self, name: str) -> Measured:
        """One compaction by acidctl."""
        copy = linked(self.table, self.root / name.replace(" ", "_"))
        exclusive = ("--assume-exclusive",) if self.case.kind == "minor" else ()
        started = time.perf_counter()
        report = acidctl("compact", self.case.kind, str(copy), *self.case.lists, *OWN[name], *exclusive)
        seconds = time.perf_counter() - started
        (part,) = report["partitions"]
        assert part["outcome"] == "compacted", part
        self.made[name] = copy, self.case.lists
        return Measured(seconds, part["peak_memory"] / 2**20)

    def plain_pass(self) -> Measured:
        """Decode and encode everything once, buckets side by side."""
        with self._target() as target:
            started = time.perf_counter()
            with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
                for job in [pool.submit(decode_and_encode, files, target) for files in data_files(self.table).values()]:
                    job.result()
            return Measured(time.perf_counter() - started)

    def copy(self) -> Measured:
        """`cp` of all files."""
        with self._target() as target:
            started = time.perf_counter()
            subprocess.run(["cp", "-r", str(self.table), str(target)], check=True)
            return Measured(time.perf_counter() - started)

    def rewrite(self) -> Measured:
        """Spark without acidctl, as a process of its own."""
        with self._target() as target:
            script = Path(__file__).with_name("spark_rewrite.py")
            started = time.perf_counter()
            subprocess.run(
                [sys.executable, str(script), str(self.table), str(target / "out")],
                stderr=subprocess.DEVNULL,
                check=True,
            )
            return Measured(time.perf_counter() - started)

    @contextmanager
    def _target(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self.root) as folder:
            yield Path(folder)


class HiveCompactor:
    """Hive 4 in a JVM with a full compiler, and tables linked into its warehouse."""

    def __init__(self, folder: Path) -> None:
        from tests.services import jvm
        from tests.services.hive import HIVE4, Hive

        self.hive = Hive(dataclasses.replace(HIVE4, java_options=(*jvm.ADD_OPENS, "-Xmx4g")), folder)
        self._turns = 0

    def compact(self, bench: Bench, what: str, tasks: int) -> Measured:
        """Wall time of one Worker that compacts a copy of the table with so many tasks at a time."""
        hive, case = self.hive, bench.case
        self._turns += 1
        name = f"bench_{self._turns}"
        copy = self._adopted(bench.table, name, case)
        hive.run(f"alter table {name} compact '{case.kind}'")
        settings = {"mapreduce.local.map.tasks.maximum": str(tasks)}
        started = time.perf_counter()
        hive.call(hive.java.acidctl.Services.work, settings, what="compact")
        seconds = time.perf_counter() - started
        assert hive.compactions(name)[-1]["state"] in ("ready for cleaning", "succeeded"), hive.compactions(name)
        bench.made[what] = copy, ("--as-of", str(case.last_write_id))
        return Measured(seconds)

    def warm(self, table: Path, case: Case, rows: int) -> None:
        """Compact something small, after Hive has counted its rows: it can read it."""
        self._adopted(table, "readable", case)
        found = int(json.loads(self.hive.session().select("select count(id) from readable").values[0][0]))
        assert found == rows, f"Hive counts {found} rows, not {rows}"

    def _adopted(self, table: Path, name: str, case: Case) -> Path:
        """The files of a copy of the table, all of whose writes are committed for Hive."""
        hive, java = self.hive, self.hive.java.acidctl
        hive.run(
            f"create table {name} ({COLUMNS}) clustered by (id) into {case.buckets} buckets stored as orc "
            "tblproperties ('transactional'='true', 'no_auto_compaction'='true')"
        )
        hive.call(java.Services.seedWriteIds, "default", name, case.last_write_id - 1, what="seed")
        hive.call(java.Adoption.writeIds, "default", name, "c", what="write ids")
        return linked(table, hive.warehouse / name)


def contenders(bench: Bench, chosen: Sequence[str], small: Path, stack: ExitStack) -> dict[str, Callable[[], Measured]]:
    """What is measured, ready to run."""
    found: dict[str, Callable[[], Measured]] = {name: partial(bench.own, name) for name in chosen if name in OWN}
    if any(name.startswith("Hive") for name in chosen):
        hive = HiveCompactor(bench.root / "hive")
        stack.callback(hive.hive.close)
        hive.warm(small, bench.case, digest(small, *bench.case.lists)[0])
        little = Bench(small, bench.case, bench.root)
        hive.compact(little, "", 1)
        found |= {f"Hive, {n} task{'s' * (n > 1)}": partial(hive.compact, bench, f"Hive {n}", n) for n in (1, 2)}
    found |= {"Spark DataFrames": bench.rewrite, "plain pass": bench.plain_pass, "cp": bench.copy}
    return {name: found[name] for name in chosen}


def measure(options: argparse.Namespace, name: str) -> list[Result]:
    """One case: all that was chosen, in turn."""
    case, rows = CASES[name], options.rows if name != "minor" else min(options.rows, 1_000_000)
    table, small = (make_compact_table(options.tables, count, name) for count in (rows, min(rows, 100_000)))
    chosen = [what for what in options.what if case.kind == "major" or what in OF_MINOR]
    size = sum(path.stat().st_size for files in data_files(table).values() for path in files) / 2**20
    label = f"{case.name} ({size:.0f} MiB)"
    with tempfile.TemporaryDirectory(dir=options.tables) as folder, ExitStack() as stack:
        bench = Bench(table, case, Path(folder))
        actions = contenders(bench, chosen, small, stack)
        times: dict[str, list[Measured]] = {what: [] for what in actions}
        found: list[Result] = []
        for _ in range(options.rounds):
            for what, action in actions.items():
                times[what].append(action())
            # What was measured is kept, should a later round not come to its end.
            results.add(options.json, found := _results(label, rows, times))
        if not options.unchecked:
            want = digest(table, *case.lists)
            for what, (copy, lists) in bench.made.items():
                assert digest(copy, *lists) == want, f"{what}: other rows"
    return found


def _results(label: str, rows: int, times: dict[str, list[Measured]]) -> list[Result]:
    found = []
    for what, all_ in times.items():
        most = max((one.memory for one in all_ if one.memory is not None), default=None)
        found.append(Result("compact", label, rows, what, tuple(one.seconds for one in all_), most))
    return found


def memory(options: argparse.Namespace, name: str) -> list[Result]:
    """Peak memory of a worker at growing input."""
    found = []
    with tempfile.TemporaryDirectory(dir=options.tables) as folder:
        for rows in options.linear:
            table = make_compact_table(options.tables, rows, name)
            once = Bench(table, CASES[name], Path(folder)).own("acidctl, 2 processes")
            deletes = 2 * rows // 10
            label = f"{CASES[name].name}, {deletes:,} delete events"
            found.append(Result("memory", label, rows, "acidctl, 2 processes", (once.seconds,), once.memory))
    return found


def main(arguments: Sequence[str] | None = None, piece: str = "compact") -> None:
    """Measure, add to the file, print."""
    parser = argparse.ArgumentParser(prog=f"bench {piece}", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the base: 1, 5, 10 or 40 million")
    parser.add_argument(
        "--cases", nargs="*", choices=CASES, default=list(CASES) if piece == "compact" else ["scattered"]
    )
    parser.add_argument("--what", nargs="*", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--linear", type=int, nargs="*", default=[1_000_000, 2_000_000, 5_000_000])
    parser.add_argument("--tables", type=Path, default=Path(tempfile.gettempdir()) / "acidctl-bench")
    parser.add_argument("--unchecked", action="store_true", help="do not read what was made")
    parser.add_argument("--make-only", action="store_true", help="only make the tables")
    parser.add_argument("--json", type=Path, default=results.DEFAULT)
    options = parser.parse_args(arguments)
    options.tables.mkdir(exist_ok=True)
    # As after an installation: else each worker would compile all of it where nothing may write into the sources.
    compileall.compile_dir(Path(acidctl_package.__file__).parent, quiet=1)
    os.environ["PYTHONPATH"] = str(ROOT)
    for name in options.cases:
        if options.make_only:
            for rows in (100_000, options.rows, *(options.linear if piece == "memory" else ())):
                make_compact_table(options.tables, min(rows, 1_000_000) if name == "minor" else rows, name)
            continue
        found = (memory if piece == "memory" else measure)(options, name)
        results.add(options.json, found)
        print("\n".join(results.table(found)), flush=True)


if __name__ == "__main__":
    main()
