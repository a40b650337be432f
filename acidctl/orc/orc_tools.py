"""What orc-tools prints of a file: its metadata as one JSON object (`meta -j`), its rows (`data`), its events decoded.

The keys of the report are those of `JsonFileDump`, so that scripts written for that find their way, plus `type` and
`schema_version`. Values are in our own encoding: a date or timestamp as everywhere in acidctl, null where orc-tools
shows an extreme number for what a writer did not note, NaN as a string.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import UsageError
from acidctl.format.bucket_codec import BucketCodecError, decode
from acidctl.format.events import Operation
from acidctl.orc.acidmeta import ACID_STATS, parse_acid_stats
from acidctl.orc.calendar import SECONDS_PER_DAY, hybrid_seconds_to_proleptic, hybrid_to_proleptic
from acidctl.orc.reader import OrcFile
from acidctl.orc.stats import ColumnStatistics, StatisticsKind, ValueStatistics
from acidctl.orc.stripe import BloomFilter, ColumnIndex, EncodingKind, StripeFooter, read_column_index
from acidctl.orc.tail import Calendar, OrcKind, ReadableFile, Tail, Writer
from acidctl.types import format_scalars, java_numbers, pieces
from acidctl.types.format_rows import Style, Text, json_strings
from acidctl.types.format_scalars import Int64Array
from acidctl.types.hive_types import Field, Primitive, StructType, TypeKind, quote_name
from acidctl.values import dataclass

Json = dict[str, Any]

_WRITER_VERSIONS = (
    *("ORIGINAL", "HIVE_8732", "HIVE_4243", "HIVE_12055", "HIVE_13083"),
    *("ORC_101", "ORC_135", "ORC_517", "ORC_203", "ORC_14"),
)
_WRITERS = {
    Writer.ORC_JAVA: "ORC Java",
    Writer.ORC_CPP: "ORC C++",
    Writer.PRESTO: "Presto",
    Writer.SCRITCHLEY_GO: "Scritchley Go",
    Writer.TRINO: "Trino",
    Writer.CUDF: "CUDF",
}
_DICTIONARIES = (EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2)
_TEXTS = (OrcKind.STRING, OrcKind.CHAR, OrcKind.VARCHAR)
# Bytes that a value takes in Java's memory (JavaDataModel, 64 bits): Hive's planner reckons with them.
_JAVA_STRING, _JAVA_DECIMAL, _JAVA_DATE, _JAVA_TIMESTAMP = 84, 112, 56, 40
_JAVA_BYTES = {
    OrcKind.DOUBLE: 8,
    OrcKind.LONG: 8,
    OrcKind.TIMESTAMP: _JAVA_TIMESTAMP,
    OrcKind.TIMESTAMP_INSTANT: _JAVA_TIMESTAMP,
    OrcKind.DATE: _JAVA_DATE,
    OrcKind.DECIMAL: _JAVA_DECIMAL,
}
# More places than any decimal of Hive has.
_MOST_PLACES = 100
_LAST_NANOS = 999_999  # of a maximum that is known to the millisecond only


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What beyond the usual is wanted: column ids whose row indexes are shown, writers' time zones."""

    row_index: tuple[int, ...] = ()
    time_zone: bool = False


def file_report(orc: OrcFile, stream: ReadableFile, *, name: str, size: int, options: ReportOptions) -> Json:
    """The report without the ACID layer; `size` is the length of the file on storage."""
    tail = orc.tail
    # Writers align stripes with HDFS blocks.
    padding = sum(after.offset - before.end for before, after in pairwise(tail.stripes))
    report: Json = {
        "type": "dump",
        "schema_version": 1,
        "fileName": name,
        "fileVersion": ".".join(map(str, tail.postscript.version)) or "0.11",
        "writerVersion": writer_version(tail),
        "softwareVersion": software_version(tail),
        "numberOfRows": tail.rows,
        "compression": tail.postscript.compression.name,
    }
    if tail.postscript.compression:
        report["compressionBufferSize"] = tail.postscript.block_size
    report |= {
        "schemaString": str(tail.hive_type()),
        "schema": _schema(tail, 0),
        "calendar": "proleptic Gregorian" if tail.calendar is Calendar.PROLEPTIC_GREGORIAN else "Julian/Gregorian",
        "stripeStatistics": [
            {"stripeNumber": i + 1, "columnStatistics": _all_statistics(tail, columns)}
            for i, columns in enumerate(orc.stripe_statistics())
        ],
        "fileStatistics": _all_statistics(tail, tail.statistics),
        "stripes": [_stripe(orc, stream, i, footer, options) for i, footer in enumerate(orc.stripe_footers())],
        "fileLength": size,
        "rawDataSize": _raw_data_size(tail),
        "paddingLength": padding,
        "paddingRatio": padding / size * 100,
    }
    with suppress(ValueError):
        stats = parse_acid_stats(tail.metadata_value(ACID_STATS) or b"")
        report |= {"numInserts": stats.inserts, "numDeletes": stats.deletes, "numUpdates": stats.updates}
    metadata = {key: value.decode("utf-8", "replace") for key, value in tail.user_metadata if key != ACID_STATS}
    if metadata:
        report["userMetadata"] = metadata
    report["status"] = "OK"
    return report


def failed_report(name: str, error: Json) -> Json:
    """What stands for a file that cannot be read, among the reports of others."""
    return {"type": "dump", "schema_version": 1, "fileName": name, "status": "FAILED", "error": error}


def writer_version(tail: Tail) -> str:
    """ORC's name for the version of the writer (`OrcFile.WriterVersion`)."""
    number = tail.postscript.writer_version
    if tail.writer is Writer.ORC_JAVA:
        return _WRITER_VERSIONS[number] if number < len(_WRITER_VERSIONS) else "FUTURE"
    if tail.writer is Writer.UNKNOWN or number != 6:
        return "FUTURE"
    return f"{tail.writer.name}_ORIGINAL"


def software_version(tail: Tail) -> str:
    """Who wrote the file, and the version if it says so."""
    name = _WRITERS.get(tail.writer, f"Unknown({tail.writer_code})")
    return f"{name} {tail.software_version}" if tail.software_version else name


def column_names(tail: Tail) -> tuple[str, ...]:
    """The full name of every column id, parts joined with dots as ORC does; the root's is empty."""
    names = [""] * len(tail.types)
    for column, entry in enumerate(tail.types):
        parts: Sequence[str] = tuple(map(quote_name, entry.names))
        if entry.kind is OrcKind.LIST:
            parts = ("_elem",)
        elif entry.kind is OrcKind.MAP:
            parts = ("_key", "_value")
        elif entry.kind is OrcKind.UNION:
            parts = tuple(map(str, range(len(entry.subtypes))))
        for child, part in zip(entry.subtypes, parts, strict=True):
            names[child] = f"{names[column]}.{part}" if names[column] else part
    return tuple(names)


def parse_columns(text: str, tail: Tail) -> tuple[int, ...]:
    """Column ids of a list such as `1,4` or `row.id`; `*` means all. UsageError for what is not a column."""
    if text.strip() == "*":
        return tuple(range(len(tail.types)))
    names = {name: column for column, name in enumerate(column_names(tail)) if name}
    columns = []
    for part in text.split(","):
        word = part.strip()
        column = int(word) if word.isascii() and word.isdigit() else names.get(word, -1)
        if not 0 <= column < len(tail.types):
            raise UsageError(
                f"--rowindex: {tail.name} has no column '{word}'",
                hint=f"Its column ids are 0 to {len(tail.types) - 1}; `*` stands for all.",
            )
        columns.append(column)
    return tuple(columns)


def _schema(tail: Tail, column: int) -> Json:
    entry = tail.types[column]
    result: Json = {"columnId": column, "columnType": entry.kind.name}
    if entry.attributes:
        result["attributes"] = dict(entry.attributes)
    hive_type = tail.hive_type(column)
    if entry.kind is OrcKind.DECIMAL:
        result |= {"precision": getattr(hive_type, "precision", None), "scale": getattr(hive_type, "scale", None)}
    elif entry.kind in (OrcKind.CHAR, OrcKind.VARCHAR):
        result["maxLength"] = getattr(hive_type, "length", None)
    children = [_schema(tail, child) for child in entry.subtypes]
    if entry.kind is OrcKind.STRUCT:
        # orc-tools has names as keys; of two fields of one name neither may go missing.
        named = dict(zip(reversed(entry.names), reversed(children), strict=True))
        for name, child in zip(entry.names, children, strict=True):
            if named[name] is not child:
                named[f"{name} (column {child['columnId']})"] = child
        result["children"] = dict(sorted(named.items(), key=lambda pair: pair[1]["columnId"]))
    elif children:
        result["children"] = children
    return result


# --- statistics -------------------------------------------------------------------------------------------------------


def _all_statistics(tail: Tail, columns: Sequence[ColumnStatistics]) -> list[Json]:
    return [{"columnId": i, **statistics(tail, i, column)} for i, column in enumerate(columns)]


def statistics(tail: Tail, column: int, given: ColumnStatistics) -> Json:
    """One column's statistics in the words of orc-tools."""
    count = given.count or 0
    result: Json = {"count": count, "hasNull": given.has_null is not False}
    if given.bytes_on_disk:
        result["bytesOnDisk"] = given.bytes_on_disk
    values = given.values
    if values is None:
        return result
    match values.kind:
        case StatisticsKind.INTEGER:
            result |= {"min": values.minimum, "max": values.maximum}
            result |= ({} if values.sum is None else {"sum": values.sum}) | {"type": "LONG"}
            return result
        case StatisticsKind.DOUBLE:
            numbers = {"min": values.minimum, "max": values.maximum, "sum": values.sum or 0.0}
            result |= {key: _double(number) for key, number in numbers.items()}
        case StatisticsKind.STRING:
            # Bounds, or what they were cut to when they were longer than writers keep.
            low, high = ("min", values.minimum), ("max", values.maximum)
            low = ("lowerBound", values.lower_bound) if values.minimum is None else low
            high = ("upperBound", values.upper_bound) if values.maximum is None else high
            result |= {name: value for name, value in (low, high) if value is not None}
            result["totalLength"] = values.sum or 0
        case StatisticsKind.DATE:
            result |= _date_bounds(tail, values, count)
        case StatisticsKind.TIMESTAMP:
            result |= _timestamp_bounds(tail, column, values)
        case StatisticsKind.DECIMAL if values.minimum is not None and values.maximum is not None:
            result |= {"min": _decimal(values.minimum), "max": _decimal(values.maximum)}
            result |= {} if values.sum is None else {"sum": _decimal(values.sum)}
        case StatisticsKind.BINARY:
            result["totalLength"] = values.sum or 0
        case StatisticsKind.BOOLEAN:
            true = values.sum or 0
            result |= {"trueCount": true, "falseCount": count - true}
        case StatisticsKind.COLLECTION:
            names = ("minChildren", "maxChildren", "totalChildren")
            return result | dict(zip(names, (values.minimum, values.maximum or 0, values.sum or 0), strict=True))
    result["type"] = values.kind.name
    return result


def _date_bounds(tail: Tail, values: ValueStatistics, count: int) -> Json:
    if not count or values.minimum is None or values.maximum is None:
        return {}
    days = np.array([values.minimum, values.maximum], dtype=np.int64)
    low, high = format_scalars.day_text(
        pa.array(hybrid_to_proleptic(days) if tail.is_hybrid else days), format_scalars.hive_year
    ).to_pylist()
    return {"min": low, "max": high}


def _timestamp_bounds(tail: Tail, column: int, values: ValueStatistics) -> Json:
    """Bounds as wall clock, of instants in UTC; milliseconds, and the nanoseconds within where they were noted."""
    low = values.minimum if values.minimum_utc is None else values.minimum_utc
    high = values.maximum if values.maximum_utc is None else values.maximum_utc
    if low is None or high is None or low > high:
        return {}
    local = tail.types[column].kind is OrcKind.TIMESTAMP_INSTANT
    millis = np.array([low, high], dtype=np.int64)
    rest = [(values.minimum_nanos or 1) - 1, (values.maximum_nanos or _LAST_NANOS + 1) - 1]
    seconds = millis // 1000
    if tail.is_hybrid and not local:
        seconds = hybrid_seconds_to_proleptic(seconds)
    moments = pa.StructArray.from_arrays(
        [pa.array(seconds), pa.array((millis % 1000 * 1_000_000 + rest).astype(np.int32))], ["seconds", "nanos"]
    )
    first, last = format_scalars.timestamps(moments, local).to_pylist()
    return {"min": first, "max": last}


def _decimal(text: str) -> str:
    """The number without exponent and trailing zeros; other text stays as it is."""
    try:
        number = Decimal(text)
    except ArithmeticError:
        return text
    # Written out, a few letters may be a thousand million zeros.
    if number.is_finite() and abs(number.adjusted()) > _MOST_PLACES:
        return text
    plain = format(number, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _double(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


# --- stripes ----------------------------------------------------------------------------------------------------------


def _stripe(orc: OrcFile, stream: ReadableFile, number: int, footer: StripeFooter, options: ReportOptions) -> Json:
    stripe = orc.tail.stripes[number]
    result: Json = {
        "stripeNumber": number + 1,
        "stripeInformation": {
            "offset": stripe.offset,
            "indexLength": stripe.index_length,
            "dataLength": stripe.data_length,
            "footerLength": stripe.footer_length,
            "rowCount": stripe.rows,
        },
    }
    if options.time_zone:
        result["writerTimezone"] = footer.time_zone or "UNKNOWN"
    result["streams"] = [
        {"columnId": s.column, "section": s.kind.name, "startOffset": s.offset, "length": s.length}
        for s in footer.streams
    ]
    result["encodings"] = [
        {"columnId": i, "kind": encoding.kind.name}
        | ({"dictionarySize": encoding.dictionary_size} if encoding.kind in _DICTIONARIES else {})
        for i, encoding in enumerate(footer.encodings)
    ]
    if options.row_index:
        result["indexes"] = [
            {"columnId": i, **_index(orc.tail, i, read_column_index(stream, orc.tail, footer, i))}
            for i in options.row_index
        ]
    return result


def _index(tail: Tail, column: int, index: ColumnIndex) -> Json:
    result: Json = {}
    if index.entries is not None:
        result["rowGroupIndexes"] = [
            {"entryId": i}
            | ({} if entry.statistics is None else statistics(tail, column, entry.statistics))
            | {"positions": list(entry.positions)}
            for i, entry in enumerate(index.entries)
        ]
    if index.filters is not None:
        result["bloomFilterIndexes"] = [{"entryId": i, **_bloom(f)} for i, f in enumerate(index.filters)]
        if index.filters:
            whole = index.filters[0]
            for other in index.filters[1:]:
                whole = whole.merged(other)
            result["stripeLevelBloomFilter"] = _bloom(whole)
    return result


def _bloom(given: BloomFilter) -> Json:
    # Java divides floats, and raises the float to a power as a double.
    load = np.float32(given.set_count) / np.float32(given.bit_count) if given.bit_count else np.float32(0)
    return {
        "numHashFunctions": given.hash_functions,
        "bitCount": given.bit_count,
        "popCount": given.set_count,
        "loadFactor": _single(float(load)),
        "expectedFpp": _single(float(load) ** given.hash_functions),
    }


def _single(value: float) -> float:
    """The value at the precision of a float, in its shortest form."""
    return float(str(np.float32(value)))


# --- sizes and counts -------------------------------------------------------------------------------------------------


def _raw_data_size(tail: Tail) -> int:
    """What the rows would take in Java's memory (ReaderImpl.getRawDataSizeOfColumn)."""
    total = 0
    for entry, given in zip(tail.types, tail.statistics, strict=False):
        count = given.count or 0
        if entry.kind is OrcKind.BINARY:
            values = given.of(StatisticsKind.BINARY)
            total += (values.sum or 0) if values else 0
        elif entry.kind in _TEXTS:
            values = given.of(StatisticsKind.STRING)
            length = (values.sum or 0) if values else 0
            count = max(count, 1)
            total += count * (_JAVA_STRING + length // count)
        else:
            total += count * _JAVA_BYTES.get(entry.kind, 4)
    return total


# --- Rows exactly as `orc-tools data` 2.1.2 prints them on Java 17 in UTC, for `dump --data` to stand in for it.
#
# What differs from our own JSON: floating-point numbers take Java's form and a float is widened to a double first, NaN
# and infinities are bare words, decimals lose trailing zeros, timestamps always have a fraction, dates and timestamps
# are those of `java.sql`, and of a union only the value is shown.
# Source: `PrintData` of orc-tools, and the Gson `JsonWriter` (not HTML-safe) and Hive writables that it uses.


#: What `orc-tools` prints after the rows of a file: a rule and an empty line.
SEPARATOR = b"_" * 120 + b"\n\n"

_FIRST_DAY = -719_162  # 0001-01-01; java.sql counts the years before it backwards
# The days that Java's hybrid calendar does not have, 1582-10-05 to 14: a lenient calendar moves them on.
_GAP_FIRST, _GAP_LAST, _GAP_DAYS = -141_437, -141_428, 10


def row_style(tail: Tail) -> Style:
    """How orc-tools writes the values of a file.

    It takes the days of every file that is not marked proleptic for days of the hybrid calendar, also where Hive and
    the writer mean the proleptic one; what our reader has moved by itself is not moved again.
    """
    unmarked = tail.calendar is not Calendar.PROLEPTIC_GREGORIAN
    days = unmarked and not tail.is_hybrid
    return Style(
        floats=lambda array: pieces.floats(wide := pc.cast(array, pa.float64())) or java_numbers.doubles(wide),
        decimals=lambda array: pieces.decimals(array, cut=True) or format_scalars.short_decimals(array),
        dates=partial(_dates, days),
        timestamps=partial(_timestamps, days, unmarked),
        strings=json_strings,
        tagged_unions=False,
    )


def _dates(hybrid: bool, array: pa.Array) -> Text:
    if (quick := pieces.dates(array)) is not None:
        return quick
    days = array.cast(pa.int32())
    ends = pc.min_max(days)
    if ends["min"].is_valid and ends["min"].as_py() <= _GAP_LAST:
        numbers = pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        days = pc.if_else(pc.is_valid(days), pa.array(_labels(numbers, hybrid)), pa.scalar(None, pa.int64()))
    # `java.sql.Date` prints the last four digits of the year.
    return format_scalars.day_text(days, lambda year: _year(year, 10_000), first=_FIRST_DAY)


def _timestamps(hybrid: bool, hybrid_instants: bool, array: pa.Array, local: bool) -> Text:
    if (quick := pieces.timestamps(array, False, 1)) is not None:
        return quick
    seconds, nanos = format_scalars.seconds_and_nanos(array)
    if len(seconds) and seconds.min() < (_GAP_LAST + 1) * SECONDS_PER_DAY:
        days = seconds // SECONDS_PER_DAY
        moved = _labels(days, hybrid_instants if local else hybrid)
        seconds = seconds + (moved - days) * SECONDS_PER_DAY
        text = format_scalars.clock_text(seconds, nanos, pc.is_valid(array), _year, first=_FIRST_DAY)
    else:
        text = format_scalars.full_timestamps(array)
    return format_scalars.one_digit_of_fraction(text)


def _labels(days: Int64Array, hybrid: bool) -> Int64Array:
    """The proleptic days of the labels that Java prints for these days."""
    if hybrid:
        return hybrid_to_proleptic(days)
    return days + np.where((days >= _GAP_FIRST) & (days <= _GAP_LAST), _GAP_DAYS, 0)


def _year(year: Int64Array, beyond: int | None = None) -> pa.Array:
    """The year of the era in four digits at least, as java.sql prints it."""
    number = np.where(year > 0, year, 1 - year)
    digits = pa.array(number if beyond is None else number % beyond)
    return pc.ascii_lpad(pc.cast(digits, pa.string()), 4, "0")


# --- The events of an ACID file with their codes spelled out, for a reader's eyes and for scripts.


_BIGINT = Primitive(TypeKind.BIGINT)
_INT = Primitive(TypeKind.INT)
_STRING = Primitive(TypeKind.STRING)
_NAMES = tuple(operation.name.lower() for operation in Operation)


def event_schema(orc: OrcFile) -> StructType:
    """The columns of `event_columns` for the events of this file."""
    names = {"operation": _STRING, "write_id": _BIGINT, "bucket_property": _INT, "bucket_id": _INT}
    names |= {"statement_id": _INT, "row_id": _BIGINT, "current_write_id": _BIGINT}
    row = Field("row", orc.schema.fields[-1].type)
    return StructType((*(Field(name, kind) for name, kind in names.items()), row))


def event_columns(batch: pa.RecordBatch) -> list[pa.Array]:
    """A batch of events as columns: the operation by name, the bucket property as it is and decoded.

    A bucket that no codec version knows has no bucket id and no statement id; nor has a bare bucket number of ACID
    version 1 a statement id. An operation that Hive does not know is shown as its number.
    """
    operation, write_id, bucket, row_id, current, row = batch.columns
    bucket_id, statement_id = _decoded(bucket)
    known = pc.and_(pc.greater_equal(operation, 0), pc.less(operation, len(_NAMES)))
    names = pa.array(_NAMES, pa.string()).take(pc.if_else(known, operation, pa.scalar(None, operation.type)))
    return [
        pc.coalesce(names, pc.cast(operation, pa.string())),
        write_id,
        bucket,
        bucket_id,
        statement_id,
        row_id,
        current,
        row,
    ]


def _decoded(bucket: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Bucket and statement ids; a file has few different buckets, so each is decoded once."""
    encoded = pc.dictionary_encode(bucket)
    ids: list[int | None] = []
    statements: list[int | None] = []
    for value in encoded.dictionary.to_pylist():
        try:
            parts = decode(value)
        except BucketCodecError:
            parts = None
        ids.append(parts.bucket_id if parts else None)
        statements.append(parts.statement_id if parts and parts.version else None)
    return pa.array(ids, pa.int32()).take(encoded.indices), pa.array(statements, pa.int32()).take(encoded.indices)
