"""The real run of `compact`, and of `clean` after it, with every storage call failing or being the last one in turn.

Orchestrator, tasks and commit share one storage on which one call goes wrong. Whatever was done by then, readers get
the rows that they got before, and the next run of the command completes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from acidctl.errors import ExitCode
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from tests.support.breaking import WAYS, Bench, in_turn
from tests.support.cleaning_cases import MADE, tree
from tests.support.extent import every
from tests.support.faulty import Fault, FaultyStorage, Hit, broken_run

_READING = ("stat ", "walk ", "open ")
_TORN_IN_PART = ("write ", "create_exclusive ", "remove_tree ")


@pytest.fixture(autouse=True)
def _one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does any test here cut the power."""
    in_turn(monkeypatch)


def _calls(names: Sequence[str], fault: Fault) -> list[int]:
    """Numbers of those calls of a run at which a fault makes a difference.

    A call that changes nothing cannot be done and fail all the same, nor be done in part; and dying before it is dying
    before the next call that changes something, or after all of them.
    """
    numbers = range(1, len(names) + 1)
    if fault is Fault.REFUSED:
        return list(numbers)
    if fault is Fault.HALFWAY:
        return [at for at in numbers if names[at - 1].startswith(_TORN_IN_PART)]
    return [at for at in numbers if not names[at - 1].startswith(_READING) or at == len(names)]


def _hits(bench: Bench, run: Callable[[Storage], object], fault: Fault, every: int) -> Iterator[Hit]:
    """Each run that met its fault, `every`-th ones only; the table is as that run has left it."""
    counter = FaultyStorage(bench.plant())
    run(counter)
    calls = _calls(counter.names, fault)
    for at in calls[every // 2 % len(calls) :: every]:
        hit = broken_run(bench.plant(), run, fault, at)
        assert hit is not None, at
        yield Hit(at, counter.names[at - 1], hit.error)


def _break_compaction(bench: Bench, fault: Fault, every: int, monkeypatch: pytest.MonkeyPatch) -> int:
    hits = 0
    inputs = tree(bench.root)
    for hit in _hits(bench, lambda storage: bench.compact(storage, monkeypatch), fault, every):
        hits += 1
        assert inputs.items() <= tree(bench.root).items(), hit
        assert bench.rows() == bench.before, hit
        if fault in (Fault.REFUSED, Fault.LOST) and "_acidctl_lock" not in hit.call:
            # A run that can still speak says what went wrong, and not that something is wrong with the rows.
            assert hit.error is None or hit.error.exit_code == ExitCode.STORAGE, hit
        again = bench.again()
        assert again.code == ExitCode.DONE, (hit, again.stdout, again.stderr)
        outcomes = {part["outcome"] for part in again.json()["partitions"]}
        assert outcomes <= {"compacted", "nothing_to_do"}, (hit, outcomes)
        assert bench.leftovers() == [], hit
        assert bench.rows() == bench.before, hit
        assert inputs.items() <= tree(bench.root).items(), hit
    return hits


def _whole(before: dict[str, int], now: dict[str, int]) -> bool:
    """Whether each directory of the table has all its files, or none."""
    parents: dict[str, set[bool]] = {}
    for path, size in before.items():
        parents.setdefault(path.rpartition("/")[0], set()).add(now.get(path) == size)
    return all(len(there) == 1 for there in parents.values())


def _break_cleaning(bench: Bench, fault: Fault, every: int) -> int:
    assert bench.again().code == ExitCode.DONE
    bench.keep()
    before, rows, hits = tree(bench.root), bench.newest(), 0
    assert rows == bench.before[-1]
    assert bench.clean(bench.plant()).victims
    cleaned = tree(bench.root)
    for hit in _hits(bench, bench.clean, fault, every):
        hits += 1
        assert _whole(before, tree(bench.root)), hit
        assert bench.newest() == rows, hit
        for lock in bench.root.rglob("_acidctl_lock*"):
            os.utime(lock, (MADE, MADE))
        assert bench.clean(LocalStorage()).exit_code == ExitCode.DONE, hit
        assert tree(bench.root) == cleaned, hit
        assert bench.newest() == rows, hit
    return hits


FAULTS = (Fault.REFUSED, Fault.LOST, Fault.KILLED, Fault.HALFWAY)
ALL = [(way, fault) for way in WAYS for fault in FAULTS]
# Each way meets one fault at every call, and each fault a way; the others at some calls, but for a sweep.
AT_EVERY_CALL = {
    ("major", Fault.KILLED),
    ("minor", Fault.REFUSED),
    ("minor in a transaction", Fault.HALFWAY),
    ("minor of partitions", Fault.KILLED),
    ("major of Hive 3", Fault.LOST),
}
# What a location of several goes through is what one goes through alone, so of those calls every third is enough.
SEVERAL = ("minor of partitions", "major of Hive 3")


@pytest.mark.slow
@pytest.mark.parametrize(("way", "fault"), ALL)
def test_compaction_may_break_at_any_call(
    way: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every way it can go wrong."""
    step = every(11, whole=(way, fault) in AT_EVERY_CALL)
    assert _break_compaction(Bench(WAYS[way], tmp_path), fault, max(step, 3 if way in SEVERAL else 1), monkeypatch)


@pytest.mark.parametrize("fault", [Fault.KILLED])
def test_cleaning_may_break_now_and_then(fault: Fault, tmp_path: Path) -> None:
    """A sample of the calls."""
    assert _break_cleaning(Bench(WAYS["minor"], tmp_path), fault, 13)


@pytest.mark.slow
@pytest.mark.parametrize(("way", "fault"), ALL)
def test_cleaning_may_break_at_any_call(way: str, fault: Fault, tmp_path: Path) -> None:
    """What compaction made obsolete goes, and the rows of its result stay."""
    step = every(5, whole=(way, fault) in AT_EVERY_CALL)
    assert _break_cleaning(Bench(WAYS[way], tmp_path), fault, step)
