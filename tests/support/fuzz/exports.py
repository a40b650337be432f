"""Cases over targets of exports: what stands where `--to` points, and what may go for it.

Nothing goes but what `--overwrite` names: a file, or a directory that is an export of ours and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from tests.support.fuzz.bench import TABLES, Bench, Finding, Table, load, plant, tree

STEPS = (
    *("hive4/demo_orders/02-compacted", "hive4/partitioned/01-inserted", "hive4/insert_only_text/01-inserted"),
    *("hive4/no_rows/01-created", "hive4/insert_only/01-inserted", "hive4/insert_only_parquet/01-inserted"),
)
_FORMS = ("parquet", "csv", "jsonl", "arrow")
_FOREIGN = (
    "tax.csv",
    "part-00000.parquet",
    "000000_0.gz",
    ".bashrc",
    ".env",
    "_keep",
    "notes.txt",
    "part-0.snappy.parquet",
)

Plant = Callable[[Bench, Table, Path, Random], bool]


@cache
def _tables() -> list[Table]:
    found = [load(TABLES / name / "step.json") for name in STEPS if (TABLES / name / "step.json").exists()]
    return found or [load(step) for step in sorted(TABLES.glob("hive4/insert_only*/*/step.json"))]


def case(bench: Bench, random: Random) -> None:
    """One target."""
    table, other = random.choice(_tables()), random.choice(_tables())
    root = plant(bench.folder / "warehouse" / "db" / table.title, table)
    plant(bench.folder / "warehouse" / "db" / "other", other)
    lake = bench.folder / "lake"
    lake.mkdir()
    target = lake / random.choice(["rows", "rows.parquet", "a b", "base_0000009", "x"])
    what, ours = random.choice(_PLACES), False
    if random.random() < 0.1:
        target = _elsewhere(root, random)
    else:
        ours = what(bench, table, target, random)
    before = tree(bench.folder)
    shown = random.choice(
        [str(target), f"{target}/", f"{target}/", os.path.relpath(target), f"{target}/.", f"{target}//"]
    )
    more = [option for option in ("--overwrite", "--overwrite", "--partitioned") if random.random() < 0.5]
    form = ["--format", random.choice(_FORMS)] if random.random() < 0.7 else []
    bench.say(f"{table.name}: {getattr(what, '__name__', what)}, {target.relative_to(bench.folder)}")
    result = bench.run("snapshot", str(root), *table.options, "--to", shown, *dict.fromkeys(more), *form, "-o", "json")
    after = tree(bench.folder)
    gone = sorted(path for path, data in before.items() if after.get(path, "") != data)
    here = str(target.relative_to(bench.folder))
    replaced = result.code in (0, 3) and "--overwrite" in more
    allowed = replaced and (ours or (target.is_file() and not target.is_symlink()))
    wrong = [path for path in gone if not (allowed and (path == here or path.startswith(f"{here}/")))]
    if wrong:
        raise Finding(f"exit code {result.code}: gone or changed: {wrong[:5]}")
    new = [path for path in after if path not in before and not f"{path}/".startswith(f"{here}/")]
    if new and not any(path.is_symlink() for path in (target, *target.parents)):
        raise Finding(f"exit code {result.code}: left beside the target: {new[:5]}")
    if result.code not in (0, 3) and before.keys() != after.keys():
        raise Finding(f"exit code {result.code}, and something was made: {sorted(after.keys() - before.keys())[:5]}")


# --- what stands there; True for what --overwrite agrees to lose


def _nothing(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    return True


def _an_export(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    root = bench.folder / "warehouse" / "db" / table.title
    form = random.choice(_FORMS)
    bench.run("snapshot", str(root), *table.options, "--to", f"{target}/", "--format", form, "-o", "json")
    return True


def _an_export_with_more(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    _an_export(bench, table, target, random)
    if not target.is_dir():
        return True
    place = target / random.choice(["", "deeper", "p=1"])
    place.mkdir(exist_ok=True)
    (place / random.choice(_FOREIGN[:-2])).write_bytes(b"precious")
    return False


def _an_export_changed(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    _an_export(bench, table, target, random)
    files = sorted(path for path in target.rglob("part-*") if path.is_file())
    if not files:
        return True
    file = random.choice(files)
    file.write_bytes(file.read_bytes() + b"precious")
    return False


def _half_an_export(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    """Without what says that it is whole."""
    _an_export(bench, table, target, random)
    marks = sorted(path for path in target.glob("_*")) if target.is_dir() else []
    for mark in marks:
        mark.unlink()
    return not marks


def _foreign_files(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    target.mkdir()
    for name in random.sample(_FOREIGN, random.choice([1, 1, 2])):
        (target / name).write_bytes(b"precious")
    if random.random() < 0.4:
        (target / "_SUCCESS").write_bytes(b"")
    return False


def _folders(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    (target / "a" / "b").mkdir(parents=True)
    return False


def _a_table(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    plant(target, random.choice(_tables()))
    return False


def _a_link(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    to = [
        bench.folder / "warehouse",
        bench.folder / "warehouse" / "db" / "other",
        bench.folder / "lake",
        Path("nowhere"),
    ]
    target.symlink_to(random.choice(to))
    return False


def _a_file(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    target.write_bytes(b"precious")
    return False


def _moved_aside(bench: Bench, table: Table, target: Path, random: Random) -> bool:
    """A hidden name of a run that was killed, in which lies something else."""
    ours = _an_export(bench, table, target, random) if random.random() < 0.5 else True
    for name in (f".{target.name}.acidctl-old", f".{target.name}.00000000.part"):
        place = target.with_name(name)
        if random.random() < 0.7:
            place.mkdir()
            (place / random.choice(_FOREIGN)).write_bytes(b"precious")
    return ours


def _elsewhere(root: Path, random: Random) -> Path:
    """In, above and beside tables."""
    inside = sorted(path for path in root.rglob("*") if path.is_dir())
    return random.choice([root, root.parent, root.parent.parent, root.parent / "other", root / "export", *inside])


_PLACES: tuple[Plant, ...] = (
    *(_nothing, _an_export, _an_export, _an_export_with_more, _an_export_changed, _half_an_export, _foreign_files),
    *(_foreign_files, _folders, _a_table, _a_link, _a_file, _moved_aside),
)
