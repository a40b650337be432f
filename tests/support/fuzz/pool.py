"""Workers that run fuzz cases, and the parent that measures and outlives them."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

KINDS = ("lists", "conditions", "configs", "plans", "markers", "left", "exports", "tables", "files")
# Parts of a hundred.
SHARES = {
    "files": 38,
    "tables": 12,
    "markers": 10,
    "lists": 20,
    "conditions": 8,
    "configs": 3,
    "left": 4,
    "exports": 2,
    "plans": 3,
}
# Of processor time in one case, and of memory at its peak.
SECONDS = 10.0
BYTES = 1 << 30
# A machine may be busy with other things; what makes no progress for so long hangs.
_PATIENCE = 60.0
_ADDRESS_SPACE = 6 << 30
_FILE_SIZE = 64 << 20
_PREFIX = "acidctl-fuzz-"

Case = tuple[str, int]


@dataclass
class Run:
    """Fuzz cases of one seed; `findings` are those that went wrong."""

    seed: str
    keep: Path
    workers: int = 2
    stop_after: int = 1000
    report: Callable[[str], object] = lambda text: None
    findings: list[dict[str, Any]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    largest: int = 0
    _started: float = field(default_factory=time.monotonic)

    def cases(self, cases: Sequence[Case]) -> None:
        """Run these, shared out among the workers."""
        started = time.monotonic()
        _sweep()
        with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-", dir=_memory_disk()) as folder:
            lanes = [_Lane(self, Path(folder) / str(i), list(cases[i :: self.workers])) for i in range(self.workers)]
            while any(lane.busy for lane in lanes):
                if len(self.findings) >= self.stop_after:
                    for lane in lanes:
                        lane.give_up()
                for lane in lanes:
                    lane.start()
                ready, _, _ = select.select([lane.pipe for lane in lanes if lane.pipe >= 0], [], [], 1)
                for lane in lanes:
                    lane.look(lane.pipe in ready)
        if len(cases) > 1:
            self.report(f"{cases[0][0]}: {len(cases)} cases in {time.monotonic() - started:.0f} s")

    def summary(self) -> dict[str, Any]:
        """The figures of the run."""
        return {
            "seed": self.seed,
            "cases": dict(self.done),
            "findings": len(self.findings),
            "kinds_of_findings": Counter(f"{f['kind']}: {_form(f['what'])}" for f in self.findings).most_common(60),
            "seconds": round(time.monotonic() - self._started),
            "slowest_case_cpu_seconds": round(self.slowest, 2),
            "largest_case_megabytes": self.largest >> 20,
            "exit_codes": dict(sorted(self.seen.items())),
        }

    def found(self, kind: str, number: int, what: str, log: Sequence[str], folder: Path) -> None:
        """Show a finding, whose folder has been kept."""
        place = self.keep / f"{kind}-{self.seed}-{number}"
        place.mkdir(parents=True, exist_ok=True)
        again = f"python -m tests.support.fuzz --seed {self.seed} --kind {kind} --only {number}"
        text = "\n".join([again, "", what, "", *(line.replace(str(folder), str(place)) for line in log), ""])
        (place / "finding.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
        self.findings.append({"kind": kind, "number": number, "what": what, "log": list(log)})
        said = [line for line in log if not line.startswith("acidctl")][:3]
        self.report("\n  ".join([f"FOUND {again}", what[:600], *(line[:300] for line in said), f"kept in {place}"]))


class _Lane:
    """The cases of one worker at a time; the next one takes over where one died."""

    def __init__(self, run: Run, folder: Path, cases: list[Case]) -> None:
        self.run = run
        self.folder = folder
        self.cases = cases
        self.pipe = -1
        self._pid = 0
        self._buffer = b""
        self._heard = 0.0
        self._current: dict[str, Any] = {}

    @property
    def busy(self) -> bool:
        return bool(self.cases) or self.pipe >= 0

    def start(self) -> None:
        """Fork a worker where none is and some case is left."""
        if self.pipe >= 0 or not self.cases:
            return
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            _work(self.run, self.folder, self.cases, write)
        os.close(write)
        self.pipe, self._pid, self._heard, self._buffer = read, pid, time.monotonic(), b""

    def give_up(self) -> None:
        """No more cases."""
        self.cases.clear()
        if self.pipe >= 0:
            os.kill(self._pid, signal.SIGKILL)
            self._current = {}
            self._ended("")

    def look(self, ready: bool) -> None:
        """Take in what the worker says; end one that hangs."""
        if self.pipe < 0:
            return
        if ready:
            data = os.read(self.pipe, 1 << 16)
            self._heard = time.monotonic()
            self._buffer += data
            *lines, self._buffer = self._buffer.split(b"\n")
            for line in lines:
                self._take(json.loads(line))
            if not data:
                self._ended("")
        elif time.monotonic() - self._heard > _PATIENCE:
            os.kill(self._pid, signal.SIGKILL)
            self._ended(f"no end within {_PATIENCE:.0f} s")

    def _take(self, said: dict[str, Any]) -> None:
        if "begins" in said:
            self._current = said
            return
        self._current = {}
        kind, number = self.cases.pop(0)
        self.run.done[kind] += 1
        self.run.seen.update(said["seen"])
        self.run.slowest = max(self.run.slowest, said["seconds"])
        self.run.largest = max(self.run.largest, said["bytes"])
        if said["what"]:
            self.run.found(kind, number, said["what"], said["log"], self.folder / "case")

    def _ended(self, why: str) -> None:
        os.close(self.pipe)
        self.pipe = -1
        _, status = os.waitpid(self._pid, 0)
        if self._current and self.cases:
            kind, number = self.cases.pop(0)
            self.run.done[kind] += 1
            _keep(self.run, kind, number, self.folder / "case")
            self.run.found(kind, number, why or f"the process died: {status}", [], self.folder / "case")
            self._current = {}
        elif self.cases and not why and status:
            raise RuntimeError(f"a worker died between cases: {status}")


def _work(run: Run, folder: Path, cases: Sequence[Case], pipe: int) -> None:
    """All of a worker's life."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_SIZE, _FILE_SIZE))
        from tests.support.fuzz.bench import Bench

        folder.mkdir(parents=True, exist_ok=True)
        # All that a case makes goes with the folder of the run.
        tempfile.tempdir = str(folder)
        bench = Bench(folder / "case")
        for kind, number in cases:
            os.write(pipe, b'{"begins": 1}\n')
            os.write(pipe, json.dumps(_one(run, bench, kind, number)).encode() + b"\n")
    except BaseException:
        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def _one(run: Run, bench: Any, kind: str, number: int) -> dict[str, Any]:
    from tests.support.fuzz.bench import Finding

    case = import_module(f"tests.support.fuzz.{kind}").case
    bench.begin()
    bench.seen = {}
    _forget_peak()
    began = time.process_time()
    what = ""
    try:
        case(bench, Random(f"{run.seed}/{kind}/{number}"))
    except Finding as finding:
        what = str(finding) or "?"
    except Exception:
        what = f"the case itself failed: {traceback.format_exc()[-1500:]}"
    seconds, peak = time.process_time() - began, _peak()
    if not what and seconds > SECONDS:
        what = f"{seconds:.1f} s of processor time"
    if not what and peak > BYTES:
        what = f"{peak >> 20} MB of memory"
    if what:
        _keep(run, kind, number, bench.folder)
    return {"what": what, "seconds": seconds, "bytes": peak, "seen": bench.seen, "log": bench.log if what else []}


def _keep(run: Run, kind: str, number: int, folder: Path) -> None:
    """Copy the folder of a case to where it stays."""
    place = run.keep / f"{kind}-{run.seed}-{number}"
    shutil.rmtree(place, ignore_errors=True)
    with suppress(OSError, shutil.Error):
        shutil.copytree(folder, place, symlinks=True, copy_function=_copy, ignore_dangling_symlinks=True)


def _forget_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as stream:
            stream.write("5")
    except OSError:
        pass


def _peak() -> int:
    with open("/proc/self/status") as stream:
        for line in stream:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


def _sweep() -> None:
    """Remove the folders of runs that were killed."""
    for path in Path(_memory_disk() or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = path.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            shutil.rmtree(path, ignore_errors=True)


def _memory_disk() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _copy(source: str, target: str) -> None:
    """Of what is no plain file, nothing."""
    if os.path.isfile(source):
        shutil.copy2(source, target)


def _form(what: str) -> str:
    """A finding without its numbers and names, so that equal ones are counted together."""
    return re.sub(r"[0-9a-f]{12}|\d+|/\S+", "#", what)[:110]
