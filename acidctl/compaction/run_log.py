"""A log of runs for machines: one JSON object a line, one line for each partition as soon as it is finished.

Each line is one write to a file that is opened to append, so that runs which share a log do not mix their lines, and a
log that is rotated or removed is begun anew. A log that cannot be written is reported once and harms nothing else.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from acidctl.compaction.report import CompactionReport, Outcome, PartitionReport
from acidctl.errors import AcidctlError, ExitCode, UsageError
from acidctl.maintenance.limits import BOUNDS
from acidctl.state.report import Problem, document
from acidctl.storage.redact import without_credentials

PARTITION_TYPE = "compaction_log"
RUN_TYPE = "compaction_run_log"


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition that is finished; those in which nothing was to be done, or nothing was begun, have no line."""

    run: Annotated[str, "the same in all lines of a run"]
    location: Annotated[str, "the table as it was named, without secrets"]
    kind: Annotated[str, "minor or major"]
    partition: Annotated[str, "on-disk text; empty for a table without partitions"]
    started: Annotated[str, "when it was locked, ISO 8601 in UTC"]
    ended: Annotated[str, "when it was finished"]
    seconds: Annotated[float, "between them"]
    outcome: Annotated[str, "compacted, refused, failed"]
    reason_code: Annotated[str, "as in the report"]
    reason: Annotated[str, "as in the report"]
    error: Annotated[Problem | None, "of a failure: `code`, `message`, `hint`"]
    inputs: Annotated[tuple[str, ...], "names of the directories that were replaced"]
    outputs: Annotated[tuple[str, ...], "names of the directories that were published"]
    rows_in: Annotated[int | None, "stored rows that were read"]
    rows_out: Annotated[int | None, "rows or events that were written"]
    deletes_applied: Annotated[int | None, "rows that delete events removed"]
    hidden: Annotated[int | None, "rows of aborted writes, left out"]
    bytes_in: Annotated[int | None, "bytes that were read"]
    bytes_out: Annotated[int | None, "bytes that were written"]
    notes: Annotated[tuple[str, ...], "sentences for the operator"]


@dataclass(frozen=True, slots=True)
class RunLine:
    """The last line of each run; of a run that was killed there is none."""

    run: Annotated[str, "the same in all lines of a run"]
    location: Annotated[str, "the table as it was named, without secrets"]
    kind: Annotated[str, "minor or major"]
    started: Annotated[str, "ISO 8601 in UTC"]
    ended: Annotated[str, "ISO 8601 in UTC"]
    seconds: Annotated[float, "between them"]
    exit_code: Annotated[int, "what the command ended with"]
    error: Annotated[Problem | None, "why the whole run failed: `code`, `message`, `hint`"] = None
    partitions: Annotated[int | None, "all partitions of the run; null when it failed"] = None
    outcomes: Annotated[Mapping[str, int], "how many partitions ended with which outcome"] = field(default_factory=dict)
    rows_in: Annotated[int | None, "sum over what was compacted"] = None
    rows_out: Annotated[int | None, "sum over what was compacted"] = None
    bytes_in: Annotated[int | None, "sum over what was compacted"] = None
    bytes_out: Annotated[int | None, "sum over what was compacted"] = None


class RunLog:
    """The log of one run of `compact` at `path`, a local file; `notify` gets one sentence when it cannot be written.

    Made before anything is changed: UsageError when the file cannot be opened.
    """

    def __init__(
        self, path: str, location: str, kind: str, *, now: Callable[[], float], notify: Callable[[str], None]
    ) -> None:
        self._path = path
        self._head = (secrets.token_hex(6), location, kind)
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
        failed = report.outcome is Outcome.FAILED
        line = PartitionLine(
            *self._head,
            partition=report.partition,
            started=_moment(ended - report.seconds),
            ended=_moment(ended),
            seconds=report.seconds,
            outcome=report.outcome.value,
            reason_code=report.reason_code,
            reason=report.reason,
            error=Problem(report.reason_code, report.reason, report.hint) if failed else None,
            inputs=report.inputs,
            outputs=report.outputs,
            rows_in=report.rows_in,
            rows_out=report.rows_out,
            deletes_applied=report.deletes_applied,
            hidden=report.hidden,
            bytes_in=report.bytes_in,
            bytes_out=report.bytes_out,
            notes=report.notes,
        )
        self._append(PARTITION_TYPE, line)

    def run(self, report: CompactionReport) -> None:
        """The last line of a run that came to its end."""
        total = report.summary
        figures = (total.rows_in, total.rows_out, total.bytes_in, total.bytes_out)
        self._append(
            RUN_TYPE, RunLine(*self._span(), report.exit_code, None, total.partitions, total.outcomes, *figures)
        )

    def failed(self, error: BaseException) -> None:
        """The last line of a run that did not."""
        if isinstance(error, AcidctlError):
            problem = Problem.of(error)
        elif isinstance(error, KeyboardInterrupt):
            message = "the run was interrupted; what was published before stays"
            problem = Problem("interrupted", message, "Run the command again.", ExitCode.INTERRUPTED)
        else:
            problem = Problem("internal", f"unexpected {type(error).__name__}", None)
        self._append(RUN_TYPE, RunLine(*self._span(), problem.exit_code, problem))

    def _span(self) -> tuple[str, str, str, str, str, float]:
        """What every last line begins with: whose it is, and from when to when."""
        ended = self._now()
        return (*self._head, _moment(self._started), _moment(ended), round(ended - self._started, 3))

    def _append(self, kind: str, values: PartitionLine | RunLine) -> None:
        line = json.dumps(_shown(document(kind, values)), separators=(",", ":")) + "\n"
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
        raise ValueError("it is not a regular file")
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


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
