"""Digests of rows: one that depends on neither their order nor how they are stored, one of rows as they are stored.

`Digest` is the sum, modulo 2**128, of the hashes of one canonical line of text a row: order does not matter, duplicates
do. The text says the value and not its form, so that the digest is the same before and after a compaction and after a
column's type was widened: a number is its shortest decimal text whatever its type (5, 5.00 and 5.0 are equal, so are
0.0 and -0.0; a float is widened to a double first), a char is trimmed, a date is the same as a timestamp at midnight,
structs are by position. Strings count byte by byte, valid UTF-8 or not.

`RowDigest` is equal before and after a rewrite that keeps every bit and every row in its place; it proves that a file
holds what was merged, and no file should keep it. What it does not tell apart are forms of one value in memory:
timestamp[ns] and WIDE, plain and dictionary, string and large_string, dense and sparse, sliced and whole, one batch and
many. Each column is a few streams of bytes (values, lengths of texts and lists, positions of NULLs), as are the columns
of a struct and the values of a list below it; what lies below a NULL is left out.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import DamagedDataError, InternalError
from acidctl.format.events import EventKeys, as_arrow, flat, floor_and_rest
from acidctl.types import format_scalars, pieces
from acidctl.types.format_rows import Style, escape_ascii, lines, special_bytes
from acidctl.types.format_scalars import Damage
from acidctl.types.hive_types import HiveType, Primitive, TypeKind

_MODULUS = 1 << 128
_HASH_BYTES = 16
_KEY = Primitive(TypeKind.BIGINT)
_EXACT_AS_INTEGER = float(1 << 63)

RowIds = tuple[pa.Array, pa.Array, pa.Array]


class Digest:
    """Takes rows in any number of batches; `hexdigest` may be asked at any time."""

    def __init__(self) -> None:
        self._sum = 0

    def update(self, row_ids: RowIds | None, columns: Sequence[pa.Array], types: Sequence[HiveType]) -> None:
        """Add rows: their ids (write id, bucket property, row id; None where rows have none) and their
        values.

        All arrays have one length; without ids there is at least one column.
        """
        keys = () if row_ids is None else tuple(row_ids)
        text = lines((*keys, *columns), None, ((_KEY,) * len(keys) + tuple(types)), _CANONICAL, Damage())
        # The number of keys is part of the hash's domain, so that rows with ids never equal rows without.
        person = b"acidctl-row-ids" if keys else b"acidctl-rows"
        hashes = b"".join(
            blake2b(line, digest_size=_HASH_BYTES, person=person).digest()
            for line in text.to_pybytes().split(b"\n")[:-1]
        )
        self._sum = (self._sum + _sum_of(hashes)) % _MODULUS

    def hexdigest(self) -> str:
        """`v1:` and 32 hexadecimal digits."""
        return f"v1:{self._sum:032x}"


def _sum_of(hashes: bytes) -> int:
    """The sum of 128-bit little-endian numbers; limbs of 32 bits cannot overflow a 64-bit sum."""
    limbs = np.frombuffer(hashes, dtype="<u4").reshape(-1, _HASH_BYTES // 4)
    sums = limbs.sum(axis=0, dtype=np.uint64)
    return sum(int(value) << (32 * position) for position, value in enumerate(sums))


def _floats(array: pa.Array) -> pa.Array:
    array = pc.cast(array, pa.float64())
    values = array.to_numpy(zero_copy_only=False)
    text = pc.cast(array, pa.string())
    with np.errstate(invalid="ignore"):
        whole = (values == np.trunc(values)) & (np.abs(values) < _EXACT_AS_INTEGER)
    if whole.any():
        integers = pc.cast(as_arrow(np.where(whole, values, 0).astype(np.int64)), pa.string())
        text = pc.if_else(pc.and_(as_arrow(whole), pc.is_valid(array)), integers, text)
    special = pc.match_substring(text, "e")
    if pc.any(special).as_py():
        chosen = text.filter(special).to_pylist()
        plain = pa.array([format(Decimal(number), "f") for number in chosen], pa.string())
        text = pc.replace_with_mask(text, pc.fill_null(special, False), plain)
    return text


def _timestamps(array: pa.Array, local: bool) -> pa.Array:
    text = format_scalars.timestamps(array, False)
    midnight = pc.ends_with(text, " 00:00:00")
    if not pc.any(midnight).as_py():
        return text
    return pc.if_else(midnight, pc.utf8_slice_codeunits(text, 0, -len(" 00:00:00")), text)


_CANONICAL = Style(
    floats=_floats,
    decimals=lambda array: pieces.decimals(array, cut=True) or format_scalars.short_decimals(array),
    dates=lambda array: pieces.dates(array) or format_scalars.dates(array),
    timestamps=_timestamps,
    strings=lambda text, damage: escape_ascii(text, special_bytes(text)),
    bare_decimals=True,
    names=False,
)


# --- Rows as they are stored, in their order.

_Int64 = npt.NDArray[np.int64]
_Path = tuple[int | str, ...]

VERSION = "r2"
_DIGITS = 32
_TEXTUAL = (
    *(pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary),
    pa.types.is_fixed_size_binary,
)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class RowDigest:
    """Takes rows in any number of batches, cut in any way; `hexdigest` may be asked at any time."""

    def __init__(self) -> None:
        self._streams: dict[_Path, Any] = {}
        #: How many values each column, or what lies below it, has had so far.
        self._counts: Counter[_Path] = Counter()
        self._last: dict[str, int] = {}
        self.rows = 0

    def update(self, keys: EventKeys | None, columns: Sequence[pa.Array]) -> None:
        """Add rows: their keys (None where rows have none) and their values, all of one length.

        Delete events have keys and no columns. Rows with neither raise DamagedDataError; an Arrow type that no Hive
        type travels as raises InternalError.
        """
        if keys is None and not columns:
            raise DamagedDataError(
                "there are rows without any column, which no table of Hive has",
                hint="Give the table's columns with --schema, or restore the file.",
            )
        rows = len(columns[0]) if keys is None else len(keys)
        if any(len(column) != rows for column in columns):
            raise InternalError("Rows to be hashed have columns of different lengths.")
        if keys is not None:
            self._add_keys(keys)
        for place, column in enumerate(columns):
            self._add((place,), column)
        self.rows += rows

    def hexdigest(self) -> str:
        """`r2:` and 32 hexadecimal digits."""
        whole = hashlib.sha256(str(self.rows).encode())
        for path, count in sorted(self._counts.items(), key=repr):
            whole.update(repr((path, count)).encode())
        for path, stream in sorted(self._streams.items(), key=lambda item: repr(item[0])):
            whole.update(repr((path, stream.hexdigest())).encode())
        return f"{VERSION}:{whole.hexdigest()[:_DIGITS]}"

    def _feed(self, path: _Path, data: npt.NDArray[Any] | memoryview) -> None:
        if not len(data):
            return
        stream = self._streams.get(path)
        if stream is None:
            stream = self._streams[path] = hashlib.sha256()
        stream.update(data if isinstance(data, memoryview) else data.data)

    def _add_keys(self, keys: EventKeys) -> None:
        self._feed(("row_id",), np.ascontiguousarray(keys.row_id, dtype=np.int64))
        for name, values in (("write_id", keys.write_id), ("bucket", keys.bucket), ("current", keys.current)):
            # They are the same for many rows: only where they change they are hashed.
            changed = np.ones(len(values), dtype=np.bool_)
            np.not_equal(values[1:], values[:-1], out=changed[1:])
            if len(values):
                changed[0] = self._last.get(name) != int(values[0])
                self._last[name] = int(values[-1])
            places = np.flatnonzero(changed)
            self._feed((name, "places"), places + self.rows)
            self._feed((name,), np.ascontiguousarray(values[places], dtype=np.int64))
        if keys.operation is not None:
            # An INSERT is 0 and is not mentioned, so that the operation may as well be left out.
            places = np.flatnonzero(keys.operation)
            self._feed(("operation", "places"), places + self.rows)
            self._feed(("operation",), np.ascontiguousarray(keys.operation[places], dtype=np.int64))

    def _add(self, path: _Path, array: pa.Array) -> None:
        """Add the next values of a column, or of what lies below one."""
        if not len(array):
            return
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        first = self._counts[path]
        self._counts[path] += len(array)
        if array.null_count:
            nulls = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
            self._feed((*path, "nulls"), nulls + first)
            array = array.drop_null()
        if len(array):
            self._add_values(path, array)

    def _add_values(self, path: _Path, array: pa.Array) -> None:
        """Add values none of which is NULL."""
        kind = array.type
        if pa.types.is_date32(kind):
            array, kind = array.view(pa.int32()), pa.int32()
        if pa.types.is_boolean(kind):
            self._feed(path, _fixed(array.cast(pa.int8())))
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
            self._feed(path, _fixed(array))
        elif pa.types.is_decimal(kind):
            self._feed(path, _fixed(array if kind.bit_width == 128 else array.cast(pa.decimal128(38, kind.scale))))
        elif pa.types.is_timestamp(kind):
            # As the fields of a WIDE timestamp.
            per_second, ticks = _PER_SECOND[kind.unit], _fixed(array).view(np.int64)
            seconds, rest = floor_and_rest(ticks, per_second)
            self._add((*path, 0), as_arrow(seconds))
            self._add((*path, 1), as_arrow((rest * (_PER_SECOND["ns"] // per_second)).astype(np.int32)))
        elif any(is_one(kind) for is_one in _TEXTUAL):
            if pa.types.is_fixed_size_binary(kind):
                array = array.cast(pa.binary())
            offsets = _offsets(array)
            self._feed((*path, "lengths"), np.diff(offsets).astype(np.int32))
            content = array.buffers()[2]
            if content is not None:
                self._feed(path, memoryview(content)[int(offsets[0]) : int(offsets[-1])])
        elif pa.types.is_struct(kind):
            for place in range(kind.num_fields):
                self._add((*path, place), array.field(place))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
            offsets = _offsets(array)
            self._feed((*path, "lengths"), np.diff(offsets).astype(np.int32))
            children = (array.keys, array.items) if pa.types.is_map(kind) else (array.values,)
            for place, child in enumerate(children):
                self._add((*path, place), child.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))
        elif pa.types.is_union(kind):
            self._add_unions(path, flat(array))
        else:
            raise InternalError(f"Values of Arrow type {kind} cannot be hashed.")

    def _add_unions(self, path: _Path, array: pa.UnionArray) -> None:
        codes = np.asarray(array.type_codes)
        self._feed((*path, "codes"), codes.astype(np.int64))
        for place, code in enumerate(array.type.type_codes):
            slots = np.flatnonzero(codes == code)
            if array.type.mode == "dense":
                slots = np.asarray(array.offsets)[slots]
            self._add((*path, place), array.field(place).take(pa.array(slots, pa.int64())))


def combined(digests: Sequence[str]) -> str:
    """One digest for parts, or for files, in their order; of a single one its own."""
    if len(digests) == 1:
        return digests[0]
    if not digests:
        return RowDigest().hexdigest()
    kind, _, digits = digests[0].partition(":")
    return f"{kind}:{hashlib.sha256(' '.join(digests).encode('ascii')).hexdigest()[: len(digits)]}"


def _fixed(array: pa.Array) -> npt.NDArray[np.uint8]:
    """The bytes of values of one width, without a copy."""
    width = array.type.bit_width // 8
    stored = np.frombuffer(array.buffers()[1], dtype=np.uint8)
    return stored[width * array.offset : width * (array.offset + len(array))]


def _offsets(array: pa.Array) -> _Int64:
    """The offsets of texts or lists into what lies below; one more than there are."""
    kind = array.type
    large = pa.types.is_large_list(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    stored = np.frombuffer(array.buffers()[1], dtype=np.int64 if large else np.int32)
    return stored[array.offset : array.offset + len(array) + 1].astype(np.int64)
