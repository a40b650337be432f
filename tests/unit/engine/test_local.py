"""The local engine: workers that die, tasks that fail, and what becomes of processes."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import acidctl
from acidctl.compaction import task
from acidctl.compaction.plan import PlannedTask, Role, TableFacts, TaskSpec
from acidctl.compaction.task import outcome_of
from acidctl.engine import TaskOutcome
from acidctl.engine.cluster import zip_package
from acidctl.engine.local import ATTEMPTS, WORKER_BYTES, LocalEngine, usable_cores
from acidctl.errors import ExitCode
from acidctl.format.bucket_codec import BucketCodecError
from tests import ROOT
from tests.support.fake_tasks import act
from tests.support.specs import WORK, small_table, specs_of


def specs_for(where: Path, *words: str) -> list[TaskSpec]:
    table = TableFacts("full", False, "", "struct<a:int>", "hive4")
    tasks = [PlannedTask(Role.SURVIVING, f"{word}/{i}", 0, (), bytes_in=1 << 20) for i, word in enumerate(words)]
    return [TaskSpec(str(where), WORK, table, one, ()) for one in tasks]


def run(engine: LocalEngine, specs: Sequence[TaskSpec]) -> dict[int, TaskOutcome]:
    """All outcomes by index, each exactly once."""
    outcomes = list(engine.run(specs))
    assert sorted(outcome.index for outcome in outcomes) == list(range(len(specs)))
    return {outcome.index: outcome for outcome in outcomes}


def pids(where: Path) -> set[int]:
    return {int(path.name.removeprefix("pid-")) for path in where.glob("pid-*")}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_gone(alive: set[int], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while any(is_alive(pid) for pid in alive):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.02)


@pytest.mark.slow
def test_deaths_and_errors(tmp_path: Path) -> None:
    """One worker is killed once, one always, one task fails, one prints: the others' results come, each one once."""
    words = ("ok", "die-once", "bad", "die", "noisy", "ok")
    with LocalEngine(2, small_bytes=0, work=act) as engine:
        outcomes = run(engine, specs_for(tmp_path, *words))
    for index in (0, 1, 4, 5):
        assert outcomes[index].error is None
    assert (tmp_path / "died-1").read_text() == "x"
    error = outcomes[2].error
    assert error is not None
    assert (type(error).__name__, error.message, error.path, error.hint) == (
        "DamagedDataError",
        "task 2 is damaged",
        "x",
        "look",
    )
    assert (tmp_path / "died-3").read_text() == "x" * ATTEMPTS
    lost = outcomes[3].error
    assert lost is not None
    assert lost.message == f"the worker process that writes die/3 died {ATTEMPTS} times (SIGKILL)"
    assert "--memory" in (lost.hint or "")
    assert os.getpid() not in pids(tmp_path)
    assert not any(is_alive(pid) for pid in pids(tmp_path))


@pytest.mark.slow
def test_order_and_reuse(tmp_path: Path) -> None:
    """Tasks are begun in the order given, and the workers of one run serve the next."""
    with LocalEngine(2, small_bytes=0, work=act) as engine:
        first = run(engine, specs_for(tmp_path, "ok", "ok", "ok", "ok"))
        known = pids(tmp_path)
        assert len(known) == 2
        run(engine, specs_for(tmp_path, "ok", "ok"))
        assert pids(tmp_path) == known
        assert {outcome.result.rows for outcome in first.values() if outcome.result} <= known


@pytest.mark.slow
def test_memory_of_large_tasks_is_given_back(tmp_path: Path) -> None:
    """What only a collection frees of a large task is gone before a worker takes the next one."""
    specs = [replace(spec, task=replace(spec.task, bytes_in=64 << 20)) for spec in specs_for(tmp_path, *["ring"] * 6)]
    with LocalEngine(2, work=act) as engine:
        assert all(outcome.error is None for outcome in run(engine, specs).values())
    assert len(pids(tmp_path)) == 2


@pytest.mark.slow
def test_abandoned_run(tmp_path: Path) -> None:
    """Whoever stops reading ends the tasks that are under way, at once; the engine goes on to work."""
    with LocalEngine(2, small_bytes=0, work=act) as engine:
        started = time.monotonic()
        outcomes = engine.run(specs_for(tmp_path, "sleep", "ok"))
        assert next(outcomes).index == 1
        assert isinstance(outcomes, Generator)
        outcomes.close()
        assert run(engine, specs_for(tmp_path, "ok", "ok"))[1].error is None
        assert time.monotonic() - started < 30
    wait_until_gone(pids(tmp_path))


@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.slow
def test_end_of_the_parent(how: signal.Signals, copies: bool, tmp_path: Path) -> None:
    """Ctrl-C, SIGTERM and SIGKILL of the parent end the workers in the middle of a task."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path\n"
        "from acidctl.engine.local import LocalEngine\n"
        "from tests.support.fake_tasks import act\n"
        "from tests.unit.engine.test_local import specs_for\n"
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from acidctl.engine import set_up_process\n"
        "with LocalEngine(2, small_bytes=0, work=act) as engine:\n"
        f"    if {copies}: set_up_process(); engine.copy_workers(2, 0)\n"
        f"    list(engine.run(specs_for(Path({str(tmp_path)!r}), 'sleep', 'sleep')))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 30
    while len(pids(tmp_path)) < 2:
        assert time.monotonic() < deadline
        assert parent.poll() is None
        time.sleep(0.02)
    parent.send_signal(how)
    _, said = parent.communicate(timeout=10)
    wait_until_gone(pids(tmp_path))
    assert (b"KeyboardInterrupt" in said) is (how is signal.SIGINT)
    assert b"Warning" not in said
    assert b"leaked" not in said


def test_small_work_stays_here(tmp_path: Path) -> None:
    """What is quicker done than handed over needs no worker; nor does a single task."""
    with LocalEngine(2, work=act) as engine:
        run(engine, specs_for(tmp_path, "ok", "bad", "ok"))
    with LocalEngine(2, small_bytes=0, work=act) as engine:
        run(engine, specs_for(tmp_path, "ok"))
    assert pids(tmp_path) == {os.getpid()}


def test_memory_bounds_workers() -> None:
    """Memory allows so many tasks at a time, one in any case."""
    assert LocalEngine(8, 3 * WORKER_BYTES).parallelism == 3
    assert LocalEngine(2, 100 * WORKER_BYTES).parallelism == 2
    assert LocalEngine(8, 1).parallelism == 1
    assert LocalEngine().parallelism == usable_cores()


@pytest.mark.slow
def test_real_tasks_in_workers(tmp_path: Path) -> None:
    """A worker gives the result that the same task gives here, but for names and times."""
    table, state, columns = small_table(tmp_path, 200)
    specs = [*specs_of(table, state, columns, [Role.INSERTS]), *specs_of(table, state, columns, [Role.DELETES])]
    with LocalEngine(2, small_bytes=0) as engine:
        there = run(engine, specs)
    here = [outcome_of(index, spec) for index, spec in enumerate(specs)]
    for outcome in here:
        assert outcome.result is not None
        other = there[outcome.index].result
        assert other is not None
        assert (other.rows, other.counts, other.digest) == (
            outcome.result.rows,
            outcome.result.counts,
            outcome.result.digest,
        )
        assert other.path != outcome.result.path


def test_any_failure_can_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors that cannot be pickled, memory that runs out and faults of our own come back as errors with a sentence."""
    (spec,) = specs_for(tmp_path, "ok")
    failures = (
        BucketCodecError("no such bucket"),
        MemoryError(),
        ZeroDivisionError("division\nby zero"),
    )
    said = (
        "no such bucket",
        "there was not enough memory to write ok/0",
        "unexpected ZeroDivisionError: division by zero",
    )
    for failure, text in zip(failures, said, strict=True):

        def fail(*_: object, failure: BaseException = failure, **__: object) -> None:
            raise failure

        monkeypatch.setattr(task, "run_task", fail)
        outcome = pickle.loads(pickle.dumps(outcome_of(0, spec)))
        assert text in outcome.error.message
        assert "\n" not in outcome.error.message
        assert outcome.error.exit_code is ExitCode.FAILED


# Not guarded by `if __name__ == "__main__"`, as scripts and notebooks are; `sys.argv` is where traces go.
SCRIPT = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
import acidctl
from acidctl.engine.local import LocalEngine
from tests.support.fake_tasks import act
from tests.unit.engine.test_local import specs_for

specs = specs_for(Path(sys.argv[2]), "ok", "die", "late", "late")
if sys.argv[1] == "engine":
    with LocalEngine(2, small_bytes=0, work=act) as engine:
        print(acidctl.__file__, sum(outcome.error is None for outcome in engine.run(specs)))
else:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(act, index, spec, False) for index, spec in enumerate(specs)]
        print(sum(future.exception() is None for future in futures))
"""


def run_script(tmp_path: Path, script: str, *args: str, path: str = "") -> subprocess.CompletedProcess[str]:
    (tmp_path / "script.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (path, str(ROOT))))}
    command = [sys.executable, "script.py", *args, str(tmp_path)]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_a_script_without_a_guard_and_a_package_in_a_zip(tmp_path: Path) -> None:
    """Workers do not run the script again, and import what it imports, from where it does."""
    archive = str(zip_package(Path(acidctl.__file__).parent, "1", tmp_path))
    done = run_script(tmp_path, SCRIPT, "engine", path=archive)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [f"{archive}/acidctl/__init__.py", "3"], "")
    assert (tmp_path / "died-1").read_text() == "x" * ATTEMPTS


COPIES = """
import multiprocessing, subprocess, sys, threading
from pathlib import Path
from acidctl.engine import set_up_process
from acidctl.engine.local import LocalEngine
from tests.support.fake_tasks import act
from tests.unit.engine.test_local import pids, specs_for

where, popen = Path(sys.argv[1]), subprocess.Popen
set_up_process()
with LocalEngine(2, small_bytes=0, work=act) as engine:
    # Another thread could be in the middle of something.
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    engine.copy_workers(4, 0)
    assert not multiprocessing.active_children()
    ended.set()
    other.join()
    engine.copy_workers(4, 0)
    # Nobody starts an interpreter, until a worker has died.
    subprocess.Popen = None
    good = sum(outcome.error is None for outcome in engine.run(specs_for(where, "ok", "noisy", "ok", "ok")))
    subprocess.Popen = popen
    print(good, len(pids(where)), sum(outcome.error is None for outcome in engine.run(specs_for(where, "ok", "die"))))
"""


@pytest.mark.slow
def test_copies_of_a_process_of_our_own(tmp_path: Path) -> None:
    """Workers that have loaded everything; one that dies is replaced by an interpreter."""
    done = run_script(tmp_path, COPIES)
    assert (done.returncode, done.stdout, done.stderr) == (0, "4 2 1\n", "a library says something\n")
    assert (tmp_path / "died-1").read_text() == "x" * ATTEMPTS
    wait_until_gone(pids(tmp_path))


@pytest.mark.slow
def test_why_not_a_process_pool(tmp_path: Path) -> None:
    """That of the standard library starts no worker without a guard; with one, a death costs the others their tasks.

    Should this fail one day, `LocalEngine` may be replaced by it.
    """
    bare = run_script(tmp_path, SCRIPT, "pool")
    assert bare.stdout == "0\n"
    assert "Safe importing of main module" in bare.stderr
    imports, _, work = SCRIPT.partition("\n\n")
    guarded = f"{imports}\nif __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in work.splitlines())
    done = run_script(tmp_path, guarded, "pool")
    assert int(done.stdout) < 3, done.stderr
