"""`acidctl snapshot`: what a reader with a given snapshot sees, and from which directories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, TypedDict, cast

from acidctl.cli.options import command as make_command
from acidctl.cli.options import table_argument, table_of, with_engine
from acidctl.cli.output import (
    TERMINAL_VALUE,
    Cell,
    Column,
    Format,
    JsonArray,
    Output,
    Paint,
    cut,
    human_size,
    late_bar,
    plural,
    shown,
)
from acidctl.config import Config
from acidctl.errors import ExitCode, UsageError
from acidctl.options import ExportOptions, SnapshotOptions, option
from acidctl.rows.outline import Outline, described
from acidctl.rows.watching import ReadProgress
from acidctl.state.entries import EntryKind, EntryState
from acidctl.state.report import ASSUMED, FINDINGS, to_json
from acidctl.storage.named_files import is_special
from acidctl.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from acidctl.rows.snapshot import Rows, Snapshot

_TYPE = {"type": "snapshot", "schema_version": 1}
_TEXT_ROWS = 20
# Rows of which the text is made at once; it takes a few times as much memory meanwhile.
_LINES = 8192
_FILE_FIELDS = ("partition", "name", "kind", "state", "reason_code", "reason", "because_of")


class Count(TypedDict):
    """The rows of one partition."""

    partition: Annotated[str, "on-disk text"]
    rows: Annotated[int, "visible rows"]


class Numbers(TypedDict, total=False):
    """How many rows there are, and what their digest is."""

    location: Annotated[str, "the table as it was named, without secrets"]
    assumed: Annotated[list[str], ASSUMED]
    rows: Annotated[int, "visible rows"]
    digest: Annotated[str, "`v1:` and 32 hexadecimal digits, with `--digest`"]
    partitions: Annotated[list[Count], "with `--by-partition`"]
    findings: Annotated[list[dict[str, str]], FINDINGS]


@dataclass(frozen=True, slots=True)
class View:
    """What of the snapshot is asked for."""

    files: bool = option(False, "Only which directories are read and why others are not; opens no data file.")
    count: bool = option(False, "Only the number of rows.")
    digest: bool = option(
        False,
        "A digest of all rows and row ids, equal before and after a compaction by the same columns (--schema).",
    )
    by_partition: bool = option(False, "With --count: one number per partition too.")
    row_id: bool = option(False, "Show each row's ROW__ID.")
    columns: tuple[str, ...] | None = option(
        None, "Only these columns, in this order.", metavar="A,B,...", form="columns"
    )
    where: str | None = option(
        None, "Only rows that match this condition, as in Hive's WHERE.", metavar="TEXT|@FILE", form="text"
    )
    limit: int | None = option(None, "At most N rows.  [default for text: 20]", metavar="N", minimum=0)


@make_command(
    "snapshot",
    SnapshotOptions,
    View,
    ExportOptions,
    also=[ExitCode.NOT_ENOUGH_HISTORY],
    examples=(
        "acidctl snapshot /warehouse/orders --validtxns @write_ids.txt --validtxns @txns.txt",
        "acidctl snapshot /warehouse/orders -o jsonl --row-id > orders.jsonl",
        "acidctl snapshot /warehouse/orders --as-of 20 --to s3://lake/orders/",
    ),
    arguments=[table_argument()],
)
def command(
    out: Output, config: Config, asked: SnapshotOptions, view: View, export: ExportOptions, *, location: str
) -> ExitCode:
    """Show what a reader sees of TABLE, or export it.

    Text shows the plan, the number of rows and the first rows; the other forms stream all rows.
    """
    _check(view, export, out.form)
    table = table_of(config, location)
    outline = table.outline(**asked.keywords())
    snapshot = None
    if not (view.files or (view.count and not view.digest and view.where is None)):
        outline = snapshot = table.reader(outline)
        if view.columns is not None:
            snapshot.column_names(view.columns)  # a name that is unknown is one before anything is answered
        snapshot.condition(view.where)  # and so is a condition that cannot be
    out.assumed(outline.lists.assumed)
    out.note(*outline.notes)
    if asked.strict:
        outline.require_certain()
    out.warn(*outline.warnings)
    known = outline.findings
    _warn_of_findings(out, [str(one) for one in known if one.sentence not in outline.warnings], bool(known))
    # Text says so beside the number, and of an empty directory there is a note already.
    counted = out.form is Format.TEXT and not (export.to or view.count or view.digest)
    if not counted and any(part.state.entries for part in outline.partitions) and (why := outline.why_empty()):
        out.note(f"0 rows: {why}")
    if snapshot is None:
        (_write_files if view.files else _write_numbers)(out, outline, view)
    else:
        _answer(out, config, snapshot, view, export)
    if asked.strict:
        outline.require_certain()
    _warn_of_findings(out, [str(one) for one in outline.findings if one not in known], outline.findings != known)
    return ExitCode.FINDINGS if outline.findings else ExitCode.DONE


def _warn_of_findings(out: Output, found: Sequence[str], doubtful: bool) -> None:
    """The answer stands, but whoever copies it has to know."""
    out.warn(*found)
    if doubtful:
        out.warn("Rows of this answer may be missing or come twice, for the reasons above.")


def _answer(out: Output, config: Config, snapshot: Snapshot, view: View, export: ExportOptions) -> None:
    if export.to:
        _export(
            out, snapshot, view, replace(with_engine(config, export), storage_options=config.storage_options(export.to))
        )
    elif view.count or view.digest:
        _write_numbers(out, snapshot, view)
    elif out.form is Format.TEXT:
        _write_text(out, snapshot, view)
    else:
        _write_rows(out, snapshot, view)


def _check(view: View, export: ExportOptions, form: Format) -> None:
    if view.columns is not None and not view.columns:
        raise UsageError("--columns names no column")
    names = [name.lower() for name in view.columns or ()]
    if len(set(names)) < len(names):
        raise UsageError("--columns names a column twice")
    about_rows = view.count or view.digest or export.to or view.row_id or view.where or view.columns is not None
    if view.files and about_rows:
        raise UsageError("--files opens no data file, so it cannot be combined with options about rows")
    if (view.count or view.digest) and (export.to or view.limit is not None or view.columns is not None):
        raise UsageError("--count and --digest are about all rows and all columns")
    if view.by_partition and not view.count:
        raise UsageError("--by-partition requires --count")
    if view.by_partition and view.digest and form in (Format.JSONL, Format.CSV):
        raise UsageError(
            "--digest is of the whole table and has no place in a list of partitions", hint="Take -o json."
        )
    if export.to:
        from acidctl.exporting.forms import form_of

        form_of(export)
    else:
        for name in ("format", "partitioned", "timestamps", "compression", "overwrite", "unsafe_overwrite_unlisted"):
            if getattr(export, name):
                raise UsageError(f"--{name.replace('_', '-')} is about an export, and there is no --to")


def _write_files(out: Output, snapshot: Outline, view: View) -> None:
    plan = snapshot.plan()
    items: Iterable[Mapping[str, object]] = ({**_TYPE, **partition} for partition in plan["partitions"])
    if out.form is Format.CSV:
        items = (
            {"partition": partition.partition, "kind": entry.kind.value, **described(entry)}
            for partition in snapshot.partitions
            for entry in partition.state.entries
        )
    if not out.machine(lambda: {**_TYPE, **plan}, items, _FILE_FIELDS):
        _write_plan(out, snapshot)


def _write_plan(out: Output, snapshot: Outline) -> None:
    """The plan for eyes: what is read, then what is left out and why."""
    out.line(Cell(snapshot.location, Paint.BOLD))
    for partition in snapshot.partitions:
        if partition.partition:
            out.line()
            out.line(Cell(partition.partition, Paint.BOLD))
        live = [entry for entry in partition.state.entries if entry.state is EntryState.LIVE]
        left = [entry for entry in partition.state.excluded if entry.kind is not EntryKind.MARKER]
        rows = [
            *([Cell("  read", Paint.GOOD), entry.name, entry.reason] for entry in live),
            *([Cell(f"  {entry.state.value}", Paint.DIM), entry.name, entry.reason] for entry in left),
        ]
        if rows:
            out.table((Column("  STATE"), Column("DIRECTORY"), Column("WHY", below=True)), rows)
        else:
            out.line("  nothing here: an empty directory is an empty table")


def _write_numbers(out: Output, snapshot: Outline, view: View) -> None:
    """Of an outline, or with a digest of a snapshot."""
    answer: Numbers = {"location": snapshot.location, "assumed": list(snapshot.lists.assumed)}
    partitions: list[Count] = []
    if view.by_partition or not view.digest:
        with _watched(out, snapshot, "counting"):
            counts = [(part.partition, snapshot.count_of(part, view.where)) for part in snapshot.partitions]
        partitions = [{"partition": name, "rows": rows} for name, rows in counts]
        answer["rows"] = sum(rows for _, rows in counts)
    if view.digest:
        with _watched(out, snapshot, "digesting"):
            answer["rows"], answer["digest"] = cast("Snapshot", snapshot).count_and_digest(view.where)
    _note_none(out, snapshot, view, answer["rows"])
    answer["findings"] = to_json(snapshot.findings)
    if view.by_partition:
        answer["partitions"] = partitions
    items = ({**_TYPE, **count} for count in partitions) if view.by_partition else iter([{**_TYPE, **answer}])
    names = ("partition", "rows") if view.by_partition else [name for name in ("rows", "digest") if name in answer]
    if out.machine(lambda: {**_TYPE, **answer}, items, names):
        return
    for count in answer.get("partitions", ()):
        out.line(f"{count['rows']:>12,}  {count['partition'] or '(whole table)'}")
    out.line(plural(answer["rows"], "row"))
    if view.digest:
        out.line(answer["digest"])


def _note_none(out: Output, snapshot: Outline, view: View, rows: int) -> None:
    """Say why nothing was found, where that was not known before."""
    if not rows and not snapshot.why_empty():
        out.note(f"0 rows: {_why_none(snapshot, view)}")


def _why_none(snapshot: Outline, view: View) -> str:
    """Of an answer without rows."""
    return snapshot.why_none_left() if view.where is None else "no row matches the condition"


def _write_rows(out: Output, snapshot: Snapshot, view: View) -> None:
    """All rows in a form for programs, rendered in threads beside the reading."""
    from acidctl.exporting.forms import FileForm, Renderer
    from acidctl.rows.pipeline import ordered_map

    array = JsonArray(out) if out.form is Format.JSON else None
    kind = "csv" if out.form is Format.CSV else "jsonl"
    fields = {one.name: one for one in snapshot.fields}
    names = snapshot.column_names(view.columns)
    renderer = Renderer(FileForm(kind, "none", row_id=view.row_id), [fields[name] for name in names])
    if kind == "csv" and out.header:
        out.machine_data(renderer.header)
    count = 0

    def lines(rows: Rows) -> tuple[int, list[bytes | pa.Buffer]]:
        return rows.count, [renderer.lines(some) for some in rows.parts(_LINES)]

    with _watched(out, snapshot, "reading"):
        rows = snapshot.rows(view.columns, where=view.where, limit=view.limit)
        for some, chunk in ordered_map(lines, rows, size=lambda some: some.bytes):
            count += some
            for text in chunk:
                (array.data if array else out.machine_data)(text)
    if array:
        array.close()
    if view.limit != 0:
        _note_none(out, snapshot, view, count)
    if damaged := renderer.damage.count:
        out.warn(f"{plural(damaged, 'string value')} not valid UTF-8; shown with the replacement character U+FFFD")


@contextmanager
def _watched(out: Output, snapshot: Outline, title: str) -> Iterator[None]:
    """Show rows, bytes and the time left while a snapshot is read."""
    with late_bar(out, title) as show:

        def report(read: ReadProgress) -> None:
            sizes = f"{human_size(read.bytes)} of {human_size(read.bytes_in_all)}"
            show(read.bytes, read.bytes_in_all, f"{plural(read.rows, 'row')}, {sizes}")

        if out.shows_progress:
            snapshot.watch(report)
        yield


def _export(out: Output, snapshot: Snapshot, view: View, export: ExportOptions) -> None:
    how = {one.name: getattr(export, one.name) for one in fields(export)}
    with _watched(out, snapshot, "exporting"):
        rows = {name: getattr(view, name) for name in ("columns", "where", "row_id", "limit")}
        report = snapshot.export(strict=snapshot.strict, **rows, **how)
    if out.form is not Format.TEXT:
        answer = {"type": "export_report", "schema_version": 1, "assumed": list(snapshot.lists.assumed), **report}
        out.machine(lambda: answer, [answer], tuple(report))
    if view.limit != 0:
        _note_none(out, snapshot, view, report["rows"])
    out.note(*report["notes"])
    if report["replaced"]:
        out.warn(f"{plural(report['replaced'], 'string value')} not valid UTF-8; written with replacement characters")
    found = "digest" if is_special(export.to) else "read back as"
    amounts = f"{plural(report['rows'], 'row')}, {plural(report['files'], 'file')}, {human_size(report['bytes'])}"
    out.note(f"wrote {report['to']}: {amounts}, {report['seconds']:.1f} s, {found} {report['digest']}")


def _write_text(out: Output, snapshot: Snapshot, view: View) -> None:
    from acidctl.types.format_rows import json_column

    _write_plan(out, snapshot)
    with _watched(out, snapshot, "counting"):
        total = snapshot.count(view.where)
    out.line()
    rows: list[list[Cell]] = []
    with _watched(out, snapshot, "reading"):
        limit = _TEXT_ROWS if view.limit is None else view.limit
        for some in snapshot.rows(view.columns, where=view.where, limit=limit):
            _, types, columns = some.with_row_id() if view.row_id else (some.names, some.types, some.columns)
            texts = [json_column(array, kind).to_pylist() for array, kind in zip(columns, types, strict=True)]
            rows += [[_cell(text) for text in row] for row in islice(zip(*texts, strict=True), some.count)]
    more = f", the first {len(rows)}:" if total > len(rows) > 0 else "" if total else f": {_why_none(snapshot, view)}"
    match = "" if view.where is None or not total else " matches" if total == 1 else " match"
    out.line(Cell(plural(total, "row") + match + more, Paint.BOLD))
    if not rows:
        return
    names = snapshot.column_names(view.columns, row_id=view.row_id)
    numeric = [all(_looks_numeric(row[i].text) for row in rows) for i in range(len(names))]
    if out.width is not None:
        rows = [[Cell(cut(shown(cell.text), TERMINAL_VALUE), cell.paint) for cell in row] for row in rows]
    # Columns leave from the right when the terminal is too narrow, but not those that were asked for by name.
    drops = range(len(names)) if view.columns is None else (0,) * len(names)
    left_out = out.table([Column(shown(n), right=numeric[i], drop=drops[i]) for i, n in enumerate(names)], rows)
    if left_out:
        out.wrapped(f"... and {plural(len(left_out), 'more column')}, chosen by --columns: {', '.join(left_out)}")


def _looks_numeric(text: str) -> bool:
    return text == "NULL" or (text.lstrip("-")[:1].isdigit() and text.replace(".", "", 1).lstrip("-").isdigit())


def _cell(text: str) -> Cell:
    """A value as a person would write it: strings without quotes, NULL as a word."""
    if text == "null":
        return Cell("NULL", Paint.DIM)
    if text.startswith('{"writeid"'):
        return Cell(",".join(str(part) for part in json.loads(text).values()))
    return Cell(json.loads(text) if text.startswith('"') else text)
