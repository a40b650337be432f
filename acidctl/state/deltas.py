"""Choose deltas: the part of Hive's algorithm that both profiles share (findBestWorkingDeltas).

The order of the sort decides everything: lowest first id, then the WIDEST, then the statement, so that a
compacted delta comes before what it covers:

    delta_1_5_v10  delta_1_1_0000  delta_5_5_0000  delta_6_6_0000
    taken          covered         covered         taken

Changing it makes a reader skip data or read it twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from acidctl.format.names import MIN_LONG, DeltaDir, WriteIdRange, path_order_key
from acidctl.format.write_ids import RangeAnswer, ValidWriteIds
from acidctl.state.entries import Candidate


@dataclass(frozen=True, slots=True)
class Choice:
    """What became of one admitted delta.

    `covered` is True for one that lies inside what is read already; neither taken nor covered is one whose
    rest is not visible. `cover` are the deltas it was measured against, empty for the base; `covered_to` is
    how far those reach.
    """

    candidate: Candidate
    taken: bool
    covered: bool
    cover: tuple[Candidate, ...]
    covered_to: int


def delta_of(candidate: Candidate) -> DeltaDir:
    """The parsed name of a delta candidate."""
    assert isinstance(candidate.parsed, DeltaDir)
    return candidate.parsed


def choose_deltas(admitted: Iterable[Candidate], floor: int, ids: ValidWriteIds) -> list[Choice]:
    """Walk the admitted deltas in selection order; `floor` is the base's write id, 0 without a base."""
    choices: list[Choice] = []
    current = floor
    group: list[Candidate] = []
    previous: DeltaDir | None = None
    last_statement: int | None = None
    for candidate in sorted(admitted, key=delta_order):
        delta = delta_of(candidate)
        cover = tuple(group)
        if delta.max_write_id > current:
            taken = ids.is_range_valid(current + 1, delta.max_write_id) is not RangeAnswer.NONE
            choices.append(Choice(candidate, taken, False, cover, current))
            if taken:
                current, last_statement, previous = delta.max_write_id, delta.statement_id, delta
                group = [candidate]
            continue
        # Other statements of the same transaction, and the other kind of the same statement; Hive does not
        # compare where they begin.
        sibling = delta.max_write_id == current and last_statement is not None
        # The other kind of one compaction: equal numbers, and no statement to tell them apart.
        twin = previous is not None and (delta.range, delta.statement_id) == (previous.range, previous.statement_id)
        choices.append(Choice(candidate, sibling or twin, not (sibling or twin), cover, current))
        if sibling or twin:
            previous = delta
            group.append(candidate)
    return choices


def overlap_notes(choices: Sequence[Choice], base: Candidate | None) -> list[str]:
    """Sentences about deltas that are read although they reach into what is read already.

    Compactors produce nested or disjoint ranges only, and reading such a pair is right only if they did.
    """
    notes = []
    for choice in choices:
        delta = delta_of(choice.candidate)
        if not choice.taken or not delta.range.crosses(WriteIdRange(MIN_LONG, choice.covered_to)):
            continue
        if choice.cover:
            notes.append(
                f"{choice.candidate.name} overlaps {choice.cover[0].name} in part; both are read whole, "
                "and rows that both hold come twice."
            )
        elif base is not None and not base.is_first_compaction:
            notes.append(
                f"{choice.candidate.name} begins inside {base.name}; it is read whole, "
                "and rows that the base holds as well come twice."
            )
    return notes


def lonely_deltas(choices: Sequence[Choice]) -> dict[str, str]:
    """Deltas covered only by deltas of the other kind, each with a sentence: half of a compaction is missing.

    Unless they hold nothing: Hive 3 writes files without events for the side of a minor compaction that has none.
    """
    notes = {}
    for choice in choices:
        if not choice.covered or not choice.cover or not any(file.size for file in choice.candidate.files):
            continue
        kind = delta_of(choice.candidate).kind
        if all(delta_of(cover).kind is not kind for cover in choice.cover):
            missing = "inserted" if kind.value == "delta" else "deleted"
            notes[choice.candidate.name] = (
                f"{choice.candidate.name} is covered by {choice.cover[0].name} alone, which cannot hold what "
                f"it {missing}; the other half of that compaction is missing."
            )
    return notes


def delta_order(candidate: Candidate) -> tuple[int, int, int, bytes]:
    """Sort key of the selection order: first id up, last id down, statement up (none first), then the path."""
    delta = delta_of(candidate)
    statement = -1 if delta.statement_id is None else delta.statement_id
    return delta.min_write_id, -delta.max_write_id, statement, path_order_key(candidate.name)
