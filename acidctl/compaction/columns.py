"""The columns of an output: one schema into which every input file fits without loss."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from acidctl.errors import DamagedDataError
from acidctl.types.hive_types import (
    Dialect,
    Field,
    Fit,
    FitAction,
    HiveType,
    Primitive,
    StructType,
    TypeKind,
    is_nameless,
    plan_fit,
)

_PLACEHOLDER = re.compile(r"_col[0-9]+\Z")
_DIGITS = {TypeKind.TINYINT: 3, TypeKind.SMALLINT: 5, TypeKind.INT: 10, TypeKind.BIGINT: 19}
_INTEGERS = tuple(_DIGITS)
_NUMBERS = (*_INTEGERS, TypeKind.BOOLEAN, TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.DECIMAL)
# Integers that every double, or float, holds exactly.
_EXACT = {
    TypeKind.DOUBLE: (TypeKind.TINYINT, TypeKind.SMALLINT, TypeKind.INT, TypeKind.FLOAT),
    TypeKind.FLOAT: (TypeKind.TINYINT, TypeKind.SMALLINT),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of some input files: the newest write id among them, who wrote the newest, and one path."""

    columns: StructType
    newest: int
    dialect: Dialect
    path: str


class Census:
    """All shapes of columns that the inputs of a run have, each once, and which partition has which."""

    def __init__(self) -> None:
        self._shapes: dict[StructType, Shape] = {}
        self._partitions: dict[str, set[StructType]] = {}
        self._newest: dict[str, tuple[int, Dialect]] = {}

    def add(self, partition: str, shape: Shape) -> None:
        """Take in one file with rows."""
        known = self._shapes.get(shape.columns)
        if known is None or known.newest < shape.newest:
            self._shapes[shape.columns] = shape
        self._partitions.setdefault(partition, set()).add(shape.columns)
        newest = self._newest.get(partition)
        if newest is None or newest[0] < shape.newest:
            self._newest[partition] = (shape.newest, shape.dialect)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Newest first, wider before narrower."""
        found = self._shapes.values()
        return tuple(sorted(found, key=lambda s: (-s.newest, -len(s.columns.fields), str(s.columns))))

    @property
    def dialect(self) -> Dialect:
        """The Hive that wrote the newest file of each partition: HIVE3 only where all agree on it."""
        written = {dialect for _, dialect in self._newest.values()}
        return Dialect.HIVE3 if written == {Dialect.HIVE3} else Dialect.HIVE4

    def of(self, partition: str) -> tuple[Shape, ...]:
        """The shapes that occur in one partition."""
        wanted = self._partitions.get(partition, set())
        return tuple(shape for shape in self.shapes if shape.columns in wanted)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of the outputs, whose rules fit files to them, and whether the user gave them."""

    columns: StructType
    dialect: Dialect
    given: bool


def widest(shapes: Sequence[Shape], dialect: Dialect) -> StructType:
    """The columns of the newest file and those that only older files have; `shapes` are newest first."""
    fields: list[Field] = []
    for shape in shapes:
        named = dialect is Dialect.HIVE3 and fields and not (is_nameless(shape.columns) or _nameless(fields))
        if named:
            known = {field.name.lower() for field in fields}
            fields += [field for field in shape.columns.fields if field.name.lower() not in known]
        else:
            fields += shape.columns.fields[len(fields) :]
    return StructType(tuple(_named(field, i, shapes) for i, field in enumerate(fields)))


def _nameless(fields: Sequence[Field]) -> bool:
    return is_nameless(StructType(tuple(fields)))


def _named(field: Field, place: int, shapes: Sequence[Shape]) -> Field:
    """A column with a placeholder for a name takes that of the newest file that has a name in its place."""
    if not _PLACEHOLDER.match(field.name):
        return field
    for shape in shapes:
        if place < len(shape.columns.fields) and not _PLACEHOLDER.match(shape.columns.fields[place].name):
            return Field(shape.columns.fields[place].name, field.type)
    return Field(f"_col{place}", field.type)


def doubled_name(columns: StructType) -> str | None:
    """A name that two columns share, as Hive compares names."""
    seen: set[str] = set()
    for field in columns.fields:
        if field.name.lower() in seen:
            return field.name
        seen.add(field.name.lower())
    return None


def misfit(shapes: Sequence[Shape], chosen: Columns, census: Dialect) -> tuple[str, str] | None:
    """Code and reason where files of these shapes cannot be written with the chosen columns, None where they can.

    With columns of the user only what no Hive converts is refused. `census` is the dialect that the files speak for.
    """
    if not chosen.given:
        name = doubled_name(chosen.columns)
        if name is not None:
            return "schema_unclear", f"files differ in where column {name} stands; give the columns with --schema"
    for shape in shapes:
        try:
            fit = plan_fit(shape.columns, chosen.columns, dialect=chosen.dialect)
            other = plan_fit(shape.columns, chosen.columns, dialect=census)
        except DamagedDataError as error:
            return "schema_unclear" if not chosen.given else "schema_misfit", f"{shape.path}: {error.message}"
        if chosen.given:
            continue
        if _places(fit) != _places(other):
            return (
                "schema_unclear",
                f"the columns of {shape.path} mean different ones to Hive 3 (by name) and Hive 4 (by place), and it "
                f"looks like a table of {_HIVES[census]}; give the columns with --schema",
            )
        if chosen.dialect is not census and (converted := _loss(fit, _same_in_both)) is not None:
            return (
                "schema_unclear",
                f"{shape.path} has {converted[0]} where the newest file has {converted[1]}, which Hive 3 and Hive 4 "
                f"convert differently, and it looks like a table of {_HIVES[census]}; give the columns with --schema",
            )
        lost = _loss(fit, _is_lossless)
        if lost is not None:
            return (
                "schema_unclear",
                f"{shape.path} has {lost[0]} where the newest file has {lost[1]}, which loses values; give the "
                "columns with --schema",
            )
    return None


_HIVES = {Dialect.HIVE3: "Hive 3", Dialect.HIVE4: "Hive 4"}


@dataclass(frozen=True, slots=True)
class Loss:
    """A column of the files, by its name there, of which the user's columns do not keep every value.

    `converted` is what becomes of it, such as `string as int`; empty where no column takes it up.
    """

    name: str
    converted: str
    path: str

    def __str__(self) -> str:
        return f"{self.name} ({self.converted})" if self.converted else self.name


def losses(shapes: Sequence[Shape], chosen: Columns) -> tuple[Loss, ...]:
    """What the user's columns cost for good once the inputs are cleaned, each column once.

    Hive refuses to drop a column of an ORC table (error 10313), so the usual cause is a DDL of before the column was
    added or widened.
    """
    if not chosen.given:
        return ()
    found: dict[str, Loss] = {}
    for shape in shapes:
        try:
            fit = plan_fit(shape.columns, chosen.columns, dialect=chosen.dialect)
        except DamagedDataError:
            continue
        if fit.action is not FitAction.REBUILD:
            continue
        kept = {child[0]: child[1] for child in fit.children if child is not None}
        for place, field in enumerate(shape.columns.fields):
            lost = _loss(kept[place], _keeps_values) if place in kept else None
            if place not in kept or lost is not None:
                said = "" if lost is None else f"{lost[0]} as {lost[1]}"
                found.setdefault(field.name.lower(), Loss(field.name, said, shape.path))
    return tuple(found.values())


def _places(fit: Fit) -> tuple[int | None, ...]:
    if fit.action is FitAction.KEEP:
        assert isinstance(fit.target, StructType)
        return tuple(range(len(fit.target.fields)))
    return tuple(None if child is None else child[0] for child in fit.children)


def _loss(fit: Fit, keeps: Callable[[HiveType, HiveType], bool]) -> tuple[HiveType, HiveType] | None:
    """The first (source, target) inside a fit that `keeps` denies, or whose fields are dropped."""
    if fit.action is FitAction.KEEP:
        return None
    if fit.action is FitAction.CONVERT:
        return None if keeps(fit.source, fit.target) else (fit.source, fit.target)
    children = [child for child in fit.children if child is not None]
    if isinstance(fit.source, StructType) and {at for at, _ in children} != set(range(len(fit.source.fields))):
        return fit.source, fit.target
    return next((lost for _, child in children if (lost := _loss(child, keeps)) is not None), None)


def _same_in_both(source: HiveType, target: HiveType) -> bool:
    """Whether Hive 3 and Hive 4 convert every value alike: integers into wider ones."""
    return source.kind in _INTEGERS and target.kind in _INTEGERS and _is_lossless(source, target)


def _keeps_values(source: HiveType, target: HiveType) -> bool:
    """Whether Hive's conversion keeps what there was to see, so that a user may ask for it.

    As `_is_lossless`, and what Hive allows anybody who alters a column: text of whatever has one.
    """
    if target.kind is TypeKind.STRING and source.kind in (*_NUMBERS, TypeKind.TIMESTAMP):
        return True
    if source.kind is TypeKind.DATE and target.kind is TypeKind.TIMESTAMP:
        return True
    return _is_lossless(source, target)


def _is_lossless(source: HiveType, target: HiveType) -> bool:
    """Whether every value of one type has its own in the other, as Hive converts it."""
    if not isinstance(source, Primitive) or not isinstance(target, Primitive):
        return False
    have, want = source.kind, target.kind
    if have in _INTEGERS and want in _INTEGERS:
        return _DIGITS[have] <= _DIGITS[want]
    if have in _EXACT.get(want, ()):
        return True
    if want is TypeKind.DECIMAL:
        scale, whole = target.scale or 0, (target.precision or 0) - (target.scale or 0)
        if have is TypeKind.DECIMAL:
            return (source.scale or 0) <= scale and (source.precision or 0) - (source.scale or 0) <= whole
        return have in _INTEGERS and _DIGITS[have] <= whole
    texts = (TypeKind.CHAR, TypeKind.VARCHAR, TypeKind.STRING)
    if want is TypeKind.STRING:
        return have in (*texts, *_INTEGERS, TypeKind.DATE)
    if have in texts and want is TypeKind.VARCHAR:
        return have is not TypeKind.STRING and (source.length or 0) <= (target.length or 0)
    return have is TypeKind.CHAR and want is TypeKind.CHAR and (source.length or 0) <= (target.length or 0)
