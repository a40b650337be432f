"""Rows in the form that other programs take: Arrow record batches with one schema.

Inside acidctl a timestamp that nanoseconds since 1970 cannot hold is a struct of seconds and nanos. Out here it has to
be one Arrow type for all files of a table: nanoseconds where every file fits, else microseconds, which are exact or
refused. Strings that are not UTF-8, which Hive stores as they are, are refused, repaired, or left as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import UsageError
from acidctl.format.events import WIDE, rebuilt, widen
from acidctl.orc.schema_evolution import arrow_type
from acidctl.types.format_scalars import Damage, valid_utf8
from acidctl.types.hive_types import (
    Field,
    HiveType,
    ListType,
    MapType,
    StructType,
    TypeKind,
    UnionType,
    children,
    kinds,
)

ROW_ID = "ROW__ID"
ROW_ID_TYPE = pa.struct([("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())])
_TIMESTAMPS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL})


class Timestamps(Enum):
    """The Arrow form of timestamps in a stream of batches."""

    NANOSECONDS = "ns"
    MICROSECONDS = "us"
    EXACT = "exact"


def has_timestamps(hive_type: HiveType) -> bool:
    """Whether a timestamp occurs in the type at any depth."""
    return not kinds(hive_type).isdisjoint(_TIMESTAMPS)


def public_type(hive_type: HiveType, form: Timestamps) -> pa.DataType:
    """The Arrow type in which values of a Hive type leave acidctl."""
    if hive_type.kind in _TIMESTAMPS:
        if form is Timestamps.EXACT:
            return WIDE
        return pa.timestamp(form.value, tz="UTC" if hive_type.kind is TypeKind.TIMESTAMP_LOCAL else None)
    if isinstance(hive_type, ListType):
        return pa.list_(public_type(hive_type.element, form))
    if isinstance(hive_type, MapType):
        return pa.map_(public_type(hive_type.key, form), public_type(hive_type.value, form))
    if isinstance(hive_type, StructType):
        return pa.struct([(field.name, public_type(field.type, form)) for field in hive_type.fields])
    if isinstance(hive_type, UnionType):
        fields = [pa.field(str(i), public_type(t, form)) for i, t in enumerate(hive_type.alternatives)]
        # The last child marks a union that is NULL itself, which Arrow's unions cannot be.
        return pa.dense_union([*fields, pa.field(str(len(fields)), pa.null())])
    return arrow_type(hive_type)


def public_batch(
    arrays: Sequence[pa.Array], fields: Sequence[Field], row_ids: pa.Array | None, schema: pa.Schema, form: Timestamps
) -> pa.RecordBatch:
    """One exported batch of `schema`, with ROW__ID in front when `row_ids` is given."""
    columns = [public_array(a, f.type, form, f.name) for a, f in zip(arrays, fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns if row_ids is None else [row_ids, *columns], schema=schema)


def row_id_array(row_ids: tuple[pa.Array, pa.Array, pa.Array] | None, count: int) -> pa.Array:
    """ROW__ID as one struct column; NULL in every row where there are none (insert-only tables)."""
    if row_ids is None:
        return pa.nulls(count, ROW_ID_TYPE)
    return pa.StructArray.from_arrays(list(row_ids), fields=list(ROW_ID_TYPE))


def public_schema(fields: Sequence[Field], form: Timestamps, *, row_id: bool) -> pa.Schema:
    """The schema of exported batches: ROW__ID first when asked for, then the columns."""
    columns = [pa.field(field.name, public_type(field.type, form)) for field in fields]
    return pa.schema([pa.field(ROW_ID, ROW_ID_TYPE), *columns] if row_id else columns)


def public_array(array: pa.Array, hive_type: HiveType, form: Timestamps, name: str) -> pa.Array:
    """An array in its public form; UsageError, naming the column, for a moment that the form cannot hold."""
    if hive_type.kind in _TIMESTAMPS:
        return _timestamps(array, public_type(hive_type, form), form, name)
    # A union inside may be sparse, and outside is dense.
    if kinds(hive_type).isdisjoint({*_TIMESTAMPS, TypeKind.UNION}):
        return array
    parts = children(hive_type)

    def change(index: int, child: pa.Array) -> pa.Array:
        # The last child of a union, which marks those that are NULL themselves, stays.
        return public_array(child, parts[index], form, name) if index < len(parts) else child

    return rebuilt(array, change, hive_type.names if isinstance(hive_type, StructType) else ())


def _timestamps(array: pa.Array, target: pa.DataType, form: Timestamps, name: str) -> pa.Array:
    wide = pa.types.is_struct(array.type)
    if form is Timestamps.EXACT:
        return array if wide else widen(array)
    try:
        return _ticks(array, form).cast(target) if wide else array.cast(target)
    except pa.ArrowInvalid as error:
        other = "ns" if form is Timestamps.MICROSECONDS else "us"
        count = _misfits(array, form)
        raise UsageError(
            f"column {name} holds {count:,} timestamp{'s' * (count != 1)} or more that {target} cannot hold exactly",
            hint=f"Choose --timestamps {other} (timestamps='{other}') if all fit that, exact for a struct of seconds "
            "and nanoseconds, or export to CSV or JSON lines.",
        ) from error


def _ticks(array: pa.StructArray, form: Timestamps) -> pa.Array:
    """Wide timestamps as counts of the form's unit; ArrowInvalid when one does not fit."""
    seconds, nanos = array.flatten()
    nanos = nanos.cast(pa.int64())
    if form is Timestamps.NANOSECONDS:
        return pc.add_checked(pc.multiply_checked(seconds, 10**9), nanos)
    micros = pc.divide(nanos, 1000)
    if not pc.all(pc.equal(pc.multiply(micros, 1000), nanos), min_count=0).as_py():
        raise pa.ArrowInvalid("nanoseconds would be lost")
    return pc.add_checked(pc.multiply_checked(seconds, 10**6), micros)


def _misfits(array: pa.Array, form: Timestamps) -> int:
    """How many of some timestamps a form cannot hold exactly."""
    wide = array if pa.types.is_struct(array.type) else widen(array)
    per_second = 10**9 if form is Timestamps.NANOSECONDS else 10**6
    count = 0
    for moment in wide.drop_null().to_pylist():
        ticks, rest = divmod(moment["seconds"] * 10**9 + moment["nanos"], 10**9 // per_second)
        count += bool(rest) or not -(2**63) <= ticks < 2**63
    return count


class InvalidText(Enum):
    """What becomes of strings that are not UTF-8."""

    REFUSE = "refuse"
    REPLACE = "replace"
    BINARY = "binary"


def text_schema(schema: pa.Schema, form: InvalidText) -> pa.Schema:
    """The schema of batches after `text_batch`."""
    if form is not InvalidText.BINARY:
        return schema
    return pa.schema([field.with_type(_as_binary(field.type)) for field in schema], metadata=schema.metadata)


def text_batch(batch: pa.RecordBatch, form: InvalidText, damage: Damage) -> pa.RecordBatch:
    """A batch whose strings are all UTF-8, or are binary; `damage` counts the strings that were repaired.

    UsageError, with the column and how many there are, for those that are to be refused.
    """
    columns = []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        found = damage if form is InvalidText.REPLACE else Damage()
        columns.append(_text_array(array, form, found) if _has_text(field.type) else array)
        if form is InvalidText.REFUSE and found.count:
            raise UsageError(
                f"column {field.name} holds {found.count:,} string{'s' * (found.count != 1)} or more that "
                f"{'are' if found.count != 1 else 'is'} not valid UTF-8",
                hint="Choose --invalid-utf8 replace (replacement characters) or binary (columns of bytes).",
            )
    return pa.RecordBatch.from_arrays(columns, schema=text_schema(batch.schema, form))


def _children(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    if pa.types.is_list(kind):
        return [kind.value_type]
    nested = pa.types.is_struct(kind) or pa.types.is_union(kind)
    return [kind.field(place).type for place in range(kind.num_fields)] if nested else []


def _has_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or any(map(_has_text, _children(kind)))


def _as_binary(kind: pa.DataType) -> pa.DataType:
    """The type with binary in place of strings, at any depth."""
    if pa.types.is_string(kind):
        return pa.binary()
    inner = [_as_binary(child) for child in _children(kind)]
    if pa.types.is_map(kind):
        return pa.map_(*inner)
    if pa.types.is_list(kind):
        return pa.list_(inner[0])
    if not inner:
        return kind
    fields = [pa.field(kind.field(place).name, child) for place, child in enumerate(inner)]
    return pa.struct(fields) if pa.types.is_struct(kind) else pa.dense_union(fields)


def _text_array(array: pa.Array, form: InvalidText, damage: Damage) -> pa.Array:
    kind = array.type
    if pa.types.is_string(kind):
        return array.view(pa.binary()) if form is InvalidText.BINARY else valid_utf8(array, damage)
    names = [kind.field(place).name for place in range(kind.num_fields)] if pa.types.is_struct(kind) else ()

    def change(_: int, child: pa.Array) -> pa.Array:
        return _text_array(child, form, damage) if _has_text(child.type) else child

    return rebuilt(array, change, names)
