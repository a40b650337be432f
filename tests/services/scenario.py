"""A fixture scenario: one `.sql` file of statements and comment directives, parsed into actions.

Directives are comment lines `-- word: text`; a line `--   more` (three blanks) continues the one before it.
`fixtures/README.md` explains each to the person who writes a scenario.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

# Directives that describe the file as a whole.
HEADERS = ("title", "shows", "first-txn")
# Directives that are carried out in their place, among the statements.
ACTIONS = (
    *("table", "session", "set", "compactor-set", "compact", "clean", "ingest", "python"),
    *("reader", "refused", "fault", "row", "instead", "step"),
)

_DIRECTIVE = re.compile(r"--\s?([a-z-]+):\s?(.*)", re.DOTALL)


class ScenarioError(Exception):
    """A scenario file that says something its reader does not know."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do: `word` is "sql" or a directive; `line` is where the file says it."""

    word: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Scenario:
    """What one file says; `first_txn` is where its transaction ids start, whatever ran before it."""

    name: str
    path: Path
    title: str
    shows: str
    first_txn: int
    actions: tuple[Action, ...]

    def steps(self) -> tuple[tuple[str, str], ...]:
        """Folder name and note of each recorded step, in order: `("01-inserted", "two buckets")`."""
        found: list[tuple[str, str]] = []
        for action in self.actions:
            if action.word == "step":
                name, _, note = action.text.partition(":")
                found.append((f"{len(found) + 1:02d}-{name.strip()}", note.strip()))
        return tuple(found)


def parse_scenario(path: Path) -> Scenario:
    """Reads a scenario file; raises ScenarioError for an unknown directive or a statement without its end."""
    headers: dict[str, str] = {}
    actions: list[Action] = []
    statement: list[str] = []
    started = 0
    for number, text in _joined_lines(path):
        if match := _DIRECTIVE.fullmatch(text):
            word, rest = match[1], match[2].strip()
            if statement:
                raise ScenarioError(f"{path}:{number}: the statement before has no semicolon at its line's end")
            if word in HEADERS:
                headers[word] = rest
            elif word in ACTIONS:
                actions.append(Action(word, rest, number))
            else:
                raise ScenarioError(f"{path}:{number}: unknown directive {word!r}")
        elif text.strip() and not text.startswith("--"):
            started = started if statement else number
            statement.append(text)
            if text.rstrip().endswith(";"):
                actions.append(Action("sql", "\n".join(statement).rstrip().removesuffix(";"), started))
                statement = []
    if statement:
        raise ScenarioError(f"{path}: the last statement has no semicolon at its line's end")
    return Scenario(
        path.stem,
        path,
        headers["title"],
        headers["shows"],
        int(headers.get("first-txn", 0)) or 1000 + 100 * (zlib.crc32(path.stem.encode()) % 9000),
        tuple(actions),
    )


def _joined_lines(path: Path) -> list[tuple[int, str]]:
    joined: list[tuple[int, str]] = []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if text.startswith("--   ") and joined:
            joined[-1] = (joined[-1][0], joined[-1][1] + " " + text[5:].strip())
        else:
            joined.append((number, text))
    return joined


def scenarios(folder: Path) -> tuple[Scenario, ...]:
    """All scenarios of one engine's folder, in the order of their transaction ids."""
    found = sorted(map(parse_scenario, sorted(folder.glob("*.sql"))), key=lambda scenario: scenario.first_txn)
    for before, after in pairwise(found):
        if before.first_txn == after.first_txn:
            raise ScenarioError(f"{after.path}: has the first-txn of {before.name}; give it another")
    return tuple(found)
