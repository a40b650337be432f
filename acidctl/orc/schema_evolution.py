"""Reading a file's values as the table's type: `hive_types.plan_fit` decides, this carries it out in Arrow.

The rules and texts are those of ORC's ConvertTreeReaderFactory, which Hive reads through: what does not fit
or cannot be parsed becomes NULL, never an error.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from acidctl.format.arrays import flat
from acidctl.orc.convert import convert
from acidctl.orc.convert_hive3 import convert_hive3
from acidctl.orc.nesting import NULL_UNION, Finisher, rebuild, union
from acidctl.types.hive_types import (
    Dialect,
    Fit,
    FitAction,
    HiveType,
    ListType,
    MapType,
    Primitive,
    StructType,
    TypeKind,
    UnionType,
    plan_fit,
)

_ARROW = {
    TypeKind.BOOLEAN: pa.bool_(),
    TypeKind.TINYINT: pa.int8(),
    TypeKind.SMALLINT: pa.int16(),
    TypeKind.INT: pa.int32(),
    TypeKind.BIGINT: pa.int64(),
    TypeKind.FLOAT: pa.float32(),
    TypeKind.DOUBLE: pa.float64(),
    TypeKind.STRING: pa.string(),
    TypeKind.CHAR: pa.string(),
    TypeKind.VARCHAR: pa.string(),
    TypeKind.BINARY: pa.binary(),
    TypeKind.DATE: pa.date32(),
    TypeKind.TIMESTAMP: pa.timestamp("ns"),
    TypeKind.TIMESTAMP_LOCAL: pa.timestamp("ns", tz="UTC"),
}


def arrow_type(kind: HiveType) -> pa.DataType:
    """The Arrow type in which values of a Hive type travel, timestamps in their narrow form."""
    if isinstance(kind, Primitive):
        if kind.kind is TypeKind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
        return _ARROW[kind.kind]
    if isinstance(kind, ListType):
        return pa.list_(arrow_type(kind.element))
    if isinstance(kind, MapType):
        return pa.map_(arrow_type(kind.key), arrow_type(kind.value))
    if isinstance(kind, StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in kind.fields])
    assert isinstance(kind, UnionType)
    fields = [pa.field(str(i), arrow_type(t)) for i, t in enumerate(kind.alternatives)]
    return pa.sparse_union([*fields, pa.field(NULL_UNION, pa.null())])


def null_array(kind: HiveType, rows: int) -> pa.Array:
    """A column of NULLs, for a field that a file does not have."""
    if isinstance(kind, UnionType):
        children = [null_array(alternative, rows) for alternative in kind.alternatives]
        return union(np.full(rows, len(children), dtype=np.int8), children, None)
    return pa.nulls(rows, arrow_type(kind))


def fit(array: pa.Array, source: HiveType, target: HiveType, *, dialect: Dialect = Dialect.HIVE4) -> pa.Array:
    """The values of `array`, which are of type `source`, as `target`; DamagedDataError where Hive refuses."""
    return fit_array(array, plan_fit(source, target, dialect=dialect))


def fit_array(array: pa.Array, plan: Fit) -> pa.Array:
    """Carry out a decided fit."""
    if plan.action is FitAction.KEEP:
        return array
    if plan.action is FitAction.CONVERT:
        assert isinstance(plan.source, Primitive)
        assert isinstance(plan.target, Primitive)
        legacy = None if plan.dialect is Dialect.HIVE4 else convert_hive3
        return (legacy or convert)(array, plan.source, plan.target)
    if isinstance(plan.target, StructType):
        return _struct(array, plan)
    if isinstance(plan.target, UnionType):
        array = flat(array)
        children = [fit_array(array.field(child[0]), child[1]) for child in plan.children if child]
        return union(np.asarray(array.type_codes), children, None)
    return rebuild(array, [_step(child[1]) for child in plan.children if child])


def _step(plan: Fit) -> Finisher:
    return lambda array, held: fit_array(array, plan)


def _struct(array: pa.StructArray, plan: Fit) -> pa.Array:
    assert isinstance(plan.target, StructType)
    array = flat(array)
    children = [
        null_array(field.type, len(array)) if child is None else fit_array(array.field(child[0]), child[1])
        for field, child in zip(plan.target.fields, plan.children, strict=True)
    ]
    names = plan.target.names
    kind = pa.struct([pa.field(name, child.type) for name, child in zip(names, children, strict=True)])
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:1], array.null_count, children=children)
