"""Every storage call of every command meets a network that fails: no wrong answer, no lost row, and a sentence.

What passes by itself nobody notices: reads are made again, and so are changes that nobody else makes, after a look.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import acidctl.api as table_module
from acidctl.errors import AcidctlError, ExitCode
from acidctl.storage.local import LocalStorage
from acidctl.storage.port import Storage
from acidctl.storage.retry import retrying
from tests.cli.runner import Result
from tests.cli.runner import acidctl as command
from tests.support.breaking import WAYS, Bench, in_turn
from tests.support.cleaning_cases import LATER, step, tree
from tests.support.extent import some
from tests.support.faulty import Fault, FaultyStorage
from tests.support.memory import MemoryStorage

pytestmark = pytest.mark.slow

NETWORK = (Fault.SILENT, Fault.UNHEARD, Fault.BUSY, Fault.GONE)
PASSING = (Fault.SILENT, Fault.UNHEARD, Fault.BUSY)
STEP = "hive4/partitioned/02-changed"
READERS = (
    ("ls", "-l", "--rows", "-o", "json"),
    ("snapshot", "--files", "-o", "json"),
    ("snapshot", "--count", "-o", "json"),
    ("snapshot", "-o", "jsonl"),
    ("compact", "minor", "--dry-run", "--assume-exclusive", "-o", "json"),
    ("clean", "-o", "json"),
)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls come in the same order each time, and nobody waits."""
    in_turn(monkeypatch)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def _faulted(
    inner: Callable[[], Storage], run: Callable[[Storage], object], fault: Fault, every: int = 1
) -> Iterator[tuple[str, object]]:
    """The call that went wrong, and what the run gave or raised, for calls of a run; some of those that read.

    Whatever is read goes through the same hands.
    """
    counter = FaultyStorage(inner(), reads=True)
    run(retrying(counter))
    assert counter.calls
    calls = [
        (at, name)
        for at, name in enumerate(counter.names, 1)
        if at % every == 0 or not name.startswith(("stat ", "walk ", "open ", "read "))
    ]
    for at, name in some(calls, one_of=8):
        storage = FaultyStorage(inner(), at, fault, reads=True)
        try:
            outcome: object = run(retrying(storage))
        except AcidctlError as error:
            outcome = error
        assert storage.hit, at
        yield name, outcome


def _memory() -> MemoryStorage:
    root = step(STEP).folder / "table"
    files = {f"t/{path.relative_to(root)}": path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return MemoryStorage(files, modified=LATER - 1_000_000)


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Callable[[], Storage], str]:
    """A storage with a table in partitions, updates and deletes in it, and the path of the table."""
    if request.param == "memory":
        return _memory, "t"
    return LocalStorage, str(step(STEP).copy(tmp_path / "t"))


def _check_sentence(result: Result) -> None:
    """One error, without a trace of Python, and exit 14."""
    assert result.code == ExitCode.STORAGE, result
    errors = [line for line in result.stderr.splitlines() if line.startswith('{"error"')]
    assert len(errors) == 1, result.stderr
    assert json.loads(errors[0])["error"]["code"] == "unreachable"
    assert "cannot be used: the fault of call" in json.loads(errors[0])["error"]["message"]


@pytest.mark.parametrize("fault", NETWORK)
@pytest.mark.parametrize("args", READERS, ids=" ".join)
def test_commands_that_read(
    args: tuple[str, ...], fault: Fault, place: tuple[Callable[[], Storage], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answer where the fault passes; else an error, after nothing or after the beginning of the answer."""
    make, root = place
    # Ages are in the answer, and a second may pass between two answers.
    monkeypatch.setattr("acidctl.maintenance.limits.wall_clock", lambda: LATER)
    monkeypatch.setattr("acidctl.cleaning.run.wall_clock", lambda: LATER)
    lists = [word for text in step(STEP).lists for word in ("--validtxns", text)]

    def run(storage: Storage) -> Result:
        monkeypatch.setattr(table_module, "resolve_url", lambda url, options=None: (storage, root))
        return command(*args, root, *lists)

    right = run(make())
    assert right.code in (ExitCode.DONE, ExitCode.FINDINGS), right
    for call, result in _faulted(make, run, fault):
        assert isinstance(result, Result), call
        if fault in PASSING:
            assert result == right, call
        elif result.code == ExitCode.STORAGE:
            _check_sentence(result)
            assert right.stdout.startswith(result.stdout), call
        elif args[0] == "compact":
            _check_refusals(result, right)
        else:
            assert result == right, call


def _check_refusals(result: Result, right: Result) -> None:
    """A plan in which some partitions are refused, because nothing is known of them, and the others are as they are."""
    planned = {part["partition"]: part for part in right.json()["partitions"]}
    found = result.json()["partitions"]
    assert [part["partition"] for part in found] == list(planned)
    assert result.code == (ExitCode.FINDINGS if any(part["failed"] for part in found) else right.code)
    for part in found:
        if part["action"] == "refused":
            assert (part["reason_code"], part["failed"]) == ("unreachable", True)
            assert "cannot be used: the fault of call" in part["reason"]
        else:
            assert part == planned[part["partition"]]


@pytest.mark.parametrize("fault", NETWORK)
@pytest.mark.parametrize(("way", "every"), [("minor", 61)])
def test_compaction(way: str, every: int, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and inputs stay; what failed says so by a sentence of the storage; the next run completes."""
    bench = Bench(WAYS[way], tmp_path)
    inputs = tree(bench.root)
    done = 0
    for call, outcome in _faulted(bench.plant, lambda storage: bench.compact(storage, monkeypatch), fault, every):
        assert inputs.items() <= tree(bench.root).items(), call
        assert bench.rows() == bench.before, call
        if isinstance(outcome, AcidctlError):
            assert outcome.exit_code == ExitCode.STORAGE or "_acidctl_lock" in call, (call, outcome)
        else:
            done += 1
        again = bench.again()
        assert again.code == ExitCode.DONE, (call, again.stdout, again.stderr)
        assert bench.leftovers() == [], call
        assert bench.rows() == bench.before, call
    assert done > 1 or fault is Fault.GONE


@pytest.mark.parametrize("fault", NETWORK)
def test_cleaning(fault: Fault, tmp_path: Path) -> None:
    """A directory goes whole or stays whole; rows stay; the next run completes."""
    bench = Bench(WAYS["minor"], tmp_path)
    assert bench.again().code == ExitCode.DONE
    bench.keep()
    rows = bench.rows()[-1]
    assert bench.clean(bench.plant()).victims
    cleaned = tree(bench.root)
    for call, _ in _faulted(bench.plant, bench.clean, fault):
        assert bench.rows()[-1] == rows, call
        if fault in PASSING and "_acidctl_lock" not in call:
            assert tree(bench.root) == cleaned, call
        assert bench.clean(LocalStorage()).exit_code == ExitCode.DONE, call
        assert tree(bench.root) == cleaned, call
        assert bench.rows()[-1] == rows, call
