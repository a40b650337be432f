"""Where a fuzz case runs: a table of the fixtures in a folder of its own, and commands whose answers are judged.

Every command has to end with a documented exit code, without a traceback, with an empty stdout where it fails in a
machine form, and with its error in that form. Whether rows are the right ones, the cases decide.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.cli.runner import Result, acidctl

TABLES = ROOT / "fixtures" / "tables"
CODES = {0, 2, 3, 10, 11, 12, 13, 14, 15}
ANSWERED = (0, 3)
# Their answers tell of failures too; streams of rows may break off, and say so on stderr.
REPORTS = ("ls", "compact", "clean")
FULL_KINDS = ("full", "insert_only")


class Finding(Exception):
    """What must not be."""


@dataclass(frozen=True)
class Table:
    """A step of the fixtures, held in memory; a list is of a table, after which the directory has to be called."""

    name: str
    files: dict[str, bytes]
    empty: tuple[str, ...]
    lists: tuple[str, ...]
    ddl: str
    kind: str
    engine: str
    columns: str
    title: str = "t"
    owner: str = ""

    @cached_property
    def data_files(self) -> tuple[str, ...]:
        """Paths of the ORC files with rows."""
        return tuple(path for path, data in self.files.items() if data[:3] == b"ORC" and len(data) > 3)

    @property
    def options(self) -> tuple[str, ...]:
        """The lists as options, and whose they are: copies have names of their own."""
        given = tuple(option for text in self.lists for option in ("--validtxns", text))
        given += ("--table", self.owner) if self.owner else ()
        # Files without row ids in deltas may be LOAD DATA's or an insert-only table's.
        kind = ("--table-type", self.kind.replace("_", "-")) if "load_data" in self.name else ()
        return (*given, *kind, "--list-format", "hive2") if self.engine == "hive2" else (*given, *kind)


def load(step: Path) -> Table:
    """A step.json and what lies beside it."""
    facts = json.loads(step.read_text())
    root = step.parent / "table"
    files = {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
    lists = tuple(facts[key] for key in ("valid_write_ids", "valid_txns") if facts[key])
    name = str(step.parent.relative_to(TABLES))
    empty = tuple(facts["empty_directories"])
    owner = facts["table"] if facts["valid_write_ids"] else ""
    title = facts["table"].rpartition(".")[2]
    return Table(
        name, files, empty, lists, facts["ddl"], facts["kind"], facts["engine"], facts["columns"], title, owner
    )


def corpus(*, files: int = 24, size: int = 60_000) -> list[Table]:
    """Tables that Hive wrote, small enough to be read in milliseconds."""
    found = []
    for step in sorted(TABLES.glob("*/*/*/step.json")):
        table = load(step)
        small = len(table.files) <= files and sum(map(len, table.files.values())) <= size
        if small and table.kind in FULL_KINDS and table.data_files:
            found.append(table)
    return found


def plant(root: Path, table: Table) -> Path:
    """The table's directory, as Hive left it."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for name in table.empty:
        (root / name).mkdir(parents=True, exist_ok=True)
    for path, data in table.files.items():
        place = root / path
        if not place.parent.is_dir():
            place.parent.mkdir(parents=True)
        place.write_bytes(data)
    return root


@dataclass
class Bench:
    """One case's folder; `log` holds its commands, `seen` counts their exit codes."""

    folder: Path
    log: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    baselines: dict[tuple[str, bool], list[str]] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget the case before."""
        self.log = []
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    def say(self, text: str) -> None:
        """A line for whoever has to reproduce the case."""
        self.log.append(text)

    def count(self, what: str) -> None:
        """One more of these."""
        self.seen[what] = self.seen.get(what, 0) + 1

    def run(self, *args: str) -> Result:
        """Run a command line, and hold it to what holds for every command."""
        self.log.append("acidctl " + " ".join(_quoted(arg) for arg in args))
        result = acidctl(*args)
        self.count(f"{args[0]} {result.code}")
        form = args[args.index("-o") + 1] if "-o" in args else "text"
        if result.code not in CODES:
            raise Finding(f"exit code {result.code}: {_end(result.stderr)}")
        if "Traceback" in result.stderr or re.search(r"unexpected [A-Z]\w+", result.stderr):
            raise Finding(f"an internal error: {_end(result.stderr)}")
        if result.code not in ANSWERED:
            self._check_answer(args[0], result, form)
            self._check_error(args[0], result, form)
        return result

    def _check_answer(self, command: str, result: Result, form: str) -> None:
        """A failure has no answer, or a whole report that tells of it."""
        if form != "json" or not result.stdout or command == "dump":
            return
        try:
            report = json.loads(result.stdout)
        except ValueError as problem:
            raise Finding(f"exit code {result.code} with a torn answer: {result.stdout[-300:]!r}") from problem
        if command not in REPORTS:
            raise Finding(f"exit code {result.code} with an answer: {str(report)[:300]}")

    def _check_error(self, command: str, result: Result, form: str) -> None:
        lines = result.stderr.splitlines()
        if form in ("json", "jsonl", "csv"):
            if result.stdout and command in REPORTS:
                return
            try:
                error = json.loads(lines[-1])["error"]
            except (ValueError, KeyError, IndexError, TypeError) as problem:
                raise Finding(f"no JSON error at the end of stderr: {_end(result.stderr)}") from problem
            if set(error) != {"code", "message", "path", "hint"} or not error["message"]:
                raise Finding(f"an error without its fields: {error}")
        elif not any(line.startswith("error: ") for line in lines):
            raise Finding(f"exit code {result.code} without an error: {_end(result.stderr)}")

    def rows(self, root: Path, *options: str) -> tuple[Result, list[str]]:
        """All rows with their row ids, in an order of their own."""
        result = self.run("snapshot", str(root), "-o", "jsonl", "--row-id", *options)
        return result, sorted(result.stdout.split("\n"))

    def baseline(self, table: Table, *, schema: bool) -> list[str]:
        """The rows of the unchanged table."""
        key = (table.name, schema)
        if key not in self.baselines:
            root = plant(self.folder.parent / "baseline" / table.title, table)
            result, rows = self.rows(root, *table.options, *(("--schema", table.ddl) if schema else ()))
            if result.code != 0:
                raise Finding(f"{table.name} itself cannot be read: {_end(result.stderr)}")
            self.baselines[key] = rows
            self.log.clear()
        return self.baselines[key]


def warned(result: Result) -> bool:
    """Whether whoever reads the answer knows that something is not as it should be."""
    return result.code != 0 or "warning: " in result.stderr or '"warning"' in result.stderr


def row_ids(lines: list[str]) -> list[str]:
    """The row ids of rows as JSON lines."""
    return sorted(json.dumps(json.loads(line).get("ROW__ID"), sort_keys=True) for line in lines if line)


def difference(before: list[str], after: list[str]) -> str:
    """For a message: the first rows that are only on one side."""
    lost, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    return f"{len(before)} rows, now {len(after)}; lost {lost[:2]}, new {new[:2]}"[:900]


def tree(root: Path) -> dict[str, Any]:
    """Everything below a folder: bytes of files, targets of links, None for directories."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            found[name] = None
        elif path.is_file():
            found[name] = path.read_bytes()
        else:
            found[name] = "special"
    return found


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'" if not text.isalnum() else text


def _end(text: str) -> str:
    return text[-600:]
