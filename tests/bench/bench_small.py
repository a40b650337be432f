"""Many small things, each command as a whole process: partitions and deltas of ten rows, and deltas of 10,000.

Figures are elapsed time, and processor time of the command and its workers, each the least of several rounds; another
checkout of acidctl (`--other`) runs in turn with this one, and the ratios are to it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests import ROOT
from tests.bench.small_tables import make_deltas, make_partitions


def cost(tree: Path, command: Sequence[str]) -> tuple[float, float]:
    """Seconds of one run with the sources below `tree`: elapsed, and of processor time."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    subprocess.run(
        [sys.executable, "-m", "acidctl", *command], cwd="/", env=environment, stdout=subprocess.DEVNULL, check=True
    )
    elapsed, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(folder: str, tree: Path, table: Path, lists: Sequence[str], what: str) -> tuple[float, float]:
    """One command on a copy of the table, whose files are links; copies stay, as deletions slow a file system down."""
    texts = [part for text in lists for part in ("--validtxns", text)]
    if what == "count":
        return cost(tree, ["snapshot", str(table), "--count", *texts])
    copy = Path(tempfile.mkdtemp(dir=folder)) / "small"
    shutil.copytree(table, copy, copy_function=os.link, ignore=shutil.ignore_patterns("_done"))
    return cost(tree, ["compact", what, str(copy), *texts, "-q"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="bench small", description=__doc__)
    parser.add_argument("--partitions", type=int, default=300)
    parser.add_argument("--deltas", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--other", type=Path, help="another checkout to compare with")
    options = parser.parse_args(arguments)
    root = Path(tempfile.gettempdir()) / "acidctl-bench"
    root.mkdir(exist_ok=True)
    partitions, deltas = make_partitions(root, options.partitions), make_deltas(root, options.deltas)
    for name, table, what in (
        (f"major, {options.partitions:,} partitions", partitions, "major"),
        (f"count, {options.partitions:,} partitions", partitions, "count"),
        (f"minor, {options.deltas:,} deltas", deltas, "minor"),
        (f"count, {options.deltas:,} deltas", deltas, "count"),
        ("minor, 100 deltas of 10,000 rows", make_deltas(root, 100, 10_000), "minor"),
    ):
        trees = [ROOT] if options.other is None else [ROOT, options.other]
        with tempfile.TemporaryDirectory(dir=root) as folder:
            found = [[measured(folder, tree, *table, what) for tree in trees] for _ in range(options.rounds)]
        line = f"{name:34}"
        for place, kind in enumerate(("elapsed", "processor")):
            best = [min(one[place] for one in column) for column in zip(*found, strict=True)]
            line += f" {best[0]:8.2f} s {kind}" + (f" ({best[0] / best[1]:.2f} x the other)" if len(best) > 1 else "")
        print(line)


if __name__ == "__main__":
    main()
