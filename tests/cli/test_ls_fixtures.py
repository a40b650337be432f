"""`acidctl ls` on every table that real Hive has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from restore import restore

from acidctl.errors import ExitCode
from tests import ROOT
from tests.cli.runner import acidctl

TABLES = ROOT / "fixtures" / "tables"
STEPS = sorted(path.parent for path in TABLES.glob("*/*/*/step.json"))


def _lists(facts: dict[str, Any]) -> list[str]:
    args: list[str] = []
    for name in ("valid_write_ids", "valid_txns"):
        args += ["--validtxns", facts[name]] if facts.get(name) else []
    if facts["engine"] == "hive2":
        args += ["--list-format", "hive2"]
    return args


@pytest.mark.parametrize("step", STEPS, ids=lambda path: "/".join(path.parts[-3:]))
@pytest.mark.slow
def test_every_entry_has_a_state_and_a_reason(step: Path) -> None:
    """Each child of each location once; what `ls` calls live is what `snapshot` reads; the text shows it all."""
    facts = json.loads((step / "step.json").read_text())
    restore(step / "step.json")
    args = [str(step / "table"), *_lists(facts)]
    result = acidctl("ls", *args, "-o", "json")
    assert result.code in (ExitCode.DONE, ExitCode.FINDINGS), result.stderr
    answer = result.json()
    keys = [(entry["partition"], entry["name"]) for entry in answer["entries"]]
    assert len(keys) == len(set(keys))
    assert all(entry["state"] and entry["reason"] and entry["reason_code"] for entry in answer["entries"])
    names = set(keys)
    for entry in answer["entries"]:
        assert all((entry["partition"], cause) in names for cause in entry["because_of"]), entry
    counted = sum(entry["files"] for entry in answer["entries"])
    assert counted == sum(1 for path in (step / "table").rglob("*") if path.is_file())
    assert answer["summary"]["bytes_live"] == sum(
        entry["bytes"] for entry in answer["entries"] if entry["state"] == "live"
    )
    plan = acidctl("snapshot", *args, "--files", "-o", "json")
    assert plan.code == 0, plan.stderr
    read = {
        (part["partition"], name)
        for part in plan.json()["partitions"]
        for name in (*([part["base"]] if part["base"] else []), *part["deltas"], *part["delete_deltas"])
    }
    assert read == {
        (entry["partition"], entry["name"])
        for entry in answer["entries"]
        if entry["state"] == "live" and entry["kind"] != "original"
    }
    text = acidctl("ls", *args, width=80)
    assert text.code == result.code
    assert all(name in text.stdout for _, name in keys)
