"""Progress is for somebody who watches, and only when there is something to wait for."""

from __future__ import annotations

import sys
from io import BytesIO

import pytest

from acidctl.cli import output as module
from acidctl.cli.output import Format, Output, Terminal, progress


def _output(form: Format = Format.TEXT, *, terminal: bool = True, quiet: bool = False) -> Output:
    return Output(Terminal(BytesIO(), BytesIO(), stderr_is_terminal=terminal), form, quiet=quiet)


def test_long_work_shows_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Title, count and total on stderr; nothing on stdout."""
    monkeypatch.setattr(module, "PATIENCE", 0)
    with progress(_output(), "reading", "rows") as report:
        report(1, 3)
        report(3, 3)
    captured = capsys.readouterr()
    assert "reading" in captured.err
    assert "3 of 3 rows" in captured.err
    assert captured.out == ""


def test_quick_work_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """What is done within half a second needs no bar."""
    with progress(_output(), "reading", "rows") as report:
        report(1, None)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "out", [_output(terminal=False), _output(quiet=True), _output(Format.JSON), _output(Format.CSV)]
)
def test_nobody_watches(out: Output, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a terminal, -q, or a machine's form."""
    monkeypatch.setattr(module, "PATIENCE", 0)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress(out, "reading", "rows") as report:
        report(1, 3)
    assert capsys.readouterr().err == ""
