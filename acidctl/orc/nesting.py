"""Nested Arrow arrays taken apart and put together with other children.

Unions travel as Arrow unions with one child more than Hive's type has alternatives: a child of type null,
whose code marks a union that is NULL itself. Arrow unions have no validity of their own, and a NULL union is
not a union of NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from acidctl.format.arrays import flat

BoolArray = npt.NDArray[np.bool_]
#: Takes an array and the slots for which the file holds a value or a NULL (None: all); returns as many values.
Finisher = Callable[[pa.Array, BoolArray | None], pa.Array]

NULL_UNION = "null"


def rebuild(array: pa.Array, inner: Sequence[Finisher | None], held: BoolArray | None = None) -> pa.Array:
    """The same nesting with the children finished; validity and offsets stay as they are."""
    array = flat(array)
    kind = array.type
    if pa.types.is_struct(kind):
        # As an alternative of a union it has other slots too, for which the file holds nothing.
        if array.null_count:
            valid = np.asarray(array.is_valid())
            held = valid if held is None else valid & held
        children = [_apply(inner[i], array.field(i), held) for i in range(kind.num_fields)]
        new = pa.struct([kind.field(i).with_type(child.type) for i, child in enumerate(children)])
        return _with_children(array, new, 1, children)
    if pa.types.is_list(kind):
        child = _apply(inner[0], array.values, None)
        return _with_children(array, pa.list_(kind.value_field.with_type(child.type)), 2, [child])
    if pa.types.is_map(kind):
        keys, items = _apply(inner[0], array.keys, None), _apply(inner[1], array.items, None)
        new = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        entries = pa.StructArray.from_arrays([keys, items], fields=[new.key_field, new.item_field])
        return _with_children(array, new, 2, [entries])
    assert pa.types.is_union(kind)
    children = [_alternative(array, i, inner[i], held) for i in range(len(inner))]
    return union(np.asarray(array.type_codes), children, held)


def union(codes: npt.NDArray[np.int8], children: Sequence[pa.Array], present: BoolArray | None) -> pa.Array:
    """A sparse union of full-length children; where `present` is False the union itself is NULL."""
    last = len(children)
    names = [*map(str, range(last)), NULL_UNION]
    marked = codes if present is None else np.where(present, codes, last).astype(np.int8)
    return pa.UnionArray.from_sparse(pa.array(marked), [*children, pa.nulls(len(codes))], names)


def _alternative(array: pa.Array, index: int, finish: Finisher | None, held: BoolArray | None) -> pa.Array:
    child = array.field(index)
    if finish is None:
        return child
    mine = np.asarray(array.type_codes) == array.type.type_codes[index]
    return finish(child, mine if held is None else mine & held)


def _with_children(array: pa.Array, kind: pa.DataType, buffers: int, children: list[pa.Array]) -> pa.Array:
    kept = array.buffers()[:buffers]
    return pa.Array.from_buffers(kind, len(array), kept, array.null_count, children=children)


def _apply(finish: Finisher | None, array: pa.Array, held: BoolArray | None) -> pa.Array:
    return array if finish is None else finish(array, held)
