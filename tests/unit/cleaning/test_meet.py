"""The meet of several readers' lists: what all of them see."""

from __future__ import annotations

from random import Random

import pytest

from acidctl.errors import UsageError
from acidctl.format.list_texts import recognise_many
from acidctl.format.write_ids import ValidTxns, ValidWriteIds, common_txns, common_write_ids

MAX = "9223372036854775807"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["d.t:20:15:15,17:3"], "d.t:20:15:15,17:3"),
        (["d.t:20:15:15:3", f"d.t:22:{MAX}::3,15"], "d.t:20:15::3,15"),
        (["d.t:20:15:15:", f"d.t:10:{MAX}::"], "d.t:10:15::"),
        # An abort that another list has forgotten is none to rely on.
        ([f"d.t:20:{MAX}::7", f"d.t:20:{MAX}::"], f"d.t:20:{MAX}:7:"),
        (["null:5:4:4:", "d.t:9:4:4:"], "d.t:5:4:4:"),
    ],
)
def test_the_meet_sees_what_all_see(texts: list[str], expected: str) -> None:
    """Lowest watermark, every exception; aborted is what some list calls so and none calls valid."""
    assert common_write_ids([ValidWriteIds.parse(text) for text in texts]).format() == expected


def test_valid_in_the_meet_is_valid_in_each() -> None:
    """And aborted in the meet is valid in none; random lists."""
    random = Random(7)
    for _ in range(300):
        lists = []
        for _ in range(random.randint(1, 4)):
            top = random.randint(1, 15)
            open_ids = tuple(i for i in range(1, top + 1) if random.random() < 0.2)
            aborted = tuple(i for i in range(1, top + 1) if random.random() < 0.2)
            lists.append(
                ValidTxns(high_watermark=top, min_open=min(open_ids, default=None), open=open_ids, aborted=aborted)
            )
        meet = common_txns(lists)
        for i in range(1, 20):
            assert meet.is_valid(i) == all(item.is_valid(i) for item in lists)
            assert not (meet.is_aborted(i) and any(item.is_valid(i) for item in lists))
        lowest = [item.lowest_open for item in lists if item.lowest_open is not None]
        assert meet.lowest_open is None or meet.lowest_open <= min([*lowest, *meet.open])


def test_many_lists_of_each_kind_are_taken() -> None:
    """In any order, with --as-of among them; lists of different tables are refused."""
    found = recognise_many([f"d.t:9:{MAX}::", f"21:{MAX}::", f"d.t:8:{MAX}::"], as_of=7)
    assert ([w.high_watermark for w in found.write_ids], len(found.txns)) == ([7, 9, 8], 1)
    with pytest.raises(UsageError, match="different tables"):
        recognise_many([f"d.t:9:{MAX}::", f"d.u:8:{MAX}::"])
