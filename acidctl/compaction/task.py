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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from itertools import chain
from typing import BinaryIO

import numpy as np

from acidctl.compaction.inputs import PlainRows, TaskEvents
from acidctl.compaction.insert_only import rewrite_plain
from acidctl.compaction.plan import Role, TaskResult, TaskSpec
from acidctl.compaction.verify import Attempt, Expected
from acidctl.engine import TaskOutcome
from acidctl.errors import AcidctlError, DamagedDataError, InternalError, VerificationError
from acidctl.format.events import EventBatch, Operation, keys_of
from acidctl.format.names import BASE_PREFIX, DELETE_DELTA_PREFIX
from acidctl.orc.acidmeta import TARGET
from acidctl.orc.reader import OrcFile, open_orc
from acidctl.orc.writer import Backend, NeedsExactWriter, StripeRun, WrittenFile, mismatch, stitch, write_orc
from acidctl.rows.pipeline import read_ahead
from acidctl.storage.port import Storage, join
from acidctl.storage.resolve import resolve
from acidctl.types.digest import RowDigest, combined
from acidctl.types.hive_types import StructType
from acidctl.types.schema import parse_type

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
    role = spec.task.role
    if role is Role.JOIN:
        result = join_parts(spec, storage, root, threads=threads)
    elif role is Role.BYTES or (role is Role.ROWS and spec.table.file_format != "orc"):
        result = rewrite_plain(spec, storage, root)
    else:
        plain = role is Role.ROWS
        events = PlainRows(spec, storage, root) if plain else TaskEvents(spec, storage, root, threads=threads)
        try:
            result = _write(spec, storage, root, events, Backend.ARROW, threads)
        except NeedsExactWriter:
            # Which values there are shows while they pass; then everything is written once more, value by value.
            result = _write(spec, storage, root, events, Backend.EXACT, threads)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Of this process so far, in bytes.
    return replace(
        result,
        seconds=time.monotonic() - started,
        peak_memory=peak if sys.platform == "darwin" else peak * 1024,
    )


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


def _write(
    spec: TaskSpec,
    storage: Storage,
    root: str,
    events: TaskEvents | PlainRows,
    backend: Backend,
    threads: bool,
) -> TaskResult:
    role, metadata = spec.task.role, {TARGET: spec.table.dialect.encode()}
    acid = role is not Role.ROWS
    digest, counts = RowDigest(), Counter[tuple[int, int]]()

    def measured() -> Iterator[EventBatch]:
        """What goes into the file, taken note of as it passes."""
        for batch in events:
            keys = batch.keys if acid else None
            digest.update(keys, batch.columns)
            if keys is not None:
                heads = keys.run_heads()
                for head, rows in zip(heads, np.diff(heads, append=len(keys)), strict=True):
                    counts[int(keys.write_id[head]), int(keys.bucket[head])] += int(rows)
            yield batch

    stream = read_ahead(measured()) if threads else measured()
    with closing(stream):  # type: ignore[type-var]
        first = next(stream, None)
        if first is None:
            return events.read
        attempt = Attempt(storage, root, spec)
        batches, columns, settings = chain([first], stream), events.columns, spec.table.writer
        with attempt.create() as sink:
            written = write_orc(sink, batches, columns, settings, acid=acid, metadata=metadata, backend=backend)
    expected = Expected(
        rows=digest.rows,
        digest=digest.hexdigest(),
        columns=str(columns),
        counts=_sorted(counts),
        acid=acid,
        operation=Operation.DELETE if role is Role.DELETES else Operation.INSERT,
        collapsed=role is Role.SURVIVING,
        bucket_id=spec.task.bucket_id,
        metadata=metadata,
    )
    return attempt.verified(written, expected, events.read, threads=threads)


def _sorted(counts: Counter[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """(write id, bucket property, rows), ascending."""
    return tuple((write_id, bucket, rows) for (write_id, bucket), rows in sorted(counts.items()))


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


# --- The finished parts of a large bucket as one file.


def join_parts(spec: TaskSpec, storage: Storage, root: str, *, threads: bool = True) -> TaskResult:
    """A task with role JOIN: stripes are copied as they are, the tail is made anew; see `compaction.task.run_task`.

    Parts that two ORC libraries wrote do not fit together and are written once more. Counts of what was read stay with
    the parts.
    """
    parts = [part for part in spec.parts if part.rows]
    nothing = TaskResult.nothing(spec)
    if not parts:
        return nothing
    if len(parts) == 1:
        # It was verified, and its name is as unique as any.
        part = parts[0]
        return replace(
            nothing,
            path=part.path,
            rows=part.rows,
            bytes=part.bytes,
            counts=part.counts,
            digest=part.digest,
            writer=part.writer,
        )
    counts: Counter[tuple[int, int]] = Counter()
    for part in parts:
        for write_id, bucket, rows in part.counts:
            counts[write_id, bucket] += rows
    columns = parse_type(spec.table.columns)
    assert isinstance(columns, StructType)
    metadata = {TARGET: spec.table.dialect.encode()}
    attempt = Attempt(storage, root, spec)
    with attempt.create() as sink, ExitStack() as stack:
        opened = [_opened(stack, storage, join(root, f"{spec.work}/{part.path}")) for part in parts]
        files = [orc for _, orc in opened]
        written: WrittenFile
        if any(mismatch(files[0].tail, orc.tail) for orc in files):
            settings = spec.table.writer
            written = write_orc(
                sink, _events(files), columns, settings, acid=True, metadata=metadata, backend=Backend.EXACT
            )
        else:
            written = stitch(sink, [StripeRun(stream, orc.tail) for stream, orc in opened])
    expected = Expected(
        rows=sum(part.rows for part in parts),
        digest=combined([part.digest for part in parts]),
        parts=tuple((part.rows, part.digest) for part in parts),
        columns=str(columns),
        counts=_sorted(counts),
        operation=Operation.DELETE if spec.task.output.startswith(DELETE_DELTA_PREFIX) else Operation.INSERT,
        collapsed=spec.task.output.startswith(BASE_PREFIX),
        bucket_id=spec.task.bucket_id,
        metadata=metadata,
    )
    return attempt.verified(written, expected, nothing, threads=threads)


def _opened(stack: ExitStack, storage: Storage, place: str) -> tuple[BinaryIO, OrcFile]:
    """A finished part, open for as long as the stack."""
    stream = stack.enter_context(storage.open(place))
    try:
        return stream, open_orc(stream, name=storage.display(place))
    except DamagedDataError as error:
        raise VerificationError(
            f"a part that had been verified has changed: {error.message}",
            path=storage.display(place),
            hint="Nothing of it is published; the table is as it was. Run compact again.",
        ) from error


def _events(files: Sequence[OrcFile]) -> Iterator[EventBatch]:
    """The events of the parts, in their order."""
    for orc in files:
        for batch in orc.scan():
            keys = keys_of(batch, name=orc.name)
            row = batch.column("row")
            deletes = keys.operation is not None
            columns = () if deletes else tuple(row.field(i) for i in range(row.type.num_fields))
            yield EventBatch(keys, columns)
