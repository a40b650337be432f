"""Keys of one stream looked for in another, however both are cut into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pytest

from acidctl.format.events import EventBatch, EventKeys, RowId
from acidctl.rows.containment import missing_key

Key = tuple[int, int, int]


def batches(keys: Sequence[Key], random: Random) -> Iterator[EventBatch]:
    """The keys as batches of any size, some of them empty."""
    at = 0
    while at < len(keys) or random.random() < 0.2:
        end = at + random.randint(0, 4)
        columns = np.array(keys[at:end], dtype=np.int64).reshape(-1, 3)
        yield EventBatch(EventKeys(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 0]))
        at = end


def some(random: Random, most: int) -> list[Key]:
    """Keys in their order; few different ones, so that runs of one write and gaps are common."""
    return sorted(
        (random.randint(1, 3), random.randint(0, 1), random.randint(0, 6)) for _ in range(random.randint(0, most))
    )


@pytest.mark.parametrize("seed", range(300))
def test_the_first_key_that_is_not_there_is_found(seed: int) -> None:
    """As a set would say; keys may be wanted more than once."""
    random = Random(seed)
    wanted = some(random, 12)
    held = sorted({*some(random, 30), *(wanted if seed % 2 else ())} - {(1, 0, 3)})
    missing = [key for key in wanted if key not in held]
    looked_for, found = missing_key(batches(wanted, random), batches(held, random))
    assert found == (RowId(*missing[0]) if missing else None)
    if not missing:
        assert looked_for == len(wanted)


def test_no_more_than_a_batch_of_each_side_is_held() -> None:
    """Few keys, looked for among many: batches are let go as they are passed."""
    alive = 0

    class Counted(EventKeys):
        """Keys that say when they are let go."""

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    most = 0

    def held() -> Iterator[EventBatch]:
        nonlocal alive, most
        for start in range(0, 1_000_000, 1000):
            rows = np.arange(start, start + 1000, dtype=np.int64)
            one = np.ones(1000, dtype=np.int64)
            batch = EventBatch(Counted(one, one, rows, one))
            alive += 1
            most = max(most, alive)
            yield batch
            del batch

    wanted = np.array([3, 999_999], dtype=np.int64)
    one = np.ones(2, dtype=np.int64)
    assert missing_key([EventBatch(EventKeys(one, one, wanted, one))], held()) == (2, None)
    assert most <= 4
