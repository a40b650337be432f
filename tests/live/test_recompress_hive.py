"""Real Hive skips row groups of deflated files, and finds in the others the rows that it finds without skipping."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.live.test_writer_hive import answers, put
from tests.live.test_writer_hive import made as made_table
from tests.services.hive import Hive
from tests.support.orc_events import EventBatch
from tests.unit.orc.test_recompress import CHUNKS, STRIPES, TYPES, made, values
from tests.unit.orc.test_writer import columns_of

# Columns whose readers start in mid-stream when groups before are skipped; each predicate hits groups far apart.
PREDICATES: dict[str, Callable[[Any], bool]] = {
    "id between 1234 and 1240": lambda row: 1234 <= row["id"] <= 1240,
    "id in (3, 1999, 2000, 3999)": lambda row: row["id"] in (3, 1999, 2000, 3999),
    "id > 3490 and s like '%a%'": lambda row: row["id"] > 3490 and "a" in (row["s"] or ""),
}


def check(hive: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    """With tiny chunks and usual ones, in many stripes and one; rows by row reader and vectorised."""
    # Hive makes no splits of files with instants.
    types = {name: kind for name, kind in TYPES.items() if name != "tl"}
    columns = columns_of("struct<" + ",".join(f"{name}:{kind}" for name, kind in types.items()) + ">")
    whole_batch = values(True)
    kept = tuple(array for name, array in zip(TYPES, whole_batch.columns, strict=True) if name in types)
    batch = EventBatch(whole_batch.keys, kept)
    for chunk, stripe in ((CHUNKS["tiny"], STRIPES["many"]), (CHUNKS["usual"], STRIPES["one"])):
        folder = made_table(hive, "deflated", types)
        data, _ = made(batch, monkeypatch, columns=columns, chunk=chunk, stripe_size=stripe)
        put(folder / "base_0000005", data)
        session = hive.session()
        session.set("hive.optimize.index.filter", "false")
        session.set("hive.optimize.ppd.storage", "false")
        whole: dict[int, str] = {}
        for line in hive.rows("select ROW__ID, * from deflated"):
            whole[json.loads(line)["id"]] = line
        assert len(whole) == len(batch)
        rows: list[Any] = [json.loads(line) for line in whole.values()]
        text = next(row["s"] for row in rows if row["id"] > 2700 and row["s"])
        predicates = PREDICATES | {f"s = '{text}'": lambda row, text=text: row["s"] == text}
        session.set("hive.optimize.index.filter", "true")
        session.set("hive.optimize.ppd.storage", "true")
        for where, holds in predicates.items():
            expected = sorted(whole[row["id"]] for row in rows if holds(row))
            assert 0 < len(expected) < len(whole)
            for found in answers(hive, "deflated", f"where {where}"):
                assert found == expected, where
        hive.run("drop table deflated")


@pytest.mark.hive
def test_hive4_skips_row_groups(hive4: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    check(hive4, monkeypatch)


@pytest.mark.hive3
def test_hive3_skips_row_groups(hive3: Hive, monkeypatch: pytest.MonkeyPatch) -> None:
    check(hive3, monkeypatch)
