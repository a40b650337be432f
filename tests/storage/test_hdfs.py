"""`hdfs://` through hdfs-native, against a real HDFS."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from services.hdfs import Hdfs

from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from tests.storage.conformance import Make, WritingStorage

pytestmark = pytest.mark.hdfs

_NUMBERS = itertools.count(1)


def _folder() -> str:
    return f"/storage-{next(_NUMBERS)}"


class TestHdfs(WritingStorage):
    """Every promise of the port."""

    @pytest.fixture
    def make(self, hdfs_cluster: Hdfs) -> Make:
        """A tree in a folder of its own, made by the adapter's own verbs, parents first."""

        def make(files: Mapping[str, bytes]) -> tuple[Storage, str]:
            storage, root = resolve(hdfs_cluster.url + _folder())
            storage.mkdir(root)
            made = {""}
            for name, data in files.items():
                parts = name.split("/")[:-1]
                for depth in range(len(parts)):
                    parent = "/".join(parts[: depth + 1])
                    if parent not in made:
                        storage.mkdir(f"{root}/{parent}")
                        made.add(parent)
                if not name.endswith("/"):
                    storage.create_exclusive(f"{root}/{name}", data)
            return storage, root

        return make
