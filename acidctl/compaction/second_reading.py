"""What another ORC library finds in a written file: a bounded sample of rows, read by pyorc and compared with ours."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from acidctl.errors import VerificationError
from acidctl.format.events import EventKeys
from acidctl.orc.reader import OrcFile
from acidctl.types.hive_types import HiveType
from acidctl.types.stored_digest import RowDigest

_SAMPLE_GROUPS = 5
HINT = "Nothing of it is published; the table is as it was. Run compact again, and report it if it happens again."


def wrong(name: str, what: str) -> VerificationError:
    """The error that says what is wrong with a written file; `what` is a clause."""
    return VerificationError(f"{name} is not what was to be written: {what}", path=name, hint=HINT)


@dataclass(frozen=True, slots=True)
class Window:
    """Rows of the file as our reader gave them, from row `start` on."""

    start: int
    keys: EventKeys | None
    columns: tuple[pa.Array, ...]

    @property
    def rows(self) -> int:
        return len(self.columns[0]) if self.keys is None else len(self.keys)


def sample_rows(orc: OrcFile, sample: int) -> list[tuple[int, int]]:
    """Which rows the other library reads, as (first, after the last), ascending.

    They begin with a row group, found by the row index that Hive uses as well. Only there ORC's C++ library has nothing
    to skip: it fails where all that it skips of a string column is NULL.
    """
    if sample <= 0:
        return []
    stride, start = orc.tail.row_index_stride, 0
    spans: list[tuple[int, int]] = []
    for stripe in orc.tail.stripes:
        for first in range(0, stripe.rows, stride or max(stripe.rows, 1)):
            spans.append((start + first, start + min(first + (stride or stripe.rows), stripe.rows)))
        start += stripe.rows
    if len(spans) > _SAMPLE_GROUPS:
        middle = random.Random(os.fsencode(orc.name)).sample(spans[1:-1], _SAMPLE_GROUPS - 2)
        spans = sorted([spans[0], *middle, spans[-1]])
    size = max(1, sample // max(len(spans), 1))
    return [(start, min(end, start + size)) for start, end in spans]


def second_opinion(file: BinaryIO, orc: OrcFile, windows: Sequence[Window]) -> tuple[int, tuple[str, ...]]:
    """Compare rows with what pyorc reads of them: how many, and what could not be compared."""
    try:
        from acidctl.orc import pyorc_reader
    except ImportError:
        return 0, ("pyorc is not installed, so that no second ORC library has read the file.",)

    fields = orc.columns.fields if windows[0].columns else ()
    gaps: dict[int, str] = {}
    for place, known in enumerate(fields):
        why = pyorc_reader.incomparable(known.type, orc)
        for window in windows:
            why = why or pyorc_reader.unreadable(known.type, window.columns[place])
        if why is not None:
            gaps[place] = why
    places = [place for place in range(len(fields)) if place not in gaps]
    keys = windows[0].keys is not None
    if not places and not keys:
        return 0, _gap_sentences(orc, gaps)
    try:
        rows = pyorc_reader.Rows(file, orc, places)
        if len(rows) != orc.rows:
            raise wrong(orc.name, f"another ORC library finds {len(rows)} rows in it, not {orc.rows}")
        for window in windows:
            found_keys, values = rows.read(window.start, window.rows)
            if keys:
                _compare_keys(orc.name, window, found_keys)
            if places:
                _compare_rows(orc, window, places, values, gaps)
    except pyorc_reader.CannotRead as problem:
        return 0, (f"pyorc cannot read {orc.name}: {problem}.",)
    except ValueError as error:
        raise wrong(orc.name, f"another ORC library cannot read it: {error}") from error
    return sum(window.rows for window in windows), _gap_sentences(orc, gaps)


def _gap_sentences(orc: OrcFile, gaps: Mapping[int, str]) -> tuple[str, ...]:
    return tuple(f"Column '{orc.columns.fields[place].name}': {why}." for place, why in sorted(gaps.items()))


def _compare_keys(name: str, window: Window, found: Sequence[tuple[int, ...]]) -> None:
    assert window.keys is not None
    operation = window.keys.operation
    codes = np.zeros(len(window.keys), dtype=np.int64) if operation is None else operation
    keys = window.keys
    ours = zip(*(part.tolist() for part in (codes, keys.write_id, keys.bucket, keys.row_id, keys.current)), strict=True)
    if list(ours) != [tuple(key) for key in found]:
        raise wrong(name, f"another ORC library reads other keys near row {window.start}")


def _compare_rows(
    orc: OrcFile,
    window: Window,
    places: Sequence[int],
    rows: Sequence[tuple[object, ...] | None],
    gaps: dict[int, str],
) -> None:
    from acidctl.orc import pyorc_reader

    if any(row is None for row in rows):
        raise wrong(orc.name, f"another ORC library finds no row in an event near row {window.start}")
    for index, place in enumerate(places):
        known, ours = orc.columns.fields[place], window.columns[place]
        if place in gaps:
            continue
        if not same_values([row[index] for row in rows if row is not None], known.type, ours, undecided=False):
            why = pyorc_reader.undecided(known.type, ours)
            if why is None:
                raise wrong(
                    orc.name, f"another ORC library reads other values in column '{known.name}' near row {window.start}"
                )
            gaps[place] = why


def same_values(values: Sequence[object], kind: HiveType, ours: pa.Array, *, undecided: bool = True) -> bool:
    """Whether values that pyorc has read are ours; `undecided` is the answer where a difference proves nothing."""
    from acidctl.orc import pyorc_reader

    try:
        theirs = pyorc_reader.as_arrow(values, kind, ours.type)
    except ValueError:
        return False  # no value of this type, as fractions beyond a second are
    if _digest_of(theirs) == _digest_of(ours):
        return True
    return undecided and pyorc_reader.undecided(kind, ours) is not None


def _digest_of(column: pa.Array) -> str:
    """A digest of a column's values and their order."""
    digest = RowDigest()
    digest.update(None, [pa.array(np.arange(len(column))), column])
    return digest.hexdigest()
