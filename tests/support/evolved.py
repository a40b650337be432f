"""Fixture steps whose DDL costs values of older files: what a compaction of them has to be given."""

from __future__ import annotations

from pathlib import Path

# By the Hive that has to read the result: Hive 3 goes by name, and loses what a renamed column held.
_LOST = {
    ("hive2/v1_evolved/04-renamed", "hive3"): "v",
    ("hive2/v1_evolved/05-renamed-changed", "hive3"): "v",
    ("hive3/renamed_column/02-inserted", "hive3"): "v",
    ("hive4/evolution_converted/02-mixed", "hive3"): "s",
    ("hive4/evolution_converted/02-mixed", "hive4"): "s",
    ("hive4/renamed_column/02-mixed", "hive3"): "v",
    ("hive4/renamed_column/03-taken-over", "hive3"): "w",
}


def dropped_columns(step: Path, target: str) -> tuple[str, ...]:
    """The options that agree to it, for the folder of a step."""
    names = _LOST.get(("/".join(step.parts[-3:]), target))
    return () if names is None else ("--drop-columns", names)
