"""What a location holds and what a reader makes of it, as values: directories, verdicts with their sentences, states.

A verdict has a state, a stable code and one sentence that names the ids that decided and the directory that is to
blame: an operator reads it at night.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import NamedTuple

from acidctl.errors import DamagedDataError, NotEnoughHistoryError, UsageError
from acidctl.findings import Finding
from acidctl.format.listing import FileInfo
from acidctl.format.names import MIN_LONG, BaseDir, DeltaDir, DeltaKind, WriteIdRange, is_hidden_to_hive
from acidctl.format.write_ids import ValidTxns, ValidWriteIds
from acidctl.values import dataclass

# The originals of a location are one entry; neither HDFS nor Hive makes a directory of this name.
ORIGINALS_NAME = "(original files)"


class TableType(Enum):
    """What kind of table the files belong to."""

    FULL = "full"
    INSERT_ONLY = "insert_only"
    ORIGINALS = "originals"
    EMPTY = "empty"


class EntryKind(Enum):
    """What an entry of a location is."""

    BASE = "base"
    DELTA = "delta"
    DELETE_DELTA = "delete_delta"
    ORIGINAL = "original"
    MARKER = "marker"
    UNRECOGNISED = "unrecognised"


class EntryState(Enum):
    """What a reader makes of an entry; all but LIVE are left out."""

    LIVE = "live"
    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    OPEN = "open"
    ABOVE_WATERMARK = "above_watermark"
    NOT_VISIBLE = "not_visible"
    UNUSABLE = "unusable"
    HIDDEN = "hidden"
    UNRECOGNISED = "unrecognised"


class MarkerContent(Enum):
    """What a base's `_metadata_acid` says."""

    ABSENT = "absent"
    COMPACTED = "compacted"
    OVERWRITE = "overwrite"
    UNREAD = "unread"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Directory:
    """One child of a location, or all its original files together; the same value from the listing to the report.

    `name` is its path below the location. `files` are all files below it, hidden ones and markers too; `data_files`
    picks those that hold rows. `other_kind` says what it is where it is neither a base nor a delta.
    """

    name: str
    parsed: BaseDir | DeltaDir | None
    files: tuple[FileInfo, ...] = ()
    marker: MarkerContent = MarkerContent.ABSENT
    marker_problem: str | None = None
    other_kind: EntryKind = EntryKind.ORIGINAL

    @property
    def kind(self) -> EntryKind:
        """What it is."""
        parsed = self.parsed
        if isinstance(parsed, DeltaDir):
            return EntryKind.DELTA if parsed.kind is DeltaKind.INSERT else EntryKind.DELETE_DELTA
        return self.other_kind if parsed is None else EntryKind.BASE

    @property
    def base(self) -> BaseDir:
        """The parsed name of a base."""
        assert isinstance(self.parsed, BaseDir)
        return self.parsed

    @property
    def delta(self) -> DeltaDir:
        """The parsed name of a delta."""
        assert isinstance(self.parsed, DeltaDir)
        return self.parsed

    @property
    def range(self) -> WriteIdRange | None:
        """The write ids in the name; a base begins at the beginning."""
        return None if self.parsed is None else self.parsed.range

    @property
    def min_write_id(self) -> int | None:
        """Lowest write id in the name; None for a base, which reaches down to the beginning."""
        return self.parsed.min_write_id if isinstance(self.parsed, DeltaDir) else None

    @property
    def max_write_id(self) -> int | None:
        """Highest write id in the name, inclusive."""
        return None if self.parsed is None else self.parsed.range.max

    @property
    def statement_id(self) -> int | None:
        """Statement id in the name."""
        return self.parsed.statement_id if isinstance(self.parsed, DeltaDir) else None

    @property
    def visibility_txn_id(self) -> int | None:
        """Transaction of the compaction that made it."""
        return None if self.parsed is None else self.parsed.visibility_txn_id

    @property
    def is_first_compaction(self) -> bool:
        """Whether this is the base of a converted table without new writes, usable whatever is open."""
        return isinstance(self.parsed, BaseDir) and self.parsed.write_id == MIN_LONG

    @property
    def guessed_compacted(self) -> bool:
        """Whether a marker of unknown content most likely says compacted: truncations leave no data file."""
        return self.marker is MarkerContent.UNREAD and not all(is_hidden_to_hive(file.name) for file in self.files)

    @property
    def is_compacted(self) -> bool:
        """Whether a compaction made this base: by its `_v` suffix (Hive 4) or its marker (Hive 3)."""
        return self.visibility_txn_id is not None or self.marker is MarkerContent.COMPACTED or self.guessed_compacted

    @property
    def bytes(self) -> int:
        """Bytes of all files below it."""
        return sum(file.size for file in self.files)


class Verdict(NamedTuple):
    """A state with its stable code, one sentence why, and the names of the entries that cause it."""

    state: EntryState
    reason_code: str
    reason: str
    because_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry(Directory):
    """One directory of a location and the verdict on it."""

    state: EntryState
    reason_code: str
    reason: str
    because_of: tuple[str, ...] = ()

    @classmethod
    def of(cls, directory: Directory, verdict: Verdict) -> StateEntry:
        """The directory with this verdict."""
        return cls(
            directory.name,
            directory.parsed,
            directory.files,
            directory.marker,
            directory.marker_problem,
            directory.other_kind,
            state=verdict.state,
            reason_code=verdict.reason_code,
            reason=verdict.reason,
            because_of=verdict.because_of,
        )


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a location holds, before anything is decided about visibility.

    `decided` are entries whose verdict needs no lists: hidden, marker, unrecognised. `original_files` are in
    path order; `group_files` adds the hidden files beside them, so that no file is lost.
    """

    bases: tuple[Directory, ...]
    deltas: tuple[Directory, ...]
    original_files: tuple[FileInfo, ...] = ()
    group_files: tuple[FileInfo, ...] = ()
    decided: tuple[StateEntry, ...] = ()
    notes: tuple[str, ...] = ()


class HistoryGap(NamedTuple):
    """A reader's snapshot that no base on disk can serve; `base` is the oldest compacted one."""

    base: str
    write_id: int
    ids: ValidWriteIds

    def to_error(self, path: str | None = None) -> NotEnoughHistoryError:
        """The gap as the error a reader gets."""
        if self.write_id > self.ids.high_watermark:
            why = f"this reader sees write ids up to {self.ids.high_watermark} only"
        elif self.ids.lowest_open is not None:
            why = f"write id {self.ids.lowest_open} is still open for this reader"
        else:
            why = "its damaged _metadata_acid does not tell whether this reader may use it"
        return NotEnoughHistoryError(
            f"Not enough history: {self.base}, the oldest base on disk, already holds all writes up to "
            f"{self.write_id}, but {why}, and no older base is left.",
            path=path,
            hint="Read with a newer list of valid write ids.",
        )


class TooOld(NamedTuple):
    """Lists that do not show a compaction whose inputs are gone; `why` is a clause that proves it."""

    output: str
    why: str

    @property
    def reason(self) -> str:
        """The whole clause."""
        return f"the lists are older than the compaction that made {self.output}: {self.why}"

    def to_error(self, path: str | None = None) -> NotEnoughHistoryError:
        """The proof as the error a reader gets."""
        return NotEnoughHistoryError(
            f"Not enough history: {self.reason}.",
            path=path,
            hint="Take newer lists (`acidctl lists` asks a metastore for them), and run the command again with these.",
        )


class HiveFailureError(DamagedDataError):
    """Profile hive4 only: Hive 4 fails on this directory."""

    code = "hive_failure"

    def __init__(self, message: str, *, path: str | None = None) -> None:
        super().__init__(message, path=path, hint="Profile strict reads past it and says what it left out.")


class MissingTxnListError(UsageError):
    """Profile hive4 only: Hive 4 reads no base and no delta without a transaction list."""


@dataclass(frozen=True, slots=True)
class AcidState:
    """What a reader with given lists reads of a location, and why it leaves out the rest.

    `deltas` are insert and delete deltas in selection order; `originals` are in path order, which makes their
    row ids; `entries` holds every listed entry exactly once, by name. `doubts` say why rows may be missing or
    come twice, as far as names tell; those of `lonely`, by the names of entries, hold if the entry has a row.
    """

    base: StateEntry | None
    deltas: tuple[StateEntry, ...]
    originals: tuple[FileInfo, ...]
    entries: tuple[StateEntry, ...]
    table_type: TableType
    acid_v1: bool = False
    notes: tuple[str, ...] = ()
    doubts: tuple[Finding, ...] = ()
    lonely: Mapping[str, Finding] = field(default_factory=dict)
    history_gap: HistoryGap | None = None
    # Lists from before a compaction whose inputs are gone, as far as names tell.
    too_old: TooOld | None = None
    root: str = ""
    # Profile hive4 only: on what Hive 4 fails here, where that was not raised.
    hive_failure: HiveFailureError | None = field(default=None, compare=False)

    @property
    def insert_deltas(self) -> tuple[StateEntry, ...]:
        """Live insert deltas in selection order."""
        return tuple(entry for entry in self.deltas if entry.kind is EntryKind.DELTA)

    @property
    def delete_deltas(self) -> tuple[StateEntry, ...]:
        """Live delete deltas in selection order."""
        return tuple(entry for entry in self.deltas if entry.kind is EntryKind.DELETE_DELTA)

    @property
    def excluded(self) -> tuple[StateEntry, ...]:
        """Every entry that is not read."""
        return tuple(entry for entry in self.entries if entry.state is not EntryState.LIVE)

    @property
    def unrecognised(self) -> tuple[StateEntry, ...]:
        """Entries that were not understood."""
        return tuple(entry for entry in self.entries if entry.state is EntryState.UNRECOGNISED)

    @property
    def insert_only(self) -> bool:
        """Whether the rows have no ACID columns and no row ids."""
        return self.table_type is TableType.INSERT_ONLY

    @property
    def not_enough_history(self) -> NotEnoughHistoryError | None:
        """The error a reader gets here, None if the state is whole as far as names tell."""
        gap = self.history_gap or self.too_old
        return None if gap is None else gap.to_error(self.root or None)


# --- verdicts that more than one set of rules gives: state, code and sentence ---------------------------------------


def span(ids: WriteIdRange) -> str:
    """`write id 5` or `write ids 5..9`."""
    return f"{'write id' if ids.min == ids.max else 'write ids'} {ids}"


def join_names(names: Sequence[str]) -> str:
    """Names for a sentence."""
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"


def judge_visibility(parsed: BaseDir | DeltaDir, txns: ValidTxns) -> Verdict | None:
    """The verdict on compactor output whose transaction this reader does not see, else None."""
    txn = parsed.visibility_txn_id
    if txn is None or txns.is_valid(txn):
        return None
    made = f"made by compaction transaction {txn}, which"
    if txns.is_aborted(txn):
        return Verdict(EntryState.ABORTED, "compaction_aborted", f"{made} was aborted")
    if txn > txns.high_watermark:
        why = f"{made} is above the last transaction this reader sees, {txns.high_watermark}"
        return Verdict(EntryState.NOT_VISIBLE, "compaction_above_watermark", why)
    return Verdict(EntryState.NOT_VISIBLE, "compaction_open", f"{made} is not committed for this reader (still open)")


def judge_overwrite(base: BaseDir, ids: ValidWriteIds) -> Verdict | None:
    """The verdict on a base written by INSERT OVERWRITE, LOAD or TRUNCATE: only its own write id matters."""
    if ids.is_valid(base.write_id):
        return None
    if ids.is_aborted(base.write_id):
        return Verdict(EntryState.ABORTED, "write_aborted", f"write id {base.write_id} was aborted")
    if base.write_id > ids.high_watermark:
        why = f"write id {base.write_id} is above this reader's high watermark {ids.high_watermark}"
        return Verdict(EntryState.ABOVE_WATERMARK, "above_watermark", why)
    return Verdict(EntryState.OPEN, "write_open", f"write id {base.write_id} is still open for this reader")


def judge_compacted(base: BaseDir, ids: ValidWriteIds) -> Verdict | None:
    """The verdict on a compacted base: nothing it holds may be open or unseen; aborted ids do not matter.

    Uses the lowest id that may be open by either account of the list, field or enumeration.
    """
    holds, lowest = f"it holds write ids up to {base.write_id}, and", ids.lowest_open
    if base.write_id > ids.high_watermark:
        why = f"{holds} this reader sees them only up to {ids.high_watermark}"
        return Verdict(EntryState.UNUSABLE, "base_above_watermark", why)
    if lowest is not None and base.write_id >= lowest:
        why = f"{holds} write id {lowest} is still open for this reader"
        return Verdict(EntryState.UNUSABLE, "base_holds_open_ids", why)
    return None


def aborted_delta(delta: DeltaDir) -> Verdict:
    """The verdict on a delta that holds nothing but aborted writes."""
    was = "was" if delta.min_write_id == delta.max_write_id else "were all"
    return Verdict(EntryState.ABORTED, "write_aborted", f"{span(delta.range)} {was} aborted")


def degenerate_delta(delta: DeltaDir) -> Verdict:
    """The verdict on a name whose range ends before it begins."""
    why = f"its first write id {delta.min_write_id} is above its last {delta.max_write_id}"
    return Verdict(EntryState.UNRECOGNISED, "bad_range", why)


def covered_by_base(what: str, base: Directory) -> Verdict:
    """The verdict on whatever a base holds already."""
    if base.is_first_compaction:
        does = "holds all original files"
    else:
        does = f"{'holds' if base.is_compacted else 'holds or replaced'} all writes up to {base.base.write_id}"
    return Verdict(EntryState.OBSOLETE, f"{what}covered_by_base", f"covered by {base.name}, which {does}", (base.name,))


def same_ids_as_base(base: Directory) -> Verdict:
    """The verdict on a base beside a preferred one of the same write id."""
    why = f"{base.name} holds the same writes and is preferred"
    return Verdict(EntryState.OBSOLETE, "same_ids_as_base", why, (base.name,))


def covered_by_deltas(names: Sequence[str], cover: DeltaDir) -> Verdict:
    """The verdict on a delta inside the range of wider ones."""
    why = f"covered by {join_names(names)}, which {'hold' if len(names) > 1 else 'holds'} {span(cover.range)}"
    return Verdict(EntryState.OBSOLETE, "covered_by_delta", why, tuple(names))


def judge_originals(base: Directory | None, insert_only: bool) -> Verdict:
    """The verdict on original files beside this base."""
    if insert_only:
        why = "Hive does not read plain files of an insert-only table (hive.mm.allow.originals is off)"
        return Verdict(EntryState.UNUSABLE, "originals_in_insert_only", why)
    if base is not None:
        return covered_by_base("originals_", base)
    return Verdict(EntryState.LIVE, "originals", "files from before the table was ACID; no base holds their rows")


def delete_delta_in_insert_only() -> Verdict:
    """The verdict on a delete delta in an insert-only table."""
    return Verdict(EntryState.UNRECOGNISED, "delete_delta_in_insert_only", "an insert-only table has no delete deltas")
