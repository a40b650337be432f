"""What any test may ask for: services, each started once per session at its first use, and storages without pauses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.services.fixtures import hdfs_cluster, hdfs_pair, hive2, hive3, hive4, httpfs, moto, secure_hdfs, versitygw

__all__ = ["hdfs_cluster", "hdfs_pair", "hive2", "hive3", "hive4", "httpfs", "moto", "secure_hdfs", "versitygw"]


@pytest.fixture
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two tries: a storage that fails by design does so however long one waits."""
    monkeypatch.setattr("acidctl.storage.retry.time", SimpleNamespace(sleep=lambda seconds: None))
