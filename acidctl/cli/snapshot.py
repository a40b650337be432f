"""`acidctl snapshot`: what a reader with a given snapshot sees, and from which directories."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, TypedDict

import pyarrow as pa

from acidctl.cli.options import command as make_command
from acidctl.cli.options import table_argument, table_of
from acidctl.cli.output import TERMINAL_VALUE, Cell, Column, Format, JsonArray, Output, Paint, cut, plural, shown
from acidctl.config import Config
from acidctl.errors import ExitCode, UsageError
from acidctl.options import ReadView, option
from acidctl.rows.export import write_arrow, write_bytes
from acidctl.rows.pipeline import ordered_map
from acidctl.rows.snapshot import Rows, Snapshot, limited
from acidctl.state.report import ASSUMED
from acidctl.state.resolve import EntryKind, EntryState
from acidctl.types.format_rows import csv_header, csv_lines, json_column, json_lines
from acidctl.types.format_scalars import Damage
from acidctl.types.hive_types import HiveType

_TYPE = {"type": "snapshot", "schema_version": 1}
_TEXT_ROWS = 20
_FILE_FIELDS = ("partition", "name", "kind", "state", "reason_code", "reason", "because_of")
_EXPORTS = (".parquet", ".arrow", ".csv", ".jsonl")


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
    limit: int | None = option(None, "At most N rows.  [default for text: 20]", metavar="N", minimum=0)
    to: str | None = option(None, "Write the rows to a .parquet, .arrow, .csv or .jsonl file.", metavar="FILE")


@make_command(
    "snapshot",
    ReadView,
    View,
    also=[ExitCode.NOT_ENOUGH_HISTORY],
    examples=(
        "acidctl snapshot /warehouse/orders --validtxns @write_ids.txt --validtxns @txns.txt",
        "acidctl snapshot /warehouse/orders --as-of 20 --count --digest",
        "acidctl snapshot /warehouse/orders -o jsonl --row-id > orders.jsonl",
    ),
    arguments=[table_argument()],
)
def command(out: Output, config: Config, asked: ReadView, view: View, *, location: str) -> ExitCode:
    """Show what a reader sees of TABLE.

    Text shows the plan, the number of rows and the first rows; the other forms stream all rows.
    """
    _check(view, out.form)
    table = table_of(config, location)
    if view.to is not None:
        table.require_outside(view.to, "--to")
    snapshot = table.snapshot(**asked.keywords())
    if view.columns is not None:
        snapshot.column_names(view.columns)  # a name that is unknown is one before anything is answered
    out.assumed(snapshot.lists.assumed)
    out.note(*snapshot.notes)
    for text in snapshot.warnings:
        out.warn(text)
    if view.files:
        _write_files(out, snapshot)
    elif view.to is not None:
        _export(out, snapshot, view)
    elif view.count or view.digest:
        _write_numbers(out, snapshot, view)
    elif out.form is Format.TEXT:
        _write_text(out, snapshot, view)
    else:
        array = JsonArray(out) if out.form is Format.JSON else None
        for chunk in _chunks(out, snapshot, view, Format.JSONL if array else out.form):
            (array or out).data(chunk)
        if array:
            array.close()
    if not snapshot.findings:
        return ExitCode.DONE
    # The answer stands, but whoever copies it has to know.
    for text in snapshot.findings:
        if text not in snapshot.warnings:
            out.warn(text)
    out.warn("Rows of this answer may be missing or come twice, for the reasons above.")
    return ExitCode.FINDINGS


def _check(view: View, form: Format) -> None:
    if view.columns is not None and not view.columns:
        raise UsageError("--columns names no column")
    names = [name.lower() for name in view.columns or ()]
    if len(set(names)) < len(names):
        raise UsageError("--columns names a column twice")
    if view.files and (view.count or view.digest or view.to or view.row_id or view.columns is not None):
        raise UsageError("--files opens no data file, so it cannot be combined with options about rows")
    if (view.count or view.digest) and (view.to or view.limit is not None or view.columns is not None):
        raise UsageError("--count and --digest are about all rows and all columns")
    if view.by_partition and not view.count:
        raise UsageError("--by-partition requires --count")
    if view.by_partition and view.digest and form in (Format.JSONL, Format.CSV):
        raise UsageError(
            "--digest is of the whole table and has no place in a list of partitions", hint="Take -o json."
        )
    if view.to is not None and Path(view.to).suffix not in _EXPORTS:
        raise UsageError(f"--to {view.to}: the name has to end in one of {', '.join(_EXPORTS)}", path=view.to)


def _write_files(out: Output, snapshot: Snapshot) -> None:
    plan = snapshot.plan()
    items: Iterable[Mapping[str, object]] = ({**_TYPE, **partition} for partition in plan["partitions"])
    if out.form is Format.CSV:
        items = (
            {
                "partition": partition.partition,
                "name": entry.name,
                "kind": entry.kind.value,
                "state": entry.state.value,
                "reason_code": entry.reason_code,
                "reason": entry.reason,
                "because_of": list(entry.because_of),
            }
            for partition in snapshot.partitions
            for entry in partition.state.entries
        )
    if not out.machine(lambda: {**_TYPE, **plan}, items, _FILE_FIELDS):
        _write_plan(out, snapshot)


def _write_plan(out: Output, snapshot: Snapshot) -> None:
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


def _write_numbers(out: Output, snapshot: Snapshot, view: View) -> None:
    answer: Numbers = {"location": snapshot.location, "assumed": list(snapshot.lists.assumed)}
    partitions: list[Count] = []
    if view.by_partition or not view.digest:
        partitions = [{"partition": part.partition, "rows": snapshot.count_of(part)} for part in snapshot.partitions]
        answer["rows"] = sum(count["rows"] for count in partitions)
    if view.digest:
        answer["rows"], answer["digest"] = snapshot.count_and_digest()
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


def _chunks(out: Output, snapshot: Snapshot, view: View, form: Format) -> Iterator[bytes | pa.Buffer]:
    """The rows rendered, batch by batch, in threads beside the reading."""
    damage = Damage()

    def render(rows: Rows) -> bytes | pa.Buffer:
        if not rows.columns and not view.row_id:
            return (b"\n" if form is Format.CSV else b"{}\n") * rows.count
        if form is Format.CSV:
            types, columns = rows.with_flat_row_id() if view.row_id else (rows.types, rows.columns)
            return csv_lines(columns, types, damage=damage)
        names, types, columns = _columns(rows, view)
        return json_lines(columns, names, types, damage=damage)

    names = snapshot.flat_column_names(view.columns, row_id=view.row_id)
    if form is Format.CSV and names and out.header:
        yield csv_header(names)
    rows = limited(snapshot.rows(view.columns, threads=None if view.limit is None else 1), view.limit)
    yield from ordered_map(render, rows, size=lambda some: some.bytes)
    if damage.count:
        out.warn(f"{plural(damage.count, 'string value')} not valid UTF-8; shown with the replacement character U+FFFD")


def _columns(rows: Rows, view: View) -> tuple[tuple[str, ...], tuple[HiveType, ...], tuple[pa.Array, ...]]:
    return rows.with_row_id() if view.row_id else (rows.names, rows.types, rows.columns)


def _export(out: Output, snapshot: Snapshot, view: View) -> None:
    assert view.to is not None
    path = Path(view.to)
    if path.suffix in (".parquet", ".arrow"):
        batches = snapshot.to_batches(view.columns, row_id=view.row_id, limit=view.limit)
        write_arrow(path, batches.schema, batches)
    else:
        form = Format.CSV if path.suffix == ".csv" else Format.JSONL
        write_bytes(path, _chunks(out, snapshot, view, form))
    out.note(f"wrote {view.to}")


def _write_text(out: Output, snapshot: Snapshot, view: View) -> None:
    _write_plan(out, snapshot)
    total = snapshot.count()
    out.line()
    rows: list[list[Cell]] = []
    for some in limited(snapshot.rows(view.columns, threads=1), _TEXT_ROWS if view.limit is None else view.limit):
        _, types, columns = _columns(some, view)
        texts = [json_column(array, kind).to_pylist() for array, kind in zip(columns, types, strict=True)]
        rows += [[_cell(text) for text in row] for row in islice(zip(*texts, strict=True), some.count)]
    more = f", the first {len(rows)}:" if total > len(rows) > 0 else ""
    out.line(Cell(plural(total, "row") + more, Paint.BOLD))
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
