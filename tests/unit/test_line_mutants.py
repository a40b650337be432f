"""The faults that `make mutate` makes by rule are Python, each in one line, and the same for the same seed."""

from __future__ import annotations

import ast

import pytest

from tests import ROOT
from tests.support.line_mutants import PACKAGES, files, mutants_of, sample


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
