"""`acidctl ls`: every directory of a table with its state, the reason, and the directory that causes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from acidctl.api import ls_names
from acidctl.cli.options import by_name, flag_of, read_file, read_stdin, require_metastore, table_argument, table_of
from acidctl.cli.options import command as make_command
from acidctl.cli.output import (
    Cell,
    Column,
    Format,
    Output,
    Paint,
    display_width,
    human_age,
    human_size,
    plural,
    progress,
    shown,
)
from acidctl.config import Config
from acidctl.errors import ExitCode, UsageError
from acidctl.options import LsOptions, option
from acidctl.state.entries import EntryState
from acidctl.state.report import (
    SCHEMA_VERSION,
    LsEntry,
    LsPartition,
    LsReport,
    LsSummary,
    LsTable,
    document,
    json_names,
    seconds_of,
)
from acidctl.values import dataclass

_PAINTS = {
    EntryState.LIVE.value: Paint.GOOD,
    EntryState.OBSOLETE.value: Paint.DIM,
    EntryState.ABORTED.value: Paint.BAD,
    EntryState.OPEN.value: Paint.WARN,
    EntryState.ABOVE_WATERMARK.value: Paint.WARN,
    EntryState.NOT_VISIBLE.value: Paint.WARN,
    EntryState.UNUSABLE.value: Paint.WARN,
    EntryState.HIDDEN.value: Paint.DIM,
    EntryState.UNRECOGNISED.value: Paint.BAD,
}
_STATES = tuple(_PAINTS)
_SORTS: dict[str, Callable[[LsEntry], Any]] = {
    "name": lambda entry: (entry.partition, entry.name),
    "state": lambda entry: _STATES.index(entry.state),
    "bytes": lambda entry: -(entry.bytes or 0),
    "files": lambda entry: -entry.files,
    "rows": lambda entry: -(entry.rows or 0),
    "age": lambda entry: seconds_of(entry.modified) or 0.0,
}
_TYPE_WORDS = {
    "full": "full ACID table",
    "insert_only": "insert-only table",
    "originals": "ORC files without ACID directories",
    "empty": "empty table",
}


@dataclass(frozen=True, slots=True)
class View:
    """What of the report is shown, and in which order."""

    by_partition: bool = option(False, "One line per partition, the worst first.")
    by_table: bool = option(
        False, "One line per transactional table of a metastore, the worst first; TABLE is a pattern: 'sales.*'."
    )
    sort: str | None = option(None, "Order of the entries.  [default: as they were written]", choices=tuple(_SORTS))
    limit: int | None = option(None, "Show at most N entries or partitions.", metavar="N", minimum=0)
    state: tuple[str, ...] = option((), "Show only entries in this state; repeatable.", choices=_STATES, repeat=True)
    names: str | None = option(
        None, "Take names or the output of `hdfs dfs -ls -R` instead of a storage.", metavar="FILE|-"
    )


@make_command(
    "ls",
    LsOptions,
    View,
    examples=(
        "acidctl ls /warehouse/orders --validtxns default.orders:20:15:15,17:3,4,5",
        "acidctl ls 'sales.*' --by-table --metastore thrift://metastore:9083",
        "hdfs dfs -ls -R /warehouse/orders | acidctl ls --names - /warehouse/orders",
    ),
    arguments=[table_argument(required=False)],
)
def command(out: Output, config: Config, asked: LsOptions, view: View, *, location: str) -> ExitCode:
    """Show every directory of TABLE with its state, and why.

    States are those of a reader who may see what --validtxns says. Without lists everything counts as committed,
    and open or aborted writes cannot be distinguished from committed ones.
    """
    if view.by_table:
        return _tables(out, config, asked, view, location or "*.*")
    started = time.monotonic()
    if view.names is not None:
        names = read_stdin() if view.names == "-" else read_file(view.names, f"--names {view.names}", view.names)
        answer = ls_names((names, location or None), **asked.keywords())
    elif not location:
        raise UsageError("TABLE is missing", hint="Give the table's directory, or a listing with --names.")
    else:
        metastore, name = by_name(config, location)
        if metastore is not None and any(mark in name for mark in "*?"):
            raise UsageError(
                f"{name!r} is a pattern of names, not a table",
                hint="Add --by-table for one line per table that matches.",
            )
        table = table_of(config, location)
        with progress(out, "reading the ends of files", "directories") as report_progress:
            answer = table.ls(**replace(asked, progress=report_progress).keywords())
    took = time.monotonic() - started
    out.detail(f"{plural(answer.summary.entries, 'entry', 'entries')} listed and judged in {took:.2f} s")
    _remark(out, answer)
    entries = [entry for entry in answer.entries if not view.state or entry.state in view.state]
    if view.sort:
        entries.sort(key=_SORTS[view.sort])
    parts = sorted(answer.partitions, key=_badness) if view.by_partition else []
    if not _machine(out, answer, entries[: view.limit], parts[: view.limit], asked, view):
        _header(out, answer)
        if view.by_partition:
            _partition_table(out, parts[: view.limit])
        elif entries[: view.limit]:
            _entry_table(out, entries[: view.limit], answer, with_rows=asked.rows, sorted_by=view.sort)
        total = len(parts if view.by_partition else entries)
        if view.limit is not None and total > view.limit:
            out.line(f"... and {total - view.limit:,} more")
    if answer.damaged_live:
        return ExitCode.DAMAGED
    return ExitCode.FINDINGS if answer.has_findings else ExitCode.DONE


def _remark(out: Output, answer: LsReport) -> None:
    """Everything a reader of the answer has to know, on stderr."""
    out.assumed(answer.assumed)
    out.note(*answer.notes)
    out.warn(*answer.warnings)
    out.warn(*(text for text in answer.doubts if text not in answer.warnings))
    out.warn(*(_where(gap.partition) + gap.message + (f" {gap.hint}" if gap.hint else "") for gap in answer.gaps))
    out.warn(*(_where(item.partition) + item.message for item in answer.disagreements))
    out.warn(*(item.message for item in answer.damaged))


def _where(partition: str) -> str:
    return f"{partition}: " if partition else ""


def _badness(part: LsPartition) -> tuple[bool, int, int, int, str]:
    """The order of partitions: not readable, then not understood, then the most deltas, then the most to reclaim."""
    odd = part.summary.states.get(EntryState.UNRECOGNISED.value, 0)
    deltas = part.summary.deltas + part.summary.delete_deltas
    return (part.readable, -odd, -deltas, -(part.summary.bytes_reclaimable or 0), part.partition)


def _machine(
    out: Output,
    answer: LsReport,
    entries: Sequence[LsEntry],
    parts: Sequence[LsPartition],
    asked: LsOptions,
    view: View,
) -> bool:
    """One entry, or with --by-partition one partition, a line."""
    if not view.by_partition:

        def shown_entries() -> object:
            found = document("ls", replace(answer, entries=tuple(entries), partitions=()))
            del found["partitions"]
            return found

        names = [name for name in json_names(LsEntry) if name != "file_list" or asked.long]
        return out.machine(shown_entries, (document("ls_entry", entry) for entry in entries), names)
    figures = [one.name for one in fields(LsSummary) if one.name != "states"]
    states = [state.value for state in EntryState]
    items = (document("ls_partition", part) for part in parts)
    if out.form is Format.CSV:
        # The figures stand beside the name, and each state has a column.
        items = (
            {**item, **item["summary"], "states": {state: item["summary"]["states"].get(state, 0) for state in states}}
            for item in items
        )
    return out.machine(
        lambda: document("ls", replace(answer, entries=tuple(entries), partitions=tuple(parts))),
        items,
        ["partition", "readable", *figures, *(f"states.{state}" for state in states)],
    )


# --- by table

_TABLE_OPTIONS = ("by_table", "limit")


def _tables(out: Output, config: Config, asked: LsOptions, view: View, pattern: str) -> ExitCode:
    """One line per table of a metastore, each with its own lists of this moment."""
    given: list[tuple[LsOptions | View, Any]] = [
        (asked, one) for one in fields(LsOptions) if one.name not in ("profile", "progress")
    ]
    given += [(view, one) for one in fields(View) if one.name not in _TABLE_OPTIONS]
    for options, one in given:
        if getattr(options, one.name) != one.default:
            raise UsageError(f"{flag_of(one)} is for one table, not for --by-table")
    found, name = by_name(config, pattern)
    metastore = found or require_metastore(config)
    with progress(out, "listing", "tables") as report_progress:
        tables = sorted(metastore.ls(name, profile=asked.profile, progress=report_progress), key=_table_badness)
    shown_tables = tables[: view.limit]
    items = [document("ls_table", table) for table in shown_tables]
    answer = {
        "type": "ls_tables",
        "schema_version": SCHEMA_VERSION,
        "metastore": str(metastore.client),
        "tables": items,
    }
    columns = [name for name in json_names(LsTable) if name not in ("summary", "problem")]
    figures = [f"summary.{one.name}" for one in fields(LsSummary) if one.name != "states"]
    if not out.machine(lambda: answer, items, [*columns, *figures, "problem.code", "problem.message"]):
        _table_table(out, shown_tables)
        if len(tables) > len(shown_tables):
            out.line(f"... and {len(tables) - len(shown_tables):,} more")
    return ExitCode.FINDINGS if any(table.findings for table in tables) else ExitCode.DONE


def _table_badness(table: LsTable) -> tuple[bool, int, int, int, str]:
    """The order of tables, as that of partitions; what has the most deltas in one partition first."""
    if table.summary is None:
        return (False, 0, 0, 0, table.table)
    odd = table.summary.states.get(EntryState.UNRECOGNISED.value, 0)
    reclaimable = table.summary.bytes_reclaimable or 0
    return (table.readable, -odd, -table.most_deltas, -reclaimable, table.table)


def _table_table(out: Output, tables: Sequence[LsTable]) -> None:
    columns = (
        Column("TABLE"),
        Column("PARTITIONS", right=True, drop=3),
        Column("DELTAS", right=True),
        Column("MOST", right=True, drop=2),
        Column("LIVE", right=True),
        Column("DELTA BYTES", right=True, drop=4),
        Column("RECLAIMABLE", right=True),
        Column("OLDEST", right=True, drop=1),
        Column("NOT READ", below=True),
    )
    rows: list[list[object]] = []
    for table in tables:
        summary, oldest = table.summary, seconds_of(table.oldest)
        if summary is None:
            message = table.problem.message if table.problem else ""
            rows.append([Cell(table.table, Paint.BAD), *[None] * 7, message])
            continue
        sizes = (summary.bytes_live, table.bytes_deltas, summary.bytes_reclaimable)
        live, deltas, reclaimable = (None if size is None else human_size(size) for size in sizes)
        row: list[object] = [
            Cell(table.table, None if table.readable else Paint.BAD),
            summary.partitions,
            summary.deltas + summary.delete_deltas,
            table.most_deltas,
            *(live, deltas, reclaimable),
            None if oldest is None else human_age(time.time() - oldest),
            ", ".join([*([] if table.readable else ["not readable: not enough history"]), *_unread(summary)]),
        ]
        rows.append(row)
    out.named_table(columns, rows)


# --- for eyes


def _header(out: Output, answer: LsReport) -> None:
    """What the table is, what a reader reads, what could go."""
    summary = answer.summary
    kind = _TYPE_WORDS.get(answer.table_type, answer.table_type)
    profile = "" if answer.profile == "strict" else f", by the rules of profile {answer.profile}"
    title = Cell(answer.location, Paint.BOLD)
    if out.width is None or display_width(f"{shown(answer.location)}  {kind}{profile}") <= out.width:
        out.line(title, f"  {kind}{profile}")
    else:
        out.line(title)
        out.line(f"  {kind}{profile}")
    if not summary.entries:
        return
    base = f"base {summary.base}" if summary.base else plural(summary.bases, "base") if summary.bases else "no base"
    phrases = [
        plural(summary.partitions, "partition") if summary.partitions > 1 else "",
        base,
        plural(summary.deltas, "live delta"),
        plural(summary.delete_deltas, "live delete delta") if summary.delete_deltas else "",
        plural(summary.original_files, "original file") if summary.original_files else "",
    ]
    _header_line(out, "read", [*filter(None, phrases), _amount(summary.files_live, summary.bytes_live)])
    _header_line(out, "not read", _unread(summary))
    if summary.reclaimable:
        freed = _amount(summary.files_reclaimable, summary.bytes_reclaimable)
        _header_line(out, "reclaimable", [plural(summary.reclaimable, "entry", "entries"), freed])


def _header_line(out: Output, title: str, phrases: Sequence[str]) -> None:
    """Phrases with commas between; none is broken."""
    if phrases:
        out.wrapped([f"{title}:", *(f"{phrase}," for phrase in phrases[:-1]), phrases[-1]], indent="  ")


def _amount(files: int, size: int | None) -> str:
    return plural(files, "file") + ("" if size is None else f", {human_size(size)}")


def _unread(summary: LsSummary) -> list[str]:
    return [f"{count} {_words(name)}" for name, count in summary.states.items() if name not in ("live", "hidden")]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _entry_table(
    out: Output, entries: Sequence[LsEntry], answer: LsReport, *, with_rows: bool, sorted_by: str | None
) -> None:
    """One table; on a terminal the rows of a partition stand under its name."""
    partitioned = any(part.partition for part in answer.partitions)
    grouped = partitioned and out.width is not None and sorted_by is None
    columns = [
        *([Column("PARTITION")] if partitioned and not grouped else ()),
        Column("NAME"),
        Column("STATE"),
        Column("KIND", drop=4, spare=True),
        Column("WRITE IDS", right=True),
        Column("STMT", right=True, drop=6, spare=True),
        Column("TXN", right=True, drop=5, spare=True),
        *([Column("ROWS", right=True)] if with_rows else ()),
        Column("FILES", right=True, drop=1),
        Column("SIZE", right=True),
        Column("AGE", right=True, drop=2),
        Column("WHY", below=True),
    ]
    now = time.time()
    rows: list[list[object]] = []
    headings: dict[int, list[str]] = {}
    last: str | None = None
    for entry in entries:
        if grouped and entry.partition != last:
            last = entry.partition
            headings[len(rows)] = [out.text(Cell(last or "(table directory)", Paint.BOLD))]
        modified = seconds_of(entry.modified)
        row = [
            *([entry.partition] if partitioned and not grouped else ()),
            entry.name,
            Cell(_words(entry.state), _PAINTS[entry.state]),
            _words(entry.kind),
            _id_range(entry),
            entry.statement_id,
            entry.visibility_txn_id,
            *([None if entry.rows is None else f"{entry.rows:,}"] if with_rows else ()),
            entry.files,
            None if entry.bytes is None else human_size(entry.bytes),
            None if modified is None else human_age(now - modified),
            entry.reason,
        ]
        rows.append(row)
    out.line()
    out.table(columns, rows, before=headings, after={i: _file_lines(out, entry) for i, entry in enumerate(entries)})


def _id_range(entry: LsEntry) -> str:
    low, high = entry.min_write_id, entry.max_write_id
    if high is None:
        return ""
    return str(high) if low == high else f"{'' if low is None else low}..{high}"


def _file_lines(out: Output, entry: LsEntry) -> list[str]:
    """The files of one entry, indented; only with --long."""
    lines = []
    for file in entry.file_list or ():
        phrases = (
            None if file.bytes is None else human_size(file.bytes),
            None if file.bucket_id is None else f"bucket {file.bucket_id}",
            None if file.attempt_id is None else f"attempt {file.attempt_id}",
            None if file.copy_number is None else f"copy {file.copy_number}",
            None if file.logical_length is None else f"readable up to byte {file.logical_length:,} (side file)",
            None if file.rows is None else plural(file.rows, "row"),
            _words(file.kind) if file.kind in ("marker", "side_file") else None,
        )
        name = file.path.removeprefix(entry.name + "/")
        lines.append(out.text(f"    {name}  ", Cell(", ".join(filter(None, phrases)), Paint.DIM)))
    return lines


def _partition_table(out: Output, parts: Sequence[LsPartition]) -> None:
    columns = (
        Column("PARTITION"),
        Column("BASE"),
        Column("DELTAS", right=True),
        Column("DELETE DELTAS", right=True, drop=2),
        Column("LIVE", right=True),
        Column("RECLAIMABLE", right=True),
        Column("NOT READ", below=True),
    )
    rows = []
    for part in parts:
        summary, bad = part.summary, not part.readable
        row = [
            Cell(part.partition or "(whole table)", Paint.BAD if bad else None),
            summary.base or "-",
            summary.deltas,
            summary.delete_deltas,
            None if summary.bytes_live is None else human_size(summary.bytes_live),
            None if summary.bytes_reclaimable is None else human_size(summary.bytes_reclaimable),
            ", ".join([*(["not readable: not enough history"] if bad else ()), *_unread(summary)]),
        ]
        rows.append(row)
    out.line()
    out.named_table(columns, rows)
