"""What outputs look like: the columns into which every input file fits without loss, and the form of the files."""

from __future__ import annotations

# --- The columns of an output: one schema into which every input file fits without loss.
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from acidctl.compaction.plan import (
    Target,
    WriterSettings,
)
from acidctl.compaction.tasks import (
    NO_COLUMNS,
    InputFile,
    plain_format,
)
from acidctl.errors import DamagedDataError, UsageError
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


class SchemaSurvey:
    """What is kept of the input files of a run, partition by partition: schemas, codec and format, not the files."""

    def __init__(self) -> None:
        self.file_format: str | None = None
        self._schemas: dict[StructType, FileSchema] = {}
        self._partitions: dict[str, set[StructType]] = {}
        self._newest: dict[str, tuple[int, Dialect]] = {}
        self._codec: tuple[bool, int, str] = (False, 0, "zlib")
        #: The columns of a file without rows, or of deletes, and how good they are.
        self._without_rows: tuple[tuple[int, bool, int], StructType] = (0, False, 0), NO_COLUMNS

    def add(self, partition: str, files: Sequence[InputFile]) -> tuple[str, str] | None:
        """Add the files of one partition that is compacted; code and reason where they do not fit the others."""
        for file in files:
            self.file_format = self.file_format or plain_format(file.file_format)
            if plain_format(file.file_format) != self.file_format:
                return (
                    "mixed_formats",
                    f"{file.path} is not in the format of other partitions ({self.file_format}); compact this "
                    "partition on its own",
                )
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
        return None

    def add_schema(self, partition: str, schema: FileSchema) -> None:
        """Add one file with rows."""
        same = self._schemas.get(schema.columns)
        if same is None or same.newest < schema.newest:
            self._schemas[schema.columns] = schema
        self._partitions.setdefault(partition, set()).add(schema.columns)
        newest = self._newest.get(partition)
        if newest is None or newest[0] < schema.newest:
            self._newest[partition] = (schema.newest, schema.dialect)

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
        return StructType(tuple(Field(name, field.type) for name, field in pairs))


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
        named = dialect is Dialect.HIVE3 and fields and not (is_nameless(schema.columns) or _nameless(fields))
        if named:
            names = {field.name.lower() for field in fields}
            fields += [field for field in schema.columns.fields if field.name.lower() not in names]
        else:
            fields += schema.columns.fields[len(fields) :]
    return StructType(tuple(_named(field, i, schemas) for i, field in enumerate(fields)))


def _nameless(fields: Sequence[Field]) -> bool:
    return is_nameless(StructType(tuple(fields)))


def _named(field: Field, place: int, schemas: Sequence[FileSchema]) -> Field:
    """A column with a placeholder for a name takes that of the newest file that has a name in its place."""
    if not _PLACEHOLDER.match(field.name):
        return field
    for schema in schemas:
        if place < len(schema.columns.fields) and not _PLACEHOLDER.match(schema.columns.fields[place].name):
            return Field(schema.columns.fields[place].name, field.type)
    return Field(f"_col{place}", field.type)


def duplicate_name(columns: StructType) -> str | None:
    """A name that two columns share, as Hive compares names."""
    seen: set[str] = set()
    for column in columns.fields:
        if column.name.lower() in seen:
            return column.name
        seen.add(column.name.lower())
    return None


def schema_problem(schemas: Sequence[FileSchema], chosen: ChosenColumns, written_by: Dialect) -> tuple[str, str] | None:
    """Code and reason where files of these schemas cannot be written with the chosen columns, None where they can.

    With columns of the user only what no Hive converts is refused. `written_by` is the dialect that the files show.
    """
    if not chosen.given:
        name = duplicate_name(chosen.columns)
        if name is not None:
            return "schema_unclear", f"files differ in the position of column {name}; give the columns with --schema"
    for schema in schemas:
        try:
            fit = plan_fit(schema.columns, chosen.columns, dialect=chosen.dialect)
            other = plan_fit(schema.columns, chosen.columns, dialect=written_by)
        except DamagedDataError as error:
            return "schema_unclear" if not chosen.given else "schema_misfit", f"{schema.path}: {error.message}"
        problem = None if chosen.given else _ambiguity(schema, fit, other, chosen, written_by)
        if problem is not None:
            return "schema_unclear", f"{problem}; give the columns with --schema"
    return None


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


def writer_settings(
    asked: str | None, schema: TableSchema | None, of_inputs: str, columns: StructType
) -> tuple[WriterSettings, tuple[str, ...]]:
    """Settings and notes; `asked` is the option, `of_inputs` the codec of the newest input.

    Raises UsageError for an unknown codec and for properties with which Hive could not write either.
    """
    default = WriterSettings()
    stated = None if schema is None else schema.table_property("orc.compress")
    if asked is not None:
        codec = _codec(asked, "--compression")
    elif stated is not None:
        codec = _codec(stated, "orc.compress")
    else:
        codec = of_inputs if of_inputs in CODECS else default.compression
    if schema is None:
        return WriterSettings(compression=codec), ()
    blooms = [name.strip() for name in (schema.table_property("orc.bloom.filter.columns") or "").split(",")]
    names = {field.name.lower(): field.name for field in columns.fields}
    settings = WriterSettings(
        compression=codec,
        stripe_size=_number(schema, "orc.stripe.size", default.stripe_size, 1, _MAX_STRIPE),
        block_size=_number(schema, "orc.compress.size", default.block_size, 1, _MAX_BLOCK),
        row_index_stride=_stride(schema, default.row_index_stride),
        bloom_columns=tuple(names[name.lower()] for name in blooms if name.lower() in names),
        bloom_fpp=_fraction(schema, "orc.bloom.filter.fpp", default.bloom_fpp),
    )
    if _bloom_bytes(settings) > _MAX_BLOOM_BYTES:
        raise UsageError(
            f"the Bloom filters of one row group would take {_bloom_bytes(settings)} bytes",
            hint="Lower orc.row.index.stride, or raise orc.bloom.filter.fpp, in the text of --schema.",
        )
    missing = [name for name in blooms if name and name.lower() not in names]
    return settings, tuple(f"orc.bloom.filter.columns names {name}, which is not a column." for name in missing)


def _bloom_bytes(settings: WriterSettings) -> int:
    """What the filters of a row group take: n * -ln(p) / ln(2)^2 bits a column."""
    bits = settings.row_index_stride * -math.log(settings.bloom_fpp) / math.log(2) ** 2
    return round(bits / 8) * len(settings.bloom_columns)


def problem_of_settings(settings: WriterSettings, columns: StructType, target: Target) -> str | None:
    """Which of the settings cannot be, as the beginning of a sentence; None where all can."""
    stride = settings.row_index_stride
    known = {field.name for field in columns.fields}
    codecs = _HIVE3_CODECS if target is Target.HIVE3 else CODECS
    rules: tuple[tuple[str, Callable[[], bool], str], ...] = (
        ("compression", lambda: settings.compression in codecs, f"one of {', '.join(codecs)}"),
        ("stripe_size", lambda: 1 <= settings.stripe_size <= _MAX_STRIPE, f"a number from 1 to {_MAX_STRIPE}"),
        ("block_size", lambda: 1 <= settings.block_size <= _MAX_BLOCK, f"a number from 1 to {_MAX_BLOCK}"),
        (
            "row_index_stride",
            lambda: not stride or _MIN_STRIDE <= stride <= _MAX_STRIDE,
            f"0 or at least {_MIN_STRIDE}",
        ),
        ("bloom_columns", lambda: known.issuperset(settings.bloom_columns), "names of columns"),
        ("bloom_fpp", lambda: 0.0 < settings.bloom_fpp < 1.0, "a number between 0 and 1"),
        ("bloom_columns", lambda: _bloom_bytes(settings) <= _MAX_BLOOM_BYTES, "fewer, for so large row groups"),
    )
    return next((f"{name} must be {wanted}" for name, holds, wanted in rules if not holds()), None)


def unreadable_codec(asked: str | None, settings: WriterSettings, target: Target) -> tuple[str, str] | None:
    """Code and reason where the target cannot read the codec that the table states; UsageError for the option."""
    if target is not Target.HIVE3 or settings.compression in _HIVE3_CODECS:
        return None
    why = f"Hive 3 cannot read ORC files compressed with {settings.compression}"
    if asked is not None:
        raise UsageError(f"--compression {asked}: {why}", hint=f"Choose one of {', '.join(_HIVE3_CODECS)}.")
    return "unreadable_codec", f"{why}; choose another with --compression, zlib for one"


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


def _stride(schema: TableSchema, default: int) -> int:
    stride = _number(schema, "orc.row.index.stride", default, 0, _MAX_STRIDE)
    if not stride or (schema.table_property("orc.create.index") or "").strip().lower() == "false":
        return 0
    if stride < _MIN_STRIDE:
        raise UsageError(f"the table property orc.row.index.stride is {stride}, ORC allows {_MIN_STRIDE} or more")
    return stride


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
