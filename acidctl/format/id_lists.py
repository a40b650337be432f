"""Lists of ids as such: which ids are open, aborted or valid, and how the lists are written.

The predicates are Hive's own, quirks included, because directory selection must agree with Hive; `covers` is
the exact one that rows may be judged by. What the ids mean (write ids or transactions) is left to `write_ids`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from acidctl.errors import UsageError
from acidctl.format.names import WriteIdRange

MAX_ID = (1 << 63) - 1
MIN_ID = -(1 << 63)

# A run of at least this many ids is written `first-last` in Hive 4 transaction lists (HIVE-23819).
_RUN = 5
# Bounds the memory that a hostile or mistyped `first-last` can ask for.
_MAX_EXPANDED = 2_000_000

_NUMBER = re.compile(r"[+-]?[0-9]+")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)")


class ListFault(Enum):
    """What is wrong with a serialised list."""

    BAD_NUMBER = "BAD_NUMBER"
    BAD_LIST = "BAD_LIST"


class ListFormatError(UsageError):
    """A serialised list cannot be read; `fault` says whether a number or the shape is wrong."""

    def __init__(self, message: str, fault: ListFault, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.fault = fault


class RangeAnswer(Enum):
    """How many ids of a range have a property."""

    NONE = "NONE"
    SOME = "SOME"
    ALL = "ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdList:
    """Ids up to `high_watermark` are valid unless they are open or aborted.

    `min_open` is the "lowest open id" field as the text has it (None for "nothing open"), even where it
    contradicts the open ids: Hive does the same. An id that is in both lists counts as open, which is the
    careful reading.
    """

    high_watermark: int = MAX_ID
    min_open: int | None = None
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()
    exceptions: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _open_set: frozenset[int] = field(init=False, repr=False, compare=False)
    _exception_set: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        open_set = frozenset(self.open)
        aborted_set = frozenset(self.aborted) - open_set
        object.__setattr__(self, "open", tuple(sorted(open_set)))
        object.__setattr__(self, "aborted", tuple(sorted(aborted_set)))
        object.__setattr__(self, "exceptions", tuple(sorted(open_set | aborted_set)))
        object.__setattr__(self, "_open_set", open_set)
        object.__setattr__(self, "_exception_set", open_set | aborted_set)

    @property
    def lowest_open(self) -> int | None:
        """Lowest id that may still be open: the smaller of `min_open` and the first open id."""
        return min((x for x in (self.min_open, *self.open[:1]) if x is not None), default=None)

    @property
    def sees_everything(self) -> bool:
        """Whether nothing at all is excepted."""
        return self.high_watermark == MAX_ID and not self.exceptions and self.min_open is None

    def is_valid(self, id_: int) -> bool:
        """Whether what `id_` wrote is visible."""
        return id_ <= self.high_watermark and id_ not in self._exception_set

    def is_open(self, id_: int) -> bool:
        """Whether `id_` is listed as open."""
        return id_ in self._open_set

    def is_aborted(self, id_: int) -> bool:
        """Whether `id_` is listed as aborted."""
        return id_ in self._exception_set and id_ not in self._open_set

    def covers(self, min_id: int, max_id: int) -> bool:
        """Whether every id of `min_id..max_id` is valid (exact, also where a list contradicts itself)."""
        return max_id <= self.high_watermark and _count(self.exceptions, min_id, max_id) == 0

    def is_range_valid(self, min_id: int, max_id: int) -> RangeAnswer:
        """Hive's isWriteIdRangeValid: order of tests and answers exactly as there."""
        if min_id > self.high_watermark:
            return RangeAnswer.NONE
        # Hive does not look at the watermark here; only lists with exceptions above it notice.
        if self.exceptions and self.exceptions[0] > max_id:
            return RangeAnswer.ALL
        if not self.exceptions and max_id <= self.high_watermark:
            return RangeAnswer.ALL
        invalid = max(0, max_id - self.high_watermark) + _count(self.exceptions, min_id, max_id)
        return _answer(invalid, max_id - min_id + 1, none_of_them=RangeAnswer.ALL, all_of_them=RangeAnswer.NONE)

    def is_range_aborted(self, min_id: int, max_id: int) -> RangeAnswer:
        """Hive's isWriteIdRangeAborted."""
        if self.high_watermark < min_id or not self.aborted:
            return RangeAnswer.NONE
        aborted = _count(self.aborted, min_id, max_id)
        return _answer(aborted, max_id - min_id + 1, none_of_them=RangeAnswer.NONE, all_of_them=RangeAnswer.ALL)

    def open_in(self, min_id: int, max_id: int) -> tuple[int, ...]:
        """Open ids of the range, ascending."""
        return self.open[bisect_left(self.open, min_id) : bisect_right(self.open, max_id)]

    def aborted_in(self, min_id: int, max_id: int) -> tuple[int, ...]:
        """Aborted ids of the range, ascending."""
        return self.aborted[bisect_left(self.aborted, min_id) : bisect_right(self.aborted, max_id)]


def split_fields(text: str, separator: str) -> list[str]:
    """Split as Java's String.split does: trailing empty parts are dropped."""
    parts = text.split(separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def too_short(text: str, what: str, shape: str) -> ListFormatError:
    """The error for a text with too few fields."""
    return ListFormatError(f"'{shorten(text)}' is no {what}: expected {shape}", ListFault.BAD_LIST)


def parse_number(text: str, what: str, which: str) -> int:
    """Read one 64-bit number; `which` field of `what` is for the error."""
    # Python's int() would also take blanks, underscores and other alphabets' digits, and refuse very long
    # texts.
    digits = text.lstrip("+-").lstrip("0") or "0"
    value = int(digits) if _NUMBER.fullmatch(text) and len(digits) <= 19 else None
    if value is not None and text.startswith("-"):
        value = -value
    if value is None or not MIN_ID <= value <= MAX_ID:
        shown = f"'{shorten(text)}'" if text else "empty"
        raise ListFormatError(
            f"{which} in the {what} is {shown}, expected a whole number of 64 bits", ListFault.BAD_NUMBER
        )
    return value


def parse_ids(text: str, what: str, which: str) -> tuple[int, ...]:
    """Read ids and `first-last` ranges between commas."""
    ids: list[int] = []
    for part in split_fields(text, ","):
        match = _RANGE.fullmatch(part)
        if not match:
            ids.append(parse_number(part, what, which))
            continue
        first, last = parse_number(match[1], what, which), parse_number(match[2], what, which)
        if last < first or last - first >= _MAX_EXPANDED - len(ids):
            problem = "ends before it begins" if last < first else "holds more ids than any real list"
            raise ListFormatError(f"the range '{part}' in {which} of the {what} {problem}", ListFault.BAD_LIST)
        ids.extend(range(first, last + 1))
    return tuple(ids)


def join_ids(ids: Iterable[int]) -> str:
    """Ids between commas, each written out."""
    return ",".join(map(str, ids))


def join_runs(ids: tuple[int, ...]) -> str:
    """Ids between commas, long runs as `first-last`."""
    parts: list[str] = []
    for first, last in runs(ids):
        short = last - first + 1 < _RUN
        parts.append(join_ids(range(first, last + 1)) if short else f"{first}-{last}")
    return ",".join(parts)


def runs(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Consecutive ids of an ascending sequence as (first, last) pairs."""
    found: list[tuple[int, int]] = []
    for id_ in ids:
        if found and found[-1][1] == id_ - 1:
            found[-1] = (found[-1][0], id_)
        else:
            found.append((id_, id_))
    return found


def describe_ids(ids: Iterable[int], *, limit: int = 5) -> str:
    """Ids for a sentence: `3`, `3, 5..9`, with what is beyond `limit` runs only counted."""
    found = runs(ids)
    shown = ", ".join(str(WriteIdRange(first, last)) for first, last in found[:limit])
    more = sum(last - first + 1 for first, last in found[limit:])
    return f"{shown} and {more} more" if more else shown


def shorten(text: str) -> str:
    """At most 60 characters of a text on one line, for a message."""
    return on_one_line(text if len(text) <= 60 else text[:57] + "...")


def on_one_line(text: str) -> str:
    """A text for a message, with what cannot be printed escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _count(ids: tuple[int, ...], min_id: int, max_id: int) -> int:
    return max(0, bisect_right(ids, max_id) - bisect_left(ids, min_id))


def _answer(count: int, total: int, *, none_of_them: RangeAnswer, all_of_them: RangeAnswer) -> RangeAnswer:
    if count == 0:
        return none_of_them
    return all_of_them if count == total else RangeAnswer.SOME
