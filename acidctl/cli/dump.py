"""`acidctl dump`: what is in an ORC file, the ACID layer decoded; its rows as `orc-tools data` prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click
import pyarrow as pa

from acidctl.cli.options import HEADER
from acidctl.cli.options import command as make_command
from acidctl.cli.output import (
    TERMINAL_VALUE,
    Cell,
    Column,
    Format,
    Output,
    Paint,
    cut,
    dump_json,
    encode,
    human_size,
    plural,
    progress,
    render_table,
    shown,
    wrap,
)
from acidctl.config import Config
from acidctl.errors import AcidctlError, DamagedDataError, ExitCode, NotAcidTableError, UsageError
from acidctl.options import option
from acidctl.orc.orc_tools import SEPARATOR, event_columns, event_schema, row_style
from acidctl.orc.reader import OrcFile
from acidctl.orc.tail import RESTORE_HINT
from acidctl.rows.file_report import DataFile, Json, SideFileFacts, data_files, failure
from acidctl.rows.pipeline import ordered_map, rows_per_batch
from acidctl.types.format_rows import csv_header, csv_lines, json_lines, lines
from acidctl.types.format_scalars import Damage

Render = Callable[[pa.RecordBatch], pa.Buffer | bytes]

_CSV_FIELDS = (
    "fileName",
    "status",
    "numberOfRows",
    "fileLength",
    "compression",
    "softwareVersion",
    "schemaString",
    "acid.is_acid",
    "acid.version",
    "acid.events",
    "acid.write_ids.min",
    "acid.write_ids.max",
    "acid.key_index.state",
    "acid.side_file.logical_length",
    "acid.damage",
)
# Key index states that a reader of the file has to worry about.
_FINDINGS = ("differs", "unreadable")
_LABEL_WIDTH = 13

# Large enough that the cost of calls does not show; a batch, its text and a few more of both are in memory.
_BATCH_ROWS = 32_768


@dataclass(frozen=True, slots=True)
class View:
    """What of the files is asked for; `row_index` names columns, None for none."""

    data: bool = option(False, "Print the rows, as `orc-tools data` does; -o for our own JSON or CSV.", "-d", "--data")
    events: bool = option(False, "Print the rows as ACID events: operation by name, bucket decoded.")
    lines: int | None = option(None, "At most N rows of each file.", "-n", "--lines", metavar="N", minimum=0)
    as_json: bool = option(False, "The same as -o json.", "-j", "--json", param="as_json")
    pretty: bool = option(False, "Indent JSON.", "-p", "--pretty")
    row_index: str | None = option(
        None,
        "Show row indexes of these columns, by id or name; `*` for all.",
        "-r",
        "--rowindex",
        metavar="COLS",
        param="row_index",
    )
    timezone: bool = option(False, "Show the writer's time zone of each stripe.", "-t", "--timezone")
    no_header: bool = option(False, HEADER)

    @property
    def rows(self) -> bool:
        """Whether rows are wanted instead of a report."""
        return self.data or self.events


@make_command(
    "dump",
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
        "acidctl dump /warehouse/orders/delta_0000005_0000005_0000/bucket_00001_0",
        "acidctl dump -d -n 10 /warehouse/orders/delta_0000001_0000004_v0000009",
        "acidctl dump --events /warehouse/orders/delete_delta_0000007_0000007_0000",
    ),
    arguments=[click.argument("paths", metavar="PATH...", nargs=-1, required=True)],
)
def command(out: Output, config: Config, view: View, *, paths: tuple[str, ...]) -> ExitCode:
    """Show what is in ORC files: schema, stripes, statistics, and what their ACID events say.

    PATH is a file, or a directory whose data files are shown in order. A file that streaming ingest has not
    closed is read up to the length that its side file gives.
    """
    if view.as_json and out.form is Format.TEXT:
        out = Output(out.terminal, Format.JSON, quiet=out.quiet, verbose=out.verbose)
        click.get_current_context().obj.set_output(out)
    _check(view)
    files = [file for path in paths for file in data_files(path, config.storage_options(path))]
    if not files:
        out.note(f"no data files below {' '.join(paths)}")
    if view.rows:
        return _write_rows(out, files, view)
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


# --- the report ------------------------------------------------------------------------------------------------------


def write_reports(
    out: Output, files: Sequence[DataFile], row_index: str | None, *, time_zone: bool, pretty: bool
) -> ExitCode:
    """Report on each file; one that cannot be read does not stop the others."""
    code = ExitCode.DONE
    reports: list[Json] = []
    for number, file in enumerate(files):
        try:
            report = file.report(row_index=row_index, time_zone=time_zone)
            code = code or _findings(out, report)
        except UsageError:
            raise
        except AcidctlError as error:
            if len(files) == 1:
                raise
            out.flush()
            out.error(error)
            code = error.exit_code if code in (ExitCode.DONE, ExitCode.FINDINGS) else code
            report = failure(file, error)
        if out.form is Format.TEXT:
            if number:
                out.line()
                out.line("_" * (out.width or 80))
                out.line()
            _Text(out, report).write()
        elif out.form is Format.JSONL:
            out.json_lines([report])
        else:
            reports.append(report)
    if out.form is Format.JSON:
        # One object for one file and an array for several, as orc-tools has it.
        document: object = reports[0] if len(reports) == 1 else reports
        indent = 2 if pretty or out.width else None
        out.data(encode(dump_json(document, indent=indent) + "\n"))
    elif out.form is Format.CSV:
        out.csv(_CSV_FIELDS, ([_field(report, name) for name in _CSV_FIELDS] for report in reports))
    return code


def _findings(out: Output, report: Json) -> ExitCode:
    """Warn of what makes readers of this file miss rows."""
    acid = report["acid"]
    if not acid["is_acid"]:
        if "damage" not in acid:
            return ExitCode.DONE
        out.error(DamagedDataError(acid["damage"], path=report["fileName"], hint=RESTORE_HINT))
        return ExitCode.DAMAGED
    found = ExitCode.DONE
    if acid["damage"]:
        out.warn(f"the rows of {report['fileName']} cannot be read to the end: {acid['damage']}")
        found = ExitCode.FINDINGS
    if acid["key_index"]["state"] in _FINDINGS:
        out.warn(f"the key index of {report['fileName']} is wrong: {acid['key_index']['reason']}")
        found = ExitCode.FINDINGS
    if acid["ordered"] is False:
        out.warn(f"the events of {report['fileName']} are not in key order, so Hive would merge them wrongly")
        found = ExitCode.FINDINGS
    return found


def _field(report: Json, path: str) -> object:
    value: Any = report
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


# --- text -------------------------------------------------------------------------------------------------------------


class _Text:
    """Lays out one report for eyes: facts first, then the ACID layer, columns, and each stripe."""

    def __init__(self, out: Output, report: Json) -> None:
        self._out = out
        self._report = report
        # Writers without a row index keep sizes alone, and leave every count at zero.
        roots = report.get("fileStatistics", [])[:1]
        self._counted = not report.get("numberOfRows") or any(root["count"] for root in roots)

    def write(self) -> None:
        """Write the whole report."""
        report = self._report
        self._title(report["fileName"])
        if report["status"] != "OK":
            self._fact("status", f"{report['status']}: {report['error']['message']}", Paint.BAD)
            return
        self._head()
        self._acid()
        self._columns()
        for number, stripe in enumerate(report["stripes"]):
            self._stripe(number, stripe)
        self._metadata()

    def _head(self) -> None:
        report = self._report
        self._fact("rows", f"{report['numberOfRows']:,}")
        self._fact("size", f"{report['fileLength']:,} bytes{_human(report['fileLength'])}")
        version = f"ORC {report['fileVersion']}, writer version {report['writerVersion']}"
        self._fact("format", f"{version}, by {report['softwareVersion']}")
        compression = report["compression"]
        if "compressionBufferSize" in report:
            compression += f", buffers of {report['compressionBufferSize']:,} bytes"
        self._fact("compression", compression)
        self._fact("calendar", _calendar_text(report))
        self._fact("raw size", f"{report['rawDataSize']:,} bytes as Hive's planner counts them")
        self._fact("padding", f"{report['paddingLength']:,} bytes ({report['paddingRatio']:.2f}%)")
        self._fact("schema", _BREAKS.sub(", ", report["schemaString"]), keep=report["schemaString"])

    def _acid(self) -> None:
        acid = self._report["acid"]
        self._heading("ACID")
        self._fact("file name", _name_text(acid["file_name"]))
        side = acid["side_file"]
        if side is None:
            self._fact("side file", "none")
        else:
            length = f"{side['logical_length']:,} of {self._report['fileLength']:,} bytes are committed"
            self._fact("side file", f"{side['name']}: {length}, {side['bytes_beyond']:,} beyond")
        if not acid["is_acid"]:
            if "damage" in acid:
                self._fact("damage", acid["damage"], Paint.BAD)
            else:
                self._fact("events", "none: plain rows, of an original file or an insert-only table")
            return
        self._fact("version", acid["version"] or "not given (hive.acid.version is missing)")
        self._fact("events", _counts_text(acid["events"]) or "none")
        if acid["stats"] is not None:
            self._fact("acid stats", _counts_text(acid["stats"], zeros=True))
        if acid["write_ids"] is not None:
            text = _range_text(acid["write_ids"])
            if acid["current_write_ids"] != acid["write_ids"]:
                text += f", changed by {_range_text(acid['current_write_ids'])}"
            self._fact("write ids", text)
        for bucket in acid["buckets"]:
            self._fact("bucket", _bucket_text(bucket))
        if acid["ordered"] is not None:
            paint = None if acid["ordered"] else Paint.BAD
            self._fact("order", "by key" if acid["ordered"] else "NOT by key", paint)
        state = acid["key_index"]["state"]
        self._fact(
            "key index",
            f"{state.replace('_', ' ')}: {acid['key_index']['reason']}",
            Paint.BAD if state in _FINDINGS else None,
        )
        if acid["damage"]:
            self._fact("damage", acid["damage"], Paint.BAD)
        rows = [
            [str(s["stripe"]), f"{s['events']:,}", *(_key_text(s[k]) for k in ("first_key", "last_key", "index_key"))]
            for s in acid["stripes"]
        ]
        if rows:
            self._out.line()
            self._table(
                (
                    Column("  STRIPE", right=True),
                    Column("EVENTS", right=True),
                    Column("FIRST KEY"),
                    Column("LAST KEY"),
                    Column("KEY INDEX"),
                ),
                rows,
            )

    def _columns(self) -> None:
        names = _columns_of(self._report["schema"])
        given = {item["columnId"]: item for item in self._report["fileStatistics"]}
        self._heading("Columns")
        self._table(
            (
                Column("  ID", right=True),
                Column("COLUMN"),
                Column("TYPE"),
                Column("VALUES", right=True),
                Column("NULLS"),
                Column("BYTES", right=True, drop=1),
                Column("STATISTICS", below=True),
            ),
            [
                [str(i), shown(name) or "(root)", kind, *self._statistics(given.get(i, {}))]
                for i, (name, kind) in names.items()
            ],
        )

    def _stripe(self, number: int, stripe: Json) -> None:
        info = stripe["stripeInformation"]
        sizes = f"index {info['indexLength']:,}, data {info['dataLength']:,}, footer {info['footerLength']:,} bytes"
        zone = f", time zone {shown(stripe['writerTimezone'])}" if "writerTimezone" in stripe else ""
        rows = plural(info["rowCount"], "row")
        self._heading(f"Stripe {stripe['stripeNumber']}: {rows} at {info['offset']:,}; {sizes}{zone}")
        names = _columns_of(self._report["schema"])
        given: dict[int, Json] = {}
        if number < len(self._report["stripeStatistics"]):
            columns = self._report["stripeStatistics"][number]["columnStatistics"]
            given = {item["columnId"]: item for item in columns}
        streams: dict[int, list[str]] = {}
        for stream in stripe["streams"]:
            text = f"{stream['section']} {stream['startOffset']}+{stream['length']}"
            streams.setdefault(stream["columnId"], []).append(text)
        self._table(
            (
                Column("  ID", right=True),
                Column("COLUMN"),
                Column("ENCODING"),
                Column("VALUES", right=True),
                Column("NULLS"),
                Column("BYTES", right=True, drop=1),
                Column("STATISTICS", below=True),
                Column("STREAMS (START+LENGTH)", below=True),
            ),
            [
                [
                    str(encoding["columnId"]),
                    shown(names[encoding["columnId"]][0]) or "(root)",
                    encoding["kind"] + (f"[{encoding['dictionarySize']}]" if "dictionarySize" in encoding else ""),
                    *self._statistics(given.get(encoding["columnId"], {})),
                    ", ".join(streams.get(encoding["columnId"], ())),
                ]
                for encoding in stripe["encodings"]
            ],
        )
        for index in stripe.get("indexes", ()):
            self._index(index, names[index["columnId"]][0])

    def _index(self, index: Json, name: str) -> None:
        title = f"row index of column {index['columnId']} ({shown(name) or 'root'})"
        self._out.line()
        if "rowGroupIndexes" not in index:
            self._out.line(f"  {title}: none")
        else:
            self._out.line(f"  {title}")
            self._table(
                (
                    Column("  ENTRY", right=True),
                    Column("VALUES", right=True),
                    Column("NULLS"),
                    Column("BYTES", right=True, drop=1),
                    Column("STATISTICS", below=True),
                    Column("POSITIONS", below=True),
                ),
                [
                    [str(e["entryId"]), *self._statistics(e), ", ".join(map(str, e["positions"]))]
                    for e in index["rowGroupIndexes"]
                ],
            )
        blooms = [(f"bloom filter {bloom['entryId']}", bloom) for bloom in index.get("bloomFilterIndexes", ())]
        if "stripeLevelBloomFilter" in index:
            blooms.append(("bloom filters merged", index["stripeLevelBloomFilter"]))
        for label, bloom in blooms:
            for number, line in enumerate(wrap(f"{label}: {_bloom_text(bloom)}", self._out.width, indent="    ")):
                self._out.line(line if number else line[2:])

    def _metadata(self) -> None:
        metadata = self._report.get("userMetadata")
        if not metadata:
            return
        self._heading("User metadata")
        for key, value in metadata.items():
            self._out.line(f"  {shown(key)} = {shown(value)}")

    def _statistics(self, given: Json) -> list[str]:
        """The cells VALUES, NULLS, BYTES and STATISTICS of one column."""
        if not given or "count" not in given:
            return ["", "", "", "none"]
        on_disk = given.get("bytesOnDisk")
        size = "" if on_disk is None else f"{on_disk:,}"
        if not given["count"] and not self._counted:
            return ["-", "-", size, "not kept"]
        known = ("columnId", "entryId", "count", "hasNull", "bytesOnDisk", "type", "positions")
        quoted = given.get("type") == "STRING"
        words = [
            f"{_WORDS.get(key, key)} {self._value(value, quoted=quoted)}"
            for key, value in given.items()
            if key not in known and value is not None
        ]
        return [
            f"{given['count']:,}",
            "yes" if given["hasNull"] else "no",
            size,
            ", ".join(words),
        ]

    def _value(self, value: object, *, quoted: bool) -> str:
        """A terminal shows the beginning of long values; a pipe gets all of it."""
        text = shown(str(value))
        if self._out.width is not None:
            text = cut(text, TERMINAL_VALUE)
        return f'"{text}"' if quoted and isinstance(value, str) else text

    def _title(self, text: str) -> None:
        self._out.line(self._out.paint(shown(text), Paint.BOLD))

    def _heading(self, text: str) -> None:
        self._out.line()
        for number, line in enumerate(wrap(text, self._out.width)):
            self._out.line(self._out.paint(line if not number else "  " + line, Paint.BOLD))

    def _fact(self, label: str, text: str, paint: Paint | None = None, *, keep: str | None = None) -> None:
        """A labelled line; `keep` is what a pipe gets instead of the text that was made to be wrapped."""
        indent = " " * (_LABEL_WIDTH + 2)
        lines = wrap(shown(text if self._out.width or keep is None else keep), self._out.width, indent=indent)
        for number, line in enumerate(lines or [indent]):
            body = self._out.paint(line[len(indent) :], paint)
            self._out.line((f"  {label:<{_LABEL_WIDTH}}" if not number else indent) + body)

    def _table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
        cells = [[Cell(text) for text in row] for row in rows]
        for line in render_table(self._out, columns, cells):
            self._out.line(line)


_WORDS = {
    "trueCount": "true",
    "falseCount": "false",
    "totalLength": "total length",
    "minChildren": "fewest elements",
    "maxChildren": "most elements",
    "totalChildren": "elements",
    "lowerBound": "at least",
    "upperBound": "at most",
}


_BREAKS = re.compile(r",(?![0-9])")


def _calendar_text(report: Json) -> str:
    """What the file says of its days, and how they are read."""
    if report["acid"]["calendar_marked"]:
        return str(report["calendar"])
    return (
        f"not marked, which counts as {report['calendar']}; days are {report['acid']['calendar']}, as Hive reads them"
    )


def _human(size: int) -> str:
    return f" ({human_size(size)})" if size >= 1024 else ""


def _columns_of(schema: Json, name: str = "") -> dict[int, tuple[str, str]]:
    """Name and type word of every column id."""
    kind = str(schema["columnType"]).lower()
    if "precision" in schema:
        kind += f"({schema['precision']},{schema['scale']})"
    elif "maxLength" in schema:
        kind += f"({schema['maxLength']})"
    result = {int(schema["columnId"]): (name, kind)}
    children = schema.get("children", ())
    if isinstance(children, dict):
        pairs = list(children.items())
    else:
        parts = {"LIST": ("_elem",), "MAP": ("_key", "_value")}.get(schema["columnType"])
        pairs = list(zip(parts or map(str, range(len(children))), children, strict=True))
    for part, child in pairs:
        result |= _columns_of(child, f"{name}.{part}" if name else part)
    return result


def _name_text(name: Json) -> str:
    if name["kind"] == "unrecognised":
        return "says no bucket"
    text = f"bucket {name['bucket_id']}"
    if name["kind"] == "original":
        text = f"original file of bucket {name['bucket_id']}"
        if name["copy_number"] is not None:
            text += f", copy {name['copy_number']}"
    return text + ("" if name["attempt_id"] is None else f", attempt {name['attempt_id']}")


def _counts_text(counts: Json, *, zeros: bool = False) -> str:
    """`3 inserts, 1 delete`."""
    return ", ".join(plural(count, operation) for operation, count in counts.items() if count or zeros)


def _range_text(ends: Json) -> str:
    return str(ends["min"]) if ends["min"] == ends["max"] else f"{ends['min']} to {ends['max']}"


def _bucket_text(bucket: Json) -> str:
    value, events = bucket["bucket_property"], plural(bucket["events"], "event")
    if bucket["version"] is None:
        return f"{value}, which no codec version knows ({events})"
    statement = "" if bucket["statement_id"] is None else f", statement {bucket['statement_id']}"
    return f"{value} = bucket {bucket['bucket_id']}{statement} (codec version {bucket['version']}; {events})"


def _key_text(key: Json | None) -> str:
    return "-" if key is None else f"{key['write_id']}, {key['bucket_property']}, {key['row_id']}"


def _bloom_text(bloom: Json) -> str:
    share = f"{bloom['popCount']:,} of {bloom['bitCount']:,} bits set, load factor {bloom['loadFactor']}"
    return f"{bloom['numHashFunctions']} hash functions, {share}, expected false positives {bloom['expectedFpp']}"
