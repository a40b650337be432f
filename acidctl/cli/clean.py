"""`acidctl clean`: show what no reader can reach any more, and remove it when that is asked for."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace

import click

from acidctl.api import CleanArguments, Table
from acidctl.cleaning.plan import CleanPlan, Entry
from acidctl.cleaning.report import REPORT_TYPE, Action, CleanedEntry, CleanedLocation, CleanReport, Outcome
from acidctl.cli.options import command as make_command
from acidctl.cli.options import flag_of, metastore_is_given, table_argument, table_of
from acidctl.cli.output import (
    MOST_WARNINGS,
    Cell,
    Column,
    Output,
    Paint,
    human_age,
    human_size,
    plural,
    progress,
    shown,
    wrap,
)
from acidctl.config import Config
from acidctl.errors import AcidctlError, ExitCode, UsageError
from acidctl.options import CleanOptions, option, option_of
from acidctl.state.report import Problem, document, json_names
from acidctl.values import dataclass

# Before the question of --delete; the dry run shows all.
SHOWN_VICTIMS = 20
# What `--quarantine` without a value stands for: a folder inside each location.
_WITHIN = "(within the table)"


@dataclass(frozen=True, slots=True)
class View:
    """What is to be done, and how the answer is shown."""

    delete: bool = option(False, "Remove it, after a question on a terminal; --yes answers it in scripts.")
    quarantine: str | None = option(
        None,
        "Move it to DIR on the table's storage instead; without DIR to a hidden folder within the table.",
        metavar="DIR",
        bare=_WITHIN,
    )
    undo: bool = option(False, "Bring back from quarantine what something still covers.")
    yes: bool = option(False, "Do not ask.")
    unsafe_no_retention: bool = option(False, "Do not look at ages: readers at work may lose their files.")
    long: bool = option(False, "Show what is kept too, and every guard.", "-l", "--long")

    @property
    def action(self) -> str:
        """What `Table.clean` is asked for."""
        if self.undo:
            return "undo"
        return "delete" if self.delete else "show" if self.quarantine is None else "quarantine"

    @property
    def place(self) -> str | None:
        """The directory of --quarantine, if one is named."""
        return None if self.quarantine == _WITHIN else self.quarantine


@make_command(
    "clean",
    CleanOptions,
    View,
    also=[ExitCode.STALE_PLAN],
    examples=(
        "acidctl clean /warehouse/orders --validtxns @write_ids.txt --validtxns @txns.txt",
        "acidctl clean /warehouse/orders --validtxns @lists.txt --older-than 7d --delete --yes",
        "acidctl clean /warehouse/orders --validtxns @lists.txt --quarantine /warehouse/_removed",
    ),
    arguments=[table_argument()],
)
def command(out: Output, config: Config, options: CleanOptions, view: View, *, location: str) -> ExitCode:
    """Show what no reader of TABLE can reach any more, why, since when, and how many bytes that frees.

    Nothing is changed unless --delete or --quarantine says so. --validtxns has to hold the lists of every reader that
    may still run; several of a kind are combined to what all of them see. Where a guard does not hold, nothing at that
    location is touched. The last guard looks for the rows of what goes in what covers it, and reads all of that.
    """
    _require_one_action(options, view)
    if options.profile != "strict":
        out.note("--profile does not matter here: what goes must be out of reach by the rules of both")
    table = table_of(config, location)
    asked = CleanArguments(view.action, **options.keywords(), quarantine=view.place)
    if view.unsafe_no_retention:
        asked = replace(asked, older_than=None)
    report = _run(out, table, asked, view)
    out.note(*report.notes)
    out.warn(*report.warnings[:MOST_WARNINGS])
    for part in report.partitions:
        out.note(*((f"{part.partition}: " if part.partition else "") + note for note in part.notes))
    # One entry a line, victims first.
    outcomes = [(entry, _DONE[report.action]) for entry in report.victims] + [(entry, "kept") for entry in report.kept]
    items = ({**document("clean_entry", entry), "outcome": outcome} for entry, outcome in outcomes)
    if not out.machine(lambda: document(REPORT_TYPE, report), items, (*json_names(CleanedEntry), "outcome")):
        back = command_line(location, replace(options, max_runtime=None), view) + " --undo"
        if view.place is not None:
            back += f" --quarantine {_quoted(view.place)}"
        _write_text(out, report, command_line(location, options, view), back, long=view.long)
    for error in _failures(report.failed):
        out.error(error)
    return report.exit_code


def _run(out: Output, table: Table, asked: CleanArguments, view: View) -> CleanReport:
    """Clean; nothing stands in the way of the question, and what is shown after it is how far the work is."""
    with ExitStack() as stack:
        show = stack.enter_context(progress(out, "looking into what covers", "locations"))

        def confirm(plan: CleanPlan) -> None:
            nonlocal show
            stack.close()
            _confirm(out, plan, view)
            show = stack.enter_context(progress(out, "removing" if view.delete else "moving away", "locations"))

        watched = replace(asked, progress=lambda done, total: show(done, total), confirm=confirm)
        return table.clean(**watched.keywords())


def _failures(failed: Sequence[CleanedLocation]) -> list[AcidctlError]:
    """What went wrong, for stderr: whoever looks at errors alone has to see it. What many share stands once."""
    places: dict[Problem, list[str]] = {}
    for part in failed:
        assert part.problem is not None
        places.setdefault(part.problem, []).append(part.partition)
    errors = []
    for problem, (place, *more) in places.items():
        where = f"{len(more) + 1:,} partitions: " if more else f"{place}: " if place else ""
        error = AcidctlError(where + problem.message, path=None if more else place or None, hint=problem.hint)
        error.code = problem.code
        errors.append(error)
    return errors


def _require_one_action(options: CleanOptions, view: View) -> None:
    if view.quarantine == "":
        raise UsageError(
            "the directory of --quarantine is empty",
            hint="Name a directory on the table's storage, or give --quarantine without one.",
        )
    if view.delete and view.quarantine is not None and not view.undo:
        raise UsageError("--delete and --quarantine exclude each other", hint="Give one of them.")
    if view.undo and view.delete:
        raise UsageError("--undo and --delete exclude each other", hint="Give one of them.")
    if view.undo and options.max_runtime is not None:
        raise UsageError("--max-runtime bounds what is removed, and --undo brings back", hint="Leave it out.")
    if options.skip_trash and not view.delete and view.action != "show":
        raise UsageError("--skip-trash requires --delete: nothing else uses the trash")
    if view.yes and view.action == "show":
        raise UsageError("--yes answers the question of --delete, which was not given", hint="Add --delete.")


def _confirm(out: Output, plan: CleanPlan, view: View) -> None:
    """A typed word, which no key pressed too early can be."""
    if view.yes or not view.delete:
        return
    name = plan.location.rstrip("/").rpartition("/")[2]
    what = f"{plural(plan.victims, 'entry', 'entries')} ({human_size(plan.bytes)})"
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"--delete would remove {what} and needs confirmation, but stdin is not a terminal",
            path=plan.location,
            hint="Add --yes; the same command without --delete shows what would go.",
        )
    for line in _victims(plan):
        out.ask(line + "\n")
    out.ask(f"Delete {what} of {shown(plan.location)} for good? Type {shown(name)} or delete: ")
    if sys.stdin.readline().strip() not in (name, "delete"):
        raise UsageError("aborted: nothing was deleted", path=plan.location)


def _victims(plan: CleanPlan) -> list[str]:
    """What the question is about, the largest first where there is much of it."""
    found = [(part.partition, victim) for part in plan.locations for victim in part.victims]
    more = len(found) - SHOWN_VICTIMS
    if more > 0:
        found = sorted(found, key=lambda item: -item[1].bytes)[:SHOWN_VICTIMS]
    lines = [
        f"  {shown(f'{partition}/{entry.name}' if partition else entry.name)}  {human_size(entry.bytes)}  "
        f"{shown(entry.reason)}"
        for partition, entry in found
    ]
    if more > 0:
        lines.append(f"  ... and {more:,} smaller ones; the same command without --delete shows all")
    return lines


def command_line(location: str, options: CleanOptions, view: View) -> str:
    """The command that was given, without what changes a table, to be pasted into a shell."""
    words = ["acidctl", "clean", location]
    context = click.get_current_context()
    file = context.meta.get("acidctl.config_file")
    words += [] if file is None else ["--config", file]
    if metastore_is_given(context):
        words += ["--metastore", context.meta["acidctl.metastore"]]
    for one in fields(options):
        asked, value = option_of(one), getattr(options, one.name)
        # Which profile it is does not matter here.
        if asked is None or value == one.default or one.name == "profile":
            continue
        if value is True:
            words.append(flag_of(one))
        for text in value if asked.repeat else () if value is True else (value,):
            # Seconds in plain digits, whatever their size.
            seconds = f"{text:.6f}".rstrip("0").rstrip(".") + "s" if isinstance(text, float) else None
            words += [flag_of(one), seconds or str(text)]
    return " ".join(map(_quoted, [*words, *(["--unsafe-no-retention"] if view.unsafe_no_retention else [])]))


def _quoted(word: str) -> str:
    """A word for a shell; bytes that are no text, and control characters, as bash and zsh take them."""
    if word.isprintable():
        return shlex.quote(word)
    # Three octal digits, so that what follows a byte is never taken for a part of it.
    plain = [0x20 <= byte < 0x7F and chr(byte) not in "'\\" for byte in os.fsencode(word)]
    found = zip(os.fsencode(word), plain, strict=True)
    return "$'" + "".join(chr(byte) if is_plain else f"\\{byte:03o}" for byte, is_plain in found) + "'"


_DONE = {
    Action.SHOW: "would_go",
    Action.DELETE: "deleted",
    Action.QUARANTINE: "quarantined",
    Action.UNDO: "restored",
}


_WORDS = {
    Action.DELETE: "deleted",
    Action.QUARANTINE: "moved to quarantine",
    Action.UNDO: "brought back",
}
_KEPT_WORDS = {
    "visible": "needed",
    "base": "needed",
    "originals": "needed",
    "tie": "needed",
    "too_young": "younger than the retention",
    "age_unknown": "of unknown age",
    "cover_too_young": "covered only by something younger than the retention",
    "deletes_needed": "needed",
    "foreign_name": "by names that Hive does not give",
    "guard_failed": "held back by a guard",
}


def _write_text(out: Output, report: CleanReport, command: str, back: str, *, long: bool) -> None:
    """What goes and why, what holds it back; `command` is the line that was typed, without what changes a table, and
    `back` the one that brings back.
    """
    out.line(Cell(report.location, Paint.BOLD))
    _header(out, report)
    guards = [guard for guard in report.guards if long or not guard.holds]
    if guards:
        out.line()
    for guard in guards:
        where = f" in {shown(guard.partition)}" if guard.partition else ""
        head = f"{guard.guard} {'holds' if guard.holds else 'DOES NOT HOLD'}{where}:"
        first, *more = wrap(f"{head} {shown(guard.why)}", out.width, indent="  ")
        start = min(2 + len(head), len(first))
        out.line("  ", Cell(first[2:start], None if guard.holds else Paint.BAD), first[start:])
        for line in more:
            out.line("  " + line)
    if report.victims:
        out.line()
        _table(out, report, [(part, part.victims) for part in report.partitions], Paint.BAD)
    # Without --long, what a person would wonder about.
    odd = ("guard_failed", "foreign_name", "left", "not_restored", "work_failed")
    kept = [(part, [e for e in part.kept if long or e.reason_code in odd]) for part in report.partitions]
    if any(entries for _, entries in kept):
        out.line()
        out.line(Cell("Kept:", Paint.BOLD))
        _table(out, report, kept, None)
    out.line()
    _ending(out, report, command, back)


def _header(out: Output, report: CleanReport) -> None:
    """Whose eyes it was judged by."""
    lists = f"{report.write_ids}" + (f"  {report.txns}" if report.txns else "")
    out.wrapped(["every reader sees:", *lists.split("  ")], indent="  ")
    ages = "none, ages are not looked at"
    if report.retention_seconds is not None:
        ages = f"what is younger than {_shown_age(report.retention_seconds)} stays"
    out.line(f"  retention: {ages}")
    counts = Counter(_KEPT_WORDS.get(e.reason_code, "left alone") for part in report.partitions for e in part.kept)
    if counts:
        *most, last = [f"{count} {words}" for words, count in counts.most_common()]
        out.wrapped(["kept:", *(f"{phrase}," for phrase in most), last], indent="  ")


def _shown_age(seconds: float) -> str:
    """`24h`, `90m`: the largest unit that divides it."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0 and (seconds > size or unit != "d"):
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"


def _table(
    out: Output, report: CleanReport, parts: Iterable[tuple[CleanedLocation, Sequence[Entry]]], paint: Paint | None
) -> None:
    """On a terminal each reason stands once, above the entries that share it; elsewhere each line says all."""
    grouped = out.width is not None
    partitioned = any(part.partition for part in report.partitions)
    names = [Column("PARTITION"), Column("NAME")] if partitioned and not grouped else [Column("NAME")]
    figures = [Column("FILES", right=True, drop=1), Column("SIZE", right=True), Column("AGE", right=True)]
    rows: list[list[object]] = []
    headings: dict[int, list[str]] = {}
    shown_reason: tuple[str, str] | None = None
    for part, entries in parts:
        for entry in entries:
            if grouped and shown_reason != (part.partition, entry.reason):
                shown_reason = (part.partition, entry.reason)
                where = f"{shown(part.partition) or '(table directory)'}: " if partitioned else ""
                lines = wrap(f"{where}{shown(entry.reason)}", out.width)
                headings[len(rows)] = [out.text(Cell(line, Paint.BOLD)) for line in lines]
            age = None if entry.age_seconds is None else human_age(entry.age_seconds)
            row = [Cell(("  " if grouped else "") + entry.name, paint), entry.files, human_size(entry.bytes), age]
            own = [] if grouped else [entry.reason]
            rows.append([*([part.partition] if partitioned and not grouped else ()), *row, *own])
    if rows:
        out.table([*names, *figures, *([] if grouped else [Column("WHY")])], rows, before=headings)


def _ending(out: Output, report: CleanReport, command: str, back: str) -> None:
    """What was done, in capitals when it was nothing; and the line that does it, or that undoes it."""
    victims = report.victims
    late = sum(part.outcome is Outcome.LEFT for part in report.partitions)
    later = f"{plural(late, 'partition')} left for a later run (--max-runtime)."
    files, size = sum(entry.files for entry in victims), sum(entry.bytes for entry in victims)
    what = f"{plural(len(victims), 'entry', 'entries')}, {plural(files, 'file')}, {human_size(size)}"
    if report.dry_run:
        out.line(Cell("DRY RUN: NOTHING WAS DELETED.", Paint.BOLD))
    elif victims:
        out.wrapped(f"{what} {_WORDS[report.action]}.")
    else:
        out.line(Cell(f"NOTHING WAS {_WORDS[report.action].upper()}.", Paint.BOLD))
    if late:
        out.line(later)
    if report.dry_run:
        if victims:
            for line in (f"This would delete {what}:", "", f"  {command} --delete"):
                out.line(line)
        else:
            out.wrapped(_why_nothing(report))
        return
    for part in report.partitions:
        if part.quarantine:
            out.line("  " + ("still in quarantine: " if report.action is Action.UNDO else "") + part.quarantine)
    if report.action is Action.QUARANTINE and victims:
        for line in ("That frees no space. To bring it back:", "", f"  {back}"):
            out.line(line)


def _why_nothing(report: CleanReport) -> str:
    if report.guarded:
        return "A safety check failed; nothing is removed there (see above)."
    codes = ("too_young", "age_unknown", "cover_too_young")
    waiting = sum(entry.reason_code in codes for part in report.partitions for entry in part.kept)
    if not waiting:
        return "There is nothing to remove."
    which = "one entry is" if waiting == 1 else f"{waiting:,} entries are"
    return f"There is nothing to remove yet: {which} held back by the retention (--older-than)."
