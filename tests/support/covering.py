"""Ways to compact the fixture steps, few enough for every run: each value of a factor beside each of every other.

In place of all steps by all ways stands a covering array: whatever two values of two factors can be met together are
met in one of the chosen ways. All ways are for `make sweep`.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from acidctl.format.names import BaseDir, DeltaDir, DeltaKind, OriginalFile, parse_directory, parse_file
from tests.support.extent import SAMPLE, SWEEP
from tests.support.steps import STEPS, Step

T = TypeVar("T")
KINDS = ("major", "minor")
TARGETS = ("hive3", "hive4")
CODECS = ("none", "zlib", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Way:
    """One compaction of a copy of a step's table; `codec` is None for that of the table."""

    step: Step
    kind: str
    target: str
    codec: str | None

    def __str__(self) -> str:
        return "-".join(filter(None, (str(self.step), self.kind, self.target, self.codec)))

    def factors(self) -> dict[str, object]:
        """What may matter for it."""
        return {**features(self.step), "kind": self.kind, "target": self.target, "codec": self.codec}


def features(step: Step) -> dict[str, object]:
    """What of a table may matter for its compaction."""
    return {
        "written by": step.engine,
        "table": step.facts["kind"],
        "partitioned": bool(step.facts["partition_columns"]),
        **{name: name in _layout(step) for name in ("base", "delta", "delete delta", "originals")},
    }


@cache
def _layout(step: Step) -> frozenset[str]:
    """Which kinds of data lie in the table: base, deltas, delete deltas, original files."""
    found = set()
    for path in step.table.rglob("*"):
        parsed = parse_directory(path.name) if path.is_dir() else None
        if isinstance(parsed, BaseDir):
            found.add("base")
        elif isinstance(parsed, DeltaDir):
            found.add("delete delta" if parsed.kind is DeltaKind.DELETE else "delta")
        elif path.is_file() and isinstance(parse_file(path.name), OriginalFile):
            # Union subdirectories lie within deltas.
            above = (parse_directory(folder) for folder in path.relative_to(step.table).parts[:-1])
            if not any(isinstance(one, BaseDir | DeltaDir) for one in above):
                found.add("originals")
    return frozenset(found)


# Insert-only tables that are not ORC: what is made of their files is in tests/unit/compaction/test_plainfiles.py.
PLAIN = ("hive4/insert_only_parquet", "hive4/insert_only_text", "hive4/insert_only_csv")
# Copies of files of Hive 2 are not compacted.
REFUSED = ("hive2/v1_converted/01-converted",)


@cache
def _kinds(step: Step) -> frozenset[str]:
    """The kinds of compaction that have something to do, by the names alone: a transaction may still forbid it."""
    found: set[str] = set()
    if str(step) in REFUSED:
        return frozenset()
    for folder in (step.table, *(path for path in step.table.rglob("*=*") if path.is_dir())):
        parsed = [parse_directory(path.name) for path in folder.iterdir() if path.is_dir()]
        top = max((one.write_id for one in parsed if isinstance(one, BaseDir)), default=None)
        deltas = [one for one in parsed if isinstance(one, DeltaDir) and (top is None or one.max_write_id > top)]
        wide = {(one.kind, one.min_write_id, one.max_write_id) for one in deltas if one.min_write_id < one.max_write_id}
        read = [
            one
            for one in deltas
            if (one.kind, one.min_write_id, one.max_write_id) in wide
            or not any(
                one.kind == kind and low <= one.min_write_id and one.max_write_id <= high for kind, low, high in wide
            )
        ]
        counts = Counter(one.kind for one in read)
        originals = any(isinstance(parse_file(path.name), OriginalFile) for path in folder.iterdir())
        if (top is None and originals) or counts.total() + (top is not None) > 1:
            found.add("major")
        # Hive 3 cannot read deltas of Hive 2, so they are not merged to deltas.
        if max(counts.values(), default=0) > 1 and step.engine != "hive2":
            found.add("minor")
    return frozenset(found)


def chosen(
    candidates: Iterable[T], factors: Callable[[T], Mapping[str, object]], also: Callable[[T], object] = lambda one: ()
) -> list[T]:
    """A few candidates in which every two values of factors meet that meet in any, and with each value of `also`.

    One after another the candidate with most that is new; of many that are as good not always the first.
    """
    shuffled = list(candidates)
    random.Random(1).shuffle(shuffled)
    met: list[set[object]] = [{also(one), *itertools.combinations(factors(one).items(), 2)} for one in shuffled]
    missing = set().union(*met)
    # What is new in a candidate only becomes less, so that a count of earlier tells which need not be looked at.
    queue = [(-len(values), number) for number, values in enumerate(met)]
    heapq.heapify(queue)
    found = []
    while missing:
        _, number = heapq.heappop(queue)
        new = (-len(met[number] & missing), number)
        if queue and new > queue[0]:
            heapq.heappush(queue, new)
            continue
        found.append(shuffled[number])
        missing -= met[number]
    return sorted(found, key=str)


def chosen_steps(steps: Iterable[Step]) -> list[Step]:
    """Of each scenario one in a sample, and whatever two features of tables can be met together; else all of them."""
    return chosen(steps, features, lambda step: step.scenario) if SAMPLE else list(steps)


def chosen_ways(*, each_scenario: bool) -> list[Way]:
    """Ways with something to do in which two factors meet in all their values; in a sweep all ways.

    With `each_scenario` each of them is met, in both kinds if it can be.
    """
    steps = [step for step in STEPS if step.transactional and not str(step).startswith(PLAIN)]
    if SWEEP:
        return [Way(*way, None) for way in itertools.product(steps, KINDS, TARGETS)]
    product = itertools.product(steps, KINDS, TARGETS, (None, *CODECS))
    # Hive 3 reads no zstd.
    ways = [Way(*way) for way in product if way[1] in _kinds(way[0]) and way[2:] != ("hive3", "zstd")]
    return chosen(ways, Way.factors, lambda way: (way.step.scenario, way.kind) if each_scenario else ())
