"""What a Rust library that panics writes: it prints to descriptor 2 by itself, before there is an exception.

That cannot be switched off. So a program that writes to a copy of its stderr (`cli.stderr`) says so by `own`; from the
first use of such a library on (`divert`) the descriptor itself leads into a file, and `give_back` returns what others
than panics wrote to it. It is a file, because a pipe that this process reads could block whoever writes.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

STDERR = 2
# Where, why, and as much else as the environment asks for: more of it begins with spaces.
_PANIC = (
    rb"(?m)\n?^thread '[^\n]*' (?:\(\d+\) )?panicked at [^\n]*:\n[^\n]*\n(?: [^\n]*\n)*"
    rb"(?:stack backtrace:\n(?: [^\n]*\n)*)?(?:note: [^\n]*RUST_BACKTRACE[^\n]*\n)?"
)


class _Stderr:
    """The copy of descriptor 2 that the program writes to, and the file to which the descriptor itself leads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.copy: int | None = None
        self.file: int | None = None


_stderr = _Stderr()


def own(copy: int) -> None:
    """From now on, this program itself writes to a copy of descriptor 2."""
    _stderr.copy = copy


def divert(temporary_file: Callable[[], IO[Any]]) -> None:
    """To be called before a library that may panic is used; where no program owns stderr, nothing happens."""
    # The file is made by whoever calls: every command loads this module, and `tempfile` takes longer than all of it.
    with _stderr.lock:
        if _stderr.copy is None or _stderr.file is not None:
            return
        # Without room for a file, panics are shown.
        with suppress(OSError), temporary_file() as file:
            os.dup2(file.fileno(), STDERR)
            _stderr.file = os.dup(STDERR)


def give_back(*, with_panics: bool) -> bytes:
    """Let descriptor 2 lead where it led before; what was written to it meanwhile."""
    with _stderr.lock:
        file, copy = _stderr.file, _stderr.copy
        _stderr.file = _stderr.copy = None
    if file is None or copy is None:
        return b""
    os.dup2(copy, STDERR)
    # By position: programs that still run write on at its end.
    text = os.pread(file, os.fstat(file).st_size, 0)
    os.close(file)
    return text if with_panics else without_panics(text)


def live_stderr() -> int:
    """The descriptor for child processes whose errors should be seen at once."""
    return STDERR if _stderr.copy is None else _stderr.copy


def without_panics(text: bytes) -> bytes:
    """What others wrote."""
    return re.sub(_PANIC, b"", text)
