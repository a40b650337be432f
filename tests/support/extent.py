"""How much a run of the tests goes through: chosen cases in a few minutes, or all of them in some hours."""

from __future__ import annotations

import os
from collections.abc import Sequence

# Set for `make sweep`: every fixture step instead of chosen ones, each by every reader, and a fault at every call.
SWEEP = bool(os.environ.get("ACIDCTL_SWEEP"))


def amount(few: int, *, swept: int) -> int:
    """How many random cases."""
    return swept if SWEEP else few


def every(otherwise: int, *, whole: bool = False) -> int:
    """A fault meets every call of a run, or every second, third, ... where it is enough that another test has it so."""
    return 1 if whole or SWEEP else otherwise


def in_turn(number: int, among: Sequence[str]) -> Sequence[str]:
    """The one of several services that test `number` uses, or all of them."""
    return among if SWEEP else [among[number % len(among)]]
