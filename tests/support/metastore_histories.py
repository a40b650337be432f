"""Random histories of tables whose compactions `acidctl worker` does: `python -m tests.support.metastore_histories`.

Hive's sessions insert, update, delete, leave open and roll back all the while; requests come by ALTER TABLE, by the
table's parameter and by Hive's Initiator; Hive's Cleaner follows. A twin of each table gets the same statements and is
compacted by Hive's own worker. After each step table, twin and `acidctl snapshot` have the same rows.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import acidctl
from acidctl.errors import StorageError
from tests import ROOT
from tests.services.hive import HIVE4, HiveError, Session
from tests.services.metastore import IDL, Metastore, ask

POOL = "acidctl"
PARTITIONS = ("p0", "p1", "p2")
# Who comes first wins, and nobody waits for the locks of a transaction that this thread itself has left open.
SETTINGS = {"hive.txn.xlock.write": "false", "hive.lock.numretries": "20", "hive.lock.sleep.between.retries": "1s"}
# What a compaction may end with beside other sessions; anything else is a difference.
EXPLAINED = (
    "another session holds an exclusive lock",
    "None of the compaction thresholds met",
    "is already scheduled",
    "will be retried when",
)
# Hive's Cleaner says it of a minor compaction, also of its own, when a major one was done before it came to that.
NOT_TO_BE_CLEANED = "Not enough history available"
_PATIENCE = 240.0
_STEPS = 25
Rows = list[tuple[Any, ...]]


@dataclass
class Run:
    """What all threads of one run share: the metastore, when to end, what happened and what differed."""

    metastore: Metastore
    seed: int
    until: float
    seen: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    # Hive's local jobs keep the row id that they are at in one place of the JVM: two at a time mix them up.
    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, what: str) -> None:
        """One more of these."""
        with self._lock:
            self.seen[what] += 1

    @property
    def late(self) -> bool:
        """Whether nothing new is to begin."""
        return time.monotonic() > self.until or len(self.differences) >= 20


class Pair:
    """A table whose compactions are ours, and its twin whose compactions are Hive's; one thread writes both.

    What is in a transaction changes both or none. An autocommitted statement runs on the one, then on the other.
    """

    def __init__(self, run: Run, name: str, sessions: str, random: Random) -> None:
        self.run, self.name, self.twin = run, name, f"{name}_twin"
        self.random, self.log = random, [f"{name}: "]
        self._hive, self._sessions = run.metastore.hive, sessions
        self.full = random.random() < 0.6
        self.partitions: tuple[str, ...] = PARTITIONS if random.random() < 0.5 else ()
        self._pooled = random.random() < 0.5
        self._next_id = 1
        self._open: list[str] = []
        self._reader: tuple[list[str], Rows] | None = None
        self._processes: list[subprocess.Popen[str]] = []
        self._last: tuple[Rows, Rows] = ([], [])
        self._steady = False
        buckets = " clustered by (id) into 2 buckets" if self.full and random.random() < 0.3 else ""
        parts = " partitioned by (p string)" if self.partitions else ""
        known = {"transactional": "true", "compactorthreshold.hive.compactor.delta.num.threshold": "3"}
        if not self.full:
            known["transactional_properties"] = "insert_only"
        for table in (self.name, self.twin):
            pool = {"hive.compactor.worker.pool": POOL} if self._pooled and table == self.name else {}
            texts = ", ".join(f"'{key}'='{value}'" for key, value in (known | pool).items())
            made = f"create table {table} (id int, v string, n bigint){parts}{buckets} stored as orc"
            self._main.run(f"{made} tblproperties ({texts})")
        kind = ("full ACID" if self.full else "insert-only") + (", partitioned" if parts else "")
        self.log[0] += kind + (", bucketed" if buckets else "") + (", pool by parameter" if self._pooled else "")
        run.count(f"tables, {kind}")

    # --- the life of both

    def live(self) -> None:
        """Steps, each compared; at the end all requests are done, and the Cleaner has left one base a partition."""
        try:
            self._insert()
            for _ in range(_STEPS):
                if self.run.late:
                    break
                action = self.random.choice(self._actions())
                self.log.append(action.__name__[1:].upper())
                action()
                self.compare()
            self._end_all()
            self.compare()
            self._settle()
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
            for name in (*self._open, "reader"):
                self._hive.end_session(f"{self._sessions}-{name}")

    def _actions(self) -> list[Callable[[], None]]:
        found = [self._insert] * 5 + [self._left_open] * 2 + [self._end_open] * 3 + [self._rolled_back]
        found += [self._request] * 4 + [self._by_name, self._watch, self._read_on, self._read_on]
        if not self._open and self._reader is None:
            found += [self._overwrite]
        return found + [self._update] * 4 + [self._delete] * 3 + [self._merge] if self.full else found

    @property
    def _main(self) -> Session:
        return self._session("main")

    def _session(self, name: str) -> Session:
        return self._hive.session(f"{self._sessions}-{name}", SETTINGS)

    def _do(self, session: Session, sql: str) -> None:
        if f" {self.name} " in sql:
            self.log.append(sql)
        with self.run.one_at_a_time:
            session.run(sql)

    # --- statements

    def _values(self) -> str:
        rows = []
        for _ in range(self.random.randint(1, 6)):
            part = f", '{self.random.choice(self.partitions)}'" if self.partitions else ""
            rows.append(f"({self._next_id}, 'v{self._next_id}', {self.random.randint(-9, 9)}{part})")
            self._next_id += 1
        return ", ".join(rows)

    def _insert_text(self) -> str:
        return f"insert into {{t}}{' partition (p)' if self.partitions else ''} values {self._values()}"

    def _some(self) -> str:
        modulus = self.random.randint(2, 5)
        return f"id % {modulus} = {self.random.randrange(modulus)}"

    def _update_text(self) -> str:
        return f"update {{t}} set v = concat('u', v), n = n + 1 where {self._some()}"

    def _delete_text(self) -> str:
        return f"delete from {{t}} where {self._some()}"

    def _alone(self, sql: str) -> None:
        """In a transaction of its own each."""
        self._steady = False
        for table in (self.name, self.twin):
            self.run.count(f"statements, {sql.partition(' ')[0]}")
            self._do(self._main, sql.format(t=table))

    def _insert(self) -> None:
        self._alone(self._insert_text())

    def _update(self) -> None:
        self._alone(self._update_text())

    def _delete(self) -> None:
        self._alone(self._delete_text())

    def _merge(self) -> None:
        part = f", '{self.random.choice(self.partitions)}'" if self.partitions else ""
        self._alone(
            # An insert may repeat an id, and Hive refuses a row that two rows of the source match.
            "merge into {t} t using "
            f"(select id + 2 as id, max(n) as n from {{t}} where {self._some()} group by id) s on t.id = s.id "
            "when matched then update set v = 'm', n = s.n "
            f"when not matched then insert values (s.id, 'new', s.n{part})"
        )

    def _overwrite(self) -> None:
        if not self.partitions:
            self._alone("insert overwrite table {t} select id, concat('o', v), n from {t} where " + self._some())
            return
        part = self.random.choice(self.partitions)
        where = f"p = '{part}' and {self._some()}"
        self._alone(
            f"insert overwrite table {{t}} partition (p='{part}') select id, v, n + 10 from {{t}} where {where}"
        )

    def _begin(self, name: str) -> bool:
        """One to three statements in a transaction of a session of its own; whether it is open."""
        session = self._session(name)
        session.run("start transaction")
        try:
            for _ in range(self.random.randint(1, 3)):
                texts = [self._insert_text, self._update_text, self._delete_text] if self.full else [self._insert_text]
                sql = self.random.choice(texts)()
                for table in (self.name, self.twin):
                    self.run.count(f"statements, {sql.partition(' ')[0]}")
                    self._do(session, sql.format(t=table))
        except HiveError as error:
            self._gone(name, "statement in a transaction", error)
            return False
        return True

    def _gone(self, name: str, what: str, error: HiveError) -> None:
        self.run.count(f"refused by Hive: {what}")
        self.log.append(f"{what}: {str(error)[:300]}")
        self._hive.end_session(f"{self._sessions}-{name}")

    def _left_open(self) -> None:
        if len(self._open) < 2:
            name = next(one for one in ("first", "second") if one not in self._open)
            if self._begin(name):
                self._open.append(name)

    def _rolled_back(self) -> None:
        name = "rolled-back"
        if self._begin(name):
            self._session(name).run("rollback")
            self.run.count("transactions, rolled back")

    def _end_open(self, how: str = "") -> None:
        if self._open:
            name = self._open.pop(self.random.randrange(len(self._open)))
            how = how or self.random.choice(("commit", "commit", "rollback"))
            self._steady = self._steady and how == "rollback"
            self.log.append(f"{how} {name}")
            try:
                self._session(name).run(how)
                self.run.count(f"transactions, open for long, then {how}")
            except HiveError as error:
                # Another has changed the same rows meanwhile, in both tables.
                self._gone(name, "commit", error)

    # --- compactions

    def _request(self) -> None:
        """ALTER TABLE ... COMPACT for both; the twin's goes to Hive's own worker."""
        kind = self.random.choice(("minor", "major"))
        part = f" partition (p='{self.random.choice(self.partitions)}')" if self.partitions else ""
        for table in (self.name, self.twin):
            pool = f" pool '{POOL}'" if table == self.name and not self._pooled else ""
            try:
                self._main.run(f"alter table {table}{part} compact '{kind}'{pool}")
                self.run.count("requests by ALTER TABLE")
            except HiveError as error:
                # There is one already, or no such partition yet.
                self.log.append(f"request: {str(error)[:120]}")

    def _by_name(self) -> None:
        """`acidctl compact db.table` beside all the rest; its answer is looked at later."""
        self._answers(wait=False)
        if not self._processes:
            kind = self.random.choice(("minor", "major"))
            words = [sys.executable, "-m", "acidctl", "compact", kind, f"default.{self.name}", "-o", "json"]
            self._processes.append(_process([*words, "--metastore", self.run.metastore.url], subprocess.PIPE))

    def _answers(self, *, wait: bool) -> None:
        for process in list(self._processes):
            if not wait and process.poll() is None:
                continue
            out, err = process.communicate(timeout=_PATIENCE)
            self._processes.remove(process)
            parts = json.loads(out)["partitions"] if out else []
            for part in parts:
                self.run.count(f"by name: {part['outcome']}")
            if process.returncode not in (0, 3):
                self._differ(f"compact by name ended with {process.returncode}: {out[-600:]} {err[-600:]}")

    # --- comparisons

    def compare(self) -> None:
        """Table, twin, `acidctl snapshot`, and what a transaction sees that has begun earlier."""
        self._answers(wait=False)
        mine, theirs = self._hive_rows(self._main, self.name), self._hive_rows(self._main, self.twin)
        if self._steady:
            for table, before, now in ((self.name, self._last[0], mine), (self.twin, self._last[1], theirs)):
                if before != now:
                    self._differ(f"other rows of {table} without a write: {_unlike(now, before)}")
        if sorted(row[1:] for row in mine) != sorted(row[1:] for row in theirs):
            self._differ(f"table and twin: {_unlike(mine, theirs)}")
        same = sorted(map(_comparable, mine)) == sorted(map(_comparable, theirs))
        self.run.count(f"comparisons with the twin, row ids {'too' if same else 'others'}")
        ours = self._our_rows()
        if ours != mine:
            self._differ(f"acidctl and Hive: {_unlike(ours, mine)}")
        self.run.count("comparisons of acidctl with Hive")
        if self._reader is not None:
            lists, first = self._reader
            again = self._hive_rows(self._session("reader"), self.name)
            if again != first:
                self._differ(f"a transaction sees other rows than before: {_unlike(again, first)}")
            ours = self._our_rows(lists)
            if ours != first:
                self._differ(f"acidctl with that transaction's lists: {_unlike(ours, first)}")
            self.run.count("comparisons with an older reader")
        self._last, self._steady = (mine, theirs), True

    def _hive_rows(self, session: Session, table: str) -> Rows:
        names = ("ROW__ID, " if self.full else "") + "*"
        for _ in range(3):
            with self.run.one_at_a_time:
                lines = session.rows(f"select {names} from {table}")
            # Where sessions share a JVM Hive sometimes gives no row id at all, of twins as well, and then does again.
            if not any('"ROW__ID": null' in line for line in lines):
                break
            self.run.count("asked Hive again, which gave no row ids")
        rows = [json.loads(line) for line in lines]
        return sorted(
            (tuple(row.pop("ROW__ID").values()) if self.full else (), *map(str, row.values())) for row in rows
        )

    def _our_rows(self, lists: Sequence[str] = ()) -> Rows:
        for _ in range(3):
            try:
                with acidctl.Metastore(self.run.metastore.url) as metastore:
                    snapshot = metastore.table(self.name).snapshot(validtxns=tuple(lists))
                    rows = snapshot.to_batches(row_id=self.full).read_all().to_pylist()
                break
            except StorageError as error:
                # Hive's Cleaner knows nothing of readers without a transaction.
                self.run.count("read again, as a file was removed meanwhile")
                self.log.append(f"read again: {error.message}")
        else:
            raise AssertionError("it could not be read three times")
        return sorted(
            (tuple(row.pop("ROW__ID").values()) if self.full else (), *map(str, row.values())) for row in rows
        )

    def _watch(self) -> None:
        """Many looks while nothing is written, but perhaps compacted and cleaned."""
        until = time.monotonic() + self.random.choice((1, 3))
        while time.monotonic() < until:
            self.compare()
        self.run.count("watched")

    def _read_on(self) -> None:
        """A transaction reads, and will see the same until it ends."""
        session = self._session("reader")
        if self._reader is not None:
            session.run("commit")
            self._reader = None
            return
        session.run("start transaction")
        rows = self._hive_rows(session, self.name)
        own, write_ids = session.read_write_ids()
        with acidctl.Metastore(self.run.metastore.url) as metastore:
            txns = metastore.lists(self.name, txn=own).texts[1]
        self._reader = ([write_ids, txns], rows)

    def _differ(self, what: str) -> None:
        folders = [path for table in (self.name, self.twin) for path in (self._hive.warehouse / table).rglob("*")]
        self.log += sorted(str(path.relative_to(self._hive.warehouse)) for path in folders if path.is_file())
        self.log += [
            f"{one.tablename} {one.partitionname} {one.id} {one.type} {one.state} txn {one.txnId} "
            f"to {one.hightestTxnId} by {one.workerVersion}"
            for one in self._entries(self.name, self.twin)
        ]
        raise AssertionError(what)

    # --- the end

    def _end_all(self) -> None:
        self.log.append("END ALL")
        while self._open:
            self._end_open()
        if self._reader is not None:
            self._read_on()
        self._answers(wait=True)

    def _settle(self) -> None:
        """Requests end; after a last write and major compaction the Cleaner leaves one base of each partition."""
        self.log.append("SETTLE")
        self._wait("are not done", "initiated", "working")
        for part in self.partitions or ("",):
            clause = f" partition (p='{part}')" if part else ""
            self._alone(f"insert into {{t}}{clause} values (0, 'last', 0)")
        self.compare()
        for _ in range(5):
            crowded = [part for part in self.partitions or ("",) if not _is_clean(self._names(part))]
            for part in crowded:
                clause = f" partition (p='{part}')" if part else ""
                try:
                    self._main.run(f"alter table {self.name}{clause} compact 'major' pool '{POOL}'")
                except HiveError as error:
                    self.log.append(f"last request: {str(error)[:120]}")
            self._wait("are not done", "initiated", "working")
            self.compare()
            self._wait("are not cleaned up after", "ready for cleaning")
            if not crowded:
                break
        for part in self.partitions or ("",):
            if not _is_clean(self._names(part)):
                self._differ(f"not clean in {part!r}: {self._names(part)}")
        self.compare()
        for entry in self._entries(self.name):
            who = "acidctl" if (entry.workerVersion or "").startswith("acidctl") else "Hive"
            kind = "minor" if entry.type == IDL.CompactionType.MINOR else "major"
            self.run.count(f"compactions by {who}, {kind}: {entry.state}")
            message = entry.errorMessage or ""
            explained = any(text in message for text in (*EXPLAINED, NOT_TO_BE_CLEANED))
            if entry.state not in ("succeeded", "refused") and not explained:
                self._differ(f"request {entry.id} of {who} is {entry.state}: {message[:500]}")
        for entry in self._entries(self.twin):
            self.run.count(f"compactions of twins: {entry.state}")
        # Hive's worker asks for a second lock midway: a drop that waits between the two would never get its own.
        for table in (self.name, self.twin):
            self._do(self._main, f"drop table {table}")

    def _names(self, part: str) -> list[str]:
        folder = self._hive.warehouse / self.name / (f"p={part}" if part else "")
        return sorted(path.name for path in folder.iterdir())

    def _entries(self, *tables: str) -> list[Any]:
        with ask(self.run.metastore.url) as thrift:
            wanted = [IDL.ShowCompactRequest(dbName="default", tbName=table) for table in tables]
            return [one for request in wanted for one in thrift.show_compact(request).compacts]

    def _wait(self, what: str, *states: str) -> None:
        until = time.monotonic() + _PATIENCE
        while stuck := [
            one
            for one in self._entries(self.name, self.twin)
            if one.state in states and NOT_TO_BE_CLEANED not in (one.errorMessage or "")
        ]:
            if time.monotonic() > until:
                self._differ(f"requests {what}: {stuck}")
            time.sleep(0.5)


def _is_clean(names: Sequence[str]) -> bool:
    """One base; a lone delta of inserts is left as it is."""
    return len(names) == 1 and names[0].startswith(("base_", "delta_"))


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the number of the statement in its transaction, which the twin's always follows."""
    ids = row[0]
    return ((ids[0], ids[1] >> 12, ids[2]) if ids else (), *row[1:])


def _unlike(first: Rows, second: Rows) -> str:
    one, other = Counter(first), Counter(second)
    lines = [sorted((one - other).elements())[:4], sorted((other - one).elements())[:4]]
    return f"{len(first)} and {len(second)} rows, only in the first {lines[0]}, only in the second {lines[1]}"


# --- what goes on beside


def _dies_with_us() -> None:
    """In a child: whoever kills this process has killed the child too."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _process(words: Sequence[str], output: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(words, cwd=ROOT, stdout=output, stderr=output, text=True, env=os.environ)


@contextmanager
def _worker(run: Run, folder: Path) -> Iterator[Path]:
    """`acidctl worker` with two slots, as a process; its log."""
    log = folder / "worker.jsonl"
    words = [sys.executable, "-m", "acidctl", "worker", "--pool", POOL, "--slots", "2", "--poll", "1s", "-o", "jsonl"]
    words += ["--metastore", run.metastore.url]
    with log.open("w") as output:
        process = subprocess.Popen(words, cwd=ROOT, stdout=output, stderr=output, preexec_fn=_dies_with_us)
        try:
            yield log
            if process.poll() is not None:
                run.differences.append(f"the worker ended with {process.returncode}")
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)
            if process.returncode not in (0, 3):
                run.differences.append(f"the worker ended with {process.returncode}")
        finally:
            process.kill()
            process.wait()


def _housekeeping(run: Run) -> None:
    """Hive's worker, Cleaner, Initiator, and what ends dead transactions, one pass after another."""
    metastore, turn = run.metastore, 0
    passes = [metastore.clean, metastore.initiate, metastore.clean, metastore.time_out, metastore.forget_empty_aborts]
    while not run.over.wait(0.3):
        try:
            with run.one_at_a_time:
                metastore.work()
            passes[turn % len(passes)]()
        except HiveError as error:
            run.notes.append(f"housekeeping: {str(error)[:300]}")
        turn += 1


def _writing(run: Run, thread: int) -> None:
    number = 0
    while not run.late:
        name = f"mh_{thread}_{number}"
        random = Random(f"{run.seed} {name}")
        number += 1
        log = [name]
        try:
            pair = Pair(run, name, f"mh{thread}", random)
            log = pair.log
            pair.live()
            run.count("histories")
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1].lineno
            run.differences.append(f"{name}: {error!r} at line {where}\n  " + "\n  ".join(log))
            print(run.differences[-1], flush=True)


def histories(metastore: Metastore, folder: Path, *, minutes: float, seed: int = 1, threads: int = 2) -> Run:
    """All of it for so long, and until the last tables are settled; what happened and what differed."""
    run = Run(metastore, seed, time.monotonic() + minutes * 60)
    beside = threading.Thread(target=_housekeeping, args=[run])
    writers = [threading.Thread(target=_writing, args=[run, number]) for number in range(threads)]
    with _worker(run, folder) as log:
        for thread in (beside, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        run.over.set()
        beside.join()
    for line in log.read_text().splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            run.count(f"worker: {event['event']} {event.get('outcome') or ''}".rstrip())
            if event.get("outcome") == "failed" or event["event"] in ("unreachable", "recovered"):
                run.notes.append(event["message"])
        else:
            run.notes.append(line)
    return run


def main() -> None:
    """Prints figures and differences."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.metastore_histories", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Metastore(HIVE4, Path(folder) / "run") as metastore:
        run = histories(metastore, Path(folder), minutes=args.minutes, seed=args.seed, threads=args.threads)
    print(json.dumps(dict(sorted(run.seen.items())), indent=1))
    for note, times in Counter(run.notes).most_common():
        print(f"{times} x {note}")
    print(f"{len(run.differences)} differences")
    for text in run.differences:
        print(text)
    sys.exit(bool(run.differences))


if __name__ == "__main__":
    main()
