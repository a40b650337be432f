"""Exports with --overwrite that are killed at random moments, and what is found after each kill.

`python -m tests.support.export_kills 100 7` kills a hundred from seed 7 on and prints the figures.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import acidctl
from tests.support.slow_reader import Event
from tests.unit.rows.test_slow_reader import write_events

TARGETS = ("rows.parquet", "rows.csv.gz", "parts/", "days/")
_BUCKET = 536870912
_DAYS, _ROWS = 12, 40
# From the word that exports go on to the kill, in seconds; an export takes some hundredths of one.
_LATEST = 0.25
# Exports over and over, one column and the other, in a process that is warm.
_CHILD = """
import itertools, sys
import acidctl
from acidctl.exporting.run import Chosen, export
from acidctl.options import ExportOptions
from acidctl.storage.local import LocalStorage

class InSteps(LocalStorage):
    def exchange(self, first, second):
        return sys.argv[3] == "swap" and super().exchange(first, second)

to = sys.argv[2]
asked = ExportOptions(to=to, partitioned=to.endswith("days/"), overwrite=True)
for number in itertools.count():
    seen = acidctl.open_table(sys.argv[1]).snapshot()
    export(seen, asked, Chosen(("a", "b")[number % 2 : number % 2 + 1]), InSteps(to), to.rstrip("/"))
    if number == 1:
        print("goes on", flush=True)
"""


def make_table(root: Path) -> None:
    """A table of some partitions with two columns."""
    for day in range(1, _DAYS + 1):
        rows = [Event(0, (1, _BUCKET, number), 1, [number, f"{day}-{number}"]) for number in range(_ROWS)]
        write_events(
            root / f"ds=2026-01-{day:02}" / "delta_0000001_0000001_0000" / "bucket_00000",
            "struct<a:int,b:string>",
            rows,
        )


def killed_run(table: Path, folder: Path, to: str, way: str, moment: float) -> Counter[str]:
    """Kill an export to `folder` that goes on there, and look; AssertionError for what must not be.

    `way` is swap, or steps where the file system cannot change two names at once.
    """
    place = f"{folder}/{to}"
    seen = acidctl.open_table(str(table)).snapshot()
    known = []
    for column in ("a", "b"):
        seen.export(place, [column], partitioned=to == "days/", overwrite=True)
        known.append(_whole(folder / to))
    with subprocess.Popen([sys.executable, "-c", _CHILD, str(table), place, way], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"goes on\n"
        time.sleep(moment)
        assert child.poll() is None
        child.kill()
    left = sorted(path.name for path in folder.iterdir() if path.name != to.rstrip("/"))
    found = Counter(
        f"left {'.'.join(name.split('.')[-1:])}" for name in left if name.endswith((".part", ".owner", "-old", ".json"))
    )
    there = _whole(folder / to)
    if there:
        assert there in known, f"{to} is neither old nor new after {moment} s"
    else:
        assert way == "steps"
        assert [name for name in left if name.endswith(".acidctl-old")]
        found["moved away"] += 1
    report = acidctl.open_table(str(table)).snapshot().export(place, ["a"], partitioned=to == "days/", overwrite=True)
    assert _whole(folder / to) == known[0]
    assert [path.name for path in folder.iterdir()] == [to.rstrip("/")], report["notes"]
    found["left nothing" if not left else "left something"] += 1
    found["was old" if there == known[0] else "was new" if there else "was away"] += 1
    return found


def _whole(place: Path) -> dict[str, bytes]:
    """All files of an export."""
    if place.is_file():
        return {"": place.read_bytes()}
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def campaign(root: Path, kills: int, seed: int) -> Counter[str]:
    """So many kills, of all targets in turn; what was found."""
    chance = random.Random(seed)
    make_table(root / "t")
    total: Counter[str] = Counter()
    for number in range(kills):
        folder = root / f"out{number}"
        folder.mkdir()
        to, way = TARGETS[number % len(TARGETS)], ("swap", "steps")[number // len(TARGETS) % 2]
        total += killed_run(root / "t", folder, to, way, chance.random() * _LATEST)
        total["kills"] += 1
    return total


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        for what, count in sorted(campaign(Path(temporary), int(sys.argv[1]), int(sys.argv[2])).items()):
            print(f"{count:6}  {what}")
