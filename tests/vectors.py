"""The test vectors under fixtures/states, one dictionary per case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STATES = Path(__file__).resolve().parent.parent / "fixtures" / "states"


def load(name: str) -> list[dict[str, Any]]:
    """All cases of `cases-<name>.jsonl`, in file order."""
    lines = (STATES / f"cases-{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]
