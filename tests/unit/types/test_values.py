"""Our JSON and CSV of values, against a slow model that renders one Python value at a time."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acidctl.format.events import WIDE
from acidctl.orc.schema_evolution import arrow_type
from acidctl.types.format_rows import csv_header, csv_lines, json_column, json_lines
from acidctl.types.format_scalars import Damage
from acidctl.types.hive_types import Field, HiveType, ListType, MapType, Primitive, StructType, TypeKind, UnionType
from acidctl.types.schema import parse_type
from tests.support.extent import amount

_DAY_SECONDS = 86_400


def build(values: list[Any], hive_type: HiveType) -> pa.Array:
    """The Arrow array of Python values; a union value is a pair of tag and value."""
    if isinstance(hive_type, UnionType):
        values = [(0, None) if value is None else value for value in values]
        tags = pa.array([tag for tag, _ in values], pa.int8())
        children = [
            build([v if tag == i else None for tag, v in values], t) for i, t in enumerate(hive_type.alternatives)
        ]
        return pa.UnionArray.from_sparse(tags, children)
    if hive_type.kind is TypeKind.DATE:
        return pa.array(values, pa.int32()).view(pa.date32())
    if hive_type.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL):
        numbers = [None if v is None else v[0] * 1_000_000_000 + v[1] for v in values]
        return pa.array(numbers, pa.int64()).view(arrow_type(hive_type))
    if isinstance(hive_type, ListType):
        flat = [item for value in values for item in value or ()]
        return pa.ListArray.from_arrays(_offsets(values), build(flat, hive_type.element))
    if isinstance(hive_type, MapType):
        pairs = [pair for value in values for pair in value or ()]
        keys, items = (
            build([k for k, _ in pairs], hive_type.key),
            build([v for _, v in pairs], hive_type.value),
        )
        return pa.MapArray.from_arrays(_offsets(values), keys, items)
    if isinstance(hive_type, StructType):
        children = [
            build([None if v is None else v[i] for v in values], f.type) for i, f in enumerate(hive_type.fields)
        ]
        mask = pa.array([v is None for v in values], pa.bool_())
        fields = [pa.field(f.name, c.type) for f, c in zip(hive_type.fields, children, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    return pa.array(values, arrow_type(hive_type))


def _offsets(values: list[Any]) -> pa.Array:
    ends, at = [], 0
    for value in values:
        ends.append(None if value is None else at)
        at += len(value or ())
    return pa.array([*ends, at], pa.int32())


def model(value: Any, hive_type: HiveType) -> Any:
    """What the JSON text of one value must parse to."""
    if isinstance(hive_type, UnionType):
        return {"tag": value[0], "value": model(value[1], hive_type.alternatives[value[0]])}
    if value is None:
        return None
    if isinstance(hive_type, ListType):
        return [model(v, hive_type.element) for v in value]
    if isinstance(hive_type, MapType):
        return [{"_key": model(k, hive_type.key), "_value": model(v, hive_type.value)} for k, v in value]
    if isinstance(hive_type, StructType):
        return {f.name: model(v, f.type) for f, v in zip(hive_type.fields, value, strict=True)}
    return model_leaf(value, hive_type)


def model_leaf(value: Any, hive_type: Primitive) -> Any:
    """The same for a value without children."""
    kind = hive_type.kind
    if kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return float(str(np.float32(value))) if kind is TypeKind.FLOAT else value
    if kind is TypeKind.CHAR:
        return value.rstrip(" ")
    if kind is TypeKind.DECIMAL:
        return f"{value:.{hive_type.scale}f}"
    if kind is TypeKind.BINARY:
        return list(value)
    if kind is TypeKind.DATE:
        return (dt.date(1970, 1, 1) + dt.timedelta(days=value)).isoformat()
    if kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL):
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=value[0])
        text = moment.strftime("%Y-%m-%d %H:%M:%S") + f".{value[1]:09}".rstrip("0").rstrip(".")
        return text + (" UTC" if kind is TypeKind.TIMESTAMP_LOCAL else "")
    return value


_TEXT = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from('"\\\n\r\t\x00\x1f\x7f\u2028,')),
    max_size=8,
)
_LEAVES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal(38,10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-10")),
    "decimal(9,9)": st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(f"{n}E-9")),
    "decimal(5,2)": st.integers(-99_999, 99_999).map(lambda n: Decimal(f"{n}E-2")),
    "decimal(20,0)": st.integers(-(10**20) + 1, 10**20 - 1).map(Decimal),
    "string": _TEXT,
    "char(8)": _TEXT.map(lambda s: s + "  "),
    "varchar(8)": _TEXT,
    "binary": st.binary(max_size=6),
    "date": st.integers(-719_162 + 365_000, 2_932_896),
    "timestamp": st.tuples(
        st.integers(-9_223_372_035, 9_223_372_035), st.one_of(st.just(0), st.integers(0, 999_999_999))
    ),
    "timestamp with local time zone": st.tuples(st.integers(-9_223_372_035, 9_223_372_035), st.just(5_000)),
}


def _typed(depth: int) -> st.SearchStrategy[tuple[HiveType, st.SearchStrategy[Any]]]:
    """Pairs of a type and a strategy of its values, NULL among them."""
    leaf = st.sampled_from([(parse_type(text), st.none() | values) for text, values in _LEAVES.items()])
    if depth == 0:
        return leaf
    inner = _typed(depth - 1)

    def of_list(pair: tuple[HiveType, Any]) -> tuple[HiveType, Any]:
        return ListType(pair[0]), st.none() | st.lists(pair[1], max_size=3)

    def of_map(pairs: tuple[Any, Any]) -> tuple[HiveType, Any]:
        (key, keys), (value, values) = pairs
        entries = st.lists(st.tuples(keys.filter(lambda k: k is not None), values), max_size=3)
        return MapType(key, value), st.none() | entries

    def of_struct(pairs: list[tuple[HiveType, Any]]) -> tuple[HiveType, Any]:
        fields = tuple(Field(f'f "{i}', t) for i, (t, _) in enumerate(pairs))
        return StructType(fields), st.none() | st.tuples(*(values for _, values in pairs))

    def of_union(pairs: list[tuple[HiveType, Any]]) -> tuple[HiveType, Any]:
        tagged = [st.tuples(st.just(i), values) for i, (_, values) in enumerate(pairs)]
        return UnionType(tuple(t for t, _ in pairs)), st.one_of(tagged)

    return st.one_of(
        leaf,
        inner.map(of_list),
        st.tuples(leaf, inner).map(of_map),
        st.lists(inner, min_size=1, max_size=3).map(of_struct),
        st.lists(inner, min_size=1, max_size=3).map(of_union),
    )


def _wrap_nan(value: Any) -> Any:
    return json.loads(json.dumps(value))


@pytest.mark.slow
@settings(max_examples=amount(400, swept=400), deadline=None)
@given(st.data())
def test_json_column_equals_the_model_on_any_nested_type_and_slice(data: st.DataObject) -> None:
    """Every value of every type at every level, NULL or empty, sliced or not, is what the model says."""
    hive_type, strategy = data.draw(_typed(2))
    values = data.draw(st.lists(strategy, min_size=0, max_size=6))
    array = build(values, hive_type)
    start = data.draw(st.integers(0, len(values)))
    count = data.draw(st.integers(0, len(values) - start))
    part = array.slice(start, count)
    texts = json_column(part, hive_type).to_pylist()
    assert [json.loads(text) for text in texts] == [
        _wrap_nan(model(v, hive_type)) for v in values[start : start + count]
    ]


@pytest.mark.slow
@settings(max_examples=amount(100, swept=100), deadline=None)
@given(st.data())
def test_json_lines_are_objects_of_all_columns(data: st.DataObject) -> None:
    """A line holds each column under its name, in order, and nothing else."""
    columns = data.draw(st.lists(_typed(1), min_size=1, max_size=4))
    count = data.draw(st.integers(0, 5))
    rows = [[data.draw(values) for _, values in columns] for _ in range(count)]
    arrays = [build([row[i] for row in rows], t) for i, (t, _) in enumerate(columns)]
    names = [f"c{i}" for i in range(len(columns))]
    types = [t for t, _ in columns]
    output = bytes(json_lines(arrays, names, types))
    assert output.count(b"\n") == count
    parsed = [json.loads(line) for line in output.decode().split("\n")[:-1]]
    assert parsed == [_wrap_nan({n: model(v, t) for n, v, t in zip(names, row, types, strict=True)}) for row in rows]
    assert all(list(row) == names for row in parsed)


@pytest.mark.slow
@settings(max_examples=amount(100, swept=100), deadline=None)
@given(st.data())
def test_csv_reads_back(data: st.DataObject) -> None:
    """Python's csv module gets every cell back; nested cells parse as JSON."""
    columns = data.draw(st.lists(_typed(1), min_size=1, max_size=4))
    count = data.draw(st.integers(0, 5))
    rows = [[data.draw(values) for _, values in columns] for _ in range(count)]
    arrays = [build([row[i] for row in rows], t) for i, (t, _) in enumerate(columns)]
    output = bytes(csv_lines(arrays, [t for t, _ in columns])).decode()
    parsed = list(csv.reader(io.StringIO(output, newline="")))
    if len(columns) > 1:
        assert len(parsed) == count
    for cells, row in zip(parsed, rows, strict=False):
        for cell, value, (hive_type, _) in zip(cells, row, columns, strict=False):
            assert cell == csv_model(value, hive_type)


def csv_model(value: Any, hive_type: HiveType) -> str:
    """The cell that a CSV reader must see."""
    wanted = model(value, hive_type)
    if wanted is None:
        return ""
    if not isinstance(hive_type, Primitive) or hive_type.kind is TypeKind.BINARY:
        return _as_json(value, hive_type)
    if isinstance(wanted, bool):
        return "true" if wanted else "false"
    if isinstance(wanted, float):
        return _as_json(value, hive_type)
    return str(wanted)


def one(value: Any, text: str) -> str:
    """The JSON text of a single value."""
    return _as_json(value, parse_type(text))


def _as_json(value: Any, hive_type: HiveType) -> str:
    shown: str = json_column(build([value], hive_type), hive_type)[0].as_py()
    return shown


@pytest.mark.parametrize(
    ("value", "hive_type", "text"),
    [
        (0.1, "float", "0.1"),
        (1e7, "double", "10000000.0"),
        (1e21, "double", "1e+21"),
        (-0.0, "double", "-0.0"),
        (5e-324, "double", "5e-324"),
        (float("nan"), "float", '"NaN"'),
        (Decimal("0E-7"), "decimal(7,7)", '"0.0000000"'),
        (Decimal("-0.0000001"), "decimal(8,7)", '"-0.0000001"'),
        (Decimal("1.5"), "decimal(5,2)", '"1.50"'),
        (2_932_897, "date", '"+10000-01-01"'),
        (-719_529, "date", '"-0001-12-31"'),
        (-719_528, "date", '"0000-01-01"'),
        ((-1, 500_000_000), "timestamp", '"1969-12-31 23:59:59.5"'),
        ((0, 0), "timestamp with local time zone", '"1970-01-01 00:00:00 UTC"'),
        (b"\x00\xff", "binary", "[0,255]"),
        ("a  ", "char(3)", '"a"'),
        ('\x00"\\\n', "string", '"\\u0000\\"\\\\\\n"'),
    ],
)
def test_text_of_a_value(value: Any, hive_type: str, text: str) -> None:
    """The exact text, where more than one text would parse alike or the model does not reach."""
    assert one(value, hive_type) == text


@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (-62_135_596_800, 0, "0001-01-01 00:00:00"),
        (253_402_300_799, 999_999_999, "9999-12-31 23:59:59.999999999"),
        (253_402_300_800, 10, "+10000-01-01 00:00:00.00000001"),
        (-1, 500_000_000, "1969-12-31 23:59:59.5"),
        (-62_167_219_201, 0, "-0001-12-31 23:59:59"),
    ],
)
def test_wide_timestamps(seconds: int, nanos: int, text: str) -> None:
    """A moment as seconds and nanos is shown for any year, NULL included."""
    array = pa.array([{"seconds": seconds, "nanos": nanos}, None], WIDE)
    assert json_column(array, parse_type("timestamp")).to_pylist() == [f'"{text}"', "null"]
    assert json_column(array.slice(1), parse_type("timestamp")).to_pylist() == ["null"]


def test_wide_and_narrow_timestamps_have_the_same_text() -> None:
    """Both Arrow forms of one moment are shown alike."""
    moments = [(0, 0), (-1, 1), (1_700_000_000, 120_000_000), (-9_000_000_000, 999_999_999), None]
    narrow = build(moments, parse_type("timestamp"))
    wide = pa.array([None if m is None else {"seconds": m[0], "nanos": m[1]} for m in moments], WIDE)
    hive_type = parse_type("timestamp")
    assert json_column(wide, hive_type).equals(json_column(narrow, hive_type))


def test_strings_that_are_not_utf8_are_replaced_and_counted() -> None:
    """Replacement characters stand for the bytes, in the rows that need it; every such string counts."""
    raw = pa.array([b"ok", b"a\xffb", None, "é".encode(), b'\xc3"', b"\xed\xa0\x80"], pa.binary())
    damage = Damage()
    texts = json_column(raw.view(pa.string()), parse_type("string"), damage=damage).to_pylist()
    assert texts == ['"ok"', '"a\ufffdb"', "null", '"é"', '"\ufffd\\""', '"\ufffd"']
    assert damage.count == 3
    assert csv_lines([raw.view(pa.string())], [parse_type("string")]).to_pybytes().count(b"\n") == 6


def test_dense_unions_render_as_sparse_ones() -> None:
    """How a union is laid out does not show, also in a slice."""
    hive_type = parse_type("uniontype<int,string>")
    sparse = build([(0, 1), (1, "a"), (1, None), (0, 7)], hive_type)
    dense = pa.UnionArray.from_dense(
        pa.array([0, 1, 1, 0], pa.int8()),
        pa.array([1, 0, 1, 0], pa.int32()),
        [pa.array([7, 1], pa.int32()), pa.array(["a", None], pa.string())],
    )
    assert json_column(dense, hive_type).equals(json_column(sparse, hive_type))
    assert json_column(dense.slice(1, 2), hive_type).equals(json_column(sparse.slice(1, 2), hive_type))


def test_null_unions_are_told_from_unions_of_null() -> None:
    """A child beyond the type's alternatives marks a union that is NULL; a NULL value keeps its tag."""
    children = [pa.array([1, None, None], pa.int32()), pa.array([None, None, None], pa.string()), pa.nulls(3)]
    union = pa.UnionArray.from_sparse(pa.array([0, 0, 2], pa.int8()), children)
    texts = json_column(union, parse_type("uniontype<int,string>")).to_pylist()
    assert texts == ['{"tag":0,"value":1}', '{"tag":0,"value":null}', "null"]
    assert bytes(csv_lines([union], [parse_type("uniontype<int,string>")])).endswith(b"\n\n")


def test_names_are_escaped() -> None:
    """A column may be called anything; the line stays JSON and the CSV header stays CSV."""
    name = 'a"b\\\n\u2028,'
    output = bytes(json_lines([pa.array([1])], [name], [parse_type("bigint")]))
    assert json.loads(output) == {name: 1}
    assert next(csv.reader(io.StringIO(csv_header([name, "x"]).decode(), newline=""))) == [name, "x"]


def test_csv_tells_null_from_empty() -> None:
    """NULL is nothing at all, the empty string a pair of quotes."""
    array = pa.array([None, "", " x", "y"])
    assert bytes(csv_lines([array], [parse_type("string")])) == b'\n""\n" x"\ny\n'


def test_constant_columns_render_like_others() -> None:
    """The shortcut for integers that are all equal is invisible."""
    columns = [pa.array([7, 7, 7], pa.int32()), pa.array([1, 2, 3])]
    output = bytes(json_lines(columns, ["a", "b"], [parse_type("int"), parse_type("bigint")]))
    assert output == b'{"a":7,"b":1}\n{"a":7,"b":2}\n{"a":7,"b":3}\n'
    assert bytes(json_lines(columns[:1], ["a"], [parse_type("int")])) == b'{"a":7}\n' * 3


def test_rendering_is_safe_in_threads() -> None:
    """Many threads over the same arrays give what one gives, and lose no damage count."""
    array = pa.array([b"x", b"\xff"] * 500, pa.binary()).view(pa.string())
    numbers = pa.array([0.5, 1e300] * 500)
    types = [parse_type("string"), parse_type("double")]
    damage = Damage()

    def render(_: int) -> bytes:
        return bytes(json_lines([array, numbers], ["a", "b"], types, damage=damage))

    expected = bytes(json_lines([array, numbers], ["a", "b"], types))
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(render, range(16))) == {expected}
    assert damage.count == 16 * 500


def test_large_batches_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose text could pass Arrow's 2 GiB is rendered in parts, with the same result."""
    array = pa.array(["abc"] * 10)
    whole = bytes(json_lines([array], ["a"], [parse_type("string")]))
    monkeypatch.setattr("acidctl.types.format_rows.SPLIT_BYTES", 8)
    assert bytes(json_lines([array], ["a"], [parse_type("string")])) == whole
