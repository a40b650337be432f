"""Id lists against their vectors, and what a text is recognised as."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidctl.errors import UsageError
from acidctl.format.list_texts import parse_tables, recognise
from acidctl.format.write_ids import (
    MAX_ID,
    ListFormatError,
    RangeAnswer,
    Reader,
    TxnListFormat,
    ValidTxns,
    ValidWriteIds,
    describe_ids,
)
from tests.support.hive_listing import write_ids_of
from tests.support.vectors import load

VECTORS = load("write-id-lists")
FORMATS = {"txn": TxnListFormat.HIVE4, "txn31": TxnListFormat.HIVE3, "txn23": TxnListFormat.HIVE2}


@pytest.mark.parametrize("case", VECTORS, ids=[case["name"] for case in VECTORS])
def test_vector(case: dict[str, Any]) -> None:
    """Every list parses, prints and answers as Hive's class of that name does."""
    if case["expect_error"]:
        with pytest.raises(ListFormatError) as caught:
            _parse(case)
        assert ("number of 64 bits" in caught.value.message) == (case["expect_error"] == "BAD_NUMBER")
        return
    found = _parse(case)
    if isinstance(found, tuple):
        assert {"txn_id": found[0], "tables": sorted(found[1])} == case["fields"]
    else:
        for name, value in case["fields"].items():
            assert getattr(found, name) == (tuple(value) if isinstance(value, list) else value), name
        # acidctl prints transactions as Hive 4 does.
        if case["kind"] not in ("txn31", "txn23"):
            assert found.format() == case["reserialized"]
    for query in case["queries"]:
        assert _ask(found, query) == query["expect"], query


def _parse(case: dict[str, Any]) -> ValidWriteIds | ValidTxns | tuple[int, dict[str, ValidWriteIds]]:
    kind, text = case["kind"], case["serialized"]
    if kind in ("reader", "compactor", "cleaner"):
        return write_ids_of(kind, text)
    if kind in FORMATS:
        return ValidTxns.parse(text, list_format=FORMATS[kind])
    return parse_tables(text)


def _ask(found: Any, query: dict[str, Any]) -> object:
    if "table" in query:
        if query["fn"] == "exists":
            return query["table"] in found[1]
        found = found[1][query["table"]]
    answer = getattr(found, query["fn"])(*query["args"])
    return answer.value if isinstance(answer, RangeAnswer) else answer


def test_there_are_61_vectors() -> None:
    """No vector is lost on the way."""
    assert len(VECTORS) == 61


id_sets = st.sets(st.integers(1, 60))
watermarks = st.integers(0, 70) | st.just(MAX_ID)
min_opens = st.none() | st.integers(1, 70)


@given(watermarks, min_opens, id_sets, id_sets)
def test_write_ids_round_trip(hwm: int, min_open: int | None, open_: set[int], aborted: set[int]) -> None:
    """A write-id list prints to a text that reads back the same."""
    ids = ValidWriteIds(high_watermark=hwm, min_open=min_open, open=tuple(open_), aborted=tuple(aborted), table="db.t")
    assert ValidWriteIds.parse(ids.format()) == ids


@given(watermarks, min_opens, id_sets, id_sets)
def test_txns_round_trip(hwm: int, min_open: int | None, open_: set[int], aborted: set[int]) -> None:
    """A transaction list prints to a text that reads back the same."""
    txns = ValidTxns(high_watermark=hwm, min_open=min_open, open=tuple(open_), aborted=tuple(aborted))
    assert ValidTxns.parse(txns.format()) == txns


@given(st.integers(0, 40), id_sets, id_sets, st.integers(1, 45), st.integers(0, 10))
def test_range_answers_are_counts(hwm: int, open_: set[int], aborted: set[int], low: int, length: int) -> None:
    """For a list that does not contradict itself, a range answer is the count of its ids."""
    consistent = {i for i in open_ | aborted if i <= hwm}
    ids = ValidWriteIds(high_watermark=hwm, open=tuple(open_ & consistent), aborted=tuple(aborted & consistent))
    span = range(low, low + length + 1)
    valid = [ids.is_valid(i) for i in span]
    gone = [i in ids.aborted for i in span]
    assert ids.is_range_valid(span[0], span[-1]) is _answer(valid)
    assert ids.is_range_aborted(span[0], span[-1]) is _answer(gone)
    assert ids.covers(span[0], span[-1]) == all(valid)


def _answer(flags: list[bool]) -> RangeAnswer:
    return RangeAnswer.ALL if all(flags) else RangeAnswer.SOME if any(flags) else RangeAnswer.NONE


def test_covers_is_exact_where_hive_is_not() -> None:
    """An exception above the watermark misleads Hive about a range that ends above it, not `covers`."""
    ids = ValidWriteIds.parse("d.t:5:8:8:")
    assert ids.is_range_valid(4, 7) is RangeAnswer.ALL
    assert not ids.covers(4, 7)


def test_compactor_stops_below_the_lowest_open_id() -> None:
    """The compactor's list ends below the first open id and keeps the aborted ids below it."""
    found = ValidWriteIds.parse("db.t:20:15:15,17:3,8,16").compactor()
    assert found.format() == "db.t:14:15::3,8"
    assert found.compacting
    # The text says 55 is the lowest open id, the list says 50; the lower one counts.
    assert ValidWriteIds.parse("db.t:1000:55:50:").compactor().high_watermark == 49


def test_hive2_exceptions_below_the_lowest_open_id_are_aborted() -> None:
    """In Hive 2's mixed list only ids from the lowest open one on can still be open."""
    txns = ValidTxns.parse("11:4:2:4:8", list_format=TxnListFormat.HIVE2)
    assert (txns.aborted, txns.open) == ((2,), (4, 8))
    assert ValidTxns.parse("11:9223372036854775807:2:4", list_format=TxnListFormat.HIVE2).aborted == (2, 4)


def test_an_id_both_open_and_aborted_counts_as_open() -> None:
    """A list that contradicts itself is read the careful way."""
    ids = ValidWriteIds(high_watermark=9, open=(4,), aborted=(4, 5))
    assert (ids.open, ids.aborted, ids.exceptions) == ((4,), (5,), (4, 5))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("11:4:4-8,10:2,9", "11:4:4-8,10:2,9"),
        ("11:4:4,10:2,9\n", "11:4:4,10:2,9"),
        ("30:9223372036854775807", "30:9223372036854775807::"),
        ("11:4:2:8", "11:4:2:8"),
    ],
)
def test_transaction_lists(text: str, expected: str) -> None:
    """A text that begins with a number is a transaction list; up to four fields are Hive 4's or 3.1's."""
    lists = recognise([text])
    assert lists.txns is not None
    assert lists.txns.format() == expected
    assert lists.write_ids is None
    assert lists.assumed == ("write_ids",)


def test_hive2_lists() -> None:
    """Five fields can only be Hive 2's list; four are one when the format says so."""
    five = recognise(["11:4:2:4:8"]).txns
    assert five is not None
    assert five.exceptions == (2, 4, 8)
    four = recognise(["11:4:5:8"], list_format="hive2").txns
    assert four is not None
    assert (four.open, four.aborted) == ((5, 8), ())


def test_write_id_list() -> None:
    """A list that begins with a name holds the write ids of that table."""
    lists = recognise(["default.orders:20:15:15,17:3,4,5"], table="Default.Orders")
    assert lists.write_ids == ValidWriteIds.parse("default.orders:20:15:15,17:3,4,5")
    assert lists.assumed == ("txns",)
    assert recognise(["null:5:9223372036854775807::"], table="db.t").write_ids is not None


QUERY_LIST = "17$default.t1:5:4:4:2$default.t2:9:9223372036854775807::"


def test_write_ids_of_a_query() -> None:
    """Of the lists of a query, the table named is taken, or the only one."""
    chosen = recognise([QUERY_LIST], table="default.t2").write_ids
    assert chosen is not None
    assert chosen.high_watermark == 9
    only = recognise(["17$default.t1:5:4:4:2"]).write_ids
    assert only is not None
    assert only.table == "default.t1"


def test_both_kinds() -> None:
    """One list of each kind may be given, in any order."""
    lists = recognise(["11:4:4:", "db.t:5:9223372036854775807::"])
    assert lists.assumed == ()
    assert lists.effective_txns.high_watermark == 11
    assert lists.effective_write_ids.high_watermark == 5


def test_nothing_given() -> None:
    """Without lists everything is taken as committed, and that is said."""
    lists = recognise([])
    assert lists.assumed == ("write_ids", "txns")
    assert lists.effective_write_ids.sees_everything
    assert lists.effective_txns.sees_everything


def test_as_of() -> None:
    """`--as-of N` stands for the write ids up to N, beside a transaction list if one is given."""
    lists = recognise(["11:4:4:"], as_of=7)
    assert lists.effective_write_ids == ValidWriteIds.as_of(7)
    assert lists.effective_write_ids.is_valid(7)
    assert not lists.effective_write_ids.is_valid(8)


@pytest.mark.parametrize(
    ("texts", "options", "words"),
    [
        ([""], {}, "empty"),
        (["  \n"], {}, "empty"),
        (["hello"], {}, "not a list"),
        (["42"], {}, "not a list"),
        (["42$"], {}, "ends in"),
        ([QUERY_LIST], {}, "must be named"),
        ([QUERY_LIST], {"table": "default.t9"}, "default.t1, default.t2"),
        (["x$db.t:5:9::"], {}, "transaction id"),
        (["db.t:20"], {}, "expected table:high watermark"),
        (["db.t:x:15:15:3"], {}, r"high watermark \(field 2\)"),
        (["db.t:20::15:3"], {}, r"lowest open id \(field 3\).*empty"),
        (["db.t:20:15:15,,17:3"], {}, r"open ids \(field 4\)"),
        (["db.t:20:15:15:3x"], {}, r"aborted ids \(field 5\)"),
        (["db.t:20:15:15:3:9"], {}, "6 fields"),
        (["11:a:4:5"], {}, r"lowest open id \(field 2\)"),
        (["11:4:4_0:5"], {}, r"open ids \(field 3\)"),
        (["11:4:4,5:6:7"], {}, "field 3"),
        (["11:4:2:4:8"], {"list_format": "hive4"}, "5 fields"),
        (["11:4:8-4:"], {}, "ends before"),
        (["11:4:1-9223372036854775807:"], {}, "more ids"),
        (["11:4:4:"], {"list_format": "hive9"}, "list format"),
        (["db.t:5:9::", "db.t:6:9::"], {}, "two write-id lists"),
        (["11:4:4:", "12:4:4:"], {}, "two transaction lists"),
        (["db.t:5:9::"], {"as_of": 5}, "--as-of"),
        ([], {"as_of": -1}, "negative"),
        (["db.other:5:9::"], {"table": "db.t"}, "of table db.other, not of db.t"),
    ],
)
def test_what_is_refused(texts: list[str], options: dict[str, Any], words: str) -> None:
    """Each malformed, empty or foreign list is one usage error that names the field or the reason."""
    with pytest.raises(UsageError, match=words) as caught:
        recognise(texts, **options)
    assert "\n" not in str(caught.value)


def test_contradictions_are_noted() -> None:
    """A list that no healthy metastore hands out is used and remarked upon."""
    notes = recognise(["db.t:2:9223372036854775807::2", "1000:55:50,2000:"]).notes
    assert len(notes) == 3
    assert any("last id" in note and "2, is an aborted one" in note for note in notes)
    assert any("55" in note and "50 is used" in note for note in notes)
    # That of a compaction, whose end says nothing: id 3 is open.
    assert recognise(["db.t:2:3::2"]).notes == ()


def test_one_list_serves_as_both_on_acid_v1() -> None:
    """On an ACID v1 table a transaction list is the write-id list too."""
    lists = recognise(["11:4:2:4:8"]).for_acid_v1()
    assert lists.effective_write_ids.exceptions == (2, 4, 8)
    assert lists.assumed == ()
    assert Reader(write_ids=ValidWriteIds.as_of(3)).for_acid_v1().assumed == ()


def test_ids_in_words() -> None:
    """Runs are joined and long lists are counted, so that a sentence stays a sentence."""
    assert describe_ids([3]) == "3"
    assert describe_ids([1, 2, 3, 7, 9, 10]) == "1..3, 7, 9..10"
    assert describe_ids(range(1, 30, 2), limit=2) == "1, 3 and 13 more"
