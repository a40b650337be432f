"""The generated parts of the documents: `make docs` writes them, `make lint` and the tests check them.

Generated are the blocks between `<!-- begin: NAME -->` and `<!-- end: NAME -->` in the pages that `PAGES` names.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import TopologicalSorter

import click

import acidctl
from acidctl.cli.fields import ALL
from acidctl.cli.main import COMMANDS, cli
from acidctl.cli.options import EXIT_MEANINGS
from acidctl.errors import AcidctlError
from tests import ROOT
from tests.unit.test_architecture import MODULES, ROWS, package_imports

DOCS = ROOT / "docs"
README = ROOT / "README.md"
WIDTH = 100

# What Python users meet: `acidctl.__all__` without errors, then what its functions take and return.
VALUES = (
    ("acidctl.options", "ReadView"),
    ("acidctl.compaction.request", "CompactionRequest"),
    ("acidctl.cleaning.run", "CleanRequest"),
    ("acidctl.rows.snapshot", "Snapshot"),
    ("acidctl.state.report", "LsEntry"),
    ("acidctl.compaction.report", "PartitionReport"),
    ("acidctl.cleaning.run", "CleanRun"),
    ("acidctl.cleaning.report", "CleanReport"),
)


def commands() -> str:
    """Every command's help, as the terminal shows it."""
    return "\n".join(f"## acidctl {name}\n\n```text\n{text}\n```\n" for name, text in _helps())


def _helps() -> Iterator[tuple[str, str]]:
    group = click.Context(cli, info_name="acidctl", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    for name in COMMANDS:
        command = cli.get_command(group, name)
        assert command is not None
        yield name, command.get_help(click.Context(command, info_name=name, parent=group)).rstrip()


def exit_codes() -> str:
    """What each exit code means."""
    return _table(("Code", "Means"), ((str(int(code)), meaning) for code, meaning in EXIT_MEANINGS.items()))


def exit_codes_of_commands() -> str:
    """Which command returns which, as its help says."""
    rows = []
    for name, text in _helps():
        listed = text.partition("Exit codes:")[2].partition("Examples:")[0]
        rows.append((f"`{name}`", ", ".join(re.findall(r"^ +(\d+)  ", listed, re.MULTILINE))))
    return _table(("Command", "Codes"), rows)


def error_codes() -> str:
    """Every stable word for an error, with the exit code and the class."""
    for name in MODULES:
        if re.search(r"^    code = \"", MODULES[name].read_text(), re.MULTILINE):
            importlib.import_module(f"acidctl.{name}")

    def family(base: type[AcidctlError]) -> list[type[AcidctlError]]:
        return [base, *(found for child in base.__subclasses__() for found in family(child))]

    own = [error for error in family(AcidctlError) if "code" in vars(error) and error.__module__.startswith("acidctl.")]
    rows = (
        (f"`{error.code}`", str(int(error.exit_code)), f"`{error.__name__.lstrip('_')}`", _first_sentence(error))
        for error in sorted(own, key=lambda error: (error.exit_code, error.code))
    )
    return _table(("Word", "Exit code", "Class", "Means"), rows)


def fields() -> str:
    """The JSON fields of every object."""
    parts = []
    for item in ALL:
        rows = ((f"`{name}`", kind, meaning) for name, kind, meaning in item.fields)
        where = f"{item.where[:1].upper()}{item.where[1:]}."
        parts.append(f"## {item.title}\n\n{where}\n\n{_table(('Field', 'Type', 'Meaning'), rows)}")
    return "\n".join(parts)


def python() -> str:
    """Signatures and docstrings of the public names."""
    names = [name for name in acidctl.__all__ if not name.startswith("__") and name not in ("AcidctlError", "ExitCode")]
    public = [getattr(acidctl, name) for name in sorted(names, key=lambda name: (name[:1].isupper(), name))]
    return "\n".join(_described(each) for each in (*public, *(_value(*place) for place in VALUES)))


def _value(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def _described(thing: object) -> str:
    """A function, or a class with its fields and public methods."""
    assert inspect.isclass(thing) or inspect.isfunction(thing)
    (node,) = ast.parse(inspect.getsource(thing)).body
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    if isinstance(node, ast.FunctionDef):
        return f"## acidctl.{node.name}\n\n{_signature(node)}\n{_doc(node)}\n"
    where = node.name if node.name in acidctl.__all__ else f"{thing.__module__}.{node.name}"
    title = f"acidctl.{where}" if where == node.name else where
    parts = [f"## {title}\n\n{_doc(node)}\n"]
    values = [_code(item) for item in node.body if isinstance(item, ast.AnnAssign)]
    if values:
        parts.append("```python\n" + "\n".join(values) + "\n```\n")
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            parts.append(f"### {node.name}.{item.name}\n\n{_signature(item)}\n{_doc(item)}\n")
    return "\n".join(parts)


def _signature(node: ast.FunctionDef) -> str:
    """The head of a function, an argument a line where it is long."""
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    if any(mark.endswith("property") for mark in marks):
        return f"```python\n{node.name}: {returns.removeprefix(' -> ')}\n```\n"
    # Arguments are parted by ", " outside of brackets.
    text = re.sub(r"^(self|cls)(, )?", "", _code(node.args))
    if len(text) > WIDTH - len(node.name) - len(returns):
        text = "\n    " + re.sub(r", (?![^\[(]*[\])])", ",\n    ", text) + ",\n"
    return f"```python\n{node.name}({text}){returns}\n```\n"


def _code(node: ast.AST) -> str:
    """Source text with quotes as the rest of the code has them."""
    return ast.unparse(node).replace("'", '"')


def _doc(node: ast.ClassDef | ast.FunctionDef) -> str:
    return ast.get_docstring(node) or ""


def _first_sentence(thing: type) -> str:
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def packages() -> str:
    """The packages and who imports whom, from the imports that there are, in the order that `ROWS` allows."""
    shared = {"errors", "options", "__init__", "__main__"}
    imports = {package: targets - shared for package, targets in package_imports().items() if package not in shared}
    reach: dict[str, set[str]] = {}
    for package in TopologicalSorter(imports).static_order():
        reach[package] = set(imports[package]).union(*(reach[target] for target in imports[package]))
    lines = ["```mermaid", "flowchart LR"]
    for row in ROWS:
        for package in row:
            if package not in shared:
                direct = {
                    target
                    for target in imports[package]
                    if not any(target in reach[other] for other in imports[package])
                }
                lines += [f"    {target} --> {package}" for target in sorted(direct)]
    return "\n".join([*lines, "```"]) + "\n"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "architecture.md": {"packages": packages},
    "reference/commands.md": {"commands": commands},
    "reference/exit-codes.md": {
        "exit codes": exit_codes,
        "exit codes of commands": exit_codes_of_commands,
        "error codes": error_codes,
    },
    "reference/fields.md": {"fields": fields},
    "reference/python.md": {"python": python},
}


def filled(page: str) -> str:
    """A page with its generated blocks filled in."""
    text = (DOCS / page).read_text()
    for name, make in PAGES[page].items():
        match = re.search(rf"(?<=<!-- begin: {name} -->\n).*?(?=<!-- end: {name} -->)", text, re.DOTALL)
        if match is None:
            raise ValueError(f"docs/{page} has no block called {name!r}")
        text = f"{text[: match.start()]}\n{make().rstrip()}\n\n{text[match.end() :]}"
    return text


def stale() -> list[str]:
    """Names of the pages that `make docs` would change."""
    return [page for page in PAGES if filled(page) != (DOCS / page).read_text()]


def main(action: str) -> int:
    """`--check` or `--write`."""
    if action == "--write":
        for page in PAGES:
            (DOCS / page).write_text(filled(page))
        return 0
    names = stale()
    for name in names:
        print(f"docs/{name} is stale: run `make docs`", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
