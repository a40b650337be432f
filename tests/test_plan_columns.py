"""One schema for all inputs: the newest, widened; refused where that would lose something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acidctl.hivetypes import Dialect, StructType
from acidctl.plan_columns import Census, Columns, Shape, doubled_name, left_out, misfit, narrowed, widest
from acidctl.schema import parse_schema, parse_type

H3, H4 = Dialect.HIVE3, Dialect.HIVE4


def columns(text: str) -> StructType:
    """Columns from their text."""
    return parse_schema(text).columns


def census_of(*texts: str, dialect: Dialect = H4) -> Census:
    """Shapes, the newest first."""
    census = Census()
    for age, text in enumerate(texts):
        census.add("", Shape(columns(text), 100 - age, dialect, f"file{age}"))
    return census


def merged(*texts: str, dialect: Dialect = H4) -> str:
    """The text of the schema made of these, the newest first."""
    return str(widest(census_of(*texts, dialect=dialect).shapes, dialect))


@pytest.mark.parametrize(
    ("dialect", "texts", "expected"),
    [
        (H4, ("id int, v string",), "struct<id:int,v:string>"),
        (H4, ("id bigint", "id int"), "struct<id:bigint>"),
        (H4, ("id int, v string, n int", "id int, v string"), "struct<id:int,v:string,n:int>"),
        # Dropped columns of older files are kept at the end.
        (H4, ("id bigint, v string", "id int, v string, n int"), "struct<id:bigint,v:string,n:int>"),
        (H4, ("id int, w string", "id int, v string"), "struct<id:int,w:string>"),
        # Hive 3 goes by name.
        (H3, ("id int, w string", "id int, v string"), "struct<id:int,w:string,v:string>"),
        (H3, ("v string, ID int", "id int, v string"), "struct<v:string,ID:int>"),
        # Placeholders of Hive 2 have no names; whoever has one lends it.
        (H3, ("_col0 bigint, _col1 string", "id int, v string"), "struct<id:bigint,v:string>"),
        (H3, ("id int", "_col0 int, _col1 string"), "struct<id:int,_col1:string>"),
        (H3, ("_col1 int, _col2 string",), "struct<_col0:int,_col1:string>"),
    ],
)
def test_the_newest_file_decides_and_older_ones_add(dialect: Dialect, texts: tuple[str, ...], expected: str) -> None:
    """By place for Hive 4, by name for Hive 3."""
    assert merged(*texts, dialect=dialect) == expected


def verdict(*texts: str, dialect: Dialect = H4, given: str | None = None, census: Dialect | None = None) -> str | None:
    """The code with which files of these shapes are refused."""
    known = census_of(*texts, dialect=census or dialect)
    chosen = columns(given) if given is not None else widest(known.shapes, dialect)
    problem = misfit(known.of(""), Columns(chosen, dialect, given is not None), known.dialect)
    return problem[0] if problem else None


@pytest.mark.parametrize(
    ("newer", "older", "fits"),
    [
        ("bigint", "int", True),
        ("int", "bigint", False),
        ("double", "int", True),
        ("double", "bigint", False),
        ("double", "float", True),
        ("float", "double", False),
        ("float", "int", False),
        ("float", "smallint", True),
        ("decimal(12,2)", "decimal(10,2)", True),
        ("decimal(10,2)", "decimal(12,2)", False),
        ("decimal(12,4)", "decimal(10,2)", True),
        ("decimal(10,4)", "decimal(10,2)", False),
        ("decimal(19,0)", "bigint", True),
        ("decimal(10,0)", "bigint", False),
        ("string", "int", True),
        ("string", "varchar(5)", True),
        ("string", "date", True),
        ("string", "double", False),
        ("varchar(9)", "varchar(5)", True),
        ("varchar(5)", "varchar(9)", False),
        ("varchar(5)", "string", False),
        ("char(9)", "char(5)", True),
        ("char(5)", "char(9)", False),
        ("int", "string", False),
        ("timestamp", "string", False),
        ("array<bigint>", "array<int>", True),
        ("array<int>", "array<bigint>", False),
        ("struct<a:int,b:int>", "struct<a:int>", True),
        ("struct<a:int>", "struct<a:int,b:int>", False),
        ("map<string,bigint>", "map<string,int>", True),
        ("binary", "int", False),
    ],
)
def test_only_what_keeps_every_value_is_converted_unasked(newer: str, older: str, fits: bool) -> None:
    """Without the table's own columns nobody knows that a narrower type was meant."""
    assert verdict(f"v {newer}", f"v {older}") == (None if fits else "schema_unclear")


def test_the_users_columns_decide() -> None:
    """With them, only what no Hive converts is refused."""
    assert verdict("v bigint", given="v int") is None
    assert verdict("v int, w int", given="v int") is None
    assert verdict("v binary", given="v int") == "schema_misfit"


def test_columns_that_are_not_kept_are_named() -> None:
    """A schema of the user with fewer columns loses the others, and says so."""
    known = census_of("id int, v string, w int")
    assert left_out(known.shapes, Columns(columns("id int, v string"), H4, True)) == ("w",)
    assert left_out(known.shapes, Columns(columns("id int, v string, w int, x int"), H4, True)) == ()
    assert left_out(known.shapes, Columns(columns("id int"), H4, False)) == ()


def test_types_that_lose_values_are_told() -> None:
    """A column typed too narrow in --schema costs values for good, once the inputs are cleaned."""
    known = census_of("id int, v string, n bigint", "id int, v string")
    given = Columns(columns("id bigint, v int, n int"), H4, True)
    assert narrowed(known.shapes, given) == ("v (string as int)", "n (bigint as int)")
    assert narrowed(known.shapes, Columns(columns("id bigint, v string, n bigint, x int"), H4, True)) == ()
    assert narrowed(known.shapes, replace(given, given=False)) == ()


def test_a_renamed_column_for_another_hive_is_unclear() -> None:
    """Hive 3 wrote it and goes by name, Hive 4 would go by place: only the user can tell."""
    texts = ("id int, w string", "id int, v string")
    assert verdict(*texts, dialect=H3) is None
    assert verdict(*texts, dialect=H4) is None
    assert verdict(*texts, dialect=H4, census=H3) == "schema_unclear"
    assert verdict(*texts, dialect=H4, census=H3, given="id int, w string") is None
    assert verdict("id bigint, v string", "id int", dialect=H4, census=H3) is None


@pytest.mark.parametrize(("newer", "same"), [("bigint", True), ("double", False), ("string", False)])
def test_conversions_for_another_hive_are_unclear(newer: str, same: bool) -> None:
    """Both widen integers alike; of the rest only the user can tell whose values are meant."""
    expected = None if same else "schema_unclear"
    for dialect, census in ((H3, H4), (H4, H3)):
        assert verdict(f"v {newer}", "v int", dialect=dialect, census=census) == expected
        assert verdict(f"v {newer}", "v int", dialect=dialect) is None
        assert verdict("v int", dialect=dialect, census=census, given=f"v {newer}") is None


def test_columns_that_moved_are_unclear() -> None:
    """The same name in two places is no schema."""
    assert verdict("a int, c int", "a int, b int, c int") == "schema_unclear"
    assert doubled_name(columns("a int, b int")) is None


def test_the_dialect_of_a_table() -> None:
    """Hive 3 only where the newest files of all partitions say so."""
    census = Census()
    census.add("p=1", Shape(columns("a int"), 5, H3, "x"))
    assert census.dialect is H3
    census.add("p=1", Shape(columns("a int, b int"), 3, H4, "y"))
    assert census.dialect is H3
    census.add("p=2", Shape(columns("a int"), 1, H4, "z"))
    assert census.dialect is H4
    assert [str(shape.columns) for shape in census.of("p=2")] == ["struct<a:int>"]
    assert len(census.of("p=1")) == 2


def test_types_of_a_struct_text_come_back() -> None:
    """The columns travel as text; odd names are quoted."""
    known = merged("`a b` int, c struct<`x y`:array<decimal(5,2)>>")
    assert str(parse_type(known)) == known
