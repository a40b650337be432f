"""The answer of `acidctl clean` for eyes: what goes and why, what holds it back, and what to type next."""

from __future__ import annotations

from collections import Counter

from acidctl.cleaning.plan import Entry
from acidctl.cleaning.report import Action, CleanedLocation, CleanReport, Outcome, guards_of
from acidctl.cli.output import Cell, Column, Output, Paint, human_age, human_size, plural, render_table, shown, wrap

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
        for line in _table(out, report, [(part, list(part.victims)) for part in report.locations], Paint.BAD):
            out.line(line)
    kept = [(part, _shown_kept(part, long)) for part in report.locations]
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
        ages = f"what is younger than {_age(report.retention_seconds)} stays"
    lines.append(f"  retention: {ages}")
    counts = Counter(_KEPT_WORDS.get(e.reason_code, "left alone") for part in report.locations for e in part.kept)
    kept = [f"{count} {words}," for words, count in counts.most_common()]
    if kept:
        lines += wrap(["kept:", *kept[:-1], kept[-1].rstrip(",")], out.width, indent="  ")
    return lines


def _age(seconds: float) -> str:
    """`24h`, `90m`: the largest unit that divides it."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0 and (seconds > size or unit != "d"):
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"


def _write_guards(out: Output, report: CleanReport, long: bool) -> None:
    rows = [guard for guard in guards_of(report.locations) if long or not guard["holds"]]
    if not rows:
        return
    out.line()
    for guard in rows:
        where = f" in {shown(guard['partition'])}" if guard["partition"] else ""
        state = "holds" if guard["holds"] else "DOES NOT HOLD"
        head = f"{guard['guard']} {state}{where}:"
        text = f"{head} {shown(guard['why'])}"
        first, *more = wrap(text, out.width, indent="  ")
        paint = None if guard["holds"] else Paint.BAD
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
    partitioned = any(part.partition for part in report.locations)
    if partitioned and not grouped:
        columns.insert(0, Column("PARTITION"))
    rows: list[list[Cell]] = []
    headings: dict[int, str] = {}
    said: tuple[str, str] | None = None
    for part, entries in parts:
        for entry in entries:
            if grouped and said != (part.partition, entry.reason):
                said = (part.partition, entry.reason)
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
    victims = [entry for _, entry in report.victims]
    files = sum(entry.files for entry in victims)
    late = sum(part.outcome is Outcome.LEFT for part in report.locations)
    later = [f"{plural(late, 'partition')} left for a later run (--max-runtime)."] if late else []
    size = sum(entry.bytes for entry in victims)
    what = f"{plural(len(victims), 'entry', 'entries')}, {plural(files, 'file')}, {human_size(size)}"
    if not report.dry_run:
        said = wrap(f"{what} {_WORDS[report.action]}.", out.width)
        if not victims:
            said = [out.paint(f"NOTHING WAS {_WORDS[report.action].upper()}.", Paint.BOLD)]
        still = "still in quarantine: " if report.action is Action.UNDO else ""
        said += [*later, *(f"  {still}{shown(part.place)}" for part in report.locations if part.place)]
        if report.action is Action.QUARANTINE and victims:
            said += ["That frees no space. To bring it back:", "", f"  {back}"]
        return said
    lines = [out.paint("DRY RUN: NOTHING WAS DELETED.", Paint.BOLD), *later]
    if not victims:
        return [*lines, *wrap(_why_nothing(report), out.width)]
    return [*lines, f"This would delete {what}:", "", f"  {command} --delete"]


def _why_nothing(report: CleanReport) -> str:
    if report.guarded:
        return "Nothing goes where a guard does not hold."
    codes = ("too_young", "age_unknown", "cover_too_young")
    waiting = sum(entry.reason_code in codes for part in report.locations for entry in part.kept)
    if not waiting:
        return "There is nothing to remove."
    which = "one entry is" if waiting == 1 else f"{waiting:,} entries are"
    return f"There is nothing to remove yet: {which} held back by the retention (--older-than)."
