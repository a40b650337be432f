"""Reading a million-row bucket with 100,000 deletes, beside a plain scan of the same bytes and orc-tools.

Each line is measured as a whole process (interpreter or JVM start included) except the two scans, which are timed
inside one process, in turn. Ratios compare figures of one run only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

import acidctl
from tests.bench import results
from tests.bench.compact_tables import CASES, data_files, make_compact_table
from tests.bench.results import Result
from tests.bench.tables import VALID_TXNS, VALID_WRITE_IDS, make_table
from tests.support import orc_tools


@dataclass(frozen=True, slots=True)
class Figure:
    """Wall time in seconds and largest resident memory in MiB of one run of a command."""

    seconds: float
    memory: float


# The kernel counts what the parent had as memory of the child, so that the parent has to be small.
_LAUNCH = """
import os, resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
sys.exit(code)
"""


def run(command: Sequence[str | Path]) -> Figure:
    """One run of a command as a whole process, its output thrown away."""
    launch = [sys.executable, "-S", "-c", _LAUNCH, *map(str, command)]
    done = subprocess.run(launch, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr}")
    return Figure(*map(float, done.stdout.split()))


def interleaved(commands: dict[str, Sequence[str | Path]], rounds: int) -> dict[str, list[Figure]]:
    """All commands in turn, several rounds: noise of the machine falls on all of them alike."""
    found: dict[str, list[Figure]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(run(command))
    return found


def plain_scan(base: Path) -> int:
    """Every column of the file, decoded and dropped."""
    rows = 0
    with open(base, "rb") as stream:
        fragment = ds.OrcFileFormat().make_fragment(pa.PythonFile(stream, mode="r"))
        for batch in fragment.scanner(batch_size=65536, use_threads=False).to_batches():
            rows += len(batch)
    return rows


def snapshot_scan(table: Path) -> int:
    """Every column of the rows that a reader sees."""
    snapshot = acidctl.open_table(str(table)).snapshot(validtxns=[VALID_WRITE_IDS, VALID_TXNS])
    return sum(len(batch) for batch in snapshot.to_batches())


def timed(action: Callable[[], int]) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def commands_for(table: Path, base: Path) -> dict[str, Sequence[str | Path]]:
    """The commands that are timed, on a table and its one base file."""
    lists = ["--validtxns", VALID_WRITE_IDS, "--validtxns", VALID_TXNS]
    acidctl_command = [sys.executable, "-m", "acidctl"]
    return {
        "acidctl snapshot --count": [*acidctl_command, "snapshot", table, "--count", *lists],
        "acidctl -o jsonl": [*acidctl_command, "snapshot", table, "-o", "jsonl", *lists],
        "acidctl dump --data": [*acidctl_command, "dump", "--data", base],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, add to the file, print."""
    options = _options("read", arguments)
    table, base = make_table(options.tables, options.rows)
    commands: dict[str, Sequence[str | Path]] = {
        **commands_for(table, base),
        "orc-tools data": ["java", "-jar", orc_tools.jar(), "data", base],
    }
    scans: dict[str, Callable[[], int]] = {
        "plain scan": lambda: plain_scan(base),
        "acidctl to_batches()": lambda: snapshot_scan(table),
    }
    for action in scans.values():
        action()
    case = f"{options.rows // 10:,} deletes"
    times: dict[str, list[float]] = {name: [] for name in scans}
    for _ in range(options.rounds):
        for name, action in scans.items():
            times[name].append(timed(action))
    found = [Result("scan", case, options.rows, name, tuple(seconds)) for name, seconds in times.items()]
    figures = interleaved(commands, options.rounds)
    found += [
        Result("read", case, options.rows, name, tuple(one.seconds for one in all_), max(one.memory for one in all_))
        for name, all_ in figures.items()
    ]
    results.add(options.json, found)
    print("\n".join(results.table(found)))


def stripes(arguments: Sequence[str] | None = None) -> None:
    """What the size of stripes costs whoever scans: the same base with stripes of 16 and of 64 MiB."""
    options = _options("stripes", arguments)
    found = {}
    for mib in (16, 64):
        table = make_compact_table(options.tables, options.rows, "new", mib << 20)
        files = [files[0] for files in data_files(table).values()]
        found[mib] = partial(_scan_all, files)
        found[mib]()
    times: dict[int, list[float]] = {mib: [] for mib in found}
    for _ in range(options.rounds):
        for mib, action in found.items():
            times[mib].append(timed(action))
    made = [
        Result("stripes", "plain scan of a base", options.rows, f"stripes of {mib} MiB", tuple(seconds))
        for mib, seconds in times.items()
    ]
    results.add(options.json, made)
    print("\n".join(results.table(made)))


def spark(arguments: Sequence[str] | None = None) -> None:
    """A table with scattered changes through the data source on `local[2]`, beside Spark's scan of its rows in ORC."""
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import max as max_

    import acidctl.spark

    options = _options("spark", arguments)
    table = make_compact_table(options.tables, options.rows)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(dir=options.tables) as folder:
        session = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
        acidctl.spark.register(session)
        lists = "\n".join(CASES["scattered"].lists[1::2])
        rows = session.read.format("acidctl").option("validtxns", lists).load(str(table))
        rows.write.option("compression", "zlib").orc(f"{folder}/plain")
        plain = session.read.orc(f"{folder}/plain")
        highest = [max_(column) for column in plain.columns if column != "active"]
        frames = {
            "plain ORC, written nowhere": plain,
            "acidctl, written nowhere": rows,
            "plain ORC, maximum of each column": plain.agg(*highest),
            "acidctl, maximum of each column": rows.agg(*highest),
        }
        times: dict[str, list[float]] = {}
        for turn in range(options.rounds + 1):
            for name, frame in frames.items():
                start = time.perf_counter()
                frame.write.format("noop").mode("overwrite").save()
                seconds = time.perf_counter() - start
                if turn:
                    times.setdefault(name, []).append(seconds)
        session.stop()
    found = [Result("spark", "scan on local[2]", options.rows, name, tuple(all_)) for name, all_ in times.items()]
    results.add(options.json, found)
    print("\n".join(results.table(found)))


def where(arguments: Sequence[str] | None = None) -> None:
    """A condition on one row in a hundred that lie together, beside all rows: in this process and as whole commands."""
    options = _options("where", arguments)
    table, lists = make_compact_table(options.tables, options.rows), CASES["scattered"].lists
    snapshot = acidctl.open_table(str(table)).snapshot(validtxns=lists[1::2])
    low = options.rows // 2
    one = f"id >= {low} AND id < {low + options.rows // 100}"
    times: dict[str, list[float]] = {}
    for turn in range(options.rounds + 1):
        for name, condition in {"to_batches()": None, "to_batches(), 1 % of the keys": one}.items():
            start = time.perf_counter()
            assert sum(map(len, snapshot.to_batches(where=condition)))
            seconds = time.perf_counter() - start
            if turn:
                times.setdefault(name, []).append(seconds)
    command = [sys.executable, "-m", "acidctl", "snapshot", str(table), *lists, "-o", "jsonl"]
    figures = interleaved(
        {"-o jsonl": command, "-o jsonl, 1 % of the keys": [*command, "--where", one]}, options.rounds
    )
    found = [Result("where", "condition", options.rows, name, tuple(all_)) for name, all_ in times.items()]
    found += [
        Result(
            "where", "condition", options.rows, name, tuple(one.seconds for one in all_), max(o.memory for o in all_)
        )
        for name, all_ in figures.items()
    ]
    results.add(options.json, found)
    print("\n".join(results.table(found)))


def _scan_all(files: Sequence[Path]) -> int:
    return sum(plain_scan(path) for path in files)


def _options(piece: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"bench {piece}", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=Path, default=Path(tempfile.gettempdir()) / "acidctl-bench")
    parser.add_argument("--json", type=Path, default=results.DEFAULT)
    options = parser.parse_args(arguments)
    options.tables.mkdir(exist_ok=True)
    return options


if __name__ == "__main__":
    main()
