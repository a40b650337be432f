"""`make demo`: a small table that real Hive has written, as acidctl sees it; a copy of it is compacted and cleaned."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from acidctl.cli.main import run
from acidctl.cli.output import Terminal

INTRODUCTION = """\
This table was written by real Hive. It holds a few orders; rows were inserted, updated and deleted, one transaction
was rolled back, and another is still open. Hive never changes a file: every statement added a directory, and a
compaction has merged the first of them without removing them.

What a reader sees of it is decided by two lists that Hive hands to every query:

  write ids     {write_ids}
                up to which write of this table, and which of them are open or were aborted
  transactions  {txns}
                the same for all transactions; it decides about the output of compactions
"""
LS = "1. Which directories are there, which of them does a reader use, and why not the others?"
SNAPSHOT = "2. So what is in the table? The same directories, read:"
HISTORY = "3. And what was in it after write id 4, before the later changes?"
COMPACT = """\
4. Too many directories. A major compaction writes all that is committed below the first open write as one base, reads
back what it wrote, and publishes it by one rename. (On a copy; the bundled table stays as it is.)
"""
CLEAN = """\
5. What it replaced is still there: a compaction never deletes. `clean` shows what no reader with these lists can reach,
why, and the command that removes it. By itself it leaves alone what is younger than a day; this copy is not in use.
"""
DELETE = "6. So remove it:"
LIVE = "7. What is left of the table:"
SAME = "The rows and their ROW__IDs before and after: {before} and {after}. Equal."
END = "Next: `.venv/bin/acidctl compact --help`, or a table of your own, with `--dry-run` first."


def main(step: Path) -> int:
    """Run the demo over one recorded step."""
    facts = json.loads((step / "step.json").read_text())
    table = str(step / "table")
    lists = ["--validtxns", facts["valid_write_ids"], "--validtxns", facts["valid_txns"]]
    say(INTRODUCTION.format(write_ids=facts["valid_write_ids"], txns=facts["valid_txns"]))
    for title, args in (
        (LS, ["ls", table, *lists]),
        (SNAPSHOT, ["snapshot", table, *lists]),
        (HISTORY, ["snapshot", table, "--as-of", "4", "--quiet", "-o", "csv"]),
    ):
        show(title, args)
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(table, Path(folder) / "orders")
        before = digest(copy, lists)
        show(COMPACT, ["compact", "major", str(copy), *lists, "--quiet"])
        clean = ["clean", str(copy), *lists, "--unsafe-no-retention"]
        show(CLEAN, [*clean, "--quiet"])
        show(DELETE, [*clean, "--delete", "--yes", "--quiet"], last=1)
        show(LIVE, ["ls", str(copy), *lists, "--quiet"])
        after = digest(copy, lists)
    if before != after:
        say(f"The rows differ: {before} before, {after} after.")
        return 1
    say(SAME.format(before=before, after=after) + "\n")
    say(END)
    return 0


def show(title: str, args: Sequence[str], *, last: int = 0) -> None:
    """Run a command for the reader of the demo, or show only its `last` lines; the demo ends where it fails."""
    say(title + "\n")
    say("$ acidctl " + shlex.join(args))
    if last:
        say("...\n" + "\n".join(output(args).splitlines()[-last:]))
    elif code := run(args):
        sys.exit(code)
    say("")


def digest(table: Path, lists: Sequence[str]) -> str:
    """A digest over all rows and row ids that a reader sees."""
    answer = json.loads(output(["snapshot", str(table), *lists, "--digest", "--quiet", "-o", "json"]))
    return f"{answer['rows']} rows, {answer['digest']}"


def output(args: Sequence[str]) -> str:
    """What a command answers."""
    streams = BytesIO(), BytesIO()
    code = run(args, Terminal(*streams))
    if code:
        say(streams[1].getvalue().decode())
        sys.exit(code)
    return streams[0].getvalue().decode()


def say(text: str) -> None:
    """Print at once, so that the commands' own output follows in order."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
