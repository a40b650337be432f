"""What `ls` answers, as values: every entry of every location with its state, and what they add up to.

Made of states that are already resolved. Opens nothing, knows no clock and prints nothing; row counts and
logical lengths are handed in by whoever has opened the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from acidctl.format.listing import FileInfo
from acidctl.format.names import BucketFile, Marker, OriginalFile, SideFile, parse_file
from acidctl.state.entries import ORIGINALS_NAME, AcidState, EntryKind, EntryState, StateEntry

SCHEMA_VERSION = 1

# What a cleaner could remove for a reader with these lists.
RECLAIMABLE = (EntryState.OBSOLETE, EntryState.ABORTED)
_RECLAIMABLE_VALUES = frozenset(state.value for state in RECLAIMABLE)


@dataclass(frozen=True, slots=True)
class LsFile:
    """One file of an entry; `path` is relative to the partition."""

    path: str
    kind: str
    bytes: int | None
    modified: str | None
    bucket_id: int | None = None
    attempt_id: int | None = None
    copy_number: int | None = None
    logical_length: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class LsEntry:
    """One directory, or all original files of a location; absent is None."""

    partition: str
    name: str
    kind: str
    min_write_id: int | None
    max_write_id: int | None
    statement_id: int | None
    visibility_txn_id: int | None
    state: str
    reason: str
    reason_code: str
    because_of: tuple[str, ...]
    files: int
    bytes: int | None
    rows: int | None
    modified: str | None
    file_list: tuple[LsFile, ...] | None = None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What Hive 4 itself would do differently at a location."""

    partition: str
    message: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A location that the asked snapshot cannot be read from."""

    partition: str
    message: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class Damage:
    """A file whose footer or side file cannot be right; found by `--rows` and `--long`."""

    partition: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class LsSummary:
    """Figures over the entries of one location, or of all; bytes are None when the listing had no sizes."""

    partitions: int
    base: str | None
    bases: int
    deltas: int
    delete_deltas: int
    original_files: int
    entries: int
    states: Mapping[str, int]
    files_live: int
    bytes_live: int | None
    reclaimable: int
    files_reclaimable: int
    bytes_reclaimable: int | None


@dataclass(frozen=True, slots=True)
class LsPartition:
    """The roll-up of one location."""

    partition: str
    summary: LsSummary
    readable: bool


@dataclass(frozen=True, slots=True)
class LsReport:
    """The whole answer; `assumed` names the lists that were not given and taken as everything committed.

    `doubts` are those of the `warnings` that say why rows may be missing or come twice.
    """

    location: str
    profile: str
    table_type: str
    assumed: tuple[str, ...]
    summary: LsSummary
    entries: tuple[LsEntry, ...]
    partitions: tuple[LsPartition, ...]
    disagreements: tuple[Disagreement, ...]
    gaps: tuple[Gap, ...]
    damaged: tuple[Damage, ...]
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    doubts: tuple[str, ...] = ()

    @property
    def damaged_live(self) -> bool:
        """True when a file that is read is damaged; in aborted directories torn files are to be expected."""
        live = {(entry.partition, entry.name) for entry in self.entries if entry.state == EntryState.LIVE.value}
        originals = {partition for partition, name in live if name == ORIGINALS_NAME}
        return any(
            item.partition in originals or (item.partition, item.path.partition("/")[0]) in live
            for item in self.damaged
        )

    @property
    def has_findings(self) -> bool:
        """True when something was not understood or is damaged, when rows may come twice or be missing, or a location
        cannot be read with this snapshot.
        """
        return bool(self.gaps or self.damaged or self.doubts or self.summary.states.get(EntryState.UNRECOGNISED.value))


@dataclass(frozen=True, slots=True)
class FileDetail:
    """What only an opened file tells."""

    rows: int | None = None
    logical_length: int | None = None
    problem: str | None = None


Details = Mapping[tuple[str, str], FileDetail]


def make_entries(
    partition: str,
    state: AcidState,
    *,
    sizes: bool = True,
    long: bool = False,
    details: Details | None = None,
) -> list[LsEntry]:
    """The entries of one location, in the order of their write ids: what was written first comes first."""
    ordered = sorted(state.entries, key=_story_order)
    return [_entry(partition, entry, sizes, long, details or {}) for entry in ordered]


def add_up(entries: Sequence[LsEntry], states: Iterable[AcidState], *, sizes: bool = True, stray: int = 0) -> LsSummary:
    """The figures of one or several locations, of which so many are stray: no partitions."""
    states = tuple(states)
    bases = [state.base.name for state in states if state.base is not None]
    live = [entry for entry in entries if entry.state == EntryState.LIVE.value]
    freed = [entry for entry in entries if entry.state in _RECLAIMABLE_VALUES]
    return LsSummary(
        partitions=len(states) - stray,
        base=bases[0] if len(bases) == 1 and len(states) - stray == 1 else None,
        bases=len(bases),
        deltas=sum(len(state.insert_deltas) for state in states),
        delete_deltas=sum(len(state.delete_deltas) for state in states),
        original_files=sum(len(state.originals) for state in states),
        entries=len(entries),
        states=dict(sorted(Counter(entry.state for entry in entries).items())),
        files_live=sum(entry.files for entry in live),
        bytes_live=sum(entry.bytes or 0 for entry in live) if sizes else None,
        reclaimable=len(freed),
        files_reclaimable=sum(entry.files for entry in freed),
        bytes_reclaimable=sum(entry.bytes or 0 for entry in freed) if sizes else None,
    )


def to_json(value: Any) -> Any:
    """A report or a part of it as JSON values; `file_list` is left out where nobody asked for it."""
    kind: Any = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    names = _field_names(kind)
    if not names:
        return dict(value) if isinstance(value, Mapping) else value
    found = {name: to_json(getattr(value, name)) for name in names}
    if found.get("file_list", ()) is None:
        del found["file_list"]
    return found


# Nearly all values of a report; looked at first, since a large table has millions.
_AS_THEY_ARE = frozenset((str, int, float, bool, type(None)))


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind)) if is_dataclass(kind) else ()


def iso_time(seconds: float | None) -> str | None:
    """A time as ISO 8601 in UTC, to the second; None where the year has no four digits."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()[:19] + "Z"
    except (ValueError, OverflowError, OSError):
        return None


def seconds_of(time: str | None) -> float | None:
    """The reverse of `iso_time`."""
    return None if time is None else datetime.fromisoformat(time).timestamp()


_RANK = {EntryKind.ORIGINAL: 0, EntryKind.DELETE_DELTA: 1, EntryKind.DELTA: 1, EntryKind.BASE: 2}


def _story_order(entry: StateEntry) -> tuple[int, int, int, int, int, str]:
    """Top to bottom reads as history: a compaction's result follows what it was made of."""
    if entry.kind not in _RANK:
        return (9, 0, 0, 0, 0, entry.name)
    high = entry.max_write_id if entry.max_write_id is not None else 0
    low = entry.min_write_id if entry.min_write_id is not None else high
    rank = _RANK[entry.kind]
    # Within the same highest id the narrow directories came first; -1 keeps "no statement" before statement
    # 0.
    statement = entry.statement_id if entry.statement_id is not None else -1
    return (0 if rank == 0 else 1, high, rank, -low, statement, entry.name)


def _entry(partition: str, entry: StateEntry, sizes: bool, long: bool, details: Details) -> LsEntry:
    found = [_file(partition, info, sizes, details) for info in entry.files] if long or details else []
    counted = [item.rows for item in found if item.rows is not None]
    times = [info.modified for info in entry.files if info.modified is not None]
    return LsEntry(
        partition=partition,
        name=entry.name,
        kind=entry.kind.value,
        min_write_id=entry.min_write_id,
        max_write_id=entry.max_write_id,
        statement_id=entry.statement_id,
        visibility_txn_id=entry.directory.visibility_txn_id,
        state=entry.state.value,
        reason=entry.reason,
        reason_code=entry.reason_code,
        because_of=entry.because_of,
        files=len(entry.files),
        bytes=entry.directory.bytes if sizes else None,
        rows=sum(counted) if counted else None,
        modified=iso_time(max(times, default=None)),
        file_list=tuple(found) if long else None,
    )


def _file(partition: str, info: FileInfo, sizes: bool, details: Details) -> LsFile:
    parsed = parse_file(info.name)
    detail = details.get((partition, info.path), FileDetail())
    bucket: int | None = None
    attempt: int | None = None
    copy: int | None = None
    kind = "other"
    match parsed:
        case BucketFile():
            kind, bucket, attempt = "bucket", parsed.bucket_id, parsed.attempt_id
        case OriginalFile():
            kind, bucket = "original", parsed.bucket_id
            attempt, copy = parsed.attempt_id, parsed.copy_number
        case SideFile():
            kind = "side_file"
        case Marker():
            kind = "marker"
    return LsFile(
        path=info.path,
        kind=kind,
        bytes=info.size if sizes else None,
        modified=iso_time(info.modified),
        bucket_id=bucket,
        attempt_id=attempt,
        copy_number=copy,
        logical_length=detail.logical_length,
        rows=detail.rows,
    )
