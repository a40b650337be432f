"""Nested Arrow arrays taken apart and put together with other children."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

Finisher = Callable[[pa.Array], pa.Array]


def flat(array: pa.Array) -> pa.Array:
    """The same values in an array of offset zero, whose buffers can be reused as they are."""
    return pa.concat_arrays([array]) if array.offset else array


def rebuild(array: pa.Array, inner: Sequence[Finisher | None]) -> pa.Array:
    """The same nesting with the children finished; validity and offsets stay as they are."""
    array = flat(array)
    kind = array.type
    if pa.types.is_struct(kind):
        children = [_apply(inner[i], array.field(i)) for i in range(kind.num_fields)]
        fields = [kind.field(i).with_type(child.type) for i, child in enumerate(children)]
        new: pa.DataType = pa.struct(fields)
        return pa.Array.from_buffers(
            new, len(array), array.buffers()[:1], array.null_count, children=children
        )
    if pa.types.is_list(kind):
        child = _apply(inner[0], array.values)
        new = pa.list_(kind.value_field.with_type(child.type))
        return pa.Array.from_buffers(new, len(array), array.buffers()[:2], array.null_count, children=[child])
    if pa.types.is_map(kind):
        keys, items = _apply(inner[0], array.keys), _apply(inner[1], array.items)
        new = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        entries = pa.StructArray.from_arrays([keys, items], fields=[new.key_field, new.item_field])
        return pa.Array.from_buffers(
            new, len(array), array.buffers()[:2], array.null_count, children=[entries]
        )
    if pa.types.is_union(kind):
        children = [_apply(inner[i], array.field(i)) for i in range(kind.num_fields)]
        names = [kind.field(i).name for i in range(kind.num_fields)]
        if kind.mode == "sparse":
            return pa.UnionArray.from_sparse(array.type_codes, children, names, kind.type_codes)
        return pa.UnionArray.from_dense(array.type_codes, array.offsets, children, names, kind.type_codes)
    raise TypeError(f"no nesting known for {kind}")


def _apply(finish: Finisher | None, array: pa.Array) -> pa.Array:
    return array if finish is None else finish(array)
