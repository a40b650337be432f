"""Files in the work directory that no two runs of a task share, from their creation to their verification."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import BinaryIO

from acidctl.compaction.plan import TaskResult, TaskSpec
from acidctl.compaction.verify import Expected, verify_file
from acidctl.maintenance.work_dir import ATTEMPTS
from acidctl.orc.writer import WrittenFile
from acidctl.phases import phase
from acidctl.storage.local import together
from acidctl.storage.port import Storage, join

_RANDOM_BYTES = 6


class Attempt:
    """A file below `attempts/` that this run of a task alone writes; `path` is relative to the work directory."""

    def __init__(self, storage: Storage, root: str, spec: TaskSpec) -> None:
        part = "" if spec.part is None else f"p{spec.part}-"
        name = f"{spec.task.output.replace('/', '__')}.{part}{os.urandom(_RANDOM_BYTES).hex()}"
        self.path = f"{ATTEMPTS}/{name}"
        self._storage = storage
        self._is_part = spec.part is not None
        self._place = join(root, f"{spec.work}/{self.path}")
        # Nobody may read it who may not read what it is made of.
        files = [info.path for entry in spec.inputs for info in entry.files]
        self._like = join(root, files[0] if files else spec.work)

    @property
    def name(self) -> str:
        """The file as a user would name it."""
        return self._storage.display(self._place)

    @contextmanager
    def create(self) -> Iterator[BinaryIO]:
        """The file for writing, once; durable after the block, gone when the block fails. Its name is so when it is
        published under another.
        """
        with together(self._place, lasting=False), self._storage.create(self._place, self._like) as sink:
            yield sink

    def open(self) -> BinaryIO:
        """The file for reading, after it was written."""
        return self._storage.open(self._place)

    def size(self) -> int:
        """Its bytes on the storage."""
        found = self._storage.stat(self._place)
        return 0 if found is None else found.size

    def verified(self, written: WrittenFile, expected: Expected, read: TaskResult, *, threads: bool) -> TaskResult:
        """The result of an attempt that wrote an ORC file, which is read back first; errors as `verify_file`.

        `read` is the result of the task as far as it has read.
        """
        with phase("verify"):
            found = verify_file(self.open, self.name, expected, threads=threads, fingerprints=self._is_part)
        return replace(self.result(written, expected, read), fingerprints=found)

    def result(self, written: WrittenFile, expected: Expected, read: TaskResult) -> TaskResult:
        """The result of an attempt that was verified."""
        return replace(
            read,
            path=self.path,
            rows=written.rows,
            bytes=written.bytes,
            counts=expected.counts,
            digest=expected.digest,
            writer=written.backend.value,
        )
