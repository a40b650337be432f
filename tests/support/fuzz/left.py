"""Cases over planted leftovers: journals, owners, locks and work directories that no run of this table has left.

They name what lives in the table as their outputs, their inputs, their leftovers. Whatever a reader is told meanwhile,
once they have been tidied up by the next runs, or by hand, each row is there that was there before.
"""

from __future__ import annotations

import json
import shutil
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.support.fuzz.bench import Bench, Finding, Table, corpus, difference, plant, tree, warned
from tests.support.fuzz.markers import leftovers
from tests.support.fuzz.tables import EXECUTE

ID = "0123456789ab"
_DEAD: dict[str, Any] = {
    "type": "acidctl_work",
    "schema_version": 1,
    "id": ID,
    "host": "",
    "pid": 999_999_999,
    "pid_started": "1",
    "created": "2020-01-01T00:00:00Z",
    "boot_id": None,
    "machine_id": None,
    "pid_namespace": None,
}


@cache
def _tables() -> list[Table]:
    return [table for table in corpus(files=14, size=30_000) if table.engine != "hive2"]


@cache
def _journals() -> list[dict[str, Any]]:
    """Journals as this code writes them."""
    texts = [data for left in leftovers() for path, data in left.ours.items() if path.endswith("journal.json")]
    return [json.loads(text) for text in texts if text.startswith(b"{")]


@cache
def _owners() -> list[dict[str, Any]]:
    texts = [data for left in leftovers() for path, data in left.ours.items() if path.endswith("owner.json")]
    return [json.loads(text) for text in texts if text.startswith(b"{")]


def case(bench: Bench, random: Random) -> None:
    """A table with one or two of them."""
    table = random.choice(_tables())
    before = bench.baseline(table, schema=True)
    root = plant(bench.folder / table.title, table)
    options = (*table.options, "--schema", table.ddl)
    place = random.choice(
        sorted({path.parent for path in root.rglob("*") if path.parent.name == root.name or "=" in path.parent.name})
        or [root]
    )
    for number in range(random.choice([1, 1, 2])):
        bench.say(f"{table.name}: {_plant_one(place, f'{number}{ID[1:]}', random)}")
    original = {path: data for path, data in tree(root).items() if "_acidctl" not in path}
    result, rows = bench.rows(root, *options)
    if not warned(result) and rows != before:
        raise Finding(f"silently other rows beside what was planted: {difference(before, rows)}")
    for _ in range(random.choice([1, 2, 3])):
        maintain(bench, root, options, original, random)
    for path in sorted(root.rglob("_acidctl*")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    again, rows = bench.rows(root, *options)
    if again.code != 0 or rows != before:
        raise Finding(f"other rows in the end ({again.code}): {difference(before, rows)}")


def maintain(bench: Bench, root: Path, options: tuple[str, ...], original: dict[str, Any], random: Random) -> None:
    """A compaction or an undo takes nothing; what a cleaning may take, the rows tell in the end."""
    act = random.random()
    if act < 0.5:
        bench.run("compact", random.choice(["major", "minor"]), str(root), *options, *EXECUTE)
    elif act < 0.7:
        bench.run("clean", str(root), "--undo", "--yes", "-o", "json", *options)
    else:
        how = ["--delete", "--yes", *(["--leftovers"] if random.random() < 0.6 else [])]
        bench.run("clean", str(root), *options, "--unsafe-no-retention", *how, "-o", "json")
    now = tree(root)
    lost = sorted(path for path, data in original.items() if now.get(path, "") != data)
    if lost and act < 0.7:
        raise Finding(f"lost or changed {lost[:4]}")
    for path in lost:
        del original[path]


def _plant_one(place: Path, number: str, random: Random) -> str:
    """A work directory beside data, with a journal and an owner that say this or that."""
    work = place / f"_acidctl_work_{number}"
    work.mkdir(exist_ok=True)
    owner = deepcopy(random.choice([_DEAD, *_owners()]))
    owner.update({"id": number, "pid": random.choice([999_999_999, 999_999_999, 1, owner["pid"]])})
    if random.random() < 0.5:
        owner["host"] = random.choice(["elsewhere", ""])
    if random.random() < 0.9:
        (work / "owner.json").write_text(json.dumps(owner))
    if random.random() < 0.2:
        (place / "_acidctl_lock").write_text(json.dumps({**owner, "type": "acidctl_lock"}))
    if random.random() < 0.1:
        return f"{work.name} without a journal"
    journal = _journal(place, number, random)
    (work / "journal.json").write_text(json.dumps(journal))
    for file in journal["output_files"]:
        source = work / str(file[2] if isinstance(file, list) and len(file) > 2 else "out")
        if random.random() < 0.5 and source.resolve().is_relative_to(work.resolve()):
            source.parent.mkdir(parents=True, exist_ok=True)
            source.write_bytes(b"ORC")
    return f"{place.name}: {json.dumps(journal)[:700]}"


def _journal(place: Path, number: str, random: Random) -> dict[str, Any]:
    """A journal that names what lives there; in all else like one of this code."""
    here = sorted(
        path.name for path in place.iterdir() if (path.is_dir() and "delta_" in path.name) or "base_" in path.name
    )
    plausible = ["delta_0000001_0000009", "delete_delta_0000001_0000009", "base_0000009", "delta_0000001_0000004"]
    journal = deepcopy(random.choice(_journals()))
    outputs = random.sample([*here, *here, *plausible], min(len(here) * 2, random.choice([1, 1, 2, 2, 3])))
    if random.random() < 0.5:
        outputs = [outputs[0], *(name for name in plausible if random.random() < 0.4)] if outputs else plausible[:1]
    journal.update({"id": number, "outputs": list(dict.fromkeys(outputs))})
    journal["inputs"] = random.sample(here, random.randrange(len(here) + 1))
    if random.random() < 0.6:
        journal["input_files"] = []
    files: list[Any] = []
    if random.random() < 0.6:
        for name in outputs:
            for path in (
                sorted((place / name).glob("*")) if (place / name).is_dir() else [place / name / "bucket_00000"]
            ):
                size = path.stat().st_size if path.is_file() else 77
                files.append([f"{name}/{path.name}", size, f"out/{name}/{path.name}"])
        files = files[: random.choice([1, 2, 99])]
    journal["output_files"] = files
    if "visibility_txn" in journal and random.random() < 0.3:
        journal["visibility_txn"] = random.choice([None, 1, 5, 99])
    return journal
