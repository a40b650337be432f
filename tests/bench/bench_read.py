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
from collections.abc import Callable, Mapping, Sequence
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


def in_turn(piece: str, case: str, rows: int, actions: Mapping[str, Callable[[], object]], rounds: int) -> list[Result]:
    """Calls in this process, each once before it counts, then all in turn."""
    for action in actions.values():
        action()
    times = results.seconds_in_turn(actions, rounds)
    return [Result(piece, case, rows, what, tuple(seconds)) for what, seconds in times.items()]


def commands_in_turn(
    piece: str, case: str, rows: int, commands: Mapping[str, Sequence[str | Path]], rounds: int
) -> list[Result]:
    """The same of commands, each run a process of its own, the first one counted too."""
    figures: dict[str, list[Figure]] = {what: [] for what in commands}
    for _ in range(rounds):
        for what, command in commands.items():
            figures[what].append(run(command))
    return [
        Result(piece, case, rows, what, tuple(one.seconds for one in all_), max(one.memory for one in all_))
        for what, all_ in figures.items()
    ]


def shown(options: argparse.Namespace, found: list[Result]) -> None:
    """Add to the file, print."""
    results.add(options.json, found)
    print("\n".join(results.table(found)), flush=True)


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
    options = options_of("read", arguments)
    table, base = make_table(options.tables, options.rows)
    commands: dict[str, Sequence[str | Path]] = {
        **commands_for(table, base),
        "orc-tools data": ["java", "-jar", orc_tools.jar(), "data", base],
    }
    case = f"{options.rows // 10:,} deletes"
    scans = {"plain scan": partial(plain_scan, base), "acidctl to_batches()": partial(snapshot_scan, table)}
    found = in_turn("scan", case, options.rows, scans, options.rounds)
    shown(options, found + commands_in_turn("read", case, options.rows, commands, options.rounds))


def stripes(arguments: Sequence[str] | None = None) -> None:
    """What the size of stripes costs whoever scans: the same base with stripes of 16 and of 64 MiB."""
    options = options_of("stripes", arguments)
    scans = {}
    for mib in (16, 64):
        table = make_compact_table(options.tables, options.rows, "new", mib << 20)
        files = [files[0] for files in data_files(table).values()]
        scans[f"stripes of {mib} MiB"] = partial(_scan_all, files)
    shown(options, in_turn("stripes", "plain scan of a base", options.rows, scans, options.rounds))


def spark(arguments: Sequence[str] | None = None) -> None:
    """A table with scattered changes through the data source on `local[2]`, beside Spark's scan of its rows in ORC."""
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import max as max_

    import acidctl.spark

    options = options_of("spark", arguments)
    table = make_compact_table(options.tables, options.rows)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(dir=options.tables) as folder:
        session = SparkSession.builder.master("local[2]").config("spark.log.level", "ERROR").getOrCreate()
        acidctl.spark.register(session)
        lists = "\n".join(CASES["scattered"].lists[1:4:2])
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
        scans = {name: frame.write.format("noop").mode("overwrite").save for name, frame in frames.items()}
        found = in_turn("spark", "scan on local[2]", options.rows, scans, options.rounds)
        session.stop()
    shown(options, found)


def where(arguments: Sequence[str] | None = None) -> None:
    """A condition on one row in a hundred that lie together, beside all rows: in this process and as whole commands."""
    options = options_of("where", arguments)
    table, lists = make_compact_table(options.tables, options.rows), CASES["scattered"].lists
    snapshot = acidctl.open_table(str(table)).snapshot(validtxns=lists[1:4:2])
    low = options.rows // 2
    one = f"id >= {low} AND id < {low + options.rows // 100}"

    def scan(condition: str | None) -> None:
        assert sum(map(len, snapshot.to_batches(where=condition)))

    scans = {"to_batches()": partial(scan, None), "to_batches(), 1 % of the keys": partial(scan, one)}
    found = in_turn("where", "condition", options.rows, scans, options.rounds)
    command = [sys.executable, "-m", "acidctl", "snapshot", str(table), *lists, "-o", "jsonl"]
    commands = {"-o jsonl": command, "-o jsonl, 1 % of the keys": [*command, "--where", one]}
    shown(options, found + commands_in_turn("where", "condition", options.rows, commands, options.rounds))


def _scan_all(files: Sequence[Path]) -> int:
    return sum(plain_scan(path) for path in files)


def options_of(piece: str, arguments: Sequence[str] | None, rows: int = 1_000_000) -> argparse.Namespace:
    """How many rows and rounds, where the tables are, and the file that is added to."""
    parser = argparse.ArgumentParser(prog=f"bench {piece}", description=__doc__)
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=Path, default=Path(tempfile.gettempdir()) / "acidctl-bench")
    parser.add_argument("--json", type=Path, default=results.DEFAULT)
    options = parser.parse_args(arguments)
    options.tables.mkdir(exist_ok=True)
    return options


if __name__ == "__main__":
    main()
