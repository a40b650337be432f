"""Twelve rows of every type that conditions compare, as Arrow arrays and as Hive's INSERT, and random conditions."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from acidctl.orc.schema_evolution import fit_array
from acidctl.types.hive_types import Field, Primitive, TypeKind, plan_fit
from acidctl.types.schema import parse_schema

SCHEMA = (
    "id int, bo boolean, ti tinyint, si smallint, i int, bi bigint, f float, d double, dc decimal(10,2), "
    "dl decimal(38,18), s string, c char(5), v varchar(5), b binary, dt date, ts timestamp"
)
FIELDS: tuple[Field, ...] = parse_schema(SCHEMA).columns.fields
LONG = "12345678901234567890.123456789012345678"
# One column a line, as texts that Hive casts to the column's type.
_COLUMNS: tuple[Sequence[str | None], ...] = (
    tuple(map(str, range(1, 13))),
    ("1", "", None, "1", "", "1", "", "1", "1", "1", "", ""),
    ("1", "0", None, "127", "-128", "10", "2", "3", "3", "5", "6", "7"),
    ("1", "0", None, "32767", "-32768", "10", "2", "3", "3", "5", "6", "7"),
    ("1", "0", None, "2147483647", "-2147483648", "10", "2", "3", "3", "5", "6", "7"),
    (
        *("1", "0", None, "9223372036854775807", "-9223372036854775808", "10", "9007199254740993"),
        *("9007199254740992", "3", "5", "6", "7"),
    ),
    ("1", "-0.0", None, "NaN", "Infinity", "0.1", "16777216", "-Infinity", "3.3333333", "5", "6", "7"),
    ("1", "-0.0", None, "NaN", "Infinity", "0.1", "16777217", "-Infinity", "3.3333333", "5.5", "6", "1e300"),
    ("1", "0", None, "99999999.99", "-99999999.99", "0.10", "1.50", "100", "3.33", "5.55", "6", "7"),
    ("1", "0", None, LONG, f"-{LONG}", "0.1", "1.5", "100", "3.330000000000000001", "5.55", "6", "7"),
    (
        *("1", "abc", None, "abc ", "", "10", "1.0", "2020-01-01", " 1", "2020-01-01 12:00:00", "true"),
        "abcdefghij",
    ),
    ("1", "abc", None, "abc ", "", "10", "1.0", "true", " 1", "TRUE", "é水😀", "abcde"),
    ("1", "abc", None, "abc ", "", "10", "1.0", "true", " 1", "é水😀", "false", "abcde"),
    ("1", "abc", None, "abc ", "", "10", "1.0", "\udcff", "\0", "é", "z", "abcdefg"),
    (
        *("2020-01-01", "1970-01-01", None, "1969-12-31", "2020-01-02", "2020-12-31", "0001-01-01"),
        *("9999-12-31", "2020-06-15", "2020-06-15", "2020-06-15", "2020-06-15"),
    ),
    (
        *("2020-01-01 00:00:00", "1970-01-01 00:00:01", None, "1969-12-31 23:59:58.5", "2020-01-01 12:00:00"),
        *("2020-12-31 23:59:59.999999999", "0001-01-01 00:00:00", "9999-12-31 23:59:59"),
        *("2020-06-15 08:30:00.123", "2020-06-15 00:00:00", "1970-01-01 00:00:00", "1970-01-01 00:00:00.1"),
    ),
)


def arrays() -> tuple[pa.Array, ...]:
    """The columns."""
    return tuple(_array(field.type, texts) for field, texts in zip(FIELDS, _COLUMNS, strict=True))


def _array(kind: Any, texts: Sequence[str | None]) -> pa.Array:
    raw = [None if text is None else text.encode("utf-8", "surrogateescape") for text in texts]
    if kind.kind is TypeKind.BINARY:
        return pa.array(raw, pa.binary())
    if kind.kind is TypeKind.BOOLEAN:
        return pa.array([None if text is None else bool(text) for text in texts])
    if kind.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        values = [None if text is None else float(text) for text in texts]
        return pa.array(values, pa.float32() if kind.kind is TypeKind.FLOAT else pa.float64())
    if kind.kind is TypeKind.DECIMAL:
        return pa.array(
            [None if text is None else Decimal(text) for text in texts], pa.decimal128(kind.precision, kind.scale)
        )
    strings = pa.array(raw, pa.binary()).view(pa.string())
    return fit_array(strings, plan_fit(Primitive(TypeKind.STRING), kind))


def insert(table: str) -> str:
    """Hive's statement that puts them into a table of these columns."""
    rows = []
    for row in zip(*_COLUMNS, strict=True):
        cells = zip(row, FIELDS, strict=True)
        rows.append(", ".join(_cast(text, field.type) for text, field in cells))
    return f"insert into {table} select stack({len(rows)}, {', '.join(rows)})"


def _cast(text: str | None, kind: Any) -> str:
    if text is None:
        return f"cast(null as {kind})"
    if kind.kind in (TypeKind.BINARY, TypeKind.STRING):
        hexed = text.encode("utf-8", "surrogateescape").hex()
        return f"unhex('{hexed}')" if kind.kind is TypeKind.BINARY else f"decode(unhex('{hexed}'), 'UTF-8')"
    return f"cast('{text}' as {kind})"


# --- Random conditions: literals of a column's own type mostly, of another at times, where Hive answers.

_NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "6",
    "7",
    "10",
    "127",
    "-128",
    "200",
    "3.33",
    "5.55",
    "1.5",
    "1.50",
    "100",
    "0.5",
)
_WIDE = ("2147483647", "2147483648", "9007199254740993.0", "1e10", "5.5D", "1e0", "99999999.99", LONG, f"-{LONG}")
_TEXTS = (
    "'1'",
    "'abc'",
    "'abc '",
    "''",
    "'10'",
    "'true'",
    "'é水😀'",
    "'abcdefgh'",
    "'b'",
    "' 1'",
    "'1.0'",
    "'2020-01-01'",
)
_DAYS = ("date '2020-01-01'", "'2020-06-15'", "date '1969-12-31'", "'2020-1-2'", "date '9999-12-31'", "'1970-01-01'")
_MOMENTS = (
    *("timestamp '2020-01-01 12:00:00'", "'2020-06-15 08:30:00.123'", "timestamp '1970-01-01 00:00:00.1'"),
    *(
        "'1969-12-31 23:59:58.5'",
        "date '2020-06-15'",
        "'0001-01-01 00:00:00'",
        "timestamp '2020-12-31 23:59:59.999999999'",
    ),
)
_PATTERNS = ("'abc%'", "'%c'", "'_'", "'%1%'", "'a_c'", "'%'", "'a%e'", "'2020-__-__%'", "'é%'", "''")
_OPS = ("=", "<>", "<", "<=", ">", ">=", "<=>", "==", "!=")


def random_condition(random: Random, depth: int = 3, names: Sequence[str] = ()) -> str:
    """A condition on these columns, or on those of these names.

    Hive answers it, and the answer does not hang on how it plans the query.
    """
    if depth and random.random() < 0.6:
        kind = random.choice(("and", "or", "not"))
        inner = random_condition(random, depth - 1, names)
        if kind == "not":
            return f"not ({inner})"
        return f"({inner}) {kind} ({random_condition(random, depth - 1, names)})"
    known = (*FIELDS, Field("row__id.rowid", Primitive(TypeKind.BIGINT)))
    field = random.choice([one for one in known if not names or one.name in names])
    form = random.random()
    if form < 0.12:
        return f"{field.name} is {random.choice(('', 'not '))}null"
    opposite = random.choice(("", "not "))
    if field.name in ("s", "c", "v") and form < 0.3:
        return f"{field.name} {opposite}like {random.choice(_PATTERNS)}"
    literals = _literals(field)
    # What a set of doubles holds hangs on the sign of zero, and on whether the plan has a set.
    floating = field.name in ("f", "d")
    if form < 0.5 and not floating and field.name != "b":
        some = [random.choice(literals) for _ in range(random.randint(1, 4))]
        return f"{field.name} {opposite}in ({', '.join(some + ['null'] * (random.random() < 0.1))})"
    if form < 0.65 and field.name not in ("b", "bo"):
        return f"{field.name} {opposite}between {random.choice(literals)} and {random.choice(literals)}"
    literal = "null" if random.random() < 0.05 else random.choice(literals)
    if random.random() < 0.1 and literal != "null":
        return f"{literal} {random.choice(_OPS[:6])} {field.name}"
    return f"{field.name} {random.choice(_OPS)} {literal}"


def _literals(field: Field) -> tuple[str, ...]:
    name = field.name
    if name == "bo":
        return ("true", "false")
    if name in ("s", "c", "v"):
        return _TEXTS
    if name == "b":
        return ("'abc'", "'abc '", "''", "'z'", "'b'")
    if name == "dt":
        return _DAYS
    if name == "ts":
        return _MOMENTS
    if name in ("f", "d"):
        # Two equal comparisons joined by OR become a set as well; without zero nothing hangs on it.
        return tuple(number for number in (*_NUMBERS, "3.3333333", "16777217", "'5.5'", "1e30") if number != "0")
    if name == "dc" or name == "dl":
        return (*_NUMBERS, *_WIDE, "'3.33'", "'1.5'")
    return (*_NUMBERS, *_WIDE, "'1'", "'2'")
