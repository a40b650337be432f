"""A storage that is as far away as a server: directories are listed one by one, files read by counted requests."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from acidctl.storage.port import Descend, PathStat, Storage, Walk
from acidctl.storage.prefetch import TUNING, Budget, RangedFile, Tuning
from acidctl.storage.remote import DirectoryEntry, walk_tree

_MEMORY = 256 << 20


@dataclass
class Requests:
    """What was asked of a server: ranges as (path, offset, length), and how often each other thing."""

    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    listings: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    probed: Counter[str] = field(default_factory=Counter)
    #: Called with each range before its bytes are handed out.
    before: Callable[[str, int, int], None] = lambda path, offset, length: None

    @property
    def bytes(self) -> int:
        """All bytes that were handed out."""
        return sum(length for _, _, length in self.ranges)


def ranged(data: bytes, requests: Requests, path: str = "f", tuning: Tuning = TUNING) -> RangedFile:
    """Bytes as a file on a server; its memory is its own, whatever other tests have left open."""
    lock = threading.Lock()

    def read_at(offset: int, length: int) -> bytes:
        with lock:
            requests.ranges.append((path, offset, length))
        requests.before(path, offset, length)
        return data[offset : offset + length]

    return RangedFile(read_at, len(data), name=path, tuning=tuning, budget=Budget(_MEMORY))


class DistantStorage:
    """Another storage, reached by requests; the verbs that change it go through as they are.

    `children` has the entries of every directory, for a tree that is too large to be looked up in the other storage.
    """

    def __init__(self, inner: Storage, children: Mapping[str, Sequence[DirectoryEntry]] | None = None) -> None:
        self._inner = inner
        self._children = children
        self.requests = Requests()

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def stat(self, path: str) -> PathStat | None:
        self.requests.probed[path] += 1
        if self._children is not None:
            return PathStat(True, 0, 0.0) if path in self._children else None
        return self._inner.stat(path)

    def walk(self, root: str, descend: Descend | None = None) -> Walk:
        return walk_tree(self._list, root, descend)

    def open(self, path: str) -> BinaryIO:
        self.requests.opened[path] += 1
        with self._inner.open(path) as stream:
            return cast(BinaryIO, ranged(stream.read(), self.requests, path))

    def _list(self, path: str) -> Sequence[DirectoryEntry]:
        self.requests.listings[path] += 1
        if self._children is not None:
            return self._children[path]
        found = self._inner.walk(path, lambda name: "/" not in name)
        return [
            *(DirectoryEntry(name, True) for name in found.directories),
            *(
                DirectoryEntry(info.path, False, info.size, info.modified)
                for info in found.files
                if "/" not in info.path
            ),
        ]


def children_of(root: str, files: Iterable[str]) -> dict[str, list[DirectoryEntry]]:
    """The entries of all directories of a tree, given as paths of files below its root, each of a byte."""
    children: dict[str, list[DirectoryEntry]] = {root: []}
    for file in files:
        _siblings(children, root, file).append(DirectoryEntry(file.rpartition("/")[2], False, 1, 0.0))
    return children


def _siblings(children: dict[str, list[DirectoryEntry]], root: str, path: str) -> list[DirectoryEntry]:
    """The entries of the directory above a path, which is made known to its own parents when it is new."""
    parent = path.rpartition("/")[0]
    place = f"{root}/{parent}" if parent else root
    if place not in children:
        _siblings(children, root, parent).append(DirectoryEntry(parent.rpartition("/")[2], True))
        children[place] = []
    return children[place]
