"""Arrays of one type in several forms become one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from acidctl.format.events import WIDE, as_arrow, common_type, concat, conform

DENSE = pa.UnionArray.from_dense(
    pa.array([0, 1, 1, 0], pa.int8()),
    pa.array([0, 0, 1, 1], pa.int32()),
    [pa.array([7, 1]), pa.array(["a", None])],
    ["0", "1"],
)
SPARSE = pa.UnionArray.from_sparse(
    pa.array([0, 1, 1], pa.int8()), [pa.array([5, 0, 0]), pa.array([None, "x", "y"])], ["0", "1"]
)
NARROW = pa.array([0, -1, None], pa.int64()).cast(pa.timestamp("ns"))
WIDE_ONE = pa.array([{"seconds": -(10**11), "nanos": 5}], WIDE)


def test_narrow_timestamps_become_wide_beside_wide_ones() -> None:
    """Seconds are rounded down, so that nanoseconds are never negative."""
    joined = concat([NARROW, WIDE_ONE])
    assert joined.to_pylist() == [
        {"seconds": 0, "nanos": 0},
        {"seconds": -1, "nanos": 999_999_999},
        None,
        {"seconds": -(10**11), "nanos": 5},
    ]


@pytest.mark.parametrize("start", range(4))
def test_slices_of_unions_are_joined_by_value(start: int) -> None:
    """A slice keeps its own values, whichever layout the pieces have."""
    piece = DENSE.slice(start)
    assert concat([piece, SPARSE.slice(1)]).to_pylist() == [*piece.to_pylist(), "x", "y"]


def test_nested_timestamps_are_widened_in_place() -> None:
    """Inside lists, structs and maps, with NULL and empty kept apart, also in a slice."""
    narrow = pa.array([[{"t": 1}], [], None, [{"t": None}]], pa.list_(pa.struct([("t", pa.int64())])))
    timed = narrow.cast(pa.list_(pa.struct([("t", pa.timestamp("ns"))])))
    target = pa.list_(pa.struct([("t", WIDE)]))
    assert common_type(timed.type, target).equals(target)
    assert conform(timed.slice(1), target).to_pylist() == [[], None, [{"t": None}]]
    assert conform(timed, target).to_pylist()[0] == [{"t": {"seconds": 0, "nanos": 1}}]


@pytest.mark.parametrize("kind", [np.bool_, np.int8, np.int32, np.int64, np.float64])
@pytest.mark.parametrize("rows", [0, 1, 9, 1000])
def test_numbers_become_arrow_arrays_as_by_arrow_itself(kind: Any, rows: int) -> None:
    """Slices with steps too, and with NULLs."""
    values = (np.arange(2 * rows) // 2 % 3).astype(kind)[::2]
    valid = np.arange(rows) % 4 != 1
    for ours, theirs in (
        (as_arrow(values), pa.array(values)),
        (as_arrow(values, valid), pa.array(values, mask=~valid)),
    ):
        ours.validate(full=True)
        assert ours.type == theirs.type
        assert ours.equals(theirs)
        assert ours.null_count == theirs.null_count
