"""pytest fixtures for real services: `from services.fixtures import hive4` in a test module or a conftest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .hdfs import Hdfs
from .hive import HIVE4, Hive
from .hive3 import start_hive


@pytest.fixture(scope="session")
def hive4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """Real Hive 4.0.1 with an empty warehouse, one for the whole session; tests drop what they make."""
    with Hive(HIVE4, tmp_path_factory.mktemp("hive4") / "run") as hive:
        yield hive


@pytest.fixture(scope="session")
def hive3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """Real Hive 3.1.3 on Java 8, likewise."""
    with start_hive("3.1.3", tmp_path_factory.mktemp("hive3") / "run") as hive:
        yield hive


@pytest.fixture(scope="session")
def hive2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """Real Hive 2.3.10 on Java 8, which writes ACID v1, likewise."""
    with start_hive("2.3.10", tmp_path_factory.mktemp("hive2") / "run") as hive:
        yield hive


@pytest.fixture(scope="session")
def hdfs_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A NameNode and a DataNode, one pair for the whole session; tests undo their faults and remove their files."""
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as hdfs:
        yield hdfs
