"""Stripes are copied on HDFS and S3 as on local disks, by long ranges of the source and few of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import acidctl
from acidctl.compaction import stripes
from acidctl.compaction.plan import WriterSettings
from acidctl.format.bucket_codec import encode
from acidctl.format.events import EventBatch, EventKeys, Operation
from acidctl.orc.writer import write_orc
from acidctl.storage.prefetch import RangedFile
from acidctl.types.schema import parse_schema
from tests.services.hdfs import Hdfs
from tests.services.s3 import S3Server
from tests.support.orc_events import keys
from tests.support.specs import COLUMNS, delta, write_events

ROWS = 60_000
STRIPE_BYTES = 256 << 10


def make(folder: Path) -> None:
    """A base of some megabytes in many stripes, and deletes in two of them."""
    numbered = keys(ROWS)
    batch = EventBatch(
        EventKeys(numbered.write_id, numbered.bucket * 0 + encode(0), numbered.row_id, numbered.write_id),
        (pa.array(range(ROWS)), pa.array([f"{i * 2654435761 % 2**32:064x}" for i in range(ROWS)])),
    )
    base = folder / "base_0000001"
    base.mkdir(parents=True)
    settings = WriterSettings(compression="none", stripe_size=STRIPE_BYTES)
    with (base / "bucket_00000").open("wb") as sink:
        pieces = [batch.slice(start, start + 1000) for start in range(0, ROWS, 1000)]
        write_orc(sink, pieces, parse_schema(COLUMNS).columns, settings, acid=True, metadata={})
    write_events(folder, "delete_" + delta(2), [7, ROWS - 7], write_id=1, current=2, operation=Operation.DELETE)


def check(url: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compact with copies: the same rows as before, and the base came in few requests."""
    monkeypatch.setattr(stripes, "SMALL_SHARE", 1 << 40)
    asked: list[tuple[str, int]] = []
    plain = RangedFile.__init__

    def counting(self: RangedFile, read_at: Any, size: int, *, name: str, **more: Any) -> None:
        def noted(offset: int, length: int) -> bytes:
            asked.append((name, length))
            return bytes(read_at(offset, length))

        plain(self, noted, size, name=name, **more)

    table = acidctl.open_table(url, **options)
    before = table.snapshot().count_and_digest()
    monkeypatch.setattr(RangedFile, "__init__", counting)
    (part,) = table.compact("major", assume_committed=True, assume_exclusive=True).partitions
    monkeypatch.undo()
    assert part.outcome.value == "compacted", part
    assert part.stripes_encoded == {"deleted": 2}
    assert part.stripes_copied is not None
    assert part.stripes_copied >= 8
    assert table.snapshot().count_and_digest() == before
    of_base = [length for name, length in asked if "/base_0000001/" in name]
    assert part.bytes_in is not None
    # Planning, key columns, rows of two stripes, and what is copied: not a request for each stripe and stream.
    assert len(of_base) <= 24, of_base
    # Between keys of stripes as small as these lie gaps that are fetched along.
    assert sum(of_base) <= 4 * part.bytes_in


@pytest.mark.s3
def test_on_s3(moto: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are written in parts and read by ranges."""
    make(tmp_path / "t")
    bucket = moto.bucket()
    moto.put_tree(tmp_path / "t", bucket, "t")
    check(f"s3://{bucket}/t", {"storage_options": moto.options}, monkeypatch)


@pytest.mark.hdfs
def test_on_hdfs(hdfs_cluster: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of DataNodes are read by ranges."""
    make(tmp_path / "t")
    hdfs_cluster.put_tree(tmp_path / "t", "/stitched")
    check(f"{hdfs_cluster.url}/stitched", {}, monkeypatch)
