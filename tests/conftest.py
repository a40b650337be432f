"""The services that any test may ask for; each is started once per session, at its first use."""

from __future__ import annotations

from services.fixtures import hdfs_cluster, hdfs_pair, hive2, hive3, hive4, httpfs, moto, secure_hdfs, versitygw

__all__ = ["hdfs_cluster", "hdfs_pair", "hive2", "hive3", "hive4", "httpfs", "moto", "secure_hdfs", "versitygw"]
