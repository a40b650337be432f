"""Progress on stderr, for a person who watches; Rich is loaded only when there is something to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from acidctl.cli.output import Output, human_size, shown

if TYPE_CHECKING:
    from acidctl.compaction.run import Progress

# Takes what is done so far and the total, None when nobody knows it.
Report = Callable[[int, int | None], None]
# The same, and what to write beside the bar.
_Show = Callable[[int, int | None, str], None]

# What is done sooner needs no bar.
_PATIENCE = 0.5


@contextmanager
def progress(out: Output, title: str, unit: str) -> Iterator[Report]:
    """Show how far work is: a bar and the time left, or a count where no total is known."""
    if not out.shows_progress:
        yield lambda done, total: None
        return
    started = time.monotonic()
    show: _Show | None = None
    with ExitStack() as stack:

        def report(done: int, total: int | None) -> None:
            nonlocal show
            if show is None:
                if time.monotonic() - started < _PATIENCE:
                    return
                show = stack.enter_context(_bar(title, color=out.terminal.error_color))
            show(done, total, f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}")

        yield report


@contextmanager
def _bar(title: str, *, color: bool) -> Iterator[_Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, force_terminal=True, no_color=not color)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, text="")

        def show(done: int, total: int | None, text: str) -> None:
            bar.update(task, completed=done, total=total, text=text)

        yield show


@contextmanager
def work_progress(out: Output, title: str) -> Iterator[Callable[[Progress], None]]:
    """Show how far a long work is: which partition, rows and bytes per second, time left; for calls of any thread."""
    if not out.shows_progress:
        yield lambda work: None
        return
    with _bar(title, color=out.terminal.error_color) as show:
        started = time.monotonic()
        show(0, None, "")

        def report(work: Progress) -> None:
            seconds = max(time.monotonic() - started, 0.001)
            rates = f"{work.rows_done / seconds:,.0f} rows/s, {human_size(int(work.bytes_done / seconds))}/s"
            place = f"{work.partitions_done:,} of {work.partitions:,} partitions ({shown(work.partition)}), "
            show(work.bytes_done, work.bytes, (place if work.partitions > 1 else "") + rates)

        yield report
