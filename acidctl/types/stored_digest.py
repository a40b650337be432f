"""A fast digest of rows as they are stored: equal before and after a rewrite that keeps every value bit for bit.

Each row becomes two 64-bit hashes and the digest is the pair of their sums, so that order does not matter and
duplicates do. It serves to prove that a file holds what was merged; unlike `digest` it is not the same for values that
merely compare equal (0.0 and -0.0, 5 and 5.00), and no file should keep it. What it does not tell apart are forms of
one value in memory: timestamp[ns] and WIDE, plain and dictionary, string and large_string, dense and sparse, sliced
and whole, an integer in 32 and in 64 bits.

How: a value becomes 64 bits, by its place in a text, a list or a struct; a row is two sums of its values, each times
odd random factors of its place, and goes through a mixer that is not linear, so that values that change rows change
the sums. A value that is not stored (NULL) has a number of its own at every level. Chance alone decides about
collisions: it guards against faults and not against an adversary who knows the constants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from acidctl.errors import DamagedDataError, InternalError
from acidctl.format.arrays import WIDE, flat

Hashes = npt.NDArray[np.uint64]
_Int64 = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

VERSION = "r1"
_BITS = 64
_WRAP = 1 << _BITS

#: Rows at a time, so that what is computed stays in the cache of a core; fewer where rows are wide.
_ROWS = 16384
_COLUMN_BYTES = 4 << 20
# Bytes of a text that are taken at once, and such blocks at a time.
_BLOCK = 32
_SEGMENT = 1 << 14
_KEPT_BYTES = 16 << 20
_KEY_COLUMNS = 8
_NANOS = 10**9


def _splitmix(index: int) -> int:
    """The `index`-th number of the SplitMix64 generator: constants that have no pattern."""
    z = (index + 1) * 0x9E3779B97F4A7C15 % _WRAP
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % _WRAP
    z = (z ^ z >> 27) * 0x94D049BB133111EB % _WRAP
    return z ^ z >> 31


def _odd(index: int) -> np.uint64:
    return np.uint64(_splitmix(index) | 1)


_SHIFT = np.uint64(32)
_SHIFT_2 = np.uint64(29)
_FACTOR, _FACTOR_2, _FACTOR_3, _PLACE, _LENGTH = (_odd(i) for i in range(5))
_NULL, _TEXT, _LIST, _STRUCT, _UNION, _FAR, _KEYLESS = (np.uint64(_splitmix(i)) for i in range(5, 12))
_FIRST_FACTOR = 64
_NO_COLUMNS = "there are rows without any column, which no table of Hive has"
_WORD_FACTORS = np.array([_odd(i) for i in range(16, 20)])
# Which bytes of a block belong to a text of which so many bytes are left.
_MASKS = np.tril(np.full((_BLOCK + 1, _BLOCK), 255, dtype=np.uint8), -1).view(np.uint64)


class Keys(Protocol):
    """The key columns of events (`events.EventKeys`), each of one length; no `operation` means INSERT throughout."""

    def __len__(self) -> int: ...

    @property
    def write_id(self) -> _Int64: ...

    @property
    def bucket(self) -> _Int64: ...

    @property
    def row_id(self) -> _Int64: ...

    @property
    def current(self) -> _Int64: ...

    @property
    def operation(self) -> _Int64 | None: ...


class RowDigest:
    """Takes rows in any number of batches, cut in any way; `hexdigest` may be asked at any time."""

    def __init__(self) -> None:
        self._sums = [0, 0]
        self.rows = 0

    def update(self, keys: Keys | None, columns: Sequence[pa.Array]) -> None:
        """Add rows: their keys (None where rows have none) and their values, all of one length.

        Delete events have keys and no columns. Rows with neither raise DamagedDataError; an Arrow type that no Hive
        type travels as raises InternalError.
        """
        if keys is None and not columns:
            raise DamagedDataError(_NO_COLUMNS, hint="Give the table's columns with --schema, or restore the file.")
        rows = len(columns[0]) if keys is None else len(keys)
        if any(len(column) != rows for column in columns):
            raise InternalError("Rows to be hashed have columns of different lengths.")
        step = _chunk(columns, rows)
        hasher = _Hasher()
        for start in range(0, rows, step):
            count = min(step, rows - start)
            self._add(hasher, keys, [column.slice(start, count) for column in columns], start, count)
        self.rows += rows

    def hexdigest(self) -> str:
        """`r1:` and 32 hexadecimal digits."""
        return f"{VERSION}:{self._sums[0]:016x}{self._sums[1]:016x}"

    def _add(self, hasher: _Hasher, keys: Keys | None, columns: list[pa.Array], start: int, count: int) -> None:
        sums = np.zeros(count, dtype=np.uint64), np.zeros(count, dtype=np.uint64)
        if keys is None:
            for lane in sums:
                lane += _KEYLESS
        else:
            operation = () if keys.operation is None else (keys.operation,)
            # An INSERT is 0 and adds nothing, so that the operation may as well be left out.
            for place, values in enumerate((keys.write_id, keys.bucket, keys.row_id, keys.current, *operation)):
                stop = start + count
                self._weigh(hasher, sums, place, np.array(values[start:stop], dtype=np.int64).view(np.uint64))
        for place, column in enumerate(columns):
            self._weigh(hasher, sums, _KEY_COLUMNS + place, hasher.hashes(column))
        for which, weighed in enumerate(sums):
            total = int(hasher.mix(weighed).sum(dtype=np.uint64))
            self._sums[which] = (self._sums[which] + total) % _WRAP

    def _weigh(self, hasher: _Hasher, sums: tuple[Hashes, Hashes], place: int, values: Hashes) -> None:
        """Add values, times the factors of their place, to both sums of each row."""
        for lane, factor in zip(sums, _factors(place), strict=True):
            product = hasher.spare(len(values))
            np.multiply(values, factor, out=product)
            np.add(lane, product, out=lane)


@cache
def _factors(place: int) -> tuple[np.uint64, np.uint64]:
    """The factors of a place in a row, one for each sum."""
    return _odd(_FIRST_FACTOR + 2 * place), _odd(_FIRST_FACTOR + 2 * place + 1)


def combined(digests: Iterable[str]) -> str:
    """The digest of the rows of all digests together; ValueError for a text that is none."""
    sums = [0, 0]
    for text in digests:
        version, _, digits = text.partition(":")
        if version != VERSION or len(digits) != 2 * _BITS // 4:
            raise ValueError(f"{text!r} is no digest of rows")
        for lane in (0, 1):
            sums[lane] = (sums[lane] + int(digits[16 * lane : 16 * lane + 16], 16)) % _WRAP
    return f"{VERSION}:{sums[0]:016x}{sums[1]:016x}"


def _chunk(columns: Sequence[pa.Array], rows: int) -> int:
    """How many rows to take at a time."""
    widest = max((column.nbytes for column in columns), default=0)
    if rows <= 1 or widest * _ROWS <= _COLUMN_BYTES * rows:
        return _ROWS
    return max(1, _COLUMN_BYTES * rows // widest)


class _Hasher:
    """Turns arrays into one number per value; keeps the space that every step needs."""

    def __init__(self) -> None:
        # Freeing this once, untouched, teaches glibc to keep memory of such sizes instead of returning it to the
        # system each time: page faults would cost as much as the hashing.
        np.empty(_KEPT_BYTES, dtype=np.uint8)
        self._spare: Hashes = np.empty(0, dtype=np.uint64)
        self._tile: Hashes = np.empty(0, dtype=np.uint64)
        self._dictionaries: dict[tuple[int, ...], Hashes] = {}

    def spare(self, size: int) -> Hashes:
        """Space that is overwritten by the next call of any method."""
        if len(self._spare) < size:
            self._spare = np.empty(max(size, _ROWS), dtype=np.uint64)
        return self._spare[:size]

    def stir(self, values: Hashes) -> Hashes:
        """Spread each bit over others, in place: enough for a value that is multiplied and mixed once more."""
        values *= _FACTOR
        values ^= np.right_shift(values, _SHIFT, out=self.spare(len(values)))
        return values

    def mix(self, values: Hashes) -> Hashes:
        """Spread each bit over all, in place; no two values become one."""
        spare = self.spare(len(values))
        values ^= np.right_shift(values, _SHIFT, out=spare)
        values *= _FACTOR_2
        values ^= np.right_shift(values, _SHIFT_2, out=spare)
        values *= _FACTOR_3
        values ^= np.right_shift(values, _SHIFT, out=spare)
        return values

    def hashes(self, array: pa.Array) -> Hashes:
        """One number per value of an array, in memory of its own."""
        if not len(array) or array.null_count == len(array):
            # Arrow may have no memory at all for such an array.
            return np.full(len(array), _NULL)
        result = self._values(array)
        if array.null_count:
            # Below a NULL lies anything.
            np.copyto(result, _NULL, where=~_validity(array))
        return result

    def _values(self, array: pa.Array) -> Hashes:
        kind = array.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_date32(kind):
            return self.stir(_fixed(array))
        if pa.types.is_boolean(kind):
            return self.stir(_bits(array.buffers()[1], array.offset, len(array)).astype(np.uint64))
        if pa.types.is_timestamp(kind):
            return self._timestamps(array)
        if pa.types.is_decimal(kind):
            return self._decimals(array)
        if _is_text(kind):
            return self._texts(array)
        if pa.types.is_dictionary(kind):
            return self._chosen(array)
        if pa.types.is_struct(kind):
            return self._moments(array) if kind.equals(WIDE) else self._structs(array)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
            return self._lists(array)
        if pa.types.is_union(kind):
            return self._unions(flat(array))
        if pa.types.is_null(kind):
            return np.full(len(array), _NULL)
        raise InternalError(f"Values of Arrow type {kind} cannot be hashed.")

    def _timestamps(self, array: pa.Array) -> Hashes:
        if array.type.unit == "ns":
            return self.stir(_fixed(array))
        per_second = {"s": 1, "ms": 10**3, "us": 10**6}[array.type.unit]
        seconds, rest = np.divmod(_fixed(array).view(np.int64), per_second)
        return self._instants(seconds, rest * (_NANOS // per_second))

    def _instants(self, seconds: _Int64, nanos: _Int64) -> Hashes:
        """Moments as nanoseconds since 1970, and what 64 bits do not hold of it in another way."""
        ticks = seconds * _NANOS + nanos
        # A sum that wrapped once or more has the wrong sign, or lies beyond by far.
        limit = (1 << 63) // _NANOS
        far = (seconds > limit) | (seconds < -limit - 1) | ((ticks ^ seconds) < 0)
        result = self.stir(ticks.view(np.uint64))
        if far.any():
            result[far] += self.mix(seconds[far].view(np.uint64) + _FAR)
        return result

    def _moments(self, array: pa.Array) -> Hashes:
        """WIDE timestamps, with those structs that look so but are none."""
        one, other = array.field(0), array.field(1)
        seconds, nanos = _fixed(one).view(np.int64), _fixed(other).view(np.int64)
        odd = (nanos < 0) | (nanos >= _NANOS)
        for child in (one, other):
            if child.null_count:
                odd |= ~_validity(child)
        result = self._instants(np.where(odd, 0, seconds), np.where(odd, 0, nanos))
        if odd.any():
            result[odd] = self._structs(array)[odd]
        return result

    def _decimals(self, array: pa.Array) -> Hashes:
        words = array.type.bit_width // _BITS
        if not words:
            return self.stir(_fixed(array))
        limbs = _stored(array, 1, "<u8", words * array.offset, words * len(array)).reshape(-1, words)
        result = self.stir(limbs[:, 0].copy())
        for place in range(1, words):
            # The sign's extension adds nothing: a decimal is the same in 64 and in 128 bits.
            sign = (limbs[:, place - 1].view(np.int64) >> 63).view(np.uint64)
            result += self.mix(limbs[:, place] ^ sign) * _odd(_FIRST_FACTOR - place)
        return result

    def _structs(self, array: pa.Array) -> Hashes:
        result = np.full(len(array), _STRUCT)
        for place in range(array.type.num_fields):
            result += self.hashes(array.field(place)) * _factors(place)[0]
        return self.mix(result)

    def _unions(self, array: pa.UnionArray) -> Hashes:
        codes = np.asarray(array.type_codes)
        result = np.full(len(array), _UNION)
        for place, code in enumerate(array.type.type_codes):
            mine = np.flatnonzero(codes == code)
            if not len(mine):
                continue
            slots = mine if array.type.mode == "sparse" else np.asarray(array.offsets)[mine]
            chosen = self.hashes(array.field(place))[slots]
            result[mine] += self.mix(chosen + np.uint64(place * int(_PLACE) % _WRAP))
        return self.mix(result)

    def _chosen(self, array: pa.DictionaryArray) -> Hashes:
        dictionary = array.dictionary
        owners = tuple(0 if buffer is None else buffer.address for buffer in dictionary.buffers())
        key = (dictionary.offset, len(dictionary), *owners)
        known = self._dictionaries.get(key)
        if known is None:
            # One slot more, so that there is something to take for a NULL in an empty dictionary.
            known = self._dictionaries[key] = np.append(self.hashes(dictionary), _NULL)
        indices = array.indices
        places = _fixed(indices).view(np.int64)
        if indices.null_count:
            places = np.where(_validity(indices), places, len(dictionary))
        return known.take(places)

    def _lists(self, array: pa.Array) -> Hashes:
        """Lists and maps: what they hold, each by its place, and how much."""
        offsets = _offsets(array)
        first, last = int(offsets[0]), int(offsets[-1])
        result = (np.diff(offsets).view(np.uint64) * _LENGTH) + _LIST
        if last > first:
            entries = _entries(array, first, last - first)
            if isinstance(entries, tuple):
                inner = self.hashes(entries[0]) * _PLACE
                inner += self.hashes(entries[1])
            else:
                inner = self.hashes(entries)
            places = np.arange(first, last) - np.repeat(offsets[:-1], np.diff(offsets))
            inner += places.view(np.uint64) * _PLACE
            result += _sums_between(self.mix(inner), offsets - first)
        return self.stir(result)

    def _texts(self, array: pa.Array) -> Hashes:
        """Strings and binaries, a block of 32 bytes at a time: each by its place, and the length."""
        if pa.types.is_fixed_size_binary(array.type):
            offsets = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * array.type.byte_width
            data = array.buffers()[1]
        else:
            offsets, data = _offsets(array), array.buffers()[2]
        lengths = np.diff(offsets)
        result = (lengths.view(np.uint64) * _LENGTH) + _TEXT
        first, last = int(offsets[0]), int(offsets[-1])
        if last > first:
            starts = offsets[:-1] - first
            # Blocks are read whole, so there must be something behind the last byte.
            space = np.zeros(last - first + _BLOCK, dtype=np.uint8)
            space[:-_BLOCK] = np.frombuffer(data, dtype=np.uint8)[first:last]
            result += self._blocks(space, starts, np.minimum(lengths, _BLOCK))
            longer = np.flatnonzero(lengths > _BLOCK)
            if len(longer):
                self._add_rest(result, space, longer, starts[longer], lengths[longer])
        return self.stir(result)

    def _blocks(self, space: _Bytes, addresses: _Int64, sizes: _Int64) -> Hashes:
        """A number for each block of which `sizes` bytes count: the sum of its words, each times a factor, mixed."""
        # Opaque items of one block's size: numpy copies them wherever they begin.
        items = np.ndarray((len(space) - _BLOCK + 1,), dtype=f"V{_BLOCK}", buffer=space, strides=(1,))
        words = items[addresses].view(np.uint64)
        words &= _MASKS.take(sizes, axis=0).reshape(-1)
        words ^= np.right_shift(words, _SHIFT, out=self.spare(len(words)))
        words *= self._factors_of(len(words))
        grid = words.reshape(-1, _BLOCK // 8)
        sums: Hashes = grid[:, 0] + grid[:, 1]
        sums += grid[:, 2]
        sums += grid[:, 3]
        return self.mix(sums)

    def _factors_of(self, size: int) -> Hashes:
        if len(self._tile) < size:
            self._tile = np.tile(_WORD_FACTORS, max(size, 4 * _ROWS) // len(_WORD_FACTORS))
        return self._tile[:size]

    def _add_rest(self, result: Hashes, space: _Bytes, rows: _Int64, starts: _Int64, lengths: _Int64) -> None:
        """Add the later blocks of long texts, so many at a time that the memory is bounded."""
        counts = (lengths - 1) // _BLOCK
        places = np.ones(len(rows), dtype=np.int64)
        if int(counts.max()) > _SEGMENT:
            pieces = -(-counts // _SEGMENT)
            owners = np.repeat(np.arange(len(rows)), pieces)
            passed = (np.arange(len(owners)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * _SEGMENT
            rows, starts, lengths, places = rows[owners], starts[owners], lengths[owners], 1 + passed
            counts = np.minimum(counts[owners] - passed, _SEGMENT)
        group = np.cumsum(counts) // _SEGMENT
        bounds = np.flatnonzero(np.diff(group, prepend=-1)).tolist()
        for low, high in pairwise([*bounds, len(counts)]):
            part = slice(low, high)
            sums = self._runs(space, starts[part], lengths[part], places[part], counts[part])
            # A row of several pieces occurs as often.
            np.add.at(result, rows[part], sums)

    def _runs(self, space: _Bytes, starts: _Int64, lengths: _Int64, places: _Int64, counts: _Int64) -> Hashes:
        """The sums of runs of blocks; each begins with block number `places` of its text."""
        ends = np.cumsum(counts)
        total = int(ends[-1])
        place = np.repeat(places - (ends - counts), counts)
        place += np.arange(total)
        addresses = np.repeat(starts, counts)
        addresses += place * _BLOCK
        sizes = np.full(total, _BLOCK)
        sizes[ends - 1] = np.minimum(lengths - (places + counts - 1) * _BLOCK, _BLOCK)
        blocks = self._blocks(space, addresses, sizes)
        blocks += place.view(np.uint64) * _PLACE
        return _sums_between(self.mix(blocks), np.concatenate(([0], ends)))


def _is_text(kind: pa.DataType) -> bool:
    plain = pa.types.is_string(kind) or pa.types.is_binary(kind)
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return bool(plain or large or pa.types.is_fixed_size_binary(kind))


def _sums_between(values: Hashes, offsets: _Int64) -> Hashes:
    """The sum of the values from each offset to the next, modulo 2**64."""
    running = np.zeros(len(values) + 1, dtype=np.uint64)
    np.cumsum(values, out=running[1:])
    result: Hashes = np.diff(running.take(offsets))
    return result


def _fixed(array: pa.Array) -> Hashes:
    """Values of at most 64 bits, integers with their sign extended, floats by their bits; in memory of its own."""
    kind = array.type
    width = kind.bit_width // 8
    signed = not (pa.types.is_unsigned_integer(kind) or pa.types.is_floating(kind))
    stored = _stored(array, 1, f"<{'i' if signed else 'u'}{width}", array.offset, len(array))
    return stored.astype(np.int64 if signed else np.uint64).view(np.uint64)


def _stored(array: pa.Array, buffer: int, form: str, first: int, count: int) -> npt.NDArray[Any]:
    """Items of one of an array's buffers, without a copy."""
    kind = np.dtype(form)
    return np.frombuffer(array.buffers()[buffer], dtype=kind, count=count, offset=first * kind.itemsize)


def _bits(buffer: pa.Buffer, offset: int, length: int) -> npt.NDArray[np.uint8]:
    first = offset // 8
    packed = np.frombuffer(buffer, dtype=np.uint8)[first : (offset + length + 7) // 8]
    return np.unpackbits(packed, bitorder="little")[offset - 8 * first :][:length]


def _validity(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Which values are there; an array of type null or a dictionary with NULLs among its values included."""
    buffer = array.buffers()[0]
    if buffer is None or pa.types.is_null(array.type):
        return np.asarray(array.is_valid())
    return _bits(buffer, array.offset, len(array)).view(np.bool_)


def _offsets(array: pa.Array) -> _Int64:
    """The offsets of texts or lists into what lies below; one more than there are."""
    kind = array.type
    large = pa.types.is_large_list(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not len(array):
        return np.zeros(1, dtype=np.int64)
    return _stored(array, 1, "<i8" if large else "<i4", array.offset, len(array) + 1).astype(np.int64)


def _entries(array: pa.Array, start: int, count: int) -> pa.Array | tuple[pa.Array, pa.Array]:
    """What a list holds below a stretch of its offsets; of a map its keys and its values."""
    if pa.types.is_map(array.type):
        return array.keys.slice(start, count), array.items.slice(start, count)
    return array.values.slice(start, count)
