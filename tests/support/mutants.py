"""One-line faults in what a compaction does: which are refused before anything is published, and which are not?

    python -m tests.support.mutants            all of them; exit 1 where more than one harmful fault of ten is published
    python -m tests.support.mutants NAME ...   some, by a part of their file or note
    python -m tests.support.mutants 6@42       six of them, by the seed 42

Each fault is put into a copy of the package, which then compacts a few tables. What it publishes is compared with what
the package as it is publishes of the same tables: names, markers, rows, statistics, indexes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.support.mutant_list import MUTANTS, Mutant

_SECONDS = 90


@dataclass(frozen=True)
class Outcome:
    """What became of a fault: `refused`, `equal` or `published`, and in a sentence how."""

    mutant: Mutant
    kind: str
    how: str


def apply(mutant: Mutant, source: str) -> str:
    """The text of the file with the fault; ValueError unless the fragment is there exactly once."""
    if source.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file}: {mutant.old!r} is there {source.count(mutant.old)} times, not once")
    return source.replace(mutant.old, mutant.new)


def package(folder: Path, mutant: Mutant | None = None) -> Path:
    """A package `acidctl` below `folder`: links to the real files, and one file with the fault."""
    shutil.copytree(ROOT / "acidctl", folder / "acidctl", copy_function=os.symlink)
    if mutant is not None:
        place = folder / "acidctl" / mutant.file
        changed = apply(mutant, (ROOT / "acidctl" / mutant.file).read_text())
        for stale in (place.parent / "__pycache__").glob(f"{place.stem}.*.pyc"):
            stale.unlink()
        place.unlink()
        place.write_text(changed)
    return folder


def run(mutants: Sequence[Mutant], *, workers: int = 2, watch: Callable[[Outcome], None] = print) -> list[Outcome]:
    """Try faults one by one, each in processes of its own."""
    assert "acidctl" not in sys.modules, "each process has to import its own acidctl"
    with tempfile.TemporaryDirectory(prefix="mutants-") as text:
        scratch = Path(text)
        golden = scratch / "golden"
        (golden / "home").mkdir(parents=True)
        package(golden / "home")
        _in_process(golden / "home", "make", str(scratch / "tables"))
        whole = _in_process(golden / "home", "compact", str(scratch / "tables"), str(golden / "out"))
        if "crash" in whole:
            raise AssertionError(f"without any fault: {whole['crash']}")
        failed = [name for name, found in whole.items() if found["outcome"] != "done"]
        if failed:
            raise AssertionError(f"without any fault {failed} are not compacted: {whole[failed[0]]}")

        def one(numbered: tuple[int, Mutant]) -> Outcome:
            outcome = _judged(numbered[1], scratch / f"m{numbered[0]}", scratch, golden)
            watch(outcome)
            return outcome

        with ThreadPoolExecutor(workers) as threads:
            return list(threads.map(one, enumerate(mutants)))


def _judged(mutant: Mutant, home: Path, scratch: Path, golden: Path) -> Outcome:
    home.mkdir()
    try:
        package(home, mutant)
        found = _in_process(home, "compact", str(scratch / "tables"), str(home / "out"))
        if "crash" in found:
            return Outcome(mutant, "refused", found["crash"])
        said = [f"{name}: {item['why']}" for name, item in found.items() if item["outcome"] != "done"]
        compared = _in_process(golden / "home", "compare", str(golden / "out"), str(home / "out"))
        if "crash" in compared:
            return Outcome(mutant, "published", f"what cannot be read any more: {compared['crash']}")
        wrong = [f"{name}: {what}" for name, what in compared.items() if what]
        if wrong:
            return Outcome(mutant, "published", wrong[0] + (f" (and {len(wrong) - 1} more)" if wrong[1:] else ""))
        return Outcome(mutant, "refused", said[0]) if said else Outcome(mutant, "equal", "")
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _in_process(home: Path, *args: str) -> dict[str, Any]:
    """`work` in a process that has imported nothing of acidctl, with the package of that folder; its answer."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(home, args, theirs))
    process.start()
    theirs.close()
    deadline = time.monotonic() + _SECONDS
    try:
        while time.monotonic() < deadline:
            if ours.poll(0.5):
                answer: dict[str, Any] = json.loads(ours.recv())
                return answer
            if not process.is_alive() and not ours.poll():
                return {"crash": f"the process ended with {process.exitcode}"}
    except EOFError:
        return {"crash": f"the process ended with {process.exitcode}"}
    finally:
        process.kill()
        process.join()
    return {"crash": f"no end within {_SECONDS} s"}


def _child(home: Path, args: Sequence[str], answer: Any) -> None:
    sys.path.insert(0, str(home))
    sys.dont_write_bytecode = True
    os.environ["PYTHONPATH"] = os.pathsep.join((str(home), str(ROOT)))
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)
    try:
        from tests.support import mutant_tables

        found = mutant_tables.work(*args)
    except BaseException as error:
        found = {"crash": f"{type(error).__name__}: {error}"}
    answer.send(json.dumps(found, default=str))
    answer.close()
    os._exit(0)


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """How it went, and each survivor with the reason."""
    kinds = {kind: [o for o in outcomes if o.kind == kind] for kind in ("refused", "equal", "published")}
    harmful = len(kinds["refused"]) + len(kinds["published"])
    yield (
        f"{len(outcomes)} faults: {len(kinds['refused'])} refused, {len(kinds['equal'])} change nothing of these "
        f"tables, {len(kinds['published'])} published ({len(kinds['refused'])} of {harmful} that matter were refused)"
    )
    for outcome in kinds["published"]:
        why = outcome.mutant.why or "nothing explains it"
        yield f"published  {outcome.mutant.file}: {outcome.mutant.note}: {outcome.how}. Why: {why}"
    for outcome in kinds["equal"]:
        yield f"no change  {outcome.mutant.file}: {outcome.mutant.note}"


def holds(outcomes: Sequence[Outcome]) -> bool:
    """Whether nine of ten faults that matter are refused, and what is published is known."""
    refused = sum(o.kind == "refused" for o in outcomes)
    published = [o for o in outcomes if o.kind == "published"]
    return refused >= 9 * len(published) and all(o.mutant.why for o in published)


def shown(outcome: Outcome) -> None:
    """One line for each."""
    print(f"{outcome.kind:9}  {outcome.mutant.file}: {outcome.mutant.note}  [{outcome.how[:150]}]", flush=True)


def _chosen(wanted: Sequence[str]) -> list[Mutant]:
    if len(wanted) == 1 and (match := re.fullmatch(r"(\d+)@(\d+)", wanted[0])):
        return random.Random(int(match[2])).sample(MUTANTS, int(match[1]))
    return [m for m in MUTANTS if not wanted or any(word in f"{m.file} {m.note}" for word in wanted)]


def main(wanted: Sequence[str]) -> int:
    # Heavy packages are imported once, before the processes fork; acidctl is not among them.
    import click  # noqa: F401
    import numpy  # noqa: F401
    import pyarrow.compute
    import pyarrow.dataset
    import pyarrow.orc  # noqa: F401
    import pyorc  # noqa: F401

    chosen = _chosen(wanted)
    started = time.monotonic()
    outcomes = run(chosen, watch=shown)
    print("\n".join(summary(outcomes)))
    print(f"{time.monotonic() - started:.0f} s")
    return 0 if holds(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
