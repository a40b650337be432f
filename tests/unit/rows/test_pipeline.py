"""Ordered work in threads."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from acidctl.rows.pipeline import BYTES_IN_FLIGHT, ordered_map, read_ahead
from tests.support.orc_bombs import texts
from tests.support.orc_mutations import put_together


def test_results_come_in_the_order_of_the_items() -> None:
    """However long each piece of work takes."""

    def slow(n: int) -> int:
        time.sleep(random.random() / 200)
        return n * n

    assert list(ordered_map(slow, range(40), workers=4)) == [n * n for n in range(40)]


def test_the_stream_is_not_read_far_ahead() -> None:
    """Memory is bounded: a consumer that stops reading stops the producer."""
    read: list[int] = []

    def items() -> Iterator[int]:
        for n in range(1000):
            read.append(n)
            yield n

    results = ordered_map(lambda n: n, items(), workers=2)
    assert next(results) == 0
    assert len(read) <= 8
    assert isinstance(results, Generator)
    results.close()


def test_large_items_are_read_one_by_one() -> None:
    """Bytes bound what is read ahead, however few items they are."""
    read: list[int] = []

    def items() -> Iterator[int]:
        for n in range(6):
            read.append(n)
            yield n

    ahead = []
    for result in ordered_map(lambda n: n, items(), workers=4, size=lambda n: BYTES_IN_FLIGHT // 2 + 1):
        ahead.append(len(read) - result)
    assert max(ahead) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("command", [("dump", "-d"), ("snapshot", "-o", "jsonl")])
def test_wide_rows_are_in_memory_one_by_one(command: tuple[str, ...], tmp_path: Path) -> None:
    """Ten rows of 24 MB, which a file of some kilobytes may well hold: a batch of all would need over 900 MB.

    Both commands need about 100 MB for nothing, and a row several times: compressed, as Arrow has it, quoted, written.
    """
    size, rows = 24 << 20, 10
    lengths = (bytes([0x40 | 27 << 1, 0]) + size.to_bytes(4, "big")) * rows
    (tmp_path / "000000_0").write_bytes(put_together(texts(lengths, b"a" * size * rows, rows)))
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run([sys.executable, '-m', 'acidctl', *sys.argv[1:]], capture_output=True)\n"
        "print(done.returncode, len(done.stdout), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)\n"
    )
    measured = subprocess.run([sys.executable, "-c", code, *command, str(tmp_path)], capture_output=True, check=True)
    status, written, peak_mb = map(int, measured.stdout.split())
    assert (status, written > size * rows) == (0, True)
    assert peak_mb < 400


def test_an_error_appears_after_the_results_before_it() -> None:
    """What was right is not lost when a later item fails."""

    def fails_at_three(n: int) -> int:
        if n == 3:
            raise ValueError("three")
        return n

    results = ordered_map(fails_at_three, range(9), workers=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)


def test_reading_ahead_keeps_items_and_order() -> None:
    """What the thread produces is what comes out."""
    assert list(read_ahead(iter(range(100)))) == list(range(100))


def test_reading_ahead_raises_in_place() -> None:
    """Items before the error come first."""

    def items() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    ahead = read_ahead(items())
    assert next(ahead) == 1
    with pytest.raises(ValueError, match="broken"):
        next(ahead)


def test_a_closed_reader_ends_its_thread_and_closes_the_source() -> None:
    """Nothing runs on after a consumer that has seen enough, and it was never far ahead."""
    produced: list[int] = []
    closed: list[bool] = []

    def items() -> Iterator[int]:
        try:
            for n in range(1000):
                produced.append(n)
                yield n
        finally:
            closed.append(True)

    ahead = read_ahead(items(), depth=2)
    assert next(ahead) == 0
    assert isinstance(ahead, Generator)
    ahead.close()
    assert closed == [True]
    assert len(produced) <= 5
    assert not [t for t in threading.enumerate() if t.name == "acidctl-read-ahead"]


WAITING = ("__enter__", "__exit__", "acquire", "release", "wait", "notify", "set")


def test_an_interrupt_at_any_step_of_reading_ahead() -> None:
    """Ctrl-C comes between any two instructions; whoever reads must not wait for ever then, nor must the thread."""

    def interrupted_at(step: int) -> bool:
        seen = 0

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal seen
            name = Path(frame.f_code.co_filename).name
            # What starts and ends threads has locks of all threads, which a real signal does not leave held.
            waits = name == "threading.py" and frame.f_code.co_name in WAITING
            if name not in ("pipeline.py", "queue.py") and not waits:
                return None
            frame.f_trace_opcodes = True
            seen += event == "opcode"
            if event == "opcode" and seen == step:
                raise KeyboardInterrupt
            return trace

        def read() -> None:
            items = read_ahead(iter(range(4)))
            next(items)
            with suppress(KeyboardInterrupt):
                sys.settrace(trace)
                try:
                    list(items)
                finally:
                    sys.settrace(None)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(10)
        assert not reader.is_alive(), step
        return seen >= step

    steps = 0
    while interrupted_at(steps + 1):
        steps += 1
    assert steps > 20
