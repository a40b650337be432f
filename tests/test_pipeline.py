"""Ordered work in threads."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from acidctl.pipeline import ordered_map


def test_results_come_in_the_order_of_the_items() -> None:
    """However long each piece of work takes."""

    def slow(n: int) -> int:
        time.sleep(random.random() / 200)
        return n * n

    assert list(ordered_map(slow, range(40), workers=4)) == [n * n for n in range(40)]


def test_the_stream_is_not_read_far_ahead() -> None:
    """Memory is bounded: a consumer that stops reading stops the producer."""
    read: list[int] = []

    def items() -> Iterator[int]:
        for n in range(1000):
            read.append(n)
            yield n

    results = ordered_map(lambda n: n, items(), workers=2)
    assert next(results) == 0
    assert len(read) <= 8
    results.close()  # type: ignore[attr-defined]


def test_an_error_appears_after_the_results_before_it() -> None:
    """What was right is not lost when a later item fails."""

    def fails_at_three(n: int) -> int:
        if n == 3:
            raise ValueError("three")
        return n

    results = ordered_map(fails_at_three, range(9), workers=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
