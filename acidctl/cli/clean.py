"""`acidctl clean`: show what no reader can reach any more, and remove it when that is asked for."""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace

import click

from acidctl.api import CleanArguments, Table, open_table
from acidctl.cleaning.plan import CleanPlan, Entry
from acidctl.cleaning.report import (
    REPORT_TYPE,
    Action,
    CleanedEntry,
    CleanedLocation,
    CleanReport,
    Outcome,
)
from acidctl.cli.options import HEADER, flag_of, table_argument
from acidctl.cli.options import command as make_command
from acidctl.cli.output import (
    Cell,
    Column,
    Format,
    Output,
    Paint,
    encode,
    human_age,
    human_size,
    plural,
    progress,
    render_table,
    shown,
    wrap,
)
from acidctl.config import Config
from acidctl.errors import AcidctlError, ExitCode, UsageError
from acidctl.options import CleanOptions, option, option_of
from acidctl.state.report import Problem, document, json_names, to_json

_SHOWN_WARNINGS = 10
# Before the question of --delete; the dry run shows all.
_SHOWN_VICTIMS = 20
# What `--quarantine` without a value stands for: a folder inside each location.
_WITHIN = "(within the table)"


def _age_text(seconds: float) -> str:
    """Seconds as `_age` takes them: plain digits, whatever their size."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


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
    no_header: bool = option(False, HEADER)

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
    exits=(
        ExitCode.DONE,
        ExitCode.FAILED,
        ExitCode.USAGE,
        ExitCode.FINDINGS,
        ExitCode.NO_SUCH_TABLE,
        ExitCode.NOT_ACID,
        ExitCode.DAMAGED,
        ExitCode.STORAGE,
        ExitCode.STALE_PLAN,
        ExitCode.INTERRUPTED,
    ),
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
    location is touched.
    """
    _require_one_action(options, view)
    if options.profile != "strict":
        out.note("--profile does not matter here: what goes must be out of reach by the rules of both")
    table = open_table(location, storage_options=config.storage_options(location))
    asked = CleanArguments(view.action, **options.keywords(), quarantine=view.place)
    if view.unsafe_no_retention:
        asked = replace(asked, older_than=None)
    report = _run(out, table, asked, view)
    _remark(out, report)
    if out.form is Format.TEXT:
        back = command_line(location, replace(options, max_runtime=None), view) + " --undo"
        if view.place is not None:
            back += f" --quarantine {_quoted(view.place)}"
        write_text(out, report, command_line(location, options, view), back, long=view.long)
    elif out.form is Format.JSON:
        out.json(document(REPORT_TYPE, report))
    else:
        _write_lines(out, report, view)
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
        out.terminal.stderr.write(encode(line + "\n"))
    question = f"Delete {what} of {shown(plan.location)} for good? Type {shown(name)} or delete: "
    out.terminal.stderr.write(encode(question))
    out.terminal.stderr.flush()
    if sys.stdin.readline().strip() not in (name, "delete"):
        raise UsageError("aborted: nothing was deleted", path=plan.location)


def _victims(plan: CleanPlan) -> list[str]:
    """What the question is about, the largest first where there is much of it."""
    found = [(part.partition, victim) for part in plan.locations for victim in part.victims]
    more = len(found) - _SHOWN_VICTIMS
    if more > 0:
        found = sorted(found, key=lambda item: -item[1].bytes)[:_SHOWN_VICTIMS]
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
    file = click.get_current_context().meta.get("acidctl.config_file")
    words += [] if file is None else ["--config", file]
    for one in fields(options):
        asked, value = option_of(one), getattr(options, one.name)
        # Which profile it is does not matter here.
        if asked is None or value == one.default or one.name == "profile":
            continue
        if value is True:
            words.append(flag_of(one))
        for text in value if asked.repeat else () if value is True else (value,):
            words += [flag_of(one), _age_text(text) if isinstance(text, float) else str(text)]
    return " ".join(map(_quoted, [*words, *(["--unsafe-no-retention"] if view.unsafe_no_retention else [])]))


def _quoted(word: str) -> str:
    """A word for a shell; bytes that are no text, and control characters, as bash and zsh take them."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(_ansi_c(byte) for byte in os.fsencode(word)) + "'"


def _ansi_c(byte: int) -> str:
    """A byte within `$'...'`: three octal digits, so that what follows is never taken for a part of it."""
    plain = 0x20 <= byte < 0x7F and chr(byte) not in "'\\"
    return chr(byte) if plain else f"\\{byte:03o}"


def _remark(out: Output, report: CleanReport) -> None:
    for note in report.notes:
        out.note(note)
    for warning in report.warnings[:_SHOWN_WARNINGS]:
        out.warn(warning)
    for part in report.partitions:
        for note in part.notes:
            out.note((f"{part.partition}: " if part.partition else "") + note)


_DONE = {
    Action.SHOW: "would_go",
    Action.DELETE: "deleted",
    Action.QUARANTINE: "quarantined",
    Action.UNDO: "restored",
}


def _write_lines(out: Output, report: CleanReport, view: View) -> None:
    """One entry a line, victims first."""
    lines = [(entry, _DONE[report.action]) for entry in report.victims] + [(entry, "kept") for entry in report.kept]
    if out.form is Format.JSONL:
        out.json_lines({**document("clean_entry", entry), "outcome": outcome} for entry, outcome in lines)
        return
    names = (*json_names(CleanedEntry), "outcome")
    out.csv(names, ([*to_json(entry).values(), outcome] for entry, outcome in lines), with_header=not view.no_header)


# --- The answer of `acidctl clean` for eyes: what goes and why, what holds it back, and what to type next.


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
    "guard_failed": "held back by a guard",
}


def write_text(out: Output, report: CleanReport, command: str, back: str, *, long: bool) -> None:
    """The whole answer; `command` is the line that was typed, without what changes a table, `back` brings back."""
    out.line(out.paint(shown(report.location), Paint.BOLD))
    for line in _header(out, report):
        out.line(line)
    _write_guards(out, report, long)
    if report.victims:
        out.line()
        for line in _table(out, report, [(part, list(part.victims)) for part in report.partitions], Paint.BAD):
            out.line(line)
    kept = [(part, _shown_kept(part, long)) for part in report.partitions]
    if any(entries for _, entries in kept):
        out.line()
        out.line(out.paint("Kept:", Paint.BOLD))
        for line in _table(out, report, kept, None):
            out.line(line)
    out.line()
    for line in _ending(out, report, command, back):
        out.line(line)


def _header(out: Output, report: CleanReport) -> list[str]:
    """Whose eyes it was judged by."""
    lists = f"{report.write_ids}" + (f"  {report.txns}" if report.txns else "")
    lines = wrap(["every reader sees:", *lists.split("  ")], out.width, indent="  ")
    ages = "none, ages are not looked at"
    if report.retention_seconds is not None:
        ages = f"what is younger than {_shown_age(report.retention_seconds)} stays"
    lines.append(f"  retention: {ages}")
    counts = Counter(_KEPT_WORDS.get(e.reason_code, "left alone") for part in report.partitions for e in part.kept)
    kept = [f"{count} {words}," for words, count in counts.most_common()]
    if kept:
        lines += wrap(["kept:", *kept[:-1], kept[-1].rstrip(",")], out.width, indent="  ")
    return lines


def _shown_age(seconds: float) -> str:
    """`24h`, `90m`: the largest unit that divides it."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0 and (seconds > size or unit != "d"):
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"


def _write_guards(out: Output, report: CleanReport, long: bool) -> None:
    rows = [guard for guard in report.guards if long or not guard.holds]
    if not rows:
        return
    out.line()
    for guard in rows:
        where = f" in {shown(guard.partition)}" if guard.partition else ""
        state = "holds" if guard.holds else "DOES NOT HOLD"
        head = f"{guard.guard} {state}{where}:"
        text = f"{head} {shown(guard.why)}"
        first, *more = wrap(text, out.width, indent="  ")
        paint = None if guard.holds else Paint.BAD
        out.line("  " + out.paint(first[2 : 2 + len(head)], paint) + first[2 + len(head) :])
        for line in more:
            out.line("  " + line)


def _shown_kept(part: CleanedLocation, long: bool) -> list[Entry]:
    """Everything with --long; else what a person would wonder about."""
    if long:
        return list(part.kept)
    return [
        entry for entry in part.kept if entry.reason_code in ("guard_failed", "left", "not_restored", "work_failed")
    ]


def _table(
    out: Output, report: CleanReport, parts: list[tuple[CleanedLocation, list[Entry]]], paint: Paint | None
) -> list[str]:
    """On a terminal each reason stands once, above the entries that share it; elsewhere each line says all."""
    grouped = out.width is not None
    columns = [
        Column("NAME"),
        Column("FILES", right=True, drop=1),
        Column("SIZE", right=True),
        Column("AGE", right=True),
    ]
    if not grouped:
        columns.append(Column("WHY"))
    partitioned = any(part.partition for part in report.partitions)
    if partitioned and not grouped:
        columns.insert(0, Column("PARTITION"))
    rows: list[list[Cell]] = []
    headings: dict[int, str] = {}
    shown_reason: tuple[str, str] | None = None
    for part, entries in parts:
        for entry in entries:
            if grouped and shown_reason != (part.partition, entry.reason):
                shown_reason = (part.partition, entry.reason)
                where = f"{shown(part.partition) or '(table directory)'}: " if partitioned else ""
                lines = wrap(f"{where}{shown(entry.reason)}", out.width)
                headings[len(rows)] = "\n".join(out.paint(line, Paint.BOLD) for line in lines)
            row = [
                Cell(("  " if grouped else "") + shown(entry.name), paint),
                Cell(str(entry.files)),
                Cell(human_size(entry.bytes)),
                Cell("" if entry.age_seconds is None else human_age(entry.age_seconds)),
            ]
            if not grouped:
                row.append(Cell(shown(entry.reason)))
            rows.append([Cell(shown(part.partition)), *row] if partitioned and not grouped else row)
    return render_table(out, columns, rows, before=headings) if rows else []


def _ending(out: Output, report: CleanReport, command: str, back: str) -> list[str]:
    """What was done, in capitals when it was nothing; and the line that does it, or that undoes it."""
    victims = report.victims
    files = sum(entry.files for entry in victims)
    late = sum(part.outcome is Outcome.LEFT for part in report.partitions)
    later = [f"{plural(late, 'partition')} left for a later run (--max-runtime)."] if late else []
    size = sum(entry.bytes for entry in victims)
    what = f"{plural(len(victims), 'entry', 'entries')}, {plural(files, 'file')}, {human_size(size)}"
    if not report.dry_run:
        answer = wrap(f"{what} {_WORDS[report.action]}.", out.width)
        if not victims:
            answer = [out.paint(f"NOTHING WAS {_WORDS[report.action].upper()}.", Paint.BOLD)]
        still = "still in quarantine: " if report.action is Action.UNDO else ""
        answer += [*later, *(f"  {still}{shown(part.quarantine)}" for part in report.partitions if part.quarantine)]
        if report.action is Action.QUARANTINE and victims:
            answer += ["That frees no space. To bring it back:", "", f"  {back}"]
        return answer
    lines = [out.paint("DRY RUN: NOTHING WAS DELETED.", Paint.BOLD), *later]
    if not victims:
        return [*lines, *wrap(_why_nothing(report), out.width)]
    return [*lines, f"This would delete {what}:", "", f"  {command} --delete"]


def _why_nothing(report: CleanReport) -> str:
    if report.guarded:
        return "A safety check failed; nothing is removed there (see above)."
    codes = ("too_young", "age_unknown", "cover_too_young")
    waiting = sum(entry.reason_code in codes for part in report.partitions for entry in part.kept)
    if not waiting:
        return "There is nothing to remove."
    which = "one entry is" if waiting == 1 else f"{waiting:,} entries are"
    return f"There is nothing to remove yet: {which} held back by the retention (--older-than)."
