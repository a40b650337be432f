"""The report of `dump` on one file: what orc-tools would tell, and under `acid` what only the ACID layer knows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from acidctl.errors import AcidctlError, DamagedDataError
from acidctl.format.bucket_codec import BucketCodecError, decode
from acidctl.format.events import EventKeys, Operation, RowId, keys_of
from acidctl.format.names import KEY_FIELDS, BucketFile, OriginalFile, parse_file
from acidctl.orc.acidmeta import ACID_STATS, ACID_VERSION, KEY_INDEX, AcidStats, parse_acid_stats, parse_key_index
from acidctl.orc.describe import ReportOptions, failed_report, file_report, parse_columns
from acidctl.orc.postprocess import is_hybrid
from acidctl.orc.reader import OrcFile
from acidctl.orc.tail import Calendar
from acidctl.rows.dump_inputs import DataFile, SideFileFacts

Json = dict[str, Any]


def report_of(file: DataFile, *, row_index: str | None, time_zone: bool) -> Json:
    """Everything about one file; `row_index` names columns whose row indexes are wanted.

    Raises DamagedDataError where the tail cannot be trusted, also when nothing of the file was ever committed;
    damage in the rows themselves, and columns that cannot be the file's, are told in the report.
    """
    side = file.side_file()
    with file.open(side) as opened:
        orc = opened.orc
        columns = () if row_index is None else parse_columns(row_index, orc.tail)
        options = ReportOptions(columns, time_zone)
        report = file_report(orc, opened.stream, name=file.name, size=file.size, options=options)
        acid: Json = {
            "is_acid": orc.is_acid,
            "file_name": _file_name(file),
            "calendar": "hybrid" if is_hybrid(orc.tail) else "proleptic",
            "calendar_marked": orc.tail.calendar is not Calendar.UNKNOWN,
            "side_file": _side_file(side, file.size),
        }
        if orc.is_acid:
            acid |= _facts(acid_facts(orc))
        elif opened.shape_damage is not None:
            acid["damage"] = opened.shape_damage.message
    return report | {"acid": acid}


def failure(file: DataFile, error: AcidctlError) -> Json:
    """The report of a file that cannot be read."""
    fields = {"code": error.code, "message": error.message, "path": error.path, "hint": error.hint}
    return failed_report(file.name, fields)


def _file_name(file: DataFile) -> Json:
    """What the name says; `kind` is bucket, original or unrecognised."""
    parsed = parse_file(file.path.rpartition("/")[2])
    if isinstance(parsed, BucketFile):
        return {"kind": "bucket", "bucket_id": parsed.bucket_id, "attempt_id": parsed.attempt_id}
    if isinstance(parsed, OriginalFile):
        return {
            "kind": "original",
            "bucket_id": parsed.bucket_id,
            "attempt_id": parsed.attempt_id,
            "copy_number": parsed.copy_number,
        }
    return {"kind": "unrecognised"}


def _side_file(side: SideFileFacts | None, size: int) -> Json | None:
    if side is None:
        return None
    beyond = size - side.logical_length
    return {"name": side.name, "length": side.length, "logical_length": side.logical_length, "bytes_beyond": beyond}


def _facts(facts: AcidFacts) -> Json:
    stats = facts.stats
    return {
        "version": facts.version,
        "events": dict(facts.operations),
        "stats": None if stats is None else {"insert": stats.inserts, "update": stats.updates, "delete": stats.deletes},
        "write_ids": _range(facts.write_ids),
        "current_write_ids": _range(facts.current_write_ids),
        "buckets": [
            {
                "bucket_property": bucket.bucket_property,
                "version": bucket.version,
                "bucket_id": bucket.bucket_id,
                "statement_id": bucket.statement_id,
                "events": bucket.events,
            }
            for bucket in facts.buckets
        ],
        "ordered": facts.ordered,
        "key_index": {"state": facts.key_index.value, "reason": facts.key_index_reason},
        "stripes": [
            {
                "stripe": number,
                "events": stripe.rows,
                "first_key": _key(stripe.first),
                "last_key": _key(stripe.last),
                "index_key": _key(stripe.index),
            }
            for number, stripe in enumerate(facts.stripes, 1)
        ],
        "damage": facts.damage,
    }


def _range(ends: tuple[int, int] | None) -> Json | None:
    return None if ends is None else {"min": ends[0], "max": ends[1]}


def _key(key: RowId | None) -> Json | None:
    if key is None:
        return None
    return {"write_id": key.write_id, "bucket_property": key.bucket_property, "row_id": key.row_id}


# --- What the events of an ACID file are, read from its keys and compared with what its writer noted.
#
# One pass over the five key columns, a batch at a time: events by operation, write ids, buckets, the first and last key
# of each stripe. Readers of Hive seek by `hive.acid.key.index`; where it differs from the keys that are there, they
# would miss rows, so the comparison is the point.


class KeyIndexState(Enum):
    """What comparing the key index with the keys gave."""

    MATCHES = "matches"
    MISSING = "missing"
    DIFFERS = "differs"
    UNREADABLE = "unreadable"
    NOT_CHECKED = "not_checked"


@dataclass(frozen=True, slots=True)
class StripeKeys:
    """The first and last key of a stripe in stored order, and what the key index gives for it."""

    rows: int
    first: RowId | None
    last: RowId | None
    index: RowId | None


@dataclass(frozen=True, slots=True)
class BucketCount:
    """How many events carry a bucket property; ids are None where no codec version knows the value."""

    bucket_property: int
    version: int | None
    bucket_id: int | None
    statement_id: int | None
    events: int


@dataclass(frozen=True, slots=True)
class AcidFacts:
    """The events of one file; ranges are inclusive, None when there are no events or the keys cannot be read."""

    version: str | None
    stats: AcidStats | None
    operations: tuple[tuple[str, int], ...]
    write_ids: tuple[int, int] | None
    current_write_ids: tuple[int, int] | None
    buckets: tuple[BucketCount, ...]
    stripes: tuple[StripeKeys, ...]
    ordered: bool | None
    key_index: KeyIndexState
    key_index_reason: str
    damage: str | None


@dataclass(slots=True)
class _Survey:
    """What the pass over the keys gathers."""

    starts: np.ndarray[tuple[int], np.dtype[np.int64]]
    at: int = 0
    operations: Counter[int] = field(default_factory=Counter)
    buckets: Counter[int] = field(default_factory=Counter)
    write_ids: tuple[int, int] | None = None
    current: tuple[int, int] | None = None
    first: dict[int, RowId] = field(default_factory=dict)
    last: dict[int, RowId] = field(default_factory=dict)
    ordered: bool = True
    previous: RowId | None = None

    def add(self, keys: EventKeys) -> None:
        """Take the next keys of the file."""
        count = len(keys)
        if not count:
            return
        codes = np.zeros(count, dtype=np.int64) if keys.operation is None else keys.operation
        self.operations.update(_counted(codes))
        self.buckets.update(_counted(keys.bucket))
        self.write_ids = _widened(self.write_ids, keys.write_id)
        self.current = _widened(self.current, keys.current)
        self._order(keys)
        stripes = np.searchsorted(self.starts, np.arange(self.at, self.at + count), side="right") - 1
        for stripe in range(int(stripes[0]), int(stripes[-1]) + 1):
            mine = np.flatnonzero(stripes == stripe)
            if mine.size:
                self.first.setdefault(stripe, keys.at(int(mine[0])))
                self.last[stripe] = keys.at(int(mine[-1]))
        self.previous = keys.at(count - 1)
        self.at += count

    def _order(self, keys: EventKeys) -> None:
        if self.previous is not None and keys.at(0) < self.previous:
            self.ordered = False
        if len(keys) > 1 and not keys.select(slice(1, None)).at_or_after(keys.select(slice(0, -1))).all():
            self.ordered = False


def acid_facts(orc: OrcFile) -> AcidFacts:
    """Read the keys of an ACID file; damage among them is told in the result, what was noted in the tail stays."""
    starts = np.cumsum([0, *(stripe.rows for stripe in orc.tail.stripes)], dtype=np.int64)[:-1]
    survey = _Survey(starts)
    damage = None
    try:
        for batch in orc.scan(list(KEY_FIELDS)):
            survey.add(keys_of(batch, name=orc.name))
    except DamagedDataError as error:
        damage = error.message
    index, state, reason = _key_index(orc, survey, damage)
    stats = orc.tail.metadata_value(ACID_STATS)
    version = orc.tail.metadata_value(ACID_VERSION)
    return AcidFacts(
        version=None if version is None else version.decode("utf-8", "replace"),
        stats=_stats(stats),
        operations=tuple((_operation(code), count) for code, count in sorted(survey.operations.items())),
        write_ids=survey.write_ids,
        current_write_ids=survey.current,
        buckets=tuple(_bucket(value, count) for value, count in sorted(survey.buckets.items())),
        stripes=tuple(
            StripeKeys(stripe.rows, survey.first.get(i), survey.last.get(i), index[i] if i < len(index) else None)
            for i, stripe in enumerate(orc.tail.stripes)
        ),
        ordered=survey.ordered if damage is None else None,
        key_index=state,
        key_index_reason=reason,
        damage=damage,
    )


def _key_index(
    orc: OrcFile, survey: _Survey, damage: str | None
) -> tuple[tuple[RowId | None, ...], KeyIndexState, str]:
    """The index's keys, how they compare, and a sentence about it."""
    value = orc.tail.metadata_value(KEY_INDEX)
    if value is None:
        return (), KeyIndexState.MISSING, "the writer left none; readers then read every stripe"
    try:
        index = parse_key_index(value)
    except ValueError as error:
        return (), KeyIndexState.UNREADABLE, f"it cannot be read: {error}"
    if damage is not None:
        return index, KeyIndexState.NOT_CHECKED, "the keys themselves cannot be read"
    stripes = orc.tail.stripes
    if len(index) != len(stripes):
        reason = f"it has {len(index)} keys, the file has {len(stripes)} stripes"
        return index, KeyIndexState.DIFFERS, reason
    for number, key in enumerate(index):
        last = survey.last.get(number)
        if key != last:
            reason = f"for stripe {number + 1} it gives {key_text(key)}, the last key there is {key_text(last)}"
            return index, KeyIndexState.DIFFERS, reason
    return index, KeyIndexState.MATCHES, "it gives the last key of every stripe"


def key_text(key: RowId | None) -> str:
    """A key as the key index writes it."""
    return "none" if key is None else f"{key.write_id},{key.bucket_property},{key.row_id}"


def _counted(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[int, int]:
    found, counts = np.unique(values, return_counts=True)
    return {int(value): int(count) for value, count in zip(found, counts, strict=True)}


def _widened(known: tuple[int, int] | None, values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[int, int]:
    low, high = int(values.min()), int(values.max())
    return (low, high) if known is None else (min(low, known[0]), max(high, known[1]))


def _stats(value: bytes | None) -> AcidStats | None:
    if value is None:
        return None
    try:
        return parse_acid_stats(value)
    except ValueError:
        return None


def _operation(code: int) -> str:
    return Operation(code).name.lower() if code in Operation._value2member_map_ else str(code)


def _bucket(value: int, events: int) -> BucketCount:
    try:
        parts = decode(value)
    except BucketCodecError:
        return BucketCount(value, None, None, None, events)
    return BucketCount(value, parts.version, parts.bucket_id, parts.statement_id if parts.version else None, events)
