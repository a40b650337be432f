"""Random histories of a table with processes that are killed: `python -m tests.support.killed_histories`.

A writer, readers with older and newer lists, two compactors and a cleaner at the same time, SIGKILL at any moment, what
dead runs leave, symbolic links and bounds. A model knows the rows of every reader.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

from acidctl import open_table
from acidctl.compaction.plan import Target
from acidctl.errors import NotEnoughHistoryError
from tests.support.written_table import COLUMNS, Fate, Reader, Rows, Txn, Work, WrittenTable

ROUNDS = 4
PARTITIONS = ("p=0", "p=1", "p=2")
# The processes are forked from one that has loaded all of this, and done nothing yet.
LOADED = (
    *("tests.cli.runner", "acidctl.cli.compact", "acidctl.cli.clean", "acidctl.compaction.run", "acidctl.engine.local"),
    *("acidctl.compaction.task", "acidctl.compaction.verify", "acidctl.cleaning.run", "pyarrow.dataset", "pyorc"),
)
DEAD = {
    "schema_version": 1,
    "host": os.uname().nodename,
    "pid": 999_999_999,
    "created": "2020-01-01T00:00:00Z",
    "pid_started": "1",
    "boot_id": None,
    "machine_id": None,
    "pid_namespace": None,
}


class Partitioned(WrittenTable):
    """One location at a time: a write is made in the partition that `enter` has named."""

    where: dict[int, str]
    only: str | None = None

    def enter(self, root: Path, name: str) -> None:
        self.root, self.only = root / name, name

    def visible(self, reader: Reader, own: int | None = None) -> Rows:
        rows = super().visible(reader, own)
        return rows if own is None else {k: v for k, v in rows.items() if self.where[k[0]] == self.only}


@dataclass
class History:
    """One table in `folder`; `seen` counts what happened."""

    folder: Path
    random: Random
    context: ForkServerContext
    seen: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.folder / "t"
        self.root.mkdir(parents=True)
        self.table = Partitioned(self.root, self.random.choice(list(Target)), bucketed=self.random.random() < 0.5)
        self.table.where = {}
        for name in PARTITIONS:
            (self.root / name).mkdir()
        if self.random.random() < 0.4:
            # A partition that lies elsewhere, as Hadoop's local file system allows.
            (self.folder / "elsewhere").mkdir()
            (self.root / "p=2").rename(self.folder / "elsewhere" / "data")
            (self.root / "p=2").symlink_to("../elsewhere/data")
        self.readers: list[Reader] = []
        self.victim = self.folder / "victim"
        for name in ("attempts", "out", "removed", "data"):
            (self.victim / name).mkdir(parents=True)
            (self.victim / name / "precious").write_text(name)
        (self.victim / "owner.json").write_text(json.dumps({"type": "acidctl_work", "id": "aaaaaaaaaaaa", **DEAD}))
        self.precious = _content(self.victim)

    def play(self) -> None:
        """All of it."""
        for _ in range(3):
            self.write()
        for _ in range(ROUNDS):
            for _ in range(self.random.randint(1, 3)):
                self.write()
            if self.random.random() < 0.5:
                self.readers = [*self.readers[-2:], self.table.reader()]
            if self.random.random() < 0.35:
                self.leave_something()
            self.maintain()
            self.check()
        self.finish()

    # --- what happens

    def write(self) -> None:
        """An insert, update or delete in one partition, committed, rolled back or left open; or one of these ends."""
        going = self.table.going(Work.WRITE)
        if going and self.random.random() < 0.4:
            self.random.choice(going).fate = self.random.choice([Fate.COMMITTED, Fate.COMMITTED, Fate.ABORTED])
            return
        txn: Txn = self.table.begin(Work.WRITE)
        name = self.random.choice(PARTITIONS)
        self.table.where[txn.write_id] = name
        self.table.enter(self.root, name)
        picks = [self.random.randrange(50) for _ in range(self.random.randint(1, 3))]
        if self.random.random() < 0.6 or not self.table.change(txn, picks, update=self.random.random() < 0.6):
            self.table.insert(txn, self.random.randint(1, 5), 2)
        txn.fate = self.random.choice([Fate.COMMITTED] * 7 + [Fate.ABORTED, Fate.OPEN])

    def leave_something(self) -> None:
        """What a dead run or a stranger leaves in a partition, by our names."""
        place = self.root / self.random.choice(PARTITIONS)
        act = self.random.choice(["work", "lock", "linked work", "linked quarantine", "odd work"])
        id_ = f"{self.random.getrandbits(48):012x}"
        name = f"_acidctl_work_{id_}"
        if act == "work":
            (place / name / "attempts").mkdir(parents=True)
            (place / name / "attempts" / "x").write_bytes(b"x")
            (place / name / "owner.json").write_text(json.dumps({"type": "acidctl_work", "id": id_, **DEAD}))
        elif act == "lock" and not os.path.lexists(place / "_acidctl_lock"):
            (place / "_acidctl_lock").write_text(json.dumps({"type": "acidctl_lock", "id": id_, **DEAD}))
        elif act == "linked work":
            if not os.path.lexists(place / "_acidctl_work_aaaaaaaaaaaa"):
                os.symlink(os.path.relpath(self.victim, place.resolve()), place / "_acidctl_work_aaaaaaaaaaaa")
        elif act == "linked quarantine" and not os.path.lexists(place / "_acidctl_quarantine"):
            os.symlink(os.path.relpath(self.victim, place.resolve()), place / "_acidctl_quarantine")
        elif act == "odd work":
            (place / name).mkdir()
            (place / name / "owner.json").write_text("{}")
        self.seen[f"left: {act}"] += 1
        self.log.append(f"left {act} in {place.name}")

    def maintain(self) -> None:
        """Two compactors and a cleaner at once; a reader reads meanwhile, and some of them are killed."""
        now = self.table.reader()
        lists = [text for reader in [*self.readers, now] for text in reader.lists()]
        runs = [self._start(*self._compaction(now)) for _ in range(2)]
        if self.random.random() < 0.6:
            given = [option for text in lists for option in ("--validtxns", text)]
            runs.append(self._start("clean", str(self.root), *given, "--unsafe-no-retention", "--delete", "--yes"))
        begun = time.monotonic()
        ends = [
            begun + self.random.random() * self.random.choice([0.03, 0.1, 0.3]) if self.random.random() < 0.5 else None
            for _ in runs
        ]
        while any(run.is_alive() for run in runs):
            for run, end in zip(runs, ends, strict=True):
                if end is not None and time.monotonic() > end and run.is_alive() and run.pid:
                    with suppress(ProcessLookupError):
                        os.kill(run.pid, signal.SIGKILL)
                    run.join()
                    self.seen["killed"] += 1
            self._read(now, quiet=True)
            time.sleep(0.01)
            assert time.monotonic() < begun + 300, "a run hangs"
        for run in runs:
            run.join()
        self._answers()

    def _compaction(self, now: Reader) -> tuple[str, ...]:
        kind = self.random.choice(["minor", "major", "major"])
        bounds = [[], [], ["--max-partitions", "1"], ["--max-partitions", "2"], ["--max-bytes", "1K"]]
        bounds += [["--only-if-needed", "--delta-num-threshold", "2"], ["--max-runtime", "5s"]]
        given = [option for text in now.lists() for option in ("--validtxns", text)]
        # Nobody else reads by Hive's rules, which know no journals.
        more = ["--assume-exclusive", "--target", self.table.target.value, "--table-type", "full"]
        more += ["--engine", "local", "--parallelism", "1", "--schema", COLUMNS]
        return ("compact", kind, str(self.root), *given, *more, *self.random.choice(bounds))

    def _start(self, *args: str) -> BaseProcess:
        answer = self.folder / f"answer-{len(self.log)}"
        self.log.append(" ".join(args))
        process = self.context.Process(target=_command, args=(args, str(answer)))
        process.start()
        return process

    def _answers(self) -> None:
        # What is still called otherwise, somebody was writing who was killed.
        for path in sorted(self.folder.glob("answer-x*")):
            answer = json.loads(path.read_text())
            path.unlink()
            command = answer["args"][0]
            self.seen[f"{command} {answer['code']}"] += 1
            assert answer["code"] in (0, 3, 12, 14, 15), answer
            assert "Traceback" not in answer["stderr"], answer
            assert "unexpected" not in answer["stderr"], answer
            if command == "compact" and answer["stdout"]:
                parts = json.loads(answer["stdout"])["partitions"]
                compacted = [part for part in parts if part["outcome"] == "compacted"]
                self.seen["published"] += len(compacted)
                if "--max-partitions" in answer["args"]:
                    most = int(answer["args"][answer["args"].index("--max-partitions") + 1])
                    assert len(compacted) <= most, answer
                if "1K" in answer["args"]:
                    assert not compacted, answer

    # --- what has to hold

    def check(self) -> None:
        """Every reader sees its rows, and nothing outside has changed."""
        for reader in self.readers:
            self._read(reader)
        # Whoever begins now knows of no open write that a base could hide.
        self._read(self.table.reader(), newest=True)
        assert _content(self.victim) == self.precious, "something outside of the table was touched"

    def _read(self, reader: Reader, *, quiet: bool = False, newest: bool = False) -> None:
        wanted = self.table.visible(reader)
        try:
            found = _rows(self.root, reader)
        except NotEnoughHistoryError:
            # A base that was made while a write below it was open for this reader; Hive says so too.
            if newest:
                raise
            self.seen["not enough history"] += 1
            return
        except Exception as error:
            # What is listed may be gone when it is opened, where a cleaner is at work.
            if quiet and type(error).__name__ in ("StorageError", "NoSuchTableError", "StalePlanError"):
                self.seen[f"read again: {type(error).__name__}"] += 1
                return
            raise
        self.seen["reads"] += 1
        assert found == wanted, (reader, sorted(found.items() ^ wanted.items())[:4])

    def finish(self) -> None:
        """All writes end; one last compaction, undisturbed, leaves one base and nothing of ours but strangers'."""
        for txn in self.table.going(Work.WRITE):
            txn.fate = Fate.COMMITTED
        now = self.table.reader()
        given = [option for text in now.lists() for option in ("--validtxns", text)]
        more = ["--assume-exclusive", "--target", self.table.target.value, "--table-type", "full", "--engine", "local"]
        for _ in range(2):
            run = self._start("compact", "major", str(self.root), *given, *more, "--schema", COLUMNS)
            run.join()
            self._answers()
            self.check()
        # Through a link to a partition nothing is changed.
        places = [self.root / name for name in PARTITIONS if not (self.root / name).is_symlink()]
        assert not [place for place in places if (place / "_acidctl_lock").exists()], "a lock is left"


def _rows(root: Path, reader: Reader) -> Rows:
    snapshot = open_table(str(root)).snapshot(validtxns=reader.lists(), table_type="full", schema=COLUMNS)
    found: Rows = {}
    for rows in snapshot.rows():
        assert rows.row_ids is not None
        keys = zip(*(column.to_pylist() for column in rows.row_ids), strict=True)
        values = zip(*(column.to_pylist() for column in rows.columns[:2]), strict=True)
        for key, value in zip(keys, values, strict=True):
            assert key not in found, (reader, key)
            found[key] = value
    return found


def _command(args: tuple[str, ...], answer: str) -> None:
    """In a process of its own, which may be killed at any moment."""
    from tests.cli.runner import acidctl

    result = acidctl(*args, "-o", "json")
    said = {"args": args, "code": result.code, "stdout": result.stdout, "stderr": result.stderr}
    Path(f"{answer}.new").write_text(json.dumps(said))
    os.rename(f"{answer}.new", answer.replace("answer-", "answer-x"))


def _content(folder: Path) -> dict[str, Any]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def histories(seeds: range, *, keep: Path | None = None) -> Counter[str]:
    """Play these; what happened in them. AssertionError for the first that goes wrong, whose folder stays in `keep`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    seen: Counter[str] = Counter()
    for seed in seeds:
        folder = Path(tempfile.mkdtemp(prefix="killed", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        history = History(folder, Random(f"killed {seed}"), context)
        try:
            history.play()
        except Exception as error:
            if keep is not None:
                shutil.rmtree(keep / str(seed), ignore_errors=True)
                shutil.copytree(folder, keep / str(seed), symlinks=True)
            raise AssertionError(f"history {seed}: {error!r}\n" + "\n".join(history.log[-12:])) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        seen += history.seen
        seen["histories"] += 1
    return seen


def main() -> None:
    """The figures of so many histories."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.killed_histories", description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("/tmp/acidctl-histories"))
    args = parser.parse_args()
    begun = time.monotonic()
    seen: Counter[str] = Counter()
    for seed in range(args.first, args.first + args.histories):
        try:
            seen += histories(range(seed, seed + 1), keep=args.keep)
        except AssertionError as error:
            seen["WRONG"] += 1
            print(error, flush=True)
    print(json.dumps(dict(sorted(seen.items())), indent=1), f"in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
