"""Cases over data files: one file of a table changed, and the table read, described, compacted."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.cli.runner import Result
from tests.support.fuzz.bench import Bench, Finding, Table, corpus, difference, plant, row_ids, warned
from tests.support.fuzz.orcbytes import Touched, changed


@cache
def _tables() -> list[Table]:
    return corpus()


def case(bench: Bench, random: Random) -> None:
    """One mutated file."""
    table = random.choice(_tables())
    schema = random.random() < 0.5
    before = bench.baseline(table, schema=schema)
    root = plant(bench.folder / table.title, table)
    path = random.choice(table.data_files)
    data, said, touched = changed(table.files[path], random)
    (root / path).write_bytes(data)
    bench.say(f"{table.name} {path}: {said} (may change {touched.value})")
    options = (*table.options, *(("--schema", table.ddl) if schema else ()))
    side = f"{path}_flush_length"
    if side in table.files and len(data) != len(table.files[path]) and "cut" not in said:
        # The length that counts is that of the side file; behind it lies anything.
        (root / side).unlink()
    act = random.random()
    if act < 0.62:
        result, after = bench.rows(root, *options)
        judge(result, before, after, touched, by_place=schema and table.engine == "hive4")
    elif act < 0.72:
        count(bench, root, options, before, touched)
    elif act < 0.86:
        look(bench, root / path, random)
    elif act < 0.9:
        bench.run("ls", str(root), "--rows", "-o", "json", *table.options)
    else:
        # Without today's columns a column that was renamed is two.
        compact(bench, root, table, path, (*table.options, "--schema", table.ddl), random)


def judge(result: Result, before: list[str], after: list[str], touched: Touched, *, by_place: bool) -> None:
    """Whether an answer is the old one, or says that something is wrong, or differs where it may."""
    if warned(result) or after == before or touched is Touched.ANYTHING:
        return
    # Hive 3 finds columns by their names: another one is another column.
    if touched is Touched.NOTHING or (touched is Touched.NAMES and by_place):
        raise Finding(f"silently other rows: {difference(before, after)}")
    if row_ids(after) != row_ids(before):
        raise Finding(f"silently other row ids: {difference(row_ids(before), row_ids(after))}")


def count(bench: Bench, root: Path, options: tuple[str, ...], before: list[str], touched: Touched) -> None:
    """The number of rows, however it is counted."""
    result = bench.run("snapshot", str(root), "--count", "-o", "json", *options)
    if warned(result) or touched is Touched.ANYTHING:
        return
    rows, wanted = json.loads(result.stdout)["rows"], len([line for line in before if line])
    if rows != wanted:
        raise Finding(f"silently {rows} rows instead of {wanted}")


def look(bench: Bench, path: Path, random: Random) -> None:
    """The file itself, in one of its forms."""
    forms = [["-o", "json"], ["-r", "*", "-o", "json"], [], ["-d"], ["-d", "-o", "json"], ["--events", "-o", "jsonl"]]
    bench.run("dump", str(path), *random.choice([*forms, ["-d", "-n", "3", "-o", "jsonl"], ["-d", "-o", "csv"]]))


def compact(bench: Bench, root: Path, table: Table, path: str, options: tuple[str, ...], random: Random) -> None:
    """A compaction keeps the rows that a reader sees, or refuses, and leaves its inputs alone."""
    seen, before = bench.rows(root, *options)
    files = {path: data for path, data in table.files.items() if (root / path).is_file()}
    kept = {path: (root / path).read_bytes() for path in files}
    kind = random.choice(["major", "major", "minor"])
    more = ["--assume-exclusive", "--engine", "local", "--parallelism", "1", "-o", "json"]
    result = bench.run("compact", kind, str(root), *options, *more)
    for name, data in kept.items():
        if not (root / name).is_file() or (root / name).read_bytes() != data:
            raise Finding(f"the compaction changed {name}")
    again, after = bench.rows(root, *options)
    if seen.code == 0 and (again.code != 0 or after != before):
        raise Finding(f"the compaction ({result.code}) changed rows ({again.code}): {difference(before, after)}")
    # What a compaction does not read may be damaged.
    read = [name for part in _report(result).get("partitions", []) for name in part["inputs"]]
    concerned = any(f"{name}/" in f"/{path}" for name in read) and _report(result)["summary"]["outcomes"].get(
        "compacted"
    )
    if seen.code not in (0, 3) and concerned and _published(root, files):
        raise Finding(f"compacted ({result.code}), though a reader is refused ({seen.code})")
    extra = {name for name in os.listdir(root) if name.startswith("_acidctl_lock")}
    if extra:
        raise Finding(f"left behind: {extra}")


def _report(result: Result) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(result.stdout)
    except ValueError:
        return {}
    return report


def _published(root: Path, files: dict[str, bytes]) -> bool:
    before = {path.partition("/")[0] for path in files}
    return any(name.startswith(("base_", "delta_", "delete_delta_")) for name in set(os.listdir(root)) - before)
