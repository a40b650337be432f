"""A listing and what a reader may see become a state: what is read, what is not, and why.

Takes values and returns values: no storage, no clock. Every listed entry ends exactly once, live or left out
with a state, a stable code, one sentence and the directories that cause it. Two sets of rules decide:
`strict`, ours and the default, and `hive4`, which does what Hive 4.0 does, faults included; `disagreements`
says where they part on one directory.
"""

from __future__ import annotations

from dataclasses import replace

from acidctl.errors import NotEnoughHistoryError
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import BUCKET_PREFIX, VERSION_MARKER, BaseDir, DeltaDir, is_hidden_to_hive, path_order_key
from acidctl.format.write_ids import ReaderLists, ValidTxns, ValidWriteIds
from acidctl.state import verdicts
from acidctl.state.data_files import (
    DataFile,
    SyntheticGroup,
    attempt_notes,
    data_files,
    empty_file_notes,
    ignored_files,
    live_entries,
    synthetic_layout,
)
from acidctl.state.entries import (
    ORIGINALS_NAME,
    AcidState,
    Candidate,
    EntryKind,
    EntryState,
    HistoryGap,
    HiveFailureError,
    HiveFault,
    ListingMode,
    MissingTxnListError,
    Profile,
    StateEntry,
    Stock,
    TableType,
    Verdict,
)
from acidctl.state.hive4 import HiveAnswer, select_hive4
from acidctl.state.inventory import take_stock
from acidctl.state.journal import judge_half_published
from acidctl.state.strict import select_strict
from acidctl.state.table_type import TableGuess, guess_from_stocks, guess_table_type, looks_like_acid

__all__ = [
    "ORIGINALS_NAME",
    "AcidState",
    "DataFile",
    "EntryKind",
    "EntryState",
    "HistoryGap",
    "HiveFailureError",
    "HiveFault",
    "ListingMode",
    "MissingTxnListError",
    "Profile",
    "StateEntry",
    "SyntheticGroup",
    "TableGuess",
    "TableType",
    "data_files",
    "disagreements",
    "empty_file_notes",
    "guess_table_type",
    "ignored_files",
    "live_entries",
    "looks_like_acid",
    "resolve",
    "synthetic_layout",
]


def resolve(
    listing: Listing,
    write_ids: ValidWriteIds,
    txns: ValidTxns | None,
    *,
    profile: Profile = Profile.STRICT,
    mode: ListingMode = ListingMode.SNAPSHOT,
    ignore_empty_files: bool = True,
    table_type: TableType | TableGuess | None = None,
    raise_on_history: bool = True,
) -> AcidState:
    """Decide what a reader with these lists reads of a location.

    `txns` None takes every `_v` directory as committed in profile strict; Hive 4 refuses to read without one.
    `table_type` None is guessed from this location alone; a whole `TableGuess`, made from all locations, also says
    whether the table is ACID v1. `mode` concerns profile hive4 only. Raises
    `NotEnoughHistoryError` where a reader would, and in profile hive4 `HiveFailureError` or
    `MissingTxnListError` where Hive fails; with `raise_on_history` False the state comes back with
    `history_gap` set and notes instead.
    """
    stock = take_stock(listing)
    if isinstance(table_type, TableGuess):
        kind, acid_v1 = table_type.type, table_type.acid_v1
    else:
        guess = guess_from_stocks([(listing, stock)], ReaderLists(write_ids, txns))
        kind, acid_v1 = table_type or guess.type, guess.acid_v1
    # Hive 1 and 2 have no write-id lists: one that names its table was made by a later Hive.
    acid_v1 = acid_v1 and write_ids.table is None and kind is not TableType.INSERT_ONLY
    if profile is Profile.STRICT:
        state = _resolve_strict(listing, stock, write_ids, txns, kind, acid_v1, ignore_empty_files)
    else:
        answer = select_hive4(
            listing,
            write_ids,
            txns,
            mode=mode,
            ignore_empty_files=ignore_empty_files,
            tolerant=not raise_on_history,
        )
        state = _from_hive(listing, stock, answer, kind, acid_v1)
    if state.history_gap is not None and raise_on_history:
        raise state.history_gap.to_error(listing.root or None)
    return state


def disagreements(
    listing: Listing,
    write_ids: ValidWriteIds,
    txns: ValidTxns | None,
    *,
    mode: ListingMode = ListingMode.SNAPSHOT,
    table_type: TableType | TableGuess | None = None,
    ours: AcidState | None = None,
) -> tuple[str, ...]:
    """Sentences on where Hive 4 and profile strict part on this very location; empty where they agree.

    `ours` is the strict state, where it is known already.
    """
    if ours is None:
        ours = resolve(listing, write_ids, txns, table_type=table_type, raise_on_history=False)
    if mode is ListingMode.SNAPSHOT and _reads_all(listing, ours):
        return ()
    everything = ValidTxns.everything() if txns is None else txns
    try:
        hive = resolve(listing, write_ids, everything, profile=Profile.HIVE4, mode=mode, table_type=table_type)
    except HiveFailureError as error:
        return (f"{error.message}.",)
    except NotEnoughHistoryError as error:
        if ours.history_gap is not None:
            return ()
        return (f"Hive 4 refuses to read here ({error.message}), profile strict reads.",)
    return (*_compare_directories(ours, hive), *_compare_originals(ours, hive))


def _resolve_strict(
    listing: Listing,
    stock: Stock,
    ids: ValidWriteIds,
    txns: ValidTxns | None,
    kind: TableType,
    acid_v1: bool,
    ignore_empty_files: bool,
) -> AcidState:
    insert_only = kind is TableType.INSERT_ONLY
    half = judge_half_published(listing, stock)
    counting = replace(
        stock,
        bases=tuple(c for c in stock.bases if c.name not in half.verdicts),
        deltas=tuple(c for c in stock.deltas if c.name not in half.verdicts),
    )
    selection = select_strict(
        counting,
        ids,
        ValidTxns.everything() if txns is None else txns,
        insert_only=insert_only,
        acid_v1=acid_v1,
    )
    candidates = (*stock.bases, *stock.deltas)
    verdicts = {**selection.verdicts, **half.verdicts}
    entries = [candidate.entry(verdicts[candidate.name]) for candidate in candidates]
    by_name = {entry.name: entry for entry in entries}
    base = None if selection.base is None else by_name[selection.base]
    base_candidate = next((c for c in stock.bases if c.name == selection.base), None)
    entries += _originals_entry(stock.group_files, base_candidate, insert_only)
    entries += stock.settled
    read = base is None and not insert_only
    originals = tuple(f for f in stock.original_files if read and (f.size or not ignore_empty_files))
    obsolete = [e.name for e in entries if e.state is EntryState.OBSOLETE and e.name != ORIGINALS_NAME]
    if base is not None:
        obsolete += [f.path for f in stock.original_files]
        obsolete += stock.original_directories
    live = [*([base] if base else []), *(by_name[name] for name in selection.deltas)]
    twice = attempt_notes(live, insert_only=insert_only)
    return AcidState(
        base=base,
        deltas=tuple(by_name[name] for name in selection.deltas),
        originals=originals,
        entries=tuple(sorted(entries, key=_entry_order)),
        table_type=kind,
        acid_v1=acid_v1,
        aborted_write_ids=selection.aborted_write_ids,
        uncompacted_aborts=selection.uncompacted_aborts,
        obsolete_paths=tuple(sorted(obsolete, key=path_order_key)),
        aborted_paths=tuple(e.name for e in entries if e.state is EntryState.ABORTED),
        notes=(*stock.notes, *half.notes, *selection.notes, *twice),
        doubts=(*half.doubts, *selection.doubts, *twice),
        lonely=selection.lonely,
        history_gap=selection.history_gap,
        root=listing.root,
    )


def _from_hive(listing: Listing, stock: Stock, answer: HiveAnswer, kind: TableType, acid_v1: bool) -> AcidState:
    insert_only = kind is TableType.INSERT_ONLY
    entries = _hive_entries(stock, answer)
    by_name = {entry.name: entry for entry in entries}
    base = None if answer.base is None else by_name[answer.base]
    group = [*stock.group_files]
    kept = []
    for entry in stock.settled:
        if entry.name in answer.candidates:
            continue
        # Hive 4 hides neither `-tmp.` nor `-ext-`: what lies there counts as original.
        if entry.reason_code == "hidden_name" and not is_hidden_to_hive(entry.name):
            group += entry.files
        else:
            kept.append(entry)
    nested = tuple(f"{name}/" for name in answer.candidates if "/" in name)
    if nested:
        group = [f for f in group if not f.path.startswith(nested)]
    entries += _originals_entry(
        tuple(group), None if answer.base is None else answer.candidates[answer.base], insert_only
    )
    entries += kept
    return AcidState(
        base=base,
        deltas=tuple(by_name[name] for name in answer.deltas),
        originals=() if insert_only else tuple(answer.originals),
        entries=tuple(sorted(entries, key=_entry_order)),
        table_type=kind,
        acid_v1=acid_v1,
        aborted_write_ids=tuple(sorted(answer.aborted_write_ids)),
        uncompacted_aborts=answer.uncompacted_aborts,
        obsolete_paths=tuple(sorted(answer.obsolete, key=path_order_key)),
        aborted_paths=tuple(sorted(answer.aborted, key=path_order_key)),
        notes=tuple(f"{error.message}." for error in answer.failures),
        history_gap=answer.history_gap,
        root=listing.root,
        hive_failure=next((error for error in answer.failures if isinstance(error, HiveFailureError)), None),
    )


def _hive_entries(stock: Stock, answer: HiveAnswer) -> list[StateEntry]:
    """Entries of every base and delta: those Hive considered, and those it does not see."""
    unseen = Verdict(EntryState.NOT_VISIBLE, "not_listed", "Hive 4 does not see a base or delta without visible files")
    ours: dict[str, Candidate] = {c.name: c for c in (*stock.bases, *stock.deltas)}
    nested = tuple(name for name in answer.candidates if name not in ours)
    entries = []
    for name, candidate in ours.items():
        # Our listing of the files is the complete one; less what nested directories take away.
        inner = tuple(f"{path}/" for path in nested if path.startswith(f"{name}/"))
        files = tuple(f for f in candidate.files if not f.path.startswith(inner)) if inner else candidate.files
        whole = Candidate(name, candidate.parsed, files)
        entries.append(whole.entry(answer.verdicts.get(name, unseen)))
    settled = {entry.name: entry for entry in stock.settled}
    for name in nested:
        found = answer.candidates[name]
        known = settled.get(name)
        whole = found if known is None else Candidate(name, found.parsed, known.files)
        entries.append(whole.entry(answer.verdicts.get(name, unseen)))
    return entries


def _originals_entry(files: tuple[FileInfo, ...], base: Candidate | None, insert_only: bool) -> list[StateEntry]:
    if not files:
        return []
    if insert_only:
        verdict = verdicts.originals_of_insert_only()
    elif base is not None:
        verdict = verdicts.covered_by_base("originals_", base)
    else:
        verdict = verdicts.live_originals()
    return [
        StateEntry(
            ORIGINALS_NAME,
            EntryKind.ORIGINAL,
            None,
            verdict.state,
            verdict.reason_code,
            verdict.reason,
            verdict.because_of,
            files,
        )
    ]


def _entry_order(entry: StateEntry) -> tuple[int, int, int, int, bytes]:
    """Originals, bases, deltas in the order of their writes, then everything that is no data."""
    name = path_order_key(entry.name)
    if isinstance(entry.parsed, BaseDir):
        return 1, entry.parsed.write_id, 0, 0, name
    if isinstance(entry.parsed, DeltaDir):
        delta = entry.parsed
        statement = -1 if delta.statement_id is None else delta.statement_id
        return 2, delta.min_write_id, -delta.max_write_id, statement, name
    return 0 if entry.name == ORIGINALS_NAME else 3, 0, 0, 0, name


def _reads_all(listing: Listing, ours: AcidState) -> bool:
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
