"""A digest of rows that depends on neither their order nor how they are stored.

Each row becomes one canonical line of text, each line a 128-bit hash, and the digest is the sum of the
hashes modulo 2**128: order does not matter, duplicates do. The text says the value and not its form, so that
the digest is the same before and after a compaction and after a column's type was widened: a number is its
shortest decimal text whatever its type (5, 5.00 and 5.0 are equal, so are 0.0 and -0.0; a float is widened
to a double first), a char is trimmed, a date is the same as a timestamp at midnight, structs are by
position, and it does not show how unions, dictionaries or wide timestamps are laid out. Strings count byte
by byte, valid UTF-8 or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.types import format_scalars
from acidctl.types.format_rows import Style, escape_ascii, lines, special_bytes
from acidctl.types.format_scalars import Damage
from acidctl.types.schema import HiveType, Primitive, TypeKind

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
        integers = pc.cast(pa.array(np.where(whole, values, 0).astype(np.int64)), pa.string())
        text = pc.if_else(pc.and_(pa.array(whole), pc.is_valid(array)), integers, text)
    odd = pc.match_substring(text, "e")
    if pc.any(odd).as_py():
        chosen = text.filter(odd).to_pylist()
        plain = pa.array([format(Decimal(number), "f") for number in chosen], pa.string())
        text = pc.replace_with_mask(text, pc.fill_null(odd, False), plain)
    return text


def _timestamps(array: pa.Array, local: bool) -> pa.Array:
    text = format_scalars.timestamps(array, False)
    midnight = pc.ends_with(text, " 00:00:00")
    if not pc.any(midnight).as_py():
        return text
    return pc.if_else(midnight, pc.utf8_slice_codeunits(text, 0, -len(" 00:00:00")), text)


def _strings(text: pa.Array, damage: Damage) -> pa.Array:
    return escape_ascii(text, special_bytes(text))


_CANONICAL = Style(
    floats=_floats,
    decimals=format_scalars.short_decimals,
    dates=format_scalars.dates,
    timestamps=_timestamps,
    strings=_strings,
    bare_decimals=True,
    names=False,
)
