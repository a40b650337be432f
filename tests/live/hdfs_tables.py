"""Tables of fixtures in a Hive whose warehouse is on HDFS, and how acidctl is told where they are."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.live.adopted import Adopted
from tests.live.compactions import Adopt
from tests.services.hdfs import Hdfs
from tests.services.hive import Hive

SCHEMES = ("hdfs", "webhdfs")


def root_url(hdfs: Hdfs, scheme: str) -> str:
    """The root of the file system by one of the two ways to it, without a slash at its end."""
    return hdfs.url if scheme == "hdfs" else hdfs.webhdfs


class AdoptedOnHdfs(Adopted):
    """A table whose files lie on `hdfs`; acidctl reaches it by `scheme`."""

    def __init__(self, hive: Hive, step: Path, name: str, *, hdfs: Hdfs, scheme: str) -> None:
        self._hdfs = hdfs
        self._scheme = scheme
        self.path = f"/warehouse/{name}"
        super().__init__(hive, step, name)

    @property
    def location(self) -> str:
        return f"{self._hdfs.url}{self.path}"

    @property
    def url(self) -> str:
        return f"{root_url(self._hdfs, self._scheme)}{self.path}"

    def _fill(self, source: Path) -> None:
        self._hdfs.remove(self.path)
        self._hdfs.put_tree(source, self.path)

    def listed(self) -> list[str]:
        return [path[len(self.path) + 1 :] for path in self._hdfs.list(self.path)]


def on_hdfs(hdfs: Hdfs, scheme: str) -> Adopt:
    """What makes a table of a fixture there."""
    return partial(AdoptedOnHdfs, hdfs=hdfs, scheme=scheme)
