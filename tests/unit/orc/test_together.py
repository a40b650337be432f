"""Many small files decoded by one call: the rows of each, as they are when it is read alone."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from acidctl.errors import DamagedDataError
from acidctl.format.events import EventBatch, EventKeys
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.reader import OrcFile, open_orc, scan_together
from acidctl.types.hive_types import StructType
from acidctl.types.schema import parse_type
from tests.support.orc_events import keys, written

TYPES: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "n": ("bigint", pa.int64(), [1, -(2**63), 2**63 - 1]),
    "i": ("int", pa.int32(), [7, -3, 0]),
    "s": ("string", pa.string(), ["a", "", "ü" * 40]),
    "b": ("binary", pa.binary(), [b"\x00", b"", b"xyz"]),
    "c": ("char(4)", pa.string(), ["ab", "", "abcd"]),
    "f": ("double", pa.float64(), [0.5, -0.0, float("nan")]),
    "t": ("boolean", pa.bool_(), [True, False, True]),
    "d": ("date", pa.date32(), [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)]),
    "m": ("timestamp", pa.timestamp("ns"), [datetime(2020, 1, 1), datetime(1999, 5, 5, 5, 5), datetime(1980, 1, 1)]),
    "e": ("decimal(20,3)", pa.decimal128(20, 3), [Decimal("1.500"), Decimal("-99999.999"), Decimal("0.000")]),
    "l": ("array<int>", pa.list_(pa.int32()), [[1, 2], [], [3]]),
}


def opened(data: bytes) -> OrcFile:
    """A file in memory."""
    return open_orc(io.BytesIO(data), name="f")


def made(number: int, *, nulls: bool) -> bytes:
    """A small file; each has other keys and, shifted by its number, the same values."""
    columns: list[pa.Array] = []
    for _, kind, values in TYPES.values():
        some: list[Any] = [values[(row + number) % 3] for row in range(3 + number)]
        columns.append(pa.array([None if nulls and row == number else v for row, v in enumerate(some)], kind))
    text = ",".join(f"{name}:{kind}" for name, (kind, _, _) in TYPES.items())
    schema = parse_type(f"struct<{text}>")
    assert isinstance(schema, StructType)
    own = keys(3 + number, write_id=number + 1)
    return written([EventBatch(own, tuple(columns))], schema)[0]


@pytest.mark.parametrize("nulls", [False, True])
def test_together_and_alone_are_the_same(nulls: bool) -> None:
    """Every type, with NULLs and without, whole rows and some columns in another order."""
    files = [opened(made(number, nulls=nulls)) for number in range(5)]
    for columns, places in (
        ((*KEY_FIELDS, "row"), tuple(range(len(TYPES)))),
        ((*KEY_FIELDS, "row"), (4, 2)),
        (KEY_FIELDS, ()),
    ):
        alone = pa.Table.from_batches([batch for orc in files for batch in orc.scan(columns, fields=places)])
        together = scan_together(files, columns, places)
        assert together is not None
        assert together.schema.equals(alone.schema)
        # NaN is not equal to itself.
        assert repr(together.to_pylist()) == repr(alone.to_pylist())


def test_a_file_that_contradicts_itself_is_not_among_others() -> None:
    """What the statistics of one file deny is left to the reading of that file, which says so."""
    files = [made(number, nulls=False) for number in range(3)]
    broken = opened(files[1])
    statistics = list(broken.tail.statistics)
    wrong = statistics[7]
    assert wrong.values is not None
    statistics[7] = replace(wrong, values=replace(wrong.values, minimum=0, maximum=0))
    liar = OrcFile(io.BytesIO(files[1]), replace(broken.tail, statistics=tuple(statistics)))
    group = [opened(files[0]), liar, opened(files[2])]
    assert scan_together(group, (*KEY_FIELDS, "row"), tuple(range(len(TYPES)))) is None
    with pytest.raises(DamagedDataError, match="contradicts itself: column 7"):
        list(liar.scan())


def test_files_that_differ_are_read_alone() -> None:
    """Other columns, another codec, and a file that is not in memory."""
    one = opened(made(0, nulls=False))
    schema = parse_type("struct<n:bigint>")
    assert isinstance(schema, StructType)
    other = opened(written([EventBatch(keys(2), (pa.array([1, 2]),))], schema)[0])
    assert scan_together([one, other], KEY_FIELDS, ()) is None
    assert scan_together([one, opened(made(1, nulls=False))], KEY_FIELDS, ()) is not None


def test_keys_of_events_are_those_of_their_files() -> None:
    """The keys come file by file."""
    files = [opened(made(number, nulls=False)) for number in range(4)]
    batch = scan_together(files, KEY_FIELDS, ())
    assert batch is not None
    assert batch.column("originalTransaction").to_pylist() == [n + 1 for n in range(4) for _ in range(3 + n)]
    assert isinstance(keys(1), EventKeys)
