"""Which write ids a compaction may take as committed, read from the text of a list by code of its own.

Planning and tasks judge by `write_ids`; whoever checks them judges by this, so that a fault there is noticed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

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
