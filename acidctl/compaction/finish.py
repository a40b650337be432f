"""From drafts and what footers tell to the plan: tasks, columns, target, codec, and refusals that only these show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from acidctl.compaction.columns import Census, Columns, Loss, Shape, losses, misfit, widest
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
from acidctl.compaction.settings import unreadable_codec, writer_settings
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
from acidctl.errors import UsageError
from acidctl.format.names import BaseDir, parse_directory
from acidctl.state.resolve import EntryKind
from acidctl.types.hive_types import Dialect, Field, StructType, is_nameless
from acidctl.types.schema import TableSchema, parse_type

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


def _problem_of_table(ground: Ground, files: Sequence[InputFile]) -> tuple[str, str] | None:
    """Code and reason where the kind of compaction, or what the DDL says, forbids these files."""
    schema = ground.view.schema
    if not ground.insert_only:
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
