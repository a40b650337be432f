"""`acidctl dump`: what is in an ORC file, the ACID layer decoded; its rows as `orc-tools data` prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from acidctl.cli.options import command as make_command
from acidctl.cli.options import option
from acidctl.cli.output import Format, Output, plural
from acidctl.cli.progress import progress
from acidctl.config import Config
from acidctl.errors import AcidctlError, ExitCode, NotAcidTableError, UsageError
from acidctl.rows.dump_inputs import DataFile, SideFileFacts, data_files
from acidctl.rows.pipeline import ordered_map, rows_per_batch

if TYPE_CHECKING:
    import pyarrow as pa

    from acidctl.orc.reader import OrcFile
    from acidctl.types.format_scalars import Damage

    Render = Callable[[pa.RecordBatch], pa.Buffer | bytes]

# Large enough that the cost of calls does not show; a batch, its text and a few more of both are in memory.
_BATCH_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class View:
    """What of the files is asked for; `row_index` names columns, None for none."""

    data: bool
    events: bool
    lines: int | None
    pretty: bool
    row_index: str | None
    timezone: bool
    no_header: bool

    @property
    def rows(self) -> bool:
        """Whether rows are wanted instead of a report."""
        return self.data or self.events


@make_command(
    "dump",
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
        "acidctl dump /warehouse/orders/delta_0000005_0000005_0000/bucket_00001_0",
        "acidctl dump -d -n 10 /warehouse/orders/delta_0000001_0000004_v0000009",
        "acidctl dump --events /warehouse/orders/delete_delta_0000007_0000007_0000",
    ),
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@option("-d", "--data", is_flag=True, help="Print the rows, as `orc-tools data` does; -o for our own JSON or CSV.")
@option("--events", is_flag=True, help="Print the rows as ACID events: operation by name, bucket decoded.")
@option("-n", "--lines", type=click.IntRange(min=0), metavar="N", help="At most N rows of each file.")
@option("-j", "--json", "as_json", is_flag=True, help="The same as -o json.")
@option("-p", "--pretty", is_flag=True, help="Indent JSON.")
@option(
    "-r",
    "--rowindex",
    "row_index",
    metavar="COLS",
    help="Show row indexes of these columns, by id or name; `*` for all.",
)
@option("-t", "--timezone", is_flag=True, help="Show the writer's time zone of each stripe.")
@option("--no-header", is_flag=True, help="CSV without its first line.")
def command(out: Output, config: Config, *, paths: tuple[str, ...], as_json: bool, **asked: Any) -> ExitCode:
    """Show what is in ORC files: schema, stripes, statistics, and what their ACID events say.

    PATH is a file, or a directory whose data files are shown in order. A file that streaming ingest has not
    closed is read up to the length that its side file gives.
    """
    view = View(**asked)
    if as_json and out.form is Format.TEXT:
        out = Output(out.terminal, Format.JSON, quiet=out.quiet, verbose=out.verbose)
        click.get_current_context().obj.set_output(out)
    _check(view)
    files = [file for path in paths for file in data_files(path, config.storage_options(path))]
    if not files:
        out.note(f"no data files below {' '.join(paths)}")
    if view.rows:
        return _write_rows(out, files, view)
    from acidctl.cli.dumpreport import write_reports

    return write_reports(out, files, view.row_index, time_zone=view.timezone, pretty=view.pretty)


def _check(view: View) -> None:
    if view.data and view.events:
        raise UsageError("--data and --events are two forms of the same rows; give one of them")
    if view.lines is not None and not view.rows:
        raise UsageError("--lines is about rows", hint="Add --data or --events.")
    if view.rows and (view.row_index is not None or view.timezone):
        raise UsageError("--rowindex and --timezone belong to the report, not to rows")


def each_file(out: Output, files: Iterable[DataFile], show: Callable[[DataFile], None], *, several: bool) -> ExitCode:
    """Show one file after the other; of several, one that fails is reported and does not stop the others."""
    code = ExitCode.DONE
    for file in files:
        try:
            show(file)
        except AcidctlError as error:
            if not several:
                raise
            out.flush()
            out.error(error)
            code = code or error.exit_code
    return code


def uncommitted(out: Output, file: DataFile, side: SideFileFacts | None) -> bool:
    """Say so when the side file shows that nothing of the file was ever committed."""
    if side is None or side.logical_length:
        return False
    out.note(f"{file.name}: its side file gives length 0, so nothing of it was ever committed")
    return True


# --- rows -------------------------------------------------------------------------------------------------------------


def _write_rows(out: Output, files: list[DataFile], view: View) -> ExitCode:
    from acidctl.types.format_scalars import Damage

    damage = Damage()
    rows = _RowWriter(out, view, damage)
    try:
        code = each_file(out, files, rows.show, several=len(files) > 1)
    except BaseException:
        rows.abandon()
        raise
    rows.finish()
    if damage.count:
        out.warn(f"{plural(damage.count, 'string')} not valid UTF-8, shown with replacement characters (U+FFFD)")
    return code


class _RowWriter:
    """Writes the rows of one file after the other as one answer."""

    def __init__(self, out: Output, view: View, damage: Damage) -> None:
        self._out = out
        self._view = view
        self._damage = damage
        self._array = _ArrayWriter(out) if out.form is Format.JSON else None
        self._header: bytes | None = None

    def show(self, file: DataFile) -> None:
        """All rows of a file that are wanted."""
        side = file.side_file()
        if uncommitted(self._out, file, side):
            return
        with file.open(side) as opened:
            if self._view.events and not opened.orc.is_acid:
                if opened.shape_damage is not None:
                    raise opened.shape_damage
                raise NotAcidTableError(
                    f"{file.name} holds plain rows, no ACID events",
                    path=file.name,
                    hint="It is an original file or one of an insert-only table; -d prints its rows.",
                )
            self._rows(opened.orc)
            if opened.shape_damage is not None:
                raise opened.shape_damage
        if self._view.data and self._out.form is Format.TEXT:
            from acidctl.orc.orc_tools import SEPARATOR

            self._out.data(SEPARATOR)

    def _rows(self, orc: OrcFile) -> None:
        header, render = _renderer(orc, self._view, self._out.form, self._damage)
        # Files of one schema share a header; another schema is another table in the same stream.
        if header is not None and header != self._header and not self._view.no_header:
            self._out.data(header)
            self._header = header
        write = self._out.data if self._array is None else self._array.data
        with progress(self._out, "dump", "rows") as report:
            done = 0
            for count, chunk in _chunks(orc, render, self._view.lines):
                write(chunk)
                done += count
                if self._out.width is None:  # on one screen a bar would get in between the rows
                    report(done, orc.rows)

    def finish(self) -> None:
        """End the answer."""
        if self._array is not None:
            self._array.close()

    def abandon(self) -> None:
        """After a failure: what was written stays a document, and an answer that has not begun stays empty."""
        if self._array is not None and self._array.started:
            self._array.close()


def _renderer(orc: OrcFile, view: View, form: Format, damage: Damage) -> tuple[bytes | None, Render]:
    """The CSV header, if the form has one, and what makes text of a batch."""
    from acidctl.orc.orc_tools import event_columns, event_schema, row_style
    from acidctl.types.format_rows import csv_header, csv_lines, json_lines, lines

    schema = event_schema(orc) if view.events else orc.schema
    names, types = schema.names, tuple(field.type for field in schema.fields)
    columns = event_columns if view.events else pa_columns
    if not names:
        return None, lambda batch: b"{}\n" * len(batch)
    if form is Format.CSV:
        return csv_header(names), lambda batch: csv_lines(columns(batch), types, damage=damage)
    if view.data and form is Format.TEXT:
        style, names = row_style(orc.tail), orc.tail.types[0].names
        return None, lambda batch: lines(columns(batch), names, types, style, damage)
    return None, lambda batch: json_lines(columns(batch), names, types, damage=damage)


def pa_columns(batch: pa.RecordBatch) -> list[pa.Array]:
    """The columns as they are in the file."""
    return list(batch.columns)


def _chunks(orc: OrcFile, render: Render, limit: int | None) -> Iterator[tuple[int, pa.Buffer | bytes]]:
    """Numbers of rows and their text."""
    rows = rows_per_batch(orc.tail, min(_BATCH_ROWS, limit) if limit else _BATCH_ROWS)
    return ordered_map(
        lambda batch: (len(batch), render(batch)), _limited(orc, rows, limit), size=lambda batch: batch.nbytes
    )


def _limited(orc: OrcFile, batch_rows: int, limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from orc.scan(batch_size=batch_rows)
        return
    if limit:
        yield from orc.scan(batch_size=batch_rows, limit=limit)


class _ArrayWriter:
    """JSON lines as one JSON array, a row a line; well-formed to the end even when reading fails on the way."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self.started = False

    def data(self, chunk: pa.Buffer | bytes) -> None:
        """Add whole lines."""
        text = bytes(chunk)
        if not text:
            return
        self._out.data(b",\n" if self.started else b"[\n")
        self.started = True
        self._out.data(text[:-1].replace(b"\n", b",\n"))

    def close(self) -> None:
        """End the array."""
        self._out.data(b"\n]\n" if self.started else b"[]\n")
