"""Random histories in real Hive 3.1.3 and in Hive 2.3.10 (ACID v1): their rows are ours after every step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.histories import History
from tests.services.hive3 import start_hive

pytestmark = pytest.mark.hive3
STEPS = 10


@pytest.mark.parametrize(("version", "list_format"), [("3.1.3", None), ("2.3.10", "hive2")])
def test_random_histories(version: str, list_format: str | None, tmp_path: Path) -> None:
    """Inserts, updates, deletes, aborted and open transactions, compactions and cleaning, in an order of chance."""
    with start_hive(version, tmp_path) as hive:
        for seed in range(3):
            compared = History(hive, f"h{seed}", seed, list_format=list_format).live(STEPS)
            assert len(compared) == STEPS
            assert max(compared) > 0
