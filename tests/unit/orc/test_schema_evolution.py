"""Values of one type read as another.

`conversions.jsonl` holds what ORC's Java reader answered for every pair of types: a line with the values of a source
type, then a line per target type with the results in the same order (timestamps as seconds+nanoseconds, dates as days,
text and binary as `x` and hexadecimal digits), or null where the reader refuses the pair.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from acidctl.errors import DamagedDataError
from acidctl.format.events import WIDE
from acidctl.orc.schema_evolution import arrow_type, fit_array, null_array
from acidctl.types.hive_types import Dialect, HiveType, plan_fit
from acidctl.types.java_numbers import double_text
from acidctl.types.schema import parse_schema, parse_type
from tests.support.vectors import named

LINES = [json.loads(line) for line in (Path(__file__).parent / "conversions.jsonl").read_text().splitlines()]
SOURCES = {line["source"]: line["values"] for line in LINES if "values" in line}
CASES = [line for line in LINES if "target" in line]


def fit(array: pa.Array, source: HiveType, target: HiveType, *, dialect: Dialect = Dialect.HIVE4) -> pa.Array:
    """Values of type `source` as `target`."""
    return fit_array(array, plan_fit(source, target, dialect=dialect))


def source_array(kind: str) -> pa.Array:
    """The values of a source type as the reader delivers them."""
    values = SOURCES[kind]
    arrow = arrow_type(parse_type(kind))
    if pa.types.is_decimal(arrow):
        return pa.array([None if v is None else Decimal(v) for v in values], arrow)
    if pa.types.is_floating(arrow):
        return pa.array([None if v is None else float(v) for v in values], arrow)
    if pa.types.is_binary(arrow):
        return pa.array([None if v is None else bytes.fromhex(v) for v in values], arrow)
    if pa.types.is_timestamp(arrow):
        return pa.array(values, pa.int64()).cast(arrow)
    if pa.types.is_date(arrow):
        return pa.array(values, pa.int32()).cast(arrow)
    if kind.startswith("char"):
        return pa.array([None if v is None else v.rstrip(" ") for v in values])
    return pa.array(values, arrow)


def shown(array: pa.Array) -> list[str]:
    """Values in the notation of the vectors."""
    return [_shown(value, array.type) for value in _plain(array)]


def _plain(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_timestamp(kind):
        return [None if v is None else divmod(v, 10**9) for v in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(kind):
        array = array.cast(pa.int32())
    if pa.types.is_string(kind):
        array = array.cast(pa.binary())
    values: list[Any] = array.to_pylist()
    return values


def _shown(value: Any, kind: pa.DataType) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return f"{value['seconds']}+{value['nanos']}"
    if isinstance(value, tuple):
        return f"{value[0]}+{value[1]}"
    if isinstance(value, bytes):
        return "x" + value.hex()
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, Decimal):
        text = format(value, "f")
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text
    return str(int(value))


def test_as_hive_4_reads_it() -> None:
    """Every pair of primitive types gives what ORC's own reader gives, or is refused as there."""
    for case in CASES:
        with named(f"{case['source']} as {case['target']}"):
            _check_pair(case)


def _check_pair(case: dict[str, Any]) -> None:
    source, target = parse_type(case["source"]), parse_type(case["target"])
    array = source_array(case["source"])
    if case["results"] is None:
        with pytest.raises(DamagedDataError):
            fit(array, source, target)
        return
    want = case["results"]
    if case["target"] == "float":
        # The Java reader leaves doubles in the column; whoever takes a float from it rounds.
        with np.errstate(over="ignore"):
            want = [v if v == "null" else double_text(float(np.float32(float(v)))) for v in want]
    assert shown(fit(array, source, target)) == want


def test_both_forms_of_a_timestamp_convert_alike() -> None:
    """Wide and narrow timestamps give the same texts, numbers and dates."""
    source = parse_type("timestamp")
    narrow = source_array("timestamp")
    wide = pa.array(
        [
            None if v is None else dict(zip(("seconds", "nanos"), divmod(v, 10**9), strict=True))
            for v in SOURCES["timestamp"]
        ],
        WIDE,
    )
    for target in ("string", "bigint", "double", "decimal(38,9)", "date", "boolean"):
        kind = parse_type(target)
        for dialect in (Dialect.HIVE4, Dialect.HIVE3):
            assert shown(fit(wide, source, kind, dialect=dialect)) == shown(fit(narrow, source, kind, dialect=dialect))


@pytest.mark.parametrize(
    ("source", "values", "target", "want"),
    [
        ("float", [0.1, 74.72, None, float("nan")], "double", ["0.1", "74.72", "null", "NaN"]),
        ("float", [0.1, float("nan")], "string", ["x" + b"0.1".hex(), "null"]),
        ("float", [0.1], "decimal(10,5)", ["0.1"]),
        ("bigint", [1_600_000_000_123, -1], "timestamp", ["1600000000+123000000", "-1+999000000"]),
        ("double", [1.5, -1.5, 1e30], "timestamp", ["1+500000000", "-2+500000000", "null"]),
        ("string", ["2021-2-3", "2021-02-30", "21-1-1", "x"], "date", ["18661", "18688", "null", "null"]),
        ("string", ["2021-2-3 4:5:6.5", "2021-02-03"], "timestamp", ["1612325106+500000000", "null"]),
        ("timestamp", [0], "string", ["x" + b"1970-01-01 00:00:00.0".hex()]),
    ],
)
def test_where_hive_3_differs(source: str, values: list[Any], target: str, want: list[str]) -> None:
    """ORC 1.5 keeps a float's digits, takes integers for milliseconds and reads dates as java.sql does."""
    kind = parse_type(source)
    plain = pa.int64() if source == "timestamp" else arrow_type(kind)
    array = pa.array(values, plain).cast(arrow_type(kind))
    assert shown(fit(array, kind, parse_type(target), dialect=Dialect.HIVE3)) == want


def test_invalid_utf8_converts_to_null_and_is_never_an_error() -> None:
    """Bytes that are no text are no number either; as varchar they are cut by characters."""
    raw = pa.array([b"\xff\xfe\xfd", b"12", b"\xc3\xa9\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    source = parse_type("string")
    assert shown(fit(text, source, parse_type("int"))) == ["null", "12", "null"]
    assert shown(fit(text, source, parse_type("varchar(2)"))) == ["xfffe", "x3132", "xc3a9ff"]


def test_structs_are_fitted_inside() -> None:
    """Fields by name, missing ones NULL, types converted, NULL structs kept; slices too."""
    source = parse_schema("s struct<a:int,b:string>, l array<struct<x:int>>, m map<string,int>").columns
    target = parse_schema(
        "s struct<b:varchar(1),c:int,a:bigint>, l array<struct<x:string>>, m map<string,double>"
    ).columns
    arrays = [
        pa.array([{"a": 0, "b": "-"}, {"a": 1, "b": "xy"}, None, {"a": None, "b": None}]),
        pa.array([[], [{"x": 1}, None], None, []], pa.list_(pa.struct([("x", pa.int32())]))),
        pa.array([[], [("k", 1)], None, [("l", None)]], pa.map_(pa.string(), pa.int32())),
    ]
    fitted = [
        fit_array(array.slice(1), child[1])
        for array, child in zip(arrays, plan_fit(source, target).children, strict=True)
        if child is not None
    ]
    assert fitted[0].to_pylist() == [{"b": "x", "c": None, "a": 1}, None, {"b": None, "c": None, "a": None}]
    assert fitted[1].to_pylist() == [[{"x": "1"}, None], None, []]
    assert fitted[2].to_pylist() == [[("k", 1.0)], None, [("l", None)]]
    for array in fitted:
        array.validate(full=True)


def test_columns_that_a_file_does_not_have() -> None:
    """Every type has its column of NULLs, in the form in which its values travel."""
    for text in ("int", "decimal(5,2)", "timestamp", "array<int>", "map<int,string>", "struct<a:int>"):
        array = null_array(parse_type(text), 3)
        assert (array.null_count, array.type) == (3, arrow_type(parse_type(text)))
    union = null_array(parse_type("uniontype<int,string>"), 2)
    assert union.type == arrow_type(parse_type("uniontype<int,string>"))
    assert union.type_codes.to_pylist() == [2, 2]
