"""Reading a million-row bucket with 100,000 deletes, beside a plain scan of the same bytes and orc-tools.

Each line is measured as a whole process (interpreter or JVM start included) except the two scans, which are timed
inside one process, in turn. Figures are the best of several rounds; ratios compare figures of this run only.
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
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

import acidctl
from tests.bench.tables import VALID_TXNS, VALID_WRITE_IDS, make_table
from tests.support import orc_tools


@dataclass(frozen=True, slots=True)
class Figure:
    """Best wall time in seconds and largest resident memory in MiB of one command."""

    seconds: float
    memory: float


def run(command: Sequence[str | Path]) -> Figure:
    """One run of a command as a whole process, its output thrown away."""
    start = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        process = subprocess.Popen([str(part) for part in command], stdout=nowhere, stderr=subprocess.PIPE)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        assert process.stderr is not None
        raise SystemExit(f"{command[0]} failed: {process.stderr.read().decode(errors='replace')}")
    return Figure(seconds, usage.ru_maxrss / 1024)


def interleaved(commands: dict[str, Sequence[str | Path]], rounds: int) -> dict[str, Figure]:
    """All commands in turn, several rounds: noise of the machine falls on all of them alike."""
    found: dict[str, list[Figure]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(run(command))
    return {
        name: Figure(min(f.seconds for f in figures), max(f.memory for f in figures)) for name, figures in found.items()
    }


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
        "snapshot --count": [*acidctl_command, "snapshot", table, "--count", *lists],
        "snapshot -o jsonl": [*acidctl_command, "snapshot", table, "-o", "jsonl", *lists],
        "dump --data": [*acidctl_command, "dump", "--data", base],
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    root = Path(tempfile.gettempdir()) / "acidctl-bench"
    table, base = make_table(root, options.rows)
    commands: dict[str, Sequence[str | Path]] = {
        **commands_for(table, base),
        "orc-tools data": ["java", "-jar", orc_tools.jar(), "data", base],
    }
    scans: dict[str, list[float]] = {"plain scan": [], "to_batches()": []}
    plain_scan(base)
    for _ in range(options.rounds):
        scans["plain scan"].append(timed(lambda: plain_scan(base)))
        scans["to_batches()"].append(timed(lambda: snapshot_scan(table)))
    figures = interleaved(commands, options.rounds)
    larger = interleaved(commands_for(*make_table(root, 4 * options.rows)), 1)
    size = base.stat().st_size / 2**20
    print(
        f"{options.rows:,} rows, 10 columns, {options.rows // 10:,} deletes, {size:.0f} MiB; best of {options.rounds}"
    )
    print(f"{'':20} {'seconds':>8} {'':16} {'MiB':>6} {'MiB, 4 x rows':>14}")
    plain = min(scans["plain scan"])
    for name, seconds in scans.items():
        print(f"{name:20} {min(seconds):8.2f} {min(seconds) / plain:6.2f} x plain")
    slowest = figures["orc-tools data"].seconds
    for name, figure in figures.items():
        ratio = f"{slowest / figure.seconds:.1f} x faster"
        at_four = f"{larger[name].memory:14.0f}" if name in larger else ""
        print(f"{name:20} {figure.seconds:8.2f} {ratio:>16} {figure.memory:6.0f} {at_four}")


if __name__ == "__main__":
    main()
