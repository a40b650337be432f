"""pytest fixtures for real services, one of each for a whole session; `tests/conftest.py` offers them to all tests.

A test module does not import them: pytest would start the service once more for it. What they need is imported when
the first test asks, because most runs ask for none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .hdfs import Hdfs
    from .hdfs_pair import HdfsPair
    from .hive import Hive
    from .httpfs import HttpFs
    from .kerberos import Kerberos
    from .metastore import Metastore
    from .s3 import S3Server


@pytest.fixture(scope="session")
def hive4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """Real Hive 4.0.1 with an empty warehouse; tests drop what they make."""
    from .hive import HIVE4, Hive

    with Hive(HIVE4, tmp_path_factory.mktemp("hive4") / "run") as hive:
        yield hive


@pytest.fixture(scope="session")
def hive3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """Real Hive 3.1.3 on Java 8, likewise."""
    from .hive3 import start_hive

    with start_hive("3.1.3", tmp_path_factory.mktemp("hive3") / "run") as hive:
        yield hive


@pytest.fixture(scope="session")
def hive2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """Real Hive 2.3.10 on Java 8, which writes ACID v1, likewise."""
    from .hive3 import start_hive

    with start_hive("2.3.10", tmp_path_factory.mktemp("hive2") / "run") as hive:
        yield hive


@pytest.fixture(scope="session")
def metastore4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """Real Hive 4.0.1 that works through its metastore's Thrift port, likewise; tests leave it serving."""
    from .hive import HIVE4
    from .metastore import Metastore

    with Metastore(HIVE4, tmp_path_factory.mktemp("metastore4") / "run") as metastore:
        yield metastore


@pytest.fixture(scope="session")
def metastore3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metastore]:
    """Real Hive 3.1.3 on Java 8 that works through its metastore's Thrift port, likewise."""
    from .hive3 import HIVE3
    from .metastore import Metastore

    with Metastore(HIVE3, tmp_path_factory.mktemp("metastore3") / "run") as metastore:
        yield metastore


@pytest.fixture(scope="session")
def hdfs_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A NameNode and a DataNode, with TLS beside plain HTTP; tests undo their faults and remove their files."""
    from .hdfs import Hdfs

    with Hdfs(tmp_path_factory.mktemp("hdfs"), tls=True) as hdfs:
        yield hdfs


@pytest.fixture(scope="session")
def httpfs(hdfs_cluster: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpFs]:
    """A gateway before that HDFS."""
    from .httpfs import HttpFs

    with HttpFs(tmp_path_factory.mktemp("httpfs") / "run", hdfs_cluster) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def hdfs_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsPair]:
    """Two NameNodes behind one logical name, and a DataNode, likewise; either may be active."""
    from .hdfs_pair import HdfsPair

    with HdfsPair(tmp_path_factory.mktemp("hdfs-pair")) as hdfs:
        yield hdfs


@dataclass(frozen=True, slots=True)
class SecureHdfs:
    """An HDFS with its Kerberos realm."""

    hdfs: Hdfs
    realm: Kerberos


@pytest.fixture(scope="session")
def secure_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    """A realm, and a NameNode and a DataNode that ask for its tickets."""
    from .kerberos import Kerberos

    folder = tmp_path_factory.mktemp("secure")
    with Kerberos(folder / "realm") as realm, realm.hdfs(folder / "hdfs") as hdfs:
        yield SecureHdfs(hdfs, realm)


@dataclass(frozen=True, slots=True)
class SecureMetastore:
    """A metastore with its Kerberos realm."""

    metastore: Metastore
    realm: Kerberos


@pytest.fixture(scope="session")
def secure_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureMetastore]:
    """A realm, and a metastore of Hive 4.0.1 that asks for its tickets."""
    from .hive import HIVE4
    from .kerberos import Kerberos
    from .metastore import Metastore

    folder = tmp_path_factory.mktemp("secure-metastore")
    with Kerberos(folder / "realm") as realm, Metastore(HIVE4, folder / "run", realm) as metastore:
        yield SecureMetastore(metastore, realm)


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that keeps all in memory; each test takes a `bucket()` of its own."""
    from .s3 import moto_server

    with moto_server(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 gateway over a folder, likewise; skipped where there is no Go to build it with."""
    from .s3 import has_versitygw, versitygw_server

    if not has_versitygw():
        pytest.skip("versitygw needs Go 1.24 or newer to be built once")
    with versitygw_server(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """A local session of two cores; there is one in a process, so `make test` runs who asks for it in one."""
    from pyspark.sql import SparkSession

    from acidctl.engine.spark import SparkEngine

    with SparkEngine("local[2]", {"spark.sql.session.timeZone": "UTC", "spark.ui.enabled": "false"}) as engine:
        yield SparkSession(engine.start())
