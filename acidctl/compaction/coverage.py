"""Whether a compaction reads what the lists allow, all of it and nothing else, and whether readers then see the same.

A plan says which directories and files its tasks read. This module derives it a second time, from the listing and the
texts of the lists, and compares what the tasks report to have read with what the files hold. Lists and bucket
properties are read by code of its own: a fault in the modules that planning and tasks share is noticed here.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate

from acidctl.compaction.plan import (
    CompactionKind,
    CompactionPlan,
    FileRead,
    InputEntry,
    PartitionPlan,
    PlannedTask,
    Role,
    TableFacts,
    Target,
    TaskResult,
)
from acidctl.compaction.planner import crossing_entry, twin_of
from acidctl.errors import AcidctlError, StalePlanError, VerificationError
from acidctl.format.events import Operation
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import METADATA_MARKER, MIN_LONG, BaseDir, DeltaDir, DeltaKind, WriteIdRange, parse_directory
from acidctl.format.write_ids import Profile, Reader, ValidTxns, ValidWriteIds
from acidctl.rows.source import BATCH_ROWS, live_sources
from acidctl.state.entries import (
    ORIGINALS_NAME,
    AcidState,
    Directory,
    EntryKind,
    EntryState,
    HiveFailureError,
    StateEntry,
    TableType,
    Verdict,
)
from acidctl.state.inventory import data_files, live_entries
from acidctl.state.resolve import TableGuess, resolve
from acidctl.storage.port import Storage, join
from acidctl.types.digest import combined
from acidctl.values import dataclass

_HINT = "Nothing was published. Run compact again, which plans anew; report it if it happens again."
_BUCKET = re.compile(r"bucket_(\d+)")
_BEFORE_ALL = WriteIdRange(MIN_LONG, MIN_LONG)


def require_selected(listing: Listing, part: PartitionPlan, plan: CompactionPlan) -> AcidState:
    """The state of a location for a compactor; refuses a plan that reads or writes other directories than that.

    StalePlanError where the inputs are not those that a compactor selects now, VerificationError where the plan
    contradicts itself: its lists, names or files.
    """
    # The tasks must judge by the list that the plan was made with; a lower watermark only excludes more.
    ids, whole = (Committed.write_ids(text) for text in (plan.table.write_ids, plan.write_ids))
    if ids.top > whole.top or not set(ids.excepted) <= set(whole.excepted):
        raise _wrong(listing, "its tasks would use another write-id list than the one that was given")
    if plan.write_ids and ids.excepted != whole.excepted:
        raise _wrong(listing, "its tasks would treat writes as committed that the write-id list excludes")
    txns = _txns(plan)
    if plan.visibility_txn is not None:
        txns = replace(txns, open=(*txns.open, plan.visibility_txn))
    reader = Reader(_write_ids(plan.table.write_ids).compactor(), txns)
    state = resolve(listing, reader, table_type=_guess(plan), raise_on_history=False)
    minor = plan.kind is CompactionKind.MINOR
    selected = {entry.name for entry in (state.deltas if minor else live_entries(state))}
    inputs = {entry.name for entry in part.inputs}
    for name in sorted(selected ^ inputs):
        what = "would be read" if name in inputs else "would be left out"
        raise _stale(listing, f"{name} {what}, against the write-id list")
    _check_inputs(listing, part, plan, state, ids)
    _check_outputs(listing, part, plan, ids)
    for task in part.tasks:
        bucket = _BUCKET.fullmatch(task.output.rpartition("/")[2])
        if not state.insert_only and (bucket is None or int(bucket[1]) != task.bucket_id):
            raise _wrong(listing, f"{task.output} would hold the rows of bucket {task.bucket_id}")
    return state


def seen_by_readers(listing: Listing, plan: CompactionPlan, state: AcidState) -> AcidState:
    """What readers see of a location of which a compactor sees `state`: they also read above a write that is open."""
    ids = _write_ids(plan.write_ids)
    if ids.lowest_open is None:
        return state
    return resolve(listing, Reader(ids, _txns(plan)), table_type=_guess(plan), raise_on_history=False)


def _write_ids(text: str) -> ValidWriteIds:
    return ValidWriteIds.parse(text) if text else ValidWriteIds.everything()


def _txns(plan: CompactionPlan) -> ValidTxns:
    return ValidTxns.parse(plan.txns) if plan.txns else ValidTxns.everything()


def _guess(plan: CompactionPlan) -> TableGuess:
    return TableGuess(TableType(plan.table.table_type), False, "", plan.table.acid_v1)


def _directory(name: str) -> BaseDir | DeltaDir | None:
    parsed = parse_directory(name)
    return parsed if isinstance(parsed, BaseDir | DeltaDir) else None


def _directories(listing: Listing) -> set[str]:
    """Names of everything at the top of the location, files without a directory included."""
    return {path.partition("/")[0] for path in (*listing.directories, *(info.path for info in listing.files))}


def _check_inputs(
    listing: Listing, part: PartitionPlan, plan: CompactionPlan, state: AcidState, ids: Committed
) -> None:
    """Each directory on disk is either an input, or there is a reason not to read it."""
    txns = Committed.txns(plan.txns)

    def is_read(name: str, found: BaseDir | DeltaDir) -> bool:
        """By the lists: a compaction's base may be named after an aborted write, which it does not hold (Hive:
        isValidBase); in the base of an overwrite that write is all there is.
        """
        txn, high = found.visibility_txn_id, found.range.max
        if txn and (txn not in txns or txn == plan.visibility_txn):
            return False
        if isinstance(found, DeltaDir):
            return ids.any_of(found.range.min, high)
        marker = listing.markers.get(f"{name}/{METADATA_MARKER}")
        compacted = txn or plan.table.acid_v1 or (marker is not None and b"compacted" in marker)
        return high <= ids.top if compacted else high in ids

    covers = {entry.name: found for entry in part.inputs if (found := _directory(entry.name)) is not None}
    for name, found in covers.items():
        if not is_read(name, found):
            raise _wrong(listing, f"{name} would be read, but it is not committed by these lists")
    base = None if state.base is None else _directory(state.base.name)
    if state.base is not None and base is not None:
        covers[state.base.name] = base
    ranges = sorted((found.range for found in covers.values()), key=lambda ids_: ids_.min)
    lows, known, reach = [one.min for one in ranges], set(ranges), list(accumulate((one.max for one in ranges), max))
    whole = {found.range for found in covers.values() if getattr(found, "statement_id", None) is None}
    unpublished = {entry.name for entry in state.entries if entry.reason_code == "half_published"}
    for name in _directories(listing) - covers.keys() - unpublished:
        found = _directory(name)
        if found is None or found.range.max > ids.top or not is_read(name, found):
            continue
        if isinstance(found, BaseDir):
            if found.range != _BEFORE_ALL and (base is None or found.range.max > base.range.max):
                raise _stale(listing, f"{name} is not read, although it is committed and the newest base")
            continue
        # Inputs of the very same range that are statements as this one is do not cover it.
        statements = found.range in known and found.range not in whole
        place = (bisect_left if statements else bisect_right)(lows, found.range.min)
        if not place or reach[place - 1] < found.range.max:
            raise _stale(listing, f"{name} is not read, although it is committed and no input covers it")


def _check_outputs(listing: Listing, part: PartitionPlan, plan: CompactionPlan, ids: Committed) -> None:
    """The names of what is published follow from those of the inputs and from the list.

    An output may reach over ids that nobody will read, never beyond those that the list settles; which directories lie
    in between, the inputs have been judged by.
    """
    ranges = [found.range for entry in part.inputs if (found := _directory(entry.name)) is not None]
    inputs = WriteIdRange.around(ranges or [_BEFORE_ALL])
    major = plan.kind is CompactionKind.MAJOR
    for output in part.outputs:
        found = _directory(output.name)
        if found is None or found.visibility_txn_id != plan.visibility_txn:
            raise _wrong(listing, f"{output.name} is not a valid name for what it would publish")
        high, kind = found.range.max, EntryKind.BASE.value
        fits = high == inputs.max or (bool(plan.write_ids) and inputs.max < high <= ids.top)
        if isinstance(found, DeltaDir):
            kind = (EntryKind.DELETE_DELTA if found.kind is DeltaKind.DELETE else EntryKind.DELTA).value
            fits = fits and found.statement_id is None and found.range.min <= inputs.min
        if not fits or output.kind != kind or isinstance(found, BaseDir) is not major:
            raise _wrong(listing, f"{output.name} does not match the write ids of its inputs")
        if major and found.visibility_txn_id is None and plan.target is not Target.HIVE3 and high in ids.excepted:
            raise _wrong(listing, f"{output.name} ends with an aborted write, and Hive's cleaner would remove it")
        if found.range.min < inputs.min and not major:
            deltas = (other for name in _directories(listing) if isinstance(other := _directory(name), DeltaDir))
            if not any(other.range.min == found.range.min for other in deltas):
                # A cleaner may have removed the aborted write that it was to cover.
                raise StalePlanError(
                    f"no directory of {listing.root} begins with write id {found.range.min} any more, from which on "
                    f"{output.name} was to reach",
                    path=listing.root,
                    hint="Nothing was published. Run compact again, which plans anew.",
                )
    names = {output.name for output in part.outputs}
    if len(names) < len(part.outputs) or (major and len(names) != 1):
        raise _wrong(listing, "its outputs are not one base, or a delta of each kind")


def _stale(listing: Listing, what: str) -> StalePlanError:
    return StalePlanError(f"the plan is stale: {what}", path=listing.root or None, hint="Run compact again.")


def _wrong(listing: Listing, what: str) -> VerificationError:
    return VerificationError(f"the plan was not run: {what}", path=listing.root or None, hint=_HINT)


# --- Whether the tasks together have read every event of the inputs just once.


def require_read(
    storage: Storage,
    root: str,
    part: PartitionPlan,
    table: TableFacts,
    answers: Mapping[int, Sequence[TaskResult]],
    joined: Mapping[int, TaskResult],
) -> None:
    """VerificationError unless the tasks together have read every event of every input file, as the lists allow.

    `answers` are those of a task's parts, by its place in the plan, `joined` those of the joins of several. A file that
    no task has read is opened here: planning left it out by its statistics, which may be wrong.
    """
    deletes = (entry.files for entry in part.inputs if entry.kind == EntryKind.DELETE_DELTA.value)
    read = _Readings(
        root,
        Committed.write_ids(table.write_ids),
        any(output.kind == EntryKind.BASE.value for output in part.outputs),
        frozenset(info.path for files in deletes for info in files),
        frozenset((task.role, task.bucket_id) for task in part.tasks),
    )
    for index, parts in sorted(answers.items()):
        read.take(part.tasks[index], parts)
        if index in joined:
            read.take(part.tasks[index], [joined[index]])
            filled, whole = [one for one in parts if one.rows], joined[index]
            same = not filled or whole.digest == combined([one.digest for one in filled])
            if not same or whole.rows != sum(one.rows for one in filled):
                raise VerificationError(
                    f"{whole.output} was joined of {len(filled)} parts, and does not hold the rows of all of them",
                    path=root,
                    hint="Nothing is published. Run compact again; report it if it happens again.",
                )
    for path, buckets in read.buckets.items():
        for bucket in sorted(buckets):
            read.require_reader(path, bucket)
    _check_unread(storage, part, table, read)
    if any(task.role is Role.BYTES for task in part.tasks):
        return  # how many rows a text file has is not known beforehand
    for output in part.outputs:
        parts = [one for found in answers.values() for one in found if one.output.startswith(f"{output.name}/")]
        rows = sum(one.rows_in for one in parts)
        if rows != output.rows_in:
            raise VerificationError(
                f"{output.name} was made of {rows} stored rows, but its inputs hold {output.rows_in}",
                path=root,
                hint="Nothing is published. The statistics of an input file may be wrong: see `acidctl dump`.",
            )


@dataclass(slots=True)
class _Readings:
    """What tasks report to have read: of each file the buckets of its events, and who has read it (role, bucket).

    `deletes` are the paths of files of delete deltas, `planned` role and bucket of each task.
    """

    root: str
    committed: Committed
    major: bool
    deletes: frozenset[str]
    planned: frozenset[tuple[Role, int | None]]
    buckets: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    readers: dict[str, set[tuple[Role, int | None]]] = field(default_factory=lambda: defaultdict(set))

    def take(self, task: PlannedTask, answers: Sequence[TaskResult]) -> None:
        """Take the answers of one task and its parts."""
        files: dict[str, list[FileRead]] = defaultdict(list)
        for answer in answers:
            wrong = next((i for i in answer.committed if i not in self.committed), None)
            if wrong is not None:
                raise self.error(f"{task.output} treats write id {wrong} as committed, which the list excludes")
            wrong = next((i for i in answer.hidden_ids if i in self.committed), None)
            if wrong is not None:
                raise self.error(f"{task.output} skips events of write id {wrong}, which the list does not exclude")
            for _, bucket_property, _ in answer.counts:
                if task.bucket_id is not None and bucket_of(bucket_property) != task.bucket_id:
                    raise self.error(f"{task.output} holds rows of bucket {bucket_of(bucket_property)}")
            for read in answer.read:
                files[read.path].append(read)
        for path, reads in files.items():
            counts = Counter[int]()
            for read in reads:
                counts.update(dict(read.buckets))
            if any(read.rows != counts.total() for read in reads):
                raise self.error(f"{task.output} was made of {counts.total()} of the {reads[0].rows} events of {path}")
            self.buckets[path].update(map(bucket_of, counts))
            self.readers[path].add((task.role, task.bucket_id))

    def require_reader(self, path: str, bucket: int) -> None:
        """VerificationError unless the task of a bucket has read a file that holds events of it."""
        deletes = path in self.deletes
        role = Role.SURVIVING if self.major else Role.DELETES if deletes else Role.INSERTS
        if deletes and self.major and (role, bucket) not in self.planned:
            # Of that bucket no row is left that they could concern.
            return
        if (role, bucket) not in self.readers[path]:
            raise self.error(f"the events of bucket {bucket} in {path} were not read")

    def error(self, what: str) -> AcidctlError:
        """The error that says what is wrong."""
        return VerificationError(f"nothing was published: {what}", path=self.root, hint=_HINT)


def _check_unread(storage: Storage, part: PartitionPlan, table: TableFacts, read: _Readings) -> None:
    """The events of files that no task has read, if there are any, must be such as no task needed."""
    insert_only = table.table_type == TableType.INSERT_ONLY.value
    state = state_of_entries(part.inputs, table)
    files = (file for entry in live_entries(state) for file in data_files(entry, insert_only=insert_only))
    unread = {file.info.path for file in files if file.has_rows} - read.readers.keys()
    if insert_only:
        unread -= {path for task in part.tasks for path in task.files}
    if not unread or (insert_only and table.file_format != "orc"):
        return
    paths = {storage.display(join(read.root, path)): path for path in unread}
    inserts, deletes = live_sources(storage, read.root, state)
    for source in (*inserts, *deletes):
        path = paths.get(source.name)
        if path is None or not source.facts.rows:
            continue
        if insert_only:
            raise read.error(f"{path} has rows, and no task has read it")
        for batch in source.events(None, BATCH_ROWS):
            keys = batch.keys
            inert = keys.operation is None or not (keys.operation == Operation.DELETE).any()
            if source in deletes and inert:
                continue
            for bucket, current in set(zip(keys.bucket.tolist(), keys.current.tolist(), strict=True)):
                if current in read.committed:
                    read.require_reader(path, bucket_of(bucket))


# --- Whether readers will select the outputs of a plan, and stop reading its inputs: a simulation on values.

_STALE_HINT = "Run compact again: it makes a new plan."
_WRONG_HINT = "Nothing was published. Please report this with the output of `acidctl ls`."


def verify_selection(listing: Listing, plan: PartitionPlan, whole: CompactionPlan) -> None:
    """Refuse to publish what readers would not read as meant.

    `listing` is the location now, without the outputs. StalePlanError when something on disk is in the way, or an input
    is not live any more; VerificationError when the plan itself would change what else is read.
    """
    names, inputs = {output.name for output in plan.outputs}, {entry.name for entry in plan.inputs}
    where, path = f"partition {plan.partition}" if plan.partition else "the table", listing.root or None

    def stale(what: str) -> StalePlanError:
        return StalePlanError(f"the plan for {where} is stale: {what}", path=path, hint=_STALE_HINT)

    def wrong(what: str) -> VerificationError:
        return VerificationError(f"nothing was published for {where}: {what}", path=path, hint=_WRONG_HINT)

    reader = Reader(_write_ids(whole.write_ids), _txns(whole))
    later = reader
    if whole.visibility_txn is not None:
        later = replace(reader, txns=committed(_txns(whole), whole.visibility_txn, _directories(listing)))
    guess = _guess(whole)
    before = resolve(listing, reader, table_type=guess, raise_on_history=False)
    was = {entry.name: entry for entry in before.entries}
    for name in sorted(names & _directories(listing)):
        raise stale(f"the output {name} exists already")
    for name in sorted(inputs):
        if name not in was:
            raise stale(f"{name}, which was read, is gone")
        if was[name].state is not EntryState.LIVE:
            raise stale(f"{name}, which was read, is no longer live: {was[name].reason}")
    for name in names:
        conflict = _conflict(before, name, inputs)
        if conflict is not None:
            raise stale(f"{conflict[0]} stands beside the output {name} and {conflict[1]}")
    simulated = _with_outputs(listing, plan)
    after = resolve(simulated, later, table_type=guess, raise_on_history=False)
    if after.history_gap is not None and before.history_gap is None:
        raise wrong("readers would find no usable base")
    for entry in after.entries:
        if entry.name in names:
            if entry.state is not EntryState.LIVE:
                raise stale(f"{entry.name} would not be read: {entry.reason}")
        elif entry.name in inputs:
            if entry.state is not EntryState.OBSOLETE or not names.intersection(entry.because_of):
                raise wrong(f"{entry.name} would be {entry.state.value} beside {_join(names)} instead of obsolete")
        elif entry.state is not was[entry.name].state:
            raise wrong(
                f"{entry.name}, which is not among the inputs, would turn from {was[entry.name].state.value} to "
                f"{entry.state.value}"
            )
    missing = names - {entry.name for entry in after.entries}
    if missing:
        raise wrong(f"{_join(missing)} would not be understood")
    # Where Hive 4 reads what we read now, it must do so afterwards.
    if _live(before) == _hive_reads(listing, reader, guess):
        found, wanted = _hive_reads(simulated, later, guess), _live(after)
        if found is not None and found != wanted:
            raise stale(f"Hive 4 and acidctl would not agree afterwards whether to read {_join(found ^ wanted)}")


def _conflict(before: AcidState, output: str, inputs: set[str]) -> tuple[str, str] | None:
    """A directory beside which an output cannot stand, whether readers see it yet or not, and the end of a sentence."""
    twin = twin_of(output, before.entries)
    if twin is not None:
        return twin.name, "has the same range, so that Hive would read both"
    parsed = _directory(output)
    crossing = None if parsed is None else crossing_entry(before.entries, inputs, parsed.range)
    if crossing is None:
        return None
    if isinstance(parsed, BaseDir):
        return crossing.name, "reaches beyond it"
    return crossing.name, "ends inside it" if isinstance(crossing.parsed, BaseDir) else "overlaps it in part"


def committed(txns: ValidTxns, txn_id: int, names: Iterable[str]) -> ValidTxns:
    """The list as it will be once `txn_id` is committed; nothing else that `names` carry becomes visible by it.

    VerificationError for a transaction that is aborted.
    """
    if txns.is_aborted(txn_id):
        raise VerificationError(
            f"transaction {txn_id} is aborted: what it publishes would never be visible", hint=_WRONG_HINT
        )
    if txns.is_valid(txn_id):
        return txns
    opened = set(txns.open) - {txn_id}
    if txn_id > txns.high_watermark:
        # Of the transactions between only those matter that some directory names.
        others = (getattr(parse_directory(name), "visibility_txn_id", None) for name in names)
        opened |= {other for other in others if other is not None and txns.high_watermark < other < txn_id}
    return replace(txns, high_watermark=max(txns.high_watermark, txn_id), open=tuple(opened))


def _with_outputs(listing: Listing, plan: PartitionPlan) -> Listing:
    """The location with the outputs in it; how large their files are does not matter."""
    markers = {f"{output.name}/{name}": text.encode() for output in plan.outputs for name, text in output.markers}
    names = {output.name for output in plan.outputs}
    files = [FileInfo(path, len(text)) for path, text in markers.items()]
    files += [FileInfo(task.output, 1) for task in plan.tasks if task.output.partition("/")[0] in names]
    return replace(
        listing,
        files=(*listing.files, *files),
        directories=(*listing.directories, *sorted(names)),
        markers={**listing.markers, **markers},
    )


def _hive_reads(listing: Listing, reader: Reader, guess: TableGuess) -> frozenset[str] | None:
    """What Hive 4 reads; None where it fails."""
    try:
        as_hive = replace(reader, profile=Profile.HIVE4)
        return _live(resolve(listing, as_hive, table_type=guess, raise_on_history=False))
    except HiveFailureError:
        return None


def _live(state: AcidState) -> frozenset[str]:
    """Names of what is read, the originals as one."""
    names = {entry.name for entry in (state.base, *state.deltas) if entry is not None}
    return frozenset(names | ({ORIGINALS_NAME} if state.originals else set()))


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


# --- Which write ids a compaction may take as committed, read from the text of a list by code of its own.

_MAX_ID = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Committed:
    """Which ids count as committed, by the text of a list: those up to `top` that are not `excepted` (ascending)."""

    top: int
    excepted: tuple[int, ...]

    @classmethod
    def write_ids(cls, text: str) -> Committed:
        """By `table:watermark:lowest open:open:aborted`, as a compactor: nothing at or above the lowest open id."""
        text = text.partition(":")[2]
        found = cls.txns(text)
        if not text:
            return found
        fields = [*text.split(":"), ""]
        lowest = [int(fields[1]), *_ids(fields[2])]
        return cls(min([found.top, *(id_ - 1 for id_ in lowest if id_ != _MAX_ID)]), found.excepted)

    @classmethod
    def txns(cls, text: str) -> Committed:
        """By `watermark:lowest open:open:aborted`; all are committed by no text."""
        watermark, _, opened, aborted = ([*text.split(":"), "", "", ""] if text else [str(_MAX_ID), "", "", ""])[:4]
        return cls(int(watermark), tuple(sorted({*_ids(opened), *_ids(aborted)})))

    def __contains__(self, id_: int) -> bool:
        return id_ <= self.top and not self._excepted_in(id_, id_)

    def _excepted_in(self, low: int, high: int) -> int:
        return bisect_right(self.excepted, high) - bisect_left(self.excepted, low)

    def any_of(self, low: int, high: int) -> bool:
        """Whether a range that ends at `high` is read at all: a compactor reads it whole or not."""
        return high <= self.top and self._excepted_in(low, high) <= high - low


def bucket_of(bucket_property: int) -> int:
    """The bucket id in a bucket property (Hive: `BucketCodec`): the number itself before version 1."""
    # 3 bits of version, 1 unused, 12 of the bucket, 4 unused, 12 of the statement
    return (bucket_property & 0x0FFF0000) >> 16 if bucket_property >> 29 == 1 else bucket_property


def _ids(text: str) -> list[int]:
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def state_of_entries(inputs: Sequence[InputEntry], table: TableFacts) -> AcidState:
    """These inputs as a state in which everything is live."""
    entries = tuple(_live_entry(entry) for entry in inputs)
    directories = [entry for entry in entries if entry.parsed is not None]
    deltas = [entry for entry in directories if isinstance(entry.parsed, DeltaDir)]
    deltas.sort(key=lambda e: (e.min_write_id or 0, -(e.max_write_id or 0), e.statement_id or 0, e.name))
    originals = [entry for entry in entries if entry.name == ORIGINALS_NAME]
    return AcidState(
        base=next((entry for entry in directories if isinstance(entry.parsed, BaseDir)), None),
        deltas=tuple(deltas),
        originals=tuple(info for entry in originals for info in entry.files),
        entries=entries,
        table_type=TableType(table.table_type),
        acid_v1=table.acid_v1,
    )


def _live_entry(entry: InputEntry) -> StateEntry:
    parsed = None if entry.name == ORIGINALS_NAME else parse_directory(entry.name)
    directory = Directory(entry.name, parsed if isinstance(parsed, BaseDir | DeltaDir) else None, entry.files)
    return StateEntry.of(directory, Verdict(EntryState.LIVE, "input", "input of a compaction"))
