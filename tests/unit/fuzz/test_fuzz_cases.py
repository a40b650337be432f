"""A share of the fuzz cases of `make fuzz`, another seed than there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.extent import amount
from tests.support.fuzz.pool import KINDS, SHARES, Run

CASES = amount(400, swept=1000)

pytestmark = pytest.mark.slow


def test_a_share_of_the_fuzz_cases(tmp_path: Path) -> None:
    """No crash, no internal error, no case that takes too long or too much, and no other rows without a word."""
    run = Run("suite", tmp_path, workers=2)
    # At once: a worker makes the tables and leftovers of a kind at its first case.
    run.cases([(kind, number) for kind in KINDS for number in range(CASES * SHARES[kind] // 100)])
    assert sum(run.done.values()) == CASES
    assert {kind for kind in KINDS if run.done[kind]} == set(KINDS)
    assert not run.findings, run.findings
