"""Random histories in real Hive 4: its rows are ours after every step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.histories import History
from tests.services.hive import HIVE4, Hive

pytestmark = pytest.mark.hive
STEPS = 9


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """A running Hive 4 with an empty warehouse."""
    with Hive(HIVE4, tmp_path_factory.mktemp("hive4")) as running:
        yield running


@pytest.mark.parametrize("seed", range(3))
def test_random_history(hive: Hive, seed: int) -> None:
    """Inserts, updates, deletes, aborted and open transactions, compactions and cleaning, in an order of chance."""
    compared = History(hive, f"h{seed}", seed).live(STEPS)
    assert len(compared) == STEPS
    assert max(compared) > 0
