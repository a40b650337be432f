"""Cases over configuration files: sound ones, and such with odd keys, values, bytes, or no file at all.

A configuration agrees to nothing: whatever it says, a command without an option that changes something changes
nothing. What is no setting of anything is refused, or whoever mistyped one goes without it.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from random import Random
from typing import Any

from tests.support.fuzz.bench import TABLES, Bench, Finding, Table, load, plant, tree

STEPS = ("hive4/demo_orders/02-compacted", "hive4/partitioned/01-inserted", "hive3/bucketed/03-aborted")
_KEYS = {
    "": ("profile", "limit", "columns", "output", "partition", "older-than", "max-bytes", "where", "kind", "quiet"),
    ".ls": ("profile", "rows", "limit", "all", "output"),
    ".snapshot": ("limit", "columns", "where", "count", "strict", "format"),
    ".compact": ("max-partitions", "codec", "engine", "parallelism", "only-if-needed", "max-bytes"),
    ".clean": ("older-than", "leftovers", "partition"),
}
# The tables may be changed by none of them.
_DANGEROUS = (
    "delete",
    "yes",
    "quarantine",
    "undo",
    "assume-exclusive",
    "unsafe-no-retention",
    "skip-trash",
    "overwrite",
)
_MISTYPED = ("older_thn", "nope", "Profile", "limt", "colums", "x" * 300, "é", "", "a.b", "-", "--limit")
_VALUES = (
    *('"hive4"', '"hive3"', '"json"', '"24h"', '"30d"', '"1e9d"', '""', '"x"', '"\\u0000"', '"é"', "0", "1", "-1", "3"),
    *("true", "false", "1.5", "nan", "inf", "-inf", "9223372036854775808", "1979-05-27T07:32:00Z", "07:32:00", "[]"),
    *('["id"]', "[1, [2]]", "{ a = 1 }", '"id > 1"', '"../../x"', '"@/etc/passwd"', "1e400", '["p=1", 2]', '"0"'),
    f'"{"x" * 10_000}"',
    str(10**30),
)
_SECTIONS = (
    *(
        '[storage."s3://x/"]\nendpoint_url = "http://127.0.0.1:1"',
        "[spark]\nmaster = 1",
        "[metastore]\nuris = 3",
        "[x]",
    ),
    *(
        "[[options]]\na = 1",
        "[options.nope]\nlimit = 1",
        "storage = 1",
        "[storage]\na = 1",
        '[options."ls"]\nlimit = 1',
    ),
    *("[spark]\n'a b' = []", '[metastore]\nuris = "thrift://127.0.0.1:1"\ntimeout = "x"', "options = []", "# \u202e"),
)
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("ls", "-o", "json"),
    ("snapshot", "-o", "json", "--count"),
    ("snapshot", "-o", "jsonl"),
    ("compact", "major", "-n", "-o", "json"),
    ("clean", "-o", "json"),
)


@cache
def _tables() -> list[Table]:
    return [load(TABLES / name / "step.json") for name in STEPS if (TABLES / name / "step.json").exists()]


def case(bench: Bench, random: Random) -> None:
    """One file, and a command that is given it."""
    table = random.choice(_tables())
    root = plant(bench.folder / table.title, table)
    path = bench.folder / "config.toml"
    text = _text(random)
    content = text.encode("utf-8", "surrogatepass")
    if random.random() < 0.3:
        content = _torn(content, random)
    act = random.random()
    if act < 0.03:
        path.mkdir()
    elif act < 0.06:
        path.symlink_to(random.choice(["config.toml", "nowhere", "/dev/null", "."]))
    elif act < 0.07:
        os.mkfifo(path)
    else:
        path.write_bytes(content)
    bench.say(f"{table.name}: {content[:400]!r}")
    before = tree(root)
    command, *more = random.choice(COMMANDS)
    place = [more.pop(0), str(root)] if command == "compact" else [str(root)]
    result = bench.run(command, *place, *table.options, "--config", str(path), *more)
    if tree(root) != before:
        raise Finding("a configuration file has changed a table")
    if result.code in (0, 3) and (wrong := _wrong(content)) and path.is_file():
        raise Finding(f"exit code {result.code} with {wrong}")


def _wrong(content: bytes) -> str | None:
    """What no configuration may say, where it is known for sure."""
    try:
        options: Any = tomllib.loads(content.decode()).get("options", {})
    except (ValueError, RecursionError):
        return None
    if not isinstance(options, dict):
        return "[options] that is no section"
    named = [*options, *(name for inner in options.values() if isinstance(inner, dict) for name in inner)]
    bad = [name for name in named if name in _DANGEROUS or name in _MISTYPED]
    return f"{bad[0]!r} among its options" if bad else None


def _text(random: Random) -> str:
    """A file by the rules, or nearly."""
    lines = []
    for section in random.sample(list(_KEYS), random.choice([1, 1, 2, 3])):
        lines.append(f"[options{section}]")
        for key in random.sample(_KEYS[section], random.choice([0, 1, 1, 2])):
            lines.append(f"{key} = {random.choice(_VALUES)}")
        if random.random() < 0.15:
            lines.append(f'"{random.choice(_DANGEROUS + _MISTYPED)}" = {random.choice(_VALUES)}')
    if random.random() < 0.4:
        lines.append(random.choice(_SECTIONS))
    return "\n".join(lines)


def _torn(content: bytes, random: Random) -> bytes:
    """The bytes with something more, less, or changed."""
    at = random.randrange(len(content) + 1)
    more = [
        b"\0",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\n",
        b"=",
        b"[",
        b"]",
        b'"',
        b"[" * 5000,
        b"\r",
        b"a." * 3000,
    ]
    act = random.randrange(4)
    if act == 0:
        return content[:at] + random.choice(more) + content[at:]
    if act == 1:
        return content[:at] + content[at + random.randrange(9) :]
    if act == 2:
        return content[:at]
    return random.choice([b"", b"\xff\xfe", b"\xef\xbb\xbf" + content, content + content, b"x = " + b"[" * 10_000])
