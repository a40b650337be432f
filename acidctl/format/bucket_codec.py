"""The packed integer in the `bucket` field of an ACID row: codec version, bucket id, statement id.

Every signed 32-bit value decodes or is refused by its version number, and encoding checks its ranges (Hive's
BucketCodec, HIVE-16832, HIVE-17110, HIVE-24715). Knows nothing of files or rows.

    31..29   28       27..16      15..12     11..0
    version  unused   bucket id   unused     statement id    version 1 (Hive 3 and 4)
    000      bucket id, 29 bits                              version 0 (Hive 1 and 2)
"""

from __future__ import annotations

from acidctl.errors import AcidctlError
from acidctl.values import dataclass

MAX_BUCKET_ID = 4095
MAX_STATEMENT_ID = 4095

_VERSION_SHIFT = 29
_BUCKET_SHIFT = 16
_FIELD = 0x00000FFF
_FIELD_BITS = 12
_MAX_V0 = (1 << _VERSION_SHIFT) - 1


class BucketCodecError(AcidctlError, ValueError):
    """A value that is not a bucket property, or numbers that do not fit into one."""

    code = "bucket_codec"


@dataclass(frozen=True, slots=True)
class BucketProperty:
    """A decoded bucket property; version 0 has no statement id and reads as 0, as in Hive."""

    version: int
    bucket_id: int
    statement_id: int


def decode(value: int) -> BucketProperty:
    """Decode a bucket property given as signed 32-bit integer, or as the same 32 bits unsigned."""
    if not -(1 << 31) <= value < 1 << 32:
        raise BucketCodecError(f"{value} does not fit 32 bits, so it is not a bucket property")
    bits_ = value & 0xFFFFFFFF
    version = bits_ >> _VERSION_SHIFT
    if version == 0:
        return BucketProperty(0, bits_, 0)
    if version == 1:
        return BucketProperty(1, bits_ >> _BUCKET_SHIFT & _FIELD, bits_ & _FIELD)
    raise BucketCodecError(
        f"{value} (0x{bits_:08X}, bits {bits(value)}) has codec version {version}; only 0 and 1 exist"
    )


def encode(
    bucket_id: int, statement_id: int | None = None, *, version: int = 1, max_statement_id: int | None = None
) -> int:
    """Encode a bucket property; a missing statement id (None or -1) is written as 0.

    A bucket id above 4095 fits only into bits that `max_statement_id`, the largest of the transaction, leaves free. It
    does not decode back: Hive goes on to use the decoded numbers for its directory and file names (HIVE-24715).
    """
    statement = 0 if statement_id is None or statement_id == -1 else statement_id
    if version == 0:
        return _checked(bucket_id, _MAX_V0, "bucket id")
    if version != 1:
        raise BucketCodecError(f"there is no codec version {version}, only 0 and 1")
    _checked(statement, MAX_STATEMENT_ID, "statement id")
    largest = MAX_STATEMENT_ID if max_statement_id is None or max_statement_id == -1 else max_statement_id
    # A largest statement id of 0 still keeps one bit.
    spare = _FIELD_BITS - max(_checked(largest, MAX_STATEMENT_ID, "largest statement id"), 1).bit_length()
    overflow = _checked(bucket_id, (1 << _FIELD_BITS + spare) - 1, "bucket id") >> _FIELD_BITS
    if overflow:
        # Else the overflow would share bits with the statement id.
        _checked(statement, largest, "statement id")
    return 1 << _VERSION_SHIFT | (bucket_id & _FIELD) << _BUCKET_SHIFT | overflow << _FIELD_BITS - spare | statement


def bits(value: int) -> str:
    """The 32 bits of a value grouped as version 1 reads them: version, unused, bucket id, unused, statement id."""
    text = f"{value & 0xFFFFFFFF:032b}"
    return " ".join((text[:3], text[3], text[4:16], text[16:20], text[20:]))


def _checked(value: int, limit: int, what: str) -> int:
    if not 0 <= value <= limit:
        raise BucketCodecError(f"{what} {value} cannot be encoded, it must be 0 to {limit}")
    return value
