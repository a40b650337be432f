"""Every sentence that a user of acidctl can meet, of one checkout, or before and after.

    python -m tests.support.sentences NEW          the sentences of a checkout, one a line
    python -m tests.support.sentences OLD NEW      what changed: a pair, or one that came or went

A sentence is a text in the code of three words or more that is not a docstring: messages, hints, notes, help.
"""

from __future__ import annotations

import ast
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

# Two sentences are a pair, before and after, from this likeness on.
_ALIKE = 0.5


def sentences(checkout: Path) -> set[str]:
    """Return all sentences of `checkout`; what is filled in stands in braces.

    Raises:
        FileNotFoundError: `checkout` has no folder `acidctl`.
    """
    modules = sorted((checkout / "acidctl").rglob("*.py"))
    if not modules:
        raise FileNotFoundError(checkout / "acidctl")
    return {text for module in modules for text in _texts(ast.parse(module.read_text()))}


def _texts(tree: ast.Module) -> Iterator[str]:
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(map(_part, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            text = node.value
        else:
            continue
        text = " ".join(text.split())
        words = text.split()
        if len(words) >= 3 and sum(word.strip(".,:;()'\"").isalpha() for word in words) >= 2:
            yield text


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value).split("(")[0].split(".")[-1] + "}"
    return str(node.value) if isinstance(node, ast.Constant) else ""


def changes(old: set[str], new: set[str]) -> list[tuple[str, str]]:
    """Return (before, after) of each sentence that is not the same in both; "" where there is no counterpart."""
    came = sorted(new - old)
    pairs = []
    for text in sorted(old - new):
        match = difflib.get_close_matches(text, came, 1, _ALIKE)
        if match:
            came.remove(match[0])
        pairs.append((text, match[0] if match else ""))
    return [*pairs, *(("", text) for text in came)]


def main() -> None:
    found = [sentences(Path(checkout)) for checkout in sys.argv[1:]]
    if len(found) == 1:
        print(*sorted(found[0]), sep="\n")
        return
    for before, after in changes(*found):
        print(f"- {before}\n+ {after}\n")


if __name__ == "__main__":
    main()
