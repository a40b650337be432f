"""Progress on stderr, for a person who watches; Rich is loaded only when there is something to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from acidctl.cli.output import Output

# Takes what is done so far and the total, None when nobody knows it.
Report = Callable[[int, int | None], None]

# What is done sooner needs no bar.
_PATIENCE = 0.5


@contextmanager
def progress(out: Output, title: str, unit: str) -> Iterator[Report]:
    """Show how far work is: a bar and the time left, or a count where no total is known."""
    if not out.shows_progress:
        yield lambda done, total: None
        return
    started = time.monotonic()
    shown: Report | None = None
    with ExitStack() as stack:

        def report(done: int, total: int | None) -> None:
            nonlocal shown
            if shown is None:
                if time.monotonic() - started < _PATIENCE:
                    return
                shown = stack.enter_context(_bar(title, unit, color=out.terminal.error_color))
            shown(done, total)

        yield report


@contextmanager
def _bar(title: str, unit: str, *, color: bool) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[said]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, force_terminal=True, no_color=not color)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, said="")

        def show(done: int, total: int | None) -> None:
            said = f"{done:,} {unit}" if total is None else f"{done:,} of {total:,} {unit}"
            bar.update(task, completed=done, total=total, said=said)

        yield show
