"""`acidctl compact`: rewrite deltas into fewer directories, prove the result, publish it."""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import click

from acidctl.api import CompactArguments, Table
from acidctl.cli.options import MAX_PLAN, read_text, table_argument, table_of, with_engine
from acidctl.cli.options import command as make_command
from acidctl.cli.output import Cell, Column, Format, Output, Paint, bar, dump_json, human_size, plural, progress, shown
from acidctl.cli.process import interruptible
from acidctl.compaction.plan import (
    PLAN_TYPE,
    THROUGH_QUEUE,
    Action,
    CompactionPlan,
    Fate,
    InputEntry,
    OutputDir,
    PartitionPlan,
    encode,
    parse,
)
from acidctl.compaction.plan import to_json as plan_to_json
from acidctl.compaction.report import REPORT_TYPE, CompactionReport, Outcome, PartitionReport, Verified
from acidctl.compaction.run import Compaction, Progress
from acidctl.config import Config
from acidctl.errors import AcidctlError, ExitCode, UsageError
from acidctl.maintenance.limits import BOUNDS, TimeLimit, wall_clock
from acidctl.options import CompactOptions, option
from acidctl.state.report import SCHEMA_VERSION, Problem, document, json_names
from acidctl.storage.named_files import own_stream, write_bytes
from acidctl.storage.redact import without_credentials
from acidctl.values import dataclass

# --- A log of runs for machines: one JSON object a line, one line for each partition as soon as it is finished.
#
# Each line is one write to a file that is opened to append, so that runs which share a log do not mix their lines,
# and a log that is rotated or removed is begun anew. One that cannot be written is reported once.


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
    """The log, ready to append: a regular file, and no link, which another user may have put in its place."""
    # O_NONBLOCK: opening a pipe waits for its reader otherwise.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    own = own_stream(path)
    try:
        number = os.open(path, flags, 0o666) if own is None else os.dup(own)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError("it is a symbolic link; name the file itself") from error
        raise
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


@dataclass(frozen=True, slots=True)
class View:
    """What becomes of the plan, and how the answer is shown."""

    dry_run: bool = option(
        False, "Show the plan and change nothing; -o json prints what --plan takes.", "-n", "--dry-run"
    )
    plan_out: str | None = option(None, "Save the plan and change nothing.", metavar="FILE")
    plan: str | None = option(None, "Carry out a saved plan, unless it or the table has changed since.", metavar="FILE")
    accept_edited: bool = option(
        False,
        "With --plan: it was edited. Partitions may be left out, table.writer and cuts be changed; nothing else.",
    )
    run_log: str | None = option(
        None, "Append a JSON line for each partition as soon as it is finished.", metavar="FILE"
    )
    limit: int = option(50, "Name at most N partitions in a text; 0 names all.", metavar="N", minimum=0)


@make_command(
    "compact",
    CompactOptions,
    View,
    also=[ExitCode.NOT_ENOUGH_HISTORY, ExitCode.STALE_PLAN],
    examples=(
        "acidctl compact major /warehouse/orders --validtxns @write_ids.txt --validtxns @txns.txt",
        "acidctl compact major /warehouse/orders --assume-committed --dry-run",
        "acidctl compact minor /warehouse/orders --assume-committed --assume-exclusive",
    ),
    arguments=[
        click.argument("kind", metavar="minor|major", type=click.Choice(["minor", "major"])),
        table_argument(),
    ],
)
def command(out: Output, config: Config, options: CompactOptions, view: View, *, location: str) -> ExitCode:
    """Merge the deltas of TABLE (minor), or rewrite it as a base with deletes applied (major).

    The result is verified before it is published by a rename; nothing is ever deleted: what became obsolete stays
    until `acidctl clean` or Hive's cleaner removes it.
    """
    _check(options, view)
    # The time begins now: planning is a part of the run.
    limit = None if options.max_runtime is None else TimeLimit(options.max_runtime, options.grace)
    table = table_of(config, location)
    for name, path in (("--plan-out", view.plan_out), ("--run-log", view.run_log)):
        if path is not None:
            table.require_outside(path, name)
    asked = CompactArguments(**with_engine(config, options).keywords(), limit=limit, verbose=out.verbose)
    if view.plan is not None:
        saved = parse(read_text(f"@{view.plan}", "--plan", MAX_PLAN), accept_edited=view.accept_edited)
        asked = replace(asked, plan=saved, accept_edited=view.accept_edited)
    if view.dry_run or view.plan_out is not None:
        with progress(out, "looking into files", "files") as report_progress:
            plan = table.plan_compaction(**replace(asked, progress=report_progress).keywords())
        out.assumed(plan.assumed)
        out.note(*plan.notes)
        if plan.not_looked_at:
            codes = " and ".join(plan.not_looked_at)
            out.note(f"keys were not read: {codes} can only be found by the run, which publishes nothing then")
        if view.plan_out is not None and THROUGH_QUEUE in plan.notes:
            raise UsageError(
                "--plan-out cannot save what goes through Hive's queue: its transactions are not opened yet",
                hint="Leave it out, or give the lists with --validtxns, which leaves the queue alone.",
            )
        if view.plan_out is not None:
            text = dump_json(plan_to_json(plan), indent=1) + "\n"
            write_bytes(Path(view.plan_out), [text.encode("utf-8", "surrogateescape")])
            out.note(f"wrote the plan to {view.plan_out}; --plan carries it out")
        _write_plan(out, plan, view.limit or None)
        return plan.exit_code
    log = None
    if view.run_log is not None:
        log = RunLog(view.run_log, table.location, options.kind, now=wall_clock, notify=out.warn)
    try:
        report = _run(out, table, asked, log)
    except BaseException as error:
        if log is not None:
            log.failed(error)
        raise
    if log is not None:
        log.run(report)
    items = (document(REPORT_TYPE, part) for part in report.partitions)
    if not out.machine(lambda: document(REPORT_TYPE, report), items, json_names(PartitionReport)):
        _report_text(out, report, view.limit or None)
    for part in report.partitions:
        if part.outcome is Outcome.FAILED:
            # Whoever looks at errors alone has to see it.
            where = f"{part.partition}: " if part.partition else ""
            failure = AcidctlError(where + part.reason, path=part.partition or None, hint=part.hint)
            failure.code = part.reason_code
            out.error(failure)
    return report.exit_code


def _run(out: Output, table: Table, asked: CompactArguments, log: RunLog | None) -> CompactionReport:
    """Compact; Ctrl-C and SIGTERM end it alike. What is shown of it changes when the plan is made."""
    show: Callable[[Progress], None]

    def planned(plan: CompactionPlan, why: str) -> None:
        planning.close()
        out.assumed(plan.assumed)
        out.note(*plan.notes)
        usual = asked.engine != "auto" or why in ("", "Running locally.")
        (out.detail if usual else out.note)(why)

    @contextmanager
    def during(run: Compaction) -> Iterator[None]:
        nonlocal show
        with _progress(out) as show, interruptible(run):
            try:
                yield
            except KeyboardInterrupt:
                done = plural(run.compacted, "partition")
                out.warn(f"interrupted: {done} compacted and verified; nothing else has been changed")
                raise

    with ExitStack() as planning:
        report_progress = planning.enter_context(progress(out, "looking into files", "files"))
        watched = replace(
            asked,
            progress=report_progress,
            planned=planned,
            watch=lambda work: show(work),
            finished=None if log is None else log.partition,
            notify=out.warn,
            during=during,
        )
        return table.compact(**watched.keywords())


@contextmanager
def _progress(out: Output) -> Iterator[Callable[[Progress], None]]:
    """Show which partition is at work, rows and bytes per second, time left; for calls of any thread."""
    if not out.shows_progress:
        yield lambda work: None
        return
    with bar(out, "compacting") as show:
        started = time.monotonic()
        show(0, None, "")

        def report(work: Progress) -> None:
            seconds = max(time.monotonic() - started, 0.001)
            rates = f"{work.rows_done / seconds:,.0f} rows/s, {human_size(int(work.bytes_done / seconds))}/s"
            place = f"{work.partitions_done:,} of {work.partitions:,} partitions ({shown(work.partition)}), "
            show(work.bytes_done, work.bytes, (place if work.partitions > 1 else "") + rates)

        yield report


def _check(options: CompactOptions, view: View) -> None:
    if view.accept_edited and view.plan is None:
        raise UsageError("--accept-edited is about the plan of --plan, and there is none")
    if view.plan is None:
        return
    if view.plan_out is not None or view.dry_run:
        raise UsageError("--plan cannot be combined with --dry-run or --plan-out: it carries a saved plan out")
    if options.partitions or options.validtxns or options.as_of is not None or options.schema is not None:
        raise UsageError("--plan cannot be combined with --partition, --validtxns, --as-of or --schema")
    decided = (options.visibility_txn, options.compression, options.max_bytes, options.max_partitions)
    if (
        options.target != "auto"
        or options.only_if_needed
        or options.drop_columns
        or any(value is not None for value in decided)
    ):
        raise UsageError(
            "--plan cannot be combined with --target, --visibility-txn, --compression, --max-bytes, --max-partitions, "
            "--only-if-needed or --drop-columns: the plan states them"
        )


# --- The plan and the report, for eyes and for scripts.


_HIVES = {"hive3": "Hive 3", "hive4": "Hive 4"}
_PLAN_FIELDS = ("partition", "action", "reason_code", "reason", "inputs", "outputs", "rows_in", "bytes_in", "notes")
# Both of plans and of reports.
_WORDS = {
    "compact": Cell("compact", Paint.GOOD),
    "compacted": Cell("compacted", Paint.GOOD),
    "nothing_to_do": Cell("nothing to do", Paint.DIM),
    "refused": Cell("refused", Paint.WARN),
    "failed": Cell("failed", Paint.BAD),
    "later": Cell("left for later", Paint.WARN),
}
# What a reader of a long report wants to see first.
_WORST_FIRST = (Outcome.FAILED, Outcome.REFUSED, Outcome.COMPACTED)
# Up to so many partitions a plan's text shows directory by directory, beyond that a line each.
_IN_FULL = 8


def _write_plan(out: Output, plan: CompactionPlan, limit: int | None) -> None:
    """A plan in the form that is asked for; as JSON it is what `--plan` takes. `limit` bounds the lines of a text."""
    head = {"type": PLAN_TYPE, "schema_version": SCHEMA_VERSION}
    items = ({**head, **encode(part)} for part in plan.partitions)
    if out.form is Format.CSV:
        items = ({**encode(p), "inputs": _names(p.inputs), "outputs": _names(p.outputs)} for p in plan.partitions)
    if not out.machine(lambda: plan_to_json(plan), items, _PLAN_FIELDS):
        _plan_text(out, plan, limit)


def _names(directories: Sequence[InputEntry | OutputDir]) -> list[str]:
    return [one.name for one in directories]


def _plan_text(out: Output, plan: CompactionPlan, limit: int | None) -> None:
    todo = [part for part in plan.partitions if part.action is Action.COMPACT]
    head = f"{plan.kind.value} compaction" + (f" for {_HIVES[plan.target.value]}" if todo else "")
    if plan.visibility_txn is not None:
        head += f", visible with transaction {plan.visibility_txn}"
    out.line(Cell(plan.location, Paint.BOLD))
    out.line(head)
    whole = len(plan.partitions) == 1 and not plan.partitions[0].partition
    if len(plan.partitions) > _IN_FULL:
        _plan_table(out, plan, limit)
    else:
        for part in plan.partitions[:limit]:
            out.line()
            if not whole:
                out.line(Cell(part.partition, Paint.BOLD))
            _partition_text(out, part)
        _and_more(out, len(plan.partitions), limit)
    out.line()
    if todo:
        size = human_size(sum(part.bytes_in for part in todo))
        rows = plural(sum(part.rows_in for part in todo), "stored event")
        tasks = plural(sum(len(task.cuts) + 1 for part in todo for task in part.tasks), "task")
        count = "" if whole else f"{plural(len(todo), 'partition')}, "
        out.line(f"To do: {count}{rows}, {size}, {tasks}.")
    else:
        out.line("Nothing to compact.")
    _write_kinds(out, [part for part in plan.partitions if part.action is not Action.COMPACT])
    out.line("This is a plan: nothing has been changed.")


def _plan_table(out: Output, plan: CompactionPlan, limit: int | None) -> None:
    """A line for each partition, those with work first; what has none is counted."""
    chosen = [part for part in plan.partitions if part.action is not Action.NOTHING_TO_DO]
    chosen.sort(key=lambda part: part.action is not Action.COMPACT)
    columns = (
        Column("PARTITION"),
        Column("DIRECTORIES", right=True, drop=2),
        Column("BYTES", right=True, drop=3),
        Column("EVENTS", right=True, drop=4),
        Column("PLAN", below=True),
    )
    rows: list[list[object]] = []
    for part in chosen[:limit]:
        row: list[object] = [None] * 3
        word = _WORDS[part.action.value]
        text = f"{word.text}: {part.reason}" + (f" ({part.hint})" if part.hint else "")
        if part.action is Action.COMPACT:
            row = [f"{len(part.inputs):,} -> {len(part.outputs):,}", human_size(part.bytes_in), f"{part.rows_in:,}"]
            text = ", ".join(_names(part.outputs))
        rows.append([part.partition or "(table)", *row, Cell(text, word.paint)])
    if rows:
        out.line()
        out.table(columns, rows)
    _and_more(out, len(chosen), limit)


def _and_more(out: Output, total: int, limit: int | None) -> None:
    if limit is not None and total > limit:
        out.line(f"... and {total - limit:,} more (--limit 0 names all)")


def _write_kinds(out: Output, idle: Sequence[PartitionPlan | PartitionReport]) -> None:
    """How many partitions were left alone for which reason; of one this stands there already."""
    counts: Counter[str] = Counter()
    for part in idle:
        what = part.action.value if isinstance(part, PartitionPlan) else part.outcome.value
        if part.reason_code in BOUNDS:
            counts["left for a later run (--" + part.reason_code.replace("_", "-") + ")"] += 1
        elif part.reason_code == "not_needed":
            counts["not needed by the thresholds of --only-if-needed"] += 1
        else:
            counts[_WORDS[what].text] += 1
    for what, count in counts.most_common() if len(idle) > 1 else ():
        out.line(f"{plural(count, 'partition')}: {what}.")


def _partition_text(out: Output, part: PartitionPlan) -> None:
    word = _WORDS[part.action.value]
    if part.action is not Action.COMPACT:
        _sentence(out, f"{word.text}: {part.reason}" if part.reason else word.text, word.paint)
        if part.hint:
            _sentence(out, f"hint: {part.hint}", Paint.DIM)
    else:
        rows: list[list[object]] = [
            ["  read", entry.name, len(entry.files), human_size(sum(file.size for file in entry.files))]
            for entry in part.inputs
        ]
        for output in part.outputs:
            files = {task.output for task in part.tasks if task.output.startswith(output.name + "/")}
            rows.append([Cell("  write", Paint.GOOD), Cell(output.name, Paint.GOOD), len(files), None])
        columns = (Column(""), Column("DIRECTORY"), Column("FILES", right=True), Column("BYTES", right=True))
        out.table(columns, rows)
        _sentence(out, part.reason[:1].upper() + part.reason[1:])
        if out.verbose:
            _stripes_text(out, part)
    for note in part.notes:
        _sentence(out, f"note: {note}", Paint.DIM)


_FATES = {Fate.COPY: "copied", Fate.ENCODE: "written anew", Fate.UNDECIDED: "decided by the key columns when it runs"}


def _stripes_text(out: Output, part: PartitionPlan) -> None:
    """What becomes of the stripes of the inputs, and why."""
    rows: list[list[object]] = []
    for task in part.tasks:
        for one in task.stripes:
            numbers = f"{one.first}" if one.count == 1 else f"{one.first}-{one.first + one.count - 1}"
            fate = f"{_FATES[one.choice]}: {one.reason}" if one.reason else _FATES[one.choice]
            rows.append(
                [f"  {one.file or 'small files'}", numbers if one.file else one.count, human_size(one.bytes), fate]
            )
    if rows:
        out.line()
        columns = Column("  FILE"), Column("STRIPES", right=True), Column("BYTES", right=True), Column("", below=True)
        out.table(columns, rows)


def _sentence(out: Output, text: str, paint: Paint | None = None) -> None:
    out.wrapped(text, paint, indent="  ")


def _report_text(out: Output, report: CompactionReport, limit: int | None) -> None:
    """Something to paste into a ticket: what was done, before and after, and what was not done and why."""
    out.line(Cell(report.location, Paint.BOLD))
    names = [_outcome(part).text for part in report.partitions]
    phrases = [f"{names.count(word.text):,} {word.text}" for word in _WORDS.values() if word.text in names]
    what = ", ".join(phrases)
    if report.summary.partitions == 1:
        what = what.partition(" ")[2]
    # Whose Hive it would have been was not looked into where nothing was to be done.
    idle = all(part.outcome is Outcome.NOTHING_TO_DO for part in report.partitions)
    target = "" if idle else f" for {_HIVES[report.target]}"
    by = "" if report.engine == "none" else f" by the {report.engine} engine"
    out.wrapped(f"{report.kind} compaction{target}: {what} in {_seconds(report.seconds)}{by}")
    if out.verbose and any(report.phases.values()):
        spent = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in report.phases.items())
        out.wrapped(f"time of all threads: {spent}")
    done = any(part.outcome is Outcome.COMPACTED for part in report.partitions)
    if done:
        out.line()
        _before_and_after(out, report)
    if len(report.partitions) > 1 or any(part.partition for part in report.partitions):
        out.line()
        _partition_table(out, report.partitions, limit)
        undone = (Outcome.NOTHING_TO_DO, Outcome.REFUSED)
        _write_kinds(out, [part for part in report.partitions if part.outcome in undone])
    else:
        for part in report.partitions:
            _details(out, part)
    if done:
        out.line()
        _sentence(out, "The old directories are still there, obsolete; `acidctl clean` shows what can go.", Paint.DIM)


def _outcome(part: PartitionReport) -> Cell:
    later = part.outcome is Outcome.REFUSED and part.reason_code in BOUNDS
    return _WORDS["later" if later else part.outcome.value]


def _before_and_after(out: Output, report: CompactionReport) -> None:
    total = report.summary
    phrases = [f"{plural(total.deletes_applied, 'delete')} applied"] if report.kind == "major" else []
    if total.hidden:
        phrases.append(f"{plural(total.hidden, 'row')} of aborted writes left out")
    rows = [
        ["  directories", f"{total.directories_in:,}", f"{total.directories_out:,}", ""],
        ["  files", f"{total.files_in:,}", f"{total.files_out:,}", ""],
        ["  bytes", human_size(total.bytes_in), human_size(total.bytes_out), ""],
        ["  rows", f"{total.rows_in:,}", f"{total.rows_out:,}", ", ".join(phrases)],
    ]
    out.table((Column(""), Column("BEFORE", right=True), Column("AFTER", right=True), Column("", below=True)), rows)


def _partition_table(out: Output, parts: Sequence[PartitionReport], limit: int | None) -> None:
    """All partitions; where that is too many, failures first, and those where nothing was done are only counted."""
    total = 0
    if limit is not None and len(parts) > limit:
        idle = (_WORDS["nothing_to_do"], _WORDS["later"])
        parts = sorted(
            (part for part in parts if _outcome(part) not in idle), key=lambda part: _WORST_FIRST.index(part.outcome)
        )
        total = len(parts)
    if not parts:
        return
    columns = (
        Column("PARTITION"),
        Column("OUTCOME"),
        Column("DIRECTORIES", right=True, drop=2),
        Column("FILES", right=True, drop=3),
        Column("BYTES", right=True, drop=4),
        Column("ROWS", right=True, drop=1),
        Column("DELETES", right=True, drop=5),
        Column("TIME", right=True, drop=6),
        Column("RESULT", below=True),
    )
    out.table(columns, [_partition_row(part) for part in parts[:limit]])
    _and_more(out, total, limit)


def _partition_row(part: PartitionReport) -> list[object]:
    figures: list[object] = [None] * 6
    result = f"{part.reason} ({part.hint})" if part.hint else part.reason
    if part.outcome is Outcome.COMPACTED:
        result = ", ".join(part.outputs)
        figures = [
            f"{len(part.inputs):,} -> {len(part.outputs):,}",
            f"{part.files_in or 0:,} -> {part.files_out or 0:,}",
            f"{human_size(part.bytes_in or 0)} -> {human_size(part.bytes_out or 0)}",
            f"{part.rows_in or 0:,} -> {part.rows_out or 0:,}",
            f"{part.deletes_applied or 0:,}",
            _seconds(part.seconds),
        ]
    return [part.partition or "(table)", _outcome(part), *figures, " ".join(filter(None, (result, *part.notes)))]


def _details(out: Output, part: PartitionReport) -> None:
    """The one partition of a table without partitions."""
    if part.outcome is Outcome.COMPACTED:
        _sentence(out, f"result: {', '.join(part.outputs)}")
        if part.verified is not None:
            files, rows = plural(part.verified.files, "file"), plural(part.verified.rows, "row")
            _sentence(out, f"verified: {files} read back, {rows}, digest {part.verified.digest}")
        if part.stripes_copied:
            copied, size = plural(part.stripes_copied, "stripe"), human_size(part.bytes_copied or 0)
            reasons = ", ".join(f"{count:,} {why}" for why, count in (part.stripes_encoded or {}).items())
            anew = f"; {human_size(part.bytes_encoded or 0)} written anew" + (f" ({reasons})" if reasons else "")
            _sentence(out, f"copied: {copied} that nothing touches, {size}{anew}")
        if part.verified is not None and part.verified.rows_by_copy:
            _sentence(out, _decoded_text(part.verified))
    else:
        _sentence(out, f"{_outcome(part).text}: {part.reason}", _outcome(part).paint)
        if part.hint:
            _sentence(out, f"hint: {part.hint}", Paint.DIM)
    for note in part.notes:
        _sentence(out, f"note: {note}", Paint.DIM)


def _decoded_text(verified: Verified) -> str:
    """How much of what was copied has been read value by value."""
    rows, left = plural(verified.rows_by_copy, "row"), verified.rows_not_decoded
    if not left:
        return f"copied rows: {rows}, all decoded before"
    return f"copied rows: {rows}, {left:,} of them not decoded (--decode-copied decodes all)"


def _seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"
