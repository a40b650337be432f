"""Two states of one location compared: does every reader open the same?"""

from __future__ import annotations

from dataclasses import replace

from acidctl.errors import NotEnoughHistoryError
from acidctl.format.listing import Listing
from acidctl.format.names import BUCKET_PREFIX, VERSION_MARKER, BaseDir, DeltaDir, path_order_key
from acidctl.format.write_ids import Profile, Reader
from acidctl.state.entries import (
    ORIGINALS_NAME,
    AcidState,
    EntryState,
    HiveFailureError,
    ListingMode,
    StateEntry,
    TableType,
)
from acidctl.state.resolve import TableGuess, resolve


def disagreements(
    listing: Listing,
    reader: Reader,
    *,
    mode: ListingMode = ListingMode.SNAPSHOT,
    table_type: TableType | TableGuess | None = None,
    ours: AcidState | None = None,
) -> tuple[str, ...]:
    """Sentences on where Hive 4 and profile strict part on this very location; empty where they agree.

    `ours` is the strict state, where it is known already.
    """
    if ours is None:
        ours = resolve(listing, replace(reader, profile=Profile.STRICT), table_type=table_type, raise_on_history=False)
    if mode is ListingMode.SNAPSHOT and reads_all(listing, ours):
        return ()
    as_hive = replace(reader, txns=reader.effective_txns, profile=Profile.HIVE4)
    try:
        hive = resolve(listing, as_hive, mode=mode, table_type=table_type)
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
    our_entries = {entry.name: entry for entry in ours.entries}
    hive_entries = {entry.name: entry for entry in hive.entries}
    our_names = {e.name for e in (ours.base, *ours.deltas) if e is not None}
    hive_names = {e.name for e in (hive.base, *hive.deltas) if e is not None}
    for name in sorted(hive_names - our_names, key=path_order_key):
        entry = our_entries.get(name)
        # What follows from a base is told with that base.
        if not _is_covered(entry, ours.base):
            why = "" if entry is None else f": {entry.reason}"
            covers = _covers(hive, ours, our_names) if name == _name(hive.base) else ""
            found.append(f"Hive 4 would read {name}, which profile strict leaves out{why}{covers}.")
    for name in sorted(our_names - hive_names, key=path_order_key):
        entry = hive_entries.get(name)
        if not _is_covered(entry, hive.base):
            why = "" if entry is None else f": {entry.reason}"
            covers = ""
            if name == _name(ours.base):
                covers = _covers(ours, hive, hive_names).replace("it would pass over", "it would read")
            found.append(f"Hive 4 would not read {name}{why}{covers}.")
    return found


def _compare_originals(ours: AcidState, hive: AcidState) -> list[str]:
    if _name(ours.base) != _name(hive.base):
        return []
    our_paths, hive_paths = {f.path for f in ours.originals}, {f.path for f in hive.originals}
    found = []
    for paths, verb in ((hive_paths - our_paths, "would read"), (our_paths - hive_paths, "would not read")):
        if paths:
            first = min(paths, key=path_order_key)
            more = f" and {_count(len(paths) - 1, 'more file', 'more files')}" if len(paths) > 1 else ""
            found.append(f"Hive 4 {verb} {first}{more} as original data.")
    return found


def _name(entry: StateEntry | None) -> str | None:
    return None if entry is None else entry.name


def _is_covered(entry: StateEntry | None, base: StateEntry | None) -> bool:
    return entry is not None and base is not None and base.name in entry.because_of


def _covers(state: AcidState, other: AcidState, names: set[str]) -> str:
    """How much of what the other state reads this one's base covers."""
    read = names | ({ORIGINALS_NAME} if other.originals else set())
    count = sum(_is_covered(entry, state.base) and entry.name in read for entry in state.entries)
    if not count:
        return ""
    return f"; it would pass over {_count(count, 'entry', 'entries')} that this base covers"


def _count(count: int, one: str, many: str) -> str:
    """`1 entry`, `3 entries`."""
    return f"{count} {one if count == 1 else many}"
