"""No reader ever loses what it would open: random histories, and random listings that no Hive would make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

import pytest

from acidctl.cleaning import decisions as clean_decisions
from acidctl.cleaning.decisions import Rules, Survey, survey
from acidctl.cleaning.plan import GUARDS, Evidence, plan_location
from acidctl.format.listing import Listing
from acidctl.format.names import BaseDir, DeltaDir, DeltaKind, format_base, format_delta, parse_directory
from acidctl.format.write_ids import Profile, Reader, ValidTxns, ValidWriteIds, common_txns, common_write_ids
from acidctl.state.equivalence import opened
from tests.support.clean_histories import FULL, History, Snapshot
from tests.support.cleaning import NOW, gone, listing, sound
from tests.support.extent import SWEEP, amount

FAST = 10
SLOW = 800 if SWEEP else 200
STEPS = 40
TOP = 12


class LostError(AssertionError):
    """A reader would read something else than before."""


def check(before: Listing, after: Listing, readers: Iterable[Snapshot], story: object, *, gaps: bool = True) -> None:
    """Raise LostError unless every reader opens the same; `gaps` also compares whether history is missing."""
    for reader in readers:
        for profile in Profile:
            who = Reader(reader.write_ids, reader.txns, profile)
            was, now = (opened(place, who, FULL) for place in (before, after))
            if (was if gaps else was._replace(gap=now.gap)) != now:
                raise LostError(
                    f"{profile.value} {reader.write_ids.format()} {reader.txns.format()}: {was} -> {now}, {story}"
                )


def clean(place: Listing, readers: Sequence[Snapshot], older_than: float | None) -> list[str]:
    """Names that go when these readers are all there are."""
    common = Reader(common_write_ids([r.write_ids for r in readers]), common_txns([r.txns for r in readers]))
    seen = survey(place, common, FULL, Rules(now=NOW, older_than=older_than))
    return gone(plan_location(seen, sound(seen)))


def live_through(seed: int) -> int:
    """One history with cleanings between; returns how many directories they removed."""
    random = Random(seed)
    history = History(random, hive=random.choice([3, 4]), traps=random.random() < 0.4)
    removed = 0
    for step in range(STEPS):
        history.step()
        if random.random() < 0.25 or step == STEPS - 1:
            readers = [*history.readers, history.snapshot()]
            place = history.listing(history.here)
            victims = clean(place, readers, random.choice([None, 24 * 3600.0]))
            for name in victims:
                parsed = parse_directory(name)
                if isinstance(parsed, DeltaDir):
                    own = set(range(parsed.min_write_id, parsed.max_write_id + 1))
                    assert not own & history.open_ids(), (seed, name, history.log)
                assert not (isinstance(parsed, BaseDir) and parsed.write_id in history.open_ids() and "_v" not in name)
                del history.here[name]
            removed += len(victims)
            history.log.append(f"clean: {victims}")
            now, story = history.listing(history.here), (seed, history.log)
            check(place, now, readers, story)
            # And as if there had never been a cleaning. An aborted overwrite that went before there was a compaction
            # can no longer keep Hive 4 from missing history afterwards; that is as in any table without one.
            check(history.listing(history.full), now, readers, story, gaps=False)
    return removed


def random_listing(random: Random) -> Listing:
    """Any names at all: ranges that cross, statements of wide deltas, bases with and without marks."""
    names: set[str] = set()
    compacted: set[str] = set()
    for _ in range(random.randint(1, 9)):
        txn = random.choice([None, None, random.randint(20, 31)])
        low = random.randint(1, TOP)
        high = min(TOP, low + random.choice([0, 0, 0, 1, 2, 4, 6]))
        if random.random() < 0.25:
            name = format_base(low, txn)
            if txn is None and random.random() < 0.4:
                compacted.add(name)
        else:
            kind = random.choice(list(DeltaKind))
            statement = None if txn is not None else random.choice([None, 0, 0, 1])
            name = format_delta(kind, low, high, statement, txn)
        names.add(name)
    return listing([*names, *(["000000_0"] if random.random() < 0.3 else [])], compacted=compacted)


def random_readers(random: Random) -> list[Snapshot]:
    """Snapshots of one course of events: what one sees as committed no other ever calls aborted."""
    fates = {i: random.choice("ccccca") for i in range(1, TOP + 1)}
    txn_fates = {i: random.choice("cccca") for i in range(20, 32)}

    def lists(fates: dict[int, str], top: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        ended = {i for i in fates if i <= top and random.random() < 0.85}
        open_ids = tuple(i for i in fates if i <= top and i not in ended)
        return top, open_ids, tuple(i for i in sorted(ended) if fates[i] == "a")

    readers = []
    for _ in range(random.randint(1, 3)):
        top, open_ids, aborted = lists(fates, random.randint(TOP // 2, TOP))
        write_ids = ValidWriteIds(
            high_watermark=top, min_open=min(open_ids, default=None), open=open_ids, aborted=aborted, table="default.t"
        )
        top, open_ids, aborted = lists(txn_fates, random.randint(25, 31))
        txns = ValidTxns(high_watermark=top, min_open=min(open_ids, default=None), open=open_ids, aborted=aborted)
        readers.append(Snapshot(write_ids, txns))
    return readers


def survive(seed: int) -> int:
    """One random listing cleaned for random readers; returns how many entries went."""
    random = Random(seed)
    place, readers = random_listing(random), random_readers(random)
    victims = clean(place, readers, None)
    tops = {top for name in victims for top in (["000000_0"] if name.startswith("(") else [name])}
    check(place, place.without(tops), readers, (seed, sorted(place.directories), victims))
    return len(victims)


@pytest.mark.slow
def test_no_reader_loses_anything_in_random_histories() -> None:
    """Writers, streams, overwrites, compactions that commit, abort or hang; readers of any age."""
    assert sum(map(live_through, range(FAST))) > FAST


@pytest.mark.slow
def test_no_reader_loses_anything_in_random_listings() -> None:
    """Not even where names were made by nobody in his senses."""
    assert sum(map(survive, range(200))) > 50


@pytest.mark.slow
@pytest.mark.parametrize("block", range(amount(8, swept=8)))
def test_no_reader_loses_anything_in_many_random_histories(block: int) -> None:
    """The same for hundreds."""
    first = 100_000 + block * SLOW // 8
    assert sum(map(live_through, range(first, first + SLOW // 8))) > SLOW // 8


@pytest.mark.slow
@pytest.mark.parametrize("block", range(amount(4, swept=4)))
def test_no_reader_loses_anything_in_many_random_listings(block: int) -> None:
    """The same for thousands."""
    first = 1_000_000 + block * 2_000
    assert sum(map(survive, range(first, first + 2_000))) > 200


def _content(seen: Survey, evidence: Evidence) -> str:
    """A guard that always holds."""
    return ""


def _blind(module: object, name: str, answer: object) -> Callable[[pytest.MonkeyPatch], None]:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, name, lambda *args: answer)

    return patch


# Each takes one condition away; the simulation, which would notice, is off as well. The number is a seed below the
# first that shows it, so that nobody has to wait.
FIRST = {"G3": 1700, "twins": 1700}
MUTATIONS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "G3": lambda monkeypatch: monkeypatch.setitem(GUARDS, "G3", _content),
    "visibility": _blind(clean_decisions, "_judge_visibility", None),
    "usable bases": _blind(clean_decisions, "_judge_base", None),
    "settled deltas": _blind(clean_decisions, "_judge_delta", None),
    "containment": _blind(clean_decisions, "contains", True),
    "twins": _blind(clean_decisions, "_is_twin", False),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_without_a_condition_some_reader_loses(mutation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The property would notice. Guards on ages and contents are not of this kind: names do not show them."""
    monkeypatch.setitem(GUARDS, "simulation", _content)
    MUTATIONS[mutation](monkeypatch)
    first = FIRST.get(mutation, 0)
    assert any(_loses(seed) for seed in range(first, first + 20_000)), f"nobody misses {mutation}"


def _loses(seed: int) -> bool:
    try:
        survive(seed)
    except LostError:
        return True
    return False
