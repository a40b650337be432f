"""Delete deltas in great number, and one whose statistics lie: all deletes count, by few open files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from acidctl import open_table
from acidctl.compaction.plan import WriterSettings
from acidctl.compaction.report import Outcome
from acidctl.errors import DamagedDataError
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.orc.protobuf import Message, block, number, rewritten, zigzagged
from acidctl.orc.tail import read_tail
from acidctl.orc.tail_edit import STATISTICS, sealed
from acidctl.orc.writer import write_orc
from acidctl.types.hive_types import StructType
from acidctl.types.schema import parse_type

COLUMNS = parse_type("struct<a:int>")
BUCKET = encode(0, 0)
DELTAS, EACH = 150, 3


def _write(folder: Path, keys: EventKeys, columns: tuple[pa.Array, ...]) -> Path:
    assert isinstance(COLUMNS, StructType)
    folder.mkdir(parents=True)
    (folder / "_orc_acid_version").write_bytes(b"2")
    path = folder / "bucket_00000"
    with path.open("wb") as sink:
        write_orc(sink, [EventBatch(keys, columns)], COLUMNS, WriterSettings(), acid=True, metadata={})
    return path


def _insert(root: Path, count: int) -> None:
    rows = np.arange(count)
    keys = EventKeys(np.full(count, 1), np.full(count, BUCKET), rows, np.full(count, 1))
    _write(root / "delta_0000001_0000001_0000", keys, (pa.array(rows, pa.int32()),))


def _delete(root: Path, write_id: int, rows: Sequence[int]) -> Path:
    count = len(rows)
    keys = EventKeys(
        np.full(count, 1),
        np.full(count, BUCKET),
        np.array(sorted(rows)),
        np.full(count, write_id),
        np.full(count, Operation.DELETE),
    )
    return _write(root / f"delete_delta_{write_id:07}_{write_id:07}_0000", keys, ())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["minor", "major"])
def test_many_delete_deltas_need_few_open_files(kind: str, tmp_path: Path) -> None:
    """Each deletes everywhere, so that all overlap; fewer files may be open than there are."""
    _insert(tmp_path, 2 * DELTAS * EACH)
    chosen = np.random.default_rng(7).permutation(2 * DELTAS * EACH)[: DELTAS * EACH]
    for i in range(DELTAS):
        _delete(tmp_path, 2 + i, chosen[i * EACH : (i + 1) * EACH].tolist())
    before = open_table(str(tmp_path)).snapshot().count_and_digest()
    assert before[0] == DELTAS * EACH
    command = [sys.executable, "-m", "acidctl", "compact", kind, str(tmp_path), "--assume-committed"]
    limited = ["sh", "-c", 'ulimit -n 100 && exec "$@"', "sh", *command, "--assume-exclusive", "-o", "json"]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, '"outcome":"compacted"' in done.stdout) == (0, True), done.stdout + done.stderr
    assert open_table(str(tmp_path)).snapshot().count_and_digest() == before
    assert not list(tmp_path.glob("_acidctl*"))


def test_wrong_statistics_bring_no_row_back(tmp_path: Path) -> None:
    """A file that contradicts its own statistics is damaged: no delete is left out by what they say."""
    _insert(tmp_path, 50)
    path = _delete(tmp_path, 2, [3, 4])
    data = path.read_bytes()
    with path.open("rb") as stream:
        tail = read_tail(stream, name=str(path))
    statistics = list(Message(tail.footer).blobs(STATISTICS))
    wrong = zigzagged(77)
    # Column 2 is originalTransaction; the field 2 of its statistics are the bounds of an integer.
    statistics[2] = number(1, 2) + block(2, number(1, wrong) + number(2, wrong)) + number(10, 0)
    footer = rewritten(tail.footer, {STATISTICS: statistics})
    post = tail.postscript
    end = len(data) - 1 - post.length
    path.write_bytes(data[: end - post.footer_length] + sealed(footer, data[end:-1], post.compression, post.block_size))
    table = open_table(str(tmp_path))
    for ask in (lambda: table.snapshot().count(), lambda: table.snapshot().to_batches().read_all()):
        with pytest.raises(DamagedDataError, match="contradicts itself"):
            ask()
    (part,) = table.compact("major", assume_committed=True).partitions
    assert (part.outcome, part.reason_code) == (Outcome.FAILED, "damaged")
    assert not list(tmp_path.glob("base_*"))
