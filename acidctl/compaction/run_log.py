"""A log of runs for machines: one JSON object a line, one line for each partition as soon as it is finished.

Each line is one write to a file that is opened to append, so that runs which share a log do not mix their lines, and a
log that is rotated or removed is begun anew. A log that cannot be written is told of once and harms nothing else.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from acidctl.compaction.report import CompactionReport, Outcome, PartitionReport, partition_json
from acidctl.errors import AcidctlError, ExitCode, UsageError
from acidctl.maintenance.owner import BOUNDS
from acidctl.storage.redact import without_credentials

PARTITION_TYPE = "compaction_log"
RUN_TYPE = "compaction_run_log"
SCHEMA_VERSION = 1

_FIGURES = ("inputs", "outputs", "rows_in", "rows_out", "deletes_applied", "hidden", "bytes_in", "bytes_out", "notes")


class RunLog:
    """The log of one run of `compact` at `path`, a local file; `notify` gets one sentence when it cannot be written.

    Made before anything is changed: UsageError when the file cannot be opened.
    """

    def __init__(
        self, path: str, location: str, kind: str, *, now: Callable[[], float], notify: Callable[[str], None]
    ) -> None:
        self._path = path
        self._head = {"run": secrets.token_hex(6), "location": location, "kind": kind}
        self._now = now
        self._started = now()
        self._notify = notify
        self._broken = False
        self._turn = threading.Lock()
        try:
            os.close(_opened(path))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--run-log {path} cannot be written: {_why(error)}",
                path=path,
                hint="Name a file of this machine in a directory that exists.",
            ) from error

    def partition(self, report: PartitionReport) -> None:
        """A line for a partition that is finished; none where nothing was to be done, or nothing was begun."""
        if report.outcome is Outcome.NOTHING_TO_DO or (report.reason_code in BOUNDS and not report.seconds):
            return
        ended = self._now()
        values = partition_json(report)
        failed = report.outcome is Outcome.FAILED
        self._append(
            PARTITION_TYPE,
            {
                "partition": report.partition,
                "started": _moment(ended - report.seconds),
                "ended": _moment(ended),
                "seconds": values["seconds"],
                "outcome": report.outcome.value,
                "reason_code": report.reason_code,
                "reason": report.reason,
                "error": _error(report.reason_code, report.reason, report.hint) if failed else None,
                **{name: values[name] for name in _FIGURES},
            },
        )

    def run(self, report: CompactionReport) -> None:
        """The last line of a run that came to its end."""
        total = report.summary
        figures = {name: getattr(total, name) for name in ("rows_in", "rows_out", "bytes_in", "bytes_out")}
        self._end(report.exit_code, {"partitions": total.partitions, "outcomes": dict(total.outcomes)}, None, figures)

    def failed(self, error: BaseException) -> None:
        """The last line of a run that did not."""
        if isinstance(error, AcidctlError):
            self._end(error.exit_code, {}, _error(error.code, error.message, error.hint), {})
        elif isinstance(error, KeyboardInterrupt):
            said = "the run was interrupted; what was published before stays"
            self._end(ExitCode.INTERRUPTED, {}, _error("interrupted", said, "Run the command again."), {})
        else:
            self._end(ExitCode.FAILED, {}, _error("internal", f"unexpected {type(error).__name__}", None), {})

    def _end(self, code: int, counts: dict[str, Any], error: object, figures: dict[str, Any]) -> None:
        ended = self._now()
        counts = counts or {"partitions": None, "outcomes": {}}
        figures = figures or dict.fromkeys(("rows_in", "rows_out", "bytes_in", "bytes_out"))
        times = {"started": _moment(self._started), "ended": _moment(ended), "seconds": round(ended - self._started, 3)}
        self._append(RUN_TYPE, {**times, "exit_code": int(code), "error": error, **counts, **figures})

    def _append(self, kind: str, values: dict[str, Any]) -> None:
        head = {"type": kind, "schema_version": SCHEMA_VERSION, **self._head}
        line = json.dumps(_shown({**head, **values}), separators=(",", ":")) + "\n"
        with self._turn:
            try:
                _write(self._path, line.encode("ascii"))
            except (OSError, ValueError) as error:
                if not self._broken:
                    self._broken = True
                    self._notify(f"the run log {self._path} cannot be written: {_why(error)}; the run goes on")


def _shown(value: Any) -> Any:
    """The same without users and passwords of URLs: logs last, and are read by many."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list | tuple) else value


def _opened(path: str) -> int:
    """The log, ready to append. Neither a pipe that nobody reads nor a terminal may hold up a run."""
    # O_NONBLOCK: opening a pipe waits for its reader otherwise.
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise ValueError("it is no regular file")
    return number


def _write(path: str, line: bytes) -> None:
    number = _opened(path)
    try:
        done = os.write(number, line)
        if done < len(line):
            # The disk is full. What comes later must not continue this line.
            os.write(number, b"\n")
            raise OSError("only a part of a line could be written")
    finally:
        os.close(number)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _error(code: str, message: str, hint: str | None) -> dict[str, str | None]:
    return {"code": code, "message": message, "hint": hint}


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
