"""Tables of Hive 4 that acidctl has compacted, judged by Hive 4: read, changed, compacted and cleaned on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from services.hive import HIVE4, Hive

from live.adopted import FIRST_TXN, FIXTURES
from live.compactions import compact_and_read_all, compare_all_with_hives_own, live_on
from live.histories import MaintainedHistory

pytestmark = pytest.mark.hive
STEPS = 12
ENGINE = "hive4"
BESIDE = ("bucketed/02-changed", "half_compacted/03-committed", "converted/02-converted")
LIVED_ON = (("bucketed/02-changed", "major"), ("bucketed/02-changed", "minor"), ("unbucketed/02-changed", "major"))


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
    compacted = {case for case, outcome in outcomes.items() if "compacted" in outcome}
    assert {case: outcomes[case] for case in outcomes.keys() - compacted if "nothing_to_do" not in outcomes[case]} == {}
    assert len(compacted) >= 50


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_hives_own_compaction_makes_the_same(hive: Hive, kind: str) -> None:
    """Rows, row ids and kinds of directories."""
    compacted = compare_all_with_hives_own(hive, ENGINE, kind, BESIDE)
    assert any(compacted.values()), compacted


@pytest.mark.parametrize(("name", "kind"), LIVED_ON)
def test_hive_lives_on_with_it(hive: Hive, name: str, kind: str) -> None:
    """UPDATE, DELETE, INSERT, MERGE, Hive's minor and major, its cleaner: the rows are right each time."""
    live_on(
        hive, FIXTURES / ENGINE / name, kind, f"lived_{name.replace('/', '_').replace('-', '_')}_{kind}", target=ENGINE
    )


@pytest.mark.parametrize("seed", range(2))
def test_random_histories_that_acidctl_maintains(hive: Hive, seed: int) -> None:
    """Beside Hive's writers, its compactor and its cleaner: what acidctl does changes no answer of Hive's."""
    history = MaintainedHistory(hive, f"maintained_{seed}", 100 + seed)
    for _ in range(STEPS):
        history.step()
        history.compare()
    history.close()
