"""This program's own stderr, apart from what libraries write to descriptor 2 behind Python's back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from acidctl.storage import panics


@contextmanager
def own_stderr(*, with_panics: bool) -> Iterator[None]:
    """Inside, `sys.stderr` writes to a copy of the descriptor; at the end, what libraries wrote follows, but panics."""
    before, known = sys.stderr, sys.__stderr__
    if not _is_descriptor(before):
        yield
        return
    copy = os.dup(panics.STDERR)
    panics.own(copy)
    # Never closed: threads that an interrupt has left at work may still write to it.
    stream = os.fdopen(copy, "w", buffering=1, encoding=before.encoding, errors=before.errors, closefd=False)
    # The second one is what libraries ask for the width of the terminal.
    sys.stderr = sys.__stderr__ = stream  # type: ignore[misc]
    try:
        yield
    finally:
        with suppress(OSError, ValueError):  # nobody listens
            stream.flush()
        sys.stderr, sys.__stderr__ = before, known  # type: ignore[misc]
        with suppress(OSError), os.fdopen(copy, "wb", closefd=False) as out:
            out.write(panics.give_back(with_panics=with_panics))


def _is_descriptor(stream: object) -> bool:
    try:
        return stream.fileno() == panics.STDERR and os.fstat(panics.STDERR) is not None  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
