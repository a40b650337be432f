"""Cases over lists of valid write ids and transactions: legal ones of all Hive versions, mutated.

A model knows the rows of every snapshot, and the meaning of a text is taken from a parser of its own, written after
Hive's. What acidctl accepts without a warning has to mean what Hive takes it for.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from acidctl.compaction.plan import Target
from tests.support.fuzz.bench import Bench, Finding, difference, warned
from tests.support.written_table import Fate, Ids, Reader, Work, WrittenTable

MAX = 9223372036854775807
# What tables are called decides about nothing that is read; commands that change data take a plain name.
_TABLE = re.compile(r"[^\s:$]+")
_PLAIN = re.compile(r"[^'\"=]+")
EVERYTHING = Ids(MAX, frozenset(), frozenset())


@dataclass(frozen=True)
class Lived:
    """A table with the snapshots that readers took while it was written."""

    model: WrittenTable
    readers: tuple[Reader, ...]


@cache
def _tables() -> list[Lived]:
    folder = Path(tempfile.mkdtemp(prefix="lists"))
    return [_live(folder / str(seed), seed) for seed in range(6)]


def _live(root: Path, seed: int) -> Lived:
    """Inserts, changes, aborts, and some that stay open."""
    random = Random(seed)
    shutil.rmtree(root, ignore_errors=True)
    # The directory is called like the table.
    root = root / "t"
    root.mkdir(parents=True)
    table = WrittenTable(root, random.choice(list(Target)), bucketed=bool(seed % 2))
    readers = []
    for _ in range(9):
        txn = table.begin(Work.WRITE)
        if random.random() < 0.6 or not table.change(txn, [random.randrange(50)], update=random.random() < 0.5):
            table.insert(txn, random.randint(1, 3), 2)
        txn.fate = random.choice([Fate.COMMITTED] * 5 + [Fate.ABORTED, Fate.OPEN])
        readers.append(table.reader())
    return Lived(table, tuple(readers))


def case(bench: Bench, random: Random) -> None:
    """One list, mostly mutated, through a command."""
    lived = random.choice(_tables())
    root = lived.model.root
    reader = random.choice(lived.readers)
    write_ids, txns = _write_ids(reader.write_ids, random), _txns(reader.txns, random)
    form = random.choice(["hive3", "hive4", "hive4", "pair", "context", "split", "hive2"])
    texts = {
        "pair": [write_ids, txns],
        "context": [f"{reader.txns.top}${write_ids}${'default.other:7:7:7:'}"],
        "split": [f"{write_ids}\n{txns}"],
    }.get(form, [write_ids])
    if random.random() < 0.9:
        place = random.randrange(len(texts))
        texts[place] = _mutated(texts[place], random)
    args = [option for text in texts for option in ("--validtxns", text)]
    if form == "hive2":
        # A list of that Hive mixes open and aborted ids.
        args += ["--list-format", random.choice(["hive2", "hive3", "hive4"])]
    if random.random() < 0.2:
        args += ["--table", random.choice(["default.t", "default.other", "t", "", "x.y.z", "default.T"])]
    bench.say(f"reader {reader.write_ids}, {reader.txns}")
    act = random.random()
    if act < 0.55:
        result, rows = bench.rows(root, *args, "--schema", "n bigint, s string", "--table-type", "full")
        if result.code == 0 and not warned(result) and "hive2" not in args:
            # Whoever names another table takes the directory for that.
            _judge(lived, texts, rows, ".other" if "default.other" in args else ".t")
    elif act < 0.8:
        bench.run("ls", str(root), "-o", random.choice(["json", "text", "csv"]), *args)
    elif act < 0.92:
        result = bench.run("compact", random.choice(["major", "minor"]), str(root), "-n", "-o", "json", *args)
        if result.code == 0 and not {"hive2", "--table"} & set(args):
            _judge_plan(texts, result.json(), reader)
    else:
        bench.run("clean", str(root), "-o", "json", *args)


def _write_ids(ids: Ids, random: Random) -> str:
    return f"{random.choice(['default.t', 'default.t', 'null'])}:{ids.text()}"


def _txns(ids: Ids, random: Random) -> str:
    return ids.text()


# --- mutations

_PIECES = [
    ":",
    "::",
    ",",
    "$",
    "-",
    " ",
    "\n",
    "\t",
    "\0",
    "'",
    '"',
    "0",
    "1",
    "5",
    "9",
    "x",
    "null",
    "default.t",
    "é",
    "",
]
_PIECES += ["9223372036854775807", "9223372036854775808", "-1", "99999999999999999999", "1-3", "3-1", "1-999999999999"]
_PREFIXES = [
    "hive.txn.valid.txns=",
    "hive.txn.tables.valid.writeids=",
    "set ",
    "'",
    '"',
    " ",
    "\ufeff",
    "17$",
    "-",
    "@",
]


def _mutated(text: str, random: Random) -> str:
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        text = _mutate(text, random)
    return text


def _mutate(text: str, random: Random) -> str:
    act = random.randrange(12)
    at = random.randrange(len(text) + 1)
    fields = text.split(":")
    if act == 0:
        return text[:at]
    if act == 1:
        return text[:at] + random.choice(_PIECES) + text[at:]
    if act == 2:
        return text[:at] + text[at + 1 :]
    if act == 3:
        return random.choice(_PREFIXES) + text
    if act == 4:
        return text + random.choice([*_PIECES, "\n", "\r\n", ":", "'"])
    if act == 5:
        place = random.randrange(len(fields))
        fields[place] = random.choice([*_PIECES, str(random.randrange(12)), ",".join("123456"), "2-6"])
        return ":".join(fields)
    if act == 6 and len(fields) > 1:
        del fields[random.randrange(len(fields))]
        return ":".join(fields)
    if act == 7 and len(fields) > 1:
        first, second = random.randrange(len(fields)), random.randrange(len(fields))
        fields[first], fields[second] = fields[second], fields[first]
        return ":".join(fields)
    if act == 8:
        return text[:at] + random.choice(["\n", "\n  ", "\r\n", " \n"]) + text[at:]
    if act == 9:
        numbers = list(re.finditer(r"[0-9]+", text))
        if numbers:
            match = random.choice(numbers)
            return text[: match.start()] + str(random.randrange(14)) + text[match.end() :]
    if act == 10:
        return random.choice(["'{}'", '"{}"', "{};", "({})", "hive> {}", "| {} |", "{}{}", "{}\n{}", "{},"]).replace(
            "{}", text
        )
    return text.upper() if random.random() < 0.5 else text.replace(":", random.choice([" : ", ";", "::"]))


# --- what Hive takes a text for


def _numbers(text: str) -> frozenset[int] | None:
    """Ids between commas, and ranges (Hive 4)."""
    found: set[int] = set()
    for part in text.split(","):
        if not part:
            continue
        match = re.fullmatch(r"([0-9]{1,6})-([0-9]{1,6})", part)
        if match and int(match[1]) <= int(match[2]):
            found.update(range(int(match[1]), int(match[2]) + 1))
        elif re.fullmatch(r"-?[0-9]{1,19}", part):
            found.add(int(part))
        else:
            return None
    return frozenset(found)


def meaning(text: str) -> Ids | None:
    """What Hive reads in a whole list of write ids (`table:watermark:lowest open:open:aborted`); None for none."""
    fields = text.split(":")
    if len(fields) != 5 or not all(re.fullmatch(r"[0-9]{1,19}", field) for field in fields[1:3]):
        return None
    opened, aborted = _numbers(fields[3]), _numbers(fields[4])
    if opened is None or aborted is None:
        return None
    return Ids(int(fields[1]), opened, aborted - opened)


def txn_meaning(text: str) -> Ids | None:
    """The same of a list of transactions (`watermark:lowest open:open:aborted`)."""
    return meaning(f"x:{text}")


def _lists(texts: list[str], table: str = ".t") -> tuple[Ids | None, Ids | None, bool]:
    """Write ids of a table and transactions of texts as they are, and whether anything else is among them."""
    ids = txns = None
    strange = False
    for text in texts:
        # Editors put a mark in front of what they save.
        for line in re.split(r"[\r\n]+", text.strip().removeprefix("\ufeff")):
            line = line.strip()
            if not line:
                continue
            if re.match(r"[0-9]+:", line) and txns is None:
                txns = txn_meaning(_trimmed(line, 4))
                strange = strange or txns is None
                continue
            bare = re.sub(r"^-?[0-9]+\$", "", line)
            tables = [part for part in bare.split("$") if _TABLE.fullmatch(part.split(":")[0])]
            # Of several tables the one is meant that the directory is called after.
            tables = [
                part for part in tables if len(tables) == 1 or part.lower().split(":")[0].endswith(table)
            ] or tables
            if len(tables) != 1 or ids is not None:
                strange = True
                continue
            ids = meaning(_trimmed(tables[0], 5))
            strange = strange or ids is None
    return ids, txns, strange


def _trimmed(text: str, wanted: int) -> str:
    """Without empty fields beyond those that a list has: Java's split drops them."""
    fields = text.split(":")
    while len(fields) > wanted and not fields[-1]:
        fields.pop()
    return ":".join(fields)


def _judge(lived: Lived, texts: list[str], rows: list[str], table: str) -> None:
    ids, txns, strange = _lists(texts, table)
    # Transactions decide about compacted directories alone, of which there are none here.
    strange = strange and ids is None
    if ids is None and txns is not None:
        ids = EVERYTHING  # A note says so.
    if ids is None or strange:
        raise Finding(f"taken without a warning, and it is no list of Hive's: {texts}")
    wanted = lived.model.visible(Reader("", ids, ids))
    form = sorted(
        f'{{"ROW__ID":{{"writeid":{k[0]},"bucketid":{k[1]},"rowid":{k[2]}}},"n":{v[0]},"s":"{v[1]}"}}'
        for k, v in wanted.items()
    )
    found = [row for row in rows if row]
    if form != found:
        raise Finding(f"other rows than those of {ids}: {difference(form, found)}")


def _judge_plan(texts: list[str], plan: dict[str, object], reader: Reader) -> None:
    """Commands that change data take whole lists only."""
    ids, _, strange = _lists(texts)
    strange = strange or not all(_PLAIN.fullmatch(text) for text in texts)
    if ids is None or strange:
        raise Finding(f"a compaction takes it, and it is no list of Hive's: {texts}")
    said = str(plan["write_ids"])
    found = meaning(said)
    if found is None or (found.top, found.open, found.aborted) != (ids.top, ids.open, ids.aborted):
        raise Finding(f"the plan goes by {said!r}, the text means {ids}")
