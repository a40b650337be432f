"""Rows in the forms that other programs take: Arrow record batches with one schema, Parquet and Arrow files.

Inside acidctl a timestamp that nanoseconds since 1970 cannot hold is a struct of seconds and nanos. Out here it has to
be one Arrow type for all files of a table: nanoseconds where every file fits, else microseconds, which are exact or
refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from acidctl.errors import StorageError, UsageError
from acidctl.format.events import WIDE, rebuilt, widen
from acidctl.orc.schema_evolution import arrow_type
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
        raise UsageError(
            f"column {name} holds a timestamp that {target} cannot hold exactly",
            hint="Take JSON lines or CSV, or timestamps='exact' from Python.",
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


@contextmanager
def _whole_file(path: Path) -> Iterator[Path]:
    """The temporary name of a file that takes its own only when it is whole.

    What is there and is no file (a device, a pipe) is written to as it is: a rename would put a file in its place,
    which for `/dev/null` ends more than this command. A link stays a link.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            yield path
            return
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        part = target.with_name(f".{target.name}.part")
        try:
            yield part
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    except pa.ArrowNotImplementedError as error:
        raise UsageError(
            f"{path.suffix} files cannot hold these columns: {error}", path=str(path), hint="Export to .jsonl."
        ) from error
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}", path=str(path)) from error


def write_arrow(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write batches to a `.parquet` or `.arrow` file, which appears only when it is complete; returns the rows."""
    rows = 0
    with _whole_file(path) as part, _writer(path, part, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += len(batch)
    return rows


def write_bytes(path: Path, chunks: Iterable[bytes | pa.Buffer]) -> None:
    """Write chunks to a file, which appears only when it is complete."""
    with _whole_file(path) as part, open(part, "wb") as stream:
        for chunk in chunks:
            stream.write(chunk)


def _writer(path: Path, part: Path, schema: pa.Schema) -> Any:
    if path.suffix == ".parquet":
        return parquet().ParquetWriter(part, schema)
    return pa.ipc.new_file(str(part), schema)


def parquet() -> Any:
    """The module of that format, which takes a while to load."""
    import pyarrow.parquet

    return pyarrow.parquet
