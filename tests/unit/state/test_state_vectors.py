"""The state vectors: profile hive4 decides as Hive 4's own code does, to the last case."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from acidctl.errors import NotEnoughHistoryError
from acidctl.format.names import ACID_PREFIXES
from acidctl.format.write_ids import Profile, Reader, ValidTxns
from acidctl.state.entries import AcidState, EntryState, HiveFailureError, MissingTxnListError
from acidctl.state.equivalence import reads_all
from acidctl.state.resolve import resolve
from acidctl.state.selection import Listed, Selection, select_hive4
from tests.support.hive_listing import list_in_mode, write_ids_of
from tests.support.vectors import load, named, vector_listing

CASES = load("acid-state")
FUZZ = load("acid-state-fuzz")


def test_there_are_428_vectors() -> None:
    """No vector is lost on the way."""
    assert (len(CASES), len(FUZZ)) == (128, 300)


def test_vectors() -> None:
    """Base, deltas in order, originals, obsolete and aborted paths, ids and errors are Hive's."""
    for case in CASES + FUZZ:
        with named(case["name"]):
            _check_vector(case)


def _check_vector(case: dict[str, Any]) -> None:
    expect = case["expect"]
    snapshot = case.get("mode", "snapshot") == "snapshot"
    if expect["error"] is None:
        found = _select(case, tolerant=False)
        assert found.history_gap is None
        assert _answer(found) == {key: expect[key] for key in ("base", "deltas")}
        # acidctl always passes over empty originals, Hive on request.
        sizes = {file.path: file.size for file in vector_listing(case).files}
        originals = [path for path in expect["originals"] if sizes[path]]
        assert [file.path for file in found.originals] == originals
        assert _left_out(found, case, EntryState.ABORTED) == expect["aborted"]
        assert _left_out(found, case, EntryState.OBSOLETE) == [
            path for path in expect["obsolete"] if sizes.get(path, 1)
        ]
        if snapshot:
            state = _resolve(case)
            assert _answer(state) == _answer(found)
            assert [file.path for file in state.originals] == originals
    elif expect["error"] == "ACID_NOT_ENOUGH_HISTORY":
        if snapshot:
            with pytest.raises(NotEnoughHistoryError):
                _resolve(case)
        gap = _select(case).history_gap
        assert gap is not None
        exception = str(gap.ids.exceptions[0]) if gap.ids.exceptions else "x"
        assert [gap.ids.high_watermark, exception, gap.base] == expect["error_detail"]
    else:
        with pytest.raises((HiveFailureError, MissingTxnListError)) as caught:
            _resolve(case) if snapshot else _select(case, tolerant=False)
        faults = {"BAD_DIR_NAME": "on the name", "BAD_ACID_METADATA": "_metadata_acid"}
        assert faults.get(expect["error"], "without a list of valid transactions") in caught.value.args[0]


def test_no_entry_is_lost() -> None:
    """In both profiles every file of every vector ends in exactly one entry, with a reason."""
    for case, profile in itertools.product(CASES + FUZZ, Profile):
        listing = vector_listing(case)
        with named(case["name"]):
            state = _resolve(case, profile=profile, raise_on_history=False)
            found = sorted(f.path for entry in state.entries for f in entry.files)
            assert found == sorted(f.path for f in listing.files)
            names = [entry.name for entry in state.entries]
            assert len(names) == len(set(names))
            assert all(entry.reason and entry.reason_code for entry in state.entries)
            assert all(cause in names for entry in state.entries for cause in entry.because_of if "/" not in entry.name)


def test_what_is_plain_is_read_alike() -> None:
    """Where `disagreements` does not ask Hive's own algorithm, it would answer the same."""
    spared = 0
    for case in CASES + FUZZ:
        txns = ValidTxns.parse(case["valid_txns"] or ValidTxns.everything().format())
        ids = write_ids_of(case.get("list_kind", "reader"), case["valid_write_ids"])
        listing = vector_listing(case)
        ours = resolve(listing, Reader(ids, txns), raise_on_history=False)
        if reads_all(listing, ours):
            spared += 1
            hive = resolve(listing, Reader(ids, txns, Profile.HIVE4))
            assert (hive.base, hive.deltas, hive.originals) == (ours.base, ours.deltas, ours.originals), case["name"]
    assert spared > 10


def _reader(case: dict[str, Any], profile: Profile = Profile.HIVE4) -> Reader:
    ids = write_ids_of(case.get("list_kind", "reader"), case["valid_write_ids"])
    return Reader(ids, None if case["valid_txns"] is None else ValidTxns.parse(case["valid_txns"]), profile)


def _listed(case: dict[str, Any]) -> list[Listed]:
    return list_in_mode(vector_listing(case), case.get("mode", "snapshot"))


def _select(case: dict[str, Any], *, tolerant: bool = True) -> Selection:
    return select_hive4(_listed(case), vector_listing(case), _reader(case), tolerant=tolerant)


def _left_out(found: Selection, case: dict[str, Any], state: EntryState) -> list[str]:
    """What Hive's own lists of obsolete and aborted paths hold, as the verdicts tell it."""
    names = {name for name, verdict in found.verdicts.items() if verdict.state is state and name in found.considered}
    if state is EntryState.OBSOLETE and found.base is not None:
        for directory in _listed(case):
            if not directory.path.rpartition("/")[2].startswith(ACID_PREFIXES):
                names |= {directory.path} - {""}
                if not directory.path or case.get("mode") != "listing":
                    names |= {file.path for file in directory.files if file.size}
    return sorted(names)


def _resolve(case: dict[str, Any], *, profile: Profile = Profile.HIVE4, raise_on_history: bool = True) -> AcidState:
    return resolve(vector_listing(case), _reader(case, profile), raise_on_history=raise_on_history)


def _answer(found: AcidState | Selection) -> dict[str, Any]:
    return {
        "base": None if found.base is None else found.base.name,
        "deltas": [directory.name for directory in found.deltas],
    }
