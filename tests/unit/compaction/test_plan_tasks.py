"""Files divided into tasks: by decoded bucket, with the deletes that may concern them, cut where they are large."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from acidctl.compaction.footers import InputFile, StripeStart
from acidctl.compaction.plan import KeyCut, NotPlannedError, PlannedTask, Role
from acidctl.compaction.tasks import (
    has_visible_rows,
    make_plain_tasks,
    make_tasks,
    require_plannable,
)
from acidctl.format.bucket_codec import encode
from acidctl.format.write_ids import ValidWriteIds

B0 = encode(0)
LARGE = 1 << 40


def file(name: str, *buckets: int, rows: int = 10, size: int = 100, ids: tuple[int, int] | None = (1, 1)) -> InputFile:
    """A file of ACID events."""
    return InputFile(name, name.partition("/")[0], size, rows, 1, buckets=buckets, write_ids=ids)


def tasks_of(
    files: list[InputFile], deletes: list[InputFile] | None = None, split: int = LARGE
) -> tuple[PlannedTask, ...]:
    """Tasks of a major compaction."""
    return make_tasks("base_2", Role.SURVIVING, files, deletes or [], split)


def _refusal(files: list[InputFile], *, insert_only: bool) -> str | None:
    """The code with which files are refused."""
    try:
        require_plannable(files, insert_only=insert_only)
    except NotPlannedError as why:
        return why.code
    return None


def test_a_file_of_several_buckets_is_in_several_tasks() -> None:
    """What the rows say counts, not the name."""
    made = tasks_of([file("a/bucket_00000", 0), file("b/bucket_00000", 0, 2), file("c/bucket_00007", 2)])
    assert [(t.output, t.bucket_id, t.files) for t in made] == [
        ("base_2/bucket_00000", 0, ("a/bucket_00000", "b/bucket_00000")),
        ("base_2/bucket_00002", 2, ("b/bucket_00000", "c/bucket_00007")),
    ]
    assert [(t.rows_in, t.bytes_in, t.cuts) for t in made] == [(20, 200, ())] * 2


def test_files_without_rows_make_no_task() -> None:
    """A bucket without rows gets no file."""
    assert tasks_of([file("a/bucket_00000", 0, rows=0), file("b/bucket_00001")]) == ()


@pytest.mark.parametrize(
    ("delete", "expected"),
    [
        (file("d/bucket_00000", 0, ids=(1, 1)), True),
        (file("d/bucket_00001", 0, 1, ids=(1, 9)), True),
        (file("d/bucket_00001", 1, ids=(1, 1)), False),
        (file("d/bucket_00000", 1, ids=(1, 1)), True),
        (file("d/x", 1, ids=(1, 1)), True),
        (file("d/bucket_00000", 0, ids=(4, 9)), True),
        (file("d/bucket_00000", 0, ids=None), True),
        (file("d/bucket_00000", 0, rows=0), False),
    ],
)
def test_delete_files_go_where_they_may_matter(delete: InputFile, expected: bool) -> None:
    """By bucket, where name and statistics agree; what is not known counts as yes."""
    made = tasks_of([file("a/x", 0, ids=(1, 3))], [replace(delete, deletes=True)])
    assert bool(made[0].delete_files) is expected
    assert made[0].bytes_in == (200 if expected else 100)


def striped(name: str, starts: list[tuple[KeyCut, int]], size: int) -> InputFile:
    """A file with stripes."""
    return replace(file(name, 0, size=size), stripes=tuple(StripeStart(key, at) for key, at in starts))


def test_large_buckets_are_cut_at_stripes_of_the_largest_file() -> None:
    """Into parts of about the asked size, never more than stripes allow."""
    starts = [(KeyCut(1, B0, i * 10), i * 100) for i in range(1, 10)]
    files = [striped("a/x", starts, 1000), file("b/x", 0, size=200)]
    assert tasks_of(files, split=1200)[0].cuts == ()
    assert [cut.row_id for cut in tasks_of(files, split=600)[0].cuts] == [50]
    assert [cut.row_id for cut in tasks_of(files, split=400)[0].cuts] == [40, 70]
    assert len(tasks_of(files, split=1)[0].cuts) == 9


def test_cuts_ascend_whatever_the_footers_claim() -> None:
    """A lying key index makes parts uneven and no worse."""
    keys = [
        KeyCut(1, B0, 10),
        KeyCut(1, B0, 5),
        KeyCut(1, B0, 10),
        KeyCut(1, B0 + 1, 0),
        KeyCut(0, B0, 99),
        KeyCut(2, B0, 0),
    ]
    made = tasks_of([striped("a/x", [(key, i * 10) for i, key in enumerate(keys, 1)], 70)], split=1)[0].cuts
    assert made == (KeyCut(1, B0, 10), KeyCut(1, B0 + 1, 0), KeyCut(2, B0, 0))


def test_files_without_row_ids_are_cut_by_the_numbers_their_rows_get() -> None:
    """Rows of a further file go on where the one before it ended."""
    first = replace(file("000000_0", 0, rows=30, ids=(0, 0)), is_acid=False, raw=(0, B0))
    second = replace(
        striped("000000_0_copy_1", [(KeyCut(0, B0, 25), 500)], 1000),
        is_acid=False,
        raw=(0, B0),
        before="000000_0",
    )
    assert tasks_of([first, second], split=600)[0].cuts == (KeyCut(0, B0, 55),)


def test_both_sides_of_a_minor() -> None:
    """Each side has its own files and no delete files."""
    made = (
        *make_tasks("delta_1_2", Role.INSERTS, [file("a/x", 0)], (), LARGE),
        *make_tasks("delete_delta_1_2", Role.DELETES, [replace(file("d/x", 0, 1), deletes=True)], (), LARGE),
    )
    assert [(t.role, t.output, t.files, t.delete_files) for t in made] == [
        (Role.INSERTS, "delta_1_2/bucket_00000", ("a/x",), ()),
        (Role.DELETES, "delete_delta_1_2/bucket_00000", ("d/x",), ()),
        (Role.DELETES, "delete_delta_1_2/bucket_00001", ("d/x",), ()),
    ]


def plain(name: str, file_format: str = "orc", number: int | None = 0, **more: Any) -> InputFile:
    """A file of an insert-only table."""
    buckets = () if number is None else (number,)
    known = InputFile(name, name.partition("/")[0], 50, 5, 1, is_acid=False, file_format=file_format, buckets=buckets)
    return replace(known, **more)


def test_insert_only_files_keep_their_numbers() -> None:
    """Bucketed tables find rows by the number of the file."""
    files = [plain("a/000000_0"), plain("a/000001_0", number=1), plain("b/000000_0"), plain("b/part-x", number=None)]
    made = make_plain_tasks("base_2", files)
    assert [(t.role, t.output, t.files) for t in made] == [
        (Role.ROWS, "base_2/000000_0", ("a/000000_0", "b/000000_0", "b/part-x")),
        (Role.ROWS, "base_2/000001_0", ("a/000001_0",)),
    ]


def test_compressed_text_stays_compressed_text() -> None:
    """Plain and compressed text never meet in one file, and names tell which is which."""
    files = [plain("a/0", "text", rows=0), plain("b/0.gz", "gzip", rows=0), plain("c/0", "text", rows=0, size=0)]
    made = make_plain_tasks("base_2", files)
    assert [(t.role, t.output, t.files) for t in made] == [
        (Role.BYTES, "base_2/000000_0", ("a/0",)),
        (Role.BYTES, "base_2/000000_0.gz", ("b/0.gz",)),
    ]
    assert _refusal(files, insert_only=True) is None


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ([plain("a/0"), plain("b/0", "parquet")], "mixed_formats"),
        ([plain("a/0", "avro")], "file_format"),
        ([plain("a/0.bz2", "text compressed as .bz2")], "file_format"),
        ([plain("a/0", "parquet", shape="id: int32"), plain("b/0", "parquet", shape="id: int64")], "schema_unclear"),
        ([plain("a/0", "parquet", shape="id: int32"), plain("b/0", "parquet", shape="id: int32")], None),
        ([], None),
    ],
)
def test_formats_of_insert_only_tables(files: list[InputFile], code: str | None) -> None:
    """One format that acidctl can write, or a refusal."""
    assert _refusal(files, insert_only=True) == code


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"raw": (0, B0)}, None),
        ({"raw": (0, None)}, "no_row_ids"),
        ({"raw": (0, None), "rows": 0}, None),
        ({"raw": (0, B0), "apart": True}, "v1_copies"),
        ({"raw": (0, B0), "before": "acid"}, "mixed_files"),
        ({"raw": (0, B0), "before": "raw"}, None),
    ],
)
def test_rows_without_row_ids(change: dict[str, Any], code: str | None) -> None:
    """Files from before the table was ACID need names that number their rows beyond doubt."""
    acid = file("acid", 0)
    raw = replace(file("raw", 0), is_acid=False, raw=(0, B0))
    odd = replace(file("odd", 0), is_acid=False, **change)
    assert _refusal([acid, raw, odd], insert_only=False) == code


def test_visible_rows_as_far_as_tails_tell() -> None:
    """A file whose write ids are all aborted adds nothing; a delete file may hold deletes of any write."""
    ids = ValidWriteIds.parse("t:9:9223372036854775807::3,4").compactor()
    assert not has_visible_rows(file("a", 0, ids=(3, 4)), ids)
    assert has_visible_rows(file("a", 0, ids=(3, 5)), ids)
    assert has_visible_rows(file("a", 0, ids=None), ids)
    assert not has_visible_rows(file("a", 0, rows=0), ids)
    assert has_visible_rows(replace(file("a", 0, ids=(3, 4)), deletes=True), ids)
