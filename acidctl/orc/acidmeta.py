"""What the tail of an ACID file says of its events: key index, counts of operations, bounds of its keys.

Hive's writers leave `hive.acid.key.index`, `hive.acid.stats` and `hive.acid.version` as user metadata, the query-based
compactor does not; readers must be right without them. So key bounds and operations come from column statistics
where these can be trusted and are unknown otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from acidctl.format.names import Operation, RowId
from acidctl.orc.stats import ColumnStatistics
from acidctl.orc.tail import Tail
from acidctl.types.hive_types import Dialect
from acidctl.values import dataclass

KEY_INDEX = "hive.acid.key.index"
ACID_STATS = "hive.acid.stats"
ACID_VERSION = "hive.acid.version"
#: Set by acidctl's own writer: the Hive that its file is for.
TARGET = "acidctl.target"
TARGETS = {dialect.value.encode(): dialect for dialect in Dialect}

# More keys than a file may have stripes; more text than three numbers have.
_MAX_KEYS, _MAX_STATS = 100_000, 200
# Places of the event's fields in the type tree: a struct's children are numbered in preorder.
_OPERATION, _WRITE_ID, _BUCKET, _ROW_ID = 1, 2, 3, 4
_OPERATIONS = tuple(map(int, Operation))


@dataclass(frozen=True, slots=True)
class AcidStats:
    """How many events of each kind the writer counted."""

    inserts: int
    updates: int
    deletes: int


def parse_key_index(value: bytes) -> tuple[RowId | None, ...]:
    """The key of the last row of each stripe; an empty entry is None (Hive: `OrcRecordUpdater.parseKeyIndex`).

    Raises ValueError when an entry is not three numbers.
    """
    if value.count(b";") > _MAX_KEYS:
        raise ValueError(f"it has {value.count(b';')} keys")
    entries = value.decode("ascii").rstrip(";").split(";") if value.strip(b";") else []
    why = "is not a write id, a bucket and a row number"
    return tuple(RowId(*_three(entry, f"{entry!r} {why}")) if entry else None for entry in entries)


def parse_acid_stats(value: bytes) -> AcidStats:
    """`inserts,updates,deletes` in decimal; ValueError when it is not that."""
    return AcidStats(*_three(value[:_MAX_STATS].decode("ascii"), f"{value!r} is not three numbers"))


def _three(text: str, why: str) -> list[int]:
    """The first three numbers of a list in decimal."""
    numbers = text.split(",")[:3]
    if len(numbers) < 3:
        raise ValueError(why)
    for number in numbers:
        digits = number[1:] if number[:1] in ("-", "+") else number
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(f"{number!r} is not a number")
    return [int(number) for number in numbers]


def key_range(tail: Tail, statistics: Sequence[ColumnStatistics], rows: int) -> tuple[RowId, RowId] | None:
    """Bounds of the keys, both inclusive: each part is the least or greatest of its column, so no key need equal them.

    The statistics are those of a file or of one of its stripes, which has so many rows. None when they are absent or
    cannot be trusted (no row index: writers leave extreme values then).
    """
    write_id, bucket, row_id = (_span(tail, statistics, rows, column) for column in (_WRITE_ID, _BUCKET, _ROW_ID))
    if write_id is None or bucket is None or row_id is None:
        return None
    return RowId(write_id[0], bucket[0], row_id[0]), RowId(write_id[1], bucket[1], row_id[1])


def operations(tail: Tail) -> frozenset[int] | None:
    """The operation codes that can occur; None when the statistics do not tell.

    `hive.acid.stats` is not asked: writers fill it differently and no Hive reader decides by it.
    """
    span = _span(tail, tail.statistics, tail.rows, _OPERATION)
    return None if span is None else frozenset(code for code in _OPERATIONS if span[0] <= code <= span[1])


def _span(tail: Tail, statistics: Sequence[ColumnStatistics], rows: int, column: int) -> tuple[int, int] | None:
    known = statistics[column] if tail.row_index_stride and column < len(statistics) else None
    return None if known is None or known.count != rows else known.span()
