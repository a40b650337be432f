"""Random histories of a table with processes that are killed: `python -m tests.support.killed_histories`.

A writer, readers with older and newer lists, two compactors and a cleaner at the same time, SIGKILL at any moment, what
dead runs leave, symbolic links and bounds. Files have several stripes, which compactions copy where nothing touches
them. Strangers plant journals, and tables come into doubt: a directory is copied, half of a minor compaction is lost.
Some readers are forgotten: nobody tells the cleaner of their lists, and they may get an error, but no other rows. A
model knows the rows of every reader.
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
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

from acidctl import AcidctlWarning, open_table
from acidctl.compaction.plan import Target
from acidctl.errors import NotEnoughHistoryError
from acidctl.maintenance.lock import new_owner
from acidctl.storage.port import Storage
from tests.support.written_table import COLUMNS, Fate, Reader, Rows, Txn, Work, WrittenTable

ROUNDS = 4
PARTITIONS = ("p=0", "p=1", "p=2")
# What a history may be played without.
DOUBTS, OLD_LISTS = "doubts", "old lists"
# Rows of a large write, the characters in each and the size of a stripe: some stripes a file, which may be copied.
MANY, WIDE, STRIPE = (1500, 4000), 60, 64 << 10
DDL = (
    "CREATE TABLE default.t (n bigint, s string) PARTITIONED BY (p int) STORED AS ORC "
    f"TBLPROPERTIES ('transactional'='true', 'orc.stripe.size'='{STRIPE}')"
)
# The processes are forked from one that has loaded all of this, and done nothing yet.
LOADED = (
    *("tests.cli.runner", "acidctl.cli.compact", "acidctl.cli.clean", "acidctl.compaction.run", "acidctl.engine.local"),
    *("acidctl.compaction.task", "acidctl.compaction.verify", "acidctl.cleaning.run", "pyarrow.dataset", "pyorc"),
)
# The exit code of a run that dies between two renames.
HALF_WAY = 9


def dead_owner(id_: str, kind: str, **facts: Any) -> str:
    """What a run of this machine leaves that is proved to have ended, but for some `facts`."""
    owner = {**asdict(new_owner(1.6e9)), "id": id_, "pid": 999_999_999, "pid_started": "1", **facts}
    return json.dumps({"type": kind, "schema_version": 1, **owner})


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
    """One table in `folder`; `seen` counts what happened, `without` names what is left out."""

    folder: Path
    random: Random
    context: ForkServerContext
    without: frozenset[str] = frozenset()
    seen: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.folder / "t"
        self.root.mkdir(parents=True)
        target, bucketed = self.random.choice(list(Target)), self.random.random() < 0.5
        self.table = Partitioned(self.root, target, bucketed, WIDE, STRIPE)
        self.table.where = {}
        for name in PARTITIONS:
            (self.root / name).mkdir()
        if self.random.random() < 0.4:
            # A partition that lies elsewhere, as Hadoop's local file system allows.
            (self.folder / "elsewhere").mkdir()
            (self.root / "p=2").rename(self.folder / "elsewhere" / "data")
            (self.root / "p=2").symlink_to("../elsewhere/data")
        self.readers: list[Reader] = []
        self.forgotten: list[Reader] = []
        self.planted: list[Path] = []
        outside = self.folder / "outside"
        self.victim = outside / "victim"
        for name in ("attempts", "out", "removed", "data"):
            (self.victim / name).mkdir(parents=True)
            (self.victim / name / "precious").write_text(name)
        (self.victim / "owner.json").write_text(dead_owner("a" * 12, "acidctl_work"))
        for name in ("base_0000001", "delta_0000002_0000002_0000"):
            (outside / "other" / name).mkdir(parents=True)
            (outside / "other" / name / "bucket_00000").write_text(name)
        self.precious = _content(outside)

    def play(self) -> None:
        """All of it."""
        for name in self.random.sample(PARTITIONS, 2):
            self.write_much(name)
        for _ in range(3):
            self.write()
        for turn in range(ROUNDS):
            for _ in range(self.random.randint(1, 3)):
                self.write()
            if turn == 1 and self.random.random() < 0.5:
                self.write_much(self.random.choice(PARTITIONS))
            if self.random.random() < 0.5:
                self.forgotten = [*self.forgotten[-3:], *self.readers[:-2]]
                self.readers = [*self.readers[-2:], self.table.reader()]
            if self.random.random() < 0.7:
                self.forgotten = [*self.forgotten[-3:], self.table.reader()]
            if self.random.random() < 0.5:
                self.leave_something()
            self.maintain()
            self.check()
            if self.random.random() < 0.5:
                self.remove_planted()
        self.remove_planted()
        if DOUBTS not in self.without and self.random.random() < 0.5:
            self.doubt()
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

    def write_much(self, name: str) -> None:
        """So many rows at once that their files have several stripes."""
        txn = self.table.begin(Work.WRITE)
        self.table.where[txn.write_id] = name
        self.table.enter(self.root, name)
        self.table.insert(txn, self.random.randint(*MANY), 2)
        txn.fate = Fate.COMMITTED

    def leave_something(self) -> None:
        """What a dead run, of an earlier version too, or a stranger leaves in a partition, by our names."""
        place = self.root / self.random.choice(PARTITIONS)
        acts = ["work", "lock", "linked work", "linked quarantine", "odd work", "unproved work", "linked journal"]
        act = self.random.choice([*acts, "foreign journal", "foreign journal", "half", "half"])
        id_ = f"{self.random.getrandbits(48):012x}"
        name = f"_acidctl_work_{id_}"
        if act == "work":
            (place / name / "attempts").mkdir(parents=True)
            (place / name / "attempts" / "x").write_bytes(b"x")
            (place / name / "owner.json").write_text(dead_owner(id_, "acidctl_work"))
        elif act == "lock" and not os.path.lexists(place / "_acidctl_lock"):
            (place / "_acidctl_lock").write_text(dead_owner(id_, "acidctl_lock"))
        elif act == "linked work":
            if not os.path.lexists(place / "_acidctl_work_aaaaaaaaaaaa"):
                os.symlink(os.path.relpath(self.victim, place.resolve()), place / "_acidctl_work_aaaaaaaaaaaa")
        elif act == "linked quarantine" and not os.path.lexists(place / "_acidctl_quarantine"):
            os.symlink(os.path.relpath(self.victim, place.resolve()), place / "_acidctl_quarantine")
        elif act == "odd work":
            (place / name).mkdir()
            (place / name / "owner.json").write_text("{}")
        elif act == "unproved work":
            (place / name).mkdir()
            unknown = self.random.choice(["boot_id", "pid_started"])
            (place / name / "owner.json").write_text(dead_owner(id_, "acidctl_work", **{unknown: None}))
        elif act == "linked journal":
            (place / name).mkdir()
            (place / name / "owner.json").write_text(dead_owner(id_, "acidctl_work"))
            os.symlink(
                os.path.relpath(self.victim / "owner.json", (place / name).resolve()), place / name / "journal.json"
            )
        elif act == "foreign journal":
            self._plant_journal(place, id_)
        elif act == "half":
            self._die_half_way()
        self.seen[f"left: {act}"] += 1
        self.log.append(f"left {act} in {place.name}")

    def _plant_journal(self, place: Path, id_: str) -> None:
        """One by which a live directory would be half of a compaction."""
        deltas = sorted(path.name for path in place.iterdir() if path.name.startswith(("delta_", "base_")))
        if not deltas:
            return
        live, work = self.random.choice(deltas), place / f"_acidctl_work_{id_}"
        (work / "out").mkdir(parents=True)
        (work / "owner.json").write_text(dead_owner(id_, "acidctl_work"))
        copied = [[f"{live}/{path.name}", path.stat().st_size, "attempts/x"] for path in (place / live).iterdir()]
        values = {
            "type": "acidctl_journal",
            "schema_version": 1,
            "id": id_,
            "visibility_txn": None,
            "input_files": [],
            "outputs": [live, self.random.choice(["delete_delta_0000001_0009999", f"delete_{live}"])],
            "inputs": self.random.sample(deltas, self.random.randint(0, 1)),
            "output_files": [*copied, [f"{live}/bucket_00077", 1, "attempts/x"]] if self.random.random() < 0.5 else [],
        }
        (work / "journal.json").write_text(json.dumps(values))
        self.planted.append(work)

    def remove_planted(self) -> None:
        """Somebody has found out that no run of ours made these."""
        for work in self.planted:
            shutil.rmtree(work, ignore_errors=True)
        self.planted.clear()

    def _die_half_way(self) -> None:
        """A minor compaction that dies between its two renames, of this version or of one without digests."""
        run = self._start(*self._compaction(self.table.reader(), kind="minor"), die=True)
        run.join()
        self.seen["died half way"] += run.exitcode == HALF_WAY
        self._answers()
        self._read(self.table.reader())
        if self.random.random() < 0.5:
            for path in self.root.glob("p=*/_acidctl_work_*/journal.json"):
                if not path.is_symlink():
                    values = json.loads(path.read_text())
                    values.pop("proofs", None)
                    path.write_text(json.dumps(values))
                    self.seen["died half way, earlier version"] += 1

    def maintain(self) -> None:
        """Two compactors and a cleaner at once; a reader reads meanwhile, and some of them are killed."""
        now = self.table.reader()
        lists = [text for reader in [*self.readers, now] for text in reader.lists()]
        by = [now, now]
        if self.forgotten and OLD_LISTS not in self.without and self.random.random() < 0.3:
            # A schedule that keeps its lists for too long.
            by[0] = self.random.choice(self.forgotten)
        runs = [self._start(*self._compaction(reader)) for reader in by]
        if self.random.random() < 0.6:
            given = [option for text in lists for option in ("--validtxns", text)]
            runs.append(self._start("clean", str(self.root), *given, "--unsafe-no-retention", "--delete", "--yes"))
        begun = time.monotonic()
        ends = [
            begun + self.random.random() * self.random.choice([0.1, 0.5, 1.5]) if self.random.random() < 0.5 else None
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

    def _compaction(self, now: Reader, *, kind: str = "") -> tuple[str, ...]:
        bounds: list[list[str]] = [[]] * (1 if kind else 3) + [
            ["--max-partitions", "1"],
            ["--max-partitions", "2"],
            ["--max-bytes", "1K"],
        ]
        kind = kind or self.random.choice(["minor", "major", "major"])
        bounds += [["--only-if-needed", "--delta-num-threshold", "2"], ["--max-runtime", "5s"]]
        given = [option for text in now.lists() for option in ("--validtxns", text)]
        # Nobody else reads by Hive's rules, which know no journals.
        more = ["--assume-exclusive", "--target", self.table.target.value, "--table-type", "full"]
        more += ["--engine", "local", "--parallelism", "1", "--schema", DDL]
        return ("compact", kind, str(self.root), *given, *more, *self.random.choice(bounds))

    def _start(self, *args: str, die: bool = False) -> BaseProcess:
        answer = self.folder / f"answer-{len(self.log)}"
        self.log.append(" ".join(args))
        process = self.context.Process(target=_command, args=(args, str(answer), die))
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
                self.seen["stripes copied"] += sum(part["stripes_copied"] or 0 for part in compacted)
                self.seen["partitions with copied stripes"] += sum(bool(part["stripes_copied"]) for part in compacted)
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
        for reader in () if OLD_LISTS in self.without else self.forgotten:
            self._read(reader, forgotten=True)
        # Whoever begins now knows of no open write that a base could hide.
        self._read(self.table.reader(), newest=True)
        assert _content(self.folder / "outside") == self.precious, "something outside of the table was touched"

    def _read(self, reader: Reader, *, quiet: bool = False, newest: bool = False, forgotten: bool = False) -> None:
        wanted = self.table.visible(reader)
        try:
            found = _rows(self.root, reader)
        except NotEnoughHistoryError:
            # A base that was made while a write below it was open for this reader; Hive says so too.
            if newest:
                raise
            self.seen["not enough history, forgotten" if forgotten else "not enough history"] += 1
            return
        except Exception as error:
            # What is listed may be gone when it is opened, where a cleaner is at work.
            if quiet and type(error).__name__ in ("StorageError", "NoSuchTableError", "StalePlanError"):
                self.seen[f"read again: {type(error).__name__}"] += 1
                return
            raise
        self.seen["reads, forgotten" if forgotten else "reads"] += 1
        assert found == wanted, (reader, sorted(found.items() ^ wanted.items())[:4])

    def doubt(self) -> None:
        """A partition comes into doubt: compactions leave it as it is, and no row of it is lost.

        So does a cleaner where names show it; a copied delta it need not notice as long as it does not count on it.
        """
        for txn in self.table.going(Work.WRITE):
            txn.fate = Fate.COMMITTED
        name = self.random.choice([name for name in PARTITIONS if not (self.root / name).is_symlink()])
        kind = self.random.choice(["a copied directory", "a minor without deletes", "a minor without inserts"])
        copied = kind == "a copied directory"
        moved = self._copy_directory(name) if copied else self._lose_half(name, kind)
        if moved is None:
            return
        now = self.table.reader()
        before, wanted = _visible(self.root / name), self.table.visible(now)
        found = _rows(self.root, now, twice=True)
        for command in self.random.sample([("compact", "minor"), ("compact", "major"), ("clean",)], 3):
            self._run_to_its_end(now, *command)
            kept = _visible(self.root / name) == before or (copied and command == ("clean",))
            assert kept, f"{command} changed a partition in doubt: {kind} in {name}"
            before = _visible(self.root / name)
            again = _rows(self.root, now, twice=True)
            assert again.keys() >= found.keys(), f"fewer rows after {command}: {kind}"
        assert found.keys() >= wanted.keys() or kind == "a minor without inserts", kind
        if moved[1] is None:
            shutil.rmtree(moved[0])
        else:
            shutil.move(moved[1], moved[0])
        self.seen[f"doubt: {kind}"] += 1
        self.check()

    def _copy_directory(self, name: str) -> tuple[Path, None]:
        """A delta comes twice, as of another statement: the copy."""
        self._write_in(name, change=False)
        newest = max(path.name for path in (self.root / name).glob("delta_*_*_*") if "_v" not in path.name)
        copy = self.root / name / f"{newest[: newest.rindex('_')]}_0007"
        shutil.copytree(self.root / name / newest, copy)
        return copy, None

    def _lose_half(self, name: str, kind: str) -> tuple[Path, Path] | None:
        """A half of a minor compaction whose inputs are still there, and where it is now."""
        self._write_in(name, change=False)
        self._write_in(name, change=True)
        self._run_to_its_end(self.table.reader(), "compact", "minor")
        halves = [path for path in (self.root / name).glob("delete_delta_*") if len(path.name.split("_")) == 4]
        # What a base covers is read by nobody, and its loss is none.
        covered = max((int(path.name.split("_")[1]) for path in (self.root / name).glob("base_*")), default=0)
        halves = [path for path in halves if int(path.name.split("_")[3]) > covered]
        half = max(halves, key=lambda path: path.name, default=None)
        if half is None or not half.with_name(half.name.removeprefix("delete_")).exists():
            return None
        half = half.with_name(half.name.removeprefix("delete_")) if kind.endswith("inserts") else half
        away = self.folder / "lost"
        half.rename(away)
        return half, away

    def _write_in(self, name: str, *, change: bool) -> None:
        txn = self.table.begin(Work.WRITE)
        self.table.where[txn.write_id] = name
        self.table.enter(self.root, name)
        if not change or not self.table.change(txn, [self.random.randrange(50)], update=False):
            self.table.insert(txn, 5, 2)
        txn.fate = Fate.COMMITTED

    def _run_to_its_end(self, now: Reader, *command: str) -> None:
        given = [option for text in now.lists() for option in ("--validtxns", text)]
        more = ["--assume-exclusive", "--target", self.table.target.value, "--engine", "local", "--parallelism", "1"]
        if command[0] == "clean":
            more = ["--unsafe-no-retention", "--delete", "--yes"]
        schema = ["--schema", DDL] if command[0] == "compact" else []
        run = self._start(*command, str(self.root), *given, "--table-type", "full", *more, *schema)
        run.join()
        self._answers()

    def finish(self) -> None:
        """All writes end; one last compaction, undisturbed, leaves one base and nothing of ours but strangers'."""
        for txn in self.table.going(Work.WRITE):
            txn.fate = Fate.COMMITTED
        now = self.table.reader()
        given = [option for text in now.lists() for option in ("--validtxns", text)]
        more = ["--assume-exclusive", "--target", self.table.target.value, "--table-type", "full", "--engine", "local"]
        for _ in range(2):
            run = self._start("compact", "major", str(self.root), *given, *more, "--schema", DDL)
            run.join()
            self._answers()
            self.check()
        # Through a link to a partition nothing is changed.
        places = [self.root / name for name in PARTITIONS if not (self.root / name).is_symlink()]
        assert not [place for place in places if (place / "_acidctl_lock").exists()], "a lock is left"


def _rows(root: Path, reader: Reader, *, twice: bool = False) -> Rows:
    """The rows that a reader gets; with `twice` some may come more than once."""
    snapshot = open_table(str(root)).snapshot(validtxns=reader.lists(), table_type="full", schema=COLUMNS)
    found: Rows = {}
    with warnings.catch_warnings():
        # Doubts are planted here; what they may cost is asserted of the rows.
        warnings.simplefilter("ignore", AcidctlWarning)
        for rows in snapshot.rows():
            assert rows.row_ids is not None
            keys = zip(*(column.to_pylist() for column in rows.row_ids), strict=True)
            values = zip(*(column.to_pylist() for column in rows.columns[:2]), strict=True)
            for key, value in zip(keys, values, strict=True):
                assert twice or key not in found, (reader, key)
                found[key] = value
    return found


def _command(args: tuple[str, ...], answer: str, die: bool = False) -> None:
    """In a process of its own, which may be killed at any moment; or it dies at its second rename."""
    from acidctl.compaction import publish
    from tests.cli.runner import acidctl

    if die:
        rename, renamed = publish.rename_dir, list[str]()

        def rename_once(storage: Storage, source: str, target: str) -> None:
            if any(os.path.dirname(target) == os.path.dirname(other) for other in renamed):
                os._exit(HALF_WAY)
            renamed.append(target)
            rename(storage, source, target)

        publish.rename_dir = rename_once
    result = acidctl(*args, "-o", "json")
    said = {"args": args, "code": result.code, "stdout": result.stdout, "stderr": result.stderr}
    Path(f"{answer}.new").write_text(json.dumps(said))
    os.rename(f"{answer}.new", answer.replace("answer-", "answer-x"))


def _content(folder: Path) -> dict[str, Any]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def _visible(folder: Path) -> dict[str, int | None]:
    """What readers look at, with sizes."""
    paths = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*"))}
    shown = {name: path for name, path in paths.items() if not name.startswith(("_acidctl", "."))}
    return {name: path.stat().st_size if path.is_file() else None for name, path in shown.items()}


def histories(seeds: range, *, keep: Path | None = None, without: frozenset[str] = frozenset()) -> Counter[str]:
    """Play these; what happened in them. AssertionError for the first that goes wrong, whose folder stays in `keep`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    seen: Counter[str] = Counter()
    for seed in seeds:
        folder = Path(tempfile.mkdtemp(prefix="killed", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        history = History(folder, Random(f"killed {seed}"), context, without)
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
    parser.add_argument("--without", choices=[DOUBTS, OLD_LISTS], action="append", default=[], help="leave this out")
    args = parser.parse_args()
    begun = time.monotonic()
    seen: Counter[str] = Counter()
    for seed in range(args.first, args.first + args.histories):
        try:
            seen += histories(range(seed, seed + 1), keep=args.keep, without=frozenset(args.without))
        except AssertionError as error:
            seen["WRONG"] += 1
            print(error, flush=True)
    print(json.dumps(dict(sorted(seen.items())), indent=1), f"in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
