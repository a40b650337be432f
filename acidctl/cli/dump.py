"""`acidctl dump`: what is in an ORC file, the ACID layer decoded; its rows as `orc-tools data` prints them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click
import pyarrow as pa

from acidctl.cli.options import by_name, metastore_option
from acidctl.cli.options import command as make_command
from acidctl.cli.output import (
    TERMINAL_VALUE,
    Cell,
    Column,
    Format,
    JsonArray,
    Output,
    Paint,
    cut,
    dump_json,
    encode,
    human_size,
    plural,
    progress,
    shown,
    wrap,
)
from acidctl.config import Config
from acidctl.errors import AcidctlError, DamagedDataError, ExitCode, NotAcidTableError, UsageError
from acidctl.options import ReadView, option, same_option
from acidctl.orc.orc_tools import SEPARATOR, event_columns, event_schema, row_style
from acidctl.orc.reader import OrcFile
from acidctl.orc.tail import RESTORE_HINT
from acidctl.rows.file_report import DataFile, Json, data_files, failure
from acidctl.rows.pipeline import ordered_map
from acidctl.types.format_rows import csv_header, csv_lines, json_lines, lines
from acidctl.types.format_scalars import Damage
from acidctl.values import dataclass

Render = Callable[[pa.RecordBatch], pa.Buffer | bytes]

_CSV_FIELDS = (
    *("fileName", "status", "numberOfRows", "fileLength", "compression", "softwareVersion", "schemaString"),
    *("acid.is_acid", "acid.version", "acid.events", "acid.write_ids.min", "acid.write_ids.max"),
    *("acid.key_index.state", "acid.side_file.logical_length", "acid.damage"),
)
# Key index states that a reader of the file has to worry about.
_FINDINGS = ("differs", "unreadable")

# Large enough that the cost of calls does not show; a batch, its text and a few more of both are in memory.
_BATCH_ROWS = 16_384


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
    partitions: Sequence[str] = same_option(ReadView, "partitions")
    timezone: bool = option(False, "Show the writer's time zone of each stripe.", "-t", "--timezone")


@make_command(
    "dump",
    View,
    examples=(
        "acidctl dump /warehouse/orders/delta_0000005_0000005_0000/bucket_00001_0",
        "acidctl dump --events -n 10 /warehouse/orders/delete_delta_0000007_0000007_0000",
        "acidctl dump sales.orders --partition region=EU --metastore thrift://metastore:9083",
    ),
    arguments=[click.argument("paths", metavar="PATH...", nargs=-1, required=True), metastore_option()],
)
def command(out: Output, config: Config, view: View, *, paths: tuple[str, ...]) -> ExitCode:
    """Show what is in ORC files: schema, stripes, statistics, and what their ACID events say.

    PATH is a file, or a directory whose data files are shown in order. A file that streaming ingest has not
    closed is read up to the length that its side file gives. With a metastore it may be a table's name.
    """
    if view.as_json and out.form is Format.TEXT:
        out.form = Format.JSON
    rows = view.data or view.events
    if view.data and view.events:
        raise UsageError("--data and --events are two forms of the same rows; give one of them")
    if view.lines is not None and not rows:
        raise UsageError("--lines is about rows", hint="Add --data or --events.")
    if rows and (view.row_index is not None or view.timezone):
        raise UsageError("--rowindex and --timezone belong to the report, not to rows")
    files = [
        file
        for given in paths
        for path in _directories(config, given, view.partitions)
        for file in data_files(path, config.storage_options(path))
    ]
    if not files:
        out.note(f"no data files below {' '.join(paths)}")
    return _write_rows(out, files, view) if rows else _write_reports(out, files, view)


def _directories(config: Config, given: str, partitions: Sequence[str]) -> Sequence[str]:
    """What a path names, or the places of a table or of its partitions by its name."""
    metastore, name = by_name(config, given)
    if metastore is not None:
        return metastore.table(name).directories(partitions)
    if partitions:
        raise UsageError(
            f"--partition is for a table by name, and {given} is a path", hint="Name the partition's directory."
        )
    return [given]


# --- rows


def _write_rows(out: Output, files: list[DataFile], view: View) -> ExitCode:
    """The rows of one file after the other; of several, one that fails is reported and does not stop the others."""
    damage = Damage()
    array = JsonArray(out) if out.form is Format.JSON else None
    code = ExitCode.DONE
    header: bytes | None = None
    try:
        for file in files:
            try:
                header = _write_file(out, file, view, damage, array, header)
            except AcidctlError as error:
                if len(files) == 1:
                    raise
                out.flush()
                out.error(error)
                code = code or error.exit_code
    except BaseException:
        # What was written stays a document, and an answer that has not begun stays empty.
        if array is not None and array.started:
            array.close()
        raise
    if array is not None:
        array.close()
    if damage.count:
        out.warn(f"{plural(damage.count, 'string')} not valid UTF-8, shown with replacement characters (U+FFFD)")
    return code


def _write_file(
    out: Output, file: DataFile, view: View, damage: Damage, array: JsonArray | None, header: bytes | None
) -> bytes | None:
    """All rows of a file that are wanted; takes and gives the CSV header that stands above them."""
    side = file.side_file()
    if side is not None and not side.logical_length:
        out.note(f"{file.name}: its side file gives length 0, so nothing of it was ever committed")
        return header
    with file.open(side) as opened:
        orc = opened.orc
        if view.events and not orc.is_acid:
            raise opened.shape_damage or NotAcidTableError(
                f"{file.name} holds plain rows, no ACID events",
                path=file.name,
                hint="It is an original file or one of an insert-only table; -d prints its rows.",
            )
        own_header, render = _renderer(orc, view, out.form, damage)
        # Files of one schema share a header; another schema is another table in the same stream.
        if own_header is not None and own_header != header and out.header:
            out.machine_data(own_header)
            header = own_header
        batch_rows = orc.rows_per_batch(min(_BATCH_ROWS, view.lines) if view.lines else _BATCH_ROWS)
        batches = orc.scan(batch_size=batch_rows, limit=view.lines)
        with progress(out, "dump", "rows") as report:
            done = 0
            for count, chunk in ordered_map(
                lambda batch: (len(batch), render(batch)),
                iter(()) if view.lines == 0 else batches,
                size=lambda batch: batch.nbytes,
            ):
                (array.data if array else out.machine_data)(chunk)
                done += count
                if out.width is None:  # on one screen a bar would get in between the rows
                    report(done, orc.rows)
        if opened.shape_damage is not None:
            raise opened.shape_damage
    if view.data and out.form is Format.TEXT:
        out.data(SEPARATOR)
    return header


def _renderer(orc: OrcFile, view: View, form: Format, damage: Damage) -> tuple[bytes | None, Render]:
    """The CSV header, if the form has one, and what makes text of a batch."""
    schema = event_schema(orc) if view.events else orc.schema
    names, types = schema.names, tuple(field.type for field in schema.fields)
    columns: Callable[[pa.RecordBatch], Sequence[pa.Array]] = (
        event_columns if view.events else lambda batch: batch.columns
    )
    if not names:
        return None, lambda batch: b"{}\n" * len(batch)
    if form is Format.CSV:
        return csv_header(names), lambda batch: csv_lines(columns(batch), types, damage=damage)
    if view.data and form is Format.TEXT:
        style, names = row_style(orc.tail), orc.tail.types[0].names
        return None, lambda batch: lines(columns(batch), names, types, style, damage)
    return None, lambda batch: json_lines(columns(batch), names, types, damage=damage)


# --- the report


def _write_reports(out: Output, files: Sequence[DataFile], view: View) -> ExitCode:
    """Report on each file; one that cannot be read does not stop the others."""
    code = ExitCode.DONE
    reports: list[Json] = []
    for number, file in enumerate(files):
        try:
            report = file.report(row_index=view.row_index, time_zone=view.timezone)
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
            out.machine(dict, [report], ())
        else:
            reports.append(report)
    if out.form is Format.JSON:
        # One object for one file and an array for several, as orc-tools has it.
        document: object = reports[0] if len(reports) == 1 else reports
        out.machine_data(encode(dump_json(document, indent=2 if view.pretty or out.width else None) + "\n"))
    elif out.form is Format.CSV:
        out.machine(dict, reports, _CSV_FIELDS)
    return code


def _findings(out: Output, report: Json) -> ExitCode:
    """Warn of what makes readers of this file miss rows."""
    acid, name = report["acid"], report["fileName"]
    if not acid["is_acid"]:
        if "damage" not in acid:
            return ExitCode.DONE
        out.error(DamagedDataError(acid["damage"], path=name, hint=RESTORE_HINT))
        return ExitCode.DAMAGED
    warnings = []
    if acid["damage"]:
        warnings.append(f"the rows of {name} cannot be read to the end: {acid['damage']}")
    if acid["key_index"]["state"] in _FINDINGS:
        warnings.append(f"the key index of {name} is wrong: {acid['key_index']['reason']}")
    if acid["ordered"] is False:
        warnings.append(f"the events of {name} are not in key order, so Hive would merge them wrongly")
    out.warn(*warnings)
    return ExitCode.FINDINGS if warnings else ExitCode.DONE


# --- text

_LABEL_WIDTH = 13
_BREAKS = re.compile(r",(?![0-9])")
_STATISTICS = (
    Column("VALUES", right=True),
    Column("NULLS"),
    Column("BYTES", right=True, drop=1),
    Column("STATISTICS", below=True),
)
# Of the statistics those that have a column of their own, and the words for others.
_SHOWN_APART = ("columnId", "entryId", "count", "hasNull", "bytesOnDisk", "type", "positions")
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


class _Text:
    """Lays out one report for eyes: facts first, then the ACID layer, columns, and each stripe."""

    def __init__(self, out: Output, report: Json) -> None:
        self._out = out
        self._report = report
        self._names = _columns_of(report["schema"]) if "schema" in report else {}
        # Writers without a row index keep sizes alone, and leave every count at zero.
        roots = report.get("fileStatistics", [])[:1]
        self._counted = not report.get("numberOfRows") or any(root["count"] for root in roots)

    def write(self) -> None:
        """Write the whole report."""
        report, out = self._report, self._out
        out.line(Cell(report["fileName"], Paint.BOLD))
        if report["status"] != "OK":
            self._fact("status", f"{report['status']}: {report['error']['message']}", Paint.BAD)
            return
        self._head()
        self._acid()
        self._heading("Columns")
        given = {item["columnId"]: item for item in report["fileStatistics"]}
        out.table(
            (Column("  ID", right=True), Column("COLUMN"), Column("TYPE"), *_STATISTICS),
            [[i, name or "(root)", kind, *self._statistics(given.get(i))] for i, (name, kind) in self._names.items()],
        )
        for number, stripe in enumerate(report["stripes"]):
            self._stripe(number, stripe)
        if report.get("userMetadata"):
            self._heading("User metadata")
            for key, value in report["userMetadata"].items():
                out.line(f"  {key} = {value}")

    def _head(self) -> None:
        report = self._report
        size = report["fileLength"]
        self._fact("rows", f"{report['numberOfRows']:,}")
        self._fact("size", f"{size:,} bytes" + (f" ({human_size(size)})" if size >= 1024 else ""))
        version = f"ORC {report['fileVersion']}, writer version {report['writerVersion']}"
        self._fact("format", f"{version}, by {report['softwareVersion']}")
        compression = report["compression"]
        if "compressionBufferSize" in report:
            compression += f", buffers of {report['compressionBufferSize']:,} bytes"
        self._fact("compression", compression)
        calendar = str(report["calendar"])
        if not report["acid"]["calendar_marked"]:
            read = report["acid"]["calendar"]
            calendar = f"not marked, which counts as {calendar}; days are {read}, as Hive reads them"
        self._fact("calendar", calendar)
        self._fact("raw size", f"{report['rawDataSize']:,} bytes as Hive's planner counts them")
        self._fact("padding", f"{report['paddingLength']:,} bytes ({report['paddingRatio']:.2f}%)")
        # A pipe gets the text that was not made to be wrapped.
        schema = report["schemaString"]
        self._fact("schema", _BREAKS.sub(", ", schema) if self._out.width else schema)

    def _acid(self) -> None:
        acid, side = self._report["acid"], self._report["acid"]["side_file"]
        self._heading("ACID")
        self._fact("file name", _name_text(acid["file_name"]))
        text = "none"
        if side is not None:
            length = f"{side['logical_length']:,} of {self._report['fileLength']:,} bytes are committed"
            text = f"{side['name']}: {length}, {side['bytes_beyond']:,} beyond"
        self._fact("side file", text)
        if not acid["is_acid"]:
            if "damage" in acid:
                self._fact("damage", acid["damage"], Paint.BAD)
            else:
                self._fact("events", "none: plain rows, of an original file or an insert-only table")
            return
        self._fact("version", acid["version"] or "not given (hive.acid.version is missing)")
        counts = [plural(count, operation) for operation, count in acid["events"].items() if count]
        self._fact("events", ", ".join(counts) or "none")
        if acid["stats"] is not None:
            self._fact("acid stats", ", ".join(plural(count, operation) for operation, count in acid["stats"].items()))
        if acid["write_ids"] is not None:
            text, current = _range_text(acid["write_ids"]), acid["current_write_ids"]
            self._fact(
                "write ids", text if current == acid["write_ids"] else f"{text}, changed by {_range_text(current)}"
            )
        for bucket in acid["buckets"]:
            self._fact("bucket", _bucket_text(bucket))
        if acid["ordered"] is not None:
            self._fact("order", *(("by key", None) if acid["ordered"] else ("NOT by key", Paint.BAD)))
        state, reason = acid["key_index"]["state"], acid["key_index"]["reason"]
        self._fact("key index", f"{state.replace('_', ' ')}: {reason}", Paint.BAD if state in _FINDINGS else None)
        if acid["damage"]:
            self._fact("damage", acid["damage"], Paint.BAD)
        keys = ("first_key", "last_key", "index_key")
        if acid["stripes"]:
            self._out.line()
            self._out.table(
                (
                    *(Column("  STRIPE", right=True), Column("EVENTS", right=True)),
                    *(Column("FIRST KEY"), Column("LAST KEY"), Column("KEY INDEX")),
                ),
                [[s["stripe"], f"{s['events']:,}", *(_key_text(s[key]) for key in keys)] for s in acid["stripes"]],
            )

    def _stripe(self, number: int, stripe: Json) -> None:
        info = stripe["stripeInformation"]
        sizes = f"index {info['indexLength']:,}, data {info['dataLength']:,}, footer {info['footerLength']:,} bytes"
        zone = f", time zone {shown(stripe['writerTimezone'])}" if "writerTimezone" in stripe else ""
        rows = plural(info["rowCount"], "row")
        self._heading(f"Stripe {stripe['stripeNumber']}: {rows} at {info['offset']:,}; {sizes}{zone}")
        given: dict[int, Json] = {}
        if number < len(self._report["stripeStatistics"]):
            columns = self._report["stripeStatistics"][number]["columnStatistics"]
            given = {item["columnId"]: item for item in columns}
        streams: dict[int, list[str]] = {}
        for stream in stripe["streams"]:
            text = f"{stream['section']} {stream['startOffset']}+{stream['length']}"
            streams.setdefault(stream["columnId"], []).append(text)
        table: list[list[object]] = []
        for encoding in stripe["encodings"]:
            column = encoding["columnId"]
            kind = encoding["kind"] + (f"[{encoding['dictionarySize']}]" if "dictionarySize" in encoding else "")
            statistics = self._statistics(given.get(column))
            table.append([column, self._names[column][0] or "(root)", kind, *statistics, _list(streams.get(column))])
        below = Column("STREAMS (START+LENGTH)", below=True)
        self._out.table((Column("  ID", right=True), Column("COLUMN"), Column("ENCODING"), *_STATISTICS, below), table)
        for index in stripe.get("indexes", ()):
            self._index(index, self._names[index["columnId"]][0])

    def _index(self, index: Json, name: str) -> None:
        entries = index.get("rowGroupIndexes")
        self._out.line()
        none = ": none" if entries is None else ""
        self._out.line(f"  row index of column {index['columnId']} ({shown(name) or 'root'}){none}")
        if entries is not None:
            columns = (Column("  ENTRY", right=True), *_STATISTICS, Column("POSITIONS", below=True))
            self._out.table(columns, [[e["entryId"], *self._statistics(e), _list(e["positions"])] for e in entries])
        blooms = [(f"bloom filter {bloom['entryId']}", bloom) for bloom in index.get("bloomFilterIndexes", ())]
        if "stripeLevelBloomFilter" in index:
            blooms.append(("bloom filters merged", index["stripeLevelBloomFilter"]))
        for label, bloom in blooms:
            share = f"{bloom['popCount']:,} of {bloom['bitCount']:,} bits set, load factor {bloom['loadFactor']}"
            false = f"expected false positives {bloom['expectedFpp']}"
            text = f"{label}: {bloom['numHashFunctions']} hash functions, {share}, {false}"
            for number, line in enumerate(wrap(text, self._out.width, indent="    ")):
                self._out.line(line if number else line[2:])

    def _statistics(self, given: Json | None) -> list[object]:
        """The cells VALUES, NULLS, BYTES and STATISTICS of one column."""
        if not given or "count" not in given:
            return [None, None, None, "none"]
        on_disk = given.get("bytesOnDisk")
        size = None if on_disk is None else f"{on_disk:,}"
        if not given["count"] and not self._counted:
            return ["-", "-", size, "not kept"]
        words = []
        for key, value in given.items():
            if key not in _SHOWN_APART and value is not None:
                # A terminal shows the beginning of long values; a pipe gets all of it.
                text = shown(str(value)) if self._out.width is None else cut(shown(str(value)), TERMINAL_VALUE)
                quoted = given.get("type") == "STRING" and isinstance(value, str)
                words.append(f"{_WORDS.get(key, key)} " + (f'"{text}"' if quoted else text))
        return [f"{given['count']:,}", "yes" if given["hasNull"] else "no", size, ", ".join(words)]

    def _heading(self, text: str) -> None:
        self._out.line()
        for number, line in enumerate(wrap(text, self._out.width)):
            self._out.line(Cell("  " + line if number else line, Paint.BOLD))

    def _fact(self, label: str, text: str, paint: Paint | None = None) -> None:
        """A labelled line."""
        indent = " " * (_LABEL_WIDTH + 2)
        for number, line in enumerate(wrap(shown(text), self._out.width, indent=indent) or [indent]):
            start = indent if number else f"  {label:<{_LABEL_WIDTH}}"
            self._out.line(start, Cell(line[len(indent) :], paint))


def _list(values: Iterable[object] | None) -> str:
    return ", ".join(map(str, values or ()))


def _columns_of(schema: Json, name: str = "") -> dict[int, tuple[str, str]]:
    """Name and type word of every column id."""
    kind = str(schema["columnType"]).lower()
    if "precision" in schema:
        kind += f"({schema['precision']},{schema['scale']})"
    elif "maxLength" in schema:
        kind += f"({schema['maxLength']})"
    result = {int(schema["columnId"]): (name, kind)}
    children: Any = schema.get("children", ())
    if not isinstance(children, dict):
        parts = {"LIST": ("_elem",), "MAP": ("_key", "_value")}.get(schema["columnType"])
        children = dict(zip(parts or map(str, range(len(children))), children, strict=True))
    for part, child in children.items():
        result |= _columns_of(child, f"{name}.{part}" if name else part)
    return result


def _name_text(name: Json) -> str:
    if name["kind"] == "unrecognised":
        return "says no bucket"
    text = f"bucket {name['bucket_id']}"
    if name["kind"] == "original":
        text = f"original file of {text}" + ("" if name["copy_number"] is None else f", copy {name['copy_number']}")
    return text + ("" if name["attempt_id"] is None else f", attempt {name['attempt_id']}")


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
