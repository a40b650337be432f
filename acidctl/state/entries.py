"""The values that describe the state of one location: entries, verdicts on them, and the state as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from acidctl.errors import DamagedDataError, NotEnoughHistoryError, UsageError
from acidctl.format.listing import FileInfo
from acidctl.format.names import MIN_LONG, BaseDir, DeltaDir, DeltaKind, WriteIdRange

# The originals of a location are one entry; no directory can have this name on HDFS or by Hive's hand.
ORIGINALS_NAME = "(original files)"


class Profile(Enum):
    """Whose rules decide."""

    STRICT = "strict"
    HIVE4 = "hive4"


class ListingMode(Enum):
    """How Hive 4 lists a location; the strict profile sees everything and does not depend on it."""

    SNAPSHOT = "snapshot"
    LISTING = "listing"
    CLEANER = "cleaner"


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """A state with its stable code, one sentence why, and the names of the entries that cause it."""

    state: EntryState
    reason_code: str
    reason: str
    because_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StateEntry:
    """One child of the location (or all its originals together) with its verdict.

    `files` are all files below it, hidden ones and markers too; `data_files` picks those that hold rows.
    """

    name: str
    kind: EntryKind
    parsed: BaseDir | DeltaDir | None
    state: EntryState
    reason_code: str
    reason: str
    because_of: tuple[str, ...] = ()
    files: tuple[FileInfo, ...] = ()

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
        if isinstance(self.parsed, DeltaDir):
            return self.parsed.max_write_id
        return self.parsed.write_id if isinstance(self.parsed, BaseDir) else None

    @property
    def statement_id(self) -> int | None:
        """Statement id in the name."""
        return self.parsed.statement_id if isinstance(self.parsed, DeltaDir) else None

    @property
    def visibility_txn_id(self) -> int | None:
        """Transaction of the compaction that made the directory."""
        return self.parsed.visibility_txn_id if self.parsed is not None else None

    @property
    def bytes(self) -> int:
        """Bytes of all files below the entry."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """A reader's snapshot that no base on disk can serve; `base` is the oldest compacted one."""

    base: str
    write_id: int
    high_watermark: int
    first_exception: int | None
    lowest_open: int | None

    def to_error(self, path: str | None = None) -> NotEnoughHistoryError:
        """The gap as the error a reader gets."""
        if self.write_id > self.high_watermark:
            why = f"this reader sees write ids up to {self.high_watermark} only"
        elif self.lowest_open is not None:
            why = f"write id {self.lowest_open} is still open for this reader"
        else:
            why = "its damaged _metadata_acid does not tell whether this reader may use it"
        return NotEnoughHistoryError(
            f"Not enough history: {self.base}, the oldest base on disk, already holds all writes up to "
            f"{self.write_id}, but {why}, and no older base is left.",
            path=path,
            hint="Read with a newer list of valid write ids.",
        )


@dataclass(frozen=True, slots=True)
class AcidState:
    """What a reader with given lists reads of a location, and why it leaves out the rest.

    `deltas` are insert and delete deltas in selection order; `originals` are in path order, which makes their
    row ids; `entries` holds every listed entry exactly once, by name. `obsolete_paths` and `aborted_paths`
    are Hive's lists of that name: directories, and original files one by one. `doubts` are those of the `notes` that
    say why rows may be missing or come twice; `lonely` are entries and notes that say so if the entry holds a row.
    """

    base: StateEntry | None
    deltas: tuple[StateEntry, ...]
    originals: tuple[FileInfo, ...]
    entries: tuple[StateEntry, ...]
    table_type: TableType
    acid_v1: bool = False
    aborted_write_ids: tuple[int, ...] = ()
    uncompacted_aborts: bool = False
    obsolete_paths: tuple[str, ...] = ()
    aborted_paths: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    lonely: Mapping[str, str] = field(default_factory=dict)
    history_gap: HistoryGap | None = None
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
    def unread(self) -> tuple[StateEntry, ...]:
        """Entries that were not understood although they hold bytes: rows may lie in them."""
        return tuple(entry for entry in self.unrecognised if entry.bytes)

    @property
    def insert_only(self) -> bool:
        """Whether the rows have no ACID columns and no row ids."""
        return self.table_type is TableType.INSERT_ONLY

    @property
    def not_enough_history(self) -> NotEnoughHistoryError | None:
        """The error a reader gets here, None if the state is whole."""
        return None if self.history_gap is None else self.history_gap.to_error(self.root or None)


class HiveFault(Enum):
    """Why Hive 4 itself fails on a location."""

    BAD_DIR_NAME = "BAD_DIR_NAME"
    BAD_ACID_METADATA = "BAD_ACID_METADATA"
    NO_VALID_TXN_LIST = "NO_VALID_TXN_LIST"


class HiveFailureError(DamagedDataError):
    """Profile hive4 only: Hive 4 fails on this directory; `fault` says on what."""

    code = "hive_failure"

    def __init__(self, message: str, fault: HiveFault, *, path: str | None = None) -> None:
        super().__init__(message, path=path, hint="Profile strict reads past it and says what it left out.")
        self.fault = fault


class MissingTxnListError(UsageError):
    """Profile hive4 only: Hive 4 reads no base and no delta without a transaction list."""

    fault = HiveFault.NO_VALID_TXN_LIST


class MarkerContent(Enum):
    """What a base's `_metadata_acid` says."""

    ABSENT = "absent"
    COMPACTED = "compacted"
    OVERWRITE = "overwrite"
    UNREAD = "unread"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A base or delta directory before the verdict; `name` is its path below the location."""

    name: str
    parsed: BaseDir | DeltaDir
    files: tuple[FileInfo, ...] = ()
    marker: MarkerContent = MarkerContent.ABSENT
    marker_problem: str | None = None

    @property
    def kind(self) -> EntryKind:
        """Kind of entry this directory becomes."""
        if isinstance(self.parsed, BaseDir):
            return EntryKind.BASE
        return EntryKind.DELTA if self.parsed.kind is DeltaKind.INSERT else EntryKind.DELETE_DELTA

    @property
    def is_first_compaction(self) -> bool:
        """Whether this is the base of a converted table without new writes, usable whatever is open."""
        return isinstance(self.parsed, BaseDir) and self.parsed.write_id == MIN_LONG

    @property
    def guessed_compacted(self) -> bool:
        """Whether a marker of unknown content most likely says compacted: truncations leave no data file."""
        return self.marker is MarkerContent.UNREAD and any(f.name[:1] not in ("_", ".") for f in self.files)

    @property
    def is_compacted(self) -> bool:
        """Whether a compaction made this base: by its `_v` suffix (Hive 4) or its marker (Hive 3)."""
        return (
            self.parsed.visibility_txn_id is not None
            or self.marker is MarkerContent.COMPACTED
            or self.guessed_compacted
        )

    def entry(self, verdict: Verdict) -> StateEntry:
        """The entry with its verdict."""
        return StateEntry(
            self.name,
            self.kind,
            self.parsed,
            verdict.state,
            verdict.reason_code,
            verdict.reason,
            verdict.because_of,
            self.files,
        )


@dataclass(frozen=True, slots=True)
class Stock:
    """What a location holds, before anything is decided about visibility.

    `settled` are entries whose verdict needs no lists: hidden, marker, unrecognised. `original_files` are in
    path order; `group_files` adds the hidden files beside them, so that no file is lost.
    """

    bases: tuple[Candidate, ...]
    deltas: tuple[Candidate, ...]
    original_files: tuple[FileInfo, ...] = ()
    original_directories: tuple[str, ...] = ()
    group_files: tuple[FileInfo, ...] = ()
    settled: tuple[StateEntry, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """What was decided about a stock: names read, verdicts on every base and delta, and side results."""

    base: str | None
    deltas: tuple[str, ...]
    verdicts: dict[str, Verdict]
    aborted_write_ids: tuple[int, ...] = ()
    uncompacted_aborts: bool = False
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    lonely: Mapping[str, str] = field(default_factory=dict)
    history_gap: HistoryGap | None = None
