"""One task: the live files of one bucket in, one verified file out. The same function on every engine.

A task knows its spec and nothing else. It writes under a name that no other attempt has, reads back what it wrote, and
leaves nothing behind when it fails, so that engines may run it as often as they like.
"""

from __future__ import annotations

import pickle
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from acidctl.compaction.attempts import Attempt
from acidctl.compaction.inputs import TaskEvents
from acidctl.compaction.plan import Role
from acidctl.compaction.spec import TaskResult, TaskSpec
from acidctl.compaction.verify import Expected
from acidctl.engine.base import TaskOutcome
from acidctl.errors import AcidctlError, InternalError
from acidctl.format.events import EventBatch, Operation
from acidctl.orc.acidmeta import TARGET
from acidctl.orc.writer import Backend, NeedsExactWriter, WrittenFile, write_orc
from acidctl.rows.pipeline import read_ahead
from acidctl.storage.port import Storage
from acidctl.storage.resolve import resolve
from acidctl.types.stored_digest import RowDigest

# More inputs than that do not overlap, or are put together before they are opened.
_OPEN_FILES = 1 << 16


def run_task(spec: TaskSpec, *, threads: bool = True) -> TaskResult:
    """Do a task and verify what it wrote; the result names the file, or none when there was nothing to write.

    `threads` lets decoding, hashing and encoding run side by side, for when the machine has cores to spare.
    Raises DamagedDataError for inputs that cannot be read or merged, VerificationError when the file does not
    hold what was merged, StorageError.
    """
    started = time.monotonic()
    _allow_open_files()
    storage, root = resolve(spec.url, spec.storage_options)
    if spec.task.role in (Role.ROWS, Role.BYTES):
        from acidctl.compaction.insert_only import rewrite_plain

        result = rewrite_plain(spec, storage, root, threads=threads)
    elif spec.task.role is Role.JOIN:
        from acidctl.compaction.joining import join_parts

        result = join_parts(spec, storage, root, threads=threads)
    else:
        result = _rewrite(spec, storage, root, threads)
    return replace(result, seconds=time.monotonic() - started, peak_memory=_peak_memory())


def _allow_open_files() -> None:
    """As many as the system lets this process have: inputs that overlap are open side by side."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def outcome_of(index: int, spec: TaskSpec, threads: bool = True) -> TaskOutcome:
    """`run_task` for engines: what went wrong is in the outcome, in a form that can be pickled."""
    try:
        return TaskOutcome(index, run_task(spec, threads=threads))
    except AcidctlError as problem:
        error = _portable(problem)
    except MemoryError:
        error = AcidctlError(
            f"there was not enough memory to write {spec.task.output}",
            hint="Run fewer tasks at a time: a smaller --parallelism or --memory.",
        )
    except Exception as problem:
        text = " ".join(str(problem).split())
        what = f"unexpected {type(problem).__name__}" + (f": {text}" if text else "")
        error = InternalError(f"{what} (while writing {spec.task.output})")
    return TaskOutcome(index, error=error)


@dataclass(slots=True)
class Measured:
    """What goes into a file: its digest, and its rows by write id and bucket property."""

    digest: RowDigest = field(default_factory=RowDigest)
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)

    def __call__(self, batches: Iterable[EventBatch]) -> Iterator[EventBatch]:
        """The same batches, taken note of as they pass."""
        for batch in batches:
            keys = batch.keys
            self.digest.update(keys, batch.columns)
            heads = keys.run_heads()
            for head, rows in zip(heads, np.diff(heads, append=len(keys)), strict=True):
                self.counts[int(keys.write_id[head]), int(keys.bucket[head])] += int(rows)
            yield batch

    def sorted_counts(self) -> tuple[tuple[int, int, int], ...]:
        """(write id, bucket property, rows), ascending."""
        return tuple((write_id, bucket, rows) for (write_id, bucket), rows in sorted(self.counts.items()))


def _rewrite(spec: TaskSpec, storage: Storage, root: str, threads: bool) -> TaskResult:
    events = TaskEvents(spec, storage, root, threads=threads)
    try:
        return _write(spec, storage, root, events, Backend.ARROW, threads)
    except NeedsExactWriter:
        # Which values there are shows while they pass; then everything is written once more, value by value.
        return _write(spec, storage, root, events, Backend.EXACT, threads)


def _write(
    spec: TaskSpec, storage: Storage, root: str, events: TaskEvents, backend: Backend, threads: bool
) -> TaskResult:
    metadata = {TARGET: spec.table.dialect.encode()}
    measured = Measured()
    stream = measured(events)
    if threads:
        stream = read_ahead(stream)
    with closing(stream):  # type: ignore[type-var]
        first = next(stream, None)
        written: WrittenFile | None = None
        if first is not None:
            attempt = Attempt(storage, root, spec)
            with attempt.create() as sink:
                written = write_orc(
                    sink,
                    chain([first], stream),
                    events.columns,
                    spec.table.writer,
                    acid=True,
                    metadata=metadata,
                    backend=backend,
                )
    read: dict[str, Any] = {
        "rows_in": events.rows_in,
        "hidden": events.hidden,
        "deletes_applied": events.deletes_applied,
        "read": events.read,
        "committed": events.committed,
        "hidden_ids": events.hidden_ids,
    }
    if written is None:
        return TaskResult(output=spec.task.output, path=None, rows=0, bytes=0, **read)
    expected = Expected(
        rows=measured.digest.rows,
        digest=measured.digest.hexdigest(),
        columns=str(events.columns),
        counts=measured.sorted_counts(),
        operation=Operation.DELETE if spec.task.role is Role.DELETES else Operation.INSERT,
        collapsed=spec.task.role is Role.SURVIVING,
        bucket_id=spec.task.bucket_id,
        metadata=metadata,
    )
    return replace(attempt.verified(written, expected, threads=threads), **read)


def _portable(error: AcidctlError) -> AcidctlError:
    """The error as it is where it can be pickled, else one that reads the same."""
    try:
        if type(pickle.loads(pickle.dumps(error))) is type(error):
            return error
    except Exception:
        pass
    plain = AcidctlError(error.message, path=error.path, hint=error.hint)
    plain.exit_code, plain.code = error.exit_code, error.code
    return plain


def _peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
