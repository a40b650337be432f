"""Decide on a compaction: a plan made of names, of what the tails of files tell, and of what the user asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from acidctl.compaction.columns import (
    HIVE_NAMES,
    ChosenColumns,
    ColumnLoss,
    FileSchema,
    SchemaSurvey,
    column_losses,
    problem_of_settings,
    require_fitting,
    stripe_size_of,
    writer_settings,
)
from acidctl.compaction.footers import InputFile, tail_readers
from acidctl.compaction.foresight import with_form
from acidctl.compaction.plan import (
    Action,
    CompactionKind,
    CompactionPlan,
    KeyCut,
    NotPlannedError,
    PartitionPlan,
    PlannedTask,
    Role,
    TableFacts,
    TableView,
    Target,
    WriterSettings,
    encode,
    is_within,
)
from acidctl.compaction.planner import (
    PartitionDraft,
    PlanContext,
    draft_partition,
    lists_too_old,
    require_believed,
    validate_request,
)
from acidctl.compaction.tasks import MAX_PARTS, named_bucket, plan_location
from acidctl.errors import AcidctlError, DamagedDataError, StalePlanError, UsageError
from acidctl.fileformats.plain import PlainFiles
from acidctl.findings import Finding, Level, codes_of_level
from acidctl.format.listing import Listing, obstacle
from acidctl.format.names import MIN_LONG, BaseDir, DeltaDir, WriteIdRange, parse_directory
from acidctl.format.write_ids import MAX_ID, ValidWriteIds
from acidctl.maintenance.limits import MAX_RUNTIME, UNREACHABLE, Reach, TimeLimit
from acidctl.options import CompactOptions, Progress, unwatched
from acidctl.orc.tail_edit import event_type, orc_types
from acidctl.orc.writer import physical_of
from acidctl.rows import old_lists
from acidctl.rows.belief import finding_of_inserts, findings_of_files, missing_halves
from acidctl.rows.pipeline import ordered_map
from acidctl.rows.table_view import link_notes
from acidctl.state.entries import AcidState
from acidctl.state.inventory import data_files, live_entries
from acidctl.storage.locations import Location
from acidctl.storage.port import Storage, join
from acidctl.types.hive_types import Dialect, StructType
from acidctl.types.schema import TableSchema, parse_type
from acidctl.values import dataclass

# Tails are small and far away on most storages: waiting for several at once costs nothing.
_WORKERS = 8
# What is planned even where listing has taken the time for it: partitions of some bytes, done in a second or two.
FEWEST, _SMALL_BYTES = 32, 16 << 20


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan and what it was decided by, so that a part of it can be decided again and come out no wider."""

    storage: Storage
    context: PlanContext
    plan: CompactionPlan

    def again(self, part: PartitionPlan, listing: Listing) -> PartitionPlan:
        """The plan of one partition from what lies there now, by the options, lists and kind of table of the first one.

        Only what was to be compacted is compacted, into directories of the same names, from what had been inputs or
        has taken their place; StalePlanError where that is not what lies there.
        """
        if part.action is not Action.COMPACT:
            return part
        draft = draft_partition(self.context, part.partition, part.path, listing, recovered=True)
        draft = _by_current_lists(self.context, self.storage, draft)
        if self.context.request.max_bytes is not None and draft.plan.bytes_in > part.bytes_in:
            draft = draft.refused(
                "max_bytes",
                f"its {draft.plan.bytes_in} bytes are more than the {part.bytes_in} of the plan; a later run compacts "
                "them",
            )
        survey = SchemaSurvey()
        (plan,) = _Reading(self.storage, self.context, survey).plans([draft])
        if plan.action is not Action.COMPACT:
            return plan
        again = assemble(self.context, self.plan.location, [plan], survey)
        (new,), facts = again.partitions, self.plan.table
        if new.action is not Action.COMPACT:
            return new
        try:
            # The whole run has decided format and columns for good.
            if again.table.file_format != facts.file_format:
                why = f"its files are {again.table.file_format} now, but {facts.file_format} was planned"
                raise NotPlannedError("mixed_formats", why)
            if facts.file_format == "orc":
                given = self.context.view.schema is not None
                chosen = ChosenColumns(_columns(self.plan), Dialect(facts.dialect), given)
                require_fitting(survey.schemas_of(plan.path), chosen, survey.dialect)
        except NotPlannedError as why_not:
            return new.left(why_not)
        if not is_within(new, part):
            raise StalePlanError(
                "what lies here now is not what was planned to be compacted",
                path=self.storage.display(listing.root),
                hint="Run the command again; it plans anew.",
            )
        return new


def decide(
    storage: Storage,
    root: str,
    locations: Sequence[Location],
    view: TableView,
    request: CompactOptions,
    *,
    progress: Progress = unwatched,
    limit: TimeLimit | None = None,
) -> Decision:
    """The plan of a whole run over the locations of the table at `root`; opens each file that it concerns once.

    Partitions come in the order of `locations`, stray ones are left out. `progress` gets how many files are done of how
    many. Partitions whose turn does not come within half of the time that `limit` leaves are left for a later run;
    where not all may have their turn, those with the most directories to merge have it first. What is wrong with one of
    several partitions makes that one REFUSED; with a single location it is raised: NotEnoughHistoryError,
    DamagedDataError, StorageError. UsageError: no lists and nothing assumed, or options that contradict each other or
    the table.
    """
    places = [location for location in locations if not location.stray]
    facts, listings = storage.facts, [location.listing for location in places]
    context = validate_request(view, request, listings, renames=facts.atomic_rename, locks=facts.exclusive_create)
    single = len(places) == 1
    drafts = [_drafted(context, storage, location, root, single) for location in places]
    order = list(range(len(drafts)))
    if request.bounded or limit is not None:
        order.sort(key=lambda place: -len(drafts[place].consumed))
    survey = SchemaSurvey()
    reach = None if single else Reach(storage, root)
    stop = None if limit is None else limit.planning()
    plans = _Reading(storage, context, survey, reach, progress, stop).plans(
        _bounded([drafts[place] for place in order], request)
    )
    planned = dict(zip(order, plans, strict=True))
    notes = [
        f"Data lies beside partition folders in {location.partition or 'the table itself'} and is left as it is; Hive "
        "reads partitions only."
        for location in locations
        if location.stray
    ]
    notes += [note for location in places for note in link_notes(location)]
    plan = assemble(context, storage.display(root), [planned[place] for place in range(len(drafts))], survey, notes)
    if not request.bounded and limit is None:
        # Else what a name stands for may lie in a partition that a later run compacts.
        _check_dropped(context, plan, survey)
    return Decision(storage, context, plan)


def _by_current_lists(context: PlanContext, storage: Storage, draft: PartitionDraft) -> PartitionDraft:
    """The draft, refused where files prove the lists older than another compaction."""
    if not draft.compacts or draft.state is None:
        return draft
    try:
        require_current(storage, draft.root, draft.state, context.compactor_ids, context.view.schema)
    except NotPlannedError as why:
        return draft.refused(why.code, why.reason)
    return draft


def require_current(
    storage: Storage, root: str, state: AcidState, ids: ValidWriteIds, schema: TableSchema | None
) -> None:
    """Refuse a location where names or files prove the lists older than another compaction."""
    found = old_lists.lists_too_old(storage, root, state, ids, PlainFiles(schema))
    if found is not None:
        raise lists_too_old(found)


def _drafted(context: PlanContext, storage: Storage, location: Location, root: str, single: bool) -> PartitionDraft:
    listing = location.listing
    path = listing.root.removeprefix(root.rstrip("/")).strip("/") if listing.root != root else ""
    try:
        draft = _by_current_lists(context, storage, draft_partition(context, location.partition, path, listing))
        problem = obstacle(listing) if draft.compacts else None
        if problem is None:
            return draft
        if not problem.damaged:
            return draft.refused("symbolic_link", f"{problem.message}. {problem.hint.rstrip('.')}")
        raise DamagedDataError(problem.message, path=listing.root, hint=problem.hint)
    except AcidctlError as error:
        if single:
            raise
        blank = PartitionPlan(location.partition, path, Action.NOTHING_TO_DO)
        return PartitionDraft(_failed(blank, error), listing.root)


def _bounded(drafts: Sequence[PartitionDraft], request: CompactOptions) -> list[PartitionDraft]:
    """Leave for a later run what goes beyond the bounds; a smaller partition behind it still has its turn."""
    max_bytes, max_partitions = request.max_bytes, request.max_partitions
    chosen: list[PartitionDraft] = []
    bytes_in = partitions = 0
    for draft in drafts:
        size = draft.plan.bytes_in
        if not draft.compacts:
            pass
        elif max_bytes is not None and size > max_bytes:
            draft = draft.refused("max_bytes", f"its {size} bytes are more than --max-bytes allows")
        elif max_bytes is not None and bytes_in + size > max_bytes:
            why = f"its {size} bytes go beyond --max-bytes {max_bytes}; a later run compacts them"
            draft = draft.refused("max_bytes", why)
        elif partitions == max_partitions:
            why = f"it goes beyond --max-partitions {max_partitions}; a later run compacts it"
            draft = draft.refused("max_partitions", why)
        else:
            bytes_in, partitions = bytes_in + size, partitions + 1
        chosen.append(draft)
    return chosen


@dataclass(slots=True)
class _Reading:
    """Reads the tails of the input files of drafts, several at once, and makes their plans.

    Without `reach` what is wrong with a partition is raised, as it is where the storage gives nothing of any. `stop`
    says when no further partition may begin.
    """

    storage: Storage
    context: PlanContext
    survey: SchemaSurvey
    reach: Reach | None = None
    progress: Progress = unwatched
    stop: Callable[[], bool] | None = None

    def plans(self, drafts: Sequence[PartitionDraft]) -> Iterator[PartitionPlan]:
        """The plans in the order of the drafts; what is known of files is let go with each partition."""
        total, done = sum(map(_file_count, drafts)), 0
        self.progress(done, total)
        files: list[InputFile] = []
        beside: list[Finding] = []
        failure: AcidctlError | None = None
        for draft, result in ordered_map(_attempt, self._work(drafts), workers=_WORKERS):
            if draft is not None:
                yield self._planned(draft, files, beside, failure)
                files, beside, failure = [], [], None
                continue
            if isinstance(result, InputFile):
                files.append(result)
            elif isinstance(result, tuple):
                beside += result
            else:
                failure = failure or result
            done += 1
            self.progress(done, total)

    def _work(self, drafts: Sequence[PartitionDraft]) -> Iterator[tuple[PartitionDraft | None, _Look | None]]:
        """What looks into the files of each draft, and then the draft."""
        begun = size = 0
        stripe_size = stripe_size_of(self.context.view.schema)
        for draft in drafts:
            # One at least, and of small ones some, so that run after run gets somewhere.
            enough = begun and (begun >= FEWEST or size >= _SMALL_BYTES)
            if draft.compacts and enough and self.stop is not None and self.stop():
                why = "--max-runtime left no time to read its files; a later run compacts it"
                yield draft.refused(MAX_RUNTIME, why), None
            elif draft.compacts and self.reach is not None and self.reach.stopped:
                why = "not started, because the storage no longer answers; a later run compacts it"
                yield draft.refused(UNREACHABLE, why), None
            else:
                if draft.compacts:
                    begun, size = begun + 1, size + draft.plan.bytes_in
                    yield from ((None, read) for read in tail_readers(self.storage, draft, stripe_size))
                    if _looks_beside(draft):
                        yield None, partial(_beside, self.storage, draft)
                yield draft, None

    def _planned(
        self,
        draft: PartitionDraft,
        files: Sequence[InputFile],
        beside: Sequence[Finding],
        failure: AcidctlError | None,
    ) -> PartitionPlan:
        plan, reach = draft.plan, self.reach
        if not draft.compacts:
            return plan
        if failure is not None:
            if reach is not None:
                reach.heed(plan.path, failure)
            if reach is None or reach.gone or (reach.stopped and not reach.heard):
                raise failure
            return _failed(plan, failure)
        if reach is not None and files:
            reach.answered()
        found = (*beside, *self._findings_of(draft, files))
        try:
            require_believed(found, self.context.accepted)
            new = plan_location(self.context, draft, files)
            notes = dict.fromkeys((*new.notes, *map(str, found)))
            new = replace(new, notes=tuple(notes), findings=(*new.findings, *found))
            self.survey.add(plan.path, files)
        except NotPlannedError as why:
            return plan.left(why)
        return new

    def _findings_of(self, draft: PartitionDraft, files: Sequence[InputFile]) -> Iterator[Finding]:
        """Findings of the files of inserts whose rows are of other buckets or writes than their names say."""
        for file in () if self.context.insert_only else files:
            if file.is_acid and file.rows and not file.deletes:
                name = self.storage.display(join(draft.root, file.path))
                delta = parse_directory(file.entry)
                inserts = isinstance(delta, DeltaDir) and not (self.context.acid_v1 or file.updates)
                finding = finding_of_inserts(
                    name,
                    file.path,
                    named_bucket(file),
                    file.buckets,
                    None if file.write_ids is None else WriteIdRange(*file.write_ids),
                    delta.range if inserts and isinstance(delta, DeltaDir) else None,
                )
                if finding is not None:
                    yield finding


def _looks_beside(draft: PartitionDraft) -> bool:
    """Whether there is anything to look at beside the inputs: half of a compaction, the base beside a minor one, or
    what only readers see.
    """
    lonely = any(state is not None and state.lonely for state in (draft.state, draft.readers))
    return lonely or bool(_not_consumed(draft))


def _not_consumed(draft: PartitionDraft) -> set[str]:
    """The directories that are read and are no inputs."""
    if draft.readers is None:
        return set()
    return {entry.name for entry in live_entries(draft.readers)} - {entry.name for entry in draft.consumed}


def _beside(storage: Storage, draft: PartitionDraft) -> tuple[Finding, ...]:
    """The findings of files that are no inputs, by which an answer of the location is doubtful all the same."""
    state, readers = draft.state, draft.readers
    assert state is not None
    assert readers is not None
    seen = (state,) if readers is state else (state, readers)
    halves = (finding for one in seen for finding in missing_halves(storage, draft.root, one))
    others = findings_of_files(storage, draft.root, readers, _not_consumed(draft))
    return tuple(dict.fromkeys((*halves, *others)))


# Looks into files: a tail, or all that tells whether half of a compaction is missing.
_Look = Callable[[], InputFile | tuple[Finding, ...]]


def _attempt(
    work: tuple[PartitionDraft | None, _Look | None],
) -> tuple[PartitionDraft | None, InputFile | tuple[Finding, ...] | AcidctlError | None]:
    draft, read = work
    try:
        return draft, None if read is None else read()
    except AcidctlError as error:
        return draft, error


def _file_count(draft: PartitionDraft) -> int:
    if draft.state is None:
        return 0
    insert_only = draft.state.insert_only
    files = sum(file.has_rows for entry in draft.consumed for file in data_files(entry, insert_only=insert_only))
    return files + _looks_beside(draft)


def _failed(plan: PartitionPlan, error: AcidctlError) -> PartitionPlan:
    return replace(plan.left(NotPlannedError(error.code, error.message)), failed=True)


def assemble(
    context: PlanContext, location: str, plans: Sequence[PartitionPlan], survey: SchemaSurvey, notes: Sequence[str] = ()
) -> CompactionPlan:
    """The whole plan; `plans` are those of all locations, in their order."""
    request, view = context.request, context.view
    target = _target(request, survey)
    chosen = _chosen_columns(view, plans, survey, Dialect(target.value))
    file_format = survey.file_format or "orc"
    orc = file_format == "orc"
    settings, unwritable = WriterSettings(), None
    form_notes: list[str] = []
    if orc:
        try:
            settings, of_settings = writer_settings(
                request.compression, view.schema, survey.codec, chosen.columns, target
            )
            form_notes += of_settings
        except NotPlannedError as why:
            unwritable = why
    if any(plan.action is Action.COMPACT for plan in plans):
        of_columns = [_columns_note(view, survey)] if orc else []
        form_notes = [_target_note(request, target), *of_columns, *form_notes]
    dropped = column_losses(survey.schemas, chosen) if request.drop_columns and orc else ()
    if dropped:
        form_notes.append(f"--drop-columns: these values are dropped for good: {_listed(dropped)}.")

    return CompactionPlan(
        location=location,
        kind=CompactionKind(request.kind),
        target=target,
        visibility_txn=request.visibility_txn,
        table=TableFacts(
            table_type=view.guess.type.value,
            acid_v1=context.acid_v1,
            write_ids=context.write_ids.format(),
            columns=str(chosen.columns),
            dialect=chosen.dialect.value,
            file_format=file_format,
            writer=settings,
        ),
        partitions=tuple(_decided(context, plan, survey, chosen, settings, unwritable) for plan in plans),
        write_ids="" if view.lists.write_ids is None else view.lists.write_ids.format(),
        txns="" if view.lists.txns is None else view.lists.txns.format(),
        assumed=view.lists.assumed,
        assume_exclusive=request.assume_exclusive,
        notes=(*view.lists.notes, *context.notes, *form_notes, *notes),
        not_looked_at=()
        if context.insert_only or all(plan.action is not Action.COMPACT for plan in plans)
        else codes_of_level(Level.KEYS),
    )


def _target_note(request: CompactOptions, target: Target) -> str:
    written_for = f"The output is written for {HIVE_NAMES[Dialect(target.value)]}"
    if request.target != "auto":
        return f"{written_for}."
    if request.visibility_txn is not None:
        return f"{written_for}, because of --visibility-txn."
    return f"{written_for} (detected from the newest files; change with --target)."


def _columns_note(view: TableView, survey: SchemaSurvey) -> str:
    if view.schema is not None:
        return f"Columns: those of {view.schema.table or '--schema'}."
    schemas = survey.schemas
    if not schemas:
        return "Columns: those of the files, none of which has rows."
    if len(schemas) == 1:
        return f"Columns: all files agree (e.g. {schemas[0].path})."
    return f"Columns: those of the newest file ({schemas[0].path}) and of older ones ({len(schemas)} schemas)."


def _decided(
    context: PlanContext,
    plan: PartitionPlan,
    survey: SchemaSurvey,
    chosen: ChosenColumns,
    settings: WriterSettings,
    unwritable: NotPlannedError | None,
) -> PartitionPlan:
    """The plan, or a refusal where its files do not suit the form of the outputs."""
    if plan.action is not Action.COMPACT:
        return plan
    schemas = survey.schemas_of(plan.path) if survey.file_format in (None, "orc") else ()
    try:
        if unwritable is not None:
            raise unwritable
        require_fitting(schemas, chosen, survey.dialect)
        _require_agreed_losses(context, schemas, chosen)
        _require_lasting_base(context, plan, Target(chosen.dialect.value))
    except NotPlannedError as why:
        return plan.left(why)
    if not (forms := survey.tails_of(plan.path)):
        return plan
    types = orc_types(chosen.columns if context.insert_only else event_type(chosen.columns))
    physical = physical_of(settings, types, acid=not context.insert_only)
    return replace(plan, tasks=tuple(with_form(task, forms, types, physical) for task in plan.tasks))


def _target(request: CompactOptions, survey: SchemaSurvey) -> Target:
    if request.target != "auto":
        return Target(request.target)
    return Target.HIVE4 if request.visibility_txn is not None else Target(survey.dialect.value)


def _chosen_columns(
    view: TableView, plans: Sequence[PartitionPlan], survey: SchemaSurvey, dialect: Dialect
) -> ChosenColumns:
    """The columns of the files, or those of the user less the partition columns: a column list may name both."""
    if view.schema is None:
        return ChosenColumns(survey.columns(dialect), dialect, False)
    partition = next((plan.partition for plan in plans if plan.partition), "")
    keys = {part.partition("=")[0].lower() for part in partition.split("/")}
    columns = tuple(column for column in view.schema.columns.fields if column.name.lower() not in keys)
    return ChosenColumns(StructType(columns), dialect, True)


def _require_agreed_losses(context: PlanContext, schemas: Sequence[FileSchema], chosen: ChosenColumns) -> None:
    """--schema may cost values only of columns that --drop-columns names."""
    agreed = {name.lower() for name in context.request.drop_columns}
    lost = [loss for loss in column_losses(schemas, chosen) if loss.name.lower() not in agreed]
    if lost:
        names = ",".join(loss.name for loss in lost)
        raise NotPlannedError(
            "schema_loses",
            f"--schema does not keep all values of {_listed(lost)} in {lost[0].path}; give the columns that the table "
            f"has today, or --drop-columns '{names}' if these values may be lost",
        )


def _check_dropped(context: PlanContext, plan: CompactionPlan, survey: SchemaSurvey) -> None:
    """UsageError for a name in --drop-columns of which --schema loses nothing: a typing error."""
    schemas = survey.schemas
    lost = column_losses(schemas, ChosenColumns(_columns(plan), Dialect(plan.table.dialect), True))
    names = {loss.name.lower() for loss in lost}
    name = next((name for name in context.request.drop_columns if name.lower() not in names), None)
    if name is None or not schemas:
        return
    what = f"what it drops is {_listed(lost)}" if lost else "it keeps all that the files hold"
    raise UsageError(
        f"--drop-columns names {name}, but --schema loses nothing of it: {what}",
        hint="Name columns as the files call them, and only those that --schema does not keep.",
    )


def _listed(lost: Sequence[ColumnLoss]) -> str:
    return ", ".join(map(str, lost))


def _require_lasting_base(context: PlanContext, plan: PartitionPlan, target: Target) -> None:
    """The Cleaner of Hive 4 must not remove the base (see `planner`)."""
    base = parse_directory(plan.outputs[0].name)
    if target is Target.HIVE3 or not isinstance(base, BaseDir) or base.visibility_txn_id is not None:
        return
    if context.compactor_ids.is_aborted(base.write_id):
        raise NotPlannedError(
            "ends_aborted",
            f"{base.name} would end with write id {base.write_id}, which is aborted, and the cleaner of Hive 4 removes "
            "such a base; publish it under a transaction (--visibility-txn), or compact after the next write to the "
            "table",
        )


# --- A plan file that was edited: what of it counts, and what it is compared with.
#
# Nothing in such a file is believed. The plan is made anew, by the options that the file records and by what lies on
# storage now, and of the edited one only choices are taken over that change no row: which partitions are left out, the
# physical form of the files (`TableFacts.writer`), and where large buckets are cut. Everything else has to be the same.

_SHOWN = 60


class EditedPlanError(StalePlanError):
    """What was edited in a plan is not for its editor to decide, or the table has changed since."""

    code = "edited_plan"


def accept(edited: CompactionPlan, fresh: CompactionPlan) -> CompactionPlan:
    """`fresh` with the choices of `edited`; EditedPlanError where the two differ in anything else."""
    planned = {(part.partition, part.path): part for part in fresh.partitions}
    parts: list[PartitionPlan] = []
    for place, part in enumerate(edited.partitions):
        new = planned.pop((part.partition, part.path), None)
        if new is None:
            raise _refused(f"plan.partitions[{place}] is not among the partitions of a new plan, or is listed twice")
        parts.append(_accepted(part, new, f"plan.partitions[{place}]"))
    problem = problem_of_settings(edited.table.writer, _columns(fresh), fresh.target)
    if problem is not None:
        raise _refused(f"plan.table.writer.{problem}")
    result = replace(fresh, partitions=tuple(parts), table=replace(fresh.table, writer=edited.table.writer))
    _require_same(_comparable(edited, parts, fresh), encode(result), "plan")
    return result


def _accepted(part: PartitionPlan, new: PartitionPlan, where: str) -> PartitionPlan:
    if part.action is not Action.COMPACT:
        if new.action is not Action.COMPACT:
            return new
        reason = part.reason or "the plan was edited to leave it out"
        return PartitionPlan(part.partition, part.path, part.action, part.reason_code or "left_out", reason)
    if new.action is not Action.COMPACT:
        raise _refused(f"{where} is to be compacted, but a new plan does not compact it: {new.reason}")
    if len(part.tasks) != len(new.tasks):
        raise _refused(f"{where} has {len(part.tasks)} tasks, but a new plan has {len(new.tasks)}")
    pairs = enumerate(zip(part.tasks, new.tasks, strict=True))
    tasks = tuple(_with_cuts(new_task, task.cuts, f"{where}.tasks[{i}].cuts") for i, (task, new_task) in pairs)
    return replace(new, tasks=tasks)


def _with_cuts(task: PlannedTask, cuts: Sequence[KeyCut], where: str) -> PlannedTask:
    """The task cut otherwise: any ascending keys make parts that together are the bucket."""
    if cuts and task.role in (Role.ROWS, Role.BYTES, Role.JOIN):
        raise _refused(f"{where} divide rows without ROW__ID")
    numbers = (number for cut in cuts for number in (cut.write_id, cut.bucket_property, cut.row_id))
    if not all(MIN_LONG <= number <= MAX_ID for number in numbers):
        raise _refused(f"{where} hold a number of more than 64 bits")
    if list(cuts) != sorted(set(cuts)) or len(cuts) >= MAX_PARTS:
        raise _refused(f"{where} must ascend, and be fewer than {MAX_PARTS}")
    return replace(task, cuts=tuple(cuts))


def _columns(plan: CompactionPlan) -> StructType:
    columns = parse_type(plan.table.columns)
    assert isinstance(columns, StructType)
    return columns


def _comparable(edited: CompactionPlan, parts: Sequence[PartitionPlan], fresh: CompactionPlan) -> Any:
    """The edited plan as JSON values, less what may differ or says nothing that is carried out."""
    same = [
        part if part.action is not Action.COMPACT else replace(old, **{name: getattr(part, name) for name in _WORDS})
        for old, part in zip(edited.partitions, parts, strict=True)
    ]
    return encode(
        replace(
            edited, partitions=tuple(same), notes=fresh.notes, options=fresh.options, not_looked_at=fresh.not_looked_at
        )
    )


_WORDS = ("reason", "reason_code", "notes", "failed")


def _require_same(edited: Any, fresh: Any, where: str) -> None:
    if isinstance(edited, dict) and isinstance(fresh, dict):
        for name in fresh:
            _require_same(edited[name], fresh[name], f"{where}.{name}")
    elif isinstance(edited, list) and isinstance(fresh, list) and len(edited) == len(fresh):
        for place, (one, other) in enumerate(zip(edited, fresh, strict=True)):
            _require_same(one, other, f"{where}[{place}]")
    elif edited != fresh:
        raise _refused(f"{where} is {_shown(edited)}, but {_shown(fresh)} in a new plan")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _refused(what: str) -> EditedPlanError:
    return EditedPlanError(
        f"the edited plan was not run: {what}",
        hint="Make a new plan with --plan-out. In a plan you can only remove partitions and change `table.writer` and "
        "the `cuts` of tasks.",
    )
