"""A second reader of one location, as plain as it can be: lists and dictionaries, one row at a time, through pyorc.

It shares nothing with acidctl but the write-id list. Names, selection of directories, synthetic row ids and the rules
of deletes and updates are written again here, so that a test can hold one against the other.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pyorc

from acidctl.format.write_ids import RangeAnswer, ValidWriteIds

Key = tuple[int, int, int]
DELETE = 2
FIRST = -(2**63)
EVENT = ("operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row")
_BASE = re.compile(r"base_(-?\d+)(_v\d+)?")
_DELTA = re.compile(r"(delete_)?delta_(\d+)_(\d+)(?:_(\d+))?(_v\d+)?")
_BUCKET = re.compile(r"bucket_(\d+)(_\d+)?")
_ORIGINAL = re.compile(r"(\d+)_\d+(_copy_\d+)?")


class NotEnoughHistory(Exception):
    """A compacted base stands there that this reader cannot use, and no other."""


@dataclass(frozen=True)
class Row:
    """A visible row: its bucket by file name, its id (None in insert-only tables), its values as pyorc gives them."""

    file_bucket: int | None
    key: Key | None
    values: list[Any]


@dataclass(frozen=True)
class Directory:
    """A base or a delta; a base has equal `low` and `high`."""

    name: str
    is_base: bool
    is_delete: bool
    low: int
    high: int
    statement: int
    compacted: bool


@dataclass(frozen=True)
class Event:
    """One stored change of one row."""

    operation: int
    key: Key
    current: int
    values: list[Any] | None
    statement: int = 0


class Moments:
    """Timestamps as the pair that the file holds; `datetime` has neither nanoseconds nor all years."""

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: object) -> tuple[int, int]:
        return seconds, nanoseconds

    @staticmethod
    def to_orc(value: tuple[int, int], timezone: object) -> tuple[int, int]:
        return value


class Days:
    """Dates as days since 1970."""

    @staticmethod
    def from_orc(days: int) -> int:
        return days

    @staticmethod
    def to_orc(value: int) -> int:
        return value


CONVERTERS: Any = {pyorc.TypeKind.TIMESTAMP: Moments, pyorc.TypeKind.DATE: Days}


def read(
    root: Path, ids: ValidWriteIds, columns: str, *, insert_only: bool = False, acid_v1: bool = False
) -> list[Row]:
    """All visible rows, by the bucket in the file names, then by row id; `columns` is `struct<...>`."""
    base, deltas, originals = select(root, ids, insert_only=insert_only, acid_v1=acid_v1)
    target = pyorc.TypeDescription.from_string(columns)
    gone: set[Key] = set()
    buckets: dict[int | None, list[Event]] = defaultdict(list)
    plain: list[Row] = []
    directories = [*([base] if base else []), *deltas]
    for directory in directories:
        for path in files_of(root / directory.name):
            if directory.is_delete:
                for event in events(path, directory, root, target, acid_v1):
                    if event.operation == DELETE and ids.is_valid(event.current):
                        gone.add(event.key)
            elif insert_only:
                plain += [Row(bucket_of(path), None, values) for values in plain_rows(path, target)]
            elif not directory.is_base and not (_BUCKET.fullmatch(path.name) or _ORIGINAL.fullmatch(path.name)):
                continue
            else:
                buckets[bucket_of(path)] += events(path, directory, root, target, acid_v1)
    for path in originals if not base and not insert_only else []:
        buckets[bucket_of(path)] += events(path, None, root, target, acid_v1)
    rows = sorted(plain, key=lambda row: row.file_bucket or 0)
    for bucket in sorted(buckets, key=lambda b: b or 0):
        rows += visible(bucket, buckets[bucket], gone, ids)
    return rows


def visible(bucket: int | None, stored: list[Event], gone: set[Key], ids: ValidWriteIds) -> Iterator[Row]:
    """The rows of one bucket: of a row that was updated in place the newest event, else every insert."""
    seen = [event for event in stored if ids.is_valid(event.current)]
    if any(event.operation for event in stored):
        newest: dict[Key, Event] = {}
        for event in seen:
            best = newest.get(event.key)
            if best is None or (event.current, event.statement, event.operation) > (
                best.current,
                best.statement,
                best.operation,
            ):
                newest[event.key] = event
        seen = list(newest.values())
    for event in sorted(seen, key=lambda e: e.key):
        if event.operation != DELETE and event.key not in gone:
            yield Row(bucket, event.key, event.values or [])


def select(
    root: Path, ids: ValidWriteIds, *, insert_only: bool, acid_v1: bool
) -> tuple[Directory | None, list[Directory], list[Path]]:
    """Base, deltas in reading order and original files of a location whose transactions all committed."""
    found = [d for path in root.iterdir() if path.is_dir() and (d := directory_of(path))]
    bases = [d for d in found if d.is_base]
    # Hive 2 overwrites nothing: each of its bases is a compaction.
    usable = [
        b for b in bases if b.low == FIRST or (ids.is_valid_base if acid_v1 or b.compacted else ids.is_valid)(b.low)
    ]
    if not usable and any(acid_v1 or b.compacted for b in bases):
        raise NotEnoughHistory
    base = max(usable, key=lambda b: (b.low, b.compacted), default=None)
    candidates = [
        d
        for d in found
        if not d.is_base
        and not (insert_only and d.is_delete)
        and ids.is_range_aborted(d.low, d.high) is not RangeAnswer.ALL
        and ids.is_range_valid(d.low, d.high) is not RangeAnswer.NONE
    ]
    candidates.sort(key=lambda d: (d.low, -d.high, d.statement, d.name))
    reached, statement, taken = base.low if base else 0, -1, []
    for d in candidates:
        if d.high > reached:
            if ids.is_range_valid(reached + 1, d.high) is not RangeAnswer.NONE:
                taken.append(d)
                reached, statement = d.high, d.statement
        elif (d.high == reached and statement >= 0) or (
            taken and (d.low, d.high, d.statement) == (taken[-1].low, taken[-1].high, taken[-1].statement)
        ):
            taken.append(d)
    inside = tuple(f"{d.name}/" for d in found)
    below = [p for p in files_of(root) if not p.relative_to(root).as_posix().startswith(inside)]
    return base, taken, below


def directory_of(path: Path) -> Directory | None:
    """What a directory's name says, None when it is neither base nor delta."""
    if match := _BASE.fullmatch(path.name):
        marker = path / "_metadata_acid"
        compacted = bool(match[2]) or (marker.exists() and "compacted" in marker.read_text())
        return Directory(path.name, True, False, int(match[1]), int(match[1]), -1, compacted)
    if match := _DELTA.fullmatch(path.name):
        statement = -1 if match[4] is None else int(match[4])
        return Directory(path.name, False, bool(match[1]), int(match[2]), int(match[3]), statement, bool(match[5]))
    return None


def files_of(directory: Path) -> list[Path]:
    """Data files at any depth, in path order."""
    found = [p for p in directory.rglob("*") if p.is_file() and not p.name.endswith("_flush_length")]
    return sorted((p for p in found if not p.name.startswith(("_", "."))), key=str)


def bucket_of(path: Path) -> int | None:
    """The bucket id in a file's name."""
    match = _BUCKET.fullmatch(path.name) or _ORIGINAL.fullmatch(path.name)
    return int(match[1]) if match else None


def content(path: Path) -> bytes:
    """The bytes that count: streaming ingest says in a side file how far they go."""
    data = path.read_bytes()
    side = path.with_name(f"{path.name}_flush_length")
    if side.exists():
        lengths = side.read_bytes()
        whole = len(lengths) // 8 * 8
        return data[: struct.unpack(">q", lengths[whole - 8 : whole])[0]]
    return data


def open_file(path: Path) -> pyorc.Reader | None:
    """A reader over a file, None for one without bytes."""
    data = content(path)
    return pyorc.Reader(BytesIO(data), converters=CONVERTERS) if data else None


def struct_of(kind: pyorc.TypeDescription) -> pyorc.Struct:
    """The schema of a file, or of the rows in its events: a struct both."""
    assert isinstance(kind, pyorc.Struct)
    return kind


def plain_rows(path: Path, target: Any) -> Iterator[list[Any]]:
    """Rows of a file without ACID columns, fitted to the table's."""
    reader = open_file(path)
    if reader is not None:
        schema = struct_of(reader.schema)
        have = [schema[name] for name in schema.fields]
        for row in reader:
            yield fitted(row, have, target)


def events(path: Path, directory: Directory | None, root: Path, target: Any, acid_v1: bool) -> Iterator[Event]:
    """A file as events, whatever it is; original rows get the ids that Hive gives them."""
    reader = open_file(path)
    if reader is None:
        return
    statement = max(directory.statement, 0) if directory else 0
    schema = struct_of(reader.schema)
    names = tuple(schema.fields)
    if tuple(name.lower() for name in names) == EVENT:
        row_type = struct_of(schema[names[5]])
        have = [row_type[name] for name in row_type.fields]
        for operation, write_id, bucket, row_id, current, row in reader:
            values = None if row is None else fitted(row, have, target)
            yield Event(operation, (write_id, bucket, row_id), current, values, statement)
        return
    bucket_id = bucket_of(path)
    assert bucket_id is not None
    write_id, prop, offset = 0, bucket_id, 0
    if not acid_v1:
        write_id = directory.low if directory else 0
        prop = (1 << 29) | (bucket_id << 16) | statement
        offset = rows_before(path, directory, root)
    for i, values in enumerate(plain_rows(path, target)):
        yield Event(0, (write_id, prop, offset + i), write_id, values, statement)


def rows_before(path: Path, directory: Directory | None, root: Path) -> int:
    """Rows of the same bucket in the files that come before this one in its directory."""
    owner = root / directory.name if directory else root
    total = 0
    for other in files_of(owner):
        inner = other.relative_to(root).parts[0]
        if directory is None and (_BASE.fullmatch(inner) or _DELTA.fullmatch(inner)):
            continue
        if other == path:
            break
        reader = open_file(other) if bucket_of(other) == bucket_of(path) else None
        total += len(reader) if reader is not None else 0
    return total


def fitted(row: tuple[Any, ...], have: list[Any], target: Any) -> list[Any]:
    """A file's row as the table's: by position, what the file lacks is NULL."""
    wanted = [target[name] for name in target.fields]
    return [inner(row[i], have[i], kind) if i < len(have) else None for i, kind in enumerate(wanted)]


def inner(value: Any, have: Any, want: Any) -> Any:
    """A value of the file's type as one of the table's; fields of structs match by name."""
    if value is None:
        return None
    if isinstance(want, pyorc.Struct):
        places = {name.lower(): (i, have[name]) for i, name in enumerate(have.fields)}
        found = [places.get(name.lower()) for name in want.fields]
        kinds = [want[name] for name in want.fields]
        return tuple(f and inner(value[f[0]], f[1], kind) for f, kind in zip(found, kinds, strict=True))
    if isinstance(want, pyorc.Array):
        return [inner(item, have.type, want.type) for item in value]
    if isinstance(want, pyorc.Map):
        return {inner(k, have.key, want.key): inner(v, have.value, want.value) for k, v in value.items()}
    return value


def as_json(value: Any, kind: Any) -> Any:
    """A value of pyorc as acidctl prints it."""
    if value is None:
        return None
    if isinstance(kind, pyorc.Struct):
        return {name: as_json(item, kind[name]) for name, item in zip(kind.fields, value, strict=True)}
    if isinstance(kind, pyorc.Array):
        return [as_json(item, kind.type) for item in value]
    if isinstance(kind, pyorc.Map):
        return [{"_key": as_json(k, kind.key), "_value": as_json(v, kind.value)} for k, v in value.items()]
    if isinstance(kind, pyorc.Union):
        tag = int(not isinstance(value, int))
        return {"tag": tag, "value": as_json(value, kind.cont_types[tag])}
    if isinstance(kind, pyorc.Timestamp):
        return moment(*value)
    if isinstance(kind, pyorc.Date):
        return "{:04}-{:02}-{:02}".format(*civil(value))
    return value


def moment(seconds: int, nanos: int) -> str:
    """`2026-11-21 10:00:00.5` of seconds since 1970 and nanoseconds."""
    days, rest = divmod(seconds, 86400)
    fraction = f".{nanos:09}".rstrip("0") if nanos else ""
    year, month, day = civil(days)
    return f"{year:04}-{month:02}-{day:02} {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}{fraction}"


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of days since 1970 in the Gregorian calendar, counted from the first of March of year 0."""
    cycles, day = divmod(days + 719468, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    return (
        year + 400 * cycles + (month >= 10),
        month + 3 if month < 10 else month - 9,
        day - (153 * month + 2) // 5 + 1,
    )
