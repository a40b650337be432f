"""`acidctl lists`, `txns`, `locks` and `compactions`: what goes on in a metastore."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypedDict

import click

from acidctl.by_name import Metastore
from acidctl.cli.options import command as make_command
from acidctl.cli.options import metastore_option, require_metastore
from acidctl.cli.output import Cell, Column, Format, Output, Paint, human_age, plural
from acidctl.config import Config
from acidctl.errors import ExitCode, StorageError, UsageError
from acidctl.metastore import activity
from acidctl.metastore.activity import COMPACTION_KINDS, COMPACTION_STATES, Compaction, Lock, Transaction
from acidctl.metastore.catalog import require_name
from acidctl.options import option
from acidctl.state.report import document, iso_time, json_names, seconds_of
from acidctl.storage.locations import parse_filter
from acidctl.values import dataclass

# Of what waits to be cleaned; with -o json there is all of it.
_SOME = 10
_PAINTS = {
    "aborted": Paint.BAD,
    "failed": Paint.BAD,
    "refused": Paint.WARN,
    "did_not_initiate": Paint.WARN,
    "waiting": Paint.WARN,
    "working": Paint.GOOD,
    "ready_for_cleaning": Paint.WARN,
    "succeeded": Paint.DIM,
}
_EXITS = (ExitCode.DONE, ExitCode.FAILED, ExitCode.USAGE, ExitCode.STORAGE, ExitCode.INTERRUPTED)
_TABLE_EXITS = (*_EXITS, ExitCode.NO_SUCH_TABLE, ExitCode.NOT_ACID)


@dataclass(frozen=True, slots=True)
class ListsReport:
    """The lists of a table."""

    table: Annotated[str, "`db.table`"]
    txn: Annotated[int | None, "whose view it is, with `--txn`"]
    compacting: Annotated[bool, "whether it is that of a compaction"]
    write_ids: Annotated[str, "write-id list, for `--validtxns`"]
    txns: Annotated[str, "transaction list, for `--validtxns`"]


class TxnsReport(TypedDict):
    """Transactions of a metastore, and with --blocking what they keep."""

    metastore: Annotated[str, "address that answered"]
    blocking: Annotated[str | None, "table of `--blocking`"]
    transactions: Annotated[list[Transaction], "open ones, then aborted ones, each the oldest first"]
    waiting: Annotated[list[Compaction], "with `--blocking`: compactions of the table that wait to be cleaned up after"]


class LocksReport(TypedDict):
    """Locks of a metastore."""

    metastore: Annotated[str, "address that answered"]
    locks: Annotated[list[Lock], "what waits comes first"]


class CompactionsReport(TypedDict):
    """The compaction queue of a metastore."""

    metastore: Annotated[str, "address that answered"]
    compactions: Annotated[list[Compaction], "what is at work, then what waits, then what has ended"]


@dataclass(frozen=True, slots=True)
class _Watched:
    """How much is shown, and how often."""

    limit: int | None = option(None, "Show at most N.", metavar="N", minimum=0)
    watch: float | None = option(
        None,
        "Show it again every SECONDS, 5 if none are given, until Ctrl-C.",
        metavar="SECONDS",
        form="pause",
        bare="5",
    )


@dataclass(frozen=True, slots=True)
class ListsView:
    """Whose lists."""

    txn: int | None = option(None, "As transaction N sees it, its own writes too.", metavar="N", minimum=1)
    compacting: bool = option(False, "For a compaction: nothing from the lowest open write on.")


@dataclass(frozen=True, slots=True)
class TxnsView(_Watched):
    """Which transactions."""

    blocking: str | None = option(
        None,
        "Only those that keep what compactions of this table made obsolete from being cleaned.",
        metavar="DB.TABLE",
    )
    state: str | None = option(None, "Only those in this state.", choices=("open", "aborted"))


@dataclass(frozen=True, slots=True)
class LocksView(_Watched):
    """Which locks."""

    state: str | None = option(None, "Only those in this state.", choices=("acquired", "waiting"))


_SORTS: dict[str, Callable[[Compaction], Any]] = {
    "id": lambda one: one.id or 0,
    "table": lambda one: (one.table, one.partition, one.id or 0),
    "state": lambda one: (COMPACTION_STATES.index(one.state) if one.state in COMPACTION_STATES else 99, one.id or 0),
    "pool": lambda one: (one.pool, one.id or 0),
    "since": lambda one: one.since or "",
    "duration": lambda one: -(one.duration or 0),
}


@dataclass(frozen=True, slots=True)
class CompactionsView(_Watched):
    """Which compactions, in which order."""

    state: tuple[str, ...] = option((), "Only those in this state; repeatable.", choices=COMPACTION_STATES, repeat=True)
    pool: tuple[str, ...] = option((), "Only those of this pool; repeatable.", metavar="NAME", repeat=True)
    kind: tuple[str, ...] = option((), "Only those of this kind; repeatable.", choices=COMPACTION_KINDS, repeat=True)
    partition: tuple[str, ...] = option(
        (),
        "Only partitions with these values (`*` and `?` allowed); repeatable.",
        metavar="KEY=VALUE[/...]",
        repeat=True,
    )
    sort: str | None = option(
        None, "Order.  [default: at work, waiting, ended; the newest first]", choices=tuple(_SORTS)
    )


def _name_argument(*, required: bool) -> Callable[[Any], Any]:
    """A table by name, and the metastore that has it."""
    argument = click.argument("name", metavar="DB.TABLE" if required else "[DB.TABLE]", required=required)
    where = metastore_option()
    return lambda function: argument(where(function))


@make_command(
    "lists",
    ListsView,
    examples=(
        "acidctl lists sales.orders --metastore thrift://metastore:9083",
        "acidctl lists sales.orders --compacting > lists.txt",
    ),
    exits=_TABLE_EXITS,
    arguments=[_name_argument(required=True)],
)
def lists(out: Output, config: Config, asked: ListsView, *, name: str) -> ExitCode:
    """Print the write-id list and the transaction list that a query of DB.TABLE would get now.

    One line each, as Hive writes them, so that `--validtxns @FILE` takes both.
    """
    found = require_metastore(config).lists(name, txn=asked.txn or 0, compacting=asked.compacting)
    report = ListsReport(str(require_name(name)), asked.txn, asked.compacting, *found.texts)
    if not out.machine(lambda: document("lists", report), [document("lists", report)], json_names(ListsReport)):
        for text in found.texts:
            out.line(text)
    return ExitCode.DONE


@make_command(
    "txns",
    TxnsView,
    examples=(
        "acidctl txns --metastore thrift://metastore:9083",
        "acidctl txns --blocking sales.orders",
    ),
    exits=_TABLE_EXITS,
    arguments=[metastore_option()],
)
def txns(out: Output, config: Config, asked: TxnsView) -> ExitCode:
    """Show open and aborted transactions: whose they are, since when, and of what they hold locks.

    With --blocking: which open ones keep Hive's Cleaner from removing what compactions of a table made obsolete. Any
    transaction does so that was open when the compaction was committed, whatever it reads.
    """

    def show(metastore: Metastore) -> None:
        entries = () if asked.blocking is None else metastore.compactions(asked.blocking)
        known = metastore.transactions()
        keeping, waiting = activity.blockers(known, entries)
        found = [one for one in (known if asked.blocking is None else keeping) if asked.state in (None, one.state)]
        some = found[: asked.limit]
        head = {"metastore": str(metastore.client), "blocking": asked.blocking and str(require_name(asked.blocking))}
        body = {"transactions": [document("txn", one) for one in some]}
        answer = {**_typed("txns"), **head, **body, "waiting": [document("compaction", one) for one in waiting]}
        if out.machine(lambda: answer, answer["transactions"], json_names(Transaction)):
            return
        if asked.blocking is not None:
            _waiting(out, str(head["blocking"]), waiting, found)
        elif not found:
            out.line(f"No {asked.state or 'open or aborted'} transactions.")
        if some:
            _txn_table(out, some, len(waiting))
        _more(out, len(found) - len(some))

    return _shown(out, config, asked, show)


@make_command(
    "locks",
    LocksView,
    examples=(
        "acidctl locks --metastore thrift://metastore:9083",
        "acidctl locks sales.orders --watch 2",
    ),
    exits=_TABLE_EXITS,
    arguments=[_name_argument(required=False)],
)
def locks(out: Output, config: Config, asked: LocksView, *, name: str | None) -> ExitCode:
    """Show who holds or waits for which lock, of everything or of DB.TABLE and its database."""

    def show(metastore: Metastore) -> None:
        found = [one for one in metastore.locks(name) if asked.state in (None, one.state)]
        items = [document("lock", one) for one in found[: asked.limit]]
        answer = {**_typed("locks"), "metastore": str(metastore.client), "locks": items}
        if out.machine(lambda: answer, items, json_names(Lock)):
            return
        if found[: asked.limit]:
            _lock_table(out, found[: asked.limit])
        elif not found:
            out.line(
                f"No {asked.state + ' ' if asked.state else ''}locks{f' of {require_name(name)}' if name else ''}."
            )
        _more(out, len(found) - len(items))

    return _shown(out, config, asked, show)


@make_command(
    "compactions",
    CompactionsView,
    examples=(
        "acidctl compactions --metastore thrift://metastore:9083 --state working --state initiated",
        "acidctl compactions sales.orders --partition 'ds=2026-01-*' --limit 20",
        "acidctl compactions --pool night --watch",
    ),
    exits=_TABLE_EXITS,
    arguments=[_name_argument(required=False)],
)
def compactions(out: Output, config: Config, asked: CompactionsView, *, name: str | None) -> ExitCode:
    """Show the compaction queue and what is known of earlier compactions, of everything or of DB.TABLE."""
    filters = [parse_filter(text) for text in asked.partition]

    def chosen(one: Compaction) -> bool:
        return (
            (not asked.pool or one.pool in asked.pool)
            and (not asked.kind or one.kind in asked.kind)
            and (not filters or any(each.selects_text(one.partition) for each in filters))
        )

    def show(metastore: Metastore) -> None:
        found = [one for one in metastore.compactions(name, states=asked.state) if chosen(one)]
        if asked.sort:
            found.sort(key=_SORTS[asked.sort])
        items = [document("compaction", one) for one in found[: asked.limit]]
        answer = {**_typed("compactions"), "metastore": str(metastore.client), "compactions": items}
        if out.machine(lambda: answer, items, json_names(Compaction)):
            return
        if items:
            _compaction_table(out, found[: asked.limit])
        elif not found:
            narrowed = asked.state or asked.pool or asked.kind or asked.partition
            out.line(f"No {'such ' if narrowed else ''}compactions{f' of {require_name(name)}' if name else ''}.")
        _more(out, len(found) - len(items))

    return _shown(out, config, asked, show)


def _typed(kind: str) -> dict[str, Any]:
    return {"type": kind, "schema_version": 1}


# --- for eyes


def _shown(out: Output, config: Config, asked: _Watched, show: Callable[[Metastore], None]) -> ExitCode:
    """Show it once, or again and again; a metastore that is away for a while does not end that."""
    if asked.watch is not None and out.form is not Format.TEXT:
        raise UsageError("--watch is for eyes", hint=f"Leave it out, or leave out -o {out.form.value}.")
    metastore = require_metastore(config)
    if asked.watch is None:
        show(metastore)
        return ExitCode.DONE
    try:
        for turn in _turns(asked.watch):
            _heading(out, metastore, first=not turn)
            try:
                show(metastore)
            except StorageError as error:
                if not turn or not error.transient:
                    raise
                out.line(Cell(f"{error.message}; trying again", Paint.WARN))
            out.flush()
    except KeyboardInterrupt:
        pass
    return ExitCode.DONE


def _turns(pause: float) -> Iterator[int]:
    turn = 0
    while True:
        yield turn
        turn += 1
        time.sleep(pause)


def _heading(out: Output, metastore: Metastore, *, first: bool) -> None:
    """When this is from; a terminal begins anew, a file gets a blank line."""
    if out.width is not None:
        out.data(b"\x1b[H\x1b[2J")
    elif not first:
        out.line()
    out.line(Cell(f"{iso_time(time.time())}  {metastore.client}  (Ctrl-C ends this)", Paint.DIM))


def _more(out: Output, count: int) -> None:
    if count > 0:
        out.line(f"... and {count:,} more")


def _age(when: str | None) -> str | None:
    seconds = seconds_of(when)
    return None if seconds is None else human_age(time.time() - seconds)


def _state(state: str) -> Cell:
    return Cell(state.replace("_", " "), _PAINTS.get(state))


def _txn_table(out: Output, found: Sequence[Transaction], waiting: int) -> None:
    """One line each; what it reads or writes stands beside or below."""
    columns = [
        Column("TXN", right=True),
        Column("STATE"),
        *([Column("KIND", drop=2)] if any(one.kind for one in found) else ()),
        *([Column("KEEPS", right=True)] if waiting else ()),
        Column("AGE", right=True),
        Column("HEARTBEAT", right=True, drop=1),
        Column("USER"),
        Column("HOST", drop=3),
        Column("TABLES, AGENT", below=True),
    ]
    typed = any(one.kind for one in found)
    rows = [
        [
            one.id,
            _state(one.state),
            *([(one.kind or "").replace("_", " ")] if typed else ()),
            *([f"{len(one.blocks)} of {waiting}"] if waiting else ()),
            _age(one.started),
            _age(one.last_heartbeat),
            one.user,
            one.host,
            " ".join([", ".join(one.tables) or "no locks", *([f"({one.agent})"] if one.agent else ())]),
        ]
        for one in found
    ]
    out.table(columns, rows)


def _waiting(out: Output, name: str, waiting: Sequence[Compaction], found: Sequence[Transaction]) -> None:
    """What waits to be cleaned, and whether transactions are why."""
    if not waiting:
        out.line(f"No compaction of {name} waits to be cleaned up after.")
        return
    verb = "waits" if len(waiting) == 1 else "wait"
    out.line(f"{plural(len(waiting), 'compaction')} of {name} {verb} to be cleaned up after:")
    columns = (Column("ID", right=True), Column("KIND"), Column("SINCE", right=True), Column("PARTITION"))
    rows = [[one.id, one.kind, _age(one.since), one.partition or "-"] for one in waiting[:_SOME]]
    out.table(columns, rows)
    _more(out, len(waiting) - _SOME)
    unknown = [str(one.id) for one in waiting if one.next_txn is None]
    if unknown:
        out.warn(
            f"The metastore does not say which transactions are older than {plural(len(unknown), 'compaction')} "
            f"({', '.join(unknown[:_SOME])}): of a Hive 3, or not committed."
        )
    out.line()
    if not found:
        out.wrapped("No open transaction keeps them: all that were open at their commit are over.")


def _lock_table(out: Output, found: Sequence[Lock]) -> None:
    waits = any(one.blocked_by for one in found)
    columns = (
        Column("TABLE"),
        Column("LOCK", right=True),
        Column("KIND"),
        Column("STATE"),
        *([Column("WAITS FOR")] if waits else ()),
        Column("TXN", right=True),
        Column("AGE", right=True, drop=1),
        Column("USER"),
        Column("HOST", drop=2),
        Column("AGENT", drop=3),
    )
    rows = [
        [
            one.name + (f" {one.partition}" if one.partition else ""),
            one.id if one.part is None else f"{one.id}.{one.part}",
            one.kind.replace("_", " "),
            _state(one.state),
            *([one.blocked_by] if waits else ()),
            one.txn,
            _age(one.acquired),
            one.user,
            one.host,
            one.agent,
        ]
        for one in found
    ]
    out.named_table(columns, rows)


def _compaction_table(out: Output, found: Sequence[Compaction]) -> None:
    """One line each; of what nobody has an entry there is no column."""
    columns = (
        Column("TABLE"),
        Column("ID", right=True),
        Column("KIND"),
        Column("STATE"),
        Column("SINCE", right=True),
        Column("TOOK", right=True, drop=1),
        Column("POOL", drop=2),
        Column("TXN", right=True, drop=3),
        Column("WORKER", drop=4),
        Column("ERROR", below=True),
    )
    rows = [
        [
            one.table + (f" {one.partition}" if one.partition else ""),
            one.id,
            one.kind.replace("_", " "),
            _state(one.state),
            _age(one.since),
            None if one.duration is None else human_age(one.duration),
            one.pool,
            one.txn,
            one.worker,
            one.error,
        ]
        for one in found
    ]
    used = [index for index in range(len(columns)) if any(row[index] is not None for row in rows)]
    out.named_table([columns[index] for index in used], [[row[index] for index in used] for row in rows])
