"""Streams that the C++ reader believes blindly, checked before it sees them.

Lengths of strings and lists, tags of unions and scales of decimals come from the file as plain numbers. A
flipped bit in them makes ORC's C++ reader allocate terabytes, write past its buffers or multiply by ten
without end, and with it the whole process dies. Looking at the headers of the runs is enough for sound
streams: what they can hold at most is small. Only where that is not so are the values decoded.

The same lengths tell how much memory a batch of rows takes, before it is decoded: `WideRows` asks for fewer rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from acidctl.errors import AcidctlError
from acidctl.orc.codec import CodecError, Compression
from acidctl.orc.input_file import Source
from acidctl.orc.protobuf import WireError
from acidctl.orc.rle import (
    Bounds,
    UInt64Array,
    bounds_v1,
    bounds_v2,
    constants_v2,
    decode_v1,
    decode_v2,
    exact_bounds,
    has_byte_above,
)
from acidctl.orc.stripe import EncodingKind, Stream, StreamKind, StripeFooter
from acidctl.orc.tail import OrcKind, Tail, damaged

# What is looked through of a file, expanded, and the runs of it that are decoded; no stream is ever larger than this.
_MAX_STREAM = 128 << 20
_FREE_BYTES, _BYTES_OF_A_BYTE = 4 << 20, 16
_FREE_RUNS, _BYTES_OF_A_RUN = 1 << 16, 4
# Elements of one list or map, which a reader holds at once.
_MAX_ELEMENTS = 1 << 24
# What one stripe may ask for in all before its lengths are looked at one by one; memory is touched only when
# filled.
_UNSUSPICIOUS = 1 << 31
_MAX_LENGTH = (1 << 31) - 1
# Hive has no negative scale, and C++ reads one as enormous.
_MAX_SCALE = 76
# How much a byte can stand for at most; Zstandard knows no bound, this is beyond any real text.
_EXPANSION = {
    Compression.NONE: 1,
    Compression.ZLIB: 1032,
    Compression.SNAPPY: 64,
    Compression.LZ4: 255,
}
_ANY_EXPANSION = 1 << 16
# What has to be held at once, which are the dictionaries of a stripe and a row: so much always, and of larger files as
# much as deflate could have made of them.
_FREE_HELD, _HELD_OF_A_BYTE = 32 << 20, 1032
# A batch of more rows than one; Arrow holds up to eight of them.
_BATCH_BYTES = 16 << 20
_VALUE_BYTES = 9
_TEXTS = frozenset({OrcKind.STRING, OrcKind.BINARY, OrcKind.VARCHAR, OrcKind.CHAR})
_DICTIONARY = frozenset({EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2})
_VERSION_2 = frozenset({EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2})


class WideRows(AcidctlError):
    """No failure: a batch of the rows of a stripe would be too large, one of `rows` would not."""

    def __init__(self, rows: int) -> None:
        super().__init__(f"rows are to be read {rows} at a time")
        self.rows = rows


class Guard:
    """Checks the streams of the given columns, each stripe when its bytes are first asked for.

    With `batch_rows`, as many rows as are decoded at a time, a stripe of wide rows raises WideRows.
    """

    def __init__(
        self,
        source: Source,
        tail: Tail,
        footers: Sequence[StripeFooter],
        columns: Iterable[int],
        batch_rows: int = 1,
    ) -> None:
        self._source = source
        self._tail = tail
        self._footers = footers
        self._columns = sorted(columns)
        self._batch_rows = batch_rows
        self._starts = [stripe.offset for stripe in tail.stripes]
        self._checked: set[int] = set()
        self._bytes_left = _FREE_BYTES + _BYTES_OF_A_BYTE * tail.file_length
        self._runs_left = _FREE_RUNS + tail.file_length // _BYTES_OF_A_RUN
        self._most_held = max(_FREE_HELD, _HELD_OF_A_BYTE * tail.file_length)

    def before_read(self, start: int, end: int) -> None:
        """Check the stripes of which bytes in this range are about to be read, each once."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        for index in range(first, bisect_left(self._starts, end)):
            if index not in self._checked:
                self.check(self._footers[index], self._tail.stripes[index].rows)
                self._checked.add(index)

    def check(self, footer: StripeFooter, rows: int) -> None:
        """Look at what the first `rows` of a stripe need of its streams.

        DamagedDataError when one holds numbers that no writer can have meant, or when a row or a dictionary asks for
        more memory than such a file can have a use for.
        """
        stripe = _Widths(self._tail, rows)
        for column in self._columns:
            try:
                self._check(column, footer, stripe)
            except (WireError, CodecError) as error:
                raise damaged(self._tail.name, f"has a damaged column {column}: {error}") from error
        batch = min(self._batch_rows, rows)
        if stripe.whole <= _BATCH_BYTES:
            return
        held = stripe.dictionaries + stripe.of(self._columns, 1)
        if held > self._most_held:
            raise damaged(self._tail.name, f"has a row that takes {int(held)} bytes, more than the file can hold")
        wanted = batch
        while wanted > 1 and stripe.of(self._columns, wanted) > _BATCH_BYTES:
            wanted //= 2
        if wanted < batch:
            raise WideRows(wanted)

    def _check(self, column: int, footer: StripeFooter, stripe: _Widths) -> None:
        entry, encoding = self._tail.types[column], footer.encodings[column]
        values = stripe.values(column)
        second = encoding.kind in _VERSION_2
        if entry.kind in _TEXTS or entry.kind in (OrcKind.LIST, OrcKind.MAP):
            lengths = footer.stream(StreamKind.LENGTH, column)
            dictionary = encoding.dictionary_size if encoding.kind in _DICTIONARY else None
            count = values if dictionary is None else dictionary
            data = self._read(lengths) if lengths is not None else b""
            backing = footer.stream(StreamKind.DATA if dictionary is None else StreamKind.DICTIONARY_DATA, column)
            room = _UNSUSPICIOUS
            if entry.kind in _TEXTS:
                expansion = _EXPANSION.get(self._tail.postscript.compression, _ANY_EXPANSION)
                room = (backing.length if backing else 0) * expansion
            bounds = self._bounds(data, count, room, _MAX_LENGTH if entry.kind in _TEXTS else _MAX_ELEMENTS, second)
            if dictionary is not None and bounds.count < dictionary:
                raise WireError(f"a dictionary claims {dictionary} entries, there are {bounds.count}")
            stripe.add_lengths(column, bounds, dictionary)
            return
        stripe.add(column)
        stream = footer.stream(StreamKind.DATA, column)
        if entry.kind is OrcKind.UNION and stream is not None:
            if has_byte_above(self._read(stream), len(entry.subtypes) - 1, values):
                raise WireError("a union has a tag that its type does not know")
        elif entry.kind is OrcKind.DECIMAL:
            scales = footer.stream(StreamKind.SECONDARY, column)
            if scales is not None:
                self._check_scales(self._read(scales), values, second=second)

    def _bounds(self, data: bytes, values: int, room: int, most: int, second: bool) -> Bounds:
        bounds = bounds_v2(data, values) if second else bounds_v1(data, values)
        if bounds.total <= min(_UNSUSPICIOUS, most) and _VALUE_BYTES * bounds.top <= self._most_held:
            return bounds
        exact = exact_bounds(self._decoded(decode_v2(data) if second else decode_v1(data)), values)
        if exact.top > most:
            raise WireError(f"a length of {int(exact.top)} is impossible")
        if exact.total > room:
            raise WireError(f"lengths add up to {int(exact.total)}, more than the file can hold")
        return exact

    def _check_scales(self, data: bytes, values: int, *, second: bool) -> None:
        constants = constants_v2(data) if second else None
        if constants is not None and all(0 <= scale <= _MAX_SCALE for scale in constants):
            return
        seen = 0
        for run in self._decoded(decode_v2(data, signed=True) if second else decode_v1(data, signed=True)):
            scales = run.view(np.int64)
            if int(scales.max()) > _MAX_SCALE or int(scales.min()) < 0:
                raise WireError("a decimal has an impossible scale")
            seen += len(run)
            if seen >= values:
                return

    def _decoded(self, runs: Iterator[UInt64Array]) -> Iterator[UInt64Array]:
        """The runs, as many as the file is worth."""
        for run in runs:
            self._runs_left -= 1
            if self._runs_left < 0:
                raise WireError("it has more runs of lengths or scales than the file has room for")
            yield run

    def _read(self, stream: Stream) -> bytes:
        most = min(_MAX_STREAM, self._bytes_left)
        if stream.length > most:
            raise WireError(f"a stream of {stream.length} bytes is too large")
        data = self._source.expanded(stream, most)
        self._bytes_left -= len(data)
        return data


class _Widths:
    """How much memory rows of a stripe take at most, by the lengths of its texts, lists and maps.

    Columns are added in ascending order, parents first. `whole` is for all rows.
    """

    def __init__(self, tail: Tail, rows: int) -> None:
        self._types = tail.types
        self._rows = rows
        self._values: dict[int, int] = {}
        self._lengths: dict[int, Bounds] = {}
        self._entries: dict[int, float] = {}
        self.whole = 0.0
        self.dictionaries = 0.0

    def values(self, column: int) -> int:
        """How many values the column has at most."""
        return self._values.get(column, self._rows)

    def add(self, column: int) -> None:
        """A column without lengths."""
        values = self.values(column)
        self.whole += _VALUE_BYTES * values
        if values != self._rows:
            self._values.update(dict.fromkeys(self._types[column].subtypes, values))

    def add_lengths(self, column: int, lengths: Bounds, dictionary: int | None) -> None:
        """A column whose values have these lengths, or the entries of its dictionary."""
        values = self.values(column)
        self.whole += _VALUE_BYTES * values
        if dictionary is not None:
            self.dictionaries += 8 * dictionary + lengths.total
            self._entries[column] = lengths.top
            self.whole += 8 * dictionary + lengths.total + values * lengths.top
            return
        self._lengths[column] = lengths
        if not self._types[column].subtypes:
            self.whole += lengths.total
        self._values.update(dict.fromkeys(self._types[column].subtypes, int(lengths.total)))

    def of(self, columns: Iterable[int], rows: int) -> float:
        """What so many rows take at most, wherever in the stripe they stand."""
        total = 0.0
        wanted: dict[int, float] = {}
        for column in columns:
            count = wanted.get(column, rows)
            lengths = self._lengths.get(column)
            inside = count if lengths is None else lengths.of(count)
            children = self._types[column].subtypes
            total += _VALUE_BYTES * count + count * self._entries.get(column, 0.0)
            if children:
                wanted.update(dict.fromkeys(children, inside))
            elif lengths is not None:
                total += inside
        return total
