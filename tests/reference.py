"""The generated parts of the documents: `make docs` writes them, `make lint` and the tests check them.

Generated are the blocks between `<!-- begin: NAME -->` and `<!-- end: NAME -->` in README.md, and FIELDS.md whole.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from acidctl.cli.fields import ALL
from acidctl.cli.main import COMMANDS, cli
from acidctl.cli.options import EXIT_MEANINGS

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
FIELDS = ROOT / "acidctl" / "FIELDS.md"
WIDTH = 100


def commands() -> str:
    """Every command's help, as the terminal shows it."""
    parts = []
    group = click.Context(cli, info_name="acidctl", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    for name in COMMANDS:
        command = cli.get_command(group, name)
        assert command is not None
        ctx = click.Context(command, info_name=name, parent=group)
        parts.append(f"### acidctl {name}\n\n```text\n{command.get_help(ctx).rstrip()}\n```\n")
    return "\n".join(parts)


def exit_codes() -> str:
    """The table of exit codes."""
    lines = ["| Code | Means |", "| ---: | --- |"]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in EXIT_MEANINGS.items()]
    return "\n".join(lines) + "\n"


def fields() -> str:
    """The page about JSON fields."""
    parts = [
        "# Field names\n",
        "What scripts can rely on: names stay, fields are only ever added, absent is `null`. CSV has the same names;",
        "nested objects are flattened with dots or stand there as JSON text. Made by `make docs`; do not edit.\n",
    ]
    for item in ALL:
        parts += [f"## {item.title}\n", f"{item.where[:1].upper()}{item.where[1:]}.\n"]
        parts += ["| Field | Type | Meaning |", "| --- | --- | --- |"]
        parts += [f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in item.fields]
        parts.append("")
    return "\n".join(parts)


BLOCKS: Mapping[str, Callable[[], str]] = {"commands": commands, "exit codes": exit_codes}


def readme(text: str) -> str:
    """The README with its generated blocks filled in."""
    for name, make in BLOCKS.items():
        match = re.search(rf"(?<=<!-- begin: {name} -->\n).*?(?=<!-- end: {name} -->)", text, re.DOTALL)
        if match is None:
            raise ValueError(f"README.md has no block called {name!r}")
        text = f"{text[: match.start()]}\n{make()}\n{text[match.end() :]}"
    return text


def stale() -> list[str]:
    """Names of the files that `make docs` would change."""
    found = []
    if readme(README.read_text()) != README.read_text():
        found.append(README.name)
    if not FIELDS.exists() or FIELDS.read_text() != fields():
        found.append(str(FIELDS.relative_to(ROOT)))
    return found


def main(action: str) -> int:
    """`--check` or `--write`."""
    if action == "--write":
        README.write_text(readme(README.read_text()))
        FIELDS.write_text(fields())
        return 0
    names = stale()
    for name in names:
        print(f"{name} is stale: run `make docs`", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
