"""Selection against a slow model that counts ids one by one, on random listings."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acidctl.errors import NotEnoughHistoryError
from acidctl.format.names import BaseDir, DeltaDir, DeltaKind, format_base, format_delta, parse_directory
from acidctl.format.write_ids import Profile, Reader, ValidTxns, ValidWriteIds
from acidctl.state.entries import EntryState
from acidctl.state.equivalence import disagreements
from acidctl.state.resolve import resolve
from tests.support.extent import amount
from tests.support.vectors import listing_of

pytestmark = pytest.mark.slow

TOP = 14


@dataclass(frozen=True)
class Lists:
    """A reader's lists as plain sets."""

    hwm: int
    open: frozenset[int]
    aborted: frozenset[int]
    txn_hwm: int
    txn_open: frozenset[int]
    txn_aborted: frozenset[int]

    def valid(self, id_: int) -> bool:
        return id_ <= self.hwm and id_ not in self.open and id_ not in self.aborted

    def sees(self, txn: int | None) -> bool:
        return txn is None or (txn <= self.txn_hwm and txn not in self.txn_open and txn not in self.txn_aborted)

    def lists(self) -> tuple[ValidWriteIds, ValidTxns]:
        ids = ValidWriteIds(
            high_watermark=self.hwm,
            min_open=min(self.open, default=None),
            open=tuple(self.open),
            aborted=tuple(self.aborted),
        )
        txns = ValidTxns(
            high_watermark=self.txn_hwm,
            min_open=min(self.txn_open, default=None),
            open=tuple(self.txn_open),
            aborted=tuple(self.txn_aborted),
        )
        return ids, txns


@st.composite
def readers(draw: st.DrawFn) -> Lists:
    """Lists as a metastore makes them: no exception above the watermark, none twice."""
    hwm = draw(st.integers(0, TOP))
    below = st.frozensets(st.integers(1, max(hwm, 1)), max_size=4)
    open_ = draw(below) if hwm else frozenset()
    aborted = draw(below) - open_ if hwm else frozenset()
    txn_hwm = draw(st.integers(20, 30))
    txn_open = draw(st.frozensets(st.integers(20, txn_hwm), max_size=3))
    txn_aborted = draw(st.frozensets(st.integers(20, txn_hwm), max_size=3)) - txn_open
    return Lists(hwm, open_, aborted, txn_hwm, txn_open, txn_aborted)


visibility = st.none() | st.integers(20, 31)
bases = st.builds(format_base, st.integers(1, TOP), visibility)
kinds = st.sampled_from(DeltaKind)
single = st.builds(
    lambda kind, id_, statement, txn: format_delta(kind, id_, id_, statement, txn),
    kinds,
    st.integers(1, TOP),
    st.none() | st.integers(0, 2),
    st.none(),
)
wide = st.builds(
    lambda kind, id_, more, txn: format_delta(kind, id_, id_ + more, None, txn),
    kinds,
    st.integers(1, TOP),
    st.integers(0, 6),
    visibility,
)
listings = st.sets(bases | single | single | wide, max_size=9)


def model(names: set[str], reader: Lists) -> tuple[str | None, list[str]] | None:
    """Base and deltas that Hive 4 reads, None where it misses history; ids are counted, never calculated."""
    parsed = [parse_directory(name) for name in sorted(names)]
    found = [d for d in parsed if isinstance(d, BaseDir) and reader.sees(d.visibility_txn_id)]
    base = _model_base(found, reader)
    if base is None and found:
        oldest = next(d for d in found if d.write_id == min(b.write_id for b in found))
        if oldest.visibility_txn_id:
            return None
    floor = base.write_id if base else 0
    deltas = [d for d in parsed if isinstance(d, DeltaDir) and reader.sees(d.visibility_txn_id)]
    deltas = [d for d in deltas if any(reader.valid(i) for i in range(d.min_write_id, d.max_write_id + 1))]
    rest = sorted(deltas, key=lambda d: (d.min_write_id, -d.max_write_id, _statement(d), d.name))
    return base.name if base else None, _model_deltas(rest, floor, reader)


def _model_base(found: list[BaseDir], reader: Lists) -> BaseDir | None:
    lowest_open = min(reader.open, default=None)

    def usable(base: BaseDir) -> bool:
        upto = range(1, base.write_id + 1)
        if not base.visibility_txn_id and base.write_id in reader.aborted:
            return False
        if lowest_open is not None and base.write_id <= lowest_open:
            return True
        if base.visibility_txn_id:
            return base.write_id <= reader.hwm and not any(i in reader.open for i in upto)
        return reader.valid(base.write_id)

    good = [base for base in found if usable(base)]
    best = [base for base in good if base.write_id == max(b.write_id for b in good)]
    compacted = [base for base in best if base.visibility_txn_id]
    return compacted[-1] if compacted else best[0] if best else None


def _model_deltas(rest: list[DeltaDir], floor: int, reader: Lists) -> list[str]:
    """Each delta against everything read before it, from scratch every time."""
    taken: list[tuple[DeltaDir, bool]] = []
    for delta in rest:
        reached = max([floor, *(d.max_write_id for d, _ in taken)])
        farthest = [d for d, raised in taken if raised]
        if delta.max_write_id > reached:
            if any(reader.valid(i) for i in range(reached + 1, delta.max_write_id + 1)):
                taken.append((delta, True))
        elif (farthest and delta.max_write_id == reached and farthest[-1].statement_id is not None) or (
            taken and _key(taken[-1][0]) == _key(delta)
        ):
            taken.append((delta, False))
    return [delta.name for delta, _ in taken]


def _statement(delta: DeltaDir) -> int:
    return -1 if delta.statement_id is None else delta.statement_id


def _key(delta: DeltaDir) -> tuple[int, int, int | None]:
    return delta.min_write_id, delta.max_write_id, delta.statement_id


@settings(max_examples=amount(450, swept=450), deadline=None)
@given(listings, readers())
def test_hive4_agrees_with_the_model(names: set[str], reader: Lists) -> None:
    """Profile hive4 reads what the model reads, in the same order, and misses history where it does."""
    listing = listing_of(f"{name}/bucket_00000" for name in names)
    ids, txns = reader.lists()
    expected = model(names, reader)
    try:
        state = resolve(listing, Reader(ids, txns, Profile.HIVE4))
    except NotEnoughHistoryError:
        assert expected is None
    else:
        assert (state.base and state.base.name, [delta.name for delta in state.deltas]) == expected


@settings(max_examples=amount(300, swept=300), deadline=None)
@given(listings, readers(), st.booleans())
def test_strict_reads_only_what_it_may(names: set[str], reader: Lists, originals: bool) -> None:
    """Profile strict: one entry each, a usable base, no hidden data, and causes that do cover."""
    # The marker says Hive 3 or later; without one a plain base would count as Hive 2's.
    paths = [f"{name}/{file}" for name in names for file in ("bucket_00000", "_orc_acid_version")]
    paths += ["000000_0", "sub/000001_0"] if originals else []
    listing = listing_of(paths)
    ids, txns = reader.lists()
    state = resolve(listing, Reader(ids, txns), raise_on_history=False)
    by_name = {entry.name: entry for entry in state.entries}
    assert sorted(f.path for entry in state.entries for f in entry.files) == sorted(paths)
    assert len(by_name) == len(state.entries) == len(names) + originals
    assert all(entry.reason for entry in state.entries)
    live = [entry for entry in state.entries if entry.state is EntryState.LIVE and entry.parsed]
    assert {entry.name for entry in live} == {e.name for e in (state.base, *state.deltas) if e}
    _check_base(state.base.parsed if state.base else None, [parse_directory(n) for n in names], reader)
    for entry in state.entries:
        if entry.state is not EntryState.OBSOLETE or entry.parsed is None:
            continue
        causes = [by_name[cause] for cause in entry.because_of]
        assert causes
        assert all(cause.state is EntryState.LIVE for cause in causes)
        assert all((cause.max_write_id or 0) >= (entry.max_write_id or 0) for cause in causes)
        if isinstance(entry.parsed, DeltaDir) and all(isinstance(c.parsed, DeltaDir) for c in causes):
            assert all((c.min_write_id or 0) <= entry.parsed.min_write_id for c in causes)


def _check_base(base: object, parsed: list[object], reader: Lists) -> None:
    """The base is the newest with all ids settled (compacted), or its own one valid (overwrite)."""

    def usable(found: BaseDir) -> bool:
        if not reader.sees(found.visibility_txn_id):
            return False
        if found.visibility_txn_id:
            return found.write_id <= reader.hwm and all(i > found.write_id for i in reader.open)
        return reader.valid(found.write_id)

    good = [found for found in parsed if isinstance(found, BaseDir) and usable(found)]
    if base is None:
        assert not good
        return
    assert isinstance(base, BaseDir)
    rank = max((found.write_id, found.visibility_txn_id or 0) for found in good)
    assert (base.write_id, base.visibility_txn_id or 0) == rank


@settings(max_examples=amount(150, swept=150), deadline=None)
@given(listings, readers())
def test_the_profiles_part_only_where_it_is_said(names: set[str], reader: Lists) -> None:
    """Where both profiles read different directories, `disagreements` says so, and nothing where they do not."""
    listing = listing_of(f"{name}/bucket_00000_0" for name in names)
    ids, txns = reader.lists()
    ours = resolve(listing, Reader(ids, txns), raise_on_history=False)
    hive = resolve(listing, Reader(ids, txns, Profile.HIVE4), raise_on_history=False)
    same = ({e.name for e in (ours.base, *ours.deltas) if e} == {e.name for e in (hive.base, *hive.deltas) if e}) and (
        ours.history_gap is None
    ) == (hive.history_gap is None)
    said = disagreements(listing, Reader(ids, txns))
    if ours.history_gap is None or hive.history_gap is None:
        assert same == (not said)
