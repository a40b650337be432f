"""`--only-if-needed`: the thresholds of Hive's initiator, as its rule book works them out."""

from __future__ import annotations

from typing import Any

import pytest

from acidctl.compaction.plan import Action, CompactionKind
from acidctl.compaction.planner import draft_partition
from acidctl.errors import UsageError
from acidctl.format.listing import FileInfo, Listing
from acidctl.types.schema import parse_schema
from tests.support.plans import MAJOR, MINOR, ground_of, ids

MB = 1 << 20
DDL = (
    "CREATE TABLE `t`(`id` int) STORED AS ORC TBLPROPERTIES ('transactional'='true', "
    "'compactorthreshold.hive.compactor.delta.num.threshold'='4', "
    "'compactorthreshold.hive.compactor.delta.pct.threshold'='0.5')"
)


def _listing(base: int | None, deltas: list[int], originals: int = 0) -> Listing:
    """Sizes in bytes: a base, deltas of the writes after it, an original file."""
    files = [] if base is None else [FileInfo("base_0000001/bucket_00000", base, 0.0)]
    files += [
        FileInfo(f"delta_{write_id:07}_{write_id:07}_0000/bucket_00000", size, 0.0)
        for write_id, size in enumerate(deltas, 2)
    ]
    files += [FileInfo("000000_0", originals, 0.0)] if originals else []
    return Listing("t", tuple(files), tuple(sorted({info.directory for info in files} - {""})), {})


def _verdict(listing: Listing, kind: CompactionKind, **options: Any) -> tuple[Action, str, str]:
    context = ground_of(listing, kind, ids(99), "99:9223372036854775807::", only_if_needed=True, **options)
    plan = draft_partition(context, "", "", listing).plan
    return plan.action, plan.reason_code, plan.reason


@pytest.mark.parametrize(
    ("listing", "kind", "needed"),
    [
        (_listing(1000 * MB, [50 * MB] * 3), MAJOR, True),  # 15 % of the base
        (_listing(1000 * MB, [50 * MB] * 3), MINOR, False),  # which a minor would not make smaller
        (_listing(1000 * MB, [50 * MB] * 2), MAJOR, False),  # 10 %, and it takes more
        (_listing(1000 * MB, [4 * MB] * 12), MINOR, True),
        (_listing(1000 * MB, [4 * MB] * 12), MAJOR, True),
        (_listing(None, [MB] * 11), MAJOR, True),
        (_listing(None, [MB] * 9), MAJOR, False),
        (_listing(1000 * MB, [MB] * 10), MAJOR, False),  # more than ten are needed
        (_listing(1000 * MB, [MB] * 11), MINOR, True),
        (_listing(None, [50 * MB] * 3, originals=1000 * MB), MAJOR, True),
        (_listing(None, [30 * MB] * 3, originals=1000 * MB), MAJOR, False),
    ],
)
def test_hives_defaults(listing: Listing, kind: CompactionKind, needed: bool) -> None:
    """The worked examples, and what lies on the edge."""
    action, code, why = _verdict(listing, kind)
    assert (action, code) == ((Action.COMPACT, "") if needed else (Action.NOTHING_TO_DO, "not_needed")), why


def test_what_was_asked_for_wins_over_the_table_and_that_over_hive() -> None:
    """Options, then table properties, then the defaults; the answer gives the figures."""
    listing = _listing(1000 * MB, [60 * MB] * 5)
    schema = parse_schema(DDL)
    assert _verdict(listing, MAJOR)[0] is Action.COMPACT  # 30 %
    assert _verdict(listing, MAJOR, schema=schema)[0] is Action.COMPACT  # more than four
    assert _verdict(_listing(1000 * MB, [60 * MB] * 4), MAJOR, schema=schema)[1] == "not_needed"
    action, _, why = _verdict(listing, MAJOR, schema=schema, delta_num=5)
    assert action is Action.NOTHING_TO_DO
    assert "5 deltas (more than 5 are needed)" in why
    assert "30.0% of the size of the base (more than 50.0% is needed)" in why
    assert _verdict(listing, MAJOR, schema=schema, delta_num=5, delta_pct=0.2)[0] is Action.COMPACT


def test_a_property_that_is_no_number_counts_as_not_set() -> None:
    """As if the table said nothing."""
    for count, fraction in (("many", "half"), ("NaN", "nan"), ("1e999", "inf")):
        schema = parse_schema(DDL.replace("'4'", f"'{count}'").replace("'0.5'", f"'{fraction}'"))
        assert _verdict(_listing(1000 * MB, [MB] * 10), MINOR, schema=schema)[1] == "not_needed"
        assert _verdict(_listing(1000 * MB, [MB] * 11), MINOR, schema=schema)[0] is Action.COMPACT
        assert _verdict(_listing(100 * MB, [MB * 11]), MAJOR, schema=schema)[0] is Action.COMPACT


def test_too_little_to_merge_stays_the_reason() -> None:
    """What could not be compacted anyway is not said to be below a threshold."""
    assert _verdict(_listing(MB, []), MAJOR)[1] == "not_enough"


def test_thresholds_below_nothing_are_refused() -> None:
    """A sign too much."""
    with pytest.raises(UsageError, match="cannot be negative"):
        ground_of(_listing(MB, [MB]), MAJOR, ids(9), only_if_needed=True, delta_pct=-0.1)
