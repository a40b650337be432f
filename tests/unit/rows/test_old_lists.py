"""Lists older than a compaction whose inputs are gone: an error, and never fewer or more rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from acidctl import open_table
from acidctl.by_name import Metastore, NamedTable
from acidctl.cleaning.report import Outcome as CleanOutcome
from acidctl.compaction.plan import Target
from acidctl.compaction.report import Outcome
from acidctl.errors import ExitCode, NotEnoughHistoryError
from acidctl.format.write_ids import ValidTxns, ValidWriteIds
from acidctl.metastore.catalog import Lists, TableInfo, TableName
from tests.cli.runner import acidctl
from tests.support.aged_table import AgedTable, Fate, Reader, Work
from tests.support.steps import STEPS, Step
from tests.support.written_table import COLUMNS

FULL, INSERT_ONLY = "full", "insert-only"
Removal = Callable[[AgedTable], object]


def table(root: Path, kind: str = FULL, target: Target = Target.HIVE4) -> AgedTable:
    """An empty table."""
    root.mkdir(parents=True, exist_ok=True)
    return AgedTable(root, target, bucketed=True, insert_only=kind == INSERT_ONLY)


def insert(one: AgedTable, count: int = 2) -> None:
    """A write that is committed."""
    txn = one.begin(Work.WRITE)
    one.add(txn, count, 1)
    txn.fate = Fate.COMMITTED


def change(one: AgedTable, *picks: int, update: bool = False) -> None:
    """DELETE or UPDATE of the rows in these places."""
    txn = one.begin(Work.WRITE)
    assert one.change(txn, picks, update=update)
    txn.fate = Fate.COMMITTED


def compact(one: AgedTable, *, major: bool, fate: Fate = Fate.COMMITTED) -> str:
    """An output of what is committed now; its name."""
    made = one.compact(Random(1), major=major, fate=fate)
    assert made is not None
    return made.name


def remove(one: AgedTable, *patterns: str) -> None:
    """What a cleaner has removed so far."""
    for pattern in patterns:
        found = list(one.root.glob(pattern))
        assert found, pattern
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def rows(root: Path, reader: Reader, kind: str = FULL, **how: Any) -> list[tuple[Any, ...]]:
    """What acidctl reads, by rows and by parts for other processes."""
    snapshot = open_table(str(root)).snapshot(validtxns=reader.lists(), table_type=kind, schema=COLUMNS, **how)
    found = snapshot.to_table(["n", "s"]).to_pylist()
    assert snapshot.count() == len(found)
    return sorted((row["n"], row["s"]) for row in found)


def wanted(one: AgedTable, reader: Reader) -> list[tuple[Any, ...]]:
    """What the model knows."""
    return sorted(one.visible(reader).values())


# Of a table with three inserts, a delete and an update, which a reader has seen: what a cleaner has removed, and a part
# of what the error says. Names tell, or tails, or keys.
GONE = {
    "all": (
        ["delta_*[0-9]_0000", "delta_*[0-9]_0001", "delete_*_0000"],
        "nothing else here holds any of write ids 1..5",
    ),
    "one insert": (["delta_0000002_*"], "holds rows of write id 2 that nothing else here holds"),
    "the newest insert": (["delta_0000005_*"], "holds rows of write id 5 that nothing else here holds"),
    "an update": (["delta_0000005_*", "delete_delta_0000005_*"], "holds rows of write id 5 that nothing else here"),
    "a delete": (["delete_delta_0000004_*"], "4"),
    "the deletes": (["delete_delta_*_0000"], "delete"),
    "the inserts": (["delta_*_000[01]"], "holds rows of write id 1 that nothing else here holds"),
}


def written(root: Path, target: Target = Target.HIVE4) -> AgedTable:
    """Write ids 1 to 5 of which 4 deletes and 5 updates."""
    one = table(root, target=target)
    for _ in range(3):
        insert(one)
    change(one, 1)
    change(one, 3, update=True)
    return one


@pytest.mark.parametrize("profile", ["strict", "hive4"])
@pytest.mark.parametrize("major", [True, False])
@pytest.mark.parametrize("gone", GONE)
def test_an_output_proves_that_inputs_are_gone(tmp_path: Path, gone: str, major: bool, profile: str) -> None:
    """Bases and minors, whatever a cleaner has removed by now; before it has begun the rows are given."""
    one = written(tmp_path / "t")
    reader = one.reader()
    before = sorted(path.name for path in one.root.iterdir())
    name = compact(one, major=major)
    assert rows(one.root, reader, profile=profile) == wanted(one, reader)
    patterns, words = GONE[gone]
    outputs = [path for path in one.root.iterdir() if path.name not in before]
    held = tmp_path / "held"
    held.mkdir()
    for path in outputs:
        path.rename(held / path.name)
    remove(one, *patterns)
    for path in outputs:
        (held / path.name).rename(path)
    with pytest.raises(NotEnoughHistoryError) as caught:
        rows(one.root, reader, profile=profile)
    assert name in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint is not None
    assert "newer lists" in caught.value.hint
    assert caught.value.path == str(one.root)
    assert rows(one.root, one.reader(), profile=profile) == wanted(one, one.reader())


def test_more_rows_than_right_are_refused_as_well(tmp_path: Path) -> None:
    """The delete is gone, and the rows that it deleted are still there."""
    one = table(tmp_path / "t")
    insert(one, 4)
    change(one, 0)
    reader = one.reader()
    compact(one, major=True)
    remove(one, "delete_delta_*")
    with pytest.raises(
        NotEnoughHistoryError, match=r"base_0000002_v\d+: it does not hold the row 1,\d+,0, and the delete"
    ):
        rows(one.root, reader)


@pytest.mark.parametrize("target", Target)
def test_a_base_beyond_the_lists_is_such_an_output(tmp_path: Path, target: Target) -> None:
    """A lower base can be read; of the deltas between it and the newer one, one is gone."""
    one = table(tmp_path / "t", target=target)
    insert(one)
    insert(one)
    compact(one, major=True)
    insert(one)
    insert(one)
    reader = one.reader()
    insert(one)
    name = compact(one, major=True)
    assert rows(one.root, reader) == wanted(one, reader)
    remove(one, "delta_0000003_*")
    with pytest.raises(NotEnoughHistoryError, match=f"{name}: it holds rows of write id 3"):
        rows(one.root, reader)


def test_a_row_that_was_deleted_later_is_missed_as_well(tmp_path: Path) -> None:
    """The output no longer holds it; the delete, which the lists do not show, names it."""
    one = table(tmp_path / "t")
    insert(one)
    insert(one, 1)
    reader = one.reader()
    change(one, 2)
    compact(one, major=True)
    assert rows(one.root, reader) == wanted(one, reader)
    remove(one, "delta_0000002_*")
    with pytest.raises(NotEnoughHistoryError, match="a later delete is of a row that nothing else here holds"):
        rows(one.root, reader)


def test_what_nobody_can_tell_is_refused(tmp_path: Path) -> None:
    """All that the reader saw was deleted later, and neither is left; only a still later write is."""
    one = table(tmp_path / "t")
    insert(one)
    reader = one.reader()
    change(one, 0, 1)
    insert(one)
    compact(one, major=True)
    remove(one, "delta_0000001_*", "delete_delta_*")
    with pytest.raises(
        NotEnoughHistoryError, match="nothing of write id 1 is left, and whether there was any is not known"
    ):
        rows(one.root, reader)


@pytest.mark.parametrize("major", [True, False])
@pytest.mark.parametrize("gone", ["delta_0000002_*", "delta_*_0000"])
def test_insert_only_tables(tmp_path: Path, gone: str, major: bool) -> None:
    """Rows carry no write ids there: they are counted."""
    one = table(tmp_path / "t", INSERT_ONLY)
    for _ in range(3):
        insert(one)
    reader = one.reader()
    insert(one)
    name = compact(one, major=major)
    assert rows(one.root, reader, INSERT_ONLY) == wanted(one, reader)
    remove(one, gone)
    with pytest.raises(NotEnoughHistoryError, match=name):
        rows(one.root, reader, INSERT_ONLY)


def test_an_insert_only_delta_with_writes_that_the_lists_do_not_show(tmp_path: Path) -> None:
    """It is read whole or not at all; Hive 3 gives its compactions no transaction."""
    one = table(tmp_path / "t", INSERT_ONLY, Target.HIVE3)
    insert(one)
    reader = one.reader()
    insert(one)
    name = compact(one, major=False)
    with pytest.raises(NotEnoughHistoryError, match=f"{name}: it also holds write id 2"):
        rows(one.root, reader, INSERT_ONLY)
    assert rows(one.root, one.reader(), INSERT_ONLY) == wanted(one, one.reader())


def partitioned(root: Path) -> tuple[AgedTable, AgedTable, Reader]:
    """Two partitions whose writes alternate, the first with an output that the reader does not know."""
    first, second = table(root / "p=1"), table(root / "p=2")
    for _ in range(3):
        for one, other in ((first, second), (second, first)):
            insert(one)
            other.gap()
    reader = first.reader()
    compact(first, major=True)
    return first, second, reader


def test_one_partition_of_several(tmp_path: Path) -> None:
    """Write ids have gaps there; the other partition can still be read."""
    root = tmp_path / "t"
    first, second, reader = partitioned(root)
    assert rows(root, reader) == sorted(wanted(first, reader) + wanted(second, reader))
    remove(first, "delta_0000003_*")
    with pytest.raises(NotEnoughHistoryError, match="holds rows of write id 3") as caught:
        rows(root, reader)
    assert caught.value.path == str(first.root)
    assert rows(root, reader, partitions=["p=2"]) == wanted(second, reader)


# --- what is no such thing


def test_whatever_happens_before_a_cleaner_begins(tmp_path: Path) -> None:
    """Outputs that nobody sees yet, one after another, over all that a table may hold."""
    one = table(tmp_path / "t")
    one.originals(4)
    readers = [one.reader()]
    for step in range(3):
        insert(one)
        aborted = one.begin(Work.WRITE)
        one.add(aborted, 2, 1)
        aborted.fate = Fate.ABORTED
        one.gap()
        load = one.begin(Work.WRITE)
        one.load(load, 2, 1)
        load.fate = Fate.COMMITTED
        readers.append(one.reader())
        change(one, 2 * step, update=True)
        change(one, step, 5)
        readers.append(one.reader())
        compact(one, major=step > 0, fate=Fate.COMMITTED if step else Fate.ABORTED)
        readers.append(one.reader())
    for reader in readers:
        assert rows(one.root, reader) == wanted(one, reader)


def test_a_compaction_that_is_at_work(tmp_path: Path) -> None:
    """Hive's query-based compactor makes the directory first, and fills it in the end; what was crashed stays so."""
    one = written(tmp_path / "t")
    reader = one.reader()
    (one.root / "base_0000005_v0000099/.hive-staging_1").mkdir(parents=True)
    (one.root / "delta_0000001_0000005_v0000099").mkdir()
    assert rows(one.root, reader) == wanted(one, reader)
    (one.root / "base_0000005_v0000099/bucket_00000").write_bytes(b"ORC and no tail")
    assert rows(one.root, reader) == wanted(one, reader)


def test_a_later_write_that_is_at_work(tmp_path: Path) -> None:
    """Its files have no end yet; the output was made before."""
    one = written(tmp_path / "t")
    reader = one.reader()
    insert(one)
    compact(one, major=True)
    for name in ("delta_0000007_0000007_0000", "delete_delta_0000007_0000007_0000"):
        (one.root / name).mkdir()
        (one.root / name / "bucket_00000_0").write_bytes(b"ORC and no tail")
    assert rows(one.root, reader) == wanted(one, reader)


def test_an_output_named_after_more_than_it_holds(tmp_path: Path) -> None:
    """The query-based compactor leaves a streaming batch as it is, and names its output after a part of it."""
    one = table(tmp_path / "t")
    insert(one)
    batch = one.open_batch(2)
    one.stream(batch, 2, Fate.COMMITTED, 1)
    reader = one.reader()
    place = one.root / "base_0000002_v0000009"
    shutil.copytree(one.root / "delta_0000001_0000001_0000", place)
    assert rows(one.root, reader) == wanted(one, reader)


def test_a_later_overwrite_proves_nothing(tmp_path: Path) -> None:
    """What it replaced is in no output; that parts of it may be gone is said as before."""
    one = table(tmp_path / "t")
    insert(one)
    insert(one)
    reader = one.reader()
    txn = one.begin(Work.OVERWRITE)
    one.overwrite(txn, 1, 1)
    txn.fate = Fate.COMMITTED
    insert(one)
    compact(one, major=True)
    assert rows(one.root, reader) == wanted(one, reader)
    warnings = open_table(str(one.root)).snapshot(validtxns=reader.lists(), table_type=FULL).warnings
    assert any("base_0000003 overwrote later" in text for text in warnings)


def answer(lists: Step, place: Step) -> tuple[int, str] | None:
    """Rows and digest of a step by the lists of another one; None for missing history."""
    try:
        return open_table(str(place.table)).snapshot(**lists.view).count_and_digest()
    except NotEnoughHistoryError:
        return None


# What Hive cleaned up in a later step, or compacted alone.
SCENARIOS = {
    "hive4/bucketed": 16,
    "hive4/converted_unbucketed": 2,
    "hive4/insert_only_partitioned": 1,
    "hive4/load_data": 2,
    "hive4/overwrite_partitioned": 2,
    "hive4/tez_compaction": 3,
    "hive4/unbucketed": 2,
    "hive2/v1_bucketed": 0,
    "hive2/v1_open_aborted": 0,
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_tables_of_real_hive_with_lists_of_earlier_steps(scenario: str) -> None:
    """The rows of that step, or an error where its directories are gone."""
    steps = [step for step in STEPS if step.scenario == scenario]
    refused = same = 0
    for lists, place in combinations(steps, 2):
        found = answer(lists, place)
        assert found is None or found == answer(lists, lists), (lists, place)
        refused, same = refused + (found is None), same + (found is not None)
    assert same or refused == SCENARIOS[scenario]
    assert refused >= SCENARIOS[scenario]


# --- who asks


def test_commands_say_so(tmp_path: Path) -> None:
    """`snapshot` ends with 12, `ls` with 3 where names tell, and with --rows where files do."""
    one = written(tmp_path / "t")
    reader = one.reader()
    compact(one, major=True)
    options = [
        str(one.root),
        *(word for text in reader.lists() for word in ("--validtxns", text)),
        "--table-type",
        FULL,
    ]
    assert acidctl("ls", *options).code == ExitCode.DONE
    remove(one, "delta_0000002_*")
    assert acidctl("snapshot", *options, "--count").code == ExitCode.NOT_ENOUGH_HISTORY
    assert acidctl("snapshot", *options, "--files").code == ExitCode.NOT_ENOUGH_HISTORY
    assert acidctl("ls", *options).code == ExitCode.DONE
    by_rows = acidctl("ls", *options, "--rows", "-o", "json")
    assert by_rows.code == ExitCode.FINDINGS
    assert "rows of write id 2" in by_rows.json()["gaps"][0]["message"]
    remove(one, "delta_*_000[01]", "delete_*")
    shown = acidctl("ls", *options, "-o", "json")
    assert shown.code == ExitCode.FINDINGS
    assert "nothing else here holds any of write ids 1..5" in shown.json()["gaps"][0]["message"]


@pytest.mark.parametrize(
    ("kind", "gone"), [("major", "delta_0000002_*"), ("major", "*_000[01]"), ("minor", "*_000[01]")]
)
def test_compact_refuses(tmp_path: Path, kind: str, gone: str) -> None:
    """A base by such lists would hide the newer one; a new write is there to make it worth one."""
    one = written(tmp_path / "t")
    insert(one)
    reader = one.reader()
    held = tmp_path / "held"
    compact(one, major=True)
    insert(one)
    one.root.joinpath("delta_0000007_0000007_0000").rename(held)
    remove(one, gone)
    held.rename(one.root / "delta_0000007_0000007_0000")
    before = sorted(path.name for path in one.root.rglob("*"))
    old = one.reader()
    lists = [old.lists()[0], reader.lists()[1]]
    (part,) = (
        open_table(str(one.root)).compact(kind, validtxns=lists, table_type=FULL, assume_exclusive=True).partitions
    )
    assert (part.outcome, part.reason_code) == (Outcome.REFUSED, "lists_too_old")
    assert part.reason is not None
    assert "newer lists" in part.reason
    assert sorted(path.name for path in one.root.rglob("*")) == before
    words = ["compact", kind, str(one.root), "--table-type", FULL, "--assume-exclusive"]
    words += [word for text in lists for word in ("--validtxns", text)]
    assert acidctl(*words, "-n").code == ExitCode.FINDINGS
    (part,) = open_table(str(one.root)).compact("major", validtxns=old.lists(), table_type=FULL).partitions
    assert part.outcome is Outcome.COMPACTED, part


def test_clean_keeps_all(tmp_path: Path) -> None:
    """What is obsolete by such lists may be all that is left of what they show."""
    one = table(tmp_path / "t")
    insert(one)
    insert(one)
    compact(one, major=True)
    insert(one)
    insert(one)
    reader = one.reader()
    compact(one, major=True)
    lists: dict[str, Any] = {"validtxns": reader.lists(), "table_type": FULL, "older_than": None}
    assert open_table(str(one.root)).plan_clean(**lists).victims == 2
    remove(one, "delta_0000003_*")
    before = sorted(path.name for path in one.root.iterdir())
    (part,) = open_table(str(one.root)).clean("delete", **lists).partitions
    assert part.outcome is not CleanOutcome.DELETED
    (failed,) = (guard for guard in part.guards if not guard.holds)
    assert failed.guard == "current_lists"
    assert "holds rows of write id 3" in failed.why
    assert sorted(path.name for path in one.root.iterdir()) == before


def named(one: AgedTable, lists: Callable[[], Reader]) -> NamedTable:
    """The table by name, of a metastore that hands out these lists."""
    metastore = Metastore("thrift://127.0.0.1:1")

    def handed(*_: object, **__: object) -> Lists:
        write_ids, txns = lists().lists()
        return Lists(ValidTxns.parse(txns), ValidWriteIds.parse(write_ids), txns)

    metastore.catalog = cast(Any, SimpleNamespace(lists=handed))
    columns = (("n", "bigint"), ("s", "string"))
    transactional = {"transactional": "true"}
    name = TableName("default", "t")
    return NamedTable(metastore, TableInfo(name, str(one.root), False, columns, (), transactional, 0, (), ""))


def test_by_name_newer_lists_are_taken(tmp_path: Path) -> None:
    """The listing may come after a compaction and a cleaner; so do the next lists."""
    one = written(tmp_path / "t")
    readers = [one.reader()]
    compact(one, major=True)
    remove(one, "delta_0000002_*")
    readers.append(one.reader())
    asked: list[int] = []

    def lists() -> Reader:
        asked.append(len(asked))
        return readers[min(len(asked) - 1, 1)]

    assert named(one, lists).snapshot().count() == len(one.visible(readers[1]))
    assert len(asked) == 2


def test_by_name_it_is_not_tried_for_ever(tmp_path: Path) -> None:
    """Where the lists stay what they are the error is given."""
    one = written(tmp_path / "t")
    reader = one.reader()
    compact(one, major=True)
    remove(one, "delta_0000002_*")
    asked: list[int] = []

    def lists() -> Reader:
        asked.append(1)
        return reader

    with pytest.raises(NotEnoughHistoryError, match="holds rows of write id 2"):
        named(one, lists).snapshot()
    assert len(asked) == 3


def test_acid_version_1(tmp_path: Path) -> None:
    """Updates lie in place of rows there, and a base that Hive 2 has not made does not say which write was the last."""
    step = next(step for step in STEPS if str(step) == "hive2/v1_bucketed/07-minor-after-major")
    root = tmp_path / "t"
    shutil.copytree(step.table, root)
    view = {**step.view, "validtxns": ["108:9223372036854775807:"]}
    before = open_table(str(root)).snapshot(**view).count_and_digest()
    how: dict[str, Any] = {**step.view, "assume_exclusive": True}
    (part,) = open_table(str(root)).compact("major", **how).partitions
    assert part.outputs == ("base_0000109",)
    for name in ("delta_0000108_0000109", "delta_0000109_0000109_0000"):
        assert open_table(str(root)).snapshot(**view).count_and_digest() == before
        shutil.rmtree(root / name)
    assert open_table(str(root)).snapshot(**view).count_and_digest() == before
    shutil.rmtree(root / "delta_0000108_0000108_0000")
    with pytest.raises(NotEnoughHistoryError, match="base_0000109: whether write id 108 changed rows is not known"):
        open_table(str(root)).snapshot(**view)
