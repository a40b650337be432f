"""Which tests reach which lines of acidctl: a plugin of pytest that notes them, and one that runs chosen tests only.

    python -m pytest -p tests.support.reach ...      with ACIDCTL_REACH_NOTED=FILE: what each test reaches goes there
                                                     with ACIDCTL_REACH_CHOSEN=FILE: only these, in this order

A line of a function counts when it is among the first `_EVENTS` line events of that function in a test, and not of a
slow one; that a function was entered (its first line) counts always. Processes that a test forks or starts count as
the test: all of them write into one file in memory, a byte for each line of the package.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import resource
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

NOTED, CHOSEN, _LINES = "ACIDCTL_REACH_NOTED", "ACIDCTL_REACH_CHOSEN", "ACIDCTL_REACH_LINES"
_PACKAGE = Path(__file__).resolve().parents[2] / "acidctl"
_EVENTS = 1000
# What a fault may make of a test: no end. A test may be slow beside other work, too.
_SLOWER, _AT_LEAST = 15, 30
_ADDRESS_SPACE = 12 << 30


def layout(package: Path = _PACKAGE) -> dict[str, int]:
    """Where the lines of each file begin, by path relative to the package; line n of a file is n places behind."""
    places, begin = {}, 0
    for path in sorted(package.rglob("*.py")):
        places[str(path.relative_to(package))] = begin
        begin += len(path.read_bytes().splitlines()) + 2
    places[""] = begin
    return places


@dataclass(frozen=True, slots=True)
class Reached:
    """What one test did: how long it took, in seconds, and a byte for each line of the package, deflated."""

    test: str
    seconds: float
    marks: bytes

    @classmethod
    def of(cls, test: str, seconds: float, marks: bytes) -> Reached:
        """Of marks as they are."""
        return cls(test, seconds, zlib.compress(marks))


class Reach:
    """What a run of tests has noted."""

    def __init__(self, places: dict[str, int], tests: list[Reached]) -> None:
        self.places = places
        self.tests = tests

    @cached_property
    def _marks(self) -> dict[str, bytes]:
        return {one.test: zlib.decompress(one.marks) for one in self.tests}

    def of_lines(self, file: str, lines: set[int]) -> list[Reached]:
        """The tests that reach one of these lines of a file, counted from 1."""
        begin = self.places[file]
        return [one for one in self.tests if any(self._marks[one.test][begin + line] for line in lines)]

    @classmethod
    def load(cls, *files: Path) -> Reach:
        """What several runs have noted of the same code."""
        runs = [pickle.loads(file.read_bytes()) for file in files]
        assert all(run[0] == runs[0][0] for run in runs), "noted of different code"
        return cls(runs[0][0], [one for run in runs for one in run[1]])


class _Tracer:
    """Marks lines of the package, here and in what is forked from here."""

    def __init__(self, lines: Path, places: dict[str, int]) -> None:
        with lines.open("r+b") as stream:
            self.marks = mmap.mmap(stream.fileno(), 0)
        self._places = {str(_PACKAGE / name): begin for name, begin in places.items() if name}
        self._events: dict[CodeType, int] = {}
        self._lines = False

    def start(self, *, lines: bool = False) -> None:
        self._lines = lines
        sys.settrace(self._call)
        threading.settrace(self._call)

    def forget(self) -> None:
        self.marks[:] = bytes(len(self.marks))
        self._events.clear()

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        begin = self._places.get(code.co_filename)
        if begin is None:
            return None
        marks, events = self.marks, self._events
        marks[begin + code.co_firstlineno] = 1
        if not self._lines or events.get(code, 0) >= _EVENTS:
            return None

        def line(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "line":
                marks[begin + frame.f_lineno] = 1
                events[code] = count = events.get(code, 0) + 1
                if count >= _EVENTS:
                    frame.f_trace_lines = False
            return line

        return line


def join() -> None:
    """For an interpreter that a test has started."""
    lines = os.environ.get(_LINES)
    if lines and os.path.exists(lines):
        _Tracer(Path(lines), layout()).start()


class _Noting:
    """Notes what each test reaches, its fixtures included."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="reach-")
        self._places = layout()
        folder = Path(self._folder.name)
        (folder / "lines").write_bytes(bytes(self._places[""]))
        # Of the interpreters that tests start.
        (folder / "sitecustomize.py").write_text("import tests.support.reach\ntests.support.reach.join()\n")
        root = str(_PACKAGE.parent)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), root, os.environ.get("PYTHONPATH", "")])
        os.environ[_LINES] = str(folder / "lines")
        self._tracer = _Tracer(folder / "lines", self._places)
        self._tests: list[Reached] = []

    def run(self, test: pytest.Item) -> Generator[None, object, object]:
        """Around a test."""
        self._tracer.forget()
        self._tracer.start(lines=test.get_closest_marker("slow") is None)
        began = time.monotonic()
        result = yield
        sys.settrace(None)
        self._tests.append(Reached.of(test.nodeid, time.monotonic() - began, self._tracer.marks[:]))
        return result

    def end(self) -> None:
        """The file with all of it."""
        self._target.write_bytes(pickle.dumps((self._places, self._tests)))
        self._folder.cleanup()


_noting: _Noting | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Ready for the first test."""
    global _noting
    if target := os.environ.get(NOTED):
        _noting = _Noting(Path(target))


def pytest_unconfigure() -> None:
    """After the last one."""
    if _noting is not None:
        _noting.end()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only the chosen ones, in their order, within bounds: what takes much longer than it did has no end."""
    if not (chosen := os.environ.get(CHOSEN)):
        return
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    seconds: dict[str, float] = json.loads(Path(chosen).read_text())
    place = {test: number for number, test in enumerate(seconds)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in place])
    items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])
    for item in items:
        item.add_marker(pytest.mark.timeout(max(_AT_LEAST, _SLOWER * seconds[item.nodeid])), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Nothing is noted of what is collected."""
    if _noting is None:
        return (yield)
    return (yield from _noting.run(item))
