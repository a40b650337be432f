"""From the arrays of the C++ reader to the arrays of the contract: wide timestamps, NULL unions,
calendars, char padding.

`finisher` looks at a column's types once and returns None where the reader's array is right as it stands, so
that the common case costs nothing; else a function that rebuilds just the parts that differ, at any depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.arrays import WIDE, flat
from acidctl.orc.calendar import hybrid_seconds_to_proleptic, hybrid_to_proleptic
from acidctl.orc.stats import DateStatistics
from acidctl.orc.streams import Beside, PresentStream, WideColumn
from acidctl.orc.tail import OrcKind, Tail

# --- Nested Arrow arrays taken apart and put together with other children.
#
# Unions travel as Arrow unions with one child more than Hive's type has alternatives: a child of type null,
# whose code marks a union that is NULL itself. Arrow unions have no validity of their own, and a NULL union is
# not a union of NULL.


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


_SWITCH_DAY = -141_427


def finisher(tail: Tail, column: int, beside: Beside) -> Finisher | None:
    """What is to be done with arrays of the column at this id, or None for nothing."""
    entry = tail.types[column]
    if column in beside.wide:
        return _wide(beside.wide[column], tail.is_hybrid and entry.kind is OrcKind.TIMESTAMP)
    if entry.kind is OrcKind.DATE:
        return _hybrid_dates if tail.is_hybrid and _may_be_old(tail, column) else None
    if entry.kind is OrcKind.CHAR:
        return _trim
    if entry.kind is OrcKind.DECIMAL and not entry.precision:
        return lambda array, held: array.cast(pa.decimal128(38, 10), safe=False)
    inner = [finisher(tail, child, beside) for child in entry.subtypes]
    if entry.kind is OrcKind.UNION:
        return _union(beside.unions[column], inner)
    if all(child is None for child in inner):
        return None
    return lambda array, held: rebuild(array, inner, held)


def _union(presence: PresentStream, inner: list[Finisher | None]) -> Finisher:
    def finish(array: pa.Array, held: BoolArray | None) -> pa.Array:
        present = np.ones(len(array), dtype=np.bool_) if held is None else held.copy()
        if presence.exists:
            present[present] = presence.take(int(present.sum()))
        return rebuild(array, inner, present)

    return finish


def _may_be_old(tail: Tail, column: int) -> bool:
    values = tail.statistics[column].values if tail.statistics else None
    if not tail.row_index_stride or not isinstance(values, DateStatistics) or values.minimum is None:
        return True
    return values.minimum < _SWITCH_DAY


def _wide(column: WideColumn, hybrid: bool) -> Finisher:
    def finish(array: pa.Array, held: BoolArray | None) -> pa.Array:
        # In a union's other slots Arrow's child holds something too, of which the file has no nanoseconds.
        result = column.values(array if held is None else pc.if_else(pa.array(held), array, None))
        if not hybrid:
            return result
        seconds = hybrid_seconds_to_proleptic(np.asarray(result.field(0)))
        return pa.StructArray.from_arrays(
            [pa.array(seconds), result.field(1)], fields=list(WIDE), mask=result.is_null()
        )

    return finish


def _hybrid_dates(array: pa.Array, held: BoolArray | None) -> pa.Array:
    days = np.asarray(array.cast(pa.int32()).fill_null(0)).astype(np.int64)
    moved = hybrid_to_proleptic(days)
    if moved is days:
        return array
    return pa.array(moved.astype(np.int32), mask=np.asarray(array.is_null())).cast(pa.date32())


def _trim(array: pa.Array, held: BoolArray | None) -> pa.Array:
    return pc.ascii_rtrim(array, characters=" ")
