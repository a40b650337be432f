"""What real Hive makes of tables that acidctl has compacted: reading, writing on, compacting and cleaning them."""

from __future__ import annotations

import json
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path

from pyarrow import orc

from acidctl.format.names import is_hidden
from acidctl.format.write_ids import TxnListFormat, ValidTxns
from tests.cli.runner import acidctl
from tests.live.adopted import FIXTURES, Adopted, hive_rows, steps
from tests.services.hive import Hive, HiveError
from tests.support.covering import chosen, features
from tests.support.evolved import dropped_columns
from tests.support.extent import SAMPLE, SWEEP, some
from tests.support.steps import Step

# Hive cannot read the first at all, and the second only as a reader of its own time.
UNREADABLE = ("types_local_time_zone", "old_reader/01-old")
# Parquet moments that nanoseconds since 1970 cannot hold: acidctl says so and leaves these files to Hive.
NOT_JOINED = "insert_only_parquet/01-inserted"
Adopt = Callable[[Hive, Path, str], Adopted]
OPTIONS = {"minor": ("--assume-exclusive",), "major": ()}


SAME = "the same"
FAILED = "failed"
LOG = logging.getLogger(__name__)


def is_judged(step: Path) -> bool:
    """Whether this Hive can read the step's rows at all, and acidctl write them."""
    return not any(part in str(step) for part in (*UNREADABLE, NOT_JOINED))


def cases(engine: str, *kinds: str) -> Iterator[tuple[Path, str]]:
    """Step and kind wherever our plan for the fixture has something to do, judged by the lists of that moment."""
    for step in steps(engine):
        facts = json.loads((step / "step.json").read_text())
        lists = [part for name in ("valid_write_ids", "valid_txns") for part in ("--validtxns", facts[name])]
        for kind in kinds or ("major", "minor"):
            if is_judged(step):
                given = ("compact", kind, str(step / "table"), *lists, "--schema", facts["ddl"], *OPTIONS[kind])
                given += ("--target", engine, *dropped_columns(step, engine))
                result = acidctl(*given, "-n", "-o", "json")
                plans = result.json()["partitions"] if result.code in (0, 3) else []
                if any(plan["action"] == "compact" for plan in plans):
                    yield step, kind


def these_or_all(engine: str, these: Sequence[str]) -> Sequence[str]:
    """These cases, as `hive4/bucketed/02-changed major`; half of them in a sample, all there are in a sweep."""
    if SWEEP:
        return [f"{label(step)} {kind}" for step, kind in cases(engine)]
    return some(these, one_of=2)


def label(step: Path) -> str:
    """Scenario and step."""
    return str(step.relative_to(FIXTURES))


def compact_alike(table: Adopted, step: Path, kind: str, target: str) -> dict[str, str]:
    """Compacts it with acidctl, which changes nothing of what Hive's row reader answers; outcomes by partition."""
    before = table.rows()
    report = table.compact(kind, "--target", target, *OPTIONS[kind], *dropped_columns(step, target))
    outcomes = {part["partition"]: part["outcome"] for part in report["partitions"]}
    assert "failed" not in outcomes.values(), report
    if table.facts["hive_fault"] and table.rows() != before:
        # What Hive misreads in its own or in foreign files, it reads right in ours.
        before = hive_rows(step)
    assert table.rows() == before, ("the row reader", report)
    return outcomes


def compact_and_read(
    hive: Hive, step: Path, kind: str, name: str, *, target: str, jobs: bool, adopt: Adopt = Adopted
) -> str:
    """Compacts a fixture's table with acidctl and reads it with Hive's readers; the outcomes, joined."""
    table = adopt(hive, step, name)
    try:
        outcomes = set(compact_alike(table, step, kind, target).values())
        if "compacted" in outcomes and jobs:
            expected = table.rows()
            for vectorised in (True, False):
                answer = table.rows(job=True, vectorised=vectorised)
                if answer != expected:
                    # Where Hive's readers do not agree among themselves, each has to answer as before.
                    twin = adopt(hive, step, f"{name}_twin")
                    assert answer == twin.rows(job=True, vectorised=vectorised), vectorised
                    twin.drop()
        return ",".join(sorted(outcomes))
    finally:
        table.drop()


def chosen_cases(engine: str, *, each_scenario: bool = True) -> list[tuple[Path, str]]:
    """As few as meet every two values of what matters, and each scenario but in a sample; all in a sweep."""
    found = [(Step(step), kind) for step, kind in cases(engine)]
    if not SWEEP:
        each = each_scenario and not SAMPLE
        found = chosen(
            found, lambda case: {**features(case[0]), "kind": case[1]}, lambda case: each and case[0].scenario
        )
    return [(step.folder, kind) for step, kind in found]


def compact_and_read_chosen(hive: Hive, engine: str) -> dict[tuple[str, str], str]:
    """The outcomes of `compact_and_read` by step and kind; by jobs too with every fourth."""
    return {
        (label(step), kind): attempt(
            f"{label(step)} {kind}",
            partial(compact_and_read, hive, step, kind, f"read_{number}", target=engine, jobs=SWEEP or number % 4 == 0),
        )
        for number, (step, kind) in enumerate(chosen_cases(engine))
    }


def compare_all_with_hives_own(hive: Hive, engine: str, kind: str, names: Sequence[str]) -> dict[str, str]:
    """What `compare_with_hives_own` says of these steps, or of all."""
    chosen = [step for step, _ in cases(engine, kind)] if SWEEP else [FIXTURES / engine / name for name in names]
    return {
        label(step): attempt(
            f"{label(step)} {kind}",
            partial(compare_with_hives_own, hive, step, kind, f"beside_{number}_{kind}", target=engine),
        )
        for number, step in enumerate(chosen)
    }


def attempt(case: str, judge: Callable[[], str]) -> str:
    """What `judge` says, or how it failed: one case must not end a sweep of an hour. Logs the case and its time."""
    started = time.monotonic()
    try:
        outcome = judge()
    except (AssertionError, HiveError) as error:
        outcome = f"{FAILED}: {error}"
    LOG.info("%s: %s (%.0f s)", case, outcome, time.monotonic() - started)
    return outcome


def read_from_acid_v1(hive: Hive, step: Path, name: str, folder: Path) -> bool:
    """Whether a table of Hive 2 gets a major compaction; then Hive 3 reads its rows and row ids, as Hive 2 did."""
    facts = json.loads((step / "step.json").read_text())
    table = Path(shutil.copytree(step / "table", folder / name))
    for directory in facts["empty_directories"]:
        (table / directory).mkdir(parents=True, exist_ok=True)
    lists = ("--validtxns", facts["valid_txns"], "--list-format", "hive2", "--schema", facts["ddl"])
    dropped = dropped_columns(step, "hive3")
    result = acidctl("compact", "major", str(table), *lists, "--target", "hive3", "-o", "json", *dropped)
    outcomes = {part["outcome"] for part in result.json()["partitions"]}
    assert "failed" not in outcomes, result.stdout
    # What is open on top of the base is still written as Hive 2 writes it, which Hive 3 misreads.
    if "compacted" not in outcomes or ValidTxns.parse(facts["valid_txns"], list_format=TxnListFormat.HIVE2).exceptions:
        return False
    adopted = Adopted(hive, step, name, table=table)
    try:
        assert adopted.rows() == hive_rows(step), label(step)
    finally:
        adopted.drop()
    return True


def went_well(states: Set[str]) -> bool:
    """Whether Hive compacted, by the states in SHOW COMPACTIONS; it refuses a partition that has nothing for it."""
    done = {"ready for cleaning", "succeeded"}
    return bool(done & states) and states <= done | {"refused"}


def compare_with_hives_own(hive: Hive, step: Path, kind: str, name: str, *, target: str) -> str:
    """`SAME`: rows, row ids and kinds of directories are those of Hive's own compaction; or why that is not judged."""
    ours = Adopted(hive, step, f"{name}_ours")
    theirs = Adopted(hive, step, f"{name}_theirs")
    try:
        before, inputs = theirs.rows(), set(theirs.directories())
        states = set(theirs.hive_compacts(kind))
        outcomes = compact_alike(ours, step, kind, target)
        if "compacted" not in outcomes.values():
            return "nothing to do"
        if not went_well(states):
            return f"Hive's own ended as {', '.join(sorted(states))}"
        broken = _fault(theirs, before)
        if broken:
            return f"Hive's own {broken}"
        made, expected = set(ours.directories()), set(theirs.directories())
        if target == "hive3":
            expected -= {name for name in expected - inputs if _needless(theirs, name, outcomes)}
        assert _kinds(made) == _kinds(expected), (sorted(made), sorted(expected))
        return SAME
    finally:
        ours.drop()
        theirs.drop()


def _fault(theirs: Adopted, before: Sequence[str]) -> str:
    """How a table is misread after Hive's own compaction; empty when it is not."""
    try:
        return "" if theirs.rows() == before else "changed the rows"
    except HiveError as error:
        # Hive 3.1.3 writes the deletes of an unbucketed table into one file for each file of inserts.
        if "Two readers for" not in str(error):
            raise
        return "cannot be read any more"


def _needless(theirs: Adopted, name: str, outcomes: Mapping[str, str]) -> bool:
    """Whether Hive 3.1.3 made a directory that neither Hive 4 nor acidctl would have made.

    Its minor always writes two, one of them without rows where there are no deletes or no inserts: two renames where
    one would do. It also rewrites a single delta, in which there is nothing to be merged (HIVE-21266).
    """
    partition, _, directory = name.rpartition("/")
    if outcomes[partition] == "nothing_to_do":
        return True
    files = [file for file in (theirs.folder / name).iterdir() if not is_hidden(file.name)]
    return "delta_" in directory and not any(orc.ORCFile(file).nrows for file in files)


def _kinds(names: set[str]) -> set[tuple[str, str]]:
    """Partition and kind of each directory; how far the names reach differs between Hive's compactors."""
    parts = [name.rpartition("/") for name in names]
    return {(partition, re.sub(r"-?\d.*", "", name)) for partition, _, name in parts}
