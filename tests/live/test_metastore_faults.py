"""What happens to a compaction of Hive's queue while it is carried out; real Hive is the judge of what is left."""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import product
from pathlib import Path

import pytest

from acidctl.compaction.report import Outcome
from acidctl.errors import ExitCode
from acidctl.worker.queue import Queue
from tests.live import queued
from tests.live.queued import FULL, Meddling, Moment, acid_table, carried_out, command, directories, rows, states
from tests.services.metastore import IDL, Metastore, ask
from tests.support.extent import EXTENT, amount, some

pytestmark = pytest.mark.metastore

# The calls by which a request is carried out, in their order; a process may die after each, and once all is published.
DEATHS = (
    *map(Moment, ("find_next_compact2", "get_table_req", "open_txns", "lock", "update_compactor_state")),
    *(queued.WORKING, Moment("heartbeat"), queued.COMMITTING, Moment("commit_txn"), Moment("mark_compacted")),
)


@pytest.fixture
def table(metastore4: Metastore, request: pytest.FixtureRequest) -> Iterator[str]:
    """See `acid_table`."""
    with acid_table(metastore4, request.node.name) as name:
        yield name


def test_an_aborted_transaction_publishes_nothing(metastore4: Metastore, table: str) -> None:
    """ABORT TRANSACTIONS while it works: nothing new in the table, the request has failed, the next succeeds."""
    before, there = rows(metastore4, table), directories(metastore4, table)

    def abort() -> None:
        with ask(metastore4.url) as thrift:
            thrift.abort_txns(IDL.AbortTxnsRequest([one.txnId for one in queued.entries(metastore4, table)]))

    _, report = carried_out(Meddling(metastore4, queued.WORKING, abort), table)
    assert (report.outcome, report.reason_code) == (Outcome.FAILED, "transaction_lost")
    assert directories(metastore4, table) == there
    assert states(metastore4, table) == ["failed"]
    assert command(metastore4, "compact", "major", table).code == 0
    metastore4.clean()
    assert rows(metastore4, table) == before


@pytest.mark.parametrize("moment", some((queued.LOCKED, queued.WORKING, queued.PUBLISHING, queued.COMMITTING)))
def test_a_transaction_that_is_timed_out(metastore4: Metastore, table: str, moment: Moment) -> None:
    """Hive has heard nothing of it for too long: nobody sees what it made, and the next compaction succeeds."""
    before = rows(metastore4, table)

    # However late its last sign of life was.
    _, report = carried_out(Meddling(metastore4, moment, lambda: queued.release(metastore4)), table)
    assert (report.outcome, report.reason_code) == (Outcome.FAILED, "transaction_lost"), report
    assert rows(metastore4, table) == before
    assert states(metastore4, table) == ["failed"]
    assert command(metastore4, "compact", "major", table).code == 0
    queued.clean(metastore4, table)
    assert states(metastore4, table) == ["failed", "succeeded"]
    assert rows(metastore4, table) == before


def test_a_request_that_was_given_away_publishes_nothing(metastore4: Metastore, table: str) -> None:
    """Another has ended the request meanwhile: who wakes up late leaves the table alone."""
    there = directories(metastore4, table)

    def fail() -> None:
        with ask(metastore4.url) as thrift:
            (one,) = queued.entries(metastore4, table)
            thrift.mark_failed(IDL.CompactionInfoStruct(one.id, "default", table, type=IDL.CompactionType.MAJOR))

    _, report = carried_out(Meddling(metastore4, queued.WORKING, fail), table)
    assert (report.outcome, report.reason_code) == (Outcome.FAILED, "transaction_lost")
    assert directories(metastore4, table) == there


def test_a_request_that_another_has_in_hand_is_left_to_it(metastore4: Metastore, table: str) -> None:
    """Hive's Initiator has taken it back, as from a worker that is silent for a day, and another works on it."""
    there = directories(metastore4, table)

    def give() -> None:
        time.sleep(2.1)
        metastore4.initiate({"hive.compactor.worker.timeout": "1s"})
        with ask(metastore4.url) as thrift:
            asked = IDL.FindNextCompactRequest(workerId="another", workerVersion="1", poolName="acidctl-test")
            assert thrift.find_next_compact2(asked).ci is not None

    _, report = carried_out(Meddling(metastore4, queued.WORKING, give), table)
    assert (report.outcome, report.reason_code) == (Outcome.FAILED, "transaction_lost"), report
    assert directories(metastore4, table) == there
    (one,) = queued.entries(metastore4, table)
    assert (one.state, one.workerid) == ("working", "another")


@pytest.mark.parametrize("moment", some(DEATHS, first=3), ids=lambda one: f"{one.call}-{one.number}")
def test_a_worker_killed_after_any_call(metastore4: Metastore, table: str, moment: Moment) -> None:
    """No reader sees another row; the next worker recovers the request, compacts, and Hive's cleaner follows."""
    before = rows(metastore4, table)
    metastore4.hive.run(f"alter table {table} compact 'major' pool 'acidctl'")
    with queued.started(metastore4, "worker", "--once", "--slots", "1", at=moment) as dead:
        said, _ = dead.communicate(timeout=180)
    assert dead.returncode == -signal.SIGKILL, said
    assert rows(metastore4, table) == before
    published = any(name.startswith("base") for name in directories(metastore4, table))
    assert published == (DEATHS.index(moment) >= DEATHS.index(queued.COMMITTING))
    done = command(metastore4, "worker", "--once")
    assert done.code == 0, (done.stdout, done.stderr)
    assert rows(metastore4, table) == before
    if moment.call not in ("commit_txn", "mark_compacted"):
        assert states(metastore4, table) == ["failed"]
        assert command(metastore4, "compact", "major", table).code == 0
    assert states(metastore4, table)[-1] == "ready for cleaning"
    queued.release(metastore4)  # one of which no request knows yet keeps all cleaners waiting
    queued.clean(metastore4, table)
    assert states(metastore4, table)[-1] == "succeeded"
    assert rows(metastore4, table) == before
    assert [name for name in directories(metastore4, table) if name.startswith("delta")] == []


# --- a process that sleeps


def test_a_run_that_ends_while_another_looks_for_dead_ones(metastore4: Metastore, table: str) -> None:
    """Its request was at work when it was listed, its transaction is over a moment later: it was no dead one's."""
    metastore4.hive.run(f"alter table {table} compact 'minor' pool 'acidctl'")
    with queued.started(metastore4, "worker", "--once", at=queued.COMMITTING, by=signal.SIGSTOP) as sleeper:
        queued.paused(sleeper)

        def wake() -> None:
            queued.goes_on(sleeper)
            sleeper.communicate(timeout=180)

        looking = Meddling(metastore4, Moment("show_compact", 0), wake)
        assert list(Queue(looking).recover()) == []
        looking.close()
    assert sleeper.returncode == 0
    assert states(metastore4, table) == ["ready for cleaning"]


# When it falls asleep, what Hive's worker and it do, and whether Hive's cleaner has gone through meanwhile.
SLEEPS = tuple(
    product(
        (queued.WORKING, queued.PUBLISHING, queued.RENAMING, queued.COMMITTING),
        ("minor", "major"),
        (True, False),
    )
)


@pytest.mark.parametrize(("moment", "kind", "cleaned"), some(SLEEPS, one_of=5, first=3))
def test_a_worker_that_wakes_up_too_late(
    metastore4: Metastore, table: str, moment: Moment, kind: str, cleaned: bool
) -> None:
    """Its transaction has been given up, and Hive's own worker has done another request: nobody sees what it makes."""
    run = metastore4.hive.run
    before = rows(metastore4, table)
    run(f"alter table {table} compact '{kind}' pool 'acidctl'")
    with queued.started(metastore4, "worker", "--once", "--slots", "1", at=moment, by=signal.SIGSTOP) as sleeper:
        queued.paused(sleeper)
        queued.release(metastore4)
        assert rows(metastore4, table) == before
        done = command(metastore4, "worker", "--once")
        assert states(metastore4, table) == ["failed"], done
        if moment in (queued.PUBLISHING, queued.RENAMING):
            # The lock in the directory is of a process that lives: another acidctl keeps out of its way, and says so.
            other = command(metastore4, "compact", kind, table)
            assert other.code == ExitCode.STALE_PLAN, other
            assert f"process {sleeper.pid} " in " ".join((other.stdout + other.stderr).split()), other
        assert metastore4.hive.compact(table, kind) == "ready for cleaning"
        if cleaned:
            metastore4.clean()
            metastore4.forget_empty_aborts()
        assert rows(metastore4, table) == before
        queued.goes_on(sleeper)
        while sleeper.poll() is None:
            assert rows(metastore4, table) == before
        said, _ = sleeper.communicate(timeout=180)
    # It lists the table when nothing is left of what its lists show.
    too_old = cleaned and moment == queued.WORKING
    assert sleeper.returncode == (0 if too_old else 3), said
    assert "Traceback" not in said
    assert (" refused: the lists are older than the compaction" if too_old else " failed: ") in said
    assert rows(metastore4, table) == before
    run(f"insert into {table} values (9, 'later')")
    before = rows(metastore4, table)
    assert command(metastore4, "compact", "major", table).code == 0
    queued.clean(metastore4, table)
    assert rows(metastore4, table) == before
    assert [name for name in directories(metastore4, table) if name.startswith("delta_0000001")] == []


# --- a table that changes


# What Hive's statements do, `{t}` the table, and what a client of the metastore does that asks for no lock.
STATEMENTS = {
    "drop": "drop table {t}",
    "drop partition": "alter table {t} drop partition (ds='a')",
    "move partition": "alter table {t} partition (ds='a') set location 'file:{elsewhere}'",
    "move": "alter table {t} set location 'file:{elsewhere}'",
    "rename": "alter table {t} rename to {t}_new",
}


def change_directly(metastore: Metastore, what: str, name: str, elsewhere: Path) -> None:
    """As other engines do, without a lock."""
    java = metastore.hive.java
    client = java.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(java.org.apache.hadoop.hive.conf.HiveConf())
    try:
        if what == "drop":
            client.dropTable("default", name)
        elif what == "drop partition":
            client.dropPartition("default", name, metastore.hive.strings(["a"]), True)
        elif what == "move partition":
            part = client.getPartition("default", name, metastore.hive.strings(["a"]))
            part.getSd().setLocation(f"file:{elsewhere}")
            client.alter_partition("default", name, part)
        else:
            table = client.getTable("default", name)
            if what == "move":
                table.getSd().setLocation(f"file:{elsewhere}")
            else:
                table.setTableName(f"{name}_new")
            client.alter_table("default", name, table)
    finally:
        client.close()


@pytest.fixture
def changing(metastore4: Metastore, request: pytest.FixtureRequest) -> Iterator[Callable[[str], tuple[str, str, Path]]]:
    """Makes a table for a change of it, partitioned where a partition changes, and a copy of what is to move."""
    made = []

    def make(what: str) -> tuple[str, str, Path]:
        name = f"w_{what.replace(' ', '_')}_{abs(hash(request.node.name)) % 10_000}"
        made.append(name)
        run, partition = metastore4.hive.run, "" if what in ("move", "rename", "drop") else "ds=a"
        run(f"create table {name} (id int) {'partitioned by (ds string)' if partition else ''} {FULL}")
        for number in range(3):
            values = f"partition (ds) values ({number}, 'a'), ({number}, 'b')" if partition else f"values ({number})"
            run(f"insert into {name} {values}")
        folder = metastore4.hive.warehouse / name
        elsewhere = metastore4.hive.warehouse / f"{name}_elsewhere"
        shutil.copytree(folder / partition, elsewhere)
        return name, partition, elsewhere

    yield make
    queued.release(metastore4)
    for name in made:
        for one in (name, f"{name}_new"):
            metastore4.hive.run(f"drop table if exists {one}")


def tree(folder: Path) -> set[str]:
    """All that lies in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def left(metastore: Metastore, what: str, name: str) -> list[str]:
    """The rows of a table that was changed."""
    return [] if what == "drop" else rows(metastore, f"{name}_new" if what == "rename" else name)


@pytest.mark.parametrize("moment", some((queued.PLACED, queued.WORKING, queued.PUBLISHING, queued.COMMITTING), first=2))
@pytest.mark.parametrize("what", STATEMENTS)
def test_a_table_that_others_change_without_a_lock(
    metastore4: Metastore, changing: Callable[[str], tuple[str, str, Path]], what: str, moment: Moment
) -> None:
    """The request ends with a sentence, nothing is written where the table is not, and its rows are right."""
    name, partition, elsewhere = changing(what)
    seen: list[list[str]] = []
    moved: list[set[str]] = []

    def change() -> None:
        change_directly(metastore4, what, name, elsewhere)
        seen.append(left(metastore4, what, name))
        moved.append(tree(elsewhere))

    _, report = carried_out(Meddling(metastore4, moment, change), name, partition=partition)
    assert report.outcome in (Outcome.FAILED, Outcome.REFUSED) or moment == queued.COMMITTING
    assert report.reason_code not in ("internal", "internal_error"), report
    assert "unexpected" not in report.reason
    assert left(metastore4, what, name) == seen[0]
    assert tree(elsewhere) == moved[0]
    folder = metastore4.hive.warehouse / name
    if report.outcome is not Outcome.COMPACTED:
        ended = states(metastore4, f"{name}_new" if what == "rename" else name)
        assert ended == (
            [] if what in ("drop", "drop partition") else ["refused" if report.outcome is Outcome.REFUSED else "failed"]
        )
    assert folder.exists() == (what not in ("drop", "rename"))
    metastore4.clean()
    assert left(metastore4, what, name) == seen[0]


@pytest.mark.parametrize("what", some(STATEMENTS, one_of=3))
def test_a_table_that_hive_changes(
    metastore4: Metastore, changing: Callable[[str], tuple[str, str, Path]], what: str
) -> None:
    """Its statement waits for the compaction's lock; the rows are those that it leaves."""
    name, partition, elsewhere = changing(what)
    before = rows(metastore4, name)
    waited = []
    with ThreadPoolExecutor(1) as thread:
        running: list[Future[None]] = []

        def change() -> None:
            sql = STATEMENTS[what].format(t=name, elsewhere=elsewhere)
            running.append(thread.submit(metastore4.hive.session("changes").run, sql))
            with suppress(TimeoutError):
                running[0].result(3)
            waited.append(not running[0].done())

        _, report = carried_out(Meddling(metastore4, queued.WORKING, change), name, partition=partition)
        running[0].result(180)
    assert waited == [True]
    assert report.outcome is Outcome.COMPACTED, report
    after = left(metastore4, what, name)
    assert after == ([] if what == "drop" else [one for one in before if what != "drop partition" or '"b"' in one])
    metastore4.clean()
    assert left(metastore4, what, name) == after
    assert (metastore4.hive.warehouse / name).exists() == (what not in ("drop", "rename"))


# --- a metastore that is away


GAP = {"sample": 5.0, "check": 15.0, "sweep": 60.0}[EXTENT]


@pytest.mark.parametrize("moment", some((queued.WORKING, queued.PUBLISHING, queued.COMMITTING), one_of=3))
@pytest.mark.parametrize("lives", [True, False], ids=["lives", "dies"])
def test_a_metastore_that_is_away(metastore4: Metastore, table: str, lives: bool, moment: Moment) -> None:
    """The compaction goes on where its transaction lives on; else nobody sees what it made, and the next does it."""
    before = rows(metastore4, table)
    # A slow machine does not live for longer than its transaction.
    timeout = f"{int(GAP + 90) if lives else int(GAP / 2)}s"
    metastore4.stop_serving()
    metastore4.serve({"hive.txn.timeout": timeout})

    def back() -> None:
        metastore4.time_out({"hive.txn.timeout": timeout})
        metastore4.serve()

    timer = threading.Timer(GAP, back)

    def away() -> None:
        metastore4.stop_serving()
        timer.start()

    _, report = carried_out(Meddling(metastore4, moment, away), table)
    timer.join()
    assert rows(metastore4, table) == before
    if lives:
        assert report.outcome is Outcome.COMPACTED, report
    else:
        assert report.outcome is Outcome.FAILED, report
        assert command(metastore4, "compact", "major", table).code == 0
    queued.clean(metastore4, table)
    assert states(metastore4, table) == (["succeeded"] if lives else ["failed", "succeeded"])
    assert rows(metastore4, table) == before


def test_a_worker_whose_metastore_goes_away(metastore4: Metastore, table: str) -> None:
    """It comes back to what it had in hand, and then does what is asked of it next."""
    run = metastore4.hive.run
    before = rows(metastore4, table)
    metastore4.stop_serving()
    # The worker waits for as long as its transaction may live.
    metastore4.serve({"hive.txn.timeout": f"{int(GAP + 120)}s"})
    run(f"alter table {table} compact 'minor' pool 'acidctl'")
    words = ("worker", "--slots", "1", "--poll", "1s")
    with queued.started(metastore4, *words, at=queued.WORKING, by=signal.SIGSTOP) as worker:
        queued.paused(worker)
        metastore4.stop_serving()
        queued.goes_on(worker)
        time.sleep(GAP)
        metastore4.serve()
        wait_for(lambda: states(metastore4, table) == ["ready for cleaning"])
        run(f"insert into {table} values (7, 'v7')")
        before = rows(metastore4, table)
        run(f"alter table {table} compact 'major' pool 'acidctl'")
        wait_for(lambda: states(metastore4, table) == ["ready for cleaning"] * 2)
        worker.terminate()
        said, _ = worker.communicate(timeout=180)
    assert worker.returncode == 0, said
    assert rows(metastore4, table) == before


def wait_for(happened: Callable[[], bool], seconds: float = 240) -> None:
    """Wait until it has."""
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.3)


# --- several workers


def test_workers_share_a_queue(metastore4: Metastore) -> None:
    """Two of acidctl's and Hive's own: each request is done once, by one of them."""
    count, run = amount(20, swept=60, sample=10), metastore4.hive.run
    run(f"create table w_shared (id int) partitioned by (ds string) {FULL}")
    for number in range(3):
        run(f"insert into w_shared partition (ds) values {', '.join(f'({number}, {part})' for part in range(count))}")
    before = rows(metastore4, "w_shared")
    for part in range(count):
        kind = "major" if part % 3 else "minor"
        run(f"alter table w_shared partition (ds='{part}') compact '{kind}' pool 'acidctl'")
    with ExitStack() as stack:
        workers = [stack.enter_context(queued.started(metastore4, "worker", "--once", "-o", "jsonl")) for _ in range(2)]
        while any(one.poll() is None for one in workers):
            metastore4.work("acidctl")
        said = [one.communicate(timeout=180)[0] for one in workers]
    assert [one.returncode for one in workers] == [0, 0], said
    assert rows(metastore4, "w_shared") == before
    found = queued.entries(metastore4, "w_shared")
    assert [one.state for one in found] == ["ready for cleaning"] * count
    assert len({one.txnId for one in found}) == count
    ours = [json.loads(line)["request"] for text in said for line in text.splitlines() if '"ended"' in line]
    hives = [one.id for one in found if not (one.workerVersion or "").startswith("acidctl")]
    assert sorted(ours + hives) == [one.id for one in found]
    for one in found:
        made = [name for name in directories(metastore4, "w_shared", one.partitionname) if "_v" in name]
        assert made, one
        assert {name.partition("_v")[2] for name in made} == {f"{one.txnId:07d}"}, (made, one)
    queued.clean(metastore4, "w_shared")
    assert set(states(metastore4, "w_shared")) == {"succeeded"}
    assert rows(metastore4, "w_shared") == before
    run("drop table w_shared")


# --- clocks that differ


@pytest.mark.parametrize("ahead", some((7200.0, -7200.0), one_of=2))
def test_a_clock_that_shows_another_time(metastore4: Metastore, table: str, ahead: float) -> None:
    """No living run is taken for a dead one, nothing of it is removed, and a dead one is recovered all the same."""
    run = metastore4.hive.run
    before = rows(metastore4, table)

    def elsewhen(*words: str) -> tuple[int, str]:
        with queued.started(metastore4, *words, clock_ahead=ahead) as process:
            said, _ = process.communicate(timeout=180)
        assert "Traceback" not in said
        return process.returncode, said

    run(f"alter table {table} compact 'minor' pool 'acidctl'")
    with queued.started(
        metastore4, "worker", "--once", "--slots", "1", at=queued.PUBLISHING, by=signal.SIGSTOP
    ) as living:
        queued.paused(living)
        assert elsewhen("worker", "--once")[0] == 0
        code, said = elsewhen("compact", "major", table)
        assert code in (ExitCode.FINDINGS, ExitCode.STALE_PLAN), said
        code, said = elsewhen("clean", table, "--delete", "--unsafe-beside-hive", "--leftovers")
        assert (code, "NOTHING WAS DELETED" in said) == (0, True), said
        assert states(metastore4, table) == ["working"]
        queued.goes_on(living)
        said, _ = living.communicate(timeout=180)
    assert living.returncode == 0, said
    queued.clean(metastore4, table)
    assert states(metastore4, table) == ["succeeded"]
    assert rows(metastore4, table) == before
    run(f"alter table {table} compact 'major' pool 'acidctl'")
    with queued.started(metastore4, "worker", "--once", at=queued.PUBLISHING, clock_ahead=-ahead) as dead:
        dead.communicate(timeout=180)
    assert dead.returncode == -signal.SIGKILL
    assert elsewhen("worker", "--once")[0] == 0
    assert states(metastore4, table)[-1] == "failed"
    code, said = elsewhen("compact", "major", table)
    assert code == 0, said
    queued.clean(metastore4, table)
    assert states(metastore4, table)[-1] == "succeeded"
    assert rows(metastore4, table) == before
    assert len(directories(metastore4, table)) == 1


def test_a_delta_that_comes_too_late_is_taken_back(metastore4: Metastore) -> None:
    """Its worker slept until its transaction was forgotten: Hive would take the delta for a committed one."""
    run = metastore4.hive.run
    run(f"create table w_late (id int) {queued.INSERTS}")
    for number in range(2):
        run(f"insert into w_late values ({number})")
    before = sorted(metastore4.hive.rows("select * from w_late"))
    run("alter table w_late compact 'minor' pool 'acidctl'")
    words = ("worker", "--once", "--slots", "1")
    with queued.started(metastore4, *words, at=queued.RENAMING, by=signal.SIGSTOP) as sleeper:
        queued.paused(sleeper)
        queued.release(metastore4)
        command(metastore4, "worker", "--once")
        assert metastore4.hive.compact("w_late", "minor") == "ready for cleaning"
        metastore4.clean()
        metastore4.forget_empty_aborts()
        there = directories(metastore4, "w_late")
        queued.goes_on(sleeper)
        said, _ = sleeper.communicate(timeout=180)
    assert sleeper.returncode == 3, said
    assert sorted(metastore4.hive.rows("select * from w_late")) == before, directories(metastore4, "w_late")
    assert directories(metastore4, "w_late") == there
    run("drop table w_late")
