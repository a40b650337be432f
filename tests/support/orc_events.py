"""Events made in memory for the tests of the writer."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from acidctl.compaction.plan import WriterSettings
from acidctl.format.events import EventBatch, EventKeys
from acidctl.orc.reader import open_orc
from acidctl.orc.writer import Backend, WrittenFile, write_orc
from acidctl.types.hive_types import StructType

__all__ = ["SETTINGS", "EventBatch", "keys", "plain", "read_all", "written"]
SETTINGS = WriterSettings()


def keys(rows: int, *, start: int = 0, operation: int | Sequence[int] | None = None, write_id: int = 1) -> EventKeys:
    """Ascending keys of one write and bucket."""
    ids = np.full(rows, write_id, dtype=np.int64)
    buckets = np.full(rows, 536870912, dtype=np.int64)
    codes = None if operation is None else np.broadcast_to(np.array(operation, dtype=np.int64), (rows,))
    return EventKeys(ids, buckets, np.arange(start, start + rows, dtype=np.int64), ids, codes)


def written(
    batches: Iterable[EventBatch],
    columns: StructType,
    *,
    acid: bool = True,
    backend: Backend = Backend.ARROW,
    metadata: dict[str, bytes] | None = None,
    **options: Any,
) -> tuple[bytes, WrittenFile]:
    """A file in memory and what the writer says of it; `options` are of WriterSettings."""
    sink = io.BytesIO()
    settings = replace(SETTINGS, **options)
    done = write_orc(sink, batches, columns, settings, acid=acid, metadata=metadata or {}, backend=backend)
    return sink.getvalue(), done


def read_all(data: bytes, **options: Any) -> list[dict[str, Any]]:
    """All rows as our reader gives them, as Python values that compare bit for bit (see `plain`)."""
    rows: list[dict[str, Any]] = []
    for batch in open_orc(io.BytesIO(data), name="f").scan(**options):
        columns = [plain(column) for column in batch.columns]
        rows += [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
    return rows


def plain(array: pa.Array) -> list[Any]:
    """Values as Python sees them, but moments as (seconds, nanos), text as bytes, floats as their bits."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_timestamp(kind):
        ticks = array.cast(pa.timestamp("ns", tz=kind.tz)).cast(pa.int64()).to_pylist()
        return [None if tick is None else divmod(tick, 10**9) for tick in ticks]
    if pa.types.is_string(kind):
        array = array.view(pa.binary())
    if pa.types.is_floating(kind):
        bits = np.uint32 if kind == pa.float32() else np.uint64
        values = array.fill_null(0).to_numpy(zero_copy_only=False).view(bits).tolist()
        return [value if held else None for value, held in zip(values, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_union(kind):
        array = pa.concat_arrays([array])
        codes = array.type_codes.to_pylist()
        children = [plain(array.field(i)) for i in range(kind.num_fields)]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        places = array.offsets.to_pylist() if kind.mode == "dense" else range(len(array))
        return [
            None if names[code] == "null" else (code, children[code][place])
            for code, place in zip(codes, places, strict=True)
        ]
    if pa.types.is_nested(kind):
        held = array.is_valid().to_pylist()
        return [value if there else None for value, there in zip(_nested(array), held, strict=True)]
    return list(array.to_pylist())


def _nested(array: pa.Array) -> list[Any]:
    array = pa.concat_arrays([array])
    kind = array.type
    if pa.types.is_struct(kind):
        children = [plain(array.field(i)) for i in range(kind.num_fields)]
        return list(zip(*children, strict=True)) if children else [()] * len(array)
    pairs = pa.types.is_map(kind)
    values = list(zip(plain(array.keys), plain(array.items), strict=True)) if pairs else plain(array.values)
    return [values[start:end] for start, end in pairwise(array.offsets.to_pylist())]
