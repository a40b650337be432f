"""Conditions evaluated on columns in memory, in Hive's three-valued logic: an array of true, false and NULL.

Values are compared as Hive's row mode does: texts by their bytes, char without its padding, decimals and whole numbers
exactly whatever their scales, NaN as one value above all others, minus zero as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.events import EventKeys, as_arrow, flat
from acidctl.rows.literals import As, Value, day_of, double_of, floor_of, is_nan, moment_of
from acidctl.rows.predicate import (
    BUCKET,
    ROW,
    WRITE_ID,
    Among,
    Column,
    Comparison,
    Constant,
    Every,
    IsNull,
    Leaf,
    Like,
    LikePiece,
    Node,
    Not,
    Op,
    like_pieces,
    resolved,
)
from acidctl.types.format_scalars import seconds_and_nanos
from acidctl.types.hive_types import Primitive, TypeKind

BoolArray = npt.NDArray[np.bool_]
_INT64 = (-(1 << 63), (1 << 63) - 1)
_MOST_DIGITS = 38


def in_partition(node: Node, values: Mapping[int, pa.Array]) -> Node:
    """What is left of a condition where some columns have one value each: by their places, arrays of one value."""

    def answer(leaf: Leaf) -> bool | Leaf | None:
        value = values.get(leaf.column.place)
        if value is None:
            return leaf
        known: bool | None = _leaf(leaf, value)[0].as_py()
        return known

    return resolved(node, answer)


def mask(node: Node, columns: Mapping[int, pa.Array], keys: EventKeys | None, rows: int) -> BoolArray | None:
    """Which rows match the condition; None is all of them.

    `columns` are what it reads, by their places; `keys` are the row ids, None where rows have none.
    """
    if isinstance(node, Constant):
        return None if node.value else np.zeros(rows, dtype=np.bool_)
    result = _bools(_evaluated(node, _Columns(columns, keys, rows)))
    return None if result.all() else result


class _Columns:
    """The columns of some rows, ROW__ID's among them; NULL where rows have none."""

    def __init__(self, columns: Mapping[int, pa.Array], keys: EventKeys | None, rows: int) -> None:
        self._columns = columns
        self._keys = keys
        self._rows = rows

    def __getitem__(self, column: Column) -> pa.Array:
        if column.place >= 0:
            return self._columns[column.place]
        if self._keys is None:
            return pa.nulls(self._rows, pa.int64())
        ids = {WRITE_ID.place: self._keys.write_id, BUCKET.place: self._keys.bucket, ROW.place: self._keys.row_id}
        return as_arrow(ids[column.place])


def _evaluated(node: Node, columns: _Columns) -> pa.Array | pa.Scalar:
    if isinstance(node, Constant):
        return pa.scalar(node.value, pa.bool_())
    if isinstance(node, Not):
        return pc.invert(_evaluated(node.part, columns))
    if isinstance(node, Comparison | Among | IsNull | Like):
        return _leaf(node, columns[node.column])
    join = pc.and_kleene if isinstance(node, Every) else pc.or_kleene
    result = _evaluated(node.parts[0], columns)
    for part in node.parts[1:]:
        result = join(result, _evaluated(part, columns))
    return result


def _leaf(leaf: Leaf, array: pa.Array) -> pa.Array:
    if isinstance(leaf, IsNull):
        # A union is never NULL by Arrow's count; its last child marks the NULL ones.
        if pa.types.is_union(array.type):
            codes = np.asarray(flat(array).type_codes)
            return as_arrow(codes == array.type.num_fields - 1)
        return array.is_null()
    assert isinstance(leaf.column.type, Primitive)
    if isinstance(leaf, Like):
        pieces = list(like_pieces(leaf.pattern))
        if pieces[-1:] == [LikePiece("", ".*")] and not any(piece.kind for piece in pieces[:-1]):
            return pc.starts_with(array.cast(pa.binary()), leaf.prefix.encode("utf-8", "surrogateescape"))
        pattern = leaf.regex()
        return _by_text(array, lambda text: pattern.fullmatch(text) is not None, pa.bool_())
    values, valid = _TAKEN[leaf.as_](array, leaf.column.type)
    if isinstance(leaf, Among):
        found = _among(leaf, values, valid)
        return as_arrow(found, valid)
    found = _compared(leaf.op, leaf.as_, values, leaf.value)
    return as_arrow(found & valid) if leaf.op is Op.SAME else as_arrow(found, valid)


def _among(leaf: Among, values: Any, valid: BoolArray) -> BoolArray:
    if leaf.as_ is As.BYTES or (leaf.as_ is As.NUMBER and pa.types.is_integer(values.type)):
        # All at once, where a set holds what the column can hold.
        wanted = [v for v in leaf.values if leaf.as_ is As.BYTES or _INT64[0] <= v <= _INT64[1]]  # type: ignore[operator]
        return _bools(pc.is_in(values, value_set=pa.array([_plain(v) for v in wanted], type=values.type)))
    found: BoolArray = np.zeros(len(valid), dtype=np.bool_)
    for value in leaf.values:
        found |= _compared(Op.EQUAL, leaf.as_, values, value)
    return found


def _plain(value: Value) -> Any:
    return value if isinstance(value, bytes) else floor_of(value, 0)[0]  # type: ignore[arg-type]


def _compared(op: Op, as_: As, values: Any, value: Value) -> BoolArray:
    """The comparison row by row; what stands where a row is NULL means nothing."""
    if op in (Op.EQUAL, Op.SAME):
        return _EQUAL[as_](values, value)
    if op is Op.NOT_EQUAL:
        return ~_EQUAL[as_](values, value)
    if op is Op.LESS:
        return _LESS[as_](values, value)
    if op is Op.AT_LEAST:
        return ~_LESS[as_](values, value)
    at_most = _LESS[as_](values, value) | _EQUAL[as_](values, value)
    return at_most if op is Op.AT_MOST else ~at_most


def _bools(array: pa.Array) -> BoolArray:
    return np.asarray(pc.fill_null(array, fill_value=False))


# --- Columns as what they are compared as: values, and which of them are not NULL.

_Taken = tuple[Any, BoolArray]


def _valid(array: pa.Array) -> BoolArray:
    return np.asarray(array.is_valid())


def _by_text(array: pa.Array, function: Callable[[str], Any], result: pa.DataType) -> pa.Array:
    """`function` of each distinct text."""
    encoded = array.cast(pa.binary()).dictionary_encode()
    texts = [value.decode("utf-8", "surrogateescape") for value in encoded.dictionary.to_pylist()]
    return pa.array([function(text) for text in texts], type=result).take(encoded.indices)


def _numbers(array: pa.Array, _: Primitive) -> _Taken:
    return array if pa.types.is_decimal(array.type) else array.cast(pa.int64()), _valid(array)


def _doubles(array: pa.Array, kind: Primitive) -> _Taken:
    if kind.kind in (TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR):
        array = _by_text(array, double_of, pa.float64())
    elif pa.types.is_decimal(array.type):
        texts = array.cast(pa.string()).dictionary_encode()
        array = pa.array([float(text) for text in texts.dictionary.to_pylist()], pa.float64()).take(texts.indices)
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    valid = _valid(array)
    return np.asarray(pc.fill_null(array.cast(pa.float64(), safe=False), 0.0)), valid


def _booleans(array: pa.Array, _: Primitive) -> _Taken:
    return _bools(array), _valid(array)


def _bytes(array: pa.Array, kind: Primitive) -> _Taken:
    if kind.kind is TypeKind.CHAR:
        array = pc.ascii_rtrim(array, characters=" ")
    return array.cast(pa.binary()), _valid(array)


def _days(array: pa.Array, kind: Primitive) -> _Taken:
    array = array.cast(pa.int32()) if kind.kind is TypeKind.DATE else _by_text(array, day_of, pa.int32())
    return array.cast(pa.int64()), _valid(array)


_MOMENT = pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])


def _moments(array: pa.Array, kind: Primitive) -> _Taken:
    if kind.kind is TypeKind.DATE:
        days = np.asarray(pc.fill_null(array.cast(pa.int32()), 0)).astype(np.int64)
        return (days * 86_400, np.zeros_like(days)), _valid(array)
    if kind.kind not in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL):
        array = _by_text(
            array, lambda text: None if (at := moment_of(text)) is None else {"seconds": at[0], "nanos": at[1]}, _MOMENT
        )
    return seconds_and_nanos(array), _valid(array)


_TAKEN: Mapping[As, Callable[[pa.Array, Primitive], _Taken]] = {
    As.NUMBER: _numbers,
    As.DOUBLE: _doubles,
    As.BOOLEAN: _booleans,
    As.BYTES: _bytes,
    As.DAY: _days,
    As.MOMENT: _moments,
}


# --- Less and equal, value by value.


def _scaled(values: pa.Array, value: Any) -> tuple[pa.Scalar | None, int, bool]:
    """A number as a scalar of the values' type at or just below it, and whether it is the number itself.

    No scalar where it is beyond all values of the type: -1 where it is below them, 1 where it is above.
    """
    decimal = pa.types.is_decimal(values.type)
    floor, exact = floor_of(value, values.type.scale if decimal else 0)
    low, high = (1 - 10**_MOST_DIGITS, 10**_MOST_DIGITS - 1) if decimal else _INT64
    if not low <= floor <= high:
        return None, -1 if floor < low else 1, exact
    if not decimal:
        return pa.scalar(floor, pa.int64()), 0, exact
    return pa.scalar(_decimal(floor, values.type.scale), pa.decimal128(_MOST_DIGITS, values.type.scale)), 0, exact


def _decimal(unscaled: int, scale: int) -> Any:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _number_less(values: pa.Array, value: Any) -> BoolArray:
    bound, beyond, exact = _scaled(values, value)
    if bound is None:
        return np.full(len(values), beyond > 0, dtype=np.bool_)
    return _bools(pc.less(values, bound) if exact else pc.less_equal(values, bound))


def _number_equal(values: pa.Array, value: Any) -> BoolArray:
    bound, _, exact = _scaled(values, value)
    if bound is None or not exact:
        return np.zeros(len(values), dtype=np.bool_)
    return _bools(pc.equal(values, bound))


def _double_less(values: Any, value: Any) -> BoolArray:
    result: BoolArray = ~np.isnan(values) if is_nan(value) else values < value
    return result


def _double_equal(values: Any, value: Any) -> BoolArray:
    result: BoolArray = np.isnan(values) if is_nan(value) else values == value
    return result


def _moment_less(values: Any, value: Any) -> BoolArray:
    (seconds, nanos), (second, nano) = values, value
    result: BoolArray = (seconds < second) | ((seconds == second) & (nanos < nano))
    return result


def _moment_equal(values: Any, value: Any) -> BoolArray:
    (seconds, nanos), (second, nano) = values, value
    result: BoolArray = (seconds == second) & (nanos == nano)
    return result


def _boolean_less(values: Any, value: Any) -> BoolArray:
    result: BoolArray = ~values if value else np.zeros_like(values)
    return result


def _boolean_equal(values: Any, value: Any) -> BoolArray:
    result: BoolArray = values == value
    return result


def _bytes_less(values: pa.Array, value: Any) -> BoolArray:
    return _bools(pc.less(values, pa.scalar(value, pa.binary())))


def _bytes_equal(values: pa.Array, value: Any) -> BoolArray:
    return _bools(pc.equal(values, pa.scalar(value, pa.binary())))


_Test = Callable[[Any, Any], BoolArray]
_LESS: Mapping[As, _Test] = {
    As.NUMBER: _number_less,
    As.DOUBLE: _double_less,
    As.BOOLEAN: _boolean_less,
    As.BYTES: _bytes_less,
    As.DAY: _number_less,
    As.MOMENT: _moment_less,
}
_EQUAL: Mapping[As, _Test] = {
    As.NUMBER: _number_equal,
    As.DOUBLE: _double_equal,
    As.BOOLEAN: _boolean_equal,
    As.BYTES: _bytes_equal,
    As.DAY: _number_equal,
    As.MOMENT: _moment_equal,
}
