"""Seconds by phase: each moment of a thread counts once, for the phase that it belongs to."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from acidctl import phases


class Ticks:
    """A clock that shows what it is set to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    """The clock of the module."""
    clock = Ticks()
    monkeypatch.setattr(phases, "perf_counter", clock)
    return clock


def spent(before: dict[str, float]) -> dict[str, float]:
    """What has been counted since, without phases that have nothing."""
    return {name: seconds for name, seconds in phases.since(before).items() if seconds}


def test_a_phase_inside_of_another_stops_its_clock(ticks: Ticks) -> None:
    """Deflating is not counted as encoding as well."""
    before = phases.so_far()
    with phases.phase("encode"):
        ticks.now = 1.0
        with phases.phase("deflate"):
            ticks.now = 3.0
        ticks.now = 3.5
    assert spent(before) == {"encode": 1.5, "deflate": 2.0}


def test_reading_back_counts_as_verification(ticks: Ticks) -> None:
    """What a verification reads is a part of it."""
    before = phases.so_far()
    with phases.phase("verify"), phases.phase("read"):
        ticks.now = 2.0
    assert spent(before) == {"verify": 2.0}


def test_items_are_timed_and_who_takes_them_is_not(ticks: Ticks) -> None:
    """Between two items the clock stands still, and closing reaches the source."""
    closed = []

    def source() -> Iterator[int]:
        try:
            for number in range(3):
                ticks.now += 1.0
                yield number
        finally:
            closed.append(True)

    before = phases.so_far()
    items = phases.timed("read", source())
    assert (next(items), next(items)) == (0, 1)
    ticks.now += 10.0
    items.close()  # type: ignore[attr-defined]
    assert spent(before) == {"read": 2.0}
    assert closed


def test_threads_are_added_up() -> None:
    """Each thread has phases of its own, and all are counted."""
    before = phases.so_far()
    inside = threading.Barrier(2)

    def work() -> None:
        with phases.phase("merge"):
            inside.wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert spent(before)["merge"] > 0
    assert phases.added([{"merge": 1.0}, {"merge": 2.0, "list": 0.5}])["merge"] == 3.0
