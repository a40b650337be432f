"""Tables of Hive 3.1.3 that acidctl has compacted, judged by Hive 3.1.3: read, changed, compacted and cleaned on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.adopted import FIRST_TXN, steps
from tests.live.compactions import (
    FAILED,
    SAME,
    compact_and_read_all,
    compare_all_with_hives_own,
    read_from_acid_v1,
    these_or_all,
)
from tests.live.histories import MaintainedHistory
from tests.live.living import faults_without_us, live_on
from tests.services.hive import Hive
from tests.services.hive3 import start_hive

pytestmark = pytest.mark.hive3
STEPS = 12
# Both write before and after our compactions and our clean; the second in partitions.
SEEDS = (73, 417)
ENGINE = "hive3"
BESIDE = ("bucketed/02-changed", "multi_statement/02-transaction", "converted/03-changed", "partitioned/02-changed")
LIVED_ON = (
    "hive3/bucketed/02-changed major",
    "hive3/unbucketed/02-changed minor",
    "hive3/partitioned/01-inserted minor",
    "hive3/insert_only/01-inserted major",
    "hive3/evolved/02-filled major",
    "hive3/converted/03-changed major",
)

# Where Hive fails by itself: its MERGE carries no union through a join, and fails over these partitions; its compactor
# keeps one byte of each character of a folder's name (writeBytes), and does not find those that are not ASCII.
HIVES_OWN = ("hive3/types_nested", "hive3/partition_values/02-non-ascii")


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """A running Hive whose transactions begin above those of the fixtures."""
    with start_hive("3.1.3", tmp_path_factory.mktemp("hive3")) as running:
        seed = running.java.acidctl.Services.seedTransactions
        running.call(seed, FIRST_TXN, what="seed transactions")
        yield running


def test_hive_reads_what_it_read_before(hive: Hive) -> None:
    """Every fixture step with something to compact: the same rows and row ids, by each of Hive's readers."""
    outcomes = compact_and_read_all(hive, ENGINE)
    assert {case: outcome for case, outcome in outcomes.items() if outcome.startswith(FAILED)} == {}
    compacted = {case for case, outcome in outcomes.items() if "compacted" in outcome}
    assert {case: outcomes[case] for case in outcomes.keys() - compacted if "nothing_to_do" not in outcomes[case]} == {}
    assert len(compacted) >= 40


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
    assert life.answers >= 8
    assert life.removed
    assert life.refused == (("update", "delete", "merge") if "/insert_only" in case else ())
    assert fails_itself or life.faults == ()


def test_hive_breaks_unbucketed_tables_by_itself(hive: Hive) -> None:
    """Why Hive's minor is left out for those: it does this to a table that acidctl never touched."""
    faults = faults_without_us(hive, "hive3/unbucketed/02-changed")
    assert len(faults) >= 2
    assert all("Two readers for" in fault or "MapRedTask" in fault for fault in faults)


def test_tables_of_hive_2_are_taken_over(hive: Hive, tmp_path: Path) -> None:
    """ACID v1: a major compaction is what makes such a table readable for Hive 3, updates included."""
    done = [
        read_from_acid_v1(hive, step, f"v1_{number}", tmp_path) for number, step in enumerate(sorted(steps("hive2")))
    ]
    assert sum(done) >= 20


@pytest.mark.parametrize("seed", SEEDS)
def test_random_histories_that_acidctl_maintains(hive: Hive, seed: int) -> None:
    """Beside Hive's writers, its compactor and its cleaner: what acidctl does changes no answer of Hive's."""
    history = MaintainedHistory(hive, f"maintained_{seed}", seed)
    compared = history.live(STEPS)
    assert len(compared) == STEPS
    assert max(compared) > 0
    assert history.ours["compacted"] > 0
