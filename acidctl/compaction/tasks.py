"""Divide a location's files into tasks: one output file each, buckets as the rows have them, large ones cut by keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from acidctl.compaction.plan import KeyCut, PlannedTask, Role
from acidctl.format.names import BucketFile, format_bucket_file, parse_file
from acidctl.format.write_ids import RangeAnswer, ValidWriteIds
from acidctl.types.hive_types import Dialect, StructType

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
class Side:
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
                f"{file.path} is a further file of its bucket from before the table was ACID, and Hive 1 and 2 give "
                "its rows the ids of other rows; let a newer Hive take over the table first",
            )
        if file.raw is None or file.raw[1] is None:
            return "no_row_ids", f"the name of {file.path} tells no bucket, so that its rows have no row ids"
        before = file.before
        while before is not None and before in named:
            if named[before].is_acid and named[before].rows:
                return (
                    "mixed_files",
                    f"{file.path} has no ACID columns and {before} beside it has; how Hive numbers their rows together "
                    "is not certain",
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
    shapes: dict[str, InputFile] = {}
    for file in files:
        shapes.setdefault(file.shape, file)
    if len(shapes) > 1:
        first, second, *_ = shapes.values()
        return "schema_unclear", f"{first.path} and {second.path} have different columns; compact with Hive"
    return None


def plain_format(file_format: str) -> str:
    """Format of a table for a format of a file: compressed text is text."""
    return "text" if file_format in _TEXT_FORMATS else file_format


def make_tasks(sides: Iterable[Side], split_bytes: int) -> tuple[PlannedTask, ...]:
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

    No books would miss a file that was left out, and rows would come back. So its statistics are believed only where
    its name says the same, and those of write ids not at all. Hive 3.1 writes deletes of other buckets into a file.
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
