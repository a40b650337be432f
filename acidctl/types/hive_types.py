"""Hive types as frozen values, and what a reader may make of one type when a file holds another.

Pure: knows nothing of text parsing, ORC bytes, Arrow or storage. `str()` of a type is Hive's text for it.
`plan_fit` decides how a file's type is read as a table's type, as ORC's SchemaEvolution and Parquet's
converters decide it for Hive; doing it is left to the layer of files.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import ClassVar

from acidctl.errors import DamagedDataError
from acidctl.values import dataclass

_NO_NAME = re.compile(r"_col[0-9]+\Z")
_BARE_NAME = re.compile(r"[A-Za-z0-9_]+\Z")


class TypeKind(Enum):
    """Every kind of Hive column type; the value is Hive's word for it."""

    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INT = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    CHAR = "char"
    VARCHAR = "varchar"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_LOCAL = "timestamp with local time zone"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"
    UNION = "uniontype"

    # That of Enum is a call of Python's, and types are looked up by their kinds.
    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without children; `length` is set for char and varchar, `precision` and `scale` for decimal."""

    kind: TypeKind
    length: int | None = None
    precision: int | None = None
    scale: int | None = None

    def __str__(self) -> str:
        if self.length is not None:
            return f"{self.kind.value}({self.length})"
        if self.precision is not None:
            return f"{self.kind.value}({self.precision},{self.scale})"
        return self.kind.value


@dataclass(frozen=True, slots=True)
class ListType:
    """Hive's array."""

    kind: ClassVar = TypeKind.ARRAY
    element: HiveType

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Hive's map."""

    kind: ClassVar = TypeKind.MAP
    key: HiveType
    value: HiveType

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Field:
    """A named member of a struct, or a column."""

    name: str
    type: HiveType

    def __str__(self) -> str:
        return f"{quote_name(self.name)}:{self.type}"


@dataclass(frozen=True, slots=True)
class StructType:
    """Hive's struct; also the columns of a table."""

    kind: ClassVar = TypeKind.STRUCT
    fields: tuple[Field, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def __str__(self) -> str:
        return f"struct<{','.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class UnionType:
    """Hive's uniontype; the tag of a value is the index of its alternative."""

    kind: ClassVar = TypeKind.UNION
    alternatives: tuple[HiveType, ...]

    def __str__(self) -> str:
        return f"uniontype<{','.join(map(str, self.alternatives))}>"


HiveType = Primitive | ListType | MapType | StructType | UnionType


def children(kind: HiveType) -> tuple[HiveType, ...]:
    """The types of which a type is made, in the order of ORC's columns."""
    if isinstance(kind, ListType):
        return (kind.element,)
    if isinstance(kind, MapType):
        return (kind.key, kind.value)
    if isinstance(kind, StructType):
        return tuple(field.type for field in kind.fields)
    return kind.alternatives if isinstance(kind, UnionType) else ()


@lru_cache(maxsize=1024)
def kinds(kind: HiveType) -> frozenset[TypeKind]:
    """The kinds of a type and of all below it."""
    return frozenset({kind.kind}).union(*map(kinds, children(kind)))


def quote_name(name: str) -> str:
    """The name as written in type text: in backticks unless it is a plain word."""
    if _BARE_NAME.match(name):
        return name
    return "`" + name.replace("`", "``") + "`"


class Dialect(Enum):
    """Which Hive's reading of older files is followed; the fixtures `renamed_column` and `evolved` show them."""

    #: Columns by position, conversions of ORC 1.8.
    HIVE4 = "hive4"
    #: Columns by name, conversions of ORC 1.5; by position where either side has only names like `_col0`.
    HIVE3 = "hive3"
    #: Parquet in any Hive: columns by name, conversions of `ETypeConverter` of Hive 4 (row by row, not vectorized).
    PARQUET = "parquet"


class FitAction(Enum):
    """How the values of a file's type become values of the table's type."""

    KEEP = "keep"
    CONVERT = "convert"
    REBUILD = "rebuild"


@dataclass(frozen=True, slots=True)
class Fit:
    """One step of reading `source` as `target`.

    REBUILD carries one child per child of `target`: a (source child index, Fit) pair, or None where the file
    has no such field and the answer is NULL. KEEP means that the values are equal as they stand.
    """

    action: FitAction
    source: HiveType
    target: HiveType
    children: tuple[tuple[int, Fit] | None, ...] = ()
    dialect: Dialect = Dialect.HIVE4


_NUMBERS = frozenset(
    TypeKind(word) for word in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
)
_TEXTS = frozenset({TypeKind.STRING, TypeKind.CHAR, TypeKind.VARCHAR})
_TIMESTAMPS = frozenset({TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_LOCAL})
_DATE = frozenset({TypeKind.DATE})
_BINARY = frozenset({TypeKind.BINARY})

# ConvertTreeReaderFactory.canConvert of ORC 1.8: which kinds each kind can be read as.
_CONVERTIBLE: dict[TypeKind, frozenset[TypeKind]] = {
    **dict.fromkeys(_NUMBERS, _NUMBERS | _TEXTS | _TIMESTAMPS),
    **dict.fromkeys(_TEXTS, _NUMBERS | _TEXTS | _TIMESTAMPS | _DATE | _BINARY),
    **dict.fromkeys(_TIMESTAMPS, _NUMBERS | _TEXTS | _TIMESTAMPS | _DATE),
    TypeKind.DATE: _TEXTS | _TIMESTAMPS | _DATE,
    TypeKind.BINARY: _TEXTS | _BINARY,
}
_NUMERIC = _NUMBERS - {TypeKind.BOOLEAN}
# The same of Parquet, where inspectors of texts take most values and everything else needs a converter.
_CONVERTIBLE_PARQUET: dict[TypeKind, frozenset[TypeKind]] = {
    **dict.fromkeys(_NUMERIC, _NUMERIC | _TEXTS),
    TypeKind.BOOLEAN: _TEXTS,
    TypeKind.TIMESTAMP: _TEXTS,
    TypeKind.STRING: _TEXTS,
    TypeKind.BINARY: _BINARY | {TypeKind.STRING},
}


def plan_fit(source: HiveType, target: HiveType, *, dialect: Dialect = Dialect.HIVE4, where: str = "") -> Fit:
    """Decide how values of `source`, a file's type, are read as `target`, the table's type.

    Two structs are all the columns of a file and of its table, so that the dialect says how they
    match; structs inside a column always match by name. Missing fields become NULL, surplus ones are dropped.
    Raises DamagedDataError where Hive refuses too; `where` names the column in its message.
    """
    if isinstance(source, StructType) and isinstance(target, StructType):
        nameless = is_nameless(source) or is_nameless(target)
        by_name = dialect is Dialect.PARQUET or (dialect is Dialect.HIVE3 and not nameless)
        return _fit_children(source, target, dialect, where, by_name=by_name)
    return _fit(source, target, dialect, where)


def is_nameless(columns: StructType) -> bool:
    """Whether all columns are called `_col0`, `_col1`..., as ACID files before Hive 3.1 call them."""
    return all(_NO_NAME.match(name) for name in columns.names)


def _fit(source: HiveType, target: HiveType, dialect: Dialect, where: str) -> Fit:
    if source == target:
        return Fit(FitAction.KEEP, source, target, dialect=dialect)
    if isinstance(source, Primitive) and isinstance(target, Primitive):
        convertible = _CONVERTIBLE_PARQUET if dialect is Dialect.PARQUET else _CONVERTIBLE
        if target.kind in convertible.get(source.kind, ()):
            return Fit(FitAction.CONVERT, source, target, dialect=dialect)
        raise _refused(source, target, where)
    if isinstance(source, StructType) and isinstance(target, StructType):
        return _fit_children(source, target, dialect, where, by_name=True)
    if source.kind is not target.kind or len(children(source)) != len(children(target)):
        raise _refused(source, target, where)
    return _fit_children(source, target, dialect, where, by_name=False)


def _fit_children(source: HiveType, target: HiveType, dialect: Dialect, where: str, *, by_name: bool) -> Fit:
    have, want = children(source), children(target)
    old, new = (kind.names if isinstance(kind, StructType) else () for kind in (source, target))
    # The last of equal names wins, as in the map that ORC builds.
    places = {name.lower(): i for i, name in enumerate(old)}
    fits: list[tuple[int, Fit] | None] = []
    for i, kind in enumerate(want):
        at = places.get(new[i].lower()) if by_name else (i if i < len(have) else None)
        inner = ".".join(part for part in (where, new[i] if new else "") if part)
        fits.append(None if at is None else (at, _fit(have[at], kind, dialect, inner)))
    same = old == new and all(fit and fit[0] == i and fit[1].action is FitAction.KEEP for i, fit in enumerate(fits))
    return Fit(FitAction.KEEP if same else FitAction.REBUILD, source, target, tuple(fits), dialect)


def _refused(source: HiveType, target: HiveType, where: str) -> DamagedDataError:
    column = f"column '{where}'" if where else "a column"
    return DamagedDataError(
        f"{column} is {source} in the file and {target} in the table, a conversion that Hive refuses too",
        hint="Give the table's own columns with --schema.",
    )
