"""The generated parts of the documents: `make docs` writes them, `make lint` and the tests check them.

Generated are the blocks between `<!-- begin: NAME -->` and `<!-- end: NAME -->` in the pages that `PAGES` names.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from graphlib import TopologicalSorter
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import click

import acidctl
from acidctl.cleaning.report import CleanedEntry, CleanedLocation, CleanReport, GuardReport
from acidctl.cli.activity import CompactionsReport, ListsReport, LocksReport, TxnsReport
from acidctl.cli.compact import PartitionLine, RunLine
from acidctl.cli.decode_bucket import DecodedFields
from acidctl.cli.main import COMMANDS, cli
from acidctl.cli.options import EXIT_MEANINGS
from acidctl.cli.snapshot import Count, Numbers
from acidctl.compaction.plan import CompactionPlan, PartitionPlan
from acidctl.compaction.report import CompactionReport, PartitionReport, Totals, Verified
from acidctl.errors import AcidctlError
from acidctl.exporting.run import ExportReport
from acidctl.findings import CATALOGUE, Finding, Level
from acidctl.metastore.activity import Compaction, Lock, Transaction
from acidctl.options import ReadView
from acidctl.rows.file_report import (
    AcidFacts,
    AcidReport,
    BucketCount,
    Event,
    FileReport,
    KeyIndex,
    Range,
    SideFileReport,
    StripeKeys,
)
from acidctl.rows.outline import Excluded, PlannedPartition, SnapshotPlan
from acidctl.state.report import (
    ASSUMED,
    Damage,
    Disagreement,
    Gap,
    LsEntry,
    LsFile,
    LsPartition,
    LsReport,
    LsSummary,
    LsTable,
    Problem,
)
from acidctl.worker.service import WorkerEvent
from tests import ROOT
from tests.bench import results
from tests.unit.test_architecture import MODULES, ROWS, package_imports

DOCS = ROOT / "docs"
README = ROOT / "README.md"
WIDTH = 100


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


def findings() -> str:
    """What may be wrong with a table: every code of the catalogue."""
    levels = {Level.NAMES: "names", Level.FOOTERS: "ends of files", Level.KEYS: "keys", Level.VALUES: "values"}
    rows = ((f"`{kind.code}`", levels[kind.level], kind.title, kind.remedy) for kind in CATALOGUE.values())
    return _table(("Code", "Level", "Means", "What to do"), rows)


@dataclass(frozen=True)
class Section:
    """One kind of object of the page of fields; a `document` names its own type."""

    title: str
    where: str
    types: tuple[type, ...] = ()
    document: bool = False


SECTIONS = (
    Section("`ls -o json`", "type `ls`", (LsReport,), True),
    Section("Summary", "`summary` of `ls` and of each of its partitions", (LsSummary,)),
    Section(
        "Entry",
        "`entries` of `ls -o json`; a line of `ls -o jsonl` (`ls_entry`); a row of `ls -o csv`",
        (LsEntry,),
    ),
    Section("File", "`file_list` of an entry", (LsFile,)),
    Section("Partition", "`partitions` of `ls --by-partition -o json`; a line of `-o jsonl`", (LsPartition,)),
    Section(
        "Table",
        "`tables` of `ls --by-table -o json`, type `ls_tables`; a line of `-o jsonl` (`ls_table`)",
        (LsTable,),
    ),
    Section("Disagreement", "`disagreements` of `ls`", (Disagreement,)),
    Section("Gap", "`gaps` of `ls`", (Gap,)),
    Section("Damaged file", "`damaged` of `ls`", (Damage,)),
    Section(
        "Finding",
        "`findings` of `ls`, `snapshot --files`, `--count` and `--digest`; of a partition of a plan, less `remedy`",
        (Finding,),
    ),
    Section("`snapshot --files -o json`", "type `snapshot`", (SnapshotPlan,), True),
    Section("Partition of a snapshot", "`partitions` of `snapshot --files`; a line of `-o jsonl`", (PlannedPartition,)),
    Section("Excluded directory", "`excluded` of a partition of a snapshot", (Excluded,)),
    Section("`snapshot --count`, `--digest`", "type `snapshot`", (Numbers,), True),
    Section("Export report", "`snapshot --to -o json`, type `export_report`", (ExportReport,), True),
    Section("Count of a partition", "`partitions` of `snapshot --count --by-partition`", (Count,)),
    Section(
        "A row",
        "a line of `snapshot -o jsonl`, an element of `-o json`, a row of `-o csv`: the table's columns, then its "
        "partition columns, as Values has it; with `--row-id` the field `ROW__ID` comes first, of `writeid`, "
        "`bucketid` and `rowid`, null in insert-only tables",
    ),
    Section(
        "`dump`",
        "a file's report: `dump -o json` (a list when there are several files), a line of `dump -o jsonl`. Beside the "
        "fields below it has those of `orc-tools meta -j` under the same names, in the encoding of this page: null for "
        "what the writer did not note, dates and timestamps as elsewhere, NaN as a string",
        (FileReport,),
        True,
    ),
    Section(
        "ACID layer",
        "`acid` of `dump`; the fields from `version` on are there when `is_acid` is true, `damage` also where it "
        "should be",
        (AcidReport, AcidFacts),
    ),
    Section("Side file", "`side_file` of the ACID layer", (SideFileReport,)),
    Section("Range", "`write_ids` and `current_write_ids` of the ACID layer", (Range,)),
    Section("Bucket", "`buckets` of the ACID layer", (BucketCount,)),
    Section("Key index", "`key_index` of the ACID layer", (KeyIndex,)),
    Section("Stripe", "`stripes` of the ACID layer", (StripeKeys,)),
    Section("Event", "a line of `dump --events`", (Event,)),
    Section(
        "`decode-bucket`", "a line of `-o jsonl`; with `-o json` they are the list `values`", (DecodedFields,), True
    ),
    Section("`compact -o json`", "type `compaction_report`", (CompactionReport,), True),
    Section("Summary of a compaction", "`summary` of `compact`", (Totals,)),
    Section(
        "Compacted partition",
        "`partitions` of `compact`; a line of `-o jsonl`; a row of `-o csv`; figures are null where nothing was read",
        (PartitionReport,),
    ),
    Section("Verification", "`verified` of a compacted partition", (Verified,)),
    Section(
        "Run log, a partition", "a line that `compact --run-log` appends, type `compaction_log`", (PartitionLine,), True
    ),
    Section("Run log, the run", "the last line of each run, type `compaction_run_log`", (RunLine,), True),
    Section("Log of a worker", "a line of `worker -o jsonl`, type `worker_log`", (WorkerEvent,), True),
    Section(
        "Plan of a compaction",
        "`compact -n -o json`, type `compaction_plan`; what `--plan` takes. `hash` is over everything else: "
        "`--plan` refuses one that was changed. Fields that are not named here are for acidctl itself",
        (CompactionPlan,),
        True,
    ),
    Section("Planned partition", "`partitions` of a plan; a line of `compact -n -o jsonl`", (PartitionPlan,)),
    Section("`clean -o json`", "type `clean_report`", (CleanReport,), True),
    Section("Guard", "`guards` of `clean`", (GuardReport,)),
    Section("Cleaned partition", "`partitions` of `clean`", (CleanedLocation,)),
    Section(
        "Cleaned entry",
        "`victims` and `kept` of `clean`; a line of `-o jsonl` (`clean_entry`) and a row of `-o csv`, which add "
        "`outcome`: would_go, deleted, quarantined, restored, kept",
        (CleanedEntry,),
    ),
    Section("`lists`", "type `lists`; its only line, its only row", (ListsReport,), True),
    Section("`txns -o json`", "type `txns`", (TxnsReport,), True),
    Section(
        "Transaction", "`transactions` of `txns`; a line of `-o jsonl` (`txn`); a row of `-o csv`", (Transaction,), True
    ),
    Section("`locks -o json`", "type `locks`", (LocksReport,), True),
    Section("Lock", "`locks` of `locks`; a line of `-o jsonl` (`lock`); a row of `-o csv`", (Lock,), True),
    Section("`compactions -o json`", "type `compactions`", (CompactionsReport,), True),
    Section(
        "Compaction",
        "`compactions` of `compactions`, `waiting` of `txns`; a line of `-o jsonl` (`compaction`); a row of `-o csv`",
        (Compaction,),
        True,
    ),
    Section(
        "Problem",
        "`problem` of a cleaned partition, of a table of `ls --by-table`, `error` of a line of the run log",
        (Problem,),
    ),
    Section("An error", "`error` of the object on stderr, with any machine form", (AcidctlError,)),
)
_DOCUMENT = (
    ("`type`", "string", "which object this is; an object with another meaning gets another type"),
    ("`schema_version`", "number", "1; fields are only ever added"),
)
_WORDS = {str: "string", int: "number", float: "number", bool: "boolean", object: "any"}


def described(kind: type) -> dict[str, tuple[str, str]]:
    """The documented fields of a type: what stands there, and what it means."""
    hints = get_type_hints(kind, include_extras=True)
    for name in getattr(kind, "ALSO", ()):
        hints[name] = get_type_hints(getattr(kind, name).fget, include_extras=True)["return"]
    documented = {name: hint for name, hint in hints.items() if get_origin(hint) is Annotated}
    return {name: (_words(hint.__origin__), hint.__metadata__[0]) for name, hint in documented.items()}


def _words(kind: Any) -> str:
    """A type as a reader of JSON knows it, with a link where it has a section."""
    if get_origin(kind) in (UnionType, Union):
        (one,) = (part for part in get_args(kind) if part is not type(None))
        return f"{_words(one)} or null"
    section = next((each.title for each in SECTIONS if kind in each.types), None)
    if section is not None:
        return f"[{section.lower()}](#{section.lower().replace(' ', '-')})"
    if get_origin(kind) in (tuple, list):
        inner = get_args(kind)[0]
        return f"list of {_words(inner)}s" if inner in _WORDS else f"list of {_words(inner)}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "string"
    return _WORDS.get(kind, "object")


def fields() -> str:
    """The JSON fields of every object."""
    parts = []
    for section in SECTIONS:
        rows = list(_DOCUMENT) if section.document else []
        for kind in section.types:
            rows += ((f"`{name}`", what, meaning) for name, (what, meaning) in described(kind).items())
        where = f"{section.where[:1].upper()}{section.where[1:]}."
        table = "\n" + _table(("Field", "Type", "Meaning"), rows) if rows else ""
        parts.append(f"## {section.title}\n\n{where}\n{table}")
    return "\n".join(parts)


def python() -> str:
    """Signatures and docstrings of the public names."""
    names = [name for name in acidctl.__all__ if not name.startswith("__") and name not in ("AcidctlError", "ExitCode")]
    public = [getattr(acidctl, name) for name in sorted(names, key=lambda name: (name[:1].isupper(), name))]
    return "\n".join(_described(each) for each in public)


def _described(thing: object) -> str:
    """A function, or a class with its fields and public methods."""
    assert inspect.isclass(thing) or inspect.isfunction(thing)
    (node,) = ast.parse(inspect.getsource(thing)).body
    assert isinstance(node, ast.ClassDef | ast.FunctionDef)
    if isinstance(node, ast.FunctionDef):
        return f"## acidctl.{node.name}\n\n{_signature(node)}\n{_doc(node)}\n"
    title = f"acidctl.{node.name}"
    assert inspect.isclass(thing)
    bases = [base.__name__ for base in thing.__mro__[1:] if issubclass(base, ReadView)]
    parts = [f"## {title}\n\n{_doc(node)}\n"]
    if bases:
        parts.append(f"Beside the fields of {', '.join(bases)}:\n")
    values = [
        _value_line(item) for item in node.body if isinstance(item, ast.AnnAssign) if _code(item.target) != "ALSO"
    ]
    if values:
        parts.append("```python\n" + "\n".join(values) + "\n```\n")
    methods = {
        item.name: item
        for body in (*_hidden_bases(thing), node)
        for item in body.body
        if isinstance(item, ast.FunctionDef)
    }
    for item in methods.values():
        if not item.name.startswith("_"):
            parts.append(f"### {node.name}.{item.name}\n\n{_signature(item)}\n{_doc(item)}\n")
    return "\n".join(parts)


def _hidden_bases(thing: type) -> Iterator[ast.ClassDef]:
    """Bases that are not public themselves."""
    for base in thing.__mro__[1:]:
        if base.__module__.startswith("acidctl.") and base.__name__ not in acidctl.__all__:
            (node,) = ast.parse(inspect.getsource(base)).body
            assert isinstance(node, ast.ClassDef)
            yield node


def _signature(node: ast.FunctionDef) -> str:
    """The head of a function, an argument a line where it is long."""
    returns = "" if node.returns is None else f" -> {_plain(node.returns)[0]}"
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    if any(mark.endswith("property") for mark in marks):
        return f"```python\n{node.name}: {returns.removeprefix(' -> ')}\n```\n"
    # Arguments are parted by ", " outside of brackets.
    text = re.sub(r"^(self|cls)(, )?", "", _code(node.args))
    asked = next((mark for mark in marks if mark.startswith("asks(")), None)
    if asked is not None:
        text = re.sub(r"\w+: \w+$", f"**{asked[5:-1]}", text)
    if len(text) > WIDTH - len(node.name) - len(returns):
        text = "\n    " + re.sub(r", (?![^\[(]*[\])])", ",\n    ", text) + ",\n"
    return f"```python\n{node.name}({text}){returns}\n```\n"


def _value_line(node: ast.AnnAssign) -> str:
    """A field with its type and default, and what it holds."""
    kind, text = _plain(node.annotation)
    value = node.value
    if isinstance(value, ast.Call) and _code(value.func) == "option":
        text = str(ast.literal_eval(value.args[1]))
        value = value.args[0]
    default = "" if value is None or "field(" in _code(value) else f" = {_code(value)}"
    line = f"{_code(node.target)}: {kind}{default}"
    if len(line) + len(text) < WIDTH:
        return line + (f"  # {text}" if text else "")
    return "\n".join([*textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# "), line])


def _plain(annotation: ast.expr) -> tuple[str, str]:
    """A type, and the text about it of an `Annotated`."""
    if isinstance(annotation, ast.Subscript) and _code(annotation.value) == "Annotated":
        assert isinstance(annotation.slice, ast.Tuple)
        kind, text = annotation.slice.elts
        return _code(kind), str(text.value) if isinstance(text, ast.Constant) else ASSUMED
    return _code(annotation), ""


def _code(node: ast.AST) -> str:
    """Source text with quotes as the rest of the code has them."""
    return ast.unparse(node).replace("'", '"')


def _doc(node: ast.ClassDef | ast.FunctionDef) -> str:
    return ast.get_docstring(node) or ""


def _first_sentence(thing: type) -> str:
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def packages() -> str:
    """The packages and who imports whom, from the imports that there are, in the order that `ROWS` allows."""
    shared = {"values", "errors", "options", "__init__", "__main__"}
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


def figures() -> str:
    """What benchmarks measured, from the file that they leave."""
    rows = []
    for title, own in results.groups(results.load(results.DEFAULT)):
        for place, one in enumerate(own):
            spread, ratio = f"{min(one.seconds):.2f} to {max(one.seconds):.2f}", f"{one.middle / own[0].middle:.2f}"
            memory = "" if one.memory is None else f"{one.memory:.0f} MiB"
            rows.append(("" if place else title, one.what, f"{one.middle:.2f} s", spread, ratio, memory))
    return _table(("On what", "What", "Median", "Rounds", "Times the first", "Largest process"), rows)


PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "architecture.md": {"packages": packages},
    "concepts.md": {"findings": findings},
    "performance.md": {"figures": figures},
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
