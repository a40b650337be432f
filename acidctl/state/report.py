"""What `ls` answers, as values: every entry of every location with its state, and what they add up to.

The text behind a field of a report says what scripts find in it; the reference of fields is made of these.

Made of states that are already resolved. Opens nothing, knows no clock and prints nothing; row counts and
logical lengths are handed in by whoever has opened the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Annotated, Any, NamedTuple

from acidctl.errors import AcidctlError, ExitCode
from acidctl.findings import Finding
from acidctl.format.listing import FileInfo
from acidctl.format.names import BucketFile, Marker, OriginalFile, SideFile, parse_file
from acidctl.state.entries import ORIGINALS_NAME, AcidState, EntryKind, EntryState, StateEntry
from acidctl.values import dataclass

SCHEMA_VERSION = 1
ASSUMED = "lists that were not given and count as everything committed: `write_ids`, `txns`"
FINDINGS = "why rows may be missing or come twice, as far as that is known: `code`, `sentence`, `path` and `remedy`"

# What a cleaner could remove for a reader with these lists.
RECLAIMABLE = (EntryState.OBSOLETE, EntryState.ABORTED)
_RECLAIMABLE_VALUES = frozenset(state.value for state in RECLAIMABLE)
_FILE_KINDS: Mapping[type, str] = {
    BucketFile: "bucket",
    OriginalFile: "original",
    SideFile: "side_file",
    Marker: "marker",
}
# Of a field that is for acidctl itself.
NOT_IN_JSON = {"json": False}


@dataclass(frozen=True, slots=True)
class Problem:
    """An error as a part of an answer."""

    code: Annotated[str, "stable word"]
    message: Annotated[str, "one sentence"]
    hint: Annotated[str | None, "what to do now"]
    exit_code: ExitCode = field(default=ExitCode.FAILED, metadata=NOT_IN_JSON)

    @classmethod
    def of(cls, error: AcidctlError) -> Problem:
        """The values of an error."""
        return cls(error.code, error.message, error.hint, error.exit_code)


@dataclass(frozen=True, slots=True)
class LsFile:
    """One file of an entry."""

    path: Annotated[str, "relative to the partition"]
    kind: Annotated[str, "bucket, original, side_file, marker, other"]
    bytes: Annotated[int | None, "size"]
    modified: Annotated[str | None, "ISO 8601 in UTC"]
    bucket_id: Annotated[int | None, "bucket in the name"] = None
    attempt_id: Annotated[int | None, "task attempt in the name"] = None
    copy_number: Annotated[int | None, "number behind `_copy_`"] = None
    logical_length: Annotated[int | None, "how far the file is readable, when a side file says so"] = None
    rows: Annotated[int | None, "rows in its footer, with `--rows`"] = None


@dataclass(frozen=True, slots=True)
class LsEntry:
    """One directory, or all original files of a location."""

    partition: Annotated[str, "on-disk text such as `ds=2026-01-01/hr=7`; empty for a table without partitions"]
    name: Annotated[str, "directory name; `(original files)` for all original files of a location"]
    kind: Annotated[str, "base, delta, delete_delta, original, marker, unrecognised"]
    min_write_id: Annotated[int | None, "first write id in the name; null for a base (it starts at the first write)"]
    max_write_id: Annotated[int | None, "last write id in the name, inclusive"]
    statement_id: Annotated[int | None, "statement of a multi-statement write"]
    visibility_txn_id: Annotated[int | None, "transaction of the compaction that wrote the directory"]
    state: Annotated[str, "live, obsolete, aborted, open, above_watermark, not_visible, unusable, hidden, unrecognised"]
    reason: Annotated[str, "why, in a sentence"]
    reason_code: Annotated[str, "the same, stable"]
    because_of: Annotated[tuple[str, ...], "names of the entries that cause it"]
    files: Annotated[int, "files below the entry, markers included"]
    bytes: Annotated[int | None, "their size; null when the listing has no sizes"]
    rows: Annotated[int | None, "stored rows or delete events, with `--rows`"]
    modified: Annotated[str | None, "time of the newest file, ISO 8601 in UTC"]
    file_list: Annotated[tuple[LsFile, ...] | None, "the files, with `--long`"] = None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """What Hive 4 itself would do differently at a location."""

    partition: Annotated[str, "on-disk text"]
    message: Annotated[str, "what Hive 4 would read, and why it is not read here"]


@dataclass(frozen=True, slots=True)
class Gap:
    """A location that cannot be read with this snapshot: there is not enough history."""

    partition: Annotated[str, "on-disk text"]
    message: Annotated[str, "what is missing"]
    hint: Annotated[str | None, "what to do now"]


@dataclass(frozen=True, slots=True)
class Damage:
    """A file whose footer or side file cannot be right; found by `--rows` and `--long`."""

    partition: Annotated[str, "on-disk text"]
    path: Annotated[str, "relative to the partition"]
    message: Annotated[str, "what is wrong with it"]


@dataclass(frozen=True, slots=True)
class LsSummary:
    """Figures over the entries of one location, or of all."""

    partitions: Annotated[int, "locations: partitions, or 1"]
    base: Annotated[str | None, "the live base, where there is one location and it has one"]
    bases: Annotated[int, "locations that have a live base"]
    deltas: Annotated[int, "live deltas"]
    delete_deltas: Annotated[int, "live delete deltas"]
    original_files: Annotated[int, "original files that are read"]
    entries: Annotated[int, "all entries"]
    states: Annotated[Mapping[str, int], "how many entries are in each state that occurs"]
    files_live: Annotated[int, "files of live entries, markers included"]
    bytes_live: Annotated[int | None, "their size; null when the listing has no sizes"]
    reclaimable: Annotated[int, "obsolete and aborted entries"]
    files_reclaimable: Annotated[int, "their files"]
    bytes_reclaimable: Annotated[int | None, "their size"]


@dataclass(frozen=True, slots=True)
class LsPartition:
    """The roll-up of one location."""

    partition: Annotated[str, "on-disk text"]
    summary: Annotated[LsSummary, "figures of this partition"]
    readable: Annotated[bool, "false when this snapshot cannot be read here (not enough history)"]


@dataclass(frozen=True, slots=True)
class LsTable:
    """The roll-up of one table of a metastore."""

    table: Annotated[str, "`db.table`"]
    location: Annotated[str | None, "where it lies, without secrets; null when it could not be opened"] = None
    table_type: Annotated[str | None, "full, insert_only, originals, empty"] = None
    summary: Annotated[LsSummary | None, "figures over all entries; null when it could not be listed"] = None
    bytes_deltas: Annotated[int | None, "size of the live deltas and delete deltas"] = None
    most_deltas: Annotated[int, "the most live deltas and delete deltas of one partition"] = 0
    oldest: Annotated[str | None, "time of the oldest live delta, ISO 8601 in UTC"] = None
    readable: Annotated[bool, "false when a partition cannot be read now (not enough history)"] = True
    findings: Annotated[bool, "whether `ls` of this table would end with findings"] = False
    problem: Annotated[Problem | None, "why it could not be listed"] = None

    @classmethod
    def of(cls, table: str, report: LsReport) -> LsTable:
        """The figures of a table's own report."""
        deltas = [
            entry
            for entry in report.entries
            if entry.state == EntryState.LIVE.value and entry.kind in ("delta", "delete_delta")
        ]
        sizes = [entry.bytes for entry in deltas if entry.bytes is not None]
        return cls(
            table=table,
            location=report.location,
            table_type=report.table_type,
            summary=report.summary,
            bytes_deltas=sum(sizes) if len(sizes) == len(deltas) else None,
            most_deltas=max(Counter(entry.partition for entry in deltas).values(), default=0),
            oldest=min((entry.modified for entry in deltas if entry.modified), default=None),
            readable=not report.gaps,
            findings=report.has_findings,
        )


@dataclass(frozen=True, slots=True)
class LsReport:
    """The whole answer of `ls`."""

    location: Annotated[str, "the table as it was named, without secrets"]
    profile: Annotated[str, "which rules decided: `strict` or `hive4`"]
    table_type: Annotated[str, "full, insert_only, originals, empty"]
    assumed: Annotated[tuple[str, ...], ASSUMED]
    summary: Annotated[LsSummary, "figures over all entries, shown or not"]
    entries: Annotated[tuple[LsEntry, ...], "in the order they were written"]
    partitions: Annotated[tuple[LsPartition, ...], "with `--by-partition`, the worst first"]
    disagreements: Annotated[tuple[Disagreement, ...], "where Hive 4 itself would read something else"]
    gaps: Annotated[tuple[Gap, ...], "where there is not enough history for this snapshot"]
    damaged: Annotated[tuple[Damage, ...], "files that `--rows` or `--long` found damaged"]
    notes: Annotated[tuple[str, ...], "the notes, as on stderr"]
    warnings: Annotated[tuple[str, ...], "the warnings, as on stderr"]
    doubts: Annotated[tuple[str, ...], "why rows may be missing or come twice: the sentences of `findings`"] = ()
    findings: Annotated[tuple[Finding, ...], "the same with stable codes and remedies"] = ()

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


class FileDetail(NamedTuple):
    """What only an opened file tells."""

    rows: int | None = None
    logical_length: int | None = None
    problem: str | None = None
    finding: Finding | None = None


Details = Mapping[tuple[str, str], FileDetail]


def make_entries(
    partition: str, state: AcidState, *, sizes: bool = True, long: bool = False, details: Details | None = None
) -> list[LsEntry]:
    """The entries of one location, in the order of their write ids: what was written first comes first."""
    return [_entry(partition, entry, sizes, long, details or {}) for entry in sorted(state.entries, key=_story_order)]


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


def document(kind: str, report: object) -> dict[str, Any]:
    """A report as a JSON object that names its own type."""
    return {"type": kind, "schema_version": SCHEMA_VERSION, **to_json(report)}


def to_json(value: Any) -> Any:
    """A report or a part of it as JSON values; `file_list` is left out where nobody asked for it."""
    kind: Any = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        return round(value, 3)
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    names = json_names(kind)
    if not names:
        return dict(value) if isinstance(value, Mapping) else value
    found = {name: to_json(getattr(value, name)) for name in names}
    if found.get("file_list", ()) is None:
        del found["file_list"]
    return found


# Nearly all values of a report; looked at first, since a large table has millions.
_AS_THEY_ARE = frozenset((str, int, bool, type(None)))


@cache
def json_names(kind: Any) -> tuple[str, ...]:
    """The names of a report's JSON fields: those of the class, then the properties that its `ALSO` lists."""
    if not is_dataclass(kind):
        return ()
    own = tuple(item.name for item in fields(kind) if item.metadata.get("json", True))
    return (*own, *getattr(kind, "ALSO", ()))


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
    rank = _RANK.get(entry.kind)
    if rank is None:
        return (9, 0, 0, 0, 0, entry.name)
    high = entry.max_write_id or 0
    low = high if entry.min_write_id is None else entry.min_write_id
    # Within the same highest id the narrow directories came first; -1 keeps "no statement" before statement 0.
    statement = -1 if entry.statement_id is None else entry.statement_id
    return (min(rank, 1), high, rank, -low, statement, entry.name)


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
        visibility_txn_id=entry.visibility_txn_id,
        state=entry.state.value,
        reason=entry.reason,
        reason_code=entry.reason_code,
        because_of=entry.because_of,
        files=len(entry.files),
        bytes=entry.bytes if sizes else None,
        rows=sum(counted) if counted else None,
        modified=iso_time(max(times, default=None)),
        file_list=tuple(found) if long else None,
    )


def _file(partition: str, info: FileInfo, sizes: bool, details: Details) -> LsFile:
    parsed = parse_file(info.name)
    detail = details.get((partition, info.path), FileDetail())
    return LsFile(
        path=info.path,
        kind=_FILE_KINDS.get(type(parsed), "other"),
        bytes=info.size if sizes else None,
        modified=iso_time(info.modified),
        bucket_id=getattr(parsed, "bucket_id", None),
        attempt_id=getattr(parsed, "attempt_id", None),
        copy_number=getattr(parsed, "copy_number", None),
        logical_length=detail.logical_length,
        rows=detail.rows,
    )
