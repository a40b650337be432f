"""Of all readers that see at least a common snapshot, the boundary readers notice whatever any of them would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from random import Random

import pytest

from acidctl.format.listing import Listing
from acidctl.format.names import DeltaKind, format_base, format_delta
from acidctl.format.write_ids import Profile, Reader, ValidTxns, ValidWriteIds
from acidctl.state.entries import TableType
from acidctl.state.equivalence import Opened, boundary_readers, equivalent, opened
from acidctl.state.resolve import TableGuess
from tests.support.extent import amount, some
from tests.support.vectors import listing_of

FULL = TableGuess(TableType.FULL, False, "stated")
# A transaction that every list knows as committed, and one whose fate the lists tell.
DONE, RUNNING = 5, 7
VALID, OPEN, ABORTED = "v", "o", "a"


@dataclass(frozen=True)
class Fates:
    """A reader's lists: the fate of each write id up to its watermark, and of the running transaction.

    `lowest` is the lowest open id that a list names beside those that it enumerates.
    """

    ids: str
    txn: str
    lowest: int | None = None

    def having(self, fate: str) -> list[int]:
        return [id_ for id_, own in enumerate(self.ids, 1) if own == fate]

    @property
    def lowest_open(self) -> int | None:
        return min([*self.having(OPEN), *([] if self.lowest is None else [self.lowest])], default=None)

    @property
    def reader(self) -> Reader:
        ids = ValidWriteIds(
            high_watermark=len(self.ids),
            min_open=self.lowest_open,
            open=tuple(self.having(OPEN)),
            aborted=tuple(self.having(ABORTED)),
            table="default.t",
        )
        running = (RUNNING,)
        txns = ValidTxns(
            high_watermark=9,
            min_open=RUNNING if self.txn == OPEN else None,
            open=running if self.txn == OPEN else (),
            aborted=running if self.txn == ABORTED else (),
        )
        return Reader(ids, txns)

    def sees_at_least(self, common: Fates) -> bool:
        """Whether this may be one of the readers whose common snapshot the other is, or a later one."""
        if len(self.ids) < len(common.ids) or (common.txn == VALID and self.txn != VALID):
            return False
        lowest = common.lowest_open
        for id_, (own, fate) in enumerate(zip(self.ids, common.ids, strict=False), 1):
            still_open = own == OPEN and lowest is not None and id_ >= lowest
            if (fate == VALID and own != VALID) or (fate == ABORTED and own != ABORTED and not still_open):
                return False
        return True


@cache
def every_reader(top: int) -> tuple[Fates, ...]:
    """All lists with a watermark up to `top`, each with each fate of the running transaction."""
    texts = ["".join(fates) for end in range(top + 1) for fates in product(VALID + OPEN + ABORTED, repeat=end)]
    return tuple(Fates(ids, txn) for ids in texts for txn in (VALID, OPEN, ABORTED))


@cache
def every_snapshot(top: int) -> dict[Fates, frozenset[Fates]]:
    """All common snapshots, each with the readers that see at least as much."""
    found = {}
    for fates in every_reader(top):
        if fates.txn == ABORTED:
            continue
        # Another reader may have named an id as its lowest open one that has been aborted since.
        named = [id_ for id_ in fates.having(ABORTED) if OPEN not in fates.ids[:id_]]
        for lowest in (None, *named):
            common = replace(fates, lowest=lowest)
            found[common] = frozenset(other for other in every_reader(top) if other.sees_at_least(common))
    return found


@cache
def every_name(top: int) -> tuple[str, ...]:
    """Bases, deltas and delete deltas of all ranges, of writers and of compactions that have ended or not."""
    names = [format_base(id_, txn) for id_ in range(1, top + 1) for txn in (None, DONE, RUNNING)]
    for low in range(1, top + 1):
        for high in range(low, top + 1):
            for kind in DeltaKind:
                names += [format_delta(kind, low, high), format_delta(kind, low, high, None, RUNNING)]
                if low == high:
                    names.append(format_delta(kind, low, high, 0))
    return tuple(names)


def with_files(names: Sequence[str]) -> Listing:
    """A location of directories that hold a bucket each."""
    return listing_of(f"{name}/{file}" for name in names for file in ("_orc_acid_version", "bucket_00000"))


def read(names: Sequence[str], reader: Reader) -> tuple[Opened, ...]:
    """What the reader opens by the rules of each profile."""
    place = with_files(names)
    return tuple(opened(place, replace(reader, profile=profile), FULL) for profile in Profile)


def unnoticed(before: Sequence[str], after: Sequence[str], top: int) -> Iterator[str]:
    """Snapshots of which some reader tells the listings apart, but no boundary reader does."""
    place = with_files(before)
    telling = {fates for fates in every_reader(top) if read(before, fates.reader) != read(after, fates.reader)}
    known: dict[str, bool] = {}
    for common, family in every_snapshot(top).items():
        if not family & telling:
            continue
        for reader in boundary_readers(place, common.reader):
            key = repr(reader)
            if key not in known:
                known[key] = read(before, reader) != read(after, reader)
            if known[key]:
                break
        else:
            yield f"{before} without {set(before) - set(after)}, common {common}, told by {family & telling}"


def unnoticed_at_random(seed: int, top: int, most: int) -> list[str]:
    """`unnoticed` of a random listing and a part of it."""
    random = Random(seed)
    before = sorted(random.sample(every_name(top), random.randint(1, most)))
    gone = random.sample(before, random.randint(1, len(before)))
    return list(unnoticed(before, [name for name in before if name not in gone], top))


@pytest.mark.parametrize("seed", range(12))
def test_boundary_readers_notice_what_any_reader_would(seed: int) -> None:
    """All readers of two write ids and a transaction, over a listing and a part of it."""
    assert unnoticed_at_random(seed, top=2, most=3) == []


@pytest.mark.slow
def test_boundary_readers_notice_it_in_all_small_listings() -> None:
    """Every listing of one or two names, every part of it, every reader of two write ids."""
    for names in some((*combinations(every_name(2), 1), *combinations(every_name(2), 2))):
        for after in ([], *([name] for name in names[: len(names) - 1]), *([name] for name in names[1:])):
            assert list(unnoticed(names, after, top=2)) == []


@pytest.mark.slow
@pytest.mark.parametrize("block", range(amount(6, swept=6)))
def test_boundary_readers_notice_it_in_many_listings(block: int) -> None:
    """All readers of three write ids; hundreds of listings and parts of them."""
    for seed in range(1000 + 50 * block, 1000 + 50 * (block + 1)):
        assert unnoticed_at_random(seed, top=3, most=4) == []


@pytest.mark.slow
def test_boundary_readers_notice_it_with_more_ids() -> None:
    """All readers of four write ids."""
    for seed in range(amount(40, swept=40)):
        assert unnoticed_at_random(seed, top=4, most=3) == []


def test_the_reader_that_reads_something_else_is_named() -> None:
    """Hive 4 takes an overwrite for committed that is the lowest open id of its snapshot (HIVE-22754)."""
    common = Fates("avo", VALID, lowest=1).reader
    before = listing_of(["base_0000001/bucket_00000", "delta_0000002_0000002_0000/bucket_00000"])
    after = before.without({"base_0000001"})
    assert equivalent(before, after, [common], FULL) is None
    odd = equivalent(before, after, boundary_readers(before, common), FULL)
    assert odd is not None
    assert odd.profile is Profile.HIVE4
    assert odd.write_ids is not None
    assert odd.write_ids.lowest_open == 1
