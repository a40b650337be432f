"""What is read of fixture tables is decided alike before and after a cleaner."""

from __future__ import annotations

from acidctl import open_table
from acidctl.options import ReadView
from acidctl.rows.table_view import PartitionState, read
from tests.support.steps import STEPS


def test_the_kind_of_table_does_not_depend_on_what_a_cleaner_may_remove() -> None:
    """Without the obsolete and aborted directories of any step the guess is the same, and so is what is read; where
    only these say what the table is, the guess says that, and `clean` does not take them away.
    """
    removed, told = 0, []
    for step in STEPS:
        view = ReadView(validtxns=step.lists, list_format=step.list_format)
        locations = open_table(str(step.table)).locations()
        before = read(locations, view)
        cleaned = []
        for part in before.parts:
            names = [e.name for e in part.state.entries if e.parsed and e.state.value in ("obsolete", "aborted")]
            removed += len(names)
            cleaned.append(part.location._replace(listing=part.location.listing.without(names)))
        after = read(cleaned, view)
        if before.kind.until_cleaned:
            told.append(str(step))
            assert before.table_type.value == step.facts["kind"], step
            continue
        assert after.kind == before.kind, step
        assert [live_names(part) for part in after.parts] == [live_names(part) for part in before.parts], step
    assert removed > 100
    assert told == ["hive3/load_data/03-overwritten", "hive4/load_data/04-overwritten"]


def live_names(part: PartitionState) -> tuple[object, ...]:
    """What is read of a location."""
    base = part.state.base.name if part.state.base else None
    return base, [delta.name for delta in part.state.deltas], [file.path for file in part.state.originals]
