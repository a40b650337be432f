"""One schema for all inputs: the newest, widened; refused where that would lose something."""

from __future__ import annotations

import pytest

from acidctl.compaction.columns import (
    ChosenColumns,
    FileSchema,
    SchemaSurvey,
    column_losses,
    require_fitting,
    widest_columns,
)
from acidctl.compaction.plan import NotPlannedError
from acidctl.types.hive_types import Dialect, StructType
from acidctl.types.schema import parse_schema, parse_type

H3, H4 = Dialect.HIVE3, Dialect.HIVE4


def columns(text: str) -> StructType:
    """ChosenColumns from their text."""
    return parse_schema(text).columns


def census_of(*texts: str, dialect: Dialect = H4) -> SchemaSurvey:
    """Shapes, the newest first."""
    survey = SchemaSurvey()
    for age, text in enumerate(texts):
        survey.add_schema("", FileSchema(columns(text), 100 - age, dialect, f"file{age}"))
    return survey


def merged(*texts: str, dialect: Dialect = H4) -> str:
    """The text of the schema made of these, the newest first."""
    return str(widest_columns(census_of(*texts, dialect=dialect).schemas, dialect))


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


def verdict(*texts: str, dialect: Dialect = H4, given: str | None = None, survey: Dialect | None = None) -> str | None:
    """The code with which files of these schemas are refused."""
    known = census_of(*texts, dialect=survey or dialect)
    chosen = columns(given) if given is not None else widest_columns(known.schemas, dialect)
    try:
        require_fitting(known.schemas_of(""), ChosenColumns(chosen, dialect, given is not None), known.dialect)
    except NotPlannedError as why:
        return why.code
    return None


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


def lost(given: str, *texts: str, dialect: Dialect = H4) -> list[str]:
    """What the user's columns cost of files of these schemas."""
    chosen = ChosenColumns(columns(given), dialect, True)
    return [str(loss) for loss in column_losses(census_of(*texts, dialect=dialect).schemas, chosen)]


@pytest.mark.parametrize(
    ("given", "texts", "expected"),
    [
        ("id int, v string", ("id int, v string, w int",), ["w"]),
        ("id int, v string, w int, x int", ("id int, v string, w int",), []),
        # By position for Hive 4: a column left out in the middle moves the others.
        ("id int, w int", ("id int, v string, w int",), ["v (string as int)", "w"]),
        ("v int, n int", ("v string, n bigint", "v string"), ["v (string as int)", "n (bigint as int)"]),
        # Renamed and widened as Hive does it.
        ("id bigint, w string, n double", ("id int, v varchar(5), n int",), []),
        ("a string, b string, c string", ("a int, b double, c decimal(9,2)",), []),
        ("a string, b string", ("a timestamp, b date",), []),
        ("t timestamp", ("t date",), []),
        # Narrowed.
        ("v varchar(5)", ("v string",), ["v (string as varchar(5))"]),
        ("v varchar(5)", ("v varchar(6)",), ["v (varchar(6) as varchar(5))"]),
        ("v char(5)", ("v char(6)",), ["v (char(6) as char(5))"]),
        ("v decimal(10,2)", ("v decimal(10,3)",), ["v (decimal(10,3) as decimal(10,2))"]),
        ("v decimal(10,3)", ("v decimal(10,2)",), ["v (decimal(10,2) as decimal(10,3))"]),
        ("v date", ("v timestamp",), ["v (timestamp as date)"]),
        ("v float", ("v double",), ["v (double as float)"]),
        ("v double", ("v bigint",), ["v (bigint as double)"]),
        ("v string", ("v binary",), ["v (binary as string)"]),
        ("v boolean", ("v int",), ["v (int as boolean)"]),
        # Inside of nested columns; the whole column is named.
        ("s struct<a:int>", ("s struct<a:int,b:int>",), ["s (struct<a:int,b:int> as struct<a:int>)"]),
        ("l array<int>", ("l array<bigint>",), ["l (bigint as int)"]),
        ("m map<string,struct<x:varchar(3)>>", ("m map<string,struct<x:string>>",), ["m (string as varchar(3))"]),
        ("u uniontype<int,string>", ("u uniontype<bigint,string>",), ["u (bigint as int)"]),
    ],
)  # fmt: skip
def test_what_the_users_columns_cost(given: str, texts: tuple[str, ...], expected: list[str]) -> None:
    """ChosenColumns that no column takes up and values that a type does not hold, by their names in the files."""
    assert lost(given, *texts) == expected


def test_hive_3_loses_a_renamed_column() -> None:
    """It goes by name; by position where files have no names."""
    assert lost("id int, w string", "id int, v string", dialect=H3) == ["v"]
    assert lost("id int, w string", "id int, v string", dialect=H4) == []
    assert lost("id int, w string", "_col0 int, _col1 string", dialect=H3) == []


def test_without_the_users_columns_nothing_is_lost() -> None:
    """Then the files' own are widened until all fit."""
    known = census_of("id int, v string, n bigint", "id int, v string")
    assert column_losses(known.schemas, ChosenColumns(columns("id int"), H4, False)) == ()


def test_a_renamed_column_for_another_hive_is_unclear() -> None:
    """Hive 3 wrote it and goes by name, Hive 4 would go by place: only the user can tell."""
    texts = ("id int, w string", "id int, v string")
    assert verdict(*texts, dialect=H3) is None
    assert verdict(*texts, dialect=H4) is None
    assert verdict(*texts, dialect=H4, survey=H3) == "schema_unclear"
    assert verdict(*texts, dialect=H4, survey=H3, given="id int, w string") is None
    assert verdict("id bigint, v string", "id int", dialect=H4, survey=H3) is None


@pytest.mark.parametrize(("newer", "same"), [("bigint", True), ("double", False), ("string", False)])
def test_conversions_for_another_hive_are_unclear(newer: str, same: bool) -> None:
    """Both widen integers alike; of the rest only the user can tell whose values are meant."""
    expected = None if same else "schema_unclear"
    for dialect, survey in ((H3, H4), (H4, H3)):
        assert verdict(f"v {newer}", "v int", dialect=dialect, survey=survey) == expected
        assert verdict(f"v {newer}", "v int", dialect=dialect) is None
        assert verdict("v int", dialect=dialect, survey=survey, given=f"v {newer}") is None


def test_columns_that_moved_are_unclear() -> None:
    """The same name in two places is no schema."""
    assert verdict("a int, c int", "a int, b int, c int") == "schema_unclear"
    assert verdict("a int, b int") is None


def test_the_dialect_of_a_table() -> None:
    """Hive 3 only where the newest files of all partitions say so."""
    survey = SchemaSurvey()
    survey.add_schema("p=1", FileSchema(columns("a int"), 5, H3, "x"))
    assert survey.dialect is H3
    survey.add_schema("p=1", FileSchema(columns("a int, b int"), 3, H4, "y"))
    assert survey.dialect is H3
    survey.add_schema("p=2", FileSchema(columns("a int"), 1, H4, "z"))
    assert survey.dialect is H4
    assert [str(shape.columns) for shape in survey.schemas_of("p=2")] == ["struct<a:int>"]
    assert len(survey.schemas_of("p=1")) == 2


def test_types_of_a_struct_text_come_back() -> None:
    """The columns travel as text; odd names are quoted."""
    known = merged("`a b` int, c struct<`x y`:array<decimal(5,2)>>")
    assert str(parse_type(known)) == known
