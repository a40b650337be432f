"""Hive 3.1.3, and 2.3.10 for ACID v1 tables, on a Java 8: version descriptions for `hive.Hive`.

    with start_hive("3.1.3", tmp_path) as hive:
        hive.run("create table t (id int) stored as orc tblproperties ('transactional'='true')")

Both run their metastore in memory. In 2.3 transaction ids are write ids, so an answer has no write-id list, and
START TRANSACTION is accepted only after SET AUTOCOMMIT FALSE.
"""

from __future__ import annotations

from pathlib import Path

from . import jdk8, jvm
from .hive import COMMON_SETTINGS, Hive, HiveVersion
from .jvm import Jvm


def _metastore(java: Jvm, folder: Path, files: tuple[Path, ...]) -> None:
    java.java.acidctl.Services.createMetastore()


OLD_SETTINGS = {
    **COMMON_SETTINGS,
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    # A task in parallel saves nothing here, and waiting for counters costs a second per job.
    "mapreduce.local.map.tasks.maximum": "1",
    "mapreduce.local.reduce.tasks.maximum": "1",
    "hive.exec.counters.pull.interval": "50",
    # Open transactions must outlive a long run.
    "hive.txn.timeout": "100000s",
    # Else START TRANSACTION is refused in 3.1, which offers it to tests only.
    "hive.in.test": "true",
}

HIVE3 = HiveVersion(
    name="hive3",
    pom=jvm.HERE / "hive3" / "pom.xml",
    java_folders=("shared", "hive23", "hive34", "hive3"),
    java_options=("-Xmx1500m",),
    java_home=jdk8.java8_home,
    prepare=_metastore,
    settings={
        **OLD_SETTINGS,
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.query.results.cache.enabled": "false",
        "hive.server2.materializedviews.registry.impl": "DUMMY",
        "hive.notification.event.poll.interval": "0s",
    },
)

HIVE2 = HiveVersion(
    name="hive2",
    pom=jvm.HERE / "hive2" / "pom.xml",
    java_folders=("shared", "hive23", "hive2"),
    java_options=("-Xmx1500m",),
    java_home=jdk8.java8_home,
    prepare=_metastore,
    settings={
        **OLD_SETTINGS,
        "datanucleus.connectionPoolingType": "BONECP",
        "fs.file.impl": "acidctl.HdfsLikeFileSystem",
        # It leaves a staging folder in the table after every update; their names would differ in every run.
        "hive.exec.stagingdir": "{folder}/hive-staging/stage",
    },
)

VERSIONS = {"3.1.3": HIVE3, "2.3.10": HIVE2}


def start_hive(version: str, folder: Path) -> Hive:
    """A running Hive of release `3.1.3` or `2.3.10` with an empty warehouse at `folder`/warehouse; close it."""
    return Hive(VERSIONS[version], folder)
