"""Cases over conditions: texts of `--where` by the grammar with odd literals, and texts that are none.

What two conditions must have to do with each other is known without an answer of either: no row fulfils a condition
and its negation, both together give what their disjunction gives, and the number of rows is that of the rows.
"""

from __future__ import annotations

import json
from functools import cache
from random import Random

from tests.support.fuzz.bench import FULL_KINDS, TABLES, Bench, Finding, Table, corpus, difference, load, plant, warned

# Tables with many types, and with values of partitions.
_WIDE = ("*/types_*/*", "*/partition*/*")
_OPERATORS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")
_LITERALS = (
    *("0", "1", "-1", "2", "3", "7L", "7S", "7Y", "2147483648", "9223372036854775808", "1.50", "-0.0", "1e0", "5.5D"),
    *("''", "'a'", "'1'", "'abc '", "'it''s'", '"x"', "'%'", "'é水😀'", "'\\u00e9'", "'\\303'", "'\\n'", "'NaN'"),
    *("DATE '2020-01-01'", "'2020-01-01'", "TIMESTAMP '2020-01-01 00:00:00.5'", "TRUE", "FALSE", "NULL"),
    "TIMESTAMPLOCALTZ '2026-01-31 10:00:00 UTC'",
)
_ODD = (
    *(
        "9" * 5000,
        "-" + "9" * 5000,
        "0" * 5000 + "1",
        "1e1000000000BD",
        "1e-1000000000BD",
        "1e400",
        "1e-400D",
        "1" * 40,
    ),
    *("0." + "3" * 5000, "1e99999999999999999999", "128Y", "32768S", "1e5L", "NaN", "Infinity", "0x10", "1_000", "٣"),
    *("'\\ud800'", "'\\udfff\\ud800'", "'\\0'", "'\\777'", "'\\u00'", "'" + "x" * 100_000 + "'", "'\ud800'", "'", '"'),
    *("DATE '0000-00-00'", "DATE '99999-12-31'", "DATE '2020-02-30'", "TIMESTAMP '9999-12-31 23:59:60'", "DATE ''"),
    *(
        "TIMESTAMP '0001-01-01 00:00:00.0000000001'",
        "TIMESTAMPLOCALTZ '2020-01-01 00:00:00 Mars'",
        "1BDBD",
        "--1",
        "1.",
    ),
)
_PATTERNS = ("'%'", "'_'", "'a%'", "'%_%'", "'\\%'", "'\\\\'", "'" + "%a" * 3000 + "'", "'" + "_" * 5000 + "'", "''")
_SCRAPS = (
    *(
        "(",
        ")",
        ",",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "IS NULL",
        "LIKE",
        "`",
        "``",
        "'",
        '"',
        "\\",
        "\0",
        "\n",
        ";",
    ),
    *(
        "--",
        "/*",
        "\u202e",
        "\ufeff",
        "😀",
        ".",
        "..",
        "ROW__ID.",
        "ROW__ID",
        "x y",
        "1 1",
        "<",
        "<=>",
        "count(*)",
        "=",
    ),
)


@cache
def _tables() -> list[Table]:
    wide = [load(step) for form in _WIDE for step in sorted(TABLES.glob(f"{form}/step.json"))]
    readable = [
        table for table in wide if table.kind in FULL_KINDS and table.engine != "hive2" and len(table.files) < 30
    ]
    return [*readable, *corpus(files=10, size=30_000)[::4]]


def case(bench: Bench, random: Random) -> None:
    """One condition."""
    table = random.choice(_tables())
    root = plant(bench.folder / table.title, table)
    options = (*table.options, "--schema", table.ddl)
    condition = _condition(random, _names(table, random), random.choice([0, 1, 1, 2, 3]))
    act = random.random()
    if act < 0.25:
        condition = _torn(condition, random)
    elif act < 0.3:
        condition = random.choice([" OR ", " AND "]).join([condition] * random.choice([50, 400]))[:1_000_000]
    elif act < 0.33:
        condition = "(" * 2000 + condition + ")" * random.choice([2000, 1999])
    elif act < 0.36:
        condition = "NOT " * 2000 + condition
    bench.say(f"{table.name}: {condition[:300]!r}")
    if random.random() < 0.2:
        given = bench.folder / "condition.sql"
        given.write_bytes(condition.encode("utf-8", "surrogatepass"))
        condition, options = f"@{given}", (*options, "--limit", "3")
        bench.rows(root, *options, "--where", condition)
        return
    found, kept = bench.rows(root, *options, "--where", condition)
    if warned(found):
        return
    everything = bench.baseline(table, schema=True)
    if not set(kept) <= set(everything):
        raise Finding(f"other rows than those of the table: {difference(everything, kept)}")
    plant(root, table)
    counted = bench.run("snapshot", str(root), "--count", "-o", "json", *options, "--where", condition)
    if not warned(counted) and json.loads(counted.stdout)["rows"] != len([row for row in kept if row]):
        raise Finding(f"{json.loads(counted.stdout)['rows']} rows counted, {len(kept) - 1} read")
    _hold_against_others(bench, options, root, condition, kept)


def _hold_against_others(bench: Bench, options: tuple[str, ...], root: object, condition: str, kept: list[str]) -> None:
    """The condition's negation, and either of both."""
    if len(condition) > 20_000:
        return
    other, without = bench.rows(root, *options, "--where", f"NOT ({condition})")  # type: ignore[arg-type]
    either, both = bench.rows(root, *options, "--where", f"({condition}) OR NOT ({condition})")  # type: ignore[arg-type]
    if warned(other) or warned(either):
        return
    first, second = {row for row in kept if row}, {row for row in without if row}
    if first & second:
        raise Finding(f"rows of a condition and of its negation: {sorted(first & second)[:3]}")
    if first | second != {row for row in both if row}:
        raise Finding(f"other rows than those of either: {difference(sorted(first | second), both)}")


def _names(table: Table, random: Random) -> list[str]:
    """Columns, as they may be written."""
    depth, names, word = 0, [], ""
    for letter in table.columns + ",":
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            names.append(word.strip().split(" ", 1)[0].strip("`"))
            word = ""
        else:
            word += letter
    names += ["ROW__ID.writeid", "ROW__ID.rowid", "ROW__ID.bucketid"]
    return [f"`{name}`" if "." not in name and random.random() < 0.2 else name for name in names]


def _literal(random: Random) -> str:
    return random.choice(_ODD if random.random() < 0.25 else _LITERALS)


def _condition(random: Random, names: list[str], depth: int) -> str:
    """A condition by the grammar."""
    if depth:
        act = random.randrange(4)
        if act == 0:
            return f"NOT ({_condition(random, names, depth - 1)})"
        word = random.choice(["AND", "OR", "and", "Or"])
        inner = [_condition(random, names, depth - 1) for _ in range(random.choice([2, 2, 3]))]
        return f" {word} ".join(f"({one})" if act > 1 else one for one in inner)
    name, act = random.choice(names), random.randrange(7)
    negated = random.choice(["", "", "NOT "])
    if act == 0:
        return f"{name} {negated}IN ({', '.join(_literal(random) for _ in range(random.choice([1, 2, 3, 200])))})"
    if act == 1:
        return f"{name} {negated}BETWEEN {_literal(random)} AND {_literal(random)}"
    if act == 2:
        return f"{name} {negated}LIKE {random.choice(_PATTERNS)}"
    if act == 3:
        return f"{name} IS {negated}NULL"
    if act == 4:
        return f"{_literal(random)} {random.choice(_OPERATORS)} {name}"
    return f"{name} {random.choice(_OPERATORS)} {_literal(random)}"


def _torn(text: str, random: Random) -> str:
    """The text with something more, less, or in another place."""
    for _ in range(random.choice([1, 1, 2, 4])):
        at = random.randrange(len(text) + 1)
        act = random.randrange(4)
        if act == 0:
            text = text[:at] + random.choice(_SCRAPS) + text[at:]
        elif act == 1:
            text = text[:at] + text[at + random.randrange(5) :]
        elif act == 2:
            text = text[:at]
        else:
            text = text[:at] + text[max(0, at - random.randrange(30)) :]
    return text
