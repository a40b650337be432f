"""Ordered work in threads."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

from acidctl.pipeline import ordered_map, read_ahead


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


def test_reading_ahead_keeps_items_and_order() -> None:
    """What the thread produces is what comes out."""
    assert list(read_ahead(iter(range(100)))) == list(range(100))


def test_reading_ahead_raises_in_place() -> None:
    """Items before the error come first."""

    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken"):
        next(ahead)


def test_a_closed_reader_ends_its_thread_and_closes_the_source() -> None:
    """Nothing runs on after a consumer that has seen enough, and it was never far ahead."""
    produced: list[int] = []
    closed: list[bool] = []

    def items() -> Iterator[int]:
        try:
            for n in range(1000):
                produced.append(n)
                yield n
        finally:
            closed.append(True)

    ahead = read_ahead(items(), depth=2)
    assert next(ahead) == 0
    ahead.close()  # type: ignore[attr-defined]
    assert closed == [True]
    assert len(produced) <= 5
    assert not [t for t in threading.enumerate() if t.name == "acidctl-read-ahead"]
