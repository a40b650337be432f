"""Cases over saved compaction plans: edited ones are refused, or carried out so that every reader's rows stay.

With `--accept-edited` an edited plan is verified like any other: it publishes what it has to, or nothing.
"""

from __future__ import annotations

import copy
import json
import os
from functools import cache
from random import Random
from typing import Any

from acidctl.cli.compact import command
from tests.support.fuzz.bench import TABLES, Bench, Finding, Table, difference, load, plant, tree, warned

STEPS = (
    *("hive4/demo_orders/02-compacted", "hive4/bucketed/02-changed", "hive3/bucketed/03-aborted"),
    *("hive4/partitioned/01-inserted", "hive3/partitioned/01-inserted", "hive4/insert_only/02-aborted"),
    *("hive3/converted/03-updated", "hive4/load_data/02-changed", "hive4/converted_union/02-deleted"),
)
EXECUTE = ("--engine", "local", "--parallelism", "1", "-o", "json")


@cache
def _tables() -> list[Table]:
    return [load(TABLES / name / "step.json") for name in STEPS if (TABLES / name / "step.json").exists()]


@cache
def _can_accept() -> bool:
    return any("--accept-edited" in option.opts for option in command.params)


def case(bench: Bench, random: Random) -> None:
    """One edited plan."""
    table = random.choice(_tables())
    kind = random.choice(["major", "major", "minor"])
    # Times of files are in the plan, so it is made for this very copy.
    root = plant(bench.folder / table.title, table)
    (bench.folder / "precious").write_bytes(b"precious")
    options = (*table.options, "--schema", table.ddl)
    path = bench.folder / "plan.json"
    made = bench.run("compact", kind, str(root), *options, "--assume-exclusive", "-n", "-o", "json")
    if made.code != 0:
        return
    plan = made.json()
    edited = copy.deepcopy(plan)
    for _ in range(random.choice([1, 1, 1, 2])):
        bench.say(f"{table.name}: {_edit(edited, random)}")
    text = json.dumps(edited)
    if random.random() < 0.1:
        text = _torn(text, random)
    elif edited == plan:
        return
    path.write_text(text)
    before = tree(bench.folder)
    _, rows = bench.rows(root, *options)
    accept = random.random() < 0.6 and _can_accept()
    more = ("--accept-edited",) if accept else ()
    given = options if random.random() < 0.3 else ()
    if random.random() < 0.15:
        more = (*more, "-n")
    result = bench.run("compact", kind, str(root), "--plan", str(path), "--assume-exclusive", *given, *more, *EXECUTE)
    after = tree(bench.folder)
    lost = [name for name in before if before[name] != after.get(name, "") and "_acidctl" not in name]
    if lost:
        raise Finding(f"{result.code}: lost or changed {lost[:4]}")
    new = sorted(name for name in after if name not in before)
    outside = [name for name in new if not name.startswith(f"{root.name}/")]
    if outside:
        raise Finding(f"{result.code}: made outside of the table {outside[:4]}")
    if new and not accept and _can_accept() and not all("_acidctl" in name for name in new):
        raise Finding(f"{result.code}: an edited plan was carried out: {new[:4]}")
    again, now = bench.rows(root, *options)
    if not warned(again) and now != rows:
        raise Finding(f"{result.code}: other rows: {difference(rows, now)}")
    if again.code != 0:
        raise Finding(f"{result.code}: unreadable afterwards ({again.code}): {again.stderr[-300:]}")
    left = [name for name in os.listdir(root) if name.startswith("_acidctl_lock")]
    if left:
        raise Finding(f"left behind: {left}")


_VALUES: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        3,
        64,
        10**6,
        2**31,
        2**63 - 1,
        2**63,
        10**30,
        0.5,
        -0.5,
        1e308,
        "",
        "x",
        "..",
        "/",
        ".",
    ),
    *(
        "../precious",
        "base_0000004",
        "BASE_4",
        "base_0000099",
        "base_0000004/_x",
        "base_0000004/bucket_00077",
        "/etc/x",
    ),
    *(
        "delta_0000001_0000004",
        "full",
        "insert_only",
        "auto",
        "hive3",
        "hive4",
        "minor",
        "major",
        "compact",
        "skip",
        "none",
    ),
    *(
        "zlib",
        "lzo",
        "orc",
        "parquet",
        "surviving",
        "inserts",
        "deletes",
        "rows",
        "bytes",
        "struct<>",
        "int",
        "struct<id:int>",
    ),
    *(
        "default.t:2:9223372036854775807::",
        "null:99:9223372036854775807::",
        [],
        {},
        [[]],
        [None],
        ["x"],
        {"a": 1},
        "é" * 50,
    ),
]


def _spots(value: Any, path: str = "") -> list[tuple[Any, Any, str]]:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, inner in items:
        found.append((value, key, f"{path}.{key}"))
        found += _spots(inner, f"{path}.{key}")
    return found


def _edit(plan: dict[str, Any], random: Random) -> str:
    """One thing in the document."""
    spots = _spots(plan)
    if not spots:
        return "nothing"
    holder, key, path = random.choice(spots)
    old = holder[key]
    act = random.randrange(9)
    if act == 0:
        if isinstance(holder, dict):
            del holder[key]
        else:
            holder.pop(key)
        return f"{path} less"
    if act == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(old))
        return f"{path} twice"
    if act == 2:
        other, place, where = random.choice(spots)
        if place in other if isinstance(other, dict) else place < len(other):
            holder[key] = copy.deepcopy(other[place])
        return f"{path} = {where}"
    if act == 3 and isinstance(old, list):
        holder[key] = [] if random.random() < 0.5 else old[: len(old) // 2]
        return f"{path} shorter"
    if act == 4 and isinstance(old, str) and old:
        at = random.randrange(len(old))
        holder[key] = old[:at] + random.choice("0123456789abcdef/_.:") + old[at + 1 :]
    elif isinstance(old, int) and not isinstance(old, bool) and act < 8:
        holder[key] = random.choice([old + 1, old - 1, -old, old * 2, 0, 10**30, str(old)])
    else:
        holder[key] = copy.deepcopy(random.choice(_VALUES))
    return f"{path}: {str(old)[:60]} -> {str(holder[key])[:60]}"


def _torn(text: str, random: Random) -> str:
    at = random.randrange(len(text))
    return random.choice(
        [text[:at], text[:at] + "\0" + text[at:], text[at:], "", "[]", "null", "[" * 100_000, text * 2]
    )
