"""The merge engine against a dictionary, on random histories."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidctl.errors import DamagedDataError
from acidctl.format.events import EventBatch, EventKeys, Operation, RowId, coalesce
from acidctl.format.write_ids import ValidWriteIds
from acidctl.rows.merge import DeletedRows, EventStream, MergeReader, valid_mask

Event = tuple[int, int, int, int, int, str | None]  # operation, write id, bucket, row id, current, value

BUCKETS = (536870912, 536870913, 536936448)


def batch_of(events: list[Event]) -> EventBatch:
    """Events as one batch with a single string column."""
    columns = [np.asarray([e[i] for e in events], dtype=np.int64) for i in range(5)]
    operation = columns[0] if columns[0].any() else None
    keys = EventKeys(columns[1], columns[2], columns[3], columns[4], operation)
    return EventBatch(keys, (pa.array([e[5] for e in events], type=pa.string()),))


def stream_of(events: list[Event], *, size: int, known_lower: bool, statement: int = 0) -> EventStream:
    """A stream that hands the events out `size` at a time."""

    def batches() -> Iterator[EventBatch]:
        for start in range(0, len(events), size):
            yield batch_of(events[start : start + size])

    lower = RowId(*events[0][1:4]) if events and known_lower else None
    return EventStream("test", batches, lower, statement)


def write_ids(high: int, aborted: set[int], open_: set[int]) -> ValidWriteIds:
    """A reader's list in Hive's text form, parsed."""
    lowest = min(open_, default=2**63 - 1)
    text = f"db.t:{high}:{lowest}:{','.join(map(str, sorted(open_)))}:{','.join(map(str, sorted(aborted)))}"
    return ValidWriteIds.parse(text)


def model(events: list[Event], deletes: list[Event], ids: ValidWriteIds) -> list[tuple[RowId, str | None]]:
    """The obvious answer: a dictionary from row id to its newest visible event."""
    newest: dict[RowId, Event] = {}
    for event in events:
        key = RowId(*event[1:4])
        if ids.is_valid(event[4]) and (key not in newest or (event[4], event[0]) > (newest[key][4], newest[key][0])):
            newest[key] = event
    gone = {RowId(*e[1:4]) for e in deletes if e[0] == Operation.DELETE and ids.is_valid(e[4])}
    return sorted((key, event[5]) for key, event in newest.items() if event[0] != Operation.DELETE and key not in gone)


def read(reader: MergeReader, size: int) -> list[tuple[RowId, str | None]]:
    """All rows that a reader yields, in its order."""
    rows = []
    for batch in coalesce(iter(reader), size):
        values = batch.columns[0].to_pylist()
        rows += [(batch.keys.at(i), values[i]) for i in range(len(batch))]
    return rows


def ordered(events: list[Event]) -> list[Event]:
    """File order: key ascending, newest first."""
    return sorted(events, key=lambda e: (e[1], e[2], e[3], -e[4], -e[0]))


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Event]], list[Event], ValidWriteIds, bool]:
    """Insert streams (with in-file updates if the last item is true), delete events and a reader's list."""
    updates = draw(st.booleans())
    rows = draw(st.sets(st.tuples(st.integers(1, 6), st.sampled_from(BUCKETS), st.integers(0, 8)), max_size=40))
    streams: list[list[Event]] = [[] for _ in range(draw(st.integers(1, 5)))]
    deletes: list[Event] = []
    for write, bucket, row in sorted(rows):
        target = draw(st.integers(0, len(streams) - 1))
        streams[target].append((0, write, bucket, row, write, f"{write}.{bucket}.{row}"))
        fate = draw(st.integers(0, 3))
        later = draw(st.integers(write + 1, 9))
        if updates and fate == 1:
            target = draw(st.integers(0, len(streams) - 1))
            streams[target].append((1, write, bucket, row, later, draw(st.sampled_from(["u", None]))))
        elif updates and fate == 2:
            streams[draw(st.integers(0, len(streams) - 1))].append((2, write, bucket, row, later, None))
        elif fate == 3:
            deletes.append((2, write, bucket, row, later, None))
    states = draw(st.lists(st.sampled_from("cccao"), min_size=9, max_size=9))
    high = draw(st.integers(0, 9))
    aborted = {i + 1 for i, s in enumerate(states) if s == "a" and i < high}
    open_ = {i + 1 for i, s in enumerate(states) if s == "o" and i < high}
    return [ordered(s) for s in streams], ordered(deletes), write_ids(high, aborted, open_), updates


@given(histories(), st.integers(1, 7), st.booleans())
def test_merge_equals_the_dictionary_for_any_batch_size(
    history: tuple[list[list[Event]], list[Event], ValidWriteIds, bool], size: int, known: bool
) -> None:
    """Rows and their order are those of the model, however the input is cut."""
    streams, deletes, ids, updates = history
    deleted = DeletedRows.collect((batch_of([e]).keys for e in deletes), ids)
    reader = MergeReader(
        [stream_of(s, size=size, known_lower=known) for s in streams],
        write_ids=ids,
        deleted=deleted,
        updates=updates,
    )
    assert read(reader, size) == model([e for s in streams for e in s], deletes, ids)


@pytest.mark.slow
@given(histories())
def test_splitting_by_stream_changes_nothing(
    history: tuple[list[list[Event]], list[Event], ValidWriteIds, bool],
) -> None:
    """Without in-file updates, each stream read alone gives the rows that all give together."""
    streams, deletes, ids, updates = history
    if updates:
        streams = [[e for e in s if e[0] == 0] for s in streams]
    deleted = DeletedRows.collect([batch_of(deletes).keys] if deletes else [], ids)
    alone = []
    for events in streams:
        one = [stream_of(events, size=3, known_lower=True)]
        alone += read(MergeReader(one, write_ids=ids, deleted=deleted), 100)
    assert sorted(alone, key=lambda r: r[0]) == model([e for s in streams for e in s], deletes, ids)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3), st.integers(-(2**62), 2**62)), max_size=30),
    st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 3), st.integers(-(2**62), 2**62)), max_size=30),
)
def test_deleted_rows_survive_keys_that_do_not_pack(
    gone: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]
) -> None:
    """Row numbers too far apart for one 64-bit code are still found, and only they."""
    asked = asked + gone[::2]
    deletes: list[Event] = [(2, w, b, r, 5, None) for w, b, r in gone]
    deleted = DeletedRows.collect([batch_of(deletes).keys] if gone else [], write_ids(9, set(), set()))
    events: list[Event] = [(0, w, b, r, w, None) for w, b, r in asked]
    mask = deleted.mask(batch_of(events).keys) if events else None
    found = [False] * len(asked) if mask is None else mask.tolist()
    assert found == [key in set(gone) for key in asked]


def test_delete_of_an_aborted_write_deletes_nothing() -> None:
    """A delete event is judged by its own write id."""
    ids = write_ids(5, {4}, set())
    deleted = DeletedRows.collect([batch_of([(2, 1, BUCKETS[0], 0, 4, None)]).keys], ids)
    assert len(deleted) == 0


def test_valid_mask_says_all_without_an_array() -> None:
    """A batch that touches no exception costs no mask."""
    ids = write_ids(9, {3}, {8})
    assert valid_mask(np.asarray([4, 5, 7], dtype=np.int64), ids) is None
    mask = valid_mask(np.asarray([3, 8, 9, 10], dtype=np.int64), ids)
    assert mask is not None
    assert mask.tolist() == [False, False, True, False]


def test_a_far_stream_is_not_opened_before_its_turn() -> None:
    """Thousands of disjoint deltas are open one at a time."""
    opened: list[int] = []

    def source(number: int) -> EventStream:
        def batches() -> Iterator[EventBatch]:
            opened.append(number)
            yield batch_of([(0, number, BUCKETS[0], 0, number, str(number))])

        return EventStream(str(number), batches, RowId(number, BUCKETS[0], 0))

    ids = write_ids(100, set(), set())
    reader = iter(
        MergeReader([source(n) for n in range(50, 0, -1)], write_ids=ids, deleted=DeletedRows.collect([], ids))
    )
    assert next(reader).columns[0].to_pylist() == ["1"]
    assert opened == [1]


def test_updates_out_of_order_are_refused() -> None:
    """Backward keys among updates cannot be resolved, and the message names the file and the key."""
    ids = write_ids(9, set(), set())
    events: list[Event] = [(0, 2, BUCKETS[0], 0, 2, "b"), (1, 1, BUCKETS[0], 0, 3, "a")]
    stream = stream_of(events, size=1, known_lower=False)
    reader = MergeReader([stream], write_ids=ids, deleted=DeletedRows.collect([], ids), updates=True)
    with pytest.raises(DamagedDataError, match=r"test is not in ROW__ID order at 1,536870912,0"):
        list(reader)
