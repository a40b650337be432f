"""The unit of work and what comes back: plain values that travel to worker processes and to Spark executors."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from acidctl.compaction.plan import InputEntry, KeyCut, PlannedTask, TableFacts
from acidctl.compaction.verify import Expected, verify_file
from acidctl.orc.writer import WrittenFile
from acidctl.storage.port import Storage, join

#: What the digest of a file that was put together byte by byte begins with, instead of `stored_digest.VERSION`.
BYTES_DIGEST = "sha256:"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task, or one part of one.

    `url` and `storage_options` open the location; `work` is its work directory (a name below the location) in which
    `attempts/` exists. `inputs` are the entries of the task's own files and delete files, with no other files.
    `lower` (inclusive) and `upper` (exclusive) bound the keys of a part. For a JOIN, `parts` are the paths of the
    finished parts below the work directory, in key order. `hosts` are the machines that hold the most of what is read,
    the best first, where that is known; `storage_options` may hold secrets, and are no part of any text made of this.
    """

    url: str
    work: str
    table: TableFacts
    task: PlannedTask
    inputs: tuple[InputEntry, ...]
    part: int | None = None
    lower: KeyCut | None = None
    upper: KeyCut | None = None
    parts: tuple[TaskResult, ...] = ()
    hosts: tuple[str, ...] = ()
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def output(self) -> str:
        """The file that it makes, below the location."""
        return self.task.output

    @property
    def bytes_in(self) -> int:
        """Bytes that it reads."""
        return self.task.bytes_in


@dataclass(frozen=True, slots=True)
class FileRead:
    """What a task has read of a file: the events that its tail promises, and those that came by bucket property.

    `path` is relative to the location. A part of a bucket reads a part of the file; the parts together all of it.
    """

    path: str
    rows: int
    buckets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A finished task: what it read and what it wrote.

    `path` is the file below the work directory, unique to the attempt; None when there was nothing to write.
    `rows_in` counts the stored events that were read, `hidden` those of aborted writes, `deletes_applied` the rows that
    delete events removed. `counts` are (write id, bucket property, rows) of the output. `digest` is that of the merged
    input (`stored_digest`), and equals that of the file read back: a task that finds otherwise fails. `peak_memory` is
    in bytes, of the process that ran it. `read` are the files of a full ACID table that were read, `committed` and
    `hidden_ids` the write ids whose events were taken or left out.
    """

    output: str
    path: str | None
    rows: int
    bytes: int
    rows_in: int = 0
    hidden: int = 0
    deletes_applied: int = 0
    counts: tuple[tuple[int, int, int], ...] = ()
    digest: str = ""
    writer: str = ""
    seconds: float = 0.0
    peak_memory: int = 0
    read: tuple[FileRead, ...] = ()
    committed: tuple[int, ...] = ()
    hidden_ids: tuple[int, ...] = ()

    @classmethod
    def nothing(cls, spec: TaskSpec) -> TaskResult:
        """The result of a task whose inputs hold no rows."""
        return cls(spec.output, None, 0, 0)


# --- Attempts of tasks: files in the work directory that no two runs of a task share.


ATTEMPTS_DIRECTORY = "attempts"
_RANDOM_BYTES = 6


class Attempt:
    """A file below `attempts/` that this run of a task alone writes; `path` is relative to the work directory."""

    def __init__(self, storage: Storage, root: str, spec: TaskSpec) -> None:
        part = "" if spec.part is None else f"p{spec.part}-"
        name = f"{spec.task.output.replace('/', '__')}.{part}{os.urandom(_RANDOM_BYTES).hex()}"
        self._output = spec.task.output
        self.path = f"{ATTEMPTS_DIRECTORY}/{name}"
        self._storage = storage
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
        """The file for writing, once; durable after the block, gone when the block fails."""
        with self._storage.create(self._place, self._like) as sink:
            yield sink

    def open(self) -> BinaryIO:
        """The file for reading, after it was written."""
        return self._storage.open(self._place)

    def size(self) -> int:
        """Its bytes on the storage."""
        found = self._storage.stat(self._place)
        return 0 if found is None else found.size

    def verified(self, written: WrittenFile, expected: Expected, *, threads: bool) -> TaskResult:
        """The result of an attempt that wrote an ORC file, which is read back first; errors as `verify_file`."""
        verify_file(self.open, self.name, expected, threads=threads)
        return TaskResult(
            output=self._output,
            path=self.path,
            rows=written.rows,
            bytes=written.bytes,
            counts=expected.counts,
            digest=expected.digest,
            writer=written.backend.value,
        )
