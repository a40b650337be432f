"""Cases over markers and side files: Hive's (`_orc_acid_version`, `_metadata_acid`, `_flush_length`) and our own (lock,
work directory, journal, quarantine).

None of them holds a row. Hive's may decide about what is read: then it is what Hive would read, or an error. Ours
decide about nothing that a reader sees, and nothing outside of the table is ever touched.
"""

from __future__ import annotations

import json
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from acidctl.storage.local import LocalStorage
from tests.cli.runner import acidctl
from tests.support.fuzz.bench import TABLES, Bench, Finding, Table, corpus, difference, load, plant, tree, warned
from tests.support.fuzz.tables import maintain

CHANGED = ("hive4/demo_orders/01-updated", "hive3/converted/03-changed")
ID = "0123456789ab"
STREAMS = ("hive4/streaming/02-aborted", "hive3/streaming/01-first-commit", "hive3/streaming/02-aborted-and-open")


@dataclass(frozen=True)
class Left:
    """A table beside which a run left something: the files of it that are ours."""

    table: Table
    ours: dict[str, bytes]


@cache
def _tables() -> list[Table]:
    return [table for table in corpus(files=14, size=30_000) if table.engine != "hive2"]


@cache
def _streaming() -> list[Table]:
    return [load(TABLES / name / "step.json") for name in STREAMS]


def case(bench: Bench, random: Random) -> None:
    """One kind of them."""
    random.choice([hive_markers, side_files, own_files, own_files, own_files])(bench, random)


# --- Hive's


def hive_markers(bench: Bench, random: Random) -> None:
    """`_metadata_acid` and `_orc_acid_version` changed, added, lost."""
    table = random.choice(_tables())
    # The kind of the table is Hive's to say: a guess goes by these very markers.
    options = (*table.options, "--table-type", table.kind.replace("_", "-"), "--schema", table.ddl)
    before = bench.rows(plant(bench.folder / table.title, table), *options)[1]
    root = plant(bench.folder / table.title, table)
    places = sorted(
        p for p in root.rglob("*") if p.is_dir() and p.name.startswith(("base_", "delta_", "delete_delta_"))
    )
    place = random.choice([*places, root])
    name = random.choice(["_orc_acid_version", "_metadata_acid"])
    path = place / name
    old = path.read_bytes() if path.is_file() else b'{"thisFileVersion":"0","dataFormat":"compacted"}'
    _scribble(path, old, random)
    bench.say(f"{table.name}: {place.name}/{name}: {_shown(path)}")
    result, after = bench.rows(root, *options)
    # What says whether a base is of a compaction decides only whether this reader may use it.
    if not warned(result) and after != before:
        raise Finding(f"silently other rows: {difference(before, after)}")
    bench.run("ls", str(root), "-o", random.choice(["json", "text", "csv", "jsonl"]), *table.options)
    if random.random() < 0.4:
        (bench.folder / "precious").write_bytes(b"precious")
        maintain(bench, root, options, random, (result.code, after))


def side_files(bench: Bench, random: Random) -> None:
    """The length that counts of a file that is still being written: the rows of the file cut there, or an error."""
    table = random.choice(_streaming())
    root = plant(bench.folder / table.title, table)
    path = random.choice(sorted(p for p in root.rglob("*_flush_length")))
    old = path.read_bytes()
    data = path.with_name(path.name.removesuffix("_flush_length"))
    size = data.stat().st_size
    known = [struct.unpack(">q", old[i : i + 8])[0] for i in range(0, len(old) // 8 * 8, 8)]
    act = random.random()
    if act < 0.5:
        number = random.choice([*known, 0, 1, size, size + 1, -1, 2**62, -(2**63), random.randrange(size + 10)])
        path.write_bytes(struct.pack(">q", number) + random.randbytes(random.choice([0, 0, 3])))
    else:
        _scribble(path, old, random)
    bench.say(f"{table.name}: {path.name}: {_shown(path)}, known {known}")
    result, after = bench.rows(root, *table.options)
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
    bench.run("dump", str(data), "-o", "json")
    if warned(result) or content is None:
        return
    whole = content[: len(content) // 8 * 8]
    cut = struct.unpack(">q", whole[-8:])[0] if whole else 0
    data.write_bytes(data.read_bytes()[: max(0, cut)])
    path.unlink()
    wanted, rows = bench.rows(root, *table.options)
    if wanted.code == 0 and rows != after:
        raise Finding(f"other rows than those of the first {cut} bytes: {difference(rows, after)}")
    if wanted.code not in (0, 13):
        raise Finding(f"read, and the file cut there is refused: {wanted.code}")


# --- our own


@cache
def leftovers() -> list[Left]:
    """Tables with what runs leave that die at one moment or another, made by runs that fail there."""
    return [*_dead_compactions(), *_quarantined()]


def _dead_compactions() -> Iterator[Left]:
    # Only what has deletes beside inserts has two results, and so a journal.
    changed = [load(TABLES / name / "step.json") for name in CHANGED]
    for table in [*changed, *_tables()[::9][:8]]:
        for kind in ("minor", "major"):
            root = plant(Path(tempfile.mkdtemp(prefix="left")) / table.title, table)
            before = tree(root)
            states: list[dict[str, Any]] = []
            _watching(root, states, partial(_compact, root, kind, table))
            # A journal stands for few of them, at the end.
            journals = [state for state in states if any(name.endswith("journal.json") for name in state)]
            for state in [*states[:: max(1, len(states) // 6)], *journals[:: max(1, len(journals) // 3)]]:
                ours = {n: d for n, d in state.items() if isinstance(d, bytes) and before.get(n) != d}
                if any("_acidctl" in name for name in ours):
                    yield Left(table, ours)
            shutil.rmtree(root.parent)


def _compact(root: Path, kind: str, table: Table) -> None:
    more = ["--assume-exclusive", "--engine", "local", "--parallelism", "1", "-q"]
    acidctl("compact", kind, str(root), *table.options, *more)


def _watching(root: Path, states: list[dict[str, Any]], run: Callable[[], None]) -> None:
    """Run, and note what lies there whenever something is renamed or made."""
    names = ("move", "rename", "create_exclusive", "mkdir", "remove_tree", "remove_file", "rename_exclusive")
    old = {name: getattr(LocalStorage, name) for name in names if hasattr(LocalStorage, name)}

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            states.append(tree(root))
            return method(*args, **named)

        return call

    try:
        for name, method in old.items():
            setattr(LocalStorage, name, watched(method))
        run()
    finally:
        for name, method in old.items():
            setattr(LocalStorage, name, method)


def _quarantined() -> Iterator[Left]:
    for name in ("hive4/demo_orders/02-compacted", "hive3/bucketed/06-major", "hive4/bucketed/06-major"):
        table = load(TABLES / name / "step.json")
        root = plant(Path(tempfile.mkdtemp(prefix="left")) / table.title, table)
        acidctl(
            "clean",
            str(root),
            *table.options,
            "--unsafe-no-retention",
            "--quarantine",
            str(root / "_acidctl_quarantine"),
        )
        kept = {n: d for n, d in tree(root).items() if isinstance(d, bytes)}
        shutil.rmtree(root.parent)
        ours = {n: d for n, d in kept.items() if n.startswith("_acidctl")}
        if ours:
            rest = {n: d for n, d in kept.items() if n not in ours}
            yield Left(
                Table(table.name, rest, (), table.lists, table.ddl, table.kind, table.engine, table.columns), ours
            )


def own_files(bench: Bench, random: Random) -> None:
    """What a dead run left, mutated: readers see the same rows, and whoever comes next touches nothing else."""
    left = random.choice(leftovers())
    table = left.table
    key = Table(
        f"{table.name}#{len(table.files)}",
        table.files,
        table.empty,
        table.lists,
        table.ddl,
        table.kind,
        table.engine,
        table.columns,
    )
    before = bench.baseline(key, schema=True)
    root = plant(bench.folder / table.title, table)
    (bench.folder / "victim" / "attempts").mkdir(parents=True)
    (bench.folder / "victim" / "attempts" / "x").write_bytes(b"precious")
    for path, data in left.ours.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    own = sorted(path for path in left.ours if "_acidctl" in path)
    json_ones = [path for path in own if path.endswith((".json", "_lock", "failed"))] or own
    for _ in range(random.choice([1, 1, 2])):
        struck = root / random.choice(json_ones if random.random() < 0.8 else own)
        if not struck.is_file():
            continue
        if random.random() < 0.7:
            _change_json(struck, random)
        else:
            _scribble(struck, struck.read_bytes(), random)
        bench.say(f"{table.name}: {struck.relative_to(root)}: {_shown(struck)}")
    options = (*table.options, "--schema", table.ddl)
    result, after = bench.rows(root, *options)
    if not warned(result) and after != before and not _half_published(left):
        raise Finding(f"silently other rows: {difference(before, after)}")
    act = random.random()
    if act < 0.2:
        bench.run("ls", str(root), "-o", "json", *table.options)
    elif act < 0.35:
        bench.run("clean", str(root), "--undo", "--yes", "-o", "json", *table.options)
        again, now = bench.rows(root, *options)
        if result.code == 0 and (again.code, now) != (0, after):
            raise Finding(f"--undo changed rows ({again.code}): {difference(after, now)}")
    else:
        maintain(bench, root, options, random, (result.code, after), _published(left))


def _published(left: Left) -> frozenset[str]:
    """Directories that the dead run has put in their place."""
    return frozenset(name for path in left.ours for name in path.split("/")[:-1] if "_acidctl" not in path)


def _half_published(left: Left) -> bool:
    """Whether part of a result lies there: without its journal nobody can know."""
    return any(not path.startswith("_acidctl") and "/_acidctl" not in path for path in left.ours)


_VALUES: list[Any] = [
    *(None, True, 0, -1, 1, 2**63, 1e308, "", "x", "../victim", "../../victim", "/etc", ".", "..", "a/b", "\u0000", []),
    *({}, [[]], ["../victim"], ["t"], {"a": 1}, "delta_0000001_0000001_0000", "base_0000009", ID, "é" * 300, 10**40),
    *("acidctl_work", "acidctl_lock", "acidctl_journal", 2, 99, "2026-11-21T10:00:00Z", "9999-99-99", "NaN"),
]


def _change_json(path: Path, random: Random) -> None:
    """One value of the document, of another kind or out of bounds."""
    try:
        document = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return
    spots: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in list(items):
            spots.append((value, key))
            walk(inner)

    walk(document)
    if spots:
        holder, key = random.choice(spots)
        act = random.random()
        if act < 0.15 and isinstance(holder, dict):
            del holder[key]
        elif act < 0.25:
            others = [h[k] for h, k in spots]
            holder[key] = deepcopy(random.choice(others))
        else:
            holder[key] = deepcopy(random.choice(_VALUES))
    path.write_text(json.dumps(document))


def _scribble(path: Path, old: bytes, random: Random) -> None:
    """Another content, or no file at all."""
    act = random.randrange(12)
    if path.is_symlink() or path.is_file():
        path.unlink()
    if act == 0:
        return
    if act == 1:
        path.mkdir()
        return
    if act == 2:
        path.symlink_to(random.choice(["nowhere", path.name, "../../../victim", "../../../victim/attempts/x"]))
        return
    changed = bytearray(old)
    if act < 7 and changed:
        for _ in range(random.randint(1, 3)):
            changed[random.randrange(len(changed))] = random.choice([0, 255, 32, 34, 123, random.randrange(256)])
    elif act == 7:
        del changed[random.randrange(len(changed) + 1) :]
    elif act == 8:
        changed = bytearray(
            random.choice([b"", b"{}", b"[]", b"null", b"0", b"1", b"2", b"3", b"\xff\xfe", b"2\n", b"99999999999999"])
        )
    elif act == 9:
        changed += random.choice([b"\0", b" ", b"\n", b"}", b"x" * 5000])
    elif act == 10:
        changed = bytearray(b"[" * random.choice([10, 5000, 200_000]))
    else:
        words = [b"compacted", b"truncated", b"", b"COMPACTED", b"dropped", b"1", b"x"]
        changed = changed.replace(b"compacted", random.choice(words)).replace(
            b'"0"', random.choice([b'"1"', b"0", b"null"])
        )
    path.write_bytes(changed)


def _shown(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    if path.is_dir():
        return "a directory"
    return repr(path.read_bytes()[:300]) if path.exists() else "gone"
