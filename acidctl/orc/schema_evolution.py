"""Reading a file's values as the table's type: `hive_types.plan_fit` decides, this carries it out in Arrow.

The rules and texts are those of ORC's ConvertTreeReaderFactory, which Hive reads through: what does not fit
or cannot be parsed becomes NULL, never an error.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from acidctl.format.arrays import WIDE, flat
from acidctl.orc import convert as hive4
from acidctl.orc.calendar import SECONDS_PER_DAY
from acidctl.orc.convert import convert
from acidctl.orc.postprocess import NULL_UNION, Finisher, rebuild, union
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
from acidctl.types.java_numbers import double_text, float_text

# --- Conversions in which Hive 3 and 2 differ from Hive 4: those of ORC 1.5 and of java.sql.
#
# Everything else is `convert`'s. ORC 1.5 keeps the digits of a float when it becomes a double, takes integers
# for milliseconds when they become timestamps, and reads and prints dates and timestamps as `java.sql` does.


_NANOS = 1_000_000_000
_DATE = re.compile(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})\Z")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?\Z")


def convert_hive3(array: pa.Array, source: Primitive, target: Primitive) -> pa.Array:
    """Values of type `source` as `target`; the pair must be one that `plan_fit` allows."""
    if source.kind is TypeKind.FLOAT:
        return _from_float(array, target)
    if target.kind is TypeKind.TIMESTAMP:
        return _to_timestamp(array, source, target)
    if source.kind is TypeKind.TIMESTAMP:
        return _from_timestamp(array, source, target)
    if target.kind is TypeKind.DATE and source.kind in hive4.TEXTS:
        return hive4.by_value(array, _parse_day, pa.int32()).cast(pa.date32())
    return hive4.convert(array, source, target)


def _from_float(array: pa.Array, target: Primitive) -> pa.Array:
    if target.kind is TypeKind.DOUBLE:
        return float_digits(array)
    if target.kind is TypeKind.DECIMAL:
        # The digits of the float, which are those of the double that has them.
        return hive4.convert(float_digits(array), Primitive(TypeKind.DOUBLE), target)
    if target.kind in hive4.TEXTS:
        known = pc.if_else(pc.is_nan(array), pa.scalar(None, pa.float32()), array)
        return hive4.limit(hive4.by_value(known, float_text, pa.string()), target)
    source = Primitive(TypeKind.FLOAT)
    if target.kind is TypeKind.TIMESTAMP:
        return _to_timestamp(array, source, target)
    return hive4.convert(array, source, target)


def float_digits(array: pa.Array) -> pa.Array:
    """Floats as the doubles of the same decimal text (`Double.parseDouble(Float.toString(f))`)."""
    values = np.asarray(array.fill_null(0))
    size = np.abs(values)
    digits = np.asarray(array.cast(pa.string()).cast(pa.float64()).fill_null(0)).copy()
    # Where Java's text may not be the shortest one: large, subnormal, and small powers of two.
    with np.errstate(invalid="ignore"):
        odd = (size >= 2.0**24) | ((size > 0) & (size < 1e-30))
        odd |= (size < 1e-3) & (values.view(np.uint32) & 0x7FFFFF == 0) & (size > 0)
    odd &= np.isfinite(values)
    if odd.any():
        digits[odd] = [float(float_text(float(value))) for value in values[odd]]
    return pa.array(digits, mask=np.asarray(array.is_null()))


# --- timestamps


def _to_timestamp(array: pa.Array, source: Primitive, target: Primitive) -> pa.Array:
    if source.kind in hive4.TEXTS:
        return hive4.by_value(array, _parse_clock, WIDE)
    if source.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return hive4.by_value(array.cast(pa.float64()), _float_clock, WIDE)
    if source.kind in hive4.INTEGERS or source.kind is TypeKind.BOOLEAN:
        millis = hive4.int64(array)
        nanos = np.mod(millis, 1000) * 1_000_000
        return hive4.from_clock(np.floor_divide(millis, 1000), nanos, hive4.validity(array))
    return hive4.convert(array, source, target)


def _float_clock(value: float) -> dict[str, int] | None:
    if value != value or abs(value) >= 2.0**63:
        return None
    seconds = int(value)
    nanos = int((Decimal(double_text(value)) - seconds) * _NANOS)
    return {"seconds": seconds + nanos // _NANOS, "nanos": nanos % _NANOS}


def _from_timestamp(array: pa.Array, source: Primitive, target: Primitive) -> pa.Array:
    if target.kind in hive4.TEXTS:
        return hive4.limit(hive4.by_clock(array, _timestamp_text, pa.string()), target)
    if target.kind is TypeKind.DECIMAL:
        wide = hive4.convert(array, source, Primitive(TypeKind.DOUBLE))
        return hive4.convert(wide, Primitive(TypeKind.DOUBLE), target)
    if target.kind is TypeKind.DATE:
        days = np.floor_divide(hive4.clock(array)[0], SECONDS_PER_DAY).astype(np.int32)
        return pa.array(days, mask=~hive4.validity(array)).cast(pa.date32())
    return hive4.convert(array, source, target)


def _timestamp_text(seconds: int, nanos: int) -> str:
    text = hive4.clock_text(seconds, nanos)
    return text if nanos else text + ".0"


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _parse_day(value: bytes) -> int | None:
    match = _DATE.match(_text(value))
    return None if match is None else _day(*(int(part) for part in match.groups()))


def _day(year: int, month: int, day: int) -> int | None:
    if not (1 <= month <= 12 and 1 <= day <= 31 and year >= 1):
        return None
    # java.sql.Date takes 31 days for every month and lets the rest run over.
    first = date(year, month, 1).toordinal() - 719_163
    return first + day - 1


def _parse_clock(value: bytes) -> dict[str, Any] | None:
    head, _, tail = _text(value).strip().partition(" ")
    day = _parse_day(head.encode())
    match = _CLOCK.match(tail)
    if day is None or match is None:
        return None
    hour, minute, second = (int(part) for part in match.groups()[:3])
    nanos = int((match[4] or "0").ljust(9, "0"))
    return {"seconds": day * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second, "nanos": nanos}


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
