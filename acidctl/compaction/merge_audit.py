"""The books of a merge: did it keep, drop and bring back the rows that it had to?

A file that is read back proves what was handed to its writer, not that the merge handed over the right rows. So hashes
of keys are summed up where events enter the merge and where rows leave it, and what is missing between the two must be
what the delete events name. None of it uses the merge's own arrays of deleted rows, its order or its choice of files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from acidctl.errors import VerificationError
from acidctl.format.events import EventKeys

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
    output: str, came: KeySum, left: KeySum, deleted: Hashes, again: Callable[[], Iterable[Hashes]]
) -> None:
    """Raise VerificationError unless the rows that are missing are those that delete events name.

    `came` are the visible rows that were read, `left` those that are to be written, `deleted` the keys of the delete
    events, distinct and ascending. Deletes of rows that no file holds any more are rare; where there are some, `again`
    gives the keys of all that came once more.
    """
    gone = came - left
    if gone == sum_of(deleted):
        return
    due = KeySum()
    for hashes in again():
        if len(deleted):
            places = np.minimum(np.searchsorted(deleted, hashes), len(deleted) - 1)
            due.add(hashes[deleted[places] == hashes])
    if gone != due:
        raise _unbalanced(output, f"of {came.rows} rows {due.rows} are deleted", left, came.rows - due.rows)


def require_events(output: str, came: KeySum, left: KeySum, again: Callable[[], Iterable[Hashes]]) -> None:
    """Raise VerificationError unless the events that are to be written are those that came, each once."""
    if came == left:
        return
    due = sum_of(distinct(list(again())))
    if left != due:
        raise _unbalanced(output, f"there are {came.rows} events", left, due.rows)


def _unbalanced(output: str, what: str, left: KeySum, due: int) -> VerificationError:
    found = f"other {due} than those" if left.rows == due else f"{left.rows} instead of {due}"
    return VerificationError(f"{output} would not hold what it must: {what}, and {found} are left", hint=HINT)


# --- Which write ids a compaction may take as committed, read from the text of a list by code of its own.

_MAX_ID = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Committed:
    """Which ids count as committed, by the text of a list: those up to `top` that are not `excepted` (ascending)."""

    top: int
    excepted: tuple[int, ...]

    @classmethod
    def write_ids(cls, text: str) -> Committed:
        """By `table:watermark:lowest open:open:aborted`, as a compactor: nothing at or above the lowest open id."""
        text = text.partition(":")[2]
        found = cls.txns(text)
        if not text:
            return found
        fields = [*text.split(":"), ""]
        lowest = [int(fields[1]), *_ids(fields[2])]
        return cls(min([found.top, *(id_ - 1 for id_ in lowest if id_ != _MAX_ID)]), found.excepted)

    @classmethod
    def txns(cls, text: str) -> Committed:
        """By `watermark:lowest open:open:aborted`; all are committed by no text."""
        watermark, _, opened, aborted = ([*text.split(":"), "", "", ""] if text else [str(_MAX_ID), "", "", ""])[:4]
        return cls(int(watermark), tuple(sorted({*_ids(opened), *_ids(aborted)})))

    def __contains__(self, id_: int) -> bool:
        return id_ <= self.top and not self._excepted_in(id_, id_)

    def _excepted_in(self, low: int, high: int) -> int:
        return bisect_right(self.excepted, high) - bisect_left(self.excepted, low)

    def any_of(self, low: int, high: int) -> bool:
        """Whether a range that ends at `high` is read at all: a compactor reads it whole or not."""
        return high <= self.top and self._excepted_in(low, high) <= high - low


def bucket_of(bucket_property: int) -> int:
    """The bucket id in a bucket property (Hive: `BucketCodec`): the number itself before version 1."""
    # 3 bits of version, 1 unused, 12 of the bucket, 4 unused, 12 of the statement
    return (bucket_property & 0x0FFF0000) >> 16 if bucket_property >> 29 == 1 else bucket_property


def _ids(text: str) -> list[int]:
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
