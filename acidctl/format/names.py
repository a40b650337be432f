"""Directory and file names of ACID tables, as values.

Takes one name and answers what it says: a base, a delta, a data file, a marker, something hidden, or
something not understood, with the reason. Parsing never raises and never drops anything; the exact text read
stays beside the parsed numbers, because Hive accepts unpadded names (`delta_40_60`) and a path must never be
rebuilt from numbers. Formatting is for writing only. This module knows nothing of storage, of listings or of
what a reader may see.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from acidctl.errors import UsageError
from acidctl.values import dataclass

BASE_PREFIX = "base_"
DELTA_PREFIX = "delta_"
DELETE_DELTA_PREFIX = "delete_delta_"
ACID_PREFIXES = (BASE_PREFIX, DELTA_PREFIX, DELETE_DELTA_PREFIX)
BUCKET_PREFIX = "bucket_"
SIDE_FILE_SUFFIX = "_flush_length"
VERSION_MARKER = "_orc_acid_version"
METADATA_MARKER = "_metadata_acid"
# Every name that acidctl gives to something of its own begins so.
OWN_PREFIX = "_acidctl_"
LOCK_NAME = "_acidctl_lock"
WORK_PREFIX = "_acidctl_work_"
QUARANTINE_NAME = "_acidctl_quarantine"
JOURNAL_NAME = "journal.json"
OWNER_NAME = "owner.json"
FAILED_NAME = "failed"
REMOVED_NAME = "removed"
UNION_SUBDIRECTORY = "HIVE_UNION_SUBDIR_"
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

MAX_LONG = (1 << 63) - 1
# The first major compaction of a converted table without new writes is named after the smallest long.
MIN_LONG = -(1 << 63)
_MAX_INT = (1 << 31) - 1

_Placed = TypeVar("_Placed")


class Operation(IntEnum):
    """What an event does; UPDATE occurs in ACID version 1 only."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


@dataclass(frozen=True, slots=True, order=True)
class RowId:
    """ROW__ID: compares as Hive does, by write id, then the packed bucket as a signed integer, then row number."""

    write_id: int
    bucket_property: int
    row_id: int


class WriteIdRange(NamedTuple):
    """Write ids `min` to `max`, both inclusive; the only place where ranges are compared.

        1..5 and 3..4    nested: one covers the other
        1..5 and 6..9    apart
        1..5 and 4..9    crossing

    A name may end before it begins (`delta_40_4`), and Hive accepts such names: then the range is empty.
    """

    min: int
    max: int

    @property
    def is_empty(self) -> bool:
        """Whether it ends before it begins."""
        return self.min > self.max

    def covers(self, other: WriteIdRange) -> bool:
        """Whether every id of `other` is in this range."""
        return self.min <= other.min and other.max <= self.max

    def overlaps(self, other: WriteIdRange) -> bool:
        """Whether the two ranges share an id."""
        return self.min <= other.max and other.min <= self.max

    def nests(self, other: WriteIdRange) -> bool:
        """Whether one of the two covers the other."""
        return self.covers(other) or other.covers(self)

    def crosses(self, other: WriteIdRange) -> bool:
        """Whether they share some ids, and each has ids that the other has not."""
        return self.overlaps(other) and not self.nests(other)

    def __contains__(self, write_id: int) -> bool:  # type: ignore[override]
        return self.min <= write_id <= self.max

    def __str__(self) -> str:
        return str(self.min) if self.min == self.max else f"{self.min}..{self.max}"

    @staticmethod
    def around(ranges: Iterable[WriteIdRange]) -> WriteIdRange:
        """The narrowest range that covers all of these, of which there is at least one."""
        found = list(ranges)
        return WriteIdRange(min(item.min for item in found), max(item.max for item in found))


def first_crossing(placed: Iterable[tuple[WriteIdRange, _Placed]]) -> tuple[_Placed, _Placed] | None:
    """The first two things with crossing ranges, None where all ranges are nested or apart."""
    containers: list[tuple[WriteIdRange, _Placed]] = []
    # Lowest first, then the widest: the narrowest range that holds the next one is the last of `containers`.
    for ids, item in sorted(placed, key=lambda pair: (pair[0].min, -pair[0].max)):
        while containers and containers[-1][0].max < ids.min:
            containers.pop()
        if containers and containers[-1][0].crosses(ids):
            return containers[-1][1], item
        containers.append((ids, item))
    return None


class DeltaKind(Enum):
    """What a delta directory holds; the values are the words used in answers."""

    INSERT = "delta"
    DELETE = "delete_delta"


class BaseDir(NamedTuple):
    """`base_<write id>[_v<txn>]`: everything up to and including `write_id`."""

    name: str
    write_id: int
    visibility_txn_id: int | None = None

    @property
    def range(self) -> WriteIdRange:
        """The write ids that it holds or replaces."""
        return WriteIdRange(MIN_LONG, self.write_id)


class DeltaDir(NamedTuple):
    """`delta_<min>_<max>[_<statement>][_v<txn>]` or the same as `delete_delta_`; both ends inclusive.

    `min_write_id` may exceed `max_write_id`, as Hive accepts such names.
    """

    name: str
    kind: DeltaKind
    min_write_id: int
    max_write_id: int
    statement_id: int | None = None
    visibility_txn_id: int | None = None

    @property
    def range(self) -> WriteIdRange:
        """The write ids in its name."""
        return WriteIdRange(self.min_write_id, self.max_write_id)


class HiddenName(NamedTuple):
    """A name that readers pass over."""

    name: str
    reason: str


class Unrecognised(NamedTuple):
    """A name that is not understood, kept with the reason."""

    name: str
    reason: str


class BucketFile(NamedTuple):
    """`bucket_<id>[_<attempt>]`: a file with ACID columns; the attempt is there after a direct insert (Hive 4)."""

    name: str
    bucket_id: int
    attempt_id: int | None = None


class SideFile(NamedTuple):
    """`<data file>_flush_length`: logical lengths of a file that streaming ingest has not closed."""

    name: str
    data_file: str


class OriginalFile(NamedTuple):
    """`<bucket>_<attempt>[_copy_<n>]`: a file without ACID columns."""

    name: str
    bucket_id: int
    attempt_id: int
    copy_number: int | None = None


class Marker(NamedTuple):
    """`_orc_acid_version` or `_metadata_acid`."""

    name: str


ParsedDirectory = BaseDir | DeltaDir | HiddenName | Unrecognised
ParsedFile = BucketFile | SideFile | OriginalFile | Marker | HiddenName | Unrecognised

_NUMBER = re.compile(r"[+-]?[0-9]+")
_BUCKET = re.compile(r"bucket_([0-9]+)(?:_([0-9]+))?")
_ORIGINAL = re.compile(r"([0-9]+)_([0-9]+)(?:_copy_([0-9]+))?")

# Prefixes that say more than "hidden"; the first match wins.
_HIDDEN_REASONS = (
    (WORK_PREFIX, "work directory of an acidctl compaction"),
    (LOCK_NAME, "lock of a running acidctl command"),
    (QUARANTINE_NAME, "quarantine of acidctl clean"),
    (".hive-staging", "staging directory of a Hive query"),
    ("_tmp", "temporary directory of a Hive query or compaction"),
    ("_task_tmp", "temporary directory of a Hive query"),
    ("-tmp.", "temporary directory of a running or failed Hive 4 write"),
    ("-ext-", "temporary directory of a Hive query"),
    ("_", "names that begin with _ are hidden from readers"),
    (".", "names that begin with . are hidden from readers"),
)


def is_marker(name: str) -> bool:
    """Whether a file of this name is a marker of Hive."""
    return name in (VERSION_MARKER, METADATA_MARKER)


def is_journal(path: str) -> bool:
    """Whether a path below a location is that of the journal in a work directory of `compact`."""
    work, _, name = path.partition("/")
    return name == JOURNAL_NAME and work.startswith(WORK_PREFIX)


def parse_long(text: str) -> int | None:
    """Read a 64-bit number as Java's Long.parseLong does (ASCII digits only), None if it is not one."""
    if len(text) < 19 and text.isascii() and text.isdigit():
        return int(text)
    if not _NUMBER.fullmatch(text):
        return None
    digits = text.lstrip("+-").lstrip("0")
    # Python refuses to convert very long digit strings; 20 significant digits cannot fit anyway.
    if len(digits) > 19:
        return None
    value = -int(digits or "0") if text.startswith("-") else int(digits or "0")
    return value if MIN_LONG <= value <= MAX_LONG else None


# The same names stand in every partition.
@lru_cache(maxsize=1 << 14)
def parse_directory(name: str) -> ParsedDirectory | None:
    """Say what a directory name means (ParsedBaseLight.parseBase, ParsedDeltaLight.parse in Hive).

    None where it means nothing: files below such a directory are original files.
    """
    if name.startswith(BASE_PREFIX):
        return _parse_base(name)
    # `delete_delta_` contains `delta_`: only prefixes count.
    if name.startswith(DELETE_DELTA_PREFIX):
        return _parse_delta(name, DELETE_DELTA_PREFIX, DeltaKind.DELETE)
    if name.startswith(DELTA_PREFIX):
        return _parse_delta(name, DELTA_PREFIX, DeltaKind.INSERT)
    return _hidden(name)


@lru_cache(maxsize=4096)
def parse_file(name: str) -> ParsedFile:
    """Say what a file name means, wherever the file stands."""
    if is_marker(name):
        return Marker(name)
    hidden = _hidden(name)
    if hidden is not None:
        return hidden
    if name.endswith(SIDE_FILE_SUFFIX) and len(name) > len(SIDE_FILE_SUFFIX):
        return SideFile(name, name.removesuffix(SIDE_FILE_SUFFIX))
    match = _BUCKET.fullmatch(name)
    if match:
        numbers = _numbers(match)
        why = "its bucket or attempt number does not fit 32 bits"
        return BucketFile(name, *numbers) if numbers else Unrecognised(name, why)
    match = _ORIGINAL.fullmatch(name)
    if match:
        numbers = _numbers(match)
        why = "its bucket, attempt or copy number does not fit 32 bits"
        return OriginalFile(name, *numbers) if numbers else Unrecognised(name, why)
    return Unrecognised(name, "neither bucket_<id> nor <bucket>_<attempt>, so its bucket is not known")


def _numbers(match: re.Match[str]) -> list[Any]:
    """The numbers in a file's name, None for one that is not there; nothing where one does not fit 32 bits."""
    numbers = [None if text is None else parse_long(text) for text in match.groups()]
    fitting = [number for number in numbers if number is not None and number <= _MAX_INT]
    return numbers if len(fitting) == sum(text is not None for text in match.groups()) else []


def is_hidden(name: str) -> bool:
    """Whether readers pass over this name; adds Hive 4's temporary `-tmp.` and `-ext-` to the `_` and `.` of Hive.

    Hive 4 itself does not hide `-tmp.` (HIVE-27536), so a running insert shows through there; ours are hidden.
    """
    return name.startswith(_HIDING)


def has_hidden_part(path: str) -> bool:
    """Whether any part of a relative path is hidden."""
    return _HIDDEN_PART.search(path) is not None


_HIDING = ("_", ".", "-tmp.", "-ext-")
_HIDDEN_PART = re.compile(f"(?:^|/)(?:{'|'.join(map(re.escape, _HIDING))})")


def is_hidden_to_hive(name: str) -> bool:
    """Whether Hive's own filter (HIDDEN_FILES_PATH_FILTER) passes over this name."""
    return name.startswith(("_", "."))


def format_base(write_id: int, visibility_txn_id: int | None = None) -> str:
    """Name of a base directory as Hive writes it."""
    return f"{BASE_PREFIX}{write_id:07d}{_format_visibility(visibility_txn_id)}"


def must_hold_events(path: str) -> bool:
    """Whether the file at a path can hold nothing but ACID events, in a table that is not insert-only.

    In a base or delta Hive gives other names to files without ACID columns (LOAD DATA: `000000_0`); nothing else is in
    a delete delta.
    """
    directory, name = _placed(path)
    if isinstance(directory, DeltaDir) and directory.kind is DeltaKind.DELETE:
        return True
    return isinstance(directory, BaseDir | DeltaDir) and name.startswith(BUCKET_PREFIX)


def must_not_hold_events(path: str) -> bool:
    """Whether no Hive would read ACID events at a path: in a delta it looks for them in `bucket_*` only.

    Hive 2 forms the name of each bucket's file itself, Hive 3 and 4 list names of original files only where the first
    of these holds none (`AcidUtils.MetaDataFile.isRawFormat`). In a base every file is read. A bucket that is no number
    of 32 bits ends the query (`AcidUtils.parseBucketId`).
    """
    directory, name = _placed(path)
    return isinstance(directory, DeltaDir) and isinstance(parse_file(name), OriginalFile | Unrecognised)


def _placed(path: str) -> tuple[ParsedDirectory | None, str]:
    """The directory that a file belongs to, and its name."""
    *parents, name = path.split("/")
    while parents and parents[-1].startswith(UNION_SUBDIRECTORY):
        parents.pop()
    return parse_directory(parents[-1]) if parents else None, name


def format_delta(
    kind: DeltaKind,
    min_write_id: int,
    max_write_id: int,
    statement_id: int | None = None,
    visibility_txn_id: int | None = None,
) -> str:
    """Name of a delta or delete delta directory as Hive writes it."""
    statement = "" if statement_id is None else f"_{statement_id:04d}"
    visibility = _format_visibility(visibility_txn_id)
    return f"{kind.value}_{min_write_id:07d}_{max_write_id:07d}{statement}{visibility}"


def format_bucket_file(bucket_id: int, attempt_id: int | None = None) -> str:
    """Name of a bucket file as Hive writes it."""
    return f"{BUCKET_PREFIX}{bucket_id:05d}" + ("" if attempt_id is None else f"_{attempt_id}")


@lru_cache(maxsize=1 << 14)
def path_order_key(path: str) -> bytes:
    """Sort key that orders paths as Hive orders original files (Path.compareTo, thus URI.compareTo).

    The order gives original rows their row ids: changing it changes which rows stored deletes hit. Java compares the
    percent-encoded path by UTF-16 code units, so `a b` sorts as `a%20b` and `000000_0_copy_10` before `_copy_2`.
    """
    if _PLAIN_PATH.fullmatch(path):
        return path.encode("utf-16-be")
    return "".join(_uri_quote(c) for c in path).encode("utf-16-be", "surrogatepass")


# The characters java.net.URI leaves alone in a path; `%` is not among them, so it becomes %25.
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_\-!.~'()*/;:@&=+$,]*")


def _uri_quote(char: str) -> str:
    if _PLAIN_PATH.fullmatch(char) or (ord(char) >= 0xA0 and not char.isspace()):
        return char
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))


_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


def unescape_partition_value(text: str) -> str | None:
    """Partition value of the text behind `=` in a folder name; None for Hive's default partition.

    A `%` that two hexadecimal digits do not follow stands for itself.
    """
    if text == DEFAULT_PARTITION:
        return None
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def parse_partition_folder(name: str) -> tuple[str, str | None] | None:
    """Key and value of one `key=value` folder, None if the name is no partition folder."""
    key, equals, value = name.partition("=")
    if not equals or not key or is_hidden(name):
        return None
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), key), unescape_partition_value(value)


def parse_partition(text: str) -> tuple[tuple[str, str | None], ...]:
    """Keys and values of a partition path such as `ds=2026-01-01/hr=7`; `UsageError` if a part is not key=value."""
    parts = []
    for folder in text.strip("/").split("/") if text.strip("/") else []:
        part = parse_partition_folder(folder)
        if part is None:
            raise UsageError(
                f"'{folder}' in partition '{text}' is not of the form key=value",
                hint="Write a partition as it is on disk, for example ds=2026-01-01/hr=7.",
            )
        parts.append(part)
    return tuple(parts)


def _hidden(name: str) -> HiddenName | None:
    if not is_hidden(name):
        return None
    return next(HiddenName(name, reason) for prefix, reason in _HIDDEN_REASONS if name.startswith(prefix))


def _parse_base(name: str) -> BaseDir | Unrecognised:
    try:
        number, visibility = _split_visibility(name, BASE_PREFIX)
        return BaseDir(name, _parsed(number, "a write id", "a base is named base_<write id>"), visibility)
    except ValueError as error:
        return Unrecognised(name, str(error))


def _parse_delta(name: str, prefix: str, kind: DeltaKind) -> DeltaDir | Unrecognised:
    shape = f"a delta is named {prefix}<first>_<last>[_<statement>]"
    try:
        numbers, visibility = _split_visibility(name, prefix)
        low, separator, rest = numbers.partition("_")
        if not separator:
            return Unrecognised(name, f"it has one number only; {shape}")
        high, separator, text = rest.partition("_")
        write_ids = _parsed(low, "a write id", shape), _parsed(high, "a write id", shape)
        statement = _parsed(text, "a statement id", shape, most=_MAX_INT) if separator else -1
    except ValueError as error:
        return Unrecognised(name, str(error))
    # Hive keeps "none" as -1, so a literal negative statement id means none.
    return DeltaDir(name, kind, *write_ids, None if statement < 0 else statement, visibility)


def _split_visibility(name: str, prefix: str) -> tuple[str, int | None]:
    """Numbers before the FIRST `_v`, and the visibility txn behind it (None for 0)."""
    # Hive searches the whole name; no prefix contains `_v`, so searching behind it is the same. Without digits
    # before it (`base__v5`, or the `_` of the prefix itself in `base_v5`), Hive fails as well.
    numbers, separator, text = name[len(prefix) :].partition("_v")
    visibility = parse_long(text) if separator else 0
    if visibility is None:
        raise ValueError(f"{_quoted(text)} behind _v is not a transaction id")
    return numbers, visibility if visibility > 0 else None


def _parsed(text: str, what: str, shape: str, most: int = MAX_LONG) -> int:
    value = parse_long(text)
    if value is None or not -most - 1 <= value <= most:
        raise ValueError(f"{_quoted(text)} is not {what}; {shape}")
    return value


def _format_visibility(visibility_txn_id: int | None) -> str:
    return f"_v{visibility_txn_id:07d}" if visibility_txn_id else ""


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...") if text else "an empty text"


def same_table(first: str, second: str) -> bool:
    """Whether two names can mean one table: catalog and database count only where both have them."""
    pairs = zip(reversed(first.lower().split(".")), reversed(second.lower().split(".")), strict=False)
    return all(one == other for one, other in pairs)


# --- The columns of an ACID file by name, apart from `events` so that counting rows needs no Arrow.


#: Top-level field names of an ACID file, in file order (Hive: `OrcRecordUpdater.ALL_ACID_ROW_NAMES`).
EVENT_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
#: The fields that say which row an event concerns and who wrote it.
KEY_FIELDS = EVENT_FIELDS[:5]
