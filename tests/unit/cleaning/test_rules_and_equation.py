"""The rules of `clean` beside the question whether a reader would open something else: they never remove more."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from acidctl.cleaning.decisions import Rules, originals_of, survey
from acidctl.cleaning.plan import plan_location
from acidctl.format.listing import Listing
from acidctl.format.write_ids import Reader, ValidTxns, ValidWriteIds, common_txns, common_write_ids
from acidctl.state.entries import ORIGINALS_NAME, EntryState
from acidctl.state.equivalence import boundary_readers, equivalent
from acidctl.state.resolve import TableGuess, guess_table_type, resolve
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import gather
from tests.support.clean_histories import FULL, History
from tests.support.cleaning import NOW, sound
from tests.support.cleaning_cases import FIXTURES, Step
from tests.support.extent import amount, some
from tests.support.vectors import load, vector_listing
from tests.unit.cleaning.test_clean_property import random_listing, random_readers

# Why the rules keep what no reader would miss now. Each stays: `write_open` and `above_watermark` leave alone what a
# running writer may still fill; `no_cover`, `visible` and G3 want one directory that holds what goes, so that nothing
# is removed of which only the order of reading says that it is not needed; `tie`, `masks_history` and `lowest_open`
# leave alone what Hive 4 may choose by the order in which it lists; `nested` what Hive may read as original files;
# the rest what acidctl does not understand.
KEPT_ON_PURPOSE = {
    *("write_open", "above_watermark", "no_cover", "visible", "tie", "masks_history", "lowest_open", "nested"),
    *("bad_marker", "bad_name", "bad_range", "no_txn_list", "guard_failed", "delete_delta_in_insert_only", "base"),
    *("write_aborted", "originals_in_insert_only", "originals"),
}


def side_by_side(place: Listing, common: Reader, kind: TableGuess) -> Counter[str]:
    """Counts of what the rules remove, and by reason of what they keep although no reader would miss it.

    AssertionError where the rules remove what a reader would miss. A listing in which Hive 4 does not see the cover
    (an empty directory) is told by the common snapshot itself.
    """
    seen = survey(place, common, kind, Rules(now=NOW, older_than=None))
    plan = plan_location(seen, sound(seen))
    first, *others = boundary_readers(place, Reader(common.write_ids, common.effective_txns))
    readers = [first, *others]
    originals = {info.path.partition("/")[0] for info in originals_of(seen.inventory).files}
    going = set(seen.chosen.victims) - {ORIGINALS_NAME}
    tops = going | (originals if ORIGINALS_NAME in seen.chosen.victims else set())
    missed = equivalent(place, place.without(tops), readers, kind)
    assert missed is None or replace(missed, profile=first.profile) == first, (missed, tops)
    assert (missed is None) == all(guard.holds for guard in plan.guards if guard.guard == "simulation")
    if missed is not None:
        return Counter({"refused": 1})
    counts = Counter({"removed": len(tops)})
    state = resolve(place, common, table_type=kind, raise_on_history=False)
    kept = {entry.name: entry for entry in plan.kept}
    for entry in state.entries:
        if entry.state not in (EntryState.OBSOLETE, EntryState.ABORTED) or entry.name not in kept:
            continue
        more = tops | (originals if entry.name == ORIGINALS_NAME else {entry.name})
        if equivalent(place, place.without(more), readers, kind) is None:
            counts[kept[entry.name].reason_code] += 1
    assert set(counts) - {"removed"} <= KEPT_ON_PURPOSE
    return counts


def listing_counts(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        random = Random(seed)
        place, readers = random_listing(random), random_readers(random)
        ids, txns = [r.write_ids for r in readers], [r.txns for r in readers]
        counts += side_by_side(place, Reader(common_write_ids(ids), common_txns(txns)), FULL)
    return counts


def history_counts(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        random = Random(seed)
        history = History(random, hive=random.choice([3, 4]), traps=random.random() < 0.4)
        for _ in range(4):
            for _ in range(10):
                history.step()
            readers = [*history.readers, history.snapshot()]
            ids, txns = [r.write_ids for r in readers], [r.txns for r in readers]
            common = Reader(common_write_ids(ids), common_txns(txns))
            counts += side_by_side(history.listing(history.here), common, FULL)
    return counts


@pytest.mark.slow
def test_in_all_vectors() -> None:
    """The listings of Hive's, Trino's and Impala's own tests, and those made at random."""
    counts: Counter[str] = Counter()
    for case in load("acid-state") + some(load("acid-state-fuzz")):
        if case.get("list_kind", "reader") != "reader":
            continue
        txns = None if case["valid_txns"] is None else ValidTxns.parse(case["valid_txns"])
        place = vector_listing(case)
        counts += side_by_side(
            place, Reader(ValidWriteIds.parse(case["valid_write_ids"]), txns), guess_table_type([place])
        )
    assert counts["removed"] > 100
    assert counts["refused"] < 20


@pytest.mark.slow
def test_in_all_fixtures() -> None:
    """What real Hive has left behind, step by step."""
    counts: Counter[str] = Counter()
    for folder in sorted(path.parent for path in FIXTURES.glob("*/*/*/step.json")):
        step = Step(folder)
        if len(step.lists) != 2:
            continue
        reader = Reader(ValidWriteIds.parse(step.lists[0]), ValidTxns.parse(step.lists[1]))
        locations = gather(LocalStorage(), str(folder / "table"))
        kind = guess_table_type([location.listing for location in locations], reader)
        for location in locations:
            counts += side_by_side(location.listing, reader, kind)
    assert counts["removed"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("block", some(range(4), checked=2))
def test_in_many_random_listings_and_histories(block: int) -> None:
    """Thousands of names that nobody would make, and lives of tables."""
    listings, histories = amount(250, swept=250), amount(50, swept=50)
    assert listing_counts(range(5_000 + listings * block, 5_000 + listings * (block + 1)))["removed"] > 20
    assert history_counts(range(5_000 + histories * block, 5_000 + histories * (block + 1)))["removed"] > 20
