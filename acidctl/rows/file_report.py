"""The ORC files that a path names, and the report of `dump` on each: what orc-tools would tell, and under `acid` what
only the ACID layer knows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, BinaryIO, TypedDict

import numpy as np
import pyarrow as pa

from acidctl.errors import AcidctlError, DamagedDataError, NoSuchTableError, UsageError
from acidctl.format.bucket_codec import BucketCodecError, decode
from acidctl.format.events import EventKeys, Int64Array, Operation, RowId, keys_of
from acidctl.format.names import (
    KEY_FIELDS,
    SIDE_FILE_SUFFIX,
    BucketFile,
    OriginalFile,
    is_hidden_to_hive,
    must_hold_events,
    parse_file,
)
from acidctl.orc.acidmeta import ACID_STATS, ACID_VERSION, KEY_INDEX, parse_acid_stats, parse_key_index
from acidctl.orc.input_file import read_logical_length
from acidctl.orc.orc_tools import (
    ReportOptions,
    event_columns,
    event_schema,
    failed_report,
    file_report,
    parse_columns,
)
from acidctl.orc.reader import OrcFile, open_as_it_is
from acidctl.orc.tail import Calendar, shape_damage
from acidctl.state.report import to_json
from acidctl.storage.port import Storage, join
from acidctl.storage.resolve import resolve
from acidctl.values import dataclass

Json = dict[str, Any]

# --- Files to be looked into.


@dataclass(frozen=True, slots=True)
class SideFileReport:
    """The side file of a file that streaming ingest wrote."""

    name: Annotated[str, "its name"]
    length: Annotated[int, "its own size"]
    logical_length: Annotated[int, "how far the data file is readable"]
    bytes_beyond: Annotated[int, "bytes of the data file that nobody committed"]


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """An open file: `orc` gives its rows and tail, `stream` its bytes (not while a scan is running).

    `shape_damage` is why its columns cannot be what was written; commands that use the rows refuse such a file.
    """

    orc: OrcFile
    stream: BinaryIO
    shape_damage: DamagedDataError | None


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file to be looked into; `name` is the path as the user would type it, `size` its bytes on storage."""

    storage: Storage
    path: str
    name: str
    size: int

    def side_file(self) -> SideFileReport | None:
        """The side file beside it, if there is one; DamagedDataError when that holds no length."""
        path = self.path + SIDE_FILE_SUFFIX
        found = self.storage.stat(path)
        if found is None or found.is_directory:
            return None
        name = self.storage.display(path)
        with self.storage.open(path) as stream:
            length = read_logical_length(stream, name=name)
        return SideFileReport(name, found.size, length, self.size - length)

    @contextmanager
    def open(self, side: SideFileReport | None) -> Iterator[OpenedFile]:
        """The file up to its logical end, closed with the block; errors as `open_as_it_is`."""
        with self.storage.open(self.path) as stream:
            orc = open_as_it_is(stream, name=self.name, length=None if side is None else side.logical_length)
            yield OpenedFile(orc, stream, shape_damage(orc.tail, events=must_hold_events(self.path)))

    def report(self, *, row_index: str | None = None, time_zone: bool = False) -> Json:
        """What `dump -o json` answers about the file; `row_index` names columns whose row indexes are wanted.

        Raises DamagedDataError where the tail cannot be trusted, also when nothing of the file was ever committed;
        damage in the rows themselves, and columns that cannot be the file's, are in the report.
        """
        side = self.side_file()
        with self.open(side) as opened:
            orc, damage = opened.orc, opened.shape_damage
            columns = () if row_index is None else parse_columns(row_index, orc.tail)
            options = ReportOptions(columns, time_zone)
            report = file_report(orc, opened.stream, name=self.name, size=self.size, options=options)
            calendar = "hybrid" if orc.tail.is_hybrid else "proleptic"
            marked = orc.tail.calendar is not Calendar.UNKNOWN
            acid: Json = to_json(AcidReport(orc.is_acid, _file_name(self.path), calendar, marked, side))
            if orc.is_acid:
                acid |= to_json(acid_facts(orc))
            elif damage is not None:
                acid["damage"] = damage.message
        return report | {"acid": acid}

    def batches(self, *, events: bool = False) -> Iterator[pa.RecordBatch]:
        """All rows as they are stored, or `events` decoded: the operation by name, the bucket property in its parts."""
        with self.open(self.side_file()) as opened:
            if opened.shape_damage is not None:
                raise opened.shape_damage
            for batch in opened.orc.scan():
                if events:
                    batch = pa.RecordBatch.from_arrays(event_columns(batch), event_schema(opened.orc).names)
                yield batch


def data_files(path: str, options: Mapping[str, Any]) -> tuple[DataFile, ...]:
    """The data files that a path or URL names; NoSuchTableError when nothing is there.

    Below a directory, what Hive hides and side files are left out (FileDump.HIDDEN_AND_SIDE_FILE_FILTER of ORC).
    """
    storage, root = resolve(path, options)
    found = storage.stat(root)
    if found is None:
        raise NoSuchTableError(f"{storage.display(root)} does not exist", path=storage.display(root))
    if not found.is_directory:
        return (DataFile(storage, root, storage.display(root), found.size),)
    walk = storage.walk(root, lambda relative: not is_hidden_to_hive(relative.rpartition("/")[2]))
    return tuple(
        DataFile(storage, join(root, info.path), storage.display(join(root, info.path)), info.size)
        for info in walk.files
        if not is_hidden_to_hive(info.name) and not info.name.endswith(SIDE_FILE_SUFFIX)
    )


def read_file(url: str, *, storage_options: Mapping[str, Any] | None = None) -> DataFile:
    """One ORC file by path or URL, its ACID columns decoded: what it holds, and what it says of itself."""
    storage, path = resolve(url, storage_options)
    found = storage.stat(path)
    if found is not None and found.is_directory:
        raise UsageError(f"{storage.display(path)} is a directory", hint="Name a file, or use `open_table`.")
    (file,) = data_files(url, storage_options or {})
    return file


def failure(file: DataFile, error: AcidctlError) -> Json:
    """The report of a file that cannot be read."""
    return failed_report(file.name, error.to_json())


def _file_name(path: str) -> Json:
    """What the name says; `kind` is bucket, original or unrecognised."""
    parsed = parse_file(path.rpartition("/")[2])
    if not isinstance(parsed, BucketFile | OriginalFile):
        return {"kind": "unrecognised"}
    kind = "bucket" if isinstance(parsed, BucketFile) else "original"
    return {"kind": kind} | {name: value for name, value in parsed._asdict().items() if name != "name"}


# --- What the events of an ACID file are, read from its keys and compared with what its writer noted.
#
# One pass over the five key columns, a batch at a time: events by operation, write ids, buckets, the first and last key
# of each stripe. Readers of Hive seek by `hive.acid.key.index`; where it differs from the keys that are there, they
# would miss rows, so the comparison is the point.


@dataclass(frozen=True, slots=True)
class StripeKeys:
    """The keys of a stripe in stored order."""

    stripe: Annotated[int, "number of the stripe, from 1"]
    events: Annotated[int, "events in it"]
    first_key: Annotated[RowId | None, "key of the first event: `write_id`, `bucket_property`, `row_id`"]
    last_key: Annotated[RowId | None, "key of the last event"]
    index_key: Annotated[RowId | None, "what the key index gives for it"]


@dataclass(frozen=True, slots=True)
class BucketCount:
    """How many events carry a bucket property."""

    bucket_property: Annotated[int, "the packed bucket, as it is stored"]
    version: Annotated[int | None, "codec version; null when none knows the value"]
    bucket_id: Annotated[int | None, "decoded"]
    statement_id: Annotated[int | None, "decoded; null in codec version 0, which has none"]
    events: Annotated[int, "events that carry it"]


@dataclass(frozen=True, slots=True)
class Range:
    """Two ids, both inclusive."""

    min: Annotated[int, "the lowest"]
    max: Annotated[int, "the highest"]


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """What comparing the key index with the keys gave."""

    state: Annotated[str, "matches, missing, differs, unreadable, not_checked"]
    reason: Annotated[str, "the same in a sentence"]


@dataclass(frozen=True, slots=True)
class AcidFacts:
    """The events of one file."""

    version: Annotated[str | None, "`hive.acid.version`"]
    events: Annotated[Mapping[str, int], "how many events of each operation there are"]
    stats: Annotated[Mapping[str, int] | None, "`hive.acid.stats`: how many the writer counted"]
    write_ids: Annotated[Range | None, "write ids that made the rows; null when no key can be read"]
    current_write_ids: Annotated[Range | None, "write ids that wrote the events"]
    buckets: Annotated[tuple[BucketCount, ...], "each bucket property"]
    ordered: Annotated[bool | None, "whether the events are in key order; null when they cannot be read"]
    key_index: Annotated[KeyIndex, "how `hive.acid.key.index` compares with the keys"]
    stripes: Annotated[tuple[StripeKeys, ...], "keys of each stripe"]
    damage: Annotated[str | None, "why the events cannot be read to the end, or the columns cannot be the file's"]


@dataclass(frozen=True, slots=True)
class AcidReport:
    """What the ACID layer of a file says, be its rows events or not."""

    is_acid: Annotated[bool, "whether the file holds ACID events"]
    file_name: Annotated[Json, "what the name says: `kind` (bucket, original, unrecognised), `bucket_id`, ..."]
    calendar: Annotated[str, "proleptic or hybrid: how days before 1582-10-15 are read, as Hive reads them"]
    calendar_marked: Annotated[bool, "whether the file says so itself"]
    side_file: Annotated[SideFileReport | None, "of a file that streaming ingest has not closed"]


class FileReport(TypedDict):
    """What there is beside the fields of orc-tools."""

    fileName: Annotated[str, "the file as it was named"]
    status: Annotated[str, "OK, or FAILED for one of several files that cannot be read"]
    error: Annotated[AcidctlError, "of a failed file"]
    acid: Annotated[AcidReport, "what the ACID layer says"]


class Event(TypedDict):
    """An event as `orc_tools.event_columns` decodes it."""

    operation: Annotated[str, "insert, update or delete; a number that is none of Hive's stays a number"]
    write_id: Annotated[int, "the write that made the row"]
    bucket_property: Annotated[int, "the packed bucket, as it is stored"]
    bucket_id: Annotated[int | None, "decoded; null when no codec version knows the value"]
    statement_id: Annotated[int | None, "decoded; null in codec version 0, which has none"]
    row_id: Annotated[int, "number of the row within its bucket and write"]
    current_write_id: Annotated[int, "the write that wrote the event"]
    row: Annotated[Mapping[str, object] | None, "the row; null in a delete"]


class _Survey:
    """What one pass over the keys gathers; `starts` are the numbers of the stripes' first events."""

    def __init__(self, starts: Int64Array) -> None:
        self.operations: Counter[int] = Counter()
        self.buckets: Counter[int] = Counter()
        self.write_ids: Range | None = None
        self.current: Range | None = None
        self.first: dict[int, RowId] = {}
        self.last: dict[int, RowId] = {}
        self.ordered = True
        self._starts = starts
        self._at = 0
        self._previous: RowId | None = None

    def add(self, keys: EventKeys) -> None:
        """Take the next keys of the file."""
        count = len(keys)
        if not count:
            return
        codes = np.zeros(count, dtype=np.int64) if keys.operation is None else keys.operation
        for counter, values in ((self.operations, codes), (self.buckets, keys.bucket)):
            found, counts = np.unique(values, return_counts=True)
            counter.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        self.write_ids = _widened(self.write_ids, keys.write_id)
        self.current = _widened(self.current, keys.current)
        ascending = keys.select(slice(1, None)).at_or_after(keys.select(slice(0, -1))).all()
        if not ascending or (self._previous is not None and keys.at(0) < self._previous):
            self.ordered = False
        stripes = np.searchsorted(self._starts, np.arange(self._at, self._at + count), side="right") - 1
        for stripe in np.unique(stripes).tolist():
            mine = np.flatnonzero(stripes == stripe)
            self.first.setdefault(stripe, keys.at(int(mine[0])))
            self.last[stripe] = keys.at(int(mine[-1]))
        self._previous = keys.at(count - 1)
        self._at += count


def acid_facts(orc: OrcFile) -> AcidFacts:
    """Read the keys of an ACID file; damage among them is in the result, what was noted in the tail stays."""
    survey = _Survey(np.cumsum([0, *(stripe.rows for stripe in orc.tail.stripes)], dtype=np.int64)[:-1])
    damage = None
    try:
        for batch in orc.scan(list(KEY_FIELDS)):
            survey.add(keys_of(batch, name=orc.name))
    except DamagedDataError as error:
        damage = error.message
    index, compared = _key_index(orc, survey, damage)
    version = orc.tail.metadata_value(ACID_VERSION)
    return AcidFacts(
        version=None if version is None else version.decode("utf-8", "replace"),
        stats=_stats(orc.tail.metadata_value(ACID_STATS)),
        events={_operation(code): count for code, count in sorted(survey.operations.items())},
        write_ids=survey.write_ids,
        current_write_ids=survey.current,
        buckets=tuple(_bucket(value, count) for value, count in sorted(survey.buckets.items())),
        stripes=tuple(
            StripeKeys(
                i + 1, stripe.rows, survey.first.get(i), survey.last.get(i), index[i] if i < len(index) else None
            )
            for i, stripe in enumerate(orc.tail.stripes)
        ),
        ordered=survey.ordered if damage is None else None,
        key_index=compared,
        damage=damage,
    )


def _key_index(orc: OrcFile, survey: _Survey, damage: str | None) -> tuple[tuple[RowId | None, ...], KeyIndex]:
    """The index's keys, and how they compare."""
    value = orc.tail.metadata_value(KEY_INDEX)
    if value is None:
        return (), KeyIndex("missing", "the writer left none; readers then read every stripe")
    try:
        index = parse_key_index(value)
    except ValueError as error:
        return (), KeyIndex("unreadable", f"it cannot be read: {error}")
    if damage is not None:
        return index, KeyIndex("not_checked", "the keys themselves cannot be read")
    stripes = orc.tail.stripes
    if len(index) != len(stripes):
        return index, KeyIndex("differs", f"it has {len(index)} keys, the file has {len(stripes)} stripes")
    for number, key in enumerate(index):
        last = survey.last.get(number)
        if key != last:
            reason = f"for stripe {number + 1} it gives {_key_text(key)}, the last key there is {_key_text(last)}"
            return index, KeyIndex("differs", reason)
    return index, KeyIndex("matches", "it gives the last key of every stripe")


def _key_text(key: RowId | None) -> str:
    return "none" if key is None else f"{key.write_id},{key.bucket_property},{key.row_id}"


def _widened(known: Range | None, values: Int64Array) -> Range:
    low, high = int(values.min()), int(values.max())
    return Range(low, high) if known is None else Range(min(low, known.min), max(high, known.max))


def _stats(value: bytes | None) -> Mapping[str, int] | None:
    try:
        stats = parse_acid_stats(value or b"")
    except ValueError:
        return None
    return {"insert": stats.inserts, "update": stats.updates, "delete": stats.deletes}


def _operation(code: int) -> str:
    return Operation(code).name.lower() if code in Operation._value2member_map_ else str(code)


def _bucket(value: int, events: int) -> BucketCount:
    try:
        parts = decode(value)
    except BucketCodecError:
        return BucketCount(value, None, None, None, events)
    return BucketCount(value, parts.version, parts.bucket_id, parts.statement_id if parts.version else None, events)
