"""One question for whatever changes a location: do its readers open the same before and after?

    equivalent(before, after, readers)

`before` and `after` are listings. What a reader opens follows from the names in the listing and from the fate (valid,
open, aborted) that its lists give to the ids in those names. So of all readers that see at least what a common snapshot
shows, only the `boundary_readers` have to be asked: those that give the ids which the snapshot leaves undecided one
fate, or one of them another, or that end at one of them. A test counts out all listings and all readers up to a bound
and finds no pair of listings that some reader tells apart and none of these does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum
from typing import NamedTuple, TypeVar

from acidctl.errors import AcidctlError, NotEnoughHistoryError
from acidctl.format.listing import Listing
from acidctl.format.names import BUCKET_PREFIX, VERSION_MARKER, BaseDir, DeltaDir, path_order_key
from acidctl.format.write_ids import IdList, Profile, Reader
from acidctl.state.entries import ORIGINALS_NAME, AcidState, EntryState, HiveFailureError, StateEntry, TableType
from acidctl.state.inventory import take_inventory
from acidctl.state.resolve import TableGuess, resolve


class Opened(NamedTuple):
    """What a reader opens: names in the order in which they are read; `failure` where it cannot read at all."""

    base: str | None = None
    deltas: tuple[str, ...] = ()
    originals: tuple[str, ...] = ()
    gap: bool = False
    failure: type[AcidctlError] | None = None


def opened(listing: Listing, reader: Reader, table_type: TableType | TableGuess | None = None) -> Opened:
    """What a reader opens at a location."""
    try:
        state = resolve(listing, reader, table_type=table_type, raise_on_history=False)
    except AcidctlError as error:
        return Opened(failure=type(error))
    base = None if state.base is None else state.base.name
    deltas = tuple(entry.name for entry in state.deltas)
    return Opened(base, deltas, tuple(file.path for file in state.originals), state.history_gap is not None)


def equivalent(
    before: Listing, after: Listing, readers: Iterable[Reader], table_type: TableType | TableGuess | None = None
) -> Reader | None:
    """None where every reader opens the same, by the rules of both profiles; else the first that does not."""
    for reader in readers:
        for profile in Profile:
            one = replace(reader, profile=profile)
            if opened(before, one, table_type) != opened(after, one, table_type):
                return one
    return None


class _Fate(Enum):
    VALID = "valid"
    OPEN = "open"
    ABORTED = "aborted"


def boundary_readers(listing: Listing, common: Reader, *, alone: int | None = None) -> Iterator[Reader]:
    """Readers that see at least what `common` sees, one for each way to tell this listing from a part of it.

    `common` is always the first. `alone` bounds how many undecided ids get a fate that the others have not: none is
    enough where something else has proved that no reader tells the listings apart.
    """
    yield common
    inventory = take_inventory(listing)
    directories = (*inventory.bases, *inventory.deltas)
    # An id before an end stands for all those between two ends.
    ends = {id_ for item in directories if item.range is not None for id_ in (item.range.min, item.range.max)}
    ends |= {id_ - 1 for id_ in ends if id_ > 1}
    ids = [replace(common, write_ids=found) for found in _variants(common.effective_write_ids, ends, alone)]
    yield from ids
    if common.txns is None:
        return
    named = {item.visibility_txn_id for item in directories if item.visibility_txn_id is not None}
    txns = list(_variants(common.txns, named, alone))
    for found in txns:
        yield replace(common, txns=found)
    if txns:
        # A compaction that commits meanwhile may cover what the others have not decided either.
        for reader in ids:
            yield replace(reader, txns=txns[0])


_List = TypeVar("_List", bound=IdList)


def _variants(ids: _List, named: set[int], alone: int | None) -> Iterator[_List]:
    """Lists that agree with `ids` on what it decides; the first calls every other id valid."""
    lowest = ids.lowest_open
    # Who began before the abort may still see the id as open: a snapshot of several readers calls it aborted.
    doubtful = {id_ for id_ in ids.aborted if lowest is not None and id_ >= lowest}
    undecided = sorted({*ids.open, *doubtful, *(id_ for id_ in named if id_ > ids.high_watermark)})
    ends = sorted(named)
    # Nothing on disk lies above the last end, and between two ends the lowest id stands for the others.
    lowest_between = {bisect_left(ends, id_): id_ for id_ in reversed(undecided) if ends and id_ <= ends[-1]}
    tried = sorted(lowest_between.values())[:alone]
    if not lowest_between:
        return
    for fate in _Fate:
        yield _with_fates(ids, dict.fromkeys(undecided, fate), doubtful)
        for id_ in tried:
            for other in _Fate:
                if other is not fate:
                    yield _with_fates(ids, {**dict.fromkeys(undecided, fate), id_: other}, doubtful)
    for id_ in tried:
        if id_ > ids.high_watermark:
            below = {other: _Fate.VALID for other in undecided if other <= id_}
            yield _with_fates(ids, below, doubtful)


def _with_fates(ids: _List, fates: dict[int, _Fate], doubtful: set[int]) -> _List:
    aborted = {id_ for id_, fate in fates.items() if fate is _Fate.ABORTED or (id_ in doubtful and fate is _Fate.VALID)}
    open_ids = tuple(id_ for id_, fate in fates.items() if fate is _Fate.OPEN)
    return replace(
        ids,
        high_watermark=max(ids.high_watermark, *fates),
        min_open=min(open_ids, default=None),
        open=open_ids,
        aborted=(*(set(ids.aborted) - set(fates)), *aborted),
    )


def disagreements(
    listing: Listing,
    reader: Reader,
    *,
    table_type: TableType | TableGuess | None = None,
    ours: AcidState | None = None,
) -> tuple[str, ...]:
    """Sentences on where Hive 4 and profile strict part on this very location; empty where they agree.

    `ours` is the strict state, where it is known already.
    """
    if ours is None:
        ours = resolve(listing, replace(reader, profile=Profile.STRICT), table_type=table_type, raise_on_history=False)
    if reads_all(listing, ours):
        return ()
    as_hive = replace(reader, txns=reader.effective_txns, profile=Profile.HIVE4)
    try:
        hive = resolve(listing, as_hive, table_type=table_type)
    except HiveFailureError as error:
        return (f"{error.message}.",)
    except NotEnoughHistoryError as error:
        if ours.history_gap is not None:
            return ()
        return (f"Hive 4 refuses to read here ({error.message}), profile strict reads.",)
    return (*_compare_directories(ours, hive), *_compare_originals(ours, hive))


def reads_all(listing: Listing, ours: AcidState) -> bool:
    """Whether nothing is here that any reader would leave out: plain deltas, at most one base, bucket files only.

    Nearly every partition is like that, and Hive's whole algorithm costs as much as all the rest of judging it.
    """
    if len(ours.entries) != len(ours.deltas) + (ours.base is not None) or ours.history_gap is not None:
        return False
    filled = set()
    for file in listing.files:
        directory, _, name = file.path.rpartition("/")
        if name.startswith(BUCKET_PREFIX):
            filled.add(directory)
        elif name != VERSION_MARKER:
            return False
    return all(
        entry.state is EntryState.LIVE
        and isinstance(entry.parsed, BaseDir | DeltaDir)
        and entry.parsed.visibility_txn_id is None
        and entry.name in filled
        for entry in ours.entries
    ) and len(filled) == len(ours.entries)


def _compare_directories(ours: AcidState, hive: AcidState) -> list[str]:
    found = []
    if ours.history_gap is not None and hive.base is None:
        gap = ours.history_gap
        found.append(f"Hive 4 reports no missing history here and reads without {gap.base}: rows may be missing.")
    for one, other, does, besides, with_rest in (
        (hive, ours, "would read", ", which profile strict leaves out", "pass over"),
        (ours, hive, "would not read", "", "read"),
    ):
        entries = {entry.name: entry for entry in other.entries}
        for name in sorted(_opened_names(one) - _opened_names(other), key=path_order_key):
            entry = entries.get(name)
            # What follows from a base is part of the sentence about that base.
            if _is_covered(entry, other.base):
                continue
            why = "" if entry is None else f": {entry.reason}"
            if one.base is not None and name == one.base.name:
                read = _opened_names(other) | ({ORIGINALS_NAME} if other.originals else set())
                count = sum(_is_covered(item, one.base) and item.name in read for item in one.entries)
                if count:
                    covered = "1 entry" if count == 1 else f"{count} entries"
                    why += f"; it would {with_rest} {covered} that this base covers"
            found.append(f"Hive 4 {does} {name}{besides}{why}.")
    return found


def _compare_originals(ours: AcidState, hive: AcidState) -> list[str]:
    if (ours.base and ours.base.name) != (hive.base and hive.base.name):
        return []
    our_paths, hive_paths = {f.path for f in ours.originals}, {f.path for f in hive.originals}
    found = []
    for paths, does in ((hive_paths - our_paths, "would read"), (our_paths - hive_paths, "would not read")):
        if paths:
            more = f" and {len(paths) - 1} more {'file' if len(paths) == 2 else 'files'}" if len(paths) > 1 else ""
            found.append(f"Hive 4 {does} {min(paths, key=path_order_key)}{more} as original data.")
    return found


def _opened_names(state: AcidState) -> set[str]:
    return {entry.name for entry in (state.base, *state.deltas) if entry is not None}


def _is_covered(entry: StateEntry | None, base: StateEntry | None) -> bool:
    return entry is not None and base is not None and base.name in entry.because_of
