"""Small files that ask for much end soon, with little memory, as damaged data."""

from __future__ import annotations

import io
import resource
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest

from acidctl.errors import ExitCode
from acidctl.orc import rle as guard
from acidctl.orc.codec import Compression
from acidctl.orc.protobuf import number
from acidctl.orc.reader import open_orc
from tests.cli.runner import acidctl
from tests.support import orc_bombs
from tests.support.extent import some
from tests.support.orc_mutations import put_together

SECONDS, MEGABYTES = 5, 500
#: The numbers from 0 to 511, as one run.
RAMPS = bytes([0xC1, 0xFF, 0, 2])
COMMANDS = {
    orc_bombs.LS: ["ls", "--rows"],
    orc_bombs.REPORT: ["dump"],
    orc_bombs.INDEXES: ["dump", "-r", "*"],
    orc_bombs.DATA_ROWS: ["dump", "-d", "-n", "5"],
    orc_bombs.SNAPSHOT: ["snapshot", "-o", "jsonl"],
    orc_bombs.COMPACT: ["compact", "major", "--assume-committed"],
}
# A child of a process that has run other tests would count their memory as its own.
_FRESH = get_context("forkserver")
EVERY = {**orc_bombs.BOMBS, **orc_bombs.MORE}


def _codes(table: Path, file: Path, *options: str) -> tuple[dict[str, int], float, int]:
    """Exit codes of all commands in one process, the longest time of one, and the most memory in MB.

    `options` are for those that take a table's type.
    """
    ours, theirs = _FRESH.Pipe(duplex=False)
    child = _FRESH.Process(target=_run_all, args=(theirs, table, file, options))
    child.start()
    theirs.close()
    try:
        answer: tuple[dict[str, int], float, int] = ours.recv()
    except EOFError:
        child.join()
        pytest.fail(f"the process died: {child.exitcode}")
    child.join()
    return answer


def _run_all(answers: Connection, table: Path, file: Path, options: tuple[str, ...]) -> None:
    # Of addresses: 200 columns with buffers for blocks of 8 MB take 8 GB of them in three scans, and little memory.
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    codes, longest = {}, 0.0
    for name, command in COMMANDS.items():
        target = [str(file)] if command[0] == "dump" else [*(() if command[0] == "ls" else options), str(table)]
        began = time.process_time()
        codes[name] = int(acidctl(*command, *target).code)
        longest = max(longest, time.process_time() - began)
    answers.send((codes, longest, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10))


def _table(root: Path, name: str, *files: bytes) -> Path:
    """A table of as many writes as there are files; that of the first."""
    for write, data in enumerate(files, 1):
        file = root / f"delta_{write:07}_{write:07}_0000" / name
        file.parent.mkdir(parents=True)
        file.write_bytes(data)
    return root / "delta_0000001_0000001_0000" / name


def test_there_are_bombs_of_our_own() -> None:
    """Those of the first list are of the attack that found them; as many again are not."""
    assert len(orc_bombs.BOMBS) >= 9
    assert len(orc_bombs.MORE) + len(HUGE) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name", some(EVERY, one_of=6))
def test_a_bomb(name: str, tmp_path: Path) -> None:
    """The commands that read what is wrong say 13, the others are done, each soon and with little memory."""
    bomb = EVERY[name]
    data = put_together(bomb.build(1) if bomb.acid else bomb.build())
    assert len(data) < 600_000
    # A second write gives compaction something to do.
    if bomb.acid:
        file = _table(tmp_path / "t", "bucket_00000", data, put_together(bomb.build(2)))
    else:
        file = _table(tmp_path / "t", "000000_0", data, data)
    options = () if bomb.acid else ("--table-type", "insert-only")
    codes, longest, memory = _codes(tmp_path / "t", file, *options)
    print(name, len(data), codes, round(longest, 2), memory)
    expected = dict.fromkeys(codes, ExitCode.DONE)
    expected |= dict.fromkeys(bomb.met_by, ExitCode.DAMAGED) | dict.fromkeys(bomb.noted_by, ExitCode.FINDINGS)
    assert codes == expected
    assert longest < SECONDS
    assert memory < MEGABYTES


#: Files beside the data, of so many bytes, most of which are on no disk; and the commands that say 13.
HUGE = {
    # Insert-only tables have no side files: snapshot calls it neither ORC nor Parquet.
    "delta_0000001_0000001_0000/000000_0_flush_length": orc_bombs.FOOTERS - {orc_bombs.COMPACT, orc_bombs.SNAPSHOT},
    "delta_0000001_0000001_0000/_metadata_acid": orc_bombs.NONE,
    "delta_0000001_0000001_0000/_orc_acid_version": orc_bombs.NONE,
    "_orc_acid_version": orc_bombs.NONE,
    "_acidctl_work_0123456789abcdef/owner.json": orc_bombs.NONE,
    "_acidctl_work_0123456789abcdef/journal.json": orc_bombs.NONE,
    "_acidctl_lock": orc_bombs.NONE,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", some(HUGE))
def test_a_huge_file_beside(name: str, tmp_path: Path) -> None:
    """Markers, side files and acidctl's own: of 8 GB no more is read than they can mean."""
    data = put_together(orc_bombs.longs(512))
    file = _table(tmp_path / "t", "000000_0", data, data)
    beside = tmp_path / "t" / name
    beside.parent.mkdir(exist_ok=True)
    with open(beside, "wb") as stream:
        stream.truncate(8 << 30)
    codes, longest, memory = _codes(tmp_path / "t", file, "--table-type", "insert-only")
    print(name, codes, round(longest, 2), memory)
    assert {command for command, code in codes.items() if code == ExitCode.DAMAGED} == HUGE[name]
    assert longest < SECONDS
    assert memory < MEGABYTES


def _wide(rows: int, size: int, compression: Compression) -> bytes:
    """Texts of a byte that takes turns, so many and so long, in the first encoding that comes to mind."""
    lengths = orc_bombs._direct(size) * rows
    data = b"".join(bytes([97 + i % 26]) * size for i in range(rows))
    streams = ((orc_bombs.LENGTH, 1, lengths), (orc_bombs.DATA, 1, data))
    return put_together(orc_bombs.column((orc_bombs._TEXT,), streams, rows, compression=compression))


@pytest.mark.slow
@pytest.mark.parametrize("compression", [Compression.ZLIB, Compression.ZSTD])
def test_wide_rows_come_a_few_at_a_time(compression: Compression) -> None:
    """300 texts of 300 kB in a stripe of a hundred kilobytes: no batch is larger than the limit, all come."""
    file = open_orc(io.BytesIO(_wide(300, 300_000, compression)), name="f")
    given, before = 0, pa.total_allocated_bytes()
    for batch in file.scan():
        assert batch.nbytes <= guard._BATCH_BYTES
        assert [text.as_py()[0] for text in batch.column(0)] == [
            chr(97 + i % 26) for i in range(given, given + len(batch))
        ]
        given += len(batch)
        assert pa.total_allocated_bytes() - before < 10 * guard._BATCH_BYTES
    assert given == 300


@pytest.mark.slow
def test_equal_values_are_no_bomb(tmp_path: Path) -> None:
    """What compresses as well as anything can: 200,000 long texts and lists, all equal, with and without dictionary."""
    table = pa.table(
        {"t": ["x" * 1000] * 200_000, "l": [[1, 2, 3]] * 200_000, "b": pa.array([bytes(200)] * 200_000, pa.binary())}
    )
    for compression in ("zlib", "zstd"):
        for threshold in (0.0, 1.0):
            sink = io.BytesIO()
            po.write_table(table, sink, compression=compression, dictionary_key_size_threshold=threshold)
            assert len(sink.getvalue()) < 2_000_000
            assert sum(len(batch) for batch in open_orc(sink, name="f").scan()) == 200_000


def test_a_limit_ends_a_stripe_of_many_rows(tmp_path: Path) -> None:
    """128 million rows of one value in a kilobyte: five of them are printed, and the rest is not decoded."""
    file = tmp_path / "000000_0"
    file.write_bytes(put_together(orc_bombs.longs(250_000 * 512)))
    began = time.process_time()
    result = acidctl("dump", "-d", "-n", "5", str(file))
    assert (result.code, result.stdout.count('{"a":7}')) == (0, 5)
    assert time.process_time() - began < SECONDS


def test_a_scan_that_is_given_up_ends(tmp_path: Path) -> None:
    """Ten thousand million rows of one value: a snapshot of five of them reads on no further."""
    file = tmp_path / "t" / "delta_0000001_0000001_0000" / "000000_0"
    file.parent.mkdir(parents=True)
    file.write_bytes(put_together(orc_bombs.longs(8_000_000 * 512)))
    began = time.process_time()
    result = acidctl("snapshot", "--table-type", "insert-only", "--limit", "5", "-o", "jsonl", str(tmp_path / "t"))
    assert (result.code, result.stdout.count('{"a":7}')) == (0, 5)
    assert time.process_time() - began < SECONDS


def test_rows_in_turns_are_all_rows() -> None:
    """A stripe of many more rows than fit a batch is read in turns, none of which repeats or leaves out a row."""
    rows = 500 * 512
    file = open_orc(io.BytesIO(put_together(orc_bombs.column((number(1, 4),), ((1, 1, RAMPS * 500),), rows))), name="f")
    values = np.concatenate([batch.column(0).to_numpy() for batch in file.scan(batch_size=100)])
    assert (values == np.tile(np.arange(512), 500)).all()
    assert [len(batch) for batch in file.scan(batch_size=100, limit=250)] == [100, 100, 50]
