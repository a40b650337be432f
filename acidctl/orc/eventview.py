"""The events of an ACID file with their codes spelled out, for a reader's eyes and for scripts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.bucket_codec import BucketCodecError, decode
from acidctl.format.events import Operation
from acidctl.orc.reader import OrcFile
from acidctl.types.schema import Field, Primitive, StructType, TypeKind

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
