"""Small files that ask for much end soon, with little memory, as damaged data."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from acidctl.errors import ExitCode
from tests.cli.runner import acidctl
from tests.support import orc_bombs
from tests.support.orc_mutations import put_together

SECONDS, MEGABYTES = 5, 500
COMMANDS = (["ls", "--rows"], ["dump"], ["dump", "-d", "-n", "5"], ["snapshot", "-o", "jsonl"], ["compact", "major"])


def _codes(table: Path, file: Path) -> tuple[list[int], float, int]:
    """Exit codes of all commands in one child, the longest time of one, and the child's most memory in MB."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        codes, longest = [], 0.0
        for command in COMMANDS:
            target = file if command[0] == "dump" else table
            options = ["--assume-committed", "--table-type", "insert-only"] if command[0] == "compact" else []
            began = time.process_time()
            codes.append(int(acidctl(*command, *options, str(target)).code))
            longest = max(longest, time.process_time() - began)
        os.write(writing, repr((codes, longest)).encode())
        os._exit(0)
    _, status, usage = os.wait4(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    assert status == 0, answer
    codes, longest = eval(answer)
    return codes, longest, usage.ru_maxrss >> 10


@pytest.mark.slow
@pytest.mark.parametrize("name", [*orc_bombs.BOMBS, *orc_bombs.ASIDE])
def test_a_bomb(name: str, tmp_path: Path) -> None:
    """Every command says 13; statistics of stripes are asked for by some commands only."""
    data = put_together({**orc_bombs.BOMBS, **orc_bombs.ASIDE}[name]())
    assert len(data) < 600_000
    file = tmp_path / "t" / "delta_0000001_0000001_0000" / "000000_0"
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    # A second write gives compaction something to do.
    other = tmp_path / "t" / "delta_0000002_0000002_0000" / "000000_0"
    other.parent.mkdir()
    other.write_bytes(data)
    codes, longest, memory = _codes(tmp_path / "t", file)
    print(name, len(data), codes, round(longest, 2), memory)
    assert longest < SECONDS
    assert ExitCode.FAILED not in codes
    if name in orc_bombs.BOMBS:
        assert codes[2] == codes[3] == codes[4] == ExitCode.DAMAGED
    assert set(codes) <= {ExitCode.DONE, ExitCode.FINDINGS, ExitCode.DAMAGED}


def test_a_limit_ends_a_stripe_of_many_rows(tmp_path: Path) -> None:
    """128 million rows of one value in a kilobyte: five of them are printed, and the rest is not decoded."""
    file = tmp_path / "000000_0"
    file.write_bytes(put_together(orc_bombs.longs(250_000 * 512)))
    began = time.process_time()
    result = acidctl("dump", "-d", "-n", "5", str(file))
    assert (result.code, result.stdout.count('{"a":7}')) == (0, 5)
    assert time.process_time() - began < SECONDS
