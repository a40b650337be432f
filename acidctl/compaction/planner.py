"""Decide from names alone what a compaction of one location reads and writes, or why there is none.

A `PlanContext` holds what is the same for the whole run; `draft_partition` judges one location by the rules of Hive's
worker (`Worker.isEnoughToCompact`, `CompactorMR`) and by ours, which are stricter about names: a directory with a range
that crosses the output's would be read in part. What only footers tell is added later (`tasks`, `columns`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from acidctl.compaction.plan import (
    Action,
    CompactionKind,
    InputEntry,
    NotPlannedError,
    OutputDir,
    PartitionPlan,
    TableView,
    Target,
    fingerprint_of,
)
from acidctl.errors import UsageError
from acidctl.findings import Finding, accepted_codes, unaccepted
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import (
    METADATA_MARKER,
    MIN_LONG,
    SIDE_FILE_SUFFIX,
    VERSION_MARKER,
    BaseDir,
    DeltaDir,
    DeltaKind,
    WriteIdRange,
    format_base,
    format_delta,
    is_journal,
    parse_directory,
)
from acidctl.format.write_ids import MAX_ID, Reader, ValidTxns, ValidWriteIds
from acidctl.options import CompactOptions
from acidctl.state.entries import (
    ORIGINALS_NAME,
    AcidState,
    Directory,
    EntryKind,
    EntryState,
    StateEntry,
    TableType,
    TooOld,
)
from acidctl.state.equivalence import disagreements
from acidctl.state.inventory import data_files, empty_file_notes, ignored_files, live_entries, take_inventory
from acidctl.state.resolve import resolve
from acidctl.values import dataclass

METADATA_TEXT = '{"thisFileVersion":"0","dataFormat":"compacted"}'
VERSION_TEXT = "2"
# What has to be exceeded, in Hive 3.1 and 4: a number of directories, and a fraction (in spite of its name) of the
# base's size (`hive.compactor.delta.num.threshold`, `hive.compactor.delta.pct.threshold`).
_DELTA_NUM = 10
_DELTA_PCT = 0.1
_THRESHOLD = "compactorthreshold.hive.compactor.delta.{}.threshold"


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What every location of a run is judged by.

    `write_ids` is the list of which the compactor's is made; `inputs_txns` is the reader's, less the transaction under
    which the result will be published. `refusal` (code, reason) holds for every location that has work to do;
    `limits` are a number of deltas and a fraction of the base's size from which on there is work, `accepted` the codes
    of findings that refuse nothing.
    """

    request: CompactOptions
    view: TableView
    write_ids: ValidWriteIds
    inputs_txns: ValidTxns
    refusal: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None
    accepted: frozenset[str] = frozenset()

    @property
    def compactor_ids(self) -> ValidWriteIds:
        """What the inputs are selected by: nothing at or above the lowest open id."""
        return self.write_ids.compactor()

    @property
    def minor(self) -> bool:
        """Whether deltas become wider ones, and not a base."""
        return self.request.kind == CompactionKind.MINOR.value

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

    `state` is what the compactor sees, `consumed` its entries that the output replaces, `readers` what readers do; None
    and empty where nothing is to be done. `present` are outputs that exist already and that no journal accounts for.
    """

    plan: PartitionPlan
    root: str
    state: AcidState | None = None
    consumed: tuple[StateEntry, ...] = ()
    present: frozenset[str] = frozenset()
    readers: AcidState | None = None

    @property
    def compacts(self) -> bool:
        """Whether there is work to do."""
        return self.plan.action is Action.COMPACT

    def refused(self, code: str, reason: str) -> PartitionDraft:
        """The draft as one that is not carried out."""
        return PartitionDraft(self.plan.left(NotPlannedError(code, reason)), self.root)


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
    lists, schema, txn = view.lists, view.schema, request.visibility_txn
    named = _named_by_hive4(listings) if lists.txns is None or request.target == Target.HIVE3.value else None
    for broken, message, hint in (*_faults_of_options(view, request), *_faults_of_lists(view, request, named)):
        if broken:
            raise UsageError(message, hint=hint)
    write_ids, notes = lists.write_ids, []
    if write_ids is None or request.as_of is not None:
        # A watermark that no directory reaches would name a base after writes that are still to come.
        largest = max((item.range.max for item in _directories(listings) if item.range is not None), default=0)
        watermark = largest if write_ids is None else min(largest, write_ids.high_watermark)
        write_ids = ValidWriteIds.as_of(watermark)
        notes.append(
            "--assume-committed: everything on disk is treated as committed; make sure that no write is running."
        )
    if schema is not None and (schema.table_property("no_auto_compaction") or "").lower() == "true":
        notes.append("The table is marked no_auto_compaction; that only stops Hive's own compactions.")
    if request.target == Target.HIVE3.value and named is not None:
        notes.append(f"Hive 3 cannot read names with _v, such as {named}: remove them with `acidctl clean` first.")
    txns = lists.effective_txns
    if txn is not None:
        if not txns.sees_everything and txns.is_valid(txn):
            # The list that a transaction has of itself ends with it.
            notes.append(
                f"The transaction list ends with {txn}: it is treated as the compaction's own transaction, still open."
            )
        # What the transaction itself wrote is no input of it.
        txns = replace(txns, open=(*txns.open, txn))
    refusal = _refusal_of_table(view, request, renames, locks)
    accepted = accepted_codes(request.accept_doubts)
    return PlanContext(request, view, write_ids, txns, refusal, tuple(notes), _limits(view, request), accepted)


def _directories(listings: Iterable[Listing]) -> Iterator[Directory]:
    for inventory in map(take_inventory, listings):
        yield from (*inventory.bases, *inventory.deltas)


def _named_by_hive4(listings: Iterable[Listing]) -> str | None:
    """A directory that only a list of transactions can judge."""
    return next((item.name for item in _directories(listings) if item.visibility_txn_id is not None), None)


_Fault = tuple[bool, str, str | None]


def _faults_of_options(view: TableView, request: CompactOptions) -> tuple[_Fault, ...]:
    """Values that cannot be, and options that exclude or need each other: whether it is so, message and hint."""
    txn = request.visibility_txn
    return (
        (
            bool(request.drop_columns) and view.schema is None,
            "--drop-columns needs --schema",
            "Give the columns that the table has today with --schema; without it every column is kept.",
        ),
        (txn is not None and txn < 1, f"--visibility-txn {txn}: transaction ids begin at 1", None),
        (
            txn is not None and txn >= MAX_ID,
            f"--visibility-txn {txn} is not a transaction id: the largest 64-bit number stands for none",
            "Give the id of the transaction that was opened for the compaction.",
        ),
        (
            txn is not None and request.target == Target.HIVE3.value,
            "--visibility-txn and --target hive3 exclude each other: Hive 3 cannot read names with _v",
            "Leave one of them out.",
        ),
        (
            request.split_bytes < 1,
            f"the size from which buckets are divided must be positive, not {request.split_bytes}",
            None,
        ),
        (
            request.max_bytes is not None and request.max_bytes < 1,
            f"--max-bytes {request.max_bytes}: it must be positive",
            None,
        ),
        (
            request.max_partitions is not None and request.max_partitions < 1,
            f"--max-partitions {request.max_partitions}: it must be positive",
            None,
        ),
    )


def _faults_of_lists(view: TableView, request: CompactOptions, named: str | None) -> tuple[_Fault, ...]:
    """What the lists lack, or deny."""
    txn, txns, trusted = request.visibility_txn, view.lists.effective_txns, request.assume_committed
    committed = txn is not None and not txns.sees_everything and txns.is_valid(txn)
    return (
        (
            not trusted and request.as_of is not None,
            "--as-of alone does not say which writes are open or aborted",
            "Give the write ids with --validtxns, or add --assume-committed if everything on disk is committed.",
        ),
        (
            not trusted and view.lists.write_ids is None,
            "compact needs a write-id list to know which writes are committed",
            "Give the write ids (db.table:20:...) with --validtxns, or --assume-committed if everything on disk is "
            "committed.",
        ),
        (
            not trusted and view.lists.txns is None and named is not None,
            f"{named} was written by a compaction; a transaction list is needed to know whether it is committed",
            "Add the transaction list with a second --validtxns, or --assume-committed.",
        ),
        (
            txn is not None and txns.is_aborted(txn),
            f"--visibility-txn {txn} is aborted: what is published under it would never be visible",
            "Open a new transaction for the compaction.",
        ),
        (
            committed and txn is not None and txn < txns.high_watermark,
            f"--visibility-txn {txn} is committed already: readers would see its output half published",
            "Open a new transaction for the compaction.",
        ),
    )


def _refusal_of_table(view: TableView, request: CompactOptions, renames: bool, locks: bool) -> tuple[str, str] | None:
    """Code and reason where the table, or its storage, forbids every compaction."""
    if view.guess.ambiguous and view.guess.type is not TableType.EMPTY:
        return (
            "ambiguous_table_type",
            f"cannot tell whether this is a full ACID or an insert-only table: {view.guess.why}. Give --table-type, or "
            "the text of SHOW CREATE TABLE as --schema",
        )
    if view.schema is not None and view.schema.sort_columns:
        why = "the table is SORTED BY, but a compaction sorts by row id; Hive's compactor refuses such tables too"
        return "sorted_table", why
    if request.assume_exclusive:
        return None
    if not locks:
        return (
            "needs_exclusive_window",
            "this storage cannot lock the table against another run; use --assume-exclusive while nobody else uses the "
            "table",
        )
    if renames or request.visibility_txn is not None:
        return None
    return (
        "needs_exclusive_window",
        "object stores cannot rename: Hive would see a half-copied result. Publish it under a transaction that is "
        "committed only afterwards (--visibility-txn), or use --assume-exclusive while nobody uses the table",
    )


def _limits(view: TableView, request: CompactOptions) -> tuple[float, float] | None:
    """What was asked for, else what the table's properties say (as Hive reads them), else Hive's defaults."""
    if not request.only_if_needed:
        return None
    found = []
    for asked, name, default in ((request.delta_num, "num", _DELTA_NUM), (request.delta_pct, "pct", _DELTA_PCT)):
        text = None if view.schema is None else view.schema.table_property(_THRESHOLD.format(name))
        try:
            stated = default if text is None else float(text)
        except ValueError:
            stated = default
        found.append(asked if asked is not None else stated if math.isfinite(stated) else default)
    number, fraction = found
    if number < 0 or fraction < 0:
        raise UsageError("the thresholds of --only-if-needed cannot be negative")
    return int(number), fraction


def draft_partition(
    context: PlanContext, partition: str, path: str, listing: Listing, *, recovered: bool = False
) -> PartitionDraft:
    """Judge one location; raises NotEnoughHistoryError where no base on disk serves the compactor.

    `recovered` says that whoever asks has the lock, and has completed or undone what was half published.
    """
    blank = PartitionPlan(partition, path, Action.NOTHING_TO_DO)
    try:
        return _draft(context, blank, listing, recovered)
    except NotPlannedError as why:
        return PartitionDraft(blank.left(why), listing.root)


def _draft(context: PlanContext, blank: PartitionPlan, listing: Listing, recovered: bool) -> PartitionDraft:
    if context.refusal is not None and context.refusal[0] == "ambiguous_table_type":
        raise NotPlannedError(*context.refusal)
    reader, guess = Reader(context.compactor_ids, context.inputs_txns), context.view.guess
    state = resolve(listing, reader, table_type=guess, raise_on_history=False)
    if state.history_gap is not None:
        raise state.history_gap.to_error(state.root or None)
    if state.too_old is not None:
        raise lists_too_old(state.too_old)
    minor = context.minor
    consumed = state.deltas if minor else live_entries(state)
    _require_enough(state, minor)
    _require_due(context, state)
    # What is half published is completed or undone by whoever takes the lock, and looked at again then.
    readers = _seen_by_readers(context, listing, state)
    doubts = [one for one in dict.fromkeys(state.doubts + readers.doubts) if recovered or one.code != "half_published"]
    require_believed(doubts, context.accepted)
    _require_mergeable(context, state)
    reach = _reach(context, state, consumed)
    outputs = _outputs(context, consumed, reach)
    names = [output.name for output in outputs]
    present = frozenset(name for name in names if _exists(listing, name))
    if present == set(names):
        raise already_there(names)
    _require_apart(state, consumed, reach, outputs, present)
    _require_readable(context, readers, consumed)
    entries = tuple(_input(entry, state) for entry in consumed)
    notes = _notes(state, consumed, entries)
    notes += disagreements(listing, reader, table_type=guess, ours=state)
    plan = replace(
        blank,
        action=Action.COMPACT,
        inputs=entries,
        outputs=outputs,
        bytes_in=sum(info.size for entry in entries for info in entry.files),
        fingerprint=fingerprint_of(entries),
        notes=(*dict.fromkeys(notes), *_uncovered_aborted(state.entries, names[0], reach.max)),
        findings=tuple(doubts),
    )
    # A publication of two directories was interrupted: whoever takes the lock finishes or undoes it first.
    interrupted = any(is_journal(info.path) for info in listing.files)
    return PartitionDraft(plan, listing.root, state, consumed, frozenset() if interrupted else present, readers)


def require_believed(findings: Iterable[Finding], accepted: frozenset[str]) -> None:
    """Refuse what would make a doubtful answer the only one."""
    if doubts := unaccepted(findings, accepted):
        raise NotPlannedError.of_findings(doubts)


def lists_too_old(found: TooOld) -> NotPlannedError:
    """Why nothing is compacted by such lists: the result would hide the output that they do not show."""
    return NotPlannedError("lists_too_old", f"{found.reason}; give newer lists")


def _require_enough(state: AcidState, minor: bool) -> None:
    """Whether a compaction would gain anything (Worker.isEnoughToCompact, Hive 4)."""
    deltas = state.deltas
    if minor:
        enough = len(deltas) > 2 or (len(deltas) == 2 and len({entry.kind for entry in deltas}) == 1)
    else:
        enough = bool(state.originals) or len(deltas) + (state.base is not None) > 1
    # Deltas of Hive 1 and 2 are worth a base however few they are, and a minor has to say why not.
    if enough or (state.acid_v1 and deltas):
        return
    live = [entry.name for entry in live_entries(state)]
    if not live:
        raise NotPlannedError("empty", "there is nothing to compact", Action.NOTHING_TO_DO)
    if len(live) == 1:
        why = f"{live[0]} already holds everything"
    else:
        names = ", ".join(live) if len(live) <= 3 else f"{len(live)} directories"
        pair = " (a delta and a delete delta of one range)" if minor and len(deltas) == 2 else ""
        why = f"there are not enough deltas to merge: readers read only {names}{pair}"
    obsolete = sum(entry.state in (EntryState.OBSOLETE, EntryState.ABORTED) for entry in state.entries)
    if obsolete:
        why += f"; `acidctl clean` removes {obsolete} obsolete or aborted {'entry' if obsolete == 1 else 'entries'}"
    raise NotPlannedError("not_enough", why, Action.NOTHING_TO_DO)


def _require_due(context: PlanContext, state: AcidState) -> None:
    """Whether a compaction is due, by the rules of Hive's initiator (`Initiator.determineCompactionType`).

    The base's size is that of its files, or of the original files where there is none (Hive 4; Hive 3.1 adds both). A
    minor compaction shrinks nothing, so for it only the number counts; a major one is due by either.
    """
    if context.limits is None:
        return
    least, fraction = context.limits
    base = sum(info.size for info in (state.originals if state.base is None else state.base.files))
    deltas = sum(info.size for entry in state.deltas for info in entry.files)
    count = len(state.deltas)
    if count > least or (not context.minor and base > 0 and deltas / base > fraction):
        return
    why = f"{count} deltas (more than {least} are needed)"
    if base > 0:
        why += f", {deltas / base:.1%} of the size of the base"
        if not context.minor:
            why += f" (more than {fraction:.1%} is needed)"
    raise NotPlannedError(
        "not_needed", f"not needed by the thresholds of --only-if-needed: {why}", Action.NOTHING_TO_DO
    )


def _require_mergeable(context: PlanContext, state: AcidState) -> None:
    """Refuse what no doubt says: the table, or a compaction of this kind. Ranges and buckets are among the doubts."""
    if context.refusal is not None:
        raise NotPlannedError(*context.refusal)
    if state.acid_v1 and context.minor:
        raise NotPlannedError(
            "acid_v1_minor", "Hive 3 and later cannot read deltas of Hive 1 and 2; run a major compaction"
        )
    nested = next((entry.name for entry in state.unrecognised if entry.reason_code == "nested" and entry.bytes), None)
    if context.insert_only and nested is not None:
        raise NotPlannedError(
            "nested_directories",
            f"{nested} lies inside another directory; in an insert-only table Hive 4 reads it there, and only "
            "Hive's own compaction keeps its rows",
        )


def _reach(context: PlanContext, state: AcidState, consumed: Sequence[StateEntry]) -> WriteIdRange:
    """The write ids that the outputs stand for; a base begins at the beginning."""
    if context.minor:
        inputs = WriteIdRange.around(entry.range for entry in consumed if entry.range is not None)
    else:
        inputs = WriteIdRange(MIN_LONG, _newest(context, state, consumed))
    return inputs if inputs.max == MIN_LONG else _widened(context, state.entries, consumed, inputs)


def _newest(context: PlanContext, state: AcidState, consumed: Sequence[StateEntry]) -> int:
    """The largest id of what is consumed; of originals alone the watermark, where it is one and nothing crosses it."""
    known = [entry.max_write_id for entry in consumed if entry.max_write_id is not None]
    if known:
        return max(known)
    ids = context.compactor_ids
    if (
        not 1 <= ids.high_watermark < MAX_ID
        or context.view.lists.write_ids is None
        or context.request.as_of is not None
    ):
        return MIN_LONG
    # A base without a suffix may not end with an aborted id.
    watermark = next((id_ for id_ in range(ids.high_watermark, 0, -1) if not ids.is_aborted(id_)), None)
    # In Hive 2 a write id is a transaction id; after an upgrade such a number need not be reached for long.
    if watermark is None or state.acid_v1 or crossing_entry(state.entries, (), WriteIdRange(MIN_LONG, watermark)):
        return MIN_LONG
    return watermark


def _widened(
    context: PlanContext, entries: Sequence[StateEntry], consumed: Sequence[StateEntry], inputs: WriteIdRange
) -> WriteIdRange:
    """The range of the inputs, widened over aborted writes beside it as far as it crosses nothing.

    Once Hive has cleaned up after a compaction it forgets which writes were aborted. A directory of such a write that
    was not removed, or comes late, is then read unless it lies inside an output. Above the inputs every id that the
    list calls aborted is covered, below them what is on disk (a base covers all that is below).
    """
    taken, low, high = {entry.name for entry in consumed}, inputs.min, inputs.max
    on_disk = [entry.parsed for entry in entries if entry.state is EntryState.ABORTED]
    deltas = [parsed for parsed in on_disk if isinstance(parsed, DeltaDir) and parsed.visibility_txn_id is None]
    # Of ACID version 1 the ids are transactions of all tables.
    exceptions = set(context.compactor_ids.exceptions)
    ends = {parsed.max_write_id for parsed in deltas} | {high} if context.acid_v1 else exceptions
    if not context.minor and context.request.visibility_txn is None:
        overwrites = {parsed.write_id for parsed in on_disk if isinstance(parsed, BaseDir)}
        ends = _ends_of_bases(context, ends) - overwrites

    def in_the_way(low: int, high: int) -> WriteIdRange | None:
        crossing = crossing_entry(entries, taken, WriteIdRange(low, high))
        return None if crossing is None else crossing.range

    above = sorted(id_ for id_ in ends if id_ > high)
    while above and (ids := in_the_way(low, above[-1])) is not None:
        above = [id_ for id_ in above[:-1] if (id_ < ids.min if low <= ids.min else id_ <= ids.max)]
    high = above[-1] if above else high
    below = sorted({parsed.min_write_id for parsed in deltas if parsed.min_write_id < low})
    while below and (ids := in_the_way(below[0], high)) is not None:
        below = [id_ for id_ in below[1:] if (id_ > ids.max if ids.max <= high else id_ >= ids.min)]
    return WriteIdRange(below[0] if below else low, high)


def _ends_of_bases(context: PlanContext, ends: set[int]) -> set[int]:
    """Ids with which a base without a suffix covers `ends`: for each the next that is not aborted, if there is one.

    The Cleaner of Hive 4 does not look into a base for the marker that tells it from an overwrite: it removes one that
    ends with an aborted id, whoever compacted it. That of Hive 3 does not.
    """
    ids = context.compactor_ids
    following: dict[int, int] = {}
    for end in sorted(ends, reverse=True):
        id_ = end
        while ids.is_aborted(id_) and id_ not in following:
            id_ += 1
        following[end] = following.get(id_, id_)
    found = {id_ for id_ in following.values() if id_ <= ids.high_watermark}
    return found | ends if context.request.target == Target.HIVE3.value else found


def _outputs(context: PlanContext, consumed: Sequence[StateEntry], reach: WriteIdRange) -> tuple[OutputDir, ...]:
    """The directories that will be published, markers included; a side that no input has is not among them."""
    txn = context.request.visibility_txn
    version = () if context.insert_only else ((VERSION_MARKER, VERSION_TEXT),)
    low, high = reach.min, reach.max
    if not context.minor:
        # The suffix says "compacted" to Hive 4; without it both Hives need the marker.
        metadata = () if txn is not None else ((METADATA_MARKER, METADATA_TEXT),)
        return (OutputDir(format_base(high, txn), EntryKind.BASE.value, (*version, *metadata)),)
    return tuple(
        OutputDir(format_delta(kind, low, high, None, txn), kind.value, version)
        for kind in (DeltaKind.INSERT, DeltaKind.DELETE)
        if any(isinstance(e.parsed, DeltaDir) and e.parsed.kind is kind for e in consumed)
    )


def _require_apart(
    state: AcidState,
    consumed: Sequence[StateEntry],
    reach: WriteIdRange,
    outputs: Sequence[OutputDir],
    present: frozenset[str],
) -> None:
    """Whether the outputs can stand beside what is there, and hide nothing that is still to be read."""
    first = outputs[0].name
    crossing = crossing_entry(state.entries, {entry.name for entry in consumed}, reach)
    if crossing is not None:
        raise NotPlannedError(
            "straddled",
            f"{crossing.name} ({crossing.state.value.replace('_', ' ')}) reaches across the edge of {first}, so that "
            "part of it would be hidden; compact when it is committed, compacted or cleaned",
        )
    for entry in state.entries:
        # The compactor's list should leave no unfinished write inside.
        unfinished = entry.state in (EntryState.OPEN, EntryState.ABOVE_WATERMARK)
        if unfinished and isinstance(entry.parsed, DeltaDir) and entry.parsed.min_write_id in reach:
            raise NotPlannedError(
                "covers_unfinished",
                f"{entry.name} lies inside {first} and is not finished ({entry.reason}); its rows would be lost",
            )
    for output in outputs:
        twin = twin_of(output.name, (entry for entry in state.entries if entry.name not in present))
        if twin is not None:
            raise NotPlannedError(
                "same_range",
                f"{twin.name} is on disk with the range of {first}, and Hive reads both of such a pair",
            )


def crossing_entry(entries: Iterable[StateEntry], consumed: Collection[str], output: WriteIdRange) -> StateEntry | None:
    """A directory outside `consumed` that crosses the range of an output and may be read some day.

    Ranges of what lives together are nested or apart: of two that overlap in part, some reader reads both, and some
    rows twice.
    """
    for entry in entries:
        if entry.range is None or entry.state is EntryState.ABORTED or entry.name in consumed:
            continue
        if entry.range.crosses(output):
            return entry
    return None


def twin_of(output: str, entries: Iterable[StateEntry]) -> StateEntry | None:
    """A directory of the kind and range of an output and without a statement, beside which Hive would read both."""
    wanted = parse_directory(output)
    for entry in entries:
        found = entry.parsed
        if not isinstance(found, DeltaDir) or not isinstance(wanted, DeltaDir) or entry.state is EntryState.ABORTED:
            continue
        if found.statement_id is None and (found.kind, found.range) == (wanted.kind, wanted.range):
            return entry
    return None


def _seen_by_readers(context: PlanContext, listing: Listing, state: AcidState) -> AcidState:
    """What readers see: above a write that is still open they read, and the compactor does not."""
    if context.write_ids.lowest_open is None:
        return state
    reader, guess = Reader(context.write_ids, context.inputs_txns), context.view.guess
    return resolve(listing, reader, table_type=guess, raise_on_history=False)


def _require_readable(context: PlanContext, for_readers: AcidState, consumed: Sequence[StateEntry]) -> None:
    """An output is read by nobody where an overwrite above a write that is still open covers the inputs."""
    lowest = context.write_ids.lowest_open
    live = {entry.name for entry in live_entries(for_readers)}
    if lowest is None or all(entry.name in live for entry in consumed):
        return
    newer = for_readers.base.name if for_readers.base is not None else "something later"
    raise NotPlannedError(
        "replaced",
        f"readers already read {newer}, which replaces everything below the open write id {lowest}",
        Action.NOTHING_TO_DO,
    )


def already_there(names: Sequence[str]) -> NotPlannedError:
    """Why a plan whose outputs all exist has nothing to do."""
    why = f"{' and '.join(names)} {_are(len(names))} there already"
    return NotPlannedError("already_there", why, Action.NOTHING_TO_DO)


def _input(entry: StateEntry, state: AcidState) -> InputEntry:
    files: list[FileInfo] = []
    for file in data_files(entry, insert_only=state.insert_only):
        files += [file.info, *([file.side_file] if file.side_file is not None else [])]
    return InputEntry(entry.name, entry.kind.value, entry.min_write_id, entry.max_write_id, tuple(files))


def _notes(state: AcidState, consumed: Sequence[StateEntry], inputs: Sequence[InputEntry]) -> list[str]:
    notes = [*state.notes, *(f"{note}." for note in empty_file_notes(state))]
    unknown = [entry.name for entry in state.unrecognised]
    if unknown:
        more = f" and {len(unknown) - 1} more entries" if len(unknown) > 1 else ""
        notes.append(f"{unknown[0]}{more} {_are(len(unknown))} not recognised, and left alone.")
    passed = [info.path for entry in consumed for info in ignored_files(entry, insert_only=state.insert_only)]
    if passed:
        notes.append(f"{passed[0]} is read by nobody because of its name, and its content is not in the output.")
    for entry in inputs:
        start = 0 if entry.name == ORIGINALS_NAME else len(entry.name) + 1
        nested = [i.path for i in entry.files if "/" in i.path[start:] and not i.path.endswith(SIDE_FILE_SUFFIX)]
        if nested:
            notes.append(
                f"Files in subdirectories, such as {nested[0]}, go into the output without their subdirectory."
            )
            break
    return notes


def _uncovered_aborted(entries: Iterable[StateEntry], output: str, high: int) -> tuple[str, ...]:
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


def _exists(listing: Listing, name: str) -> bool:
    return name in listing.directories or any(info.path.startswith(f"{name}/") for info in listing.files)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
