"""Tables whose compactions `acidctl worker` does while Hive writes; a long run is `make sweep`'s."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.metastore import Metastore
from tests.support.extent import amount
from tests.support.metastore_histories import histories

pytestmark = [pytest.mark.metastore, pytest.mark.timeout(900)]


def test_the_worker_beside_writers(metastore4: Metastore, tmp_path: Path) -> None:
    """After each step table, twin and `acidctl snapshot` agree; no request stays, one directory a partition is left."""
    run = histories(metastore4, tmp_path, minutes=amount(2, swept=20, sample=1) / 10, seed=2, threads=1)
    print(run.seen, run.notes)
    assert run.differences == []
    assert run.seen["comparisons of acidctl with Hive"] >= 3
    assert run.seen["worker: ended compacted"] >= 1
