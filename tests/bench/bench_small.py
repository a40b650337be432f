"""Many small things, each command as a whole process: partitions and deltas of ten rows, and deltas of 10,000.

Figures are processor time of the command and its workers, the least of several rounds; another checkout of acidctl
(`--other`) runs in turn with this one, and the ratio is to it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests import ROOT
from tests.bench.small_tables import make_deltas, make_partitions


def cost(tree: Path, command: Sequence[str]) -> float:
    """Seconds of processor time of one run with the sources below `tree`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    subprocess.run(
        [sys.executable, "-m", "acidctl", *command], cwd="/", env=environment, stdout=subprocess.DEVNULL, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(tree: Path, table: Path, lists: Sequence[str], what: str) -> float:
    """One command on a copy of the table whose files are links."""
    texts = [part for text in lists for part in ("--validtxns", text)]
    if what == "count":
        return cost(tree, ["snapshot", str(table), "--count", *texts])
    with tempfile.TemporaryDirectory(dir=table.parent) as folder:
        copy = shutil.copytree(table, Path(folder) / "t", copy_function=os.link, ignore=shutil.ignore_patterns("_done"))
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
        found = [[measured(tree, *table, what) for tree in trees] for _ in range(options.rounds)]
        best = [min(column) for column in zip(*found, strict=True)]
        print(f"{name:34} {best[0]:8.2f} s" + (f" {best[0] / best[1]:6.2f} x the other" if len(best) > 1 else ""))


if __name__ == "__main__":
    main()
