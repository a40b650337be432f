"""Stripes that nothing touches go over as they are: the same rows as without, every wrong copy refused."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow.orc as po
import pyorc
import pytest

from acidctl.compaction import attempts, joining, stripes, task
from acidctl.compaction.plan import KeyCut, Role, StripeCounts, TaskResult, TaskSpec
from acidctl.compaction.verify import Expected, verify_file
from acidctl.errors import DamagedDataError, VerificationError
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventKeys, Operation, RowId
from acidctl.orc import stitch as stitching
from acidctl.orc.reader import open_orc
from acidctl.orc.stitch import Stitcher, StoredStripe
from acidctl.orc.tail_edit import STRIDE, write_all
from acidctl.rows.file_report import acid_facts
from acidctl.rows.merge import DeletedRows
from acidctl.storage import local
from tests.support.extent import SWEEP
from tests.support.specs import delta, specs_of, state_of, write_events

COLUMNS = "struct<a:bigint,b:string>"
DELETE = Operation.DELETE
# `write_events` makes stripes of fifty rows.
STRIPE = 50


@pytest.fixture(autouse=True)
def _every_size_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stripe is too small to be copied."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 1 << 40)


def spec_of(table: Path, write_ids: str = "", role: Role = Role.SURVIVING) -> TaskSpec:
    """The one task of a major compaction of everything, or of the inserts of a minor one."""
    (spec,) = specs_of(table, state_of(table), COLUMNS, [role], write_ids=write_ids)
    return spec


def stored(table: Path, spec: TaskSpec, result: TaskResult) -> list[Any]:
    """The rows of a written file, in their order."""
    place = table / spec.work / str(result.path)
    with place.open("rb") as stream:
        return [row for batch in open_orc(stream, name="f").scan() for row in batch.to_pylist()]


def both(root: Path, write_ids: str = "", role: Role = Role.SURVIVING, **changes: Any) -> StripeCounts:
    """Compact with copies and without: the same rows; what was copied."""
    spec = replace(spec_of(root, write_ids, role), **changes)
    done = task.run_task(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stripes, "MOST_FILES", 0)
        plain = task.run_task(spec)
    assert (done.rows, done.rows_in, done.hidden) == (plain.rows, plain.rows_in, plain.hidden)
    assert (done.deletes_applied, done.counts, done.read) == (plain.deletes_applied, plain.counts, plain.read)
    assert (done.path is None) == (plain.path is None)
    if done.path is not None:
        assert stored(root, spec, done) == stored(root, spec, plain)
    return done.stripes


def deletes(table: Path, write_id: int, rows: list[int], *, of: int = 1) -> None:
    """A delete delta that names rows of one write."""
    write_events(table, "delete_" + delta(write_id), sorted(rows), write_id=of, current=write_id, operation=DELETE)


def reasons(counts: StripeCounts) -> dict[str, int]:
    """Why stripes were written anew."""
    return dict(counts.reasons)


def test_only_what_is_touched_is_written_anew(tmp_path: Path) -> None:
    """Deletes in three of twenty stripes, and a new delta behind them: seventeen stripes of the base stay."""
    write_events(tmp_path, "base_0000001_v0000010", range(20 * STRIPE), write_id=1)
    write_events(tmp_path, delta(2), range(120), write_id=2)
    deletes(tmp_path, 3, [5, 6, 403, 999])
    counts = both(tmp_path)
    assert (counts.copied, counts.copied_rows, reasons(counts)) == (17 + 3, 17 * STRIPE + 120, {"deleted": 3})


def test_what_other_libraries_read(tmp_path: Path) -> None:
    """pyarrow and pyorc read a file that was put together; its key index and counts are right."""
    write_events(tmp_path, "base_0000001_v0000010", range(6 * STRIPE), write_id=1)
    write_events(tmp_path, delta(2), range(10), write_id=2)
    deletes(tmp_path, 3, [60])
    spec = spec_of(tmp_path)
    done = task.run_task(spec)
    place = tmp_path / spec.work / str(done.path)
    rows = stored(tmp_path, spec, done)
    assert po.ORCFile(place).read().num_rows == len(rows) == 6 * STRIPE + 9
    with place.open("rb") as stream:
        assert [row[3] for row in pyorc.Reader(stream)] == [row["rowId"] for row in rows]
    with place.open("rb") as stream:
        facts = acid_facts(open_orc(stream, name="f"))
    assert facts.stats is not None
    assert (facts.key_index.state, facts.stats["insert"], facts.ordered) == ("matches", len(rows), True)


def test_overlapping_files_are_merged(tmp_path: Path) -> None:
    """Rows of another file between the rows of a stripe keep it from being copied."""
    write_events(tmp_path, "base_0000001_v0000010", [*range(0, 200, 2), *range(1000, 1100)], write_id=1)
    # Another file of the same write: a table that was copied together, say.
    write_events(tmp_path, "delta_0000001_0000003", [51, 53], write_id=1)
    counts = both(tmp_path)
    assert counts.copied == 3
    assert reasons(counts)["overlap"] >= 1


def test_hidden_rows_are_left_out(tmp_path: Path) -> None:
    """A wide delta with rows of an aborted write: its stripes are written anew, others stay."""
    write_events(tmp_path, "base_0000001_v0000010", range(4 * STRIPE), write_id=1)
    for write_id in (2, 3):
        write_events(tmp_path, delta(write_id), range(STRIPE), write_id=write_id)
    counts = both(tmp_path, "t:3:9223372036854775807::3")
    assert (counts.copied, reasons(counts)) == (5, {"hidden": 1})


def test_deltas_become_one_by_copying(tmp_path: Path) -> None:
    """A minor compaction of deltas of ascending writes: all stripes stay, but those with rows of an aborted one."""
    for write_id in range(1, 6):
        write_events(tmp_path, delta(write_id), range(2 * STRIPE), write_id=write_id)
    assert both(tmp_path, role=Role.INSERTS).copied == 10
    counts = both(tmp_path, "t:9:9223372036854775807::3", Role.INSERTS)
    assert (counts.copied, reasons(counts)) == (8, {"hidden": 2})


def test_a_delta_keeps_stripes_that_a_base_puts_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a row group each; of fewer rows they are small in a delta too."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 16)
    for rows, copied in ((9_999, 0), (10_000, 3)):
        monkeypatch.setattr("tests.support.specs.STRIPE_ROWS", rows)
        for write_id in range(1, 4):
            write_events(tmp_path, delta(write_id), range(rows), write_id=write_id)
        assert both(tmp_path, role=Role.INSERTS).copied == copied
        assert reasons(both(tmp_path)) == {"small": 3}


def test_files_of_another_form_are_written_anew(tmp_path: Path) -> None:
    """The table asks for another codec or stride by now: nothing is copied, and the report says why."""
    write_events(tmp_path, "base_0000001_v0000010", range(4 * STRIPE), write_id=1)
    write_events(tmp_path, delta(2), range(STRIPE), write_id=2)
    facts = spec_of(tmp_path).table
    for writer, why in (
        (replace(facts.writer, compression="snappy"), "compression"),
        (replace(facts.writer, row_index_stride=5000), "stride"),
        (replace(facts.writer, block_size=64 << 10), "block_size"),
    ):
        counts = both(tmp_path, table=replace(facts, writer=writer))
        assert (counts.copied, reasons(counts)) == (0, {why: 5})


@pytest.mark.parametrize("seed", range(600 if SWEEP else 12))
def test_random_plans(seed: int, tmp_path: Path) -> None:
    """Whatever is deleted, inserted or aborted where: the rows of the row-by-row merge, in parts of any cut too."""
    chance = random.Random(seed)
    rows = sorted(chance.sample(range(2000), chance.randrange(1, 600)))
    write_events(tmp_path, "base_0000002_v0000010", rows, write_id=chance.choice((1, 2)))
    inserted = {1: rows, 2: rows}
    for write_id in range(3, 3 + chance.randrange(5)):
        inserted[write_id] = sorted(chance.sample(range(500), chance.choice((1, 30, 60, 200))))
        write_events(tmp_path, delta(write_id), inserted[write_id], write_id=write_id)
    for write_id in range(10, 10 + chance.randrange(4)):
        of = chance.choice([*inserted])
        start = chance.randrange(len(inserted[of]))
        some = inserted[of][start : start + chance.choice((1, 3, 80))]
        # Events that name no row are there too.
        deletes(tmp_path, write_id, [*some, 5000 + seed][: chance.choice((1, 100))], of=of)
    role = Role.INSERTS if len(inserted) > 2 and chance.random() < 0.2 else Role.SURVIVING
    aborted = ",".join(str(i) for i in (4, 11) if chance.random() < 0.5)
    edges: list[KeyCut | None] = [None, None]
    if chance.random() < 0.5:
        edges[chance.randrange(2)] = KeyCut(chance.choice((1, 2, 3)), encode(0), chance.randrange(600))
    with pytest.MonkeyPatch.context() as patch:
        if chance.random() < 0.3:
            patch.setattr(stripes, "SMALL_SHARE", (16 << 20) // chance.choice((500, 600, 1 << 20)))
        both(tmp_path, f"t:20:9223372036854775807::{aborted}", role, lower=edges[0], upper=edges[1])


def test_how_many_deletes_lie_between() -> None:
    """Counted as a list of keys would be, at every border and beyond, packed or not."""
    chance = random.Random(7)
    for low in (0, -(2**40), 2**62):
        found = [RowId(chance.randrange(5), chance.choice((-1, 3, 8)), low + chance.randrange(9)) for _ in range(40)]
        if low > 0:
            found.append(RowId(9, 9, -(2**62)))
        known = sorted(set(found))
        deleted = DeletedRows(_keys(found))
        probes = [*known, *(RowId(w, b, low + r) for w in range(-1, 6) for b in (-2, 3, 4, 9) for r in (-1, 4, 9))]
        for _ in range(300):
            first, last = sorted(chance.sample(probes, 2))
            assert bool(deleted.between(first, last)) == any(first <= key <= last for key in known)


def _keys(found: list[RowId]) -> EventKeys:
    parts = (np.array([getattr(key, name) for key in found], dtype=np.int64) for name in RowId.__slots__)
    write_id, bucket, row_id = parts
    return EventKeys(write_id, bucket, row_id, write_id)


# --- Wrong copies.


def plain_table(table: Path) -> None:
    """Ten stripes, of which one is touched."""
    write_events(table, "base_0000001_v0000010", range(10 * STRIPE), write_id=1)
    deletes(table, 2, [77])


Copy = Callable[[Stitcher, StoredStripe, RowId | None], str | None]
os_copy = os.copy_file_range


def _flipped(copy: Copy, stitcher: Stitcher, one: StoredStripe, end: RowId | None) -> str | None:
    """One bit of a stripe changes on its way to the disk."""

    def taken(source: int, target: int, count: int, offset: int) -> int:
        done = os_copy(source, target, count, offset)
        (byte,) = os.pread(source, 1, offset + done // 2)
        os.pwrite(target, bytes([byte ^ 1]), os.lseek(target, 0, os.SEEK_CUR) - done + done // 2)
        return done

    def write(sink: BinaryIO, data: bytes) -> None:
        spoiled = bytearray(data)
        spoiled[len(spoiled) // 2] ^= 1
        write_all(sink, bytes(spoiled))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stitching, "write_all", write)
        patch.setattr(os, "copy_file_range", taken)
        return copy(stitcher, one, end)


def _twice(copy: Copy, stitcher: Stitcher, one: StoredStripe, end: RowId | None) -> str | None:
    copy(stitcher, one, end)
    return copy(stitcher, one, end)


def _other(copy: Copy, stitcher: Stitcher, one: StoredStripe, end: RowId | None) -> str | None:
    """The neighbour of a stripe in its place."""
    return copy(stitcher, replace(one, index=5) if one.index == 6 else one, end)


def _left_out(copy: Copy, stitcher: Stitcher, one: StoredStripe, end: RowId | None) -> str | None:
    return None if one.index == 6 else copy(stitcher, one, end)


def _other_stride(copy: Copy, stitcher: Stitcher, one: StoredStripe, end: RowId | None) -> str | None:
    """Readers would look for row groups where there are none."""
    stitcher._changes[STRIDE] = one.tail.row_index_stride - 1
    return copy(stitcher, one, end)


@pytest.mark.parametrize("by_kernel", [False, True])
@pytest.mark.parametrize("fault", [_flipped, _twice, _other, _left_out, _other_stride])
def test_a_wrong_copy_is_refused(
    fault: Callable[..., str | None], by_kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flipped bit, a stripe that comes twice, in the place of another, or not at all, or under another tail."""
    plain_table(tmp_path)
    monkeypatch.setattr(local, "TAKEN_BYTES", 0 if by_kernel else 1 << 40)
    copy = Stitcher.copy
    monkeypatch.setattr(Stitcher, "copy", lambda *given: fault(copy, *given))
    with pytest.raises(VerificationError):
        task.run_task(spec_of(tmp_path))


@pytest.mark.parametrize("by_kernel", [False, True])
def test_what_a_proof_says_is_held_against_the_file(
    by_kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes, the first key, which is read back, how many rows, and the place of the last key in order and key index."""
    plain_table(tmp_path)
    monkeypatch.setattr(local, "TAKEN_BYTES", 0 if by_kernel else 1 << 40)
    verified: list[Expected] = []

    def noted(open_file: Callable[[], BinaryIO], name: str, expected: Expected, **options: Any) -> tuple[str, ...]:
        verified.append(expected)
        return verify_file(open_file, name, expected, **options)

    monkeypatch.setattr(attempts, "verify_file", noted)
    spec = spec_of(tmp_path)
    place = tmp_path / spec.work / str(task.run_task(spec).path)
    (good,) = verified
    verify_file(lambda: place.open("rb"), "f", good)
    proof, other = good.copied[4:6]
    assert (proof.fingerprint is None) is by_kernel
    one = proof.original
    assert one.first is not None
    assert one.last is not None
    neighbour = other.original
    for changed in (
        replace(proof, original=replace(one, first=replace(one.first, row_id=one.first.row_id + 1))),
        replace(proof, original=replace(one, last=replace(one.last, row_id=one.last.row_id - 1))),
        replace(proof, original=replace(one, last=replace(one.last, row_id=10 * STRIPE))),
        replace(proof, original=replace(one, counts={pair: rows - 1 for pair, rows in one.counts.items()})),
        replace(
            proof,
            fingerprint=other.fingerprint,
            original=replace(one, index=neighbour.index, statistics=neighbour.statistics),
        ),
    ):
        copied = tuple(changed if each is proof else each for each in good.copied)
        with pytest.raises(VerificationError):
            verify_file(lambda: place.open("rb"), "f", replace(good, copied=copied))
    beyond = replace(proof, stripe=proof.stripe + len(good.copied) + 100)
    with pytest.raises(VerificationError, match="was copied"):
        verify_file(lambda: place.open("rb"), "f", replace(good, copied=(*good.copied, beyond)))


@pytest.mark.parametrize("rows", [[*range(50, 100), *range(50)], [*range(49), 50, 49, *range(51, 100)]])
def test_a_file_whose_stripes_are_out_of_order_is_named(rows: list[int], tmp_path: Path) -> None:
    """Whether its stripes could be copied, or are written anew."""
    write_events(tmp_path, "base_0000001_v0000010", rows, write_id=1)
    write_events(tmp_path, delta(2), range(STRIPE), write_id=2)
    with pytest.raises(DamagedDataError, match=r"base_0000001.* rows are not in the order of their ROW__IDs"):
        task.run_task(spec_of(tmp_path))


def test_stripes_in_the_wrong_order_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two neighbours change places."""
    plain_table(tmp_path)
    put_together = joining.put_together

    def swapped(sink: BinaryIO, items: Iterator[Any], *given: Any) -> Any:
        every = list(items)
        every[-1], every[-2] = every[-2], every[-1]
        return put_together(sink, iter(every), *given)

    monkeypatch.setattr(task, "put_together", swapped)
    with pytest.raises(VerificationError, match="not in order"):
        task.run_task(spec_of(tmp_path))


def test_a_delete_that_falls_into_a_copied_stripe_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever decides overlooks it; the sums of keys do not."""
    plain_table(tmp_path)
    monkeypatch.setattr(DeletedRows, "between", lambda *_: 0)
    with pytest.raises(VerificationError, match="would not hold the right rows"):
        task.run_task(spec_of(tmp_path))
