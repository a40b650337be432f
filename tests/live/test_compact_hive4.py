"""Tables of Hive 4 that acidctl has compacted, judged by Hive 4: read, changed, compacted and cleaned on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.adopted import FIRST_TXN
from tests.live.compactions import FAILED, SAME, compact_and_read_all, compare_all_with_hives_own, these_or_all
from tests.live.histories import MaintainedHistory
from tests.live.living import live_on
from tests.services.hive import HIVE4, Hive

pytestmark = pytest.mark.hive
STEPS = 12
# Both write before and after our compactions and our clean; the second in partitions.
SEEDS = (73, 417)
ENGINE = "hive4"
BESIDE = ("bucketed/02-changed", "half_compacted/03-committed", "converted/03-changed", "partitioned/02-changed")
LIVED_ON = (
    "hive4/bucketed/02-changed major",
    "hive4/unbucketed/02-changed minor",
    "hive4/partitioned/01-inserted minor",
    "hive4/insert_only/02-aborted major",
    "hive4/evolution/02-mixed major",
    "hive4/load_data/02-changed major",
    "hive4/foreign_file/02-deleted major",
)

# Where Hive fails by itself: its compactor keeps one byte of each character of a folder's name (writeBytes), and so
# loses what lies in folders whose names are not ASCII; the text in which a job hands over its result has the same for
# [null] and NULL, and for [""] and [].
HIVES_OWN = ("hive4/partition_non_ascii", "hive4/types_nested/02-empty")


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """A running Hive whose transactions begin above those of the fixtures."""
    with Hive(HIVE4, tmp_path_factory.mktemp("hive4")) as running:
        seed = running.java.acidctl.Services.seedTransactions
        running.call(seed, FIRST_TXN, what="seed transactions")
        yield running


def test_hive_reads_what_it_read_before(hive: Hive) -> None:
    """Every fixture step with something to compact: the same rows and row ids, by each of Hive's readers."""
    outcomes = compact_and_read_all(hive, ENGINE)
    assert {case: outcome for case, outcome in outcomes.items() if outcome.startswith(FAILED)} == {}
    compacted = {case for case, outcome in outcomes.items() if "compacted" in outcome}
    assert {case: outcomes[case] for case in outcomes.keys() - compacted if "nothing_to_do" not in outcomes[case]} == {}
    assert len(compacted) >= 50


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_hives_own_compaction_makes_the_same(hive: Hive, kind: str) -> None:
    """Rows, row ids and kinds of directories."""
    outcomes = compare_all_with_hives_own(hive, ENGINE, kind, BESIDE)
    assert {case: outcome for case, outcome in outcomes.items() if outcome.startswith(FAILED)} == {}
    assert list(outcomes.values()).count(SAME) >= len(BESIDE)


@pytest.mark.parametrize("case", these_or_all(ENGINE, LIVED_ON))
def test_hive_lives_on_with_it(hive: Hive, case: str) -> None:
    """UPDATE, DELETE, INSERT, MERGE, Hive's minor and major, its cleaner: the rows are right each time."""
    life = live_on(hive, case)
    fails_itself = case.startswith(HIVES_OWN)
    assert life.judge == ("twin" if fails_itself else "statements")
    assert all(life.changed)
    assert life.answers >= 10
    assert life.removed
    assert life.refused == (("update", "delete", "merge") if "/insert_only" in case else ())
    assert fails_itself or life.faults == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories_that_acidctl_maintains(hive: Hive, seed: int) -> None:
    """Beside Hive's writers, its compactor and its cleaner: what acidctl does changes no answer of Hive's."""
    history = MaintainedHistory(hive, f"maintained_{seed}", seed)
    compared = history.live(STEPS)
    assert len(compared) == STEPS
    assert max(compared) > 0
    assert history.ours["compacted"] > 0
