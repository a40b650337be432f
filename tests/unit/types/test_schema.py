"""Hive types and schemas from text, and what one type may be read as."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acidctl.errors import DamagedDataError, UsageError
from acidctl.types.hive_types import (
    Dialect,
    Field,
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
from acidctl.types.schema import parse_schema, parse_type
from tests.support.extent import amount

SHOW_CREATE = """CREATE TABLE `default`.`orders`(
  `id` int COMMENT 'it''s, (the) key',
  `v` string NOT NULL DEFAULT 'a,b' ENABLE,
  `when` timestamp with local time zone,
  `s` struct<a:int COMMENT 'inner',`b c`:array<decimal(10,2)>>,
  PRIMARY KEY (`id`) DISABLE NOVALIDATE)
COMMENT 'a table'
PARTITIONED BY (
  `ds` date,
  `hr` int)
CLUSTERED BY (
  id)
SORTED BY (id ASC)
INTO 2 BUCKETS
ROW FORMAT SERDE
  'org.apache.hadoop.hive.ql.io.orc.OrcSerde'
STORED AS INPUTFORMAT
  'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat'
OUTPUTFORMAT
  'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat'
LOCATION
  'file:/warehouse/orders'
TBLPROPERTIES (
  'orc.compress'='SNAPPY',
  'no_auto_compaction'='true',
  'transactional'='true',
  'transactional_properties'='insert_only')
"""

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
_LEAVES = st.one_of(
    st.sampled_from(
        [
            Primitive(kind)
            for kind in TypeKind
            if kind.value.isalpha()
            and kind.name
            in {
                "BOOLEAN",
                "TINYINT",
                "SMALLINT",
                "INT",
                "BIGINT",
                "FLOAT",
                "DOUBLE",
                "STRING",
                "BINARY",
                "DATE",
                "TIMESTAMP",
            }
        ]
    ),
    st.just(Primitive(TypeKind.TIMESTAMP_LOCAL)),
    st.integers(1, 255).map(lambda n: Primitive(TypeKind.CHAR, length=n)),
    st.integers(1, 65535).map(lambda n: Primitive(TypeKind.VARCHAR, length=n)),
    st.integers(1, 38).flatmap(
        lambda p: st.integers(0, p).map(lambda s: Primitive(TypeKind.DECIMAL, precision=p, scale=s))
    ),
)
_TYPES: st.SearchStrategy[HiveType] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(ListType),
        st.tuples(inner, inner).map(lambda pair: MapType(*pair)),
        st.lists(st.tuples(_NAMES, inner), max_size=3).map(
            lambda fields: StructType(tuple(Field(*field) for field in fields))
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda types: UnionType(tuple(types))),
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(_TYPES)
@settings(max_examples=amount(300, swept=300), deadline=None)
def test_text_of_a_type_parses_back(kind: HiveType) -> None:
    """Whatever the type and the names in it, its text is read as the same type."""
    assert parse_type(str(kind)) == kind


@given(st.text(max_size=60) | st.text("struct<>array,:() `'\"id int 123;decimal", max_size=60))
@settings(max_examples=amount(500, swept=500), deadline=None)
def test_any_text_is_understood_or_refused(text: str) -> None:
    """No text raises anything but UsageError."""
    for parse in (parse_type, parse_schema):
        with suppress(UsageError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("INT", "int"),
        ("integer", "int"),
        ("double precision", "double"),
        ("decimal", "decimal(10,0)"),
        ("numeric(5)", "decimal(5,0)"),
        ("timestamplocaltz", "timestamp with local time zone"),
        ("timestamp  WITH local\ntime zone", "timestamp with local time zone"),
        ("struct<a b:int,c.d:map<string,int>>", "struct<`a b`:int,`c.d`:map<string,int>>"),
        ("uniontype<int,array<char(3)>>", "uniontype<int,array<char(3)>>"),
        ("struct<>", "struct<>"),
        ("struct<`a``b`:varchar(10)>", "struct<`a``b`:varchar(10)>"),
    ],
)
def test_spellings(text: str, canonical: str) -> None:
    """All spellings that Hive takes give one type."""
    assert str(parse_type(text)) == canonical


@pytest.mark.parametrize(
    "text",
    ["", "in t", "struct<a:int", "decimal(39,1)", "decimal(5,6)", "char", "char(0)", "char(256)", "varchar(65536)",
     "array<", "map<int>", "int<int>", "`a", "array<" * 5000, "uniontype<>", "decimal(\uff11)"],
)  # fmt: skip
def test_bad_types_are_usage_errors(text: str) -> None:
    """What is no type is refused in one sentence that says where."""
    with pytest.raises(UsageError) as caught:
        parse_type(text)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("text", ["", "  \n", "id", "id int,", "id int v string", "id int)", "(id int", "select 1"])
def test_bad_schemas_are_usage_errors(text: str) -> None:
    """What is no column list is refused; an empty text is not an empty schema."""
    with pytest.raises(UsageError):
        parse_schema(text)


def test_three_forms_agree() -> None:
    """A struct, a column list with or without brackets, and DDL give the same columns."""
    expected = StructType((Field("id", Primitive(TypeKind.INT)), Field("v", Primitive(TypeKind.STRING))))
    for text in (
        "struct<id:int,v:string>",
        "id int, v string",
        "(id int, v string)",
        "create table t (id int, v string)",
    ):
        assert parse_schema(text).columns == expected


def test_show_create_table() -> None:
    """Everything that SHOW CREATE TABLE says and acidctl uses is found."""
    schema = parse_schema(SHOW_CREATE)
    assert schema.table == "default.orders"
    assert schema.columns.names == ("id", "v", "when", "s")
    assert str(schema.columns.fields[3].type) == "struct<a:int,`b c`:array<decimal(10,2)>>"
    assert [str(field) for field in schema.partition_columns] == ["ds:date", "hr:int"]
    assert (schema.sort_columns, schema.bucket_count) == (("id",), 2)
    assert schema.table_property("ORC.COMPRESS") == "SNAPPY"
    assert (schema.transactional, schema.insert_only) == (True, True)


def test_show_create_table_as_beeline_prints_it() -> None:
    """The frame that beeline draws is taken off."""
    width = max(map(len, SHOW_CREATE.splitlines())) + 2
    rule = "+" + "-" * width + "+"
    lines = [rule, f"| {'createtab_stmt'.ljust(width - 2)} |", rule]
    lines += [f"| {line.ljust(width - 2)} |" for line in SHOW_CREATE.splitlines()] + [rule]
    assert parse_schema("\n".join(lines)) == parse_schema(SHOW_CREATE)


def test_without_ddl_the_kind_of_table_is_unknown() -> None:
    """A column list does not claim that a table is not transactional."""
    schema = parse_schema("id int")
    assert (schema.transactional, schema.insert_only) == (None, None)


def _columns(text: str) -> StructType:
    return parse_schema(text).columns


def _sources(source: str, target: str, dialect: Dialect) -> list[int | None]:
    children = plan_fit(_columns(source), _columns(target), dialect=dialect).children
    return [None if child is None else child[0] for child in children]


def test_hive_4_goes_by_position_and_hive_3_by_name() -> None:
    """A renamed column keeps its values in Hive 4 and loses them in Hive 3, as the fixtures show."""
    assert _sources("id int, v string", "id int, w string", Dialect.HIVE4) == [0, 1]
    assert _sources("id int, v string", "id int, w string", Dialect.HIVE3) == [0, None]
    assert _sources("id int, a int, b int", "ID int, b int, a int", Dialect.HIVE3) == [0, 2, 1]


def test_names_that_are_none_match_by_position() -> None:
    """`_col0`, `_col1` on either side are no names in any Hive."""
    assert _sources("_col0 int, _col1 string", "id int, v string", Dialect.HIVE3) == [0, 1]
    assert _sources("id int, v string", "_col1 int, _col2 string", Dialect.HIVE3) == [0, 1]


def test_added_and_surplus_columns() -> None:
    """Missing columns become NULL, surplus ones are dropped."""
    assert _sources("id int", "id int, v string", Dialect.HIVE4) == [0, None]
    assert _sources("id int, v string", "id int", Dialect.HIVE4) == [0]


def test_structs_inside_columns_match_by_name() -> None:
    """Below the columns position does not count, in any dialect."""
    fit = plan_fit(_columns("s struct<a:int,b:int>"), _columns("s struct<b:bigint,c:int>"))
    child = fit.children[0]
    assert child is not None
    inner = child[1]
    assert [None if c is None else (c[0], c[1].action) for c in inner.children] == [(1, FitAction.CONVERT), None]


@pytest.mark.parametrize(
    ("source", "target"),
    [("date", "int"), ("int", "date"), ("binary", "int"), ("array<int>", "int"), ("int", "array<int>"),
     ("map<int,int>", "array<int>"), ("uniontype<int,string>", "uniontype<int>"), ("struct<a:int>", "string")],
)  # fmt: skip
def test_conversions_that_hive_refuses(source: str, target: str) -> None:
    """The message names the column and both types."""
    with pytest.raises(DamagedDataError, match="column 'c' is"):
        plan_fit(_columns(f"c {source}"), _columns(f"c {target}"))


def test_equal_types_are_kept() -> None:
    """Nothing is rebuilt where nothing differs, also deep inside."""
    text = "a int, s struct<x:array<map<string,decimal(5,2)>>>, u uniontype<int,string>"
    assert plan_fit(_columns(text), _columns(text)).action is FitAction.KEEP
