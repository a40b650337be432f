"""Faults in a compaction are refused before anything is published: a share of what `make mutate` tries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT
from tests.support.extent import amount
from tests.support.mutant_list import MUTANTS
from tests.support.mutants import apply


@pytest.mark.slow
def test_every_fault_can_be_made() -> None:
    """Its fragment is in the file exactly once, and what comes of it is Python."""
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS) >= 60
    for mutant in MUTANTS:
        compile(apply(mutant, (ROOT / "acidctl" / mutant.file).read_text()), mutant.file, "exec")


@pytest.mark.slow
def test_faults_are_refused() -> None:
    """A few of them, chosen by a seed; the others are for `make mutate`."""
    count = amount(6, swept=6)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.mutants", f"{count}@143"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{count} faults" in ran.stdout
