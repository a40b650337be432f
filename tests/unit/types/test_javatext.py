"""Floating-point text of Java 17: known values, the two implementations against each other and against a JVM."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acidctl.types.java_numbers import double_text, doubles, float_text

# Printed by Java 17; the second form is what a shortest algorithm would print, where that differs.
KNOWN = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.0, "1.0"),
    (0.001, "0.001"),
    (9.99e-4, "9.99E-4"),
    (9999999.0, "9999999.0"),
    (1e7, "1.0E7"),
    (123456789.5, "1.234567895E8"),
    (2.0**-44, "5.6843418860808015E-14"),  # shortest: 5.684341886080802e-14
    (2e23, "1.9999999999999998E23"),  # shortest: 2e+23
    (8.41e21, "8.409999999999999E21"),  # shortest: 8.41e+21
    (2.0**60, "1.15292150460684698E18"),  # shortest: 1.152921504606847e+18
    (5e-324, "4.9E-324"),  # shortest: 5e-324
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
    (math.nan, "NaN"),
]


@pytest.mark.parametrize(("value", "text"), KNOWN)
def test_known_values(value: float, text: str) -> None:
    """Both the exact and the columnar form print what Java prints."""
    assert double_text(value) == text
    assert doubles(pa.array([value])).to_pylist() == [text]


@pytest.mark.slow
@given(st.lists(st.one_of(st.floats(), st.none()), max_size=20))
def test_columnar_equals_exact(values: list[float | None]) -> None:
    """The columnar shortcut prints what repeating Java's digit generation prints; NULL stays NULL."""
    expected = [None if value is None else double_text(value) for value in values]
    assert doubles(pa.array(values, pa.float64())).to_pylist() == expected


@given(st.lists(st.integers(-(2**53), 2**53).map(float), max_size=20), st.integers(0, 60))
def test_binary_fractions(values: list[float], shift: int) -> None:
    """Numbers that lie exactly between two decimals, where ties decide."""
    scaled = [value / 2.0**shift for value in values]
    assert doubles(pa.array(scaled, pa.float64())).to_pylist() == [double_text(v) for v in scaled]


def test_slices() -> None:
    """A slice is rendered, not what lies before it."""
    array = pa.array([1e300, None, 0.5, 2.0])
    assert doubles(array.slice(1)).to_pylist() == [None, "0.5", "2.0"]


def samples(count: int) -> dict[str, npt.NDArray[np.float64]]:
    """Doubles of every kind; the seed is fixed so that a failure repeats."""
    rng = np.random.default_rng(20261121)
    powers = 2.0 ** np.arange(-1074, 1024)
    tens = np.array([float(f"{digit}e{power}") for power in range(-323, 308) for digit in range(1, 10)])
    with np.errstate(over="ignore"):
        return {
            "unit": rng.random(count),
            "widened floats": rng.random(count).astype(np.float32).astype(np.float64),
            "any bits": rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64),
            "amounts": np.round(rng.random(count) * 1e6, 2) * 10.0 ** rng.integers(-12, 12, count),
            "integers": rng.integers(-(2**63), 2**63 - 1, count).astype(np.float64),
            "fractions": rng.integers(0, 2**53, count) * 2.0 ** -rng.integers(0, 60, count).astype(np.float64),
            "large": rng.random(count // 10) * 10.0 ** rng.integers(14, 50, count // 10),
            "subnormal": rng.integers(0, 2**52, count // 10).view(np.float64),
            "around powers of two": np.concatenate([powers, np.nextafter(powers, 0), np.nextafter(powers, np.inf)]),
            "digits and zeros": tens,
        }


@pytest.mark.orctools
@pytest.mark.parametrize("kind", list(samples(10)))
def test_doubles_against_a_jvm(kind: str) -> None:
    """A million doubles of several kinds are printed as a real Java 17 prints them."""
    from tests.support.orc_tools import program

    values = samples(100_000)[kind]
    expected = program("FloatTexts", "d", stdin=values.astype(">f8").tobytes()).decode().split("\n")[:-1]
    assert doubles(pa.array(values)).to_pylist() == expected


@pytest.mark.orctools
@pytest.mark.parametrize("kind", list(samples(10)))
def test_floats_against_a_jvm(kind: str) -> None:
    """Single floats are printed as a real Java 17 prints them."""
    from tests.support.orc_tools import program

    with np.errstate(over="ignore", invalid="ignore"):
        values = samples(20_000)[kind].astype(np.float32)
    expected = program("FloatTexts", "f", stdin=values.astype(">f4").tobytes()).decode().split("\n")[:-1]
    assert [float_text(value) for value in values.tolist()] == expected
