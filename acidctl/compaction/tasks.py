"""Divide a location's files into tasks: one output file each, buckets as the rows have them, large ones cut by keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from acidctl.compaction.columns import stripe_size_of
from acidctl.compaction.footers import InputFile
from acidctl.compaction.foresight import Asked, cuts, foreseen, foreseen_rows, part_bytes
from acidctl.compaction.plan import Action, NotPlannedError, PartitionPlan, PlannedTask, Role
from acidctl.compaction.planner import PartitionDraft, PlanContext, already_there
from acidctl.format.names import BucketFile, OriginalFile, format_bucket_file, parse_file
from acidctl.format.write_ids import RangeAnswer, ValidWriteIds, describe_ids
from acidctl.state.entries import EntryKind
from acidctl.types.schema import TableSchema

MAX_PARTS = 4096
_USUAL = Asked()
_EVERYTHING = ValidWriteIds.parse("")
_CUT_LINES = ("skip.header.line.count", "skip.footer.line.count")
_LINE_ENDS = "textinputformat.record.delimiter"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def require_plannable(files: Sequence[InputFile], *, insert_only: bool) -> None:
    """NotPlannedError where these files cannot be compacted."""
    if insert_only:
        _require_one_format(files)
        return
    named = {file.path: file for file in files}
    for file in files:
        if file.is_acid or not file.rows:
            continue
        if file.apart:
            raise NotPlannedError(
                "v1_copies",
                f"{file.path} is a second file of its bucket from before the table was ACID, and Hive 1 and 2 give "
                "its rows the ids of other rows; upgrade the table to a newer Hive first",
            )
        if file.raw is None or file.raw[1] is None:
            raise NotPlannedError(
                "no_row_ids", f"the name of {file.path} has no bucket number, so that its rows have no row ids"
            )
        before = file.before
        while before is not None and before in named:
            if named[before].is_acid and named[before].rows:
                raise NotPlannedError(
                    "mixed_files",
                    f"{file.path} has no ACID columns, but {before} beside it has; their row ids are ambiguous",
                )
            before = named[before].before


def _require_one_format(files: Sequence[InputFile]) -> None:
    for file in files:
        if file.file_format == "orc" and file.is_acid and file.rows:
            why = f"{file.path} holds events of a full ACID table, so it is not insert-only"
            raise NotPlannedError("ambiguous_table_type", why)
        if file.table_format not in ("orc", "parquet", "text"):
            raise NotPlannedError(
                "file_format",
                f"{file.path} is of a format that acidctl does not write ({file.file_format}); compact with Hive",
            )
    formats = sorted({file.table_format for file in files})
    if len(formats) > 1:
        why = f"the files are of several formats ({', '.join(formats)}); compact with Hive"
        raise NotPlannedError("mixed_formats", why)
    other = next((file for file in files if file.shape != files[0].shape), None)
    if other is not None:
        why = f"{files[0].path} and {other.path} have different columns; compact with Hive"
        raise NotPlannedError("schema_unclear", why)


def make_tasks(
    output: str,
    role: Role,
    files: Sequence[InputFile],
    deletes: Sequence[InputFile],
    split_bytes: int,
    ids: ValidWriteIds = _EVERYTHING,
    form: Asked = _USUAL,
) -> tuple[PlannedTask, ...]:
    """Tasks of one output of a full ACID table, one per bucket with rows; `deletes` may concern the rows of `files`.

    Buckets are divided into parts of about `split_bytes`; by `ids` rows of aborted writes are known, and `form` is what
    is known of that of the output.
    """
    groups: dict[int, list[InputFile]] = defaultdict(list)
    for file in files:
        for bucket_id in file.buckets if file.rows else ():
            groups[bucket_id].append(file)
    offsets = _row_offsets(files)
    tasks: list[PlannedTask] = []
    for bucket_id in sorted(groups):
        own = groups[bucket_id]
        own_deletes = [file for file in deletes if _may_concern(file, bucket_id)]
        size = sum(file.size for file in (*own, *own_deletes))
        stripes = () if role is Role.DELETES else foreseen(output, own, own_deletes, ids, form)
        task = PlannedTask(
            role=role,
            output=f"{output}/{format_bucket_file(bucket_id)}",
            bucket_id=bucket_id,
            files=tuple(file.path for file in own),
            delete_files=tuple(file.path for file in own_deletes),
            rows_in=sum(file.rows for file in own),
            bytes_in=size,
            cuts=cuts(own, stripes, offsets, size, split_bytes, MAX_PARTS),
            stripes=stripes,
        )
        tasks.append(task)
    return tuple(tasks)


def make_plain_tasks(directory: str, files: Sequence[InputFile], form: Asked = _USUAL) -> tuple[PlannedTask, ...]:
    """Tasks of an insert-only output: files of equal number go into one, so that buckets stay buckets."""
    groups: dict[tuple[int, bool], list[InputFile]] = defaultdict(list)
    for file in files:
        if file.size and (file.rows or file.table_format == "text"):
            groups[file.buckets[0] if file.buckets else 0, file.file_format == "gzip"].append(file)
    return tuple(
        PlannedTask(
            role=Role.BYTES if members[0].table_format == "text" else Role.ROWS,
            # Hive tells compressed text by the ending of its name.
            output=f"{directory}/{number:06d}_0{'.gz' if compressed else ''}",
            bucket_id=number,
            files=tuple(file.path for file in members),
            rows_in=sum(file.rows for file in members),
            bytes_in=sum(file.size for file in members),
            stripes=foreseen_rows(directory, members, form) if members[0].table_format == "orc" else (),
        )
        for (number, compressed), members in sorted(groups.items())
    )


def has_visible_rows(file: InputFile, ids: ValidWriteIds) -> bool:
    """Whether some event may be of a write that was not aborted, as far as the tail tells."""
    if not file.rows:
        return False
    if file.deletes or file.write_ids is None:
        # A delete's own write id is in no statistics that readers may trust; its directory's name was judged before.
        return True
    return ids.is_range_aborted(*file.write_ids) is not RangeAnswer.ALL


def _may_concern(delete: InputFile, bucket_id: int) -> bool:
    """Whether a delete file may hold keys of a bucket.

    No accounting would miss a file that was left out, and rows would come back. So its statistics are believed only
    where its name says the same, and those of write ids not at all. Hive 3.1 writes deletes of other buckets elsewhere.
    """
    if not delete.rows:
        return False
    named = _bucket_of_name(delete)
    return bucket_id in delete.buckets or named is None or bucket_id == named


def named_bucket(file: InputFile) -> int | None:
    """The bucket in the name of a file, None where there is none."""
    name = parse_file(file.path.rpartition("/")[2])
    return name.bucket_id if isinstance(name, BucketFile | OriginalFile) else None


def _bucket_of_name(file: InputFile) -> int | None:
    name = parse_file(file.path.rpartition("/")[2])
    return name.bucket_id if isinstance(name, BucketFile) else None


def _row_offsets(files: Sequence[InputFile]) -> dict[str, int]:
    """Row number of the first row of each file without ACID columns; files come in path order."""
    offsets: dict[str, int] = {}
    rows = {file.path: file.rows for file in files}
    for file in files:
        if not file.is_acid:
            offsets[file.path] = 0 if file.before is None else offsets.get(file.before, 0) + rows.get(file.before, 0)
    return offsets


def plan_location(context: PlanContext, draft: PartitionDraft, files: Sequence[InputFile]) -> PartitionPlan:
    """The plan of one location; `files` are all of its inputs, in the order of directories and paths.

    NotPlannedError where they cannot be compacted, or need not.
    """
    plan, request = draft.plan, context.request
    form = Asked(request.compression, stripe_size_of(context.view.schema))
    require_plannable(files, insert_only=context.insert_only)
    rows = sum(file.rows for file in files)
    if context.insert_only:
        _require_joinable(context.view.schema, [file for file in files if file.size])
        whole = replace(plan.outputs[0], rows_in=rows)
        return replace(plan, outputs=(whole,), rows_in=rows, tasks=make_plain_tasks(whole.name, files, form))
    _require_of_version(context, files)
    sides = _sides(context, plan, files)
    outputs = tuple(
        replace(output, rows_in=sum(file.rows for file in sides[output.name][1]))
        for output in plan.outputs
        if output.name in sides
    )
    if not outputs:
        raise NotPlannedError("no_rows", "the deltas hold no rows", Action.NOTHING_TO_DO)
    if sides.keys() <= draft.present:
        raise already_there(sorted(sides))
    if sides.keys() & draft.present:
        first = min(sides.keys() & draft.present)
        raise NotPlannedError("output_exists", f"{first} exists, but not all of {', '.join(sorted(sides))}")
    if len(outputs) > 1 and request.visibility_txn is None and not request.assume_exclusive:
        raise NotPlannedError(
            "needs_two_renames",
            f"a minor compaction publishes two directories ({outputs[0].name} and {outputs[1].name}), and a reader "
            "between the two renames would see wrong rows. Use --visibility-txn, or --assume-exclusive while nobody "
            "uses the table",
        )
    ids = context.compactor_ids
    part = part_bytes(sum(file.size for file in files), request.split_bytes)
    tasks = [task for output, side in sides.items() for task in make_tasks(output, *side, part, ids, form)]
    return replace(plan, outputs=outputs, tasks=tuple(tasks), rows_in=rows)


_Side = tuple[Role, Sequence[InputFile], Sequence[InputFile]]


def _sides(context: PlanContext, plan: PartitionPlan, files: Sequence[InputFile]) -> dict[str, _Side]:
    """Outputs with role, files and delete files; a side of a minor without any visible event is left out."""
    inserts = [file for file in files if not file.deletes]
    deletes = [file for file in files if file.deletes]
    if not context.minor:
        return {plan.outputs[0].name: (Role.SURVIVING, inserts, deletes)}
    sides: dict[str, _Side] = {}
    for output in plan.outputs:
        of_deletes = output.kind == EntryKind.DELETE_DELTA.value
        own = deletes if of_deletes else inserts
        if any(has_visible_rows(file, context.compactor_ids) for file in own):
            sides[output.name] = (Role.DELETES if of_deletes else Role.INSERTS, own, ())
    return sides


def _require_of_version(context: PlanContext, files: Sequence[InputFile]) -> None:
    """Whether rows that Hive 1 and 2 update in place can be merged by this kind of compaction."""
    if context.acid_v1:
        for file in files:
            named = named_bucket(file)
            if file.is_acid and file.rows and file.buckets != (named,):
                raise NotPlannedError(
                    "v1_buckets",
                    f"{file.path} holds rows of bucket {describe_ids(file.buckets)}; Hive 1 and 2 bring updates and "
                    "rows together by the names of files, so that readers see other rows than a compaction would "
                    "write: give the file back its name",
                )
        return
    updated = next((file for file in files if file.updates), None)
    if updated is not None and context.minor:
        raise NotPlannedError(
            "acid_v1_minor",
            f"{updated.path} holds updates or deletes among its rows, as Hive 1 and 2 wrote them; run a major "
            "compaction",
        )


def _require_joinable(schema: TableSchema | None, files: Sequence[InputFile]) -> None:
    """Whether readers see the same in insert-only files that are put one behind the other."""
    texts = [file for file in files if file.table_format == "text"]
    if len(texts) > 1:
        _require_plain_text(schema, texts)
    unnumbered = next((file for file in files if not file.buckets), None)
    if schema is not None and schema.bucket_count is not None and unnumbered is not None:
        why = f"the table is bucketed, but the name of {unnumbered.path} has no bucket number"
        raise NotPlannedError("no_bucket", why)


def _require_plain_text(schema: TableSchema | None, texts: Sequence[InputFile]) -> None:
    """Readers must take nothing at the ends of each text file, or its lines, in their own way."""
    marked = next((file for file in texts if file.first_line.startswith(_BYTE_ORDER_MARK)), None)
    if marked is not None:
        raise NotPlannedError(
            "text_mark",
            f"{marked.path} begins with a byte order mark, which readers remove only at the beginning of a file",
        )
    if schema is None or not schema.from_ddl:
        first = texts[0].first_line
        if first and all(file.first_line == first for file in texts):
            raise NotPlannedError(
                "text_maybe_header",
                "all text files begin with the same line, which may be a header; give the text of SHOW CREATE TABLE as "
                "--schema to tell",
            )
        return
    cut = next((key for key in _CUT_LINES if (schema.table_property(key) or "0").strip() != "0"), None)
    if cut is not None:
        why = f"each text file has header or footer lines ({cut}), which would become rows"
        raise NotPlannedError("text_header", why)
    if schema.table_property(_LINE_ENDS) is not None:
        why = f"lines end with a delimiter of their own ({_LINE_ENDS}), so that files cannot be joined"
        raise NotPlannedError("text_lines", why)
