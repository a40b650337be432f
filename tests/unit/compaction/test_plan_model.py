"""Plans over random histories: whatever is planned, readers go on reading what they read before."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from acidctl.compaction.plan import Action, CompactionKind
from acidctl.errors import AcidctlError, NotEnoughHistoryError
from acidctl.format.listing import Listing
from acidctl.format.names import MIN_LONG, BaseDir, DeltaDir, DeltaKind, format_base, format_delta, parse_directory
from acidctl.format.write_ids import Profile, Reader, ValidTxns, ValidWriteIds
from acidctl.state.entries import AcidState, EntryState
from acidctl.state.inventory import live_entries
from acidctl.state.resolve import resolve
from tests.support.extent import amount
from tests.support.plans import FULL, MAJOR, MINOR, drafted, inputs
from tests.support.vectors import listing_of

OWN = 99


@dataclass
class History:
    """What writers and Hive's compactor did to one location; directories by name, writes by fate."""

    names: list[str] = field(default_factory=list)
    next_id: int = 1
    next_txn: int = 1
    open: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    txn_open: set[int] = field(default_factory=set)
    txn_aborted: set[int] = field(default_factory=set)

    def write_ids(self) -> ValidWriteIds:
        """The list of a reader that begins now."""
        lowest = min(self.open, default=None)
        return ValidWriteIds(
            high_watermark=self.next_id - 1,
            min_open=lowest,
            open=tuple(self.open),
            aborted=tuple(self.aborted),
            table="t",
        )

    def txns(self) -> ValidTxns:
        """Its transactions."""
        lowest = min(self.txn_open, default=None)
        return ValidTxns(
            high_watermark=self.next_txn - 1,
            min_open=lowest,
            open=tuple(self.txn_open),
            aborted=tuple(self.txn_aborted),
        )

    def settle_id(self, fate: str, *numbers: int) -> None:
        """Note what becomes of these writes."""
        {"open": self.open, "aborted": self.aborted}.get(fate, set()).update(numbers)

    def compacted(self, kind: CompactionKind, fate: str) -> None:
        """What Hive 4 would make of the location as it is, under a transaction of that fate."""
        txn = self.next_txn
        self.next_txn += 1
        ids, txns = self.write_ids().compactor(), self.txns()
        state = resolve(self.listing(), Reader(ids, txns), table_type=FULL, raise_on_history=False)
        if state.history_gap is not None or len(state.deltas) < 2:
            return
        {"open": self.txn_open, "aborted": self.txn_aborted}.get(fate, set()).add(txn)
        low = min(e.min_write_id or 0 for e in state.deltas)
        high = max(e.max_write_id or 0 for e in state.deltas)
        if kind is MAJOR:
            self.names.append(format_base(high, txn))
            return
        for delta_kind in DeltaKind:
            if any(e.kind.value == delta_kind.value for e in state.deltas):
                self.names.append(format_delta(delta_kind, low, high, None, txn))

    def listing(self) -> Listing:
        """The location as it lies on storage."""
        return listing_of([f"{name}/bucket_00000" if not name[0].isdigit() else name for name in self.names])


FATES = st.sampled_from(["committed"] * 5 + ["open", "aborted"])
KINDS = st.sampled_from([MINOR, MAJOR])


@st.composite
def histories(draw: st.DrawFn) -> History:
    """A few steps, each as Hive would take it."""
    history = History(["000000_0"] if draw(st.booleans()) else [])
    for _ in range(draw(st.integers(1, 9))):
        step = draw(
            st.sampled_from(["insert", "insert", "update", "statements", "stream", "overwrite", "compact", "clean"])
        )
        fate = draw(FATES)
        first = history.next_id
        if step == "compact":
            history.compacted(draw(KINDS), draw(st.sampled_from(["committed", "committed", "open", "aborted"])))
            continue
        if step == "clean":
            _clean(history)
            continue
        if step == "stream":
            width = draw(st.integers(1, 4))
            history.next_id += width
            for number in range(first, first + width):
                history.settle_id(draw(FATES), number)
            history.names.append(format_delta(DeltaKind.INSERT, first, first + width - 1))
            continue
        history.next_id += 1
        history.settle_id(fate, first)
        if step == "overwrite":
            history.names.append(format_base(first))
            continue
        history.names.append(format_delta(DeltaKind.INSERT, first, first, 0))
        if step == "update":
            history.names.append(format_delta(DeltaKind.DELETE, first, first, 0))
        if step == "statements":
            history.names.append(format_delta(DeltaKind.INSERT, first, first, 1))
    return history


def _clean(history: History) -> None:
    """Remove what the newest reader finds obsolete, as Hive's cleaner does when there is no older one."""
    if history.open or history.txn_open:
        return
    state = resolve(
        history.listing(), Reader(history.write_ids(), history.txns()), table_type=FULL, raise_on_history=False
    )
    gone = {e.name for e in state.entries if e.state in (EntryState.OBSOLETE, EntryState.ABORTED)}
    history.names = [name for name in history.names if name not in gone and not (name[0].isdigit() and state.base)]


def live(state: AcidState) -> set[str]:
    """Names of what is read."""
    return {entry.name for entry in live_entries(state)}


def spans(names: set[str]) -> list[tuple[int, int]]:
    """Ranges of write ids of directories."""
    found = []
    for name in names:
        parsed = parse_directory(name)
        if isinstance(parsed, DeltaDir):
            found.append((parsed.min_write_id, parsed.max_write_id))
        elif isinstance(parsed, BaseDir):
            found.append((MIN_LONG, parsed.write_id))
    return found


def check(history: History, kind: CompactionKind, own: int | None) -> None:
    """Plan, publish the outputs' names, and look again as a reader."""
    ids, seen = history.write_ids(), history.txns()
    options = {} if own is None else {"visibility_txn": own}
    listing = history.listing()
    # What readers take for missing history or for crossing ranges is not this test's.
    before = resolve(listing, Reader(ids, seen), table_type=FULL, raise_on_history=False)
    assume(before.history_gap is None)
    try:
        plan = drafted(listing, kind, ids.format(), seen.format(), **options).plan
    except NotEnoughHistoryError:
        return
    if plan.action is not Action.COMPACT:
        return
    assert ids.lowest_open is None or all((e.max_write_id or 0) < ids.lowest_open for e in plan.inputs)
    assert inputs(plan) <= live(before)
    made = {output.name for output in plan.outputs}
    files = [*(f.path for f in listing.files), *(f"{name}/bucket_00000" for name in made)]
    markers = {f"{o.name}/{m}": text.encode() for o in plan.outputs for m, text in o.markers if m == "_metadata_acid"}
    published = listing_of([*files, *markers], markers=markers)
    committed = ValidTxns(
        high_watermark=max(seen.high_watermark, own or 0),
        open=tuple(t for t in (*seen.open, *range(seen.high_watermark + 1, own or 0)) if t != own),
        aborted=seen.aborted,
    )
    after = resolve(published, Reader(ids, committed), table_type=FULL, raise_on_history=False)
    assert after.history_gap is None
    assert live(after) == (live(before) - inputs(plan)) | made
    hive_before = _hive(listing, history, committed)
    if hive_before == live(before):
        assert _hive(published, history, committed) == live(after)
    _check_laminar(after, made)


def _hive(listing: Listing, history: History, txns: ValidTxns) -> set[str] | None:
    """What Hive 4 reads, None where it fails."""
    try:
        return live(resolve(listing, Reader(history.write_ids(), txns, Profile.HIVE4), table_type=FULL))
    except AcidctlError:
        return None


def _check_laminar(state: AcidState, made: set[str]) -> None:
    """Every directory that may ever be read nests with the outputs or lies apart from them."""
    others = {e.name for e in state.entries if e.state is not EntryState.ABORTED} - made
    for low, high in spans(made):
        for first, last in spans(others):
            apart = last < low or high < first
            assert apart or (low <= first and last <= high) or (first <= low and high <= last)


@settings(max_examples=60, deadline=None)
@given(history=histories(), kind=KINDS, own=st.sampled_from([None, OWN]))
def test_readers_read_the_outputs_in_place_of_the_inputs(
    history: History, kind: CompactionKind, own: int | None
) -> None:
    """Nothing else changes, for our rules and for Hive 4's; no range crosses another."""
    check(history, kind, own)


@pytest.mark.slow
@settings(max_examples=amount(1500, swept=1500), deadline=None)
@given(history=histories(), kind=KINDS, own=st.sampled_from([None, OWN]))
def test_the_same_over_many_histories(history: History, kind: CompactionKind, own: int | None) -> None:
    """Thousands of them."""
    check(history, kind, own)
