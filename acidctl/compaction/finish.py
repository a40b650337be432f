"""From drafts and what footers tell to the plan: tasks, columns, target, codec, and refusals that only these show."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from acidctl.compaction.plan import (
    Action,
    CompactionKind,
    CompactionPlan,
    PartitionPlan,
    Role,
    TableFacts,
    Target,
    WriterSettings,
)
from acidctl.compaction.planner import Draft, Ground, already_there
from acidctl.compaction.request import unreadable_codec, writer_settings
from acidctl.compaction.tasks import (
    NO_COLUMNS,
    InputFile,
    Side,
    has_visible_rows,
    make_plain_tasks,
    make_tasks,
    plain_format,
    problem_of,
)
from acidctl.errors import DamagedDataError, UsageError
from acidctl.format.id_lists import describe_ids
from acidctl.format.names import BaseDir, BucketFile, parse_directory, parse_file
from acidctl.state.resolve import EntryKind
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
from acidctl.types.schema import TableSchema, parse_type

# --- The columns of an output: one schema into which every input file fits without loss.


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
    for column in columns.fields:
        if column.name.lower() in seen:
            return column.name
        seen.add(column.name.lower())
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
        for place, column in enumerate(shape.columns.fields):
            lost = _loss(kept[place], _keeps_values) if place in kept else None
            if place not in kept or lost is not None:
                said = "" if lost is None else f"{lost[0]} as {lost[1]}"
                found.setdefault(column.name.lower(), Loss(column.name, said, shape.path))
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


_HIVE3_REMEDY = (
    "publish it under a transaction (--visibility-txn), or with --assume-exclusive while nobody uses the table"
)


@dataclass(slots=True)
class Harvest:
    """What is kept of all partitions while they are planned one after another; files themselves are not."""

    census: Census = field(default_factory=Census)
    file_format: str | None = None
    _codec: tuple[bool, int, str] = (False, 0, "zlib")
    _spare: StructType = NO_COLUMNS
    _spare_rank: tuple[int, bool, int] = (0, False, 0)

    def add(self, partition: str, files: Sequence[InputFile]) -> tuple[str, str] | None:
        """Take in the files of one partition that is compacted; code and reason where they do not fit the others."""
        for file in files:
            self.file_format = self.file_format or plain_format(file.file_format)
            if plain_format(file.file_format) != self.file_format:
                why = f"{file.path} is no {self.file_format} file as those of other partitions; compact it on its own"
                return "mixed_formats", why
            if not file.columns.fields:
                continue
            if file.deletes or not file.rows:
                named = not file.deletes and not is_nameless(file.columns)
                rank = len(file.columns.fields), named, file.newest
                if rank > self._spare_rank:
                    self._spare, self._spare_rank = file.columns, rank
                continue
            self.census.add(partition, Shape(file.columns, file.newest, file.dialect, file.path))
            # Minor compactions of Hive 3 compress nothing, whatever the table says.
            self._codec = max(self._codec, (file.codec != "none", file.newest, file.codec))
        return None

    @property
    def codec(self) -> str:
        """The codec of the newest compressed input, else none; zlib where there is no file with rows."""
        compressed, newest, codec = self._codec
        return codec if compressed or not newest else "none"

    def columns(self, dialect: Dialect) -> StructType:
        """All columns of the inputs; of empty files and deletes only where there is nothing else.

        An empty file still lends its names where no other has any, as `snapshot` lets it.
        """
        found = widest(self.census.shapes, dialect)
        if not found.fields:
            return self._spare
        count, named, _ = self._spare_rank
        if not (named and count == len(found.fields) and is_nameless(found)):
            return found
        pairs = zip(self._spare.names, found.fields, strict=True)
        return StructType(tuple(Field(name, field.type) for name, field in pairs))


def finish_partition(ground: Ground, draft: Draft, files: Sequence[InputFile]) -> PartitionPlan:
    """The plan of one location; `files` are all of its inputs, in the order of directories and paths."""
    plan = draft.plan
    problem = problem_of(files, insert_only=ground.insert_only) or _problem_of_table(ground, files)
    if problem is not None:
        return refuse(plan, *problem)
    rows = sum(file.rows for file in files)
    if ground.insert_only:
        whole = replace(plan.outputs[0], rows_in=rows)
        return replace(plan, outputs=(whole,), rows_in=rows, tasks=make_plain_tasks(whole.name, files))
    sides = _sides(ground, plan, files)
    names = {side.directory: sum(file.rows for file in side.files) for side in sides}
    outputs = tuple(replace(output, rows_in=names[output.name]) for output in plan.outputs if output.name in names)
    if not outputs:
        return PartitionPlan(
            plan.partition, plan.path, Action.NOTHING_TO_DO, "no_rows", "the deltas hold no rows", notes=plan.notes
        )
    if names.keys() <= draft.present:
        why = already_there(sorted(names))
        return PartitionPlan(plan.partition, plan.path, Action.NOTHING_TO_DO, "already_there", why, notes=plan.notes)
    if names.keys() & draft.present:
        first = min(names.keys() & draft.present)
        return refuse(plan, "output_exists", f"{first} exists, but not all of {', '.join(sorted(names))}")
    alone = ground.request.visibility_txn is not None or ground.request.assume_exclusive
    if len(outputs) > 1 and not alone:
        return refuse(
            plan,
            "needs_two_renames",
            f"{outputs[0].name} and {outputs[1].name} belong together, and whoever reads between their two renames "
            f"misreads the table; {_HIVE3_REMEDY}",
        )
    tasks = make_tasks(sides, ground.request.split_bytes)
    return replace(plan, outputs=outputs, tasks=tasks, rows_in=rows)


def _is_of_another_bucket(file: InputFile) -> bool:
    """Whether a file of events is called a bucket that is not that of its rows."""
    name = parse_file(file.path.rpartition("/")[2])
    return file.is_acid and bool(file.rows) and isinstance(name, BucketFile) and file.buckets != (name.bucket_id,)


def _problem_of_table(ground: Ground, files: Sequence[InputFile]) -> tuple[str, str] | None:
    """Code and reason where the kind of compaction, or what the DDL says, forbids these files."""
    schema = ground.view.schema
    if not ground.insert_only:
        strange = next((file for file in files if ground.acid_v1 and _is_of_another_bucket(file)), None)
        if strange is not None:
            return (
                "v1_buckets",
                f"{strange.path} holds rows of bucket {describe_ids(strange.buckets)}; Hive 1 and 2 bring updates and "
                "rows together by the names of files, so that readers see other rows than a compaction would write: "
                "give the file back its name",
            )
        updated = next((file for file in files if file.updates), None)
        if updated is None or ground.acid_v1 or ground.request.kind is CompactionKind.MAJOR:
            return None
        return (
            "acid_v1_minor",
            f"{updated.path} holds updates or deletes among its rows, as Hive 1 and 2 wrote them; a major compaction "
            "is the way",
        )
    texts = [file for file in files if file.size and plain_format(file.file_format) == "text"]
    if len(texts) > 1:
        problem = _problem_of_text(schema, texts)
        if problem is not None:
            return problem
    if schema is None:
        return None
    unnumbered = next((file for file in files if file.size and not file.buckets), None)
    if schema.bucket_count is not None and unnumbered is not None:
        return "no_bucket", f"the table has buckets, and the name of {unnumbered.path} does not tell which it is"
    return None


_CUT_LINES = ("skip.header.line.count", "skip.footer.line.count")
_LINE_ENDS = "textinputformat.record.delimiter"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _problem_of_text(schema: TableSchema | None, texts: Sequence[InputFile]) -> tuple[str, str] | None:
    """Code and reason where readers take something at the ends of each text file, or its lines, in their own way."""
    marked = next((file for file in texts if file.first_line.startswith(_BYTE_ORDER_MARK)), None)
    if marked is not None:
        return (
            "text_mark",
            f"{marked.path} begins with a byte order mark, which readers take away at the beginning of a file only",
        )
    if schema is None or not schema.from_ddl:
        first = texts[0].first_line
        if first and all(file.first_line == first for file in texts):
            return (
                "text_maybe_header",
                "all text files begin with the same line; whether that is a header, which readers skip, only the text "
                "of SHOW CREATE TABLE tells: give it as --schema",
            )
        return None
    cut = next((key for key in _CUT_LINES if (schema.table_property(key) or "0").strip() != "0"), None)
    if cut is not None:
        return "text_header", f"each text file has lines that are no rows ({cut}), and put together they would be rows"
    if schema.table_property(_LINE_ENDS) is not None:
        return "text_lines", f"lines end in a way of their own here ({_LINE_ENDS}), at which files cannot be joined"
    return None


def _sides(ground: Ground, plan: PartitionPlan, files: Sequence[InputFile]) -> list[Side]:
    """The outputs with their files; a side of a minor without any visible event is left out."""
    inserts = tuple(file for file in files if not file.deletes)
    deletes = tuple(file for file in files if file.deletes)
    if ground.request.kind is CompactionKind.MAJOR:
        return [Side(plan.outputs[0].name, Role.SURVIVING, inserts, deletes)]
    sides = []
    for output in plan.outputs:
        of_deletes = output.kind == EntryKind.DELETE_DELTA.value
        own = deletes if of_deletes else inserts
        if any(has_visible_rows(file, ground.compactor_ids) for file in own):
            sides.append(Side(output.name, Role.DELETES if of_deletes else Role.INSERTS, own))
    return sides


def finish(
    ground: Ground, location: str, plans: Sequence[PartitionPlan], harvest: Harvest, notes: Sequence[str] = ()
) -> CompactionPlan:
    """The whole plan; `plans` are those of all locations, in their order."""
    request, view = ground.request, ground.view
    target = _target(ground, harvest.census)
    dialect = Dialect(target.value)
    given = view.schema is not None
    columns = _given_columns(ground, plans) if given else harvest.columns(dialect)
    chosen = Columns(columns, dialect, given)
    file_format = harvest.file_format or "orc"
    orc = file_format == "orc"
    settings, said = (
        writer_settings(request.compression, view.schema, harvest.codec, columns) if orc else (WriterSettings(), ())
    )
    codec = unreadable_codec(request.compression, settings, target) if orc else None
    work = any(plan.action is Action.COMPACT for plan in plans)
    if codec is not None and request.compression is None and not _stated_codec(ground):
        # What a file of another table once brought along does not bind this one.
        settings, codec = replace(settings, compression="zlib"), None
    done = []
    written_by = harvest.census.dialect
    for plan in plans:
        problem = None
        if plan.action is Action.COMPACT:
            shapes = harvest.census.of(plan.path) if orc else ()
            unfit = misfit(shapes, chosen, written_by) or _loss_unasked(ground, shapes, chosen)
            problem = codec or unfit or _lost_base(ground, plan, target)
        done.append(plan if problem is None else refuse(plan, *problem))
    lost = losses(harvest.census.shapes, chosen) if request.drop_columns and orc else ()
    if lost:
        said = (*said, f"What --schema does not keep is dropped for good: {_listed(lost)} (--drop-columns).")
    about = (f"Columns: {_source(ground, harvest)}.",) if orc and work else ()
    how = "" if request.target is not None else ", because of " + _target_reason(ground)
    about = (f"Names and markers for {_TARGETS[target]}{how}.", *about) if work else ()
    return CompactionPlan(
        location=location,
        kind=request.kind,
        target=target,
        visibility_txn=request.visibility_txn,
        table=TableFacts(
            table_type=view.guess.type.value,
            acid_v1=ground.acid_v1,
            write_ids=ground.write_ids.format(),
            columns=str(columns),
            dialect=dialect.value,
            file_format=file_format,
            writer=settings,
        ),
        partitions=tuple(done),
        write_ids="" if view.lists.write_ids is None else view.lists.write_ids.format(),
        txns="" if view.lists.txns is None else view.lists.txns.format(),
        assumed=ground.assumed,
        assume_exclusive=request.assume_exclusive,
        notes=(*view.lists.notes, *ground.notes, *about, *said, *notes),
    )


def refit(ground: Ground, decided: CompactionPlan, plan: PartitionPlan, harvest: Harvest) -> PartitionPlan:
    """The plan of one location, made after that of the whole run, which has decided format and columns for good."""
    if plan.action is not Action.COMPACT:
        return plan
    again = finish(ground, decided.location, [plan], harvest)
    (new,), facts = again.partitions, decided.table
    if new.action is not Action.COMPACT:
        return new
    if again.table.file_format != facts.file_format:
        why = f"its files are {again.table.file_format} now, and {facts.file_format} was planned"
        return refuse(new, "mixed_formats", why)
    columns = parse_type(facts.columns)
    assert isinstance(columns, StructType)
    chosen = Columns(columns, Dialect(facts.dialect), ground.view.schema is not None)
    unfit = misfit(harvest.census.of(plan.path), chosen, harvest.census.dialect) if facts.file_format == "orc" else None
    return new if unfit is None else refuse(new, *unfit)


def _loss_unasked(ground: Ground, shapes: Sequence[Shape], chosen: Columns) -> tuple[str, str] | None:
    """Code and reason where --schema costs values of columns that --drop-columns does not name."""
    agreed = {name.lower() for name in ground.request.drop_columns}
    lost = [loss for loss in losses(shapes, chosen) if loss.name.lower() not in agreed]
    if not lost:
        return None
    names = ",".join(loss.name for loss in lost)
    return (
        "schema_loses",
        f"--schema does not keep all values of {_listed(lost)} in {lost[0].path}, as the DDL of an earlier day would; "
        f"give the table's columns of today, or --drop-columns '{names}' if these values may go",
    )


def check_dropped(ground: Ground, plan: CompactionPlan, harvest: Harvest) -> None:
    """UsageError for a name in --drop-columns that stands for no loss: a slip of whoever typed it."""
    columns, shapes = parse_type(plan.table.columns), harvest.census.shapes
    assert isinstance(columns, StructType)
    lost = losses(shapes, Columns(columns, Dialect(plan.table.dialect), True))
    known = {loss.name.lower() for loss in lost}
    name = next((name for name in ground.request.drop_columns if name.lower() not in known), None)
    if name is None or not shapes:
        return
    what = f"of what the files hold it does not keep {_listed(lost)}" if lost else "it keeps all that the files hold"
    raise UsageError(
        f"--drop-columns names {name}, of which --schema loses nothing: {what}",
        hint="Name columns as the files call them, and only those that --schema does not keep.",
    )


def _listed(lost: Sequence[Loss]) -> str:
    return ", ".join(map(str, lost))


def _lost_base(ground: Ground, plan: PartitionPlan, target: Target) -> tuple[str, str] | None:
    """Code and reason where the Cleaner of Hive 4 would remove the base (see `ranges.reaching`)."""
    base = parse_directory(plan.outputs[0].name)
    if target is Target.HIVE3 or not isinstance(base, BaseDir) or base.visibility_txn_id is not None:
        return None
    if not ground.compactor_ids.is_aborted(base.write_id):
        return None
    return (
        "ends_aborted",
        f"{base.name} would end with write id {base.write_id}, which is aborted, and the cleaner of Hive 4 removes "
        "such a base; publish it under a transaction (--visibility-txn), or compact after the next write to the table",
    )


_TARGETS = {Target.HIVE3: "Hive 3", Target.HIVE4: "Hive 4"}


def refuse(plan: PartitionPlan, code: str, reason: str) -> PartitionPlan:
    """The plan of a location as one that is not carried out."""
    return PartitionPlan(plan.partition, plan.path, Action.REFUSED, code, reason, notes=plan.notes)


def _target(ground: Ground, census: Census) -> Target:
    if ground.request.target is not None:
        return ground.request.target
    if ground.request.visibility_txn is not None:
        return Target.HIVE4
    return Target(census.dialect.value)


def _target_reason(ground: Ground) -> str:
    return "--visibility-txn" if ground.request.visibility_txn is not None else "the newest files' writer"


def _stated_codec(ground: Ground) -> bool:
    return ground.view.schema is not None and ground.view.schema.table_property("orc.compress") is not None


def _given_columns(ground: Ground, plans: Sequence[PartitionPlan]) -> StructType:
    """The user's columns less those that are partition columns: a column list may name both."""
    assert ground.view.schema is not None
    keys: set[str] = set()
    for plan in plans:
        if plan.partition:
            keys = {part.partition("=")[0].lower() for part in plan.partition.split("/")}
            break
    return StructType(tuple(f for f in ground.view.schema.columns.fields if f.name.lower() not in keys))


def _source(ground: Ground, harvest: Harvest) -> str:
    if ground.view.schema is not None:
        return "those of --schema"
    shapes = harvest.census.shapes
    if not shapes:
        return "those of the files, none of which has rows"
    if len(shapes) == 1:
        return f"those of all files, {shapes[0].path} for one"
    return f"those of {shapes[0].path}, the newest, and what only older files have ({len(shapes)} schemas)"
