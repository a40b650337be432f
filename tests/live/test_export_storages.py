"""Exports to real storages: the files of a local export, and nothing beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acidctl import open_table
from acidctl.errors import ExistsError
from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from tests import ROOT
from tests.services.hdfs import Hdfs
from tests.services.s3 import S3Server

PARTITIONED = ROOT / "fixtures/tables/hive4/partitioned/03-one-compacted/table"

FOLDERS = {"partitioned": True}


@pytest.mark.s3
def test_exports_to_s3(moto: S3Server, tmp_path: Path) -> None:
    """A file, a directory, a replaced directory."""
    bucket = moto.bucket()
    _check(f"s3://{bucket}/exports", moto.options, tmp_path)
    assert [key for key in moto.keys(bucket) if "/." in key] == []


@pytest.mark.hdfs
@pytest.mark.parametrize("scheme", ["hdfs", "webhdfs"])
def test_exports_to_hdfs(hdfs_cluster: Hdfs, scheme: str, tmp_path: Path) -> None:
    """By both clients."""
    hdfs_cluster.mkdir(f"/exports-{scheme}", mode="777")
    root = hdfs_cluster.url if scheme == "hdfs" else hdfs_cluster.webhdfs
    _check(f"{root}/exports-{scheme}", {}, tmp_path)


def _check(place: str, options: dict[str, Any], tmp_path: Path) -> None:
    snapshot = open_table(str(PARTITIONED)).snapshot()
    each: tuple[tuple[str, dict[str, Any]], ...] = (("rows.parquet", {}), ("rows.csv.gz", {}), ("parts", FOLDERS))
    for to, how in each:
        snapshot.export(f"{place}/{to}", storage_options=options, **how)
        snapshot.export(f"{tmp_path}/{to}", **how)
        with pytest.raises(ExistsError, match="exists already"):
            snapshot.export(f"{place}/{to}", storage_options=options, **how)
    snapshot.export(f"{place}/parts", storage_options=options, partitioned=True, overwrite=True)
    storage, path = resolve(place, options)
    found = _files(storage, path)
    local, root = resolve(str(tmp_path))
    assert found == _files(local, root)
    assert len(found) == 7


def _files(storage: Storage, path: str) -> dict[str, bytes]:
    found = {}
    for info in storage.walk(path).files:
        with storage.open(f"{path}/{info.path}") as stream:
            found[info.path] = stream.read()
    return found
