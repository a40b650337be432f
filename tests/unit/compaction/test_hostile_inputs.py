"""Inputs that lie to the second ORC library, which believes what it reads: the same rows or a refusal, no crash."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.runner import acidctl
from tests.support.fuzz.bench import TABLES, load
from tests.support.fuzz.orcbytes import LENGTH, ROW_INDEX, OrcBytes, encode, parse

NAME = "hive4/demo_orders/02-compacted"
FILE = "delta_0000001_0000004_v0000009/bucket_00000"


def _positions(orc: OrcBytes) -> None:
    """Row groups without positions."""
    stripe = orc.stripes[0]
    for place, part in enumerate(stripe.parts):
        if part.kind == ROW_INDEX:
            groups = parse(orc.plain(stripe.blobs[place]), {1: {}})
            for group in groups:
                group[2] = [node for node in group[2] if node[0] != 1]
            stripe.blobs[place] = orc.packed(encode(groups))


def _groups(orc: OrcBytes) -> None:
    """Row indexes without a group."""
    stripe = orc.stripes[0]
    for place, part in enumerate(stripe.parts):
        if part.kind == ROW_INDEX:
            stripe.blobs[place] = orc.packed(b"\x50\x00")


def _lengths(orc: OrcBytes) -> None:
    """Texts of terabytes."""
    stripe = orc.stripes[0]
    for place, part in enumerate(stripe.parts):
        if part.kind == LENGTH:
            stripe.blobs[place] = orc.packed(b"\x7e\x06" + b"\xff" * 63)


@pytest.mark.parametrize(("change", "codes"), [(_positions, {0}), (_groups, {0}), (_lengths, {13})])
def test_the_second_library_is_not_led_astray(
    change: Callable[[OrcBytes], None], codes: set[int], tmp_path: Path
) -> None:
    """Positions are not gone by, and lengths are checked before it reads."""
    table = load(TABLES / NAME / "step.json")
    root = Path(shutil.copytree(TABLES / NAME / "table", tmp_path / "t"))
    orc = OrcBytes(table.files[FILE])
    change(orc)
    (root / FILE).write_bytes(orc.build())
    before = acidctl("snapshot", str(root), *table.options, "--digest", "-o", "json")
    result = acidctl(
        "compact", "major", str(root), *table.options, "--engine", "local", "--assume-exclusive", "-o", "json"
    )
    assert result.code in codes, result.stderr
    after = acidctl("snapshot", str(root), *table.options, "--digest", "-o", "json")
    assert (before.code, before.stdout) == (after.code, after.stdout)
