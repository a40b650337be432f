"""From the texts that a user pasted to the lists they hold: which form each has, and whether it is whole.

A list that was cut off or wrapped reads as one with fewer open and aborted ids, and then rows of writes that failed
count as committed. So what cannot be what Hive printed is refused, with what to paste instead. Commands that change
data (`complete`) want every field; others take a list that ends early where nothing contradicts it, and say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from acidctl.errors import UsageError
from acidctl.format.names import same_table
from acidctl.format.write_ids import (
    TXN_FIELDS,
    WRITE_ID_FIELDS,
    IdList,
    ListFormatError,
    Reader,
    TxnListFormat,
    ValidTxns,
    ValidWriteIds,
    describe_ids,
    parse_number,
    shorten,
)

_ONE_OF_EACH = "Give at most one write-id list and one transaction list, each as one line."
_PERHAPS_HIVE2 = " Lists of Hive 2 are read correctly only with --list-format hive2."
_NEEDS_HIVE2 = "If it is of Hive 2, add --list-format hive2."
_FORMS = (
    "Give write ids (db.table:20:15:15,17:3,4,5), the write ids of a query (17$db.table:...) "
    "or transactions (11:4:4-8,10:2,9)."
)
_WHOLE_LINE = "Paste the whole line that Hive printed, unbroken"
_QUOTES = "\"'`\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}" + (
    "\N{RIGHT SINGLE QUOTATION MARK}"
)
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
_KEY = re.compile(r"\s*[\w.\-]+\s*=\s*")


class ManyLists(NamedTuple):
    """The lists of several readers of one table, each kind in the order given; no order of time is assumed."""

    write_ids: tuple[ValidWriteIds, ...] = ()
    txns: tuple[ValidTxns, ...] = ()
    notes: tuple[str, ...] = ()


def recognise(
    texts: Sequence[str],
    *,
    table: str | None = None,
    list_format: str | None = None,
    as_of: int | None = None,
    complete: bool = False,
) -> Reader:
    """Tell which list each text is and read it; `UsageError` for what is empty, malformed, not whole or of another
    table.

    `table` is `db.name`; `list_format` is `hive4`, `hive3` or `hive2` and decides about texts that are valid
    in more than one form; `as_of` stands for "write ids up to N, nothing excepted". `complete` wants every field.
    """
    found = _read_all(texts, table, list_format, as_of, complete)
    if len(found.txns) > 1:
        raise UsageError("two transaction lists were given, and a reader has one", hint=_ONE_OF_EACH)
    if len(found.write_ids) > 1:
        other = "a write-id list and --as-of" if as_of is not None else "two write-id lists"
        raise UsageError(f"{other} were given, and a reader has one", hint=_ONE_OF_EACH)
    return Reader(next(iter(found.write_ids), None), next(iter(found.txns), None), notes=found.notes)


def recognise_many(
    texts: Sequence[str],
    *,
    table: str | None = None,
    list_format: str | None = None,
    as_of: int | None = None,
    complete: bool = False,
) -> ManyLists:
    """As `recognise`, for any number of lists of each kind; `UsageError` also for write ids of different tables."""
    lists = _read_all(texts, table, list_format, as_of, complete)
    named = [item.table for item in lists.write_ids if item.table is not None]
    for name in named:
        if not same_table(name, named[0]):
            raise UsageError(
                f"the write-id lists are of different tables, {shorten(named[0])} and {shorten(name)}",
                hint="Write ids of one table mean nothing in another: give lists of this table only.",
            )
    return lists


def _read_all(
    texts: Sequence[str], table: str | None, list_format: str | None, as_of: int | None, complete: bool
) -> ManyLists:
    form = _list_format(list_format)
    write_ids: list[ValidWriteIds] = []
    txns: list[ValidTxns] = []
    notes: dict[str, None] = {}
    if as_of is not None:
        if as_of < 0:
            raise UsageError(f"--as-of {as_of}: a write id cannot be negative")
        write_ids.append(ValidWriteIds.as_of(as_of))
    for text in texts:
        line = _line(text)
        short = next(_cut_off(line, form), None)
        found = _recognise_one(line, table, form)
        _require_one_list_each(line)
        what = "transaction list" if isinstance(found, ValidTxns) else "write-id list"
        if found.high_watermark < 0:
            raise ListFormatError(
                f"the {what} {_quoted(line)} has a negative high watermark, and Hive counts from 0",
                hint=f"{_WHOLE_LINE}, and nothing in front of it.",
            )
        if not _lists_lowest_open(found, complete=complete, hive2=form is TxnListFormat.HIVE2):
            listed = f"lists {describe_ids(found.open)}" if found.open else "lists none"
            raise ListFormatError(
                f"the {what} {_quoted(line)} names {found.min_open} as its lowest open id, but as open ids it {listed}",
                hint=f"{_WHOLE_LINE}: it was cut off, wrapped or edited."
                + (_PERHAPS_HIVE2 if isinstance(found, ValidTxns) else ""),
            )
        if short is not None and (complete or len(texts) > 1):
            why = "and another text is given beside it" if len(texts) > 1 else "and open or aborted ids may be missing"
            raise ListFormatError(
                f"the list of valid ids {short.shown} has {short.has} ({short.fields}), {why}",
                hint=f"{_WHOLE_LINE}; with nothing open and nothing aborted it looks like {short.whole}."
                + (f" {_NEEDS_HIVE2}" if form is None and isinstance(found, ValidTxns) else ""),
            )
        if short is not None:
            notes[f"The {what} {short.shown} has {short.has} ({short.fields}): what is missing counts as empty."] = None
        if isinstance(found, ValidWriteIds):
            write_ids.append(found)
        else:
            if complete and form is None and line.count(":") > 3:
                raise UsageError(
                    f"{_quoted(line)} has {line.count(':') + 1} fields, as only a transaction list of Hive 2 has",
                    hint="Add --list-format hive2 if it is one; else paste the line that Hive printed.",
                )
            txns.append(found)
        notes.update(dict.fromkeys(_contradictions(what, found)))
    return ManyLists(tuple(write_ids), tuple(txns), tuple(notes))


# --- is it what Hive printed? ---------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    return f"'{shorten(text)}'"


def _line(text: str) -> str:
    """The text without what surrounds it harmlessly; `UsageError` for what was not pasted as Hive prints it."""
    line = text.strip().lstrip(_BYTE_ORDER_MARK).strip()
    if not line:
        raise UsageError("the list of valid ids is empty, and an empty list does not mean everything", hint=_FORMS)
    if len(line.splitlines()) > 1:
        raise UsageError(
            f"the list of valid ids {_quoted(line)} is broken over several lines",
            hint=f"{_WHOLE_LINE}; give --validtxns once for each list.",
        )
    if line[0] in "[{":
        raise UsageError(
            f"{_quoted(line)} is JSON, and a list of valid ids is wanted",
            hint="Paste the text of each list alone, without brackets, braces and quotes.",
        )
    if line[0] in _QUOTES or line[-1] in _QUOTES:
        raise UsageError(
            f"the list of valid ids {_quoted(line)} has quotes around it",
            hint=f"Paste it without them: {shorten(line.strip(_QUOTES))}",
        )
    key = _KEY.match(line)
    if key is not None:
        raise UsageError(
            f"{_quoted(line)} begins with the name of a setting",
            hint=f"Paste what follows the '=': {shorten(line[key.end() :].strip(_QUOTES))}",
        )
    if line[-1] in ",$-":
        raise ListFormatError(
            f"the list of valid ids {_quoted(line)} ends in '{line[-1]}', so it was cut off or wrapped",
            hint=f"{_WHOLE_LINE}.",
        )
    return line


def _require_one_list_each(line: str) -> None:
    """Refuse write-id lists that hold more than one, and names of tables that are more than a name."""
    for part in line.split("$")[1:] if "$" in line else [line]:
        name, *fields = part.split(":")
        if _is_number(name):
            continue
        if any(fields[4:]):
            raise ListFormatError(
                f"the write-id list {_quoted(part)} has {len(fields) + 1} fields of 5 ({WRITE_ID_FIELDS})",
                hint=f"{_WHOLE_LINE}: two lists may have run together.",
            )
        odd = next((letter for letter in name if letter in _QUOTES or letter == "=" or letter.isspace()), None)
        if odd is not None:
            raise UsageError(
                f"the write-id list {_quoted(part)} has {odd!r} in the name of its table",
                hint=f"{_WHOLE_LINE}, without quotes and without the name of the setting.",
            )


class _Short(NamedTuple):
    """A list that ends early: how it looks, what it has, and what a whole one has and looks like."""

    shown: str
    has: str
    fields: str
    whole: str


def _cut_off(line: str, form: TxnListFormat | None) -> Iterator[_Short]:
    """The lists in a text of which fields are missing. Hive writes every separator, also between empty fields."""
    for part in line.split("$")[1:] if "$" in line else [line]:
        colons = part.count(":")
        has = f"{colons + 1} fields of"
        if not _is_number(part.partition(":")[0]):
            if colons < 4:
                yield _Short(_quoted(part), f"{has} 5", WRITE_ID_FIELDS, "db.table:9:9223372036854775807::")
        elif form is not TxnListFormat.HIVE2:
            if colons < 3:
                yield _Short(_quoted(part), f"{has} 4", TXN_FIELDS, "9:9223372036854775807::")
        elif colons < 2 or (colons > 2 and part.endswith(":")):
            # With nothing excepted a colon ends the list, else an id does.
            yield _Short(_quoted(part), "no last id", "high watermark:lowest open id:ids", "9:9223372036854775807:")


def _lists_lowest_open(ids: IdList, *, complete: bool, hive2: bool) -> bool:
    """Whether the open ids of a list hold what it names as the lowest open one; else they were cut off."""
    lowest = ids.min_open
    if lowest is None or lowest > ids.high_watermark or lowest in ids.open:
        return True
    # A query's own transaction may be the lowest open one, and is not listed. Its list ends there but in Hive 2.
    own = (ids.exceptions and lowest == ids.high_watermark) or (ids.open and hive2)
    if isinstance(ids, ValidTxns) and own:
        return True
    # Where a lower id is open, bases and rows above it are judged by that one.
    return not complete and bool(ids.open) and ids.open[0] < lowest


# --- which form is it? ----------------------------------------------------------------------------------------------


def _list_format(name: str | None) -> TxnListFormat | None:
    if name is None:
        return None
    try:
        return TxnListFormat(name.lower())
    except ValueError:
        known = ", ".join(form.value for form in TxnListFormat)
        raise UsageError(f"'{shorten(name)}' is not a list format; expected one of {known}") from None


def _is_number(text: str) -> bool:
    return text.lstrip("+-").isdigit()


def _recognise_one(text: str, table: str | None, form: TxnListFormat | None) -> ValidWriteIds | ValidTxns:
    try:
        if "$" in text:
            return _choose_table(parse_tables(text)[1], table)
        first, colon, _ = text.partition(":")
        if not colon or not re.search(r"\w", first):
            raise ListFormatError(f"{_quoted(text)} is not a list of valid ids")
        if _is_number(first):
            return _parse_txns(text, form)
        if re.search(r"[\s,;<>]", first):
            raise ListFormatError(f"{_quoted(text)} begins neither with a table nor with a number")
        found = ValidWriteIds.parse(text)
        if text.count(":") > 4:
            raise ListFormatError(
                f"{_quoted(text)} has {text.count(':') + 1} fields, a write-id list has at most 5",
            )
    except ListFormatError as error:
        raise ListFormatError(error.message, hint=error.hint or _FORMS) from None
    if table is not None and found.table is not None and not same_table(found.table, table):
        raise UsageError(
            f"the write-id list is of table {shorten(found.table)}, not of {shorten(table)}",
            hint="Give the list of this table.",
        )
    return found


def _parse_txns(text: str, form: TxnListFormat | None) -> ValidTxns:
    # Five fields of plain numbers can only be Hive 2's flat list; up to four are a Hive 4 or 3.1 list.
    fields = len(text.rstrip(":").split(":"))
    if form is None:
        form = TxnListFormat.HIVE2 if fields > 4 else TxnListFormat.HIVE4
    if form is not TxnListFormat.HIVE2 and fields > 4:
        raise ListFormatError(
            f"{_quoted(text)} has {fields} fields, a {form.value} transaction list has at most 4",
        )
    found = ValidTxns.parse(text, list_format=form)
    ids = [int(field) for field in text.split(":")[2:] if field] if form is TxnListFormat.HIVE2 else []
    if any(one >= other for one, other in pairwise(ids)):
        raise ListFormatError(
            f"the transaction list {_quoted(text)} has ids that do not ascend, as those of Hive 2 do",
            hint=f"{_WHOLE_LINE}, once: two lists may have run together.",
        )
    return found


def parse_tables(text: str) -> tuple[int, dict[str, ValidWriteIds]]:
    """The transaction of a query and the write ids of its tables (ValidTxnWriteIdList): `txn$list$list...`."""
    first, *rest = text.split("$")
    txn_id = parse_number(first, "list of tables", "the transaction id before the first $")
    tables: dict[str, ValidWriteIds] = {}
    for found in (ValidWriteIds.parse(part) for part in rest if part):
        name = found.table or "null"
        # Hive prints each table once, and would take the last one here.
        if name in tables:
            raise ListFormatError(
                f"the list of tables holds write ids of {shorten(name)} twice",
                hint="Paste the whole line that Hive printed, once: two lists may have run together.",
            )
        tables[name] = found
    return txn_id, tables


def _choose_table(tables: Mapping[str, ValidWriteIds], table: str | None) -> ValidWriteIds:
    known = shorten(", ".join(sorted(tables)) or "none")
    if table is not None:
        for name, found in tables.items():
            if same_table(name, table):
                return found
        raise UsageError(f"the list holds no write ids of table {shorten(table)}; its tables: {known}")
    if len(tables) != 1:
        raise UsageError(
            f"the list holds write ids of {len(tables)} tables ({known}), so the table must be named",
            hint="Name it with --table db.name.",
        )
    return next(iter(tables.values()))


def _contradictions(what: str, ids: IdList) -> Iterator[str]:
    """Sentences about a list that a metastore would not hand out, or only by a fault."""
    if ids.open and (ids.min_open is None or ids.min_open > ids.open[0]):
        stated = "none" if ids.min_open is None else str(ids.min_open)
        hive2 = isinstance(ids, ValidTxns) and len(ids.exceptions) < 3
        yield (
            f"The {what} names {stated} as its lowest open id but lists {ids.open[0]} as open; "
            f"{ids.open[0]} is used." + (_PERHAPS_HIVE2 if hive2 else "")
        )
    beyond = [id_ for id_ in ids.exceptions if id_ > ids.high_watermark]
    if beyond:
        yield f"The {what} excepts {describe_ids(beyond)}, above its own high watermark {ids.high_watermark}."
    # That of a compaction ends below the lowest open id, whatever became of the one before.
    if ids.high_watermark in ids.aborted and ids.min_open != ids.high_watermark + 1:
        yield (
            f"The last id of the {what}, {ids.high_watermark}, is an aborted one: mostly the last write was rolled "
            "back; but Hive 4 also ends a list there when it forgot committed ids above it, and their rows are missing."
        )
