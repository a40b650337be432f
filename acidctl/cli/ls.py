"""`acidctl ls`: every directory of a table with its state, the reason, and the directory that causes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acidctl.api import ls_names, open_table
from acidctl.cli.options import HEADER, read_all, read_stdin, table_argument
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
    render_table,
    say_assumed,
    shown,
    wrap,
)
from acidctl.config import Config
from acidctl.errors import ExitCode, UsageError
from acidctl.options import LsOptions, option
from acidctl.state.report import (
    LsEntry,
    LsPartition,
    LsReport,
    LsSummary,
    document,
    json_names,
    seconds_of,
    to_json,
)
from acidctl.state.resolve import EntryState

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


_SHOWN_WARNINGS = 10


@dataclass(frozen=True, slots=True)
class View:
    """What of the report is shown, and in which order."""

    by_partition: bool = option(False, "One line per partition, the worst first.")
    sort: str | None = option(None, "Order of the entries.  [default: as they were written]", choices=tuple(_SORTS))
    limit: int | None = option(None, "Show at most N entries or partitions.", metavar="N", minimum=0)
    state: tuple[str, ...] = option((), "Show only entries in this state; repeatable.", choices=_STATES, repeat=True)
    names: str | None = option(
        None, "Take names or the output of `hdfs dfs -ls -R` instead of a storage.", metavar="FILE|-"
    )
    no_header: bool = option(False, HEADER)


@make_command(
    "ls",
    LsOptions,
    View,
    exits=(
        ExitCode.DONE,
        ExitCode.FAILED,
        ExitCode.USAGE,
        ExitCode.FINDINGS,
        ExitCode.NO_SUCH_TABLE,
        ExitCode.NOT_ACID,
        ExitCode.DAMAGED,
        ExitCode.STORAGE,
        ExitCode.INTERRUPTED,
    ),
    examples=(
        "acidctl ls /warehouse/orders --validtxns default.orders:20:15:15,17:3,4,5",
        "acidctl ls /warehouse/orders --by-partition --limit 20",
        "hdfs dfs -ls -R /warehouse/orders | acidctl ls --names - /warehouse/orders",
    ),
    arguments=[table_argument(required=False)],
)
def command(out: Output, config: Config, asked: LsOptions, view: View, *, location: str) -> ExitCode:
    """Show every directory of TABLE with its state, and why.

    States are those of a reader who may see what --validtxns says. Without lists everything counts as committed,
    and open or aborted writes cannot be told from committed ones.
    """
    started = time.monotonic()
    if view.names is not None:
        answer = ls_names((_read_names(view.names), location or None), **asked.keywords())
    elif not location:
        raise UsageError("TABLE is missing", hint="Give the table's directory, or a listing with --names.")
    else:
        table = open_table(location, storage_options=config.storage_options(location))
        with progress(out, "reading the ends of files", "directories") as report_progress:
            answer = table.ls(**replace(asked, progress=report_progress).keywords())
    took = time.monotonic() - started
    out.detail(f"{plural(answer.summary.entries, 'entry', 'entries')} listed and judged in {took:.2f} s")
    _remark(out, answer)
    shown_entries = _selected(answer.entries, view)
    if out.form is Format.TEXT:
        _write_text(out, answer, shown_entries, asked, view)
    elif out.form is Format.JSON:
        _write_json(out, answer, shown_entries, view)
    else:
        _write_lines(out, answer, shown_entries, asked, view)
    if answer.damaged_live:
        return ExitCode.DAMAGED
    return ExitCode.FINDINGS if answer.has_findings else ExitCode.DONE


def _read_names(source: str) -> str:
    if source == "-":
        return read_stdin()
    try:
        with open(source, "rb") as stream:
            return read_all(stream, source)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"--names {source} cannot be read: {reason}", path=source) from error


def _remark(out: Output, answer: LsReport) -> None:
    """Everything a reader of the answer has to know, on stderr."""
    say_assumed(out, answer.assumed)
    for note in answer.notes:
        out.note(note)
    _warn_some(out, answer.warnings)
    _warn_some(out, [_where(gap.partition) + gap.message + (f" {gap.hint}" if gap.hint else "") for gap in answer.gaps])
    _warn_some(out, [_where(item.partition) + item.message for item in answer.disagreements])
    _warn_some(out, [item.message for item in answer.damaged])


def _warn_some(out: Output, sentences: Sequence[str]) -> None:
    """Ten thousand partitions may have ten thousand sentences; JSON holds them all, a terminal the first."""
    for sentence in sentences[:_SHOWN_WARNINGS]:
        out.warn(sentence)
    if len(sentences) > _SHOWN_WARNINGS:
        out.warn(f"... and {len(sentences) - _SHOWN_WARNINGS:,} more such; -o json has them all")


def _where(partition: str) -> str:
    return f"{partition}: " if partition else ""


def _selected(entries: Iterable[LsEntry], view: View) -> list[LsEntry]:
    """Filtered and sorted, not yet limited: text says how many more there are."""
    chosen = [entry for entry in entries if not view.state or entry.state in view.state]
    return sorted(chosen, key=_SORTS[view.sort]) if view.sort else chosen


# --- for machines
# ---------------------------------------------------------------------------------------------------

_ENTRY_FIELDS = tuple(name for name in json_names(LsEntry) if name != "file_list")
_SUMMARY_FIELDS = tuple(name for name in json_names(LsSummary) if name != "states")


def _write_json(out: Output, answer: LsReport, entries: Sequence[LsEntry], view: View) -> None:
    shown = replace(
        answer,
        entries=tuple(entries[: view.limit]),
        partitions=tuple(_worst_first(answer)[: view.limit]) if view.by_partition else (),
    )
    answer_json = document("ls", shown)
    if not view.by_partition:
        del answer_json["partitions"]
    out.json(answer_json)


def _write_lines(out: Output, answer: LsReport, entries: Sequence[LsEntry], asked: LsOptions, view: View) -> None:
    """One entry, or with --by-partition one partition, a line."""
    if view.by_partition:
        parts = _worst_first(answer)[: view.limit]
        if out.form is Format.JSONL:
            out.json_lines(document("ls_partition", part) for part in parts)
            return
        states = [state.value for state in EntryState]
        header = ["partition", "readable", *_SUMMARY_FIELDS, *(f"states.{state}" for state in states)]
        rows = (
            [
                part.partition,
                part.readable,
                *(getattr(part.summary, name) for name in _SUMMARY_FIELDS),
                *(part.summary.states.get(state, 0) for state in states),
            ]
            for part in parts
        )
        out.csv(header, rows, with_header=not view.no_header)
    elif out.form is Format.JSONL:
        out.json_lines(document("ls_entry", entry) for entry in entries[: view.limit])
    else:
        names = (*_ENTRY_FIELDS, "file_list") if asked.long else _ENTRY_FIELDS
        rows = ([to_json(getattr(entry, name)) for name in names] for entry in entries[: view.limit])
        out.csv(names, rows, with_header=not view.no_header)


# --- for eyes
# -------------------------------------------------------------------------------------------------------

_TYPE_WORDS = {
    "full": "full ACID table",
    "insert_only": "insert-only table",
    "originals": "ORC files without ACID directories",
    "empty": "empty table",
}


def _write_text(out: Output, answer: LsReport, entries: Sequence[LsEntry], asked: LsOptions, view: View) -> None:
    for line in _header(out, answer):
        out.line(line)
    if view.by_partition:
        lines = _partition_lines(out, answer, view)
    else:
        lines = _entry_lines(out, answer, entries, view, with_rows=asked.rows)
    if lines:
        out.line()
    for line in lines:
        out.line(line)
    total = len(answer.partitions) if view.by_partition else len(entries)
    if view.limit is not None and total > view.limit:
        out.line(f"... and {total - view.limit:,} more")


def _header(out: Output, answer: LsReport) -> list[str]:
    """What the table is, what a reader reads, what could go."""
    summary = answer.summary
    kind = _TYPE_WORDS.get(answer.table_type, answer.table_type)
    profile = "" if answer.profile == "strict" else f", by the rules of profile {answer.profile}"
    location = shown(answer.location)
    title = out.paint(location, Paint.BOLD)
    fits = out.width is None or display_width(f"{location}  {kind}{profile}") <= out.width
    lines = [f"{title}  {kind}{profile}"] if fits else [title, f"  {kind}{profile}"]
    if not summary.entries:
        return lines
    read = [plural(summary.partitions, "partition") + ","] if summary.partitions > 1 else []
    read.append(f"{_base_words(summary)},")
    read.append(f"{plural(summary.deltas, 'live delta')},")
    if summary.delete_deltas:
        read.append(f"{plural(summary.delete_deltas, 'live delete delta')},")
    if summary.original_files:
        read.append(f"{plural(summary.original_files, 'original file')},")
    lines += _header_line(out, "read", read, summary.files_live, summary.bytes_live)
    left = [f"{count} {_words(name)}," for name, count in summary.states.items() if name not in ("live", "hidden")]
    if left:
        lines += wrap(["not read:", *left[:-1], left[-1].rstrip(",")], out.width, indent="  ")
    if summary.reclaimable:
        freed = [plural(summary.reclaimable, "entry", "entries") + ","]
        lines += _header_line(out, "reclaimable", freed, summary.files_reclaimable, summary.bytes_reclaimable)
    return lines


def _header_line(out: Output, title: str, parts: list[str], files: int, size: int | None) -> list[str]:
    tail = plural(files, "file") + ("" if size is None else f", {human_size(size)}")
    return wrap([f"{title}:", *parts, tail], out.width, indent="  ")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _base_words(summary: LsSummary) -> str:
    if summary.base is not None:
        return f"base {shown(summary.base)}"
    return plural(summary.bases, "base") if summary.bases else "no base"


def _entry_lines(
    out: Output, answer: LsReport, entries: Sequence[LsEntry], view: View, *, with_rows: bool
) -> list[str]:
    """One table; on a terminal the rows of a partition stand under its name."""
    partitioned = any(part.partition for part in answer.partitions)
    grouped = partitioned and out.width is not None and view.sort is None
    columns = [Column("NAME"), Column("STATE"), Column("KIND", drop=4, spare=True), Column("WRITE IDS", right=True)]
    columns += [Column("STMT", right=True, drop=6, spare=True), Column("TXN", right=True, drop=5, spare=True)]
    if with_rows:
        columns.append(Column("ROWS", right=True))
    columns += [Column("FILES", right=True, drop=1), Column("SIZE", right=True), Column("AGE", right=True, drop=2)]
    columns.append(Column("WHY", below=True))
    if partitioned and not grouped:
        columns.insert(0, Column("PARTITION"))
    now = time.time()
    rows: list[list[Cell]] = []
    headings: dict[int, str] = {}
    last: str | None = None
    for entry in entries[: view.limit]:
        if grouped and entry.partition != last:
            headings[len(rows)] = last = entry.partition
        row = _entry_row(entry, now, with_rows=with_rows)
        rows.append([Cell(shown(entry.partition)), *row] if partitioned and not grouped else row)
    blocks = {index: _file_lines(out, entry) for index, entry in enumerate(entries[: view.limit])}
    titles = {index: out.paint(shown(text) or "(table directory)", Paint.BOLD) for index, text in headings.items()}
    return render_table(out, columns, rows, before=titles, after=blocks) if rows else []


def _entry_row(entry: LsEntry, now: float, *, with_rows: bool) -> list[Cell]:
    modified = seconds_of(entry.modified)
    cells = [
        Cell(shown(entry.name)),
        Cell(_words(entry.state), _PAINTS[entry.state]),
        Cell(_words(entry.kind)),
        Cell(_id_range(entry)),
        Cell("" if entry.statement_id is None else str(entry.statement_id)),
        Cell("" if entry.visibility_txn_id is None else str(entry.visibility_txn_id)),
    ]
    if with_rows:
        cells.append(Cell("" if entry.rows is None else f"{entry.rows:,}"))
    cells += [
        Cell(str(entry.files)),
        Cell("" if entry.bytes is None else human_size(entry.bytes)),
        Cell("" if modified is None else human_age(now - modified)),
        Cell(shown(entry.reason)),
    ]
    return cells


def _id_range(entry: LsEntry) -> str:
    if entry.max_write_id is None:
        return ""
    if entry.min_write_id is None:
        return f"..{entry.max_write_id}"
    if entry.min_write_id == entry.max_write_id:
        return str(entry.max_write_id)
    return f"{entry.min_write_id}..{entry.max_write_id}"


def _file_lines(out: Output, entry: LsEntry) -> list[str]:
    """The files of one entry, indented; only with --long."""
    lines = []
    for file in entry.file_list or ():
        phrases = [] if file.bytes is None else [human_size(file.bytes)]
        if file.bucket_id is not None:
            phrases.append(f"bucket {file.bucket_id}")
        if file.attempt_id is not None:
            phrases.append(f"attempt {file.attempt_id}")
        if file.copy_number is not None:
            phrases.append(f"copy {file.copy_number}")
        if file.logical_length is not None:
            phrases.append(f"readable up to byte {file.logical_length:,} (side file)")
        if file.rows is not None:
            phrases.append(plural(file.rows, "row"))
        if file.kind in ("marker", "side_file"):
            phrases.append(_words(file.kind))
        name = file.path.removeprefix(entry.name + "/")
        lines.append(f"    {shown(name)}  " + out.paint(", ".join(phrases), Paint.DIM))
    return lines


def _worst_first(answer: LsReport) -> list[LsPartition]:
    """Not readable, then not understood, then the most deltas, then the most bytes to reclaim."""

    def badness(part: LsPartition) -> tuple[bool, int, int, int, str]:
        odd = part.summary.states.get(EntryState.UNRECOGNISED.value, 0)
        deltas = part.summary.deltas + part.summary.delete_deltas
        return (part.readable, -odd, -deltas, -(part.summary.bytes_reclaimable or 0), part.partition)

    return sorted(answer.partitions, key=badness)


def _partition_lines(out: Output, answer: LsReport, view: View) -> list[str]:
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
    for part in _worst_first(answer)[: view.limit]:
        summary = part.summary
        unread = [(name, count) for name, count in summary.states.items() if name not in ("live", "hidden")]
        left = [f"{count} {_words(name)}" for name, count in unread]
        if not part.readable:
            left.insert(0, "not readable: not enough history")
        rows.append(
            [
                Cell(shown(part.partition) or "(whole table)", None if part.readable else Paint.BAD),
                Cell(shown(summary.base or "-")),
                Cell(str(summary.deltas)),
                Cell(str(summary.delete_deltas)),
                Cell("" if summary.bytes_live is None else human_size(summary.bytes_live)),
                Cell("" if summary.bytes_reclaimable is None else human_size(summary.bytes_reclaimable)),
                Cell(", ".join(left)),
            ]
        )
    return render_table(out, columns, rows)
