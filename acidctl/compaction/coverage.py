"""Whether a compaction reads what the lists allow, all of it and nothing else.

A plan says which directories and files its tasks read. This module derives it a second time, from the listing and the
texts of the lists, and compares what the tasks report to have read with what the files hold. Names, lists and bucket
properties are read by code of its own: a fault in the modules that planning and tasks share is noticed here.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from acidctl.compaction.cross_check import Committed, bucket_of
from acidctl.compaction.inputs import state_of_entries
from acidctl.compaction.plan import (
    CompactionKind,
    CompactionPlan,
    FileRead,
    OutputDir,
    PartitionPlan,
    PlannedTask,
    Role,
    TableFacts,
    Target,
    TaskResult,
)
from acidctl.errors import AcidctlError, StalePlanError, VerificationError
from acidctl.format.events import Operation
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import METADATA_MARKER, BaseDir, DeltaDir, parse_directory
from acidctl.format.write_ids import Reader, ValidTxns, ValidWriteIds
from acidctl.rows.scan import BATCH_ROWS, live_sources
from acidctl.state.resolve import (
    ORIGINALS_NAME,
    AcidState,
    EntryKind,
    EntryState,
    HiveFailureError,
    Profile,
    StateEntry,
    TableGuess,
    TableType,
    data_files,
    live_entries,
    resolve,
)
from acidctl.storage.port import Storage, join

_HINT = "Nothing was published. Run compact again, which plans anew; report it if it happens again."
_BASE = re.compile(r"base_(-?\d+)(?:_v(\d+))?")
_DELTA = re.compile(r"(delete_)?delta_(-?\d+)_(-?\d+)(?:_(\d+))?(?:_v(\d+))?")
_BUCKET = re.compile(r"bucket_(\d+)")
_BEFORE_ALL = -(1 << 63)


@dataclass(frozen=True, slots=True)
class _Name:
    """A directory's name: its range of write ids, statement and visibility transaction."""

    name: str
    base: bool
    deletes: bool
    low: int
    high: int
    statement: str | None
    txn: int

    @classmethod
    def of(cls, name: str) -> _Name | None:
        if match := _BASE.fullmatch(name):
            return cls(name, True, False, _BEFORE_ALL, int(match[1]), None, int(match[2] or 0))
        if match := _DELTA.fullmatch(name):
            return cls(name, False, bool(match[1]), int(match[2]), int(match[3]), match[4], int(match[5] or 0))
        return None


def require_selected(listing: Listing, part: PartitionPlan, plan: CompactionPlan) -> None:
    """Refuse a plan that reads or writes other directories than the listing and its lists ask for.

    StalePlanError where the inputs are not those that a compactor selects now, VerificationError where the plan
    contradicts itself: its lists, names, roles or files.
    """
    _require_lists(listing, plan)
    own = plan.visibility_txn
    txns = ValidTxns.parse(plan.txns) if plan.txns else ValidTxns.everything()
    if own is not None:
        txns = ValidTxns(
            high_watermark=txns.high_watermark, min_open=txns.min_open, open=(*txns.open, own), aborted=txns.aborted
        )
    guess = TableGuess(TableType(plan.table.table_type), False, "", plan.table.acid_v1)
    ids = ValidWriteIds.parse(plan.table.write_ids) if plan.table.write_ids else ValidWriteIds.everything()
    state = resolve(listing, Reader(ids.compactor(), txns), table_type=guess, raise_on_history=False)
    minor = plan.kind is CompactionKind.MINOR
    selected = {entry.name for entry in (state.deltas if minor else live_entries(state))}
    inputs = {entry.name for entry in part.inputs}
    for name in sorted(selected ^ inputs):
        what = "would be read" if name in inputs else "would be left out"
        raise _stale(listing, f"{name} {what}, against the write-id list")
    _check_inputs(listing, part, plan, state)
    _check_outputs(listing, part, plan)
    _check_tasks(listing, part, plan, state)


def _require_lists(listing: Listing, plan: CompactionPlan) -> None:
    """The tasks must judge by the list that the plan was made with; a lower watermark only excludes more."""
    mine, whole = (Committed.write_ids(text) for text in (plan.table.write_ids, plan.write_ids))
    if mine.top > whole.top or not set(mine.excepted) <= set(whole.excepted):
        raise _wrong(listing, "its tasks would use another write-id list than the one that was given")
    if plan.write_ids and mine.excepted != whole.excepted:
        raise _wrong(listing, "its tasks would treat writes as committed that the write-id list excludes")


def _check_inputs(listing: Listing, part: PartitionPlan, plan: CompactionPlan, state: AcidState) -> None:
    """Each directory on disk is either an input, or there is a reason not to read it."""
    ids = Committed.write_ids(plan.table.write_ids)
    txns = Committed.txns(plan.txns)
    inputs = [name for entry in part.inputs if (name := _Name.of(entry.name)) is not None]
    for name in inputs:
        unseen = name.txn and (name.txn not in txns or name.txn == plan.visibility_txn)
        if unseen or not _is_read(name, listing, ids, plan):
            raise _wrong(listing, f"{name.name} would be read, but it is not committed by these lists")
    base = None if state.base is None else _Name.of(state.base.name)
    covers = sorted([*inputs, *([base] if base else [])], key=lambda name: name.low)
    lows, reach = [name.low for name in covers], list(accumulate((name.high for name in covers), max))
    same = {(name.low, name.high) for name in covers if name.statement is None}
    ranges = Counter((name.low, name.high) for name in covers)
    known = {name.name for name in covers}
    unpublished = {entry.name for entry in state.entries if entry.reason_code == "half_published"}
    for text in _directories(listing):
        name = _Name.of(text)
        if name is None or text in known or text in unpublished or name.high > ids.top:
            continue
        if name.txn and (name.txn not in txns or name.txn == plan.visibility_txn):
            continue
        if not _is_read(name, listing, ids, plan):
            continue
        if name.base and (base is None or name.high > base.high) and name.high != _BEFORE_ALL:
            raise _stale(listing, f"{text} is not read, although it is committed and the newest base")
        place = bisect_right(lows, name.low)
        covered = place and reach[place - 1] >= name.high
        if covered and (name.low, name.high) in ranges and (name.low, name.high) not in same:
            # Only inputs of the very same range, which are statements as this one is: nothing covers it.
            below = bisect_left(lows, name.low)
            covered = below and reach[below - 1] >= name.high
        if not name.base and not covered:
            raise _stale(listing, f"{text} is not read, although it is committed and no input covers it")


def _is_read(name: _Name, listing: Listing, ids: Committed, plan: CompactionPlan) -> bool:
    """Whether the lists allow a directory to be read.

    A compaction's base may be named after an aborted write, which it does not hold (Hive: isValidBase); in the base of
    an overwrite that write is all there is.
    """
    if not name.base:
        return ids.any_of(name.low, name.high)
    marker = listing.markers.get(f"{name.name}/{METADATA_MARKER}")
    compacted = name.txn or plan.table.acid_v1 or (marker is not None and b"compacted" in marker)
    return name.high <= ids.top if compacted else name.high in ids


def _check_outputs(listing: Listing, part: PartitionPlan, plan: CompactionPlan) -> None:
    """The names of what is published follow from those of the inputs and from the list.

    An output may reach over ids that nobody will read, never beyond those that the list settles; which directories lie
    in between, the inputs have been judged by.
    """
    ids = Committed.write_ids(plan.table.write_ids)
    inputs = [name for entry in part.inputs if (name := _Name.of(entry.name)) is not None]
    low = min((name.low for name in inputs), default=_BEFORE_ALL)
    high = max((name.high for name in inputs), default=_BEFORE_ALL)
    below = {name.low for text in _directories(listing) if (name := _Name.of(text)) is not None and not name.base}
    for output in part.outputs:
        name = _Name.of(output.name)
        if name is None or name.txn != (plan.visibility_txn or 0) or name.statement is not None:
            raise _wrong(listing, f"{output.name} is not a valid name for what it would publish")
        fits = name.high == high or (bool(plan.write_ids) and high < name.high <= ids.top)
        if plan.kind is CompactionKind.MAJOR:
            fits = fits and name.base and output.kind == EntryKind.BASE.value
            if not name.txn and plan.target is not Target.HIVE3 and name.high in ids.excepted:
                raise _wrong(listing, f"{output.name} ends with an aborted write, and Hive's cleaner would remove it")
        else:
            kind = EntryKind.DELETE_DELTA if name.deletes else EntryKind.DELTA
            fits = fits and not name.base and output.kind == kind.value
            if fits and name.low < low and name.low not in below:
                # A cleaner may have removed the aborted write that it was to cover.
                raise StalePlanError(
                    f"no directory of {listing.root} begins with write id {name.low} any more, from which on "
                    f"{output.name} was to reach",
                    path=listing.root,
                    hint="Nothing was published. Run compact again, which plans anew.",
                )
            fits = fits and name.low <= low
        if not fits:
            raise _wrong(listing, f"{output.name} does not match the write ids of its inputs")
    if len({output.name for output in part.outputs}) < len(part.outputs) or (
        plan.kind is CompactionKind.MAJOR and len(part.outputs) != 1
    ):
        raise _wrong(listing, "its outputs are not one base, or a delta of each kind")


def _directories(listing: Listing) -> set[str]:
    """Names of everything at the top of the location, files without a directory included."""
    return {path.partition("/")[0] for path in (*listing.directories, *(info.path for info in listing.files))}


def _check_tasks(listing: Listing, part: PartitionPlan, plan: CompactionPlan, state: AcidState) -> None:
    """Each task writes one file of a planned directory, in the way that suits it, from files of the inputs."""
    kinds = {output.name: output.kind for output in part.outputs}
    deletes = {info.path: entry.kind == EntryKind.DELETE_DELTA.value for entry in part.inputs for info in entry.files}
    seen: set[str] = set()
    for task in part.tasks:
        directory, _, name = task.output.partition("/")
        if directory not in kinds or task.output in seen:
            raise _wrong(listing, f"{task.output} is written twice, or in no directory that is planned")
        seen.add(task.output)
        if task.role not in _roles(plan.table, kinds[directory]):
            raise _wrong(listing, f"{task.output} would be written as {task.role.value}")
        bucket = _BUCKET.fullmatch(name)
        if not state.insert_only and (bucket is None or int(bucket[1]) != task.bucket_id):
            raise _wrong(listing, f"{task.output} would hold the rows of bucket {task.bucket_id}")
        if len({*task.files}) < len(task.files) or len({*task.delete_files}) < len(task.delete_files):
            raise _wrong(listing, f"{task.output} would be made of a file twice")
        for paths, wanted in ((task.files, task.role is Role.DELETES), (task.delete_files, True)):
            wrong = next((path for path in paths if deletes.get(path) is not wanted), None)
            if wrong is not None:
                raise _wrong(listing, f"{task.output} would be made of {wrong}, which is not an input of that kind")


def _roles(table: TableFacts, kind: str) -> tuple[Role, ...]:
    if table.table_type == TableType.INSERT_ONLY.value:
        return (Role.BYTES,) if table.file_format == "text" else (Role.ROWS,)
    return {
        EntryKind.BASE.value: (Role.SURVIVING,),
        EntryKind.DELTA.value: (Role.INSERTS,),
        EntryKind.DELETE_DELTA.value: (Role.DELETES,),
    }.get(kind, ())


def require_read(
    storage: Storage,
    root: str,
    part: PartitionPlan,
    table: TableFacts,
    results: Mapping[int, Sequence[TaskResult]],
) -> None:
    """VerificationError unless the tasks together have read every event of every input file, as the lists allow.

    `results` are the answers of a task and of its parts, by its place in the plan. A file that no task has read is
    opened here: planning left it out by its statistics, which may be wrong.
    """
    judge = _Readings(root, part, Committed.write_ids(table.write_ids))
    for index, answers in sorted(results.items()):
        judge.take(part.tasks[index], answers)
    judge.check()
    unread = judge.unread(table)
    if unread:
        judge.check_unread(storage, table, unread)


class _Readings:
    """What the tasks of a partition report to have read."""

    def __init__(self, root: str, part: PartitionPlan, committed: Committed) -> None:
        self._root = root
        self._part = part
        self._committed = committed
        self._major = any(output.kind == EntryKind.BASE.value for output in part.outputs)
        self._deletes = {
            info.path: entry.kind == EntryKind.DELETE_DELTA.value for entry in part.inputs for info in entry.files
        }
        #: Of each file the buckets of its events, and the (role, bucket) pairs that have read it.
        self._buckets: dict[str, set[int]] = defaultdict(set)
        self._readers: dict[str, set[tuple[Role, int | None]]] = defaultdict(set)
        self._tasks = {(task.role, task.bucket_id) for task in part.tasks}

    def take(self, task: PlannedTask, answers: Sequence[TaskResult]) -> None:
        """Take the answers of one task and its parts."""
        totals: Counter[str] = Counter()
        files: dict[str, list[FileRead]] = defaultdict(list)
        for answer in answers:
            wrong = next((i for i in answer.committed if i not in self._committed), None)
            if wrong is not None:
                raise self._error(f"{task.output} treats write id {wrong} as committed, which the list excludes")
            wrong = next((i for i in answer.hidden_ids if i in self._committed), None)
            if wrong is not None:
                raise self._error(f"{task.output} skips events of write id {wrong}, which the list does not exclude")
            for _, bucket_property, _ in answer.counts:
                if task.bucket_id is not None and bucket_of(bucket_property) != task.bucket_id:
                    raise self._error(f"{task.output} holds rows of bucket {bucket_of(bucket_property)}")
            for read in answer.read:
                files[read.path].append(read)
        for path, reads in files.items():
            for read in reads:
                for bucket_property, count in read.buckets:
                    totals[path] += count
                    self._buckets[path].add(bucket_of(bucket_property))
            if any(read.rows != totals[path] for read in reads):
                raise self._error(f"{task.output} was made of {totals[path]} of the {reads[0].rows} events of {path}")
            self._readers[path].add((task.role, task.bucket_id))

    def check(self) -> None:
        """Each file that was read went to the tasks of all buckets that its events are of."""
        for path, buckets in self._buckets.items():
            for bucket in sorted(buckets):
                self._require_reader(path, bucket)

    def _require_reader(self, path: str, bucket: int) -> None:
        deletes = self._deletes.get(path, False)
        role = Role.SURVIVING if self._major else Role.DELETES if deletes else Role.INSERTS
        if deletes and self._major and (role, bucket) not in self._tasks:
            # Of that bucket no row is left that they could concern.
            return
        if (role, bucket) not in self._readers[path]:
            raise self._error(f"the events of bucket {bucket} in {path} were not read")

    def unread(self, table: TableFacts) -> set[str]:
        """Input files with rows, as far as their size tells, that no task has read."""
        insert_only = table.table_type == TableType.INSERT_ONLY.value
        state = state_of_entries(self._part.inputs, table)
        found = {
            file.info.path
            for entry in live_entries(state)
            for file in data_files(entry, insert_only=insert_only)
            if file.has_rows and file.info.path not in self._readers
        }
        if insert_only:
            found -= {path for task in self._part.tasks for path in task.files}
        return found

    def check_unread(self, storage: Storage, table: TableFacts, unread: set[str]) -> None:
        """Their events, if there are any, must be such as no task needed."""
        inserts, deletes = live_sources(storage, self._root, state_of_entries(self._part.inputs, table))
        paths = {storage.display(join(self._root, path)): path for path in unread}
        if table.table_type == TableType.INSERT_ONLY.value and table.file_format != "orc":
            return
        for source in (*inserts, *deletes):
            path = paths.get(source.name)
            if path is None or not source.facts.rows:
                continue
            if table.table_type == TableType.INSERT_ONLY.value:
                raise self._error(f"{path} has rows, and no task has read it")
            for batch in source.events(None, BATCH_ROWS):
                keys = batch.keys
                inert = keys.operation is None or not (keys.operation == Operation.DELETE).any()
                if source in deletes and inert:
                    continue
                for bucket, current in set(zip(keys.bucket.tolist(), keys.current.tolist(), strict=True)):
                    if current in self._committed:
                        self._require_reader(path, bucket_of(bucket))

    def _error(self, what: str) -> AcidctlError:
        return VerificationError(f"nothing was published: {what}", path=self._root, hint=_HINT)


def _stale(listing: Listing, what: str) -> StalePlanError:
    return StalePlanError(f"the plan is stale: {what}", path=listing.root or None, hint="Run compact again.")


def _wrong(listing: Listing, what: str) -> VerificationError:
    return VerificationError(f"the plan was not run: {what}", path=listing.root or None, hint=_HINT)


# --- Whether readers will select the outputs of a plan, and stop reading its inputs: a simulation on values.

_STALE_HINT = "Run compact again: it makes a new plan."
_WRONG_HINT = "Nothing was published. Please report this with the output of `acidctl ls`."


def verify_selection(
    listing: Listing, plan: PartitionPlan, whole: CompactionPlan, *, outputs: Sequence[OutputDir] | None = None
) -> None:
    """Refuse to publish what readers would not read as meant.

    `listing` is the location now, without the outputs; `outputs` are those of `plan` that will be published (default:
    all). StalePlanError when something on disk is in the way, or an input is not live any more; VerificationError when
    the plan itself would change what else is read.
    """
    Selection(listing, plan, whole, plan.outputs if outputs is None else outputs).verify()


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


class Selection:
    """One location before and after."""

    def __init__(
        self, listing: Listing, plan: PartitionPlan, whole: CompactionPlan, outputs: Sequence[OutputDir]
    ) -> None:
        self._listing = listing
        self._plan = plan
        self._outputs = outputs
        self._names = frozenset(output.name for output in outputs)
        self._inputs = frozenset(entry.name for entry in plan.inputs)
        self._ids = ValidWriteIds.parse(whole.write_ids) if whole.write_ids else ValidWriteIds.everything()
        self._before_txns = ValidTxns.parse(whole.txns) if whole.txns else ValidTxns.everything()
        self._after_txns = self._before_txns
        if whole.visibility_txn is not None:
            self._after_txns = committed(self._before_txns, whole.visibility_txn, _directories(listing))
        self._kind = TableGuess(TableType(whole.table.table_type), False, "", whole.table.acid_v1)

    def verify(self) -> None:
        """Raise for the first thing that is wrong."""
        self._check_names()
        before = self._state(self._listing, self._before_txns)
        self._check_inputs(before)
        self._check_neighbours(before)
        simulated = self._with_outputs()
        after = self._state(simulated, self._after_txns)
        self._check_outcome(before, after)
        self._check_as_hive(simulated, before, after)

    def _state(self, listing: Listing, txns: ValidTxns) -> AcidState:
        return resolve(listing, Reader(self._ids, txns), table_type=self._kind, raise_on_history=False)

    def _check_names(self) -> None:
        taken = _directories(self._listing)
        for output in self._outputs:
            if output.name in taken:
                raise self._stale(f"the output {output.name} exists already")

    def _check_inputs(self, before: AcidState) -> None:
        entries = {entry.name: entry for entry in before.entries}
        for name in sorted(self._inputs):
            entry = entries.get(name)
            if entry is None:
                raise self._stale(f"{name}, which was read, is gone")
            if entry.state is not EntryState.LIVE:
                raise self._stale(f"{name}, which was read, is no longer live: {entry.reason}")

    def _check_neighbours(self, before: AcidState) -> None:
        """Directories that contradict an output, whether readers see them yet or not."""
        for entry in before.entries:
            if entry.parsed is None or entry.state is EntryState.ABORTED:
                continue
            for output in self._outputs:
                why = _contradiction(entry, parse_directory(output.name), is_input=entry.name in self._inputs)
                if why is not None:
                    raise self._stale(f"{entry.name} stands beside the output {output.name} {why}")

    def _with_outputs(self) -> Listing:
        """The location with the outputs in it; how large their files are does not matter."""
        files, markers = list(self._listing.files), dict(self._listing.markers)
        for output in self._outputs:
            for name, content in output.markers:
                path = f"{output.name}/{name}"
                files.append(FileInfo(path, len(content)))
                markers[path] = content.encode()
        for task in self._plan.tasks:
            if task.output.partition("/")[0] in self._names:
                files.append(FileInfo(task.output, 1))
        directories = (*self._listing.directories, *sorted(self._names))
        return replace(self._listing, files=tuple(files), directories=directories, markers=markers)

    def _check_outcome(self, before: AcidState, after: AcidState) -> None:
        if after.history_gap is not None and before.history_gap is None:
            raise self._wrong("readers would find no usable base")
        was = {entry.name: entry for entry in before.entries}
        for entry in after.entries:
            if entry.name in self._names:
                if entry.state is not EntryState.LIVE:
                    raise self._stale(f"{entry.name} would not be read: {entry.reason}")
            elif entry.name in self._inputs:
                if entry.state is not EntryState.OBSOLETE or not self._names.intersection(entry.because_of):
                    raise self._wrong(
                        f"{entry.name} would be {entry.state.value} beside {_join(self._names)} instead of obsolete"
                    )
            elif entry.state is not was[entry.name].state:
                raise self._wrong(
                    f"{entry.name}, which is not among the inputs, would turn from {was[entry.name].state.value} to "
                    f"{entry.state.value}"
                )
        missing = self._names - {entry.name for entry in after.entries}
        if missing:
            raise self._wrong(f"{_join(missing)} would not be understood")

    def _check_as_hive(self, simulated: Listing, before: AcidState, after: AcidState) -> None:
        """Where Hive 4 reads what we read now, it must do so afterwards."""
        if _live(before) != self._hive_reads(self._listing, self._before_txns):
            return
        found, wanted = self._hive_reads(simulated, self._after_txns), _live(after)
        if found is not None and found != wanted:
            wrong = _join(found ^ wanted)
            raise self._stale(f"Hive 4 and acidctl would not agree afterwards whether to read {wrong}")

    def _hive_reads(self, listing: Listing, txns: ValidTxns) -> frozenset[str] | None:
        """What Hive 4 reads; None where it fails."""
        try:
            state = resolve(
                listing, Reader(self._ids, txns, Profile.HIVE4), table_type=self._kind, raise_on_history=False
            )
        except HiveFailureError:
            return None
        return _live(state)

    def _stale(self, what: str) -> StalePlanError:
        return StalePlanError(f"the plan for {self._where()} is stale: {what}", path=self._path(), hint=_STALE_HINT)

    def _wrong(self, what: str) -> VerificationError:
        message = f"nothing was published for {self._where()}: {what}"
        return VerificationError(message, path=self._path(), hint=_WRONG_HINT)

    def _where(self) -> str:
        return f"partition {self._plan.partition}" if self._plan.partition else "the table"

    def _path(self) -> str | None:
        return self._listing.root or None


def _contradiction(entry: StateEntry, output: object, *, is_input: bool) -> str | None:
    """Why a directory and an output cannot stand beside each other, None if they can; the end of a sentence.

    Ranges of what lives together are nested or disjoint: of two that overlap in part, some reader reads both, and
    some rows twice. The same numbers without a statement id make two directories of one kind twins, which Hive reads
    both.
    """
    found = entry.parsed
    if isinstance(output, BaseDir):
        # What a later reader prefers to it, or it to what, holds all that the other holds.
        if isinstance(found, DeltaDir) and not is_input and found.range.crosses(output.range):
            return "and reaches beyond it"
        return None
    assert isinstance(output, DeltaDir)
    if isinstance(found, BaseDir):
        return "and ends inside it" if found.range.crosses(output.range) else None
    assert isinstance(found, DeltaDir)
    twins = found.range == output.range and found.statement_id is None
    if found.range.is_empty or (is_input and not twins):
        return None
    if twins:
        return "and has the same range, so that Hive would read both" if found.kind is output.kind else None
    return "and overlaps it in part" if found.range.crosses(output.range) else None


def _live(state: AcidState) -> frozenset[str]:
    """Names of what is read, the originals as one."""
    names = {entry.name for entry in (state.base, *state.deltas) if entry is not None}
    return frozenset(names | ({ORIGINALS_NAME} if state.originals else set()))


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
