"""The files of a location, opened: of one that is small all is kept, of another its tail, for when it is opened again.

A file is opened for what its tail says, then for its keys, for a sample, for its rows. Thousands of small ones would
each cost as many requests, and have the same bytes taken apart as often.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from threading import Lock
from typing import BinaryIO

from acidctl.fileformats.plain import PlainFiles, RowFile
from acidctl.format.names import must_hold_events, must_not_hold_events
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.tail import Tail, can_fetch, check_shape, read_range
from acidctl.rows.belief import logical_length
from acidctl.state.inventory import DataFile
from acidctl.storage.port import Storage, join
from acidctl.values import dataclass

#: Files of so many bytes are read whole.
SMALL_BYTES = 64 << 10
# What is kept of a location, tails and small files: bytes, and what is made of them. Files are read in the same order
# again and again, so that those that came first stay: the least recently used would be the next to be read.
_KEPT_BYTES, _BESIDE = 48 << 20, 12 << 10


@dataclass(slots=True, eq=False)
class Opener:
    """Opens the files of a location, for any thread: `plain` those of an insert-only table, None elsewhere."""

    storage: Storage
    root: str
    plain: PlainFiles | None
    _tails: dict[tuple[str, int | None], Tail] = field(default_factory=dict)
    _whole: dict[str, OrcFile] = field(default_factory=dict)
    _room: int = _KEPT_BYTES
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def open(self, file: DataFile, insert_only: bool) -> Iterator[RowFile | None]:
        """The file, open up to its logical end and closed with the block; None when that end is 0."""
        path = join(self.root, file.info.path)
        known = self._whole.get(path)
        if known is not None:
            yield known
            return
        length = logical_length(self.storage, self.root, file)
        if length == 0:
            yield None
            return
        with self.storage.open(path) as stream:
            yield self._opened(stream, path, file, length, insert_only)

    def _opened(self, stream: BinaryIO, path: str, file: DataFile, length: int | None, insert_only: bool) -> RowFile:
        tail = self._tails.get((path, length))
        if tail is not None:
            return OrcFile(stream, tail)
        name = self.storage.display(path)
        other = None if self.plain is None else self.plain.open(stream, name)
        if other is not None:
            return other
        if length is None and not insert_only and file.info.size <= SMALL_BYTES:
            stream = in_memory(stream, name)
        # In insert-only tables no place tells whether a file may hold events.
        events = not insert_only and must_hold_events(file.info.path)
        orc = open_orc(stream, name=name, length=length, events=events)
        check_shape(orc.tail, rows=not insert_only and must_not_hold_events(file.info.path))
        with self._lock:
            whole = orc.whole is not None
            cost = (orc.tail.file_length if whole else len(orc.tail.footer)) + _BESIDE
            if cost <= self._room:
                self._room -= cost
                if whole:
                    self._whole[path] = orc
                else:
                    self._tails[path, length] = orc.tail
        return orc


def in_memory(stream: BinaryIO, name: str) -> BinaryIO:
    """The same file, its bytes read at once, if it is small as the storage has it now."""
    size = stream.seek(0, 2)
    if size > SMALL_BYTES:
        return stream
    if can_fetch(stream):
        stream.prefetch([(0, size)])
    return io.BytesIO(read_range(stream, 0, size, name))
