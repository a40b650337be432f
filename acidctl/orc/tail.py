"""The tail of an ORC file: read without any ORC library and checked before anything trusts it.

`read_tail` takes an open file and returns a `Tail`: postscript, types, stripes, statistics, user metadata,
writer and calendar. The C++ readers would crash on some false tails and loop on others:
every length, offset, count and type reference is checked here against the file's real length, and whatever is
wrong becomes one DamagedDataError. pyarrow is imported only where the compression needs it, so that row
counts come quickly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Protocol, TypeGuard, overload

from acidctl.errors import AcidctlError, DamagedDataError, StorageError
from acidctl.format.names import EVENT_FIELDS
from acidctl.format.write_ids import on_one_line
from acidctl.orc.codec import MAX_BLOCK_SIZE, CodecError, Compression, expand
from acidctl.orc.protobuf import Budget, Message, WireError
from acidctl.orc.stats import ColumnStatistics, parse_statistics
from acidctl.phases import phase
from acidctl.types.hive_types import (
    Field,
    HiveType,
    ListType,
    MapType,
    Primitive,
    StructType,
    TypeKind,
    UnionType,
)
from acidctl.values import dataclass

MAGIC = b"ORC"
_FIRST_READ = 16 * 1024
# What is fetched at once from a server, where a second request costs more than bytes: enough for most tails.
_FIRST_FETCH = 64 * 1024
_DEFAULT_BLOCK_SIZE = 256 * 1024
_MAX_FOOTER = 64 << 20
_MAX_TYPES = 50_000
_MAX_STRIPES = 100_000
_MAX_USER_METADATA = 16 << 20
_MAX_USER_KEYS = 10_000
_MAX_NESTING = 100
_MAX_STRIPE_ROWS = 1 << 32
# Statistics of so few bytes are kept for the next file that has the same ones.
_SHORT = 64
# The writer version of the ORC that Hive 3 carries; it writes proleptic dates and does not say so.
_ORC_517 = 7
RESTORE_HINT = "Restore the file from its source; dump other files of the directory to see what else is affected."
_EMPTY_HINT = "Usually left by a crashed writer; Hive ignores empty files in insert-only tables."
_OPEN_HINT = "If a crashed writer left it open on HDFS, run `hdfs debug recoverLease`; otherwise restore it."
# How files of other formats begin.
_FORMATS = {b"PAR1": "a Parquet file", b"Obj\x01": "an Avro file", b"SEQ\x06": "a sequence file"}


class ReadableFile(Protocol):
    """What the ORC layer asks of an open file."""

    def read(self, size: int = -1, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...

    def tell(self) -> int: ...


class FetchingFile(ReadableFile, Protocol):
    """A file on a server that fetches (offset, length) ranges which are announced, before they are read."""

    def prefetch(self, ranges: Iterable[tuple[int, int]], /) -> None: ...


def can_fetch(file: ReadableFile) -> TypeGuard[FetchingFile]:
    """Whether announcing reads to the file does anything."""
    return hasattr(file, "prefetch")


class OrcKind(IntEnum):
    """Type kinds of the file format."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18

    # That of Enum is a call of Python's, and each column of each file is looked up by it.
    __hash__ = int.__hash__


PRIMITIVES = {
    OrcKind.BOOLEAN: TypeKind.BOOLEAN,
    OrcKind.BYTE: TypeKind.TINYINT,
    OrcKind.SHORT: TypeKind.SMALLINT,
    OrcKind.INT: TypeKind.INT,
    OrcKind.LONG: TypeKind.BIGINT,
    OrcKind.FLOAT: TypeKind.FLOAT,
    OrcKind.DOUBLE: TypeKind.DOUBLE,
    OrcKind.STRING: TypeKind.STRING,
    OrcKind.BINARY: TypeKind.BINARY,
    OrcKind.TIMESTAMP: TypeKind.TIMESTAMP,
    OrcKind.DATE: TypeKind.DATE,
    OrcKind.TIMESTAMP_INSTANT: TypeKind.TIMESTAMP_LOCAL,
}


class Calendar(IntEnum):
    """ORC's CalendarKind; UNKNOWN is what writers before ORC 1.6 leave."""

    UNKNOWN = 0
    JULIAN_GREGORIAN = 1
    PROLEPTIC_GREGORIAN = 2


class Writer(IntEnum):
    """Who wrote the file; a code that is not listed reads as UNKNOWN."""

    ORC_JAVA = 0
    ORC_CPP = 1
    PRESTO = 2
    SCRITCHLEY_GO = 3
    TRINO = 4
    CUDF = 5
    UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class PostScript:
    """The last section; lengths in bytes, `length` its own without the byte that says it."""

    length: int
    footer_length: int
    metadata_length: int
    stripe_statistics_length: int
    compression: Compression
    block_size: int
    version: tuple[int, ...]
    writer_version: int


@dataclass(frozen=True, slots=True)
class Stripe:
    """Where a stripe lies: index, data and footer follow one another from `offset`."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int

    @property
    def end(self) -> int:
        return self.offset + self.index_length + self.data_length + self.footer_length


@dataclass(frozen=True, slots=True)
class OrcType:
    """One entry of the flattened type tree; its place in `Tail.types` is the column id."""

    kind: OrcKind
    subtypes: tuple[int, ...]
    names: tuple[str, ...]
    max_length: int | None
    precision: int | None
    scale: int | None
    attributes: tuple[tuple[str, str], ...]


class TypeTree(tuple[OrcType, ...]):
    """The flattened type tree, beside what follows from it: made once for all files that declare the same one."""

    @cached_property
    def hive_type(self) -> HiveType:
        """As a Hive type."""
        return _hive_type(self, 0)

    @cached_property
    def offered(self) -> dict[tuple[frozenset[int], bool], list[bytes]]:
        """Encoded forms of it that `tail_edit` keeps here."""
        return {}

    @cached_property
    def events(self) -> StructType | None:
        """The columns of an event under their usual names, where they are its: query-based compaction writes lower
        case.
        """
        names = self[0].names
        if tuple(self[child].kind for child in self[0].subtypes) != _KINDS or (
            names != EVENT_FIELDS and tuple(name.lower() for name in names) != _NAMES
        ):
            return None
        schema = self.hive_type
        assert isinstance(schema, StructType)
        fields = zip(EVENT_FIELDS, schema.fields, strict=True)
        return StructType(tuple(Field(name, field.type) for name, field in fields))


@dataclass(frozen=True, slots=True)
class Tail:
    """Everything that the end of an ORC file says; `file_length` is the logical length it was read at."""

    name: str
    file_length: int
    postscript: PostScript
    types: TypeTree
    stripes: tuple[Stripe, ...]
    rows: int
    row_index_stride: int
    statistics: Sequence[ColumnStatistics]
    user_metadata: tuple[tuple[str, bytes], ...]
    writer: Writer
    writer_code: int
    software_version: str | None
    calendar: Calendar
    encrypted: bool
    footer: bytes = field(repr=False, compare=False)

    @property
    def is_hybrid(self) -> bool:
        """Whether days before 1582-10-15 are counted in the Julian calendar.

        Files of Hive 4 say so. Unmarked ones are proleptic, except those of the Java writer of Hive 2 and before (ORC
        before 1.5).
        """
        if self.calendar is not Calendar.UNKNOWN:
            return self.calendar is Calendar.JULIAN_GREGORIAN
        return self.writer is Writer.ORC_JAVA and self.postscript.writer_version < _ORC_517

    def hive_type(self, column: int = 0) -> HiveType:
        """The type at a column id as a Hive type."""
        return _hive_type(self.types, column) if column else self.types.hive_type

    def metadata_value(self, key: str) -> bytes | None:
        """The value of a user metadata key, or None."""
        return next((value for name, value in self.user_metadata if name == key), None)


@lru_cache(maxsize=256)
def _short_statistics(encoded: bytes) -> ColumnStatistics:
    """Those of key columns are mostly the same in many files, and in several columns of a file; those of a small file
    are the same as those of its stripe and of its row group.
    """
    return parse_statistics(Message(encoded))


def column_statistics(encoded: bytes, budget: Budget) -> ColumnStatistics:
    """Of a column, as they are stored; short ones are the same object each time. WireError when malformed."""
    return _short_statistics(encoded) if len(encoded) <= _SHORT else parse_statistics(Message(encoded, budget))


class Statistics(Sequence[ColumnStatistics]):
    """Statistics of all columns, each taken apart when it is asked for: who counts rows needs those of keys alone."""

    __slots__ = ("_budget", "_encoded", "_known", "_name")

    def __init__(self, name: str, encoded: tuple[bytes, ...], budget: Budget) -> None:
        self._name = name
        self._encoded = encoded
        self._budget = budget
        self._known: dict[int, ColumnStatistics] = {}

    def __len__(self) -> int:
        return len(self._encoded)

    @overload
    def __getitem__(self, column: int) -> ColumnStatistics: ...

    @overload
    def __getitem__(self, column: slice) -> tuple[ColumnStatistics, ...]: ...

    def __getitem__(self, column: int | slice) -> ColumnStatistics | tuple[ColumnStatistics, ...]:
        if isinstance(column, slice):
            return tuple(self[place] for place in range(*column.indices(len(self))))
        found = self._known.get(column)
        if found is None:
            try:
                found = self._known[column] = column_statistics(self._encoded[column], self._budget)
            except WireError as error:
                raise damaged(self._name, f"has damaged statistics of column {column}: {error}") from error
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def _hive_type(types: TypeTree, column: int) -> HiveType:
    entry = types[column]
    inner = [_hive_type(types, child) for child in entry.subtypes]
    match entry.kind:
        case OrcKind.STRUCT:
            return StructType(tuple(Field(name, kind) for name, kind in zip(entry.names, inner, strict=True)))
        case OrcKind.LIST:
            return ListType(inner[0])
        case OrcKind.MAP:
            return MapType(inner[0], inner[1])
        case OrcKind.UNION:
            return UnionType(tuple(inner))
        case OrcKind.DECIMAL:
            # Files of Hive 0.11 carry neither; ORC's own defaults stand in.
            scale = 10 if entry.scale is None and not entry.precision else entry.scale or 0
            return Primitive(TypeKind.DECIMAL, precision=entry.precision or 38, scale=scale)
        case OrcKind.CHAR:
            return Primitive(TypeKind.CHAR, length=entry.max_length or 255)
        case OrcKind.VARCHAR:
            return Primitive(TypeKind.VARCHAR, length=entry.max_length or 65535)
    return Primitive(PRIMITIVES[entry.kind])


def read_tail(file: ReadableFile, *, name: str, length: int | None = None) -> Tail:
    """Read and check the tail that ends at `length` (default: the end of the file).

    Raises DamagedDataError for whatever the bytes say, StorageError when they cannot be read.
    """
    try:
        file.seek(0, 2)
        size = file.tell()
    except OSError as error:
        raise StorageError(f"cannot read {name}: {error}", path=name) from error
    end = size if length is None else length
    if end > size:
        raise damaged(name, f"has {size} bytes, but its side file gives a length of {end}", _OPEN_HINT)
    if end == 0:
        raise damaged(name, "is empty (0 bytes), so it is not an ORC file", _EMPTY_HINT)
    if can_fetch(file):
        file.prefetch([(end - min(end, _FIRST_FETCH), min(end, _FIRST_FETCH))])
    window = read_range(file, end - min(end, _FIRST_READ), min(end, _FIRST_READ), name)
    try:
        post = _postscript(window, end)
    except (WireError, CodecError) as error:
        raise _explain(file, name, end, str(error)) from error
    try:
        return _parse_footer(file, name, end, window, post)
    except (WireError, CodecError) as error:
        raise damaged(name, f"has a damaged tail: {error}") from error


def readable_tail(file: ReadableFile, *, name: str, length: int | None = None) -> Tail:
    """As `read_tail`, of a file whose rows acidctl can read; DamagedDataError for another."""
    with phase("footers"):
        tail = read_tail(file, name=name, length=length)
    if tail.types[0].kind is not OrcKind.STRUCT:
        raise damaged(name, f"holds bare values of type {tail.hive_type()} instead of columns")
    if tail.encrypted:
        what = "has encrypted columns, which acidctl cannot read"
        raise damaged(name, what, "Read it with Hive, which can have the keys.")
    if tail.postscript.compression is Compression.LZO:
        what = "is compressed with LZO, which acidctl cannot read"
        raise damaged(name, what, "Rewrite the table with another orc.compress.")
    return tail


def read_range(file: ReadableFile, offset: int, size: int, name: str) -> bytes:
    """Exactly `size` bytes from `offset`; DamagedDataError when the file ends before, StorageError on refusal."""
    parts: list[bytes] = []
    missing = size
    try:
        file.seek(offset)
        while missing:
            part = file.read(missing)
            if not part:
                raise damaged(name, f"ends at byte {offset + size - missing}, {missing} bytes too early")
            parts.append(part)
            missing -= len(part)
    except AcidctlError:
        raise
    except (OSError, ValueError) as error:
        # ValueError is Python's answer when the file has been closed.
        raise StorageError(f"cannot read {name}: {error}", path=name) from error
    return b"".join(parts)


def read_section(file: ReadableFile, tail: Tail, offset: int, size: int, limit: int) -> bytes:
    """The plain bytes of a section or stream; raises as `read_range`, CodecError when they are more than `limit`."""
    raw = read_range(file, offset, size, tail.name)
    return expand(raw, tail.postscript.compression, tail.postscript.block_size, limit)


def damaged(name: str, what: str, hint: str = RESTORE_HINT) -> DamagedDataError:
    """The error of this layer: a sentence that begins with the file's name."""
    return DamagedDataError(f"{name} {what}", path=name, hint=hint)


def _explain(file: ReadableFile, name: str, end: int, why: str) -> DamagedDataError:
    """Tell a truncated ORC file from a file of another kind."""
    head = read_range(file, 0, min(end, 4), name)
    if not head.startswith(MAGIC):
        looks = f"looks like {_FORMATS[head]}" if head in _FORMATS else f"begins with {head!r}"
        return DamagedDataError(
            f"{name} is not an ORC file (it {looks})",
            path=name,
            hint="`dump` reads ORC; `snapshot` reads insert-only tables of some other formats too.",
        )
    return damaged(name, f"is truncated or its footer is damaged: {why}")


def _parse_footer(file: ReadableFile, name: str, end: int, window: bytes, post: PostScript) -> Tail:
    after = post.length + 1
    wanted = post.footer_length + after
    if wanted > len(window):
        if post.footer_length > _MAX_FOOTER:
            raise CodecError("its footer is too large")
        window = read_range(file, end - wanted, wanted - len(window), name) + window
    raw = window[len(window) - wanted : len(window) - after]
    footer_bytes = expand(raw, post.compression, post.block_size, _MAX_FOOTER)
    budget = Budget(len(raw))
    footer = Message(footer_bytes, budget)
    # Numbers that no writer makes are refused before anything is built from them.
    if footer.count(3) > _MAX_STRIPES:
        raise WireError(f"it lists {footer.count(3)} stripes")
    if not 0 < footer.count(4) <= _MAX_TYPES:
        raise WireError(f"it declares {footer.count(4)} types")
    if footer.count(5) > _MAX_USER_KEYS or sum(map(len, footer.blobs(5))) > _MAX_USER_METADATA:
        raise WireError("its user metadata is too large")
    types = _types(footer.blobs(4))
    stripes = tuple(Stripe(*numbers) for numbers in footer.numbers_of(3, 5))
    rows, stride, code, calendar = footer.numbers(6, 8, 9, 11)
    content_end = end - after - post.footer_length - post.metadata_length - post.stripe_statistics_length
    _check_stripes(stripes, rows, content_end)
    if footer.count(7) not in (0, len(types)):
        raise WireError(f"it has statistics of {footer.count(7)} columns and types of {len(types)}")
    statistics = Statistics(name, footer.blobs(7), budget)
    # Hive's compactor and streaming writers leave row indexes out, and then count nothing at all.
    if statistics and stride and statistics[0].count not in (None, rows):
        raise WireError(f"its statistics count {statistics[0].count} rows, and it promises {rows}")
    return Tail(
        name=name,
        file_length=end,
        postscript=post,
        types=types,
        stripes=stripes,
        rows=rows,
        row_index_stride=stride,
        statistics=statistics,
        user_metadata=tuple(map(_item, footer.blobs(5))),
        writer=Writer(code) if code <= Writer.CUDF else Writer.UNKNOWN,
        writer_code=code,
        software_version=footer.text(12),
        calendar=Calendar(calendar) if calendar <= Calendar.PROLEPTIC_GREGORIAN else Calendar.UNKNOWN,
        encrypted=10 in footer,
        footer=footer_bytes,
    )


def _postscript(window: bytes, end: int) -> PostScript:
    length = window[-1]
    if length == 0 or length + 1 > len(window):
        raise WireError("its last byte is not the length of a postscript")
    post = _parsed_postscript(window[-1 - length : -1])
    if post.footer_length + post.metadata_length + post.stripe_statistics_length + length + 1 > end:
        raise WireError("its last sections are longer than the file")
    return post


@lru_cache(maxsize=256)
def _parsed_postscript(encoded: bytes) -> PostScript:
    """Small files of a table share a few."""
    message = Message(encoded)
    if message.data(8000) != MAGIC:
        raise WireError("its postscript does not end in the letters ORC")
    footer_length, code, metadata_length, writer_version, statistics_length = message.numbers(1, 2, 5, 6, 7)
    if code > Compression.BROTLI:
        raise CodecError(f"compression number {code} is unknown")
    block_size = message.uint(3)
    block_size = _DEFAULT_BLOCK_SIZE if block_size is None else block_size
    if code and not 0 < block_size <= MAX_BLOCK_SIZE:
        raise CodecError(f"compression blocks of {block_size} bytes are impossible")
    return PostScript(
        length=len(encoded),
        footer_length=footer_length,
        metadata_length=metadata_length,
        stripe_statistics_length=statistics_length,
        compression=Compression(code),
        block_size=block_size,
        version=message.uints(4),
        writer_version=writer_version,
    )


def _check_stripes(stripes: tuple[Stripe, ...], rows: int, content_end: int) -> None:
    """Stripes lie in file order, inside the content and apart, and their rows add up."""
    at = 0
    for i, stripe in enumerate(stripes):
        if stripe.offset < at or stripe.end > content_end:
            raise WireError(f"stripe {i} does not lie where stripes can lie")
        if not stripe.footer_length:
            raise WireError(f"stripe {i} has no footer")
        if stripe.rows > _MAX_STRIPE_ROWS:
            raise WireError(f"stripe {i} claims {stripe.rows} rows")
        at = stripe.end
    total = sum(stripe.rows for stripe in stripes)
    if total != rows:
        raise WireError(f"its stripes hold {total} rows, its footer gives {rows}")


@lru_cache(maxsize=16)
def _types(declared: tuple[bytes, ...]) -> TypeTree:
    """The type tree, checked; the files of a table mostly declare the same one."""
    types = []
    budget = Budget(_MAX_TYPES)
    for i, message in enumerate(Message(data, budget) for data in declared):
        code = message.uint(1) or 0
        if code > OrcKind.TIMESTAMP_INSTANT:
            raise WireError(f"column {i} has type number {code}, which is unknown")
        names = tuple(name.decode("utf-8", "replace") for name in message.blobs(3))
        length, precision, scale = (message.uint(field) for field in (4, 5, 6))
        attributes = tuple((item.text(1) or "", item.text(2) or "") for item in message.messages(7))
        types.append(OrcType(OrcKind(code), message.uints(2), names, length, precision, scale, attributes))
    _check_types(types)
    return TypeTree(types)


@lru_cache(maxsize=64)
def _item(encoded: bytes) -> tuple[str, bytes]:
    """Key and value of user metadata; files of a table have most of them in common."""
    item = Message(encoded)
    return item.text(1) or "", item.data(2) or b""


_ARITY = {OrcKind.LIST: 1, OrcKind.MAP: 2}


def _check_types(types: Sequence[OrcType]) -> None:
    """The types form one tree, numbered in preorder as every writer numbers it, and not too deep."""
    depth = [0] * len(types)
    # The column ids that still have to appear, next first: in preorder each type is the next child of its
    # parent.
    expected: list[int] = []
    for i, entry in enumerate(types):
        if i and (not expected or expected.pop() != i):
            raise WireError(f"column {i} has no place in the type tree")
        arity = _ARITY.get(entry.kind)
        if entry.kind in (OrcKind.STRUCT, OrcKind.UNION):
            arity = len(entry.subtypes)
        if len(entry.subtypes) != (arity or 0):
            raise WireError(f"column {i} has {len(entry.subtypes)} children")
        if entry.kind is OrcKind.STRUCT and len(entry.names) != len(entry.subtypes):
            raise WireError(f"column {i} has {len(entry.names)} names for {len(entry.subtypes)} fields")
        if entry.kind is OrcKind.UNION and not 0 < len(entry.subtypes) <= 127:
            raise WireError(f"column {i} is a union of {len(entry.subtypes)} types")
        precision, scale = entry.precision or 0, entry.scale or 0
        if entry.kind is OrcKind.DECIMAL and (precision > 38 or scale > (precision or 38)):
            raise WireError(f"column {i} is decimal({precision},{scale})")
        if entry.kind in (OrcKind.CHAR, OrcKind.VARCHAR) and (entry.max_length or 0) > (1 << 31) - 1:
            raise WireError(f"column {i} has the length {entry.max_length}")
        previous = i
        for child in entry.subtypes:
            if not previous < child < len(types):
                raise WireError(f"column {i} refers to column {child}")
            depth[child] = depth[i] + 1
            previous = child
        if depth[i] > _MAX_NESTING:
            raise WireError("its types are nested too deeply")
        expected.extend(reversed(entry.subtypes))
    if expected:
        raise WireError("its type tree is incomplete")


# --- Whether a file holds ACID events: by its columns, and by all else that must agree with them.
#
# One wrong letter in the name of a column would make a file of events one of plain rows, with other values under every
# column. So whatever says "events" beside the columns is asked too, and where they differ the file is damaged.


_KINDS = (OrcKind.INT, OrcKind.LONG, OrcKind.INT, OrcKind.LONG, OrcKind.LONG, OrcKind.STRUCT)
_NAMES = tuple(name.lower() for name in EVENT_FIELDS)
_METADATA = "hive.acid."
# How many of the columns' names a message shows, and how much of each.
_SHOWN, _SHOWN_LETTERS = 6, 40


def is_acid(tail: Tail) -> bool:
    """Whether the columns are those of an event, ignoring case."""
    return tail.types.events is not None


def shape_damage(tail: Tail, *, events: bool = False, rows: bool = False) -> DamagedDataError | None:
    """What is wrong with a file that is one of events by some signs and not by its columns, or not by its place.

    `events` says that its place allows nothing else (`names.must_hold_events`), `rows` that it allows no events
    (`names.must_not_hold_events`). The types of an event alone prove nothing, a user's table may have the same ones;
    with a name of an event among the columns they do.
    """
    if is_acid(tail):
        if rows and tail.rows:
            what = "holds ACID events, but Hive does not read files of this name in a delta"
            return damaged(tail.name, what, "Rename the file back to bucket_ and its bucket in five digits.")
        return None
    key = next((key for key, _ in tail.user_metadata if key.startswith(_METADATA)), None)
    names = _names(tail)
    if key is not None:
        sign = f"it has the user metadata '{_shown(key)}'"
    elif names == _NAMES:
        sign = "its columns have the names of an event"
    elif _kinds(tail) == _KINDS and any(a == b for a, b in zip(names, _NAMES, strict=True)):
        sign = "its columns have the types of an event"
    elif events and (tail.rows or names):
        sign = "its name says so"
    else:
        return None
    shown = ", ".join(_shown(name) for name in tail.types[0].names[:_SHOWN])
    more = ", ..." if len(names) > _SHOWN else ""
    return damaged(tail.name, f"should hold ACID events, since {sign}, but its columns do not fit: ({shown}{more})")


def check_shape(tail: Tail, *, events: bool = False, rows: bool = False) -> Tail:
    """The tail; raises what `shape_damage` finds."""
    error = shape_damage(tail, events=events, rows=rows)
    if error is not None:
        raise error
    return tail


def _names(tail: Tail) -> tuple[str, ...]:
    return tuple(name.lower() for name in tail.types[0].names)


def _kinds(tail: Tail) -> tuple[OrcKind, ...]:
    return tuple(tail.types[child].kind for child in tail.types[0].subtypes)


def _shown(name: str) -> str:
    """A name out of a file for a message: not the whole of a long one, and on one line."""
    return on_one_line(name[:_SHOWN_LETTERS])
