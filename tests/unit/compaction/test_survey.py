"""Plans over real tables: what tails tell, what Hive itself made of the same input, and what is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from shutil import copytree
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from restore import restore

from acidctl import open_table
from acidctl.compaction import plan
from acidctl.compaction.decision import decide
from acidctl.compaction.plan import Action, CompactionKind, CompactionPlan, Role, TableView, Target
from acidctl.errors import DamagedDataError, ExitCode, NotEnoughHistoryError, StorageError, UsageError
from acidctl.format.bucket_codec import encode
from acidctl.format.names import MIN_LONG, BaseDir, DeltaDir, format_base, parse_directory
from acidctl.maintenance.work_dir import list_location
from acidctl.options import CompactOptions, ReadView
from acidctl.orc.reader import OrcFile
from acidctl.rows.table_view import read
from acidctl.storage.local import LocalStorage
from acidctl.storage.locations import gather
from tests import ROOT
from tests.support.covering import chosen_steps
from tests.support.evolved import dropped_columns
from tests.support.extent import amount
from tests.support.memory import MemoryStorage
from tests.support.steps import Step

TABLES = ROOT / "fixtures" / "tables"
STEPS = sorted(path.parent for path in TABLES.glob("*/*/*/step.json"))
MINOR, MAJOR = CompactionKind.MINOR, CompactionKind.MAJOR
KINDS = {"full": "full", "insert_only": "insert-only"}
TABLE = "/w/t"
Files = dict[str, bytes]


def step_of(path: Path) -> dict[str, Any]:
    """The facts of a step."""
    found: dict[str, Any] = json.loads((path / "step.json").read_text())
    return found


@cache
def _files_of(path: Path) -> Files:
    restore(path / "step.json")
    table = path / "table"
    files = {
        f"{TABLE}/{f.relative_to(table)}" + ("/" if f.is_dir() else ""): b"" if f.is_dir() else f.read_bytes()
        for f in sorted(table.rglob("*"))
    }
    return files or {f"{TABLE}/": b""}


def files_of(name: str | Path) -> Files:
    """A step's table, to be changed at will."""
    return dict(_files_of(TABLES / name))


def plan_of(
    files: Files | MemoryStorage,
    kind: CompactionKind,
    step: dict[str, Any] | None = None,
    *,
    ddl: bool = True,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
    **options: Any,
) -> CompactionPlan:
    """The plan for files in memory; with a step by its lists and its DDL, else what is on disk is committed."""
    storage = files if isinstance(files, MemoryStorage) else MemoryStorage(files)
    locations = gather(storage, TABLE)
    view: dict[str, Any] = {"schema": options.pop("schema", None)}
    if step is None:
        options.setdefault("assume_committed", True)
        view["table_type"] = options.pop("table_type", "full")
    else:
        view["validtxns"] = [step[key] for key in ("valid_write_ids", "valid_txns") if step[key]]
        view["list_format"] = "hive2" if step["engine"] == "hive2" else None
        view["schema"] = step["ddl"] if ddl else view["schema"]
        view["table_type"] = KINDS.get(step["kind"], "full")
    readings = read(locations, ReadView.of(**view))
    table = TableView(readings.lists, readings.kind._replace(ambiguous=False), readings.schema)
    options.setdefault("assume_exclusive", True)
    return decide(storage, TABLE, locations, table, CompactOptions(kind.value, **options), progress=progress).plan


def one(made: CompactionPlan) -> plan.PartitionPlan:
    """The only partition."""
    (found,) = made.partitions
    return found


def check_sound(made: CompactionPlan, files: Files) -> None:
    """What must hold of every plan over a table of these files."""
    assert plan.parse(json.dumps(plan.to_json(made))) == made
    for part in made.partitions:
        if part.action is not Action.COMPACT:
            assert part.reason
            assert part.reason_code
            assert (part.inputs, part.outputs, part.tasks) == ((), (), ())
            continue
        root = f"{TABLE}/{part.path}" if part.path else TABLE
        known = {info.path for entry in part.inputs for info in entry.files}
        assert {f"{root}/{path}" for path in known} <= files.keys()
        names = {output.name for output in part.outputs}
        assert len({task.output for task in part.tasks}) == len(part.tasks)
        for task in part.tasks:
            assert task.output.partition("/")[0] in names
            assert task.files
            assert {*task.files, *task.delete_files} <= known
            assert task.role is Role.SURVIVING or not task.delete_files
            assert task.rows_in or made.table.file_format == "text"
            assert task.bytes_in
        assert part.fingerprint == plan.fingerprint_of(part.inputs)
        assert made.table.columns != "struct<>" or made.table.file_format != "orc"


def dirs(path: Path) -> dict[str, set[str]]:
    """Names of bases and deltas by partition."""
    found: dict[str, set[str]] = {}
    for file in _files_of(path):
        parts = file.removeprefix(f"{TABLE}/").split("/")
        for i, part in enumerate(parts):
            if isinstance(parse_directory(part), BaseDir | DeltaDir):
                found.setdefault("/".join(parts[:i]), set()).add(part)
                break
    return found


def _lost(path: Path) -> tuple[str, ...]:
    """What the step's DDL costs, by the Hive that wrote it."""
    return dropped_columns(path, "hive4" if path.parts[-3] == "hive4" else "hive3")[1:]


SLOW = pytest.mark.slow


@SLOW
@pytest.mark.parametrize(
    "path", [step.folder for step in chosen_steps(map(Step, STEPS))], ids=lambda p: str(p.relative_to(TABLES))
)
def test_every_step_has_a_plan_or_a_reason(path: Path) -> None:
    """With the DDL and without; refusals are those that are known."""
    step = step_of(path)
    if step["kind"] not in KINDS:
        pytest.skip("not transactional")
    known = {"acid_v1_minor", "v1_copies"} if step["engine"] == "hive2" else set()
    if path.parent.name in ("evolution_converted", "insert_only_parquet"):
        known.add("schema_unclear")
    if path.parent.name == "insert_only_text_delimited":
        known.add("file_format")
    # Parquet files whose columns differ are left to Hive, whatever the DDL says.
    any_ddl = path.parent.name == "insert_only_parquet"
    for kind in (MINOR, MAJOR):
        for ddl in (True, False):
            try:
                made = plan_of(files_of(path), kind, step, ddl=ddl, drop_columns=_lost(path) if ddl else ())
            except NotEnoughHistoryError:
                assert path.parent.name == "old_reader"
                continue
            check_sound(made, files_of(path))
            codes = {part.reason_code for part in made.partitions if part.action is Action.REFUSED}
            assert codes <= known
            assert "schema_unclear" not in codes or not ddl or any_ddl


def compactions() -> Iterator[tuple[Path, Path, CompactionKind]]:
    """Steps that are nothing but one compaction of what the step before left."""
    for before, path in pairwise(STEPS):
        step = step_of(path)
        words = [text.removeprefix("-- compact: ").split() for text in step["sql"] if text.startswith("-- compact: ")]
        only = all(text.startswith(("-- compact: ", "-- compactor-set: ")) for text in step["sql"])
        if only and len({word[0] for word in words}) == 1 and before.parent == path.parent:
            yield before, path, CompactionKind(words[0][0])


@pytest.mark.parametrize(
    ("before", "path", "kind"),
    [pytest.param(*case, marks=() if "hive4" in str(case[0].relative_to(TABLES)) else SLOW) for case in compactions()],
    ids=lambda v: v.value if isinstance(v, CompactionKind) else str(v.relative_to(TABLES)),
)
def test_hive_made_the_same_of_it(before: Path, path: Path, kind: CompactionKind) -> None:
    """The directories that Hive's own compactor added, by kind and range.

    Hive 3 also writes a side without events, compacts two halves of one range, and names insert-only results after the
    watermark, as query-based compaction names everything. A base of original files alone Hive names after no write.
    """
    step = step_of(before)
    made = plan_of(files_of(before), kind, step, drop_columns=_lost(before))
    known, now = dirs(before), dirs(path)
    for part in made.partitions:
        hive = {name.partition("_v")[0] for name in now.get(part.path, set()) - known.get(part.path, set())}
        ours = {output.name for output in part.outputs}
        if part.action is not Action.COMPACT:
            known_codes = {"acid_v1_minor", "v1_copies", *(["not_enough"] if step["engine"] == "hive3" else [])}
            # Parquet files whose columns differ are left to Hive.
            known_codes |= {"schema_unclear"} if step["scenario"] == "insert_only_parquet" else set()
            assert not hive or part.reason_code in known_codes
            continue
        if not hive:
            # Hive was asked for another partition.
            assert part.partition
            continue
        if [entry.kind for entry in part.inputs] == ["original"]:
            assert hive == {format_base(MIN_LONG)}
            continue
        by_watermark = step["kind"] == "insert_only" or path.parent.name == "tez_compaction"
        if by_watermark:
            assert {type(parse_directory(name)) for name in hive} == {type(parse_directory(name)) for name in ours}
        elif step["engine"] == "hive4":
            assert ours == hive
        else:
            empty = {o for o in hive - ours if not o.startswith("base_")}
            assert ours == hive - empty


def test_a_plan_in_full() -> None:
    """The bundled table: inputs, outputs, tasks, columns and why."""
    made = plan_of(files_of("hive4/demo_orders/01-updated"), MAJOR, step_of(TABLES / "hive4/demo_orders/01-updated"))
    part = one(made)
    assert [output.name for output in part.outputs] == ["base_0000004"]
    assert [(t.bucket_id, len(t.files), len(t.delete_files)) for t in part.tasks] == [(0, 3, 1), (1, 2, 1)]
    assert (part.rows_in, sum(t.rows_in for t in part.tasks)) == (14, 10)
    assert part.bytes_in == sum(info.size for entry in part.inputs for info in entry.files)
    assert (made.location, made.target, made.kind) == (TABLE, Target.HIVE4, MAJOR)
    assert made.table.table_type == "full"
    assert made.table.dialect == "hive4"
    assert made.table.write_ids == made.write_ids
    assert any("detected from the newest files" in note for note in made.notes)


def test_the_target_follows_the_files() -> None:
    """Hive 3 where the files are Hive 3's, unless the user says otherwise."""
    step = step_of(TABLES / "hive3/bucketed/02-changed")
    files = files_of("hive3/bucketed/02-changed")
    assert plan_of(files, MAJOR, step).target is Target.HIVE3
    assert plan_of(files, MAJOR, step, target=Target.HIVE4).target is Target.HIVE4
    published = plan_of(files, MAJOR, step, visibility_txn=10**9)
    assert published.target is Target.HIVE4
    assert one(published).outputs[0].name.endswith("_v1000000000")


def test_a_minor_of_two_results_needs_leave() -> None:
    """Either a transaction under which both appear, or nobody else at the table."""
    step, files = step_of(TABLES / "hive4/bucketed/02-changed"), files_of("hive4/bucketed/02-changed")
    part = one(plan_of(files, MINOR, step, assume_exclusive=False))
    assert (part.action, part.reason_code, part.failed) == (Action.REFUSED, "needs_two_renames", False)
    assert "--assume-exclusive" in part.reason
    assert len(one(plan_of(files, MINOR, step)).outputs) == 2
    assert one(plan_of(files, MINOR, step, assume_exclusive=False, visibility_txn=10**9)).action is Action.COMPACT
    assert one(plan_of(files, MAJOR, step, assume_exclusive=False)).action is Action.COMPACT


def test_a_side_without_events_is_not_written() -> None:
    """Hive 3 leaves delete deltas of no rows behind; one result is left, and one rename does."""
    files = {k: v for k, v in files_of("hive3/delete_all/04-minor-after-major").items() if "/base_" not in k}
    minors = [key for key in files if "/delete_delta_" in key]
    assert minors
    again = {key.replace("0000003_0000003", "0000004_0000004"): data for key, data in files.items()}
    part = one(plan_of({**files, **again}, MINOR, assume_exclusive=False))
    assert part.action is Action.COMPACT, part.reason
    assert [output.name for output in part.outputs] == ["delta_0000003_0000004"]
    assert {entry.kind for entry in part.inputs} == {"delta", "delete_delta"}
    assert {task.role for task in part.tasks} == {Role.INSERTS}


def test_buckets_are_read_where_no_statistics_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Minor results of Hive 3 have no row index: the column itself says which buckets there are."""
    files = files_of("hive3/bucketed/05-minor-cleaned")
    scanned: list[object] = []
    scan = OrcFile.scan

    def noted(self: OrcFile, columns: Any = None, **more: Any) -> Any:
        scanned.append(columns)
        return scan(self, columns, **more)

    monkeypatch.setattr(OrcFile, "scan", noted)
    part = one(plan_of(files, MAJOR))
    assert [(t.bucket_id, len(t.files), len(t.delete_files)) for t in part.tasks] == [(0, 1, 1), (1, 1, 1)]
    assert scanned == [["bucket"]] * 4
    scanned.clear()
    plan_of(files_of("hive4/bucketed/02-changed"), MAJOR)
    assert not scanned


class Counting(MemoryStorage):
    """Counts how often each file is opened."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.opened: dict[str, int] = {}

    def open(self, path: str) -> BinaryIO:
        self.opened[path] = self.opened.get(path, 0) + 1
        return super().open(path)


def test_each_file_is_opened_once_and_only_where_needed() -> None:
    """Partitions without work cost nothing, and progress counts the files of the others."""
    name = "hive4/partitioned/03-one-compacted"
    storage = Counting(files_of(name))
    seen: list[tuple[int, int | None]] = []
    made = plan_of(storage, MAJOR, step_of(TABLES / name), progress=lambda done, total: seen.append((done, total)))
    worked = [part for part in made.partitions if part.action is Action.COMPACT]
    paths = {f"{TABLE}/{p.path}/{info.path}" for p in worked for entry in p.inputs for info in entry.files}
    opened = {path: count for path, count in storage.opened.items() if "bucket_" in path}
    assert opened == dict.fromkeys(paths, 1)
    assert seen == [(done, len(paths)) for done in range(len(paths) + 1)]
    assert len(worked) < len(made.partitions)


def test_large_buckets_are_cut() -> None:
    """Where stripes of the largest file end, which its key index tells."""
    step, files = step_of(TABLES / "hive4/many_rows/01-written"), files_of("hive4/many_rows/01-written")
    ends = [plan.KeyCut(1, encode(0), 1000), plan.KeyCut(1, encode(0), 2000)]
    for size, cuts in ((1, ends), (5_000, ends[1:]), (1 << 30, [])):
        (task,) = one(plan_of(files, MAJOR, step, split_bytes=size)).tasks
        assert list(task.cuts) == cuts


def test_a_damaged_input_is_an_error_or_one_refusal_among_others() -> None:
    """A single location raises; of many the others are planned all the same."""
    files = files_of("hive4/bucketed/02-changed")
    victim = next(path for path in files if "/delta_0000002" in path and "bucket_" in path)
    with pytest.raises(DamagedDataError, match="bucket_0000"):
        plan_of({**files, victim: files[victim][:-9]}, MAJOR)
    name = "hive4/partitioned/02-changed"
    files = files_of(name)
    victim = next(path for path in files if "hr=1/delta_" in path and "bucket_" in path)
    made = plan_of({**files, victim: b"ORC"}, MAJOR, step_of(TABLES / name))
    (bad,) = [part for part in made.partitions if part.action is Action.REFUSED]
    assert (bad.reason_code, bad.failed, made.exit_code) == ("damaged", True, ExitCode.FINDINGS)
    assert f"{TABLE}/{bad.path}/" in victim
    assert any(part.action is Action.COMPACT for part in made.partitions)


class Refusing(MemoryStorage):
    """Refuses to open data files of one partition."""

    def open(self, path: str) -> BinaryIO:
        if "hr=1/delta_" in path:
            raise StorageError(f"{path}: permission denied", path=path)
        return super().open(path)


def test_a_storage_that_refuses_is_a_reason() -> None:
    """One partition without permission does not hide the others."""
    name = "hive4/partitioned/02-changed"
    made = plan_of(Refusing(files_of(name)), MAJOR, step_of(TABLES / name))
    assert {(part.reason_code, part.failed) for part in made.partitions if part.action is Action.REFUSED} == {
        ("storage", True)
    }
    assert made.exit_code == ExitCode.FINDINGS


def test_the_bound_on_bytes_leaves_partitions_for_later() -> None:
    """In the order of paths; a smaller one behind still has its turn."""
    name = "hive4/partitioned/02-changed"
    step, files = step_of(TABLES / name), files_of(name)
    sizes = [part.bytes_in for part in plan_of(files, MAJOR, step).partitions if part.action is Action.COMPACT]
    assert len(sizes) > 1
    made = plan_of(files, MAJOR, step, max_bytes=sizes[0])
    left = [part for part in made.partitions if part.reason_code == "max_bytes"]
    assert len(left) == len(sizes) - 1
    assert (
        one(replace(made, partitions=tuple(p for p in made.partitions if p.action is Action.COMPACT))).bytes_in
        == sizes[0]
    )
    assert all(p.reason_code == "max_bytes" for p in plan_of(files, MAJOR, step, max_bytes=1).partitions if p.bytes_in)


def test_data_beside_partitions_is_left_alone() -> None:
    """Hive reads registered partitions only."""
    name = "hive4/partitioned/02-changed"
    files = files_of(name)
    stray = next(path for path in files if "hr=1/delta_" in path and "bucket_" in path)
    files[f"{TABLE}/delta_0000001_0000001_0000/bucket_00000"] = files[stray]
    made = plan_of(files, MAJOR, step_of(TABLES / name))
    assert all(part.partition for part in made.partitions)
    assert any("beside partition folders" in note for note in made.notes)


def test_columns_come_from_the_files_or_from_the_user() -> None:
    """Partition columns that the user names as well are no data columns."""
    name = "hive4/evolution/04-mixed-types"
    step = step_of(TABLES / name)
    assert plan_of(files_of(name), MAJOR, step, ddl=False).table.columns.startswith("struct<id:")
    name = "hive4/partitioned/02-changed"
    step = step_of(TABLES / name)
    schema = f"{step['columns']}, ds string, hr int"
    made = plan_of(files_of(name), MAJOR, step, ddl=False, schema=schema)
    assert "ds" not in made.table.columns
    assert made.table.columns == plan_of(files_of(name), MAJOR, step).table.columns


def test_a_column_that_changed_its_meaning_needs_the_users_columns() -> None:
    """Hive 3 reads a renamed column by name; for Hive 4 that must be said."""
    name = "hive3/renamed_column/02-inserted"
    step, files = step_of(TABLES / name), files_of(name)
    assert one(plan_of(files, MAJOR, step, ddl=False)).action is Action.COMPACT
    part = one(plan_of(files, MAJOR, step, ddl=False, target=Target.HIVE4))
    assert (part.action, part.reason_code) == (Action.REFUSED, "schema_unclear")
    assert one(plan_of(files, MAJOR, step, target=Target.HIVE4)).action is Action.COMPACT


def test_compression() -> None:
    """The option, else what the newest files have; Hive 3 cannot be given what it cannot read."""
    name = "hive3/bucketed/02-changed"
    step, files = step_of(TABLES / name), files_of(name)
    assert plan_of(files, MAJOR, step).table.writer.compression == "zlib"
    assert plan_of(files, MAJOR, step, compression="LZ4").table.writer.compression == "lz4"
    with pytest.raises(UsageError, match="zstd"):
        plan_of(files, MAJOR, step, compression="zstd")
    ddl = step["ddl"].replace("TBLPROPERTIES (", "TBLPROPERTIES ('orc.compress'='ZSTD', ")
    part = one(plan_of(files, MAJOR, {**step, "ddl": ddl}))
    assert (part.action, part.reason_code) == (Action.REFUSED, "unreadable_codec")
    assert one(plan_of(files, MAJOR, {**step, "ddl": ddl}, compression="zlib")).action is Action.COMPACT


def parquet(*names: str) -> bytes:
    """A file of one row."""
    sink = BytesIO()
    pq.write_table(pa.table({name: [1] for name in names}), sink)
    return sink.getvalue()


A, B = f"{TABLE}/delta_0000001_0000001_0000", f"{TABLE}/delta_0000002_0000002_0000"
UNION = f"{B}/HIVE_UNION_SUBDIR_2"


@pytest.mark.parametrize(
    ("files", "outcome"),
    [
        ({f"{A}/000000_0": b"1\n", f"{B}/000000_0": b"2"}, ["bytes base_0000002/000000_0 2"]),
        (
            {f"{A}/000000_0": b"1\n", f"{UNION}/000001_0": b"2"},
            ["bytes base_0000002/000000_0 1", "bytes base_0000002/000001_0 1"],
        ),
        (
            {f"{A}/000000_0.gz": gzip.compress(b"1\n"), f"{B}/000000_0": b"2", f"{B}/000001_0": b""},
            ["bytes base_0000002/000000_0 1", "bytes base_0000002/000000_0.gz 1"],
        ),
        ({f"{A}/000000_0": parquet("a"), f"{B}/000000_0": parquet("a")}, ["rows base_0000002/000000_0 2"]),
        ({f"{A}/000000_0": parquet("a"), f"{B}/000000_0": parquet("b")}, "schema_unclear"),
        ({f"{A}/000000_0": parquet("a"), f"{B}/000000_0": b"2"}, "mixed_formats"),
        ({f"{A}/000000_0": b"Obj\x01..", f"{B}/000000_0": b"Obj\x01.."}, "file_format"),
        ({f"{A}/000000_0": b"SEQ\x06..", f"{B}/000000_0": b"SEQ\x06.."}, "file_format"),
        ({f"{A}/000000_0": gzip.compress(b"1\n"), f"{B}/000000_0": b"2"}, "file_format"),
        ({f"{A}/000000_0.gz": b"1\n", f"{B}/000000_0": b"2"}, "file_format"),
        ({f"{A}/000000_0.bz2": b"BZh9", f"{B}/000000_0": b"2"}, "file_format"),
        ({f"{A}/000000_0": b"", f"{B}/000000_0": b""}, []),
    ],
)
def test_insert_only_tables_of_any_format(files: Files, outcome: list[str] | str) -> None:
    """One file per number and way of compression, or a refusal with a stable code."""
    part = one(plan_of(files, MAJOR, table_type="insert-only"))
    if isinstance(outcome, str):
        assert (part.action, part.reason_code) == (Action.REFUSED, outcome)
        return
    assert part.action is Action.COMPACT
    assert [f"{t.role.value} {t.output} {len(t.files)}" for t in part.tasks] == outcome
    assert [name for name, _ in part.outputs[0].markers] == ["_metadata_acid"]


DDL = "create table t (a string) {} tblproperties ('transactional'='true', 'transactional_properties'='insert_only'{})"


@pytest.mark.parametrize(
    ("clause", "more", "name", "code"),
    [
        ("", "", "part-0", ""),
        ("clustered by (a) into 2 buckets", "", "000001_0", ""),
        ("clustered by (a) into 2 buckets", "", "part-0", "no_bucket"),
        ("", ", 'skip.header.line.count'='0'", "000001_0", ""),
        ("", ", 'skip.header.line.count'='1'", "000001_0", "text_header"),
        ("", ", 'skip.footer.line.count'='2'", "000001_0", "text_header"),
        ("", ", 'textinputformat.record.delimiter'=';'", "000001_0", "text_lines"),
    ],
)
def test_insert_only_tables_with_a_ddl(clause: str, more: str, name: str, code: str) -> None:
    """Buckets need numbered files, and lines that are no rows must stay at the ends of files."""
    files = {f"{A}/{name}": b"1\n", f"{B}/000000_0": b"2\n"}
    part = one(plan_of(files, MAJOR, table_type="auto", schema=DDL.format(clause, more)))
    assert part.reason_code == code


_MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("first", "second", "schema", "code"),
    [
        (b"id\n1\n", b"id\n2\n", None, "text_maybe_header"),
        (b"id\n1\n", b"id\n2\n", "a string", "text_maybe_header"),
        (b"id\n1\n", b"id\n2\n", DDL.format("", ""), ""),
        (b"id\n1\n", b"id", None, "text_maybe_header"),
        (b"id\n1\n", b"2\n", None, ""),
        (b"id\n1\n", b"", None, ""),
        (b"\n1\n", b"\n2\n", None, ""),
        (_MARK + b"1\n", _MARK + b"2\n", DDL.format("", ""), "text_mark"),
        (b"1\n", _MARK + b"2\n", None, "text_mark"),
        (_MARK + b"1\n", b"", None, ""),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_text_that_readers_treat_by_the_file(
    first: bytes, second: bytes, schema: str | None, code: str, packed: bool
) -> None:
    """Header lines and byte order marks belong to each file, and would be rows or parts of them in the middle."""
    ending = ".gz" if packed else ""
    files = {
        f"{place}/000000_0{ending}": gzip.compress(data) if packed and data else data
        for place, data in ((A, first), (B, second))
    }
    part = one(plan_of(files, MAJOR, table_type="insert-only", schema=schema))
    assert (part.action is Action.REFUSED, part.reason_code) == (bool(code), code)


def test_updates_among_rows_need_a_major() -> None:
    """Files of Hive 2 in a table that a later Hive has taken over, which nothing but their events shows."""
    files = files_of("hive2/v1_bucketed/02-changed")
    marked = {**files, f"{TABLE}/_orc_acid_version": b"2"}
    marked |= {path.rpartition("/")[0] + "/_orc_acid_version": b"2" for path in files if "/bucket_" in path}
    part = one(plan_of(marked, MINOR))
    assert (part.action, part.reason_code) == (Action.REFUSED, "acid_v1_minor")
    assert "bucket_0000" in part.reason
    assert one(plan_of(marked, MAJOR)).action is Action.COMPACT


def test_events_under_the_name_of_another_bucket() -> None:
    """Hive 2 merges by the names of files; Hive 2's own compactions leave no statistics that would tell."""
    step = "hive2/v1_bucketed/04-minor-cleaned"
    files = files_of(step)
    old = f"{TABLE}/delta_0000101_0000106/bucket_00001"
    renamed = {path.replace(old, old[:-5] + "00010"): data for path, data in files.items()}
    assert renamed.keys() != files.keys()
    part = one(plan_of(renamed, MAJOR))
    assert (part.action, part.reason_code) == (Action.REFUSED, "foreign_bucket")
    part = one(plan_of(renamed, MAJOR, accept_doubts=["foreign_bucket"]))
    assert (part.action, part.reason_code) == (Action.REFUSED, "v1_buckets")
    assert "bucket_00010 holds rows of bucket 1;" in part.reason


def test_a_damaged_parquet_file_is_named() -> None:
    """By its path, in one sentence."""
    with pytest.raises(DamagedDataError, match="delta_0000002_0000002_0000/000000_0 cannot be read as Parquet"):
        plan_of({f"{A}/000000_0": parquet("a"), f"{B}/000000_0": parquet("a")[:-9]}, MAJOR, table_type="insert-only")


def test_formats_differ_between_partitions() -> None:
    """A plan is of one format; the other partition is compacted on its own."""
    files = {
        path.replace(TABLE, f"{TABLE}/p={p}"): data
        for p, contents in ((1, (b"1\n", b"2\n")), (2, (parquet("a"), parquet("a"))))
        for path, data in zip((f"{A}/000000_0", f"{B}/000000_0"), contents, strict=True)
    }
    made = plan_of(files, MAJOR, table_type="insert-only")
    assert [part.reason_code for part in made.partitions] == ["", "mixed_formats"]
    assert made.table.file_format == "text"


def test_files_without_a_byte_are_no_input_of_a_task() -> None:
    """They count among the inputs, and nothing opens them."""
    files = files_of("hive4/bucketed/02-changed")
    files[f"{TABLE}/delta_0000002_0000002_0000/bucket_00005"] = b""
    part = one(plan_of(files, MAJOR))
    assert any(info.path.endswith("bucket_00005") for entry in part.inputs for info in entry.files)
    assert not any(path.endswith("bucket_00005") for task in part.tasks for path in task.files)


def test_only_the_committed_length_of_a_stream_counts() -> None:
    """What follows it is not read; the side file is an input, and no file of a task."""
    files = files_of("hive3/streaming/02-aborted-and-open")
    sides = {path for path in files if path.endswith("_flush_length")}
    longer = {path.removesuffix("_flush_length") for path in sides}
    assert sides
    known = one(plan_of(files, MAJOR))
    grown = one(plan_of({path: data + b"more" * (path in longer) for path, data in files.items()}, MAJOR))
    assert grown.action is Action.COMPACT
    assert grown.rows_in == known.rows_in > 0
    assert [task.bytes_in for task in grown.tasks] == [task.bytes_in for task in known.tasks]
    assert {f"{TABLE}/{info.path}" for entry in known.inputs for info in entry.files} >= sides
    assert not {f"{TABLE}/{path}" for task in known.tasks for path in task.files} & sides


def test_rows_whose_name_tells_no_bucket() -> None:
    """They have no row ids, so no event could ever concern them."""
    files = files_of("hive4/converted/02-converted")
    original = next(path for path in files if path.endswith("000000_0"))
    files[f"{TABLE}/part-0000.orc"] = files[original]
    part = one(plan_of(files, MAJOR))
    assert (part.action, part.reason_code) == (Action.REFUSED, "no_row_ids")
    assert "part-0000.orc" in part.reason


@pytest.mark.parametrize("options", [{}, {"as_of": 1000}])
def test_planning_a_partition_again_takes_no_later_write(tmp_path: Path, options: dict[str, Any]) -> None:
    """Tasks keep the watermark of the first plan, so rows of a later write would be lost in a base that covers it."""
    table = tmp_path / "t"
    copytree(TABLES / "hive4/bucketed/02-changed/table", table)
    prepared = open_table(str(table)).prepare_compaction("major", assume_committed=True, **options)
    later = table / "delta_0000006_0000006_0000"
    copytree(table / "delta_0000005_0000005_0001", later)
    assert prepared.replan is not None
    first = one(prepared.plan)
    again = prepared.replan(first, list_location(LocalStorage(), str(table)))
    assert again.outputs == first.outputs
    assert {entry.name for entry in again.inputs} == {entry.name for entry in first.inputs}


@SLOW
def test_thousands_of_partitions() -> None:
    """Planned one after another, without holding on to what was seen of their files."""
    files = files_of("hive4/bucketed/02-changed")
    count = amount(2000, swept=2000)
    many = {
        path.replace(TABLE, f"{TABLE}/p={number:04d}"): data for number in range(count) for path, data in files.items()
    }
    made = plan_of(many, MAJOR)
    assert len(made.partitions) == count
    assert {(part.action, len(part.tasks)) for part in made.partitions} == {(Action.COMPACT, 2)}
    assert len({part.path for part in made.partitions}) == count
