"""Hive 4 with its warehouse on real HDFS, and acidctl beside it on the same tables by `hdfs://` and `webhdfs://`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import acidctl as package
from acidctl.types.format_rows import json_lines
from tests.cli.runner import acidctl
from tests.live.adopted import FIRST_TXN, FIXTURES
from tests.live.compactions import chosen_cases, compact_and_read, label
from tests.live.hdfs_tables import SCHEMES, AdoptedOnHdfs, on_hdfs, root_url
from tests.live.histories import MaintainedHistory
from tests.live.living import live_on
from tests.live.statements import full_acid
from tests.services.hdfs import Hdfs
from tests.services.hive import HIVE4, Hive
from tests.support.extent import SWEEP, some
from tests.support.steps import STEPS, Step, sorted_rows

pytestmark = [pytest.mark.hdfs, pytest.mark.hive, pytest.mark.timeout(600)]
HISTORY = 6
# The last step of each scenario holds what the ones before it have made.
LAST_STEPS = STEPS if SWEEP else list({step.scenario: step for step in STEPS}.values())
# Both write before and after our compactions, and our clean comes after them.
SEEDS = (124, 71)
CLEANED = (("bucketed/02-changed", "hdfs"), ("partitioned/02-changed", "webhdfs"))


@pytest.fixture(scope="module")
def hive(hdfs_cluster: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """A running Hive on that HDFS, whose transactions begin above those of the fixtures."""
    hdfs_cluster.mkdir("/warehouse")
    hdfs_cluster.mkdir("/scratch", mode="777")
    with Hive(HIVE4.on_hdfs(hdfs_cluster.url), tmp_path_factory.mktemp("hive4")) as running:
        running.call(running.java.acidctl.Services.seedTransactions, FIRST_TXN, what="seed transactions")
        yield running
    hdfs_cluster.remove("/warehouse")
    hdfs_cluster.remove("/scratch")


@pytest.fixture(scope="module")
def corpus(hdfs_cluster: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the tables of fixtures lie on that HDFS."""
    local = tmp_path_factory.mktemp("corpus")
    for step in LAST_STEPS:
        assert step.facts  # which makes empty directories again
        source = step.table
        for folder, _, names in os.walk(source):
            target = local / str(step) / Path(folder).relative_to(source)
            target.mkdir(parents=True)
            for name in names:
                os.symlink(Path(folder, name), target / name)
    hdfs_cluster.put_tree(local, "/corpus")
    yield "/corpus"
    hdfs_cluster.remove("/corpus")


def _misread(step: Step, url: str) -> str | None:
    """What is different between the table there and what Hive returned, and the digest of the local table."""
    there = package.open_table(url).snapshot(**step.view)
    rows: list[dict[str, Any]] = []
    for part in there.rows():
        plain = part.names, part.types, part.columns
        names, types, columns = part.with_row_id() if step.transactional else plain
        rows += [json.loads(line) for line in bytes(json_lines(columns, names, types)).decode().split("\n") if line]
    if sorted_rows(rows) != sorted_rows(step.hive_rows):
        return f"{step}: other rows"
    here = package.open_table(str(step.table)).snapshot(**step.view)
    return None if there.digest() == here.digest() else f"{step}: another digest"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_table_reads_as_hive_read_it(scheme: str, corpus: str, hdfs_cluster: Hdfs) -> None:
    """Rows and row ids are those that Hive returned, and the digest is that of the same table on this machine."""
    root = f"{root_url(hdfs_cluster, scheme)}{corpus}"
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda step: _misread(step, f"{root}/{step}"), LAST_STEPS))
    assert len(found) > 70
    assert [one for one in found if one is not None] == []


def test_hive_reads_what_it_read_before(hive: Hive, hdfs_cluster: Hdfs) -> None:
    """Fixture steps with something to compact, by both ways in turns: the same rows and row ids for Hive's readers."""
    judged = 0
    chosen = some(chosen_cases("hive4", each_scenario=False), one_of=2)
    for number, (step, kind) in enumerate(chosen):
        adopt = on_hdfs(hdfs_cluster, SCHEMES[number % 2])
        jobs = SWEEP or number % 4 == 0
        outcome = compact_and_read(hive, step, kind, f"read_{number}", target="hive4", jobs=jobs, adopt=adopt)
        assert "compacted" in outcome or "nothing_to_do" in outcome, (label(step), kind, outcome)
        judged += "compacted" in outcome
    assert judged >= len(chosen) * 2 // 3


def test_hive_lives_on_with_it(hive: Hive, hdfs_cluster: Hdfs) -> None:
    """UPDATE, DELETE, INSERT, MERGE, Hive's minor and major, its cleaner: the rows are right each time."""
    life = live_on(hive, "hive4/unbucketed/02-changed minor", adopt=on_hdfs(hdfs_cluster, "hdfs"))
    assert life.judge == "statements"
    assert all(life.changed)
    assert life.answers >= 10
    assert life.removed
    assert life.faults == ()


@pytest.mark.parametrize(("name", "scheme"), some(CLEANED, one_of=2))
def test_hive_lives_on_with_what_was_cleaned(hive: Hive, hdfs_cluster: Hdfs, name: str, scheme: str) -> None:
    """Set aside, brought back, removed: Hive reads the same rows after each, and goes on writing."""
    step = FIXTURES / "hive4" / name
    table = AdoptedOnHdfs(hive, step, f"cleaned_{scheme}", hdfs=hdfs_cluster, scheme=scheme)
    try:
        before, old = table.rows(), set(table.directories())
        table.compact("major", "--target", "hive4")
        new = set(table.directories()) - old
        assert new
        aside = ("--quarantine", f"{root_url(hdfs_cluster, scheme)}/warehouse/_aside_{scheme}")
        _clean(table, *aside)
        left = set(table.directories())
        assert new <= left < old | new
        assert table.rows() == before
        _clean(table, "--undo", *aside)
        assert set(table.directories()) == old | new
        assert table.rows() == before
        _clean(table, "--delete", "--yes")
        assert set(table.directories()) == left
        assert table.rows() == before == table.rows(job=True)
        for statement in list(full_acid(table.facts, table.values()))[:3]:
            hive.run(statement.sql.format(t=table.name))
            assert table.values() == list(statement.rows), statement.sql
        written = table.rows()
        table.compact("minor", "--target", "hive4", "--assume-exclusive")
        assert table.rows() == written
    finally:
        table.drop()


def _clean(table: AdoptedOnHdfs, *options: str) -> None:
    """Runs `acidctl clean` as the only reader; it leaves nothing undone."""
    lists = ["--schema", table.ddl(), *table.lists()]
    result = acidctl("clean", table.url, *lists, "--unsafe-no-retention", *options, "-o", "json")
    assert result.code == 0, (options, result.stdout, result.stderr)


def test_a_random_history_that_acidctl_maintains(hive: Hive, hdfs_cluster: Hdfs) -> None:
    """Beside Hive's writers, its compactor and its cleaner: what acidctl does changes no answer of Hive's."""
    for scheme, seed in some(zip(SCHEMES, SEEDS, strict=True), one_of=2, first=1):
        warehouse = f"{root_url(hdfs_cluster, scheme)}/warehouse"
        history = MaintainedHistory(hive, f"maintained_{scheme}", seed, warehouse=warehouse)
        compared = history.live(HISTORY)
        assert len(compared) == HISTORY
        assert max(compared) > 0
        assert history.ours["compacted"] > 0
