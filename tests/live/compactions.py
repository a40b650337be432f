"""What real Hive makes of tables that acidctl has compacted: reading, writing on, compacting and cleaning them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cli.runner import acidctl
from services.hive import Hive

from acidctl.writeids import TxnListFormat, ValidTxns
from live.adopted import FIXTURES, Adopted, canonical, steps

# Hive cannot read the first at all, and the second only as a reader of its own time.
UNREADABLE = ("types_local_time_zone", "old_reader/01-old")
Adopt = Callable[[Hive, Path, str], Adopted]
OPTIONS = {"minor": ("--assume-exclusive",), "major": ()}

# What follows a compaction: each line changes rows of a table that has `id int` and `v string`.
STATEMENTS = (
    "update {t} set v = concat('after-', id) where id % 2 = 0",
    "delete from {t} where id % 3 = 0",
    "insert into {t} {columns} select id + 1000, 'again' {partition} from {t}",
    "merge into {t} using (select id + if(id % 4 = 1, 5000, 0) as sid, concat('m', id) as sv {partition} from {t} "
    "where id % 2 = 1) s on {t}.id = s.sid when matched and s.sid % 5 = 0 then delete "
    "when matched then update set v = s.sv when not matched then insert values ({values})",
)


def is_judged(step: Path) -> bool:
    """Whether this Hive can read the step's rows at all."""
    return not any(part in str(step) for part in UNREADABLE)


# With this variable set every case is read by jobs as well, and every kind of test takes every step: an hour.
SWEEP = bool(os.environ.get("ACIDCTL_SWEEP"))


def cases(engine: str, *kinds: str) -> Iterator[tuple[Path, str]]:
    """Step and kind wherever our plan for the fixture has something to do, judged by the lists of that moment."""
    for step in steps(engine):
        facts = json.loads((step / "step.json").read_text())
        lists = [part for name in ("valid_write_ids", "valid_txns") for part in ("--validtxns", facts[name])]
        for kind in kinds or ("major", "minor"):
            if is_judged(step):
                given = ("compact", kind, str(step / "table"), *lists, "--schema", facts["ddl"], *OPTIONS[kind])
                result = acidctl(*given, "-n", "-o", "json")
                plans = result.json()["partitions"] if result.code in (0, 3) else []
                if any(plan["action"] == "compact" for plan in plans):
                    yield step, kind


def label(step: Path) -> str:
    """Scenario and step."""
    return str(step.relative_to(FIXTURES))


def compact_and_read(
    hive: Hive, step: Path, kind: str, name: str, *, target: str, jobs: bool, adopt: Adopt = Adopted
) -> str:
    """Compacts a fixture's table with acidctl and reads it with Hive's readers; the outcomes, joined."""
    table = adopt(hive, step, name)
    try:
        before = table.rows()
        report = table.compact(kind, "--target", target, *OPTIONS[kind])
        outcomes = {part["outcome"] for part in report["partitions"]}
        assert "failed" not in outcomes, report
        if table.facts["hive_fault"] and table.rows() != before:
            # What Hive misreads in its own or in foreign files, it reads right in ours.
            before = sorted(canonical(line) for line in (step / "rows.jsonl").read_text().split("\n") if line)
        assert table.rows() == before, ("the row reader", report)
        if "compacted" in outcomes and jobs:
            for vectorised in (True, False):
                answer = table.rows(job=True, vectorised=vectorised)
                if answer != before:
                    # Where Hive's readers do not agree among themselves, each has to answer as before.
                    twin = adopt(hive, step, f"{name}_twin")
                    assert answer == twin.rows(job=True, vectorised=vectorised), (vectorised, report)
                    twin.drop()
        return ",".join(sorted(outcomes))
    finally:
        table.drop()


def compact_and_read_all(hive: Hive, engine: str) -> dict[tuple[str, str], str]:
    """The outcomes of `compact_and_read` by step and kind; by jobs too with every fourth."""
    return {
        (label(step), kind): compact_and_read(
            hive, step, kind, f"read_{number}", target=engine, jobs=SWEEP or number % 4 == 0
        )
        for number, (step, kind) in enumerate(cases(engine))
    }


def compare_all_with_hives_own(hive: Hive, engine: str, kind: str, names: Sequence[str]) -> dict[str, bool]:
    """What `compare_with_hives_own` says of these steps, or of all."""
    chosen = [step for step, _ in cases(engine, kind)] if SWEEP else [FIXTURES / engine / name for name in names]
    return {
        label(step): compare_with_hives_own(hive, step, kind, f"beside_{number}_{kind}", target=engine)
        for number, step in enumerate(chosen)
    }


def read_from_acid_v1(hive: Hive, step: Path, name: str, folder: Path) -> bool:
    """Whether a table of Hive 2 gets a major compaction; then Hive 3 reads its rows and row ids, as Hive 2 did."""
    facts = json.loads((step / "step.json").read_text())
    table = Path(shutil.copytree(step / "table", folder / name))
    for directory in facts["empty_directories"]:
        (table / directory).mkdir(parents=True, exist_ok=True)
    lists = ("--validtxns", facts["valid_txns"], "--list-format", "hive2", "--schema", facts["ddl"])
    result = acidctl("compact", "major", str(table), *lists, "--target", "hive3", "-o", "json")
    outcomes = {part["outcome"] for part in result.json()["partitions"]}
    assert "failed" not in outcomes, result.stdout
    # What is open on top of the base is still written as Hive 2 writes it, which Hive 3 misreads.
    if "compacted" not in outcomes or ValidTxns.parse(facts["valid_txns"], list_format=TxnListFormat.HIVE2).exceptions:
        return False
    adopted = Adopted(hive, step, name, table=table)
    try:
        expected = sorted(canonical(line) for line in (step / "rows.jsonl").read_text().split("\n") if line)
        assert adopted.rows() == expected, label(step)
    finally:
        adopted.drop()
    return True


def compare_with_hives_own(hive: Hive, step: Path, kind: str, name: str, *, target: str) -> bool:
    """Whether Hive compacts as well; then its rows, row ids and kinds of directories are those of our compaction."""
    ours = Adopted(hive, step, f"{name}_ours")
    theirs = Adopted(hive, step, f"{name}_theirs")
    try:
        before = theirs.rows()
        states = theirs.hive_compacts(kind)
        report = ours.compact(kind, "--target", target, *OPTIONS[kind])
        compacted = any(part["outcome"] == "compacted" for part in report["partitions"])
        assert ours.rows() == before
        done = [state in ("ready for cleaning", "succeeded") for state in states]
        if compacted and all(done) and theirs.rows() == before:
            made, expected = set(ours.directories()), set(theirs.directories())
            assert _kinds(made) == _kinds(expected), (sorted(made), sorted(expected))
        return compacted
    finally:
        ours.drop()
        theirs.drop()


def _kinds(names: set[str]) -> set[tuple[str, str]]:
    """Partition and kind of each directory; how far the names reach differs between Hive's compactors."""
    return {(name.rpartition("/")[0], name.rpartition("/")[2].rpartition("delta_")[0] or name[:4]) for name in names}


def live_on(hive: Hive, step: Path, kind: str, name: str, *, target: str, adopt: Adopt = Adopted) -> None:
    """Hive goes on with our compaction as with the table it was: the same statements, the same rows, to the end.

    Into which bucket of an unbucketed table Hive puts a new row depends on the files there; so values are compared.
    """
    # Hive 3.1.3 writes the deletes of one bucket of an unbucketed table into files of several; its own minor compaction
    # then keeps them in several, and its readers refuse that ("Two readers for"), whoever compacted before.
    breaks_itself = target == "hive3" and "unbucketed" in str(step)
    afterwards = ("major",) if breaks_itself else ("minor", "major")
    ours = adopt(hive, step, f"{name}_ours")
    twin = adopt(hive, step, f"{name}_twin")
    try:
        report = ours.compact(kind, "--target", target, *OPTIONS[kind])
        assert any(part["outcome"] == "compacted" for part in report["partitions"]), report
        assert ours.rows() == twin.rows()
        for statement in STATEMENTS:
            for table in (ours, twin):
                hive.run(filled(statement, table))
            assert ours.values() == twin.values(), statement
        for again in afterwards:
            ids = ours.rows()
            ours.hive_compacts(again)
            assert ours.rows() == ids, f"after Hive's {again}"
            hive.clean()
            assert ours.rows() == ids, f"after cleaning Hive's {again}"
        assert ours.values(job=True, vectorised=True) == twin.values(job=True, vectorised=False)
    finally:
        ours.drop()
        twin.drop()


def filled(statement: str, table: Adopted) -> str:
    columns = [column.split() for column in table.facts["columns"].split(",")]
    partition = [column.split()[0] for column in table.facts["partition_columns"].split(",") if column.strip()]
    known = {"id": "s.sid", "v": "s.sv"}
    # Hive 3 takes no list of columns here, so that every column is given a value.
    values = [known.get(name, f"cast(null as {kind})") for name, kind in columns] + [f"s.{name}" for name in partition]
    return statement.format(
        t=table.name,
        columns=f"({', '.join(('id', 'v', *partition))})",
        partition="".join(f", {name}" for name in partition),
        values=", ".join(values),
    )
