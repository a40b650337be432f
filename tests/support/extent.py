"""How much a run of the tests goes through: a sample in minutes, what a change has to pass, or all of it in hours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

# Set to "check" by `make check`, to "sweep" by `make sweep`; `make test` and `make mutate` take samples.
EXTENT = os.environ.get("ACIDCTL_EXTENT", "sample")
assert EXTENT in ("sample", "check", "sweep"), f"ACIDCTL_EXTENT={EXTENT}: expected sample, check or sweep"
# Every fixture step instead of chosen ones, each by every reader, and a fault at every call.
SWEEP = EXTENT == "sweep"
SAMPLE = EXTENT == "sample"
# In a sample a fault meets an eighth of the calls that it meets before a change lands.
_FEWER_CALLS = 8
_FEWER = 4


def amount(checked: int, *, swept: int, sample: int | None = None) -> int:
    """How many random cases."""
    return {"sample": sample or -(-checked // _FEWER), "check": checked, "sweep": swept}[EXTENT]


def every(otherwise: int, *, whole: bool = False) -> int:
    """A fault meets every call of a run, or every second, third, ... where it is enough that another test has it so."""
    if SWEEP:
        return 1
    return (1 if whole else otherwise) * (_FEWER_CALLS if SAMPLE else 1)


def some(values: Iterable[T], *, one_of: int = _FEWER, first: int = 0, checked: int = 1) -> list[T]:
    """A fourth of them in a sample, or fewer, or more, from the first on or a later one; else all of them.

    Where each takes a service long, one of `checked` is enough for a change to land.
    """
    step = {"sample": one_of, "check": checked, "sweep": 1}[EXTENT]
    return list(values)[first % step :: step]


def in_turn(number: int, among: Sequence[str]) -> Sequence[str]:
    """The one of several services that test `number` uses, or all of them."""
    return among if SWEEP else [among[number % len(among)]]
