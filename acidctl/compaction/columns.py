"""What outputs look like: the columns into which every input file fits without loss, and the form of the files."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from acidctl.compaction.footers import NO_COLUMNS, InputFile
from acidctl.compaction.plan import NotPlannedError, Target, WriterSettings
from acidctl.errors import DamagedDataError, UsageError
from acidctl.orc.stitch import form_of
from acidctl.orc.tail import Tail
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
from acidctl.types.schema import TableSchema
from acidctl.values import dataclass

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
class FileSchema:
    """The columns of some input files: the newest write id among them, who wrote the newest, and one path."""

    columns: StructType
    newest: int
    dialect: Dialect
    path: str


@dataclass(slots=True)
class SchemaSurvey:
    """What is kept of the input files of a run, partition by partition: schemas, codec and format, not the files."""

    file_format: str | None = None
    _schemas: dict[StructType, FileSchema] = field(default_factory=dict)
    _partitions: dict[str, set[StructType]] = field(default_factory=dict)
    _newest: dict[str, tuple[int, Dialect]] = field(default_factory=dict)
    _codec: tuple[bool, int, str] = (False, 0, "zlib")
    #: Tails of files whose stripes may be copied, by partition and path; those of one form are one.
    _forms: dict[Any, Tail] = field(default_factory=dict)
    _tails: dict[str, dict[str, Tail]] = field(default_factory=dict)
    #: The columns of a file without rows, or of deletes, and how good they are.
    _without_rows: tuple[tuple[int, bool, int], StructType] = ((0, False, 0), NO_COLUMNS)

    def add(self, partition: str, files: Sequence[InputFile]) -> None:
        """Add the files of one partition that is compacted; NotPlannedError where they do not fit the others."""
        for file in files:
            self.file_format = self.file_format or file.table_format
            if file.table_format != self.file_format:
                raise NotPlannedError(
                    "mixed_formats",
                    f"{file.path} is not in the format of other partitions ({self.file_format}); compact this "
                    "partition on its own",
                )
            if file.tail is not None:
                like = self._forms.setdefault(form_of(file.tail), file.tail)
                self._tails.setdefault(partition, {})[file.path] = like
            if not file.columns.fields:
                continue
            if file.deletes or not file.rows:
                named = not file.deletes and not is_nameless(file.columns)
                rank = len(file.columns.fields), named, file.newest
                if rank > self._without_rows[0]:
                    self._without_rows = rank, file.columns
                continue
            self.add_schema(partition, FileSchema(file.columns, file.newest, file.dialect, file.path))
            # Minor compactions of Hive 3 compress nothing, whatever the table says.
            self._codec = max(self._codec, (file.codec != "none", file.newest, file.codec))

    def tails_of(self, partition: str) -> dict[str, Tail]:
        """A tail of the form of each large file of one partition, by path."""
        return self._tails.get(partition, {})

    def add_schema(self, partition: str, schema: FileSchema) -> None:
        """Add one file with rows."""
        if self._schemas.setdefault(schema.columns, schema).newest < schema.newest:
            self._schemas[schema.columns] = schema
        self._partitions.setdefault(partition, set()).add(schema.columns)
        newest = schema.newest, schema.dialect
        if self._newest.setdefault(partition, newest)[0] < schema.newest:
            self._newest[partition] = newest

    @property
    def schemas(self) -> tuple[FileSchema, ...]:
        """Each once; newest first, wider before narrower."""
        return tuple(sorted(self._schemas.values(), key=lambda s: (-s.newest, -len(s.columns.fields), str(s.columns))))

    def schemas_of(self, partition: str) -> tuple[FileSchema, ...]:
        """Those that occur in one partition."""
        present = self._partitions.get(partition, set())
        return tuple(schema for schema in self.schemas if schema.columns in present)

    @property
    def dialect(self) -> Dialect:
        """The Hive that wrote the newest file of each partition: HIVE3 only where all agree on it."""
        written = {dialect for _, dialect in self._newest.values()}
        return Dialect.HIVE3 if written == {Dialect.HIVE3} else Dialect.HIVE4

    @property
    def codec(self) -> str:
        """The codec of the newest compressed input, else none; zlib where there is no file with rows."""
        compressed, newest, codec = self._codec
        return codec if compressed or not newest else "none"

    def columns(self, dialect: Dialect) -> StructType:
        """All columns of the inputs; of empty files and deletes only where there is nothing else.

        An empty file still lends its names where no other has any, as `snapshot` lets it.
        """
        columns = widest_columns(self.schemas, dialect)
        (count, named, _), without_rows = self._without_rows
        if not columns.fields:
            return without_rows
        if not (named and count == len(columns.fields) and is_nameless(columns)):
            return columns
        pairs = zip(without_rows.names, columns.fields, strict=True)
        return _struct([Field(name, field.type) for name, field in pairs])


@dataclass(frozen=True, slots=True)
class ChosenColumns:
    """The columns of the outputs, whose rules fit files to them, and whether the user gave them."""

    columns: StructType
    dialect: Dialect
    given: bool


def widest_columns(schemas: Sequence[FileSchema], dialect: Dialect) -> StructType:
    """The columns of the newest file and those that only older files have; `schemas` are newest first."""
    fields: list[Field] = []
    for schema in schemas:
        theirs = schema.columns.fields
        if dialect is Dialect.HIVE3 and fields and not (is_nameless(schema.columns) or is_nameless(_struct(fields))):
            names = {field.name.lower() for field in fields}
            fields += [field for field in theirs if field.name.lower() not in names]
        else:
            fields += theirs[len(fields) :]
    for place, known in enumerate(fields):
        if _PLACEHOLDER.match(known.name):
            # It takes the name of the newest file that has a name in its place.
            there = (s.columns.fields[place].name for s in schemas if place < len(s.columns.fields))
            name = next((name for name in there if not _PLACEHOLDER.match(name)), f"_col{place}")
            fields[place] = Field(name, known.type)
    return _struct(fields)


def _struct(fields: Sequence[Field]) -> StructType:
    return StructType(tuple(fields))


def require_fitting(schemas: Sequence[FileSchema], chosen: ChosenColumns, written_by: Dialect) -> None:
    """NotPlannedError where files of these schemas cannot be written with the chosen columns.

    With columns of the user only what no Hive converts is refused. `written_by` is the dialect that the files show.
    """
    names = [column.name.lower() for column in chosen.columns.fields]
    twice = next(
        (column.name for place, column in enumerate(chosen.columns.fields) if names[place] in names[:place]), None
    )
    if twice is not None and not chosen.given:
        why = f"files differ in the position of column {twice}; give the columns with --schema"
        raise NotPlannedError("schema_unclear", why)
    for schema in schemas:
        try:
            fit = plan_fit(schema.columns, chosen.columns, dialect=chosen.dialect)
            other = plan_fit(schema.columns, chosen.columns, dialect=written_by)
        except DamagedDataError as error:
            code = "schema_misfit" if chosen.given else "schema_unclear"
            raise NotPlannedError(code, f"{schema.path}: {error.message}") from error
        problem = None if chosen.given else _ambiguity(schema, fit, other, chosen, written_by)
        if problem is not None:
            raise NotPlannedError("schema_unclear", f"{problem}; give the columns with --schema")


def _ambiguity(schema: FileSchema, fit: Fit, other: Fit, chosen: ChosenColumns, written_by: Dialect) -> str | None:
    """Why the columns of a file cannot be fitted to those that were not given by the user."""
    looks_like = f"and it looks like a table of {HIVE_NAMES[written_by]}"
    if _places(fit) != _places(other):
        return f"Hive 3 finds the columns of {schema.path} by name and Hive 4 by position, {looks_like}"
    if chosen.dialect is not written_by and (converted := _loss(fit, _same_in_both)) is not None:
        return (
            f"{schema.path} has {converted[0]} where the newest file has {converted[1]}, which Hive 3 and Hive 4 "
            f"convert differently, {looks_like}"
        )
    if (lost := _loss(fit, _is_lossless)) is not None:
        return f"{schema.path} has {lost[0]} where the newest file has {lost[1]}, which loses values"
    return None


HIVE_NAMES = {Dialect.HIVE3: "Hive 3", Dialect.HIVE4: "Hive 4"}


@dataclass(frozen=True, slots=True)
class ColumnLoss:
    """A column of the files, by its name there, of which the user's columns do not keep every value.

    `converted` is what becomes of it, such as `string as int`; empty where no column takes it up.
    """

    name: str
    converted: str
    path: str

    def __str__(self) -> str:
        return f"{self.name} ({self.converted})" if self.converted else self.name


def column_losses(schemas: Sequence[FileSchema], chosen: ChosenColumns) -> tuple[ColumnLoss, ...]:
    """What the user's columns cost for good once the inputs are cleaned, each column once.

    Hive refuses to drop a column of an ORC table (error 10313), so the usual cause is a DDL of before the column was
    added or widened.
    """
    if not chosen.given:
        return ()
    losses: dict[str, ColumnLoss] = {}
    for schema in schemas:
        try:
            fit = plan_fit(schema.columns, chosen.columns, dialect=chosen.dialect)
        except DamagedDataError:
            continue
        if fit.action is not FitAction.REBUILD:
            continue
        kept = {child[0]: child[1] for child in fit.children if child is not None}
        for place, column in enumerate(schema.columns.fields):
            lost = _loss(kept[place], _keeps_values) if place in kept else None
            if place not in kept or lost is not None:
                converted = "" if lost is None else f"{lost[0]} as {lost[1]}"
                losses.setdefault(column.name.lower(), ColumnLoss(column.name, converted, schema.path))
    return tuple(losses.values())


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


# --- The physical form of outputs: what the options say, else the table's properties, else the files that are there.


CODECS = ("none", "zlib", "snappy", "lz4", "zstd")
# ORC 1.5, which Hive 3 carries, was there before zstd.
_HIVE3_CODECS = ("none", "zlib", "snappy", "lz4")
# A chunk's header has 23 bits for its length; a row group of less than 1000 rows is refused by ORC itself.
_MAX_BLOCK = (1 << 23) - 1
_MAX_STRIPE = 1 << 40
_MIN_STRIDE, _MAX_STRIDE = 1000, 1 << 30
# Writers hold a filter for a whole row group of each column, however few rows there are.
_MAX_BLOOM_BYTES = 64 << 20


# Numbers that properties of a table state: the least and the greatest.
_STATED = {
    "stripe_size": ("orc.stripe.size", 1, _MAX_STRIPE),
    "block_size": ("orc.compress.size", 1, _MAX_BLOCK),
    "row_index_stride": ("orc.row.index.stride", 0, _MAX_STRIDE),
}


def writer_settings(
    asked: str | None, schema: TableSchema | None, of_inputs: str, columns: StructType, target: Target
) -> tuple[WriterSettings, tuple[str, ...]]:
    """Settings and notes; `asked` is the option, `of_inputs` the codec of the newest input.

    Raises UsageError for a codec that is unknown, or that the target cannot read, and for properties with which Hive
    could not write either; NotPlannedError where the target cannot read the codec that the table states.
    """
    stated = None if schema is None else schema.table_property("orc.compress")
    if asked is not None or stated is not None:
        codec = _codec(asked, "--compression") if asked is not None else _codec(stated or "", "orc.compress")
        if target is Target.HIVE3 and codec not in _HIVE3_CODECS:
            why = f"Hive 3 cannot read ORC files compressed with {codec}"
            if asked is not None:
                raise UsageError(f"--compression {asked}: {why}", hint=f"Choose one of {', '.join(_HIVE3_CODECS)}.")
            raise NotPlannedError("unreadable_codec", f"{why}; choose another with --compression, zlib for one")
    else:
        # What a file of another table once brought along does not bind this one.
        codec = of_inputs if of_inputs in (_HIVE3_CODECS if target is Target.HIVE3 else CODECS) else "zlib"
    settings = WriterSettings(compression=codec)
    if schema is None:
        return settings, ()
    numbers: dict[str, Any] = {
        name: _number(schema, key, getattr(settings, name), *ends) for name, (key, *ends) in _STATED.items()
    }
    stride = numbers["row_index_stride"]
    if (schema.table_property("orc.create.index") or "").strip().lower() == "false":
        numbers["row_index_stride"] = 0
    elif 0 < stride < _MIN_STRIDE:
        raise UsageError(f"the table property orc.row.index.stride is {stride}, ORC allows {_MIN_STRIDE} or more")
    blooms = [name.strip() for name in (schema.table_property("orc.bloom.filter.columns") or "").split(",")]
    names = {column.name.lower(): column.name for column in columns.fields}
    settings = replace(
        settings,
        **numbers,
        bloom_columns=tuple(names[name.lower()] for name in blooms if name.lower() in names),
        bloom_fpp=_fraction(schema, "orc.bloom.filter.fpp", settings.bloom_fpp),
    )
    if _bloom_bytes(settings) > _MAX_BLOOM_BYTES:
        raise UsageError(
            f"the Bloom filters of one row group would take {_bloom_bytes(settings)} bytes",
            hint="Lower orc.row.index.stride, or raise orc.bloom.filter.fpp, in the text of --schema.",
        )
    missing = [name for name in blooms if name and name.lower() not in names]
    return settings, tuple(f"orc.bloom.filter.columns names {name}, which is not a column." for name in missing)


def stripe_size_of(schema: TableSchema | None) -> int:
    """The size of a stripe in bytes, as `writer_settings` gives it; where the table states no such, that is refused
    there.
    """
    usual = WriterSettings().stripe_size
    name, *ends = _STATED["stripe_size"]
    try:
        return usual if schema is None else _number(schema, name, usual, *ends)
    except UsageError:
        return usual


def _bloom_bytes(settings: WriterSettings) -> int:
    """What the filters of a row group take: n * -ln(p) / ln(2)^2 bits a column."""
    bits = settings.row_index_stride * -math.log(settings.bloom_fpp) / math.log(2) ** 2
    return round(bits / 8) * len(settings.bloom_columns)


def problem_of_settings(settings: WriterSettings, columns: StructType, target: Target) -> str | None:
    """Which of the settings cannot be, as the beginning of a sentence; None where all can."""
    stride, fpp = settings.row_index_stride, settings.bloom_fpp
    known = {column.name for column in columns.fields}
    codecs = _HIVE3_CODECS if target is Target.HIVE3 else CODECS
    if settings.compression not in codecs:
        return f"compression must be one of {', '.join(codecs)}"
    for name in ("stripe_size", "block_size"):
        _, low, high = _STATED[name]
        if not low <= getattr(settings, name) <= high:
            return f"{name} must be a number from {low} to {high}"
    if stride and not _MIN_STRIDE <= stride <= _MAX_STRIDE:
        return f"row_index_stride must be 0 or at least {_MIN_STRIDE}"
    if not known.issuperset(settings.bloom_columns):
        return "bloom_columns must be names of columns"
    if not 0.0 < fpp < 1.0:
        return "bloom_fpp must be a number between 0 and 1"
    return "bloom_columns must be fewer, for so large row groups" if _bloom_bytes(settings) > _MAX_BLOOM_BYTES else None


def _codec(text: str, where: str) -> str:
    name = text.strip().lower()
    if name not in CODECS:
        raise UsageError(
            f"{where} is {text!r}, which acidctl does not write", hint=f"Choose one of {', '.join(CODECS)}."
        )
    return name


def _number(schema: TableSchema, key: str, default: int, low: int, high: int) -> int:
    text = schema.table_property(key)
    if text is None:
        return default
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 15 or not low <= int(digits) <= high:
        raise UsageError(f"the table property {key} is {text!r}, it must be a number from {low} to {high}")
    return int(digits)


def _fraction(schema: TableSchema, key: str, default: float) -> float:
    text = schema.table_property(key)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < 1.0:
        raise UsageError(f"the table property {key} is {text!r}, it must be a number between 0 and 1")
    return value
