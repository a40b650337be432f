"""Unions in many layouts of memory, written by the exact backend; a program of its own, which may end badly.

Prints how many layouts were tried, and how many came back as they were given or were refused as they have to be.
"""

from __future__ import annotations

import random
import sys

import pyarrow as pa
from orc.events import EventBatch, keys, read_all, written
from orc.test_writer import check, columns_of, union

from acidctl.errors import AcidctlError
from acidctl.orc.writer import Backend

LAYOUTS = 50
# Each kind of first alternative: NULL unions were counted as values of the first.
KINDS = {
    "uniontype<int,string>": [(0, 5), (1, "x" * 40), (1, "")],
    "uniontype<string,int>": [(0, "yy"), (1, 7), (0, "")],
    "uniontype<array<string>,double>": [(0, ["a", None, "b" * 30]), (0, [])],
    "uniontype<binary,decimal(30,2),boolean>": [(0, b"\x00" * 20), (0, b"")],
    "uniontype<map<string,int>,bigint>": [(0, [("k", 1)]), (0, [])],
}


def refused(text: str, array: pa.Array) -> bool:
    """Whether nothing is written."""
    try:
        check(text, [array], Backend.EXACT)
    except AcidctlError:
        return True
    return False


def layout(number: int, chance: random.Random) -> bool:
    """One layout: whether it went as it must."""
    kind, values = list(KINDS.items())[number % len(KINDS)]
    junk = [bytes(chance.randrange(1, 5000)) for _ in range(chance.randrange(50))]
    rows = [chance.choice(values) for _ in range(chance.randrange(1, 100))]
    junk = junk[::2]
    holes = [None if chance.random() < 0.3 else row for row in rows] + [None]
    held = pa.array([chance.random() < 0.3 for _ in rows] + [True])
    whole = union(kind, [*rows, rows[0]])
    structs = pa.StructArray.from_arrays([whole], ["u"], mask=held)
    lists = pa.ListArray.from_arrays(pa.array(range(len(rows) + 1), pa.int32()), union(kind, rows))
    maps = pa.MapArray.from_arrays(lists.offsets, pa.array(range(len(rows)), pa.int32()), lists.values)
    deletes = EventBatch(keys(len(rows), operation=2))
    text = f"struct<u:{kind},l:array<{kind}>,s:struct<u:{kind}>,i:int>"
    data, _ = written([deletes], columns_of(text), backend=Backend.EXACT)
    good = [row["row"] for row in read_all(data)] == [None] * len(rows)
    check(f"struct<u:{kind}>", [union(kind, rows)], Backend.EXACT)
    return good and all(
        refused(f"struct<c:{column}>", array)
        for column, array in (
            (kind, union(kind, holes)),
            (f"struct<u:{kind}>", structs),
            (f"array<{kind}>", lists),
            (f"map<int,{kind}>", maps),
        )
    )


def main() -> None:
    """All layouts of one seed."""
    chance = random.Random(int(sys.argv[1]))
    good = [layout(number, chance) for number in range(LAYOUTS)]
    print(len(good), sum(good))


if __name__ == "__main__":
    main()
