"""Files that contradict their own statistics: other rows than the writer counted are not delivered as if they were."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from acidctl.errors import DamagedDataError
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.scan_check import extremes
from acidctl.orc.tail import OrcKind
from tests.support.fuzz.orcbytes import DATA, OrcBytes, put, value
from tests.support.orc_files import EVENT, by_arrow, by_pyorc, fixture_files

COLUMNS = (
    "row:struct<b:boolean,i:int,l:bigint,f:float,g:double,s:string,v:varchar(9),c:char(4),x:binary,d:date,"
    "q:decimal(9,2),a:array<int>,n:struct<p:int,u:uniontype<int,string>>,m:map<string,int>,t:timestamp>"
)
# What nobody can add up alike: containers, what lies below maps and unions, and moments.
NOT_COMPARED = {OrcKind.STRUCT, OrcKind.LIST, OrcKind.MAP, OrcKind.UNION, OrcKind.TIMESTAMP}


def _written(step: int) -> bytes:
    """Twelve events whose values all depend on `step`."""
    rows = []
    for i in range(12):
        n = i * step
        none = i % 5 == 4
        row = (
            *(i % step == 0, n, -n * 2**40, n / 4, n / 3, "é" * n, "v" * (n % 9), "c", bytes(n)),
            *(date(2020, 1, 1 + n % 28), Decimal(n) / 4, [n, None], None if none else (n, n), {"k": n}, n),
        )
        rows.append((i % step, step, 536870912 + n, n, step, row))
    return by_pyorc(f"struct<{EVENT},{COLUMNS}>", rows)


def _statistics(orc: OrcBytes) -> list[int]:
    """Places of the statistics in the footer, by column."""
    return [place for place, node in enumerate(orc.footer) if node[0] == 7]


def _read(data: bytes, **options: Any) -> OrcFile:
    orc = open_orc(io.BytesIO(data), name="f")
    for _ in orc.scan(**options):
        pass
    return orc


def _complaint(data: bytes) -> str:
    try:
        _read(data)
    except DamagedDataError as error:
        return error.message
    return ""


def test_every_column_is_held_against_its_statistics() -> None:
    """With those of another file for one column at a time, whatever can be added up is noticed; the rest is read."""
    data, other = _written(2), OrcBytes(_written(3))
    types = _read(data).tail.types
    # The lengths of char(4) are all the same.
    hidden = {column for column, entry in enumerate(types) if entry.kind is OrcKind.CHAR}
    for entry in types:
        if entry.kind in (OrcKind.MAP, OrcKind.UNION):
            hidden |= set(entry.subtypes)
    noticed = set()
    for column, entry in enumerate(types):
        orc = OrcBytes(data)
        orc.footer[_statistics(orc)[column]] = other.footer[_statistics(other)[column]]
        said = _complaint(orc.build())
        if said:
            noticed.add(column)
            assert f"column {column} does not match its statistics: the " in said
        compared = entry.kind not in NOT_COMPARED and column not in hidden
        assert (column in noticed) is compared, (column, entry)


def _keys_changed(orc: OrcBytes) -> None:
    stripe = orc.stripes[0]
    row_id = next(i for i, part in enumerate(stripe.parts) if (part.kind, part.column) == (DATA, 4))
    bucket = next(i for i, part in enumerate(stripe.parts) if (part.kind, part.column) == (DATA, 2))
    stripe.blobs[row_id] = stripe.blobs[bucket]


def _encodings_lost(orc: OrcBytes) -> None:
    for node in orc.stripes[0].footer:
        if node[0] == 2:
            put(node[2], 1, 0)


def _fewer_rows(orc: OrcBytes) -> None:
    put(orc.stripes[0].node[2], 5, 11)
    put(orc.footer, 6, 11)


def _no_rows(orc: OrcBytes) -> None:
    orc.footer[:] = [node for node in orc.footer if node[0] not in (3, 6)]
    orc.stripes.clear()


def _no_presence(orc: OrcBytes) -> None:
    """NULLs become values."""
    stripe = orc.stripes[0]
    place = next(i for i, part in enumerate(stripe.parts) if part.kind == 0)
    del stripe.parts[place], stripe.blobs[place]
    del stripe.footer[[i for i, node in enumerate(stripe.footer) if node[0] == 1][place]]


@pytest.mark.parametrize("change", [_keys_changed, _encodings_lost, _fewer_rows, _no_rows, _no_presence])
def test_other_rows_of_sound_values(change: Callable[[OrcBytes], None]) -> None:
    """What describes the values is wrong, and every length fits: the file is damaged, not another one."""
    for data in (_written(2), by_arrow(pa.table({"i": [5, None, 7], "s": ["a", "b", None], "j": [2, 2, 2]}))):
        orc = OrcBytes(data)
        if change is _keys_changed and not orc.acid:
            continue
        change(orc)
        if change is _fewer_rows and not orc.acid:
            put(orc.stripes[0].node[2], 5, 2)
            put(orc.footer, 6, 2)
        with pytest.raises(DamagedDataError):
            _read(orc.build())


def test_parts_and_uncounted_files_are_read() -> None:
    """A scan of some stripes, an abandoned one, and files whose writers keep no statistics claim nothing."""
    data = _written(2)
    orc = open_orc(io.BytesIO(data), name="f")
    assert sum(map(len, orc.scan(batch_size=5))) == 12
    assert next(orc.scan(batch_size=5)).num_rows == 5
    assert sum(map(len, orc.scan(["rowId"]))) == 12
    uncounted = [path.read_bytes() for path in fixture_files("hive[23]/*/*minor/table")]
    uncounted = [content for content in uncounted if not value(OrcBytes(content).footer, 8)]
    assert len(uncounted) > 20
    for content in uncounted[::4]:
        _read(content, batch_size=2)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.decimal128(38, 2), pa.int64()], ids=str)
def test_extremes_are_those_of_arrow(kind: pa.DataType) -> None:
    """Whichever way finds them, in a part of an array too, and of decimals beyond 64 bits."""
    lists: list[list[Any]] = [[3, None, -5, 7], [4], [-4, -9], [0, None]]
    if pa.types.is_decimal(kind):
        lists = [[None if one is None else Decimal(one) for one in some] for some in lists]
        lists += [[Decimal(10) ** 25, Decimal(1)], [Decimal(-1), -(Decimal(10) ** 25)], [Decimal(1 << 63), Decimal(-1)]]
    elif pa.types.is_floating(kind):
        lists += [[float("nan"), 2.5, None, -1.5], [float("inf"), float("-inf")], [0.0, -0.0]]
    for some in lists:
        array = pa.array([9, *some, 9], kind).slice(1, len(some))
        bounds = pc.min_max(array).as_py()
        assert extremes(array) == (bounds["min"], bounds["max"])
