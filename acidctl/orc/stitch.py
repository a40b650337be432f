"""Files put together of stripes: of other files, byte for byte, and of rows that are written anew in between.

A stripe knows nothing of its place or its file, so stripes of one schema, codec and layout can stand in one file at the
price of reading and writing their bytes; only the tail is made anew. What files and stripes have to agree in is what
`OrcFile.mergeFiles` asks for in ORC's own library, and some more: whose claims (writer, version) hold for all of them,
that there are statistics of each stripe, and that days and moments mean the same under the tail's calendar and zone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import BinaryIO

import numpy as np

from acidctl.errors import InternalError
from acidctl.format.events import EventBatch, EventKeys, RowId, keys_of
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.acidmeta import ACID_STATS, KEY_INDEX, parse_acid_stats, parse_key_index
from acidctl.orc.arrow_writer import Physical
from acidctl.orc.calendar import SWITCH_DAY, is_utc
from acidctl.orc.codec import Compression
from acidctl.orc.protobuf import Message, Value, encoded, rewritten
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.stats import StatisticsKind, merged_statistics, parse_statistics
from acidctl.orc.stripe import StreamKind, StripeFooter, encoded_statistics
from acidctl.orc.tail import (
    MAGIC,
    Calendar,
    OrcKind,
    OrcType,
    ReadableFile,
    Tail,
    Writer,
    read_range,
    read_tail,
)
from acidctl.orc.tail_edit import (
    CALENDAR,
    CONTENT_LENGTH,
    METADATA,
    ROWS,
    STATISTICS,
    STRIPES,
    TYPES,
    encode_type,
    merged_metadata,
    sealed,
    write_all,
)
from acidctl.orc.writer import Backend, Settings, WrittenFile, index_of, write_stripes
from acidctl.types.hive_types import StructType
from acidctl.values import dataclass

# What is read at a time: of streams that are hashed, and of two files that are compared, where no more than that is to
# be mapped anew each time.
_CHUNK, _COMPARED = 4 << 20, 64 << 10


# --- What keeps a stripe out of a file.


class Obstacle(Enum):
    """Why a stripe is not copied as it is into a file of a given form; the value is stable."""

    SCHEMA = "schema"
    COMPRESSION = "compression"
    BLOCK_SIZE = "block_size"
    VERSION = "version"
    WRITER = "writer"
    STRIDE = "stride"
    STATISTICS = "statistics"
    BLOOM_FILTERS = "bloom_filters"
    TIME_ZONE = "time_zone"
    CALENDAR = "calendar"
    ENCRYPTION = "encryption"


# ORC 0.12, which is what all writers since Hive 0.12 write.
_VERSION = (0, 12)
# From here on (ORC-135) bounds of timestamps are those of UTC; what later versions promise, decimals that are bounded
# rightly (ORC-517) and texts whose bounds are cut with notice (ORC-203), holds for our own stripes too.
_ORC_135 = 6
_LAST_KNOWN = 9
_DAY_MS = 86_400_000
_BLOCK_UNIT = 64 << 10


def obstacle_of_file(tail: Tail, types: Sequence[OrcType], physical: Physical) -> Obstacle | None:
    """Why no stripe of a file can be copied into one of these columns and this form."""
    post = tail.postscript
    if tail.encrypted:
        return Obstacle.ENCRYPTION
    # The names of an event's own fields are in lower case where Hive's query-based compactor wrote them.
    first = (tail.types[0].names, types[0].names)
    if tail.types[1:] != tuple(types[1:]) or [n.lower() for n in first[0]] != [n.lower() for n in first[1]]:
        return Obstacle.SCHEMA
    if post.compression is not physical.compression:
        return Obstacle.COMPRESSION
    # A reader has room for chunks as large as the tail says; smaller ones do not matter.
    if post.compression is not Compression.NONE and post.block_size > physical.block_size:
        return Obstacle.BLOCK_SIZE
    if post.version != _VERSION:
        return Obstacle.VERSION
    known = _ORC_135 <= post.writer_version <= _LAST_KNOWN
    if tail.writer not in (Writer.ORC_JAVA, Writer.ORC_CPP) or not known:
        return Obstacle.WRITER
    if tail.row_index_stride != physical.row_index_stride:
        return Obstacle.STRIDE
    return Obstacle.STATISTICS if len(tail.statistics) != len(tail.types) else None


def form_of(tail: Tail) -> tuple[object, ...]:
    """All that `obstacle_of_file` looks at; hashable."""
    post, counted = tail.postscript, len(tail.statistics) == len(tail.types)
    form = post.compression, post.block_size, post.version, tail.row_index_stride, counted, tail.encrypted
    return tail.types, *form, *claims(tail)


def claims(tail: Tail) -> tuple[int, int]:
    """What the tail says for all stripes of a file: writer and its version."""
    return tail.writer_code, tail.postscript.writer_version


# Those of the libraries that write here, whose stripes may stand under any claims that are known.
_OWN_CLAIMS = (Writer.ORC_CPP.value, _ORC_135)


def obstacle_of_stripe(
    tail: Tail, index: int, footer: StripeFooter, statistics: bytes, physical: Physical
) -> Obstacle | None:
    """Why a stripe of a file that could be copied from cannot be copied itself; `statistics` are its own, encoded."""
    times = [i for i, entry in enumerate(tail.types) if entry.kind in (OrcKind.TIMESTAMP, OrcKind.DATE)]
    if not is_utc(footer.time_zone) and any(tail.types[i].kind is OrcKind.TIMESTAMP for i in times):
        return Obstacle.TIME_ZONE
    filters = {stream.column for stream in footer.streams if stream.kind is StreamKind.BLOOM_FILTER_UTF8}
    old = any(stream.kind is StreamKind.BLOOM_FILTER for stream in footer.streams)
    if filters != physical.bloom or old:
        return Obstacle.BLOOM_FILTERS
    if physical.row_index_stride and footer.stream(StreamKind.ROW_INDEX, 0) is None:
        return Obstacle.STRIDE
    columns = list(Message(statistics).messages(1))
    if len(columns) != len(tail.types) or columns[0].uint(1) != tail.stripes[index].rows:
        return Obstacle.STATISTICS
    if tail.is_hybrid and any(_may_be_old(columns[i]) for i in times):
        return Obstacle.CALENDAR
    return None


def _may_be_old(statistics: Message) -> bool:
    """Whether a date or moment may lie before the day since which both calendars agree."""
    known = parse_statistics(statistics)
    if known.count == 0:
        return False
    if days := known.of(StatisticsKind.DATE):
        return days.minimum is None or days.minimum < SWITCH_DAY
    moments = known.of(StatisticsKind.TIMESTAMP)
    # A day more, for whatever zone was meant.
    return moments is None or moments.minimum_utc is None or moments.minimum_utc < (SWITCH_DAY + 1) * _DAY_MS


# --- The file.


@dataclass(frozen=True, slots=True)
class StoredStripe:
    """A stripe of an open file, and its statistics as they are encoded there.

    Two are the same if their bytes are, how these are divided, compressed and indexed (`form`), and their statistics.
    """

    file: ReadableFile
    tail: Tail
    index: int
    statistics: bytes

    @property
    def form(self) -> bytes:
        """What the tail says of it, but where it lies."""
        stripe, tail = self.tail.stripes[self.index], self.tail
        numbers = stripe.index_length, stripe.data_length, stripe.footer_length, stripe.rows, tail.row_index_stride
        return repr((*numbers, tail.postscript.compression)).encode() + self.statistics

    def _chunks(self, size: int) -> Iterator[bytes]:
        stripe = self.tail.stripes[self.index]
        for start in range(stripe.offset, stripe.end, size):
            yield read_range(self.file, start, min(size, stripe.end - start), self.tail.name)

    def fingerprint(self, taken: Callable[[bytes], object] = lambda _: None) -> str:
        """A hash that stands for it where it is not read again; `taken` is given its bytes."""
        found = hashlib.sha256()
        for data in self._chunks(_CHUNK):
            found.update(data)
            taken(data)
        found.update(self.form)
        return found.hexdigest()

    def equals(self, other: StoredStripe, taken: Callable[[bytes], object] = lambda _: None) -> bool:
        """Whether the other one is the same, by all of its bytes; `taken` is given those that are."""
        if self.form != other.form:
            return False
        for data, same in zip(self._chunks(_COMPARED), other._chunks(_COMPARED), strict=True):
            if data != same:
                return False
            taken(data)
        return True


@dataclass(frozen=True, slots=True)
class _Placed:
    """A stripe in the new file: its entry in the footer, its statistics (empty: none), its last key and rows."""

    entry: bytes
    statistics: bytes
    end: RowId | None
    rows: int


class Stitcher:
    """One file, stripe by stripe in the order of its rows; `finish` makes the tail. The sink stays open.

    `like` is the tail whose claims, user metadata and unknown fields the new one takes over, `post` its postscript
    without the length byte. `types` and `block_size` replace its own; with `types` the calendar is the proleptic one.
    """

    def __init__(
        self,
        sink: BinaryIO,
        like: Tail,
        post: bytes,
        *,
        types: Sequence[OrcType] | None = None,
        block_size: int | None = None,
    ) -> None:
        self._sink = sink
        self._like = like
        self._post = post
        self._block_size = block_size or like.postscript.block_size
        self._changes: dict[int, Value] = {}
        if types is not None:
            self._changes = {TYPES: [encode_type(entry) for entry in types], CALENDAR: Calendar.PROLEPTIC_GREGORIAN}
        self._placed: list[_Placed] = []
        write_all(sink, MAGIC)
        self._at = len(MAGIC)

    @property
    def stripes(self) -> int:
        """How many stripes it has so far."""
        return len(self._placed)

    def copy(self, one: StoredStripe, end: RowId | None) -> str | None:
        """Append a stripe, whose last key is `end`; its fingerprint, of the bytes as they passed.

        None where a local file took them from another one itself (`storage.port.NewFile.take`).
        """
        stripe, fingerprint = one.tail.stripes[one.index], None
        take = getattr(self._sink, "take", None)
        if take is None or not take(one.file, stripe.offset, stripe.end - stripe.offset):
            fingerprint = one.fingerprint(partial(write_all, self._sink))
        lengths = {2: stripe.index_length, 3: stripe.data_length, 4: stripe.footer_length}
        entry = encoded({1: self._at, **lengths, 5: stripe.rows})
        self._placed.append(_Placed(entry, one.statistics, end, stripe.rows))
        self._at += stripe.end - stripe.offset
        return fingerprint

    def write(
        self, batches: Iterable[EventBatch], columns: StructType, settings: Settings, *, acid: bool, backend: Backend
    ) -> None:
        """Append events, or rows, as stripes of their own; raises as `write_orc`."""
        new = write_stripes(self._sink, batches, columns, settings, acid=acid, backend=backend)
        parts = zip(new.entries, new.statistics, new.ends, new.rows, strict=True)
        for entry, statistics, end, rows in parts:
            offset = self._at + (Message(entry).uint(1) or 0)
            self._placed.append(_Placed(rewritten(entry, {1: offset}), statistics, end, rows))
        self._at += new.length

    def finish(self, metadata: Mapping[str, bytes], backend: Backend = Backend.COPY) -> WrittenFile:
        """Write the tail; `metadata` is set beside that of `like`, and with counts of events the key index too."""
        ends = [one.end for one in self._placed if one.end is not None]
        values = dict(metadata)
        if ACID_STATS in values:
            if len(ends) < len(self._placed):
                raise InternalError(
                    f"{len(self._placed)} stripes are joined, and the last keys of {len(ends)} are known"
                )
            values[KEY_INDEX] = index_of(ends)
        rows = sum(one.rows for one in self._placed)
        known = all(one.statistics for one in self._placed)
        footer = rewritten(
            self._like.footer,
            {
                **self._changes,
                CONTENT_LENGTH: self._at,
                STRIPES: [one.entry for one in self._placed],
                METADATA: merged_metadata(self._like, values),
                ROWS: rows,
                STATISTICS: self._statistics() if known else [],
            },
        )
        # One stripe without statistics would shift those of all after it.
        section = encoded({1: [one.statistics for one in self._placed]}) if known else b""
        compression, post = self._like.postscript.compression, self._post
        if compression is not Compression.NONE:
            post = rewritten(post, {3: self._block_size})
        end = sealed(footer, post, compression, self._block_size, metadata=section)
        write_all(self._sink, end)
        return WrittenFile(rows, self._at + len(end), self.stripes, None, ends[-1] if ends else None, backend)

    def _statistics(self) -> list[bytes]:
        """The encoded statistics of all columns; nothing where they do not fit the types."""
        if not self._placed:
            return list(Message(self._like.footer).blobs(STATISTICS))
        parts = [list(Message(one.statistics).blobs(1)) for one in self._placed]
        if any(len(part) != len(self._like.types) for part in parts):
            return []
        return [merged_statistics(column) for column in zip(*parts, strict=True)]


def postscript_of(file: ReadableFile, tail: Tail) -> bytes:
    """The postscript of an open file, without its length byte."""
    length = tail.postscript.length
    return read_range(file, tail.file_length - length - 1, length, tail.name)


# --- Whole files, or parts of them, one after the other.


def stored_stripes(file: ReadableFile, tail: Tail) -> tuple[StoredStripe, ...]:
    """All stripes of an open file, without statistics where its writer left none."""
    statistics = encoded_statistics(file, tail) or (b"",) * len(tail.stripes)
    return tuple(StoredStripe(file, tail, index, one) for index, one in enumerate(statistics))


@dataclass(frozen=True, slots=True)
class StripeRun:
    """Stripes of an open file, in file order; `stripes` None means all.

    `keys` are the last keys of these stripes; None takes them from the file's key index, which then has to be right
    (that of a file that acidctl wrote is).
    """

    file: ReadableFile
    tail: Tail
    stripes: tuple[int, ...] | None = None
    keys: tuple[RowId, ...] | None = None

    @staticmethod
    def whole(file: ReadableFile, *, name: str) -> StripeRun:
        """All stripes of an open file; raises what `read_tail` raises."""
        return StripeRun(file, read_tail(file, name=name))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the stripes."""
        return tuple(range(len(self.tail.stripes))) if self.stripes is None else self.stripes

    @property
    def is_whole(self) -> bool:
        return len(self.numbers) == len(self.tail.stripes)

    @property
    def rows(self) -> int:
        """Rows of these stripes."""
        return sum(self.tail.stripes[i].rows for i in self.numbers)


def like_of(tails: Sequence[Tail]) -> int:
    """Which of some files says what holds for the stripes of all, if they fit together at all."""
    return next((i for i, tail in enumerate(tails) if claims(tail) != _OWN_CLAIMS), 0)


def mismatch(one: Tail, other: Tail) -> str | None:
    """Why stripes of two files cannot stand in one, as the end of a sentence; None when they can."""
    first, second = one.postscript, other.postscript
    if one.types != other.types:
        return "have different columns"
    if first.compression is not second.compression or first.block_size != second.block_size:
        return "are compressed differently"
    if one.calendar is not other.calendar:
        return "count days by different calendars"
    same = claims(one) == claims(other) or _OWN_CLAIMS in (claims(one), claims(other))
    if not same or first.version != second.version:
        return "come from different writers"
    if one.row_index_stride != other.row_index_stride:
        return "have row indexes of different strides"
    return "are encrypted" if one.encrypted or other.encrypted else None


def stitch(sink: BinaryIO, runs: Sequence[StripeRun], *, metadata: Mapping[str, bytes] | None = None) -> WrittenFile:
    """Write one file of all stripes of `runs`, of which there is at least one; the sink stays open.

    The user metadata is that of one of the files, with `metadata` set; key index and ACID statistics are joined. Rows
    have to be in order already. Raises InternalError for files that do not fit (`mismatch`), DamagedDataError for
    what cannot be read.
    """
    base = runs[like_of([run.tail for run in runs])].tail
    for run in runs:
        if why := mismatch(base, run.tail):
            raise InternalError(f"{base.name} and {run.tail.name} cannot be joined: they {why}")
    like = next(run for run in runs if run.tail is base)
    stitcher = Stitcher(sink, base, postscript_of(like.file, base))
    acid = base.metadata_value(KEY_INDEX) is not None
    for run in runs:
        stripes = stored_stripes(run.file, run.tail)
        ends = ends_of(run) if acid else [None] * len(run.numbers)
        for index, end in zip(run.numbers, ends, strict=True):
            stitcher.copy(stripes[index], end)
    values = dict(metadata or {})
    if acid:
        values[ACID_STATS] = _acid_stats(runs)
    done = stitcher.finish(values)
    return replace(done, first_key=first_key(runs) if acid else None)


def ends_of(run: StripeRun) -> Sequence[RowId]:
    """The last key of each stripe."""
    given = run.keys
    if given is None:
        index = parse_key_index(run.tail.metadata_value(KEY_INDEX) or b"")
        if len(index) != len(run.tail.stripes):
            raise InternalError(f"the key index of {run.tail.name} is not of its stripes")
        given = tuple(key for i in run.numbers if (key := index[i]) is not None)
    if len(given) != len(run.numbers):
        raise InternalError(f"the keys of {len(given)} stripes of {run.tail.name} are known, {len(run.numbers)} used")
    return given


def _acid_stats(runs: Sequence[StripeRun]) -> bytes:
    totals = np.zeros(3, dtype=np.int64)
    for run in runs:
        value = run.tail.metadata_value(ACID_STATS)
        if value is None:
            raise InternalError(f"{run.tail.name} does not count its events")
        stats = parse_acid_stats(value)
        counts = [stats.inserts, stats.updates, stats.deletes]
        if not run.is_whole:
            # Of a part the share is known where all events are of one kind, and other parts are not cut.
            if sum(counts) not in counts:
                raise InternalError(f"{run.tail.name} mixes kinds of events and cannot be joined in part")
            counts = [run.rows if count else 0 for count in counts]
        totals += counts
    return ",".join(map(str, totals)).encode()


def first_key(runs: Sequence[StripeRun]) -> RowId | None:
    """The first key of the first stripe, where that begins its file; else None."""
    first = next((run for run in runs if run.numbers), None)
    if first is None or first.numbers[0]:
        return None
    orc = open_orc(first.file, name=first.tail.name, length=first.tail.file_length)
    return first_keys(orc.heads(first.file), range(1))[0].at(0)


def first_keys(heads: OrcFile, stripes: range) -> list[EventKeys]:
    """The keys of the first event alone of each of some stripes, given `OrcFile.heads`."""
    return [keys_of(batch, name=heads.name) for batch in heads.scan(KEY_FIELDS, stripes=stripes)]
