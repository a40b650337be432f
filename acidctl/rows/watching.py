"""How far the reading of a table is: rows and bytes of its files, counted where they are read.

What is read is counted in the bytes of its file, by the share of the file's rows, so that there is a total before any
file is open. What need not be read at all (an answer from the ends of files, stripes that are skipped) counts when its
partition is done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from acidctl.values import dataclass

if TYPE_CHECKING:
    from acidctl.format.events import EventBatch
    from acidctl.rows.source import DataSource


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """Rows that were read, also those that are deleted, and bytes of data files: those that are done, and all."""

    rows: int
    bytes: int
    bytes_in_all: int


class ReadWatch:
    """Counts what is read, for any number of threads; `report` is called by whoever reads."""

    def __init__(self, bytes_in_all: int, report: Callable[[ReadProgress], None]) -> None:
        self._in_all = bytes_in_all
        self._report = report
        self._rows = self._done = 0
        self._under_way: dict[str, float] = {}
        self._lock = threading.Lock()

    def attach(self, sources: Sequence[DataSource]) -> None:
        """Count what is read of these files."""
        for source in sources:
            source.through = self._count

    def _count(self, source: DataSource, events: Iterator[EventBatch]) -> Iterator[EventBatch]:
        share = source.bytes / max(source.facts.rows, 1)
        for batch in events:
            with self._lock:
                self._rows += len(batch)
                so_far = self._under_way.get(source.name, 0.0) + share * len(batch)
                self._under_way[source.name] = min(so_far, source.bytes)
                self._tell()
            yield batch

    def finish(self, names: Sequence[str], bytes: int) -> None:
        """Nothing more is read of these files, of so many bytes together."""
        with self._lock:
            for name in names:
                self._under_way.pop(name, None)
            self._done += bytes
            self._tell()

    def end(self) -> None:
        """Nothing more is read at all."""
        with self._lock:
            self._done = self._in_all
            self._tell()

    def _tell(self) -> None:
        done = min(self._done + int(sum(self._under_way.values())), self._in_all)
        self._report(ReadProgress(self._rows, done, self._in_all))
