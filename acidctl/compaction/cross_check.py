"""What a merge takes in and writes, checked a second time by code of its own and by another ORC library.

A file that is read back proves what was handed to its writer, not that the merge handed over the right rows. So hashes
of keys are summed up where events enter the merge and where rows leave it, and what is missing between the two must be
what the delete events name. None of it uses the merge's own arrays of deleted rows, its order or its choice of files.
"""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from acidctl.compaction.coverage import Committed, bucket_of
from acidctl.errors import VerificationError
from acidctl.format.events import EventBatch, EventKeys, Int64Array, KeySpan, as_arrow
from acidctl.orc import pyorc_files as pyorc_files
from acidctl.orc.reader import OrcFile
from acidctl.rows.source import DataSource
from acidctl.types.digest import RowDigest
from acidctl.types.hive_types import HiveType, StructType, TypeKind, kinds
from acidctl.values import dataclass

HINT = "Nothing of it is published; the table is as it was. Run compact again, and report it if it happens again."

Hashes = npt.NDArray[np.uint64]

_MASK = 2**64 - 1
# Odd, and without a relation to each other: from the fraction of the golden ratio and primes of xxHash64.
_WRITE_ID, _BUCKET, _ROW_ID, _CURRENT = (
    np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)
)
_STIR, _SHIFT = np.uint64(0xFF51AFD7ED558CCD), np.uint64(32)


def key_hashes(keys: EventKeys, *, current: bool = False) -> Hashes:
    """64 bits per ROW__ID, or with `current` per event: equal for equal keys, otherwise as good as random."""
    hashes: Hashes = keys.row_id.view(np.uint64) * _ROW_ID
    hashes += keys.write_id.view(np.uint64) * _WRITE_ID
    hashes += keys.bucket.view(np.uint64) * _BUCKET
    if current:
        hashes += keys.current.view(np.uint64) * _CURRENT
    for _ in range(2):
        hashes ^= hashes >> _SHIFT
        hashes *= _STIR
    hashes ^= hashes >> _SHIFT
    return hashes


@dataclass(slots=True)
class KeySum:
    """How many keys, and the sum of their hashes modulo 2**64: equal for the same keys in any order."""

    rows: int = 0
    total: int = 0

    def add(self, hashes: Hashes) -> None:
        """Count these too."""
        self.rows += len(hashes)
        self.total = self.total + int(hashes.sum(dtype=np.uint64)) & _MASK

    def __add__(self, other: KeySum) -> KeySum:
        return KeySum(self.rows + other.rows, self.total + other.total & _MASK)

    def __sub__(self, other: KeySum) -> KeySum:
        return KeySum(self.rows - other.rows, self.total - other.total & _MASK)


def sum_of(hashes: Hashes) -> KeySum:
    """All of them."""
    found = KeySum()
    found.add(hashes)
    return found


def distinct(parts: Sequence[Hashes]) -> Hashes:
    """Ascending, each once."""
    if not parts:
        return np.zeros(0, dtype=np.uint64)
    hashes: Hashes = np.concatenate(parts)
    # `np.unique` takes many times as long for numbers like these.
    hashes.sort()
    first = np.ones(len(hashes), dtype=np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=first[1:])
    return hashes[first]


def require_rows(
    output: str, read: KeySum, written: KeySum, deleted: Hashes, read_again: Callable[[], Iterable[Hashes]]
) -> None:
    """Raise VerificationError unless the rows that are missing are those that delete events name.

    `read` are the visible rows that were read, `written` those that are to be written, `deleted` the keys of the delete
    events, distinct and ascending. Deletes of rows that no file holds any more are rare; where there are some,
    `read_again` gives the keys of all rows once more.
    """
    missing = read - written
    if missing == sum_of(deleted):
        return
    expected = KeySum()
    for hashes in read_again():
        if len(deleted):
            places = np.minimum(np.searchsorted(deleted, hashes), len(deleted) - 1)
            expected.add(hashes[deleted[places] == hashes])
    if missing != expected:
        rows = read.rows - expected.rows
        raise _unbalanced(output, f"{expected.rows} of {read.rows} rows are deleted", written, rows)


def require_events(output: str, read: KeySum, written: KeySum, read_again: Callable[[], Iterable[Hashes]]) -> None:
    """Raise VerificationError unless the events that are to be written are those that were read, each once."""
    if read == written:
        return
    expected = sum_of(distinct(list(read_again())))
    if written != expected:
        raise _unbalanced(output, f"there are {read.rows} events", written, expected.rows)


def _unbalanced(output: str, what: str, written: KeySum, expected: int) -> VerificationError:
    rows = f"{expected} other rows" if written.rows == expected else f"{written.rows} rows instead of {expected}"
    return VerificationError(f"{output} would not hold the right rows: {what}, but {rows} would be written", hint=HINT)


# --- What another ORC library finds in a written file: a bounded sample of rows, read by pyorc and compared with ours.

_SAMPLE_GROUPS = 5
_SAMPLE_ROWS = 500
_SAMPLE_BYTES = 4 << 20
_FLOATS = {TypeKind.FLOAT, TypeKind.DOUBLE}


def wrong(name: str, what: str) -> VerificationError:
    """The error that says what is wrong with a written file; `what` is a clause."""
    return VerificationError(f"{name} is not what was to be written: {what}", path=name, hint=HINT)


class OutputSample:
    """Some rows of a written file, kept while our reader gives them, and then compared with what pyorc reads."""

    def __init__(self, orc: OrcFile) -> None:
        self._orc = orc
        self._wanted = _sample_rows(orc)
        #: The number of the first row, keys, columns.
        self._windows: list[tuple[int, EventKeys | None, list[pa.Array]]] = []

    def keep(self, keys: EventKeys | None, columns: Sequence[pa.Array], first: int, count: int) -> None:
        """Copy what is wanted of the next `count` rows, which begin with row `first`."""
        for low, high in self._wanted:
            start, stop = max(low, first), min(high, first + count)
            if start >= stop:
                continue
            size = sum(column.slice(start - first, stop - start).nbytes for column in columns)
            if size > _SAMPLE_BYTES:
                stop = start + max(1, (stop - start) * _SAMPLE_BYTES // size)
            # A slice would hold the whole batch.
            positions = np.arange(start - first, stop - first)
            taken = [column.take(as_arrow(positions)) for column in columns]
            self._windows.append((start, None if keys is None else keys.select(positions), taken))

    def require_same(self, file: BinaryIO) -> None:
        """VerificationError where pyorc reads other keys or values; what it cannot read is left out."""
        orc, windows = self._orc, self._windows
        fields = orc.columns.fields if windows and windows[0][2] else ()
        places = [
            place
            for place, column in enumerate(fields)
            if pyorc_files.incomparable(column.type, orc) is None
            and all(pyorc_files.unreadable(column.type, columns[place]) is None for _, _, columns in windows)
        ]
        if not windows or (not places and windows[0][1] is None):
            return
        try:
            rows = pyorc_files.Rows(file, orc, places)
            if len(rows) != orc.rows:
                raise wrong(orc.name, f"another ORC library finds {len(rows)} rows in it, not {orc.rows}")
            for start, keys, columns in windows:
                their_keys, values = rows.read(start, len(columns[0]) if keys is None else len(keys))
                if keys is not None and _stored_keys(keys) != [tuple(key) for key in their_keys]:
                    raise wrong(orc.name, f"another ORC library reads other keys near row {start}")
                present = [row for row in values if row is not None]
                if places and len(present) < len(values):
                    raise wrong(orc.name, f"another ORC library finds no row in an event near row {start}")
                for index, place in enumerate(places):
                    column = fields[place]
                    if not _same_values([row[index] for row in present], column.type, columns[place]):
                        what = f"other values in column '{column.name}' near row {start}"
                        raise wrong(orc.name, f"another ORC library reads {what}")
        except pyorc_files.CannotRead:
            return
        except ValueError as error:
            raise wrong(orc.name, f"another ORC library cannot read it: {error}") from error


def _stored_keys(keys: EventKeys) -> list[tuple[int, ...]]:
    codes = np.zeros(len(keys), dtype=np.int64) if keys.operation is None else keys.operation
    parts = (codes, keys.write_id, keys.bucket, keys.row_id, keys.current)
    return list(zip(*(part.tolist() for part in parts), strict=True))


def _sample_rows(orc: OrcFile) -> list[tuple[int, int]]:
    """Which rows pyorc reads too, as (first, after the last), ascending.

    They begin with a row group, found by the row index that Hive uses as well. Only there ORC's C++ library has nothing
    to skip: it fails where all that it skips of a string column is NULL.
    """
    stride, start = orc.tail.row_index_stride, 0
    spans: list[tuple[int, int]] = []
    for stripe in orc.tail.stripes:
        for first in range(0, stripe.rows, stride or max(stripe.rows, 1)):
            spans.append((start + first, start + min(first + (stride or stripe.rows), stripe.rows)))
        start += stripe.rows
    if len(spans) > _SAMPLE_GROUPS:
        middle = random.Random(os.fsencode(orc.name)).sample(spans[1:-1], _SAMPLE_GROUPS - 2)
        spans = sorted([spans[0], *middle, spans[-1]])
    size = max(1, _SAMPLE_ROWS // max(len(spans), 1))
    return [(start, min(end, start + size)) for start, end in spans]


def _same_values(values: Sequence[object], kind: HiveType, ours: pa.Array) -> bool:
    """Whether values that pyorc has read are ours; True also where a difference would prove nothing."""
    try:
        theirs = pyorc_files.as_arrow(values, kind, ours.type)
    except ValueError:
        return False  # no value of this type, as fractions beyond a second are
    # Arrow takes 0.0 and -0.0 for equal, and no NaN for itself.
    if kind.kind in _FLOATS:
        bits = pa.int32() if kind.kind is TypeKind.FLOAT else pa.int64()
        same = theirs.view(bits).equals(ours.view(bits))
    else:
        same = not kinds(kind) & _FLOATS and theirs.equals(ours)
    return same or _digest_of(theirs) == _digest_of(ours) or pyorc_files.undecided(kind, ours) is not None


def _digest_of(column: pa.Array) -> str:
    digest = RowDigest()
    digest.update(None, [column])
    return digest.hexdigest()


# --- A sample of input rows as another ORC library reads them, to be found in what is written.

_FILES = 2
_STRIPES, _STRIPES_ANEW = 1, 2
_ROWS = 50
_MIXED_ROWS = 500
# Rows of many bytes are not worth it: a value of each kind shows whether it is read rightly.
_MOST_ROW_BYTES = 1 << 16


@dataclass(slots=True)
class _Window:
    """Rows of one file that lie together; `columns` are of the output, each with its place in `rows` (None: the file
    does not have it).
    """

    name: str
    stripe: int
    keys: EventKeys
    columns: dict[int, int | None]
    rows: list[tuple[Any, ...]]
    found: Any = field(init=False)

    def __post_init__(self) -> None:
        self.found = np.zeros(len(self.keys), dtype=np.bool_)


class InputSample:
    """Rows of the files of a task; `bucket_id` and `span` are the task's, `events` asks for events instead of rows."""

    def __init__(
        self,
        columns: StructType,
        *,
        bucket_id: int | None,
        span: KeySpan | None,
        seed: str,
        events: bool = False,
        stored: bool = False,
    ) -> None:
        self._columns = columns
        self._bucket_id = bucket_id
        self._span = span
        self._events = events
        self._chance = random.Random(os.fsencode(seed))
        self._windows: list[_Window] = []
        #: Whether files are compared as they are read, instead of what is written.
        self._stored = stored

    def read(
        self,
        sources: Sequence[DataSource],
        open_file: Callable[[str], BinaryIO],
        anew: Mapping[DataSource, Sequence[int]] | None = None,
    ) -> None:
        """Choose files and read rows of them; pyorc cannot read all. `open_file` takes the name of a source.

        `anew` are the stripes to choose from, where others are copied: nothing of those can be changed unnoticed.
        """
        filled = [source for source in sources if source.facts.rows and (anew is None or source in anew)]
        # ACID version 1: another file may hold a newer value of a row, so that files are compared as they are read.
        self._stored |= not self._events and any(source.facts.may_update for source in filled)
        partly = [source for source in filled if anew is not None and len(anew[source]) < source.facts.stripes]
        largest = sorted(partly or filled, key=lambda source: -source.facts.rows)[:1]
        # Beside stripes that are copied lie rows of other files, which are decoded and merged in their own way.
        beside = [source for source in filled if source not in partly]
        others = [source for source in beside or filled if source not in largest]
        some = self._chance.sample(others, min(0 if self._events else _FILES - 1, len(others)))
        mixed = [source for source in others if source not in some and self._is_mixed(source)]
        for source in (*largest, *some, *mixed[:1]):
            with source.open() as orc:
                if isinstance(orc, OrcFile):
                    self._read_file(source, orc, open_file, None if anew is None else anew[source])

    def _is_mixed(self, source: DataSource) -> bool:
        """Whether a small file may hold events of several writes, of which some are left out."""
        several = source.min_write_id is not None and 0 < source.min_write_id < source.max_write_id
        return several and source.facts.rows <= _MIXED_ROWS

    def _read_file(
        self,
        source: DataSource,
        orc: OrcFile,
        open_file: Callable[[str], BinaryIO],
        among: Sequence[int] | None,
    ) -> None:
        columns = {} if self._events else self._places(orc)
        starts = self._starts(orc, source, among)
        if columns is None or not starts or orc.tail.file_length // max(orc.rows, 1) > _MOST_ROW_BYTES:
            return
        try:
            with io.BytesIO(orc.whole) if orc.whole is not None else open_file(source.name) as stream:
                if stream.seek(0, 2) != orc.tail.file_length:
                    return  # pyorc reads no file up to its logical end
                rows = pyorc_files.Rows(stream, orc, [place for place, read in columns.items() if read is not None])
                for index, start, count in starts:
                    # pyorc believes what it reads, and wrong lengths end the process.
                    orc.check_streams(index)
                    self._add(source, orc, index, start, *rows.read_stripe(index, count), columns)
        except (pyorc_files.CannotRead, ValueError):
            # Whether the file can be read at all, our own reader says.
            return

    def _starts(self, orc: OrcFile, source: DataSource, among: Sequence[int] | None) -> list[tuple[int, int, int]]:
        """Stripes to read from their beginning, the number of its first row, and how many rows.

        Row groups are found by positions in the file, which nobody has checked.
        """
        rows = [stripe.rows for stripe in orc.tail.stripes]
        ends = np.cumsum(rows).tolist()
        places = [index for index, count in enumerate(rows) if count and (among is None or index in among)]
        if self._span is not None and source.facts.is_acid:
            bounds = orc.stripe_key_ranges()
            places = [index for index in places if self._span.may_hold(*(bounds[index] or (None, None)))]
        # A stripe that has to be written anew may begin with rows that are deleted.
        chosen = self._chance.sample(places, min(_STRIPES if among is None else _STRIPES_ANEW, len(places)))
        most = _MIXED_ROWS if self._is_mixed(source) else _ROWS
        return [(index, ends[index] - rows[index], min(most, rows[index])) for index in chosen]

    def _places(self, orc: OrcFile) -> dict[int, int | None] | None:
        """Columns of the output with their place among those that are read of the file, None for columns added later;
        None where it is not so simple.
        """
        ours, theirs = self._columns.fields, orc.columns.fields
        # Files of old writers name their columns by place.
        if len(theirs) > len(ours) or any(
            known.name.lower() not in (ours[place].name.lower(), f"_col{place}") for place, known in enumerate(theirs)
        ):
            return None
        same = [
            place
            for place, known in enumerate(theirs)
            if known.type == ours[place].type and pyorc_files.incomparable(known.type, orc) is None
        ]
        return {**{place: read for read, place in enumerate(same)}, **dict.fromkeys(range(len(theirs), len(ours)))}

    def _add(
        self,
        source: DataSource,
        orc: OrcFile,
        stripe: int,
        start: int,
        keys: Sequence[tuple[int, ...]],
        values: Sequence[tuple[Any, ...] | None],
        columns: dict[int, int | None],
    ) -> None:
        if source.facts.is_acid:
            parts = np.array(keys, dtype=np.int64).reshape(len(values), -1)
            _, write_id, bucket, row_id, current = (parts[:, i].copy() for i in range(5))
        else:
            numbers = np.arange(start, start + len(values), dtype=np.int64) + source.row_offset
            write_id = current = np.full(len(values), source.raw_write_id, dtype=np.int64)
            row_id, bucket = numbers, np.full(len(values), source.raw_bucket or 0, dtype=np.int64)
        found = EventKeys(write_id, bucket, row_id, current)
        wanted, buckets = self._bucket_id, bucket.tolist()
        owned = {one: wanted is None or bucket_of(one) == wanted for one in set(buckets)}
        own = np.array([owned[one] for one in buckets], dtype=np.bool_)
        inside = None if self._span is None else self._span.mask(found)
        own &= True if inside is None else inside
        if not self._events:
            own &= np.array([value is not None for value in values], dtype=np.bool_)
        if self._stored and not self._events:
            # Several events of one transaction may concern a row, and stand together: which is which, no key tells.
            same = found.same_as_previous()
            own &= ~same & ~np.append(same[1:], start + len(values) < orc.rows)
        if own.any():
            rows = [value or () for value, mine in zip(values, own.tolist(), strict=True) if mine]
            self._windows.append(_Window(source.name, stripe, found.select(own), columns, rows))

    def compared(self, batches: Iterator[EventBatch], source: DataSource | None = None) -> Iterator[EventBatch]:
        """The same batches: those of one file as they are read, or without `source` those that are to be written.

        VerificationError for values that differ.
        """
        for batch in batches:
            if len(batch) and self._stored is (source is not None):
                for window in self._windows:
                    if (source is None or window.name == source.name) and not window.found.all():
                        self._compare(window, batch)
            yield batch

    def _compare(self, window: _Window, batch: EventBatch) -> None:
        sampled, written = _matches(window.keys, batch.keys, events=self._events or self._stored)
        window.found[sampled] = True
        if (batch.keys.current[written] != window.keys.current[sampled]).any():
            raise _other(window, "write ids than another ORC library reads in them")
        if not len(sampled) or not batch.columns:
            return
        part = batch.take(written)
        for place, read in window.columns.items():
            ours, known = part.columns[place], self._columns.fields[place]
            if read is None:
                same = ours.null_count == len(ours)
            else:
                values = [window.rows[i][read] for i in sampled.tolist()]
                same = pyorc_files.unreadable(known.type, ours) is not None or _same_values(values, known.type, ours)
            if not same:
                raise _other(window, f"values in column '{known.name}' than another ORC library reads in them")

    def require_found(self, committed: Committed, deleted: Hashes) -> None:
        """VerificationError for a row that is missing although no event deletes it; `deleted` are hashes, ascending."""
        for window in self._windows:
            missing = window.keys.select(~window.found)
            hashes = key_hashes(missing)
            if self._stored and len(missing):
                raise VerificationError(
                    f"events of {window.name} are read with other keys than another ORC library reads",
                    path=window.name,
                    hint=HINT,
                )
            for place in range(len(missing)):
                at = int(np.searchsorted(deleted, hashes[place]))
                gone = at < len(deleted) and deleted[at] == hashes[place]
                if not gone and int(missing.current[place]) in committed:
                    key = missing.at(place)
                    raise VerificationError(
                        f"row {key.write_id},{key.bucket_property},{key.row_id} of {window.name} would be lost: it is "
                        "committed, and no event deletes it",
                        path=window.name,
                        hint=HINT,
                    )


def _other(window: _Window, what: str) -> VerificationError:
    return VerificationError(f"rows of {window.name} would be written with other {what}", path=window.name, hint=HINT)


def _matches(sampled: EventKeys, written: EventKeys, *, events: bool) -> tuple[Int64Array, Int64Array]:
    """Positions of equal keys, in the first and in the second; with `events` the current write ids are equal too."""

    def keys_at(keys: EventKeys, places: Int64Array) -> Iterator[tuple[int, ...]]:
        parts = (keys.row_id, keys.write_id, keys.bucket, *([keys.current] if events else []))
        return zip(*(part[places].tolist() for part in parts), strict=True)

    known = {key: place for place, key in enumerate(keys_at(sampled, np.arange(len(sampled))))}
    places = np.arange(len(written))
    if len(written) > _MIXED_ROWS:
        # Most batches have no row between the first and the last of those that lie together in a file.
        rows, ids = written.row_id, sampled.row_id
        places = np.flatnonzero((rows >= ids.min()) & (rows <= ids.max()))
        places = places[np.isin(written.write_id[places], sampled.write_id)]
        places = places[np.isin(rows[places], ids)]
    pairs = [
        (known[key], at) for key, at in zip(keys_at(written, places), places.tolist(), strict=True) if key in known
    ]
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
