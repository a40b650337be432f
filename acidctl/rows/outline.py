"""What listing alone tells of a reader's snapshot: the plan, what to say of it, and often the number of rows.

Neither pyarrow nor numpy is needed here: thousands of small files are counted before these would be loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Annotated, Any, TypedDict

from acidctl.errors import AcidctlError, DamagedDataError
from acidctl.findings import Finding
from acidctl.format.bucket_codec import decode
from acidctl.format.names import BucketFile, DeltaDir, Operation, RowId, WriteIdRange
from acidctl.format.write_ids import ValidWriteIds
from acidctl.orc import acidmeta, tail
from acidctl.rows.belief import logical_length
from acidctl.rows.table_view import PartitionState, TableState
from acidctl.rows.watching import ReadProgress, ReadWatch
from acidctl.state.entries import EntryKind, EntryState, StateEntry
from acidctl.state.inventory import DataFile, data_files, live_entries
from acidctl.state.report import ASSUMED, FINDINGS, to_json
from acidctl.storage.port import Storage, join

_INSERTS = frozenset({Operation.INSERT})


class Excluded(TypedDict):
    """A directory that this reader does not read."""

    name: Annotated[str, "directory name"]
    state: Annotated[str, "as in `ls`"]
    reason_code: Annotated[str, "why, stable"]
    reason: Annotated[str, "why, in a sentence"]
    because_of: Annotated[list[str], "names of the entries that cause it"]


class PlannedPartition(TypedDict):
    """What is read of one location."""

    partition: Annotated[str, "on-disk text; empty for a table without partitions"]
    base: Annotated[str | None, "the base that is read"]
    deltas: Annotated[list[str], "insert deltas that are read, in order"]
    delete_deltas: Annotated[list[str], "delete deltas that apply"]
    originals: Annotated[list[str], "original files that are read"]
    excluded: Annotated[list[Excluded], "everything else"]


class SnapshotPlan(TypedDict):
    """What a reader with these lists reads, as `snapshot --files` answers it."""

    location: Annotated[str, "the table as it was named, without secrets"]
    assumed: Annotated[list[str], ASSUMED]
    partitions: Annotated[list[PlannedPartition], "one object a location"]
    findings: Annotated[list[dict[str, str]], FINDINGS]


class Outline:
    """A reader's view of a table, as far as no row is read; `Snapshot` reads them too."""

    def __init__(
        self,
        storage: Storage,
        location: str,
        table: TableState,
        findings: Iterable[Finding],
        reader: Callable[..., Any],
        *,
        strict: bool = False,
    ) -> None:
        """`findings` is what was found in the table so far; `reader` makes the snapshot of an outline.

        With `strict` what is found later raises DamagedDataError.
        """
        self.strict = strict
        self.location = location
        self.table = table
        self.notes = table.notes
        self.warnings = table.warnings
        self.partitions = tuple(part for part in table.parts if not part.location.stray)
        self.lists = table.lists
        self._storage = storage
        self._known = tuple(dict.fromkeys((*table.doubts, *findings)))
        self._watch: ReadWatch | None = None
        self._reader_of = reader
        self._whole: Outline | None = None

    def watch(self, report: Callable[[ReadProgress], None]) -> None:
        """Have every later reading of rows, counts and digests reported, in whichever thread it is read."""
        self._watch = ReadWatch(sum(map(bytes_of, self.partitions)), report)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Why rows of this answer may be missing or come twice, as far as that is known by now."""
        return self._known if self._whole is None else self._whole.findings

    def count_of(self, partition: PartitionState, where: Any = None) -> int:
        """How many rows of a partition are visible, or match a condition."""
        found = _counted(self._storage, partition, self.lists.effective_write_ids) if where is None else None
        if found is None:
            if self._whole is None:
                self._whole = self._reader_of(self)
            return self._whole.count_of(partition, where)
        if self._watch is not None:
            self._watch.finish((), bytes_of(partition))
        return found

    def require_certain(self) -> None:
        """DamagedDataError where rows may be missing or come twice, as far as that is known by now."""
        for first in self.findings[:1]:
            more = len(self.findings) - 1
            raise DamagedDataError(
                f"rows may be missing or come twice: {first}" + (f" (and {more:,} more findings)" if more else ""),
                path=self.location,
                hint="`acidctl ls` shows the directories; without --strict the rows are given, with exit code 3.",
            )

    def why_empty(self) -> str:
        """A clause why there is no row, for who has found none or before any file is opened; "" where files are read
        that may have some.
        """
        live, deletes = self._live()
        if len(deletes) < len(live):
            return ""
        left_out = [e for part in self.partitions for e in part.state.excluded if e.kind is not EntryKind.MARKER]
        if not left_out:
            return f"there is nothing but {deletes[0]}" if deletes else "the table is empty"
        states = Counter(entry.state for entry in left_out)
        if len(states) > 1:
            return "nothing is read: " + ", ".join(f"{count:,} {_in_words(state)}" for state, count in states.items())
        state, count = next(iter(states.items()))
        what = f"all {count:,} directories are" if count > 1 else f"{left_out[0].name} is"
        above = state is EntryState.ABOVE_WATERMARK
        mark = f" {self.lists.effective_write_ids.high_watermark}" if above else ""
        return f"{what} {_in_words(state)}{mark}"

    def why_none_left(self) -> str:
        """The same after all rows were read and none was found, without a condition."""
        _, deletes = self._live()
        if not deletes:
            return self.why_empty() or "no file that is read has a visible row"
        more = f" and {len(deletes) - 1:,} more" if len(deletes) > 1 else ""
        return self.why_empty() or f"every row is deleted, by {deletes[-1]}{more}"

    def _live(self) -> tuple[list[str], list[str]]:
        """Names of all that is read, and of what deletes among it."""
        live = [entry for part in self.partitions for entry in live_entries(part.state)]
        return [e.name for e in live], [e.name for e in live if e.kind is EntryKind.DELETE_DELTA]

    def plan(self) -> SnapshotPlan:
        """What is read and what is not; opens no data file."""
        return {
            "location": self.location,
            "assumed": list(self.lists.assumed),
            "partitions": [_plan_of(partition) for partition in self.partitions],
            "findings": to_json(self.findings),
        }


def _counted(storage: Storage, partition: PartitionState, write_ids: ValidWriteIds) -> int | None:
    """How many rows of a location are visible, if the ends of its files tell: if each row that is stored is.

    None else, and where there is anything to say of a file, which whoever reads its rows does.
    """
    state, root = partition.state, partition.location.listing.root
    if state.insert_only or state.delete_deltas:
        return None
    count = 0
    keys: dict[int | None, list[tuple[RowId, RowId]]] = {}
    try:
        for entry in live_entries(state):
            for file in data_files(entry):
                if not file.has_rows or (found := _tail_of(storage, root, file)) is None:
                    continue
                if not tail.is_acid(found) or not isinstance(file.parsed, BucketFile):
                    return None
                if not found.rows:
                    continue
                bounds = acidmeta.key_range(found, found.statistics, found.rows)
                if bounds is None or acidmeta.operations(found) != _INSERTS:
                    return None
                held = WriteIdRange(bounds[0].write_id, bounds[1].write_id)
                visible = write_ids.covers(held.min, held.max)
                if isinstance(entry.parsed, DeltaDir) and not entry.delta.range.covers(held):
                    return None
                if not visible or decode(bounds[0].bucket_property).bucket_id != file.bucket_id:
                    return None
                keys.setdefault(file.bucket_id, []).append(bounds)
                count += found.rows
    except AcidctlError:
        return None
    # Rows of two files may have the same id.
    apart = (before < low for some in keys.values() for (_, before), (low, _) in pairwise(sorted(some)))
    return count if all(apart) else None


def _tail_of(storage: Storage, root: str, file: DataFile) -> tail.Tail | None:
    """The end of a file of events, checked as it is before rows are read; None where nothing is committed yet."""
    path, length = join(root, file.info.path), logical_length(storage, root, file)
    if length == 0:
        return None
    with storage.open(path) as stream:
        return tail.readable_tail(stream, name=storage.display(path), length=length)


def bytes_of(partition: PartitionState) -> int:
    """Bytes of what is read of a location."""
    return sum(entry.bytes for entry in live_entries(partition.state))


def _in_words(state: EntryState) -> str:
    return {"above_watermark": "above the watermark"}.get(state.value, state.value.replace("_", " "))


def _plan_of(partition: PartitionState) -> PlannedPartition:
    state = partition.state
    return {
        "partition": partition.partition,
        "base": state.base.name if state.base else None,
        "deltas": [entry.name for entry in state.insert_deltas],
        "delete_deltas": [entry.name for entry in state.delete_deltas],
        "originals": [info.path for info in state.originals],
        "excluded": [described(entry) for entry in state.excluded],
    }


def described(entry: StateEntry) -> Excluded:
    """A directory, its state, and why."""
    return {
        "name": entry.name,
        "state": entry.state.value,
        "reason_code": entry.reason_code,
        "reason": entry.reason,
        "because_of": list(entry.because_of),
    }
