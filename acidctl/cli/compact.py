"""`acidctl compact`: rewrite deltas into fewer directories, prove the result, publish it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from acidctl.api import Table, open_table
from acidctl.cli.amounts import column_names, duration, duration_or_none, fraction, size
from acidctl.cli.compactview import write_plan, write_report
from acidctl.cli.interrupts import interruptible
from acidctl.cli.options import SnapshotOptions, option, read_text, table_options
from acidctl.cli.options import command as make_command
from acidctl.cli.output import Output, dump_json, plural, say_assumed, shown
from acidctl.cli.progress import progress, work_progress
from acidctl.compaction.plan import CompactionPlan, parse, to_json
from acidctl.compaction.report import CompactionReport, Outcome, PartitionReport
from acidctl.config import Config
from acidctl.engine import EngineChoice, make_engine
from acidctl.errors import AcidctlError, ExitCode, UsageError

if TYPE_CHECKING:
    from acidctl.compaction.run import Prepared
    from acidctl.compaction.run_log import RunLog
    from acidctl.engine.base import Task, TaskOutcome
    from acidctl.maintenance.limits import TimeLimit


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says beside the table and its snapshot."""

    kind: str
    dry_run: bool
    plan_out: str | None
    plan: str | None
    accept_edited: bool
    engine: str
    master: str | None
    spark_conf: tuple[str, ...]
    target: str
    visibility_txn: int | None
    compression: str | None
    memory: int | None
    parallelism: int | None
    max_bytes: int | None
    max_partitions: int | None
    max_runtime: float | None
    grace: float
    only_if_needed: bool
    delta_num_threshold: int | None
    delta_pct_threshold: float | None
    run_log: str | None
    limit: int
    assume_committed: bool
    assume_exclusive: bool
    drop_columns: tuple[str, ...]
    unsafe_break_lock: bool
    no_header: bool

    @property
    def rows(self) -> int | None:
        """How many partitions a text names at most; None for all."""
        return self.limit or None

    def settings(self) -> dict[str, Any]:
        """The keyword arguments by which the library takes what decides a plan."""
        names = ("target", "visibility_txn", "compression", "max_bytes", "max_partitions", "only_if_needed")
        limits = {"delta_num": self.delta_num_threshold, "delta_pct": self.delta_pct_threshold}
        agreed = ("assume_committed", "assume_exclusive", "drop_columns", "unsafe_break_lock")
        return {**{name: getattr(self, name) for name in (*names, *agreed)}, **limits}


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
@option("--plan", metavar="FILE", help="Carry out a saved plan, unless it or the table has changed since.")
@option(
    "--accept-edited",
    is_flag=True,
    help="With --plan: it was edited. Partitions may be left out, table.writer and cuts be changed; nothing else.",
)
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
@option("--memory", callback=size, metavar="SIZE", help="Memory of all workers together, such as 4G.")
@option("--parallelism", type=click.IntRange(min=1), metavar="N", help="Tasks at a time.  [default: one per core]")
@option("--max-bytes", callback=size, metavar="SIZE", help="Read at most so much in this run, whole partitions only.")
@option(
    "--max-partitions", type=click.IntRange(min=1), metavar="N", help="Compact at most so many, in most need first."
)
@option(
    "--max-runtime",
    callback=duration,
    metavar="DURATION",
    help="Begin no partition after so long: 45s, 90m, 2h. What is left is reported, exit code 3.",
)
@option(
    "--grace",
    callback=duration_or_none,
    default="5m",
    show_default=True,
    metavar="DURATION",
    help="What has begun when --max-runtime is over may take so much longer; then it is given up.",
)
@option("--only-if-needed", is_flag=True, help="Leave partitions alone whose deltas are below both thresholds.")
@option(
    "--delta-num-threshold",
    type=click.IntRange(min=0),
    metavar="N",
    help="More deltas than this need a compaction.  [default: the table's property, else Hive's 10]",
)
@option(
    "--delta-pct-threshold",
    callback=fraction,
    metavar="FRACTION",
    help="Deltas of more than this part of the base's size need a major one.  [default: the table's, else Hive's 0.1]",
)
@option("--run-log", metavar="FILE", help="Append a JSON line for each partition as soon as it is finished.")
@option(
    "--limit",
    type=click.IntRange(min=0),
    default=50,
    show_default=True,
    metavar="N",
    help="Name at most N partitions in a text; 0 names all.",
)
@option("--assume-committed", is_flag=True, help="Everything on disk is committed; needed where no list is given.")
@option("--assume-exclusive", is_flag=True, help="Nobody else reads or writes the table during this run.")
@option(
    "--drop-columns",
    callback=column_names,
    metavar="NAMES",
    help="Columns of the files, separated by commas, whose values --schema may cost for good; others are refused.",
)
@option("--unsafe-break-lock", is_flag=True, help="Take over the lock of a run elsewhere that is known to have ended.")
@option("--no-header", is_flag=True, help="CSV without its first line.")
def command(out: Output, config: Config, *, options: SnapshotOptions, **given: Any) -> ExitCode:
    """Merge the deltas of TABLE (minor), or rewrite it as a base with deletes applied (major).

    The result is verified before it is published by a rename; nothing is ever deleted: what became obsolete stays
    until `acidctl clean` or Hive's cleaner removes it.
    """
    asked = Asked(**given)
    _check(asked)
    limit = _limit(asked)
    choice = engine_choice(
        config,
        engine=asked.engine,
        master=asked.master,
        spark_conf=asked.spark_conf,
        parallelism=asked.parallelism,
        memory=asked.memory,
    )
    table = open_table(options.table, storage_options=options.storage_options)
    for name, path in (("--plan-out", asked.plan_out), ("--run-log", asked.run_log)):
        if path is not None:
            table.require_outside(path, name)
    if asked.dry_run or asked.plan_out is not None:
        prepared = _prepared(out, table, options, asked, limit)
        _remark(out, prepared)
        if asked.plan_out is not None:
            _save(out, prepared.plan, asked.plan_out)
        write_plan(out, prepared.plan, with_header=not asked.no_header, limit=asked.rows)
        return prepared.plan.exit_code
    log = None if asked.run_log is None else _run_log(out, table, asked)
    try:
        prepared = _prepared(out, table, options, asked, limit)
        _remark(out, prepared)
        report = _run(out, prepared, choice, log)
    except BaseException as error:
        if log is not None:
            log.failed(error)
        raise
    if log is not None:
        log.run(report)
    write_report(out, report, with_header=not asked.no_header, limit=asked.rows)
    for part in report.partitions:
        if part.outcome is Outcome.FAILED:
            out.error(_failure(part))
    return report.exit_code


def _limit(asked: Asked) -> TimeLimit | None:
    """The time begins now: planning is a part of the run."""
    from acidctl.maintenance.limits import TimeLimit

    return None if asked.max_runtime is None else TimeLimit.of(asked.max_runtime, asked.grace)


def _run_log(out: Output, table: Table, asked: Asked) -> RunLog:
    from acidctl.compaction.run_log import RunLog
    from acidctl.maintenance.limits import wall_clock

    assert asked.run_log is not None
    return RunLog(asked.run_log, table.location, asked.kind, now=wall_clock, notify=out.warn)


def _remark(out: Output, prepared: Prepared) -> None:
    say_assumed(out, prepared.plan.assumed)
    for text in prepared.plan.notes:
        out.note(text)


def _failure(part: PartitionReport) -> AcidctlError:
    """What went wrong with a partition, for stderr: whoever looks at errors alone has to see it."""
    where = f"{part.partition}: " if part.partition else ""
    error = AcidctlError(where + part.reason, path=part.partition or None, hint=part.hint)
    error.code = part.reason_code
    return error


def _check(asked: Asked) -> None:
    if asked.accept_edited and asked.plan is None:
        raise UsageError("--accept-edited is about the plan of --plan, and there is none")
    if asked.plan is not None and (asked.plan_out is not None or asked.dry_run):
        raise UsageError("--plan carries a saved plan out, so it goes with neither --dry-run nor --plan-out")
    decided = (asked.visibility_txn, asked.compression, asked.max_bytes, asked.max_partitions)
    if asked.plan is not None and (
        asked.target != "auto"
        or asked.only_if_needed
        or asked.drop_columns
        or any(value is not None for value in decided)
    ):
        raise UsageError("--plan names a plan that is made: target, visibility, codec, bounds and columns are in it")


def _prepared(
    out: Output,
    table: Table,
    options: SnapshotOptions,
    asked: Asked,
    limit: TimeLimit | None,
) -> Prepared:
    if asked.plan is not None:
        return _saved(table, options, asked, limit)
    with progress(out, "looking into files", "files") as watch:
        return table.prepare_compaction(
            asked.kind,
            partitions=options.partitions,
            progress=watch,
            limit=limit,
            **options.view(),
            **asked.settings(),
        )


def _saved(table: Table, options: SnapshotOptions, asked: Asked, limit: TimeLimit | None) -> Prepared:
    """The plan of --plan. That nobody else uses the table is agreed to when it is so: now."""
    if options.partitions or options.validtxns or options.as_of is not None or options.schema is not None:
        raise UsageError("--plan names a plan that is made: partitions, lists and schema are in it")
    plan = parse(read_text(f"@{asked.plan}", "--plan"), accept_edited=asked.accept_edited)
    if plan.kind.value != asked.kind:
        raise UsageError(f"the plan in {asked.plan} is for a {plan.kind.value} compaction, not for a {asked.kind} one")
    if plan.assume_exclusive and not asked.assume_exclusive:
        raise UsageError(
            f"the plan in {asked.plan} is for a table that nobody else uses while it runs",
            path=asked.plan,
            hint="Add --assume-exclusive if that is so now.",
        )
    if not asked.accept_edited:
        return table.saved_compaction(plan, unsafe_break_lock=asked.unsafe_break_lock, limit=limit)
    return table.edited_compaction(
        plan,
        assume_committed=asked.assume_committed,
        assume_exclusive=asked.assume_exclusive,
        unsafe_break_lock=asked.unsafe_break_lock,
        limit=limit,
    )


def _save(out: Output, plan: CompactionPlan, path: str) -> None:
    from acidctl.rows.export import write_bytes

    write_bytes(Path(path), [(dump_json(to_json(plan), indent=1) + "\n").encode("utf-8", "surrogateescape")])
    out.note(f"wrote the plan to {shown(path)}; --plan carries it out")


def _run(out: Output, prepared: Prepared, choice: EngineChoice, log: RunLog | None) -> CompactionReport:
    """Compact; Ctrl-C and SIGTERM end it alike."""
    told = None if log is None else log.partition
    if prepared.idle:
        return prepared.start(_Idle(), told=told).run()
    engine, why = make_engine(choice, prepared.bytes_in, notify=out.warn, verbose=out.verbose)
    out.note(why)
    with closing(engine), ExitStack() as stack:
        watch = stack.enter_context(work_progress(out, f"compacting ({engine.name})"))
        run = prepared.start(engine, watch=watch, told=told)
        stack.enter_context(interruptible(run))
        try:
            return run.run()
        except KeyboardInterrupt:
            done = plural(run.compacted, "partition")
            out.warn(f"interrupted: {done} compacted and verified; nothing else has been changed")
            raise


class _Idle:
    """The engine of a run without work."""

    name = "none"

    def run(self, specs: Sequence[Task]) -> Iterator[TaskOutcome]:
        """Nothing."""
        return iter(())

    def close(self) -> None:
        """Nothing was started."""


# --- Which engine the command line and [spark] of the configuration file ask for.


def engine_choice(
    config: Config,
    *,
    engine: str,
    master: str | None,
    spark_conf: tuple[str, ...],
    parallelism: int | None,
    memory: int | None,
) -> EngineChoice:
    """The engine; settings of the command line win over the file's, and `--engine local` over all of the file's."""
    own = dict(config.spark)
    configured = own.pop("master", None)
    if configured is not None and not isinstance(configured, str):
        raise UsageError("[spark] in the configuration file: master has to be a text such as yarn")
    conf = dict(_flat("", own))
    for text in spark_conf:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            # What follows the key may be a secret, however it was set apart.
            start = re.split(r"[=:\s]", text, maxsplit=1)[0]
            raise UsageError(
                f"--spark-conf {start!r} is no Spark setting", hint="Write it as spark.executor.memory=4g, for example."
            )
        conf[key] = value
    if engine == "local" and master is None and not spark_conf:
        conf = {}
    elif master is None:
        master = configured
    if engine == "auto" and master is None and not spark_conf:
        conf = {}
    return EngineChoice(engine, master, conf, None, parallelism, memory)


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
