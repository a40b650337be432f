"""What a plan says of stripes before a run: never that what is touched is copied, and from footers alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

import acidctl
from acidctl.compaction import stripes
from acidctl.compaction.foresight import part_bytes
from acidctl.compaction.plan import Fate, StripeChoice
from acidctl.compaction.report import PartitionReport
from acidctl.format.events import Operation
from acidctl.storage.local import LocalStorage
from acidctl.types.schema import parse_schema
from tests.cli.runner import acidctl as command
from tests.support.orc_events import EventBatch, keys, written
from tests.support.specs import delta, write_events

# `write_events` makes stripes of fifty rows.
STRIPE = 50
ASSUMED: dict[str, Any] = {"assume_committed": True, "assume_exclusive": True}


@pytest.fixture(autouse=True)
def _every_size_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stripe is too small to be copied."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 1 << 40)


def foretold(table: Path, kind: str = "major", **options: Any) -> tuple[StripeChoice, ...]:
    """What the plan says of the stripes of the only bucket."""
    plan = acidctl.open_table(str(table)).plan_compaction(kind, **ASSUMED, **options)
    (task,) = (task for task in plan.partitions[0].tasks if task.stripes)
    return task.stripes


def done(table: Path, kind: str = "major", **options: Any) -> PartitionReport:
    """What then becomes of it."""
    (part,) = acidctl.open_table(str(table)).compact(kind, **ASSUMED, **options).partitions
    assert part.outcome.value == "compacted", part
    return part


def fates(choices: tuple[StripeChoice, ...]) -> dict[tuple[Fate, str], int]:
    """Stripes by what becomes of them and why."""
    found = Counter[tuple[Fate, str]]()
    for one in choices:
        found[one.choice, one.reason] += one.count
    return dict(found)


def changed_table(table: Path) -> None:
    """Twenty stripes of which deletes may touch three, a delta behind them, and one between them."""
    write_events(table, "base_0000002_v0000010", range(20 * STRIPE), write_id=2)
    write_events(table, delta(3), range(2 * STRIPE), write_id=3)
    write_events(table, "delete_" + delta(4), [105, 240], write_id=2, current=4, operation=Operation.DELETE)


def test_the_plan_says_what_the_run_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied is what was to be copied; where deletes may fall, key columns decide; no file is opened twice for it."""
    changed_table(tmp_path)
    opened: list[str] = []
    plain = LocalStorage.open

    def noted(self: LocalStorage, path: str) -> BinaryIO:
        opened.append(path)
        return plain(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "open", noted)
        choices = foretold(tmp_path)
    assert len(opened) == len({*opened}) == 3
    assert fates(choices) == {(Fate.COPY, ""): 17 + 2, (Fate.UNDECIDED, ""): 3}
    assert [(one.first, one.count) for one in choices][:3] == [(0, 2), (2, 3), (5, 15)]
    part = done(tmp_path)
    # The stripe between the two deletes turns out to be untouched.
    assert (part.stripes_copied, part.stripes_encoded) == (20, {"deleted": 2})


def test_what_the_form_of_files_forbids(tmp_path: Path) -> None:
    """Another codec than that of the inputs, aborted rows, and files that overlap."""
    changed_table(tmp_path)
    assert fates(foretold(tmp_path, compression="snappy")) == {(Fate.ENCODE, "compression"): 22}
    for statement in (0, 1):
        rows = range(statement, 2 * STRIPE, 2)
        write_events(tmp_path, f"delta_0000005_0000005_000{statement}", rows, write_id=5)
    assert fates(foretold(tmp_path))[Fate.ENCODE, "overlap"] == 2


def test_a_minor_compaction_copies_too(tmp_path: Path) -> None:
    """Deltas of ascending writes become one by copying."""
    for write_id in range(1, 4):
        write_events(tmp_path, delta(write_id), range(2 * STRIPE), write_id=write_id)
    assert fates(foretold(tmp_path, "minor")) == {(Fate.COPY, ""): 6}
    assert done(tmp_path, "minor").stripes_copied == 6


def test_only_what_is_written_anew_is_divided(tmp_path: Path) -> None:
    """Parts are of work: a bucket that is copied is one task, one that has to be written anew is several."""
    changed_table(tmp_path)

    def parts(**options: Any) -> int:
        plan = acidctl.open_table(str(tmp_path)).plan_compaction("major", **ASSUMED, **options)
        return sum(len(task.cuts) + 1 for task in plan.partitions[0].tasks)

    half = sum(file.stat().st_size for file in tmp_path.glob("*/bucket_*")) // 2
    assert parts(split_bytes=half) == 1
    assert parts(split_bytes=half, compression="snappy") > 1
    whole = acidctl.open_table(str(tmp_path)).snapshot().count_and_digest()
    part = done(tmp_path, split_bytes=1)
    assert acidctl.open_table(str(tmp_path)).snapshot().count_and_digest() == whole
    assert part.files_out == 1


def test_files_of_rows_are_copied_whole(tmp_path: Path) -> None:
    """Of an insert-only table: those of the form of the new file, and the run does what the plan says."""
    for write_id, codec in enumerate(("zlib", "snappy", "zlib"), 1):
        batch = EventBatch(keys(100), (pa.array(range(100), pa.int32()),))
        data = written([batch], parse_schema("a int").columns, acid=False, compression=codec)[0]
        place = tmp_path / f"delta_{write_id:07}_{write_id:07}_0000"
        place.mkdir()
        (place / "000000_0").write_bytes(data)
    asked = {"compression": "zlib", "table_type": "insert-only"}
    assert fates(foretold(tmp_path, **asked)) == {(Fate.COPY, ""): 2, (Fate.ENCODE, "compression"): 1}
    part = done(tmp_path, **asked)
    assert (part.stripes_copied, part.stripes_encoded) == (2, {"compression": 1})


def test_how_large_parts_are() -> None:
    """None below 64 MiB, a sixteenth of large partitions, and never more than was asked for."""
    assert part_bytes(100 << 20, 1 << 30) == 64 << 20
    assert part_bytes(4 << 30, 1 << 30) == 256 << 20
    assert part_bytes(64 << 30, 1 << 30) == 1 << 30
    assert part_bytes(4 << 30, 1000) == 1000


def test_the_text_of_a_plan(tmp_path: Path) -> None:
    """`-n -v` shows stripes by file; without `-v` the plan is as short as ever."""
    changed_table(tmp_path)
    given = ("compact", "major", str(tmp_path), "--assume-committed", "-n")
    text = command(*given, "-v").stdout
    assert "base_0000002_v0000010/bucket_00000" in text
    assert "2-4" in text
    assert "decided by the key columns when it runs" in text
    assert "STRIPES" not in command(*given).stdout


def test_the_size_of_stripes_is_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stripe is small beside those that the table asks for, in the plan as in the run."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 16)
    changed_table(tmp_path)
    ddl = "CREATE TABLE t (a bigint, b string) STORED AS ORC TBLPROPERTIES ('transactional'='true'{})"
    assert fates(foretold(tmp_path, schema=ddl.format(""))).keys() == {(Fate.ENCODE, "small")}
    little = ddl.format(", 'orc.stripe.size'='3200'")
    assert fates(foretold(tmp_path, schema=little)) == {(Fate.COPY, ""): 17 + 2, (Fate.UNDECIDED, ""): 3}
    assert done(tmp_path, schema=little).stripes_copied == 20


def test_the_size_of_stripes_of_an_insert_only_table(tmp_path: Path) -> None:
    """The same for files that are copied whole."""
    for write_id in (1, 2):
        batch = EventBatch(keys(100), (pa.array(range(100), pa.int32()),))
        place = tmp_path / f"delta_{write_id:07}_{write_id:07}_0000"
        place.mkdir()
        (place / "000000_0").write_bytes(written([batch], parse_schema("a int").columns, acid=False)[0])
    ddl = "CREATE TABLE t (a int) STORED AS ORC TBLPROPERTIES ('transactional_properties'='insert_only'{})"
    for size, fate in (("", (Fate.ENCODE, "small")), (", 'orc.stripe.size'='500'", (Fate.COPY, ""))):
        asked = {"table_type": "insert-only", "schema": ddl.format(size)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stripes, "SMALL_SHARE", 16)
            assert fates(foretold(tmp_path, **asked)) == {fate: 2}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stripes, "SMALL_SHARE", 16)
        assert done(tmp_path, **asked).stripes_copied == 2
