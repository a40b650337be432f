"""The faults that `make mutate` makes by rule are Python, each in one line, and the same for the same seed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.support.line_mutants import (
    HARMLESS,
    PACKAGES,
    LineMutant,
    batches,
    entries,
    files,
    harmless,
    mutants_of,
    order,
    sample,
)
from tests.support.reach import NOTED, Reach, Reached


@pytest.mark.slow
def test_faults_are_python_and_of_one_line() -> None:
    """Whatever the rules do to a line; and they find much to do."""
    for package in PACKAGES:
        file = max(files(package), key=lambda name: (ROOT / "acidctl" / name).stat().st_size)
        source = (ROOT / "acidctl" / file).read_text()
        mutants = list(mutants_of(file))
        assert len(mutants) > 20, file
        for mutant in mutants[::20]:
            changed = mutant.apply(source)
            ast.parse(changed)
            assert sum(a != b for a, b in zip(source.splitlines(), changed.splitlines(), strict=True)) == 1, mutant


@pytest.mark.slow
def test_a_seed_chooses_from_all_packages() -> None:
    """The same each time, another with another seed."""
    chosen = sample(12, 1)
    assert chosen == sample(12, 1) != sample(12, 2)
    assert {mutant.file.partition("/")[0] for mutant in chosen} == set(PACKAGES)


def test_modules_may_be_named() -> None:
    """The same number of each, as long as there are any."""
    chosen = sample(6, 1, ["rows/merge.py", "orc/stitch.py"])
    assert [mutant.file for mutant in chosen] == ["rows/merge.py", "orc/stitch.py"] * 3
    every = list(mutants_of("state/entries.py"))
    assert sorted(sample(10_000, 1, ["state/entries.py"]), key=every.index) == every


def test_each_excuse_is_of_one_fault() -> None:
    """One of code that has changed would excuse another fault, or none."""
    for file in {file for file, _, _ in HARMLESS}:
        excused = [mutant for mutant in mutants_of(file) if harmless(mutant)]
        assert len(excused) == sum(known == file for known, _, _ in HARMLESS), file


def test_likely_tests_come_first_and_few_at_a_time() -> None:
    """Those that reach the line before those that enter its function, quick ones before slow ones."""
    mutant = next(mutant for mutant in mutants_of("rows/merge.py") if entries(mutant))
    (function,) = entries(mutant)
    places = {"rows/merge.py": 0}

    def reached(test: str, seconds: float, *lines: int) -> Reached:
        return Reached.of(test, seconds, bytes(line in lines for line in range(2000)))

    tests = [
        reached("tests/unit/rows/test_merge.py::entered", 0.1, function),
        reached("tests/unit/x.py::far", 0.1, function, mutant.line),
        reached("tests/unit/x.py::long", 60, function, mutant.line),
        reached("tests/unit/x.py::neither", 0.1),
        reached("tests/unit/rows/test_merge.py::near", 0.2, function, mutant.line),
        reached("tests/unit/y.py::elsewhere", 0.1),
    ]
    found = order(mutant, Reach(places, tests))
    assert [one.test.rpartition("::")[2] for one in found] == ["near", "far", "long", "entered", "neither"]
    assert [[one.test.rpartition("::")[2] for one in batch] for batch in batches(found)] == [
        ["near", "far"],
        ["long"],
        ["entered", "neither"],
    ]
    at_import = LineMutant("rows/merge.py", 1, "", "")
    assert entries(at_import) == set()
    assert len(order(at_import, Reach(places, tests))) == len(tests)


@pytest.mark.slow
def test_what_tests_reach_is_noted(tmp_path: Path) -> None:
    """In the test's own process, in one that it starts, and nothing of other tests."""
    child = "from acidctl.format.bucket_codec import decode; decode(536870912)"
    (tmp_path / "test_it.py").write_text(
        f"import subprocess, sys\n{child.partition(';')[0]}\n"
        f"def test_here():\n    decode(536870912)\n"
        f"def test_there():\n    subprocess.run([sys.executable, '-c', {child!r}], check=True)\n"
        f"def test_nowhere():\n    pass\n"
    )
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.reach", "-p", "no:cacheprovider", tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT), NOTED: str(tmp_path / "noted")},
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    reach = Reach.load(tmp_path / "noted")
    source = (ROOT / "acidctl/format/bucket_codec.py").read_text().splitlines()
    line = next(number for number, text in enumerate(source, 1) if text.startswith("def decode"))
    assert [one.test.rpartition("::")[2] for one in reach.of_lines("format/bucket_codec.py", {line})] == [
        "test_here",
        "test_there",
    ]
    body = set(range(line + 1, line + 12))
    assert {one.test.rpartition("::")[2] for one in reach.of_lines("format/bucket_codec.py", body)} == {"test_here"}
