"""The books of a merge: a wrong one is found out, whatever is wrong with it, and a right one always balances."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acidctl.compaction import inputs
from acidctl.compaction.cross_check import key_hashes
from acidctl.compaction.inputs import TaskEvents
from acidctl.compaction.plan import KeyCut, Role
from acidctl.compaction.task import run_task
from acidctl.errors import VerificationError
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.format.write_ids import ValidWriteIds
from acidctl.rows import merge, scan
from acidctl.rows.scan import LocationReader
from tests.support.specs import WORK, delta, small_table, specs_of, state_of, write_events

MINOR = (Role.INSERTS, Role.DELETES)


def _no_mask(monkeypatch: pytest.MonkeyPatch, change: Callable[[np.ndarray], None]) -> None:
    """Let the merge err about which rows of a batch are deleted."""
    mask = merge.DeletedRows.mask

    def wrong(self: merge.DeletedRows, keys: EventKeys) -> np.ndarray | None:
        found = mask(self, keys)
        if found is not None:
            change(found)
        return found

    monkeypatch.setattr(merge.DeletedRows, "mask", wrong)


def _forget_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delete event that never gets into the set of deleted rows."""
    collect = merge.DeletedRows.collect

    def but_one(cls: type, batches: Iterator[EventKeys], write_ids: ValidWriteIds) -> merge.DeletedRows:
        kept = list(batches)
        return collect([kept[0].select(slice(1, None)), *kept[1:]], write_ids)

    monkeypatch.setattr(merge.DeletedRows, "collect", classmethod(but_one))


def _forget_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A delete file that is judged not to concern the bucket."""
    chosen = LocationReader.deletes_for
    monkeypatch.setattr(LocationReader, "deletes_for", lambda *args, **more: chosen(*args, **more)[1:])


def _delete_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows as should go, but one of them another."""

    def shift(mask: np.ndarray) -> None:
        wrong = int(np.argmin(mask))
        mask[int(np.argmax(mask))], mask[wrong] = False, True

    _no_mask(monkeypatch, shift)


def _delete_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row too many."""
    _no_mask(monkeypatch, lambda mask: mask.__setitem__(int(np.argmin(mask)), True))


def _lose_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that falls out between streams."""
    merged = merge.merge_sorted

    def but_one(cursors: list[Any]) -> Iterator[EventBatch]:
        *batches, last = merged(cursors)
        yield from (*batches, last.slice(0, len(last) - 1))

    monkeypatch.setattr(merge, "merge_sorted", but_one)


@pytest.mark.parametrize("fault", [_forget_one, _forget_a_file, _delete_another, _delete_more, _lose_a_row])
def test_a_merge_that_errs_is_found_out(
    fault: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file would hold exactly what it was given, which is wrong; no attempt is left."""
    table, state, columns = small_table(tmp_path)
    (spec,) = specs_of(table, state, columns, [Role.SURVIVING])
    fault(monkeypatch)
    refused = r"would not hold the right rows: 120 of 320 rows are deleted|would be lost"
    with pytest.raises(VerificationError, match=refused):
        run_task(spec)
    assert not list((table / WORK / "attempts").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(("role", "message"), [(0, "0 of 120 rows are deleted"), (1, "there are 120 events")])
def test_a_minor_merge_that_errs_is_found_out(
    role: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On both sides."""
    table, state, columns = small_table(tmp_path)
    spec = specs_of(table, state, columns, MINOR)[role]
    _lose_a_row(monkeypatch)
    with pytest.raises(VerificationError, match=message):
        run_task(spec)


def test_a_lost_delete_within_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part checks its own keys."""
    table, state, columns = small_table(tmp_path)
    (spec,) = specs_of(table, state, columns, [Role.SURVIVING])
    part = replace(spec, part=0, upper=KeyCut(1, 536870912, 77))
    assert run_task(part).deletes_applied == 77
    _forget_one(monkeypatch)
    with pytest.raises(VerificationError, match="77 of 77 rows are deleted, but 1 rows instead of 0"):
        run_task(part)


def _write_deletes(table: Path, write_id: int, current: int, rows: range) -> None:
    write_events(
        table, "delete_" + delta(current), rows, write_id=write_id, current=current, operation=Operation.DELETE
    )


def test_deletes_of_nothing_and_of_the_same_balance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletes of rows that an earlier base has left out, and rows that two writes deleted: keys are read once more."""
    read: list[object] = []
    again = TaskEvents.hashes_again

    def watched(self: TaskEvents, sources: Any, **more: Any) -> Any:
        read.append(sources)
        return again(self, sources, **more)

    monkeypatch.setattr(TaskEvents, "hashes_again", watched)
    write_events(tmp_path, delta(1), range(100), write_id=1)
    _write_deletes(tmp_path, 1, 2, range(50))
    _write_deletes(tmp_path, 1, 3, range(40, 60))
    columns = "struct<a:bigint,b:string>"
    (major,) = specs_of(tmp_path, state_of(tmp_path), columns, [Role.SURVIVING])
    result = run_task(major)
    assert (result.rows, result.deletes_applied, read) == (40, 60, [])
    _write_deletes(tmp_path, 1, 4, range(90, 130))
    (major,) = specs_of(tmp_path, state_of(tmp_path), columns, [Role.SURVIVING])
    result = run_task(major)
    assert (result.rows, result.deletes_applied, len(read)) == (30, 70, 1)
    _forget_one(monkeypatch)
    with pytest.raises(VerificationError, match="70 of 100 rows are deleted, but 31 rows instead of 30"):
        run_task(major)


def test_an_event_that_stands_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of delete events that agree in row and write one is kept."""
    write_events(tmp_path, delta(1), range(9), write_id=1)
    _write_deletes(tmp_path, 1, 2, range(5))
    double = tmp_path / "delete_delta_0000002_0000002_0001"
    double.mkdir()
    for path in (tmp_path / ("delete_" + delta(2))).iterdir():
        (double / path.name).write_bytes(path.read_bytes())
    (deletes,) = specs_of(tmp_path, state_of(tmp_path), "struct<a:bigint,b:string>", [Role.DELETES])
    result = run_task(deletes)
    assert (result.rows_in, result.rows) == (10, 5)
    _lose_a_row(monkeypatch)
    assert run_task(deletes).rows == 5  # its double stands in for it
    monkeypatch.setattr(merge, "repeats", lambda keys: np.arange(len(keys)) > 0)
    with pytest.raises(VerificationError, match=r"there are 10 events, but 1 rows instead of 5|would be lost"):
        run_task(deletes)


def test_small_batches_balance_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How events are cut into batches does not show in sums."""
    table, state, columns = small_table(tmp_path)
    for module in (inputs, scan):
        monkeypatch.setattr(module, "BATCH_ROWS", 7)
    for role in (Role.SURVIVING, *MINOR):
        (spec,) = specs_of(table, state, columns, [role])
        assert run_task(spec).path


def test_hashes_tell_keys_apart() -> None:
    """Neighbours in every part of the key, whatever the batch around them."""
    ids = [
        (w, b, r, c) for w in (1, 2, 2**40) for b in (0, 536870912, 536936448) for r in range(50) for c in (w, 2**41)
    ]
    arrays = [np.array(column, dtype=np.int64) for column in zip(*ids, strict=True)]
    keys = EventKeys(*arrays)
    assert len(set(key_hashes(keys).tolist())) == 3 * 3 * 50
    every = key_hashes(keys, current=True)
    assert len(set(every.tolist())) == len(ids)
    order = np.random.default_rng(1).permutation(len(ids))
    assert (key_hashes(keys.select(order), current=True) == every[order]).all()
    assert (key_hashes(keys.select(slice(1, None, 3)), current=True) == every[1::3]).all()
    assert len(key_hashes(keys.select(slice(0, 0)))) == 0
