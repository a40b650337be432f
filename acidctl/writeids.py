"""What a reader may see: valid write ids of a table, valid transactions, and the texts Hive writes them in.

Takes the serialised lists that Hive hands a reader and answers questions about ids and ranges of ids, with
the predicates of `idlists`. Which form a text is (`recognise`) is decided here and nowhere else. No listing,
no storage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from types import MappingProxyType

from acidctl.errors import UsageError
from acidctl.idlists import (
    MAX_ID,
    IdList,
    ListFault,
    ListFormatError,
    RangeAnswer,
    WriteIdRange,
    describe_ids,
    join_ids,
    join_runs,
    parse_ids,
    parse_number,
    shorten,
    split_fields,
    too_short,
)

__all__ = [
    "MAX_ID",
    "ListFault",
    "ListFormatError",
    "ListView",
    "ManyLists",
    "RangeAnswer",
    "ReaderLists",
    "TxnListFormat",
    "ValidTxnWriteIds",
    "ValidTxns",
    "ValidWriteIds",
    "WriteIdRange",
    "describe_ids",
    "meet_txns",
    "meet_write_ids",
    "recognise",
    "recognise_many",
]


class ListView(Enum):
    """Whose predicates apply: a reader's, the compactor's (ValidCompactorWriteIdList) or the cleaner's
    (HIVE-27526).
    """

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
    """Valid write ids of one table (ValidReaderWriteIdList and, by `view`, its compactor and cleaner
    variants).
    """

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
        """Whether a compacted base up to `write_id` holds nothing that is open or unseen (Hive's
        isValidBase).
        """
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
        """The list a compactor works with: nothing at or above the lowest open id
        (createValidCompactWriteIdList).
        """
        limit = self.lowest_open
        watermark = self.high_watermark if limit is None else min(self.high_watermark, limit - 1)
        aborted = tuple(id_ for id_ in self.aborted if id_ <= watermark)
        return replace(
            self, high_watermark=watermark, min_open=limit, open=(), aborted=aborted, view=ListView.COMPACTOR
        )

    def cleaner(self) -> ValidWriteIds:
        """The same ids under the cleaner's rules: a range that reaches above the watermark is not seen at
        all.
        """
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
        lists = [ValidWriteIds.parse(part) for part in rest if part]
        return cls(txn_id, MappingProxyType({item.table or "null": item for item in lists}))

    def format(self) -> str:
        """Hive's text form, tables in the order they were given."""
        return "$".join([str(self.txn_id), *(item.format() for item in self.tables.values())])


@dataclass(frozen=True, slots=True)
class ReaderLists:
    """The lists a command was given; None for one not given, which counts as "everything committed"."""

    write_ids: ValidWriteIds | None = None
    txns: ValidTxns | None = None
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

    def for_acid_v1(self) -> ReaderLists:
        """The same lists on an ACID v1 table, where write id and transaction id are one.

        There one list serves as both, unless it names a table and so is from Hive 3 or later.
        """
        if self.write_ids is None and self.txns is not None:
            return replace(self, write_ids=ValidWriteIds.from_txns(self.txns))
        if self.txns is None and self.write_ids is not None and self.write_ids.table is None:
            # No v1 directory carries a `_v` suffix, so no transaction is left to be judged.
            return replace(self, txns=ValidTxns.everything())
        return self


def recognise(
    texts: Sequence[str],
    *,
    table: str | None = None,
    list_format: str | None = None,
    as_of: int | None = None,
) -> ReaderLists:
    """Tell which list each text is and read it; `UsageError` for what is empty, malformed or of another
    table.

    `table` is `db.name`; `list_format` is `hive4`, `hive3` or `hive2` and decides about texts that are valid
    in more than one form; `as_of` stands for "write ids up to N, nothing excepted".
    """
    form = _list_format(list_format)
    write_ids = txns = None
    if as_of is not None:
        if as_of < 0:
            raise UsageError(f"--as-of {as_of}: a write id cannot be negative")
        write_ids = ValidWriteIds.as_of(as_of)
    for text in texts:
        found = _recognise_one(text.strip(), table, form)
        if isinstance(found, ValidTxns):
            if txns is not None:
                raise UsageError("two transaction lists were given, and a reader has one", hint=_ONE_OF_EACH)
            txns = found
        else:
            if write_ids is not None:
                other = "a write-id list and --as-of" if as_of is not None else "two write-id lists"
                raise UsageError(f"{other} were given, and a reader has one", hint=_ONE_OF_EACH)
            write_ids = found
    notes = (*_contradictions("write-id list", write_ids), *_contradictions("transaction list", txns))
    return ReaderLists(write_ids, txns, notes)


@dataclass(frozen=True, slots=True)
class ManyLists:
    """The lists of several readers of one table, each kind in the order given; no order of time is assumed."""

    write_ids: tuple[ValidWriteIds, ...] = ()
    txns: tuple[ValidTxns, ...] = ()
    notes: tuple[str, ...] = ()


def recognise_many(
    texts: Sequence[str],
    *,
    table: str | None = None,
    list_format: str | None = None,
    as_of: int | None = None,
) -> ManyLists:
    """As `recognise`, for any number of lists of each kind; `UsageError` also for write ids of different tables."""
    write_ids: list[ValidWriteIds] = []
    txns: list[ValidTxns] = []
    notes: dict[str, None] = {}
    if as_of is not None:
        found = recognise((), as_of=as_of).write_ids
        assert found is not None
        write_ids.append(found)
    for text in texts:
        one = recognise((text,), table=table, list_format=list_format)
        notes.update(dict.fromkeys(one.notes))
        if one.txns is not None:
            txns.append(one.txns)
        if one.write_ids is not None:
            write_ids.append(one.write_ids)
    named = [item.table for item in write_ids if item.table is not None]
    for name in named:
        if not _same_table(name, named[0]):
            raise UsageError(
                f"the write-id lists are of different tables, {shorten(named[0])} and {shorten(name)}",
                hint="Write ids of one table mean nothing in another: give lists of this table only.",
            )
    return ManyLists(tuple(write_ids), tuple(txns), tuple(notes))


def meet_write_ids(lists: Sequence[ValidWriteIds]) -> ValidWriteIds:
    """What every one of these readers (at least one) may see, and so every later reader.

    An id that some reader does not see is open unless a list calls it aborted, which is for good. Where another
    list calls that id valid, the abort has been forgotten (a cleaner ran in between) and the id counts as open.
    """
    watermark, lowest, open_ids, aborted = _meet(lists)
    table = next((item.table for item in lists if item.table is not None), None)
    return ValidWriteIds(high_watermark=watermark, min_open=lowest, open=open_ids, aborted=aborted, table=table)


def meet_txns(lists: Sequence[ValidTxns]) -> ValidTxns:
    """`meet_write_ids` for transactions."""
    watermark, lowest, open_ids, aborted = _meet(lists)
    return ValidTxns(high_watermark=watermark, min_open=lowest, open=open_ids, aborted=aborted)


def _meet(lists: Sequence[IdList]) -> tuple[int, int | None, tuple[int, ...], tuple[int, ...]]:
    watermark = min(item.high_watermark for item in lists)
    lowest = min((item.lowest_open for item in lists if item.lowest_open is not None), default=None)
    excepted = {id_ for item in lists for id_ in item.exceptions if id_ <= watermark}
    aborted = {
        id_
        for id_ in excepted
        if any(item.is_aborted(id_) for item in lists) and not any(item.is_valid(id_) for item in lists)
    }
    return watermark, lowest, tuple(excepted - aborted), tuple(aborted)


_ONE_OF_EACH = "Give at most one write-id list and one transaction list."
_PERHAPS_HIVE2 = " Lists of Hive 2 are read rightly with --list-format hive2 only."
_FORMS = (
    "Give write ids (db.table:20:15:15,17:3,4,5), the write ids of a query (17$db.table:...) "
    "or transactions (11:4:4-8,10:2,9)."
)


def _list_format(name: str | None) -> TxnListFormat | None:
    if name is None:
        return None
    try:
        return TxnListFormat(name.lower())
    except ValueError:
        known = ", ".join(form.value for form in TxnListFormat)
        raise UsageError(f"'{shorten(name)}' is no list format; known are {known}") from None


def _recognise_one(text: str, table: str | None, form: TxnListFormat | None) -> ValidWriteIds | ValidTxns:
    if not text:
        raise UsageError("the list of valid ids is empty, and an empty list does not mean everything", hint=_FORMS)
    try:
        if "$" in text:
            return _choose_table(ValidTxnWriteIds.parse(text), table)
        first, colon, _ = text.partition(":")
        if not colon:
            raise ListFormatError(f"'{shorten(text)}' is no list of valid ids", ListFault.BAD_LIST)
        if first.lstrip("+-").isdigit():
            return _parse_txns(text, form)
        found = ValidWriteIds.parse(text)
        if text.count(":") > 4:
            raise ListFormatError(
                f"'{shorten(text)}' has {text.count(':') + 1} fields, a write-id list has at most 5",
                ListFault.BAD_LIST,
            )
    except ListFormatError as error:
        raise ListFormatError(error.message, error.fault, hint=error.hint or _FORMS) from None
    if table is not None and found.table is not None and not _same_table(found.table, table):
        raise UsageError(
            f"the write-id list is of table {shorten(found.table)}, not of {shorten(table)}",
            hint="Give the list of this table.",
        )
    return found


def _parse_txns(text: str, form: TxnListFormat | None) -> ValidTxns:
    fields = split_fields(text, ":")
    if form is None:
        # Five fields of plain numbers can only be Hive 2's flat list; up to four are a Hive 4 or 3.1 list.
        form = TxnListFormat.HIVE2 if len(fields) > 4 else TxnListFormat.HIVE4
    if form is not TxnListFormat.HIVE2 and len(fields) > 4:
        raise ListFormatError(
            f"'{shorten(text)}' has {len(fields)} fields, a {form.value} transaction list has at most 4",
            ListFault.BAD_LIST,
        )
    return ValidTxns.parse(text, list_format=form)


def _choose_table(lists: ValidTxnWriteIds, table: str | None) -> ValidWriteIds:
    known = shorten(", ".join(sorted(lists.tables)) or "none")
    if table is not None:
        for name, found in lists.tables.items():
            if _same_table(name, table):
                return found
        raise UsageError(f"the list holds no write ids of table {shorten(table)}; its tables: {known}")
    if len(lists.tables) != 1:
        raise UsageError(
            f"the list holds write ids of {len(lists.tables)} tables ({known}), so the table must be named",
            hint="Name it with --table db.name.",
        )
    return next(iter(lists.tables.values()))


def _same_table(name: str, wanted: str) -> bool:
    name, wanted = name.lower(), wanted.lower()
    # A name without database, or with a catalog in front, is compared by what both have.
    return name == wanted or name.endswith("." + wanted) or wanted.endswith("." + name)


def _contradictions(what: str, ids: IdList | None) -> list[str]:
    """Sentences about a list that a metastore would not hand out, or only by a fault."""
    if ids is None:
        return []
    notes = []
    if ids.open and (ids.min_open is None or ids.min_open > ids.open[0]):
        said = "none" if ids.min_open is None else str(ids.min_open)
        hive2 = isinstance(ids, ValidTxns) and len(ids.exceptions) < 3
        notes.append(
            f"The {what} names {said} as its lowest open id but lists {ids.open[0]} as open; "
            f"{ids.open[0]} is used." + (_PERHAPS_HIVE2 if hive2 else "")
        )
    beyond = [id_ for id_ in ids.exceptions if id_ > ids.high_watermark]
    if beyond:
        notes.append(f"The {what} excepts {describe_ids(beyond)}, above its own high watermark {ids.high_watermark}.")
    if ids.high_watermark in ids.aborted:
        notes.append(
            f"The high watermark {ids.high_watermark} of the {what} is itself aborted: Hive 4 hands out such "
            "a list when it forgot the committed ids above it, so rows of later commits may be missing."
        )
    return notes


def _none_if_max(min_open: int) -> int | None:
    return None if min_open == MAX_ID else min_open
