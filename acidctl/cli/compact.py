"""`acidctl compact`: rewrite deltas into fewer directories, prove the result, publish it."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from acidctl.cli.compactview import write_plan, write_report
from acidctl.cli.options import SnapshotOptions, option, read_text, table_options
from acidctl.cli.options import command as make_command
from acidctl.cli.output import Output, dump_json, plural, say_assumed, shown
from acidctl.cli.progress import progress, work_progress
from acidctl.compactreport import CompactionReport, Outcome, PartitionReport
from acidctl.config import Config
from acidctl.errors import AcidctlError, ExitCode, UsageError
from acidctl.jobs.engines import EngineChoice
from acidctl.plan import CompactionPlan, parse, to_json
from acidctl.table import Table, open_table

if TYPE_CHECKING:
    from acidctl.jobs.compact import Compaction, Prepared
    from acidctl.jobs.spec import TaskOutcome, TaskSpec

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
# The modules whose calls go into libraries that write; and when to try again what came during a call.
_WRITERS = frozenset({"acidctl.orc.arrowwriter", "acidctl.orc.pyorcwriter"})
_AGAIN_SECONDS = 0.02
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Bytes: a number, or one with K, M, G or T behind it (powers of 1024)."""
    if value is None:
        return None
    found = _SIZE.fullmatch(value.strip())
    if found is None or float(found[1]) <= 0:
        raise click.BadParameter(f"{value!r} is no size; write it as 512M or 20G", ctx, param)
    return int(float(found[1]) * (1 << _UNITS[found[2].lower()]))


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says beside the table and its snapshot."""

    kind: str
    dry_run: bool
    plan_out: str | None
    plan: str | None
    engine: str
    master: str | None
    spark_conf: tuple[str, ...]
    target: str
    visibility_txn: int | None
    compression: str | None
    memory: int | None
    parallelism: int | None
    max_bytes: int | None
    assume_committed: bool
    assume_exclusive: bool
    unsafe_break_lock: bool
    no_header: bool

    def settings(self) -> dict[str, Any]:
        """The keyword arguments by which the library takes what decides a plan."""
        names = ("target", "visibility_txn", "compression", "max_bytes")
        agreed = ("assume_committed", "assume_exclusive", "unsafe_break_lock")
        return {name: getattr(self, name) for name in (*names, *agreed)}


@make_command(
    "compact",
    exits=(
        ExitCode.DONE,
        ExitCode.FAILED,
        ExitCode.USAGE,
        ExitCode.FINDINGS,
        ExitCode.NO_SUCH_TABLE,
        ExitCode.NOT_ACID,
        ExitCode.NOT_ENOUGH_HISTORY,
        ExitCode.DAMAGED,
        ExitCode.STORAGE,
        ExitCode.STALE_PLAN,
        ExitCode.INTERRUPTED,
    ),
    examples=(
        "acidctl compact major /warehouse/orders --validtxns @write_ids.txt --validtxns @txns.txt",
        "acidctl compact major /warehouse/orders --assume-committed --dry-run",
        "acidctl compact minor /warehouse/orders --assume-committed --assume-exclusive",
    ),
)
@click.argument("kind", metavar="minor|major", type=click.Choice(["minor", "major"]))
@table_options
@option("-n", "--dry-run", is_flag=True, help="Show the plan and change nothing; -o json prints what --plan takes.")
@option("--plan-out", metavar="FILE", help="Save the plan and change nothing.")
@option("--plan", metavar="FILE", help="Carry out a saved plan, unless the table has changed since.")
@option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Where the work is done: in processes of this machine, or as a Spark job.",
)
@option("--master", metavar="URL", help="Spark's master: local[N], spark://..., yarn, k8s://...")
@option("--spark-conf", metavar="KEY=VALUE", multiple=True, help="A Spark setting; repeatable.")
@option(
    "--target",
    type=click.Choice(["auto", "hive3", "hive4"]),
    default="auto",
    show_default=True,
    help="Which Hive has to read the result; auto takes the one that wrote the table.",
)
@option(
    "--visibility-txn",
    type=click.IntRange(min=1),
    metavar="TXN",
    help="Make the result visible with this transaction (`_v` names, Hive 4 only).",
)
@option(
    "--compression",
    type=click.Choice(["none", "zlib", "snappy", "lz4", "zstd"]),
    help="Codec of the result.  [default: that of the table]",
)
@option("--memory", callback=_size, metavar="SIZE", help="Memory of all workers together, such as 4G.")
@option("--parallelism", type=click.IntRange(min=1), metavar="N", help="Tasks at a time.  [default: one per core]")
@option("--max-bytes", callback=_size, metavar="SIZE", help="Read at most so much in this run, whole partitions only.")
@option("--assume-committed", is_flag=True, help="Everything on disk is committed; needed where no list is given.")
@option("--assume-exclusive", is_flag=True, help="Nobody else reads or writes the table during this run.")
@option("--unsafe-break-lock", is_flag=True, help="Take over the lock of a run elsewhere that is known to have ended.")
@option("--no-header", is_flag=True, help="CSV without its first line.")
def command(out: Output, config: Config, *, options: SnapshotOptions, **given: Any) -> ExitCode:
    """Merge the deltas of TABLE (minor), or rewrite it as a base with deletes applied (major).

    The result is verified before it is published by a rename; nothing is ever deleted: what became obsolete stays
    until `acidctl clean` or Hive's cleaner removes it.
    """
    asked = Asked(**given)
    _check(asked)
    choice = _choice(config, asked)
    table = open_table(options.table, storage_options=options.storage_options)
    prepared = _prepared(out, table, options, asked)
    say_assumed(out, prepared.plan.assumed)
    for text in prepared.plan.notes:
        out.note(text)
    if asked.plan_out is not None:
        _save(out, prepared.plan, asked.plan_out)
    if asked.dry_run or asked.plan_out is not None:
        write_plan(out, prepared.plan, with_header=not asked.no_header)
        return ExitCode.DONE
    report = _run(out, prepared, choice)
    write_report(out, report, with_header=not asked.no_header)
    for part in report.partitions:
        if part.outcome is Outcome.FAILED:
            out.error(_failure(part))
    return report.exit_code


def _failure(part: PartitionReport) -> AcidctlError:
    """What went wrong with a partition, for stderr: whoever looks at errors alone has to see it."""
    where = f"{part.partition}: " if part.partition else ""
    error = AcidctlError(where + part.reason, path=part.partition or None, hint=part.hint)
    error.code = part.reason_code
    return error


def _check(asked: Asked) -> None:
    if asked.plan is not None and (asked.plan_out is not None or asked.dry_run):
        raise UsageError("--plan carries a saved plan out, so it goes with neither --dry-run nor --plan-out")
    decided = (asked.visibility_txn, asked.compression, asked.max_bytes)
    if asked.plan is not None and (asked.target != "auto" or any(value is not None for value in decided)):
        raise UsageError("--plan names a plan that is made: target, visibility, codec and bytes are in it")


def _choice(config: Config, asked: Asked) -> EngineChoice:
    """The engine as the command line and [spark] of the configuration file say."""
    own = dict(config.spark)
    master = asked.master
    configured = own.pop("master", None)
    if configured is not None and not isinstance(configured, str):
        raise UsageError("[spark] in the configuration file: master has to be a text such as yarn")
    conf = dict(_flat("", own))
    for text in asked.spark_conf:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise UsageError(
                f"--spark-conf {text!r} is no Spark setting", hint="Write it as spark.executor.memory=4g, for example."
            )
        conf[key] = value
    if asked.engine == "local" and master is None and not asked.spark_conf:
        conf = {}
    elif master is None:
        master = configured
    if asked.engine == "auto" and master is None and not asked.spark_conf:
        conf = {}
    return EngineChoice(asked.engine, master, conf, None, asked.parallelism, asked.memory)


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """TOML's nested tables as Spark's dotted keys."""
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping):
            yield from _flat(name, value)
        elif name.startswith("spark."):
            yield name, str(value).lower() if isinstance(value, bool) else str(value)
        else:
            raise UsageError(f"[spark] in the configuration file: {name} is neither master nor a key like spark.x.y")


def _prepared(out: Output, table: Table, options: SnapshotOptions, asked: Asked) -> Prepared:
    if asked.plan is not None:
        return _saved(table, options, asked)
    with progress(out, "looking into files", "files") as watch:
        return table.prepare_compaction(
            asked.kind, partitions=options.partitions, progress=watch, **options.view(), **asked.settings()
        )


def _saved(table: Table, options: SnapshotOptions, asked: Asked) -> Prepared:
    """The plan of --plan. That nobody else uses the table is agreed to when it is so: now."""
    if options.partitions or options.validtxns or options.as_of is not None or options.schema is not None:
        raise UsageError("--plan names a plan that is made: partitions, lists and schema are in it")
    plan = parse(read_text(f"@{asked.plan}", "--plan"))
    if plan.kind.value != asked.kind:
        raise UsageError(f"the plan in {asked.plan} is for a {plan.kind.value} compaction, not for a {asked.kind} one")
    if plan.assume_exclusive and not asked.assume_exclusive:
        raise UsageError(
            f"the plan in {asked.plan} is for a table that nobody else uses while it runs",
            path=asked.plan,
            hint="Add --assume-exclusive if that is so now.",
        )
    return table.saved_compaction(plan, unsafe_break_lock=asked.unsafe_break_lock)


def _save(out: Output, plan: CompactionPlan, path: str) -> None:
    from acidctl.export import write_bytes

    write_bytes(Path(path), [(dump_json(to_json(plan), indent=1) + "\n").encode("utf-8", "surrogateescape")])
    out.note(f"wrote the plan to {shown(path)}; --plan carries it out")


def _run(out: Output, prepared: Prepared, choice: EngineChoice) -> CompactionReport:
    """Compact; Ctrl-C and SIGTERM end it alike."""
    from acidctl.jobs.engines import make_engine

    if prepared.idle:
        return prepared.start(_Idle()).run()
    engine, why = make_engine(choice, prepared.bytes_in, notify=out.warn, verbose=out.verbose)
    out.note(why)
    with ExitStack() as stack:
        stack.callback(engine.close)
        watch = stack.enter_context(work_progress(out, f"compacting ({engine.name})"))
        run = prepared.start(engine, watch=watch)
        stack.enter_context(_interruptible(run))
        try:
            return run.run()
        except KeyboardInterrupt:
            done = plural(run.compacted, "partition")
            out.warn(f"interrupted: {done} compacted and verified; nothing else has been changed")
            raise


class _Idle:
    """The engine of a run without work."""

    name = "none"

    def run(self, specs: Sequence[TaskSpec]) -> Iterator[TaskOutcome]:
        """Nothing."""
        return iter(())

    def close(self) -> None:
        """Nothing was started."""


def _called_by_writer(frame: FrameType | None) -> bool:
    """Whether a library that writes ORC is calling back: an exception there ends its C++ code, and the process."""
    caller = None if frame is None else frame.f_back
    while caller is not None:
        if caller.f_globals.get("__name__") in _WRITERS:
            return True
        caller = caller.f_back
    return False


@contextmanager
def _interruptible(run: Compaction) -> Iterator[None]:
    """Let SIGTERM end this run as Ctrl-C does; what comes after the first of them does not disturb the tidying up.

    Signals belong to the main thread; in another one nothing changes.
    """
    done = False
    again: threading.Timer | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal done, again
        if done:
            return
        engaged = run.cancel()
        if engaged and _called_by_writer(frame):
            again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        done = True
        if engaged:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if again is not None:
            again.cancel()
        for number, handler in before.items():
            signal.signal(number, handler)
