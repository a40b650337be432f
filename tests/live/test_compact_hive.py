"""Real Hive as the judge: it reads, changes, compacts and cleans what acidctl has compacted, and both read alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live.adopted import FIRST_TXN, steps
from tests.live.compactions import (
    FAILED,
    SAME,
    compact_and_read_chosen,
    compare_all_with_hives_own,
    read_from_acid_v1,
    these_or_all,
)
from tests.live.histories import History, MaintainedHistory
from tests.live.living import faults_without_us, live_on
from tests.services.hive import HIVE4, Hive
from tests.services.hive3 import VERSIONS
from tests.support.extent import amount, some

STEPS, STEPS_OF_HIVE_ALONE = 12, 9
# Both write before and after our compactions and our clean; the second in partitions.
SEEDS = some((73, 417), one_of=2, first=1)
MARKS = {"hive3": pytest.mark.hive3, "hive4": pytest.mark.hive}
SERVICES = {"hive3": VERSIONS["3.1.3"], "hive4": HIVE4}
BESIDE = {
    "hive3": (
        "bucketed/02-changed",
        "multi_statement/02-transaction",
        "converted/03-changed",
        "partitioned/02-changed",
    ),
    "hive4": ("bucketed/02-changed", "half_compacted/03-committed", "converted/03-changed", "partitioned/02-changed"),
}
LIVED_ON = {
    "hive3": (
        "hive3/bucketed/02-changed major",
        "hive3/unbucketed/02-changed minor",
        "hive3/partitioned/01-inserted minor",
        "hive3/insert_only/01-inserted major",
        "hive3/evolved/02-filled major",
        "hive3/converted/03-changed major",
    ),
    "hive4": (
        "hive4/bucketed/02-changed major",
        "hive4/partitioned/01-inserted minor",
        "hive4/insert_only/02-aborted major",
        "hive4/foreign_file/02-deleted major",
    ),
}
# Where Hive fails by itself. The MERGE of Hive 3 carries no union through a join, and fails over these partitions. The
# compactors of both keep one byte of each character of a folder's name (writeBytes): Hive 3 does not find folders
# whose names are not ASCII, Hive 4 loses what lies in them. The text in which a job of Hive 4 hands over its result has
# the same for [null] and NULL, and for [""] and [].
HIVES_OWN = (
    *("hive3/types_nested", "hive3/partition_values/02-non-ascii"),
    *("hive4/partition_non_ascii", "hive4/types_nested/02-empty"),
)


@dataclass(frozen=True, slots=True)
class Judge:
    """A running Hive whose transactions begin above those of the fixtures, and which one it is."""

    engine: str
    hive: Hive


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """That of the parameter."""
    with Hive(SERVICES[request.param], tmp_path_factory.mktemp(request.param)) as running:
        running.call(running.java.acidctl.Services.seedTransactions, FIRST_TXN, what="seed transactions")
        yield Judge(request.param, running)


by_each_hive = pytest.mark.parametrize(
    "judge", [pytest.param(engine, marks=mark) for engine, mark in MARKS.items()], indirect=True
)
by_hive_3 = pytest.mark.parametrize("judge", [pytest.param("hive3", marks=pytest.mark.hive3)], indirect=True)


@by_each_hive
def test_hive_reads_what_it_read_before(judge: Judge) -> None:
    """Fixture steps with something to compact: the same rows and row ids, by each of Hive's readers."""
    outcomes = compact_and_read_chosen(judge.hive, judge.engine)
    assert len(outcomes) > 5
    assert {case: outcome for case, outcome in outcomes.items() if outcome.startswith(FAILED)} == {}
    compacted = {case for case, outcome in outcomes.items() if "compacted" in outcome}
    assert {case: outcomes[case] for case in outcomes.keys() - compacted if "nothing_to_do" not in outcomes[case]} == {}
    assert len(compacted) >= len(outcomes) * 0.8


@pytest.mark.parametrize("kind", ["major", "minor"])
@by_each_hive
def test_hives_own_compaction_makes_the_same(judge: Judge, kind: str) -> None:
    """Rows, row ids and kinds of directories."""
    beside = some(BESIDE[judge.engine], one_of=2, first=int(kind == "minor"))
    outcomes = compare_all_with_hives_own(judge.hive, judge.engine, kind, beside)
    assert {case: outcome for case, outcome in outcomes.items() if outcome.startswith(FAILED)} == {}
    assert list(outcomes.values()).count(SAME) >= len(beside)


@pytest.mark.parametrize(
    ("judge", "case"),
    [
        pytest.param(engine, case, marks=mark)
        for engine, mark in MARKS.items()
        for case in these_or_all(engine, LIVED_ON[engine])
    ],
    indirect=["judge"],
)
def test_hive_lives_on_with_it(judge: Judge, case: str) -> None:
    """UPDATE, DELETE, INSERT, MERGE, Hive's minor and major, its cleaner: the rows are right each time."""
    life = live_on(judge.hive, case)
    fails_itself = case.startswith(HIVES_OWN)
    assert life.judge == ("twin" if fails_itself else "statements")
    assert all(life.changed)
    assert life.answers >= {"hive3": 8, "hive4": 10}[judge.engine]
    assert life.removed
    assert life.refused == (("update", "delete", "merge") if "/insert_only" in case else ())
    assert fails_itself or life.faults == ()


@by_hive_3
def test_hive_breaks_unbucketed_tables_by_itself(judge: Judge) -> None:
    """Why Hive's minor is left out for those: it does this to a table that acidctl never touched."""
    faults = faults_without_us(judge.hive, "hive3/unbucketed/02-changed")
    assert len(faults) >= 2
    assert all("Two readers for" in fault or "MapRedTask" in fault for fault in faults)


@by_hive_3
def test_tables_of_hive_2_are_taken_over(judge: Judge, tmp_path: Path) -> None:
    """ACID v1: a major compaction is what makes such a table readable for Hive 3, updates included."""
    done = [
        read_from_acid_v1(judge.hive, step, f"v1_{number}", tmp_path)
        for number, step in enumerate(sorted(steps("hive2")))
    ]
    assert sum(done) >= 20


@pytest.mark.parametrize("seed", SEEDS)
@by_each_hive
def test_random_histories_that_acidctl_maintains(judge: Judge, seed: int) -> None:
    """Beside Hive's writers, its compactor and its cleaner: what acidctl does changes no answer of Hive's."""
    history = MaintainedHistory(judge.hive, f"maintained_{seed}", seed)
    compared = history.live(STEPS)
    assert len(compared) == STEPS
    assert max(compared) > 0
    assert history.ours["compacted"] > 0


@pytest.mark.parametrize("seed", range(amount(2, swept=5)))
@by_each_hive
def test_random_histories_of_hive_alone(judge: Judge, seed: int) -> None:
    """Inserts, updates, deletes, aborted and open transactions, compactions and cleaning: its rows are ours."""
    _check_history(History(judge.hive, f"h{seed}", seed))


@pytest.mark.hive3
@pytest.mark.parametrize("seed", range(amount(2, swept=5)))
def test_random_histories_of_hive_2(hive2: Hive, seed: int) -> None:
    """The same in ACID v1."""
    _check_history(History(hive2, f"h{seed}", seed, list_format="hive2"))


def _check_history(history: History) -> None:
    compared = history.live(STEPS_OF_HIVE_ALONE)
    assert len(compared) == STEPS_OF_HIVE_ALONE
    assert max(compared) > 0
