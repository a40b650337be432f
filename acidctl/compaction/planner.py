"""Decide from names alone what a compaction of one location reads and writes, or why there is none.

A `PlanContext` holds what is the same for the whole run; `draft` judges one location by the rules of Hive's worker
(`Worker.isEnoughToCompact`, `CompactorMR`) and by ours, which are stricter about names: a directory with a range that
crosses the output's would be read in part. What only footers tell is added later (`tasks`, `columns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from acidctl.compaction.plan import (
    Action,
    CompactionKind,
    InputEntry,
    OutputDir,
    PartitionPlan,
    TableView,
    Target,
    Thresholds,
    check_options,
    fingerprint_of,
    not_needed,
    thresholds,
    window_missing,
)
from acidctl.errors import UsageError
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    METADATA_MARKER,
    MIN_LONG,
    SIDE_FILE_SUFFIX,
    VERSION_MARKER,
    BaseDir,
    BucketFile,
    DeltaDir,
    DeltaKind,
    WriteIdRange,
    first_crossing,
    format_base,
    format_delta,
    is_journal,
)
from acidctl.format.write_ids import MAX_ID, Reader, ValidTxns, ValidWriteIds
from acidctl.options import CompactOptions
from acidctl.state.equivalence import disagreements
from acidctl.state.inventory import take_inventory
from acidctl.state.resolve import (
    ORIGINALS_NAME,
    AcidState,
    EntryKind,
    EntryState,
    StateEntry,
    TableType,
    data_files,
    empty_file_notes,
    ignored_files,
    live_entries,
    resolve,
)

METADATA_TEXT = '{"thisFileVersion":"0","dataFormat":"compacted"}'
VERSION_TEXT = "2"


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What every location of a run is judged by.

    `write_ids` is the list of which the compactor's is made; `inputs_txns` is the reader's, less the transaction under
    which the result will be published. `refusal` (code, reason) holds for every location that has work to do.
    """

    request: CompactOptions
    view: TableView
    write_ids: ValidWriteIds
    inputs_txns: ValidTxns
    assumed: tuple[str, ...]
    refusal: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    limits: Thresholds | None = None

    @property
    def compactor_ids(self) -> ValidWriteIds:
        """What the inputs are selected by: nothing at or above the lowest open id."""
        return self.write_ids.compactor()

    @property
    def insert_only(self) -> bool:
        """Whether rows have no row ids."""
        return self.view.guess.type is TableType.INSERT_ONLY

    @property
    def acid_v1(self) -> bool:
        """Whether Hive 1 or 2 wrote the table (see `state.resolve`)."""
        return self.view.guess.acid_v1 and self.write_ids.table is None and not self.insert_only


@dataclass(frozen=True, slots=True)
class PartitionDraft:
    """A location as far as names decide it: `plan` is final unless its action is COMPACT.

    `state` is what the compactor sees, `consumed` its entries that the output replaces; both are None and empty where
    nothing is to be done. `present` are outputs that exist already and that no journal accounts for.
    """

    plan: PartitionPlan
    root: str
    state: AcidState | None = None
    consumed: tuple[StateEntry, ...] = ()
    present: frozenset[str] = frozenset()

    @property
    def compacts(self) -> bool:
        """Whether there is work to do."""
        return self.plan.action is Action.COMPACT

    def refused(self, code: str, reason: str) -> PartitionDraft:
        """The draft as one that is not carried out."""
        return PartitionDraft(self.plan.refused(code, reason), self.root)


def validate_request(
    view: TableView,
    request: CompactOptions,
    listings: Iterable[Listing],
    *,
    renames: bool = True,
    locks: bool = True,
) -> PlanContext:
    """Check the options against the lists and one another; UsageError with the remedy.

    Whether the storage `renames` directories in one step, and whether of two that create a file one is refused there,
    so that it `locks`.
    """
    listings = tuple(listings)
    lists = view.lists
    check_options(request, view)
    if not request.assume_committed:
        _check_lists(view, request, listings)
    write_ids = lists.write_ids
    notes = []
    if write_ids is None or request.as_of is not None:
        # A watermark that no directory reaches would name a base after writes that are still to come.
        largest = max(map(_largest_write_id, listings), default=0)
        watermark = largest if write_ids is None else min(largest, write_ids.high_watermark)
        write_ids = ValidWriteIds.as_of(watermark)
        notes.append(
            "--assume-committed: everything on disk is treated as committed; make sure that no write is running."
        )
    refusal = None
    schema = view.schema
    if view.guess.ambiguous and view.guess.type is not TableType.EMPTY:
        why = (
            f"cannot tell whether this is a full ACID or an insert-only table: {view.guess.why}. Give --table-type, or "
            "the text of SHOW CREATE TABLE as --schema"
        )
        refusal = ("ambiguous_table_type", why)
    elif schema is not None and schema.sort_columns:
        why = "the table is SORTED BY, but a compaction sorts by row id; Hive's compactor refuses such tables too"
        refusal = ("sorted_table", why)
    else:
        refusal = window_missing(request, renames, locks)
    if schema is not None and (schema.table_property("no_auto_compaction") or "").lower() == "true":
        notes.append("The table is marked no_auto_compaction; that only stops Hive's own compactions.")
    if request.target == Target.HIVE3.value:
        named = next((name for listing in listings for name in _compacted_by_hive4(listing)), None)
        if named is not None:
            notes.append(f"Hive 3 cannot read names with _v, such as {named}: remove them with `acidctl clean` first.")
    txns, txn_notes = _inputs_txns(lists.effective_txns, request.visibility_txn)
    limits = thresholds(request.delta_num, request.delta_pct, schema) if request.only_if_needed else None
    return PlanContext(request, view, write_ids, txns, lists.assumed, refusal, (*notes, *txn_notes), limits)


def draft_partition(context: PlanContext, partition: str, path: str, listing: Listing) -> PartitionDraft:
    """Judge one location; raises NotEnoughHistoryError where no base on disk serves the compactor."""
    blank = PartitionPlan(partition, path, Action.NOTHING_TO_DO)
    if context.refusal is not None and context.refusal[0] == "ambiguous_table_type":
        return PartitionDraft(blank.refused(*context.refusal), listing.root)
    ids, txns, guess = context.compactor_ids, context.inputs_txns, context.view.guess
    state = resolve(listing, Reader(ids, txns), table_type=guess, raise_on_history=False)
    gap = state.not_enough_history
    if gap is not None:
        raise gap
    minor = context.request.kind == CompactionKind.MINOR.value
    consumed = state.deltas if minor else live_entries(state)
    idle = _nothing_to_do(context, state)
    if idle is not None:
        return PartitionDraft(replace(blank, reason_code=idle[0], reason=idle[1]), listing.root)
    below_limits = (
        None if context.limits is None else not_needed(state, CompactionKind(context.request.kind), context.limits)
    )
    if below_limits is not None:
        return PartitionDraft(replace(blank, reason_code="not_needed", reason=below_limits), listing.root)
    refusal = _refusal(context, state, consumed)
    if refusal is not None:
        return PartitionDraft(blank.refused(*refusal), listing.root)
    reach = _reach(context, state, consumed)
    outputs = _outputs(context, consumed, reach)
    present = frozenset(output.name for output in outputs if _exists(listing, output.name))
    decided = _check_output_names(state, consumed, reach, outputs, present)
    if decided is not None:
        action, code, reason = decided
        return PartitionDraft(replace(blank, action=action, reason_code=code, reason=reason), listing.root)
    replaced = _replaced_for_readers(context, listing, consumed)
    if replaced is not None:
        return PartitionDraft(replace(blank, reason_code="replaced", reason=replaced), listing.root)
    entries = tuple(_input(entry, state) for entry in consumed)
    plan = replace(
        blank,
        action=Action.COMPACT,
        inputs=entries,
        outputs=outputs,
        bytes_in=sum(info.size for entry in entries for info in entry.files),
        fingerprint=fingerprint_of(entries),
        notes=(
            *_notes(context, listing, state, consumed),
            *uncovered_aborted(state.entries, outputs[0].name, reach.max),
        ),
    )
    return PartitionDraft(plan, listing.root, state, consumed, frozenset() if _has_journal(listing) else present)


def _check_lists(view: TableView, request: CompactOptions, listings: Sequence[Listing]) -> None:
    if request.as_of is not None:
        raise UsageError(
            "--as-of alone does not say which writes are open or aborted",
            hint="Give the write ids with --validtxns, or add --assume-committed if everything on disk is committed.",
        )
    if view.lists.write_ids is None:
        raise UsageError(
            "compact needs a write-id list to know which writes are committed",
            hint="Give the write ids (db.table:20:...) with --validtxns, or --assume-committed if everything on disk "
            "is committed.",
        )
    if view.lists.txns is None:
        named = next((name for listing in listings for name in _compacted_by_hive4(listing)), None)
        if named is not None:
            raise UsageError(
                f"{named} was written by a compaction; a transaction list is needed to know whether it is committed",
                hint="Add the transaction list with a second --validtxns, or --assume-committed.",
            )


def _inputs_txns(txns: ValidTxns, own: int | None) -> tuple[ValidTxns, tuple[str, ...]]:
    """The list that inputs are judged by: what the transaction itself wrote is no input of it."""
    if own is None:
        return txns, ()
    if txns.is_aborted(own):
        raise UsageError(
            f"--visibility-txn {own} is aborted: what is published under it would never be visible",
            hint="Open a new transaction for the compaction.",
        )
    notes: tuple[str, ...] = ()
    if not txns.sees_everything and txns.is_valid(own):
        # The list that a transaction has of itself ends with it.
        if own < txns.high_watermark:
            raise UsageError(
                f"--visibility-txn {own} is committed already: readers would see its output half published",
                hint="Open a new transaction for the compaction.",
            )
        notes = (
            f"The transaction list ends with {own}: it is treated as the compaction's own transaction, still open.",
        )
    return replace(txns, open=(*txns.open, own)), notes


def _nothing_to_do(context: PlanContext, state: AcidState) -> tuple[str, str] | None:
    """Code and reason where a compaction would gain nothing (Worker.isEnoughToCompact, Hive 4)."""
    deltas, minor = state.deltas, context.request.kind == CompactionKind.MINOR.value
    if minor:
        kinds = {entry.kind for entry in deltas}
        enough = len(deltas) > 2 or (len(deltas) == 2 and len(kinds) == 1)
    else:
        enough = bool(state.originals) or len(deltas) + (state.base is not None) > 1
    # Deltas of Hive 1 and 2 are worth a base however few they are, and a minor has to say why not.
    if enough or (state.acid_v1 and deltas):
        return None
    live = [entry.name for entry in live_entries(state)]
    if not live:
        return "empty", "there is nothing to compact"
    if len(live) == 1:
        why = f"{live[0]} already holds everything"
    else:
        names = ", ".join(live) if len(live) <= 3 else f"{len(live)} directories"
        pair = " (a delta and a delete delta of one range)" if minor and len(deltas) == 2 else ""
        why = f"there are not enough deltas to merge: readers read only {names}{pair}"
    obsolete = sum(entry.state in (EntryState.OBSOLETE, EntryState.ABORTED) for entry in state.entries)
    entries = "entry" if obsolete == 1 else "entries"
    return "not_enough", why + (
        f"; `acidctl clean` removes {obsolete} obsolete or aborted {entries}" if obsolete else ""
    )


def _replaced_for_readers(context: PlanContext, listing: Listing, consumed: Sequence[StateEntry]) -> str | None:
    """Why an output would be read by nobody: an overwrite above a write that is still open covers the inputs."""
    lowest = context.write_ids.lowest_open
    if lowest is None:
        return None
    for_readers = resolve(
        listing, Reader(context.write_ids, context.inputs_txns), table_type=context.view.guess, raise_on_history=False
    )
    live = {entry.name for entry in live_entries(for_readers)}
    if all(entry.name in live for entry in consumed):
        return None
    newer = for_readers.base.name if for_readers.base is not None else "something later"
    return f"readers already read {newer}, which replaces everything below the open write id {lowest}"


def _refusal(context: PlanContext, state: AcidState, consumed: Sequence[StateEntry]) -> tuple[str, str] | None:
    """Code and reason where the inputs themselves forbid it."""
    if context.refusal is not None:
        return context.refusal
    if state.acid_v1 and context.request.kind == CompactionKind.MINOR.value:
        return "acid_v1_minor", "Hive 3 and later cannot read deltas of Hive 1 and 2; run a major compaction"
    overlap = first_overlap(live_entries(state))
    if overlap is not None:
        first, second = overlap
        return (
            "overlapping_ranges",
            f"the write ids of {first.name} and {second.name} overlap in part; readers may read rows of both, and a "
            "compaction would keep such duplicates for good",
        )
    twins = first_twins(consumed)
    if twins is not None:
        return "same_range", f"{twins[0].name} and {twins[1].name} have the same write ids, and readers read both"
    twice = None if context.insert_only else _bucket_twice(consumed)
    if twice is not None:
        return (
            "bucket_twice",
            f"{twice} is a second file of its bucket: a write was not finished, or crashed",
        )
    return None


def _outputs(context: PlanContext, consumed: Sequence[StateEntry], reach: WriteIdRange) -> tuple[OutputDir, ...]:
    """The directories that will be published, markers included; a side that no input has is not among them."""
    txn = context.request.visibility_txn
    version = () if context.insert_only else ((VERSION_MARKER, VERSION_TEXT),)
    low, high = reach.min, reach.max
    if context.request.kind == CompactionKind.MAJOR.value:
        # The suffix says "compacted" to Hive 4; without it both Hives need the marker.
        metadata = () if txn is not None else ((METADATA_MARKER, METADATA_TEXT),)
        return (OutputDir(format_base(high, txn), EntryKind.BASE.value, (*version, *metadata)),)
    return tuple(
        OutputDir(format_delta(kind, low, high, None, txn), kind.value, version)
        for kind in (DeltaKind.INSERT, DeltaKind.DELETE)
        if any(isinstance(e.parsed, DeltaDir) and e.parsed.kind is kind for e in consumed)
    )


def _reach(context: PlanContext, state: AcidState, consumed: Sequence[StateEntry]) -> WriteIdRange:
    """The write ids that the outputs stand for; a base begins at the beginning."""
    request = context.request
    minor = request.kind == CompactionKind.MINOR.value
    if minor:
        inputs = WriteIdRange.around(entry.range for entry in consumed if entry.range is not None)
    else:
        inputs = WriteIdRange(MIN_LONG, _newest(context, state, consumed))
    naming = OutputNaming(
        context.compactor_ids,
        base=not minor,
        suffixed=request.visibility_txn is not None,
        hive3=request.target == Target.HIVE3.value,
        acid_v1=context.acid_v1,
    )
    return inputs if inputs.max == MIN_LONG else widened_range(state.entries, consumed, inputs, naming)


def _newest(context: PlanContext, state: AcidState, consumed: Sequence[StateEntry]) -> int:
    """The largest id of what is consumed; of originals alone the watermark, where it is one and nothing crosses it."""
    known = [entry.max_write_id for entry in consumed if entry.max_write_id is not None]
    if known:
        return max(known)
    ids = context.compactor_ids
    real = 1 <= ids.high_watermark < MAX_ID and "write_ids" not in context.assumed and context.request.as_of is None
    watermark = last_not_aborted(ids) if real else None
    # In Hive 2 a write id is a transaction id; after an upgrade such a number need not be reached for long.
    if watermark is None or state.acid_v1 or crossing_entry(state.entries, (), WriteIdRange(MIN_LONG, watermark)):
        return MIN_LONG
    return watermark


def _check_output_names(
    state: AcidState,
    consumed: Sequence[StateEntry],
    reach: WriteIdRange,
    outputs: Sequence[OutputDir],
    present: frozenset[str],
) -> tuple[Action, str, str] | None:
    """Whether the names can be used: action, code and reason where they cannot."""
    names = [output.name for output in outputs]
    if present == set(names):
        return Action.NOTHING_TO_DO, "already_there", already_there(names)
    crossing = crossing_entry(state.entries, consumed, reach)
    if crossing is not None:
        return (
            Action.REFUSED,
            "straddled",
            f"{crossing.name} ({crossing.state.value.replace('_', ' ')}) reaches across the edge of {names[0]}, so "
            "that part of it would be hidden; compact when it is committed, compacted or cleaned",
        )
    hidden = None if reach.max == MIN_LONG else _hidden_by(state, reach)
    if hidden is not None:
        return (
            Action.REFUSED,
            "covers_unfinished",
            f"{hidden.name} lies inside {names[0]} and is not finished ({hidden.reason}); its rows would be lost",
        )
    twin = _same_range_on_disk(state, outputs, present)
    if twin is not None:
        return (
            Action.REFUSED,
            "same_range",
            f"{twin.name} is on disk with the range of {names[0]}, and Hive reads both of such a pair",
        )
    return None


def already_there(names: Sequence[str]) -> str:
    """Why a plan whose outputs all exist has nothing to do."""
    return f"{' and '.join(names)} {_are(len(names))} there already"


def _hidden_by(state: AcidState, output: WriteIdRange) -> StateEntry | None:
    """A write inside the output's range that is not finished: the compactor's list should leave none."""
    for entry in state.entries:
        unfinished = entry.state in (EntryState.OPEN, EntryState.ABOVE_WATERMARK)
        if unfinished and isinstance(entry.parsed, DeltaDir) and entry.parsed.min_write_id in output:
            return entry
    return None


def _same_range_on_disk(state: AcidState, outputs: Sequence[OutputDir], present: frozenset[str]) -> StateEntry | None:
    """A directory of an output's kind with exactly its range and no statement that may come to be read beside it."""
    wanted = {output.kind: output.name for output in outputs if output.kind != EntryKind.BASE.value}
    if not wanted:
        return None
    for entry in state.entries:
        parsed = entry.parsed
        if not isinstance(parsed, DeltaDir) or parsed.statement_id is not None or entry.kind.value not in wanted:
            continue
        if entry.name in present or entry.state is EntryState.ABORTED:
            continue
        plain = format_delta(parsed.kind, parsed.min_write_id, parsed.max_write_id)
        if wanted[entry.kind.value].partition("_v")[0] == plain:
            return entry
    return None


def _bucket_twice(consumed: Sequence[StateEntry]) -> str | None:
    """A bucket file that has a second attempt beside it."""
    for entry in consumed:
        seen: set[tuple[str, int]] = set()
        if entry.kind is EntryKind.ORIGINAL:
            continue
        for file in data_files(entry):
            if isinstance(file.parsed, BucketFile) and file.has_rows:
                key = (file.info.directory, file.parsed.bucket_id)
                if key in seen:
                    return file.info.path
                seen.add(key)
    return None


def _input(entry: StateEntry, state: AcidState) -> InputEntry:
    files: list[FileInfo] = []
    for file in data_files(entry, insert_only=state.insert_only):
        files += [file.info, *([file.side_file] if file.side_file is not None else [])]
    low, high = entry.min_write_id, entry.max_write_id
    return InputEntry(entry.name, entry.kind.value, low, high, tuple(files))


def _notes(context: PlanContext, listing: Listing, state: AcidState, consumed: Sequence[StateEntry]) -> tuple[str, ...]:
    notes = [*state.notes, *(f"{note}." for note in empty_file_notes(state))]
    unknown = [entry.name for entry in state.unrecognised]
    if unknown:
        more = f" and {len(unknown) - 1} more entries" if len(unknown) > 1 else ""
        notes.append(f"{unknown[0]}{more} {_are(len(unknown))} not recognised, and left alone.")
    passed = [info.path for entry in consumed for info in ignored_files(entry, insert_only=state.insert_only)]
    if passed:
        notes.append(f"{passed[0]} is read by nobody because of its name, and its content is not in the output.")
    nested = next((info.path for e in consumed for info in _input(e, state).files if _is_nested(e, info)), None)
    if nested is not None:
        notes.append(f"Files in subdirectories, such as {nested}, go into the output without their subdirectory.")
    notes += disagreements(
        listing, Reader(context.compactor_ids, context.inputs_txns), table_type=context.view.guess, ours=state
    )
    return tuple(dict.fromkeys(notes))


def _is_nested(entry: StateEntry, info: FileInfo) -> bool:
    inside = info.path if entry.name == ORIGINALS_NAME else info.path[len(entry.name) + 1 :]
    return "/" in inside and not info.path.endswith(SIDE_FILE_SUFFIX)


def _exists(listing: Listing, name: str) -> bool:
    return name in listing.directories or any(info.path.startswith(f"{name}/") for info in listing.files)


def _has_journal(listing: Listing) -> bool:
    """Whether a publication of two directories was interrupted; whoever takes the lock finishes or undoes it first."""
    return any(is_journal(info.path) for info in listing.files)


def _compacted_by_hive4(listing: Listing) -> list[str]:
    """Directories that only a list of transactions can judge."""
    inventory = take_inventory(listing)
    return [c.name for c in (*inventory.bases, *inventory.deltas) if c.visibility_txn_id is not None]


def _largest_write_id(listing: Listing) -> int:
    inventory = take_inventory(listing)
    return max((c.range.max for c in (*inventory.bases, *inventory.deltas) if c.range is not None), default=0)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


# --- Ranges of write ids: whether directories nest or are apart, as selecting deltas takes for granted.

_NO_DATA = (EntryState.HIDDEN, EntryState.UNRECOGNISED)
# What nobody will ever read crosses nothing.
_NEVER_READ = (*_NO_DATA, EntryState.ABORTED)


def first_overlap(entries: Iterable[StateEntry]) -> tuple[StateEntry, StateEntry] | None:
    """The first two directories that cross, None where all nest or are apart."""
    return first_crossing((entry.range, entry) for entry in entries if entry.range is not None)


def first_twins(entries: Sequence[StateEntry]) -> tuple[StateEntry, StateEntry] | None:
    """Two directories of one kind, range and statement, which a reader takes both."""
    seen: dict[tuple[object, ...], StateEntry] = {}
    for entry in entries:
        if entry.range is None:
            continue
        key = (entry.kind, entry.range, entry.statement_id)
        if key in seen:
            return seen[key], entry
        seen[key] = entry
    return None


def crossing_entry(
    entries: Iterable[StateEntry], consumed: Sequence[StateEntry], output: WriteIdRange
) -> StateEntry | None:
    """A directory outside `consumed` that crosses the range of an output and may be read some day."""
    taken = {entry.name for entry in consumed}
    for entry in entries:
        if entry.range is None or entry.name in taken or entry.state in _NEVER_READ:
            continue
        if entry.range.crosses(output):
            return entry
    return None


@dataclass(frozen=True, slots=True)
class OutputNaming:
    """What the names of outputs may be: for `base` or deltas; `suffixed` by a transaction or not; `hive3` where only
    Hive 3 is to read them; whether `ids` are those of the table, or transactions of all tables (`acid_v1`).
    """

    ids: ValidWriteIds
    base: bool
    suffixed: bool
    hive3: bool
    acid_v1: bool


def widened_range(
    entries: Iterable[StateEntry], consumed: Sequence[StateEntry], inputs: WriteIdRange, naming: OutputNaming
) -> WriteIdRange:
    """The range of the inputs, widened over aborted writes beside it as far as it crosses nothing.

    Once Hive has cleaned up after a compaction it forgets which writes were aborted. A directory of such a write that
    was not removed, or comes late, is then read unless it lies inside an output. Above the inputs every id that the
    list calls aborted is covered, below them what is on disk (a base covers all that is below).
    """
    entries, low, high = tuple(entries), inputs.min, inputs.max
    on_disk = [entry.parsed for entry in entries if entry.state is EntryState.ABORTED]
    deltas = [parsed for parsed in on_disk if isinstance(parsed, DeltaDir) and parsed.visibility_txn_id is None]
    ends = {parsed.max_write_id for parsed in deltas} | {high} if naming.acid_v1 else set(naming.ids.exceptions)
    if naming.base and not naming.suffixed:
        overwrites = {parsed.write_id for parsed in on_disk if isinstance(parsed, BaseDir)}
        ends = _names_of_bases(ends, naming) - overwrites
    above = sorted(id_ for id_ in ends if id_ > high)
    while above and (ids := _crossing_range(entries, consumed, low, above[-1])) is not None:
        above = [id_ for id_ in above[:-1] if (id_ < ids.min if low <= ids.min else id_ <= ids.max)]
    high = above[-1] if above else high
    below = sorted({parsed.min_write_id for parsed in deltas if parsed.min_write_id < low})
    while below and (ids := _crossing_range(entries, consumed, below[0], high)) is not None:
        below = [id_ for id_ in below[1:] if (id_ > ids.max if ids.max <= high else id_ >= ids.min)]
    return WriteIdRange(below[0] if below else low, high)


def _crossing_range(
    entries: Iterable[StateEntry], consumed: Sequence[StateEntry], low: int, high: int
) -> WriteIdRange | None:
    crossing = crossing_entry(entries, consumed, WriteIdRange(low, high))
    return None if crossing is None else crossing.range


def _names_of_bases(ends: set[int], naming: OutputNaming) -> set[int]:
    """Ids with which a base without a suffix covers `ends`: for each the next that is not aborted, if there is one.

    The Cleaner of Hive 4 does not look into a base for the marker that tells it from an overwrite: it removes one that
    ends with an aborted id, whoever compacted it. That of Hive 3 does not.
    """
    following: dict[int, int] = {}
    for end in sorted(ends, reverse=True):
        id_ = end
        while naming.ids.is_aborted(id_) and id_ not in following:
            id_ += 1
        following[end] = following.get(id_, id_)
    found = {id_ for id_ in following.values() if id_ <= naming.ids.high_watermark}
    return found | ends if naming.hive3 else found


def uncovered_aborted(entries: Iterable[StateEntry], output: str, high: int) -> tuple[str, ...]:
    """A sentence where directories of aborted writes lie above an output that ends with `high`."""
    aborted = [entry for entry in entries if entry.state is EntryState.ABORTED]
    above = [entry.name for entry in aborted if entry.range is not None and entry.range.max > high]
    if not above:
        return ()
    more = f" and {len(above) - 1} more" if len(above) > 1 else ""
    return (
        f"{above[0]}{more}, which an aborted write left, lies above {output}: remove it with `acidctl clean` while "
        "Hive knows that it was aborted, or publish under a transaction (--visibility-txn), which can cover it.",
    )


def last_not_aborted(ids: ValidWriteIds) -> int | None:
    """The largest id with which a base without a suffix may end, None where all are aborted."""
    return next((id_ for id_ in range(ids.high_watermark, 0, -1) if not ids.is_aborted(id_)), None)
