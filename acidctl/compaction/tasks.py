"""Divide a location's files into tasks: one output file each, buckets as the rows have them, large ones cut by keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from acidctl.compaction.plan import Action, CompactionKind, KeyCut, PartitionPlan, PlannedTask, Role
from acidctl.compaction.planner import PartitionDraft, PlanContext, already_there
from acidctl.format.names import BucketFile, format_bucket_file, parse_file
from acidctl.format.write_ids import RangeAnswer, ValidWriteIds, describe_ids
from acidctl.state.entries import EntryKind
from acidctl.types.hive_types import Dialect, StructType
from acidctl.types.schema import TableSchema

_ORC = "orc"
_TEXT_FORMATS = ("text", "gzip")
MAX_PARTS = 4096


NO_COLUMNS = StructType(())


@dataclass(frozen=True, slots=True)
class StripeStart:
    """A key at or before the first row of a stripe, and the bytes of the file before that stripe."""

    key: KeyCut
    offset: int


@dataclass(frozen=True, slots=True)
class InputFile:
    """What the tail of an input file says, and where the file belongs.

    `size` is its logical length in bytes. `buckets` are the bucket ids that its rows have, decoded; of an insert-only
    table the one of its name, or none. `write_ids` bounds the original write ids of its rows where that is known.
    `updates` says that events other than inserts are known to lie among the rows, as in ACID v1. `raw` is (write id,
    bucket property) of the rows of a file without ACID columns, whose row numbers go on from those of `before`, the
    path of the file before it. `newest` is the largest write id of its directory's name. `shape` tells schemas apart
    where `columns` cannot (Parquet). `first_line` is that of a text file, expanded, as far as it was looked at.
    """

    path: str
    entry: str
    size: int
    rows: int
    newest: int
    deletes: bool = False
    is_acid: bool = True
    columns: StructType = NO_COLUMNS
    dialect: Dialect = Dialect.HIVE4
    codec: str = "none"
    file_format: str = _ORC
    buckets: tuple[int, ...] = ()
    write_ids: tuple[int, int] | None = None
    updates: bool = False
    stripes: tuple[StripeStart, ...] = ()
    raw: tuple[int, int | None] | None = None
    before: str | None = None
    apart: bool = False
    shape: str = ""
    first_line: bytes = b""


@dataclass(frozen=True, slots=True)
class OutputSide:
    """One output directory with the files whose events go into it, and the delete files that may concern them."""

    directory: str
    role: Role
    files: tuple[InputFile, ...]
    delete_files: tuple[InputFile, ...] = ()


def problem_of(files: Sequence[InputFile], *, insert_only: bool) -> tuple[str, str] | None:
    """Code and reason where these files cannot be compacted, None where they can."""
    formats = sorted({file.file_format for file in files})
    if insert_only:
        return _format_problem(files, formats)
    named = {file.path: file for file in files}
    for file in files:
        if file.is_acid or not file.rows:
            continue
        if file.apart:
            return (
                "v1_copies",
                f"{file.path} is a second file of its bucket from before the table was ACID, and Hive 1 and 2 give "
                "its rows the ids of other rows; upgrade the table to a newer Hive first",
            )
        if file.raw is None or file.raw[1] is None:
            return "no_row_ids", f"the name of {file.path} has no bucket number, so that its rows have no row ids"
        before = file.before
        while before is not None and before in named:
            if named[before].is_acid and named[before].rows:
                return (
                    "mixed_files",
                    f"{file.path} has no ACID columns, but {before} beside it has; their row ids are ambiguous",
                )
            before = named[before].before
    return None


def _format_problem(files: Sequence[InputFile], formats: Sequence[str]) -> tuple[str, str] | None:
    for file in files:
        if file.file_format == _ORC and file.is_acid and file.rows:
            return "ambiguous_table_type", f"{file.path} holds events of a full ACID table, so it is not insert-only"
        if file.file_format not in (_ORC, "parquet", *_TEXT_FORMATS):
            return (
                "file_format",
                f"{file.path} is of a format that acidctl does not write ({file.file_format}); compact with Hive",
            )
    kinds = {plain_format(name) for name in formats}
    if len(kinds) > 1:
        return "mixed_formats", f"the files are of several formats ({', '.join(sorted(kinds))}); compact with Hive"
    schemas: dict[str, InputFile] = {}
    for file in files:
        schemas.setdefault(file.shape, file)
    if len(schemas) > 1:
        first, second, *_ = schemas.values()
        return "schema_unclear", f"{first.path} and {second.path} have different columns; compact with Hive"
    return None


def plain_format(file_format: str) -> str:
    """Format of a table for a format of a file: compressed text is text."""
    return "text" if file_format in _TEXT_FORMATS else file_format


def make_tasks(sides: Iterable[OutputSide], split_bytes: int) -> tuple[PlannedTask, ...]:
    """Tasks of full ACID outputs, one per bucket with rows."""
    tasks: list[PlannedTask] = []
    for side in sides:
        groups: dict[int, list[InputFile]] = defaultdict(list)
        for file in side.files:
            for bucket_id in file.buckets if file.rows else ():
                groups[bucket_id].append(file)
        offsets = _row_offsets(side.files)
        for bucket_id in sorted(groups):
            files = groups[bucket_id]
            deletes = [file for file in side.delete_files if _may_concern(file, bucket_id)]
            task = PlannedTask(
                role=side.role,
                output=f"{side.directory}/{format_bucket_file(bucket_id)}",
                bucket_id=bucket_id,
                files=tuple(file.path for file in files),
                delete_files=tuple(file.path for file in deletes),
                rows_in=sum(file.rows for file in files),
                bytes_in=sum(file.size for file in (*files, *deletes)),
            )
            tasks.append(replace(task, cuts=_cuts(files, offsets, task.bytes_in, split_bytes)))
    return tuple(tasks)


def make_plain_tasks(directory: str, files: Sequence[InputFile]) -> tuple[PlannedTask, ...]:
    """Tasks of an insert-only output: files of equal number go into one, so that buckets stay buckets."""
    groups: dict[tuple[int, bool], list[InputFile]] = defaultdict(list)
    for file in files:
        if file.size and (file.rows or file.file_format in _TEXT_FORMATS):
            groups[file.buckets[0] if file.buckets else 0, file.file_format == "gzip"].append(file)
    tasks = []
    for (number, compressed), members in sorted(groups.items()):
        text = members[0].file_format in _TEXT_FORMATS
        # Hive tells compressed text by the ending of its name.
        ending = ".gz" if compressed else ""
        task = PlannedTask(
            role=Role.BYTES if text else Role.ROWS,
            output=f"{directory}/{number:06d}_0{ending}",
            bucket_id=number,
            files=tuple(file.path for file in members),
            rows_in=sum(file.rows for file in members),
            bytes_in=sum(file.size for file in members),
        )
        tasks.append(task)
    return tuple(tasks)


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
    name = parse_file(delete.path.rpartition("/")[2])
    named = name.bucket_id if isinstance(name, BucketFile) else None
    return bucket_id in delete.buckets or named is None or bucket_id == named


def _row_offsets(files: Sequence[InputFile]) -> Mapping[str, int]:
    """Row number of the first row of each file without ACID columns; files come in path order."""
    offsets: dict[str, int] = {}
    rows = {file.path: file.rows for file in files}
    for file in files:
        if not file.is_acid:
            offsets[file.path] = 0 if file.before is None else offsets.get(file.before, 0) + rows.get(file.before, 0)
    return offsets


def _cuts(files: Sequence[InputFile], offsets: Mapping[str, int], size: int, split_bytes: int) -> tuple[KeyCut, ...]:
    """Keys that divide a bucket into parts of about `split_bytes`, at stripes of its largest file."""
    if size <= split_bytes:
        return ()
    largest = max(files, key=lambda file: (len(file.stripes) > 0, file.size))
    parts = min(-(-size // split_bytes), MAX_PARTS)
    shift = 0 if largest.is_acid else offsets.get(largest.path, 0)
    cuts: list[KeyCut] = []
    for stripe in largest.stripes:
        key = replace(stripe.key, row_id=stripe.key.row_id + shift)
        due = stripe.offset * parts >= (len(cuts) + 1) * largest.size
        if due and (not cuts or _order(cuts[-1]) < _order(key)):
            cuts.append(key)
    return tuple(cuts[: parts - 1])


def _order(key: KeyCut) -> tuple[int, int, int]:
    return key.write_id, key.bucket_property, key.row_id


# --- The plan of one location, once its files are known.


def plan_location(context: PlanContext, draft: PartitionDraft, files: Sequence[InputFile]) -> PartitionPlan:
    """The plan of one location; `files` are all of its inputs, in the order of directories and paths."""
    plan = draft.plan
    problem = problem_of(files, insert_only=context.insert_only) or _problem_of_table(context, files)
    if problem is not None:
        return plan.refused(*problem)
    rows = sum(file.rows for file in files)
    if context.insert_only:
        whole = replace(plan.outputs[0], rows_in=rows)
        return replace(plan, outputs=(whole,), rows_in=rows, tasks=make_plain_tasks(whole.name, files))
    sides = _sides(context, plan, files)
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
        return plan.refused("output_exists", f"{first} exists, but not all of {', '.join(sorted(names))}")
    protected = context.request.visibility_txn is not None or context.request.assume_exclusive
    if len(outputs) > 1 and not protected:
        return plan.refused(
            "needs_two_renames",
            f"a minor compaction publishes two directories ({outputs[0].name} and {outputs[1].name}), and a reader "
            "between the two renames would see wrong rows. Use --visibility-txn, or --assume-exclusive while nobody "
            "uses the table",
        )
    tasks = make_tasks(sides, context.request.split_bytes)
    return replace(plan, outputs=outputs, tasks=tasks, rows_in=rows)


def _is_of_another_bucket(file: InputFile) -> bool:
    """Whether a file of events is called a bucket that is not that of its rows."""
    name = parse_file(file.path.rpartition("/")[2])
    return file.is_acid and bool(file.rows) and isinstance(name, BucketFile) and file.buckets != (name.bucket_id,)


def _problem_of_table(context: PlanContext, files: Sequence[InputFile]) -> tuple[str, str] | None:
    """Code and reason where the kind of compaction, or what the DDL says, forbids these files."""
    schema = context.view.schema
    if not context.insert_only:
        renamed = next((file for file in files if context.acid_v1 and _is_of_another_bucket(file)), None)
        if renamed is not None:
            return (
                "v1_buckets",
                f"{renamed.path} holds rows of bucket {describe_ids(renamed.buckets)}; Hive 1 and 2 bring updates and "
                "rows together by the names of files, so that readers see other rows than a compaction would write: "
                "give the file back its name",
            )
        updated = next((file for file in files if file.updates), None)
        if updated is None or context.acid_v1 or context.request.kind == CompactionKind.MAJOR.value:
            return None
        return (
            "acid_v1_minor",
            f"{updated.path} holds updates or deletes among its rows, as Hive 1 and 2 wrote them; run a major "
            "compaction",
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
        return "no_bucket", f"the table is bucketed, but the name of {unnumbered.path} has no bucket number"
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
            f"{marked.path} begins with a byte order mark, which readers remove only at the beginning of a file",
        )
    if schema is None or not schema.from_ddl:
        first = texts[0].first_line
        if first and all(file.first_line == first for file in texts):
            return (
                "text_maybe_header",
                "all text files begin with the same line, which may be a header; give the text of SHOW CREATE TABLE as "
                "--schema to tell",
            )
        return None
    cut = next((key for key in _CUT_LINES if (schema.table_property(key) or "0").strip() != "0"), None)
    if cut is not None:
        return "text_header", f"each text file has header or footer lines ({cut}), which would become rows"
    if schema.table_property(_LINE_ENDS) is not None:
        return "text_lines", f"lines end with a delimiter of their own ({_LINE_ENDS}), so that files cannot be joined"
    return None


def _sides(context: PlanContext, plan: PartitionPlan, files: Sequence[InputFile]) -> list[OutputSide]:
    """The outputs with their files; a side of a minor without any visible event is left out."""
    inserts = tuple(file for file in files if not file.deletes)
    deletes = tuple(file for file in files if file.deletes)
    if context.request.kind == CompactionKind.MAJOR.value:
        return [OutputSide(plan.outputs[0].name, Role.SURVIVING, inserts, deletes)]
    sides = []
    for output in plan.outputs:
        of_deletes = output.kind == EntryKind.DELETE_DELTA.value
        own = deletes if of_deletes else inserts
        if any(has_visible_rows(file, context.compactor_ids) for file in own):
            sides.append(OutputSide(output.name, Role.DELETES if of_deletes else Role.INSERTS, own))
    return sides
