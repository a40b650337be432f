"""Arrow arrays of one Hive type that arrive in different forms, and how they become one.

A timestamp column is timestamp[ns] where nanoseconds can hold it and WIDE elsewhere, file by file; a union is dense or
sparse. Joining pieces of several files needs one form. Memory only; knows no Hive type and no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa

#: A moment that nanoseconds since 1970 may not hold: seconds since 1970 (floor) and nanoseconds within the second.
WIDE = pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())])


def concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """The arrays one after the other, in the widest of their forms."""
    if len(arrays) == 1:
        return arrays[0]
    first = arrays[0].type
    if all(array.type.equals(first) for array in arrays):
        return pa.concat_arrays(arrays)
    common = reduce(common_type, (array.type for array in arrays))
    return pa.concat_arrays([conform(array, common) for array in arrays])


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The form in which arrays of both types can travel: WIDE beats a timestamp, dense beats sparse."""
    if one.equals(other):
        return one
    if pa.types.is_timestamp(one) or pa.types.is_timestamp(other):
        return WIDE
    if pa.types.is_struct(one):
        return pa.struct([(a.name, common_type(a.type, b.type)) for a, b in zip(one, other, strict=True)])
    if pa.types.is_map(one):
        return pa.map_(common_type(one.key_type, other.key_type), common_type(one.item_type, other.item_type))
    if pa.types.is_list(one):
        return pa.list_(common_type(one.value_type, other.value_type))
    if pa.types.is_union(one):
        pairs = zip(one, other, strict=True)
        return pa.dense_union([pa.field(str(i), common_type(a.type, b.type)) for i, (a, b) in enumerate(pairs)])
    return one


def conform(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The same values as an array of `target`, which is `array.type` or a wider form of it."""
    if array.type.equals(target):
        return array
    if pa.types.is_timestamp(array.type):
        return widen(array)
    mask = array.is_null() if array.null_count and not pa.types.is_union(array.type) else None
    if pa.types.is_struct(target):
        children = [conform(array.field(i), field.type) for i, field in enumerate(target)]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pa.types.is_map(target):
        keys, items = conform(array.keys, target.key_type), conform(array.items, target.item_type)
        return pa.MapArray.from_arrays(plain_offsets(array), keys, items, mask=mask)
    if pa.types.is_list(target):
        values = conform(array.values, target.value_type)
        return pa.ListArray.from_arrays(plain_offsets(array), values, mask=mask)
    if pa.types.is_union(target):
        array = flat(array)
        children = [conform(array.field(i), field.type) for i, field in enumerate(target)]
        return dense_union(array, children)
    return array.cast(target)


def flat(array: pa.Array) -> pa.Array:
    """The same values without an offset: the children and type codes of a slice are those of the whole."""
    return pa.concat_arrays([array]) if array.offset else array


def dense_union(array: pa.UnionArray, children: Sequence[pa.Array]) -> pa.UnionArray:
    """A dense union of new children in place of those of `array`, which is `flat` and may be sparse."""
    names = [str(i) for i in range(len(children))]
    offsets = array.offsets if array.type.mode == "dense" else pa.array(np.arange(len(array), dtype=np.int32))
    return pa.UnionArray.from_dense(array.type_codes, offsets, list(children), names)


def widen(array: pa.TimestampArray) -> pa.StructArray:
    """Timestamps as WIDE; NULL stays NULL."""
    ticks = array.cast(pa.timestamp("ns", tz=array.type.tz)).cast(pa.int64())
    seconds, nanos = np.divmod(ticks.fill_null(0).to_numpy(zero_copy_only=False), 10**9)
    children = [pa.array(seconds), pa.array(nanos.astype(np.int32))]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(WIDE), mask=mask)


def plain_offsets(array: pa.Array) -> pa.Array:
    """The offsets of a list or map array into its `values`, as an array without an offset of its own."""
    return pa.array(array.offsets.to_numpy(zero_copy_only=False))
