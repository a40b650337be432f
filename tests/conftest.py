"""What any test may ask for: services, each started once per session at its first use, and storages without pauses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests.services.fixtures import (
    hdfs_cluster,
    hdfs_pair,
    hive2,
    hive3,
    hive4,
    httpfs,
    metastore3,
    metastore4,
    moto,
    secure_hdfs,
    secure_metastore,
    spark_session,
    versitygw,
)

__all__ = [
    "hdfs_cluster",
    "hdfs_pair",
    "hive2",
    "hive3",
    "hive4",
    "httpfs",
    "metastore3",
    "metastore4",
    "moto",
    "secure_hdfs",
    "secure_metastore",
    "spark_session",
    "versitygw",
]

# How fast a machine makes examples, beside other stages, says nothing of the code.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture
def nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two tries: a storage that fails by design does so however long one waits."""
    monkeypatch.setattr("acidctl.storage.retry.time", SimpleNamespace(sleep=lambda seconds: None))
