"""The state vectors: profile hive4 decides as Hive 4's own code does, to the last case."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from acidctl.errors import NotEnoughHistoryError
from acidctl.format.write_ids import ListView, Reader, ValidTxns, ValidWriteIds
from acidctl.state.equivalence import reads_all
from acidctl.state.hive4 import select_hive4
from acidctl.state.resolve import (
    AcidState,
    HiveFailureError,
    ListingMode,
    MissingTxnListError,
    Profile,
    resolve,
)
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
    if expect["error"] is None:
        answer = {**_answer(_resolve(case)), **_lists(case)}
        assert answer == {key: expect[key] for key in answer}
    elif expect["error"] == "ACID_NOT_ENOUGH_HISTORY":
        with pytest.raises(NotEnoughHistoryError):
            _resolve(case)
        gap = _resolve(case, raise_on_history=False).history_gap
        assert gap is not None
        exception = "x" if gap.first_exception is None else str(gap.first_exception)
        assert [gap.high_watermark, exception, gap.base] == expect["error_detail"]
    else:
        with pytest.raises((HiveFailureError, MissingTxnListError)) as caught:
            _resolve(case)
        assert isinstance(caught.value, HiveFailureError | MissingTxnListError)
        assert caught.value.fault.value == expect["error"]


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
        ids = ValidWriteIds.parse(case["valid_write_ids"], view=ListView(case.get("list_kind", "reader")))
        listing = vector_listing(case)
        ours = resolve(listing, Reader(ids, txns), raise_on_history=False)
        if reads_all(listing, ours):
            spared += 1
            hive = resolve(listing, Reader(ids, txns, Profile.HIVE4))
            assert (hive.base, hive.deltas, hive.originals) == (ours.base, ours.deltas, ours.originals), case["name"]
    assert spared > 10


def _reader(case: dict[str, Any], profile: Profile = Profile.HIVE4) -> Reader:
    ids = ValidWriteIds.parse(case["valid_write_ids"], view=ListView(case.get("list_kind", "reader")))
    return Reader(ids, None if case["valid_txns"] is None else ValidTxns.parse(case["valid_txns"]), profile)


def _lists(case: dict[str, Any]) -> dict[str, Any]:
    """What Hive's own state holds beside what is read; no command of ours shows it."""
    found = select_hive4(
        vector_listing(case),
        _reader(case),
        mode=ListingMode(case.get("mode", "snapshot")),
        ignore_empty_files=bool(case.get("ignore_empty_files")),
        tolerant=False,
    )
    return {
        "obsolete": sorted(found.obsolete),
        "aborted": sorted(found.aborted),
        "aborted_write_ids": sorted(found.aborted_write_ids),
        "uncompacted_aborts": found.uncompacted_aborts,
    }


def _resolve(case: dict[str, Any], *, profile: Profile = Profile.HIVE4, raise_on_history: bool = True) -> AcidState:
    return resolve(
        vector_listing(case),
        _reader(case, profile),
        mode=ListingMode(case.get("mode", "snapshot")),
        ignore_empty_files=bool(case.get("ignore_empty_files")),
        raise_on_history=raise_on_history,
    )


def _answer(state: AcidState) -> dict[str, Any]:
    return {
        "base": None if state.base is None else state.base.name,
        "originals": [file.path for file in state.originals],
        "deltas": [entry.name for entry in state.deltas],
    }
