"""Rows exactly as `orc-tools data` 2.1.2 prints them on Java 17 in UTC, for `dump --data` to stand in for it.

What differs from our own JSON: floating-point numbers take Java's form and a float is widened to a double
first, NaN and infinities are bare words, decimals lose trailing zeros, timestamps always have a fraction,
dates and timestamps are those of `java.sql`, and of a union only the value is shown.
Source: `PrintData` of orc-tools, and the Gson `JsonWriter` (not HTML-safe) and Hive writables that it uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.bucket_codec import BucketCodecError, decode
from acidctl.format.events import Operation
from acidctl.orc.calendar import hybrid_to_proleptic
from acidctl.orc.reader import OrcFile
from acidctl.orc.tail import Calendar, Tail
from acidctl.types import format_scalars, java_numbers
from acidctl.types.format_rows import Style, json_strings, lines
from acidctl.types.format_scalars import Damage, Int64Array
from acidctl.types.schema import Field, HiveType, Primitive, StructType, TypeKind

#: What `orc-tools` prints after the rows of a file: a rule and an empty line.
SEPARATOR = b"_" * 120 + b"\n\n"

_FIRST_DAY = -719_162  # 0001-01-01; java.sql counts the years before it backwards
# The days that Java's hybrid calendar does not have, 1582-10-05 to 14: a lenient calendar moves them on.
_GAP_FIRST, _GAP_LAST, _GAP_DAYS = -141_437, -141_428, 10
_SECONDS_PER_DAY = 86_400


def row_style(tail: Tail) -> Style:
    """How orc-tools writes the values of a file.

    It takes the days of every file that is not marked proleptic for days of the hybrid calendar, also where Hive and
    the writer mean the proleptic one; what our reader has moved by itself is not moved again.
    """
    unmarked = tail.calendar is not Calendar.PROLEPTIC_GREGORIAN
    days = unmarked and not tail.is_hybrid
    return Style(
        floats=_floats,
        decimals=_decimals,
        dates=partial(_dates, days),
        timestamps=partial(_timestamps, days, unmarked),
        strings=_strings,
        tagged_unions=False,
    )


def data_lines(
    columns: Sequence[pa.Array],
    names: Sequence[str],
    types: Sequence[HiveType],
    style: Style,
    *,
    damage: Damage | None = None,
) -> pa.Buffer:
    """The rows of a batch, whatever the file's top-level columns are; there is at least one."""
    return lines(columns, names, types, style, damage or Damage())


def _floats(array: pa.Array) -> pa.Array:
    return java_numbers.doubles(pc.cast(array, pa.float64()))


def _decimals(array: pa.Array) -> pa.Array:
    text = format_scalars.decimals(array)
    return text if array.type.scale == 0 else pc.ascii_rtrim(pc.ascii_rtrim(text, "0"), ".")


def _dates(hybrid: bool, array: pa.Array) -> pa.Array:
    days = array.cast(pa.int32())
    ends = pc.min_max(days)
    if ends["min"].is_valid and ends["min"].as_py() <= _GAP_LAST:
        numbers = pc.fill_null(days, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        days = pc.if_else(pc.is_valid(days), pa.array(_labels(numbers, hybrid)), pa.scalar(None, pa.int64()))
    return format_scalars.day_text(days, _date_year, first=_FIRST_DAY)


def _timestamps(hybrid: bool, hybrid_instants: bool, array: pa.Array, local: bool) -> pa.Array:
    seconds, nanos = format_scalars.seconds_and_nanos(array)
    if len(seconds) and seconds.min() < (_GAP_LAST + 1) * _SECONDS_PER_DAY:
        days = seconds // _SECONDS_PER_DAY
        moved = _labels(days, hybrid_instants if local else hybrid)
        seconds = seconds + (moved - days) * _SECONDS_PER_DAY
        text = format_scalars.clock_text(seconds, nanos, pc.is_valid(array), _timestamp_year, first=_FIRST_DAY)
    else:
        text = format_scalars.full_timestamps(array)
    text = pc.ascii_rtrim(text, "0")
    whole = pc.ends_with(text, ".")
    if not pc.any(whole).as_py():
        return text
    return format_scalars.either(whole, format_scalars.joined(text, "0"), text)


def _labels(days: Int64Array, hybrid: bool) -> Int64Array:
    """The proleptic days of the labels that Java prints for these days."""
    return hybrid_to_proleptic(days) if hybrid else _over_gap(days)


def _over_gap(days: Int64Array) -> Int64Array:
    return days + np.where((days >= _GAP_FIRST) & (days <= _GAP_LAST), _GAP_DAYS, 0)


def _date_year(year: Int64Array) -> pa.Array:
    """`java.sql.Date` prints the last four digits of the year of the era."""
    return _four(np.where(year > 0, year, 1 - year) % 10_000)


def _timestamp_year(year: Int64Array) -> pa.Array:
    """`java.sql.Timestamp` prints all digits of the year of the era."""
    return _four(np.where(year > 0, year, 1 - year))


def _four(number: Int64Array) -> pa.Array:
    return pc.ascii_lpad(pc.cast(pa.array(number), pa.string()), 4, "0")


def _strings(text: pa.Array, damage: Damage) -> pa.Array:
    return json_strings(text, damage)


# --- The events of an ACID file with their codes spelled out, for a reader's eyes and for scripts.


_BIGINT = Primitive(TypeKind.BIGINT)
_INT = Primitive(TypeKind.INT)
_STRING = Primitive(TypeKind.STRING)
_NAMES = tuple(operation.name.lower() for operation in Operation)


def event_schema(orc: OrcFile) -> StructType:
    """The columns of `event_columns` for the events of this file."""
    return StructType(
        (
            Field("operation", _STRING),
            Field("write_id", _BIGINT),
            Field("bucket_property", _INT),
            Field("bucket_id", _INT),
            Field("statement_id", _INT),
            Field("row_id", _BIGINT),
            Field("current_write_id", _BIGINT),
            Field("row", orc.schema.fields[-1].type),
        )
    )


def event_columns(batch: pa.RecordBatch) -> list[pa.Array]:
    """A batch of events as columns: the operation by name, the bucket property as it is and decoded.

    A bucket that no codec version knows has no bucket id and no statement id; nor has a bare bucket number of ACID
    version 1 a statement id. An operation that is none of Hive's is shown as its number.
    """
    operation, write_id, bucket, row_id, current, row = batch.columns
    bucket_id, statement_id = _decoded(bucket)
    return [_operations(operation), write_id, bucket, bucket_id, statement_id, row_id, current, row]


def _operations(codes: pa.Array) -> pa.Array:
    known = pc.and_(pc.greater_equal(codes, 0), pc.less(codes, len(_NAMES)))
    names = pa.array(_NAMES, pa.string()).take(pc.if_else(known, codes, pa.scalar(None, codes.type)))
    return pc.coalesce(names, pc.cast(codes, pa.string()))


def _decoded(bucket: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Bucket and statement ids; a file has few different buckets, so each is decoded once."""
    encoded = pc.dictionary_encode(bucket)
    ids: list[int | None] = []
    statements: list[int | None] = []
    for value in encoded.dictionary.to_pylist():
        try:
            parts = decode(value)
        except BucketCodecError:
            ids.append(None)
            statements.append(None)
            continue
        ids.append(parts.bucket_id)
        statements.append(parts.statement_id if parts.version else None)
    if not ids:
        return pa.nulls(len(bucket), pa.int32()), pa.nulls(len(bucket), pa.int32())
    indices = encoded.indices
    return pa.array(ids, pa.int32()).take(indices), pa.array(statements, pa.int32()).take(indices)
