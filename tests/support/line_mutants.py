"""Single-line faults made by rule, chosen by a seed, and run against the tests: which are not noticed?

    python -m tests.support.line_mutants               100 of them, of the seed 1
    python -m tests.support.line_mutants 8@42          eight, of the seed 42
    python -m tests.support.line_mutants 8@42 --list   only show which
    python -m tests.support.line_mutants 8@42 --only rows/merge.py,compaction/joining.py   of these modules
    python -m tests.support.line_mutants --line rows/merge.py:120   all of this line
    python -m tests.support.line_mutants --log FILE    says more: what was tried there already is not tried again

Each fault is put into a copy of the checkout. Which tests reach which lines is noted first, once for each state of the
code (`build/reach`). Of the tests without services those that reach the line meet the fault, quick ones of the module
first, then those that enter its function by another way. The first failure ends it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from inspect import CO_NEWLOCALS
from pathlib import Path
from queue import SimpleQueue
from types import CodeType

from tests import ROOT
from tests.support.reach import CHOSEN, NOTED, Reach, Reached

PACKAGES = ("state", "rows", "orc", "compaction", "cleaning", "maintenance")
# Of orc/ what writes; what reads is compared with other readers value for value.
ORC_WRITING = re.compile(r"writ|codec|tail_edit")
# They compare the text of the code with something, and so notice each change whatever it does.
NOT_ASKED = ("tests/unit/test_architecture.py", "tests/unit/test_docs.py", "tests/unit/compaction/test_mutants.py")
SERVICES = "hive or hive3 or metastore or hdfs or s3 or spark or orctools"
COPIED = (
    "acidctl",
    "tests",
    "fixtures",
    "docs",
    "pyproject.toml",
    "Makefile",
    "README.md",
    "CHANGELOG.md",
    "mkdocs.yml",
)
WORKERS = 2
FAST = ["-m", f"not ({SERVICES} or slow)", "tests/unit", "tests/cli"]
SLOW = ["-m", f"slow and not ({SERVICES})", "tests/unit", "tests/cli"]
# More than the whole of the slow tests takes: what does not come to an end is noticed.
SECONDS = 3600
# Seconds of tests that are run together; what is left comes last.
BATCHES = (5.0, 30.0, 120.0)
BRIEF = 1.0

COMPARED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
CALCULATED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "//", ast.BitAnd: "|"}
NAMED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}

# Faults that change nothing that anybody could see, by file, text of the line before and new text: looked at, and why.
HARMLESS: dict[tuple[str, str, str], str] = {
    (
        "compaction/stripes.py",
        "_USUAL_STRIPE = WriterSettings().stripe_size",
        "_MOST = 3**63 - 1",
    ): "no number of a key is as large",
    (
        "compaction/stripes.py",
        "return found",
        "begin = low if before is None else "
        "max(low, RowId(before.write_id, before.bucket_property, before.row_id - 1))",
    ): "a stripe next to a deleted row is written anew instead of copied, with the same rows",
    ("compaction/verify.py", "if seen.count == 0:", "pass"): "without values there is no bound and no sum to compare",
    (
        "compaction/verify.py",
        'self._compare(column, above, self._groups[0].columns.get(column), f"row group 0 of {what}")',
        "if len(tail.stripes) == 1 and tail.statistics or tail.statistics[column] is statistics[column]:",
    ): "the reader holds the statistics of the file against its values, too",
}


@dataclass(frozen=True, slots=True)
class LineMutant:
    """A fault in one line of `file` (relative to `acidctl/`), counted from 1."""

    file: str
    line: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.old.strip()}  ->  {self.new.strip()}"

    def apply(self, source: str) -> str:
        """The text of the file with it."""
        lines = source.splitlines(keepends=True)
        assert lines[self.line - 1].rstrip("\n") == self.old
        lines[self.line - 1] = self.new + "\n"
        return "".join(lines)


class _Finder(ast.NodeVisitor):
    """Walks what is executed and notes (line, first column, column behind, text in its place); columns in bytes."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int, int, str]] = []

    def _put(self, node: ast.expr | ast.stmt, text: str) -> None:
        if node.end_lineno == node.lineno and node.end_col_offset is not None:
            self.found.append((node.lineno, node.col_offset, node.end_col_offset, text))

    def _between(self, left: ast.expr, right: ast.expr, text: str) -> None:
        """Replaces the operator, with what is around it, between two operands of one line."""
        if left.end_lineno == right.lineno and left.end_col_offset is not None:
            self.found.append((right.lineno, left.end_col_offset, right.col_offset, f" {text} "))

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            self._between(left, right, COMPARED[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, "or" if isinstance(node.op, ast.And) else "and")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in CALCULATED and not isinstance(node.left, ast.Constant | ast.JoinedStr):
            self._between(node.left, node.right, CALCULATED[type(node.op)])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.found.append((node.lineno, node.col_offset, node.col_offset + len("not "), ""))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._put(node, str(not node.value))
        elif isinstance(node.value, int) and node.value < 4:
            # Larger ones are sizes and times, of which one more or less changes nothing.
            self._put(node, str(node.value + 1))

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name | ast.Attribute | ast.Call):
            self.found.append((node.test.lineno, node.test.col_offset, node.test.col_offset, "not "))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in NAMED and len(node.args) == 1:
            self._put(node.func, NAMED[node.func.id])
        if len(node.args) == 2 and all(isinstance(arg, ast.Name | ast.Attribute) for arg in node.args):
            first, second = map(ast.unparse, node.args)
            if node.args[0].lineno == node.args[1].end_lineno and node.args[1].end_col_offset is not None:
                place = node.args[0].lineno, node.args[0].col_offset, node.args[1].end_col_offset
                self.found.append((*place, f"{second}, {first}"))
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._put(node, "pass")
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._put(node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._put(node, "pass")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._put(node, "pass")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._put(node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """The guard goes; what it would say is no matter of rules."""
        self._put(node, "pass")

    def visit_Assert(self, node: ast.Assert) -> None:
        """Left as it is: it is there for the type checker."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Left as it is: the words of a message."""


def mutants_of(file: str) -> Iterator[LineMutant]:
    """All faults that the rules know for a file, in the order of its lines."""
    source = (ROOT / "acidctl" / file).read_text()
    finder = _Finder()
    finder.visit(ast.parse(source))
    lines = source.splitlines()
    for line, start, end, text in sorted(set(finder.found)):
        old = lines[line - 1]
        data = old.encode()
        between = data[start:end].decode()
        # An operator may have a closing parenthesis before it and an opening one behind it.
        left, right = re.match(r"[)\]\s]*", between), re.search(r"[(\[\s]*$", between)
        if text.startswith(" ") and left and right:
            text = left[0].rstrip() + text + right[0].lstrip()
        new = f"{data[:start].decode()}{text}{data[end:].decode()}"
        if new != old and "TYPE_CHECKING" not in old:
            yield LineMutant(file, line, old, new)


def files(package: str) -> list[str]:
    """The modules of a package that get faults."""
    names = sorted(path.name for path in (ROOT / "acidctl" / package).glob("*.py") if path.name != "__init__.py")
    return [f"{package}/{name}" for name in names if package != "orc" or ORC_WRITING.search(name)]


@cache
def _all_of(package: str) -> tuple[LineMutant, ...]:
    return tuple(one for file in files(package) for one in mutants_of(file))


def sample(count: int, seed: int, only: Sequence[str] = ()) -> list[LineMutant]:
    """The same number of each package, or of each of these files, by chance; fewer where there are no more."""
    chance = random.Random(seed)
    groups = [list(mutants_of(file)) for file in only] or [list(_all_of(package)) for package in PACKAGES]
    for found in groups:
        chance.shuffle(found)
    rounds = range(max(map(len, groups)))
    return [found[turn] for turn in rounds for found in groups if turn < len(found)][:count]


def _functions(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _functions(inner)


def entries(mutant: LineMutant) -> set[int]:
    """First lines of the functions that the line is part of; none where it is executed at import."""
    source = (ROOT / "acidctl" / mutant.file).read_text()
    codes = [
        code
        for code in _functions(compile(source, mutant.file, "exec"))
        if any(line == mutant.line for _, _, line in code.co_lines())
    ]
    # The innermost one does not run without those around it; of a class only its body is no function.
    return {code.co_firstlineno for code in codes if code.co_flags & CO_NEWLOCALS}


def order(mutant: LineMutant, reach: Reach) -> list[Reached]:
    """The tests that can notice it, those that most likely do so soon first."""
    package, name = mutant.file.removesuffix(".py").split("/")
    imports = re.compile(rf"from acidctl\.{package}(\.{name} import| import (.*\b)?{name}\b)")
    near = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.name == f"test_{name}.py" or imports.search(path.read_text())
    }
    functions = entries(mutant)
    at_line = {one.test for one in reach.of_lines(mutant.file, {mutant.line})}
    entered = (
        {one.test for one in reach.of_lines(mutant.file, functions)} if functions else {one.test for one in reach.tests}
    )
    # What a fixture of a module or a cache has made is noted of the first test that asked for it.
    beside = {test.partition("::")[0] for test in entered}
    known = [
        one
        for one in reach.tests
        if one.test in entered or (one.seconds < BRIEF and one.test.partition("::")[0] in beside)
    ]

    def cost(one: Reached) -> tuple[int, float]:
        far = 1 if one.test.partition("::")[0] in near else 4
        return 0 if one.test in at_line else 1 if one.test in entered else 2, far * one.seconds

    return sorted(known, key=cost)


def batches(tests: Sequence[Reached]) -> Iterator[list[Reached]]:
    """Tests that are run together: few seconds of them first. Those of a file stand together."""
    left = list(tests)
    for limit in (*BATCHES, None):
        batch: list[Reached] = []
        seconds = 0.0
        while left and (limit is None or not batch or seconds + left[0].seconds <= limit):
            batch.append(left.pop(0))
            seconds += batch[-1].seconds
        if batch:
            files = list(dict.fromkeys(one.test.partition("::")[0] for one in batch))
            yield sorted(batch, key=lambda one: files.index(one.test.partition("::")[0]))


def _pytest(checkout: Path, args: Iterable[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run tests of a copy of the checkout."""
    environment = {
        **environment,
        "PYTHONPATH": str(checkout),
        "PYTHONDONTWRITEBYTECODE": "",
        "ACIDCTL_EXTENT": "sample",
    }
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "tests.support.reach",
            "-r",
            "fE",
            *args,
        ],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def noticed_by(mutant: LineMutant, checkout: Path, reach: Reach) -> str | None:
    """The first test that fails with the fault in a copy of the checkout; None if none does."""
    place = checkout / "acidctl" / mutant.file
    source = place.read_text()

    def write(text: str) -> None:
        """The text and no byte code: within one second a change of the same length would not be noticed."""
        place.write_text(text)
        for kept in (place.parent / "__pycache__").glob(f"{place.stem}.*.pyc"):
            kept.unlink()

    write(mutant.apply(source))
    try:
        for batch in batches(order(mutant, reach)):
            chosen = checkout / "chosen.json"
            chosen.write_text(json.dumps({one.test: one.seconds for one in batch}))
            names = dict.fromkeys(one.test.partition("::")[0] for one in batch)
            try:
                done = _pytest(checkout, ["-x", *names], **{CHOSEN: str(chosen)})
            except subprocess.TimeoutExpired:
                return f"no end within {SECONDS} s"
            if done.returncode:
                failed = re.search(r"^(?:FAILED|ERROR) (.+)", done.stdout, re.MULTILINE)
                return failed[1] if failed else f"{done.returncode}: {(done.stdout + done.stderr)[-200:]}"
        return None
    finally:
        write(source)


def _state(checkout: Path) -> str:
    """A name for code and tests as they are."""
    digest = hashlib.sha256()
    for folder in ("acidctl", "tests"):
        for path in sorted((checkout / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(checkout)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def survey(checkouts: Sequence[Path]) -> Reach:
    """Which tests reach what, of all that need no service; they have to pass."""
    folder = ROOT / "build" / "reach" / _state(checkouts[0])
    folder.mkdir(parents=True, exist_ok=True)
    deselected = [f"--deselect={path}" for path in NOT_ASKED]

    def one(part: tuple[Path, str, list[str]]) -> Path:
        checkout, name, args = part
        target = folder / f"{name}.pickle"
        if not target.exists():
            done = _pytest(checkout, [*args, *deselected, "-o", "faulthandler_timeout=0"], **{NOTED: f"{target}.new"})
            if done.returncode:
                raise AssertionError(f"tests fail without any fault: {done.stdout[-3000:]}{done.stderr[-1000:]}")
            target.with_name(f"{target.name}.new").rename(target)
        return target

    parts = [(checkouts[0], "fast", FAST), (checkouts[-1], "slow", SLOW)]
    with ThreadPoolExecutor(WORKERS) as pool:
        return Reach.load(*pool.map(one, parts))


def copied(checkout: Path) -> Path:
    """A copy of what tests need."""
    checkout.mkdir()
    for name in COPIED:
        one = ROOT / name
        if one.is_dir():
            shutil.copytree(one, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(one, checkout / name)
    return checkout


def run(mutants: Sequence[LineMutant], known: Mapping[str, str | None], log: Path | None) -> list[LineMutant]:
    """Those that nothing notices; each is shown, and noted in `log`, as it is known."""
    with tempfile.TemporaryDirectory(prefix="line-mutants-") as scratch:
        places = [copied(Path(scratch) / str(number)) for number in range(WORKERS)]
        reach = survey(places)
        checkouts: SimpleQueue[Path] = SimpleQueue()
        for place in places:
            checkouts.put(place)

        def judge(mutant: LineMutant) -> bool:
            if str(mutant) in known:
                return known[str(mutant)] is None
            checkout, started = checkouts.get(), time.monotonic()
            try:
                by = noticed_by(mutant, checkout, reach)
            finally:
                checkouts.put(checkout)
            how = f"noticed by {by}" if by else f"SURVIVED ({harmless(mutant) or 'nothing explains it'})"
            print(f"{mutant}\n    {how}  [{time.monotonic() - started:.0f} s]", flush=True)
            if log is not None:
                with log.open("a") as stream:
                    stream.write(json.dumps([str(mutant), by]) + "\n")
            return by is None

        with ThreadPoolExecutor(WORKERS) as pool:
            return [mutant for mutant, alive in zip(mutants, pool.map(judge, mutants), strict=True) if alive]


def harmless(mutant: LineMutant) -> str:
    """Why it changes nothing, if that is known."""
    lines = (ROOT / "acidctl" / mutant.file).read_text().splitlines()
    before = lines[mutant.line - 2].strip() if mutant.line > 1 else ""
    return HARMLESS.get((mutant.file, before, mutant.new.strip()), "")


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.support.line_mutants", description=__doc__.splitlines()[0])
    parser.add_argument("size", nargs="?", default="100@1", metavar="COUNT@SEED")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="FILE,...")
    parser.add_argument("--line", metavar="FILE:LINE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--log", type=Path, metavar="FILE")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """0 where at least 95 of 100 faults are noticed, of those that change anything."""
    arguments = _arguments(words)
    count, seed = map(int, arguments.size.split("@"))
    if arguments.line:
        file, _, line = arguments.line.partition(":")
        mutants = [mutant for mutant in mutants_of(file) if mutant.line == int(line)]
    else:
        mutants = sample(count, seed, arguments.only)
    if arguments.list:
        print(*mutants, sep="\n")
        return 0
    started, log = time.monotonic(), arguments.log
    known = dict(map(json.loads, log.read_text().splitlines())) if log and log.exists() else {}
    survivors = run(mutants, known, log)
    harmful = [mutant for mutant in survivors if not harmless(mutant)]
    judged = len(mutants) - len(survivors) + len(harmful)
    print(f"{judged - len(harmful)} of {judged} noticed, {len(mutants) - judged} others change nothing")
    print(f"{time.monotonic() - started:.0f} s")
    print(*harmful, sep="\n")
    return 0 if 100 * len(harmful) <= 5 * judged else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
