"""`make demo`: a small table that real Hive has written, seen by `acidctl ls` and `acidctl snapshot`."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

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
END = "Next: `.venv/bin/acidctl ls --help`, or a table of your own (acidctl only reads)."


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
        say(title + "\n")
        say("$ acidctl " + shlex.join(args))
        code = subprocess.run([sys.executable, "-m", "acidctl", *args], check=False).returncode
        if code:
            return code
        say("")
    say(END)
    return 0


def say(text: str) -> None:
    """Print at once, so that the commands' own output follows in order."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
