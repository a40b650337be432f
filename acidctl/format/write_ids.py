"""What a reader may see: valid write ids of a table, valid transactions, and the texts Hive writes them in.

Takes the serialised lists that Hive hands a reader and answers questions about ids and ranges of ids. The predicates
are Hive's own, quirks included, because directory selection must agree with Hive; `covers` is the exact one that rows
may be judged by. No listing, no storage.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import lru_cache
from typing import Any, Self

from acidctl.errors import UsageError
from acidctl.format.names import MAX_LONG, WriteIdRange, parse_long
from acidctl.values import dataclass

MAX_ID = MAX_LONG

# A run of at least this many ids is written `first-last` in Hive 4 transaction lists (HIVE-23819).
_RUN = 5
# Bounds the memory that a hostile or mistyped `first-last` can ask for.
_MAX_EXPANDED = 2_000_000

_RANGE = re.compile(r"([0-9]+)-([0-9]+)")
TXN_FIELDS = "high watermark:lowest open id:open ids:aborted ids"
WRITE_ID_FIELDS = f"table:{TXN_FIELDS}"


class ListFormatError(UsageError):
    """A serialised list cannot be read."""


class RangeAnswer(Enum):
    """How many ids of a range have a property."""

    NONE = "NONE"
    SOME = "SOME"
    ALL = "ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdList:
    """Ids up to `high_watermark` are valid unless they are open or aborted.

    `min_open` is the "lowest open id" field as the text has it (None for "nothing open"), even where it contradicts the
    open ids: Hive does the same. An id that is in both lists counts as open, which is the careful reading.
    """

    high_watermark: int = MAX_ID
    min_open: int | None = None
    open: tuple[int, ...] = ()
    aborted: tuple[int, ...] = ()
    exceptions: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        open_ids, aborted = set(self.open), set(self.aborted) - set(self.open)
        for name, ids in (("open", open_ids), ("aborted", aborted), ("exceptions", open_ids | aborted)):
            object.__setattr__(self, name, tuple(sorted(ids)))

    @classmethod
    def everything(cls) -> Self:
        """The list that excepts nothing."""
        return cls()

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
        return id_ <= self.high_watermark and not _among(self.exceptions, id_, id_)

    def is_aborted(self, id_: int) -> bool:
        """Whether `id_` is listed as aborted."""
        return bool(self.aborted_in(id_, id_))

    def is_valid_base(self, id_: int) -> bool:
        """Whether a compacted base up to `id_` holds nothing that is open or unseen (Hive's isValidBase)."""
        return id_ <= self.high_watermark and (self.min_open is None or id_ < self.min_open)

    def covers(self, min_id: int, max_id: int) -> bool:
        """Whether every id of `min_id..max_id` is valid (exact, also where a list contradicts itself)."""
        return max_id <= self.high_watermark and not _among(self.exceptions, min_id, max_id)

    def is_range_valid(self, min_id: int, max_id: int) -> RangeAnswer:
        """Hive's isWriteIdRangeValid: order of tests and answers exactly as there."""
        if min_id > self.high_watermark:
            return RangeAnswer.NONE
        # Hive does not look at the watermark here; only lists with exceptions above it notice.
        if self.exceptions and self.exceptions[0] > max_id:
            return RangeAnswer.ALL
        if not self.exceptions and max_id <= self.high_watermark:
            return RangeAnswer.ALL
        invalid = max(0, max_id - self.high_watermark) + len(_among(self.exceptions, min_id, max_id))
        if invalid == 0:
            return RangeAnswer.ALL
        return RangeAnswer.NONE if invalid == max_id - min_id + 1 else RangeAnswer.SOME

    def is_range_aborted(self, min_id: int, max_id: int) -> RangeAnswer:
        """Hive's isWriteIdRangeAborted."""
        aborted = len(self.aborted_in(min_id, max_id))
        if self.high_watermark < min_id or not aborted:
            return RangeAnswer.NONE
        return RangeAnswer.ALL if aborted == max_id - min_id + 1 else RangeAnswer.SOME

    def open_in(self, min_id: int, max_id: int) -> tuple[int, ...]:
        """Open ids of the range, ascending."""
        return _among(self.open, min_id, max_id)

    def aborted_in(self, min_id: int, max_id: int) -> tuple[int, ...]:
        """Aborted ids of the range, ascending."""
        return _among(self.aborted, min_id, max_id)


class TxnListFormat(Enum):
    """Text form of a transaction list."""

    HIVE4 = "hive4"
    HIVE3 = "hive3"
    HIVE2 = "hive2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidWriteIds(IdList):
    """Valid write ids of one table (ValidReaderWriteIdList; ValidCompactorWriteIdList if `compacting`)."""

    table: str | None = None
    compacting: bool = False

    @classmethod
    def as_of(cls, write_id: int) -> ValidWriteIds:
        """Write ids up to and including `write_id`, nothing excepted."""
        return cls(high_watermark=write_id)

    @classmethod
    def from_txns(cls, txns: ValidTxns) -> ValidWriteIds:
        """The same ids read as write ids: on an ACID v1 table (Hive 1 and 2) the two are one."""
        return cls(high_watermark=txns.high_watermark, min_open=txns.min_open, open=txns.open, aborted=txns.aborted)

    @classmethod
    @lru_cache(maxsize=8)
    def parse(cls, text: str, *, compacting: bool = False) -> ValidWriteIds:
        """Read Hive's text form; the empty text means everything valid (`recognise` refuses it)."""
        if not text:
            return cls(compacting=compacting)
        table, _, ids = text.partition(":")
        values = _parse_ids_of(text, ids, "write-id list", WRITE_ID_FIELDS, 2)
        return cls(**values, table=None if table.lower() == "null" else table, compacting=compacting)

    def format(self) -> str:
        """Hive's text form (ValidReaderWriteIdList.writeToString)."""
        open_ids, aborted = (",".join(map(str, ids)) for ids in (self.open, self.aborted))
        lowest = MAX_ID if self.min_open is None else self.min_open
        return f"{'null' if self.table is None else self.table}:{self.high_watermark}:{lowest}:{open_ids}:{aborted}"

    def is_range_valid(self, min_id: int, max_id: int) -> RangeAnswer:
        """Hive's isWriteIdRangeValid; the compactor's is never SOME."""
        if self.compacting:
            return RangeAnswer.ALL if max_id <= self.high_watermark else RangeAnswer.NONE
        return IdList.is_range_valid(self, min_id, max_id)

    def is_aborted(self, id_: int) -> bool:
        """Whether `id_` is aborted; the compactor takes every exception for aborted."""
        return bool(_among(self.exceptions if self.compacting else self.aborted, id_, id_))

    def compactor(self) -> ValidWriteIds:
        """The list a compactor works with: nothing at or above the lowest open id (createValidCompactWriteIdList)."""
        limit = self.lowest_open
        watermark = self.high_watermark if limit is None else min(self.high_watermark, limit - 1)
        aborted = tuple(id_ for id_ in self.aborted if id_ <= watermark)
        return replace(self, high_watermark=watermark, min_open=limit, open=(), aborted=aborted, compacting=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidTxns(IdList):
    """Valid transactions (ValidReadTxnList); they decide about compactor output, `_v` names."""

    @classmethod
    def parse(cls, text: str, *, list_format: TxnListFormat = TxnListFormat.HIVE4) -> ValidTxns:
        """Read Hive's text form; ranges are understood in every form, Hive 3 itself refuses them.

        A Hive 2 list mixes open and aborted ids. Those below its lowest open id can only be aborted; the
        others count as open, because nobody can tell.
        """
        what = "transaction list"
        if not text or list_format is not TxnListFormat.HIVE2:
            return cls(**_parse_ids_of(text, text, what, TXN_FIELDS, 1)) if text else cls()
        fields = split_fields(text, ":")
        values = _parse_ids_of(text, ":".join(fields[:2]), what, TXN_FIELDS, 1)
        ids = [parse_number(f, what, f"the id in field {i}") for i, f in enumerate(fields[2:], 3) if f or i > 3]
        values["aborted"] = tuple(id_ for id_ in ids if values["min_open"] is None or id_ < values["min_open"])
        values["open"] = tuple(set(ids) - set(values["aborted"]))
        return cls(**values)

    def format(self, *, ranges: bool = True) -> str:
        """Hive 4's text form (ValidReadTxnList.writeToString); without `ranges` that of Hive 3."""
        lowest = MAX_ID if self.min_open is None else self.min_open
        open_ids, aborted = (_join_runs(ids, _RUN if ranges else MAX_ID) for ids in (self.open, self.aborted))
        return f"{self.high_watermark}:{lowest}:{open_ids}:{aborted}"

    def is_valid(self, id_: int) -> bool:
        """Whether the transaction is committed for this reader; 0 stands for "none" and always is."""
        return id_ == 0 or IdList.is_valid(self, id_)


class Profile(Enum):
    """Whose rules decide: our careful ones, or those of Hive 4 to the letter."""

    STRICT = "strict"
    HIVE4 = "hive4"


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads: the lists, None for one not given, which counts as "everything committed", and whose rules decide."""

    write_ids: ValidWriteIds | None = None
    txns: ValidTxns | None = None
    profile: Profile = Profile.STRICT
    notes: tuple[str, ...] = ()

    @property
    def assumed(self) -> tuple[str, ...]:
        """Names of the lists taken as "everything committed"."""
        given = (("write_ids", self.write_ids), ("txns", self.txns))
        return tuple(name for name, value in given if value is None)

    @property
    def effective_write_ids(self) -> ValidWriteIds:
        """The write ids to judge by."""
        return ValidWriteIds.everything() if self.write_ids is None else self.write_ids

    @property
    def effective_txns(self) -> ValidTxns:
        """The transactions to judge `_v` names by."""
        return ValidTxns.everything() if self.txns is None else self.txns

    def for_acid_v1(self) -> Reader:
        """The same lists on an ACID v1 table, where write id and transaction id are one.

        There one list serves as both, unless it names a table and so is from Hive 3 or later.
        """
        if self.write_ids is None and self.txns is not None:
            return replace(self, write_ids=ValidWriteIds.from_txns(self.txns))
        if self.txns is None and self.write_ids is not None and self.write_ids.table is None:
            # No v1 directory carries a `_v` suffix, so no transaction is left to be judged.
            return replace(self, txns=ValidTxns.everything())
        return self


def common_write_ids(lists: Sequence[ValidWriteIds]) -> ValidWriteIds:
    """What every one of these readers (at least one) may see, and so every later reader.

    An id that some reader does not see is open unless a list calls it aborted, which is for good. Where another
    list calls that id valid, the abort has been forgotten (a cleaner ran in between) and the id counts as open.
    """
    return ValidWriteIds(**_common(lists), table=next((item.table for item in lists if item.table is not None), None))


def common_txns(lists: Sequence[ValidTxns]) -> ValidTxns:
    """`common_write_ids` for transactions."""
    return ValidTxns(**_common(lists))


def _common(lists: Sequence[IdList]) -> dict[str, Any]:
    watermark = min(item.high_watermark for item in lists)
    lowest = min((item.lowest_open for item in lists if item.lowest_open is not None), default=None)
    excepted = {id_ for item in lists for id_ in item.exceptions if id_ <= watermark}
    aborted = {
        id_
        for id_ in excepted
        if any(item.is_aborted(id_) for item in lists) and not any(item.is_valid(id_) for item in lists)
    }
    open_ids = tuple(excepted - aborted)
    return {"high_watermark": watermark, "min_open": lowest, "open": open_ids, "aborted": tuple(aborted)}


# --- texts ----------------------------------------------------------------------------------------------------------


def split_fields(text: str, separator: str) -> list[str]:
    """Split as Java's String.split does: trailing empty parts are dropped."""
    parts = text.split(separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _parse_ids_of(text: str, ids: str, what: str, shape: str, first: int) -> dict[str, Any]:
    """The values of an `IdList`; `ids` is what they are read from, from field `first` of `text` on."""
    fields = split_fields(ids, ":")
    if len(fields) < 2:
        raise ListFormatError(f"'{shorten(text)}' is not a valid {what}: expected {shape}")
    watermark = parse_number(fields[0], what, f"the high watermark (field {first})")
    lowest = parse_number(fields[1], what, f"the lowest open id (field {first + 1})")
    open_ids = _parse_ids(fields[2], what, f"the open ids (field {first + 2})") if len(fields) > 2 else ()
    aborted = _parse_ids(fields[3], what, f"the aborted ids (field {first + 3})") if len(fields) > 3 else ()
    min_open = None if lowest == MAX_ID else lowest
    return {"high_watermark": watermark, "min_open": min_open, "open": open_ids, "aborted": aborted}


def parse_number(text: str, what: str, which: str) -> int:
    """Read one 64-bit number; `which` field of `what` is for the error."""
    value = parse_long(text)
    if value is None:
        shown = f"'{shorten(text)}'" if text else "empty"
        raise ListFormatError(f"{which} in the {what} is {shown}, expected a whole number of 64 bits")
    return value


def _parse_ids(text: str, what: str, which: str) -> tuple[int, ...]:
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
            raise ListFormatError(f"the range '{part}' in {which} of the {what} {problem}")
        ids.extend(range(first, last + 1))
    return tuple(ids)


def _join_runs(ids: tuple[int, ...], long: int) -> str:
    """Ids between commas, runs that are at least so long as `first-last`."""
    parts: list[str] = []
    for first, last in _runs(ids):
        parts += [f"{first}-{last}"] if last - first + 1 >= long else map(str, range(first, last + 1))
    return ",".join(parts)


def _runs(ids: Iterable[int]) -> list[tuple[int, int]]:
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
    found = _runs(ids)
    shown = ", ".join(str(WriteIdRange(first, last)) for first, last in found[:limit])
    more = sum(last - first + 1 for first, last in found[limit:])
    return f"{shown} and {more} more" if more else shown


def shorten(text: str) -> str:
    """At most 60 characters of a text on one line, for a message."""
    return on_one_line(text if len(text) <= 60 else text[:57] + "...")


def on_one_line(text: str) -> str:
    """A text for a message, with what cannot be printed escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _among(ids: tuple[int, ...], min_id: int, max_id: int) -> tuple[int, ...]:
    """Those of ascending ids that lie in the range."""
    return ids[bisect_left(ids, min_id) : bisect_right(ids, max_id)]
