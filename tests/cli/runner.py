"""Runs a command line in this process with streams of its own."""

from __future__ import annotations

import csv
import json
import signal
from dataclasses import dataclass
from io import BytesIO, StringIO
from typing import Any

from acidctl.cli.main import run
from acidctl.cli.output import Terminal


@dataclass(frozen=True, slots=True)
class Result:
    """What a run left behind."""

    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.stdout)

    def json_lines(self) -> list[Any]:
        """stdout as one JSON document a line."""
        return [json.loads(line) for line in self.stdout.split("\n") if line]

    def csv(self) -> list[list[str]]:
        """stdout as CSV rows."""
        return list(csv.reader(StringIO(self.stdout)))

    def error(self) -> dict[str, Any]:
        """The last JSON error on stderr."""
        error: dict[str, Any] = json.loads(self.stderr.splitlines()[-1])["error"]
        return error


def heed_interrupts() -> None:
    """For `preexec_fn`: a shell that starts tests in the background makes them, and their children, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def acidctl(*args: str, width: int | None = None, color: bool = False) -> Result:
    """Run `acidctl ARGS`; `width` pretends that stdout is a terminal of so many columns."""
    out, err = BytesIO(), BytesIO()
    code = run(args, Terminal(out, err, width=width, color=color))
    return Result(int(code), out.getvalue().decode(), err.getvalue().decode())
