"""A listing and a reader become a state: what is read, what is not, and why.

Takes values and returns values: no storage, no clock. Every listed entry ends exactly once, live or left out
with a state, a stable code, one sentence and the directories that cause it. Two sets of rules decide:
`strict`, ours and the default, and `hive4`, which does what Hive 4.0 does, faults included. What kind of table the
files belong to is guessed here as well, as far as names can tell: it decides what counts as read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple
from weakref import ref

from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    METADATA_MARKER,
    UNION_SUBDIRECTORY,
    VERSION_MARKER,
    BaseDir,
    BucketFile,
    DeltaDir,
    OriginalFile,
    is_hidden_to_hive,
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
    HiveFailureError,
    Inventory,
    StateEntry,
    TableType,
    Verdict,
    judge_originals,
)
from acidctl.state.inventory import attempts_twice, take_inventory, unknown_files, unread_data
from acidctl.state.old_lists import too_old
from acidctl.state.selection import Selection, delta_order, list_as_hive, select_hive4, select_strict, without

# What ACID v1 (Hive 1 and 2) writes once per location: the version as a big-endian integer.
_V1_MARKER = b"\0\0\0\0"


class TableGuess(NamedTuple):
    """The kind of a table with one sentence why; `ambiguous` where another kind looks the same.

    `acid_v1`: written by Hive 1 or 2, where write ids are transaction ids and every base is a compacted one.
    `until_cleaned`: only directories that a cleaner may remove show the kind, and what is left looks like another.
    """

    type: TableType
    ambiguous: bool
    why: str
    acid_v1: bool = False
    until_cleaned: bool = False


def resolve(
    listing: Listing,
    reader: Reader,
    *,
    table_type: TableType | TableGuess | None = None,
    raise_on_history: bool = True,
) -> AcidState:
    """Decide what a reader reads of a location.

    A reader without a transaction list takes every `_v` directory as committed in profile strict; Hive 4 refuses to
    read then. `table_type` None is guessed from this location alone; a whole `TableGuess`, made from all locations,
    also says whether the table is ACID v1. Raises `NotEnoughHistoryError` where a reader would, and in profile hive4
    `HiveFailureError` or `MissingTxnListError` where Hive fails; with `raise_on_history` False the state comes back
    with `history_gap` set and notes instead.
    """
    inventory = take_inventory(listing)
    guess = table_type if isinstance(table_type, TableGuess) else guess_table_type([listing], reader)
    kind = table_type if isinstance(table_type, TableType) else guess.type
    insert_only = kind is TableType.INSERT_ONLY
    # Hive 1 and 2 have no write-id lists: one that names its table was made by a later Hive.
    acid_v1 = guess.acid_v1 and reader.effective_write_ids.table is None and not insert_only
    group: Sequence[FileInfo] = inventory.group_files
    if reader.profile is Profile.STRICT:
        selection = _select_strict(listing, inventory, reader, insert_only=insert_only, acid_v1=acid_v1)
        found = (*inventory.bases, *inventory.deltas)
        entries = [StateEntry.of(directory, selection.verdicts[directory.name]) for directory in found]
        entries += inventory.decided
        read = [*([selection.base] if selection.base else []), *selection.deltas]
        twice = attempts_twice(read, insert_only=insert_only)
        selection.notes += [one.sentence for one in twice]
        selection.doubts += twice
    else:
        selection = select_hive4(list_as_hive(listing), listing, reader, tolerant=not raise_on_history)
        entries, group = _hive_entries(inventory, selection)
    if group:
        originals = Directory(ORIGINALS_NAME, None, tuple(group))
        entries.append(StateEntry.of(originals, judge_originals(selection.base, insert_only)))
    by_name = {entry.name: entry for entry in entries}
    state = AcidState(
        base=None if selection.base is None else by_name[selection.base.name],
        deltas=tuple(by_name[directory.name] for directory in selection.deltas),
        originals=() if insert_only else tuple(selection.originals),
        entries=tuple(sorted(entries, key=_entry_order)),
        table_type=kind,
        acid_v1=acid_v1,
        notes=tuple(selection.notes),
        doubts=(*selection.doubts, *unread_data(entries), *(() if insert_only else unknown_files(selection.deltas))),
        lonely=selection.lonely,
        history_gap=selection.history_gap,
        root=listing.root,
        hive_failure=next((error for error in selection.failures if isinstance(error, HiveFailureError)), None),
    )
    found_old = too_old(state, reader.effective_write_ids)
    state = state if found_old is None else replace(state, too_old=found_old)
    # Hive does not notice what only the output of a later compaction shows.
    fails = state.history_gap if reader.profile is Profile.HIVE4 else state.not_enough_history
    if fails is not None and raise_on_history and (error := state.not_enough_history) is not None:
        raise error
    return state


# What was selected while the kind of a table was guessed, until it is asked for: the question and the answer.
_selected: dict[int, tuple[ref[Listing], tuple[object, ...], Selection]] = {}


def _select_strict(
    listing: Listing, inventory: Inventory, reader: Reader, *, insert_only: bool, acid_v1: bool
) -> Selection:
    """`select_strict`, or what it answered before."""
    question = (reader.effective_write_ids, reader.effective_txns, insert_only, acid_v1)
    known = _selected.pop(id(listing), None)
    if known is not None and known[0]() is listing and known[1] == question:
        return known[2]
    return select_strict(listing, inventory, reader, insert_only=insert_only, acid_v1=acid_v1)


def _hive_entries(inventory: Inventory, selection: Selection) -> tuple[list[StateEntry], list[FileInfo]]:
    """Entries of every base and delta, those Hive does not see too, and of what is no data; then the original files."""
    unseen = Verdict(EntryState.NOT_VISIBLE, "not_listed", "Hive 4 does not see a base or delta without visible files")
    whole = {directory.name: directory for directory in (*inventory.bases, *inventory.deltas)}
    nested = [name for name in selection.considered if name not in whole]
    # Our listing of the files is the complete one; less what nested directories take away.
    for name, directory in whole.items():
        inner = tuple(f"{path}/" for path in nested if path.startswith(f"{name}/"))
        files = tuple(f for f in directory.files if not f.path.startswith(inner)) if inner else directory.files
        whole[name] = Directory(name, directory.parsed, files)
    decided = {entry.name: entry for entry in inventory.decided}
    for name in nested:
        seen, known = selection.considered[name], decided.get(name)
        whole[name] = seen if known is None else Directory(name, seen.parsed, known.files)
    entries = [StateEntry.of(directory, selection.verdicts.get(name, unseen)) for name, directory in whole.items()]
    group = list(inventory.group_files)
    for entry in inventory.decided:
        # Hive 4 hides neither `-tmp.` nor `-ext-`: what lies there counts as original.
        if entry.name in selection.considered:
            continue
        if entry.reason_code == "hidden_name" and not is_hidden_to_hive(entry.name):
            group += entry.files
        else:
            entries.append(entry)
    below = tuple(f"{name}/" for name in selection.considered if "/" in name)
    return entries, [file for file in group if not file.path.startswith(below)] if below else group


def _entry_order(entry: StateEntry) -> tuple[int, int, int, int, bytes]:
    """Originals, bases, deltas in the order of their writes, then everything that is no data."""
    name = path_order_key(entry.name)
    if isinstance(entry.parsed, BaseDir):
        return 1, entry.parsed.write_id, 0, 0, name
    if isinstance(entry.parsed, DeltaDir):
        return 2, *delta_order(entry)
    return 0 if entry.name == ORIGINALS_NAME else 3, 0, 0, 0, name


# --- the kind of a table -------------------------------------------------------------------------------------------


def guess_table_type(listings: Iterable[Listing], reader: Reader | None = None) -> TableGuess:
    """Guess the kind of a table from the listings of all its locations, for this reader.

    What is obsolete or aborted for the reader does not count, for a cleaner may remove it. What that is depends on
    the kind again: a table counts as one of ACID v1 if what is left under the rules of ACID v1 looks so.

    Where what is left looks like an insert-only table or like a full one of LOAD DATA alone, a sign of full ACID counts
    whatever became of its directory: no Hive makes an insert-only table of one (TransactionalValidationListener).
    """
    reader = reader or Reader()
    places = [(listing, take_inventory(listing)) for listing in listings]
    as_v1 = reader.for_acid_v1()
    everything = _Signs()
    for listing, inventory in places:
        everything.add(listing, inventory)
    if everything.may_be_v1 and as_v1.effective_write_ids.table is None:
        guess = _guess_from_left(places, everything, as_v1, acid_v1=True)
        if guess.acid_v1:
            return guess
    return _guess_from_left(places, everything, reader, acid_v1=False)._replace(acid_v1=False)


def _guess_from_left(
    places: Sequence[tuple[Listing, Inventory]], everything: _Signs, reader: Reader, *, acid_v1: bool
) -> TableGuess:
    question = (reader.effective_write_ids, reader.effective_txns, False, acid_v1)
    left = []
    for listing, inventory in places:
        # As of a full table: an insert-only one differs in not knowing delete deltas, and they show that it is none.
        selection = select_strict(listing, inventory, reader, insert_only=False, acid_v1=acid_v1)
        forget = partial(_selected.pop, id(listing))
        _selected[id(listing)] = (ref(listing, forget), question, selection)
        gone = {
            name
            for name, verdict in selection.verdicts.items()
            if verdict.state in (EntryState.OBSOLETE, EntryState.ABORTED) or verdict.reason_code == "half_published"
        }
        left.append((listing, without(inventory, gone)))
    if all(one[1] is other[1] for one, other in zip(left, places, strict=True)):
        return everything.guess()
    signs = _Signs()
    for listing, inventory in left:
        signs.add(listing, inventory)
    guess = signs.guess()
    if guess.ambiguous and guess.type is TableType.INSERT_ONLY and everything.full is not None:
        return TableGuess(TableType.FULL, False, everything.full, until_cleaned=True)
    return guess


class _Signs:
    """What was seen in the locations of one table; `full` is why it is a full ACID table, `not_v1` a sign of Hive 3."""

    def __init__(self) -> None:
        self.full: str | None = None
        self.may_be_v1 = False
        self.not_v1 = False
        self.acid = False
        self.data_in_acid = False
        self.originals = False
        self.union = False

    def add(self, listing: Listing, inventory: Inventory) -> None:
        """Take in one location."""
        self.originals |= bool(inventory.original_files)
        if any(file.path == VERSION_MARKER for file in listing.files):
            self.full = self.full or f"the location holds {VERSION_MARKER}"
            self.may_be_v1 |= listing.markers.get(VERSION_MARKER) == _V1_MARKER
        for directory in (*inventory.bases, *inventory.deltas):
            self.acid = True
            if self.full is None or not self.not_v1:
                self._add_directory(directory)

    def guess(self) -> TableGuess:
        """The verdict over everything taken in."""
        if self.full is not None:
            return TableGuess(TableType.FULL, False, self.full, not self.not_v1 and self.may_be_v1)
        if not self.acid and self.originals:
            why = "there are data files but no base and no delta that counts"
            return TableGuess(TableType.ORIGINALS, True, why)
        if not self.acid:
            return TableGuess(TableType.EMPTY, True, "there are no data files")
        if self.union:
            why = f"its deltas hold {UNION_SUBDIRECTORY}* directories and no bucket file"
            return TableGuess(TableType.INSERT_ONLY, False, why)
        if self.originals:
            why = "there are original files beside its deltas, which insert-only tables do not read"
            return TableGuess(TableType.FULL, True, why)
        if not self.data_in_acid:
            return TableGuess(TableType.FULL, True, "those of its bases and deltas that count hold no data files")
        return TableGuess(
            TableType.INSERT_ONLY,
            True,
            f"those of its bases and deltas that count hold no bucket file and no {VERSION_MARKER}; a full ACID table "
            "filled by LOAD DATA alone looks the same",
        )

    def _add_directory(self, directory: Directory) -> None:
        if directory.kind is EntryKind.DELETE_DELTA:
            self.full = self.full or f"there are delete deltas, {directory.name} for one"
        self.not_v1 |= directory.visibility_txn_id is not None
        for info in directory.files:
            name = info.name
            if name == VERSION_MARKER:
                self.full = self.full or f"{directory.name} holds {VERSION_MARKER}"
            if name in (VERSION_MARKER, METADATA_MARKER):
                self.not_v1 = True
            if is_hidden_to_hive(name):
                continue
            self.data_in_acid = True
            inner = info.path[len(directory.name) + 1 :]
            self.union |= inner.startswith(UNION_SUBDIRECTORY) and "/" in inner
            file = parse_file(name)
            if isinstance(file, BucketFile):
                self.full = self.full or f"{directory.name} holds bucket files"
                self.may_be_v1 |= file.attempt_id is None
            # LOAD DATA into deltas came with Hive 3, and so did files of a numbered attempt.
            self.not_v1 |= isinstance(file, BucketFile | OriginalFile) and file.attempt_id is not None
