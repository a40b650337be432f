"""What a file says of its rows at each level: what agrees, what does not, and what is not compared."""

from __future__ import annotations

import pytest

from acidctl.errors import DamagedDataError
from acidctl.orc.agreement import agrees, file_agrees
from acidctl.orc.protobuf import block, encoded, number, packed, zigzagged
from acidctl.orc.reader import open_orc
from tests import ROOT

NAN, INF = float("nan"), float("inf")


def numbers(count: int, low: int, high: int, total: int | None, null: bool = False) -> bytes:
    """Statistics of whole numbers."""
    values = {1: zigzagged(low), 2: zigzagged(high), 3: None if total is None else zigzagged(total)}
    return encoded({1: count, 2: encoded(values), 10: int(null)})


def doubles(count: int, low: float, high: float, total: float) -> bytes:
    """Statistics of doubles."""
    return encoded({1: count, 3: encoded({1: float(low), 2: float(high), 3: float(total)}), 10: 0})


def texts(count: int, values: dict[int, bytes], total: int) -> bytes:
    """Statistics of texts, by field."""
    return encoded({1: count, 4: encoded({**values, 3: zigzagged(total)}), 10: 0})


def decimals(count: int, low: str, high: str, total: str | None) -> bytes:
    """Statistics of decimals."""
    values = {1: low.encode(), 2: high.encode(), 3: None if total is None else total.encode()}
    return encoded({1: count, 6: encoded(values), 10: 0})


def moments(count: int, fields: dict[int, int]) -> bytes:
    """Statistics of moments, by field."""
    plain = {field: value if field > 4 else zigzagged(value) for field, value in fields.items()}
    return encoded({1: count, 9: encoded(plain), 10: 0})


ONE, OTHER = numbers(10, -5, 7, 12), numbers(4, 3, 90, 100, null=True)


@pytest.mark.parametrize(
    ("whole", "same"),
    [
        (numbers(14, -5, 90, 112, null=True), True),
        (numbers(14, -5, 90, None, null=True), True),
        (encoded({1: 14}), True),
        (encoded({10: 1}), False),
        (numbers(13, -5, 90, 112, null=True), False),
        (numbers(14, -6, 90, 112, null=True), False),
        (numbers(14, -4, 90, 112, null=True), False),
        (numbers(14, -5, 91, 112, null=True), False),
        (numbers(14, -5, 90, 113, null=True), False),
        (numbers(14, -5, 90, 112, null=False), False),
        (encoded({1: 14, 7: encoded({1: zigzagged(-5)})}), False),
        (doubles(14, -5, 90, 112), False),
        (encoded({1: 14, 2: 5}), False),
        (b"\xff", False),
        (b"\x08\x0e\x12\x7f", False),
        (number(1, 14) + number(1, 14), False),
    ],
)
def test_numbers(whole: bytes, same: bool) -> None:
    """Count, bounds, sum and NULLs are those of the parts, in any order and any number of them."""
    assert agrees(whole, [ONE, OTHER]) is same
    assert agrees(whole, [OTHER, ONE]) is same


def test_one_part_and_many() -> None:
    """What stands in both places is the same; parts that say the very same count as often as they come."""
    assert agrees(ONE, [ONE])
    assert agrees(b"nonsense", [b"nonsense"])
    assert agrees(numbers(40, -5, 7, 48), [ONE] * 4)
    assert not agrees(numbers(40, -5, 7, 12), [ONE] * 4)


def test_parts_without_values() -> None:
    """They have no bounds to be asked for, and some writers none to state."""
    nothing = encoded({1: 0, 2: encoded({3: 0}), 10: 1})
    assert agrees(numbers(10, -5, 7, 12, null=True), [ONE, nothing, encoded({1: 0, 10: 1})])
    assert agrees(nothing, [nothing, encoded({1: 0, 10: 1})])
    assert not agrees(numbers(10, -5, 7, 12), [encoded({1: 10, 10: 0})])


def test_doubles_have_no_sums() -> None:
    """They depend on the order. Beside NaN writers note what they like, but no narrower bounds than there are."""
    parts = [doubles(2, -1.5, 2, 0.1), doubles(2, 0, 3, 0.2)]
    assert agrees(doubles(4, -1.5, 3, 0.30000000000000004), parts)
    assert not agrees(doubles(4, -1.5, 4, 0.3), parts)
    strange = [doubles(2, 0, 3, NAN), doubles(2, NAN, NAN, NAN), parts[0]]
    for low, high in ((-1.5, 3), (-INF, NAN), (NAN, NAN), (-2, 4)):
        assert agrees(doubles(6, low, high, NAN), strange)
    assert not agrees(doubles(6, 0, 3, NAN), strange)
    assert not agrees(doubles(6, -1.5, 2, NAN), strange)


def test_texts_may_be_cut() -> None:
    """A bound stands in for a long text; bytes that are no UTF-8 are compared as bytes."""
    parts = [texts(3, {1: b"b", 5: b"k" * 1024}, 3000), texts(2, {4: b"a" * 1024, 2: b"c\xff"}, 2000)]
    assert agrees(texts(5, {4: b"a" * 1024, 5: b"k" * 1024}, 5000), parts)
    assert not agrees(texts(5, {1: b"b", 5: b"k" * 1024}, 5000), parts)
    assert not agrees(texts(5, {4: b"a" * 1024, 5: b"k" * 1023}, 5000), parts)
    assert not agrees(texts(5, {4: b"a" * 1024, 5: b"k" * 1024}, 5001), parts)


def test_sums_of_decimals() -> None:
    """Of a part that overflowed nothing is known, and Hive goes on; what has more than 38 digits it rounds."""
    parts = [decimals(3, "-1.5", "2.25", "1.05"), decimals(1, "7", "7", "7")]
    assert agrees(decimals(4, "-1.50", "7", "8.050"), parts)
    assert not agrees(decimals(4, "-1.5", "7", "8.06"), parts)
    assert not agrees(decimals(4, "-1.5", "6", "8.05"), parts)
    assert agrees(decimals(5, "-1.5", "9", "77"), [*parts, decimals(1, "9", "9", None)])
    long = [decimals(9, "1", "9" * 38, "9" * 38), decimals(9, "1", "2", "0.25")]
    assert agrees(decimals(18, "1", "9" * 38, "9" * 38), long)
    for text in ("1E+999999999", "nan", "9" * 100, "--1", "1_0"):
        assert not agrees(decimals(4, "-1.5", "7", text), parts)
        assert not agrees(decimals(4, "-1.5", "7", None), [parts[0], decimals(1, "7", text, None)])


def test_moments_have_nanoseconds() -> None:
    """They are stored as one more, or not at all where they are what a reader assumes."""
    parts = [moments(1, {3: 5, 4: 8, 5: 400}), moments(1, {3: 5, 4: 8, 6: 900})]
    assert agrees(moments(2, {3: 5, 4: 8}), parts)
    assert not agrees(moments(2, {3: 5, 4: 8, 5: 400}), parts)
    assert not agrees(moments(2, {3: 5, 4: 8, 6: 900}), parts)
    assert not agrees(moments(2, {1: 5, 3: 5, 4: 8}), parts)
    assert agrees(moments(2, {1: -3, 2: 4}), [moments(1, {1: -3, 2: -3}), moments(1, {1: 4, 2: 4})])


def test_counts_of_other_kinds() -> None:
    """True values, lengths of binary ones, elements of lists."""
    truths = [encoded({1: 3, 5: block(1, packed([2]))}), encoded({1: 3, 5: number(1, 300)})]
    truths = [one + number(10, 0) for one in truths]
    assert agrees(encoded({1: 6, 5: block(1, packed([302]))}), truths)
    assert not agrees(encoded({1: 6, 5: block(1, packed([301]))}), truths)
    raw = [encoded({1: 3, 8: encoded({1: zigzagged(size)}), 10: 0}) for size in (7, 700)]
    assert agrees(encoded({1: 6, 8: encoded({1: zigzagged(707)})}), raw)
    assert not agrees(encoded({1: 6, 8: encoded({1: zigzagged(7)})}), raw)
    lists = [encoded({1: 2, 12: encoded({1: low, 2: 9, 3: 10}), 10: 0}) for low in (0, 3)]
    assert agrees(encoded({1: 4, 12: encoded({1: 0, 2: 9, 3: 20})}), lists)
    assert not agrees(encoded({1: 4, 12: encoded({1: 3, 2: 9, 3: 20})}), lists)


def test_what_bytes_are_on_disk_does_not_matter() -> None:
    """Row groups do not say, and no row depends on it."""
    assert agrees(ONE + number(11, 777), [ONE, encoded({1: 0, 10: 0})])


def test_hive_agrees_with_itself() -> None:
    """All files of real Hives: nothing that they write keeps their stripes from being copied."""
    seen = 0
    for path in sorted((ROOT / "fixtures/tables").glob("*/*/*/table/**/*")):
        if not path.is_file():
            continue
        with path.open("rb") as stream:
            if stream.read(3) != b"ORC":
                continue
            try:
                orc = open_orc(stream, name=str(path))
            except DamagedDataError:
                continue  # kept for that
            messages = orc.stripe_messages()
            if not orc.rows or len(messages) != len(orc.tail.stripes) or not orc.tail.statistics:
                continue
            assert file_agrees(orc.tail, messages), path
            stripes = range(len(messages))
            assert orc.agreeing(stripes, messages) == list(stripes), path
            seen += 1
    assert seen > 1000
