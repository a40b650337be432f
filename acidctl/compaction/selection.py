"""Whether readers will select the outputs of a plan, and stop reading its inputs: a simulation on values.

The location is judged twice by the reader's own rules, as it is and as it would be with the outputs in place (and
the compaction's transaction committed). Nothing else may change. Besides, no other directory may stand in the outputs'
way that some reader, now or later, would read together with them (`spec` 2.2 and 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from acidctl.compaction.plan import CompactionPlan, OutputDir, PartitionPlan
from acidctl.errors import StalePlanError, VerificationError
from acidctl.format.listing import FileInfo, Listing
from acidctl.format.names import MIN_LONG, BaseDir, DeltaDir, parse_directory
from acidctl.format.write_ids import ValidTxns, ValidWriteIds
from acidctl.state.resolve import (
    ORIGINALS_NAME,
    AcidState,
    EntryState,
    HiveFailureError,
    Profile,
    StateEntry,
    TableGuess,
    TableType,
    resolve,
)

_STALE_HINT = "Run compact again: it plans anew with what is there now."
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
        return resolve(listing, self._ids, txns, table_type=self._kind, raise_on_history=False)

    def _check_names(self) -> None:
        taken = {file.path.partition("/")[0] for file in self._listing.files} | set(_directories(self._listing))
        for output in self._outputs:
            if output.name in taken:
                raise self._stale(f"{output.name}, which is to be published, exists already")

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
                    raise self._stale(f"{entry.name} stands beside {output.name}, which is to be published, {why}")

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
            odd = _join(found ^ wanted)
            raise self._stale(f"Hive 4 and acidctl would not agree afterwards whether to read {odd}")

    def _hive_reads(self, listing: Listing, txns: ValidTxns) -> frozenset[str] | None:
        """What Hive 4 reads; None where it fails."""
        try:
            state = resolve(
                listing, self._ids, txns, profile=Profile.HIVE4, table_type=self._kind, raise_on_history=False
            )
        except HiveFailureError:
            return None
        return _live(state)

    def _stale(self, what: str) -> StalePlanError:
        return StalePlanError(f"the plan for {self._where()} is stale: {what}", path=self._path(), hint=_STALE_HINT)

    def _wrong(self, what: str) -> VerificationError:
        message = f"what was planned for {self._where()} is not published: {what}"
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
        if isinstance(found, DeltaDir) and not is_input and found.min_write_id <= output.write_id < found.max_write_id:
            return "and reaches beyond it"
        return None
    assert isinstance(output, DeltaDir)
    low, high = output.min_write_id, output.max_write_id
    if isinstance(found, BaseDir):
        return "and ends inside it" if found.write_id != MIN_LONG and low <= found.write_id < high else None
    assert isinstance(found, DeltaDir)
    if found.min_write_id > found.max_write_id or (is_input and not _same_numbers(found, output)):
        return None
    if _same_numbers(found, output):
        return "and has the same range, so that Hive would read both" if found.kind is output.kind else None
    apart = found.max_write_id < low or found.min_write_id > high
    inside = low <= found.min_write_id and found.max_write_id <= high
    around = found.min_write_id <= low and high <= found.max_write_id
    return None if apart or inside or around else "and overlaps it in part"


def _same_numbers(one: DeltaDir, other: DeltaDir) -> bool:
    same = (one.min_write_id, one.max_write_id) == (other.min_write_id, other.max_write_id)
    return same and one.statement_id is None


def _live(state: AcidState) -> frozenset[str]:
    """Names of what is read, the originals as one."""
    names = {entry.name for entry in (state.base, *state.deltas) if entry is not None}
    return frozenset(names | ({ORIGINALS_NAME} if state.originals else set()))


def _directories(listing: Listing) -> set[str]:
    """Names of what lies in the location and has something in it, or is a directory."""
    return {path.partition("/")[0] for path in (*listing.directories, *(file.directory for file in listing.files))}


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
