"""Texts looked up in tables, against the functions that make each text anew; and the gather that joins pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from acidctl.types import format_scalars, java_numbers, pieces
from acidctl.types.pieces import Coded, text_of

ROWS = 500
_DAY, _BILLION = 86_400, 10**9
_SPANS = ((-25_567, 47_482), (-25_570, -25_560), (0, 20_000), (47_470, 47_490), (18_000, 18_001))

Case = tuple[str, pa.Array, Callable[[pa.Array], Any], Callable[[pa.Array], pa.Array]]


def _whole(rng: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
    for most in (1, 10, 9_999, 10_000, 10**8 - 1, 10**8, 2**31, 2**62):
        for least in (0, -most, most - 1):
            yield rng.integers(least, most + 1, ROWS)


def _integers(rng: np.random.Generator) -> Iterator[Case]:
    for numbers in _whole(rng):
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
            if pc.cast(pa.array(numbers), kind, safe=False).cast(pa.int64()).equals(pa.array(numbers)):
                yield "integers", pa.array(numbers, kind), pieces.integers, lambda array: pc.cast(array, pa.string())


def _floats(rng: np.random.Generator) -> Iterator[Case]:
    values = [np.round(rng.random(ROWS) * 10**size, digits) for size in range(9) for digits in range(6)]
    values += [rng.integers(-50, 50, ROWS) / 1e4, np.where(rng.random(ROWS) < 0.5, -0.0, 0.5)]
    values += [rng.integers(9_999_990, 10_000_010, ROWS) / 1e3, np.where(rng.random(ROWS) < 0.01, np.inf, 1.0)]
    values += [-numbers for numbers in values] + [np.where(rng.random(ROWS) < 0.01, np.nan, 1.25)]
    for numbers in values:
        for kind in (pa.float32(), pa.float64()):
            yield "floats", pa.array(numbers, kind), pieces.floats, format_scalars.shortest_floats
        yield "Java's", pa.array(numbers), pieces.floats, java_numbers.doubles


def _decimals(rng: np.random.Generator) -> Iterator[Case]:
    for scale in (0, 1, 2, 4, 5, 8, 9, 18, 19, 30):
        for numbers in (*_whole(rng), rng.integers(-50, 50, ROWS) * 100):
            exact = [Decimal(int(number)).scaleb(-scale) for number in numbers]
            array = pa.array(exact, pa.decimal128(38, scale))
            yield "decimals", array, partial(pieces.decimals, cut=False), format_scalars.decimals
            yield "short decimals", array, partial(pieces.decimals, cut=True), format_scalars.short_decimals
    beyond = [Decimal(2**63 + step) * sign for step in (-1, 0, 1) for sign in (-1, 1)]
    yield (
        "64 bits",
        pa.array(beyond, pa.decimal128(38, 0)),
        partial(pieces.decimals, cut=False),
        format_scalars.decimals,
    )


def _moments(rng: np.random.Generator) -> Iterator[Case]:
    for first, last in _SPANS:
        days = pa.array(rng.integers(first, last, ROWS).astype(np.int32)).view(pa.date32())
        yield "dates", days, pieces.dates, format_scalars.dates
        for step in (1, 1_000, 10**6, 10**8, 10**9):
            nanos = rng.integers(0, _BILLION, ROWS) // step * step
            ticks = pa.array(rng.integers(first * _DAY, last * _DAY, ROWS) * _BILLION + nanos)
            for zone in (None, "UTC"):
                array, local = ticks.view(pa.timestamp("ns", zone)), zone is not None
                quick = partial(pieces.timestamps, local=local, least=0)
                yield "timestamps", array, quick, partial(format_scalars.timestamps, local=local)
            quick = partial(pieces.timestamps, local=False, least=1)
            yield "with a fraction", ticks.view(pa.timestamp("ns")), quick, format_scalars.timestamps_with_fraction


@pytest.mark.parametrize("cases", [_integers, _floats, _decimals, _moments])
def test_tables_tell_what_is_made_anew(cases: Callable[[np.random.Generator], Iterator[Case]]) -> None:
    """Whole, with NULLs, and as a part of an array; and some of each kind are looked up."""
    rng = np.random.default_rng(20261125)
    looked_up: dict[str, int] = {}
    for name, array, quick, slow in cases(rng):
        valid = pa.array(rng.random(len(array)) < 0.8)
        holes = pc.if_else(valid, array, pa.scalar(None, array.type))
        for one in (array, holes, holes.slice(len(array) // 3), array.slice(5, 1), array.slice(0, 0), holes[:0]):
            found = quick(one)
            if found is not None:
                looked_up[name] = looked_up.get(name, 0) + 1
                assert text_of(found, len(one), nulls=None).equals(slow(one)), (name, one)
                assert not one.null_count or len(found) == 1
    assert min(looked_up.values()) > 3, looked_up


def test_pieces_are_joined_row_by_row() -> None:
    """A NULL makes the row NULL, or is a word; constants may be any bytes; a table is looked up by its codes."""
    texts = pa.array(["a", None, "", "d"])
    coded = Coded(pa.array(["zero", "one"]), np.array([1, 0, 1, 0], dtype=np.int8))
    parts = [b"<", b"<", texts, b"\xc3\xa9,", coded, texts.slice(0), b">"]
    assert text_of(parts, 4, nulls=None).to_pylist() == ["<<aé,onea>", None, "<<é,one>", "<<dé,zerod>"]
    assert text_of(parts, 4, nulls="?").to_pylist()[1] == "<<?é,zero?>"
    assert text_of([coded], 4, nulls=None).to_pylist() == ["one", "zero", "one", "zero"]
    assert text_of([texts], 4, nulls="?").to_pylist() == ["a", "?", "", "d"]
    assert text_of([], 2, nulls=None).to_pylist() == ["", ""]
    assert text_of([b"x"], 0, nulls=None).to_pylist() == []
    assert text_of([b"\xff"], 1, nulls=None).view(pa.binary()).to_pylist() == [b"\xff"]
