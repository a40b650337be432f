"""What a reader may see: valid write ids of a table, valid transactions, and the texts Hive writes them in.

Takes the serialised lists that Hive hands a reader and answers questions about ids and ranges of ids. The predicates
are Hive's own, quirks included, because directory selection must agree with Hive; `covers` is the exact one that rows
may be judged by. No listing, no storage.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from types import MappingProxyType

from acidctl.errors import UsageError
from acidctl.format.names import MAX_LONG, WriteIdRange, parse_long

MAX_ID = MAX_LONG

# A run of at least this many ids is written `first-last` in Hive 4 transaction lists (HIVE-23819).
_RUN = 5
# Bounds the memory that a hostile or mistyped `first-last` can ask for.
_MAX_EXPANDED = 2_000_000

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

    `min_open` is the "lowest open id" field as the text has it (None for "nothing open"), even where it contradicts the
    open ids: Hive does the same. An id that is in both lists counts as open, which is the careful reading.
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


class ListView(Enum):
    """Whose predicates apply: a reader's, the compactor's (ValidCompactorWriteIdList) or the cleaner's (HIVE-27526)."""

    READER = "reader"
    COMPACTOR = "compactor"
    CLEANER = "cleaner"


class TxnListFormat(Enum):
    """Text form of a transaction list."""

    HIVE4 = "hive4"
    HIVE3 = "hive3"
    HIVE2 = "hive2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidWriteIds(IdList):
    """Valid write ids of one table (ValidReaderWriteIdList and, by `view`, its compactor and cleaner variants)."""

    table: str | None = None
    view: ListView = ListView.READER

    @classmethod
    def everything(cls) -> ValidWriteIds:
        """The list that excepts nothing."""
        return cls()

    @classmethod
    def as_of(cls, write_id: int) -> ValidWriteIds:
        """Write ids up to and including `write_id`, nothing excepted."""
        return cls(high_watermark=write_id)

    @classmethod
    def from_txns(cls, txns: ValidTxns) -> ValidWriteIds:
        """The same ids read as write ids: on an ACID v1 table (Hive 1 and 2) the two are one."""
        return cls(high_watermark=txns.high_watermark, min_open=txns.min_open, open=txns.open, aborted=txns.aborted)

    @classmethod
    def parse(cls, text: str, *, view: ListView = ListView.READER) -> ValidWriteIds:
        """Read Hive's text form; the empty text means everything valid (`recognise` refuses it)."""
        if not text:
            return cls(view=view)
        fields = split_fields(text, ":")
        what = "write-id list"
        if len(fields) < 3:
            raise too_short(text, what, "table:high watermark:lowest open id:open ids:aborted ids")
        table = None if fields[0].lower() == "null" else fields[0]
        watermark = parse_number(fields[1], what, "the high watermark (field 2)")
        min_open = parse_number(fields[2], what, "the lowest open id (field 3)")
        open_ids = parse_ids(fields[3], what, "the open ids (field 4)") if len(fields) > 3 else ()
        aborted = parse_ids(fields[4], what, "the aborted ids (field 5)") if len(fields) > 4 else ()
        return cls(
            high_watermark=watermark,
            min_open=_none_if_max(min_open),
            open=open_ids,
            aborted=aborted,
            table=table,
            view=view,
        )

    def format(self) -> str:
        """Hive's text form (ValidReaderWriteIdList.writeToString)."""
        table = "null" if self.table is None else self.table
        head = f"{table}:{self.high_watermark}:{MAX_ID if self.min_open is None else self.min_open}"
        return f"{head}:{join_ids(self.open)}:{join_ids(self.aborted)}"

    def is_valid_base(self, write_id: int) -> bool:
        """Whether a compacted base up to `write_id` holds nothing that is open or unseen (Hive's isValidBase)."""
        return write_id <= self.high_watermark and (self.min_open is None or write_id < self.min_open)

    def is_range_valid(self, min_id: int, max_id: int) -> RangeAnswer:
        """Hive's isWriteIdRangeValid of this view; the compactor's is never SOME."""
        if self.view is ListView.COMPACTOR:
            return RangeAnswer.ALL if max_id <= self.high_watermark else RangeAnswer.NONE
        if self.view is ListView.CLEANER and max_id > self.high_watermark:
            return RangeAnswer.NONE
        return IdList.is_range_valid(self, min_id, max_id)

    def is_aborted(self, id_: int) -> bool:
        """Whether `id_` is aborted; the compactor takes every exception for aborted."""
        if self.view is ListView.COMPACTOR:
            return id_ in self._exception_set
        return IdList.is_aborted(self, id_)

    def compactor(self) -> ValidWriteIds:
        """The list a compactor works with: nothing at or above the lowest open id (createValidCompactWriteIdList)."""
        limit = self.lowest_open
        watermark = self.high_watermark if limit is None else min(self.high_watermark, limit - 1)
        aborted = tuple(id_ for id_ in self.aborted if id_ <= watermark)
        return replace(
            self, high_watermark=watermark, min_open=limit, open=(), aborted=aborted, view=ListView.COMPACTOR
        )

    def cleaner(self) -> ValidWriteIds:
        """The same ids under the cleaner's rules: a range that reaches above the watermark is not seen at all."""
        return replace(self, view=ListView.CLEANER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidTxns(IdList):
    """Valid transactions (ValidReadTxnList); they decide about compactor output, `_v` names."""

    @classmethod
    @cache
    def everything(cls) -> ValidTxns:
        """The list that excepts nothing."""
        return cls()

    @classmethod
    def parse(cls, text: str, *, list_format: TxnListFormat = TxnListFormat.HIVE4) -> ValidTxns:
        """Read Hive's text form; ranges are understood in every form, Hive 3 itself refuses them.

        A Hive 2 list mixes open and aborted ids. Those below its lowest open id can only be aborted; the
        others count as open, because nobody can tell.
        """
        if not text:
            return cls()
        fields = split_fields(text, ":")
        what = "transaction list"
        if len(fields) < 2:
            raise too_short(text, what, "high watermark:lowest open id:open ids:aborted ids")
        watermark = parse_number(fields[0], what, "the high watermark (field 1)")
        min_open = _none_if_max(parse_number(fields[1], what, "the lowest open id (field 2)"))
        if list_format is TxnListFormat.HIVE2:
            ids = [parse_number(f, what, f"the id in field {i}") for i, f in enumerate(fields[2:], 3) if f or i > 3]
            aborted = tuple(i for i in ids if min_open is None or i < min_open)
            open_ids = tuple(set(ids) - set(aborted))
            return cls(high_watermark=watermark, min_open=min_open, open=open_ids, aborted=aborted)
        open_ids = parse_ids(fields[2], what, "the open ids (field 3)") if len(fields) > 2 else ()
        aborted = parse_ids(fields[3], what, "the aborted ids (field 4)") if len(fields) > 3 else ()
        return cls(high_watermark=watermark, min_open=min_open, open=open_ids, aborted=aborted)

    def format(self, list_format: TxnListFormat = TxnListFormat.HIVE4) -> str:
        """Hive's text form (ValidReadTxnList.writeToString of that version)."""
        head = f"{self.high_watermark}:{MAX_ID if self.min_open is None else self.min_open}:"
        if list_format is TxnListFormat.HIVE2:
            return head + ":".join(map(str, self.exceptions))
        if list_format is TxnListFormat.HIVE3:
            return f"{head}{join_ids(self.open)}:{join_ids(self.aborted)}"
        return f"{head}{join_runs(self.open)}:{join_runs(self.aborted)}"

    def is_valid(self, id_: int) -> bool:
        """Whether the transaction is committed for this reader; 0 stands for "none" and always is."""
        return id_ == 0 or IdList.is_valid(self, id_)

    def is_valid_base(self, id_: int) -> bool:
        """Hive 2's isValidBase, where bases are named after transactions."""
        return id_ <= self.high_watermark and (self.min_open is None or id_ < self.min_open)


@dataclass(frozen=True, slots=True)
class ValidTxnWriteIds:
    """Write ids of all tables of one query (ValidTxnWriteIdList): `txn$list$list...`."""

    txn_id: int
    tables: Mapping[str, ValidWriteIds]

    @classmethod
    def parse(cls, text: str) -> ValidTxnWriteIds:
        """Read Hive's text form."""
        first, *rest = text.split("$")
        txn_id = parse_number(first, "list of tables", "the transaction id before the first $")
        tables: dict[str, ValidWriteIds] = {}
        for item in (ValidWriteIds.parse(part) for part in rest if part):
            name = item.table or "null"
            # Hive prints each table once, and would take the last one here.
            if name in tables:
                raise ListFormatError(
                    f"the list of tables holds write ids of {shorten(name)} twice",
                    ListFault.BAD_LIST,
                    hint="Paste the whole line that Hive printed, once: two lists may have run together.",
                )
            tables[name] = item
        return cls(txn_id, MappingProxyType(tables))

    def format(self) -> str:
        """Hive's text form, tables in the order they were given."""
        return "$".join([str(self.txn_id), *(item.format() for item in self.tables.values())])


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
    watermark, lowest, open_ids, aborted = _common(lists)
    table = next((item.table for item in lists if item.table is not None), None)
    return ValidWriteIds(high_watermark=watermark, min_open=lowest, open=open_ids, aborted=aborted, table=table)


def common_txns(lists: Sequence[ValidTxns]) -> ValidTxns:
    """`common_write_ids` for transactions."""
    watermark, lowest, open_ids, aborted = _common(lists)
    return ValidTxns(high_watermark=watermark, min_open=lowest, open=open_ids, aborted=aborted)


def _common(lists: Sequence[IdList]) -> tuple[int, int | None, tuple[int, ...], tuple[int, ...]]:
    watermark = min(item.high_watermark for item in lists)
    lowest = min((item.lowest_open for item in lists if item.lowest_open is not None), default=None)
    excepted = {id_ for item in lists for id_ in item.exceptions if id_ <= watermark}
    aborted = {
        id_
        for id_ in excepted
        if any(item.is_aborted(id_) for item in lists) and not any(item.is_valid(id_) for item in lists)
    }
    return watermark, lowest, tuple(excepted - aborted), tuple(aborted)


def _none_if_max(min_open: int) -> int | None:
    return None if min_open == MAX_ID else min_open


# --- texts ----------------------------------------------------------------------------------------------------------


def split_fields(text: str, separator: str) -> list[str]:
    """Split as Java's String.split does: trailing empty parts are dropped."""
    parts = text.split(separator)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def too_short(text: str, what: str, shape: str) -> ListFormatError:
    """The error for a text with too few fields."""
    return ListFormatError(f"'{shorten(text)}' is not a valid {what}: expected {shape}", ListFault.BAD_LIST)


def parse_number(text: str, what: str, which: str) -> int:
    """Read one 64-bit number; `which` field of `what` is for the error."""
    value = parse_long(text)
    if value is None:
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
