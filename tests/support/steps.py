"""The recorded fixture steps: tables that real Hive has written, the lists of its reader, and the rows it returned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from restore import restore

from tests import ROOT

TABLES = ROOT / "fixtures" / "tables"


@cache
def _facts(folder: Path) -> dict[str, Any]:
    """`step.json`; directories that git cannot keep are made again."""
    restore(folder / "step.json")
    facts: dict[str, Any] = json.loads((folder / "step.json").read_text())
    return facts


@dataclass(frozen=True)
class Step:
    """One of them; `str(step)` is `engine/scenario/step`."""

    folder: Path

    def __str__(self) -> str:
        return "/".join(self.folder.parts[-3:])

    @property
    def facts(self) -> dict[str, Any]:
        """`step.json`."""
        return _facts(self.folder)

    @property
    def engine(self) -> str:
        """The Hive that wrote it: hive2, hive3 or hive4."""
        return self.folder.parts[-3]

    @property
    def scenario(self) -> str:
        """Engine and name of the table that the steps of one scenario change one after another."""
        return "/".join(self.folder.parts[-3:-1])

    @property
    def transactional(self) -> bool:
        """Whether the table is full ACID or insert-only."""
        return bool(self.facts["kind"] != "non_acid")

    @property
    def table(self) -> Path:
        """The table directory; not to be changed."""
        return self.folder / "table"

    @property
    def lists(self) -> tuple[str, ...]:
        """The reader's lists."""
        return tuple(text for text in (self.facts["valid_write_ids"], self.facts["valid_txns"]) if text)

    @property
    def list_format(self) -> str | None:
        """Hive 2's lists say their form only when asked."""
        return "hive2" if self.engine == "hive2" else None

    @property
    def options(self) -> list[str]:
        """The lists as options of a command, and whose they are: copies have names of their own."""
        options = [word for text in self.lists for word in ("--validtxns", text)]
        options += ["--table", self.facts["table"]] if self.facts["valid_write_ids"] else []
        return [*options, "--list-format", "hive2"] if self.list_format else options

    @property
    def view(self) -> dict[str, Any]:
        """Lists and columns as arguments of the library."""
        form = {"list_format": self.list_format} if self.list_format else {}
        return {"validtxns": self.lists, "schema": self.facts["ddl"], **form}

    @property
    def hive_rows(self) -> list[dict[str, Any]]:
        """What Hive returned."""
        return [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().split("\n") if line]


def sorted_rows(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows as texts in an order that depends on nothing else, so that two readings can be compared."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


STEPS = [Step(path.parent) for path in sorted(TABLES.glob("*/*/*/step.json"))]
