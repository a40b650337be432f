"""The run of a plan: partitions side by side, failures that stay where they are, interrupts that leave nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import acidctl
from acidctl.compaction import run as module
from acidctl.compaction.plan import Action, Role, TaskSpec
from acidctl.compaction.publish import publish
from acidctl.compaction.report import Outcome
from acidctl.compaction.run import Prepared, Progress
from acidctl.engine import EngineChoice, Task, TaskOutcome
from acidctl.engine.local import LocalEngine
from acidctl.errors import DamagedDataError, MissingDependencyError, StalePlanError, UsageError, VerificationError
from acidctl.maintenance.lock import acquire
from acidctl.storage.local import LocalStorage
from tests import ROOT
from tests.support.specs import task_specs

TABLES = ROOT / "fixtures" / "tables"
STEP = TABLES / "hive4/demo_orders/03-demo"
FACTS = json.loads((STEP / "step.json").read_text())
LISTS = [FACTS["valid_write_ids"], FACTS["valid_txns"]]
PARTITIONS = ("ds=1", "ds=2", "ds=3")

Change = Callable[[int, TaskSpec, TaskOutcome], TaskOutcome]


class Engine:
    """The local one, with outcomes that a test may change; counts what it is given."""

    name = "fake"

    def __init__(self, change: Change = lambda index, spec, outcome: outcome) -> None:
        self.change = change
        self.waves: list[int] = []
        self.roles: list[Role] = []
        self.closed = False

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """As the local engine, one after the other."""
        self.waves.append(len(specs))
        known = task_specs(specs)
        self.roles += [spec.task.role for spec in known]
        with LocalEngine(parallelism=1) as engine:
            for outcome in engine.run(specs):
                yield self.change(outcome.index, known[outcome.index], outcome)

    def close(self) -> None:
        """Remembered."""
        self.closed = True


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three partitions of the demo table."""
    for name in PARTITIONS:
        shutil.copytree(STEP / "table", tmp_path / "orders" / name)
    return tmp_path / "orders"


def _prepared(table: Path, kind: str = "major", **options: Any) -> Prepared:
    return acidctl.open_table(str(table)).prepare_compaction(kind, validtxns=LISTS, **options)


def _digest(table: Path) -> tuple[int, str]:
    return acidctl.open_table(str(table)).snapshot(validtxns=LISTS).count_and_digest()


def _names(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.rglob("*")}


def _outcomes(report: acidctl.CompactionReport) -> dict[str, str]:
    return {part.partition: part.outcome.value for part in report.partitions}


def test_partitions_share_the_engine(table: Path) -> None:
    """Tasks of all partitions are handed over at once, largest first; each is published."""
    before = _digest(table)
    engine = Engine()
    seen: list[Progress] = []
    report = _prepared(table).start(engine, watch=seen.append).run()
    assert _outcomes(report) == dict.fromkeys(PARTITIONS, "compacted")
    assert engine.waves == [6]
    assert [part.outputs for part in report.partitions] == [("base_0000007",)] * 3
    assert _digest(table) == before
    last = seen[-1]
    assert (last.partitions_done, last.rows_done, last.bytes_done) == (3, last.rows, last.bytes)
    assert [p.bytes_done for p in seen] == sorted(p.bytes_done for p in seen)


@pytest.mark.slow
def test_waves_bound_what_is_held(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of partitions are worked through a few at a time: no more locks than a wave has."""
    monkeypatch.setattr(module, "WAVE_PARTITIONS", 1)
    locks: list[int] = []

    def count(index: int, spec: TaskSpec, outcome: TaskOutcome) -> TaskOutcome:
        locks.append(len(list(table.glob("*/_acidctl_work_*"))))
        return outcome

    engine = Engine(count)
    report = _prepared(table).start(engine).run()
    assert _outcomes(report) == dict.fromkeys(PARTITIONS, "compacted")
    assert engine.waves == [2, 2, 2]
    assert max(locks) <= 2  # one at work, one being published


@pytest.mark.slow
def test_parts_are_joined(tmp_path: Path) -> None:
    """A bucket that is cut into key ranges is one file in the end, with the rows it had."""
    step = TABLES / "hive4/many_rows/01-written"
    facts = json.loads((step / "step.json").read_text())
    shutil.copytree(step / "table", tmp_path / "t")
    lists = [facts["valid_write_ids"], facts["valid_txns"]]
    table = acidctl.open_table(str(tmp_path / "t"))
    before = table.snapshot(validtxns=lists).count_and_digest()
    prepared = table.prepare_compaction("major", validtxns=lists, split_bytes=1)
    cuts = [len(task.cuts) for part in prepared.plan.partitions for task in part.tasks]
    assert max(cuts) > 0
    engine = Engine()
    report = prepared.start(engine).run()
    assert _outcomes(report) == {"": "compacted"}
    assert engine.roles.count(Role.JOIN) == sum(count > 0 for count in cuts)
    assert table.snapshot(validtxns=lists).count_and_digest() == before
    part = report.partitions[0]
    assert (part.files_out, part.rows_out) == (len(cuts), before[0])
    whole = part.rows_in
    again = acidctl.open_table(str(shutil.copytree(step / "table", tmp_path / "u" / "t"))).compact(
        "major", validtxns=lists
    )
    assert again.partitions[0].rows_in == whole


# --- failures


def _failing(partition: str, error: acidctl.AcidctlError) -> Change:
    def change(index: int, spec: TaskSpec, outcome: TaskOutcome) -> TaskOutcome:
        return TaskOutcome(index, error=error) if spec.url.endswith(partition) else outcome

    return change


def test_a_failed_task_concerns_its_partition_alone(table: Path) -> None:
    """The work directory goes, the others are published: exit 3."""
    before, names = _digest(table), _names(table / "ds=2")
    report = _prepared(table).start(Engine(_failing("ds=2", DamagedDataError("bad", hint="mend it")))).run()
    assert _outcomes(report) == {**dict.fromkeys(PARTITIONS, "compacted"), "ds=2": "failed"}
    failed = report.partitions[1]
    assert (failed.reason_code, failed.reason, failed.hint) == ("damaged", "bad", "mend it")
    assert failed.outputs == ()
    assert report.exit_code == 3
    assert _names(table / "ds=2") == names
    assert _digest(table) == before


@pytest.mark.slow
def test_a_failed_verification_is_kept_as_evidence(table: Path) -> None:
    """Exit 13; the work directory stays, marked, with what was written; the next run does not touch it."""
    report = _prepared(table).start(Engine(_failing("ds=2", VerificationError("not the same rows")))).run()
    assert report.exit_code == 13
    (work,) = (table / "ds=2").glob("_acidctl_work_*")
    assert json.loads((work / "failed").read_text())["reason"] == "not the same rows"
    assert work.name in report.partitions[1].notes[-1]
    assert not list((table / "ds=2").glob("_acidctl_lock*"))
    assert not list(table.glob("ds=[13]/_acidctl*"))
    again = _prepared(table).start(Engine()).run()
    assert _outcomes(again) == {**dict.fromkeys(PARTITIONS, "nothing_to_do"), "ds=2": "compacted"}
    assert work.exists()


def _dropped_row(index: int, spec: TaskSpec, outcome: TaskOutcome) -> TaskOutcome:
    """A result that claims a file which is not whole."""
    assert outcome.result is not None
    assert outcome.result.path is not None
    path = Path(spec.url) / spec.work / outcome.result.path
    path.write_bytes(path.read_bytes()[:-1])
    return outcome


@pytest.mark.slow
def test_what_is_not_complete_is_not_published(table: Path) -> None:
    """A file that lost a byte after its task was done: nothing of that run is published."""
    before = _digest(table)
    report = _prepared(table).start(Engine(_dropped_row)).run()
    assert {part.outcome for part in report.partitions} == {Outcome.FAILED}
    assert report.exit_code == 13
    assert not list(table.glob("*/base_0000007"))
    assert _digest(table) == before


@pytest.mark.slow
def test_a_fault_of_our_own_stops_nobody_else(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that nobody foresaw is that partition's failure, in a sentence."""

    def faulty(*args: Any) -> tuple[str, ...]:
        if str(args[1]).endswith("ds=3"):
            raise ZeroDivisionError("division by zero")
        return publish(*args)

    monkeypatch.setattr(module, "publish", faulty)
    report = _prepared(table).start(Engine()).run()
    assert _outcomes(report) == {**dict.fromkeys(PARTITIONS, "compacted"), "ds=3": "failed"}
    assert report.partitions[2].reason == "unexpected ZeroDivisionError: division by zero"
    assert not list(table.rglob("_acidctl*"))


def test_what_concerns_all_is_raised(table: Path) -> None:
    """No Java: nothing was done, so that is the answer of the whole run."""

    class Broken(Engine):
        def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
            raise MissingDependencyError("there is no Java")

    names = _names(table)
    with pytest.raises(MissingDependencyError, match="no Java"):
        _prepared(table).start(Broken()).run()
    assert _names(table) == names


def test_seconds_of_other_processes_count_too(table: Path) -> None:
    """Those that a worker was at work for; of this process they are known already."""

    def by_a_worker(index: int, spec: TaskSpec, outcome: TaskOutcome) -> TaskOutcome:
        return replace(outcome, result=replace(outcome.result, process=os.getpid() + 1, phases={"read": 7.0}))

    engine = Engine(by_a_worker)
    report = _prepared(table).start(engine).run()
    assert 7.0 * sum(engine.waves) <= report.phases["read"] < 7.0 * sum(engine.waves) + 7.0


@pytest.mark.slow
def test_what_concerns_all_does_not_hide_what_is_done(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine breaks down later: those that are compacted are told, and the rest has failed."""
    monkeypatch.setattr(module, "WAVE_PARTITIONS", 1)
    monkeypatch.setattr(module, "STORAGE_THREADS", 1)

    class Fading(Engine):
        def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
            if self.waves:
                raise MissingDependencyError("the cluster is gone")
            return super().run(specs)

    report = _prepared(table).start(Fading()).run()
    assert list(_outcomes(report).values()) == ["compacted", "failed", "failed"]
    assert report.partitions[2].reason == "the cluster is gone"
    assert report.exit_code == 3
    assert not list(table.rglob("_acidctl*"))


def test_a_cancelled_run_ends_with_the_next_outcome(table: Path) -> None:
    """For interrupts that get lost in a library."""
    names = _names(table)
    run = _prepared(table).start(Engine())
    run.cancel()
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert _names(table) == names


@pytest.mark.slow
@pytest.mark.parametrize("after", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_an_interrupt_leaves_nothing(after: int, table: Path) -> None:
    """Ctrl-C: engine closed, work directories and locks gone; what was published stays, and all reads as before."""
    before = _digest(table)
    seen = []

    def interrupt(index: int, spec: TaskSpec, outcome: TaskOutcome) -> TaskOutcome:
        seen.append(index)
        if len(seen) > after:
            raise KeyboardInterrupt
        return outcome

    engine = Engine(interrupt)
    run = _prepared(table).start(engine)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert engine.closed
    assert not list(table.rglob("_acidctl*"))
    assert len(list(table.glob("*/base_0000007"))) == run.compacted <= 3
    assert _digest(table) == before
    assert _prepared(table).start(Engine()).run().exit_code == 0


# --- others at work


@pytest.mark.slow
def test_a_locked_partition_is_left_to_its_owner(table: Path) -> None:
    """Another run holds it: that partition fails with 15, the others are compacted."""
    storage = LocalStorage()
    prepared = _prepared(table)
    with acquire(storage, str(table / "ds=1"), now=0.0):
        report = prepared.start(Engine()).run()
    assert _outcomes(report) == {**dict.fromkeys(PARTITIONS, "compacted"), "ds=1": "failed"}
    assert report.partitions[0].reason_code == StalePlanError.code


@pytest.mark.slow
def test_a_locked_partition_without_work_is_no_failure(table: Path) -> None:
    """Somebody works where there is nothing for us to do: said, and exit 0."""
    _prepared(table).start(Engine()).run()
    with acquire(LocalStorage(), str(table / "ds=1"), now=0.0):
        report = _prepared(table).start(Engine()).run()
    assert _outcomes(report) == dict.fromkeys(PARTITIONS, "nothing_to_do")
    assert report.exit_code == 0
    assert "already locked by this process" in report.partitions[0].notes[-1]


@pytest.mark.slow
def test_leftovers_go_where_there_is_nothing_to_do(table: Path) -> None:
    """A run that died after publishing: the next one has nothing to compact, and cleans up behind it."""
    _prepared(table).start(Engine()).run()
    lock = acquire(LocalStorage(), str(table / "ds=1"), now=0.0)
    content = json.loads((table / "ds=1" / "_acidctl_lock").read_text())
    content["pid_started"] = "1"  # as of a process that has ended, whose number was given away again
    (table / "ds=1" / "_acidctl_lock").write_text(json.dumps(content))
    report = _prepared(table).start(Engine()).run()
    lock.release()
    assert _outcomes(report) == dict.fromkeys(PARTITIONS, "nothing_to_do")
    assert not list(table.rglob("_acidctl*"))


@pytest.mark.parametrize("moment", ["before", pytest.param("while", marks=pytest.mark.slow)])
def test_inputs_that_change_make_a_partition_stale(moment: str, table: Path) -> None:
    """Somebody replaces a file after planning, or while the task runs: nothing is published there."""
    victim = next((table / "ds=3").glob("delta_0000005*/bucket_*"))
    prepared = _prepared(table)

    def touch(index: int, spec: TaskSpec, outcome: TaskOutcome) -> TaskOutcome:
        os.utime(victim, (1, 1))
        return outcome

    if moment == "before":
        os.utime(victim, (1, 1))
    report = prepared.start(Engine(touch) if moment == "while" else Engine()).run()
    assert _outcomes(report) == {**dict.fromkeys(PARTITIONS, "compacted"), "ds=3": "failed"}
    assert report.partitions[2].reason_code == StalePlanError.code
    assert not list((table / "ds=3").glob("base_0000007"))
    assert not list(table.rglob("_acidctl*"))


@pytest.mark.slow
def test_what_comes_after_planning_stays(table: Path) -> None:
    """A delta that Hive adds meanwhile is not an input, and no reason to stop."""
    prepared = _prepared(table)

    def insert(index: int, spec: TaskSpec, outcome: TaskOutcome) -> TaskOutcome:
        new = table / "ds=1" / "delta_0000012_0000012_0000"
        if not new.exists():
            shutil.copytree(next((table / "ds=1").glob("delta_0000005_*")), new)
        return outcome

    report = prepared.start(Engine(insert)).run()
    assert _outcomes(report) == dict.fromkeys(PARTITIONS, "compacted")
    assert (table / "ds=1" / "delta_0000012_0000012_0000").exists()


@pytest.mark.slow
def test_nothing_to_do_takes_no_lock(table: Path) -> None:
    """A run without work touches no storage."""
    _prepared(table).start(Engine()).run()
    prepared = _prepared(table)
    assert prepared.idle
    assert {part.action for part in prepared.plan.partitions} == {Action.NOTHING_TO_DO}
    before = {path: path.stat().st_mtime_ns for path in table.rglob("*")}
    engine = Engine()
    assert prepared.start(engine).run().exit_code == 0
    assert engine.waves == []
    assert {path: path.stat().st_mtime_ns for path in table.rglob("*")} == before


# --- the public entry, and which engine


@pytest.mark.slow
def test_compact_from_python(table: Path) -> None:
    """`acidctl.compact` takes a path or a table; progress can be watched."""
    seen: list[Progress] = []
    report = acidctl.compact(str(table), "major", validtxns=LISTS, engine="local", watch=seen.append)
    assert report.exit_code == 0
    assert seen
    again = acidctl.compact(acidctl.open_table(str(table)), "major", validtxns=LISTS, engine="local")
    assert {part.outcome for part in again.partitions} == {Outcome.NOTHING_TO_DO}
    with pytest.raises(UsageError, match="medium"):
        acidctl.compact(str(table), "medium", validtxns=LISTS)
    with pytest.raises(UsageError, match="hive5"):
        acidctl.compact(str(table), "major", validtxns=LISTS, target="hive5")
    with pytest.raises(TypeError, match="assume_comitted"):
        acidctl.compact(str(table), "major", assume_comitted=True)  # type: ignore[call-arg]


def test_columns_keep_the_names_that_readers_saw(tmp_path: Path) -> None:
    """Hive 2 names them in an empty base only: what replaces that base and a delta without names has them too."""
    shutil.copytree(TABLES / "hive2/v1_delete_all/04-inserted/table", tmp_path / "t")
    table = acidctl.open_table(str(tmp_path / "t"))
    assert table.snapshot().columns.names == ("id", "v")
    assert table.compact("major", engine="local", assume_committed=True).exit_code == 0
    shutil.rmtree(tmp_path / "t/base_0000702")
    shutil.rmtree(tmp_path / "t/delta_0000703_0000703_0000")
    assert table.snapshot().columns.names == ("id", "v")
    assert table.snapshot().count_and_digest()[0] == 1


def test_which_engine() -> None:
    """Spark where something of Spark is given or the input is large, else this machine; and why."""
    small, large = 1 << 20, 1 << 50
    assert EngineChoice().decide(small)[0] == "local"
    assert EngineChoice(master="yarn").decide(small) == (
        "spark",
        "Running on Spark, because --master is given.",
    )
    assert EngineChoice(session=object()).decide(small)[0] == "spark"
    assert EngineChoice("local").decide(large)[0] == "local"
    assert EngineChoice("spark").decide(small)[0] == "spark"
    assert EngineChoice().decide(large)[0] == "spark"
    assert "large" in EngineChoice().decide(large)[1]
    with pytest.raises(UsageError):
        EngineChoice("tez")
    with pytest.raises(UsageError):
        EngineChoice("local", master="yarn")
    assert replace(EngineChoice(), parallelism=3).parallelism == 3


def test_the_machines_of_large_inputs_are_told_to_engines_that_ask(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One question per task, about its largest file; small files are not asked about."""
    asked: list[str] = []

    def hosts(storage: LocalStorage, path: str) -> tuple[str, ...]:
        asked.append(path)
        return ("one", "two", "three", "four")

    class Placing(Engine):
        uses_hosts = True

        def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
            self.hosts = [spec.hosts for spec in specs]
            yield from super().run(specs)

    monkeypatch.setattr(LocalStorage, "hosts", hosts)
    engine = Placing()
    _prepared(table, partitions=["ds=1"]).start(engine).run()
    assert set(engine.hosts) == {()}
    assert asked == []
    monkeypatch.setattr("acidctl.compaction.partition_run.WORTH_A_WAY", 1)
    _prepared(table, partitions=["ds=2"]).start(engine).run()
    assert set(engine.hosts) == {("one", "two", "three")}
    assert len(asked) == len(engine.hosts)
    sizes = [Path(path).stat().st_size for path in asked]
    assert max(sizes) == max(path.stat().st_size for path in (table / "ds=2").glob("*delta*/bucket*"))
