"""The fast backend: Arrow's ORC writer, given whole columns in the forms that it keeps exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.format.names import KEY_FIELDS
from acidctl.orc.codec import Compression
from acidctl.orc.schema_evolution import null_array
from acidctl.orc.writable import NeedsExactWriter, children_of, formers, has_union, struct_of
from acidctl.types.hive_types import StructType

_NAMES = {
    Compression.NONE: "uncompressed",
    Compression.ZLIB: "zlib",
    Compression.SNAPPY: "snappy",
    Compression.LZ4: "lz4",
    Compression.ZSTD: "zstd",
}
# Arrow refuses 0. With a stride that no stripe reaches there is one entry a stripe, which the edited tail denies.
_NO_STRIDE = (1 << 31) - 1
# No dictionaries: C++ judges a column by its first 10,000 rows once and for all, and counts nothing of a dictionary
# towards the size of a stripe. 6 million different texts after 10,000 equal ones took 950 MB and twice the time, and
# 190 MB without; ten columns of which one repeats itself are 2 % larger in zlib, 12 % without a codec.
_DICTIONARY_SHARE = 0.0
# Rows that Arrow hands to ORC at once: never more than a piece has, so that each piece is one.
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Physical:
    """The physical form of a file with everything resolved: `bloom` are column ids, sizes in bytes, stride in rows."""

    compression: Compression
    stripe_size: int
    block_size: int
    row_index_stride: int
    bloom: frozenset[int]
    bloom_fpp: float


class Appended(Protocol):
    """A file that is only appended to, and knows its length."""

    def write(self, data: bytes, /) -> int: ...

    def tell(self) -> int: ...


class ArrowBackend:
    """Writes pieces of at most 65536 rows; raises NeedsExactWriter before a value is lost."""

    def __init__(self, sink: Appended, columns: StructType, physical: Physical, *, acid: bool) -> None:
        self._sink = sink
        self._columns = columns
        self._acid = acid
        self._formers = formers(columns)
        self._fragile = has_union(columns)
        # The tail gets the real names.
        self._names = [f"c{i}" for i in range(len(columns.fields))]
        self._started = False
        self._writer: po.ORCWriter | None = po.ORCWriter(
            sink,
            batch_size=_BATCH_ROWS,
            stripe_size=physical.stripe_size,
            compression=_NAMES[physical.compression],
            compression_block_size=physical.block_size,
            row_index_stride=physical.row_index_stride or _NO_STRIDE,
            dictionary_key_size_threshold=_DICTIONARY_SHARE,
            bloom_filter_columns=sorted(physical.bloom) or None,
            bloom_filter_fpp=physical.bloom_fpp,
        )

    def write(self, piece: EventBatch) -> tuple[int, ...]:
        """Append; gives the numbers of rows of the piece after which a stripe may have ended."""
        assert self._writer is not None
        before = self._sink.tell()
        self._writer.write(self._table(piece))
        self._started = True
        return (len(piece),) if self._sink.tell() > before else ()

    def close(self) -> None:
        """Write what is left and the tail."""
        assert self._writer is not None
        if not self._started:
            empty = np.empty(0, dtype=np.int64)
            self._writer.write(self._table(EventBatch(EventKeys(empty, empty, empty, empty))))
        self._writer.close()
        self._writer = None

    def abort(self) -> None:
        """Drop the writer and what it holds."""
        self._writer = None

    def _table(self, piece: EventBatch) -> pa.Table:
        columns = piece.columns or tuple(_nulls(self._columns, len(piece)))
        if not self._acid:
            return pa.table(self._formed(columns), names=self._names)
        keys = piece.keys
        deleted = None if keys.operation is None else keys.operation == Operation.DELETE
        validity = None
        if deleted is not None and deleted.any():
            if self._fragile:
                raise NeedsExactWriter("Arrow's writer crashes on a union below a NULL row")
            validity = pa.py_buffer(np.packbits(~deleted, bitorder="little"))
            columns = tuple(children_of(struct_of(columns, validity, len(piece))))
        row = struct_of(self._formed(columns), validity, len(piece))
        return pa.table([*_key_arrays(keys), row], names=[*KEY_FIELDS, "row"])

    def _formed(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return [form(column) for form, column in zip(self._formers, columns, strict=True)]


def _key_arrays(keys: EventKeys) -> list[pa.Array]:
    operation = _zeros(len(keys)) if keys.operation is None else pa.array(keys.operation.astype(np.int32))
    bucket = pa.array(keys.bucket.astype(np.int32))
    return [operation, pa.array(keys.write_id), bucket, pa.array(keys.row_id), pa.array(keys.current)]


@lru_cache(maxsize=2)
def _zeros(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, dtype=np.int32))


@lru_cache(maxsize=2)
def _nulls(columns: StructType, rows: int) -> list[pa.Array]:
    return [null_array(field.type, rows) for field in columns.fields]
