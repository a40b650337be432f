"""Lists as people paste them: whole ones are taken, those that were cut off, wrapped or decorated are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from acidctl.errors import UsageError
from acidctl.format.list_texts import recognise, recognise_many
from acidctl.format.write_ids import MAX_ID
from tests.support.vectors import load

WHOLE = (
    "default.orders:9:8:8:6",
    "default.orders:9:8:8:",
    "default.orders:20:15:15,17:3,4,5",
    f"default.orders:9:{MAX_ID}::6,7",
    f"tbl:17:{MAX_ID}::",
    f"17${'default.t1:5:4:4:2'}$default.t2:9:{MAX_ID}::",
    "11:4:4-8,10:2,9",
    f"17:{MAX_ID}::",
    f"17:{MAX_ID}::12",
    "11:4:4:",
    # A query's own transaction is the lowest open one and not listed.
    "12:12::3",
)
HIVE2 = (f"5:{MAX_ID}:", "11:4:2:4:8", "207:205:202:203:205", f"11:{MAX_ID}:2:4")
CUT_OFF = ("default.orders:9:8:", "default.orders:9:8", "8:6", "default.orders:20:15", "11:4:", "9:8::")
BEGUN = (f"default.orders:9:{MAX_ID}", f"default.orders:9:{MAX_ID}:", f"30:{MAX_ID}", f"30:{MAX_ID}:", "11:4:4")


def _refused(ask: Callable[..., Any], texts: list[str], **options: Any) -> bool:
    try:
        ask(texts, **options)
    except UsageError:
        return True
    return False


def test_whole_lists_are_taken() -> None:
    """What Hive prints, also with empty fields at its end, is enough for every command."""
    for text in WHOLE:
        table = "default.t2" if "$" in text else None
        for decorated in (text, f"  {text}\r\n", "\ufeff" + text):
            recognise([decorated], table=table, complete=True)
            assert recognise([decorated], table=table).notes == ()
    for text in HIVE2:
        recognise([text], list_format="hive2", complete=True)


def test_full_vectors_are_taken() -> None:
    """Of the vectors of Hive's parser all but those with fewer fields, or with a lowest open id that is not open."""
    refused: dict[bool, set[str]] = {False: set(), True: set()}
    for case in load("write-id-lists"):
        form = {"txn23": "hive2", "txn31": "hive3"}.get(case["kind"])
        table = "default.t1" if case["kind"] == "txn_write_ids" else None
        text = case["serialized"]
        for complete, found in refused.items():
            options = {"list_format": form, "table": table, "complete": complete}
            if text and not case["expect_error"] and _refused(recognise, [text], **options):
                found.add(text)
    never = {"tbl:100:4:4", "d.t:9:7::", "t1:5:4::1,2,3", "t1:11:4::5,6,7,8", "42", "42$"}
    short = {f"d.t:9:{MAX_ID}", f"tbl:100:{MAX_ID}:", f"t1:21:{MAX_ID}:", f"30:{MAX_ID}"}
    assert refused == {False: never - {"tbl:100:4:4"}, True: never | short | {"1000:55:50:"}}


def test_lists_that_were_cut_off() -> None:
    """Commands that change data want every field; others refuse what contradicts itself and warn of the rest."""
    for text in (*CUT_OFF, *BEGUN):
        assert _refused(recognise, [text], complete=True), text
        assert _refused(recognise_many, [text], complete=True), text
    for text in CUT_OFF:
        assert _refused(recognise, [text]), text
    for text in BEGUN:
        (note,) = recognise([text]).notes
        assert "what is missing counts as empty" in note
    with pytest.raises(UsageError, match="has 3 fields of 4") as caught:
        recognise([HIVE2[0]], complete=True)
    assert "--list-format hive2" in str(caught.value.hint)
    with pytest.raises(UsageError, match="as only a transaction list of Hive 2 has"):
        recognise([HIVE2[1]], complete=True)


def test_every_prefix_without_all_fields_is_refused() -> None:
    """However a terminal or a clipboard cuts a list: only what is lost within its last field cannot be seen."""
    for text in WHOLE:
        if "$" not in text:
            for end in range(1, text.rindex(":") + 1):
                assert _refused(recognise, [text[:end]], complete=True), text[:end]


def test_a_wrapped_list_is_never_two_lists() -> None:
    """Wrapped anywhere, in two or in three lines, by no command."""
    for form, texts in ((None, WHOLE), ("hive2", HIVE2)):
        for text in texts:
            for cut in range(2, len(text)):
                for pieces in ([text[:cut], text[cut:]], [text[: cut // 2], text[cut // 2 : cut], text[cut:]]):
                    # Without `complete` more is taken, and without `recognise`'s limit of one of each kind.
                    assert _refused(recognise_many, pieces, list_format=form), pieces
                assert _refused(recognise, [f"{text[:cut]}\n{text[cut:]}"], list_format=form)


@pytest.mark.parametrize(
    ("text", "paste"),
    [
        ('"default.orders:9:8:8:6"', "default.orders:9:8:8:6"),
        ("'11:4:4:'", "11:4:4:"),
        ("\u201c11:4:4:\u201d", "11:4:4:"),
        ("hive.txn.tables.valid.writeids=17$default.orders:9:8:8:6", "17$default.orders:9:8:8:6"),
        ("hive.txn.valid.writeids=default.orders:9:8:8:6", "default.orders:9:8:8:6"),
        ("hive.txn.valid.txns = 11:4:4:", "11:4:4:"),
        ('valid_txns="11:4:4:"', '"11:4:4:'),
        ('["default.orders:9:8:8:6", "11:4:4:"]', "without brackets"),
        ('{"write_ids": "default.orders:9:8:8:6"}', "without brackets"),
        ("default.orders:9:8:8,", "unbroken"),
        ("17$default.orders:9:8:8:6$", "unbroken"),
        ("11:4:4-", "unbroken"),
        ("my list:9:8:8:6", "db.table:20"),
        ("default.orders:9:8:8:6 11:4:4:", "db.table:20"),
    ],
)
def test_decorations_are_refused_with_what_to_paste(text: str, paste: str) -> None:
    """Quotes, JSON, names of settings, half lines: each says what to paste instead."""
    for complete in (False, True):
        with pytest.raises(UsageError) as caught:
            recognise([text], complete=complete)
        assert paste in f"{caught.value.message} {caught.value.hint}"


def test_a_list_that_was_pasted_twice() -> None:
    """Without a break between, once whole and once of another time: no command takes one half of it."""
    for text in WHOLE:
        table = "default.t2" if "$" in text else None
        for complete in (False, True):
            assert _refused(recognise, [text + text], table=table, complete=complete) or recognise([text + text]).notes
    early, late = (f"17$default.t:{top}:{MAX_ID}::" for top in (9, 20))
    for pasted in (early + late, late + early, late + late):
        with pytest.raises(UsageError, match=r"write ids of default\.t twice") as caught:
            recognise([pasted])
        assert "run together" in str(caught.value.hint)


def test_two_lists_of_one_kind() -> None:
    """A reader has one of each; the lists of several readers have to be of one table."""
    for pair in (["db.t:5:9::", "db.t:6:9::"], ["11:4:4:", "12:4:4:"]):
        assert _refused(recognise, pair)
        assert not _refused(recognise_many, pair, complete=True)
    assert _refused(recognise_many, ["db.t:5:9::", "db.u:6:9::"])


def test_no_watermark_is_negative() -> None:
    """A dash from somewhere in front of a list would hide everything."""
    for text in (f"-17:{MAX_ID}::", f"default.t:-17:{MAX_ID}::", "-4:4:4:"):
        for complete in (False, True):
            assert _refused(recognise, [text], complete=complete), text


def test_one_list_a_part_and_a_plain_name() -> None:
    """Lists that ran together are none, and neither is one with more than a name in the place of the table."""
    for text in (f"default.t:2:{MAX_ID}::7:7:7:", f"2$default.t:2:{MAX_ID}::7:7:7:", f"9$default.t:9:{MAX_ID}::1::x"):
        for complete in (False, True):
            assert _refused(recognise, [text], complete=complete), text
    for name in ("hive.txn.tables.valid.writeids=default.t", 'default."t"', "default .t", "-'default.t", "hive> d.t"):
        for complete in (False, True):
            assert _refused(recognise, [f"17${name}:2:{MAX_ID}::"], complete=complete), name
