"""A listing and a reader become a state: what is read, what is not, and why.

Takes values and returns values: no storage, no clock. Every listed entry ends exactly once, live or left out
with a state, a stable code, one sentence and the directories that cause it. Two sets of rules decide:
`strict`, ours and the default, and `hive4`, which does what Hive 4.0 does, faults included. What kind of table the
files belong to is guessed here as well, as far as names can tell: it decides what counts as read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from acidctl.format.listing import Listing
from acidctl.format.names import (
    METADATA_MARKER,
    UNION_SUBDIRECTORY,
    VERSION_MARKER,
    BaseDir,
    BucketFile,
    DeltaDir,
    DeltaKind,
    OriginalFile,
    is_hidden_to_hive,
    parse_directory,
    parse_file,
    path_order_key,
)
from acidctl.format.write_ids import Profile, Reader
from acidctl.state.entries import (
    ORIGINALS_NAME,
    AcidState,
    Directory,
    EntryKind,
    EntryState,
    HistoryGap,
    HiveFailureError,
    HiveFault,
    Inventory,
    ListingMode,
    MissingTxnListError,
    StateEntry,
    TableType,
    Verdict,
    judge_originals,
)
from acidctl.state.hive4 import HiveSelection, select_hive4
from acidctl.state.inventory import (
    DataFile,
    SyntheticGroup,
    attempt_notes,
    data_files,
    empty_file_notes,
    ignored_files,
    live_entries,
    synthetic_layout,
    take_inventory,
)
from acidctl.state.journal import judge_half_published
from acidctl.state.strict import select_strict

__all__ = [
    "ORIGINALS_NAME",
    "AcidState",
    "DataFile",
    "Directory",
    "EntryKind",
    "EntryState",
    "HistoryGap",
    "HiveFailureError",
    "HiveFault",
    "ListingMode",
    "MissingTxnListError",
    "Profile",
    "Reader",
    "StateEntry",
    "SyntheticGroup",
    "TableGuess",
    "TableType",
    "Verdict",
    "data_files",
    "empty_file_notes",
    "guess_table_type",
    "ignored_files",
    "live_entries",
    "looks_like_acid",
    "resolve",
    "synthetic_layout",
]

# What ACID v1 (Hive 1 and 2) writes once per location: the version as a big-endian integer.
_V1_MARKER = b"\0\0\0\0"


@dataclass(frozen=True, slots=True)
class TableGuess:
    """The kind of a table with one sentence why; `ambiguous` where another kind looks the same.

    `acid_v1`: written by Hive 1 or 2, where write ids are transaction ids and every base is a compacted one.
    """

    type: TableType
    ambiguous: bool
    why: str
    acid_v1: bool = False


def resolve(
    listing: Listing,
    reader: Reader,
    *,
    mode: ListingMode = ListingMode.SNAPSHOT,
    ignore_empty_files: bool = True,
    table_type: TableType | TableGuess | None = None,
    raise_on_history: bool = True,
) -> AcidState:
    """Decide what a reader reads of a location.

    A reader without a transaction list takes every `_v` directory as committed in profile strict; Hive 4 refuses to
    read then. `table_type` None is guessed from this location alone; a whole `TableGuess`, made from all locations,
    also says whether the table is ACID v1. `mode` concerns profile hive4 only. Raises `NotEnoughHistoryError` where a
    reader would, and in profile hive4 `HiveFailureError` or `MissingTxnListError` where Hive fails; with
    `raise_on_history` False the state comes back with `history_gap` set and notes instead.
    """
    inventory = take_inventory(listing)
    if isinstance(table_type, TableGuess):
        kind, acid_v1 = table_type.type, table_type.acid_v1
    else:
        guess = guess_table_type([listing], reader)
        kind, acid_v1 = table_type or guess.type, guess.acid_v1
    ids = reader.effective_write_ids
    # Hive 1 and 2 have no write-id lists: one that names its table was made by a later Hive.
    acid_v1 = acid_v1 and ids.table is None and kind is not TableType.INSERT_ONLY
    if reader.profile is Profile.STRICT:
        state = _resolve_strict(listing, inventory, reader, kind, acid_v1, ignore_empty_files)
    else:
        selection = select_hive4(
            listing, reader, mode=mode, ignore_empty_files=ignore_empty_files, tolerant=not raise_on_history
        )
        state = _from_hive(listing, inventory, selection, kind, acid_v1)
    if state.history_gap is not None and raise_on_history:
        raise state.history_gap.to_error(listing.root or None)
    return state


def _resolve_strict(
    listing: Listing, inventory: Inventory, reader: Reader, kind: TableType, acid_v1: bool, ignore_empty_files: bool
) -> AcidState:
    insert_only = kind is TableType.INSERT_ONLY
    half = judge_half_published(listing, inventory)
    ids, txns = reader.effective_write_ids, reader.effective_txns
    published = _without(inventory, half.verdicts)
    selection = select_strict(published, ids, txns, insert_only=insert_only, acid_v1=acid_v1)
    verdicts = {**selection.verdicts, **half.verdicts}
    directories = {directory.name: directory for directory in (*inventory.bases, *inventory.deltas)}
    by_name = {name: StateEntry(directory, verdicts[name]) for name, directory in directories.items()}
    base = None if selection.base is None else by_name[selection.base.name]
    entries = [*by_name.values(), *inventory.decided]
    if inventory.group_files:
        verdict = judge_originals(None if base is None else base.directory, insert_only)
        entries.append(StateEntry(Directory(ORIGINALS_NAME, None, inventory.group_files), verdict))
    read = base is None and not insert_only
    twice = attempt_notes([*([selection.base] if selection.base else []), *selection.deltas], insert_only=insert_only)
    return AcidState(
        base=base,
        deltas=tuple(by_name[directory.name] for directory in selection.deltas),
        originals=tuple(f for f in inventory.original_files if read and (f.size or not ignore_empty_files)),
        entries=tuple(sorted(entries, key=_entry_order)),
        table_type=kind,
        acid_v1=acid_v1,
        notes=(*inventory.notes, *half.notes, *selection.notes, *twice),
        doubts=(*half.doubts, *selection.doubts, *twice),
        lonely=selection.lonely,
        history_gap=selection.history_gap,
        root=listing.root,
    )


def _without(inventory: Inventory, names: Collection[str]) -> Inventory:
    """An inventory less some bases and deltas."""
    if not names:
        return inventory
    return replace(
        inventory,
        bases=tuple(directory for directory in inventory.bases if directory.name not in names),
        deltas=tuple(directory for directory in inventory.deltas if directory.name not in names),
    )


def _from_hive(
    listing: Listing, inventory: Inventory, selection: HiveSelection, kind: TableType, acid_v1: bool
) -> AcidState:
    insert_only = kind is TableType.INSERT_ONLY
    entries = _hive_entries(inventory, selection)
    by_name = {entry.name: entry for entry in entries}
    group = [*inventory.group_files]
    for entry in inventory.decided:
        if entry.name in selection.considered:
            continue
        # Hive 4 hides neither `-tmp.` nor `-ext-`: what lies there counts as original.
        if entry.reason_code == "hidden_name" and not is_hidden_to_hive(entry.name):
            group += entry.files
        else:
            entries.append(entry)
    nested = tuple(f"{name}/" for name in selection.considered if "/" in name)
    if nested:
        group = [f for f in group if not f.path.startswith(nested)]
    if group:
        verdict = judge_originals(selection.base, insert_only)
        entries.append(StateEntry(Directory(ORIGINALS_NAME, None, tuple(group)), verdict))
    return AcidState(
        base=None if selection.base is None else by_name[selection.base.name],
        deltas=tuple(by_name[directory.name] for directory in selection.deltas),
        originals=() if insert_only else tuple(selection.originals),
        entries=tuple(sorted(entries, key=_entry_order)),
        table_type=kind,
        acid_v1=acid_v1,
        notes=tuple(f"{error.message}." for error in selection.failures),
        history_gap=selection.history_gap,
        root=listing.root,
        hive_failure=next((error for error in selection.failures if isinstance(error, HiveFailureError)), None),
    )


def _hive_entries(inventory: Inventory, selection: HiveSelection) -> list[StateEntry]:
    """Entries of every base and delta: those Hive considered, and those it does not see."""
    unseen = Verdict(EntryState.NOT_VISIBLE, "not_listed", "Hive 4 does not see a base or delta without visible files")
    ours = {directory.name: directory for directory in (*inventory.bases, *inventory.deltas)}
    nested = [name for name in selection.considered if name not in ours]
    # Our listing of the files is the complete one; less what nested directories take away.
    whole = {}
    for name, directory in ours.items():
        inner = tuple(f"{path}/" for path in nested if path.startswith(f"{name}/"))
        files = tuple(f for f in directory.files if not f.path.startswith(inner)) if inner else directory.files
        whole[name] = Directory(name, directory.parsed, files)
    decided = {entry.name: entry for entry in inventory.decided}
    for name in nested:
        seen, known = selection.considered[name], decided.get(name)
        whole[name] = seen if known is None else Directory(name, seen.parsed, known.files)
    return [StateEntry(directory, selection.verdicts.get(name, unseen)) for name, directory in whole.items()]


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


# --- the kind of a table -------------------------------------------------------------------------------------------


def guess_table_type(listings: Iterable[Listing], reader: Reader | None = None) -> TableGuess:
    """Guess the kind of a table from the listings of all its locations, for this reader.

    What is obsolete or aborted for the reader does not count, for a cleaner may remove it. What that is depends on
    the kind again: a table counts as one of ACID v1 if what is left under the rules of ACID v1 looks so.
    """
    reader = reader or Reader()
    places = [(listing, take_inventory(listing)) for listing in listings]
    as_v1 = reader.for_acid_v1()
    everything = _Signs()
    for listing, inventory in places:
        everything.add(listing, inventory)
    if everything.may_be_v1 and as_v1.effective_write_ids.table is None:
        guess = _guess_from_left(places, as_v1, acid_v1=True)
        if guess.acid_v1:
            return guess
    return replace(_guess_from_left(places, reader, acid_v1=False), acid_v1=False)


def _guess_from_left(places: Sequence[tuple[Listing, Inventory]], reader: Reader, *, acid_v1: bool) -> TableGuess:
    signs = _Signs()
    for listing, inventory in places:
        # As of a full table: an insert-only one differs in not knowing delete deltas, and they show that it is none.
        published = _without(inventory, judge_half_published(listing, inventory).verdicts)
        ids, txns = reader.effective_write_ids, reader.effective_txns
        verdicts = select_strict(published, ids, txns, insert_only=False, acid_v1=acid_v1).verdicts
        removable = (EntryState.OBSOLETE, EntryState.ABORTED)
        signs.add(
            listing, _without(inventory, {name for name, verdict in verdicts.items() if verdict.state in removable})
        )
    return signs.guess()


class _Signs:
    """What was seen in the locations of one table."""

    def __init__(self) -> None:
        self.full: str | None = None
        self.v1_marker = False
        self.not_v1 = False
        self.plain_buckets = False
        self.data_in_acid = False
        self.acid = False
        self.originals = False
        self.union = False

    def add(self, listing: Listing, inventory: Inventory) -> None:
        """Take in one location."""
        self.originals |= bool(inventory.original_files)
        if any(file.path == VERSION_MARKER for file in listing.files):
            self.full = self.full or f"{VERSION_MARKER} stands in the location"
            self.v1_marker |= listing.markers.get(VERSION_MARKER) == _V1_MARKER
        for directory in (*inventory.bases, *inventory.deltas):
            self.acid = True
            self._add_directory(directory)

    @property
    def may_be_v1(self) -> bool:
        """Whether anything here is called as Hive 1 and 2 call it."""
        return self.v1_marker or self.plain_buckets

    def guess(self) -> TableGuess:
        """The verdict over everything taken in."""
        if self.full is not None:
            acid_v1 = not self.not_v1 and self.may_be_v1
            return TableGuess(TableType.FULL, False, self.full, acid_v1)
        if not self.acid:
            if self.originals:
                return TableGuess(
                    TableType.ORIGINALS, True, "there are data files but no base and no delta that counts"
                )
            return TableGuess(TableType.EMPTY, True, "there are no data files")
        if self.union:
            return TableGuess(
                TableType.INSERT_ONLY,
                False,
                f"its deltas hold {UNION_SUBDIRECTORY}* directories and no bucket file",
            )
        if self.originals:
            return TableGuess(
                TableType.FULL,
                True,
                "original files stand beside its deltas, which insert-only tables do not read",
            )
        if not self.data_in_acid:
            return TableGuess(TableType.FULL, True, "those of its bases and deltas that count hold no data files")
        return TableGuess(
            TableType.INSERT_ONLY,
            True,
            f"those of its bases and deltas that count hold no bucket file and no {VERSION_MARKER}; a full ACID table "
            "filled by LOAD DATA alone looks the same",
        )

    def _add_directory(self, directory: Directory) -> None:
        if self.full is not None and self.not_v1:
            return
        parsed = directory.parsed
        if isinstance(parsed, DeltaDir) and parsed.kind is DeltaKind.DELETE:
            self.full = self.full or f"there are delete deltas, {directory.name} for one"
        self.not_v1 |= directory.visibility_txn_id is not None
        for file in directory.files:
            name = file.name
            if name == VERSION_MARKER:
                self.full = self.full or f"{directory.name} holds {VERSION_MARKER}"
                self.not_v1 = True
            elif name == METADATA_MARKER:
                self.not_v1 = True
            elif not name.startswith(("_", ".")):
                self._add_file(directory, file.path)

    def _add_file(self, directory: Directory, path: str) -> None:
        inside, _, name = path[len(directory.name) + 1 :].rpartition("/")
        file = parse_file(name)
        self.data_in_acid = True
        if isinstance(file, BucketFile):
            self.full = self.full or f"{directory.name} holds bucket files"
            self.plain_buckets |= file.attempt_id is None
            self.not_v1 |= file.attempt_id is not None
        elif isinstance(file, OriginalFile):
            # LOAD DATA into deltas came with Hive 3.
            self.not_v1 = True
        if inside.startswith(UNION_SUBDIRECTORY):
            self.union = True


def looks_like_acid(listing: Listing) -> bool:
    """Whether a location holds any base or delta directory, readable or not."""
    names = {path.split("/", 1)[0] for path in listing.directories}
    names |= {file.path.split("/", 1)[0] for file in listing.files if "/" in file.path}
    return any(isinstance(parse_directory(name), BaseDir | DeltaDir) for name in names)
