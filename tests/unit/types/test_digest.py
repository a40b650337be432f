"""The digest: what it must not notice, and what it must."""

from __future__ import annotations

import random
from decimal import Decimal
from itertools import combinations, pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidctl.types.digest import Digest
from acidctl.types.schema import parse_type

RowIdLists = tuple[list[int], list[int], list[int]]
WIDE = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])


def digest_of(
    arrays: list[pa.Array], types: list[str], ids: RowIdLists | None = None, cuts: tuple[int, ...] = ()
) -> str:
    """The digest of rows fed in the batches that `cuts` makes."""
    total = Digest()
    count = len(arrays[0])
    keys = None if ids is None else tuple(pa.array(part, pa.int64()) for part in ids)
    edges = [0, *sorted(cuts), count]
    for start, stop in pairwise(edges):
        part = None if keys is None else tuple(k.slice(start, stop - start) for k in keys)
        total.update(part, [a.slice(start, stop - start) for a in arrays], [parse_type(t) for t in types])
    return total.hexdigest()


def one(value: object, hive_type: str, arrow_type: pa.DataType) -> str:
    """The digest of a single row of one value."""
    return digest_of([pa.array([value], arrow_type)], [hive_type])


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(-5, 5), st.none() | st.text(max_size=3)), max_size=8), st.data())
def test_order_and_batches_do_not_matter(rows: list[tuple[int, str | None]], data: st.DataObject) -> None:
    """Any permutation in any batches has the same digest."""
    shuffled = data.draw(st.permutations(rows))
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=3))

    def build(some: list[tuple[int, str | None]]) -> list[pa.Array]:
        return [pa.array([a for a, _ in some], pa.int32()), pa.array([b for _, b in some], pa.string())]

    expected = digest_of(build(rows), ["int", "string"])
    assert digest_of(build(list(shuffled)), ["int", "string"], cuts=tuple(cuts)) == expected


def test_duplicates_and_ids_count() -> None:
    """A row twice is not a row once; another row id is another row; ids are not mistaken for values."""
    array = pa.array([7], pa.int64())
    once = digest_of([array], ["bigint"])
    assert digest_of([pa.array([7, 7])], ["bigint"]) != once
    with_id = digest_of([array], ["bigint"], ([1], [536870912], [0]))
    assert with_id != digest_of([array], ["bigint"], ([1], [536870912], [1]))
    values = [pa.array([n]) for n in (1, 536870912, 0, 7)]
    assert with_id != digest_of(values, ["bigint"] * 4)


@pytest.mark.parametrize(
    "forms",
    [
        [
            (5, "int", pa.int32()),
            (5, "bigint", pa.int64()),
            (5, "tinyint", pa.int8()),
            (5.0, "double", pa.float64()),
            (Decimal(5), "decimal(10,2)", pa.decimal128(10, 2)),
            (5.0, "float", pa.float32()),
        ],
        [
            (0, "int", pa.int32()),
            (-0.0, "double", pa.float64()),
            (0.0, "float", pa.float32()),
            (Decimal(0), "decimal(20,9)", pa.decimal128(20, 9)),
        ],
        [
            (-1000, "int", pa.int32()),
            (-1e3, "double", pa.float64()),
            (Decimal(-1000), "decimal(38,0)", pa.decimal128(38, 0)),
        ],
        [(2**62, "bigint", pa.int64()), (2.0**62, "double", pa.float64())],
        [
            (0.1, "double", pa.float64()),
            (Decimal("0.1"), "decimal(3,1)", pa.decimal128(3, 1)),
            (Decimal("0.1"), "decimal(38,10)", pa.decimal128(38, 10)),
        ],
        [(1e-9, "double", pa.float64()), (Decimal("0.000000001"), "decimal(10,9)", pa.decimal128(10, 9))],
        [(1e25, "double", pa.float64()), (Decimal(10**25), "decimal(38,0)", pa.decimal128(38, 0))],
        [("ab", "string", pa.string()), ("ab  ", "char(4)", pa.string()), ("ab", "varchar(4)", pa.string())],
        [
            (18262, "date", pa.date32()),
            (1577836800 * 10**9, "timestamp", pa.timestamp("ns")),
            ({"seconds": 1577836800, "nanos": 0}, "timestamp", WIDE),
        ],
        [(0.10000000149011612, "double", pa.float64()), (0.1, "float", pa.float32())],
    ],
)
def test_the_form_of_a_value_does_not_matter(forms: list[tuple[object, str, pa.DataType]]) -> None:
    """Widened types, padding, negative zero and the two forms of a timestamp leave the digest as it was."""
    assert len({one(*form) for form in forms}) == 1


def test_different_values_differ() -> None:
    """NULL, empty and look-alikes of every kind have digests of their own."""
    texts = [None, "", "null", '"', "\\", "5", "true", "[]", "{}", "a", "a ", "A", "\n", "\\n"]
    seen = [one(text, "string", pa.string()) for text in texts]
    seen += [one(b, "boolean", pa.bool_()) for b in (True, False)]
    seen += [one(n, "int", pa.int32()) for n in (0, 5, -5, 1, 10)]
    seen += [one(f, "double", pa.float64()) for f in (0.1, float("nan"), float("inf"), float("-inf"))]
    seen += [one(v, "array<int>", pa.list_(pa.int32())) for v in ([], [None], [None, None], [5])]
    seen += [one({"a": v}, "struct<a:int>", pa.struct([("a", pa.int32())])) for v in (None, 5)]
    assert len(set(seen)) == len(seen)
    two = [digest_of([pa.array([a]), pa.array([b])], ["string"] * 2) for a, b in (("a", "b,"), ("a,", "b"))]
    assert two[0] != two[1]


def test_bytes_that_are_not_utf8_count_as_they_are() -> None:
    """Two different invalid strings differ, though both are shown with the same replacement."""
    seen = {
        digest_of([pa.array([raw], pa.binary()).view(pa.string())], ["string"])
        for raw in (b"\xff", b"\xfe", b"\xc3", "\ufffd".encode())
    }
    assert len(seen) == 4


def test_layout_of_unions_does_not_matter() -> None:
    """Dense or sparse is one value."""
    hive_type = "uniontype<int,string>"
    sparse = pa.UnionArray.from_sparse(
        pa.array([0, 1], pa.int8()), [pa.array([1, None], pa.int32()), pa.array([None, "a"])]
    )
    dense = pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1], pa.int32()), pa.array(["a"])]
    )
    assert digest_of([sparse], [hive_type]) == digest_of([dense], [hive_type])


def test_names_of_fields_do_not_matter() -> None:
    """Hive goes by position: a renamed column or field is the same data."""
    one_name = pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))
    other = pa.array([{"b": 1}], pa.struct([("b", pa.int32())]))
    assert digest_of([one_name], ["struct<a:int>"]) == digest_of([other], ["struct<b:int>"])


def test_the_sum_does_not_overflow_and_is_pinned() -> None:
    """Version 1 is for ever: these digests are part of the contract."""
    assert digest_of([pa.array([], pa.int32())], ["int"]) == "v1:" + "0" * 32
    generator = random.Random(7)
    ids = ([generator.randrange(10) for _ in range(1000)], [536870912] * 1000, list(range(1000)))
    arrays = [pa.array([generator.random() for _ in range(1000)]), pa.array([f"n{i}" for i in range(1000)])]
    whole = digest_of(arrays, ["double", "string"], ids)
    assert whole == digest_of(arrays, ["double", "string"], ids, cuts=(1, 500, 999))
    assert whole == "v1:2bde6560e46068fdfb6b5f5d4bf856b7"


def test_no_two_small_rows_collide() -> None:
    """All pairs of small rows have different digests."""
    values = [(a, b) for a in (None, 0, 1, 2) for b in (None, "", "0", "null")]
    seen = [digest_of([pa.array([a], pa.int32()), pa.array([b], pa.string())], ["int", "string"]) for a, b in values]
    assert all(one != other for one, other in combinations(seen, 2))
