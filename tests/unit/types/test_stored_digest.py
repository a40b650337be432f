"""The digest of stored rows: what it must not see, and what it must."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from acidctl.errors import InternalError
from acidctl.format.events import WIDE, EventKeys, widen
from acidctl.types.digest import RowDigest, combined

ROWS = 500
TEXT = pa.string()


def digest(*columns: pa.Array, keys: EventKeys | None = None) -> str:
    """The digest of rows given by their columns."""
    found = RowDigest()
    found.update(keys, columns)
    return found.hexdigest()


def event_keys(rows: int = ROWS) -> EventKeys:
    numbers = np.arange(rows, dtype=np.int64)
    return EventKeys(numbers // 7, np.full(rows, 536870912), numbers, numbers // 7)


def sample(rows: int = ROWS, seed: int = 1) -> list[pa.Array]:
    """Columns of every kind, with NULLs at every level."""
    rng = np.random.default_rng(seed)
    some = rng.integers(0, 5, rows) == 0
    words = [None if n == 3 else "é\0x" * (n % 40) + "y" * (n % 9) for n in rng.integers(0, 300, rows).tolist()]
    ticks = rng.integers(-(10**17), 10**17, rows)
    pairs = pa.struct([("a", pa.int32()), ("b", TEXT)])
    lists = [None if n == 0 else words[n : n + n % 4] for n in range(rows)]
    maps = [None if n % 9 == 0 else [(f"k{i}", n * i if i else None) for i in range(n % 3)] for n in range(rows)]
    structs = [None if n % 11 == 0 else {"a": n if n % 3 else None, "b": words[n]} for n in range(rows)]
    return [
        pa.array(rng.integers(-(1 << 60), 1 << 60, rows), mask=some),
        pa.array(rng.integers(-9, 9, rows).astype(np.int8)),
        pa.array(rng.normal(size=rows), mask=some),
        pa.array(rng.normal(size=rows).astype(np.float32)),
        pa.array(rng.integers(0, 2, rows) == 0, mask=some),
        pa.array(words, TEXT),
        pa.array(rng.integers(-(10**6), 10**6, rows).astype(np.int32)).cast(pa.date32()),
        pa.array(ticks, mask=some).cast(pa.timestamp("ns")),
        pa.array([Decimal(int(n)) * 10**19 for n in ticks], pa.decimal128(38, 0)),
        pa.array(lists, pa.list_(TEXT)),
        pa.array(maps, pa.map_(TEXT, pa.int64())),
        pa.array(structs, pairs),
        pa.array([[s] * (n % 3) for n, s in enumerate(structs)], pa.list_(pairs)),
    ]


def test_how_rows_are_cut_does_not_matter_but_their_order_does() -> None:
    """One batch, many batches, slices that begin anywhere."""
    columns, keys = sample(), event_keys()
    whole = digest(*columns, keys=keys)
    parts = RowDigest()
    for start, stop in pairwise([0, 1, 2, 2, 9, 250, 251, ROWS]):
        span = slice(start, stop)
        parts.update(keys.select(span), [column.slice(start, stop - start) for column in columns])
    assert (parts.hexdigest(), parts.rows) == (whole, ROWS)
    order = np.arange(ROWS)
    order[[3, 4]] = order[[4, 3]]
    assert digest(*(column.take(pa.array(order)) for column in columns), keys=keys.select(order)) != whole


def sparse(codes: Sequence[int], *children: pa.Array) -> pa.Array:
    return pa.UnionArray.from_sparse(pa.array(codes, pa.int8()), list(children))


NUMBERS = pa.array([5, None, -7, 5], pa.int64())
WORDS = pa.array(["", None, "a" * 70, "b"], TEXT)
MOMENTS = pa.array([0, None, -1, (1 << 63) - 1], pa.int64()).cast(pa.timestamp("ns"))
VALID = pa.array([False, True, False, False])
FORMS: dict[str, tuple[pa.Array, pa.Array]] = {
    "wide": (MOMENTS, widen(MOMENTS)),
    "zone": (MOMENTS, MOMENTS.cast(pa.timestamp("ns", tz="UTC"))),
    "microseconds": (pa.array([-1, 0, None], pa.timestamp("us")), pa.array([-1000, 0, None], pa.timestamp("ns"))),
    "far microseconds": (
        pa.array([-62135596800 * 10**6 - 1], pa.timestamp("us")),
        pa.array([{"seconds": -62135596801, "nanos": 999999000}], WIDE),
    ),
    "seconds": (pa.array([7], pa.timestamp("s")), pa.array([7 * 10**9], pa.timestamp("ns"))),
    "dictionary": (WORDS, WORDS.dictionary_encode()),
    "dictionary of NULL": (
        pa.array(["x", None, None]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int32()), pa.array(["x", None])),
    ),
    "large": (WORDS, WORDS.cast(pa.large_string())),
    "binary": (WORDS, WORDS.cast(pa.binary())),
    "fixed": (pa.array([b"abc", b"xyz"], pa.binary(3)), pa.array([b"abc", b"xyz"], pa.binary())),
    "decimal": (pa.array([1, -2, None], pa.decimal128(18)), pa.array([1, -2, None], pa.decimal256(60))),
    "list": (pa.array([[1], None, []]), pa.array([[1], None, []], pa.large_list(pa.int64()))),
    "below NULL": (
        pa.StructArray.from_arrays([NUMBERS, WORDS], ["a", "b"], mask=pa.array([True, True, False, False])),
        pa.StructArray.from_arrays(
            [pa.array([8, 9, -7, 5]), pa.array(["q", "r", "a" * 70, "b"])],
            ["a", "b"],
            mask=pa.array([True, True, False, False]),
        ),
    ),
    "union": (
        sparse([0, 1, 0, 1], NUMBERS, WORDS),
        pa.UnionArray.from_dense(
            pa.array([0, 1, 0, 1], pa.int8()),
            pa.array([0, 0, 1, 1], pa.int32()),
            [pa.array([5, -7]), pa.array([None, "b"], TEXT)],
        ),
    ),
    "union's other slots": (
        sparse([0, 1], pa.array([1, 2]), pa.array(["a", "b"])),
        sparse([0, 1], pa.array([1, 9]), pa.array(["z", "b"])),
    ),
    "all NULL": (pa.nulls(3), pa.nulls(3, TEXT)),
    "nothing": (pa.array([], TEXT), pa.array([], pa.int64())),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_one_value_are_equal(name: str) -> None:
    """Also as slices, and inside a list."""
    one, other = FORMS[name]
    assert digest(one) == digest(other)
    for start in range(1, len(one)):
        assert digest(one.slice(start)) == digest(other.slice(start))
    if not pa.types.is_null(one.type) and not pa.types.is_union(one.type):
        offsets = pa.array([0, len(one) // 2, len(one)], pa.int32())
        assert digest(pa.ListArray.from_arrays(offsets, one)) == digest(pa.ListArray.from_arrays(offsets, other))


SHORT = ["", "\0", "\0\0", "a", "a\0", "\0a", "b", "a" * 8, "a" * 31, "a" * 32, "a" * 33, "a" * 32 + "\0", "a" * 64]
DIFFERENT: dict[str, pa.Array] = {
    "text": pa.array([None, *SHORT]),
    "zeros": pa.array([b"\0" * n for n in range(300)]),
    "lengths": pa.array(["a" * n for n in range(300)]),
    "lists": pa.array([None, [], [None], [None, None], [""], ["", ""], ["ab"], ["a", "b"], ["b", "a"]], pa.list_(TEXT)),
    "nested": pa.array([None, [], [[]], [None], [[], []], [[1]], [[1], []], [[], [1]], [[1, 1]]]),
    "maps": pa.array(
        [None, [], [("a", None)], [("a", 1)], [("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", 2), ("b", 1)]],
        pa.map_(TEXT, pa.int64()),
    ),
    "structs": pa.array(
        [None, {}, {"a": 0}, {"b": 0}, {"a": 1, "b": 2}, {"a": 2, "b": 1}],
        pa.struct([("a", pa.int64()), ("b", pa.int64())]),
    ),
    "floats": pa.Array.from_buffers(
        pa.float64(),
        6,
        [None, pa.py_buffer(np.array([0, 1 << 63, 1, 0x7FF8 << 48, (0x7FF8 << 48) + 1, 0x3FF << 52], dtype=np.uint64))],
    ),
    "decimals": pa.array(
        [None, *(Decimal(s) * 10**n for n in range(38) for s in (1, -1)), Decimal(0)], pa.decimal128(38)
    ),
    "moments": pa.array(
        [
            None,
            *(
                {"seconds": s, "nanos": n}
                for s in (-1, 0, 1, 9223372036, 9223372037, -9223372037, -9223372038)
                for n in (0, 1, 10**9 - 1)
            ),
            # 2**64 nanoseconds after the beginning of 1970, and things that are no moments.
            {"seconds": 18446744073, "nanos": 709551616},
            {"seconds": 0, "nanos": 10**9},
            {"seconds": 0, "nanos": -1},
            {"seconds": None, "nanos": 0},
            {"seconds": 0, "nanos": None},
            {"seconds": None, "nanos": None},
        ],
        WIDE,
    ),
    "unions": sparse([0, 0, 1, 1, 2, 0], *[pa.array([None, 1, 1, None, 1, 2])] * 2, pa.nulls(6)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_values_differ(name: str) -> None:
    """A row each: what looks alike most is not the same."""
    column = DIFFERENT[name]
    found = {digest(column.slice(i, 1)) for i in range(len(column))}
    assert len(found) == len(column)


def test_floats_are_compared_by_their_bits() -> None:
    """Unlike in the digest that people see."""
    assert digest(pa.array([0.0])) != digest(pa.array([-0.0]))
    assert digest(pa.array([0.0], pa.float32())) != digest(pa.array([-0.0], pa.float32()))


@pytest.mark.slow
def test_every_bit_counts() -> None:
    """Flip each bit of what is stored, one at a time."""
    rows = 2
    for column in [*sample(rows)[:9], pa.array(["\0" * 9, "ab" * 17])]:
        buffers = column.buffers()
        before = digest(column)
        for place, buffer in enumerate(buffers):
            if buffer is None or place == (1 if pa.types.is_string(column.type) else 0):
                continue  # offsets are not values, and validity hides some
            content = bytearray(buffer.to_pybytes())
            if pa.types.is_boolean(column.type):
                bits = [i for i in range(rows) if column[i].is_valid]
            elif pa.types.is_string(column.type):
                bits = list(range(8 * sum(len(value.encode()) for value in column.to_pylist() if value)))
            else:
                width = column.type.bit_width
                bits = [i * width + b for i in range(rows) if column[i].is_valid for b in range(width)]
            for bit in bits:
                content[bit // 8] ^= 1 << bit % 8
                changed = [*buffers[:place], pa.py_buffer(bytes(content)), *buffers[place + 1 :]]
                assert digest(pa.Array.from_buffers(column.type, rows, changed)) != before, (column.type, bit)
                content[bit // 8] ^= 1 << bit % 8


def test_what_moves_between_rows_and_columns_shows() -> None:
    """Between rows, between columns, and where values stand twice."""
    a, b = pa.array([1, 2, 3, 4]), pa.array([10, 20, 30, 40])
    before = digest(a, b)
    assert digest(b, a) != before
    assert digest(a, pa.array([20, 10, 30, 40])) != before
    assert digest(pa.array([2, 1, 3, 4]), pa.array([20, 10, 30, 40])) != before
    assert digest(pa.array([1, 2, 3]), pa.array([10, 20, 30])) != before
    assert digest(pa.array([1, 1, 2, 3, 4]), pa.array([10, 10, 20, 30, 40])) != before
    doubled = digest(pa.array([1, 1, 2, 2, 3, 4]), pa.array([10, 10, 20, 20, 30, 40]))
    assert doubled != digest(pa.array([1, 2, 3, 3, 4, 4]), pa.array([10, 20, 30, 30, 40, 40]))
    assert digest(pa.array([2, 2]), b[:2]) != digest(pa.array([1, 3]), b[:2])
    nothing = pa.nulls(4, pa.int64())
    assert digest(a, nothing) != digest(nothing, a)
    assert digest(a) != digest(a, nothing)
    assert digest(pa.array([0])) != digest(pa.nulls(1, pa.int64()))


def test_bytes_do_not_move_between_neighbours() -> None:
    """Texts lie side by side in one buffer: another cut is another column."""
    text = bytes(range(1, 105))
    found = set()
    for cut in range(len(text) + 1):
        offsets = np.array([0, cut, len(text)], dtype=np.int32)
        found.add(digest(pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(offsets), pa.py_buffer(text)])))
    assert len(found) == len(text) + 1
    two = [digest(pa.array([text[:cut]]), pa.array([text[cut:]])) for cut in range(len(text) + 1)]
    assert len(set(two)) == len(two)
    cuts = [pa.array([[text[:cut], text[cut:]]]) for cut in range(len(text) + 1)]
    assert len({digest(column) for column in cuts}) == len(cuts)


def test_each_part_of_a_key_counts() -> None:
    """And INSERT throughout is the same as no operations."""
    keys, columns = event_keys(), [pa.array(np.arange(ROWS))]
    before = digest(*columns, keys=keys)
    assert digest(*columns, keys=replace(keys, operation=np.zeros(ROWS, dtype=np.int64))) == before
    changes: list[dict[str, Any]] = [{"operation": np.full(ROWS, 2)}]
    for name in ("write_id", "bucket", "row_id", "current"):
        values = getattr(keys, name).copy()
        values[17] ^= 1
        changes.append({name: values})
    changes.append({"write_id": keys.row_id, "row_id": keys.write_id})
    found = {digest(*columns, keys=replace(keys, **change)) for change in changes}
    assert len({*found, before, digest(*columns), digest(keys=keys)}) == len(changes) + 3
    assert digest(keys=keys) == digest(keys=replace(keys, operation=np.zeros(ROWS, dtype=np.int64)))


def test_digests_of_parts_become_one() -> None:
    """`r2:` and 32 digits, of nothing as well; the order of the parts counts."""
    one, other = digest(pa.array([1])), digest(pa.array([2]))
    assert re.fullmatch("r2:[0-9a-f]{32}", one)
    assert combined([]) == RowDigest().hexdigest() != one
    assert combined([one]) == one
    assert len({one, other, combined([one, other]), combined([other, one]), combined([one, one])}) == 5
    assert combined(["sha256:" + 64 * "0", "sha256:" + 64 * "1"]).startswith("sha256:")


def test_what_is_no_hive_type_is_refused() -> None:
    """Better than a hash of something else."""
    with pytest.raises(InternalError, match="duration"):
        digest(pa.array([1], pa.duration("s")))
    with pytest.raises(InternalError, match="different lengths"):
        digest(pa.array([1]), pa.array([1, 2]))


@pytest.mark.slow
def test_random_tables_differ_as_their_rows_do() -> None:
    """Equal digests exactly where the rows are equal."""
    rng = np.random.default_rng(4)
    for _ in range(2000):
        rows = int(rng.integers(1, 6))
        one, other = (
            [(int(rng.integers(0, 2)), "ab"[: int(rng.integers(0, 3))]) for _ in range(rows)] for _ in range(2)
        )
        digests = [
            digest(pa.array([n for n, _ in table]), pa.array([text for _, text in table])) for table in (one, other)
        ]
        assert (digests[0] == digests[1]) == (one == other)
