"""Single-line faults made by rule, chosen by a seed, and run against the tests: which are not noticed?

    python -m tests.support.line_mutants               100 of them, of the seed 1
    python -m tests.support.line_mutants 8@42          eight, of the seed 42
    python -m tests.support.line_mutants 8@42 --list   only show which

Each fault is put into a copy of the checkout. The tests that import the module come first, then those of its package,
then all fast ones; what has survived those meets the slow ones too, but no service. The first failure ends it.
"""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from tests import ROOT

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
# More than the whole of the slow tests takes: what does not come to an end is noticed.
SECONDS, SECONDS_OF_A_TEST = 3600, 600

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

# Faults that change nothing that anybody could see, by file and new text of the line: looked at, and why.
HARMLESS: dict[tuple[str, str], str] = {}


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


def without_fault() -> LineMutant:
    """What changes nothing: the tests have to pass with it, or all that is noticed proves nothing."""
    file = files("state")[0]
    line = (ROOT / "acidctl" / file).read_text().splitlines()[0]
    return LineMutant(file, 1, line, line)


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


def sample(count: int, seed: int) -> list[LineMutant]:
    """The same number of each package, by chance."""
    chance = random.Random(seed)
    by_package = {package: list(_all_of(package)) for package in PACKAGES}
    for found in by_package.values():
        chance.shuffle(found)
    return [by_package[PACKAGES[number % len(PACKAGES)]][number // len(PACKAGES)] for number in range(count)]


def stages(mutant: LineMutant) -> Iterator[tuple[str, list[str]]]:
    """Name and arguments of pytest, those that most likely notice it first."""
    package, name = mutant.file.removesuffix(".py").split("/")
    imports = re.compile(rf"from acidctl\.{package}(\.{name} import| import (.*\b)?{name}\b)")
    near = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py"))
        if imports.search(path.read_text()) and str(path.relative_to(ROOT)) not in NOT_ASKED
    ]
    fast, slow = f"not ({SERVICES} or slow)", f"slow and not ({SERVICES})"
    own = [f"tests/unit/{package}"]
    for what, marks in (("fast", fast), ("slow", slow)):
        if near:
            yield f"{what} tests of the module", [*near, "-m", marks]
        yield f"{what} tests of the package", [*own, "-m", marks]
        yield f"{what} tests", ["tests/unit", "tests/cli", "-m", marks, *(f"--ignore={folder}" for folder in own)]


def noticed_by(mutant: LineMutant, checkout: Path) -> str | None:
    """The stage that fails with the fault in a copy of the checkout, and what it says; None if none does."""
    place = checkout / "acidctl" / mutant.file
    source = place.read_text()

    def write(text: str) -> None:
        """The text and no byte code: within one second a change of the same length would not be noticed."""
        place.write_text(text)
        for kept in (place.parent / "__pycache__").glob(f"{place.stem}.*.pyc"):
            kept.unlink()

    write(mutant.apply(source))
    try:
        for name, args in stages(mutant):
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-r", "fE", *args]
            command += [f"--timeout={SECONDS_OF_A_TEST}", *(f"--deselect={path}" for path in NOT_ASKED)]
            try:
                done = subprocess.run(
                    command,
                    cwd=checkout,
                    env={
                        **os.environ,
                        "PYTHONPATH": str(checkout),
                        "PYTHONDONTWRITEBYTECODE": "",
                        "ACIDCTL_EXTENT": "check",
                    },
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return f"{name}: no end within {SECONDS} s"
            # 5: there was none.
            if done.returncode not in (0, 5):
                failed = re.search(r"^(?:FAILED|ERROR) (.+)", done.stdout, re.MULTILINE)
                return f"{name}: {failed[1] if failed else done.stdout[-200:] + done.stderr[-200:]}"
        return None
    finally:
        write(source)


def run(mutants: Sequence[LineMutant]) -> list[LineMutant]:
    """Those that nothing notices; each is shown as it is known."""
    with tempfile.TemporaryDirectory(prefix="line-mutants-") as scratch:
        checkouts: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            checkout = Path(scratch) / str(number)
            checkout.mkdir()
            for name in COPIED:
                one = ROOT / name
                ignored = shutil.ignore_patterns("__pycache__")
                if one.is_dir():
                    shutil.copytree(one, checkout / name, ignore=ignored)
                else:
                    shutil.copy2(one, checkout / name)
            checkouts.put(checkout)

        def judge(mutant: LineMutant) -> bool:
            checkout, started = checkouts.get(), time.monotonic()
            try:
                by = noticed_by(mutant, checkout)
            finally:
                checkouts.put(checkout)
            how = f"noticed by {by}" if by else f"SURVIVED ({harmless(mutant) or 'nothing explains it'})"
            print(f"{mutant}\n    {how}  [{time.monotonic() - started:.0f} s]", flush=True)
            return by is None

        with ThreadPoolExecutor(WORKERS) as pool:
            sound, *survived = pool.map(judge, [without_fault(), *mutants])
        assert sound, "there are tests that fail without any fault"
    return [mutant for mutant, alive in zip(mutants, survived, strict=True) if alive]


def harmless(mutant: LineMutant) -> str:
    """Why it changes nothing, if that is known."""
    return HARMLESS.get((mutant.file, mutant.new.strip()), "")


def main(arguments: Sequence[str]) -> int:
    """0 where at least 95 of 100 faults are noticed, of those that change anything."""
    size = next((word for word in arguments if "@" in word), "100@1")
    count, seed = map(int, size.split("@"))
    mutants = sample(count, seed)
    if "--list" in arguments:
        print(*mutants, sep="\n")
        return 0
    started = time.monotonic()
    survivors = run(mutants)
    harmful = [mutant for mutant in survivors if not harmless(mutant)]
    judged = count - len(survivors) + len(harmful)
    print(f"{judged - len(harmful)} of {judged} noticed, {count - judged} others change nothing")
    print(f"{time.monotonic() - started:.0f} s")
    print(*harmful, sep="\n")
    return 0 if 100 * len(harmful) <= 5 * judged else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
