"""A share of the histories with killed processes; `make histories` plays 200."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.extent import amount
from tests.support.killed_histories import histories


@pytest.mark.slow
def test_readers_read_their_rows_whoever_is_killed(tmp_path: Path) -> None:
    """Two compactors, a cleaner and a writer at once, with leftovers, links and bounds."""
    seen = histories(range(1000, 1000 + amount(6, swept=6)), keep=tmp_path)
    assert seen["killed"] > 1, seen
    assert seen["published"] > 1, seen
    assert seen["reads"] > 15, seen
    assert seen["stripes copied"] > 20, seen
