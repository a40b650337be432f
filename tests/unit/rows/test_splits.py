"""An answer in parts: read one after the other, by threads or from pickles, they are the whole."""

from __future__ import annotations

import pickle
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pytest

from acidctl import open_table
from acidctl.rows.pipeline import BYTES_OF_ONE, ordered_streams
from acidctl.rows.snapshot import Snapshot
from tests.support.extent import amount, some
from tests.support.orc_events import plain
from tests.support.steps import STEPS, Step

# Hive 2's tables are a kind of their own: updates among the rows, and none of them may be left out of a sample.
ORC_STEPS = [step for step in STEPS if step.facts["kind"] in ("full", "insert_only") and not step.facts["hive_fault"]]
SAMPLE = [*some(ORC_STEPS, one_of=12), *(s for s in ORC_STEPS if s.scenario == "hive2/v1_multi_statement")]
HOW: dict[str, Any] = {"row_id": True, "timestamps": "exact"}


def values(batches: Any) -> list[tuple[Any, ...]]:
    """Each row as Python values that compare bit for bit, in order."""
    return [
        row
        for batch in batches
        for row in zip(*(plain(a) if i else a.to_pylist() for i, a in enumerate(batch)), strict=True)
    ]


def from_pickles(snapshot: Snapshot) -> tuple[list[tuple[Any, ...]], int]:
    """The rows of the smallest splits as another process reads them, and how many splits there are."""
    splits = [pickle.loads(pickle.dumps(split)) for split in snapshot.splits(split_bytes=1, **HOW)]
    return [row for split in splits for row in values(split.to_batches())], len(splits)


@pytest.mark.parametrize("step", SAMPLE, ids=str)
def test_the_smallest_splits_are_the_whole(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of recorded steps, row ids included and in order; and so are the rows that three threads read."""
    snapshot = open_table(str(step.table)).snapshot(**step.view)
    whole = values(snapshot.to_batches(threads=1, **HOW))
    assert len(whole) == step.facts["rows"]
    assert from_pickles(open_table(str(step.table)).snapshot(**step.view))[0] == whole
    monkeypatch.setattr("acidctl.rows.snapshot.THREAD_BYTES", 1)
    assert values(snapshot.to_batches(threads=3, **HOW)) == whole


def write_events(path: Path, rows: list[tuple[int, int, int, int]]) -> None:
    """An ACID file of (row id's write id, row number, operation, current write id), with a stripe for 1,024 rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "_orc_acid_version").write_bytes(b"2")
    write_id, row_id, operation, current = (list(column) for column in zip(*rows, strict=True))
    count = len(rows)
    number = np.array(row_id) * 10 + np.array(write_id)
    row = pa.StructArray.from_arrays([pa.array(number), pa.array([f"value {n}" for n in number])], names=["n", "s"])
    table = pa.table(
        {
            "operation": pa.array(operation, pa.int32()),
            "originalTransaction": pa.array(write_id, pa.int64()),
            "bucket": pa.array([536870912] * count, pa.int32()),
            "rowId": pa.array(row_id, pa.int64()),
            "currentTransaction": pa.array(current, pa.int64()),
            "row": row,
        }
    )
    with orc.ORCWriter(path, stripe_size=1, batch_size=1024) as writer:
        for start in range(0, count, 1024):
            writer.write(table.slice(start, 1024))


@pytest.mark.parametrize("seed", range(amount(4, swept=40)))
@pytest.mark.filterwarnings("ignore::acidctl.AcidctlWarning")
def test_random_buckets_are_cut_between_row_ids(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base and deltas of many stripes, updates in place or deletes beside, with row ids that come twice."""
    dice = random.Random(seed)
    in_place = seed % 2 == 1
    base = [(1, n, 0, 1) for n in range(dice.randrange(2000, 6000))]
    write_events(tmp_path / "base_0000001" / "bucket_00000", base)
    for write in (2, 3):
        chosen = sorted(dice.sample(base, dice.randrange(1, 1500)))
        changed = [(w, n, dice.choice((1, 2)) if in_place else 2, write) for w, n, _, _ in chosen]
        added = [(write, n, 0, write) for n in range(dice.randrange(1, 3000))]
        if dice.random() < 0.5:
            # As a copied file brings them: rows of the same ids once more.
            added = sorted([*(event for event in base if dice.random() < 0.1), *added])
        name = f"{write:07}_{write:07}_0000/bucket_00000"
        if in_place:
            write_events(tmp_path / f"delta_{name}", sorted([*changed, *added]))
        else:
            write_events(tmp_path / f"delta_{name}", added)
            write_events(tmp_path / f"delete_delta_{name}", changed)
    snapshot = open_table(str(tmp_path)).snapshot(as_of=dice.choice((2, 3)))
    whole = values(snapshot.to_batches(threads=1, batch_rows=700, **HOW))
    found, count = from_pickles(snapshot)
    assert found == whole
    assert count > 3
    monkeypatch.setattr("acidctl.rows.snapshot.THREAD_BYTES", 1)
    assert values(snapshot.to_batches(threads=2, **HOW)) == whole


def test_a_split_shows_no_secret(tmp_path: Path) -> None:
    """It holds the options by which storage is opened, and no text of it has them."""
    write_events(tmp_path / "delta_0000001_0000001_0000" / "bucket_00000", [(1, 0, 0, 1)])
    (split,) = open_table(str(tmp_path), storage_options={"secret": "xyzzy"}).snapshot(as_of=1).splits()
    assert split.place.options == {"secret": "xyzzy"}
    assert "xyzzy" not in f"{split!r} {split}"


@pytest.mark.parametrize(("size", "most"), [(0, 7), (BYTES_OF_ONE, 4), (100 * BYTES_OF_ONE, 2)])
def test_large_items_of_streams_count_as_several(size: int, most: int) -> None:
    """Of items of many bytes fewer wait, but always one; one more is at hand."""
    read: list[int] = []

    def stream(number: int) -> Iterator[int]:
        for _ in range(9):
            read.append(number)
            yield number

    items = ordered_streams(map(stream, range(2)), workers=2, depth=6, size=lambda item: size)
    assert next(items) == 0
    deadline = time.monotonic() + 5
    while read.count(1) < most and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.01)
    assert read.count(1) == most
    assert len(list(items)) == 17


def test_streams_are_delivered_in_order_and_bounded() -> None:
    """However slow one of them is, and no further ahead than agreed; an error comes in its place, all are closed."""
    read: list[int] = []
    closed: list[int] = []

    def stream(number: int) -> Iterator[tuple[int, int]]:
        try:
            for item in range(20):
                if number == 0:
                    time.sleep(0.001)
                read.append(number)
                yield number, item
            if number == 5:
                raise ValueError("the end of it")
        finally:
            closed.append(number)

    found = []

    def take() -> None:
        for pair in ordered_streams(map(stream, range(9)), workers=3, depth=4):
            found.append(pair)
            assert len(read) - len(found) <= 4 * (4 + 1) + 4

    with pytest.raises(ValueError, match="the end of it"):
        take()
    assert found == [(number, item) for number in range(6) for item in range(20)]
    assert set(closed) >= set(range(6))
    assert not [thread for thread in threading.enumerate() if thread.name == "acidctl-read-ahead"]
