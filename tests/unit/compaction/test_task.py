"""Tasks on real files: what stands in the place of the inputs answers as they did."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from restore import restore

from acidctl import open_table
from acidctl.compaction import inputs, joining, task
from acidctl.compaction.plan import KeyCut, Role, TaskResult, TaskSpec
from acidctl.compaction.task import run_task
from acidctl.errors import DamagedDataError, VerificationError
from acidctl.format.events import Operation
from acidctl.format.write_ids import TxnListFormat, ValidTxns, ValidWriteIds
from acidctl.orc.reader import open_orc
from acidctl.orc.writer import Backend, NeedsExactWriter, WrittenFile, write_orc
from acidctl.rows.snapshot import Snapshot
from acidctl.rows.source import live_sources
from acidctl.rows.table_view import PartitionState
from acidctl.state.entries import ORIGINALS_NAME
from acidctl.state.inventory import live_entries
from acidctl.storage.local import LocalStorage
from acidctl.types.digest import RowDigest, combined
from tests import ROOT
from tests.support.extent import SWEEP
from tests.support.specs import WORK, delta, small_table, specs_of, state_of, write_events

TABLES = ROOT / "fixtures" / "tables"
STEPS = sorted(TABLES.glob("*/*/*/step.json"))
MINOR = (Role.INSERTS, Role.DELETES)
# The last step of these: every kind of input and of value once. All steps are compacted by the command's own test.
TELLING = (
    "hive2/v1_multi_statement",
    "hive2/v1_types_nested",
    "hive3/converted_union",
    "hive3/load_data",
    "hive3/streaming",
    "hive3/types_time",
    "hive4/evolution",
    "hive4/half_compacted",
    "hive4/insert_only",
    "hive4/multi_statement",
    "hive4/partitioned",
    "hive4/types_invalid_utf8",
    "hive4/types_union",
)


def digest_of(table: Path, spec: TaskSpec, result: TaskResult) -> str:
    """The digest of the rows of a written file."""
    place = table / spec.work / str(result.path)
    digest = RowDigest()
    for batch in open_orc(BytesIO(place.read_bytes()), name=str(place)).scan():
        digest.update(None, batch.columns)
    return digest.hexdigest()


def name_of(path: Path) -> str:
    return str(path.parent.relative_to(TABLES))


def chosen() -> list[object]:
    last = {str(path.parent.parent.relative_to(TABLES)): path for path in STEPS}
    return [pytest.param(path, id=name_of(path)) for path in (STEPS if SWEEP else [last[name] for name in TELLING])]


class Copy:
    """A fixture table in a directory of its own, read with the list of a compactor."""

    def __init__(self, path: Path, to: Path) -> None:
        restore(path)
        self.step = json.loads(path.read_text())
        self.root = to / "table"
        shutil.copytree(path.parent / "table", self.root)
        self.by_txns = not self.step["valid_write_ids"]
        ids = ValidWriteIds.parse(self.step["valid_write_ids"])
        if self.by_txns:
            ids = ValidWriteIds.from_txns(ValidTxns.parse(self.step["valid_txns"], list_format=TxnListFormat.HIVE2))
        self.ids = ids.compactor()

    def snapshot(self) -> Snapshot:
        texts = [self.step["valid_txns"]] if self.by_txns else [self.ids.format(), self.step["valid_txns"]]
        form = "hive2" if self.step["engine"] == "hive2" else None
        return open_table(str(self.root)).snapshot(validtxns=texts, list_format=form, schema=self.step["ddl"])

    def specs(self, snapshot: Snapshot, part: PartitionState, roles: Sequence[Role]) -> list[TaskSpec]:
        dialect = "hive4" if self.step["engine"] == "hive4" else "hive3"
        root = part.location.listing.root
        # A reader looks into a delta of which it may see some; a compactor leaves it alone.
        deltas = tuple(entry for entry in part.state.deltas if (entry.max_write_id or 0) <= self.ids.high_watermark)
        return specs_of(
            root,
            replace(part.state, deltas=deltas),
            str(snapshot.columns),
            roles,
            write_ids=self.ids.format(),
            dialect=dialect,
        )

    def put_in_place(self, part: PartitionState, specs: Sequence[TaskSpec], results: Sequence[TaskResult]) -> None:
        """Do what publishing and a cleaner do together."""
        root = Path(part.location.listing.root)
        for entry in live_entries(part.state):
            taken = any(entry.name == one.name for spec in specs for one in spec.inputs)
            if taken and entry.name != ORIGINALS_NAME:
                shutil.rmtree(root / entry.name)
            elif taken:
                for info in entry.files:
                    (root / info.path).unlink()
        for result in results:
            if result.path is not None:
                target = root / result.output
                target.parent.mkdir(exist_ok=True)
                (root / WORK / result.path).rename(target)
                (target.parent / "_orc_acid_version").write_bytes(b"2")
                if target.parent.name.startswith("base"):
                    (target.parent / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
        shutil.rmtree(root / WORK)


@pytest.mark.parametrize("path", chosen())
@pytest.mark.parametrize("roles", [(Role.SURVIVING,), MINOR], ids=["major", "minor"])
@pytest.mark.slow
def test_reads_as_before(path: Path, roles: Sequence[Role], tmp_path: Path) -> None:
    """Rows and row ids of a snapshot are the same when outputs stand in the place of their inputs."""
    copy = Copy(path, tmp_path)
    before = copy.snapshot()
    if not before.columns.fields or (roles == MINOR and copy.step["engine"] == "hive2"):
        pytest.skip("there is nothing that this could do")
    if before.partitions[0].state.insert_only:
        roles = (Role.ROWS,)
    expected = before.count_and_digest()
    done = 0
    for part in before.partitions:
        specs = copy.specs(before, part, roles)
        if any(source.apart for source in live_sources(LocalStorage(), part.location.listing.root, part.state)[0]):
            with pytest.raises(DamagedDataError, match="no ROW__ID of their own"):
                run_task(specs[0])
            return
        results = [run_task(spec) for spec in specs]
        if specs:
            copy.put_in_place(part, specs, results)
        done += len(results)
    after = copy.snapshot()
    assert after.count_and_digest() == expected
    assert done or roles != (Role.SURVIVING,) or not expected[0] or copy.step["scenario"] == "streaming"


@pytest.mark.slow
def test_batch_size_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, counts and digest are the same whether seven rows are taken at a time or all."""
    table, state, columns = small_table(tmp_path)
    for roles in ((Role.SURVIVING,), MINOR):
        (spec, *others) = specs_of(table, state, columns, roles)
        monkeypatch.undo()
        whole = [run_task(one) for one in (spec, *others)]
        monkeypatch.setattr(inputs, "BATCH_ROWS", 7)
        pieces = [run_task(one, threads=False) for one in (spec, *others)]
        facts = [[(r.rows, r.rows_in, r.deletes_applied, r.counts, r.digest) for r in rs] for rs in (whole, pieces)]
        assert facts[0] == facts[1]


@pytest.mark.parametrize("role", [Role.SURVIVING, Role.INSERTS, Role.DELETES])
@pytest.mark.slow
def test_parts_are_the_whole(role: Role, tmp_path: Path) -> None:
    """Parts between any keys hold each event once, and joined they are the file that one task writes."""
    table, state, columns = small_table(tmp_path)
    (spec,) = specs_of(table, state, columns, [role])
    whole = run_task(spec)
    cuts = [KeyCut(1, 536870912, 0), KeyCut(1, 536870912, 77), KeyCut(1, 536870912, 199), KeyCut(4, 536870912, 3)]
    edges = [None, *cuts, None]
    parts = [
        run_task(replace(spec, part=i, lower=lower, upper=upper)) for i, (lower, upper) in enumerate(pairwise(edges))
    ]
    assert sum(part.rows_in for part in parts) == whole.rows_in
    assert sum(part.deletes_applied for part in parts) == whole.deletes_applied
    written = [part.path for part in parts if part.path]
    assert len(set(written)) == len(written) > 1
    joined = run_task(replace(spec, task=replace(spec.task, role=Role.JOIN), parts=tuple(parts)))
    assert (joined.rows, joined.counts) == (whole.rows, whole.counts)
    assert joined.digest == combined([part.digest for part in parts if part.path])
    assert digest_of(table, spec, joined) == digest_of(table, spec, whole)
    assert joined.writer == "copy"


@pytest.mark.parametrize("parts", [(1, 0), (0, 0), (0, 2, 1)])
def test_parts_that_are_not_in_order(parts: tuple[int, ...], tmp_path: Path) -> None:
    """Each part is sound, and the whole would not be sorted by key."""
    table, state, columns = small_table(tmp_path)
    (spec,) = specs_of(table, state, columns, [Role.SURVIVING])
    # All before row 120 is deleted.
    edges = [None, KeyCut(1, 536870912, 140), KeyCut(1, 536870912, 165), None]
    made = [run_task(replace(spec, part=i, lower=low, upper=high)) for i, (low, high) in enumerate(pairwise(edges))]
    join = replace(spec, task=replace(spec.task, role=Role.JOIN), parts=tuple(made[part] for part in parts))
    with pytest.raises(VerificationError, match="parts are not in order"):
        run_task(join)
    assert run_task(replace(join, parts=tuple(made))).counts == run_task(spec).counts


@pytest.mark.parametrize("role", [Role.SURVIVING, Role.DELETES])
@pytest.mark.slow
def test_parts_of_two_writers(role: Role, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that only the exact writer could write joins the others by its stripes, else row by row."""
    table, state, columns = small_table(tmp_path)
    (spec,) = specs_of(table, state, columns, [role])
    whole = run_task(spec)
    cut = KeyCut(1, 536870912, 150 if role is Role.SURVIVING else 70)
    parts = [run_task(replace(spec, part=0, upper=cut))]

    def exact_only(*args: Any, backend: Backend, **rest: Any) -> WrittenFile:
        if backend is Backend.ARROW:
            raise NeedsExactWriter("as if")
        return write_orc(*args, backend=backend, **rest)

    monkeypatch.setattr(task, "write_orc", exact_only)
    parts.append(run_task(replace(spec, part=1, lower=cut)))
    assert [part.writer for part in parts] == ["arrow", "exact"]
    join = replace(spec, task=replace(spec.task, role=Role.JOIN), parts=tuple(parts))
    results = [run_task(join)]
    monkeypatch.setattr(joining, "mismatch", lambda *_: "come from different writers")
    results.append(run_task(join))
    assert [result.writer for result in results] == ["copy", "exact"]
    for result in results:
        assert (result.rows, result.counts) == (whole.rows, whole.counts)
        assert digest_of(table, spec, result) == digest_of(table, spec, whole)


def test_accounts(tmp_path: Path) -> None:
    """Every stored event is accounted for: written, deleted, or of an aborted write."""
    table, state, columns = small_table(tmp_path)
    aborted = "t:10:9223372036854775807::3,5"
    (spec,) = specs_of(table, state, columns, [Role.SURVIVING], write_ids=aborted)
    result = run_task(spec)
    assert result.rows_in == 200 + 6 * 20
    assert result.hidden == 20
    assert result.rows == result.rows_in - result.hidden - result.deletes_applied
    assert not {3, 5} & {write_id for write_id, _, _ in result.counts}
    everything = run_task(specs_of(table, state, columns, [Role.SURVIVING])[0])
    assert (result.deletes_applied, everything.deletes_applied) == (100, 120)
    assert everything.hidden == 0
    inserts, deletes = (run_task(s) for s in specs_of(table, state, columns, MINOR, write_ids=aborted))
    assert (inserts.rows_in, inserts.hidden, inserts.rows) == (120, 20, 100)
    assert (deletes.rows_in, deletes.hidden, deletes.rows) == (120, 20, 100)


def test_all_rows_deleted(tmp_path: Path) -> None:
    """A bucket of which nothing is left has no file, and leaves none among the attempts."""
    table, state, columns = small_table(tmp_path)
    (spec,) = specs_of(table, state, columns, [Role.SURVIVING], write_ids="t:10:9223372036854775807::1,2,4,5,7,8,10")
    result = run_task(spec)
    assert (result.path, result.rows, result.rows_in, result.hidden) == (None, 0, 320, 320)
    assert not list((table / WORK / "attempts").iterdir())


@pytest.mark.parametrize("side", ["delta", "delete_delta"])
def test_event_above_its_directory(side: str, tmp_path: Path) -> None:
    """A delta whose name ends below its events is refused, whichever side it is on, and nothing is left behind."""
    table, _, columns = small_table(tmp_path)
    number = 8 if side == "delta" else 9
    (table / f"{side}_{number:07}_{number:07}_0000").rename(table / f"{side}_{number - 1:07}_{number - 1:07}_0009")
    (spec,) = specs_of(table, state_of(table), columns, [Role.SURVIVING])
    with pytest.raises(DamagedDataError, match=f"event of write id {number}, but its directory ends at {number - 1}"):
        run_task(spec)
    assert not list((table / WORK / "attempts").iterdir())


def test_inserted_and_deleted_by_one_write(tmp_path: Path) -> None:
    """Of a row that its own write deleted again, a minor compaction keeps the delete alone, as Hive's does."""
    write_events(tmp_path, delta(2), range(10), write_id=2)
    for current in (2, 3):
        rows = (4, 5) if current == 2 else (5, 6)
        name = "delete_" + delta(current)
        write_events(tmp_path, name, rows, write_id=2, current=current, operation=Operation.DELETE)
    inserts, deletes = (run_task(s) for s in specs_of(tmp_path, state_of(tmp_path), "struct<a:bigint,b:string>", MINOR))
    assert (inserts.rows_in, inserts.rows, inserts.deletes_applied) == (10, 8, 2)
    assert (deletes.rows_in, deletes.rows) == (4, 4)


@pytest.mark.parametrize("operation", [Operation.INSERT, Operation.UPDATE])
@pytest.mark.parametrize("alone", [True, False])
def test_a_delete_delta_holds_deletes_alone(operation: Operation, alone: bool, tmp_path: Path) -> None:
    """Other events would become deletes of their rows; an empty row says that an event is one."""
    write_events(tmp_path, delta(2), range(10), write_id=2)
    if not alone:
        write_events(tmp_path, "delete_" + delta(3), (4, 5), write_id=2, current=3, operation=Operation.DELETE)
    write_events(tmp_path, "delete_" + delta(4), (6, 7), write_id=2, current=4, operation=operation)
    specs = specs_of(tmp_path, state_of(tmp_path), "struct<a:bigint,b:string>", [Role.DELETES])
    with pytest.raises(DamagedDataError, match="delete"):
        run_task(specs[0])


def test_row_that_stands_twice(tmp_path: Path) -> None:
    """Two attempts of one write hold the same row ids: no output could answer as their readers do."""
    table, _, columns = small_table(tmp_path)
    shutil.copy(table / "delta_0000008_0000008_0000/bucket_00000", table / "delta_0000008_0000008_0000/bucket_00000_1")
    for role in (Role.SURVIVING, Role.INSERTS):
        (spec,) = specs_of(table, state_of(table), columns, [role])
        with pytest.raises(DamagedDataError, match="two rows have the ROW__ID 8,536870912,0;"):
            run_task(spec)


def test_damaged_input(tmp_path: Path) -> None:
    """A truncated file is an error of its own, not a verification that fails; no attempt is left."""
    table, state, columns = small_table(tmp_path)
    (spec,) = specs_of(table, state, columns, [Role.SURVIVING])
    base = table / "base_0000001_v0000010/bucket_00000"
    data = bytearray(base.read_bytes())
    data[100:600] = bytes(500)
    base.write_bytes(data)
    with pytest.raises(DamagedDataError):
        run_task(spec)
    assert not list((table / WORK / "attempts").iterdir())
