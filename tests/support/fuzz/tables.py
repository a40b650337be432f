"""Cases over tables: directories and files renamed, copied, moved, replaced by what does not belong there.

What a reader then has to see, `slow_reader` says, which shares nothing with acidctl; and whatever is seen, a compaction
and a cleaning leave as it is, and nothing outside of the table is touched.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from acidctl.errors import AcidctlError
from acidctl.format.write_ids import ValidWriteIds
from tests.support.fuzz.bench import Bench, Finding, Table, corpus, difference, plant, row_ids, tree, warned
from tests.support.slow_reader import NotEnoughHistory
from tests.support.slow_reader import read as read_slowly

Mutation = Callable[[Path, Random], str]
EXECUTE = ("--assume-exclusive", "--engine", "local", "--parallelism", "1", "-o", "json")


@cache
def _tables() -> list[Table]:
    return [table for table in corpus(files=14, size=30_000) if table.kind == "full"]


def case(bench: Bench, random: Random) -> None:
    """One table with one to three things out of place."""
    table = random.choice(_tables())
    root = plant(bench.folder / table.title, table)
    outside = bench.folder / "outside"
    outside.mkdir()
    (outside / "bucket_00000").write_bytes(table.files[table.data_files[0]])
    (bench.folder / "precious").write_bytes(b"precious")
    same = True
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        change = random.choice(SAME) if random.random() < 0.3 else random.choice(OTHER)
        same = same and change in SAME
        try:
            bench.say(f"{table.name}: {change.__name__} {change(root, random)}")
        except (OSError, IndexError, shutil.Error):
            return  # not possible on this table
    before_files = tree(bench.folder)
    # Where names changed, the columns of files alone are those of the files that lie there.
    renamed = table.engine == "hive2" or any(word in table.name for word in ("rename", "evol"))
    options = (*table.options, *(("--schema", table.ddl) if renamed else ()))
    result, rows = bench.rows(root, *options)
    if result.code == 0 and not warned(result):
        wanted = bench.baseline(table, schema=renamed) if same else None
        if wanted is not None and rows != wanted:
            raise Finding(f"silently other rows: {difference(wanted, rows)}")
        _ask_slow_reader(bench, root, table, rows)
    form = random.choice([["-o", "json"], ["-o", "jsonl"], ["--rows", "-o", "json"], ["--profile", "hive4"], []])
    bench.run("ls", str(root), *form, *table.options)
    if tree(bench.folder) != before_files:
        raise Finding("reading changed something")
    if random.random() < 0.5:
        maintain(bench, root, options, random, (result.code, rows))


def maintain(
    bench: Bench,
    root: Path,
    options: tuple[str, ...],
    random: Random,
    seen: tuple[int, list[str]],
    undone: frozenset[str] = frozenset(),
) -> None:
    """Compact or clean: the rows of whoever can read stay, nothing of the table but what is obsolete goes.

    `undone` are outputs of a run that is dead, by their names: a compaction may take them back.
    """
    before = tree(bench.folder)
    clean = random.random() < 0.4
    if clean:
        how = random.choice([["--delete", "--yes"], ["--quarantine", ""], ["--leftovers"]])
        how = ["--quarantine", str(root / "_acidctl_quarantine")] if how == ["--quarantine", ""] else how
        result = bench.run("clean", str(root), *options, "--unsafe-no-retention", *how, "-o", "json")
    else:
        more = random.choice([[], [], ["--max-partitions", "1"], ["--only-if-needed"], ["--max-bytes", "1"]])
        kind = random.choice(["major", "minor"])
        result = bench.run("compact", kind, str(root), *options, *EXECUTE, *more)
    after = tree(bench.folder)
    here = f"{root.name}/"
    outside = {name for name in before.keys() | after.keys() if not f"{name}/".startswith(here)}
    changed = {name for name in outside if before.get(name, 0) != after.get(name, 0)}
    if changed:
        raise Finding(f"outside of the table changed: {sorted(changed)[:5]}")
    if not clean:
        gone = [name for name in before if name not in after and "_acidctl_" not in name]
        lost = [name for name in gone if undone.isdisjoint(name.split("/"))]
        lost += [n for n in before if n in after and before[n] != after[n] and "_acidctl_" not in n]
        if lost:
            raise Finding(f"a compaction ({result.code}) lost or changed {lost[:5]}")
    left = [name for name in after if name.startswith(f"{here}_acidctl_lock") and name not in before]
    # A lock that was taken over stays as long as the work directory of the dead run.
    left = [name for name in left if name.replace("_acidctl_lock_", "_acidctl_work_") not in after]
    if left:
        raise Finding(f"left behind: {left}")
    code, rows = seen
    if code == 0:
        again, now = bench.rows(root, *options)
        if again.code != 0 or now != rows:
            raise Finding(f"{result.code} changed rows ({again.code}): {difference(rows, now)}")
    elif not clean and code in (11, 12, 13):
        new = {n.split("/")[1] for n in after.keys() - before.keys() if n.count("/") == 1}
        if any(name.startswith(("base_", "delta_", "delete_delta_")) for name in new):
            raise Finding(f"compacted ({result.code}) into {new}, though a reader is refused ({code})")


def _ask_slow_reader(bench: Bench, root: Path, table: Table, rows: list[str]) -> None:
    """The row ids, where the second reader can say anything about such a directory."""
    if (
        '"ROW__ID":null' in "".join(rows[:3])
        or table.engine == "hive2"
        or "p=" in "".join(table.files)
        or "ds=" in "".join(table.files)
    ):
        return
    inside = [path.name for path in root.rglob("*")]
    if any(path.is_symlink() for path in root.rglob("*")) or any("_v" in name or "_copy_" in name for name in inside):
        return  # It knows no transactions, and no copies of buckets.
    if any(path.is_file() and len(path.relative_to(root).parts) > 2 for path in root.rglob("*")):
        return  # What lies deeper, Hive reads in some places and not in others.
    try:
        ids = ValidWriteIds.parse(table.lists[0])
        slow = read_slowly(root, ids, "struct<" + ",".join(_columns(table.columns)) + ">")
    except (NotEnoughHistory, AcidctlError, AssertionError, ValueError, OSError, KeyError, TypeError, IndexError):
        return
    except Exception as error:  # pyorc's own
        if type(error).__module__.startswith("pyorc"):
            return
        raise
    keys = [(row.key[0], row.key[1], row.key[2]) for row in slow if row.key is not None]
    form = sorted(f'{{"bucketid": {key[1]}, "rowid": {key[2]}, "writeid": {key[0]}}}' for key in keys)
    if form != row_ids(rows):
        raise Finding(f"Hive reads other rows: {difference(form, row_ids(rows))}")


def _columns(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [":".join(part.strip().split(" ", 1)) for part in parts]


# --- what changes nothing


def _some_directory(root: Path, random: Random) -> Path:
    found = sorted(path for path in root.rglob("*") if "delta_" in path.name or "base_" in path.name)
    # Not what lies behind links, which may be anything.
    return random.choice([path for path in found if path.is_dir() and not path.is_symlink()] or [root])


def _some_file(root: Path, random: Random) -> Path:
    found = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink() and not p.name.startswith("_"))
    return random.choice(found)


def hidden_file(root: Path, random: Random) -> str:
    """Hadoop skips names that begin with an underscore or a dot."""
    source = _some_file(root, random)
    name = random.choice(["_bucket_00000", ".bucket_00000", "_SUCCESS", "._x", "_tmp.bucket_00000", ".hive-staging"])
    shutil.copy(source, random.choice([root, source.parent]) / name)
    return name


def hidden_directory(root: Path, random: Random) -> str:
    source = _some_directory(root, random)
    if source == root:
        raise OSError
    name = random.choice(["_old", ".hive-staging_hive_2026", "_tmp.x", ".Trash", "_impala_insert_staging"])
    shutil.copytree(source, root / name / source.name, symlinks=True)
    return name


def empty_directory(root: Path, random: Random) -> str:
    names = ["delta_0099991_0099991_0000", ".x", "_y"]
    if any(root.rglob("bucket_*")):
        # Elsewhere it would tell that the table is no insert-only one.
        names.append("delete_delta_0099991_0099991_0000")
    name = random.choice(names)
    (root / name).mkdir()
    return name


def no_marker(root: Path, random: Random) -> str:
    """Most engines never read it."""
    found = sorted(root.rglob("_orc_acid_version"))
    path = random.choice(found)
    path.unlink()
    return str(path.name)


SAME: list[Mutation] = [hidden_file, hidden_directory, empty_directory]

# --- what may change anything


def _number(random: Random, old: int) -> int:
    return random.choice([old + 1, max(0, old - 1), old * 10, 0, 1, 2, 5, 9999999, 2**63 - 1, 2**63, 10**30])


def _another_name(name: str, random: Random) -> str:
    parts = name.split("_")
    places = [i for i, part in enumerate(parts) if part.isdigit()]
    act = random.randrange(9)
    if act < 4 and places:
        place = random.choice(places)
        number = _number(random, int(parts[place]))
        parts[place] = str(number) if act == 0 else f"{number:0{len(parts[place])}}"
        return "_".join(parts)[:200]
    if act == 4:
        return name + random.choice(["_v5", "_v0000001", "_0001", "_", "_copy_1", ".tmp", "_flush_length", " ", "_v"])
    if act == 5:
        return random.choice(["delete_", "", "DELTA_", "base_", "_", "."]) + name.removeprefix("delete_")
    if act == 6 and places:
        parts[random.choice(places)] = random.choice(["x", "-1", "+1", "", "1e3", "٣", "1_000", "0x10"])
        return "_".join(parts)
    if act == 7:
        return name.swapcase()
    return random.choice(
        ["base_0000001", "base_9999999", "delta_0000001_0000005", "p=1", "000000_0", "x", "bucket_00000"]
    )


def rename_directory(root: Path, random: Random) -> str:
    path = _some_directory(root, random)
    target = path.with_name(_another_name(path.name, random))
    if target.exists() or path == root:
        raise OSError
    path.rename(target)
    return f"{path.name} -> {target.name}"


def copy_directory(root: Path, random: Random) -> str:
    path = _some_directory(root, random)
    place = random.choice([path.parent, path.parent, path, root / "x", root / "p=1"])
    target = place / (path.name if place != path.parent and random.random() < 0.7 else _another_name(path.name, random))
    if path == root:
        raise OSError
    files = tree(path)
    for name, data in files.items():
        if isinstance(data, bytes):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(data)
    return f"{path.relative_to(root)} -> {target.relative_to(root)}"


def remove_directory(root: Path, random: Random) -> str:
    """Nobody can tell that a whole write is missing; but all must go on."""
    path = _some_directory(root, random)
    if path == root:
        raise OSError
    shutil.rmtree(path)
    return str(path.relative_to(root))


def rename_file(root: Path, random: Random) -> str:
    path = _some_file(root, random)
    name = random.choice(
        [
            "bucket_00000",
            "bucket_00001",
            "bucket_00000_0",
            "bucket_00001_1",
            "000000_0",
            "000001_0",
            "000000_0_copy_1",
            "xyz",
        ]
        + [_another_name(path.name, random) for _ in range(7)]
    )
    target = path.with_name(name)
    if target.exists():
        raise OSError
    path.rename(target)
    return f"{path.relative_to(root)} -> {target.name}"


def copy_file(root: Path, random: Random) -> str:
    path = _some_file(root, random)
    other = _some_directory(root, random)
    name = random.choice(
        [path.name, path.name, _another_name(path.name, random), "bucket_00000_copy_1", "bucket_00007"]
    )
    target = random.choice([other, path.parent, root, path.parent / "HIVE_UNION_SUBDIR_1"]) / name
    if target.exists():
        raise OSError
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)
    return f"{path.relative_to(root)} -> {target.relative_to(root)}"


def replace_file(root: Path, random: Random) -> str:
    """By what is no ORC file, or no file."""
    path = _some_file(root, random)
    path.unlink()
    act = random.randrange(8)
    if act == 0:
        path.write_bytes(b"")
    elif act == 1:
        path.write_bytes(random.choice([b"ORC", b"x", b"PAR1" + bytes(50), bytes(1000), b"Obj\x01", b"1,a\n2,b\n"]))
    elif act == 2:
        path.mkdir()
    elif act == 3:
        os.mkfifo(path)
    elif act == 4:
        path.symlink_to(random.choice(["nowhere", path.name, "../../outside", "../../outside/bucket_00000"]))
    elif act == 5:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    elif act == 6:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(path))
    else:
        others = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
        if not others:
            raise OSError
        shutil.copy(random.choice(others), path)
    return f"{path.relative_to(root)} {act}"


def add_link(root: Path, random: Random) -> str:
    names = ["delta_0000009_0000009_0000", "base_0000009", "_acidctl_lock", "_acidctl_quarantine", "p=1", "x"]
    name = random.choice([*names, "_acidctl_work_0123456789ab", "delta_0000001_0000009/bucket_00000"])
    target = random.choice(["../outside", ".", "..", "nowhere", "../precious", "../outside/bucket_00000"])
    place = root / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)
    return f"{name} -> {target}"


def directory_by_link(root: Path, random: Random) -> str:
    """The real one lies outside of the table."""
    path = _some_directory(root, random)
    if path == root or path.is_symlink():
        raise OSError
    target = root.parent / "moved"
    path.rename(target)
    path.symlink_to(target)
    return path.name


def file_in_place_of_directory(root: Path, random: Random) -> str:
    path = _some_directory(root, random)
    if path == root:
        raise OSError
    shutil.rmtree(path)
    path.write_bytes(b"x")
    return path.name


def strange_entry(root: Path, random: Random) -> str:
    names = [
        "\udcff",
        "a\nb",
        "delta_1_1\x1b[2J",
        "*",
        "%",
        "p=%zz",
        "p=__HIVE_DEFAULT_PARTITION__",
        "é",
        "e\u0301",
        "-x",
    ]
    name = random.choice([*names, "a" * 255, "bucket_00000", "{}", "[x]", "'", '"', "\\", "=", "p=", "=1", "p=1"])
    if random.random() < 0.5:
        (root / name).mkdir()
        if random.random() < 0.5:
            shutil.copy(_some_file(root, random), root / name / "000000_0")
    else:
        (root / name).write_bytes(b"")
    return repr(name)


OTHER: list[Mutation] = [
    *(rename_directory, rename_directory, rename_directory, copy_directory, copy_directory, remove_directory),
    *(rename_file, rename_file, copy_file, copy_file, replace_file, replace_file, add_link, directory_by_link),
    *(file_in_place_of_directory, strange_entry, no_marker),
]
